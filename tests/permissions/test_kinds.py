"""The three kinds of permission: what a class has to be, what it may say, and what it is called."""

from __future__ import annotations

import abc
import contextvars
import gc
import threading
from typing import Any

import anyio
import pytest
from turns import DRIVERS, Counter, run

from agentperm_nb import Agent
from agentperm_nb.calls import ToolCall
from agentperm_nb.permissions.builtin import AllowByName, AllowByReadOnly, DenyByName
from agentperm_nb.permissions.deciding import PermissionList, adecide, decide
from agentperm_nb.permissions.kinds import (
    AllowPermission,
    DecidePermission,
    DenyPermission,
    Permission,
    names_of,
)
from agentperm_nb.permissions.verdicts import Allowed, Ask, Denied
from agentperm_nb.permissions.wrapping import wrapped
from agentperm_nb.testing import tool_call
from agentperm_nb.tools import Tool

TOOL = Tool("t", function=lambda: None)
CALL = tool_call("t")
KINDS = [DenyPermission, AllowPermission, DecidePermission]


def made(base: Any, *more: Any, **members: Any) -> Any:
    return type("Made", (base, *more), members)


def says(kind: Any, value: Any, **members: Any) -> Any:
    return made(kind, check=lambda self, state, call, tool: value, **members)()


def three_parts(error: BaseException) -> bool:
    return "\nFix: " in str(error) and "\nExample:\n" in str(error)


class _Plain(DenyPermission):
    def check(self, state: Any, call: ToolCall, tool: Tool) -> Any:
        return None


class TestClasses:
    @pytest.mark.states("B2")
    def test_a_permission_of_no_kind_is_refused(self) -> None:
        for cls in (Permission, made(Permission), made(Permission, check=lambda *args: None)):
            with pytest.raises(TypeError, match=f"{cls.__name__} subclasses Permission directly") as caught:
                cls()
            assert three_parts(caught.value)

    @pytest.mark.parametrize(
        ("bases", "named"),
        [
            ((AllowPermission, DenyPermission), "DenyPermission, AllowPermission"),
            ((DecidePermission, AllowPermission), "AllowPermission, DecidePermission"),
            ((DecidePermission, AllowPermission, DenyPermission), "DenyPermission, AllowPermission, DecidePermission"),
            ((DenyByName, AllowPermission), "DenyPermission, AllowPermission"),
        ],
        ids=["two", "two more", "three", "built-in"],
    )
    @pytest.mark.states("B3")
    def test_a_permission_of_several_kinds_is_refused(self, bases: tuple[Any, ...], named: str) -> None:
        with pytest.raises(TypeError, match=rf"Made subclasses more than one kind of permission \({named}\)") as caught:
            made(*bases, check=lambda *args: None)()
        assert three_parts(caught.value)

    @pytest.mark.parametrize("kind", KINDS)
    @pytest.mark.states("B4")
    def test_a_permission_that_cannot_decide_is_refused(self, kind: Any) -> None:
        for cls in (kind, made(kind)):
            with pytest.raises(TypeError, match=f"{cls.__name__} implements neither check nor acheck") as caught:
                cls()
            assert three_parts(caught.value)

    @pytest.mark.states("B1")
    def test_classes_are_checked_when_an_object_is_made_and_not_before(self) -> None:
        class Middle(DenyPermission):
            pass

        class Abstract(Middle, abc.ABC):
            @abc.abstractmethod
            def hours(self) -> int: ...

            def check(self, state: Any, call: ToolCall, tool: Tool) -> Any:
                return None

        class Concrete(Abstract):
            def hours(self) -> int:
                return 8

        assert Concrete()
        with pytest.raises(TypeError, match="neither check nor acheck"):
            Middle()
        with pytest.raises(TypeError, match="abstract"):
            Abstract()  # type: ignore[abstract]

    @pytest.mark.states("B5")
    def test_the_kind_is_checked_first_and_whether_the_class_is_abstract_last(self) -> None:
        hours = abc.abstractmethod(lambda self: 8)
        with pytest.raises(TypeError, match="subclasses Permission directly"):
            made(Permission, abc.ABC, hours=hours)()
        with pytest.raises(TypeError, match="subclasses more than one kind"):
            made(DenyPermission, AllowPermission, abc.ABC, hours=hours)()
        with pytest.raises(TypeError, match="implements neither check nor acheck"):
            made(DenyPermission, abc.ABC, hours=hours)()
        with pytest.raises(TypeError, match="abstract"):
            made(DenyPermission, abc.ABC, hours=hours, check=lambda *args: None)()

    @pytest.mark.parametrize("name", ["check", "acheck"])
    @pytest.mark.states("B6", "X5")
    def test_a_check_that_is_none_is_refused(self, name: str) -> None:
        with pytest.raises(TypeError, match="check or acheck of Made cannot be called"):
            made(DenyPermission, **{name: None})()
        with pytest.raises(TypeError, match="cannot be called"):
            made(_Plain, **{name: None})()

    @pytest.mark.states("X5")
    def test_an_asynchronous_check_and_a_synchronous_acheck_are_refused(self) -> None:
        async def later(self: Any, state: Any, call: Any, tool: Any) -> Any: ...
        def now(self: Any, state: Any, call: Any, tool: Any) -> Any: ...

        with pytest.raises(TypeError, match="check of Made is async") as caught:
            made(DenyPermission, check=later)()
        assert three_parts(caught.value)
        with pytest.raises(TypeError, match="acheck of Made is not async") as caught:
            made(DenyPermission, acheck=now)()
        assert three_parts(caught.value)
        assert made(DenyPermission, check=now, acheck=later)()

    @pytest.mark.states("B7", "B8", "B9")
    def test_a_constructor_may_take_anything_and_need_not_call_super(self) -> None:
        class Hours(DenyPermission):
            def __init__(self, first: int, *, last: int) -> None:
                self.hours = range(first, last)

            def check(self, state: Any, call: ToolCall, tool: Tool) -> Any:
                return None

        assert repr(Hours(8, last=18)) == "Hours()"
        assert Hours(8, last=18) != Hours(8, last=18)
        assert len({Hours(8, last=18), Hours(8, last=18)}) == 2


