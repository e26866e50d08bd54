"""An answer stands in for whoever gave it: an edit, or rules that change meanwhile, pass nobody else's question."""

from __future__ import annotations

import asyncio
import copy
import heapq
import threading
from collections.abc import AsyncIterator, Sequence
from typing import Any

import anyio
import pytest
from turns import DRIVERS, Counter, Scripted, run

from agentperm_nb import (
    Agent,
    AllowByDefault,
    Allowed,
    ApprovalDecision,
    ApprovalRequest,
    Ask,
    DecideByHuman,
    DecidePermission,
    Denied,
    DenyByName,
    DenyPermission,
    PermissionPolicy,
    PermissionRule,
    PermissionWarning,
    Tool,
    ToolCall,
)
from agentperm_nb.testing import FakeHuman, tool_call

both_drivers = pytest.mark.parametrize("driver", DRIVERS)
LARGE, SMALL = 9_000, 20


class Boss:
    """Answers what a policy asks."""

    def __init__(self) -> None:
        self.asked: list[int] = []

    def handle(self, request: Any) -> str:
        self.asked.append(request.parameters["n"])
        return "deny"


def is_large(tool: Any, args: dict[str, Any]) -> bool:
    return bool(args["n"] > 1_000)


def edits_to(n: int) -> Any:
    def clerk(request: ApprovalRequest) -> ApprovalDecision:
        return ApprovalDecision("edit", edited_args={"n": n})

    return clerk


class AsksTheBoss(DecidePermission):
    """Asks a human of its own about large numbers."""

    blocking = False

    def __init__(self, human: Any) -> None:
        self.human = human

    def check(self, state: Any, call: ToolCall, tool: Tool) -> Ask | None:
        return Ask("a large sum") if call.args["n"] > 1_000 else None


class AsksByItself(DecideByHuman):
    """Asks in its own way about large numbers."""

    def check(self, state: Any, call: ToolCall, tool: Tool) -> Any:
        return super().check(state, call, tool) if call.args["n"] > 1_000 else None


def handler_of_a_policy(asked: list[Any]) -> Any:
    boss = Boss()
    boss.asked = asked
    return PermissionPolicy([PermissionRule("large", is_large, "ask")], fallback=None, handler=boss)


class NotingHuman(FakeHuman):
    def __init__(self, asked: list[Any]) -> None:
        super().__init__(["no"] * 9)
        self.questions = asked


OTHERS = {
    "the handler of a policy": handler_of_a_policy,
    "a permission with its own human": lambda asked: AsksTheBoss(NotingHuman(asked)),
    "a permission that asks by itself": lambda asked: AsksByItself(human=NotingHuman(asked)),
}


@pytest.mark.parametrize("other", OTHERS.values(), ids=OTHERS)
@both_drivers
def test_an_edit_passes_nobody_elses_question(other: Any, driver: str) -> None:
    counter, asked = Counter(), []
    agent = Agent([counter.tool], permissions=[other(asked), DecideByHuman()], approval_handler=edits_to(LARGE))
    (result,) = run(driver, agent, [tool_call("act", n=SMALL)]).results
    assert (result.verdict, counter.ran, asked) == ("denied", [], [])
    assert "has to be asked" in result.content
    permission = other(asked)
    agent = Agent([counter.tool], permissions=[permission, DecideByHuman()], approval_handler=edits_to(SMALL + 1))
    run(driver, agent, [tool_call("act", n=SMALL)])
    # What asks by itself cannot say of the edited call whether it would ask: the model makes that call again.
    assert counter.ran == ([] if isinstance(permission, AsksByItself) else [{"n": SMALL + 1}])
    assert asked == []


