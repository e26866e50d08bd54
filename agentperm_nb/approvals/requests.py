"""A request: one call that a person, or whoever stands in for one, is asked about."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any, Protocol, runtime_checkable

from agentperm_nb.approvals.decisions import ApprovalDecision, Scope
from agentperm_nb.approvals.patience import Patience
from agentperm_nb.calls import ToolCall
from agentperm_nb.context import RunContext
from agentperm_nb.hints import Hints
from agentperm_nb.json_values import canonical_json, same_json
from agentperm_nb.permissions.kinds import Permission
from agentperm_nb.permissions.policy import PermissionRule
from agentperm_nb.render import MASK
from agentperm_nb.tools import Tool

__all__ = ["ApprovalRequest", "Approver", "BlockingApprover", "EditError"]


class EditError(ValueError):
    """Edited arguments that cannot be sent; `problems` holds (field, problem) pairs."""

    def __init__(self, problems: list[tuple[str, str]]) -> None:
        super().__init__("; ".join(f"{name}: {problem}" if name else problem for name, problem in problems))
        self.problems = problems


@dataclass(frozen=True, eq=False)
class ApprovalRequest:
    """One call that is asked about.

    A view shows `shown_args`, never `call.args`: secrets are masked in the former.
    """

    id: str
    """Ours, random: an answer names it."""
    call: ToolCall = field(repr=False)
    """The call as the model made it. Its arguments may hold secrets."""
    call_key: str
    """Our key of the call: run, turn and position."""
    tool: Tool = field(repr=False)
    """The tool that would run."""
    shown_args: Mapping[str, Any]
    """The arguments with secrets masked."""
    question: str
    """The heading, masked: a permission's own ``question()``, else ``Run name?``."""
    rule: str
    """Name of the permission that sent the call here."""
    reason: str
    """Why it did, masked."""
    hints: Hints
    """The tool's hints for this call."""
    agent_path: tuple[str, ...]
    """Names of the agents from the outermost to the one that asks."""
    user: str | None
    """On whose behalf the agent works."""
    position: int = 0
    """Place of the call in its turn, from 0."""
    asked_at: datetime = field(default_factory=lambda: datetime.now(UTC))
    """When it was asked (UTC)."""
    ran_before: datetime | None = None
    """When the very same call has already run in this agent, if it has: the cell may have been run again."""
    flags: tuple[str, ...] = ()
    """What a reader should be told about the texts: see `agentperm_nb.render.flags`."""
    prompt: str = ""
    """The question in full, masked, for a classic Human, who is given nothing else."""
    state: Any = field(default=None, repr=False)
    """The State of the run that made the call, for a classic Human."""
    policy_rule: PermissionRule | None = field(default=None, repr=False)
    """The rule of a policy that sent the call here."""
    bypass: bool = False
    """Whether a mode of the agent is BYPASS: calls that reach it run unasked."""
    session: str = ""
    """Id of the session, for whoever answers by a signal."""
    patience: Patience | None = field(default=None, repr=False)
    """How long it waits, and when somebody is reminded of it; None for as long as it takes."""
    in_turn: bool = False
    """Whether its time runs from when its turn has come, and not from when it was put on the desk."""
    expires_at: datetime | None = None
    """When it is denied for want of an answer (UTC), as far as that is known: where it is asked in its turn, the desk
    knows it from then on. See `Desk.begin_time`."""
    permission: Permission | None = field(default=None, repr=False)
    """The permission that sent the call here; of a policy or a mode object, its step."""
    context: RunContext | None = field(default=None, repr=False)
    """The run that the call belongs to."""
    would_cover: Callable[[Scope], Any] | None = field(default=None, repr=False)
    """Says which calls of the run a scope would cover, were the answer remembered; see `Agent.would_cover`."""

    def __post_init__(self) -> None:
        if self.expires_at is None and self.patience is not None and not self.in_turn:
            object.__setattr__(self, "expires_at", self.patience.expires_at(self.asked_at))

    def restore(self, edited: Mapping[str, Any]) -> dict[str, Any]:
        """Return edited arguments with the real value put back wherever a masked one was left as it was shown.

        Raises:
            EditError: ``[masked]`` stands where there is no telling which value it stood for, or the arguments do not
                fit the tool's schema.
        """
        problems: list[tuple[str, str]] = []
        try:
            restored = _restore(edited, self.shown_args, self.call.args, "", problems)
            problems = problems or self.tool.check_args(restored)
        except RecursionError:
            problems = [("", "the arguments are nested too deeply")]
        if problems:
            raise EditError(problems)
        return dict(restored)


