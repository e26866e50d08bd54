"""Scopes that are offered for an answer: from narrow to wide, each tried on the call, each with exact words."""

from __future__ import annotations

import math
import os
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agentperm_nb import ApprovalRequest, Ask, DecideByHuman, Tool, ToolCall
from agentperm_nb.approvals.decisions import ApprovalDecision, Scope
from agentperm_nb.approvals.memory import Memory
from agentperm_nb.approvals.path_scopes import patterns_of
from agentperm_nb.approvals.scopes import covering_problem, suggest_scopes, why_not_offered
from agentperm_nb.context import RunContext
from agentperm_nb.permissions.kinds import AskFirst
from agentperm_nb.permissions.matching.paths import PathPattern
from agentperm_nb.permissions.matching.reading import Where
from agentperm_nb.redaction import Redactor

TEXT, TEXTS, NUMBER = {"type": "string"}, {"type": "array", "items": {"type": "string"}}, {"type": "number"}


class Folder:
    """A base folder, and requests about calls that are made in it."""

    def __init__(self, top: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self.top, self.base = top, top / "base"
        for name in ("base/project/sub", "base/.git", "base/p/.hidden", "own", "other"):
            (top / name).mkdir(parents=True)
        monkeypatch.setenv("HOME", str(top / "own"))

    def request(
        self,
        name: str = "write_file",
        /,
        *,
        more: tuple[str, ...] = (),
        secret: tuple[str, ...] = (),
        permission: Any = None,
        schema: dict[str, Any] | None = None,
        **args: Any,
    ) -> ApprovalRequest:
        kinds = {list: TEXTS, int: NUMBER, float: NUMBER}
        properties = {key: kinds.get(type(value), TEXT) for key, value in args.items()} | dict.fromkeys(more, TEXT)
        tool = Tool(
            name, "", {"type": "object", "properties": schema or properties}, function=lambda **given: None,
            secret=secret,
        )  # fmt: skip
        args = {key: self.named(value) for key, value in args.items()}
        made = ToolCall(name, args)
        return ApprovalRequest(
            id="request_1", call=made, call_key="run_1/1/0", tool=tool,
            shown_args=Redactor().value(made.args, secret=tool.secret), question="", rule="DecideByHuman()",
            reason="said why", hints=tool.hints, agent_path=("main",), user="ann", permission=permission,
            context=RunContext("run_1", "session_1", "ann", ("main",), folder=str(self.base)),
        )  # fmt: skip

    def named(self, value: Any) -> Any:
        return value.replace("{top}", str(self.top)) if isinstance(value, str) else value

    def rules(self, request: ApprovalRequest, **how: Any) -> list[str]:
        """Return the rules that are offered, and the kinds of the other scopes."""
        found = [str(one.scope.rule or one.scope.covers) for one in suggest_scopes(request, **how)]
        return [text.replace(str(self.top), "{top}") for text in found]


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Folder:
    return Folder(tmp_path.resolve(), monkeypatch)


# ---------------------------------------------------------------------- from narrow to wide


@pytest.mark.parametrize(
    ("path", "file", "wider"),
    [
        ("project/a.txt", "project/a.txt", "project"),
        ("./project//sub/../a.txt", "project/a.txt", "project"),
        ("a.txt", "a.txt", "."),
        ("../other/a.txt", "{top}/other/a.txt", "{top}/other"),
        ("{top}/base/project/a.txt", "project/a.txt", "project"),
        ("{top}/other/new/a.txt", "{top}/other/new/a.txt", "{top}/other/new"),
        ("~/notes/a.txt", "~/notes/a.txt", "~/notes"),
        ("project/[id].tsx", "project/[[]id].tsx", "project"),
        ("project/a{b,c}.txt", '"project/a[{]b,c}.txt"', "project"),
        ("project/a b.txt", "project/a b.txt", "project"),
        ("!a.txt", "./!a.txt", "."),
    ],
)
def test_of_a_path_the_file_its_folder_and_all_below_are_offered(
    folder: Folder, path: str, file: str, wider: str
) -> None:
    request = folder.request(path=path, content="milk")
    assert folder.rules(request) == [
        "call", f"write_file(path={file})", f"write_file(path={wider}/*)", f"write_file(path={wider}/**)", "tool",
    ]  # fmt: skip
    assert why_not_offered(request) == []


def test_each_says_in_words_what_it_covers(folder: Folder) -> None:
    request = folder.request(path="project/a.txt", content="milk")
    assert [one.words for one in suggest_scopes(request)] == [
        'this exact call: write_file(path="project/a.txt", content="milk")',
        "calls of write_file where path is project/a.txt, whatever content is",
        "calls of write_file where path is anything directly in project/, whatever content is",
        "calls of write_file where path is anything below project/, in hidden folders too, whatever content is",
        "every call of write_file, whatever its arguments",
    ]
    assert [one.words for one in suggest_scopes(folder.request("read", path="a"))][1:3] == [
        f"calls of read where path is anything directly in the base folder {folder.base}/",
        f"calls of read where path is anything below the base folder {folder.base}/, in hidden folders too",
    ]
    told = suggest_scopes(folder.request("list", path="project"), allow=False)[1].words
    assert told == ("calls of list where path is project/ or anything below, in hidden folders too, in any spelling")


def test_of_a_call_that_says_nothing_else_the_very_values_are_the_exact_call(folder: Folder) -> None:
    request = folder.request("read", path="project/a.txt")
    assert folder.rules(request) == ["call", "read(path=project/*)", "read(path=project/**)", "tool"]
    assert folder.rules(request, lasts="file")[0] == "read(path=project/a.txt)"


@pytest.mark.parametrize("path", ["project", "project/", "./project/sub/.."])
def test_of_a_folder_it_is_the_folder_itself_that_is_offered(folder: Folder, path: str) -> None:
    assert folder.rules(folder.request("list", path=path)) == ["call", "list(path=project/**)", "tool"]


@pytest.mark.parametrize(
    ("args", "rules"),
    [
        ({"to": "bob@example.com"}, ["send(to=@example.com)"]),
        ({"to": "Bob <bob@Example.com>", "body": "x"}, ["send(to=mail(bob@example.com))", "send(to=@example.com)"]),
        ({"to": ["bob@a.com", "eve@b.com"]}, ["send(to in {@a.com, @b.com})"]),
        ({"to": "bob@example.com and eve"}, []),
        ({"amount": 5}, []),
        ({"amount": 5, "currency": "EUR"}, []),
        ({"command": "git status", "timeout": 5}, ["send(command=git status)"]),
        ({"command": "git log *", "timeout": 5}, ['send(command=json("git log *"))']),
        ({"command": "a\nb", "timeout": 5}, []),
        ({"note": "x", "other": "y"}, []),
    ],
    ids=str,
)
def test_recipients_widen_to_their_domain_and_no_number_becomes_a_bound(
    folder: Folder, args: dict[str, Any], rules: list[str]
) -> None:
    assert folder.rules(folder.request("send", **args)) == ["call", *rules, "tool"]


def test_all_that_a_call_is_about_is_held_down_at_once(folder: Folder) -> None:
    copy = folder.request("copy", src="project/a", dst="p/b", more=("backup_dir", "mode"))
    assert folder.rules(copy) == [
        "call",
        "copy(src=project/a, dst=p/b, backup_dir absent)",
        "copy(src=project/*, dst=p/*, backup_dir absent)",
        "copy(src=project/**, dst=p/**, backup_dir absent)",
        "tool",
    ]
    assert folder.rules(copy, allow=False)[1] == "copy(src=project/a, dst=p/b)"  # one more argument is no way round it
    mail = folder.request("send", to="bob@example.com", attachment_path="/x", more=("bcc",))
    assert folder.rules(mail) == [
        "call",
        "send(to=@example.com, attachment_path=/x, bcc absent)",
        "tool",
    ]
    assert [one.why for one in why_not_offered(mail)] == [
        "attachment_path: its folder is the root, and everything is below that"
    ]


# ---------------------------------------------------------------------- what is not offered


@pytest.mark.parametrize(
    ("path", "why"),
    [
        ("/x.txt", "its folder is the root, and everything is below that"),
        ("~/x.txt", "its folder is the home folder"),
        ("{top}/own/x.txt", "its folder is the home folder"),
        ("{top}/x.txt", "its folder is one that the home folder is in"),
        (".git/config", "its folder is hidden, or in a hidden one (.git)"),
        ("~/.ssh/id_rsa", "its folder is hidden, or in a hidden one (.ssh)"),
        ("p/.hidden/deep/x", "its folder is hidden, or in a hidden one (.hidden)"),
    ],
)
def test_a_folder_that_is_too_wide_or_hidden_is_not_offered(folder: Folder, path: str, why: str) -> None:
    request = folder.request(path=path, content="x")
    kinds = [one.scope.covers for one in suggest_scopes(request)]
    assert kinds == ["call", "pattern", "tool"]
    assert "/*" not in str(suggest_scopes(request)[1].scope.rule)
    assert why_not_offered(request) == [("wider rules on path", f"path: {why}")]


@pytest.mark.parametrize("path", ["/", "~", "{top}", ".git", "{top}/own/"])
def test_nor_is_one_that_is_named_itself(folder: Folder, path: str) -> None:
    for allow in (True, False):
        offered = suggest_scopes(folder.request("list", path=path), allow=allow, lasts="file")
        assert not [one for one in offered if "*" in str(one.scope.rule)]


@pytest.mark.parametrize("path", ["$DIR/a.txt", "a\0b", "project/%2e%2e/x", "file://server/x", "~eve/x", "a\uff0fb"])
def test_a_path_that_cannot_be_read_has_no_rules(folder: Folder, path: str) -> None:
    request = folder.request(path=path, content="x")
    assert [one.scope.covers for one in suggest_scopes(request)] == ["call", "tool"]
    ((what, why),) = why_not_offered(request)
    assert what == "rules on the arguments"
    assert why.startswith("path: ")


def test_of_a_path_through_a_link_nothing_is_offered_but_the_exact_call(folder: Folder) -> None:
    (folder.base / "linked").symlink_to(folder.top / "other")
    (folder.base / "project" / "link.txt").symlink_to(folder.top / "other" / "x")
    for path in ("linked/a.txt", "project/link.txt"):
        request = folder.request(path=path, content="x")
        assert folder.rules(request) == ["call", "tool"]
        assert "leads through a link" in why_not_offered(request)[0].why


def test_a_base_folder_that_is_reached_through_a_link_is_as_good_as_any(folder: Folder) -> None:
    (folder.top / "way").symlink_to(folder.base)
    request = folder.request(path="project/a.txt", content="x")
    assert request.context is not None
    linked = replace(request, context=replace(request.context, folder=str(folder.top / "way")))
    assert folder.rules(linked) == folder.rules(request)
    assert len(folder.rules(linked)) == 5


@pytest.mark.parametrize(
    ("path", "exact", "folder"),
    [
        ("project\\a.txt", "project/a.txt", "project"),
        ("D:/data/a.txt", "D:/data/a.txt", "D:/data"),
        ("C:\\base\\a.txt", "a.txt", "."),
        ("\\\\server\\share\\f\\a", "\\\\server/share/f/a", "\\\\server/share/f"),
        ("\\\\server\\share\\a", "\\\\server/share/a", ""),
        ("C:\\a.txt", "C:/a.txt", ""),
        ("c:/users/ANN/a.txt", "c:/users/ANN/a.txt", ""),
        ("C:/Users/bob", "C:/Users/bob", ""),
        ("C:notes.txt", "", ""),
        ("NUL", "", ""),
    ],
)
def test_paths_as_windows_spells_them_are_offered_too(path: str, exact: str, folder: str) -> None:
    where = Where("C:/base", "C:/Users/ann", True)
    found = patterns_of(path, where)
    assert (found.exact, found.folder) == (exact, folder)
    for pattern in (exact, folder and f"{folder}/*"):
        assert not pattern or PathPattern(pattern).read(path, where).narrow


def test_masked_values_make_no_rule_and_are_not_told(folder: Folder) -> None:
    request = folder.request(path="project/a.txt", token="tok-123456789")
    assert len(folder.rules(request)) == 5  # the rule is not about what is masked
    hidden = folder.request(path="project/a.txt", content="x", secret=("path",))
    assert folder.rules(hidden) == ["call", "tool"]
    assert why_not_offered(hidden) == [("rules on the arguments", "path is masked, and a rule would show it")]
    told = repr([suggest_scopes(one) for one in (request, hidden)])
    assert "tok-123456789" not in told
    assert "a.txt" not in repr(suggest_scopes(hidden))


class Guard(AskFirst):
    """Asks about protected paths."""

    blocking = False

    def check(self, state: Any, call: ToolCall, tool: Tool) -> Ask:
        return Ask("protected")


def test_a10_of_a_protected_path_no_more_than_the_exact_call_is_offered_and_the_reason_is_told(folder: Folder) -> None:
    request = folder.request(path=".git/config", content="x", permission=Guard())
    assert folder.rules(request) == ["call"]
    assert why_not_offered(request) == [
        (
            "more than this exact call",
            "each call that would write a protected path is asked about: said why",
        )
    ]
    assert suggest_scopes(request, lasts="file") == []
    assert [one.what for one in why_not_offered(request, lasts="file")] == [
        'this exact call: write_file(path=".git/config", content="x")',
        "more than this exact call",
    ]
    assert len(suggest_scopes(request, allow=False)) == 3  # to deny is never too much


def test_where_a_second_person_is_wanted_nothing_is_offered_but_a_denial(folder: Folder) -> None:
    request = folder.request(path="project/a", permission=DecideByHuman(second_person=True))
    assert suggest_scopes(request) == []
    assert why_not_offered(request) == [
        ("any later call", "DecideByHuman() wants a second person's word about each call")
    ]
    assert len(suggest_scopes(request, allow=False)) == 4


@pytest.mark.parametrize("value", [math.nan, math.inf, {1: 2}, object()], ids=repr)
def test_what_is_not_json_cannot_be_remembered(folder: Folder, value: Any) -> None:
    request = folder.request(path="a", n=value)
    assert suggest_scopes(request) == []
    ((what, why),) = why_not_offered(request)
    assert (what, why.startswith("the arguments are not JSON: ")) == ("any later call", True)


def test_a_file_takes_rules_only(folder: Folder) -> None:
    request = folder.request(path="project/a.txt", content="x")
    offered = suggest_scopes(request, lasts="file")
    assert {(one.scope.covers, one.scope.lasts) for one in offered} == {("pattern", "file")}
    assert [one.scope.rule for one in offered] == [
        "write_file(path=project/a.txt)", "write_file(path=project/*)", "write_file(path=project/**)", "write_file",
    ]  # fmt: skip
    assert offered[-1].words == "every call of write_file, whatever its arguments"
    assert [one.why for one in why_not_offered(request, lasts="file")] == ["a policy file holds rules"]


def test_a_denial_of_the_base_folder_is_written_out_since_a_deny_reads_two_stars_as_any_folder(folder: Folder) -> None:
    request = folder.request(path="a.txt", content="x")
    assert folder.rules(request, allow=False)[2:4] == [
        "write_file(path={top}/base/*)", "write_file(path={top}/base/**)",
    ]  # fmt: skip


# ---------------------------------------------------------------------- tried on the call


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("write_file(path=project/**)", ""),
        ("*", ""),
        ("read_file", "it is about read_file, and the call is one of write_file"),
        ("write_file(pth=project/**)", "write_file has no argument pth (it has content, path)"),
        ("write_file(path=other/**)", "path=other/** does not fit this very call"),
        ("write_file(content=cd *)", "content=cd * does not fit this very call"),
        ("write_file(content present, path!=project/**)", "path!=project/** does not fit this very call"),
        ("write_file(content<5)", "content of write_file is string, and <5 can never be that"),
    ],
)
def test_a_rule_is_tried_on_the_call_it_came_from(folder: Folder, text: str, problem: str) -> None:
    request = folder.request(path="project/a.txt", content="milk")
    rule = Scope("pattern", rule=text).permission(allow=True)
    with_context = request.context
    assert with_context is not None
    assert covering_problem(rule, request.call, request.tool) == problem


