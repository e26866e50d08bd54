"""Permissions and their three kinds: power by type.

1. A `DenyPermission` may deny or have no opinion, an `AllowPermission` may allow or have none; a `DecidePermission` may
   also ask. What a permission returns is checked against its kind each time.
2. A permission overrides ``check`` (called on a thread) or ``acheck`` (awaited on the event loop), or both.
3. A class is checked when it is instantiated, so abstract classes in between are fine.
4. Permissions pickle; one that cannot says what is in the way (`permissions.pickling`).
"""

from __future__ import annotations

import inspect
from collections import Counter
from collections.abc import Iterable
from typing import Any, ClassVar, Self

from agentperm_nb.calls import ToolCall
from agentperm_nb.errors import fix_message
from agentperm_nb.permissions.pickling import Pickled
from agentperm_nb.permissions.verdicts import Allowed, Ask, Denied, Verdict
from agentperm_nb.tools import Tool

__all__ = [
    "AllowPermission",
    "AskFirst",
    "DecidePermission",
    "DenyPermission",
    "Permission",
    "fits",
    "names_of",
    "wrong_verdict",
]

_EXAMPLE = """
class NoWeekends(DenyPermission):
    def check(self, state, call, tool):
        if date.today().weekday() >= 5:
            return Denied('not at the weekend')
        return None
"""


class Permission(Pickled):
    """Base of the three kinds; subclass one of them.

    Raises:
        TypeError: On instantiation: the class is of no kind or of several, or implements neither ``check`` nor
            ``acheck``, or its ``check`` is async or its ``acheck`` is not.
    """

    kind: ClassVar[str]
    """``deny``, ``allow`` or ``decide``."""
    may_return: ClassVar[tuple[type[Verdict], ...]]
    blocking: bool = True
    """Whether ``check`` may block; if so, the async driver calls it on a worker thread. It is not inherited by a class
    with a ``check`` of its own."""
    reads_files: bool = False
    """Whether what it says depends on files or links, too. Then it is asked again just before a call starts."""
    name: str | None = None
    """What log, tables and trace call it; its ``repr`` when None."""

    def __init_subclass__(cls, **kwargs: Any) -> None:
        """Take a ``check`` of one's own for one that may block, unless its class says otherwise."""
        super().__init_subclass__(**kwargs)
        if "check" in cls.__dict__ and "blocking" not in cls.__dict__:
            cls.blocking = True

    def __new__(cls, *args: Any, **kwargs: Any) -> Self:
        """Refuse a class that could not decide."""
        _check_class(cls)
        return super().__new__(cls)

    def __repr__(self) -> str:
        return f"{type(self).__name__}()"

    @property
    def by_arguments(self) -> bool:
        """Whether it is a rule on arguments, and decides as such a rule does."""
        return False

    def may_apply(self, name: str) -> bool:
        """Return whether it may have an opinion of a call of a tool of this name; it is not asked about others.

        A list asks once for each name, so the answer must never change.
        """
        return True

    def check(self, state: Any, call: ToolCall, tool: Tool) -> Verdict | None:
        """Say something of a call, or None.

        Args:
            state: The State of the run that makes the call.
            call: The call; its arguments cannot be changed.
            tool: The tool that would run.

        Raises:
            TypeError: This permission checks calls only asynchronously.
        """
        raise TypeError(
            fix_message(
                f"{self!r} checks calls only asynchronously",
                "use the async form of the call, or override check as well",
                "turn = await agent.ause_tools(reply)",
            )
        )

    async def acheck(self, state: Any, call: ToolCall, tool: Tool) -> Verdict | None:
        """Like `check`, awaited; by default it is `check`, on a worker thread unless ``blocking`` is False."""
        if not self.blocking:
            return self.check(state, call, tool)
        import anyio.to_thread

        # A StopIteration cannot be carried by a future: the awaiting side would wait for ever. In a list, since trio
        # refuses a coroutine as a result: what it is, is said elsewhere.
        def guarded() -> list[Verdict | None]:
            try:
                return [self.check(state, call, tool)]
            except StopIteration as error:
                raise RuntimeError(f"{_name_of(self)} raised StopIteration") from error

        (verdict,) = await anyio.to_thread.run_sync(guarded, abandon_on_cancel=True)
        return verdict


class DenyPermission(Permission):
    """May deny, wherever it stands in the list; nothing that another permission says can lift it."""

    kind: ClassVar[str] = "deny"
    may_return: ClassVar[tuple[type[Verdict], ...]] = (Denied,)


class AllowPermission(Permission):
    """May allow."""

    kind: ClassVar[str] = "allow"
    may_return: ClassVar[tuple[type[Verdict], ...]] = (Allowed,)


