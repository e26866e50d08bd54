"""The text prompt: the same choices as the panel, for terminals and for pages that cannot show the panel.

1. Every call is printed with all of its arguments before the first question.
2. No answer is a default: an empty line asks again, and so does anything that is not one of the choices.
3. The end of the input denies what has not been answered.
4. What is printed went through `render.visible`: no escape sequence and no carriage return of a model reaches the
   terminal, and lines of a value are marked so that they cannot pass for ours.
5. One who reads is asked one thing at a time: all calls of a turn, or a question, and then the next. What nobody waits
   for any more holds up nothing.
6. Nothing is remembered by one answer: ``r`` lists which later calls an approval could be for, with what else of this
   run each would have covered, and only a number chooses.
7. The time of a call begins when its question is put, or when the one before it has expired. Nobody can take back what
   stands on a terminal: the line that is typed to a question that is over is no answer to anything, and that is said.
"""

from __future__ import annotations

import contextlib
import json
import threading
from collections.abc import AsyncIterator, Callable, Generator, Iterable, Iterator, Sequence
from dataclasses import replace
from typing import Any

from agentperm_nb.approvals.decisions import ApprovalDecision
from agentperm_nb.approvals.desk import Answer, the_desk
from agentperm_nb.approvals.editing import decision_of, edit_text
from agentperm_nb.approvals.facts import agent_text, badges, clock, ordered_args, ran_before_text, rule_text, tool_text
from agentperm_nb.approvals.patience import Patience
from agentperm_nb.approvals.requests import ApprovalRequest, EditError
from agentperm_nb.approvals.waking import on_thread
from agentperm_nb.human import Human, check_returns, describe_choices, parse_answer
from agentperm_nb.render import visible

__all__ = ["TextApprover"]


def _read_line(question: str) -> str:
    return input(question)  # looked up at each call: a kernel puts its own in place only while a cell runs


_END = "the input ended before an answer was given"


class _AnsweredElsewhereError(Exception):
    """The request left the desk while its question stood on the screen."""


class _OneAtATime:
    """Lets one after the other ask the same person."""

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._asking: Callable[[], bool] | None = None
        """Of whoever asks now: whether somebody still waits for the answer."""

    @contextlib.contextmanager
    def asking(self, is_awaited: Callable[[], bool]) -> Iterator[None]:
        """Wait until nobody else asks; let nobody else ask inside the ``with`` block, as long as an answer is awaited.

        Raises:
            _AnsweredElsewhereError: Nobody waits for the answer any more.
        """
        with self._changed:
            while self._asking is not None and self._asking():
                self._changed.wait(_TICK)
                if not is_awaited():
                    raise _AnsweredElsewhereError
            self._asking = is_awaited
        try:
            yield
        finally:
            with self._changed:
                if self._asking is is_awaited:
                    self._asking = None
                    self._changed.notify_all()


_TICK = 0.1  # seconds until whoever waits for their turn looks again
_input = _OneAtATime()  # whoever reads with `input` reads from the same person


