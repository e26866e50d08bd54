"""Tools with arguments of every kind, for tests of rules on arguments."""

from __future__ import annotations

from typing import Any

from agentperm_nb import Tool

SCHEMA: dict[str, Any] = {
    "type": "object",
    "properties": {
        "subject": {"type": "string"},
        "amount": {"type": "number"},
        "to": {"type": "array", "items": {"type": "string"}},
        "cc": {"anyOf": [{"type": "array", "items": {"type": "string"}}, {"type": "null"}], "default": None},
        "one_or_many": {"anyOf": [{"type": "string"}, {"type": "array", "items": {"type": "string"}}]},
        "note": {"anyOf": [{"type": "string"}, {"type": "null"}], "default": None},
        "mode": {"type": "string", "default": "r"},
        "urgent": {"type": "boolean"},
        "meta": {"type": "object", "properties": {"owner": {"type": "string"}}},
        "items": {"type": "array", "items": {"type": "object", "properties": {"price": {"type": "number"}}}},
        "labels": {"type": "array", "items": {"anyOf": [{"type": "string"}, {"type": "null"}]}},
        "any": {},
    },
    "required": ["subject"],
}
TOOL = Tool("send", "", SCHEMA, function=lambda **args: None)
OPEN = Tool("send", "", {"type": "object"}, function=lambda **args: None)
