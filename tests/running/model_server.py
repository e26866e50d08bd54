"""A server on this machine that speaks the three APIs: it refuses what they refuse, and answers from a script."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from wire import check, completion, message, response


@dataclass(frozen=True)
class Failure:
    """A request is answered by an error of the server."""

    status: int
    words: str = "overloaded"


class ModelServer:
    """Serves scripted replies.

    Args:
        replies: For each request a list of content blocks (Anthropic), or of events when it asks for a stream, or the
            fields of a message (OpenAI Chat Completions), or a list of output items (OpenAI Responses); or a whole
            reply of the API; or a `Failure`; or a function that returns one of these, called while the client waits.
    """

    def __init__(self, replies: list[Any]) -> None:
        self.replies = list(replies)
        self.requests: list[dict[str, Any]] = []
        self.url = ""

    def answer(self, path: str, body: dict[str, Any]) -> Any:
        self.requests.append(body)
        checks = {"/v1/messages": check_anthropic, "/v1/responses": check_responses}
        checks.get(path, check_openai)(body)
        reply = self.replies.pop(0)
        if callable(reply):
            reply = reply()
        if isinstance(reply, Failure) or body.get("stream") or (isinstance(reply, dict) and "id" in reply):
            return reply
        if path == "/v1/messages":
            called = any(block["type"] == "tool_use" for block in reply)
            return message(*reply, stop_reason="tool_use" if called else "end_turn")
        if path == "/v1/responses":
            return response(*reply)
        assert path == "/v1/chat/completions", path
        return completion(finish_reason="tool_calls" if "tool_calls" in reply else "stop", **reply)


def streamed(*pieces: str, stop_reason: str) -> list[dict[str, Any]]:
    """Return the events of a reply with one call, whose arguments come in these pieces of JSON."""
    start = message(stop_reason=None)
    block = {"type": "tool_use", "id": "toolu_1", "name": "delete_file", "input": {}}
    deltas = [
        {"type": "content_block_delta", "index": 0, "delta": {"type": "input_json_delta", "partial_json": piece}}
        for piece in pieces
    ]
    return [
        {"type": "message_start", "message": start},
        {"type": "content_block_start", "index": 0, "content_block": block},
        *deltas,
        {"type": "content_block_stop", "index": 0},
        {
            "type": "message_delta",
            "delta": {"stop_reason": stop_reason, "stop_sequence": None},
            "usage": {"output_tokens": 9},
        },
        {"type": "message_stop"},
    ]


def check_tools(format: str, body: dict[str, Any]) -> None:
    """Fail when the functions among the tools are not as the API takes them, or the list is there and empty."""
    assert body.get("tools") != [], "[] is too short"
    check(f"{format} tools", [item for item in body.get("tools", []) if item.get("type") in (None, "function")])


def check_anthropic(body: dict[str, Any]) -> None:
    """Fail unless every call is answered in the message that follows it, and nothing else is."""
    check("anthropic", body["messages"])
    check_tools("anthropic", body)
    called: list[str] = []
    for item in body["messages"]:
        blocks = item["content"] if isinstance(item["content"], list) else [{"type": "text", "text": item["content"]}]
        answered = [block for block in blocks if block["type"] == "tool_result"]
        assert [block["tool_use_id"] for block in answered] == called, "each tool_use needs a tool_result right after"
        assert blocks, "all messages must have non-empty content"
        assert all(block["text"].strip() for block in blocks if block["type"] == "text"), "text must be non-empty"
        assert all(block["content"] for block in answered if block.get("is_error")), "content needed if is_error"
        assert "'image'" not in str([block for block in answered if block.get("is_error")]), "text only if is_error"
        called = [block["id"] for block in blocks if block["type"] == "tool_use"]
        assert not called or item["role"] == "assistant"
        assert not answered or item["role"] == "user"
    assert not called, "tool_use without tool_result"
    # The reply of a turn that was paused, as it was in the middle of a tool of the provider, is given back to go on.
    paused = any(block["type"] == "server_tool_use" for block in blocks)
    assert body["messages"][-1]["role"] == "user" or paused


def check_openai(body: dict[str, Any]) -> None:
    """Fail unless every call is answered by a tool message before the next message, and nothing else is."""
    check("openai-chat", body["messages"])
    check_tools("openai-chat", body)
    called: list[str] = []
    for item in body["messages"]:
        if item["role"] == "tool":
            assert called, "a tool message must follow tool_calls"
            assert item["tool_call_id"] == called.pop(0)
            continue
        assert not called, f"tool_calls without a tool message: {called}"
        assert item.get("tool_calls") != [], "[] is too short"
        called = [call["id"] for call in item.get("tool_calls", [])]
    assert not called, f"tool_calls without a tool message: {called}"


def check_responses(body: dict[str, Any]) -> None:
    """Fail unless every call is answered by the item that its kind wants, before the next message of the user."""
    check("openai-responses", body["input"])
    check_tools("openai-responses", body)
    called: list[tuple[str, str]] = []
    for item in body["input"]:
        kind = item.get("type", "message")
        if kind == "mcp_approval_request":
            called.append(("mcp_approval_response", item["id"]))
        elif kind in {"function_call", "custom_tool_call", "shell_call", "apply_patch_call"}:
            called.append((f"{kind}_output", item["call_id"]))
        elif kind.endswith("_call_output") or kind == "mcp_approval_response":
            answered = (kind, item["approval_request_id" if kind == "mcp_approval_response" else "call_id"])
            assert answered in called, f"No tool call found for {answered}"
            called.remove(answered)
        else:
            assert not called or item.get("role") != "user", f"No tool output found for {called}"
    assert not called, f"No tool output found for {called}"


@contextmanager
def serving(*replies: Any) -> Iterator[ModelServer]:
    """Serve these replies, one a request, until the block ends."""
    model = ModelServer(list(replies))

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            try:
                status, answer = 200, model.answer(self.path, body)
            except AssertionError as error:
                words = {"type": "invalid_request_error", "message": str(error)}
                status, answer = 400, {"type": "error", "error": words}
            if isinstance(answer, Failure):
                words = {"type": "api_error", "message": answer.words}
                status, answer = answer.status, {"type": "error", "error": words}
            kind, data = "application/json", json.dumps(answer).encode()
            if isinstance(answer, list):
                kind = "text/event-stream"
                data = "".join(f"event: {event['type']}\ndata: {json.dumps(event)}\n\n" for event in answer).encode()
            self.send_response(status)
            self.send_header("Content-Type", kind)
            self.send_header("Content-Length", str(len(data)))
            self.end_headers()
            self.wfile.write(data)

        def log_message(self, format: str, *args: Any) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    model.url = f"http://127.0.0.1:{server.server_address[1]}"
    try:
        yield model
    finally:
        server.shutdown()
        thread.join()
        server.server_close()
