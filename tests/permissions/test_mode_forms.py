"""Permissions from a configuration: what the forms stand for, and what is refused."""

from __future__ import annotations

from typing import Any

import pytest
from loomflow.security.permissions_resolver import resolve_permissions as resolve_there

from agentperm_nb import (
    AllowAll,
    DenyByName,
    Mode,
    PermissionDecision,
    PerUserPermissions,
    StandardPermissions,
    ToolCall,
    resolve_permissions,
)
from agentperm_nb.permissions.policy import PermissionPolicy


class Office:
    """A mode object of a user's own."""

    def __repr__(self) -> str:
        return "Office()"

    async def check(self, call: ToolCall, *, context: Any, user_id: str | None = None) -> PermissionDecision:
        return PermissionDecision.ask_("the office is closed")


class Synchronous:
    def check(self, call: ToolCall, *, context: Any, user_id: str | None = None) -> PermissionDecision:
        return PermissionDecision.allow_()


def made_of(permissions: Any) -> tuple[str, Any, Any, Any]:
    """What was made of a form, there or here."""
    if type(permissions).__name__ == "AllowAll":
        return "AllowAll", None, None, None
    if isinstance(permissions, StandardPermissions):
        allowed, denied = permissions.allowed_tools, permissions.denied_tools
        return (
            "StandardPermissions",
            str(permissions.mode),
            None if allowed is None else set(allowed),
            set(denied),
        )
    return "StandardPermissions", str(permissions._mode), permissions._allowed, permissions._denied


FORMS: list[Any] = [
    *("allow_all", "allowall", "allow-all", "strict", "accept_edits", "acceptedits", "accept-edits"),
    *("bypass", "bypass_permissions", "bypasspermissions"),
    *("STRICT", "Allow_All", " bypass ", "acceptEdits", "bypassPermissions"),
    *({"mode": mode} for mode in ("default", "DEFAULT", "acceptEdits", "acceptedits", "accept_edits", "accept-edits")),
    *({"mode": mode} for mode in ("bypass", "Bypass", "bypassPermissions", "bypass_permissions", "bypass-permissions")),
    {},
    {"backend": "standard"},
    {"type": "Standard", "mode": "bypass"},
    {"name": "STANDARD", "denied_tools": ["rm", "ls"]},
    {"backend": "allow_all"},
    {"type": "Allow-All"},
    {"allowed_tools": ["ls"], "denied_tools": ["rm"]},
    {"allowed_tools": []},
    {"denied_tools": []},
]


@pytest.mark.parametrize("form", FORMS, ids=repr)
def test_the_published_forms_mean_what_they_mean_there(form: Any) -> None:
    assert made_of(resolve_permissions(form)) == made_of(resolve_there(form))


def test_all_settings_can_be_given_in_a_configuration() -> None:
    form = {"mode": "accept-edits", "edit_tools": ["write"], "trust_mcp": True, "denied_tools": ["rm"]}
    assert repr(resolve_permissions(form)) == (
        "StandardPermissions(ACCEPT_EDITS, denied_tools=['rm'], edit_tools=['write'], trust_mcp=True)"
    )
    assert form.keys() == {"mode", "edit_tools", "trust_mcp", "denied_tools"}  # it is left as it was


def test_users_can_be_told_apart_in_a_configuration() -> None:
    form = {
        "backend": "per_user",
        "policies": {"ann": "bypass", "bob": {"denied_tools": ["rm"]}, "eve": Office()},
        "default": "strict",
    }
    assert repr(resolve_permissions(form)) == (
        "PerUserPermissions({'ann': StandardPermissions(BYPASS), 'bob': StandardPermissions(denied_tools=['rm']), "
        "'eve': Office()}, default=StandardPermissions())"
    )


@pytest.mark.parametrize("mode", Mode)
def test_a_mode_itself_may_stand_in_a_configuration(mode: Mode) -> None:
    assert resolve_permissions(mode).mode is mode


@pytest.mark.parametrize(
    "built",
    [
        StandardPermissions(),
        AllowAll(),
        PerUserPermissions({}, AllowAll()),
        Office(),
        DenyByName(["rm"]),
    ],
    ids=repr,
)
def test_what_is_made_already_is_taken_as_it_is(built: Any) -> None:
    assert resolve_permissions(built) is built


