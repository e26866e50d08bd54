"""The README's loop, with the providers' own clients, against a server that refuses what the APIs refuse."""

from __future__ import annotations

import ast
import re
from pathlib import Path
from types import FunctionType
from typing import Any

import anthropic
import openai
import pytest
from model_server import serving, streamed
from wire import check, function, function_call, response, said, text, use

from agentperm_nb import Agent, AllowByName, AllowByReadOnly, ApprovalDecision, DecideByHuman, DenyByName, tool
from agentperm_nb.results import Image
from agentperm_nb.running.formats import read_reply, write_conversation
from agentperm_nb.running.messages import Message, ToolResultBlock

pytestmark = pytest.mark.anyio


KEPT = {"notes.txt": "caf\udce9"}  # as a file that is not UTF-8 is read


@tool(read_only=True)
def read_file(path: str) -> str:
    """Read a text file."""
    return KEPT[path]


@tool
def write_file(path: str, content: str) -> str:
    """Write a text file."""
    return f"{len(content)} characters written to {path}"


@tool
def delete_file(path: str) -> str:
    """Delete a file."""
    raise AssertionError(f"{path} was to be kept")


def answer(request: Any) -> ApprovalDecision:
    if request.call.name == "db__drop":
        return ApprovalDecision("deny", reason="the table is needed")
    if request.call.args["path"] == "/etc/passwd":
        return ApprovalDecision("deny", reason="not there", stop=True)
    return ApprovalDecision("edit", edited_args={**request.call.args, "content": "shorter"})


def sent(text: str) -> str:
    """Return the text of the file, and fail if it cannot be sent: half a surrogate pair has no form in UTF-8."""
    assert text.startswith("caf")
    return text.encode().decode()


@pytest.fixture
def agent() -> Agent:
    return Agent(
        tools=[read_file, write_file, delete_file],
        permissions=[DenyByName(["delete_*"]), AllowByReadOnly(), DecideByHuman()],
        approval_handler=answer,
    )


THINKING = {"type": "thinking", "thinking": "First look.", "signature": "c2lnbmVk"}
SEARCH = {"type": "server_tool_use", "id": "srvtoolu_1", "name": "web_search", "input": {"query": "notes"}}


async def test_the_loop_with_anthropic_ends_with_every_call_answered(agent: Agent) -> None:
    first = [
        THINKING,
        text("Let me look."),
        SEARCH,
        use("read_file", {"path": "notes.txt"}, "a"),
        use("delete_file", {"path": "notes.txt"}, "b"),
        use("write_file", {"path": "notes.txt", "content": "long and tidy"}, "c"),
    ]
    second = [text(""), use("read_file", {"path": "\ud800"}, "d"), use("erase", {}, "e"), use("read_file", {}, "e")]
    with serving(first, second, [text("Tidied.")]) as model:
        async with anthropic.AsyncAnthropic(base_url=model.url, api_key="test", max_retries=0) as client:
            messages: list[Any] = [{"role": "user", "content": "Tidy notes.txt"}]
            while True:
                specs: Any = agent.tool_specs("anthropic")
                reply = await client.messages.create(model="claude", max_tokens=99, messages=messages, tools=specs)
                turn = await agent.ause_tools(reply)
                messages += turn.to_messages(with_reply=True)
                if turn.stopped or not turn.calls:
                    break
    assert len(model.requests) == 3
    assert messages[1] == {"role": "assistant", "content": first}
    read, denied, written = messages[2]["content"]
    assert read == {"type": "tool_result", "tool_use_id": "a", "content": sent(read["content"])}
    assert (denied["tool_use_id"], denied["is_error"]) == ("b", True)
    assert "delete_file" in denied["content"]
    assert "7 characters written" in written["content"]
    assert "is_error" not in written
    assert [(block["tool_use_id"], block["is_error"]) for block in messages[4]["content"]] == [
        ("d", True),
        ("e", True),
        ("e", True),
    ]
    assert messages[5:] == [{"role": "assistant", "content": [text("Tidied.")]}]


