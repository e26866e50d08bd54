"""Policy files that change: what counts from when, what is said of it, and that no decision mixes two versions."""

from __future__ import annotations

import os
import threading
import time
import warnings
from pathlib import Path
from typing import Any

import anyio
import pytest
from policy_agents import Ran, call, layered, policy_events, text_of, verdicts, write
from turns import DRIVERS, run

from agentperm_nb import (
    Agent,
    AllowByDefault,
    AllowByName,
    ApprovalDecision,
    DecideByHuman,
    LintWarning,
    PermissionWarning,
    PolicyFiles,
)
from agentperm_nb.testing import ScriptedModel, tool_call

both_drivers = pytest.mark.parametrize("driver", DRIVERS)


def made(folder: Path, ran: Ran | None = None, **settings: Any) -> Agent:
    return Agent((ran or Ran()).tools, policy=layered(folder), **settings)


# --- between turns ----------------------------------------------------------------------------------------------------


@both_drivers
@pytest.mark.parametrize("layer", ["administrator", "user", "project"])
def test_a_valid_edit_counts_from_the_next_turn_on_and_is_in_the_log(layer: str, driver: str, tmp_path: Path) -> None:
    write(tmp_path, "allow write_file", layer=layer)
    agent = made(tmp_path)
    assert verdicts(driver, agent, call("write_file")) == [("allowed", f"{layer}: allow write_file")]
    write(tmp_path, "deny write_file", layer=layer)
    assert verdicts(driver, agent, call("write_file")) == [("denied", f"{layer}: deny write_file")]
    (event,) = policy_events(agent)
    assert (event["how"], event["who"], event["layer"]) == ("file changed", "file", layer)
    assert event["file"] == str(tmp_path / f"{layer}.toml")
    assert event["permissions"] == [f"{layer}: deny write_file", "protected path"]
    rows = agent.audit.calls()
    assert rows["policy_id"].to_list()[1] == event["policy_id"] != rows["policy_id"].to_list()[0]


@both_drivers
def test_a_file_that_comes_later_counts_too(driver: str, tmp_path: Path) -> None:
    write(tmp_path, "allow write_file")
    agent = made(tmp_path)
    verdicts(driver, agent, call("write_file"))
    write(tmp_path, "deny write_file", layer="administrator")
    assert verdicts(driver, agent, call("write_file")) == [("denied", "administrator: deny write_file")]


def test_an_edit_that_says_the_same_is_no_event(tmp_path: Path) -> None:
    path = write(tmp_path, "allow write_file")
    agent = made(tmp_path)
    path.write_text(f"# a comment\n{path.read_text()}")
    agent.use_tools([call("write_file")])
    assert policy_events(agent) == []


def test_explain_card_and_text_see_an_edit_without_a_turn(tmp_path: Path) -> None:
    agent = made(tmp_path)
    write(tmp_path, "deny write_file")
    assert agent.explain("write_file", path="a").decided_by == "project: deny write_file"
    write(tmp_path, "ask write_file")
    assert "asked by project: ask write_file" in repr(agent)
    write(tmp_path, "allow write_file")
    assert "allow write_file  # project" in agent.policy_text()
    assert len(policy_events(agent)) == 3


def test_a_run_looks_at_the_files_before_it_begins_and_before_each_turn(tmp_path: Path) -> None:
    write(tmp_path, "allow *")
    ran = Ran(on_run=lambda name, path: write(tmp_path, "deny *"))
    agent = made(tmp_path, ran, model=ScriptedModel([call("read_file"), call("read_file"), "Done."]))
    assert agent.run("Go") == "Done."
    assert len(ran.ran) == 1


BAD = {
    "an unknown key": ("version = 1\nrule = ['deny *']", "line 2: the key 'rule' is not known"),
    "half of it": ("version = 1\nrules = ['deny *',", "this is no TOML"),
    "empty": ("", "it does not say its version"),
    "a rule about nothing": (text_of("deny write_file(pth=a)"), "write_file has no argument pth"),
    "gone": (None, "it is gone"),
}


