"""The state of a run: its conversation, what became of its calls, and why it stopped.

1. The history is only ever added to. Each change is one step: no other thread gets in between.
2. A call of the model is pending until it has a result. The results of a turn become one message when the last of them
   is there, in request order.
3. What is added to the conversation while calls are pending, or while the model is asked, comes after them.
4. A result that came when its turn had gone on without it is in the history, marked late; the model is told of it
   before it is asked next.
5. A finished state is never run again. A stop by a permission ends one run only.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Any

from agentperm_nb.calls import ToolCall
from agentperm_nb.errors import fix_message
from agentperm_nb.json_values import FrozenDict, canonical_json, freeze, thaw
from agentperm_nb.results import Image
from agentperm_nb.running.in_hand import TurnInHand
from agentperm_nb.running.keeping import EXAMPLE, Keeping, now
from agentperm_nb.running.messages import Message, TextBlock
from agentperm_nb.running.outcomes import CallResult

if TYPE_CHECKING:
    from agentperm_nb.running.history import History, StateSnapshot, Stopped

__all__ = ["State"]


class State(Keeping):
    """The state of one run; what permissions, tools and loops may look at.

    Args:
        messages: The conversation so far.
        id: Its id, which is the run's; made when left out.
        parent_id: Id of the run above, for a subagent.
        pending_calls: Calls that wait to be decided, for ``use_tools(state)``.
        extra_data: Values of your own, a JSON object; the model never sees them.

    Raises:
        TypeError: An argument has the wrong type.
    """

    def __init__(
        self,
        messages: Iterable[Message] = (),
        *,
        id: str | None = None,
        parent_id: str | None = None,
        pending_calls: Iterable[ToolCall] = (),
        extra_data: Mapping[str, Any] | None = None,
    ) -> None:
        _check_list("messages", messages, EXAMPLE)
        _check_list("pending_calls", pending_calls, "State(pending_calls=[ToolCall('read_file', {'path': 'a.txt'})])")
        super().__init__(id, parent_id, pending_calls)
        self._extra_data: Mapping[str, Any] = _checked_data(extra_data or {})
        for message in messages:
            if not isinstance(message, Message):
                raise TypeError(
                    fix_message(f"messages holds Message objects (got: {message!r})", "make one of it", EXAMPLE)
                )
            self._add(message)
        if self._waiting and all(isinstance(call, ToolCall) for call in self._waiting):
            self._add(Message.with_calls(self._waiting))

    # ------------------------------------------------------------------ what it is

    @property
    def history(self) -> History:
        """Everything that happened, oldest first; a view that grows."""
        from agentperm_nb.running.history import History

        return History(self._history)

    @property
    def results(self) -> tuple[CallResult, ...]:
        """The results in the history, in the order in which they came; of an interrupted call a late one too."""
        return tuple(entry for entry in self.history if isinstance(entry, CallResult))

    @property
    def messages(self) -> tuple[Message, ...]:
        """The conversation, as the model sees it next."""
        with self.lock:
            return self._conversation()

    @property
    def turn(self) -> int:
        """Number of the latest turn, from 1; 0 before the first."""
        return self._turn

    @property
    def stopped(self) -> Stopped | None:
        """Why the run stops, or None."""
        return self._stopped

    @property
    def finished(self) -> bool:
        """Whether `finish` was called: it is never run again."""
        return self._finished

    @property
    def answer(self) -> Any:
        """What `finish` was given; else the model's last words, when it has handed the turn back; else None."""
        with self.lock:
            if self._answer is not None or not self._messages:
                return self._answer
            last = self._messages[-1]
            if isinstance(last, TurnInHand) or last.role != "assistant" or last.tool_calls:
                return None
            return last.text

    @property
    def extra_data(self) -> Mapping[str, Any]:
        """Values of your own, which cannot be changed here; see `edit_extra_data`."""
        return self._extra_data

    def snapshot(self) -> StateSnapshot:
        """Return what the state is now."""
        from agentperm_nb.running.history import StateSnapshot

        with self.lock:
            return StateSnapshot(
                id=self.id,
                parent_id=self.parent_id,
                history=tuple(self._history),
                messages=self._conversation(),
                pending_calls=self.pending_calls,
                turn=self._turn,
                stopped=self._stopped,
                finished=self._finished,
                answer=self.answer,
                extra_data=self._extra_data,
            )

    def __reduce__(self) -> str | tuple[Any, ...]:
        """Refuse to be pickled or copied: a run goes on in one place; `snapshot` tells other places of it.

        Raises:
            TypeError: Always.
        """
        raise TypeError(
            fix_message(
                "a State cannot be pickled or copied: its run goes on in one place",
                "take a snapshot, which is a plain value; a new run may go on with its messages",
                "snapshot = state.snapshot()\nagain = State(snapshot.messages)",
            )
        )

    def __repr__(self) -> str:
        told = [f"turn {self._turn}", f"{len(self._messages)} messages"]
        pending = len(self.pending_calls)
        told += [f"{pending} pending"] if pending else []
        told += [str(self._stopped)] if self._stopped is not None else []
        return f"State({self.id!r}, {', '.join(told)})"

    # ------------------------------------------------------------------ changed by loops, tools and permissions

    def add_message(self, message: Message) -> None:
        """Add what the user, a loop or a tool says; it comes after what is pending.

        Args:
            message: ``Message.user(…)`` or ``Message.notice(…)``.

        Raises:
            TypeError: It is not a Message.
            ValueError: It is not of the user, or holds something else than texts and images, or nothing.
        """
        if not isinstance(message, Message):
            problem = f"add_message takes a Message (got: {type(message).__name__})"
            raise TypeError(fix_message(problem, "make one", "state.add_message(Message.user('Now mend it'))"))
        said = all(isinstance(block, TextBlock | Image) for block in message.content)
        if message.role != "user" or not said or not (message.text.strip() or len(message.content) > 1):
            problem = f"add_message takes a user's message with a text (got: {message!r})"
            raise ValueError(fix_message(problem, "make one", "state.add_message(Message.user('Now mend it'))"))
        with self.lock:
            if self._in_hand or self._waiting or self._thinking:
                self._held.append(message)
            else:
                self._add(message)

    def finish(self, answer: Any = None) -> None:
        """End the run for good; called again, the later answer counts.

        Args:
            answer: The run's answer; None keeps an earlier one.
        """
        from agentperm_nb.running.history import StoppedByFinish

        with self.lock:
            self._finished = True
            if answer is not None:
                self._answer = answer
            self.stop(StoppedByFinish(self._answer))

    @contextlib.contextmanager
    def edit_extra_data(self) -> Iterator[dict[str, Any]]:
        """Give a copy of `extra_data` to change inside the ``with`` block; it is kept when the block ends well.

        Raises:
            TypeError: At the end: a value is not JSON.
        """
        from agentperm_nb.running.history import ExtraDataEntry

        with self._editing:
            copy = thaw(self._extra_data)
            yield copy
            changed = _checked_data(copy)
            with self.lock:
                before, self._extra_data = self._extra_data, changed
                removed = tuple(key for key in before if key not in changed)
                new = {key: value for key, value in changed.items() if key not in before or before[key] != value}
                if new or removed:
                    self._history.append(ExtraDataEntry(freeze(new), removed, self._turn, now()))


def _check_list(argument: str, given: object, example: str) -> None:
    if isinstance(given, str | bytes | Mapping) or not isinstance(given, Iterable):
        raise TypeError(fix_message(f"{argument} takes a list (got: {given!r})", "give a list", example))


def _checked_data(data: object) -> Mapping[str, Any]:
    example = "with state.edit_extra_data() as data:\n    data['tries'] = 1"
    if not isinstance(data, Mapping):
        raise TypeError(fix_message(f"extra_data is a dict (got: {data!r})", "give a dict", example))
    for key, value in data.items():
        try:
            canonical_json({key: value})
        except (TypeError, ValueError, RecursionError) as error:
            raise TypeError(fix_message(f"extra_data[{key!r}] is not JSON: {error}", "keep JSON", example)) from None
    frozen = freeze(data)
    assert isinstance(frozen, FrozenDict)
    return frozen
