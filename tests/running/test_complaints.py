"""Public complaints about approvals, each with its id: what went wrong elsewhere, and what happens here.

Those about timeouts stand in test_expiry.py, about memory and a second person in test_memory.py.
"""

from __future__ import annotations

import threading
from collections.abc import AsyncIterator, Callable, Sequence
from typing import Any

import anyio
import pytest
from turns import DRIVERS, Counter, Scripted, run

from agentperm_nb import (
    Agent,
    AllowByDefault,
    AllowByName,
    AllowByReadOnly,
    ApprovalDecision,
    ApprovalRequest,
    DecideByHuman,
    DenyByName,
    EditError,
    MCPTool,
    NoHumanError,
    PermissionPolicy,
    PermissionRule,
    PermissionWarning,
    StandardPermissions,
    ToolCall,
    ToolError,
    tool,
)
from agentperm_nb.approvals.desk import Answer, the_desk
from agentperm_nb.testing import FakeHuman, ScriptedModel, tool_call

both_drivers = pytest.mark.parametrize("driver", DRIVERS)


def transfer(amount: int) -> str:
    """Transfer."""
    return f"transferred {amount}"


def write_file(path: str) -> str:
    """Write a file."""
    return f"wrote {path}"


def by(decide: Callable[[ApprovalRequest], Any]) -> Scripted:
    """An approver that answers each request with what a function makes of it."""

    async def review(requests: Sequence[ApprovalRequest]) -> AsyncIterator[tuple[str, Any]]:
        for request in requests:
            yield request.id, decide(request)

    return Scripted(review)


@both_drivers
@pytest.mark.parametrize("form", ["the arguments given", "the call", "the request"])
def test_a01_what_was_approved_runs_whatever_is_done_to_the_arguments_meanwhile(form: str, driver: str) -> None:
    args, refused = {"amount": 100, "to": {"name": "bob"}}, []
    call = ToolCall("transfer", args)

    def decide(request: ApprovalRequest) -> bool:
        args["amount"] = 50
        args["to"]["name"] = "eve"  # type: ignore[index]
        target: Any = {"the call": call.args, "the request": request.call.args}.get(form)
        if target is not None:
            for change in (
                lambda: target.__setitem__("amount", 50),
                lambda: target.update(amount=50),
                lambda: target["to"].clear(),
            ):
                try:
                    change()
                except TypeError:
                    refused.append(form)
        return True

    ran: list[Any] = []

    @tool(name="transfer")
    def moved(amount: int, to: dict[str, str]) -> str:
        """Transfer."""
        ran.append((amount, to))
        return "done"

    run(driver, Agent([moved], permissions=[DecideByHuman()], human=by(decide)), [call])
    assert ran == [(100, {"name": "bob"})]
    assert len(refused) == (0 if form == "the arguments given" else 3)


@both_drivers
def test_a03_an_approval_holds_for_all_arguments_and_not_for_some(driver: str) -> None:
    asked: list[str] = []

    def decide(request: ApprovalRequest) -> str:
        asked.append(request.call.args["description"])
        return "remember_allow"

    @tool
    def create_issue(code: str, description: str) -> str:
        """Create an issue."""
        return "created"

    agent = Agent([create_issue], permissions=[DecideByHuman()], human=by(decide))
    for description in ("A", "B", "A"):
        run(driver, agent, [tool_call("create_issue", code="1", description=description)])
    assert asked == ["A", "B"]


@both_drivers
@pytest.mark.parametrize("args", [{"path": 123}, {}, {"path": None}, {"path": "a", "more": 1}], ids=repr)
def test_a05_the_denies_are_asked_and_then_the_schema_before_a_person_is(args: dict[str, Any], driver: str) -> None:
    human, heard = FakeHuman([]), []
    policy = PermissionPolicy([PermissionRule("hears", lambda tool, given: heard.append(given), "deny")], fallback=None)
    agent = Agent([write_file], permissions=[policy, DecideByHuman()], human=human)
    (result,) = run(driver, agent, [ToolCall("write_file", args)]).results
    assert (result.verdict, human.questions, heard) == ("input_error", [], [args])
    denied = Agent([write_file], permissions=[DenyByName(["write_*"]), DecideByHuman()], human=human)
    assert run(driver, denied, [ToolCall("write_file", args)]).results[0].verdict == "denied"


