"""Rules that a person wants remembered in the project's policy file: as shown, where they help, or nowhere."""

from __future__ import annotations

import os
import stat
import tomllib
from pathlib import Path
from typing import Any

import pytest
from answering import of
from policy_agents import Ran, call, layered, policy_events, verdicts, write
from turns import DRIVERS, run_noting

from agentperm_nb import (
    Agent,
    AllowByReadOnly,
    ApprovalDecision,
    ApprovalRequest,
    DecideByHuman,
    PermissionPolicy,
    PermissionResult,
    PolicyFiles,
    Scope,
    StandardPermissions,
    State,
)
from agentperm_nb.testing import ScriptedModel, tool_call

both_drivers = pytest.mark.parametrize("driver", DRIVERS)


def yes(text: str, **more: Any) -> ApprovalDecision:
    return ApprovalDecision("remember_allow", scope=Scope("pattern", "file", rule=text), **more)


def no(text: str, **more: Any) -> ApprovalDecision:
    return ApprovalDecision("remember_deny", scope=Scope("pattern", "file", rule=text), **more)


class Asked:
    """A handler that gives these answers, one after the other, and keeps the paths that it was asked about."""

    def __init__(self, *answers: Any) -> None:
        self.answers, self.paths = list(answers), list[str]()

    def __call__(self, request: ApprovalRequest) -> Any:
        self.paths.append(request.call.args.get("path", ""))
        answer = self.answers.pop(0)
        return answer(request) if callable(answer) else answer


def made(folder: Path, *answers: Any, **settings: Any) -> tuple[Agent, Ran, Asked]:
    ran, asked = Ran(), Asked(*answers)
    return Agent(ran.tools, policy=layered(folder), folder=folder, approval_handler=asked, **settings), ran, asked


def rules_of(path: Path) -> list[str]:
    found: list[str] = tomllib.loads(path.read_text())["rules"]
    return found


# ---------------------------------------------------------------------- written


@both_drivers
def test_an_allow_goes_before_the_rule_of_the_file_that_asks_and_counts_from_the_next_turn_on(
    driver: str, tmp_path: Path
) -> None:
    path = tmp_path / "project.toml"
    path.write_text(
        "# of the project\nversion = 1\n\nrules = [\n    'deny read_file(path=**/.env)',  # keys\n"
        "    # people decide\n    'ask write_file',\n    'allow read_file',\n]\n\n[timeouts]\napproval = 600\n"
    )
    path.chmod(0o640)
    agent, _, _ = made(tmp_path, yes("write_file(path=notes/**)"), "deny", "deny")
    turn = verdicts(driver, agent, call("write_file", "notes/a"), call("write_file", "notes/b"))
    assert [verdict for verdict, _ in turn] in (["allowed", "denied"], ["denied", "allowed"])  # in any order
    assert path.read_text() == (
        "# of the project\nversion = 1\n\nrules = [\n    'deny read_file(path=**/.env)',  # keys\n"
        "    # people decide\n    'allow write_file(path=notes/**)',\n    'ask write_file',\n    'allow read_file',\n"
        "]\n\n[timeouts]\napproval = 600\n"
    )
    assert stat.S_IMODE(path.stat().st_mode) == 0o640
    assert verdicts(driver, agent, call("write_file", "notes/b"), call("write_file", "other")) == [
        ("allowed", "project: allow write_file(path=notes/**)"), ("denied", "project: ask write_file"),
    ]  # fmt: skip
    assert len(agent.remembered()) == 0
    fresh, _, _ = made(tmp_path)
    assert verdicts(driver, fresh, call("write_file", "notes/c"))[0][0] == "allowed"


