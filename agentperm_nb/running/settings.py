"""What an agent's settings must be; what is wrong with one is said when the agent is made."""

from __future__ import annotations

import inspect
import os
from typing import TYPE_CHECKING, Any

from agentperm_nb.errors import fix_message
from agentperm_nb.running.loops import Loop
from agentperm_nb.running.models import checked_model
from agentperm_nb.running.reporter import Reporter
from agentperm_nb.tools import Tool

if TYPE_CHECKING:
    from collections.abc import Mapping

    from agentperm_nb.permissions.deciding import PermissionList
    from agentperm_nb.permissions.policy_layers import PolicyFiles

__all__ = [
    "check_budget",
    "check_checks",
    "check_loop",
    "check_model",
    "check_names",
    "check_reporter",
    "check_rules",
    "check_turn_limit",
    "checked_folder",
    "checked_policy",
    "checked_protected",
]

_ALIKE = "Agent(tools, lookalikes='allow')"
_LOOP = "@loop(limit=30)\ndef coding(agent, state):\n    agent.think(state)"
_MODEL = "def model(messages, tools):\n    return 'Hello.'\n\nAgent(tools=[read_file], model=model)"
_LIMIT = "Agent(tools=[read_file], model=model, turn_limit=30)"


def check_model(model: object) -> None:
    """Refuse what is no model, or does not take messages and tools.

    Raises:
        TypeError: It is none.
    """
    if model is None:
        return
    checked_model(model)
    wrong = _cannot_take_two(model)
    if wrong is not None:
        problem = f"model= takes something to call with (messages, tools) (got: {wrong})"
        raise TypeError(fix_message(problem, "let it take both", _MODEL))


def check_budget(budget: object) -> None:
    """Refuse what is no budget.

    Raises:
        TypeError: It is none.
    """
    if budget is None:
        return
    from agentperm_nb.running.budget import Budget

    if not isinstance(budget, Budget):
        problem = f"budget= takes a Budget (got: {budget!r})"
        raise TypeError(fix_message(problem, "make one", "Agent(tools=[read_file], budget=Budget(max_calls=50))"))


def check_loop(loop: object) -> None:
    """Refuse what is no loop, or whose turn does not take an agent and a state.

    Raises:
        TypeError: It is none.
    """
    if loop is None:
        return
    if not callable(loop):
        raise TypeError(fix_message(f"loop= takes a loop (got: {loop!r})", "make one with @loop", _LOOP))
    wrong = _cannot_take_two(loop.body if isinstance(loop, Loop) else loop)
    if wrong is not None:
        problem = f"loop= takes a loop to call with (agent, state) (got: {wrong})"
        raise TypeError(fix_message(problem, "let it take both", _LOOP))


def check_turn_limit(limit: object) -> None:
    """Refuse what is no number of turns.

    Raises:
        TypeError: It is no whole number.
        ValueError: It is less than 1.
    """
    if isinstance(limit, bool) or not isinstance(limit, int):
        raise TypeError(
            fix_message(f"turn_limit= takes a number of turns (got: {limit!r})", "give a whole number", _LIMIT)
        )
    if limit < 1:
        raise ValueError(fix_message(f"turn_limit= takes 1 turn or more (got: {limit})", "give more", _LIMIT))


def check_names(tools: Mapping[str, Tool], lookalikes: object) -> None:
    """Refuse tools whose names are taken for each other, or are not what they seem.

    Args:
        tools: The tools, by name.
        lookalikes: What was given as ``lookalikes=``: ``"allow"`` lets them be.

    Raises:
        TypeError: `lookalikes` is not a text.
        ValueError: It is another word; or two names look alike, or one mixes alphabets or has unseen characters.
    """
    if not isinstance(lookalikes, str):
        raise TypeError(
            fix_message(f"lookalikes= takes a word (got: {lookalikes!r})", 'give "refuse", or "allow"', _ALIKE)
        )
    if lookalikes not in ("refuse", "allow"):
        raise ValueError(fix_message(f"lookalikes= got {lookalikes!r}", 'give "refuse", or "allow"', _ALIKE))
    if lookalikes == "allow" or (all(map(str.isascii, tools)) and len(set(map(str.lower, tools))) == len(tools)):
        return
    from agentperm_nb.permissions.lint import refused_names

    found = refused_names(tools)
    if found:
        raise ValueError(
            fix_message(found[0].message.rstrip("."), found[0].fix.replace("Agent(…", "Agent(tools"), _ALIKE)
        )


