"""Whole runs with the providers' own clients, sync and async, against a server that refuses what the APIs refuse."""

from __future__ import annotations

import gc
import json
import threading
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from functools import wraps
from types import SimpleNamespace
from typing import Any

import anthropic
import anyio
import anyio.to_thread
import openai
import pytest
from model_server import Failure, ModelServer, serving
from wire import completion, function, function_call, message, response, said, text, use

from agentperm_nb import (
    Agent,
    AllowByDefault,
    AllowByReadOnly,
    AnthropicModel,
    ApprovalDecision,
    DecideByHuman,
    DenyByName,
    Image,
    Message,
    OpenAIModel,
    OpenAIResponsesModel,
    State,
    ToolError,
    loop,
    tool,
    waiting_for_user,
)
from agentperm_nb.running.formats.spoken import read_text, why_cut
from agentperm_nb.running.models import as_message, is_async_model
from agentperm_nb.testing import ScriptedModel, tool_call

Call = tuple[str, dict[str, Any], str]  # name, arguments, id
PNG = b"\x89PNG\r\n\x1a\n" + bytes(8)


# ---------------------------------------------------------------------- the three APIs


@dataclass(frozen=True)
class Api:
    """One API: its model and clients, replies of it, and what a request to it says."""

    name: str
    model: Any
    client: Callable[..., Any]
    aclient: Callable[..., Any]
    reply: Callable[[str, list[Call]], Any]
    cut: Callable[[str, list[Call]], Any]
    """A whole reply that was cut off."""
    instructions: Callable[[dict[str, Any]], Any]
    results: Callable[[dict[str, Any]], list[tuple[str, str, int]]]
    """Of the last turn: the id of the call, the text, the number of images."""
    status_error: type[Exception]


def _anthropic_results(body: dict[str, Any]) -> list[tuple[str, str, int]]:
    found = []
    for block in body["messages"][-1]["content"]:
        if block["type"] == "tool_result":
            content = block["content"]
            parts = [text(content)] if isinstance(content, str) else content
            words = "".join(part["text"] for part in parts if part["type"] == "text")
            found.append((block["tool_use_id"], words, sum(part["type"] == "image" for part in parts)))
    return found


def _chat_results(body: dict[str, Any]) -> list[tuple[str, str, int]]:
    last = max(index for index, item in enumerate(body["messages"]) if item["role"] == "assistant")
    tail = body["messages"][last + 1 :]
    return [(item["tool_call_id"], item["content"], 0) for item in tail if item["role"] == "tool"]


def _responses_results(body: dict[str, Any]) -> list[tuple[str, str, int]]:
    last = max(index for index, item in enumerate(body["input"]) if item.get("type") == "function_call")
    found = []
    for item in body["input"][last + 1 :]:
        if item.get("type") == "function_call_output":
            output = item["output"]
            parts = [{"type": "input_text", "text": output}] if isinstance(output, str) else output
            words = "".join(part["text"] for part in parts if part["type"] == "input_text")
            found.append((item["call_id"], words, sum(part["type"] == "input_image" for part in parts)))
    return found


def _anthropic_reply(words: str, calls: list[Call]) -> list[Any]:
    return [*([text(words)] if words else []), *(use(name, args, id) for name, args, id in calls)]


def _chat_reply(words: str, calls: list[Call]) -> dict[str, Any]:
    made = [function(name, json.dumps(args), id) for name, args, id in calls]
    return {"content": words or None, **({"tool_calls": made} if made else {})}


def _responses_reply(words: str, calls: list[Call]) -> list[Any]:
    made = [function_call(name, json.dumps(args), id) for name, args, id in calls]
    return [*([said(words)] if words else []), *made]


def _options(package: Any, *, asynchronous: bool = False) -> Any:
    # Without certificates, which take a client longest to read and which a server on this machine does not have.
    kind = package.DefaultAsyncHttpxClient if asynchronous else package.DefaultHttpxClient
    return {"api_key": "test", "max_retries": 0, "http_client": kind(verify=False)}


def anthropic_client(url: str = "http://127.0.0.1:9", kind: Any = anthropic.Anthropic) -> Any:
    return kind(base_url=url, **_options(anthropic))


def anthropic_aclient(url: str = "http://127.0.0.1:9", kind: Any = anthropic.AsyncAnthropic) -> Any:
    return kind(base_url=url, **_options(anthropic, asynchronous=True))


def openai_client(url: str = "http://127.0.0.1:9") -> Any:
    return openai.OpenAI(base_url=f"{url}/v1", **_options(openai))


def openai_aclient(url: str = "http://127.0.0.1:9", kind: Any = openai.AsyncOpenAI, **more: Any) -> Any:
    return kind(base_url=f"{url}/v1", **_options(openai, asynchronous=True), **more)


