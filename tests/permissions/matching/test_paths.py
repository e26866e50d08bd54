"""How a path is read: each spelling with what a deny of ``secret/**`` and an allow of ``project/**`` make of it."""

from __future__ import annotations

import os
import pickle
from pathlib import Path
from typing import Any

import pytest
from path_folders import Folders, make_folders

from agentperm_nb.json_values import freeze
from agentperm_nb.permissions.matching import links
from agentperm_nb.permissions.matching.paths import PathPattern
from agentperm_nb.permissions.matching.reading import ABSENT, Where

YES, NO = True, False


@pytest.fixture(scope="module")
def folders(tmp_path_factory: pytest.TempPathFactory) -> Folders:
    return make_folders(tmp_path_factory.mktemp("paths"))


# (how it is spelt, whether a deny of secret/** denies it, whether an allow of project/** allows it)
SPELLINGS: list[tuple[str, bool, bool]] = [
    # plain
    ("project/a.txt", NO, YES),
    ("project", NO, YES),
    ("project/sub", NO, YES),
    ("project/sub/deep.txt", NO, YES),
    ("project/sub/new/er/file.txt", NO, YES),
    ("project/new.txt", NO, YES),
    ("project/.env", NO, YES),
    ("project/.hidden/x.txt", NO, YES),
    ("project/with blank.txt", NO, YES),
    ("project/a.txt.bak~", NO, YES),
    ("project/#a.txt#", NO, YES),
    ("project/a&b;c'd(e)!.txt", NO, YES),
    ("project/[id].tsx", NO, YES),
    ("project/{x}.txt", NO, YES),
    ("project/-rf", NO, YES),
    ("project/--output=x", NO, YES),
    ("project/...", NO, YES),
    ("project/.../x", NO, YES),
    ("project/..a", NO, YES),
    ("project/a..", NO, YES),
    ("project/100%.txt", NO, YES),
    ("project/50%off.txt", NO, YES),
    ("project/%", NO, YES),
    ("project/a:b.txt", NO, YES),
    ("project/2024-01-01T12:00:00.log", NO, YES),
    ("project/~", NO, YES),
    ("project/~ann", NO, YES),
    ("project/price$", NO, YES),
    ("project/$5.txt", NO, YES),
    ("./ secret/key.txt", YES, NO),
    ("x/../ secret/key.txt", YES, NO),
    ("./secret /key.txt", YES, NO),
    ("./\u3000secret\u00a0/key.txt", YES, NO),
    ("./\u200b secret/key.txt", YES, NO),
    ("project/ .. /secret/key.txt", YES, NO),
    ("project/%20../secret/key.txt", YES, NO),
    ("./ project/a.txt", NO, NO),
    ("projects/b.txt", NO, NO),
    ("projec", NO, NO),
    ("notes.txt", NO, NO),
    (".", NO, NO),
    ("..", NO, NO),
    ("/", NO, NO),
    ("/etc/passwd", NO, NO),
    ("{top}/outside/x.txt", NO, NO),
    ("secret", YES, NO),
    ("secret/key.txt", YES, NO),
    ("secret/inner/deep.key", YES, NO),
    ("secret/new.txt", YES, NO),
    ("secrets/x", NO, NO),
    ("x/secret/key.txt", NO, NO),
    # dots and slashes
    ("./project/a.txt", NO, YES),
    ("project/./a.txt", NO, YES),
    ("project//a.txt", NO, YES),
    ("project/", NO, YES),
    ("project/.", NO, YES),
    ("project/sub/..", NO, YES),
    ("project/sub/../a.txt", NO, YES),
    ("project/new/../a.txt", NO, YES),
    ("secret/../project/a.txt", NO, YES),
    ("project/../project/a.txt", NO, YES),
    ("../base/project/a.txt", NO, YES),
    ("project/..", NO, NO),
    ("project/../notes.txt", NO, NO),
    ("project/../../etc/passwd", NO, NO),
    ("project/../projects/b.txt", NO, NO),
    ("./secret/key.txt", YES, NO),
    (".//secret///key.txt", YES, NO),
    ("secret/", YES, NO),
    ("secret/.", YES, NO),
    ("secret//", YES, NO),
    ("secret/./key.txt", YES, NO),
    ("secret/inner/..", YES, NO),
    ("secret/inner/../key.txt", YES, NO),
    ("project/../secret/key.txt", YES, NO),
    ("project/sub/../../secret/key.txt", YES, NO),
    ("nothing/../secret/key.txt", YES, NO),
    ("../base/secret/key.txt", YES, NO),
    ("secret/../secret/key.txt", YES, NO),
    # absolute
    ("{base}/project/a.txt", NO, YES),
    ("//{base}//project/a.txt", NO, YES),
    ("/..{base}/project/a.txt", NO, YES),
    ("{base}/../base/project/a.txt", NO, YES),
    ("{base}/secret/key.txt", YES, NO),
    ("//{base}/secret/key.txt", YES, NO),
    ("///{base}/./secret//key.txt", YES, NO),
    ("/../..{base}/secret/key.txt", YES, NO),
    ("{top}/base_link/project/a.txt", NO, NO),
    ("{top}/base_link/secret/key.txt", YES, NO),
    ("{top}/home/job/secret/key.txt", YES, NO),
    # home
    ("~/job/secret/key.txt", YES, NO),
    ("~/../base/secret/key.txt", YES, NO),
    ("~/../base/project/a.txt", NO, YES),
    ("~//../base/./project/a.txt", NO, YES),
    ("~", NO, NO),
    ("~/.ssh/id_rsa", NO, NO),
    ("./~/../secret/key.txt", YES, NO),
    # blanks and quotes that many tools cut off
    (" project/a.txt", NO, NO),
    ("project/a.txt ", NO, YES),
    (" secret/key.txt", YES, NO),
    ("secret/key.txt ", YES, NO),
    ("\u3000secret/key.txt\u00a0", YES, NO),
    ("'secret/key.txt'", YES, NO),
    ('"secret/key.txt"', YES, NO),
    ('" ~/../base/secret/key.txt "', YES, NO),
    ("'project/a.txt'", NO, NO),
    # case
    ("SECRET/key.txt", YES, NO),
    ("Secret/KEY.TXT", YES, NO),
    ("sEcReT", YES, NO),
    ("project/../SECRET/key.txt", YES, NO),
    ("PROJECT/a.txt", NO, NO),
    ("project/A.TXT", NO, YES),
    # backslashes: a character of a name here, a slash elsewhere
    ("secret\\key.txt", YES, NO),
    (".\\secret\\key.txt", YES, NO),
    ("project\\..\\secret\\key.txt", YES, NO),
    ("project/..\\secret/key.txt", YES, NO),
    ("sec\\ret/key.txt", YES, NO),
    ("project\\a.txt", NO, NO),
    ("project/.\\./notes.txt", NO, NO),
    ("sec''ret/key.txt", YES, NO),
    ('s"ecre"t/key.txt', YES, NO),
    ("project/'..'/notes.txt", NO, NO),
    ("project/it's.txt", NO, YES),
    ("project/sub\\deep.txt", NO, YES),
    ("project/..\\..\\x", NO, NO),
    ("project/\\", NO, YES),
    # file: URLs
    ("file://{base}/secret/key.txt", YES, NO),
    ("file:{base}/secret/key.txt", YES, NO),
    ("file:////{base}/secret/key.txt", YES, NO),
    ("FILE://{base}/secret/key.txt", YES, NO),
    ("file://localhost{base}/secret/key.txt", YES, NO),
    ("file://LOCALHOST{base}/secret/key.txt", YES, NO),
    ("file:secret/key.txt", YES, NO),
    ("file:./secret/key.txt", YES, NO),
    ("file://{base}/secret/key.txt?x=1", YES, NO),
    ("file://{base}/secret/key.txt#top", YES, NO),
    ("file://{base}/%73ecret/key.txt", YES, NO),
    ("file://{base}/project/../secret/key.txt", YES, NO),
    ("file:\\\\\\{base}\\secret\\key.txt", YES, NO),
    ("  file://{base}/secret/key.txt", YES, NO),
    ("file://{base}/project/a.txt", NO, YES),
    ("file://{base}/project/with%20blank.txt", NO, YES),
    ("file:project/a.txt", NO, YES),
    ("file:///etc/passwd", NO, NO),
    ("file:///C:/project/a.txt", NO, NO),
    ("file://{base}/project\\", NO, NO),
    ("file://{base}/project/sub\\x", NO, YES),
    ("file://{base}/project/a?/../../notes.txt", NO, NO),
    # percent codes in a plain path
    ("%73ecret/key.txt", YES, NO),
    ("s%65cret/key.txt", YES, NO),
    ("%2573ecret/key.txt", YES, NO),
    ("secret%20/../secret/key.txt", YES, NO),
    ("project/%61.txt", NO, YES),
    ("project/with%20blank.txt", NO, YES),
    ("%70roject/a.txt", NO, NO),
    ("project/%7Eann", NO, YES),
    ("%73ecret/%ff/../key.txt", YES, NO),
    ("%73ecret/%zz/../key.txt", YES, NO),
    ("project/%ff.txt", NO, YES),
    # compatibility forms, letters that look alike, characters that are not seen
    ("ｓｅｃｒｅｔ/key.txt", YES, NO),
    ("ＳＥＣＲＥＴ/key.txt", YES, NO),
    ("secret／key.txt", YES, NO),
    ("project／..／secret／key.txt", YES, NO),
    ("．/secret/key.txt", YES, NO),
    ("project/‥/secret/key.txt", YES, NO),
    ("project/․․/secret/key.txt", YES, NO),
    ("secret∕key.txt", YES, NO),
    ("secret⁄key.txt", YES, NO),
    ("project∖..∖secret∖key.txt", YES, NO),
    ("ſecret/key.txt", YES, NO),
    ("s\u0435cret/key.txt", YES, NO),
    ("\u0455\u0435\u0441r\u0435t/key.txt", YES, NO),
    ("se\u200bcret/key.txt", YES, NO),
    ("sec\u00adret/key.txt", YES, NO),
    ("\ufeffsecret/key.txt", YES, NO),
    ("secret\u202e/key.txt", YES, NO),
    ("se\ufe0fcret/key.txt", YES, NO),
    ("𝐬𝐞𝐜𝐫𝐞𝐭/key.txt", YES, NO),
    ("ⓢⓔⓒⓡⓔⓣ/key.txt", YES, NO),
    ("～/../base/secret/key.txt", YES, NO),
    ("ｐroject/a.txt", NO, NO),
    ("рroject/a.txt", NO, NO),
    ("project／a.txt", NO, NO),
    ("project/．．/notes.txt", NO, NO),
    ("project/a․txt", NO, NO),
    ("project/℀.txt", NO, NO),
    ("project/.\u200b./notes.txt", NO, NO),
    ("project/ünï.txt", NO, YES),
    ("project/u\u0308ni\u0308.txt", NO, YES),
    ("project/資料.txt", NO, YES),
    ("project/👩\u200d💻.txt", NO, YES),
    ("project/wait….txt", NO, YES),
    ("project/½ cup.txt", NO, NO),
    ("project/ﬁle.txt", NO, YES),
    # links
    ("project/in", NO, YES),
    ("project/in/deep.txt", NO, YES),
    ("project/in/new.txt", NO, YES),
    ("project/in.txt", NO, YES),
    ("project/broken", NO, YES),
    ("project/out", YES, NO),
    ("project/out/key.txt", YES, NO),
    ("project/out/new/er.txt", YES, NO),
    ("project/absolute/key.txt", YES, NO),
    ("project/out.txt", YES, NO),
    ("project/chain", YES, NO),
    ("project/chain/inner/deep.key", YES, NO),
    ("project/broken_out", YES, NO),
    ("project/out/../key.txt", NO, NO),
    ("project/out/../secret/key.txt", YES, NO),
    ("project/out/..", NO, NO),
    ("project/in/../a.txt", NO, YES),
    ("project/up/secret/key.txt", YES, NO),
    ("project/up/project/a.txt", NO, YES),
    ("project/up/notes.txt", NO, NO),
    ("project/top{base}/secret/key.txt", YES, NO),
    ("project/top/etc/passwd", NO, NO),
    ("project/top/../out/key.txt", YES, NO),
    ("nowhere/../project/up/../base/secret/key.txt", YES, NO),
    ("project/outside/x.txt", NO, NO),
    ("project/through", YES, NO),
    ("secret/back", YES, NO),
    ("secret/door/x.txt", YES, NO),
    ("alias/a.txt", NO, NO),
    ("alias/out/key.txt", YES, NO),
    ("./project//out/./key.txt", YES, NO),
    ("PROJECT/../project/out/key.txt", YES, NO),
    ("%70roject/out/key.txt", YES, NO),
    ("ｐｒｏｊｅｃｔ/out/key.txt", YES, NO),
    ("project\\out\\key.txt", YES, NO),
    ("file://{base}/project/out/key.txt", YES, NO),
    ("/proc/self/root{base}/secret/key.txt", YES, NO),
]  # fmt: skip


