"""The notation of rules: what is written is read, and what is read is written again as the same."""

from __future__ import annotations

from datetime import datetime
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentperm_nb import Agent, AllowByDefault, DenyByArguments, Tool, arg, rule, rules
from agentperm_nb.permissions.arguments import AllowByArguments, ArgumentRule, AskByArguments, matcher_of
from agentperm_nb.permissions.matching.numbers import Numbers
from agentperm_nb.permissions.matching.reading import Matcher
from agentperm_nb.permissions.matching.texts import Pattern
from agentperm_nb.permissions.matching.values import Exact, Not, OneOf
from agentperm_nb.testing import tool_call


@pytest.mark.parametrize(
    "text",
    [
        "deny bash",
        "deny server__*",
        'deny bash because "no"',
        "deny [ab]*(x=1)",
        "deny read_file(path=**/.env)",
        'deny read_file(path=**/.env) because "no secrets"',
        "allow write_file(path=project/**)",
        "ask send_email(recipients=any !@example.com)",
        "ask send_email(recipients=every @*.example.com)",
        "deny shell(command=*rm -rf*)",
        "deny f(x=100, y=\"100\", z=true, w=\"true\", u=null, v=-1.5)",
        "deny f(x<=100, x<100, x>=0, x>0)",
        "deny f(0<=x<=100)",
        "deny f(0<x<100)",
        "deny f(x!=100, x!=0..100, x!=..5, x!=5<.., x!=true)",
        "deny f(x=any 0..100, y=every <=5, z=any !5<..)",
        "deny f(x in {a, b})",
        "deny f(x not in {1, 5..10, <0, null, true})",
        "deny f(x=any {a, b}, y=every !{c})",
        "deny f(x present, y absent)",
        "deny f(items[*].price>5, meta.owner=ann, \"a b\".\"[*]\"=1, dry-run=true)",
        "deny f(day=2026-01-31, when>=2026-01-31T12:00:00+00:00, 2026-01-01<=x<2026-02-01)",
        "deny f(x=text(a*), y=path(a/**), z=mail(ann@example.com), u=json([1, {\"a\": null}]), v=json(\"a*\"))",
        'deny f(x="", y="a,b", z="a(b)", u="{a}", v="a\\"b", w=" a", s="any a", t="!a", r="@a", q="<5")',
        'deny f(x="\\u202e\\u0000👩\\u200d", y=é日本😀)',
        'deny f(x="#a", z=a\\b, u=a#b, v=a=b, w=a;b&&c|d)',
        'deny f("present"=1, "in"=2)',
        'deny f(x="any", y="every")',
        "deny f(x=anything, y=everyone, z=present, u=not in here)",
        "deny f(x=5 apples, y=2026-01-31x, z=1.2.3, u=+5, v=05, w=NaN)",
    ],
    ids=ascii,
)  # fmt: skip
def test_what_is_written_so_is_written_so_again(text: str) -> None:
    made = rule(text)
    assert str(made) == text
    assert rule(str(made)) == made