@pytest.mark.parametrize("other", OTHERS.values(), ids=OTHERS)
@both_drivers
def test_a_rule_that_comes_while_somebody_thinks_is_answered_by_nobody_else(other: Any, driver: str) -> None:
    asked: list[Any] = []
    late = other(asked)
    here = threading.Event()

    class Late(DecidePermission):
        blocking = False
        human = getattr(late, "human", None)

        def check(self, state: Any, call: ToolCall, tool: Tool) -> Any:
            return Ask("a large sum") if here.is_set() else None

    counter = Counter()
    permission = Late() if Late.human is not None else PermissionPolicy(fallback=None, handler=late.handler)

    def clerk(request: ApprovalRequest) -> bool:
        here.set()
        if isinstance(permission, PermissionPolicy):
            permission.rules.append(PermissionRule("large", is_large, "ask"))
        return True

    agent = Agent([counter.tool], permissions=[permission, DecideByHuman()], approval_handler=clerk)
    (result,) = run(driver, agent, [tool_call("act", n=LARGE)]).results
    assert (result.verdict, counter.ran, asked) == ("denied", [], [])


@both_drivers
def test_an_edit_still_answers_what_the_same_person_would_be_asked(driver: str) -> None:
    counter = Counter()
    policy = PermissionPolicy([PermissionRule("large", is_large, "ask")], fallback=None)
    agent = Agent([counter.tool], permissions=[policy, DecideByHuman()], approval_handler=edits_to(LARGE))
    run(driver, agent, [tool_call("act", n=SMALL)])
    assert counter.ran == [{"n": LARGE}]


# ---------------------------------------------------------------------- looked at again


class Freeze(DenyPermission):
    blocking = False

    def __init__(self) -> None:
        self.on = False

    def check(self, state: Any, call: ToolCall, tool: Tool) -> Denied | None:
        return Denied("frozen") if self.on else None


@pytest.mark.parametrize("backend", ["asyncio", "trio"])
def test_a_freeze_that_begins_while_a_check_is_awaited_holds(backend: str) -> None:
    freeze, counter = Freeze(), Counter()

    class Service(DecidePermission):
        async def acheck(self, state: Any, call: ToolCall, tool: Tool) -> Allowed:
            await anyio.sleep(0.15)
            if call.args["n"] == 2:
                freeze.on = True
            return Allowed()

    async def main() -> list[str]:
        agent = Agent([counter.tool], permissions=[freeze, Service()])
        turn = await agent.ause_tools([tool_call("act", n=1), tool_call("act", n=2)])
        return [result.verdict for result in turn.results]

    assert anyio.run(main, backend=backend) == ["denied", "denied"]
    assert counter.ran == []


def test_async_tools_of_a_blocking_turn_are_looked_at_just_before_they_start() -> None:
    freeze, began = Freeze(), []

    async def act(n: int) -> str:
        """Act."""
        began.append(n)
        freeze.on = True  # after the first of them, and before those that wait for a place
        await asyncio.sleep(0.01)
        return "acted"

    turn = Agent([act], permissions=[freeze, AllowByDefault()]).use_tools([tool_call("act", n=n) for n in range(80)])
    assert len(began) <= 32
    assert {result.verdict for result in turn.results} == {"allowed", "denied"}
    assert sum(result.verdict == "allowed" for result in turn.results) == len(began)


# ---------------------------------------------------------------------- lies


def test_a_denial_that_claims_to_be_an_allow_denies_at_the_second_look_too() -> None:
    class Liar(Denied):
        @property  # type: ignore[misc]
        def __class__(self) -> type:
            return Allowed

    looks: list[int] = []

    class Turns(DenyPermission):
        blocking = False

        def check(self, state: Any, call: ToolCall, tool: Tool) -> Denied | None:
            looks.append(1)
            return Liar("no") if len(looks) > 1 else None

    counter = Counter()
    agent = Agent([counter.tool], permissions=[Turns(), DecideByHuman()], approval_handler=lambda request: True)
    (result,) = agent.use_tools([tool_call("act", n=1)]).results
    assert (result.verdict, counter.ran) == ("denied", [])


