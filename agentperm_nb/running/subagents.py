"""Agents as tools: a run inside a call of another run.

1. The tool's one argument is the prompt. Like every tool that says nothing of itself it is taken for the worst.
2. The calls inside are bound by the denies of the runs above (`running.nesting`).
3. A stop inside ends the inner run only: the call above is told who stopped it and why.
4. Whatever ends the inner run otherwise is an error result of the call above.
"""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, Any

from agentperm_nb.errors import ToolError
from agentperm_nb.results import result_form
from agentperm_nb.running.driving import loop_thread
from agentperm_nb.running.messages import Message
from agentperm_nb.running.recording import describe_error
from agentperm_nb.running.state import State
from agentperm_nb.tools import Tool

if TYPE_CHECKING:
    from agentperm_nb.running.agent import Agent

__all__ = ["AgentTool"]

_SCHEMA = {
    "type": "object",
    "properties": {"prompt": {"type": "string", "minLength": 1, "description": "What the agent is to do."}},
    "required": ["prompt"],
    "additionalProperties": False,
}


class AgentTool(Tool):
    """An agent as a tool of another one; ``tools=[agent]`` makes it.

    Args:
        agent: The agent; it has a model.
        name: The tool's name; the agent's when left out.
        description: What the model above is told; the agent's description when left out.

    Raises:
        ValueError: The agent's name is none that a tool can have.
    """

    def __init__(self, agent: Agent, *, name: str | None = None, description: str | None = None) -> None:
        told = description if description is not None else agent.description or f"Ask the agent {agent.name}."
        super().__init__(name if name is not None else agent.name, told, _SCHEMA)
        self.agent = agent

    @property
    def is_async(self) -> bool:
        """Whether running it gives something to await: on the event loop of an async run."""
        return loop_thread.get() == threading.get_ident() or self.agent.is_async

    def run(self, args: dict[str, Any]) -> Any:
        """Run the agent on the prompt; return its answer, or something to await for it.

        Raises:
            ToolError: The run ended in an exception.
        """
        state = State([Message.user(args["prompt"])])
        if self.is_async:
            return self._arun(state)
        try:
            answer = self.agent.run(state)
        except Exception as error:
            raise self._failed(error) from error
        finally:
            self.agent.forget_run(state)
        return self._said(state, answer)

    async def _arun(self, state: State) -> Any:
        try:
            answer = await self.agent.arun(state)
        except Exception as error:
            raise self._failed(error) from error
        finally:
            self.agent.forget_run(state)
        return self._said(state, answer)

    def _failed(self, error: Exception) -> ToolError:
        return ToolError(f"({self.name} failed: {describe_error(error)})")

    def _said(self, state: State, answer: Any) -> Any:
        from agentperm_nb.running.history import StoppedByBudget, StoppedByLimit, StoppedByPermission

        stopped = state.stopped
        if isinstance(stopped, StoppedByPermission):
            reason = next((result.reason for result in reversed(state.results) if result.call is stopped.call), "")
            said = f"({self.name} was stopped by the user: {reason})"
        elif isinstance(stopped, StoppedByBudget):
            said = f"({self.name} stopped because a budget is used up: {stopped.reason.removeprefix('budget:')})"
        elif isinstance(stopped, StoppedByLimit):
            turns = "1 turn" if stopped.turns == 1 else f"{stopped.turns} turns"
            said = f"({self.name} stopped after {turns} before finishing)"
        else:
            return answer
        return said if answer is None else f"{result_form(answer).text}\n{said}"
