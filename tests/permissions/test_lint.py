"""What lint finds in a list, what it leaves alone, and that its examples show what it says."""

from __future__ import annotations

import ast
import subprocess
import sys
import time
from typing import Any

import pytest

from agentperm_nb import Agent, LintWarning, tool
from agentperm_nb.calls import ToolCall
from agentperm_nb.errors import LintError
from agentperm_nb.hints import Hints
from agentperm_nb.mcp_tools import MCPTool
from agentperm_nb.permissions.builtin import AllowByDefault, AllowByName, AllowByReadOnly, DecideByHuman, DenyByName
from agentperm_nb.permissions.builtin_rules import ALLOW_READONLY, ASK_DESTRUCTIVE, DENY_PRIVILEGED, allow_readonly
from agentperm_nb.permissions.deciding import PermissionList, decide
from agentperm_nb.permissions.kinds import AllowPermission, DecidePermission, DenyPermission
from agentperm_nb.permissions.lint import CODES, first_look, lint
from agentperm_nb.permissions.linting.findings import Finding, Findings
from agentperm_nb.permissions.linting.nearness import Nearby
from agentperm_nb.permissions.linting.tool_names import lookalikes
from agentperm_nb.permissions.modes import AllowAll, Mode, PerUserPermissions, StandardPermissions
from agentperm_nb.permissions.notation import rule
from agentperm_nb.permissions.policy import PermissionPolicy, PermissionRule
from agentperm_nb.permissions.verdicts import Allowed
from agentperm_nb.testing import FakeHuman
from agentperm_nb.tools import Tool


def made(name: str, read_only: bool | None = None, destructive: bool | None = None, **arguments: Any) -> Tool:
    schema = {
        "type": "object",
        "properties": {key: {"type": kind} if isinstance(kind, str) else kind for key, kind in arguments.items()},
        "required": list(arguments)[:1],
        "additionalProperties": False,
    }
    return Tool(name, "Act.", schema, function=lambda **_: "", read_only=read_only, destructive=destructive)


READ = made("read_file", read_only=True, path="string")
WRITE = made("write_file", path="string", content="string")
DELETE = made("delete_file", destructive=True, path="string")
PAY = made("pay", to="string", amount="number")
BASH = made("bash", command="string")
SQL = made("run_sql", query="string")
TOOLS = [READ, WRITE, DELETE, PAY, BASH, SQL]


def found(permissions: Any, tools: Any = TOOLS, **more: Any) -> Findings:
    return lint(permissions, tools, **{"human": FakeHuman([]), **more})


def call_in(example: str) -> ToolCall:
    """Return the call that an example begins with."""
    for end in range(len(example), 0, -1):
        if example[end - 1] == ")":
            try:
                tree = ast.parse(example[:end].replace("null", "None").replace("true", "True"), mode="eval").body
            except SyntaxError:
                continue
            if isinstance(tree, ast.Call):
                args = {one.arg or "": ast.literal_eval(one.value) for one in tree.keywords}
                return ToolCall(ast.unparse(tree.func), args)
    raise AssertionError(f"no call in {example!r}")


class Never(DecidePermission):
    """Has no opinion, and must not be asked by lint."""

    def check(self, state: Any, call: ToolCall, tool: Tool) -> None:
        raise AssertionError("lint asks no check of the user's own")


class Mine(AllowPermission):
    def check(self, state: Any, call: ToolCall, tool: Tool) -> None:
        raise AssertionError("lint asks no check of the user's own")


class MyDeny(DenyPermission):
    def check(self, state: Any, call: ToolCall, tool: Tool) -> None:
        raise AssertionError("lint asks no check of the user's own")


class MyHuman(DecideByHuman):
    def check(self, state: Any, call: ToolCall, tool: Tool) -> None:
        raise AssertionError("lint asks no check of the user's own")


class Office:
    async def check(self, call: ToolCall, *, context: Any, user_id: str | None = None) -> Any:
        raise AssertionError("lint asks no check of the user's own")


