"""The table of docs/differences.md about the permission list, executed (`difference_rows`)."""

from __future__ import annotations

import asyncio
import gc
import inspect
import io
import json
import sys
import threading
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any, ClassVar, Literal

import alpineagents as alpine
import alpineagents.permissions as upstream
import anyio
import difference_rows
import numpy
import pytest
from alpineagents import testing as alpine_testing
from difference_rows import subjects
from jupyter_client.manager import KernelManager
from kernels import clean_environment
from turns import Scripted

import agentperm_nb as ours
from agentperm_nb.approvals.desk import Answer, the_desk
from agentperm_nb.human import default_human
from agentperm_nb.testing import FakeHuman, ScriptedModel, tool_call

GO = "Go"


class Row(difference_rows.Row, table="The permission list"):
    """What one row of the table says."""


# --- ways to do a turn ------------------------------------------------------------------------------------------------


def act(n: int = 0, password: str = "", text: str = "") -> str:
    """Act."""
    return f"acted {n}"


def fail() -> str:
    """Fail."""
    raise OSError("the disk is full")


def agent_there(*calls: Any, replies: tuple[Any, ...] = (), **options: Any) -> Any:
    """An agent there whose model makes these calls."""
    options.setdefault("tools", [alpine.tool(act)])
    return alpine.Agent(alpine_testing.FakeModel([list(calls), *replies]), **{"reporter": None, **options})


def state_there(agent: Any) -> Any:
    """A state there in which the model's calls are pending."""
    state = alpine.State(messages=[alpine.Message.user(GO)])
    agent.think(state)
    return state


def results_there(*calls: Any, **options: Any) -> list[Any]:
    """The results of one turn there, in the order in which they came."""
    agent = agent_there(*calls, **options)
    state = state_there(agent)
    agent.use_tools(state)
    return [entry for entry in state.history if entry.kind == "tool_result"]


def agent_here(**options: Any) -> ours.Agent:
    return ours.Agent(**{"tools": [act], **options})


def results_here(*calls: ours.ToolCall, **options: Any) -> tuple[ours.CallResult, ...]:
    """The results of one turn of ours, in request order."""
    return agent_here(**options).use_tools(list(calls)).results


def both(make: Callable[[Any], Any]) -> tuple[Any, Any]:
    """The same class made of a base there and of ours."""
    return make(upstream), make(ours)


# --- the agent --------------------------------------------------------------------------------------------------------


class ImportPaths(Row, subject="import paths"):
    names = ("Allowed", "Denied", "DenyPermission", "DenyByName", "AllowByReadOnly", "DecideByHuman")

    def there(self) -> None:
        assert all(hasattr(upstream, name) and not hasattr(alpine, name) for name in self.names)

    def here(self) -> None:
        assert all(hasattr(ours, name) for name in self.names)


class PermissionsLeftOut(Row, subject="`permissions=` left out"):
    def there(self) -> None:
        assert [entry.content for entry in results_there(alpine_testing.tool_call("act"))] == ["acted 0"]

    def here(self) -> None:
        assert repr(agent_here().permissions) == "(AllowByReadOnly(), DecideByHuman())"
        agent = agent_here(permissions=None)
        turn = agent.use_tools([tool_call("act")])
        assert turn.results[0].content == "acted 0"
        assert all("UNCHECKED" in text for text in (repr(agent), repr(turn)))
        assert list(agent.audit.calls()["decided_kind"]) == ["unchecked"]


class OnePermission(Row, subject="one permission instead of a list"):
    def there(self) -> None:
        with pytest.raises(TypeError, match="permissions= takes a list"):
            agent_there(permissions=upstream.AllowByDefault())

    def here(self) -> None:
        assert repr(agent_here(permissions=ours.AllowByDefault()).permissions) == "(AllowByDefault(),)"


class WhoIsAsked(Row, subject="who is asked by default"):
    def there(self) -> None:
        assert isinstance(agent_there().human, alpine.Terminal)

    def here(self) -> None:
        class Shell:
            kernel = "an IPython kernel"

        class Terminal:
            closed = False

            def isatty(self) -> bool:
                return True

        (result,) = results_here(tool_call("act"))
        assert (result.verdict, result.answered_by) == ("denied", "nobody")
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(sys, "stdin", Terminal())
            assert isinstance(default_human(), ours.TextApprover)
            patch.setattr("IPython.get_ipython", Shell)
            assert isinstance(default_human(), ours.NotebookHuman)


