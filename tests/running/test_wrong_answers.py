"""Nothing but an explicit allow runs a tool: wrong verdicts, wrong answers and wrong approvers, in every driver.

Each case ends in one of two ways: the call has a result that says why it did not run, or the error goes to the caller.
Either way the log says why, and the tool has not run.
"""

from __future__ import annotations

import asyncio
import types
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any
from unittest.mock import MagicMock, Mock

import anyio
import pytest
from turns import DRIVERS, Counter, Scripted, run_noting

from agentperm_nb import (
    Agent,
    Allowed,
    AllowPermission,
    ApprovalDecision,
    Ask,
    DecideByHuman,
    DecidePermission,
    Denied,
    DenyPermission,
    Permission,
    PermissionResult,
    ToolCall,
    ToolError,
    Turn,
    Verdict,
)


class Agreeable:
    """Equal to everything, true, and of any attribute."""

    __hash__ = None  # type: ignore[assignment]

    def __eq__(self, other: object) -> bool:
        return True

    def __bool__(self) -> bool:
        return True

    def __getattr__(self, name: str) -> Any:
        return True


class Shy:
    """It cannot be shown."""

    def __repr__(self) -> str:
        raise ValueError("no repr")


class Text(str):
    pass


class Both(Denied, Allowed):
    """An allow and a denial."""


class AllowedAsk(Ask, Allowed):
    """An allow and a question."""


class Liar:
    """Claims to be of another class, as a mock with a spec does."""

    def __init__(self, claimed: type) -> None:
        self._claimed = claimed

    @property
    def __class__(self) -> type:  # type: ignore[override]
        return self._claimed

    action = "allow"
    allows = True
    denies = remembers = stop = False
    reason = edited_args = scope = None
    value = "allow"


async def coroutine() -> Any:
    return Allowed()


async def generator() -> Any:
    yield Allowed()


class Always(ApprovalDecision):
    """A denial that calls itself an allow."""

    @property
    def allows(self) -> bool:
        return True


@dataclass(frozen=True)
class Duck:
    """Looks like an ApprovalDecision."""

    action: str = "allow"
    reason: None = None
    edited_args: None = None
    scope: None = None
    stop: bool = False
    allows: bool = True
    denies: bool = False
    remembers: bool = False


def half_made() -> ApprovalDecision:
    return object.__new__(ApprovalDecision)


def forged() -> ApprovalDecision:
    decision = ApprovalDecision("deny")
    object.__setattr__(decision, "action", "yes")
    return decision


def raising(error: BaseException) -> Callable[..., Any]:
    def raises(*args: Any) -> Any:
        raise error

    return raises


ERRORS: dict[str, BaseException] = {
    "ToolError": ToolError("not now"),
    "ValueError": ValueError("boom"),
    "StopIteration": StopIteration(Allowed()),
    "StopAsyncIteration": StopAsyncIteration(),
    "RecursionError": RecursionError(),
    "TimeoutError": TimeoutError(),
    "SystemExit": SystemExit(0),
    "KeyboardInterrupt": KeyboardInterrupt(),
    "CancelledError": asyncio.CancelledError(),
    "ExceptionGroup": ExceptionGroup("several", [ValueError()]),
}
DENYING = {"ToolError"}
TOLD = {"ToolError": "not now", "TimeoutError": "Nobody answered in time, so this call was not run."}
"""What the model reads after what a handler raised, where that says something; there is no warning then."""


def agent_of(counter: Counter, other: Counter, **options: Any) -> Agent:
    return Agent([counter.tool, other.tool], **options)


CALLS = [ToolCall("act", {"n": 1}, "1"), ToolCall("other", {"n": 2}, "2")]


