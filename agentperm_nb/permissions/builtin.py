"""The permissions that come with the toolkit."""

from __future__ import annotations

import fnmatch
import itertools
import re
import unicodedata
from collections.abc import Callable, Iterable
from typing import Any, Literal, TypeGuard

from agentperm_nb.calls import ToolCall
from agentperm_nb.context import get_run_context
from agentperm_nb.errors import NoHumanError, fix_message
from agentperm_nb.human import is_human, name_of
from agentperm_nb.permissions.kinds import AllowPermission, DecidePermission, DenyPermission, Permission
from agentperm_nb.permissions.second_person import second_person_problem
from agentperm_nb.permissions.verdicts import Allowed, Ask, Denied, Verdict, checked_reason
from agentperm_nb.redaction import Redactor
from agentperm_nb.render import visible
from agentperm_nb.tool_class import checked_timeout
from agentperm_nb.tools import Tool

__all__ = [
    "DECLINED",
    "AllowByDefault",
    "AllowByName",
    "AllowByReadOnly",
    "DecideByHuman",
    "DenyByName",
    "latest_change",
    "settled_by_name",
]

DECLINED = "The user declined this call. Wait for their next message."
"""What the model is told when a person says no and the turn stops."""


_changes = itertools.count(1)
_latest_change = 0


def latest_change() -> int:
    """Return a number that is another one after any permission that `settled_by_name` knows has been changed."""
    return _latest_change


def _changed() -> None:
    global _latest_change
    _latest_change = next(_changes)


def settled_by_name(permission: Permission) -> TypeGuard[DenyByName | AllowByName | AllowByDefault]:
    """Return whether what a permission says depends on the tool's name alone: then ``for_name`` says it."""
    if not isinstance(permission, DenyByName | AllowByName | AllowByDefault):
        return False
    kind = type(permission)
    return (
        kind.check in (DenyByName.check, AllowByName.check, AllowByDefault.check)
        and kind.for_name in (DenyByName.for_name, AllowByName.for_name, AllowByDefault.for_name)
        and kind.acheck is Permission.acheck
        and not {"check", "acheck", "for_name"} & vars(permission).keys()
    )


class _ByName:
    """The patterns of `DenyByName` and `AllowByName`; assigning ``.patterns`` changes the behaviour."""

    def __init__(self, patterns: object, *, folded: bool) -> None:
        self._folded = folded
        self.patterns = patterns  # the setter checks them

    @property
    def patterns(self) -> tuple[str, ...]:
        """The patterns: ``*``, ``?``, ``[seq]`` and ``[!seq]``; the whole name has to match."""
        return self._patterns

    @patterns.setter
    def patterns(self, patterns: object) -> None:
        self._patterns = _checked_patterns(type(self).__name__, patterns)
        self._compile()

    def _compile(self) -> None:
        self._match = _matcher(self._patterns)
        self._match_folded = _matcher(map(_fold, self._patterns)) if self._folded else None
        _changed()

    def __getstate__(self) -> dict[str, Any]:
        # Another process may have another Python, with other expressions for the patterns.
        return {key: value for key, value in vars(self).items() if key not in ("_match", "_match_folded")}

    def __setstate__(self, state: dict[str, Any]) -> None:
        vars(self).update(state)
        self._compile()

    def _matches(self, name: str) -> bool:
        # Exactly, too: folding makes two letters of some, and "?" stands for one.
        if self._match(name) is not None:
            return True
        if self._match_folded is None:
            return False
        return self._match_folded(_fold(name)) is not None or self._looks_alike(name)

    def _looks_alike(self, name: str) -> bool:
        """Return whether letters that look like others make the name match, or the patterns."""
        if name.isascii() and all(pattern.isascii() for pattern in self._patterns):
            return False
        from agentperm_nb.permissions.matching.lookalikes import skeleton

        return _matcher(map(skeleton, self._patterns))(skeleton(name)) is not None

    def _repr(self, *more: str) -> str:
        return f"{type(self).__name__}({', '.join([repr(list(self.patterns)), *more])})"


def _matcher(patterns: Iterable[str]) -> Callable[[str], object]:
    return re.compile("|".join(f"(?:{fnmatch.translate(pattern)})" for pattern in patterns)).match


