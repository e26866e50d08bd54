"""The built-in permissions that need no person: by name, by hint, and by default."""

from __future__ import annotations

from typing import Any

import pytest

from agentperm_nb.calls import ToolCall
from agentperm_nb.errors import ToolError
from agentperm_nb.hints import Hints
from agentperm_nb.mcp_tools import MCPTool
from agentperm_nb.permissions.builtin import AllowByDefault, AllowByName, AllowByReadOnly, DecideByHuman, DenyByName
from agentperm_nb.permissions.deciding import PermissionList, decide
from agentperm_nb.permissions.kinds import Permission
from agentperm_nb.permissions.verdicts import Allowed, Denied, Verdict
from agentperm_nb.testing import FakeHuman, tool_call
from agentperm_nb.tools import Tool, tool

TOOL = Tool("t", function=lambda **args: None)


def named(name: str) -> ToolCall:
    return ToolCall(name)


def denies(patterns: list[str], name: str) -> bool:
    return DenyByName(patterns).check(None, named(name), TOOL) is not None


def allows(patterns: list[str], name: str) -> bool:
    return AllowByName(patterns).check(None, named(name), TOOL) is not None


class TestNames:
    @pytest.mark.parametrize(
        ("pattern", "name", "allowed", "denied"),
        [
            ("rm", "rm", True, True),
            ("rm", "rmdir", False, False),
            ("rm", "xrm", False, False),
            ("rm*", "rmdir", True, True),
            ("*", "anything at all\nof lines", True, True),
            ("delete_*", "delete_", True, True),
            ("get_?", "get_a", True, True),
            ("get_?", "get_ab", False, False),
            ("get_[ab]", "get_b", True, True),
            ("get_[!ab]", "get_c", True, True),
            ("get_[!ab]", "get_a", False, False),
            ("a[b", "a[b", True, True),
            ("a.b", "axb", False, False),
            ("server__*", "server__delete", True, True),
            ("RM", "rm", False, True),
            ("rm", "RM", False, True),
            ("Delete_*", "dElEtE_all", False, True),
            ("delete", "ｄｅｌｅｔｅ", False, True),
            ("ｄｅｌｅｔｅ", "delete", False, True),
            ("file", "ﬁle", False, True),
            ("strasse", "straße", False, True),
            ("stra?e", "straße", True, True),
            ("?le", "ﬁle", True, True),
            ("get_[!a]", "get_A", True, True),
            ("[A-z]x", "_x", True, True),
            ("delete", "delete\u200b", False, True),
            ("delete", "d\u202eelete", False, True),
            ("ΣΟΦΟΣ", "σοφος", False, True),
            ("K", "\u212a", False, True),  # the Kelvin sign
            ("İ", "i̇", False, True),
            ("delete", "dеlete", False, True),  # with a Cyrillic letter
            ("dеlete", "delete", False, True),
            ("delete_*", "ｄеlete\u200b_аll", False, True),
            ("delete", "dëlete", False, False),  # a letter with marks is another letter
            ("file1", "filel", False, False),
        ],
        ids=ascii,
    )
    @pytest.mark.states("D4")
    def test_an_allow_is_exact_and_a_deny_reads_wide(
        self, pattern: str, name: str, allowed: bool, denied: bool
    ) -> None:
        assert allows([pattern], name) is allowed
        assert denies([pattern], name) is denied

    @pytest.mark.parametrize("pattern", ["*", "a?", "[a-c]*", "x*y", "", "straße", "ﬁ?", "[!ß]"])
    @pytest.mark.parametrize("name", ["a", "ab", "straße", "ﬁx", "xzy", "ß", "s", "x\ny", "ＡＢ"])
    def test_a_deny_matches_whatever_the_allow_of_the_same_pattern_matches(self, pattern: str, name: str) -> None:
        if pattern and allows([pattern], name):
            assert denies([pattern], name)

    def test_each_of_several_patterns_counts(self) -> None:
        assert [name for name in ("a", "bx", "c", "d") if denies(["a", "b*", "c"], name)] == ["a", "bx", "c"]
        assert allows(["a|b"], "a") is False

    @pytest.mark.parametrize("wrap", [list, tuple, set, iter, dict.fromkeys, lambda names: (name for name in names)])
    @pytest.mark.parametrize("cls", [DenyByName, AllowByName])
    @pytest.mark.states("D1")
    def test_patterns_are_any_iterable_of_texts(self, cls: Any, wrap: Any) -> None:
        permission = cls(wrap(["rm"]))
        assert permission.patterns == ("rm",)
        assert permission.check(None, named("rm"), None) is not None
        assert repr(permission) == f"{cls.__name__}(['rm'])"

    @pytest.mark.parametrize("cls", [DenyByName, AllowByName])
    @pytest.mark.parametrize("given", ["rm", b"rm", None, 5, TOOL], ids=["text", "bytes", "None", "number", "tool"])
    @pytest.mark.states("D2", "X6")
    def test_one_text_or_no_list_is_refused(self, cls: Any, given: Any) -> None:
        with pytest.raises(
            TypeError, match=rf"{cls.__name__} takes a list of name patterns[\s\S]*Fix: [\s\S]*Example:"
        ):
            cls(given)

    @pytest.mark.parametrize("cls", [DenyByName, AllowByName])
    @pytest.mark.parametrize("item", [5, None, b"rm", ["rm"], True], ids=repr)
    @pytest.mark.states("D2")
    def test_a_pattern_that_is_no_text_is_refused(self, cls: Any, item: Any) -> None:
        with pytest.raises(TypeError, match=rf"{cls.__name__} takes name patterns as strings \(got: "):
            cls(["rm", item])

    @pytest.mark.parametrize("cls", [DenyByName, AllowByName])
    @pytest.mark.parametrize("given", [[], (), [""], ["rm", "  "]], ids=repr)
    @pytest.mark.states("D1")
    def test_no_pattern_and_an_empty_one_are_refused(self, cls: Any, given: Any) -> None:
        with pytest.raises(ValueError, match=rf"{cls.__name__} got [\s\S]*Fix: [\s\S]*Example:"):
            cls(given)

    @pytest.mark.states("D8")
    def test_assigning_patterns_changes_the_behaviour_and_is_checked(self) -> None:
        permission = DenyByName(["rm"])
        permission.patterns = ["ls"]
        assert permission.patterns == ("ls",)
        assert permission.check(None, named("rm"), TOOL) is None
        assert permission.check(None, named("LS"), TOOL) == Denied("LS is not allowed.")
        with pytest.raises(TypeError, match="DenyByName takes a list"):
            permission.patterns = "rm"
        assert permission.patterns == ("ls",)
        permission.reason = "ask first"
        assert permission.check(None, named("ls"), TOOL) == Denied("ask first")
        with pytest.raises(ValueError, match="DenyByName got an empty reason"):
            permission.reason = ""
        assert permission.reason == "ask first"

    @pytest.mark.states("D6", "D7")
    def test_a_denial_gives_its_reason_to_the_model(self) -> None:
        assert DenyByName(["rm"]).check(None, named("rm"), TOOL) == Denied("rm is not allowed.")
        assert DenyByName(["rm"], "Ask first").check(None, named("rm"), TOOL) == Denied("Ask first")
        assert DenyByName(["rm"]).check(None, named("ls"), TOOL) is None
        assert repr(DenyByName(("rm",), reason="No")) == "DenyByName(['rm'], reason='No')"

    @pytest.mark.states("D3")
    def test_the_patterns_are_checked_before_the_reason(self) -> None:
        with pytest.raises(TypeError, match=r"DenyByName takes a reason string") as caught:
            DenyByName(["rm"], reason=5)  # type: ignore[arg-type]
        assert "Denied takes" not in str(caught.value)
        with pytest.raises(ValueError, match=r"DenyByName got an empty reason"):
            DenyByName(["rm"], reason=" ")
        with pytest.raises(TypeError, match="takes a list of name patterns"):
            DenyByName("rm", reason=5)  # type: ignore[arg-type]
        with pytest.raises(TypeError):
            AllowByName(["rm"], reason="no")  # type: ignore[call-arg]

    @pytest.mark.states("D5")
    def test_a_tool_of_a_server_goes_by_the_name_that_the_model_calls(self) -> None:
        async def call(name: str, args: dict[str, Any]) -> Any: ...

        remote = MCPTool("files", {"name": "delete", "inputSchema": {"type": "object"}}, call)
        for pattern, expected in (("files__delete", True), ("files__*", True), ("delete", False), ("files", False)):
            calling = named(remote.name)
            assert (DenyByName([pattern]).check(None, calling, remote) is not None) is expected
            assert (AllowByName([pattern]).check(None, calling, remote) is not None) is expected

    @pytest.mark.states("D7")
    def test_a_subclass_is_called_by_its_own_name(self) -> None:
        class NoDeletes(DenyByName):
            pass

        assert repr(NoDeletes(["rm"])) == "NoDeletes(['rm'])"
        with pytest.raises(TypeError, match="NoDeletes takes a list"):
            NoDeletes("rm")