def check_refused(
    agent: Agent, outcome: Turn | BaseException, ran: list[Any], *, error: type[BaseException] | None = None
) -> list[str]:
    """Assert that nothing ran, and that every call has a result and a row that say why; return the reasons."""
    assert ran == []
    if error is not None:
        assert isinstance(outcome, error), outcome
    else:
        assert isinstance(outcome, Turn), outcome
        assert [result.call for result in outcome.results] == CALLS[: len(outcome)]
        assert all(result.content and result.is_error for result in outcome.results)
        assert len(outcome.to_messages()) == len(outcome)
    rows = agent.audit.calls()
    assert len(rows) >= 1
    assert not rows["started"].notna().any()
    assert set(rows["verdict"]) <= {"denied", "cancelled"}
    assert rows["reason"].notna().all()
    assert len(agent.state.results) == len(rows)
    assert agent.state.pending_calls == ()
    assert agent.pending() == ()
    return list(rows["reason"])


# ---------------------------------------------------------------------- permissions

KINDS = {"deny": DenyPermission, "allow": AllowPermission, "decide": DecidePermission}


def permission_of(kind: str, form: str, answer: Callable[[], Any]) -> Permission:
    """Make a permission that says what `answer` returns: inline, on a thread, or awaited."""

    async def acheck(self: Any, state: Any, call: Any, tool: Any) -> Any:
        return answer()

    def check(self: Any, state: Any, call: Any, tool: Any) -> Any:
        return answer()

    body: dict[str, Any] = {"check": check, "blocking": form == "blocking"}
    if form == "async":
        body["acheck"] = acheck
    made: Permission = types.new_class("Odd", (KINDS[kind],), exec_body=lambda space: space.update(body))()
    return made


WRONG_VERDICTS: dict[str, Callable[[], Any]] = {
    "True": lambda: True,
    "False": lambda: False,
    "one": lambda: 1,
    "zero": lambda: 0,
    "an empty text": lambda: "",
    "allow": lambda: "allow",
    "ALLOW": lambda: "ALLOW",
    "allowed": lambda: "allowed",
    "a subclass of str": lambda: Text("allow"),
    "an empty dict": dict,
    "a dict": lambda: {"allowed": True},
    "a list with an allow": lambda: [Allowed()],
    "a tuple": lambda: (Allowed(), "fine"),
    "the class Allowed": lambda: Allowed,
    "the class Denied": lambda: Denied,
    "a verdict without a kind": Verdict,
    "NotImplemented": lambda: NotImplemented,
    "Ellipsis": lambda: ...,
    "PermissionResult.ALLOW": lambda: PermissionResult.ALLOW,
    "PermissionResult.ASK": lambda: PermissionResult.ASK,
    "an ApprovalDecision": lambda: ApprovalDecision("allow"),
    "a coroutine": coroutine,
    "an async generator": generator,
    "an object equal to everything": Agreeable,
    "an object without repr": Shy,
    "a mock": Mock,
    "a mock of Allowed": lambda: Mock(spec=Allowed),
    "a magic mock of Allowed": lambda: MagicMock(spec=Allowed()),
    "an object that claims to be Allowed": lambda: Liar(Allowed),
    "an allow that is a denial too": lambda: Both("no"),
    "an allow that is a question too": lambda: AllowedAsk("really?"),
    "a lambda": lambda: Allowed.__new__,
    "an exception": lambda: ValueError("allow"),
}


@pytest.mark.parametrize("driver", DRIVERS)
@pytest.mark.parametrize("form", ["inline", "blocking", "async"])
@pytest.mark.parametrize("answer", WRONG_VERDICTS.values(), ids=WRONG_VERDICTS)
def test_a_wrong_verdict_is_an_error_and_runs_nothing(answer: Callable[[], Any], form: str, driver: str) -> None:
    for kind in KINDS:
        counter, other = Counter(), Counter("other")
        agent = agent_of(counter, other, permissions=[permission_of(kind, form, answer), Yes()], human=None)
        outcome, _ = run_noting(driver, agent, CALLS)
        reasons = check_refused(agent, outcome, counter.ran + other.ran, error=Exception)
        assert "could not be decided" in reasons[0]
        if answer is not Shy:
            assert "may return only" in str(outcome)


class Yes(AllowPermission):
    blocking = False

    def check(self, state: Any, call: ToolCall, tool: Any) -> Verdict | None:
        return Allowed()