def check_rules(permissions: PermissionList, tools: Mapping[str, Tool]) -> None:
    """Refuse rules on arguments that can match no call of the tools that they are about.

    Args:
        permissions: The agent's own list.
        tools: The tools, by name.

    Raises:
        ValueError: There is one.
    """
    for permission in permissions.items:
        check = getattr(permission, "check_tools", None)
        if permission.by_arguments and check is not None:
            check(tools.values())


def checked_folder(folder: object) -> str | None:
    """Return the base folder of paths in arguments, absolute; None where it was left out.

    Raises:
        TypeError: It is no path.
        ValueError: There is no such folder.
    """
    if folder is None:
        return None
    text = os.fspath(folder) if isinstance(folder, str | os.PathLike) else None
    if not isinstance(text, str):
        problem = f"folder= takes the path of a folder (got: {folder!r})"
        raise TypeError(fix_message(problem, "give a path", "Agent(tools, folder='project')"))
    path = os.path.abspath(os.path.expanduser(text))
    if "\0" in text or not os.path.isdir(path):
        problem = f"folder= takes a folder, and there is none at {path}"
        raise ValueError(fix_message(problem, "give one that is there", "Agent(tools, folder='.')"))
    return path


def checked_policy(policy: object) -> PolicyFiles | None:
    """Return the policy files of an agent; None where it has none.

    Raises:
        TypeError: It is no path, no list of paths and no PolicyFiles.
        ValueError: A path is none.
    """
    if policy is None:
        return None
    from agentperm_nb.permissions.policy_layers import PolicyFiles

    return PolicyFiles.of(policy)


def checked_protected(protected: Any, folder: str | None) -> tuple[Any, ...]:
    """Return the protected paths of an agent, beside its policy files.

    Raises:
        TypeError: It is no list of paths.
        ValueError: A pattern can match nothing.
    """
    if isinstance(protected, tuple) and not protected:
        return ()
    from agentperm_nb.permissions.protected import guarded

    return guarded(protected, folder if folder is not None else os.getcwd())


def check_checks(own: PermissionList, *, policy: bool, protected: bool) -> None:
    """Refuse rules together with ``permissions=None``, which switches all checks off.

    Raises:
        ValueError: Both were given.
    """
    if own.unchecked and (policy or protected):
        what = "policy=" if policy else "protected="
        raise ValueError(
            fix_message(
                f"permissions=None switches all checks off, and {what} was given, which would not hold",
                f"leave out permissions=, or give {what[:-1]}={'None' if policy else '()'} as well",
                'Agent(tools, policy="agentperm.toml")',
            )
        )


def check_reporter(reporter: object) -> None:
    """Refuse what is no reporter.

    Raises:
        TypeError: It is none.
    """
    if reporter is not None and (isinstance(reporter, type) or not isinstance(reporter, Reporter)):
        raise TypeError(
            fix_message(
                f"reporter= takes a Reporter (got: {reporter!r})",
                "subclass Reporter, and give an object of it",
                "class Printing(Reporter):\n    def on_tool_end(self, state, call, result, outcome):\n"
                "        print(call.name, outcome.kind)",
            )
        )


def _cannot_take_two(function: Any) -> str | None:
    """Return the name and the arguments of what cannot be called with two; None of what can, or does not say."""
    try:
        signature = inspect.signature(function)
    except Exception:  # noqa: BLE001 - what has no signature, or a foreign one, is found when it is called
        return None
    try:
        signature.bind(None, None)
    except TypeError:
        return f"{getattr(function, '__name__', type(function).__name__)}{signature}"
    return None
