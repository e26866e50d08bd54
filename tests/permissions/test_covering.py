"""What lint takes for proven: a rule that covers another matches whatever that one does."""

from __future__ import annotations

import functools
import os
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from agentperm_nb.calls import ToolCall
from agentperm_nb.permissions.arguments import ArgumentRule
from agentperm_nb.permissions.linting.covering import (
    coverable_keys,
    covering_key,
    covers_conditions,
    covers_glob,
    has_wildcard,
)
from agentperm_nb.permissions.linting.examples import call_for, texts_of
from agentperm_nb.permissions.matching.declared import declared_by
from agentperm_nb.permissions.matching.globs import Glob
from agentperm_nb.permissions.notation import rule
from agentperm_nb.tools import Tool

TOOL = Tool(
    "act",
    "Act.",
    {
        "type": "object",
        "properties": {
            "path": {"type": ["string", "null"]},
            "to": {"type": ["string", "number", "null"]},
            "amount": {"type": ["number", "string", "null"]},
            "tags": {"type": "array", "items": {"type": "string"}},
        },
    },
    function=lambda **args: "",
)


def covered(outer: ArgumentRule, inner: ArgumentRule) -> bool:
    declared = declared_by(TOOL)
    slots = [declared.slot(condition.field) for condition in outer.conditions]
    return covers_conditions(outer.conditions, inner.conditions, slots, outer_wide=outer.wide, inner_wide=inner.wide)


@pytest.mark.parametrize(
    ("outer", "inner", "wide", "expected"),
    [
        ("*", "a*b", False, True),
        ("a*", "a*", False, True),
        ("a*", "ab", False, True),
        ("a*", "b", False, False),
        ("a*", "A", False, False),
        ("a*", "A", True, True),
        ("*_file", "read_file", False, True),
        ("*_file", "read_*", False, False),
        ("r*_*e", "read_*file", False, True),
        ("a?", "ab", False, True),
        ("a?", "a?", False, True),
        ("a?", "a*", False, False),
        ("*?", "?*", False, False),  # they are the same, which is not seen
        ("a?", "ab", True, False),  # in the wide reading a character may be several
        ("a[bc]", "ab", False, False),
        ("a[bc]", "a[bc]", False, True),
        (r"a\*", "ab", False, False),
        ("a*", r"a\*", False, True),
        (r"a\*", r"a\*", True, True),
        ("ä*", "äb", True, False),
        ("a", "a*", False, False),
        ("a**b", "a*b", False, True),
    ],
)
def test_a_glob_covers_another_only_when_it_matches_whatever_that_one_does(
    outer: str, inner: str, wide: bool, expected: bool
) -> None:
    assert covers_glob(outer, inner, wide=wide) is expected


def test_backslashes_and_brackets_are_letters_in_a_pattern_of_names() -> None:
    assert not covers_glob("a*", "\\a", wide=False, outer_lenient=True, inner_lenient=True)
    assert covers_glob("\\*", "\\a", wide=False, outer_lenient=True, inner_lenient=True)
    assert not has_wildcard(r"a\*")
    assert has_wildcard(r"a\*", lenient=True)