TOO_MUCH = {
    "a deny permission that allows": ("deny", Allowed),
    "a deny permission that asks": ("deny", lambda: Ask("may it?")),
    "an allow permission that denies": ("allow", lambda: Denied("no")),
    "an allow permission that asks": ("allow", lambda: Ask("may it?")),
}


@pytest.mark.parametrize("driver", DRIVERS)
@pytest.mark.parametrize(("kind", "answer"), TOO_MUCH.values(), ids=TOO_MUCH)
def test_a_verdict_beyond_the_power_of_its_kind_is_an_error(kind: str, answer: Any, driver: str) -> None:
    counter, other = Counter(), Counter("other")
    agent = agent_of(counter, other, permissions=[permission_of(kind, "inline", answer), Yes()])
    outcome, _ = run_noting(driver, agent, CALLS)
    check_refused(agent, outcome, counter.ran + other.ran, error=TypeError)


@pytest.mark.parametrize("driver", DRIVERS)
def test_a_subclass_cannot_give_itself_the_power_of_another_kind(driver: str) -> None:
    class Grabbing(DenyPermission):
        kind = "allow"
        may_return = (Allowed,)
        blocking = False

        def check(self, state: Any, call: ToolCall, tool: Any) -> Verdict | None:
            return Allowed()

    counter, other = Counter(), Counter("other")
    agent = agent_of(counter, other, permissions=[Grabbing()])
    outcome, _ = run_noting(driver, agent, CALLS)
    check_refused(agent, outcome, counter.ran + other.ran, error=TypeError)


def where_it_means_something(names: Iterable[str]) -> list[tuple[str, str]]:
    """Every error with every driver; a cancellation of asyncio is none on trio's loop."""
    return [
        (name, driver) for name in sorted(names) for driver in DRIVERS if (name, driver) != ("CancelledError", "trio")
    ]


@pytest.mark.parametrize(("name", "driver"), where_it_means_something(ERRORS))
@pytest.mark.parametrize("form", ["inline", "blocking", "async"])
def test_what_a_permission_raises_runs_nothing(name: str, form: str, driver: str) -> None:
    error = ERRORS[name]
    counter, other = Counter(), Counter("other")
    agent = agent_of(counter, other, permissions=[permission_of("decide", form, raising(error)), Yes()])
    outcome, _ = run_noting(driver, agent, CALLS)
    if name in DENYING:
        assert check_refused(agent, outcome, counter.ran + other.ran) == [str(error)] * 2
    else:
        expected = type(error) if not isinstance(error, StopIteration | StopAsyncIteration) else Exception
        check_refused(agent, outcome, counter.ran + other.ran, error=expected)


# ---------------------------------------------------------------------- handlers

WRONG_ANSWERS: dict[str, Callable[[], Any]] = {
    "None": lambda: None,
    "one": lambda: 1,
    "a float": lambda: 1.0,
    "ALLOW": lambda: "ALLOW",
    "Allow": lambda: "Allow",
    "allow with a space": lambda: "allow ",
    "yes": lambda: "yes",
    "y": lambda: "y",
    "true": lambda: "true",
    "edit, which needs arguments": lambda: "edit",
    "bytes": lambda: b"allow",
    "a subclass of str": lambda: Text("allow"),
    "an empty dict": dict,
    "approved": lambda: {"approved": True},
    "a dict of an action": lambda: {"action": "allow"},
    "a list": lambda: [True],
    "a tuple": lambda: (True, "fine"),
    "PermissionResult.ASK": lambda: PermissionResult.ASK,
    "the class ApprovalDecision": lambda: ApprovalDecision,
    "the class PermissionResult": lambda: PermissionResult,
    "Allowed, a verdict": Allowed,
    "the class Allowed": lambda: Allowed,
    "Ask": lambda: Ask("again?"),
    "NotImplemented": lambda: NotImplemented,
    "an object equal to everything": Agreeable,
    "an object without repr": Shy,
    "an object": object,
    "a duck": Duck,
    "a mock": Mock,
    "a mock of ApprovalDecision": lambda: Mock(spec=ApprovalDecision, action="allow", allows=True),
    "a mock of PermissionResult": lambda: Mock(spec=PermissionResult),
    "an object that claims to be ApprovalDecision": lambda: Liar(ApprovalDecision),
    "an object that claims to be PermissionResult": lambda: Liar(PermissionResult),
    "an object that claims to be bool": lambda: Liar(bool),
    "an object that claims to be str": lambda: Liar(str),
    "a denial that calls itself an allow": lambda: Always("deny"),
    "a decision half made": half_made,
    "a decision of a forged action": forged,
    "an async generator": generator,
    "a lambda": lambda: lambda: True,
    "an exception": lambda: ValueError(),
    "a decision in a list": lambda: [ApprovalDecision("allow")],
}
SAID_NO = {"a denial that calls itself an allow"}  # an answer, and a denial


