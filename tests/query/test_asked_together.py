"""What several aggregates read is asked of the engine at once, and is what each reads by itself."""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

from collections.abc import Mapping, Sequence
from fractions import Fraction
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from tests.query.engines_alike import counted as integers_of
from tests.query.neighbor_tables import statement_of, tallies_of
from tests.support.seams import Aim, Asked, Counted, DeeperRows, Given, Query
from tests.support.seams import counted as reading

import unacorda
from unacorda.bits import SeededBits

STEPS = 10**6
CELLS = 3
SIZES = (900, 40, 0)
VALUES = [np.random.default_rng(seed).integers(0, STEPS + 1, n) for seed, n in enumerate(SIZES)]
AIMS = [Aim(q=Fraction(1, 4), scale=2.0), Aim(q=Fraction(9, 10), scale=1.0, shift=-3)]


def session_of(values: Sequence[Any], **columns: Any) -> unacorda.Session:
    cells = np.repeat(np.arange(len(values)), [len(part) for part in values])
    x = np.concatenate(values).astype(float)
    return unacorda.Session(
        {"t": pa.table({"id": np.arange(len(x)), "cell": cells, "x": x, **columns})},
        unit=unacorda.Person("id", max_rows=1),
        budget=unacorda.PureDP(1_000),
        bits=SeededBits(4),
    )


def ranked(session: unacorda.Session, query: Query) -> tuple[Counted, Any]:
    """The counts of the only ranking, and what is to be closed."""
    tallies = tallies_of(session, query, salt=1)
    (name,) = query.aggregates
    return Given.of(query, tallies).exact(name).rankings[0], tallies


def median(session: unacorda.Session) -> Query:
    query = session.table("t").group_by("cell", keys=range(CELLS))
    return query.agg(m=unacorda.median("x", 0, STEPS, steps=STEPS))


def test_bins_near_an_aim_are_smaller_and_hold_the_same_rows() -> None:
    with session_of(VALUES) as session:
        counted, tallies = ranked(session, median(session))
        asked = counted.near(AIMS)
        assert asked is not None
        assert counted.finer is not None
        counted.sharpen(asked, counted.finer(asked))
        tallies.close()
    seen = 0
    for batch in counted.batches():
        for number, cell in enumerate(batch.cells.tolist()):
            bins, own = batch.bins.of(number), VALUES[cell]
            there = bins.sizes > 0
            lows, sizes = bins.lows[there], bins.sizes[there]
            weights, before = bins.weights[there], bins.before[there]
            ends = lows + sizes
            assert lows[0] == 0
            assert (lows[1:] == ends[:-1]).all()
            assert ends[-1] == STEPS + 1
            for low, end, weight, below in zip(lows, ends, weights, before, strict=True):
                assert weight == np.sum((own >= low) & (own < end))
                assert below == np.sum(own < low)
            # All with rows that reach to where a draw may look, and others are as they were.
            rough = (weights > 0) & (sizes == counted.ranking.sizes[1])
            fine = (weights > 0) & (sizes == 1)
            for aim in AIMS:
                at, reach = float(aim.q) * len(own) + aim.shift, 5 * aim.scale
                hit = (before + weights >= at - reach) & (before <= at + reach)
                assert not (hit & rough).any()
                assert len(own) == 0 or (hit & fine).any()
            assert len(own) < 900 or rough.any()
            seen += 1
    assert seen == CELLS


def test_what_would_be_too_much_is_not_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    with session_of(VALUES) as session:
        counted, tallies = ranked(session, median(session))
        assert counted.near(AIMS) is not None
        assert counted.near([]) is None
        for name, value in (("_EACH", 1.0), ("_MOST_SMALLER", 10), ("MOST_LINES", 1)):
            with monkeypatch.context() as patched:
                patched.setattr(reading, name, value)
                assert counted.near(AIMS) is None, name
        tallies.close()