def test_the_table_is_long_and_tells_each_spelling_once() -> None:
    assert len({text for text, _, _ in SPELLINGS}) == len(SPELLINGS) >= 200


@pytest.mark.parametrize(("text", "denied", "allowed"), SPELLINGS, ids=[ascii(row[0]) for row in SPELLINGS])
def test_a_spelling_is_denied_and_allowed_as_the_table_says(
    folders: Folders, text: str, denied: bool, allowed: bool
) -> None:
    deny, allow = folders.read("secret/**", text), folders.read("project/**", text)
    assert (deny.wide, allow.narrow) == (denied, allowed), (deny, allow)
    assert deny.problem == allow.problem == ""
    # The opposite of a pattern: a deny of all but project/**, an allow of all but secret/**.
    assert allow.negated().wide is not allowed
    assert deny.negated().narrow is not denied


UNREADABLE: list[tuple[Any, str]] = [
    (None, "null, not a path"),
    (True, "a boolean, not a path"),
    (5, "a number, not a path"),
    (5.5, "a number, not a path"),
    (["secret"], "a list, not a path"),
    ({"path": "secret"}, "an object, not a path"),
    (b"secret", "bytes, not a path"),
    ("", "an empty text, not a path"),
    ("  ", "an empty text, not a path"),
    ("\u3000", "an empty text, not a path"),
    ("secret\0", "a text with control characters, not a path"),
    ("notes\n.txt", "a text with control characters, not a path"),
    ("secret/key.txt\r\n", "a text with control characters, not a path"),
    ("a\tb", "a text with control characters, not a path"),
    ("a\x1b[2K", "a text with control characters, not a path"),
    ("a\x85b", "a text with control characters, not a path"),
    ("a\u2028b", "a text with control characters, not a path"),
    ("a\ud800b", "a text with half of a surrogate pair, which is no character"),
    ("a\udce4b", "a text with half of a surrogate pair, which is no character"),
    ("$HOME/x", "a path with a variable or a command that nobody has expanded"),
    ("${HOME}/x", "a path with a variable or a command that nobody has expanded"),
    ("project/$USER", "a path with a variable or a command that nobody has expanded"),
    ("project/$(whoami)", "a path with a variable or a command that nobody has expanded"),
    ("project/`whoami`", "a path with a variable or a command that nobody has expanded"),
    ("%USERPROFILE%\\x", "a path with a variable or a command that nobody has expanded"),
    ("%ProgramFiles(x86)%", "a path with a variable or a command that nobody has expanded"),
    ("＄ＨＯＭＥ/x", "a path with a variable or a command that nobody has expanded"),
    ("~root/x", "a path in the home folder of another user"),
    ("~root", "a path in the home folder of another user"),
    (" ~root/x", "a path in the home folder of another user"),
    ("~+/x", "a path in the home folder of another user"),
    ("%7Eroot/x", "a path in the home folder of another user"),
    ("http://example.com/x", "a URL, not a path"),
    ("HTTPS://example.com", "a URL, not a path"),
    (" ftp://example.com", "a URL, not a path"),
    ("s3://bucket/key", "a URL, not a path"),
    ("zip:/a.zip", "a URL, not a path"),
    ("https:/example.com", "a URL, not a path"),
    ("data:text/plain,x", "a URL, not a path"),
    ("simplecache::file:///etc/passwd", "a URL, not a path"),
    ("project/zip://x::s3://y", "a URL, not a path"),
    ("file:http://example.com", "a URL, not a path"),
    ("ｈttp：／／example.com", "a URL, not a path"),
    ("http%3A//example.com", "a URL, not a path"),
    ("file://server/share/x", "a file of another machine"),
    ("file://127.0.0.1/x", "a file of another machine"),
    ("file://user@localhost/x", "a file of another machine"),
    ("file:\\\\server\\share\\x", "a file of another machine"),
    ("project/%2e%2e/secret", "a path with an encoded dot, slash or control character"),
    ("project/%2E%2E/secret", "a path with an encoded dot, slash or control character"),
    ("project/.%2e/secret", "a path with an encoded dot, slash or control character"),
    ("secret%2fkey.txt", "a path with an encoded dot, slash or control character"),
    ("secret%5Ckey.txt", "a path with an encoded dot, slash or control character"),
    ("secret%00.txt", "a path with an encoded dot, slash or control character"),
    ("project/a%0a", "a path with an encoded dot, slash or control character"),
    ("project/%c0%ae%c0%ae/x", "a path with an encoded dot, slash or control character"),
    ("project/%u002e%u002e/x", "a path with an encoded dot, slash or control character"),
    ("project/%2\u200be%2\u200be/x", "a path with an encoded dot, slash or control character"),
    ("$\u200bHOME/x", "a path with a variable or a command that nobody has expanded"),
    ("project/％２ｅ％２ｅ/x", "a path with an encoded dot, slash or control character"),
    ("project/%252e%252e/x", "a path with an encoded dot, slash or control character"),
    ("project/%25252e%25252e/x", "a path with an encoded dot, slash or control character"),
    ("file:///%2e%2e/x", "a path with an encoded dot, slash or control character"),
    ("%" + "25" * 50 + "61", "a path that may be meant in too many ways"),
    ("project/*.txt", "a path with a wildcard, which may stand for any name"),
    ("~/.ss?/id_rsa", "a path with a wildcard, which may stand for any name"),
    ("project/*/../../secret", "a path with a wildcard, which may stand for any name"),
    ("a/" * 3000, "a text that is too long for a path"),
    ("a" * 256, "a text that is too long for a path"),
    ("ä" * 128, "a text that is too long for a path"),
    ("project/" + "a" * 300 + "/../a.txt", "a text that is too long for a path"),
    ("project/loop", "a path through more than 40 links, or in a circle"),
    ("project/loop/x", "a path through more than 40 links, or in a circle"),
    ("project/itself", "a path through more than 40 links, or in a circle"),
    ("project/in/../itself/x", "a path through more than 40 links, or in a circle"),
]  # fmt: skip


