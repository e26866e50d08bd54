"""Requests that wait at the desk, for tests of what draws them; a test's notebook imports this too."""

from __future__ import annotations

import secrets
import threading
import time
from collections.abc import Callable, Mapping
from datetime import datetime
from pathlib import Path
from typing import Any

from agentperm_nb.approvals.desk import DeskChange, the_desk
from agentperm_nb.approvals.patience import Patience
from agentperm_nb.approvals.requests import ApprovalRequest
from agentperm_nb.calls import ToolCall
from agentperm_nb.hints import Hints
from agentperm_nb.redaction import Redactor
from agentperm_nb.render import flags
from agentperm_nb.tools import Tool


class ServerTool(Tool):
    """A tool of a server named ``github``."""

    server = "github"


def make_request(
    name: str = "write_file",
    args: Mapping[str, Any] | None = None,
    *,
    hints: Hints | None = None,
    question: str | None = None,
    agent_path: tuple[str, ...] = ("main",),
    ran_before: datetime | None = None,
    properties: Mapping[str, Any] | None = None,
    of_server: bool = False,
    secret: tuple[str, ...] = (),
    patience: Patience | None = None,
) -> ApprovalRequest:
    args = {"path": "notes.txt", "content": "Buy milk."} if args is None else args
    schema = {
        "type": "object",
        "properties": properties or {key: {} for key in args if key.isprintable()},
        "additionalProperties": not all(key.isprintable() for key in args),
    }
    tool = (ServerTool if of_server else Tool)(name, "", schema, function=print, secret=secret)
    return ApprovalRequest(
        id=secrets.token_hex(8),
        call=ToolCall(name, args),
        call_key="run_1:0:0",
        tool=tool,
        shown_args=Redactor().value(args, secret=secret),
        question=question or f"Run {name}(…)?",
        rule="DecideByHuman()",
        reason="no rule before it decided",
        hints=hints or tool.hints,
        agent_path=agent_path,
        user="ada",
        ran_before=ran_before,
        flags=tuple(flags(args)),
        patience=patience,
    )


def open_requests(*requests: ApprovalRequest) -> list[DeskChange]:
    """Put requests on the desk; return a list that grows with what happens there to them."""
    ids = {request.id for request in requests}
    changes: list[DeskChange] = []
    the_desk.subscribe(lambda change: changes.append(change) if change.request_id in ids else None)
    the_desk.open(requests)
    return changes


async def ask(*requests: ApprovalRequest, **options: Any) -> list[str]:
    """Put requests to the person at the notebook; return what happened at the desk, a line each."""
    from agentperm_nb.notebook.human import NotebookHuman

    changes = open_requests(*requests)
    async for _ in NotebookHuman(**options).areview(requests):
        pass
    return lines(changes)


def block(*requests: ApprovalRequest, **options: Any) -> list[str]:
    """Do as `ask` does, in a blocking cell."""
    from agentperm_nb.notebook.human import NotebookHuman

    changes = open_requests(*requests)
    with NotebookHuman(**options).attend(requests) as serve:
        while any(the_desk.is_open(request.id) for request in requests):
            serve(0.1)
    return lines(changes)


def when_there(file: str, action: Callable[[], object]) -> None:
    """Call `action` on another thread as soon as there is such a file, which the test makes when it is ready."""

    def watch() -> None:
        while not Path(file).exists():
            time.sleep(0.05)
        action()

    threading.Thread(target=watch, daemon=True).start()


def lines(changes: list[DeskChange]) -> list[str]:
    return [line(change) for change in changes if change.kind not in ("opened", "shown")]


def line(change: DeskChange) -> str:
    if change.answer is None:
        return f"{change.kind} {change.detail}"
    decision, words = change.answer.decision, [change.kind]
    words.append(f"{decision.action}{' stop' if decision.stop else ''}")
    if decision.reason:
        words.append(f"reason={decision.reason}")
    if decision.edited_args is not None:
        words.append(f"args={dict(decision.edited_args)}")
    if change.detail:
        words.append(f"({change.detail})")
    return " ".join(words)