ANTHROPIC = Api(
    name="anthropic",
    model=AnthropicModel,
    client=anthropic_client,
    aclient=anthropic_aclient,
    reply=_anthropic_reply,
    cut=lambda words, calls: message(*_anthropic_reply(words, calls), stop_reason="max_tokens"),
    instructions=lambda body: body.get("system"),
    results=_anthropic_results,
    status_error=anthropic.APIStatusError,
)
CHAT = Api(
    name="openai-chat",
    model=OpenAIModel,
    client=openai_client,
    aclient=openai_aclient,
    reply=_chat_reply,
    cut=lambda words, calls: completion(finish_reason="length", **_chat_reply(words, calls)),
    instructions=lambda body: next((item["content"] for item in body["messages"] if item["role"] == "system"), None),
    results=_chat_results,
    status_error=openai.APIStatusError,
)
RESPONSES = Api(
    name="openai-responses",
    model=OpenAIResponsesModel,
    client=openai_client,
    aclient=openai_aclient,
    reply=_responses_reply,
    cut=lambda words, calls: response(
        *_responses_reply(words, calls), status="incomplete", incomplete_details={"reason": "max_output_tokens"}
    ),
    instructions=lambda body: body.get("instructions"),
    results=_responses_results,
    status_error=openai.APIStatusError,
)
APIS = [ANTHROPIC, CHAT, RESPONSES]
each_api = pytest.mark.parametrize("api", APIS, ids=lambda api: api.name)


@dataclass(frozen=True)
class Way:
    """A kind of client, and what drives the run."""

    asynchronous: bool
    driver: str


WAYS = [Way(False, "sync"), *(Way(client, backend) for client in (False, True) for backend in ("asyncio", "trio"))]
each_way = pytest.mark.parametrize(
    "way", WAYS, ids=lambda way: f"{'async' if way.asynchronous else 'sync'} client, {way.driver}"
)


def do(way: Way, api: Api, server: ModelServer, task: Any, *tasks: Any, model: Any = None, **settings: Any) -> Any:
    """Run tasks one after the other with one client; return the last answer.

    Args:
        way: See `Way`.
        api: See `Api`.
        server: Where the client asks.
        task: A prompt or a State.
        *tasks: Further ones.
        model: Options of the model.
        **settings: Settings of the agent.
    """

    def agent(client: Any) -> Agent:
        return Agent(model=api.model(client, "a-model", **(model or {})), **settings)

    if way.asynchronous:

        async def main() -> Any:
            async with api.aclient(server.url) as client:
                made = agent(client)
                return [await made.arun(one) for one in (task, *tasks)][-1]

        return anyio.run(main, backend=way.driver)
    with api.client(server.url) as client:
        made = agent(client)
        if way.driver == "sync":
            return [made.run(one) for one in (task, *tasks)][-1]
        return [anyio.run(made.arun, one, backend=way.driver) for one in (task, *tasks)][-1]


# ---------------------------------------------------------------------- a whole task


class Desk:
    """Tools of one task, with what they did."""

    def __init__(self) -> None:
        self.written: list[tuple[str, str]] = []
        together = threading.Barrier(2)

        @tool(read_only=True)
        def read_file(path: str) -> str:
            """Read a text file."""
            together.wait(10)  # it ends only when two of them run at once
            return f"text of {path}"

        @tool
        def write_file(path: str, content: str) -> str:
            """Write a text file."""
            self.written.append((path, content))
            return "written"

        @tool(read_only=True)
        def find(name: str) -> str:
            """Find a file."""
            raise ToolError(f"there is no {name}")

        @tool(read_only=True)
        async def plot() -> Image:
            """Draw."""
            return Image(PNG, "image/png")

        @tool
        def delete_file(path: str) -> str:
            """Delete a file."""
            raise AssertionError(f"{path} was to be kept")

        self.settings: dict[str, Any] = {
            "tools": [read_file, write_file, find, plot, delete_file],
            "permissions": [DenyByName(["delete_*"], reason="Nothing is deleted."), AllowByReadOnly(), DecideByHuman()],
            "approval_handler": self._answer,
        }

    @staticmethod
    def _answer(request: Any) -> ApprovalDecision:
        return ApprovalDecision("edit", edited_args={**request.call.args, "content": "shorter"})


@each_api
@each_way
def test_a_task_of_several_turns_is_run_to_its_answer(way: Way, api: Api) -> None:
    desk, state = Desk(), State([Message.user("Tidy notes.txt")])
    first: list[Call] = [
        ("read_file", {"path": "notes.txt"}, "a"),
        ("delete_file", {"path": "notes.txt"}, "b"),
        ("write_file", {"path": "notes.txt", "content": "long and tidy"}, "c"),
        ("find", {"name": "old.txt"}, "d"),
        ("plot", {}, "e"),
        ("read_file", {"path": "more.txt"}, "f"),
    ]
    second: list[Call] = [("find", {}, "g"), ("erase", {}, "h")]
    with serving(api.reply("Let me look.", first), api.reply("", second), api.reply("Tidied.", [])) as server:
        answer = do(way, api, server, state, instructions="Be brief.", **desk.settings)
    assert answer == "Tidied."
    assert desk.written == [("notes.txt", "shorter")]
    asked, told, corrected = server.requests
    assert [body["model"] for body in server.requests] == ["a-model"] * 3
    assert [api.instructions(body) for body in server.requests] == ["Be brief."] * 3
    assert "Tidy notes.txt" in json.dumps(asked)
    assert "Let me look." in json.dumps(told)
    names = [item.get("name") or item["function"]["name"] for item in asked["tools"]]
    assert names == ["read_file", "write_file", "find", "plot", "delete_file"]

    results = api.results(told)
    assert [id for id, _, _ in results] == ["a", "b", "c", "d", "e", "f"]
    read, denied, edited, failed, drawn, also_read = (words for _, words, _ in results)
    assert (read, also_read) == ("text of notes.txt", "text of more.txt")
    assert "Nothing is deleted." in denied
    assert "written" in edited
    assert "shorter" in edited
    assert "there is no old.txt" in failed
    assert [images for _, _, images in results][4] == (0 if api is CHAT else 1)
    assert ("1 image left out" in drawn) is (api is CHAT)
    assert [id for id, _, _ in api.results(corrected)] == ["g", "h"]

    kinds = [result.outcome.kind for result in state.results]
    assert sorted(kinds) == sorted(["done", "done", "done", "done", "denied", "error", "input_error", "input_error"])
    assert [m.role for m in state.messages] == ["user", "assistant", "user", "assistant", "user", "assistant"]


