"""How paths are read that are spelt as on Windows; no file system is looked at."""

from __future__ import annotations

import os
from typing import Any

import pytest

from agentperm_nb.permissions.matching.links import LinkError, follow_on_windows
from agentperm_nb.permissions.matching.paths import PathPattern
from agentperm_nb.permissions.matching.reading import Reading, Where
from agentperm_nb.permissions.matching.windows import fits_short, is_short, parts_of_place

YES, NO = True, False

FOLDER, HOME = "C:\\Users\\ann\\base", "C:\\Users\\ann"

pytestmark = pytest.mark.skipif(os.name == "nt", reason="there, the file system is looked at as well")


def read(pattern: str, value: Any, **changes: Any) -> Reading:
    where = Where(**{"folder": FOLDER, "home": HOME, "windows": True, "links": {}, **changes})
    return PathPattern(pattern).read(value, where)


# (how it is spelt, whether a deny of secret/** denies it, whether an allow of project/** allows it)
SPELLINGS: list[tuple[str, bool, bool]] = [
    ("project\\a.txt", NO, YES),
    ("project/a.txt", NO, YES),
    ("project\\sub/deep.txt", NO, YES),
    ("project", NO, YES),
    ("project\\", NO, YES),
    (".\\project\\.\\a.txt", NO, YES),
    ("project\\..\\project\\a.txt", NO, YES),
    ("PROJECT\\A.TXT", NO, YES),
    ("C:\\Users\\ann\\base\\project\\a.txt", NO, YES),
    ("c:/users/ANN/base/project/a.txt", NO, YES),
    ("\\Users\\ann\\base\\project\\a.txt", NO, YES),
    ("/Users/ann/base/project/a.txt", NO, YES),
    ("~\\base\\project\\a.txt", NO, YES),
    ("~/base/project/a.txt", NO, YES),
    ("project\\.hidden", NO, YES),
    ("project\\with blank.txt", NO, YES),
    ("project\\ünï.txt", NO, YES),
    ("file:///C:/Users/ann/base/project/a.txt", NO, YES),
    ("file:///c%3A/Users/ann/base/project/a.txt", NO, NO),
    ("D:\\Users\\ann\\base\\project\\a.txt", NO, NO),
    ("projects\\a.txt", NO, NO),
    ("notes.txt", NO, NO),
    ("project\\..\\notes.txt", NO, NO),
    ("project\\..\\..\\..\\..\\..\\x", NO, NO),
    ("C:\\", NO, NO),
    ("\\", NO, NO),
    ("secret\\key.txt", YES, NO),
    ("secret/key.txt", YES, NO),
    ("SECRET", YES, NO),
    ("Secret\\KEY.txt", YES, NO),
    (".\\secret", YES, NO),
    ("project\\..\\secret\\key.txt", YES, NO),
    ("project/..\\secret/key.txt", YES, NO),
    ("C:\\Users\\ann\\base\\secret\\key.txt", YES, NO),
    ("c:\\USERS\\ann\\base\\secret\\key.txt", YES, NO),
    ("C:/Users/ann/base/secret/key.txt", YES, NO),
    ("C:\\\\Users\\\\ann\\\\base\\\\secret", YES, NO),
    ("\\Users\\ann\\base\\secret\\key.txt", YES, NO),
    ("C:\\..\\Users\\ann\\base\\secret\\key.txt", YES, NO),
    ("~\\base\\secret", YES, NO),
    # relative to a drive
    ("C:secret\\key.txt", YES, NO),
    ("c:secret", YES, NO),
    ("C:project\\a.txt", NO, NO),
    ("C:", NO, NO),
    ("D:secret\\key.txt", NO, NO),
    # dots and blanks at the end of a name
    ("secret.\\key.txt", YES, NO),
    ("secret \\key.txt", YES, NO),
    ("secret. . \\key.txt", YES, NO),
    ("secret...", YES, NO),
    ("secret\\key.txt.", YES, NO),
    ("project\\.. \\secret\\key.txt", YES, NO),
    ("project\\...\\a.txt", NO, NO),
    ("project.\\a.txt", NO, NO),
    ("project\\a.txt.", NO, NO),
    # streams
    ("secret\\key.txt:hidden", YES, NO),
    ("secret\\key.txt::$DATA", YES, NO),
    ("secret::$INDEX_ALLOCATION\\key.txt", YES, NO),
    ("secret:$I30:$INDEX_ALLOCATION", YES, NO),
    ("project\\a.txt:hidden", NO, NO),
    ("project\\a.txt::$DATA", NO, NO),
    ("notes.txt::$DATA", NO, NO),
    # short names
    ("SECRET~1\\key.txt", YES, NO),
    ("secret~2", YES, NO),
    ("SE1A2B~1\\key.txt", YES, NO),
    ("C:\\Users\\ann\\base\\SECRET~1", YES, NO),
    ("C:\\Users\\ann\\BASE~1\\secret\\key.txt", YES, NO),
    ("PROJEC~1\\a.txt", NO, NO),
    ("project\\LONGNA~1.TXT", NO, NO),
    ("OTHER~1\\key.txt", NO, NO),
    ("project\\notes~1backup.txt", NO, YES),
    # prefixes that switch off what the system does with a path
    ("\\\\?\\C:\\Users\\ann\\base\\secret\\key.txt", YES, NO),
    ("\\\\.\\C:\\Users\\ann\\base\\secret\\key.txt", YES, NO),
    ("//?/C:/Users/ann/base/secret/key.txt", YES, NO),
    ("\\??\\C:\\Users\\ann\\base\\secret\\key.txt", YES, NO),
    ("\\\\?\\C:\\Users\\ann\\base\\project\\..\\secret", YES, NO),
    ("\\\\?\\C:\\Users\\ann\\base\\project\\a.txt", NO, NO),
    # shares
    ("\\\\localhost\\C$\\Users\\ann\\base\\secret\\key.txt", YES, NO),
    ("//127.0.0.1/c$/Users/ann/base/secret/key.txt", YES, NO),
    ("\\\\?\\UNC\\localhost\\C$\\Users\\ann\\base\\secret", YES, NO),
    ("\\\\server\\D$\\Users\\ann\\base\\secret", NO, NO),
    ("\\\\server\\share\\secret\\key.txt", NO, NO),
    ("\\\\server", NO, NO),
    ("\\\\localhost\\C$\\Users\\ann\\base\\project\\a.txt", NO, NO),
    # URLs
    ("file:///C:/Users/ann/base/secret/key.txt", YES, NO),
    ("file:///C|/Users/ann/base/secret/key.txt", YES, NO),
    ("file://C:/Users/ann/base/secret/key.txt", YES, NO),
    ("file:///c:/users/ann/base/%73ecret", YES, NO),
    ("file:C:\\Users\\ann\\base\\secret", YES, NO),
    ("file:secret/key.txt", YES, NO),
    # characters
    ("ｓecret\\key.txt", YES, NO),
    ("secret＼key.txt", YES, NO),
    ("secret∖key.txt", YES, NO),
    ("Ｃ：\\Users\\ann\\base\\secret", YES, NO),
    ("s\u0435cret\\key.txt", YES, NO),
    ("se\u200bcret", YES, NO),
    ("project＼a.txt", NO, NO),
    ("%73ecret\\key.txt", YES, NO),
    (" secret\\key.txt", YES, NO),
    ("'secret\\key.txt'", YES, NO),
]  # fmt: skip


