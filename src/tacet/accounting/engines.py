"""The numerical engines, those that may know an event: its profile in closed form, quadrature."""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from fractions import Fraction
from typing import Literal, TypeAlias

import numpy as np

from tacet.accounting.amplification.relations import holds_fixed_size, holds_sample
from tacet.accounting.contour import engine as contour
from tacet.accounting.inversion import passing
from tacet.accounting.profiles.bounds import profile_bounds
from tacet.privacy.estimates import Interval
from tacet.privacy.events import Composed, Event, Gaussian, Repeated
from tacet.privacy.neighbors import Neighbors, ReplaceOne

__all__ = ["Engine", "Measure", "engines_of", "float_above", "float_below", "only_gaussian"]

Measure: TypeAlias = Literal["epsilon", "delta"]

Engine: TypeAlias = Callable[[Measure, Fraction], Interval]


def engines_of(event: Event, neighbors: Neighbors) -> Iterator[tuple[str, Engine, str]]:
    """The numerical engines that may know the event, which holds no shuffled part, with sources.

    Bound       both, each.
    Source      in each.
    """

    def profile(epsilon: float) -> Interval:
        directions: tuple[Literal["remove", "add"], ...] = ("remove", "add")
        found = [
            profile_bounds(event, np.asarray([epsilon]), direction=one, neighbors=neighbors)
            for one in directions
        ]
        return Interval(*(max(float(ends[side][0]) for ends in found) for side in (0, 1)))

    def closed(measure: Measure, at: Fraction) -> Interval:
        if measure == "delta":
            return Interval(profile(float_above(at)).lower, profile(float_below(at)).upper)
        return Interval(
            passing(lambda x: profile(x).lower <= at)[0],
            passing(lambda x: profile(x).upper <= at)[1],
        )

    def quadrature(measure: Measure, at: Fraction) -> Interval:
        if measure == "epsilon":
            return contour.epsilon_interval([(event, 1)], delta=at)
        below = contour.delta_interval([(event, 1)], epsilon=float_below(at))
        if float_above(at) == float_below(at):
            return below
        above = contour.delta_interval([(event, 1)], epsilon=float_above(at))
        return Interval(above.lower, below.upper)

    if not isinstance(event, Repeated | Composed) or only_gaussian(event):
        yield "closed form", closed, "the profile of the event: Zhu, Dong, Wang 2022"
    if not (neighbors is ReplaceOne and holds_sample(event)) and not holds_fixed_size(event):
        yield "contour quadrature", quadrature, "docs/proofs/contour.md"


def only_gaussian(event: Event) -> bool:
    """Whether all parts are Gaussian noise.

    Bound       none: it only looks.
    Source      the event.
    """
    parts = event.parts if isinstance(event, Composed) else (event,)
    return all(
        isinstance(part.event if isinstance(part, Repeated) else part, Gaussian) for part in parts
    )


def float_above(value: Fraction) -> float:
    """The least float that is not below a number.

    Bound       upper.
    Source      Fraction compares exactly.
    """
    nearest = float(value)
    return nearest if Fraction(nearest) >= value else math.nextafter(nearest, math.inf)


def float_below(value: Fraction) -> float:
    """The greatest float that is not above a non-negative number.

    Bound       lower.
    Source      Fraction compares exactly.
    """
    nearest = float(value)
    return nearest if Fraction(nearest) <= value else math.nextafter(nearest, 0.0)
