"""A policy file is read as it says, or not at all: its keys, its errors with their places, its users."""

from __future__ import annotations

import pickle
import re
from pathlib import Path
from typing import Any

import pytest

from agentperm_nb import PolicyFileError, RunContext, ToolCall, tool
from agentperm_nb.context import running_in
from agentperm_nb.permissions.arguments import AllowByArguments, AskByArguments, DenyByArguments
from agentperm_nb.permissions.policy_file import KEYS, PolicyFile, parse_policy
from agentperm_nb.permissions.verdicts import Allowed, Ask, Denied

PATH = Path("agentperm.toml")

FULL = """
version = 1
mode = "acceptEdits"
edit_tools = ["write_file"]
denied_tools = ["drop_*"]
trust_mcp = true
rules = [
    "ask write_file",
    'deny read_file(path=**/.env) because "no secrets"',
    'allow read_file(path=project/**)',
]

[users.ann]
mode = "bypassPermissions"
allowed_tools = ["read_*"]
rules = ["allow write_file", "deny send_mail"]

[users."bob@example.com"]
rules = ["ask read_file"]

[redaction]
arguments = ["body", "note"]

[timeouts]
approval = 300
reminders = [60, 240]
"""


@tool
def read_file(path: str) -> str:
    """Read a file."""
    return path


@tool
def write_file(path: str, content: str = "") -> str:
    """Write a file."""
    return path


def parsed(text: str) -> PolicyFile:
    return parse_policy(text, PATH)


def names(file: PolicyFile) -> list[str | None]:
    return [item.name for item in (*file.denies, *file.others, *file.modes)]


# --- what it says -----------------------------------------------------------------------------------------------------


def test_a_file_says_rules_modes_users_masks_and_times() -> None:
    file = parsed(FULL)
    assert names(file) == [
        "project, ann: deny send_mail",
        "project, ann: mode bypassPermissions: allowed_tools",
        "project: deny read_file(path=**/.env)",
        "project: mode acceptEdits: denied_tools",
        "project, ann: allow write_file",
        "project, bob@example.com: ask read_file",
        "project: ask write_file",
        "project: allow read_file(path=project/**)",
        "project, ann: mode bypassPermissions",
        "project: mode acceptEdits",
    ]
    assert (file.masked, file.approval, file.reminders) == (("body", "note"), 300, (60, 240))
    assert [section.user for section in file.sections] == ["ann", "bob@example.com", None]


def test_the_rules_are_those_of_the_notation_and_keep_their_reasons() -> None:
    common = parsed(FULL).sections[-1]
    assert [type(one) for one in (*common.denies, *common.others)][:1] == [DenyByArguments]
    assert [type(one) for one in common.others] == [AskByArguments, AllowByArguments]
    verdict = common.denies[0].check(None, ToolCall("read_file", {"path": ".env"}), read_file)
    assert verdict == Denied("no secrets")


def test_the_least_that_a_file_says_is_its_version() -> None:
    file = parsed("version = 1")
    assert (file.denies, file.others, file.modes, file.masked) == ([], [], [], ())


def test_another_layer_names_its_rules_by_itself() -> None:
    file = parse_policy(FULL, PATH, layer="administrator")
    assert {str(name).partition(":")[0] for name in names(file)} == {
        "administrator",
        "administrator, ann",
        "administrator, bob@example.com",
    }


@pytest.mark.parametrize("mode", ["default", "acceptEdits", "bypassPermissions", "accept_edits", "BYPASS"])
def test_a_mode_is_one_of_the_known_words(mode: str) -> None:
    assert len(parsed(f'version = 1\nmode = "{mode}"').modes) == 1


def test_a_number_will_do_for_the_reminders() -> None:
    assert parsed("version = 1\n[timeouts]\nreminders = 60").reminders == (60,)


# --- what it may not say ----------------------------------------------------------------------------------------------

