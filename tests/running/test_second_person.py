"""A second person: whoever asked for a call may not be the one who approves it."""

from __future__ import annotations

import threading
from functools import partial
from typing import Any

import anyio
import pytest
from answering import Telling, Waiting, act, of, say, told, waiting
from rules import Says
from turns import DRIVERS, Counter, Scripted, run

from agentperm_nb import (
    Agent,
    AllowByDefault,
    ApprovalDecision,
    Ask,
    DecideByHuman,
    Human,
    HumanApprover,
    Scope,
    State,
    Tool,
    ToolCall,
    Turn,
    loop,
    tool,
)
from agentperm_nb.approvals.desk import Answer, the_desk
from agentperm_nb.context import who
from agentperm_nb.permissions.second_person import second_person_problem
from agentperm_nb.testing import Recording, ScriptedModel, tool_call

both_drivers = pytest.mark.parametrize("driver", DRIVERS)
SAME = "A second person has to approve this call: {} asked for it. It was not run."
UNKNOWN = "A second person has to approve this call, and it is not known who did. It was not run."


def answer_of(action: str, approver: str | None) -> ApprovalDecision:
    more: dict[str, Any] = {"edited_args": {"n": 5}} if action == "edit" else {}
    if action.startswith("remember"):
        more["scope"] = Scope("tool", "session")
    return ApprovalDecision(action, approver=approver, **more)  # type: ignore[arg-type]  # one of the actions


@both_drivers
@pytest.mark.parametrize("action", ["allow", "edit", "remember_allow"])
@pytest.mark.parametrize(
    ("approver", "reason"),
    [("ann", SAME.format("ann")), ("Ann ", SAME.format("Ann ")), (None, UNKNOWN), ("bob", None)],
    ids=["the user", "the user in another spelling", "nobody knows", "another person"],
)
def test_a33_an_approval_counts_only_from_somebody_who_is_known_and_did_not_ask_for_the_call(
    approver: str | None, reason: str | None, action: str, driver: str
) -> None:
    counter = Counter("deploy")
    handler = Telling(answer_of(action, approver))
    agent = Agent(
        [counter.tool], permissions=[DecideByHuman(second_person=True)], approval_handler=handler, user="ann"
    )  # fmt: skip
    (result,) = run(driver, agent, [tool_call("deploy", n=1)]).results
    row = agent.audit.calls().iloc[0]
    assert (row["answered_by"], row["answer"], row["user"]) == ("handler", action, "ann")
    if reason is None:
        assert result.verdict == "allowed"
        assert len(counter.ran) == 1
    else:
        assert (result.verdict, result.decided_kind, result.reason) == ("denied", "human", reason)
        assert result.decided_by == "DecideByHuman(second_person=True)"
        assert row["reason"] == reason
        assert counter.ran == []
    assert len(agent.remembered()) == (action == "remember_allow" and reason is None)


@both_drivers
@pytest.mark.parametrize("action", ["deny", "remember_deny"])
@pytest.mark.parametrize("approver", ["ann", None, "bob"])
def test_anybody_may_deny(approver: str | None, action: str, driver: str) -> None:
    counter = Counter()
    agent = Agent(
        [counter.tool], permissions=[DecideByHuman(second_person=True)], user="ann",
        approval_handler=Telling(answer_of(action, approver)),
    )  # fmt: skip
    (result,) = run(driver, agent, [act(1)]).results
    assert (result.verdict, result.reason) == ("denied", "The user declined this call.")
    if action == "remember_deny":
        assert told(run(driver, agent, [act(2)])) == [("denied", "memory")]
    assert counter.ran == []


