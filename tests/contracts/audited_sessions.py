"""What a session does besides answering about public groups: asked often enough for an audit.

Copies of a table about a few people lie side by side in a wide one, so that one question about
keys or parts is as many independent runs. Fits and descriptions are asked for one by one.
"""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

import datetime as dt
import itertools
import json
import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np
import pyarrow as pa
from tests.contracts.audited_fits import ends, numbers_of
from tests.support.seams import Description, SuggestedBounds, Unit

import unacorda
from unacorda import GDP, ApproxDP, PureDP, SeededBits, inference
from unacorda.inference.losses import LogCosh
from unacorda.privacy.guarantees import Guarantee

__all__ = [
    "DOORS",
    "Door",
    "answered_over_time",
    "bounds_suggested",
    "described",
    "fits",
    "keys_found",
    "parts_asked",
    "synthesized",
    "synthesized_in_found_bins",
]

Sample = Callable[[Any, int], Any]
People = Mapping[str, Sequence[str]]
"""By name the keys of her rows."""

PARTS = "abcdef"
CROWD: People = {"ann": ["a"], "bea": ["a", "b"], "cyd": ["b"], "dee": ["a"]}
IN_ALL = list(PARTS) * 2
ABSENT = -99.0


@dataclass(frozen=True, kw_only=True)
class Door:
    """sample: from a budget to what is released of either table; pairs: of tables; claim: what is
    promised; louder: a budget under which it has to be found broken; runs: with each table, for
    learning and for the verdict alike.
    """

    sample: Callable[[Guarantee], Sample]
    pairs: Sequence[tuple[Any, Any]]
    claim: Guarantee
    louder: Guarantee
    runs: int


def _copies(people: People, count: int) -> pa.Table:
    rows = [(name, key) for name, keys in people.items() for key in keys]
    names, keys = ([row[place] for row in rows] * count for place in (0, 1))
    copy = np.repeat(np.arange(count), len(rows)).tolist()
    return pa.table(
        {
            "copy": copy,
            "who": [f"{c} {name}" for c, name in zip(copy, names, strict=True)],
            "part": keys,
            "key": [f"{c} {key}" for c, key in zip(copy, keys, strict=True)],
        }
    )


def keys_found(unit: Unit, *, max_groups: int) -> Callable[[Guarantee], Sample]:
    """Which keys a question finds, and the noisy numbers of people beside them."""

    def of(budget: Guarantee) -> Sample:
        seeds = itertools.count(1)

        def sample(people: People, count: int) -> Any:
            table, bits = _copies(people, count), SeededBits(next(seeds))
            found = unacorda.private_keys(max_groups=max_groups)
            with unacorda.Session({"t": table}, unit=unit, budget=budget, bits=bits) as session:
                query = (
                    session.table("t").group_by("key", keys=found).agg(n=unacorda.count_people())
                )
                told = session.evaluate(query, budget=budget).to_dicts()
            counts = np.full((count, len(PARTS)), ABSENT)
            for row in told:
                copy, key = row["key"].split()
                counts[int(copy), PARTS.index(key)] = row["n"]
            return np.hstack([counts, (counts != ABSENT).sum(axis=1, keepdims=True)])

        return sample

    return of


def parts_asked(unit: Unit, *, max_parts: int) -> Callable[[Guarantee], Sample]:
    """Counts of all parts of a split, each for an equal share of what the split then costs."""

    def of(budget: Guarantee) -> Sample:
        seeds = itertools.count(1)
        owed = max_parts * (2 if unit.neighbors is unacorda.ReplaceOne else 1)
        each = budget * Fraction(1, owed)

        def sample(people: People, count: int) -> Any:
            table, bits = _copies(people, count), SeededBits(next(seeds))
            with unacorda.Session({"t": table}, unit=unit, budget=budget, bits=bits) as session:
                parts = session.split("part", keys=list(PARTS), budget=each, max_parts=max_parts)
                told = [_counts(part, count, budget=each) for part in parts.values()]
                assert session.spent == budget
            counts = np.column_stack(told)
            return np.hstack([counts, counts.sum(axis=1, keepdims=True)])

        return sample

    return of


