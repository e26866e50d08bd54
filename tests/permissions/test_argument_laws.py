"""Laws of rules on arguments, for any conditions and any arguments."""

from __future__ import annotations

from typing import Any

from argument_tools import OPEN, TOOL
from hypothesis import given
from hypothesis import strategies as st

from agentperm_nb import Tool, rule
from agentperm_nb.permissions.deciding import PermissionList, decide
from agentperm_nb.testing import tool_call

JSON = st.recursive(
    st.one_of(
        st.none(), st.booleans(), st.integers(-10, 110), st.floats(), st.text(max_size=5),
        st.sampled_from(["a", "A", "а", "ann@example.com", "2026-01-31", "100", "a\u200b", "\ud800"]),
    ),
    lambda inner: st.one_of(st.lists(inner, max_size=3), st.dictionaries(st.sampled_from(["price", "x", "a"]), inner)),
    max_leaves=6,
)  # fmt: skip
ATOMS = ["a", "*", "a*", "[!a]", '"100"', "5", "true", "null", "{a, 5, null}", "@example.com", "2026-01-31", "0..100",
         "json([])", 'json({"a": 1})', "text(a?)", "..5"]  # fmt: skip
FIELDS = ["any", "subject", "amount", "to", "cc", "note", "mode", "one_or_many", "items[*].price", "meta.owner",
"any.x",
          "any[*]", "any[*].x", "unknown", "labels", "labels[*]"]  # fmt: skip
CONDITIONS = st.one_of(
    st.builds(
        lambda field, quantifier, bang, atom: f"{field}={quantifier}{bang}{atom}",
        st.sampled_from(FIELDS), st.sampled_from(["", "any ", "every "]), st.sampled_from(["", "!"]),
        st.sampled_from(ATOMS),
    ),
    st.builds(lambda field, word: f"{field} {word}", st.sampled_from(FIELDS), st.sampled_from(["present", "absent"])),
)  # fmt: skip
ARGUMENTS = st.dictionaries(st.sampled_from([field.partition(".")[0].partition("[")[0] for field in FIELDS]), JSON)


@given(texts=st.lists(CONDITIONS, min_size=1, max_size=3), args=ARGUMENTS, tool=st.sampled_from([TOOL, OPEN]))
def test_what_an_allow_allows_a_deny_of_the_same_denies_and_what_cannot_be_read_is_never_allowed(
    texts: list[str], args: dict[str, Any], tool: Tool
) -> None:
    text = ", ".join(texts)
    call = tool_call("send", **args)
    deny, allow = rule(f"deny send({text})"), rule(f"allow send({text})")
    denied, allowed = deny.check(None, call, tool), allow.check(None, call, tool)
    unreadable = [row.argument for row in allow.reading_of(call, tool) if row.problem]
    if allowed is not None:
        assert not unreadable
        # "any" and "every" are said in the rule, or it is every for the allow and any for the deny.
        assert denied is not None
    if len(texts) == 1 and unreadable:
        assert denied is not None
        assert "could not be read" in denied.reason


@given(text=CONDITIONS, args=ARGUMENTS, tool=st.sampled_from([TOOL, OPEN]))
def test_a_condition_and_its_opposite_never_both_pass_an_allow(text: str, args: dict[str, Any], tool: Tool) -> None:
    if "=" not in text or "=any" in text:
        return
    opposite = text.replace("=", "=!").replace("!!", "").replace("=!every ", "=every !").replace("every !!", "every ")
    call = tool_call("send", **args)
    passes = [rule(f"allow send({one})").check(None, call, tool) is not None for one in (text, opposite)]
    assert passes != [True, True]


@given(
    texts=st.lists(CONDITIONS, min_size=16, max_size=40),
    verbs=st.lists(st.sampled_from(["deny", "ask", "allow"]), min_size=40, max_size=40),
    args=ARGUMENTS,
    tool=st.sampled_from([TOOL, OPEN]),
)
def test_many_rules_decide_as_each_of_them_would(
    texts: list[str], verbs: list[str], args: dict[str, Any], tool: Tool
) -> None:
    made = [rule(f"{verb} send({text})") for verb, text in zip(verbs, texts, strict=False)]
    permissions = PermissionList(made)
    call = tool_call("send", **args)
    assert permissions.plan("send").index is not None
    verdicts = [one.check(None, call, tool) for one, _ in permissions.order]
    expected = next((verdict for verdict in verdicts if verdict is not None), None)
    decision = decide(permissions, None, call, tool)
    assert (decision.verdict if decision.kind != "nobody" else None) == expected