@both_drivers
@pytest.mark.parametrize(
    "args", [{"path": {"x": 1}}, {}, {"path": "a", "x": 1}, {"path": float("nan")}, {"path": ["a"]}], ids=repr
)
def test_a36_an_edit_that_does_not_fit_runs_nothing(args: dict[str, Any], driver: str) -> None:
    told: list[list[tuple[str, str]]] = []

    def decide(request: ApprovalRequest) -> ApprovalDecision:
        with pytest.raises(EditError) as raised:  # what the panel shows before it sends anything
            request.restore(args)
        told.append(raised.value.problems)
        return ApprovalDecision("edit", edited_args=args)

    ran = Counter("write_file")
    agent = Agent([write_file], permissions=[DecideByHuman()], human=by(decide))
    (result,) = run(driver, agent, [tool_call("write_file", path="bad")]).results
    assert (result.verdict, ran.ran) == ("input_error", [])
    assert told[0]


@both_drivers
def test_a06_the_result_says_what_a_reviewer_changed_and_the_log_has_both(driver: str) -> None:
    @tool
    def send_email(to: str, text: str) -> str:
        """Send."""
        return f"sent to {to}"

    edit = ApprovalDecision("edit", edited_args={"to": "bob@x", "text": "hi"})
    agent = Agent([send_email], permissions=[DecideByHuman()], human=by(lambda request: edit))
    turn = run(driver, agent, [tool_call("send_email", to="alice@x", text="hi")])
    assert turn.results[0].content.startswith("[A reviewer changed 'to' before this call ran. It ran as send_email(")
    assert turn.calls[0].args["to"] == "alice@x"  # the model's own call is left as it was
    (edited,) = [event for event in agent.audit.events(turn.results[0].call_key) if event.kind == "edited"]
    assert (edited.data["args"]["to"], edited.data["original_args"]["to"]) == ("bob@x", "alice@x")


@both_drivers
def test_a12_three_calls_of_one_tool_each_get_their_own_decision(driver: str) -> None:
    asked: list[int] = []

    def decide(request: ApprovalRequest) -> bool:
        asked.append(request.call.args["n"])
        return request.call.args["n"] == 3

    counter = Counter("t")
    one = PermissionRule("one", lambda tool, args: args["n"] == 1, "allow")
    agent = Agent([counter.tool], permissions=PermissionPolicy([one], fallback="ask"), human=by(decide))
    turn = run(driver, agent, [tool_call("t", n=n) for n in (1, 2, 3)])
    assert asked == [2, 3]
    assert [result.verdict for result in turn.results] == ["allowed", "denied", "allowed"]
    assert [result.call.args["n"] for result in turn.results] == [1, 2, 3]


@both_drivers
@pytest.mark.parametrize("order", [(2, 0, 1), (1, 2, 0), (0, 1, 2)], ids=repr)
def test_a13_answers_in_any_order_go_to_their_own_calls(order: tuple[int, ...], driver: str) -> None:
    async def review(requests: Sequence[ApprovalRequest]) -> AsyncIterator[tuple[str, Any]]:
        for place in order:
            yield requests[place].id, ApprovalDecision("edit", edited_args={"n": 10 + place})

    counter = Counter("t")
    agent = Agent([counter.tool], permissions=StandardPermissions(), human=Scripted(review))
    turn = run(driver, agent, [tool_call("t", n=n) for n in range(3)])
    assert [result.args_run["n"] for result in turn.results] == [10, 11, 12]


@pytest.mark.anyio
async def test_a14_twenty_parallel_questions_wait_at_once_and_all_can_be_answered() -> None:
    counter, all_here = Counter("t"), anyio.Event()
    seen: list[ApprovalRequest] = []

    async def handler(request: ApprovalRequest) -> bool:
        seen.append(request)
        if len(seen) == 20:
            all_here.set()
        await all_here.wait()
        return True

    agent = Agent([counter.tool], permissions=StandardPermissions(), approval_handler=handler)
    with anyio.fail_after(10):
        await agent.ause_tools([tool_call("t", n=n) for n in range(20)])
    assert sorted(args["n"] for args in counter.ran) == list(range(20))


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


