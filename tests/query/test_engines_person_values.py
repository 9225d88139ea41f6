"""Values of people on every engine: equal to the bit with those of DuckDB."""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

import contextlib
from collections.abc import Callable
from typing import Any

import pytest
from tests.query.engines_alike import OTHERS, counted, opened_on
from tests.query.shared_hash import plant_shared_hash
from tests.query.test_person_values import FACTS, TABLE, VALUES
from tests.support.seams import Person, Query, SqlContext, relation_sql

import unacorda
from unacorda import count_, last_, max_

pytestmark = [pytest.mark.service, pytest.mark.parametrize("engine", OTHERS)]


def computed(engine: str, ask: Callable[[Query], Query]) -> dict[Any, tuple[str, ...]]:
    """By id the values of everybody, each with its type as Python shows it."""
    unit = Person("who", max_rows=3)
    with opened_on(engine, TABLE, unit=unit, columns=FACTS) as session:
        rows, held = ask(session.table("t")).rows, session._engine
        names = [leaf.column.name for leaves in rows.scope.leaves.values() for leaf in leaves[:1]]
        sql = relation_sql(rows, names, SqlContext(unit=unit, scan=held.scan, salt=1))
        listed = ", ".join(f'"{name}"' for name in ("u0", *names))
        with contextlib.closing(held._begin()) as asking:
            found = asking.rows(f"SELECT {listed} FROM ({sql})")
    return {int(line[0]): tuple(map(repr, line[1:])) for line in found}


def test_every_value_is_the_same_bit_for_bit(engine: str) -> None:
    def ask(query: Query) -> Query:
        return query.per_person(**VALUES)

    found = computed(engine, ask)
    assert len(found) == 60
    assert found == computed("duckdb", ask)


def test_questions_about_values_have_the_same_integers(
    engine: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    plant_shared_hash(monkeypatch)
    found = []
    for each in ("duckdb", engine):
        unit = Person("who", max_rows=3)
        with opened_on(each, TABLE, unit=unit, columns=FACTS) as session:
            people = (
                session.table("t")
                .where("at >= 1")
                .per_person(text=last_("text", by="at"), m=max_("x"), n=count_())
                .where("n >= 2")
            )
            query = people.group_by("text", keys=["a", "é", None]).agg(
                k=unacorda.count(),
                s=unacorda.sum("m", 0, 100),
                q=unacorda.median("m", 0, 100),
                p=unacorda.count_people(),
            )
            joined = people.join(session.table("t"), columns=["whole"], max_rows=(1, 2))
            found.append(
                [
                    counted(session, query),
                    counted(session, joined.agg(s=unacorda.sum("n", 0, 9), c=unacorda.count())),
                ]
            )
    assert found[0] == found[1]
