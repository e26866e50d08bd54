"""What a policy's handler may give: of all that it can return or raise, only an explicit allow lets a call run."""

from __future__ import annotations

import asyncio
import decimal
import enum
import errno
import functools
import gc
import pickle
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any
from unittest import mock

import numpy
import pandas
import pytest
import toolregistry.permissions as there
from turns import DRIVERS, Counter, run_noting

from agentperm_nb import (
    Agent,
    AllowByDefault,
    Allowed,
    ApprovalDecision,
    Denied,
    HandlerApprover,
    PermissionDecision,
    PermissionHandler,
    PermissionPolicy,
    PermissionRequest,
    PermissionResult,
    PermissionRule,
    PolicyHandlerApprover,
    Scope,
    ToolError,
    ToolInputError,
    ToolTimeoutError,
    Turn,
)
from agentperm_nb.approvals.desk import the_desk
from agentperm_nb.testing import tool_call

NO_ANSWER = "The approver gave no valid answer, so this call was not run."
FAILED = "Asking for approval failed, so this call was not run."
DECLINED = "The user declined this call."


class Handler:
    """Gives what a function gives."""

    def __init__(self, give: Callable[[], Any]) -> None:
        self.give = give

    def handle(self, request: PermissionRequest) -> Any:
        return self.give()


class AsyncHandler(Handler):
    async def handle(self, request: PermissionRequest) -> Any:  # type: ignore[override]  # either is a handler
        await asyncio.sleep(0) if asyncio_runs() else None
        return self.give()


def asyncio_runs() -> bool:
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return False
    return True


KINDS = [Handler, AsyncHandler]


def turn_with(driver: str, handler: Any, **options: Any) -> tuple[list[Any], Any, list[str], Agent]:
    """Do a turn with one call that a policy asks about: what ran, its result, the warnings, the agent."""
    act = Counter()
    rule = PermissionRule("ask_all", lambda tool, parameters: True, "ask", "why")
    # An allow behind the policy: whatever is no answer must not fall through to it.
    agent = Agent([act.tool], permissions=[PermissionPolicy([rule], "allow", handler), AllowByDefault()], **options)
    turn, warnings = run_noting(driver, agent, [tool_call("act", n=1)])
    return act.ran, turn.results[0] if isinstance(turn, Turn) else turn, warnings, agent


# --- what it returns --------------------------------------------------------------------------------------------------


class Text(str):
    """A str of one's own."""

    __slots__ = ()


class Agreeing(str):
    """A str that equals everything."""

    __slots__ = ()
    __hash__ = str.__hash__

    def __eq__(self, other: object) -> bool:
        return True


class Yes(enum.StrEnum):
    ALLOW = "allow"


class One(int):
    """A number that is true."""


class OwnDecision(ApprovalDecision):
    """A decision of one's own, which says that it allows whatever its action is."""

    @property
    def allows(self) -> bool:
        return True


class NotADecision:
    """Has all that a decision has, and is none."""

    action, reason, edited_args, scope, stop, approver = "allow", None, None, None, False, None
    allows, denies, remembers = True, False, False


class Refusing:
    def __bool__(self) -> bool:
        raise ValueError("neither")

    def __eq__(self, other: object) -> bool:
        raise ValueError("neither")

    def __hash__(self) -> int:
        return 0

    def __repr__(self) -> str:
        raise ValueError("neither")


def half_made() -> ApprovalDecision:
    return object.__new__(ApprovalDecision)


def made_up(**fields: Any) -> ApprovalDecision:
    """A decision whose fields were set past its checks."""
    decision = ApprovalDecision("deny")
    for name, value in fields.items():
        object.__setattr__(decision, name, value)
    return decision


async def later(value: Any) -> Any:
    return value


def generated() -> Any:
    yield True


async def generated_later() -> Any:
    yield True


class Awaited:
    def __init__(self, value: Any) -> None:
        self.value = value

    def __await__(self) -> Any:
        yield from ()
        return self.value