def handler_of(form: str, answer: Callable[[], Any]) -> Callable[..., Any]:
    def blocking(request: Any) -> Any:
        return answer()

    async def awaited(request: Any) -> Any:
        return answer()

    async def late(request: Any) -> Any:
        await anyio.lowlevel.checkpoint()
        return answer()

    return {"sync": blocking, "async": awaited, "late": late}[form]


@pytest.mark.parametrize("driver", DRIVERS)
@pytest.mark.parametrize("form", ["sync", "async", "late"])
@pytest.mark.parametrize("name", WRONG_ANSWERS)
def test_a_wrong_answer_of_a_handler_denies_with_a_warning(name: str, form: str, driver: str) -> None:
    counter, other = Counter(), Counter("other")
    handler = handler_of(form, WRONG_ANSWERS[name])
    agent = agent_of(counter, other, permissions=[DecideByHuman()], approval_handler=handler)
    outcome, noted = run_noting(driver, agent, CALLS)
    check_refused(agent, outcome, counter.ran + other.ran)
    assert set(agent.audit.calls()["answered_by"]) == {"handler"}
    if name not in SAID_NO:
        assert len(noted) == 2
        assert all("is not an answer, so the call was denied" in text for text in noted)


@pytest.mark.parametrize(("name", "driver"), where_it_means_something(ERRORS))
@pytest.mark.parametrize("form", ["sync", "async"])
def test_what_a_handler_raises_denies_or_interrupts(name: str, form: str, driver: str) -> None:
    error = ERRORS[name]
    counter, other = Counter(), Counter("other")
    handler = handler_of(form, raising(error))
    agent = agent_of(counter, other, permissions=[DecideByHuman()], approval_handler=handler)
    outcome, noted = run_noting(driver, agent, CALLS)
    if isinstance(error, Exception):
        reasons = check_refused(agent, outcome, counter.ran + other.ran)
        assert reasons == [TOLD.get(name, "Asking for approval failed, so this call was not run.")] * 2
        assert len(noted) == (0 if name in TOLD else 2)
    else:
        reasons = check_refused(agent, outcome, counter.ran + other.ran, error=type(error))
        assert reasons == ["(aborted: SystemExit)" if name == "SystemExit" else "(interrupted by user)"] * 2


# ---------------------------------------------------------------------- approvers

ALLOW, DENY = ApprovalDecision("allow"), ApprovalDecision("deny", reason="no")


async def ends_early(requests: Any) -> Any:
    return
    yield


async def ends_after_a_junk_answer(requests: Any) -> Any:
    yield ALLOW


async def yields_none(requests: Any) -> Any:
    for _ in requests:
        yield None


async def yields_triples(requests: Any) -> Any:
    for request in requests:
        yield request.id, ALLOW, True


async def yields_lists(requests: Any) -> Any:
    for request in requests:
        yield [request.id, ALLOW]


async def yields_the_request(requests: Any) -> Any:
    for request in requests:
        yield request, ALLOW


async def answers_positions(requests: Any) -> Any:
    for position, _ in enumerate(requests):
        yield position, ALLOW


async def answers_call_ids(requests: Any) -> Any:
    for request in requests:
        yield request.call.id, ALLOW


async def answers_call_keys(requests: Any) -> Any:
    for request in requests:
        yield request.call_key, ALLOW


async def answers_unknown_ids(requests: Any) -> Any:
    for request in requests:
        yield request.id + "x", ALLOW