# --- names that are nearly right --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("pattern", "tool", "instead"),
    [
        ("delte_*", "delete_file", "delete_*"),
        ("dleete_*", "delete_file", "delete_*"),
        ("deleete_*", "delete_file", "delete_*"),
        ("delste_file", "delete_file", "delete_file"),
        ("delete_fle", "delete_file", "delete_file"),
        ("write_flie", "write_file", "write_file"),
        ("delete-*", "delete_file", "delete_*"),
        ("delete.*", "delete_file", "delete_*"),
        ("deletefile", "delete_file", "delete_file"),
        ("deleteFile", "delete_file", "delete_file"),
        ("delete_file", "deleteFile", "deleteFile"),
        ("github__*", "github-create", "github-*"),
        ("mcp__github__*", "github__create", "github__*"),
        ("Bash(rm:*)", "bash", 'rule("deny bash(command=…)")'),
        ("delete_*|write_*", "delete_file", "'delete_*', 'write_*'"),
        ("{delete,write}_*", "write_file", "'delete_*', 'write_*'"),
        ("delete_file,write_file", "write_file", "'delete_file', 'write_file'"),
        ("!delete_*", "delete_file", "delete_*"),
    ],
)
def test_a_pattern_that_is_nearly_right_is_told_what_was_meant(pattern: str, tool: str, instead: str) -> None:
    near = Nearby([tool, "other_tool"]).to(pattern)
    assert near is not None
    assert (near.tool, near.instead) == (tool, instead)


@pytest.mark.parametrize(
    ("pattern", "tool"),
    [
        ("drop_*", "crop_image"), ("send_*", "end_session"), ("list_*", "lint_code"), ("upload_*", "unload_x"),
        ("read_*", "head_x"), ("delete_*", "select_x"), ("delete_*", "deleted_items"), ("delete_files", "delete_file"),
        ("remove_file", "remove_files"), ("form_*", "from_x"), ("get_user", "get_users"), ("users_get", "user_get"),
        ("import_*", "export_x"), ("exec*", "run"), ("delete_*", "undelete_x"), ("search_web", "web_search"),
        ("move_*", "remove_x"), ("sort_*", "short_x"), ("rm", "run"), ("delete_*", "delete"), ("write", "write_file"),
        ("[abc]*", "delete_file"), ("*", "x"), ("(", "bash"), ("a|b", "bash"), ("edit_*", "exit_x"),
    ],
)  # fmt: skip
def test_another_name_is_not_taken_for_a_misspelt_one(pattern: str, tool: str) -> None:
    assert Nearby([tool]).to(pattern) is None


@pytest.mark.parametrize(
    ("names", "codes"),
    [
        (["read_file", "read_files", "Read"], []),
        (["read_file", "Read_File"], ["lookalike-tools"]),
        (["delete_file", "d\u0435lete_file"], ["lookalike-tools", "mixed-script"]),
        (["delete_file", "\uff44elete_file"], ["lookalike-tools"]),
        (["delete_file", "delete\u200b_file"], ["lookalike-tools", "unseen-characters"]),
        (["d\u0435lete_file"], ["mixed-script"]),
        (["delete\u202e_file"], ["unseen-characters"]),
        (["\u0441\u043e\u0440\u0443", "copy"], ["lookalike-tools"]),  # all of it Cyrillic
        (["\u0441\u043e\u0440\u0443", "move"], []),
        (["l\u00f6schen", "loschen", "\u524a\u9664", "delete_\u0444\u0430\u0439\u043b"], []),
        (["read_fiIe", "read_file"], ["lookalike-tools"]),
        ([f"tool_{number}" for number in range(30)], []),
    ],
    ids=ascii,
)
def test_names_of_tools_that_are_taken_for_others_are_found(names: list[str], codes: list[str]) -> None:
    assert [finding.code for finding in lookalikes(names)] == codes


def test_letters_that_are_alike_in_some_fonts_are_only_a_note() -> None:
    assert [finding.severity for finding in lookalikes(["read_fiIe", "read_file"])] == ["note"]


# --- unmatched and unknown --------------------------------------------------------------------------------------------


def test_r23_a_deny_that_matches_no_tool_but_was_meant_to_is_an_error_when_strict() -> None:
    permissions = [DenyByName(["delte_*"]), AllowByDefault()]
    (finding,) = found(permissions, [DELETE])
    assert (finding.code, finding.severity, finding.fix) == ("unmatched-deny", "warning", "write delete_*")
    call = call_in(finding.example)
    assert decide(PermissionList(permissions), None, call, DELETE).verdict == Allowed()
    with pytest.raises(LintError, match="delete_file is near") as caught:
        found(permissions, [DELETE], strict=True)
    assert caught.value.findings == Findings([finding])


