"""Patterns on command lines, code and queries: what they cannot see.

1. An allow by a pattern also allows what a shell makes of the rest of the text: other options, a second command, the
   output of a third. The example is a call that the rule does allow.
2. A deny by a pattern can be spelt round. The example is a call that the rule does not deny.
3. A whole command without wildcards is one text, and says what it means.
4. A pattern that looks like one of paths, on an argument that is read as a text, sees no ``..``, no ``./`` and no link.
"""

from __future__ import annotations

from collections.abc import Iterator

from agentperm_nb.calls import ToolCall
from agentperm_nb.permissions.arguments import ArgumentRule
from agentperm_nb.permissions.commands import language_of
from agentperm_nb.permissions.linting.examples import call_for, in_words, texts_of
from agentperm_nb.permissions.linting.findings import Finding
from agentperm_nb.permissions.linting.units import Subject
from agentperm_nb.permissions.matching.conditions import Condition
from agentperm_nb.permissions.matching.declared import declared_by
from agentperm_nb.permissions.matching.lists import AnyOf, EveryOf
from agentperm_nb.permissions.matching.reading import Matcher
from agentperm_nb.permissions.matching.texts import Pattern, Text
from agentperm_nb.permissions.matching.values import Not, OneOf
from agentperm_nb.tools import Tool

__all__ = ["paths_as_texts", "text_rules"]

_ADDED = {
    "shell": ("; rm -rf ~", " --output=/etc/passwd", " && rm -rf ~"),
    "code": ("\nimport shutil; shutil.rmtree('data')", "; import shutil; shutil.rmtree('data')"),
    "SQL": ("; DROP TABLE orders", " UNION SELECT * FROM users"),
}
_WORKS_ON = {"shell": "a shell", "code": "an interpreter", "SQL": "a database"}


def text_rules(subject: Subject) -> Iterator[Finding]:
    """Yield the rules that hold a pattern against a command, code or a query."""
    for (permission, name), units in zip(subject.order, subject.units, strict=True):
        if not isinstance(permission, ArgumentRule) or not units:
            continue
        about = subject.about(units[0])
        for condition in permission.conditions:
            tools: list[Tool | None] = [tool for tool in about if language_of(tool.name, condition.field.text)] or (
                [None] if not subject.tools and language_of(permission.tool, condition.field.text) else []
            )
            if tools and _by_pattern(condition, tools[0], allow=permission.verb == "allow"):
                yield _finding(permission, name, condition, tools[0])
                break


def paths_as_texts(subject: Subject) -> Iterator[Finding]:
    """Yield the rules that hold a pattern of paths against an argument that is read as a text."""
    for (permission, name), units in zip(subject.order, subject.units, strict=True):
        if not isinstance(permission, ArgumentRule) or not units:
            continue
        for condition in permission.conditions:
            patterns = [one.pattern for one in _patterns_in(condition.matcher) if _looks_like_path(one.pattern)]
            tool = next((tool for tool in subject.about(units[0]) if patterns and _is_text(condition, tool)), None)
            if tool is not None:
                yield _path_as_text(permission, name, condition, patterns[0], tool)
                break


def _patterns_in(matcher: Matcher) -> Iterator[Pattern]:
    if isinstance(matcher, AnyOf | EveryOf | Not):
        yield from _patterns_in(matcher.inner)
    elif isinstance(matcher, OneOf):
        for member in matcher.members:
            yield from _patterns_in(member)
    elif isinstance(matcher, Pattern):
        yield matcher


def _looks_like_path(pattern: str) -> bool:
    if "://" in pattern or any(map(str.isspace, pattern)):
        return False
    return pattern.startswith(("~/", "/", "./", "../")) or "/" in pattern.strip("*")


def _is_text(condition: Condition, tool: Tool) -> bool:
    if language_of(tool.name, condition.field.text):
        return False
    try:
        matcher = condition.matcher_for(declared_by(tool).slot(condition.field))
    except ValueError:
        return False
    return any(True for _ in _texts_in(matcher))


def _path_as_text(rule: ArgumentRule, name: str, condition: Condition, pattern: str, tool: Tool) -> Finding:
    field, argument = condition.field.text, condition.field.argument
    return Finding(
        "path-as-text",
        f"{pattern} looks like a pattern of paths, and {field} of {tool.name} is read as a text, in which '..', './' "
        "and links mean nothing.",
        f"write {field}=path({pattern}), or say it of the tool: @tool(paths=[{argument!r}]). Where it is meant as a "
        f"text, write {field}=text({pattern})",
        name,
        f"{tool.name}({field}={'./' + pattern.replace('*', 'x')!r}) is another text, and the same file",
    )


