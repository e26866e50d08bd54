"""Requests for approval of what would run at the provider: who may say yes, and that nothing else does."""

from __future__ import annotations

from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any
from unittest.mock import ANY

import pytest
from openai.types.responses import Response
from wire import Decided, Outcome, Result, check, function_call, response

from agentperm_nb.calls import ToolCall
from agentperm_nb.running.formats import HostedTool, read_reply, write_results
from agentperm_nb.running.formats.hosted import RUN_TEXT

NAME = "openai-responses"
APPROVAL: dict[str, Any] = {
    "type": "mcp_approval_request",
    "id": "mcpr_1",
    "server_label": "db",
    "name": "drop_table",
    "arguments": '{"table": "notes"}',
}
REPLY = response(APPROVAL)


def answered(reply: Any, *results: Any) -> list[dict[str, Any]]:
    """Return the answers, checked together with the items that they belong to."""
    written = write_results(NAME, reply, results, with_reply=True)
    check(NAME, written)
    return written[-len(results) :]


def only_call(reply: Any) -> ToolCall:
    (call,) = read_reply(reply).calls
    return call


@pytest.mark.parametrize("form", [Response.model_validate, lambda reply: Response.construct(**reply), dict])
def test_a_request_for_approval_is_a_call_with_a_tool_of_its_own(form: Any) -> None:
    read = read_reply(form(response(function_call(), APPROVAL)))
    ours, theirs = read.calls
    assert (theirs.name, dict(theirs.args), theirs.id) == ("db__drop_table", {"table": "notes"}, "mcpr_1")
    assert theirs.invalid is None
    assert ours.invalid is None
    assert list(read.stand_ins) == [1]
    tool = read.stand_ins[1]
    assert isinstance(tool, HostedTool)
    assert (tool.name, tool.server, tool.remote_name) == ("db__drop_table", "db", "drop_table")


def test_the_tool_that_stands_in_says_nothing_of_itself_and_runs_nothing_here() -> None:
    tool = HostedTool("db", "drop_table")
    assert tool.hints.said == frozenset()
    assert not tool.hints.read_only
    assert (tool.hints.destructive, tool.hints.open_world, tool.hints.idempotent) == (True, True, False)
    assert tool.input_schema == {"type": "object"}
    assert tool.is_async is False
    assert tool.check_args({"table": 3}) == []
    assert tool.run({"table": "notes"}) == RUN_TEXT == "(approved: it runs at the provider)"
    assert repr(tool) == "HostedTool('db__drop_table')"


def test_a_call_that_was_allowed_and_done_as_it_came_is_approved() -> None:
    call = only_call(REPLY)
    assert answered(REPLY, Decided(call, RUN_TEXT)) == [
        {"type": "mcp_approval_response", "approval_request_id": "mcpr_1", "approve": True}
    ]


class TrueToAll:
    def __eq__(self, other: object) -> bool:
        return True

    def __hash__(self) -> int:
        return 0

    def __bool__(self) -> bool:
        return True


@dataclass(frozen=True)
class LikeAllowed:
    call: ToolCall
    content: str = RUN_TEXT
    is_error: bool = False
    verdict: str = "allowed"
    args_run: None = None
    value: str = RUN_TEXT


