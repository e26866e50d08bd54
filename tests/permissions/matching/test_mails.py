"""Mail addresses: what is plainly one address, and at which domain."""

from __future__ import annotations

import pickle
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentperm_nb.json_values import freeze
from agentperm_nb.permissions.matching.mails import Mail
from agentperm_nb.permissions.matching.reading import ABSENT, Where
from agentperm_nb.permissions.matching.texts import PatternError

WHERE = Where("/", "/people/ann", False)
YES, NO = True, False
OURS = Mail("@example.com")


@pytest.mark.parametrize(
    ("pattern", "value", "wide", "narrow"),
    [
        ("@example.com", "ann@example.com", YES, YES),
        ("@example.com", "ann@EXAMPLE.com", YES, YES),
        ("@Example.COM", "ann@example.com", YES, YES),
        ("@example.com", "ann.smith+news@example.com", YES, YES),
        ("@example.com", "a_b-c'd@example.com", YES, YES),
        ("@example.com", "Ann <ann@example.com>", YES, YES),
        ("@example.com", "Ann B. Smith-O'Hara <ann@example.com>", YES, YES),
        ("@example.com", "Änn Ñandú <ann@example.com>", YES, YES),
        ("@example.com", "Ann <ann@other.com>", NO, NO),
        ("@example.com", "ann@mail.example.com", NO, NO),
        ("@example.com", "ann@notexample.com", NO, NO),
        ("@example.com", "ann@example.com.evil.net", NO, NO),
        ("@example.com", "ann@example.co", NO, NO),
        ("@example.com", "ann@xn--exmple-cua.com", NO, NO),
        ("@*.example.com", "ann@mail.example.com", YES, YES),
        ("@*.example.com", "ann@a.b.example.com", YES, YES),
        ("@*.example.com", "ann@example.com", NO, NO),
        ("@*.example.com", "ann@badexample.com", NO, NO),
        ("@xn--bcher-kva.de", "ann@xn--bcher-kva.de", YES, YES),
        ("@localhost", "ann@localhost", YES, YES),
        ("ann@example.com", "ann@example.com", YES, YES),
        ("ann@example.com", "ANN@example.com", YES, NO),  # most servers take it for the same
        ("ann@example.com", "Bob <ann@example.com>", YES, YES),
        ("ann@example.com", "bob@example.com", NO, NO),
        ("ann*@example.com", "ann.smith@example.com", YES, YES),
        ("ann?@example.com", "annb@example.com", NO, NO),  # an address may hold a question mark
        ("ann?@example.com", "ann?@example.com", YES, YES),
    ],
)
def test_a_domain_is_the_whole_of_it(pattern: str, value: str, wide: bool, narrow: bool) -> None:
    reading = Mail(pattern).read(value, WHERE)
    assert (reading.wide, reading.narrow) == (wide, narrow)
    assert (reading.negated().wide, reading.negated().narrow) == (not narrow, not wide)
    assert reading.problem == ""


UNREADABLE = [
    # no address
    "", " ", "ann", "@example.com", "ann@", "ann@@example.com", "ann example.com", "ann(at)example.com", "example.com",
    # several in one text
    "ann@example.com, bob@evil.net", "ann@example.com;bob@evil.net", "ann@example.com bob@evil.net",
    "ann@example.com\nbob@evil.net", "ann@example.com\r\nBcc: bob@evil.net", "ann@example.com,",
    "a@evil.net@example.com",
    "Team: ann@example.com, bob@evil.net;", "<bob@evil.net> <ann@example.com>", "bob@evil.net <ann@example.com>",
    "Ann <ann@example.com> <bob@evil.net>", "Ann <ann@example.com>, Bob <bob@evil.net>",
    # quotes and comments
    '"ann@evil.net"@example.com', '"ann"@example.com', '"ann@example.com" <bob@evil.net>',
    "ann(bob@evil.net)@example.com",
    "ann@example.com(evil.net)", "(x)ann@example.com", "ann@(x)example.com", '"a\\"@evil.net"@example.com',
    "=?utf-8?q?eve=40evil.net=2C?=ann@example.com", "=?utf-8?b?ZXZlQGV2aWwubmV0LA==?=ann@example.com",
    "a=?b@example.com",
    '"Smith, Ann" <ann@example.com>', "=?utf-8?q?Ann?= <ann@example.com>", "ann\\@evil.net@example.com",
    # routes through others
    "@evil.net:ann@example.com", "<@evil.net:ann@example.com>", "ann%evil.net@example.com", "evil.net!ann@example.com",
    # around it
    " ann@example.com", "ann@example.com ", "\tann@example.com", "ann@example.com\n", "<ann@example.com>",
    "mailto:ann@example.com", "ann@example.com?cc=bob@evil.net", "Ann<ann@example.com>", "Ann <ann@example.com> x",
    "Ann <ann@example.com", "Ann ann@example.com>", "Ann < ann@example.com >",
    # the domain
    "ann@example.com.", "ann@example..com", "ann@.example.com", "ann@-example.com", "ann@example-.com",
    "ann@exa_mple.com",
    "ann@[127.0.0.1]", "ann@127.0.0.1", "ann@[IPv6:::1]", "ann@exa mple.com", "ann@example.com/x", "ann@example.com#x",
    "ann@example.com:25", "ann@1", "ann@" + "a" * 64 + ".com", "ann@" + "a." * 127 + "com",
    # the local part
    ".ann@example.com", "ann.@example.com", "ann..b@example.com", "a" * 65 + "@example.com", "ann @example.com",
    # letters
    "ann@exаmple.com", "ann@ｅxample.com", "ann@example。com", "ann@example．com", "ann＠example.com",
    "ann﹫example.com",
    "ann@bücher.de", "änn@example.com", "ann@exam\u200bple.com", "ann@example.com\u200b", "\u202eann@example.com",
    "ann@example.com\0", "ann@example.com\x0bx", "ann@exam\u00adple.com",
]  # fmt: skip