@pytest.mark.parametrize(("value", "problem"), UNREADABLE, ids=[ascii(row[0])[:40] for row in UNREADABLE])
def test_what_cannot_be_read_is_denied_by_every_deny_and_allowed_by_no_allow(
    folders: Folders, value: Any, problem: str
) -> None:
    for pattern in ["project/**", "secret/**", "**", "/**", "nothing"]:
        reading = folders.read(pattern, freeze(value) if isinstance(value, list | dict) else value)
        assert reading.problem == problem
        for one in (reading, reading.negated()):
            assert one.wide
            assert not one.narrow


def test_an_argument_that_was_left_out_matches_no_pattern(folders: Folders) -> None:
    reading = folders.read("**", ABSENT)
    assert (reading.wide, reading.narrow, reading.problem) == (NO, NO, "")


# (pattern, value, whether a deny denies, whether an allow allows)
PATTERNS: list[tuple[str, str, bool, bool]] = [
    ("**/.env", ".env", YES, YES),
    ("**/.env", "project/.env", YES, YES),
    ("**/.env", "a/b/c/.env", YES, YES),
    ("**/.env", "x.env", NO, NO),
    ("**/.env", ".env/x", NO, NO),
    ("**/.env", "{top}/outside/.env", YES, NO),
    ("**/.env", "../outside/.env", YES, NO),
    ("**/.env", "project/outside/.env", YES, NO),
    ("**/.env", "conf", YES, NO),
    ("**", "anything/at/all", YES, YES),
    ("**", ".", YES, YES),
    ("**", "..", YES, NO),
    ("**", "/etc/passwd", YES, NO),
    ("**", "project/out/key.txt", YES, YES),
    ("**", "project/outside/x.txt", YES, NO),
    ("*", "notes.txt", YES, YES),
    ("*", ".env", YES, YES),
    ("*", "project/a.txt", NO, NO),
    ("*", ".", NO, NO),
    ("*.txt", "notes.txt", YES, YES),
    ("*.txt", "project/a.txt", NO, NO),
    ("*.txt", ".txt", YES, YES),
    ("*.TXT", "notes.txt", YES, NO),
    ("**/*.txt", "notes.txt", YES, YES),
    ("**/*.txt", "project/sub/deep.txt", YES, YES),
    ("project/*", "project/a.txt", YES, YES),
    ("project/*", "project", NO, NO),
    ("project/*", "project/sub/deep.txt", NO, NO),
    ("project/*/*", "project/sub/deep.txt", YES, YES),
    ("project/?.txt", "project/a.txt", YES, YES),
    ("project/?.txt", "project/.txt", NO, NO),
    ("project/?.txt", "project/ß.TXT", YES, NO),
    ("project/?.txt", "project/ab.txt", NO, NO),
    ("project?a.txt", "project/a.txt", NO, NO),
    ("project/[ab].txt", "project/a.txt", YES, YES),
    ("project/[a-c].txt", "project/A.txt", YES, NO),
    ("project/[!b].txt", "project/a.txt", YES, YES),
    ("project/[!b].txt", "project/b.txt", NO, NO),
    ("project/[!b].txt", "project/B.txt", YES, NO),
    ("project/[^b].txt", "project/a.txt", YES, YES),
    ("project/[[:digit:]].txt", "project/7.txt", YES, YES),
    ("project/[[]id].tsx", "project/[id].tsx", YES, YES),
    ("project[!x]a.txt", "project/a.txt", NO, NO),
    ("project/**/deep.txt", "project/sub/deep.txt", YES, YES),
    ("project/**/deep.txt", "project/deep.txt", YES, YES),
    ("project/**/**/deep.txt", "project/deep.txt", YES, YES),
    ("**/sub/**", "project/sub", YES, YES),
    ("**/sub/**", "sub", YES, YES),
    ("**/sub/**/x/*.txt", "a/sub/b/x/c/x/d.txt", YES, YES),
    ("**/sub/**/x/*.txt", "a/sub/b/x/c/d.txt", NO, NO),
    ("**/a/b/**/a/c", "a/a/b/b/a/a/c", YES, YES),
    ("a/**/a", "a", NO, NO),
    ("a/**/a", "a/a", YES, YES),
    ("*/*/**", "a/b", YES, YES),
    ("*/*/**", "a", NO, NO),
    ("notes.txt", "notes.txt", YES, YES),
    ("./notes.txt", "notes.txt", YES, YES),
    ("project/../notes.txt", "notes.txt", YES, YES),
    ("project//./**", "project/a.txt", YES, YES),
    ("project/", "project", YES, YES),
    ("project/", "project/a.txt", YES, NO),
    ("project/*/", "project/sub/deep.txt", YES, NO),
    ("../outside/**", "../outside/x.txt", YES, YES),
    ("../outside/**", "{top}/outside/x.txt", YES, YES),
    ("{top}/outside/**", "../outside/x.txt", YES, YES),
    ("{top}/outside/**", "project/outside/x.txt", YES, NO),
    ("/**", "notes.txt", YES, YES),
    ("/**", "/", YES, YES),
    ("/*", "/etc", YES, YES),
    ("/*", "/", NO, NO),
    ("/../etc/**", "/etc/passwd", YES, YES),
    ("//etc/**", "/etc/passwd", YES, YES),
    ("~/.ssh/**", "~/.ssh/id_rsa", YES, YES),
    ("~/.ssh/**", "~/.ssh", YES, YES),
    ("~/.ssh/**", "{home}/.ssh/id_rsa", YES, YES),
    ("~/.ssh/**", "../home/.ssh/id_rsa", YES, YES),
    ("~/.ssh/**", ".ssh/id_rsa", NO, NO),
    ("$HOME/.ssh/**", "~/.ssh/id_rsa", YES, YES),
    ("${HOME}/.ssh/**", "{home}/.ssh/id_rsa", YES, YES),
    ("{home}/.ssh/**", "~/.ssh/id_rsa", YES, YES),
    ("~", "~", YES, NO),
    ("~/**", "~", YES, NO),
    ("~/**", "~/.ssh", YES, YES),
    ("~/**", "{home}", YES, YES),
    ("~/job/**", "project/a.txt", YES, YES),
    ("~/job/**", "~/job/project/a.txt", YES, YES),
    ("alias/**", "project/a.txt", YES, YES),
    ("alias/**", "alias/a.txt", YES, YES),
    ("project/out/**", "secret/key.txt", YES, YES),
    ("project/out/**", "project/out/key.txt", YES, YES),
    ("project/chain/**", "secret/inner/deep.key", YES, YES),
    ("project/out.txt", "secret/key.txt", YES, YES),
    ("project/chain2/**", "project/chain/key.txt", YES, NO),
    ("secret/back", "project/through", YES, NO),
    ("project/loop/**", "project/loop", YES, NO),
    ("project/loop/**", "project/a.txt", NO, NO),
    ("project/ünï.txt", "project/ünï.txt", YES, YES),
    ("project/ünï.txt", "project/u\u0308ni\u0308.txt", YES, NO),
    ("project/ÜNÏ.txt", "project/ünï.txt", YES, NO),
    ("project/ｕ.txt", "project/u.txt", YES, NO),
    ("STRASSE/**", "straße/x", YES, NO),
    ("p\u0430ssword.txt", "password.txt", YES, NO),
    ("secret\\*", "secret/key.txt", YES, NO),
    ("secret\\*", "secret\\key.txt", YES, NO),
    ("a\\b", "a\\b", YES, NO),
    ("project/a [1].txt", "project/a 1.txt", YES, YES),
    ("project/{a}", "project/{a}", YES, YES),
]  # fmt: skip