class UseTools(Row, subject="`use_tools`"):
    def there(self) -> None:
        agent = agent_there(alpine_testing.tool_call("act"))
        assert agent.use_tools(state_there(agent)) is None
        with pytest.raises(TypeError, match="State"):
            agent.use_tools([alpine_testing.tool_call("act")])

    def here(self) -> None:
        agent = agent_here(permissions=ours.AllowByDefault())
        block = {"type": "tool_use", "id": "toolu_1", "name": "act", "input": {"n": 1}}
        reply = {"role": "assistant", "content": [block], "stop_reason": "tool_use"}
        for given in (reply, ours.State(pending_calls=[tool_call("act", n=1)]), [tool_call("act", n=1)]):
            turn = agent.use_tools(given)
            assert isinstance(turn, ours.Turn)
            assert turn.results[0].content == "acted 1"


class DecidedBy(Row, subject="`decided_by`"):
    def there(self) -> None:
        told: list[Any] = []

        class Told(alpine.Reporter):
            def on_tool_end(self, state: Any, call: Any, result: Any, outcome: Any) -> None:
                told.append(outcome.decided_by)

        rules = [upstream.DenyByName(["no"]), upstream.AllowByDefault()]
        tools = [alpine.tool(act), alpine.tool(name="no")(lambda: None)]
        calls = [alpine_testing.tool_call("act"), alpine_testing.tool_call("no")]
        results_there(*calls, permissions=rules, tools=tools, reporter=Told())
        assert set(told) == {None, "DenyByName(['no'])"}

    def here(self) -> None:
        (result,) = results_here(tool_call("act"), permissions=[ours.AllowByDefault()])
        assert result.decided_by == "AllowByDefault()"


# --- asking a person --------------------------------------------------------------------------------------------------


def asking(log: list[str]) -> Callable[[Any], Any]:
    """Give, for a package, a rule and a human that note when they are asked."""

    def make(package: Any) -> Any:
        class Rule(package.DenyPermission):  # type: ignore[misc,name-defined]
            def check(self, state: Any, call: Any, tool: Any) -> Any:
                log.append(f"rule {call.args['n']}")

        class Person:
            def ask(self, state: Any, prompt: str, returns: Any = str) -> str:
                log.append(f"person {prompt[len('Run act(n=') :][0]}")
                return "yes"

        return {"permissions": [Rule(), package.DecideByHuman()], "human": Person()}

    return make


class Verdicts(Row, subject="verdicts"):
    @staticmethod
    def asks(package: Any) -> Any:
        class Asks(package.DecidePermission):  # type: ignore[misc,name-defined]
            def check(self, state: Any, call: Any, tool: Any) -> Any:
                return ours.Ask("It costs money.")

        return Asks()

    def there(self) -> None:
        assert not hasattr(upstream, "Ask")
        with pytest.raises(TypeError, match=r"may return only Allowed\(\) or Denied\(...\) or None"):
            results_there(alpine_testing.tool_call("act"), permissions=[self.asks(upstream)])

    def here(self) -> None:
        human = FakeHuman(["yes"])
        (result,) = results_here(tool_call("act"), permissions=[self.asks(ours)], human=human)
        assert (result.verdict, human.questions) == ("allowed", ["It costs money."])


class ByHuman(Row, subject="`DecideByHuman`"):
    def there(self) -> None:
        log: list[str] = []
        calls = [alpine_testing.tool_call("act", n=n) for n in (1, 2)]
        results_there(*calls, **asking(log)(upstream))
        assert log == ["rule 1", "person 1", "rule 2", "person 2"]

    def here(self) -> None:
        log: list[str] = []
        results_here(*[tool_call("act", n=n) for n in (1, 2)], **asking(log)(ours))
        assert log[:4] == ["rule 1", "rule 2", "person 1", "person 2"]

        class Own(ours.DecideByHuman):
            def check(self, state: Any, call: Any, tool: Any) -> Any:
                before = len(human.questions)
                verdict = super().check(state, call, tool)
                assert len(human.questions) == before + 1
                return verdict

        human = FakeHuman(["yes"])
        assert results_here(tool_call("act"), permissions=[Own()], human=human)[0].verdict == "allowed"


class Arguments(Row, subject="arguments"):
    def there(self) -> None:
        human = alpine_testing.FakeHuman(["yes"])
        call = alpine_testing.tool_call("act", n="x")
        (entry,) = results_there(call, permissions=[upstream.DecideByHuman()], human=human)
        assert (entry.outcome, len(human.questions)) == ("input_error", 1)

    def here(self) -> None:
        human = FakeHuman(["yes"])
        (result,) = results_here(tool_call("act", n="x"), permissions=[ours.DecideByHuman()], human=human)
        assert (result.outcome.kind, human.questions) == ("input_error", [])


