"""The table of docs/differences.md about rule tables, executed (`difference_rows`)."""

from __future__ import annotations

import asyncio
import gc
import json
import threading
import warnings
from collections.abc import Callable
from contextvars import ContextVar
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import difference_rows
import pandas  # noqa: F401 - its first import takes seconds, which no single test should pay
import pytest
import toolregistry
from difference_rows import subjects
from toolregistry import permissions as upstream
from toolregistry.permissions import builtin_rules as rules_there
from toolregistry.tool import Tool as ToolThere
from toolregistry.tool import ToolMetadata as MetadataThere
from toolregistry.tool import ToolTag as TagThere
from turns import Counter, run_noting

import agentperm_nb as ours
from agentperm_nb.mcp_tools import MCPTool
from agentperm_nb.testing import tool_call

HEADING = "Rule tables"
SCHEMA: dict[str, Any] = {"type": "object", "properties": {"n": {"type": "integer"}}}


class Row(difference_rows.Row, table=HEADING):
    """What one row of the table says."""


# --- ways to do a turn ------------------------------------------------------------------------------------------------


class There:
    """A registry there with one tool, which notes how it was run."""

    def __init__(self, policy: Any = None, handler: Any = None, fallback: Any = upstream.PermissionResult.DENY) -> None:
        self.ran: list[Any] = []
        self.registry = toolregistry.ToolRegistry()

        def act(n: int = 0) -> str:
            """Act."""
            self.ran.append(n)
            return f"ran {n}"

        self.registry.register(act)
        self.events: list[Any] = []
        self.registry.on_change(
            lambda event: self.events.append(event) if event.event_type.value.startswith("permission") else None
        )
        self.log = self.registry.enable_logging()
        if policy is not None:
            self.registry.set_permission_policy(policy)
        if handler is not None or fallback is not upstream.PermissionResult.DENY:
            self.registry.set_permission_handler(handler, fallback=fallback)

    @staticmethod
    def calls(*args: Any) -> list[dict[str, Any]]:
        texts = [one if isinstance(one, str) else json.dumps(one) for one in args]
        return [
            {"id": f"c{place}", "type": "function", "function": {"name": "act", "arguments": text}}
            for place, text in enumerate(texts)
        ]

    def run(self, *args: Any) -> list[str]:
        """What the model is told of calls with these arguments."""
        results = self.registry.execute_tool_calls(self.calls(*args), execution_mode="thread")
        return [getattr(result, "result", None) or getattr(result, "message", "") for result in results]

    async def arun(self, *args: Any) -> list[str]:
        results = await self.registry.aexecute_tool_calls(self.calls(*args), execution_mode="thread")
        return [getattr(result, "result", None) or getattr(result, "message", "") for result in results]


class Here:
    """An agent of ours with one tool, which notes how it was run, and what came of the last turn."""

    def __init__(self, policy: Any = None, **options: Any) -> None:
        self.act = Counter()
        if policy is not None:
            options["permissions"] = policy
        self.agent = ours.Agent([self.act.tool], **options)
        self.events: list[ours.ChangeEvent] = []
        self.agent.on_change(self.events.append)
        self.warnings: list[str] = []
        self.results: tuple[Any, ...] = ()

    @property
    def ran(self) -> list[dict[str, Any]]:
        return self.act.ran

    def run(self, *args: dict[str, Any], driver: str = "sync") -> list[str]:
        """The verdicts on calls with these arguments."""
        turn, self.warnings = run_noting(driver, self.agent, [tool_call("act", **one) for one in args])
        if isinstance(turn, BaseException):
            raise turn
        self.results = turn.results
        return [result.verdict for result in turn.results]


def everything(tool: Any, parameters: Any) -> bool:
    return True


def rule_there(result: str = "ask", match: Callable[..., Any] = everything, reason: str = "why") -> Any:
    return upstream.PermissionRule("r", match, upstream.PermissionResult(result), reason)


def policy_there(result: str = "ask", match: Callable[..., Any] = everything, **options: Any) -> Any:
    return upstream.PermissionPolicy([rule_there(result, match)], **options)