def test_patterns_that_match_nothing_are_told_together_and_once() -> None:
    (finding,) = found([DenyByName([f"x{number}_*" for number in range(9)])])
    assert finding.message == "No tool of the agent is called like x0_*, x1_*, x2_*, x3_*, x4_* and 4 more."
    assert finding.severity == "note"


def test_nothing_is_said_of_patterns_where_there_are_no_tools() -> None:
    assert not found([DenyByName(["delte_*"]), AllowByName(["x"])], [])


def test_a_deny_on_an_argument_that_some_tools_lack_denies_these() -> None:
    (finding,) = found(["deny *(path=**/.env)"]).of("unknown-argument")
    assert finding.message.startswith("Every call of pay, bash, run_sql is denied by it: pay has no argument path")
    call = call_in(finding.example)
    assert rule("deny *(path=**/.env)").check(None, call, PAY) is not None
    assert not found(["allow *(path=**/.env)"]).of("unknown-argument")


# --- order ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("permissions", "code", "named"),
    [
        (["allow pay", "ask pay(amount>5)"], "shadowed", "ask pay(amount>5)"),
        ([AllowByName(["pay"]), "ask pay"], "shadowed", "ask pay"),
        (["ask pay", "allow pay(amount<5)"], "shadowed", "allow pay(amount<5)"),
        (["allow write_file(path=a)", "deny write_file(path=a)"], "shadowed", "allow write_file(path=a)"),
        ([AllowByName(["read_file"]), DenyByName(["READ_*"])], "shadowed", "AllowByName(['read_file'])"),
        (["deny pay(amount>5)", "allow pay(amount in {6, 7})"], "shadowed", "allow pay(amount in {6, 7})"),
        (["ask write_file(path=a/**)", "allow write_file(path=a/*.txt)"], "shadowed", "allow write_file(path=a/*.txt)"),
        (["allow pay", "allow pay(amount<5)"], "redundant", "allow pay(amount<5)"),
        ([DenyByName(["delete_*"]), DenyByName(["delete_file"])], "redundant", "DenyByName(['delete_file'])"),
        ([DenyByName(["delete_file"]), DenyByName(["delete_*"])], "redundant", "DenyByName(['delete_file'])"),
        (["deny pay", DecideByHuman(), "deny pay"], "redundant", "deny pay #2"),
        (["allow read_file", "allow write_file", AllowByDefault()], "redundant", "allow read_file"),
        (["allow pay(to=a*)", "allow pay(to=ab*, amount<5)"], "redundant", "allow pay(to=ab*, amount<5)"),
    ],
    ids=str,
)
def test_a_rule_that_never_decides_is_found_with_a_call_that_shows_it(
    permissions: list[Any], code: str, named: str
) -> None:
    finding = found(permissions).of(code)[0]
    assert finding.rule == named
    call = call_in(finding.example)
    tool = next(tool for tool in TOOLS if tool.name == call.name)
    assert tool.check_args(call.args) == []
    listed = PermissionList(permissions)
    shown = next(permission for permission, name in listed.order if name == named)
    assert shown.check(None, call, tool) is not None
    if "would be" not in finding.example:
        decision = decide(listed, None, call, tool)
        assert decision.permission is not shown
        assert str(decision.decided_by) in finding.example


@pytest.mark.parametrize(
    "permissions",
    [
        ["allow pay(amount<5)", "ask pay"],
        ["allow pay(amount<5)", "allow pay(amount<6)", "ask pay(amount<5)"],  # the ask takes what cannot be read
        ["allow pay(to=ann)", "ask pay(to=ann)"],
        ["deny pay(to=ann)", "allow pay"],
        ["allow read_file", "ask write_file"],
        [AllowByName(["read_*"]), AllowByName(["*_file"]), DecideByHuman()],
        [DenyByName(["delete_*"]), DenyByName(["*_file"], reason="ask ann")],
        [AllowByReadOnly(), "allow write_file", DecideByHuman()],
        ["allow write_file(path=a/**)", "ask write_file(path=a/b/**)"],
        ["deny pay(to=x)", "allow pay(to!=x)"],
        [DenyByName(["delete_*"]), DenyByName(["*_table"])],  # they are for tools that may come, too
        ["allow pay(to in {a, b})", "allow pay(to in {b, c})"],
        ["deny pay(amount>5)", MyDeny(), "deny pay"],
    ],
    ids=str,
)
def test_nothing_is_said_of_a_rule_that_may_decide(permissions: list[Any]) -> None:
    tools = [*TOOLS, made("drop_table", path="string")]
    said = [finding for finding in found(permissions, tools) if finding.code in ("shadowed", "default-before-others")]
    assert said == []
    if "allow pay(amount<6)" not in permissions:
        assert not found(permissions, tools).of("redundant")