@each_api
@each_way
def test_a_conversation_goes_on_in_the_next_run(way: Way, api: Api) -> None:
    state = State([Message.user("One")])
    looks = [("find", {"name": "x"}, "a")]
    with serving(api.reply("", looks), api.reply("First.", []), api.reply("Second.", [])) as server:
        do(way, api, server, state, **Desk().settings)
        state.add_message(Message.user("Two"))
        assert do(way, api, server, state, **Desk().settings) == "Second."
    last = json.dumps(server.requests[-1])
    assert all(words in last for words in ("One", "there is no x", "First.", "Two"))


@each_api
def test_a_task_without_tools_and_instructions_sends_neither(api: Api) -> None:
    with serving(api.reply("Hello.", [])) as server:
        assert do(WAYS[0], api, server, "Hi") == "Hello."
    (body,) = server.requests
    assert "tools" not in body
    assert api.instructions(body) is None


@each_api
def test_an_image_of_the_user_is_shown_to_the_model(api: Api) -> None:
    state = State([Message.user("What is this?", Image(PNG, "image/png"))])
    with serving(api.reply("A plot.", [])) as server:
        assert do(WAYS[0], api, server, state) == "A plot."
    assert "iVBORw0KGgo" in json.dumps(server.requests)


# ---------------------------------------------------------------------- another provider's model


THINKING = {"type": "thinking", "thinking": "First look.", "signature": "c2lnbmVk"}
REASONING = {"type": "reasoning", "id": "rs_1", "summary": [], "encrypted_content": "c2ln"}


@pytest.mark.parametrize("second", APIS, ids=lambda api: f"then {api.name}")
@pytest.mark.parametrize("first", APIS, ids=lambda api: api.name)
def test_a_state_is_gone_on_with_by_another_providers_model_and_back(first: Api, second: Api) -> None:
    own: dict[str, list[Any]] = {"anthropic": [THINKING], "openai-responses": [REASONING]}
    one = first.reply("Let me see.", [("find", {"name": "x"}, "a"), ("plot", {}, "b"), ("delete_file", {}, "c")])
    if first.name in own:
        one = [*own[first.name], *one]
    two = second.reply("And here.", [("find", {"name": "y"}, "a")])  # an id that is taken already
    state = State([Message.user("Look")])
    with serving(one, first.reply("None.", []), two, second.reply("Neither.", []), first.reply("Bye.", [])) as server:
        do(WAYS[0], first, server, state, **Desk().settings)
        state.add_message(Message.user("Look there"))
        assert do(WAYS[0], second, server, state, **Desk().settings) == "Neither."
        state.add_message(Message.user("Thanks"))
        assert do(WAYS[0], first, server, state, **Desk().settings) == "Bye."
    other, back = json.dumps(server.requests[3]), json.dumps(server.requests[4])
    for words in ("Look", "Let me see.", "there is no x", "None.", "Look there", "And here.", "there is no y"):
        assert words in other
        assert words in back
    for part in own.get(first.name, []):
        # What only its own provider can read is told to no other, and is not lost.
        assert holds(server.requests[3], part) is (first is second)
        assert holds(server.requests[4], part)
    assert "Thanks" not in other
    assert "Thanks" in back


def holds(value: Any, part: Any) -> bool:
    """Whether the part is somewhere in a JSON value."""
    inside = value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
    return bool(value == part) or any(holds(item, part) for item in inside)


# ---------------------------------------------------------------------- replies that are not whole


@each_api
@each_way
def test_a_call_that_was_cut_off_does_not_run_and_the_model_is_told(way: Way, api: Api) -> None:
    desk, state = Desk(), State([Message.user("Hi")])
    calls: list[Call] = [("find", {"name": "x"}, "a"), ("write_file", {"path": "a", "content": "half"}, "b")]
    with serving(api.cut("", calls), api.reply("Done.", [])) as server:
        assert do(way, api, server, state, **desk.settings) == "Done."
    assert desk.written == []
    found, cut = api.results(server.requests[1])
    assert "there is no x" in found[1]
    assert "the reply was cut off" in cut[1]