@pytest.mark.parametrize(
    ("pattern", "value", "denied", "allowed"), PATTERNS, ids=[ascii(f"{row[0]} of {row[1]}") for row in PATTERNS]
)
def test_a_pattern_matches_as_the_table_says(
    folders: Folders, pattern: str, value: str, denied: bool, allowed: bool
) -> None:
    reading = folders.read(pattern, value)
    if "loop" in value:
        assert reading.problem
    assert (reading.wide, reading.narrow) == (denied, allowed), reading


def test_the_base_folder_may_be_reached_through_a_link(folders: Folders) -> None:
    through = str(folders.top / "base_link")
    for value in ["project/a.txt", "{base}/project/a.txt", "{top}/base_link/project/a.txt", "project/in.txt"]:
        assert folders.allowed("project/**", value, folder=through), value
        assert folders.allowed("{base}/project/**", value, folder=through), value
    for value in ["secret/key.txt", "{base}/secret/key.txt", "project/out/key.txt", "{top}/base_link/secret"]:
        assert folders.denied("secret/**", value, folder=through), value
        assert not folders.allowed("project/**", value, folder=through), value


def test_a_folder_that_is_called_like_a_home_or_a_url_counts_for_an_allow_once_it_is_there(tmp_path: Path) -> None:
    folders = make_folders(tmp_path)
    assert folders.allowed("~/**", "~/notes.txt")
    assert folders.allowed("project/**", "file:project/a.txt")
    (folders.base / "~").symlink_to("/etc")
    (folders.base / "file:project").mkdir()
    assert not folders.allowed("~/**", "~/notes.txt")
    assert not folders.allowed("project/**", "file:project/a.txt")
    for value in ["file:project", "file:project/x/.."]:  # a name that a file can be given
        assert not folders.allowed("project/**", value), value
    assert folders.denied("/etc/**", "~/passwd")


