"""Policies in a turn: what rules and fallback come to, who answers what they ask, and what is told and recorded."""

from __future__ import annotations

import asyncio
import json
import threading
from contextvars import ContextVar
from typing import Any

import anyio
import anyio.lowlevel
import anyio.to_thread
import pytest
import toolregistry.permissions as there
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from turns import DRIVERS, Counter, run, run_noting
from wire import use

from agentperm_nb import (
    ALLOW_READONLY,
    ASK_DESTRUCTIVE,
    DENY_PRIVILEGED,
    Agent,
    AllowByDefault,
    AllowByName,
    ApprovalDecision,
    DecideByHuman,
    DenyByName,
    Mode,
    PermissionPolicy,
    PermissionRequest,
    PermissionResult,
    PermissionRule,
    PerUserPermissions,
    StandardPermissions,
    Tool,
    ToolCall,
    ToolError,
    ToolInputError,
    get_run_context,
    tool,
)
from agentperm_nb.testing import FakeHuman, tool_call

ALLOW, DENY, ASK = PermissionResult.ALLOW, PermissionResult.DENY, PermissionResult.ASK


def rule(result: Any, reason: str = "", *, name: str = "", when: Any = None) -> PermissionRule:
    """A rule that matches every call, or those with arguments for which `when` is true."""
    match = (lambda tool, parameters: True) if when is None else (lambda tool, parameters: when(parameters))
    return PermissionRule(name or f"{result}_all", match, result, reason)


def raising(error: BaseException, result: Any = "deny", name: str = "broken") -> PermissionRule:
    def match(tool: Tool, parameters: dict[str, Any]) -> bool:
        raise error

    return PermissionRule(name, match, result)


class Answering:
    """A handler that gives one answer, and keeps what it was told."""

    def __init__(self, answer: Any = ALLOW) -> None:
        self.answer = answer
        self.requests: list[PermissionRequest] = []

    def handle(self, request: PermissionRequest) -> Any:
        self.requests.append(request)
        return self.answer


class AnsweringLater(Answering):
    """The same, awaited."""

    async def handle(self, request: PermissionRequest) -> Any:  # type: ignore[override]  # either is a handler
        await anyio.lowlevel.checkpoint()
        return super().handle(request)


class FalseHandler(Answering):
    """A handler that is false, as one with a length of 0 is."""

    def __bool__(self) -> bool:
        return False


FAILED = "The call could not be decided: policy: broken failed"