@each_api
@each_way
def test_an_answer_that_was_cut_off_is_warned_about_and_kept(way: Way, api: Api) -> None:
    state = State([Message.user("Hi")])
    with serving(api.cut("The answer is", [])) as server, pytest.warns(UserWarning, match="was cut off") as caught:
        assert do(way, api, server, state) == "The answer is"
    (warning,) = [str(one.message) for one in caught]
    assert "max" in warning or "length" in warning
    assert state.messages[-1].text == "The answer is"


@each_way
def test_a_paused_turn_of_anthropic_is_gone_on_with(way: Way) -> None:
    search = {"type": "server_tool_use", "id": "srvtoolu_1", "name": "web_search", "input": {"query": "q"}}
    state = State([Message.user("Search")])
    paused = message(text("Searching."), search, stop_reason="pause_turn")
    with serving(paused, [text("Found it.")]) as server:
        assert do(way, ANTHROPIC, server, state) == "Found it."
    assert server.requests[1]["messages"][-1] == {"role": "assistant", "content": [text("Searching."), search]}


# ---------------------------------------------------------------------- errors


@each_api
@each_way
def test_an_error_of_the_server_loses_nothing(way: Way, api: Api) -> None:
    desk, state = Desk(), State([Message.user("Write")])
    write = api.reply("", [("write_file", {"path": "a", "content": "x"}, "a")])
    with serving(Failure(500), write, Failure(529), api.reply("Done.", [])) as server:
        with pytest.raises(api.status_error):
            do(way, api, server, state, **desk.settings)
        assert (state.turn, state.stopped, state.pending_calls, len(state.messages)) == (0, None, (), 1)
        with pytest.raises(api.status_error):
            do(way, api, server, state, **desk.settings)
        assert (state.turn, state.stopped, state.pending_calls, len(state.messages)) == (1, None, (), 3)
        assert do(way, api, server, state, **desk.settings) == "Done."
    assert desk.written == [("a", "shorter")]
    assert [entry.kind for entry in state.history].count("error") == 2
    assert api.results(server.requests[-1])[0][0] == "a"


@each_api
def test_a_server_that_is_not_there_loses_nothing(api: Api) -> None:
    with serving() as server:
        pass
    state = State([Message.user("Hi")])
    with pytest.raises((anthropic.APIConnectionError, openai.APIConnectionError)):
        do(WAYS[0], api, server, state)
    assert (state.turn, len(state.messages)) == (0, 1)


@pytest.mark.parametrize(
    ("api", "reply", "says"),
    [
        (ANTHROPIC, [use("", {}, "a")], "the name of the call"),
        (CHAT, {"tool_calls": [function("", "{}", "a")]}, "the name of the call"),
        (CHAT, completion(choices=[]), "0 choices"),
        (RESPONSES, response(status="failed", error={"code": "server_error", "message": "sorry"}), "sorry"),
        (RESPONSES, response(status="in_progress"), "has not ended yet"),
    ],
    ids=["no name", "no name in a chat", "no choice", "failed", "in progress"],
)
def test_a_reply_that_cannot_be_used_leaves_the_state_as_before(api: Api, reply: Any, says: str) -> None:
    state = State([Message.user("Hi")])
    with serving(reply, api.reply("Hello.", [])) as server:
        with pytest.raises(ValueError, match=says):
            do(WAYS[0], api, server, state)
        assert (state.turn, len(state.messages)) == (0, 1)
        assert do(WAYS[0], api, server, state) == "Hello."


# ---------------------------------------------------------------------- sync and async clients


@each_api
@pytest.mark.parametrize("way", WAYS[1:], ids=lambda way: f"{'async' if way.asynchronous else 'sync'}, {way.driver}")
def test_a_model_that_takes_its_time_does_not_block_the_loop(way: Way, api: Api) -> None:
    arrived, released = threading.Event(), threading.Event()

    def late() -> Any:
        arrived.set()
        return api.reply("Hello.", []) if released.wait(10) else Failure(500, "the loop was blocked")

    async def main(client: Any) -> list[str]:
        answers: list[str] = []
        agent = Agent(model=api.model(client, "a-model"))
        async with anyio.create_task_group() as group:

            async def ask() -> None:
                answers.append(await agent.arun("Hi"))

            group.start_soon(ask)
            await anyio.to_thread.run_sync(arrived.wait, 10)
            released.set()
        return answers

    async def opened() -> list[str]:
        if way.asynchronous:
            async with api.aclient(server.url) as client:
                return await main(client)
        with api.client(server.url) as client:
            return await main(client)

    with serving(late) as server:
        assert anyio.run(opened, backend=way.driver) == ["Hello."]


@each_api
@pytest.mark.parametrize("way", WAYS[1:], ids=lambda way: f"{'async' if way.asynchronous else 'sync'}, {way.driver}")
def test_a_run_that_is_cancelled_while_the_model_answers_can_be_run_again(way: Way, api: Api) -> None:
    arrived, released = threading.Event(), threading.Event()
    state = State([Message.user("Hi")])

    def late() -> Any:
        arrived.set()
        released.wait(10)
        return api.reply("Too late.", [])

    async def main(client: Any) -> Any:
        agent = Agent(model=api.model(client, "a-model"))
        async with anyio.create_task_group() as group:
            group.start_soon(agent.arun, state)
            await anyio.to_thread.run_sync(arrived.wait, 10)
            group.cancel_scope.cancel()
        assert (state.turn, state.stopped, len(state.messages)) == (0, None, 1)
        released.set()
        return await agent.arun(state)

    async def opened() -> Any:
        if way.asynchronous:
            async with api.aclient(server.url) as client:
                return await main(client)
        with api.client(server.url) as client:
            return await main(client)

    with serving(late, api.reply("Hello.", [])) as server:
        assert anyio.run(opened, backend=way.driver) == "Hello."
    assert [m.text for m in state.messages] == ["Hi", "Hello."]


