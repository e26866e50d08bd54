"""Taking single messages out of a kernel's shell channel, in the two layouts that kernels are known to have.

- *channel* (ipykernel 7): a thread of its own reads the shell socket, whatever the main thread does. The receive
  callback of its stream is wrapped; what is served goes to the waiting cell, all else to the callback that was there.
- *queue* (ipykernel 6): messages wait in ``kernel.msg_queue`` while a cell runs. What is served is taken out of it,
  every 20 ms; nothing else moves. In a cell that blocks the loop, the stream is flushed by hand in both directions.

Which one is told by what the kernel has. Every private name that is used is looked for first.
"""

from __future__ import annotations

import asyncio
import contextlib
import inspect
import operator
import sys
import threading
import time
from collections.abc import Callable, Iterable
from contextvars import Context
from dataclasses import dataclass
from typing import Any, ClassVar

from agentperm_nb.errors import DeliveryError
from agentperm_nb.notebook.shell_messages import ShellMessages, Waiter

__all__ = ["ChannelMessages", "QueueMessages", "shell_messages"]

_SCAN_SECONDS = 0.02
_PATIENCE_SECONDS = 5.0  # for the shell channel thread, which has little else to do


class ChannelMessages(ShellMessages):
    """ipykernel 7: a thread of its own reads the shell socket.

    The hook and the list of waiters are touched on that thread only.
    """

    layout = "channel"
    needed: ClassVar[tuple[str, ...]] = (
        *ShellMessages.needed,
        "shell_channel_thread.io_loop.add_callback",
        "shell_channel_thread.is_alive",
        "shell_stream.on_recv",
        "shell_stream.send_multipart",
        "shell_stream._recv_callback",
    )

    def __init__(self, kernel: Any) -> None:
        super().__init__(kernel)
        self._hook: _Hook | None = None
        self._passed_on: set[asyncio.Future[Any]] = set()

    def enter(self, waiter: Waiter) -> None:
        """Begin to bring messages to a waiter."""
        self._on_channel_thread(lambda: self._enter(waiter))

    def leave(self, waiter: Waiter) -> None:
        """Bring it no more; what it has not handled yet goes the kernel's way."""
        self._on_channel_thread(lambda: self._leave(waiter))

    def _enter(self, waiter: Waiter) -> None:
        stream = self.kernel.shell_stream
        if self._hook is None or stream._recv_callback is not self._hook:
            self._hook = _Hook(self, stream._recv_callback)
            stream.on_recv(self._hook, copy=False)
        self.waiters.append(waiter)

    def _leave(self, waiter: Waiter) -> None:
        if waiter in self.waiters:
            self.waiters.remove(waiter)
        stream, hook = self.kernel.shell_stream, self._hook
        if hook is None:
            return
        while not waiter.inbox.empty():
            work = waiter.inbox.get()
            if isinstance(work, _Handling):
                passed_on = hook(work.raw)
                if inspect.isawaitable(passed_on):  # what a callback returns to the stream, the stream runs
                    future = asyncio.ensure_future(passed_on)
                    self._passed_on.add(future)  # a loop has only a weak reference to its tasks
                    future.add_done_callback(self._passed_on.discard)
        if not self.waiters and stream._recv_callback is hook:
            stream.on_recv(hook.original, copy=False)
            self._hook = None
        # else somebody has put a callback around the hook, which passes everything on while nobody waits

    def deliver(self, waiter: Waiter, raw: list[Any]) -> bool:
        """Send a message to where the waiter waits; return False when that is not there any more."""
        return self._call(waiter, _Handling(self, waiter, raw))

    def _call(self, waiter: Waiter, work: Callable[[], None]) -> bool:
        for other in self.waiters:
            if other.loop is None and other.thread == waiter.thread:  # the loop there, if any, is blocked by this one
                other.inbox.put(work)
                return True
        if waiter.loop is None:
            return False
        try:
            waiter.loop.call_soon_threadsafe(work)
        except RuntimeError:  # the loop has been closed under the waiter
            return False
        return True

    def _reply_stream(self) -> Any:
        return _ReplyStream(self.kernel)

    def _cell_is_running(self) -> bool:
        lock = getattr(self.kernel, "_main_asyncio_lock", None)
        return lock is not None and bool(lock.locked())

    def _on_channel_thread(self, action: Callable[[], None]) -> None:
        thread, done, problems = self.kernel.shell_channel_thread, threading.Event(), list[Exception]()

        def act() -> None:
            try:
                action()
            except Exception as problem:  # noqa: BLE001 - raised below, where somebody waits for it
                problems.append(problem)
            finally:
                done.set()

        # an empty context: the stream keeps the one in which its callback was set
        Context().run(thread.io_loop.add_callback, act)
        if not thread.is_alive() or not done.wait(_PATIENCE_SECONDS):
            raise DeliveryError("the kernel's shell channel thread does not answer")
        if problems:
            raise problems[0]