# --- rules and fallback -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("driver", DRIVERS)
class TestDecisions:
    @pytest.mark.states("RP4.4")
    def test_what_a_rule_allows_runs_and_what_it_denies_does_not(self, driver: str) -> None:
        act = Counter()
        policy = PermissionPolicy(
            [
                rule("deny", "n is too large", name="large", when=lambda args: args["n"] > 2),
                rule("allow", name="positive", when=lambda args: args["n"] > 0),
            ]
        )
        agent = Agent([act.tool], permissions=policy)
        turn = run(driver, agent, [tool_call("act", n=n) for n in (1, 3, 0)])
        assert [(result.verdict, result.decided_by, result.reason) for result in turn.results] == [
            ("allowed", "policy: positive", ""),
            ("denied", "policy: large", "n is too large"),
            ("denied", "policy: fallback", "act is denied: no rule of the policy allows it."),
        ]
        assert act.ran == [{"n": 1}]
        assert list(agent.audit.calls()["decided_by"]) == [result.decided_by for result in turn.results]

    @pytest.mark.states("RP2.3")
    @pytest.mark.parametrize("fallback", ["allow", "deny", "ask", None])
    def test_the_fallback_decides_where_no_rule_matches(self, driver: str, fallback: Any) -> None:
        act, handler = Counter(), Answering("allow")
        agent = Agent([act.tool], permissions=PermissionPolicy([], fallback, handler))
        (result,) = run_noting(driver, agent, [tool_call("act")])[0].results  # type: ignore[union-attr]  # a turn
        assert result.verdict == ("allowed" if fallback in ("allow", "ask") else "denied")
        assert result.decided_by == ("policy: fallback" if fallback is not None else None)
        assert len(handler.requests) == (1 if fallback == "ask" else 0)

    @pytest.mark.states("RP2.7")
    def test_what_the_fallback_asks_has_neither_rule_nor_reason(self, driver: str) -> None:
        handler = Answering()
        run(driver, Agent([Counter().tool], permissions=PermissionPolicy([], "ask", handler)), [tool_call("act")])
        assert [(request.rule_name, request.reason) for request in handler.requests] == [("", "")]

    @pytest.mark.states("RP4.3")
    def test_a_tool_that_is_not_there_reaches_neither_policy_nor_handler(self, driver: str) -> None:
        handler = Answering()
        policy = PermissionPolicy([raising(AssertionError("asked"))], "ask", handler)
        (result,) = run(driver, Agent([Counter().tool], permissions=policy), [tool_call("other")]).results
        assert result.outcome.kind == "input_error"
        assert handler.requests == []

    def test_arguments_that_are_no_json_reach_neither_policy_nor_handler(self, driver: str) -> None:
        handler = Answering()
        policy = PermissionPolicy([raising(AssertionError("asked"))], "ask", handler)
        call = {"id": "c", "type": "function", "function": {"name": "act", "arguments": '{"n": '}}
        reply = {"choices": [{"message": {"role": "assistant", "content": None, "tool_calls": [call]}}]}
        (result,) = run(driver, Agent([Counter().tool], permissions=policy), reply).results
        assert result.outcome.kind == "input_error"
        assert handler.requests == []

    def test_arguments_that_do_not_fit_are_seen_by_rules_and_put_to_nobody(self, driver: str) -> None:
        act, handler, seen = Counter(), Answering(), list[Any]()
        policy = PermissionPolicy([rule("deny", when=lambda args: seen.append(args))], "ask", handler)
        (result,) = run(driver, Agent([act.tool], permissions=policy), [tool_call("act", n="many")]).results
        assert (result.outcome.kind, handler.requests, act.ran) == ("input_error", [], [])
        assert seen[0] == {"n": "many"}

    @pytest.mark.states("RP1.7")
    def test_a_rule_that_is_added_counts_from_the_next_call_on(self, driver: str) -> None:
        policy = PermissionPolicy([rule("allow")])
        agent = Agent([Counter().tool], permissions=policy)
        assert run(driver, agent, [tool_call("act")]).results[0].verdict == "allowed"
        policy.rules.insert(0, rule("deny", "not any more"))
        assert run(driver, agent, [tool_call("act")]).results[0].reason == "not any more"
        policy.rules.clear()
        policy.fallback = "allow"  # type: ignore[assignment]  # a text is converted
        assert run(driver, agent, [tool_call("act")]).results[0].decided_by == "policy: fallback"

    def test_what_a_rule_does_to_the_arguments_changes_no_call(self, driver: str) -> None:
        def changing(tool: Tool, parameters: dict[str, Any]) -> bool:
            parameters["n"] = 99
            parameters["more"] = True
            return False

        act = Counter()
        policy = PermissionPolicy([PermissionRule("changing", changing, "deny"), rule("allow")])
        agent = Agent([act.tool], permissions=[policy])
        run(driver, agent, [tool_call("act", n=1)])
        assert act.ran == [{"n": 1}]
        assert list(agent.audit.calls()["args_json"]) == ['{"n":1}']

    @pytest.mark.parametrize("result", ["allow", "ask", "deny"])
    @pytest.mark.parametrize(
        ("error", "content", "warns"),
        [
            (KeyError("path"), f"{FAILED} (KeyError: 'path').", True),
            (RuntimeError("no"), f"{FAILED} (RuntimeError: no).", True),
            (PermissionError("no"), f"{FAILED} (PermissionError: no).", True),
            (ValueError(), f"{FAILED} (ValueError).", True),
            (AttributeError("x"), f"{FAILED} (AttributeError: x).", True),
            (TypeError("x"), f"{FAILED} (TypeError: x).", True),
            (TimeoutError(), f"{FAILED} (TimeoutError).", True),
            (StopIteration(), f"{FAILED} (StopIteration).", True),
            (RecursionError(), f"{FAILED} (RecursionError).", True),
            (AssertionError(), f"{FAILED} (AssertionError).", True),
            (ToolInputError("x"), f"{FAILED} (ToolInputError: x).", True),
            (ExceptionGroup("x", [OSError()]), f"{FAILED} (ExceptionGroup: x (1 sub-exception)).", True),
            (ToolError("ask the owner"), "ask the owner", False),
        ],
        ids=lambda value: type(value).__name__ if isinstance(value, Exception) else None,
    )
    def test_a_rule_that_raises_denies_that_one_call_and_is_named(
        self, driver: str, error: Exception, content: str, warns: bool, result: str
    ) -> None:
        def match(tool: Tool, parameters: dict[str, Any]) -> bool:
            if parameters["n"] == 2:
                raise error
            return False

        act = Counter()
        policy = PermissionPolicy([PermissionRule("broken", match, result), rule("allow")])  # type: ignore[arg-type]  # texts
        agent = Agent([act.tool], permissions=[policy, AllowByDefault()])
        turn, warnings = run_noting(driver, agent, [tool_call("act", n=n) for n in (1, 2, 3)])
        assert not isinstance(turn, BaseException)
        assert [one.verdict for one in turn.results] == ["allowed", "denied", "allowed"]
        assert turn.results[1].content == content
        assert turn.results[1].decided_by == "policy: broken"
        assert sorted(one["n"] for one in act.ran) == [1, 3]
        assert [text for text in warnings if "policy: broken" in text] == (warnings[:1] if warns else [])
        assert len(warnings) == (1 if warns else 0)

    @pytest.mark.parametrize("error", [KeyboardInterrupt(), SystemExit(1)], ids=repr)
    def test_an_interrupt_in_a_rule_ends_the_turn_and_nothing_runs(self, driver: str, error: BaseException) -> None:
        act = Counter()
        agent = Agent([act.tool], permissions=PermissionPolicy([raising(error, "allow")], "allow"))
        outcome, _ = run_noting(driver, agent, [tool_call("act")])
        assert isinstance(outcome, type(error))
        assert act.ran == []

    def test_something_among_the_rules_that_is_none_denies(self, driver: str) -> None:
        act, policy = Counter(), PermissionPolicy([], "allow")
        agent = Agent([act.tool], permissions=policy)
        theirs = there.PermissionRule("allow", lambda tool, parameters: True, there.PermissionResult.ALLOW)
        for junk in ("rule", None, theirs, PermissionRule):
            policy.rules[:] = [junk]  # type: ignore[list-item]  # that is what is tried
            turn, warnings = run_noting(driver, agent, [tool_call("act")])
            assert not isinstance(turn, BaseException)
            assert turn.results[0].verdict == "denied"
            assert len(warnings) == 1
        assert act.ran == []

    def test_a_policy_without_an_opinion_leaves_the_call_to_the_rest_of_the_list(self, driver: str) -> None:
        policy = PermissionPolicy([rule("deny", "too large", when=lambda args: args["n"] > 2)], fallback=None)
        agent = Agent([Counter().tool], permissions=[policy, AllowByName(["act"])])
        turn = run(driver, agent, [tool_call("act", n=n) for n in (1, 3)])
        assert [(one.verdict, one.decided_by) for one in turn.results] == [
            ("allowed", "AllowByName(['act'])"),
            ("denied", "policy: deny_all"),
        ]