@pytest.mark.parametrize(("text", "denied", "allowed"), SPELLINGS, ids=[ascii(row[0]) for row in SPELLINGS])
def test_a_spelling_is_denied_and_allowed_as_the_table_says(text: str, denied: bool, allowed: bool) -> None:
    deny, allow = read("secret/**", text), read("project/**", text)
    assert (deny.wide, allow.narrow) == (denied, allowed), (deny, allow)
    assert deny.problem == allow.problem == ""
    assert allow.negated().wide is not allowed


UNREADABLE = [
    ("NUL", "a device, not a file"),
    ("project\\nul.txt", "a device, not a file"),
    ("COM1", "a device, not a file"),
    ("LPT²", "a device, not a file"),
    ("project\\CON:", "a device, not a file"),
    ("aux .txt", "a device, not a file"),
    ("\\\\.\\PhysicalDrive0", "a device, not a file"),
    ("\\\\.\\pipe\\x", "a device, not a file"),
    ("\\\\?\\Volume{0}\\x", "a device, not a file"),
    ("\\\\?\\GLOBALROOT\\Device\\x", "a device, not a file"),
    ("\\\\?\\C:secret", "a device, not a file"),
    ("project\\a<b", "a path with a character that no name on Windows has"),
    ("project\\a|b", "a path with a character that no name on Windows has"),
    ('project\\a"b', "a path with a character that no name on Windows has"),
    ("project\\*.txt", "a path with a wildcard, which may stand for any name"),
    ("%APPDATA%\\x", "a path with a variable or a command that nobody has expanded"),
    ("~bob\\x", "a path in the home folder of another user"),
    ("project\\%2e%2e\\secret", "a path with an encoded dot, slash or control character"),
    ("https://example.com", "a URL, not a path"),
    ("file://server/share/x", "a file of another machine"),
    ("", "an empty text, not a path"),
    ("a\0", "a text with control characters, not a path"),
    (5, "a number, not a path"),
]