def test_without_a_home_folder_nobody_can_read_a_tilde(folders: Folders) -> None:
    for pattern in ["~/**", "**"]:
        reading = folders.read(pattern, "~/x", home="~")
        assert reading.problem == "a path in a home folder that nobody knows"
    assert not folders.allowed("~/**", "x", home="~")


def test_up_to_forty_links_are_followed(tmp_path: Path) -> None:
    (tmp_path / "l0").mkdir()
    for number in range(1, 42):
        (tmp_path / f"l{number}").symlink_to(f"l{number - 1}")
    where = Where(folder=str(tmp_path), windows=False)
    assert PathPattern("l0/**").read("l40/x", where).wide
    assert PathPattern("l0/**").read("l40/x", where).problem == ""
    for known in (where, Where(folder=str(tmp_path), windows=False)):  # what is known of the links before it counts
        assert "more than 40 links" in PathPattern("l0/**").read("l41/x", known).problem


def test_links_to_links_to_links_are_not_followed_for_ever(tmp_path: Path) -> None:
    (tmp_path / "f0").symlink_to(".")
    for number in range(1, 40):
        (tmp_path / f"f{number}").symlink_to("/".join([f"f{number - 1}"] * 20))
    where = Where(folder=str(tmp_path), windows=False)
    assert "more than 40 links" in PathPattern("**").read("f39/x", where).problem


