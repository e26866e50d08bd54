"""Public doubles for tests of permissions, agents and loops.

`FakeHuman` answers from a list and keeps the questions; `tool_call` makes a call; `Recording` wraps a permission and
keeps what it was asked.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from agentperm_nb.calls import ToolCall
from agentperm_nb.context import new_id
from agentperm_nb.human import Human, parse_answer
from agentperm_nb.permissions.kinds import DecidePermission, Permission
from agentperm_nb.permissions.verdicts import Verdict
from agentperm_nb.tools import Tool

__all__ = ["FakeHuman", "Recording", "tool_call"]


def tool_call(name: str, /, **args: Any) -> ToolCall:
    """Return a call of a tool with these arguments and an id of its own."""
    return ToolCall(name, args, new_id("call"))


class FakeHuman(Human):
    """Answers from a list; an answer that does not fit the question is passed over.

    Args:
        answers: The answers, in order.
    """

    def __init__(self, answers: Iterable[Any]) -> None:
        self._answers: Iterator[Any] = iter(tuple(answers))
        self.questions: list[str] = []
        """The questions so far."""

    def __repr__(self) -> str:
        return f"FakeHuman({len(self.questions)} asked)"

    def ask(self, state: Any, prompt: str, returns: Any = str) -> Any:
        """Return the next answer that fits.

        Raises:
            RuntimeError: There is none left.
        """
        self.questions.append(prompt)
        for answer in self._answers:
            try:
                return parse_answer(answer, returns)
            except ValueError:
                continue
        raise RuntimeError(f"FakeHuman has no answer left for: {prompt}")

    async def aask(self, state: Any, prompt: str, returns: Any = str) -> Any:
        """Return the next answer that fits; see `ask`."""
        return self.ask(state, prompt, returns)


class Recording(DecidePermission):
    """Passes a call on to another permission and keeps what it was asked and what it said.

    Args:
        permission: The permission that decides.
    """

    blocking = False

    def __init__(self, permission: Permission) -> None:
        self.permission = permission
        self.calls: list[ToolCall] = []
        """The calls it was asked about, in order."""
        self.verdicts: list[Verdict | None] = []
        """What it said of each."""

    def __repr__(self) -> str:
        return f"Recording({self.permission!r})"

    def check(self, state: Any, call: ToolCall, tool: Tool) -> Verdict | None:
        """Ask the other permission."""
        verdict = self.permission.check(state, call, tool)
        self.calls.append(call)
        self.verdicts.append(verdict)
        return verdict
