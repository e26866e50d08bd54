"""Keeping the policy of an agent: its files, the rules of its session, and its protected paths, in one list.

1. The list is, in this order: what the files and the session deny; protected paths; the agent's ``permissions=``; the
   other rules of the files, then of the session; the modes of the files. The list that an agent has when it is given
   none comes last, and is left out where there are files.
2. Before each turn the files are looked at. A version that can be taken counts from this turn on, as a whole. The log
   has it as a ``policy`` event.
3. One that cannot be taken leaves the rules as they were. That is said once, with a PermissionWarning, and stands on
   the agent's card and in the log.
4. A turn goes by the list that it began with. Denies that come meanwhile count as well when a call is looked at again:
   an edited one, and one that is about to start.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Mapping
from contextvars import Context
from functools import cached_property
from typing import TYPE_CHECKING, Any

from agentperm_nb.approvals.patience import Patience
from agentperm_nb.context import RunContext, who
from agentperm_nb.errors import LintWarning, fix_message, warn_user
from agentperm_nb.permissions.builtin import DenyByName
from agentperm_nb.permissions.deciding import PermissionList
from agentperm_nb.permissions.kinds import DenyPermission, Permission
from agentperm_nb.permissions.steps import Step
from agentperm_nb.redaction import Redactor
from agentperm_nb.running.engine import AUTO
from agentperm_nb.running.recording import Recorder
from agentperm_nb.running.signalling import Signalling
from agentperm_nb.tools import Tool

if TYPE_CHECKING:
    from agentperm_nb.analysis.log import Log
    from agentperm_nb.permissions.arguments import ArgumentRule
    from agentperm_nb.permissions.linting.findings import Findings
    from agentperm_nb.permissions.policy_layers import Layer, PolicyFiles
    from agentperm_nb.permissions.protected import ProtectedPaths
    from agentperm_nb.permissions.session_rules import SessionRules

__all__ = ["Policy", "PolicyKeeping"]


class Policy:
    """What the rules of an agent are, and where they come from: what ``agent.policy`` is.

    Its text is in the notation of rules. What is no rule on arguments stands in comments, so that
    ``rules(agent.policy_text())`` reads the rules that hold for every user.

    Args:
        own: The agent's own list.
        files: Its policy files, or None.
        given: Whether the list was given.
        protected: What is protected beside the files.
        tools: The tools, for which the rules have to make sense.
        redactions: Functions that mask.
        changed: Called when the rules of the session change.

    Raises:
        PolicyFileError: A file cannot be taken.
    """

    own: PermissionList
    """The agent's own list."""
    given: bool
    """Whether it was given."""
    lock: threading.RLock
    """Held while files are looked at, and while a list is made of them."""
    files: PolicyFiles | None
    """Its policy files, as they were given."""
    layers: tuple[Layer, ...]
    """The files, first to last, each with the version that is in force."""
    protected: ProtectedPaths | None
    """The protected paths."""
    session: SessionRules
    """The rules of the session."""

    def __init__(
        self,
        own: PermissionList,
        *,
        files: PolicyFiles | None,
        given: bool,
        protected: Iterable[Any],
        tools: Mapping[str, Tool],
        redactions: tuple[Callable[[str], str], ...],
        changed: Callable[[str, tuple[ArgumentRule, ...]], object],
    ) -> None:
        from agentperm_nb.permissions.session_rules import SessionRules

        self.own, self.files, self.given, self._redactions = own, files, given, redactions
        self.lock = threading.RLock()
        self._tools = list(tools.values())
        self.layers = ()
        if files is not None:
            from agentperm_nb.permissions.policy_layers import checked_for, layers_of

            self._check = checked_for(self._tools)
            self.layers = tuple(layers_of(files))
            for layer in self.layers:
                layer.load(self._check)
        guarded = (*_files_of(self.layers), *protected)
        self.protected = None
        if guarded:
            from agentperm_nb.permissions.protected import ProtectedPaths

            # Where the rules want a second person, it is not enough that anybody is asked.
            two = any(getattr(item, "second_person", False) is True for item in own.items)
            self.protected = ProtectedPaths(guarded, second_person=two)
        self.session = SessionRules(changed, self._check_session_rule)
        self._unsaid = [text for layer in self.layers if (text := _caution(layer))]

    def look(self) -> list[tuple[Layer, str]]:
        """Look whether files have changed, and return (layer, news) for those that have; see `Layer.look`."""
        news = []
        for layer in self.layers:
            before = layer.caution
            said = layer.look(self._check)
            if said:
                news.append((layer, said))
            if said == "refused":
                self._unsaid.append(f"{_of(layer)} was not taken, and the rules before it stay: {layer.problem}")
            if layer.caution and layer.caution != before:
                self._unsaid.append(_caution(layer))
        return news

    def unsaid(self) -> list[str]:
        """Return what the user has not been told yet; it is told now."""
        if not self._unsaid:
            return []
        with self.lock:
            texts, self._unsaid = self._unsaid, []
        return texts

    @property
    def permissions(self) -> PermissionList:
        """The list that all of it comes to, made anew."""
        denies: list[Permission] = [one for layer in self.layers for one in layer.file.denies]
        others: list[Permission] = [one for layer in self.layers for one in layer.file.others]
        modes: list[Permission] = [one for layer in self.layers for one in layer.file.modes]
        for rule in self.session:
            (denies if isinstance(rule, DenyPermission) else others).append(rule)
        first = [] if self.protected is None else [self.protected]
        if self.own.unchecked or not (denies or first or others or modes):
            return self.own
        own, last = (self.own.items, ()) if self.given else ((), self.own.items)
        return PermissionList([*denies, *first, *own, *others, *modes, *last])

    @property
    def redactor(self) -> Redactor:
        """What masks: the agent's functions, and the names of the files."""
        names = [name for layer in self.layers for name in layer.file.masked]
        return Redactor(self._redactions, secret=names)

    @property
    def patience(self) -> Patience | None:
        """How long the agent's own human or handler has; None where no file says."""
        files = [layer.file for layer in self.layers]
        approval = min((file.approval for file in files if file.approval is not None), default=None)
        reminders = next((file.reminders for file in files if file.reminders), ())
        return Patience(None, reminders).within(approval) if approval is not None or reminders else None

    def described(self) -> list[dict[str, str | None]]:
        """Return the files that are there, for the log."""
        return [
            {
                "layer": layer.name,
                "file": str(layer.path),
                "digest": layer.digest,
                "problem": layer.problem_in_short or None,
            }
            for layer in self.layers
            if layer.since is not None or layer.problem
        ]

    def _check_session_rule(self, rule: ArgumentRule) -> None:
        if self.own.unchecked:
            raise ValueError(
                fix_message(
                    "this agent was made with permissions=None, which switches all checks off",
                    "give it permissions",
                    "agent.copy(permissions=[AllowByReadOnly(), DecideByHuman()])",
                )
            )
        rule.check_tools(self._tools)

    def __repr__(self) -> str:
        from agentperm_nb.running.policy_text import policy_text

        return policy_text(self)


