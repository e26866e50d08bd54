"""Running the allowed calls, and the async forms: what is published, and where we do better."""

from __future__ import annotations

import _thread
import json
import threading
import warnings
from collections.abc import Callable, Iterable
from typing import Any

import anyio
import anyio.lowlevel
import anyio.to_thread
import pytest
from test_runs import Telling
from test_runs import run as run_agent
from turns import DRIVERS, Counter, Scripted, run

from agentperm_nb import (
    Agent,
    AllowByDefault,
    AllowByName,
    Allowed,
    ApprovalDecision,
    DecideByHuman,
    DecidePermission,
    Denied,
    DenyByName,
    Human,
    Image,
    Log,
    MemoryStore,
    Message,
    State,
    Tool,
    ToolCall,
    ToolError,
    ToolInputError,
    Verdict,
    tool,
)
from agentperm_nb.approvals.desk import Answer, DeskChange, the_desk
from agentperm_nb.audit.events import Event
from agentperm_nb.testing import FakeHuman, ScriptedModel, tool_call

all_drivers = pytest.mark.parametrize("driver", DRIVERS)
both_backends = pytest.mark.parametrize("backend", ["asyncio", "trio"])
_WAIT = 10  # seconds; far more than anything here takes


class Telltale(MemoryStore):
    """A log that tells when it has been written to."""

    def __init__(self) -> None:
        super().__init__()
        self.late = threading.Event()

    def append(self, events: Iterable[Event]) -> None:
        events = list(events)
        super().append(events)
        if any(event.kind == "late" for event in events):
            self.late.set()


def allowing(*tools: Any, **options: Any) -> Agent:
    return Agent(tools, permissions=[AllowByDefault()], **options)


# ---------------------------------------------------------------------- N: running the allowed calls


@pytest.mark.states("N1")
@all_drivers
@pytest.mark.parametrize("form", ["sync", "async"])
def test_parallel_tools_run_at_the_same_time_and_the_others_after_them_one_by_one(form: str, driver: str) -> None:
    happened: list[str] = []
    lock, here = threading.Lock(), [0]
    all_here = threading.Event()

    def come(n: int) -> None:
        with lock:
            here[0] += 1
            if here[0] == 3:
                all_here.set()

    def together(n: int) -> None:
        come(n)
        assert all_here.wait(_WAIT)  # nobody gets on before all three have begun
        happened.append("together")

    async def atogether(n: int) -> None:
        come(n)
        while not all_here.is_set():
            await anyio.lowlevel.checkpoint()
        happened.append("together")

    def alone(n: int) -> None:
        happened.append(f"begin {n}")
        happened.append(f"end {n}")

    async def aalone(n: int) -> None:
        happened.append(f"begin {n}")
        await anyio.lowlevel.checkpoint()
        happened.append(f"end {n}")

    functions = (together, alone) if form == "sync" else (atogether, aalone)
    agent = allowing(Tool("together", function=functions[0]), Tool("alone", function=functions[1], parallel=False))
    names = ["alone", "together", "alone", "together", "together"]
    turn = run(driver, agent, [ToolCall(name, {"n": n}) for n, name in enumerate(names)])
    assert [result.outcome.kind for result in turn.results] == ["done"] * 5
    assert happened == ["together"] * 3 + ["begin 0", "end 0", "begin 2", "end 2"]


@pytest.mark.states("N1")
@all_drivers
def test_sync_tools_run_on_threads_that_are_not_the_callers(driver: str) -> None:
    threads: list[threading.Thread] = []

    def act(n: int) -> None:
        threads.append(threading.current_thread())

    run(driver, allowing(Tool("free", function=act), Tool("alone", function=act, parallel=False)), [
        ToolCall("free", {"n": 1}), ToolCall("alone", {"n": 2}),
    ])  # fmt: skip
    assert len(threads) == 2
    assert threading.main_thread() not in threads