def rule_here(result: Any = "ask", match: Callable[..., Any] = everything, reason: str = "why") -> Any:
    return ours.PermissionRule("r", match, result, reason)


def policy_here(result: Any = "ask", match: Callable[..., Any] = everything, **options: Any) -> Any:
    return ours.PermissionPolicy([rule_here(result, match)], **options)


def handler(handle: Callable[[Any], Any]) -> Any:
    """A handler, there and here."""
    return SimpleNamespace(handle=handle)


def returning(value: Any) -> Any:
    return handler(lambda request: value)


def raising(error: Exception) -> Any:
    def handle(request: Any) -> Any:
        raise error

    return handler(handle)


ALLOW_THERE, DENY_THERE, ASK_THERE = upstream.PermissionResult
ALLOW, DENY, ASK = ours.PermissionResult


# --- rules and policies -----------------------------------------------------------------------------------------------


class ImportPaths(Row, subject="import paths of rules"):
    def there(self) -> None:
        assert hasattr(upstream, "PermissionPolicy")
        assert not hasattr(upstream, "ASK_NETWORK")
        assert not hasattr(toolregistry, "ASK_NETWORK")
        assert hasattr(rules_there, "ASK_NETWORK")

    def here(self) -> None:
        from agentperm_nb.permissions.builtin_rules import ASK_NETWORK
        from agentperm_nb.permissions.handler import PermissionHandler
        from agentperm_nb.permissions.policy import PermissionPolicy
        from agentperm_nb.permissions.types import PermissionRequest

        for one in (ASK_NETWORK, PermissionHandler, PermissionPolicy, PermissionRequest):
            assert any(getattr(ours, name) is one for name in ours.__all__)
        for name in upstream.__all__:
            assert getattr(ours.permissions, name) is getattr(ours, name)
        assert set(upstream.__all__) == set(ours.permissions.__all__)


class Checks(Row, subject="a wrong `result=`, `match=` or `fallback=`"):
    def there(self) -> None:
        rule = upstream.PermissionRule("r", everything, "block")  # type: ignore[arg-type]  # that is what is tried
        there = There(upstream.PermissionPolicy([rule]), returning(ALLOW_THERE))
        assert there.run({"n": 1}) == ["ran 1"]
        with pytest.raises(AttributeError):
            There(upstream.PermissionPolicy([], "deny")).run({})  # type: ignore[arg-type]  # that is what is tried

    def here(self) -> None:
        for wrong in ({"result": "block"}, {"match": "rm_*"}):
            with pytest.raises((ValueError, TypeError), match=f"{next(iter(wrong))}= of the rule 'r'"):
                rule_here(**wrong)  # type: ignore[arg-type]  # that is what is tried
        assert [ours.PermissionPolicy([], said).fallback for said in ("allow", "deny", "ask")] == [ALLOW, DENY, ASK]  # type: ignore[arg-type]  # texts


class Arguments(Row, subject="the arguments that a rule or a handler gets"):
    @staticmethod
    def change(tool: Any, parameters: Any) -> bool:
        parameters["n"] = 99
        return True

    def there(self) -> None:
        there = There(policy_there("allow", self.change))
        assert there.run({"n": 1}) == ["ran 99"]
        asked = There(policy_there(), handler(lambda request: self.change(None, request.parameters)))
        assert asked.run({"n": 1}) == ["ran 99"]
        assert [entry.arguments for entry in asked.log.get_entries()] == [{"n": 99}]

    def here(self) -> None:
        here = Here(policy_here("allow", self.change))
        assert (here.run({"n": 1}), here.ran) == (["allowed"], [{"n": 1}])
        asked = Here(policy_here(handler=handler(lambda request: self.change(None, request.parameters))))
        assert (asked.run({"n": 1}), asked.ran) == (["allowed"], [{"n": 1}])
        decision = ours.ApprovalDecision("edit", edited_args={"n": 2})
        edited = Here(policy_here(handler=returning(decision)))
        assert (edited.run({"n": 1}), edited.ran) == (["allowed"], [{"n": 2}])
        (row,) = edited.agent.audit.calls().to_dict("records")
        assert (row["args"], row["args_run"]) == ({"n": 1}, {"n": 2})