ALLOWS: dict[str, Callable[[], Any]] = {
    "ALLOW": lambda: PermissionResult.ALLOW,
    "'allow'": lambda: "allow",
    "True": lambda: True,
    "'remember_allow'": lambda: "remember_allow",
    "decision-allow": lambda: ApprovalDecision("allow", reason="fine"),
    "decision-remember-allow": lambda: ApprovalDecision("remember_allow", scope=Scope("tool")),
    "decision-edit": lambda: ApprovalDecision("edit", edited_args={"n": 1}),
    "decision-subclass-allow": lambda: OwnDecision("allow"),
}
"""Explicit allows."""

DENIES: dict[str, tuple[Callable[[], Any], str]] = {
    "DENY": (lambda: PermissionResult.DENY, DECLINED),
    "'deny'": (lambda: "deny", DECLINED),
    "False": (lambda: False, DECLINED),
    "'remember_deny'": (lambda: "remember_deny", DECLINED),
    "decision-deny": (lambda: ApprovalDecision("deny", reason="not today"), "not today"),
    "decision-deny-stop": (lambda: ApprovalDecision("deny", reason="not today", stop=True), "not today"),
    "decision-remember-deny": (lambda: ApprovalDecision("remember_deny"), DECLINED),
    "decision-subclass-deny": (lambda: OwnDecision("deny"), DECLINED),
}
"""Explicit denials, and the reason that the model reads."""

JUNK: dict[str, Callable[[], Any]] = {
    # What the published gate lets run.
    "ASK": lambda: PermissionResult.ASK,
    "None": lambda: None,
    "0": lambda: 0,
    "'no'": lambda: "no",
    "'DENY'": lambda: "DENY",
    "dict-approved-False": lambda: {"approved": False},
    "coroutine-of-None": lambda: later(None),
    "coroutine-of-DENY-text": lambda: later("DENY"),
    # Texts.
    "'ALLOW'": lambda: "ALLOW",
    "'Allow'": lambda: "Allow",
    "'allow '": lambda: "allow ",
    "'yes'": lambda: "yes",
    "'true'": lambda: "true",
    "'approve'": lambda: "approve",
    "'edit'": lambda: "edit",
    "''": lambda: "",
    "json": lambda: '{"decision": "allow"}',
    "bytes": lambda: b"allow",
    "str-subclass": lambda: Text("allow"),
    "str-equal-to-all": lambda: Agreeing("deny"),
    "str-enum": lambda: Yes.ALLOW,
    "numpy-str": lambda: numpy.str_("allow"),
    "result-of-another-package": lambda: there.PermissionResult.ALLOW,
    # Numbers and other true things.
    "1": lambda: 1,
    "1.0": lambda: 1.0,
    "int-subclass": lambda: One(1),
    "decimal": lambda: decimal.Decimal(1),
    "numpy-True": lambda: numpy.bool_(True),
    "numpy-array": lambda: numpy.array([True]),
    "series": lambda: pandas.Series([True]),
    "NA": lambda: pandas.NA,
    "nan": lambda: float("nan"),
    "list": lambda: [True],
    "tuple": lambda: (PermissionResult.ALLOW,),
    "set": lambda: {"allow"},
    "dict-allow": lambda: {"action": "allow"},
    "ellipsis": lambda: ...,
    "not-implemented": lambda: NotImplemented,
    "object": object,
    "refusing": Refusing,
    "request": lambda: PermissionRequest("act"),
    # Things that look like an answer.
    "verdict-Allowed": Allowed,
    "verdict-Denied": lambda: Denied("no"),
    "class-Allowed": lambda: Allowed,
    "class-ApprovalDecision": lambda: ApprovalDecision,
    "class-PermissionResult": lambda: PermissionResult,
    "mode-decision": PermissionDecision.allow_,
    "rule": lambda: PermissionRule("allow", lambda tool, parameters: True, "allow"),
    "namespace": lambda: SimpleNamespace(action="allow", allows=True),
    "not-a-decision": NotADecision,
    "half-made": half_made,
    "made-up-action": lambda: made_up(action="yes"),
    "made-up-str": lambda: made_up(action=Text("allow")),
    "made-up-edit": lambda: made_up(action="edit"),
    "made-up-stop": lambda: made_up(action="allow", stop="no"),
    "exception": lambda: PermissionError("no"),
    "exception-class": lambda: PermissionError,
    # Things that could be called, awaited or gone through.
    "function": lambda: lambda: True,
    "partial": lambda: functools.partial(later, True),
    "generator": generated,
    "async-generator": generated_later,
    "coroutine-of-coroutine-function": lambda: later(later),
    "mock": mock.Mock,
    "magic-mock": mock.MagicMock,
    "mock-of-a-decision": lambda: mock.Mock(spec=ApprovalDecision("allow")),
    "mock-of-a-result": lambda: mock.Mock(spec=PermissionResult.ALLOW),
    "non-callable-mock": mock.NonCallableMock,
}
"""What is no answer."""


