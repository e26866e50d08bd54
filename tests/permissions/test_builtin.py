"""The built-in permissions: by name, by hint, by default, and by asking a person."""

from __future__ import annotations

import pickle
import threading
from typing import Any, Literal

import anyio
import pytest

from agentperm_nb.calls import ToolCall
from agentperm_nb.errors import NoHumanError
from agentperm_nb.hints import Hints
from agentperm_nb.permissions.builtin import AllowByDefault, AllowByName, AllowByReadOnly, DecideByHuman, DenyByName
from agentperm_nb.permissions.deciding import PermissionList, decide
from agentperm_nb.permissions.verdicts import Allowed, Ask, Denied
from agentperm_nb.testing import FakeHuman, tool_call
from agentperm_nb.tools import Tool, tool

TOOL = Tool("t", function=lambda **args: None)
DECLINED = Denied("The user declined this call. Wait for their next message.", stop=True)


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
            ("delete", "dеlete", False, False),  # a Cyrillic letter is another letter
        ],
        ids=ascii,
    )
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
    def test_patterns_are_any_iterable_of_texts(self, cls: Any, wrap: Any) -> None:
        permission = cls(wrap(["rm"]))
        assert permission.patterns == ("rm",)
        assert permission.check(None, named("rm"), None) is not None
        assert repr(permission) == f"{cls.__name__}(['rm'])"

    @pytest.mark.parametrize("cls", [DenyByName, AllowByName])
    @pytest.mark.parametrize("given", ["rm", b"rm", None, 5, TOOL], ids=["text", "bytes", "None", "number", "tool"])
    def test_one_text_or_no_list_is_refused(self, cls: Any, given: Any) -> None:
        with pytest.raises(
            TypeError, match=rf"{cls.__name__} takes a list of name patterns[\s\S]*Fix: [\s\S]*Example:"
        ):
            cls(given)

    @pytest.mark.parametrize("cls", [DenyByName, AllowByName])
    @pytest.mark.parametrize("item", [5, None, b"rm", ["rm"], True], ids=repr)
    def test_a_pattern_that_is_no_text_is_refused(self, cls: Any, item: Any) -> None:
        with pytest.raises(TypeError, match=rf"{cls.__name__} takes name patterns as strings \(got: "):
            cls(["rm", item])

    @pytest.mark.parametrize("cls", [DenyByName, AllowByName])
    @pytest.mark.parametrize("given", [[], (), [""], ["rm", "  "]], ids=repr)
    def test_no_pattern_and_an_empty_one_are_refused(self, cls: Any, given: Any) -> None:
        with pytest.raises(ValueError, match=rf"{cls.__name__} got [\s\S]*Fix: [\s\S]*Example:"):
            cls(given)

    def test_assigning_patterns_changes_the_behaviour_and_is_checked(self) -> None:
        permission = DenyByName(["rm"])
        permission.patterns = ["ls"]
        assert permission.patterns == ("ls",)
        assert permission.check(None, named("rm"), TOOL) is None
        assert permission.check(None, named("LS"), TOOL) == Denied("LS is not allowed.")
        with pytest.raises(TypeError, match="DenyByName takes a list"):
            permission.patterns = "rm"
        assert permission.patterns == ("ls",)

    def test_a_denial_gives_its_reason_to_the_model(self) -> None:
        assert DenyByName(["rm"]).check(None, named("rm"), TOOL) == Denied("rm is not allowed.")
        assert DenyByName(["rm"], "Ask first").check(None, named("rm"), TOOL) == Denied("Ask first")
        assert DenyByName(["rm"]).check(None, named("ls"), TOOL) is None
        assert repr(DenyByName(("rm",), reason="No")) == "DenyByName(['rm'], reason='No')"

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

    def test_the_hints_of_the_call_decide_and_not_those_of_the_tool(self) -> None:
        made = tool(name="open", hints_for=lambda args: Hints(read_only=args["mode"] == "r"))(lambda mode: None)
        assert AllowByReadOnly().check(None, tool_call("open", mode="r"), made) == Allowed()
        assert AllowByReadOnly().check(None, tool_call("open", mode="w"), made) is None

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
    def test_trust_is_true_or_false(self, value: Any) -> None:
        with pytest.raises(TypeError, match="trust_mcp= takes True or False"):
            AllowByReadOnly(trust_mcp=value)

    def test_reprs_are_short(self) -> None:
        class Mine(AllowByReadOnly):
            pass

        assert repr(AllowByReadOnly()) == "AllowByReadOnly()"
        assert repr(Mine(trust_mcp=True)) == "Mine(trust_mcp=True)"
        assert repr(AllowByDefault()) == "AllowByDefault()"
        assert AllowByReadOnly(True).trust_mcp is True

    def test_an_error_in_the_hints_is_not_an_answer(self) -> None:
        made = tool(name="t", hints_for=lambda args: 1 / 0)(lambda: None)  # type: ignore[arg-type,return-value]
        with pytest.raises(ZeroDivisionError):
            AllowByReadOnly().check(None, named("t"), made)