@both_drivers
@pytest.mark.parametrize("second", ["allow", "deny"])
def test_a16_and_a17_the_first_answer_counts_and_the_second_is_late(second: Any, driver: str) -> None:
    def decide(request: ApprovalRequest) -> bool:
        assert the_desk.answer(request.id, Answer(ApprovalDecision("allow")))
        assert not the_desk.answer(request.id, Answer(ApprovalDecision(second)))
        return False

    counter = Counter("charge_card")
    agent = Agent([counter.tool], permissions=[DecideByHuman()], human=by(decide))
    (result,) = run(driver, agent, [tool_call("charge_card", n=1)]).results
    assert counter.ran == [{"n": 1}]
    late = [event for event in agent.audit.events(result.call_key) if event.kind == "late"]
    assert second in {event.data["action"] for event in late}


@both_drivers
def test_a22_a_call_that_was_approved_and_never_began_says_so(driver: str) -> None:
    @tool
    def first(n: int) -> str:
        """Act."""
        return "ran"

    def vanish(request: ApprovalRequest) -> bool:
        del agent._engine.tools["first"]  # type: ignore[attr-defined]
        return True

    agent = Agent([first], permissions=[DecideByHuman()], human=by(vanish))
    (result,) = run(driver, agent, [tool_call("first", n=1)]).results
    assert result.verdict == "denied"
    kinds = [event.kind for event in agent.audit.events(result.call_key)]
    assert kinds == ["requested", "asked", "answered", "decided", "decided"]
    frame = agent.audit.calls()
    assert (frame["verdict"].item(), frame["answer"].item(), frame["outcome"].item()) == ("denied", "allow", "not_run")


def test_a24_the_path_of_agents_is_in_the_request_the_log_and_the_context() -> None:
    paths: list[tuple[str, ...]] = []

    def decide(request: ApprovalRequest) -> bool:
        paths.append(request.agent_path)
        return True

    writer = Agent(
        [write_file],
        name="writer",
        description="Writes.",
        model=ScriptedModel([tool_call("write_file", path="a"), "Done."]),
        permissions=StandardPermissions(),
    )
    research = Agent(
        [writer],
        name="research",
        description="Finds.",
        model=ScriptedModel([tool_call("writer", prompt="write"), "Ok."]),
        permissions=[AllowByDefault()],
    )
    main = Agent(
        [research], model=ScriptedModel([tool_call("research", prompt="find"), "Good."]),
        permissions=[AllowByDefault()], human=by(decide), audit=writer.audit,
    )  # fmt: skip
    assert main.run("Go") == "Good."
    assert paths == [("main", "research", "writer")]
    frame = writer.audit.calls()
    assert list(frame.loc[frame["tool"] == "write_file", "agent_path"]) == ["main/research/writer"]


@pytest.mark.parametrize(
    "above",
    [
        [DenyByName(["delete_*"]), AllowByDefault()],
        [AllowByDefault(), DenyByName(["DELETE_*"])],
        [*StandardPermissions(denied_tools=["delete_file"]).denies(), AllowByDefault()],
        [
            *PermissionPolicy([PermissionRule("no", lambda tool, args: tool.name == "delete_file", "deny")]).denies(),
            AllowByDefault(),
        ],
    ],
    ids=["first", "last", "of a mode", "of a policy"],
)
@pytest.mark.parametrize(
    "below", [[AllowByDefault()], StandardPermissions(mode="bypassPermissions"), PermissionPolicy(fallback="allow")]
)
def test_a25_and_a26_a_deny_above_binds_the_calls_below_whatever_allows_there(above: Any, below: Any) -> None:
    counter = Counter("delete_file")
    child = Agent(
        [counter.tool], name="child", description="Acts.", permissions=below,
        model=ScriptedModel([tool_call("delete_file", n=1), "Done."]),
    )  # fmt: skip
    parent = Agent([child], model=ScriptedModel([tool_call("child", prompt="go"), "Ok."]), permissions=above)
    parent.run("Go")
    assert counter.ran == []
    assert child.state.results == () or child.state.results[0].verdict == "denied"
    denied = child.audit.denials()
    assert list(denied["tool"]) == ["delete_file"]


@pytest.mark.parametrize("spelling", ["readOnlyHint", "read_only_hint"])
@pytest.mark.parametrize(
    ("value", "allowed"), [(True, True), (False, False), (1, False), ("true", False), (None, False)], ids=repr
)
def test_a28_only_exactly_true_is_read_only_in_either_spelling(spelling: str, value: Any, allowed: bool) -> None:
    async def call(name: str, args: dict[str, Any]) -> dict[str, Any]:
        return {"content": [{"type": "text", "text": "found"}]}

    remote = {"name": "query", "inputSchema": {"type": "object"}, "annotations": {spelling: value}}
    agent = Agent([MCPTool("lf", remote, call)], permissions=[AllowByReadOnly(trust_mcp=True)])
    if allowed:
        assert agent.explain("lf__query").verdict == "allowed"
    else:
        assert agent.explain("lf__query").verdict == "denied"


