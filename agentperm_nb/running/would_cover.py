"""What a rule or a scope would cover of the calls of a run: what else one says yes to, before one says it.

1. The calls are those of the run in the log, made for the same user by the same agent, and those that wait now. Each is
   read by the rule alone, as it is read now: what denies it, or comes before the rule, still does.
2. What is masked in the log cannot be read. Where the rest of a call does not tell, it is counted apart: nobody
   guesses. Of a call that waits the arguments are known.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import replace
from datetime import datetime
from typing import Any, NamedTuple

from agentperm_nb.approvals.decisions import Scope
from agentperm_nb.approvals.facts import clock
from agentperm_nb.approvals.memory import covers_text
from agentperm_nb.approvals.requests import ApprovalRequest
from agentperm_nb.audit.projection import Row
from agentperm_nb.calls import ToolCall
from agentperm_nb.context import RunContext, running_in
from agentperm_nb.errors import fix_message
from agentperm_nb.json_values import call_text, digest, same_json
from agentperm_nb.permissions.arguments import ArgumentRule
from agentperm_nb.permissions.matching.declared import declared_by
from agentperm_nb.permissions.notation import rule as read_rule
from agentperm_nb.render import MASK, table_html, table_text, visible
from agentperm_nb.running.engine import Engine
from agentperm_nb.tools import Tool

__all__ = ["SeenCall", "WouldCover", "would_cover"]

_COLUMNS = ("call", "when", "then", "covered")
_VERB = re.compile(r"\s*(?:allow|deny|ask)\s+(?!\(|because\s)\S")
_EXAMPLE = 'agent.would_cover("write_file(path=project/**)")'
_Covers = Callable[["_Seen"], bool | None]


class SeenCall(NamedTuple):
    """One call of a run, and whether it would be covered."""

    call: str
    """The call as text, secrets masked."""
    when: datetime
    """When it was asked for (UTC)."""
    then: str
    """What became of it: ``allowed``, ``denied``, ``input_error``, ``cancelled`` or ``waiting``, and by what."""
    covered: bool | None
    """Whether it would be covered; None where it cannot be told, since what is needed is masked."""
    call_key: str
    """Our key of the call."""


class WouldCover:
    """Which calls of a run a rule or a scope would cover, oldest first.

    Args:
        what: The rule or the scope, in words.
        calls: The calls.
    """

    what: str
    """The rule or the scope, in words, secrets masked."""
    calls: tuple[SeenCall, ...]
    """The calls that were looked at, oldest first."""

    def __init__(self, what: str, calls: Iterable[SeenCall]) -> None:
        self.what, self.calls = what, tuple(calls)

    def __len__(self) -> int:
        return len(self.calls)

    def __iter__(self) -> Iterator[SeenCall]:
        return iter(self.calls)

    @property
    def covered(self) -> tuple[SeenCall, ...]:
        """The calls that would be covered."""
        return tuple(call for call in self.calls if call.covered)

    @property
    def undecidable(self) -> tuple[SeenCall, ...]:
        """The calls of which it cannot be told."""
        return tuple(call for call in self.calls if call.covered is None)

    @property
    def counts(self) -> str:
        """How many calls would be covered, and what became of them then."""
        covered = self.covered
        then: dict[str, int] = {}
        for call in covered:
            word = call.then.partition(" ")[0]
            then[word] = then.get(word, 0) + 1
        told = ", ".join(f"{count:,} {word}" for word, count in sorted(then.items()))
        text = f"{len(covered):,} of {len(self.calls):,} call{'s' * (len(self.calls) != 1)} of this run"
        text += f" ({told})" if told else ""
        unknown = len(self.undecidable)
        return text + (f"; {unknown:,} cannot be told: masked in the log" if unknown else "")

    def __repr__(self) -> str:
        return (
            table_text(_COLUMNS, map(_shown, self.calls), caption=self._headline()) if self.calls else self._headline()
        )

    def _repr_html_(self) -> str:
        return table_html(_COLUMNS, map(_shown, self.calls), caption=self._headline())

    def _headline(self) -> str:
        return visible(f"{self.what} would have covered {self.counts}")


def _shown(call: SeenCall) -> tuple[str, ...]:
    covered = {True: "yes", False: "no", None: "cannot be told: masked"}[call.covered]
    return call.call, clock(call.when, seconds=True), call.then, covered


class _Seen(NamedTuple):
    """A call as far as it is known."""

    name: str
    args: Mapping[str, Any]
    hidden: frozenset[str]
    """Arguments that are masked."""
    digest: str
    tool: Tool | None


def would_cover(
    engine: Engine, context: RunContext, given: Any, call: ToolCall | None = None, *, allow: bool = True
) -> WouldCover:
    """Return which calls of a run a rule or a scope would cover.

    Args:
        engine: What the turns of the agent share.
        context: The run, with the user and the agent.
        given: A rule in the notation, with its verb or without, a rule on arguments, or a `Scope`.
        call: The call whose answer it would be, for a scope that is about its values.
        allow: Whether a rule without a verb allows; else it denies.

    Raises:
        TypeError: `given` is none of these, or a scope needs a call.
        ValueError: A text is no rule.
    """
    what, covers = _test_of(engine, given, call, allow)
    path = "/".join(context.agent_path)
    waiting = {request.call_key: request for request in engine.desk.pending() if engine.asked(request.id)}
    rows = engine.store.rows(
        lambda row: row["run"] == context.run_id and row["agent_path"] == path and row["user"] == context.user_id
    )
    with running_in(replace(context, links={})):
        return WouldCover(engine.redactor.text(what), [_seen(engine, row, waiting, covers) for row in rows])


def _seen(engine: Engine, row: Row, waiting: Mapping[str, ApprovalRequest], covers: _Covers) -> SeenCall:
    request = waiting.get(row["call_key"])
    args, shown = (row["args"], row["args"]) if request is None else (request.call.args, request.shown_args)
    hidden = _hidden(row, own_rules=engine.redactor.has_rules) if request is None else frozenset[str]()
    tool = engine.tools.get(row["tool"]) if request is None else request.tool
    seen = _Seen(row["tool"], args, hidden, row["args_digest"] or "", tool)
    by = row["decided_by"] or (row["answered_by"] if row["verdict"] else None)
    then = f"{row['verdict'] or 'waiting'}{f' by {by}' if by else ''}"
    # A call that cannot run is covered by nothing.
    covered = False if row["verdict"] == "input_error" else covers(seen)
    return SeenCall(call_text(row["tool"], shown), row["time"], then, covered, row["call_key"])


def _hidden(row: Row, *, own_rules: bool) -> frozenset[str]:
    """Return the arguments of a call in the log of which anything may be masked."""
    args = row["args"]
    if not row["masked"]:
        return frozenset()
    found = {name for name, value in args.items() if MASK in json.dumps(value, default=repr, ensure_ascii=False)}
    if own_rules or not found or any(MASK in str(name) for name in args):  # it need not look like a mask, or be there
        return frozenset((*args, _ANY))
    return frozenset(found)


_ANY = "*"
"""Among hidden arguments: those that are not there under their names."""


def _test_of(engine: Engine, given: Any, call: ToolCall | None, allow: bool) -> tuple[str, _Covers]:
    """Return a rule or a scope in words, and what says whether it covers a call."""
    if isinstance(given, str):
        given = read_rule(given) if _VERB.match(given) else read_rule(given, verb="allow" if allow else "deny")
    if isinstance(given, Scope) and given.covers == "pattern":
        given = given.permission(allow=allow)
    if isinstance(given, ArgumentRule) and given.by_arguments:
        rule = given
        return rule.notation, lambda seen: _fits(rule, seen)
    if not isinstance(given, Scope):
        problem = f"would_cover takes a rule on arguments or a scope (got: {given!r})"
        raise TypeError(fix_message(problem, "write the rule in the notation", _EXAMPLE))
    if call is None:
        problem = f"Scope({given.covers!r}) is about the call whose answer it would be, and there is none"
        raise TypeError(fix_message(problem, "give the request as well", "agent.would_cover(Scope(), request)"))
    one, scope = call, given
    tool = engine.tools.get(one.name)
    shown = engine.redactor.value(one.args, secret=tool.secret if tool is not None else ())
    what = f"{'allow' if allow else 'deny'} {covers_text(scope, one.name, shown)}"
    return what, lambda seen: _in_scope(scope, one, seen)


def _fits(rule: ArgumentRule, seen: _Seen) -> bool | None:
    """Return whether a rule fits a call; None where only what is masked tells."""
    if not rule.is_about(seen.name):
        return False
    declared, unknown = declared_by(seen.tool), False
    for condition in rule.conditions:
        argument = condition.field.argument
        if argument in seen.hidden or (_ANY in seen.hidden and argument not in seen.args):
            unknown = True
            continue
        reading = condition.read(seen.args, declared, every=not rule.wide)
        if not (reading.wide if rule.wide else reading.narrow):
            return False
    return None if unknown else True


def _in_scope(scope: Scope, call: ToolCall, seen: _Seen) -> bool | None:
    """Return whether a call is one that the answer to another one would hold for."""
    if seen.name != call.name:
        return False
    if scope.covers == "tool":
        return True
    same = seen.digest == digest(call.name, call.args)
    if scope.covers == "call" or same:
        return same
    unknown = False
    for name in scope.arguments:
        if name in seen.hidden or (_ANY in seen.hidden and name not in seen.args):
            unknown = True
        elif not same_json(*({name: args[name]} if name in args else {} for args in (seen.args, call.args))):
            return False
    return None if unknown else True
