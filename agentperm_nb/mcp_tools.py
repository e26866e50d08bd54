"""Tools of MCP servers: named after their server, checked like any tool, and not believed.

1. The model calls a tool ``{server}__{tool}``; two names of a server that become one are an error, never a choice.
2. What a server says of its tools are hints of the server's, ``hints.source == "server"``. A hint that is no bool was
   not given, and hints that contradict each other are read as the worst.
3. Arguments are checked against the server's schema before anybody is asked. A tool whose schema is broken is there,
   so that it can be denied and seen; every call of it is an input error.
4. A failure of the server or of the connection is a `ToolError`: the model is told, and the turn goes on.
5. A session belongs to the event loop in which it was opened; a call from another one is refused, it would never end.
6. Servers send no tags. Those that you give are your own word; where tag and server contradict each other, the worst
   holds.
"""

from __future__ import annotations

import inspect
import json
import re
from collections.abc import Awaitable, Callable, Iterable, Mapping
from typing import Any

from agentperm_nb.errors import ToolError, ToolInputError, fix_message
from agentperm_nb.hints import Hints
from agentperm_nb.schemas import checked_schema
from agentperm_nb.tool_class import Tool, checked_timeout

__all__ = ["MCPTool", "mcp_tools"]

_EXAMPLE = "agent = Agent(tools=await mcp_tools(session, server='github'))"
_LONGEST = 128