@each_api
def test_an_async_client_in_a_sync_run_is_refused_before_anything_happens(api: Api) -> None:
    with serving() as server:
        agent = Agent(model=api.model(api.aclient(server.url), "a-model"))
        state = State([Message.user("Hi")])
        own_state = State([Message.user("Hi")])

        @loop
        def own(agent: Agent, state: State) -> None:
            agent.think(state)

        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            with pytest.raises(TypeError) as error:
                agent.run(state)
            with pytest.raises(TypeError, match="answers only asynchronously"):
                agent.copy(loop=own).run(own_state)
            gc.collect()
        assert [str(warning.message) for warning in caught] == []
    assert str(error.value).splitlines() == [
        f"the model {agent.model!r} answers only asynchronously",
        "Fix: await the async form, or give it a sync client",
        "Example:",
        "    answer = await agent.arun('Tidy notes.txt')",
    ]
    assert [entry.kind for entry in state.history] == ["message"]
    assert own_state.turn == 0
    assert server.requests == []


def test_a_model_that_turns_out_to_be_async_in_a_sync_run_is_refused_too() -> None:
    async def answers() -> str:
        return "never"

    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        with pytest.raises(TypeError, match="answers only asynchronously"):
            Agent(model=lambda messages, tools: answers()).run("Hi")
        gc.collect()
    assert [str(warning.message) for warning in caught] == []


def _traced(function: Any) -> Any:
    @wraps(function)
    def wrapper(*args: Any, **kwargs: Any) -> Any:
        return function(*args, **kwargs)

    return wrapper


async def _acreate(**request: Any) -> Any:
    return message(text("Hello."), stop_reason="end_turn")


def _create(**request: Any) -> Any:
    return message(text("Hello."), stop_reason="end_turn")


class _Acreate:
    async def __call__(self, **request: Any) -> Any:
        return await _acreate(**request)


class Cloud(anthropic.Anthropic):
    """As the clients for clouds are made."""


class AsyncCloud(anthropic.AsyncAnthropic):
    """As the clients for clouds are made."""


def _like(create: Any) -> Any:
    return SimpleNamespace(messages=SimpleNamespace(create=create))


@pytest.mark.parametrize(
    ("model", "client", "asynchronous"),
    [
        (AnthropicModel, anthropic_client(), False),
        (AnthropicModel, anthropic_aclient(), True),
        (AnthropicModel, anthropic_client().beta, False),
        (AnthropicModel, anthropic_aclient().beta, True),
        (AnthropicModel, anthropic_client(kind=Cloud), False),
        (AnthropicModel, anthropic_aclient(kind=AsyncCloud), True),
        (AnthropicModel, anthropic_aclient().with_options(timeout=3), True),
        (OpenAIModel, openai_client(), False),
        (OpenAIModel, openai_aclient(), True),
        (OpenAIModel, openai_aclient(kind=openai.AsyncAzureOpenAI, api_version="1"), True),
        (OpenAIResponsesModel, openai_client(), False),
        (OpenAIResponsesModel, openai_aclient(), True),
        (AnthropicModel, _like(_create), False),
        (AnthropicModel, _like(_acreate), True),
        (AnthropicModel, _like(_traced(_create)), False),
        (AnthropicModel, _like(_traced(_acreate)), True),
        (AnthropicModel, _like(_Acreate()), True),
    ],
    ids=[
        "Anthropic",
        "AsyncAnthropic",
        "beta",
        "async beta",
        "a cloud's",
        "an async cloud's",
        "with options",
        "OpenAI",
        "AsyncOpenAI",
        "AsyncAzureOpenAI",
        "OpenAI responses",
        "AsyncOpenAI responses",
        "a look-alike",
        "an async look-alike",
        "traced",
        "async traced",
        "an async object",
    ],
)
def test_a_model_knows_whether_its_client_is_async(model: Any, client: Any, asynchronous: bool) -> None:
    made = model(client, "a-model")
    assert made.is_async is asynchronous
    assert is_async_model(made) is asynchronous
    assert Agent(model=made).is_async is asynchronous
    assert repr(made) == f"{model.__name__}({type(client).__name__}(), 'a-model')"


@pytest.mark.parametrize("driver", ["asyncio", "trio"])
def test_a_client_that_does_not_say_that_it_is_async_is_awaited_all_the_same(driver: str) -> None:
    hidden = _like(lambda **request: _acreate(**request))
    agent = Agent(model=AnthropicModel(hidden, "a-model"))
    assert not agent.is_async
    assert anyio.run(agent.arun, "Hi", backend=driver) == "Hello."