def _fold(text: str) -> str:
    if not text.isascii():  # characters that are not seen make no difference either
        text = "".join(char for char in text if unicodedata.category(char) != "Cf")
        text = unicodedata.normalize("NFKC", unicodedata.normalize("NFKC", text).casefold())
    return text.casefold()


def _checked_patterns(owner: str, patterns: object) -> tuple[str, ...]:
    example = f"{owner}({['read_*', 'search'] if owner.startswith('Allow') else ['delete_*', 'drop_table']})"
    if isinstance(patterns, str | bytes) or not isinstance(patterns, Iterable):
        raise TypeError(
            fix_message(f"{owner} takes a list of name patterns (got: {patterns!r})", "put it in a list", example)
        )
    listed = tuple(patterns)
    for pattern in listed:
        if not isinstance(pattern, str):
            raise TypeError(
                fix_message(
                    f"{owner} takes name patterns as strings (got: {pattern!r})", "give patterns as strings", example
                )
            )
    # No tool has a space in its name.
    never = next((repr(pattern) for pattern in listed if not pattern or any(map(str.isspace, pattern))), None)
    if not listed or never is not None:
        raise ValueError(
            fix_message(
                f"{owner} got {f'the pattern {never}' if listed else 'no pattern'}, which can match no tool",
                "give a pattern for each name, or leave the permission out",
                example,
            )
        )
    return listed


class DenyByName(_ByName, DenyPermission):
    """Deny tools by name. Denies read wide: neither case nor Unicode compatibility forms nor unseen characters matter,
    and letters of other alphabets are those that they look like.

    The wildcards are those of `fnmatch`: ``*`` any characters, ``?`` one, ``[ab]`` one of these, ``[!ab]`` one other.
    The whole name has to match. There are no braces, no ``|`` and no leading ``!``; give several patterns.

    Args:
        patterns: Names with wildcards, such as ``["delete_*"]``. One that fits no tool denies nothing.
        reason: What the model is told; ``"<name> is not allowed."`` when left out.
        name: What the log calls this permission.

    Raises:
        TypeError: `patterns` is not a list of strings, or `reason` not a string.
        ValueError: No pattern, an empty one, or a blank reason.
    """

    blocking = False

    def __init__(self, patterns: Iterable[str], reason: str | None = None, *, name: str | None = None) -> None:
        super().__init__(patterns, folded=True)
        self.reason = reason
        self.name = name

    @property
    def reason(self) -> str | None:
        """What the model is told; None for ``"<name> is not allowed."``."""
        return self._reason

    @reason.setter
    def reason(self, reason: str | None) -> None:
        example = "DenyByName(['delete_*'], reason='ask the owner first')"
        self._reason = None if reason is None else checked_reason("DenyByName", reason, example)
        _changed()

    def __repr__(self) -> str:
        return self._repr() if self.reason is None else self._repr(f"reason={self.reason!r}")

    def for_name(self, name: str) -> Verdict | None:
        """Return what it says of every call of a tool of this name."""
        return Denied(self.reason or f"{name} is not allowed.") if self._matches(name) else None

    def check(self, state: Any, call: ToolCall, tool: Tool) -> Verdict | None:
        """Deny a call whose name matches."""
        return self.for_name(call.name)


class AllowByName(_ByName, AllowPermission):
    """Allow tools by name. Allows read narrow: the name has to match exactly, case included.

    The wildcards are those of `fnmatch`: ``*`` any characters, ``?`` one, ``[ab]`` one of these, ``[!ab]`` one other.
    The whole name has to match. There are no braces, no ``|`` and no leading ``!``; give several patterns.

    Args:
        patterns: Names with wildcards, such as ``["read_*"]``. One that fits no tool allows nothing.
        name: What the log calls this permission.

    Raises:
        TypeError: `patterns` is not a list of strings.
        ValueError: No pattern, or an empty one.
    """

    blocking = False

    def __init__(self, patterns: Iterable[str], *, name: str | None = None) -> None:
        super().__init__(patterns, folded=False)
        self.name = name

    def __repr__(self) -> str:
        return self._repr()

    def for_name(self, name: str) -> Verdict | None:
        """Return what it says of every call of a tool of this name."""
        return Allowed() if self._matches(name) else None

    def check(self, state: Any, call: ToolCall, tool: Tool) -> Verdict | None:
        """Allow a call whose name matches."""
        return self.for_name(call.name)