async def test_the_loop_with_openai_ends_with_every_call_answered(agent: Agent) -> None:
    first = [
        function("read_file", '{"path": "notes.txt"}', "a"),
        function("delete_file", '{"path": "x"}', "b"),
        function("write_file", '{"path": "notes.txt", "content": "long and tidy"}', "c"),
    ]
    second = [function("read_file", '{"path": "notes', "d"), function("read_file", r'{"path": "\ud800"}', "e")]
    replies = [{"tool_calls": first, "content": "Let me look."}, {"tool_calls": second}, {"content": "Tidied."}]
    with serving(*replies) as model:
        async with openai.AsyncOpenAI(base_url=f"{model.url}/v1", api_key="test", max_retries=0) as client:
            messages: list[Any] = [{"role": "user", "content": "Tidy notes.txt"}]
            while True:
                specs: Any = agent.tool_specs("openai-chat")
                reply = await client.chat.completions.create(model="gpt", messages=messages, tools=specs)
                turn = await agent.ause_tools(reply)
                messages += turn.to_messages(with_reply=True)
                if turn.stopped or not turn.calls:
                    break
    assert len(model.requests) == 3
    assert messages[1] == {"role": "assistant", "content": "Let me look.", "tool_calls": first}
    assert [item["tool_call_id"] for item in messages[2:5]] == ["a", "b", "c"]
    assert messages[2]["content"] == sent(messages[2]["content"])
    assert messages[3]["content"].startswith("Error: ")
    assert "7 characters written" in messages[4]["content"]
    assert not messages[4]["content"].startswith("Error: ")
    assert messages[5] == {"role": "assistant", "tool_calls": second}
    assert "not valid JSON" in messages[6]["content"]
    assert messages[8:] == [{"role": "assistant", "content": "Tidied."}]


async def test_the_loop_with_openai_responses_ends_with_every_item_answered(agent: Agent) -> None:
    reasoning = {"type": "reasoning", "id": "rs_1", "summary": [], "encrypted_content": "c2ln"}
    search = {
        "type": "web_search_call",
        "id": "ws_1",
        "status": "completed",
        "action": {"type": "search", "query": "q"},
    }
    first = [
        reasoning,
        said("Let me look."),
        search,
        function_call("read_file", '{"path": "notes.txt"}', "a"),
        function_call("delete_file", '{"path": "x"}', "b"),
        function_call("write_file", '{"path": "notes.txt", "content": "long and tidy"}', "c"),
    ]
    approval = {"type": "mcp_approval_request", "id": "mcpr_1", "server_label": "db", "name": "drop", "arguments": "{}"}
    second = [
        function_call("read_file", '{"path": "notes', "d"),
        {"type": "custom_tool_call", "id": "ct_1", "call_id": "e", "name": "sql", "input": "drop table notes"},
        {
            "type": "shell_call",
            "id": "sh_1",
            "call_id": "f",
            "status": "completed",
            "action": {"commands": ["rm -r ."]},
        },
        approval,
    ]
    with serving(first, second, [said("Tidied.")]) as model:
        async with openai.AsyncOpenAI(base_url=f"{model.url}/v1", api_key="test", max_retries=0) as client:
            items: list[Any] = [{"role": "user", "content": "Tidy notes.txt"}]
            while True:
                specs: Any = agent.tool_specs("openai-responses")
                reply = await client.responses.create(model="gpt", input=items, tools=specs, store=False)
                turn = await agent.ause_tools(reply)
                items += turn.to_messages(with_reply=True)
                if turn.stopped or not turn.calls:
                    break
    assert len(model.requests) == 3
    assert items[1:7] == first
    read, denied, written = items[7:10]
    assert read == {"type": "function_call_output", "call_id": "a", "output": sent(read["output"])}
    assert (denied["call_id"], denied["output"][:7]) == ("b", "Error: ")
    assert "7 characters written" in written["output"]
    assert not written["output"].startswith("Error: ")
    assert items[10:14] == second
    unread, custom, shell, approved = items[14:18]
    assert "not valid JSON" in unread["output"]
    assert "free text, not arguments" in custom["output"]
    assert "did not run" in shell["output"][0]["stderr"]
    assert approved["approve"] is False
    assert "the table is needed" in approved["reason"]
    assert items[18:] == [said("Tidied.")]