class QueueMessages(ShellMessages):
    """ipykernel 6: messages wait in a queue of the main thread's loop, and are handled on that thread only."""

    layout = "queue"
    needed: ClassVar[tuple[str, ...]] = (
        *ShellMessages.needed,
        "msg_queue._queue",
        "dispatch_shell",
        "io_loop.add_callback",
        "io_loop.call_later",
        "shell_stream.flush",
        "shell_stream.socket",
    )

    def __init__(self, kernel: Any) -> None:
        super().__init__(kernel)
        self._lock = threading.Lock()
        self._scanning = False

    def enter(self, waiter: Waiter) -> None:
        """Begin to bring messages to a waiter."""
        with self._lock:
            self.waiters.append(waiter)
            start, self._scanning = not self._scanning, True
        if start:
            Context().run(self.kernel.io_loop.add_callback, self._scan_again)

    def leave(self, waiter: Waiter) -> None:
        """Bring it no more; what it has not handled yet is still in the kernel's queue."""
        with self._lock:
            if waiter in self.waiters:
                self.waiters.remove(waiter)

    def step(self, waiter: Waiter, seconds: float) -> None:
        """Handle what arrives for a waiter that blocks, for at most `seconds`; return early after a message."""
        if threading.current_thread() is not threading.main_thread():
            super().step(waiter, seconds)  # the main thread's loop handles, and tells
            return
        import zmq

        stream, deadline = self.kernel.shell_stream, time.monotonic() + seconds
        while True:
            stream.flush(zmq.POLLIN)
            if self._scan(after_each=lambda: stream.flush(zmq.POLLOUT)):
                return
            left = min(deadline - time.monotonic(), _SCAN_SECONDS)
            if left <= 0:
                return
            stream.socket.poll(max(1, int(left * 1000)), zmq.POLLIN)

    def _scan_again(self) -> None:
        try:
            self._scan()
        finally:
            with self._lock:
                self._scanning = bool(self.waiters)
            if self._scanning:
                self.kernel.io_loop.call_later(_SCAN_SECONDS, self._scan_again)

    def _scan(self, after_each: Callable[[], object] = lambda: None) -> bool:
        """Handle what is served of the queue; return whether there was anything."""
        waiting, handled = self.kernel.msg_queue._queue, False
        for item in list(waiting):
            raw = self._shell_message(item)
            waiter = None if raw is None else self.wanted_by(raw)
            if raw is None or waiter is None:
                continue
            waiting.remove(item)
            self.handle(waiter, raw)
            handled = True
            if waiter.loop is None and waiter.thread != threading.get_ident():
                waiter.inbox.put(lambda: None)  # ends its step
            after_each()
        return handled

    def _call(self, waiter: Waiter, work: Callable[[], None]) -> bool:
        work()  # the main thread's loop handles all
        return True

    def _shell_message(self, item: Any) -> list[Any] | None:
        with contextlib.suppress(TypeError, ValueError):
            _, dispatch, arguments = item
            if dispatch == self.kernel.dispatch_shell and arguments:
                return list(arguments[0])
        return None

    def _reply_stream(self) -> Any:
        return self.kernel.shell_stream

    def _cell_is_running(self) -> bool:
        return True  # else the message would not have been left in the queue


@dataclass
class _Handling:
    """A message on its way to a waiter; calling it handles it."""

    messages: ShellMessages
    waiter: Waiter
    raw: list[Any]

    def __call__(self) -> None:
        self.messages.handle(self.waiter, self.raw)


class _Hook:
    """The receive callback of the shell stream while somebody waits."""

    def __init__(self, messages: ChannelMessages, original: Callable[[list[Any]], Any]) -> None:
        self.messages, self.original = messages, original

    def __call__(self, raw: list[Any]) -> Any:
        waiter = self.messages.wanted_by(raw)
        if waiter is not None and self.messages.deliver(waiter, raw):
            return None
        return self.original(raw)


class _ReplyStream:
    """Sends replies by the thread to which the shell socket belongs. ``Session.send`` needs no more of a stream."""

    def __init__(self, kernel: Any) -> None:
        self._stream, self._loop = kernel.shell_stream, kernel.shell_channel_thread.io_loop

    def send_multipart(self, parts: list[Any], **options: Any) -> None:
        self._loop.add_callback(self._stream.send_multipart, parts, **options)


_making = threading.Lock()
_made: tuple[Any, ShellMessages] | None = None


def shell_messages(kernel: Any) -> ShellMessages:
    """Return the one `ShellMessages` of an ipykernel.

    Raises:
        DeliveryError: There is no kernel, or it has neither layout.
    """
    global _made
    if kernel is None:
        raise DeliveryError("clicks cannot reach this code: it does not run in an ipykernel")
    lacks = []
    with _making:
        if _made is not None and _made[0] is kernel:
            return _made[1]
        for layout in (ChannelMessages, QueueMessages):
            missing = _missing(kernel, layout.needed)
            if not missing:
                _made = (kernel, layout(kernel))
                return _made[1]
            lacks.append(f"for the layout {layout.layout!r} it lacks {', '.join(missing)}")
    version = getattr(sys.modules.get("ipykernel"), "__version__", "of unknown version")
    raise DeliveryError(f"clicks cannot reach a running cell of this kernel, ipykernel {version}: {'; '.join(lacks)}")


def _missing(kernel: Any, names: Iterable[str]) -> list[str]:
    missing = []
    for name in names:
        try:
            found = operator.attrgetter(name)(kernel)
        except AttributeError:
            found = None
        if found is None:
            missing.append(name)
    return missing
