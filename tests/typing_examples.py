"""Code as a user writes it, for type checkers: `test_types.py` has mypy and basedpyright look at it, nobody runs it.

What a name is said to be here is what an editor shows while one types.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any, assert_type

import pandas as pd

from agentperm_nb import (
    ASK_DESTRUCTIVE,
    Agent,
    AllowByDefault,
    AllowByName,
    AllowByReadOnly,
    Allowed,
    AllowPermission,
    ApprovalDecision,
    ApprovalRequest,
    Ask,
    CallResult,
    DecideByHuman,
    DecidePermission,
    Denied,
    DenyByArguments,
    DenyByName,
    DenyPermission,
    Explanation,
    Finding,
    Findings,
    Hints,
    Human,
    PendingTurn,
    PermissionPolicy,
    PermissionRequest,
    PermissionResult,
    PermissionRule,
    PolicyFileError,
    PolicyFiles,
    Scope,
    State,
    StoppedByBudget,
    StoppedByPermission,
    Tool,
    ToolCall,
    ToolError,
    ToolMetadata,
    ToolOutcome,
    ToolOutcomeKind,
    ToolTag,
    Turn,
    TurnTask,
    Verdict,
    WhyNot,
    WouldCover,
    arg,
    lint,
    rules,
    suggest_scopes,
    thaw,
    tool,
    why_not_offered,
)
from agentperm_nb.permissions.protected import ProtectedPaths
from agentperm_nb.testing import FakeHuman, Recording, tool_call

# --- tools: a decorated function is a Tool, whichever way it is decorated


@tool
def now() -> str:
    return "12:00"


@tool(read_only=True, secret=["token"])
def read_file(path: str, token: str = "") -> str:
    return path + token


def hints(args: dict[str, Any]) -> Hints | None:
    return Hints(read_only=args["mode"] == "r")


@tool(hints_for=hints)
async def open_file(path: str, mode: str = "r") -> bytes:
    return f"{path}{mode}".encode()


def write_file(path: str, content: str) -> str:
    return path + content


assert_type(now, Tool)
assert_type(read_file, Tool)
assert_type(open_file, Tool)
assert_type(read_file.hints, Hints)
assert_type(read_file.hints_for({"path": "a"}), Hints)

# --- permissions: an object is of its own class, and a check says a verdict or nothing


class NoLargeTransfers(DenyPermission):
    blocking = False

    def __init__(self, limit: float, *, name: str | None = None) -> None:
        self.limit = limit
        self.name = name

    def check(self, state: State, call: ToolCall, tool: Tool) -> Denied | None:
        if call.name == "transfer" and call.args["amount"] > self.limit:
            return Denied(f"above {self.limit}")
        return None


class DuringWork(AllowPermission):
    async def acheck(self, state: State, call: ToolCall, tool: Tool) -> Allowed | None:
        return Allowed() if tool.name == "read_file" else None


class AskTwice(DecidePermission):
    def check(self, state: State, call: ToolCall, tool: Tool) -> Verdict | None:
        if call.name in {earlier.call.name for earlier in state.history if isinstance(earlier, CallResult)}:
            return Ask(f"{call.name} again?")
        raise ToolError("not yet")


class AskPolitely(DecideByHuman):
    def question(self, call: ToolCall, tool: Tool) -> str:
        return f"May I {call.name}?"


assert_type(NoLargeTransfers(10), NoLargeTransfers)
assert_type(DenyByName(["delete_*"], reason="no"), DenyByName)
assert_type(DenyByName(["delete_*"]).patterns, tuple[str, ...])
assert_type(AllowByName(["read_*"]).name, str | None)
assert_type(AllowByReadOnly(trust_mcp=True).trust_mcp, bool)
assert_type(AllowByDefault(), AllowByDefault)
assert_type(AskPolitely(FakeHuman(["yes"])), AskPolitely)
assert_type(NoLargeTransfers(10).check(State(), ToolCall("transfer"), read_file), Denied | None)
assert_type(AllowByDefault().check(None, ToolCall("now"), now), Verdict | None)
assert_type(Denied("no", stop=True).reason, str)
assert_type(Recording(AllowByDefault()).verdicts, list[Verdict | None])
assert_type(FakeHuman(["yes"]).questions, list[str])


class Clerk(Human):
    def __init__(self, desk: int) -> None:
        self.desk = desk

    async def aask(self, state: State, prompt: str, returns: Any = str) -> Any:
        return "no"


assert_type(Clerk(3).desk, int)
assert_type(DecideByHuman(human=Clerk(3)), DecideByHuman)

# --- rule tables: results may be texts, handlers sync or async


@tool(tags=["network", ToolTag.SLOW], custom_tags={"billing"}, namespace="books")
def invoice(order: str) -> str:
    return order


def is_billing(tool: Tool, parameters: dict[str, Any]) -> bool:
    assert_type(tool.metadata, ToolMetadata)
    return "billing" in tool.metadata.custom_tags and ToolTag.NETWORK in tool.metadata.tags


class Careful:
    def handle(self, request: PermissionRequest) -> PermissionResult:
        assert_type(request.parameters, dict[str, Any])
        return PermissionResult.DENY if request.user_id is None else PermissionResult.ALLOW


class CarefulLater:
    async def handle(self, asked: PermissionRequest) -> ApprovalDecision | bool:
        return asked.tool_name.startswith("draft_") or ApprovalDecision("deny", reason="not today")


rule = PermissionRule("billing", is_billing, "ask", reason="it costs")
policy = PermissionPolicy([rule, ASK_DESTRUCTIVE], fallback="allow", handler=Careful(), name="books")
policy.rules.append(PermissionRule("last", lambda tool, parameters: tool.namespace == "books", PermissionResult.DENY))
assert_type(rule.result, PermissionResult)
assert_type(policy.fallback, PermissionResult | None)
assert_type(policy.evaluate(invoice, {"order": "1"}), PermissionRule | PermissionResult | None)
assert_type(policy.denies(), list[DenyPermission])
assert_type(rule.matches(invoice, {}), bool)
policy.fallback = None
policy.fallback = "deny"
policy.handler = CarefulLater()
assert_type(Agent([invoice], permissions=[*policy.denies(), policy], permission_handler=CarefulLater()), Agent)

# --- rules on arguments

no_secrets = DenyByArguments("read_file", path="**/.env", token=arg.present, reason="no secrets")
assert_type(no_secrets.check(None, tool_call("read_file", path="a"), read_file), Verdict | None)
assert_type(no_secrets.notation, str)
assert_type(no_secrets.problems_with(read_file), list[str])
assert_type(no_secrets.reading_of(tool_call("read_file", path="a"), read_file)[0].problem, str)
assert_type(str(rules("deny a\ndeny b")[0].conditions[0].field), str)
assert_type(Agent([read_file], permissions=["deny read_file(path=**/.env)", no_secrets]), Agent)

# --- an agent: tools may be functions, permissions one or a list


def handler(request: ApprovalRequest) -> ApprovalDecision | bool:
    assert_type(request.call, ToolCall)
    if request.call.name == "write_file":
        return ApprovalDecision("edit", edited_args={**thaw(request.call.args), "path": "copy.txt"})
    if request.call.name == "read_file":
        return ApprovalDecision("allow", approver="ann")
    if request.call.name == "look":
        return ApprovalDecision("remember_allow", scope=Scope("arguments", arguments=["path"]))
    if request.call.name == "move":
        for scope, words in suggest_scopes(request, lasts="session"):
            assert_type((scope, words), tuple[Scope, str])
        assert_type([one.why for one in why_not_offered(request)], list[str])
        return ApprovalDecision("remember_allow", scope=Scope("pattern", "file", rule="move(path=project/**)"))
    if request.call.name == "read_secret":
        return ApprovalDecision("remember_deny", scope=Scope("pattern", rule=no_secrets))
    return ApprovalDecision("remember_allow", scope=Scope("tool", lasts="session"))


agent = Agent(
    [read_file, write_file],
    permissions=[NoLargeTransfers(100), AllowByReadOnly(), AskPolitely()],
    approval_handler=handler,
)
unchecked = Agent([read_file], permissions=None)
single = Agent([read_file], permissions=AllowByDefault(), human=None)

assert_type(agent.permissions, tuple[Any, ...])
assert_type(agent.tools, tuple[Tool, ...])
assert_type(agent.state, State)
assert_type(agent.explain("read_file", path="a"), Explanation)
assert_type(agent.explain("read_file", path="a").frame(), pd.DataFrame)
assert_type(agent.why_not("write_file", path="a"), WhyNot)
assert_type(agent.why_not("write_file", path="a").changes[0].rules, tuple[str, ...])
assert_type(agent.lint(), Findings)
assert_type(lint([DenyByName(["delete_*"])], [read_file], ignore=["bypass-on"])[0], Finding)
assert_type([finding.code for finding in agent.lint().warnings], list[str])
lenient = agent.copy(lookalikes="allow")
assert_type(agent.audit.calls(), pd.DataFrame)
assert_type(agent.would_cover("write_file(path=project/**)"), WouldCover)
assert_type([one.covered for one in agent.would_cover(no_secrets)], list[bool | None])

# --- a turn


async def loop() -> None:
    pending = agent.ause_tools([tool_call("read_file", path="a.txt")])
    assert_type(pending, PendingTurn)
    turn = await pending
    assert_type(turn, Turn)
    assert_type(await asyncio.create_task(agent.ause_tools([])), Turn)
    task = agent.start([tool_call("read_file", path="a.txt")])
    assert_type(task, TurnTask)
    assert_type(await task, Turn)
    assert_type(task.turn, Turn)


assert_type(asyncio.run(agent.ause_tools([])), Turn)
turn = agent.use_tools([ToolCall("read_file", {"path": "a.txt"}, id="call_1")])
assert_type(turn, Turn)
assert_type(turn.calls, tuple[ToolCall, ...])
assert_type(turn.results, tuple[CallResult, ...])
assert_type(turn.stopped, StoppedByPermission | StoppedByBudget | None)
assert_type(turn.to_messages(with_reply=True), list[dict[str, Any]])
assert_type(turn.frame(), pd.DataFrame)
for result in turn.results:
    assert_type(result.outcome, ToolOutcome)
    assert_type(result.outcome.kind, ToolOutcomeKind)
    assert_type(result.call.args, Mapping[str, Any])
    assert_type(result.decided_by, str | None)


# --- policy files


def with_files() -> None:
    files = PolicyFiles("agentperm.toml", Path("team.toml"), administrator=None, user="mine.toml")
    for policy in ("agentperm.toml", Path("agentperm.toml"), ["a.toml", "b.toml"], files, None):
        Agent([read_file], policy=policy, folder=Path("job"), protected=["audit.db", Path("keys")])
    guarded = Agent([read_file], policy=files)
    guarded.session_rules.add("deny read_file(path=**/.env)", *rules("ask read_file"))
    assert_type([str(one) for one in guarded.session_rules], list[str])
    assert_type(guarded.policy_text(), str)
    assert_type(guarded.policy.protected, ProtectedPaths | None)
    for layer in guarded.policy.layers:
        assert_type((layer.name, layer.path, layer.problem), tuple[str, Path, str])
    try:
        guarded.copy(policy="other.toml")
    except PolicyFileError as error:
        assert_type(error.path, os.PathLike[str])


# --- what a type checker refuses: both say so when one of these is no longer an error


def wrong() -> None:
    Denied(None)  # type: ignore[arg-type]
    Allowed("yes")  # type: ignore[call-arg]
    ApprovalDecision("maybe")  # type: ignore[arg-type]
    agent.permissions = ()  # type: ignore[misc]
    print(agent.ause_tools([tool_call("now")]).stopped)  # type: ignore[attr-defined]