@both_drivers
def test_log_and_policy_say_who_wants_it(driver: str, tmp_path: Path) -> None:
    write(tmp_path, "ask write_file")
    agent, _, _ = made(tmp_path, yes("write_file(path=a)", approver="bob"))
    verdicts(driver, agent, call("write_file", "a"))
    path = str(tmp_path / "project.toml")
    (event,) = of(agent, "remembered")
    assert event.approver == "bob"
    assert event.data == {
        "number": None, "allow": True, "about": "calls that fit write_file(path=a)", "covers": "pattern",
        "lasts": "file", "arguments": [], "rule": "allow write_file(path=a)", "file": path,
    }  # fmt: skip
    told = [(one["how"], one["who"]) for one in policy_events(agent)]
    assert told == [("file changed", "file"), ("rule remembered", "bob")]
    last = policy_events(agent)[-1]
    assert (last["rules"], last["file"]) == (["allow write_file(path=a)"], path)
    assert "project: allow write_file(path=a)" in last["permissions"]
    assert "allow write_file(path=a)" in agent.policy_text()


@both_drivers
def test_a_denial_goes_to_the_end_and_holds_at_once_for_what_has_not_started(driver: str, tmp_path: Path) -> None:
    write(tmp_path, "allow read_file", "ask write_file")
    agent, ran, _ = made(tmp_path, no('*(path=**/secret/**) because "not there"'))
    turn = verdicts(driver, agent, call("read_file", "a/secret/x"), call("write_file", "a/secret/y"))
    assert [verdict for verdict, _ in turn] == ["denied", "denied"]
    assert ran.ran == []
    assert rules_of(tmp_path / "project.toml") == [
        "allow read_file", "ask write_file", 'deny *(path=**/secret/**) because "not there"',
    ]  # fmt: skip
    assert verdicts(driver, agent, call("read_file", "b/SECRET/x"))[0][0] == "denied"


@both_drivers
def test_where_the_mode_of_the_file_asks_the_rule_goes_to_the_end(driver: str, tmp_path: Path) -> None:
    path = write(tmp_path, "deny send_mail", more='mode = "default"')
    agent, _, asked = made(tmp_path, yes("write_file(path=a/*)"))
    verdicts(driver, agent, call("write_file", "a/b"))
    assert rules_of(path) == ["deny send_mail", "allow write_file(path=a/*)"]
    assert verdicts(driver, agent, call("write_file", "a/c"))[0][0] == "allowed"
    assert asked.paths == ["a/b"]


@both_drivers
def test_what_is_there_already_is_not_written_twice(driver: str, tmp_path: Path) -> None:
    path = write(tmp_path, "ask write_file")
    agent, _, _ = made(tmp_path, yes("write_file(path=a/*)"), yes("write_file( path = a/* )"))
    verdicts(driver, agent, call("write_file", "a/b"), call("write_file", "a/c"))
    assert rules_of(path) == ["allow write_file(path=a/*)", "ask write_file"]
    assert len(of(agent, "remembered")) == 2


@both_drivers
def test_a_file_without_rules_gets_some(driver: str, tmp_path: Path) -> None:
    path = tmp_path / "project.toml"
    path.write_text("version = 1\nmode = 'default'\n")
    agent, _, _ = made(tmp_path, yes("write_file"))
    verdicts(driver, agent, call("write_file", "a"))
    assert path.read_text() == "version = 1\nmode = 'default'\nrules = [\n    'allow write_file',\n]\n"


@both_drivers
def test_what_somebody_else_has_written_meanwhile_stays(driver: str, tmp_path: Path) -> None:
    path = write(tmp_path, "ask write_file")

    def answer(request: ApprovalRequest) -> ApprovalDecision:
        path.write_text("# new\nversion = 1\nrules = ['deny send_mail', 'ask write_file', 'allow read_file']\n")
        return yes("write_file(path=a)")

    agent, _, _ = made(tmp_path, answer)
    verdicts(driver, agent, call("write_file", "a"))
    assert path.read_text() == (
        "# new\nversion = 1\nrules = ['deny send_mail', 'allow write_file(path=a)', 'ask write_file', "
        "'allow read_file']\n"
    )