@pytest.mark.parametrize(
    ("text", "canonical"),
    [
        ("  deny   bash  ", "deny bash"),
        ('deny bash "no"', 'deny bash because "no"'),
        ("deny bash because\"no\"", 'deny bash because "no"'),
        ("deny f ( x = 5 , y = a b )", "deny f(x=5, y=a b)"),
        ("deny f(\tx<= 5\n)", "deny f(x<=5)"),
        ("deny f(x=!a)", "deny f(x!=a)"),
        ("deny f(x= ! a)", "deny f(x!=a)"),
        ("deny f(x={b,a,b})", "deny f(x in {a, b})"),
        ("deny f(x!={a})", "deny f(x not in {a})"),
        ("deny f(x not  in {a})", "deny f(x not in {a})"),
        ("deny f(x=..5)", "deny f(x<=5)"),
        ("deny f(x=5..)", "deny f(x>=5)"),
        ("deny f(x=5..5)", "deny f(x=5)"),
        ("deny f(x=0<..<5)", "deny f(0<x<5)"),
        ("deny f(0<=x)", "deny f(x>=0)"),
        ("deny f(0 < x <= 100)", "deny f(0<x<=100)"),
        ("deny f(x=100.0)", "deny f(x=100)"),
        ("deny f(x=1e3)", "deny f(x=1000)"),
        ("deny f(x=-0)", "deny f(x=0)"),
        ("deny f(x=any >=5)", "deny f(x=any >=5)"),
        ("deny f(x=any !<=5)", "deny f(x=any !..5)"),
        ("deny f(x!=<=5)", "deny f(x!=..5)"),
        ("deny f(x in {>5})", "deny f(x in {>5})"),
        ('deny f(x="a")', "deny f(x=a)"),
        ('deny f("x"=a)', "deny f(x=a)"),
        ('deny "bash"', "deny bash"),
        ('deny "a(b)"(x=1)', 'deny "a(b)"(x=1)'),
        ("deny f(x=text(a(b)c))", 'deny f(x=text("a(b)c"))'),
        ('deny f(x=text("a"))', "deny f(x=text(a))"),
        ("deny f(x=text( a b ))", "deny f(x=text(a b))"),
        ("deny f(x=mail(@Example.com))", "deny f(x=@example.com)"),
        ("deny f(x=@EXAMPLE.com)", "deny f(x=@example.com)"),
        ('deny f(x=json( {"b":1,"a":[ ]} ))', 'deny f(x=json({"a": [], "b": 1}))'),
        ("deny f(x=json(true))", "deny f(x=true)"),
        ("deny f(x=2026-01-31T12:00Z)", "deny f(x=2026-01-31T12:00:00+00:00)"),
        ("deny f(x=#general)", 'deny f(x="#general")'),
        ("deny f(x=a\\,b)", 'deny f(x="a\\\\,b")'),
        ("deny f(x=[a\\,b])", 'deny f(x="[a\\\\,b]")'),
    ],
    ids=ascii,
)  # fmt: skip
def test_there_is_one_way_to_write_a_rule(text: str, canonical: str) -> None:
    made = rule(text)
    assert str(made) == canonical
    assert rule(canonical) == made
    assert str(rule(canonical)) == canonical


