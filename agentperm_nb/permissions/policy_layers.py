"""The files of a policy, layer by layer: the administrator's, the user's, the project's.

1. The files of administrator and user are looked for where `PolicyFiles` says, and need not be there. A file of the
   project has to be, when the agent is made.
2. `Layer.look` looks whether its file has changed. A version that can be taken takes the place of the one before as a
   whole. One that cannot, and a file that is gone or cannot be read, leave the rules as they are, with a `problem`.
3. When an agent is made, what cannot be taken is an error: nobody knows which rules there should be.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable, Iterable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from agentperm_nb.errors import PolicyFileError, fix_message
from agentperm_nb.permissions.policy_file import EMPTY, PolicyFile, parse_policy
from agentperm_nb.permissions.policy_reading import (
    Contents,
    Stamp,
    UnreadableError,
    read_whole,
    stamp_of,
    who_may_write,
)
from agentperm_nb.tools import Tool

__all__ = ["Layer", "PolicyFiles", "administrator_file", "checked_for", "layers_of", "user_file"]

_EXAMPLE = 'Agent(tools, policy="agentperm.toml")'
_FILE = "policy.toml"


class _Usual:
    def __repr__(self) -> str:
        return "USUAL"


_USUAL: Any = _Usual()


def administrator_file() -> Path:
    """Return where the administrator's policy file is looked for: ``/etc/agentperm_nb/policy.toml``.

    On Windows that is in ``%ProgramData%``.
    """
    if os.name != "nt":
        return Path("/etc/agentperm_nb", _FILE)
    import platformdirs

    return Path(platformdirs.site_config_dir("agentperm_nb", appauthor=False), _FILE)


def user_file() -> Path:
    """Return where the user's policy file is looked for: ``policy.toml`` in the folder for settings of agentperm_nb."""
    import platformdirs

    return Path(platformdirs.user_config_dir("agentperm_nb", appauthor=False), _FILE)


class PolicyFiles:
    """Which policy files an agent has: what ``policy=`` takes beside a path or a list of paths.

    Args:
        *project: The files of the project, the first one first.
        administrator: The file of the administrator; None for none. Left out, see `administrator_file`.
        user: The file of the user; None for none. Left out, see `user_file`.

    Raises:
        TypeError: One is no path.
    """

    __slots__ = ("_administrator", "_project", "_user")

    def __init__(
        self,
        *project: str | os.PathLike[str],
        administrator: str | os.PathLike[str] | None = _USUAL,
        user: str | os.PathLike[str] | None = _USUAL,
    ) -> None:
        self._project = tuple(_path(path) for path in project)
        self._administrator = administrator_file() if administrator is _USUAL else _maybe(administrator)
        self._user = user_file() if user is _USUAL else _maybe(user)

    @classmethod
    def of(cls, policy: object) -> PolicyFiles:
        """Return what was given as ``policy=``.

        Args:
            policy: A `PolicyFiles`, a path, or a list of paths; a list may be empty.

        Raises:
            TypeError: It is none of these.
        """
        if isinstance(policy, PolicyFiles):
            return policy
        if isinstance(policy, str | os.PathLike):
            return cls(policy)
        if isinstance(policy, list | tuple):
            return cls(*policy)
        raise TypeError(
            fix_message(f"policy= takes the path of a policy file (got: {policy!r})", "give a path", _EXAMPLE)
        )

    @property
    def project(self) -> tuple[Path, ...]:
        """The files of the project."""
        return self._project

    @property
    def administrator(self) -> Path | None:
        """The file of the administrator."""
        return self._administrator

    @property
    def user(self) -> Path | None:
        """The file of the user."""
        return self._user

    def __repr__(self) -> str:
        shown = [repr(str(path)) for path in self._project]
        for name, path in (("administrator", self._administrator), ("user", self._user)):
            shown.append(f"{name}={None if path is None else str(path)!r}")
        return f"PolicyFiles({', '.join(shown)})"

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, PolicyFiles):
            return NotImplemented
        mine, theirs = ((one._project, one._administrator, one._user) for one in (self, other))
        return mine == theirs

    def __hash__(self) -> int:
        return hash((self._project, self._administrator, self._user))


def _maybe(path: object) -> Path | None:
    return None if path is None else _path(path)


def _path(path: object) -> Path:
    # Absolute from now on: whoever changes the working directory does not change the rules.
    text = os.fspath(path) if isinstance(path, str | os.PathLike) else None
    if not isinstance(text, str):
        raise TypeError(
            fix_message(f"policy= takes the path of a policy file (got: {path!r})", "give a path", _EXAMPLE)
        )
    if not text.strip() or "\0" in text:
        raise ValueError(fix_message(f"policy= got {text!r}, which is no path", "give the path of the file", _EXAMPLE))
    return Path(os.path.abspath(os.path.expanduser(text)))


def layers_of(files: PolicyFiles) -> list[Layer]:
    """Return the layers of files, first to last, not yet looked at."""
    found = [
        Layer(name, path)
        for name, path in (("administrator", files.administrator), ("user", files.user))
        if path is not None
    ]
    for path in dict.fromkeys(files.project):
        name = "project" if len(files.project) == 1 else f"project {_short(path, files.project)}"
        found.append(Layer(name, path, required=True))
    return found


def _short(path: Path, others: Iterable[Path]) -> str:
    """Return the name of a file, with as much of its folder as it takes to tell it from others."""
    count = 1
    while count < len(path.parts) and any(
        other != path and other.parts[-count:] == path.parts[-count:] for other in others
    ):
        count += 1
    return "/".join(path.parts[-count:])