# --- who answers ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("driver", DRIVERS)
class TestWhoAnswers:
    @pytest.mark.parametrize(
        ("has", "expected"),
        [
            (("policy", "agent", "approval"), "policy"),
            (("policy", "human"), "policy"),
            (("agent", "approval"), "agent"),
            (("agent", "human"), "agent"),
            (("approval",), "approval"),
            (("human",), "human"),
            ((), "nobody"),
        ],
        ids=lambda value: "+".join(value) if isinstance(value, tuple) else value,
    )
    @pytest.mark.parametrize("kind", [Answering, AnsweringLater, FalseHandler], ids=lambda kind: kind.__name__)
    def test_the_policy_s_handler_comes_first_then_the_agent_s_and_then_whoever_else_is_asked(
        self, driver: str, has: tuple[str, ...], expected: str, kind: type[Answering]
    ) -> None:
        asked: list[str] = []

        def handler(name: str) -> Any:
            made = kind()
            handle = made.handle
            made.handle = lambda request: asked.append(name) or handle(request)  # type: ignore[method-assign,func-returns-value]  # notes who
            return made

        def approve(request: Any) -> bool:
            asked.append("approval")
            return True

        options: dict[str, Any] = {}
        if "agent" in has:
            options["permission_handler"] = handler("agent")
        if "approval" in has:
            options["approval_handler"] = approve
        human = FakeHuman(["yes"])
        if "human" in has:
            options["human"] = human
        policy = PermissionPolicy([rule("ask", "why")], handler=handler("policy") if "policy" in has else None)
        act = Counter()
        (result,) = run(driver, Agent([act.tool], permissions=policy, **options), [tool_call("act")]).results
        asked += ["human"] if human.questions else []
        assert asked == ([expected] if expected != "nobody" else [])
        assert result.answered_by == {"human": "human", "nobody": "nobody"}.get(expected, "handler")
        assert len(act.ran) == (0 if expected == "nobody" else 1)

    @pytest.mark.parametrize("fallback", ["allow", "ask", "deny", None])
    def test_where_nobody_can_answer_the_call_is_denied_whatever_the_fallback(self, driver: str, fallback: Any) -> None:
        act = Counter()
        agent = Agent([act.tool], permissions=[PermissionPolicy([rule("ask")], fallback), AllowByDefault()])
        (result,) = run(driver, agent, [tool_call("act")]).results
        assert (result.verdict, result.answered_by, act.ran) == ("denied", "nobody", [])

    def test_a_handler_for_policies_is_asked_only_what_a_policy_asks(self, driver: str) -> None:
        handler, human = Answering(), FakeHuman(["yes"])
        policy = PermissionPolicy([rule("ask", when=lambda args: args["n"] == 1)], fallback=None)
        agent = Agent([Counter().tool], permissions=[policy, DecideByHuman()], permission_handler=handler, human=human)
        turn = run(driver, agent, [tool_call("act", n=n) for n in (1, 2)])
        assert [one.answered_by for one in turn.results] == ["handler", "human"]
        assert [request.parameters for request in handler.requests] == [{"n": 1}]
        assert human.questions == ["Run act(n=2)?"]

    def test_a_handler_is_told_who_asks_for_what(self, driver: str) -> None:
        handler = Answering()

        @tool(tags=["network"], custom_tags=["billing"])
        def send(to: str, password: str) -> str:
            """Send."""
            return to

        agent = Agent([send], name="main", permissions=PermissionPolicy([rule("ask", "it costs")], handler=handler))
        call = ToolCall("send", {"to": "bob", "password": "hunter2 and more"}, "call_1")
        run(driver, agent, [call], user="ann", session="s1")
        (request,) = handler.requests
        assert (request.tool_name, request.rule_name, request.reason) == ("send", "ask_all", "it costs")
        assert request.parameters == {"to": "bob", "password": "hunter2 and more"}
        assert request.metadata is send.metadata
        assert (request.user_id, request.session_id, request.agent_path) == ("ann", "s1", ("main",))
        assert (request.call_id, request.call_key) == ("call_1", agent.audit.calls()["call_key"].iloc[0])
        assert request.run_id == agent.audit.calls()["run"].iloc[0]
        assert request.asked_at is not None
        assert "hunter2" not in repr(request)

    def test_what_a_handler_does_to_the_request_changes_no_call(self, driver: str) -> None:
        class Changing:
            def handle(self, request: PermissionRequest) -> PermissionResult:
                request.parameters["n"] = 99
                return ALLOW

        act = Counter()
        agent = Agent([act.tool], permissions=PermissionPolicy([rule("ask")], handler=Changing()))
        (result,) = run(driver, agent, [tool_call("act", n=1)]).results
        assert act.ran == [{"n": 1}]
        assert (result.args_run, list(agent.audit.calls()["edited"])) == (None, [False])

    def test_a_handler_edits_by_saying_so_and_the_edit_is_decided_again(self, driver: str) -> None:
        act = Counter()
        policy = PermissionPolicy(
            [rule("deny", "too large", name="large", when=lambda args: args["n"] > 5), rule("ask")],
        )
        for n, verdict in ((2, "allowed"), (9, "denied")):
            handler = Answering(ApprovalDecision("edit", edited_args={"n": n}))
            agent = Agent([act.tool], permissions=policy, permission_handler=handler)
            (result,) = run(driver, agent, [tool_call("act", n=1)]).results
            assert (result.verdict, len(handler.requests)) == (verdict, 1)
            assert bool(agent.audit.calls()["edited"].iloc[0])
        assert act.ran == [{"n": 2}]

    def test_the_questions_of_a_turn_are_put_at_the_same_time(self, driver: str) -> None:
        count, together = 3, threading.Barrier(3, timeout=10)

        class Waiting:
            def handle(self, request: PermissionRequest) -> PermissionResult:
                together.wait()  # all of them, or a BrokenBarrierError
                return ALLOW

        act = Counter()
        agent = Agent([act.tool], permissions=PermissionPolicy([rule("ask")], handler=Waiting()))
        run(driver, agent, [tool_call("act", n=n) for n in range(count)])
        assert sorted(args["n"] for args in act.ran) == [0, 1, 2]

    def test_a_rule_that_is_added_while_a_question_waits_holds(self, driver: str) -> None:
        policy = PermissionPolicy([rule("ask")])

        class Tightening:
            def handle(self, request: PermissionRequest) -> PermissionResult:
                policy.rules.insert(0, rule("deny", "closed meanwhile"))
                return ALLOW

        act = Counter()
        agent = Agent([act.tool], permissions=policy, permission_handler=Tightening())
        (result,) = run(driver, agent, [tool_call("act")]).results
        assert (result.verdict, result.reason, act.ran) == ("denied", "closed meanwhile", [])

    @pytest.mark.parametrize(("result", "times"), [("allow", 1), ("ask", 2), ("deny", 1)])
    def test_a_rule_is_asked_again_just_before_a_call_starts_that_somebody_was_asked_about(
        self, driver: str, result: str, times: int
    ) -> None:
        seen: list[str] = []

        def match(tool: Tool, parameters: dict[str, Any]) -> bool:
            seen.append(tool.name)
            return True

        policy = PermissionPolicy([PermissionRule("noting", match, PermissionResult(result))], handler=Answering(ALLOW))
        run(driver, Agent([Counter().tool], permissions=policy), [tool_call("act")])
        assert seen == ["act"] * times

    def test_rules_that_two_policies_share_count_in_both(self, driver: str) -> None:
        shared = [rule("allow")]
        agents = [Agent([Counter().tool], permissions=PermissionPolicy(shared)) for _ in range(2)]
        shared.insert(0, rule("deny"))
        for agent in agents:
            assert run(driver, agent, [tool_call("act")]).results[0].decided_by == "policy: deny_all"

    def test_a_remembered_answer_spares_the_handler_and_never_passes_a_deny(self, driver: str) -> None:
        handler = Answering("remember_allow")
        policy = PermissionPolicy([rule("ask")], handler=handler)
        agent = Agent([Counter().tool], permissions=policy)
        for _ in range(2):
            assert run(driver, agent, [tool_call("act", n=1)]).results[0].verdict == "allowed"
        assert len(handler.requests) == 1
        policy.rules.insert(0, rule("deny"))
        assert run(driver, agent, [tool_call("act", n=1)]).results[0].verdict == "denied"

    @pytest.mark.states("RP5.8")
    def test_the_time_limit_of_a_tool_does_not_count_the_time_of_a_question(self, driver: str) -> None:
        class Slow:
            def handle(self, request: PermissionRequest) -> PermissionResult:
                threading.Event().wait(0.6)
                return ALLOW

        act = Counter(timeout=0.5)
        agent = Agent([act.tool], permissions=PermissionPolicy([rule("ask")], handler=Slow()))
        assert run(driver, agent, [tool_call("act")]).results[0].outcome.kind == "done"
        assert agent.audit.calls()["duration_s"].iloc[0] < 0.5
        assert agent.audit.calls()["waited_s"].iloc[0] >= 0.6