@both_drivers
@pytest.mark.parametrize("form", ["short", "classic", "clicked"])
@pytest.mark.parametrize("user", [None, "ann"], ids=["the one at the kernel", "somebody else"])
def test_a_person_who_is_asked_here_is_the_one_at_the_kernel(user: str | None, form: str, driver: str) -> None:
    async def review(requests: Any) -> Any:
        for request in requests:
            yield request.id, ApprovalDecision("allow", approver="bob")  # what it says of itself does not count

    class Yes(Human):
        def ask(self, state: Any, prompt: str, returns: Any = str) -> Any:
            return "yes"

    counter = Counter()
    human = {"short": Scripted(review), "classic": Yes(), "clicked": Waiting()}[form]
    agent = Agent([counter.tool], permissions=[DecideByHuman(second_person=True)], human=human, user=user)
    if form == "clicked":
        with waiting(driver, (agent, [act(1)])) as turns:
            (request,) = agent.pending()
            name, source = who()
            the_desk.answer(request.id, Answer(ApprovalDecision("allow"), approver=name, approver_from=source))
        (turn,) = turns
    else:
        turn = run(driver, agent, [act(1)])
    assert turn.results[0].verdict == ("denied" if user is None else "allowed")
    assert len(counter.ran) == (user is not None)


class Colleague(Human):
    """Somebody elsewhere, who says yes."""

    def __init__(self, name: object = None) -> None:
        self.name = name

    def ask(self, state: Any, prompt: str, returns: Any = str) -> Any:
        return "yes"


class AwaitedColleague(Human):
    name = "bob"

    async def aask(self, state: Any, prompt: str, returns: Any = str) -> Any:
        return "yes"


class NamelessByAccident(Colleague):
    @property
    def name(self) -> str:
        raise RuntimeError("not now")

    @name.setter
    def name(self, name: object) -> None:
        pass


HERE = None
NAMED: dict[str, tuple[Any, str | None]] = {
    "given": (HumanApprover(Colleague(), name="bob"), "bob"),
    "given, before its own": (HumanApprover(Colleague("ann"), name="bob"), "bob"),
    "given, with a limit": (HumanApprover(Colleague(), name="bob", timeout=60), "bob"),
    "its own": (Colleague("bob"), "bob"),
    "its own, awaited": (AwaitedColleague(), "bob"),
    "the user": (HumanApprover(Colleague(), name="Ann"), "Ann"),
    "the user, by its own": (Colleague("ann@corp.com"), "ann@corp.com"),
    "none": (Colleague(), HERE),
    "a blank": (Colleague(" "), HERE),
    "no text": (Colleague(7), HERE),
    "a name that cannot be read": (NamelessByAccident(), HERE),
}


@both_drivers
@pytest.mark.parametrize(
    ("which", "where"),
    [
        *((which, "agent") for which in NAMED),
        *((which, "rule") for which, (human, _) in NAMED.items() if isinstance(human, Human)),
    ],
)
def test_a_human_that_is_somebody_else_is_called_by_its_name(which: str, where: str, driver: str) -> None:
    human, name = NAMED[which]
    if where == "rule":
        options: dict[str, Any] = {"permissions": [DecideByHuman(human, second_person=True)]}
    else:
        options = {"permissions": [DecideByHuman(second_person=True)], "human": human}
    counter = Counter()
    for user in ("ann", who()[0]):
        agent = Agent([counter.tool], user=user, **options)
        (result,) = run(driver, agent, [act(1)]).results
        row = agent.audit.calls().iloc[0]
        assert (row["approver"], row["approver_from"]) == ((name, "given") if name is not HERE else who())
        another = name == "bob" or (name is HERE) == (user == "ann")
        assert result.verdict == ("allowed" if another else "denied")


@both_drivers
def test_an_answer_that_comes_too_late_has_the_name_too(driver: str) -> None:
    gone, came = threading.Event(), threading.Event()

    class Slow(Colleague):
        def ask(self, state: Any, prompt: str, returns: Any = str) -> Any:
            gone.wait(10)
            return "yes"

    agent = Agent([Counter().tool], human=HumanApprover(Slow(), name="bob", timeout=0.05))
    assert run(driver, agent, [act(1)]).results[0].answered_by == "timeout"
    unsubscribe = the_desk.subscribe(lambda change: came.set() if change.kind == "late" else None)
    gone.set()
    assert came.wait(10)
    unsubscribe()
    (late,) = of(agent, "late")
    assert (late.approver, late.approver_from) == ("bob", "given")


def test_a_name_is_shown_and_is_a_text() -> None:
    assert (
        repr(HumanApprover(Colleague(), name="bob", timeout=60)) == "HumanApprover(Colleague, name='bob', timeout=60)"
    )
    for wrong in (7, "", " \n", b"bob"):
        with pytest.raises(TypeError, match=r"name= takes the name of a person[\s\S]*Fix: [\s\S]*Example:"):
            HumanApprover(Colleague(), name=wrong)  # type: ignore[arg-type]