class WhoAsks(Row, subject="what a request says of who asks"):
    fields = ("call_key", "call_id", "run_id", "session_id", "user_id", "agent_path", "asked_at")

    def there(self) -> None:
        request = upstream.PermissionRequest("act")
        assert not any(hasattr(request, name) for name in self.fields)

    def here(self) -> None:
        requests: list[Any] = []
        Here(policy_here(handler=handler(requests.append)), user="ann").run({"n": 1})
        assert all(getattr(requests[0], name) for name in self.fields)
        assert requests[0].user_id == "ann"


class ByMistake(Row, subject="a match that is true by mistake"):
    @staticmethod
    def some(tool: Any, parameters: Any) -> Any:
        return (name for name in ("path",) if name in parameters)  # any(...) was forgotten

    def there(self) -> None:
        there = There(policy_there("allow", self.some))
        assert there.run({"n": 1}) == ["ran 1"]

    def here(self) -> None:
        here = Here(policy_here("allow", self.some))
        assert (here.run({"n": 1}), here.ran) == (["denied"], [])
        assert "put any(...) or all(...) around it" in here.warnings[0]
        with pytest.raises(TypeError, match="is async"):
            rule_here(match=self.later)

    @staticmethod
    async def later(tool: Any, parameters: Any) -> bool:
        return False


class RaisingRule(Row, subject="a rule that raises"):
    @staticmethod
    def broken(error: Exception) -> Callable[..., bool]:
        def match(tool: Any, parameters: Any) -> bool:
            if parameters["n"] == 1:
                raise error
            return True

        return match

    def there(self) -> None:
        there = There(policy_there("allow", self.broken(KeyError("path"))))
        assert there.run({"n": 1}, {"n": 2}) == ["KeyError: Error: 'path'", "ran 2"]
        assert [entry.arguments for entry in there.log.get_entries()] == [{"n": 2}]
        there = There(policy_there("allow", self.broken(ValueError("no"))))
        with pytest.raises(ValueError, match="no"):
            there.run({"n": 1}, {"n": 2})
        assert there.ran == []

    def here(self) -> None:
        for error in (KeyError("path"), ValueError("no")):
            here = Here(policy_here("allow", self.broken(error)))
            assert here.run({"n": 1}, {"n": 2}) == ["denied", "allowed"]
            assert list(here.agent.audit.calls()["decided_by"]) == ["policy: r", "policy: r"]
            assert len(here.warnings) == 1


class NoOpinion(Row, subject="`fallback=None`"):
    def there(self) -> None:
        with pytest.raises(AttributeError):
            There(upstream.PermissionPolicy([], None)).run({})  # type: ignore[arg-type]  # that is what is tried

    def here(self) -> None:
        here = Here([ours.PermissionPolicy([], None), ours.AllowByName(["act"])])
        here.run({})
        assert here.results[0].decided_by == "AllowByName(['act'])"


class Beside(Row, subject="a policy beside other permissions"):
    def there(self) -> None:
        there = There(policy_there("deny"))
        there.registry.set_permission_policy(policy_there("allow"))
        assert there.run({"n": 1}) == ["ran 1"]

    def here(self) -> None:
        policy = policy_here("deny")
        first = ours.AllowByDefault()
        assert Here([first, policy]).run({}) == ["allowed"]
        by_itself = Here([first, policy, *policy.denies()])
        assert by_itself.run({}) == ["denied"]
        policy.rules.clear()
        assert by_itself.run({}) == ["allowed"]
        assert Here([policy_here("deny", fallback=None), policy_here("allow")]).run({}) == ["denied"]


# --- tags and hints ---------------------------------------------------------------------------------------------------


def tool_there(**metadata: Any) -> Any:
    return ToolThere(name="act", description="", parameters=SCHEMA, callable=print, metadata=MetadataThere(**metadata))


def tool_here(**options: Any) -> ours.Tool:
    return ours.Tool("act", input_schema=SCHEMA, function=print, **options)