@pytest.mark.parametrize(
    ("error", "problem"),
    [
        (PermissionError(13, "no"), "a path through a folder that may not be looked into"),
        (OSError(5, "broken disk"), "a path that cannot be looked up"),
        (OSError(116, "stale"), "a path that cannot be looked up"),
        (ValueError("embedded null byte"), "a path that cannot be looked up"),
    ],
    ids=["may-not", "disk", "stale", "value"],
)
def test_what_the_file_system_does_not_tell_cannot_be_read(
    folders: Folders, monkeypatch: pytest.MonkeyPatch, error: Exception, problem: str
) -> None:
    real = os.lstat

    def failing(path: str) -> os.stat_result:
        if path.endswith("/sub"):
            raise error
        return real(path)

    monkeypatch.setattr(links.os, "lstat", failing)
    monkeypatch.setattr(links, "_OPEN_AT", None)
    reading = folders.read("project/**", "project/sub/deep.txt")
    assert reading.problem == problem
    assert not folders.allowed("project/sub/**", "project/a.txt")
    assert folders.read("project/sub/**", "project/a.txt").problem == ""  # the pattern's own folder is hidden
    assert folders.allowed("project/**", "project/a.txt")


def test_a_link_that_is_exchanged_between_two_looks_at_it_cannot_be_read(
    folders: Folders, monkeypatch: pytest.MonkeyPatch
) -> None:
    def gone(path: str) -> str:
        raise OSError(22, "not a link")

    monkeypatch.setattr(links.os, "readlink", gone)
    assert folders.read("project/**", "project/in/deep.txt").problem == "a path that cannot be looked up"


