"""Explain and why_not of an agent, and what their page says of them."""

from __future__ import annotations

import ast
from pathlib import Path
from typing import Any

import pytest
from page_tables import names_of_page, shown_texts, table_rows, value_of

from agentperm_nb import (
    Agent,
    AllowByDefault,
    AllowByReadOnly,
    DecideByHuman,
    DecidePermission,
    Denied,
    DenyByName,
    DenyPermission,
    PermissionPolicy,
    PermissionRule,
    StandardPermissions,
    Tool,
    ToolCall,
    WhyNot,
    tool,
)
from agentperm_nb.permissions.policy_layers import PolicyFiles
from agentperm_nb.testing import FakeHuman, Recording, ScriptedModel, tool_call

PAGE = "explain.md"


@pytest.fixture(scope="module")
def names() -> dict[str, Any]:
    return names_of_page(PAGE)


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """A folder to work in, with a link in it."""
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "link").symlink_to("elsewhere")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    return str(tmp_path)


def call_of(text: str) -> ToolCall:
    """Return the call that a text such as ``act(n=1)`` says."""
    made = ast.parse(text, mode="eval").body
    assert isinstance(made, ast.Call)
    return tool_call(ast.unparse(made.func), **{one.arg or "": ast.literal_eval(one.value) for one in made.keywords})


def agent_with(permissions: Any, names: dict[str, Any], **settings: Any) -> Agent:
    return Agent(names["tools"], permissions=permissions, human=FakeHuman([]), **settings)


# --- the page ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("permission", "call", "row"), table_rows(PAGE, "permission", "call", "its row"), ids=ascii)
def test_a_row_says_what_the_page_says(
    permission: str, call: str, row: str, names: dict[str, Any], folder: str
) -> None:
    agent = agent_with([eval(permission, names), DecideByHuman()], names)
    assert agent.explain(call_of(call)).rows[0][3] == row


@pytest.mark.parametrize(
    ("rule", "call", "read_as", "matches"), table_rows(PAGE, "rule", "call", "read as", "matches"), ids=ascii
)
def test_arguments_are_read_as_the_page_says(
    rule: str, call: str, read_as: str, matches: str, names: dict[str, Any], folder: str
) -> None:
    (row,) = agent_with([rule, DecideByHuman()], names).explain(call_of(call)).readings
    assert (row.permission, row.read_as.replace(folder, "…"), row.matches) == (rule, read_as, matches)


@pytest.mark.parametrize(("listed", "call", "changes"), table_rows(PAGE, "list", "call", "changes"), ids=ascii)
def test_a_call_would_pass_with_the_changes_of_the_page(
    listed: str, call: str, changes: str, names: dict[str, Any], folder: str
) -> None:
    agent, made = agent_with(eval(listed, names), names), call_of(call)
    why = agent.why_not(made)
    texts = [change.text for change in why.changes]
    if not changes:
        assert (texts, why.permissions) == ([], None)
        assert why.note
        return
    assert texts[0] == changes
    assert agent.copy(permissions=why.permissions).explain(made).verdict == "allowed"


def test_the_page_shows_what_is_shown(folder: str) -> None:
    shown = list(shown_texts(PAGE))
    assert len(shown) == 2
    for source, text in shown:
        told = repr(value_of(source, {"__name__": "page"})).replace(folder, "…")
        # The columns are as wide as the folder's name makes them.
        assert [line.split() for line in told.splitlines()] == [line.split() for line in text.splitlines()] or (
            _without_rules(told) == _without_rules(text)
        )


def _without_rules(text: str) -> list[list[str]]:
    return [line.split() for line in text.splitlines() if set(line) - set("- ")]


# --- explain ----------------------------------------------------------------------------------------------------------


@tool(read_only=True)
def read(path: str) -> str:
    """Read."""
    return path


def write(path: str, content: str = "") -> str:
    """Write."""
    return path


def pay(to: str, amount: int, token: str = "") -> str:
    """Pay."""
    return to


def run(command: str) -> str:
    """Run."""
    return command


TOOLS = [read, write, pay, run]


