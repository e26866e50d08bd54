"""What a rule asks of one argument, and what comes of reading its value.

1. A value may be read in several ways: as it was typed and resolved, in upper and lower case, normalised and not. A
   deny or an ask reads wide: it matches when any reading does. An allow reads narrow: only when all do.
2. What cannot be read (an unexpanded variable in a path, a value of the wrong type) is never allowed by a rule on it: a
   deny denies it, an ask asks.
3. An argument that was left out has the default of the tool's schema, where that has one; else it is `ABSENT`.
"""

from __future__ import annotations

import os
from abc import ABC, abstractmethod
from collections.abc import MutableMapping
from dataclasses import dataclass, field
from typing import Any, ClassVar

from agentperm_nb.permissions.pickling import Pickled

__all__ = ["ABSENT", "Matcher", "Reading", "Where"]


class _Absent:
    def __repr__(self) -> str:
        return "ABSENT"

    def __reduce__(self) -> str:
        return "ABSENT"


ABSENT: Any = _Absent()
"""In place of the value of an argument that was left out and has no default."""


@dataclass(frozen=True, slots=True)
class Reading:
    """What came of reading a value against a pattern."""

    any: bool
    """Whether some reading of the value matches."""
    all: bool
    """Whether every reading of it does."""
    problem: str = ""
    """Why it could not be read; then neither `any` nor `all` says anything."""
    readings: tuple[str, ...] = ()
    """How it was read, for whoever asks why; not yet masked."""

    @property
    def wide(self) -> bool:
        """Whether a deny or an ask matches."""
        return self.any or bool(self.problem)

    @property
    def narrow(self) -> bool:
        """Whether an allow matches."""
        return self.all and self.any and not self.problem

    def negated(self) -> Reading:
        """Return what comes of asking for the opposite."""
        return Reading(not self.all, not self.any, self.problem, self.readings)


@dataclass(frozen=True, slots=True)
class Where:
    """Where a value is read: what its meaning depends on besides itself."""

    folder: str = field(default_factory=os.getcwd)
    """The agent's base folder, absolute: paths are relative to it."""
    home: str = field(default_factory=lambda: os.path.expanduser("~"))
    """What ``~`` stands for."""
    windows: bool = os.name == "nt"
    """Whether paths are spelt as on Windows."""
    links: MutableMapping[str, Any] = field(default_factory=dict, compare=False, repr=False)
    """What has been found out about links on the file system in this turn."""


class Matcher(Pickled, ABC):
    """What a rule asks of one argument. Its text is its notation; two are equal when their texts are."""

    kind: ClassVar[str]
    """What it reads: ``value``, ``text``, ``number``, ``date``, ``path``, ``mail``, …"""

    @property
    def reads_files(self) -> bool:
        """Whether what it says depends on the file system, too, which may have changed before the call starts."""
        return False

    @abstractmethod
    def read(self, value: Any, where: Where) -> Reading:
        """Read a value: JSON, as the model gave it (frozen), or `ABSENT`. It never raises for a value."""

    @abstractmethod
    def __str__(self) -> str: ...

    def __repr__(self) -> str:
        return f"{type(self).__name__}({str(self)!r})"

    def __eq__(self, other: object) -> bool:
        return type(other) is type(self) and str(other) == str(self)

    def __hash__(self) -> int:
        return hash((type(self), str(self)))
