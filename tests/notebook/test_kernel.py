"""A message to a comm reaches a running cell, in real kernels and without a browser."""

from __future__ import annotations

import queue
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from jupyter_client.manager import KernelManager
from jupyter_client.session import Session
from kernels import KERNEL_7, KERNELS, clean_environment

from agentperm_nb.errors import DeliveryError
from agentperm_nb.notebook.kernel import Delivery, front_end
from agentperm_nb.notebook.shell_layouts import shell_messages

SETUP = """
import asyncio, contextvars, threading, time
from comm import create_comm, get_comm_manager
from agentperm_nb.notebook import shell_layouts
from agentperm_nb.notebook.kernel import Delivery, front_end

def open_comm(comm_id):
    if comm_id in get_comm_manager().comms:
        get_comm_manager().comms[comm_id].close()
    comm, got = create_comm(target_name="test", comm_id=comm_id), []
    comm.on_msg(lambda m: got.append((m["content"]["data"]["text"], threading.current_thread().name)))
    return comm, got

ours, got = open_comm("ours")
ours2, got2 = open_comm("ours-2")
kernel = get_ipython().kernel

def hooked():
    waiters = shell_layouts.shell_messages(kernel).waiters
    if getattr(kernel, "shell_channel_thread", None) is None:
        return bool(waiters)
    return bool(waiters) or kernel.shell_stream._recv_callback != kernel.shell_channel_thread_main

async def awaited(comm_id, got):
    delivery = Delivery.for_this_kernel()
    delivery.serve(comm_id)
    async with delivery.awaiting():
        print("waiting", comm_id)
        while not got:
            await asyncio.sleep(0.05)
    return got[0]

def blocked(comm_id, got):
    delivery = Delivery.for_this_kernel()
    delivery.serve(comm_id)
    with delivery.blocking() as step:
        print("waiting", comm_id, flush=True)
        while not got:
            step(0.1)
    return got[0]
"""
AWAITING = "print('done', await awaited('ours', got), hooked())"
BLOCKING = "print('done', blocked('ours', got), hooked())"
BOTH = pytest.mark.parametrize("cell", [AWAITING, BLOCKING], ids=["awaiting", "blocking"])


class Kernel:
    """A kernel with a client that keeps everything it hears."""

    def __init__(self, name: str, manager: KernelManager) -> None:
        self.name, self.manager, self.client = name, manager, manager.client()
        self.client.start_channels()
        self.client.wait_for_ready(timeout=60)
        self.heard: list[dict[str, Any]] = []

    def start(self, code: str, *, cell_id: str | None = None, **content: Any) -> str:
        """Run a cell; return the id of the request."""
        request = {"code": code, "silent": False, "store_history": True, "user_expressions": {}, "allow_stdin": True}
        content = {
            key: value for key, value in (request | {"stop_on_error": True} | content).items() if value is not ...
        }
        metadata = {} if cell_id is None else {"cellId": cell_id}
        message = self.client.session.msg("execute_request", content, metadata=metadata)
        self.client.shell_channel.send(message)
        return str(message["header"]["msg_id"])

    def send(self, text: str, comm_id: str = "ours", session: Session | None = None) -> str:
        """Send what a click would; return the id of the message."""
        message = self.client.session.msg("comm_msg", {"comm_id": comm_id, "data": {"text": text}})
        (session or self.client.session).send(self.client.shell_channel.socket, message)
        return str(message["header"]["msg_id"])

    def wait_for(self, condition: Callable[[], Any], what: str, timeout: float = 10) -> None:
        """Listen until a condition on what was heard is true."""
        deadline = time.monotonic() + timeout
        while not condition():
            try:
                self.heard.append(self.client.get_iopub_msg(timeout=deadline - time.monotonic()))
            except (queue.Empty, ValueError):
                raise AssertionError(
                    f"no {what}; heard: {[(m['msg_type'], m['content']) for m in self.heard]}"
                ) from None

    def of(self, request: str, kind: str) -> list[dict[str, Any]]:
        return [
            m["content"] for m in self.heard if m["parent_header"].get("msg_id") == request and m["msg_type"] == kind
        ]

    def printed(self, request: str) -> str:
        return "".join(content["text"] for content in self.of(request, "stream"))

    def error(self, request: str) -> str:
        return "".join(content["ename"] for content in self.of(request, "error"))

    def states(self, request: str) -> list[str]:
        return [content["execution_state"] for content in self.of(request, "status")]

    def wait_text(self, request: str, text: str) -> None:
        self.wait_for(lambda: text in self.printed(request), f"{text!r}")

    def wait_end(self, request: str) -> str:
        """Wait until a request has ended and its reply is here; return what it printed.

        Before 7.4, ipykernel 7 may lose a message that arrives while it sends a reply.
        """
        self.wait_for(lambda: self.states(request)[-1:] == ["idle"], "end of the cell")
        self.reply(request)
        return self.printed(request)

    def reply(self, request: str) -> dict[str, Any]:
        """Return the reply to a request. Those to earlier ones, which nobody waited for, are passed over."""
        while True:
            reply = self.client.get_shell_msg(timeout=10)
            if reply["parent_header"]["msg_id"] == request:
                return reply

    def run(self, code: str, **content: Any) -> str:
        return self.wait_end(self.start(code, **content))