class TestAsking:
    @pytest.mark.states("B10")
    def test_a_permission_that_is_only_asynchronous_says_so_on_a_thread(self) -> None:
        async def acheck(self: Any, state: Any, call: Any, tool: Any) -> Any:
            return Denied("no")

        permission = made(DenyPermission, acheck=acheck)()
        with pytest.raises(TypeError, match=r"Made\(\) checks calls only asynchronously"):
            permission.check(None, CALL, TOOL)

    @pytest.mark.parametrize("backend", ["asyncio", "trio"])
    @pytest.mark.states("B11", "X3")
    def test_a_check_is_awaited_on_a_worker_thread_with_the_context_of_the_caller(self, backend: str) -> None:
        variable: contextvars.ContextVar[str] = contextvars.ContextVar("variable")
        seen: list[Any] = []

        def check(self: Any, state: Any, call: Any, tool: Any) -> Any:
            seen.append((threading.current_thread(), variable.get(), state, call, tool))
            return Denied("no")

        async def main(permission: Any) -> Any:
            variable.set("ada")
            return await permission.acheck("state", CALL, TOOL)

        assert anyio.run(main, made(DenyPermission, check=check)(), backend=backend) == Denied("no")
        assert anyio.run(main, made(DenyPermission, check=check, blocking=False)(), backend=backend) == Denied("no")
        (worker, *rest), (here, *same) = seen
        assert rest == same == ["ada", "state", CALL, TOOL]
        assert worker is not threading.current_thread()
        assert here is threading.current_thread()

    @pytest.mark.parametrize("backend", ["asyncio", "trio"])
    @pytest.mark.states("X2")
    def test_a_stop_iteration_in_a_check_is_an_error_and_never_a_hang(self, backend: str) -> None:
        def check(self: Any, state: Any, call: Any, tool: Any) -> Any:
            return next(iter(()))

        permission = made(DenyPermission, check=check)()
        with pytest.raises(RuntimeError, match="raised StopIteration"):
            anyio.run(permission.acheck, None, CALL, TOOL, backend=backend)


WRONG = [True, False, 0, 1, "", "yes", "allow", NotImplemented, Allowed, Denied, ["x"], {}, object, 1.5, ToolCall("t")]