@pytest.mark.parametrize(("value", "problem"), UNREADABLE, ids=[ascii(row[0]) for row in UNREADABLE])
def test_what_cannot_be_read_says_why(value: Any, problem: str) -> None:
    reading = read("project/**", value)
    assert (reading.problem, reading.wide, reading.narrow) == (problem, YES, NO)


PATTERNS: list[tuple[str, str, bool, bool]] = [
    ("**/.env", "project\\.env", YES, YES),
    ("**/.env", ".ENV", YES, YES),
    ("**/.env", "D:\\x\\.env", YES, NO),
    ("**/.env", "\\\\server\\share\\.env", YES, NO),
    ("**\\.env", "project\\.env", YES, YES),
    ("C:\\Users\\*\\secret\\**", "C:\\Users\\bob\\secret\\x", YES, YES),
    ("C:/Users/*/secret/**", "c:\\users\\bob\\SECRET\\x", YES, YES),
    ("C:\\Users\\*\\secret\\**", "..\\..\\bob\\secret", YES, YES),
    ("C:/Users/*/secret/**", "C:\\Users\\bob\\SECRET~1\\x", YES, NO),
    ("C:/Users/*/secret/**", "C:\\Users\\BOBBY~1\\secret\\x", YES, NO),
    ("\\\\?\\C:\\x\\**", "C:\\x\\y", YES, YES),
    ("\\\\server\\share\\**", "\\\\SERVER\\Share\\x", YES, YES),
    ("//server/share/**", "\\\\server\\share", YES, YES),
    ("//server/share/**", "\\\\server\\other\\x", NO, NO),
    ("/Windows/**", "C:\\Windows\\win.ini", YES, YES),
    ("/Windows/**", "D:\\Windows\\win.ini", NO, NO),
    ("~\\.ssh\\**", "~/.ssh/id_rsa", YES, YES),
    ("..\\other\\**", "C:\\Users\\ann\\other\\x", YES, YES),
    ("../../../../x", "C:\\x", YES, YES),
    ("secret.", "secret", YES, YES),
    ("project/[!b].txt", "project/a.txt", YES, YES),
    ("project/[!b].txt", "project/B.txt", YES, NO),
    ("project/straße.txt", "project/STRASSE.TXT", YES, NO),
    ("project/café.txt", "project/cafe\u0301.txt", YES, NO),
    ("secretfolder/**", "SECRET~1/x", YES, NO),
    ("my secret folder/**", "MYSECR~1/x", YES, NO),
    (".gitignore", "GITIGN~1", YES, NO),
    ("notes.html", "NOTES~1.HTM", YES, NO),
    ("notes.html", "NOTES~1.TXT", NO, NO),
    ("ünï/**", "X~1/y", YES, NO),
]


