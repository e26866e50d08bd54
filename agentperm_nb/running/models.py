"""Models: from a conversation and the tools to a reply.

1. A model is anything that can be called with messages and tool specifications, sync or async. What it returns may be
   a provider's reply as it came, a text, a `ToolCall`, a list of texts and calls, or a `Message`.
2. The first message is the agent's instructions, where it has any.
3. `AnthropicModel`, `OpenAIModel` and `OpenAIResponsesModel` put a provider's own client to that use; the client does
   the work. Sync and async clients will do.
4. A sync model that is asked in an async run works on a worker thread.
"""

from __future__ import annotations

import inspect
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

from agentperm_nb.calls import ToolCall
from agentperm_nb.errors import fix_message
from agentperm_nb.running.formats import Reply, read_reply, tool_specs, write_conversation
from agentperm_nb.running.formats.spoken import read_text
from agentperm_nb.running.messages import Block, Message, TextBlock
from agentperm_nb.tools import Tool

__all__ = [
    "AnthropicModel",
    "Model",
    "OpenAIModel",
    "OpenAIResponsesModel",
    "ToolSpec",
    "aask_model",
    "as_message",
    "ask_model",
    "checked_model",
    "is_async_model",
]

Model: TypeAlias = Callable[[Sequence[Message], Sequence["ToolSpec"]], Any]
"""A function, or an object that can be called: ``model(messages, tools)`` returns a reply, or something to await."""

_EXAMPLE = (
    "client = anthropic.AsyncAnthropic()\n"
    "agent = Agent(tools=[read_file], model=AnthropicModel(client, 'claude-sonnet-4-5'))\n"
    "answer = await agent.arun('Tidy notes.txt')"
)


@dataclass(frozen=True, slots=True)
class ToolSpec:
    """A tool as a model is told of it."""

    name: str
    description: str
    input_schema: dict[str, Any]
    """JSON Schema of the arguments."""

    @classmethod
    def of(cls, tool: Tool) -> ToolSpec:
        """Return the specification of a tool."""
        return cls(tool.name, tool.description, tool.input_schema)


def checked_model(model: object) -> None:
    """Refuse what is no model.

    Raises:
        TypeError: It cannot be called.
    """
    if isinstance(model, str):
        problem = f"model= takes a model, not the name of one (got: {model!r})"
        raise TypeError(fix_message(problem, "give a provider's client to one of the ready-made models", _EXAMPLE))
    if isinstance(model, type) or not callable(model):
        problem = f"model= takes something that can be called with messages and tools (got: {model!r})"
        raise TypeError(fix_message(problem, "give a function, or one of the ready-made models", _EXAMPLE))


def is_async_model(model: Model | None) -> bool:
    """Return whether a model says that it answers only asynchronously."""
    if inspect.iscoroutinefunction(model) or inspect.iscoroutinefunction(type(model).__call__):
        return True
    return getattr(model, "is_async", False) is True


def ask_model(model: Model, messages: Sequence[Message], tools: Sequence[ToolSpec]) -> Message:
    """Ask a model on the calling thread.

    Raises:
        TypeError: The model answers only asynchronously, or its reply is none.
        Exception: Whatever the model raised.
    """
    reply = model(messages, tools)
    if inspect.isawaitable(reply):
        if inspect.iscoroutine(reply):
            reply.close()
        raise TypeError(
            fix_message(
                f"the model {_name(model)} answers only asynchronously",
                "await the async form, or give it a sync client",
                "answer = await agent.arun('Tidy notes.txt')",
            )
        )
    return as_message(reply)


async def aask_model(model: Model, messages: Sequence[Message], tools: Sequence[ToolSpec]) -> Message:
    """Ask a model from an event loop; see `ask_model`. A sync model is asked on a worker thread."""
    if is_async_model(model):
        reply = model(messages, tools)
    else:
        import anyio.to_thread

        def ask() -> list[Any]:
            try:
                return [model(messages, tools)]  # in a list: trio refuses a coroutine as a result
            except StopIteration as error:  # a future cannot carry it
                raise RuntimeError(f"the model {_name(model)} raised StopIteration") from error

        (reply,) = await anyio.to_thread.run_sync(ask, abandon_on_cancel=True)
    if inspect.isawaitable(reply):
        reply = await reply
    return as_message(reply)


def as_message(reply: object) -> Message:
    """Return what a model said as a message of the assistant.

    Args:
        reply: A provider's reply, a text, a `ToolCall`, a list of texts and calls, or a `Message`.

    Raises:
        TypeError: It is none of these.
        ValueError: The reply is not what its API sends, or the message is not the assistant's.
    """
    if isinstance(reply, Message):
        if reply.role != "assistant":
            problem = f"a model's reply is a message of the assistant (got: {reply!r})"
            raise ValueError(fix_message(problem, "return one", "return Message.assistant('Done.')"))
        return reply
    if isinstance(reply, str):
        return Message.assistant(reply)
    if isinstance(reply, ToolCall):
        return Message.with_calls([reply])
    if isinstance(reply, list | tuple) and reply and all(isinstance(item, str | ToolCall) for item in reply):
        return Message("assistant", tuple(TextBlock(item) if isinstance(item, str) else item for item in reply))
    read = reply if isinstance(reply, Reply) else read_reply(reply)
    text = read_text(read)
    blocks: tuple[Block, ...] = ((TextBlock(text),) if text else ()) + read.calls
    return Message("assistant", blocks, read)


