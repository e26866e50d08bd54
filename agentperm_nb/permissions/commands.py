"""Which arguments are command lines, code or queries: texts in which a pattern sees a spelling and no meaning.

It goes by names, of the tool and of the argument, and says so only where these are plain.
"""

from __future__ import annotations

import re
from functools import cache

__all__ = ["language_of", "variables_in"]

_SHELL_TOOLS = frozenset(
    ("bash", "sh", "shell", "zsh", "ksh", "terminal", "console", "powershell", "pwsh", "cmd", "exec", "subprocess")
)
_SHELL_ARGUMENTS = frozenset(("command", "commands", "cmd", "cmdline", "shell", "bash"))
_CODE_ARGUMENTS = frozenset(("script", "code", "source_code", "snippet"))
_SQL_ARGUMENTS = frozenset(("sql", "sql_query", "statement"))
_SQL_TOOLS = frozenset(
    ("sql", "db", "database", "query", "postgres", "postgresql", "psql", "mysql", "sqlite", "duckdb", "bigquery")
)
_VARIABLE = re.compile(
    r"\$\{[^}]*\}|\$[A-Za-z_][A-Za-z0-9_]*|\$\([^)]*\)?|`[^`]*`?|%[A-Za-z_][A-Za-z0-9_()]*%", re.DOTALL
)
_MOST = 5


@cache
def language_of(tool: str, argument: str) -> str:
    """Return what an argument of a tool is written in: ``shell``, ``code``, ``SQL``, or an empty text for none of them.

    Args:
        tool: The tool's name, or a pattern of names.
        argument: The argument, or a place in it; the last name counts.
    """
    words = frozenset(_words(tool))
    last = re.sub(r"\[[^]]*\]", "", argument).rpartition(".")[2].strip('"')
    name = "_".join(_words(last))
    if name in _SHELL_ARGUMENTS:
        return "shell"
    if name in _CODE_ARGUMENTS:
        return "shell" if words & _SHELL_TOOLS else "code"
    if name in _SQL_ARGUMENTS or (name == "query" and words & _SQL_TOOLS):
        return "SQL"
    return "shell" if words & _SHELL_TOOLS and name in ("input", "args", "arguments", "text", "line") else ""


def variables_in(text: str) -> list[str]:
    """Return what a text leaves to a shell to fill in: ``$HOME``, ``${x}``, ``$(date)``, ``%TEMP%``, a few at most."""
    return list(dict.fromkeys(found[0] for found in _VARIABLE.finditer(text)))[:_MOST]


def _words(name: str) -> list[str]:
    parted = re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", name)
    return [word for word in re.split(r"[^a-z]+", parted.lower()) if word]
