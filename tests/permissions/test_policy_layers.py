"""Policy files are read whole or not at all, layer by layer, and again when they change; the rules of a session."""

from __future__ import annotations

import os
import stat
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from agentperm_nb import PolicyFileError, PolicyFiles, tool
from agentperm_nb.permissions import policy_layers, policy_reading
from agentperm_nb.permissions.arguments import DenyByArguments
from agentperm_nb.permissions.policy_file import EMPTY, MOST_BYTES
from agentperm_nb.permissions.policy_layers import (
    Layer,
    administrator_file,
    checked_for,
    layers_of,
    user_file,
)
from agentperm_nb.permissions.policy_reading import UnreadableError, read_whole
from agentperm_nb.permissions.session_rules import SessionRules

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
def write_file(path: str, content: str = "") -> str:
    """Write a file."""
    return path


# --- reading ----------------------------------------------------------------------------------------------------------


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "agentperm.toml"
    path.write_text("version = 1\nrules = ['ask write_file']")
    return path


def aged(path: Path, seconds: float = 60) -> Path:
    """Let a file have been written a while ago."""
    then = path.stat().st_mtime - seconds
    os.utime(path, (then, then))
    return path


def loaded(path: Path) -> Layer:
    layer = Layer("project", path, required=True)
    layer.load(checked_for([]))
    return layer


def look(layer: Layer) -> str:
    return layer.look(checked_for([]))


def rules_of(layer: Layer) -> list[str]:
    return [str(rule) for rule in layer.file.rules]


def test_a_file_is_read_with_its_state(file: Path) -> None:
    contents = read_whole(aged(file))
    assert contents is not None
    assert contents.data == file.read_bytes()
    assert contents.stamp.size == len(contents.data)
    assert contents.sure


def test_of_a_file_that_was_written_just_now_nobody_is_sure(file: Path) -> None:
    contents = read_whole(file)
    assert contents is not None
    assert not contents.sure


def test_a_time_to_come_is_no_old_one(file: Path) -> None:
    contents = read_whole(aged(file, -3_600))
    assert contents is not None
    assert not contents.sure


