"""A click on a widget reaches the cell that waits for it, in real notebooks."""

from __future__ import annotations

import pytest
from driver import NotebookPage
from servers import LAB_6, LAB_7

SETUP = '''
import asyncio
import anywidget
from agentperm_nb.notebook import shell_layouts
from agentperm_nb.notebook.kernel import Delivery
from IPython.display import display
import traitlets

class Box(anywidget.AnyWidget):
    _esm = """
    export default { render({ model, el }) {
        const area = document.createElement("textarea"), button = document.createElement("button");
        area.className = model.get("name");
        area.value = model.get("text");
        area.oninput = () => { model.set("text", area.value); model.save_changes(); };
        button.textContent = "Send " + model.get("name");
        button.onclick = () => model.send({ text: area.value });
        for (const item of [el, area, button]) item.dataset.lmSuppressShortcuts = "true";
        model.on("msg:custom", message => { area.dataset.seen = message.seen; });
        el.append(area, button);
        model.send({ hello: true });
    } };
    """
    name = traitlets.Unicode("one").tag(sync=True)
    text = traitlets.Unicode("").tag(sync=True)

    def __init__(self, name="one"):
        super().__init__(name=name)
        self.answers, self.hellos = [], 0
        self.on_msg(self.received)
        self.observe(lambda change: self.send({"seen": change.new}), "text")

    def received(self, _, content, buffers):
        if "hello" in content:
            self.hellos += 1
        else:
            self.answers.append(content["text"])

def hooked():
    kernel = get_ipython().kernel
    if getattr(kernel, "shell_channel_thread", None) is None:
        return bool(shell_layouts.shell_messages(kernel).waiters)
    return kernel.shell_stream._recv_callback != kernel.shell_channel_thread_main

async def awaited(box):
    delivery = Delivery.for_this_kernel()
    delivery.serve(box.comm.comm_id)
    async with delivery.awaiting():
        display(box)
        while not box.answers:
            await asyncio.sleep(0.05)
    return box.answers[0]

def blocked(box):
    delivery = Delivery.for_this_kernel()
    delivery.serve(box.comm.comm_id)
    with delivery.blocking() as step:
        display(box)
        while not box.answers:
            step(0.1)
    return box.answers[0]

order, box = [], Box()
'''
AWAITING = "result = await awaited(box); order.append(0); print('got', result, hooked())"
BLOCKING = "result = blocked(box); order.append(0); print('got', result, hooked())"
BEHIND = [f"order.append({number}); print('behind {number}', order)" for number in range(1, 6)]
BOTH = pytest.mark.parametrize("cell", [AWAITING, BLOCKING], ids=["awaiting", "blocking"])
TEXT = "an edited text, typed at once"


def wait_seen(nb: NotebookPage, text: str) -> None:
    """Wait until the kernel has the text of the box: what is typed goes there in steps, behind which a click passes."""
    nb.wait_js("s => document.querySelector('.one').dataset.seen === s", text, what=f"the kernel having {text!r}")


@BOTH
def test_the_cell_goes_on_with_the_whole_text_and_five_cells_behind_follow_in_order(open_notebook, where, cell):
    nb = open_notebook([SETUP, cell, *BEHIND, "print(box.hellos, hooked())", "print(box.text)"], where)
    for index in range(8):
        nb.run(index)
    nb.type(TEXT, ".one", delay=0)
    assert nb.outputs()[2:] == [""] * 7
    nb.click("Send one")
    nb.wait_output(1, f"got {TEXT} False")
    nb.wait_idle()
    assert nb.output(1).startswith("<widget>")
    assert nb.outputs()[2:8] == [
        *(f"behind {number} {list(range(number + 1))}\n" for number in range(1, 6)),
        "1 False\n",
    ]
    wait_seen(nb, TEXT)
    nb.run(8)
    assert nb.wait_done(8) == f"{TEXT}\n"


@BOTH
def test_the_widget_still_works_after_the_wait(open_notebook, where, cell):
    nb = open_notebook([SETUP, cell, "print(box.text, box.answers)"], where)
    nb.run(0)
    nb.run(1)
    nb.click("Send one")
    nb.wait_output(1, "got")
    nb.wait_idle()
    nb.type("later", ".one")
    wait_seen(nb, "later")
    nb.click("Send one")
    nb.run(2)
    nb.wait_output(2, "later ['', 'later']")


@BOTH
def test_an_interrupt_cancels_the_wait_and_the_next_cell_works(open_notebook, where, cell):
    nb = open_notebook([SETUP, cell, *BEHIND, "print(order, box.answers, hooked())"], where)
    nb.run_all()
    nb.wait_button("Send one")
    nb.interrupt()
    nb.wait_output(1, "CancelledError" if cell == AWAITING else "KeyboardInterrupt")
    nb.wait_idle()
    assert nb.outputs()[2:] == [""] * 6
    nb.run(7)
    nb.wait_output(7, "[] [] False")


def test_two_tasks_wait_at_once_and_each_gets_its_own_click(open_notebook, where):
    cell = "a, b = Box('one'), Box('two')\nprint('got', await asyncio.gather(awaited(a), awaited(b)), hooked())"
    nb = open_notebook([SETUP, cell], where)
    nb.run_all()
    nb.type("to two", ".two")
    nb.click("Send two")
    nb.type("to one", ".one")
    nb.click("Send one")
    nb.wait_output(1, "got ['to one', 'to two'] False")


@BOTH
@pytest.mark.parametrize("where", [LAB_7, LAB_6], ids=str)
def test_a_page_that_was_reloaded_while_the_cell_waits_can_answer(open_notebook, where, cell):
    nb = open_notebook([SETUP, cell, "print('after', result, box.hellos, hooked())"], where, fresh=True)
    nb.run(0)
    nb.wait_idle()
    nb.run(1)
    nb.wait_button("Send one")
    nb.save()
    nb.reload()
    nb.type("from the new page", ".one")
    nb.click("Send one")
    nb.run(2)
    nb.wait_output(2, "after from the new page 2 False")


def test_a_restart_while_the_cell_waits_leaves_nothing_behind(open_notebook, where):
    nb = open_notebook([SETUP, AWAITING, "result"], where)
    nb.run(0)
    nb.run(1)
    nb.wait_button("Send one")
    nb.restart()
    nb.click("Send one")
    nb.run(2)
    nb.wait_output(2, "NameError")