class TestThreadsAndLoops:
    @pytest.mark.parametrize("driver", DRIVERS)
    @pytest.mark.parametrize("kind", [Answering, AnsweringLater], ids=lambda kind: kind.__name__)
    def test_a_handler_sees_the_context_of_the_run(self, driver: str, kind: type[Answering]) -> None:
        seen: list[Any] = []
        word: ContextVar[str] = ContextVar("word", default="")

        class Looking(kind):  # type: ignore[misc,valid-type]  # either kind
            def handle(self, request: PermissionRequest) -> Any:
                context = get_run_context()
                seen.append((word.get(), context.user_id if context else None))
                return super().handle(request)

        token = word.set("set by the caller")
        try:
            policy = PermissionPolicy([rule("ask")], handler=Looking())
            run(driver, Agent([Counter().tool], permissions=policy), [tool_call("act")], user="ann")
        finally:
            word.reset(token)
        assert seen == [("set by the caller", "ann")]

    @pytest.mark.parametrize("backend", ["asyncio", "trio"])
    def test_a_handler_that_blocks_does_not_hold_up_the_loop(self, backend: str) -> None:
        asked, released = threading.Event(), threading.Event()

        class Blocking:
            def handle(self, request: PermissionRequest) -> PermissionResult:
                asked.set()
                return ALLOW if released.wait(10) else DENY

        async def main() -> str:
            policy = PermissionPolicy([rule("ask")], handler=Blocking())
            agent = Agent([Counter().tool], permissions=policy)
            async with anyio.create_task_group() as tasks:

                async def release() -> None:
                    assert await anyio.to_thread.run_sync(asked.wait, 10)
                    released.set()  # the loop goes on while the handler blocks its thread

                tasks.start_soon(release)
                turn = await agent.ause_tools([tool_call("act")])
            return turn.results[0].verdict

        assert anyio.run(main, backend=backend) == "allowed"

    @pytest.mark.parametrize("backend", ["asyncio", "trio"])
    def test_an_async_handler_works_on_the_loop_of_the_turn(self, backend: str) -> None:
        class OnTheLoop:
            def __init__(self) -> None:
                self.asked, self.clicked = anyio.Event(), anyio.Event()

            async def handle(self, request: PermissionRequest) -> PermissionResult:
                self.asked.set()
                await self.clicked.wait()
                return ALLOW

        async def main() -> str:
            handler = OnTheLoop()
            agent = Agent([Counter().tool], permissions=PermissionPolicy([rule("ask")], handler=handler))
            async with anyio.create_task_group() as tasks:

                async def click() -> None:
                    await handler.asked.wait()
                    handler.clicked.set()

                tasks.start_soon(click)
                turn = await agent.ause_tools([tool_call("act")])
            return turn.results[0].verdict

        assert anyio.run(main, backend=backend) == "allowed"

    def test_an_async_handler_works_in_the_sync_form_inside_a_running_loop(self) -> None:
        handler = AnsweringLater()
        agent = Agent([Counter().tool], permissions=PermissionPolicy([rule("ask")], handler=handler))

        async def cell() -> str:
            return agent.use_tools([tool_call("act")]).results[0].verdict

        assert asyncio.run(cell()) == "allowed"
        assert len(handler.requests) == 1

    @pytest.mark.states("RP5.2")
    @pytest.mark.parametrize("kind", [Answering, AnsweringLater], ids=lambda kind: kind.__name__)
    def test_in_the_sync_form_a_handler_gets_nothing_from_the_loop_that_the_turn_blocks(
        self, kind: type[Answering]
    ) -> None:
        clicked, came = threading.Event(), list[bool]()

        class Waiting(kind):  # type: ignore[misc,valid-type]  # either kind
            def handle(self, request: PermissionRequest) -> Any:
                loop.call_soon_threadsafe(clicked.set)  # as a click in the page would
                came.append(clicked.wait(0.1))
                self.answer = came[0]
                return super().handle(request)

        async def cell() -> str:
            agent = Agent([Counter().tool], permissions=PermissionPolicy([rule("ask")], handler=Waiting()))
            return agent.use_tools([tool_call("act")]).results[0].verdict

        with asyncio.Runner() as runner:
            loop = runner.get_loop()
            assert runner.run(cell()) == "denied"
        assert came == [False]

    @pytest.mark.parametrize("backend", ["asyncio", "trio"])
    def test_a_turn_that_is_cancelled_while_its_question_waits_runs_nothing_and_says_so(self, backend: str) -> None:
        class Forever:
            def __init__(self, asked: anyio.Event) -> None:
                self.asked = asked

            async def handle(self, request: PermissionRequest) -> PermissionResult:
                self.asked.set()
                await anyio.sleep_forever()
                return ALLOW

        act, policy = Counter(), PermissionPolicy([rule("ask")])
        agent = Agent([act.tool], permissions=policy)

        async def main() -> None:
            asked = anyio.Event()
            policy.handler = Forever(asked)
            async with anyio.create_task_group() as tasks:

                async def turn() -> None:
                    await agent.ause_tools([tool_call("act")])

                tasks.start_soon(turn)
                await asked.wait()
                tasks.cancel_scope.cancel()

        anyio.run(main, backend=backend)
        assert act.ran == []
        assert agent.pending() == ()
        assert list(agent.audit.calls()["outcome"]) == ["not_run"]
        assert "withdrawn" in [event.kind for event in agent.audit.events()]


