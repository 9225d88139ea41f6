"""What every tool of the query benchmark is asked, and the JSON lines in which it answers.

The tools live in environments of their own, so this file needs nothing but the standard library.
A tool's script opens the data, hands ``serve`` one function that asks the question once, and every
call of it is timed: import and opening are not part of the time, calibration of the noise is.
"""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

import argparse
import json
import math
import resource
import time
from collections.abc import Callable
from dataclasses import dataclass

LOWER, UPPER = 0.0, 100.0
CANDIDATES = 1001  # the medians a tool may answer: 0.0, 0.1, ..., 100.0
EPSILON = 1.0  # --guarantee pure: epsilon of one question, for all its answers together
RHO = 0.5  # --guarantee zcdp: rho of one question

Answers = dict[str, dict[str, float]]  # group -> answer ("n", "s", "m", "p") -> value
Noise = dict[str, dict[str, object]]  # answer -> {"law", "scale", "sd"}: what the tool states


@dataclass(frozen=True, slots=True, kw_only=True)
class Task:
    """data: a Parquet file; query: totals, sums or median; calls: questions, warm-up included."""

    data: str
    query: str
    guarantee: str
    calls: int
    groups: int
    rows: int
    max_rows: int

    @property
    def keys(self) -> list[str]:
        return [f"g{number:02d}" for number in range(self.groups)]

    @property
    def answers(self) -> list[str]:
        return {"totals": ["n", "s", "m"], "sums": ["n", "s"], "median": ["p"]}[self.query]


@dataclass(frozen=True, slots=True, kw_only=True)
class Opened:
    """A tool with the data open: ask() puts the question once; noise() is what the tool states."""

    version: str
    ask: Callable[[], Answers]
    noise: Callable[[], Noise]


def stated(law: str, scale: float) -> dict[str, object]:
    """A noise's law and scale, and the standard deviation that they imply where it is additive."""
    if "laplace" in law.lower():
        return {"law": law, "scale": scale, "sd": scale * math.sqrt(2)}
    if "gaussian" in law.lower():
        return {"law": law, "scale": scale, "sd": scale}
    return {"law": law, "scale": scale}


def serve(open_tool: Callable[[Task], Opened]) -> None:
    """Read the task from the command line, ask once to warm up, then time each repetition."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--data", required=True)
    parser.add_argument("--query", choices=["totals", "sums", "median"], required=True)
    parser.add_argument("--guarantee", choices=["pure", "zcdp"], required=True)
    parser.add_argument("--repetitions", type=int, required=True)
    parser.add_argument("--groups", type=int, required=True)
    parser.add_argument("--rows", type=int, required=True)
    parser.add_argument("--max-rows", type=int, required=True)
    arguments = vars(parser.parse_args())
    task = Task(calls=1 + arguments.pop("repetitions"), **arguments)

    began = time.perf_counter()
    opened = open_tool(task)
    say(kind="opened", seconds=time.perf_counter() - began, version=opened.version)
    for number in range(task.calls):
        began = time.perf_counter()
        answers = opened.ask()
        seconds = time.perf_counter() - began
        say(kind="repetition", warm_up=number == 0, seconds=seconds, answers=answers)
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024  # Linux counts in KiB
    say(kind="end", peak_mib=peak, noise=opened.noise())


def say(**line: object) -> None:
    print(json.dumps(line), flush=True)