class SeveralQuestions(Row, subject="several questions in a turn"):
    def there(self) -> None:
        log: list[str] = []

        class Person:
            async def aask(self, state: Any, prompt: str, returns: Any = str) -> str:
                log.append("asked")
                await asyncio.sleep(0)
                log.append("answered")
                return "yes"

        calls = [alpine_testing.tool_call("act", n=n) for n in (1, 2)]
        agent = agent_there(*calls, permissions=[upstream.DecideByHuman()], human=Person())
        state = state_there(agent)
        asyncio.run(agent.ause_tools(state))
        assert log == ["asked", "answered"] * 2

    def here(self) -> None:
        together: list[int] = []

        async def review(requests: Any) -> Any:
            together.append(len(requests))
            for request in requests:
                yield request.id, True

        results_here(tool_call("act", n=1), tool_call("act", n=2), human=Scripted(review))
        assert together == [2]


class Texts(Row, subject="arguments in texts"):
    args: ClassVar[dict[str, str]] = {"password": "hunter2 and more", "text": "a\u200bb"}

    def there(self) -> None:
        human = alpine_testing.FakeHuman(["no"])
        call = alpine_testing.tool_call("act", **self.args)
        results_there(call, permissions=[upstream.DecideByHuman()], human=human)
        assert all(text in human.questions[0] for text in self.args.values())

    def here(self) -> None:
        shown: list[str] = []
        agent = agent_here(human=ours.TextApprover(read=lambda question: "d", write=shown.append))
        turn = agent.use_tools([tool_call("act", **self.args)])
        assert not any(text in told for text in self.args.values() for told in (*shown, repr(turn)))
        assert all("password" in told and "\\u{200B}" in told for told in ("\n".join(shown), repr(turn)))


class LateAnswer(Row, subject="an answer that comes after its turn was cancelled"):
    @staticmethod
    def cancel(use_tools: Callable[[], Any], asked: threading.Event) -> None:
        """Cancel a turn while a person is asked."""

        async def main() -> None:
            turn = asyncio.ensure_future(use_tools())
            await asyncio.to_thread(asked.wait, 10)
            turn.cancel()
            await asyncio.wait([turn])

        asyncio.run(main())

    def there(self) -> None:
        asked, go_on, answered = threading.Event(), threading.Event(), threading.Event()

        class Person:
            def ask(self, state: Any, prompt: str, returns: Any = str) -> str:
                threads.append(threading.current_thread())
                asked.set()
                answered.set() if go_on.wait(10) else None
                return "yes"

        threads: list[threading.Thread] = []
        rules = [upstream.DecideByHuman()]
        agent = agent_there(alpine_testing.tool_call("act"), permissions=rules, human=Person())
        state = state_there(agent)
        self.cancel(lambda: agent.ause_tools(state), asked)
        go_on.set()
        threads[0].join(10)
        assert answered.is_set()
        assert [entry.kind for entry in state.history if entry.kind in ("human", "tool_result")] == []

    def here(self) -> None:
        asked, requests = threading.Event(), list[ours.ApprovalRequest]()

        async def review(given: Any) -> Any:
            requests.extend(given)
            asked.set()
            await anyio.sleep_forever()
            yield

        agent = agent_here(human=Scripted(review))

        async def turn() -> None:
            await agent.ause_tools([tool_call("act")])

        self.cancel(turn, asked)
        assert not the_desk.answer(requests[0].id, Answer(ours.ApprovalDecision("allow")))
        assert [event.kind for event in agent.audit.events(requests[0].call_key)][-1] == "late"


