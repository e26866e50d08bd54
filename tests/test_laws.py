"""The laws of the engine, on generated permission lists, turns and answers.

``AGENTPERM_LAW_EXAMPLES`` says how many permission lists are generated for the laws on decisions, 3,000 when left out;
each of those laws gets a third. A law on whole turns gets at least 150, and one whose examples are several turns at
least 51. How many lists and calls were decided is printed at the end.
"""

from __future__ import annotations

import os
import types
from collections import Counter
from collections.abc import Callable, Coroutine, Iterator
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from turns import DRIVERS, Scripted, run_noting

from agentperm_nb import (
    Agent,
    AllowByDefault,
    AllowByName,
    Allowed,
    AllowPermission,
    ApprovalDecision,
    Ask,
    CallResult,
    DecidePermission,
    Denied,
    DenyByName,
    DenyPermission,
    Permission,
    Redactor,
    Scope,
    State,
    Tool,
    ToolCall,
    ToolError,
    Turn,
    thaw,
)
from agentperm_nb.permissions.deciding import Decision, PermissionList, adecide, decide

LISTS = int(os.environ.get("AGENTPERM_LAW_EXAMPLES", "3000"))
IN_TURNS = max(150, LISTS // 150)  # a turn takes as long as many decisions
DECISION_LAW = settings(max_examples=-(-LISTS // 3), deadline=None, suppress_health_check=[HealthCheck.too_slow])
LAW = settings(DECISION_LAW, max_examples=IN_TURNS)
LONG_LAW = settings(DECISION_LAW, max_examples=IN_TURNS // 3 + 1)  # several turns an example

pytestmark = [pytest.mark.law, pytest.mark.timeout(max(300, LISTS // 20))]


@dataclass
class Decided:
    """What the laws were held against."""

    lists: int = 0
    different: set[int] = field(default_factory=set)
    calls: int = 0
    turns: int = 0

    def note(self, listed: list[Rule], calls: int) -> None:
        self.lists += 1
        self.different.add(hash(tuple(listed)))
        self.calls += calls

    def __str__(self) -> str:
        return (
            f"laws: {self.lists:,} permission lists ({len(self.different):,} different ones), {self.calls:,} calls "
            f"decided, in {self.turns:,} whole turns and one by one"
        )


DECIDED = Decided()


@pytest.fixture(scope="module", autouse=True)
def _figures(request: pytest.FixtureRequest) -> Iterator[None]:
    yield
    with request.config.pluginmanager.getplugin("capturemanager").global_and_fixture_disabled():
        print(f"\n{DECIDED}")


# ---------------------------------------------------------------------- what is generated

KINDS = {"deny": DenyPermission, "allow": AllowPermission, "decide": DecidePermission}
NAMES = ("a", "b")
NUMBERS = (0, 1, 2)
PLACES = [(name, n) for name in NAMES for n in NUMBERS]
MAY_SAY = {
    "deny": ("deny", "stop"),
    "allow": ("allow",),
    "decide": ("allow", "deny", "stop", "ask"),
}
FAULTS = ("ToolError", "ValueError", "StopIteration", "True", "text", "beyond")
RAISES = {"ValueError", "StopIteration", "True", "text", "beyond"}


@dataclass(frozen=True)
class Rule:
    """A permission: its kind, how it is asked, and what it says of each call."""

    kind: str
    form: str
    says: tuple[tuple[tuple[str, int | None], str], ...]

    def of(self, name: str, n: Any) -> str | None:
        table = dict(self.says)
        return table.get((name, n), table.get((name, None)))  # a rule on names does not look at the number

    def act(self, name: str, n: Any) -> Any:
        match self.of(name, n):
            case None:
                return None
            case "allow" if self.kind != "deny":
                return Allowed()
            case "deny":
                return Denied(f"{name} {n} is denied")
            case "stop":
                return Denied(f"{name} {n} stops", stop=True)
            case "ask":
                return Ask(f"may {name} {n}?")
            case "ToolError":
                raise ToolError(f"{name} {n} cannot be decided")
            case "ValueError":
                raise ValueError("broken")
            case "StopIteration":
                raise StopIteration(Allowed())
            case "beyond":
                return {"deny": Allowed(), "allow": Denied("no"), "decide": Allowed}[self.kind]
            case junk:
                return True if junk == "True" else "allow"

    def permission(self, index: int) -> Permission:
        called = f"{self.kind} {index}"
        if self.form == "name":
            names = [name for (name, _), _ in self.says]
            if self.kind == "deny":
                return DenyByName([name.upper() for name in names], name=called)
            return AllowByName(names, name=called) if names != list(NAMES) else AllowByDefault(name=called)

        def check(it: Any, state: Any, call: ToolCall, tool: Any) -> Any:
            return self.act(call.name, call.args.get("n"))

        async def acheck(it: Any, state: Any, call: ToolCall, tool: Any) -> Any:
            return self.act(call.name, call.args.get("n"))

        body: dict[str, Any] = {"check": check, "blocking": self.form == "blocking", "name": called}
        if self.form == "async":
            body["acheck"] = acheck
        made: Permission = types.new_class(
            "Generated", (KINDS[self.kind],), exec_body=lambda space: space.update(body)
        )()
        return made


def rules(*, faults: bool = True, stops: bool = True, kinds: tuple[str, ...] = tuple(KINDS)) -> st.SearchStrategy[Rule]:
    # Strategies that are made once: one made for each rule would take ten times as long as the decisions.
    def of_kind(kind: str) -> list[st.SearchStrategy[Rule]]:
        words = [word for word in MAY_SAY[kind] if stops or word != "stop"]
        # Faults are rare, or hardly a turn would get past them.
        heard = [*words * 4, *(FAULTS if faults else ())]
        said = st.tuples(*[st.sampled_from([*[None] * len(heard), *heard])] * len(PLACES))
        table = said.map(lambda said: tuple((place, word) for place, word in zip(PLACES, said, strict=True) if word))
        own = st.builds(Rule, st.just(kind), st.sampled_from(["inline", "inline", "blocking", "async"]), table)
        if kind == "decide":
            return [own] * 4
        named = st.sampled_from([(NAMES[0],), (NAMES[1],), NAMES])
        by_name = named.map(lambda names: Rule(kind, "name", tuple(((name, None), kind) for name in names)))
        return [own, own, own, by_name]

    return st.one_of(strategy for kind in kinds for strategy in of_kind(kind))


def lists(**options: Any) -> st.SearchStrategy[list[Rule]]:
    return st.lists(rules(**options), max_size=5)


CALLS = st.builds(
    ToolCall,
    st.sampled_from([*NAMES * 4, "unknown"]),
    st.sampled_from([*[{"n": n} for n in NUMBERS] * 3, {"n": "two"}]),
    st.sampled_from(["1", "2", ""]),
)
TURNS = st.lists(CALLS, min_size=1, max_size=5)


def answers(*, faults: bool = True, stops: bool = True, remember: bool = False) -> st.SearchStrategy[dict[Any, Any]]:
    """What the approver says about each call: an action, or an action with the number it edits to."""
    words: list[Any] = ["allow", "allow", "allow", "deny", ("edit", 0), ("edit", 1), ("edit", 2)]
    words += ["stop"] if stops else []
    words += ["None", "one", "silence", ("edit", "two")] if faults else []
    if remember:
        scopes = [Scope(covers, lasts) for covers in ("call", "tool") for lasts in ("run", "session")]  # type: ignore[arg-type]
        words = [("remember_allow", scope, n) for scope in scopes for n in (None, *NUMBERS)]
        words += [("remember_deny", scope, None) for scope in scopes] + ["allow", "deny", ("edit", 1)]
    return st.fixed_dictionaries({place: st.sampled_from(words) for place in PLACES})


def decision(word: Any) -> Any:
    match word:
        case "allow" | "deny":
            return ApprovalDecision(word)
        case "stop":
            return ApprovalDecision("deny", stop=True)
        case ("edit", n):
            return ApprovalDecision("edit", edited_args={"n": n})
        case (action, scope, None):
            return ApprovalDecision(action, scope=scope)
        case (action, scope, n):
            return ApprovalDecision(action, scope=scope, edited_args={"n": n})
        case "one":
            return 1
        case _:
            return None


class World:
    """An agent with counting tools, generated rules, and an approver that answers in request order."""

    def __init__(self, listed: list[Rule], said: dict[Any, Any] | None = None) -> None:
        self.ran: list[tuple[str, int]] = []
        self.asked: list[tuple[str, Any]] = []

        async def review(requests: Any) -> Any:
            for request in requests:
                place = (request.call.name, request.call.args["n"])
                self.asked.append(place)
                word = (said or {}).get(place, "deny")
                if word != "silence":
                    yield request.id, decision(word)

        schema = {"type": "object", "properties": {"n": {"type": "integer"}}}

        def tool_of(name: str) -> Tool:
            def act(n: int) -> str:
                self.ran.append((name, n))
                return f"{name} did {n}"

            return Tool(name, "", schema, function=act)

        self.agent = Agent(
            [tool_of(name) for name in NAMES],
            permissions=[rule.permission(index) for index, rule in enumerate(listed)],
            human=Scripted(review),
        )
        DECIDED.note(listed, 0)

    def turn(self, driver: str, calls: list[ToolCall]) -> Outcome:
        DECIDED.calls += len(calls)
        DECIDED.turns += 1
        before = len(self.agent.state.results)
        outcome, _ = run_noting(driver, self.agent, calls)
        results = sorted(self.agent.state.results[before:], key=lambda result: int(result.call_key.rsplit("/", 1)[1]))
        error = None if isinstance(outcome, Turn) else type(outcome).__name__
        return Outcome(outcome if isinstance(outcome, Turn) else None, results, error)


@dataclass
class Outcome:
    turn: Turn | None
    results: list[CallResult]
    error: str | None

    @property
    def verdicts(self) -> list[str]:
        return [result.verdict for result in self.results]

    @property
    def facts(self) -> list[tuple[Any, ...]]:
        return [
            (result.call.name, thaw(result.call.args), result.verdict, result.outcome.kind, result.decided_by,
             result.decided_kind, result.answered_by, result.content, result.reason)
            for result in self.results
        ]  # fmt: skip


# ---------------------------------------------------------------------- the law again, as short as it can be said


def ruled_by(listed: list[Rule], name: str, n: Any) -> tuple[str, int | None]:
    """Return what the list comes to for a call, and the number of the rule that says so.

    It comes to allow, deny, stop, ask, error, or nobody.
    """
    for index, rule in sorted(enumerate(listed), key=lambda entry: entry[1].kind != "deny"):
        said = rule.of(name, n)
        if said is not None:
            return "deny" if said == "ToolError" else "error" if said in RAISES else said, index
    return "nobody", None


def ruling(listed: list[Rule], name: str, n: Any) -> str:
    return ruled_by(listed, name, n)[0]


def expected(
    listed: list[Rule], calls: list[ToolCall], said: dict[Any, Any]
) -> tuple[list[str], list[tuple[str, int]]]:
    """Return the verdict of each call, and what runs."""
    verdicts: list[str | None] = [None] * len(calls)
    asked, runs = [], {}

    def end() -> tuple[list[str], list[tuple[str, int]]]:
        return [verdict or "cancelled" for verdict in verdicts], []

    for position, call in enumerate(calls):
        if call.name not in NAMES:
            verdicts[position] = "input_error"
    for position, call in enumerate(calls):
        if verdicts[position] is not None:
            continue
        n = call.args["n"]
        ruled = ruling(listed, call.name, n)
        if ruled in ("deny", "nobody", "stop", "error"):
            verdicts[position] = "denied"
            if ruled in ("stop", "error"):
                return end()
        elif not isinstance(n, int):
            verdicts[position] = "input_error"
        elif ruled == "ask":
            asked.append(position)
        else:
            runs[position] = (call.name, n)
    silent = [position for position in asked if said[calls[position].name, calls[position].args["n"]] == "silence"]
    # Those about whom nothing is said are denied when the approver ends.
    for position in [position for position in asked if position not in silent] + silent:
        call = calls[position]
        word = said[call.name, call.args["n"]]
        if word == "allow":
            runs[position] = (call.name, call.args["n"])
        elif isinstance(word, tuple):
            n = word[1]
            ruled = ruling(listed, call.name, n) if n != call.args["n"] else "ask"
            if not isinstance(n, int):
                verdicts[position] = "input_error"
            elif ruled in ("allow", "ask"):
                runs[position] = (call.name, n)
            else:
                verdicts[position] = "denied"
                if ruled in ("stop", "error"):
                    return end()
        else:
            verdicts[position] = "denied"
            if word == "stop":
                return end()
    return [verdict or "allowed" for verdict in verdicts], [runs[position] for position in sorted(runs)]


# ---------------------------------------------------------------------- laws on decisions

TOOLS = {name: Tool(name, "", {}, function=print) for name in NAMES}


def decided(ask: Callable[[], Decision]) -> tuple[str, str | None]:
    """Return what a decision comes to, in the words of the law, and the name of the rule."""
    try:
        decision = ask()
    except (TypeError, ValueError, RuntimeError) as error:
        (note,) = error.__notes__
        return "error", note.removeprefix("exception raised in permission ").partition(" checking")[0]
    match decision.verdict:
        case Allowed():
            word = "allow"
        case Ask():
            word = "ask"
        case Denied(_, stop):
            word = "stop" if stop else "deny" if decision.decided_by is not None else "nobody"
    return word, decision.decided_by


def finished(coroutine: Coroutine[Any, Any, Decision]) -> Decision:
    """Return the result of a coroutine that waits for nothing."""
    try:
        coroutine.send(None)
    except StopIteration as end:
        made: Decision = end.value
        return made
    raise AssertionError("it waits")


def all_decided(listed: list[Rule]) -> list[str]:
    """Return what a list comes to for a call of every place."""
    permissions = PermissionList([rule.permission(index) for index, rule in enumerate(listed)])
    DECIDED.note(listed, len(PLACES))
    return [decided(partial(decide, permissions, None, ToolCall(name, {"n": n}), TOOLS[name]))[0] for name, n in PLACES]


@DECISION_LAW
@given(lists(), st.lists(st.sampled_from(PLACES), min_size=1, max_size=6))
def test_a_call_is_decided_as_the_law_says_in_both_forms(listed: list[Rule], places: list[tuple[str, int]]) -> None:
    # Without blocking rules, the async form waits for nothing.
    listed = [replace(rule, form="inline") if rule.form == "blocking" else rule for rule in listed]
    permissions = PermissionList([rule.permission(index) for index, rule in enumerate(listed)])
    DECIDED.note(listed, len(places))
    for name, n in places:
        call, tool = ToolCall(name, {"n": n}), TOOLS[name]
        word, index = ruled_by(listed, name, n)
        expected = (word, None if index is None else f"{listed[index].kind} {index}")
        asked = (permissions, None, call, tool)
        assert decided(partial(decide, *asked)) == expected
        assert decided(lambda asked=asked: finished(adecide(*asked))) == expected  # type: ignore[misc]


@DECISION_LAW
@given(lists(), rules(kinds=("deny",)), st.integers(0, 5))
def test_one_more_deny_rule_never_lets_a_refused_call_through(listed: list[Rule], more: Rule, at: int) -> None:
    for before, after in zip(all_decided(listed), all_decided([*listed[:at], more, *listed[at:]]), strict=True):
        assert before in ("allow", "ask") or after not in ("allow", "ask")


@DECISION_LAW
@given(lists(), st.randoms(use_true_random=False))
def test_neither_the_order_of_deny_rules_nor_where_they_stand_lets_a_call_through(
    listed: list[Rule], random: Any
) -> None:
    denies = [rule for rule in listed if rule.kind == "deny"]
    random.shuffle(denies)
    shuffled = [rule for rule in listed if rule.kind != "deny"]
    for rule in denies:
        shuffled.insert(random.randint(0, len(shuffled)), rule)
    for first, second in zip(all_decided(listed), all_decided(shuffled), strict=True):
        if first in ("allow", "ask", "nobody"):  # which of several denies is the first may differ
            assert first == second
        else:
            assert second not in ("allow", "ask", "nobody")


# ---------------------------------------------------------------------- laws on whole turns


@LAW
@given(lists(), TURNS, answers(), st.sampled_from(DRIVERS))
def test_a_turn_ends_as_the_law_says(
    listed: list[Rule], calls: list[ToolCall], said: dict[Any, Any], driver: str
) -> None:
    world = World(listed, said)
    outcome = world.turn(driver, calls)
    verdicts, runs = expected(listed, calls, said)
    assert outcome.verdicts == verdicts
    assert Counter(world.ran) == Counter(runs)


@LONG_LAW
@given(lists(), TURNS, answers())
def test_all_drivers_agree(listed: list[Rule], calls: list[ToolCall], said: dict[Any, Any]) -> None:
    worlds = [(World(listed, said), driver) for driver in DRIVERS]
    outcomes = [world.turn(driver, calls) for world, driver in worlds]
    for (world, _), outcome in zip(worlds, outcomes, strict=True):
        # What a StopIteration is turned into differs in its words.
        shown = slice(None) if outcome.error is None else slice(-2)
        assert [fact[shown] for fact in outcome.facts] == [fact[shown] for fact in outcomes[0].facts]
        assert outcome.error == outcomes[0].error
        assert Counter(world.ran) == Counter(worlds[0][0].ran)
        assert world.asked == worlds[0][0].asked


@LAW
@given(lists(faults=False, stops=False), TURNS, answers(stops=False), st.sampled_from(DRIVERS))
def test_calls_of_one_turn_are_decided_as_they_would_be_alone(
    listed: list[Rule], calls: list[ToolCall], said: dict[Any, Any], driver: str
) -> None:
    together = World(listed, said).turn(driver, calls)
    alone = [World(listed, said).turn(driver, [call]).facts[0] for call in calls]
    assert together.facts == alone


@LAW
@given(lists(), rules(kinds=("deny",)), st.integers(0, 5), TURNS, answers(), st.sampled_from(DRIVERS))
def test_one_more_deny_rule_never_lets_a_refused_call_run(
    listed: list[Rule], more: Rule, at: int, calls: list[ToolCall], said: dict[Any, Any], driver: str
) -> None:
    before = World(listed, said).turn(driver, calls)
    after = World([*listed[:at], more, *listed[at:]], said).turn(driver, calls)
    for verdict, later in zip(before.verdicts, after.verdicts, strict=True):
        assert not (verdict in ("denied", "input_error") and later == "allowed")


@LAW
@given(lists(), st.randoms(use_true_random=False), CALLS, answers(), st.sampled_from(DRIVERS))
def test_the_order_among_deny_rules_never_lets_a_call_run(
    listed: list[Rule], random: Any, call: ToolCall, said: dict[Any, Any], driver: str
) -> None:
    denies = [rule for rule in listed if rule.kind == "deny"]
    random.shuffle(denies)
    shuffled = [denies.pop() if rule.kind == "deny" else rule for rule in listed]
    random.shuffle(shuffled)
    others = iter([rule for rule in listed if rule.kind != "deny"])
    shuffled = [rule if rule.kind == "deny" else next(others) for rule in shuffled]  # wherever the denies stand
    assert World(listed, said).turn(driver, [call]).verdicts == World(shuffled, said).turn(driver, [call]).verdicts


@LAW
@given(lists(faults=False, stops=False), st.randoms(use_true_random=False), TURNS, answers(), st.sampled_from(DRIVERS))
def test_the_order_among_plain_deny_rules_never_changes_a_turn(
    listed: list[Rule], random: Any, calls: list[ToolCall], said: dict[Any, Any], driver: str
) -> None:
    denies = [rule for rule in listed if rule.kind == "deny"]
    others = [rule for rule in listed if rule.kind != "deny"]
    random.shuffle(denies)
    first, second = World(listed, said), World([*others, *denies], said)
    assert first.turn(driver, calls).verdicts == second.turn(driver, calls).verdicts
    assert Counter(first.ran) == Counter(second.ran)


@LONG_LAW
@given(lists(), TURNS)
def test_explain_agrees_with_the_decision(listed: list[Rule], calls: list[ToolCall]) -> None:
    for call in calls:
        world = World(listed)
        outcome = world.turn("sync", [call])
        rows = world.agent.audit.calls()
        if outcome.error is not None:
            with pytest.raises((TypeError, ValueError, RuntimeError)) as caught:
                world.agent.explain(call)
            assert outcome.error == caught.type.__name__
            continue
        explanation = world.agent.explain(call)
        assert world.ran == ([(call.name, call.args["n"])] if explanation.verdict == "allowed" else [])
        said = "asked" if rows["asked"].iloc[0] else outcome.verdicts[0]
        assert explanation.verdict == said
        if said != "input_error":
            assert explanation.decided_by == outcome.results[0].decided_by
        marks = [row[0] for row in explanation.rows]
        assert marks.count("→") <= 1
        assert len(marks) == len(listed)
        assert world.asked == ([(call.name, call.args["n"])] if said == "asked" else [])


@LONG_LAW
@given(lists(faults=False), st.lists(TURNS, min_size=2, max_size=4), answers(remember=True), st.sampled_from(DRIVERS))
def test_edits_and_remembered_answers_never_pass_a_denial(
    listed: list[Rule], turns: list[list[ToolCall]], said: dict[Any, Any], driver: str
) -> None:
    world = World(listed, said)
    for number, calls in enumerate(turns):
        if number == len(turns) - 1:
            world.agent.new_run()
        world.turn(driver, calls)
    for name, n in world.ran:
        assert ruling(listed, name, n) in ("allow", "ask")


@LAW
@given(lists(), TURNS, answers(), st.sampled_from(DRIVERS), st.booleans())
def test_every_call_gets_one_result_in_order_and_one_row(
    listed: list[Rule], calls: list[ToolCall], said: dict[Any, Any], driver: str, by_state: bool
) -> None:
    world = World(listed, said)
    state = State(pending_calls=calls) if by_state else world.agent.state
    outcome, _ = run_noting(driver, world.agent, state if by_state else calls)
    assert state.pending_calls == ()
    assert world.agent.pending() == ()
    rows = world.agent.audit.calls()
    keys = [f"{state.id}/1/{position}" for position in range(len(calls))]
    assert list(rows["call_key"]) == keys
    assert sorted(result.call_key for result in state.results) == keys
    assert list(rows["call_id"]) == [call.id for call in calls]
    by_key = {result.call_key: result for result in state.results}
    if isinstance(outcome, Turn):
        assert outcome.calls == tuple(calls)
        assert [result.call_key for result in outcome.results] == keys
        assert [written["tool_call_id"] for written in outcome.to_messages()] == [call.id for call in calls]
        assert outcome.frame()["call_key"].tolist() == keys
        assert (outcome.stopped is not None) == bool(rows["stop"].any())
    for row in rows.to_dict("records"):
        result = by_key[row["call_key"]]
        assert row["verdict"] == result.verdict
        assert none(row["decided_by"]) == result.decided_by
        assert none(row["decided_kind"]) == (result.decided_kind or None)
        assert none(row["answered_by"]) == result.answered_by
        assert none(row["reason"]) == (result.reason or None)
        assert row["edited"] == (result.args_run is not None)
        assert row["args"] == result.call.args
        assert row["outcome"] == ("ran" if result.verdict == "allowed" else "not_run")
        assert (none(row["started"]) is not None) == (result.verdict == "allowed")


def none(value: Any) -> Any:
    """Return None for what pandas has in place of it."""
    return None if value is None or value != value or str(value) in ("<NA>", "NaT") else value


@LAW
@given(lists(), TURNS, answers(remember=True) | answers(), st.sampled_from(DRIVERS))
def test_a_call_is_asked_about_then_decided_then_started(
    listed: list[Rule], calls: list[ToolCall], said: dict[Any, Any], driver: str
) -> None:
    world = World(listed, said)
    world.turn(driver, calls)
    world.turn(driver, calls)
    events = world.agent.audit.events()
    assert [event.seq for event in events] == list(range(1, len(events) + 1))
    for key in {event.call_key for event in events} - {""}:
        own = world.agent.audit.events(key)
        kinds = [event.kind for event in own]
        assert kinds[0] == "requested"
        assert kinds.count("requested") == 1
        assert kinds.count("started") <= 1
        assert kinds.count("asked") <= 1
        if "asked" in kinds and "decided" in kinds:
            assert kinds.index("asked") < kinds.index("decided")
        if "answered" in kinds:
            assert kinds.index("answered") < kinds.index("decided")
        if "started" in kinds:
            decided = [event for event in own[: kinds.index("started")] if event.kind == "decided"]
            assert decided[-1].data["verdict"] == "allowed"
            assert kinds.index("finished") > kinds.index("started")


# ---------------------------------------------------------------------- secrets

PLANTED = "hunter2-x9Qz"
SECRET_ARGS: list[Callable[[str], dict[str, Any]]] = [
    lambda secret: {"password": secret},
    lambda secret: {"auth": {"api_key": secret, "user": "ann"}},
    lambda secret: {"tokens": [secret, {"more": secret}]},
    lambda secret: {"body": secret},
    lambda secret: {"body": {"inner": [secret]}},
    lambda secret: {"text": f'{{"client_secret": "{secret}"}}'},
    lambda secret: {"text": f"password={secret}"},
    lambda secret: {"text": f"https://ann:{secret}@example.org/x?token={secret}"},
    lambda secret: {"text": f"Authorization: Bearer {secret}"},
]
LOUD = ("allow", "deny", "ask", "ToolError", "ValueError", "nobody", "bad schema")
TELLING = ("allow", "deny", "edit", "raise", "junk", "bad edit")


@LONG_LAW
@given(
    st.lists(st.sampled_from(SECRET_ARGS), min_size=1, max_size=3),
    st.sampled_from(LOUD),
    st.sampled_from(TELLING),
    st.sampled_from(["returns", "raises ToolError", "raises ValueError", "raises KeyError"]),
    st.sampled_from(DRIVERS),
)
def test_a_secret_in_the_arguments_is_never_shown_nor_stored(
    made: list[Callable[[str], dict[str, Any]]], loud: str, telling: str, then: str, driver: str
) -> None:
    class Telling(DecidePermission):
        """Quotes the arguments in what it says."""

        blocking = False

        def check(self, state: Any, call: ToolCall, tool: Any) -> Any:
            quoted = f"{call.args!r}"
            match loud:
                case "deny":
                    return Denied(f"no: {quoted}")
                case "ask":
                    return Ask(f"may it? {quoted}")
                case "ToolError":
                    raise ToolError(f"cannot: {quoted}")
                case "ValueError":
                    raise ValueError(quoted)
                case "nobody":
                    return None
            return Allowed()

    def handler(request: Any) -> Any:
        assert PLANTED not in f"{request!r} {request.question} {request.reason} {request.prompt} {request.shown_args}"
        match telling:
            case "edit":
                return ApprovalDecision("edit", edited_args={**thaw(request.call.args), "password": PLANTED + "2"})
            case "bad edit":
                return ApprovalDecision("edit", edited_args={"password": PLANTED, "n": PLANTED})
            case "raise":
                raise ValueError(f"{thaw(request.call.args)}")
            case "junk":
                return thaw(request.call.args)
            case "deny":
                return ApprovalDecision("deny", reason=f"not with {thaw(request.call.args)}")
        return True

    def act(**args: Any) -> Any:
        match then:
            case "raises ToolError":
                raise ToolError(f"failed with {args}")
            case "raises ValueError":
                raise ValueError(args)
            case "raises KeyError":
                raise KeyError(str(args))
        return args

    schema: dict[str, Any] = {"type": "object", "properties": {"n": {"type": "integer"}}}
    if loud == "bad schema":
        schema["properties"] |= {name: {"type": "boolean"} for name in ("password", "auth", "tokens", "body")}
        schema["additionalProperties"] = False
    agent = Agent(
        [Tool("act", "", schema, function=act, secret=["body"])], permissions=[Telling()], approval_handler=handler
    )
    calls = [ToolCall("act", make(PLANTED)) for make in made]
    outcome, noted = run_noting(driver, agent, calls)
    assert PLANTED not in str(agent.audit.events())
    rows = agent.audit.calls()
    assert PLANTED not in str(rows.to_dict("records"))
    assert PLANTED not in "".join(noted)
    if isinstance(outcome, Turn):
        assert PLANTED not in repr(outcome) + outcome._repr_html_()
    assert PLANTED not in repr(agent) + agent._repr_html_()
    for call in calls:
        if loud != "ValueError":
            explanation = agent.explain(call)
            assert PLANTED not in repr(explanation) + explanation._repr_html_()
    assert all(Redactor().value(row["args"]) == row["args"] for row in rows.to_dict("records"))


def test_at_least_two_thousand_lists_are_decided_in_every_run(request: pytest.FixtureRequest) -> None:
    here = {item.name for item in request.session.items if item.path == request.path}
    laws = {name for name in globals() if name.startswith("test_")}
    if laws <= here:  # and not some of them only
        assert len(DECIDED.different) >= 2_000
