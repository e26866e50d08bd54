"""Answers that hold for later calls.

1. A remembered answer is looked up after the rules: it never passes a deny.
2. It holds for one user, one path of agents and whoever was asked, for a run or a session; for the same call, for calls
   with the same values in named arguments, for those that a rule fits (`approvals.patterns`), or for a tool. An answer
   of one person stands in for nobody else.
   An allow by a rule on paths holds in the base folder in which it was given, and in no other.
3. Where several apply, a denial wins, whatever they are for.
4. Each has a number, from 1, which is never given again. It can be revoked: it does not count from then on.
5. It is in memory only. Of more than `KEPT` the oldest allow is dropped first, so that no denial makes room for an
   allow that it holds back.
"""

from __future__ import annotations

import itertools
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Literal, TypeAlias

from agentperm_nb.approvals.decisions import Scope
from agentperm_nb.approvals.facts import clock
from agentperm_nb.approvals.listeners import Listeners
from agentperm_nb.approvals.patterns import Patterns
from agentperm_nb.calls import ToolCall
from agentperm_nb.context import RunContext, running_in
from agentperm_nb.errors import fix_message
from agentperm_nb.json_values import call_text, canonical_json, digest, json_text, sha256
from agentperm_nb.render import shorten, table_html, table_text
from agentperm_nb.tools import Tool

__all__ = ["KEPT", "Memory", "Remembered", "RememberedAnswers", "covers_text"]

KEPT = 10_000
"""How many answers a memory keeps."""

_LONGEST, _IN_TEXT = 500, 80  # characters of what an answer covers
_COLUMNS = ("number", "answer", "covers", "lasts", "user", "agent", "approver", "from call", "when")

_Place: TypeAlias = tuple[str | None, tuple[str, ...], int, str, str, str | None]
"""User, path of agents, whoever was asked, ``run`` or ``session`` and its id, tool; None for rules on any tools."""
_What: TypeAlias = str | tuple[str, ...]
"""``call``, ``tool``, ``pattern``, or the sorted names of arguments."""
_Key: TypeAlias = tuple[_Place, _What, str, bool]


@dataclass(frozen=True, slots=True, repr=False)
class Remembered:
    """One remembered answer."""

    number: int
    """What `Agent.revoke` takes."""
    allow: bool
    """Whether it allows; else it denies."""
    tool: str
    """Name of the tool; of a rule, it may be a pattern of names."""
    covers: str
    """Which calls, in words; secrets are masked."""
    lasts: Literal["run", "session"]
    user: str | None
    """On whose behalf the agent worked."""
    agent_path: tuple[str, ...]
    """Names of the agents, from the outermost to the one that asked."""
    approver: str | None
    """Who answered, where that is known."""
    from_call: str
    """Our key of the call whose answer it was."""
    time: datetime
    """When it was remembered (UTC)."""
    run: str
    """Id of the run in which it was remembered."""
    session: str
    """Id of its session."""
    scope: Scope
    """As the answer gave it."""
    reason: str | None = None
    """As the answer gave it; it is not masked."""
    rule: str | None = None
    """The rule of a pattern in its notation; secrets are masked."""

    @property
    def answer(self) -> str:
        """``allow`` or ``deny``."""
        return "allow" if self.allow else "deny"

    def __repr__(self) -> str:
        return f"Remembered({self.number}: {self.answer} {self.covers}, for the {self.lasts})"


class RememberedAnswers:
    """What an agent remembered at one moment, oldest first: a table, indexed by number."""

    def __init__(self, answers: Iterable[Remembered]) -> None:
        self._answers = {answer.number: answer for answer in answers}

    def __len__(self) -> int:
        return len(self._answers)

    def __iter__(self) -> Iterator[Remembered]:
        return iter(self._answers.values())

    def __getitem__(self, number: int) -> Remembered:
        """Return the answer of a number.

        Raises:
            LookupError: There is none.
        """
        if number not in self._answers:
            raise IndexError(_no_such_number(number, self._answers, "agent.remembered()[1]"))
        return self._answers[number]

    def __repr__(self) -> str:
        if not self._answers:
            return "nothing remembered"
        return table_text(_COLUMNS, map(_row, self), caption=self._caption(), width=_IN_TEXT)

    def _repr_html_(self) -> str:
        if not self._answers:
            return "<div>nothing remembered</div>"
        return table_html(_COLUMNS, map(_row, self), caption=self._caption())

    def _caption(self) -> str:
        count = len(self._answers)
        return f"{count:,} remembered answer{'s' * (count != 1)} · agent.revoke(number) takes one back"