class Button(Row, subject="a button under a running cell, in the sync form"):
    def there(self) -> None:
        """The click is a callback of the loop on which a notebook's cells run; the cell keeps it from running."""
        clicked, came = threading.Event(), list[bool]()

        class Panel:
            def ask(self, state: Any, prompt: str, returns: Any = str) -> str:
                asyncio.get_running_loop().call_soon(clicked.set)
                came.append(clicked.wait(0.05))
                return "yes"

        async def cell() -> None:
            calls, rules = alpine_testing.tool_call("act"), [upstream.DecideByHuman()]
            results_there(calls, permissions=rules, human=Panel())

        asyncio.run(cell())
        assert came == [False]

    VIEW = "application/vnd.jupyter.widget-view+json"
    CELL = """
from agentperm_nb import Agent
from agentperm_nb.testing import tool_call
def act(): pass
print(Agent([act]).use_tools([tool_call("act")]).results[0].verdict)
"""

    def here(self) -> None:
        manager = KernelManager()
        manager.start_kernel(env=clean_environment(self.folder))
        client = manager.client()
        client.start_channels()
        try:
            client.wait_for_ready(timeout=60)
            client.execute(self.CELL)
            drawn = self.heard(client, lambda kind, content: self.VIEW in content.get("data", {}))
            panel = drawn["data"][self.VIEW]["model_id"]
            self.click(client, panel, {"type": "hello"})
            cards = self.heard(client, lambda kind, content: "cards" in content.get("data", {}).get("content", {}))
            (card,) = cards["data"]["content"]["cards"]
            answer = {"type": "answer", "ids": [card["id"]], "action": "approve", "reason": ""}
            self.click(client, panel, answer)
            self.heard(client, lambda kind, content: content.get("text") == "allowed\n")
        finally:
            client.stop_channels()
            manager.shutdown_kernel(now=True)
            manager.cleanup_resources()

    @staticmethod
    def click(client: Any, comm_id: str, content: dict[str, Any]) -> None:
        """Send what the page sends."""
        data = {"method": "custom", "content": content}
        client.shell_channel.send(client.session.msg("comm_msg", {"comm_id": comm_id, "data": data}))

    @staticmethod
    def heard(client: Any, wanted: Callable[[str, Any], bool]) -> Any:
        """Return the content of the first such message of the kernel."""
        while True:
            message = client.get_iopub_msg(timeout=30)
            if wanted(message["msg_type"], message["content"]):
                return message["content"]


# --- patterns ---------------------------------------------------------------------------------------------------------


class Case(Row, subject="case in deny patterns"):
    def there(self) -> None:
        rule = upstream.DenyByName(["delete_*"])
        names = ("Delete_all", "ｄelete_all")
        assert [rule.check(None, alpine_testing.tool_call(name), None) for name in names] == [None, None]

    def here(self) -> None:
        rule = ours.DenyByName(["delete_*"])
        assert all(rule.check(None, tool_call(name), act) for name in ("Delete_all", "ｄelete_all"))
        assert ours.AllowByName(["delete_*"]).check(None, tool_call("Delete_all"), act) is None


class NoPatterns(Row, subject="an empty list of patterns"):
    def there(self) -> None:
        assert upstream.DenyByName([]).check(None, alpine_testing.tool_call("act"), None) is None

    def here(self) -> None:
        with pytest.raises(ValueError, match="pattern"):
            ours.DenyByName([])


class NoSuchName(Row, subject="a pattern with a space, or an empty one"):
    patterns = (" act", "")

    def there(self) -> None:
        assert upstream.DenyByName(self.patterns).check(None, alpine_testing.tool_call("act"), None) is None

    def here(self) -> None:
        for pattern in self.patterns:
            with pytest.raises(ValueError, match="pattern"):
                ours.DenyByName([pattern])


class Bytes(Row, subject="patterns given as bytes"):
    def there(self) -> None:
        with pytest.raises(TypeError, match=r"\(got: 114\)"):
            upstream.DenyByName(b"rm")

    def here(self) -> None:
        with pytest.raises(TypeError, match="takes a list of name patterns"):
            ours.DenyByName(b"rm")  # type: ignore[arg-type]


# --- permissions that go wrong ----------------------------------------------------------------------------------------


def raising(error: Exception) -> Callable[[Any], Any]:
    """Give, for a package, a rule that raises."""

    def make(package: Any) -> Any:
        class Raises(package.DenyPermission):  # type: ignore[misc,name-defined]
            def check(self, state: Any, call: Any, tool: Any) -> Any:
                raise error

        return Raises()

    return make


class PermissionRaises(Row, subject="a permission that raises, or says what it may not"):
    def there(self) -> None:
        rule = raising(LookupError("no such rate"))(upstream)
        agent = agent_there(alpine_testing.tool_call("act"), alpine_testing.tool_call("act"), permissions=[rule])
        state = state_there(agent)
        with pytest.raises(LookupError):
            agent.use_tools(state)
        assert len(state.pending_calls) == 2

    def here(self) -> None:
        state = ours.State(pending_calls=[tool_call("act"), tool_call("act")])
        with pytest.raises(LookupError):
            agent_here(permissions=[raising(LookupError("no such rate"))(ours)]).use_tools(state)
        assert state.pending_calls == ()
        assert [result.outcome.kind for result in state.results] == ["denied", "aborted"]


