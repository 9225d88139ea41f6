"""Answers over time: errors beside other ways, and what opening a series and a step take.

    python benchmarks/over_time.py [--quick]

Errors are root mean squares over 365 steps at rho 1/2, by formula, and of simulated noise where
`simulated` says so. "Asked anew" is a question each step for rho / 365, with a person's rows in k
of them; "tree" is `BinaryTree` with Honaker's estimate. Times are CPU seconds of one thread.
"""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

import argparse
import math
import resource
import time
import warnings
from collections.abc import Callable
from fractions import Fraction
from importlib import resources
from typing import Any

import numpy as np

import unacorda
from tables import Report, add_json
from unacorda import OverTime, SeededBits, window
from unacorda.accounting import rho as rho_of
from unacorda.mechanisms.correlated import BinaryTree
from unacorda.over_time.bounds import Wanted
from unacorda.over_time.encoders import Encoder, choose_encoder
from unacorda.over_time.noise import SeriesNoise
from unacorda.over_time.sensitivity import squared_sensitivity

STEPS = 365


def root_mean_square(encoder: Encoder, person: OverTime, kind: Wanted) -> float:
    """Of the errors of all sums of a kind, at rho 1/2."""
    square = squared_sensitivity(encoder.column, person, steps=STEPS, replaced=False, signed=False)
    return math.sqrt(square * Fraction(float(np.mean(encoder.deviations(kind, STEPS) ** 2))))


def tree_error(days: int) -> float:
    """Of the binary tree's totals."""
    tree = BinaryTree(sigma=1, l2_sensitivity=1, steps=STEPS, participations=days)
    scale = math.sqrt(2 * float(rho_of(tree.event)))
    return scale * math.sqrt(float(np.mean(tree.standard_errors() ** 2)))


def simulated(person: OverTime, kind: Wanted, streams: int) -> float:
    """The root mean square of errors of simulated noise, at rho 1/2."""
    encoder = choose_encoder(person, (kind,), steps=STEPS)
    square = squared_sensitivity(encoder.column, person, steps=STEPS, replaced=False, signed=False)
    noise = SeriesNoise(encoder=encoder, sigma=Fraction(math.sqrt(square)))
    bits, empty = SeededBits(1), [[0] * streams] * STEPS
    released = [noise.release(empty[: step + 1], bits=bits) for step in range(STEPS)]
    return float(np.sqrt(np.mean(noise.estimates(released, kind) ** 2)))


def errors(report: Report, streams: int) -> None:
    """Report errors of totals and of windows of 28 days, for k days of one row."""
    row = report.table("errors", [("", ""), ("k = 1", ".1f"), ("10", ".1f"), ("30", ".1f")])
    plain, root = Encoder.of_power(Fraction(0), 1), Encoder.of_power(Fraction(1, 2), STEPS)
    persons = [OverTime(max_steps=days) for days in (1, 10, 30)]
    for kind in ("totals", window(28)):
        anew = [19.105 * min(days, 28 if kind != "totals" else days) for days in (1, 10, 30)]
        row(f"{kind}: asked anew every day, rho / T each", *anew)
        for name, encoder in (("noisy steps, summed", plain), ("square root", root)):
            found = [root_mean_square(encoder, person, kind) for person in persons]
            row(f"{kind}: {name}", *found)
        if kind == "totals":
            row(f"{kind}: tree", *(tree_error(days) for days in (1, 10, 30)))
        best = [choose_encoder(person, (kind,), steps=STEPS) for person in persons]
        pairs = zip(best, persons, strict=True)
        row(f"{kind}: over_time", *(root_mean_square(e, p, kind) for e, p in pairs))
        row(f"{kind}: over_time, simulated", *(simulated(p, kind, streams) for p in persons))


def times(report: Report) -> None:
    """Report times over the flights of 2013, bundled with the package."""
    row = report.table("seconds", [("CPU seconds of one thread, DuckDB", ""), ("", ".2f")])

    def timed(name: str, work: Callable[[], Any]) -> Any:
        began = time.process_time()
        found = work()
        row(name, time.process_time() - began)
        return found

    flights = resources.files("unacorda.cli") / "data" / "flights.parquet"
    unit = unacorda.Person("tailnum", max_rows=1)
    budget = unacorda.ZCDP(2)
    with unacorda.Session({"f": str(flights)}, unit=unit, budget=budget, threads=1) as session:
        query = session.table("f").agg(n=unacorda.count())
        asked: dict[str, Any] = {
            "by": "make_date(2013, month, day)",
            "start": "2013-01-01",
            "steps": STEPS,
            "person": OverTime(max_steps=10),
            "wanted": ("totals", window(28)),
            "budget": unacorda.ZCDP("0.5"),
        }
        warnings.simplefilter("ignore")  # a ledger in memory will do
        session.explain_over_time(query, **{**asked, "steps": 7, "wanted": "totals"})  # imports
        series = timed("opening, T = 365", lambda: session.over_time(query, name="x", **asked))
        timed("364 steps at once", lambda: series.answer_until("2013-12-30"))
        timed("the last step alone, 336,776 flights", lambda: series.answer("2013-12-31"))
        of_kept = {**asked, "kept": "0.05"}
        other = timed("opening with kept=", lambda: session.over_time(query, name="y", **of_kept))
        other.answer_until("2013-12-30")
        timed("the last step alone with kept=", lambda: other.answer("2013-12-31"))
        long = {**asked, "steps": 10_000, "start": "1990-01-01"}
        before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        timed("opening, T = 10,000", lambda: session.explain_over_time(query, **long))
    noise = SeriesNoise(encoder=Encoder.of_power(Fraction(2, 5), 64), sigma=Fraction(20))
    bits, released = SeededBits(1), list[list[int]]()

    def stream() -> None:
        empty = [[1]] * 64
        released.extend(noise.release(empty[: n + 1], bits=bits) for n in range(10_000))
        noise.estimates(released, "totals")

    timed("noise and totals of 10,000 steps, 64 bands", stream)
    after = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    print(f"\nMore memory for both: {(after - before) / 1_024:.0f} MiB")


def main() -> None:
    """Print times, then errors."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--quick", action="store_true", help="simulate few streams")
    add_json(parser)
    given = parser.parse_args()
    with Report(__file__, given.json) as report:
        times(report)  # first, while nothing is known of any encoder
        print()
        errors(report, 5 if given.quick else 60)


if __name__ == "__main__":
    main()
