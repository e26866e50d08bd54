"""Scopes that a view can offer for an answer that is to be remembered, from narrow to wide.

1. They are: this exact call; a rule on what the call is about (its paths, mail addresses, command or address in the
   net), with the very values, then with a path's folder or a recipient's domain, then with all below the folder; and
   every call of the tool. No bound is made of a number.
2. A rule holds down all that the call is about at once: one on the source of a copy leaves its target no freedom. A
   path or a recipient that was left out has to be left out then, too.
3. Each is tried on the call that is asked about. Its words say which calls it covers, and nothing else.
4. Where one is not offered, `why_not_offered` says which it is and why: a call that would write a protected path, a
   rule that wants a second person, values that are masked or that cannot be read, a folder that is too wide.
"""

from __future__ import annotations

import contextlib
import os
import re
from collections.abc import Iterable, Iterator
from dataclasses import replace
from typing import Any, Literal, NamedTuple

from agentperm_nb.approvals.decisions import Scope
from agentperm_nb.approvals.requests import ApprovalRequest
from agentperm_nb.context import RunContext, get_run_context, running_in
from agentperm_nb.json_values import call_text, canonical_json, json_text, same_json
from agentperm_nb.permissions.arguments import AllowByArguments, ArgumentRule
from agentperm_nb.permissions.kinds import AskFirst
from agentperm_nb.permissions.matching.declared import Declared, declared_by
from agentperm_nb.permissions.matching.fields import Field, Presence
from agentperm_nb.permissions.matching.mails import Mail, address_of
from agentperm_nb.permissions.matching.reading import Matcher, Where
from agentperm_nb.permissions.matching.texts import Pattern
from agentperm_nb.permissions.matching.values import Exact, OneOf
from agentperm_nb.render import shorten

__all__ = ["NotOffered", "Suggestion", "covering_problem", "suggest_scopes", "why_not_offered"]

_Lasts = Literal["run", "session", "file"]

_ABOUT = frozenset(
    ("command", "cmd", "query", "sql", "url", "uri", "host", "branch", "table", "channel", "repo", "repository")
)
"""Arguments that say what a call is about, and of which nothing but the very value can be told."""
_RECIPIENTS = frozenset(("to", "cc", "bcc", "recipient", "recipients", "email", "emails"))
_SPECIAL = re.compile(r"[*?\[\\]")
_LONGEST = 200
_MOST_VALUES = 8


class Suggestion(NamedTuple):
    """A scope to offer."""

    scope: Scope
    """The scope."""
    words: str
    """Which calls it covers. It is not yet made harmless: show it through `agentperm_nb.render`."""


class NotOffered(NamedTuple):
    """A scope that is not offered."""

    what: str
    """Which one, in words."""
    why: str
    """Why not."""


def suggest_scopes(request: ApprovalRequest, *, allow: bool = True, lasts: _Lasts = "run") -> list[Suggestion]:
    """Return the scopes that make sense for an answer to a request, from narrow to wide.

    Args:
        request: The request.
        allow: Whether the answer allows; a rule that denies reads wide.
        lasts: For how long; ``file`` gives patterns only.
    """
    return _offers(request, allow, lasts)[0]


def why_not_offered(request: ApprovalRequest, *, allow: bool = True, lasts: _Lasts = "run") -> list[NotOffered]:
    """Return the scopes that are not offered for a request, each with the reason; see `suggest_scopes`.

    Args:
        request: The request.
        allow: Whether the answer allows.
        lasts: For how long.
    """
    return _offers(request, allow, lasts)[1]


def covering_problem(rule: ArgumentRule, request_call: Any, tool: Any) -> str:
    """Return why a rule is not about a call, or about none of its tool; an empty text where it covers the call.

    Args:
        rule: The rule: one that allows has to allow the call, one that denies to deny it.
        request_call: The call.
        tool: Its tool.
    """
    if not rule.is_about(request_call.name):
        return f"it is about {rule.tool}, and the call is one of {request_call.name}"
    problems = rule.problems_with(tool)
    if problems:
        return problems[0]
    if rule.check(None, request_call, tool) is not None:
        return ""
    declared = declared_by(tool)
    for condition in rule.conditions:
        reading = condition.read(request_call.args, declared, every=not rule.wide)
        if not (reading.wide if rule.wide else reading.narrow):
            why = f"{condition.field} could not be read: {reading.problem}" if reading.problem else str(condition)
            return why if reading.problem else f"{why} does not fit this very call"
    return "it does not fit this very call"


