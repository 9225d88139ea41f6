"""What every library of mechanisms is asked, and the JSON lines in which it answers.

The tools live in environments of their own, so this file needs nothing but the standard library. A
tool's script hands ``serve`` its methods by name, "task/method": each a function of the task's
data that makes it ready and gives back a function that releases once. Only that release is timed.
"""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

import json
import math
import random
import statistics
import sys
import time
from collections.abc import Callable
from typing import Any

EPSILON = 1.0
DELTA = 1e-6
CATEGORIES = 4
LOWER, UPPER = 0.0, 100.0
MOST_CALLS = 50
LONG_ENOUGH = 0.2  # seconds that a timed batch of fast releases should last

Release = Callable[[], Any]
Method = Callable[[list[Any]], Release]


def data_of(task: str, size: int) -> list[Any]:
    """Scores, true answers, rows, people per key or values: the same for every tool."""
    source = random.Random(f"{task} {size}")
    match task:
        case "selection":
            return [source.uniform(0, 100) for _ in range(size)]
        case "threshold":
            return [float(source.randrange(0, 100)) for _ in range(size)]  # all below 1000
        case "response":
            return [min(int(source.expovariate(1.0)), CATEGORIES - 1) for _ in range(size)]
        case "binary response":
            return [source.random() < 0.2 for _ in range(size)]
        case "quantile":
            return [min(max(source.gauss(40, 12), LOWER), UPPER) for _ in range(size)]
        case "keys":
            return [1 + i % 40 for i in range(size)]
        case _:  # noise
            return [0.0] * size


def error_of(task: str, data: list[Any], released: list[Any]) -> float:
    """How far the answers are from the truth; see `ERRORS` for the measure of each task."""
    match task:
        case "selection":
            best = max(data)
            return statistics.fmean(best - data[chosen] for chosen in released)
        case "quantile":
            ranks = [sum(x < answer for x in data) for answer in released]
            return statistics.fmean(abs(rank - len(data) / 2) for rank in ranks)
        case "response" | "binary response":
            categories = CATEGORIES if task == "response" else 2
            return _frequency_error(data, released, categories)
        case "keys":
            return statistics.fmean(sum(map(bool, kept)) / len(data) for kept in released)
        case "noise":
            return math.sqrt(statistics.fmean(x * x for answer in released for x in answer))
        case _:
            return math.nan


def _frequency_error(data: list[Any], released: list[Any], categories: int) -> float:
    """RMSE of the unbiased estimate of all shares, from plain reports of category indices."""
    odds = math.exp(EPSILON)
    truth, lie = odds / (odds + categories - 1), 1 / (odds + categories - 1)
    squares = []
    for reports in released:
        for category in range(categories):
            share = sum(int(x) == category for x in data) / len(data)
            told = sum(int(x) == category for x in reports) / len(data)
            squares.append(((told - lie) / (truth - lie) - share) ** 2)
    return math.sqrt(statistics.fmean(squares))


def serve(methods: dict[str, Method], *, limit: float) -> None:
    """Answer each line {method, size, releases} with {seconds, size} or {error}.

    releases: 0 to be timed, with as few rows as the limit leaves time for; else how many answers
    the error is taken over.
    """
    print(json.dumps(sorted(methods)), flush=True)
    for line in sys.stdin:
        asked = json.loads(line)
        name, size = asked["method"], asked["size"]
        task = name.split("/")[0]
        if asked["releases"]:
            data = data_of(task, size)
            release = methods[name](data)
            released = [_plain(release()) for _ in range(asked["releases"])]
            answer = {"error": error_of(task, data, released)}
        else:
            answer = _timed(methods[name], task, size, limit)
        print(json.dumps(answer), flush=True)


def _timed(method: Method, task: str, size: int, limit: float) -> dict[str, float]:
    few = min(size, 1000)
    release = method(data_of(task, few))
    release()
    began = time.perf_counter()
    release()
    pace = (time.perf_counter() - began) / few
    if task not in {"selection", "quantile"}:  # whose work does not split
        size = min(size, max(few, int(limit / pace)))
    release = method(data_of(task, size))
    began = time.perf_counter()
    release()
    once = time.perf_counter() - began
    calls = max(1, min(MOST_CALLS, int(LONG_ENOUGH / once)))
    began = time.perf_counter()
    for _ in range(calls):
        release()
    return {"seconds": (time.perf_counter() - began) / calls, "size": size}


def _plain(answer: Any) -> Any:
    return answer.tolist() if hasattr(answer, "tolist") else answer
