"""What the accountant answered to its corpus of questions before, kept in a file.

For each seed, in the order of the questions: both ends of the interval, and the seconds of a
processor that it took.

`python -m tests.accounting.golden_intervals` writes the file anew, which takes ten minutes and is
done alone, in a commit that says what has changed and why.
"""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

import json
import math
import multiprocessing
import time
from dataclasses import dataclass
from functools import cache
from multiprocessing.connection import Connection
from pathlib import Path

from tests.accounting.corpus import SEEDS, Question, questions

from unacorda.accounting import delta_interval, epsilon_interval
from unacorda.privacy.estimates import Interval

__all__ = ["Answered", "answered", "ask"]

_FILE = Path(__file__).parents[1] / "data" / "golden_intervals.json"
_LONGEST = 120
"""Seconds after which no answer is waited for."""


@dataclass(frozen=True, slots=True)
class Answered:
    """A question, what it was answered, and how many seconds of a processor that took."""

    question: Question
    interval: Interval
    seconds: float


def ask(question: Question) -> Interval:
    """What the accountant answers now."""
    event, neighbors = question.event, question.neighbors
    if question.measure == "epsilon":
        return epsilon_interval(event, delta=question.at, neighbors=neighbors)
    return delta_interval(event, epsilon=question.at, neighbors=neighbors)


@cache
def answered(seed: int) -> tuple[Answered, ...]:
    """All questions of a seed that were answered."""
    kept = json.loads(_FILE.read_text())[str(seed)]
    return tuple(
        Answered(question, Interval(one[0], math.inf if one[1] is None else one[1]), one[2])
        for question, one in zip(questions(seed), kept, strict=True)
        if one is not None
    )


def _record() -> None:
    found = []
    for seed in SEEDS:
        lines = ",\n".join(json.dumps(_asked_alone(question)) for question in questions(seed))
        found.append(f'"{seed}": [\n{lines}\n]')
    whole = ",\n".join(found)
    _FILE.write_text(f"{{\n{whole}\n}}\n")


def _asked_alone(question: Question) -> tuple[float, float | None, float] | None:
    """In a process of its own, so that nothing is known of the questions before."""
    ours, theirs = multiprocessing.Pipe(duplex=False)
    process = multiprocessing.Process(target=_told, args=(question, theirs))
    process.start()
    found = None
    if ours.poll(_LONGEST):
        interval, seconds = ours.recv()
        high = interval.upper if interval.upper < math.inf else None
        found = interval.lower, high, round(seconds, 2)
    process.kill()
    process.join()
    return found


def _told(question: Question, to: Connection) -> None:
    start = time.process_time()
    interval = ask(question)
    to.send((interval, time.process_time() - start))


if __name__ == "__main__":
    _record()
