"""Answers to a request.

1. `ApprovalDecision` is the one answer: ``allow``, ``deny``, ``edit``, ``remember_allow``, ``remember_deny``.
2. A handler may also return True or False, a `PermissionResult`, or the name of an action that needs no arguments.
3. Nothing else is an answer: not a truthy value, not None, not ``"ALLOW"``. `as_decision` says None to all of it, and
   the engine denies.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import KW_ONLY, dataclass
from typing import Any, Literal, get_args

from agentperm_nb.errors import fix_message
from agentperm_nb.json_values import freeze
from agentperm_nb.permissions.types import PermissionResult

__all__ = ["Action", "ApprovalDecision", "Scope", "as_decision"]

Action = Literal["allow", "deny", "edit", "remember_allow", "remember_deny"]
_EXAMPLE = (
    "ApprovalDecision('deny', reason='not on a Friday')\nApprovalDecision('edit', edited_args={'path': 'copy.txt'})"
)


@dataclass(frozen=True, slots=True)
class Scope:
    """How far a remembered answer reaches.

    Args:
        covers: ``"call"``: the same tool with exactly the same arguments; ``"tool"``: every call of the tool.
        lasts: ``"run"`` or ``"session"``.

    Raises:
        ValueError: A value is none of these.
    """

    covers: Literal["call", "tool"] = "call"
    lasts: Literal["run", "session"] = "run"

    def __post_init__(self) -> None:
        if self.covers not in ("call", "tool") or self.lasts not in ("run", "session"):
            raise ValueError(
                fix_message(
                    f"{self!r} is not a scope",
                    "covers= is 'call' or 'tool', lasts= is 'run' or 'session'",
                    "Scope('tool', lasts='session')",
                )
            )


@dataclass(frozen=True, slots=True)
class ApprovalDecision:
    """The answer to one request.

    Args:
        action: ``allow``, ``deny``, ``edit`` (allow, with other arguments), ``remember_allow`` or ``remember_deny``.
        reason: Why; the model reads the reason of a denial.
        edited_args: The arguments to run instead, all of them. Needed for ``edit``, allowed with ``remember_allow``.
        scope: How far a remembered answer reaches; the same call in this run when left out.
        stop: With a denial: end the turn, nothing more of it runs.

    Raises:
        TypeError: A value has the wrong type.
        ValueError: An unknown action, or values that do not go together.
    """

    action: Action
    _: KW_ONLY
    reason: str | None = None
    edited_args: Mapping[str, Any] | None = None
    scope: Scope | None = None
    stop: bool = False

    def __post_init__(self) -> None:
        if type(self.action) is not str or self.action not in get_args(Action):
            raise ValueError(
                fix_message(
                    f"{self.action!r} is not an action of an approval decision",
                    f"use one of {', '.join(get_args(Action))}",
                    _EXAMPLE,
                )
            )
        if self.reason is not None and not isinstance(self.reason, str):
            raise TypeError(fix_message(f"reason= takes a text (got: {self.reason!r})", "give a text", _EXAMPLE))
        if not isinstance(self.stop, bool):
            raise TypeError(fix_message(f"stop= takes True or False (got: {self.stop!r})", "give a bool", _EXAMPLE))
        if self.scope is not None and not isinstance(self.scope, Scope):
            raise TypeError(fix_message(f"scope= takes a Scope (got: {self.scope!r})", "give a Scope", "Scope('tool')"))
        if self.edited_args is not None:
            if not isinstance(self.edited_args, Mapping):
                raise TypeError(
                    fix_message(
                        f"edited_args= takes a dict of arguments (got: {type(self.edited_args).__name__})",
                        "give all arguments by name",
                        _EXAMPLE,
                    )
                )
            object.__setattr__(self, "edited_args", freeze(self.edited_args))
        self._check_together()

    def _check_together(self) -> None:
        problem = ""
        if self.action == "edit" and self.edited_args is None:
            problem = "an edit without edited_args="
        elif self.edited_args is not None and self.action not in ("edit", "remember_allow"):
            problem = f"edited_args= with {self.action!r}"
        elif self.stop and not self.denies:
            problem = f"stop=True with {self.action!r}"
        elif self.scope is not None and not self.remembers:
            problem = f"scope= with {self.action!r}"
        if problem:
            raise ValueError(
                fix_message(
                    f"{problem} does not go together",
                    "edited_args= goes with an edit, stop= with a denial, scope= with remembering",
                    _EXAMPLE,
                )
            )

    @property
    def allows(self) -> bool:
        """Whether the answer lets the call run, as far as the law agrees."""
        return self.action in ("allow", "edit", "remember_allow")

    @property
    def denies(self) -> bool:
        """Whether the answer refuses the call."""
        return self.action in ("deny", "remember_deny")

    @property
    def remembers(self) -> bool:
        """Whether the answer also holds for later calls."""
        return self.action in ("remember_allow", "remember_deny")


def as_decision(value: object) -> ApprovalDecision | None:
    """Return the decision that a handler's return value stands for, or None when it is not an answer.

    Accepted: an `ApprovalDecision`; True and False themselves; ``PermissionResult.ALLOW`` and ``DENY``; the strings
    ``allow``, ``deny``, ``remember_allow``, ``remember_deny``, in lower case.
    """
    if issubclass(type(value), ApprovalDecision):  # not isinstance: a mock with a spec claims to be one
        return _plain(value)
    if value is True:
        return ApprovalDecision("allow")
    if value is False:
        return ApprovalDecision("deny")
    if type(value) is PermissionResult:
        return None if value is PermissionResult.ASK else ApprovalDecision(value.value)
    if type(value) is str and value in ("allow", "deny", "remember_allow", "remember_deny"):
        return ApprovalDecision(value)  # type: ignore[arg-type]  # narrowed by the line above
    return None


def _plain(value: Any) -> ApprovalDecision | None:
    """Return a decision made again from its fields, so that neither a subclass nor a half-made one says more."""
    try:
        return ApprovalDecision(
            value.action, reason=value.reason, edited_args=value.edited_args, scope=value.scope, stop=value.stop
        )
    except (AttributeError, TypeError, ValueError):
        return None
