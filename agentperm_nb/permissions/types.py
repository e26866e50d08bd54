"""What a rule of a policy says of a call, in the words of a rule table."""

from __future__ import annotations

from enum import Enum

__all__ = ["PermissionResult"]


class PermissionResult(str, Enum):  # noqa: UP042 - str() is published as "PermissionResult.ALLOW", unlike StrEnum's
    """What a rule of a policy says, and one of the forms in which a handler may answer."""

    ALLOW = "allow"
    DENY = "deny"
    ASK = "ask"
