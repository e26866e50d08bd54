"""What may be shown or stored: secrets are masked before a value reaches a panel, a table, a text or the log.

1. A value below a secret-looking name (``password``, ``api_key``, ``Authorization`` and their spellings) is masked
   whole, whatever its type.
2. In every other text the parts that look like a secret are masked: private keys, tokens of known providers, JWTs,
   ``name=value`` and header lines with a secret-looking name, passwords and secret parameters in URLs.
3. A text that is JSON is looked into like the value it stands for.
4. The arguments that run are never touched: masking makes a copy.

It errs on the side of masking. It cannot know a secret that looks like any other word: name such arguments with
``@tool(secret=["body"])`` or give the agent a function with ``redact=``.
"""

from __future__ import annotations

import itertools
import json
import re
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from agentperm_nb.calls import ToolCall, format_call
from agentperm_nb.errors import fix_message

__all__ = ["MASK", "Redactor", "is_secret_name", "mask_text"]

MASK = "[masked]"

_WORDS = {
    "password", "passwords", "passwd", "passphrase", "pwd", "pin", "secret", "secrets", "token", "tokens",
    "authorization", "authentication", "credential", "credentials", "apikey", "jwt", "bearer", "cookie", "cookies",
    "otp", "cvv", "cvc", "ssn", "privatekey", "accesskey", "secretkey", "signingkey", "encryptionkey", "clientsecret",
    "connectionstring", "sessionid", "csrf", "xsrf", "mnemonic",
}  # fmt: skip
_PAIRS = {
    ("api", "key"), ("api", "keys"), ("private", "key"), ("access", "key"), ("secret", "key"), ("signing", "key"),
    ("encryption", "key"), ("account", "key"), ("auth", "key"), ("shared", "key"), ("connection", "string"),
    ("session", "id"), ("seed", "phrase"), ("ssh", "key"), ("subscription", "key"), ("master", "key"),
    ("auth", "header"),
}  # fmt: skip
_RUN_TOGETHER = re.compile(
    r"passw(?:or)?d|passphrase|apikey|accesskey|secretkey|privatekey|authtoken|accesstoken|refreshtoken|idtoken"
    r"|clientsecret|bearertoken|sessiontoken"
)
# Names that contain a secret word and count or describe secrets instead of holding one.
_HARMLESS = re.compile(
    r"(?:max|min|num|total|n|count|input|output|prompt|completion|cached|reasoning|new|budget|limit|used)_?tokens?"
    r"|tokens?_?(?:count|limit|usage|budget|used|type|s_per_.*)|password_?(?:length|policy|hint)|pass_?(?:rate|count|through)"
)

_SEPARATE = re.compile(r"[^a-z0-9]+")
_CAMEL = re.compile(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])")


def is_secret_name(name: str) -> bool:
    """Return whether a value of this name is masked: ``api_key``, ``apiKey``, ``X-Api-Key`` and ``APIKEY`` alike."""
    snake = _SEPARATE.sub("_", _CAMEL.sub("_", name).lower()).strip("_")
    if _HARMLESS.fullmatch(snake):
        return False
    words = snake.split("_")
    return (
        not _WORDS.isdisjoint(words)
        or any(pair in _PAIRS for pair in itertools.pairwise(words))
        or words == ["pass"]
        or _RUN_TOGETHER.search(snake.replace("_", "")) is not None
    )


# Texts, not compiled patterns: importing the package costs everybody, and `re` keeps what it has compiled.
_SHAPES = [
    r"(?s)-----BEGIN [A-Z0-9 ]*PRIVATE KEY(?: BLOCK)?-----.*?(?:-----END [A-Z0-9 ]*PRIVATE KEY(?: BLOCK)?-----|\Z)",
    r"\beyJ[A-Za-z0-9_-]{8,}\.[A-Za-z0-9_-]{4,}(?:\.[A-Za-z0-9_-]*){0,3}",  # JWT and JWE
    r"\b(?:sk|pk|rk)[-_](?:live|test|proj|ant|or|svcacct|admin)[-_A-Za-z0-9]{3,}",
    r"\bsk-[A-Za-z0-9_-]{16,}",
    r"\b(?:gh[pousr]_[A-Za-z0-9]{20,}|github_pat_[A-Za-z0-9_]{20,}|glpat-[A-Za-z0-9_-]{16,})",
    r"\b(?:AKIA|ASIA|AGPA|AIDA|AROA)[A-Z0-9]{16}\b",
    r"\bxox[abeoprs]-[A-Za-z0-9-]{8,}|\bxapp-[A-Za-z0-9-]{8,}",
    r"\bAIza[A-Za-z0-9_-]{30,}|\bya29\.[A-Za-z0-9_-]{16,}",
    r"\b(?:hf_[A-Za-z0-9]{20,}|npm_[A-Za-z0-9]{30,}|pypi-[A-Za-z0-9_-]{40,}|SG\.[A-Za-z0-9_-]{16,}\.[A-Za-z0-9_-]{16,})",
    r"\b(?:dop_v1_[a-f0-9]{32,}|shp(?:at|ca|pa|ss)_[a-fA-F0-9]{32}|gsk_[A-Za-z0-9]{20,}|xai-[A-Za-z0-9]{20,})",
]
_BEARER = r"(?i)\b(bearer|basic|token|digest)(\s+)([A-Za-z0-9._~+/=-]{6,})"
_URL_USER = r"(?i)\b([a-z][a-z0-9+.-]*://[^\s/@:]*):([^\s/@]+)@"
# name = value, name: value, "name": "value", ?name=value&…; an HTTP header's value runs to the end of its line.
_HEADER = r"(?im)^([ \t]*(?:proxy-)?authorization|[ \t]*(?:set-)?cookie)([ \t]*:[ \t]*)([^\r\n]+)"
_ASSIGNED = r"""(?x) (?P<name> [A-Za-z_][A-Za-z0-9_.-]{1,60} ) (?P<between> ["']? \s{0,3} (?: = | : | =>) \s{0,3} )
    (?P<value> "(?:[^"\\]|\\.)*" | '(?:[^'\\]|\\.)*' | [^\s"'&,;<>(){}\[\]]+ )"""


