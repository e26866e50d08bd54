"""Tool calls: what an agent wants to run.

1. A `ToolCall` never changes. Its arguments are copied when it is made, and the copy is frozen at every level.
2. Two calls with equal names and arguments have equal digests, whatever the order of the keys.
3. A provider's id may repeat, within a turn too. It is carried along for the provider and is never a key of ours.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from agentperm_nb.errors import fix_message
from agentperm_nb.json_values import FrozenDict, call_text, freeze
from agentperm_nb.redaction import Redactor

__all__ = ["ToolCall", "format_call"]


@dataclass(frozen=True, slots=True, repr=False)
class ToolCall:
    """One call that an agent wants to make.

    Args:
        name: The tool's name, as the model wrote it.
        args: The arguments, a mapping from argument name to a JSON value.
        id: The provider's id of the call; it may be empty, and it may repeat.
        invalid: Why the arguments could not be read, for a call whose arguments are not a JSON object. Such a call is
            an input error: it is answered with this text, is never put to a person and never runs.
        destructive: Whether the call may destroy something, by what its tool says; set by the agent, else None.

    Raises:
        TypeError: A field has the wrong type.
        ValueError: The name is blank.
    """

    name: str
    args: Mapping[str, Any] = field(default_factory=FrozenDict)
    id: str = ""
    invalid: str | None = None
    destructive: bool | None = field(default=None, compare=False)

    def __post_init__(self) -> None:
        example = "ToolCall('read_file', {'path': 'notes.txt'}, id='call_1')"
        if not isinstance(self.name, str):
            raise TypeError(
                fix_message(
                    f"a tool's name is a string (got: {type(self.name).__name__})", "give the name of the tool", example
                )
            )
        if type(self.name) is not str:  # a subclass may compare otherwise than it reads
            object.__setattr__(self, "name", str.__str__(self.name))
        if not self.name.strip():
            raise ValueError(fix_message("a tool call has no name", "give the name of the tool", example))
        if not isinstance(self.args, Mapping):
            raise TypeError(
                fix_message(
                    f"the arguments of {self.name} are not a mapping (got: {type(self.args).__name__})",
                    "give a dict from argument name to value",
                    example,
                )
            )
        if not isinstance(self.id, str):
            raise TypeError(
                fix_message(
                    f"the id of a call is a string (got: {type(self.id).__name__})",
                    "give the provider's id, or leave it out",
                    example,
                )
            )
        try:
            object.__setattr__(self, "args", freeze(self.args))
        except RecursionError:
            raise ValueError(
                fix_message(
                    f"the arguments of {self.name} are nested too deeply, or contain themselves",
                    "give arguments that can be written as JSON",
                    example,
                )
            ) from None

    def __hash__(self) -> int:
        return hash(self.id)

    def __str__(self) -> str:
        return format_call(self)

    def __repr__(self) -> str:
        # What a cell shows is saved with the notebook: secrets are masked. `args` holds the real ones.
        shown = [repr(self.name), repr(Redactor().value(self.args))]
        shown += [f"id={self.id!r}"] if self.id else []
        shown += [f"invalid={Redactor().text(self.invalid)!r}"] if self.invalid is not None else []
        return f"ToolCall({', '.join(shown)})"

    @property
    def tool(self) -> str:
        """The tool's name, as objects with ``check(call, *, context, user_id)`` read it."""
        return self.name

    def is_destructive(self) -> bool:
        """Return whether the call may destroy something: unless its tool says that it does not."""
        return self.destructive is not False

    def marked(self, destructive: bool) -> ToolCall:
        """Return the same call, with what its tool says of it."""
        return replace(self, destructive=destructive)

    def with_args(self, args: Mapping[str, Any]) -> ToolCall:
        """Return the same call with other arguments."""
        return ToolCall(self.name, args, self.id)


def format_call(call: ToolCall) -> str:
    """Return ``name(key=value, …)`` with each value as JSON, or its ``repr`` where JSON has no form; nothing is cut.

    Nothing is masked either: `Redactor.call` does that.
    """
    return call_text(call.name, call.args)
