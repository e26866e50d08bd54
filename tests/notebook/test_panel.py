"""The panel without a browser: what it tells a page, and what a page may tell it."""

from __future__ import annotations

import json
import logging
from datetime import UTC, datetime
from typing import Any, Literal

import pytest
from ipywidgets.widgets import widget
from waiting import line, lines, make_request, open_requests

from agentperm_nb.approvals.decisions import ApprovalDecision
from agentperm_nb.approvals.desk import Answer, the_desk
from agentperm_nb.approvals.facts import clock
from agentperm_nb.approvals.patience import Patience
from agentperm_nb.hints import Hints
from agentperm_nb.notebook.panel import ApprovalPanel, Question


class Page:
    """Stands for a page: keeps what the panel sends, and sends what a page sends."""

    def __init__(self, panel: ApprovalPanel, monkeypatch: pytest.MonkeyPatch, *, greet: bool = True) -> None:
        self.panel = panel
        self.got: list[dict[str, Any]] = []
        monkeypatch.setattr(
            panel, "send", lambda content, buffers=None: self.got.append(json.loads(json.dumps(content)))
        )
        if greet:
            self.send({"type": "hello"})

    def send(self, content: object) -> None:
        self.panel._handle_custom_msg(content, [])

    def answer(self, *requests: Any, action: str = "approve", reason: str = "", **more: Any) -> None:
        ids = [request.id for request in requests]
        self.send({"type": "answer", "ids": ids, "action": action, "reason": reason, **more})

    def cards(self) -> dict[str, dict[str, Any]]:
        return {card["id"]: card for message in self.got if message["type"] == "cards" for card in message["cards"]}

    def problems(self) -> list[str]:
        return [f"{p['field']}: {p['problem']}" for m in self.got if m["type"] == "problems" for p in m["problems"]]


@pytest.fixture
def shown(monkeypatch):
    """A function from requests to (page, what happens at the desk); the panels are finished after the test."""
    panels = []

    def show(*requests, questions=(), greet=True):
        changes = open_requests(*requests)
        panels.append(ApprovalPanel(requests, questions))
        return Page(panels[-1], monkeypatch, greet=greet), changes

    yield show
    for panel in panels:
        panel.finish()


def texts(node: Any) -> list[str]:
    if isinstance(node, str):
        return [node]
    if isinstance(node, dict):
        return [text for key, item in node.items() if key != "edit" for text in texts(item)]
    return [text for item in node for text in texts(item)] if isinstance(node, list) else []


def named(card: dict[str, Any], name: str) -> dict[str, Any]:
    table = next(node for node in card["body"] if node["kind"] == "table")
    return next(row["value"] for row in table["rows"] if row["name"] == name)


def test_a_click_on_approve_lets_the_call_run_in_the_name_of_whoever_is_logged_in(shown):
    request = make_request()
    page, changes = shown(request)
    page.answer(request)
    assert lines(changes) == ["answered allow"]
    answer = changes[-1].answer
    assert (answer.answered_by, answer.via) == ("human", "panel")
    assert answer.approver
    assert answer.approver_from


@pytest.mark.parametrize(
    ("action", "reason", "expected"),
    [
        ("approve", " fine ", "answered allow reason=fine"),
        ("deny", "", "answered deny"),
        ("deny", "not today", "answered deny reason=not today"),
        ("deny_stop", "no", "answered deny stop reason=no"),
    ],
)
def test_each_button_gives_its_answer(shown, action, reason, expected):
    request = make_request()
    page, changes = shown(request)
    page.answer(request, action=action, reason=reason)
    assert lines(changes) == [expected]


def test_approve_all_answers_the_requests_it_names_and_no_other(shown):
    first, second, third = make_request(), make_request(), make_request()
    page, changes = shown(first, second, third)
    page.answer(first, third)
    assert [(change.request_id, change.kind) for change in changes if change.answer] == [
        (first.id, "answered"), (third.id, "answered"),
    ]  # fmt: skip
    assert the_desk.is_open(second.id)
    assert page.got[-1]["waiting"] == 1


