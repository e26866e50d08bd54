"""Lint: what is probably not meant in a list of permissions, held against the tools that it decides about.

1. Nothing runs, nobody is asked, and no check of the user's own classes is called. The functions of a policy's rules
   are, with example calls.
2. A finding has a code, says what is the matter and what would mend it, and shows it by a call where there is one.
3. What is said of a rule is proven, by the rules or by an example; where neither can be, nothing is said.
4. A ``warning`` is very likely not meant; a ``note`` is worth knowing. ``strict=True`` makes an error of warnings.
5. When an agent is made, only the first look is taken: names of tools that are taken for each other are refused, and
   denies or asks that match no tool, but were meant to, become a `LintWarning`.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from agentperm_nb.errors import LintError, fix_message
from agentperm_nb.human import default_human
from agentperm_nb.permissions.deciding import PermissionList
from agentperm_nb.permissions.linting.findings import Finding, Findings
from agentperm_nb.permissions.linting.hidden import hidden_denies
from agentperm_nb.permissions.linting.order import never_reached, shadowed
from agentperm_nb.permissions.linting.people import checks_off, nobody_to_ask, too_wide, trusts_servers
from agentperm_nb.permissions.linting.text_rules import paths_as_texts, text_rules
from agentperm_nb.permissions.linting.tool_names import lookalikes, near_misses, unknown_arguments, unmatched
from agentperm_nb.permissions.linting.units import Subject
from agentperm_nb.tools import Tool, as_tools

__all__ = ["CODES", "WHOEVER", "checked_codes", "first_look", "lint", "refused_names"]

CODES: tuple[str, ...] = (
    "ask-after-human",
    "bypass-on",
    "default-before-others",
    "empty-list",
    "empty-policy",
    "hidden-deny",
    "lookalike-tools",
    "mixed-script",
    "nobody-to-ask",
    "path-as-text",
    "prefix-allow",
    "redundant",
    "second-mode",
    "shadowed",
    "text-rule-on-command",
    "too-wide-allow",
    "trusts-servers",
    "unchecked",
    "unknown-argument",
    "unmatched-allow",
    "unmatched-ask",
    "unmatched-deny",
    "unseen-characters",
)
"""The codes of all findings."""

_EXAMPLE = "lint([DenyByName(['delete_*']), AllowByReadOnly()], [read_file, delete_file])"


class _Whoever:
    def __repr__(self) -> str:
        return "WHOEVER"


WHOEVER: Any = _Whoever()
"""For ``human=``: whoever is asked where this runs."""


def lint(
    permissions: Any,
    tools: Iterable[Any] = (),
    *,
    human: Any = WHOEVER,
    permission_handler: Any = None,
    ignore: Iterable[str] = (),
    strict: bool = False,
) -> Findings:
    """Return what is probably not meant in a list of permissions.

    Args:
        permissions: What ``Agent(permissions=…)`` takes.
        tools: The tools that it decides about, as ``Agent(tools=…)`` takes them.
        human: Who is asked, or an approval handler; None for nobody. Left out, whoever is asked where this runs.
        permission_handler: Who answers what a policy asks.
        ignore: Codes of findings to leave out.
        strict: Whether to raise an error when there are warnings.

    Raises:
        LintError: With ``strict=True``: there are warnings. It has the findings.
        TypeError: An argument has the wrong type.
        ValueError: `ignore` has a code that there is not.
    """
    listed = permissions if isinstance(permissions, PermissionList) else PermissionList(permissions)
    left_out = checked_codes(ignore)
    subject = Subject(listed.order, as_tools(tools).values())
    nobody = human is None or (human is WHOEVER and default_human() is None)
    found = [
        *lookalikes(subject.tools),
        *checks_off(subject, unchecked=listed.unchecked, empty=not listed.unchecked and not listed.order),
        *unmatched(subject),
        *unknown_arguments(subject),
        *never_reached(subject),
        *hidden_denies(subject),
        *shadowed(subject),
        *text_rules(subject),
        *paths_as_texts(subject),
        *(
            nobody_to_ask(subject, on_purpose=human is None, policy_handler=permission_handler is not None)
            if nobody
            else ()
        ),
        *trusts_servers(subject),
        *too_wide(subject),
    ]
    findings = Findings(one for one in found if one.code not in left_out)
    if strict and findings.warnings:
        count = len(findings.warnings)
        problem = f"lint found {count} {'thing that is' if count == 1 else 'things that are'} probably not meant"
        message = "\n\n".join([f"{problem}:", *map(str, findings.warnings)])
        raise LintError(message, findings)
    return findings


def checked_codes(codes: object) -> frozenset[str]:
    """Return codes of findings as a set.

    Args:
        codes: What was given as ``ignore=``.

    Raises:
        TypeError: It is not a list of texts.
        ValueError: One is not a code.
    """
    example = "agent.lint(ignore=['bypass-on'])"
    if isinstance(codes, str | bytes) or not isinstance(codes, Iterable):
        raise TypeError(fix_message(f"ignore= takes a list of codes (got: {codes!r})", "put it in a list", example))
    listed = list(codes)
    unknown = next((code for code in listed if code not in CODES), None)
    if unknown is not None:
        raise ValueError(
            fix_message(f"{unknown!r} is not a code of a finding", f"use some of {', '.join(CODES)}", example)
        )
    return frozenset(listed)


def refused_names(names: Iterable[str]) -> list[Finding]:
    """Return why tools of these names cannot be in one agent, unless it says that they may.

    Args:
        names: The names.
    """
    return [one for one in lookalikes(names) if one.severity == "warning"]


def first_look(permissions: PermissionList, tools: Iterable[Tool]) -> list[Finding]:
    """Return what an agent warns of when it is made: what is nearly certain to be a mistake, and lets calls through.

    Args:
        permissions: Its list.
        tools: Its tools.
    """
    subject = Subject(permissions.order, tools)
    return [*near_misses(subject), *paths_as_texts(subject)]