@pytest.mark.parametrize(
    ("form", "error", "words"),
    [
        (None, TypeError, "missing in the configuration, or None"),
        ("", ValueError, "'' stands for no permissions"),
        ("  ", ValueError, "stands for no permissions"),
        ("allow", ValueError, "use 'allow_all', 'strict', 'accept_edits' or 'bypass'"),
        ("default", ValueError, "stands for no permissions"),
        ("allow all", ValueError, "stands for no permissions"),
        ("by-pass", ValueError, "stands for no permissions"),
        ("b_y_p_a_s_s", ValueError, "stands for no permissions"),
        (True, TypeError, "a word or a dict"),
        (5, TypeError, "a word or a dict"),
        (b"bypass", TypeError, "a word or a dict"),
        (["read_*"], TypeError, "a word or a dict"),
        ([], TypeError, "a word or a dict"),
        (StandardPermissions, TypeError, "StandardPermissions, the class"),
        (lambda call: True, TypeError, "a word or a dict"),
        (Synchronous(), TypeError, "a word or a dict"),
        ({"backend": "standrad"}, ValueError, "'standrad' is no kind of permissions"),
        ({"backend": ""}, ValueError, "'' is no kind of permissions"),
        ({"backend": None}, TypeError, "'backend' takes a word"),
        ({"type": 5}, TypeError, "'type' takes a word"),
        ({"backend": "standard", "type": "allow_all"}, ValueError, "'backend' and 'type' both say"),
        ({"type": "standard", "name": "standard"}, ValueError, "'type' and 'name' both say"),
        ({"mode": "bypass", "denied_tool": ["rm"]}, ValueError, "'denied_tool' is not known"),
        ({"denyed_tools": ["rm"]}, ValueError, "use only mode, allowed_tools, denied_tools, edit_tools, trust_mcp"),
        ({5: "rm"}, ValueError, "5 is not known"),
        ({"backend": "allow_all", "denied_tools": ["rm"]}, ValueError, "'denied_tools' is not known .* 'allow_all'"),
        ({"mode": ""}, ValueError, "'' is not a mode"),
        ({"mode": "strict"}, ValueError, "use 'default', 'accept_edits' or 'bypass'"),
        ({"mode": None}, TypeError, "'mode' is empty"),
        ({"mode": 5}, TypeError, "'mode' takes a word"),
        ({"mode": True}, TypeError, "'mode' takes a word"),
        ({"allowed_tools": None}, TypeError, "'allowed_tools' is empty"),
        ({"denied_tools": None}, TypeError, "'denied_tools' is empty"),
        ({"edit_tools": None}, TypeError, "'edit_tools' is empty"),
        ({"denied_tools": "rm"}, TypeError, "denied_tools= takes a list"),
        ({"allowed_tools": [5]}, TypeError, "allowed_tools= takes names"),
        ({"denied_tools": [" "]}, ValueError, "which no tool can have"),
        ({"trust_mcp": "yes"}, TypeError, "trust_mcp= takes True or False"),
        ({"backend": "per_user"}, TypeError, "missing in the configuration, or None"),
        ({"backend": "per_user", "policies": {"ann": "bypass"}}, TypeError, "missing in the configuration"),
        ({"backend": "per_user", "policies": ["ann"], "default": "strict"}, TypeError, "'policies' takes a dict"),
        ({"backend": "per_user", "policies": None, "default": "strict"}, TypeError, "'policies' is empty"),
        ({"backend": "per_user", "policies": {"ann": None}, "default": "strict"}, TypeError, "missing in the"),
        ({"backend": "per_user", "policies": {"ann": "bypas"}, "default": "strict"}, ValueError, "'bypas' stands for"),
        ({"backend": "per_user", "policies": {5: "bypass"}, "default": "strict"}, TypeError, "a user id is a text"),
        ({"backend": "per_user", "default": DenyByName(["rm"])}, TypeError, "a permission that holds for every user"),
        ({"backend": "per_user", "default": "strict", "mode": "bypass"}, ValueError, "'mode' is not known"),
        ({"policies": {"ann": "bypass"}, "default": "strict"}, ValueError, "'policies' is not known"),
    ],
    ids=repr,
)
def test_what_a_configuration_does_not_say_plainly_is_refused(form: Any, error: type[Exception], words: str) -> None:
    with pytest.raises(error, match=words) as caught:
        resolve_permissions(form)
    assert "\nFix: " in str(caught.value)
    assert "\nExample:\n" in str(caught.value)


def test_a_refusal_says_whose_permissions_are_meant() -> None:
    with pytest.raises(ValueError, match="stands for no permissions") as caught:
        resolve_permissions({"backend": "per_user", "policies": {"ann": "all"}, "default": "strict"})
    assert caught.value.__notes__ == ["in the permissions of the user 'ann'"]


def test_a_policy_is_taken_as_it_is() -> None:
    policy = PermissionPolicy([])
    assert resolve_permissions(policy) is policy