def test_a_second_click_changes_nothing_and_is_late(shown):
    request = make_request()
    page, changes = shown(request)
    page.answer(request)
    page.answer(request, action="deny")
    assert [change.kind for change in changes if change.answer] == ["answered", "late"]


def test_a_request_that_is_answered_elsewhere_is_told_to_the_page(shown):
    request = make_request()
    page, _ = shown(request)
    the_desk.answer(request.id, Answer(ApprovalDecision("deny", reason="by rule"), "handler"))
    page.panel.refresh()
    card = page.cards()[request.id]
    assert card["form"] == "settled"
    assert "denied by handler" in card["text"]
    assert page.panel.waiting == 0


def test_a_request_that_is_withdrawn_is_told_to_the_page(shown):
    request = make_request()
    page, _ = shown(request)
    the_desk.withdraw(request.id, "the turn was stopped")
    page.panel.refresh()
    assert "withdrawn" in page.cards()[request.id]["text"]


def test_a_request_that_expires_is_told_to_the_page_and_its_buttons_are_gone(shown):
    request, other = make_request(patience=Patience(300)), make_request()
    page, changes = shown(request, other)
    assert request.expires_at is not None
    facts = next(node["facts"] for node in page.cards()[request.id]["body"] if node["kind"] == "facts")
    assert {"label": "Expires", "text": clock(request.expires_at, seconds=True)} in facts
    assert "Expires" not in texts(page.cards()[other.id])
    the_desk.expire(request.id, "nobody answered within 300 s")
    page.panel.refresh()
    card = page.cards()[request.id]
    assert (card["form"], card["tone"]) == ("settled", "none")
    assert card["text"].startswith("expired at ")
    assert card["text"].endswith(": nobody answered within 300 s")
    assert "actions" not in card
    page.answer(request)  # a click that was on its way
    assert lines(changes) == ["expired nobody answered within 300 s", "late allow (the request was expired before)"]
    the_desk.withdraw(other.id, "over")


def test_it_is_gone_when_no_page_says_that_it_shows_it(shown):
    page, _ = shown(make_request())
    assert page.panel.on_screen
    page.send({"type": "gone"})
    assert page.got[-1] == {"type": "who"}
    assert not page.panel.on_screen
    assert page.panel.gone_since is not None
    page.send({"type": "here"})  # another page
    assert page.panel.on_screen
    assert page.panel.gone_since is None


def test_the_pages_are_given_the_record_as_texts(shown):
    page, _ = shown(make_request())
    page.panel.tell_record({"caption": "c", "lines": []})
    page.panel.finish()
    page.panel.tell_record({"caption": "late", "lines": []})
    assert [message["record"] for message in page.got if message["type"] == "over"] == [{"caption": "c", "lines": []}]


# Editing --------------------------------------------------------------------------------------------------------------

_TYPED = {"path": {"type": "string"}, "content": {"type": "string"}}


def edit(page, request, text):
    page.answer(request, action="edit", text=text if isinstance(text, str) else json.dumps(text))


def test_an_edit_carries_its_arguments(shown):
    request = make_request(properties=_TYPED)
    page, changes = shown(request)
    edit(page, request, {"path": "copy.txt", "content": "Buy bread."})
    assert lines(changes) == ["answered edit args={'path': 'copy.txt', 'content': 'Buy bread.'}"]


