"""The table of docs/differences.md about modes and approvals, executed (`difference_rows`)."""

from __future__ import annotations

import asyncio
import inspect
import threading
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from typing import Any, NamedTuple

import difference_rows
import loomflow
import pandas  # noqa: F401 - its first import takes seconds, which no single test should pay
import pytest
from difference_rows import subjects
from loomflow.core import _deprecation
from loomflow.core.errors import RunTimeout
from loomflow.core.types import ToolCall as CallThere
from loomflow.model.scripted import ScriptedModel, ScriptedTurn
from loomflow.security.permissions_resolver import resolve_permissions as resolve_there
from turns import Counter

import agentperm_nb as ours
from agentperm_nb.testing import tool_call

HEADING = "Modes and approvals"


class Row(difference_rows.Row, table=HEADING):
    """What one row of the table says."""


# --- ways to do a turn ------------------------------------------------------------------------------------------------


class Outcome(NamedTuple):
    """What came of a run there."""

    ran: list[dict[str, Any]]
    told: list[str]
    """What the model was told of its calls."""
    log: list[Any]
    result: Any


def tool_there(name: str, ran: list[dict[str, Any]], *, destructive: bool = True) -> Any:
    async def act(n: int = 0, path: str = "") -> str:
        ran.append({key: value for key, value in {"n": n, "path": path}.items() if value})
        return f"ran {n}"

    return loomflow.tool(name=name, description="Act.", destructive=destructive)(act)


async def arun_there(
    *calls: CallThere,
    destructive: bool = True,
    then: tuple[CallThere, ...] = (),
    tokens: int = 0,
    **options: Any,
) -> Outcome:
    """What an agent there makes of these calls of its model; `then` are those of its next turn."""
    ran: list[dict[str, Any]] = []
    messages: list[Any] = []
    usage = loomflow.Usage(input_tokens=tokens)
    turns = [ScriptedTurn(text="", tool_calls=list(made), usage=usage) for made in (calls, then) if made]
    model = ScriptedModel([*turns, ScriptedTurn(text="Done.")])
    complete = model.complete

    async def noting(asked: list[Any], **more: Any) -> Any:
        messages[:] = asked
        return await complete(asked, **more)

    model.complete = noting  # type: ignore[method-assign]
    log = loomflow.InMemoryAuditLog(secret="secret")
    tools = [tool_there(name, ran, destructive=destructive) for name in ("act", "write", "rm")]
    options = {"permissions": loomflow.StandardPermissions(), **options}
    agent = loomflow.Agent("Act.", model=model, tools=tools, audit_log=log, auto_extract=False, **options)
    result = await agent.run("Go", user_id="ann", session_id="monday")
    told = [message.content for message in messages if str(message.role) == "tool"]
    return Outcome(ran, told, await log.query(), result)


def run_there(*calls: CallThere, **options: Any) -> Outcome:
    async def main() -> Outcome:
        return await arun_there(*calls, **options)

    return asyncio.run(main())


def there(tool: str = "act", **args: Any) -> CallThere:
    return CallThere(tool=tool, args=args)


def returning(value: Any) -> Callable[..., Any]:
    """A handler there, and here."""

    async def handler(call: Any, user_id: str | None) -> Any:
        return value() if callable(value) else value

    return handler


def run_here(*calls: ours.ToolCall, tools: list[Counter] | None = None, **options: Any) -> Here:
    """What an agent of ours makes of these calls, on an event loop. Left out, its tools say nothing of themselves."""
    tools = tools if tools is not None else [Counter(name) for name in ("act", "write", "rm")]
    options = {"permissions": ours.StandardPermissions(), "user": "ann", **options}
    agent = ours.Agent([one.tool for one in tools], **options)

    async def main() -> ours.Turn:
        return await agent.ause_tools(list(calls))

    turn = asyncio.run(main())
    told = [result.content for result in turn.results]
    return Here([args for one in tools for args in one.ran], told, turn, agent)


class Here(NamedTuple):
    """What came of a turn here."""

    ran: list[dict[str, Any]]
    told: list[str]
    turn: ours.Turn
    agent: ours.Agent


def here(tool: str = "act", **args: Any) -> ours.ToolCall:
    return tool_call(tool, **args)


ASKED = "destructive call requires approval"