async def no_call(name: str, args: dict[str, Any]) -> Any:
    raise AssertionError("it is not called")


class Contradiction(Row, subject="a tool that is both read-only and destructive"):
    def there(self) -> None:
        with pytest.warns(UserWarning, match="resolves both read_only_hint=True and destructive_hint=True"):
            tool = tool_there(tags={TagThere.READ_ONLY, TagThere.DESTRUCTIVE})
        assert rules_there.ALLOW_READONLY.match(tool, {})

    def here(self) -> None:
        with pytest.raises(ValueError, match="read-only and destructive at once"):
            tool_here(tags=["read_only", "destructive"])


class TakenBack(Row, subject="a tag that a hint takes back"):
    def there(self) -> None:
        assert rules_there.ALLOW_READONLY.match(tool_there(tags={TagThere.READ_ONLY}, read_only_hint=False), {})

    def here(self) -> None:
        assert not ours.ALLOW_READONLY.matches(tool_here(tags=["read_only"], read_only=False), {})
        assert ours.ASK_NETWORK.matches(tool_here(tags=["network"], open_world=False), {})


class Network(Row, subject="the tag `network`"):
    def there(self) -> None:
        assert tool_there(tags={TagThere.NETWORK}).metadata.execution_hints == {}

    def here(self) -> None:
        tool = tool_here(tags=["network"])
        assert tool.metadata.execution_hints == {"open_world_hint": True}
        assert tool.hints.said == {"open_world"}


class UnknownTag(Row, subject="an unknown tag"):
    def there(self) -> None:
        assert tool_there(tags={"destuctive"}).metadata.tags == {"destuctive"}

    def here(self) -> None:
        with pytest.raises(ValueError, match="'destuctive' in tags= of the tool act is not one of the known tags"):
            tool_here(tags=["destuctive"])
        assert tool_here(custom_tags=["billing"]).metadata.custom_tags == {"billing"}


class Metadata(Row, subject="`ToolMetadata`"):
    def there(self) -> None:
        metadata = MetadataThere()
        metadata.tags.add(TagThere.READ_ONLY)
        assert metadata.execution_hints["read_only_hint"]
        assert (metadata.locality, metadata.extra) == ("any", {})

    def here(self) -> None:
        metadata = tool_here().metadata
        assert type(metadata.tags) is type(metadata.custom_tags) is frozenset
        assert not hasattr(metadata, "locality")
        with pytest.raises(AttributeError):
            metadata.timeout = 3  # type: ignore[misc]  # that is what is tried


class BuiltInRules(Row, subject="the built-in rules and hints"):
    def there(self) -> None:
        assert not rules_there.ASK_DESTRUCTIVE.match(tool_there(destructive_hint=True), {})
        assert not rules_there.ALLOW_READONLY.match(tool_there(read_only_hint=True), {})
        assert not rules_there.ASK_NETWORK.match(tool_there(open_world_hint=True), {})

    def here(self) -> None:
        assert ours.ASK_DESTRUCTIVE.matches(tool_here(destructive=True), {})
        assert ours.ALLOW_READONLY.matches(tool_here(read_only=True), {})
        assert ours.ASK_NETWORK.matches(tool_here(open_world=True), {})
        remote = {"name": "act", "inputSchema": SCHEMA}
        silent, reads = (
            MCPTool("github", {**remote, "annotations": said}, no_call) for said in (None, {"readOnlyHint": True})
        )
        assert ours.ASK_DESTRUCTIVE.matches(silent, {})
        assert ours.ASK_NETWORK.matches(silent, {})
        assert not ours.ASK_DESTRUCTIVE.matches(reads, {})
        assert not ours.ALLOW_READONLY.matches(reads, {})


class Namespace(Row, subject="`namespace=`"):
    def there(self) -> None:
        registry = toolregistry.ToolRegistry()

        def hi() -> str:
            """Say hi."""
            return "hi"

        registry.register(hi, namespace="svc")
        tool = registry.get_tool("svc-hi")
        assert tool is not None
        assert (tool.name, tool.namespace, tool.method_name) == ("svc-hi", "svc", "hi")

    def here(self) -> None:
        for name in ("hi", "svc-hi"):
            tool = ours.Tool(name, input_schema=SCHEMA, function=print, namespace="svc")
            assert (tool.name, tool.namespace, tool.method_name) == (name, "svc", "hi")