# --- what is told -----------------------------------------------------------------------------------------------------


def told(policy: PermissionPolicy, *, driver: str = "sync", **args: Any) -> list[tuple[Any, ...]]:
    """What a callback is told of one call."""
    changes: list[tuple[Any, ...]] = []
    agent = Agent([Counter().tool], permissions=policy)
    agent.on_change(
        lambda change: changes.append((change.event_type.value, change.metadata["rule_name"], change.reason))
    )
    run_noting(driver, agent, [tool_call("act", **args)])
    return changes


@pytest.mark.parametrize("driver", DRIVERS)
class TestChanges:
    def test_what_a_rule_decides_is_told_with_its_name(self, driver: str) -> None:
        assert told(PermissionPolicy([rule("allow")]), driver=driver) == [("permission_allowed", "allow_all", "")]
        assert told(PermissionPolicy([rule("deny", "no")]), driver=driver) == [("permission_denied", "deny_all", "no")]

    @pytest.mark.parametrize(("answer", "outcome"), [(ALLOW, "permission_allowed"), (DENY, "permission_denied")])
    def test_a_question_its_answer_and_what_came_of_it_are_told_in_order(
        self, driver: str, answer: PermissionResult, outcome: str
    ) -> None:
        changes = told(PermissionPolicy([rule("ask", "why")], handler=Answering(answer)), driver=driver)
        assert [kind for kind, _, _ in changes] == ["permission_asked", "permission_answered", outcome]
        assert changes[0][1:] == ("ask_all", "why")
        assert [name for _, name, _ in changes] == ["ask_all"] * 3

    def test_what_a_handler_raises_is_told_as_a_denial(self, driver: str) -> None:
        class Failing:
            def handle(self, request: PermissionRequest) -> PermissionResult:
                raise KeyError("path")

        changes = told(PermissionPolicy([rule("ask")], handler=Failing()), driver=driver)
        assert [kind for kind, _, _ in changes][-1] == "permission_denied"