@pytest.fixture(scope="module", params=KERNELS)
def running_kernel(request: pytest.FixtureRequest, jupyter_home: Path) -> Iterator[Kernel]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("JUPYTER_PATH", str(jupyter_home / "share"))
        manager = KernelManager(kernel_name=request.param)
        with open(jupyter_home / "kernel.log", "a") as log:  # errors that tests provoke
            manager.start_kernel(env=clean_environment(jupyter_home), stderr=log)
    running = Kernel(request.param, manager)
    yield running
    running.client.stop_channels()
    manager.shutdown_kernel(now=True)
    manager.cleanup_resources()


@pytest.fixture
def kernel(running_kernel: Kernel) -> Iterator[Kernel]:
    """A kernel with the functions of `SETUP`; afterwards nothing of ours is left in it."""
    running_kernel.heard.clear()
    running_kernel.run(SETUP)
    yield running_kernel
    assert running_kernel.run("print(hooked())") == "False\n"


@BOTH
def test_a_message_reaches_the_running_cell_on_its_own_thread(kernel, cell):
    request = kernel.start(cell)
    kernel.wait_text(request, "waiting")
    click = kernel.send("yes")
    assert "done ('yes', 'MainThread') False" in kernel.wait_end(request)
    kernel.wait_for(lambda: len(kernel.states(click)) == 2, "busy and idle of the click")
    assert kernel.states(click) == ["busy", "idle"]


@BOTH
def test_the_cell_is_busy_again_after_a_message(kernel, cell):
    request = kernel.start(cell.replace("got)", "late)").replace("print(", "late = []; print(", 1))
    kernel.wait_text(request, "waiting")
    click = kernel.send("first")
    kernel.wait_for(lambda: kernel.states(click) == ["busy", "idle"], "idle of the click")
    kernel.wait_for(lambda: kernel.states(request) == ["busy", "busy"], "busy of the cell")
    kernel.manager.interrupt_kernel()
    kernel.wait_end(request)


@pytest.mark.parametrize(
    ("cell", "error"),
    [
        (AWAITING, "CancelledError"),
        (BLOCKING, "KeyboardInterrupt"),
        (f"await asyncio.sleep(0)\n{BLOCKING}", "KeyboardInterrupt"),
    ],
    ids=["awaiting", "blocking", "blocking-in-a-cell-that-awaits-elsewhere"],
)
def test_an_interrupt_ends_the_wait_within_a_second(kernel, cell, error):
    request, behind = kernel.start(cell), kernel.start("print('behind')")
    kernel.wait_text(request, "waiting")
    kernel.manager.interrupt_kernel()
    started = time.monotonic()
    assert "done" not in kernel.wait_end(request)
    assert time.monotonic() - started < 1
    assert kernel.error(request) == error
    assert kernel.wait_end(behind) == ""
    assert kernel.run("print(got, hooked())") == "[] False\n"


def test_an_exception_in_the_body_removes_the_hook(kernel):
    cell = "d = Delivery.for_this_kernel()\nasync with d.awaiting():\n    with d.blocking():\n        1 / 0"
    request = kernel.start(cell)
    kernel.wait_end(request)
    assert kernel.error(request) == "ZeroDivisionError"
    assert kernel.run("print(hooked())") == "False\n"


@BOTH
def test_cells_behind_run_after_it_and_in_order(kernel, cell):
    kernel.run("order = []")
    request = kernel.start(f"{cell}\norder.append(0)")
    kernel.wait_text(request, "waiting")
    behind = [kernel.start(f"order.append({n})") for n in range(1, 6)]
    kernel.send("yes")
    kernel.wait_end(behind[-1])
    assert kernel.run("print(order)") == "[0, 1, 2, 3, 4, 5]\n"