def mask_text(text: str) -> str:
    """Return `text` with the parts that look like a secret replaced by ``[masked]``."""
    for shape in _SHAPES:
        text = re.sub(shape, MASK, text)
    text = re.sub(_HEADER, rf"\1\2{MASK}", text)
    text = re.sub(_URL_USER, rf"\1:{MASK}@", text)
    text = re.sub(_BEARER, _mask_bearer, text)
    return re.sub(_ASSIGNED, _mask_assigned, text)


def _mask_bearer(match: re.Match[str]) -> str:
    # "token" and "basic" are also ordinary words: what follows must look like a credential, not like prose.
    word, space, value = match.groups()
    looks_random = word.lower() == "bearer" or any(c.isdigit() for c in value)
    return f"{word}{space}{MASK}" if looks_random else match[0]


def _mask_assigned(match: re.Match[str]) -> str:
    if not is_secret_name(match["name"]) or match["value"].startswith(MASK):
        return match[0]
    quote = match["value"][0] if match["value"][0] in "\"'" else ""
    return f"{match['name']}{match['between']}{quote}{MASK}{quote}"


class Redactor:
    """Masks secrets in arguments, results, reasons and errors.

    Args:
        rules: Functions that are given each text and return it masked; they run after the built-in rules.

    Raises:
        TypeError: A rule is not callable.
    """

    def __init__(self, rules: Iterable[Callable[[str], str]] = ()) -> None:
        self._rules = tuple(rules)
        for rule in self._rules:
            if not callable(rule):
                raise TypeError(
                    fix_message(
                        f"redact= takes functions from text to text (got: {rule!r})",
                        "give a list of functions",
                        "Agent(tools, redact=[lambda text: text.replace('ACME-42', '[masked]')])",
                    )
                )

    def text(self, text: str) -> str:
        """Return `text` with secrets masked, also in JSON inside it."""
        inner = _json_container(text)
        if inner is not None:
            masked = self.value(inner)
            text = text if masked == inner else json.dumps(masked, ensure_ascii=False)
        else:
            text = mask_text(text)
        for rule in self._rules:
            text = self._apply(rule, text)
        return text

    @staticmethod
    def _apply(rule: Callable[[str], str], text: str) -> str:
        try:
            masked = rule(text)
        except Exception:  # noqa: BLE001 - a rule that fails must not let the text through
            return MASK
        return masked if isinstance(masked, str) else MASK

    def value(self, value: Any, *, secret: Iterable[str] = ()) -> Any:
        """Return a copy of a JSON value with secrets masked.

        Args:
            value: Anything; what is not JSON becomes its masked ``repr``.
            secret: Names whose values are masked whole, at any depth.
        """
        return self._value(value, frozenset(secret))

    def call(self, call: ToolCall, secret: Iterable[str] = ()) -> str:
        """Return a call as text, ``name(key=value, …)``, with secrets masked."""
        return format_call(ToolCall(call.name, self.value(call.args, secret=secret)))

    def _value(self, value: Any, secret: frozenset[str]) -> Any:
        if isinstance(value, str):
            return self.text(value)
        if value is None or isinstance(value, bool | int | float):
            return value
        if isinstance(value, Mapping):
            return {
                self.text(key) if isinstance(key, str) else repr(key): MASK
                if isinstance(key, str) and item is not None and (key in secret or is_secret_name(key))
                else self._value(item, secret)
                for key, item in value.items()
            }
        if isinstance(value, list | tuple):
            return [self._value(item, secret) for item in value]
        try:
            return self.text(repr(value))
        except Exception:  # noqa: BLE001 - a foreign repr may do anything
            return MASK


def _json_container(text: str) -> Any:
    """Return the list or dict that `text` is as JSON, else None."""
    stripped = text.strip()
    if not (stripped.startswith(("{", "[")) and stripped.endswith(("}", "]"))):
        return None
    try:
        value = json.loads(stripped)
    except (ValueError, RecursionError):
        return None
    return value if isinstance(value, dict | list) else None
