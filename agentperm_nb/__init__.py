"""Ask before an agent's tool runs, in the notebook where the agent runs, and learn from the answers.

Start with `Agent`::

    agent = Agent(tools=[read_file, write_file])
    turn = await agent.ause_tools(reply)
"""

from __future__ import annotations

import sys
from functools import cache
from importlib import import_module
from typing import TYPE_CHECKING, Any

from agentperm_nb import human as _human
from agentperm_nb.analysis.log import Log
from agentperm_nb.approvals.approvers import HandlerApprover, HumanApprover, NobodyApprover
from agentperm_nb.approvals.decisions import ApprovalDecision, Scope
from agentperm_nb.approvals.memory import Remembered
from agentperm_nb.approvals.patience import Patience
from agentperm_nb.approvals.policy_handlers import PolicyHandlerApprover
from agentperm_nb.approvals.requests import ApprovalRequest, Approver, EditError
from agentperm_nb.approvals.signals import Signals, wait_for_signal
from agentperm_nb.audit.changes import ChangeEvent, ChangeEventType
from agentperm_nb.audit.store import MemoryStore
from agentperm_nb.calls import ToolCall, format_call
from agentperm_nb.context import RunContext, get_run_context
from agentperm_nb.errors import (
    AgentPermError,
    BudgetExceeded,
    BudgetWarning,
    DeliveryError,
    LintError,
    LintWarning,
    NoHumanError,
    NotFinishedError,
    PermissionWarning,
    PolicyFileError,
    ToolError,
    ToolInputError,
    ToolTimeoutError,
)
from agentperm_nb.hints import Hints
from agentperm_nb.human import Human, parse_answer
from agentperm_nb.json_values import thaw
from agentperm_nb.mcp_tools import MCPTool, mcp_tools
from agentperm_nb.permissions.builtin import AllowByDefault, AllowByName, AllowByReadOnly, DecideByHuman, DenyByName
from agentperm_nb.permissions.handler import AsyncPermissionHandler, PermissionHandler
from agentperm_nb.permissions.kinds import AllowPermission, DecidePermission, DenyPermission, Permission
from agentperm_nb.permissions.mode_objects import PermissionDecision, Permissions
from agentperm_nb.permissions.modes import AllowAll, Mode, PerUserPermissions, StandardPermissions
from agentperm_nb.permissions.policy import PermissionPolicy, PermissionRule
from agentperm_nb.permissions.types import PermissionRequest, PermissionResult
from agentperm_nb.permissions.verdicts import Allowed, Ask, Denied, Verdict
from agentperm_nb.redaction import Redactor
from agentperm_nb.results import Image
from agentperm_nb.running.agent import Agent
from agentperm_nb.running.formats.reply import ProviderCall
from agentperm_nb.running.loops import Loop, adefault_loop, default_loop, loop, waiting_for_user
from agentperm_nb.running.messages import Message, TextBlock, ToolResultBlock
from agentperm_nb.running.models import AnthropicModel, OpenAIModel, OpenAIResponsesModel, ToolSpec
from agentperm_nb.running.outcomes import CallResult, ToolOutcome, ToolOutcomeKind
from agentperm_nb.running.reporter import PrintReporter, Reporter
from agentperm_nb.running.state import State
from agentperm_nb.running.subagents import AgentTool
from agentperm_nb.running.turn import PendingTurn, Turn, TurnTask
from agentperm_nb.tags import ToolMetadata, ToolTag
from agentperm_nb.tools import Tool, tool