def _counts(part: unacorda.Session, count: int, *, budget: Guarantee) -> Any:
    groups = part.table("t").group_by("copy", keys=range(count))
    told = part.evaluate(groups.agg(n=unacorda.count()), budget=budget).to_arrow()
    assert told["copy"].to_pylist() == list(range(count))
    return told["n"].to_numpy()


def values_asked(unit: Unit) -> Callable[[Guarantee], Sample]:
    """Counts and sums of values that are computed from all rows of a person."""

    def of(budget: Guarantee) -> Sample:
        seeds = itertools.count(1)

        def sample(people: People, count: int) -> Any:
            table, bits = _copies(people, count), SeededBits(next(seeds))
            with unacorda.Session({"t": table}, unit=unit, budget=budget, bits=bits) as session:
                values = session.table("t").per_person(
                    copy=unacorda.min_("copy"), rows=unacorda.count_(), last=unacorda.max_("part")
                )
                groups = values.group_by("copy", keys=range(count))
                query = groups.agg(
                    n=unacorda.count(),
                    s=unacorda.sum("rows", 0, len(IN_ALL)),
                    f=unacorda.count_if("last = 'f'"),
                )
                told = session.evaluate(query, budget=budget).to_arrow()
            return np.column_stack([told[name].to_numpy() for name in ("n", "s", "f")])

        return sample

    return of


def described(budget: Guarantee) -> Sample:
    """Everything that a first look at a column of numbers tells; bars last, as their number varies
    with whether the column was found to hold whole numbers.
    """
    seeds = itertools.count(1)

    def sample(values: Mapping[str, float], count: int) -> Any:
        table = pa.table({"who": list(values), "x": list(values.values())})
        options: Any = {"unit": unacorda.Person("who", max_rows=1), "bits": SeededBits(next(seeds))}
        options["columns"] = {"x": unacorda.Bounds(0, 10)}
        with unacorda.Session({"t": table}, budget=budget * count, **options) as session:
            told = [session.describe("t", budget=budget) for _ in range(count)]
        return _padded([_looked_at(one) for one in told])

    return sample


def _looked_at(told: Description) -> list[float]:
    (column,) = (one for one in told.columns if one.name == "x")
    counts = [told.people.value, told.rows.value]
    more = [one.value if one else np.nan for one in (column.present, column.mean)]
    bars = [bar.count.value for bar in column.bars]
    return [*counts, *more, *map(float, column.quantiles.values()), *bars]


def _padded(lines: Sequence[Sequence[float]]) -> Any:
    longest = max(map(len, lines))
    return np.array([[*line, *[np.nan] * (longest - len(line))] for line in lines])


def bounds_suggested(budget: Guarantee) -> Sample:
    """What a suggestion of a bound on rows tells, for half of twice the budget."""
    seeds = itertools.count(1)

    def sample(rows: Mapping[str, int], count: int) -> Any:
        table = pa.table({"who": [name for name, many in rows.items() for _ in range(many)]})
        options: Any = {"unit": unacorda.Person("who", max_rows=8), "bits": SeededBits(next(seeds))}
        # with room for the question, too, which is not asked
        with unacorda.Session({"t": table}, budget=budget * (count + 1), **options) as session:
            query = session.table("t").agg(n=unacorda.count())
            told = [
                session.suggest_bounds(query, budget=budget * 2, share="0.5") for _ in range(count)
            ]
        return np.array([_suggested(one) for one in told])

    return sample


def _suggested(told: SuggestedBounds) -> list[float]:
    kept = told.kept
    return [told.max_rows, *kept.histogram.counts, kept.share, kept.at_most, kept.at_least]