async def answers_all_with_a_star(requests: Any) -> Any:
    yield "*", ALLOW


async def answers_unhashable_ids(requests: Any) -> Any:
    for request in requests:
        yield {request.id}, ALLOW


async def answers_with_something_equal_to_every_id(requests: Any) -> Any:
    yield Agreeable(), ALLOW


async def answers_true(requests: Any) -> Any:
    for request in requests:
        yield request.id, 1


async def allows_after_a_denial(requests: Any) -> Any:
    for request in requests:
        yield request.id, DENY
        yield request.id, ALLOW


async def raises_at_once(requests: Any) -> Any:
    raise ValueError("broken")
    yield


async def raises_midway(requests: Any) -> Any:
    yield requests[0].id, DENY
    raise ValueError("broken")


async def raises_a_tool_error(requests: Any) -> Any:
    raise ToolError("the desk is closed")
    yield


async def raises_stop_iteration(requests: Any) -> Any:
    raise StopIteration
    yield


async def not_a_generator(requests: Any) -> Any:
    return [(request.id, ALLOW) for request in requests]


def a_list(requests: Any) -> Any:
    return [(request.id, ALLOW) for request in requests]


def a_plain_generator(requests: Any) -> Any:
    return ((request.id, ALLOW) for request in requests)


def nothing(requests: Any) -> Any:
    return None


def raises_before_it_starts(requests: Any) -> Any:
    raise LookupError("nobody")


async def goes_on_after_the_end(requests: Any) -> Any:
    try:
        for request in requests:
            yield request.id, DENY
    finally:
        for request in requests:
            yield request.id, ALLOW


WRONG_APPROVERS = (
    ends_early,
    ends_after_a_junk_answer,
    yields_none,
    yields_triples,
    yields_lists,
    yields_the_request,
    answers_positions,
    answers_call_ids,
    answers_call_keys,
    answers_unknown_ids,
    answers_all_with_a_star,
    answers_unhashable_ids,
    answers_with_something_equal_to_every_id,
    answers_true,
    allows_after_a_denial,
    raises_at_once,
    raises_midway,
    raises_a_tool_error,
    raises_stop_iteration,
    not_a_generator,
    a_list,
    a_plain_generator,
    nothing,
    raises_before_it_starts,
    goes_on_after_the_end,
)


@pytest.mark.parametrize("driver", DRIVERS)
@pytest.mark.parametrize("batch", [True, False], ids=["together", "one by one"])
@pytest.mark.parametrize("review", WRONG_APPROVERS, ids=lambda review: review.__name__.replace("_", " "))
def test_a_wrong_approver_denies_every_call(review: Any, batch: bool, driver: str) -> None:
    counter, other = Counter(), Counter("other")
    agent = agent_of(counter, other, permissions=[DecideByHuman()], human=Scripted(review, batch=batch))
    outcome, _ = run_noting(driver, agent, CALLS)
    check_refused(agent, outcome, counter.ran + other.ran)


@pytest.mark.parametrize("driver", DRIVERS)
def test_an_approver_cannot_answer_for_another_one(driver: str) -> None:
    ids: list[str] = []

    async def first(requests: Any) -> Any:
        for request in requests:
            ids.append(request.id)
            yield request.id, DENY

    async def second(requests: Any) -> Any:
        while not ids:
            await anyio.lowlevel.checkpoint()
        yield ids[0], ALLOW
        yield requests[0].id, DENY

    class Only(DecidePermission):
        blocking = False

        def __init__(self, name: str, human: Any) -> None:
            self.name, self.human = name, human

        def check(self, state: Any, call: ToolCall, tool: Any) -> Verdict | None:
            return Ask("may it?") if call.name == self.name else None

    counter, other = Counter(), Counter("other")
    agent = agent_of(counter, other, permissions=[Only("act", Scripted(first)), Only("other", Scripted(second))])
    outcome, _ = run_noting(driver, agent, CALLS)
    check_refused(agent, outcome, counter.ran + other.ran)


# ---------------------------------------------------------------------- classic Humans

