"""How a secret in a text is found: by the name beside it, or by its own shape.

This is apart from `agentperm_nb.redaction` because its patterns take a while to be made: whoever masks loads them.
"""

from __future__ import annotations

import base64
import itertools
import re
import unicodedata
from collections.abc import Iterable
from functools import lru_cache

from agentperm_nb.render import MASK

__all__ = ["is_harmless", "is_plain_name", "is_secret_name", "mask_text"]

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
    return _known_name(name) if len(name) <= _SHORT else _is_secret_name(name)


def _is_secret_name(name: str) -> bool:
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


_known_name = lru_cache(maxsize=2048)(_is_secret_name)


def is_plain_name(name: str) -> bool:
    """Return whether a name can be shown as it is, and its value is not masked because of it.

    False says nothing: it is then for `is_secret_name` and `mask_text` to find out.
    """
    if name in _plain:
        return True
    if len(name) > _SHORT or not name.isidentifier() or _is_secret_name(name) or mask_text(name) != name:
        return False
    if len(_plain) >= _MOST_CLEAN:
        _plain.clear()
    _plain[name] = None
    return True


# Each of these takes time in proportion to the text, whatever the text: no two parts of a pattern, and no two starting
# places, may read the same long run again. A shape is looked for only in a text that holds one of its beginnings: to
# find that out is far quicker than to try a pattern at every place.
_SHAPES = [
    (
        ("-----BEGIN ",),
        re.compile(
            r"-----BEGIN [A-Z0-9 ]*PRIVATE KEY(?: BLOCK)?-----.*?(?:-----END [A-Z0-9 ]*PRIVATE KEY(?: BLOCK)?-----|\Z)",
            re.S,
        ),
    ),
    *(
        (tuple(beginnings.split()), re.compile(rf"(?<![A-Za-z0-9])(?:{shape})"))
        for beginnings, shape in (
            (
                "sk- sk_ pk- pk_ rk- rk_",
                r"(?:sk|pk|rk)[-_](?:live|test|proj|ant|or|svcacct|admin)[-_][-_A-Za-z0-9]{3,}",
            ),
            ("sk-", r"sk-(?=[A-Za-z_-]{0,40}[0-9])[A-Za-z0-9_-]{16,}"),
            (
                "ghp_ gho_ ghu_ ghs_ ghr_ github_pat_ gl",
                r"gh[pousr]_[A-Za-z0-9]{20,}|github_pat_[A-Za-z0-9_]{20,}|gl[a-z]{2,4}-[A-Za-z0-9_-]{16,}",
            ),
            ("AKIA ASIA AGPA AIDA AROA", r"(?:AKIA|ASIA|AGPA|AIDA|AROA)[A-Z0-9]{16}(?![A-Za-z0-9])"),
            (
                "xox xapp- hooks.slack.com/services/",
                r"xox[abeoprs]-[A-Za-z0-9-]{8,}|xapp-[A-Za-z0-9-]{8,}|hooks\.slack\.com/services/[A-Za-z0-9/_-]{8,}",
            ),
            ("AIza ya29.", r"AIza[A-Za-z0-9_-]{30,}|ya29\.[A-Za-z0-9_-]{16,}"),
            (
                "hf_ npm_ pypi- dckr_pat_",
                r"hf_[A-Za-z0-9]{20,}|npm_[A-Za-z0-9]{30,}|pypi-[A-Za-z0-9_-]{40,}|dckr_pat_[A-Za-z0-9_-]{16,}",
            ),
            ("SG. whsec_", r"SG\.[A-Za-z0-9_-]{16,}\.[A-Za-z0-9_-]{16,}|whsec_[A-Za-z0-9]{16,}"),
            (
                "dop_v1_ shpat_ shpca_ shppa_ shpss_ dapi nvapi-",
                r"dop_v1_[a-f0-9]{32,}|shp(?:at|ca|pa|ss)_[a-fA-F0-9]{32}|dapi[a-f0-9]{32}|nvapi-[A-Za-z0-9_-]{20,}",
            ),
            (
                "gsk_ xai- r8_ pplx-",
                r"gsk_[A-Za-z0-9]{20,}|xai-[A-Za-z0-9]{20,}|r8_[A-Za-z0-9]{30,}|pplx-[A-Za-z0-9]{30,}",
            ),
        )
    ),
]
_BEGINNINGS = [(beginning, place) for place, (beginnings, _) in enumerate(_SHAPES) for beginning in beginnings]
_COLON_RUN = re.compile(r":[A-Za-z0-9_-]{35}")
_NUMBERED = re.compile(r"(?<![A-Za-z0-9])[0-9]{8,10}:[A-Za-z0-9_-]{35}(?![A-Za-z0-9_-])")
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
_SHORT, _MOST_CLEAN = 64, 4096
_clean: dict[str, None] = {}
"""Short texts that were found to hold nothing; a text that holds a secret is never kept."""
_plain: dict[str, None] = {}
"""Names that were found to be no secret's, and to hold none."""
# Numbers and dates, and short words: every shape above has a letter and more characters, or a mark that is not here.
_HARMLESS_TEXT = re.compile(r"[0-9 ./,+-]*|[A-Za-z0-9]{0,15}")
_SIGNED = {"sig", "signature", "key"}  # secret as parameters of a URL, ordinary words elsewhere
# One of these stands in every secret name in ASCII, once it is written in small letters without separators.
_IN_NAMES = (
    "pass", "pw", "pin", "secret", "token", "auth", "cred", "key", "jwt", "bearer", "cookie", "otp", "cvv", "cvc",
    "ssn", "conn", "sess", "srf", "mnemonic", "phrase", "contrasena", "senha", "kennwort", "code", "github", "gitlab",
    "azure", "sig",
)  # fmt: skip
_NO_SEPARATORS = str.maketrans("", "", "_.-")