def synthesized(budget: Guarantee) -> Sample:
    """Counts of the model, how many rows there are, and the measured error of a synthetic table."""
    seeds = itertools.count(1)
    columns = {"x": unacorda.Categories(["a", "b"]), "y": unacorda.Categories(["u", "v"])}

    def sample(values: Mapping[str, str], count: int) -> Any:
        cells = {"x": [one[0] for one in values.values()], "y": [one[1] for one in values.values()]}
        options: Any = {"unit": unacorda.Person("who", max_rows=1), "bits": SeededBits(next(seeds))}
        table = pa.table({"who": list(values), **cells})
        with unacorda.Session(
            {"t": table}, budget=budget * count, columns=columns, **options
        ) as session:
            asked = session.table("t").synthesize(["x", "y"], workload=2)
            made = [session.evaluate(asked, budget=budget) for _ in range(count)]
        counts = [one.table("x", "y").counts.ravel() for one in made]
        more = [[one.row_count, one.errors.mean.error if one.errors else 0.0] for one in made]
        return np.hstack([np.array(counts), np.array(more, dtype=float)])

    return sample


def synthesized_in_found_bins(budget: Guarantee) -> Sample:
    """Edges that are found, and the counts of the bins between them."""
    seeds = itertools.count(1)

    def sample(values: Mapping[str, float], count: int) -> Any:
        options: Any = {"unit": unacorda.Person("who", max_rows=1), "bits": SeededBits(next(seeds))}
        table = pa.table({"who": list(values), "x": list(values.values())})
        facts = {"x": unacorda.Bounds(0, 10)}
        with unacorda.Session(
            {"t": table}, budget=budget * count, columns=facts, **options
        ) as session:
            asked = session.table("t").synthesize(["x"], bins={"x": 3}, finding="0.5", report=0)
            made = [session.evaluate(asked, budget=budget) for _ in range(count)]
        lines = []
        for one in made:
            edges = one.plan.domain.columns[0].edges[1:-1]  # type: ignore[union-attr]
            counts = one.marginals[(0,)].counts
            lines.append([*np.resize(edges, 2), *np.resize(counts, 3)])
        return np.array(lines)

    return sample


STEPS = 6
COUNTED = unacorda.OverTime(max_steps=3)


def answered_over_time(budget: Guarantee) -> Sample:
    """All steps of a series, and how far they lie along what a person of the first steps moves."""
    seeds = itertools.count(1)

    def sample(people: Mapping[str, Sequence[int]], count: int) -> Any:
        start = dt.date(2025, 1, 1)
        rows = [
            (copy, f"{copy} {name}", start + dt.timedelta(days=day))
            for copy in range(count)
            for name, days in people.items()
            for day in days
        ]
        copies, who, seen = map(list, zip(*rows, strict=True))
        table = pa.table({"copy": copies, "who": who, "seen": pa.array(seen, pa.date32())})
        options: Any = {"unit": unacorda.Person("who", max_rows=1), "bits": SeededBits(next(seeds))}
        with unacorda.Session({"t": table}, budget=budget, **options) as session:
            query = session.table("t").group_by("copy", keys=range(count)).agg(n=unacorda.count())
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                series = session.over_time(
                    query,
                    name="all",
                    by="seen",
                    start="2025-01-01",
                    steps=STEPS,
                    person=COUNTED,
                    budget=budget,
                )
            told = [json.loads(line)["n"] for line in series.answer_until("2025-01-06").released]
            assert session.spent == budget
        found = np.array(told).T * 2.0 ** series.plan.noises["n"].grid_log2
        column = series.plan.encoder.coefficients
        moved = np.convolve(np.ones(3), column)[:STEPS]
        along = found @ moved
        return np.hstack([found, along[:, None]])

    return sample