@pytest.mark.states("N2")
@all_drivers
def test_starts_are_told_in_request_order_and_ends_as_they_come_on_the_callers_thread(driver: str) -> None:
    second_ended = threading.Event()
    threads: set[int] = set()

    class There(Telling):
        def on_tool_start(self, state: State, call: ToolCall) -> None:
            threads.add(threading.get_ident())
            super().on_tool_start(state, call)

        def on_tool_end(self, state: State, call: ToolCall, result: str, outcome: Any) -> None:
            threads.add(threading.get_ident())
            super().on_tool_end(state, call, result, outcome)
            if call.name == "second":
                second_ended.set()

    def first() -> str:
        assert second_ended.wait(_WAIT)
        return "first"

    def second() -> str:
        return "second"

    telling = There()
    run(driver, allowing(first, second, reporter=telling), [ToolCall("first"), ToolCall("second")])
    assert [told[:2] for told in telling.told] == [
        ("start", "first"),
        ("start", "second"),
        ("end", "second"),
        ("end", "first"),
    ]
    assert threads == {threading.get_ident()}


class Odd:
    def __str__(self) -> str:
        return "an odd thing"


PICTURE = Image(b"\x89PNG\r\n\x1a\n", "image/png")


@pytest.mark.states("N4")
@all_drivers
@pytest.mark.parametrize(
    ("value", "content", "images"),
    [
        ("as it is ü", "as it is ü", ()),
        (None, "(done)", ()),
        ({"ü": [1, None, True]}, '{"ü": [1, null, true]}', ()),
        (3.5, "3.5", ()),
        (PICTURE, None, (PICTURE,)),
        ([PICTURE, "beside it"], None, (PICTURE,)),
        ({"n": float("nan"), "far": float("-inf")}, '{"n": "NaN", "far": "-Infinity"}', ()),
        ({2, 1}, "[1, 2]", ()),
        (Odd(), "an odd thing", ()),
    ],
    ids=["text", "nothing", "JSON", "number", "image", "image and text", "not a number", "set", "object"],
)
def test_what_a_tool_returns_is_told_in_a_form_of_its_own(
    value: Any, content: str | None, images: tuple[Image, ...], driver: str
) -> None:
    def act() -> Any:
        return value

    (result,) = run(driver, allowing(act), [ToolCall("act")]).results
    assert (result.outcome.kind, result.error, result.images) == ("done", None, images)
    assert result.value is value
    if content is not None:
        assert result.content == content


@pytest.mark.states("N4")
@all_drivers
def test_a_result_that_cannot_be_told_is_an_error_of_its_call(driver: str) -> None:
    endless: list[Any] = []
    endless.append(endless)

    def act() -> Any:
        return endless

    counter = Counter("other")
    turn = run(driver, allowing(act, counter.tool), [ToolCall("act"), tool_call("other", n=1)])
    assert [result.outcome.kind for result in turn.results] == ["error", "done"]
    assert "contains itself" in turn.results[0].content
    assert isinstance(turn.results[0].error, ValueError)


@pytest.mark.states("N5", "N6", "S4")
@all_drivers
@pytest.mark.parametrize("form", ["sync", "async"])
@pytest.mark.parametrize(
    ("error", "kind", "content"),
    [
        (ToolError("no such file"), "error", "no such file"),
        (ToolInputError("n is odd"), "input_error", "(input error: n is odd)"),
        (LookupError("no table"), "error", "LookupError: no table"),
    ],
    ids=["ToolError", "ToolInputError", "any other"],
)
def test_what_a_tool_raises_is_its_result_and_the_others_run(
    error: Exception, kind: str, content: str, form: str, driver: str
) -> None:
    def act() -> None:
        raise error

    async def aact() -> None:
        raise error

    counter = Counter("other", parallel=False)
    agent = allowing(Tool("act", function=act if form == "sync" else aact), counter.tool)
    state = State(pending_calls=[tool_call("act"), tool_call("other", n=1)])
    first, second = run(driver, agent, state).results
    assert (first.outcome.kind, first.content, first.error) == (kind, content, error)
    assert first.is_error
    assert (second.outcome.kind, second.is_error) == ("done", False)
    assert state.pending_calls == ()
    assert [entry.kind for entry in state.history if entry.kind == "error"] == []
    assert {result.decided_by for result in (first, second)} == {"AllowByDefault()"}