# --- modes ------------------------------------------------------------------------------------------------------------


class EditTools(Row, subject="`edit_tools=` left out"):
    def there(self) -> None:
        modes = loomflow.StandardPermissions(mode=loomflow.Mode.ACCEPT_EDITS)
        outcome = run_there(there("write"), there("rm"), permissions=modes)
        assert outcome.told == ["ran 0", f"DENIED: rm: {ASKED}"]

    def here(self) -> None:
        modes = ours.StandardPermissions(mode=ours.Mode.ACCEPT_EDITS)
        assert run_here(here("write"), here("rm"), permissions=modes).told == ["ran {}", "ran {}"]
        modes = ours.StandardPermissions(mode=ours.Mode.ACCEPT_EDITS, edit_tools=["write", "edit"])
        outcome = run_here(here("write"), here("rm"), permissions=modes, human=None)
        assert [result.verdict for result in outcome.turn.results] == ["allowed", "denied"]


class Silent(Row, subject="a tool that does not say whether it destroys"):
    def there(self) -> None:
        assert run_there(there(), destructive=False).told == ["ran 0"]
        assert loomflow.tool(lambda: "ran", name="silent", description="").destructive is False

    def here(self) -> None:
        def handler(call: ours.ToolCall, user_id: str | None) -> bool:
            asked.append(call.is_destructive())
            return True

        asked: list[bool] = []
        run_here(here(), approval_handler=handler)
        assert asked == [True]
        assert run_here(here(), tools=[Counter(destructive=False)], approval_handler=handler).told == ["ran {}"]
        assert asked == [True]
        remote = {"name": "act", "inputSchema": {}, "annotations": {"destructiveHint": False}}
        of_server = ours.MCPTool("office", remote, self.call)
        for trusted, more in ((True, []), (False, [True])):
            modes = ours.StandardPermissions(trust_mcp=trusted)
            agent = ours.Agent([of_server], permissions=modes, approval_handler=handler)
            agent.use_tools([here("office__act")])
            assert asked == [True, *more]

    @staticmethod
    async def call(name: str, args: dict[str, Any]) -> dict[str, Any]:
        return {"content": [{"type": "text", "text": "done"}]}


class Names(Row, subject="names in the lists of a mode"):
    def there(self) -> None:
        modes = loomflow.StandardPermissions(mode=loomflow.Mode.BYPASS, denied_tools=["r*", "RM"])
        assert run_there(there("rm"), permissions=modes).told == ["ran 0"]

    def here(self) -> None:
        for pattern in ("r*", "RM", "\uff52m"):
            modes = ours.StandardPermissions(mode=ours.Mode.BYPASS, denied_tools=[pattern])
            assert run_here(here("rm"), permissions=modes).told == ["rm: denied by policy"]
        modes = ours.StandardPermissions(mode=ours.Mode.BYPASS, allowed_tools=["r*", "ACT"])
        assert run_here(here("rm"), here("act"), permissions=modes).told == ["ran {}", "act: not in allow-list"]


class WrongArguments(Row, subject="wrong arguments of `StandardPermissions`"):
    def there(self) -> None:
        modes = loomflow.StandardPermissions(mode=loomflow.Mode.BYPASS, denied_tools="rm")  # type: ignore[arg-type]
        assert run_there(there("rm"), permissions=modes).told == ["ran 0"]  # "r" and "m" are denied
        modes = loomflow.StandardPermissions(mode="bypass")  # type: ignore[arg-type]
        assert run_there(there("rm"), permissions=modes).told == [f"DENIED: rm: {ASKED}"]

    def here(self) -> None:
        with pytest.raises(TypeError, match="denied_tools= takes a list"):
            ours.StandardPermissions(denied_tools="rm")
        with pytest.raises(ValueError, match="'bypass' is not a mode"):
            ours.StandardPermissions(mode="bypass")


class LeftOut(Row, subject="an agent without `permissions=`"):
    def there(self) -> None:
        async def never(call: Any, user_id: str | None) -> bool:
            raise AssertionError("nobody is asked")

        assert run_there(there("rm"), permissions=None, approval_handler=never).told == ["ran 0"]

    def here(self) -> None:
        rm, asked = Counter("rm", destructive=True), []
        agent = ours.Agent([rm.tool], approval_handler=lambda call, user: asked.append(call.tool) is not None)
        agent.use_tools([here("rm")])
        assert (rm.ran, asked) == ([], ["rm"])


