"""Bounds of an event by way of the price of another: one run of many, one unit of a pair."""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

from collections.abc import Callable, Iterator
from fractions import Fraction
from typing import Protocol, TypeAlias

from unacorda.accounting.amplification.pairs import delta_of_pairs, epsilon_of_pairs
from unacorda.accounting.engines import Measure
from unacorda.accounting.rewriting import leaves
from unacorda.accounting.rules.base import Direction, rules_of
from unacorda.privacy.estimates import Interval
from unacorda.privacy.events import Event, RandomAllocation
from unacorda.privacy.neighbors import AddRemove, Neighbors, ReplaceOne

__all__ = ["Intervals", "derived_bounds"]

_WAYS: tuple[Direction, ...] = ("remove", "add")
_Bound: TypeAlias = tuple[str, Callable[[], Interval], str]


class Intervals(Protocol):
    """An interval of the epsilon of an event at a delta, or of its delta at an epsilon."""

    def __call__(
        self,
        event: Event,
        neighbors: Neighbors,
        measure: Measure,
        at: Fraction,
    ) -> Interval:
        """The measure that is asked, at what delta or epsilon."""
        ...


def derived_bounds(
    event: Event,
    neighbors: Neighbors,
    intervals: Intervals,
    measure: Measure,
    at: Fraction,
) -> Iterator[_Bound]:
    """Name, question and source of the bounds that another event's price gives.

    measure, at: what is asked, at what delta or epsilon; intervals: prices the other event.

    Bound       upper, each.
    Source      told with each.
    """

    def epsilon_at(other: Event, relation: Neighbors, part: Fraction) -> float:
        return intervals(other, relation, "epsilon", part).upper

    def delta_at(other: Event, relation: Neighbors, x: float | Fraction) -> float:
        return intervals(other, relation, "delta", Fraction(x)).upper

    parts = list(leaves(event))
    allocated = any(isinstance(part, RandomAllocation) for part in parts)
    if neighbors is ReplaceOne and allocated and all(rules_of(part).one_unit for part in parts):
        yield (
            "one unit leaves, another comes",
            lambda: _upper(
                delta_of_pairs(lambda x: delta_at(event, AddRemove, x), epsilon=at)
                if measure == "delta"
                else epsilon_of_pairs(lambda part: epsilon_at(event, AddRemove, part), delta=at)
            ),
            "Vadhan 2017, Lemma 2.2",
        )


def _upper(value: float) -> Interval:
    return Interval(0.0, value)