@pytest.mark.parametrize(
    ("outer", "inner", "expected"),
    [
        ("deny act", "deny act(to=x)", True),
        ("deny act(to=x*)", "deny act(to=xy)", True),
        ("deny act(to=x*)", "deny act(to=xy, amount=5)", True),
        ("deny act(to=x*, amount=5)", "deny act(to=xy)", False),
        ("deny act(to=x*)", "allow act(to=xy*)", True),
        ("allow act(to=x*)", "allow act(to=xy*)", True),
        ("allow act(to=x*)", "ask act(to=x*)", False),  # an ask takes readings that the allow does not
        ("allow act", "ask act(to=x*)", True),
        ("ask act(to=x*)", "allow act(to=X*)", True),
        ("allow act(to=x*)", "allow act(to=X*)", False),
        ("deny act(amount<=10)", "deny act(amount<=5)", True),
        ("deny act(amount<10)", "deny act(amount<=10)", False),
        ("deny act(amount<=10)", "deny act(amount<10)", True),
        ("deny act(0<=amount<=10)", "deny act(amount<=10)", False),
        ("deny act(amount>5)", "deny act(amount in {6, 7})", True),
        ("deny act(amount>5)", "deny act(amount in {5, 7})", False),
        ("deny act(to in {a, b})", "deny act(to=a)", True),
        ("deny act(to in {a, b})", "deny act(to in {a, c})", False),
        ("deny act(to in {a, 5})", "deny act(to=a)", False),  # it reads numbers, which the other cannot
        ("allow act(to in {a, 5})", "allow act(to=a)", True),
        ("deny act(to=@example.com)", "deny act(to=mail(ann@example.com))", True),
        ("deny act(to=@example.com)", "deny act(to=@*.example.com)", False),
        ("deny act(to!=a)", "deny act(to!=a)", True),
        ("deny act(to!=a*)", "deny act(to!=a)", False),
        ("deny act(path=project/**)", "deny act(path=project/**)", True),
        ("deny act(path=project/**)", "deny act(path=project/*.txt)", True),
        ("deny act(path=project/**)", "deny act(path=project/*/x)", True),
        ("deny act(path=project/*)", "deny act(path=project/**)", False),
        ("deny act(path=project/**)", "deny act(path=project/notes/*)", False),  # notes may be a link to elsewhere
        ("deny act(path=**)", "deny act(path=project/*)", False),
        ("deny act(path=**/.env)", "deny act(path=**/config/.env)", True),
        ("deny act(path=**/.env)", "deny act(path=**/.env*)", False),
        ("deny act(path=project/*)", "deny act(path=project/)", False),
        ("deny act(tags=any a*)", "deny act(tags=any ab)", False),
        ("deny act(tags=a*)", "deny act(tags=ab)", True),
        ("deny act(to present)", "deny act(to=x)", False),
        ("deny act(to present)", "deny act(to present)", True),
    ],
)
def test_a_rule_covers_another_only_where_that_is_certain(outer: str, inner: str, expected: bool) -> None:
    assert covered(rule(outer), rule(inner)) is expected


# --- the law ----------------------------------------------------------------------------------------------------------

TEXTS = ["x", "xy", "X", "xyz", "x*", "xy*", "*y", "*", "x*z", "x?", "ab", "a[bc]", "[!x]*", "5", "@a.de", "*.txt"]
PATHS = [
    "a", "a/b", "a/*", "a/**", "**", "*", "**/b", "**/.env", "a/*.txt", "a/**/b", "A/*", "a/", "./a/*", "link/**",
    "link/*", "../x/*", "~/x/*", "/etc/*", "/etc/**", "a/**/*.txt", "link", "b/link/**",
]  # fmt: skip
NUMBERS = ["=5", "<=5", "<5", ">3", ">=3", " in {4, 5}", " in {4, x}", "=3..5", "=x*", "!=5"]
VALUES: list[Any] = [
    "x", "X", "xy", "XY", "xyz", "\uff58y", "ab", "ac", "5", "", "*", "x\u200by", "ann@a.de", "a.txt", None, 5, 3.5,
    True, [], ["x"], {"a": 1}, "\ud800", 4, 1000,
]  # fmt: skip
PLACES: list[Any] = [
    "a", "a/b", "A/b", "a/b/c", "a/x.txt", "a/b/x.txt", ".env", "a/.env", "link/b", "link/../b", "outside/b", "../x/y",
    "~/x/y", "/etc/passwd", "a/", "./a/b", "a//b", "a/./b", "b/link/c", "$HOME/x", "a/*", "a\\b", "", None, 7, "link",
    "%61/b",
]  # fmt: skip


@pytest.fixture(scope="module", autouse=True)
def folders(tmp_path_factory: pytest.TempPathFactory) -> Any:
    """A folder with links in it, to work in."""
    made = tmp_path_factory.mktemp("covering")
    base = made / "base"
    for name in ("a/b", "outside", "b"):
        (base / name).mkdir(parents=True)
    (base / "link").symlink_to(base / "outside")
    (base / "b" / "link").symlink_to("../a")
    before = Path.cwd()
    os.chdir(base)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("HOME", str(made))
        yield
    os.chdir(before)


CONDITIONS = [
    *(f"to={text}" for text in TEXTS),
    *(f"to!={text}" for text in TEXTS[:5]),
    *(f"to in {{{texts}}}" for texts in ("x", "x, xy", "x*, ab", "xy, 5", "x, 5", "*")),
    *(f"path={text}" for text in PATHS),
    "path in {a/*, a/**}",
    *(f"amount{text}" for text in NUMBERS),
    *(f"tags={how}{text}" for how in ("", "any ", "every ") for text in ("x", "x*", "*")),
    "to present", "to absent", "amount present",
]  # fmt: skip
RULES = [rule(f"{verb} act({condition})") for verb in ("deny", "allow", "ask") for condition in CONDITIONS]