@pytest.mark.states("N7", "X7")
@both_backends
def test_a_cancelled_run_keeps_what_has_finished_and_tells_the_model_of_what_comes_later(backend: str) -> None:
    finished, started, go_on, ended = (threading.Event() for _ in range(4))
    store = Telltale()

    class Ends(Telling):
        def on_tool_end(self, state: State, call: ToolCall, result: str, outcome: Any) -> None:
            super().on_tool_end(state, call, result, outcome)
            if call.name == "quick":
                finished.set()

    def quick() -> str:
        return "quick"

    def slow(word: str) -> str:
        started.set()
        assert go_on.wait(_WAIT)
        return f"{word}, at last"

    async def sleeping() -> None:
        try:
            await anyio.sleep_forever()
        finally:
            ended.set()

    telling = Ends()
    replies = [[tool_call("quick"), tool_call("slow", word="done"), tool_call("sleeping")], "I see."]
    model = ScriptedModel(replies)
    agent = allowing(quick, slow, sleeping, model=model, reporter=telling, audit=Log(store))
    state = State([Message.user("Go")])

    async def cancelled() -> None:
        async with anyio.create_task_group() as group:
            group.start_soon(agent.arun, state)
            for event in (finished, started):
                await anyio.to_thread.run_sync(event.wait, _WAIT)
            group.cancel_scope.cancel()

    anyio.run(cancelled, backend=backend)
    assert ended.is_set()
    assert {result.call.name: result.content for result in state.results} == {
        "quick": "quick",
        "slow": "(interrupted by user)",
        "sleeping": "(interrupted by user)",
    }
    assert [told for told in telling.told if told[0] == "end" and told[2] == "interrupted"] == [
        ("end", "slow", "interrupted", "AllowByDefault()"),
        ("end", "sleeping", "interrupted", "AllowByDefault()"),
    ]
    go_on.set()
    assert store.late.wait(_WAIT)
    assert (state.results[-1].content, state.results[-1].late) == ("done, at last", True)
    assert run_agent(backend, agent, state) == "I see."
    (notice,) = [message for message in model.requests[-1][0] if message.is_notice]
    assert notice.text == '[notice] interrupted slow(word="done") finished later: done, at last'


@pytest.mark.states("N8")
@all_drivers
def test_what_was_decided_and_answered_is_in_the_log_before_the_first_tool_starts(driver: str) -> None:
    seen: list[list[str]] = []

    def act(n: int) -> None:
        seen.append([f"{event.kind} {event.position}" for event in agent.audit.events() if event.position is not None])

    agent = Agent(
        [act, tool(name="other")(act)],
        permissions=[DenyByName(["other"]), DecideByHuman()],
        human=FakeHuman(["yes", "yes"]),
    )
    run(driver, agent, [ToolCall("other", {"n": 0}), ToolCall("act", {"n": 1}), ToolCall("act", {"n": 2})])
    assert len(seen) == 2
    kept = {"decided 0", "asked 1", "answered 1", "decided 1", "started 1", "asked 2", "answered 2", "decided 2"}
    assert kept <= set(seen[0])
    assert "finished 1" not in seen[0] or "finished 2" not in seen[0]


@pytest.mark.states("N9", "S4")
@all_drivers
def test_every_call_that_was_decided_says_by_whom(driver: str) -> None:
    class Says(DecidePermission):
        blocking = False

        def check(self, state: Any, call: ToolCall, tool: Any) -> Verdict | None:
            if call.name == "broken":
                raise ToolError("the rules are not loaded")
            return Denied("enough", stop=True) if call.name == "stop" else None

    def act(n: int = 0) -> None:
        if n == 13:
            raise ToolError("thirteen")

    tools = [tool(name=name)(act) for name in ("act", "rm", "broken", "stop", "nobody")]
    telling = Telling()
    agent = Agent(tools, permissions=[DenyByName(["rm"]), Says(), AllowByName(["act", "stop"])], reporter=telling)

    def decided(*calls: ToolCall) -> list[tuple[str, str | None]]:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            turn = run(driver, agent, calls)
        return [(result.outcome.kind.value, result.outcome.decided_by) for result in turn.results]

    assert decided(
        ToolCall("act"), ToolCall("act", {"n": 13}), ToolCall("act", {"n": "x"}), ToolCall("nope"),
        ToolCall("rm"), ToolCall("broken"), ToolCall("nobody"),
    ) == [
        ("done", "AllowByName(['act', 'stop'])"),
        ("error", "AllowByName(['act', 'stop'])"),
        ("input_error", None),
        ("input_error", None),
        ("denied", "DenyByName(['rm'])"),
        ("denied", "Says()"),
        ("denied", None),
    ]  # fmt: skip
    assert isinstance(agent.turns[-1].results[5].error, ToolError)
    assert decided(ToolCall("act"), ToolCall("stop")) == [("cancelled", "Says()"), ("denied", "Says()")]
    assert list(agent.audit.calls()["decided_by"].fillna("")).count("AllowByName(['act', 'stop'])") == 2