def test_a_client_that_is_replaced_later_is_seen() -> None:
    client = _like(_create)
    model = AnthropicModel(client, "a-model")
    seen: list[dict[str, Any]] = []

    def traced(**request: Any) -> Any:
        seen.append(request)
        return _create(**request)

    client.messages.create = traced
    assert Agent(model=model).run("Hi") == "Hello."
    assert [request["max_tokens"] for request in seen] == [4096]


def test_an_async_client_serves_a_subagent_of_a_sync_run() -> None:
    inner = Agent(model=AnthropicModel(_like(_acreate), "a-model"), name="inner")
    outer = ScriptedModel([[tool_call("inner", prompt="a"), tool_call("inner", prompt="b")], "Done."])
    agent = Agent(tools=[inner], model=outer, permissions=[AllowByDefault()])
    assert agent.run("Hi") == "Done."
    assert [block.content for block in outer.requests[1][0][-1].results] == ["Hello."] * 2


# ---------------------------------------------------------------------- options and clients


@pytest.mark.parametrize(
    ("api", "options", "sent"),
    [
        (ANTHROPIC, {}, {"max_tokens": 4096}),
        (ANTHROPIC, {"max_tokens": 99, "stop_sequences": ["x"]}, {"max_tokens": 99, "stop_sequences": ["x"]}),
        (ANTHROPIC, {"extra_body": {"temperature": 0.5}}, {"temperature": 0.5}),
        (CHAT, {"temperature": 0.5, "max_tokens": 99, "n": 1}, {"temperature": 0.5, "max_tokens": 99}),
        (RESPONSES, {"temperature": 0.5, "max_output_tokens": 99}, {"temperature": 0.5, "max_output_tokens": 99}),
        (RESPONSES, {"store": False, "stream": False}, {"store": False}),
    ],
    ids=["none", "of Anthropic", "of the body", "of a chat", "of responses", "off"],
)
def test_options_are_sent_with_every_request(api: Api, options: dict[str, Any], sent: dict[str, Any]) -> None:
    looks = api.reply("", [("find", {"name": "x"}, "a")])
    with serving(looks, api.reply("Done.", [])) as server:
        do(WAYS[0], api, server, "Hi", model=options, **Desk().settings)
    assert len(server.requests) == 2
    assert [{name: body.get(name) for name in sent} for body in server.requests] == [sent] * 2


@pytest.mark.parametrize(
    ("api", "given"),
    [
        (ANTHROPIC, {"type": "web_search_20250305", "name": "web_search"}),
        (CHAT, {"type": "custom", "custom": {"name": "sql"}}),
        (RESPONSES, {"type": "web_search"}),
    ],
    ids=lambda value: getattr(value, "name", ""),
)
def test_tools_of_the_provider_follow_those_of_the_agent(api: Api, given: dict[str, Any]) -> None:
    with serving(api.reply("Done.", []), api.reply("Done.", [])) as server:
        do(WAYS[0], api, server, "Hi", model={"tools": [given]}, **Desk().settings)
        do(WAYS[0], api, server, "Hi", model={"tools": [given]})
    assert [len(body["tools"]) for body in server.requests] == [6, 1]
    assert [body["tools"][-1] for body in server.requests] == [given] * 2


@pytest.mark.parametrize(
    ("api", "options", "error", "says"),
    [
        (ANTHROPIC, {"stream": True}, ValueError, "stream=True, with which the API gives a stream of pieces"),
        (CHAT, {"stream": True}, ValueError, "stream=True, with which the API gives a stream of pieces"),
        (RESPONSES, {"stream": True}, ValueError, "stream=True, with which the API gives a stream of pieces"),
        (RESPONSES, {"background": True}, ValueError, "a note that it has begun, not a reply"),
        (CHAT, {"n": 2}, ValueError, "n=2, with which the API gives several replies"),
        (ANTHROPIC, {"system": "Be brief."}, TypeError, "takes no system=: every request has it from the run"),
        (ANTHROPIC, {"messages": []}, TypeError, "takes no messages="),
        (CHAT, {"messages": []}, TypeError, "takes no messages="),
        (RESPONSES, {"instructions": "Be brief."}, TypeError, "takes no instructions="),
        (RESPONSES, {"previous_response_id": "resp_1"}, TypeError, "takes no previous_response_id="),
        (ANTHROPIC, {"temprature": 1}, TypeError, r"got temprature=, which \.messages\.create of this Anthropic does"),
        (CHAT, {"max_token": 1}, TypeError, r"which \.chat\.completions\.create of this OpenAI does not take"),
        (RESPONSES, {"tools": "web_search"}, TypeError, "takes a list of tools that the provider runs"),
        (RESPONSES, {"tools": [print]}, TypeError, "your own tools are given to the agent"),
        (RESPONSES, {"tools": {"type": "web_search"}}, TypeError, "takes a list of tools that the provider runs"),
    ],
    ids=lambda value: "=".join(map(str, next(iter(value.items())))) if isinstance(value, dict) else "",
)
@pytest.mark.parametrize("asynchronous", [False, True], ids=["sync", "async"])
def test_an_option_that_gives_no_whole_reply_is_refused_when_the_model_is_made(
    api: Api, options: dict[str, Any], error: type[Exception], says: str, asynchronous: bool
) -> None:
    client = (api.aclient if asynchronous else api.client)()
    says = says.replace("this ", "this Async") if asynchronous else says
    with pytest.raises(error, match=says) as caught:
        api.model(client, "a-model", **options)
    problem, fix, example, *code = str(caught.value).splitlines()
    assert fix.startswith("Fix: ")
    assert example == "Example:"
    assert code
    assert api.model.__name__ in problem