class TestReadOnly:
    def test_only_a_tool_that_says_it_is_read_only_is_allowed(self) -> None:
        for hints, allowed in (({"read_only": True}, True), ({"read_only": False}, False), ({}, False)):
            made = tool(name="t", **hints)(lambda: None)  # type: ignore[call-overload]
            assert AllowByReadOnly().check(None, named("t"), made) == (Allowed() if allowed else None)

    @pytest.mark.states("D10")
    def test_the_hints_of_the_call_decide_and_not_those_of_the_tool(self) -> None:
        made = tool(name="open", hints_for=lambda args: Hints(read_only=args["mode"] == "r"))(lambda mode: None)
        assert AllowByReadOnly().check(None, tool_call("open", mode="r"), made) == Allowed()
        assert AllowByReadOnly().check(None, tool_call("open", mode="w"), made) is None

    @pytest.mark.states("D10")
    def test_what_a_server_says_counts_only_when_it_is_trusted(self) -> None:
        class Remote(Tool):
            asked = 0

            @property
            def server(self) -> str | None:
                return "files"

            def hints_for(self, args: Any) -> Hints:
                type(self).asked += 1
                return Hints(read_only=True, source="server")

        remote = Remote("files__read", function=lambda: None)
        assert AllowByReadOnly().check(None, named("files__read"), remote) is None
        assert Remote.asked == 0
        assert AllowByReadOnly(trust_mcp=True).check(None, named("files__read"), remote) == Allowed()

    def test_hints_from_a_server_are_not_believed_on_a_tool_of_ours_either(self) -> None:
        made = tool(name="t", hints_for=lambda args: Hints(read_only=True, source="server"))(lambda: None)
        assert AllowByReadOnly().check(None, named("t"), made) is None
        assert AllowByReadOnly(trust_mcp=True).check(None, named("t"), made) == Allowed()

    @pytest.mark.parametrize("value", [1, 0, None, "yes"], ids=repr)
    @pytest.mark.states("D9")
    def test_trust_is_true_or_false(self, value: Any) -> None:
        with pytest.raises(TypeError, match="trust_mcp= takes True or False"):
            AllowByReadOnly(trust_mcp=value)

    @pytest.mark.states("D9", "D12", "D13")
    def test_reprs_are_short(self) -> None:
        class Mine(AllowByReadOnly):
            pass

        assert repr(AllowByReadOnly()) == "AllowByReadOnly()"
        assert repr(Mine(trust_mcp=True)) == "Mine(trust_mcp=True)"
        assert repr(AllowByDefault()) == "AllowByDefault()"
        assert AllowByReadOnly(True).trust_mcp is True

    @pytest.mark.states("D11")
    def test_an_error_in_the_hints_is_not_an_answer(self) -> None:
        made = tool(name="t", hints_for=lambda args: 1 / 0)(lambda: None)  # type: ignore[arg-type,return-value]
        with pytest.raises(ZeroDivisionError):
            AllowByReadOnly().check(None, named("t"), made)
        with pytest.raises(ZeroDivisionError) as caught:
            decide(PermissionList([AllowByReadOnly(), AllowByDefault()]), None, named("t"), made)
        assert caught.value.__notes__ == ["exception raised in permission AllowByReadOnly() checking t()"]

    @pytest.mark.states("D11")
    def test_a_tool_error_in_the_hints_denies_the_call_with_its_message(self) -> None:
        error = ToolError("which disk?")

        def hints(args: Any) -> Hints:
            raise error

        made = tool(name="t", hints_for=hints)(lambda: None)
        decision = decide(PermissionList([AllowByReadOnly(), AllowByDefault()]), None, named("t"), made)
        assert decision.verdict == Denied("which disk?")
        assert decision.decided_by == "AllowByReadOnly()"
        assert decision.error is error