@pytest.mark.parametrize("driver", DRIVERS)
@pytest.mark.parametrize("kind", KINDS, ids=["handler", "async-handler"])
class TestReturns:
    @pytest.mark.parametrize("name", ALLOWS)
    def test_an_explicit_allow_lets_the_call_run(self, driver: str, kind: Any, name: str) -> None:
        ran, result, warnings, agent = turn_with(driver, kind(ALLOWS[name]))
        assert (ran, result.verdict, result.answered_by, warnings) == ([{"n": 1}], "allowed", "handler", [])
        assert list(agent.audit.calls()["decided_by"]) == ["policy: ask_all"]

    @pytest.mark.parametrize("name", DENIES)
    def test_an_explicit_denial_denies(self, driver: str, kind: Any, name: str) -> None:
        give, reason = DENIES[name]
        ran, result, warnings, agent = turn_with(driver, kind(give))
        assert (ran, result.verdict, result.answered_by) == ([], "denied", "handler")
        assert reason in result.reason
        assert warnings == []
        assert list(agent.audit.calls()["verdict"]) == ["denied"]

    @pytest.mark.parametrize("name", JUNK)
    def test_anything_else_denies_with_a_warning(self, driver: str, kind: Any, name: str) -> None:
        ran, result, warnings, agent = turn_with(driver, kind(JUNK[name]))
        if "coroutine" in name:
            gc.collect()  # one that was never awaited would warn
        assert (ran, result.verdict, result.decided_by) == ([], "denied", "policy: ask_all")
        assert result.content == NO_ANSWER
        assert [text for text in warnings if "which is not an answer, so the call was denied" in text]
        (row,) = agent.audit.calls().to_dict("records")
        assert (row["verdict"], row["outcome"], row["reason"]) == ("denied", "not_run", NO_ANSWER)

    def test_an_edit_that_does_not_fit_the_schema_does_not_run(self, driver: str, kind: Any) -> None:
        decision = ApprovalDecision("edit", edited_args={"n": "many"})
        ran, result, _, _ = turn_with(driver, kind(lambda: decision))
        assert (ran, result.outcome.kind) == ([], "input_error")


class CallableHandle:
    """A handler whose ``handle`` is an object with an async ``__call__``."""

    def __init__(self, answer: Any) -> None:
        async def call(request: PermissionRequest) -> Any:
            return answer

        class Handle:
            async def __call__(self, request: PermissionRequest) -> Any:
                return await call(request)

        self.handle = Handle()