# (text, the character that the mark stands below, a piece of the problem, a piece of the fix)
WRONG = [
    ("", 0, "there is nothing in it", "begin with allow, deny or ask"),
    ("Deny bash", 0, "begins with none of allow, deny, ask", "in lower case"),
    ("deny*", 0, "begins with none of", ""),
    ("forbid bash", 0, "begins with none of", ""),
    ("deny", 4, "the name of a tool is missing", ""),
    ("deny (x=1)", 5, "the name of a tool is missing", ""),
    ('deny "a b"', 5, "can match no tool", ""),
    ("deny f[z-a]", 5, "the wrong way round", ""),
    ("deny f,g", 6, "the rule has ended", "one rule in a line"),
    ("deny f g", 7, "the rule has ended", ""),
    ("deny f()", 7, "no condition between the brackets", "leave the brackets out"),
    ("deny f(x=1", 10, "the closing bracket is missing", ""),
    ("deny f(x=1) x", 12, "the rule has ended", ""),
    ("deny f(x=1) # no", 12, "the rule has ended", ""),
    ("deny f(x=1) because", 19, "a reason in double quotes is missing", ""),
    ("deny f(x=1) because no", 20, "a reason in double quotes is missing", ""),
    ('deny f(x=1) "', 12, "the closing quote is missing", ""),
    ('deny f(x=1) ""', 12, "the reason is empty", ""),
    ('deny f(x=1) "\\x"', 13, "no text as JSON writes it", ""),
    ("deny f(=1)", 7, "the name of an argument is missing", ""),
    ("deny f(x=1,)", 11, "the name of an argument is missing", ""),
    ("deny f(x=1,,y=2)", 11, "the name of an argument is missing", ""),
    ("deny f(x[0]=1)", 8, "only [*] can stand in brackets", ""),
    ("deny f(x.=1)", 9, "the name of an argument is missing", ""),
    ("deny f(x)", 8, "what is asked of the argument is missing", ""),
    ("deny f(x y)", 9, "what is asked of the argument is missing", ""),
    ("deny f(x=a,b)", 12, "what is asked of the argument is missing", "a comma in a text needs quotes"),
    ("deny f(x~a)", 8, "what is asked of the argument is missing", ""),
    ("deny f(x==5)", 8, "this is no operator", "write ="),
    ("deny f(x=>5)", 8, "this is no operator", "write >="),
    ("deny f(x=<5)", 8, "this is no operator", "write <="),
    ("deny f(x= <5)", 10, "the operator is doubled", "write amount<=100"),
    ("deny f(x= =5)", 10, "one = is enough", ""),
    ("deny f(x<a)", 9, "a number or a date is missing", ""),
    ("deny f(x<5a)", 9, "a number or a date is missing", ""),
    ("deny f(x<5<6)", 10, "a comma is missing", ""),
    ("deny f(5<x<a)", 11, "a number or a date is missing", ""),
    ("deny f(100>x>0)", 7, "the greater bound comes first", "put the smaller bound first"),
    ("deny f(5<x<4)", 7, "nothing lies between 5 and 4", ""),
    ("deny f(1<x<2026-01-31)", 7, "one bound is a number and the other a date", ""),
    ("deny f(x=10..5)", 9, "nothing lies between 10 and 5", ""),
    ("deny f(x=1e999)", 9, "is no bound", ""),
    ("deny f(x>=2026-02-30)", 10, "is no date", ""),
    ("deny f(x=)", 9, "a value is missing", 'an empty text is ""'),
    ("deny f(x= , y=1)", 10, "a value is missing", ""),
    ("deny f(x='a')", 9, "a text stands in double quotes", ""),
    ('deny f(x="a)', 9, "the closing quote is missing", ""),
    ('deny f(x="a"b)', 12, "a comma is missing", ""),
    ('deny f(x=a"b")', 10, '" cannot stand in a text without quotes', "in double quotes"),
    ("deny f(x=a(b))", 10, "( cannot stand in a text without quotes", ""),
    ("deny f(x=a{b,c})", 10, "{ cannot stand in a text without quotes", ""),
    ("deny f(x=a})", 10, "} cannot stand", ""),
    ("deny f(x=[z-a])", 9, "the wrong way round", ""),
    ("deny f(x=ab[])", 11, "nothing between the brackets", ""),
    ("deny f(x=ab[c)", 11, "a bracket is opened and not closed", ""),
    ('deny f(x="a[")', 9, "a bracket is opened and not closed", ""),
    ("deny f(x in {})", 13, "there is nothing in the set", ""),
    ("deny f(x in {a, {b}})", 16, "a set stands in a set", ""),
    ("deny f(x in {!a})", 13, "a member of a set cannot be the opposite", "put the ! before the set"),
    ("deny f(x in {a)", 14, ") cannot stand", ""),
    ("deny f(x in {a", 14, "the closing brace is missing", ""),
    ("deny f(x in {a,})", 15, "a value is missing", ""),
    ("deny f(x in {any a})", 13, "any or every stands right after =", ""),
    ("deny f(x in a)", 9, "what is asked of the argument is missing", "in {…}"),
    ("deny f(x=any)", 12, "what is asked of the elements is missing", ""),
    ("deny f(x=any )", 13, "a value is missing", ""),
    ("deny f(x!=any a)", 10, "! cannot stand before any or every", ""),
    ("deny f(x!=!a)", 10, "one ! is enough", ""),
    ("deny f(x=any any a)", 13, "any or every stands right after =", "write it once"),
    ("deny f(x=@)", 9, "names no mail domain", "write @example.com"),
    ("deny f(x=@bücher.de)", 9, "letters beyond ASCII", "as DNS has it"),
    ("deny f(x=mail(ann))", 14, "names no mail domain", ""),
    ("deny f(x=json([1,))", 17, "this is no JSON", ""),
    ("deny f(x=json(NaN))", 14, "this is no JSON", ""),
    ("deny f(x=json())", 14, "this is no JSON", ""),
    ("deny f(x=json(1 2))", 16, "the closing bracket is missing", ""),
    ("deny f(x=text())", 14, "a pattern is missing", ""),
    ("deny f(x=text(a)", 16, "the closing bracket is missing", ""),
    ("deny f(x=text(a(b))", 19, "the closing bracket is missing", ""),
    ("deny f(x=text([))", 14, "a bracket is opened", ""),
    ("deny f(x=5 , y=日本語(x))", 18, "( cannot stand", ""),
]  # fmt: skip


