"""The limits on a person cost no noise in vain: some neighbor moves the answers as far as told."""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

import itertools
from collections.abc import Iterator
from fractions import Fraction
from typing import Any

import pyarrow as pa
import pytest
from tests.query.neighbor_moves import EVERY, moves_of, open_session
from tests.query.neighbor_tables import REGIONS, Limits, Pairs
from tests.support.cases import in_subtests
from tests.support.seams import Reach
from tests.tiers import mostly_slow

from unacorda.privacy.neighbors import AddRemove, Neighbors, ReplaceOne

LIMITS: list[Limits | None] = [
    None,
    {"max_rows": 3},
    {"max_groups": 2, "max_rows_per_group": 3},
    {"max_rows": 3, "max_rows_per_group": 1},
    {"max_rows": 4, "max_groups": 2},
    {"max_rows": 5, "max_groups": 2, "max_rows_per_group": 3},
    {"max_rows": 8, "max_rows_per_group": 3},
]
NAMES = ("rows", "people", "sum_from_zero", "sum_across_zero", "mean_from_zero")
VALUES = [(10.0, 10.0), (10.0, -10.0), (0.0, 10.0)]
"""Of the one who goes, and of the one who comes where they meet: ends of every range."""


def placements(reach: Reach) -> Iterator[tuple[int, ...]]:
    """Her rows by region: some full, one with what is left, others with one row or none."""
    rest = reach.rows % reach.per_cell
    for rows in itertools.product(sorted({0, 1, rest, reach.per_cell}), repeat=reach.cells):
        if sum(rows) <= reach.rows and sum(map(bool, rows)) <= reach.touched:
            yield rows


def pairs_of(reach: Reach, neighbors: Neighbors) -> Pairs:
    """A small table for every way to lay out one person, and where she is replaced the other."""
    sides: dict[str, list[dict[str, Any]]] = {"left": [], "right": []}
    others = list(placements(reach)) if neighbors is ReplaceOne else [(0,) * reach.cells]
    cases = [*itertools.product(placements(reach), others, VALUES)]
    for pair, (gone, come, values) in enumerate(cases):
        for region, old, new in zip(REGIONS[: reach.cells], gone, come, strict=True):
            # Where they meet, she who has more is at the far end.
            here, there = values if old >= new else values[::-1]
            if not (old and new):
                here = there = values[0]
            line = {"pair": pair, "who": 2 * pair, "region": region, "x": here}
            sides["left"] += [line] * old
            sides["right"] += [{**line, "who": 2 * pair + 1, "x": there}] * new
    schema = pa.schema(
        [("pair", pa.int64()), ("who", pa.int64()), ("region", pa.string()), ("x", pa.float64())]
    )
    tables = {side: pa.Table.from_pylist(lines, schema=schema) for side, lines in sides.items()}
    return Pairs(count=len(cases), tables=tables, ids=("who",), gone=frozenset())


@pytest.mark.parametrize("neighbors", mostly_slow([AddRemove, ReplaceOne]), ids=str)
@in_subtests("limits", LIMITS, ids=str)
def test_some_neighbor_moves_every_answer_as_far_as_told(
    limits: Limits | None, neighbors: Neighbors
) -> None:
    given: dict[str, Any] = {"max_rows": 1} if limits is None else dict(limits)
    reach = Reach.within(**given, cells=len(REGIONS), replaced=neighbors is ReplaceOne)
    pairs = pairs_of(reach, neighbors)
    with open_session(pairs, limits=limits, neighbors=neighbors) as session:
        moves = moves_of(
            session,
            pipeline="plain",
            grouped=True,
            aggregates={name: EVERY[name] for name in NAMES},
            pairs=pairs.count,
            salt=3,
        )
    assert len(moves) == 2 * len(NAMES)
    for (name, norm), share in moves.items():
        # A root that is no fraction is told a little too large; squares are compared.
        least = 1 if norm == "l1" else 1 - Fraction(1, 10**9)
        assert least <= share <= 1, (name, norm, float(share))