def named(driver: str, permissions: Any, **options: Any) -> list[tuple[str, str, str]]:
    """What a callback is told of one call of a user ann: what, the rule, and who decided or asks in full."""
    changes: list[tuple[str, str, str]] = []
    agent = Agent([Counter().tool], permissions=permissions, user="ann", **options)
    agent.on_change(
        lambda change: changes.append(
            (
                change.event_type.value.removeprefix("permission_"),
                change.metadata["rule_name"],
                change.metadata["decided_by"],
            )
        )
    )
    run_noting(driver, agent, [tool_call("act", n=1)])
    return changes


ASKS = PermissionPolicy([rule("ask", "why")], name="shop")
DENIES_1 = PermissionPolicy([rule("deny", when=lambda parameters: parameters["n"] == 1)], name="shop")


@pytest.mark.parametrize("driver", DRIVERS)
@pytest.mark.parametrize(
    ("permissions", "kinds", "rule_name", "decided_by"),
    [
        (ASKS, ["asked", "answered", "allowed"], "ask_all", "shop: ask_all"),
        (PermissionPolicy(fallback="ask"), ["asked", "answered", "allowed"], "", "policy: fallback"),
        (PermissionPolicy(fallback="deny"), ["denied"], "", "policy: fallback"),
        (PermissionPolicy([rule("deny", name="fallback")]), ["denied"], "fallback", "policy: fallback"),
        (PermissionPolicy([raising(KeyError("n"))]), ["denied"], "broken", "policy: broken"),
        (
            [PermissionPolicy(fallback=None), PermissionPolicy([rule("allow")])],
            ["allowed"],
            "allow_all",
            "policy #2: allow_all",
        ),
        (
            PerUserPermissions({"ann": ASKS}, ASKS),
            ["asked", "answered", "allowed"],
            "ask_all",
            "PerUserPermissions: shop: ask_all",
        ),
        ([*DENIES_1.denies(), ASKS], ["denied"], "deny_all", "shop denies: deny_all"),
        (StandardPermissions(denied_tools=["act"]), ["denied"], *["StandardPermissions(DEFAULT): denied_tools"] * 2),
        ([DecideByHuman()], ["asked", "answered", "allowed"], *["DecideByHuman()"] * 2),
    ],
    ids=[
        "a rule", "a fallback that asks", "a fallback that denies", "a rule called fallback", "a rule that raises",
        "the second policy", "a policy for a user", "the denies of a policy", "a mode", "a person",
    ],
)  # fmt: skip
def test_a_change_tells_a_rule_by_its_own_name_and_in_full(
    driver: str, permissions: Any, kinds: list[str], rule_name: str, decided_by: str
) -> None:
    told = named(driver, permissions, approval_handler=lambda request: True)
    assert told == [(kind, rule_name, decided_by) for kind in kinds]


