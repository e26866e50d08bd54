"""Rule tables (being written)."""

from __future__ import annotations


class PermissionRule:
    """A rule."""


class PermissionPolicy:
    """A policy."""
