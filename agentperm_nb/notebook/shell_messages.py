"""Handling single messages of a kernel's shell channel while cells wait.

`ShellMessages` is shared by all that wait: it tells which messages are served, and handles one in place of the kernel.
How they are taken out of the channel depends on the kernel: see `agentperm_nb.notebook.shell_layouts`.
"""

from __future__ import annotations

import asyncio
import contextlib
import inspect
import logging
import queue
import sys
import threading
from collections.abc import Callable
from contextvars import Context, copy_context
from dataclasses import dataclass, field
from typing import Any, ClassVar

__all__ = ["Request", "ShellMessages", "Waiter", "is_cell"]

_COMM_KINDS = frozenset({"comm_open", "comm_msg", "comm_close"})
_RELOAD_KINDS = frozenset({"kernel_info_request", "comm_info_request"})
_CONTROL_TARGET = "jupyter.widget.control"

_log = logging.getLogger("agentperm_nb")

Request = tuple[Any, Any]
"""Identities and message of a request: what ``kernel.set_parent`` takes."""


@dataclass(eq=False)
class Waiter:
    """A cell, or a task of one, that waits."""

    comm_ids: set[str]
    """The comms that it serves; its owner may add to them."""
    request: Request
    """The request of the cell to which it belongs."""
    loop: asyncio.AbstractEventLoop | None = None
    """The loop on which it awaits; None when it blocks its thread."""
    inbox: queue.SimpleQueue[Callable[[], None]] = field(default_factory=queue.SimpleQueue)
    """Work for a thread that blocks: each item handles one message."""
    thread: int = field(default_factory=threading.get_ident)
    """Where it waits."""
    context: Context = field(default_factory=copy_context)
    """The context of the cell."""
    on_run_again: Callable[[], object] = lambda: None
    """Called once, where it waits, when its cell is to run again."""
    told: bool = False
    """Whether that has been called."""

    @property
    def cell_id(self) -> str | None:
        """The front end's name for the cell, where it gives one."""
        return _cell_id(self.request[1].get("metadata"))

    @property
    def request_id(self) -> str:
        """The id of the cell's request."""
        return str(self.request[1].get("header", {}).get("msg_id", ""))


