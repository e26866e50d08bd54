"""What an agent notes in the state of a run. `State` is what permissions, tools and loops see of it.

1. Each change is one step: no other thread gets in between.
2. A call is taken for a turn once. Its result is noted once; the message of a turn's results follows the last of them.
3. What is held back while calls are pending, or while the model is asked, follows when they are not.
"""

from __future__ import annotations

import threading
from collections.abc import Iterable, Sequence
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from agentperm_nb.calls import ToolCall
from agentperm_nb.context import new_id
from agentperm_nb.errors import fix_message
from agentperm_nb.json_values import canonical_json
from agentperm_nb.running.in_hand import TurnInHand
from agentperm_nb.running.messages import Message
from agentperm_nb.running.outcomes import CallResult

if TYPE_CHECKING:
    from agentperm_nb.running.history import HistoryEntry, Stopped

__all__ = ["EXAMPLE", "Keeping", "now"]

EXAMPLE = "state = State([Message.user('Tidy notes.txt')])\nanswer = agent.run(state)"
"""Code that runs a state."""


class Keeping:
    """The fields of a state, and what an agent does with them.

    Args:
        id: Id of the run; made when left out.
        parent_id: Id of the run above, for a subagent.
        pending_calls: Calls that wait to be decided.
    """

    def __init__(self, id: str | None, parent_id: str | None, pending_calls: Iterable[ToolCall]) -> None:
        self.id: str = id if id is not None else new_id("run")
        self.parent_id = parent_id
        self.lock: threading.RLock = threading.RLock()
        """Held while something is recorded."""
        self._editing = threading.Lock()
        self._history: list[HistoryEntry] = []
        self._messages: list[Message | TurnInHand] = []
        self._in_hand: list[TurnInHand] = []
        self._waiting: list[ToolCall] = list(pending_calls)
        self._held: list[Message] = []
        self._notices: list[Message] = []
        self._thinking = self._running = False
        self._turn = 0
        self._stopped: Stopped | None = None
        self._finished = False
        self._answer: Any = None
        self.human: Any = None
        """Who is asked by a permission that asks by itself; set by the agent."""
        self.linked: bool = False
        """Whether an agent has worked with this state."""

    @property
    def pending_calls(self) -> tuple[ToolCall, ...]:
        """Calls that have no result yet, in request order."""
        with self.lock:
            in_hand = (
                call
                for turn in self._in_hand
                for call, result in zip(turn.calls, turn.results, strict=True)
                if result is None
            )
            return (*in_hand, *self._waiting)

    def link(self, human: Any) -> None:
        """Note that an agent works with this state, and who is asked in its runs."""
        self.human, self.linked = human, True

    def waiting(self) -> list[ToolCall]:
        """Return the pending calls that no turn has in hand."""
        return list(self._waiting)

    def take(self) -> TurnInHand:
        """Take the pending calls that no turn has in hand, for a turn that begins: a call is decided once."""
        with self.lock:
            taken = TurnInHand(self._turn, tuple(self._waiting), None)
            self._waiting = []
            if taken.calls:
                self._in_hand.append(taken)
            return taken

    def give_back(self, taken: TurnInHand) -> None:
        """Put back what `take` took: the turn could not begin."""
        with self.lock:
            if taken in self._in_hand:
                self._in_hand.remove(taken)
                self._waiting[:0] = taken.calls

    def begin(
        self,
        number: int,
        calls: Sequence[ToolCall],
        message: Message | None = None,
        taken: TurnInHand | None = None,
    ) -> TurnInHand:
        """Note the calls of a turn that begins.

        Args:
            number: Number of the turn.
            calls: Its calls.
            message: The model's message that holds them, where it is not in the conversation yet.
            taken: What `take` returned, for a turn with pending calls of this state.
        """
        from agentperm_nb.running.history import StoppedByBudget, StoppedByPermission

        turn = TurnInHand(number, calls, message)
        if taken is not None and not calls:
            return turn  # nothing was pending: nothing changes
        with self.lock:
            self._turn = number
            lasting = self._running and isinstance(self._stopped, StoppedByPermission | StoppedByBudget)
            if not self._finished and not lasting:
                self._stopped = None  # of an earlier turn; a run stays stopped to its end
            if taken is not None:
                self._in_hand.remove(taken)
            self._in_hand.append(turn)
            if not calls:
                self._complete(turn)
        return turn

    def settle(self, turn: TurnInHand, position: int, result: CallResult, *, stop: Stopped | None = None) -> None:
        """Note the result of a call of a turn in hand.

        Args:
            turn: The turn.
            position: Place of the call in the turn.
            result: Its result.
            stop: Why the run stops, with the last of the results that the stop closes.
        """
        with self.lock:
            self._history.append(result)
            turn.results[position] = result
            turn.left -= 1
            if stop is not None:  # before what has waited for the results
                self.stop(stop)
            if turn.left == 0:
                self._complete(turn)

    def add_late(self, result: CallResult, notice: str) -> None:
        """Note the result of a call whose turn has gone on without it, and what the model is told of it."""
        with self.lock:
            self._history.append(result)
            self._notices.append(Message.notice(notice))

    def stop(self, why: Stopped) -> None:
        """Note why the run stops. A finished state stays finished."""
        from agentperm_nb.running.history import StopEntry, StoppedByFinish

        with self.lock:
            if self._finished and not isinstance(why, StoppedByFinish):
                return
            self._stopped = why
            self._history.append(StopEntry(why, self._turn, now()))

    def start_run(self, agent: str) -> None:
        """Note that ``run`` begins; a stop of an earlier run is over.

        Raises:
            ValueError: The state is being run already.
        """
        from agentperm_nb.running.history import RunStartEntry

        with self.lock:
            if self._running:
                problem = "this State is being run already"
                raise ValueError(fix_message(problem, "wait for the end of that run", EXAMPLE))
            self._running = True
            self._stopped = None
            self._history.append(RunStartEntry(agent, self.parent_id, self._turn, now()))

    def end_run(self, *, failed: bool) -> None:
        """Note that ``run`` has ended; a stop does not outlive an exception."""
        with self.lock:
            self._running = False
            if failed:
                self.unstop()

    def unstop(self) -> None:
        """Forget a stop, but for that of a finished state."""
        with self.lock:
            if not self._finished:
                self._stopped = None

    def record_error(self, error: BaseException, call: ToolCall | None = None) -> None:
        """Note an exception, once a run."""
        from agentperm_nb.running.history import ErrorEntry, RunStartEntry

        with self.lock:
            for entry in reversed(self._history):
                if isinstance(entry, ErrorEntry) and entry.error is error:
                    return
                if isinstance(entry, RunStartEntry):
                    break
            told = f"{type(error).__name__}: {error}" if _sayable(error) else type(error).__name__
            self._history.append(ErrorEntry(told, error, call, self._turn, now()))

    def record_exchange(self, question: str, answer: Any, *, call: ToolCall | None = None, call_key: str = "") -> None:
        """Note a question to a person and the answer.

        Args:
            question: The question.
            answer: The answer; of what is not JSON, the ``repr`` is kept.
            call: The call that was asked about, where its key is not known.
            call_key: Our key of the call.
        """
        from agentperm_nb.running.history import Exchange, ExchangeEntry

        try:
            canonical_json(answer)
        except (TypeError, ValueError, RecursionError):
            answer = repr(answer)
        with self.lock:
            if call is not None and not call_key:
                call_key = self._key_of(call)
            self._history.append(ExchangeEntry(Exchange(question, answer), call_key, self._turn, now()))

    def begin_thinking(self) -> tuple[Message, ...]:
        """Note that the model is asked, and return the conversation.

        Raises:
            ValueError: The state is finished, has no messages or pending calls, or waits for a model already.
        """
        with self.lock:
            problem, fix = "", ""
            if self._finished:
                problem, fix = "cannot call think() on a finished State", "start a new one"
            elif self._thinking:
                problem, fix = "this State waits for a model already", "await the first think()"
            elif self.pending_calls:
                problem, fix = "this State has calls without a result", "call use_tools(state) first"
            elif not (self._messages or self._notices or self._held):
                problem, fix = "this State has no messages", "give it what the user wants"
            if problem:
                raise ValueError(fix_message(problem, fix, EXAMPLE))
            self._thinking = True
            self._turn += 1
            self._flush()
            return self._conversation()

    def end_thinking(self, reply: Message) -> None:
        """Note the model's reply."""
        with self.lock:
            self._thinking = False
            self._add(reply)
            self._waiting = list(reply.tool_calls)
            if not self._waiting:
                self._flush()

    def fail_thinking(self, error: BaseException) -> None:
        """Note that the model could not be asked: the turn does not count."""
        with self.lock:
            self._thinking = False
            self._turn -= 1
            self.record_error(error)
            self._flush()

    # ------------------------------------------------------------------ how

    def _conversation(self) -> tuple[Message, ...]:
        return tuple(item.block() if isinstance(item, TurnInHand) else item for item in self._messages)

    def _add(self, message: Message) -> None:
        from agentperm_nb.running.history import MessageEntry

        self._messages.append(message)
        self._history.append(MessageEntry(message, self._turn, now()))

    def _complete(self, turn: TurnInHand) -> None:
        self._in_hand.remove(turn)
        if turn.message is not None:
            self._add(turn.message)
        if turn.calls:
            self._messages.append(turn)  # the history has the results one by one
        if not self._in_hand and not self._waiting and not self._thinking:
            self._flush()

    def _flush(self) -> None:
        for message in (*self._notices, *self._held):
            self._add(message)
        self._notices.clear()
        self._held.clear()

    def _key_of(self, call: ToolCall) -> str:
        for turn in self._in_hand:
            for position, other in enumerate(turn.calls):
                if other is call:
                    return f"{self.id}/{turn.number}/{position}"
        return ""


def now() -> datetime:
    """Return the time, in UTC."""
    return datetime.now(UTC)


def _sayable(error: BaseException) -> bool:
    try:
        return bool(str(error))
    except Exception:  # noqa: BLE001 - a foreign __str__ may do anything
        return False