class AllowByReadOnly(AllowPermission):
    """Allow calls whose tool says that they change nothing.

    Args:
        trust_mcp: Whether to believe hints that a server sent. By the protocol's own text they are not to be trusted.
        name: What the log calls this permission.

    Raises:
        TypeError: `trust_mcp` is not a bool.
    """

    blocking = False

    def __init__(self, trust_mcp: bool = False, *, name: str | None = None) -> None:
        if not isinstance(trust_mcp, bool):
            raise TypeError(
                fix_message(
                    f"trust_mcp= takes True or False (got: {trust_mcp!r})",
                    "give a bool",
                    "AllowByReadOnly(trust_mcp=True)",
                )
            )
        self.trust_mcp = trust_mcp
        self.name = name

    def __repr__(self) -> str:
        return f"{type(self).__name__}({'trust_mcp=True' if self.trust_mcp else ''})"

    def check(self, state: Any, call: ToolCall, tool: Tool) -> Verdict | None:
        """Allow a read-only call."""
        if tool.server is not None and not self.trust_mcp:
            return None
        hints = tool.hints_for(call.args)
        return Allowed() if hints.read_only is True and (hints.source == "tool" or self.trust_mcp) else None


class AllowByDefault(AllowPermission):
    """Allow every call that nothing denies; it belongs at the end of the list.

    Args:
        name: What the log calls this permission.
    """

    blocking = False

    def __init__(self, *, name: str | None = None) -> None:
        self.name = name

    def for_name(self, name: str) -> Verdict | None:
        """Return what it says of every call of a tool of this name."""
        return Allowed()

    def check(self, state: Any, call: ToolCall, tool: Tool) -> Verdict | None:
        """Allow the call."""
        return self.for_name(call.name)


