"""Public doubles for tests of permissions, agents and loops.

`FakeHuman` answers from a list and keeps the questions; `ScriptedModel` replies from a list and keeps what it was told;
`tool_call` makes a call; `Recording` wraps a permission and keeps what it was asked.
"""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Self, cast

from agentperm_nb.calls import ToolCall
from agentperm_nb.context import new_id
from agentperm_nb.errors import fix_message
from agentperm_nb.human import Human, parse_answer
from agentperm_nb.permissions.builtin import DecideByHuman
from agentperm_nb.permissions.kinds import AllowPermission, DecidePermission, DenyPermission, Permission
from agentperm_nb.permissions.verdicts import Verdict
from agentperm_nb.running.messages import Message
from agentperm_nb.running.models import ToolSpec
from agentperm_nb.tools import Tool

__all__ = ["FakeHuman", "Recording", "ScriptedModel", "tool_call"]


def tool_call(name: str, /, **args: Any) -> ToolCall:
    """Return a call of a tool with these arguments and an id of its own."""
    return ToolCall(name, args, new_id("call"))


class FakeHuman(Human):
    """Answers from a list; an answer that does not fit the question is passed over.

    Args:
        answers: The answers, in order.

    Raises:
        TypeError: It is no list.
    """

    def __init__(self, answers: Iterable[Any]) -> None:
        self._answers = _listed("FakeHuman", "answers", answers, "FakeHuman(['yes', 'no'])")
        self._lock = threading.Lock()
        self.questions: list[str] = []
        """The questions so far."""

    def __repr__(self) -> str:
        return f"FakeHuman({len(self.questions)} asked)"

    @property
    def remaining(self) -> int:
        """How many answers are left."""
        return len(self._answers)

    def ask(self, state: Any, prompt: str, returns: Any = str) -> Any:
        """Return the next answer that fits.

        Raises:
            RuntimeError: There is none left.
        """
        with self._lock:
            self.questions.append(prompt)
            while self._answers:
                with contextlib.suppress(ValueError):
                    return parse_answer(self._answers.pop(0), returns)
        raise RuntimeError(f"FakeHuman has no answer left for: {prompt}")

    async def aask(self, state: Any, prompt: str, returns: Any = str) -> Any:
        """Return the next answer that fits; see `ask`."""
        return self.ask(state, prompt, returns)


class ScriptedModel:
    """Replies from a list, without a network.

    Args:
        replies: The replies, in order: a text, a `ToolCall`, a list of texts and calls, a `Message`, or the reply of a
            provider; an exception is raised; a function is called with (messages, tools), and returns the reply.
        name: What its repr says.

    Raises:
        TypeError: It is no list.
    """

    def __init__(self, replies: Iterable[Any], *, name: str = "scripted") -> None:
        self._replies = _listed("ScriptedModel", "replies", replies, "ScriptedModel([tool_call('act', n=1), 'Done.'])")
        self._lock = threading.Lock()
        self.name = name
        self.requests: list[tuple[tuple[Message, ...], tuple[ToolSpec, ...]]] = []
        """What it was told each time: the messages and the tools."""

    def __repr__(self) -> str:
        return f"ScriptedModel({self.name!r}, {self.remaining} left)"

    @property
    def remaining(self) -> int:
        """How many replies are left."""
        return len(self._replies)

    def __call__(self, messages: Sequence[Message], tools: Sequence[ToolSpec]) -> Any:
        """Return the next reply.

        Raises:
            RuntimeError: There is none left.
        """
        with self._lock:
            self.requests.append((tuple(messages), tuple(tools)))
            if not self._replies:
                raise RuntimeError(f"{self!r} was asked {len(self.requests)} times and has no reply left")
            reply = self._replies.pop(0)
        if isinstance(reply, BaseException):
            raise reply
        return reply(messages, tools) if callable(reply) else reply


def _listed(name: str, what: str, given: object, example: str) -> list[Any]:
    if isinstance(given, str | bytes | Mapping) or not isinstance(given, Iterable):
        raise TypeError(fix_message(f"{name} takes a list of {what} (got: {given!r})", "give a list", example))
    return list(given)


class Recording(Permission):
    """Passes a call on to another permission and keeps what it was asked and what it said.

    It is of the same kind as that permission, so a list with it decides as a list with the permission itself.

    Args:
        permission: The permission that decides.

    Raises:
        TypeError: It is not a permission.
    """

    def __new__(cls, permission: Permission | None = None) -> Self:
        """Make one of the permission's kind."""
        if cls is not Recording:  # as unpickling does
            return super().__new__(cls)
        made = next((made for kind, made in _RECORDING.items() if isinstance(permission, kind)), None)
        if made is None:
            problem = f"Recording takes a permission (got: {permission!r})"
            raise TypeError(fix_message(problem, "give one", "rule = Recording(DenyByName(['delete_*']))"))
        return cast("Self", Permission.__new__(made))

    def __init__(self, permission: Permission) -> None:
        self.permission = permission
        self.blocking: bool = permission.blocking
        self.reads_files: bool = permission.reads_files
        self.calls: list[ToolCall] = []
        """The calls it was asked about, in order."""
        self.verdicts: list[Verdict | None] = []
        """What it said of each."""

    def __repr__(self) -> str:
        return f"Recording({self.permission!r})"

    @property
    def human(self) -> Any:
        """Whom the permission asks, where it has a human of its own."""
        return getattr(self.permission, "human", None)

    @property
    def second_person(self) -> bool:
        """Whether the permission counts an approval only from a second person."""
        return bool(getattr(self.permission, "second_person", False))

    @property
    def timeout(self) -> float | None:
        """How long the permission lets whoever is asked take."""
        return getattr(self.permission, "timeout", None)

    def check(self, state: Any, call: ToolCall, tool: Tool) -> Verdict | None:
        """Ask the other permission."""
        ask = self._as_ask(call, tool)
        return self._kept(call, self.permission.check(state, call, tool) if ask is None else ask)

    async def acheck(self, state: Any, call: ToolCall, tool: Tool) -> Verdict | None:
        """Ask the other permission, awaited."""
        ask = self._as_ask(call, tool)
        return self._kept(call, await self.permission.acheck(state, call, tool) if ask is None else ask)

    def _as_ask(self, call: ToolCall, tool: Tool) -> Verdict | None:
        """Return what a DecideByHuman says in an agent, where the question is put with the others of the turn."""
        asked = self.permission
        return asked.as_ask(call, tool) if isinstance(asked, DecideByHuman) and not asked.asks_by_itself else None

    def _kept(self, call: ToolCall, verdict: Verdict | None) -> Verdict | None:
        self.calls.append(call)
        self.verdicts.append(verdict)
        return verdict


class _RecordingDeny(Recording, DenyPermission):
    pass


class _RecordingAllow(Recording, AllowPermission):
    pass


class _RecordingDecide(Recording, DecidePermission):
    pass


_RECORDING: dict[type[Permission], type[Permission]] = {
    DenyPermission: _RecordingDeny,
    AllowPermission: _RecordingAllow,
    DecidePermission: _RecordingDecide,
}