def test_a_file_that_is_being_written_is_read_when_it_stands_still(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    halves = ["version = 1\nrules = ['deny write_file', ", "'deny read_file']\n"]
    file.write_text(halves[0])

    def write_the_rest(seconds: float) -> None:
        if len(halves) == 2:
            with file.open("a") as opened:
                opened.write(halves.pop())

    monkeypatch.setattr(policy_reading.time, "sleep", write_the_rest)
    contents = read_whole(file)
    assert contents is not None
    assert contents.data.endswith(b"'deny read_file']\n")


def test_a_file_that_is_changed_while_it_is_read_is_read_anew(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    aged(file)
    read, times = policy_reading._bytes_of, []

    def read_and_change(handle: int) -> bytes:
        data = read(handle)
        times.append(len(data))
        if len(times) == 1:
            file.write_text("version = 1\nrules = ['deny write_file', 'deny read_file']")
            aged(file, 30)
        return data

    monkeypatch.setattr(policy_reading, "_bytes_of", read_and_change)
    contents = read_whole(file)
    assert contents is not None
    assert contents.data == file.read_bytes()
    assert len(times) == 2


def test_a_file_that_never_stands_still_cannot_be_read(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def write_more(seconds: float) -> None:
        with file.open("a") as opened:
            opened.write("#\n")

    monkeypatch.setattr(policy_reading.time, "sleep", write_more)
    with pytest.raises(UnreadableError, match="it is being written all the time"):
        read_whole(file)


def test_a_file_that_is_replaced_while_it_is_read_is_read_whole(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    before = file.read_bytes()

    def replace(seconds: float) -> None:
        other = file.with_suffix(".new")
        other.write_text("version = 1")
        os.replace(other, file)

    monkeypatch.setattr(policy_reading.time, "sleep", replace)
    contents = read_whole(file)
    assert contents is not None
    assert contents.data == before
    layer_after = read_whole(aged(file))
    assert layer_after is not None
    assert layer_after.data == b"version = 1"
    assert layer_after.stamp != contents.stamp


def test_a_file_that_is_away_for_a_moment_is_not_gone(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    away = file.with_suffix(".bak")
    text = file.read_bytes()
    file.rename(away)
    monkeypatch.setattr(policy_reading.time, "sleep", lambda seconds: away.exists() and away.rename(file))
    contents = read_whole(file, known=text)
    assert contents is not None
    assert contents.data == text


@pytest.mark.parametrize(
    ("make", "problem"),
    [
        (lambda path: path.mkdir(), "it is a folder"),
        (lambda path: os.mkfifo(path), "it is no regular file"),
        (lambda path: path.write_bytes(b"#" * (MOST_BYTES + 1)), "more than 1,000,000 bytes"),
        (lambda path: path.symlink_to(path.name), "its links lead in a circle"),
        (lambda path: path.symlink_to("/dev/zero"), "it is no regular file"),
        (lambda path: path.write_bytes(b"version = 1\n# \xff"), "not in UTF-8 (byte 14)"),
        (lambda path: path.write_bytes("version = 1".encode("utf-16")), "not in UTF-8"),
        (lambda path: path.write_text("version = 2"), "version 2 is not known"),
    ],
    ids=["folder", "pipe", "too big", "circle of links", "device", "Latin-1", "UTF-16", "version"],
)
def test_what_cannot_be_taken_is_an_error_at_first(tmp_path: Path, make: Any, problem: str) -> None:
    path = tmp_path / "policy.toml"
    make(path)
    for required in (True, False):
        with pytest.raises(PolicyFileError) as raised:
            Layer("user", path, required=required).load(checked_for([]))
        assert problem in str(raised.value)
        assert str(path) in str(raised.value)
        assert "\nFix: " in str(raised.value)
        assert raised.value.path == path


@pytest.fixture
def without_rights() -> Iterator[None]:
    """The rights of nobody, where the tests run as root, who may read everything."""
    if os.geteuid() != 0:
        yield
        return
    os.seteuid(65534)
    try:
        yield
    finally:
        os.seteuid(0)


@pytest.mark.skipif(os.name == "nt", reason="rights are of another kind there")
def test_a_file_that_may_not_be_read_is_an_error_and_is_not_taken_for_none(
    file: Path, request: pytest.FixtureRequest
) -> None:
    Layer("administrator", file).load(checked_for([]))  # what it imports may be out of reach below
    file.chmod(0)
    request.getfixturevalue("without_rights")
    with pytest.raises(PolicyFileError, match="it may not be read"):
        Layer("administrator", file).load(checked_for([]))


def test_a_folder_in_which_nobody_may_look_is_an_error(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(path: object) -> None:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(policy_reading.os, "stat", refuse)
    with pytest.raises(PolicyFileError, match="it cannot be read: it may not be read"):
        Layer("administrator", file).load(checked_for([]))


def test_a_file_of_the_project_has_to_be_there_and_the_others_need_not(tmp_path: Path) -> None:
    missing = tmp_path / "no folder" / "policy.toml"
    with pytest.raises(PolicyFileError, match="there is no such file"):
        Layer("project", missing, required=True).load(checked_for([]))
    layer = Layer("user", missing)
    layer.load(checked_for([]))
    assert (layer.file, layer.since, layer.problem) == (EMPTY, None, "")


def test_a_byte_order_mark_is_no_part_of_the_text(tmp_path: Path) -> None:
    path = tmp_path / "policy.toml"
    path.write_bytes(b"\xef\xbb\xbfversion = 1\r\nrules = ['ask x']\r\n")
    assert rules_of(loaded(path)) == ["ask x"]


def test_a_link_to_a_file_is_followed_and_a_changed_link_is_seen(tmp_path: Path) -> None:
    for name in ("one", "two"):
        (tmp_path / name).write_text(f"version = 1\nrules = ['ask {name}']")
    link = tmp_path / "link"
    link.symlink_to("one")
    layer = loaded(link)
    assert rules_of(layer) == ["ask one"]
    link.unlink()
    link.symlink_to("two")
    assert look(layer) == "changed"
    assert rules_of(layer) == ["ask two"]


# --- changes ----------------------------------------------------------------------------------------------------------


def test_a_valid_edit_takes_the_place_of_the_rules_before(file: Path) -> None:
    layer = loaded(file)
    assert look(layer) == ""
    file.write_text("version = 1\nrules = ['deny write_file']")
    assert look(layer) == "changed"
    assert rules_of(layer) == ["deny write_file"]
    assert look(layer) == ""


def test_two_edits_of_one_length_in_one_tick_of_the_clock_are_both_seen(file: Path) -> None:
    status = file.stat()
    layer = loaded(file)
    for text in ("version = 1\nrules = ['ask write_fil2']", "version = 1\nrules = ['ask write_fil3']"):
        with file.open("r+") as opened:
            opened.write(text)
        os.utime(file, ns=(status.st_atime_ns, status.st_mtime_ns))
        assert look(layer) == "changed"
    assert rules_of(layer) == ["ask write_fil3"]


def test_an_edit_that_keeps_size_and_time_of_an_old_file_is_seen(file: Path) -> None:
    layer = loaded(aged(file))
    status = file.stat()
    with file.open("r+") as opened:
        opened.write("version = 1\nrules = ['ask write_fil2']")
    os.utime(file, ns=(status.st_atime_ns, status.st_mtime_ns))
    assert look(layer) == "changed"


@pytest.mark.parametrize(
    "text",
    ["version = 1\n# more\nrules = ['ask write_file']", "rules = [\n  'ask write_file',\n]\nversion = 1\n"],
    ids=["a comment", "another order"],
)
def test_an_edit_that_says_the_same_is_no_news_and_keeps_the_permissions(file: Path, text: str) -> None:
    layer = loaded(file)
    before = layer.file.others
    file.write_text(text)
    assert look(layer) == ""
    assert all(one is other for one, other in zip(before, layer.file.others, strict=True))


def test_what_has_not_changed_in_an_edit_is_the_same_object(file: Path) -> None:
    file.write_text(FULL)
    layer = loaded(file)
    before = {item.name: item for item in (*layer.file.denies, *layer.file.others, *layer.file.modes)}
    file.write_text(FULL.replace('"ask write_file"', '"ask write_file", "ask more"'))
    assert look(layer) == "changed"
    after = {item.name: item for item in (*layer.file.denies, *layer.file.others, *layer.file.modes)}
    assert set(after) - set(before) == {"project: ask more"}
    assert [name for name in before if before[name] is not after[name]] == []


INVALID = {
    "an unknown key": "version = 1\nrule = []",
    "half of it": "version = 1\nrules = ['deny x',",
    "empty": "",
    "no UTF-8": b"version = 1 # \xff",
    "another version": "version = 2",
}


@pytest.mark.parametrize("text", INVALID.values(), ids=INVALID)
def test_an_invalid_edit_leaves_the_rules_and_says_so_once(file: Path, text: str | bytes) -> None:
    layer = loaded(file)
    file.write_bytes(text if isinstance(text, bytes) else text.encode())
    assert look(layer) == "refused"
    assert rules_of(layer) == ["ask write_file"]
    assert layer.problem
    assert [look(layer) for _ in range(3)] == ["", "", ""]
    assert layer.problem, "it still is one"
    file.write_text("version = 1\nrules = ['ask write_file']\n# better")
    assert look(layer) == "", "the rules are the same as ever"
    assert layer.problem == ""


def test_whatever_goes_wrong_while_a_file_is_read_the_rules_before_it_stay(
    file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    layer = loaded(file)

    def fail(*args: object, **kwargs: object) -> None:
        raise RecursionError

    monkeypatch.setattr(policy_layers, "parse_policy", fail)
    file.write_text("version = 1")
    assert look(layer) == "refused"
    assert (layer.problem, rules_of(layer)) == ("RecursionError", ["ask write_file"])
    with pytest.raises(PolicyFileError, match="RecursionError"):
        loaded(file)


def test_each_invalid_edit_is_news(file: Path) -> None:
    layer = loaded(file)
    for text in ("nonsense", "more nonsense"):
        file.write_text(text)
        assert look(layer) == "refused"


def test_a_file_that_is_gone_leaves_the_rules_and_may_come_back(file: Path) -> None:
    layer = loaded(file)
    text = file.read_text()
    file.unlink()
    assert look(layer) == "refused"
    assert (layer.problem, rules_of(layer)) == ("it is gone", ["ask write_file"])
    assert look(layer) == ""
    file.write_text(text)
    assert look(layer) == ""
    assert layer.problem == ""
    file.unlink()
    assert look(layer) == "refused", "gone once more"


def test_a_file_that_becomes_a_folder_or_a_pipe_leaves_the_rules(file: Path) -> None:
    layer = loaded(file)
    file.unlink()
    file.mkdir()
    assert look(layer) == "refused"
    assert layer.problem == "it cannot be read: it is a folder"
    assert look(layer) == ""
    file.rmdir()
    os.mkfifo(file)
    assert look(layer) == "refused"
    assert rules_of(layer) == ["ask write_file"]


def test_a_file_that_was_not_there_counts_when_it_comes(tmp_path: Path) -> None:
    path = tmp_path / "policy.toml"
    layer = Layer("user", path)
    layer.load(checked_for([]))
    path.write_text("version = 2")
    assert look(layer) == "refused"
    path.unlink()
    assert look(layer) == ""
    assert layer.problem == "", "nothing was ever taken from it"
    path.write_text("version = 1\nrules = ['deny x']")
    assert look(layer) == "changed"


def test_a_rule_that_can_match_no_call_of_the_tools_is_refused(file: Path) -> None:
    check = checked_for([write_file])
    file.write_text("version = 1\nrules = ['deny write_file(pth=a)']")
    with pytest.raises(PolicyFileError, match="can match nothing: write_file has no argument pth"):
        Layer("project", file).load(check)
    file.write_text("version = 1\nrules = ['deny other(pth=a)']")
    layer = Layer("project", file)
    layer.load(check)
    file.write_text("version = 1\n[users.ann]\nrules = ['deny write_file(pth=a)']")
    assert layer.look(check) == "refused"
    assert rules_of(layer) == ["deny other(pth=a)"]


def test_a_file_that_a_thread_rewrites_is_never_read_half(tmp_path: Path) -> None:
    path = tmp_path / "policy.toml"
    versions = [f"version = 1\nrules = ['ask a{n}']\n[users.ann]\nrules = ['deny b{n}']\n" for n in range(8)]
    whole = {(f"deny b{n}", f"ask a{n}") for n in range(8)}
    path.write_text(versions[0])
    layer = loaded(path)
    over = threading.Event()

    def write() -> None:
        turn = 0
        while not over.is_set():
            turn += 1
            text = versions[turn % 8]
            if turn % 2:
                other = path.with_suffix(".new")
                other.write_text(text)
                os.replace(other, path)
            else:
                with path.open("w", buffering=1) as opened:  # one line after the other
                    opened.writelines(text.splitlines(keepends=True))
            over.wait(0.06)

    writer = threading.Thread(target=write)
    writer.start()
    seen: set[tuple[str, ...]] = set()
    try:
        deadline = time.monotonic() + 10
        while len(seen) < 8 and time.monotonic() < deadline:
            look(layer)
            seen.add(tuple(map(str, (*layer.file.denies, *layer.file.others))))
    finally:
        over.set()
        writer.join()
    assert seen <= whole
    assert len(seen) > 2


@pytest.mark.skipif(os.name == "nt", reason="rights are of another kind there")
def test_a_file_that_everybody_may_write_is_a_caution(file: Path) -> None:
    layer = loaded(file)
    assert layer.caution == ""
    file.chmod(0o666)
    look(layer)
    assert layer.caution == "every user of this machine may write it"
    file.chmod(0o660)
    look(layer)
    assert layer.caution == "", "a group works together"


@pytest.mark.skipif(os.name == "nt", reason="rights are of another kind there")
def test_a_folder_in_which_everybody_may_put_another_file_is_a_caution(tmp_path: Path) -> None:
    folder = tmp_path / "open"
    folder.mkdir()
    path = folder / "policy.toml"
    path.write_text("version = 1")
    folder.chmod(0o777)
    assert "may put another file in its place" in loaded(path).caution
    folder.chmod(0o777 | stat.S_ISVTX)
    assert loaded(path).caution == ""


# --- layers -----------------------------------------------------------------------------------------------------------


def test_the_layers_are_administrator_user_and_project(tmp_path: Path) -> None:
    files = PolicyFiles("a.toml", administrator=tmp_path / "admin.toml", user=tmp_path / "user.toml")
    assert [(layer.name, layer.path.name, layer.required) for layer in layers_of(files)] == [
        ("administrator", "admin.toml", False),
        ("user", "user.toml", False),
        ("project", "a.toml", True),
    ]
    assert [layer.name for layer in layers_of(PolicyFiles("a.toml", administrator=None, user=None))] == ["project"]


def test_several_files_of_a_project_are_told_apart_by_their_names() -> None:
    files = PolicyFiles("team.toml", "one/agentperm.toml", "two/agentperm.toml", administrator=None, user=None)
    assert [layer.name for layer in layers_of(files)] == [
        "project team.toml",
        "project one/agentperm.toml",
        "project two/agentperm.toml",
    ]


def test_a_path_is_absolute_from_when_it_is_given(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    files = PolicyFiles("agentperm.toml", Path("more.toml"))
    monkeypatch.chdir("/")
    assert files.project == (tmp_path / "agentperm.toml", tmp_path / "more.toml")


def test_the_files_of_administrator_and_user_have_their_usual_places(monkeypatch: pytest.MonkeyPatch) -> None:
    files = PolicyFiles("agentperm.toml")
    assert (files.administrator, files.user) == (administrator_file(), user_file())
    assert files.administrator is not None
    assert files.administrator.parts[-2:] == ("agentperm_nb", "policy.toml")
    assert files.user is not None
    assert files.user.parts[-2:] == ("agentperm_nb", "policy.toml")


@pytest.mark.skipif(os.name == "nt", reason="it has another place there")
def test_no_environment_moves_the_file_of_the_administrator(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    for name in ("XDG_CONFIG_DIRS", "XDG_CONFIG_HOME", "PROGRAMDATA", "HOME"):
        monkeypatch.setenv(name, str(tmp_path))
    assert administrator_file() == Path("/etc/agentperm_nb/policy.toml")


@pytest.mark.parametrize("policy", [5, b"agentperm.toml", {"a": 1}, [5], [b"a"], True], ids=repr)
def test_what_is_no_path_is_an_error(policy: Any) -> None:
    with pytest.raises(TypeError, match="policy= takes the path of a policy file"):
        PolicyFiles.of(policy)


@pytest.mark.parametrize("policy", ["", " ", "a\0b"], ids=["empty", "blank", "NUL"])
def test_a_text_that_names_no_file_is_an_error(policy: str) -> None:
    with pytest.raises(ValueError, match="which is no path"):
        PolicyFiles.of(policy)


def test_policy_files_are_equal_by_their_paths_and_say_them() -> None:
    one = PolicyFiles("/a.toml", administrator=None, user="/u.toml")
    assert one == PolicyFiles("/a.toml", administrator=None, user="/u.toml")
    assert len({one, PolicyFiles("/a.toml", administrator=None, user="/u.toml")}) == 1
    assert one != PolicyFiles("/a.toml", administrator=None, user=None)
    assert repr(one) == "PolicyFiles('/a.toml', administrator=None, user='/u.toml')"


# --- the session ------------------------------------------------------------------------------------------------------


def noting() -> tuple[SessionRules, list[tuple[str, list[str]]]]:
    told: list[tuple[str, list[str]]] = []
    return SessionRules(lambda what, rules: told.append((what, [str(rule) for rule in rules]))), told


def test_rules_of_the_session_are_added_and_removed() -> None:
    rules, told = noting()
    rules.add("deny write_file", DenyByArguments("read_file", path="**/.env", reason="no secrets"))
    assert [rule.name for rule in rules] == ["session: deny write_file", "session: deny read_file(path=**/.env)"]
    assert "deny write_file" in rules
    assert "ask write_file" not in rules
    assert "no rule" not in rules
    rules.remove("deny read_file(path=**/.env)")
    assert repr(rules) == "SessionRules(['deny write_file'])"
    rules.clear()
    assert (len(rules), [what for what, _ in told]) == (0, ["added", "removed", "removed"])


def test_a_rule_that_is_there_already_is_not_added_again() -> None:
    rules, told = noting()
    rules.add("deny x", "deny  x")
    rules.add("deny x")
    assert (len(rules), len(told)) == (1, 1)


def test_several_rules_are_added_all_or_none() -> None:
    rules, told = noting()
    with pytest.raises(ValueError, match="this is no rule"):
        rules.add("deny x", "nonsense")
    with pytest.raises(TypeError, match="takes rules on arguments"):
        rules.add("deny x", 5)  # type: ignore[arg-type]
    assert (len(rules), told) == (0, [])


def test_a_rule_with_a_check_of_its_own_cannot_be_taken() -> None:
    class Mine(DenyByArguments):
        def check(self, state: Any, call: Any, tool: Any) -> Any:
            return None

    with pytest.raises(TypeError, match="takes rules on arguments"):
        noting()[0].add(Mine("x"))


def test_removing_what_is_not_there_names_what_is() -> None:
    rules, _ = noting()
    with pytest.raises(ValueError, match="there is none"):
        rules.remove("deny x")
    rules.add("deny write_file", "ask send_mail")
    with pytest.raises(ValueError, match="remove one that is there: deny write_file"):
        rules.remove("ask send_mail", "deny write_fil")
    assert len(rules) == 2, "none is removed"


def test_adding_to_a_rule_object_leaves_the_object_alone() -> None:
    mine = DenyByArguments("x", name="mine")
    rules, _ = noting()
    rules.add(mine)
    assert mine.name == "mine"
