"""A policy file: what it may say, and what its text is read as.

1. A file is TOML, in UTF-8, of at most a megabyte. It says ``version = 1``, and then what it likes of `KEYS`: rules in
   the notation (`permissions.notation`), a mode, sections of users, names of arguments that are masked, time limits.
2. Nothing is guessed: a key that is not known is an error, and so is a value of another type, a rule that is none, and
   a mode without a name. The error says where.
3. A section of a user, ``[users.ann]``, has rules and a mode of its own, which come before the common ones for that
   user (`permissions.policy_users`).
4. Every rule and mode has a name for the log that says which layer it is of, such as
   ``project: deny read_file(path=**/.env)``.
"""

from __future__ import annotations

import json
import math
import re
import tomllib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from difflib import get_close_matches
from pathlib import Path
from typing import Any, NoReturn

from agentperm_nb.errors import PolicyFileError, fix_message
from agentperm_nb.permissions.arguments import ArgumentRule
from agentperm_nb.permissions.kinds import DenyPermission, Permission
from agentperm_nb.permissions.mode_forms import resolve_permissions
from agentperm_nb.permissions.modes import StandardPermissions
from agentperm_nb.permissions.notation import rule
from agentperm_nb.permissions.policy_users import FileMode, deny_of_mode, named, of_user

__all__ = ["EMPTY", "KEYS", "MOST_BYTES", "PolicyFile", "Section", "parse_policy"]

MOST_BYTES = 1_000_000
"""Bytes of a policy file."""

_MODE_OPTIONS = ("allowed_tools", "denied_tools", "edit_tools", "trust_mcp")
_RULES = ("rules", "mode", *_MODE_OPTIONS)

KEYS: dict[str, tuple[str, ...]] = {
    "": ("version", *_RULES, "users", "redaction", "timeouts"),
    "users.*": _RULES,
    "redaction": ("arguments",),
    "timeouts": ("approval", "reminders"),
}
"""The keys that a table may have; ``""`` is the file itself, ``users.*`` the section of a user."""

_EXAMPLE = """
# agentperm.toml
version = 1
rules = [
    'deny read_file(path=**/.env) because "no secrets"',
    'ask write_file',
    'allow read_file(path=project/**)',
]
"""


@dataclass(frozen=True)
class Section:
    """The rules and the mode of a file, or of a user in it."""

    user: str | None = None
    """For whom it is; None for everybody."""
    denies: tuple[DenyPermission, ...] = ()
    """What is denied: by its rules, and by the lists of its mode."""
    others: tuple[ArgumentRule, ...] = ()
    """The other rules, in order."""
    mode: FileMode | None = None
    """What decides when no rule does."""


@dataclass(frozen=True)
class PolicyFile:
    """What a policy file says."""

    sections: tuple[Section, ...] = ()
    """The sections of users, then the common one."""
    masked: tuple[str, ...] = ()
    """Names of arguments whose values are masked."""
    approval: float | None = None
    """Seconds after which a request is denied."""
    reminders: tuple[float, ...] = ()
    """Seconds after which to remind of it."""

    @property
    def denies(self) -> list[DenyPermission]:
        """What is denied, of all sections."""
        return [permission for section in self.sections for permission in section.denies]

    @property
    def others(self) -> list[Permission]:
        """The other rules, those of users first."""
        return [permission for section in self.sections for permission in section.others]

    @property
    def modes(self) -> list[Permission]:
        """The modes, those of users first."""
        return [section.mode for section in self.sections if section.mode is not None]

    @property
    def rules(self) -> list[ArgumentRule]:
        """All rules on arguments that it has."""
        return [item for item in (*self.denies, *self.others) if isinstance(item, ArgumentRule)]

    def keeping(self, before: PolicyFile) -> PolicyFile:
        """Return the same, with the permissions of the version before where they have not changed.

        A turn that began with them then still knows them.
        """
        known = {_key(item): item for section in before.sections for item in _items(section)}

        def kept(item: Any) -> Any:
            return known.get(_key(item), item)

        sections = tuple(
            Section(
                section.user,
                tuple(map(kept, section.denies)),
                tuple(map(kept, section.others)),
                None if section.mode is None else kept(section.mode),
            )
            for section in self.sections
        )
        return PolicyFile(sections, self.masked, self.approval, self.reminders)


EMPTY = PolicyFile()
"""What a file says that is not there."""


def _items(section: Section) -> Iterable[Permission]:
    return (*section.denies, *section.others, *(() if section.mode is None else (section.mode,)))


def _key(item: Permission) -> tuple[type, str | None, str]:
    return type(item), item.name, str(item)


def parse_policy(text: str, path: Path, *, layer: str = "project") -> PolicyFile:
    """Return what the text of a policy file says.

    Args:
        text: The text.
        path: The file, for errors.
        layer: What names its rules in the log.

    Raises:
        PolicyFileError: It says what it may not; the message says where.
    """
    return _Reader(text, path, layer).read()