@pytest.mark.parametrize("driver", DRIVERS)
def test_what_denies_after_an_answer_is_told_by_its_own_name(driver: str) -> None:
    edit = ApprovalDecision("edit", edited_args={"n": 2})
    policy = PermissionPolicy([rule("deny", when=lambda parameters: parameters["n"] == 2), rule("ask")])
    told = named(driver, policy, approval_handler=lambda request: edit)
    assert [(kind, name) for kind, name, _ in told] == [
        ("asked", "ask_all"),
        ("answered", "ask_all"),
        ("denied", "deny_all"),
    ]


def test_a_remembered_answer_is_told_with_who_would_have_asked() -> None:
    agent = Agent([Counter().tool], permissions=ASKS, approval_handler=lambda request: "remember_allow")
    agent.use_tools([tool_call("act", n=1)])
    changes: list[Any] = []
    agent.on_change(changes.append)
    agent.use_tools([tool_call("act", n=1)])
    assert [(change.metadata["rule_name"], change.metadata["decided_by"]) for change in changes] == [
        ("ask_all", "shop: ask_all")
    ] * 2
    assert changes[0].metadata["answered_by"] == "memory"


def test_the_model_is_told_the_rule_s_reason_as_an_error_and_never_its_name() -> None:
    policy = PermissionPolicy([PermissionRule("secret_name", lambda tool, parameters: True, "deny", "Not on Fridays.")])
    agent = Agent([Counter().tool], permissions=policy)
    turn = agent.use_tools({"role": "assistant", "content": [use("act", {"n": 1})], "stop_reason": "tool_use"})
    (message,) = turn.to_messages()
    (block,) = message["content"]
    assert (block["content"], block["is_error"]) == ("Not on Fridays.", True)
    assert "secret_name" not in json.dumps(turn.to_messages())


@pytest.mark.parametrize("result", ["deny", "ask"])
def test_a_rule_without_a_reason_still_has_something_to_say(result: str) -> None:
    agent = Agent([Counter().tool], permissions=PermissionPolicy([rule(result, name="nameless")]))
    reason = agent.explain("act").reason
    assert "nameless" in reason


# --- with others in a list --------------------------------------------------------------------------------------------


@tool(tags=["read_only"])
def look(path: str = "") -> str:
    """Look."""
    return "seen"


@tool(tags=["destructive"])
def drop(path: str = "") -> str:
    """Drop."""
    return "dropped"


@tool(tags=["privileged"])
def admin(path: str = "") -> str:
    """Administer."""
    return "done"


@tool
def plain(path: str = "") -> str:
    """Do something."""
    return "done"


