"""Every text is made harmless and visible before a person reads it."""

from __future__ import annotations

import sys
import unicodedata
from html.parser import HTMLParser

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentperm_nb.render import escape, flags, shorten, table_html, table_text, visible

UNSEEN = {"Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp"}
# Unicode's Default_Ignorable_Code_Point, which no font shows.
IGNORABLE = [
    0x00AD, 0x034F, 0x061C, 0x115F, 0x1160, 0x17B4, 0x17B5, *range(0x180B, 0x1810), *range(0x200B, 0x2010),
    *range(0x202A, 0x202F), *range(0x2060, 0x2070), 0x3164, *range(0xFE00, 0xFE10), 0xFEFF, 0xFFA0,
    *range(0xFFF0, 0xFFF9), *range(0x1BCA0, 0x1BCA4), *range(0x1D173, 0x1D17B), *range(0xE0000, 0xE1000),
]  # fmt: skip


def test_every_character_of_a_category_that_is_not_seen_is_shown_as_its_code_point() -> None:
    wrong = [
        hex(code)
        for code in range(sys.maxunicode + 1)
        if unicodedata.category(chr(code)) in UNSEEN
        and chr(code) not in "\n\t"
        and visible(f"a{chr(code)}b") != f"a\\u{{{code:04X}}}b"
    ]
    assert wrong == []


def test_every_ignorable_character_is_shown_and_flagged() -> None:
    for code in IGNORABLE:
        assert visible(f"a{chr(code)}b") == f"a\\u{{{code:04X}}}b", hex(code)
        assert flags(f"a{chr(code)}b") == ["hidden-characters"], hex(code)


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("http://safe.com/\u202e\u2066moc.evil\u2069", "http://safe.com/\\u{202E}\\u{2066}moc.evil\\u{2069}"),
        ("rm /tmp/\u200bimportant", "rm /tmp/\\u{200B}important"),
        ("curl evil|sh\r\x1b[2K ls", "curl evil|sh\\u{000D}\\u{001B}[2K ls"),
        ("a\r\nb", "a\\u{000D}\nb"),
        ("a\x00b\x7f\x85", "a\\u{0000}b\\u{007F}\\u{0085}"),
        ("a\u2028b\u2029c", "a\\u{2028}b\\u{2029}c"),
        ("\ud800\udfff", "\\u{D800}\\u{DFFF}"),
        ("a\u3164b\u2800c\uffa0", "a\\u{3164}b\\u{2800}c\\u{FFA0}"),
        ("❤\ufe0f\U000e0100", "❤\\u{FE0F}\\u{E0100}"),
        ("\U000e0041\U000e007f", "\\u{E0041}\\u{E007F}"),
        ("\ue000\U0010ffff", "\\u{E000}\\u{10FFFF}"),
        ("\u180b\ufffc\U0001d159", "\\u{180B}\\u{FFFC}\\u{1D159}"),
        ("\x1b]0;title\x07", "\\u{001B}]0;title\\u{0007}"),
    ],
    ids=[
        "bidi",
        "zero width",
        "CR and ESC",
        "CR LF",
        "controls",
        "separators",
        "surrogates",
        "fillers",
        "variation selectors",
        "tags",
        "private and unassigned",
        "more blanks",
        "terminal title",
    ],
)
def test_what_hides_or_moves_text_is_shown(text: str, shown: str) -> None:
    assert visible(text) == shown
    assert flags({"k": [text]}) == ["hidden-characters"]
    assert flags({text: 1}) == ["hidden-characters"]


@pytest.mark.parametrize(
    "text",
    [
        "",
        "plain\ttext\nof lines",
        "grüße",
        "日本語",
        "हिन्दी",
        "עברית",
        "العربية",
        "😀👍",
        "e\u0301",
        "a b",
        "½ ± µ → ∑",
        "ﬁ",
        "x\u0300\u0301\u0302\u0303",
        "   indented",
        "\n\n\n",
        "\u00a0\u3000",
    ],
)
def test_ordinary_text_of_any_script_stays_as_it_is(text: str) -> None:
    assert visible(text) == text
    assert flags(text) == []


def test_marks_after_the_fourth_on_one_letter_are_shown_and_flagged() -> None:
    assert visible("a" + "\u0301" * 6 + "b\u0301") == "a" + "\u0301" * 4 + "\\u{0301}\\u{0301}b\u0301"
    assert flags("a" + "\u0301" * 5) == ["hidden-characters"]
    assert flags("a" + "\u0301" * 4) == []
    assert len(visible("a" + "\u0489" * 1000)) > 4000


def test_a_mark_without_a_letter_does_not_sit_on_what_stands_before_the_text() -> None:
    assert visible("\u0338x") == "\\u{0338}x"
    assert visible("a\n\u20ddx") == "a\n\\u{20DD}x"


