"""Profiles of events: the curve delta(epsilon) of one direction, with floats on both sides."""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

import functools
import math
from collections.abc import Callable
from fractions import Fraction
from typing import Literal, TypeAlias, assert_never

import numpy as np
from numpy.typing import ArrayLike

from unacorda.accounting.amplification.relations import under_replacement
from unacorda.accounting.contour.laws import Edged, Finite, law_of
from unacorda.accounting.matrices import plain
from unacorda.accounting.profiles import amplified, curves, noises
from unacorda.accounting.profiles.allocated import Tails, allocated
from unacorda.accounting.profiles.boxes import Array, Box
from unacorda.accounting.profiles.curves import Curve
from unacorda.accounting.profiles.replaced import two_steps
from unacorda.checks import exact
from unacorda.errors import InvalidParameter, UnsupportedEvent
from unacorda.privacy.events import (
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
from unacorda.privacy.neighbors import AddRemove, Neighbors, ReplaceOne

__all__ = ["CurveOf", "Direction", "concentrated_cost", "curve_of", "profile_bounds"]

Direction: TypeAlias = Literal["remove", "add"]
"""remove: P saw the unit, Q did not; add: the other way round. Guarantees need both."""
CurveOf: TypeAlias = Callable[[Event, Direction, Neighbors], Curve]
"""One direction's profile; raises UnsupportedEvent where none is known."""

_WAYS = (True, False)
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
    event: Event,
    *,
    direction: Direction = "remove",
    neighbors: Neighbors = AddRemove,
    inside: CurveOf | None = None,
) -> Curve:
    """The profile of one direction of an event as a Curve; see profile_bounds.

    inside: the curves of compositions, selections and shuffled events, wherever they stand in the
    event; None: these are refused.
    """
    if direction not in ("remove", "add"):
        raise InvalidParameter("direction", direction, expected="'remove' or 'add'")

    def part(one: Event, *, remove: bool, neighbors: Neighbors = neighbors) -> Curve:
        asked: Direction = "remove" if remove else "add"
        return curve_of(one, direction=asked, neighbors=neighbors, inside=inside)

    remove = direction == "remove"
    match event:
        case Gaussian() | Repeated() | Composed() if (square := _gaussian_sum(event)) is not None:
            return curves.gaussian(square)
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
        case PoissonSampled(event=Pure(epsilon=epsilon), rate=rate) if neighbors is ReplaceOne:
            return noises.replaced_response(exact("epsilon", epsilon), exact("rate", rate))
        case PoissonSampled(event=inner, rate=rate) if neighbors is ReplaceOne:
            forward, backward = (part(inner, remove=way, neighbors=AddRemove) for way in _WAYS)
            share = exact("rate", rate)
            reached = None
            if not _opposite(inner):
                reached = amplified.poisson_sampled_remove(forward.attained or forward, share)
            return two_steps(forward, backward, share, attained=reached)
        case PoissonSampled(event=inner, rate=rate):
            sampled = amplified.poisson_sampled_remove if remove else amplified.poisson_sampled_add
            return sampled(part(inner, remove=remove), exact("rate", rate))
        case FixedSizeSampled() | ReplacementSampled() if neighbors is AddRemove:
            raise UnsupportedEvent(
                event,
                kind="a privacy profile under AddRemove",
                try_instead="Samples of a fixed size are priced under ReplaceOne and ZeroOut.",
            )
        case FixedSizeSampled(event=inner, size=size, population=population):
            moved = _replaced(inner, 1, inside)
            share = Fraction(size, population)
            if neighbors is ReplaceOne:
                return amplified.fixed_size_sampled(*moved, share)
            forward, backward = (part(inner, remove=way) for way in _WAYS)
            return amplified.fixed_size_zeroed(moved, (forward, backward), share, remove=remove)
        case RandomAllocation(event=inner, steps=steps, uses=1) if steps > 1:
            if neighbors is ReplaceOne:
                forward, backward = (part(event, remove=way, neighbors=AddRemove) for way in _WAYS)
                return two_steps(forward, backward, Fraction(1), attained=curves.nothing())
            return allocated(_tails(inner, steps, neighbors, inside), remove=remove)
        case ReplacementSampled(event=inner, size=size, population=population):
            # an empty contribution is one of those by which a unit's may be replaced
            group = functools.partial(_replaced, inner, inside=inside)
            return noises.with_replacement(group, size=size, population=population)
        case Staircase() | TruncatedLaplace():
            return _of_law(event)
        case GaussianMixture() | MatrixMechanism() | TreeAggregation() if neighbors is ReplaceOne:
            return part(under_replacement(event), remove=remove)
        case GaussianMixture(noise_multiplier=m, shifts=shifts, weights=weights):
            places = [exact("shifts", shift) for shift in shifts]
            shares = [exact("weights", weight) for weight in weights]
            if not any(shift and share for shift, share in zip(places, shares, strict=True)):
                return curves.nothing()
            return noises.gaussian_mixture(
                places, shares, noise=exact("noise_multiplier", m), remove=remove
            )
        case MatrixMechanism() | CyclicPoissonSampled() | TreeAggregation() | RandomAllocation():
            return part(plain(event), remove=remove)
        case (
            Gaussian()
            | Repeated()
            | Composed()
            | Shuffled()
            | NegativeBinomialTries()
            | PoissonTries()
        ):
            if inside is not None:
                return inside(event, direction, neighbors)
            raise UnsupportedEvent(
                event,
                kind="a closed privacy profile",
                try_instead="Compose privacy loss distributions, or ask the accountant.",
            )
        case _ as unreachable:
            assert_never(unreachable)


