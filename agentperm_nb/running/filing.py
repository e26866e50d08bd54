"""Rules that a person wants remembered in the policy file of the project.

1. The text that the person was shown is written, and nothing else; no rule is taken out for it.
2. A denial goes to the end of the file's rules. An allow goes there too, or before the rule of this file that asks
   about the call. Where it could not help, since what asks comes before all rules of the file, it is not written.
3. What the file says then has to be a policy that the agent can take.
4. It counts from the next turn on; a denial counts for what has not started.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from agentperm_nb.errors import PolicyFileError
from agentperm_nb.permissions.arguments import ArgumentRule
from agentperm_nb.permissions.kinds import Permission
from agentperm_nb.permissions.notation import rule as read_rule
from agentperm_nb.permissions.policy_file import PolicyFile, parse_policy
from agentperm_nb.permissions.policy_layers import checked_for
from agentperm_nb.permissions.policy_writing import NotWrittenError, change_file, with_rule
from agentperm_nb.running.engine import NO_FILE, Filed
from agentperm_nb.tools import Tool

if TYPE_CHECKING:
    from agentperm_nb.permissions.policy_layers import Layer
    from agentperm_nb.running.policy_keeping import Policy

__all__ = ["file_rule"]


def file_rule(policy: Policy, rule: ArgumentRule, asking: Permission | None, tools: Iterable[Tool]) -> Filed:
    """Write a rule into the policy file of the project.

    Args:
        policy: The policy of the agent.
        rule: The rule.
        asking: The permission that asked about the call which the rule came from.
        tools: The tools of the agent, for which the file has to make sense.
    """
    layer = next((layer for layer in reversed(policy.layers) if layer.required), None)
    if layer is None:
        return NO_FILE
    text, check = str(rule), checked_for(tools)
    problem = "" if rule.verb == "deny" else _problem(policy, layer, asking)
    if problem:
        return Filed(f"{text} is not written into {layer.path}, where it could not help: {problem}")

    def change(old: str) -> str | None:
        there = _texts(old, layer)
        place = _place(there, asking) if rule.verb == "allow" else None
        if text in there[:place]:
            return None
        new = with_rule(old, text, before=place)
        check(_parsed(new, layer))
        return new

    try:
        change_file(layer.path, change)
    except (NotWrittenError, ValueError) as error:
        what = str(error).partition("\nFix: ")[0]
        return Filed(f"{text} could not be written into {layer.path}: {what}")
    return Filed("", str(layer.path))


def _problem(policy: Policy, layer: Layer, asking: Permission | None) -> str:
    """Return why an allow in a file could not help where a permission asks; an empty text where it can."""
    if any(asking is one for one in layer.file.sections[-1].others):
        return ""
    later = policy.layers[policy.layers.index(layer) + 1 :]
    behind = [one for other in later for one in other.file.others]
    behind += [one for other in policy.layers for one in other.file.modes]
    if any(asking is one for one in (*behind, *policy.session)):
        return ""
    whose = next((other for other in policy.layers if any(asking is one for one in other.file.others)), None)
    if whose is layer:
        return "what asks is a rule for one user, which comes before the common ones"
    if whose is not None:
        return f"what asks is a rule of another layer ({whose.name}), which comes before this file"
    return "what asks stands before all rules of policy files"


def _texts(text: str, layer: Layer) -> list[str]:
    """Return the common rules of a file, in order, each as it is written in the notation."""
    import tomllib

    _parsed(text, layer)
    return [str(read_rule(one)) for one in tomllib.loads(text).get("rules", [])]


def _parsed(text: str, layer: Layer) -> PolicyFile:
    """Return what a text says as a policy.

    Raises:
        NotWrittenError: It is none.
    """
    try:
        return parse_policy(text, layer.path, layer=layer.name)
    except PolicyFileError as error:
        raise NotWrittenError(f"it is no policy as it is now: {str(error).partition(chr(10))[0]}") from None


def _place(rules: list[str], asking: Permission | None) -> int | None:
    """Return the place of the rule that asks among those of a file, or None where it is not one of them."""
    text = str(asking) if isinstance(asking, ArgumentRule) and asking.verb == "ask" else ""
    return rules.index(text) if text in rules else None