def _restore(edited: Any, shown: Any, real: Any, path: str, problems: list[tuple[str, str]]) -> Any:
    if same_json(edited, shown):
        return real
    if isinstance(edited, Mapping):
        # Names may be masked too: real and shown have theirs in the same order.
        alike = isinstance(shown, Mapping) and isinstance(real, Mapping) and len(shown) == len(real)
        names = dict(zip(shown, real, strict=True)) if alike else {}
        restored: dict[str, Any] = {}
        for name, item in edited.items():
            field = f"{path}.{name}" if path else str(name)
            if name in names:
                restored[names[name]] = _restore(item, shown[name], real[names[name]], field, problems)
                continue
            if MASK in name:
                problems.append((path, f"the name {name!r} {_NOT_TOLD}"))
            restored[name] = _restore(item, None, None, field, problems)
        return restored
    if isinstance(edited, list | tuple):
        return _restore_list(edited, shown, real, path, problems)
    if isinstance(edited, str) and MASK in edited:
        problems.append((path, f"{MASK} {_NOT_TOLD}"))
    return edited


_NOT_TOLD = "stands for a hidden value that cannot be told here: type the value itself"


def _restore_list(
    edited: Sequence[Any], shown: Any, real: Any, path: str, problems: list[tuple[str, str]]
) -> list[Any]:
    before: list[tuple[Any, Any]] = []
    if isinstance(shown, list | tuple) and isinstance(real, list | tuple) and len(shown) == len(real):
        before = list(zip(shown, real, strict=True))
    # What an item looks like tells which it is, when only one value looks like that. Its place tells it as long as
    # nothing was moved, put in or taken out.
    values: dict[str | None, list[Any]] = {}
    for look, value in before:
        values.setdefault(_text(look), []).append(value)
    told = {
        text
        for text, alike in values.items()
        if text is not None and all(same_json(value, alike[0]) for value in alike)
    }
    texts = [_text(item) for item in edited]
    in_place = len(before) == len(edited) and all(
        text not in told or text == _text(look) for text, (look, _) in zip(texts, before, strict=True)
    )
    restored: list[Any] = []
    for index, (item, text) in enumerate(zip(edited, texts, strict=True)):
        if text in told:
            restored.append(values[text][0])
        else:
            look, value = before[index] if in_place else (None, None)
            restored.append(_restore(item, look, value, f"{path}[{index}]", problems))
    return restored


def _text(value: Any) -> str | None:
    try:
        return canonical_json(value)
    except (TypeError, ValueError, RecursionError):
        return None


@runtime_checkable
class Approver(Protocol):
    """Whoever answers requests: a panel, a prompt, a handler, a classic Human, nobody.

    It may also have ``patience``, a `Patience`: how long its requests wait. One that asks one after the other sets
    ``in_turn = True`` and works inside ``the_desk.taking_turns(requests)``, so that the time of each begins with its
    turn.
    """

    batch: bool
    """Whether all requests of a turn come in one `areview`; else each comes in one of its own, at the same time."""
    answered_by: str
    """What the log says: ``human``, ``handler`` or ``nobody``."""

    def areview(self, requests: Sequence[ApprovalRequest]) -> AsyncIterator[tuple[str, ApprovalDecision]]:
        """Answer the requests, in any order; yield (request id, decision).

        Answers may also reach the desk another way (a click); then nothing needs to be yielded for them. When the
        iterator ends, or raises, the requests that are still open are denied. It is closed when all are answered.
        """
        ...


@runtime_checkable
class BlockingApprover(Approver, Protocol):
    """An approver that has to work on the calling thread of a blocking ``use_tools``, such as the panel."""

    def attend(self, requests: Sequence[ApprovalRequest]) -> AbstractContextManager[Callable[[float], None]]:
        """Put the requests to the person while inside the ``with`` block; answers go to the desk.

        The block is given ``serve(seconds)``: it handles what arrives, for at most that long, and returns early when
        it has handled something. ``KeyboardInterrupt`` gets through it.
        """
        ...
