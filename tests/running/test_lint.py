"""Lint of an agent, what it says when it is made, and what the page says of it."""

from __future__ import annotations

import re
import warnings
from typing import Any

import pytest
from page_tables import names_of_page, shown_texts, table_rows, value_of

from agentperm_nb import (
    Agent,
    AllowByDefault,
    AllowByName,
    AllowByReadOnly,
    DecideByHuman,
    DenyByName,
    Findings,
    LintError,
    LintWarning,
    PermissionPolicy,
    PermissionRule,
    PermissionWarning,
    StandardPermissions,
    Tool,
    lint,
    rule,
)
from agentperm_nb.permissions.policy_layers import PolicyFiles
from agentperm_nb.testing import FakeHuman, tool_call

PAGE = "lint.md"


def tool_named(name: str) -> Tool:
    return Tool(name, "Act.", {"type": "object", "properties": {"path": {"type": "string"}}}, function=lambda **_: "ok")


DELETE = tool_named("delete_file")


def made(*tools: Tool, **settings: Any) -> tuple[Agent, list[str]]:
    """Make an agent; return it with what it warned of."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        agent = Agent(list(tools), **settings)
    assert all(one.category is LintWarning for one in caught)
    return agent, [str(one.message) for one in caught]


# --- when it is made --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "permissions",
    [
        [DenyByName(["delte_*"]), AllowByDefault()],
        ["deny delte_file", AllowByDefault()],
        ["deny delte_*(path=**/.env)", AllowByDefault()],
        ["ask delte_*", AllowByDefault()],
        [DenyByName(["drop_*", "delte_*"]), AllowByDefault()],
        [StandardPermissions(denied_tools=["delete-*"])],
    ],
    ids=str,
)
def test_r23_a_deny_or_an_ask_that_was_meant_to_match_is_a_warning_when_the_agent_is_made(permissions: Any) -> None:
    agent, said = made(DELETE, permissions=permissions)
    assert len(said) == 1
    assert "delete_file is near" in said[0]
    assert "Fix: write delete_" in said[0]
    assert agent.lint().warnings[0].code in ("unmatched-deny", "unmatched-ask")
    with pytest.raises(LintError):
        agent.lint(strict=True)


@pytest.mark.parametrize(
    "permissions",
    [
        [DenyByName(["drop_*"]), AllowByDefault()],
        [DenyByName(["delete_*", "DELETE_FILE"]), AllowByDefault()],
        [AllowByName(["delte_*"])],
        ["allow delte_file"],
        [AllowByDefault(), DecideByHuman()],
        [AllowByReadOnly(trust_mcp=True)],
        [AllowByName(["delete_file"]), StandardPermissions(denied_tools=["delete_*"])],
        [],
        None,
        [DecideByHuman()],
        ["allow delete_file(path=a)", "allow delete_file(path=a)"],
    ],
    ids=str,
)
def test_all_else_waits_until_lint_is_asked(permissions: Any) -> None:
    assert made(DELETE, permissions=permissions)[1] == []


def test_a_warning_points_at_the_line_that_makes_the_agent() -> None:
    with pytest.warns(LintWarning) as caught:
        Agent([DELETE], permissions=[DenyByName(["delte_*"])])
    assert caught[0].filename == __file__


def test_a_warning_that_is_an_error_keeps_the_agent_from_being_made() -> None:
    with pytest.raises(LintWarning, match=r"delte_\*"):
        Agent([DELETE], permissions=[DenyByName(["delte_*"])])


def test_no_warning_without_tools() -> None:
    assert made(permissions=[DenyByName(["delte_*"])])[1] == []


def test_secrets_in_a_pattern_are_masked_in_the_warning() -> None:
    hide = [lambda text: text.replace("delte", "[masked]")]
    assert "delte" not in made(DELETE, permissions=[DenyByName(["delte_*"])], redact=hide)[1][0]


# --- what is refused --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("text", ["deny delete_file(pth=x)", "allow delete_*(path.x=1)", "ask delete_file(path=5)"])
def test_a_rule_that_can_match_nothing_keeps_the_agent_from_being_made(text: str) -> None:
    with pytest.raises(ValueError, match="can match nothing"):
        Agent([DELETE], permissions=[rule(text), DecideByHuman()])
    finding = lint([text], [DELETE]).of("unknown-argument")[0]
    assert finding.severity == "warning"


def test_a_rule_on_an_argument_that_some_tools_have_is_taken() -> None:
    other = Tool("delete_all", "Act.", {"type": "object", "properties": {}}, function=lambda: "ok")
    agent, said = made(DELETE, other, permissions=["deny delete_*(path=a)", AllowByDefault()])
    assert said == []
    (finding,) = agent.lint().of("unknown-argument")
    assert finding.example == "delete_all() is denied"
    assert agent.explain("delete_all").verdict == "denied"


@pytest.mark.parametrize(
    "names",
    [["d\u0435lete_file"], ["delete_file", "d\u0435lete_file"], ["delete_file", "DELETE_file"], ["del\u200bete_file"]],
    ids=ascii,
)
def test_r19_look_alike_names_of_tools_never_get_as_far_as_a_call(names: list[str]) -> None:
    tools = [tool_named(name) for name in names]
    permissions = [DenyByName(["delete_*"]), AllowByDefault()]
    with pytest.raises(ValueError, match=r"Fix: rename") as caught:
        Agent(tools, permissions=permissions)
    assert not set("\u200b") & set(str(caught.value))
    agent = Agent(tools, permissions=permissions, lookalikes="allow")
    assert {agent.explain(name, path="x").verdict for name in names} == {"denied"}
    codes = agent.copy().lint().codes
    assert set(codes) & {"lookalike-tools", "mixed-script", "unseen-characters"}


@pytest.mark.parametrize(("value", "error"), [(True, TypeError), (None, TypeError), ("yes", ValueError)], ids=str)
def test_lookalikes_takes_two_words(value: Any, error: type[Exception]) -> None:
    with pytest.raises(error, match="lookalikes="):
        Agent([DELETE], lookalikes=value)


def test_tools_of_many_alphabets_are_welcome() -> None:
    names = ["löschen", "удалить", "διαγραφή", "削除", "delete_файл", "naïve_x", "read_1", "read_2"]
    assert made(*map(tool_named, names), permissions=[DecideByHuman()])[1] == []


# --- agent.lint -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("settings", "severity"),
    [
        ({"human": None}, "warning"),
        ({}, "note"),
        ({"human": FakeHuman(["yes"])}, None),
        ({"approval_handler": lambda request: False}, None),
    ],
    ids=["on-purpose", "nobody-here", "human", "handler"],
)
def test_an_agent_that_asks_is_told_when_there_is_nobody_to_ask(
    settings: Any, severity: str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("agentperm_nb.permissions.lint.default_human", lambda: None)
    found = Agent([DELETE], permissions=[DecideByHuman()], **settings).lint().of("nobody-to-ask")
    assert [finding.severity for finding in found] == ([severity] if severity else [])


def test_a_handler_for_policies_answers_what_a_policy_asks() -> None:
    class Yes:
        def handle(self, request: Any) -> bool:
            return True

    policy = PermissionPolicy([PermissionRule("all", lambda tool, parameters: True, "ask")])
    assert Agent([DELETE], permissions=policy, human=None).lint().codes == ("nobody-to-ask",)
    assert Agent([DELETE], permissions=policy, human=None, permission_handler=Yes()).lint().codes == ()


def test_the_rules_of_policy_files_are_looked_at_with_the_agents_own(tmp_path: Any) -> None:
    file = tmp_path / "agentperm.toml"
    file.write_text("version = 1\nrules = ['deny delte_file', 'deny delete_file(path=a)']\n")
    files = PolicyFiles(file, administrator=None, user=None)
    agent, said = made(DELETE, permissions=["allow delete_file(path=a)"], policy=files)
    assert len(said) == 1
    assert "project: deny delte_file" in said[0]
    assert set(agent.lint().codes) == {"unmatched-deny", "shadowed"}
    assert agent.lint().of("shadowed")[0].rule == "allow delete_file(path=a)"


def test_rules_of_one_user_are_not_taken_to_hold_for_all(tmp_path: Any) -> None:
    file = tmp_path / "agentperm.toml"
    file.write_text("version = 1\n[users.ann]\nrules = ['deny delete_file(path=a)', 'allow raed_file']\n")
    files = PolicyFiles(file, administrator=None, user=None)
    agent, _ = made(
        DELETE, tool_named("read_file"), permissions=["allow delete_file(path=a)"], policy=files, user="bob"
    )
    assert agent.lint().codes == ("unmatched-allow",)
    assert agent.explain("delete_file", path="a").verdict == "allowed"


def test_codes_can_be_left_out_and_strict_raises_for_the_rest_only() -> None:
    agent = Agent([DELETE], permissions=[AllowByDefault(), DecideByHuman()], human=FakeHuman([]))
    with pytest.raises(LintError, match="default-before-others") as caught:
        agent.lint(strict=True)
    assert caught.value.findings.codes == ("default-before-others",)
    assert isinstance(caught.value, ValueError)
    assert not agent.lint(ignore=["default-before-others"], strict=True)


@pytest.mark.parametrize(("ignore", "error"), [("unchecked", TypeError), (["no-such"], ValueError), (5, TypeError)])
def test_ignore_takes_codes_that_there_are(ignore: Any, error: type[Exception]) -> None:
    with pytest.raises(error, match="Fix: "):
        Agent([DELETE]).lint(ignore=ignore)


def test_lint_runs_nothing_asks_nobody_and_logs_nothing() -> None:
    ran: list[Any] = []
    tool = Tool("act", "Act.", {"type": "object"}, function=lambda **args: ran.append(args))
    human = FakeHuman([])
    agent = Agent([tool], permissions=[DecideByHuman()], human=human)
    before = len(agent.audit.events())
    agent.lint()
    agent.why_not("act")
    assert (ran, human.questions, len(agent.audit.events())) == ([], [], before)


def test_r06_a_prefix_on_a_command_is_a_warning_and_allows_only_what_it_says() -> None:
    shell = Tool("bash", "Run.", {"type": "object", "properties": {"command": {"type": "string"}}},
                 function=lambda command: command)  # fmt: skip
    agent = Agent([shell], permissions=["allow bash(command=git log*)"])
    (finding,) = agent.lint()
    assert (finding.code, finding.severity) == ("prefix-allow", "warning")
    assert agent.explain("bash", command="git log --output=/etc/passwd").verdict == "allowed"
    narrow = agent.copy(permissions=["allow bash(command in {git log, git log -3})"])
    assert narrow.lint().codes == ()
    assert narrow.explain("bash", command="git log --output=/etc/passwd").verdict == "denied"


def test_r27_a_rule_on_a_name_is_not_for_names_that_begin_like_it() -> None:
    agent = Agent([tool_named("bash_admin"), tool_named("bash")], permissions=["allow bash"])
    assert agent.explain("bash_admin").verdict == "denied"
    assert agent.explain("bash_admin").rows[0][3] == "not asked: bash_admin is not bash"
    with pytest.warns(PermissionWarning, match="bash_admin"):
        turn = agent.use_tools([tool_call("bash_admin"), tool_call("bash")])
    assert [result.verdict for result in turn.results] == ["denied", "allowed"]


# --- the page ---------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def names() -> dict[str, Any]:
    return names_of_page(PAGE)


SAID = table_rows(PAGE, "code", "", "a list of which it is said", "what is the matter")
NOT_SAID = table_rows(PAGE, "code", "a list of which it is not said", "why not")
NAMES = table_rows(PAGE, "tools", "code", "")


@pytest.mark.parametrize(("code", "severity", "listed", "why"), SAID, ids=lambda one: ascii(one)[:60])
def test_what_the_page_says_is_found(code: str, severity: str, listed: str, why: str, names: dict[str, Any]) -> None:
    found = lint(eval(listed, names), names["tools"], human=FakeHuman([]))
    assert (code, severity) in [(finding.code, finding.severity) for finding in found]
    finding = found.of(code)[0]
    assert finding.message
    assert finding.fix


@pytest.mark.parametrize(("code", "listed", "why"), NOT_SAID, ids=lambda one: ascii(one)[:60])
def test_what_the_page_says_is_not_said_is_not(code: str, listed: str, why: str, names: dict[str, Any]) -> None:
    assert code in {row[0] for row in SAID}
    assert lint(eval(listed, names), names["tools"], human=FakeHuman([])).of(code) == Findings()


@pytest.mark.parametrize(("listed", "code", "what"), NAMES, ids=ascii)
def test_names_of_tools_are_taken_as_the_page_says(listed: str, code: str, what: str) -> None:
    plain = re.sub(r"\\u([0-9a-f]{4})", lambda found: chr(int(found[1], 16)), listed)
    tools = [tool_named(name.strip("` ")) for name in plain.split(", ")]
    found = lint([DecideByHuman()], tools, human=FakeHuman([]))
    assert code in found.codes if code else not found
    if what == "refused":
        with pytest.raises(ValueError, match="Fix: rename"):
            Agent(tools)
    else:
        Agent(tools)


def test_every_code_is_on_the_page() -> None:
    from agentperm_nb.permissions.lint import CODES

    told = {row[0] for row in SAID} | {row[1] for row in NAMES} | {"nobody-to-ask"}
    assert set(CODES) == told - {""}


def test_what_the_page_shows_is_what_is_shown() -> None:
    shown = list(shown_texts(PAGE))
    assert shown
    for source, text in shown:
        assert repr(value_of(source, {})) == text