# ---------------------------------------------------------------------- O: async


@pytest.mark.states("O1")
@all_drivers
def test_async_tools_run_on_the_loop_and_sync_ones_off_it(driver: str) -> None:
    import sniffio

    where: dict[str, tuple[bool, str | None]] = {}

    def off() -> None:
        try:
            loop: str | None = sniffio.current_async_library()
        except sniffio.AsyncLibraryNotFoundError:
            loop = None
        where["sync"] = (threading.current_thread() is threading.main_thread(), loop)

    async def on() -> None:
        await anyio.lowlevel.checkpoint()
        where["async"] = (threading.current_thread() is threading.main_thread(), sniffio.current_async_library())

    turn = run(driver, allowing(off, on), [ToolCall("off"), ToolCall("on")])
    assert [result.outcome.kind for result in turn.results] == ["done", "done"]
    assert where["sync"] == (False, None)
    assert where["async"] == ((False, "asyncio") if driver == "sync" else (True, driver))


@pytest.mark.states("O2")
@both_backends
def test_a_cancellation_reaches_a_check_that_waits_and_denials_stay(backend: str) -> None:
    reached: list[str] = []

    class Waits(DecidePermission):
        async def acheck(self, state: Any, call: ToolCall, tool: Any) -> Verdict | None:
            if call.args["n"] == 0:
                return Denied("not this one")
            asked.set()
            try:
                await anyio.sleep_forever()
            except anyio.get_cancelled_exc_class():
                reached.append("cancelled")
                raise
            return Allowed()

    counter = Counter()
    agent = Agent([counter.tool], permissions=[Waits()])
    state = State(pending_calls=[tool_call("act", n=n) for n in range(3)])

    async def main() -> None:
        nonlocal asked
        asked = anyio.Event()
        async with anyio.create_task_group() as group:

            async def turn() -> None:
                await agent.ause_tools(state)

            group.start_soon(turn)
            await asked.wait()
            group.cancel_scope.cancel()

    asked: Any = None
    anyio.run(main, backend=backend)
    assert reached == ["cancelled"]
    assert [(result.outcome.kind.value, result.content) for result in state.results] == [
        ("denied", "not this one"),
        ("interrupted", "(interrupted by user)"),
        ("interrupted", "(interrupted by user)"),
    ]
    assert counter.ran == []


class BothForms(DecidePermission):
    """Says which of its two forms was asked."""

    blocking = False

    def __init__(self) -> None:
        self.asked: list[str] = []

    def check(self, state: Any, call: ToolCall, tool: Any) -> Verdict | None:
        self.asked.append("check")
        return Allowed()

    async def acheck(self, state: Any, call: ToolCall, tool: Any) -> Verdict | None:
        self.asked.append(f"acheck {threading.current_thread() is threading.main_thread()}")
        return Allowed()


@pytest.mark.states("O4")
@all_drivers
def test_the_sync_form_asks_check_and_the_async_form_acheck_on_the_loop(driver: str) -> None:
    both, counter = BothForms(), Counter()
    run(driver, Agent([counter.tool], permissions=[both]), [tool_call("act", n=1)])
    assert both.asked == (["check"] if driver == "sync" else ["acheck True"])
    assert counter.ran == [{"n": 1}]