class TestAnswers:
    @pytest.mark.parametrize(
        ("kind", "value"),
        [
            *((DenyPermission, value) for value in (Denied("no"), Denied("no", stop=True), None)),
            *((AllowPermission, value) for value in (Allowed(), None)),
            *((DecidePermission, value) for value in (Allowed(), Denied("no"), Ask("?"), None)),
            (AllowPermission, type("MyAllowed", (Allowed,), {})()),
            (DenyPermission, type("MyDenied", (Denied,), {})("no")),
        ],
        ids=repr,
    )
    @pytest.mark.states("A11", "C1")
    def test_a_kind_may_say_what_is_in_its_power(self, kind: Any, value: Any) -> None:
        permissions = PermissionList([says(kind, value)])
        expected = Denied("No permission allowed this call.") if value is None else value
        assert decide(permissions, None, CALL, TOOL).verdict == expected
        assert anyio.run(adecide, permissions, None, CALL, TOOL).verdict == expected

    @pytest.mark.parametrize(
        ("kind", "value"),
        [
            *((kind, value) for kind in KINDS for value in WRONG),
            *((DenyPermission, value) for value in (Allowed(), Ask("?"))),
            *((AllowPermission, value) for value in (Denied("no"), Ask("?"))),
        ],
        ids=repr,
    )
    @pytest.mark.states("C2", "C3")
    def test_anything_else_is_an_error_that_names_the_permission_and_never_a_verdict(
        self, kind: Any, value: Any
    ) -> None:
        for blocking in (True, False):
            permissions = PermissionList([says(kind, value, blocking=blocking)])
            for ask in (
                lambda listed=permissions: decide(listed, None, CALL, TOOL),
                lambda listed=permissions: anyio.run(adecide, listed, None, CALL, TOOL),
            ):
                with pytest.raises(TypeError) as caught:
                    ask()
                text = str(caught.value)
                assert f"Made() returned {value!r}, and a" in text
                assert f"{kind.__name__} may return only" in text
                assert ("Allowed()" in text.partition("may return only")[2]) is (kind is not DenyPermission)
                assert three_parts(caught.value)

    @pytest.mark.states("C3")
    @pytest.mark.parametrize("blocking", [True, False], ids=["worker", "inline"])
    def test_a_coroutine_is_no_verdict_and_is_not_left_unawaited(self, blocking: bool) -> None:
        async def later() -> Any:
            return Allowed()

        permissions = PermissionList([made(AllowPermission, check=lambda *args: later(), blocking=blocking)()])
        with pytest.raises(
            TypeError, match=r"Made\(\) returned <coroutine object .*an AllowPermission may return only"
        ):
            decide(permissions, None, CALL, TOOL)
        with pytest.raises(
            TypeError, match=r"Made\(\) returned <coroutine object .*an AllowPermission may return only"
        ):
            anyio.run(adecide, permissions, None, CALL, TOOL)
        gc.collect()  # pytest makes an error of the warning that a coroutine was never awaited

    @pytest.mark.states("C5")
    @pytest.mark.parametrize("driver", DRIVERS)
    def test_after_such_an_error_nothing_has_run_and_every_call_has_its_result(self, driver: str) -> None:
        counter = Counter("t")
        wrong = made(DecidePermission, check=lambda self, state, call, tool: True if call.args["n"] == 2 else Allowed())
        agent = Agent([counter.tool], permissions=[wrong()])
        calls = [tool_call("t", n=n) for n in (1, 2, 3)]
        with pytest.raises(TypeError, match=r"Made\(\) returned True") as caught:
            run(driver, agent, calls)
        assert any("checking t(n=2)" in note for note in caught.value.__notes__)
        assert counter.ran == []
        assert not agent.state.pending_calls
        results = [entry for entry in agent.state.history if entry.kind == "tool_result"]
        assert sorted((result.call.args["n"], result.outcome.kind.value) for result in results) == [
            (1, "aborted"),
            (2, "denied"),
            (3, "aborted"),
        ]
        error = next(entry for entry in agent.state.history if entry.kind == "error")
        assert (error.call, error.error) == (calls[1], caught.value)

    @pytest.mark.states("C2", "C4")
    @pytest.mark.parametrize(
        ("kind", "tail", "example"),
        [
            (DenyPermission, "a DenyPermission may return only Denied(...) or None", "Denied("),
            (AllowPermission, "an AllowPermission may return only Allowed() or None", "Allowed()"),
            (
                DecidePermission,
                "a DecidePermission may return only Allowed() or Denied(...) or Ask(...) or None",
                "Denied(",
            ),
        ],
        ids=["deny", "allow", "decide"],
    )
    def test_the_error_says_what_the_kind_may_say_and_shows_it(self, kind: Any, tail: str, example: str) -> None:
        with pytest.raises(TypeError) as caught:
            decide(PermissionList([says(kind, True)]), None, CALL, TOOL)
        first, _, rest = str(caught.value).partition("\n")
        assert first == f"Made() returned True, and {tail}"
        assert example in rest.partition("Example:")[2]

    @pytest.mark.states("C4")
    def test_the_example_for_an_allow_never_denies(self) -> None:
        with pytest.raises(TypeError) as caught:
            decide(PermissionList([says(AllowPermission, True)]), None, CALL, TOOL)
        assert "Denied" not in str(caught.value)