# ---------------------------------------------------------------------- properties

NAMES = st.sampled_from(
    ["a.txt", "b", "project", "sub", "..", ".", "", "~", ".git", "*", "[a]", "{x,y}", "a b", "ü", "\u202e", "!x", "a|b"]
)
PATHS = st.builds(lambda start, names: start + "/".join(names), st.sampled_from(["", "/", "~/", "./"]),
                  st.lists(NAMES, min_size=1, max_size=4))  # fmt: skip
MAILS = st.sampled_from(["bob@example.com", "Bob <bob@example.com>", "eve@evil.com", "bob@example.com,eve@evil.com"])
ARGS = st.fixed_dictionaries(
    {},
    optional={
        "path": PATHS, "to": MAILS | st.lists(MAILS, max_size=3), "content": st.text(max_size=5), "n": st.integers(),
        "command": PATHS, "dst": PATHS,
    },
)  # fmt: skip


@given(args=ARGS, others=st.lists(ARGS, max_size=4), allow=st.booleans(), lasts=st.sampled_from(["run", "file"]))
@settings(max_examples=300)
@pytest.mark.timeout(120)
def test_whatever_is_offered_covers_the_call_and_each_wider_one_covers_what_a_narrower_one_does(
    tmp_path_factory: pytest.TempPathFactory,
    args: dict[str, Any],
    others: list[dict[str, Any]],
    allow: bool,
    lasts: Any,
) -> None:
    base = str(tmp_path_factory.getbasetemp())
    context = RunContext("run_1", "session_1", "ann", ("main",), folder=base)
    schema = {"type": "object", "properties": {"to": {}, **dict.fromkeys(("path", "content", "command", "dst"), TEXT),
                                               "n": NUMBER}}  # fmt: skip
    tool = Tool("do", "", schema, function=lambda **given: None)
    made = ToolCall("do", args)
    request = ApprovalRequest(
        id="r", call=made, call_key="run_1/1/0", tool=tool, shown_args=made.args, question="", rule="", reason="",
        hints=tool.hints, agent_path=("main",), user="ann", context=context,
    )  # fmt: skip
    before: set[int] = set()
    calls = [made, *(ToolCall("do", other) for other in others)]
    offered = suggest_scopes(request, allow=allow, lasts=lasts)
    assert len(offered) + len(why_not_offered(request, allow=allow, lasts=lasts)) > 0
    for scope, words in offered:
        assert words
        ApprovalDecision("remember_allow" if allow else "remember_deny", scope=scope)
        memory = Memory()
        there = Scope(scope.covers, "run", scope.arguments, scope.rule)
        memory.remember(context, made, there, allow=allow, asked=tool)
        covered = {
            place
            for place, one in enumerate(calls)
            if memory.look_up(replace(context, links={}), one, tool, tool=tool) is not None
        }
        assert 0 in covered, words
        assert covered >= before, (words, calls)
        before = covered
        for where in ("/", os.path.expanduser("~")):
            assert f"path={where}/**" not in str(scope.rule)
