"""A second person: whoever asked for a call may not be the one who approves it.

An approval counts only when it is known who gave it, and on whose behalf the agent works, and when these are two
people. Names read wide here: case, blanks around them and compatibility forms of letters make no other person.
"""

from __future__ import annotations

import unicodedata
from typing import Any

__all__ = ["second_person_problem"]


def second_person_problem(permission: Any, approver: str | None, user: str | None) -> str | None:
    """Return why an approval does not count, for the model; None where it does, or needs no second person.

    Args:
        permission: The permission that asked; one with ``second_person=True`` wants a second person.
        approver: Who approved.
        user: On whose behalf the agent works.
    """
    if getattr(permission, "second_person", False) is False:
        return None
    if not approver or not _folded(approver):
        return "A second person has to approve this call, and it is not known who did. It was not run."
    if not user or not _folded(user):
        return "A second person has to approve this call, and it is not known for whom it is made. It was not run."
    if _folded(approver) == _folded(user):
        return f"A second person has to approve this call: {approver} asked for it. It was not run."
    return None


def _folded(name: str) -> str:
    seen = "".join(char for char in name if unicodedata.category(char) != "Cf")
    return unicodedata.normalize("NFKC", unicodedata.normalize("NFKC", seen).casefold()).strip()