def test_the_name_of_a_call_is_a_plain_text_whatever_it_was_made_of() -> None:
    class Sly(str):
        __slots__ = ()

        def __eq__(self, other: object) -> bool:
            return True

        __hash__ = str.__hash__

        def casefold(self) -> str:
            return "read"

    call = ToolCall(Sly("act"), {"n": 1})
    assert type(call.name) is str
    counter = Counter()
    assert Agent([counter.tool], permissions=[DenyByName(["ACT"]), AllowByDefault()]).explain(call).verdict == "denied"


def test_a_pending_turn_cannot_be_copied() -> None:
    counter = Counter()
    pending = Agent([counter.tool], permissions=[AllowByDefault()]).ause_tools([tool_call("act", n=1)])
    for copied in (copy.copy, copy.deepcopy):
        with pytest.raises(TypeError, match="cannot be copied"):
            copied(pending)
    asyncio.run(pending)
    assert counter.ran == [{"n": 1}]


@pytest.mark.parametrize("answered_by", ["nobody", "timeout", "memory", "unchecked", None, 3, ""])
@both_drivers
def test_only_a_person_or_a_handler_can_allow(answered_by: Any, driver: str) -> None:
    async def review(requests: Sequence[ApprovalRequest]) -> AsyncIterator[tuple[str, bool]]:
        for request in requests:
            yield request.id, True

    approver = Scripted(review)
    approver.answered_by = answered_by
    counter = Counter()
    agent = Agent([counter.tool], permissions=[DecideByHuman()], human=approver)
    with pytest.warns(PermissionWarning, match="answered_by"):
        (result,) = run(driver, agent, [tool_call("act", n=1)]).results
    assert (result.verdict, counter.ran) == ("denied", [])


def test_arguments_that_a_check_has_changed_by_force_do_not_run() -> None:
    class Meddles(DecidePermission):
        blocking = False

        def check(self, state: Any, call: ToolCall, tool: Tool) -> Allowed:
            heapq.heappush(call.args["items"], 0)  # past the methods that refuse
            return Allowed()

    ran: list[Any] = []

    def act(items: list[int]) -> str:
        """Act."""
        ran.append(items)
        return "acted"

    (result,) = Agent([act], permissions=[Meddles()]).use_tools([tool_call("act", items=[3])]).results
    assert (result.verdict, ran) == ("denied", [])


# ---------------------------------------------------------------------- the form of a handler (complaint A30)


def only_two(call: Any, user_id: Any) -> bool:
    return type(call) is ToolCall and user_id == "ann"


def with_default(call: Any, user_id: Any = None) -> bool:
    return only_two(call, user_id)


def named_user(request: Any, user: Any = None) -> bool:
    return only_two(request, user)


def one(request: Any) -> bool:
    return type(request) is ApprovalRequest


def one_with_option(request: Any, verbose: bool = False) -> bool:
    return type(request) is ApprovalRequest and verbose is False


def any_number(*args: Any) -> bool:
    return len(args) == 1 and one(args[0])


@pytest.mark.parametrize("handler", [only_two, with_default, named_user, one, one_with_option, any_number])
def test_a30_a_handler_is_called_in_the_form_that_it_was_written_in(handler: Any) -> None:
    counter = Counter()
    agent = Agent([counter.tool], permissions=[DecideByHuman()], approval_handler=handler, user="ann")
    agent.use_tools([tool_call("act", n=1)])
    assert counter.ran == [{"n": 1}]


@pytest.mark.parametrize(
    "handler", [lambda: True, lambda a, b, c: True, lambda *, request: True, lambda call, user_id, more: True]
)
def test_a30_a_handler_of_no_such_form_is_an_error_when_the_agent_is_made(handler: Any) -> None:
    with pytest.raises(TypeError, match="takes a function of"):
        Agent([Counter().tool], approval_handler=handler)
