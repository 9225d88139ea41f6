"""A missing value is missing: no aggregate and no picture takes it for a number.

GREATEST and LEAST pass over NULL, so that GREATEST(NULL, 0) is 0. Where SQL that the package writes
takes the greater or the lesser of a value that may be NULL, the value is asked about before.
"""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pandas as pd
import pytest
import sqlglot
from sqlglot import exp
from tests.support.cases import in_subtests
from tests.support.seams import Bins

import unacorda
from unacorda.inference import LinearRegression

ROWS = 400
LOUD = unacorda.ZCDP(10**6)
BOUNDS = {"x": unacorda.Bounds(-5, 50), "y": unacorda.Bounds(-5, 50)}

AGGREGATES: dict[str, Callable[[], Any]] = {
    "count_people": lambda: unacorda.count_people("x"),
    "sum": lambda: unacorda.sum("x", 1, 20),
    "mean": lambda: unacorda.mean("x", 1, 20),
    "variance": lambda: unacorda.variance("x", 1, 20),
    "covariance": lambda: unacorda.covariance("x", "y", (1, 20), (1, 20)),
    "correlation": lambda: unacorda.correlation("x", "y", (1, 20), (1, 20)),
    "weighted_mean": lambda: unacorda.weighted_mean("x", "y", (1, 20), (1, 20)),
    "ratio": lambda: unacorda.ratio("x", "y", (1, 20), (1, 20)),
    "vector_sum": lambda: unacorda.vector_sum(["x", "y"], norm=30),
    "proportion": lambda: unacorda.proportion("x > 5"),
    "count_if": lambda: unacorda.count_if("x < 5"),
    "median": lambda: unacorda.median("x", 0, 20),
    "quantiles": lambda: unacorda.quantiles("x", ["0.05", "0.5"], 0, 20),
    "min": lambda: unacorda.min("x", 0, 20),
    "max": lambda: unacorda.max("x", 0, 20),
    "histogram": lambda: unacorda.histogram("x", edges=[0, 5, 10, 15, 20]),
    "count_distinct": lambda: unacorda.count_distinct("x"),
    "top": lambda: unacorda.top("x", 3, values=list(range(20))),
    "find_bounds": lambda: unacorda.find_bounds("x"),
    "sum without bounds": lambda: unacorda.sum("z"),
}


def table(*, missing: int) -> pd.DataFrame:
    """People with numbers from 5 to 15, and others without: a 0 for NULL would be seen."""
    rng = np.random.default_rng(1)
    people = ROWS + missing
    frame = pd.DataFrame({"id": np.arange(people), "g": np.arange(people) % 2})
    for name in ("x", "y", "z"):
        values = [*rng.integers(5, 16, ROWS).tolist(), *[None] * missing]
        frame[name] = pd.Series(values, dtype="Int64")
    return frame


def opened(frame: pd.DataFrame) -> unacorda.Session:
    return unacorda.Session(
        {"t": frame},
        unit=unacorda.Person("id", max_rows=2),
        budget=unacorda.ZCDP(10**9),
        columns=BOUNDS,
        bits=unacorda.SeededBits(5),
    )


@pytest.mark.long
@in_subtests("name", AGGREGATES)
def test_rows_without_a_value_move_no_aggregate_of_it(name: str) -> None:
    found = []
    for missing in (0, 300):
        with opened(table(missing=missing)) as session:
            query = session.table("t").agg(a=AGGREGATES[name]())
            release = session.evaluate(query, budget=LOUD)
            (first, *_) = release.answers.values()
            found.append(first.intervals if first.is_range else list(first.values))
    assert np.asarray(found[1], dtype=float) == pytest.approx(
        np.asarray(found[0], dtype=float), rel=1e-2, abs=1e-2
    )


@pytest.mark.long
def test_rows_without_a_value_move_no_fit() -> None:
    found = []
    for missing in (0, 300):
        with opened(table(missing=missing)) as session:
            model = LinearRegression(budget=LOUD)
            session.fit(model, "t", features=["x"], target="y")
            found.append([model.intercept_, *model.coef_])
    assert found[1] == pytest.approx(found[0], abs=1e-2)


class _Recorder:
    """A connection whose statements are remembered, those of its cursors too."""

    def __init__(self, connection: Any, statements: list[str]) -> None:
        self._connection, self._statements = connection, statements

    def cursor(self) -> _Recorder:
        return _Recorder(self._connection.cursor(), self._statements)

    def execute(self, sql: str, *rest: Any) -> Any:
        self._statements.append(sql)
        return self._connection.execute(sql, *rest)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._connection, name)


