"""No spelling turns a denied path into an allowed one, and none leads out of a folder that is allowed.

``AGENTPERM_PATH_EXAMPLES=100000`` makes a long run of it.
"""

from __future__ import annotations

import contextlib
import os
import random
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from urllib.parse import quote, unquote

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from path_folders import FILES, LINKS, Folders, make_folders

from agentperm_nb import ToolCall, tool
from agentperm_nb.json_values import freeze
from agentperm_nb.permissions.arguments import AllowByArguments, DenyByArguments
from agentperm_nb.permissions.builtin import AllowByDefault
from agentperm_nb.permissions.deciding import PermissionList, decide
from agentperm_nb.permissions.matching.lists import AnyOf
from agentperm_nb.permissions.matching.path_index import PathIndex
from agentperm_nb.permissions.matching.paths import PathPattern
from agentperm_nb.permissions.matching.reading import Where

EXAMPLES = int(os.environ.get("AGENTPERM_PATH_EXAMPLES", "400"))

pytestmark = [pytest.mark.law, pytest.mark.timeout(max(300, EXAMPLES // 20))]

many = settings(max_examples=EXAMPLES, deadline=None)


@pytest.fixture(scope="module")
def folders(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Folders]:
    made = make_folders(tmp_path_factory.mktemp("laws"))
    before = os.getcwd()
    os.chdir(made.base)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("HOME", str(made.top / "home"))
        yield made
    os.chdir(before)


# --- spellings that somebody opens as the same file -------------------------------------------------------------------

WAYS = {
    "secret": [
        "secret", "./secret", "project/out", "project/absolute", "project/chain", "project/chain3", "project/up/secret",
        "project/in/../../secret", "project/top{base}/secret", "alias/out", "project/out/back/../out",
        "nowhere/../secret", "{base}/secret", "../base/secret", "{top}/base_link/secret", "~/job/secret",
        "{top}/base_link/project/out", "~/../base/secret", "{home}/job/alias/absolute",
        "/proc/self/root{base}/secret", "/proc/self/cwd/secret", "project/through/../../secret",
    ],
    "secret/key.txt": ["project/out.txt", "alias/out.txt", "{top}/base_link/project/out.txt"],
}  # fmt: skip
"""Ways to a folder or a file: by its own name, and through links."""

Change = Callable[[random.Random, str], str]


def _somewhere(random: random.Random, text: str, found: str) -> int:
    """Return one of the places of a character, or -1."""
    places = [place for place, char in enumerate(text) if char in found]
    return random.choice(places) if places else -1


def _at(text: str, place: int, new: str) -> str:
    return text[:place] + new + text[place + 1 :] if place >= 0 else text


def in_slashes(*new: str) -> Change:
    return lambda random, text: _at(text, _somewhere(random, text, "/"), random.choice(new))


def after_names(*new: str) -> Change:
    def change(random: random.Random, text: str) -> str:
        places = [at for at, char in enumerate(text) if char == "/" and text[at - 1 : at].isalnum()]
        at = random.choice(places) if places else 0
        return text[:at] + random.choice(new) + text[at:] if places else text

    return change


def all_slashes(*new: str) -> Change:
    return lambda random, text: text.replace("/", random.choice(new))


def around(*pairs: str) -> Change:
    def change(random: random.Random, text: str) -> str:
        before, after = random.choice(pairs).split("|")
        return before + text + after

    return change


def letters(convert: Callable[[random.Random, str], str], count: int = 2) -> Change:
    def change(random: random.Random, text: str) -> str:
        for _ in range(count):
            place = _somewhere(random, text, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ")
            text = _at(text, place, convert(random, text[place])) if place >= 0 else text
        return text

    return change


def wide(random: random.Random, char: str) -> str:
    return chr(ord(char) + 0xFEE0)


def bold(random: random.Random, char: str) -> str:
    return chr(0x1D41A + ord(char.lower()) - ord("a")) if char.islower() else char


LOOKS = str.maketrans("aceopxysij", "\u0430\u0441\u0435\u043e\u0440\u0445\u0443\u0455\u0456\u0458")
UNSEEN = ["\u200b", "\u200c", "\u00ad", "\u2060", "\ufeff", "\ufe0f"]


def encoded(random: random.Random, char: str) -> str:
    return f"%{ord(char):02x}"


def encoded_twice(random: random.Random, char: str) -> str:
    return f"%25{ord(char):02X}"


def swapped(random: random.Random, char: str) -> str:
    return char.swapcase()


def quoted(random: random.Random, char: str) -> str:
    return char + random.choice(["''", '""'])


def followed(random: random.Random, char: str) -> str:
    return char + random.choice(UNSEEN)


# In any part of a path, those that are links included.
CHANGES: dict[str, Change] = {
    "slashes": in_slashes("//", "/./", "///", "/././/"),
    "back": in_slashes("/nowhere/../", "/x/y/../../", "/%ff/../"),
    "end": around("|/", "|/.", "|//", "|/./"),
    "backslash": in_slashes("\\"),
    "backslashes": all_slashes("\\"),
    "wide slash": in_slashes("／", "∕", "⁄", "＼", "∖"),
    "wide letters": letters(wide),
    "bold letters": letters(bold),
    "unseen": letters(followed),
    "encoded": letters(encoded),
    "encoded twice": letters(encoded_twice, 1),
    "quotes": letters(quoted),
    "encoded slash": in_slashes("%2f", "%2F", "%5c", "%252f"),
}
AROUND = around("|", "|", " |", "| ", "\u3000|\u00a0", "'|'", '"|"', ' " | " ')
# In names that are no links: in another case a link has another name, and nobody opens one that only looks like it.
OF_NAMES: dict[str, Change] = {
    "upper": lambda random, text: text.upper(),
    "case": letters(swapped, 3),
    "alike": lambda random, text: text.translate(LOOKS),
    "long s": lambda random, text: text.replace("s", "ſ", 1),
    "kelvin": lambda random, text: text.replace("k", "\u212a"),
}

DENIED = ["secret", "secret/key.txt", "secret/inner/deep.key", "secret/inner", "secret/new.txt", "secret/a/b/c.txt"]
PATTERNS = [
    "secret/**",
    "{base}/secret/**",
    "**/secret/**",
    "/**/secret/**",
    "sec*/**",
    "[s]ecret/**",
    "~/job/secret/**",
]

MORE_PATTERNS = [
    "**/.env", "*.txt", "**/*.txt", "**/sub/*", "project/out/**", "project/out.txt", "project/loop/**", "secret\\*",
    "ünï/**", "**/ünï.txt", "~", "/", "/**", "/*/**", "project/", "**/key.txt", "**/KEY.*", "project/[a-z].txt",
    "alias/in/deep.txt", "**/project/**/deep.*", "../**", "/proc/**",
]  # fmt: skip

seeds = st.randoms(use_true_random=False)


@st.composite
def spellings_of_a_denied_path(draw: st.DrawFn) -> tuple[str, str]:
    """Return (the path, a spelling of it with ``{base}`` and the like in it)."""
    own, chance = draw(st.sampled_from(DENIED)), draw(seeds)
    file = own.partition("/")[2]
    start = draw(st.sampled_from(WAYS["secret"]))
    ways = WAYS.get(own, [])
    if ways and draw(st.booleans()):
        start, file = draw(st.sampled_from(ways)), ""
    for name in draw(st.lists(st.sampled_from(sorted(OF_NAMES)), max_size=2)):
        file = OF_NAMES[name](chance, file)
        if start.endswith("/secret") or start == "secret":
            start = start.removesuffix("secret") + OF_NAMES[name](chance, "secret")
    return own, f"{start}/{file}" if file else start


def _spelt(folders: Folders, text: str, changes: list[str], chance: random.Random, url: int) -> str:
    text = folders.named(text)
    for name in changes:
        text = CHANGES[name](chance, text)
    if url and text.startswith("/"):
        path = quote(text, safe="/%\\:") if chance.random() < 0.5 else text
        text = ["", "file://", "file:", "FILE://localhost"][url] + path
    return AROUND(chance, text)


@many
@given(
    own=spellings_of_a_denied_path(),
    pattern=st.sampled_from(PATTERNS),
    changes=st.lists(st.sampled_from(sorted(CHANGES)), max_size=5),
    chance=seeds,
    url=st.sampled_from([0, 0, 1, 2, 3]),
)
def test_no_spelling_turns_a_denied_path_into_an_allowed_one(
    folders: Folders, own: tuple[str, str], pattern: str, changes: list[str], chance: random.Random, url: int
) -> None:
    text = _spelt(folders, own[1], changes, chance, url)
    assert folders.denied(pattern, own[0])
    reading = folders.read(pattern, text)
    assert reading.wide, (text, reading)
    assert not reading.negated().narrow


@tool(paths=["targets"])
def read_files(targets: list[str]) -> str:
    """Read files."""
    return "done"


@many
@given(
    own=spellings_of_a_denied_path(),
    changes=st.lists(st.sampled_from(sorted(CHANGES)), max_size=3),
    chance=seeds,
    others=st.lists(
        st.sampled_from(["project/a.txt", "notes.txt", "", "project/loop", 5, None, ["secret"]]), max_size=3
    ),
)
def test_no_place_in_a_list_and_no_order_of_rules_lifts_a_deny(
    folders: Folders, own: tuple[str, str], changes: list[str], chance: random.Random, others: list[object]
) -> None:
    values = [*others, _spelt(folders, own[1], changes, chance, 0)]
    rules = [
        DenyByArguments("read_files", targets="secret/**"),
        AllowByArguments("read_files", targets="**"),
        AllowByArguments("read_files", targets=AnyOf(PathPattern("**"))),
        AllowByDefault(),
    ]
    chance.shuffle(values)
    chance.shuffle(rules)
    decision = decide(PermissionList(rules), None, ToolCall("read_files", {"targets": values}), read_files)
    assert decision.kind == "deny", values


# --- what an allow lets pass ------------------------------------------------------------------------------------------

NAMES = [
    *sorted({name for path in [*FILES, *LINKS] for name in path.split("/")}),
    "..", "..", "..", ".", "", "~", "new", "SECRET", "Project", "ｐroject", "．．", "‥", "․․", "..\u200b", "%2e%2e",
    "%2E.", "a%2fb", "...", "a?", "a#", "..%5c", "x\\..\\..\\y", "..\\", "$HOME", "~root", "%70roject", "'..'", " ..",
    ".. ", "[id].tsx",
]  # fmt: skip
STARTS = [
    "", "", "", "project/", "project/", "project/sub/", "./", "/", "//", "{base}/", "{base}/project/",
    "//{base}/project/", "~/", "~/job/project/", "../base/project/", "file:", "file://", "file://{base}/project/",
    "file:///C:/", "file://C:/", "file:///{base}/project\\", "file:\\", "file:~/",
    "file:project/", "/proc/self/cwd/project/", "/proc/self/root{base}/project/", "{top}/base_link/project/", "alias/",
    " project/", "'project/", "PROJECT/", "project\\", "project／", "project/../", "secret/../project/", "C:\\",
    "\\\\?\\", "http://",
]  # fmt: skip
ROOTS = {
    "project/**": "base/project",
    "project/*": "base/project",
    "project/*/*": "base/project",
    "project/sub/**": "base/project/sub",
    "**": "base",
    "./**": "base",
    "*": "base",
    "**/*.txt": "base",
    "{base}/project/**": "base/project",
    "~/**": "home",
    "~/.ssh/*": "home/.ssh",
    "../outside/**": "outside",
    "alias/**": "base/project",
    "[p]roject/**": "base/project",
}
"""Patterns, and the folder that nothing may get out of."""


@st.composite
def any_paths(draw: st.DrawFn) -> str:
    start = draw(st.sampled_from(STARTS))
    names = draw(st.lists(st.sampled_from(NAMES), max_size=7))
    separators = draw(st.lists(st.sampled_from(["/", "/", "/", "/", "//", "\\", "／", "/./"]), min_size=7, max_size=7))
    text = start + "".join(name + separator for name, separator in zip(names, separators, strict=False))
    if draw(st.booleans()):
        text = text.rstrip("/\\")
    for name in draw(st.lists(st.sampled_from(sorted(CHANGES | OF_NAMES)), max_size=2)):
        text = (CHANGES | OF_NAMES)[name](draw(seeds), text)
    return text


def openers(text: str, folders: Folders) -> Iterator[str]:
    """Yield the paths that tools of different habits hand to ``open``."""
    yield text
    yield os.path.normpath(text)
    yield os.path.abspath(text)
    yield text.strip()
    yield text.strip("'\" ")
    yield text.replace("\\", "/")
    yield re.sub(r"[\\'\"]", "", text)
    yield unquote(text)
    yield unquote(unquote(text))
    home = str(folders.top / "home")
    for spelt in (text, text.strip(), unquote(text)):
        if spelt == "~" or spelt.startswith(("~/", "~\\")):
            yield home + spelt[1:]
            yield os.path.normpath(home + spelt[1:])
        if spelt.lower().startswith("file:"):
            path = spelt[5:]
            path = path.removeprefix("//localhost") if path.startswith("//localhost/") else path
            path = "/" + path.lstrip("/") if path.startswith("/") else path
            yield path
            yield unquote(path)
            yield unquote(path.partition("?")[0].partition("#")[0])
            yield path.replace("\\", "/")


def _inside(path: str, root: str) -> bool:
    return path == root or path.startswith(root + "/")


@many
@given(text=any_paths(), pattern=st.sampled_from(sorted(ROOTS)))
def test_nothing_that_an_allow_lets_pass_gets_out_of_its_folder(folders: Folders, text: str, pattern: str) -> None:
    text = folders.named(text)
    reading = folders.read(pattern, text)
    if not reading.narrow:
        return
    assert reading.wide
    root = os.path.realpath(folders.top / ROOTS[pattern])
    for path in openers(text, folders):
        full = os.path.join(folders.base, path)
        real = os.path.realpath(full)
        if not os.path.isdir(os.path.dirname(full)) and not os.path.lexists(full):
            continue  # no open can make it
        assert _inside(real, root), (text, path, real)
        with contextlib.suppress(OSError):
            said = Path(path).read_text()
            assert said.startswith(ROOTS[pattern] + "/"), (text, path, said)


@many
@given(text=st.one_of(any_paths(), st.text(max_size=30)), pattern=st.sampled_from(sorted(ROOTS)))
def test_a_reading_never_raises_and_an_allow_is_never_wider_than_a_deny(
    folders: Folders, text: str, pattern: str
) -> None:
    for windows in (False, True):
        where = folders.where(windows=windows, folder="C:\\base", home="C:\\home") if windows else folders.where()
        reading = PathPattern(folders.named(pattern) if not windows else pattern.replace("{base}", "C:/base")).read(
            folders.named(text), where
        )
        assert reading.wide or not reading.narrow
        opposite = reading.negated()
        assert not (reading.narrow and opposite.narrow)
        assert reading.wide or opposite.wide


@settings(max_examples=max(100, EXAMPLES // 4), deadline=None)
@given(text=st.one_of(any_paths(), st.text(max_size=30)), chance=seeds)
def test_an_index_of_patterns_leaves_none_out_that_matches(folders: Folders, text: str, chance: random.Random) -> None:
    texts = [folders.named(one) for one in [*PATTERNS, *ROOTS, *MORE_PATTERNS]]
    chance.shuffle(texts)
    patterns, path = [PathPattern(one) for one in texts], folders.named(text)
    index, where = PathIndex(enumerate(patterns)), folders.where()
    matching = {number for number, pattern in enumerate(patterns) if pattern.read(path, where).wide}
    assert matching <= set(index.candidates(path, where))
    assert matching <= set(index.candidates(path, where))  # with what it keeps


# --- Windows ----------------------------------------------------------------------------------------------------------

WINDOWS_STARTS = [
    "", ".\\", "project\\..\\", "C:\\base\\", "c:/BASE/", "\\base\\", "~\\..\\base\\", "\\\\?\\C:\\base\\",
    "\\\\.\\c:\\base\\", "C:", "\\\\localhost\\C$\\base\\", "//127.0.0.1/c$/base/", "file:///C:/base/",
    "file:///c|/base/", "\\??\\C:\\base\\", "..\\base\\", "..\\BASE~1\\", "nowhere\\..\\",
]  # fmt: skip
WINDOWS_CHANGES: dict[str, Change] = {
    "slashes": all_slashes("\\"),
    "slash": in_slashes("\\", "\\\\", "/", "//", "\\.\\"),
    "ends": after_names(".", " ", "..", " . ", "::$DATA"),
    "end": around("|.", "| ", "|...", "|\\", "| .", "|::$DATA", "|:stream"),
    "case": letters(swapped, 4),
    "wide letters": letters(wide),
    "alike": lambda random, text: text.translate(LOOKS),
    "unseen": letters(followed),
    "encoded": letters(encoded),
    "short": lambda random, text: text.replace("secret", random.choice(["SECRET~1", "secret~9", "SE12AB~1"])),
    "stream": lambda random, text: text.replace("secret", "secret::$INDEX_ALLOCATION", 1),
}


@many
@given(
    start=st.sampled_from(WINDOWS_STARTS),
    file=st.sampled_from(["secret", "secret/key.txt", "secret/inner/deep.key"]),
    changes=st.lists(st.sampled_from(sorted(WINDOWS_CHANGES)), max_size=4, unique=True),
    chance=seeds,
    pattern=st.sampled_from(["secret/**", "C:\\base\\secret\\**", "c:/BASE/Secret/**", "**/secret/**", "s*/**"]),
)
def test_no_windows_spelling_turns_a_denied_path_into_an_allowed_one(
    start: str, file: str, changes: list[str], chance: random.Random, pattern: str
) -> None:
    for name in changes:
        file = WINDOWS_CHANGES[name](chance, file)
    where = Where(folder="C:\\base", home="C:\\home", windows=True, links={})
    text = AROUND(chance, start + file)
    reading = PathPattern(pattern).read(text, where)
    assert reading.wide, (text, reading)


def test_the_values_of_these_laws_are_as_the_model_gives_them() -> None:
    assert freeze(["project/a.txt"]) == ["project/a.txt"]