APPROVALS = [
    {"type": "mcp_approval_request", "id": f"mcpr_{name}", "server_label": "db", "name": name, "arguments": "{}"}
    for name in ("select", "drop", "insert")
]
RAN = {
    "type": "mcp_call",
    "id": "mcp_1",
    "server_label": "db",
    "name": "select",
    "arguments": "{}",
    "output": "3 rows",
    "status": "completed",
    "approval_request_id": "mcpr_select",
}


@tool(name="db__select", read_only=True)
def select_here() -> str:
    """Have the name of the provider's tool, and nothing else of it."""
    raise AssertionError("this tool was not called")


def add_a_row(request: Any) -> ApprovalDecision:
    return ApprovalDecision("edit", edited_args={"row": 1})


async def test_what_would_run_at_the_provider_is_decided_here_and_approved_only_when_it_was_allowed() -> None:
    agent = Agent(
        tools=[read_file, select_here],
        permissions=[AllowByName(["db__select"]), DenyByName(["db__drop"]), DecideByHuman()],
        approval_handler=add_a_row,
    )
    with serving(APPROVALS, [RAN, said("3 rows.")]) as model:
        async with openai.AsyncOpenAI(base_url=f"{model.url}/v1", api_key="test", max_retries=0) as client:
            items: list[Any] = [{"role": "user", "content": "Count the rows"}]
            while True:
                specs: Any = agent.tool_specs("openai-responses")
                reply = await client.responses.create(model="gpt", input=items, tools=specs, store=False)
                turn = await agent.ause_tools(reply)
                items += turn.to_messages(with_reply=True)
                if turn.stopped or not turn.calls:
                    break
    assert items[1:4] == APPROVALS
    select, drop, insert = items[4:7]
    assert select == {"type": "mcp_approval_response", "approval_request_id": "mcpr_select", "approve": True}
    assert (drop["approve"], insert["approve"]) == (False, False)
    assert "db__drop" in drop["reason"]
    assert "no other arguments" in insert["reason"]
    assert items[7:] == [RAN, said("3 rows.")]
    (ran,) = read_reply(reply).provider_calls
    assert (ran.name, ran.failed, ran.approval_id) == ("db__select", False, "mcpr_select")


async def test_the_loop_on_the_page_about_servers_that_the_provider_connects_to_runs() -> None:
    page = (Path(__file__).parents[2] / "docs" / "mcp.md").read_text(encoding="utf-8")
    (block,) = [found for found in re.findall(r"```python\n(.*?)```", page, re.DOTALL) if "require_approval" in found]
    agent = Agent(tools=[read_file], permissions=[AllowByName(["db__select"])])
    with serving(APPROVALS[:1], [RAN, said("Closed.")]) as model:
        async with openai.AsyncOpenAI(base_url=f"{model.url}/v1", api_key="test", max_retries=0) as client:
            names: dict[str, Any] = {"agent": agent, "client": client, "MODEL": "gpt"}
            await FunctionType(compile(block, "mcp.md", "exec", ast.PyCF_ALLOW_TOP_LEVEL_AWAIT), names)()
    assert [tool["type"] for tool in model.requests[0]["tools"]] == ["mcp", "function"]
    assert [item["approve"] for item in names["items"] if item.get("type") == "mcp_approval_response"] == [True]
    assert names["turn"].provider_calls[0].name == "db__select"


PLOT = Image(b"\x89PNG", "image/png")


def conversation(first: Any, *, is_error: bool) -> list[Message]:
    """Return a conversation that goes on after a reply with calls."""
    read = read_reply(first)
    answers = [ToolResultBlock(call.id, "a plot", call.name, is_error, (PLOT,)) for call in read.calls]
    return [
        Message.system("Be brief."),
        Message.user("Plot it.", PLOT),
        Message("assistant", read.calls, read),
        Message("user", tuple(answers)),
        Message.notice("one turn is left"),
    ]


async def ask(name: str, clients: Any, specs: Any, messages: list[Message]) -> Any:
    """Ask a provider to go on with a conversation."""
    made, (theirs, ours) = write_conversation(name, messages), clients
    if name == "openai-chat":
        return await ours.chat.completions.create(model="m", messages=made, tools=specs)
    told, items = made
    if name == "anthropic":
        more = {} if told is None else {"system": told}
        return await theirs.messages.create(model="m", max_tokens=9, messages=items, tools=specs, **more)
    return await ours.responses.create(model="m", instructions=told, input=items, tools=specs)