@pytest.mark.parametrize("driver", DRIVERS)
@pytest.mark.parametrize(("answer", "runs"), [(True, True), (False, False), ("DENY", False), (None, False)], ids=repr)
class TestAwaiting:
    """Whatever a handler gives to await is awaited, and what it gives then is held to the same."""

    def test_a_function_that_returns_a_coroutine(self, driver: str, answer: Any, runs: bool) -> None:
        ran, _, _, _ = turn_with(driver, Handler(lambda: later(answer)))
        assert bool(ran) is runs

    def test_a_function_that_returns_an_awaitable(self, driver: str, answer: Any, runs: bool) -> None:
        ran, _, _, _ = turn_with(driver, Handler(lambda: Awaited(answer)))
        assert bool(ran) is runs

    def test_an_async_function_that_returns_something_to_await_gives_no_answer(
        self, driver: str, answer: Any, runs: bool
    ) -> None:
        for give in (lambda: later(answer), lambda: Awaited(answer)):
            ran, result, warnings, _ = turn_with(driver, AsyncHandler(give))
            assert (ran, result.content) == ([], NO_ANSWER)
            assert len(warnings) >= 1

    def test_an_object_with_an_async_call(self, driver: str, answer: Any, runs: bool) -> None:
        ran, _, _, _ = turn_with(driver, CallableHandle(answer))
        assert bool(ran) is runs

    def test_a_partial_of_an_async_function(self, driver: str, answer: Any, runs: bool) -> None:
        async def handle(given: Any, request: PermissionRequest) -> Any:
            return given

        ran, _, _, _ = turn_with(driver, SimpleNamespace(handle=functools.partial(handle, answer)))
        assert bool(ran) is runs

    def test_an_async_mock(self, driver: str, answer: Any, runs: bool) -> None:
        ran, _, _, _ = turn_with(driver, mock.Mock(handle=mock.AsyncMock(return_value=answer)))
        assert bool(ran) is runs

    def test_a_mock_that_returns_it(self, driver: str, answer: Any, runs: bool) -> None:
        ran, _, _, _ = turn_with(driver, mock.Mock(handle=mock.Mock(return_value=answer)))
        assert bool(ran) is runs


# --- what it raises ---------------------------------------------------------------------------------------------------


class OwnPermissionError(PermissionError):
    pass


class OwnBaseError(BaseException):
    pass


REASONS: dict[str, tuple[BaseException, str]] = {
    "PermissionError": (PermissionError("Not on Fridays."), "Not on Fridays."),
    "own-PermissionError": (OwnPermissionError("Not on Fridays."), "Not on Fridays."),
    "PermissionError-without-words": (PermissionError(), DECLINED),
    "ToolError": (ToolError("Ask the owner."), "Ask the owner."),
    "ToolTimeoutError": (ToolTimeoutError("Too late."), "Too late."),
    "ToolInputError": (ToolInputError("No such path."), "No such path."),
}
"""What denies with a reason of its own."""

ERRORS: list[BaseException] = [
    KeyError("path"),
    RuntimeError("the handler's own words"),
    ValueError("x"),
    TypeError("x"),
    AttributeError("x"),
    TimeoutError(errno.ETIMEDOUT, "Connection timed out"),
    OSError("x"),
    ConnectionError(),
    EOFError(),
    ImportError("x"),
    LookupError(),
    ArithmeticError(),
    AssertionError(),
    NotImplementedError(),
    RecursionError(),
    MemoryError(),
    StopIteration("allow"),
    StopAsyncIteration("allow"),
    UnicodeDecodeError("utf-8", b"", 0, 1, "x"),
    UserWarning("x"),
    ExceptionGroup("x", [KeyError("path")]),
    Exception(),
]

INTERRUPTS: list[BaseException] = [KeyboardInterrupt(), SystemExit(0), asyncio.CancelledError(), OwnBaseError("x")]


def raises(error: BaseException) -> Callable[[], Any]:
    def give() -> Any:
        raise error

    return give