@both_drivers
def test_a_click_of_nobody_known_does_not_count(driver: str) -> None:
    counter = Counter()
    agent = Agent([counter.tool], permissions=[DecideByHuman(second_person=True)], human=Waiting(), user="ann")
    with waiting(driver, (agent, [act(1)])) as turns:
        say(agent.pending()[0], "allow")
    assert (turns[0].results[0].reason, counter.ran) == (UNKNOWN, [])


@both_drivers
def test_a_remembered_answer_stands_in_for_a_second_person_only_if_it_was_another_person(driver: str) -> None:
    counter = Counter()
    small = Says(lambda state, call, tool: Ask("small?") if call.args["n"] < 10 else None)
    by_ann, by_bob = answer_of("remember_allow", "ann"), answer_of("remember_allow", "bob")
    handler = Telling(by_ann, by_ann, by_bob)
    agent = Agent(
        [counter.tool], permissions=[small, DecideByHuman(second_person=True)], approval_handler=handler, user="ann"
    )
    expected = {
        1: ("allowed", "handler"),  # ann, and nothing is wrong with that
        2: ("allowed", "memory"),
        11: ("denied", "handler"),  # ann said yes to every call; here she does not count, nor when she is asked
        12: ("allowed", "handler"),  # bob
        13: ("allowed", "memory"),
        3: ("allowed", "memory"),
    }
    assert {n: told(run(driver, agent, [act(n)]))[0] for n in expected} == expected
    assert handler.asked == [1, 11, 12]
    agent.revoke(all=True)
    assert len(counter.ran) == 5


@both_drivers
@pytest.mark.parametrize("approver", ["ann", "bob"])
def test_an_answer_to_one_rule_does_not_do_for_another_that_wants_a_second_person(approver: str, driver: str) -> None:
    counter, looks = Counter(), list[int]()

    class Second(DecideByHuman):
        pass

    def first_only(state: State, call: ToolCall, tool: Tool) -> Ask | None:
        looks.append(call.args["n"])
        return Ask("is it so?") if len(looks) == 1 else None

    agent = Agent(
        [counter.tool], permissions=[Says(first_only), Second(second_person=True)], user="ann",
        approval_handler=Telling(ApprovalDecision("allow", approver=approver)),
    )  # fmt: skip
    (result,) = run(driver, agent, [act(1)]).results
    assert len(looks) == 2
    assert result.verdict == ("denied" if approver == "ann" else "allowed")
    assert len(counter.ran) == (approver == "bob")


@both_drivers
@pytest.mark.parametrize("approver", ["ann", "bob"])
def test_an_edit_into_what_wants_a_second_person_needs_one(approver: str, driver: str) -> None:
    counter = Counter()
    small = Says(lambda state, call, tool: Ask("small?") if call.args["n"] < 10 else None)
    agent = Agent(
        [counter.tool], permissions=[small, DecideByHuman(second_person=True)], user="ann",
        approval_handler=Telling(ApprovalDecision("remember_allow", edited_args={"n": 11}, approver=approver)),
    )  # fmt: skip
    (result,) = run(driver, agent, [act(1)]).results
    assert len(agent.remembered()) == (approver == "bob")
    assert result.verdict == ("denied" if approver == "ann" else "allowed")
    assert counter.ran == ([] if approver == "ann" else [{"n": 11}])


class AsksItself(DecideByHuman):
    """Overrides how it asks, and asks the way the other does."""

    def check(self, state: Any, call: ToolCall, tool: Tool) -> Any:
        return super().check(state, call, tool)


@both_drivers
def test_one_that_asks_by_itself_knows_the_name_of_its_human(driver: str) -> None:
    for name, verdict in {"ann": "denied", "bob": "allowed"}.items():
        for human in (Colleague(name), Colleague()):
            counter = Counter()
            agent = Agent([counter.tool], permissions=[AsksItself(human, second_person=True)], user="ann")
            assert run(driver, agent, [act(1)]).results[0].verdict == (verdict if human.name else "allowed")
            assert len(counter.ran) == (verdict == "allowed" or human.name is None)