@functools.lru_cache(maxsize=8)
def _tails(event: Event, steps: int, neighbors: Neighbors, inside: CurveOf | None) -> Tails:
    """Remembered: they hold large tables."""
    forward = curve_of(event, direction="remove", neighbors=neighbors, inside=inside)
    backward = curve_of(event, direction="add", neighbors=neighbors, inside=inside)
    return Tails.of(forward, backward, steps)


def _opposite(event: Event) -> bool:
    """Whether two units may move the event so that each likelihood is large where the other is not.

    Noise about a number is moved up by one unit, down by another; of promises anything is possible.
    """
    return isinstance(
        event,
        Gaussian
        | GaussianMixture
        | Laplace
        | DiscreteGaussian
        | DiscreteLaplace
        | TruncatedLaplace
        | Pure
        | Approximate
        | ZeroConcentrated,
    )


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


def _replaced(event: Event, units: int, inside: CurveOf | None = None) -> tuple[Curve, Curve]:
    """Both directions of an event inside a sample, that many units replaced at once."""
    if isinstance(event, Staircase):
        curve = _of_law(event, replaced=units)
        return curve, curve
    try:
        pair = under_replacement(event, units=units)
    except UnsupportedEvent:
        if units > 1:
            raise
        forward = curve_of(event, direction="remove", inside=inside)
        backward = curve_of(event, direction="add", inside=inside)
        curve = two_steps(forward, backward, Fraction(1), attained=forward.attained or forward)
        return curve, curve
    return (
        curve_of(pair, direction="remove", neighbors=ReplaceOne, inside=inside),
        curve_of(pair, direction="add", neighbors=ReplaceOne, inside=inside),
    )


def _of_law(event: Event, *, replaced: int = 0) -> Curve:
    law = law_of(event, reach=0, replaced=replaced)
    if isinstance(law, Finite):
        return noises.finite(law)
    assert isinstance(law, Edged)
    return noises.edged(law)


def _gaussian_sum(event: Event) -> Fraction | None:
    """The sum of mu^2 = 1 / noise_multiplier^2 of Gaussian events alone; None for others."""
    match event:
        case Gaussian(noise_multiplier=m):
            return 1 / exact("noise_multiplier", m) ** 2
        case Repeated(event=one, count=count):
            alone = _gaussian_sum(one)
            return None if alone is None else count * alone
        case Composed(parts=parts):
            found = [square for part in parts if (square := _gaussian_sum(part)) is not None]
            return sum(found, start=Fraction(0)) if len(found) == len(parts) else None
        case _:
            return None


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