@pytest.mark.parametrize(
    "client",
    [None, "sk-ant-0123456789", anthropic.Anthropic, anthropic_client().messages, openai.OpenAI, object()],
    ids=["None", "a key", "a class", "a part of a client", "another's class", "an object"],
)
@each_api
def test_what_is_no_client_is_refused_when_the_model_is_made(api: Api, client: Any) -> None:
    with pytest.raises(TypeError, match=r"takes a client with \.[a-z.]+\.create \(got: ") as caught:
        api.model(client, "a-model")
    assert "Fix: give the provider's client object" in str(caught.value)
    assert "sk-ant" not in str(caught.value)


@pytest.mark.parametrize(
    ("api", "other"), [(ANTHROPIC, CHAT), (CHAT, ANTHROPIC), (RESPONSES, ANTHROPIC)], ids=lambda api: api.name
)
def test_the_client_of_another_provider_is_refused(api: Api, other: Api) -> None:
    with pytest.raises(TypeError, match=r"\(got: (OpenAI|Anthropic)\)"):
        api.model(other.client(), "a-model")


@pytest.mark.parametrize("name", [None, "", "  ", 5, ANTHROPIC], ids=["None", "empty", "blank", "a number", "other"])
@each_api
def test_what_is_no_name_of_a_model_is_refused(api: Api, name: Any) -> None:
    with pytest.raises(TypeError, match="takes the name of a model"):
        api.model(api.client(), name)


def test_a_client_given_as_a_model_is_refused_with_what_to_do() -> None:
    with pytest.raises(TypeError, match=r"give a function, or one of the ready-made models[\s\S]*AnthropicModel\("):
        Agent(model=anthropic_client())


@pytest.mark.parametrize("driver", ["sync", "asyncio", "trio"])
def test_a_reply_that_is_a_stream_is_refused_and_the_state_is_as_before(driver: str) -> None:
    state = State([Message.user("Hi")])
    agent = Agent(model=lambda messages, tools: iter(["Hel", "lo."]))
    with pytest.raises(TypeError, match=r"the reply is a stream[\s\S]*Fix: wait for the whole message"):
        agent.run(state) if driver == "sync" else anyio.run(agent.arun, state, backend=driver)
    assert (state.turn, len(state.messages)) == (0, 1)


# ---------------------------------------------------------------------- models of one's own


class Shouting(AnthropicModel):
    """Says everything aloud."""

    def __call__(self, messages: Any, tools: Any) -> Any:
        reply = super().__call__(messages, tools)
        return as_message(reply).text.upper()


class Replaying(ScriptedModel):
    """Counts."""

    def __call__(self, messages: Any, tools: Any) -> Any:
        return f"{super().__call__(messages, tools)} ({len(self.requests)})"


class Awaiting:
    """An object that is awaited."""

    async def __call__(self, messages: Any, tools: Any) -> Any:
        return await _acreate()


@pytest.mark.parametrize("driver", ["sync", "asyncio", "trio"])
def test_a_model_of_ones_own_may_extend_a_ready_made_one(driver: str) -> None:
    cases: list[tuple[Any, str]] = [
        (Shouting(_like(_create), "a-model"), "HELLO."),
        (Replaying(["Hello."]), "Hello. (1)"),
    ]
    for model, answer in cases:
        agent = Agent(model=model)
        assert (agent.run("Hi") if driver == "sync" else anyio.run(agent.arun, "Hi", backend=driver)) == answer


def test_an_object_that_is_awaited_is_a_model() -> None:
    assert is_async_model(Awaiting())
    assert anyio.run(Agent(model=Awaiting()).arun, "Hi") == "Hello."
    with pytest.raises(TypeError, match="the model Awaiting answers only asynchronously"):
        Agent(model=Awaiting()).run("Hi")


LOOKS: list[Call] = [("look", {"n": 1}, "a"), ("look", {"n": 2}, "b")]