@both_drivers
@pytest.mark.parametrize("user", [None, "ann"], ids=["the one at the kernel", "somebody else"])
def test_one_that_asks_by_itself_wants_a_second_person_too(user: str | None, driver: str) -> None:
    class Yes(Human):
        def ask(self, state: Any, prompt: str, returns: Any = str) -> Any:
            return "yes"

    counter = Counter()
    agent = Agent([counter.tool], permissions=[AsksItself(second_person=True)], human=Yes(), user=user)
    turn: Turn = run(driver, agent, [act(1)])
    assert turn.results[0].verdict == ("denied" if user is None else "allowed")
    assert len(counter.ran) == (user is not None)


def test_asked_by_hand_outside_of_a_run_it_is_not_known_for_whom() -> None:
    class Yes(Human):
        def ask(self, state: Any, prompt: str, returns: Any = str) -> Any:
            return "yes"

    tool = Counter().tool
    state = State()
    state.link(None)
    verdict = DecideByHuman(Yes(), second_person=True).check(state, act(1), tool)
    assert "it is not known for whom it is made" in getattr(verdict, "reason", "")


@both_drivers
def test_the_double_that_records_wants_a_second_person_where_the_permission_does(driver: str) -> None:
    counter = Counter()
    agent = Agent(
        [counter.tool], permissions=[Recording(DecideByHuman(second_person=True))], user="ann",
        approval_handler=Telling(ApprovalDecision("allow", approver="ann")),
    )  # fmt: skip
    assert run(driver, agent, [act(1)]).results[0].verdict == "denied"
    assert counter.ran == []


@pytest.mark.parametrize(
    ("approver", "user", "counts"),
    [
        ("bob", "ann", True),
        ("ann", "ann", False),
        (" ann", "ANN", False),
        ("ａnn", "ann", False),
        ("an\u200bn", "ann", False),
        ("", "ann", False),
        ("\u200b ", "ann", False),
        (None, "ann", False),
        ("bob", None, False),
        ("bob", "", False),
        (None, None, False),
        *(
            (f"ann{unseen}", "ann", False)
            for unseen in "\ufe0f\u034f\u3164\u115f\uffa0\u180b\u2065\U000e0061\U000e0100"
        ),
        *((f"{unseen}ann", "ann", False) for unseen in "\x00\x1b\x7f\x85\t\u2028\ud800\ue000\U000f0000\u0378"),
        ("\u034f\x00\u3164", "ann", False),
        ("bob", "\x00", False),
        ("аnn", "ann", False),
        ("ann", "аnn", False),
        ("ɑnn", "аnn", False),
        ("анна", "bob", True),
        ("ann l", "ann 1", True),
        ("änn", "ann", True),
    ],
    ids=ascii,
)
def test_names_read_wide(approver: str | None, user: str | None, counts: bool) -> None:
    permission = DecideByHuman(second_person=True)
    assert (second_person_problem(permission, approver, user) is None) is counts
    assert second_person_problem(DecideByHuman(), approver, user) is None
    assert second_person_problem(None, approver, user) is None


@pytest.mark.parametrize(
    ("one", "other", "two"),
    [
        ("root", "root@corp.com", False),
        ("Root ", "root@CORP.com", False),
        ("root@corp.com", "root@corp.com.", False),
        ("root@corp.com", "root＠corp．com", False),
        ("root@corp.com", "rооt@сorp.com", False),
        ("root+yes@corp.com", "root@corp.com", False),
        ("root+yes", "root", False),
        ("Ro Ot <root@corp.com>", "root", False),
        ("@root", "root", False),
        ("CORP\\root", "root@corp.com", False),
        ("root@corp.com", "root@other.com", True),
        ("bob@corp.com", "root@corp.com", True),
        ("bob", "root@bob", True),
        ("@", "root", True),
        ("+yes@corp.com", "+no@corp.com", True),
    ],
    ids=ascii,
)
def test_what_is_before_the_at_of_an_address_is_the_person(one: str, other: str, two: bool) -> None:
    permission = DecideByHuman(second_person=True)
    assert (second_person_problem(permission, one, other) is None) is two
    assert (second_person_problem(permission, other, one) is None) is two


