"""A provider's replies read, its results written, its tools described: one provider a file.

1. Objects of the providers' packages and plain dicts are read alike; none of the packages is imported.
2. Arguments that cannot be read make the call invalid: it is answered with the reason and never runs. The other calls
   of the reply stand.
3. The last call of a reply that was cut off is invalid, since its arguments may be incomplete.
4. Calls are kept in order, two with the same id too.
5. A reply that no API sends (a call without a name or an id, several choices) is an error: nothing of it runs.
6. A result is written for every call, in the order of the calls.
7. What ran at the provider is told beside the calls. What would run there and asks first is a call like any other; it
   is approved only by a result that says so, and refused by everything else.
8. A conversation in no provider's form is written in each one's. A reply goes back to its own provider as it came.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from agentperm_nb.errors import fix_message
from agentperm_nb.running.formats import anthropic, call_list, openai_chat, openai_responses
from agentperm_nb.running.formats.hosted import HostedTool
from agentperm_nb.running.formats.reply import (
    Format,
    ImageLike,
    MessageLike,
    Provider,
    ProviderCall,
    Reply,
    ResultLike,
    ToolLike,
)
from agentperm_nb.running.formats.unreadable import unreadable

__all__ = [
    "FORMATS",
    "PROVIDERS",
    "Format",
    "HostedTool",
    "ImageLike",
    "MessageLike",
    "Provider",
    "ProviderCall",
    "Reply",
    "ResultLike",
    "ToolLike",
    "read_reply",
    "tool_specs",
    "write_conversation",
    "write_results",
]

PROVIDERS: Mapping[str, Provider] = {module.NAME: module for module in (anthropic, openai_chat, openai_responses)}
"""The APIs that are told of tools, by name."""

FORMATS: Mapping[str, Format] = {
    call_list.NAME: call_list,
    openai_chat.NAME: openai_chat,
    anthropic.NAME: anthropic,
    openai_responses.NAME: openai_responses,
}
"""All formats by name, in the order in which a reply is compared with them."""


def read_reply(reply: object) -> Reply:
    """Return the calls in a provider's reply, and what it tells of tools that run at the provider.

    Args:
        reply: An Anthropic ``Message``, its dict or its list of content blocks; an OpenAI ``ChatCompletion``, its
            choice, its message or their dicts; an OpenAI ``Response``, its dict or its list of output items; or a list
            of `ToolCall`.

    Raises:
        TypeError: It is none of these; the message says what it is instead.
        ValueError: It has several choices, another role than the assistant's, or a call without a name; or it failed.
    """
    for name, known in FORMATS.items():
        if known.recognises(reply):
            kept = list(reply) if isinstance(reply, list) else reply  # the list may be put to other use meanwhile
            calls = known.read_calls(kept)
            provider_calls, stand_ins = known.read_hosted(kept)
            return Reply(name, calls, kept, provider_calls, stand_ins)
    raise unreadable(reply)


def write_results(
    format: str, original: Any, results: Sequence[ResultLike], *, with_reply: bool = False
) -> list[dict[str, Any]]:
    """Return the results as messages for the next request.

    Args:
        format: The reply's format, as `Reply` gives it.
        original: The reply that was read.
        results: One result for each of its calls, in order.
        with_reply: Whether the reply comes first, in the form in which the API takes it back.

    Returns:
        The messages; none for a reply without calls, or only the reply when it is asked for.

    Raises:
        ValueError: The format is unknown, the results are not those of the calls, or the format has no reply to give
            back.
    """
    if not isinstance(format, str) or format not in FORMATS:
        raise _unknown(format, FORMATS)
    known = FORMATS[format]
    ids = known.call_ids(original)
    if [result.call.id for result in results] != ids:
        raise ValueError(
            fix_message(
                f"the results are not those of the reply's {len(ids)} calls, in their order",
                "give one result for each call, refused and failed ones too",
                "write_results(reply.format, reply.original, results)",
            )
        )
    return known.write_messages(original, results, with_reply=with_reply)


def write_conversation(format: str, messages: Iterable[MessageLike]) -> Any:
    """Return a conversation in the form in which a provider's request takes it.

    Args:
        format: ``"anthropic"``, ``"openai-chat"`` or ``"openai-responses"``.
        messages: The messages, oldest first.

    Returns:
        For Anthropic the pair (text for ``system=`` or None, list for ``messages=``); for OpenAI Chat Completions the
        list for ``messages=``; for OpenAI Responses the pair (text for ``instructions=`` or None, list for ``input=``).

    Raises:
        TypeError: A message or a block is none.
        ValueError: The format is unknown, or a result has no call before it.
    """
    if not isinstance(format, str) or format not in PROVIDERS:
        raise _unknown(format, PROVIDERS)
    return PROVIDERS[format].write_conversation(messages)


def tool_specs(format: str, tools: Iterable[ToolLike]) -> list[dict[str, Any]]:
    """Return tools as a provider's ``tools=`` takes them.

    Args:
        format: ``"anthropic"``, ``"openai-chat"`` or ``"openai-responses"``.
        tools: The tools.

    Raises:
        ValueError: The format is unknown, or the provider does not take a tool's name.
    """
    if not isinstance(format, str) or format not in PROVIDERS:
        raise _unknown(format, PROVIDERS)
    return [PROVIDERS[format].tool_spec(tool) for tool in tools]


def _unknown(format: object, known: Iterable[str]) -> ValueError:
    names = ", ".join(repr(name) for name in sorted(known))
    example = "specs = agent.tool_specs('anthropic')"
    return ValueError(fix_message(f"{format!r} is not a format that is known here", f"use one of {names}", example))
