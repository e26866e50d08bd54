"""What the turns of one agent share: its tools and permissions, who is asked, the log, and what has run."""

from __future__ import annotations

import threading
import weakref
from collections import OrderedDict
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, NamedTuple

from agentperm_nb.approvals.approvers import NobodyApprover, as_approver
from agentperm_nb.approvals.desk import Desk, DeskChange
from agentperm_nb.approvals.memory import Memory
from agentperm_nb.approvals.patience import Patience
from agentperm_nb.approvals.policy_handlers import policy_approver
from agentperm_nb.approvals.requests import Approver
from agentperm_nb.audit.changes import Changes
from agentperm_nb.audit.store import Store
from agentperm_nb.human import default_human
from agentperm_nb.permissions.deciding import PermissionList
from agentperm_nb.permissions.kinds import Permission
from agentperm_nb.permissions.said import Said
from agentperm_nb.redaction import Redactor
from agentperm_nb.running.reporter import Reporter
from agentperm_nb.tools import Tool

if TYPE_CHECKING:
    from agentperm_nb.permissions.arguments import ArgumentRule
    from agentperm_nb.running.budget import Budget

__all__ = ["AUTO", "KEPT", "NO_FILE", "Engine", "Filed"]

KEPT = 10_000
"""How many digests of calls that ran, and requests whose late answers are still recorded, an engine keeps."""


class _Auto:
    def __repr__(self) -> str:
        return "AUTO"


AUTO = _Auto()
"""For ``human=``: the notebook's panel, or a prompt in a terminal, or nobody, as it is where the agent runs."""


class Filed(NamedTuple):
    """What came of putting a rule into a policy file."""

    problem: str
    """Why it is not in it; empty where it is."""
    file: str = ""
    """The file."""


NO_FILE = Filed("this agent has no policy file of its project that a rule could go into")
"""What comes of it where there is no file."""


@dataclass(eq=False)
class Engine:
    """What the turns of one agent share."""

    tools: Mapping[str, Tool]
    own: PermissionList
    """The agent's own list; a turn may be decided by another one (`running.nesting`)."""
    store: Store
    desk: Desk
    redactor: Redactor
    human: Any = AUTO
    """A Human, an approver, None for nobody on purpose, or AUTO."""
    handler: Approver | None = None
    policy_handler: Approver | None = None
    """Answers what a policy asks, where the policy has no handler of its own."""
    reporter: Reporter | None = None
    budget: Budget | None = None
    patience: Patience | None = None
    """How long the agent's own human or handler has at most; as a policy file says."""
    file_rule: Callable[[ArgumentRule, Permission | None, str | None], Filed] = lambda rule, asking, approver: NO_FILE
    """Puts a rule into the policy file; it is also told what had asked, and who wants it remembered."""
    look: Callable[[], object] = lambda: None
    """Looks whether a policy file has changed; then `own` is another list."""
    memory: Memory = field(default_factory=Memory)
    changes: Changes = field(default_factory=Changes)
    finished: int = 0
    """How many calls have finished."""
    ran: OrderedDict[str, datetime] = field(default_factory=OrderedDict)
    """When a call of this digest last finished."""
    _lock: threading.Lock = field(default_factory=threading.Lock)
    _approvers: dict[int, Approver] = field(default_factory=dict)
    _policy_approvers: dict[int, Approver] = field(default_factory=dict)
    _asked: OrderedDict[str, Callable[[DeskChange], None]] = field(default_factory=OrderedDict)
    _written: weakref.WeakValueDictionary[int, Permission] = field(default_factory=weakref.WeakValueDictionary)

    def __post_init__(self) -> None:
        self._written.update((id(item), item) for item in self.own.items)
        _watch_for_late_answers(self)

    def take(self, own: PermissionList, redactor: Redactor, patience: Patience | None) -> None:
        """Go by another list from the next turn on."""
        self._written.update((id(item), item) for item in own.items)
        self.own, self.redactor, self.patience = own, redactor, patience

    def latest(self) -> PermissionList:
        """Return the agent's own list as it is now."""
        self.look()
        return self.own

    def wrote(self, permission: Permission) -> bool:
        """Return whether a permission is one of this agent's, or was when a turn that is under way began."""
        return self._written.get(id(permission)) is permission

    def note_ran(self, digest: str) -> None:
        """Note that a call of this digest has finished."""
        with self._lock:
            self.finished += 1
            self.ran[digest] = datetime.now(UTC)
            self.ran.move_to_end(digest)
            if len(self.ran) > KEPT:
                self.ran.popitem(last=False)

    def watch(self, request_id: str, record: Callable[[DeskChange], None]) -> None:
        """Call `record` when an answer to the request comes too late, even after its turn has ended."""
        self._asked[request_id] = record
        if len(self._asked) > KEPT:
            self._asked.popitem(last=False)

    def asked(self, request_id: str) -> bool:
        """Return whether a request is one of this agent's."""
        return request_id in self._asked

    def desk_changed(self, change: DeskChange) -> None:
        """Record an answer that came too late, or that the view refused."""
        if change.kind == "late" and change.request_id in self._asked:
            self._asked[change.request_id](change)

    def whom(self) -> Any:
        """Return the Human or approver of the agent, or None where there is nobody."""
        if self.human is AUTO:
            return default_human()
        return self.human

    def approver_for(self, permission: Permission | None, said: Said | None = None) -> Approver:
        """Return who answers a permission's requests.

        Its own human or handler; of a policy the agent's handler for policies; else the handler, else the agent's
        human.
        """
        own = getattr(permission, "human", None)
        if own is None and said is not None and said.step is not None:
            handler = said.step.handler
            if handler is not None:
                approver = policy_approver("handler= of a PermissionPolicy", handler)
                return self._policy_approvers.setdefault(id(handler), approver)
            if said.step.has_policy and self.policy_handler is not None:
                return self.policy_handler
        if own is None and self.handler is not None:
            return self.handler
        whom = own if own is not None else self.whom()
        if whom is None:
            return self._approvers.setdefault(0, NobodyApprover(_NOBODY if self.human is None else _NOBODY_HERE))
        return self._approvers.setdefault(id(whom), as_approver(whom))


def _watch_for_late_answers(engine: Engine) -> None:
    # The desk outlives the agents of a kernel: it must not keep them alive.
    reference = weakref.ref(engine)

    def listener(change: DeskChange) -> None:
        alive = reference()
        if alive is not None:
            alive.desk_changed(change)

    weakref.finalize(engine, engine.desk.subscribe(listener))


_NOBODY = (
    "Nobody is asked: the agent was made with human=None. Give it a human or an approval_handler=, or permissions that "
    "decide without a person, such as AllowByName([...])."
)
_NOBODY_HERE = (
    "Nobody can answer here: there is no notebook front end and no terminal. Give permissions that decide without a "
    "person, such as AllowByName([...]), or an approval_handler=, or run this in JupyterLab."
)
