"""Whatever a model writes is read, and what is read is what was written."""

from __future__ import annotations

import json
from types import MappingProxyType
from typing import Any

import pytest
from anthropic.types import Message
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from openai.types.chat import ChatCompletion
from openai.types.responses import Response
from wire import Result, check, completion, function, function_call, message, response, said, text, use

from agentperm_nb.json_values import freeze, thaw
from agentperm_nb.running.formats import read_reply, write_results
from agentperm_nb.running.formats.arguments import MAX_DEPTH, read_object

pytestmark = pytest.mark.law

TEXTS = st.text(st.characters(exclude_categories=()), max_size=8)  # halves of surrogate pairs too
NUMBERS = st.integers() | st.floats(allow_nan=False, allow_infinity=False)
VALUES = st.recursive(
    st.none() | st.booleans() | NUMBERS | TEXTS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXTS, inner, max_size=3),
    max_leaves=8,
)
ARGS = st.dictionaries(TEXTS, VALUES, max_size=4)
MANY = settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.too_slow])


def exactly(value: Any) -> str:
    """Tell 1 from 1.0 and True, and keep the order of keys."""
    return repr(value)


@MANY
@given(st.lists(ARGS, max_size=3))
def test_any_json_arguments_come_back_equal_from_anthropic(many: list[dict[str, Any]]) -> None:
    body = json.loads(json.dumps(message(*(use(input=args, id=f"t{n}") for n, args in enumerate(many)))))
    for reply in (Message.construct(**body), Message.model_validate(body), body):
        calls = read_reply(reply).calls if many else ()
        assert [call.invalid for call in calls] == [None] * len(many)
        assert [exactly(thaw(call.args)) for call in calls] == [exactly(args) for args in many]
        written = write_results("anthropic", reply, [Result(call) for call in calls], with_reply=True)
        check("anthropic", written)
        json.dumps(written, ensure_ascii=False, allow_nan=False).encode()


@MANY
@given(st.lists(ARGS, max_size=3), st.booleans())
def test_any_json_arguments_come_back_equal_from_openai(many: list[dict[str, Any]], escaped: bool) -> None:
    texts = [json.dumps(args, ensure_ascii=escaped) for args in many]
    body = completion(*(function(arguments=arguments, id=f"c{n}") for n, arguments in enumerate(texts)))
    for reply in (ChatCompletion.construct(**body), body):
        calls = read_reply(reply).calls
        assert [call.invalid for call in calls] == [None] * len(many)
        assert [exactly(thaw(call.args)) for call in calls] == [exactly(args) for args in many]
        written = write_results("openai-chat", reply, [Result(call) for call in calls], with_reply=True)
        check("openai-chat", written)
        json.dumps(written, ensure_ascii=False, allow_nan=False).encode()
        if escaped and many:
            assert [call["function"]["arguments"] for call in written[0]["tool_calls"]] == texts


@MANY
@given(st.lists(ARGS, max_size=3), st.booleans())
def test_any_json_arguments_come_back_equal_from_openai_responses(many: list[dict[str, Any]], escaped: bool) -> None:
    texts = [json.dumps(args, ensure_ascii=escaped) for args in many]
    body = response(*(function_call(arguments=arguments, id=f"c{n}") for n, arguments in enumerate(texts)))
    for reply in (Response.construct(**body), body, *([body["output"]] if many else [])):
        calls = read_reply(reply).calls
        assert [call.invalid for call in calls] == [None] * len(many)
        assert [exactly(thaw(call.args)) for call in calls] == [exactly(args) for args in many]
        written = write_results("openai-responses", reply, [Result(call) for call in calls], with_reply=True)
        check("openai-responses", written)
        json.dumps(written, ensure_ascii=False, allow_nan=False).encode()
        if escaped:
            assert [item["arguments"] for item in written[: len(many)]] == texts


class Text(str):
    __slots__ = ()


ODD = st.sampled_from([float("nan"), float("inf"), {1}, b"x", 1j, Text("x"), (), ("a", 1), {1: 2}, {Text("k"): 1}])
ANYTHING = st.recursive(
    st.none() | st.booleans() | NUMBERS | TEXTS | ODD,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXTS, inner, max_size=3),
    max_leaves=8,
)


