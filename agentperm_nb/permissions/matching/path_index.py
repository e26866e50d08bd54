"""An index of many patterns of paths: which of them a path may match.

1. A pattern that is left out matches the path in no reading; whatever is not certain of that is among those that are
   given. Of a path that cannot be read, all are.
2. A pattern is known by a name without wildcards behind its first wildcard (``.env`` in ``**/.env``), which one of the
   readings has to hold; any other by where it begins, above which no reading may lie.
3. Where patterns begin depends on links. It is looked up once for a turn, and kept in `Where.links`.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from agentperm_nb.permissions.matching.lookalikes import folded
from agentperm_nb.permissions.matching.paths import PathPattern
from agentperm_nb.permissions.matching.places import Parts, place_of
from agentperm_nb.permissions.matching.reading import Where

__all__ = ["PathIndex"]


class PathIndex:
    """Many patterns.

    Args:
        patterns: Each with a number of the caller's.
    """

    def __init__(self, patterns: Iterable[tuple[int, PathPattern]]) -> None:
        self._all: list[int] = []
        self._always: list[int] = []
        self._by_name: dict[str, list[int]] = {}
        self._by_start: list[tuple[int, PathPattern]] = []
        for number, pattern in patterns:
            self._all.append(number)
            if not pattern.pattern.isascii() or "\\" in pattern.pattern:
                self._always.append(number)
            elif pattern.literal_name:
                self._by_name.setdefault(pattern.literal_name, []).append(number)
            else:
                self._by_start.append((number, pattern))

    def candidates(self, path: str, where: Where) -> Sequence[int]:
        """Return the numbers of the patterns that a path may match, or that cannot be told from the path."""
        place = place_of(path, where)
        if place.problem or where.windows or not place.ascii:
            return self._all
        found = list(self._always)
        readings = place.folded(folded)
        for name in {name for parts in readings for name in parts}:
            found += self._by_name.get(name, ())
        if self._by_start:
            starts = self._starts(where)
            for parts in readings:
                for count in range(len(parts) + 1):
                    found += starts.get(parts[:count], ())
        return found

    def _starts(self, where: Where) -> dict[Parts, list[int]]:
        key = f"index {id(self)}\0{where.folder}\0{where.home}"
        kept: tuple[PathIndex, dict[Parts, list[int]]] | None = where.links.get(key)
        if kept is None or kept[0] is not self:  # it is kept with its index: another one may get the same id later
            starts: dict[Parts, list[int]] = {}
            for number, pattern in self._by_start:
                for start in pattern.starts(where):
                    starts.setdefault(start, []).append(number)
            kept = where.links[key] = (self, starts)
        return kept[1]