class PolicyKeeping(Signalling):
    """Keeps an agent's policy as its files say."""

    name: str
    """What panel and log call the agent."""
    audit: Log
    """The log."""
    _policy: Policy
    _unlooked: bool = False
    """Whether rules have come that nobody has looked over."""

    @cached_property
    def _told(self) -> set[tuple[str, str]]:
        """What the user has been warned of."""
        return set()

    @property
    def policy(self) -> Policy:
        """The rules of the agent, with where they come from; its text is for people to read."""
        self._refresh()
        return self._policy

    @property
    def session_rules(self) -> SessionRules:
        """Rules on arguments that are added and removed at any time; the last layer of the policy."""
        return self._policy.session

    def policy_text(self) -> str:
        """Return the rules in the notation, in the order of asking, each with the layer that it is of."""
        return repr(self.policy)

    def lint(self, *, ignore: Iterable[str] = (), strict: bool = False) -> Findings:
        """Return what is probably not meant in the rules of the agent, held against its tools.

        Nothing runs, and nobody is asked.

        Args:
            ignore: Codes of findings to leave out.
            strict: Whether to raise an error when there are warnings.

        Raises:
            LintError: With ``strict=True``: there are warnings. It has the findings.
            TypeError: `ignore` is not a list of codes.
            ValueError: It has a code that there is not.
        """
        from agentperm_nb.permissions.lint import WHOEVER, lint

        self._refresh()
        engine = self._engine
        human = WHOEVER if engine.human is AUTO else engine.human
        return lint(
            engine.own,
            engine.tools.values(),
            human=human if engine.handler is None else engine.handler,
            permission_handler=engine.policy_handler,
            ignore=ignore,
            strict=strict,
        )

    # ------------------------------------------------------------------ how

    def _look_over(self) -> None:
        """Warn of rules that are very likely mistakes.

        Raises:
            Warning: The user's filters make an error of it.
        """
        engine = self._engine
        named = (isinstance(item, DenyByName | Step) or hasattr(item, "verb") for item in engine.own.items)
        if not engine.tools or not any(named):
            return
        from agentperm_nb.permissions.lint import first_look

        for finding in first_look(engine.own, engine.tools.values()):
            if (finding.rule, finding.message) in self._told:
                continue
            self._told.add((finding.rule, finding.message))
            warn_user(engine.redactor.text(f"{finding.rule}: {finding.message}\nFix: {finding.fix}"), LintWarning)

    def _refresh(self) -> None:
        """Look whether policy files have changed, and take those that can be taken."""
        policy = self._policy
        if not policy.layers:
            return
        with policy.lock:
            news = policy.look()
            if not news:
                return
            if any(said == "changed" for _, said in news):
                self._take()
                self._unlooked = True
            for layer, said in news:
                if said == "changed":
                    self._note("file changed", who="file", layer=layer.name, file=str(layer.path))
                else:
                    problem = layer.problem
                    self._note("file refused", who="file", layer=layer.name, file=str(layer.path), problem=problem)

    def _session_changed(self, what: str, rules: tuple[ArgumentRule, ...]) -> None:
        with self._policy.lock:
            self._take()
            texts = [str(rule) for rule in rules]
            self._note(f"session rules {what}", who=who()[0], layer="session", rules=texts)

    def _take(self) -> None:
        policy = self._policy
        self._engine.take(policy.permissions, policy.redactor, policy.patience)

    def _say(self) -> None:
        """Tell the user what is wrong with the files, once.

        Raises:
            Warning: The user's filters make an error of it.
        """
        for text in self._policy.unsaid():
            warn_user(self._engine.redactor.text(text))
        if self._unlooked:  # rules that have come with a change may be as misspelt as the first ones
            self._unlooked = False
            self._look_over()

    def _note(self, how: str, **data: Any) -> None:
        """Append the event of a change to the log. It is about the agent, and about no run that happens to be on."""
        Context().run(self._note_now, how, data)

    def _note_now(self, how: str, data: dict[str, Any]) -> None:
        engine, context = self._engine, self._context(None, None, None)
        own, mask = engine.own, engine.redactor.text
        recorder = Recorder(engine.store, engine.redactor, own.policy_id, context, None)
        listed = None if own.unchecked else [mask(text) for text in own.describe()]
        recorder.note(
            "policy",
            permissions=listed,
            unchecked=own.unchecked,
            bypass=own.bypasses(context.user_id),
            how=how,
            **{key: _masked(value, mask) for key, value in data.items()},
            **({"files": _masked(self._policy.described(), mask)} if self._policy.layers else {}),
        )

    def _context(self, user: str | None, session: str | None, metadata: Any, state: Any = None) -> RunContext:
        raise NotImplementedError


def _masked(value: Any, mask: Callable[[str], str]) -> Any:
    """Return what the log is told, each text masked; the names in it are ours."""
    if isinstance(value, str):
        return mask(value)
    if isinstance(value, dict):
        return {key: _masked(item, mask) for key, item in value.items()}
    return [_masked(item, mask) for item in value] if isinstance(value, list) else value


def _files_of(layers: Iterable[Layer]) -> list[Any]:
    """Return the files of layers as protected paths, with the folder of settings that is the toolkit's own."""
    from agentperm_nb.permissions.protected import Guarded

    found = []
    for layer in layers:
        what = f"the policy file of the {layer.name.partition(' ')[0]}"
        found.append(Guarded(str(layer.path), what))
        if layer.path.parent.name == "agentperm_nb" and not layer.required:
            found.append(Guarded(str(layer.path.parent), f"the folder of {what}", below=True))
    return found


def _of(layer: Layer) -> str:
    return f"the policy file {layer.path} ({layer.name})"


def _caution(layer: Layer) -> str:
    return f"{_of(layer)} can be changed by others: {layer.caution}" if layer.caution else ""
