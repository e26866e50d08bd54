"""Figures and how they are printed.

1. A figure is smaller-is-better: ours, the reference's, and a goal for ours.
2. One line a figure: ``name | ours | reference | ratio | goal | met``, or ``short`` at its end when the goal is missed.
3. A benchmark exits with 1 when one of its figures is short.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterable
from dataclasses import dataclass

__all__ = ["Figure", "main"]


@dataclass(frozen=True, kw_only=True)
class Figure:
    """One measured figure; smaller is better.

    Args:
        name: What was measured, without ``|``.
        ours: What we take, in `unit`.
        goal: What we may take at most, in `unit`.
        unit: The unit of all three, such as ``"ms"``.
        reference: What we are measured against takes, in `unit`; None where there is nothing to compare with.
        against: The name of the reference.
    """

    name: str
    ours: float
    goal: float
    unit: str
    reference: float | None = None
    against: str = ""

    @property
    def met(self) -> bool:
        """Whether the goal is met. A figure that is not a number does not meet it."""
        return self.ours <= self.goal

    def __str__(self) -> str:
        reference = f"{_number(self.reference)} {self.unit} ({self.against})" if self.reference is not None else "-"
        ratio = f"{self.ours / self.reference:.2f}" if self.reference else "-"
        goal = f"at most {_number(self.goal)} {self.unit}"
        ours = f"{_number(self.ours)} {self.unit}"
        return " | ".join([self.name, ours, reference, ratio, goal, "met" if self.met else "short"])


def _number(value: float) -> str:
    return f"{value:.3g}" if abs(value) < 100 else f"{value:,.0f}"


def main(measure: Callable[[bool], Iterable[Figure]], description: str) -> int:
    """Measure, print one line a figure, and return the exit status: 1 when a figure is short.

    Args:
        measure: Takes whether to be quick, and gives the figures.
        description: What ``--help`` says.
    """
    parser = argparse.ArgumentParser(description=description)
    parser.add_argument("--quick", action="store_true", help="fewer rounds, at most 50 seconds")
    quick = parser.parse_args().quick
    short = 0
    for figure in measure(quick):
        print(figure, flush=True)
        short += not figure.met
    return 1 if short else 0
