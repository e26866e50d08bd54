"""Public complaints about rules on arguments, each with its id: what went wrong elsewhere, and what happens here.

Those about shell commands need somebody who reads them as a shell does; here a command is a text.
"""

from __future__ import annotations

from typing import Any

import pytest

from agentperm_nb import (
    Agent,
    AllowByArguments,
    AllowByDefault,
    AskByArguments,
    DecideByHuman,
    DenyByArguments,
    DenyByName,
    Tool,
    rule,
    rules,
)
from agentperm_nb.permissions.deciding import PermissionList, decide
from agentperm_nb.permissions.verdicts import Ask, Denied
from agentperm_nb.testing import FakeHuman, tool_call

KINDS = [DenyByArguments, AllowByArguments, AskByArguments]


def shell(command: str) -> str:
    return command


def read_file(path: str) -> str:
    return path


def write_files(paths: list[str]) -> str:
    return str(paths)


def delete_file(path: str) -> str:
    return path


def decided(tools: list[Any], permissions: list[Any], name: str, **args: Any) -> tuple[str, str]:
    """Return what became of a call in an agent whose human says no, and the reason."""
    agent = Agent(tools, permissions=permissions, human=FakeHuman(["no"]))
    verdict = agent.explain(name, **args).verdict
    (result,) = agent.use_tools([tool_call(name, **args)]).results
    assert (result.verdict == "allowed") is (verdict == "allowed")
    return verdict, str(result.content)


@pytest.mark.parametrize(
    "command",
    ["rm -rf /", "sudo rm -rf /", "cd /tmp/x\nrm -rf .", "RM -RF /", "x; rm -rf a/b/c", "rm\u3000-rf /", "ｒｍ -rf /",
     "rm -rf", "r\u200bm -rf /", "гm -rf /"],
    ids=ascii,
)  # fmt: skip
def test_R07_a_star_crosses_everything(command: str) -> None:  # noqa: N802
    verdict, reason = decided([shell], ["deny shell(command=*rm -rf*)", AllowByDefault()], "shell", command=command)
    assert verdict == "denied"
    assert reason == "shell(command=…) is not allowed by deny shell(command=*rm -rf*)"


@pytest.mark.parametrize(
    "paths",
    [["project/a", "/etc/passwd"], ["/etc/passwd"], ["project/../etc"], "/etc/passwd", "project/a", [["project/a"]],
     [5], [None], ["project/a", {"path": "project/b"}], None, {"0": "project/a"}, True],
    ids=repr,
)  # fmt: skip
def test_R15_a_path_in_a_list_or_of_the_wrong_type(paths: Any) -> None:  # noqa: N802
    for text in ("deny write_files(paths[*]!=project/**)", "deny write_files(paths!=project/**)",
                 "deny write_files(paths=any !project/**)"):  # fmt: skip
        if paths == "project/a" and "any" not in text and "[*]" not in text:
            continue  # an input error, and no other path
        verdict, _ = decided([write_files], [text, AllowByDefault()], "write_files", paths=paths)
        assert verdict == "denied"
    tool = Tool("write_files", function=write_files)
    if paths != "project/a":
        allow = rule("allow write_files(paths=project/**)")
        assert allow.check(None, tool_call("write_files", paths=paths), tool) is None


def test_R15_a_list_of_what_is_meant_passes() -> None:  # noqa: N802
    permissions = ["deny write_files(paths[*]!=project/**)", "allow write_files(paths=project/**)", DecideByHuman()]
    assert decided([write_files], permissions, "write_files", paths=["project/a", "project/b/c"])[0] == "allowed"
    assert decided([write_files], permissions, "write_files", paths=[])[0] != "allowed"


@pytest.mark.parametrize(
    "text",
    ["", " ", "deny", "deny ", "deny bash()", "deny bash( )", "deny ''()", 'deny ""', 'deny " "',
    "deny bash(command=)",
     "deny bash(=x)", "deny bash(command)", "deny []", "[]", "bash", "deny bash(command in {})", "deny bash(,)",
     "deny bash(command=x,)", "deny bash(command=[])", "allow", "ask ()", "# deny bash", "deny\tbash\n\nx"],
    ids=ascii,
)  # fmt: skip
def test_R17_an_empty_or_malformed_rule_is_refused(text: str) -> None:  # noqa: N802
    with pytest.raises(ValueError, match=r"[\s\S]*\nFix: [\s\S]*Example:"):
        rule(text)
    with pytest.raises(ValueError, match="Fix: "):
        Agent([shell], permissions=[text, AllowByDefault()])


@pytest.mark.parametrize("tool", ["", " ", "a b", "[", "x[]", "\n"], ids=ascii)
@pytest.mark.parametrize("kind", KINDS)
def test_R17_no_rule_is_made_for_no_tool(kind: Any, tool: str) -> None:  # noqa: N802
    with pytest.raises(ValueError, match=rf"{kind.__name__} got .*, which can match no tool"):
        kind(tool)


def test_R17_a_text_with_no_rule_is_no_rule() -> None:  # noqa: N802
    assert rules("\n# nothing\n") == []
    with pytest.raises(ValueError, match="line 2"):
        rules("deny bash\ndeny bash()")


@pytest.mark.parametrize(
    "path", ["secrets/p\u0430ssword.txt", "ѕесrеts/раѕѕwоrd.tхt", "SECRETS/PASSWORD.TXT", "secrets/password.txt",
             "secrets/./password.txt", "ｓｅｃｒｅｔｓ/password.txt"],
    ids=ascii,
)  # fmt: skip
def test_R18_letters_that_look_alike_in_an_argument(path: str) -> None:  # noqa: N802
    permissions = ["deny read_file(path=secrets/password.txt)", DecideByHuman()]
    assert decided([read_file], permissions, "read_file", path=path)[0] == "denied"
    if path != "secrets/password.txt":
        allow = ["allow read_file(path=text(secrets/password.txt))", DecideByHuman()]
        assert decided([read_file], allow, "read_file", path=path)[0] == "asked"


