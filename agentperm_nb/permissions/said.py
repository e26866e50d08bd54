"""What a policy or a mode object says of a call: the verdict, and which part of it said so."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from agentperm_nb.calls import ToolCall
from agentperm_nb.errors import ToolError, ToolInputError
from agentperm_nb.permissions.verdicts import Denied, Verdict

if TYPE_CHECKING:
    from agentperm_nb.permissions.policy import PermissionRule
    from agentperm_nb.permissions.steps import Step

__all__ = ["Said", "denial_of", "undecided"]


@dataclass(frozen=True, slots=True)
class Said:
    """What a step, or the denies of a policy, says of a call."""

    verdict: Verdict | None
    part: str = ""
    """Which part of it said so, such as the name of a rule."""
    step: Step | None = None
    """The step that said so, inside the one that was asked; None of the denies of a policy."""
    rule: PermissionRule | None = None
    """The rule of a policy that said so."""
    error: Exception | None = None
    """What a rule or a mode object raised."""
    warning: str = ""
    """What the user should know: the call is denied because of a fault."""

    @property
    def rule_name(self) -> str | None:
        """Name of the rule of a policy that said so, or failed; empty for its fallback, None where it is no policy."""
        if self.rule is not None:
            return self.rule.name
        if self.step is not None and not self.step.has_policy:
            return None
        return self.part if self.error is not None else ""


def undecided(owner: str, part: str, error: Exception, step: Step | None = None) -> Said:
    """Return the denial of a call that could not be decided.

    Args:
        owner: Name of the policy or mode object.
        part: Which part of it failed, such as the name of a rule; empty where it is none.
        error: What that raised. The message of a ``ToolError`` is the reason.
        step: The step that says so.
    """
    if isinstance(error, ToolError) and not isinstance(error, ToolInputError):
        return Said(Denied(str(error)), part, step, error=error)
    named = f"{owner}: {part}" if part else owner
    text = f"{type(error).__name__}: {_text_of(error)}".rstrip(": ")
    denied = Denied(f"The call could not be decided: {named} failed ({text}).")
    return Said(denied, part, step, error=error, warning=f"{named} raised {text}")


def denial_of(rule: PermissionRule, call: ToolCall) -> Denied:
    """Return the denial of a call by a DENY rule."""
    return Denied(rule.reason.strip() or f"{call.name} is denied by the rule {rule.name}.")


def _text_of(error: BaseException) -> str:
    try:
        return str(error)
    except Exception:  # noqa: BLE001 - a foreign __str__ may do anything
        return ""
