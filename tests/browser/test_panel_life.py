"""What becomes of a waiting panel when its cell is run again, its output is cleared, or its page goes away."""

from __future__ import annotations

from pathlib import Path

import pytest
from driver import NotebookPage
from servers import EVERYWHERE, LAB_7

TESTS = Path(__file__).parents[1]
SETUP = (
    f"import sys; sys.path.insert(0, {str(TESTS)!r})\nfrom waiting import *\nfrom agentperm_nb.notebook.human import *"
)
AGENT = """
from agentperm_nb import Agent, ToolCall
log, ran, runs = [], [], []
def write(path: str) -> str:
    ran.append(path)
agent = Agent([write])
CALLS = [ToolCall("write", {"path": "a"})]
def note(turn):
    log.append((turn.results[0].verdict, *[result.content for result in turn.results if result.verdict == "cancelled"]))
    print("result", turn.results[0].verdict, ran)
"""
GUARD = 0.45  # s: the panel ignores clicks for 0.35 s after a card appeared or changed
EVERYWHERE_ = pytest.mark.parametrize("where", EVERYWHERE, ids=str)
EVERY_CALL = pytest.mark.parametrize("call", ["await ask(request)", "block(request)"], ids=["awaiting", "blocking"])


def waiting(open_notebook, where, *cells: str, theme: str = "light") -> NotebookPage:
    """Run the set-up and the first cell after it; return when the panel takes clicks."""
    nb = open_notebook([SETUP, *cells], where, theme=theme)
    nb.run(0)
    nb.run(1)
    nb.wait_button("Approve")
    guard(nb)
    return nb


def guard(nb: NotebookPage) -> None:
    nb.page.wait_for_timeout(GUARD * 1000)


# The cell is run again ------------------------------------------------------------------------------------------------


@EVERYWHERE_
@pytest.mark.parametrize(
    "use", ["await agent.ause_tools(CALLS)", "agent.use_tools(CALLS)"], ids=["awaiting", "blocking"]
)
def test_a_waiting_cell_that_is_run_again_asks_afresh(open_notebook, where, use):
    cell = f"runs.append(1); print('run', len(runs)); note({use})"
    nb = open_notebook([SETUP + AGENT, cell, "print('behind', log, ran)"], where)
    nb.run(0)
    nb.run(1)
    nb.wait_button("Approve")
    nb.run(1)
    nb.run(2)
    nb.wait_output(1, "run 2")
    nb.wait_button("Approve")
    guard(nb)
    assert nb.page.locator(".apnb").count() == 1
    nb.click("Approve")
    nb.wait_output(1, "result allowed ['a']")
    nb.wait_output(2, "behind [('cancelled', '(not run: the cell was run again)'), ('allowed',)] ['a']")
    nb.wait_idle()


@EVERYWHERE_
def test_a_turn_that_a_loop_starts_after_its_cell_was_run_again_is_withdrawn_too(open_notebook, where):
    cell = "runs.append(1); print('run', len(runs))\nfor _ in range(3): note(await agent.ause_tools(CALLS))"
    nb = open_notebook([SETUP + AGENT, cell, "print('behind', [verdict for verdict, *_ in log])"], where)
    nb.run(0)
    nb.run(1)
    nb.wait_button("Approve")
    nb.run(1)
    nb.wait_output(1, "run 2")
    nb.run(2)
    for _ in range(3):
        nb.wait_button("Approve")
        guard(nb)
        nb.click("Approve")
        nb.wait_js("() => !document.querySelector('.apnb [data-action=approve]:enabled')")
    nb.wait_output(2, "behind ['cancelled', 'cancelled', 'cancelled', 'allowed', 'allowed', 'allowed']")


def test_running_another_cell_disturbs_nothing(open_notebook):
    nb = waiting(open_notebook, LAB_7, "print(await ask(make_request()))", "print('behind')")
    nb.run(2)
    guard(nb)
    nb.click("Approve")
    nb.wait_output(1, "answered allow")
    nb.wait_output(2, "behind")


# The output is cleared ------------------------------------------------------------------------------------------------