class DecidePermission(Permission):
    """May allow, deny or ask a person."""

    kind: ClassVar[str] = "decide"
    words_its_question: ClassVar[bool] = True
    """Whether the reason of its ``Ask`` is the question as a person reads it. Otherwise the question is whether to run
    the call, and the reason stands beside it."""
    may_return: ClassVar[tuple[type[Verdict], ...]] = (Allowed, Denied, Ask)


class AskFirst(DecidePermission):
    """May ask a person, after all denies and before any other permission has a say.

    Like a deny, it holds for the runs below as well.
    """

    may_return: ClassVar[tuple[type[Verdict], ...]] = (Ask,)


_KINDS: tuple[type[Permission], ...] = (DenyPermission, AllowPermission, DecidePermission)


def _kind_of(permission: Permission) -> type[Permission]:
    return (
        AskFirst if isinstance(permission, AskFirst) else next(kind for kind in _KINDS if isinstance(permission, kind))
    )


def _check_class(cls: type[Permission]) -> None:
    kinds = [kind.__name__ for kind in _KINDS if issubclass(cls, kind)]
    problem = ""
    fix = "subclass DenyPermission, AllowPermission or DecidePermission"
    if cls is Permission or not kinds:
        problem = f"{cls.__name__} subclasses Permission directly"
    elif len(kinds) > 1:
        problem = f"{cls.__name__} subclasses more than one kind of permission ({', '.join(kinds)})"
        fix = "subclass one of them"
    elif cls.check is Permission.check and cls.acheck is Permission.acheck:
        problem = f"{cls.__name__} implements neither check nor acheck"
        fix = "override one of them"
    elif not callable(cls.check) or not callable(cls.acheck):
        problem = f"check or acheck of {cls.__name__} cannot be called"
        fix = "make it a method"
    elif inspect.iscoroutinefunction(cls.check):
        problem = f"check of {cls.__name__} is async"
        fix = "call it acheck, or leave out async"
    elif cls.acheck is not Permission.acheck and not inspect.iscoroutinefunction(inspect.unwrap(cls.acheck)):
        problem = f"acheck of {cls.__name__} is not async"
        fix = "write async def, or call it check"
    if problem:
        raise TypeError(fix_message(problem, fix, _EXAMPLE))


def fits(permission: Permission, returned: object) -> bool:
    """Return whether a permission's kind may return this: None, or one of its verdicts and no other one too.

    The real type counts: an object that only claims to be of a class, as a mock with a spec does, is no verdict. The
    kind itself counts too: a subclass cannot give itself more power.
    """
    if returned is None:
        return True
    said = [verdict for verdict in (Denied, Ask, Allowed) if issubclass(type(returned), verdict)]
    return len(said) == 1 and said[0] in _kind_of(permission).may_return


def wrong_verdict(permission: Permission, returned: object) -> TypeError:
    """Return the error for a permission that returned what its kind may not."""
    if inspect.iscoroutine(returned):
        returned.close()  # the error below says it; that it was never awaited need not be said too
    kind = _kind_of(permission)
    article = "an" if kind.__name__.startswith("A") else "a"
    forms = {Denied: "Denied(...)", Allowed: "Allowed()", Ask: "Ask(...)"}
    may = " or ".join([*(forms[verdict] for verdict in kind.may_return), "None"])
    example = "return Allowed()" if kind is AllowPermission else "return Denied('writes outside of the project')"
    return TypeError(
        fix_message(
            f"{permission!r} returned {returned!r}, and {article} {kind.__name__} may return only {may}",
            "return a verdict, or None for no opinion",
            example,
        )
    )


def names_of(permissions: Iterable[Permission]) -> tuple[str, ...]:
    """Return the name of each permission for log and tables; those that are alike get ``#1``, ``#2``."""
    plain = [_name_of(permission) for permission in permissions]
    total, seen, names = Counter(plain), Counter[str](), []
    for name in plain:
        seen[name] += 1
        if total[name] > 1:
            while (numbered := f"{name} #{seen[name]}") in total:  # somebody is called that already
                seen[name] += 1
            name = numbered
        names.append(name)
    return tuple(names)


def _name_of(permission: Permission) -> str:
    if isinstance(permission.name, str):
        return permission.name
    try:
        notation = getattr(permission, "notation", None)  # a rule on arguments is called by what it says
        return notation if isinstance(notation, str) else repr(permission)
    except Exception:  # noqa: BLE001 - a failing repr must not keep a denial from being recorded
        return f"{type(permission).__name__}(?)"
