"""Handlers and approvers for tests of what is remembered, and turns that wait on threads of their own."""

from __future__ import annotations

import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import anyio
from turns import run

from agentperm_nb import (
    Agent,
    ApprovalDecision,
    ApprovalRequest,
    Ask,
    DecidePermission,
    Scope,
    Tool,
    ToolCall,
    Turn,
)
from agentperm_nb.approvals.desk import Answer, DeskChange, the_desk
from agentperm_nb.testing import tool_call

ALWAYS = ApprovalDecision("remember_allow", scope=Scope("tool", "session"))
NEVER = ApprovalDecision("remember_deny", scope=Scope("tool", "session"))


class Telling:
    """A handler that gives these answers, one after the other, and keeps what it was asked."""

    def __init__(self, *answers: Any) -> None:
        self.answers = list(answers)
        self.asked: list[Any] = []

    def __call__(self, request: ApprovalRequest) -> Any:
        self.asked.append(request.call.args.get("n"))
        return self.answers.pop(0)


class Waiting:
    """An approver that says nothing: the answers come over the desk."""

    batch, answered_by = True, "human"

    async def areview(self, requests: Sequence[ApprovalRequest]) -> Any:
        await anyio.sleep_forever()
        yield "", ApprovalDecision("deny")


class Big(DecidePermission):
    """Asks somebody of its own about large numbers."""

    blocking = False

    def __init__(self, human: Any) -> None:
        self.human = human

    def check(self, state: Any, call: ToolCall, tool: Tool) -> Ask | None:
        return Ask("it is large") if call.args["n"] >= 10 else None


def act(n: int, **more: Any) -> ToolCall:
    return tool_call("act", n=n, **more)


def told(turn: Turn) -> list[tuple[str, str | None]]:
    return [(result.verdict, result.answered_by) for result in turn.results]


def of(agent: Agent, kind: str) -> list[Any]:
    return [event for event in agent.audit.events() if event.kind == kind]


def say(request: ApprovalRequest, decision: Any) -> bool:
    """Answer a request over the desk."""
    return the_desk.answer(
        request.id, Answer(decision if isinstance(decision, ApprovalDecision) else ApprovalDecision(decision))
    )


def until(agent: Agent, count: int) -> None:
    """Wait until so many requests of an agent are left."""
    changed = threading.Semaphore(0)
    unsubscribe = the_desk.subscribe(lambda change: changed.release())
    try:
        while len(agent.pending()) != count:
            assert changed.acquire(timeout=10), agent.pending()
    finally:
        unsubscribe()


@contextmanager
def waiting(driver: str, *turns: tuple[Agent, Sequence[ToolCall]], user: str | None = None) -> Iterator[list[Turn]]:
    """Do turns on threads of their own; inside the block each waits for an answer, and after it they have ended.

    What nobody has answered by the end of the block is denied.
    """
    here, done, failed = threading.Semaphore(0), dict[int, Turn](), list[BaseException]()
    agents = {id(agent): agent for agent, _ in turns}.values()
    before = {request.id for agent in agents for request in agent.pending()}

    def look(change: DeskChange) -> None:
        if change.kind == "opened":
            here.release()

    def work(place: int, agent: Agent, calls: Sequence[ToolCall]) -> None:
        try:
            done[place] = run(driver, agent, list(calls), user=user)
        except BaseException as error:  # noqa: BLE001 - raised again on the test's own thread
            failed.append(error)

    def mine() -> list[ApprovalRequest]:
        return [request for agent in agents for request in agent.pending() if request.id not in before]

    unsubscribe = the_desk.subscribe(look)
    ended: list[Turn] = []
    threads = [threading.Thread(target=work, args=(place, *turn)) for place, turn in enumerate(turns)]
    try:
        for thread in threads:
            thread.start()
        while len({request.call_key.rpartition("/")[0] for request in mine()}) < len(turns):
            assert here.acquire(timeout=10), failed
        yield ended
    finally:
        unsubscribe()
        for request in mine():
            say(request, "deny")
        for thread in threads:
            thread.join(10)
    assert not any(thread.is_alive() for thread in threads)
    if failed:
        raise failed[0]
    ended += [done[place] for place in range(len(turns))]