WRONG: dict[str, tuple[str, str, str]] = {
    "an empty file": ("", "does not say its version", "write version = 1 at the top"),
    "only rules": ('rules = ["ask x"]', "does not say its version", "write version = 1"),
    "a newer version": ("version = 2", ", line 1: version 2 is not known", "needs a newer agentperm_nb"),
    "version true": ("version = true", "version True is not known", "write version = 1"),
    "version 1.0": ("version = 1.0", "version 1.0 is not known", "write version = 1"),
    "no TOML": ("version = 1\nrules = [", "this is no TOML", "correct it"),
    "TOML with an error in a line": ("version = 1\n\nrules = ['a' 'b']", ", line 3: this is no TOML", "correct it"),
    "a key twice": ("version = 1\nversion = 1", "this is no TOML", "correct it"),
    "too deep": ("version = 1\na = " + "[" * 20_000, "cannot be read as TOML", "write it plainly"),
    "a misspelt key": ("version = 1\nrule = []", ", line 2: the key 'rule' is not known", "write rules instead"),
    "a key in capitals": ("version = 1\nRules = []", ", line 2: the key 'Rules' is not known", "write rules instead"),
    "a key of nothing": ("version = 1\nzzz = 1", ", line 2: the key 'zzz' is not known", "there can be version, rules"),
    "a misspelt table": ("version = 1\n[redactions]\n", "the key 'redactions' is not known", "write redaction instead"),
    "a misspelt key of a user": (
        "version = 1\n[users.ann]\nmod = 'default'",
        ", line 3, [users.ann]: the key 'mod' is not known",
        "write mode instead",
    ),
    "a user with a dot": (
        "version = 1\n[users.ann.smith]\nrules = []",
        "[users.ann]: the key 'smith' is not known",
        '[users."ann.smith"]',
    ),
    "the rules below another table": (
        "version = 1\n[redaction]\nrules = []",
        ", line 3, [redaction]: the key 'rules' is not known",
        "it belongs to the top, before any [table]",
    ),
    "a time limit at the top": ("version = 1\napproval = 3", "the key 'approval'", "it belongs into [timeouts]"),
    "the timeouts of a user": ("version = 1\n[users.ann.timeouts]\n", "the key 'timeouts'", "belongs to the top"),
    "users are a list": ("version = 1\nusers = []", "users is a table", "write [users]"),
    "a user is a number": ("version = 1\nusers.ann = 1", "users.ann is a table", "write [users.ann]"),
    "a blank user": ("version = 1\n[users.' ']\n", "the name of a user is blank", "name the user"),
    "rules are a text": ("version = 1\nrules = 'ask x'", "rules is a list", "write rules = […]"),
    "a rule is a number": ("version = 1\nrules = [1]", "rules holds texts (number 1 is 1)", "put it in quotes"),
    "a rule is blank": ("version = 1\nrules = ['ask x', '']", "rule 2: this is no rule", "begin with allow"),
    "a rule that is none": (
        "version = 1\nrules = [\n  'ask x',\n  'permit y',\n]",
        ", line 4: rule 2: this is no rule: it begins with none of allow, deny, ask\n    permit y\n    ^",
        "begin with allow, deny or ask",
    ),
    "a rule in quotes of another kind": (
        'version = 1\nrules = ["ask x(y=\\"a)"]',
        ", line 2: rule 1: this is no rule: the closing quote is missing",
        "close the text",
    ),
    "a rule of a user": (
        "version = 1\n[users.ann]\nrules = ['deny']",
        ", line 3, [users.ann]: rule 1: this is no rule: the name of a tool is missing",
        "write the name of the tool",
    ),
    "a rule that can match nothing": (
        "version = 1\nrules = ['allow x(n=5..1)']",
        "rule 1: this is no rule",
        "",
    ),
    "no mode": ("version = 1\nmode = 'bypas'", ", line 2: 'bypas' is not a mode", "a mode is"),
    "a mode nearly": ("version = 1\nmode = 'acceptEdit'", "is not a mode", 'write "acceptEdits" instead'),
    "a word of permissions, and no mode": ("version = 1\nmode = 'strict'", "'strict' is not a mode", "a mode is"),
    "a mode is a table": ("version = 1\n[mode]\nmode = 'default'", "mode is a word", 'write mode = "default"'),
    "lists without a mode": (
        "version = 1\ndenied_tools = ['x']",
        "denied_tools belongs to a mode, and there is none",
        'write mode = "default" as well',
    ),
    "a list is a text": ("version = 1\nmode = 'default'\nallowed_tools = 'x'", "allowed_tools is a list", "write"),
    "a blank name": ("version = 1\nmode = 'default'\nedit_tools = ['']", "number 1 of edit_tools is blank", "name"),
    "a name with a blank": (
        "version = 1\nmode = 'default'\nedit_tools = ['a b']",
        "'a b', which no tool can have",
        "without spaces",
    ),
    "trust is a word": ("version = 1\nmode = 'default'\ntrust_mcp = 'yes'", "trust_mcp is true or false", "write"),
    "masks are a text": (
        "version = 1\n[redaction]\narguments = 'body'",
        "arguments is a list",
        "arguments = […]",
    ),
    "a blank mask": ("version = 1\n[redaction]\narguments = [' ']", "number 1 of arguments is blank", "leave it out"),
    "no time": ("version = 1\n[timeouts]\napproval = 0", "[timeouts]: approval is in seconds, above 0", "a number"),
    "a time below 0": ("version = 1\n[timeouts]\napproval = -3", "approval is in seconds, above 0", "a number"),
    "an endless time": ("version = 1\n[timeouts]\napproval = inf", "approval is in seconds, above 0", "a number"),
    "no number": ("version = 1\n[timeouts]\napproval = nan", "approval is in seconds, above 0", "a number"),
    "a time in words": ("version = 1\n[timeouts]\napproval = '5 min'", "approval is in seconds", "a number"),
    "a time that is true": ("version = 1\n[timeouts]\napproval = true", "approval is in seconds", "a number"),
    "a reminder after the end": (
        "version = 1\n[timeouts]\napproval = 60\nreminders = [30, 60]",
        "a reminder after 60 s would never come",
        "remind before",
    ),
}


