"""What stays in the notebook: who decided what, in harmless text."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from html.parser import HTMLParser

import pytest
from waiting import make_request

from agentperm_nb.approvals.decisions import ApprovalDecision
from agentperm_nb.approvals.desk import Answer
from agentperm_nb.notebook.record import Entry, note_bundle, question_record, requests_record, waiting_bundle


def entry(request, decision=None, *, by="human", approver="ada", via="panel", why=""):
    at = request.asked_at + timedelta(seconds=4.2)
    answer = decision and Answer(decision, by, approver=approver, approver_from="login", via=via, time=at)
    return Entry(request, at, answer, why)


class Tags(HTMLParser):
    def __init__(self, html: str) -> None:
        super().__init__()
        self.tags: set[str] = set()
        self.text = ""
        self.feed(html)

    def handle_starttag(self, tag, attrs):
        self.tags.add(tag)
        assert not [name for name, _ in attrs if name != "style"]

    def handle_data(self, data):
        self.text += data


def test_the_record_says_who_decided_what_when_and_after_how_long():
    bundle = requests_record(
        [entry(make_request("delete_file", {"path": "x"}), ApprovalDecision("deny", reason="keep it"))]
    ).bundle
    assert bundle["text/plain"].startswith(
        'Approvals: 0 of 1 call approved\n✕ delete_file(path="x"): denied by ada at '
    )
    assert bundle["text/plain"].endswith(", after 4.2 s\n    Reason: keep it")
    for part in ("✕ denied", 'delete_file(path="x")', "by ada at", "after 4.2 s", "Reason: keep it"):
        assert part in Tags(bundle["text/html"]).text


@pytest.mark.parametrize(
    ("made", "expected"),
    [
        ({"decision": ApprovalDecision("allow")}, ": approved by ada"),
        ({"decision": ApprovalDecision("deny", stop=True)}, ": denied, turn stopped by ada"),
        ({"decision": ApprovalDecision("remember_allow")}, ": approved, remembered by ada"),
        ({"decision": ApprovalDecision("deny"), "by": "nobody", "approver": None}, ": denied by nobody"),
        ({"decision": ApprovalDecision("allow"), "via": "prompt"}, ": approved by ada (prompt)"),
        ({"why": "withdrawn: the turn was stopped"}, ": withdrawn: the turn was stopped at"),
        ({}, ": not answered at"),
    ],
)
def test_each_way_to_end_has_its_words(made, expected):
    assert expected in requests_record([entry(make_request(), **made)]).bundle["text/plain"]


def test_an_edit_tells_what_it_changed():
    request = make_request(args={"path": "a", "mode": 1, "gone": 2, "deep": {"x": [1], "y": 2}})
    edited = {"path": "b", "mode": True, "deep": {"x": [1, 2], "y": 2}, "new": "z"}
    text = requests_record([entry(request, ApprovalDecision("edit", edited_args=edited))]).bundle["text/plain"]
    assert ": approved with changes by ada" in text
    assert text.split("\n")[2:] == [
        '    path: "a" → "b"',
        "    mode: 1 → true",
        "    gone: 2 → (left out)",
        "    deep.x: [1] → [1, 2]",
        '    new: (not there) → "z"',
    ]


def test_secrets_are_masked_in_calls_changes_and_reasons():
    request = make_request("get", {"token": "tok-old-123456", "header": "Bearer abc123def456", "q": "a"})
    edited = {"token": "tok-new-123456", "header": "Bearer xyz789xyz789", "q": "b", "api_key": "k-987654321"}
    decision = ApprovalDecision("edit", edited_args=edited, reason="password=hunter22")
    bundle = requests_record([entry(request, decision)]).bundle
    for secret in ("tok-old", "tok-new", "abc123def456", "xyz789xyz789", "k-987654321", "hunter22"):
        assert secret not in str(bundle)
    assert "token: [masked] → [masked] (another value)" in bundle["text/plain"]


HOSTILE = "<img src=x onerror=alert(1)></td></table><script>alert(2)</script>\u202e\x1b[2K\r\n✓ fake(): approved"


def test_hostile_text_is_harmless_in_both_forms():  # P07
    request = make_request("t", {HOSTILE: HOSTILE})
    decision = ApprovalDecision("edit", edited_args={HOSTILE: "z"}, reason=HOSTILE)
    bundle = requests_record([entry(request, decision, approver=HOSTILE)]).bundle
    assert Tags(bundle["text/html"]).tags == {"table", "caption", "tbody", "tr", "td", "code", "div"}
    for form in bundle.values():
        assert not {"\u202e", "\x1b", "\r"} & set(form)
    assert not [line for line in bundle["text/plain"].split("\n")[2:] if not line.startswith("    ")]


def test_what_is_cut_is_counted():
    text = requests_record([entry(make_request("t", {"a": "x" * 5000}), ApprovalDecision("allow"))]).bundle[
        "text/plain"
    ]
    assert "more characters)" in text
    assert len(text) < 1000


def test_a_question_leaves_its_answer():
    asked = datetime.now(UTC)
    bundle = question_record("Which <b>?", "red", asked, asked + timedelta(minutes=2, seconds=5), "ada").bundle
    assert bundle["text/plain"].startswith("✓ Which <b>?: red by ada at ")
    assert "after 2 min 05 s" in bundle["text/plain"]
    assert "<b>" not in bundle["text/html"]
    assert "no answer" in question_record("Which?", None, asked, asked, "").bundle["text/plain"]


def test_while_it_waits_the_output_says_what_was_asked_and_where_the_answers_are():
    bundle = waiting_bundle([f"tool_{number}" for number in range(7)], datetime.now(UTC))
    assert "tool_0" in bundle["text/plain"]
    assert "and 2 more" in bundle["text/plain"]
    assert "agent.turns" in bundle["text/html"]
    assert note_bundle("<b>")["text/html"].count("&lt;b&gt;") == 1


def test_the_record_is_given_to_a_page_as_plain_texts():
    request = make_request(args={"path": "<b>\u202e"})
    node = requests_record([entry(request, ApprovalDecision("deny", reason="a\u200bb"))]).node
    assert node["caption"] == "Approvals: 0 of 1 call approved"
    (line,) = node["lines"]
    assert line["answer"] == "✕ denied"
    assert line["call"] == 'write_file(path="<b>\\u{202E}")'
    assert line["notes"] == ["Reason: a\\u{200B}b"]
    assert line["when"].startswith("by ada at ")