def test_allow_by_default_allows_everything() -> None:
    assert AllowByDefault().check(None, named("rm"), None) == Allowed()  # type: ignore[arg-type]


@pytest.mark.parametrize(
    "permission",
    [
        DenyByName(["rm*"], "No", name="n"),
        AllowByName(["a"]),
        AllowByReadOnly(True),
        AllowByDefault(),
        DecideByHuman(FakeHuman(["no"])),
    ],
    ids=repr,
)
def test_every_built_in_survives_pickling(permission: Any) -> None:
    again = pickle.loads(pickle.dumps(permission))
    assert repr(again) == repr(permission)
    assert again.name == permission.name
    call = named("rmdir")
    state = object()
    assert again.check(state, call, TOOL) == permission.check(state, call, TOOL)


class _Raises:
    def __init__(self, error: BaseException) -> None:
        self.error = error

    def ask(self, state: Any, prompt: str, returns: Any = str) -> Any:
        raise self.error


class _Sees:
    def __init__(self, answer: Any) -> None:
        self.answer = answer
        self.asked: list[tuple[Any, ...]] = []

    def ask(self, *question: Any) -> Any:
        self.asked.append((*question, threading.current_thread()))
        return self.answer


class _SeesAsync:
    def __init__(self, answer: Any) -> None:
        self.answer = answer
        self.asked: list[tuple[Any, ...]] = []

    async def aask(self, *question: Any) -> Any:
        self.asked.append(question)
        return self.answer


class _State:
    def __init__(self, human: Any) -> None:
        self.human = human


CALL = ToolCall("write", {"path": "a.txt", "password": "hunter2"})