@pytest.mark.states("O3", "X7")
@all_drivers
@pytest.mark.parametrize("how", ["a Human", "a Human with ask only", "any object"])
@pytest.mark.parametrize("answer", ["yes", "no"])
def test_an_answer_that_comes_after_a_cancellation_is_recorded_and_runs_nothing(
    answer: str, how: str, driver: str
) -> None:
    asked, go_on, store = threading.Event(), threading.Event(), Telltale()

    class Slow:
        def ask(self, state: Any, prompt: str, returns: Any = str) -> Any:
            asked.set()
            assert go_on.wait(_WAIT)
            return answer

    class SlowHuman(Slow, Human):
        pass

    class SlowOnly(Human):
        ask = Slow.ask

    human = {"a Human": SlowHuman, "a Human with ask only": SlowOnly, "any object": Slow}[how]()
    counter = Counter()
    agent = Agent([counter.tool], permissions=[DecideByHuman()], human=human, audit=Log(store))
    state = State(pending_calls=[tool_call("act", n=n) for n in range(2)])

    async def main() -> None:
        async with anyio.create_task_group() as group:

            async def turn() -> None:
                await agent.ause_tools(state)

            group.start_soon(turn)
            await anyio.to_thread.run_sync(asked.wait, _WAIT)
            group.cancel_scope.cancel()

    if driver == "sync":
        interrupting = threading.Thread(target=lambda: (asked.wait(_WAIT), _thread.interrupt_main()))
        interrupting.start()
        with pytest.raises(KeyboardInterrupt):
            agent.use_tools(state)
        interrupting.join(_WAIT)
    else:
        anyio.run(main, backend=driver)
    assert [result.outcome.kind for result in state.results] == ["interrupted", "interrupted"]
    assert [entry.kind for entry in state.history if entry.kind == "human"] == []
    go_on.set()
    assert store.late.wait(_WAIT)
    key = state.results[0].call_key
    (late,) = [event for event in agent.audit.events(key) if event.kind == "late"]
    assert late.data["action"] == ("allow" if answer == "yes" else "deny")
    (exchange,) = [entry for entry in state.history if entry.kind == "human"]
    assert (exchange.content.question, exchange.content.answer) == ("Run act(n=0)?", answer)
    assert exchange.call_key == key
    assert counter.ran == []
    assert [result.outcome.kind for result in state.results] == ["interrupted", "interrupted"]


@pytest.mark.states("P4")
@all_drivers
def test_a_human_is_not_asked_about_a_call_that_was_answered_elsewhere_meanwhile(driver: str) -> None:
    class Colleague(FakeHuman):
        def ask(self, state: Any, prompt: str, returns: Any = str) -> Any:
            for request in agent.pending()[1:]:
                the_desk.answer(request.id, Answer(ApprovalDecision("deny", reason="not that")))
            return super().ask(state, prompt, returns)

    counter, human = Counter(), Colleague(["yes"])
    agent = Agent([counter.tool], permissions=[DecideByHuman()], human=human)
    turn = run(driver, agent, [tool_call("act", n=n) for n in range(3)])
    assert [result.verdict for result in turn.results] == ["allowed", "denied", "denied"]
    assert human.questions == ["Run act(n=0)?"]


@pytest.mark.states("O3")
@both_backends
def test_what_a_blocking_check_says_after_a_cancellation_lets_nothing_run(backend: str) -> None:
    asked, go_on, said = threading.Event(), threading.Event(), threading.Event()

    class Slow(DecidePermission):
        def check(self, state: Any, call: ToolCall, tool: Any) -> Verdict | None:
            asked.set()
            assert go_on.wait(_WAIT)
            said.set()
            return Allowed()

    counter = Counter()
    agent = Agent([counter.tool], permissions=[Slow()])

    async def main() -> None:
        async with anyio.create_task_group() as group:

            async def turn() -> None:
                await agent.ause_tools([tool_call("act", n=1)])

            group.start_soon(turn)
            await anyio.to_thread.run_sync(asked.wait, _WAIT)
            group.cancel_scope.cancel()
        go_on.set()
        await anyio.to_thread.run_sync(said.wait, _WAIT)

    anyio.run(main, backend=backend)
    assert counter.ran == []
    assert [result.content for result in agent.state.results] == ["(interrupted by user)"]


# ---------------------------------------------------------------------- X: two calls of one id


def _anthropic(*calls: tuple[str, dict[str, Any]]) -> Any:
    content = [{"type": "tool_use", "id": "same", "name": name, "input": args} for name, args in calls]
    return {"type": "message", "role": "assistant", "content": content, "stop_reason": "tool_use"}


def _openai_chat(*calls: tuple[str, dict[str, Any]]) -> Any:
    made = [
        {"id": "same", "type": "function", "function": {"name": name, "arguments": json.dumps(args)}}
        for name, args in calls
    ]
    message = {"role": "assistant", "content": None, "tool_calls": made}
    return {"object": "chat.completion", "choices": [{"index": 0, "finish_reason": "tool_calls", "message": message}]}


def _openai_responses(*calls: tuple[str, dict[str, Any]]) -> Any:
    output = [
        {"type": "function_call", "call_id": "same", "name": name, "arguments": json.dumps(args)}
        for name, args in calls
    ]
    return {"object": "response", "status": "completed", "output": output}


def _calls(*calls: tuple[str, dict[str, Any]]) -> Any:
    return [ToolCall(name, args, "same") for name, args in calls]