@both_drivers
def test_of_several_files_of_the_project_the_last_one_is_written(driver: str, tmp_path: Path) -> None:
    first, last = write(tmp_path, "deny send_mail", layer="one"), write(tmp_path, "ask write_file", layer="two")
    files = PolicyFiles(first, last, administrator=None, user=None)
    agent, _, _ = made(tmp_path, yes("write_file(path=a)"))
    agent = agent.copy(policy=files)
    before = first.read_text()
    verdicts(driver, agent, call("write_file", "a"))
    assert (first.read_text(), rules_of(last)) == (before, ["allow write_file(path=a)", "ask write_file"])


# ---------------------------------------------------------------------- not written, and why


def refused(driver: str, folder: Path, agent: Agent, path: str = "a") -> str:
    """Do a turn in which a rule is not written; return the warning."""
    files = {file: file.read_bytes() for file in folder.iterdir() if file.is_file()}
    outcome, warned = run_noting(driver, agent, [call("write_file", path)])
    assert getattr(outcome, "results", None), outcome
    assert [result.verdict for result in outcome.results] == ["allowed"]  # type: ignore[union-attr]
    assert {file: file.read_bytes() for file in folder.iterdir() if file.is_file()} == files
    assert (of(agent, "remembered"), len(agent.remembered())) == ([], 0)
    (warning,) = warned
    assert warning.endswith("so the answer counts for this call only and was not remembered")
    return warning


RULE = "allow write_file(path=a) is not written into"


@both_drivers
@pytest.mark.parametrize(
    "permissions",
    [
        [DecideByHuman()],
        [AllowByReadOnly(), DecideByHuman()],
        [PermissionPolicy([], fallback=PermissionResult.ASK)],
        [StandardPermissions(mode="default")],
    ],
    ids=["a person", "a person after a rule", "a policy", "a mode"],
)
def test_r30_a_rule_that_would_never_be_reached_is_not_written(
    driver: str, permissions: list[Any], tmp_path: Path
) -> None:
    write(tmp_path)
    agent, _, _ = made(tmp_path, yes("write_file(path=a)"), permissions=permissions)
    warning = refused(driver, tmp_path, agent)
    assert warning.startswith(f"{RULE} {tmp_path / 'project.toml'}, where it could not help: what asks stands before")


@both_drivers
@pytest.mark.parametrize("layer", ["administrator", "user"])
def test_what_another_layer_asks_about_is_not_for_the_project_to_allow(driver: str, layer: str, tmp_path: Path) -> None:
    write(tmp_path, "ask write_file", layer=layer)
    write(tmp_path, "ask write_file")
    agent, _, _ = made(tmp_path, yes("write_file(path=a)"))
    warning = refused(driver, tmp_path, agent)
    assert f"what asks is a rule of another layer ({layer}), which comes before this file" in warning


@both_drivers
def test_nor_what_a_section_of_a_user_asks_about(driver: str, tmp_path: Path) -> None:
    path = write(tmp_path)
    path.write_text(path.read_text() + "[users.ann]\nrules = ['ask write_file']\n")
    agent, _, _ = made(tmp_path, yes("write_file(path=a)"), user="ann")
    assert "a rule for one user, which comes before the common ones" in refused(driver, tmp_path, agent)


@both_drivers
def test_without_a_file_of_the_project_nothing_is_written(driver: str, tmp_path: Path) -> None:
    ran, asked = Ran(), Asked(*[yes("write_file(path=a)")] * 2)
    bare = Agent(ran.tools, permissions=[DecideByHuman()], approval_handler=asked)
    assert refused(driver, tmp_path, bare).startswith("this agent has no policy file of its project")
    write(tmp_path, "ask write_file", layer="user")
    others = PolicyFiles(administrator=None, user=tmp_path / "user.toml")
    agent = Agent(ran.tools, policy=others, approval_handler=asked)
    assert refused(driver, tmp_path, agent).startswith("this agent has no policy file of its project")


