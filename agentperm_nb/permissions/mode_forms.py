"""Modes from a configuration: what may stand there for ``permissions=``.

1. A word: ``"allow_all"``, ``"strict"``, ``"accept_edits"`` or ``"bypass"``.
2. A dict with a ``backend`` (or ``type``, or ``name``): ``"standard"``, as when it is left out, with the arguments of
   `StandardPermissions`; ``"allow_all"``; or ``"per_user"``, with ``policies`` and ``default``, made of such forms too.
3. Nothing is guessed: a word or a key that is not known is an error, and so is a value that is missing. What is left
   empty in a file by mistake opens nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from agentperm_nb.errors import fix_message
from agentperm_nb.permissions.kinds import Permission
from agentperm_nb.permissions.mode_objects import is_mode_object
from agentperm_nb.permissions.modes import AllowAll, Mode, PerUserPermissions, StandardPermissions
from agentperm_nb.permissions.policy import PermissionPolicy

__all__ = ["resolve_permissions"]

_EXAMPLE = (
    "resolve_permissions('strict')\n"
    "resolve_permissions({'mode': 'accept_edits', 'edit_tools': ['write_file'], 'denied_tools': ['delete_*']})"
)
_PER_USER = "resolve_permissions({'backend': 'per_user', 'policies': {'ann': 'accept_edits'}, 'default': 'strict'})"
_KINDS = ("backend", "type", "name")
_LISTS = ("allowed_tools", "denied_tools", "edit_tools")

_ALLOW_ALL = ("allow_all", "allowall", "allow-all")
_ACCEPT_EDITS = ("accept_edits", "acceptedits", "accept-edits")
_BYPASS = ("bypass", "bypass_permissions", "bypasspermissions", "bypass-permissions")

_MODES = {
    "default": Mode.DEFAULT,
    **dict.fromkeys(_ACCEPT_EDITS, Mode.ACCEPT_EDITS),
    **dict.fromkeys(_BYPASS, Mode.BYPASS),
}


def resolve_permissions(config: Any) -> Any:
    """Return the mode object that a value of a configuration stands for.

    Args:
        config: A word, in any case, or a dict, as the module's docstring says; a mode object, a permission or a policy
            is returned as it is.

    Raises:
        TypeError: It is none of these, or a value in it has the wrong type.
        ValueError: A word or a key in it is not known, or two keys say which kind it is.
    """
    if isinstance(config, Mode):
        return StandardPermissions(mode=config)
    if isinstance(config, str):
        return _of_word(config)
    if isinstance(config, Mapping):
        return _of_dict(config)
    if isinstance(config, Permission | PermissionPolicy) or is_mode_object(config):
        return config
    if config is None:
        raise TypeError(
            fix_message(
                "permissions are missing in the configuration, or None",
                "say what applies; 'strict' asks about what may destroy something, 'allow_all' allows everything",
                _EXAMPLE,
            )
        )
    what = f"{config.__name__}, the class" if isinstance(config, type) else repr(config)
    raise TypeError(
        fix_message(f"permissions in a configuration are a word or a dict (got: {what})", "give one", _EXAMPLE)
    )


def _of_word(config: str) -> Any:
    made: dict[str, Callable[[], Any]] = {
        **dict.fromkeys(_ALLOW_ALL, AllowAll),
        "strict": StandardPermissions.strict,
        **dict.fromkeys(_ACCEPT_EDITS, lambda: StandardPermissions(mode=Mode.ACCEPT_EDITS)),
        **dict.fromkeys(_BYPASS, lambda: StandardPermissions(mode=Mode.BYPASS)),
    }
    make = made.get(config.strip().lower())
    if make is None:
        problem = f"{config!r} stands for no permissions"
        raise ValueError(fix_message(problem, "use 'allow_all', 'strict', 'accept_edits' or 'bypass'", _EXAMPLE))
    return make()


def _of_dict(config: Mapping[Any, Any]) -> Any:
    kinds = [key for key in _KINDS if key in config]
    if len(kinds) > 1:
        problem = f"{' and '.join(map(repr, kinds))} both say which kind of permissions these are"
        raise ValueError(fix_message(problem, "leave one out", _EXAMPLE))
    backend = config[kinds[0]] if kinds else "standard"
    if not isinstance(backend, str):
        raise TypeError(
            fix_message(f"{kinds[0]!r} takes a word (got: {backend!r})", "use 'standard', or leave it out", _EXAMPLE)
        )
    word = backend.strip().lower()
    given = {key: value for key, value in config.items() if key not in _KINDS}
    for key, value in given.items():
        if value is None:
            problem = f"{key!r} is empty in a configuration of permissions"
            raise TypeError(fix_message(problem, "give its value, or leave it out", _EXAMPLE))
    if word == "standard":
        return _standard(given)
    if word == "per_user":
        return _per_user(given)
    if word in _ALLOW_ALL:
        _check_keys(word, given, ())
        return AllowAll()
    problem = f"{backend!r} is no kind of permissions"
    raise ValueError(fix_message(problem, "use 'standard', 'per_user' or 'allow_all'", _EXAMPLE))


def _check_keys(word: str, given: Mapping[Any, Any], known: tuple[str, ...]) -> None:
    unknown = [key for key in given if key not in known]
    if unknown:
        fix = f"use only {', '.join(known)}" if known else "leave it out"
        raise ValueError(fix_message(f"{unknown[0]!r} is not known in permissions of the kind {word!r}", fix, _EXAMPLE))


def _standard(given: dict[str, Any]) -> StandardPermissions:
    _check_keys("standard", given, ("mode", *_LISTS, "trust_mcp"))
    mode = given.pop("mode", "default")
    if not isinstance(mode, str):
        raise TypeError(fix_message(f"'mode' takes a word (got: {mode!r})", "use 'default'", _EXAMPLE))
    known = _MODES.get(mode.strip().lower())
    if known is None:
        problem = f"{mode!r} is not a mode"
        raise ValueError(fix_message(problem, "use 'default', 'accept_edits' or 'bypass'", _EXAMPLE))
    return StandardPermissions(mode=known, **given)


def _per_user(given: dict[str, Any]) -> PerUserPermissions:
    _check_keys("per_user", given, ("policies", "default"))
    policies = given.get("policies", {})
    if not isinstance(policies, Mapping):
        problem = f"'policies' takes a dict from user id to permissions (got: {policies!r})"
        raise TypeError(
            fix_message(problem, "give a dict", "{'backend': 'per_user', 'policies': {}, 'default': 'strict'}")
        )
    made = {user: _part(f"of the user {user!r}", form) for user, form in policies.items()}
    return PerUserPermissions(made, _part("by default", given.get("default")))


def _part(whose: str, form: Any) -> Any:
    try:
        return resolve_permissions(form)
    except (TypeError, ValueError) as error:
        error.add_note(f"in the permissions {whose}")
        raise