@functools.cache
def covered_pairs() -> list[tuple[ArgumentRule, ArgumentRule]]:
    """All pairs of rules with one condition of which the first covers the second, but for equal ones."""
    return [
        (outer, inner)
        for outer in RULES
        for inner in RULES
        if (outer.verb != inner.verb or outer != inner) and covered(outer, inner)
    ]


def pairs() -> st.SearchStrategy[tuple[ArgumentRule, ArgumentRule]]:
    """Pairs of rules of which the first covers the second, which may ask for more."""
    return st.deferred(
        lambda: st.tuples(st.sampled_from(covered_pairs()), st.lists(st.sampled_from(CONDITIONS), max_size=2)).map(
            lambda drawn: (
                drawn[0][0],
                rule(f"{drawn[0][1].verb} act({', '.join([str(drawn[0][1].conditions[0]), *drawn[1]])})"),
            )
        )
    )


def calls() -> st.SearchStrategy[ToolCall]:
    return st.fixed_dictionaries(
        {"to": st.sampled_from(VALUES), "path": st.sampled_from(PLACES)},
        optional={
            "amount": st.sampled_from(VALUES),
            "tags": st.one_of(st.lists(st.sampled_from(VALUES), max_size=3), st.sampled_from(VALUES)),
        },
    ).map(lambda args: ToolCall("act", args))


def matched_anyway(outer: ArgumentRule, inner: ArgumentRule, call: ToolCall) -> bool:
    """Return whether the inner rule matches a call, and then whether the outer one does is asserted."""
    if inner.check(None, call, TOOL) is None:
        return False
    assert outer.check(None, call, TOOL) is not None, (str(outer), str(inner), call)
    return True


@pytest.mark.law
@settings(max_examples=600, suppress_health_check=[HealthCheck.too_slow])
@given(pairs(), st.lists(calls(), min_size=5, max_size=20))
def test_a_rule_that_covers_another_matches_every_call_that_it_does(
    pair: tuple[ArgumentRule, ArgumentRule], some: list[ToolCall]
) -> None:
    made = call_for(pair[1], TOOL)
    for call in [*some, *([made] if made is not None else [])]:
        matched_anyway(*pair, call)


@pytest.mark.law
def test_the_pairs_that_are_claimed_hold_for_every_value_alone() -> None:
    found = 0
    for outer, inner in covered_pairs():
        field = inner.conditions[0].field.argument
        for value in PLACES if field == "path" else [*VALUES, ["x", "a"], ["X"], ["x", 5]]:
            found += matched_anyway(outer, inner, ToolCall("act", {field: value}))
        found += matched_anyway(outer, inner, ToolCall("act", {}))
    assert len(covered_pairs()) > 300
    assert found > 1000


@pytest.mark.law
def test_what_covers_a_rule_is_found_under_one_of_its_keys() -> None:
    declared = declared_by(TOOL)
    for outer, inner in covered_pairs():
        first, condition = outer.conditions[0], inner.conditions[0]
        key = covering_key(first.matcher_for(declared.slot(first.field)))
        assert key in coverable_keys(condition.matcher_for(declared.slot(first.field))), (str(outer), str(inner))


@given(st.sampled_from(TEXTS[:13]), st.sampled_from(TEXTS[:13]), st.text("xyzab5.*", max_size=6), st.booleans())
def test_a_covering_glob_matches_what_the_other_one_matches(outer: str, inner: str, text: str, wide: bool) -> None:
    if covers_glob(outer, inner, wide=wide):
        one, other = Glob(outer), Glob(inner)
        matches = (one.wide, other.wide) if wide else (one.narrow, other.narrow)
        assert not matches[1](text) or matches[0](text)


@pytest.mark.parametrize(
    "text", ["to=x*", "to in {x, y}", "to!=x", "amount<=5", "path=a/**", "tags=any x*", "to present"]
)
def test_an_example_call_is_one_that_the_rule_matches(text: str) -> None:
    made = rule(f"allow act({text})")
    call = call_for(made, TOOL)
    assert call is not None
    assert made.check(None, call, TOOL) is not None
    assert TOOL.check_args(call.args) == []
    assert list(texts_of(made.conditions[0].matcher))
