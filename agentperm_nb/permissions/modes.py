"""Modes: how much of what may destroy something is asked about.

1. `StandardPermissions` goes through these in order; the first that applies decides:
   a tool in ``denied_tools`` is denied; with ``allowed_tools``, a tool that is not in it is denied; BYPASS allows;
   ACCEPT_EDITS allows the tools of ``edit_tools``, or without such a list all that may destroy something; a call that
   may destroy something is asked about; any other is allowed.
2. No mode lifts a denial, and to be in ``allowed_tools`` spares no question.
3. Denials read wide: for ``denied_tools``, case, compatibility forms of letters and unseen characters make no
   difference. ``allowed_tools`` and ``edit_tools`` have to match exactly.
4. A call may destroy something unless it says that it does not: what an agent knows of the tool, it marks on the call.
5. These objects never change. Another mode is another object.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from enum import StrEnum
from types import MappingProxyType
from typing import Any, Self

from agentperm_nb.calls import ToolCall
from agentperm_nb.errors import fix_message
from agentperm_nb.permissions.builtin import AllowByName, DenyByName
from agentperm_nb.permissions.kinds import DenyPermission, Permission
from agentperm_nb.permissions.mode_objects import PermissionDecision as PermissionDecision
from agentperm_nb.permissions.mode_objects import Permissions as Permissions
from agentperm_nb.permissions.mode_objects import is_mode_object, keywords_of
from agentperm_nb.permissions.pickling import Pickled
from agentperm_nb.permissions.policy import PermissionPolicy
from agentperm_nb.permissions.verdicts import Denied, Verdict
from agentperm_nb.tools import Tool

__all__ = ["AllowAll", "DenyByMode", "Mode", "PerUserPermissions", "StandardPermissions"]

_EXAMPLE = "StandardPermissions(mode=Mode.ACCEPT_EDITS, denied_tools=['delete_*'])"
_PER_USER = (
    "PerUserPermissions(\n    {'ann': StandardPermissions(mode=Mode.ACCEPT_EDITS)},\n"
    "    default=StandardPermissions(),\n)"
)


class Mode(StrEnum):
    """How much is asked about."""

    DEFAULT = "default"
    """What may destroy something is asked about; the rest is allowed."""
    ACCEPT_EDITS = "acceptEdits"
    """What may destroy something is allowed: all of it, or the tools of ``edit_tools`` where that is given."""
    BYPASS = "bypassPermissions"
    """Everything is allowed that is not denied; nothing is asked about."""


class DenyByMode(DenyPermission):
    """What one list of a `StandardPermissions` denies, as a deny permission; ``denies()`` makes them.

    Args:
        modes: The mode object.
        part: Which list: ``"denied_tools"`` or ``"allowed_tools"``.
    """

    blocking = False

    modes: StandardPermissions
    part: str
    name: str | None

    def __init__(self, modes: StandardPermissions, part: str) -> None:
        self.modes, self.part = modes, part
        self.name = f"{modes.name or f'StandardPermissions({modes.mode.name})'}: {part}"

    def __repr__(self) -> str:
        return f"DenyByMode({self.modes!r}, {self.part!r})"

    def check(self, state: Any, call: ToolCall, tool: Tool) -> Verdict | None:
        """Deny a call that the list denies."""
        reason = self.modes.denial(call.tool).get(self.part)
        return None if reason is None else Denied(reason)


class StandardPermissions(Pickled):
    """A mode with lists of tools; the module's docstring has the order.

    Names take the wildcards of `AllowByName`: ``*``, ``?``, ``[ab]``, ``[!ab]``.

    Args:
        mode: A `Mode`, or its value.
        allowed_tools: The only tools that are not denied; ``[]`` denies every call. None for any tool.
        denied_tools: Tools that are denied, in every mode.
        edit_tools: What ACCEPT_EDITS allows, such as ``["write", "edit"]``; None for all that may destroy something.
        trust_mcp: Whether to believe a server that says of its tool that it destroys nothing.
        name: What the log calls it.

    Raises:
        TypeError: An argument has the wrong type; a text in place of a list of names, too.
        ValueError: `mode` is no mode, or a name is one that no tool can have.
    """

    __slots__ = ("_allowed", "_denied", "_edits", "_mode", "_name", "_trust_mcp")

    def __init__(
        self,
        *,
        mode: Mode | str = Mode.DEFAULT,
        allowed_tools: Iterable[str] | None = None,
        denied_tools: Iterable[str] | None = None,
        edit_tools: Iterable[str] | None = None,
        trust_mcp: bool = False,
        name: str | None = None,
    ) -> None:
        self._mode = _checked_mode(mode)
        self._allowed = None if allowed_tools is None else _Named(_checked_names("allowed_tools", allowed_tools))
        self._denied = _Named(_checked_names("denied_tools", () if denied_tools is None else denied_tools), wide=True)
        self._edits = None if edit_tools is None else _Named(_checked_names("edit_tools", edit_tools))
        if not isinstance(trust_mcp, bool):
            problem = f"trust_mcp= takes True or False (got: {trust_mcp!r})"
            raise TypeError(fix_message(problem, "give a bool", "StandardPermissions(trust_mcp=True)"))
        self._trust_mcp = trust_mcp
        self._name = _checked_name(name)

    @classmethod
    def strict(cls) -> Self:
        """Return one that allows what destroys nothing, and has the rest asked about."""
        return cls(mode=Mode.DEFAULT)

    @property
    def mode(self) -> Mode:
        """The mode."""
        return self._mode

    @property
    def allowed_tools(self) -> tuple[str, ...] | None:
        """The only tools that are not denied; None for any."""
        return None if self._allowed is None else self._allowed.patterns

    @property
    def denied_tools(self) -> tuple[str, ...]:
        """The tools that are denied."""
        return self._denied.patterns

    @property
    def edit_tools(self) -> tuple[str, ...] | None:
        """What ACCEPT_EDITS allows; None for all that may destroy something."""
        return None if self._edits is None else self._edits.patterns

    @property
    def trust_mcp(self) -> bool:
        """Whether a server is believed that says of its tool that it destroys nothing."""
        return self._trust_mcp

    @property
    def name(self) -> str | None:
        """What the log calls it, where it was given a name."""
        return self._name

    @property
    def bypasses(self) -> bool:
        """Whether the mode is BYPASS."""
        return self._mode is Mode.BYPASS

    def __repr__(self) -> str:
        shown = [] if self._mode is Mode.DEFAULT else [self._mode.name]
        for what in ("allowed_tools", "denied_tools", "edit_tools"):
            names = getattr(self, what)
            if names or (names is not None and what != "denied_tools"):
                shown.append(f"{what}={list(names)!r}")
        shown += ["trust_mcp=True"] if self._trust_mcp else []
        return f"{type(self).__name__}({', '.join(shown)})"

    def denies(self) -> list[DenyPermission]:
        """Return what it denies whatever the mode, as deny permissions: nothing before them in a list hides them.

        Put them into the list as well: ``[*modes.denies(), AllowByReadOnly(), modes]``.
        """
        parts = ["denied_tools"] if self.denied_tools else []
        parts += ["allowed_tools"] if self.allowed_tools is not None else []
        return [DenyByMode(self, part) for part in parts]

    def denial(self, tool: str) -> dict[str, str]:
        """Return why a tool is denied whatever the mode, by the list that does so; empty for one that is not."""
        why = {"denied_tools": f"{tool}: denied by policy"} if self._denied.has(tool) else {}
        if self._allowed is not None and not self._allowed.has(tool):
            why["allowed_tools"] = f"{tool}: not in allow-list"
        return why

    def decide(self, call: ToolCall, user_id: str | None = None) -> PermissionDecision:
        """Return what becomes of a call.

        Args:
            call: The call.
            user_id: On whose behalf it is made; it makes no difference here.
        """
        return self.decide_with_part(call, user_id)[0]

    def decide_with_part(self, call: ToolCall, user_id: str | None = None) -> tuple[PermissionDecision, str]:
        """Return what becomes of a call, and what decided.

        That is ``denied_tools``, ``allowed_tools``, ``bypassPermissions``, ``acceptEdits``, ``destructive`` (it may
        destroy something, so it is asked about) or ``default`` (it does not).
        """
        tool = call.tool
        for part, reason in self.denial(tool).items():
            return PermissionDecision("deny", reason), part
        if self._mode is Mode.BYPASS:
            return PermissionDecision("allow"), Mode.BYPASS.value
        accepts = self._mode is Mode.ACCEPT_EDITS
        if accepts and self._edits is not None and self._edits.has(tool):
            return PermissionDecision("allow"), Mode.ACCEPT_EDITS.value
        if call.is_destructive() is False:  # no other value says that nothing is destroyed
            return PermissionDecision("allow"), Mode.DEFAULT.value
        if accepts and self._edits is None:
            return PermissionDecision("allow"), Mode.ACCEPT_EDITS.value
        return PermissionDecision("ask", f"{tool}: destructive call requires approval"), "destructive"

    async def check(
        self, call: ToolCall, *, context: Mapping[str, Any], user_id: str | None = None
    ) -> PermissionDecision:
        """Return what becomes of a call; see `decide`."""
        return self.decide(call, user_id)


class AllowAll(Pickled):
    """Allows every call that no deny permission denies; nothing is asked about."""

    __slots__ = ()

    def __repr__(self) -> str:
        return f"{type(self).__name__}()"

    def decide(self, call: ToolCall, user_id: str | None = None) -> PermissionDecision:
        """Allow the call."""
        return PermissionDecision("allow")

    async def check(
        self, call: ToolCall, *, context: Mapping[str, Any], user_id: str | None = None
    ) -> PermissionDecision:
        """Allow the call."""
        return self.decide(call, user_id)


class PerUserPermissions(Pickled):
    """For each user another mode object or policy.

    Args:
        policies: What applies to whom: user id, or None for nobody, to a mode object or a `PermissionPolicy`.
        default: What applies to everybody else.
        name: What the log calls it.

    Raises:
        TypeError: A user id is neither a text nor None; a value is no mode object and no policy; there is no default.
        ValueError: A user id is blank.
    """

    __slots__ = ("_default", "_name", "_policies")

    def __init__(self, policies: Mapping[str | None, Any], default: Any = None, *, name: str | None = None) -> None:
        if not isinstance(policies, Mapping):
            problem = f"policies= takes a dict from user id to what applies (got: {type(policies).__name__})"
            raise TypeError(fix_message(problem, "give a dict", _PER_USER))
        for user in policies:
            if user is not None and not isinstance(user, str):
                problem = f"a user id is a text, or None for nobody (got: {user!r})"
                raise TypeError(fix_message(problem, "give the id as a text", _PER_USER))
            if user is not None and not user.strip():
                raise ValueError(fix_message("a user id is blank", "give the id, or None for nobody", _PER_USER))
        self._policies = {user: _checked_part(f"what applies to {user!r}", part) for user, part in policies.items()}
        self._default = _checked_part("default=", default)
        self._name = _checked_name(name)

    @property
    def policies(self) -> Mapping[str | None, Any]:
        """What applies to whom."""
        return MappingProxyType(self._policies)

    @property
    def default(self) -> Any:
        """What applies to everybody else."""
        return self._default

    @property
    def name(self) -> str | None:
        """What the log calls it, where it was given a name."""
        return self._name

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self._policies!r}, default={self._default!r})"

    def for_user(self, user_id: str | None) -> Any:
        """Return the mode object or the policy that applies to a user."""
        applies = self._policies.get(user_id, self._default)
        # One with a check of its own has to be asked; what it holds is not all that it says.
        plain = isinstance(applies, PerUserPermissions) and type(applies).check is PerUserPermissions.check
        return applies.for_user(user_id) if plain else applies

    async def check(
        self, call: ToolCall, *, context: Mapping[str, Any], user_id: str | None = None
    ) -> PermissionDecision:
        """Return what the part that applies to the user says of a call.

        Raises:
            TypeError: That is a policy, which has to be given the tool: an agent does so.
        """
        applies = self.for_user(user_id)
        if isinstance(applies, PermissionPolicy):
            raise TypeError(
                fix_message(
                    f"{applies!r} decides by the tool, which check is not given",
                    "let an agent decide, or evaluate the policy itself",
                    "agent.explain('write_file', path='notes.txt')",
                )
            )
        given: dict[str, Any] = {"context": context, "user_id": user_id}
        answer: PermissionDecision = await applies.check(call, **{name: given[name] for name in keywords_of(applies)})
        return answer


class _Named:
    """Names of tools, with wildcards: read wide, as a denial reads them, or exactly."""

    __slots__ = ("_rule", "patterns")

    def __init__(self, patterns: tuple[str, ...], *, wide: bool = False) -> None:
        self.patterns = patterns
        kind = DenyByName if wide else AllowByName
        self._rule: DenyByName | AllowByName | None = kind(patterns) if patterns else None

    def has(self, name: str) -> bool:
        """Return whether a tool of this name is one of them."""
        return self._rule is not None and self._rule.for_name(name) is not None


# --- what may be given ------------------------------------------------------------------------------------------------


def _checked_mode(mode: object) -> Mode:
    known = ", ".join(f"Mode.{one.name}" for one in Mode)
    if not isinstance(mode, str):
        raise TypeError(fix_message(f"mode= takes a Mode (got: {mode!r})", f"use one of {known}", _EXAMPLE))
    try:
        return Mode(mode)
    except ValueError:
        values = ", ".join(repr(one.value) for one in Mode)
        fix = f"use one of {known}, or their values {values}"
        raise ValueError(fix_message(f"{mode!r} is not a mode", fix, _EXAMPLE)) from None


def _checked_names(what: str, names: object) -> tuple[str, ...]:
    example = f"StandardPermissions({what}=['write_file', 'edit_*'])"
    if isinstance(names, str | bytes | Mapping) or not isinstance(names, Iterable):
        problem = f"{what}= takes a list of names of tools (got: {names!r})"
        raise TypeError(fix_message(problem, "put them in a list", example))
    listed = tuple(names)
    for name in listed:
        if not isinstance(name, str):
            problem = f"{what}= takes names of tools as texts (got: {name!r})"
            raise TypeError(fix_message(problem, "give the names, such as tool.name", example))
        if not name or any(map(str.isspace, name)):
            problem = f"{what}= has the name {name!r}, which no tool can have"
            raise ValueError(fix_message(problem, "give each name on its own, without spaces", example))
    return tuple(sorted(listed)) if isinstance(names, set | frozenset) else listed


def _checked_name(name: object) -> str | None:
    if name is not None and not isinstance(name, str):
        raise TypeError(
            fix_message(f"name= takes a text (got: {name!r})", "give a text", "StandardPermissions(name='office')")
        )
    if name is not None and not name.strip():
        raise ValueError(
            fix_message("name= is blank", "give a name, or leave it out", "StandardPermissions(name='office')")
        )
    return name


def _checked_part(where: str, part: Any) -> Any:
    problem, fix = "", "give a mode object or a PermissionPolicy"
    if part is None:
        problem = f"{where} is missing, or None"
        fix = "say what applies; StandardPermissions() asks about what may destroy something"
    elif isinstance(part, type):
        problem, fix = f"{where} is {part.__name__}, the class", f"make an object of it: {part.__name__}(...)"
    elif issubclass(type(part), Permission):
        problem = f"{where} is {part!r}, a permission that holds for every user"
        fix = "put it into the list beside these, permissions=[permission, PerUserPermissions(...)]"
    elif isinstance(part, list | tuple | set | frozenset):
        problem = f"{where} is a list of permissions"
        fix = f"put permissions into the agent's list, beside these; here, {fix}"
    elif not isinstance(part, PermissionPolicy) and not is_mode_object(part):
        problem = f"{where} is {part!r}, which has no async check(call, *, context, user_id)"
    if problem:
        raise TypeError(fix_message(problem, fix, _PER_USER))
    if not isinstance(part, PermissionPolicy):
        keywords_of(part)
    return part
