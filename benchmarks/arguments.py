"""What rules on arguments cost.

1. A decision about a call of ``read_file`` under one rule on its path, in a folder of ordinary depth. *Cached*: what is
   known of links in this turn is there. *At first sight*: nothing is, as just before a call starts.
2. The references do a part of the work: ``os.path.realpath`` of the same path follows links, ``wcmatch.globmatch``
   holds it against the pattern. They are measured in the same rounds.
3. Many rules on one tool are measured over one, of the same kind; none of them matches, and links are known.
4. Times are the processor's, medians over rounds; the processor's time of system calls is counted.
"""

from __future__ import annotations

import os
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from wcmatch import glob

from agentperm_nb import AllowByDefault, ToolCall, tool
from agentperm_nb.context import RunContext, running_in
from agentperm_nb.permissions.arguments import AllowByArguments, DenyByArguments
from agentperm_nb.permissions.deciding import PermissionList, decide
from benchmarks.engine import MICRO, Clock, medians, repeated
from benchmarks.report import Figure, main

FILE = "project/reports/2024/summary.txt"
MANY = 1000


@tool
def read_file(path: str) -> str:
    """Read a file."""
    return "read"


@tool
def run(command: str) -> str:
    """Run a command."""
    return "ran"


def _decision(permissions: list[Any], call: ToolCall, context: RunContext, *, cached: bool) -> Callable[[], Any]:
    listed, links = PermissionList(permissions), context.links
    called = read_file if call.name == "read_file" else run
    if cached:
        return lambda: decide(listed, None, call, called)

    def first() -> Any:
        links.clear()
        return decide(listed, None, call, called)

    return first


RULES: dict[str, list[Any]] = {
    "allow read_file(path=project/**)": [AllowByArguments("read_file", path="project/**")],
    "deny read_file(path=**/.env), which does not match": [
        DenyByArguments("read_file", path="**/.env"),
        AllowByDefault(),
    ],
    "deny read_file(path=~/.ssh/**), which does not match": [
        DenyByArguments("read_file", path="~/.ssh/**"),
        AllowByDefault(),
    ],
}


def _paths(folder: str, context: RunContext, rounds: int, times: int) -> Iterator[Figure]:
    call, full = ToolCall("read_file", {"path": FILE}), os.path.join(folder, FILE)
    flags = glob.GLOBSTAR | glob.DOTGLOB | glob.FORCEUNIX
    matched = repeated(lambda: glob.globmatch(full, f"{folder}/project/**", flags=flags), times)
    followed = repeated(lambda: os.path.realpath(full), times)
    for rule, permissions in RULES.items():
        cached = repeated(_decision(permissions, call, context, cached=True), times)
        first = repeated(_decision(permissions, call, context, cached=False), times)
        for name, ours, other, against, goal in (
            ("links cached", cached, matched, "wcmatch.globmatch", 15),
            ("at first sight", first, followed, "os.path.realpath", 35),
        ):
            mine, theirs = medians(ours, other, rounds)
            assert theirs is not None
            yield Figure(
                name=f"deciding one call under {rule}, {name}",
                ours=mine * MICRO,
                goal=goal,
                unit="µs",
                reference=theirs * MICRO,
                against=against,
            )


def _over_one(rule: Callable[[int], Any], call: ToolCall, context: RunContext, rounds: int) -> float:
    def clock(number: int) -> Clock:
        permissions = [*map(rule, range(number)), AllowByDefault()]
        return repeated(_decision(permissions, call, context, cached=True), 300)

    many, one = medians(clock(MANY), clock(1), rounds)
    assert one is not None
    return (many - one) * MICRO


def _many(context: RunContext, rounds: int) -> Iterator[Figure]:
    kinds: dict[str, tuple[Callable[[int], Any], ToolCall]] = {
        "deny run(command=*word1*)": (
            lambda place: DenyByArguments("run", command=f"*word{place}*"),
            ToolCall("run", {"command": "git log --oneline"}),
        ),
        "deny read_file(path=**/name1.key)": (
            lambda place: DenyByArguments("read_file", path=f"**/name{place}.key"),
            ToolCall("read_file", {"path": FILE}),
        ),
        "deny read_file(path=folder1/**)": (
            lambda place: DenyByArguments("read_file", path=f"folder{place}/**"),
            ToolCall("read_file", {"path": FILE}),
        ),
    }
    for name, (rule, call) in kinds.items():
        ours = _over_one(rule, call, context, rounds)
        yield Figure(name=f"{MANY:,} rules like {name} on one tool, over one", ours=ours, goal=50, unit="µs")


def measure(quick: bool) -> Iterator[Figure]:
    rounds, times = (7, 300) if quick else (31, 1_000)
    with tempfile.TemporaryDirectory() as top:
        folder = os.path.join(os.path.realpath(top), "ann", "work")
        file = Path(folder, FILE)
        file.parent.mkdir(parents=True)
        file.write_text("a summary")
        context = RunContext("run_1", "session_1", "ann", folder=folder)
        with running_in(context):
            yield from _paths(folder, context, rounds, times)
            yield from _many(context, rounds)


if __name__ == "__main__":
    sys.exit(main(measure, "What rules on arguments cost."))