def agent_of(*permissions: Any, tools: Any = TOOLS, **settings: Any) -> Agent:
    return Agent(tools, permissions=list(permissions), **{"human": FakeHuman([]), **settings})


@pytest.mark.parametrize("order", [1, -1], ids=["allow-first", "deny-first"])
def test_r26_explain_shows_both_rules_in_the_order_of_asking(order: int) -> None:
    agent = agent_of(*["allow run(command=rm*)", "deny run(command=rm*)"][::order])
    explained = agent.explain("run", command="rm x")
    assert explained.verdict == "denied"
    assert [(row[0], row[1]) for row in explained.rows] == [
        ("→", "deny run(command=rm*)"),
        ("", "allow run(command=rm*)"),
    ]
    assert explained.decisive == 0


@pytest.mark.parametrize(
    ("path", "named"),
    [
        ("/tmp/claude-$PPID", "$PPID"),
        ("/tmp/claude-${PPID}", "${PPID}"),
        ("/tmp/claude-$(id -u)", "$(id -u)"),
        ("/tmp/claude-`id`", "`id`"),
        ("/tmp/claude-%TEMP%", "%TEMP%"),
        ("$A/claude-$B", "$A, $B"),
    ],
)
def test_r29_explain_says_why_the_rule_did_not_match_and_names_the_variable(path: str, named: str) -> None:
    agent = agent_of("allow write(path=/tmp/claude-*)", DecideByHuman())
    explained = agent.explain("write", path=path)
    assert explained.verdict == "asked"
    says = explained.rows[0][3]
    assert says.startswith("no opinion: path could not be read: a path with a variable")
    assert says.endswith(f"({named})")
    assert f"({named})" in explained.readings[0].matches
    why = agent.why_not("write", path=path)
    assert (why.changes, why.permissions) == ((), None)
    assert named in why.note
    assert "every call of write" in why.note


def test_r29_a_variable_in_a_command_is_named_though_the_text_matches() -> None:
    explained = agent_of("allow run(command=mkdir -p /tmp/claude-*)", DecideByHuman()).explain(
        "run", command="mkdir -p /tmp/claude-$PPID"
    )
    assert "$PPID is a variable or a command that nobody has expanded" in explained.readings[0].matches


@pytest.mark.parametrize(
    "permissions",
    [
        ["deny write(path=a)", "allow write(path=**)", DecideByHuman()],
        [AllowByReadOnly(), DenyByName(["w*"]), AllowByDefault()],
        [PermissionPolicy([PermissionRule("w", lambda tool, args: tool.name == "write", "ask")])],
        [StandardPermissions(), "allow read"],
        ["allow pay(amount<5)"],
        [],
    ],
    ids=str,
)
@pytest.mark.parametrize("name", ["read", "write", "pay"])
def test_at_most_one_row_is_decisive_and_it_is_the_one_that_decided(permissions: list[Any], name: str) -> None:
    agent = agent_of(*permissions)
    args = {"to": "ann", "amount": 9} if name == "pay" else {"path": "a"}
    explained = agent.explain(name, args)
    marks = [row[0] for row in explained.rows]
    assert marks.count("→") == (0 if explained.decided_by is None else 1)
    if explained.decisive is not None:
        assert str(explained.decided_by).startswith(explained.rows[explained.decisive][1])
        assert all(row[3].startswith(("no opinion", "not asked: ")) for row in explained.rows[: explained.decisive])
        assert all(row[3] == "not asked: decided above" for row in explained.rows[explained.decisive + 1 :])


@pytest.mark.parametrize(
    "args",
    [
        {"to": "ann", "amount": 9, "token": "hunter2-hunter2"},
        {"to": "password=hunter2-hunter2", "amount": 9},
        {"to": "ann", "amount": 9, "token": ["hunter2-hunter2"]},
    ],
    ids=["by-name", "in-a-text", "nested"],
)
def test_what_is_masked_is_masked_in_every_reading_and_reason(args: dict[str, Any]) -> None:
    rules = ["deny pay(token=hunter3*)", "allow pay(to=ann*, token=HUNTER*)", "ask pay(token=hunter2*)"]
    agent = agent_of(*rules, DecideByHuman())
    explained, why = agent.explain("pay", args), agent.why_not("pay", args)
    shown = [str(explained), explained._repr_html_(), str(explained.frame().to_dict()), str(why), why._repr_html_()]
    assert all("hunter2-" not in text.lower() for text in shown)
    assert "[masked]" in str(explained)


