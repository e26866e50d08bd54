"""The rules of an agent as a text for people to read: in the notation, in the order of asking, with their layers."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from agentperm_nb.permissions.arguments import ArgumentRule
from agentperm_nb.permissions.kinds import DenyPermission
from agentperm_nb.permissions.steps import Step
from agentperm_nb.render import visible

if TYPE_CHECKING:
    from agentperm_nb.permissions.kinds import Permission
    from agentperm_nb.permissions.policy_layers import Layer
    from agentperm_nb.running.policy_keeping import Policy

__all__ = ["layer_text", "policy_text"]


def policy_text(policy: Policy) -> str:
    """Return the text: a rule a line, and the rest in comments."""
    with policy.lock:
        return "\n".join(visible(line) for line in _lines(policy))


def layer_text(layer: Layer) -> str:
    """Return what a layer is, in a few words."""
    if layer.since is None:
        return "not there"
    count = len(layer.file.rules)
    said = [f"{count} rule{'s' * (count != 1)}"]
    said += [f"mode {section.mode.original.mode.value}" + (f" for {section.user}" if section.user else "")
             for section in layer.file.sections if section.mode is not None]  # fmt: skip
    return ", ".join(said)


def _lines(policy: Policy) -> Iterator[str]:
    for layer in policy.layers:
        yield f"# {layer.name}: {layer.path} ({layer_text(layer)})"
        if layer.problem:
            yield f"#   not taken, the rules before it stay: {layer.problem_in_short}"
        if layer.caution:
            yield f"#   {layer.caution}"
    if not policy.layers:
        yield "# no policy files"
    if policy.own.unchecked:
        yield "# UNCHECKED: permissions=None, every call runs"
        return
    denies: list[Permission] = [one for layer in policy.layers for one in layer.file.denies]
    denies += [one for one in policy.session if isinstance(one, DenyPermission)]
    own = [item for item in policy.own.items if isinstance(item, DenyPermission)]
    if denies or own:
        yield from ("", "# denied, whatever the rest says:")
        yield from map(_line, denies)
        yield from (_line_of_own(item) for item in own)
    if policy.protected is not None:
        yield from ("", "# asked about before it is written, whatever the rest says:")
        yield from (f"#   {one.path}" for one in policy.protected.paths)
    others: list[Permission] = [one for layer in policy.layers for one in layer.file.others]
    others += [one for one in policy.session if not isinstance(one, DenyPermission)]
    mine = [item for item in policy.own.items if not isinstance(item, DenyPermission)]
    first, last = (mine, []) if policy.given else ([], mine)
    if first:
        yield from ("", "# then permissions=, in order:")
        yield from map(_line_of_own, first)
    modes = [one for layer in policy.layers for one in layer.file.modes]
    if others or modes:
        yield from ("", "# then, in order:")
        yield from map(_line, [*others, *modes])
    if last:
        yield from ("", "# then, since permissions= was left out:")
        yield from map(_line_of_own, last)
    yield from ("", "# what nothing decides is denied")


def _line(item: Permission) -> str:
    """Return a line for a rule or a mode of a layer."""
    layer, _, _ = str(item.name).partition(": ")
    if isinstance(item, ArgumentRule) and not hasattr(item, "user"):
        return f"{item}  # {layer}"
    said = str(item) if isinstance(item, ArgumentRule) else str(item.name).partition(": ")[2]
    if isinstance(item, Step):
        said = f"{said}: {item.original!r}"
    return f"# {said}  # {layer}"


def _line_of_own(item: Permission) -> str:
    if isinstance(item, ArgumentRule) and item.by_arguments:
        return f"{item}  # permissions="
    said = item.original if isinstance(item, Step) else item
    return f"# {said!r}"
