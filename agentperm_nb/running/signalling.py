"""Signals of an agent: sending one, and the session in which a turn or run waits for them (`approvals.signals`)."""

from __future__ import annotations

import contextlib
import inspect
from collections.abc import Awaitable, Generator, Iterator
from typing import Any

from agentperm_nb.approvals.signals import Signals, can_signal, signals_here, the_signals
from agentperm_nb.context import RunContext, running_in
from agentperm_nb.errors import fix_message, warn_user
from agentperm_nb.running.engine import Engine

__all__ = ["Signalling"]

_EXAMPLE = "agent.signal(request.session, 'approval', True)\nagent.signal(request_id=request.id, payload=True)"


class Signalling:
    """Sends signals to handlers that wait in the agent's turns."""

    _engine: Engine
    _signals: Any = the_signals

    def signal(
        self,
        session_id: str | None = None,
        name: str = "approval",
        payload: Any = None,
        *,
        request_id: str | None = None,
    ) -> Awaitable[None]:
        """Send a value to a handler that waits with `wait_for_signal`; may be called from any thread.

        It is sent at once. What is returned may be awaited, and has to be only where ``Agent(signals=…)`` is an object
        whose own ``signal`` is async.

        Args:
            session_id: Id of the session; may be left out where `request_id` names a request that waits.
            name: Name of the signal.
            payload: The value: for a handler that returns it, what a handler may return.
            request_id: Id of the `ApprovalRequest` that it is addressed to; left out, it answers whatever waits longest
                under this name, or waits next.

        Raises:
            TypeError: Neither a session nor a request is named, or one of them or the name is no text.
        """
        if session_id is None and request_id is None:
            problem = "signal() was given neither a session nor a request"
            example = (
                "agent.signal(request.session, 'approval', True)\nagent.signal(request_id=request.id, payload=True)"
            )
            raise TypeError(fix_message(problem, "say whom it is for", example))
        signals = self._signals
        if not can_signal(signals):
            warn_user(f"this agent has no signals (signals={signals!r}), so that nothing was sent", UserWarning)
            return _Sent()
        if session_id is None:
            waiting = self._engine.desk.pending()
            session_id = next((request.session for request in waiting if request.id == request_id), None)
            if session_id is None:
                import logging

                logging.getLogger("agentperm_nb").warning("no request %s waits: the signal was dropped", request_id)
                return _Sent()
        addressed = {} if request_id is None else {"request_id": request_id}  # other objects may know no requests
        sent = signals.signal(session_id, name, payload, **addressed)
        return sent if inspect.isawaitable(sent) else _Sent()

    @contextlib.contextmanager
    def _in_run(self, context: RunContext) -> Iterator[None]:
        """Work in a run, with the agent's signals; an agent that was given none has those of the run above."""
        signals = signals_here.get() if self._signals is the_signals else self._signals
        token = signals_here.set(signals)
        opened = signals.opened(context.session_id) if isinstance(signals, Signals) else contextlib.nullcontext()
        try:
            with running_in(context), opened:
                yield
        finally:
            signals_here.reset(token)


class _Sent:
    """Something to await that is done already."""

    def __await__(self) -> Generator[Any, None, None]:
        return
        yield

    def __repr__(self) -> str:
        return "<sent>"
