"""The five rules that come with the toolkit.

=================  ======  =======================================================  ===================================
rule               result  matches a call whose tool                                reason
=================  ======  =======================================================  ===================================
ALLOW_READONLY     allow   says itself, by tag or hint, that the call only reads    Tool is read-only
ASK_DESTRUCTIVE    ask     has the tag, or says that the call may destroy           Tool is marked as destructive
DENY_PRIVILEGED    deny    has the tag                                              Tool requires elevated permissions
ASK_NETWORK        ask     has the tag, or says that the call reaches outside       Tool requires network access
ASK_FILE_SYSTEM    ask     has the tag                                              Tool accesses the file system
=================  ======  =======================================================  ===================================

1. What asks reads wide. A hint counts from whoever gave it, and for a tool of a server, hints that were not given count
   as the protocol has it: destructive unless read-only, and open to the world.
2. What allows reads narrow. A server's word allows nothing, unless it is trusted (`allow_readonly`), and neither does a
   tag when the hints of the call say that it writes.
3. There are no hints for the file system and for privileges: these two rules look at the tag only. Servers send no
   tags; `mcp_tools` takes them.
4. A tool of your own that says nothing matches none of the rules: it gets the fallback of the policy.
"""

from __future__ import annotations

from typing import Any

from agentperm_nb.errors import fix_message
from agentperm_nb.permissions.policy import PermissionRule
from agentperm_nb.permissions.types import PermissionResult
from agentperm_nb.tags import ToolTag
from agentperm_nb.tools import Tool

__all__ = [
    "ALLOW_READONLY",
    "ASK_DESTRUCTIVE",
    "ASK_FILE_SYSTEM",
    "ASK_NETWORK",
    "DENY_PRIVILEGED",
    "allow_readonly",
]


def _says_it_reads(tool: Tool, parameters: dict[str, Any]) -> bool:
    hints = tool.hints_for(parameters)
    own_word = ToolTag.READ_ONLY in tool.metadata.tags or (tool.server is None and hints.source == "tool")
    return own_word and hints.read_only is True and hints.destructive is False


def _is_said_to_read(tool: Tool, parameters: dict[str, Any]) -> bool:
    hints = tool.hints_for(parameters)
    return hints.read_only is True and hints.destructive is False


def _may_destroy(tool: Tool, parameters: dict[str, Any]) -> bool:
    return ToolTag.DESTRUCTIVE in tool.metadata.tags or _hinted("destructive", tool, parameters)


def _reaches_out(tool: Tool, parameters: dict[str, Any]) -> bool:
    return ToolTag.NETWORK in tool.metadata.tags or _hinted("open_world", tool, parameters)


def _hinted(name: str, tool: Tool, parameters: dict[str, Any]) -> bool:
    """Return whether a hint is said to be true; of a server's tool, whether it is not said to be false."""
    hints = tool.hints_for(parameters)
    from_server = tool.server is not None or hints.source != "tool"
    return getattr(hints, name) is True and (from_server or name in hints.said)


def _is_privileged(tool: Tool, parameters: dict[str, Any]) -> bool:
    return ToolTag.PRIVILEGED in tool.metadata.tags


def _uses_files(tool: Tool, parameters: dict[str, Any]) -> bool:
    return ToolTag.FILE_SYSTEM in tool.metadata.tags


ALLOW_READONLY: PermissionRule = PermissionRule(
    "allow_readonly", _says_it_reads, PermissionResult.ALLOW, "Tool is read-only"
)
"""Allows calls that only read, by the word of the tool itself."""

ASK_DESTRUCTIVE: PermissionRule = PermissionRule(
    "ask_destructive", _may_destroy, PermissionResult.ASK, "Tool is marked as destructive"
)
"""Asks about calls that may delete or overwrite, by a tag or by anybody's word."""

DENY_PRIVILEGED: PermissionRule = PermissionRule(
    "deny_privileged", _is_privileged, PermissionResult.DENY, "Tool requires elevated permissions"
)
"""Denies calls of tools with the tag ``privileged``."""

ASK_NETWORK: PermissionRule = PermissionRule(
    "ask_network", _reaches_out, PermissionResult.ASK, "Tool requires network access"
)
"""Asks about calls that reach outside of this machine, by a tag or by anybody's word."""

ASK_FILE_SYSTEM: PermissionRule = PermissionRule(
    "ask_file_system", _uses_files, PermissionResult.ASK, "Tool accesses the file system"
)
"""Asks about calls of tools with the tag ``file_system``."""

_TRUSTING: PermissionRule = PermissionRule(
    ALLOW_READONLY.name, _is_said_to_read, ALLOW_READONLY.result, ALLOW_READONLY.reason
)


def allow_readonly(trust_mcp: bool = False) -> PermissionRule:
    """Return ALLOW_READONLY, or the same rule for people who trust their servers.

    Args:
        trust_mcp: Whether to believe a server that says its tool only reads; see `AllowByReadOnly`.

    Raises:
        TypeError: `trust_mcp` is not a bool.
    """
    if not isinstance(trust_mcp, bool):
        raise TypeError(
            fix_message(
                f"trust_mcp= takes True or False (got: {trust_mcp!r})", "give a bool", "allow_readonly(trust_mcp=True)"
            )
        )
    return _TRUSTING if trust_mcp else ALLOW_READONLY