CALL = only_call(REPLY)
REFUSED: dict[str, Any] = {
    "a result that says nothing of a decision": Result(CALL, RUN_TEXT),
    "no outcome": LikeAllowed(CALL),
    "no word of the arguments": SimpleNamespace(
        call=CALL, content="", is_error=False, verdict="allowed", outcome=Outcome(), value=RUN_TEXT
    ),
    "an outcome without a kind": Decided(CALL, outcome=object()),
    "an outcome of None": Decided(CALL, outcome=None),
    "an error": Decided(CALL, is_error=True),
    "an error that says nothing": Decided(CALL, "", is_error=True),
    "an error that is no bool": Decided(CALL, is_error=0),  # type: ignore[arg-type]
    "denied": Decided(CALL, verdict="denied"),
    "cancelled": Decided(CALL, verdict="cancelled"),
    "an input error": Decided(CALL, verdict="input_error"),
    "no verdict": Decided(CALL, verdict=None),
    "an empty verdict": Decided(CALL, verdict=""),
    "a verdict that is True": Decided(CALL, verdict=True),
    "a verdict in capitals": Decided(CALL, verdict="ALLOWED"),
    "a verdict with a space": Decided(CALL, verdict="allowed "),
    "a verdict of bytes": Decided(CALL, verdict=b"allowed"),
    "a verdict that equals everything": Decided(CALL, verdict=ANY),
    "another verdict that equals everything": Decided(CALL, verdict=TrueToAll()),
    "a list with the verdict": Decided(CALL, verdict=["allowed"]),
    "a kind that equals everything": Decided(CALL, outcome=Outcome(TrueToAll())),
    "failed": Decided(CALL, outcome=Outcome("error")),
    "interrupted": Decided(CALL, outcome=Outcome("interrupted")),
    "cancelled while it ran": Decided(CALL, outcome=Outcome("cancelled")),
    "a kind of None": Decided(CALL, outcome=Outcome(None)),
    "edited": Decided(CALL, args_run={"table": "drafts"}),
    "edited to what it was": Decided(CALL, args_run={"table": "notes"}),
    "edited to nothing": Decided(CALL, args_run={}),
    "edited to a falsehood": Decided(CALL, args_run=False),
    "done by another tool": Decided(CALL, value="dropped"),
    "done by a tool that returned nothing": Decided(CALL, value=None),
    "a value that equals everything": Decided(CALL, value=TrueToAll()),
    "the result of a call with other arguments": Decided(CALL.with_args({"table": "drafts"})),
    "the result of a call with the arguments of another type": Decided(CALL.with_args({"table": True})),
    "the result of another tool": Decided(ToolCall("db__select", CALL.args, "mcpr_1")),
}


@pytest.mark.parametrize("result", REFUSED.values(), ids=REFUSED)
def test_nothing_else_approves_it(result: Any) -> None:
    (answer,) = answered(REPLY, result)
    assert answer["approve"] is False
    assert answer["reason"].strip()
    assert RUN_TEXT not in answer["reason"]


def test_a_number_that_was_edited_to_its_like_is_not_what_was_asked_for() -> None:
    reply = response({**APPROVAL, "arguments": '{"count": 1}'})
    for args in ({"count": True}, {"count": 1.0}):
        (answer,) = answered(reply, Decided(only_call(reply).with_args(args)))
        assert answer["approve"] is False
    (answer,) = answered(reply, Decided(only_call(reply).with_args({"count": 1})))
    assert answer["approve"] is True


def test_an_attribute_that_raises_sends_nothing() -> None:
    class Broken(Result):
        @property
        def verdict(self) -> str:
            raise RuntimeError("lost")

    with pytest.raises(RuntimeError, match="lost"):
        write_results(NAME, REPLY, [Broken(CALL)])


@pytest.mark.parametrize(
    ("result", "reason"),
    [
        (Decided(CALL, "denied: not today", verdict="denied", is_error=True), "denied: not today"),
        (Decided(CALL, RUN_TEXT, args_run={}), "a reviewer changed the arguments, which an approval cannot carry"),
        (Decided(CALL, f"{RUN_TEXT}\na reviewer changed it", args_run={}), "a reviewer changed the arguments"),
        (Decided(CALL, "denied: no edits", verdict="denied", is_error=True, args_run={}), "denied: no edits"),
        (Decided(CALL, " ", verdict="denied", is_error=True), "the call was not approved: the tool does not run"),
    ],
    ids=["denied", "edited", "edited and told so", "edited and denied", "without a text"],
)
def test_the_model_is_told_why_it_was_refused(result: Any, reason: str) -> None:
    assert answered(REPLY, result)[0]["reason"].startswith(reason)


