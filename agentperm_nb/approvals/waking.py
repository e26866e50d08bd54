"""Waiting on an event loop, asyncio's or trio's, for what happens on other threads.

1. A `Bell` belongs to the event loop on which it was made, and may be rung from any thread. The loop is woken by its
   own token; none of its objects is touched from outside.
2. What blocks runs on a daemon thread of its own: nobody can stop it, but it keeps no program from ending.
"""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable
from contextvars import copy_context
from functools import cache
from typing import Any, TypeVar

__all__ = ["Bell", "on_thread"]

T = TypeVar("T")
_AT_ONCE = 256  # threads that an event loop waits for at the same time


class Bell:
    """Wakes whoever waits for it on the event loop on which it was made. Once rung, it stays rung."""

    def __init__(self) -> None:
        import anyio
        import anyio.lowlevel

        self._event = anyio.Event()
        token: Any = anyio.lowlevel.current_token().native_token
        self._schedule: Callable[[Callable[[], object]], object] = (
            token.call_soon_threadsafe if hasattr(token, "call_soon_threadsafe") else token.run_sync_soon
        )

    def ring(self) -> bool:
        """Wake whoever waits; may be called from any thread. Return False where the event loop has ended."""
        try:
            self._schedule(self._event.set)
        except RuntimeError:
            return False
        return True

    async def wait(self) -> None:
        """Wait until it is rung."""
        await self._event.wait()


async def on_thread(function: Callable[[], T], late: Callable[[T], object] | None = None) -> T:
    """Return what a function returns on a thread of its own; when cancelled, leave the thread alone.

    Args:
        function: It may block, for as long as it likes.
        late: Is given what it returns when nobody waits for it any more, on its thread.

    Raises:
        BaseException: Whatever it raised.
    """
    lock, ended, gone = threading.Lock(), list[tuple[T | None, BaseException | None]](), list[bool]()

    def tell_late() -> None:
        value, error = ended[0]
        if error is None and late is not None:
            late(value)  # type: ignore[arg-type]  # a value, where there is no error

    def work() -> None:
        try:
            outcome: tuple[T | None, BaseException | None] = (function(), None)
        except BaseException as error:  # noqa: BLE001 - raised again by whoever waits
            outcome = (None, error)
        with lock:
            ended.append(outcome)
            is_late = bool(gone)
        if is_late:
            tell_late()
        else:
            bell.ring()

    async with _limiter():
        bell = Bell()
        context = copy_context()
        sniffio = sys.modules.get("sniffio")
        if sniffio is not None:  # anyio notes there which loop runs; on the thread there is none yet
            context.run(sniffio.current_async_library_cvar.set, None)
        threading.Thread(target=context.run, args=(work,), name="agentperm-asked", daemon=True).start()
        try:
            await bell.wait()
        except BaseException:
            with lock:
                gone.append(True)
                is_late = bool(ended)
            if is_late:
                tell_late()
            raise
    value, error = ended[0]
    if error is not None:
        raise error
    return value  # type: ignore[return-value]  # as above


def _limiter() -> Any:
    import anyio

    variable = _limiter_of_loop()
    limiter = variable.get(None)
    if limiter is None:
        limiter = anyio.CapacityLimiter(_AT_ONCE)
        variable.set(limiter)
    return limiter


@cache
def _limiter_of_loop() -> Any:
    import anyio.lowlevel

    return anyio.lowlevel.RunVar[Any]("agentperm_nb_threads")