@MANY
@given(st.dictionaries(TEXTS | st.integers(), ANYTHING, max_size=4), st.integers(0, 3), st.booleans())
def test_arguments_of_the_plainest_types_are_judged_as_all_others_are(
    args: dict[Any, Any], missing: int, frozen: bool
) -> None:
    for _ in range(MAX_DEPTH - missing if missing else 0):
        args = {"a": args}
    given_args = freeze(args) if frozen else args
    # A mapping of another type is looked at part by part, with the place of each.
    slow, problem = read_object(MappingProxyType(given_args))
    assert read_object(given_args) == (dict(slow), problem)


APPROVAL = {"type": "mcp_approval_request", "id": "mcpr_1", "server_label": "db", "name": "drop", "arguments": "{}"}
BESIDE: dict[str, dict[str, Any]] = {
    "text": said("Adding."),
    "reasoning": {"type": "reasoning", "id": "rs_1", "summary": [], "encrypted_content": "c2ln"},
    "search": {"type": "file_search_call", "id": "fs_1", "status": "completed", "queries": ["q"]},
    "custom": {"type": "custom_tool_call", "call_id": "ct_1", "name": "sql", "input": "select 1"},
    "shell": {"type": "shell_call", "id": "sh_1", "call_id": "sh_2", "status": "completed", "action": {"commands": []}},
    "approval": APPROVAL,
}


@MANY
@given(st.permutations([*BESIDE, "call"]), st.integers(0, 4), st.booleans(), st.booleans())
def test_every_item_that_waits_is_answered_once_in_order_and_no_approval_is_given(
    kinds: list[str], calls: int, is_error: bool, cut: bool
) -> None:
    items: list[dict[str, Any]] = []
    for kind in kinds:
        ours = [function_call(id=f"c{n}", arguments=json.dumps({"n": n})) for n in range(calls)]
        items += ours if kind == "call" else [BESIDE[kind]]
    reply = Response.construct(**response(*items, status="incomplete" if cut else "completed"))
    read = read_reply(reply)
    outcomes = [Result(call, call.name, is_error) for call in read.calls]
    written = write_results(read.format, reply, outcomes, with_reply=True)
    check("openai-responses", written)
    assert written[: len(items)] == items
    waiting = [item.get("call_id", item.get("id")) for item in items if {"call_id", "server_label"} & set(item)]
    answers = written[len(items) :]
    assert [item.get("call_id", item.get("approval_request_id")) for item in answers] == waiting
    assert [item["approve"] for item in answers if item["type"] == "mcp_approval_response"] == [False]
    valid = [call.id for call in read.calls if call.invalid is None]
    whole = waiting[:-1] if cut else waiting
    assert valid == [id for id in whole if id == "mcpr_1" or (id.startswith("c") and id != "ct_1")]
    assert [read.calls[position].id for position in read.stand_ins] == ["mcpr_1"]


@MANY
@given(st.text() | ARGS.map(json.dumps).flatmap(lambda whole: st.integers(0, len(whole)).map(lambda end: whole[:end])))
def test_any_text_as_arguments_is_read_or_makes_the_call_invalid(arguments: str) -> None:
    before, call, after = read_reply(completion(function(), function(arguments=arguments), function())).calls
    assert before.invalid is None
    assert after.invalid is None
    if call.invalid is None:
        assert thaw(call.args) == (json.loads(arguments) if arguments.strip() else {})
    else:
        assert not call.args


@MANY
@given(st.permutations(["call", "text", "thinking", "search", "blank"]), st.integers(0, 5), st.booleans())
def test_every_call_is_answered_once_in_order_whatever_stands_beside_it(
    kinds: list[str], calls: int, is_error: bool
) -> None:
    blocks: list[dict[str, Any]] = []
    for kind in kinds:
        blocks += {
            "call": [use(id=f"t{n}", input={"n": n}) for n in range(calls)],
            "text": [text("Adding.")],
            "thinking": [{"type": "thinking", "thinking": "…", "signature": "s"}],
            "search": [{"type": "server_tool_use", "id": "s1", "name": "web_search", "input": {}}],
            "blank": [text(" ")],
        }[kind]
    reply = Message.construct(**message(*blocks))
    read = read_reply(reply)
    outcomes = [Result(call, str(call.args["n"]), is_error) for call in read.calls]
    written = write_results(read.format, reply, outcomes, with_reply=True)
    check("anthropic", written)
    assert written[0]["content"] == [block for block in blocks if block != text(" ")]
    answered = [(block["tool_use_id"], block["content"]) for item in written[1:] for block in item["content"]]
    assert answered == [(f"t{n}", str(n)) for n in range(calls)]
