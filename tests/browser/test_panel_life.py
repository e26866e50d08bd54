"""What becomes of a waiting panel when its cell is run again, its output is cleared, or its page goes away."""

from __future__ import annotations

import secrets
from pathlib import Path

import pytest
from driver import PATIENCE, NotebookPage
from playwright.sync_api import Locator
from servers import EVERYWHERE, LAB_7

TESTS = Path(__file__).parents[1]
SETUP = (
    f"{PATIENCE}import sys; sys.path.insert(0, {str(TESTS)!r})\n"
    "from waiting import *\nfrom agentperm_nb.notebook.human import *"
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
EVERYWHERE_ = pytest.mark.parametrize("where", EVERYWHERE, ids=str)
EVERY_CALL = pytest.mark.parametrize("call", ["await ask(request)", "block(request)"], ids=["awaiting", "blocking"])


def waiting(open_notebook, where, *cells: str, fresh: bool = False) -> NotebookPage:
    """Run the set-up and the first cell after it; return when the panel takes clicks."""
    nb = open_notebook([SETUP, *cells], where, fresh=fresh)
    nb.run(0)
    nb.run(1)
    nb.wait_button("Approve")
    nb.wait_guard()
    return nb


def wait_one_panel(nb: NotebookPage) -> None:
    nb.wait_js("() => document.querySelectorAll('.apnb').length === 1", what="one panel only")


def wait_in_page(nb: NotebookPage, milliseconds: int) -> None:
    """Wait for what should not happen, by the page's clock: whatever was to happen earlier there has happened then."""
    nb.js("await new Promise(done => setTimeout(done, arg));", milliseconds)


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
    wait_one_panel(nb)
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
    for turn in range(3):
        nb.click("Approve")
        nb.wait_output(1, f"result allowed {['a'] * (turn + 1)}")  # the next panel may be there already
    nb.wait_output(2, "behind ['cancelled', 'cancelled', 'cancelled', 'allowed', 'allowed', 'allowed']")


def test_running_another_cell_disturbs_nothing(open_notebook):
    nb = waiting(open_notebook, LAB_7, "print(await ask(make_request()))", "print('behind')")
    nb.run(2)
    nb.click("Approve")
    nb.wait_output(1, "answered allow")
    nb.wait_output(2, "behind")


# The time is over -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("call", ["await ask(short, other)", "block(short, other)"], ids=["awaiting", "blocking"])
def test_a_request_that_expires_says_so_and_cannot_be_clicked_while_another_waits(open_notebook, call):
    cell = f"short, other = make_request('short', patience=Patience(8)), make_request('other')\nprint({call})"
    nb = waiting(open_notebook, LAB_7, cell)
    assert "Expires" in nb.page.locator(".apnb-card").nth(0).inner_text()
    first = ".apnb-card[data-form='settled']"
    nb.wait_js("arg => document.querySelector(arg)?.textContent.includes('expired at')", first)
    assert "nobody answered within 8 s" in nb.page.locator(first).inner_text()
    assert nb.page.locator(f"{first} button").count() == 0
    nb.wait_guard()
    nb.click("Approve")
    nb.wait_output(1, "['expired nobody answered within 8 s', 'answered allow']")
    assert ": expired: nobody answered within 8 s" in nb.output(1)


# The output is cleared ------------------------------------------------------------------------------------------------


def clear(nb: NotebookPage, command: str) -> None:
    """Clear the output; return when the panel is there again."""
    nb.js("document.querySelector('.apnb').dataset.before = 'true';")
    nb.command(command)
    nb.wait_button("Approve", within=".apnb:not([data-before])")
    nb.wait_no(".apnb[data-before]")


@EVERYWHERE_
@EVERY_CALL
def test_a_panel_whose_output_is_cleared_comes_back_and_its_click_counts(open_notebook, where, call):
    nb = waiting(open_notebook, where, f"print('before')\nrequest = make_request()\nprint({call})")
    clear(nb, "notebook:clear-cell-output")
    wait_one_panel(nb)
    nb.click("Approve")
    nb.wait_output(1, "answered allow")
    assert nb.output(1).count("✓ write_file") == 1
    assert "<widget>" not in nb.output(1)


def test_the_panel_comes_back_after_a_second_clearing_too(open_notebook):
    nb = waiting(open_notebook, LAB_7, "print(await ask(make_request()))")
    for _ in range(2):
        clear(nb, "notebook:clear-all-cell-outputs")
    nb.click("Deny")
    nb.wait_output(1, "answered deny")


# The page is reloaded -------------------------------------------------------------------------------------------------


@EVERYWHERE_
@EVERY_CALL
def test_a_reloaded_page_draws_the_record_as_text(open_notebook, where, call):
    args = "{'path': '<img src=x>', 'content': 'y'}"
    nb = waiting(
        open_notebook, where, f"request = make_request(args={args})\nsaid = {call}", "print('behind')", fresh=True
    )
    nb.save()
    nb.reload()
    nb.wait_button("Approve")
    nb.field(".apnb-reason").fill("looks <b>fine</b>")
    nb.click("Approve")
    record = nb.wait_visible(nb.page.locator(".apnb-record"))
    text = record.inner_text()
    assert "Approvals: 1 of 1 call approved" in text
    assert 'write_file(path="<img src=x>", content="y")' in text
    assert "Reason: looks <b>fine</b>" in text
    assert record.locator("img, b").count() == 0
    nb.wait_no(".apnb")
    nb.wait_idle()
    nb.run(1)  # the record goes with the output it stands for
    nb.wait_button("Approve")
    nb.wait_no(".apnb-record")


def test_the_page_that_ran_the_cell_has_one_record_only(open_notebook):
    nb = waiting(open_notebook, LAB_7, "print(await ask(make_request()))")
    nb.click("Approve")
    nb.wait_output(1, "answered allow")
    nb.wait_no(".apnb")
    wait_in_page(nb, 600)
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
    nb.wait_js(
        "() => document.activeElement.closest('.jp-Cell') && !document.activeElement.closest('.apnb')",
        what="the focus in a cell",
    )
    nb.wait_idle()
    assert nb.js("return [panel().content.activeCellIndex, panel().content.mode];") == [1, "command"]
    nb.page.keyboard.press("Shift+Enter")
    nb.click("Approve")
    nb.wait_output(1, "answered allow")


def withdrawn_when_there(file: str) -> str:
    return f"request = make_request()\nwhen_there({file!r}, lambda: the_desk.withdraw(request.id, 'by itself'))\n"


def make_file(nb: NotebookPage, file: str) -> None:
    (nb.server.folder / file).touch()


def test_the_focus_is_not_taken_from_where_the_person_works(open_notebook):
    file = secrets.token_hex(8)
    nb = waiting(open_notebook, LAB_7, withdrawn_when_there(file) + "print(await ask(request))", "x")
    nb.page.locator(".jp-Cell .cm-content").nth(2).click()
    works_there = "[panel().content.activeCellIndex, panel().content.mode]"
    nb.wait_js(f"() => {works_there}.join() === '2,edit'", what="the cursor in cell 2")
    make_file(nb, file)
    nb.wait_output(1, "by itself")
    nb.wait_no(".apnb")
    wait_in_page(nb, 400)
    assert nb.js(f"return {works_there};") == [2, "edit"]


# The panel is out of view ---------------------------------------------------------------------------------------------

FILLER = ["\n".join(f"# line {n}" for n in range(20))] * 12
TWO = "print(await ask(make_request(), make_request('delete_file', {'path': 'x'})))"


def scroll_to(nb: NotebookPage, cell: int) -> None:
    nb.js("panel().content.activeCellIndex = arg; await panel().content.scrollToItem(arg);", cell)


def wait_pointer(nb: NotebookPage, text: str) -> Locator:
    nb.wait_js("s => document.querySelector('.apnb-pointer')?.textContent === s", text, what=f"the pointer {text!r}")
    return nb.page.locator(".apnb-pointer")


def wait_no_pointer(nb: NotebookPage) -> None:
    nb.wait_no(".apnb-pointers")


def wait_focus_in_panel(nb: NotebookPage) -> None:
    nb.wait_js("() => document.activeElement.matches('.apnb-card')", what="the focus in the panel")


def go(nb: NotebookPage, pointer: Locator) -> None:
    """Click the pointer; return when the panel has come into view."""
    pointer.click()
    wait_focus_in_panel(nb)
    nb.wait_button("Approve")
    wait_no_pointer(nb)


@EVERYWHERE_
@pytest.mark.parametrize("windowing", ["defer", "full", "none"])
def test_a_panel_out_of_view_is_pointed_to(open_notebook, where, windowing):
    nb = open_notebook([SETUP, TWO, *FILLER], where)
    nb.js("const n = panel().content; n.notebookConfig = { ...n.notebookConfig, windowingMode: arg };", windowing)
    nb.run(0)
    nb.run(1)
    nb.wait_button("Approve")
    wait_in_page(nb, 700)
    wait_no_pointer(nb)
    scroll_to(nb, 13)
    pointer = wait_pointer(nb, "2 answers needed ↑")
    assert nb.js("return document.activeElement.closest('.apnb-pointers') === null;")
    go(nb, pointer)
    nb.click("Deny")
    nb.wait_js("() => document.querySelectorAll('.apnb-card[data-form=settled]').length === 1", what="one answer")
    scroll_to(nb, 13)
    go(nb, wait_pointer(nb, "1 answer needed ↑"))
    nb.click("Deny")
    nb.wait_output(1, "['answered deny', 'answered deny']")
    wait_no_pointer(nb)


def test_a_panel_below_is_pointed_to_and_shortcuts_stay_out(open_notebook):
    nb = open_notebook([SETUP, *FILLER, "print(await ask(make_request()))"], LAB_7)
    nb.run(0)
    nb.run(13)
    nb.wait_button("Approve")
    scroll_to(nb, 0)
    pointer = wait_pointer(nb, "1 answer needed ↓")
    assert pointer.get_attribute("aria-label") == "1 answer needed: go to the approval panel"
    pointer.focus()
    before = nb.js("return [cells().length, panel().content.activeCellIndex];")
    for keys in ("d", "d", "j", "a", "x", "0", "0"):
        nb.page.keyboard.press(keys)
    assert nb.js("return [cells().length, panel().content.activeCellIndex];") == before
    nb.page.keyboard.press("Enter")
    wait_focus_in_panel(nb)
    wait_no_pointer(nb)


def test_a_panel_in_a_tab_that_is_behind_another_says_where_it_is(open_notebook):
    nb = waiting(open_notebook, LAB_7, "print(await ask(make_request()))")
    nb.command("launcher:create")
    pointer = wait_pointer(nb, "1 answer needed in another tab")
    assert pointer.is_disabled()
    assert pointer.get_attribute("aria-label") == "1 answer needed: the approval panel is in another tab"
    nb.page.locator(".lm-DockPanel-tabBar .lm-TabBar-tab", has_text=nb.path).click()
    wait_no_pointer(nb)
    nb.click("Approve")
    nb.wait_output(1, "answered allow")


@pytest.mark.parametrize("end", ["withdrawal", "interrupt", "restart", "closed notebook"])
def test_the_pointer_goes_when_nothing_waits_any_more(open_notebook, end):
    file = secrets.token_hex(8)
    nb = open_notebook([SETUP, f"{withdrawn_when_there(file)}await ask(request)", *FILLER], LAB_7)
    nb.run(0)
    nb.run(1)
    nb.wait_button("Approve")
    scroll_to(nb, 13)
    wait_pointer(nb, "1 answer needed ↑")
    if end == "withdrawal":
        make_file(nb, file)
    elif end == "interrupt":
        nb.interrupt()
    elif end == "restart":
        nb.restart()
    else:
        nb.js("panel().context.model.dirty = false; panel().close();")
    wait_no_pointer(nb)


# Words ----------------------------------------------------------------------------------------------------------------


def test_the_name_of_the_tool_is_said_once(open_notebook):
    nb = waiting(open_notebook, LAB_7, TWO + "\n" + TWO.replace("make_request()", "make_request(question='Sure?')"))
    assert nb.page.locator(".apnb-card").nth(0).inner_text().count("write_file") == 1
    nb.wait_js(
        "s => document.querySelector('.apnb [aria-live=polite]').textContent === s",
        "2 answers are needed: write_file, delete_file. 2 of 2 waiting.",
    )
    nb.click("Deny all 2")
    nb.wait_visible(nb.page.locator(".apnb-title", has_text="Sure?"))
    assert "write_file" in nb.page.locator(".apnb-card").nth(0).inner_text()
