"""Layers of policy files decide as a few lines of Python do, whatever they hold; and a deny only ever denies more."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from policy_agents import LAYERS, Ran, layered

from agentperm_nb import Agent

pytestmark = pytest.mark.law

TOOLS = ("read_a", "write_b", "send_c")
MODES = ("default", "acceptEdits", "bypassPermissions")
USERS = ("ann", "bob")

Rules = list[tuple[str, str]]
rules_of_a_section = st.lists(
    st.tuples(st.sampled_from(["deny", "allow", "ask"]), st.sampled_from([*TOOLS, "*", "write_*"])), max_size=4
)
sections = st.fixed_dictionaries(
    {
        "rules": rules_of_a_section,
        "mode": st.none() | st.sampled_from(MODES),
        "denied": st.lists(st.sampled_from(TOOLS), max_size=1),
    }
)
files = st.dictionaries(st.sampled_from([None, *USERS]), sections, max_size=3)
layers = st.dictionaries(st.sampled_from(LAYERS), files, max_size=3)


def text_of(file: dict[str | None, dict[str, Any]]) -> str:
    lines = ["version = 1"]
    for user in sorted(file, key=lambda name: (name is not None, name or "")):
        section = file[user]
        lines += [] if user is None else [f"[users.{user}]"]
        lines.append(f"rules = {[f'{verb} {tool}' for verb, tool in section['rules']]!r}")
        if section["mode"] is not None:
            lines += [f"mode = '{section['mode']}'", f"denied_tools = {section['denied']!r}"]
    return "\n".join(lines) + "\n"


def fits(pattern: str, tool: str) -> bool:
    return pattern in ("*", tool) or (pattern == "write_*" and tool.startswith("write_"))


def reference(
    layered_files: dict[str, dict[str | None, dict[str, Any]]],
    listed: Rules | None,
    session: Rules,
    tool: str,
    user: str,
) -> str:
    """What the page says: denies, the list, rules layer by layer, then modes; those of the user first."""
    mine = [
        section
        for layer in LAYERS
        for whose in (user, None)
        for section in [layered_files.get(layer, {}).get(whose)]
        if section is not None
    ]
    rules: Rules = [rule for section in mine for rule in section["rules"]] + session
    denied = any(verb == "deny" and fits(pattern, tool) for verb, pattern in [*rules, *(listed or [])])
    if denied or any(section["mode"] and tool in section["denied"] for section in mine):
        return "denied"
    for verb, pattern in [*(listed or []), *rules]:
        if verb != "deny" and fits(pattern, tool):
            return {"allow": "allowed", "ask": "asked"}[verb]
    mode = next((section["mode"] for section in mine if section["mode"] is not None), None)
    if mode is None:
        return "denied"
    return "asked" if mode == "default" and not tool.startswith("read_") else "allowed"


def agent_of(folder: Path, layered_files: Any, listed: Rules | None, session: Rules, user: str) -> Agent:
    for layer in LAYERS:
        if layer in layered_files or layer == "project":
            (folder / f"{layer}.toml").write_text(text_of(layered_files.get(layer, {})))
    given = {} if listed is None else {"permissions": written(listed)}
    agent = Agent(Ran(*TOOLS).tools, policy=layered(folder), user=user, **given)
    agent.session_rules.add(*written(session))
    return agent


def written(rules: Iterable[tuple[str, str]]) -> list[str]:
    return [f"{verb} {tool}" for verb, tool in rules]


@settings(max_examples=150)
@given(layers, st.none() | rules_of_a_section, rules_of_a_section, st.sampled_from(USERS))
def test_layers_decide_as_a_reference_does(layered_files: Any, listed: Rules | None, session: Rules, user: str) -> None:
    with TemporaryDirectory() as folder:
        agent = agent_of(Path(folder), layered_files, listed, session, user)
        for tool in TOOLS:
            expected = reference(layered_files, listed, session, tool, user)
            assert agent.explain(tool, path="notes.txt").verdict == expected, agent.policy_text()


@settings(max_examples=100)
@given(
    layers, rules_of_a_section, st.sampled_from([*LAYERS, "session"]), st.sampled_from(TOOLS), st.sampled_from(USERS)
)
def test_a_deny_that_is_added_to_any_layer_denies_and_opens_nothing(
    layered_files: Any, session: Rules, where: str, denied: str, user: str
) -> None:
    with TemporaryDirectory() as name:
        folder = Path(name)
        agent = agent_of(folder, layered_files, None, session, user)
        before = {tool: agent.explain(tool, path="a").verdict for tool in TOOLS}
        if where == "session":
            agent.session_rules.add(f"deny {denied}")
        else:
            file = {key: dict(section) for key, section in layered_files.get(where, {}).items()}
            common = file.setdefault(None, {"rules": [], "mode": None, "denied": []})
            common["rules"] = [*common["rules"], ("deny", denied)]
            (folder / f"{where}.toml").write_text(text_of(file))
        after = {tool: agent.explain(tool, path="a").verdict for tool in TOOLS}
        assert after == {**before, denied: "denied"}
