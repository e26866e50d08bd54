"""The desk: where requests wait for their answers.

1. It holds no widget and draws nothing: the panel in the cell, an inbox in another one and the prompt all draw it.
2. The first answer to a request counts. A later one changes nothing and is reported as late.
3. A request leaves by one of: answered, withdrawn (cancelled, interrupted, stopped), expired.
4. The desk keeps the time of a request with a limit: from when it was put here, or where requests are asked one after
   the other, from when its turn has come. When the time is over, the request expires; an answer that comes then is
   late, also where nobody has noticed yet that it is over. A request that has left is timed no more.
5. Every method may be called from any thread. Listeners are called on the thread that caused the change, outside of the
   lock; one that raises is reported in the Python log and disturbs nobody.
"""

from __future__ import annotations

import contextlib
import os
import threading
from collections import OrderedDict, deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from functools import partial
from typing import Literal

from agentperm_nb.approvals.alarms import Alarms, Due
from agentperm_nb.approvals.decisions import ApprovalDecision
from agentperm_nb.approvals.listeners import Listeners
from agentperm_nb.approvals.requests import ApprovalRequest
from agentperm_nb.errors import fix_message

__all__ = ["Answer", "Desk", "DeskChange", "the_desk"]

_REMEMBERED = 10_000  # closed requests kept to tell a late answer from one to a request that never was


@dataclass(frozen=True, slots=True)
class Answer:
    """A decision with who gave it, how and when.

    Raises:
        TypeError: `decision` is not an `ApprovalDecision`.
    """

    decision: ApprovalDecision
    answered_by: str = "human"
    """``human``, ``handler``, ``memory``, ``timeout`` or ``nobody``."""
    approver: str | None = None
    """Name of the person, where there is one."""
    approver_from: str | None = None
    """Where that name comes from, such as ``login`` or ``JUPYTERHUB_USER``."""
    via: str = ""
    """The view or function through which it came, such as ``panel``."""
    time: datetime = field(default_factory=lambda: datetime.now(UTC))
    given: bool = True
    """Whether whoever was asked said so; False where the decision stands in for an answer that there was not."""
    error: Exception | None = None
    """What whoever was asked raised instead of an answer."""

    @property
    def action(self) -> str | None:
        """What was chosen; None where nobody chose."""
        return self.decision.action if self.given and self.answered_by != "nobody" else None

    def __post_init__(self) -> None:
        if type(self.decision) is not ApprovalDecision:
            raise TypeError(
                fix_message(
                    f"an answer takes an ApprovalDecision (got: {type(self.decision).__name__})",
                    "make one",
                    "the_desk.answer(request.id, Answer(ApprovalDecision('deny', reason='too early')))",
                )
            )


@dataclass(frozen=True, slots=True)
class DeskChange:
    """What happened at the desk."""

    kind: Literal["opened", "shown", "reminded", "answered", "late", "withdrawn", "expired"]
    request_id: str
    answer: Answer | None = None
    """For ``answered`` and ``late``."""
    detail: str = ""
    """Where it was shown; why it was withdrawn or has expired; why an answer was refused; after how long it was
    reminded of."""


