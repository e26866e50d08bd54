"""Findings: what lint says of a list of permissions, as a table."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, overload

from agentperm_nb.render import shorten, table_html, visible

if TYPE_CHECKING:
    import pandas

__all__ = ["Finding", "Findings", "Severity"]

Severity = Literal["warning", "note"]
"""``warning`` for what is very likely not meant, ``note`` for what is worth knowing."""

_COLUMNS = ("", "code", "rule", "what", "fix", "example")


@dataclass(frozen=True)
class Finding:
    """One thing that lint says."""

    code: str
    """What kind of thing it is, such as ``unmatched-deny``."""
    message: str
    """What is the matter, in a sentence or two."""
    fix: str
    """What would mend it."""
    rule: str = ""
    """Name of the permission, or of the tool, that it is about; empty for the list as a whole."""
    example: str = ""
    """A call in words that shows it."""
    severity: Severity = "warning"
    """How sure it is that nobody meant it so."""

    def __str__(self) -> str:
        lines = [f"{self.severity} {self.code}: {self.message}", f"Fix: {self.fix}"]
        return visible("\n".join([*lines, *([f"Example: {self.example}"] if self.example else [])]))


class Findings(Sequence[Finding]):
    """What lint found, warnings first; true when there is anything.

    Args:
        findings: The findings.
    """

    def __init__(self, findings: Iterable[Finding] = ()) -> None:
        # By severity, else as they were found; each once.
        listed = dict.fromkeys(findings)
        self._findings: tuple[Finding, ...] = tuple(sorted(listed, key=lambda one: one.severity != "warning"))

    @property
    def warnings(self) -> tuple[Finding, ...]:
        """Those of severity ``warning``."""
        return tuple(one for one in self if one.severity == "warning")

    @property
    def codes(self) -> tuple[str, ...]:
        """The codes, each once."""
        return tuple(dict.fromkeys(one.code for one in self))

    def of(self, code: str) -> Findings:
        """Return those of one code.

        Args:
            code: The code.
        """
        return Findings(one for one in self if one.code == code)

    def frame(self) -> pandas.DataFrame:
        """Return a DataFrame with one row a finding."""
        import pandas

        names = ("severity", "code", "rule", "message", "fix", "example")
        return pandas.DataFrame(
            {name: pandas.array([getattr(one, name) for one in self], dtype="string") for name in names}
        )

    def __len__(self) -> int:
        return len(self._findings)

    def __iter__(self) -> Iterator[Finding]:
        return iter(self._findings)

    @overload
    def __getitem__(self, place: int) -> Finding: ...
    @overload
    def __getitem__(self, place: slice) -> Findings: ...
    def __getitem__(self, place: int | slice) -> Finding | Findings:
        return Findings(self._findings[place]) if isinstance(place, slice) else self._findings[place]

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Findings) and self._findings == other._findings

    def __hash__(self) -> int:
        return hash(self._findings)

    def __repr__(self) -> str:
        blocks = [self._headline()]
        for one in self:
            about = f" · {shorten(one.rule, 200)}" if one.rule else ""
            lines = [f"{one.severity} {one.code}{about}", f"    {one.message}", f"    Fix: {one.fix}"]
            blocks.append(visible("\n".join([*lines, *([f"    Example: {one.example}"] if one.example else [])])))
        return "\n".join(blocks)

    def _repr_html_(self) -> str:
        if not self:
            return f"<div>{self._headline()}</div>"
        rows = [(one.severity, one.code, one.rule, one.message, one.fix, one.example) for one in self]
        return table_html(_COLUMNS, rows, caption=self._headline())

    def _headline(self) -> str:
        if not self:
            return "lint: nothing found"
        warnings = len(self.warnings)
        counted = [(warnings, "warning"), (len(self) - warnings, "note")]
        return "lint: " + ", ".join(f"{count} {word}{'s' * (count != 1)}" for count, word in counted if count)
