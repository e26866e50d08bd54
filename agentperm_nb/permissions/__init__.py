"""May it run? The permissions, the order in which they are asked, and why a call was decided as it was.

The names of rule tables can be imported from here, too. They are loaded when they are asked for.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from agentperm_nb.permissions.handler import AsyncPermissionHandler, PermissionHandler
    from agentperm_nb.permissions.policy import PermissionPolicy, PermissionRule
    from agentperm_nb.permissions.types import PermissionRequest, PermissionResult

__all__ = [
    "AsyncPermissionHandler",
    "PermissionHandler",
    "PermissionPolicy",
    "PermissionRequest",
    "PermissionResult",
    "PermissionRule",
]

# Not at once: each of these modules is in this package, and imports others of it.
_WHERE = {
    "AsyncPermissionHandler": "handler",
    "PermissionHandler": "handler",
    "PermissionPolicy": "policy",
    "PermissionRequest": "types",
    "PermissionResult": "types",
    "PermissionRule": "policy",
}


def __getattr__(name: str) -> Any:
    if name not in _WHERE:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = getattr(import_module(f"{__name__}.{_WHERE[name]}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
