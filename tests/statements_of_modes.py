"""The published behaviour of modes, approvals, signals and budgets of loomflow 0.20.0, in our own words.

See `statements`.
"""

from __future__ import annotations

from statements import Statement

__all__ = ["STATEMENTS"]

STATEMENTS: dict[str, Statement] = {}
