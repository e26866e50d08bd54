"""Answers to a request.

1. `ApprovalDecision` is the one answer: ``allow``, ``deny``, ``edit``, ``remember_allow``, ``remember_deny``.
2. A handler may also return True or False, a `PermissionResult`, or the name of an action that needs no arguments.
3. Nothing else is an answer: not a truthy value, not None, not ``"ALLOW"``. `as_decision` says None to all of it, and
   the engine denies.
4. A `Scope` says for which later calls an answer holds as well. A pattern is a rule on arguments in its notation, read
   when the scope is made: with an allow it reads narrow, with a denial wide.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import KW_ONLY, dataclass
from typing import TYPE_CHECKING, Any, Literal, get_args

from agentperm_nb.errors import fix_message
from agentperm_nb.json_values import freeze
from agentperm_nb.permissions.types import PermissionResult

if TYPE_CHECKING:
    from agentperm_nb.permissions.arguments import ArgumentRule

__all__ = ["Action", "ApprovalDecision", "Scope", "as_decision"]

Action = Literal["allow", "deny", "edit", "remember_allow", "remember_deny"]
_EXAMPLE = (
    "ApprovalDecision('deny', reason='not on a Friday')\nApprovalDecision('edit', edited_args={'path': 'copy.txt'})"
)


@dataclass(frozen=True, slots=True)
class Scope:
    """How far a remembered answer reaches.

    Args:
        covers: ``"call"``: the same tool with exactly the same arguments; ``"arguments"``: the same tool with the same
            values in the arguments that are named; ``"tool"``: every call of the tool; ``"pattern"``: the calls that a
            rule on arguments fits.
        lasts: ``"run"`` or ``"session"``; or ``"file"``, for a pattern that becomes a rule of the project's policy
            file.
        arguments: The names, for ``"arguments"``. One that a call does not have is the same only where another call
            does not have it either.
        rule: The rule, for ``"pattern"``: in its notation without the verb, such as ``write_file(path=project/**)``, as
            the answer says whether it allows or denies; or a rule made in Python, which has to agree with the answer.

    Raises:
        TypeError: `arguments` is not a list of names, or `rule` is no rule.
        ValueError: A value is none of these, `rule` is no rule that can match something, or the values do not go
            together.
    """

    covers: Literal["call", "arguments", "tool", "pattern"] = "call"
    lasts: Literal["run", "session", "file"] = "run"
    arguments: Sequence[str] = ()
    rule: str | ArgumentRule | None = None

    def __post_init__(self) -> None:
        object.__setattr__(self, "arguments", _checked_names(self.arguments))
        problem, fix = "", ""
        if not _is_one_of(self.covers, _COVERS) or not _is_one_of(self.lasts, _LASTS):
            problem = f"{self!r} is not a scope"
            fix = (
                "covers= is 'call', 'arguments', 'tool' or 'pattern', lasts= is 'run' or 'session', or 'file' for a "
                "pattern"
            )
        elif self.covers == "arguments" and not self.arguments:
            problem, fix = "a scope that covers arguments names none of them", "name those whose values have to be same"
        elif self.covers != "arguments" and self.arguments:
            problem, fix = f"arguments= with covers={self.covers!r} does not go together", "leave it out, or cover them"
        elif self.covers == "pattern" and self.rule is None:
            problem, fix = "a scope that covers a pattern has none", "give rule="
        elif self.covers != "pattern" and self.rule is not None:
            problem, fix = f"rule= with covers={self.covers!r} does not go together", "leave it out, or cover a pattern"
        elif self.covers != "pattern" and self.lasts == "file":
            problem, fix = f"a file holds rules, and covers={self.covers!r} is none", "give a pattern"
        if problem:
            raise ValueError(fix_message(problem, fix, _SCOPE))
        if self.rule is not None:
            object.__setattr__(self, "rule", _checked_rule(self.rule))

    def permission(self, *, allow: bool) -> ArgumentRule:
        """Return the rule of a pattern, as a permission that allows or denies.

        Args:
            allow: Whether it allows.

        Raises:
            ValueError: The scope has no rule, or one that says the opposite.
        """
        from agentperm_nb.permissions.notation import rule

        verb = "allow" if allow else "deny"
        if self.rule is None:
            raise ValueError(fix_message(f"{self!r} has no rule", "give a pattern", _SCOPE))
        if isinstance(self.rule, str):
            return rule(self.rule, verb=verb)
        if self.rule.verb != verb:
            problem = f"{self.rule!r} does not {verb}"
            raise ValueError(fix_message(problem, f"give a rule that says {verb}, or a text without verb", _SCOPE))
        return self.rule


_COVERS, _LASTS = ("call", "arguments", "tool", "pattern"), ("run", "session", "file")
_SCOPE = (
    "Scope('tool', lasts='session')\nScope('arguments', arguments=['path'])\n"
    "Scope('pattern', rule='write_file(path=project/**)')"
)


def _checked_rule(given: object) -> str | ArgumentRule:
    """Return a rule as it is kept: a text as the notation writes it, a rule of its very class."""
    from agentperm_nb.permissions.arguments import AllowByArguments, ArgumentRule, DenyByArguments
    from agentperm_nb.permissions.notation import rule

    if isinstance(given, str):
        try:
            return str(rule(given, verb="allow")).removeprefix("allow ")
        except ValueError as error:
            problem, _, rest = str(error).partition("\nFix: ")
            raise ValueError(fix_message(problem, rest.partition("\nExample:")[0], _SCOPE)) from None
    if not isinstance(given, ArgumentRule) or not given.by_arguments:  # a check of its own would be lost
        problem = f"rule= takes a rule on arguments (got: {given!r})"
        raise TypeError(fix_message(problem, "write it in the notation", _SCOPE))
    if not isinstance(given, AllowByArguments | DenyByArguments):
        problem = f"rule= takes a rule that allows or denies (got: {given!r})"
        raise ValueError(fix_message(problem, "leave the verb out: the answer says it", _SCOPE))
    return rule(str(given))


def _is_one_of(value: object, words: tuple[str, ...]) -> bool:
    return type(value) is str and value in words


def _checked_names(names: object) -> tuple[str, ...]:
    if isinstance(names, str | bytes | Mapping) or not isinstance(names, Iterable):
        raise TypeError(fix_message(f"arguments= takes a list of names (got: {names!r})", "give a list", _SCOPE))
    listed = tuple(names)
    for name in listed:
        if type(name) is not str:
            raise TypeError(fix_message(f"arguments= takes names (got: {name!r})", "give texts", _SCOPE))
    twice = next((name for place, name in enumerate(listed) if name in listed[:place]), None)
    if twice is not None or "" in listed:
        problem = f"arguments= names {twice!r} twice" if twice is not None else "arguments= has an empty name"
        raise ValueError(fix_message(problem, "name each argument once", _SCOPE))
    return listed


@dataclass(frozen=True, slots=True)
class ApprovalDecision:
    """The answer to one request.

    Args:
        action: ``allow``, ``deny``, ``edit`` (allow, with other arguments), ``remember_allow`` or ``remember_deny``.
        reason: Why; the model reads the reason of a denial.
        edited_args: The arguments to run instead, all of them. Needed for ``edit``, allowed with ``remember_allow``.
        scope: How far a remembered answer reaches; the same call in this run when left out.
        stop: With a denial: end the turn, nothing more of it runs.
        approver: Who decided, for a handler that asks elsewhere: a queue, a chat. The log keeps it. Of a person who is
            asked here, the name is known, and this is left alone.

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
    approver: str | None = None

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
        if self.approver is not None and not (isinstance(self.approver, str) and self.approver.strip()):
            raise TypeError(
                fix_message(
                    f"approver= takes the name of a person (got: {self.approver!r})",
                    "give a text, or leave it out",
                    "ApprovalDecision('allow', approver='ann')",
                )
            )
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
        if self.scope is not None and self.scope.rule is not None:
            self.scope.permission(allow=self.allows)  # says now that it says the opposite

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
        scope = value.scope
        return ApprovalDecision(
            value.action,
            reason=value.reason,
            edited_args=value.edited_args,
            scope=scope if scope is None else Scope(scope.covers, scope.lasts, scope.arguments, scope.rule),
            stop=value.stop,
            approver=value.approver,
        )
    except (AttributeError, TypeError, ValueError):
        return None
