"""What a person is told about a request, the same in the panel and in the text prompt.

1. Arguments come in the order in which they matter: commands, paths and addresses first, then as in the schema.
2. What a server says of its own tool is marked as said by the server.
3. The ASCII form of a host with other letters is shown beside it, so that a look-alike can be told.

The texts are not yet made harmless: whoever shows them passes them through `agentperm_nb.render`.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from datetime import datetime
from typing import Any, Literal, NamedTuple

from agentperm_nb.approvals.requests import ApprovalRequest

__all__ = ["Badge", "agent_text", "badges", "clock", "ordered_args", "ran_before_text", "rule_text", "tool_text"]

_FIRST = ("command", "cmd", "path", "file_path", "filename", "file", "url", "uri")
_HOST = re.compile(r"(?i)\b[a-z][a-z0-9+.-]*://(?:[^\s/?#@]*@)?([^\s/?#:\"'<>\\]+)")
_MOST_HOSTS = 5

_FLAGS = {
    "hidden-characters": "It holds characters that are not seen or that move others; they are shown as \\u{…}.",
    "mixed-script": "A word mixes letters of two alphabets that look alike.",
    "long-padding": "It holds a long run of blanks, shown as a count; look at what comes after.",
}


class Badge(NamedTuple):
    """A short remark on a request."""

    text: str
    tone: Literal["plain", "caution"]
    about: str
    """The remark in a sentence."""


def badges(request: ApprovalRequest) -> list[Badge]:
    """Return the remarks on a request: what its tool may do, and what is odd about its texts."""
    hints = request.hints
    said = "the server says: " if hints.source == "server" else ""
    found: list[Badge] = []
    if hints.read_only:
        found.append(Badge(f"{said}read-only", "plain", "It changes nothing."))
    elif hints.said.isdisjoint({"read_only", "destructive"}):
        about = "The tool does not say whether it changes or deletes anything, so it counts as destructive."
        found.append(Badge("effects unknown", "caution", about))
    elif hints.destructive:
        found.append(Badge(f"{said}destructive", "caution", "It may delete or overwrite."))
    else:
        found.append(Badge(f"{said}writes", "plain", "It changes something, and neither deletes nor overwrites."))
    if hints.open_world and "open_world" in hints.said:
        found.append(Badge(f"{said}open world", "plain", "It may reach outside of this machine."))
    if request.bypass:
        about = "A mode of this agent is BYPASS: calls that reach it run unasked. This call was asked about before it."
        found.append(Badge("BYPASS is on", "caution", about))
    found += [Badge(flag, "caution", _FLAGS.get(flag, "")) for flag in request.flags]
    found += [
        Badge(host, "caution", "The real name of a host that is written with other than ASCII letters.")
        for host in _foreign_hosts(request.shown_args)
    ]
    return found


def ordered_args(request: ApprovalRequest) -> list[tuple[str, Any]]:
    """Return the shown arguments, the ones that matter most first."""
    args = request.shown_args
    schema = list(request.tool.input_schema.get("properties", {}))
    order = {name: place for place, name in enumerate(dict.fromkeys([*_FIRST, *schema, *args]))}
    return sorted(args.items(), key=lambda item: order.get(item[0], len(order)))


def tool_text(request: ApprovalRequest) -> str:
    """Return the tool's name, with its server where it has one."""
    return f"{request.call.name} (server {request.tool.server})" if request.tool.server else request.call.name


def agent_text(request: ApprovalRequest) -> str:
    """Return which agent asks, from the outermost: ``main › research``."""
    return " › ".join(request.agent_path)


def rule_text(request: ApprovalRequest) -> str:
    """Return which rule sent the request here, and why."""
    return f"{request.rule}: {request.reason}" if request.reason else request.rule


def ran_before_text(request: ApprovalRequest) -> str | None:
    """Return that the very same call has run already, or None."""
    if request.ran_before is None:
        return None
    return f"This very call ran at {clock(request.ran_before)}. Was the cell run again?"


def clock(time: datetime, *, seconds: bool = False, today: datetime | None = None) -> str:
    """Return a time in the kernel's time zone, with the date unless it is today's."""
    local = time.astimezone()
    same_day = local.date() == (today or datetime.now().astimezone()).date()
    return local.strftime(f"{'' if same_day else '%Y-%m-%d '}%H:%M{':%S' if seconds else ''}")


def _foreign_hosts(value: Any) -> list[str]:
    hosts = (host for text in _texts(value) if not text.isascii() for host in _HOST.findall(text))
    return list(dict.fromkeys(_ascii(host) for host in hosts if not host.isascii()))[:_MOST_HOSTS]


def _ascii(host: str) -> str:
    try:
        return host.encode("idna").decode("ascii")
    except UnicodeError:
        labels = host.split(".")
        return ".".join(x if x.isascii() else f"xn--{x.encode('punycode').decode('ascii', 'replace')}" for x in labels)


def _texts(value: Any) -> Iterable[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, Mapping):
        for item in value.values():
            yield from _texts(item)
    elif isinstance(value, list | tuple):
        for item in value:
            yield from _texts(item)