class InAList(Row, subject="a mode beside other permissions"):
    def there(self) -> None:
        with pytest.raises(ExceptionGroup) as caught:
            run_there(there("rm"), permissions=[loomflow.StandardPermissions()])
        assert "'list' object has no attribute 'check'" in str(caught.value.exceptions[0])

    def here(self) -> None:
        listed = [ours.DenyByName(["rm"]), ours.AllowByName(["act"]), ours.StandardPermissions(mode=ours.Mode.BYPASS)]
        outcome = run_here(here("rm"), here("act"), here("write"), permissions=listed)
        assert outcome.told == ["rm is not allowed.", "ran {}", "ran {}"]


class Older(Row, subject="a check that takes no `user_id`"):
    def there(self) -> None:
        class Older:
            async def check(self, call: Any, *, context: Any) -> Any:
                return loomflow.PermissionDecision.allow_()

        class Faulty:
            asked = 0

            async def check(self, call: Any, *, context: Any, user_id: str | None = None) -> Any:
                Faulty.asked += 1
                raise TypeError("a fault of its own")

        _deprecation._SEEN.clear()
        with pytest.warns(_deprecation.LoomDeprecationWarning):
            assert run_there(there("rm"), permissions=Older()).told == ["ran 0"]
        _deprecation._SEEN.clear()
        with pytest.warns(_deprecation.LoomDeprecationWarning), pytest.raises(ExceptionGroup):
            run_there(there("rm"), permissions=Faulty())
        assert Faulty.asked == 2

    def here(self) -> None:
        class Older:
            async def check(self, call: ours.ToolCall, *, context: Any) -> ours.PermissionDecision:
                return ours.PermissionDecision.allow_()

        class Faulty:
            asked = 0

            async def check(self, call: Any, *, context: Any, user_id: str | None = None) -> Any:
                Faulty.asked += 1
                raise TypeError("a fault of its own")

        assert run_here(here("rm"), permissions=Older()).told == ["ran {}"]
        with pytest.warns(ours.PermissionWarning, match="a fault of its own"):
            assert run_here(here("rm"), permissions=Faulty()).ran == []
        assert Faulty.asked == 1


class CheckRaises(Row, subject="a check that raises, or returns no decision"):
    @staticmethod
    def faulty(say: Callable[[], Any]) -> Any:
        class Faulty:
            async def check(self, call: Any, *, context: Any, user_id: str | None = None) -> Any:
                return say()

        return Faulty()

    @staticmethod
    def boom() -> Any:
        raise ValueError("boom")

    def there(self) -> None:
        for say in (self.boom, lambda: None, lambda: True):
            with pytest.raises(ExceptionGroup):
                run_there(there("rm"), permissions=self.faulty(say))

    def here(self) -> None:
        for say in (self.boom, lambda: None, lambda: True):
            with pytest.warns(ours.PermissionWarning):
                outcome = run_here(here("rm"), permissions=self.faulty(say))
            assert outcome.ran == []
            assert outcome.told[0].startswith("The call could not be decided: ")


class Context(Row, subject="`context` of a check"):
    def there(self) -> None:
        told: list[Any] = []

        class Asks:
            async def check(self, call: Any, *, context: Any, user_id: str | None = None) -> Any:
                told.append(context)
                return loomflow.PermissionDecision.allow_()

        run_there(there("rm"), permissions=Asks())
        assert told == [{}]

    def here(self) -> None:
        told: list[Any] = []

        class Asks:
            async def check(self, call: Any, *, context: Any, user_id: str | None = None) -> Any:
                told.append(context)
                return ours.PermissionDecision.allow_()

        run_here(here("rm"), permissions=Asks())
        assert told[0].keys() == {"run_id", "session_id", "agent_path", "metadata"}