@EVERYWHERE_
@EVERY_CALL
def test_a_panel_whose_output_is_cleared_comes_back_and_its_click_counts(open_notebook, where, call):
    nb = waiting(open_notebook, where, f"print('before')\nrequest = make_request()\nprint({call})")
    nb.command("notebook:clear-cell-output")
    nb.wait_js("() => !document.querySelector('.apnb')", what="the end of the old panel")
    nb.wait_button("Approve", timeout=5)
    guard(nb)
    assert nb.page.locator(".apnb").count() == 1
    nb.click("Approve")
    nb.wait_output(1, "answered allow")
    assert nb.output(1).count("✓ write_file") == 1
    assert "<widget>" not in nb.output(1)


def test_the_panel_comes_back_after_a_second_clearing_too(open_notebook):
    nb = waiting(open_notebook, LAB_7, "print(await ask(make_request()))")
    for _ in range(2):
        nb.command("notebook:clear-all-cell-outputs")
        nb.wait_js("() => !document.querySelector('.apnb')")
        nb.wait_button("Approve", timeout=5)
    guard(nb)
    nb.click("Deny")
    nb.wait_output(1, "answered deny")


# The page is reloaded -------------------------------------------------------------------------------------------------


@EVERYWHERE_
@EVERY_CALL
def test_a_reloaded_page_draws_the_record_as_text(open_notebook, where, call):
    args = "{'path': '<img src=x>', 'content': 'y'}"
    nb = waiting(open_notebook, where, f"request = make_request(args={args})\nsaid = {call}", "print('behind')")
    nb.save()
    nb.reload()
    nb.wait_button("Approve")
    guard(nb)
    nb.field(".apnb-reason").fill("looks <b>fine</b>")
    nb.click("Approve")
    record = nb.wait_visible(nb.page.locator(".apnb-record"))
    text = record.inner_text()
    assert "Approvals: 1 of 1 call approved" in text
    assert 'write_file(path="<img src=x>", content="y")' in text
    assert "Reason: looks <b>fine</b>" in text
    assert record.locator("img, b").count() == 0
    nb.wait_js("() => !document.querySelector('.apnb')", what="the end of the panel")
    nb.run(1)  # the record goes with the output it stands for
    nb.wait_button("Approve")
    assert nb.page.locator(".apnb-record").count() == 0


def test_the_page_that_ran_the_cell_has_one_record_only(open_notebook):
    nb = waiting(open_notebook, LAB_7, "print(await ask(make_request()))")
    nb.click("Approve")
    nb.wait_output(1, "answered allow")
    nb.page.wait_for_timeout(600)
    assert nb.page.locator(".apnb-record").count() == 0


# The focus ------------------------------------------------------------------------------------------------------------


@EVERYWHERE_
@pytest.mark.parametrize("how", ["click", "Enter"])
def test_the_notebook_has_the_focus_after_an_answer(open_notebook, where, how):
    nb = waiting(open_notebook, where, "print(await ask(make_request()))", "print('behind')")
    if how == "click":
        nb.click("Approve")
    else:
        nb.button("Approve").focus()
        nb.page.keyboard.press("Enter")
    nb.wait_output(1, "answered allow")
    nb.wait_js("() => document.activeElement.closest('.jp-Cell')", what="the focus in a cell")
    assert nb.js("return [panel().content.activeCellIndex, panel().content.mode];") == [1, "command"]
    nb.page.keyboard.press("Shift+Enter")
    nb.wait_button("Approve")
    guard(nb)
    nb.click("Approve")
    nb.wait_output(1, "answered allow")


def test_the_focus_is_not_taken_from_where_the_person_works(open_notebook):
    cell = (
        "import threading\nrequest = make_request()\n"
        "threading.Timer(3, lambda: the_desk.withdraw(request.id, 'by itself')).start()\nprint(await ask(request))"
    )
    nb = waiting(open_notebook, LAB_7, cell, "x")
    nb.page.locator(".jp-Cell .cm-content").nth(2).click()
    nb.wait_output(1, "by itself")
    nb.page.wait_for_timeout(400)
    assert nb.js("return [panel().content.activeCellIndex, panel().content.mode];") == [2, "edit"]
