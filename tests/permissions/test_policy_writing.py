"""A rule goes into a policy file as one more line: comments, order and spacing stay, and so do mode and links."""

from __future__ import annotations

import os
import stat
import threading
import tomllib
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agentperm_nb.permissions import policy_writing
from agentperm_nb.permissions.policy_writing import NotWrittenError, change_file, with_rule

NEW = "allow a(b=x)"

TEXTS = {
    "none": (
        "version = 1\n",
        "version = 1\nrules = [\n    'allow a(b=x)',\n]\n",
    ),
    "none, and no end of the line": (
        "version = 1",
        "version = 1\nrules = [\n    'allow a(b=x)',\n]\n",
    ),
    "none, before a table": (
        "# top\nversion = 1  # one\n\n# of ann\n[users.ann]\nrules = ['deny a']\n",
        "# top\nversion = 1  # one\nrules = [\n    'allow a(b=x)',\n]\n\n# of ann\n[users.ann]\nrules = ['deny a']\n",
    ),
    "empty": ("version = 1\nrules = []\n", "version = 1\nrules = ['allow a(b=x)']\n"),
    "empty, with blanks": ("rules = [  ]\nversion = 1\n", "rules = ['allow a(b=x)']\nversion = 1\n"),
    "empty, with a comment": (
        "rules = [\n    # nothing yet\n]\nversion = 1\n",
        "rules = [\n    # nothing yet\n    'allow a(b=x)',\n]\nversion = 1\n",
    ),
    "one line": ("rules = ['deny b']\n", "rules = ['deny b', 'allow a(b=x)']\n"),
    "one line, a comma at the end": ("rules = ['deny b', ] # x\n", "rules = ['deny b', 'allow a(b=x)' ] # x\n"),
    "lines": (
        "rules = [\n  'deny b',  # because\n  \"ask c\",\n]\n",
        "rules = [\n  'deny b',  # because\n  \"ask c\",\n  'allow a(b=x)',\n]\n",
    ),
    "lines without a comma at the end": (
        "rules = [\n\t'deny b',\n\t'ask c' # asks, 'x', ]\n\t# the end\n]\n",
        "rules = [\n\t'deny b',\n\t'ask c', # asks, 'x', ]\n\t'allow a(b=x)',\n\t# the end\n]\n",
    ),
    "the comma in a line of its own": (
        "rules = [\n  'deny b'\n  , 'ask c'\n  ,\n]\n",
        "rules = [\n  'deny b'\n  , 'ask c'\n  , 'allow a(b=x)'\n]\n",
    ),
    "the bracket in the line of the last": (
        "rules = [\n  'deny b',\n  'ask c']\nversion = 1\n",
        "rules = [\n  'deny b',\n  'ask c',\n  'allow a(b=x)',]\nversion = 1\n",
    ),
    "brackets and quotes that mean nothing": (
        'x = "]" # rules = [\n"rules" = ["deny b(n in {1}) because \\"]\\"", \'ask c # ]\']\n',
        'x = "]" # rules = [\n"rules" = ["deny b(n in {1}) because \\"]\\"", \'ask c # ]\', \'allow a(b=x)\']\n',
    ),
    "texts of many lines": (
        'rules = [\n  """deny b""",\n  \'\'\'ask c\'\'\',\n]\n[t]\ny = """\nrules = [\n"""\n',
        'rules = [\n  """deny b""",\n  \'\'\'ask c\'\'\',\n  \'allow a(b=x)\',\n]\n[t]\ny = """\nrules = [\n"""\n',
    ),
    "a text of many lines before": (
        "note = '''\nrules = [ 'no' ]\n[t]\n'''\nlist = [ [1], { a = ']' } ]\nrules = ['deny b']\n",
        "note = '''\nrules = [ 'no' ]\n[t]\n'''\nlist = [ [1], { a = ']' } ]\nrules = ['deny b', 'allow a(b=x)']\n",
    ),
    "ends of lines of Windows": (
        "version = 1\r\nrules = [\r\n  'deny b',\r\n]\r\n",
        "version = 1\r\nrules = [\r\n  'deny b',\r\n  'allow a(b=x)',\r\n]\r\n",
    ),
}


@pytest.mark.parametrize("name", TEXTS)
def test_one_line_is_added_and_nothing_else_changes(name: str) -> None:
    before, after = TEXTS[name]
    assert with_rule(before, NEW) == after
    old, new = tomllib.loads(before), tomllib.loads(after)
    assert new == {**old, "rules": [*old.get("rules", []), NEW]}