@pytest.mark.parametrize(
    ("reply", "last"),
    [
        (message(*_anthropic_reply("Let me look.", LOOKS)), message(text("Done."), stop_reason="end_turn")),
        (completion(**_chat_reply("Let me look.", LOOKS)), completion(content="Done.", finish_reason="stop")),
        (response(*_responses_reply("Let me look.", LOOKS)), response(said("Done."))),
        (["Let me look.", tool_call("look", n=1), tool_call("look", n=2)], ["Done."]),
        (("Let me look.", tool_call("look", n=1), tool_call("look", n=2)), "Done."),
        (_anthropic_reply("Let me look.", LOOKS), [text("Done.")]),
        (_responses_reply("Let me look.", LOOKS), [said("Done.")]),
        (completion(**_chat_reply("Let me look.", LOOKS))["choices"][0], {"role": "assistant", "content": "Done."}),
    ],
    ids=["anthropic", "openai-chat", "openai-responses", "a list", "a tuple", "blocks", "items", "a choice"],
)
@pytest.mark.parametrize("driver", ["sync", "asyncio", "trio"])
def test_a_model_may_return_plain_dicts_of_the_apis(driver: str, reply: Any, last: Any) -> None:
    @tool(read_only=True)
    def look(n: int) -> int:
        """Look."""
        return n

    model = ScriptedModel([reply, last])
    agent = Agent(tools=[look], model=model)
    assert (agent.run("Hi") if driver == "sync" else anyio.run(agent.arun, "Hi", backend=driver)) == "Done."
    messages, _ = model.requests[1]
    assert messages[1].text == "Let me look."
    assert [block.content for block in messages[2].results] == ["1", "2"]


@pytest.mark.parametrize("driver", ["sync", "asyncio", "trio"])
def test_one_scripted_model_serves_many_subagents_at_once(driver: str) -> None:
    count = 24
    together = threading.Barrier(count)

    def late(messages: Any, tools: Any) -> str:
        together.wait(10)
        return f"answer to {messages[-1].text}"

    model = ScriptedModel([late] * count)
    inner = Agent(model=model, name="inner")
    outer = ScriptedModel([[tool_call("inner", prompt=str(n)) for n in range(count)], "Done."])
    agent = Agent(tools=[inner], model=outer, permissions=[AllowByDefault()])
    assert (agent.run("Hi") if driver == "sync" else anyio.run(agent.arun, "Hi", backend=driver)) == "Done."
    assert [block.content for block in outer.requests[1][0][-1].results] == [f"answer to {n}" for n in range(count)]
    assert model.remaining == 0
    assert sorted(int(messages[-1].text) for messages, _ in model.requests) == list(range(count))


def test_a_scripted_model_that_has_nothing_left_says_so_to_each_that_asks() -> None:
    model = ScriptedModel(["One."])
    agent = Agent(model=model)
    assert agent.run("Hi") == "One."
    with pytest.raises(RuntimeError, match=r"ScriptedModel\('scripted', 0 left\) was asked 2 times"):
        agent.run("Hi")


# ---------------------------------------------------------------------- what was said


SEARCH = {"type": "server_tool_use", "id": "srvtoolu_1", "name": "web_search", "input": {}}


@pytest.mark.parametrize(
    ("reply", "words"),
    [
        (message(text("One "), text("sentence.")), "One sentence."),
        (message(text("Let me search."), SEARCH, text("Found "), text("it.")), "Let me search.\n\nFound it."),
        (message(THINKING, text("Yes.")), "Yes."),
        (message(), ""),
        (message(text("")), ""),
        (completion(content="Yes."), "Yes."),
        (completion(content=None, refusal="I will not."), "I will not."),
        (completion(content=[text("One "), text("sentence.")]), "One sentence."),
        (completion(content=None), ""),
        (response(said("Let me see."), REASONING, said("Yes.")), "Let me see.\n\nYes."),
        (response({**said(""), "content": [{"type": "refusal", "refusal": "I will not."}]}), "I will not."),
        (response(REASONING), ""),
    ],
    ids=[
        "pieces",
        "around a search",
        "after thinking",
        "nothing",
        "an empty text",
        "a chat",
        "a refusal",
        "parts",
        "null",
        "two messages",
        "a refused response",
        "no message",
    ],
)
def test_what_a_reply_says_is_its_texts(reply: Any, words: str) -> None:
    read = as_message(reply)
    assert read.text == words
    assert read.reply is not None
    assert read_text(read.reply) == words


@pytest.mark.parametrize(
    ("reply", "why"),
    [
        (message(text("x"), stop_reason="end_turn"), None),
        (message(text("x"), stop_reason="stop_sequence"), None),
        (message(text("x"), stop_reason="pause_turn"), None),
        (message(text("x"), stop_reason="refusal"), "stop_reason: refusal"),
        (message(text("x"), stop_reason="model_context_window_exceeded"), "stop_reason: model_context_window_exceeded"),
        ([text("x")], None),
        (completion(content="x", finish_reason="stop"), None),
        (completion(content="x", finish_reason="content_filter"), "finish_reason: content_filter"),
        ({"role": "assistant", "content": "x"}, None),
        (response(said("x")), None),
        (response(said("x"), status="incomplete"), "incomplete: no reason given"),
        (response(said("x"), status="incomplete", incomplete_details={"reason": "r"}), "incomplete: r"),
        ([said("x")], None),
    ],
    ids=lambda value: "" if isinstance(value, dict | list) else str(value),
)
def test_why_a_reply_was_cut_off_is_told_in_the_providers_words(reply: Any, why: str | None) -> None:
    read = as_message(reply).reply
    assert read is not None
    assert why_cut(read) == why


def test_a_paused_reply_has_not_handed_the_turn_back() -> None:
    for stop_reason, over in [("end_turn", True), ("pause_turn", False), ("compaction", False)]:
        state = State([Message.user("Hi"), as_message(message(text("x"), stop_reason=stop_reason))])
        assert waiting_for_user(state) is over