@both_drivers
@pytest.mark.parametrize(("text", "problem"), BAD.values(), ids=BAD)
def test_what_cannot_be_taken_keeps_the_rules_and_is_said_once(
    text: str | None, problem: str, driver: str, tmp_path: Path
) -> None:
    path = write(tmp_path, "deny write_file", "allow read_file")
    agent = made(tmp_path)
    policy_id = agent.audit.events()[0].policy_id
    if text is None:
        path.unlink()
    else:
        path.write_text(text)
    with pytest.warns(PermissionWarning) as caught:
        first = verdicts(driver, agent, call("write_file"), call("read_file"))
    assert first == [("denied", "project: deny write_file"), ("allowed", "project: allow read_file")]
    (said,) = [str(warning.message) for warning in caught]
    assert said.startswith(f"the policy file {path} (project) was not taken, and the rules before it stay: ")
    assert problem in said
    assert verdicts(driver, agent, call("write_file")) == first[:1], "no second warning: here it would be an error"
    assert f"policy problem: {path} was not taken, the rules before it stay:" in repr(agent)
    assert problem in repr(agent)
    assert f"#   not taken, the rules before it stay: {problem}"[:40] in agent.policy_text()
    (event,) = policy_events(agent)
    assert (event["how"], event["layer"], event["policy_id"]) == ("file refused", "project", policy_id)
    assert problem in event["problem"]
    write(tmp_path, "allow write_file")
    assert verdicts(driver, agent, call("write_file")) == [("allowed", "project: allow write_file")]
    assert "policy problem" not in repr(agent)


def test_a_warning_that_is_an_error_ends_only_the_turn_it_came_before(tmp_path: Path) -> None:
    path = write(tmp_path, "allow read_file")
    ran = Ran()
    agent = made(tmp_path, ran)
    path.write_text("nonsense")
    with pytest.raises(PermissionWarning, match="was not taken"):
        agent.use_tools([call("read_file")])
    assert ran.ran == []
    agent.use_tools([call("read_file")])
    assert len(ran.ran) == 1


@pytest.mark.skipif(os.name == "nt", reason="rights are of another kind there")
def test_a_file_that_others_may_write_is_a_warning_when_the_agent_is_made_and_when_it_becomes_one(
    tmp_path: Path,
) -> None:
    path = write(tmp_path, "allow read_file")
    path.chmod(0o666)
    with pytest.warns(PermissionWarning, match="can be changed by others: every user of this machine may write it"):
        agent = made(tmp_path)
    assert f"policy problem: {path}: every user of this machine may write it" in repr(agent)
    agent.use_tools([call("read_file")])
    path.chmod(0o644)
    agent.use_tools([call("read_file")])
    assert "policy problem" not in repr(agent)
    path.chmod(0o666)
    with pytest.warns(PermissionWarning, match="can be changed by others"):
        agent.use_tools([call("read_file")])


def test_two_agents_of_one_file_each_see_its_edits(tmp_path: Path) -> None:
    write(tmp_path, "allow write_file")
    agents = [made(tmp_path), made(tmp_path)]
    write(tmp_path, "deny write_file")
    for agent in agents:
        assert verdicts("sync", agent, call("write_file")) == [("denied", "project: deny write_file")]
        assert len(policy_events(agent)) == 1


# --- in a turn --------------------------------------------------------------------------------------------------------


@both_drivers
def test_a_deny_that_comes_while_a_person_thinks_counts(driver: str, tmp_path: Path) -> None:
    ran = Ran()

    def handler(request: Any) -> bool:
        write(tmp_path, "deny send_mail because \"a freeze\"")  # fmt: skip
        return True

    write(tmp_path, "ask *")
    agent = made(tmp_path, ran, approval_handler=handler)
    turn = run(driver, agent, [call("send_mail"), call("write_file")])
    assert [result.verdict for result in turn.results] == ["denied", "allowed"], "write_file was asked about as ever"
    assert turn.results[0].decided_by == "project: deny send_mail"
    assert turn.results[0].content == "a freeze"
    assert [name for name, _ in ran.ran] == ["write_file"]


@both_drivers
def test_a_deny_of_the_session_that_comes_while_a_person_thinks_counts(driver: str, tmp_path: Path) -> None:
    ran = Ran()
    agent: Agent

    def handler(request: Any) -> bool:
        agent.session_rules.add("deny send_mail")
        return True

    agent = Agent(ran.tools, approval_handler=handler)
    ((verdict, by),) = verdicts(driver, agent, call("send_mail"))
    assert (verdict, by, ran.ran) == ("denied", "session: deny send_mail", [])


