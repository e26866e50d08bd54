"""Agents with policy files: how their layers decide together with the list, and what log, card and text say."""

from __future__ import annotations

import itertools
import threading
from pathlib import Path
from typing import Any

import pytest
from policy_agents import LAYERS, Ran, call, layered, policy_events, verdicts, write
from turns import DRIVERS, run

from agentperm_nb import (
    Agent,
    AllowByDefault,
    AllowByName,
    AllowByReadOnly,
    ApprovalDecision,
    DecideByHuman,
    Denied,
    DenyByName,
    DenyPermission,
    HandlerApprover,
    PermissionPolicy,
    PermissionWarning,
    PolicyFileError,
    PolicyFiles,
    rules,
)
from agentperm_nb.testing import FakeHuman, ScriptedModel, tool_call

both_drivers = pytest.mark.parametrize("driver", DRIVERS)


def made(folder: Path, **settings: Any) -> Agent:
    return Agent(Ran().tools, policy=layered(folder), **{"approval_handler": lambda request: True, **settings})


def names(agent: Agent) -> list[str]:
    """The names of the list, in the order of asking."""
    return [row[1] for row in agent.explain("read_file", path="notes.txt").rows]


# --- the order --------------------------------------------------------------------------------------------------------


def test_the_order_is_denies_protected_paths_the_list_the_rules_and_the_modes(tmp_path: Path) -> None:
    for layer in LAYERS:
        section = f"mode = 'default'\ndenied_tools = ['x_{layer}']"
        users = f"\n[users.ann]\nmode = 'acceptEdits'\nrules = ['ask a_{layer}', 'deny b_{layer}']"
        path = write(tmp_path, f"allow c_{layer}", f"deny d_{layer}", f"ask e_{layer}", layer=layer, more=section)
        path.write_text(path.read_text() + users)
    agent = made(tmp_path, permissions=[AllowByName(["f"]), DenyByName(["g"])])
    agent.session_rules.add("allow h", "deny i")
    assert names(agent) == [
        *(name for layer in LAYERS for name in (
            f"{layer}, ann: deny b_{layer}", f"{layer}: deny d_{layer}", f"{layer}: mode default: denied_tools",
        )),
        "session: deny i",
        "DenyByName(['g'])",
        "protected path",
        "AllowByName(['f'])",
        *(name for layer in LAYERS for name in (
            f"{layer}, ann: ask a_{layer}", f"{layer}: allow c_{layer}", f"{layer}: ask e_{layer}",
        )),
        "session: allow h",
        *(name for layer in LAYERS for name in (f"{layer}, ann: mode acceptEdits", f"{layer}: mode default")),
    ]  # fmt: skip
    assert agent.permissions == (agent.permissions[0], agent.permissions[1])
    assert repr(agent.permissions) == "(AllowByName(['f']), DenyByName(['g']))"


@both_drivers
@pytest.mark.parametrize("denying", [*LAYERS, "session", "permissions"])
def test_a_deny_in_any_layer_wins_over_every_allow(denying: str, driver: str, tmp_path: Path) -> None:
    for layer in LAYERS:
        deny = ['deny write_file because "no"'] if layer == denying else []
        write(tmp_path, "allow write_file", *deny, layer=layer, more="mode = 'bypassPermissions'")
    given: list[Any] = [AllowByDefault(), *(["deny write_file"] if denying == "permissions" else [])]
    ran = Ran()
    agent = Agent(ran.tools, policy=layered(tmp_path), permissions=given)
    if denying == "session":
        agent.session_rules.add("deny write_file")
    ((verdict, by),) = verdicts(driver, agent, call("write_file"))
    assert (verdict, ran.ran) == ("denied", [])
    assert by == ("deny write_file" if denying == "permissions" else f"{denying}: deny write_file")