@pytest.mark.parametrize("is_error", [False, True], ids=["done", "failed"])
@pytest.mark.parametrize("origin", ["anthropic", "openai-chat", "openai-responses"])
async def test_a_conversation_that_was_begun_with_one_provider_is_taken_by_each(
    agent: Agent, origin: str, is_error: bool
) -> None:
    replies: dict[str, Any] = {
        "anthropic": [THINKING, text("Let me look."), SEARCH, use("read_file", {"path": "x"}, "toolu_1")],
        "openai-chat": {"tool_calls": [function("read_file", '{"path": "x"}', "a.b:1")], "content": "Let me look."},
        "openai-responses": [said("Let me look."), function_call("read_file", '{"path": "x"}', "a" * 50)],
    }
    with serving(replies[origin], [text("Done.")], {"content": "Done."}, [said("Done.")]) as model:
        theirs = anthropic.AsyncAnthropic(base_url=model.url, api_key="test", max_retries=0)
        ours = openai.AsyncOpenAI(base_url=f"{model.url}/v1", api_key="test", max_retries=0)
        async with theirs, ours:
            specs: Any = agent.tool_specs(origin)
            first = await ask(origin, (theirs, ours), specs, [Message.user("Plot it.")])
            messages = conversation(first, is_error=is_error)
            for name in replies:
                await ask(name, (theirs, ours), agent.tool_specs(name), messages)
    _, to_anthropic, to_chat, to_responses = model.requests
    assert to_anthropic["system"] == to_responses["instructions"] == "Be brief."
    assert to_chat["messages"][0] == {"role": "system", "content": "Be brief."}
    assert ("'signature'" in str(to_anthropic["messages"])) is (origin == "anthropic")
    assert ("a.b:1" in str(to_anthropic["messages"])) is False
    assert ("a.b:1" in str(to_chat["messages"])) is (origin == "openai-chat")
    assert ("a" * 50 in str(to_responses["input"])) is (origin == "openai-responses")
    assert ("a" * 50 in str(to_chat["messages"])) is False


async def test_the_server_of_these_tests_refuses_an_item_without_its_answer(agent: Agent) -> None:
    with serving([function_call("read_file", "{}", "a")], [said("never")]) as model:
        async with openai.AsyncOpenAI(base_url=f"{model.url}/v1", api_key="test", max_retries=0) as client:
            specs: Any = agent.tool_specs("openai-responses")
            reply = await client.responses.create(model="gpt", input=[], tools=specs)
            items: Any = [*reply.output, {"role": "user", "content": "And?"}]
            with pytest.raises(openai.BadRequestError, match="No tool output found"):
                await client.responses.create(model="gpt", input=items, tools=specs)


async def test_after_a_stop_the_model_can_still_be_asked_since_every_call_has_its_result(agent: Agent) -> None:
    first = [
        use("read_file", {"path": "notes.txt"}, "a"),
        use("write_file", {"path": "/etc/passwd", "content": ""}, "b"),
        use("write_file", {"path": "notes.txt", "content": ""}, "c"),
    ]
    with serving(first, [text("As you wish.")]) as model:
        async with anthropic.AsyncAnthropic(base_url=model.url, api_key="test", max_retries=0) as client:
            messages: list[Any] = [{"role": "user", "content": "Tidy up"}]
            specs: Any = agent.tool_specs("anthropic")
            reply = await client.messages.create(model="claude", max_tokens=99, messages=messages, tools=specs)
            turn = await agent.ause_tools(reply)
            assert turn.stopped
            messages += [*turn.to_messages(with_reply=True), {"role": "user", "content": "Then leave it."}]
            await client.messages.create(model="claude", max_tokens=99, messages=messages, tools=specs)
    assert [(block["tool_use_id"], block["is_error"]) for block in messages[2]["content"]] == [
        ("a", True),
        ("b", True),
        ("c", True),
    ]