def test_an_edit_that_changes_nothing_is_an_approval(shown):
    request = make_request()
    page, changes = shown(request)
    edit(page, request, page.cards()[request.id]["edit"])
    assert lines(changes) == ["answered allow"]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ('{"path": "a",\n "content": }', "line 2, column 13"),
        ('{"path": 7, "content": "x"}', "path: "),
        ('{"path": "a", "path": "b"}', "stands twice"),
        ('["a"]', "a JSON object"),
        ('{"path": NaN}', "NaN is not JSON"),
        ("[" * 100_000, "too deep"),
        ('{"path": ' + "9" * 5000 + "}", "too long"),
        ('{"other": 1}', "other"),
    ],
)
def test_an_edit_that_does_not_fit_is_said_at_the_form_and_reaches_nobody(shown, text, expected):
    request = make_request(properties=_TYPED)
    page, changes = shown(request)
    edit(page, request, text)
    assert expected in "\n".join(page.problems())
    assert lines(changes) == []
    assert the_desk.is_open(request.id)


def test_a_masked_value_that_is_left_alone_runs_as_it_was(shown):
    args = {"url": "https://example.org", "token": "tok-1234567890"}
    request = make_request("http_get", args)
    page, changes = shown(request)
    text = page.cards()[request.id]["edit"]
    assert "tok-1234567890" not in text
    edit(page, request, text.replace("example.org", "example.com"))
    assert changes[-1].answer.decision.edited_args == {"url": "https://example.com", "token": "tok-1234567890"}


def test_a_masked_value_in_another_place_is_not_sent(shown):
    request = make_request("http_get", {"url": "https://example.org", "token": "tok-1234567890"})
    page, changes = shown(request)
    edit(page, request, {"url": "https://example.org/?t=[masked]", "token": "[masked]"})
    assert "url: " in page.problems()[0]
    assert lines(changes) == []


def test_the_text_to_edit_hides_nothing_and_stands_for_the_same_value(shown):
    request = make_request(args={"path": "a\u202eb\u200bc\U000e0041", "content": "ä\n"})
    page, _ = shown(request)
    text = page.cards()[request.id]["edit"]
    assert "\\u202e" in text
    assert "\u200b" not in text
    assert "ä" in text
    assert json.loads(text) == dict(request.call.args)


# Messages that no honest page sends -----------------------------------------------------------------------------------

_FORGED: list[Any] = [
    None, [], "approve", 7, {}, {"type": 3}, {"type": "close"}, {"type": ["answer"]},
    {"type": "answer"},
    {"type": "answer", "ids": [], "action": "approve", "reason": ""},
    {"type": "answer", "ids": "ID", "action": "approve", "reason": ""},
    {"type": "answer", "ids": ["ID", "ID"], "action": "approve", "reason": ""},
    {"type": "answer", "ids": ["ID", "other"], "action": "approve", "reason": ""},
    {"type": "answer", "ids": ["other"], "action": "approve", "reason": ""},
    {"type": "answer", "ids": [7], "action": "approve", "reason": ""},
    {"type": "answer", "ids": [["ID"]], "action": "approve", "reason": ""},
    {"type": "answer", "ids": ["ID"], "action": "allow", "reason": ""},
    {"type": "answer", "ids": ["ID"], "action": True, "reason": ""},
    {"type": "answer", "ids": ["ID"], "action": "approve"},
    {"type": "answer", "ids": ["ID"], "action": "approve", "reason": None},
    {"type": "answer", "ids": ["ID"], "action": "approve", "reason": "", "stop": True},
    {"type": "answer", "ids": ["ID"], "action": "approve", "reason": "", "text": "{}"},
    {"type": "answer", "ids": ["ID"], "action": "approve", "reason": "x" * 10_001},
    {"type": "answer", "ids": ["ID"], "action": "edit", "reason": ""},
    {"type": "answer", "ids": ["ID"], "action": "edit", "reason": "", "text": {"path": "x"}},
    {"type": "reply", "id": "ID", "choice": 0},
    {"type": "refused", "ids": ["ID"], "action": "approve", "age": "3"},
    {"type": "refused", "ids": ["ID"], "action": "approve", "age": True},
    {"type": "refused", "ids": ["other"], "action": "approve", "age": 3},
    {"type": "shown", "ids": ["other"]},
    {"type": "hello", "from": "elsewhere"},
]  # fmt: skip


