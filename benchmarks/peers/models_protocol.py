"""What every tool of the models benchmark is asked, and the JSON lines in which it answers.

A question names a model, two .npy files with one row a person, bounds that hold for nearly all
numbers, and epsilon; the answer is the intercept and the coefficients, and the seconds of the fit.
"""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np

Fit = Callable[["Question", np.ndarray, np.ndarray], np.ndarray]

DELTA = 1e-6
"""For tools whose guarantee has one; diffprivlib's are pure."""


@dataclass(frozen=True)
class Question:
    """model: "linear" or "logistic"; x, y: paths; reach: of a feature; span: of the target."""

    model: str
    x: str
    y: str
    reach: float
    span: float
    epsilon: float


def serve(version: str, fits: Mapping[str, Fit]) -> None:
    """Say what can be asked, then answer one question a line; loading is not timed."""
    out, sys.stdout = sys.stdout, sys.stderr  # libraries may print what they like
    print(json.dumps({"version": version, "models": list(fits)}), file=out, flush=True)
    for line in sys.stdin:
        question = Question(**json.loads(line))
        x, y = np.load(question.x), np.load(question.y)
        began = time.perf_counter()
        found = fits[question.model](question, x, y)
        seconds = time.perf_counter() - began
        answer = {"parameters": np.ravel(found).tolist(), "seconds": seconds}
        print(json.dumps(answer), file=out, flush=True)