async def test_the_server_of_these_tests_refuses_a_call_without_a_result(agent: Agent) -> None:
    with serving([use("read_file", {"path": "x"}, "a")], [text("never")]) as model:
        async with anthropic.AsyncAnthropic(base_url=model.url, api_key="test", max_retries=0) as client:
            messages: list[Any] = [{"role": "user", "content": "Read x"}]
            specs: Any = agent.tool_specs("anthropic")
            reply = await client.messages.create(model="claude", max_tokens=99, messages=messages, tools=specs)
            messages += [{"role": "assistant", "content": reply.content}, {"role": "user", "content": "And?"}]
            with pytest.raises(anthropic.BadRequestError, match="tool_use needs a tool_result"):
                await client.messages.create(model="claude", max_tokens=99, messages=messages, tools=specs)


@pytest.mark.parametrize(
    ("pieces", "stop_reason", "cut"),
    [
        (['{"path": "/tmp/', 'old.txt"}'], "tool_use", None),
        (['{"recursive": true, "path": "/', "tmp/ol"], "max_tokens", "cut off (stop_reason: max_tokens)"),
        (['{"recursive": true,'], "max_tokens", "cut off (stop_reason: max_tokens)"),
    ],
    ids=["complete", "cut in a value", "cut between two arguments"],
)
async def test_a_call_of_a_stream_is_valid_only_when_it_came_to_its_end(
    agent: Agent, pieces: list[str], stop_reason: str, cut: str | None
) -> None:
    events = streamed(*pieces, stop_reason=stop_reason)
    with serving(events, events) as model:
        async with anthropic.AsyncAnthropic(base_url=model.url, api_key="test", max_retries=0) as client:
            specs: Any = agent.tool_specs("anthropic")
            messages: Any = [{"role": "user", "content": "Delete the old file"}]
            options: Any = {"model": "claude", "max_tokens": 99, "messages": messages, "tools": specs}
            manager = client.messages.stream(**options)
            with pytest.raises(TypeError, match="a stream or opens one"):
                read_reply(manager)
            async with manager as stream:
                with pytest.raises(TypeError, match="is a stream"):
                    read_reply(stream)
                async for event in stream:
                    if event.type == "content_block_stop":
                        (unfinished,) = read_reply(stream.current_message_snapshot).calls
                        assert "the stream had not ended" in str(unfinished.invalid)
                reply = await stream.get_final_message()
            raw = await client.messages.create(**options, stream=True)
            with pytest.raises(TypeError, match="is a stream"):
                read_reply(raw)
            await raw.close()
    assert isinstance(reply.content[0].input, dict)  # the client makes an object of whatever has come
    turn = await agent.ause_tools(reply)
    (result,) = turn.results
    assert result.verdict == ("denied" if cut is None else "input_error")
    assert cut is None or cut in result.content
    check("anthropic", turn.to_messages(with_reply=True))


@pytest.mark.parametrize("status", ["completed", "incomplete"])
async def test_the_response_at_the_end_of_a_stream_is_read_and_what_comes_before_is_not(
    agent: Agent, status: str
) -> None:
    call = function_call("delete_file", '{"path": "/tmp/old.txt"}')
    details = {"reason": "max_output_tokens"} if status == "incomplete" else None
    events = [
        {"type": "response.created", "sequence_number": 0, "response": response(status="in_progress")},
        {"type": "response.output_item.done", "sequence_number": 1, "output_index": 0, "item": call},
        {
            "type": f"response.{status}",
            "sequence_number": 2,
            "response": response(call, status=status, incomplete_details=details),
        },
    ]
    with serving(events) as model:
        async with openai.AsyncOpenAI(base_url=f"{model.url}/v1", api_key="test", max_retries=0) as client:
            specs: Any = agent.tool_specs("openai-responses")
            stream = await client.responses.create(model="gpt", input=[], tools=specs, stream=True)
            with pytest.raises(TypeError, match="is a stream"):
                read_reply(stream)
            created, done, last = [event async for event in stream]
    for event in (created, done, last):
        with pytest.raises(TypeError, match="one piece of a stream"):
            read_reply(event)
    with pytest.raises(ValueError, match="has not ended yet"):
        read_reply(created.response)
    turn = await agent.ause_tools(last.response)
    (result,) = turn.results
    assert result.verdict == ("denied" if details is None else "input_error")
    assert details is None or "cut off (status: incomplete, reason: max_output_tokens)" in result.content
    check("openai-responses", turn.to_messages(with_reply=True))