# --- an agent ---------------------------------------------------------------------------------------------------------


class Setting(Row, subject="setting policy and handler"):
    def there(self) -> None:
        there = There(policy_there(), object())
        with pytest.raises(AttributeError):
            there.run({})
        there.registry.remove_permission_policy()
        assert there.run({"n": 1}) == ["ran 1"]

    def here(self) -> None:
        for wrong in (object(), lambda request: True):
            with pytest.raises(TypeError, match=r"takes an object with handle\(request\)"):
                Here(policy_here(), permission_handler=wrong)
            with pytest.raises(TypeError, match=r"takes an object with handle\(request\)"):
                policy_here(handler=wrong)
        assert not hasattr(ours.Agent, "set_permission_policy")


class NoPolicy(Row, subject="tools without a policy"):
    def there(self) -> None:
        asked: list[Any] = []
        assert There(None, handler(asked.append)).run({"n": 1}) == ["ran 1"]
        assert asked == []

    def here(self) -> None:
        here = Here()
        assert (here.run({}), here.results[0].decided_by) == (["denied"], "DecideByHuman()")
        with pytest.raises(ValueError, match="there is no policy in permissions="):
            Here(permission_handler=returning(ALLOW))


class FalseHandler(Row, subject="a handler that is false"):
    class Empty(list[Any]):
        def handle(self, request: Any) -> Any:
            return False

    def there(self) -> None:
        there = There(policy_there(handler=self.Empty()), returning(ALLOW_THERE))
        assert there.run({"n": 1}) == ["ran 1"]

    def here(self) -> None:
        assert Here(policy_here(handler=self.Empty()), permission_handler=returning(ALLOW)).run({}) == ["denied"]


class NobodyThere(Row, subject="a question that nobody can answer"):
    def there(self) -> None:
        assert There(policy_there(fallback=ALLOW_THERE)).run({"n": 1}) == ["ran 1"]
        assert There(policy_there(fallback=ASK_THERE), None, ASK_THERE).run({"n": 1}) == ["ran 1"]

    def here(self) -> None:
        for fallback in (ALLOW, ASK, DENY, None):
            here = Here(policy_here(fallback=fallback))
            assert (here.run({}), here.ran, here.results[0].answered_by) == (["denied"], [], "nobody")


class Returns(Row, subject="what a handler returns"):
    junk = ("no", "DENY", None, 0, {"approved": False})

    def there(self) -> None:
        for value in (*self.junk, False, ASK_THERE):
            assert There(policy_there(), returning(value)).run({"n": 1}) == ["ran 1"]

    def here(self) -> None:
        for value in (*self.junk, ASK):
            here = Here(policy_here(handler=returning(value)))
            assert (here.run({}), here.ran, len(here.warnings)) == (["denied"], [], 1)
        for value in (ALLOW, "allow", True, ours.ApprovalDecision("allow")):
            assert Here(policy_here(handler=returning(value))).run({}) == ["allowed"]


class Raises(Row, subject="a handler that raises"):
    def there(self) -> None:
        there = There(policy_there(), raising(KeyError("path")))
        assert there.run({"n": 1}) == ["KeyError: Error: 'path'"]
        assert there.log.get_entries() == []
        there = There(policy_there(), raising(ValueError("no")))
        with pytest.raises(ValueError, match="no"):
            there.run({"n": 1})

        async def own_words(request: Any) -> Any:
            raise RuntimeError("own words")

        lost = There(policy_there(), handler(own_words))

        async def cell() -> list[str]:
            return lost.run({"n": 1})

        with warnings.catch_warnings():
            warnings.simplefilter("ignore", RuntimeWarning)  # the second try there is never awaited
            (text,) = asyncio.run(cell())
            gc.collect()
        assert "own words" not in text
        assert "asyncio.run() cannot be called from a running event loop" in text

    def here(self) -> None:
        for error in (KeyError("path"), ValueError("no"), RuntimeError("own words")):
            here = Here(policy_here(handler=raising(error)))
            assert here.run({"n": 1}, {"n": 2}) == ["denied", "denied"]
            assert str(error) in here.warnings[0]
            assert list(here.agent.audit.calls()["verdict"]) == ["denied", "denied"]


