"""What may be shown or stored: secrets are masked before a value reaches a panel, a table, a text or the log.

1. A value below a secret-looking name (``password``, ``api_key``, ``Authorization`` and their spellings) is masked
   whole, whatever its type.
2. In every other text the parts that look like a secret are masked: private keys, tokens of known providers, JWTs,
   ``name=value`` and header lines with a secret-looking name, passwords and secret parameters in URLs.
3. A text that is JSON is looked into like the value it stands for. What is nested more than 100 levels deep is masked.
4. The arguments that run are never touched: masking makes a copy.

It errs on the side of masking. It cannot know a secret that looks like any other word: name such arguments with
``@tool(secret=["body"])`` or give the agent a function with ``redact=``.
"""

from __future__ import annotations

import base64
import itertools
import json
import re
import unicodedata
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from agentperm_nb.calls import ToolCall, format_call, same_json
from agentperm_nb.errors import fix_message

__all__ = ["MASK", "Redactor", "is_secret_name", "mask_text"]

MASK = "[masked]"
_MOST_LEVELS = 100  # what is nested deeper is masked whole

_WORDS = {
    "password", "passwords", "passwd", "passphrase", "passcode", "pwd", "pw", "pin", "secret", "secrets", "token",
    "tokens", "authorization", "authentication", "credential", "credentials", "cred", "creds", "apikey", "jwt",
    "bearer", "cookie", "cookies", "otp", "totp", "cvv", "cvc", "ssn", "privatekey", "accesskey", "secretkey",
    "signingkey", "encryptionkey", "clientsecret", "connectionstring", "sessionid", "jsessionid", "phpsessid", "csrf",
    "xsrf", "mnemonic", "passwort", "kennwort", "contraseña", "contrasena", "senha", "motdepasse", "пароль", "密码",
    "密碼", "パスワード",
}  # fmt: skip
_KEYS = {
    "api", "private", "access", "secret", "signing", "encryption", "decryption", "account", "auth", "shared", "ssh",
    "subscription", "master", "app", "consumer", "client", "deploy", "service", "vault", "hmac", "aes", "rsa",
    "storage", "openai", "anthropic", "gemini", "azure", "aws", "github", "gitlab", "stripe", "twilio", "sendgrid",
    "huggingface", "hf", "cohere", "mistral", "groq", "slack",
}  # fmt: skip
_CODES = {"recovery", "backup", "verification", "security", "mfa", "auth", "sms", "2fa"}
_PASSES = {
    "db", "database", "user", "usr", "smtp", "mail", "email", "root", "admin", "ftp", "mysql", "pg", "postgres",
    "redis", "mongo", "sql", "wifi", "ssh", "login", "sudo", "ldap", "proxy", "http", "auth", "service", "app",
    "rabbitmq",
}  # fmt: skip
_PAIRS = {
    *((word, "key") for word in _KEYS), *((word, "code") for word in _CODES), *((word, "pass") for word in _PASSES),
    ("connection", "string"), ("conn", "string"), ("conn", "str"), ("session", "id"), ("seed", "phrase"),
    ("auth", "header"), ("github", "pat"), ("gitlab", "pat"), ("azure", "pat"), ("amz", "signature"),
}  # fmt: skip
_RUN_TOGETHER = re.compile(
    r"passw(?:or)?d|passphrase|passcode|apikey|accesskey|secretkey|privatekey|authtoken|accesstoken|refreshtoken"
    r"|idtoken|clientsecret|bearertoken|sessiontoken|^(?:db|user|smtp|root|admin|mysql|pg)pass$"
)
# Names that contain a secret word and count or describe secrets instead of holding one. "new_token" may well hold one.
_AMOUNT = r"(?:max|min|num|number_of|total|n|count|avg|mean|budget|limit|used|remaining)"
_PART = r"(?:input|output|prompt|completion|cached?|reasoning|thinking|context|audio|image|text)"
_HARMLESS = re.compile(
    rf"(?:{_AMOUNT}_)+(?:(?:{_PART}|new|creation|read|write)_)*tokens?"
    rf"|{_PART}_(?:(?:{_PART}|creation|read|write)_)*tokens(?:_details)?"
    r"|(?:eos|bos|pad|unk|sep|cls|mask|stop|special|start|end)_tokens?"
    r"|(?:[a-z]+_)*tokens?_(?:counts?|limit|usage|budget|used|types?|ids?|per_.*|s_per_.*|length|len|index|size|cost"
    r"|price|expires|expires_in|expires_at|expiry|expiration|ttl|url|uri|endpoint|name|format)"
    r"|(?:[a-z]+_)*password_(?:(?:min_|max_)?length|policy|hint|strength|required|changed_at|expires_at)"
    r"|(?:is|has)_.*|pass_(?:rate|count|through)"
)

