"""Secrets are masked in names, texts and nested values, and nothing else is touched."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentperm_nb import masking
from agentperm_nb.calls import ToolCall
from agentperm_nb.json_values import freeze
from agentperm_nb.masking import is_secret_name, mask_text
from agentperm_nb.redaction import Redactor
from agentperm_nb.render import MASK

SECRET_NAMES = [
    "password", "Password", "PASSWORD", "passwords", "passwd", "pwd",
    "pw", "pass", "passphrase", "passcode", "user_password", "userPassword",
    "PGPASSWORD", "db_pass", "DB_PASS", "dbpass", "smtpPass", "password_confirmation",
    "new_password", "token", "tokens", "access_token", "accessToken", "AccessToken",
    "access-token", "refresh_token", "idToken", "new_token", "bot_token", "next_page_token",
    "X-Auth-Token", "csrf_token", "hf_token", "HF_TOKEN", "use_auth_token", "secret",
    "secrets", "client_secret", "clientSecret", "CLIENTSECRET", "AWS_SECRET_ACCESS_KEY", "secret_id",
    "webhook_secret", "api_key", "apiKey", "API-KEY", "apikey", "ApiKey",
    "X-Api-Key", "x_api_keys", "openai_key", "OPENAI_API_KEY", "private_key", "privateKey",
    "ssh_key", "access_key", "accessKeyId", "account_key", "AccountKey", "signing_key",
    "encryption_keys", "app_key", "consumer_key", "master_key", "Authorization", "Proxy-Authorization",
    "authorization", "auth", "basic_auth", "httpAuth", "auth_header", "authentication",
    "cookie", "Cookie", "Set-Cookie", "cookies", "session_id", "sessionId",
    "JSESSIONID", "credentials", "credential", "creds", "db_creds", "connection_string",
    "ConnectionString", "conn_str", "jwt", "bearer", "bearerToken", "otp",
    "totp", "cvv", "ssn", "pin", "mnemonic", "seed_phrase",
    "recovery_codes", "verification_code", "mfaCode", "github_pat", "ｐａｓｓｗｏｒｄ", "passwort",
    "contraseña", "пароль", "密码", "smtp.password", "--password",
]  # fmt: skip
HARMLESS_NAMES = [
    "token_count", "tokenCount", "max_tokens", "maxTokens", "max_new_tokens", "max_output_tokens",
    "max_completion_tokens", "input_tokens", "prompt_tokens", "output_tokens", "completion_tokens", "total_tokens",
    "num_tokens", "n_tokens", "cached_tokens", "cache_read_input_tokens", "prompt_tokens_details", "reasoning_tokens",
    "tokens_per_second", "token_limit", "token_usage", "token_type", "token_ids", "eos_token_id",
    "eos_token", "pad_token", "min_tokens", "tokenizer", "tokenize", "valid_token_count",
    "access_token_expires_in", "token_url", "author", "authors", "authored", "authority",
    "passenger", "passengers", "passport", "passport_number", "compass", "bypass",
    "password_length", "password_policy", "has_password", "is_secret", "pass_rate", "pass_count",
    "pass_through", "tests_passed", "boarding_pass", "low_pass", "key", "keys",
    "keyboard", "monkey", "primary_key", "public_key", "foreign_key", "partition_key",
    "sort_key", "keyword", "secretary", "secretariat", "session", "user",
    "user_id", "username", "name", "id", "path", "url",
    "command", "content", "description", "email", "code", "status_code",
    "country_code", "pinned", "pinpoint", "shipping", "opinion", "spinner",
    "signature", "signed", "basic", "bearing", "cook", "cookbook",
    "data", "date", "body", "message", "auth_method", "auth_url",
    "oauth", "path_to_file", "123", "_", "-", "é",
]  # fmt: skip


@pytest.mark.parametrize("name", SECRET_NAMES)
def test_a_value_below_a_secret_name_is_masked_whatever_its_type(name: str) -> None:
    assert is_secret_name(name)
    for value in ("x", 1234, 1.5, True, ["a", "b"], {"a": "b"}, ""):
        assert Redactor().value({name: value}) == {name: MASK}
    assert Redactor().value({name: None}) == {name: None}


@pytest.mark.parametrize("name", HARMLESS_NAMES)
def test_an_ordinary_name_is_no_secret(name: str) -> None:
    assert not is_secret_name(name)
    assert Redactor().value({name: "plain words"}) == {name: "plain words"}


S = "hunter2Zq"
SECRET_TEXTS: list[tuple[str, str]] = [
    ("password=hunter2Zq", "password=[masked]"),
    ("password = hunter2Zq", "password = [masked]"),
    ("password: hunter2Zq", "password: [masked]"),
    ("password => hunter2Zq", "password => [masked]"),
    ("password := hunter2Zq", "password := [masked]"),
    ("error: password=hunter2Zq", "error: password=[masked]"),
    ("url=password=hunter2Zq", "url=password=[masked]"),
    ("a=1 password=hunter2Zq b=2", "a=1 password=[masked] b=2"),
    ("user=ada, password=hunter2Zq, host=db", "user=ada, password=[masked], host=db"),
    ("password=hun,ter2Zq", "password=[masked]"),
    ("Server=db;Password=hunter2Zq;Port=1", "Server=db;Password=[masked];Port=1"),
    ("login(password=hunter2Zq)", "login(password=[masked])"),
    ('password="hunter2Zq with words"', 'password="[masked]"'),
    ("password='hunter2Zq with words'", "password='[masked]'"),
    ('password="hunter2Zq', 'password="[masked]'),
    ('password="a \\" hunter2Zq" b', 'password="[masked]" b'),
    ("password=b'hunter2Zq'", "password=b'[masked]'"),
    ("{'password': 'hunter2Zq', 'a': 1}", "{'password': '[masked]', 'a': 1}"),
    ("{'passwords': ['hunter2Zq', 'hunter2Zq']}", "{'passwords': [masked]}"),
    ("auth=('user', 'hunter2Zq') x", "auth=[masked] x"),
    ('failed with {"api_key": "hunter2Zq"}', 'failed with {"api_key": "[masked]"}'),
    (r"failed with {\"api_key\": \"hunter2Zq\"}", r"failed with {\"api_key\": \"[masked]\"}"),
    (r"{\\\"api_key\\\": \\\"hunter2Zq\\\"}", r"{\\\"api_key\\\": \\\"[masked]\\\"}"),
    ("DB_PASS=hunter2Zq make", "DB_PASS=[masked] make"),
    ("export API_TOKEN=hunter2Zq", "export API_TOKEN=[masked]"),
    ("mysql --password=hunter2Zq -u root", "mysql --password=[masked] -u root"),
    ("mysql --password hunter2Zq -u root", "mysql --password [masked] -u root"),
    ("gh --api-key 'hunter2Zq x' list", "gh --api-key '[masked]' list"),
    ("API key: hunter2Zq", "API key: [masked]"),
    ("Session ID = hunter2Zq", "Session ID = [masked]"),
    ("https://x.test/?a=1&token=hunter2Zq&b=2", "https://x.test/?a=1&token=[masked]&b=2"),
    ("https://x.test/?api_key=hunter2Zq#top", "https://x.test/?api_key=[masked]"),
    ("https://x.test/?sig=hunter2Zq&se=1", "https://x.test/?sig=[masked]&se=1"),
    ("https://x.test/?X-Amz-Signature=hunter2Zq", "https://x.test/?X-Amz-Signature=[masked]"),
    ("https://ada:hunter2Zq@x.test/a", "https://ada:[masked]@x.test/a"),
    ("postgres://ada:p@hunter2Zq@db/x", "postgres://ada:[masked]@db/x"),
    ("redis://:hunter2Zq@cache:6379/0", "redis://:[masked]@cache:6379/0"),
    ("Authorization: Basic aHVudGVy hunter2Zq", "Authorization: [masked]"),
    ("authorization: Token hunter2Zq\r\nHost: x", "authorization: [masked]\r\nHost: x"),
    ("GET / HTTP/1.1\nCookie: a=hunter2Zq; b=hunter2Zq\nHost: x", "GET / HTTP/1.1\nCookie: [masked]\nHost: x"),
    ("Set-Cookie: sid=hunter2Zq; HttpOnly", "Set-Cookie: [masked]"),
    ('curl -H "Authorization: Basic dXNlcjpwYXNz" https://x.test', 'curl -H "Authorization: [masked]" https://x.test'),
    ("curl -H 'Cookie: a=hunter2Zq; b=hunter2Zq' x", "curl -H 'Cookie: [masked]' x"),
    ("sent Authorization: Token hunter2Zq to x", "sent Authorization: [masked] to x"),
    ("Bearer abcdefghij", "Bearer [masked]"),
    ("use Bearer  abc.def-ghi_jkl please", "use Bearer  [masked] please"),
    ("Basic dXNlcjpwYXNz", "Basic [masked]"),
    ("key sk-proj-abcDEF123 end", "key [masked] end"),
    ("sk-live-secret", MASK),
    ("sk_live_4eC39HqLyjWDarjtT1zdp7dc", MASK),
    ("my_sk-ant-api03-AbC", "my_[masked]"),
    ("sk-abcdefghijklmnop1234", MASK),
    ("ghp_" + "a1" * 18, MASK),
    ("github_pat_" + "a1_" * 10, MASK),
    ("glpat-" + "a1" * 10, MASK),
    ("AKIAIOSFODNN7EXAMPLE", MASK),
    ("xoxb-123456789-abcdef", MASK),
    ("https://hooks.slack.com/services/T000/B000/abcdef", "https://[masked]"),
    ("AIza" + "Sy1" * 12, MASK),
    ("hf_" + "aB1" * 10, MASK),
    ("npm_" + "aB1" * 12, MASK),
    ("bot 123456789:" + "AaBbCcDd_-EeFfGgHhIiJjKkLlMmNnOoPpQ", f"bot {MASK}"),
    ("eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxIn0.c2lnbmF0dXJl", MASK),
    ("x=eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxIn0.c2lnbmF0dXJl&y", "x=[masked]&y"),
    ("host.eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxIn0.c2ln", "host.[masked]"),
    ("jwt-eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxIn0.c2ln", "jwt-[masked]"),
    ("eyJhbGciOiJSU0EifQ.aaaaaa.bbbbbb.cccccc.dddddd", MASK),
    ("a\n-----BEGIN RSA PRIVATE KEY-----\nMIIB\nhunter2Zq\n-----END RSA PRIVATE KEY-----\nb", "a\n[masked]\nb"),
    ("-----BEGIN OPENSSH PRIVATE KEY-----\nhunter2Zq cut off", MASK),
    ("-----BEGIN PGP PRIVATE KEY BLOCK-----\nx\n-----END PGP PRIVATE KEY BLOCK-----", MASK),
    ('{"api_key": "hunter2Zq"}', '{"api_key": "[masked]"}'),
    ('  [{"a": {"token": "hunter2Zq"}}]\n', '[{"a": {"token": "[masked]"}}]'),
    ('{"inner": "{\\"token\\": \\"hunter2Zq\\"}"}', '{"inner": "{\\"token\\": \\"[masked]\\"}"}'),
    ('{"a": "sk-live-hunter2Zq", "a": 1}', '{"a": "[masked]", "a": 1}'),
    ('{"password": "hunter2Zq", "password": null}', '{"password": "[masked]", "password": [masked]}'),
    (r"{\"password\": \"a\\\"hunter2Zq\", \"b\": 1}", r"{\"password\": \"[masked]\", \"b\": 1}"),
]
PLAIN_TEXTS = [
    "",
    " ",
    "hello world",
    "The password reset link was sent.",
    "Enter your password",
    "a token of my esteem",
    "basic training starts tomorrow",
    "digest the article slowly",
    "the bearer",
    "token count is 7",
    "max_tokens=100",
    "max_output_tokens: 4096, temperature: 0.2",
    '{"max_tokens": 100, "passenger": "Ada", "passport": "X1"}',
    '{ "spaces" :  "kept" }',
    "[1, 2, 3]",
    "author: Ada",
    "passengers=[1, 2]",
    "status=ok; code=404",
    "if key == value: pass",
    "https://example.org/path?page=2&q=a",
    "https://example.org:8080/user@domain",
    "https://ada@example.org/",
    "ftp://example.org",
    "mailto:ada@example.org",
    "ada@example.org",
    "12:30:45",
    "C:\\Users\\ada",
    "risk-assessment-of-something-very-long",
    "scikit-learn and sk-learn-compatible-estimators",
    "sk_orders.customer_id",
    "pk_ordering",
    "task-live-updates",
    "eyJ is how base64 of JSON begins",
    "AKIA is short",
    "a.b.c.d.e",
    "v1.2.3-rc.1",
    "-----BEGIN CERTIFICATE-----\nMIIB\n-----END CERTIFICATE-----",
    "-----BEGIN PUBLIC KEY-----\nMIIB\n-----END PUBLIC KEY-----",
    "SELECT * FROM users WHERE name = 'ada'",
    "git commit -m 'tidy' && git push",
    "ls -la | grep x > y",
    "def f(x: int = 3) -> str: ...",
    "x = {'a': [1, 2], 'b': {'c': 3}}",
    "{not json}",
    "[also not json]",
    "a" * 500,
    "0" * 500,
    "550e8400-e29b-41d4-a716-446655440000",
    "da39a3ee5e6b4b0d3255bfef95601890afd80709",
    "2024-05-01T12:00:00Z",
    "grüße: schön",
    "日本語: テキスト",
    "😀 = smile",
    "\x00\x01",
    "\ud800",
    "Key: value",
    "primary key: id",
    "sort key = name",
    "public key: abc",
    "--verbose --max-tokens 100",
]


def _id(text: str) -> str:
    return ascii(text)[1:41]


@pytest.mark.parametrize(("text", "masked"), SECRET_TEXTS, ids=[_id(text) for text, _ in SECRET_TEXTS])
def test_what_looks_like_a_secret_in_a_text_is_masked(text: str, masked: str) -> None:
    assert Redactor().text(text) == masked
    assert S not in Redactor().text(text)


@pytest.mark.parametrize("text", PLAIN_TEXTS, ids=map(_id, PLAIN_TEXTS))
def test_an_ordinary_text_stays_as_it_is(text: str) -> None:
    assert Redactor().text(text) == text


@pytest.mark.parametrize("text", [text for text, _ in SECRET_TEXTS], ids=[_id(text) for text, _ in SECRET_TEXTS])
def test_masking_twice_is_like_masking_once(text: str) -> None:
    once = Redactor().text(text)
    assert Redactor().text(once) == once


@pytest.mark.parametrize(
    ("command", "kept"),
    [
        ("PASSWORD=x;rm -rf ~", ";rm -rf ~"),
        ("PASSWORD=x && rm -rf ~", "&& rm -rf ~"),
        ("PASSWORD=x&rm -rf ~", "&rm -rf ~"),
        ("PASSWORD=x|sh", "|sh"),
        ("PASSWORD=x\nrm -rf ~", "\nrm -rf ~"),
        ("PASSWORD=$(curl evil)", "(curl evil)"),
        ("PASSWORD=`curl evil`", "`curl evil`"),
        ("PASSWORD=x>file", ">file"),
        ('password="x\nrm -rf ~', "\nrm -rf ~"),
        ("http://a:b@evil.test?@good.test", "@evil.test?@good.test"),
        ("http://a:b@evil.test\\@good.test", "@evil.test\\@good.test"),
    ],
)
def test_a_mask_never_hides_the_command_or_host_beside_a_secret(command: str, kept: str) -> None:
    assert mask_text(command).endswith(kept)


def test_secrets_are_masked_at_every_depth_and_in_keys() -> None:
    value = {
        "headers": {"Authorization": "Bearer sk-live-abc", "Accept": "json"},
        "rows": [{"user": "ada", "token": "t"}, ({"pin": 1},)],
        "body": '{"api_key": "sk-live-secret", "q": 1}',
        "sk-live-abc": 1,
        "note": "password=x",
        "n": None, "t": True, "i": 3, "f": 1.5,
    }  # fmt: skip
    assert Redactor().value(value) == {
        "headers": {"Authorization": MASK, "Accept": "json"},
        "rows": [{"user": "ada", "token": MASK}, [{"pin": MASK}]],
        "body": '{"api_key": "[masked]", "q": 1}',
        MASK: 1,
        "note": "password=[masked]",
        "n": None, "t": True, "i": 3, "f": 1.5,
    }  # fmt: skip


def test_two_masked_names_keep_both_of_their_values() -> None:
    shown = Redactor().value({"sk-live-aaa": "first", "sk-live-bbb": "second", "sk-live-ccc": "third"})
    assert list(shown.values()) == ["first", "second", "third"]


def test_names_given_as_secret_are_masked_at_any_depth_and_in_texts() -> None:
    value = {"body": "b", "a": [{"body": {"x": 1}}], "json": '{"body": "b"}', "text": "body=b1 other=b2"}
    assert Redactor().value(value, secret=["body"]) == {
        "body": MASK,
        "a": [{"body": MASK}],
        "json": '{"body": "[masked]"}',
        "text": "body=[masked] other=b2",
    }
    assert Redactor().value(value)["body"] == "b"


def test_foreign_values_are_shown_as_their_masked_repr() -> None:
    class Broken:
        def __repr__(self) -> str:
            raise OSError("no repr")

    class Talks:
        def __repr__(self) -> str:
            return "Talks(password='hunter2Zq')"

    shown = Redactor().value({"b": b"token=hunter2Zq", "broken": Broken(), "talks": Talks(), 7: "seven"})
    assert shown == {"b": "b'token=[masked]'", "broken": MASK, "talks": "Talks(password='[masked]')", "7": "seven"}


def test_a_call_is_written_with_its_secrets_masked() -> None:
    call = ToolCall("send", {"to": "ada", "password": S, "body": S})
    assert Redactor().call(call, ["body"]) == f'send(to="ada", password="{MASK}", body="{MASK}")'
    assert call.args["password"] == S


@pytest.mark.parametrize("depth", [90, 300, 900])
def test_a_secret_deep_down_is_masked_and_never_an_error(depth: int) -> None:
    text = "[" * depth + f'"sk-live-{S}"' + "]" * depth
    assert S not in Redactor().text(text)
    nested: Any = f"sk-live-{S}"
    for _ in range(depth):
        nested = [nested]
    assert S not in str(Redactor().value(nested)[0]) if depth < 300 else True


def test_rules_of_the_user_run_on_every_text() -> None:
    redactor = Redactor([lambda text: text.replace("ACME", "[x]"), lambda text: text.replace("[x]", "[y]")])
    assert redactor.text("ACME-42") == "[y]-42"
    assert redactor.value({"ACME": ["ACME", {"k": "ACME"}]}) == {"[y]": ["[y]", {"k": "[y]"}]}
    assert redactor.text('{"a": "ACME"}') == '{"a": "[y]"}'
    assert redactor.call(ToolCall("t", {"a": "ACME"})) == 't(a="[y]")'


@pytest.mark.parametrize(
    "rule",
    [lambda text: 1 / 0, lambda text: None, lambda text: 5, lambda text: text.encode(), lambda a, b: a],
    ids=["raises", "None", "number", "bytes", "two arguments"],
)
def test_a_rule_that_fails_lets_nothing_through(rule: Callable[[str], Any]) -> None:
    redactor = Redactor([rule])
    assert redactor.text("anything") == MASK
    assert redactor.value({"a": "b", "c": ["d"]}) == {MASK: MASK, f"{MASK} #2": [MASK]}


def test_a_rule_that_cannot_be_called_is_refused_in_three_parts() -> None:
    with pytest.raises(TypeError, match=r"redact= takes functions[\s\S]*Fix: [\s\S]*Example:"):
        Redactor(["ACME"])  # type: ignore[list-item]


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=6), inner, max_size=3),
    max_leaves=10,
)


@given(
    JSON,
    JSON,
    st.sampled_from([name for name in SECRET_NAMES if name.isascii() and not name.startswith("-")]),
    st.lists(st.sampled_from(["dict", "list", "json"]), max_size=5),
)
def test_a_planted_secret_is_nowhere_in_what_is_shown(before: Any, after: Any, name: str, wraps: list[str]) -> None:
    planted = "PLANTED-7f3a"
    value: Any = {"first": before, name: planted, "last": after}
    for wrap in wraps:
        value = {"dict": {"k": value}, "list": [before, value], "json": json.dumps(value)}[wrap]
    kept = json.dumps(value)
    shown = Redactor().value(value)
    assert planted not in json.dumps(shown)
    assert planted not in Redactor().text(json.dumps(value))
    assert planted not in Redactor().text(f"failed: {json.dumps(value)}")
    assert planted not in Redactor().text(f"failed: {value!r}")
    assert json.dumps(value) == kept


@given(JSON)
def test_masking_never_changes_what_it_is_given(value: Any) -> None:
    kept = json.dumps(value)
    Redactor().value(value)
    assert json.dumps(value) == kept
    frozen = freeze({"a": value, "token": "x"})
    Redactor().value(frozen)
    assert frozen == {"a": value, "token": "x"}


@given(st.text(max_size=200))
def test_any_text_at_all_can_be_masked(text: str) -> None:
    assert isinstance(Redactor().text(text), str)


HOSTILE = [
    "eyJ-", "eyJ.", "a+", "a.", "a,", "ab=", 'ab="', "ab='\\'", 'password="\\"', 'password=\\"', "password=['",
    "password=", "token ", "token\n", "-----BEGIN ", "-----BEGIN PRIVATE KEY-----", "-----END ", "//:@", "://", "a://b:",
    "    \n", "\"'", "A", "sk-", "SG.", "'cookie:", "Authorization: ", "\\", "{", '["', "key ",
    "=", "--", "é", "token_", "aA", "\t",
]  # fmt: skip


@pytest.mark.timeout(120)
@pytest.mark.parametrize("part", HOSTILE)
def test_the_time_grows_with_the_length_of_a_hostile_text_and_not_faster(part: str) -> None:
    def seconds(length: int) -> float:
        text = part * (length // len(part))
        times = []
        for _ in range(2):
            start = time.process_time()
            Redactor().text(text)
            is_secret_name(text)
            times.append(time.process_time() - start)
        return min(times)

    # Ten times the text: about ten times the time when linear, a hundred times when quadratic.
    short, long = seconds(5_000), seconds(50_000)
    assert long < 40 * max(short, 0.002)


_PIECES = st.sampled_from(
    [
        *("sk-live-ab1", "sk_test_a", "eyJhbGciOi", "AKIA", "token", "Bearer", "basic", "pw", "--password", "-p", "x1"),
        *("=", ":", " ", ".", "-", "_", "/", "@", "://", "12345678", "ghp_", "abc", "Cookie", "\n", '"', "api key"),
        "xoxb-12345678",
    ]
)


_RUNS = st.sampled_from(
    [
        *(beginning for beginning, _ in masking._BEGINNINGS),
        *("sk-live-", "rk_test_", "glpat-", "xoxb-", "eyJhbGciOi.", "12345678:", "Authorization: ", "'Cookie: "),
        *("://ann:", "@", "Digest ", "BASIC ", "--Client-Secret ", "pass.word=", "API key: ", "?sig=", "&key=", "x1"),
        *("AB12", "abcdef0123456789", "ABCDEFGH12345678", "a1-b2_c3" * 5, " ", "\n", "ı", "K", "ſ", "İ"),
    ]
)


@given(
    st.lists(_PIECES, max_size=8).map("".join) | st.lists(_RUNS, max_size=6).map("".join) | st.text(max_size=20),
    st.sampled_from([frozenset(), frozenset({"body"}), frozenset({"x1"})]),
)
def test_the_quick_look_at_a_text_misses_nothing(text: str, secret: frozenset[str]) -> None:
    thorough = masking._masked(text, secret, thorough=True)
    assert mask_text(text, secret=secret) == thorough
    assert mask_text(text, secret=secret) == thorough  # the second time, from what is known


_WORDS_OF_NAMES = st.sampled_from(
    sorted({word for word in masking._WORDS if word.isascii()} | {word for pair in masking._PAIRS for word in pair})
)


@given(
    st.lists(_WORDS_OF_NAMES | st.text("abxyz1", max_size=2), min_size=1, max_size=4),
    st.sampled_from(["", "_", "-", ".", "_.-"]),
    st.sampled_from([str.lower, str.upper, str.title]),
)
def test_the_quick_look_knows_a_part_of_every_secret_name(
    words: list[str], separator: str, case: Callable[[str], str]
) -> None:
    name = separator.join(case(word) for word in words)
    if is_secret_name(name):
        assert masking._may_name(name.lower(), frozenset(), ascii_only=True)


@pytest.mark.parametrize("name", [name for name in SECRET_NAMES if name.isascii()])
def test_the_quick_look_lets_each_known_name_be_looked_for(name: str) -> None:
    assert masking._may_name(name.lower(), frozenset(), ascii_only=True)
    assert mask_text(f"{name}=hunter2Zq") == f"{name}={MASK}"


@pytest.mark.parametrize("name", ["path", "n", "sk_live_abcdef123", "password", "ключ", "a" * 100, "a b", ""])
def test_a_name_is_plain_only_when_it_can_be_shown_and_its_value_too(name: str) -> None:
    for _ in range(2):  # the second time, from what is known
        plain = masking.is_plain_name(name)
        assert plain == (name in ("path", "n", "ключ"))
    assert Redactor([lambda text: text.replace("path", "p")]).value({"path": "a path"}) == {"p": "a p"}


@given(st.dictionaries(_RUNS | _PIECES, _RUNS | st.integers() | st.none(), max_size=4))
def test_frozen_arguments_are_masked_like_a_plain_dict(args: dict[str, Any]) -> None:
    assert Redactor().value(freeze(args)) == Redactor().value(args)


def test_a_text_that_holds_a_secret_is_not_kept() -> None:
    mask_text("password=hunter2-kept")
    mask_text("a plain sentence - kept")
    assert "a plain sentence - kept" in masking._clean
    assert "password=hunter2-kept" not in masking._clean