@pytest.mark.parametrize(
    ("text", "at", "problem", "fix"), WRONG, ids=lambda one: ascii(one) if isinstance(one, str) else str(one)
)
def test_an_error_points_at_the_character(text: str, at: int, problem: str, fix: str) -> None:
    with pytest.raises(ValueError, match=r"[\s\S]*\nFix: [\s\S]*\nExample:") as caught:
        rule(text)
    first, shown, mark, told, *_ = str(caught.value).splitlines()
    assert first.startswith("this is no rule: ")
    assert problem in first
    assert shown.strip() == text.strip()
    wide = sum(1 for char in text[:at] if char in "日本語")
    assert mark == " " * (4 + at + wide) + "^"
    assert told.startswith("Fix: ")
    assert fix in told


def test_an_error_in_a_long_rule_shows_the_part_that_it_is_about() -> None:
    with pytest.raises(ValueError, match="no rule") as caught:
        rule(f"deny f(x={'a' * 300}(, y={'b' * 300})")
    _, shown, mark, *_ = str(caught.value).splitlines()
    assert len(shown) < 140
    assert shown[mark.index("^")] == "("
    assert shown.strip().startswith("…")
    assert shown.endswith("…")


def test_an_error_shows_no_characters_that_move_others() -> None:
    with pytest.raises(ValueError, match="no rule") as caught:
        rule("deny f(x=\u202ea\x00\n(")
    assert "\u202e" not in str(caught.value)
    assert "deny f(x=·a··(" in str(caught.value)


@pytest.mark.parametrize("given", [None, 5, b"deny bash", ["deny bash"], rule("deny bash")], ids=repr)
def test_a_rule_is_read_from_a_text(given: Any) -> None:
    with pytest.raises(TypeError, match=r"rule\(\) takes a text"):
        rule(given)


def test_rules_are_read_from_lines_and_from_lists() -> None:
    text = """
    # what nobody may read
    deny read_file(path=**/.env)  # secrets

    ask send_email(to=any !@example.com) "outside"   # who is that?
    allow post(channel=#general)
    """
    read = rules(text)
    assert [str(one) for one in read] == [
        "deny read_file(path=**/.env)",
        'ask send_email(to=any !@example.com) because "outside"',
        'allow post(channel="#general")',
    ]
    assert rules([str(one) for one in read]) == read
    assert rules("") == rules([]) == []
    assert rules("deny a\r\ndeny b") == [rule("deny a"), rule("deny b")]


def test_an_error_in_several_rules_names_the_line() -> None:
    with pytest.raises(ValueError, match=r"this is no rule in line 3: a value is missing\n    deny b\(x=\)"):
        rules("deny a\n\ndeny b(x=)")
    for wrong in (5, None, b"deny a", [5], [rule("deny a")]):
        with pytest.raises(TypeError, match=r"rules\(\) takes a text, or texts"):
            rules(wrong)  # type: ignore[arg-type]


def test_a_text_in_the_list_of_an_agent_is_a_rule() -> None:
    tool = Tool("f", function=lambda x: x)
    agent = Agent([tool], permissions=["deny f(x>5)", AllowByDefault()])
    assert agent.permissions[0] == DenyByArguments("f", x=arg.above(5))
    assert [agent.use_tools([tool_call("f", x=x)]).results[0].verdict for x in (5, 6)] == ["allowed", "denied"]
    with pytest.raises(ValueError, match="this is no rule"):
        Agent([tool], permissions=["AllowByDefault()"])
    with pytest.raises(TypeError, match="takes a list"):
        Agent([tool], permissions="deny f")


def test_a_name_is_for_the_log_and_no_part_of_the_rule() -> None:
    named = rule("deny f(x>5)", name="limit")
    assert named.name == "limit"
    assert str(named) == "deny f(x>5)"
    assert named == rule("deny f(x>5)")


# --- laws -------------------------------------------------------------------------------------------------------------

