"""What is shown of a turn with many calls."""

from __future__ import annotations

from typing import Any

import pytest
from turns import DRIVERS, run

from agentperm_nb import Agent, AllowByDefault, ToolCall, Turn, tool

both_drivers = pytest.mark.parametrize("driver", DRIVERS)


@tool(secret=["code"])
def act(n: int, code: str = "") -> str:
    """Act."""
    return f"did {n}"


class Masking:
    """Counts the texts that are masked, by the calls they tell of."""

    def __init__(self) -> None:
        self.texts: list[str] = []

    def __call__(self, text: str) -> str:
        self.texts.append(text)
        return text


def turn_of(driver: str, count: int, **options: Any) -> Turn:
    agent = Agent([act], permissions=[AllowByDefault()], **options)
    return run(driver, agent, [ToolCall("act", {"n": 100_000 + n, "code": "open"}, f"id{n}") for n in range(count)])


def shown(turn: Turn) -> tuple[str, str]:
    return repr(turn), turn._repr_html_()


@both_drivers
def test_up_to_sixty_calls_are_all_shown(driver: str) -> None:
    for text in shown(turn_of(driver, 60)):
        assert all(f"did {100_000 + n}" in text for n in range(60))
        assert "more call" not in text


@both_drivers
@pytest.mark.parametrize(("count", "said"), [(61, "… 1 more call, see"), (1_000, "… 940 more calls, see")])
def test_of_more_calls_the_first_and_the_last_thirty_are_shown_and_the_rest_counted(
    driver: str, count: int, said: str
) -> None:
    turn = turn_of(driver, count)
    for text in shown(turn):
        told = [n for n in range(count) if f"did {100_000 + n}" in text]
        assert told == [*range(30), *range(count - 30, count)]
        assert f"{said} .results and .frame()" in text
        assert f"{count} done" in text
        assert "open" not in text
    assert len(turn.results) == len(turn.frame()) == count


@both_drivers
def test_the_table_of_many_calls_is_small_and_masks_only_what_it_shows(driver: str) -> None:
    masking = Masking()
    turn = turn_of(driver, 2_000, redact=[masking])
    masking.texts.clear()
    for text in shown(turn):
        assert len(text) < 60_000
    masked = {n for n in range(2_000) if any(str(100_000 + n) in text for text in masking.texts)}
    assert masked == {*range(30), *range(1_970, 2_000)}
