"""What an agent remembers of the answers that it was given: to look at, and to take back."""

from __future__ import annotations

from typing import TYPE_CHECKING

from agentperm_nb.approvals.decisions import Scope
from agentperm_nb.approvals.memory import Remembered, RememberedAnswers
from agentperm_nb.approvals.requests import ApprovalRequest
from agentperm_nb.context import who
from agentperm_nb.errors import fix_message
from agentperm_nb.running.recalling import answer_of
from agentperm_nb.running.recording import Recorder
from agentperm_nb.running.state import State
from agentperm_nb.running.turn_taking import TurnTaking

if TYPE_CHECKING:
    from agentperm_nb.permissions.arguments import ArgumentRule
    from agentperm_nb.permissions.kinds import Permission
    from agentperm_nb.running.engine import Filed
    from agentperm_nb.running.would_cover import WouldCover

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

    def would_cover(
        self, rule: str | ArgumentRule | Scope, request: ApprovalRequest | None = None, *, allow: bool = True
    ) -> WouldCover:
        """Return which calls of this run a rule or a scope would have covered: a table, with the counts on top.

        Those of the run in the log are looked at, for the same user, and those that wait now. The rule is tried alone;
        what denies a call, or is asked before, still would. A call that is masked in the log counts apart where what is
        masked would tell.

        Args:
            rule: A rule in the notation, with its verb or without, a rule on arguments, or a `Scope`.
            request: The request that would be answered so: its run and its user count, and a scope may be about the
                values of its call.
            allow: Whether a rule without a verb allows; else it denies.

        Raises:
            TypeError: `rule` is none of these, or a scope needs a request.
            ValueError: A text is no rule.
        """
        from agentperm_nb.running.would_cover import would_cover

        context = request.context if request is not None else None
        call = None if request is None else request.call
        return would_cover(self._engine, context or self._context(None, None, None), rule, call, allow=allow)

    def forget_run(self, state: State) -> None:
        """Forget what was remembered for a run that nobody will go on with."""
        self._engine.memory.end_run(state.id)

    def _file_rule(self, rule: ArgumentRule, asking: Permission | None, approver: str | None) -> Filed:
        """Put a rule into the policy file of the project; it counts from the next turn on."""
        from agentperm_nb.running.filing import file_rule

        with self._policy.lock:
            filed = file_rule(self._policy, rule, asking, self._engine.tools.values())
            if not filed.problem:
                self._refresh()
                self._note("rule remembered", who=approver or who()[0], file=filed.file, rules=[str(rule)])
        return filed

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
                **({} if one.rule is None else {"rule": one.rule}),
                from_call=one.from_call,
                user=one.user,
                agent_path=list(one.agent_path),
                by=name,
                by_from=source,
            )
        recorder.write()
