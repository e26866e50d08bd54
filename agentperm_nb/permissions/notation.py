"""The notation of rules: ``allow|deny|ask TOOL(condition, …) because "reason"``.

::

    rule       verb TOOL [ "(" condition { "," condition } ")" ] [ [ "because" ] TEXT ]
    verb       allow | deny | ask
    condition  FIELD "=" term      FIELD "!=" atom    FIELD "in" set   FIELD "not in" set
               FIELD "<=" bound    (also < > >=)      bound "<=" FIELD "<=" bound   (also <)
               FIELD "present"     FIELD "absent"
    FIELD      name { "." name | "[*]" }              a name with other characters in double quotes
    term       [ any | every ] [ "!" ] atom
    atom       NUMBER | true | false | null | DATE | bound ".." bound | set | @DOMAIN | TEXT | WORD
               text(…) | path(…) | mail(…) | json(…)
    set        "{" atom { "," atom } "}"

1. A WORD is a pattern, and goes on to the next comma or closing bracket, spaces within it included. What has commas,
   brackets, braces or quotes in it stands in double quotes, with the escapes of JSON: that is a TEXT, also where it
   looks like a number. Wildcards work in both.
2. What is read is written again as the same: ``rule(str(r)) == r``, and ``str(rule(text))`` is the one way to write it.
3. An error shows the text with a mark below the character.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable
from typing import Any

from agentperm_nb.errors import fix_message
from agentperm_nb.permissions.arguments import AllowByArguments, ArgumentRule, AskByArguments, DenyByArguments
from agentperm_nb.permissions.matching.conditions import Condition
from agentperm_nb.permissions.matching.dates import Dates
from agentperm_nb.permissions.matching.fields import Field, FieldError, Presence, scan_field
from agentperm_nb.permissions.matching.lists import AnyOf, EveryOf
from agentperm_nb.permissions.matching.mails import Mail
from agentperm_nb.permissions.matching.numbers import Numbers
from agentperm_nb.permissions.matching.reading import Matcher
from agentperm_nb.permissions.matching.texts import Pattern, Text
from agentperm_nb.permissions.matching.values import Exact, Not, OneOf
from agentperm_nb.permissions.matching.writing import DATE, KINDS, NUMBER
from agentperm_nb.permissions.scanning import EXAMPLE, Scanner

__all__ = ["rule", "rules"]

_VERBS: dict[str, type[ArgumentRule]] = {"deny": DenyByArguments, "allow": AllowByArguments, "ask": AskByArguments}

_VERB = re.compile(r"\S*")
_TOOL = re.compile(r"[^\s(){},\"]*")
_ANOTHER_TOOL = re.compile(r"(?!because\s)[^\s(){},\"]")
_BOUND = re.compile(rf"({DATE})|({NUMBER})")
_BOUND_FIRST = re.compile(rf"(?:{DATE}|{NUMBER})\s*[<>]")
_RANGE = re.compile(rf"({DATE}|{NUMBER})?(<)?\.\.(<)?({DATE}|{NUMBER})?")
_QUANTIFIER = re.compile(r"(any|every)(?=\s)")
_KIND = re.compile(rf"({'|'.join(KINDS)})\(")
_PRESENCE = re.compile(r"(present|absent)\b")
_IN = re.compile(r"(not\s+)?in\b(?=\s*\{)")
_OPERATOR = re.compile(r"!=|<=|>=|==|=<|=>|=|<|>")


def rule(text: str, *, name: str | None = None, verb: str | None = None) -> ArgumentRule:
    """Return the rule that a text says.

    Args:
        text: The rule in its notation, such as ``deny read_file(path=**/.env)``.
        name: What the log calls it; its notation when left out.
        verb: ``allow``, ``deny`` or ``ask``, for a text without one.

    Raises:
        TypeError: `text` or `name` is not a string.
        ValueError: The text is no rule, or one that can match nothing; the message shows where.
    """
    if not isinstance(text, str):
        raise TypeError(fix_message(f"rule() takes a text (got: {text!r})", "write the rule as a text", EXAMPLE))
    return _Parser(text, name, verb=verb).rule()


def rules(source: str | Iterable[str]) -> list[ArgumentRule]:
    """Return the rules of a text with one a line, or of a list of texts.

    Empty lines, and what follows a ``#`` at the start of a line or after a rule, are left out.

    Args:
        source: The text, or the texts.

    Raises:
        TypeError: It is neither.
        ValueError: A line is no rule; the message shows where.
    """
    if isinstance(source, str):
        lines = list(enumerate(source.splitlines(), 1))
        numbered = [(number, line) for number, line in lines if line.strip() and not line.lstrip().startswith("#")]
        return [_Parser(line, None, f" in line {number}", comments=True).rule() for number, line in numbered]
    texts = list(source) if isinstance(source, Iterable) and not isinstance(source, bytes) else None
    if texts is None or not all(isinstance(text, str) for text in texts):
        raise TypeError(fix_message(f"rules() takes a text, or texts (got: {source!r})", "give a list", EXAMPLE))
    return [rule(text) for text in texts]


class _Parser(Scanner):
    """Reads one rule, from left to right."""

    def __init__(
        self, text: str, name: str | None, where: str = "", *, comments: bool = False, verb: str | None = None
    ) -> None:
        super().__init__(text, where)
        self.name, self.verb = name, verb
        self.comments = comments

    # --- the rule -----------------------------------------------------------------------------------------------------

    def rule(self) -> ArgumentRule:
        self.space()
        start = self.at
        verb = self.verb if self.verb is not None else self.take(_VERB)
        if verb not in _VERBS:
            problem = "there is nothing in it" if start == len(self.text) else "it begins with none of allow, deny, ask"
            self.fail(problem, "begin with allow, deny or ask, in lower case", start)
        self.space()
        start = self.at
        tool = self.string() if self.peek('"') else self.take(_TOOL)
        if not tool:
            fix = "write the name of the tool after the verb" if self.verb is None else "begin with the name of a tool"
            self.fail("the name of a tool is missing", fix, start)
        self.space()
        if self.verb is not None and tool in _VERBS and _ANOTHER_TOOL.match(self.text, self.at):
            self.fail(f"it begins with {tool}, and here a rule has no verb", "leave the verb out", start)
        conditions = self.conditions() if self.peek("(") else []
        self.space()
        reason = self.reason()
        self.space()
        if self.at < len(self.text) and not (self.comments and self.peek("#")):
            self.fail("the rule has ended before this", "put the reason in double quotes, and one rule in a line")
        arguments = [(str(condition.field), condition.matcher) for condition in conditions]
        return self.made(lambda: _VERBS[verb](tool, reason=reason, name=self.name, arguments=arguments), start)

    def reason(self) -> str | None:
        if self.text.startswith("because", self.at):
            self.at += len("because")
            self.space()
            if not self.peek('"'):
                self.fail("a reason in double quotes is missing", 'write because "…"')
        if not self.peek('"'):
            return None
        start = self.at
        text = self.string()
        if not text.strip():
            self.fail("the reason is empty", "say why in words, or leave it out", start)
        return text

    def conditions(self) -> list[Condition]:
        self.at += 1
        self.space()
        if self.peek(")"):
            self.fail("there is no condition between the brackets", "write one, or leave the brackets out")
        found = [self.condition()]
        while True:
            self.space()
            if self.peek(")"):
                self.at += 1
                return found
            if not self.peek(","):
                missing = "the closing bracket is missing" if self.at == len(self.text) else "a comma is missing"
                self.fail(missing, "separate conditions with commas, and put a text with spaces, commas or "
                          "brackets in double quotes")  # fmt: skip
            self.at += 1
            self.space()
            found.append(self.condition())

    # --- a condition --------------------------------------------------------------------------------------------------

    def condition(self) -> Condition:
        start = self.at
        if _BOUND_FIRST.match(self.text, self.at):
            return self.between()
        field = self.field()
        self.space()
        if (presence := _PRESENCE.match(self.text, self.at)) is not None:
            self.at = presence.end()
            return Condition(field, Presence(presence[1] == "present"))
        if (member := _IN.match(self.text, self.at)) is not None:
            self.at = member.end()
            self.space()
            start = self.at
            found = self.set()
            return self.made(lambda: Condition(field, Not(found) if member[1] else found), start)
        operator = self.operator()
        self.space()
        start = self.at
        if operator in ("<", "<=", ">", ">="):
            compared = self.compared(operator)
            return self.made(lambda: Condition(field, compared), start)
        matcher = self.opposite() if operator == "!=" else self.term()
        return self.made(lambda: Condition(field, matcher), start)

    def between(self) -> Condition:
        start = self.at
        low = self.bound()
        self.space()
        first = self.take(re.compile(r"<=|<|>=?"))
        if first.startswith(">"):
            self.fail("the greater bound comes first", "put the smaller bound first: 0<amount<=100", start)
        self.space()
        field = self.field()
        self.space()
        high: Any = None
        second = self.take(re.compile(r"<=|<|"))
        if second:
            self.space()
            high = self.bound()
        return self.made(
            lambda: Condition(field, _between(low, high, first == "<", second == "<")),
            start,
        )

    def field(self) -> Field:
        try:
            found, self.at = scan_field(self.text, self.at)
        except FieldError as error:
            fix = "write the name of an argument, then what is asked of it: path=…, amount<=100, note present"
            self.fail(str(error), fix, error.at)
        return found

    def operator(self) -> str:
        start = self.at
        operator = self.take(_OPERATOR)
        if operator in ("==", "=<", "=>"):
            self.fail("this is no operator", f"write {'=' if operator == '==' else operator[::-1]}", start)
        if not operator:
            fix = "write =, !=, <, <=, >, >=, in {…}, not in {…}, present or absent; a comma in a text needs quotes"
            self.fail("what is asked of the argument is missing", fix, start)
        return operator

    def bound(self) -> Any:
        found = _BOUND.match(self.text, self.at)
        after = "" if found is None else self.text[found.end() : found.end() + 1]
        if found is None or (after not in ("", ",", ")", "}", "<", ">") and not after.isspace()):
            self.fail("a number or a date is missing", "write a number as 100 or 0.5, a date as 2026-01-31")
        start, self.at = self.at, found.end()
        if found[1]:
            return found[1]
        return self.made(lambda: _number(found[2]), start)

    def compared(self, operator: str) -> Matcher:
        start = self.at
        bound = self.bound()
        low, high = (bound, None) if operator[0] == ">" else (None, bound)
        return self.made(lambda: _between(low, high, operator == ">", operator == "<"), start)

    # --- a term -------------------------------------------------------------------------------------------------------

    def term(self) -> Matcher:
        start = self.at
        quantifier = self.take(_QUANTIFIER)
        if not quantifier:
            return self.maybe_opposite(")", compare=False)
        self.space()
        inner = self.maybe_opposite(")", compare=True)
        return self.made(lambda: (AnyOf if quantifier == "any" else EveryOf)(inner), start)

    def maybe_opposite(self, end: str, *, compare: bool) -> Matcher:
        if not self.peek("!"):
            return self.atom(end, compare=compare)
        self.at += 1
        self.space()
        return self.opposite()

    def opposite(self) -> Matcher:
        start = self.at
        if self.peek("!"):
            self.fail("one ! is enough", "write it once", start)
        if _QUANTIFIER.match(self.text, self.at):
            self.fail("! cannot stand before any or every", "write any !… or every !…", start)
        inner = self.atom(")", compare=True)
        return self.made(lambda: Not(inner), start)

    def atom(self, end: str, *, compare: bool) -> Matcher:
        start = self.at
        if self.peek("{"):
            if end == "}":
                self.fail("a set stands in a set", "put all values into one")
            return self.set()
        if self.peek('"'):
            text = self.string()
            return self.made(lambda: Pattern(text), start)
        if self.peek("<") or self.peek(">"):
            if not compare:
                self.fail("the operator is doubled", "write amount<=100")
            operator = self.take(re.compile(r"[<>]=?"))
            self.space()
            return self.compared(operator)
        if _QUANTIFIER.match(self.text, self.at):
            self.fail("any or every stands right after =", "write it once, or put the text in double quotes")
        if (kind := _KIND.match(self.text, self.at)) is not None:
            return self.kind(kind[1])
        word = self.word(end)
        return self.made(lambda: _matcher_of_word(word), start)

    def set(self) -> OneOf:
        start = self.at
        self.at += 1
        members: list[Matcher] = []
        while True:
            self.space()
            if self.peek("}") and not members:
                self.fail("there is nothing in the set", "put values between the braces: {r, rb}")
            if self.peek("!"):
                self.fail("a member of a set cannot be the opposite of something", "put the ! before the set")
            members.append(self.atom("}", compare=True))
            self.space()
            if self.peek("}"):
                self.at += 1
                return self.made(lambda: OneOf(members), start)
            if not self.peek(","):
                self.fail("the closing brace is missing", "separate members with commas, and close the brace")
            self.at += 1

    def kind(self, word: str) -> Matcher:
        start = self.at
        self.at += len(word) + 1
        self.space()
        inner = self.at
        if word == "json":
            value = self.json()
            self.close()
            return self.made(lambda: Exact(value), start)
        if self.peek('"'):
            pattern = self.string()
            self.close()
        else:
            pattern = self.nested()
        if word == "text":
            return self.made(lambda: Text(pattern), inner)
        if word == "mail":
            return self.made(lambda: Mail(pattern), inner)
        from agentperm_nb.permissions.matching.paths import PathPattern

        return self.made(lambda: PathPattern(pattern), inner)

    def close(self) -> None:
        self.space()
        if not self.peek(")"):
            self.fail("the closing bracket is missing", "close it after the value")
        self.at += 1

    def nested(self) -> str:
        """Read to the bracket that closes; brackets inside come in pairs."""
        start, depth = self.at, 0
        while True:
            if self.at >= len(self.text):
                fix = "close it, or put the pattern in double quotes"
                self.fail("the closing bracket is missing", fix, len(self.text))
            char = self.text[self.at]
            if char == "\\":
                self.at += 1
            elif char == ")" and depth == 0:
                word = self.text[start : self.at].strip()
                if not word:
                    self.fail("a pattern is missing", "write it between the brackets")
                self.at += 1
                return word
            elif char in "()":
                depth += 1 if char == "(" else -1
            self.at += 1

    def word(self, end: str) -> str:
        start = self.at
        while self.at < len(self.text):
            char = self.text[self.at]
            if char in "," + end:
                break
            if char in '(){}"':
                fix = "put the text in double quotes, or a backslash before the character"
                self.fail(f"{char} cannot stand in a text without quotes", fix)
            self.at += 2 if char == "\\" else 1
        self.at = min(self.at, len(self.text))
        word = self.text[start : self.at].rstrip()
        if not word:
            self.fail("a value is missing", 'write one; an empty text is ""', start)
        if word[0] == "'":
            self.fail("a text stands in double quotes", 'write "…"', start)
        if word[0] == "=":
            self.fail("one = is enough", "write it once, or put the text in double quotes", start)
        if word in ("any", "every"):
            self.fail("what is asked of the elements is missing", f"write {word} and a value", start + len(word))
        return word


def _number(text: str) -> float:
    return float(text) if re.search(r"[.eE]", text) else int(text)


def _between(low: Any, high: Any, low_open: bool, high_open: bool) -> Matcher:
    if all(bound is None or isinstance(bound, str) for bound in (low, high)):
        return Dates(low, high, low_open=low_open, high_open=high_open)
    if any(isinstance(bound, str) for bound in (low, high)):
        raise TypeError(fix_message("one bound is a number and the other a date", "give two of one kind", EXAMPLE))
    return Numbers(low, high, low_open=low_open, high_open=high_open)


def _matcher_of_word(word: str) -> Matcher:
    if word in ("true", "false", "null"):
        return Exact(json.loads(word))
    if word[0] == "@":
        return Mail(word)
    found = _BOUND.fullmatch(word)
    if found is not None:
        bound = _bound_of(word)
        return _between(bound, bound, False, False)
    ranged = _RANGE.fullmatch(word)
    if ranged is not None and (ranged[1] or ranged[4]):
        low, high = _bound_of(ranged[1]), _bound_of(ranged[4])
        return _between(low, high, ranged[2] is not None, ranged[3] is not None)
    return Pattern(word)


def _bound_of(text: str | None) -> Any:
    if text is None:
        return None
    return _number(text) if re.fullmatch(NUMBER, text) else text
