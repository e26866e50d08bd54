"""The published behaviour of the rule policy of toolregistry 0.19.0, statement by statement, in our own words.

See `statements`.
"""

from __future__ import annotations

from statements import Statement

__all__ = ["STATEMENTS"]

STATEMENTS: dict[str, Statement] = {}