@pytest.mark.parametrize("driver", DRIVERS)
@pytest.mark.parametrize("kind", KINDS, ids=["handler", "async-handler"])
class TestErrors:
    @pytest.mark.parametrize("name", REASONS)
    def test_some_errors_deny_with_the_reviewer_s_words(self, driver: str, kind: Any, name: str) -> None:
        error, reason = REASONS[name]
        ran, result, warnings, agent = turn_with(driver, kind(raises(error)))
        assert (ran, result.verdict, result.content, warnings) == ([], "denied", reason, [])
        (row,) = agent.audit.calls().to_dict("records")
        assert (row["verdict"], row["reason"], row["answered_by"]) == ("denied", reason, "handler")

    @pytest.mark.parametrize("error", ERRORS, ids=lambda error: type(error).__name__)
    def test_any_other_error_denies_that_call_with_a_warning(self, driver: str, kind: Any, error: Exception) -> None:
        ran, result, warnings, agent = turn_with(driver, kind(raises(error)))
        assert (ran, result.verdict, result.content) == ([], "denied", FAILED)
        assert [text for text in warnings if " raised " in text and "so the call to act was denied" in text]
        assert list(agent.audit.calls()["verdict"]) == ["denied"]

    @pytest.mark.parametrize("error", [TimeoutError(), TimeoutError("Nobody came.")], ids=repr)
    def test_a_timeout_error_says_that_nobody_answered_in_time(self, driver: str, kind: Any, error: Exception) -> None:
        ran, result, warnings, agent = turn_with(driver, kind(raises(error)))
        assert (ran, result.verdict, result.answered_by, warnings) == ([], "denied", "timeout", [])
        assert list(agent.audit.calls()["decided_kind"]) == ["timeout"]

    @pytest.mark.parametrize("made", [PermissionError, OwnPermissionError])
    def test_a_permission_error_of_the_operating_system_is_no_reviewer_s_words(
        self, driver: str, kind: Any, made: Any
    ) -> None:
        error = made(errno.EACCES, "Permission denied", "/srv/approvals/secret.db")
        ran, result, warnings, _ = turn_with(driver, kind(raises(error)))
        assert (ran, result.verdict, result.content) == ([], "denied", FAILED)
        assert [text for text in warnings if "PermissionError: [Errno 13] Permission denied" in text]

    def test_the_words_of_an_error_are_not_lost(self, driver: str, kind: Any) -> None:
        _, _, warnings, _ = turn_with(driver, kind(raises(RuntimeError("the handler's own words"))))
        assert [text for text in warnings if "RuntimeError: the handler's own words" in text]

    @pytest.mark.parametrize("error", INTERRUPTS, ids=lambda error: type(error).__name__)
    def test_an_interrupt_ends_the_turn_and_nothing_runs(self, driver: str, kind: Any, error: BaseException) -> None:
        ran, outcome, _, _ = turn_with(driver, kind(raises(error)))
        assert ran == []
        own = driver == "asyncio" and isinstance(error, asyncio.CancelledError)  # so a turn itself is cancelled there
        assert isinstance(outcome, type(error)) or (own and kind is AsyncHandler)

    def test_the_other_calls_of_the_turn_go_on(self, driver: str, kind: Any) -> None:
        def give_by_turns() -> Any:
            answers.append(None)
            if len(answers) == 1:
                raise KeyError("path")
            return True

        answers: list[None] = []
        act = Counter()
        rule = PermissionRule("some", lambda tool, parameters: parameters["n"] == 1, "ask")
        policy = PermissionPolicy([rule], "allow", kind(give_by_turns))
        turn, _ = run_noting(driver, Agent([act.tool], permissions=policy), [tool_call("act", n=n) for n in (1, 2)])
        assert isinstance(turn, Turn)
        assert [result.verdict for result in turn.results] == ["denied", "allowed"]
        assert act.ran == [{"n": 2}]


# --- a handler that is given with its limits --------------------------------------------------------------------------