@BOTH
def test_messages_of_other_comms_are_not_taken(kernel, cell):
    request = kernel.start(cell)
    kernel.wait_text(request, "waiting")
    for number in range(3):
        kernel.send(f"other {number}", "ours-2")
    kernel.send("yes")
    kernel.wait_end(request)
    others = kernel.run("print([text for text, _ in got2])")
    assert others == "['other 0', 'other 1', 'other 2']\n"


def test_two_tasks_wait_at_once_and_each_gets_its_own(kernel):
    request = kernel.start("print(await asyncio.gather(awaited('ours', got), awaited('ours-2', got2)), hooked())")
    kernel.wait_text(request, "waiting ours-2")
    kernel.send("second", "ours-2")
    kernel.send("first")
    assert "[('first', 'MainThread'), ('second', 'MainThread')] False" in kernel.wait_end(request)


def test_a_task_of_an_earlier_cell_is_served_while_another_cell_runs(kernel):
    task = kernel.start("task = asyncio.create_task(awaited('ours', got))\nawait asyncio.sleep(0.1)")
    kernel.wait_end(task)
    request = kernel.start("""
        second = await awaited('ours-2', got2)
        thread = threading.Thread(target=lambda: print('from a thread', second, got)); thread.start(); thread.join()
    """)
    kernel.wait_text(request, "waiting ours-2")
    click = kernel.send("for the task")
    kernel.wait_for(lambda: kernel.states(click) == ["busy", "idle"], "idle of the click")
    kernel.send("for the cell", "ours-2")
    kernel.wait_end(request)
    assert "from a thread ('for the cell', 'MainThread') [('for the task', 'MainThread')]" in kernel.printed(request)
    kernel.run("await task")


@pytest.mark.parametrize("outer", ["awaiting", "blocking"])
def test_a_task_is_served_while_a_cell_blocks_its_loop(kernel, outer):
    kernel.run("task = asyncio.create_task(awaited('ours', got))\nawait asyncio.sleep(0.1)")
    head = "await asyncio.sleep(0)\n" if outer == "awaiting" else ""
    request = kernel.start(f"{head}print('done', blocked('ours-2', got2), got)")
    kernel.wait_text(request, "waiting ours-2")
    kernel.send("for the task")
    kernel.send("for the cell", "ours-2")
    assert "done ('for the cell', 'MainThread') [('for the task', 'MainThread')]" in kernel.wait_end(request)
    kernel.run("await task")


def test_a_background_task_leaves_an_idle_kernel_idle(kernel):
    kernel.run("task = asyncio.create_task(awaited('ours', got))\nawait asyncio.sleep(0.1)")
    click = kernel.send("yes")
    kernel.wait_for(lambda: kernel.states(click)[-1:] == ["idle"], "idle of the click")
    request = kernel.start("print(await task, hooked())")
    assert kernel.wait_end(request) == "('yes', 'MainThread') False\n"
    after = kernel.heard.index(next(m for m in kernel.heard if m["parent_header"].get("msg_id") == click))
    states = [m["parent_header"]["msg_id"] for m in kernel.heard[after:] if m["msg_type"] == "status"]
    assert set(states) == {click, request}


def test_a_loop_in_a_worker_thread_is_served(kernel):
    request = kernel.start(
        "def work():\n    threading.current_thread().name = 'worker'\n    return asyncio.run(awaited('ours', got))\n"
        "print('done', await asyncio.to_thread(work), hooked())"
    )
    kernel.wait_text(request, "waiting")
    kernel.send("yes")
    thread = "worker" if kernel.name == KERNEL_7 else "MainThread"
    assert f"done ('yes', '{thread}') False" in kernel.wait_end(request)


def test_a_worker_thread_that_blocks_is_served(kernel):
    request = kernel.start("print('done', (await asyncio.to_thread(blocked, 'ours', got))[0], hooked())")
    kernel.wait_text(request, "waiting")
    kernel.send("yes")
    assert "done yes False" in kernel.wait_end(request)


def test_a_comm_can_be_added_while_waiting(kernel):
    request = kernel.start("""
        delivery = Delivery.for_this_kernel()
        async with delivery.awaiting():
            delivery.serve('ours')
            print('waiting')
            while not got:
                await asyncio.sleep(0.05)
        print('done', got)
    """)
    kernel.wait_text(request, "waiting")
    kernel.send("yes")
    assert "done [('yes'" in kernel.wait_end(request)