def _by_pattern(condition: Condition, tool: Tool | None, *, allow: bool) -> bool:
    """Return whether a condition holds a pattern against a text: one with wildcards, or in an allow its opposite."""
    try:
        matcher = condition.matcher_for(declared_by(tool).slot(condition.field))
    except ValueError:
        return False
    return any(
        (not text.glob.literal or (opposite and allow)) and bool(text.pattern.strip("*"))
        for text, opposite in _texts_in(matcher)
    )


def _texts_in(matcher: Matcher, opposite: bool = False) -> Iterator[tuple[Text, bool]]:
    if isinstance(matcher, AnyOf | EveryOf):
        yield from _texts_in(matcher.inner, opposite)
    elif isinstance(matcher, Not):
        yield from _texts_in(matcher.inner, not opposite)
    elif isinstance(matcher, OneOf):
        for member in matcher.members:
            yield from _texts_in(member, opposite)
    elif isinstance(matcher, Text):
        yield matcher, opposite


def _finding(rule: ArgumentRule, name: str, condition: Condition, tool: Tool | None) -> Finding:
    language = language_of(tool.name if tool is not None else rule.tool, condition.field.text)
    by = _WORKS_ON[language]
    if rule.verb == "allow":
        call = None if tool is None else _also_allowed(rule, condition, tool, language)
        return Finding(
            "prefix-allow",
            f"A pattern sees the text of {condition.field} and not what {by} does with it: other options and a second "
            "command fit it, too.",
            "allow whole texts without wildcards, several in braces, and leave the rest to a person",
            name,
            f"{in_words(call)} is allowed by it" if call is not None else "",
        )
    call = None if tool is None else _spelt_round(rule, condition, tool, language)
    done = {"deny": "denied", "ask": "asked about"}[rule.verb]
    return Finding(
        "text-rule-on-command",
        f"A pattern sees the text of {condition.field}, not what {by} does with it, and the same has other spellings.",
        "allow what may run, and deny or ask about the rest; a deny by pattern is a hint, not a wall",
        name,
        f"{in_words(call)} is not {done} by it" if call is not None else "",
        "note",
    )


def _text_of(call: ToolCall | None, condition: Condition) -> str | None:
    value = None if call is None or not condition.field.plain else call.args.get(condition.field.argument)
    return value if isinstance(value, str) else None


def _also_allowed(rule: ArgumentRule, condition: Condition, tool: Tool, language: str) -> ToolCall | None:
    call = call_for(rule, tool)
    text = _text_of(call, condition)
    if call is None or text is None:
        return None
    for added in _ADDED[language]:
        for other in (f"{text}{added}", f"{added.lstrip('; &')} {text}", f"{added.lstrip('; &')}; {text}"):
            made = ToolCall(call.name, {**call.args, condition.field.argument: other})
            if rule.check(None, made, tool) is not None:
                return made
    return call


def _spelt_round(rule: ArgumentRule, condition: Condition, tool: Tool, language: str) -> ToolCall | None:
    call = call_for(rule, tool)
    matcher = condition.matcher_for(declared_by(tool).slot(condition.field))
    texts = [text for text in texts_of(matcher) if isinstance(text, str) and text.strip()]
    if call is None or not condition.field.plain:
        return None
    for text in texts[:3]:
        for other in _otherwise(text.strip(), language):
            made = ToolCall(call.name, {**call.args, condition.field.argument: other})
            if rule.check(None, made, tool) is None:
                return made
    return None


def _otherwise(text: str, language: str) -> Iterator[str]:
    """Yield texts that mean the same."""
    if language == "shell":
        first, _, rest = text.partition(" ")
        yield f"{first[:1]}\\{first[1:]} {rest}".strip()
        yield f'"{first[:1]}"{first[1:]} {rest}'.strip()
        yield text.replace(" ", "  ")
        yield f"$(echo {first}) {rest}".strip()
        yield f"eval {text!r}"
    elif language == "SQL":
        yield text.replace(" ", "/**/")
        yield text.replace(" ", "\n")
    else:
        yield text.replace("(", " (").replace(".", " .")
        half = len(text) // 2
        yield f"exec({text[:half]!r} + {text[half:]!r})"
