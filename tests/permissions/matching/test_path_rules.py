"""Rules on paths in an agent: the public complaints about them, each with its id, and links that change meanwhile."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from path_folders import Folders, make_folders
from turns import DRIVERS, run

from agentperm_nb import Agent, AllowByDefault, AllowByName, Denied, DenyPermission, Tool, ToolCall, Verdict, tool
from agentperm_nb.permissions.arguments import AllowByArguments, AskByArguments, DenyByArguments
from agentperm_nb.permissions.deciding import PermissionList
from agentperm_nb.permissions.matching.lists import AnyOf
from agentperm_nb.permissions.matching.paths import PathPattern
from agentperm_nb.permissions.matching.values import Not
from agentperm_nb.testing import Recording, tool_call

both_drivers = pytest.mark.parametrize("driver", DRIVERS)


@tool
def read_file(path: str) -> str:
    """Read a file."""
    return Path(path).expanduser().read_text()


@tool
def write_file(path: str, content: str = "") -> str:
    """Write a file."""
    return f"wrote {path}"


@tool(paths=["targets"])
def write_files(targets: list[str]) -> str:
    """Write files."""
    return f"wrote {targets}"


@tool
def glob(root: str, pattern: str) -> str:
    """List files."""
    return "listed"


@pytest.fixture
def folders(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Folders:
    made = make_folders(tmp_path)
    monkeypatch.chdir(made.base)
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    return made


def verdict(permissions: list[Any], name: str, /, **args: Any) -> str:
    agent = Agent([read_file, write_file, write_files, glob], permissions=permissions)
    return agent.explain(name, args).verdict


# --- the complaints ---------------------------------------------------------------------------------------------------


@pytest.mark.usefixtures("folders")
@pytest.mark.parametrize("turned", [False, True], ids=["deny-first", "allow-first"])
def test_r09_the_deny_of_a_secret_file_is_not_lost_to_a_wider_allow_after_it(turned: bool) -> None:
    rules = [DenyByArguments("read_file", path="**/.env"), AllowByArguments("read_file", path="**")]
    rules = rules[::-1] if turned else rules
    for path in ["src/.env", ".env", "./src/../.env", "project/.env", "SRC/.ENV", "src\\.env", "conf"]:
        assert verdict(rules, "read_file", path=path) == "denied", path
    assert verdict(rules, "read_file", path="src/main.py") == "allowed"


@pytest.mark.usefixtures("folders")
def test_r10_two_stars_take_no_folder_as_well() -> None:
    rules = [DenyByArguments("read_file", path="**/.env"), AllowByDefault()]
    for path in [".env", "./.env", "a/.env", "a/b/.env", "/.env", "/srv/.env", "~/.env"]:
        assert verdict(rules, "read_file", path=path) == "denied", path
    for path in ["x.env", ".envrc", ".env.d/x", "a.env/b"]:
        assert verdict(rules, "read_file", path=path) == "allowed", path


@pytest.mark.usefixtures("folders")
def test_r11_a_path_that_climbs_out_of_the_folder_is_outside() -> None:
    rules = [DenyByArguments("write_file", path="!project/**"), AllowByDefault()]
    for path in [
        "project/../../etc/passwd", "project/../notes.txt", "project/./../x", "project//..//x", "project/..\\x",
        "project/a/../../x", "/etc/passwd", "~/x", "project/out/x", "project/up/x", "project\\..\\x", "projects/x",
        "file:///etc/passwd", "project/%2e%2e/x", "project/$X", "project／..／x",
    ]:  # fmt: skip
        assert verdict(rules, "write_file", path=path) == "denied", path
    for path in ["project/a.txt", "./project/new/er.txt", "project/sub/../a.txt"]:
        assert verdict(rules, "write_file", path=path) == "allowed", path


def test_r13_a_link_on_the_way_leads_out_of_an_allowed_folder(folders: Folders) -> None:
    (folders.base / "root").mkdir()
    (folders.base / "root/linkdir").symlink_to("/etc")
    (folders.base / "root/near").symlink_to(".")
    rules = [AllowByArguments("read_file", path="root/**"), AskByArguments("*")]
    for path in ["root/linkdir/passwd", "root/linkdir", "root/near/linkdir/passwd", "root/linkdir/../passwd"]:
        assert verdict(rules, "read_file", path=path) == "asked", path
    for path in ["root/x", "root/near/x", "root/near/near/new/x"]:
        assert verdict(rules, "read_file", path=path) == "allowed", path


def test_r14_a_relative_path_is_held_against_an_absolute_deny(
    folders: Folders, monkeypatch: pytest.MonkeyPatch
) -> None:
    home = folders.top / "home"
    (home / "p/q").mkdir(parents=True)
    monkeypatch.chdir(home / "p/q")
    for pattern in ["~/.ssh/**", "$HOME/.ssh/**", f"{home}/.ssh/**", "../../.ssh/**"]:
        rules = [DenyByArguments("read_file", path=pattern), AllowByDefault()]
        for path in [
            "../../.ssh/id_rsa", "~/.ssh/id_rsa", f"{home}/.ssh/id_rsa", "../../.SSH/id_rsa", "../.././.ssh//id_rsa",
            "$HOME/.ssh/id_rsa", "../../.ssh", "../q/../../.ssh/id_rsa", f"file://{home}/.ssh/id_rsa",
        ]:  # fmt: skip
            assert verdict(rules, "read_file", path=path) == "denied", (pattern, path)
        assert verdict(rules, "read_file", path="../../notes.txt") == "allowed"


@pytest.mark.usefixtures("folders")
def test_r15_a_path_in_a_list_counts_and_so_does_what_is_no_text() -> None:
    outside = DenyByArguments("write_files", arguments={"targets[*]": Not(PathPattern("project/**"))})
    inside = AllowByArguments("write_files", targets="project/**")
    for rules in ([outside, AllowByDefault()], [DenyByArguments("write_files", targets="!project/**"), inside]):
        for targets in [
            ["project/a", "/etc/passwd"], ["/etc/passwd", "project/a"], ["project/a", "project/../x"],
            ["project/out/x"], ["project/a", 5], ["project/a", None], ["project/a", ["project/b"]], "/etc/passwd",
            5, None,
        ]:  # fmt: skip
            assert verdict(rules, "write_files", targets=targets) in ("denied", "input_error"), targets
            reading = Agent([write_files], permissions=rules).use_tools([tool_call("write_files", targets=targets)])
            assert reading.results[0].verdict != "allowed"
        assert verdict(rules, "write_files", targets=["project/a", "project/sub/b"]) == "allowed"
    some = DenyByArguments("write_files", targets=AnyOf(PathPattern("secret/**")))
    assert verdict([some, AllowByDefault()], "write_files", targets=["project/a", "project/out/x"]) == "denied"


@pytest.mark.usefixtures("folders")
def test_r18_letters_that_look_alike_are_alike_for_a_deny_and_not_for_an_allow() -> None:
    deny = [DenyByArguments("read_file", path="secrets/password.txt"), AllowByDefault()]
    allow = [AllowByArguments("read_file", path="secrets/password.txt"), AskByArguments("*")]
    for path in [
        "secrets/p\u0430ssword.txt",
        "secrets/ｐassword.txt",
        "secrets/pass\u200bword.txt",
        "SECRETS/password.txt",
    ]:
        assert verdict(deny, "read_file", path=path) == "denied", path
        assert verdict(allow, "read_file", path=path) == "asked", path
    assert verdict(allow, "read_file", path="secrets/password.txt") == "allowed"


@pytest.mark.usefixtures("folders")
def test_r22_a_folder_counts_as_inside_of_itself_for_a_tool_that_lists_it() -> None:
    rules = [DenyByArguments("*", root="~/**"), AllowByDefault()]
    for root in ["~", "~/", "~/.ssh", "$HOME", os.environ["HOME"], "../home", "~/../home/"]:
        assert verdict(rules, "glob", root=root, pattern="**/*") == "denied", root
    assert verdict(rules, "glob", root="project", pattern="**/*") == "allowed"


# --- links that change ------------------------------------------------------------------------------------------------


class Meanwhile(DenyPermission):
    """Does something when it is asked about a call of a tool."""

    blocking = False

    def __init__(self, name: str, does: Callable[[], None]) -> None:
        self.tool_name, self.does = name, does

    def check(self, state: Any, call: ToolCall, tool: Tool) -> Verdict | None:
        if call.name == self.tool_name:
            self.does()
        return None


def point(link: Path, target: str) -> None:
    link.unlink()
    link.symlink_to(target)


@both_drivers
def test_a_link_that_is_swapped_between_deciding_and_running_is_seen(folders: Folders, driver: str) -> None:
    swap = Meanwhile("write_file", lambda: point(folders.base / "project/in", "../secret"))
    agent = Agent(
        [read_file, write_file],
        permissions=[AllowByArguments("read_file", path="project/**"), AllowByName(["write_file"]), swap],
    )
    calls = [tool_call("read_file", path="project/in/deep.txt"), tool_call("write_file", path="project/a.txt")]
    assert agent.explain("read_file", path="project/in/deep.txt").verdict == "allowed"
    turn = run(driver, agent, calls)
    assert [result.verdict for result in turn.results] == ["denied", "allowed"]
    assert "key" not in turn.results[0].content


@both_drivers
def test_a_deny_sees_a_link_that_is_swapped_between_deciding_and_running(folders: Folders, driver: str) -> None:
    (folders.base / "secret/deep.txt").write_text("the secret")
    swap = Meanwhile("write_file", lambda: point(folders.base / "project/in", "../secret"))
    agent = Agent(
        [read_file, write_file], permissions=[DenyByArguments("read_file", path="secret/**"), AllowByDefault(), swap]
    )
    calls = [tool_call("read_file", path="project/in/deep.txt"), tool_call("write_file", path="project/a.txt")]
    turn = run(driver, agent, calls)
    assert [result.verdict for result in turn.results] == ["denied", "allowed"]
    assert turn.results[0].content == "read_file(path=…) is not allowed by deny read_file(path=secret/**)"


@both_drivers
def test_a_link_that_is_swapped_while_a_person_thinks_is_seen(folders: Folders, driver: str) -> None:
    (folders.base / "secret/deep.txt").write_text("the secret")

    def approve(request: Any) -> bool:
        point(folders.base / "project/in", "../secret")
        return True

    agent = Agent(
        [read_file],
        permissions=[DenyByArguments("read_file", path="secret/**"), AskByArguments("read_file")],
        approval_handler=approve,
    )
    turn = run(driver, agent, [tool_call("read_file", path="project/in/deep.txt")])
    assert turn.results[0].verdict == "denied"
    assert "secret" not in turn.results[0].content.replace("deny read_file(path=secret/**)", "")


@both_drivers
def test_a_link_that_a_call_before_it_swaps_is_seen(folders: Folders, driver: str) -> None:
    (folders.base / "secret/deep.txt").write_text("the secret")

    @tool(parallel=False)
    def relink() -> str:
        point(folders.base / "project/in", "../secret")
        return "done"

    alone = tool(name="read_file", parallel=False)(read_file.function)
    agent = Agent([alone, relink], permissions=[DenyByArguments("read_file", path="secret/**"), AllowByDefault()])
    path = "project/in/deep.txt"
    turn = run(
        driver, agent, [tool_call("read_file", path=path), tool_call("relink"), tool_call("read_file", path=path)]
    )
    assert [result.verdict for result in turn.results] == ["allowed", "allowed", "denied"]


@both_drivers
def test_a_call_that_rules_on_names_decide_is_not_looked_at_again(driver: str) -> None:
    allow = Recording(AllowByName(["write_file"]))
    agent = Agent([write_file], permissions=[allow])
    run(driver, agent, [tool_call("write_file", path="x")])
    assert len(allow.calls) == 1
    assert not PermissionList([allow, AllowByDefault()]).reads_files


@both_drivers
def test_a_permission_of_ones_own_that_reads_files_is_asked_again(driver: str, tmp_path: Path) -> None:
    class NotWhileLocked(DenyPermission):
        blocking, reads_files = False, True

        def check(self, state: Any, call: ToolCall, tool: Tool) -> Verdict | None:
            return Denied("Somebody works on it.") if (tmp_path / "lock").exists() else None

    lock = Meanwhile("write_file", lambda: (tmp_path / "lock").write_text(""))
    agent = Agent([write_file, read_file], permissions=[NotWhileLocked(), lock, AllowByDefault()])
    turn = run(driver, agent, [tool_call("read_file", path="x"), tool_call("write_file", path="x")])
    assert turn.results[0].content == "Somebody works on it."
    assert Recording(NotWhileLocked()).reads_files
    assert PermissionList([NotWhileLocked()]).reads_files


def test_what_was_known_of_links_in_one_turn_is_not_known_in_the_next(folders: Folders) -> None:
    agent = Agent([read_file], permissions=[AllowByArguments("read_file", path="project/**")])
    call = tool_call("read_file", path="project/in/deep.txt")
    assert agent.use_tools([call]).results[0].verdict == "allowed"
    point(folders.base / "project/in", "../secret")
    with pytest.warns(match="No permission allowed or denied"):
        assert agent.use_tools([call]).results[0].verdict == "denied"