@BOTH
@pytest.mark.parametrize("question", ["kernel_info", "comm_info"])
def test_what_a_reloaded_page_asks_is_answered_while_waiting(kernel, cell, question):
    request = kernel.start(cell)
    kernel.wait_text(request, "waiting")
    asked = getattr(kernel.client, question)()
    assert kernel.reply(asked)["msg_type"] == f"{question}_reply"
    assert kernel.states(request)[-1:] != ["idle"]
    kernel.send("yes")
    kernel.wait_end(request)


@BOTH
def test_whoever_waits_is_told_that_the_cell_is_to_run_again_and_the_request_keeps_its_place(kernel, cell):
    kernel.run("""
        order, told = [], []
        original = Delivery.serve
        def serve(self, comm_id):
            original(self, comm_id)
            self.on_run_again(lambda: (told.append(threading.current_thread().name), got.append(('again',))))
        Delivery.serve = serve
    """)
    code = f"order.append('cell')\n{cell}"
    request = kernel.start(code, cell_id="a")
    kernel.wait_text(request, "waiting")
    kernel.start("order.append('other')", cell_id="b")
    again = kernel.start("order.append('again')", cell_id="a")
    kernel.start("order.append('more')", cell_id="a")
    assert "done ('again',) False" in kernel.wait_end(request)
    kernel.wait_end(again)
    assert (
        kernel.run("Delivery.serve = original; print(order, told)")
        == "['cell', 'other', 'again', 'more'] ['MainThread']\n"
    )


def test_a_cell_that_waits_again_after_it_was_run_again_is_told_at_once(kernel):
    request = kernel.start(
        """
        async def again():
            delivery, told = Delivery.for_this_kernel(), []
            delivery.on_run_again(lambda: told.append(1))
            async with delivery.awaiting():
                print('waiting')
                while not told:
                    await asyncio.sleep(0.05)
        await again(); await again(); print('done')
        """,
        cell_id="a",
    )
    kernel.wait_text(request, "waiting")
    second = kernel.start("print('second')", cell_id="a")
    assert kernel.wait_end(request).endswith("done\n")
    assert kernel.wait_end(second) == "second\n"


def test_requests_without_a_cell_tell_nobody(kernel):
    request = kernel.start(AWAITING)
    kernel.wait_text(request, "waiting")
    kernel.start("print('behind')")
    kernel.send("yes")
    assert "done ('yes', 'MainThread') False" in kernel.wait_end(request)


@BOTH
def test_a_message_with_a_wrong_signature_is_dropped(kernel, cell):
    request = kernel.start(cell)
    kernel.wait_text(request, "waiting")
    kernel.send("forged", session=Session(key=b"not the key"))
    kernel.send("genuine")
    assert "done ('genuine'" in kernel.wait_end(request)
    assert "forged" not in kernel.run("print(got)")


@BOTH
def test_a_handler_runs_in_a_copy_of_the_cells_context(kernel, cell):
    kernel.run("""
        who, seen = contextvars.ContextVar('who', default='nobody'), []
        def handler(m):
            seen.append(who.get()); who.set('changed'); got.append(('yes',))
        ours.on_msg(handler)
    """)
    request = kernel.start(f"who.set('ada')\n{cell}\nprint(seen, who.get())")
    kernel.wait_text(request, "waiting")
    kernel.send("yes")
    assert "['ada'] ada" in kernel.wait_end(request)


def test_a_callback_that_somebody_puts_around_ours_meanwhile_stays(kernel):
    if kernel.name != KERNEL_7:
        return  # there is no callback of ours
    kernel.run("""
        stream, passed = kernel.shell_stream, []
        def around(raw, inner):
            passed.append(len(raw))
            return inner(raw)
        async def wrapped(comm_id, got):
            delivery = Delivery.for_this_kernel()
            delivery.serve(comm_id)
            async with delivery.awaiting():
                inner = stream._recv_callback
                kernel.shell_channel_thread.io_loop.add_callback(
                    lambda: stream.on_recv(lambda raw: around(raw, inner), copy=False))
                print('waiting')
                while not got:
                    await asyncio.sleep(0.05)
    """)
    for comm_id, got in (("ours", "got"), ("ours-2", "got2")):  # the second time, on top of what is there
        request = kernel.start(f"await wrapped('{comm_id}', {got}); print('done')")
        kernel.wait_text(request, "waiting")
        kernel.send("yes", comm_id)
        kernel.wait_end(request)
    assert (
        kernel.run("print(len(passed) > 2, stream._recv_callback != kernel.shell_channel_thread_main)") == "True True\n"
    )
    kernel.run("""
        restored = threading.Event()
        kernel.shell_channel_thread.io_loop.add_callback(
            lambda: (stream.on_recv(kernel.shell_channel_thread_main, copy=False), restored.set()))
        restored.wait(5)
    """)
    request = kernel.start("got.clear(); print('done', await awaited('ours', got))")
    kernel.wait_text(request, "waiting")
    kernel.send("again")
    assert "done ('again'" in kernel.wait_end(request)


