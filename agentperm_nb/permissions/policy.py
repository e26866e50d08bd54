"""Rule tables: a policy is a list of rules, and the first rule that matches a call decides.

1. A rule has a name, a function ``match(tool, parameters)``, a result and a reason. What it is made of is checked when
   it is made, and does not change.
2. ``match`` gets a copy of the arguments. Any truthy value that it returns counts as a match, except for what is truthy
   by mistake: something to await, an iterator, something that could be called. These are a ``TypeError``. It may be
   asked more than once about a call, and again just before the call starts.
3. A policy asks its rules in order, and says what the first that matches says, else its fallback: DENY unless it says
   otherwise. With ``fallback=None`` it has no opinion, and the list of the agent goes on.
4. The rules are read anew for each call: one that is added counts from the next call on.
5. What ``match`` raises goes to the caller. In an agent it denies that one call.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any, Literal, Self

from agentperm_nb.calls import ToolCall
from agentperm_nb.errors import fix_message
from agentperm_nb.json_values import FrozenDict, freeze, thaw
from agentperm_nb.permissions.handler import AsyncPermissionHandler, PermissionHandler, checked_handler
from agentperm_nb.permissions.kinds import DenyPermission
from agentperm_nb.permissions.pickling import Pickled
from agentperm_nb.permissions.said import Said, denial_of, undecided
from agentperm_nb.permissions.types import PermissionResult, checked_result
from agentperm_nb.tools import Tool, as_tool

__all__ = ["DenyByPolicy", "PermissionPolicy", "PermissionRule", "first_match"]

_RULE = (
    "PermissionRule(\n    'deny_large', lambda tool, parameters: parameters.get('amount', 0) > 100, 'deny',\n"
    "    reason='Only amounts up to 100.',\n)"
)
_POLICY = "PermissionPolicy([ASK_DESTRUCTIVE, ALLOW_READONLY], fallback='deny')"


@dataclass(frozen=True, repr=False, init=False)
class PermissionRule(Pickled):
    """One rule of a policy.

    Args:
        name: What log, tables and handlers call it.
        match: A function from the tool and a dict of its arguments to whether the rule applies; it must not be async.
        result: ALLOW, DENY or ASK of `PermissionResult`, or its text.
        reason: Why: the model reads it of a denial, the person of a question.

    Raises:
        TypeError: The name or the reason is not a text, or `match` is no function of two arguments.
        ValueError: The name is blank, or the result none of the three.
    """

    name: str
    match: Callable[[Tool, dict[str, Any]], Any]
    result: PermissionResult
    reason: str = ""

    def __init_subclass__(cls, **kwargs: Any) -> None:
        """Refuse a class that would match in another way than by its function.

        Raises:
            TypeError: It overrides ``matches``.
        """
        super().__init_subclass__(**kwargs)
        if cls.matches is not PermissionRule.matches:
            problem = f"{cls.__name__} overrides matches of PermissionRule, which checks what its function returns"
            raise TypeError(fix_message(problem, "give the function as match=", _RULE))

    def __init__(
        self,
        name: str,
        match: Callable[[Tool, dict[str, Any]], Any],
        result: PermissionResult | Literal["allow", "deny", "ask"],
        reason: str = "",
    ) -> None:
        for what, text in (("name", name), ("reason", reason)):
            if not isinstance(text, str):
                problem = f"{what}= of a PermissionRule takes a text (got: {type(text).__name__})"
                raise TypeError(fix_message(problem, "give a text", _RULE))
        if not name.strip():
            raise ValueError(fix_message("a PermissionRule has no name", "say in a word or two what it is for", _RULE))
        _check_match(name, match)
        checked = checked_result(f"result= of the rule {name!r}", result, _RULE)
        for what, value in (("name", name), ("match", match), ("result", checked), ("reason", reason)):
            object.__setattr__(self, what, value)

    def __repr__(self) -> str:
        return f"PermissionRule({self.name!r}, {self.result.value})"

    def matches(self, tool: Tool, parameters: Mapping[str, Any]) -> bool:
        """Return whether the rule applies to a call.

        Args:
            tool: The tool that would run.
            parameters: Its arguments; ``match`` gets a plain copy that it may change.

        Raises:
            TypeError: ``match`` returned something that is truthy by mistake, or the arguments are no dict.
            Exception: Whatever ``match`` raised, or the truth of what it returned.
        """
        if not isinstance(parameters, Mapping):
            raise TypeError(
                fix_message(
                    f"the arguments for the rule {self.name!r} are not a dict (got: {type(parameters).__name__})",
                    "give a dict from argument name to value",
                    "policy.evaluate(tool, {'path': 'notes.txt'})",
                )
            )
        frozen = parameters if type(parameters) is FrozenDict else freeze(parameters)
        answer = self.match(tool, thaw(frozen))
        if answer is True or answer is False:
            return answer
        mistake, fix = _mistake(answer)
        if mistake:
            problem = f"match of the rule {self.name!r} returned {mistake}, which is true of every call"
            raise TypeError(fix_message(problem, fix, _RULE))
        return bool(answer)


class PermissionPolicy(Pickled):
    """A list of rules; the first that matches decides.

    Give it to an agent in ``permissions=``, alone or among others. There it is one step that decides; what its DENY
    rules should deny whatever else stands before them, `denies` gives as a permission of its own.

    Args:
        rules: The rules, in the order in which they are asked. A list is kept, not copied: what is added to it counts,
            in every policy that was given it.
        fallback: What a call gets that no rule matches: ALLOW, DENY or ASK of `PermissionResult`, or its text. None
            leaves it to the permissions that follow in the agent's list.
        handler: Who answers when a rule, or the fallback, asks: an object with ``handle(request)``. When left out, the
            agent's ``permission_handler``, or whoever else the agent asks. With a time limit:
            ``PolicyHandlerApprover(handler, timeout=60)``.
        name: What the log calls it; ``policy`` when left out.

    Raises:
        TypeError: An argument has the wrong type.
        ValueError: The fallback is none of the three, or the name is blank.
    """

    def __init_subclass__(cls, **kwargs: Any) -> None:
        """Refuse a class that would decide in another way than by its rules, which are what an agent asks.

        Raises:
            TypeError: It overrides ``evaluate``.
        """
        super().__init_subclass__(**kwargs)
        if cls.evaluate is not PermissionPolicy.evaluate:
            raise TypeError(
                fix_message(
                    f"{cls.__name__} overrides evaluate of PermissionPolicy, and an agent asks the rules one by one",
                    "put it into a rule, or write a DecidePermission",
                    _RULE,
                )
            )

    def __init__(
        self,
        rules: Iterable[PermissionRule] = (),
        fallback: PermissionResult | Literal["allow", "deny", "ask"] | None = PermissionResult.DENY,
        handler: PermissionHandler | AsyncPermissionHandler | None = None,
        *,
        name: str | None = None,
    ) -> None:
        self.rules = rules
        self.fallback = fallback
        self.handler = handler
        if name is not None and not isinstance(name, str):
            raise TypeError(
                fix_message(f"name= of a PermissionPolicy takes a text (got: {name!r})", "give a text", _POLICY)
            )
        if name is not None and not name.strip():
            raise ValueError(fix_message("name= of a PermissionPolicy is blank", "leave it out", _POLICY))
        self.name: str = "policy" if name is None else name
        """What the log calls it."""

    def __copy__(self) -> Self:
        """Return a policy of its own with the same rules: what is added to one is not in the other."""
        copied = type(self).__new__(type(self))
        copied.__dict__.update(self.__dict__, _rules=list(self._rules))
        return copied

    def __repr__(self) -> str:
        count = f"{len(self._rules)} rule{'' if len(self._rules) == 1 else 's'}"
        fallback = None if self._fallback is None else self._fallback.value
        named = "" if self.name == "policy" else f", name={self.name!r}"
        return f"PermissionPolicy({count}, fallback={fallback}{named})"

    @property
    def rules(self) -> list[PermissionRule]:
        """The rules, in order. What is added or taken away counts from the next call on."""
        return self._rules

    @rules.setter
    def rules(self, rules: Iterable[PermissionRule]) -> None:
        if isinstance(rules, str | bytes | Mapping) or not isinstance(rules, Iterable):
            raise TypeError(
                fix_message(f"PermissionPolicy takes a list of rules (got: {rules!r})", "give a list", _POLICY)
            )
        listed: list[PermissionRule] = rules if isinstance(rules, list) else list(rules)
        for rule in listed:
            _check_rule(rule)
        self._rules = listed

    @property
    def fallback(self) -> PermissionResult | None:
        """What a call gets that no rule matches; None for no opinion."""
        return self._fallback

    @fallback.setter
    def fallback(self, fallback: PermissionResult | Literal["allow", "deny", "ask"] | None) -> None:
        what = "fallback= of a PermissionPolicy"
        self._fallback = None if fallback is None else checked_result(what, fallback, _POLICY)

    @property
    def handler(self) -> PermissionHandler | AsyncPermissionHandler | None:
        """Who answers when the policy asks, or None."""
        return self._handler

    @handler.setter
    def handler(self, handler: PermissionHandler | AsyncPermissionHandler | None) -> None:
        self._handler = None if handler is None else checked_handler("handler= of a PermissionPolicy", handler)

    def evaluate(self, tool: object, parameters: Mapping[str, Any]) -> PermissionRule | PermissionResult | None:
        """Return the first rule that matches a call, else the fallback. Nobody is asked, and nothing runs.

        Args:
            tool: The tool that would run: a `Tool`, a function, or what else stands for one in ``tools=``.
            parameters: Its arguments.

        Raises:
            TypeError: It is no tool, something in the rules is no rule, or a rule returned something that is truthy by
                mistake.
            ValueError: See `Tool`.
            Exception: Whatever a rule raised.
        """
        made = tool if isinstance(tool, Tool) else as_tool(tool, owner="policy.evaluate()")
        for rule in tuple(self.rules):
            _check_rule(rule)
            if rule.matches(made, parameters):
                return rule
        return self._fallback

    def denies(self) -> list[DenyPermission]:
        """Return a list of one `DenyPermission`: all that the policy's DENY rules deny.

        In an agent's list, deny permissions are asked first wherever they stand, so that no permission before the
        policy can hide its denials. It denies exactly the calls for which the policy comes to a DENY rule, as the rules
        are when the call is decided: a rule that stands before it in the policy keeps its say. A fallback is no rule.
        """
        return [DenyByPolicy(self)]


class DenyByPolicy(DenyPermission):
    """Denies the calls for which a policy comes to one of its DENY rules; `PermissionPolicy.denies` makes it.

    What a rule raises that is come to denies the call, as it does in the policy. Rules after the last that denies are
    not asked.

    Args:
        policy: The policy. Its rules are read anew for each call.
    """

    blocking: bool = False

    def __init__(self, policy: PermissionPolicy) -> None:
        self.policy = policy
        self.name: str | None = f"{policy.name} denies"

    def __repr__(self) -> str:
        return f"DenyByPolicy({self.policy!r})"

    @property
    def describes(self) -> list[str]:
        """The rules that deny, in order, for the log."""
        denies = [rule for rule in self.policy.rules if _is_rule(rule) and _may_deny(rule)]
        return [f"{self.name}: {rule.name} -> deny" for rule in denies] or [str(self.name)]

    def check(self, state: Any, call: ToolCall, tool: Tool) -> Any:
        """Say that a call is denied, and by which rule; None when the policy does not come to one that denies."""
        rules = tuple(self.policy.rules)
        last = max((place for place, rule in enumerate(rules) if _may_deny(rule)), default=-1)
        found = first_match(rules[: last + 1], call, tool, partial(undecided, self.policy.name))
        if isinstance(found, PermissionRule):
            return Said(denial_of(found, call), found.name, None, found) if _may_deny(found) else None
        return found


def first_match(
    rules: Iterable[PermissionRule], call: ToolCall, tool: Tool, failed: Callable[[str, Exception], Said]
) -> PermissionRule | Said | None:
    """Return the first rule that matches a call, or None; or what is said when the rules cannot tell.

    Args:
        rules: The rules, in the order of asking.
        call: The call.
        tool: The tool that would run.
        failed: Makes what is said of the name of the rule that failed and what it raised.
    """
    for rule in tuple(rules):
        if not _is_rule(rule):
            return failed("", TypeError(f"{type(rule).__name__} in its rules is no PermissionRule"))
        try:
            if rule.matches(tool, call.args):
                return rule
        except Exception as error:  # noqa: BLE001 - a rule of the user's may raise anything: that call is denied
            return failed(rule.name, error)
    return None


def _is_rule(rule: object) -> bool:
    return issubclass(type(rule), PermissionRule)  # its real type: a mock with a spec only claims to be one


def _may_deny(rule: object) -> bool:
    """Return whether something in the rules denies. What is no rule may be meant to, and denies where it is come to."""
    return not _is_rule(rule) or getattr(rule, "result", None) not in (PermissionResult.ALLOW, PermissionResult.ASK)


def _check_rule(rule: object) -> None:
    if isinstance(rule, type):
        problem, fix = f"{rule.__name__} (the class)", "make a rule of it"
    elif not _is_rule(rule):
        problem, fix = f"a {type(rule).__name__}", "make rules with agentperm_nb.PermissionRule"
    else:
        return
    raise TypeError(fix_message(f"{problem} among the rules of a PermissionPolicy is not a PermissionRule", fix, _RULE))


def _check_match(name: str, match: object) -> None:
    problem, fix = "", "give a function of the tool and its arguments"
    if isinstance(match, type):
        problem, fix = f"is the class {match.__name__}, which makes an object of every call", "give an object of it"
    elif not callable(match):
        problem = f"is not a function (got: {type(match).__name__})"
    elif any(map(inspect.iscoroutinefunction, (match, type(match).__call__))):
        problem, fix = "is async", "look up before what it awaits, or write a DecidePermission with acheck"
    elif any(check(part) for check in _GENERATORS for part in (match, type(match).__call__)):
        problem, fix = "is a generator", "return True or False, such as any(...), and do not yield"
    else:
        try:
            inspect.signature(match).bind(None, {})
        except TypeError:
            problem = "does not take exactly two arguments"
        except ValueError:
            pass  # a built-in without a signature: found when it is called
    if problem:
        raise TypeError(fix_message(f"match= of the rule {name!r} {problem}", fix, _RULE))


_GENERATORS = (inspect.isgeneratorfunction, inspect.isasyncgenfunction)


def _mistake(answer: object) -> tuple[str, str]:
    """Return what is truthy by mistake about an answer, and what to do; both empty when it is an answer."""
    kind = type(answer)
    if inspect.iscoroutine(answer):
        answer.close()  # the error says it; that it was never awaited need not be said too
    if hasattr(kind, "__await__") or hasattr(kind, "__anext__") or inspect.isawaitable(answer):
        return f"a {kind.__name__}, which would have to be awaited", "look up before the call what has to be awaited"
    if issubclass(kind, Iterator):
        return f"a {kind.__name__}", "put any(...) or all(...) around it"
    if callable(answer):
        named = getattr(answer, "__name__", kind.__name__)
        return f"{named}, which could be called", "call it, or return True or False"
    return "", ""