class _Part(NamedTuple):
    """What one argument says of what the call is about."""

    field: str
    levels: tuple[tuple[Matcher, str], ...]
    """(condition, words), from narrow to wide: the very value, its folder or domain, all below."""
    why_not: str = ""
    """Why there are no wider ones, or none at all."""


def _offers(request: ApprovalRequest, allow: bool, lasts: _Lasts) -> tuple[list[Suggestion], list[NotOffered]]:
    call = request.call
    try:
        canonical_json(call.args)
    except (TypeError, ValueError, RecursionError) as error:
        return [], [NotOffered("any later call", f"the arguments are not JSON: {error}")]
    if allow and getattr(request.permission, "second_person", False) is not False:
        why = f"{request.rule} wants a second person's word about each call"
        return [], [NotOffered("any later call", why)]
    exact = f"this exact call: {shorten(call_text(call.name, request.shown_args), _LONGEST)}"
    found: list[Suggestion] = []
    refused: list[NotOffered] = []
    if lasts == "file":
        refused.append(NotOffered(exact, "a policy file holds rules"))
    else:
        found.append(Suggestion(Scope("call", lasts), exact))
    if allow and isinstance(request.permission, AskFirst):
        why = f"each call that would write a protected path is asked about: {request.reason}"
        return found, [*refused, NotOffered("more than this exact call", why)]
    with _reading_now(request.context) as where:
        _add_rules(request, allow, lasts, where, found, refused)
    every = f"every call of {call.name}, whatever its arguments"
    if lasts != "file":
        found.append(Suggestion(Scope("tool", lasts), every))
    else:
        _add(request, allow, lasts, [], every, found, refused)
    return found, refused


def _add_rules(
    request: ApprovalRequest,
    allow: bool,
    lasts: _Lasts,
    where: Where,
    found: list[Suggestion],
    refused: list[NotOffered],
) -> None:
    call, declared = request.call, declared_by(request.tool)
    parts, left_out = _parts(request, declared, where, allow=allow)
    if not parts:
        return
    masked = [part.field for part in parts if _is_masked(request, part.field)]
    if masked:
        why = f"{' and '.join(masked)} {'is' if len(masked) == 1 else 'are'} masked, and a rule would show it"
        refused.append(NotOffered("rules on the arguments", why))
        return
    fields = {part.field for part in parts}
    free = [name for name in dict.fromkeys((*call.args, *declared.arguments)) if name not in fields | set(left_out)]
    rest = f", whatever {' and '.join(free)} {'is' if len(free) == 1 else 'are'}" if free else ""
    spelt = "" if allow else ", in any spelling"
    conditions = [(name, Presence(False)) for name in left_out]
    told = [f"{name} is left out" for name in left_out]
    for part in parts:
        if part.why_not:
            what = f"wider rules on {part.field}" if part.levels else "rules on the arguments"
            refused.append(NotOffered(what, f"{part.field}: {part.why_not}"))
    if not all(part.levels for part in parts):
        return
    before: list[str] = []
    for level in range(max(len(part.levels) for part in parts)):
        chosen = [part.levels[min(level, len(part.levels) - 1)] for part in parts]
        words = [text for _, text in chosen]
        # Where the call says nothing else, its very values are the exact call.
        if words != before and (level > 0 or free or lasts == "file"):
            pairs = [(part.field, matcher) for part, (matcher, _) in zip(parts, chosen, strict=True)]
            text = f"calls of {call.name} where {', '.join([*words, *told])}{rest}{spelt}"
            _add(request, allow, lasts, [*pairs, *conditions], text, found, refused)
        before = words


def _add(
    request: ApprovalRequest,
    allow: bool,
    lasts: _Lasts,
    pairs: list[tuple[str, Any]],
    words: str,
    found: list[Suggestion],
    refused: list[NotOffered],
) -> None:
    """Offer a rule, if it covers the call that it is offered for."""
    try:
        text = str(AllowByArguments(request.call.name, arguments=pairs)).removeprefix("allow ")
        scope = Scope("pattern", lasts, rule=text)
        why = covering_problem(scope.permission(allow=allow), request.call, request.tool)
    except (TypeError, ValueError) as error:  # no rule can be made of it
        why = str(error).partition("\n")[0]
    if why:
        refused.append(NotOffered(words, why))
    else:
        found.append(Suggestion(scope, words))


# --- what a call is about ---------------------------------------------------------------------------------------------