@BOTH
def test_a_handler_that_raises_does_not_end_the_wait(kernel, cell):
    kernel.run(
        "def fail(m): ours.on_msg(lambda m: got.append((m['content']['data']['text'],))); raise ValueError('no')"
    )
    kernel.run("ours.on_msg(fail)")
    request = kernel.start(cell)
    kernel.wait_text(request, "waiting")
    kernel.send("first")
    kernel.send("second")
    assert "done ('second',) False" in kernel.wait_end(request)
    assert kernel.error(request) == ""


def test_a_message_that_a_blocking_cell_left_is_handled_after_it(kernel):
    request = kernel.start("""
        delivery = Delivery.for_this_kernel()
        delivery.serve('ours')
        waiters = shell_layouts.shell_messages(kernel).waiters
        with delivery.blocking():
            print('waiting', flush=True)
            arrived = (lambda: not waiters[0].inbox.empty()) if hasattr(kernel, 'shell_channel_thread') else (
                lambda: kernel.shell_stream.socket.poll(10))
            while not arrived():
                time.sleep(0.01)
        print('done', got)
    """)
    kernel.wait_text(request, "waiting")
    kernel.send("late")
    assert "done []" in kernel.wait_end(request)
    assert "late" in kernel.run("print(got)")


@BOTH
def test_the_figures_of_a_cell_are_not_shown_under_a_click(kernel, cell):
    kernel.run("shown = []\nget_ipython().events.register('post_execute', lambda: shown.append(list(got)))\n")
    request = kernel.start(f"shown.clear()\n{cell}\nprint('shown', shown)")
    kernel.wait_text(request, "waiting")
    kernel.send("yes")
    assert "shown []" in kernel.wait_end(request)


@pytest.mark.parametrize("allowed", [True, False, ...], ids=["allowed", "not-allowed", "not-said"])
@pytest.mark.parametrize(
    "code",
    [
        "seen = front_end()",
        "async def ask():\n    await asyncio.sleep(0.01)\n    return front_end()\n"
        "seen = await asyncio.create_task(ask())",
        "seen = await asyncio.to_thread(front_end)",
        "seen = []\nthread = threading.Thread(target=lambda: seen.append(front_end()))\n"
        "thread.start(); thread.join(); seen = seen[0]",
    ],
    ids=["cell", "task", "thread-with-context", "bare-thread"],
)
def test_whether_somebody_can_answer_is_read_from_the_request(kernel, code, allowed):
    seen = kernel.run(f"{code}\nprint(seen.in_kernel, seen.can_answer, seen.reason)", allow_stdin=allowed)
    if allowed is True:
        assert seen.startswith("True True ")
    else:
        assert seen.startswith("True False Nobody can answer: ")
        assert ("says that it takes no" if allowed is False else "does not say") in seen


def test_a_background_task_reads_the_request_of_its_own_cell(kernel):
    kernel.run("async def ask():\n    await go.wait()\n    return front_end()\ngo = asyncio.Event()")
    kernel.run("task = asyncio.create_task(ask())", allow_stdin=False)
    task = "False" if kernel.name == KERNEL_7 else "True"  # ipykernel 6 knows only the latest request
    assert kernel.run("go.set(); print((await task).can_answer, front_end().can_answer)") == f"{task} True\n"


def test_outside_of_a_kernel_nothing_is_delivered():
    assert front_end().in_kernel is False
    assert front_end().can_answer is False
    with pytest.raises(DeliveryError, match="does not run in an ipykernel"):
        Delivery.for_this_kernel()


def test_a_kernel_of_an_unknown_layout_is_refused_with_what_it_lacks():
    with pytest.raises(DeliveryError, match=r"layout 'channel' it lacks .*layout 'queue' it lacks .*msg_queue\._queue"):
        shell_messages(object())
