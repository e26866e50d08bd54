"""Texts: what a glob matches when a deny reads it, and when an allow does."""

from __future__ import annotations

import pickle
import time
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentperm_nb.json_values import freeze
from agentperm_nb.permissions.matching.globs import Glob, GlobError
from agentperm_nb.permissions.matching.lookalikes import folded, has_lookalikes, skeleton, without_unseen
from agentperm_nb.permissions.matching.reading import ABSENT, Where
from agentperm_nb.permissions.matching.texts import Pattern, PatternError, Text

WHERE = Where("/", "/people/ann", False)

# (pattern, text, whether a deny matches, whether an allow does)
TABLE = [
    ("rm", "rm", True, True),
    ("rm", "rmdir", False, False),
    ("rm", "xrm", False, False),
    ("", "", True, True),
    ("", "x", False, False),
    ("*", "", True, True),
    ("*", "a\nb/c", True, True),
    ("a*", "a", True, True),
    ("a*c", "abbc", True, True),
    ("a*c", "ac", True, True),
    ("a*c", "abcd", False, False),
    ("*a*a*", "a", False, False),
    ("*a*a*", "aa", True, True),
    ("ab*ba", "aba", False, False),  # the two ends may not overlap
    ("*rm -rf*", "x; rm -rf /", True, True),
    ("*rm -rf*", "x\nrm -rf /\n", True, True),
    ("?", "\n", True, True),
    ("?", "ab", False, False),
    ("a?c*", "abc", True, True),
    ("*?", "", False, False),
    ("*[0-9]", "abc1", True, True),
    ("*[0-9]", "abc", False, False),
    ("[ab]c", "bc", True, True),
    ("[!ab]c", "cc", True, True),
    ("[!ab]c", "ac", False, False),
    ("[a-c]", "b", True, True),
    ("[-a]", "-", True, True),
    ("[a-]", "-", True, True),
    ("[!-]", "-", False, False),
    ("[a\\-c]", "b", False, False),
    ("[a\\-c]", "-", True, True),
    ("[\\]]", "]", True, True),
    ("[*]", "*", True, True),
    ("[*]", "a", False, False),
    ("\\*", "*", True, True),
    ("\\*", "a", False, False),
    ("\\\\", "\\", True, True),
    ("\\a", "a", True, True),
    ("a.b", "axb", False, False),
    ("a|b", "a", False, False),
    ("a]", "a]", True, True),
    ("(a+)", "(a+)", True, True),
    # case, for a deny
    ("RM", "rm", True, False),
    ("rm", "RM", True, False),
    ("*RM*", "xrmx", True, False),
    ("[a-c]x", "BX", True, False),
    ("[!A]x", "ax", True, False),  # it is no A, and it is one in another case: an allow does not rely on that
    ("[!A]x", "bx", True, True),
    ("[!A]x", "Ax", False, False),
    ("[A-z]x", "_x", True, True),
    ("straße", "STRASSE", True, False),
    ("stra?e", "straße", True, True),
    ("stra?e*X", "straße-x", True, False),
    ("?le", "ﬁle", True, True),
    ("X?le", "xﬁle", True, False),
    ("ΣΟΦΟΣ", "σοφος", True, False),
    ("K", "\u212a", True, False),  # the Kelvin sign
    ("file", "fİle", True, False),
    ("file", "fıle", True, False),
    # compatibility forms
    ("delete", "ｄｅｌｅｔｅ", True, False),
    ("ｄｅｌｅｔｅ", "delete", True, False),
    ("file", "ﬁle", True, False),
    ("git push*", "git\u3000push origin", True, False),
    ("git push*", "git\u00a0push origin", True, False),
    ("x2", "x²", True, False),
    ("é", "e\u0301", True, False),
    ("re*", "re\u0301sume\u0301", True, True),  # code point by code point it does
    ("1/2", "½", True, False),
    # characters that are not seen
    ("delete", "del\u200bete", True, False),
    ("delete", "d\u202eelete", True, False),
    ("delete", "de\u00adlete", True, False),
    ("delete", "delete\ufe0f", True, False),
    ("delete", "dele\u034fte", True, False),
    ("delete", "delete\U000e0061", True, False),
    ("delete", "delete\0", True, False),
    ("delete", "del\x08ete", True, False),
    ("delete", "d\x9belete", True, False),
    ("delete", "d\u0435l\x08ete", True, False),
    ("*secret*", "x sec\0ret\n", True, False),
    ("sec?ret", "sec\0ret", True, True),
    ("SEC?RET", "sec\0ret", True, False),
    ("[\0]SEC", "\0sec", True, False),
    ("*\0*", "plain", False, False),
    ("\0", "", False, False),
    ("de*te", "del\tete", True, True),
    ("delete", "de\tlete", False, False),
    ("delete", "de\nlete", False, False),
    # blanks around it
    ("delete", " delete", True, False),
    ("delete", "delete\r\n", True, False),
    ("delete", "\u3000DELETE\t", True, False),
    ("delete", "\u200b delete", True, False),
    ("del*", "\ndelete", True, False),
    (" delete", " delete ", True, False),
    ("delete", "del ete", False, False),
    ("", "  ", True, False),
    ("[!a]*", " ab", True, False),
    ("[!a]?*", "\x01Abc", True, False),
    ("[!a]*", "b\n", True, True),
    ("a?c", "a\u200bc", True, True),
    ("A?C", "ab\u200bc", True, False),
    # other letters
    ("resume", "résumé", False, False),
    ("file1", "filel", False, False),
    ("passw0rd", "password", False, False),
    ("modem", "modern", False, False),
    ("日本*", "日本語", True, True),
    ("日本?", "日本語", True, True),
    ("日本?", "日本語x", False, False),
]


