"""What a rule of a policy says of a call, and what its handler is told, in the words of a rule table."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from dataclasses import KW_ONLY, dataclass, field
from datetime import datetime
from enum import Enum
from typing import Any

from agentperm_nb.errors import fix_message
from agentperm_nb.json_values import freeze, thaw
from agentperm_nb.redaction import Redactor
from agentperm_nb.tags import ToolMetadata

__all__ = ["PermissionRequest", "PermissionResult", "checked_result"]


class PermissionResult(str, Enum):  # noqa: UP042 - str() is published as "PermissionResult.ALLOW", unlike StrEnum's
    """What a rule of a policy says, and one of the forms in which a handler may answer."""

    ALLOW = "allow"
    DENY = "deny"
    ASK = "ask"


@dataclass(frozen=True, repr=False)
class PermissionRequest:
    """What the handler of a policy is told about a call that a rule asks about.

    Args:
        tool_name: Name of the tool.
        parameters: The arguments; the request holds an editable copy, and what is done to it changes no call.
        reason: The rule's reason.
        rule_name: Name of the rule; empty when the fallback of the policy asks.
        metadata: What is known of the tool.
        call_key: Our key of the call: run, turn and position.
        call_id: The provider's id of the call; it may repeat.
        run_id: Id of the run.
        session_id: Id of the session.
        user_id: On whose behalf the agent works.
        agent_path: Names of the agents from the outermost to the one whose call it is.
        asked_at: When it was asked (UTC).
        secret: Names of arguments that the repr masks, besides those that look like secrets.

    Raises:
        TypeError: A value has the wrong type.
    """

    tool_name: str
    parameters: dict[str, Any] = field(default_factory=dict)
    reason: str = ""
    rule_name: str = ""
    metadata: ToolMetadata = field(default_factory=ToolMetadata)
    _: KW_ONLY
    call_key: str = ""
    call_id: str = ""
    run_id: str = ""
    session_id: str = ""
    user_id: str | None = None
    agent_path: tuple[str, ...] = ()
    asked_at: datetime | None = None
    secret: frozenset[str] = frozenset()

    def __post_init__(self) -> None:
        texts = ("tool_name", "reason", "rule_name", "call_key", "call_id", "run_id", "session_id")
        wrong = next((name for name in texts if not isinstance(getattr(self, name), str)), None)
        expected = "a text"
        if wrong is None and not isinstance(self.parameters, Mapping):
            wrong, expected = "parameters", "a dict from argument name to value"
        if wrong is None and not isinstance(self.metadata, ToolMetadata):
            wrong, expected = "metadata", "the metadata of a tool"
        if wrong is not None:
            raise TypeError(
                fix_message(
                    f"{wrong}= of a PermissionRequest takes {expected} (got: {type(getattr(self, wrong)).__name__})",
                    f"give {expected}",
                    "PermissionRequest('delete_file', {'path': 'notes.txt'}, reason='it cannot be undone')",
                )
            )
        object.__setattr__(self, "parameters", thaw(freeze(self.parameters)))
        object.__setattr__(self, "agent_path", tuple(self.agent_path))
        object.__setattr__(self, "secret", frozenset(self.secret))

    def __repr__(self) -> str:
        # What a cell shows is saved with the notebook: secrets are masked. `parameters` holds the real ones.
        redactor = Redactor()
        shown = [repr(self.tool_name), repr(redactor.value(self.parameters, secret=self.secret))]
        shown += [
            f"{name}={redactor.text(getattr(self, name))!r}" for name in ("reason", "rule_name") if getattr(self, name)
        ]
        shown += [f"call_key={self.call_key!r}"] if self.call_key else []
        return f"PermissionRequest({', '.join(shown)})"

    def model_dump(self) -> dict[str, Any]:
        """Return all fields as a dict, those of the metadata as a dict inside; secrets are not masked."""
        return dataclasses.asdict(self)


def checked_result(what: str, result: object, example: str) -> PermissionResult:
    """Return the result that a value stands for: a `PermissionResult`, or its text.

    Args:
        what: Whose result it is, for the error.
        result: What was given.
        example: How it is given rightly.

    Raises:
        ValueError: It is neither.
    """
    # The real type: a mock with a spec only claims to be one. Of a str subclass only its characters count, so that the
    # results of another package with these names are taken, and a class with an == of its own is not believed.
    if issubclass(type(result), str):
        text = result.value if type(result) is PermissionResult else str.__str__(result)
        for known in PermissionResult:
            if text == known.value:
                return known
    raise ValueError(
        fix_message(
            f"{what} is 'allow', 'deny' or 'ask' (got: {_shown(result)})", "use PermissionResult, or its text", example
        )
    )


def _shown(value: object) -> str:
    try:
        return repr(value)
    except Exception:  # noqa: BLE001 - a foreign repr may do anything
        return f"a {type(value).__name__}"
