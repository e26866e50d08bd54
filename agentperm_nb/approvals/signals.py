"""Signals: values for a handler that waits, from another thread, another cell or a server's request.

1. A signal has a session and a name. Of these the first that was sent wakes the one that has waited longest.
2. A signal that is addressed to a request wakes only whoever waits for that request, and who waits for one takes only
   what is addressed to it: two questions that wait at the same time cannot be given each other's answers. Any other
   signal goes to those that wait for no request, now or next: also one that was meant for a question that is over.
   That cannot be told from one that was sent ahead, which has to be kept.
3. Sending never waits. What is sent before anybody waits is kept, and dropped when the last turn or run of its session
   ends. Of sessions without a turn, 10,000 are kept, each for an hour after it was last sent something.
4. Any thread may send, and any event loop of asyncio or trio may wait. Whoever is cancelled, or whose event loop has
   ended, loses no signal: it goes to the next, or is kept, before what was sent after it.
5. A signal is a value and no answer: what a handler makes of it is held against the law like anything else.
"""

from __future__ import annotations

import contextlib
import math
import threading
import time
from collections import OrderedDict, deque
from collections.abc import Callable, Iterator
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import Any

from agentperm_nb.approvals.waking import Bell
from agentperm_nb.context import get_run_context
from agentperm_nb.errors import fix_message, warn_user

__all__ = ["Signals", "can_signal", "signals_here", "the_signals", "wait_for_signal"]

_SESSIONS = 10_000
_SECONDS = 3_600.0
_WAITING = """
async def handler(request):
    return await wait_for_signal("approval", request_id=request.id, timeout_s=600)

Agent(tools, approval_handler=handler)
"""


_Sent = tuple[int, Any]
"""Number of a signal, in the order of sending, and its payload."""


class _Waiter:
    __slots__ = ("bell", "ended", "given")

    def __init__(self, ended: int) -> None:
        self.bell = Bell()
        self.ended = ended
        """How often the session had ended before."""
        self.given: _Sent | None = None


_To = tuple[str, str | None]
"""Name of a signal, and the request that it is addressed to."""


@dataclass(slots=True)
class _Session:
    opened: int = 0
    """Turns and runs under way."""
    ended: int = 0
    """How often the last one of them has ended."""
    touched: float = 0.0
    kept: dict[_To, deque[_Sent]] = field(default_factory=dict)
    waiting: dict[_To, deque[_Waiter]] = field(default_factory=dict)
    parked: int = 0
    """Who waits, and who has been given a signal and has not taken it yet."""