@both_drivers
def test_a_deny_that_comes_while_another_call_runs_counts_for_those_that_have_not_started(
    driver: str, tmp_path: Path
) -> None:
    write(tmp_path, "allow *")
    ran = Ran(on_run=lambda name, path: write(tmp_path, "deny send_mail"))
    for tool in ran.tools:
        tool.parallel = False  # one after the other
    turn = run(driver, made(tmp_path, ran), [call("write_file"), call("send_mail"), call("read_file")])
    assert [result.verdict for result in turn.results] == ["allowed", "denied", "allowed"]
    assert [name for name, _ in ran.ran] == ["write_file", "read_file"]


@both_drivers
@pytest.mark.parametrize(
    "later",
    [
        ["ask send_mail"],
        [],
        ["allow read_file"],
    ],
    ids=["asks now", "says nothing now", "allows others now"],
)
def test_nothing_but_denies_counts_for_a_turn_that_has_begun(later: list[str], driver: str, tmp_path: Path) -> None:
    write(tmp_path, "ask write_file", "allow send_mail")
    ran = Ran()

    def handler(request: Any) -> bool:
        write(tmp_path, *later)
        return True

    agent = made(tmp_path, ran, approval_handler=handler)
    turn = run(driver, agent, [call("write_file"), call("send_mail")])
    assert [result.verdict for result in turn.results] == ["allowed", "allowed"]
    assert agent.explain("send_mail", path="a").verdict == ("asked" if later[:1] == ["ask send_mail"] else "denied")


@both_drivers
def test_an_allow_that_comes_meanwhile_opens_nothing_in_the_turn(driver: str, tmp_path: Path) -> None:
    write(tmp_path, "ask write_file(path=a)", "allow read_file")
    ran = Ran()

    def handler(request: Any) -> Any:
        write(tmp_path, "allow *", more="mode = 'bypassPermissions'")
        return ApprovalDecision("edit", edited_args={"path": "b"})  # which nothing has allowed

    agent = made(tmp_path, ran, approval_handler=handler)
    turn = run(driver, agent, [call("write_file", "a"), call("read_file")])
    assert [result.verdict for result in turn.results] == ["denied", "allowed"]
    assert not turn.bypass
    assert [name for name, _ in ran.ran] == ["read_file"]


@both_drivers
def test_an_edit_into_what_a_file_denies_by_now_does_not_run(driver: str, tmp_path: Path) -> None:
    write(tmp_path, "ask write_file")
    ran = Ran()

    def handler(request: Any) -> Any:
        write(tmp_path, "ask write_file", "deny write_file(path=secret/**)")
        return ApprovalDecision("edit", edited_args={"path": "secret/x"})

    turn = run(driver, made(tmp_path, ran, approval_handler=handler), [call("write_file")])
    assert (turn.results[0].verdict, ran.ran) == ("denied", [])


@both_drivers
def test_a_deny_that_is_taken_away_meanwhile_still_denies_in_the_turn(driver: str, tmp_path: Path) -> None:
    write(tmp_path, "ask write_file", "deny write_file(path=secret/**)")
    ran = Ran()

    def handler(request: Any) -> Any:
        write(tmp_path, "ask write_file")
        return ApprovalDecision("edit", edited_args={"path": "secret/x"})

    turn = run(driver, made(tmp_path, ran, approval_handler=handler), [call("write_file")])
    assert (turn.results[0].verdict, ran.ran) == ("denied", [])


@both_drivers
def test_a_file_that_breaks_in_a_turn_is_said_before_the_next(driver: str, tmp_path: Path) -> None:
    path = write(tmp_path, "ask write_file")

    def handler(request: Any) -> bool:
        path.write_text("nonsense")
        return True

    agent = made(tmp_path, approval_handler=handler)
    assert verdicts(driver, agent, call("write_file")) == [("allowed", "project: ask write_file")]
    with pytest.warns(PermissionWarning, match="was not taken"):
        verdicts(driver, agent, call("write_file"))


@both_drivers
def test_a_deny_in_the_file_of_the_agent_above_stops_what_a_subagent_has_not_started(
    driver: str, tmp_path: Path
) -> None:
    write(tmp_path, "allow *")
    ran = Ran("act", on_run=lambda name, path: write(tmp_path, "deny act"))
    model = ScriptedModel([tool_call("act", path="1"), tool_call("act", path="2"), "Done."])
    inner = Agent(ran.tools, name="inner", permissions=[AllowByDefault()], model=model)
    lead = Agent([inner], policy=layered(tmp_path))
    run(driver, lead, [tool_call("inner", prompt="Go")])
    assert ran.ran == [("act", "1")]
    assert inner.audit.calls()["decided_by"].to_list() == ["AllowByDefault()", "project: deny act"]