def test_patterns_of_names_are_compared_beyond_the_tools_that_there_are() -> None:
    assert not found([DenyByName(["delete_*"]), DenyByName(["*_file"])], [DELETE])
    assert found([DenyByName(["delete_*"]), DenyByName(["delete_f*"])], [DELETE]).codes == ("redundant",)


def no_pay(tool: Tool, parameters: dict[str, Any]) -> bool:
    return tool.name == "pay"


def fails(tool: Tool, parameters: dict[str, Any]) -> bool:
    raise ValueError("a rule that fails")


NO_PAY = PermissionRule("no_pay", no_pay, "deny")
POLICY = PermissionPolicy([NO_PAY], fallback="ask")


@pytest.mark.parametrize(
    "permissions",
    [
        [Never(), Mine(), MyDeny(), MyHuman(), Office()],
        [MyDeny(), Mine(), POLICY, DecideByHuman()],
        [Never(), POLICY],
        [PermissionPolicy([PermissionRule("f", fails, "deny")]), AllowByDefault()],
        [AllowByName(["pay"]), PermissionPolicy([PermissionRule("f", fails, "deny")])],
    ],
    ids=str,
)
def test_no_check_of_the_users_own_is_called_and_rules_that_fail_do_no_harm(permissions: list[Any]) -> None:
    assert not found(permissions).of("hidden-deny")


@pytest.mark.parametrize(
    ("permissions", "code", "after"),
    [
        ([AllowByDefault(), AllowByReadOnly()], "default-before-others", "AllowByReadOnly()"),
        ([DenyByName(["x"]), AllowByDefault(), Never()], "default-before-others", "Never()"),
        ([AllowByName(["*"]), DecideByHuman()], "default-before-others", "DecideByHuman()"),
        (["deny *", DecideByHuman()], "default-before-others", "DecideByHuman()"),
        ([POLICY, DecideByHuman()], "default-before-others", "DecideByHuman()"),
        ([AllowAll(), DecideByHuman()], "default-before-others", "DecideByHuman()"),
        ([Office(), DecideByHuman()], "default-before-others", "DecideByHuman()"),
        ([PerUserPermissions({}, POLICY), DecideByHuman()], "default-before-others", "DecideByHuman()"),
        ([StandardPermissions(), PerUserPermissions({}, StandardPermissions())], "second-mode", "PerUserPermissions"),
        ([DecideByHuman(), AllowByReadOnly()], "ask-after-human", "AllowByReadOnly()"),
        (["ask *", AllowByReadOnly()], "ask-after-human", "AllowByReadOnly()"),
    ],
    ids=str,
)
def test_what_decides_every_call_is_told_with_what_comes_after_it(permissions: Any, code: str, after: str) -> None:
    finding = found(permissions).of(code)[0]
    assert f"so that {after} after it is never asked" in finding.message
    assert call_in(finding.example)


@pytest.mark.parametrize(
    "permissions",
    [
        [AllowByReadOnly(), AllowByDefault()],
        [AllowByDefault(), DenyByName(["delete_*"])],
        ["deny *", "deny pay"],
        [MyHuman(), AllowByReadOnly()],
        [PermissionPolicy([NO_PAY], fallback=None), DecideByHuman()],
        [PerUserPermissions({}, PermissionPolicy([NO_PAY], fallback=None)), DecideByHuman()],
        [Never(), DecideByHuman()],
        ["allow *(path=a)", DecideByHuman()],
        [POLICY],
    ],
    ids=str,
)
def test_what_may_leave_a_call_to_others_is_not_told(permissions: Any) -> None:
    codes = ("default-before-others", "second-mode", "ask-after-human")
    assert [finding for finding in found(permissions) if finding.code in codes] == []