@pytest.mark.states("D13")
def test_allow_by_default_allows_everything() -> None:
    assert AllowByDefault().check(None, named("rm"), None) == Allowed()  # type: ignore[arg-type]


@pytest.mark.states("D14")
@pytest.mark.parametrize(
    ("permission", "verdict"),
    [
        (DenyByName(["rm"]), Denied("rm is not allowed.")),
        (AllowByName(["rm"]), Allowed()),
        (AllowByReadOnly(), None),
        (AllowByDefault(), Allowed()),
        (DecideByHuman(FakeHuman(["yes"])), Allowed()),
    ],
    ids=lambda value: type(value).__name__,
)
def test_every_built_in_can_be_asked_by_hand(permission: Permission, verdict: Verdict | None) -> None:
    assert permission.check(None, named("rm"), TOOL) == verdict


@pytest.mark.states("D4")
@pytest.mark.parametrize("pattern", ["", " ", " rm", "rm ", "r m", "rm\n", "\u00a0rm"], ids=repr)
@pytest.mark.parametrize("kind", [DenyByName, AllowByName], ids=lambda kind: kind.__name__)
def test_a_pattern_that_no_name_can_match_is_an_error(kind: Any, pattern: str) -> None:
    with pytest.raises(ValueError, match=r"which can match no tool[\s\S]*Fix: [\s\S]*Example:"):
        kind(["ls", pattern])