class StopsIterating(Row, subject="a check that raises `StopIteration`"):
    def there(self) -> None:
        agent = agent_there(alpine_testing.tool_call("act"), permissions=[raising(StopIteration())(upstream)])
        state = state_there(agent)

        async def main() -> None:
            refused = asyncio.Event()  # asyncio takes no StopIteration as the result of what is awaited
            asyncio.get_running_loop().set_exception_handler(lambda loop, context: refused.set())
            turn = asyncio.ensure_future(agent.ause_tools(state))
            await refused.wait()
            for _ in range(100):
                await asyncio.sleep(0)
            assert not turn.done()
            turn.cancel()
            await asyncio.wait([turn])

        asyncio.run(main())

    def here(self) -> None:
        agent = agent_here(permissions=[raising(StopIteration())(ours)])

        async def main() -> None:
            with pytest.raises(RuntimeError, match="raised StopIteration"):
                await agent.ause_tools([tool_call("act")])

        anyio.run(main)


class WrittenAsync(Row, subject="`async def check`, or `acheck` without `async`"):
    @staticmethod
    def kinds(package: Any) -> tuple[Any, Any, Any]:
        class AsyncCheck(package.DenyPermission):  # type: ignore[misc,name-defined]
            async def check(self, state: Any, call: Any, tool: Any) -> Any:
                return None

        class SyncAcheck(package.DenyPermission):  # type: ignore[misc,name-defined]
            def acheck(self, state: Any, call: Any, tool: Any) -> Any:
                return None

        class NoCheck(package.DenyPermission):  # type: ignore[misc,name-defined]
            check = None

        return AsyncCheck, SyncAcheck, NoCheck

    def there(self) -> None:
        for kind in self.kinds(upstream):
            agent = agent_there(alpine_testing.tool_call("act"), permissions=[kind()])
            turn = agent.ause_tools(state_there(agent))
            with pytest.raises(TypeError) as raised:
                asyncio.run(turn)
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", RuntimeWarning)  # a coroutine that nobody has awaited
                raised.value.__traceback__ = None
                del raised, turn, agent
                gc.collect()

    def here(self) -> None:
        for kind in self.kinds(ours):
            with pytest.raises(TypeError, match="check"):
                kind()


class Threads(Row, subject="threads for checks in the async form"):
    @staticmethod
    def rules(package: Any, used: list[threading.Thread], **body: Any) -> list[Any]:
        class Noting(package.DenyPermission):  # type: ignore[misc,name-defined]
            def check(self, state: Any, call: Any, tool: Any) -> Any:
                used.append(threading.current_thread())

        made = type("Made", (Noting,), body)
        return [made(), made(), package.AllowByDefault()]

    def there(self) -> None:
        used: list[threading.Thread] = []
        calls = [alpine_testing.tool_call("act", n=n) for n in (1, 2)]
        agent = agent_there(*calls, permissions=self.rules(upstream, used))
        asyncio.run(agent.ause_tools(state_there(agent)))
        assert len(set(used)) == 4

    def here(self) -> None:
        used: list[threading.Thread] = []
        for body, threads in [({"blocking": False}, {threading.current_thread()}), ({}, None)]:
            agent = agent_here(permissions=self.rules(ours, used, **body))

            async def main(agent: ours.Agent = agent) -> None:
                await agent.ause_tools([tool_call("act", n=n) for n in (1, 2)])

            used.clear()
            anyio.run(main)
            assert set(used) == threads or (threads is None and len(set(used)) == 1)


class ReprRaises(Row, subject="a permission whose repr raises"):
    @staticmethod
    def rule(package: Any) -> Any:
        class Shy(package.DenyPermission):  # type: ignore[misc,name-defined]
            def __repr__(self) -> str:
                raise RuntimeError("no repr")

            def check(self, state: Any, call: Any, tool: Any) -> Any:
                return package.Denied("Not now.")

        return Shy()

    def there(self) -> None:
        with pytest.raises(RuntimeError, match="no repr"):
            results_there(alpine_testing.tool_call("act"), permissions=[self.rule(upstream)])

    def here(self) -> None:
        agent = agent_here(permissions=[self.rule(ours)])
        assert agent.use_tools([tool_call("act")]).results[0].content == "Not now."
        assert list(agent.audit.calls()["decided_by"]) == ["Shy(?)"]


class NobodyDecided(Row, subject="the `PermissionWarning` for a call nobody decided"):
    def shown(self, turn: Callable[[], Any]) -> list[str]:
        """The files of the warnings that Python shows of two turns."""
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("default")
            for _ in range(2):
                turn()
        return [Path(warning.filename).parent.name for warning in caught]

    def there(self) -> None:
        def turn() -> None:
            results_there(alpine_testing.tool_call("act"), permissions=[])

        assert self.shown(turn) == ["alpineagents"]

    def here(self) -> None:
        agent = agent_here(permissions=[])
        assert self.shown(lambda: agent.use_tools([tool_call("act")])) == ["tests", "tests"]