@both_drivers
def test_a29_a_closed_panel_is_no_answer(driver: str) -> None:
    counter = Counter("delete_file")
    agent = Agent([counter.tool], permissions=[DecideByHuman()], human=by(lambda request: None))
    with pytest.warns(PermissionWarning, match="which is not an answer"):
        turn = run(driver, agent, [tool_call("delete_file", n=1)])
    assert (turn.results[0].verdict, counter.ran) == ("denied", [])


@both_drivers
def test_a32_a_call_is_asked_about_before_it_is_decided_and_decided_before_it_starts(driver: str) -> None:
    agent = Agent([Counter("read_file").tool], permissions=[DecideByHuman()], human=by(lambda request: True))
    (result,) = run(driver, agent, [tool_call("read_file", n=1)]).results
    seq = {event.kind: event.seq for event in agent.audit.events(result.call_key)}
    assert seq["requested"] < seq["asked"] < seq["answered"] < seq["decided"] < seq["started"] < seq["finished"]


@pytest.mark.anyio
async def test_a34_a_cancelled_turn_withdraws_its_question_and_a_late_answer_changes_nothing() -> None:
    asked, requests = anyio.Event(), []

    async def handler(request: ApprovalRequest) -> bool:
        requests.append(request)
        asked.set()
        await anyio.sleep_forever()
        return True

    counter = Counter("delete_file")
    agent = Agent([counter.tool], permissions=StandardPermissions(), approval_handler=handler)

    async def work() -> None:
        await agent.ause_tools([tool_call("delete_file", n=1)])

    with anyio.fail_after(10):
        async with anyio.create_task_group() as group:
            group.start_soon(work)
            await asked.wait()
            group.cancel_scope.cancel()
    assert agent.pending() == ()
    assert not the_desk.answer(requests[0].id, Answer(ApprovalDecision("allow")))
    kinds = [event.kind for event in agent.audit.events(requests[0].call_key)]
    assert kinds == ["requested", "asked", "withdrawn", "cancelled", "late"]
    assert counter.ran == []


@both_drivers
@pytest.mark.parametrize(
    "permissions",
    [StandardPermissions(), PermissionPolicy(fallback="ask")],
    ids=["a mode", "a policy"],
)
def test_a_mode_or_policy_that_asks_where_nobody_is_on_purpose_denies_and_says_so(
    permissions: Any, driver: str
) -> None:
    counter = Counter()
    agent = Agent([counter.tool], permissions=permissions, human=None)
    (result,) = run(driver, agent, [tool_call("act", n=1)]).results
    assert (result.verdict, result.answered_by, counter.ran) == ("denied", "nobody", [])
    assert "human=None" in result.content


def test_a_list_that_needs_a_person_is_still_an_error_where_nobody_is_on_purpose() -> None:
    agent = Agent([write_file], permissions=[StandardPermissions(), DecideByHuman()], human=None)
    with pytest.raises(NoHumanError):
        agent.use_tools([tool_call("write_file", path="a")])


def test_a_tool_error_of_a_handler_is_a_denial_with_its_words() -> None:
    def handler(request: ApprovalRequest) -> bool:
        raise ToolError("ask the owner of the account first")

    counter = Counter()
    agent = Agent([counter.tool], permissions=StandardPermissions(), approval_handler=handler)
    (result,) = agent.use_tools([tool_call("act", n=1)]).results
    assert (result.verdict, result.reason, counter.ran) == ("denied", "ask the owner of the account first", [])


def test_two_panels_of_two_threads_answer_their_own_turns() -> None:
    counter, barrier = Counter(), threading.Barrier(2)

    def handler(request: ApprovalRequest) -> bool:
        barrier.wait(5)
        return bool(request.call.args["n"] == 1)

    agent = Agent([counter.tool], permissions=[AllowByName(["other"]), DecideByHuman()], approval_handler=handler)
    threads = [threading.Thread(target=agent.use_tools, args=([tool_call("act", n=n)],)) for n in (1, 2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(10)
    assert counter.ran == [{"n": 1}]