def test_what_is_known_of_links_is_kept_until_it_is_emptied(tmp_path: Path) -> None:
    folders = make_folders(tmp_path)
    where, pattern = folders.where(), PathPattern("project/**")
    assert pattern.read("project/in/deep.txt", where).narrow
    (folders.base / "project/in").unlink()
    (folders.base / "project/in").symlink_to("../secret")
    assert pattern.read("project/in/deep.txt", where).narrow
    where.links.clear()
    assert not pattern.read("project/in/deep.txt", where).narrow
    assert PathPattern("secret/**").read("project/in/deep.txt", where).wide


def test_several_folders_may_share_what_is_known_of_links(folders: Folders) -> None:
    known: dict[str, Any] = {}
    assert folders.allowed("project/**", "project/a.txt", links=known)
    assert not folders.allowed("project/**", "{base}/project/a.txt", links=known, folder=str(folders.top / "outside"))
    assert folders.allowed("~/**", "~/x", links=known)
    assert not folders.allowed("{home}/**", "~/x", links=known, home="/elsewhere")


# --- a file system that ignores case ----------------------------------------------------------------------------------


@pytest.fixture
def ignoring_case(folders: Folders, monkeypatch: pytest.MonkeyPatch) -> None:
    """Let names below the base folder be found in any case, as on macOS."""
    base = str(folders.base)
    real = {name: getattr(os, name) for name in ("lstat", "stat", "readlink", "scandir")}

    def found(path: Any) -> Any:
        text = os.fspath(path)
        if not isinstance(text, str) or not text.lower().startswith(base.lower() + "/"):
            return path
        place = base
        for name in text[len(base) + 1 :].split("/"):
            try:
                place += "/" + next((one for one in os.listdir(place) if one.lower() == name.lower()), name)
            except OSError:
                place += "/" + name
        return place if text.startswith(base) else path

    for name, function in real.items():
        monkeypatch.setattr(os, name, lambda path, *a, _f=function, **k: _f(found(path), *a, **k))


@pytest.mark.usefixtures("ignoring_case")
def test_where_the_file_system_ignores_case_an_allow_does_too(folders: Folders) -> None:
    assert os.path.exists(folders.named("{base}/PROJECT/A.TXT"))
    for value in ["PROJECT/a.txt", "Project/SUB/new.txt", "{base}/pRoJeCt/in/deep.txt"]:
        assert folders.allowed("project/**", value), value
    assert folders.allowed("project/*.txt", "project/A.TXT")
    assert folders.allowed("project/*.txt", "PROJECT/NEW.TXT")
    for value in ["PROJECT/OUT/key.txt", "Project/../SECRET/key.txt", "PROJECTS/b.txt", "{top}/BASE/project/a.txt"]:
        assert not folders.allowed("project/**", value), value
    assert not folders.allowed("project/[!a].txt", "project/A.txt")


def test_where_it_does_not_another_case_is_another_file(folders: Folders) -> None:
    assert not folders.allowed("project/**", "PROJECT/a.txt")
    assert not folders.allowed("project/*.txt", "project/A.TXT")