# --- hidden denies ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("permissions", "hider", "severity"),
    [
        ([AllowByName(["pay"]), POLICY], "AllowByName(['pay'])", "warning"),
        ([DecideByHuman(), POLICY], "DecideByHuman()", "warning"),
        (["allow pay(amount<=10)", POLICY], "allow pay(amount<=10)", "note"),
        (["ask pay", POLICY], "ask pay", "warning"),
        ([AllowByReadOnly(), StandardPermissions(denied_tools=["read_*"])], "AllowByReadOnly()", "warning"),
        ([AllowByName(["pay"]), StandardPermissions(allowed_tools=["read_*"])], "AllowByName(['pay'])", "warning"),
        ([StandardPermissions(mode=Mode.BYPASS), POLICY], "StandardPermissions(BYPASS)", "warning"),
    ],
    ids=str,
)
def test_a_deny_that_is_hidden_is_found_with_a_call_that_it_would_deny(
    permissions: list[Any], hider: str, severity: str
) -> None:
    finding = found(permissions).of("hidden-deny")[0]
    assert (finding.rule, finding.severity) == (hider, severity)
    assert "denies()" in finding.fix
    call = call_in(finding.example)
    tool = next(tool for tool in TOOLS if tool.name == call.name)
    assert str(decide(PermissionList(permissions), None, call, tool).decided_by).startswith(hider)
    alone = decide(PermissionList(permissions[-1:]), None, call, tool)
    assert type(alone.verdict).__name__ == "Denied"


@pytest.mark.parametrize(
    "permissions",
    [
        [AllowByName(["pay"]), *POLICY.denies(), POLICY],
        [DenyByName(["pay"]), AllowByName(["pay"]), POLICY],
        [AllowByName(["read_*"]), POLICY],
        [POLICY, AllowByName(["pay"])],
        [AllowByReadOnly(), PermissionPolicy([NO_PAY])],
        [AllowByReadOnly(), PermissionPolicy([DENY_PRIVILEGED, ASK_DESTRUCTIVE, ALLOW_READONLY])],
        [Never(), AllowByName(["pay"]), POLICY],
    ],
    ids=str,
)
def test_a_deny_that_is_not_hidden_is_left_alone(permissions: list[Any]) -> None:
    assert not found(permissions).of("hidden-deny")


def test_denies_that_depend_on_arguments_are_found_by_example_calls_of_the_schema() -> None:
    tool = made("open", path="string", mode={"type": "string", "enum": ["r", "w"]})

    def writes(tool: Tool, parameters: dict[str, Any]) -> bool:
        return parameters.get("mode") == "w"

    policy = PermissionPolicy([PermissionRule("no_writes", writes, "deny")], fallback="ask")
    (finding,) = found([AllowByName(["open"]), policy], [tool]).of("hidden-deny")
    assert 'mode="w"' in finding.example


# --- commands ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "tool"),
    [
        ("allow bash(command=git log*)", BASH),
        ("allow bash(command in {git log*, ls})", BASH),
        ("allow bash(command!=*rm*)", BASH),
        ("allow bash(command!=rm)", BASH),
        ("allow run_sql(query=select *)", SQL),
        ("allow run(code=print*)", made("run", code="string")),
        ("allow run(cmd=ls *)", made("run", cmd="string")),
        ("allow exec(input=ls*)", made("exec", input="string")),
        ("allow runShell(script=ls*)", made("runShell", script="string")),
    ],
    ids=str,
)
def test_r06_an_allow_by_a_pattern_on_a_command_is_shown_what_it_also_allows(text: str, tool: Tool) -> None:
    (finding,) = found([text], [tool]).of("prefix-allow")
    call = call_in(finding.example)
    assert rule(text).check(None, call, tool) == Allowed()
    value = str(next(iter(call.args.values())))
    assert any(sign in value for sign in (";", "--output", "rmtree", "&&"))


@pytest.mark.parametrize(
    ("text", "tool"),
    [
        ("deny bash(command=*rm -rf*)", BASH),
        ("deny bash(command=rm *)", BASH),
        ("ask bash(command=*sudo*)", BASH),
        ("deny run_sql(query=*drop table*)", SQL),
        ("deny run(code=*shutil*)", made("run", code="string")),
    ],
    ids=str,
)
def test_a_deny_by_a_pattern_on_a_command_is_shown_how_it_is_spelt_round(text: str, tool: Tool) -> None:
    (finding,) = found([text], [tool]).of("text-rule-on-command")
    assert finding.severity == "note"
    assert rule(text).check(None, call_in(finding.example), tool) is None