class _Reader:
    """Reads the text of one file."""

    def __init__(self, text: str, path: Path, layer: str) -> None:
        self.text, self.path, self.layer = text, path, layer

    def fail(self, problem: str, fix: str, *, table: str = "", line: int | None = None) -> NoReturn:
        """Raise the error that says what is wrong, and where.

        Raises:
            PolicyFileError: Always.
        """
        place = f", line {line}" if line is not None else ""
        place += f", [{table}]" if table else ""
        raise PolicyFileError(fix_message(f"{self.path}{place}: {problem}", fix, _EXAMPLE), self.path)

    def read(self) -> PolicyFile:
        tables = self.toml()
        self.check_keys(tables, "", KEYS[""])
        self.check_version(tables)
        sections = [
            self.section(self.table(content, f"users.{_toml_key(user)}"), f"users.{_toml_key(user)}", user)
            for user, content in self.table(tables.get("users", {}), "users").items()
        ]
        sections.append(self.section({key: value for key, value in tables.items() if key in _RULES}, "", None))
        redaction = self.table(tables.get("redaction", {}), "redaction")
        timeouts = self.table(tables.get("timeouts", {}), "timeouts")
        self.check_keys(redaction, "redaction", KEYS["redaction"])
        self.check_keys(timeouts, "timeouts", KEYS["timeouts"])
        masked = self.names(redaction, "arguments", "redaction")
        approval = self.seconds(timeouts["approval"], "approval") if "approval" in timeouts else None
        return PolicyFile(tuple(sections), masked, approval, self.reminders(timeouts, approval))

    # --- the file as a whole ------------------------------------------------------------------------------------------

    def toml(self) -> dict[str, Any]:
        try:
            return tomllib.loads(self.text)
        except tomllib.TOMLDecodeError as error:
            found = re.search(r"\s*\(at line (\d+), column (\d+)\)", str(error))
            said = str(error) if found is None else str(error).replace(found[0], f" (column {found[2]})")
            self.fail(
                f"this is no TOML: {said[:1].lower()}{said[1:]}",
                "correct it; a rule stands in single quotes, so that it may have double ones in it",
                line=None if found is None else int(found[1]),
            )
        except (RecursionError, ValueError) as error:  # a number of more digits than Python reads
            self.fail(f"this cannot be read as TOML: {error}", "write it plainly")

    def check_version(self, tables: Mapping[str, Any]) -> None:
        if "version" not in tables:
            self.fail("it does not say its version", "write version = 1 at the top")
        version = tables["version"]
        if type(version) is not int or version != 1:
            fix = "write version = 1" + ("; a newer one needs a newer agentperm_nb" if type(version) is int else "")
            self.fail(f"version {_shown(version)} is not known", fix, line=self.line_of_key("version"))

    def check_keys(self, table: Mapping[str, Any], where: str, known: tuple[str, ...]) -> None:
        for key in table:
            if key not in known:
                fix = f"there can be {', '.join(known)}"
                near = self.near(key, table[key], where, known)
                if near:
                    fix = f"{near}; {fix}"
                self.fail(f"the key {_shown(key)} is not known", fix, table=where, line=self.line_of_key(key))

    @staticmethod
    def near(key: str, value: object, where: str, known: tuple[str, ...]) -> str:
        """Return what may have been meant with a key that is not known; an empty text where nothing is near."""
        close = get_close_matches(key.lower(), known, 1, 0.6)
        if close:
            return f"write {close[0]} instead"
        table = next((name for name, keys in KEYS.items() if key in keys), None)
        if table is not None:
            return f"it belongs {f'into [{table}]' if table else 'to the top, before any [table]'}"
        if where.startswith("users.") and isinstance(value, dict):
            return f'a user with a dot is written [users."{where.removeprefix("users.")}.{key}"]'
        return ""

    def table(self, value: Any, where: str) -> dict[str, Any]:
        if not isinstance(value, dict):
            self.fail(f"{where} is a table (got: {_shown(value)})", f"write [{where}], and its keys below", table="")
        return value

    def section(self, table: Mapping[str, Any], where: str, user: str | None) -> Section:
        if user is not None and not user.strip():
            self.fail("the name of a user is blank", 'name the user: [users.ann], or [users."ann@example.com"]')
        self.check_keys(table, where, _RULES if where else KEYS[""])
        layer = self.layer if user is None else f"{self.layer}, {user}"
        rules = [self.rule(text, place, where) for place, text in enumerate(self.texts(table, "rules", where), 1)]
        if user is not None:
            rules = [of_user(one, user) for one in rules]
        rules = [named(one, layer) for one in rules]
        mode = self.mode(table, where, layer)
        denies: list[DenyPermission] = [one for one in rules if isinstance(one, DenyPermission)]
        if mode is not None:
            denies.extend(deny_of_mode(one, user) for one in mode.denies())
        return Section(
            user,
            tuple(denies),
            tuple(one for one in rules if not isinstance(one, DenyPermission)),
            None if mode is None else FileMode(mode, user),
        )

    # --- rules and modes ----------------------------------------------------------------------------------------------

    def rule(self, text: str, place: int, where: str) -> ArgumentRule:
        try:
            return rule(text)
        except ValueError as error:
            problem, _, rest = str(error).partition("\nFix: ")
            fix = rest.partition("\nExample:")[0] or "correct it"
            self.fail(f"rule {place}: {problem}", fix, table=where, line=self.line_of_text(text))

    def mode(self, table: Mapping[str, Any], where: str, layer: str) -> StandardPermissions | None:
        if "mode" not in table:
            option = next((key for key in _MODE_OPTIONS if key in table), None)
            if option is not None:
                fix = 'write mode = "default" as well, or a rule: rules = ["deny delete_*"]'
                self.fail(f"{option} belongs to a mode, and there is none", fix, table=where)
            return None
        word = table["mode"]
        if not isinstance(word, str):
            self.fail(
                f"mode is a word (got: {_shown(word)})",
                'write mode = "default", and edit_tools = […] beside it',
                table=where,
            )
        given = {key: table[key] for key in _MODE_OPTIONS if key in table}
        for key, value in given.items():
            if key != "trust_mcp":
                self.names(table, key, where)
            elif not isinstance(value, bool):
                self.fail(f"trust_mcp is true or false (got: {_shown(value)})", "write one of them", table=where)
        try:
            made = resolve_permissions({"mode": word, **given})
            return StandardPermissions(mode=made.mode, **given, name=f"{layer}: mode {made.mode.value}")
        except (TypeError, ValueError) as error:
            problem, _, rest = str(error).partition("\nFix: ")
            fix, line = rest.partition("\nExample:")[0], None
            if "is not a mode" in problem:
                line = self.line_of_key("mode")
                near = get_close_matches(word, ("default", "acceptEdits", "bypassPermissions"), 1, 0.5)
                fix = (f'write "{near[0]}" instead: ' if near else "") + (
                    'a mode is "default", "acceptEdits" or "bypassPermissions"'
                )
            self.fail(problem, fix or "correct it", table=where, line=line)

    # --- values -------------------------------------------------------------------------------------------------------

    def texts(self, table: Mapping[str, Any], key: str, where: str) -> list[str]:
        value = table.get(key, [])
        if not isinstance(value, list):
            self.fail(f"{key} is a list (got: {_shown(value)})", f"write {key} = […]", table=where)
        for place, item in enumerate(value, 1):
            if not isinstance(item, str):
                self.fail(f"{key} holds texts (number {place} is {_shown(item)})", "put it in quotes", table=where)
        return value

    def names(self, table: Mapping[str, Any], key: str, where: str) -> tuple[str, ...]:
        names = self.texts(table, key, where)
        for place, name in enumerate(names, 1):
            if not name.strip():
                self.fail(f"number {place} of {key} is blank", "name something, or leave it out", table=where)
        return tuple(dict.fromkeys(names))

    def seconds(self, value: Any, what: str) -> float:
        if isinstance(value, bool) or not isinstance(value, int | float) or not 0 < value < math.inf:
            self.fail(f"{what} is in seconds, above 0 (got: {_shown(value)})", "write a number", table="timeouts")
        return value

    def reminders(self, timeouts: Mapping[str, Any], approval: float | None) -> tuple[float, ...]:
        value = timeouts.get("reminders", [])
        listed = value if isinstance(value, list) else [value]
        moments = tuple(sorted({self.seconds(one, "a reminder") for one in listed}))
        if moments and approval is not None and moments[-1] >= approval:
            problem = f"a reminder after {moments[-1]:g} s would never come: the time is over after {approval:g} s"
            self.fail(problem, "remind before", table="timeouts")
        return moments

    # --- places -------------------------------------------------------------------------------------------------------

    def line_of_key(self, key: str) -> int | None:
        """Return the line that a key stands in, where there is only one."""
        name = re.escape(key)
        form = re.compile(rf"\s*(?:(?:{name}|\"{name}\"|'{name}')\s*[.=]|\[+\s*[\"']?{name}[\"']?\s*[\].])")
        return self._line(lambda line: form.match(line) is not None)

    def line_of_text(self, text: str) -> int | None:
        """Return the line that a text stands in, where there is only one."""
        forms = {text, json.dumps(text, ensure_ascii=False)[1:-1]} - {""}
        return self._line(lambda line: any(form in line for form in forms))

    def _line(self, fits: Any) -> int | None:
        found = [number for number, line in enumerate(self.text.splitlines(), 1) if fits(line)]
        return found[0] if len(found) == 1 else None


def _shown(value: object) -> str:
    text = repr(value)
    return text if len(text) <= 80 else f"{text[:80]}…"


def _toml_key(key: str) -> str:
    return key if re.fullmatch(r"[A-Za-z0-9_-]+", key) else json.dumps(key, ensure_ascii=False)
