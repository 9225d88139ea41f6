"""No neighbor moves what a release adds noise to by more than the mechanism was told."""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

import csv
import itertools
from collections.abc import Mapping
from fractions import Fraction
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from tests.query.neighbor_moves import (
    EVERY,
    UNITS,
    Moves,
    moves_of,
    rows_of_others,
    sweep,
)
from tests.query.neighbor_tables import (
    PIPELINES,
    make_pairs,
    unit_of,
)
from tests.support.cases import in_subtests
from tests.tiers import mostly_slow

import unacorda
from unacorda.privacy.neighbors import AddRemove, Neighbors, ReplaceOne

QUICK = {"all limits"}


@pytest.mark.slow
@pytest.mark.parametrize("neighbors", mostly_slow([AddRemove, ReplaceOne]))
@pytest.mark.parametrize(
    "kind",
    [pytest.param(kind, marks=() if kind in QUICK else pytest.mark.slow) for kind in UNITS],
)
@pytest.mark.parametrize("every", mostly_slow([3, 1]))
def test_no_neighbor_moves_an_answer_further_than_told(
    kind: str, neighbors: Neighbors, every: int
) -> None:
    _assert_bounded(kind, neighbors, count=40, seed=1, every=every)


@pytest.mark.slow
@pytest.mark.timeout(900)  # on a busy machine
@pytest.mark.parametrize("seed", range(2, 5))
@pytest.mark.parametrize("neighbors", [AddRemove, ReplaceOne])
@pytest.mark.parametrize("kind", UNITS)
def test_no_neighbor_of_many_more_does(kind: str, neighbors: Neighbors, seed: int) -> None:
    _assert_bounded(kind, neighbors, count=200, seed=seed)


def _assert_bounded(
    kind: str, neighbors: Neighbors, *, count: int, seed: int, every: int = 1
) -> None:
    most: Moves = {}
    for moves, where in sweep(
        kinds={kind: UNITS[kind]}, neighbors=neighbors, count=count, seed=seed, every=every
    ):
        for (name, norm), share in moves.items():
            assert share <= 1, (name, norm, where, float(share))
            most[name, norm] = max(most.get((name, norm), Fraction(0)), share)
    # The tables are nasty enough to come near every bound: the test above can fail. What is squared
    # comes near by the square.
    for (name, norm), share in most.items():
        if name == "rows_each" and kind in ("one row", "single rows", "three rows, one in a group"):
            continue  # all have as many in a group
        assert share >= Fraction(1, {"l2": 4, "squares": 16}.get(norm, 2)), (name, norm)


@pytest.mark.parametrize("name", mostly_slow(EVERY, quick=8))
def test_one_small_table_asked_alone(name: str, tmp_path: Path) -> None:
    """Neither `pair` as a group nor other aggregates beside it; without groups there is no join."""
    for seed, neighbors in itertools.product(range(3), (AddRemove, ReplaceOne)):
        ids, limits = list(UNITS.values())[seed]
        text = ids == "text"
        pairs = make_pairs(
            count=1, ids=ids, neighbors=neighbors, rows=limits is None, text=text, seed=seed
        )
        tables: Mapping[str, Any] = pairs.tables
        if text:
            tables = {
                side: _as_csv(table, tmp_path / f"{side} {neighbors}.csv")
                for side, table in tables.items()
            }
        unit = unit_of(pairs.ids, limits=limits, neighbors=neighbors)
        with unacorda.Session(dict(tables), unit=unit, budget=unacorda.PureDP(1)) as session:
            for grouped in (False, True):
                moves = moves_of(
                    session,
                    pipeline="plain",
                    grouped=grouped,
                    aggregates={name: EVERY[name]},
                    pairs=None,
                    salt=seed,
                )
                assert max(moves.values()) <= 1, (moves, grouped, seed)


def _as_csv(table: pa.Table, path: Path) -> str:
    with path.open("w", newline="") as stream:
        writer = csv.writer(stream)
        writer.writerow(table.column_names)
        writer.writerows(zip(*(column.to_pylist() for column in table.columns), strict=True))
    return str(path)


@pytest.mark.parametrize("neighbors", mostly_slow([AddRemove, ReplaceOne]))
@in_subtests("kind", [kind for kind, (_, most) in UNITS.items() if most])
def test_other_people_keep_their_rows(kind: str, neighbors: Neighbors) -> None:
    for pipeline in PIPELINES:
        before, after = rows_of_others(kind, neighbors, pipeline=pipeline)
        assert before == after
        assert before.total() > 50
