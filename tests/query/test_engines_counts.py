"""Spark and PostgreSQL count what DuckDB counts: every aggregate, every unit, whole releases.

The tests of Spark share one, started at the first of them, as those of PostgreSQL share a server.
"""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

import random
from collections.abc import Callable, Mapping

import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet
import pytest
from tests.query import neighbor_tables
from tests.query.engines_alike import LOOSE, OTHERS, TABLE, both, grouped, opened_on, pipeline
from tests.support.seams import Aggregate, Person, Unit

import unacorda
from unacorda.errors import UnsupportedConstruct

pytestmark = [
    pytest.mark.parametrize("engine", OTHERS),
    pytest.mark.filterwarnings("ignore:keys. two keys look alike"),
]


EVERY = {
    name: make for makers in neighbor_tables.AGGREGATES.values() for name, make in makers.items()
}
FIRST = [next(iter(makers)) for makers in neighbor_tables.AGGREGATES.values()]
UNITS: Mapping[str, Unit] = {
    "rows": unacorda.Row(),
    "people": LOOSE,
    "two columns": Person(("who", "org"), max_rows=1_000),
    "an expression": Person("lower(org) || 'x'", max_rows=1_000),
}


def asked(makers: Mapping[str, Callable[[], Aggregate]]) -> list[dict[str, Aggregate]]:
    """As few questions as there can be: an aggregate with several lines is alone."""
    scope = neighbor_tables.empty_scope()
    made = {name: make() for name, make in makers.items()}
    alone = [name for name, one in made.items() if one.bound_to(scope).lines != 1]
    together = {name: one for name, one in made.items() if name not in alone}
    return [together, *({name: made[name]} for name in alone)]


def assert_alike(engine: str, aggregates: Mapping[str, Aggregate], unit: Unit) -> None:
    ours, theirs = both(engine, TABLE, lambda q: grouped(pipeline(q)).agg(**aggregates), unit=unit)
    assert ours == theirs


def test_every_aggregate_counts_the_same(engine: str) -> None:
    for aggregates in asked({name: EVERY[name] for name in FIRST}):
        assert_alike(engine, aggregates, LOOSE)


@pytest.mark.slow
@pytest.mark.parametrize("unit", UNITS.values(), ids=UNITS)
def test_every_aggregate_counts_the_same_for_every_unit(engine: str, unit: Unit) -> None:
    for aggregates in asked(EVERY):
        assert_alike(engine, aggregates, unit)


@pytest.mark.slow
def test_a_whole_release_is_the_same(engine: str) -> None:
    """With the same seed: keys that are found, two reads of a quantile, noise, order, prices."""
    rows = 400
    drawn = random.Random(3)
    people = [drawn.randrange(150) for _ in range(rows)]
    table = pa.table(
        {
            "who": people,
            "town": [drawn.choice(["Ä", "Ö", "ß", "few", None]) for _ in range(rows)],
            "kind": [drawn.choice(["one", "two"]) for _ in range(rows)],
            "age": pa.array([drawn.choice([None, *range(100)]) for _ in range(rows)], pa.int32()),
        }
    )
    found = []
    for each in ("duckdb", engine):
        with opened_on(each, table, unit=Person("who", max_rows=50)) as session:
            query = (
                session.table("t")
                .where("age IS NULL OR age < 90")
                .group_by(
                    "town", "kind", keys={"town": unacorda.private_keys(), "kind": ["one", "two"]}
                )
                .agg(
                    n=unacorda.count(),
                    people=unacorda.count_people("CASE WHEN age > 50 THEN 1 END"),
                    middle=unacorda.median("age", 0, 120, resolution=0.0012),
                )
            )
            releases = [session.evaluate(query, budget=unacorda.ApproxDP(60, "1e-4"))]
            margins = (
                session.table("t")
                .group_by("kind", keys=["one", "two", "none"], margins="rollup")
                .agg(n=unacorda.count(), s=unacorda.sum("age", 0, 100))
            )
            mean = session.table("t").agg(a=unacorda.mean("age", 0, 100))
            batch = session.evaluate({"m": margins, "s": mean}, budget=unacorda.PureDP(2))
            found.append([r.to_dicts() for r in [*releases, *batch.releases]])
            assert session.remaining < session.budget
    assert found[0] == found[1]
    assert len(found[0][0]) > 4


@pytest.mark.slow
def test_what_an_engine_does_not_have_is_refused_by_name_before_anything_is_spent(
    engine: str,
) -> None:
    """Of the language it has everything: a pattern that holds every sign of an escape is left."""
    signs = "!#$^~|;:+=@&?<>"
    with opened_on(engine, TABLE, unit=LOOSE) as session:
        query = session.table("t").where(f"note LIKE '{signs}%'").agg(n=unacorda.count())
        with pytest.raises(UnsupportedConstruct, match="LIKE with this pattern"):
            session.evaluate(query, budget=unacorda.PureDP(1))
        assert session.spent == unacorda.ApproxDP(0, 0)