def is_harmless(text: str) -> bool:
    """Return whether a text is known at once to hold no secret; of one that may be JSON it is never known."""
    if _HARMLESS_TEXT.fullmatch(text):
        return True
    return text in _clean and "{" not in text and "[" not in text


def mask_text(text: str, *, secret: Iterable[str] = ()) -> str:
    """Return `text` with the parts that look like a secret replaced by ``[masked]``.

    Args:
        text: Any text. The time taken is in proportion to its length.
        secret: More names whose values are masked.
    """
    if not secret and (text in _clean or _HARMLESS_TEXT.fullmatch(text)):
        return text
    masked = _masked(text, frozenset(secret))
    if masked == text and len(text) <= _SHORT and not secret:
        if len(_clean) >= _MOST_CLEAN:
            _clean.clear()
        _clean[text] = None
    return masked


def _masked(text: str, secret: frozenset[str], *, thorough: bool = False) -> str:
    """Mask a text; `thorough` tries every pattern, without looking first for what a match of it needs.

    What stands in place of a secret makes no new match, so it is enough to look at the text as it came.
    """
    ascii_only = text.isascii()  # other letters have capitals, and equals, that are not known here
    small = text.lower() if ascii_only else text
    for place in range(len(_SHAPES)) if thorough else sorted({at for begin, at in _BEGINNINGS if begin in text}):
        text = _SHAPES[place][1].sub(MASK, text)
    colon = ":" in small
    if thorough or (colon and _COLON_RUN.search(text) is not None):
        text = _NUMBERED.sub(MASK, text)
    if thorough or "eyJ" in text:
        text = _DOTTED.sub(_mask_jwt, text)
    if thorough or (colon and (not ascii_only or "authorization" in small or "cookie" in small)):
        text = _HEADER.sub(rf"\1{MASK}", text)
        text = _QUOTED_HEADER.sub(rf"\1{MASK}", text)
    if thorough or "://" in text:
        text = _URL_USER.sub(rf"\1:{MASK}@", text)
    if thorough or not ascii_only or _any_in(small, ("token", "bearer", "basic", "digest")):
        text = _BEARER.sub(_mask_bearer, text)
    if thorough or ((colon or "=" in small or "-" in small) and _may_name(small, secret, ascii_only)):
        text = _mask_named(text, secret)
    return text


def _may_name(small: str, secret: frozenset[str], ascii_only: bool) -> bool:
    """Return whether a secret name may stand in a text, which is given in small letters where it is ASCII."""
    if not ascii_only or any(name.lower() in small for name in secret):
        return True
    return _any_in(small.translate(_NO_SEPARATORS), _IN_NAMES)


def _any_in(text: str, parts: tuple[str, ...]) -> bool:
    for part in parts:  # noqa: SIM110 - any() of a generator takes twice as long
        if part in text:
            return True
    return False


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
    if not start or text[start - 1] not in " \t":
        return False
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
