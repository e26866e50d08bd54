"""One call on its way through a turn."""

from __future__ import annotations

import json
from collections.abc import Generator, Mapping
from types import MappingProxyType
from typing import Any

from agentperm_nb.approvals.desk import Answer
from agentperm_nb.approvals.requests import ApprovalRequest
from agentperm_nb.calls import ToolCall
from agentperm_nb.hints import Hints
from agentperm_nb.json_values import canonical_json, digest_of, freeze
from agentperm_nb.permissions.deciding import Check, Decision
from agentperm_nb.permissions.kinds import Permission
from agentperm_nb.permissions.said import Said
from agentperm_nb.permissions.verdicts import Verdict
from agentperm_nb.redaction import Redactor
from agentperm_nb.running.outcomes import CallResult
from agentperm_nb.running.recording import hidden_values
from agentperm_nb.tools import Tool

__all__ = ["CallItem"]


class CallItem:
    """What the engine knows of one call of the turn in hand."""

    # Most of these stay as they are for most calls, so they are set on the class, and on the item when they change.
    call: ToolCall
    call_key: str
    position: int
    tool: Tool | None
    shown_args: Mapping[str, Any]
    """The arguments, masked; frozen, since views, requests and the log share them."""
    args_json: str = ""
    """`shown_args` as JSON."""
    digest: str = ""
    problem: str | None
    """What is wrong with the call itself, or None."""
    masked: bool
    """Whether anything of `shown_args` is masked."""
    hints: Hints | None
    edited: ToolCall | None = None
    """The call with the arguments that a person put in place of the model's."""
    decided_digest: str = ""
    """Digest of the call that was decided about: the edited one, where it was edited."""
    request: ApprovalRequest | None = None
    request_permission: Permission | None = None
    """The permission of the list that sent the call to a person."""
    protected: bool = False
    """Whether it was asked about as a call that would write a protected path, or a person made it one."""
    said: Said | None = None
    """What a policy or mode object said, which sent it there."""
    answered_for: object = None
    """Whoever was asked: the approver, or the permission that asked by itself. The answer stands in for nobody else."""
    answer: Answer | None = None
    asked: bool = False
    """Whether a person, or who stands in for one, was asked and allowed it."""
    parked: tuple[Generator[Check, Verdict | None, Decision], Check] | None = None
    passed: tuple[Permission, ...] = ()
    """Permissions that could have asked a person and had no opinion."""
    may_run: bool = False
    started: bool = False
    decided_by: str | None = None
    decided_kind: str = ""
    rule_names: Mapping[str, str] = MappingProxyType({})
    """The own names of the rules of policies, by what the log calls them; see `named`."""
    rule: str = ""
    """Name of the permission that sent the call to a person."""
    reason: str = ""
    error: BaseException | None = None
    finished_before: int = 0
    """How many calls of the agent had finished when this one was decided."""
    result: CallResult | None = None
    _hidden: tuple[ToolCall | None, tuple[str, ...]] | None = None

    def __init__(self, call: ToolCall, call_key: str, position: int, tool: Tool | None, redactor: Redactor) -> None:
        self.call, self.call_key, self.position, self.tool = call, call_key, position, tool
        self._secret = redactor.secret | tool.secret if tool is not None else redactor.secret
        shown = redactor.value(call.args, secret=tool.secret if tool is not None else ())
        self.shown_args = shown if shown is call.args else freeze(shown)
        self.problem = call.invalid
        try:
            text = canonical_json(call.args)
            self.digest = digest_of(call.name, text)
            self.masked = shown is not call.args and self.shown_args != call.args
            self.args_json = text if not self.masked and "\\u" not in text else _readable_json(self.shown_args)
        except (TypeError, ValueError, RecursionError) as error:
            self.masked, self.args_json = False, _readable_json(self.shown_args)
            self.problem = self.problem or f"the arguments are not JSON: {error}"
        self.hints = _hints(tool, call)

    @property
    def may_hide(self) -> bool:
        """Whether anything of the arguments may be hidden."""
        return self.masked or self.edited is not None or not self.digest

    @property
    def hidden(self) -> tuple[str, ...]:
        """The values, as texts, that are masked whole because of their names, of the model's call and of the edited."""
        if not self.may_hide:
            return ()
        if self._hidden is None or self._hidden[0] is not self.edited:
            both = [self.call.args] if self.edited is None else [self.call.args, self.edited.args]
            self._hidden = (self.edited, hidden_values(both, self._secret))
        return self._hidden[1]

    def take(self, decision: Decision) -> None:
        """Note who decided."""
        self.decided_by, self.decided_kind, self.error = self.named(decision), decision.kind, decision.error

    def named(self, decision: Decision) -> str | None:
        """Return what the log calls whoever decided; a rule of a policy has a name of its own besides."""
        name = None if decision.said is None else decision.said.rule_name
        if name is not None and decision.decided_by is not None:
            self.rule_names = {**self.rule_names, decision.decided_by: name}
        return decision.decided_by

    @property
    def final(self) -> ToolCall:
        """The call that runs if it runs: the edited one, else the model's."""
        return self.edited if self.edited is not None else self.call


def _readable_json(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False, sort_keys=True, separators=(",", ":"), default=repr)


def _hints(tool: Tool | None, call: ToolCall) -> Hints | None:
    if tool is None:
        return None
    try:
        return tool.hints_for(call.args)
    except Exception:  # noqa: BLE001 - the permission that needs the hints meets the error and says so
        return tool.hints