@both_drivers
@pytest.mark.parametrize("kind", ["read-only", "broken meanwhile", "gone meanwhile", "another rule meanwhile"])
def test_a_file_that_cannot_be_written_or_merged_stays_as_it_is(driver: str, kind: str, tmp_path: Path) -> None:
    path = write(tmp_path, "ask write_file")
    text, why = {
        "read-only": (path.read_text(), "it may not be written"),
        "broken meanwhile": ("version = 1\nrules = [\n", "it is no policy as it is now"),
        "gone meanwhile": (None, "it is gone"),
        "another rule meanwhile": ("version = 1\nrules = ['deny x(']\n", "it is no policy as it is now"),
    }[kind]

    def answer(request: ApprovalRequest) -> ApprovalDecision:
        if text is None:
            path.unlink()
        elif kind != "read-only":
            path.write_text(text)
        return yes("write_file(path=a)")

    agent, _, _ = made(tmp_path, answer)
    if kind == "read-only":
        path.chmod(0o444)
    outcome, warned = run_noting(driver, agent, [call("write_file", "a")])
    assert [result.verdict for result in outcome.results] == ["allowed"]  # type: ignore[union-attr]
    assert (path.read_text() if path.exists() else None) == text
    assert f"allow write_file(path=a) could not be written into {path}: {why}" in warned[0]
    assert of(agent, "remembered") == []
    assert sorted(os.listdir(tmp_path)) == ([] if text is None else ["project.toml"])


@both_drivers
def test_a_rule_that_does_not_cover_its_call_or_makes_no_sense_of_the_tools_is_not_written(
    driver: str, tmp_path: Path
) -> None:
    write(tmp_path, "ask write_file")
    agent, _, _ = made(tmp_path, yes("write_file(path=b)"), yes("write_file(pth=a)"))
    assert "does not cover the very call it came from" in refused(driver, tmp_path, agent)
    assert "write_file has no argument pth" in refused(driver, tmp_path, agent)


@both_drivers
def test_secrets_are_not_written_into_files(driver: str, tmp_path: Path) -> None:
    write(tmp_path, "ask write_file")
    agent, _, _ = made(tmp_path, yes('write_file(path=a, body="*password=hunter2222*")'))
    _, warned = run_noting(driver, agent, [call("write_file", "a", body="my password=hunter2222")])
    assert "the rule holds what is masked, and a file would show it" in warned[0]
    assert "hunter2222" not in (tmp_path / "project.toml").read_text() + repr(agent.audit.events())


@both_drivers
def test_a_protected_path_stays_one_that_is_asked_about(driver: str, tmp_path: Path) -> None:
    path = write(tmp_path, "ask write_file")
    agent, _, _ = made(tmp_path, yes("write_file(path=**)"), "deny")
    assert "each call that would write a protected path is asked about" in refused(driver, tmp_path, agent, str(path))


def test_an_agent_below_another_one_writes_nothing_into_the_file_of_that(tmp_path: Path) -> None:
    path = write(tmp_path, "ask write_file", "allow helper")
    ran, asked = Ran(), Asked(yes("write_file(path=a)"))
    helper = Agent(ran.tools, name="helper", model=ScriptedModel([[call("write_file", "a")], "Done."]))
    lead = Agent([helper, *ran.tools], policy=layered(tmp_path), folder=tmp_path, approval_handler=asked)
    before = path.read_text()
    with pytest.warns(match="no policy file of its project"):
        lead.use_tools(State(pending_calls=[tool_call("helper", prompt="x")]))
    assert (path.read_text(), ran.ran) == (before, [("write_file", "a")])


def test_no_rule_of_the_file_is_ever_taken_out(tmp_path: Path) -> None:
    path = write(tmp_path, "deny write_file(path=**/.env)", "ask write_file")
    agent, ran, _ = made(tmp_path, yes("write_file"))
    assert [verdict for verdict, _ in verdicts("sync", agent, call("write_file", "a"))] == ["allowed"]
    assert rules_of(path) == ["deny write_file(path=**/.env)", "allow write_file", "ask write_file"]
    assert [verdict for verdict, _ in verdicts("sync", agent, call("write_file", "b/.env"))] == ["denied"]
    assert [name for name, _ in ran.ran] == ["write_file"]