_SEPARATE = re.compile(r"[\W_]+")
_CAMEL = re.compile(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])")


def is_secret_name(name: str) -> bool:
    """Return whether a value of this name is masked: ``api_key``, ``apiKey``, ``X-Api-Key`` and ``APIKEY`` alike."""
    if not name.isascii():
        name = unicodedata.normalize("NFKC", name)
    snake = _SEPARATE.sub("_", _CAMEL.sub("_", name).lower()).strip("_")
    if _HARMLESS.fullmatch(snake):
        return False
    words = snake.split("_")
    return (
        not _WORDS.isdisjoint(words)
        or any((one, two.removesuffix("s")) in _PAIRS or (one, two) in _PAIRS for one, two in itertools.pairwise(words))
        or words == ["pass"]
        or words[-1] == "auth"
        or _RUN_TOGETHER.search(snake.replace("_", "")) is not None
    )


# Each of these takes time in proportion to the text, whatever the text: no two parts of a pattern, and no two starting
# places, may read the same long run again.
_SHAPES = [
    re.compile(
        r"-----BEGIN [A-Z0-9 ]*PRIVATE KEY(?: BLOCK)?-----.*?(?:-----END [A-Z0-9 ]*PRIVATE KEY(?: BLOCK)?-----|\Z)",
        re.S,
    ),
    *(
        re.compile(rf"(?<![A-Za-z0-9])(?:{shape})")
        for shape in (
            r"(?:sk|pk|rk)[-_](?:live|test|proj|ant|or|svcacct|admin)[-_][-_A-Za-z0-9]{3,}",
            r"sk-(?=[A-Za-z_-]{0,40}[0-9])[A-Za-z0-9_-]{16,}",
            r"gh[pousr]_[A-Za-z0-9]{20,}|github_pat_[A-Za-z0-9_]{20,}|gl[a-z]{2,4}-[A-Za-z0-9_-]{16,}",
            r"(?:AKIA|ASIA|AGPA|AIDA|AROA)[A-Z0-9]{16}(?![A-Za-z0-9])",
            r"xox[abeoprs]-[A-Za-z0-9-]{8,}|xapp-[A-Za-z0-9-]{8,}|hooks\.slack\.com/services/[A-Za-z0-9/_-]{8,}",
            r"AIza[A-Za-z0-9_-]{30,}|ya29\.[A-Za-z0-9_-]{16,}",
            r"hf_[A-Za-z0-9]{20,}|npm_[A-Za-z0-9]{30,}|pypi-[A-Za-z0-9_-]{40,}|dckr_pat_[A-Za-z0-9_-]{16,}",
            r"SG\.[A-Za-z0-9_-]{16,}\.[A-Za-z0-9_-]{16,}|whsec_[A-Za-z0-9]{16,}",
            r"dop_v1_[a-f0-9]{32,}|shp(?:at|ca|pa|ss)_[a-fA-F0-9]{32}|dapi[a-f0-9]{32}|nvapi-[A-Za-z0-9_-]{20,}",
            r"gsk_[A-Za-z0-9]{20,}|xai-[A-Za-z0-9]{20,}|r8_[A-Za-z0-9]{30,}|pplx-[A-Za-z0-9]{30,}",
            r"[0-9]{8,10}:[A-Za-z0-9_-]{35}(?![A-Za-z0-9_-])",
        )
    ),
]
_DOTTED = re.compile(r"(?<![\w.-])[\w-]*+\.[\w.-]++", re.A)  # runs that may hold a JWT or a JWE
_JWT_START = re.compile(r"\beyJ[A-Za-z0-9_-]{8}")
_BEARER = re.compile(r"(?i)\b(bearer|basic|token|digest)(\s{1,8})([A-Za-z0-9._~+/=-]{6,})")
# Up to the last "@" of the authority: a password may have an unescaped "@" in it.
_URL_USER = re.compile(r"(://[^\s/@:]*):([^\s/?#\\]+)@")
_HEADER_NAME = r"(?:proxy-)?authorization|(?:set-)?cookie"
# A header's value runs to the end of its line, or of the quotes around the header.
_HEADER = re.compile(rf"(?im)^([ \t]*(?:{_HEADER_NAME})[ \t]*:[ \t]*)([^\r\n]+)")
_QUOTED_HEADER = re.compile(rf"(?i)((?P<quote>[\"'])(?:{_HEADER_NAME})[ \t]*:[ \t]*)((?:(?!(?P=quote))[^\r\n])+)")
# name = value, name: value, "name": "value", ?name=value&…, --name value, also with escaped quotes
_NAME = re.compile(
    r"""(?x) (?<![\w.-]) (?:
    (?P<name> [\w.-]++ ) (?P<between> (?:\\{0,64}["'])? \s{0,3} (?: => | := | ={1,3} | : ) \s{0,3} )
    | (?P<option> -[\w.-]*+ ) [ \t]{1,3} (?![=:-]) )"""
)
_OPENING = re.compile(r"[bBrRuUfF]{0,2}(\\{0,64})([\"'])")
_TO_QUOTE = {quote: re.compile(rf"(?s)(?:[^{quote}\\]++|\\.)*+") for quote in ("'", '"')}
_ENDS = r"\s\"'`&,;|<>(){}\[\]"  # what starts another command or argument is never hidden with a value
_BARE = re.compile(rf"(?:[^{_ENDS}]|,(?=[^{_ENDS}])(?![\w.-]{{1,60}}+\s{{0,2}}[=:]))++")
_COLLECTION = re.compile(r"[\[({]\s*\\{0,4}[bBrRuUfF]{0,2}[\"']")
_SCHEME = re.compile(r"(?i)(?:bearer|basic|token|digest|apikey|negotiate|ntlm)[ \t]{1,3}")
_WORD_BEFORE = re.compile(r"([A-Za-z0-9]+)[ \t]\Z")
_SIGNED = {"sig", "signature", "key"}  # secret as parameters of a URL, ordinary words elsewhere


