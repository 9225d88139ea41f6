"""Every engine binds a person to as many rows as DuckDB, under MD5 to the same ones."""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping
from typing import Any

import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet
import pytest
from tests.query.engines_alike import OTHERS, TABLE, counted, grouped, opened_on, pipeline
from tests.query.shared_hash import SIGNS, plant_shared_hash, weights_of
from tests.support.seams import Person, Statement
from tests.tiers import mostly_slow

import unacorda

pytestmark = [
    pytest.mark.parametrize("engine", OTHERS),
    pytest.mark.filterwarnings("ignore:keys. two keys look alike"),
]


TIGHT = Person("who", max_rows=3)


def test_a_person_keeps_the_same_number_of_rows(engine: str) -> None:
    rows = Counter(who for who in TABLE["who"].to_pylist() if who is not None)
    with opened_on(engine, TABLE, unit=TIGHT) as session:
        query = session.table("t").group_by("who", keys=list(range(1, 9))).agg(n=unacorda.count())
        for salt in (7, 2**127 + 2**63 + 1):
            found = counted(session, query, salt=salt)["sums"]
            assert found == {k: (min(rows[k + 1], 3),) for k in range(8)}


def test_a_table_is_read_once(engine: str) -> None:
    """What an engine writes out wherever it stands is not named: people beyond a bound stay."""
    with opened_on(engine, {"t": TABLE, "u": TABLE}, unit=TIGHT) as session:
        both = session.table("t").join(session.table("u"), columns=[], max_rows=2)
        first = session._admission.admit(both.agg(n=unacorda.count()), salt=1).sql
        assert isinstance(first, Statement)
        found = [first.bounded.count(word) for word in ("WITH", "MATERIALIZED")]
        assert found == ([3, 6] if session._engine.once else [0, 0])


def test_another_salt_keeps_other_rows(engine: str) -> None:
    with opened_on(engine, TABLE, unit=TIGHT) as session:
        query = grouped(session.table("t")).agg(n=unacorda.count(), s=unacorda.sum("whole", 0, 9))
        found = [counted(session, query, salt=salt) for salt in (1, 2, 3)]
        assert any(one != found[0] for one in found)
        assert counted(session, query, salt=1) == found[0]


UNITS: Mapping[str, Person] = {
    "rows": Person("who", max_rows=3),
    "groups": Person(("who", "org"), max_groups=1, max_rows_per_group=2),
    "all": Person("who", max_rows=4, max_groups=2, max_rows_per_group=3),
}


@pytest.mark.parametrize("unit", mostly_slow(UNITS.values()), ids=UNITS)
def test_one_hash_keeps_the_same_rows_on_every_engine(
    engine: str, unit: Person, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of numbers, texts and NULLs, whole rows: what is counted of them is the same."""
    plant_shared_hash(monkeypatch)
    found: dict[str, list[dict[str, Any]]] = {}
    for each in ("duckdb", engine):
        with opened_on(each, TABLE, unit=unit) as session:
            query = grouped(pipeline(session.table("t"))).agg(
                n=unacorda.count(),
                whole=unacorda.sum("whole", -4, 9),
                z=unacorda.sum("z", -9, 9),
                notes=unacorda.count_if("note > '2'"),
            )
            found[each] = [counted(session, query, salt=salt) for salt in (1, 2**127 + 5)]
    assert found["duckdb"] == found[engine]
    assert found[engine][0] != found[engine][1]


def test_the_rows_that_stay_are_those_of_the_hash(
    engine: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A person's start is the fraction of the hash of their id under the salt."""
    plant_shared_hash(monkeypatch)
    table = pa.table({"who": [12] * 5, "x": [0.0, 1.0, 2.0, 3.0, 4.0]})
    salt = 3
    ((length, first, last),) = weights_of(salt, 1)
    hashed = (2 * length + (SIGNS.index("1") + 1) * first + (SIGNS.index("2") + 1) * last) / 997
    u = hashed - math.floor(hashed)
    kept = [at for at in range(5) if math.floor((at + 1) / 5 + u) > math.floor(at / 5 + u)]
    for each in ("duckdb", engine):
        with opened_on(each, table, unit=Person("who", max_rows=1)) as session:
            query = session.table("t").agg(n=unacorda.histogram("x", [0, 1, 2, 3, 4, 5]))
            (bins,) = counted(session, query, salt=salt)["histograms"]
            assert bins == [(0, kept[0] + 1, 1)]
