"""Profiles of events: the curve delta(epsilon) of one direction, with floats on both sides."""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

import functools
import math
from fractions import Fraction
from typing import Literal, TypeAlias, assert_never

import numpy as np
from numpy.typing import ArrayLike

from tacet.accounting.amplification.relations import under_replacement
from tacet.accounting.contour.laws import Edged, Finite, law_of
from tacet.accounting.matrices import plain
from tacet.accounting.profiles import amplified, curves, noises
from tacet.accounting.profiles.allocated import Tails, allocated
from tacet.accounting.profiles.boxes import Array, Box
from tacet.accounting.profiles.curves import Curve
from tacet.checks import exact
from tacet.errors import InvalidParameter, UnsupportedEvent
from tacet.privacy.events import (
    Approximate,
    Composed,
    CyclicPoissonSampled,
    DiscreteGaussian,
    DiscreteLaplace,
    Event,
    Exponential,
    FixedSizeSampled,
    Gaussian,
    GaussianMixture,
    Laplace,
    MatrixMechanism,
    NegativeBinomialTries,
    PoissonSampled,
    PoissonTries,
    Pure,
    RandomAllocation,
    RandomizedResponse,
    Repeated,
    ReplacementSampled,
    Shuffled,
    Staircase,
    TreeAggregation,
    TruncatedLaplace,
    ZeroConcentrated,
)
from tacet.privacy.neighbors import AddRemove, Neighbors, ReplaceOne

__all__ = ["Direction", "concentrated_cost", "curve_of", "profile_bounds"]

Direction: TypeAlias = Literal["remove", "add"]
"""remove: P saw the unit, Q did not; add: the other way round. Guarantees need both."""

_LARGEST_TABLE = 50_000
"""Discrete Gaussians beyond this sigma are bounded by their zCDP, not tabulated."""


def profile_bounds(
    event: Event,
    epsilons: ArrayLike,
    *,
    direction: Direction = "remove",
    neighbors: Neighbors = AddRemove,
) -> tuple[Array, Array]:
    """Bounds of delta(epsilon) = sup over A of P(A) - e^epsilon Q(A), one direction.

    epsilons: floats of any shape, negative and infinite ones too; each means the number it holds.
    direction: see Direction; the worse of both is the event's delta. neighbors: sampling is
    priced only under the relation that its theorem names. The numbers inside a fixed-size sample
    speak of adding or removing one unit, as everywhere, and are read here for replacing one.
    Returns (lower, upper), arrays of that shape with lower <= delta <= upper.
    Raises UnsupportedEvent for compositions other than of Gaussian events, shuffled ones, and
    sampling schemes under another relation; InvalidParameter for NaN and unknown words.

    Bound       both, of the worst pair that the event allows; for ZeroConcentrated, and discrete
                Gaussian noise of l2 sensitivity sqrt(2) or more, of the supremum over pairs.
    Source      the functions of `curves` and `amplified`; docs/proofs/pld.md.

    >>> lower, upper = profile_bounds(Gaussian(noise_multiplier=1.0), [1.0])
    >>> float(lower[0]) <= 0.12693673750664397 <= float(upper[0])
    True
    """
    asked = np.asarray(epsilons, dtype=np.float64)
    if np.isnan(asked).any():
        raise InvalidParameter("epsilons", epsilons, expected="numbers, none of them NaN")
    found = curve_of(event, direction=direction, neighbors=neighbors)(asked)
    return found.lower, found.upper