class TestDecideByHuman:
    @pytest.mark.parametrize("human", ["ada", 5, FakeHuman, _Sees, object(), lambda: None], ids=str)
    def test_a_human_is_an_object_that_can_be_asked(self, human: Any) -> None:
        with pytest.raises(TypeError, match=r"is not a Human object[\s\S]*Fix: [\s\S]*Example:"):
            DecideByHuman(human)

    def test_its_repr_never_holds_an_address(self) -> None:
        class Mine(DecideByHuman):
            pass

        assert repr(DecideByHuman()) == "DecideByHuman()"
        assert repr(DecideByHuman(FakeHuman([]))) == "DecideByHuman(human=FakeHuman(0 asked))"
        assert repr(Mine(human=_Sees("yes"))) == "Mine(human=_Sees())"

    def test_in_an_agent_it_asks_with_the_secrets_masked(self) -> None:
        asked = decide(PermissionList([DecideByHuman()]), None, CALL, TOOL).verdict
        assert asked == Ask('Run write(path="a.txt", password="[masked]")?')
        secret = Tool("write", function=lambda **args: None, secret=["path"])
        assert DecideByHuman().question(CALL, secret) == 'Run write(path="[masked]", password="[masked]")?'

    def test_the_question_can_be_put_in_other_words(self) -> None:
        class Polite(DecideByHuman):
            def question(self, call: ToolCall, tool: Tool) -> str:
                return f"May I {call.name}?"

        assert decide(PermissionList([Polite()]), None, CALL, TOOL).verdict == Ask("May I write?")
        assert not Polite().asks_by_itself

    @pytest.mark.parametrize("form", [_Sees, _SeesAsync], ids=["ask", "aask"])
    def test_the_person_is_asked_once_and_chooses_yes_or_no(self, form: Any) -> None:
        human, state = form("yes"), object()
        assert anyio.run(DecideByHuman(human).acheck, state, CALL, TOOL) == Allowed()
        [asked] = human.asked
        assert asked[:3] == (state, 'Run write(path="a.txt", password="[masked]")?', Literal["yes", "no"])

    def test_a_human_that_blocks_is_asked_on_a_worker_thread(self) -> None:
        human = _Sees("no")
        assert anyio.run(DecideByHuman(human).acheck, None, CALL, TOOL) == DECLINED
        assert human.asked[0][3] is not threading.current_thread()
        assert DecideByHuman(human).check(None, CALL, TOOL) == DECLINED
        assert human.asked[1][3] is threading.current_thread()

    @pytest.mark.parametrize(
        "answer", ["no", "YES", "Yes", "y", " yes", True, 1, None, "always", ["yes"], Allowed()], ids=repr
    )
    def test_only_the_word_yes_allows(self, answer: Any) -> None:
        assert DecideByHuman(_Sees(answer)).check(None, CALL, TOOL) == DECLINED
        assert anyio.run(DecideByHuman(_SeesAsync(answer)).acheck, None, CALL, TOOL) == DECLINED

    def test_a_text_that_only_claims_to_be_yes_does_not_allow(self) -> None:
        class Sly(str):
            def __eq__(self, other: object) -> bool:
                return True

            __hash__ = str.__hash__

        assert DecideByHuman(_Sees(Sly("no"))).check(None, CALL, TOOL) == DECLINED

    def test_its_own_human_is_asked_before_the_one_of_the_run(self) -> None:
        own, other = _Sees("yes"), _Sees("no")
        assert DecideByHuman(own).check(_State(other), CALL, TOOL) == Allowed()
        assert DecideByHuman().check(_State(other), CALL, TOOL) == DECLINED
        assert (len(own.asked), len(other.asked)) == (1, 1)

    def test_one_permission_in_two_agents_asks_the_human_of_each(self) -> None:
        permission, first, second = DecideByHuman(), _Sees("yes"), _Sees("no")
        assert permission.check(_State(first), CALL, TOOL) == Allowed()
        assert permission.check(_State(second), CALL, TOOL) == DECLINED

    def test_without_anybody_to_ask_it_says_so(self) -> None:
        with pytest.raises(NoHumanError, match=r"ask_human\(\) was called on an Agent with human=None"):
            DecideByHuman().check(_State(None), CALL, TOOL)
        with pytest.raises(NoHumanError, match=r"aask_human\(\) was called on an Agent with human=None"):
            anyio.run(DecideByHuman().acheck, _State(None), CALL, TOOL)

    def test_an_asynchronous_human_cannot_be_asked_on_a_thread(self) -> None:
        with pytest.raises(TypeError, match="_SeesAsync answers only asynchronously"):
            DecideByHuman(_SeesAsync("yes")).check(None, CALL, TOOL)

    @pytest.mark.parametrize("error", [EOFError(), TimeoutError(), KeyboardInterrupt(), OSError("gone")], ids=repr)
    def test_an_error_of_the_human_is_never_an_answer(self, error: BaseException) -> None:
        with pytest.raises(type(error)):
            DecideByHuman(_Raises(error)).check(None, CALL, TOOL)

    def test_a_subclass_that_overrides_check_asks_by_itself_in_both_forms(self) -> None:
        class Mine(DecideByHuman):
            def check(self, state: Any, call: ToolCall, tool: Tool) -> Any:
                return Denied("not today")

        assert Mine().asks_by_itself
        assert Mine().check(None, CALL, TOOL) == anyio.run(Mine().acheck, None, CALL, TOOL) == Denied("not today")

    def test_a_subclass_that_overrides_acheck_is_asynchronous_only_and_never_asks_on_a_thread(self) -> None:
        human = _Sees("yes")

        class Mine(DecideByHuman):
            async def acheck(self, state: Any, call: ToolCall, tool: Tool) -> Any:
                return Denied("not today")

        assert Mine(human).asks_by_itself
        assert anyio.run(Mine(human).acheck, None, CALL, TOOL) == Denied("not today")
        with pytest.raises(TypeError, match="checks calls only asynchronously"):
            Mine(human).check(None, CALL, TOOL)
        assert human.asked == []

    def test_a_subclass_may_override_both_and_use_what_it_overrides(self) -> None:
        class Mine(DecideByHuman):
            def check(self, state: Any, call: ToolCall, tool: Tool) -> Any:
                return super().check(state, call, tool)

            async def acheck(self, state: Any, call: ToolCall, tool: Tool) -> Any:
                return await super().acheck(state, call, tool)

        assert Mine(_Sees("yes")).check(None, CALL, TOOL) == Allowed()
        assert anyio.run(Mine(_SeesAsync("yes")).acheck, None, CALL, TOOL) == Allowed()


@pytest.mark.parametrize("pattern", ["", " ", " rm", "rm ", "r m", "rm\n", "\u00a0rm"], ids=repr)
@pytest.mark.parametrize("kind", [DenyByName, AllowByName], ids=lambda kind: kind.__name__)
def test_a_pattern_that_no_name_can_match_is_an_error(kind: Any, pattern: str) -> None:  # R17
    with pytest.raises(ValueError, match=r"which can match no tool[\s\S]*Fix: [\s\S]*Example:"):
        kind(["ls", pattern])
