"""Verdicts: what a permission may say of a call.

No opinion is ``None``, and only ``None``. Verdicts are frozen; two are equal when class and fields are.
"""

from __future__ import annotations

from dataclasses import dataclass

from agentperm_nb.errors import fix_message
from agentperm_nb.permissions.pickling import Pickled

__all__ = ["Allowed", "Ask", "Denied", "Verdict", "checked_reason"]


class Verdict(Pickled):
    """Base of `Allowed`, `Denied` and `Ask`."""

    __slots__ = ()


@dataclass(frozen=True)
class Allowed(Verdict):
    """The call may run."""


@dataclass(frozen=True)
class Denied(Verdict):
    """The call does not run.

    Args:
        reason: Why, for the model.
        stop: Whether the turn ends here: nothing else of it runs either.

    Raises:
        TypeError: `reason` is not a string or `stop` not a bool.
        ValueError: `reason` is blank.
    """

    reason: str
    stop: bool = False

    def __post_init__(self) -> None:
        checked_reason("Denied", self.reason)
        if not isinstance(self.stop, bool):
            raise TypeError(
                fix_message(f"stop= takes True or False (got: {self.stop!r})", "give a bool", "Denied('no', stop=True)")
            )


@dataclass(frozen=True)
class Ask(Verdict):
    """A person is asked.

    Args:
        reason: The question or why it is asked, for the person.

    Raises:
        TypeError: `reason` is not a string.
        ValueError: `reason` is blank.
    """

    reason: str

    def __post_init__(self) -> None:
        checked_reason("Ask", self.reason)


def checked_reason(owner: str, reason: object, example: str = "") -> str:
    """Return `reason` when it is a text that says something.

    Args:
        owner: Whose reason it is, for the error.
        reason: What was given.
        example: How it is given rightly.

    Raises:
        TypeError: It is not a string.
        ValueError: It is blank.
    """
    example = example or f"{owner}('writes outside of the project')"
    if not isinstance(reason, str):
        raise TypeError(
            fix_message(
                f"{owner} takes a reason string (got: {type(reason).__name__})", "say why in words in reason=", example
            )
        )
    if not reason.strip():
        raise ValueError(fix_message(f"{owner} got an empty reason", "say why in words in reason=", example))
    return reason