@both_drivers
def test_a_deny_that_comes_to_the_agent_above_while_a_person_thinks_about_a_call_below_counts(
    driver: str, tmp_path: Path
) -> None:
    write(tmp_path, "allow inner", "ask act")
    ran = Ran("act")

    def handler(request: Any) -> bool:
        write(tmp_path, "allow inner", "ask act", "deny act")
        return True

    inner = Agent(ran.tools, name="inner", model=ScriptedModel([tool_call("act"), "Done."]))
    lead = Agent([inner], policy=layered(tmp_path), approval_handler=handler)
    run(driver, lead, [tool_call("inner", prompt="Go")])
    assert (inner.audit.calls()["decided_by"].to_list(), ran.ran) == (["project: deny act"], [])


@both_drivers
def test_who_is_asked_by_a_rule_stays_the_same_when_the_file_changes_meanwhile(driver: str, tmp_path: Path) -> None:
    write(tmp_path, 'ask act because "old"', "allow inner")
    asked: list[tuple[str, str]] = []

    def person(name: str, answer: bool) -> Any:
        def handler(request: Any) -> bool:
            asked.append((name, request.reason))
            return answer

        return handler

    def model(messages: Any, tools: Any) -> Any:
        if len(messages) > 1:
            return "Done."
        write(tmp_path, 'ask act because "new"', "allow inner")  # before the turn below begins
        return tool_call("act")

    ran = Ran("act")
    inner = Agent(ran.tools, name="inner", model=model, approval_handler=person("inner", True))
    lead = Agent([inner], policy=layered(tmp_path), approval_handler=person("lead", False))
    for _ in range(2):
        run(driver, lead, [tool_call("inner", prompt="Go")])
    assert (asked, ran.ran) == ([("lead", "old"), ("lead", "new")], [])


# --- many edits -------------------------------------------------------------------------------------------------------


class Writer:
    """Rewrites a policy file again and again, whole and in pieces, until it is left."""

    def __init__(self, path: Path, versions: list[str], pause: float) -> None:
        self.path, self.versions, self.pause = path, versions, pause
        self.over = threading.Event()
        self.thread = threading.Thread(target=self._write)

    def __enter__(self) -> Writer:
        self.thread.start()
        return self

    def __exit__(self, *error: object) -> None:
        self.over.set()
        self.thread.join()

    def _write(self) -> None:
        turn = 0
        while not self.over.is_set():
            turn += 1
            text = self.versions[turn % len(self.versions)]
            if turn % 3 == 0:
                other = self.path.with_suffix(".new")
                other.write_text(text)
                os.replace(other, self.path)
            elif turn % 3 == 1:
                with self.path.open("w", buffering=1) as opened:  # a line at a time
                    opened.writelines(text.splitlines(keepends=True))
            else:
                away = self.path.with_suffix(".old")
                self.path.rename(away)
                self.path.write_text(text)
            self.over.wait(self.pause)


@both_drivers
def test_every_decision_is_made_under_one_whole_version(driver: str, tmp_path: Path) -> None:
    # Of each version, one tool is denied and the next allowed; two versions together would deny or allow both.
    count = 4
    versions = [
        text_of(f"deny t{n}", f"allow t{(n + 1) % count}", f"allow u{n}") + f"[users.ann]\nrules = ['deny v{n}']\n"
        for n in range(count)
    ]
    names = [f"{letter}{n}" for letter in "tuv" for n in range(count)]
    path = tmp_path / "project.toml"
    path.write_text(versions[0])
    agent = made(tmp_path, Ran(*names), user="ann", permissions=["allow v*"])
    seen: set[int] = set()
    deadline = time.monotonic() + 8
    with Writer(path, versions, 0.08), warnings.catch_warnings():
        warnings.simplefilter("ignore", PermissionWarning)
        while len(seen) < count and time.monotonic() < deadline:
            turn = run(driver, agent, [call(name) for name in names])
            said = {result.call.name: result.decided_by for result in turn.results}
            (version,) = [n for n in range(count) if said[f"u{n}"] == f"project: allow u{n}"]
            following = (version + 1) % count
            expected: dict[str, str | None] = dict.fromkeys(names)
            expected.update({f"v{n}": "allow v*" for n in range(count)})
            expected |= {
                f"t{version}": f"project: deny t{version}",
                f"t{following}": f"project: allow t{following}",
                f"u{version}": f"project: allow u{version}",
                f"v{version}": f"project, ann: deny v{version}",
            }
            late = {name for name in names if said[name] != expected[name]}
            # Denies that have come since the turn began count as well, just before a call starts.
            assert all(said[name] in (f"project: deny {name}", f"project, ann: deny {name}") for name in late), said
            seen.add(version)
    assert len(seen) == count
    ids = {event.policy_id for event in agent.audit.events() if event.kind == "policy"}
    assert set(agent.audit.calls()["policy_id"]) <= ids
    assert len(ids) <= count