@pytest.mark.parametrize(
    ("text", "tool"),
    [
        ("allow bash(command=git status)", BASH),
        ("allow bash(command in {git status, ls})", BASH),
        ("allow bash", BASH),
        ("allow bash(command=*)", BASH),
        ("deny bash(command=git push)", BASH),
        ("allow read_file(path=notes/*)", READ),
        ("allow search(query=weather*)", made("search", query="string")),
        ("allow pay(to=a*)", PAY),
        ("allow note(text=a*)", made("note", text="string")),
        ("allow crash(command_id=a*)", made("crash", command_id="string")),
    ],
    ids=str,
)
def test_whole_commands_and_other_texts_are_left_alone(text: str, tool: Tool) -> None:
    assert [one for one in found([text], [tool]) if one.code in ("prefix-allow", "text-rule-on-command")] == []


# --- people, servers, modes -------------------------------------------------------------------------------------------


async def remote(name: str, args: dict[str, Any]) -> dict[str, Any]:
    return {"content": []}


@pytest.mark.parametrize(
    "permissions",
    [
        [AllowByReadOnly(trust_mcp=True)],
        [StandardPermissions(trust_mcp=True)],
        [PermissionPolicy([allow_readonly(trust_mcp=True)])],
        [PerUserPermissions({"ann": StandardPermissions(trust_mcp=True)}, StandardPermissions())],
    ],
    ids=str,
)
def test_who_believes_a_server_is_shown_a_call_that_goes_through_by_its_word(permissions: list[Any]) -> None:
    said = {"name": "query", "inputSchema": {"type": "object"}, "annotations": {"readOnlyHint": True}}
    theirs = MCPTool("web", said, remote)
    assert theirs.hints == Hints(read_only=True, source="server")
    (finding,) = found(permissions, [theirs]).of("trusts-servers")
    assert (finding.severity, finding.example) == ("warning", "web__query() is let through by the word of web")
    assert found(permissions).of("trusts-servers")[0].severity == "note"
    assert not found([AllowByReadOnly(), StandardPermissions()], [theirs]).of("trusts-servers")


@pytest.mark.parametrize(
    "permissions",
    [
        [DecideByHuman()],
        ["ask pay"],
        [POLICY],
        [PermissionPolicy([ASK_DESTRUCTIVE])],
        [StandardPermissions()],
        [StandardPermissions(mode=Mode.ACCEPT_EDITS, edit_tools=["write"])],
        [PerUserPermissions({"ann": StandardPermissions()}, AllowAll())],
    ],
    ids=str,
)
def test_what_asks_with_nobody_there_is_found(permissions: list[Any]) -> None:
    finding = found(permissions, human=None).of("nobody-to-ask")[0]
    assert finding.severity == "warning"
    assert not found(permissions).of("nobody-to-ask")


@pytest.mark.parametrize(
    "permissions",
    [
        [DecideByHuman(human=FakeHuman([]))],
        [AllowByReadOnly(), "deny pay"],
        [StandardPermissions(mode=Mode.BYPASS)],
        [StandardPermissions(mode=Mode.ACCEPT_EDITS)],
        [PermissionPolicy([NO_PAY])],
        [PermissionPolicy([ASK_DESTRUCTIVE], handler=type("Handler", (), {"handle": lambda self, request: True})())],
        [MyHuman()],
        [Never()],
    ],
    ids=str,
)
def test_what_asks_nobody_or_somebody_of_its_own_needs_nobody(permissions: list[Any]) -> None:
    assert not found(permissions, human=None).of("nobody-to-ask")


def test_checks_that_are_off_are_told() -> None:
    assert found(None).codes == ("unchecked",)
    assert found([]).codes == ("empty-list",)
    assert found(PermissionPolicy([], fallback=None)).codes == ("empty-policy",)
    assert found([PerUserPermissions({"ann": AllowAll()}, StandardPermissions())]).codes == ("bypass-on",)


# --- the table --------------------------------------------------------------------------------------------------------


