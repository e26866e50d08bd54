"""The main job with an agent, in real notebooks: a call is approved, denied or edited under the running cell."""

from __future__ import annotations

import json

import pytest
from driver import PATIENCE, NotebookPage
from servers import EVERYWHERE, LAB_7, Where

SETUP = (
    PATIENCE
    + """
from agentperm_nb import Agent, AllowByReadOnly, DecideByHuman, DenyByName, ToolCall, tool

ran, order = [], []

@tool(read_only=True)
def look(path: str) -> str:
    ran.append(("look", path))
    return f"content of {path}"

def write(path: str, content: str, token: str = "") -> str:
    ran.append(("write", path, content))
    return f"{len(content)} characters written"

def cancel_order(order: str) -> str:
    ran.append(("cancel", order))

agent = Agent([look, write, cancel_order], permissions=[DenyByName(["cancel_*"]), AllowByReadOnly(), DecideByHuman()])
ONE = [ToolCall("look", {"path": "a"}), ToolCall("write", {"path": "a", "content": "draft"}),
       ToolCall("cancel_order", {"order": "7"})]
THREE = [ToolCall("write", {"path": name, "content": name}) for name in ("a", "b", "c")]
"""
)
SHOW = """
for result in turn.results:
    print(result.call.name, result.verdict, result.decided_by, result.answered_by, result.content, sep=" | ")
print(sorted(ran))  # two tools that are allowed run at the same time
"""
AWAIT_ONE, AWAIT_THREE = f"turn = await agent.ause_tools(ONE){SHOW}", f"turn = await agent.ause_tools(THREE){SHOW}"
BLOCK_ONE = f"turn = agent.use_tools(ONE){SHOW}"
BEHIND = [f"order.append({n}); print('behind', len(ran), order)" for n in range(5)]

EVERY_CELL = pytest.mark.parametrize("cell", [AWAIT_ONE, BLOCK_ONE], ids=["awaiting", "blocking"])
EVERYWHERE_ = pytest.mark.parametrize("where", EVERYWHERE, ids=str)


def waiting(open_notebook, where: Where, *cells: str) -> NotebookPage:
    """Run all cells after the set-up; return when the panel takes clicks."""
    nb = open_notebook([SETUP, *cells], where)
    nb.run_all()
    nb.wait_button("Approve")
    nb.wait_guard()
    return nb


@pytest.mark.states("X9")
@EVERYWHERE_
@EVERY_CELL
def test_approve_finishes_the_cell_and_the_five_cells_behind_follow_in_order(open_notebook, where, cell):
    nb = waiting(open_notebook, where, cell, *BEHIND)
    assert "behind" not in "".join(nb.outputs())
    nb.click("Approve")
    nb.wait_output(6, "behind")
    nb.wait_idle()
    shown = nb.output(1)
    assert "look | allowed | AllowByReadOnly() | None | content of a" in shown
    assert "write | allowed | DecideByHuman() | human | 5 characters written" in shown
    assert "cancel_order | denied | DenyByName(['cancel_*']) | None | cancel_order is not allowed." in shown
    assert "[('look', 'a'), ('write', 'a', 'draft')]" in shown
    for n in range(5):
        assert nb.output(2 + n) == f"behind 2 {list(range(n + 1))}\n"
    counts = nb.execution_counts()
    assert counts == sorted(counts)


@EVERYWHERE_
@EVERY_CELL
def test_an_edit_that_is_typed_and_sent_at_once_runs_whole(open_notebook, where, cell):
    nb = waiting(open_notebook, where, cell)
    nb.click("Edit…")
    nb.wait_visible(nb.field(".apnb-editor"))
    content = "three words more " * 12
    nb.type(json.dumps({"path": "b", "content": content}), ".apnb-editor", delay=0.002)
    nb.click("Approve edited")
    shown = nb.wait_done(1)
    assert f"{len(content)} characters written" in shown
    assert f"('write', 'b', '{content}')" in shown
    assert "[A reviewer changed 'path', 'content' before this call ran." in shown
    assert "'draft'" not in shown