def _parts(request: ApprovalRequest, declared: Declared, where: Where, *, allow: bool) -> tuple[list[_Part], list[str]]:
    """Return what the call is about, and which arguments that it could be about were left out."""
    args = request.call.args
    parts = []
    for name, value in args.items():
        if not name:
            continue
        slot = declared.slot(Field((name,)))
        if slot.problem:
            continue
        values = _texts(value)
        if values is None:
            continue
        # Of a list an allow holds for all elements, a deny for any.
        subject = f"{'each' if allow else 'any'} of {name}" if isinstance(value, list) else name
        if slot.is_path:
            parts.append(_paths(name, subject, values, where, absolute=not allow))
        elif all(address_of(text) is not None for text in values):
            parts.append(_mails(name, subject, values))
        elif name.lower() in _ABOUT and len(values) == 1 and "\n" not in values[0] and len(values[0]) <= _LONGEST:
            alone: Matcher = Exact(value) if _SPECIAL.search(values[0]) else Pattern(values[0])
            parts.append(_Part(name, ((alone, f"{name} is {json_text(values[0])}"),)))
    if not allow:  # it would be enough to give one of them to get round the rule
        return parts, []
    left_out = [
        name
        for name in declared.arguments
        if name not in args and (declared.slot(Field((name,))).is_path or name.lower() in _RECIPIENTS)
    ]
    return parts, left_out


def _texts(value: Any) -> list[str] | None:
    """Return the texts that a value is or holds, if it holds nothing else and not too many."""
    values = list(value) if isinstance(value, list) else [value]
    if not values or len(values) > _MOST_VALUES or not all(isinstance(item, str) and item for item in values):
        return None
    return values


def _paths(name: str, subject: str, texts: list[str], where: Where, *, absolute: bool) -> _Part:
    from agentperm_nb.approvals.path_scopes import patterns_of

    read = [patterns_of(text, where, absolute=absolute) for text in texts]
    no_exact = next((one.why_not_exact for one in read if one.why_not_exact), "")
    if no_exact:
        return _Part(name, (), no_exact)
    exact = (_one_of(Pattern(one.exact) for one in read), f"{subject} is {_listed(one.exact for one in read)}")
    no_folder = next((one.why_not_folder for one in read if one.why_not_folder), "")
    if no_folder:
        return _Part(name, (exact,), no_folder)
    folders = list(dict.fromkeys(one.folder for one in read))
    named = _listed(f"the base folder {where.folder}/" if folder == "." else f"{folder}/" for folder in folders)
    all_below = _one_of(Pattern(f"{folder}/**") for folder in folders)
    if any(one.is_folder for one in read):
        return _Part(name, (exact, (all_below, f"{subject} is {named} or anything below, in hidden folders too")))
    inside = (_one_of(Pattern(f"{folder}/*") for folder in folders), f"{subject} is anything directly in {named}")
    return _Part(name, (exact, inside, (all_below, f"{subject} is anything below {named}, in hidden folders too")))


def _mails(name: str, subject: str, texts: list[str]) -> _Part:
    found = [address for address in map(address_of, texts) if address is not None]
    addresses = list(dict.fromkeys(f"{local}@{domain}" for local, domain in found))
    domains = list(dict.fromkeys(domain for _, domain in found))
    exact = (_one_of(map(Mail, addresses)), f"{subject} is {_listed(addresses)}")
    domain = (_one_of(Mail(f"@{domain}") for domain in domains), f"{subject} is any address at {_listed(domains)}")
    return _Part(name, (exact, domain))


def _one_of(matchers: Iterable[Matcher]) -> Matcher:
    listed = list(dict.fromkeys(matchers))
    return listed[0] if len(listed) == 1 else OneOf(listed)


def _listed(texts: Iterable[str]) -> str:
    return " or ".join(dict.fromkeys(texts))


def _is_masked(request: ApprovalRequest, name: str) -> bool:
    shown = request.shown_args
    return name not in shown or not same_json(shown[name], request.call.args[name])


@contextlib.contextmanager
def _reading_now(context: RunContext | None) -> Iterator[Where]:
    """Read paths in the base folder of a run, as links are now."""
    here = context if context is not None else get_run_context()
    if here is None:
        here = RunContext("", "", None, folder=_working_folder())
    here = replace(here, links={})
    with running_in(here):
        yield Where(here.folder, links=here.links)


def _working_folder() -> str:
    try:
        return os.getcwd()
    except OSError:  # it is gone
        return "/"
