"""Verdicts: frozen, checked, and equal by what they say."""

from __future__ import annotations

import copy
import dataclasses
import pickle
from collections.abc import Callable
from typing import Any

import pytest

from agentperm_nb.permissions.verdicts import Allowed, Ask, Denied, Verdict


class QuietlyAllowed(Allowed):
    pass


class FirmlyDenied(Denied):
    pass


ALL = [Allowed(), Denied("no"), Denied("no", stop=True), Denied(" padded "), Ask("sure?")]


@pytest.mark.states("A1")
def test_allowed_takes_no_arguments() -> None:
    with pytest.raises(TypeError):
        Allowed("yes")  # type: ignore[call-arg]
    with pytest.raises(TypeError):
        Allowed(reason="yes")  # type: ignore[call-arg]


@pytest.mark.states("A2")
def test_allowed_is_equal_to_every_other_allowed() -> None:
    assert Allowed() == Allowed()
    assert hash(Allowed()) == hash(Allowed())
    assert repr(Allowed()) == "Allowed()"
    assert Allowed()


@pytest.mark.states("A3", "A7")
def test_denied_takes_a_reason_and_stop_by_place_or_name() -> None:
    assert Denied("no") == Denied(reason="no") == Denied("no", False) == Denied(reason="no", stop=False)
    assert repr(Denied("no")) == "Denied(reason='no', stop=False)"
    assert Denied("no", True).stop is True
    assert Denied(" padded ").reason == " padded "
    with pytest.raises(TypeError):
        Denied()  # type: ignore[call-arg]


@pytest.mark.states("A4")
def test_denials_are_equal_by_reason_and_stop() -> None:
    assert Denied("no") != Denied("no", stop=True)
    assert Denied("no") != Denied("No")
    assert hash(Denied("no")) == hash(Denied("no"))
    assert len({Denied("no"), Denied("no"), Denied("no", stop=True)}) == 2
    assert Denied("no") != Ask("no")


@pytest.mark.states("A4")
def test_a_subclass_with_equal_fields_is_another_verdict() -> None:
    assert FirmlyDenied("no") != Denied("no")
    assert QuietlyAllowed() != Allowed()
    assert isinstance(FirmlyDenied("no"), Denied)
    assert isinstance(QuietlyAllowed(), Verdict)


@pytest.mark.parametrize("verdict", ALL, ids=repr)
@pytest.mark.parametrize("name", ["reason", "stop", "anything"])
@pytest.mark.states("A5")
def test_nothing_of_a_verdict_can_be_set_or_deleted(verdict: Verdict, name: str) -> None:
    with pytest.raises(dataclasses.FrozenInstanceError):
        setattr(verdict, name, "x")
    with pytest.raises(dataclasses.FrozenInstanceError):
        delattr(verdict, name)


@pytest.mark.parametrize("value", [None, b"no", 5, ["no"], True], ids=repr)
@pytest.mark.parametrize("verdict", [Denied, Ask], ids=["Denied", "Ask"])
@pytest.mark.states("A6")
def test_a_reason_is_a_text(verdict: Callable[[Any], Verdict], value: Any) -> None:
    with pytest.raises(TypeError, match=r"takes a reason string[\s\S]*Fix: [\s\S]*Example:"):
        verdict(value)


@pytest.mark.parametrize("value", ["", " ", "\n\t", "\u3000"], ids=ascii)
@pytest.mark.parametrize("verdict", [Denied, Ask], ids=["Denied", "Ask"])
@pytest.mark.states("A7")
def test_a_reason_says_something(verdict: Callable[[Any], Verdict], value: str) -> None:
    with pytest.raises(ValueError, match=r"got an empty reason[\s\S]*Fix: [\s\S]*Example:"):
        verdict(value)


@pytest.mark.parametrize("value", [1, 0, None, "yes", "", [True]], ids=repr)
@pytest.mark.states("A8")
def test_stop_is_true_or_false(value: Any) -> None:
    with pytest.raises(TypeError, match="stop= takes True or False"):
        Denied("no", stop=value)


@pytest.mark.states("A9")
def test_the_reason_is_checked_before_stop_and_its_type_before_its_words() -> None:
    with pytest.raises(TypeError, match="Denied takes a reason string"):
        Denied(None, stop=1)  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="Denied got an empty reason"):
        Denied("", stop=1)  # type: ignore[arg-type]


@pytest.mark.parametrize("verdict", [*ALL, FirmlyDenied("no"), QuietlyAllowed()], ids=repr)
@pytest.mark.parametrize("protocol", [0, pickle.HIGHEST_PROTOCOL])
@pytest.mark.states("A10")
def test_a_verdict_survives_pickling_and_copying(verdict: Verdict, protocol: int) -> None:
    for again in (pickle.loads(pickle.dumps(verdict, protocol)), copy.copy(verdict), copy.deepcopy(verdict)):
        assert again == verdict
        assert type(again) is type(verdict)