@pytest.mark.parametrize("first", [*LAYERS, "permissions"])
def test_of_the_rest_the_earlier_layer_decides_and_the_list_before_them(first: str, tmp_path: Path) -> None:
    order = ["permissions", *LAYERS]
    for layer in LAYERS[LAYERS.index(first) if first in LAYERS else 0 :]:
        write(tmp_path, "ask write_file" if layer == first else "allow write_file", layer=layer)
    given = {"permissions": ["ask write_file"]} if first == order[0] else {"permissions": [AllowByReadOnly()]}
    said = made(tmp_path, **given).explain("write_file", path="a")
    assert (said.verdict, said.decided_by) == (
        "asked",
        "ask write_file" if first == order[0] else f"{first}: ask write_file",
    )


def test_rules_of_every_layer_come_before_the_mode_of_any(tmp_path: Path) -> None:
    write(tmp_path, layer="administrator", more="mode = 'default'")
    write(tmp_path, "allow write_file")
    assert made(tmp_path).explain("write_file", path="a").decided_by == "project: allow write_file"


def test_the_mode_of_an_earlier_layer_decides_before_that_of_a_later_one(tmp_path: Path) -> None:
    write(tmp_path, layer="administrator", more="mode = 'default'")
    write(tmp_path, more="mode = 'bypassPermissions'")
    assert made(tmp_path).explain("write_file", path="a").decided_by == "administrator: mode default: destructive"


def test_several_files_of_a_project_are_layers_in_the_order_of_the_list(tmp_path: Path) -> None:
    one, two = write(tmp_path, "ask write_file", layer="one"), write(tmp_path, "allow write_file", layer="two")
    for files, by in [
        ([one, two], "project one.toml: ask write_file"),
        ([two, one], "project two.toml: allow write_file"),
    ]:
        agent = Agent(Ran().tools, policy=PolicyFiles(*files, administrator=None, user=None))
        assert agent.explain("write_file", path="a").decided_by == by


@both_drivers
def test_with_files_the_list_that_an_agent_has_otherwise_is_left_out(driver: str, tmp_path: Path) -> None:
    agent = made(tmp_path)
    with pytest.warns(PermissionWarning, match="No permission allowed or denied the call to read_file"):
        assert verdicts(driver, agent, call("read_file")) == [("denied", None)]
    write(tmp_path, "allow read_file", "ask *")
    assert verdicts(driver, agent, call("read_file"), call("send_mail")) == [
        ("allowed", "project: allow read_file"),
        ("allowed", "project: ask *"),
    ]
    assert agent.permissions == ()
    assert agent.copy(policy=None).explain("send_mail", path="a").decided_by == "DecideByHuman()"


