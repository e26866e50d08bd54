"""Models: from a conversation and the tools to a reply.

1. A model is anything that can be called with messages and tool specifications, sync or async. What it returns may be
   a provider's reply as it came, a text, a `ToolCall`, a list of texts and calls, or a `Message`.
2. The first message is the agent's instructions, where it has any.
3. `AnthropicModel`, `OpenAIModel` and `OpenAIResponsesModel` put a provider's own client to that use; the client does
   the work. Sync and async clients will do. What a request has from the run is no option of theirs, nor is anything
   with which the API would send something else than one whole reply.
4. A sync model that is asked in an async run works on a worker thread. A model that says that it answers only
   asynchronously is not asked in a sync run.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, TypeAlias

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
    "check_answers_blocking",
    "checked_model",
    "is_async_model",
    "model_name",
]

Model: TypeAlias = Callable[[Sequence[Message], Sequence["ToolSpec"]], Any]
"""A function, or an object that can be called: ``model(messages, tools)`` returns a reply, or something to await."""

_EXAMPLE = (
    "client = anthropic.AsyncAnthropic()\n"
    "agent = Agent(tools=[read_file], model=AnthropicModel(client, MODEL))\n"
    "answer = await agent.arun('Tidy notes.txt')"
)
_CONVERSATION = "give it to the run: a prompt, or a State with the messages"
_INSTRUCTIONS = "give it to the agent, as instructions="
# Options with which an API sends something else than one whole reply, and what that is.
_NOT_ONE_REPLY = {
    "stream": "a stream of pieces, not a reply",
    "background": "a note that it has begun, not a reply",
    "n": "several replies, of which none is known to be the one to follow",
}


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
    return _gives_awaitable(model) or getattr(model, "is_async", False) is True


def check_answers_blocking(model: Model | None) -> None:
    """Refuse a model that says that it answers only asynchronously.

    Raises:
        TypeError: It does.
    """
    if is_async_model(model):
        raise _only_async(model)


def ask_model(model: Model, messages: Sequence[Message], tools: Sequence[ToolSpec]) -> Message:
    """Ask a model on the calling thread.

    Raises:
        TypeError: The model answers only asynchronously, or its reply is none.
        Exception: Whatever the model raised.
    """
    check_answers_blocking(model)
    reply = model(messages, tools)
    if inspect.isawaitable(reply):
        if inspect.iscoroutine(reply):
            reply.close()
        raise _only_async(model)
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
                raise RuntimeError(f"the model {model_name(model)} raised StopIteration") from error

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
        tools: Tools that the provider runs itself, as its API describes them; they follow the agent's.
        **options: What every request is given beside; the provider's documentation lists it.

    Raises:
        TypeError: The client has no such API, `model` is not a string, or an option is none of a request's or comes
            from the run.
        ValueError: With an option like this the API would send something else than one whole reply.
    """

    client: Any
    model: str
    options: dict[str, Any]
    tools: tuple[Any, ...]

    _api: tuple[str, ...] = ()
    _format = ""
    _from_run: ClassVar[Mapping[str, str]] = {}
    """Options that every request takes from the run, and what to do instead of giving them."""

    def __init__(self, client: Any, model: str, *, tools: Iterable[Any] = (), **options: Any) -> None:
        self.client, self.model, self.options = client, model, options
        create = self._create
        if create is None:
            got = f"the class {client.__name__}" if isinstance(client, type) else type(client).__name__
            problem = f"{type(self).__name__} takes a client with .{'.'.join(self._api)}.create (got: {got})"
            raise TypeError(fix_message(problem, "give the provider's client object", self._example()))
        if not isinstance(model, str) or not model.strip():
            problem = f"{type(self).__name__} takes the name of a model (got: {model!r})"
            raise TypeError(fix_message(problem, "give the name", self._example()))
        self.tools = self._checked_tools(tools)
        """The tools that the provider runs itself."""
        self._check_options(create)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({type(self.client).__name__}(), {self.model!r})"

    @property
    def is_async(self) -> bool:
        """Whether the client answers only asynchronously."""
        return _gives_awaitable(self._create)

    def __call__(self, messages: Sequence[Message], tools: Sequence[ToolSpec]) -> Any:
        """Ask the provider; return its reply, or something to await for it."""
        request = {"model": self.model, **self._request(messages)}
        if tools or self.tools:
            request["tools"] = [*tool_specs(self._format, tools), *self.tools]
        assert self._create is not None
        return self._create(**request, **self.options)

    @property
    def _create(self) -> Callable[..., Any] | None:
        # Looked up for every request: what traces or replaces the client's methods may come later than this object.
        found = self.client
        for name in (*self._api, "create"):
            found = getattr(found, name, None)
        return found if callable(found) else None

    def _request(self, messages: Sequence[Message]) -> Mapping[str, Any]:
        raise NotImplementedError

    @classmethod
    def _example(cls) -> str:
        return _EXAMPLE

    def _checked_tools(self, tools: Any) -> tuple[Any, ...]:
        listed = tuple(tools) if isinstance(tools, Iterable) and not isinstance(tools, str | bytes | Mapping) else None
        if listed is None or not all(isinstance(item, Mapping) for item in listed):
            problem = f"tools= of {type(self).__name__} takes a list of tools that the provider runs (got: {tools!r})"
            fix = "describe them as its API does; your own tools are given to the agent"
            raise TypeError(fix_message(problem, fix, "Agent(tools=[read_file], model=model)"))
        return listed

    def _check_options(self, create: Callable[..., Any]) -> None:
        name = type(self).__name__
        for option, value in self.options.items():
            if option in self._from_run:
                problem = f"{name} takes no {option}=: every request has it from the run"
                raise TypeError(fix_message(problem, self._from_run[option], self._example()))
            if option in _NOT_ONE_REPLY and value and not (option == "n" and value == 1):
                problem = f"{name} got {option}={value!r}, with which the API gives {_NOT_ONE_REPLY[option]}"
                raise ValueError(fix_message(problem, "leave it out", self._example()))
        known = _keywords(create)
        unknown = [option for option in self.options if known is not None and option not in known]
        if unknown:
            api = f".{'.'.join(self._api)}.create"
            problem = f"{name} got {unknown[0]}=, which {api} of this {type(self.client).__name__} does not take"
            fix = "leave it out; what its API takes all the same is given in extra_body="
            example = f"{name}(client, {self.model!r}, extra_body={{{unknown[0]!r}: ...}})"
            raise TypeError(fix_message(problem, fix, example))


