"""The engines that know both sides of a composition, in the order in which they are asked."""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from fractions import Fraction
from typing import Literal, TypeAlias

import numpy as np

from unacorda.accounting.amplification.sampling import draws
from unacorda.accounting.contour import engine as contour
from unacorda.accounting.contour.parts import flatten
from unacorda.accounting.inversion import falling_below
from unacorda.accounting.pld.distribution import (
    PrivacyLossDistribution,
    worst_delta,
    worst_epsilon,
)
from unacorda.accounting.pld.parts import parts_of, same_in_both_directions
from unacorda.accounting.profiles.boxes import Array
from unacorda.accounting.profiles.curves import Curve
from unacorda.accounting.rewriting import only_gaussian
from unacorda.accounting.rules.base import Direction
from unacorda.accounting.rules.profiles import curve_of
from unacorda.errors import UnsupportedEvent
from unacorda.privacy.estimates import Interval
from unacorda.privacy.events import Composed, Event, ReplacementSampled
from unacorda.privacy.neighbors import Neighbors
from unacorda.privacy.rounding import float_above, float_below

_DIRECTIONS: tuple[Direction, ...] = ("remove", "add")
_GRID, _LEAST_GRID = 1 << 16, 1 << 12
_FEW_HITS, _COARSER = 4, 3
"""Where one unit may be drawn oftener than so, grids are coarser, by so many halvings at most."""
_KINDS = 128
"""Of more kinds of events grids are coarser, too: by a quarter for four times as many."""
_ACCURACY = 1e-5
_MOST = 10**12
"""Copies of one event above which grids take minutes and tell nothing."""

Measure: TypeAlias = Literal["epsilon", "delta"]
Engine: TypeAlias = Callable[[Measure, Fraction], Interval]
"""(what is asked, at what delta or epsilon) -> an interval that holds it."""


def _either(
    of_epsilon: Callable[[Fraction], Interval], of_delta: Callable[[Fraction], Interval]
) -> Engine:
    """The engine that answers either question: the epsilon at a delta, the delta at an epsilon."""
    return lambda measure, at: of_epsilon(at) if measure == "epsilon" else of_delta(at)


def engines_of(
    event: Event, neighbors: Neighbors, *, only_upper: bool = False
) -> Iterator[tuple[str, Engine, str]]:
    """Name, engine and source of those that may know the event; it holds no shuffled part.

    only_upper: lower ends that take long are left out.

    Bound       both, of each: an engine that does not know the event raises UnsupportedEvent.
    Source      told with each.
    """
    flat = flatten([(event, 1)], neighbors=neighbors)

    def closed(measure: Measure, at: Fraction) -> Interval:
        ends = float_below(at), float_above(at)
        alike = same_in_both_directions(event, neighbors)
        known = [
            curve_of(event, direction=direction, neighbors=neighbors)
            for direction in (_DIRECTIONS[:1] if alike else _DIRECTIONS)
        ]

        def profile(epsilons: Array) -> tuple[Array, Array]:
            found = [curve(epsilons) for curve in known]
            return (
                np.maximum.reduce([one.lower for one in found]),
                np.maximum.reduce([one.upper for one in found]),
            )

        if measure == "epsilon" and all(curve.sides for curve in known):
            return _by_sides(known, ends, only_upper=only_upper)
        if measure == "epsilon":
            low, high = falling_below(profile, ends)
            if low == 0.0 < high:  # no lower side that is worth following: the upper one alone
                high = falling_below(lambda at: (profile(at)[1],) * 2, ends)[1]
            return Interval(low, high)
        lower, upper = profile(np.asarray(ends))
        return Interval(float(lower[1]), float(upper[0]))

    quadrature = _either(
        lambda at: contour.epsilon_of(flat, at, neighbors=neighbors),
        lambda at: contour.delta_of(flat, at, neighbors=neighbors),
    )

    if not isinstance(event, Composed) or only_gaussian(event):
        yield "closed form", closed, "the profile of the event: Zhu, Dong, Wang 2022"
    yield "contour quadrature", quadrature, "docs/proofs/contour.md"


def _by_sides(known: Sequence[Curve], level: tuple[float, float], *, only_upper: bool) -> Interval:
    """The epsilon of the worst of curves whose sides take long: each alone, the lower one last."""

    def upper(epsilons: Array) -> tuple[Array, Array]:
        return (np.maximum.reduce([curve.upper(epsilons, level[0]) for curve in known]),) * 2

    def lower(epsilons: Array) -> tuple[Array, Array]:
        return (np.maximum.reduce([curve.lower(epsilons) for curve in known]),) * 2

    _, high = falling_below(upper, level)
    if only_upper or not 0 < high < math.inf:
        return Interval(0.0, high)
    start = np.append(0.0, high * (1 - np.geomspace(1.0, 1e-5, 12)[1:]))
    return Interval(falling_below(lower, level, start=np.append(start, high))[0], high)


def by_loss_grids(
    event: Event, neighbors: Neighbors, *, tolerance: float
) -> tuple[str, Engine, str]:
    """The engine of privacy loss distributions: it knows whatever has a profile, for more time.

    tolerance: of the answer, as the accountant's; grids know no more than 1e-5.

    Bound       both; below, of pairs that the event allows.
    Source      docs/proofs/pld.md.
    """
    alike = same_in_both_directions(event, neighbors)

    def answer(measure: Measure, at: Fraction) -> Interval:
        if any(count > _MOST for _, count in flatten([(event, 1)])):
            raise UnsupportedEvent(
                event, kind="loss grids", try_instead="Their work is capped; ask of fewer copies."
            )
        flat = flatten([(event, 1)])
        hits = max((_hits(one) for one, _ in flat), default=1)
        kinds = len({one for one, _ in flat})
        coarser = min((hits // _FEW_HITS).bit_length(), _COARSER)
        coarser = max(coarser, 2 * math.ceil(math.log(max(kinds, _KINDS) / _KINDS, 4)))
        losses = [
            PrivacyLossDistribution(
                parts=parts_of(event, direction=direction, neighbors=neighbors),
                grid=max(_GRID >> coarser, _LEAST_GRID),
                accuracy=max(tolerance, _ACCURACY),
            )
            for direction in (_DIRECTIONS[:1] if alike else _DIRECTIONS)
        ]
        if measure == "epsilon":
            return worst_epsilon(losses, delta=at)
        return worst_delta(losses, epsilon=at)

    return "privacy loss distribution (FFT)", answer, "docs/proofs/pld.md"


def _hits(event: Event) -> int:
    """How often a sample with replacement may hold one unit: each number has a profile."""
    if isinstance(event, ReplacementSampled):
        return len(draws(event.size, event.population)[0])
    return 1