def mask_text(text: str, *, secret: Iterable[str] = ()) -> str:
    """Return `text` with the parts that look like a secret replaced by ``[masked]``.

    Args:
        text: Any text. The time taken is in proportion to its length.
        secret: More names whose values are masked.
    """
    for shape in _SHAPES:
        text = shape.sub(MASK, text)
    text = _DOTTED.sub(_mask_jwt, text)
    text = _HEADER.sub(rf"\1{MASK}", text)
    text = _QUOTED_HEADER.sub(rf"\1{MASK}", text)
    text = _URL_USER.sub(rf"\1:{MASK}@", text)
    text = _BEARER.sub(_mask_bearer, text)
    return _mask_named(text, frozenset(secret))


def _mask_jwt(match: re.Match[str]) -> str:
    parts = match[0].split(".")
    for place, part in enumerate(parts[:-1]):
        start = _JWT_START.search(part)
        if start is not None and len(parts[place + 1]) >= 4:
            return ".".join([*parts[:place], part[: start.start()] + MASK, *parts[place + 5 :]])
    return match[0]


def _mask_bearer(match: re.Match[str]) -> str:
    # "token" and "basic" are also ordinary words: what follows must look like a credential, not like prose.
    word, space, value = match.groups()
    kind = word.lower()
    looks_random = kind == "bearer" or any(c.isdigit() for c in value) or (kind == "basic" and _is_basic(value))
    return f"{word}{space}{MASK}" if looks_random else match[0]


def _is_basic(value: str) -> bool:
    try:
        return b":" in base64.b64decode(value, validate=True)
    except ValueError:
        return False


def _mask_named(text: str, secret: frozenset[str]) -> str:
    parts: list[str] = []
    done = place = 0
    while (match := _NAME.search(text, place)) is not None:
        place = match.end()
        if not _names_secret(text, match, secret):
            continue
        start, end = _value_span(text, match.end())
        if start < end:
            parts += [text[done:start], MASK]
            done = place = end
    return "".join([*parts, text[done:]])


