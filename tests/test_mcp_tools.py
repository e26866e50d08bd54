"""Tools of MCP servers, with real servers in memory and as a process: what they are called, and what is believed."""

from __future__ import annotations

import ast
import re
import subprocess
import sys
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from types import FunctionType, SimpleNamespace
from typing import Any

import anyio
import anyio.to_thread
import mcp
import mcp.types as wire
import pandas  # noqa: F401 - its first import takes seconds, which no single test should pay
import pytest
from mcp.server import Server
from mcp.server.mcpserver import MCPServer
from mcp.shared.memory import create_client_server_memory_streams

from agentperm_nb import (
    Agent,
    AllowByDefault,
    AllowByName,
    AllowByReadOnly,
    ApprovalRequest,
    CallResult,
    DecideByHuman,
    DenyByName,
    Hints,
    MCPTool,
    ToolError,
    ToolInputError,
    mcp_tools,
)
from agentperm_nb.testing import FakeHuman, tool_call

BACKENDS = ("asyncio", "trio")
on_each_backend = pytest.mark.parametrize("backend", BACKENDS)

ANYTHING: dict[str, Any] = {"type": "object", "properties": {}}
ISSUE = {"type": "object", "properties": {"title": {"type": "string"}}, "required": ["title"]}


def remote(name: str = "create_issue", schema: Any = ANYTHING, **more: Any) -> wire.Tool:
    return wire.Tool(name=name, input_schema=schema, **more)


def text(*parts: str, error: bool = False, structured: Any = None) -> wire.CallToolResult:
    blocks: list[Any] = [wire.TextContent(text=part) for part in parts]
    return wire.CallToolResult(content=blocks, is_error=error, structured_content=structured)


class GitHub:
    """A server whose tools are given, and which keeps the calls that it got."""

    def __init__(self, *tools: wire.Tool, answer: Any = None, per_page: int = 100) -> None:
        self.tools = tools
        self.answer = answer if answer is not None else text("done")
        self.per_page = per_page
        self.calls: list[tuple[str, Any]] = []
        self.server: Server[Any] = Server("github", on_list_tools=self._list, on_call_tool=self._call)

    async def _list(self, context: Any, params: wire.PaginatedRequestParams | None) -> wire.ListToolsResult:
        start = int(params.cursor) if params is not None and params.cursor else 0
        end = start + self.per_page
        following = str(end) if end < len(self.tools) else None
        return wire.ListToolsResult(tools=list(self.tools[start:end]), next_cursor=following)

    async def _call(self, context: Any, params: wire.CallToolRequestParams) -> wire.CallToolResult:
        self.calls.append((params.name, params.arguments))
        answer = self.answer
        if isinstance(answer, Exception):
            raise answer
        if callable(answer):
            answer = await answer()
        assert isinstance(answer, wire.CallToolResult)
        return answer


@asynccontextmanager
async def session_with(server: Any) -> AsyncIterator[mcp.ClientSession]:
    """Connect the long way: streams, a session, and its handshake."""
    lowlevel = getattr(server, "_lowlevel_server", server)
    async with create_client_server_memory_streams() as (ours, theirs), anyio.create_task_group() as group:

        async def serve() -> None:
            await lowlevel.run(*theirs, lowlevel.create_initialization_options())

        group.start_soon(serve)
        async with mcp.ClientSession(*ours) as session:
            await session.initialize()
            yield session
        group.cancel_scope.cancel()


def client_with(server: Any) -> Any:
    """Connect the short way."""
    return mcp.Client(server)


CONNECTIONS = pytest.mark.parametrize("connect", [session_with, client_with], ids=["session", "client"])


def ran(main: Callable[[], Awaitable[Any]], backend: str = "asyncio") -> Any:
    async def in_time() -> Any:
        with anyio.fail_after(15):
            return await main()

    return anyio.run(in_time, backend=backend)


