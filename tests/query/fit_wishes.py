"""Wishes that models could have, and the exact integers that answer them."""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass
from fractions import Fraction

from tests.support.seams import FitScan, Query, rows_of

import unacorda
from unacorda import GDP
from unacorda.mechanisms.contributions import SumRequest

__all__ = ["COLUMNS", "WISHES", "Wished", "exact"]


_ONE = GDP(1)


@dataclass(frozen=True, slots=True, kw_only=True)
class Wished(SumRequest):
    """As a model says it, where only the vector matters."""

    value: str = "1"
    bound: Fraction = Fraction(2)
    budget: GDP = _ONE


COLUMNS = [{"s": "greatest(least(x0 / 3, 1e60), -1e60)"}, {"w": "4 / greatest(1 + s * s, 4)"}]

WISHES = [
    Wished(vector=["1", "s"], value="w * y"),
    Wished(vector=["1", "s"], value="w", squared=True),
    Wished(vector=["1", "s", "y"], value="w * y", squared=True, signed=True),
    Wished(vector=["x0", "y"], bound=Fraction(1, 3)),
    Wished(vector=["s", "y * 1e100"], value="x0 * y", bound=Fraction(5)),
    Wished(vector=["s", "1 / y"], value="x0", edges=[-2.0, 0.0, 1e-3, 3.0]),
    Wished(vector=["y"], value="x0", bound=Fraction(3), total=True),
    Wished(vector=["s", "1 / y"], value="ln(x0)", squared=True),
]
"""Among them some that break every bound, overflow, or have no value."""


def exact(
    session: unacorda.Session,
    query: Query,
    wishes: Sequence[Wished] = tuple(WISHES),
    columns: Sequence[Mapping[str, str]] = tuple(COLUMNS),
    *,
    features: Sequence[str] = ("x",),
    target: str = "y",
    weight: str | None = None,
) -> list[int]:
    """The number of rows, then all numbers of all wishes in their units, without noise."""
    rows = rows_of(query, features=features, target=target, weight=weight)
    scan = FitScan(
        relation=rows.relation(), columns=columns, wishes=wishes, counted=unacorda.GDP(1)
    )
    integers: list[int] = []
    admitted = session._admission.admit(rows.query, salt=7)
    keep = isinstance(rows.query.limited, unacorda.Person) and admitted.engine.room > 0
    with closing(admitted.engine.hold(admitted, keep=keep, answered=list)) as held:
        for select, measures in scan.selects():
            integers += [one[0] if one else 0 for one in held.run(select, measures=measures).sums]
    return [one for part in scan.parts(integers) for one in part]