class DecideByHuman(DecidePermission):
    """Ask a person about every call that reaches it.

    In an agent it says ``Ask(self.question(call, tool))``: the call is then put to the person together with the others
    of its turn. ``check`` and ``acheck``, called by hand or from a subclass through ``super()``, ask at once: question
    and raw answer are in the state's history before the answer is used.

    Args:
        human: Whom to ask; the agent's own human when left out.
        second_person: Whether an approval counts only from somebody else than the user on whose behalf the agent works.
        timeout: Seconds after which a call is denied that nobody has answered about; an approver may have a shorter
            limit of its own. It holds for what the engine asks.
        name: What the log calls this permission.

    Raises:
        TypeError: `human` is not a Human object, `second_person` not a bool, or `timeout` not a number; or `timeout` is
            given to a subclass that asks by itself.
        ValueError: `timeout` is not above 0.
    """

    second_person: bool = False
    timeout: float | None = None

    def __init__(
        self,
        human: Any = None,
        *,
        second_person: bool = False,
        timeout: float | None = None,
        name: str | None = None,
    ) -> None:
        if human is not None and not is_human(human):
            raise TypeError(
                fix_message(
                    f"{human!r} is not a Human object",
                    "give an object with ask(state, prompt, returns) or aask",
                    "DecideByHuman(human=FakeHuman(['yes']))",
                )
            )
        if not isinstance(second_person, bool):
            problem = f"second_person= takes True or False (got: {second_person!r})"
            raise TypeError(fix_message(problem, "give a bool", "DecideByHuman(second_person=True)"))
        self.human = human
        self.second_person = second_person
        self.timeout = checked_timeout(timeout, "DecideByHuman(timeout=300)")
        if self.timeout is not None and self.asks_by_itself:
            raise TypeError(
                fix_message(
                    f"{type(self).__name__} asks by itself, so that no timeout= would end its waiting",
                    "end it in its own check, or override question() only",
                    "class Careful(DecideByHuman):\n    def question(self, call, tool):\n"
                    "        return f'Really run {call.name}?'\n\nCareful(timeout=300)",
                )
            )
        self.name = name

    def __repr__(self) -> str:
        given: list[str] = []
        if self.human is not None:
            own = getattr(type(self.human), "__repr__", None) is not object.__repr__
            given.append(f"human={self.human!r}" if own else f"human={type(self.human).__name__}()")
        if self.second_person:
            given.append("second_person=True")
        if self.timeout is not None:
            given.append(f"timeout={self.timeout:g}")
        return f"{type(self).__name__}({', '.join(given)})"

    @property
    def asks_by_itself(self) -> bool:
        """Whether a subclass overrides how it asks; then the engine lets it, after the rules of the turn."""
        return type(self).check is not DecideByHuman.check or type(self).acheck is not DecideByHuman.acheck

    def question(self, call: ToolCall, tool: Tool) -> str:
        """Return the question in words; override it for a heading of your own.

        Secrets are masked, and what is not seen or moves other characters is shown as its code.
        """
        return f"Run {visible(Redactor().call(call, tool.secret))}?"

    def as_ask(self, call: ToolCall, tool: Tool) -> Ask:
        """Return what the engine puts to the person."""
        return Ask(self.question(call, tool))

    def check(self, state: Any, call: ToolCall, tool: Tool) -> Verdict | None:
        """Ask now, on this thread: "yes" allows; anything else denies and stops the turn.

        Args:
            state: The State of the run that makes the call: its human is asked, unless the permission has its own.
            call: The call.
            tool: The tool that would run.

        Raises:
            NoHumanError: There is nobody to ask.
            TypeError: The human answers only asynchronously.
            ValueError: No agent has worked with the state yet.
        """
        if type(self).check is DecideByHuman.check and type(self).acheck is not DecideByHuman.acheck:
            return Permission.check(self, state, call, tool)  # a subclass that is asynchronous only: says so
        human = self._whom(state, "ask_human")
        if not callable(getattr(human, "ask", None)):
            raise TypeError(
                fix_message(
                    f"{type(human).__name__} answers only asynchronously",
                    "use the async form of the call",
                    "turn = await agent.ause_tools(reply)",
                )
            )
        question = self.question(call, tool)
        return self._verdict(state, call, question, human, human.ask(state, question, Literal["yes", "no"]))

    async def acheck(self, state: Any, call: ToolCall, tool: Tool) -> Verdict | None:
        """Like `check`, awaited. A subclass that overrides only ``check`` is asked through it, on a worker thread."""
        if type(self).check is not DecideByHuman.check and type(self).acheck is DecideByHuman.acheck:
            return await Permission.acheck(self, state, call, tool)
        human = self._whom(state, "aask_human")
        question = self.question(call, tool)
        if callable(getattr(human, "aask", None)):
            answer = await human.aask(state, question, Literal["yes", "no"])
        else:
            import anyio.to_thread

            answer = await anyio.to_thread.run_sync(
                human.ask, state, question, Literal["yes", "no"], abandon_on_cancel=True
            )
        return self._verdict(state, call, question, human, answer)

    def _whom(self, state: Any, how: str) -> Any:
        if not getattr(state, "linked", True):  # in whose name the question would be put, nobody could say
            raise ValueError(
                fix_message(
                    f"{self!r} was asked by hand, and this State has no Agent yet",
                    "let an agent work with the state first",
                    "agent.use_tools(state)\nDecideByHuman().check(state, call, tool)",
                )
            )
        human = self.human if self.human is not None else getattr(state, "human", None)
        if human is None:
            raise NoHumanError(
                fix_message(
                    f"{how}() was called on an Agent with human=None",
                    "give the agent a human, or decide without one",
                    "Agent(tools, permissions=[AllowByReadOnly()], human=None)",
                )
            )
        return human

    def _verdict(self, state: Any, call: ToolCall, question: str, human: Any, answer: object) -> Verdict:
        """Record what was asked and answered, and say what the answer means."""
        record = getattr(state, "record_exchange", None)
        if record is not None:
            record(question, answer, call=call)
        if type(answer) is not str or answer != "yes":
            return Denied(DECLINED, stop=True)
        context = get_run_context()
        problem = second_person_problem(self, name_of(human)[0], *(() if context is None else context.users))
        return Allowed() if problem is None else Denied(problem)