def result_of(
    github: GitHub, call: Any, backend: str = "asyncio", connect: Any = session_with, timeout: float | None = None,
    **options: Any,
) -> CallResult:  # fmt: skip
    """Do a turn of one call, by an agent that allows everything unless told otherwise."""

    async def main() -> CallResult:
        async with connect(github.server) as session:
            tools = await mcp_tools(session, server="github", timeout=timeout)
            turn = await Agent(tools=tools, **{"permissions": [AllowByDefault()], **options}).ause_tools([call])
            found: CallResult = turn.results[0]
            return found

    found: CallResult = ran(main, backend)
    return found


# ---------------------------------------------------------------------- names


@pytest.mark.states("S10")
@pytest.mark.parametrize(
    ("server", "name", "expected"),
    [
        ("github", "create_issue", "github__create_issue"),
        ("my-server_2", "a-b_c", "my-server_2__a-b_c"),
        ("lf", "repos.list/all files", "lf__repos_list_all_files"),
        ("lf", "ausführen", "lf__ausf_hren"),
        ("lf", "検索", "lf____"),
        ("lf", "a\u202eb\n", "lf__a_b_"),
    ],
    ids=["plain", "hyphens", "dots", "umlaut", "japanese", "unseen"],
)
def test_a_name_is_that_of_the_server_and_of_the_tool_with_plain_characters(
    server: str, name: str, expected: str
) -> None:
    tool = MCPTool(server, remote(name), _never)
    assert (tool.name, tool.server, tool.remote_name) == (expected, server, name)
    assert repr(tool) == f"MCPTool({expected!r})"
    assert tool.is_async


@pytest.mark.parametrize("server", ["", "a b", "a__b", "_a", "a_", "größe", "a.b", "a\n", "*"])
def test_a_server_has_a_plain_name(server: str) -> None:
    with pytest.raises(ValueError, match=r"(?s)is not a name for an MCP server\nFix: .*\nExample:\n"):
        MCPTool(server, remote(), _never)
    with pytest.raises(ValueError, match="is not a name for an MCP server"):
        ran(lambda: mcp_tools(SimpleNamespace(list_tools=_never, call_tool=_never), server=server))


async def _never(name: str, args: dict[str, Any]) -> Any:
    raise AssertionError("it was called")


@pytest.mark.parametrize(
    ("make", "error", "message"),
    [
        (lambda: MCPTool(7, remote(), _never), TypeError, "server= takes a name"),  # type: ignore[arg-type]
        (lambda: MCPTool("gh", {}, _never), TypeError, "has no name"),
        (lambda: MCPTool("gh", {"name": ""}, _never), ValueError, "has an empty name"),
        (lambda: MCPTool("gh", remote("a" * 125), _never), ValueError, "at most 128"),
        (lambda: MCPTool("gh", remote(), None), TypeError, "cannot be called"),  # type: ignore[arg-type]
        (lambda: MCPTool("gh", remote(), _never, timeout=True), TypeError, "takes seconds"),
        (lambda: MCPTool("gh", remote(), _never, timeout="5"), TypeError, "takes seconds"),  # type: ignore[arg-type]
        (lambda: MCPTool("gh", remote(), _never, timeout=0), ValueError, "not above 0"),
        (lambda: MCPTool("gh", remote(), _never, timeout=float("nan")), ValueError, "not above 0"),
        (lambda: ran(lambda: mcp_tools("gh", server="gh")), TypeError, "takes a connected session"),
    ],
    ids=["server", "no-name", "empty-name", "long-name", "call", "bool", "text", "zero", "nan", "session"],
)
def test_misuse_is_an_error_in_three_parts(make: Callable[[], Any], error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=rf"(?s){message}.*\nFix: .*\nExample:\n"):
        make()


@CONNECTIONS
@on_each_backend
def test_all_pages_of_a_list_are_read_in_order(connect: Any, backend: str) -> None:
    github = GitHub(*(remote(f"tool_{number}") for number in range(7)), per_page=3)

    async def main() -> list[str]:
        async with connect(github.server) as session:
            return [tool.name for tool in await mcp_tools(session, server="github")]

    assert ran(main, backend) == [f"github__tool_{number}" for number in range(7)]


