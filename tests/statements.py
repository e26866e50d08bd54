"""The published behaviour of the permission list of alpineagents 0.7.1, statement by statement, in our own words.

A test that shows a statement names it: ``@pytest.mark.states("A1", "A2")``. `test_statements.py` checks that every
statement that is kept has a test, that every marker names a statement, and that every statement in which we differ
points to its row of docs/differences.md.
"""

from __future__ import annotations

from typing import NamedTuple

import pytest

__all__ = ["COLLECTED", "NOT_YET", "ROWS_NOT_YET", "STATEMENTS", "Statement"]

COLLECTED = pytest.StashKey[list[pytest.Item]]()
"""All tests of a run, those too that it then leaves out; kept by the conftest."""


class Statement(NamedTuple):
    text: str
    status: str
    """``kept``, or ``different``."""
    row: str = ""
    """Of one that is different: the subject of its row in docs/differences.md."""


def _kept(text: str) -> Statement:
    return Statement(text, "kept")


def _different(text: str, row: str) -> Statement:
    return Statement(text, "different", row)


STATEMENTS: dict[str, Statement] = {
    # --- A: verdicts
    "A1": _kept("An Allowed takes no arguments."),
    "A2": _kept("All Allowed are equal, with one hash, true, and shown as Allowed()."),
    "A3": _kept("A Denied takes a reason and stop=, by place or name; the reason is required; its repr shows both."),
    "A4": _kept("Denials are equal by reason and stop, and only within one class."),
    "A5": _kept("A verdict is frozen."),
    "A6": _kept("A reason that is no string is a TypeError."),
    "A7": _kept("A blank reason is a ValueError; a padded one is kept as it is."),
    "A8": _kept("stop= is a bool and nothing that only looks like one."),
    "A9": _kept("The type of the reason is checked first, then its words, then stop."),
    "A10": _kept("Verdicts survive pickling."),
    "A11": _kept("An object of a subclass of a verdict is that verdict."),
    # --- B: kinds
    "B1": _kept("A class is checked when an object is made of it, not when it is defined."),
    "B2": _kept("A permission of no kind is a TypeError."),
    "B3": _kept("A permission of several kinds is a TypeError that lists them in a fixed order."),
    "B4": _kept("A permission that overrides neither check nor acheck is a TypeError."),
    "B5": _kept("The kind is checked first, then check and acheck, then whether the class is abstract."),
    "B6": _different("A check that is None counts as overridden.", "`async def check`, or `acheck` without `async`"),
    "B7": _kept("A constructor may take anything, and need not call the one above."),
    "B8": _kept("By default a permission is shown by the name of its class, without its arguments."),
    "B9": _kept("A permission equals itself only, and can be hashed."),
    "B10": _kept("check of a permission that has only acheck is a TypeError."),
    "B11": _different(
        "acheck of a permission that has only check runs it on a new thread, with a copy of the context.",
        "threads for checks in the async form",
    ),
    # --- C: what a kind may say
    "C1": _different("A deny denies or has no opinion, an allow allows or has none, a decide does either.", "verdicts"),
    "C2": _different("Anything else is a TypeError that says what the kind may return.", "verdicts"),
    "C3": _kept("Only None is no opinion: no other false value is, and neither is a class or a coroutine."),
    "C4": _kept("The example of that error shows an allow how to allow, and never how to deny."),
    "C5": _different(
        "After that error the call is pending, no tool has run, and the history names the call.",
        "a permission that raises, or says what it may not",
    ),
    # --- D: built-ins without a person
    "D1": _different(
        "Patterns are any iterable of strings but a string, kept as a tuple.", "an empty list of patterns"
    ),
    "D2": _different(
        "A string or no iterable is a TypeError, and so is a pattern that is no string.", "patterns given as bytes"
    ),
    "D3": _kept("The reason of a DenyByName is a string that says something; the patterns are checked before it."),
    "D4": _different("Names match patterns exactly, case included, and as a whole.", "case in deny patterns"),
    "D5": _kept("What is matched is the name that the model calls: server__tool for a tool of a server."),
    "D6": _kept("A match denies with the reason, or with '<name> is not allowed.', or allows; else no opinion."),
    "D7": _kept("Their reprs show the patterns as a list, the reason if there is one, and a subclass's own name."),
    "D8": _kept("Patterns and reason are attributes; assigning them changes the behaviour."),
    "D9": _kept("trust_mcp= of AllowByReadOnly is a bool."),
    "D10": _kept("AllowByReadOnly allows what the hints call read-only; hints of a server count when trusted."),
    "D11": _kept("What hints_for raises is treated as raised by the permission."),
    "D12": _kept("The repr of AllowByReadOnly shows trust_mcp when it is on, and a subclass's own name."),
    "D13": _kept("AllowByDefault allows every call."),
    "D14": _kept("check of every built-in can be called by hand."),
    # --- E: a person decides
    "E1": _kept("DecideByHuman takes an object that has ask or aask, or nothing; a class is none."),
    "E2": _kept("Its repr shows the human without an address, and a subclass's own name."),
    "E3": _different("The question is 'Run <call>?', and may be put in other words.", "arguments in texts"),
    "E4": _different("The human is asked once a call, for yes or no.", "`DecideByHuman`"),
    "E5": _different("Only 'yes' allows; anything else denies and stops the turn.", "`DecideByHuman`"),
    "E6": _different(
        "Question and raw answer are in the history of the run before the answer is used.", "`DecideByHuman`"
    ),
    "E7": _kept("Asked is the permission's own human, else that of the run that wrote the list, else the agent's."),
    "E8": _kept("By hand, on a state that no agent has had, it is a ValueError."),
    "E9": _different("With nobody to ask it is a NoHumanError.", "who is asked by default"),
    "E10": _kept("A human that only has aask is a TypeError in the sync form."),
    "E11": _different(
        "The async form awaits aask on the event loop, and runs an ask on a worker thread.", "`DecideByHuman`"
    ),
    "E12": _kept("A subclass with a check is asked through it in both forms; one with only an acheck in one."),
    "E13": _kept("One permission in several agents asks the human of each."),
    "E14": _kept("A ToolError of the human denies the call; what else it raises goes to the caller."),
    # --- F: the setting of an agent
    "F1": _different(
        "permissions= left out or None means no checks; a list is kept as a tuple.", "`permissions=` left out"
    ),
    "F2": _different(
        "What is no list is a TypeError, and so is an item that is no permission.",
        "one permission instead of a list",
    ),
    "F3": _different("agent.permissions is the tuple, an empty one for None too.", "`permissions=` left out"),
    "F4": _kept("A copy of an agent keeps its permissions, or takes those that are given."),
    "F5": _different(
        "human= is the terminal by default, nobody when None, else a Human object.", "who is asked by default"
    ),
    # --- G: checks before a run
    "G1a": _kept("A run in the sync form with a permission that is async only is a TypeError."),
    "G1b": _different("A run with a DecideByHuman and nobody to ask is a NoHumanError.", "who is asked by default"),
    "G1c": _kept("A run in the sync form that would ask a human that has only aask is a TypeError."),
    "G2": _kept("The async form of a run is checked for a human only."),
    # --- H: a turn
    "H1": _different("use_tools takes a state with pending calls, and returns nothing.", "`use_tools`"),
    "H2": _kept("The sync forms are a TypeError on the thread of the event loop of an async run."),
    "H3": _kept("A turn links the state to the agent."),
    "H4": _kept("First input errors, then all permissions, then what was recorded is saved, then the tools run."),
    "H5": _kept("An unknown tool is an input error that lists the tools; no permission is asked."),
    "H6": _kept("Arguments that could not be read are an input error; no permission is asked."),
    "H7": _different("Arguments are checked against the schema when the tool runs.", "arguments"),
    "H8": _kept("A call that has its result is never asked about again."),
    "H9": _kept("Neither a tool nor a permission nor a human is cut off after a time of nobody's choosing."),
    # --- I: the check phase
    "I1": _different("Calls are checked one after the other, in request order.", "several questions in a turn"),
    "I2": _kept("Deny permissions come first, wherever they stand; the first denial decides."),
    "I3": _kept("Then the other permissions in list order; the first verdict decides, and no more are asked."),
    "I4": _kept("A check is given the state of the run, the call with frozen arguments, and the tool."),
    "I5": _kept("In a check, allowed calls are still pending, and denied ones are not."),
    "I6": _kept("A check may add a message, which waits for the results, and may finish the state."),
    "I7": _different("The async form asks in the same order, one after the other.", "several questions in a turn"),
    "I8": _kept("A check on a worker thread sees the context variables of the caller."),
    # --- J: nobody decides
    "J1": _kept("A call that nobody decides is denied, with a fixed text and nobody's name."),
    "J2": _kept("A PermissionWarning names the tool and says how to allow what nothing denies."),
    "J3": _different(
        "The warning is shown once, at a line of the library.", "the `PermissionWarning` for a call nobody decided"
    ),
    "J4": _different(
        "A warning made an error leaves the call without a result.", "a `PermissionWarning` made an error"
    ),
    "J5": _kept("The run goes on; an empty list denies every call this way."),
    # --- K: exceptions of permissions
    "K1": _kept("A ToolError in a check denies that call with its message; no more permissions are asked."),
    "K2": _kept("The error is in the outcome and in the history, with the permission's name."),
    "K3": _kept("A ToolInputError in a check is no such denial."),
    "K4": _different(
        "Any other exception ends the turn with a note that names permission and call; what has no result is pending.",
        "a permission that raises, or says what it may not",
    ),
    "K5": _kept("An interrupt in a check has no note and closes the calls as interrupted; SystemExit aborts them."),
    "K6": _kept("A failure never allows."),
    "K7": _different("A repr that raises ends the turn.", "a permission whose repr raises"),
    "K8": _different("A StopIteration in a check hangs the async form.", "a check that raises `StopIteration`"),
    # --- L: denied
    "L1": _kept("A denied call does not run; its reason is an error result, and the others go on."),
    "L2": _kept("It is one entry in the history, with the outcome denied."),
    "L3": _kept("The results of a turn become one message, in request order, when the last one is there."),
    # --- M: denied and stopped
    "M1": _kept("A stop denies its call and cancels every call that has no result, approved ones too, as one step."),
    "M2": _kept("Nothing after it is asked about and nothing runs; what had its result keeps it."),
    "M3": _kept("state.stopped names call and permission at once; the state is not finished."),
    "M4": _kept("The reporter is told when everything is recorded, in order."),
    "M5": _kept("The turn and the run return normally; a loop takes no other turn."),
    "M6": _kept("A finish() that came before wins; one that comes after replaces the stop."),
    "M7": _kept("The next run starts afresh, and the model sees the results."),
    "M8": _kept("A run that ends in an exception is not stopped by a permission."),
    "M9": _kept("StoppedByPermission is frozen and says who stopped."),
    "M10": _kept("No other thread gets an entry in between."),
    # --- N: running the allowed calls
    "N1": _kept("Parallel tools run at the same time, at most 32; then the others one by one."),
    "N2": _kept("Starts are reported in request order, ends as they come, on the caller's thread."),
    "N3": _kept("A tool is given a copy of the arguments that it may change."),
    "N4": _different(
        "A result is text, images, or JSON; what is none of them is an error.", "results that JSON has no form for"
    ),
    "N5": _kept("A ToolError is an error result, a ToolInputError an input error."),
    "N6": _different("Any other exception of a tool ends the turn.", "a tool that raises"),
    "N7": _different(
        "An interrupt keeps what is finished; a later result is shown to the model.",
        "what a tool returns after its turn was interrupted",
    ),
    "N8": _kept("What the permissions and the person said is saved before the first tool starts."),
    "N9": _different("Nothing says which permission allowed a call.", "`decided_by`"),
    # --- O: async
    "O1": _kept("Async tools run on the event loop, sync ones on threads; the sync form gives an async tool a loop."),
    "O2": _kept("A cancellation reaches a waiting acheck; the calls left are closed as interrupted."),
    "O3": _different(
        "An answer that comes after a cancellation is dropped.", "an answer that comes after its turn was cancelled"
    ),
    "O4": _kept("The sync form uses check, the async form acheck."),
    # --- P: the Human protocol
    "P1": _kept("A Human has ask, aask, or both; a class with neither is a TypeError when an object is made."),
    "P2": _kept("An answer is asked for as str, bool or a Literal; a permission asks for yes or no."),
    "P3": _kept("By default aask runs ask on a worker thread, and ask is a TypeError."),
    "P4": _kept("A Human asks until the answer fits and does not change the state; agents may ask at the same time."),
    "P5": _kept("parse_answer turns what was typed into what was asked for, or says what would do."),
    "P6": _kept("The state tells whose question it is, a subagent's too."),
    # --- Q: asking a person by hand
    "Q1": _kept("ask_human checks state, human and what is asked for; it works on finished states too."),
    "Q2": _kept("It records question and answer, and returns the answer unchanged."),
    "Q3": _kept("The sync form cannot ask a human that has only aask; the async form prefers aask."),
    # --- R: the terminal, and doubles
    "R1": _different(
        "The terminal shows the question with its choices, and asks until the answer fits.", "arguments in texts"
    ),
    "R2": _different("The terminal can be given other ways of reading and writing.", "the terminal"),
    "R3": _kept("A reporter that prints has a line for a denied call, a cancelled one, and the end of the run."),
    "R4": _different("In a notebook the terminal asks through the kernel's input.", "who is asked by default"),
    "R5": _kept("There are doubles for the human, the model and calls."),
    # --- S: data
    "S1": _kept("A ToolCall is frozen, its arguments too; it is hashed by its id and equal by its fields."),
    "S2": _kept("format_call shows a call with its arguments as JSON, and cuts nothing."),
    "S3": _kept("An outcome has one of seven kinds; a text is converted, an unknown one is a ValueError."),
    "S4": _different(
        "decided_by is the permission of a denied or cancelled call, and nobody of any other.", "`decided_by`"
    ),
    "S5": _kept("A result in the history has its content, call, outcome, error, turn and time."),
    "S6": _kept("A state has ids, history, messages, pending calls, turn, stop, answer and data."),
    "S7": _kept("A Tool has a name, a schema, hints, and whether it may run beside others."),
    "S8": _kept("Hints are keyword only, worst case by default, and refuse contradictions."),
    "S9": _kept("hints_for gives the hints of one call, None meaning the tool's own."),
    "S10": _kept("A tool of a server is named server__tool, and its hints are the server's."),
    "S11": _kept("A ToolError takes a message that says something."),
    # --- V: subagents
    "V1": _kept("A run started inside a tool call is a subagent of that run."),
    "V2": _kept("It is bound by the denies of all runs above and by its own list, or else by the list above."),
    "V3": _kept("What allows or decides above does not bind a subagent with a list of its own."),
    "V4": _kept("A subagent with an empty list is denied everything."),
    "V5": _kept("Another agent used inside a subagent's run is bound by the same denies."),
    "V6": _kept("agent.permissions is its own list; decided_by names a permission wherever it was written."),
    "V7": _kept("A permission asks the human of the run that wrote it."),
    "V8": _kept("The answer is in the subagent's history; a refusal stops the subagent only."),
    "V9": _different(
        "What fails before a subagent starts stops the run above; what fails later is an error result.",
        "a subagent that cannot start, because there is nobody whom it could ask",
    ),
    "V10": _kept("A subagent as a tool has worst-case hints."),
    # --- W: texts
    "W": _kept("The texts that the model reads are fixed."),
    # --- X: what is not to be copied
    "X1": _different("Calls of one id in a turn get each other's results.", "two calls of one id in a turn"),
    "X2": _different("A StopIteration in a check hangs the async form.", "a check that raises `StopIteration`"),
    "X3": _different(
        "Every rule starts a thread for every call in the async form.", "threads for checks in the async form"
    ),
    "X4": _different(
        "A warning made an error, or a repr that raises, leaves the call without a name.",
        "a `PermissionWarning` made an error",
    ),
    "X5": _different(
        "A check that is None or async is not found before the first call.",
        "`async def check`, or `acheck` without `async`",
    ),
    "X6": _different("Patterns given as bytes are called a number.", "patterns given as bytes"),
    "X7": _different(
        "An answer that comes after a cancellation is lost.", "an answer that comes after its turn was cancelled"
    ),
    "X8": _different("A reporter that raises leaves calls unchecked.", "a reporter that raises"),
    "X9": _different(
        "A human that waits for a button never gets the click in the sync form.",
        "a button under a running cell, in the sync form",
    ),
}

NOT_YET: set[str] = set()
"""Kept statements that no test names yet. One that has a test is to be taken off."""

ROWS_NOT_YET: set[str] = set()
"""Rows that docs/differences.md does not have yet. One that is there is to be taken off."""
