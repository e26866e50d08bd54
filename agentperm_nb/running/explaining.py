"""Explaining a call of an agent: who would decide, and why; what stands in its way, and what would let it pass."""

from __future__ import annotations

import threading
from collections.abc import Mapping
from contextvars import copy_context
from dataclasses import replace
from typing import Any

from agentperm_nb.calls import ToolCall
from agentperm_nb.errors import fix_message
from agentperm_nb.json_values import same_json
from agentperm_nb.permissions.deciding import Decision, PermissionList, adecide, decide
from agentperm_nb.permissions.explain import Explanation, explanation_of
from agentperm_nb.permissions.kinds import Permission
from agentperm_nb.permissions.narrow_rules import known_by
from agentperm_nb.permissions.silence import ReadArgument
from agentperm_nb.permissions.verdicts import Ask
from agentperm_nb.permissions.why_not import WhyNot, changes_for
from agentperm_nb.running.driving import run_on_new_loop
from agentperm_nb.running.engine import Engine
from agentperm_nb.running.items import CallItem
from agentperm_nb.running.nesting import Level, latest_lists
from agentperm_nb.running.recording import hidden_values, without
from agentperm_nb.running.state import State
from agentperm_nb.tools import Tool

__all__ = ["call_of", "explain_call", "why_not_call"]


def explain_call(engine: Engine, permissions: PermissionList, state: State, call: ToolCall) -> Explanation:
    """Return who would decide a call and why; nobody is asked and nothing runs."""
    found = engine.tools.get(call.name)
    problem = CallItem(call, "", 0, found, engine.redactor).problem or ""
    decision: Decision | None = None
    if found is None:
        problem = problem or f"unknown tool {call.name!r}. Available tools: {', '.join(engine.tools) or '(none)'}"
    elif not problem:
        decision = _decide_here(permissions, state, call, found)
        problem = "; ".join(f"{field}: {text}" if field else text for field, text in found.check_args(call.args))
    secret = engine.redactor.secret | (found.secret if found is not None else frozenset[str]())
    hidden = hidden_values(call.args, secret)
    made = explanation_of(
        permissions, call, decision, tool=found, problem=problem, redactor=engine.redactor, secret=secret
    )
    rows = tuple((*row[:3], without(row[3], hidden)) for row in made.rows)
    readings = tuple(ReadArgument(*without(list(row), hidden)) for row in made.readings)
    return replace(made, reason=without(made.reason, hidden), rows=rows, readings=readings)


def why_not_call(
    engine: Engine,
    permissions: PermissionList,
    state: State,
    call: ToolCall,
    above: tuple[Level, ...],
    *,
    own: PermissionList,
    given: bool,
) -> WhyNot:
    """Return what stands in the way of a call, and the smallest change of the agent's rules that would let it pass.

    Args:
        engine: What the turns of the agent share.
        permissions: The list that decides.
        state: The State of the run.
        call: The call.
        above: The runs above.
        own: The agent's own list, without its policy files and its session.
        given: Whether the agent was given a list.
    """
    said = explain_call(engine, permissions, state, call)
    made = WhyNot(said.call, said.verdict, None if said.verdict == "allowed" else said.decided_by, said.reason)
    if said.verdict == "allowed":
        by = f" by {said.decided_by}" if said.decided_by else ""
        return replace(made, note=f"It passes: nothing is in its way, it is allowed{by}.")
    if said.verdict == "input_error" or engine.tools[call.name].check_args(call.args):
        return replace(made, note="It is no valid call, so no rule can let it pass.")
    if above and not given:
        return replace(made, note="This agent was given no list of its own: the list of the run above decides.")
    tool = engine.tools[call.name]
    lists = [*(level.permissions for level in above), *latest_lists(above)]
    masked = engine.redactor.value(call.args, secret=tool.secret)
    found = changes_for(
        engine.own.items,
        call,
        tool,
        engine.tools.values(),
        lambda items: _decide_here(PermissionList(items, above=lists), state, call, tool),
        known=known_by(
            call, tool, [name for name, value in call.args.items() if not same_json(masked.get(name), value)]
        ),
        own=own.items,
        above={id(item) for one in lists for item, _ in one.order},
    )
    hidden = hidden_values(call.args, engine.redactor.secret | tool.secret)
    changes = tuple(
        replace(change, text=without(change.text, hidden), rules=tuple(without(list(change.rules), hidden)))
        for change in found.changes
    )
    listed = None if found.items is None else PermissionList(found.items).given
    return replace(made, changes=changes, note=without(found.note, hidden), permissions=listed)


def call_of(tool: Any, args: Mapping[str, Any] | None, kwargs: Mapping[str, Any]) -> ToolCall:
    """Return the call that is asked about; see `Agent.explain`."""
    example = "agent.explain('write_file', path='notes.txt')"
    if args is not None and kwargs:
        raise TypeError(fix_message("the arguments were given twice", "give args= or keywords", example))
    given = args if args is not None else kwargs
    if isinstance(tool, ToolCall) and not given:
        return tool
    if isinstance(tool, Mapping) and not given and isinstance(tool.get("name"), str):
        arguments: Any = next((tool[key] for key in ("args", "input", "arguments") if key in tool), {})
        return ToolCall(tool["name"], arguments)
    if isinstance(tool, Tool):
        return ToolCall(tool.name, given)
    if isinstance(tool, str):
        return ToolCall(tool, given)
    raise TypeError(
        fix_message(f"explain takes the name of a tool, or a ToolCall (got: {tool!r})", "give the name", example)
    )


def _decide_here(permissions: PermissionList, state: State, call: ToolCall, tool: Tool) -> Decision:
    """Decide without asking anybody, also where a permission checks only asynchronously."""
    asked = Ask("would be asked")
    if all(type(item).check is not Permission.check for item, _ in permissions.order):
        return decide(permissions, state, call, tool, stand_in=asked)
    found: list[Decision | BaseException] = []

    async def work() -> Decision:
        return await adecide(permissions, state, call, tool, stand_in=asked)

    def run() -> None:
        try:
            found.append(run_on_new_loop(work))
        except BaseException as error:  # noqa: BLE001 - raised again on the calling thread
            found.append(error)

    thread = threading.Thread(target=copy_context().run, args=(run,), name="agentperm-explain")
    thread.start()
    thread.join()
    outcome = found[0]
    if isinstance(outcome, BaseException):
        raise outcome
    return outcome