def fits(make: Callable[[Guarantee], Any]) -> Callable[[Guarantee], Sample]:
    """What a model learned from a table holds after the fit."""

    def of(budget: Guarantee) -> Sample:
        seeds = itertools.count(1)

        def sample(data: Any, count: int) -> Any:
            x, y = data
            who = np.arange(len(y))
            table = pa.table({"who": who, "a": x[:, 0], "b": x[:, 1], "y": y})
            told = []
            with unacorda.Session(
                {"t": table},
                unit=unacorda.Person("who", max_rows=1, neighbors=unacorda.ReplaceOne),
                budget=budget * count,
                columns={"a": unacorda.Bounds(-1, 1), "b": unacorda.Bounds(-1, 1)},
                bits=SeededBits(next(seeds)),
            ) as session:
                for _ in range(count):
                    model = session.fit(make(budget), "t", features=["a", "b"], target="y")
                    told.append(list(numbers_of(model)))
            return _padded(told)

        return sample

    return of


class Scored:
    """A public classifier."""

    coef_ = np.array([[1.0, -1.0]])
    intercept_ = np.zeros(1)
    classes_ = np.array([0, 1])

    def predict_proba(self, x: Any) -> Any:
        """What the coefficients say, at public points; of rows a session asks for sums alone."""
        second = 1 / (1 + np.exp(-(x @ self.coef_[0])))
        return np.column_stack([1 - second, second])


def _at_a_quartile() -> tuple[Any, Any]:
    """Features of which a quarter of the rows, or one too few of them, are at the lower end."""
    x = np.where(np.arange(42)[:, None] < 11, -1.0, [0.5, 0.5])
    other = x.copy()
    other[10] = 0.5
    return (x, np.zeros(42)), (other, np.zeros(42))


def _with_eve(*keys: str, people: People = CROWD) -> People:
    return {**people, "eve": keys}


PERSON = unacorda.Person("who", max_groups=1, max_rows_per_group=1)
REPLACEABLE = unacorda.Person("who", max_rows=2, neighbors=unacorda.ReplaceOne)
CROWDS = [dict.fromkeys(names, PARTS) for names in ("uvw", "uvwx", "uvwxy", "opqrstuvwxyz")]
SPREAD = {f"{key}{number}": key for key in PARTS for number in range(8)}
PAIRS = [
    (_with_eve(*IN_ALL), CROWD),
    *((_with_eve("a", people=some), some) for some in ({"ann": "a"}, dict.fromkeys("wxyz", "a"))),
    (_with_eve(*PARTS, people=SPREAD), SPREAD),
]
KEYS: dict[str, Any] = {"claim": ApproxDP(2, "0.01"), "louder": ApproxDP(8, "0.3"), "runs": 2000}
SPLIT: dict[str, Any] = {"claim": PureDP(2), "louder": PureDP(12), "runs": 2000}
FIT: dict[str, Any] = {"claim": GDP("1.5"), "louder": GDP(400), "runs": 100}
NORMAL_LOSS = LogCosh(1.0)

