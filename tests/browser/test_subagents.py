"""The panel for runs inside runs: whoever calls whom, and in whichever form, a click gets through."""

from __future__ import annotations

import pytest
from servers import EVERYWHERE

SETUP = """
from agentperm_nb import Agent, AllowByDefault, DecideByHuman, State
from agentperm_nb.testing import ScriptedModel, tool_call
ran = []
def write(path: str) -> str:
    ran.append(path)
    return f"wrote {path}"
def helper_agent(number=0):
    def replies(messages, tools):
        if messages[-1].results:
            return messages[-1].results[0].content
        return tool_call("write", path=messages[0].text)
    return Agent(tools=[write], name="helper", model=replies, permissions=[DecideByHuman()])
def lead_agent(*tasks, **options):
    calls = [tool_call("helper", prompt=task) for task in tasks]
    return Agent(tools=[helper_agent()], name="lead", model=ScriptedModel([calls, "All done."]),
                 permissions=[AllowByDefault()], **options)
def nested():
    return helper_agent().use_tools([tool_call("write", path="a")]).results[0].content
async def anested():
    return (await helper_agent().ause_tools([tool_call("write", path="a")])).results[0].content
def question():
    return "went to " + Agent(name="asker").ask_human(State(), "Which folder?")
async def aquestion():
    return "went to " + await Agent(name="asker").aask_human(State(), "Which folder?")
def turn_of(tool):
    return Agent(tools=[tool], permissions=[AllowByDefault()]), [tool_call(tool.__name__)]
"""
BLOCKING, AWAITING = "agent.use_tools(calls)", "(await agent.ause_tools(calls))"
everywhere = pytest.mark.parametrize("where", EVERYWHERE, ids=str)


@everywhere
def test_a_call_inside_a_call_is_approved_in_the_panel(open_notebook, where):
    """A subagent, and a tool that asks about calls of another agent, each in both forms of a turn."""
    cells = [
        "print(lead_agent('a').run('Go'), ran)",
        "print(await lead_agent('a').arun('Go'), ran)",
        *[
            f"agent, calls = turn_of({tool})\nprint({turn}.results[0].content, ran)"
            for tool in ("nested", "anested")
            for turn in (BLOCKING, AWAITING)
        ],
    ]
    nb = open_notebook([SETUP, *cells, "print('behind')"], where)
    nb.run_all()
    for number in range(1, 1 + len(cells)):
        nb.wait_button("Approve")
        nb.page.wait_for_timeout(450)
        nb.click("Approve")
        nb.wait_output(number, f"{['a'] * number}")
    nb.wait_output(1 + len(cells), "behind")
    nb.wait_idle()


@everywhere
def test_a_tool_that_asks_a_question_gets_its_answer(open_notebook, where):
    cells = [
        f"agent, calls = turn_of({tool})\nprint({turn}.results[0].content)"
        for tool in ("question", "aquestion")
        for turn in (BLOCKING, AWAITING)
    ]
    nb = open_notebook([SETUP, *cells, "print('behind')"], where)
    nb.run_all()
    for number in range(1, 1 + len(cells)):
        field = nb.page.locator(".apnb input[type=text], .apnb textarea").first
        field.wait_for(timeout=30_000)
        nb.page.wait_for_timeout(450)
        field.fill(f"attic {number}")
        nb.click("Send")
        nb.wait_output(number, f"went to attic {number}")
    nb.wait_output(1 + len(cells), "behind")
    nb.wait_idle()


@everywhere
def test_an_interrupt_ends_what_waits_inside_a_blocking_turn(open_notebook, where):
    cell = "lead = lead_agent('a')\nlead.run('Go')"
    nb = open_notebook([SETUP, cell, "print('after', ran)"], where)
    nb.run(0)
    nb.run(1)
    nb.wait_button("Approve")
    nb.interrupt()
    nb.wait_output(1, "not answered: the wait was cancelled")
    nb.wait_output(1, "KeyboardInterrupt")
    nb.wait_idle()
    nb.run(2)
    nb.wait_output(2, "after []")
    nb.wait_js("() => !document.querySelector('.apnb [data-action=approve]')", what="the end of the panel")
    nb.wait_idle()
