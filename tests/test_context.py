"""The run, the session and the person that a call belongs to."""

from __future__ import annotations

import contextlib
import contextvars
import getpass
import os
import threading
from collections.abc import Iterator

import pytest

from agentperm_nb.context import RunContext, get_run_context, new_id, running_in, session_id, who


@pytest.fixture(autouse=True)
def _ask_again_who_it_is() -> Iterator[None]:
    who.cache_clear()
    yield
    who.cache_clear()


def test_the_hub_says_who_it_is_before_the_login_does(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("JUPYTERHUB_USER", "ada@hub")
    assert who() == ("ada@hub", "JUPYTERHUB_USER")


@pytest.mark.parametrize("hub", [None, ""], ids=["no hub", "empty"])
def test_without_a_hub_the_login_says_who_it_is(monkeypatch: pytest.MonkeyPatch, hub: str | None) -> None:
    monkeypatch.delenv("JUPYTERHUB_USER", raising=False)
    if hub is not None:
        monkeypatch.setenv("JUPYTERHUB_USER", hub)
    monkeypatch.setattr(getpass, "getuser", lambda: "ada")
    assert who() == ("ada", "login")


@pytest.mark.parametrize("error", [KeyError("uid 4711"), OSError("no user"), ImportError("no pwd")], ids=repr)
def test_a_user_without_a_name_is_named_by_number(monkeypatch: pytest.MonkeyPatch, error: Exception) -> None:
    def nobody() -> str:
        raise error

    monkeypatch.delenv("JUPYTERHUB_USER", raising=False)
    monkeypatch.setattr(getpass, "getuser", nobody)
    monkeypatch.setattr(os, "getuid", lambda: 4711, raising=False)
    assert who() == ("uid 4711", "uid")
    who.cache_clear()
    monkeypatch.delattr(os, "getuid")
    assert who() == ("unknown", "uid")


def test_a_session_lasts_as_long_as_the_process() -> None:
    assert session_id() == session_id()
    assert session_id().startswith("session_")


def test_every_thread_has_the_session_of_its_process() -> None:
    seen: list[str] = []
    threads = [threading.Thread(target=lambda: seen.append(session_id())) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert set(seen) == {session_id()}


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork on this system")
@pytest.mark.filterwarnings("ignore:.*multi-threaded.*:DeprecationWarning")
def test_a_forked_child_has_a_session_of_its_own() -> None:
    mine = session_id()
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        os.write(writing, f"{session_id()} {session_id()}".encode())
        os._exit(0)
    os.waitpid(child, 0)
    os.close(writing)
    with os.fdopen(reading) as pipe:
        first, second = pipe.read().split()
    assert first == second != mine
    assert session_id() == mine


def test_ids_are_short_random_and_say_what_they_are_of() -> None:
    ids = {new_id("run") for _ in range(1000)}
    assert len(ids) == 1000
    assert all(len(made) == 16 and made.startswith("run_") for made in ids)


def test_the_run_is_known_inside_it_and_nowhere_else() -> None:
    outer = RunContext("run_1", "session_1", "ada", ("main",), {"task": 7})
    inner = RunContext("run_2", "session_1", None, ("main", "research"))
    assert get_run_context() is None
    with running_in(outer):
        assert get_run_context() is outer
        with contextlib.suppress(OSError), running_in(inner):
            assert get_run_context() is inner
            raise OSError
        assert get_run_context() is outer
        copied = contextvars.copy_context()
    assert get_run_context() is None
    assert copied.run(get_run_context) is outer


def test_a_thread_does_not_inherit_the_run() -> None:
    seen: list[RunContext | None] = []
    with running_in(RunContext("run_1", "session_1", None)):
        thread = threading.Thread(target=lambda: seen.append(get_run_context()))
        thread.start()
        thread.join()
    assert seen == [None]


def test_a_run_context_cannot_be_changed() -> None:
    context = RunContext("run_1", "session_1", None)
    with pytest.raises(AttributeError):
        context.run_id = "run_2"  # type: ignore[misc]
    assert (context.agent_path, dict(context.metadata)) == ((), {})