def test_an_older_session_is_given_the_cursor_itself() -> None:
    class Older:
        async def list_tools(self, cursor: str | None = None) -> Any:
            name = "first" if cursor is None else "second"
            return SimpleNamespace(
                tools=[SimpleNamespace(name=name, description=None, inputSchema=ISSUE, annotations=None)],
                nextCursor="more" if cursor is None else None,
            )

        async def call_tool(self, name: str, args: dict[str, Any]) -> Any:
            return SimpleNamespace(content=[], structuredContent={"ran": name}, isError=False)

    async def main() -> Any:
        tools = await mcp_tools(Older(), server="old")
        return [tool.name for tool in tools], await tools[1].run({}), tools[1].check_args({})

    names, result, problems = ran(main)
    assert (names, result) == (["old__first", "old__second"], '{"ran": "second"}')
    assert len(problems) == 1


def test_a_list_that_goes_in_a_circle_is_an_error() -> None:
    class Endless:
        async def list_tools(self, cursor: str | None = None) -> Any:
            return {"b": SimpleNamespace(tools=[], next_cursor="a")}.get(
                str(cursor), SimpleNamespace(tools=[], next_cursor="b")
            )

        call_tool = staticmethod(_never)

    with pytest.raises(ValueError, match=r"(?s)lists its tools in a circle.*\nFix: "):
        ran(lambda: mcp_tools(Endless(), server="endless"))


@pytest.mark.parametrize(
    "names", [("a.b", "a/b"), ("検索", "削除"), ("same", "same")], ids=["dots", "unicode", "equal"]
)
def test_two_tools_that_become_one_name_are_an_error(names: tuple[str, str]) -> None:
    github = GitHub(*map(remote, names))

    async def main() -> None:
        async with session_with(github.server) as session:
            with pytest.raises(ValueError, match=r"(?s)both become 'github__.*\nFix: .*\nExample:\n") as caught:
                await mcp_tools(session, server="github")
            assert all(repr(name) in str(caught.value) for name in names)

    ran(main)


# ---------------------------------------------------------------------- hints


def _annotated(form: str, hints: dict[str, Any]) -> Any:
    """Return a remote tool whose hints are given in one of the forms in which they come."""
    camel = {"".join(part.title() if n else part for n, part in enumerate(k.split("_"))): v for k, v in hints.items()}
    given: Any = {
        "camel dict": camel,
        "snake dict": hints,
        "camel object": SimpleNamespace(**camel),
        "snake object": SimpleNamespace(**hints),
    }[form]
    return {"name": "query", "inputSchema": ANYTHING, "annotations": given}


FORMS = ("camel dict", "snake dict", "camel object", "snake object")
WORST = (False, True, False, True)


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ({}, WORST),
        ({"read_only_hint": True}, (True, False, True, True)),
        ({"read_only_hint": "true"}, WORST),
        ({"read_only_hint": 1}, WORST),
        ({"read_only_hint": True, "destructive_hint": "no"}, (True, False, True, True)),
        ({"destructive_hint": False, "idempotent_hint": True, "open_world_hint": False}, (False, False, True, False)),
        ({"read_only_hint": True, "destructive_hint": True}, WORST),
        ({"read_only_hint": True, "destructive_hint": False, "idempotent_hint": False}, WORST),
        ({"read_only_hint": True, "destructive_hint": True, "open_world_hint": False}, (False, True, False, False)),
    ],
    ids=["none", "read-only", "text", "number", "partly", "writes", "destroys", "not-idempotent", "closed-world"],
)
def test_hints_are_read_in_every_form_and_contradictory_ones_as_the_worst(
    form: str, given: dict[str, Any], expected: tuple[bool, ...]
) -> None:
    hints = MCPTool("lf", _annotated(form, given), _never).hints
    assert (hints.read_only, hints.destructive, hints.idempotent, hints.open_world) == expected
    assert hints.source == "server"