def test_two_hard_links_do_not_make_a_folder_ignore_case(tmp_path: Path) -> None:
    (tmp_path / "a").write_text("")
    os.link(tmp_path / "a", tmp_path / "A")
    assert not links.ignores_case(str(tmp_path), {})
    assert not PathPattern("*.txt").read("x.TXT", Where(folder=str(tmp_path), windows=False)).narrow


# --- patterns that are none -------------------------------------------------------------------------------------------

MALFORMED = [
    ("", "can match nothing: it is an empty text"),
    ("   ", "can match nothing: it is an empty text"),
    ("a\0b", "can match nothing: it is a text with control characters"),
    ("a\nb", "can match nothing: it is a text with control characters"),
    ("a\ud800", "can match nothing: it is a text with half of a surrogate pair"),
    ("**/..", "can match nothing: '..' stands behind a wildcard"),
    ("*/../x", "can match nothing: '..' stands behind a wildcard"),
    ("a/*/b/../c", "can match nothing: '..' stands behind a wildcard"),
    ("a/*\\..\\c", "can match nothing: '..' stands behind a wildcard"),
    ("$TMP/x", "can match nothing: it is a path with a variable"),
    ("$HOMER/x", "can match nothing: it is a path with a variable"),
    ("a/${HOME}", "can match nothing: it is a path with a variable"),
    ("%TEMP%/x", "can match nothing: it is a path with a variable"),
    ("~bob/**", "can match nothing: it is a path in the home folder of another user"),
    ("https://example.com/**", "can match nothing: it is a URL"),
    ("file:///etc/**", "can match nothing: it is a URL"),
    ("%2e%2e/x", "can match nothing: it is a path with an encoded dot"),
    ("a" * 256, "can match nothing: it is a text that is too long"),
    ("x/[z-a]", "can match nothing: no character is in the range of '[z-a]'"),
    ("**.env", "has '**' within a name"),
    ("src/a**/x", "has '**' within a name"),
    ("***", "has '**' within a name"),
    ("*.{env,key}", "has braces"),
    ("file{1..9}", "has braces"),
    ("a|b", "has '|'"),
    ("!secret/**", "begins with '!'"),
]  # fmt: skip


@pytest.mark.parametrize(("pattern", "problem"), MALFORMED, ids=[ascii(row[0])[:40] for row in MALFORMED])
def test_a_pattern_that_can_match_nothing_or_misleads_is_refused(pattern: str, problem: str) -> None:
    with pytest.raises(ValueError, match="the pattern") as caught:
        PathPattern(pattern)
    assert problem in str(caught.value)
    assert "\nFix: " in str(caught.value)
    assert "\nExample:" in str(caught.value)


@pytest.mark.parametrize("pattern", [None, 5, b"x", ["x"], Path("x")])
def test_a_pattern_is_a_string(pattern: Any) -> None:
    with pytest.raises(TypeError, match="a pattern of paths is a string"):
        PathPattern(pattern)


@pytest.mark.parametrize(
    "pattern", ["a[|]b", "a[{]b,c}", "./!x", "[*]", "[?]", "a/[*][*]", "a b", "C:\\x", "\\\\?\\C:\\x"]
)
def test_what_only_looks_like_that_is_a_pattern(pattern: str) -> None:
    assert PathPattern(pattern).pattern == pattern


def test_a_pattern_prints_as_its_notation_and_pickles() -> None:
    pattern = PathPattern("project/**")
    assert str(pattern) == "path(project/**)"
    assert repr(pattern) == "PathPattern('path(project/**)')"
    assert pickle.loads(pickle.dumps(pattern)) == pattern == PathPattern("project/**") != PathPattern("project/*")
    assert len({pattern, PathPattern("project/**")}) == 1
    assert pattern.kind == "path"
    assert pattern.reads_files


def test_a_reading_says_how_the_path_was_read(folders: Folders) -> None:
    reading = folders.read("project/**", "project/out/../x")
    assert reading.readings == (folders.named("{base}/project/x"), folders.named("{base}/x"))
    assert folders.read("project/**", "/").readings == ("/",)
    assert folders.read("project/**", 5).readings == ()


def test_a_long_path_takes_no_longer_than_in_proportion(folders: Folders) -> None:
    pattern = "**/a/**/a/**/a/**/a/**/b*c*d*e/**/x"
    for value in ["a/" * 2000 + "y", "a/" * 1900 + "b" * 100 + "cd/y"]:
        reading = folders.read(pattern, value)
        assert (reading.wide, reading.problem) == (NO, "")


def test_a_base_folder_that_is_not_absolute_is_below_the_working_directory(
    folders: Folders, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(folders.top)
    assert folders.allowed("project/**", "project/a.txt", folder="base")
    assert folders.allowed("{base}/project/**", "project/a.txt", folder="./base")
    assert folders.denied("secret/**", "{base}/secret/key.txt", folder="base")