def careless(sql: str) -> Iterator[str]:
    """The places where NULL could be taken for an end, as SQL.

    An argument may be a literal, the lesser or greater of others, which is looked at by itself, or
    what an arm of a CASE is about whose condition says that it IS NOT NULL.
    """
    for node in sqlglot.parse_one(sql, dialect="duckdb").find_all(exp.Greatest, exp.Least):
        values: list[exp.Expression] = [node.this, *node.expressions]
        for value in values:
            bare: Any = value.unnest()
            literal = not any(bare.find_all(exp.Column, exp.Subquery))
            known = literal or isinstance(bare, exp.Greatest | exp.Least) or _coalesced(bare)
            if known or _asked_about(bare, node):
                continue
            yield f"{bare.sql('duckdb')} in {node.sql('duckdb')}"


def _coalesced(value: exp.Expression) -> bool:
    """Whether a literal stands for the value, or for its opposite, where it is missing."""
    bare = value.this.unnest() if isinstance(value, exp.Neg) else value
    return isinstance(bare, exp.Coalesce) and not any(bare.expressions[-1].find_all(exp.Column))


def _asked_about(value: exp.Expression, node: Any) -> bool:
    """Whether an enclosing arm is taken only where the value, or all that it is of, is there."""
    arm = node.find_ancestor(exp.If)
    while arm is not None:
        conditions = [one.unnest() for one in arm.this.unnest().flatten(unnest=True)]
        for condition in conditions if isinstance(arm.this.unnest(), exp.And) else [arm.this]:
            bare = condition.unnest()
            if not isinstance(bare, exp.Not) or not isinstance(bare.this.unnest(), exp.Is):
                continue
            there = bare.this.unnest().this.unnest()
            if there == value or any(part.unnest() == there for part in value.walk()):
                return True
        arm = arm.find_ancestor(exp.If)
    return False


def statements(session: unacorda.Session) -> list[str]:
    """All that is asked of the engine from now on."""
    recorded: list[str] = []
    engine: Any = session._engine
    engine._connection = _Recorder(engine._connection, recorded)
    return recorded


@pytest.mark.long
def test_the_greater_and_the_lesser_are_taken_of_values_that_are_there() -> None:
    with opened(table(missing=100)) as session:
        asked = statements(session)
        for make in AGGREGATES.values():
            for query in (
                session.table("t").agg(a=make()),
                session.table("t").group_by("g", keys=[0, 1]).agg(a=make()),
            ):
                session.evaluate(query, budget=LOUD)
        session.describe("t", budget=LOUD)
    taken = [sql for sql in asked if "GREATEST" in sql.upper() or "LEAST" in sql.upper()]
    assert len(taken) > 5
    assert [place for sql in taken for place in careless(sql)] == []


@in_subtests(
    ("sql", "fault"),
    [
        ("SELECT GREATEST(x, 0) FROM t", True),
        ("SELECT LEAST(GREATEST(FLOOR((x - 1) / 2), 0), 9) FROM t", True),
        ("SELECT CASE WHEN x IS NULL THEN GREATEST(x, 0) END FROM t", True),
        ("SELECT CASE WHEN y IS NOT NULL THEN GREATEST(x, 0) END FROM t", True),
        ("SELECT CASE WHEN x IS NOT NULL OR y > 0 THEN GREATEST(x, 0) END FROM t", True),
        ("SELECT CASE WHEN x IS NOT NULL THEN 1 ELSE GREATEST(x, 0) END FROM t", True),
        ("SELECT CASE WHEN (x) IS NOT NULL THEN GREATEST(LEAST(x, 9), 0) END FROM t", False),
        ("SELECT CASE WHEN y > 0 AND x IS NOT NULL THEN GREATEST(x, 0) END FROM t", False),
        ("SELECT GREATEST(COALESCE(x, y), 0) FROM t", True),
        ("SELECT GREATEST(-COALESCE(SUM(x), 0), 0) FROM t", False),
        ("SELECT CASE WHEN x IS NOT NULL THEN GREATEST(FLOOR(x / 2), 0) END FROM t", False),
    ],
)
def test_careless_uses_are_seen(sql: str, *, fault: bool) -> None:
    assert bool(list(careless(sql))) == fault


def test_bins_of_a_missing_value_are_missing() -> None:
    import duckdb

    bins = Bins.of(0, 40, whole=False, date=False)
    values = "(VALUES (NULL::DOUBLE), (-1.0), (0.0), (3.9), (40.0), (99.0)) AS t(x)"
    found = duckdb.execute(f"SELECT {bins.place('x')} FROM {values}").fetchall()
    assert [place for (place,) in found] == [None, 0, 0, 1, 19, 19]