@pytest.mark.parametrize(
    "name",
    ["d\u0435lete_file", "delete_file", "Delete_File", "ｄelete_file", "del\u200bete_file", "dele\u202ete_file",
     "dеlеtе_filе", "ԁelete_file", "deӏete_file", "𝐝elete_file", "🅳elete_file"],
    ids=ascii,
)  # fmt: skip
@pytest.mark.parametrize("deny", ["deny delete_*", "deny delete_*(path=*)", DenyByName(["delete_*"])], ids=str)
def test_R19_letters_that_look_alike_in_the_name_of_a_tool(deny: Any, name: str) -> None:  # noqa: N802
    tool = Tool(name, function=delete_file)
    decision = decide(PermissionList([deny, AllowByDefault()]), None, tool_call(name, path="x"), tool)
    assert isinstance(decision.verdict, Denied)


def test_R19_an_allow_is_for_the_exact_name() -> None:  # noqa: N802
    tool = Tool("d\u0435lete_file", function=delete_file)
    for allow in ("allow delete_file", "allow delete_*"):
        assert rule(allow).check(None, tool_call(tool.name, path="x"), tool) is None


@pytest.mark.parametrize(
    "command",
    ["git\u3000push", "git\u00a0push origin", "ｇｉｔ push", "git push\uff1b rm x", "g\u200bit push", "GIT PUSH"],
    ids=ascii,
)
def test_R21_full_width_spaces_and_signs(command: str) -> None:  # noqa: N802
    permissions = ["deny shell(command=git push*)", "allow shell(command=git*)"]
    assert decided([shell], permissions, "shell", command=command)[0] == "denied"
    asked = ["ask shell(command=git push*)", "allow shell(command=git*)"]
    assert decided([shell], asked, "shell", command=command)[0] == "asked"


def test_R25_a_rule_on_an_argument_that_the_tool_does_not_have() -> None:  # noqa: N802
    tool = Tool("delete_file", function=delete_file)
    for text in ("deny delete_file(pth=*)", "allow delete_file(pth=*)", "ask delete_file(path=x, pth absent)",
                 "deny delete_*(path.x=1)", "allow delete_file(path[*]=x)"):  # fmt: skip
        with pytest.raises(ValueError, match=r"can match nothing: .*delete_file[\s\S]*Fix: ") as caught:
            rule(text).check_tools([tool, Tool("other", function=read_file)])
        assert "has no argument pth (it has path)" in str(caught.value) or "path of delete_file is no" in str(
            caught.value
        )
        assert rule(text).problems_with(tool)
        with pytest.raises(ValueError, match="can match nothing"):
            Agent([tool], permissions=[text, AllowByDefault()])
    # Where nobody looks at the tools: what cannot be read is denied, asked about, and not allowed.
    call = tool_call("delete_file", path="x")
    decision = decide(PermissionList(["deny delete_file(pth=*)", AllowByDefault()]), None, call, tool)
    assert isinstance(decision.verdict, Denied)
    assert "could not be read" in decision.verdict.reason
    assert rule("allow delete_file(pth=*)").check(None, call, tool) is None
    assert isinstance(rule("ask delete_file(pth=*)").check(None, call, tool), Ask)


def test_R25_one_tool_with_the_argument_is_enough() -> None:  # noqa: N802
    tools = [Tool("delete_file", function=delete_file), Tool("delete_all", function=lambda: None)]
    rule("deny delete_*(path=*)").check_tools(tools)
    assert rule("deny delete_*(path=*)").problems_with(tools[1]) == ["delete_all has no argument path (it has none)"]
    rule("deny other(pth=*)").check_tools(tools)  # it is about none of them, which is not for it to say


@pytest.mark.parametrize("order", [1, -1])
def test_R26_a_deny_wins_wherever_it_stands(order: int) -> None:  # noqa: N802
    permissions = ["allow shell(command=rm*)", "deny shell(command=rm*)"][::order]
    agent = Agent([shell], permissions=permissions)
    found = agent.explain("shell", command="rm x")
    assert (found.verdict, found.decided_by) == ("denied", "deny shell(command=rm*)")
    assert [row[1] for row in found.rows] == ["deny shell(command=rm*)", "allow shell(command=rm*)"]
    assert agent.use_tools([tool_call("shell", command="rm x")]).results[0].verdict == "denied"


@pytest.mark.parametrize("name", ["bash_admin", "mybash", "bash2", "bash-", "Bash", "bash.x", "bash__x"])
def test_R27_a_name_is_the_whole_name(name: str) -> None:  # noqa: N802
    tool = Tool(name, function=lambda: None)
    assert decided([tool], ["allow bash", DecideByHuman()], name)[0] == "asked"
    assert decided([Tool("bash", function=lambda: None)], ["allow bash"], "bash")[0] == "allowed"


@pytest.mark.parametrize("path", ["/tmp/claude-$PPID", "/tmp/claude-${HOME}", "/tmp/claude-$(id)"])
def test_R29_a_variable_that_nobody_has_expanded(path: str) -> None:  # noqa: N802
    allow = rule("allow read_file(path=/tmp/claude-*)")
    tool = Tool("read_file", function=read_file)
    assert decided([tool], [allow, DecideByHuman()], "read_file", path="/tmp/claude-7")[0] == "allowed"
    assert decided([tool], [allow, DecideByHuman()], "read_file", path=path)[0] == "asked"
    (row,) = allow.reading_of(tool_call("read_file", path=path), tool)
    assert row.matches is False
    assert row.problem
