"""What every tool of the benchmark of synthetic tables is asked, and how it is measured.

A process is asked once. It reads rows as the places of their cells, makes synthetic ones within a
budget, writes them in the same form, and answers with seconds of its processors (those of compilers
too) and megabytes at the peak above those of its libraries and the rows.
"""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

import json
import resource
import sys
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np


@dataclass(frozen=True)
class Question:
    """codes: path of an .npy file of shape (rows, columns); sizes: how many cells each column has.

    rho: the budget, one row being one person that is added or removed; rows: where the synthetic
    rows are to be written, in the form of `codes`; tables: of what another tool measured, a path of
    an .npz file, for tools that fit alone; limit: seconds of processor time, after which the
    process ends.
    """

    method: str
    codes: str
    sizes: list[int]
    rho: float
    seed: int
    rows: str
    tables: str
    limit: float

    @property
    def names(self) -> list[str]:
        """Of the columns."""
        return [f"c{place}" for place in range(len(self.sizes))]


Method = Callable[[Question, np.ndarray], np.ndarray]


def serve(version: str, methods: Mapping[str, Method]) -> None:
    """Say what can be asked, then answer one question a line."""
    out, sys.stdout = sys.stdout, sys.stderr  # libraries may print what they like
    print(json.dumps({"version": version, "methods": list(methods)}), file=out, flush=True)
    for line in sys.stdin:
        question = Question(**json.loads(line))
        codes = np.load(question.codes)
        before, began = megabytes(), time.process_time()
        most = round(began + question.limit)
        resource.setrlimit(resource.RLIMIT_CPU, (most, most + 5))
        try:
            made = methods[question.method](question, codes)
            found = {"cpu": time.process_time() - began, "megabytes": megabytes() - before}
            np.save(question.rows, np.asarray(made, dtype=np.int64))
        except Exception as error:  # a peer's failure is told, and the others go on
            found = {"failed": f"{type(error).__name__}: {error}"[:300]}
        print(json.dumps(found), file=out, flush=True)


def megabytes() -> float:
    """The most that this process has held so far."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