class Desk:
    """Requests that wait, and what became of those that no longer do."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._open: dict[str, ApprovalRequest] = {}
        self._limits: dict[str, Due] = {}
        self._timed: set[str] = set()
        self._alarms = Alarms()
        self._closed: OrderedDict[str, str] = OrderedDict()
        self._listeners: Listeners[Callable[[DeskChange], object]] = Listeners(self._lock)

    def __repr__(self) -> str:
        return f"Desk({len(self._open)} waiting)"

    def pending(self) -> tuple[ApprovalRequest, ...]:
        """Return the requests that wait, oldest first."""
        with self._lock:
            return tuple(self._open.values())

    def is_open(self, request_id: str) -> bool:
        """Return whether the request still waits."""
        with self._lock:
            return request_id in self._open

    def expired(self, request_id: str) -> bool:
        """Return whether the request has left because nobody answered in time."""
        with self._lock:
            return self._closed.get(request_id) == "expired"

    def open(self, requests: Iterable[ApprovalRequest]) -> None:
        """Put requests on the desk.

        Raises:
            ValueError: A request of this id is or was here already.
        """
        requests = list(requests)
        with self._lock:
            new: dict[str, ApprovalRequest] = {}
            for request in requests:
                if request.id in self._open or request.id in self._closed or request.id in new:
                    raise ValueError(f"a request {request.id} has been at the desk already")
                new[request.id] = request
            self._open.update(new)
        for request in requests:
            self._tell(DeskChange("opened", request.id))
        for request in requests:
            if request.patience is not None and not request.in_turn:
                self.begin_time(request.id)

    def begin_time(self, request_id: str) -> ApprovalRequest | None:
        """Note that the turn of a request has come: its time runs from now, unless it does already.

        Returns:
            The request, which knows when it expires; None when it no longer waits.
        """
        with self._lock:
            request = self._open.get(request_id)
            if request is None or request.patience is None or request_id in self._timed:
                return request
            patience = request.patience
            if request.in_turn:
                request = self._open[request_id] = replace(request, expires_at=patience.expires_at(datetime.now(UTC)))
            self._timed.add(request_id)
            # Inside the lock: once the request has left, its alarms are dropped, and none may be set after that.
            if patience.timeout is not None:
                at = request.expires_at  # what is shown is what holds
                left = patience.timeout if at is None else (at - datetime.now(UTC)).total_seconds()
                limit = self._limits[request_id] = Due.after(left)
                self._alarms.set(request_id, limit, partial(self._run_out, request_id))
            for seconds in patience.moments:
                self._alarms.set(request_id, Due.after(seconds), partial(self._remind, request, seconds))
            return request

    @contextlib.contextmanager
    def taking_turns(self, requests: Sequence[ApprovalRequest]) -> Iterator[None]:
        """Begin the time of each request when the one before it has left the desk; of the first at once.

        That is so inside the ``with`` block, also while whoever asks still waits for an answer that is late already.
        """
        ids = [request.id for request in requests if request.in_turn and request.patience is not None]
        still, moving = deque(ids), threading.Lock()

        def next_turn() -> None:
            with moving:
                while still and self.begin_time(still[0]) is None:
                    still.popleft()

        def listen(change: DeskChange) -> None:
            if change.kind in ("answered", "withdrawn", "expired") and change.request_id in known:
                next_turn()

        known = frozenset(ids)
        if not ids:
            yield
            return
        unsubscribe = self.subscribe(listen)
        try:
            next_turn()
            yield
        finally:
            unsubscribe()

    def shown(self, request_id: str, where: str) -> None:
        """Note that a person can see the request, and where (``panel``, ``prompt``)."""
        if self.is_open(request_id):
            self._tell(DeskChange("shown", request_id, detail=where))

    def answer(self, request_id: str, answer: Answer) -> bool:
        """Answer a request. Return False, and change nothing, when it no longer waits."""
        limit = self._limits.get(request_id)
        if limit is not None and limit.passed:
            self._run_out(request_id)
        if self._close(request_id, "answered"):
            self._tell(DeskChange("answered", request_id, answer))
            return True
        with self._lock:
            before = self._closed.get(request_id)
        if before is not None:
            self._tell(DeskChange("late", request_id, answer, detail=f"the request was {before} before"))
        return False

    def refuse(self, request_id: str, answer: Answer, why: str) -> None:
        """Note an answer that did not count although the request waits, such as a click within the guard time."""
        self._tell(DeskChange("late", request_id, answer, detail=why))

    def withdraw(self, request_id: str, why: str) -> bool:
        """Take a request back. Return False when it no longer waits."""
        return self._leave(request_id, "withdrawn", why)

    def expire(self, request_id: str, why: str) -> bool:
        """Note that nobody answered in time. Return False when the request no longer waits."""
        return self._leave(request_id, "expired", why)

    def subscribe(self, listener: Callable[[DeskChange], object]) -> Callable[[], None]:
        """Call `listener` at every change; return the function that ends it."""
        return self._listeners.add(listener)

    def _run_out(self, request_id: str) -> None:
        with self._lock:
            request = self._open.get(request_id)
        if request is not None and request.patience is not None:
            self.expire(request_id, f"nobody answered within {request.patience.timeout:g} s")

    def _remind(self, request: ApprovalRequest, seconds: float) -> None:
        limit = self._limits.get(request.id)
        if not self.is_open(request.id) or (limit is not None and limit.passed):
            return
        self._tell(DeskChange("reminded", request.id, detail=f"after {seconds:g} s"))
        if request.patience is not None and request.patience.on_reminder is not None:
            # Foreign code, which may take long: what is to expire meanwhile must not wait for it.
            work = partial(_call_on_reminder, request.patience.on_reminder, request)
            threading.Thread(target=work, name="agentperm-reminder", daemon=True).start()

    def _leave(self, request_id: str, kind: Literal["withdrawn", "expired"], why: str) -> bool:
        closed = self._close(request_id, kind)
        if closed:
            self._tell(DeskChange(kind, request_id, detail=why))
        return closed

    def _close(self, request_id: str, kind: str) -> bool:
        with self._lock:
            if self._open.pop(request_id, None) is None:
                return False
            self._closed[request_id] = kind
            if len(self._closed) > _REMEMBERED:
                self._closed.popitem(last=False)
            if request_id in self._timed:
                self._timed.remove(request_id)
                self._limits.pop(request_id, None)
                self._alarms.drop(request_id)
            return True

    def _tell(self, change: DeskChange) -> None:
        for listener in self._listeners.now():
            try:
                listener(change)
            except Exception:
                import logging

                logging.getLogger("agentperm_nb").exception("a listener of the desk raised at %s", change.kind)


def _call_on_reminder(on_reminder: Callable[[ApprovalRequest], object], request: ApprovalRequest) -> None:
    try:
        on_reminder(request)
    except Exception:
        import logging

        logging.getLogger("agentperm_nb").exception("on_reminder raised for %s", request.id)


the_desk: Desk = Desk()
"""The desk of this process."""

if hasattr(os, "register_at_fork"):  # a thread of the parent may have held the lock
    os.register_at_fork(after_in_child=lambda: setattr(the_desk, "_lock", threading.Lock()))