@pytest.mark.parametrize("message", _FORGED, ids=lambda message: json.dumps(message)[:60])
def test_a_malformed_or_forged_message_changes_nothing_and_is_logged(shown, caplog, message):
    request = make_request()
    page, changes = shown(request)
    sent = json.loads(json.dumps(message).replace('"ID"', json.dumps(request.id)))
    before, told = len(page.got), len(changes)
    with caplog.at_level(logging.WARNING, "agentperm_nb"):
        page.send(sent)
    assert len(changes) == told
    assert len(page.got) == before
    assert the_desk.is_open(request.id)
    assert "was ignored" in caplog.text


def test_an_answer_before_any_greeting_changes_nothing(shown, caplog):
    request = make_request()
    page, changes = shown(request, greet=False)
    page.answer(request)
    assert lines(changes) == []
    assert "before any greeting" in caplog.text


def test_an_answer_after_the_end_changes_nothing(shown, caplog):
    request = make_request()
    page, changes = shown(request)
    page.panel.finish()
    page.answer(request)
    assert lines(changes) == []
    assert "over" in caplog.text


def test_a_click_within_the_guard_time_is_noted_and_answers_nothing(shown):
    request = make_request()
    page, changes = shown(request)
    page.send({"type": "refused", "ids": [request.id], "action": "approve", "age": 120})
    assert line(changes[-1]) == "late allow (clicked 120 ms after the card had appeared or changed)"
    assert the_desk.is_open(request.id)


def test_nothing_of_the_arguments_is_in_the_state_of_the_widget(shown):
    request = make_request("find", {"path": "/very/special/place", "token": "sk-live-SECRET123"})
    page, _ = shown(request)
    state = json.dumps(page.panel.get_state(), default=str)
    assert "/very/special/place" not in state
    assert "SECRET123" not in state + json.dumps(page.got)


def test_no_widget_is_left_when_the_panel_is_finished():
    before = set(widget._instances)
    ApprovalPanel([make_request()]).finish()
    assert set(widget._instances) == before


# What a card says -----------------------------------------------------------------------------------------------------


def test_a_card_names_tool_server_agent_rule_and_every_argument(shown):
    request = make_request(
        "create_issue",
        {"title": "x", "labels": ["a"], "body": "y" * 5000},
        of_server=True,
        agent_path=("main", "research", "writer"),
        hints=Hints(read_only=True, open_world=True, source="server"),
        question="Open an issue?",
    )
    page, _ = shown(request)
    card = page.cards()[request.id]
    said = texts(card)
    for expected in ("create_issue", "github", "main › research › writer", "Open an issue?", "y" * 5000, '["a"]'):
        assert expected in said
    assert "DecideByHuman(): no rule before it decided" in said
    assert [badge["text"] for badge in card["badges"]] == ["the server says: read-only", "the server says: open world"]
    assert named(card, "body")["size"] == "1 line, 5,000 characters"


def test_a_call_that_ran_before_says_so(shown):
    request = make_request(ran_before=datetime.now(UTC))
    page, _ = shown(request)
    notices = [node["text"] for node in page.cards()[request.id]["body"] if node["kind"] == "notice"]
    assert len(notices) == 1
    assert "Was the cell run again?" in notices[0]