_WORDS = st.text(min_size=0, max_size=8).filter(lambda text: not _refused(text))


def _refused(pattern: str) -> bool:
    try:
        arg.text(pattern)
    except ValueError:
        return True
    return False


_NUMBERS = st.one_of(st.integers(), st.floats(allow_nan=False, allow_infinity=False))


def _range(bounds: list[float], low_open: bool, high_open: bool, sides: int) -> Matcher:
    low, high = sorted(bounds)
    opened = low < high
    return Numbers(
        low if sides & 1 else None,
        high if sides & 2 else None,
        low_open=low_open and opened,
        high_open=high_open and opened,
    )


def _at_most(moment: datetime) -> Matcher:
    try:
        return arg.at_most(moment)
    except (ValueError, OverflowError):  # the ends of the calendar
        return arg.at_most(moment.replace(tzinfo=None))


_SINGLE: st.SearchStrategy[Matcher] = st.one_of(
    _WORDS.map(Pattern),
    _WORDS.map(arg.text),
    st.sampled_from(["@example.com", "@*.a.b"]).map(arg.mail),
    st.one_of(st.none(), st.booleans()).map(Exact),
    st.recursive(st.one_of(st.none(), st.booleans(), st.text(max_size=4), st.integers()), lambda inner: st.one_of(
        st.lists(inner, max_size=3), st.dictionaries(st.text(max_size=3), inner, max_size=3))).map(Exact),
    st.builds(_range, st.lists(_NUMBERS, min_size=2, max_size=2), st.booleans(), st.booleans(), st.integers(1, 3)),
    st.dates().map(matcher_of),
    st.datetimes(timezones=st.one_of(st.none(), st.timezones())).map(_at_most),
)  # fmt: skip
_ONE = st.one_of(_SINGLE, st.lists(_SINGLE, min_size=1, max_size=3).map(OneOf))
_MAYBE_NOT = st.one_of(_ONE, _ONE.map(Not))
_MATCHERS: st.SearchStrategy[Matcher] = st.one_of(
    _MAYBE_NOT, _MAYBE_NOT.map(arg.any_of), _MAYBE_NOT.map(arg.every_of), st.sampled_from([arg.present, arg.absent])
)
_FIELDS = st.lists(
    st.one_of(st.sampled_from(["x", "in", "meta", "a b", "[*]"]), st.text(max_size=4)), min_size=1, max_size=3
)


def _field(names: list[str]) -> str:
    import json

    return ".".join(json.dumps(name) for name in names)


@given(
    kind=st.sampled_from([DenyByArguments, AllowByArguments, AskByArguments]),
    tool=st.text(st.characters(exclude_categories=("Z", "C")), min_size=1, max_size=8).filter(
        lambda name: not _refused(name) and not any(char.isspace() for char in name)
    ),
    reason=st.one_of(st.none(), st.text(max_size=8).filter(str.strip)),
    conditions=st.lists(st.tuples(_FIELDS.map(_field), _MATCHERS), max_size=3),
)
def test_a_rule_is_read_again_as_it_is_written(
    kind: type[ArgumentRule], tool: str, reason: str | None, conditions: list[tuple[str, Matcher]]
) -> None:
    try:
        made = kind(tool, reason=reason, arguments=conditions)
    except ValueError:  # a pattern that is none of paths, on an argument that is called like one
        return
    text = str(made)
    again = rule(text)
    assert again == made
    assert str(again) == text
    assert text.isprintable()
    assert rules(text) == [made]


@given(text=st.text(st.sampled_from('deny alowsk f(x=y,1"<>!.{}[]*@\\ \n#é'), max_size=30))
def test_any_text_is_a_rule_that_is_written_again_or_an_error_that_shows_it(text: str) -> None:
    for candidate in (text, f"deny f({text})", f"deny f(x={text})", f"deny f(x in {{{text}}})"):
        made = None
        try:
            made = rule(candidate)
        except ValueError as error:
            problem = str(error)
        if made is None:
            assert problem.startswith("this is no rule: ")
            assert "\nFix: " in problem
        else:
            assert rule(str(made)) == made
            assert str(rule(str(made))) == str(made)