def test_two_spellings_that_contradict_each_other_are_read_as_the_worst() -> None:
    annotations = {"readOnlyHint": True, "read_only_hint": False, "openWorldHint": False, "open_world_hint": True}
    tool = MCPTool("lf", {"name": "query", "inputSchema": ANYTHING, "annotations": annotations}, _never)
    assert (tool.hints.read_only, tool.hints.open_world) == (False, True)
    assert tool.hints_for({}) is tool.hints


@pytest.mark.parametrize("annotations", [None, "readOnlyHint", 7, [True]], ids=["none", "text", "number", "list"])
def test_annotations_of_another_form_say_nothing(annotations: Any) -> None:
    tool = MCPTool("lf", {"name": "query", "inputSchema": ANYTHING, "annotations": annotations}, _never)
    assert tool.hints == Hints(source="server")
    assert tool.hints.said == frozenset()


@pytest.mark.parametrize("form", FORMS)
def test_a_read_only_tool_in_either_spelling_is_allowed_only_when_its_server_is_trusted(form: str) -> None:
    tool = MCPTool("lf", _annotated(form, {"read_only_hint": True}), _never)
    call = tool_call("lf__query")
    assert AllowByReadOnly().check(None, call, tool) is None
    assert AllowByReadOnly(trust_mcp=True).check(None, call, tool) is not None


@CONNECTIONS
@on_each_backend
def test_a_read_only_tool_is_asked_about_unless_its_server_is_trusted(connect: Any, backend: str) -> None:
    github = GitHub(remote("query", annotations=wire.ToolAnnotations(read_only_hint=True)))
    human = FakeHuman(["no"])
    call = tool_call("github__query")

    untrusted = result_of(
        github, call, backend, connect, permissions=[AllowByReadOnly(), DecideByHuman()], human=human
    )  # fmt: skip
    assert (untrusted.verdict, len(human.questions), github.calls) == ("denied", 1, [])

    trusted = result_of(
        github, call, backend, connect, permissions=[AllowByReadOnly(trust_mcp=True), DecideByHuman()], human=human
    )
    assert (trusted.verdict, trusted.content, len(human.questions)) == ("allowed", "done", 1)
    assert github.calls == [("query", {})]


# ---------------------------------------------------------------------- deciding


@on_each_backend
def test_a_pattern_denies_all_tools_of_a_server(backend: str) -> None:
    github = GitHub(remote("delete_repo", annotations=wire.ToolAnnotations(read_only_hint=True)))
    denied = result_of(
        github, tool_call("github__delete_repo"), backend, permissions=[AllowByDefault(), DenyByName(["github__*"])]
    )
    assert (denied.verdict, denied.content) == ("denied", "github__delete_repo is not allowed.")
    assert github.calls == []


def test_a_request_shows_the_server_the_name_there_and_the_arguments() -> None:
    github = GitHub(remote(schema=ISSUE))
    seen: list[ApprovalRequest] = []

    def handler(request: ApprovalRequest) -> bool:
        seen.append(request)
        return True

    call = tool_call("github__create_issue", title="x")
    done = result_of(github, call, permissions=[DecideByHuman()], approval_handler=handler)
    assert done.verdict == "allowed"
    tool = seen[0].tool
    assert isinstance(tool, MCPTool)
    assert (tool.server, tool.remote_name, dict(seen[0].call.args)) == ("github", "create_issue", {"title": "x"})


@on_each_backend
@pytest.mark.parametrize("args", [{}, {"title": 7}], ids=["missing", "wrong"])
def test_arguments_that_do_not_fit_are_an_input_error_before_anybody_is_asked(
    backend: str, args: dict[str, Any]
) -> None:
    github = GitHub(remote(schema=ISSUE))
    human = FakeHuman(["yes"])
    call = tool_call("github__create_issue", **args)
    result = result_of(github, call, backend, permissions=[DecideByHuman()], human=human)
    assert result.verdict == "input_error"
    assert "title" in result.content
    assert (human.questions, github.calls) == ([], [])