class WarningAsError(Row, subject="a `PermissionWarning` made an error"):
    def there(self) -> None:
        agent = agent_there(alpine_testing.tool_call("act"), permissions=[])
        state = state_there(agent)
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            with pytest.raises(alpine.PermissionWarning) as raised:
                agent.use_tools(state)
        assert not hasattr(raised.value, "__notes__")
        assert len(state.pending_calls) == 1

    def here(self) -> None:
        agent = agent_here(permissions=[])
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            with pytest.raises(ours.PermissionWarning) as raised:
                agent.use_tools([tool_call("act")])
        assert raised.value.__notes__ == ["warned about act(), which was denied"]
        assert [result.outcome.kind for result in agent.state.results] == ["denied"]


# --- tools and results ------------------------------------------------------------------------------------------------


class ToolRaises(Row, subject="a tool that raises"):
    def there(self) -> None:
        calls = [alpine_testing.tool_call("fail"), alpine_testing.tool_call("act")]
        agent = agent_there(*calls, tools=[alpine.tool(act), alpine.tool(fail)])
        state = state_there(agent)
        with pytest.raises(OSError, match="the disk is full"):
            agent.use_tools(state)
        assert [entry.content for entry in state.history if entry.kind == "tool_result"] == ["acted 0"]
        assert [call.name for call in state.pending_calls] == ["fail"]

    def here(self) -> None:
        calls = [tool_call("fail"), tool_call("act")]
        results = results_here(*calls, tools=[act, fail], permissions=[ours.AllowByDefault()])
        assert [result.outcome.kind for result in results] == ["error", "done"]


class OneId(Row, subject="two calls of one id in a turn"):
    def there(self) -> None:
        calls = [alpine.ToolCall(name, {}, "call_1") for name in ("first", "second")]
        tools = [alpine.tool(name=name)(lambda: "ran") for name in ("first", "second")]
        rules = [upstream.DenyByName(["second"]), upstream.AllowByDefault()]
        entries = results_there(*calls, tools=tools, permissions=rules)
        assert {entry.call.name: entry.outcome for entry in entries} == {"first": "denied", "second": "done"}

    def here(self) -> None:
        calls = [ours.ToolCall(name, {}, "call_1") for name in ("first", "second")]
        tools = [ours.tool(name=name)(lambda: "ran") for name in ("first", "second")]
        rules = [ours.DenyByName(["second"]), ours.AllowByDefault()]
        results = results_here(*calls, tools=tools, permissions=rules)
        assert [result.outcome.kind for result in results] == ["done", "denied"]


class NotJson(Row, subject="results that JSON has no form for"):
    @staticmethod
    def get() -> Any:
        return numpy.array([3, 1, 2])

    def there(self) -> None:
        with pytest.raises(TypeError):
            results_there(alpine_testing.tool_call("get"), tools=[alpine.tool(self.get)])

    def here(self) -> None:
        (result,) = results_here(tool_call("get"), tools=[self.get], permissions=[ours.AllowByDefault()])
        assert "[3,1,2]" in result.content.replace(" ", "")
        assert list(result.value) == [3, 1, 2]


class ReporterRaises(Row, subject="a reporter that raises"):
    @staticmethod
    def reporter(package: Any) -> Any:
        class Raises(package.Reporter):  # type: ignore[misc,name-defined]
            def on_tool_end(self, state: Any, call: Any, result: Any, outcome: Any) -> None:
                raise OSError("no paper")

        return Raises()

    def there(self) -> None:
        calls = [alpine_testing.tool_call(name) for name in ("no", "act")]
        tools = [alpine.tool(act), alpine.tool(name="no")(lambda: None)]
        rules = [upstream.DenyByName(["no"]), upstream.AllowByDefault()]
        agent = agent_there(*calls, tools=tools, permissions=rules, reporter=self.reporter(alpine))
        state = state_there(agent)
        with pytest.raises(OSError, match="no paper"):
            agent.use_tools(state)
        assert [call.name for call in state.pending_calls] == ["act"]

    def here(self) -> None:
        tools = [act, ours.tool(name="no")(lambda: None)]
        rules = [ours.DenyByName(["no"]), ours.AllowByDefault()]
        with pytest.warns(UserWarning, match="the reporter raised in on_tool_end: OSError: no paper"):
            results = results_here(
                tool_call("no"), tool_call("act"), tools=tools, permissions=rules, reporter=self.reporter(ours)
            )
        assert [result.outcome.kind for result in results] == ["denied", "done"]


