"""The three kinds of permission: what a class has to be, what it may say, and what it is called."""

from __future__ import annotations

import abc
import contextvars
import pickle
import threading
from typing import Any

import anyio
import pytest

from agentperm_nb.calls import ToolCall
from agentperm_nb.permissions.builtin import AllowByName, AllowByReadOnly, DenyByName
from agentperm_nb.permissions.deciding import PermissionList, adecide, decide
from agentperm_nb.permissions.kinds import (
    AllowPermission,
    DecidePermission,
    DenyPermission,
    Permission,
    checked_permissions,
    names_of,
)
from agentperm_nb.permissions.verdicts import Allowed, Ask, Denied
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
    def test_a_permission_of_several_kinds_is_refused(self, bases: tuple[Any, ...], named: str) -> None:
        with pytest.raises(TypeError, match=rf"Made subclasses more than one kind of permission \({named}\)") as caught:
            made(*bases, check=lambda *args: None)()
        assert three_parts(caught.value)

    @pytest.mark.parametrize("kind", KINDS)
    def test_a_permission_that_cannot_decide_is_refused(self, kind: Any) -> None:
        for cls in (kind, made(kind)):
            with pytest.raises(TypeError, match=f"{cls.__name__} implements neither check nor acheck") as caught:
                cls()
            assert three_parts(caught.value)

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

    @pytest.mark.parametrize("name", ["check", "acheck"])
    def test_a_check_that_is_none_is_refused(self, name: str) -> None:
        with pytest.raises(TypeError, match="check or acheck of Made cannot be called"):
            made(DenyPermission, **{name: None})()
        with pytest.raises(TypeError, match="cannot be called"):
            made(_Plain, **{name: None})()

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

    def test_a_constructor_may_take_anything_and_need_not_call_super(self) -> None:
        class Hours(DenyPermission):
            def __init__(self, first: int, *, last: int) -> None:
                self.hours = range(first, last)

            def check(self, state: Any, call: ToolCall, tool: Tool) -> Any:
                return None

        assert repr(Hours(8, last=18)) == "Hours()"
        assert Hours(8, last=18) != Hours(8, last=18)
        assert len({Hours(8, last=18), Hours(8, last=18)}) == 2

    def test_a_permission_survives_pickling(self) -> None:
        again = pickle.loads(pickle.dumps(_Plain()))
        assert isinstance(again, _Plain)


class TestAsking:
    def test_a_permission_that_is_only_asynchronous_says_so_on_a_thread(self) -> None:
        async def acheck(self: Any, state: Any, call: Any, tool: Any) -> Any:
            return Denied("no")

        permission = made(DenyPermission, acheck=acheck)()
        with pytest.raises(TypeError, match=r"Made\(\) checks calls only asynchronously"):
            permission.check(None, CALL, TOOL)

    @pytest.mark.parametrize("backend", ["asyncio", "trio"])
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
    def test_anything_else_is_an_error_that_names_the_permission_and_never_a_verdict(
        self, kind: Any, value: Any
    ) -> None:
        for blocking in (True, False):
            permissions = PermissionList([says(kind, value, blocking=blocking)])
            for run in (
                lambda listed=permissions: decide(listed, None, CALL, TOOL),
                lambda listed=permissions: anyio.run(adecide, listed, None, CALL, TOOL),
            ):
                with pytest.raises(TypeError) as caught:
                    run()
                text = str(caught.value)
                assert f"Made() returned {value!r}, and a" in text
                assert f"{kind.__name__} may return only" in text
                assert ("Allowed()" in text.partition("may return only")[2]) is (kind is not DenyPermission)
                assert three_parts(caught.value)

    def test_the_example_for_an_allow_never_denies(self) -> None:
        with pytest.raises(TypeError) as caught:
            decide(PermissionList([says(AllowPermission, True)]), None, CALL, TOOL)
        assert "Denied" not in str(caught.value)


class TestLists:
    @pytest.mark.parametrize("given", ["deny", b"deny", 5, object()], ids=["text", "bytes", "number", "object"])
    def test_permissions_are_given_as_a_list(self, given: Any) -> None:
        with pytest.raises(TypeError, match="permissions= takes a list") as caught:
            checked_permissions(given)
        assert three_parts(caught.value)

    @pytest.mark.parametrize("wrap", [list, tuple, iter, lambda items: dict.fromkeys(items)])
    def test_any_iterable_is_a_list_and_is_kept_as_a_tuple(self, wrap: Any) -> None:
        items = [AllowByReadOnly(), _Plain()]
        assert checked_permissions(wrap(items)) == tuple(items)

    def test_one_permission_may_stand_for_a_list_of_it(self) -> None:
        one = AllowByReadOnly()
        assert checked_permissions(one) == (one,)
        assert checked_permissions([]) == ()

    def test_a_class_and_any_other_object_in_the_list_are_refused(self) -> None:
        with pytest.raises(TypeError, match=r"AllowByReadOnly passed in permissions= .* \(it is the class\)") as caught:
            checked_permissions([AllowByReadOnly])
        assert three_parts(caught.value)
        for item in ("deny", None, Allowed(), lambda: None):
            with pytest.raises(TypeError, match="passed in permissions= is not a Permission object"):
                checked_permissions([item])


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