@pytest.mark.parametrize(("pattern", "text", "denied", "allowed"), TABLE, ids=ascii)
def test_a_deny_reads_wide_and_an_allow_narrow(pattern: str, text: str, denied: bool, allowed: bool) -> None:
    reading = Text(pattern).read(text, WHERE)
    assert (reading.wide, reading.narrow) == (denied, allowed)
    assert reading.problem == ""


@pytest.mark.parametrize(("pattern", "text", "denied", "allowed"), TABLE, ids=ascii)
def test_the_opposite_of_a_pattern_is_wide_where_it_is_narrow(
    pattern: str, text: str, denied: bool, allowed: bool
) -> None:
    reading = Text(pattern).read(text, WHERE).negated()
    assert (reading.wide, reading.narrow) == (not allowed, not denied)


# R18: one text in the letters of other alphabets, with signs that look like its own, and with what is not seen.
LOOKALIKES = [
    "secrets/p\u0430ssword.txt",  # Cyrillic
    "secrets/раssword.txt",
    "secrets/passw\u043erd.txt",
    "secrets/passwоrd.tхt",
    "ѕесrеts/раѕѕwоrd.tхt",
    "sесrеts/password.txt",
    "secretѕ/password.txt",
    "secrets/passԝord.txt",
    "secrets/passworԁ.txt",
    "secrets/paѕsword.txt",
    "secreтs/password.txt",
    "secrets/password.тxt",
    "SECRETS/PАSSWОRD.TХT",
    "ЅЕСRЕTЅ/PASSWORD.TXT",
    "sесrets/рassword.тxt",
    "secrets/pαssword.txt",  # Greek
    "secrets/passwοrd.txt",
    "secrets/ρassword.txt",
    "sεcrets/password.txt",
    "secrets/password.τxt",
    "secrets/password.tχt",
    "secrets/passωord.txt",
    "SECRETS/ΡΑSSWΟRD.TΧΤ",
    "secretς/password.txt".replace("ς", "ѕ"),
    "secrets/passwօrd.txt",  # Armenian
    "secrets/paտտword.txt",
    "secrets/pasꜱword.txt",  # small capitals
    "ꜱᴇᴄʀᴇᴛꜱ/ᴘᴀꜱꜱᴡᴏʀᴅ.ᴛxᴛ",
    "secrets/pɑssword.txt",  # phonetic
    "secrets/ｐａｓｓｗｏｒｄ.txt",  # full width
    "ｓｅｃｒｅｔｓ／ｐａｓｓｗｏｒｄ．ｔｘｔ",
    "secrets／password.txt",
    "secrets/password．txt",
    "𝐬𝐞𝐜𝐫𝐞𝐭𝐬/𝐩𝐚𝐬𝐬𝐰𝐨𝐫𝐝.𝐭𝐱𝐭",  # mathematical
    "𝑠𝑒𝑐𝑟𝑒𝑡𝑠/password.txt",
    "𝒔𝒆𝒄𝒓𝒆𝒕𝒔/password.txt",
    "secrets/𝓹𝓪𝓼𝓼𝔀𝓸𝓻𝓭.txt",
    "secrets/𝔭𝔞𝔰𝔰𝔴𝔬𝔯𝔡.txt",
    "secrets/𝕡𝕒𝕤𝕤𝕨𝕠𝕣𝕕.txt",
    "secrets/𝖕𝖆𝖘𝖘𝖜𝖔𝖗𝖉.txt",
    "secrets/𝗉𝖺𝗌𝗌𝗐𝗈𝗋𝖽.txt",
    "secrets/𝙥𝙖𝙨𝙨𝙬𝙤𝙧𝙙.txt",
    "secrets/𝚙𝚊𝚜𝚜𝚠𝚘𝚛𝚍.txt",
    "secrets/𝛂ssword.txt".replace("𝛂", "p𝛂"),
    "secrets/ⓟⓐⓢⓢⓦⓞⓡⓓ.txt",  # in circles and squares
    "secrets/ⓅⒶⓈⓈⓌⓄⓇⒹ.txt",
    "secrets/🅟🅐🅢🅢🅦🅞🅡🅓.txt",
    "secrets/🅿🅰🆂🆂🆆🅾🆁🅳.txt",
    "secrets/🄿🄰🅂🅂🅆🄾🅁🄳.txt",
    "secrets/🇵🇦🇸🇸🇼🇴🇷🇩.txt",
    "secrets⁄password.txt",  # signs
    "secrets∕password.txt",
    "secrets╱password.txt",
    "secrets/password․txt",
    "secrets/passworꓒ.txt",  # Lisu
    "ꓢꓰꓚꓣꓰꓔꓢ/ꓑꓮꓢꓢꓪꓳꓣꓓ.txt",
    "secrets/ᏢᎪᏚᏚᎳᎾRᎠ.txt".replace("Ꮎ", "o"),  # Cherokee
    "secrets/passⲱord.txt".replace("ⲱ", "ѡ"),
    "secrets/ⲣassword.txt",  # Coptic
    "secrets/pasSword.txt",
    "se\u200bcrets/pass\u2060word.txt",  # not seen
    "secrets/\u202epassword\u202c.txt",
    "secrets/pass\u00adword.txt",
    "secrets/pa\ufe0fssword.txt",
    "s\u034fecrets/password.txt",
    "secrets/p\U000e0070assword.txt",
    "ѕ\u200bесrеts/ра\u2060ѕѕwоrd.tхt",  # both
]