@pytest.mark.parametrize(
    ("args", "seen", "badge"),
    [
        (
            {"url": "http://safe.com/\u202e\u2066moc.evil\u2069/data"},
            "\\u{202E}\\u{2066}moc",
            "hidden-characters",
        ),  # P01
        ({"command": "rm -rf /tmp/\u200bimportant"}, "/tmp/\\u{200B}important", "hidden-characters"),  # P02
        ({"command": "ls" + "\u2003" * 600 + "; rm -rf ~"}, "ls ⟨600 spaces⟩ ; rm -rf ~", "long-padding"),  # P03
        ({"url": "https://\u0430pple.com/x"}, "https://\u0430pple.com/x", "xn--pple-43d.com"),  # P06
        ({"command": "curl\r\u001b[2K ls"}, "curl\\u{000D}\\u{001B}[2K ls", "hidden-characters"),  # P05
    ],
    ids=["P01", "P02", "P03", "P06", "P05"],
)
def test_what_is_hidden_or_looks_alike_is_seen_and_flagged(shown, args, seen, badge):
    request = make_request("tool", args)
    page, _ = shown(request)
    card = page.cards()[request.id]
    assert any(seen in text for text in texts(card))
    assert badge in [item["text"] for item in card["badges"]]


def test_the_most_telling_argument_comes_first(shown):  # P09
    request = make_request("bash", {"timeout": 30, "command": "rm -rf ~/Documents"})
    page, _ = shown(request)
    table = next(node for node in page.cards()[request.id]["body"] if node["kind"] == "table")
    assert [row["name"] for row in table["rows"]] == ["command", "timeout"]


def test_a_card_without_arguments_says_so(shown):
    request = make_request("now", {})
    page, _ = shown(request)
    assert "No arguments." in texts(page.cards()[request.id])


def test_a_value_of_megabytes_is_cut_with_its_count_and_cannot_be_edited_here(shown):
    request = make_request(args={"path": "x", "content": "a" * 1_000_000})
    page, _ = shown(request)
    card = page.cards()[request.id]
    assert named(card, "content")["text"].endswith("… (800,000 more characters)")
    assert card["edit"] is None
    assert "edit" not in [action["action"] for action in card["actions"]]
    (why,) = [node["text"] for node in card["body"] if node["kind"] == "notice"]
    assert why.startswith("These arguments cannot be edited here: they have 1,000,0")
    assert why.endswith(" characters, and a page can take 200,000 at most.")


@pytest.mark.parametrize(
    ("question", "plain"), [("Run t?", True), ("Run t(…)?", True), ("Run t at 3 am?", False), ("Sure?", False)]
)
def test_a_title_that_is_the_plain_question_is_known_as_such(shown, question, plain):
    request = make_request("t", {}, question=question)
    page, _ = shown(request)
    assert page.cards()[request.id]["plain"] is plain


def test_200_requests_wait_in_one_panel(shown):  # A14, N15
    requests = [make_request("t", {"n": number}) for number in range(200)]
    page, _ = shown(*requests)
    assert page.got[-1]["total"] == 200
    assert len(page.cards()) == 200


# Plain questions ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("returns", "reply", "value"),
    [
        (bool, {"choice": 0}, True),
        (bool, {"choice": 1}, False),
        (Literal["red", "green"], {"choice": 1}, "green"),
        (Literal[1, 2], {"choice": 0}, 1),
        (str, {"text": " some words "}, "some words"),
    ],
)
def test_a_question_gets_an_answer_of_its_type(shown, returns, reply, value):
    question = Question("Which?", returns)
    page, _ = shown(questions=[question])
    page.send({"type": "reply", "id": question.id, **reply})
    assert question.answered
    assert question.value == value
    assert page.panel.waiting == 0


@pytest.mark.parametrize(
    "reply", [{"choice": 2}, {"choice": -1}, {"choice": True}, {"text": "yes"}, {}, {"choice": 0, "text": "y"}]
)
def test_a_forged_reply_answers_nothing(shown, reply):
    question = Question("Go on?", bool)
    page, _ = shown(questions=[question])
    page.send({"type": "reply", "id": question.id, **reply})
    assert not question.answered


def test_an_empty_text_is_asked_for_again(shown):
    question = Question("Why?")
    page, _ = shown(questions=[question])
    page.send({"type": "reply", "id": question.id, "text": "  "})
    assert page.problems() == [": Answer with some text"]
    assert not question.answered