class _ClientModel:
    """A provider's client as a model.

    Args:
        client: The client, sync or async.
        model: Name of the model at the provider.
        **options: What every request is given beside; the provider's documentation lists it.

    Raises:
        TypeError: The client has no such API, or `model` is not a string.
    """

    _api: tuple[str, ...] = ()

    def __init__(self, client: Any, model: str, **options: Any) -> None:
        create = client
        for name in (*self._api, "create"):
            create = getattr(create, name, None)
        if not callable(create):
            problem = f"{type(self).__name__} takes a client with .{'.'.join(self._api)}.create (got: {client!r})"
            raise TypeError(fix_message(problem, "give the provider's client object", self._example()))
        if not isinstance(model, str) or not model.strip():
            problem = f"{type(self).__name__} takes the name of a model (got: {model!r})"
            raise TypeError(fix_message(problem, "give the name", self._example()))
        self.client, self.model, self.options = client, model, options
        self._create: Callable[..., Any | Awaitable[Any]] = create
        self.is_async: bool = inspect.iscoroutinefunction(inspect.unwrap(create))
        """Whether the client answers only asynchronously."""

    def __repr__(self) -> str:
        return f"{type(self).__name__}({type(self.client).__name__}(), {self.model!r})"

    def __call__(self, messages: Sequence[Message], tools: Sequence[ToolSpec]) -> Any:
        """Ask the provider; return its reply, or something to await for it."""
        return self._create(**{"model": self.model, **self._request(messages, tools), **self.options})

    def _request(self, messages: Sequence[Message], tools: Sequence[ToolSpec]) -> Mapping[str, Any]:
        raise NotImplementedError

    @classmethod
    def _example(cls) -> str:
        return _EXAMPLE


class AnthropicModel(_ClientModel):
    """Anthropic's Messages API: ``AnthropicModel(anthropic.AsyncAnthropic(), "claude-sonnet-4-5")``.

    Args:
        client: ``anthropic.Anthropic()`` or ``anthropic.AsyncAnthropic()``.
        model: Name of the model.
        max_tokens: The longest reply, in tokens.
        **options: What ``messages.create`` takes beside, such as ``temperature``.

    Raises:
        TypeError: It is no such client, or `model` is not a string.
    """

    _api = ("messages",)

    def __init__(self, client: Any, model: str, *, max_tokens: int = 4096, **options: Any) -> None:
        super().__init__(client, model, max_tokens=max_tokens, **options)

    def _request(self, messages: Sequence[Message], tools: Sequence[ToolSpec]) -> Mapping[str, Any]:
        system, params = write_conversation("anthropic", messages)
        request: dict[str, Any] = {"messages": params}
        if system is not None:
            request["system"] = system
        if tools:
            request["tools"] = tool_specs("anthropic", tools)
        return request


class OpenAIModel(_ClientModel):
    """OpenAI's Chat Completions, and servers that speak it: ``OpenAIModel(openai.AsyncOpenAI(), "gpt-5")``.

    Args:
        client: ``openai.OpenAI()`` or ``openai.AsyncOpenAI()``.
        model: Name of the model.
        **options: What ``chat.completions.create`` takes beside.

    Raises:
        TypeError: It is no such client, or `model` is not a string.
    """

    _api = ("chat", "completions")

    def _request(self, messages: Sequence[Message], tools: Sequence[ToolSpec]) -> Mapping[str, Any]:
        request: dict[str, Any] = {"messages": write_conversation("openai-chat", messages)}
        if tools:
            request["tools"] = tool_specs("openai-chat", tools)
        return request

    @classmethod
    def _example(cls) -> str:
        return "agent = Agent(tools=[read_file], model=OpenAIModel(openai.AsyncOpenAI(), 'gpt-5'))"


class OpenAIResponsesModel(_ClientModel):
    """OpenAI's Responses API: ``OpenAIResponsesModel(openai.AsyncOpenAI(), "gpt-5")``.

    Args:
        client: ``openai.OpenAI()`` or ``openai.AsyncOpenAI()``.
        model: Name of the model.
        **options: What ``responses.create`` takes beside.

    Raises:
        TypeError: It is no such client, or `model` is not a string.
    """

    _api = ("responses",)

    def _request(self, messages: Sequence[Message], tools: Sequence[ToolSpec]) -> Mapping[str, Any]:
        instructions, items = write_conversation("openai-responses", messages)
        request: dict[str, Any] = {"input": items}
        if instructions is not None:
            request["instructions"] = instructions
        if tools:
            request["tools"] = tool_specs("openai-responses", tools)
        return request

    @classmethod
    def _example(cls) -> str:
        return "agent = Agent(tools=[read_file], model=OpenAIResponsesModel(openai.AsyncOpenAI(), 'gpt-5'))"


def _name(model: object) -> str:
    return getattr(model, "__name__", None) or type(model).__name__
