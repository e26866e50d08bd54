"""Errors and warnings.

::

    Exception
    ├── AgentPermError              what goes wrong in this toolkit
    │   ├── NoHumanError            a rule needs a person, and there is nobody on purpose (human=None)
    │   ├── NotFinishedError        a result was asked of a turn that has not been awaited, or still waits
    │   ├── BudgetExceeded          a budget is used up, where there is no outcome that could say so
    │   └── DeliveryError           clicks cannot reach a running cell of this kernel
    └── ToolError                   raised by a tool: its message is the result that the model gets
        ├── ToolInputError          the arguments do not fit the tool
        └── ToolTimeoutError        the call took longer than its tool may
    ValueError
    ├── LintError                   lint found what is very likely a mistake, and was told to be strict
    └── PolicyFileError             a policy file cannot be read, or says what it may not
    UserWarning
    ├── PermissionWarning           a call was denied because of a gap or a fault in the set-up
    ├── BudgetWarning               much of a budget is spent
    └── LintWarning                 a rule of a new agent is very likely a mistake

Misuse is a ``TypeError`` or a ``ValueError`` with a message in three parts, made by `fix_message`.
"""

from __future__ import annotations

import os
import sys
import warnings
from typing import Any

__all__ = [
    "AgentPermError",
    "BudgetExceeded",
    "BudgetWarning",
    "DeliveryError",
    "LintError",
    "LintWarning",
    "NoHumanError",
    "NotFinishedError",
    "PermissionWarning",
    "PolicyFileError",
    "ToolError",
    "ToolInputError",
    "ToolTimeoutError",
    "fix_message",
    "warn_user",
]


def fix_message(problem: str, fix: str, example: str) -> str:
    """Return an error message in three parts: what was wrong, how to mend it, and an example.

    Args:
        problem: One sentence that names the wrong value.
        fix: One sentence that says what to do.
        example: A line or more of code that works; it is indented below ``Example:``.
    """
    import textwrap

    return f"{problem}\nFix: {fix}\nExample:\n{textwrap.indent(textwrap.dedent(example).strip(), '    ')}"


class AgentPermError(Exception):
    """Something went wrong in the toolkit itself, not in a tool and not by misuse."""


class NoHumanError(AgentPermError):
    """A permission needs a person, and the agent was made with ``human=None``."""


class NotFinishedError(AgentPermError):
    """The result of a turn was asked for before there is one."""


class BudgetExceeded(AgentPermError):  # noqa: N818 - published under this name
    """A budget is used up; raised where there is no turn and no answer that could say so.

    Args:
        reason: ``budget:`` and the name of the cap, such as ``budget:max_calls``.
        message: The same in words.
    """

    reason: str

    def __init__(self, reason: str, message: str = "") -> None:
        super().__init__(reason, message)
        self.reason = reason

    def __str__(self) -> str:
        return f"{self.args[1]} ({self.reason})" if self.args[1:] and self.args[1] else self.reason


class DeliveryError(AgentPermError):
    """The kernel has neither of the two layouts through which a click can reach a running cell."""


class PolicyFileError(ValueError):
    """A policy file cannot be read, or says what it may not.

    Args:
        message: What is wrong, and where in the file.
        path: The file.
    """

    path: os.PathLike[str]
    """The file."""

    def __init__(self, message: str, path: os.PathLike[str]) -> None:
        super().__init__(message)
        self.path = path

    def __reduce__(self) -> tuple[type[PolicyFileError], tuple[str, os.PathLike[str]]]:
        return type(self), (str(self), self.path)


class ToolError(Exception):
    """A tool failed in a way that the model should know: the message is the call's result.

    Raised inside a permission's ``check`` it denies that one call with the message.

    Raises:
        TypeError: The message is not a string.
        ValueError: The message is blank.
    """

    def __init__(self, message: str) -> None:
        if not isinstance(message, str):
            raise TypeError(
                fix_message(
                    f"{type(self).__name__} takes a message string (got: {type(message).__name__})",
                    "say in words what went wrong; the model reads it",
                    f"raise {type(self).__name__}('the file does not exist')",
                )
            )
        if not message.strip():
            raise ValueError(
                fix_message(
                    f"{type(self).__name__} got an empty message",
                    "say in words what went wrong; the model reads it",
                    f"raise {type(self).__name__}('the file does not exist')",
                )
            )
        super().__init__(message)


class ToolInputError(ToolError):
    """The arguments do not fit the tool: the model is told, and may try again. For a permission it is no denial."""


class ToolTimeoutError(ToolError):
    """A call took longer than its tool's ``timeout``; what it returns later is kept as a late result."""


class PermissionWarning(UserWarning):
    """A call was denied although nobody meant to deny it: a gap in the list, or a faulty answer.

    Or rules do not hold that were meant to: a policy file could not be read.
    """


class BudgetWarning(UserWarning):
    """So much of a budget is spent that it may be used up soon."""


class LintWarning(UserWarning):
    """A rule of an agent that is being made is very likely a mistake; the message says what would mend it."""


class LintError(ValueError):
    """What lint found, when it was told to be strict.

    Args:
        message: The findings in words.
        findings: The same as a `Findings` table.
    """

    findings: Any
    """What was found: a `Findings` table."""

    def __init__(self, message: str, findings: Any = ()) -> None:
        super().__init__(message, findings)
        self.findings = findings

    def __str__(self) -> str:
        return str(self.args[0])


_PACKAGE = os.path.dirname(os.path.abspath(__file__)) + os.sep


def warn_user(message: str, category: type[Warning] = PermissionWarning) -> None:
    """Warn, pointing at the user's line, each time and not only the first.

    Args:
        message: What the user should know.
        category: What kind of warning it is.

    Raises:
        Warning: One of `category`, when the user's filters turn it into an error.
    """
    frame = sys._getframe(1)
    while frame.f_back is not None and os.path.abspath(frame.f_code.co_filename).startswith(_PACKAGE):
        frame = frame.f_back
    # A registry of its own: Python's "default" action would swallow the second of two equal warnings.
    warnings.warn_explicit(category(message), None, frame.f_code.co_filename, frame.f_lineno, registry={})
