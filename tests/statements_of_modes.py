"""The published behaviour of modes, approvals, signals and budgets of loomflow 0.20.0, in our own words.

See `statements`. What is published of hooks, code mode, workers and the audit log is not here: those are not built, or
are built otherwise.
"""

from __future__ import annotations

from statements import Statement, different, kept

__all__ = ["STATEMENTS"]

STATEMENTS: dict[str, Statement] = {
    # --- MA1: modes
    "MA1.1": kept("A mode is one of the texts default, acceptEdits and bypassPermissions."),
    "MA1.2": kept("A decision allows, denies or asks, with a reason; made by allow_, deny_ and ask_; it is frozen."),
    "MA1.3": different(
        "A call has an id, a tool, arguments, perhaps a definition, and a key; it is destructive when that is said.",
        "the call that a check or a handler is given",
    ),
    "MA1.4": kept(
        "Denied tools come first, then the allow-list, then BYPASS, then accepted edits; then what is destructive is "
        "asked about, and the rest allowed. An empty allow-list denies everything; to be in one spares no question."
    ),
    "MA1.5": different(
        "ACCEPT_EDITS allows the tools write and edit, unless others are named.", "`edit_tools=` left out"
    ),
    "MA1.6": different(
        "strict() is the default mode; an agent that is given nothing allows everything.",
        "an agent without `permissions=`",
    ),
    "MA1.7": kept("For each user applies what is said for them, else the default; None may be such a user."),
    "MA1.8": different("A check that takes no user is called again without one.", "a check that takes no `user_id`"),
    "MA1.9": different("What a check raises ends the run.", "a check that raises, or returns no decision"),
    "MA1.10": different("The context of a check is always empty.", "`context` of a check"),
    "MA1.11": different(
        "Words and dicts of a configuration stand for modes; None allows everything, and unknown keys are passed over.",
        "a mode from a configuration",
    ),
    # --- MA2: the way of a call
    "MA2.4": different(
        "The model reads DENIED and a reason: the handler's, else that of the question.",
        "what the model reads of a call that was asked about",
    ),
    "MA2.5": kept("Nobody is asked about a tool that is not there: that is an error for the model."),
    "MA2.6": different(
        "Somebody who is asked takes no time of the tool's, but some of a budget's clock and of a run's timeout.",
        "the time in which somebody is asked",
    ),
    "MA2.7": different(
        "A run that is cancelled while somebody is asked leaves no closing entry in the log.",
        "a turn that is cancelled while somebody is asked",
    ),
    # --- MA3: approval handlers
    "MA3.1": kept("A handler is called with the call and the user; inside, the context of the run is there."),
    "MA3.2": different(
        "A handler may return True or False, the name of an action, or a decision; edit alone allows.",
        '`"edit"` from a handler',
    ),
    "MA3.3": kept("Everything else that a handler returns denies, with a warning."),
    "MA3.4": different(
        "A handler that raises denies, with a warning; so does one that is not async. Other exceptions go on.",
        "a handler that is not async",
    ),
    "MA3.5": different("The fields of a decision are not checked.", "the fields of an `ApprovalDecision`"),
    "MA3.6": different(
        "An edit replaces all arguments; without arguments it is an allow, and what is no dict may end the run.",
        "an edit that is no dict",
    ),
    "MA3.7": different(
        "An edited call is coerced as far as that goes, and not decided again.", "a call that was edited"
    ),
    "MA3.8": different(
        "To remember an allow passes over other arguments; an edit is never remembered.",
        "`remember_allow` with other arguments",
    ),
    "MA3.9": different(
        "A remembered answer holds for a user and a tool, whatever the arguments.",
        "which calls a remembered answer covers",
    ),
    "MA3.10": kept(
        "Answers are remembered for one run and one user, and are looked up before anybody is asked; no user is a user."
    ),
    "MA3.11": different(
        "The calls of a turn are asked about at the same time, and the answer that is remembered last counts.",
        "remembered answers while others are asked",
    ),
    "MA3.12": different(
        "Arguments that a handler changes are those that run.", "a handler that changes the arguments of the call"
    ),
    "MA3.13": different("The reason of an answer that allows is dropped.", "the reason of an answer that allows"),
    "MA3.14": kept("After an edit the model sees its own call, and the result of the edited one."),
    # --- MA4: signals
    "MA4.1": kept(
        "Signals queue by session and name, the first first; whoever asks for one takes it, or waits, at most for a "
        "time. Without signals, sending and waiting warn and do nothing."
    ),
    "MA4.2": kept("A signal that is sent before the run is kept; what nobody took is dropped when its session ends."),
    "MA4.3": different(
        "A signal wakes the one that has waited longest, and is for no call in particular.",
        "two handlers that wait for one signal",
    ),
    "MA4.4": kept("A handler that waits in vain denies, and so does a payload that is no answer."),
    "MA4.5": different("Signals are for one event loop.", "sending a signal"),
    # --- MA5: budgets
    "MA5.1": different(
        "A budget is looked at before each question to the model, and ends the run; no call is refused for it.",
        "a budget that is used up",
    ),
    "MA5.2": different(
        "Caps on tokens, costs and time, of all and of each user, are reached when as much is spent; before, there is "
        "a warning.",
        "what a budget counts",
    ),
}