class MCPTool(Tool):
    """A tool of an MCP server; `mcp_tools` makes them for all tools of a server.

    Args:
        server: What you call the server: letters, digits, ``-``, and single ``_`` between them. It is the first part of
            the tool's name, so that patterns such as ``github__*`` mean all of a server.
        remote: The tool as the server describes it: an ``mcp.types.Tool``, or a dict of the same form.
        call: What calls the server, given the tool's name there and the arguments, such as ``session.call_tool``.
        timeout: Seconds after which a call is given up; None to wait as long as the session does. The tool keeps this
            limit by itself, and says which server was silent: its attribute `timeout` is None.
        tags: What you say of it; see `Tool`.
        custom_tags: See `Tool`.
        namespace: See `Tool`; the server's name when left out.

    Raises:
        TypeError: An argument has the wrong type.
        ValueError: The server's name has other characters, the tool's name is too long, the timeout is not above 0, or
            a tag is unknown.
    """

    def __init__(
        self,
        server: str,
        remote: Any,
        call: Callable[[str, dict[str, Any]], Awaitable[Any]],
        *,
        timeout: float | None = None,
        tags: Iterable[str] = (),
        custom_tags: Iterable[str] = (),
        namespace: str | None = None,
    ) -> None:
        self._server = _checked_server(server)
        self.remote_name: str = _checked_remote_name(server, _field(remote, "name"))
        """What the server calls the tool."""
        name = f"{server}__{_plain_name(self.remote_name)}"
        if len(name) > _LONGEST:
            raise ValueError(
                fix_message(
                    f"{name!r} has {len(name)} characters; a tool's name has at most {_LONGEST}",
                    "give the server a shorter name, or leave this tool out",
                    "MCPTool('gh', remote, session.call_tool)",
                )
            )
        if not callable(call):
            raise TypeError(
                fix_message(
                    f"call= of {name} cannot be called (got: {type(call).__name__})",
                    "give what calls the server",
                    "MCPTool('github', remote, session.call_tool)",
                )
            )
        description = _field(remote, "description")
        schema = _field(remote, "inputSchema", "input_schema")
        self._broken_schema: str | None = None
        try:
            schema = checked_schema(name, schema)
        except (TypeError, ValueError) as error:
            self._broken_schema = str(error).splitlines()[0]
            schema = {"type": "object", "properties": {}}
        told = description if isinstance(description, str) else ""
        super().__init__(name, told, schema, tags=tags, custom_tags=custom_tags, namespace=namespace)
        self.hints: Hints = _hints_of(_field(remote, "annotations"), self.hints)
        self._call = call
        self._timeout = checked_timeout(timeout, "await mcp_tools(session, server='github', timeout=30)")

    @property
    def server(self) -> str:
        """The name of the server that the tool comes from."""
        return self._server

    @property
    def method_name(self) -> str:
        """What the server calls the tool."""
        return self.remote_name

    def check_args(self, args: Mapping[str, Any]) -> list[tuple[str, str]]:
        """Return what is wrong with the arguments; see `Tool.check_args`. With a broken schema, nothing fits."""
        if self._broken_schema is not None:
            return [("", self._unusable)]
        return super().check_args(args)

    async def run(self, args: dict[str, Any]) -> str:
        """Call the server, and return the text of its result.

        Args:
            args: A plain dict.

        Raises:
            ToolInputError: The server's schema is broken.
            ToolError: The server reported an error, did not answer in time, or could not be reached.
        """
        if self._broken_schema is not None:
            raise ToolInputError(self._unusable)
        import anyio

        seconds = float("inf") if self._timeout is None else self._timeout
        result: Any = None
        with anyio.move_on_after(seconds) as waiting:
            try:
                result = await self._call(self.remote_name, args)
            except ToolError:
                raise
            except Exception as error:
                # Sessions raise many things: their own errors, closed streams, results of a wrong form.
                raise ToolError(
                    f"the call of {self.remote_name} on the MCP server {self.server} failed: {_described(error)}"
                ) from error
        if waiting.cancelled_caught:
            raise ToolError(
                f"the MCP server {self.server} did not answer the call of {self.remote_name} within {seconds:g} "
                "seconds; it may have run all the same"
            )
        text = self._text_of(result)
        failed = _field(result, "isError", "is_error")
        if failed is not None and failed is not False:
            raise ToolError(
                text if text.strip() else f"{self.remote_name} on the MCP server {self.server} failed without a reason"
            )
        return text

    @property
    def _unusable(self) -> str:
        return f"{self.name} cannot be called, whatever the arguments: its MCP server describes them wrongly: " + str(
            self._broken_schema
        )

    def _text_of(self, result: Any) -> str:
        blocks, structured = _field(result, "content"), _field(result, "structuredContent", "structured_content")
        if not isinstance(blocks, list | tuple):
            if structured is None:
                raise ToolError(
                    f"the MCP server {self.server} answered the call of {self.remote_name} with "
                    f"{type(result).__name__}, which is not the result of a tool"
                )
            blocks = []
        texts = [_block_text(block) for block in blocks]
        if structured is not None and not any(is_text and text.strip() for is_text, text in texts):
            try:
                shown = json.dumps(structured, ensure_ascii=False)
            except (TypeError, ValueError, RecursionError):
                shown = "[structured content that is not JSON]"
            texts = [(True, shown), *[(False, text) for is_text, text in texts if not is_text]]
        return "\n".join(text for _, text in texts)