@pytest.mark.parametrize(
    ("before", "place", "after"),
    [
        (
            "rules = [\n  'deny b',\n  # asks\n  'ask c',  # so\n]\n",
            1,
            "rules = [\n  'deny b',\n  # asks\n  'allow a(b=x)',\n  'ask c',  # so\n]\n",
        ),
        (
            "rules = [\n  'deny b',\n  'ask c',\n]\n",
            0,
            "rules = [\n  'allow a(b=x)',\n  'deny b',\n  'ask c',\n]\n",
        ),
        ("rules = ['deny b', 'ask c']\n", 1, "rules = ['deny b', 'allow a(b=x)', 'ask c']\n"),
        ("rules = ['ask c']\n", 0, "rules = ['allow a(b=x)', 'ask c']\n"),
        (
            "rules = [ 'deny b',\n  'ask c' ]\n",
            1,
            "rules = [ 'deny b',\n  'allow a(b=x)',\n  'ask c' ]\n",
        ),
    ],
    ids=["lines", "the first line", "one line", "the only one", "half a line"],
)
def test_a_rule_is_put_before_another_one(before: str, place: int, after: str) -> None:
    assert with_rule(before, NEW, before=place) == after


@pytest.mark.parametrize(
    ("rule", "written"),
    [
        ('deny a(b="x, y")', "'deny a(b=\"x, y\")'"),
        ("deny a(b=it's)", '"deny a(b=it\'s)"'),
        ('deny a(b="it\'s")', '"deny a(b=\\"it\'s\\")"'),
        (r'deny a(b="\u202e")', r"""'deny a(b="\u202e")'"""),
        (r"deny a(b=x\*y)", r"'deny a(b=x\*y)'"),
        (r"deny a(b=x\*'y)", r'''"deny a(b=x\\*'y)"'''),
        ("deny a(b=ünï)", "'deny a(b=ünï)'"),
    ],
)
def test_a_rule_is_quoted_so_that_toml_reads_it_as_it_is(rule: str, written: str) -> None:
    assert with_rule("rules = []\n", rule) == f"rules = [{written}]\n"


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("rules = [\n", "no TOML"),
        ("rules = 'deny a'\n", "no list"),
        ("rules = {}\n", "no list"),
        ("a.rules = []\n[x]\nrules = 1\nrules = 2\n", "no TOML"),
    ],
)
def test_what_cannot_be_added_to_is_left_alone(text: str, why: str) -> None:
    with pytest.raises(NotWrittenError, match=why):
        with_rule(text, NEW)


def test_what_would_read_otherwise_is_never_written(monkeypatch: pytest.MonkeyPatch) -> None:
    more = "rules = ['deny b', 'allow a(b=x)']\nx = 1\n"
    for wrong in ("rules = ['allow b']\n", "rules = []\n", "rules = [\n", more):
        monkeypatch.setattr(policy_writing, "_inserted", lambda *args, wrong=wrong: wrong)
        with pytest.raises(NotWrittenError, match="add it by hand"):
            with_rule("rules = ['deny b']\n", NEW)


# ---------------------------------------------------------------------- the file


def test_the_file_is_replaced_with_its_mode_and_nothing_is_left_beside_it(tmp_path: Path) -> None:
    path = tmp_path / "agentperm.toml"
    path.write_bytes(b"\xef\xbb\xbfrules = []\r\n")
    path.chmod(0o640)
    assert change_file(path, lambda text: with_rule(text, NEW))
    assert path.read_bytes() == b"\xef\xbb\xbfrules = ['allow a(b=x)']\r\n"
    assert stat.S_IMODE(path.stat().st_mode) == 0o640
    assert os.listdir(tmp_path) == ["agentperm.toml"]
    before = path.stat()
    assert not change_file(path, lambda text: None)
    assert path.stat() == before


def test_a_file_behind_a_link_is_written_and_the_link_stays(tmp_path: Path) -> None:
    (tmp_path / "real").mkdir()
    real, link = tmp_path / "real" / "policy.toml", tmp_path / "agentperm.toml"
    real.write_text("rules = []\n")
    link.symlink_to(real)
    assert change_file(link, lambda text: with_rule(text, NEW))
    assert link.is_symlink()
    assert real.read_text() == "rules = ['allow a(b=x)']\n"
    assert os.listdir(tmp_path / "real") == ["policy.toml"]


def test_what_somebody_else_writes_meanwhile_is_not_lost(tmp_path: Path) -> None:
    path, seen = tmp_path / "agentperm.toml", list[str]()
    path.write_text("rules = []\n")

    def change(text: str) -> str:
        seen.append(text)
        if len(seen) == 1:
            path.write_text("rules = ['deny b']\n")
        return with_rule(text, NEW)

    assert change_file(path, change)
    assert seen == ["rules = []\n", "rules = ['deny b']\n"]
    assert path.read_text() == "rules = ['deny b', 'allow a(b=x)']\n"


def test_one_that_is_written_all_the_time_is_given_up(tmp_path: Path) -> None:
    path, count = tmp_path / "agentperm.toml", iter(range(100))
    path.write_text("rules = []\n")

    def change(text: str) -> str:
        path.write_text(f"rules = []  # {next(count)}\n")
        return with_rule(text, NEW)

    with pytest.raises(NotWrittenError, match="all the time"):
        change_file(path, change)
    assert path.read_text().startswith("rules = []  # ")
    assert os.listdir(tmp_path) == ["agentperm.toml"]