class Late(Row, subject="what a tool returns after its turn was interrupted"):
    @staticmethod
    def interrupt(use_tools: Callable[[], Any], started: threading.Event) -> None:
        """Cancel a turn while its tool runs."""

        async def main() -> None:
            turn = asyncio.ensure_future(use_tools())
            await asyncio.to_thread(started.wait, 10)
            turn.cancel()
            await asyncio.wait([turn])

        asyncio.run(main())

    def there(self) -> None:
        started, go_on = threading.Event(), threading.Event()

        def slow() -> str:
            started.set()
            return f"too late: {go_on.wait(10)}"

        agent = agent_there(alpine_testing.tool_call("slow"), replies=("Ah.",), tools=[alpine.tool(slow)])
        state = alpine.State(messages=[alpine.Message.user(GO)])
        self.interrupt(lambda: agent.arun(state), started)
        thread = next(thread for thread in threading.enumerate() if thread.name == "alpineagents-tool")
        go_on.set()
        thread.join(10)
        assert [(entry.content, entry.late) for entry in state.history if entry.kind == "tool_result"] == [
            ("(interrupted by user)", False),
            ("too late: True", True),
        ]
        agent.run(state)
        assert "interrupted slow() finished later: too late: True" in agent.model.requests[-1].messages[-1].text

    def here(self) -> None:
        started, go_on, logged = threading.Event(), threading.Event(), threading.Event()

        def slow() -> str:
            started.set()
            return f"too late: {go_on.wait(10)}"

        class Store(ours.MemoryStore):
            def append(self, events: Any) -> None:
                events = list(events)
                super().append(events)
                if any(event.kind == "late" for event in events):
                    logged.set()

        model = ScriptedModel([tool_call("slow"), "Ah."])
        options: dict[str, Any] = {"permissions": [ours.AllowByDefault()], "audit": ours.Log(Store())}
        agent = ours.Agent([slow], model=model, **options)
        state = ours.State([ours.Message.user(GO)])
        self.interrupt(lambda: agent.arun(state), started)
        go_on.set()
        assert logged.wait(10)
        assert [(result.content, result.late) for result in state.results] == [
            ("(interrupted by user)", False),
            ("too late: True", True),
        ]
        assert [event.kind for event in agent.audit.events(state.results[0].call_key)][-2:] == ["lost", "late"]
        agent.run(state)
        assert "interrupted slow() finished later: too late: True" in model.requests[-1][0][-1].text


class CannotStart(Row, subject="a subagent that cannot start, because there is nobody whom it could ask"):
    def there(self) -> None:
        inner = agent_there(permissions=[upstream.DecideByHuman()], human=None, name="helper", description="Helps.")
        agent = agent_there(alpine_testing.tool_call("helper", prompt=GO), tools=[inner])
        with pytest.raises(alpine.NoHumanError):
            agent.run(GO)

    def here(self) -> None:
        inner = ours.Agent(
            [act], model=ScriptedModel([]), permissions=[ours.DecideByHuman()], human=None, name="helper"
        )
        (result,) = results_here(tool_call("helper", prompt=GO), tools=[inner], permissions=[ours.AllowByDefault()])
        assert result.outcome.kind == "error"
        assert result.content.startswith("(helper failed: NoHumanError: ")


class NotANumber(Row, subject="NaN and infinities in a result"):
    @staticmethod
    def measure() -> dict[str, float]:
        return {"mean": float("nan"), "most": float("inf")}

    def there(self) -> None:
        (entry,) = results_there(alpine_testing.tool_call("measure"), tools=[alpine.tool(name="measure")(self.measure)])
        assert entry.content == '{"mean": NaN, "most": Infinity}'

    def here(self) -> None:
        (result,) = results_here(
            tool_call("measure"), tools=[ours.tool(self.measure)], permissions=[ours.AllowByDefault()]
        )
        assert json.loads(result.content) == {"mean": "NaN", "most": "Infinity"}


class RunOfATool(Row, subject="`run` of a subclass of `Tool`"):
    def there(self) -> None:
        class Own(alpine.Tool):
            def run(self, args: dict[str, Any], state: Any) -> str:
                return f"{args['n']} in turn {state.turn}"

        schema = {"type": "object", "properties": {"n": {"type": "integer"}}}
        (entry,) = results_there(alpine_testing.tool_call("own", n=1), tools=[Own(name="own", input_schema=schema)])
        assert entry.content == "1 in turn 1"

    def here(self) -> None:
        class Own(ours.Tool):
            def run(self, args: dict[str, Any]) -> str:
                context = ours.get_run_context()
                assert context is not None
                return f"{args['n']} in {context.run_id}"

        schema = {"type": "object", "properties": {"n": {"type": "integer"}}}
        agent = agent_here(tools=[Own("own", "", schema)], permissions=[ours.AllowByDefault()])
        assert agent.use_tools([tool_call("own", n=1)]).results[0].content == f"1 in {agent.run_id}"