WRONG_WORDS = (
    "no",
    "YES",
    "Yes",
    "y",
    " yes",
    "yes ",
    "always",
    "",
    True,
    1,
    None,
    Text("yes"),
    b"yes",
    ["yes"],
    Agreeable(),
)


@pytest.mark.parametrize("driver", DRIVERS)
@pytest.mark.parametrize(
    "word", WRONG_WORDS, ids=lambda word: f"{type(word).__name__} {word if isinstance(word, str) else ''}"
)
@pytest.mark.parametrize("form", ["ask", "aask"])
def test_anything_but_yes_of_a_classic_human_denies_and_stops(word: Any, form: str, driver: str) -> None:
    asked: list[str] = []

    class Classic:
        if form == "ask":

            def ask(self, state: Any, prompt: str, returns: Any = str) -> Any:
                asked.append(prompt)
                return word

        else:

            async def aask(self, state: Any, prompt: str, returns: Any = str) -> Any:
                asked.append(prompt)
                return word

    counter, other = Counter(), Counter("other")
    agent = agent_of(counter, other, permissions=[DecideByHuman()], human=Classic())
    outcome, _ = run_noting(driver, agent, CALLS)
    reasons = check_refused(agent, outcome, counter.ran + other.ran)
    assert len(asked) == 1
    assert isinstance(outcome, Turn)
    assert outcome.stopped is not None
    assert reasons == [
        "The user declined this call. Wait for their next message.",
        "(not run: the user stopped this turn)",
    ]


@pytest.mark.parametrize(("name", "driver"), where_it_means_something(ERRORS.keys() - {"ToolError"}))
def test_what_a_classic_human_raises_goes_to_the_caller(name: str, driver: str) -> None:
    error = ERRORS[name]

    class Classic:
        ask = staticmethod(raising(error))

    counter, other = Counter(), Counter("other")
    agent = agent_of(counter, other, permissions=[DecideByHuman()], human=Classic())
    outcome, _ = run_noting(driver, agent, CALLS)
    expected = type(error) if not isinstance(error, StopIteration | StopAsyncIteration) else Exception
    check_refused(agent, outcome, counter.ran + other.ran, error=expected)


# ---------------------------------------------------------------------- cancelled


@pytest.mark.anyio
@pytest.mark.parametrize("who", ["handler", "approver", "classic Human", "permission"])
async def test_one_who_never_answers_is_cancelled_with_the_turn(who: str, anyio_backend_name: str) -> None:
    reached = anyio.Event()

    async def for_ever(*args: Any) -> Any:
        reached.set()
        await anyio.sleep_forever()

    async def review(requests: Any) -> Any:
        await for_ever()
        yield

    options: dict[str, Any] = {
        "handler": lambda: {"permissions": [DecideByHuman()], "approval_handler": for_ever},
        "approver": lambda: {"permissions": [DecideByHuman()], "human": Scripted(review)},
        "classic Human": lambda: {"permissions": [DecideByHuman()], "human": types.SimpleNamespace(aask=for_ever)},
        "permission": lambda: {"permissions": [AwaitsForEver(for_ever), Yes()]},
    }[who]()
    counter, other = Counter(), Counter("other")
    agent = agent_of(counter, other, **options)
    with anyio.fail_after(10), anyio.CancelScope() as scope:
        async with anyio.create_task_group() as group:
            group.start_soon(_turn, agent)
            await reached.wait()
            scope.cancel()
    assert scope.cancelled_caught
    reasons = check_refused(agent, scope_error(), counter.ran + other.ran, error=KeyboardInterrupt)
    assert reasons == ["(interrupted by user)"] * 2


class AwaitsForEver(DecidePermission):
    def __init__(self, wait: Any) -> None:
        self._wait = wait

    async def acheck(self, state: Any, call: ToolCall, tool: Any) -> Verdict | None:
        await self._wait()
        return Allowed()


def scope_error() -> BaseException:
    return KeyboardInterrupt()  # the scope took the cancellation; the rest is checked alike


async def _turn(agent: Agent) -> None:
    await agent.ause_tools(CALLS)