def test_secret_arguments_of_a_tool_are_masked_too() -> None:
    send = Tool(
        "send", "Send.", {"type": "object", "properties": {"body": {"type": "string"}, "to": {"type": "string"}}},
        function=lambda **args: "", secret=["body"],
    )  # fmt: skip
    agent = agent_of("allow send(body=LETTER*)", DecideByHuman(), tools=[send])
    call = tool_call("send", body="letter to ann", to="bob")
    assert "letter to ann" not in str(agent.explain(call)).lower()
    assert agent.why_not(call).changes[0].rules == ("allow send(to=bob)",)


@pytest.mark.parametrize("path", ["a/../hunter2-x", "hunter2-y/$HUNTER3", "./HUNTER2-z"])
def test_no_reading_of_a_secret_path_is_shown_nor_a_variable_in_it(path: str, folder: str) -> None:
    send = Tool("send", "Send.", {"type": "object", "properties": {"path": {"type": "string"}}},
                function=lambda **args: "", secret=["path"])  # fmt: skip
    agent = agent_of("allow send(path=a/**)", "ask send(path=b)", DecideByHuman(), tools=[send])
    explained, why = agent.explain("send", path=path), agent.why_not("send", path=path)
    for text in (str(explained), explained._repr_html_(), str(why), why._repr_html_()):
        assert "hunter" not in text.lower()
    assert len(explained.readings) in (1, 2)


def test_a_permission_of_ones_own_is_told_by_what_it_said() -> None:
    class Never(DecidePermission):
        def check(self, state: Any, call: ToolCall, tool: Tool) -> None:
            return None

    recorded = Recording(Never())
    explained = agent_of(recorded, "allow write").explain("write", path="a")
    assert explained.rows[0][3] == "no opinion"
    assert len(recorded.calls) == 1


def test_the_rules_of_users_and_protected_paths_say_why_they_were_silent(tmp_path: Path, folder: str) -> None:
    file = tmp_path / "agentperm.toml"
    file.write_text("version = 1\nmode = 'default'\n[users.ann]\nrules = ['allow write(path=a)']\n")
    files = PolicyFiles(file, administrator=None, user=None)
    agent = agent_of("allow read", policy=files, user="bob")
    says = {row[1]: row[3] for row in agent.explain("write", path="a").rows}
    assert says["protected path"] == "no opinion: the call writes no protected path"
    assert says["project, ann: allow write(path=a)"] == "no opinion: it is for ann only"
    assert agent.copy(user="ann").explain("write", path="a").decided_by == "project, ann: allow write(path=a)"


def test_an_explanation_is_a_frame_with_one_row_a_permission() -> None:
    frame = agent_of("deny write(path=a)", AllowByDefault()).explain("write", path="b").frame()
    assert list(frame["decisive"]) == [False, True]
    assert list(map(str, frame.dtypes)) == ["string", "string", "bool", "string", "object"]
    assert frame["readings"][0][0].startswith("path=a: ")
    assert len(agent_of().explain("write", path="b").frame()) == 0


def test_long_values_and_many_readings_are_cut_with_a_count() -> None:
    explained = agent_of("allow run(command=x*)").explain("run", command="y" * 5_000)
    assert "4,802 more characters" in explained.readings[0].read_as
    assert len(str(explained)) < 3_000


# --- why_not ----------------------------------------------------------------------------------------------------------


class Weekend(DenyPermission):
    def check(self, state: Any, call: ToolCall, tool: Tool) -> Denied:
        return Denied("not at the weekend")


def no_pay(tool: Tool, parameters: dict[str, Any]) -> bool:
    return tool.name == "pay"


POLICY = PermissionPolicy([PermissionRule("no_pay", no_pay, "deny")], fallback="ask")
MODES = StandardPermissions(denied_tools=["write*"], allowed_tools=["read"])


