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