if TYPE_CHECKING:
    from agentperm_nb.approvals.prompt import TextApprover
    from agentperm_nb.approvals.scopes import NotOffered, Suggestion, suggest_scopes, why_not_offered
    from agentperm_nb.notebook.human import NotebookHuman
    from agentperm_nb.permissions import arg
    from agentperm_nb.permissions.arguments import AllowByArguments, AskByArguments, DenyByArguments
    from agentperm_nb.permissions.builtin_rules import (
        ALLOW_READONLY,
        ASK_DESTRUCTIVE,
        ASK_FILE_SYSTEM,
        ASK_NETWORK,
        DENY_PRIVILEGED,
    )
    from agentperm_nb.permissions.explain import Explanation
    from agentperm_nb.permissions.lint import lint
    from agentperm_nb.permissions.linting.findings import Finding, Findings
    from agentperm_nb.permissions.mode_forms import resolve_permissions
    from agentperm_nb.permissions.notation import rule, rules
    from agentperm_nb.permissions.policy_layers import PolicyFiles
    from agentperm_nb.permissions.why_not import Change, WhyNot
    from agentperm_nb.running.budget import Budget
    from agentperm_nb.running.history import (
        ErrorEntry,
        Exchange,
        ExchangeEntry,
        ExtraDataEntry,
        MessageEntry,
        RunStartEntry,
        StateSnapshot,
        StopEntry,
        StoppedByBudget,
        StoppedByFinish,
        StoppedByLimit,
        StoppedByPermission,
        StoppedByUntil,
    )
    from agentperm_nb.running.would_cover import SeenCall, WouldCover

__all__ = [
    "ALLOW_READONLY",
    "ASK_DESTRUCTIVE",
    "ASK_FILE_SYSTEM",
    "ASK_NETWORK",
    "DENY_PRIVILEGED",
    "Agent",
    "AgentPermError",
    "AgentTool",
    "AllowAll",
    "AllowByArguments",
    "AllowByDefault",
    "AllowByName",
    "AllowByReadOnly",
    "AllowPermission",
    "Allowed",
    "AnthropicModel",
    "ApprovalDecision",
    "ApprovalRequest",
    "Approver",
    "Ask",
    "AskByArguments",
    "AsyncPermissionHandler",
    "Budget",
    "BudgetExceeded",
    "BudgetWarning",
    "CallResult",
    "Change",
    "ChangeEvent",
    "ChangeEventType",
    "DecideByHuman",
    "DecidePermission",
    "DeliveryError",
    "Denied",
    "DenyByArguments",
    "DenyByName",
    "DenyPermission",
    "EditError",
    "ErrorEntry",
    "Exchange",
    "ExchangeEntry",
    "Explanation",
    "ExtraDataEntry",
    "Finding",
    "Findings",
    "HandlerApprover",
    "Hints",
    "Human",
    "HumanApprover",
    "Image",
    "LintError",
    "LintWarning",
    "Log",
    "Loop",
    "MCPTool",
    "MemoryStore",
    "Message",
    "MessageEntry",
    "Mode",
    "NoHumanError",
    "NobodyApprover",
    "NotFinishedError",
    "NotOffered",
    "NotebookHuman",
    "OpenAIModel",
    "OpenAIResponsesModel",
    "Patience",
    "PendingTurn",
    "PerUserPermissions",
    "Permission",
    "PermissionDecision",
    "PermissionHandler",
    "PermissionPolicy",
    "PermissionRequest",
    "PermissionResult",
    "PermissionRule",
    "PermissionWarning",
    "Permissions",
    "PolicyFileError",
    "PolicyFiles",
    "PolicyHandlerApprover",
    "PrintReporter",
    "ProviderCall",
    "Redactor",
    "Remembered",
    "Reporter",
    "RunContext",
    "RunStartEntry",
    "Scope",
    "SeenCall",
    "Signals",
    "StandardPermissions",
    "State",
    "StateSnapshot",
    "StopEntry",
    "StoppedByBudget",
    "StoppedByFinish",
    "StoppedByLimit",
    "StoppedByPermission",
    "StoppedByUntil",
    "Suggestion",
    "TextApprover",
    "TextBlock",
    "Tool",
    "ToolCall",
    "ToolError",
    "ToolInputError",
    "ToolMetadata",
    "ToolOutcome",
    "ToolOutcomeKind",
    "ToolResultBlock",
    "ToolSpec",
    "ToolTag",
    "ToolTimeoutError",
    "Turn",
    "TurnTask",
    "Verdict",
    "WhyNot",
    "WouldCover",
    "adefault_loop",
    "arg",
    "default_loop",
    "format_call",
    "get_run_context",
    "lint",
    "loop",
    "mcp_tools",
    "parse_answer",
    "resolve_permissions",
    "rule",
    "rules",
    "suggest_scopes",
    "thaw",
    "tool",
    "wait_for_signal",
    "waiting_for_user",
    "why_not_offered",
]