def test_there_are_many_spellings() -> None:
    assert len(set(LOOKALIKES)) >= 60
    assert "secrets/password.txt" not in LOOKALIKES


@pytest.mark.parametrize("text", LOOKALIKES, ids=ascii)
@pytest.mark.parametrize("pattern", ["secrets/password.txt", "*password*", "secrets/p?ssword.tx[st]"])
def test_letters_that_look_alike_are_one_for_a_deny_and_others_for_an_allow(pattern: str, text: str) -> None:
    assert Text(pattern).read(text, WHERE).wide, "R18"
    assert not Text("secrets/password.txt").read(text, WHERE).narrow
    assert not Text(pattern).read(text, WHERE).negated().narrow, "an allow of anything else does not let it pass"


@pytest.mark.parametrize("text", LOOKALIKES, ids=ascii)
def test_a_deny_that_is_spelt_in_other_letters_holds_for_the_plain_text(text: str) -> None:
    assert Text(text).read("secrets/password.txt", WHERE).wide
    assert not Text(text).read("secrets/password.txt", WHERE).narrow
    assert Text(text).read(text, WHERE).narrow


@pytest.mark.parametrize(
    "text",
    [
        "secrets/pässword.txt",
        "secrets/p@ssword.txt",
        "secrets/passvord.txt",
        "секреты/пароль.txt",
        "secret/password.txt",
    ],
    ids=ascii,
)
def test_what_looks_otherwise_is_not_matched(text: str) -> None:
    assert not Text("secrets/password.txt").read(text, WHERE).wide


def test_what_may_be_read_as_several_letters_is_each_of_them() -> None:
    for pattern in ("pin", "pln", "p1n", "p|n"):
        assert Text(pattern).read("p\u04cfn", WHERE).wide
    for pattern in ("Hello", "nello"):
        assert Text(pattern).read("ηello", WHERE).wide


def test_the_helpers_say_what_is_the_same() -> None:
    assert folded("ＡＢ\u200bﬁ") == "abfi"
    assert without_unseen("a\u200bb") == "ab"
    assert skeleton("раsswоrd") == skeleton("password")
    assert has_lookalikes("pаss") is True
    assert has_lookalikes("PАSS") is True
    assert has_lookalikes("pass") is has_lookalikes("日本") is has_lookalikes("é") is False


_WRONG: list[Any] = [None, True, False, 0, 1, 100, 1.5, float("nan"), [], ["rm"], {}, {"rm": "rm"}, b"rm", object()]


@pytest.mark.parametrize("value", _WRONG, ids=ascii)
def test_what_is_no_text_cannot_be_read(value: Any) -> None:
    reading = Text("*").read(freeze(value), WHERE)
    assert reading.problem.endswith("not a text")
    assert (reading.wide, reading.narrow) == (True, False)
    assert (reading.negated().wide, reading.negated().narrow) == (True, False)