def curve_of(
    event: Event, *, direction: Direction = "remove", neighbors: Neighbors = AddRemove
) -> Curve:
    """The profile of one direction of an event as a Curve; see profile_bounds."""
    if direction not in ("remove", "add"):
        raise InvalidParameter("direction", direction, expected="'remove' or 'add'")
    match event:
        case Gaussian() | Repeated() | Composed():
            return curves.gaussian(_gaussian_sum(event))
        case Laplace(noise_multiplier=m):
            return curves.laplace(1 / exact("noise_multiplier", m))
        case DiscreteGaussian(sigma=sigma, sensitivity=sensitivity):
            return _discrete_gaussian(exact("sigma", sigma), exact("sensitivity", sensitivity))
        case DiscreteLaplace(scale=scale, sensitivity=sensitivity):
            shift = math.floor(exact("sensitivity", sensitivity))  # the query is a whole number
            return curves.discrete_laplace(exact("scale", scale), shift)
        case RandomizedResponse(epsilon=epsilon, categories=categories):
            return curves.randomized_response(exact("epsilon", epsilon), categories)
        case Exponential(epsilon=epsilon):
            return curves.bounded_range(exact("epsilon", epsilon))
        case Pure(epsilon=epsilon):
            return curves.approximate(exact("epsilon", epsilon))
        case Approximate(epsilon=epsilon, delta=delta):
            return curves.approximate(exact("epsilon", epsilon), exact("delta", delta))
        case ZeroConcentrated(rho=rho, delta=delta):
            return curves.zero_concentrated(exact("rho", rho), exact("delta", delta))
        case PoissonSampled(event=inner, rate=rate):
            if neighbors is ReplaceOne:
                raise UnsupportedEvent(
                    event,
                    kind="a privacy profile under ReplaceOne",
                    try_instead="Poisson sampling is priced under AddRemove or ZeroOut.",
                )
            curve = curve_of(inner, direction=direction, neighbors=neighbors)
            share = exact("rate", rate)
            if direction == "remove":
                return amplified.poisson_sampled_remove(curve, share)
            return amplified.poisson_sampled_add(curve, share)
        case FixedSizeSampled(event=inner, size=size, population=population):
            if neighbors is not ReplaceOne:
                raise UnsupportedEvent(
                    event,
                    kind=f"a privacy profile under {neighbors}",
                    try_instead="Fixed-size sampling is priced under ReplaceOne.",
                )
            forward, backward = _replaced(inner, 1)
            return amplified.fixed_size_sampled(forward, backward, Fraction(size, population))
        case RandomAllocation(event=inner, steps=steps, uses=1) if steps > 1:
            if neighbors is ReplaceOne:
                raise UnsupportedEvent(
                    event,
                    kind="a privacy profile under ReplaceOne",
                    try_instead="Random allocation is priced under AddRemove or ZeroOut.",
                )
            return allocated(_tails(inner, steps, neighbors), remove=direction == "remove")
        case ReplacementSampled(event=inner, size=size, population=population):
            if neighbors is not ReplaceOne:
                raise UnsupportedEvent(
                    event,
                    kind=f"a privacy profile under {neighbors}",
                    try_instead="Draws with replacement are priced under ReplaceOne.",
                )
            return noises.with_replacement(
                functools.partial(_replaced, inner), size=size, population=population
            )
        case Staircase() | TruncatedLaplace():
            return _of_law(event)
        case GaussianMixture() | MatrixMechanism() | TreeAggregation() if neighbors is ReplaceOne:
            return curve_of(under_replacement(event), direction=direction, neighbors=neighbors)
        case GaussianMixture(noise_multiplier=m, shifts=shifts, weights=weights):
            moved = [exact("shifts", shift) for shift in shifts]
            shares = [exact("weights", weight) for weight in weights]
            if not any(shift and share for shift, share in zip(moved, shares, strict=True)):
                return curves.nothing()
            return noises.gaussian_mixture(
                moved,
                shares,
                noise=exact("noise_multiplier", m),
                remove=direction == "remove",
            )
        case MatrixMechanism() | CyclicPoissonSampled() | TreeAggregation() | RandomAllocation():
            return curve_of(plain(event), direction=direction, neighbors=neighbors)
        case Shuffled():
            raise UnsupportedEvent(
                event,
                kind="a privacy profile",
                try_instead="Shuffling is priced by its own theorem.",
            )
        case NegativeBinomialTries() | PoissonTries():
            raise UnsupportedEvent(
                event,
                kind="a privacy profile",
                try_instead="Price its parts as events of another kind.",
            )
        case _ as unreachable:
            assert_never(unreachable)


@functools.lru_cache(maxsize=8)
def _tails(event: Event, steps: int, neighbors: Neighbors) -> Tails:
    """Remembered: they hold large tables."""
    forward = curve_of(event, direction="remove", neighbors=neighbors)
    backward = curve_of(event, direction="add", neighbors=neighbors)
    return Tails.of(forward, backward, steps)


def concentrated_cost(event: Event) -> Fraction | None:
    """The rho of events whose profile is known by their zCDP only; None for all others.

    Bound       upper.
    Source      Canonne, Kamath, Steinke 2020, Proposition 5 (discrete Gaussian noise).
    """
    match event:
        case ZeroConcentrated(rho=rho):
            return exact("rho", rho)
        case DiscreteGaussian(sigma=one, sensitivity=moved):
            sigma, sensitivity = exact("sigma", one), exact("sensitivity", moved)
            if sensitivity >= 1 and not _tabulated(sigma, sensitivity):
                return sensitivity**2 / (2 * sigma**2)
        case _:
            pass
    return None


def _tabulated(sigma: Fraction, sensitivity: Fraction) -> bool:
    return sensitivity * sensitivity < 2 and sigma <= _LARGEST_TABLE


def _replaced(event: Event, units: int) -> tuple[Curve, Curve]:
    """Both directions of an event inside a sample, that many units replaced at once."""
    if isinstance(event, Staircase):
        curve = _of_law(event, replaced=units)
        return curve, curve
    pair = under_replacement(event, units=units)
    return (
        curve_of(pair, direction="remove", neighbors=ReplaceOne),
        curve_of(pair, direction="add", neighbors=ReplaceOne),
    )


def _of_law(event: Event, *, replaced: int = 0) -> Curve:
    law = law_of(event, reach=0, replaced=replaced)
    if isinstance(law, Finite):
        return noises.finite(law)
    assert isinstance(law, Edged)
    return noises.edged(law)


def _gaussian_sum(event: Event) -> Fraction:
    """The sum of mu^2 = 1 / noise_multiplier^2 of a composition of Gaussian events."""
    match event:
        case Gaussian(noise_multiplier=m):
            return 1 / exact("noise_multiplier", m) ** 2
        case Repeated(event=one, count=count):
            return count * _gaussian_sum(one)
        case Composed(parts=parts):
            return sum((_gaussian_sum(part) for part in parts), start=Fraction(0))
        case _:
            raise UnsupportedEvent(
                event,
                kind="a closed profile as a part of a composition",
                try_instead="Compose privacy loss distributions.",
            )


def _discrete_gaussian(sigma: Fraction, sensitivity: Fraction) -> Curve:
    """One shift by 1 below an l2 sensitivity of sqrt(2), exactly; else zCDP above it."""
    square = sensitivity * sensitivity
    shift = math.floor(sensitivity)
    if _tabulated(sigma, sensitivity):
        return curves.discrete_gaussian(sigma, shift)
    if shift == 0:
        return curves.nothing()
    above = curves.zero_concentrated(square / (2 * sigma * sigma))
    below = curves.nothing()
    if sigma <= _LARGEST_TABLE:
        below = curves.discrete_gaussian(sigma, shift)

    def evaluate(epsilon: Box) -> Box:
        return Box(below.evaluate(epsilon).lower, above.evaluate(epsilon).upper)

    return Curve(evaluate=evaluate, attained=below)
