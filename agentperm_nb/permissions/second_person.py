"""A second person: whoever asked for a call may not be the one who approves it.

1. An approval counts only when it is known who gave it, and on whose behalf the agent and the runs above it work, and
   when whoever gave it is none of these.
2. Names read wide. Case, blanks, what is not seen, compatibility forms and letters that look alike make no other
   person.
3. Of a mail address or a login with a domain, what is before the ``@`` is the person, without a ``+tag``. Only two
   addresses in different domains are those of two people.
"""

from __future__ import annotations

import re
import unicodedata
from typing import Any

from agentperm_nb.permissions.matching.lookalikes import folded, has_lookalikes, skeleton

__all__ = ["second_person_problem"]

_IN_BRACKETS = re.compile(r"<([^<>]*@[^<>]*)>$")


def second_person_problem(permission: Any, approver: str | None, *users: str | None) -> str | None:
    """Return why an approval does not count, for the model; None where it does, or needs no second person.

    Args:
        permission: The permission that asked; one with ``second_person=True`` wants a second person.
        approver: Who approved.
        *users: On whose behalf the agent works, and each of the runs above it; see ``RunContext.users``.
    """
    if getattr(permission, "second_person", False) is False:
        return None
    if not approver or not _seen(approver):
        return "A second person has to approve this call, and it is not known who did. It was not run."
    if not users or not all(user and _seen(user) for user in users):
        return "A second person has to approve this call, and it is not known for whom it is made. It was not run."
    if any(user and _may_be_same(approver, user) for user in users):
        return f"A second person has to approve this call: {approver} asked for it. It was not run."
    return None


def _may_be_same(one: str, other: str) -> bool:
    names = [_seen(one), _seen(other)]
    if any(map(has_lookalikes, names)):
        names = [skeleton(name) for name in names]
    (person, domain), (other_person, other_domain) = map(_parts, names)
    return person == other_person and (not domain or not other_domain or domain == other_domain)


def _seen(name: str) -> str:
    """Return what is seen of a name, folded; an empty text where nothing is."""
    return "".join(char for char in folded(name) if unicodedata.category(char)[0] not in "CZ")


def _parts(name: str) -> tuple[str, str]:
    """Return the person and the domain of the mail; no domain where there is none."""
    address = _IN_BRACKETS.search(name)
    person, _, domain = (address.group(1) if address is not None else name).lstrip("@").partition("@")
    person = person.rpartition("\\")[2].partition("+")[0]
    return (person, domain.rstrip(".")) if person else (name, "")