def test_half_of_a_surrogate_pair_cannot_be_read() -> None:
    for text in ("\ud800", "rm\udfff", "ｒ\ud800"):
        reading = Text("rm*").read(text, WHERE)
        assert "surrogate" in reading.problem
        assert (reading.wide, reading.narrow) == (True, False)


def test_what_was_left_out_matches_nothing() -> None:
    assert not Text("*").read(ABSENT, WHERE).wide


@pytest.mark.parametrize(
    ("pattern", "at"),
    [("[", 0), ("a[b", 1), ("[]", 0), ("[!]", 0), ("a[z-b]", 1), ("a\\", 1), ("[]a]", 0), ("x[\\]", 1)],
    ids=ascii,
)
def test_a_pattern_that_can_match_nothing_is_refused_and_the_place_is_told(pattern: str, at: int) -> None:
    with pytest.raises(PatternError, match="can match nothing") as caught:
        Text(pattern)
    assert caught.value.at == at
    assert "\nFix: " in str(caught.value)
    assert pickle.loads(pickle.dumps(caught.value)).at == at
    with pytest.raises(GlobError):
        Glob(pattern)


@pytest.mark.parametrize("given", [None, 5, b"x", ["x"], Text("x")], ids=ascii)
@pytest.mark.parametrize("kind", [Text, Pattern])
def test_a_pattern_is_a_text(kind: Any, given: Any) -> None:
    with pytest.raises(TypeError, match="a pattern is a string"):
        kind(given)


@pytest.mark.parametrize("pattern", ["*rm*", "a?[b-d]", "*pаss*", "\\*", ""], ids=ascii)
def test_a_pattern_survives_pickling(pattern: str) -> None:
    for matcher in (Text(pattern), Pattern(pattern)):
        again = pickle.loads(pickle.dumps(matcher))
        assert again == matcher
        assert hash(again) == hash(matcher)
        assert again.read("xRMx", WHERE) == matcher.read("xRMx", WHERE)
    assert Text(pattern) != Pattern(pattern)


@pytest.mark.parametrize("pattern", ["*a*a*a*a*a*a*b", "*[a]*[a]*[a]*[a]*?b", "a?*a?*a?*a?*c", "*а*а*а*а*b"], ids=ascii)
def test_a_long_text_takes_no_long_time(pattern: str) -> None:
    start = time.perf_counter()
    for text in ("a" * 20_000, "а" * 20_000, "aа" * 10_000):
        assert not Text(pattern).read(text, WHERE).narrow
    assert time.perf_counter() - start < 5


_TEXTS = st.text(st.sampled_from("aAbB*?[]!-\\ ßﬁаη\u200b\u0301é日ı0oO/"), max_size=8)


@given(pattern=_TEXTS, text=_TEXTS)
def test_what_an_allow_matches_a_deny_matches_too(pattern: str, text: str) -> None:
    try:
        matcher = Text(pattern)
    except PatternError:
        return
    reading = matcher.read(text, WHERE)
    assert reading.any or not reading.all
    if matcher.glob.exact(text):
        assert reading.any


@given(text=st.text(max_size=12))
def test_a_text_matches_itself_when_its_wildcards_are_escaped(text: str) -> None:
    escaped = "".join(f"\\{char}" if char in "*?[\\" else char for char in text)
    reading = Text(escaped).read(text, WHERE)
    assert reading.problem or reading.narrow


@given(text=st.text(st.sampled_from("secrtpaswod./"), max_size=12), data=st.data())
def test_no_change_of_letters_hides_a_text_from_a_deny(text: str, data: st.DataObject) -> None:
    spelt = {
        "s": "sSѕＳ𝐬", "e": "eEеΕｅ", "c": "cCсϲⅽ", "r": "rRгｒ", "t": "tTтτ", "p": "pPрρ", "a": "aAаαａ", "w": "wWԝ",
        "o": "oOоο", "d": "dDԁ", ".": ".．․", "/": "/／⁄",
    }  # fmt: skip
    unseen = st.sampled_from(["", "\u200b", "\u2060", "\ufeff", "\u00ad", "\ufe0f", "\u202e"])
    other = "".join(data.draw(st.sampled_from(spelt[char])) + data.draw(unseen) for char in text)
    assert Text(text).read(other, WHERE).wide
    assert Text(f"*{text}*").read(f"x {other} x", WHERE).wide
    if other != text:
        assert not Text(text).read(other, WHERE).narrow
        assert not Text(text).read(other, WHERE).negated().narrow