class AnthropicModel(_ClientModel):
    """Anthropic's Messages API: ``AnthropicModel(anthropic.AsyncAnthropic(), MODEL)``.

    Args:
        client: ``anthropic.Anthropic()`` or ``anthropic.AsyncAnthropic()``, or their like for a cloud; or its ``beta``.
        model: Name of the model.
        max_tokens: The longest reply, in tokens.
        tools: Tools that Anthropic runs itself, as dicts; they follow the agent's.
        **options: What ``messages.create`` takes beside, such as ``thinking`` or ``stop_sequences``.

    Raises:
        TypeError: It is no such client, `model` is not a string, or an option is none of a request's or comes from the
            run.
        ValueError: With an option like this the API would send something else than one whole reply.
    """

    _api = ("messages",)
    _format = "anthropic"
    _from_run: ClassVar = {"messages": _CONVERSATION, "system": _INSTRUCTIONS}

    def __init__(
        self, client: Any, model: str, *, max_tokens: int = 4096, tools: Iterable[Any] = (), **options: Any
    ) -> None:
        super().__init__(client, model, tools=tools, max_tokens=max_tokens, **options)

    def _request(self, messages: Sequence[Message]) -> Mapping[str, Any]:
        system, params = write_conversation(self._format, messages)
        return {"messages": params} if system is None else {"messages": params, "system": system}


