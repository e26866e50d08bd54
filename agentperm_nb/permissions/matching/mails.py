"""Mail addresses, by domain or whole.

1. ``@example.com`` is any address at exactly that domain, ``@*.example.com`` any at a domain below it, and
   ``ann@example.com`` that one address. Domains have no case; before the ``@`` a deny or an ask does not mind it.
2. Only what is plainly one address can be read: ``ann@example.com``, or ``Ann Smith <ann@example.com>`` with a name of
   plain words. Quoted names and local parts, comments, several addresses in one text, addresses that route through
   others (``%``, ``!``), hosts by number, encoded words (``=?``) and anything around an address are read differently by
   different programs, so they cannot be read.
3. A domain is written as DNS has it. One with letters beyond ASCII cannot be read, in its ``xn--`` form it can.
"""

from __future__ import annotations

import re
from typing import Any, ClassVar

from agentperm_nb.errors import fix_message
from agentperm_nb.permissions.matching.globs import Glob
from agentperm_nb.permissions.matching.reading import ABSENT, Matcher, Reading, Where
from agentperm_nb.permissions.matching.texts import BOTH, NEITHER, WIDE, PatternError, unreadable
from agentperm_nb.permissions.matching.writing import bare_word, quoted

__all__ = ["Mail", "address_of"]

_EXAMPLE = 'rule("ask send_email(recipients=any !@example.com)")'
_LABEL = r"[A-Za-z0-9](?:[A-Za-z0-9-]{0,61}[A-Za-z0-9])?"
# The last label is no number: hosts by number are no domains.
_DOMAIN = rf"(?:{_LABEL}\.)*(?![0-9]+\Z){_LABEL}"
_ATOM = r"[A-Za-z0-9#$&'*+/=?^_`{|}~-]+"
_ADDRESS = re.compile(rf"({_ATOM}(?:\.{_ATOM})*)@({_DOMAIN})")
_NAMED = re.compile(r"[^\W\d_][\w .'-]{0,100} <([^<>\s]{1,320})>")
_PATTERN = re.compile(rf"({_ATOM}(?:\.{_ATOM})*|)@((?:\*\.)?{_DOMAIN})")


class Mail(Matcher):
    """Addresses at a domain, or one address.

    Args:
        pattern: ``@example.com``, ``@*.example.com`` or ``ann@example.com``; a ``*`` in the local part is any
            characters.

    Raises:
        TypeError: It is not a string.
        PatternError: It is none of these.
    """

    kind: ClassVar[str] = "mail"

    def __init__(self, pattern: str) -> None:
        if not isinstance(pattern, str):
            raise TypeError(fix_message(f"a pattern is a string (got: {pattern!r})", "give a text", _EXAMPLE))
        found = _PATTERN.fullmatch(pattern)
        if found is None or _too_long(found[1], found[2]):
            raise _wrong(pattern)
        self._local, domain = found[1], found[2].lower()
        self._below = domain.startswith("*.")
        self._domain = domain.removeprefix("*.")
        self._glob = Glob(self._local.replace("?", r"\?") or "*")

    def __str__(self) -> str:
        text = f"{self._local}@{'*.' if self._below else ''}{self._domain}"
        if not self._local:
            return text
        return f"mail({text if bare_word(text) else quoted(text)})"

    @property
    def domain(self) -> str:
        """The domain."""
        return self._domain

    def read(self, value: Any, where: Where) -> Reading:
        """Read one address."""
        if not isinstance(value, str):
            return NEITHER if value is ABSENT else unreadable(value, "a mail address")
        address = address_of(value)
        if address is None:
            return Reading(False, False, "not plainly one mail address")
        local, domain = address
        fits = domain.endswith("." + self._domain) if self._below else domain == self._domain
        if not fits or not self._glob.wide(local):
            return NEITHER
        return BOTH if self._glob.exact(local) else WIDE

    def __getstate__(self) -> dict[str, Any]:
        return {"pattern": f"{self._local}@{'*.' if self._below else ''}{self._domain}"}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__init__(state["pattern"])  # type: ignore[misc]


def address_of(text: str) -> tuple[str, str] | None:
    """Return what stands before the ``@`` and the domain in lower case, where a text is plainly one address."""
    if "=?" in text:  # an encoded word, which programs of mail turn into other characters
        return None
    if "<" in text:
        named = _NAMED.fullmatch(text)
        if named is None:
            return None
        text = named[1]
    address = _ADDRESS.fullmatch(text)
    if address is None or _too_long(address[1], address[2]):
        return None
    return address[1], address[2].lower()


def _too_long(local: str, domain: str) -> bool:
    return len(local) > 64 or len(domain) > 253


def _wrong(pattern: str) -> PatternError:
    problem = f"{quoted(pattern)} names no mail domain and no address"
    fix = "write @example.com, @*.example.com or ann@example.com"
    if not pattern.isascii():
        problem, fix = (
            f"{quoted(pattern)} has letters beyond ASCII",
            "write the domain as DNS has it: @xn--bcher-kva.de",
        )
    return PatternError(problem, 0, fix_message(problem, fix, _EXAMPLE))