class CallOfCheck(Row, subject="the call that a check or a handler is given"):
    def there(self) -> None:
        call = there(n=1)
        assert set(CallThere.model_fields) == {"id", "tool", "args", "tool_def", "destructive"}
        assert (call.is_destructive(), len(call.idempotency_key())) == (False, 64)
        call.args["n"] = 2
        assert call.args == {"n": 2}

    def here(self) -> None:
        call = here(n=1)
        assert (call.tool, call.name, dict(call.args), call.is_destructive()) == ("act", "act", {"n": 1}, True)
        assert not call.marked(False).is_destructive()
        assert not hasattr(call, "idempotency_key")
        assert not hasattr(call, "tool_def")
        with pytest.raises(TypeError):
            call.args["n"] = 2  # type: ignore[index]


class Configuration(Row, subject="a mode from a configuration"):
    def there(self) -> None:
        assert isinstance(resolve_there(None), loomflow.security.AllowAll)
        modes = resolve_there({"mode": "bypass", "denied_tool": ["rm"], "edit_tools": ["write"]})
        assert run_there(there("rm"), permissions=modes).told == ["ran 0"]

    def here(self) -> None:
        with pytest.raises(TypeError, match="missing in the configuration"):
            ours.resolve_permissions(None)
        with pytest.raises(ValueError, match="'denied_tool' is not known"):
            ours.resolve_permissions({"mode": "bypass", "denied_tool": ["rm"], "edit_tools": ["write"]})
        assert ours.resolve_permissions({"mode": "accept_edits", "edit_tools": ["write"]}).edit_tools == ("write",)
        per_user = ours.resolve_permissions({"backend": "per_user", "policies": {"ann": "bypass"}, "default": "strict"})
        assert isinstance(per_user, ours.PerUserPermissions)


# --- denials, waiting -------------------------------------------------------------------------------------------------


class DeniedText(Row, subject="what the model reads of a call that was asked about"):
    def there(self) -> None:
        assert run_there(there("rm")).told == [f"DENIED: rm: {ASKED}"]
        assert run_there(there("rm"), approval_handler=returning(False)).told == [f"DENIED: rm: {ASKED}"]

    def here(self) -> None:
        assert run_here(here("rm"), approval_handler=returning(False)).told == ["The user declined this call."]
        assert run_here(here("rm"), human=None).told[0].startswith("Nobody is asked: ")


class Cancelled(Row, subject="a turn that is cancelled while somebody is asked"):
    def there(self) -> None:
        async def main() -> list[str]:
            parked = asyncio.Event()

            async def handler(call: Any, user_id: str | None) -> bool:
                parked.set()
                await asyncio.sleep(60)
                return True

            log = loomflow.InMemoryAuditLog(secret="secret")
            agent = loomflow.Agent(
                "Act.",
                model=ScriptedModel([ScriptedTurn(text="", tool_calls=[there("rm")])]),
                tools=[tool_there("rm", [])],
                permissions=loomflow.StandardPermissions(),
                approval_handler=handler,
                audit_log=log,
                auto_extract=False,
            )
            task = asyncio.ensure_future(agent.run("Go"))
            await parked.wait()
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task
            return [entry.action for entry in await log.query()]

        assert asyncio.run(main()) == ["run_started", "tool_call"]

    def here(self) -> None:
        async def main() -> ours.Agent:
            parked = asyncio.Event()

            async def handler(call: Any, user_id: str | None) -> bool:
                parked.set()
                await asyncio.sleep(60)
                return True

            agent = ours.Agent([Counter("rm").tool], permissions=ours.StandardPermissions(), approval_handler=handler)
            task = asyncio.ensure_future(agent.ause_tools([here("rm")]))
            await parked.wait()
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task
            return agent

        (row,) = asyncio.run(main()).audit.calls().to_dict("records")
        assert (row["verdict"], row["outcome"]) == ("cancelled", "not_run")


# --- approval handlers ------------------------------------------------------------------------------------------------


class EditWord(Row, subject='`"edit"` from a handler'):
    def there(self) -> None:
        assert run_there(there("rm", n=1), approval_handler=returning("edit")).ran == [{"n": 1}]

    def here(self) -> None:
        with pytest.warns(ours.PermissionWarning, match="'edit', which is not an answer"):
            assert run_here(here("rm", n=1), approval_handler=returning("edit")).ran == []