def test_turns_of_several_threads_each_go_by_one_version(tmp_path: Path) -> None:
    versions = [text_of("deny a", "allow b"), text_of("deny b", "allow a")]
    path = tmp_path / "project.toml"
    path.write_text(versions[0])
    agent = made(tmp_path, Ran("a", "b"))
    wrong: list[Any] = []
    over = threading.Event()

    def work() -> None:
        while not over.is_set():
            results = agent.use_tools([call("a"), call("b")]).results
            said = [result.verdict for result in results]
            if said not in (["denied", "allowed"], ["allowed", "denied"], ["denied", "denied"]):
                wrong.append(said)

    threads = [threading.Thread(target=work) for _ in range(3)]
    with Writer(path, versions, 0.08), warnings.catch_warnings():
        warnings.simplefilter("ignore", PermissionWarning)
        for thread in threads:
            thread.start()
        deadline = time.monotonic() + 8
        while len(policy_events(agent)) < 6 and time.monotonic() < deadline:
            time.sleep(0.01)
        over.set()
        for thread in threads:
            thread.join()
    assert wrong == []
    assert len([event for event in policy_events(agent) if event["how"] == "file changed"]) >= 2


@pytest.mark.anyio
async def test_turns_at_the_same_time_each_go_by_one_version(tmp_path: Path) -> None:
    write(tmp_path, "allow a", "deny b")
    agent = made(tmp_path, Ran("a", "b"))
    said: list[Any] = []

    async def turn() -> None:
        results = (await agent.ause_tools([call("a"), call("b")])).results
        said.append([result.verdict for result in results])

    async with anyio.create_task_group() as tasks:
        for number in range(20):
            if number == 10:
                write(tmp_path, "allow b", "deny a")
            tasks.start_soon(turn)
            await anyio.lowlevel.checkpoint()
    assert {tuple(one) for one in said} <= {("allowed", "denied"), ("denied", "allowed"), ("denied", "denied")}
    assert len(said) == 20


def test_nothing_is_read_when_nothing_has_changed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from agentperm_nb.permissions import policy_layers

    path = write(tmp_path, "allow *")
    then = path.stat().st_mtime - 60
    os.utime(path, (then, then))
    agent = made(tmp_path)
    monkeypatch.setattr(policy_layers, "read_whole", lambda *args: pytest.fail("it was read again"))
    for _ in range(3):
        agent.use_tools([call("read_file")])


def test_an_agent_that_is_made_in_a_tool_notes_its_policy_by_its_own_name(tmp_path: Path) -> None:
    write(tmp_path, "allow *")
    ran = Ran("act")
    inner = Agent(ran.tools, name="inner", policy=layered(tmp_path), model=ScriptedModel([tool_call("act"), "Done."]))
    write(tmp_path, "allow act")
    Agent([inner], name="lead", permissions=[AllowByName(["inner"]), DecideByHuman()]).use_tools(
        [tool_call("inner", prompt="Go")]
    )
    paths = [event.agent_path for event in inner.audit.events() if event.kind == "policy"]
    assert paths == [("inner",), ("inner",)]
    assert {event.agent_path for event in inner.audit.events() if event.kind == "decided"} == {("lead", "inner")}


def test_a_misspelt_deny_that_comes_with_a_change_is_a_warning_once(tmp_path: Path) -> None:
    def send_mail(to: str) -> str:
        """Send."""
        return "sent"

    path = tmp_path / "policy.toml"
    path.write_text('version = 1\nrules = ["allow send_mail"]\n')
    agent = Agent([send_mail], policy=PolicyFiles(path, administrator=None, user=None))
    agent.use_tools([tool_call("send_mail", to="ann")])
    path.write_text('version = 1\nrules = ["deny sned_mail", "allow send_mail"]\n')
    with pytest.warns(LintWarning, match="sned_mail"):
        agent.use_tools([tool_call("send_mail", to="ann")])
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        agent.use_tools([tool_call("send_mail", to="ann")])