async def mcp_tools(
    session: Any,
    *,
    server: str,
    timeout: float | None = None,  # noqa: ASYNC109 - it is for the calls of the tools, later
    tags: Iterable[str] | Mapping[str, Iterable[str]] = (),
    custom_tags: Iterable[str] | Mapping[str, Iterable[str]] = (),
) -> list[MCPTool]:
    """Return the tools of a connected MCP server, in the server's order.

    Args:
        session: A connected ``mcp.ClientSession``; of mcp 2 an ``mcp.Client``, too.
        server: What you call the server; see `MCPTool`.
        timeout: Seconds after which the call of a tool is given up; None to wait as long as the session does.
        tags: What you say of the tools, as in `Tool`: a list for all of them, or a dict from the name that the server
            calls a tool to the list for that one.
        custom_tags: The same for words of your own.

    Raises:
        TypeError: It is not a session, or another argument has the wrong type.
        ValueError: Two tools of the server get one name, its list has no end, `tags` names a tool that the server does
            not have, or an argument has a wrong value; see `MCPTool`.
        Exception: Whatever the session raises when it cannot list the tools.
    """
    _checked_server(server)
    if not callable(getattr(session, "list_tools", None)) or not callable(getattr(session, "call_tool", None)):
        raise TypeError(
            fix_message(
                f"mcp_tools takes a connected session (got: {type(session).__name__})",
                "connect first, and give the session",
                f"async with ClientSession(read, write) as session:\n    await session.initialize()\n    {_EXAMPLE}",
            )
        )
    home = _event_loop()

    async def call(name: str, args: dict[str, Any]) -> Any:
        if _event_loop() is not home:
            raise ToolError(
                f"the MCP server {server} was connected in another event loop; call its tools from there, with "
                "`await agent.ause_tools(...)`"
            )
        return await session.call_tool(name, args)

    tools: dict[str, MCPTool] = {}
    listed = await _listed(session, server)
    names = [_field(remote, "name") for remote in listed]
    tags_of, custom_tags_of = (
        _by_tool("tags=", tags, server, names),
        _by_tool("custom_tags=", custom_tags, server, names),
    )
    for remote, called in zip(listed, names, strict=True):
        tool = MCPTool(server, remote, call, timeout=timeout, tags=tags_of(called), custom_tags=custom_tags_of(called))
        other = tools.get(tool.name)
        if other is not None:
            raise ValueError(
                fix_message(
                    f"the tools {other.remote_name!r} and {tool.remote_name!r} of the MCP server {server} both become "
                    f"{tool.name!r}",
                    "rename one of them on the server, or make the tools that you need one by one",
                    "listed = await session.list_tools()\n"
                    f"tools = [MCPTool({server!r}, remote, session.call_tool) for remote in listed.tools[:1]]",
                )
            )
        tools[tool.name] = tool
    return list(tools.values())


def _by_tool(what: str, given: Any, server: str, names: list[Any]) -> Callable[[Any], Any]:
    """Return what gives the tags of a tool by the name that the server calls it."""
    if not isinstance(given, Mapping):
        listed = given if isinstance(given, str | bytes) or not isinstance(given, Iterable) else list(given)
        return lambda called: listed
    for name in given:
        if name not in names:  # a tag that fits no tool denies nothing: it is found before somebody relies on it
            raise ValueError(
                fix_message(
                    f"{what} names {name!r}, which is no tool of the MCP server {server}",
                    f"use the names that the server calls its tools: {', '.join(map(str, names)) or 'it has none'}",
                    f"await mcp_tools(session, server={server!r}, {what}{{'delete_repo': ['destructive']}})",
                )
            )
    return lambda called: next((tags for name, tags in given.items() if name == called), ())


async def _listed(session: Any, server: str) -> list[Any]:
    """Return the descriptions of all tools, from all pages."""
    remotes: list[Any] = []
    seen: set[Any] = set()
    page = await session.list_tools()
    while True:
        remotes += page.tools
        cursor = _field(page, "nextCursor", "next_cursor")
        if not cursor:  # an empty cursor leads to the first page again
            return remotes
        if cursor in seen:
            raise ValueError(
                fix_message(
                    f"the MCP server {server} lists its tools in a circle: it gave the cursor {cursor!r} twice",
                    "mend the server, or make the tools that you need one by one",
                    f"MCPTool({server!r}, remote, session.call_tool)",
                )
            )
        seen.add(cursor)
        # The sessions of mcp 1 and the clients of mcp 2 take a cursor, the sessions of mcp 2 parameters only.
        if "cursor" in inspect.signature(session.list_tools).parameters:
            page = await session.list_tools(cursor=cursor)
        else:
            from mcp.types import PaginatedRequestParams

            page = await session.list_tools(params=PaginatedRequestParams(cursor=cursor))


def _event_loop() -> object:
    import asyncio

    try:
        return asyncio.get_running_loop()
    except RuntimeError:
        import trio  # the only other one that a session runs in

        return trio.lowlevel.current_trio_token()


