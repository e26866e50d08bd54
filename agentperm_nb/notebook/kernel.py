"""How a click reaches a cell that is still running.

A kernel handles one request after the other, so what a widget sends waits until the cell has ended, unless the cell
takes it in by itself. `Delivery` does that, for the comms it serves and for nothing else:

1. It takes messages only while something waits, and the kernel is as it was when nothing does any more: after an
   interrupt, a cancellation and an error too.
2. Messages that are not served keep their order, and their way.
3. A handler is called as the kernel would call it: signature checked, busy and idle published, the message as parent.
   Two things differ. It runs in a copy of the waiting cell's context, and no ``pre_execute`` and ``post_execute``
   events are sent, which would show the cell's pending figures under the message. Afterwards the running cell is the
   parent again. Handlers must only hand the answer over: what they print appears nowhere.
4. A request to run a waiting cell again, for which the page drops all that the waiting cell still shows, is told to
   whoever waits (`Delivery.on_run_again`). The request itself goes its way.
5. What a reloaded page needs to draw its widgets again is answered as well: ``kernel_info``, ``comm_info`` and the comm
   ``jupyter.widget.control``.

**Waiting is the caller's part, and needs a tick.** An interrupt of a cell that awaits is noticed only when its event
loop wakes up, so wait in steps of at most a tenth of a second::

    delivery = Delivery.for_this_kernel()
    delivery.serve(widget.comm.comm_id)
    async with delivery.awaiting():          # before the widget is displayed: it may greet at once
        display(widget)
        while not answered.done():
            await asyncio.wait({answered}, timeout=0.1)

    with delivery.blocking() as step:        # in a cell that does not await
        display(widget)
        while not answered:
            step(0.1)
"""

from __future__ import annotations

import asyncio
import contextlib
import signal
import sys
import threading
from collections.abc import AsyncIterator, Callable, Iterator
from dataclasses import dataclass
from typing import Any

from agentperm_nb.notebook.shell_layouts import shell_messages
from agentperm_nb.notebook.shell_messages import ShellMessages, Waiter

__all__ = ["Delivery", "FrontEnd", "front_end"]


@dataclass(frozen=True)
class FrontEnd:
    """Whether somebody can answer from a notebook page."""

    in_kernel: bool
    """Whether this code runs in an ipykernel."""
    can_answer: bool
    """Whether the client that runs the cell takes answers; False outside of a kernel."""
    reason: str
    """Why it is as it is, in words for the user."""
    remedy: str = ""
    """What to do about calls that nobody can answer."""


def front_end() -> FrontEnd:
    """Return whether somebody can answer from a notebook page, for the cell that the calling code belongs to.

    A client that runs cells for a person allows them to use ``input()``; one that runs them unattended does not, and
    says so in its request. On ipykernel 7 the request is that of the cell in whose context the caller runs, so a
    background task or a worker thread that was given a copy of it gets the answer for its own cell. ipykernel 6 knows
    only the latest request.
    """
    kernel = _kernel()
    if kernel is None:
        return FrontEnd(False, False, "This code does not run in a Jupyter kernel, so there is no page to answer from.")
    try:
        request = kernel.get_parent("shell") or {}
    except LookupError:  # ipykernel 7.0, in a thread without the cell's context
        request = {}
    kind = request.get("header", {}).get("msg_type")
    if kind == "comm_msg":
        return FrontEnd(True, True, "A widget on a page called this code.")
    if kind == "execute_request":
        allowed = request.get("content", {}).get("allow_stdin")
    else:  # the kernel is at another request meanwhile, such as a completion: the latest cell is what it remembers
        allowed = getattr(kernel, "_allow_stdin", None)
    if allowed:
        return FrontEnd(True, True, "The client that runs this cell takes answers.")
    said = "does not say that it takes answers" if allowed is None else "says that it takes no answers"
    return FrontEnd(
        True,
        False,
        f"Nobody can answer: the client that runs this cell {said} (allow_stdin in its request), as nbconvert, "
        "papermill and voila do.",
        "For an unattended run, name what may run, for example "
        "permissions=[AllowByReadOnly(), AllowByName(['write_report'])].",
    )