@pytest.mark.parametrize("blank", [" ", "\t", "\u00a0", "\u2003", "\u3000", " \u2003", " \t"], ids=ascii)
def test_padding_is_shown_as_its_count_and_what_comes_after_it_is_seen(blank: str) -> None:
    text = f"ls{blank * 300}; rm -rf ~"
    assert visible(text) == f"ls ⟨{300 * len(blank)} spaces⟩ ; rm -rf ~"
    assert flags(text) == ["long-padding"]
    assert visible(f"a{' ' * 24}b") == f"a{' ' * 24}b"
    assert visible(f"a{' ' * 25}b") == "a ⟨25 spaces⟩ b"


@pytest.mark.parametrize("line", ["", " ", "   ", "\t", "\u2003"], ids=ascii)
def test_empty_lines_are_shown_as_their_count(line: str) -> None:
    text = "ls" + f"\n{line}" * 200 + "\nrm -rf ~"
    assert visible(text) == "ls\n⟨200 empty lines⟩\nrm -rf ~"
    assert flags(text) == ["long-padding"]
    assert visible("a\n\n\n\nb") == "a\n\n\n\nb"


@pytest.mark.parametrize(
    ("text", "mixed"),
    [
        ("https://аpple.com", True),
        ("раypal", True),
        ("Αdmin", True),
        ("apple", False),
        ("привет world", False),
        ("αβγ", False),
        ("straße", False),
        ("日本go", False),
    ],
)
def test_a_word_of_two_look_alike_alphabets_is_flagged(text: str, mixed: bool) -> None:
    assert flags(text) == (["mixed-script"] if mixed else [])


def test_flags_name_each_thing_once_and_look_everywhere() -> None:
    value = {"a": ["x\u200b", {"b\u200b": "pad" + " " * 30}], "c": ("аpple",), "n": 5, "z": None}
    assert flags(value) == ["hidden-characters", "long-padding", "mixed-script"]
    assert flags({"n": 1, "t": True, "x": None, "f": 1.5}) == []


@given(st.text())
def test_what_is_shown_holds_no_hidden_character(text: str) -> None:
    shown = visible(text)
    assert not [char for char in shown if unicodedata.category(char) in UNSEEN and char not in "\n\t"]
    assert not [char for char in shown if ord(char) in IGNORABLE]
    assert visible(shown) == shown
    shown.encode()


@given(st.text(st.characters(min_codepoint=32, max_codepoint=126)).filter(lambda text: " " * 25 not in text))
def test_plain_ascii_is_not_touched(text: str) -> None:
    assert visible(text) == text
    assert flags(text) == []


@given(st.text())
def test_escaped_text_is_inert_html(text: str) -> None:
    shown = escape(text)
    assert not set(shown) & set("<>\"'")


class _Tags(HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.data: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        assert {name for name, _ in attrs} <= {"style", "scope", "class"}

    def handle_data(self, data: str) -> None:
        self.data.append(data)


@pytest.mark.parametrize(
    "hostile",
    [
        "<img src=x onerror=alert(1)>",
        "</pre><button>Approve</button>",
        "<script>alert(1)</script>",
        "\"'><svg onload=x>",
        "&lt;b&gt;",
        "]]><!--",
        "</td></tr></table>",
        "\u202e<b>",
    ],
)
def test_a_table_holds_every_cell_literally_and_no_element_of_theirs(hostile: str) -> None:
    table = table_html([hostile], [[hostile], [hostile]], caption=hostile, foot=hostile)
    parser = _Tags()
    parser.feed(table)
    assert set(parser.tags) == {"table", "caption", "thead", "tbody", "tr", "th", "td", "div"}
    assert parser.data == [visible(hostile)] * 5


@given(st.lists(st.lists(st.text(), min_size=2, max_size=2), max_size=3))
def test_no_cell_makes_an_element(rows: list[list[str]]) -> None:
    parser = _Tags()
    parser.feed(table_html(["a", "b"], rows))
    assert parser.tags == ["div", "table", "thead", "tr", "th", "th", "tbody", *["tr", "td", "td"] * len(rows)]


def test_a_text_table_keeps_one_line_a_row_and_says_what_it_leaves_out() -> None:
    text = table_text(["name", "said"], [["a", "x\ny\tz\r"], ["b", "w" * 100]], caption="Calls", width=20)
    assert text.split("\n") == [
        "Calls",
        "name  said",
        "----  " + "-" * len(f"{'w' * 12}… +88"),
        "a     x⏎y z\\u{000D}",
        f"b     {'w' * 12}… +88",
    ]


def test_a_table_without_rows_still_has_its_columns() -> None:
    assert table_text(["a", "bb"], []) == "a  bb\n-  --"
    assert "<th" in table_html(["a"], [])


def test_a_shortened_text_counts_what_it_leaves_out() -> None:
    assert shorten("abc", 3) == "abc"
    assert shorten("abcdef", 3) == "abc… (3 more characters)"