class Reviewer(Row, subject="a `PermissionError` of a handler"):
    def there(self) -> None:
        there = There(policy_there(), raising(PermissionError("Not on Fridays.")))
        assert there.run({"n": 1}) == ["PermissionError: Error: Not on Fridays."]
        assert there.log.get_entries() == []
        system = There(policy_there(), raising(PermissionError(13, "Permission denied", "a.db")))
        assert system.run({"n": 1}) == ["PermissionError: Error: [Errno 13] Permission denied: 'a.db'"]

    def here(self) -> None:
        here = Here(policy_here(handler=raising(PermissionError("Not on Fridays."))))
        assert (here.run({}), here.results[0].content) == (["denied"], "Not on Fridays.")
        (row,) = here.agent.audit.calls().to_dict("records")
        assert (row["reason"], row["answered_by"]) == ("Not on Fridays.", "handler")
        system = Here(policy_here(handler=raising(PermissionError(13, "Permission denied", "a.db"))))
        assert (system.run({}), len(system.warnings)) == (["denied"], 1)
        assert ("a.db" in system.warnings[0], "a.db" in system.results[0].content) == (True, False)


class Told(Row, subject="what is told of decisions"):
    def there(self) -> None:
        seen: list[list[str]] = []
        for policy, answer in ((policy_there("allow"), None), (policy_there("deny"), None), (policy_there(), "deny")):
            there = There(policy, returning(answer))
            there.run({"n": 1})
            seen.append([event.event_type.value for event in there.events])
            assert {event.metadata["rule_name"] for event in there.events} <= {"r"}
        assert seen == [[], ["permission_denied"], ["permission_asked"]]

    def here(self) -> None:
        seen: list[list[str]] = []
        for policy in (policy_here("allow"), policy_here("deny"), policy_here(handler=returning("deny"))):
            here = Here(policy)
            here.run({"n": 1})
            seen.append([event.event_type.value for event in here.events])
            assert {event.metadata["rule_name"] for event in here.events} == {"r"}
            here.events[0].metadata["parameters"]["n"] = 99
            assert here.agent.audit.calls()["args_json"].iloc[0] == '{"n":1}'
        assert seen == [
            ["permission_allowed"],
            ["permission_denied"],
            ["permission_asked", "permission_answered", "permission_denied"],
        ]


class ModelTold(Row, subject="what the model is told of a denial"):
    def there(self) -> None:
        there = There(policy_there("deny"))
        calls = there.calls({"n": 1})
        results = there.registry.execute_tool_calls(calls, execution_mode="thread")
        messages = there.registry.build_tool_call_messages(calls, results, api_format="anthropic")
        block = messages[-1]["content"][0]
        assert block["content"] == "PermissionError: Error: Tool 'act' denied by permission policy"
        assert "is_error" not in block

    def here(self) -> None:
        agent = Here(policy_here("deny")).agent
        block = {"type": "tool_use", "id": "c1", "name": "act", "input": {"n": 1}}
        turn = agent.use_tools({"role": "assistant", "content": [block], "stop_reason": "tool_use"})
        answer = turn.to_messages()[0]["content"][0]
        assert (answer["content"], answer["is_error"]) == ("why", True)


class Remembering(Row, subject="an answer for later calls"):
    def there(self) -> None:
        asked: list[Any] = []

        def handle(request: Any) -> Any:
            asked.append(request)
            return ALLOW_THERE

        there = There(policy_there(), handler(handle))
        for _ in range(2):
            there.run({"n": 1})
        assert len(asked) == 2

    def here(self) -> None:
        asked: list[Any] = []

        def handle(request: Any) -> Any:
            asked.append(request)
            return "remember_allow"

        here = Here(policy_here(handler=handler(handle)))
        for _ in range(2):
            assert here.run({"n": 1}) == ["allowed"]
        assert len(asked) == 1