def _field(thing: Any, *spellings: str) -> Any:
    """Return the first of these that a dict or an object has and that is not None."""
    for spelling in spellings:
        value = thing.get(spelling) if isinstance(thing, Mapping) else getattr(thing, spelling, None)
        if value is not None:
            return value
    return None


def _hints_of(annotations: Any, tagged: Hints) -> Hints:
    """Return what a server says of its tool, and what the user's tags say where it says nothing."""
    read_only = _hint(annotations, "readOnlyHint", "read_only_hint", worst=False)
    destructive = _hint(annotations, "destructiveHint", "destructive_hint", worst=True)
    idempotent = _hint(annotations, "idempotentHint", "idempotent_hint", worst=False)
    open_world = _hint(annotations, "openWorldHint", "open_world_hint", worst=True)
    read_only = tagged.read_only if read_only is None and "read_only" in tagged.said else read_only
    destructive = tagged.destructive if "destructive" in tagged.said else destructive
    open_world = tagged.open_world if "open_world" in tagged.said else open_world
    if read_only and (destructive or idempotent is False):
        read_only, destructive, idempotent = False, True, False
    return Hints(
        read_only=read_only,
        destructive=destructive,
        idempotent=idempotent,
        open_world=open_world,
        source="server",
    )


def _hint(annotations: Any, *spellings: str, worst: bool) -> bool | None:
    given = {value for value in (_field(annotations, spelling) for spelling in spellings) if isinstance(value, bool)}
    return worst if len(given) == 2 else next(iter(given), None)


def _block_text(block: Any) -> tuple[bool, str]:
    """Return whether a block of a result is text, and its text or a note of what it is."""
    kind = _field(block, "type")
    text = _field(block, "text")
    if kind == "text" and isinstance(text, str):
        return True, text
    if kind == "resource":
        resource = _field(block, "resource")
        text = _field(resource, "text")
        note = f"[resource {_field(resource, 'uri')}{_kind_text(resource)}]"
        return (True, f"{note}\n{text}") if isinstance(text, str) else (False, note)
    if kind == "resource_link":
        return False, f"[resource link {_field(block, 'uri')}{_kind_text(block)}]"
    data = _field(block, "data")
    size = f", {len(data) * 3 // 4:,} bytes" if isinstance(data, str) else ""
    return False, f"[{kind if isinstance(kind, str) else 'unknown content'}{_kind_text(block)}{size}: not shown]"


def _kind_text(block: Any) -> str:
    kind = _field(block, "mimeType", "mime_type")
    return f", {kind}" if isinstance(kind, str) else ""


def _described(error: Exception) -> str:
    text = str(error).strip()
    return f"{text} ({type(error).__name__})" if text else type(error).__name__


def _plain_name(name: str) -> str:
    return re.sub(r"[^A-Za-z0-9_-]", "_", name)


def _checked_server(server: object) -> str:
    if not isinstance(server, str):
        raise TypeError(
            fix_message(f"server= takes a name (got: {type(server).__name__})", "give it as a string", _EXAMPLE)
        )
    # No "__" and no "_" at an end: otherwise a pattern for one server could mean another one's tools.
    if not re.fullmatch(r"[A-Za-z0-9-]+(?:_[A-Za-z0-9-]+)*", server):
        raise ValueError(
            fix_message(
                f"{server!r} is not a name for an MCP server",
                "use letters from A to Z, digits, '-', and single '_' between them",
                _EXAMPLE,
            )
        )
    return server


def _checked_remote_name(server: str, name: object) -> str:
    if not isinstance(name, str):
        raise TypeError(
            fix_message(
                f"a tool of the MCP server {server} has no name (got: {name!r})",
                "give the tool as the server describes it",
                "listed = await session.list_tools()\nMCPTool('github', listed.tools[0], session.call_tool)",
            )
        )
    if not name:
        raise ValueError(
            fix_message(
                f"a tool of the MCP server {server} has an empty name",
                "name it on the server",
                "{'name': 'create_issue', 'inputSchema': {'type': 'object'}}",
            )
        )
    return name