def _told(format: str, messages: list[dict[str, Any]]) -> list[tuple[str, str]]:
    """Return the (id, text) pairs of the results in a provider's messages."""
    if format == "anthropic":
        return [(block["tool_use_id"], str(block["content"])) for block in messages[0]["content"]]
    if format == "openai-chat":
        return [(message["tool_call_id"], message["content"]) for message in messages]
    return [(message["call_id"], message["output"]) for message in messages]


REPLIES: dict[str, Callable[..., Any]] = {
    "anthropic": _anthropic,
    "openai-chat": _openai_chat,
    "openai-responses": _openai_responses,
    "calls": _calls,
}


@pytest.mark.states("X1")
@all_drivers
@pytest.mark.parametrize("format", REPLIES)
def test_two_calls_of_one_id_get_each_its_own_decision_and_result(format: str, driver: str) -> None:
    first_may_end = threading.Event()

    def read(n: int) -> str:
        if n == 0:
            assert first_may_end.wait(_WAIT)
        first_may_end.set()
        return f"read {n}"

    counter = Counter("write")
    agent = Agent([read, counter.tool], permissions=[DenyByName(["write"], reason="No writing."), AllowByDefault()])
    made = [("read", {"n": 0}), ("write", {"n": 1}), ("read", {"n": 2})]
    turn = run(driver, agent, REPLIES[format](*made))
    expected = ["read 0", "No writing.", "read 2"]  # the third call has ended first
    assert [result.content for result in turn.results] == expected
    assert [(call.name, call.args) for call in turn.calls] == made
    assert [result.outcome.kind for result in turn.results] == ["done", "denied", "done"]
    assert counter.ran == []
    blocks = agent.state.messages[-1].results
    assert [(block.call_id, block.name, block.content, block.is_error) for block in blocks] == [
        ("same", "read", "read 0", False),
        ("same", "write", "No writing.", True),
        ("same", "read", "read 2", False),
    ]
    assert list(agent.audit.calls()["verdict"]) == ["allowed", "denied", "allowed"]
    if format == "calls":
        return
    told = _told(format, turn.to_messages())
    assert [id for id, _ in told] == ["same"] * 3
    for (_, text), content in zip(told, expected, strict=True):
        assert content in text


@pytest.mark.states("X1")
@all_drivers
def test_answers_about_two_calls_of_one_id_go_each_to_its_own(driver: str) -> None:
    counter, human = Counter(), FakeHuman(["yes", "yes", "no"])
    agent = Agent([counter.tool], permissions=[DecideByHuman()], human=human)
    state = State(pending_calls=[ToolCall("act", {"n": n}, "same") for n in range(2)])
    assert [result.content for result in run(driver, agent, state).results] == ["ran {'n': 0}", "ran {'n': 1}"]
    assert [entry.call_key.rsplit("/", 1)[1] for entry in state.history if entry.kind == "human"] == ["0", "1"]
    more = State(pending_calls=[ToolCall("act", {"n": n}, "same") for n in range(2)])
    turn = run(driver, agent, more)
    assert [result.outcome.kind for result in turn.results] == ["denied", "cancelled"]
    assert turn.stopped is not None
    assert turn.stopped.call.args == {"n": 0}


@pytest.mark.states("E5", "X1")
@pytest.mark.parametrize("error", [None, OSError("gone")], ids=["ends", "fails"])
def test_an_end_of_the_approver_that_overtakes_its_last_answer_changes_nothing(error: Exception | None) -> None:
    """The thread that asks has ended before the turn hears what the desk makes of its answer."""

    async def review(requests: Any) -> Any:
        yield requests[0].id, ApprovalDecision("deny", reason="enough", stop=True)
        if error is not None:
            raise error

    def wait_for_the_end(change: DeskChange) -> None:
        if change.kind == "answered":
            for thread in threading.enumerate():
                if thread.name == "agentperm-review":
                    thread.join(_WAIT)

    unsubscribe = the_desk.subscribe(wait_for_the_end)
    try:
        agent = Agent([Counter().tool], permissions=[DecideByHuman()], human=Scripted(review))
        turn = agent.use_tools([ToolCall("act", {"n": n}, "same") for n in range(2)])
    finally:
        unsubscribe()
    assert [(result.outcome.kind, result.content) for result in turn.results] == [
        ("denied", "enough"),
        ("cancelled", "(not run: the user stopped this turn)"),
    ]