@pytest.mark.parametrize("driver", DRIVERS)
@pytest.mark.parametrize("kind", KINDS)
class TestGivenAsAnApprover:
    @pytest.mark.parametrize("name", ["an explicit allow", "junk", "a raise"])
    def test_it_answers_as_the_handler_does(self, driver: str, kind: Any, name: str) -> None:
        def fail() -> Any:
            raise PermissionError("not today")

        give = {"an explicit allow": lambda: "allow", "junk": lambda: "yes", "a raise": fail}[name]
        ran, result, warnings, _ = turn_with(driver, PolicyHandlerApprover(kind(give), timeout=60))
        plain_ran, plain, plain_warnings, _ = turn_with(driver, kind(give))
        assert (ran, result.verdict, result.content) == (plain_ran, plain.verdict, plain.content)
        assert len(warnings) == len(plain_warnings)
        assert bool(ran) == (name == "an explicit allow")

    def test_it_is_asked_itself_and_not_put_into_another_one(self, driver: str, kind: Any) -> None:
        seen: list[Any] = []
        handler = PolicyHandlerApprover(kind(lambda: True), timeout=60, reminders=[30])
        policy = PermissionPolicy(fallback="ask", handler=handler)
        for options in ({"permissions": policy}, {"permissions": PermissionPolicy(fallback="ask")}):
            if options["permissions"] is not policy:
                options["permission_handler"] = handler  # type: ignore[assignment]  # it is one
            agent = Agent([Counter().tool], **options)  # type: ignore[arg-type]  # these two
            leave = the_desk.subscribe(lambda change, agent=agent: seen.extend(agent.pending()))
            run_noting(driver, agent, [tool_call("act")])
            leave()
            (row,) = [event for event in agent.audit.events() if event.kind == "answered"]
            assert row.data["via"] == f"PolicyHandlerApprover({kind.__name__}, timeout=60, reminders=[30])"
        assert {request.patience for request in seen} == {handler.patience}


def test_it_is_a_handler_too() -> None:
    handler = PolicyHandlerApprover(Handler(lambda: "allow"))
    assert isinstance(handler, PermissionHandler)
    assert handler.handle(PermissionRequest("act")) == "allow"
    later: Any = PolicyHandlerApprover(AsyncHandler(lambda: "deny")).handle(PermissionRequest("act"))
    assert asyncio.run(later) == "deny"


@pytest.mark.parametrize(
    "make",
    [
        lambda: PolicyHandlerApprover(lambda request: True),  # type: ignore[arg-type]  # that is what is tried
        lambda: PolicyHandlerApprover(Handler),  # type: ignore[arg-type]  # that is what is tried
        lambda: PolicyHandlerApprover(PolicyHandlerApprover(Handler(lambda: True), timeout=5), timeout=60),
        lambda: PermissionPolicy(handler=HandlerApprover(lambda request: True, timeout=5)),  # type: ignore[arg-type]
        lambda: Agent(permissions=PermissionPolicy(), permission_handler=HandlerApprover(lambda request: True)),  # type: ignore[arg-type]
    ],
    ids=["a function", "the class", "one in another", "an approval handler", "an approval handler for the agent"],
)
def test_what_is_no_handler_is_an_error_with_its_fix(make: Callable[[], Any]) -> None:
    with pytest.raises(TypeError, match=r"(?s)\nFix: .*\nExample:") as caught:
        make()
    assert "PolicyHandlerApprover" in str(caught.value)


def test_a_policy_pickles_with_its_handler_and_the_limits() -> None:
    policy = PermissionPolicy(fallback="ask", handler=PolicyHandlerApprover(Careful(), timeout=60))
    again = pickle.loads(pickle.dumps(policy))
    assert repr(again.handler) == "PolicyHandlerApprover(Careful, timeout=60)"
    assert again.handler.handle(PermissionRequest("act")) == "deny"


class Careful:
    """A handler that can be pickled."""

    def handle(self, request: PermissionRequest) -> str:
        return "deny"