BROKEN = {
    "type": {"type": "object", "properties": {"a": {"type": "objekt"}}},
    "pattern": {"type": "object", "properties": {"a": {"pattern": "("}}},
    "reference": {"type": "object", "properties": {"a": {"$ref": "#/nowhere"}}},
    "elsewhere": {"type": "object", "properties": {"a": {"$ref": "http://localhost:1/schema"}}},
}


@on_each_backend
@pytest.mark.parametrize("schema", BROKEN.values(), ids=BROKEN)
def test_a_tool_with_a_broken_schema_is_there_and_every_call_of_it_an_input_error(backend: str, schema: Any) -> None:
    github = GitHub(remote("broken", schema), remote("good"))
    human = FakeHuman(["yes"])
    call = tool_call("github__broken", a=1)
    result = result_of(github, call, backend, permissions=[DecideByHuman()], human=human)
    assert result.verdict == "input_error"
    assert "github__broken cannot be called, whatever the arguments: its MCP server describes them" in result.content
    assert (human.questions, github.calls) == ([], [])

    assert result_of(github, tool_call("github__good"), backend).content == "done"
    denied = result_of(github, call, backend, permissions=[DenyByName(["*__broken"])])
    assert denied.verdict == "denied"


@pytest.mark.parametrize("schema", [None, 7, {"type": "string"}], ids=["none", "number", "not-an-object"])
def test_a_schema_of_another_form_is_a_broken_one(schema: Any) -> None:
    tool = MCPTool("lf", {"name": "query", "inputSchema": schema}, _never)
    assert tool.spec == {"name": "lf__query", "description": "", "input_schema": {"type": "object", "properties": {}}}
    assert len(tool.check_args({})) == 1

    async def main() -> None:
        with pytest.raises(ToolInputError, match="lf__query cannot be called"):
            await tool.run({})

    ran(main)


def test_a_name_with_other_characters_is_called_by_its_own_name_on_the_server() -> None:
    github = GitHub(remote("ausführen"))
    assert result_of(github, tool_call("github__ausf_hren")).content == "done"
    assert github.calls == [("ausführen", {})]


# ---------------------------------------------------------------------- results


SEE = wire.TextContent(text="see")
IMAGE = wire.ImageContent(data="aGVsbG8h", mime_type="image/png")
SOUND = wire.AudioContent(data="aGVsbG8h", mime_type="audio/wav")
LINK = wire.ResourceLink(name="log", uri="file:///log.txt", mime_type="text/plain")
FILE = wire.EmbeddedResource(resource=wire.TextResourceContents(uri="repo://README", text="# Title"))
BLOB = wire.EmbeddedResource(resource=wire.BlobResourceContents(uri="repo://logo", blob="aGVsbG8h", mime_type="a/b"))


@pytest.mark.parametrize(
    ("answer", "expected"),
    [
        (text("one", "größer"), "one\ngrößer"),
        (text(), ""),
        (text("said", structured={"n": 1}), "said"),
        (text(structured={"größe": [1, None]}), '{"größe": [1, null]}'),
        (text(" ", structured={"n": 1}), '{"n": 1}'),
        (wire.CallToolResult(content=[IMAGE]), "[image, image/png, 6 bytes: not shown]"),
        (wire.CallToolResult(content=[SEE, SOUND]), "see\n[audio, audio/wav, 6 bytes: not shown]"),
        (wire.CallToolResult(content=[LINK]), "[resource link file:///log.txt, text/plain]"),
        (wire.CallToolResult(content=[FILE]), "[resource repo://README]\n# Title"),
        (wire.CallToolResult(content=[BLOB]), "[resource repo://logo, a/b]"),
        (
            wire.CallToolResult(content=[IMAGE], structured_content={"n": 1}),
            '{"n": 1}\n[image, image/png, 6 bytes: not shown]',
        ),
    ],
    ids=["texts", "nothing", "both", "structured", "blank", "image", "sound", "link", "file", "blob", "two"],
)
def test_a_result_is_its_texts_and_a_note_for_what_is_none(answer: Any, expected: str) -> None:
    result = result_of(GitHub(remote(), answer=answer), tool_call("github__create_issue"))
    assert (result.verdict, result.content) == ("allowed", expected)


