"""Mode objects: what they are asked with, and what they say.

1. A mode object has ``async check(call, *, context, user_id)``, a method of its class.
2. It returns a `PermissionDecision`, and nothing else is one.
3. A ``check`` that is older than users, or takes no context, is called without: its signature tells.
"""

from __future__ import annotations

import inspect
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal, Protocol, Self, runtime_checkable

from agentperm_nb.calls import ToolCall
from agentperm_nb.errors import fix_message

__all__ = ["PermissionDecision", "Permissions", "is_mode_object", "keywords_of"]

_WORDS = ("allow", "deny", "ask")
_OFFICE = (
    "class Office:\n    async def check(self, call, *, context, user_id=None):\n"
    "        return PermissionDecision.ask_('the office is closed')"
)


@dataclass(frozen=True)
class PermissionDecision:
    """What a mode object says of a call; make one with `allow_`, `deny_` or `ask_`.

    Args:
        decision: ``"allow"``, ``"deny"`` or ``"ask"``.
        reason: Why: the model reads the reason of a denial, whoever is asked that of a question.

    Raises:
        TypeError: A value has the wrong type.
        ValueError: `decision` is another word.
    """

    decision: Literal["allow", "deny", "ask"]
    reason: str | None = None

    def __post_init__(self) -> None:
        example = "PermissionDecision.ask_('it is late')"
        if not isinstance(self.decision, str):
            raise TypeError(
                fix_message(
                    f"a decision is a word (got: {self.decision!r})", "use allow_(), deny_(...) or ask_()", example
                )
            )
        if type(self.decision) is not str or self.decision not in _WORDS:
            raise ValueError(
                fix_message(
                    f"{self.decision!r} is not a decision", "use one of 'allow', 'deny', 'ask', in lower case", example
                )
            )
        if self.reason is not None and not isinstance(self.reason, str):
            raise TypeError(
                fix_message(
                    f"reason= takes a text (got: {self.reason!r})", "say why in words, or leave it out", example
                )
            )

    @classmethod
    def allow_(cls, reason: str | None = None) -> Self:
        """Return that the call may run."""
        return cls("allow", reason)

    @classmethod
    def deny_(cls, reason: str) -> Self:
        """Return that the call does not run, and why, for the model."""
        return cls("deny", reason)

    @classmethod
    def ask_(cls, reason: str | None = None) -> Self:
        """Return that somebody is asked, and why."""
        return cls("ask", reason)

    @property
    def allow(self) -> bool:
        """Whether the call may run."""
        return self.decision == "allow"

    @property
    def deny(self) -> bool:
        """Whether the call does not run."""
        return self.decision == "deny"

    @property
    def ask(self) -> bool:
        """Whether somebody is asked."""
        return self.decision == "ask"


@runtime_checkable
class Permissions(Protocol):
    """A mode object: any object with such a ``check``."""

    async def check(
        self, call: ToolCall, *, context: Mapping[str, Any], user_id: str | None = None
    ) -> PermissionDecision:
        """Say what becomes of a call.

        Args:
            call: The call; ``call.tool`` is the tool's name, ``call.is_destructive()`` says whether it may
                destroy something.
            context: What is known of the run.
            user_id: On whose behalf the agent works.
        """
        ...


def is_mode_object(item: object) -> bool:
    """Return whether an object is asked with ``async check``; a class, or a mock that has every attribute, is not."""
    check = None if isinstance(item, type) else getattr(type(item), "check", None)
    return check is not None and inspect.iscoroutinefunction(inspect.unwrap(check))


def keywords_of(item: Any) -> tuple[str, ...]:
    """Return which of ``context`` and ``user_id`` the ``check`` of a mode object takes; some are older than users.

    Raises:
        TypeError: It cannot be called with a call and these.
    """
    signature = inspect.signature(item.check)
    found = signature.parameters.values()
    takes_all = any(parameter.kind is parameter.VAR_KEYWORD for parameter in found)
    by_name = {one.name for one in found if one.kind in (one.KEYWORD_ONLY, one.POSITIONAL_OR_KEYWORD)}
    keywords = tuple(name for name in ("context", "user_id") if takes_all or name in by_name)
    try:
        signature.bind(None, **dict.fromkeys(keywords))
    except TypeError as error:
        problem = f"check of {type(item).__name__} cannot be called with a call, context= and user_id= ({error})"
        raise TypeError(fix_message(problem, "let it take them", _OFFICE)) from None
    return keywords