# --- sync and async ---------------------------------------------------------------------------------------------------

_word: ContextVar[str] = ContextVar("word", default="")


class AsyncInSync(Row, subject="an async handler in the sync form"):
    def go(self, run: Callable[[], Any], result: Any, handlers: list[Any]) -> list[str]:
        seen: list[str] = []

        async def handle(request: Any) -> Any:
            seen.append(_word.get())
            return result

        handlers.append(handler(handle))

        async def cell() -> None:
            token = _word.set("set by the caller")
            run()
            _word.reset(token)

        asyncio.run(cell())
        return seen

    def there(self) -> None:
        handlers: list[Any] = []
        seen = self.go(lambda: There(policy_there(), handlers[0]).run({"n": 1}), ALLOW_THERE, handlers)
        assert seen == [""]

    def here(self) -> None:
        handlers: list[Any] = []
        seen = self.go(lambda: Here(policy_here(handler=handlers[0])).run({"n": 1}), ALLOW, handlers)
        assert seen == ["set by the caller"]


class SyncInAsync(Row, subject="a sync handler in the async form"):
    @staticmethod
    def blocked(run: Callable[[Any], Any], result: Any) -> bool:
        """Whether the handler waits in vain for what the loop does."""
        loop_went_on = threading.Event()
        waited: list[bool] = []

        async def main() -> None:
            loop = asyncio.get_running_loop()

            def handle(request: Any) -> Any:
                loop.call_soon_threadsafe(loop_went_on.set)
                waited.append(loop_went_on.wait(0.2))
                return result

            await run(handler(handle))

        asyncio.run(main())
        return not waited[0]

    def there(self) -> None:
        assert self.blocked(lambda one: There(policy_there(), one).arun({"n": 1}), ALLOW_THERE)

    def here(self) -> None:
        async def turn(one: Any) -> None:
            await Here(policy_here(handler=one)).agent.ause_tools([tool_call("act")])

        assert not self.blocked(turn, ALLOW)


class Awaited(Row, subject="a handler that returns something to await"):
    @staticmethod
    async def later() -> bool:
        return False

    def there(self) -> None:
        given: list[Any] = []

        def handle(request: Any) -> Any:
            given.append(self.later())
            return given[0]

        assert There(policy_there(), handler(handle)).run({"n": 1}) == ["ran 1"]
        given[0].close()

    def here(self) -> None:
        assert Here(policy_here(handler=handler(lambda request: self.later()))).run({}) == ["denied"]


class Together(Row, subject="the questions of one turn"):
    @staticmethod
    def order(run: Callable[[Any], Any], result: Any) -> list[str]:
        log: list[str] = []

        async def handle(request: Any) -> Any:
            log.append("asked")
            await asyncio.sleep(0.01)
            log.append("answered")
            return result

        asyncio.run(run(handler(handle)))
        return log

    def there(self) -> None:
        log = self.order(lambda one: There(policy_there(), one).arun({"n": 1}, {"n": 2}), ALLOW_THERE)
        assert log == ["asked", "answered"] * 2

    def here(self) -> None:
        async def turn(one: Any) -> None:
            await Here(policy_here(handler=one)).agent.ause_tools([tool_call("act", n=n) for n in (1, 2)])

        assert self.order(turn, ALLOW) == ["asked", "asked", "answered", "answered"]


class Tightened(Row, subject="a rule that is added while a question waits"):
    def there(self) -> None:
        policy = policy_there()

        def handle(request: Any) -> Any:
            policy.rules.insert(0, rule_there("deny"))
            return ALLOW_THERE

        assert There(policy, handler(handle)).run({"n": 1}) == ["ran 1"]

    def here(self) -> None:
        policy = policy_here()

        def handle(request: Any) -> Any:
            policy.rules.insert(0, rule_here("deny"))
            return ALLOW

        here = Here(policy, permission_handler=handler(handle))
        assert (here.run({"n": 1}), here.ran) == (["denied"], [])