class NotAsync(Row, subject="a handler that is not async"):
    def there(self) -> None:
        outcome = run_there(there("rm"), approval_handler=lambda call, user_id: True)
        assert (outcome.ran, outcome.told) == ([], [f"DENIED: rm: {ASKED}"])

    def here(self) -> None:
        threads: list[threading.Thread] = []

        def handler(call: ours.ToolCall, user_id: str | None) -> bool:
            threads.append(threading.current_thread())
            return True

        assert run_here(here("rm"), approval_handler=handler).told == ["ran {}"]
        assert threads[0] is not threading.current_thread()


class Decision(Row, subject="the fields of an `ApprovalDecision`"):
    def there(self) -> None:
        decision = loomflow.ApprovalDecision("approve", edited_args=5, reason=7)  # type: ignore[arg-type]
        assert (decision.action, decision.edited_args, decision.reason) == ("approve", 5, 7)

    def here(self) -> None:
        with pytest.raises(ValueError, match="'approve' is not an action"):
            ours.ApprovalDecision("approve")  # type: ignore[arg-type]
        with pytest.raises(TypeError, match="edited_args= takes a dict"):
            ours.ApprovalDecision("edit", edited_args=5)  # type: ignore[arg-type]
        with pytest.raises(TypeError, match="reason= takes a text"):
            ours.ApprovalDecision("deny", reason=7)  # type: ignore[arg-type]


class EditOfPairs(Row, subject="an edit that is no dict"):
    def there(self) -> None:
        pairs: Any = [("n", 2)]
        edit = loomflow.ApprovalDecision("edit", edited_args=pairs)
        assert run_there(there("rm", n=1), approval_handler=returning(edit)).ran == [{"n": 2}]
        text: Any = "n=2"
        edit = loomflow.ApprovalDecision("edit", edited_args=text)
        with pytest.raises(ExceptionGroup):
            run_there(there("rm", n=1), approval_handler=returning(edit))
        edit = loomflow.ApprovalDecision("edit")
        assert run_there(there("rm", n=1), approval_handler=returning(edit)).ran == [{"n": 1}]

    def here(self) -> None:
        for junk in ([("n", 2)], "n=2"):
            with pytest.raises(TypeError, match="edited_args= takes a dict"):
                ours.ApprovalDecision("edit", edited_args=junk)  # type: ignore[arg-type]
        with pytest.raises(ValueError, match="an edit without edited_args="):
            ours.ApprovalDecision("edit")


class EditDecided(Row, subject="a call that was edited"):
    def there(self) -> None:
        class NotTwo:
            async def check(self, call: Any, *, context: Any, user_id: str | None = None) -> Any:
                said = loomflow.PermissionDecision
                return said.deny_("never 2") if call.args.get("n") == 2 else said.ask_()

        two = loomflow.ApprovalDecision("edit", edited_args={"n": 2})
        assert run_there(there("rm", n=1), permissions=NotTwo(), approval_handler=returning(two)).ran == [{"n": 2}]
        eight = loomflow.ApprovalDecision("edit", edited_args={"n": "eight"})
        assert run_there(there("rm", n=1), approval_handler=returning(eight)).ran == [{"n": "eight"}]

    def here(self) -> None:
        class NotTwo:
            async def check(self, call: Any, *, context: Any, user_id: str | None = None) -> Any:
                said = ours.PermissionDecision
                return said.deny_("never 2") if call.args.get("n") == 2 else said.ask_()

        two = ours.ApprovalDecision("edit", edited_args={"n": 2})
        outcome = run_here(here("rm", n=1), permissions=NotTwo(), approval_handler=returning(two))
        assert (outcome.ran, outcome.told) == ([], ["never 2"])
        eight = ours.ApprovalDecision("edit", edited_args={"n": "eight"})
        outcome = run_here(here("rm", n=1), approval_handler=returning(eight))
        assert (outcome.ran, outcome.turn.results[0].verdict) == ([], "input_error")


class RememberEdit(Row, subject="`remember_allow` with other arguments"):
    def there(self) -> None:
        decision = loomflow.ApprovalDecision("remember_allow", edited_args={"n": 2})
        assert run_there(there("rm", n=1), approval_handler=returning(decision)).ran == [{"n": 1}]

    def here(self) -> None:
        asked: list[Any] = []

        async def handler(call: ours.ToolCall, user_id: str | None) -> ours.ApprovalDecision:
            asked.append(dict(call.args))
            return ours.ApprovalDecision("remember_allow", edited_args={"n": 2})

        outcome = run_here(here("rm", n=1), approval_handler=handler)
        assert outcome.ran == [{"n": 2}]
        outcome.agent.use_tools([here("rm", n=2)])
        assert asked == [{"n": 1}]