def _row(answer: Remembered) -> tuple[str, ...]:
    return (
        str(answer.number),
        answer.answer,
        answer.covers,
        answer.lasts,
        answer.user or "",
        " › ".join(answer.agent_path),
        answer.approver or "",
        answer.from_call,
        clock(answer.time),
    )


def covers_text(scope: Scope, name: str, shown_args: Mapping[str, Any]) -> str:
    """Return which calls an answer covers, in words.

    Args:
        scope: The scope of the answer.
        name: The tool's name.
        shown_args: The arguments that it was given for, masked.
    """
    if scope.covers == "tool":
        return f"every call of {name}"
    if scope.covers == "pattern":
        rule = scope.permission(allow=True) if isinstance(scope.rule, str) else scope.rule
        assert rule is not None
        of = "" if rule.names_one_tool else f" of every tool called like {rule.tool}"
        return f"calls{of} that fit {rule.notation.partition(' ')[2]}"
    if scope.covers == "call":
        return f"exactly {call_text(name, shown_args)}"
    there = [f"{key}={json_text(shown_args[key])}" for key in scope.arguments if key in shown_args]
    without = [key for key in scope.arguments if key not in shown_args]
    parts = [f"with {', '.join(there)}"] if there else []
    parts += [f"without {', '.join(without)}"] if without else []
    return f"{name} {' and '.join(parts)}"


@dataclass(slots=True, eq=False)
class _Kept:
    remembered: Remembered
    key: _Key
    asked: object
    """Whoever was asked. It is kept here so that its id, which is in the key, is nobody else's."""
    folder: str | None = None
    """Where alone it holds; None for anywhere."""


