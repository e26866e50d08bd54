"""Hints: what a tool says of itself. A tool that says nothing is taken for the worst."""

from __future__ import annotations

from dataclasses import dataclass

from agentperm_nb.errors import fix_message

__all__ = ["Hints"]


@dataclass(frozen=True, kw_only=True)
class Hints:
    """What a tool says of itself; left out means the worst.

    Args:
        read_only: It changes nothing. Then it is neither destructive nor anything but idempotent.
        destructive: It may delete or overwrite.
        idempotent: Running it twice with the same arguments is like running it once.
        open_world: It reaches outside of this machine.
        source: Who says so: ``"tool"``, or ``"server"`` for hints that a server sent and that are not ours.

    Raises:
        TypeError: A hint is neither a bool nor None.
        ValueError: ``read_only=True`` with ``destructive=True`` or ``idempotent=False``.
    """

    read_only: bool | None = None
    destructive: bool | None = None
    idempotent: bool | None = None
    open_world: bool | None = None
    source: str = "tool"

    def __post_init__(self) -> None:
        for name in ("read_only", "destructive", "idempotent", "open_world"):
            value = getattr(self, name)
            if value is not None and not isinstance(value, bool):
                raise TypeError(
                    fix_message(f"{name}= takes True or False (got: {value!r})", "give a bool", f"Hints({name}=True)")
                )
        if self.read_only and (self.destructive or self.idempotent is False):
            raise ValueError(
                fix_message(
                    "a read-only tool is neither destructive nor changed by a second run",
                    "leave out the other hints",
                    "Hints(read_only=True)",
                )
            )
        harmless = self.read_only is True
        worst = {"read_only": False, "destructive": not harmless, "idempotent": harmless, "open_world": True}
        object.__setattr__(self, "_said", frozenset(name for name in worst if getattr(self, name) is not None))
        for name, default in worst.items():
            if name not in self.said:
                object.__setattr__(self, name, default)

    @property
    def said(self) -> frozenset[str]:
        """Names of the hints that were given; the others are the worst case."""
        names: frozenset[str] = self._said  # type: ignore[attr-defined]  # set above: no field, so not compared
        return names
