"""Handlers: who answers what a policy asks.

1. A handler is an object with one method, ``handle(request)``, sync or async. A function is none.
2. It answers ``PermissionResult.ALLOW`` or ``DENY``, or in any other form that `ApprovalDecision` and its short forms
   have. Only an explicit allow allows.
"""

from __future__ import annotations

import inspect
from typing import Protocol, cast, runtime_checkable

from agentperm_nb.errors import fix_message
from agentperm_nb.permissions.types import PermissionRequest

__all__ = ["AsyncPermissionHandler", "PermissionHandler", "checked_handler"]


@runtime_checkable
class PermissionHandler(Protocol):
    """Answers on a thread. ``isinstance`` says only that there is a ``handle``, not whether it is async."""

    def handle(self, request: PermissionRequest, /) -> object:
        """Answer a request.

        Args:
            request: The call and who asks; its arguments are a copy.
        """
        ...


@runtime_checkable
class AsyncPermissionHandler(Protocol):
    """Answers on the event loop. ``isinstance`` says only that there is a ``handle``, not whether it is async."""

    async def handle(self, request: PermissionRequest, /) -> object:
        """Answer a request.

        Args:
            request: The call and who asks; its arguments are a copy.
        """
        ...


def checked_handler(owner: str, handler: object) -> PermissionHandler | AsyncPermissionHandler:
    """Return a handler, when it is one.

    Args:
        owner: What takes it, for the error: ``handler= of a PermissionPolicy``.
        handler: An object with a method ``handle`` that takes a request.

    Raises:
        TypeError: It is not.
    """
    example = (
        "class Careful:\n    def handle(self, request):\n        return PermissionResult.DENY\n\n"
        "PermissionPolicy([ASK_DESTRUCTIVE], handler=Careful())"
    )
    handle = getattr(handler, "handle", None)
    problem, fix = "", "give an object with a method handle(request)"
    if isinstance(handler, type):
        problem, fix = f"{handler.__name__} (the class)", f"give an object of it: {handler.__name__}(...)"
    elif not callable(handle):
        problem = _shown(handler)
        if callable(getattr(handler, "areview", None)):
            fix = "give such an object; with a time limit as PolicyHandlerApprover(handler, timeout=300)"
        elif callable(handler):
            fix = "make the function the method handle(self, request) of a class, and give an object of it"
    elif not _takes_one(handle):
        problem = f"{_shown(handler)}, whose handle does not take exactly one argument"
    if problem:
        raise TypeError(fix_message(f"{owner} takes an object with handle(request) (got: {problem})", fix, example))
    return cast("PermissionHandler | AsyncPermissionHandler", handler)


def _takes_one(handle: object) -> bool:
    try:
        inspect.signature(handle).bind(None)  # type: ignore[arg-type]  # it is callable
    except TypeError:
        return False
    except ValueError:
        pass  # a built-in without a signature: found when it is called
    return True


def _shown(value: object) -> str:
    try:
        return repr(value)
    except Exception:  # noqa: BLE001 - a foreign repr may do anything
        return f"a {type(value).__name__}"
