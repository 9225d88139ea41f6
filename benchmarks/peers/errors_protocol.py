"""What every tool of the errors benchmark is asked, and the JSON lines in which it answers.

A table has `groups` groups, each the same values again, each row one person: one question about
every group is as many independent answers about the values, for the price of one. A tool's script
hands ``serve`` its methods by name, "statistic/method/guarantee", and answers questions about one
of them with a list of numbers for every group.
"""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np

EPSILON = 1.0  # "pure": epsilon of a whole answer of one group
RHO = 0.1  # "zcdp": its rho

Answers = list[list[float]]


@dataclass(frozen=True)
class Question:
    """values: path of an .npy file; whole: they are whole numbers; lower, upper: their bounds.

    wanted: quantiles; edges: of a histogram's bins; candidates: what a quantile may be, for tools
    that ask for a list; sizes: by level the number of nodes below each, for hierarchies, which
    cell a row is in being its value.
    """

    method: str
    values: str
    whole: bool
    lower: float
    upper: float
    groups: int
    wanted: list[float]
    edges: list[float]
    candidates: list[float]
    sizes: list[int]

    @property
    def parts(self) -> list[str]:
        """Statistic, method, guarantee."""
        return self.method.split("/")

    @property
    def pure(self) -> bool:
        return self.parts[2] == "pure"

    def load(self) -> np.ndarray:
        """The values of one group."""
        found = np.load(self.values)
        return found.astype(np.int64) if self.whole else found

    def table(self) -> dict[str, np.ndarray]:
        """All groups: their numbers, and the values."""
        values = self.load()
        return {
            "g": np.repeat(np.arange(self.groups), len(values)),
            "x": np.tile(values, self.groups),
        }

    def binned(self) -> np.ndarray:
        """Of each value of `table` the bin of the histogram that it lies in."""
        inner = np.array(self.edges[1:-1])
        return np.tile(np.searchsorted(inner, self.load(), side="right"), self.groups)

    def levels(self) -> list[int]:
        """How many nodes each level of a hierarchy has, the whole included."""
        return [1, *np.cumprod(self.sizes).tolist()]


def serve(version: str, methods: Mapping[str, Callable[[Question], Answers]]) -> None:
    """Say what can be asked, then answer one question a line."""
    out, sys.stdout = sys.stdout, sys.stderr  # libraries may print what they like
    print(json.dumps({"version": version, "methods": list(methods)}), file=out, flush=True)
    for line in sys.stdin:
        question = Question(**json.loads(line))
        try:
            found: object = methods[question.method](question)
        except Exception as error:  # a peer's failure is told, and the others go on
            found = {"failed": f"{type(error).__name__}: {error}"[:300]}
        print(json.dumps(found), file=out, flush=True)