@pytest.mark.parametrize(
    ("pattern", "value", "denied", "allowed"), PATTERNS, ids=[ascii(f"{row[0]} of {row[1]}") for row in PATTERNS]
)
def test_a_pattern_matches_as_the_table_says(pattern: str, value: str, denied: bool, allowed: bool) -> None:
    reading = read(pattern, value)
    assert (reading.wide, reading.narrow) == (denied, allowed), reading


@pytest.mark.parametrize(
    ("path", "parts"),
    [
        ("C:\\Users\\ann", ("C:", "Users", "ann")),
        ("C:/Users/./bob/../ann/", ("C:", "Users", "ann")),
        ("C:\\", ("C:",)),
        ("C:\\..\\x", ("C:", "x")),
        ("\\\\server\\share\\a\\..\\..\\b", ("\\\\server", "share", "b")),
        ("\\\\server", ("\\\\server",)),
    ],
)
def test_a_place_is_taken_apart(path: str, parts: tuple[str, ...]) -> None:
    assert parts_of_place(path) == parts


@pytest.mark.parametrize(
    ("parts", "asked", "answer", "leads"),
    [
        (("C:", "Users", "ANN~1"), "C:/Users/ANN~1/", "C:\\Users\\annabel", "C:/Users/annabel"),
        (("C:",), "C:/", "C:\\", "C:/"),
        (("\\\\server", "share", "x"), "\\\\server/share/x/", "\\\\?\\UNC\\server\\share\\y", "//server/share/y"),
        (("C:", "x"), "C:/x/", "\\\\?\\C:\\y", "C:/y"),
    ],
    ids=["short", "drive", "share", "prefix"],
)
def test_the_system_says_where_a_path_leads(
    monkeypatch: pytest.MonkeyPatch, parts: tuple[str, ...], asked: str, answer: str, leads: str
) -> None:
    monkeypatch.setattr(os.path, "realpath", {asked: answer}.__getitem__)
    assert follow_on_windows(parts) == leads


def test_what_the_system_does_not_tell_cannot_be_followed(monkeypatch: pytest.MonkeyPatch) -> None:
    def failing(path: str) -> str:
        raise OSError(5, "no")

    monkeypatch.setattr(os.path, "realpath", failing)
    with pytest.raises(LinkError, match="a path that cannot be looked up"):
        follow_on_windows(("C:", "x"))


def test_a_folder_on_a_share_is_a_folder() -> None:
    folder = "\\\\server\\share\\base"
    assert read("project/**", "project\\a.txt", folder=folder).narrow
    assert read("project/**", "\\\\server\\share\\base\\project", folder=folder).narrow
    assert read("secret/**", "\\base\\secret", folder=folder).wide
    assert read("secret/**", "..\\base\\secret", folder=folder).wide
    assert read("/x/**", "\\x", folder=folder).narrow


def test_a_short_name_is_one_of_eight_and_three_characters() -> None:
    assert [name for name in ["PROGRA~1", "a~1", "FILE~12.TXT", "x~1.", "MYDOCU~1.HTM"] if not is_short(name)] == []
    assert [
        name for name in ["notes", "~1", "longername~1", "a~b", "a~1.html", "a.b~1", "~$a.doc"] if is_short(name)
    ] == []
    assert fits_short("progra~1", "program files")
    assert not fits_short("progra~1", "windows")
    assert not fits_short("progra", "program files")