class ShellMessages:
    """The shell channel of a kernel, seen by those that wait. There is one a kernel."""

    layout: ClassVar[str]
    """Name of the way in which messages are taken out of the channel."""
    needed: ClassVar[tuple[str, ...]] = (
        "session.feed_identities",
        "session.unpack",
        "session.deserialize",
        "shell_handlers",
        "comm_manager.comms",
        "get_parent",
        "set_parent",
        "_parent_ident",
        "_publish_status",
        "log.error",
    )
    """What the kernel must have, whatever its layout."""

    def __init__(self, kernel: Any) -> None:
        self.kernel = kernel
        self.waiters: list[Waiter] = []
        self._run_again: dict[str, str] = {}  # by cell, the request after which another one came
        self._control_ids: set[str] = set()

    def enter(self, waiter: Waiter) -> None:
        """Begin to bring messages to a waiter."""
        raise NotImplementedError

    def leave(self, waiter: Waiter) -> None:
        """Bring it no more; it need not have entered."""
        raise NotImplementedError

    def step(self, waiter: Waiter, seconds: float) -> None:
        """Handle what arrives for a waiter that blocks, for at most `seconds`; return early after one message."""
        with contextlib.suppress(queue.Empty):
            waiter.inbox.get(timeout=max(seconds, 0.0))()

    def current_request(self) -> Request:
        """Return the request to which the calling code belongs."""
        try:
            return self.kernel._parent_ident["shell"], self.kernel.get_parent("shell")
        except LookupError:  # ipykernel 7.0, in a thread without the cell's context
            return b"", {}

    def wanted_by(self, raw: list[Any]) -> Waiter | None:
        """Return who is to have a message.

        It is only looked into; its signature is checked when it is handled. A request to run a waiting cell again is
        nobody's, but its waiters are told that it came.
        """
        waiters = list(self.waiters)
        if not waiters or len(raw) < 5:  # ipykernel's own marker "stop aborting" is a single frame
            return None
        session = self.kernel.session
        try:
            frames = session.feed_identities(raw, copy=False)[1]
            kind = session.unpack(_bytes(frames[1]))["msg_type"]
            if kind in _RELOAD_KINDS:
                return waiters[-1]
            if kind == "execute_request":
                self._to_run(_cell_id(session.unpack(_bytes(frames[3]))), waiters)
                return None
            if kind not in _COMM_KINDS:
                return None
            content = session.unpack(_bytes(frames[4]))
            comm_id, target = content["comm_id"], content.get("target_name")
        except Exception:  # noqa: BLE001 - whatever this is, it is not ours: the kernel says what is wrong with it
            return None
        if kind == "comm_open":
            if target != _CONTROL_TARGET:
                return None
            self._control_ids.add(comm_id)
            return waiters[-1]
        for waiter in waiters:
            if comm_id in waiter.comm_ids:
                return waiter
        target = getattr(self.kernel.comm_manager.comms.get(comm_id), "target_name", None)
        return waiters[-1] if comm_id in self._control_ids or target == _CONTROL_TARGET else None

    def _to_run(self, cell_id: str | None, waiters: list[Waiter]) -> None:
        if cell_id is None:
            return
        for waiter in waiters:
            if waiter.cell_id == cell_id:
                self._run_again[cell_id] = waiter.request_id
                if not waiter.told:
                    waiter.told = True
                    self._call(waiter, lambda waiter=waiter: _run_again(waiter))  # type: ignore[misc]  # bound now

    def tell_if_run_again(self, waiter: Waiter) -> None:
        """Tell a waiter that has just entered when the next request for its cell came before it."""
        if waiter.cell_id is not None and self._run_again.get(waiter.cell_id) == waiter.request_id and not waiter.told:
            waiter.told = True
            _run_again(waiter)

    def _call(self, waiter: Waiter, work: Callable[[], None]) -> bool:
        """Call something where a waiter waits; return False when that is not there any more."""
        raise NotImplementedError

    def handle(self, waiter: Waiter, raw: list[Any]) -> None:
        """Handle a message now, on this thread, in a copy of the waiter's context. Errors are logged, never raised."""
        waiter.context.copy().run(self._handle, waiter, raw)

    def _handle(self, waiter: Waiter, raw: list[Any]) -> None:
        kernel = self.kernel
        try:
            identities, frames = kernel.session.feed_identities(raw, copy=False)
            message = kernel.session.deserialize(frames, content=True, copy=False)
        except Exception:  # the kernel, too, drops a message whose signature is wrong
            kernel.log.error("Invalid Message", exc_info=True)
            return
        latest = Context().run(self.current_request)  # outside of any cell's context: what the kernel is at
        if not latest[1]:  # ipykernel 7.0 does not know
            latest = waiter.request
        kernel._publish_status("busy", "shell", parent=message)
        try:
            kernel.set_parent(identities, message, channel="shell")
            self._call_handler(identities, message)
        except Exception:  # a faulty handler must not end the cell that waits
            kernel.log.error("Error in the handler of a message to a waiting cell", exc_info=True)
        finally:
            for stream in (sys.stdout, sys.stderr):
                with contextlib.suppress(Exception):
                    stream.flush()
            # the running cell, which is not the waiter's own when a task of an earlier cell waits
            kernel.set_parent(*(latest if is_cell(latest) else waiter.request), channel="shell")
            # the front end sends the next change of a widget only after the idle of the one before
            kernel._publish_status("idle", "shell", parent=message)
            if is_cell(latest) and self._cell_is_running():
                kernel._publish_status("busy", "shell", parent=latest[1])  # the last status seen is what is shown

    def _call_handler(self, identities: Any, message: dict[str, Any]) -> None:
        kind = message["header"]["msg_type"]
        if kind == "comm_msg":
            comm = self.kernel.comm_manager.comms.get(message["content"]["comm_id"])
            if comm is None:
                return
            callback = getattr(comm, "_msg_callback", None)
            if callback is None:
                comm.handle_msg(message)
            else:  # handle_msg() itself sends pre_execute and post_execute
                callback(message)
            return
        if kind == "comm_close":
            self._control_ids.discard(message["content"]["comm_id"])
        outcome = self.kernel.shell_handlers[kind](self._reply_stream(), identities, message)
        if inspect.iscoroutine(outcome):
            try:
                outcome.send(None)  # ipykernel's never suspend
            except StopIteration:
                return
            outcome.close()
            raise RuntimeError(f"the kernel's handler of {kind} suspends: it cannot run while a cell does")

    def _reply_stream(self) -> Any:
        """Return what ``Session.send`` is to send replies on, for this thread."""
        raise NotImplementedError

    def _cell_is_running(self) -> bool:
        """Return whether the latest request is still being worked on."""
        raise NotImplementedError


def is_cell(request: Request) -> bool:
    """Return whether a request runs a cell."""
    return bool(request[1]) and request[1].get("header", {}).get("msg_type") == "execute_request"


def _cell_id(metadata: Any) -> str | None:
    found = metadata.get("cellId") if isinstance(metadata, dict) else None
    return found if isinstance(found, str) and found else None


def _run_again(waiter: Waiter) -> None:
    try:
        waiter.context.copy().run(waiter.on_run_again)
    except Exception:  # noqa: BLE001 - like a handler: it must not end what calls it
        _log.exception("a waiting cell could not be told that it is to run again")


def _bytes(frame: Any) -> bytes:
    return bytes(getattr(frame, "bytes", frame))