class TestLists:
    @pytest.mark.parametrize("given", ["deny", b"deny", 5, object()], ids=["text", "bytes", "number", "object"])
    @pytest.mark.states("F2")
    def test_permissions_are_given_as_a_list(self, given: Any) -> None:
        with pytest.raises(TypeError, match="permissions= takes a list") as caught:
            wrapped(given)
        assert three_parts(caught.value)

    @pytest.mark.parametrize("given", [{"allow act": False}, {"mode": "bypass"}, {"backend": "allow_all"}], ids=repr)
    def test_a_dict_of_texts_is_no_list(self, given: Any) -> None:
        with pytest.raises(TypeError, match="resolve_permissions"):
            wrapped(given)

    @pytest.mark.parametrize("wrap", [list, tuple, iter, lambda items: dict.fromkeys(items)])
    def test_any_iterable_is_a_list_and_is_kept_as_a_tuple(self, wrap: Any) -> None:
        items = [AllowByReadOnly(), _Plain()]
        assert wrapped(wrap(items)) == tuple(items)

    @pytest.mark.states("F2")
    def test_one_permission_may_stand_for_a_list_of_it(self) -> None:
        one = AllowByReadOnly()
        assert wrapped(one) == (one,)
        assert wrapped([]) == ()

    @pytest.mark.states("F2")
    def test_a_class_and_any_other_object_in_the_list_are_refused(self) -> None:
        with pytest.raises(TypeError, match=r"AllowByReadOnly passed in permissions= .* \(it is the class\)") as caught:
            wrapped([AllowByReadOnly])
        assert three_parts(caught.value)
        for item in (None, Allowed(), lambda: None):
            with pytest.raises(TypeError, match="passed in permissions= is not a Permission object"):
                wrapped([item])

    @pytest.mark.states("F2")
    @pytest.mark.parametrize(
        ("given", "problem"),
        [
            ("deny", "permissions= takes a list"),
            (7, "permissions= takes a list"),
            ([AllowByReadOnly], r"AllowByReadOnly passed in permissions= .* \(it is the class\)"),
            ([AllowByReadOnly(), b"deny"], "b'deny' passed in permissions= is not a Permission object"),
        ],
        ids=["text", "number", "class", "bytes in the list"],
    )
    def test_an_agent_is_not_made_with_anything_else(self, given: Any, problem: str) -> None:
        with pytest.raises(TypeError, match=problem) as caught:
            Agent([TOOL], permissions=given)
        assert three_parts(caught.value)

    @pytest.mark.states("F2")
    def test_an_agent_takes_one_permission_for_a_list_of_it(self) -> None:
        one = AllowByReadOnly()
        assert Agent([TOOL], permissions=one).permissions == (one,)


class TestNames:
    def test_a_permission_is_called_by_its_name_or_else_by_its_repr(self) -> None:
        assert names_of([DenyByName(["rm"]), DenyByName(["rm"], name="no deletes")]) == (
            "DenyByName(['rm'])",
            "no deletes",
        )

    def test_those_that_are_alike_are_numbered(self) -> None:
        alike = [AllowByName(["a"]), _Plain(), AllowByName(["a"]), AllowByName(["b"]), _Plain()]
        assert names_of(alike) == (
            "AllowByName(['a']) #1", "_Plain() #1", "AllowByName(['a']) #2", "AllowByName(['b'])", "_Plain() #2",
        )  # fmt: skip

    def test_a_number_is_never_the_name_of_another_one(self) -> None:
        named = [AllowByName(["a"], name=name) for name in ("x", "x", "x #1")]
        assert names_of(named) == ("x #2", "x #3", "x #1")

    def test_a_repr_that_fails_still_gives_a_name(self) -> None:
        class Broken(DenyPermission):
            def __repr__(self) -> str:
                raise OSError("no repr")

            def check(self, state: Any, call: ToolCall, tool: Tool) -> Any:
                return Denied("no")

        permissions = PermissionList([Broken(), Broken(), AllowByReadOnly()])
        assert permissions.names == ("Broken(?) #1", "Broken(?) #2", "AllowByReadOnly()")
        assert decide(permissions, None, CALL, TOOL).decided_by == "Broken(?) #1"
