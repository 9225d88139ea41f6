"""What several aggregates of one question read is what each reads by itself."""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pyarrow as pa
import pytest
from tests.query.engines_alike import counted as integers_of
from tests.query.neighbor_tables import statement_of

import unacorda
from unacorda.bits import SeededBits


@pytest.mark.long
def test_rankings_of_several_columns_are_each_their_own() -> None:
    """Four columns, two quantiles each, some of them on one grid."""
    x = np.random.default_rng(8).normal(0, 1, 20_000)
    columns = {"x": x, "y": np.exp(x), "z": 5 * x}
    with unacorda.Session(
        {"t": pa.table({"id": np.arange(len(x)), **columns})},
        unit=unacorda.Person("id", max_rows=1),
        budget=unacorda.PureDP(1_000),
        bits=SeededBits(4),
    ) as session:
        asked = ("x", "y", "z", "x + y")
        query = session.table("t").agg(
            **{f"q{k}": unacorda.quantiles(c, [0.25, 0.5], -50, 100) for k, c in enumerate(asked)},
            again=unacorda.median("y", -50, 100),
        )
        release = session.evaluate(query, budget=unacorda.PureDP(40))
        assert len(query.rankings) == 4
    answers = {name: answer.values[0] for name, answer in release.answers.items()}
    for k, values in enumerate((*columns.values(), x + np.exp(x))):
        for q in (25, 50):
            assert abs(np.mean(values < answers[f"q{k}_{q}"]) - q / 100) < 0.005
    assert answers["again"] == pytest.approx(answers["q1_50"], abs=0.01)


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
