"""Patterns of paths: what the wildcards mean, and what is wrong with a pattern.

1. ``*``, ``?`` and ``[…]`` stay within one name, and take names that begin with a dot, too. ``**`` stands alone between
   slashes and takes any number of folders, none as well: ``project/**`` is ``project`` and all that is in it.
2. A pattern has a fixed part, up to its first name with a wildcard, and a rest. Only the fixed part can be normalised
   and resolved, so ``..`` cannot stand in the rest.
3. What looks like a pattern and would be none (braces, ``|``, a leading ``!``, ``**`` within a name) is refused, and so
   is what can match nothing.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import NamedTuple

from agentperm_nb.errors import fix_message
from agentperm_nb.permissions.matching.places import Parts, names_of
from agentperm_nb.permissions.matching.spellings import problem_of
from agentperm_nb.permissions.matching.windows import fits_short, is_short

__all__ = ["Form", "Rest", "checked_pattern", "forms_of"]

_MAGIC = re.compile(r"[*?\[]")
_HOME = re.compile(r"\A\$(?:HOME(?![A-Za-z0-9_])|\{HOME\})(?=[/\\]|\Z)")
_Test = Callable[[str], object]


class Rest:
    """The part of a pattern from its first name with a wildcard on.

    A run of names between two ``**`` is looked for as early as possible, which leaves the most room for what comes
    after it. So nothing is tried twice, however long a path is.

    Args:
        names: The names.
        loose: Whether a short name of Windows is taken for all that it may stand for.
    """

    def __init__(self, names: Sequence[str], *, loose: bool = False) -> None:
        runs: list[list[_Test]] = [[]]
        for name in names:
            if name == "**":
                runs.append([])
            else:
                runs[-1].append(_loosely(name) if loose else _test(name))
        self._head = runs[0]
        self._tail = runs[-1] if len(runs) > 1 else None
        self._middle = [run for run in runs[1:-1] if run]
        self._all = not self._head and self._tail == [] and not self._middle

    def fits(self, parts: Parts, start: int) -> bool:
        """Return whether the names of a path match, from the one at `start` on."""
        if self._all:
            return True
        end = len(parts)
        head, tail = self._head, self._tail
        if tail is None:
            return end - start == len(head) and _fit(head, parts, start)
        if end - start < len(head) + len(tail) or not _fit(head, parts, start):
            return False
        start, end = start + len(head), end - len(tail)
        if not _fit(tail, parts, end):
            return False
        for run in self._middle:
            while start + len(run) <= end and not _fit(run, parts, start):
                start += 1
            start += len(run)
            if start > end:
                return False
        return True


def _fit(tests: list[_Test], parts: Parts, at: int) -> bool:
    for test in tests:
        if not test(parts[at]):
            return False
        at += 1
    return True


def _test(name: str) -> _Test:
    return re.compile(_translated(name)).fullmatch if _MAGIC.search(name) is not None else name.__eq__


def _loosely(name: str) -> _Test:
    if _MAGIC.search(name) is None:
        return lambda part: part == name or fits_short(part, name)
    exact = _test(name)
    return lambda part: exact(part) or is_short(part)


def _translated(name: str) -> str:
    from wcmatch import fnmatch  # it takes a while to load, and many lists have no rule on paths

    flags = fnmatch.CASE | fnmatch.DOTMATCH | fnmatch.FORCEUNIX
    (expression,), _ = fnmatch.translate(name.replace("\\", "\\\\"), flags=flags)
    return str(expression)


class Form(NamedTuple):
    """One way to read a pattern."""

    anchor: str
    """What it is relative to: ``base``, ``home``, or an absolute place such as ``/`` or ``C:``."""
    fixed: Parts
    """The names before the first with a wildcard; ``..`` only at the front."""
    rest: Parts
    """The names from there on."""
    wide: bool = False
    """Whether only a deny or an ask reads it so."""

    @property
    def anywhere(self) -> bool:
        """Whether a deny reads it for any folder."""
        return self.anchor == "base" and not self.fixed and self.rest[:1] == ("**",)


def forms_of(pattern: str, windows: bool) -> list[Form]:
    """Return the ways to read a pattern; the first one holds for an allow."""
    pattern = _HOME.sub("~", pattern)
    texts = [pattern.replace("\\", "/") if windows else pattern]
    if not windows and "\\" in pattern:
        texts.append(pattern.replace("\\", "/"))
    forms: list[Form] = []
    for text in texts:
        form = _form(text, windows)
        forms.append(form._replace(wide=bool(forms)))
        if text.endswith("/") and form.rest[-1:] != ("**",):  # it names a folder: a deny takes what is in it, too
            forms.append(form._replace(rest=(*form.rest, "**"), wide=True))
    return forms


def _form(text: str, windows: bool) -> Form:
    anchor = "base"
    drive = re.match(r"(?://[?.]/)?([A-Za-z]:)/?", text) if windows else None
    share = re.match(r"//[^/]+/[^/]+", text) if windows else None
    if text == "~" or text.startswith("~/"):
        anchor, text = "home", text[1:]
    elif drive is not None:
        anchor, text = drive[1], text[drive.end() :]
    elif share is not None:
        anchor, text = share[0], text[share.end() :]
    elif text.startswith("/"):
        anchor = "/"
    names = names_of(text)
    if windows:
        names = [name if name == ".." else name.rstrip(". ") or name for name in names]
    first = _first_magic(names)
    rest: list[str] = []
    for name in names[first:]:
        if name != "**" or rest[-1:] != ["**"]:
            rest.append(name)
    fixed: list[str] = []
    for name in names[:first]:
        if name == ".." and fixed and fixed[-1] != "..":
            fixed.pop()
        else:
            fixed.append(name)
    return Form(anchor, tuple(fixed), tuple(rest))


def _first_magic(names: Sequence[str]) -> int:
    return next((place for place, name in enumerate(names) if _MAGIC.search(name)), len(names))


_EXAMPLE = "PathPattern('project/**')"


def checked_pattern(pattern: object) -> str:
    """Return a pattern if it is one.

    Raises:
        TypeError: It is not a string.
        ValueError: It can match nothing, or does not mean what it seems to.
    """
    if not isinstance(pattern, str):
        raise TypeError(
            fix_message(f"a pattern of paths is a string (got: {type(pattern).__name__})", "give a string", _EXAMPLE)
        )
    fault = _fault(pattern)
    if fault is not None:
        problem, fix, example = fault
        raise ValueError(fix_message(f"the pattern {pattern!r} {problem}", fix, example))
    return pattern


def _fault(pattern: str) -> tuple[str, str, str] | None:
    """Return what is wrong with a pattern: (problem, fix, example), or None."""
    text = re.sub(r"\A[\\/]{2}\?[\\/]", "", _HOME.sub("~", pattern))
    problem = "a URL, not a path" if text[:5].lower() == "file:" else problem_of(text)
    if problem:
        return f"can match nothing: it is {problem}", "write the path out", _EXAMPLE
    names = re.split(r"[/\\]", text)
    if ".." in names[_first_magic(names) :]:
        fix = "leave out '..' and what stands before it"
        return "can match nothing: '..' stands behind a wildcard", fix, "PathPattern('project/*/notes.txt')"
    bare = re.sub(r"\[[^]/]*\]", "x", text)  # what stands in brackets is meant as it stands
    if any("**" in name and name != "**" for name in re.split(r"[/\\]", bare)):
        fix = "let '**' stand alone between slashes, or write one '*'"
        return "has '**' within a name, where it is no more than '*'", fix, "PathPattern('**/*.env')"
    if re.search(r"\{[^{}/]*(?:,|\.\.)[^{}/]*\}", bare):
        fix = "give a rule for each; for the character itself write '[{]'"
        return "has braces, which have no meaning here", fix, "PathPattern('**/*.key')"
    if "|" in bare:
        fix = "give a rule for each; for the character itself write '[|]'"
        return "has '|', which has no meaning here", fix, "PathPattern('**/*.key')"
    if text.startswith("!"):
        fix = "give the path without it; a name that begins so is './!name'"
        return "begins with '!', which has no meaning here", fix, _EXAMPLE
    for name in names:
        if _MAGIC.search(name) and "(?!)" in _translated(name):
            return (
                f"can match nothing: no character is in the range of {name!r}",
                "turn it round",
                "PathPattern('[a-z]')",
            )
    return None