class Timeouts(Row, subject="a tool that takes too long"):
    def there(self) -> None:
        with pytest.raises(TypeError, match="timeout"):
            alpine.tool(timeout=1)
        assert "timeout" in inspect.signature(alpine.MCP).parameters

    def here(self) -> None:
        async def sleep() -> None:
            await anyio.sleep_forever()

        tools = [ours.tool(timeout=0.05)(sleep)]
        (result,) = results_here(tool_call("sleep"), tools=tools, permissions=[ours.AllowByDefault()])
        assert (result.outcome.kind, result.content) == ("error", "timed out after 0.05 s")


class Entries(Row, subject="entries of the history"):
    def there(self) -> None:
        (entry,) = results_there(alpine_testing.tool_call("act"))
        assert entry.outcome == "done"
        assert (entry.usage, entry.child_ids) == (None, ())

    def here(self) -> None:
        (entry,) = results_here(tool_call("act"), permissions=[ours.AllowByDefault()])
        assert (entry.outcome.kind, entry.outcome.decided_by) == ("done", "AllowByDefault()")
        assert not hasattr(entry, "usage")
        assert not hasattr(entry, "child_ids")
        assert entry.call_key.endswith("/1/0")


class AtTheTerminal(Row, subject="the terminal"):
    def there(self) -> None:
        shown = io.StringIO()
        terminal = alpine.Terminal(output=shown, input=lambda question: shown.write(question) and "no")
        rules = [upstream.DecideByHuman()]
        agent = agent_there(alpine_testing.tool_call("act"), permissions=rules, human=terminal, reporter=terminal)
        agent.run(GO)
        assert "Run act()? (yes/no) " in shown.getvalue()
        assert shown.getvalue().splitlines()[-1] == "done: stopped by permission DecideByHuman() (1 turn)"

    def here(self) -> None:
        shown = io.StringIO()
        typed = iter(["s", ""])
        human = ours.TextApprover(lambda question: shown.write(f"{question}\n") and next(typed), shown.write)
        agent = agent_here(
            permissions=[ours.DecideByHuman()],
            human=human,
            reporter=ours.PrintReporter(shown),
            model=ScriptedModel([tool_call("act")]),
        )
        agent.run(GO)
        assert "[a]pprove, [d]eny, deny and [s]top, [e]dit, [r]emember? " in shown.getvalue()
        assert shown.getvalue().splitlines()[-1] == "done: stopped by permission DecideByHuman() (1 turn)"
        assert ours.TextApprover(lambda question: shown.write(question) and "yes", shown.write).ask(
            None, "Go on?", bool
        )
        assert shown.getvalue().endswith("Go on? (yes/no) ")


class OfAnotherType(Row, subject="an answer of another type than the choice"):
    def there(self) -> None:
        assert alpine.human.parse_answer(True, Literal[1, 2]) == 1

    def here(self) -> None:
        with pytest.raises(ValueError, match="Answer with one of: 1, 2"):
            ours.parse_answer(True, Literal[1, 2])


class Doubles(Row, subject="the double of a model"):
    def there(self) -> None:
        assert agent_there(alpine_testing.tool_call("act"), replies=("Done.",)).run(GO) == "Done."

    def here(self) -> None:
        agent = agent_here(model=ScriptedModel([tool_call("act"), "Done."]), permissions=[ours.AllowByDefault()])
        assert agent.run(GO) == "Done."


loops: list[Any] = []


class OneLoop(Row, subject="async tools in the sync form"):
    @staticmethod
    async def where() -> str:
        loops.append(asyncio.get_running_loop())
        return "here"

    def there(self) -> None:
        loops.clear()
        results_there(*[alpine_testing.tool_call("where")] * 2, tools=[alpine.tool(self.where)])
        assert len(set(loops)) == 2

    def here(self) -> None:
        loops.clear()
        agent = agent_here(tools=[self.where], permissions=[ours.AllowByDefault()])
        for _ in range(2):
            agent.use_tools([tool_call("where"), tool_call("where")])
        assert len(set(loops)) == 1


# --- the table --------------------------------------------------------------------------------------------------------


def test_every_row_of_the_table_is_shown_by_a_class_and_every_class_shows_a_row() -> None:
    assert sorted(subjects("The permission list")) == sorted(Row.rows), (
        "each row of docs/differences.md has a class in this file"
    )


@pytest.mark.parametrize("column", ["there", "here"])
@pytest.mark.parametrize("subject", Row.rows)
@pytest.mark.timeout(90)  # one starts a kernel
def test_a_row_says_what_happens(subject: str, column: str, tmp_path: Path) -> None:
    getattr(Row.rows[subject](tmp_path), column)()