class TextApprover(Human):
    """A person who reads and types text.

    Args:
        read: Called with a question, `input` when left out; returns the line that was typed, and raises ``EOFError`` at
            the end of the input.
        write: Called with a text to show.
        timeout: Seconds after which a request is denied, from when its question is put; see `Patience`.
        reminders: Seconds after which to remind of it.
        on_reminder: Called with the request then.

    Raises:
        TypeError: See `Patience`.
        ValueError: See `Patience`.
    """

    patience: Patience

    batch = True
    in_turn = True
    answered_by = "human"

    def __init__(
        self,
        read: Callable[[str], str] = _read_line,
        write: Callable[[str], object] = print,
        *,
        timeout: float | None = None,
        reminders: Iterable[float] | float = (),
        on_reminder: Callable[[ApprovalRequest], object] | None = None,
    ) -> None:
        self._read = read
        self._write = write
        self.patience = Patience(timeout, reminders, on_reminder)
        self._one_at_a_time = _input if read is _read_line else _OneAtATime()

    def __repr__(self) -> str:
        return f"TextApprover({self.patience.shown()})"

    async def areview(self, requests: Sequence[ApprovalRequest]) -> AsyncIterator[tuple[str, ApprovalDecision]]:
        """Ask about each request on a worker thread, one after the other; see `Approver`."""
        answers = self.review(requests)
        try:
            while True:
                answer = await on_thread(lambda: next(answers, None))
                if answer is None:
                    return
                yield answer
        finally:
            try:
                answers.close()
            except ValueError:  # a thread still reads for it: the requests have left the desk
                if any(the_desk.expired(request.id) for request in requests):
                    with contextlib.suppress(Exception):
                        self._write(
                            "\nNobody answered in time: this is asked no more. Press Enter to end the question."
                        )

    def review(self, requests: Sequence[ApprovalRequest]) -> Generator[tuple[str, ApprovalDecision]]:
        """Ask about each request on the calling thread; yield (request id, decision) as they are given.

        A request that was answered elsewhere in the meantime is passed over, also when that happened while its question
        stood on the screen. Nothing is asked after a stop.
        """
        at_desk = {request.id for request in requests if the_desk.is_open(request.id)}

        def is_awaited() -> bool:
            return len(at_desk) < len(requests) or any(map(the_desk.is_open, at_desk))

        return self._review(requests, at_desk, is_awaited)

    def _review(
        self, requests: Sequence[ApprovalRequest], at_desk: set[str], is_awaited: Callable[[], bool]
    ) -> Generator[tuple[str, ApprovalDecision]]:
        with (
            contextlib.suppress(_AnsweredElsewhereError),
            self._one_at_a_time.asking(is_awaited),
            the_desk.taking_turns(requests),
        ):
            yield from self._answers(requests, at_desk)

    def _answers(
        self, requests: Sequence[ApprovalRequest], at_desk: set[str]
    ) -> Generator[tuple[str, ApprovalDecision]]:
        def is_gone(request: ApprovalRequest) -> bool:
            return request.id in at_desk and not the_desk.is_open(request.id)

        for place, request in enumerate(requests, 1):
            if not is_gone(request):
                self._show(request, f"{place} of {len(requests)}: " if len(requests) > 1 else "")
                the_desk.shown(request.id, "prompt")
        everything = ended = False
        for place, request in enumerate(requests, 1):
            if is_gone(request):
                continue
            if everything:
                yield request.id, ApprovalDecision("allow")
                continue
            try:
                if ended:
                    raise EOFError
                left = len(requests) - place + 1
                decision = self._answer(request, place, left, at_desk=request.id in at_desk)
            except _AnsweredElsewhereError:
                continue
            except EOFError:
                ended, decision = True, ApprovalDecision("deny", reason=_END)
                if request.id in at_desk:  # nobody said it: the desk is told so
                    the_desk.answer(request.id, Answer(decision, answered_by="nobody", via="prompt"))
                    continue
            if decision is None:
                everything, decision = True, ApprovalDecision("allow")
            yield request.id, decision
            if decision.stop:
                return

    def ask(self, state: Any, prompt: str, returns: Any = str) -> Any:
        """Put a plain question until the answer fits; see `Human`.

        Raises:
            EOFError: The input ended.
        """
        return self._ask(prompt, returns, lambda: True)

    async def aask(self, state: Any, prompt: str, returns: Any = str) -> Any:
        """Put a plain question on a worker thread; see `ask`."""
        import anyio.to_thread

        over = threading.Event()
        try:
            return await anyio.to_thread.run_sync(
                self._ask, prompt, returns, lambda: not over.is_set(), abandon_on_cancel=True
            )
        finally:
            over.set()

    def _ask(self, prompt: str, returns: Any, is_awaited: Callable[[], bool]) -> Any:
        check_returns(returns)
        choices = describe_choices(returns)
        question = f"{visible(prompt)} ({visible(choices)}) " if choices else f"{visible(prompt)} "
        with self._one_at_a_time.asking(is_awaited):
            while True:
                line = self._read(question)
                if not is_awaited():
                    raise _AnsweredElsewhereError
                try:
                    return parse_answer(line, returns)
                except ValueError as error:
                    self._write(visible(str(error)))

    def _show(self, request: ApprovalRequest, place: str) -> None:
        lines = [f"{place}{_line(request.question)}", f"  tool   {_line(tool_text(request))}"]
        if request.agent_path:
            lines.append(f"  agent  {_line(agent_text(request))}")
        lines.append(f"  rule   {_line(rule_text(request))}")
        lines.append(f"  note   {', '.join(_line(badge.text) for badge in badges(request))}")
        before = ran_before_text(request)
        if before:
            lines.append(f"  note   {before}")
        for name, value in ordered_args(request):
            lines += _argument(name, value)
        if not request.shown_args:
            lines.append("  no arguments")
        self._write("\n".join(lines))

    def _answer(self, request: ApprovalRequest, place: int, left: int, *, at_desk: bool) -> ApprovalDecision | None:
        """Return the decision, or None for "all that are left"."""

        def read(question: str) -> str:
            line = self._read(question)
            if at_desk and not the_desk.is_open(request.id):
                if the_desk.expired(request.id):
                    self._write(f"That came too late: {_line(request.call.name)} was denied, nobody answered in time.")
                raise _AnsweredElsewhereError
            return line.strip()

        every = f", approve [all] {left} shown" if left > 1 else ""
        which = f"{place}. {_line(request.call.name)}: " if left > 1 or place > 1 else ""
        now = the_desk.begin_time(request.id) or request
        if now.expires_at is not None:
            self._write(f"{which}expires {clock(now.expires_at, seconds=True)}")
        question = f"{which}[a]pprove, [d]eny, deny and [s]top, [e]dit, [r]emember{every}? "
        while True:
            word = read(question).lower()
            if word in ("a", "approve"):
                return ApprovalDecision("allow")
            if word in ("d", "deny", "s", "stop"):
                reason = read("Reason, which the model reads (may be empty): ")
                return ApprovalDecision("deny", reason=reason or None, stop=word in ("s", "stop"))
            if word == "all" and every:
                return None
            if word in ("e", "edit", "r", "remember"):
                ask_more = self._edit if word in ("e", "edit") else self._remember
                decision = ask_more(request, read)
                if decision is not None:
                    return decision
                continue
            self._write("Type one of the letters in brackets." if word else "Nothing is chosen by an empty line.")

    def _edit(self, request: ApprovalRequest, read: Callable[[str], str]) -> ApprovalDecision | None:
        """Return an edit, or None when it was given up."""
        self._write(f"The arguments as JSON:\n  {edit_text(request, indent=None)}")
        while True:
            text = read("New arguments as JSON, all of them on one line (empty: back): ")
            if not text:
                return None
            try:
                return decision_of(request, text)
            except EditError as error:
                for name, problem in error.problems:
                    self._write(_line(f"  {name}: {problem}" if name else f"  {problem}"))

    def _remember(self, request: ApprovalRequest, read: Callable[[str], str]) -> ApprovalDecision | None:
        """Return an approval that is remembered, or None when it was given up, or there is none to offer."""
        from agentperm_nb.approvals.scopes import suggest_scopes, why_not_offered

        offered = suggest_scopes(request)
        lines = ["Approve, and ask no more in this run about" if offered else "There is nothing to remember here."]
        for number, (scope, words) in enumerate(offered, 1):
            lines.append(f"  {number}  {_line(words)}")
            if scope.rule is not None:
                lines.append(f"     rule: allow {_line(str(scope.rule))}")
            if request.would_cover is not None:
                lines.append(f"     it would have covered {_line(request.would_cover(scope).counts)}")
        lines += [f"  not offered: {_line(what)} ({_line(why)})" for what, why in why_not_offered(request)]
        self._write("\n".join(lines))
        while offered:
            text = read("Number; with an s behind it, as in 1s, for the whole session (empty: back): ")
            if not text:
                return None
            typed, session = text.removesuffix("s"), text.endswith("s")
            if typed in map(str, range(1, len(offered) + 1)):
                scope = offered[int(typed) - 1].scope
                return ApprovalDecision("remember_allow", scope=replace(scope, lasts="session" if session else "run"))
            self._write("Type one of the numbers.")
        return None


def _line(text: str) -> str:
    return visible(text).replace("\n", "⏎")


def _argument(name: str, value: Any) -> list[str]:
    text = value if isinstance(value, str) else json.dumps(value, indent=2, ensure_ascii=False, default=repr)
    shown = visible(text)
    if "\n" not in shown:
        return [f"  {_line(name)} = {shown if shown else '(empty)'}"]
    lines = shown.split("\n")
    return [f"  {_line(name)} = ({len(lines)} lines)", *(f"  | {line}" for line in lines)]