@pytest.mark.parametrize(("text", "problem", "fix"), WRONG.values(), ids=WRONG)
def test_what_a_file_may_not_say_is_an_error_with_its_place(text: str, problem: str, fix: str) -> None:
    with pytest.raises(PolicyFileError) as raised:
        parsed(text)
    said = str(raised.value)
    what, _, rest = said.partition("\nFix: ")
    assert what.startswith("agentperm.toml")
    assert problem in what
    assert fix in rest.partition("\nExample:")[0]
    assert raised.value.path == PATH


def test_the_example_of_the_errors_works() -> None:
    with pytest.raises(PolicyFileError) as raised:
        parsed("version = 3")
    example = str(raised.value).partition("Example:\n")[2]
    lines = [line.removeprefix("    ") for line in example.splitlines()]
    assert len(parsed("\n".join(lines)).rules) == 3


def test_the_error_is_a_value_error_and_can_be_pickled() -> None:
    with pytest.raises(ValueError, match="version") as raised:
        parsed("")
    again = pickle.loads(pickle.dumps(raised.value))
    assert (type(again), str(again), again.path) == (PolicyFileError, str(raised.value), PATH)


@pytest.mark.parametrize(("table", "key"), [(table, key) for table, keys in KEYS.items() for key in keys])
def test_every_key_that_is_listed_is_known_where_it_is_listed(table: str, key: str) -> None:
    values = {
        "version": "1", "rules": "[]", "mode": "'default'", "trust_mcp": "true", "users": "{}", "redaction": "{}",
        "timeouts": "{}", "arguments": "[]", "approval": "1", "reminders": "[]",
    }  # fmt: skip
    line = f"{key} = {values.get(key, '[]')}"
    mode = "" if key in ("mode", "version", "rules") or table in ("redaction", "timeouts") else "mode = 'default'\n"
    if table:
        text = f"version = 1\n[{table.replace('*', 'ann')}]\n{mode}{line}"
    else:
        text = f"{mode}{line}" if key == "version" else f"version = 1\n{mode}{line}"
    assert isinstance(parsed(text), PolicyFile)


# --- users ------------------------------------------------------------------------------------------------------------


def verdict(file: PolicyFile, name: str, user: str | None, *, above: tuple[str | None, ...] = ()) -> Any:
    """Return what the rules of a file say of a call on behalf of a user; the first that says something."""
    call = ToolCall(name, {"path": "notes.txt"})
    with running_in(RunContext("run", "session", user, users_above=above)):
        for item in (*file.denies, *file.others, *file.modes):
            said = item.check(None, call, write_file)
            if said is not None:
                return getattr(said, "verdict", said)
    return None


def test_a_section_is_for_its_user_alone_and_comes_before_the_common_one() -> None:
    file = parsed(FULL)
    assert verdict(file, "write_file", "ann") == Denied("write_file: not in allow-list")
    assert isinstance(verdict(file, "read_file", "bob@example.com"), Ask)
    assert isinstance(verdict(file, "write_file", "eve"), Ask)
    assert verdict(file, "read_file", "ann") == Allowed()


@pytest.mark.parametrize("user", ["Ann", "ann ", "an", "ann@example.com", "", "bob"])
def test_another_spelling_is_another_user(user: str) -> None:
    file = parsed("version = 1\n[users.ann]\nrules = ['allow write_file']\nmode = 'bypassPermissions'")
    assert verdict(file, "write_file", "ann") == Allowed()
    assert verdict(file, "write_file", user) is None


def test_the_denies_of_a_user_hold_for_those_who_work_for_them() -> None:
    file = parsed("version = 1\n[users.ann]\nrules = ['deny write_file', 'allow read_file', 'ask send']")
    assert isinstance(verdict(file, "write_file", "bob", above=("ann",)), Denied)
    assert isinstance(verdict(file, "write_file", None), Denied), "it may be ann"
    assert verdict(file, "read_file", "bob", above=("ann",)) is None, "an allow is for ann herself"
    assert verdict(file, "send", "bob", above=("ann",)) is None


def test_rules_of_two_users_are_not_equal() -> None:
    file = parsed("version = 1\n[users.ann]\nrules = ['ask x']\n[users.bob]\nrules = ['ask x']")
    first, second = file.others
    assert first != second
    assert first == parsed("version = 1\n[users.ann]\nrules = ['ask x']").others[0]
    assert repr(first) == "<ann only: ask x>"
    assert pickle.loads(pickle.dumps(first)) == first


# --- the page ---------------------------------------------------------------------------------------------------------


def test_the_table_of_the_page_lists_exactly_the_keys_there_are() -> None:
    page = (Path(__file__).parents[2] / "docs" / "policy-file.md").read_text(encoding="utf-8")
    table = page.partition("## What a file may say")[2].partition("\n\nNothing is guessed")[0]
    listed: dict[str, list[str]] = {}
    for names, places in re.findall(r"^\| (`[^|]+`) \| ([^|]+) \|", table, re.MULTILINE):
        for place in places.split(", "):
            where = {"top": "", "user": "users.*"}.get(place, place.strip("`[]"))
            listed.setdefault(where, []).extend(re.findall(r"`(\w+)`", names))
    assert {where: tuple(keys) for where, keys in listed.items()} == KEYS