@CONNECTIONS
@on_each_backend
@pytest.mark.parametrize(
    ("answer", "expected"),
    [
        (text("no such repository", error=True), "no such repository"),
        (text(error=True), "create_issue on the MCP server github failed without a reason"),
        (text(error=True, structured={"code": 404}), '{"code": 404}'),
        (mcp.MCPError(code=-32602, message="unknown tool"), "on the MCP server github failed: unknown tool (MCPError)"),
    ],
    ids=["text", "blank", "structured", "protocol"],
)
def test_an_error_of_the_server_is_the_result_that_the_model_gets(
    connect: Any, backend: str, answer: Any, expected: str
) -> None:
    result = result_of(GitHub(remote(), answer=answer), tool_call("github__create_issue"), backend, connect)
    assert (result.outcome.kind, type(result.outcome.error)) == ("error", ToolError)
    assert expected in result.content


@on_each_backend
def test_a_server_that_does_not_answer_in_time_is_an_error(backend: str) -> None:
    github = GitHub(remote(), answer=anyio.sleep_forever)
    result = result_of(github, tool_call("github__create_issue"), backend, timeout=0.2)
    assert isinstance(result.outcome.error, ToolError)
    assert result.content == (
        "the MCP server github did not answer the call of create_issue within 0.2 seconds; it may have run all the same"
    )


@CONNECTIONS
@on_each_backend
def test_a_connection_that_is_gone_is_an_error_that_says_so(connect: Any, backend: str) -> None:
    async def main() -> CallResult:
        async with connect(GitHub(remote()).server) as session:
            tools = await mcp_tools(session, server="github")
        turn = await Agent(tools=tools, permissions=[AllowByDefault()]).ause_tools([tool_call("github__create_issue")])
        found: CallResult = turn.results[0]
        return found

    result = ran(main, backend)
    assert isinstance(result.outcome.error, ToolError)
    assert result.content.startswith("the call of create_issue on the MCP server github failed: ")


@on_each_backend
def test_a_call_from_another_event_loop_is_refused_instead_of_waiting_forever(backend: str) -> None:
    async def main() -> tuple[CallResult, Any]:
        github = GitHub(remote())
        async with session_with(github.server) as session:
            agent = Agent(tools=await mcp_tools(session, server="github"), permissions=[AllowByDefault()])
            turn = await anyio.to_thread.run_sync(agent.use_tools, [tool_call("github__create_issue")])
            return turn.results[0], github.calls

    result, calls = ran(main, backend)
    assert isinstance(result.outcome.error, ToolError)
    assert "the MCP server github was connected in another event loop" in result.content
    assert "ause_tools" in result.content
    assert calls == []


@on_each_backend
def test_an_answer_that_is_no_result_is_an_error(backend: str) -> None:
    async def call(name: str, args: dict[str, Any]) -> Any:
        return "junk"

    async def main() -> None:
        with pytest.raises(ToolError, match="answered the call of create_issue with str, which is not the result"):
            await MCPTool("github", remote(), call).run({})

    ran(main, backend)


@on_each_backend
def test_a_cancelled_turn_cancels_the_call_and_is_no_error_of_the_tool(backend: str) -> None:
    async def main() -> bool:
        asked = anyio.Event()

        async def answer() -> Any:
            asked.set()
            await anyio.sleep_forever()

        async with session_with(GitHub(remote(), answer=answer).server) as session:
            agent = Agent(tools=await mcp_tools(session, server="github"), permissions=[AllowByDefault()])

            async def turn() -> None:
                await agent.ause_tools([tool_call("github__create_issue")])
                raise AssertionError("the turn ended by itself")

            async with anyio.create_task_group() as group:
                group.start_soon(turn)
                await asked.wait()
                group.cancel_scope.cancel()
            return group.cancel_scope.cancelled_caught

    assert ran(main, backend)


# ---------------------------------------------------------------------- the usual server


