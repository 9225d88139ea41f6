"""Bounds of an event by way of the price of another: one run of many, one unit of a pair."""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

from collections.abc import Callable, Iterator
from fractions import Fraction
from typing import Protocol, TypeAlias

import numpy as np

from unacorda.accounting.amplification.pairs import delta_of_pairs, epsilon_of_pairs
from unacorda.accounting.contour import engine as contour
from unacorda.accounting.contour.parts import flatten
from unacorda.accounting.engines import Measure
from unacorda.accounting.pld.parts import curve_of_any
from unacorda.accounting.rewriting import leaves
from unacorda.accounting.rules.base import Direction, rules_of
from unacorda.accounting.tries import delta_of_tries, epsilon_of_tries
from unacorda.errors import UnsupportedEvent
from unacorda.privacy.estimates import Interval
from unacorda.privacy.events import Event, NegativeBinomialTries, PoissonTries, RandomAllocation
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

    if isinstance(event, NegativeBinomialTries | PoissonTries):
        one = event.event

        def run_delta() -> Callable[[float], float]:
            """Of one run: by its curve where contours, which are quick to ask, do not know it."""
            try:
                flat = flatten([(one, 1)], neighbors=neighbors)
                contour.delta_interval(flat, epsilon=Fraction(1), neighbors=neighbors)
                return lambda x: delta_at(one, neighbors, x)
            except UnsupportedEvent:
                pass
            try:
                ways = [curve_of_any(one, direction=way, neighbors=neighbors) for way in _WAYS]
            except UnsupportedEvent:
                return lambda x: delta_at(one, neighbors, x)
            return lambda x: max(float(curve(np.asarray(float(x))).upper) for curve in ways)

        yield (
            "private selection",
            lambda: _upper(
                delta_of_tries(event, run_delta(), epsilon=at)
                if measure == "delta"
                else epsilon_of_tries(
                    event,
                    lambda part: epsilon_at(one, neighbors, part),
                    run_delta(),
                    delta=at,
                )
            ),
            "Koskela, Redberg, Wang 2024",
        )
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