class TestMixedLists:
    def agent(self, human: Any = None) -> Agent:
        policy = PermissionPolicy([DENY_PRIVILEGED, ALLOW_READONLY], fallback=None, name="table")
        mode = StandardPermissions(mode=Mode.DEFAULT, denied_tools=["plain"])
        return Agent(
            [look, drop, admin, plain],
            permissions=[DenyByName(["drop"]), AllowByName(["admin"]), policy, mode, DecideByHuman()],
            human=human if human is not None else FakeHuman([]),
        )

    @pytest.mark.parametrize(
        ("name", "verdict", "decided_by"),
        [
            ("look", "allowed", "table: allow_readonly"),
            ("drop", "denied", "DenyByName(['drop'])"),
            ("admin", "allowed", "AllowByName(['admin'])"),
            ("plain", "denied", "StandardPermissions(DEFAULT)"),
        ],
    )
    def test_each_call_is_decided_by_the_first_that_has_an_opinion(
        self, name: str, verdict: str, decided_by: str
    ) -> None:
        agent = self.agent()
        explained = agent.explain(name)
        (result,) = agent.use_tools([tool_call(name)]).results
        assert result.verdict == explained.verdict == verdict
        assert result.decided_by == explained.decided_by
        assert str(result.decided_by).startswith(decided_by)

    def test_an_allow_before_the_policy_hides_its_denial_unless_it_stands_in_the_list_by_itself(self) -> None:
        agent = self.agent()
        policy = agent.permissions[2]
        again = agent.copy(permissions=[*policy.denies(), *agent.permissions])
        assert agent.explain("admin").verdict == "allowed"
        assert again.explain("admin").decided_by == "table denies: deny_privileged"

    def test_why_not_spares_a_call_in_the_policy_whose_denies_are_in_its_way(self) -> None:
        policy = PermissionPolicy([DENY_PRIVILEGED])
        why = Agent([admin], permissions=[*policy.denies(), AllowByName(["admin"]), policy]).why_not("admin", path="a")
        assert (why.in_the_way, len(why.changes)) == ("policy denies: deny_privileged", 1)
        assert why.changes[0].text == "put a rule that allows admin(path=a) first in policy"
        assert policy.rules == [DENY_PRIVILEGED]

    def test_explain_says_which_rule_decides_and_agrees_with_the_turn(self) -> None:
        policy = PermissionPolicy([ASK_DESTRUCTIVE, ALLOW_READONLY])
        agent = Agent([look, drop, plain], permissions=policy, human=FakeHuman(["no"]))
        assert [
            (agent.explain(name).verdict, agent.explain(name).decided_by) for name in ("look", "drop", "plain")
        ] == [
            ("allowed", "policy: allow_readonly"),
            ("asked", "policy: ask_destructive"),
            ("denied", "policy: fallback"),
        ]

    def test_two_policies_are_told_apart(self) -> None:
        first = PermissionPolicy([DENY_PRIVILEGED], fallback=None)
        agent = Agent([look, admin], permissions=[first, PermissionPolicy([ALLOW_READONLY])])
        assert agent.explain("admin").decided_by == "policy #1: deny_privileged"
        assert agent.explain("look").decided_by == "policy #2: allow_readonly"

    def test_the_policies_of_an_agent_are_shown_as_they_were_given(self) -> None:
        policy = PermissionPolicy([ALLOW_READONLY])
        assert Agent([look], permissions=policy).permissions == (policy,)

    @pytest.mark.parametrize("listed", [True, False], ids=["in a list", "alone"])
    @pytest.mark.parametrize(
        ("given", "text"),
        [
            (
                ALLOW_READONLY,
                r"PermissionRule\('allow_readonly', allow\) .*: a rule belongs to a policy\nFix: put it into",
            ),
            (StandardPermissions, r"StandardPermissions .* \(it is the class\)\nFix: make an object of it"),
            (PermissionPolicy, r"PermissionPolicy .* \(it is the class\)\nFix: make an object of it"),
            (AllowByDefault, r"AllowByDefault .* \(it is the class\)\nFix: make an object of it"),
        ],
        ids=["a rule", "a mode's class", "a policy's class", "a permission's class"],
    )
    def test_what_is_no_permission_by_itself_is_named_with_what_to_do(
        self, given: Any, text: str, listed: bool
    ) -> None:
        with pytest.raises(TypeError, match=text):
            Agent([look], permissions=[given] if listed else given)

    @pytest.mark.parametrize(
        "handler", [lambda request: True, Answering, object()], ids=["function", "class", "object"]
    )
    def test_what_is_no_handler_is_found_when_the_agent_is_made(self, handler: Any) -> None:
        with pytest.raises(TypeError, match=r"permission_handler= takes an object with handle\(request\)"):
            Agent([look], permissions=PermissionPolicy([]), permission_handler=handler)

    def test_the_log_holds_the_rules_of_the_policy(self) -> None:
        agent = Agent([look], permissions=PermissionPolicy([ALLOW_READONLY, DENY_PRIVILEGED], name="table"))
        (made,) = [event for event in agent.audit.events() if event.kind == "policy"]
        assert made.data["permissions"] == [
            "table: allow_readonly -> allow",
            "table: deny_privileged -> deny",
            "table: fallback -> deny",
        ]

    def test_a_subagent_is_bound_by_the_denials_of_a_policy_that_stand_in_the_list_by_themselves(self) -> None:
        policy = PermissionPolicy([DENY_PRIVILEGED], "allow")
        inner = Agent([admin], name="inner", permissions=[AllowByDefault()])
        verdicts: list[str] = []

        def delegate() -> str:
            """Delegate."""
            verdicts.append(inner.use_tools([tool_call("admin")]).results[0].verdict)
            return "done"

        for permissions in ([policy], [policy, *policy.denies()]):
            Agent([delegate], permissions=permissions).use_tools([tool_call("delegate")])
        assert verdicts == ["allowed", "denied"]


# --- a policy decides in a turn as by hand ----------------------------------------------------------------------------

_RESULTS = st.sampled_from(["allow", "deny", "ask"])
_RULES = st.lists(st.tuples(st.sets(st.integers(0, 3)), _RESULTS, st.booleans()), max_size=4)
_ANSWERS = st.sampled_from([ALLOW, DENY, True, False, None, "allow", "yes", 1, ASK])


@pytest.mark.law
@settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(rules=_RULES, fallback=st.one_of(_RESULTS, st.none()), answer=_ANSWERS, driver=st.sampled_from(DRIVERS))
def test_a_call_runs_only_when_the_policy_allows_it_or_asks_and_is_answered_by_an_explicit_allow(
    rules: list[tuple[set[int], str, bool]], fallback: str | None, answer: Any, driver: str
) -> None:
    def match(numbers: set[int], raises: bool) -> Any:
        def matches(tool: Tool, parameters: dict[str, Any]) -> bool:
            if raises and parameters["n"] in numbers:
                raise KeyError(parameters["n"])
            return parameters["n"] in numbers

        return matches

    policy = PermissionPolicy(
        [PermissionRule(f"r{n}", match(numbers, raises), result) for n, (numbers, result, raises) in enumerate(rules)],  # type: ignore[arg-type]  # texts
        fallback,  # type: ignore[arg-type]  # a text
        Answering(answer),
    )
    act = Counter()
    agent = Agent([act.tool], permissions=policy)
    turn, _ = run_noting(driver, agent, [tool_call("act", n=n) for n in range(4)])
    assert not isinstance(turn, BaseException)
    consents = answer is ALLOW or answer is True or answer == "allow"
    expected = []
    for n in range(4):
        try:
            outcome = policy.evaluate(act.tool, {"n": n})
        except KeyError:
            outcome = DENY
        result = outcome.result if isinstance(outcome, PermissionRule) else outcome
        if result is ALLOW or (result is ASK and consents):
            expected.append(n)
    assert sorted(args["n"] for args in act.ran) == expected
    assert [n for n, one in enumerate(turn.results) if one.verdict == "allowed"] == expected
