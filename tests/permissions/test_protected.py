"""Protected paths: however a path is spelt, wherever it stands, and whatever the rules say, somebody is asked."""

from __future__ import annotations

import os
import pickle
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from turns import DRIVERS, Counter, run

from agentperm_nb import (
    Agent,
    AllowAll,
    AllowByDefault,
    AllowByName,
    AllowByReadOnly,
    ApprovalDecision,
    DecideByHuman,
    Denied,
    DenyPermission,
    Hints,
    Mode,
    PermissionPolicy,
    PerUserPermissions,
    PolicyFiles,
    RunContext,
    Scope,
    StandardPermissions,
    Tool,
    ToolCall,
    Verdict,
    tool,
)
from agentperm_nb.context import running_in
from agentperm_nb.permissions.mentions import piece_of
from agentperm_nb.permissions.protected import Guarded, ProtectedPaths, guarded
from agentperm_nb.testing import FakeHuman, ScriptedModel, tool_call

both_drivers = pytest.mark.parametrize("driver", DRIVERS)


@tool(read_only=True)
def read_file(path: str) -> str:
    """Read a file."""
    return path


@tool
def write_file(path: str, content: str = "") -> str:
    """Write a file."""
    return path


@tool(paths=["out"])
def export(out: str, options: dict[str, Any] | None = None) -> str:
    """Write a table."""
    return out


def anything(**values: Any) -> str:
    """Do anything."""
    return "done"


ANYTHING = Tool("anything", "Do anything.", {"type": "object"}, function=anything)