def _names_secret(text: str, match: re.Match[str], secret: frozenset[str]) -> bool:
    name, between, start = match["name"], match["between"], match.start()
    if match["option"] is not None:  # "--password hunter2" is a name and its value, "password reset" is not
        return is_secret_name(match["option"])
    if is_secret_name(name) or name.strip("-") in secret:
        return True
    if start and text[start - 1] in "?&" and between == "=":
        return name.lower() in _SIGNED
    before = _WORD_BEFORE.search(text, max(0, start - 24), start)  # "API key: …"
    return before is not None and is_secret_name(f"{before[1]}_{name}") and not is_secret_name(before[1])


def _value_span(text: str, start: int) -> tuple[int, int]:
    """Return where the value that starts here lies, without its quotes."""
    opening = _OPENING.match(text, start)
    if opening is not None:
        inner = opening.end()
        if opening[1]:
            close = opening[1] + opening[2]  # more backslashes than that are a quote inside the value
            end = text.find(close, inner)
            while end > inner and text[end - 1] == "\\":
                end = text.find(close, end + len(close))
        else:
            run = _TO_QUOTE[opening[2]].match(text, inner)
            end = run.end() if run is not None and text[run.end() : run.end() + 1] == opening[2] else -1
        return inner, _line_end(text, inner) if end < 0 else end
    if _COLLECTION.match(text, start):
        return start, _collection_end(text, start)
    scheme = _SCHEME.match(text, start)
    if scheme is not None and text.startswith(MASK, scheme.end()):
        return start, scheme.end() + len(MASK)
    bare = _BARE.match(text, scheme.end() if scheme is not None else start) or _BARE.match(text, start)
    return (start, start) if bare is None else (start, bare.end())


def _line_end(text: str, start: int) -> int:
    end = text.find("\n", start)
    return len(text) if end < 0 else end


def _collection_end(text: str, start: int) -> int:
    end, depth = _line_end(text, start), 0
    for place in range(start, end):
        depth += (text[place] in "[({") - (text[place] in "])}")
        if depth == 0:
            return place + 1
    return end


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
        return self._text(text, frozenset(), 0)

    def _text(self, text: str, secret: frozenset[str], depth: int) -> str:
        inner = _json_container(text)
        if inner is not None:
            masked = self._value(inner, secret, depth)
            text = text if same_json(masked, inner) else json.dumps(masked, ensure_ascii=False)
        else:
            text = mask_text(text, secret=secret)
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
        return self._value(value, frozenset(secret), 0)

    def call(self, call: ToolCall, secret: Iterable[str] = ()) -> str:
        """Return a call as text, ``name(key=value, …)``, with secrets masked."""
        return format_call(ToolCall(call.name, self.value(call.args, secret=secret)))

    def _value(self, value: Any, secret: frozenset[str], depth: int) -> Any:
        if isinstance(value, str):
            return self._text(value, secret, depth)
        if value is None or isinstance(value, bool | int | float):
            return value
        if isinstance(value, Mapping | list | tuple) and depth >= _MOST_LEVELS:
            return MASK
        if isinstance(value, Mapping):
            masked: dict[str, Any] = {}
            for key, item in value.items():
                hide = isinstance(key, str) and item is not None and (key in secret or is_secret_name(key))
                shown = self._key(key)
                if shown in masked:  # two names that look alike once masked: neither value may vanish
                    shown = next(name for n in itertools.count(2) if (name := f"{shown} #{n}") not in masked)
                masked[shown] = MASK if hide else self._value(item, secret, depth + 1)
            return masked
        if isinstance(value, list | tuple):
            return [self._value(item, secret, depth + 1) for item in value]
        return self._foreign(value)

    def _key(self, key: Any) -> str:
        return self.text(key) if isinstance(key, str) else self._foreign(key)

    def _foreign(self, value: object) -> str:
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
        value = json.loads(stripped, object_pairs_hook=_unique)
    except (ValueError, RecursionError):
        return None
    return value if isinstance(value, dict | list) else None


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) != len(pairs):  # the value that loses would never be looked at
        raise ValueError("a name stands twice in one object")
    return found