__version__ = "0.1.0"


def _human_here() -> Any:
    """Return the panel in a notebook kernel, a prompt in a terminal, and None elsewhere."""
    ipython = sys.modules.get("IPython")
    shell = ipython.get_ipython() if ipython is not None else None
    if getattr(shell, "kernel", None) is not None:
        return _panel()
    stdin = sys.stdin
    return _prompt() if stdin is not None and not stdin.closed and stdin.isatty() else None


@cache
def _panel() -> NotebookHuman:
    from agentperm_nb.notebook.human import NotebookHuman

    return NotebookHuman()


@cache
def _prompt() -> TextApprover:
    from agentperm_nb.approvals.prompt import TextApprover

    return TextApprover()


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})


# Loaded by those who use them: a scheduled run never pays for a front end, nor an import for what a history holds.
_LATER = {
    "AllowByArguments": "agentperm_nb.permissions.arguments",
    "AskByArguments": "agentperm_nb.permissions.arguments",
    "Budget": "agentperm_nb.running.budget",
    "Change": "agentperm_nb.permissions.why_not",
    "DenyByArguments": "agentperm_nb.permissions.arguments",
    "Explanation": "agentperm_nb.permissions.explain",
    "NotOffered": "agentperm_nb.approvals.scopes",
    "SeenCall": "agentperm_nb.running.would_cover",
    "Suggestion": "agentperm_nb.approvals.scopes",
    "WouldCover": "agentperm_nb.running.would_cover",
    "Finding": "agentperm_nb.permissions.linting.findings",
    "Findings": "agentperm_nb.permissions.linting.findings",
    "NotebookHuman": "agentperm_nb.notebook.human",
    "PolicyFiles": "agentperm_nb.permissions.policy_layers",
    "TextApprover": "agentperm_nb.approvals.prompt",
    "WhyNot": "agentperm_nb.permissions.why_not",
    "arg": "agentperm_nb.permissions.arg",
    "lint": "agentperm_nb.permissions.lint",
    "resolve_permissions": "agentperm_nb.permissions.mode_forms",
    "rule": "agentperm_nb.permissions.notation",
    "rules": "agentperm_nb.permissions.notation",
    "suggest_scopes": "agentperm_nb.approvals.scopes",
    "why_not_offered": "agentperm_nb.approvals.scopes",
    **dict.fromkeys(
        ("ALLOW_READONLY", "ASK_DESTRUCTIVE", "ASK_FILE_SYSTEM", "ASK_NETWORK", "DENY_PRIVILEGED"),
        "agentperm_nb.permissions.builtin_rules",
    ),
    **dict.fromkeys(
        (
            "ErrorEntry",
            "Exchange",
            "ExchangeEntry",
            "ExtraDataEntry",
            "MessageEntry",
            "RunStartEntry",
            "StateSnapshot",
            "StopEntry",
            "StoppedByBudget",
            "StoppedByFinish",
            "StoppedByLimit",
            "StoppedByPermission",
            "StoppedByUntil",
        ),
        "agentperm_nb.running.history",
    ),
}


def __getattr__(name: str) -> Any:
    module = _LATER.get(name)
    if module is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    loaded = import_module(module)
    value = globals()[name] = getattr(loaded, name, loaded)  # a module has no name of its own in it
    return value


_human.set_default(_human_here)
