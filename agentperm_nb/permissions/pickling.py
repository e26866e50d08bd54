"""Pickling of what decides: it either arrives whole in another process, or says at once what cannot go there.

1. Permissions, verdicts and lists of them pickle as any object does. What is only kept to be fast is left behind, and
   made anew on the other side.
2. What cannot be pickled is a ``pickle.PicklingError``, as everywhere, whose message has three parts and names the
   permission and its attribute.
3. Copying, and picklers that take functions and classes along by value (cloudpickle, dill), are not held to what pickle
   can do.
"""

from __future__ import annotations

import sys
from contextvars import ContextVar
from typing import Any, SupportsIndex

from agentperm_nb.errors import fix_message

__all__ = ["Pickled"]

_NOT_PICKLE = {"copy", "cloudpickle", "dill"}
_tried: ContextVar[bool] = ContextVar("agentperm_nb_pickling", default=False)


class Pickled:
    """Gives a class the error that says what of its object cannot be pickled."""

    __slots__ = ()

    def __reduce_ex__(self, protocol: SupportsIndex, /) -> str | tuple[Any, ...]:
        """Return how the object is made again.

        Raises:
            pickle.PicklingError: It cannot be pickled.
        """
        reduced = super().__reduce_ex__(protocol)
        caller = sys._getframe(1).f_globals.get("__name__", "")
        # The pickler tells nobody what an error was about, so the parts are tried before it gets them.
        if not _tried.get() and _NOT_PICKLE.isdisjoint(str(caller).split(".")):
            _try(self, reduced, int(protocol))
        return reduced


def _try(thing: object, reduced: str | tuple[Any, ...], protocol: int) -> None:
    import pickle  # loaded by whoever pickles already

    token = _tried.set(True)  # once, for all that it holds
    try:
        pickle.dumps(reduced, protocol)
        return
    except Exception as raised:  # noqa: BLE001 - pickle raises nearly anything
        error = raised
    finally:
        _tried.reset(token)
    attribute = ""
    for name, value in getattr(thing, "__dict__", {}).items():
        try:
            pickle.dumps(value, protocol)  # a permission inside says itself what is wrong with it
        except Exception as raised:
            if isinstance(raised, pickle.PicklingError) and "\nFix: " in str(raised):
                raise
            attribute, error = f" because of its attribute {name!r}", raised
            break
    raise pickle.PicklingError(
        fix_message(
            f"{_shown(thing)} cannot be pickled{attribute}: {error}",
            "use functions and classes that stand at the top of a module, not lambdas or what is made inside a "
            "function, or make the object anew where it is needed",
            "# in rules.py\n"
            "def at_weekend(call):\n"
            "    return date.today().weekday() >= 5\n\n"
            "# in the notebook\n"
            "permission = DenyWhen(rules.at_weekend)",
        )
    ) from error


def _shown(thing: object) -> str:
    try:
        return repr(thing)
    except Exception:  # noqa: BLE001 - a foreign repr may do anything
        return f"{type(thing).__name__}(?)"