def test_without_a_file_given_nobody_looks_for_any(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from agentperm_nb.permissions import policy_layers

    write(tmp_path, "deny *", layer="user")
    monkeypatch.setattr(policy_layers, "user_file", lambda: tmp_path / "user.toml")
    assert Agent(Ran().tools, permissions=[AllowByDefault()]).explain("read_file", path="a").verdict == "allowed"
    write(tmp_path, layer="project")
    agent = Agent(Ran().tools, permissions=[AllowByDefault()], policy=str(tmp_path / "project.toml"))
    assert agent.explain("read_file", path="a").decided_by == "user: deny *"
    assert agent.copy(policy=[]).explain("read_file", path="a").decided_by == "user: deny *", "no project, but policies"


def test_a_file_that_cannot_be_taken_makes_no_agent(tmp_path: Path) -> None:
    with pytest.raises(PolicyFileError, match=r"no\.toml: there is no such file"):
        Agent(Ran().tools, policy=tmp_path / "no.toml")
    for layer in LAYERS:
        path = write(tmp_path, "permit write_file", layer=layer)
        with pytest.raises(PolicyFileError, match="it begins with none of allow, deny, ask"):
            made(tmp_path)
        path.unlink()
    write(tmp_path, "deny write_file(pth=a)")
    with pytest.raises(PolicyFileError, match="write_file has no argument pth"):
        made(tmp_path)


# --- what log, explain, card and text say -----------------------------------------------------------------------------


@both_drivers
def test_a_rule_is_named_in_the_log_with_its_layer(driver: str, tmp_path: Path) -> None:
    write(tmp_path, 'deny write_file(path=**/.env) because "no secrets"', "ask send_mail", more="mode = 'default'")
    agent = made(tmp_path)
    run(driver, agent, [call("write_file", ".env"), call("send_mail"), call("read_file"), call("write_file")])
    rows = agent.audit.calls()
    assert rows["decided_by"].to_list() == [
        "project: deny write_file(path=**/.env)",
        "project: ask send_mail",
        "project: mode default: default",
        "project: mode default: destructive",
    ]
    assert rows["decided_kind"].to_list() == ["deny", "human", "decide", "human"]
    assert rows["reason"].to_list()[0] == "no secrets"
    assert set(rows["policy_id"]) == {agent.audit.events()[0].policy_id}


def test_the_first_event_names_the_files_and_the_whole_list(tmp_path: Path) -> None:
    write(tmp_path, "ask write_file", more="mode = 'acceptEdits'\nedit_tools = ['x']")
    data = made(tmp_path).audit.events()[0].data
    assert data["permissions"] == [
        "protected path",
        "project: ask write_file",
        "project: mode acceptEdits: StandardPermissions(ACCEPT_EDITS, edit_tools=['x'])",
    ]
    (file,) = data["files"]
    assert (file["layer"], file["file"], file["problem"]) == ("project", str(tmp_path / "project.toml"), None)
    assert len(file["digest"]) == 64


def test_the_card_shows_the_files_and_who_decides(tmp_path: Path) -> None:
    write(tmp_path, "deny read_file", layer="administrator")
    write(tmp_path, "ask write_file", "allow send_mail(path=a)", more="mode = 'default'")
    card = repr(made(tmp_path))
    assert (
        f"policy: administrator {tmp_path}/administrator.toml (1 rule) · project {tmp_path}/project.toml (2 rules, mode"
        in card
    )
    assert "denied by administrator: deny read_file" in card
    assert "asked by project: ask write_file" in card
    assert "perhaps project: allow send_mail(path=a)" in card
    assert f"protected: {tmp_path}/administrator.toml, {tmp_path}/user.toml, {tmp_path}/project.toml" in card
    assert "policy problem" not in card
    assert f"{tmp_path}/project.toml" in made(tmp_path)._repr_html_()


@pytest.mark.parametrize("user", ["ann", "bob"])
def test_a_bypass_in_a_file_shows_on_card_turn_and_log_for_whom_it_holds(user: str, tmp_path: Path) -> None:
    path = write(tmp_path)
    path.write_text(f"{path.read_text()}\n[users.ann]\nmode = 'bypassPermissions'\n")
    agent = made(tmp_path, user=user, permissions=[AllowByReadOnly()])
    turn = agent.use_tools([call("read_file")])
    on = user == "ann"
    assert ("BYPASS is on" in repr(agent), "BYPASS was on" in repr(turn), turn.bypass) == (on, on, on)
    assert agent.audit.events()[0].data["bypass"] is on
    write(tmp_path, more="mode = 'bypassPermissions'")
    assert "BYPASS is on" in repr(agent)


def test_a_bypass_of_a_file_lifts_no_deny(tmp_path: Path) -> None:
    write(tmp_path, more="mode = 'bypassPermissions'\ndenied_tools = ['write_file']")
    agent = made(tmp_path, permissions=["allow write_file"])
    said = agent.explain("write_file", path="a")
    assert (said.verdict, said.decided_by) == ("denied", "project: mode bypassPermissions: denied_tools")


TEXT = """\
# administrator: {top}/administrator.toml (not there)
# user: {top}/user.toml (1 rule)
# project: {top}/project.toml (3 rules, mode acceptEdits)

# denied, whatever the rest says:
deny send_mail  # user
deny read_file(path=**/.env) because "no secrets"  # project
deny write_file(path=archive/**)  # session
# DenyByName(['drop_*'])

# asked about before it is written, whatever the rest says:
#   {top}/administrator.toml
#   {top}/user.toml
#   {top}/project.toml

# then permissions=, in order:
# AllowByReadOnly()
ask write_file  # permissions=
# PermissionPolicy(0 rules, fallback=ask)

# then, in order:
# allow send_mail  # project, ann
allow read_file  # project
# mode acceptEdits: StandardPermissions(ACCEPT_EDITS)  # project

# what nothing decides is denied"""


def test_the_text_of_a_policy_is_in_the_notation_and_in_the_order_of_asking(tmp_path: Path) -> None:
    write(tmp_path, "deny send_mail", layer="user")
    path = write(
        tmp_path, "allow read_file", "deny read_file(path=**/.env) because \"no secrets\"", more="mode = 'acceptEdits'"
    )  # fmt: skip
    path.write_text(f"{path.read_text()}\n[users.ann]\nrules = ['allow send_mail']\n")
    given = [AllowByReadOnly(), DenyByName(["drop_*"]), "ask write_file", PermissionPolicy(fallback="ask")]
    agent = made(tmp_path, permissions=given)
    agent.session_rules.add("deny write_file(path=archive/**)")
    assert repr(agent.policy) == agent.policy_text() == TEXT.replace("{top}", str(tmp_path))
    assert [str(rule) for rule in rules(agent.policy_text())] == [
        "deny send_mail",
        'deny read_file(path=**/.env) because "no secrets"',
        "deny write_file(path=archive/**)",
        "ask write_file",
        "allow read_file",
    ]


def test_an_agent_without_files_has_a_text_too() -> None:
    agent = Agent(Ran().tools)
    assert agent.policy_text().splitlines()[0] == "# no policy files"
    assert "# then, since permissions= was left out:\n# AllowByReadOnly()\n# DecideByHuman()" in agent.policy_text()
    assert "UNCHECKED" in Agent(Ran().tools, permissions=None).policy_text()


def test_explain_agrees_with_the_turn_for_every_layer_and_call(tmp_path: Path) -> None:
    said = ("deny write_file(path=a)", "ask write_file(path=b)", "allow write_file(path=c)")
    for layer, some in zip(LAYERS, itertools.permutations(said), strict=False):
        write(tmp_path, *some[:2], layer=layer)
    agent = made(tmp_path)
    for path in "abc":
        explained = agent.explain("write_file", path=path)
        (result,) = agent.use_tools([call("write_file", path)]).results
        assert explained.decided_by == result.decided_by


# --- users ------------------------------------------------------------------------------------------------------------


@both_drivers
def test_sections_of_users_never_cross_users(driver: str, tmp_path: Path) -> None:
    path = write(tmp_path, "ask *")
    path.write_text(
        f"{path.read_text()}\n"
        "[users.ann]\nmode = 'bypassPermissions'\nrules = ['allow write_file', 'deny read_file']\n"
        "[users.bob]\nmode = 'default'\nallowed_tools = ['write_file']\nrules = ['ask write_file(path=b)']\n"
    )
    agent = made(tmp_path, approval_handler=lambda request: False)
    calls = [call("read_file"), call("write_file", "b"), call("send_mail")]
    by = {user: verdicts(driver, agent, *calls, user=user) for user in ("ann", "bob", "eve", "Ann")}
    assert by["ann"] == [
        ("denied", "project, ann: deny read_file"),
        ("allowed", "project, ann: allow write_file"),
        ("denied", "project: ask *"),
    ]
    assert by["bob"] == [
        ("denied", "project, bob: mode default: allowed_tools"),
        ("denied", "project, bob: ask write_file(path=b)"),
        ("denied", "project, bob: mode default: allowed_tools"),
    ]
    assert by["eve"] == by["Ann"] == [("denied", "project: ask *")] * 3


def test_a_subagent_for_another_user_has_the_section_of_that_user_and_the_denies_of_both(tmp_path: Path) -> None:
    path = write(tmp_path)
    path.write_text(
        f"{path.read_text()}\n"
        "[users.ann]\nrules = ['deny read_file', 'allow *']\n"
        "[users.bob]\nrules = ['deny send_mail', 'ask write_file']\n"
    )
    ran = Ran()
    inner = Agent(
        ran.tools,
        name="inner",
        user="bob",
        model=ScriptedModel([[call("read_file"), call("send_mail"), call("write_file")], "Done."]),
    )
    asked: list[str] = []
    agent = Agent(
        [inner], user="ann", policy=layered(tmp_path), approval_handler=lambda request: asked.append(request.rule)
    )
    with pytest.warns(PermissionWarning, match="which is not an answer"):
        agent.use_tools([tool_call("inner", prompt="Go")])
    decided = inner.audit.calls()["decided_by"].to_list()
    assert decided == [
        "project, ann: deny read_file",
        "project, bob: deny send_mail",
        "project, bob: ask write_file",
    ]
    assert (asked, ran.ran) == (["project, bob: ask write_file"], [])


# --- masks and times --------------------------------------------------------------------------------------------------


@both_drivers
def test_arguments_that_a_file_names_are_masked_everywhere(driver: str, tmp_path: Path) -> None:
    (tmp_path / "user.toml").write_text("version = 1\nrules = ['ask *']\n[redaction]\narguments = ['body']\n")
    seen: list[Any] = []

    def handler(request: Any) -> bool:
        seen.append((request.shown_args["body"], request.question, request.prompt, request.call.args["body"]))
        return True

    agent = made(tmp_path, permissions=[DecideByHuman()], approval_handler=handler)
    turn = run(driver, agent, [call("send_mail", body="the diagnosis")])
    assert turn.results[0].verdict == "allowed"
    ((shown, question, prompt, real),) = seen
    assert (shown, real) == ("[masked]", "the diagnosis")
    explained = agent.explain("send_mail", body="the diagnosis")
    told = f"{question} {prompt} {turn!r} {turn._repr_html_()} {agent.audit.events()} {explained}"
    assert "the diagnosis" not in told
    assert agent.audit.calls()["masked"].to_list() == [True]


@both_drivers
def test_a_reason_that_quotes_a_masked_value_is_masked(driver: str, tmp_path: Path) -> None:
    class Quoting(DenyPermission):
        def check(self, state: Any, call: Any, tool: Any) -> Denied:
            return Denied(f"not with {call.args['body']}")

    (tmp_path / "project.toml").write_text("version = 1\n[redaction]\narguments = ['body']\n")
    agent = made(tmp_path, permissions=[Quoting()])
    run(driver, agent, [call("send_mail", body="the diagnosis")])
    assert agent.audit.calls()["reason"].to_list() == ["not with [masked]"]


def test_a_mask_that_is_added_counts_from_the_next_turn_on(tmp_path: Path) -> None:
    agent = made(tmp_path, permissions=[AllowByDefault()])
    agent.use_tools([call("send_mail", body="the diagnosis")])
    (tmp_path / "project.toml").write_text("version = 1\n[redaction]\narguments = ['body']\n")
    agent.use_tools([call("send_mail", body="the diagnosis")])
    assert [args["body"] for args in agent.audit.calls()["args"]] == ["the diagnosis", "[masked]"]


def test_nested_and_quoted_values_of_masked_names_are_masked_too(tmp_path: Path) -> None:
    (tmp_path / "project.toml").write_text("version = 1\n[redaction]\narguments = ['body']\n")
    agent = made(tmp_path)
    redactor = agent._engine.redactor
    assert redactor.value({"mail": [{"body": "the diagnosis"}]}) == {"mail": [{"body": "[masked]"}]}
    assert "diagnosis" not in redactor.text('{"body": "the diagnosis"}') + redactor.text("body=diagnosis")


TIMES = "[timeouts]\napproval = {approval}\nreminders = [20]\n"


@pytest.mark.parametrize(
    ("files", "own", "timeout", "reminders"),
    [
        ({"project": 300}, None, 300, (20,)),
        ({"project": 300, "administrator": 60}, None, 60, (20,)),
        ({"project": 300}, 30, 30, (20,)),
        ({"project": 300}, 15, 15, ()),
        ({"project": 300}, 900, 300, (20,)),
    ],
    ids=["a file", "the shorter file", "a shorter handler", "shorter than the reminder", "a longer handler"],
)
def test_a_file_limits_the_time_for_an_answer(
    files: dict[str, int], own: float | None, timeout: float, reminders: tuple[float, ...], tmp_path: Path
) -> None:
    for layer, approval in files.items():
        (tmp_path / f"{layer}.toml").write_text(f"version = 1\nrules = ['ask *']\n{TIMES.format(approval=approval)}")
    waits: list[Any] = []
    agent = made(
        tmp_path, approval_handler=HandlerApprover(lambda request: waits.append(request.patience) or True, timeout=own)
    )
    agent.use_tools([call("send_mail")])
    assert [(wait.timeout, wait.moments) for wait in waits] == [(timeout, reminders)]


@both_drivers
def test_what_nobody_answers_in_the_time_of_a_file_is_denied(driver: str, tmp_path: Path) -> None:
    (tmp_path / "project.toml").write_text("version = 1\nrules = ['ask *']\n[timeouts]\napproval = 0.05\n")
    over = threading.Event()
    agent = made(tmp_path, approval_handler=lambda request: over.wait(10))
    turn = run(driver, agent, [call("send_mail")])
    over.set()
    assert (turn.results[0].verdict, turn.results[0].answered_by) == ("denied", "timeout")


def test_a_person_of_the_rule_has_the_time_of_the_rule(tmp_path: Path) -> None:
    (tmp_path / "project.toml").write_text(f"version = 1\n{TIMES.format(approval=60)}")
    waits: list[Any] = []

    class Asked(FakeHuman):
        def ask(self, state: Any, prompt: str, returns: Any = str) -> Any:
            waits.extend(request.patience for request in agent.pending())
            return "yes"

    agent = Agent(Ran().tools, policy=layered(tmp_path), permissions=[DecideByHuman(human=Asked([]))])
    agent.use_tools([call("send_mail")])
    assert waits == [None]


# --- the session ------------------------------------------------------------------------------------------------------


@both_drivers
def test_rules_of_the_session_count_from_the_next_turn_and_are_in_the_log(driver: str, tmp_path: Path) -> None:
    agent = made(tmp_path, permissions=[AllowByReadOnly()])
    agent.session_rules.add("allow send_mail(path=a)", "deny read_file(path=secret/**)")
    assert verdicts(driver, agent, call("send_mail", "a"), call("read_file", "secret/x")) == [
        ("allowed", "session: allow send_mail(path=a)"),
        ("denied", "session: deny read_file(path=secret/**)"),
    ]
    agent.session_rules.remove("deny read_file(path=secret/**)")
    assert verdicts(driver, agent, call("read_file", "secret/x")) == [("allowed", "AllowByReadOnly()")]
    added, removed = policy_events(agent)
    assert (added["how"], added["layer"], added["rules"]) == (
        "session rules added",
        "session",
        ["allow send_mail(path=a)", "deny read_file(path=secret/**)"],
    )
    assert (removed["how"], removed["rules"]) == ("session rules removed", ["deny read_file(path=secret/**)"])
    assert removed["policy_id"] != added["policy_id"]


def test_an_agent_without_files_has_rules_of_the_session_before_its_default_list() -> None:
    agent = Agent(Ran().tools, human=FakeHuman([]))
    agent.session_rules.add("allow write_file(path=a)", "deny read_file")
    assert agent.explain("write_file", path="a").decided_by == "session: allow write_file(path=a)"
    assert agent.explain("write_file", path="b").decided_by == "DecideByHuman()"
    assert agent.explain("read_file", path="a").decided_by == "session: deny read_file"
    assert "policy: session (2 rules)" in repr(agent)
    agent.session_rules.clear()
    assert agent.explain("read_file", path="a").decided_by == "AllowByReadOnly()"


def test_a_copy_begins_with_the_rules_of_the_session_and_then_has_its_own(tmp_path: Path) -> None:
    agent = made(tmp_path, permissions=[AllowByDefault()])
    agent.session_rules.add("deny send_mail")
    second = agent.copy(name="second")
    assert second.explain("send_mail", path="a").decided_by == "session: deny send_mail"
    second.session_rules.clear()
    assert agent.explain("send_mail", path="a").verdict == "denied"
    write(tmp_path, "deny read_file")
    assert second.explain("read_file", path="a").decided_by == "project: deny read_file"


def test_a_rule_of_the_session_has_to_make_sense_for_the_tools() -> None:
    agent = Agent(Ran().tools)
    with pytest.raises(ValueError, match="write_file has no argument pth"):
        agent.session_rules.add("deny write_file(pth=a)")
    with pytest.raises(ValueError, match="permissions=None, which switches all checks off"):
        Agent(Ran().tools, permissions=None).session_rules.add("deny write_file")


def test_a_session_deny_binds_a_subagent_that_has_a_list_of_its_own(tmp_path: Path) -> None:
    ran = Ran("act")
    inner = Agent(
        ran.tools, name="inner", permissions=[AllowByDefault()], model=ScriptedModel([tool_call("act"), "Done."])
    )
    agent = Agent([inner], permissions=[AllowByDefault()])
    agent.session_rules.add("deny act")
    agent.use_tools([tool_call("inner", prompt="Go")])
    assert ran.ran == []
    assert inner.audit.calls()["decided_by"].to_list() == ["session: deny act"]


def test_a_session_deny_of_a_subagent_without_a_list_holds_below_the_list_of_the_run_above() -> None:
    ran = Ran("act")
    inner = Agent(ran.tools, name="inner", model=ScriptedModel([tool_call("act"), "Done."]))
    inner.session_rules.add("deny act")
    Agent([inner], permissions=[AllowByDefault()]).use_tools([tool_call("inner", prompt="Go")])
    assert ran.ran == []


# --- the folder -------------------------------------------------------------------------------------------------------


@both_drivers
def test_paths_are_relative_to_the_folder_of_the_agent(
    driver: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "job").mkdir()
    monkeypatch.chdir(tmp_path)
    agent = Agent(Ran().tools, folder="job", permissions=["allow write_file(path=out/**)"])
    monkeypatch.chdir("/")
    assert agent.explain("write_file", path=str(tmp_path / "job" / "out" / "x")).verdict == "allowed"
    assert agent.explain("write_file", path="out/x").verdict == "allowed"
    assert agent.copy().explain("write_file", path="out/x").verdict == "allowed"
    calls = [call("write_file", "out/x"), call("write_file", str(tmp_path / "out" / "x"))]
    with pytest.warns(PermissionWarning, match="No permission allowed or denied"):
        assert verdicts(driver, agent, *calls) == [("allowed", "allow write_file(path=out/**)"), ("denied", None)]


def test_a_subagent_without_a_folder_has_that_of_the_run_above(tmp_path: Path) -> None:
    inner = Agent(Ran().tools, name="inner", model=ScriptedModel([call("write_file", "out/x"), "Done."]))
    lead = Agent(
        [inner], folder=tmp_path, permissions=[f"allow write_file(path={tmp_path}/out/**)", AllowByName(["inner"])]
    )
    lead.use_tools([tool_call("inner", prompt="Go")])
    assert inner.audit.calls()["verdict"].to_list() == ["allowed"]


@pytest.mark.parametrize(
    ("folder", "error", "problem"),
    [
        (5, TypeError, "folder= takes the path of a folder"),
        (b"a", TypeError, "folder= takes the path of a folder"),
        ("/no/such/folder", ValueError, "there is none at /no/such/folder"),
        ("a\0b", ValueError, "there is none at"),
    ],
    ids=repr,
)
def test_what_is_no_folder_is_an_error(folder: Any, error: type[Exception], problem: str) -> None:
    with pytest.raises(error, match=problem):
        Agent([], folder=folder)


def test_an_answer_that_is_remembered_never_passes_a_deny_of_a_file(tmp_path: Path) -> None:
    ran = Ran()
    agent = Agent(
        ran.tools,
        policy=layered(tmp_path),
        permissions=[DecideByHuman()],
        approval_handler=lambda request: ApprovalDecision("remember_allow"),
    )
    agent.use_tools([call("send_mail")])
    write(tmp_path, "deny send_mail")
    agent.use_tools([call("send_mail")])
    assert agent.audit.calls()["verdict"].to_list() == ["allowed", "denied"]
    assert len(ran.ran) == 1