@EVERYWHERE_
@EVERY_CELL
def test_deny_goes_on_with_the_reason_and_runs_nothing_of_it(open_notebook, where, cell):
    nb = waiting(open_notebook, where, cell, "print('behind')")
    nb.type("not on a Friday", ".apnb-reason", delay=0)
    nb.click("Deny")
    shown = nb.wait_done(1)
    assert "write | denied | DecideByHuman() | human | not on a Friday" in shown
    assert "[('look', 'a')]" in shown
    nb.wait_output(2, "behind")


@EVERYWHERE_
def test_deny_and_stop_ends_the_turn(open_notebook, where):
    nb = waiting(open_notebook, where, f"{AWAIT_ONE}\nprint(turn.stopped)")
    nb.click("Deny and stop")
    shown = nb.wait_done(1)
    assert "stopped by permission DecideByHuman()" in shown
    assert "look | cancelled | DecideByHuman() | None | (not run: the user stopped this turn)" in shown
    assert "[]" in shown


@EVERYWHERE_
def test_approve_all_approves_what_is_shown(open_notebook, where):
    nb = waiting(open_notebook, where, AWAIT_THREE)
    nb.click("Approve all 3 as shown")
    shown = nb.wait_done(1)
    assert "[('write', 'a', 'a'), ('write', 'b', 'b'), ('write', 'c', 'c')]" in shown
    assert shown.count("write | allowed | DecideByHuman() | human | 1 characters written") == 3


@EVERYWHERE_
@EVERY_CELL
def test_an_interrupt_cancels_and_runs_nothing(open_notebook, where, cell):
    watched = f"try:\n    {cell.splitlines()[0]}\nfinally:\n    print('ended', ran)"
    nb = waiting(open_notebook, where, watched, "print('behind')", "print(agent.audit.calls().verdict.tolist(), ran)")
    nb.interrupt()
    nb.wait_output(1, "ended []")
    nb.wait_idle()
    assert nb.output(2) == ""
    nb.run(3)
    assert nb.wait_done(3) == "['cancelled', 'cancelled', 'denied'] []\n"
    nb.wait_no(".apnb")


@EVERYWHERE_
def test_the_saved_notebook_holds_the_record_and_no_secret(open_notebook, where):
    call = "ToolCall('write', {'path': 'a', 'content': 'x', 'token': '-'.join(['hunter2', 'not', 'shown'])})"
    nb = waiting(open_notebook, where, f"turn = await agent.ause_tools([{call}])\nturn", "agent.audit.calls()", "agent")
    assert "hunter2-not-shown" not in nb.page.content()
    nb.click("Approve")
    nb.wait_idle()
    saved = nb.save()
    outputs = json.dumps([cell["outputs"] for cell in saved["cells"]]) + json.dumps(saved["metadata"])
    assert "approved" in outputs
    assert "hunter2-not-shown" not in outputs
    assert "widget-view" not in outputs
    record = saved["cells"][1]["outputs"][0]["data"]
    assert {"text/plain", "text/html"} <= record.keys()
    assert "<button" not in "".join(record["text/html"])


def test_nothing_of_ours_is_left_in_the_kernel_after_a_turn(open_notebook):
    nb = waiting(
        open_notebook,
        LAB_7,
        AWAIT_ONE,
        "k = get_ipython().kernel\n"
        "print(k.shell_stream._recv_callback == k.shell_channel_thread_main, agent.pending())",
    )
    nb.click("Approve")
    assert nb.wait_done(2) == "True ()\n"


def test_money_in_a_table_is_not_typeset_as_a_formula(open_notebook):
    paid = "Send $100 to Ann and $9,000 to Bob"
    cell = f"agent.use_tools([ToolCall('look', {{'path': {paid!r}}})])"
    formula = "from IPython.display import HTML\nHTML('<p>$x^2$</p>')"
    nb = open_notebook([SETUP, cell, f"agent.explain('look', path={paid!r})", formula], LAB_7)
    nb.run_all()
    nb.wait_idle()
    nb.wait_visible(nb.page.locator(".jp-Notebook mjx-container"), what="a formula that is one")
    assert nb.page.locator(".jp-Notebook mjx-container").count() == 1
    shown = nb.page.locator(".jp-RenderedHTMLCommon table")
    assert f'look(path="{paid}")' in shown.nth(0).inner_text()
    assert f'look(path="{paid}")' in shown.nth(1).inner_text()
