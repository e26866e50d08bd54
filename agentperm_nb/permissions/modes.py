"""Modes (being written)."""

from __future__ import annotations


class PermissionDecision:
    """A decision."""


class StandardPermissions:
    """A mode."""


class PerUserPermissions:
    """By user."""


class AllowAll:
    """All."""