def usual_server() -> MCPServer:
    server = MCPServer("weather")

    @server.tool(annotations=wire.ToolAnnotations(read_only_hint=True))
    def forecast(city: str, days: int = 1) -> list[str]:
        """Say how the weather will be."""
        return [f"{city}: rain"] * days

    @server.tool()
    def fail(why: str) -> str:
        raise ValueError(why)

    return server


@CONNECTIONS
@on_each_backend
def test_tools_made_of_functions_run_and_fail_like_any_tool(connect: Any, backend: str) -> None:
    async def main() -> list[CallResult]:
        async with connect(usual_server()) as session:
            agent = Agent(
                tools=await mcp_tools(session, server="weather"),
                permissions=[AllowByReadOnly(trust_mcp=True), AllowByName(["weather__fail"])],
            )
            turn = await agent.ause_tools(
                [
                    tool_call("weather__forecast", city="Łódź", days=2),
                    tool_call("weather__fail", why="no data"),
                    tool_call("weather__forecast", days=2),
                ]
            )
            return list(turn.results)

    good, bad, wrong = ran(main, backend)
    assert (good.outcome.kind, good.content.count("Łódź: rain")) == ("done", 2)
    assert bad.outcome.kind == "error"
    assert wrong.verdict == "input_error"


STDIO_SERVER = """
from mcp.server.mcpserver import MCPServer

server = MCPServer("sums")

@server.tool()
def add(a: int, b: int) -> str:
    return str(a + b)

server.run("stdio")
"""


@pytest.mark.timeout(60)
@on_each_backend
def test_a_server_in_a_process_of_its_own_is_called(backend: str) -> None:
    async def main() -> CallResult:
        command = mcp.StdioServerParameters(command=sys.executable, args=["-c", STDIO_SERVER])
        async with mcp.stdio_client(command) as streams, mcp.ClientSession(*streams) as session:
            await session.initialize()
            agent = Agent(tools=await mcp_tools(session, server="sums", timeout=30), permissions=[AllowByDefault()])
            found: CallResult = (await agent.ause_tools([tool_call("sums__add", a=2, b=3)])).results[0]
            return found

    async def in_time() -> CallResult:
        with anyio.fail_after(50):
            return await main()

    result = anyio.run(in_time, backend=backend)
    assert (result.outcome.kind, result.content) == ("done", "5")


def test_nothing_of_mcp_is_loaded_before_it_is_used() -> None:
    code = "import sys, agentperm_nb; print([name for name in sys.modules if name.split('.')[0] in {'mcp', 'trio'}])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


# ---------------------------------------------------------------------- the page about it


def _blocks_of_the_page() -> list[str]:
    page = (Path(__file__).parents[1] / "docs" / "mcp.md").read_text(encoding="utf-8")
    return re.findall(r"```python\n(.*?)```", page, re.DOTALL)


async def _execute(source: str, names: dict[str, Any]) -> None:
    code = compile(source, "mcp.md", "exec", ast.PyCF_ALLOW_TOP_LEVEL_AWAIT)
    running = FunctionType(code, names)()
    if running is not None:
        await running


def test_the_examples_of_the_page_run(monkeypatch: pytest.MonkeyPatch) -> None:
    github = GitHub(remote("create_issue"), remote("delete_repo"))
    client = mcp.Client
    monkeypatch.setattr(mcp, "Client", lambda address: client(github.server))
    first, second = [block for block in _blocks_of_the_page() if "mcp_tools" in block]

    async def main() -> None:
        calls = [tool_call("github__create_issue"), tool_call("github__delete_repo")]
        names: dict[str, Any] = {"reply": calls}
        await _execute(first, names)
        assert [result.verdict for result in names["turn"].results] == ["denied", "denied"]

        await _execute(second, names)
        assert [tool.name for tool in names["agent"].tools] == ["github__create_issue", "github__delete_repo"]
        turn = await Agent(tools=await names["ready"], permissions=[AllowByDefault()]).ause_tools(calls[:1])
        assert turn.results[0].content == "done"
        names["close"].set()
        await names["task"]

    ran(main)