class Delivery:
    """Brings what is sent to some comms into a cell that is running."""

    def __init__(self, messages: ShellMessages) -> None:
        self._messages = messages
        self._comm_ids: set[str] = set()
        self._on_run_again: Callable[[], object] = lambda: None

    def __repr__(self) -> str:
        return f"Delivery({len(self._comm_ids)} comms, {self._messages.layout})"

    @classmethod
    def for_this_kernel(cls) -> Delivery:
        """Return a delivery for the kernel that runs this code.

        It goes by what the kernel has, not by its version.

        Raises:
            DeliveryError: This is no ipykernel, or one that has neither of the two known layouts.
        """
        return cls(shell_messages(_kernel()))

    def serve(self, comm_id: str) -> None:
        """Also bring what is sent to this comm. It may be called while something waits."""
        self._comm_ids.add(comm_id)

    def on_run_again(self, callback: Callable[[], object]) -> None:
        """Call `callback` once, where the body waits, when the waiting cell is to run again; set it before waiting.

        The front end must name the cell in its requests (``cellId`` in their metadata), as JupyterLab and Notebook 7
        do. A request that came while nothing waited yet is noticed on ipykernel 6 only.
        """
        self._on_run_again = callback

    @contextlib.asynccontextmanager
    async def awaiting(self) -> AsyncIterator[None]:
        """Bring messages while the body awaits, on any running asyncio loop.

        On ipykernel 7 handlers run on the loop of the body, be it the kernel's or one in a worker thread. On
        ipykernel 6 they always run on the kernel's own loop, and nothing arrives while that is blocked.
        """
        waiter = self._waiter(asyncio.get_running_loop())
        try:
            self._messages.enter(waiter)
            self._messages.tell_if_run_again(waiter)
            yield
        finally:
            self._messages.leave(waiter)

    @contextlib.contextmanager
    def blocking(self) -> Iterator[Callable[[float], None]]:
        """Bring messages while the body blocks the thread.

        The body is given ``step(seconds)``. It handles what arrives, for at most that long, and returns early when it
        has handled a message. ``KeyboardInterrupt`` gets through it. Call it again and again: nothing arrives
        otherwise. In a thread other than the main one, the last sentence of `awaiting` holds here too.
        """
        waiter = self._waiter(None)
        with _interrupts_raise():
            try:
                self._messages.enter(waiter)
                self._messages.tell_if_run_again(waiter)
                yield lambda seconds: self._messages.step(waiter, seconds)
            finally:
                self._messages.leave(waiter)

    def _waiter(self, loop: asyncio.AbstractEventLoop | None) -> Waiter:
        return Waiter(self._comm_ids, self._messages.current_request(), loop, on_run_again=self._on_run_again)


def _kernel() -> Any | None:
    """Return the ipykernel that runs this code. Where nobody has imported one, there is none."""
    ipython, kernelbase = sys.modules.get("IPython"), sys.modules.get("ipykernel.kernelbase")
    if ipython is None or kernelbase is None:
        return None
    kernel = getattr(ipython.get_ipython(), "kernel", None)
    return kernel if isinstance(kernel, kernelbase.Kernel) else None


@contextlib.contextmanager
def _interrupts_raise() -> Iterator[None]:
    """Make an interrupt raise ``KeyboardInterrupt`` in a cell that has an ``await`` elsewhere.

    For such a cell ipykernel sets a signal handler that cancels it on its event loop, which is blocked here.
    """
    on_main = threading.current_thread() is threading.main_thread()
    before = signal.getsignal(signal.SIGINT) if on_main else None
    if not (str(getattr(before, "__module__", "")).startswith("ipykernel.") and _in_the_cells_own_task()):
        yield
        return
    signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)


def _in_the_cells_own_task() -> bool:
    """Return whether IPython itself runs this code. In another task a KeyboardInterrupt would end the kernel's loop."""
    try:
        task = asyncio.current_task()
    except RuntimeError:
        return False
    return task is not None and getattr(task.get_coro(), "__name__", "") == "run_cell_async"