def test_there_are_many_spellings() -> None:
    assert len(set(UNREADABLE)) >= 60


@pytest.mark.parametrize("value", UNREADABLE, ids=lambda value: ascii(value[:40]))
@pytest.mark.parametrize("pattern", ["@example.com", "@evil.net", "@*.com", "ann@example.com"])
def test_what_is_not_plainly_one_address_cannot_be_read(pattern: str, value: str) -> None:
    reading = Mail(pattern).read(value, WHERE)
    assert reading.problem == "not plainly one mail address"
    for one in (reading, reading.negated()):
        assert (one.wide, one.narrow) == (True, False)


@pytest.mark.parametrize(
    "value", [None, True, 5, 1.5, [], ["ann@example.com"], {}, {"to": "ann@example.com"}], ids=repr
)
def test_what_is_no_text_cannot_be_read(value: Any) -> None:
    reading = OURS.read(freeze(value), WHERE)
    assert reading.problem.endswith("not a mail address")
    assert (reading.wide, reading.narrow) == (True, False)


def test_what_was_left_out_matches_nothing() -> None:
    assert not OURS.read(ABSENT, WHERE).wide


@pytest.mark.parametrize(
    "pattern",
    [
        "", "@", "example.com", "ann", "@.com", "@example..com", "@exa mple.com", "@*", "@*.*.com", "@a*b.com",
        "@bücher.de", "@exаmple.com", "@127.0.0.1", '"ann"@example.com', "a@b@example.com", "Ann <ann@example.com>",
        "ann@example.com,bob@example.com", " @example.com", "ann..b@example.com", "@" + "a." * 130 + "com",
    ],
    ids=ascii,
)  # fmt: skip
def test_what_names_no_domain_is_refused(pattern: str) -> None:
    with pytest.raises(PatternError, match=r"[\s\S]*\nFix: write [\s\S]*Example:"):
        Mail(pattern)


def test_a_pattern_beyond_ascii_is_told_how_it_is_written() -> None:
    with pytest.raises(PatternError, match=r"as DNS has it: @xn--"):
        Mail("@bücher.de")
    with pytest.raises(TypeError, match="a pattern is a string"):
        Mail(5)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("pattern", "text"),
    [
        ("@Example.com", "@example.com"),
        ("@*.example.com", "@*.example.com"),
        ("Ann@Example.com", "mail(Ann@example.com)"),
        ("{x}@example.com", 'mail("{x}@example.com")'),
    ],
)
def test_it_says_what_it_is(pattern: str, text: str) -> None:
    mail = Mail(pattern)
    assert str(mail) == text
    again = pickle.loads(pickle.dumps(mail))
    assert again == mail
    assert again.read("Ann@example.com", WHERE) == mail.read("Ann@example.com", WHERE)


@given(before=st.text(max_size=6), after=st.text(max_size=6))
def test_nothing_around_an_address_makes_another_one_allowed(before: str, after: str) -> None:
    value = f"{before}bob@evil.net{after}"
    assert not Mail("@example.com").read(value, WHERE).narrow
    assert not Mail("@*.com").read(value, WHERE).narrow


@given(text=st.text(st.sampled_from('ab.@<>" ,;:%!\\()[]\n\t-_\u200b'), max_size=14))
def test_what_can_be_read_has_one_at_and_nothing_that_others_read_otherwise(text: str) -> None:
    if not OURS.read(text, WHERE).problem:
        assert text.count("@") == 1
        assert not set(text) & set('",;:%!\\()[]\n\t\u200b')