class Layer:
    """One policy file, and the version of it that is in force.

    Args:
        name: What names its rules in the log: ``administrator``, ``user``, ``project``.
        path: The file, absolute.
        required: Whether it has to be there at first.
    """

    name: str
    """What names its rules in the log."""
    path: Path
    """The file, absolute."""
    required: bool
    """Whether it has to be there at first."""
    file: PolicyFile
    """The version that is in force."""
    problem: str
    """Why a newer version is not; empty where it is."""
    caution: str
    """Who else may write the file, in words; empty where nobody may."""
    since: datetime | None
    """When the version in force was read (UTC); None where there was no file."""
    digest: str | None
    """SHA-256 of the version in force."""

    def __init__(self, name: str, path: Path, *, required: bool = False) -> None:
        self.name, self.path, self.required = name, path, required
        self.file, self.problem, self.caution, self.since, self.digest = EMPTY, "", "", None, None
        self._seen: Stamp | str | None = None
        self._sure = True
        self._data: bytes | None = None
        self._of_data: tuple[PolicyFile, str] = (EMPTY, "")
        self._error: PolicyFileError | None = None

    def __repr__(self) -> str:
        state = "not there" if self.since is None else f"{len(self.file.rules)} rules"
        return f"<{self.name} {self.path}: {state}{f', {self.problem}' if self.problem else ''}>"

    def load(self, check: Callable[[PolicyFile], None]) -> None:
        """Read the file for the first time.

        Args:
            check: Called with what it says; raises ValueError for what cannot be.

        Raises:
            PolicyFileError: It cannot be taken, or is not there and has to be.
        """
        self.look(check)
        problem = self.problem
        if not problem and self.required and self.since is None:
            problem = "there is no such file"
        if problem and self._error is not None:
            raise self._error
        if problem:
            what, _, rest = problem.partition("\nFix: ")
            fix = rest or "give the path of a policy file that can be read"
            raise PolicyFileError(fix_message(f"{self.path}: {what}", fix, _EXAMPLE), self.path)

    def look(self, check: Callable[[PolicyFile], None]) -> str:
        """Look whether the file has changed, and take the new version if it can be taken.

        Args:
            check: See `load`.

        Returns:
            ``"changed"``, ``"refused"`` where it has a new problem, or an empty text.
        """
        try:
            stamp: Stamp | str | None = stamp_of(self.path)
        except UnreadableError as error:
            stamp = str(error)
        if stamp == self._seen and self._sure:
            return ""
        if isinstance(stamp, str):
            return self._refuse(stamp, f"it cannot be read: {stamp}")
        try:
            contents = read_whole(self.path, self._data)
        except UnreadableError as error:
            news = stamp != self._seen and f"it cannot be read: {error}" != self.problem
            return self._refuse(stamp, f"it cannot be read: {error}", sure=False, news=news)
        if contents is not None:
            return self._take(contents, check)
        if self.since is not None:
            return self._refuse(None, "it is gone", news=self._seen is not None)
        self._data = None
        return self._refuse(None, "")  # there never was anything to take from it

    def _take(self, contents: Contents, check: Callable[[PolicyFile], None]) -> str:
        touched, new = contents.stamp != self._seen, contents.data != self._data
        self._seen, self._sure = contents.stamp, contents.sure
        if touched:
            self.caution = who_may_write(self.path)
        if new:
            self._data = contents.data
            self._of_data = self._read(contents.data, check)
        file, problem = self._of_data
        if problem:
            return self._refuse(contents.stamp, problem, sure=contents.sure, news=touched or new)
        changed = self.since is None or file != self.file
        if changed:
            self.file, self.since = file, datetime.now(UTC)
        self.digest = hashlib.sha256(contents.data).hexdigest()
        self.problem = ""
        return "changed" if changed else ""

    @property
    def problem_in_short(self) -> str:
        """The problem in one line, without the way to mend it."""
        lines = self.problem.partition("\nFix: ")[0].splitlines()
        return lines[0] if lines else ""

    def _read(self, data: bytes, check: Callable[[PolicyFile], None]) -> tuple[PolicyFile, str]:
        self._error = None
        try:
            file = parse_policy(data.decode("utf-8-sig"), self.path, layer=self.name).keeping(self.file)
            check(file)
        except UnicodeDecodeError as error:
            return EMPTY, f"it is not in UTF-8 (byte {error.start})"
        except PolicyFileError as error:
            self._error = error
            said = str(error).removeprefix(str(self.path)).removeprefix(": ").removeprefix(", ")
            return EMPTY, said.partition("\nExample:")[0]
        except Exception as error:  # noqa: BLE001 - whatever it is, the rules before it stay, and the turn goes on
            return EMPTY, str(error).partition("\nExample:")[0] or type(error).__name__
        return file, ""

    def _refuse(self, seen: Stamp | str | None, problem: str, *, sure: bool = True, news: bool = True) -> str:
        """Keep what is in force, and note why; return what `look` says."""
        self._seen, self._sure, self.problem = seen, sure, problem
        return "refused" if problem and news else ""


def checked_for(tools: Iterable[Tool]) -> Callable[[PolicyFile], None]:
    """Return a function that refuses a file with a rule that can match no call of these tools.

    Args:
        tools: The tools of an agent.
    """
    listed = list(tools)

    def check(file: PolicyFile) -> None:
        for one in file.rules:
            one.check_tools(listed)

    return check