def test_the_users_of_the_runs_above_are_no_second_person_either_and_have_to_be_known() -> None:
    permission = DecideByHuman(second_person=True)
    assert second_person_problem(permission, "ann", "ann", "svc-bot") == SAME.format("ann")
    assert second_person_problem(permission, "svc-bot", "ann", "svc-bot") == SAME.format("svc-bot")
    assert second_person_problem(permission, "bob", "ann", "svc-bot") is None
    for unknown in ([], [None], ["ann", None], ["", "svc-bot"]):
        assert "it is not known for whom it is made" in (second_person_problem(permission, "bob", *unknown) or "")


def as_a_tool(inner: Agent, driver: str) -> Any:
    return inner


def called_in_a_tool(inner: Agent, driver: str) -> Any:
    call = tool_call("deploy", n=1)

    def blocking(prompt: str) -> str:
        """Do it."""
        return str(inner.use_tools([call]).results[0].content)

    async def awaited(prompt: str) -> str:
        """Do it."""
        return str((await inner.ause_tools([call])).results[0].content)

    return tool(name="inner")(blocking if driver == "sync" else awaited)


def two_below(inner: Agent, driver: str) -> Any:
    return Agent(
        [inner], name="between", user="another-bot", permissions=[AllowByDefault()],
        model=ScriptedModel([[tool_call("inner", prompt="go")], "done"]),
    )  # fmt: skip


@both_drivers
@pytest.mark.parametrize("approver", ["ann", "svc-bot", "bob"])
@pytest.mark.parametrize("below", [as_a_tool, called_in_a_tool, two_below], ids=lambda way: way.__name__)
def test_ann_does_not_approve_a_call_of_a_run_below_hers_that_works_for_another_user(
    below: Any, approver: str, driver: str
) -> None:
    counter = Counter("deploy")
    inner = Agent(
        [counter.tool], name="inner", user="svc-bot", permissions=[DecideByHuman(second_person=True)],
        approval_handler=Telling(ApprovalDecision("remember_allow", approver=approver)),
        model=ScriptedModel([[tool_call("deploy", n=1)], "done"]),
    )  # fmt: skip
    outer = Agent([below(inner, driver)], user="ann", permissions=[AllowByDefault()])
    run(driver, outer, [tool_call("between" if below is two_below else "inner", prompt="go")])
    assert inner.audit.calls()[["user", "approver", "verdict"]].values.tolist() == [
        ["svc-bot", approver, "allowed" if approver == "bob" else "denied"]
    ]
    assert len(counter.ran) == (approver == "bob")


@both_drivers
@pytest.mark.parametrize("approver", ["ann", "svc-bot", "bob"])
def test_nor_one_of_a_turn_of_her_run_that_is_said_to_be_for_another(approver: str, driver: str) -> None:
    counter, call = Counter("deploy"), tool_call("deploy", n=1)

    @loop(limit=1)
    def blocking(agent: Agent, state: State) -> None:
        agent.use_tools([call], user="svc-bot")

    @loop(limit=1)
    async def awaited(agent: Agent, state: State) -> None:
        await agent.ause_tools([call], user="svc-bot")

    agent = Agent(
        [counter.tool], loop=blocking if driver == "sync" else awaited, permissions=[DecideByHuman(second_person=True)],
        approval_handler=Telling(ApprovalDecision("allow", approver=approver)), model=ScriptedModel([]),
    )  # fmt: skip
    state = agent.state
    if driver == "sync":
        agent.run(state, user="ann")
    else:
        anyio.run(partial(agent.arun, state, user="ann"), backend=driver)
    assert agent.audit.calls()["verdict"].tolist() == ["allowed" if approver == "bob" else "denied"]
    assert len(counter.ran) == (approver == "bob")


def test_it_is_shown_and_takes_a_bool() -> None:
    assert repr(DecideByHuman(second_person=True)) == "DecideByHuman(second_person=True)"
    assert repr(DecideByHuman()) == "DecideByHuman()"
    for wrong in (1, None, "yes"):
        with pytest.raises(TypeError, match=r"second_person= takes True or False[\s\S]*Example:"):
            DecideByHuman(second_person=wrong)  # type: ignore[arg-type]
