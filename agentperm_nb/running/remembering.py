"""What an agent remembers of the answers that it was given: to look at, and to take back."""

from __future__ import annotations

from agentperm_nb.approvals.memory import Remembered, RememberedAnswers
from agentperm_nb.context import who
from agentperm_nb.errors import fix_message
from agentperm_nb.running.recalling import answer_of
from agentperm_nb.running.recording import Recorder
from agentperm_nb.running.state import State
from agentperm_nb.running.turn_taking import TurnTaking

__all__ = ["Remembering"]


class Remembering(TurnTaking):
    """Shows remembered answers, and takes them back."""

    def remembered(self) -> RememberedAnswers:
        """Return the answers that hold for later calls of this agent, oldest first: a table, indexed by number."""
        return self._engine.memory.answers()

    def revoke(self, number: int | None = None, *, all: bool = False) -> RememberedAnswers:
        """Take back a remembered answer, or all of them; from now on somebody is asked again.

        A call that such an answer has allowed and that has not started yet does not start.

        Args:
            number: Its number in `remembered`.
            all: Take back every one.

        Returns:
            What is still remembered.

        Raises:
            TypeError: Neither or both were given.
            ValueError: There is no answer of this number.
        """
        if not isinstance(all, bool) or (number is None) is not all:
            given = "both a number and all=True" if all else "neither a number nor all=True"
            raise TypeError(fix_message(f"revoke got {given}", "give one of them", "agent.revoke(1)"))
        revoked = self._engine.memory.revoke_all() if number is None else (self._engine.memory.revoke(number),)
        self._note_revoked(revoked)
        return self.remembered()

    def forget_run(self, state: State) -> None:
        """Forget what was remembered for a run that nobody will go on with."""
        self._engine.memory.end_run(state.id)

    def _note_revoked(self, revoked: tuple[Remembered, ...]) -> None:
        engine, (name, source) = self._engine, who()
        recorder = Recorder(engine.store, engine.redactor, engine.own.policy_id, self._context(None, None, None), None)
        for one in revoked:
            recorder.hold(
                "revoked",
                None,
                answer_of(one),
                number=one.number,
                tool=one.tool,
                allow=one.allow,
                about=one.covers,
                covers=one.scope.covers,
                lasts=one.lasts,
                arguments=list(one.scope.arguments),
                from_call=one.from_call,
                user=one.user,
                agent_path=list(one.agent_path),
                by=name,
                by_from=source,
            )
        recorder.write()
