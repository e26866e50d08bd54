"""The published behaviour of the rule policy of toolregistry 0.19.0, statement by statement, in our own words.

See `statements`. RP3.0 is the table of the built-in rules. What is published of the registry beyond deciding is not
here: that denied tools stay in the list of tools, that calls by hand pass the policy by, that a merge loses it, and the
execution log. Those are not built, or are built otherwise.
"""

from __future__ import annotations

from statements import Statement, different, kept

__all__ = ["STATEMENTS"]

_ARGUMENTS = "the arguments that a rule or a handler gets"
_CHECKS = "a wrong `result=`, `match=` or `fallback=`"

STATEMENTS: dict[str, Statement] = {
    # --- RP1: types
    "RP1.1": kept("A result is one of the texts allow, deny and ask, and is shown as PermissionResult.ALLOW."),
    "RP1.2": kept("A request has a tool's name, arguments, reason, rule and metadata; each default is a new one."),
    "RP1.3": kept("Requests, rules and policies are made by place or by name; model_dump() gives a request as a dict."),
    "RP1.4": different("A request holds the very arguments that will run, and the tool's own metadata.", _ARGUMENTS),
    "RP1.5": different("A request does not say who asks, when, or for which call.", "what a request says of who asks"),
    "RP1.6": different("A rule has a name, a match, a result and a reason; its result is not checked.", _CHECKS),
    "RP1.7": kept("A policy has a list of its own, denies by default, and reads its rules anew for each call."),
    "RP1.8": kept("Whatever has a handle is a handler, sync or async, as far as isinstance can tell."),
    "RP1.9": kept("There are six tags; metadata holds tags, custom tags, and hints that may be unknown."),
    "RP1.10": different(
        "Tags give hints that were not given; a tool that is both read-only and destructive warns.",
        "a tool that is both read-only and destructive",
    ),
    # --- RP2: evaluation
    "RP2.1": kept("Rules are asked in order; the first that matches is returned itself, else the fallback."),
    "RP2.2": different("Whatever is true matches.", "a match that is true by mistake"),
    "RP2.3": kept("A policy without rules says its fallback, which is deny when left out."),
    "RP2.4": different("A rule may change the arguments, and the change runs.", _ARGUMENTS),
    "RP2.5": different("Some errors of a rule become the call's result, others end the batch.", "a rule that raises"),
    "RP2.6": different("A fallback that is given as a text fails when it is come to.", _CHECKS),
    "RP2.7": kept("A fallback may ask; the handler is then told neither rule nor reason."),
    "RP2.8": kept("Rules see the tool's whole name, its namespace, and its name inside of that."),
    # --- RP3: built-in rules
    "RP3.0": kept("Five rules with their names, results and reasons match by one tag each."),
    "RP3.1": different("The built-in rules look at tags, and not at hints.", "the built-in rules and hints"),
    # --- RP4: the policy of a registry
    "RP4.1": different(
        "Policy and handler are set, and removed, one of each, without a check; a handler comes with a fallback.",
        "setting policy and handler",
    ),
    "RP4.2": different("Without a policy everything runs, and no handler is asked.", "tools without a policy"),
    "RP4.3": kept("A tool that is not there reaches neither policy nor handler."),
    "RP4.4": different(
        "What a rule allows runs, without an event; a denial and a question are one event each.",
        "what is told of decisions",
    ),
    "RP4.5": different("The policy's own handler is asked, or else the registry's.", "a handler that is false"),
    "RP4.6": different(
        "A question without a handler gets the fallback of the policy, or else of the registry.",
        "a question that nobody can answer",
    ),
    "RP4.7": different("Only a denial of the handler blocks; anything else runs.", "what a handler returns"),
    "RP4.8": different("What a handler raises is the call's result, or ends the batch.", "a handler that raises"),
    "RP4.9": different("What a handler answers is not told.", "what is told of decisions"),
    "RP4.10": different(
        "An event has a type, the tool, the reason, the rule and the arguments themselves; a callback that raises "
        "disturbs nobody.",
        "what is told of decisions",
    ),
    "RP4.11": different(
        "The model is told that a policy denied the call, as ordinary content, without the reason.",
        "what the model is told of a denial",
    ),
    "RP4.12": different(
        "A handler gives the model a reason by raising a PermissionError.", "a `PermissionError` of a handler"
    ),
    # --- RP5: sync and async
    "RP5.1": different(
        "In the sync form a sync handler runs on the calling thread, an async one on a loop of its own.",
        "an async handler in the sync form",
    ),
    "RP5.2": kept("In the sync form, a handler gets nothing from a loop that the turn itself blocks."),
    "RP5.3": different("A RuntimeError of such a handler is lost.", "a handler that raises"),
    "RP5.4": different(
        "In the async form an async handler is awaited, and a sync one blocks the loop.",
        "a sync handler in the async form",
    ),
    "RP5.5": different(
        "Only a handler that is an async function is awaited.", "a handler that returns something to await"
    ),
    "RP5.6": different("The questions of a batch are asked one after the other.", "the questions of one turn"),
    "RP5.7": different(
        "A rule that is added while a question waits does not stop the call.",
        "a rule that is added while a question waits",
    ),
    "RP5.8": different(
        "A tool's time limit leaves out questions; the measured time of a call has those of later calls in it.",
        "how long a call took",
    ),
    "RP5.9": different(
        "A batch that is cancelled while a question waits raises, and leaves no entry in the log.",
        "a turn that is cancelled while a handler is asked",
    ),
    # --- RP6: arguments
    "RP6.1": different("A reason that the model gives with its arguments is seen, and taken out.", "`toolcall_reason`"),
    "RP6.2": different("Arguments that are no JSON are decided about as a text.", "arguments that are not JSON"),
    "RP6.3": different("A handler edits a call by changing the request; the log has only the edited one.", _ARGUMENTS),
}