class WhatIsRemembered(Row, subject="which calls a remembered answer covers"):
    def there(self) -> None:
        outcome = run_there(
            there("rm", path="/harmless"),
            then=(there("rm", path="/etc/passwd"),),
            approval_handler=returning(self.only_once(loomflow.ApprovalDecision("remember_allow"))),
        )
        assert outcome.ran == [{"path": "/harmless"}, {"path": "/etc/passwd"}]

    @staticmethod
    def only_once(decision: Any) -> Callable[[], Any]:
        answers = iter([decision])
        return lambda: next(answers, False)

    def here(self) -> None:
        once = self.only_once(ours.ApprovalDecision("remember_allow"))
        outcome = run_here(here("rm", n=1), approval_handler=returning(once))
        assert [result.verdict for result in outcome.agent.use_tools([here("rm", n=1)]).results] == ["allowed"]
        assert [result.verdict for result in outcome.agent.use_tools([here("rm", n=2)]).results] == ["denied"]
        tool = self.only_once(ours.ApprovalDecision("remember_allow", scope=ours.Scope("tool")))
        outcome = run_here(here("rm", n=1), approval_handler=returning(tool))
        assert [result.verdict for result in outcome.agent.use_tools([here("rm", n=2)]).results] == ["allowed"]


class Pending(Row, subject="remembered answers while others are asked"):
    def there(self) -> None:
        asked: list[int] = []
        together = asyncio.Event()

        async def handler(call: Any, user_id: str | None) -> Any:
            asked.append(call.args["n"])
            if len(asked) == 3:
                together.set()
            await together.wait()
            if call.args["n"] == 1:
                return "remember_deny"
            await asyncio.sleep(0)  # the other one is remembered last
            return "remember_allow"

        calls = [there("rm", n=n) for n in (1, 2, 3)]
        outcome = run_there(*calls, then=(there("rm", n=4),), approval_handler=handler)
        assert sorted(asked) == [1, 2, 3]
        assert {"n": 4} in outcome.ran

    def here(self) -> None:
        asked: list[int] = []
        together = asyncio.Event()

        async def handler(call: ours.ToolCall, user_id: str | None) -> ours.ApprovalDecision:
            asked.append(call.args["n"])
            if len(asked) == 3:
                together.set()
            await together.wait()
            if call.args["n"] == 1:
                return ours.ApprovalDecision("remember_deny", scope=ours.Scope("tool"))
            await asyncio.sleep(60)
            return ours.ApprovalDecision("remember_allow", scope=ours.Scope("tool"))

        outcome = run_here(*(here("rm", n=n) for n in (1, 2, 3)), approval_handler=handler)
        assert [result.answered_by for result in outcome.turn.results] == ["handler", "memory", "memory"]
        assert [result.verdict for result in outcome.agent.use_tools([here("rm", n=4)]).results] == ["denied"]
        assert outcome.ran == []


class Changed(Row, subject="a handler that changes the arguments of the call"):
    def there(self) -> None:
        outcome = run_there(there("rm", n=1), approval_handler=self.change)
        assert outcome.ran == [{"n": 99}]
        assert [entry.payload["args"] for entry in outcome.log if entry.action == "tool_call"] == [{"n": 1}]
        assert "tool_call_edited" not in {entry.action for entry in outcome.log}

    @staticmethod
    async def change(call: Any, user_id: str | None) -> bool:
        call.args["n"] = 99
        return True

    def here(self) -> None:
        with pytest.warns(ours.PermissionWarning, match="raised TypeError"):
            assert run_here(here("rm", n=1), approval_handler=self.change).ran == []


class ReasonOfAllow(Row, subject="the reason of an answer that allows"):
    def there(self) -> None:
        decision = loomflow.ApprovalDecision("allow", reason="since it is Monday")
        outcome = run_there(there("rm"), approval_handler=returning(decision))
        assert outcome.told == ["ran 0"]
        assert "since it is Monday" not in str([entry.payload for entry in outcome.log])

    def here(self) -> None:
        decision = ours.ApprovalDecision("allow", reason="since it is Monday")
        outcome = run_here(here("rm"), approval_handler=returning(decision))
        assert list(outcome.agent.audit.calls()["reason"]) == ["since it is Monday"]