@pytest.mark.parametrize("kind", ["read-only", "gone", "a folder", "not text", "no room"])
def test_a_file_that_cannot_be_written_stays_as_it_was_and_the_reason_is_told(
    kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "agentperm.toml"
    path.write_text("rules = []\n")
    why = {"read-only": "may not be written", "gone": "it is gone", "a folder": "cannot be read: it is a folder",
           "not text": "not in UTF-8", "no room": "could not be written: No space left on device"}[kind]  # fmt: skip
    if kind == "read-only":
        path.chmod(0o444)
    elif kind in ("gone", "a folder"):
        path.unlink()
        if kind == "a folder":
            path.mkdir()
    elif kind == "not text":
        path.write_bytes(b"\xff\xfe")
    else:

        def full(number: int) -> None:
            raise OSError(28, "No space left on device")

        monkeypatch.setattr(os, "fsync", full)
    before = path.read_bytes() if path.is_file() else None
    with pytest.raises(NotWrittenError, match=why):
        change_file(path, lambda text: with_rule(text, NEW))
    assert (path.read_bytes() if path.is_file() else None) == before
    assert len(os.listdir(tmp_path)) == (0 if kind == "gone" else 1)


def test_what_change_refuses_is_not_written(tmp_path: Path) -> None:
    path = tmp_path / "agentperm.toml"
    path.write_text("rules = []\n")

    def change(text: str) -> str:
        raise ValueError("no")

    with pytest.raises(ValueError, match="no"):
        change_file(path, change)
    assert path.read_text() == "rules = []\n"


def test_whoever_reads_meanwhile_finds_the_old_text_or_the_new_one(tmp_path: Path) -> None:
    path, over, found = tmp_path / "agentperm.toml", threading.Event(), set[int]()
    path.write_text("rules = []\n")

    def read() -> None:
        while not over.is_set():
            found.add(len(tomllib.loads(path.read_text())["rules"]))

    reader = threading.Thread(target=read)
    reader.start()
    try:
        for n in range(10):
            assert change_file(path, lambda text, n=n: with_rule(text, f"allow a(n={n})"))  # type: ignore[misc]
    finally:
        over.set()
        reader.join(10)
    assert tomllib.loads(path.read_text())["rules"] == [f"allow a(n={n})" for n in range(10)]
    assert found <= set(range(11))


# ---------------------------------------------------------------------- properties

STRINGS = st.sampled_from(
    ["'deny b'", '"ask c"', "'''deny\nd'''", '"""x ] # \\" , """', "'# ] ,'", '"\\\\"', "''''a'''''"]
)
COMMENTS = st.sampled_from(["", " # x", " # ', ] [", " # rules = [", ' # """'])
GAPS = st.sampled_from(["", " ", "\n", "\n  ", "\n\t", "\n\n    "])
ITEMS = st.lists(st.tuples(GAPS, STRINGS, GAPS, COMMENTS), max_size=4)


@st.composite
def files(draw: st.DrawFn) -> str:
    """Return the text of a TOML file with rules in it, written in any way."""
    parts = []
    items = draw(ITEMS)
    for place, (gap, string, space, comment) in enumerate(items):
        comma = "," if place < len(items) - 1 or draw(st.booleans()) else ""
        parts.append(f"{gap}{string}{space}{comma}{comment}{chr(10) if comment else ''}")
    rules = f"rules = [{''.join(parts)}{draw(GAPS)}]{draw(COMMENTS)}\n"
    many = "m = '''\n[x]\nrules = [\n'''\n"
    before = draw(st.sampled_from(["", "version = 1\n", "# rules = [\n", "a = [1, [2], '[x]']\n", many]))
    after = draw(st.sampled_from(["", "\n[users.ann]\nrules = ['deny z']\n", "z = 1\n[t]\n", "[[u]]\nrules = []\n"]))
    return before + draw(st.sampled_from([rules, rules, ""])) + after


@given(files(), st.integers(0, 5), st.sampled_from([NEW, "deny a(b=it's)", 'allow a(b="x\\"")']))
@settings(max_examples=500)
def test_however_a_file_is_written_the_rule_is_added_or_the_file_is_left_alone(
    text: str, place: int, rule: str
) -> None:
    old = tomllib.loads(text)
    listed = old.get("rules", [])
    before = place if place < len(listed) else None
    new = with_rule(text, rule, before=before)
    at = len(listed) if before is None else before
    assert tomllib.loads(new) == {**old, "rules": [*listed[:at], rule, *listed[at:]]}
    left = iter(new)
    assert all(char in left for char in text if not char.isspace()), "something is gone, or in another order"
