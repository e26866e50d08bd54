"""The published behaviour of the permission list of alpineagents 0.7.1, statement by statement, in our own words.

A test that shows a statement names it: ``@pytest.mark.states("A1", "A2")``. `test_statements.py` checks that every
statement that is kept has a test, that every marker names a statement, and that every statement in which we differ
points to its row of docs/differences.md.
"""

from __future__ import annotations

from typing import NamedTuple

import pytest

__all__ = ["COLLECTED", "NOT_YET", "ROWS_NOT_YET", "STATEMENTS", "Statement", "different", "kept"]

COLLECTED = pytest.StashKey[list[pytest.Item]]()
"""All tests of a run, those too that it then leaves out; kept by the conftest."""


class Statement(NamedTuple):
    text: str
    status: str
    """``kept``, or ``different``."""
    row: str = ""
    """Of one that is different: the subject of its row in docs/differences.md."""


def kept(text: str) -> Statement:
    return Statement(text, "kept")


def different(text: str, row: str) -> Statement:
    return Statement(text, "different", row)


STATEMENTS: dict[str, Statement] = {
    # --- A: verdicts
    "A1": kept("An Allowed takes no arguments."),
    "A2": kept("All Allowed are equal, with one hash, true, and shown as Allowed()."),
    "A3": kept("A Denied takes a reason and stop=, by place or name; the reason is required; its repr shows both."),
    "A4": kept("Denials are equal by reason and stop, and only within one class."),
    "A5": kept("A verdict is frozen."),
    "A6": kept("A reason that is no string is a TypeError."),
    "A7": kept("A blank reason is a ValueError; a padded one is kept as it is."),
    "A8": kept("stop= is a bool and nothing that only looks like one."),
    "A9": kept("The type of the reason is checked first, then its words, then stop."),
    "A10": kept("Verdicts survive pickling."),
    "A11": kept("An object of a subclass of a verdict is that verdict."),
    # --- B: kinds
    "B1": kept("A class is checked when an object is made of it, not when it is defined."),
    "B2": kept("A permission of no kind is a TypeError."),
    "B3": kept("A permission of several kinds is a TypeError that lists them in a fixed order."),
    "B4": kept("A permission that overrides neither check nor acheck is a TypeError."),
    "B5": kept("The kind is checked first, then check and acheck, then whether the class is abstract."),
    "B6": different("A check that is None counts as overridden.", "`async def check`, or `acheck` without `async`"),
    "B7": kept("A constructor may take anything, and need not call the one above."),
    "B8": kept("By default a permission is shown by the name of its class, without its arguments."),
    "B9": kept("A permission equals itself only, and can be hashed."),
    "B10": kept("check of a permission that has only acheck is a TypeError."),
    "B11": different(
        "acheck of a permission that has only check runs it on a new thread, with a copy of the context.",
        "threads for checks in the async form",
    ),
    # --- C: what a kind may say
    "C1": different("A deny denies or has no opinion, an allow allows or has none, a decide does either.", "verdicts"),
    "C2": different("Anything else is a TypeError that says what the kind may return.", "verdicts"),
    "C3": kept("Only None is no opinion: no other false value is, and neither is a class or a coroutine."),
    "C4": kept("The example of that error shows an allow how to allow, and never how to deny."),
    "C5": different(
        "After that error the call is pending, no tool has run, and the history names the call.",
        "a permission that raises, or says what it may not",
    ),
    # --- D: built-ins without a person
    "D1": different("Patterns are any iterable of strings but a string, kept as a tuple.", "an empty list of patterns"),
    "D2": different(
        "A string or no iterable is a TypeError, and so is a pattern that is no string.", "patterns given as bytes"
    ),
    "D3": kept("The reason of a DenyByName is a string that says something; the patterns are checked before it."),
    "D4": different("Names match patterns exactly, case included, and as a whole.", "case in deny patterns"),
    "D5": kept("What is matched is the name that the model calls: server__tool for a tool of a server."),
    "D6": kept("A match denies with the reason, or with '<name> is not allowed.', or allows; else no opinion."),
    "D7": kept("Their reprs show the patterns as a list, the reason if there is one, and a subclass's own name."),
    "D8": kept("Patterns and reason are attributes; assigning them changes the behaviour."),
    "D9": kept("trust_mcp= of AllowByReadOnly is a bool."),
    "D10": kept("AllowByReadOnly allows what the hints call read-only; hints of a server count when trusted."),
    "D11": kept("What hints_for raises is treated as raised by the permission."),
    "D12": kept("The repr of AllowByReadOnly shows trust_mcp when it is on, and a subclass's own name."),
    "D13": kept("AllowByDefault allows every call."),
    "D14": kept("check of every built-in can be called by hand."),
    # --- E: a person decides
    "E1": kept("DecideByHuman takes an object that has ask or aask, or nothing; a class is none."),
    "E2": kept("Its repr shows the human without an address, and a subclass's own name."),
    "E3": different("The question is 'Run <call>?', and may be put in other words.", "arguments in texts"),
    "E4": different("The human is asked once a call, for yes or no.", "`DecideByHuman`"),
    "E5": different("Only 'yes' allows; anything else denies and stops the turn.", "`DecideByHuman`"),
    "E6": different(
        "Question and raw answer are in the history of the run before the answer is used.", "`DecideByHuman`"
    ),
    "E7": kept("Asked is the permission's own human, else that of the run that wrote the list, else the agent's."),
    "E8": kept("By hand, on a state that no agent has had, it is a ValueError."),
    "E9": different("With nobody to ask it is a NoHumanError.", "who is asked by default"),
    "E10": kept("A human that only has aask is a TypeError in the sync form."),
    "E11": different(
        "The async form awaits aask on the event loop, and runs an ask on a worker thread.", "`DecideByHuman`"
    ),
    "E12": kept("A subclass with a check is asked through it in both forms; one with only an acheck in one."),
    "E13": kept("One permission in several agents asks the human of each."),
    "E14": kept("A ToolError of the human denies the call; what else it raises goes to the caller."),
    # --- F: the setting of an agent
    "F1": different(
        "permissions= left out or None means no checks; a list is kept as a tuple.", "`permissions=` left out"
    ),
    "F2": different(
        "What is no list is a TypeError, and so is an item that is no permission.",
        "one permission instead of a list",
    ),
    "F3": different("agent.permissions is the tuple, an empty one for None too.", "`permissions=` left out"),
    "F4": kept("A copy of an agent keeps its permissions, or takes those that are given."),
    "F5": different(
        "human= is the terminal by default, nobody when None, else a Human object.", "who is asked by default"
    ),
    # --- G: checks before a run
    "G1a": kept("A run in the sync form with a permission that is async only is a TypeError."),
    "G1b": different("A run with a DecideByHuman and nobody to ask is a NoHumanError.", "who is asked by default"),
    "G1c": kept("A run in the sync form that would ask a human that has only aask is a TypeError."),
    "G2": kept("The async form of a run is checked for a human only."),
    # --- H: a turn
    "H1": different("use_tools takes a state with pending calls, and returns nothing.", "`use_tools`"),
    "H2": kept("The sync forms are a TypeError on the thread of the event loop of an async run."),
    "H3": kept("A turn links the state to the agent."),
    "H4": kept("First input errors, then all permissions, then what was recorded is saved, then the tools run."),
    "H5": kept("An unknown tool is an input error that lists the tools; no permission is asked."),
    "H6": kept("Arguments that could not be read are an input error; no permission is asked."),
    "H7": different("Arguments are checked against the schema when the tool runs.", "arguments"),
    "H8": kept("A call that has its result is never asked about again."),
    "H9": kept("Neither a tool nor a permission nor a human is cut off after a time of nobody's choosing."),
    # --- I: the check phase
    "I1": different("Calls are checked one after the other, in request order.", "several questions in a turn"),
    "I2": kept("Deny permissions come first, wherever they stand; the first denial decides."),
    "I3": kept("Then the other permissions in list order; the first verdict decides, and no more are asked."),
    "I4": kept("A check is given the state of the run, the call with frozen arguments, and the tool."),
    "I5": kept("In a check, allowed calls are still pending, and denied ones are not."),
    "I6": kept("A check may add a message, which waits for the results, and may finish the state."),
    "I7": different("The async form asks in the same order, one after the other.", "several questions in a turn"),
    "I8": kept("A check on a worker thread sees the context variables of the caller."),
    # --- J: nobody decides
    "J1": kept("A call that nobody decides is denied, with a fixed text and nobody's name."),
    "J2": kept("A PermissionWarning names the tool and says how to allow what nothing denies."),
    "J3": different(
        "The warning is shown once, at a line of the library.", "the `PermissionWarning` for a call nobody decided"
    ),
    "J4": different("A warning made an error leaves the call without a result.", "a `PermissionWarning` made an error"),
    "J5": kept("The run goes on; an empty list denies every call this way."),
    # --- K: exceptions of permissions
    "K1": kept("A ToolError in a check denies that call with its message; no more permissions are asked."),
    "K2": kept("The error is in the outcome and in the history, with the permission's name."),
    "K3": kept("A ToolInputError in a check is no such denial."),
    "K4": different(
        "Any other exception ends the turn with a note that names permission and call; what has no result is pending.",
        "a permission that raises, or says what it may not",
    ),
    "K5": kept("An interrupt in a check has no note and closes the calls as interrupted; SystemExit aborts them."),
    "K6": kept("A failure never allows."),
    "K7": different("A repr that raises ends the turn.", "a permission whose repr raises"),
    "K8": different("A StopIteration in a check hangs the async form.", "a check that raises `StopIteration`"),
    # --- L: denied
    "L1": kept("A denied call does not run; its reason is an error result, and the others go on."),
    "L2": kept("It is one entry in the history, with the outcome denied."),
    "L3": kept("The results of a turn become one message, in request order, when the last one is there."),
    # --- M: denied and stopped
    "M1": kept("A stop denies its call and cancels every call that has no result, approved ones too, as one step."),
    "M2": kept("Nothing after it is asked about and nothing runs; what had its result keeps it."),
    "M3": kept("state.stopped names call and permission at once; the state is not finished."),
    "M4": kept("The reporter is told when everything is recorded, in order."),
    "M5": kept("The turn and the run return normally; a loop takes no other turn."),
    "M6": kept("A finish() that came before wins; one that comes after replaces the stop."),
    "M7": kept("The next run starts afresh, and the model sees the results."),
    "M8": kept("A run that ends in an exception is not stopped by a permission."),
    "M9": kept("StoppedByPermission is frozen and says who stopped."),
    "M10": kept("No other thread gets an entry in between."),
    # --- N: running the allowed calls
    "N1": kept("Parallel tools run at the same time, at most 32; then the others one by one."),
    "N2": kept("Starts are reported in request order, ends as they come, on the caller's thread."),
    "N3": kept("A tool is given a copy of the arguments that it may change."),
    "N4": different(
        "A result is text, images, or JSON; what is none of them is an error.", "results that JSON has no form for"
    ),
    "N5": kept("A ToolError is an error result, a ToolInputError an input error."),
    "N6": different("Any other exception of a tool ends the turn.", "a tool that raises"),
    "N7": different(
        "An interrupt keeps what is finished; a later result is shown to the model.",
        "what a tool returns after its turn was interrupted",
    ),
    "N8": kept("What the permissions and the person said is saved before the first tool starts."),
    "N9": different("Nothing says which permission allowed a call.", "`decided_by`"),
    # --- O: async
    "O1": kept("Async tools run on the event loop, sync ones on threads; the sync form gives an async tool a loop."),
    "O2": kept("A cancellation reaches a waiting acheck; the calls left are closed as interrupted."),
    "O3": different(
        "An answer that comes after a cancellation is dropped.", "an answer that comes after its turn was cancelled"
    ),
    "O4": kept("The sync form uses check, the async form acheck."),
    # --- P: the Human protocol
    "P1": kept("A Human has ask, aask, or both; a class with neither is a TypeError when an object is made."),
    "P2": kept("An answer is asked for as str, bool or a Literal; a permission asks for yes or no."),
    "P3": kept("By default aask runs ask on a worker thread, and ask is a TypeError."),
    "P4": kept("A Human asks until the answer fits and does not change the state; agents may ask at the same time."),
    "P5": kept("parse_answer turns what was typed into what was asked for, or says what would do."),
    "P6": kept("The state tells whose question it is, a subagent's too."),
    # --- Q: asking a person by hand
    "Q1": kept("ask_human checks state, human and what is asked for; it works on finished states too."),
    "Q2": kept("It records question and answer, and returns the answer unchanged."),
    "Q3": kept("The sync form cannot ask a human that has only aask; the async form prefers aask."),
    # --- R: the terminal, and doubles
    "R1": different(
        "The terminal shows the question with its choices, and asks until the answer fits.", "arguments in texts"
    ),
    "R2": different("The terminal can be given other ways of reading and writing.", "the terminal"),
    "R3": kept("A reporter that prints has a line for a denied call, a cancelled one, and the end of the run."),
    "R4": different("In a notebook the terminal asks through the kernel's input.", "who is asked by default"),
    "R5": kept("There are doubles for the human, the model and calls."),
    # --- S: data
    "S1": kept("A ToolCall is frozen, its arguments too; it is hashed by its id and equal by its fields."),
    "S2": kept("format_call shows a call with its arguments as JSON, and cuts nothing."),
    "S3": kept("An outcome has one of seven kinds; a text is converted, an unknown one is a ValueError."),
    "S4": different(
        "decided_by is the permission of a denied or cancelled call, and nobody of any other.", "`decided_by`"
    ),
    "S5": kept("A result in the history has its content, call, outcome, error, turn and time."),
    "S6": kept("A state has ids, history, messages, pending calls, turn, stop, answer and data."),
    "S7": kept("A Tool has a name, a schema, hints, and whether it may run beside others."),
    "S8": kept("Hints are keyword only, worst case by default, and refuse contradictions."),
    "S9": kept("hints_for gives the hints of one call, None meaning the tool's own."),
    "S10": kept("A tool of a server is named server__tool, and its hints are the server's."),
    "S11": kept("A ToolError takes a message that says something."),
    # --- V: subagents
    "V1": kept("A run started inside a tool call is a subagent of that run."),
    "V2": kept("It is bound by the denies of all runs above and by its own list, or else by the list above."),
    "V3": kept("What allows or decides above does not bind a subagent with a list of its own."),
    "V4": kept("A subagent with an empty list is denied everything."),
    "V5": kept("Another agent used inside a subagent's run is bound by the same denies."),
    "V6": kept("agent.permissions is its own list; decided_by names a permission wherever it was written."),
    "V7": kept("A permission asks the human of the run that wrote it."),
    "V8": kept("The answer is in the subagent's history; a refusal stops the subagent only."),
    "V9": different(
        "What fails before a subagent starts stops the run above; what fails later is an error result.",
        "a subagent that cannot start, because there is nobody whom it could ask",
    ),
    "V10": kept("A subagent as a tool has worst-case hints."),
    # --- W: texts
    "W": kept("The texts that the model reads are fixed."),
    # --- X: what is not to be copied
    "X1": different("Calls of one id in a turn get each other's results.", "two calls of one id in a turn"),
    "X2": different("A StopIteration in a check hangs the async form.", "a check that raises `StopIteration`"),
    "X3": different(
        "Every rule starts a thread for every call in the async form.", "threads for checks in the async form"
    ),
    "X4": different(
        "A warning made an error, or a repr that raises, leaves the call without a name.",
        "a `PermissionWarning` made an error",
    ),
    "X5": different(
        "A check that is None or async is not found before the first call.",
        "`async def check`, or `acheck` without `async`",
    ),
    "X6": different("Patterns given as bytes are called a number.", "patterns given as bytes"),
    "X7": different(
        "An answer that comes after a cancellation is lost.", "an answer that comes after its turn was cancelled"
    ),
    "X8": different("A reporter that raises leaves calls unchecked.", "a reporter that raises"),
    "X9": different(
        "A human that waits for a button never gets the click in the sync form.",
        "a button under a running cell, in the sync form",
    ),
}

NOT_YET: set[str] = set()
"""Kept statements that no test names yet. One that has a test is to be taken off."""

ROWS_NOT_YET: set[str] = set()
"""Rows that docs/differences.md does not have yet. One that is there is to be taken off."""
