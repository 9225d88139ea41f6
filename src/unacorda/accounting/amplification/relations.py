"""Which relation a sampling scheme speaks of, and events read under another one."""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

import contextlib
import dataclasses
from fractions import Fraction

from unacorda.accounting.matrices import plain
from unacorda.accounting.rewriting import with_parts
from unacorda.checks import exact
from unacorda.errors import InvalidParameter, UnsupportedEvent
from unacorda.privacy.conversions.group import approx_dp_of_group
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
    compose,
)
from unacorda.privacy.neighbors import AddRemove, Neighbors, ReplaceOne, check_neighbors

__all__ = [
    "check_relation",
    "holds_allocation",
    "holds_fixed_size",
    "holds_sample",
    "under_replacement",
    "units_replaced",
]


def check_relation(event: Event, neighbors: Neighbors) -> None:
    """Refuse a scheme that says nothing about this relation; InvalidParameter has the hint.

    Poisson samples are priced under every relation (replacement as removing and adding). A fixed
    size and shuffling keep the number of units: they speak of ReplaceOne and ZeroOut only.

    Bound       none: it only refuses.
    Source      Balle, Barthe, Gaboardi 2018, Table 1.
    """
    check_neighbors(neighbors)
    match event:
        case Composed(parts=parts):
            for part in parts:
                check_relation(part, neighbors)
        case (
            Repeated(event=one)
            | PoissonSampled(event=one)
            | RandomAllocation(event=one)
            | NegativeBinomialTries(event=one)
            | PoissonTries(event=one)
        ):
            check_relation(one, neighbors)
        case FixedSizeSampled() | ReplacementSampled() | Shuffled() if neighbors is AddRemove:
            scheme = "shuffling" if isinstance(event, Shuffled) else "a fixed size"
            raise InvalidParameter(
                "neighbors",
                neighbors,
                expected="neighbors=unacorda.ReplaceOne",
                hint=f"{scheme} keeps the number of units, so it says nothing about adding or "
                "removing one; or use poisson_sampled(rate=...)",
            )
        case _:
            pass


def under_replacement(event: Event, *, units: int = 1) -> Event:
    """The event inside a sample of fixed size, its numbers read as add/remove, under replacement.

    Replacing one unit is removing one and adding another: shifts double. Randomised response is
    the exception: its epsilon speaks of replacing one answer from the start. units: how many are
    replaced at once, or how often one was drawn.

    Bound       upper: whoever keeps the argument under add/remove keeps the result.
    Source      group privacy of two steps; for bounded range, ranges of log-ratios add; for
                staircases, docs/proofs/contour.md, section 11.

    >>> under_replacement(Gaussian(noise_multiplier=1.0))
    Gaussian(noise_multiplier=Fraction(1, 2))
    """
    times = 2 * units
    match event:
        case Gaussian(noise_multiplier=m):
            return Gaussian(noise_multiplier=exact("noise_multiplier", m) / times)
        case Laplace(noise_multiplier=m):
            return Laplace(noise_multiplier=exact("noise_multiplier", m) / times)
        case TruncatedLaplace(noise_multiplier=m, bound=bound):
            left = exact("bound", bound) / times
            if 2 * left < 1:  # the supports part: everything is shown
                return Approximate(epsilon=0, delta=1)
            return TruncatedLaplace(
                noise_multiplier=exact("noise_multiplier", m) / times, bound=left
            )
        case GaussianMixture(noise_multiplier=m, shifts=shifts, weights=weights):
            # whatever both units drew: mixtures are no farther apart than their farthest parts
            farthest = max(
                exact("shifts", shift)
                for shift, weight in zip(shifts, weights, strict=True)
                if weight
            )
            if farthest == 0:
                return Pure(epsilon=0)
            return Gaussian(noise_multiplier=exact("noise_multiplier", m) / (times * farthest))
        case DiscreteGaussian(sigma=sigma, sensitivity=moved):
            return DiscreteGaussian(sigma=sigma, sensitivity=times * exact("sensitivity", moved))
        case DiscreteLaplace(scale=scale, sensitivity=moved):
            return DiscreteLaplace(scale=scale, sensitivity=times * exact("sensitivity", moved))
        case RandomizedResponse(epsilon=epsilon):
            return event if units == 1 else Pure(epsilon=units * exact("epsilon", epsilon))
        case Exponential(epsilon=epsilon):
            return Exponential(epsilon=times * exact("epsilon", epsilon))
        case Pure(epsilon=epsilon) | Staircase(epsilon=epsilon):
            return Pure(epsilon=times * exact("epsilon", epsilon))
        case Approximate(epsilon=epsilon, delta=delta):
            larger, mass = approx_dp_of_group(
                exact("epsilon", epsilon), delta=exact("delta", delta), size=times
            )
            return Approximate(epsilon=larger, delta=Fraction(mass))
        case ZeroConcentrated(rho=rho, delta=delta) if delta == 0:
            return ZeroConcentrated(rho=times**2 * exact("rho", rho))
        case PoissonSampled(event=one, rate=rate) if exact("rate", rate) == 1:
            return under_replacement(one, units=units)
        case MatrixMechanism() | TreeAggregation():
            return under_replacement(plain(event), units=units)
        case NegativeBinomialTries(event=one) | PoissonTries(event=one):
            return dataclasses.replace(event, event=under_replacement(one, units=units))
        case Repeated(event=one, count=count):
            return compose([under_replacement(one, units=units)], count=count)
        case Composed(parts=parts):
            return compose([under_replacement(part, units=units) for part in parts])
        case (
            ZeroConcentrated()
            | PoissonSampled()
            | FixedSizeSampled()
            | Shuffled()
            | ReplacementSampled()
            | RandomAllocation()
            | CyclicPoissonSampled()
        ):
            raise UnsupportedEvent(
                event,
                kind="a sample of fixed size",
                try_instead="Sample an event whose price under replacement is known.",
            )