DOORS: Mapping[str, Door] = {
    "private keys": Door(
        sample=keys_found(PERSON, max_groups=1),
        pairs=PAIRS,
        **KEYS,
    ),
    "private keys, several a person": Door(
        sample=keys_found(unacorda.Person("who", max_rows=6), max_groups=6),
        pairs=[(_with_eve(*PARTS, people=some), some) for some in CROWDS],
        **KEYS,
    ),
    "private keys, people replaced": Door(
        sample=keys_found(REPLACEABLE, max_groups=1),
        pairs=[(_with_eve("a"), _with_eve("f")), (_with_eve("b"), _with_eve("a"))],
        **KEYS,
    ),
    "values of people": Door(
        sample=values_asked(unacorda.Person("who", max_rows=2)),
        pairs=[(_with_eve(*IN_ALL), CROWD), (_with_eve("f"), CROWD)],
        **SPLIT,
    ),
    "values of people, replaced": Door(
        sample=values_asked(REPLACEABLE),
        pairs=[(_with_eve("a"), _with_eve(*IN_ALL))],
        **SPLIT,
    ),
    "split": Door(
        sample=parts_asked(unacorda.Person("who", max_rows=1), max_parts=1),
        pairs=[(_with_eve(*IN_ALL), CROWD), (_with_eve("f"), CROWD)],
        **SPLIT,
    ),
    "split, several parts": Door(
        sample=parts_asked(unacorda.Person("who", max_rows=1), max_parts=3),
        pairs=[(_with_eve(*IN_ALL), CROWD)],
        **SPLIT,
    ),
    "split, people replaced": Door(
        sample=parts_asked(
            unacorda.Person("who", max_rows=1, neighbors=unacorda.ReplaceOne), max_parts=1
        ),
        pairs=[(_with_eve("a"), _with_eve("f")), (_with_eve(*IN_ALL), _with_eve("f"))],
        **SPLIT,
    ),
    "describe": Door(
        sample=described,
        pairs=[({"ann": 0.0, "bea": 5.0, "eve": 10.0}, {"ann": 0.0, "bea": 5.0})],
        claim=PureDP(2),
        louder=PureDP(80),
        runs=150,
    ),
    "synthesize": Door(
        sample=synthesized,
        pairs=[({"ann": "au", "bea": "bv", "eve": "av"}, {"ann": "au", "bea": "bv"})],
        claim=PureDP(2),
        louder=PureDP(160),
        runs=150,
    ),
    "synthesize, bins found": Door(
        sample=synthesized_in_found_bins,
        pairs=[({"ann": 0.0, "bea": 5.0, "eve": 10.0}, {"ann": 0.0, "bea": 5.0})],
        claim=PureDP(2),
        louder=PureDP(80),
        runs=150,
    ),
    "suggest_bounds": Door(
        sample=bounds_suggested,
        pairs=[({"ann": 2, "bea": 3, "eve": 40}, {"ann": 2, "bea": 3})],
        claim=PureDP(2),
        louder=PureDP(80),
        runs=150,
    ),
    "over_time": Door(
        sample=answered_over_time,
        pairs=[
            ({"ann": [0, 2], "eve": [0, 0, 1, 2, 3, 4, 5]}, {"ann": [0, 2]}),
            ({"ann": [0, 2], "eve": [1, 3, 4, 5]}, {"ann": [0, 2]}),
        ],
        claim=GDP("1.5"),
        louder=GDP(3),
        runs=2_000,
    ),
    "LinearRegression": Door(
        sample=fits(lambda b: inference.LinearRegression(budget=b, target_bounds=(-2, 2))),
        pairs=[ends(300, 2.0, -2.0)],
        **FIT,
    ),
    "LogisticRegression": Door(
        sample=fits(lambda b: inference.LogisticRegression(budget=b, classes=(0, 1))),
        pairs=[ends(300, 1.0, 0.0)],
        **FIT,
    ),
    "TableDiagnosis": Door(
        sample=fits(lambda b: inference.diagnosis(Scored(), budget=b, bins=2)),
        pairs=[ends(30, 1.0, 0.0)],
        **FIT,
    ),
    "PoissonRegression": Door(
        sample=fits(lambda b: inference.PoissonRegression(budget=b, largest=3)),
        pairs=[ends(300, 3.0, 0.0)],
        **{**FIT, "louder": GDP(4000)},
    ),
    "QuantileRegression": Door(
        sample=fits(lambda b: inference.QuantileRegression(budget=b, target_bounds=(-2, 2))),
        pairs=[ends(300, 2.0, -2.0)],
        **{**FIT, "louder": GDP(40000)},
    ),
    "MEstimator": Door(
        sample=fits(
            lambda b: inference.MEstimator(loss=NORMAL_LOSS, budget=b, target_bounds=(-9, 9))
        ),
        pairs=[ends(300, 9.0, -9.0)],
        **FIT,
    ),
    "RidgeRegression": Door(
        sample=fits(
            lambda b: inference.RidgeRegression(target_bounds=(-2, 2), penalty=0.01, budget=b)
        ),
        pairs=[ends(300, 9.0, -9.0)],
        **FIT,
    ),
}
"""By what is asked, models by their names."""