@pytest.mark.parametrize(
    ("permissions", "call"),
    [
        (["deny write(path=a/**)", DecideByHuman()], tool_call("write", path="a/b")),
        (["deny write", DenyByName(["wri*"]), "deny *(path=a)"], tool_call("write", path="a")),
        ([DenyByName(["*"], reason="none")], tool_call("pay", to="ann", amount=5)),
        ([*POLICY.denies(), POLICY], tool_call("pay", to="ann", amount=5)),
        ([POLICY], tool_call("pay", to="ann", amount=5)),
        ([*MODES.denies(), MODES], tool_call("write", path="a")),
        ([MODES], tool_call("pay", to="a*b", amount=5)),
        ([Weekend(), "ask write"], tool_call("write", path="a")),
        (["ask run", "allow run(command=ls)"], tool_call("run", command="rm -rf *")),
        (["ask write(path=**)"], tool_call("write", path="~/x")),
        (["deny read(path=link/**)"], tool_call("read", path="link/a")),
        (["deny read(path=elsewhere/**)", "ask read"], tool_call("read", path="./x/../link/a")),
        ([StandardPermissions()], tool_call("write", path="a")),
        ([], tool_call("pay", to="-", amount=0)),
        (["deny pay(amount>100, to!=ann)"], tool_call("pay", to="bob", amount=101)),
    ],
    ids=str,
)
def test_with_its_changes_a_call_passes_and_its_neighbours_do_not(
    permissions: list[Any], call: ToolCall, folder: str
) -> None:
    agent = agent_of(*permissions)
    why = agent.why_not(call)
    assert why.permissions is not None, why
    changed = agent.copy(permissions=why.permissions)
    assert changed.explain(call).verdict == "allowed"
    assert why.verdict in ("denied", "asked")
    code = any(change.action == "remove" for change in why.changes)
    for other in (
        tool_call("read", path="other"), tool_call("write", path="other"), tool_call("pay", to="eve", amount=7),
        tool_call("run", command="other"), tool_call(call.name, **{**call.args, **_changed(call)}),
    ):  # fmt: skip
        before, now = agent.explain(other).verdict, changed.explain(other).verdict
        if not code:
            # The lists of a mode are by name: another call of the tool is then asked about.
            assert now == before or (now == "asked" and MODES in permissions), other


def _changed(call: ToolCall) -> dict[str, Any]:
    first = next(iter(call.args))
    return {first: f"{call.args[first]}x"}


def test_only_what_stands_in_the_way_is_changed() -> None:
    agent = agent_of("deny write(path=a)", "deny write(path=b)", DenyByName(["pay"]), "ask read", AllowByDefault())
    (change,) = agent.why_not("write", path="a").changes
    assert (change.action, change.permission) == ("narrow", "deny write(path=a)")
    assert change.rules == ("deny write(path=a, path!=a)",)


def test_a_narrowed_deny_that_would_still_deny_the_call_is_not_offered() -> None:
    twins = [Tool(name, "Write.", {"type": "object", "properties": {"path": {"type": "string"}}},
                  function=lambda **args: "") for name in ("write", "WRITE")]  # fmt: skip
    agent = agent_of(DenyByName(["w*"]), AllowByDefault(), tools=twins, lookalikes="allow")
    why = agent.why_not("write", path="a")
    assert [change.action for change in why.changes] == ["remove"]
    assert agent.copy(permissions=why.permissions).explain("write", path="a").verdict == "allowed"


def test_a_reason_and_a_name_are_kept_when_a_deny_is_narrowed() -> None:
    agent = agent_of(DenyByName(["write"], reason="ask ann", name="guard"), AllowByDefault())
    why = agent.why_not("write", path="a")
    changed = agent.copy(permissions=why.permissions)
    assert changed.explain("write", path="b").reason == "ask ann"