def units_replaced(event: Event, neighbors: Neighbors) -> Event:
    """Mixtures, matrices, trees and samples of everybody, in compositions too, under replacement.

    Their numbers compare a unit with none: under replacement both units count, each at steps of
    its own. Under the other relations the event itself.

    Bound       upper.
    Source      under_replacement.
    """
    if neighbors is not ReplaceOne:
        return event
    match event:
        case Repeated() | Composed():
            return with_parts(event, lambda part: units_replaced(part, neighbors))
        case GaussianMixture() | MatrixMechanism() | TreeAggregation():
            return under_replacement(event)
        case PoissonSampled(event=one, rate=rate) if exact("rate", rate) == 1:
            with contextlib.suppress(UnsupportedEvent):
                return under_replacement(one)
            return event
        case _:
            return event


def holds_sample(event: Event) -> bool:
    """Whether a part of the event is a sample or shuffled.

    Bound       none: it only looks.
    Source      the event.
    """
    match event:
        case Repeated(event=one):
            return holds_sample(one)
        case Composed(parts=parts):
            return any(holds_sample(part) for part in parts)
        case _:
            return isinstance(
                event,
                PoissonSampled
                | FixedSizeSampled
                | ReplacementSampled
                | Shuffled
                | RandomAllocation
                | CyclicPoissonSampled,
            )


def holds_allocation(event: Event) -> bool:
    """Whether a part of the event is a random allocation.

    Bound       none: it only looks.
    Source      the event.
    """
    match event:
        case Repeated(event=one):
            return holds_allocation(one)
        case Composed(parts=parts):
            return any(holds_allocation(part) for part in parts)
        case _:
            return isinstance(event, RandomAllocation)


def holds_fixed_size(event: Event) -> bool:
    """Whether a part of the event is a sample of fixed size.

    Bound       none: it only looks.
    Source      the event.
    """
    match event:
        case Repeated(event=one):
            return holds_fixed_size(one)
        case Composed(parts=parts):
            return any(holds_fixed_size(part) for part in parts)
        case _:
            return isinstance(event, FixedSizeSampled)