def test_findings_are_a_table_with_warnings_first() -> None:
    findings = found([DenyByName(["drop_*"]), AllowByDefault(), DecideByHuman()])
    assert [finding.severity for finding in findings] == ["warning", "note"]
    assert bool(findings)
    assert len(findings) == 2
    assert findings[0].code == "default-before-others"
    assert findings[1:] == Findings([findings[1]])
    assert [*findings.warnings] == [findings[0]]
    assert findings.of("unmatched-deny")[0].rule == "DenyByName(['drop_*'])"
    assert repr(findings).splitlines()[0] == "lint: 1 warning, 1 note"
    assert repr(Findings()) == "lint: nothing found"
    assert not Findings()
    assert list(findings.frame()["code"]) == ["default-before-others", "unmatched-deny"]
    assert len(Findings().frame()) == 0
    assert "<table" in findings._repr_html_()


def test_what_hides_in_a_finding_is_shown() -> None:
    findings = Findings([Finding("shadowed", "a\u202eb", "c<b>", "d\u200b", "e\x1b")])
    for text in (repr(findings), findings._repr_html_(), str(findings[0])):
        assert not set("\u202e\u200b\x1b") & set(text)
    assert "c<b>" not in findings._repr_html_()


def test_every_code_that_is_found_is_listed() -> None:
    assert sorted(CODES) == list(CODES)


@pytest.mark.parametrize(("ignore", "error"), [("shadowed", TypeError), (["shadow"], ValueError), (None, TypeError)])
def test_ignore_takes_codes(ignore: Any, error: type[Exception]) -> None:
    with pytest.raises(error, match=r"ignore=|not a code"):
        lint([], ignore=ignore)


def test_lint_says_what_is_wrong_with_a_list_as_an_agent_does() -> None:
    with pytest.raises(TypeError, match="is not a Permission"):
        lint([5])
    with pytest.raises(TypeError, match="tools="):
        lint([], "tools")


# --- speed ------------------------------------------------------------------------------------------------------------


def test_a_thousand_rules_are_looked_at_at_once() -> None:
    rules = [
        *(rule(f"deny write_file(path=folder{number}/*{chr(97 + number % 26)}/**)") for number in range(400)),
        *(rule(f"allow bash(command=tool{number} *x)") for number in range(200)),
        *(rule(f"allow pay(amount={number})") for number in range(200)),
        *(DenyByName([f"delete{chr(97 + number % 26)}_{number}_*"]) for number in range(200)),
    ]
    tools = [*TOOLS, *(made(f"tool_{number}") for number in range(50))]
    started = time.perf_counter()
    assert first_look(PermissionList(rules), tools) == []
    looked = time.perf_counter() - started
    assert found(rules, tools)
    linted = time.perf_counter() - started - looked
    assert looked < 2, looked  # 40 ms on a quiet machine
    assert linted < 8, linted  # 300 ms


def test_nothing_of_lint_is_loaded_before_it_is_needed() -> None:
    code = (
        "import sys, agentperm_nb as a\n"
        "a.Agent([lambda: None] and []).explain\n"
        "a.Agent(permissions=[a.AllowByReadOnly(), a.DecideByHuman()])\n"
        "print([name for name in sys.modules if 'lint' in name and 'agentperm' in name])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_a_list_without_findings_shows_no_empty_table() -> None:
    findings = lint([AllowByReadOnly()], [])
    assert len(findings) == 0
    assert findings._repr_html_() == "<div>lint: nothing found</div>"


@tool
def load(input: str, options: dict[str, str] | None = None) -> str:
    """Load."""
    return input


@pytest.mark.parametrize(
    "text",
    [
        "deny load(input=secret/**)",
        "deny load(input=~/.ssh/*)",
        "deny load(input=./a)",
        "deny load(input!=project/**)",
        "allow load(input in {project/a, project/b})",
        "ask load(input=/etc/*)",
    ],
)
def test_a_pattern_of_paths_on_a_text_is_a_warning_when_the_agent_is_made_too(text: str) -> None:
    (finding,) = found([text], [load]).of("path-as-text")
    assert "path(" in finding.fix
    assert "paths=['input']" in finding.fix
    with pytest.warns(LintWarning, match="looks like a pattern of paths"):
        Agent([load], permissions=[text])


@pytest.mark.parametrize(
    "text",
    [
        "deny load(input=path(secret/**))",
        "deny load(input=text(secret/**))",
        "deny load(input=*secret*)",
        "deny load(input=https://example.com/*)",
        'deny load(input="a and/or b")',
    ],
)
def test_what_says_what_it_is_or_is_no_path_is_no_such_warning(text: str) -> None:
    assert list(found([text], [load]).of("path-as-text")) == []