@pytest.mark.parametrize(
    ("call", "verdict", "note"),
    [
        (tool_call("read", path="a"), "allowed", "It passes"),
        (tool_call("write", file="a"), "input_error", "no valid call"),
        (tool_call("nope"), "input_error", "no valid call"),
        (tool_call("write", path="$HOME/a"), "asked", "could not be read"),
        (tool_call("write", path="a/*"), "asked", "could not be read"),
    ],
    ids=str,
)
def test_it_says_so_when_no_change_is_needed_or_none_would_do(call: ToolCall, verdict: str, note: str) -> None:
    why = agent_of(AllowByReadOnly(), DecideByHuman()).why_not(call)
    assert (why.verdict, why.changes, why.permissions) == (verdict, (), None)
    assert note in why.note


def test_what_guards_a_protected_path_cannot_be_lifted_by_a_rule(folder: str) -> None:
    agent = agent_of(AllowByDefault(), protected=["keys/**"])
    why = agent.why_not("write", path="keys/a")
    assert (why.verdict, why.changes) == ("asked", ())
    assert "no rule can let it pass" in why.note


def test_a_deny_of_an_agent_above_cannot_be_lifted_by_the_agents_own_rules() -> None:
    found: list[WhyNot] = []

    @tool
    def look() -> str:
        """Ask why not, from inside of a run."""
        found.append(inner.why_not("write", path="a"))
        found.append(heir.why_not("write", path="a"))
        return "ok"

    inner = Agent(TOOLS, name="inner", permissions=["allow write"])
    heir = Agent(TOOLS, name="heir")
    outer = Agent(
        [look], model=ScriptedModel([tool_call("look"), "Done."]), permissions=["deny write", "allow look"], human=None
    )
    outer.run("Go")
    assert [why.verdict for why in found] == ["denied", "denied"]
    assert "a run above" in found[0].note
    assert "the run above decides" in found[1].note
    assert all(why.permissions is None for why in found)
    assert inner.why_not("write", path="a").verdict == "allowed"


def test_a_rule_of_a_policy_file_is_changed_in_the_file(tmp_path: Path, folder: str) -> None:
    file = tmp_path / "agentperm.toml"
    file.write_text("version = 1\nrules = ['deny write(path=a/**)', 'ask write']\n")
    files = PolicyFiles(file, administrator=None, user=None)
    agent = agent_of("allow read", policy=files)
    first, second = agent.why_not("write", path="a/b").changes
    assert first.permission == "project: deny write(path=a/**)"
    assert first.rules == ("deny write(path=a/**, path!=a/b)",)
    assert second.text == "put allow write(path=a/b) at the end of permissions="
    assert agent.why_not("write", path="a/b").permissions is None
    why = agent.why_not("write", path="c")
    assert agent.copy(permissions=why.permissions).explain("write", path="c").verdict == "allowed"


@pytest.mark.parametrize("driver", ["awaited", "plain"])
def test_permissions_that_are_awaited_are_tried_as_well(driver: str) -> None:
    class Later(DecidePermission):
        async def acheck(self, state: Any, call: ToolCall, tool: Tool) -> Denied:
            return Denied("later")

    agent = agent_of(Later() if driver == "awaited" else "ask write")
    why = agent.why_not("write", path="a")
    assert why.changes[0].text.startswith("put allow write(path=a) before ")


def test_why_not_reads_as_text_and_html() -> None:
    why = agent_of(DecideByHuman()).why_not("write", path="<b>\u202e")
    assert str(why) == repr(why)
    assert "<b>" not in why._repr_html_()
    assert "\u202e" not in str(why) + why._repr_html_()


@pytest.mark.parametrize("arguments", [(None,), (5,), ("write", [1])], ids=str)
def test_why_not_takes_what_explain_takes(arguments: tuple[Any, ...]) -> None:
    with pytest.raises(TypeError):
        agent_of().why_not(*arguments)
    with pytest.raises(TypeError, match="twice"):
        agent_of().why_not("write", {"path": "a"}, path="b")


@pytest.mark.parametrize("rules", [[], ["deny write_file"], [DecideByHuman()]], ids=["nothing", "a deny", "a person"])
def test_why_not_offers_nothing_for_a_call_that_is_not_valid(rules: Any) -> None:
    def write_file(path: str) -> str:
        """Write."""
        return path

    agent = Agent([write_file], permissions=rules)
    why = agent.why_not("write_file", pth="a")
    assert why.changes == ()
    assert "It is no valid call" in why.note