@pytest.fixture
def base(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The working directory, with a policy file, links to it, and other files."""
    folder = tmp_path / "project"
    (folder / "sub" / "deep").mkdir(parents=True)
    (folder / "agentperm.toml").write_text("version = 1\nmode = 'bypassPermissions'\n")
    (folder / "notes.txt").write_text("milk")
    (folder / "link.toml").symlink_to("agentperm.toml")
    (folder / "chain").symlink_to("link.toml")
    (folder / "sub" / "up").symlink_to("..")
    (folder / "hard").hardlink_to(folder / "agentperm.toml")
    (tmp_path / "elsewhere").symlink_to(folder)
    (tmp_path / "home").symlink_to(folder)
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    monkeypatch.chdir(folder)
    return folder


def protected(*paths: str, folder: str | None = None) -> ProtectedPaths:
    return ProtectedPaths(guarded(paths or ("agentperm.toml",), folder or os.getcwd()))


def asked(permission: ProtectedPaths, call: ToolCall, of: Tool, **context: Any) -> bool:
    with running_in(RunContext("run", "session", "ann", **context)):
        return permission.check(None, call, of) is not None


# --- spellings --------------------------------------------------------------------------------------------------------

SPELLINGS = [
    "agentperm.toml", "./agentperm.toml", "././agentperm.toml", ".//agentperm.toml", "sub/../agentperm.toml",
    "sub/deep/../../agentperm.toml", "sub/up/agentperm.toml", "no/../agentperm.toml", "{base}/agentperm.toml",
    "/{base}/agentperm.toml", "{base}/./sub/../agentperm.toml", "{top}/elsewhere/agentperm.toml",
    "../elsewhere/agentperm.toml", "../project/agentperm.toml", "~/agentperm.toml", "~//agentperm.toml", "link.toml",
    "chain", "./chain", "sub/up/chain",
    "hard", "sub/../hard", "file:agentperm.toml", "file://{base}/agentperm.toml", "file:///{base}/agentperm.toml",
    "file://localhost{base}/agentperm.toml", "FILE://{base}/agentperm.toml", "agentperm%2etoml", "%61gentperm.toml",
    "AGENTPERM.TOML", "AgentPerm.toml", "agentperm.Toml", " agentperm.toml", "agentperm.toml ", "'agentperm.toml'",
    '"agentperm.toml"', "agentperm.toml/", "agentperm.toml/.", ".\\agentperm.toml", "sub\\..\\agentperm.toml",
    "ａｇｅｎｔｐｅｒｍ.toml", "agentperm．toml", "agent\u200bperm.toml", "\u2060agentperm.toml", "аgentperm.toml",
    "agentperm\u2024toml", "𝐚gentperm.toml", "agentperm.toml\ufe0f", "$HOME/agentperm.toml", "${HOME}/agentperm.toml",
    "$PWD/agentperm.toml", "`pwd`/agentperm.toml", "%USERPROFILE%/agentperm.toml", "agentperm.tom?", "*.toml",
    "agentperm.toml\n", "\tagentperm.toml", "~ann/agentperm.toml", "..%2fproject%2fagentperm.toml",
]  # fmt: skip

OTHERS = [
    "notes.txt", "agentperm.txt", "agentperm.toml.bak", "my-agentperm.toml", "sub/agentperm.toml", "agentperm",
    "{top}/agentperm.toml", "../agentperm.toml", "agentperm.toml/x/../../notes.txt", "sub", "", "toml",
    "https://example.com/agentperm.toml", "s3://bucket/agentperm.toml",
]  # fmt: skip


def spelt(text: str, base: Path) -> str:
    return text.replace("{base}", str(base)).replace("{top}", str(base.parent))


@pytest.mark.parametrize("text", SPELLINGS)
def test_every_spelling_of_a_protected_path_is_asked_about(text: str, base: Path) -> None:
    assert asked(protected(), ToolCall("write_file", {"path": spelt(text, base)}), write_file)


@pytest.mark.parametrize("text", OTHERS)
def test_another_path_is_not_asked_about(text: str, base: Path) -> None:
    assert not asked(protected(), ToolCall("write_file", {"path": spelt(text, base)}), write_file)


@pytest.mark.parametrize("text", [text for text in SPELLINGS if "$" not in text and "%" not in text and "`" not in text
                                  and "?" not in text and "*" not in text and "~ann" not in text
                                  and not text.startswith("\t") and not text.endswith("\n")])  # fmt: skip
def test_so_it_is_in_an_argument_that_nobody_calls_a_path(text: str, base: Path) -> None:
    assert asked(protected(), ToolCall("anything", {"value": spelt(text, base)}), ANYTHING)


def nested(value: Any, levels: int) -> Any:
    for _ in range(levels):
        value = [value]
    return value


@pytest.mark.parametrize("text", [text for text in SPELLINGS if "$" not in text and "`" not in text
                                  and "?" not in text and "*" not in text and "~ann" not in text])  # fmt: skip
def test_so_it_is_among_many_other_texts(text: str, base: Path) -> None:
    rows = [f"{n}/{n}" for n in range(200)]
    alone = asked(protected(), ToolCall("anything", {"value": spelt(text, base)}), ANYTHING)
    assert asked(protected(), ToolCall("anything", {"rows": [*rows, spelt(text, base)]}), ANYTHING) is alone
    assert not asked(protected(), ToolCall("anything", {"rows": [*rows, "notes.txt"]}), ANYTHING)


PLACES: dict[str, dict[str, Any]] = {
    "an argument": {"x": "agentperm.toml"},
    "a list": {"x": ["notes.txt", "agentperm.toml"]},
    "a list in a list": {"x": [["notes.txt"], [["agentperm.toml"]]]},
    "an object": {"x": {"to": "agentperm.toml"}},
    "an object in a list": {"x": [{"y": {"z": ["./agentperm.toml"]}}]},
    "the name of a field": {"files": {"agentperm.toml": "version = 1"}},
    "the name of a field, spelt otherwise": {"x": {"sub/../agentperm.toml": 1}},
    "the name of an argument": {"./agentperm.toml": "version = 1"},
    "very deep": {"x": nested("agentperm.toml", 400)},
    "beside much else": {"x": [f"row {n}" for n in range(3_000)] + ["link.toml"]},
    "a command": {"command": "sed -i s/deny/allow/ agentperm.toml"},
    "a command with a redirection": {"command": "echo 'version = 1'>agentperm.toml"},
    "a command with quotes": {"command": 'cp new.toml "./agentperm.toml"'},
    "a command with an option": {"args": ["--output=agentperm.toml"]},
    "a command with a variable": {"command": "cp new.toml $PWD/agentperm.toml"},
    "a sentence": {"prompt": "Please write agentperm.toml anew"},
}  # fmt: skip


@pytest.mark.parametrize("args", PLACES.values(), ids=PLACES)
def test_a_protected_path_is_found_wherever_it_stands(args: dict[str, Any], base: Path) -> None:
    assert asked(protected(), ToolCall("anything", args), ANYTHING)


COMMANDS = [
    "echo '# x' >> agentperm.toml", "echo '# x' >> agentperm.toml\n", "\necho '# x' >> agentperm.toml",
    "echo '# x' >> agentperm.toml\r", "cd .\necho '# x' >> agentperm.toml", "a\r\ntee agentperm.toml\r\nb",
    " " * 9_000 + "echo '# x' >> agentperm.toml", "echo '# x' >> agentperm.toml #" + "y" * 9_000,
    "# " + "note\n" * 30_000 + "tee agentperm.toml", "# " + "y" * 200_000 + "\ntee agentperm.toml",
    "echo '# x' >> agentperm''.toml", "echo '# x'>>agentperm.toml&&ls", "echo '# x'>>${PWD}/agentperm.toml",
    "echo '# x' >>\"${PWD}\"/agentperm.toml", "echo '# x' >> $(pwd)/agentperm.toml",
    "echo '# x'>>\"$PWD/agentperm.toml\"", "python -c \"open('agentperm.toml','a').write('#')\"",
    "dd of=agentperm.toml if=/dev/null", "echo '# x' >|agentperm.toml", "sed -i s/1/1/ agentperm.toml",
    "{ echo '# x'; }>agentperm.toml", "echo x > 'agentperm'.toml", "echo x > AGENTPERM.TOML",
    "echo x > agentperm.tom\\l", "echo x > agentperm\\\n.toml", "printf x | tee ./agentperm.toml",
    "cat x > agentperm%2etoml", "tee \u0430gentperm.toml", "agentperm.toml\n", "$X/agentperm.toml",
    "echo x > link.toml", "echo x > chain\n", "echo x >hard", "tee sub/up/chain", "tee {base}/hard",
    "cp a ./sub/../chain",
    "dd of=hard", "tee 'hard'", "tee ~/link.toml",
]  # fmt: skip

OTHER_COMMANDS = [
    "echo x > notes.txt\n", "tee sub/agentperm.toml\nls", "cp a agentperm.toml.bak", "cat ${X}/notes.txt", "ls sub/up",
    "# " + "y" * 300_000, "print(f'${process.agentperm.toml.x}')", "curl https://example.com/agentperm.toml\n",
]  # fmt: skip


def short(text: str) -> str:
    return repr(f"{text[:20]}...{text[-20:]}" if len(text) > 60 else text)


@pytest.mark.parametrize("rows", [0, 1_000], ids=["alone", "among many"])
@pytest.mark.parametrize("command", COMMANDS, ids=short)
def test_a_command_that_holds_a_protected_path_is_asked_about(command: str, rows: int, base: Path) -> None:
    args = {"x": [*(f"row {n}" for n in range(rows)), spelt(command, base)]}
    assert asked(protected(), ToolCall("anything", args), ANYTHING)


@pytest.mark.parametrize("command", OTHER_COMMANDS, ids=short)
def test_a_command_that_holds_another_path_is_not(command: str, base: Path) -> None:
    assert not asked(protected(), ToolCall("anything", {"x": spelt(command, base)}), ANYTHING)


@both_drivers
@pytest.mark.parametrize("command", [command for command in COMMANDS if "{base}" not in command], ids=short)
def test_such_a_command_does_not_run_in_a_mode_that_asks_nobody(command: str, driver: str, base: Path) -> None:
    counter = Counter()
    shell = Tool("bash", "Run.", {"type": "object"}, function=lambda command: counter.ran.append(command))
    turn = run(driver, Agent([shell], policy=ours(base), human=None), [tool_call("bash", command=command)])
    assert [(result.verdict, result.decided_by) for result in turn.results] == [("denied", "protected path")]
    assert counter.ran == []


PATTERNS = [
    ("keys/**", "keys/a.pem"), ("keys/*", "./keys/new.pem"), ("keys/a.pem", "keys/a.pem"), ("keys/", "keys/b.pem"),
    ("{base}/keys/*", "keys/a.pem"), ("**/*.pem", "keys/a.pem"), ("**/.env", ".env"), (".env", ".env"),
    ("*.key", "id.key"), ("**/id_*", "id_rsa"), ("~/.ssh/**", "~/.ssh/config"), ("~/.ssh/**", ".ssh/authorized_keys"),
    ("/etc/**", "/etc/hosts"), ("**/.git/**", ".git/config"), ("**/.git/**", "sub/deep/.git/hooks/pre-push"),
    ("**/secrets.*", "secrets.toml"), ("**/secrets.*", "SECRETS.toml"), ("**/[ab]?", "b1"), ("*", "new.txt"),
    ("**/?", "x"), ("{top}/**", "new.txt"), ("{base}/", "new.txt"),
    ("**/[!a]_secret", "b_secret"),
    ("**/\u217dert.*", "cert.pem"), ("**/c\u0435rt.*", "cert.pem"), ("~/*.cfg", "a.cfg"), ("keys/**", "k/a.pem"),
]  # fmt: skip


@pytest.mark.parametrize("command", ["echo q >{}", "cp q {}\n", "ls\ntee '{}'; ls", "dd of={} if=q"])
@pytest.mark.parametrize(("pattern", "path"), PATTERNS)
def test_what_a_pattern_protects_it_protects_in_commands_too(pattern: str, path: str, command: str, base: Path) -> None:
    (base / "keys").mkdir()
    (base / "k").symlink_to("keys")
    permission = protected(spelt(pattern, base))
    assert asked(permission, ToolCall("anything", {"x": path}), ANYTHING)
    assert asked(permission, ToolCall("anything", {"x": command.replace("{}", path)}), ANYTHING)


@pytest.mark.parametrize(
    ("pattern", "piece"),
    [
        ("keys/**", "keys"),
        ("/etc/**", "etc"),
        ("~/.ssh/**", ".ssh"),
        ("**/id_*", "id_"),
        ("**/Secrets.*", "secrets."),
        ("keys/*/?", "keys"),
        ("**/[ab].txt", ".txt"),
        ("**/[!]a]bc", "bc"),
        ("a[*]", "a"),
        ("~/**", ""),
        ("**/[ab]*", ""),
    ],
)
def test_every_path_that_a_pattern_takes_holds_its_piece(pattern: str, piece: str) -> None:
    assert piece_of(pattern) == piece


def test_a_text_too_long_to_be_read_is_asked_about_where_every_word_may_be_a_protected_path(base: Path) -> None:
    page = ToolCall("anything", {"x": "y\n" * 150_000})
    assert asked(protected(f"{base.parent}/**"), page, ANYTHING)
    assert asked(protected("**/?"), page, ANYTHING)
    assert not asked(protected("keys/**"), page, ANYTHING)


def test_many_rows_of_text_are_not_each_looked_up(base: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    looked_up: list[str] = []
    known = os.path.lexists
    monkeypatch.setattr(os.path, "lexists", lambda path: looked_up.append(str(path)) or known(path))
    rows = [f"row {n} of {n}a and {n}b, {n}c, {n}d, {n}e" for n in range(3_000)]
    assert not asked(protected(), ToolCall("anything", {"rows": rows}), ANYTHING)
    assert len(looked_up) <= 5_000
    assert asked(protected(), ToolCall("anything", {"rows": [*rows, "tee agentperm.toml"]}), ANYTHING)


def test_a_long_text_that_mentions_a_file_is_no_path(base: Path) -> None:
    page = "# How to\n\nThe rules are in agentperm.toml.\n"
    assert not asked(protected(), ToolCall("write_file", {"path": "README.md", "content": page}), write_file)
    assert not asked(protected(), ToolCall("write_file", {"path": "a.txt", "content": "x" * 100_000}), write_file)


def test_an_argument_for_code_is_not_taken_for_a_path_that_cannot_be_read(base: Path) -> None:
    assert not asked(protected(), ToolCall("anything", {"source": "total = 5\nprint(f'${total}')"}), ANYTHING)


def test_what_is_asked_names_the_file_and_the_argument(base: Path) -> None:
    with running_in(RunContext("run", "session", "ann")):
        said = protected().check(None, ToolCall("export", {"out": "link.toml"}), export)
    assert said is not None
    assert said.reason == f"export may write {base}/agentperm.toml, a protected path (out)"  # type: ignore[union-attr]


def test_outside_of_a_run_it_is_relative_to_the_working_directory(base: Path) -> None:
    assert protected().check(None, ToolCall("write_file", {"path": "link.toml"}), write_file) is not None


# --- tools ------------------------------------------------------------------------------------------------------------


def by_mode(args: dict[str, Any]) -> Hints:
    return Hints(read_only=args.get("mode") == "r")


def by_server(args: dict[str, Any]) -> Hints:
    return Hints(read_only=True, source="server")


def failing(args: dict[str, Any]) -> Hints:
    raise RuntimeError("no hints")


TOOLS: dict[str, tuple[Tool, dict[str, Any], bool]] = {
    "read-only": (Tool("open", "Open.", {"type": "object"}, function=anything, read_only=True), {}, False),
    "says nothing": (Tool("open", "Open.", {"type": "object"}, function=anything), {}, True),
    "not destructive": (Tool("open", "Open.", {"type": "object"}, function=anything, destructive=False), {}, True),
    "reads, this time": (
        Tool("open", "Open.", {"type": "object"}, function=anything, hints_for=by_mode),
        {"mode": "r"},
        False,
    ),
    "writes, this time": (
        Tool("open", "Open.", {"type": "object"}, function=anything, hints_for=by_mode),
        {"mode": "w"},
        True,
    ),
    "hints that fail": (Tool("open", "Open.", {"type": "object"}, function=anything, hints_for=failing), {}, True),
    "a server says read-only": (
        Tool("open", "Open.", {"type": "object"}, function=anything, hints_for=by_server),
        {},
        True,
    ),
}


@pytest.mark.parametrize(("of", "args", "is_asked"), TOOLS.values(), ids=TOOLS)
def test_whether_a_call_may_write_is_said_by_the_hints_for_it(
    of: Tool, args: dict[str, Any], is_asked: bool, base: Path
) -> None:
    assert asked(protected(), ToolCall("open", {"path": "agentperm.toml", **args}), of) is is_asked


# --- what may be protected --------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("path", "value", "is_asked"),
    [
        ("sub/", "sub/deep/x.txt", True),
        ("sub/", "sub", True),
        ("sub", "sub/deep/x.txt", True),
        ("sub/", "subway/x.txt", False),
        ("new/", "new/x.txt", True),
        ("new", "new/x.txt", False),
        ("sub/**", "sub/deep/x.txt", True),
        ("sub/*.txt", "sub/x.txt", True),
        ("sub/*.txt", "sub/deep/x.txt", False),
        ("sub/*.txt", "SUB/X.TXT", True),
        ("**/*.key", "/anywhere/at/all.key", True),
        ("~/*.txt", "notes.txt", True),
        ("~/notes.txt", "notes.txt", True),
        ("notes.txt", "notes.txt", True),
        (Path("[id].txt"), "[id].txt", True),
        (Path("a*b.txt"), "axb.txt", False),
        ("/etc/agentperm_nb/", "/etc/agentperm_nb/policy.toml", True),
    ],
    ids=str,
)
def test_paths_folders_and_patterns_can_be_protected(path: Any, value: str, is_asked: bool, base: Path) -> None:
    (base / "[id].txt").touch()
    assert asked(protected(path), ToolCall("write_file", {"path": value}), write_file) is is_asked


@pytest.mark.parametrize("name", ["we$ird.toml", "50%.toml", "ünï.toml", "with blank.toml", "a{b,c}.toml", "a|b.toml"])
def test_a_file_with_an_odd_name_is_protected_by_its_name(name: str, base: Path) -> None:
    (base / name).write_text("version = 1")
    permission = ProtectedPaths([Guarded(str(base / name))])
    assert asked(permission, ToolCall("write_file", {"path": name}), write_file)
    assert asked(permission, ToolCall("write_file", {"path": str(base / name)}), write_file)
    for command in (f"tee '{name}'\n", f'dd of="{name}"', "tee {}; ls"):
        if "{}" not in command or not {"|", ","} & set(name):  # without quotes these are two words to a shell
            command = command.replace("{}", name.replace(" ", "\\ "))
            assert asked(permission, ToolCall("anything", {"x": command}), ANYTHING), command
    assert not asked(permission, ToolCall("write_file", {"path": "notes.txt"}), write_file)


def test_what_it_is_relative_to_stays_in_a_run_with_another_folder(base: Path) -> None:
    permission = protected("agentperm.toml", "sub/*.txt", folder=str(base))
    other = {"folder": str(base / "sub")}
    assert asked(permission, ToolCall("write_file", {"path": "../agentperm.toml"}), write_file, **other)
    assert asked(permission, ToolCall("write_file", {"path": "x.txt"}), write_file, **other)
    assert not asked(permission, ToolCall("write_file", {"path": "agentperm.toml"}), write_file, **other)


def test_a_file_that_is_not_there_yet_is_protected_too(base: Path) -> None:
    permission = protected("new/policy.toml")
    (base / "way").symlink_to("new")
    assert asked(permission, ToolCall("write_file", {"path": "new/policy.toml"}), write_file)
    assert asked(permission, ToolCall("write_file", {"path": "way/policy.toml"}), write_file)


def test_the_target_of_a_link_is_protected_with_the_link(base: Path) -> None:
    permission = protected("chain")
    for path in ("chain", "link.toml", "agentperm.toml", "hard"):
        assert asked(permission, ToolCall("write_file", {"path": path}), write_file), path


def test_a_link_that_leads_elsewhere_by_now_protects_what_it_leads_to_now(base: Path) -> None:
    permission = protected("link.toml")
    (base / "other.toml").write_text("version = 1")
    call = ToolCall("write_file", {"path": "other.toml"})
    assert not asked(permission, call, write_file)
    (base / "link.toml").unlink()
    (base / "link.toml").symlink_to("other.toml")
    assert asked(permission, call, write_file)


@pytest.mark.parametrize("given", ["agentperm.toml", 5, b"a", [5], [b"a"], [None]], ids=repr)
def test_what_is_no_list_of_paths_is_an_error(given: Any) -> None:
    with pytest.raises(TypeError, match=r"protected= takes (a list of )?paths"):
        Agent([write_file], protected=given)


@pytest.mark.parametrize("given", [[""], [" "], ["a\0b"], ["a/**b"]], ids=repr)
def test_a_path_that_is_none_is_an_error(given: Any) -> None:
    with pytest.raises(ValueError, match="Fix: "):
        Agent([write_file], protected=given)


def test_it_can_only_ask() -> None:
    class Lenient(ProtectedPaths):
        blocking = False

        def check(self, state: Any, call: ToolCall, tool: Tool) -> Verdict | None:
            from agentperm_nb import Allowed

            return Allowed()

    counter = Counter()
    agent = Agent([counter.tool], permissions=[Lenient([]), AllowByDefault()])
    with pytest.raises(TypeError, match=r"an AskFirst may return only Ask\(\.\.\.\) or None"):
        agent.use_tools([tool_call("act")])
    assert counter.ran == []


def test_it_can_be_pickled(base: Path) -> None:
    again = pickle.loads(pickle.dumps(protected("agentperm.toml", "**/*.key")))
    assert asked(again, ToolCall("write_file", {"path": "a.key"}), write_file)


# --- nothing gets around it -------------------------------------------------------------------------------------------


class Writer:
    """A tool that notes what it was to write."""

    def __init__(self) -> None:
        self.wrote: list[str] = []

    def tool(self, name: str = "write_file") -> Tool:
        schema = {"type": "object", "properties": {"path": {"type": "string"}, "content": {"type": "string"}}}
        return Tool(name, "Write.", schema, function=self._write, paths=["path"])

    def _write(self, path: str, content: str = "") -> str:
        self.wrote.append(path)
        return f"wrote {path}"


LENIENT: dict[str, Callable[[], Any]] = {
    "AllowByDefault": lambda: [AllowByDefault()],
    "AllowByName": lambda: [AllowByName(["*"])],
    "a rule": lambda: ["allow write_file(path=**)"],
    "a rule on this very path": lambda: ["allow write_file(path=agentperm.toml)"],
    "AllowAll": AllowAll,
    "BYPASS": lambda: StandardPermissions(mode=Mode.BYPASS),
    "ACCEPT_EDITS": lambda: StandardPermissions(mode=Mode.ACCEPT_EDITS),
    "a mode of the user": lambda: PerUserPermissions({}, StandardPermissions(mode=Mode.BYPASS)),
    "a policy": lambda: PermissionPolicy([], fallback="allow"),
    "left out": lambda: None,
}


@both_drivers
@pytest.mark.parametrize("lenient", LENIENT.values(), ids=LENIENT)
def test_no_permission_lets_the_policy_file_be_written_unasked(
    lenient: Callable[[], Any], driver: str, base: Path
) -> None:
    writer, given = Writer(), lenient()
    settings = {} if given is None else {"permissions": given}
    agent = Agent([writer.tool()], policy=ours(base), human=None, **settings)
    turn = run(driver, agent, [tool_call("write_file", path="chain"), tool_call("write_file", path="notes.txt")])
    assert [result.verdict for result in turn.results] == ["denied", "allowed"]
    assert (turn.results[0].decided_by, turn.results[0].answered_by) == ("protected path", "nobody")
    assert writer.wrote == ["notes.txt"]
    assert agent.explain("write_file", path="agentperm.toml").verdict == "asked"


def ours(base: Path) -> PolicyFiles:
    return PolicyFiles(base / "agentperm.toml", administrator=None, user=None)


@both_drivers
def test_an_explicit_yes_lets_it_run(driver: str, base: Path) -> None:
    writer = Writer()
    agent = Agent([writer.tool()], policy=ours(base), human=FakeHuman(["yes", "no"]))
    calls = [tool_call("write_file", path="link.toml"), tool_call("write_file", path="./agentperm.toml")]
    turn = run(driver, agent, calls)
    assert [result.verdict for result in turn.results] == ["cancelled", "denied"], "the second answer stops the turn"
    agent = agent.copy(approval_handler=lambda request: request.call.args["path"] == "link.toml")
    turn = run(driver, agent, calls)
    assert [result.verdict for result in turn.results] == ["allowed", "denied"]
    assert writer.wrote == ["link.toml"]


def test_denies_come_before_it(base: Path) -> None:
    agent = Agent([write_file], permissions=["deny write_file(path=**/*.toml)"], policy=ours(base))
    assert agent.explain("write_file", path="agentperm.toml").decided_by == "deny write_file(path=**/*.toml)"


@both_drivers
@pytest.mark.parametrize(
    ("scope", "times"),
    [(Scope("tool", "session"), 2), (Scope("arguments", "session", ["path"]), 2), (Scope("call", "session"), 1)],
    ids=["tool", "arguments", "call"],
)
def test_a_remembered_answer_counts_only_for_this_very_call(scope: Scope, times: int, driver: str, base: Path) -> None:
    writer, questions = Writer(), []

    def handler(request: Any) -> Any:
        questions.append(request.call.args["path"])
        return ApprovalDecision("remember_allow", scope=scope)

    agent = Agent([writer.tool()], permissions=[DecideByHuman()], policy=ours(base), approval_handler=handler)
    for _ in range(2):
        run(driver, agent, [tool_call("write_file", path="agentperm.toml", content="x")])
    assert questions == ["agentperm.toml"] * times
    assert len(writer.wrote) == 2


@both_drivers
def test_an_answer_that_was_remembered_for_the_tool_does_not_open_the_policy_file(driver: str, base: Path) -> None:
    writer, questions = Writer(), []

    def handler(request: Any) -> Any:
        questions.append(request.call.args["path"])
        if request.call.args["path"] != "notes.txt":
            return False
        return ApprovalDecision("remember_allow", scope=Scope("tool", "session"))

    agent = Agent([writer.tool()], permissions=[DecideByHuman()], policy=ours(base), approval_handler=handler)
    for path in ("notes.txt", "notes.txt", "more.txt", "agentperm.toml", "hard"):
        run(driver, agent, [tool_call("write_file", path=path)])
    assert questions == ["notes.txt", "agentperm.toml", "hard"]
    assert writer.wrote == ["notes.txt", "notes.txt", "more.txt"]


@both_drivers
def test_a_remembered_no_counts_for_a_protected_path_too(driver: str, base: Path) -> None:
    answers = [ApprovalDecision("remember_deny", scope=Scope("tool", "session"))]
    agent = Agent(
        [write_file], policy=ours(base), permissions=[DecideByHuman()], approval_handler=lambda r: answers.pop()
    )
    run(driver, agent, [tool_call("write_file", path="notes.txt")])
    turn = run(driver, agent, [tool_call("write_file", path="agentperm.toml")])
    assert (turn.results[0].verdict, turn.results[0].answered_by) == ("denied", "memory")


@both_drivers
def test_a_link_that_comes_to_lead_to_the_policy_file_while_a_person_thinks_is_seen(driver: str, base: Path) -> None:
    writer = Writer()

    def handler(request: Any) -> bool:
        (base / "free.txt").symlink_to("agentperm.toml")
        return True

    agent = Agent([writer.tool()], permissions=[DecideByHuman()], policy=ours(base), approval_handler=handler)
    turn = run(driver, agent, [tool_call("write_file", path="free.txt")])
    assert (turn.results[0].verdict, writer.wrote) == ("denied", [])
    assert "now a person has to be asked" in turn.results[0].content


@both_drivers
def test_a_link_that_comes_to_lead_there_before_an_allowed_call_starts_is_seen(driver: str, base: Path) -> None:
    writer = Writer()

    class Swap(DenyPermission):
        """Lets a link lead to the policy file once the calls of a turn are decided."""

        blocking = False

        def check(self, state: Any, call: ToolCall, tool: Tool) -> Denied | None:
            if call.name == "last" and not (base / "free.txt").exists():
                (base / "free.txt").symlink_to("agentperm.toml")
            return None

    agent = Agent([writer.tool(), writer.tool("last")], permissions=[Swap(), AllowByDefault()], policy=ours(base))
    turn = run(driver, agent, [tool_call("write_file", path="free.txt"), tool_call("last", path="notes.txt")])
    assert [result.verdict for result in turn.results] == ["denied", "allowed"]
    assert writer.wrote == ["notes.txt"]


@both_drivers
def test_an_edit_into_a_protected_path_is_the_answer_to_its_question(driver: str, base: Path) -> None:
    writer = Writer()
    edit = ApprovalDecision("edit", edited_args={"path": "agentperm.toml"})
    agent = Agent([writer.tool()], permissions=[DecideByHuman()], policy=ours(base), approval_handler=lambda r: edit)
    turn = run(driver, agent, [tool_call("write_file", path="notes.txt")])
    assert (turn.results[0].verdict, writer.wrote) == ("allowed", ["agentperm.toml"])


@both_drivers
def test_where_a_second_person_is_wanted_the_user_cannot_say_yes_to_it(driver: str, base: Path) -> None:
    writer = Writer()
    yes = lambda request: ApprovalDecision("allow", approver="ann")  # noqa: E731 - it is an argument
    permissions = [AllowByReadOnly(), DecideByHuman(second_person=True)]
    agent = Agent([writer.tool()], permissions=permissions, policy=ours(base), approval_handler=yes, user="ann")
    turn = run(driver, agent, [tool_call("write_file", path="agentperm.toml")])
    assert (turn.results[0].verdict, writer.wrote) == ("denied", [])
    assert "A second person has to approve" in turn.results[0].content


@both_drivers
@pytest.mark.parametrize("inner", ["no list", "AllowByDefault", "None", "a policy of its own"])
def test_a_subagent_cannot_write_the_policy_file_of_the_agent_above(inner: str, driver: str, base: Path) -> None:
    writer, asked_about = Writer(), []
    settings: dict[str, Any] = {
        "no list": {},
        "AllowByDefault": {"permissions": [AllowByDefault()]},
        "None": {"permissions": None},
        "a policy of its own": {"policy": PolicyFiles(base / "inner.toml", administrator=None, user=None)},
    }[inner]
    (base / "inner.toml").write_text("version = 1\nmode = 'bypassPermissions'\n")
    call = tool_call("write_file", path="chain")
    below = Agent([writer.tool()], name="below", model=ScriptedModel([call, "Done."]), **settings)

    def handler(request: Any) -> bool:
        asked_about.append((request.call.name, request.rule))
        return request.call.name == "below"

    lead = Agent(
        [below], permissions=[AllowByName(["below"]), DecideByHuman()], policy=ours(base), approval_handler=handler
    )
    turn = run(driver, lead, [tool_call("below", prompt="Make it lenient")])
    assert turn.results[0].verdict == "allowed"
    assert asked_about == [("write_file", "protected path #1" if inner == "a policy of its own" else "protected path")]
    assert writer.wrote == []


def test_the_policy_files_of_every_layer_are_protected_those_that_are_not_there_too(base: Path, tmp_path: Path) -> None:
    folder = tmp_path / "settings" / "agentperm_nb"
    files = PolicyFiles(
        base / "agentperm.toml", administrator=tmp_path / "etc" / "admin.toml", user=folder / "policy.toml"
    )
    agent = Agent([write_file], policy=files)
    for path in (tmp_path / "etc" / "admin.toml", folder / "policy.toml", folder, folder / "more" / "x"):
        assert agent.explain("write_file", path=str(path)).decided_by == "protected path", path
    assert agent.explain("write_file", path=str(tmp_path / "etc" / "other.toml")).verdict == "allowed"
    assert agent.explain("write_file", path=str(base)).verdict == "allowed", "the folder of a project is its own"


def test_an_agent_says_which_paths_it_protects_without_a_policy_too(base: Path) -> None:
    agent = Agent([write_file, read_file], permissions=[AllowByDefault()], protected=["audit.db", "keys/**"])
    assert agent.explain("write_file", path="audit.db").decided_by == "protected path"
    assert agent.explain("write_file", path="keys/a").decided_by == "protected path"
    assert agent.explain("read_file", path="keys/a").verdict == "allowed"
    assert f"protected: {base}/audit.db, keys/**" in repr(agent)
    assert agent.copy(name="second").explain("write_file", path="audit.db").decided_by == "protected path"


@pytest.mark.parametrize(
    "given", [{"protected": ["audit.db"]}, {"policy": "agentperm.toml"}], ids=["protected", "policy"]
)
def test_with_no_checks_at_all_nothing_can_be_protected(given: dict[str, Any], base: Path) -> None:
    with pytest.raises(ValueError, match="permissions=None switches all checks off"):
        Agent([write_file], permissions=None, **given)