UNREADABLE = {
    "no end": '{"table": ',
    "a list": "[]",
    "null": None,
    "a key twice": '{"table": "notes", "table": "users"}',
    "NaN": '{"n": NaN}',
    "half a surrogate pair": '{"table": "\ud800"}',
}


@pytest.mark.parametrize("arguments", UNREADABLE.values(), ids=UNREADABLE)
def test_a_request_whose_arguments_cannot_be_read_is_invalid_and_refused_whatever_the_result(arguments: Any) -> None:
    reply = response({**APPROVAL, "arguments": arguments})
    call = only_call(reply)
    assert call.invalid is not None
    assert write_results(NAME, reply, [Decided(call)])[0]["approve"] is False


def test_the_escape_of_half_a_surrogate_pair_goes_back_as_it_came() -> None:
    reply = response({**APPROVAL, "arguments": r'{"table": "\ud800"}'})
    call = only_call(reply)
    assert call.invalid is None
    written = write_results(NAME, reply, [Decided(call)], with_reply=True)
    assert written[0]["arguments"] == r'{"table": "\ud800"}'
    assert written[1]["approve"] is True


@pytest.mark.parametrize(
    ("server", "name"),
    [
        ("db__main", "drop"),
        ("db_", "drop"),
        ("_db", "drop"),
        ("my db", "drop"),
        ("db*", "drop"),
        ("db", "drop table"),
        ("db", "drop\u00a0table"),
        ("db", "drop\x00"),
        ("db", "x" * 200),
        ("d\ud800", "drop"),
        ("db", "drop\udfff"),
    ],
)
def test_a_name_that_a_pattern_for_another_server_could_mean_or_that_no_tool_has_is_refused(
    server: str, name: str
) -> None:
    reply = response({**APPROVAL, "server_label": server, "name": name})
    read = read_reply(reply)
    (call,) = read.calls
    assert call.name == f"{server}__{name}"
    assert call.invalid is not None
    assert read.stand_ins == {}
    assert write_results(NAME, reply, [Decided(call)])[0]["approve"] is False


def test_the_last_request_of_a_response_that_was_cut_off_is_refused() -> None:
    reply = response(APPROVAL, {**APPROVAL, "id": "mcpr_2"}, status="incomplete")
    first, last = read_reply(reply).calls
    assert first.invalid is None
    assert "cut off" in str(last.invalid)
    answers = answered(reply, Decided(first), Decided(last))
    assert [answer["approve"] for answer in answers] == [True, False]


def test_of_two_requests_with_one_id_neither_is_approved_since_the_id_is_all_that_an_approval_names() -> None:
    reply = response(APPROVAL, {**APPROVAL, "arguments": '{"table": "users"}'})
    calls = read_reply(reply).calls
    assert [answer["approve"] for answer in answered(reply, *map(Decided, calls))] == [False, False]


def test_each_request_gets_its_own_answer() -> None:
    reply = response({**APPROVAL, "id": "a"}, function_call(id="b"), {**APPROVAL, "id": "c"})
    read = read_reply(reply)
    first, ours, last = read.calls
    assert list(read.stand_ins) == [0, 2]
    answers = answered(reply, Decided(first, verdict="denied"), Decided(ours, "3"), Decided(last))
    assert [answer.get("approve") for answer in answers] == [False, None, True]
    assert answers[1] == {"type": "function_call_output", "call_id": "b", "output": "3"}


def test_a_request_that_is_answered_in_the_reply_is_not_asked_again() -> None:
    answer = {"type": "mcp_approval_response", "approval_request_id": "mcpr_1", "approve": True}
    read = read_reply(response(APPROVAL, answer))
    assert (read.calls, read.stand_ins) == ((), {})


@pytest.mark.parametrize("arguments", ["", "{}", {"table": "notes"}], ids=repr)
def test_arguments_that_are_empty_or_an_object_are_read(arguments: Any) -> None:
    reply = response({**APPROVAL, "arguments": arguments})
    call = only_call(reply)
    assert call.invalid is None
    assert dict(call.args) == (arguments if isinstance(arguments, dict) else {})