def test_rankings_of_a_batch_are_read_and_refined_in_one_question_each(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    read: list[list[int]] = []
    refined: list[list[int]] = []
    first, count = DeeperRows.first, DeeperRows.count

    def reads(deeper: DeeperRows, numbers: Sequence[int], cells: tuple[int, int] | None) -> Any:
        read.append(list(numbers))
        return first(deeper, numbers, cells)

    def refines(deeper: DeeperRows, asked: Mapping[int, Asked]) -> Any:
        refined.append(list(asked))
        return count(deeper, asked)

    monkeypatch.setattr(DeeperRows, "first", reads)
    monkeypatch.setattr(DeeperRows, "count", refines)
    source = np.random.default_rng(8)
    x = source.normal(0, 1, 20_000)
    answers: dict[str, float] = {}
    with session_of([x], y=np.exp(x), z=5 * x) as session:
        columns = ("x", "y", "z", "x + y")
        query = session.table("t").agg(
            **{f"q{k}": unacorda.quantiles(c, [0.25, 0.5], -50, 100) for k, c in enumerate(columns)}
        )
        release = session.evaluate(query, budget=unacorda.PureDP(40))
        answers = {name: answer.values[0] for name, answer in release.answers.items()}
    assert read == [[0, 1, 2, 3]]
    assert refined[0] == [0, 1, 2, 3]
    assert len(refined) < 5  # where every draw asked for itself it were 12 and more
    for k, values in enumerate((x, np.exp(x), 5 * x, x + np.exp(x))):
        for q in (25, 50):
            assert abs(np.mean(values < answers[f"q{k}_{q}"]) - q / 100) < 0.005


def test_many_cells_are_read_ranking_by_ranking(monkeypatch: pytest.MonkeyPatch) -> None:
    """Counts that are too many to be held together are not asked for together."""

    asked: list[int] = []
    first = DeeperRows.first

    def reads(deeper: DeeperRows, numbers: Sequence[int], cells: tuple[int, int] | None) -> Any:
        asked.append(len(numbers))
        return first(deeper, numbers, cells)

    monkeypatch.setattr(DeeperRows, "first", reads)
    with session_of(VALUES) as session:
        query = session.table("t").group_by("cell", keys=range(CELLS))
        query = query.agg(a=unacorda.median("x", 0, 100), b=unacorda.median("x", 0, 200))
        session.evaluate(query, budget=unacorda.PureDP(1))
        monkeypatch.setattr("unacorda.query.engines.exact_counts.MOST_LINES", 1)
        session.evaluate(query, budget=unacorda.PureDP(1))
    assert asked == [2, 1, 1]


def test_rows_are_bound_alike_with_columns_as_with_what_is_made_of_them() -> None:
    """The same rows stay, and every expression is computed of them."""
    source = np.random.default_rng(3)
    people, rows = np.arange(400), 5
    table = pa.table(
        {
            "id": np.repeat(people, rows),
            "cell": source.integers(0, 3, len(people) * rows),
            "x": source.integers(0, 50, len(people) * rows).astype(float),
            "y": source.integers(0, 50, len(people) * rows).astype(float),
        }
    )
    with unacorda.Session(
        {"t": table}, unit=unacorda.Person("id", max_rows=2), budget=unacorda.PureDP(1)
    ) as session:
        start = session.table("t").group_by("cell", keys=range(3))
        plain = {"x": unacorda.sum("x", 0, 64), "y": unacorda.sum("y", 0, 64)}
        made = {
            "plus": unacorda.sum("x + y", 0, 128),
            "minus": unacorda.sum("x - y", -64, 64),
            "some": unacorda.count_if("x > y"),
        }
        few, many = start.agg(**plain), start.agg(**plain, **made)
        text = statement_of(session, many, salt=5).bounded
        assert "ORDER BY cell, v0, v1)" in text  # and not by all five
        own, more = (integers_of(session, query, salt=5)["sums"] for query in (few, many))
        other = integers_of(session, few, salt=6)["sums"]
    assert other != own
    scales = set()
    for cell, (x, y) in own.items():
        assert more[cell][:2] == (x, y)
        plus, minus, some = more[cell][2:]
        scales.add((Fraction(plus, x + y), Fraction(minus, x - y)))
        assert 0 < some < 2 * len(people)
    # Integers of sums are in units that follow from the bounds: powers of two.
    ((one, another),) = scales
    for scale in (one, another):
        assert (scale.numerator * scale.denominator).bit_count() == 1
