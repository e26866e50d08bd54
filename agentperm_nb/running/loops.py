"""Loops: the order of asking the model and running what it wants, until the run is over.

1. A loop's body is one turn. Before each turn the loop looks whether the run is to stop: a permission stopped it, it is
   finished, a condition of ``until=`` is true, the limit is reached, or a budget is used up.
2. A stop by a permission or a budget, and `State.finish`, end outer loops too. An inner loop that has ended otherwise
   does not.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING, Any, overload

from agentperm_nb.errors import fix_message
from agentperm_nb.running.formats.spoken import is_paused
from agentperm_nb.running.state import State

if TYPE_CHECKING:
    from agentperm_nb.running.agent import Agent

__all__ = ["TURN_LIMIT", "Loop", "Until", "adefault_loop", "default_loop", "loop", "waiting_for_user"]

TURN_LIMIT = 50
"""Turns of a loop that was given no other limit."""

Until = Callable[[State], bool]
_EXAMPLE = (
    "@loop(until=waiting_for_user, limit=30)\n"
    "def coding(agent, state):\n"
    "    agent.think(state)\n"
    "    if state.pending_calls:\n"
    "        agent.use_tools(state)"
)


def waiting_for_user(state: State) -> bool:
    """Return whether the model has handed the turn back: its last message has no calls, and nothing came after it.

    A reply that its provider has paused is none: the model goes on when it is asked again.
    """
    snapshot = state.snapshot()
    if snapshot.pending_calls or not snapshot.messages:
        return False
    last = snapshot.messages[-1]
    paused = last.reply is not None and is_paused(last.reply)
    return last.role == "assistant" and not last.tool_calls and not paused


class Loop:
    """A loop over one turn; call it with an agent and a state, or give it to ``Agent(loop=…)``.

    Args:
        body: One turn, sync or async: ``body(agent, state)``.
        until: Conditions on which it ends, looked at before every turn.
        limit: How many turns one run of the loop may take.

    Raises:
        TypeError: An argument has the wrong type.
        ValueError: `limit` is not positive.
    """

    body: Callable[[Agent, State], Any]
    limit: int
    until: tuple[Until, ...]

    def __init__(
        self,
        body: Callable[[Agent, State], Any],
        *,
        until: Until | Iterable[Until] = waiting_for_user,
        limit: int = TURN_LIMIT,
    ) -> None:
        if isinstance(body, type) or not callable(body):
            raise TypeError(fix_message(f"@loop takes a function (got: {body!r})", "decorate one turn", _EXAMPLE))
        conditions = (until,) if callable(until) else tuple(until) if isinstance(until, Iterable) else (until,)
        for condition in conditions:
            if not callable(condition) or inspect.iscoroutinefunction(condition):
                problem = f"until= takes a function from a State to True or False (got: {condition!r})"
                raise TypeError(fix_message(problem, "give one, or a list of them", _EXAMPLE))
        if isinstance(limit, bool) or not isinstance(limit, int):
            raise TypeError(fix_message(f"limit= takes a number of turns (got: {limit!r})", "give one", _EXAMPLE))
        if limit < 1:
            raise ValueError(fix_message(f"limit= takes 1 turn or more (got: {limit})", "give more", _EXAMPLE))
        self.body, self.until, self.limit = body, conditions, limit
        self.is_async: bool = inspect.iscoroutinefunction(body) or inspect.iscoroutinefunction(type(body).__call__)
        """Whether a turn has to be awaited."""
        self.__name__: str = getattr(body, "__name__", type(body).__name__)
        self.__doc__ = getattr(body, "__doc__", None)

    def __repr__(self) -> str:
        return f"<loop {self.__name__}, at most {self.limit} turns>"

    def __call__(self, agent: Agent, state: State) -> Any:
        """Take turns until the run stops; return its answer, for an async loop something to await for it."""
        if self.is_async:
            return self._awaited(agent, state)
        for _ in self._turns(agent, state):
            self._check(self.body(agent, state))
        return state.answer

    async def _awaited(self, agent: Agent, state: State) -> Any:
        for _ in self._turns(agent, state):
            self._check(await self.body(agent, state))
        return state.answer

    def _check(self, returned: object) -> None:
        """Refuse a body that returns something: nobody would look at it, and what is not awaited never runs."""
        if returned is None:
            return
        close = getattr(returned, "close", None)
        if (inspect.iscoroutine(returned) or inspect.isgenerator(returned)) and callable(close):
            close()
        problem = f"the body of {self!r} returned {_shown(returned)}, and a turn returns nothing"
        fix = "call state.finish(answer) to give the answer; await what is async, in an async def; leave out yield"
        raise TypeError(fix_message(problem, fix, _EXAMPLE))

    def _turns(self, agent: Agent, state: State) -> Iterator[int]:
        from agentperm_nb.running.history import (
            StoppedByBudget,
            StoppedByFinish,
            StoppedByLimit,
            StoppedByPermission,
            StoppedByUntil,
        )

        for number in range(self.limit + 1):
            if isinstance(state.stopped, StoppedByPermission | StoppedByBudget | StoppedByFinish):
                return
            for condition in self.until:
                if condition(state):
                    state.stop(StoppedByUntil(getattr(condition, "__name__", repr(condition))))
                    return
            if number == self.limit:
                state.stop(StoppedByLimit(self.limit))
                return
            if not state.pending_calls and agent.over_budget(state):  # pending calls get their results first
                return
            state.unstop()  # of an inner loop
            yield number


@overload
def loop(body: Callable[[Agent, State], Any], /) -> Loop: ...
@overload
def loop(
    *, until: Until | Iterable[Until] = ..., limit: int = ...
) -> Callable[[Callable[[Agent, State], Any]], Loop]: ...
def loop(
    body: Callable[[Agent, State], Any] | None = None,
    /,
    *,
    until: Until | Iterable[Until] = waiting_for_user,
    limit: int = TURN_LIMIT,
) -> Loop | Callable[[Callable[[Agent, State], Any]], Loop]:
    """Make a loop of a function that does one turn: ``@loop`` or ``@loop(until=…, limit=…)``.

    Args:
        body: One turn, sync or async: ``body(agent, state)``.
        until: A function from a State to True or False, or a list of them.
        limit: How many turns one run of the loop may take.

    Raises:
        TypeError: See `Loop`.
        ValueError: See `Loop`.
    """

    def make(one_turn: Callable[[Agent, State], Any]) -> Loop:
        return Loop(one_turn, until=until, limit=limit)

    return make if body is None else make(body)


@loop
def default_loop(agent: Agent, state: State) -> None:
    """Ask the model and run the tools it wants, until it hands the turn back."""
    if not state.pending_calls:  # of a state that was given with calls to decide
        agent.think(state)
    if state.pending_calls:
        agent.use_tools(state)


@loop
async def adefault_loop(agent: Agent, state: State) -> None:
    """Do the same as `default_loop`, awaited."""
    if not state.pending_calls:
        await agent.athink(state)
    if state.pending_calls:
        await agent.ause_tools(state)


def _shown(returned: object) -> str:
    if inspect.iscoroutine(returned) or inspect.isgenerator(returned) or inspect.isasyncgen(returned):
        return f"a {type(returned).__name__}"
    return f"something ({type(returned).__name__})"
