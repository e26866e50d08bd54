"""The panel for runs inside runs: whoever calls whom, and in whichever form, a click gets through."""

from __future__ import annotations

import pytest
from driver import PATIENCE
from servers import EVERYWHERE

SETUP = (
    PATIENCE
    + """
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
)
everywhere = pytest.mark.parametrize("where", EVERYWHERE, ids=str)


@everywhere
@pytest.mark.parametrize("cell", ["lead.run('Go')", "await lead.arun('Go')"], ids=["blocking", "awaiting"])
def test_a_call_of_a_subagent_is_approved_in_the_panel(open_notebook, where, cell):
    nb = open_notebook([SETUP, f"lead = lead_agent('a')\nprint({cell}, ran)", "print('behind')"], where)
    nb.run(0)
    nb.run(1)
    nb.run(2)
    nb.click("Approve")
    nb.wait_output(1, "All done. ['a']")
    nb.wait_output(2, "behind")
    nb.wait_idle()


@everywhere
@pytest.mark.parametrize(
    "cell",
    [
        "print(agent.use_tools(calls).results[0].content)",
        "print((await agent.ause_tools(calls)).results[0].content)",
    ],
    ids=["in a blocking turn", "in an awaiting turn"],
)
@pytest.mark.parametrize("tool", ["nested", "anested"])
def test_a_tool_that_asks_about_calls_of_another_agent_gets_its_answer(open_notebook, where, cell, tool):
    nb = open_notebook([SETUP, f"agent, calls = turn_of({tool})\n{cell}", "print('behind')"], where)
    nb.run(0)
    nb.run(1)
    nb.run(2)
    nb.click("Approve")
    nb.wait_output(1, "wrote a")
    nb.wait_output(2, "behind")
    nb.wait_idle()


@pytest.mark.states("X9")
@everywhere
@pytest.mark.parametrize(
    "cell",
    [
        "print(agent.use_tools(calls).results[0].content)",
        "print((await agent.ause_tools(calls)).results[0].content)",
    ],
    ids=["in a blocking turn", "in an awaiting turn"],
)
@pytest.mark.parametrize("tool", ["question", "aquestion"])
def test_a_tool_that_asks_a_question_gets_its_answer(open_notebook, where, cell, tool):
    nb = open_notebook([SETUP, f"agent, calls = turn_of({tool})\n{cell}", "print('behind')"], where)
    nb.run(0)
    nb.run(1)
    nb.run(2)
    field = nb.page.locator(".apnb input[type=text], .apnb textarea").first
    nb.wait_visible(field, what="a field for the answer").fill("attic")
    nb.click("Send")
    nb.wait_output(1, "went to attic")
    nb.wait_output(2, "behind")
    nb.wait_idle()


@everywhere
@pytest.mark.parametrize("cell", ["lead.run('Go')", "await lead.arun('Go')"], ids=["blocking", "awaiting"])
def test_calls_of_parallel_subagents_are_approved_in_panels_of_their_own(open_notebook, where, cell):
    cell = f"lead = lead_agent('a', 'b', 'c')\nprint({cell}, sorted(ran))"
    nb = open_notebook([SETUP, cell, "print('behind')"], where)
    count = "n => document.querySelectorAll('.apnb [data-action=approve]').length === n"
    nb.run(0)
    nb.run(1)
    nb.run(2)
    nb.wait_js(count, 3, what="three panels")
    for left in (2, 1, 0):
        nb.click("Approve")
        nb.wait_js(count, left, what=f"{left} panels")
    nb.wait_output(1, "All done. ['a', 'b', 'c']")
    nb.wait_output(2, "behind")
    nb.wait_idle()


@everywhere
def test_an_interrupt_ends_what_waits_inside_a_blocking_turn(open_notebook, where):
    nb = open_notebook([SETUP, "lead = lead_agent('a')\nlead.run('Go')", "print('after', ran)"], where)
    nb.run(0)
    nb.run(1)
    nb.wait_button("Approve")
    nb.interrupt()
    nb.wait_output(1, "not answered: the wait was cancelled")
    nb.wait_output(1, "KeyboardInterrupt")
    nb.wait_idle()
    nb.run(2)
    nb.wait_output(2, "after []")
    nb.wait_no(".apnb [data-action=approve]")
    nb.wait_idle()