class HowLong(Row, subject="how long a call took"):
    @staticmethod
    def slow(result: Any) -> Any:
        def handle(request: Any) -> Any:
            threading.Event().wait(0.3)
            return result

        return handler(handle)

    def there(self) -> None:
        there = There(policy_there(), self.slow(ALLOW_THERE))
        there.run({"n": 1}, {"n": 2})
        assert max(entry.duration_ms for entry in there.log.get_entries()) > 250

    def here(self) -> None:
        here = Here(policy_here(handler=self.slow(ALLOW)))
        here.run({"n": 1}, {"n": 2})
        calls = here.agent.audit.calls()
        assert calls["duration_s"].max() < 0.25
        assert calls["waited_s"].min() >= 0.3


class Cancelled(Row, subject="a turn that is cancelled while a handler is asked"):
    @staticmethod
    def cancel(run: Callable[[Any], Any]) -> None:
        async def main() -> None:
            asked = asyncio.Event()

            async def handle(request: Any) -> Any:
                asked.set()
                await asyncio.Event().wait()

            turn = asyncio.ensure_future(run(handler(handle)))
            await asked.wait()
            turn.cancel()
            with pytest.raises(asyncio.CancelledError):
                await turn

        asyncio.run(main())

    def there(self) -> None:
        there = There(policy_there())

        def run(one: Any) -> Any:
            there.registry.set_permission_handler(one)
            return there.arun({"n": 1})

        self.cancel(run)
        assert (there.ran, there.log.get_entries()) == ([], [])

    def here(self) -> None:
        policy = policy_here()
        here = Here(policy)

        async def run(one: Any) -> Any:
            policy.handler = one
            return await here.agent.ause_tools([tool_call("act")])

        self.cancel(run)
        (row,) = here.agent.audit.calls().to_dict("records")
        assert (here.ran, row["verdict"], row["outcome"]) == ([], "cancelled", "not_run")


# --- arguments --------------------------------------------------------------------------------------------------------


class ToolcallReason(Row, subject="`toolcall_reason`"):
    def there(self) -> None:
        seen: list[Any] = []
        there = There(policy_there("allow", lambda tool, parameters: seen.append(dict(parameters)) or True))  # type: ignore[func-returns-value]
        assert there.run({"n": 1, "toolcall_reason": "because"}) == ["ran 1"]
        assert seen == [{"n": 1, "toolcall_reason": "because"}]

    def here(self) -> None:
        def act(n: int = 0) -> str:
            """Act."""
            return f"ran {n}"

        agent = ours.Agent([act], permissions=policy_here("allow"))
        (result,) = agent.use_tools([tool_call("act", n=1, toolcall_reason="because")]).results
        assert result.outcome.kind == "input_error"


class NoJson(Row, subject="arguments that are not JSON"):
    def there(self) -> None:
        requests: list[Any] = []

        def handle(request: Any) -> Any:
            requests.append(request)
            return ALLOW_THERE

        (text,) = There(policy_there(), handler(handle)).run('{"n": ')
        assert requests[0].parameters == {"raw_arguments": '{"n": '}
        assert "unexpected keyword argument 'raw_arguments'" in text

    def here(self) -> None:
        requests: list[Any] = []
        here = Here(policy_here(handler=handler(requests.append)))
        message = {"role": "assistant", "content": None, "tool_calls": There.calls('{"n": ')}
        (result,) = here.agent.use_tools({"choices": [{"message": message}]}).results
        assert (result.outcome.kind, requests) == ("input_error", [])


# --- the table --------------------------------------------------------------------------------------------------------


def test_every_row_of_the_table_is_shown_by_a_class_and_every_class_shows_a_row() -> None:
    assert sorted(subjects(HEADING)) == sorted(Row.rows), "each row of docs/differences.md has a class in this file"


@pytest.mark.parametrize("column", ["there", "here"])
@pytest.mark.parametrize("subject", Row.rows)
def test_a_row_says_what_happens(subject: str, column: str, tmp_path: Path) -> None:
    getattr(Row.rows[subject](tmp_path), column)()