class Memory:
    """The remembered answers of an agent; thread-safe."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._numbers = itertools.count(1)
        self._kept: dict[int, _Kept] = {}
        self._allows: dict[int, None] = {}
        self._by_key: dict[_Key, int] = {}
        self._kinds: dict[_Place, dict[_What, int]] = {}
        """The kinds of scopes that there are at one place, with how many answers of each."""
        self._patterns: dict[_Place, Patterns] = {}
        self._listeners: Listeners[Callable[[], object]] = Listeners(self._lock)

    def __repr__(self) -> str:
        return f"Memory({len(self._kept)} remembered)"

    def answers(self) -> RememberedAnswers:
        """Return what is remembered now."""
        with self._lock:
            return RememberedAnswers(kept.remembered for kept in self._kept.values())

    def remember(
        self,
        context: RunContext,
        call: ToolCall,
        scope: Scope,
        *,
        allow: bool,
        asked: object,
        covers: str = "",
        approver: str | None = None,
        from_call: str = "",
        reason: str | None = None,
        rule: str | None = None,
    ) -> Remembered:
        """Keep an answer for calls like `call`, and tell the listeners. It takes the place of one that is just alike.

        Args:
            context: The run in which it was given.
            call: The call that was allowed or denied; with an edit, the edited one.
            scope: How far it reaches.
            allow: Whether it allows.
            asked: Whoever was asked: the answer stands in for nobody else.
            covers: Which calls, in words; a long text is cut.
            approver: Name of the person, where it is known.
            from_call: Our key of the call.
            reason: The reason that was given.
            rule: The rule of a pattern, as it may be shown.

        Raises:
            TypeError: The arguments are not JSON.
            ValueError: The arguments hold NaN or an infinity, or the scope is for a file.
        """
        if scope.lasts == "file":
            raise ValueError(fix_message("a memory keeps nothing for a file", "say run or session", "Scope('tool')"))
        where = context.run_id if scope.lasts == "run" else context.session_id
        what: _What = tuple(sorted(scope.arguments)) if scope.covers == "arguments" else scope.covers
        pattern = scope.permission(allow=allow) if scope.covers == "pattern" else None
        tool = call.name if pattern is None else None
        place = (context.user_id, context.agent_path, id(asked), scope.lasts, where, tool)
        key = (place, what, _values(what, call) if pattern is None else pattern.notation, allow)
        with self._lock:
            made = Remembered(
                next(self._numbers),
                allow,
                call.name if pattern is None else pattern.tool,
                shorten(covers, _LONGEST),
                scope.lasts,
                context.user_id,
                context.agent_path,
                approver,
                from_call,
                datetime.now(UTC),
                context.run_id,
                context.session_id,
                scope,
                reason,
                rule,
            )
            if key in self._by_key:
                self._drop(self._by_key[key])
            elif len(self._kept) >= KEPT:
                self._drop(next(iter(self._allows or self._kept)))
            bound = pattern is not None and allow and pattern.reads_files
            self._kept[made.number] = _Kept(made, key, asked, context.folder if bound else None)
            self._by_key[key] = made.number
            kinds = self._kinds.setdefault(place, {})
            kinds[what] = kinds.get(what, 0) + 1
            if pattern is not None:
                self._patterns.setdefault(place, Patterns()).add(made.number, pattern)
            if allow:
                self._allows[made.number] = None
        for listener in self._listeners.now():
            listener()
        return made

    def look_up(
        self,
        context: RunContext,
        call: ToolCall,
        asked: object,
        *,
        tool: Tool | None = None,
        counts: Callable[[Remembered], bool] = lambda allowing: True,
    ) -> Remembered | None:
        """Return the answer that holds for a call, or None.

        Args:
            context: The run that the call belongs to.
            call: The call.
            asked: Whoever would be asked about it.
            tool: Its tool.
            counts: Whether an answer that allows counts here.
        """
        if not self._by_key:
            return None
        owner = (context.user_id, context.agent_path, id(asked))
        ends = (("run", context.run_id), ("session", context.session_id))
        values: dict[_What, str] = {}
        with self._lock:
            for allow in (False, True):
                for lasts, where in ends:
                    place = (*owner, lasts, where, call.name)
                    for what in self._kinds.get(place, ()):
                        if what not in values:
                            values[what] = _values(what, call)
                        number = self._by_key.get((place, what, values[what], allow))
                        if number is not None:
                            found = self._kept[number].remembered
                            if not allow or counts(found):
                                return found
                for lasts, where in ends:
                    patterns = self._patterns.get((*owner, lasts, where, None))
                    if patterns is None:
                        continue
                    with running_in(context):
                        for number in patterns.fitting(call, tool, allow=allow):
                            kept = self._kept[number]
                            here = kept.folder is None or kept.folder == context.folder
                            if here and (not allow or counts(kept.remembered)):
                                return kept.remembered
        return None

    def revoke(self, number: int) -> Remembered:
        """Forget the answer of a number, and return it.

        Raises:
            ValueError: There is none.
        """
        with self._lock:
            if isinstance(number, bool) or not isinstance(number, int) or number not in self._kept:
                raise ValueError(_no_such_number(number, self._kept, "agent.revoke(1)"))
            return self._drop(number)

    def revoke_all(self) -> tuple[Remembered, ...]:
        """Forget every answer, and return them."""
        with self._lock:
            return tuple(self._drop(number) for number in list(self._kept))

    def end_run(self, run_id: str) -> None:
        """Forget what was remembered for a run: it is over."""
        if not self._by_key:
            return
        with self._lock:
            for number, kept in list(self._kept.items()):
                if kept.remembered.lasts == "run" and kept.remembered.run == run_id:
                    self._drop(number)

    def subscribe(self, listener: Callable[[], object]) -> Callable[[], None]:
        """Call `listener` when an answer has been remembered, on the thread that did so; return what ends it."""
        return self._listeners.add(listener)

    def _drop(self, number: int) -> Remembered:
        kept = self._kept.pop(number)
        place, what, _, _ = kept.key
        del self._by_key[kept.key]
        self._allows.pop(number, None)
        patterns = self._patterns.get(place)
        if patterns is not None:
            patterns.drop(number)
            if not patterns:
                del self._patterns[place]
        kinds = self._kinds[place]
        kinds[what] -= 1
        if not kinds[what]:
            del kinds[what]
            if not kinds:
                del self._kinds[place]
        return kept.remembered


def _values(what: _What, call: ToolCall) -> str:
    """Return what the values of a call come to, as far as they count; 1, 1.0, True and ``"1"`` are four values."""
    if what == "tool":
        return ""
    if what == "call":
        return digest(call.name, call.args)
    return sha256(canonical_json({name: call.args[name] for name in what if name in call.args}))


def _no_such_number(number: object, there: Iterable[int], example: str) -> str:
    listed = shorten(", ".join(map(str, there)), _LONGEST)
    return fix_message(
        f"no remembered answer has the number {number!r}",
        f"give one of those there are: {listed}" if listed else "nothing is remembered",
        example,
    )
