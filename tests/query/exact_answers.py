"""The engine's exact answers, before any noise, for tests that compare them with plain Python."""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

from collections.abc import Mapping
from fractions import Fraction
from typing import Any

from tests.support.seams import (
    BoundedMean,
    BoundedQuantile,
    BoundedSum,
    Extreme,
    Query,
    Session,
    Unit,
    exact_of,
)

import unacorda

__all__ = ["asked", "exact", "opened"]


def opened(
    source: Any,
    *,
    unit: Unit | None = None,
    budget: Any = None,
    seed: int | None = 7,
    **options: Any,
) -> Session:
    """A session over one table `t`, by default of rows and with a budget of epsilon 1."""
    return Session(
        {"t": source},
        unit=unacorda.Row() if unit is None else unit,
        budget=unacorda.PureDP(1) if budget is None else budget,
        bits=None if seed is None else unacorda.SeededBits(seed),
        **options,
    )


def exact(session: Session, query: Query, *, salt: int = 7) -> dict[str, list[Any]]:
    """The exact answers by name, in the order of the keys.

    Counts are integers; sums are fractions; a mean is a pair of sum and count; a quantile is the
    mapping of its grid's numbers to rows.
    """
    tallies = session._engine.run(session._admission.admit(query, salt=salt))
    answers: dict[str, list[Any]] = {}
    for name, aggregate in query.aggregates.items():
        found = exact_of(query, name, tallies)
        if isinstance(aggregate, BoundedQuantile | Extreme):
            (counted,) = found.rankings
            answers[name] = [
                {int(at): int(cell[at]) for at in cell.nonzero()[0]} for cell in counted.counts
            ]
        elif isinstance(aggregate, BoundedSum | BoundedMean):
            unit = Fraction(2) ** aggregate.clamp.unit_log2
            sums = [total * unit for total in found.sums[0]]
            answers[name] = (
                sums
                if isinstance(aggregate, BoundedSum)
                else list(zip(sums, found.sums[1], strict=True))
            )
        else:
            answers[name] = list(found.sums[0])
    return answers


def asked(source: Any, aggregates: Mapping[str, Any], **options: Any) -> dict[str, Any]:
    """The exact answers about a whole table, without groups."""
    with opened(source, **options) as session:
        query = session.table("t").agg(**aggregates)
        return {name: answer[0] for name, answer in exact(session, query).items()}