# --- signals ----------------------------------------------------------------------------------------------------------


class Swapped(Row, subject="two handlers that wait for one signal"):
    def there(self) -> None:
        async def main() -> tuple[dict[str, Any], list[Any]]:
            runtime = loomflow.InProcRuntime()
            got: dict[str, Any] = {}

            waiting: list[str] = []
            both = asyncio.Event()

            async def handler(call: Any, user_id: str | None) -> Any:
                waiting.append(call.tool)
                if len(waiting) == 2:
                    both.set()
                answer = await runtime.wait_for_signal("monday", "approval")
                got[call.tool] = answer["for"]
                return answer["answer"]

            async def person() -> None:
                await both.wait()
                # The answers come in another order than the questions, and nothing tells for which one they are.
                for tool, answer in ((waiting[1], False), (waiting[0], True)):
                    await runtime.signal("monday", "approval", {"for": tool, "answer": answer})

            asking = asyncio.ensure_future(person())
            outcome = await arun_there(there("act", n=1), there("rm", n=2), runtime=runtime, approval_handler=handler)
            await asking
            return got, outcome.ran

        assert asyncio.run(main()) == ({"act": "rm", "rm": "act"}, [{"n": 2}])

    def here(self) -> None:
        async def main() -> list[Any]:
            waiting: dict[str, ours.ApprovalRequest] = {}
            both = asyncio.Event()

            async def handler(request: ours.ApprovalRequest) -> Any:
                waiting[request.call.tool] = request
                if len(waiting) == 2:
                    both.set()
                return await ours.wait_for_signal(request_id=request.id)

            tools = [Counter("act"), Counter("rm")]
            agent = ours.Agent(
                [one.tool for one in tools], permissions=ours.StandardPermissions(), approval_handler=handler
            )
            turn = asyncio.ensure_future(agent.ause_tools([here("act", n=1), here("rm", n=2)]))
            await both.wait()
            agent.signal(request_id=waiting["rm"].id, payload=False)
            agent.signal(request_id=waiting["act"].id, payload=True)
            await turn
            return [one.ran for one in tools]

        assert asyncio.run(main()) == [[{"n": 1}], []]


class Sending(Row, subject="sending a signal"):
    def there(self) -> None:
        async def main() -> list[str]:
            runtime, errors = loomflow.InProcRuntime(), []
            waiting = loop.create_task(runtime.wait_for_signal("monday", "approval"))
            await asyncio.sleep(0)

            def send() -> None:
                try:
                    asyncio.run(runtime.signal("monday", "approval", True))
                except RuntimeError as error:
                    errors.append(str(error))

            await asyncio.to_thread(send)
            assert not waiting.done()
            return errors

        loop = asyncio.new_event_loop()
        loop.set_debug(True)  # it then says what else may go unnoticed
        loop.set_exception_handler(lambda loop, context: None)  # whoever waits is never woken
        try:
            found = loop.run_until_complete(main())
        finally:
            loop.close()
        assert found == ["Non-thread-safe operation invoked on an event loop other than the current one"]

    def here(self) -> None:
        asked = threading.Event()

        async def handler(call: ours.ToolCall, user_id: str | None) -> Any:
            asked.set()
            return await ours.wait_for_signal("approval")

        rm = Counter("rm")
        agent = ours.Agent(
            [rm.tool], permissions=ours.StandardPermissions(), approval_handler=handler, session="monday"
        )

        def send() -> None:
            assert asked.wait(10)
            agent.signal("monday", "approval", True)

        async def main() -> None:
            sending = asyncio.ensure_future(asyncio.to_thread(send))
            await agent.ause_tools([here("rm")])
            await sending

        asyncio.run(main(), debug=True)
        assert rm.ran == [{}]