class OpenAIModel(_ClientModel):
    """OpenAI's Chat Completions, and servers that speak it: ``OpenAIModel(openai.AsyncOpenAI(), MODEL)``.

    Args:
        client: ``openai.OpenAI()`` or ``openai.AsyncOpenAI()``, or their like for a cloud.
        model: Name of the model.
        tools: Further tools, as dicts; they follow the agent's.
        **options: What ``chat.completions.create`` takes beside, such as ``temperature``.

    Raises:
        TypeError: It is no such client, `model` is not a string, or an option is none of a request's or comes from the
            run.
        ValueError: With an option like this the API would send something else than one whole reply.
    """

    _api = ("chat", "completions")
    _format = "openai-chat"
    _from_run: ClassVar = {"messages": _CONVERSATION}

    def _request(self, messages: Sequence[Message]) -> Mapping[str, Any]:
        return {"messages": write_conversation(self._format, messages)}

    @classmethod
    def _example(cls) -> str:
        return "agent = Agent(tools=[read_file], model=OpenAIModel(openai.AsyncOpenAI(), MODEL))"


class OpenAIResponsesModel(_ClientModel):
    """OpenAI's Responses API: ``OpenAIResponsesModel(openai.AsyncOpenAI(), MODEL)``.

    Args:
        client: ``openai.OpenAI()`` or ``openai.AsyncOpenAI()``, or their like for a cloud.
        model: Name of the model.
        tools: Tools that OpenAI runs itself, as dicts; they follow the agent's.
        **options: What ``responses.create`` takes beside, such as ``reasoning``.

    Raises:
        TypeError: It is no such client, `model` is not a string, or an option is none of a request's or comes from the
            run.
        ValueError: With an option like this the API would send something else than one whole reply.
    """

    _api = ("responses",)
    _format = "openai-responses"
    _from_run: ClassVar = {
        "input": _CONVERSATION,
        "instructions": _INSTRUCTIONS,
        "conversation": _CONVERSATION,
        "previous_response_id": _CONVERSATION,
    }

    def _request(self, messages: Sequence[Message]) -> Mapping[str, Any]:
        instructions, items = write_conversation(self._format, messages)
        return {"input": items} if instructions is None else {"input": items, "instructions": instructions}

    @classmethod
    def _example(cls) -> str:
        return "agent = Agent(tools=[read_file], model=OpenAIResponsesModel(openai.AsyncOpenAI(), MODEL))"


def _gives_awaitable(function: Any) -> bool:
    """Return whether a function, or an object that can be called, says that its result has to be awaited."""
    for found in (function, type(function).__call__):
        try:
            if inspect.iscoroutinefunction(found) or inspect.iscoroutinefunction(inspect.unwrap(found)):
                return True
        except (TypeError, ValueError):  # it is wrapped in itself, or in what is no function
            continue
    return False


def _keywords(function: Callable[..., Any]) -> set[str] | None:
    """Return the names that a function takes by keyword; None when it takes any, or does not tell."""
    try:
        parameters = inspect.signature(function).parameters.values()
    except (TypeError, ValueError):
        return None
    if any(parameter.kind is parameter.VAR_KEYWORD for parameter in parameters):
        return None
    return {parameter.name for parameter in parameters if parameter.kind is not parameter.POSITIONAL_ONLY}


def _only_async(model: object) -> TypeError:
    return TypeError(
        fix_message(
            f"the model {model_name(model)} answers only asynchronously",
            "await the async form, or give it a sync client",
            "answer = await agent.arun('Tidy notes.txt')",
        )
    )


def model_name(model: object) -> str:
    """Return what a model is called in texts: its own repr where it has one, else the name of the function or class."""
    name = getattr(model, "__name__", None)
    if isinstance(name, str):
        return name
    own = type(model).__repr__ is not object.__repr__
    return repr(model) if own else type(model).__name__
