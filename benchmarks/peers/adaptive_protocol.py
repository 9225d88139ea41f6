"""What every library is asked about one column, and the JSON lines in which it answers.

The tools live in environments of their own, with nothing but NumPy in common. A tool's script
hands ``serve`` its methods by name, "task/method": each a function of the values, of epsilon and of
public facts that gives back a function that releases once. Only that release is timed.
"""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable
from typing import Any

import numpy as np

Release = Callable[[], Any]
Method = Callable[[Any, float, dict[str, float]], Release]
"""Of the values, epsilon, and {"largest": a bound on a value, "level": a good clipping level}."""


def measured(release: Release, releases: int) -> dict[str, Any]:
    """Answers, and the seconds of the quickest."""
    answers, seconds = [], []
    for _ in range(releases):
        began = time.perf_counter()
        answers.append(float(release()))
        seconds.append(time.perf_counter() - began)
    return {"answers": answers, "seconds": min(seconds)}


def serve(methods: dict[str, Method]) -> None:
    """Answer each line {method, values, epsilon, facts, releases} with {answers, seconds}."""
    print(json.dumps(list(methods)), flush=True)
    for line in sys.stdin:
        asked = json.loads(line)
        values = np.load(asked["values"])
        release = methods[asked["method"]](values, asked["epsilon"], asked["facts"])
        print(json.dumps(measured(release, asked["releases"])), flush=True)