class EmptySignal(Row, subject="a signal without a value"):
    def there(self) -> None:
        async def main() -> list[Any]:
            runtime = loomflow.InProcRuntime()
            await runtime.signal("monday", "approval", None)
            return [runtime.poll_signal("monday", "approval") for _ in range(2)]

        assert asyncio.run(main()) == [None, None]

    def here(self) -> None:
        from agentperm_nb.approvals.signals import Signals

        signals = Signals()
        signals.signal("monday", "approval", None)
        assert [signals.poll_signal("monday", "approval", default="nothing") for _ in range(2)] == [None, "nothing"]


# --- budgets ----------------------------------------------------------------------------------------------------------


class AskedTime(Row, subject="the time in which somebody is asked"):
    def there(self) -> None:
        async def slow(call: Any, user_id: str | None) -> bool:
            await asyncio.sleep(0.06)
            return True

        config = loomflow.BudgetConfig(max_wall_clock=timedelta(seconds=0.03))
        outcome = run_there(there("rm", n=1), budget=loomflow.StandardBudget(config), approval_handler=slow)
        assert outcome.ran == [{"n": 1}]
        assert outcome.result.interruption_reason == "budget:max_wall_clock"
        with pytest.raises(RunTimeout):
            run_there(there("rm", n=1), timeout=0.03, approval_handler=slow)

    def here(self) -> None:
        now = [0.0]

        async def slow(call: ours.ToolCall, user_id: str | None) -> bool:
            now[0] += 1_000
            return True

        budget = ours.Budget(max_wall_clock=10, clock=lambda: now[0])
        outcome = run_here(here("rm", n=1), budget=budget, approval_handler=slow)
        assert (outcome.ran, outcome.turn.stopped) == ([{"n": 1}], None)
        assert budget.spent(run_id=outcome.agent.run_id).seconds == 0


class UsedUp(Row, subject="a budget that is used up"):
    def there(self) -> None:
        budget = loomflow.StandardBudget(loomflow.BudgetConfig(max_tokens=1))
        calls = [there("rm", n=n) for n in range(1, 6)]
        outcome = run_there(*calls, budget=budget, approval_handler=returning(True), tokens=100)
        assert (len(outcome.ran), outcome.result.interruption_reason) == (5, "budget:max_tokens")
        sources = Path(loomflow.__file__).parent.rglob("*.py")
        assert not any("raise BudgetExceeded" in path.read_text(encoding="utf-8") for path in sources)

    def here(self) -> None:
        budget = ours.Budget(max_calls=2, soft_warning_at=None)
        calls = [here("rm", n=n) for n in range(1, 6)]
        outcome = run_here(*calls, budget=budget, approval_handler=returning(True))
        assert len(outcome.ran) == 2
        assert str(outcome.turn.stopped) == "stopped by budget:max_calls"
        assert {result.decided_kind for result in outcome.turn.results if result.verdict == "denied"} == {"budget"}
        with pytest.raises(ours.BudgetExceeded):
            budget.check(run_id=outcome.agent.run_id)
        budget = ours.Budget(max_asks=1, soft_warning_at=None)
        outcome = run_here(*calls, budget=budget, approval_handler=returning(True))
        assert len(outcome.ran) == 1
        assert str(outcome.turn.stopped) == "stopped by budget:max_asks"


class WhatCounts(Row, subject="what a budget counts"):
    def there(self) -> None:
        counted = {name.removeprefix("per_user_") for name in inspect.signature(loomflow.BudgetConfig).parameters}
        tokens = {"max_tokens", "max_input_tokens", "max_output_tokens"}
        assert counted == {*tokens, "max_cost_usd", "max_wall_clock", "soft_warning_at"}

    def here(self) -> None:
        counted = {name.removeprefix("per_user_") for name in inspect.signature(ours.Budget).parameters}
        assert counted == {"max_calls", "max_asks", "max_wall_clock", "soft_warning_at", "clock"}


# --- the table --------------------------------------------------------------------------------------------------------


def test_every_row_of_the_table_is_shown_by_a_class_and_every_class_shows_a_row() -> None:
    assert sorted(subjects(HEADING)) == sorted(Row.rows), "each row of docs/differences.md has a class in this file"


@pytest.mark.parametrize("column", ["there", "here"])
@pytest.mark.parametrize("subject", Row.rows)
def test_a_row_says_what_happens(subject: str, column: str, tmp_path: Path) -> None:
    getattr(Row.rows[subject](tmp_path), column)()