class Signals:
    """The signals of one process.

    Args:
        sessions: How many sessions without a turn or run are kept; of more, the oldest is dropped.
        seconds: For how long.
        clock: Returns the time in seconds.
    """

    def __init__(
        self, *, sessions: int = _SESSIONS, seconds: float = _SECONDS, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._lock = threading.RLock()  # a coroutine that is thrown away may come in where the lock is held
        self._sessions: OrderedDict[str, _Session] = OrderedDict()
        """Those without a turn come in the order in which they were last sent something."""
        self._most, self._seconds, self._clock = sessions, seconds, clock
        self._sent = 0

    def __repr__(self) -> str:
        with self._lock:
            kept = sum(len(payloads) for session in self._sessions.values() for payloads in session.kept.values())
            waiting = sum(len(waiters) for session in self._sessions.values() for waiters in session.waiting.values())
        return f"Signals({waiting} waiting, {kept} kept)"

    def signal(self, session_id: str, name: str, payload: Any = None, *, request_id: str | None = None) -> None:
        """Send a signal; may be called from any thread.

        Args:
            session_id: Id of the session.
            name: Name of the signal, such as ``"approval"``.
            payload: Any value: for a handler that returns it, what a handler may return.
            request_id: Id of the `ApprovalRequest` that it is addressed to; left out, it is for whoever waits for none.

        Raises:
            TypeError: An id or the name is no text.
        """
        to = _checked(session_id, name, request_id)
        with self._lock:
            session = self._session(session_id)
            session.touched = self._clock()
            self._sessions.move_to_end(session_id)
            self._sent += 1
            self._deliver(session, to, (self._sent, payload))
            self._forget_old()

    async def wait_for_signal(
        self, session_id: str, name: str, *, timeout_s: float | None = None, request_id: str | None = None
    ) -> Any:
        """Return the payload of the first signal that was sent, or wait for one.

        Args:
            session_id: Id of the session.
            name: Name of the signal.
            timeout_s: Seconds to wait at most; None for as long as it takes.
            request_id: Id of the `ApprovalRequest` that the signal has to be addressed to.

        Raises:
            TypeError: An id or the name is no text, or `timeout_s` no number.
            ValueError: `timeout_s` is below 0.
            TimeoutError: There was none in that time.
        """
        to, seconds = _checked(session_id, name, request_id), _checked_seconds(timeout_s)
        import anyio
        import anyio.lowlevel

        await anyio.lowlevel.checkpoint_if_cancelled()
        with self._lock:
            session = self._session(session_id)
            kept = session.kept.get(to)
            if kept:
                _, payload = kept.popleft()
                self._tidy(session_id)
                return payload
            waiter = _Waiter(session.ended)
            session.waiting.setdefault(to, deque()).append(waiter)
            session.parked += 1
        try:
            with anyio.move_on_after(seconds):
                await waiter.bell.wait()
        except BaseException:
            self._leave(session_id, session, to, waiter, takes=False)
            raise
        given = self._leave(session_id, session, to, waiter, takes=True)
        if given is not None:
            return given[1]
        told = f" for {request_id}" if request_id is not None else ""
        raise TimeoutError(f"no signal {name!r}{told} came within {timeout_s:g} s")

    def poll_signal(self, session_id: str, name: str, *, request_id: str | None = None, default: Any = None) -> Any:
        """Return the payload of the first signal that was sent, or `default` where there is none.

        Raises:
            TypeError: An id or the name is no text.
        """
        to = _checked(session_id, name, request_id)
        with self._lock:
            session = self._sessions.get(session_id)
            kept = session.kept.get(to) if session is not None and not self._is_old(session) else None
            if not kept:
                return default
            _, payload = kept.popleft()
            self._tidy(session_id)
            return payload

    @contextlib.contextmanager
    def opened(self, session_id: str) -> Iterator[None]:
        """Count a turn or run of a session; when the last one ends, what nobody has taken is dropped."""
        with self._lock:
            session = self._session(session_id)
            session.opened += 1
        try:
            yield
        finally:
            with self._lock:
                session.opened -= 1
                if session.opened == 0:
                    session.ended += 1
                    session.kept.clear()
                    self._tidy(session_id)

    # ------------------------------------------------------------------ inside the lock

    def _session(self, session_id: str) -> _Session:
        session = self._sessions.get(session_id)
        if session is None:
            session = self._sessions[session_id] = _Session(touched=self._clock())
        elif self._is_old(session):
            session.kept.clear()
        return session

    def _deliver(self, session: _Session, to: _To, sent: _Sent) -> None:
        waiters = session.waiting.get(to)
        while waiters:
            waiter = waiters.popleft()
            waiter.given = sent
            if waiter.bell.ring():
                return
            waiter.given = None  # its event loop has ended
        kept = session.kept.setdefault(to, deque())
        if not kept or kept[-1][0] < sent[0]:
            kept.append(sent)
        else:  # it has come back from somebody who did not take it
            kept.insert(next(place for place, other in enumerate(kept) if other[0] > sent[0]), sent)

    def _leave(self, session_id: str, session: _Session, to: _To, waiter: _Waiter, *, takes: bool) -> _Sent | None:
        """Wait no more; return what was given. What is not taken goes back, unless its session has ended meanwhile."""
        with self._lock:
            session.parked -= 1
            with contextlib.suppress(KeyError, ValueError):  # it has been woken
                session.waiting[to].remove(waiter)
            if waiter.given is not None and not takes and waiter.ended == session.ended:
                self._deliver(session, to, waiter.given)
            self._tidy(session_id)
            return waiter.given

    def _is_old(self, session: _Session) -> bool:
        return session.opened == 0 and self._clock() - session.touched > self._seconds

    def _tidy(self, session_id: str) -> None:
        """Forget a session in which nothing is kept, and nobody waits."""
        session = self._sessions.get(session_id)
        if session is None:
            return
        for each in (session.kept, session.waiting):
            for to, queue in list(each.items()):
                if not queue:
                    each.pop(to, None)
        if session.opened == 0 and session.parked == 0 and not session.kept:
            self._sessions.pop(session_id, None)

    def _forget_old(self) -> None:
        oldest = next(iter(self._sessions.values()), None)
        if oldest is None or (len(self._sessions) <= self._most and not self._is_old(oldest)):
            return
        for session_id, session in list(self._sessions.items()):
            if len(self._sessions) <= self._most and not self._is_old(session):
                return
            if session.opened == 0:
                session.kept.clear()
                self._tidy(session_id)


the_signals: Signals = Signals()
"""The signals of this process."""

signals_here: ContextVar[Any] = ContextVar("agentperm_nb_signals", default=the_signals)
"""The signals that the calling code waits for: those of the agent whose run it works for."""


def can_signal(signals: object) -> bool:
    """Return whether something is an object with ``signal`` and ``wait_for_signal``."""
    return not isinstance(signals, type) and all(
        callable(getattr(signals, method, None)) for method in ("signal", "wait_for_signal")
    )


async def wait_for_signal(
    name: str = "approval", *, timeout_s: float | None = None, request_id: str | None = None
) -> Any:
    """Wait, in a handler, a tool or a permission, for a signal to the session of the run; return its payload.

    `Agent.signal` sends one. One that is not addressed to a request goes to whoever waits longest, or is kept for who
    waits next: an answer that comes too late answers another question. So name the request, here and there.

    Args:
        name: Name of the signal.
        timeout_s: Seconds to wait at most; None for as long as it takes.
        request_id: Id of the `ApprovalRequest` that the signal has to be addressed to.

    Returns:
        The payload; None, with a warning, where the agent has no signals (``Agent(signals=None)``).

    Raises:
        RuntimeError: It was called outside of a run.
        TimeoutError: There was none in that time.
        TypeError: An argument has the wrong type.
        ValueError: `timeout_s` is below 0.
    """
    context = get_run_context()
    if context is None:
        problem = "wait_for_signal() was called outside of a run, so that there is no session"
        fix = "call it in a handler, a tool or a permission of an agent, or name the session"
        raise RuntimeError(
            fix_message(problem, fix, f"{_WAITING}\nawait the_signals.wait_for_signal(session_id, 'approval')")
        )
    signals = signals_here.get()
    if not can_signal(signals):
        warn_user(f"this agent has no signals (signals={signals!r}), so that nothing can be waited for", UserWarning)
        return None
    addressed = {} if request_id is None else {"request_id": request_id}  # other objects may know no requests
    return await signals.wait_for_signal(context.session_id, name, timeout_s=timeout_s, **addressed)


def _checked(session_id: object, name: object, request_id: object) -> _To:
    for what, value in (("session_id", session_id), ("name", name)):
        if not isinstance(value, str):
            raise TypeError(
                fix_message(
                    f"{what} of a signal is a text (got: {value!r})",
                    "give session and name",
                    "agent.signal(request.session, 'approval', True)",
                )
            )
    if request_id is not None and not isinstance(request_id, str):
        raise TypeError(
            fix_message(
                f"request_id= takes the id of a request (got: {request_id!r})",
                "give its id",
                "agent.signal(request.session, 'approval', True, request_id=request.id)",
            )
        )
    assert isinstance(name, str)
    return name, request_id


def _checked_seconds(seconds: object) -> float:
    if seconds is None:
        return math.inf
    if isinstance(seconds, bool) or not isinstance(seconds, int | float):
        raise TypeError(fix_message(f"timeout_s= takes seconds (got: {seconds!r})", "give a number, or None", _WAITING))
    if not seconds >= 0:  # not-a-number, too
        raise ValueError(fix_message(f"timeout_s= is below 0 (got: {seconds!r})", "give seconds", _WAITING))
    return seconds
