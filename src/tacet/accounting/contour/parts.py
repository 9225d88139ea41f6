"""From events to the parts of one direction: which laws of the loss dominate them."""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, Literal, TypeAlias

import numpy as np

from tacet.accounting.contour.atoms import Atoms
from tacet.accounting.contour.closed import FiniteLaw, GaussianSum, ThreePoint
from tacet.accounting.contour.factor import Factor
from tacet.accounting.contour.laplace import LaplaceSum
from tacet.accounting.contour.sampled_gaussian import sampled_gaussian
from tacet.accounting.contour.sampled_laplace import sampled_laplace
from tacet.accounting.contour.series import UNIT
from tacet.checks import exact
from tacet.errors import UnsupportedEvent
from tacet.privacy.enclosure import context, mpf
from tacet.privacy.events import (
    Approximate,
    Composed,
    DiscreteLaplace,
    Event,
    Gaussian,
    Laplace,
    PoissonSampled,
    Pure,
    RandomizedResponse,
    Repeated,
)

__all__ = ["SYMMETRIC", "Direction", "Parts", "flatten", "parts_of"]

Direction: TypeAlias = Literal["remove", "add"]
"""remove: the unit is in the first table, not in the second; add: the other way round."""

SYMMETRIC = Gaussian | Laplace | DiscreteLaplace | Pure | Approximate | RandomizedResponse
"""Events whose loss has one law in both directions."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Parts:
    """The parts of one direction, and the probability that some loss is infinite.

    infinite: a number of the working precision; 0 where no part has infinite losses.
    """

    factors: tuple[Factor, ...]
    infinite: Any


def flatten(composition: Iterable[tuple[Event, int]]) -> tuple[tuple[Event, int], ...]:
    """Atomic events with their counts: repetitions multiplied out, compositions opened."""
    counts: dict[Event, int] = {}
    for event, count in composition:
        match event:
            case Repeated(event=inner, count=times):
                within: tuple[tuple[Event, int], ...] = ((inner, times),)
            case Composed(parts=parts):
                within = flatten((part, 1) for part in parts)
            case _:
                within = ((event, 1),)
        for alone, times in within:
            one = _plain(alone)
            counts[one] = counts.get(one, 0) + times * count
    return tuple((event, count) for event, count in counts.items() if count)


def _plain(event: Event) -> Event:
    """A sample of everybody is no sample."""
    if isinstance(event, PoissonSampled) and exact("rate", event.rate) == 1:
        return _plain(event.event)
    return event


def parts_of(
    events: Sequence[tuple[Event, int]], *, direction: Direction, log_delta: float
) -> Parts | None:
    """The parts; None where one is too extreme for floats.

    events: as `flatten` gives them; log_delta: ln of about the delta in question.
    Raises UnsupportedEvent for an event whose loss has no dominating law here.
    """
    remove = direction == "remove"
    steps = sum(count for _, count in events) + 1
    factors: list[Factor | None] = []
    v = Fraction(0)
    laplace: list[tuple[float, int]] = []
    points: list[tuple[float, float, int]] = []
    log_finite = context().mpf(0)
    for event, count in events:
        match event:
            case Gaussian(noise_multiplier=noise):
                v += count / exact("noise_multiplier", noise) ** 2
            case Laplace(noise_multiplier=noise):
                laplace.append((float(1 / exact("noise_multiplier", noise)), count))
            case PoissonSampled(event=Gaussian(noise_multiplier=noise), rate=rate):
                factors.append(
                    sampled_gaussian(
                        noise_multiplier=exact("noise_multiplier", noise),
                        rate=exact("rate", rate),
                        count=count,
                        remove=remove,
                        log_delta=log_delta,
                        steps=steps,
                    )
                )
            case PoissonSampled(event=Laplace(noise_multiplier=noise), rate=rate):
                factors.append(
                    sampled_laplace(
                        noise_multiplier=exact("noise_multiplier", noise),
                        rate=exact("rate", rate),
                        count=count,
                        remove=remove,
                    )
                )
            case PoissonSampled(event=inner, rate=rate):
                law = _two_sided(inner)
                if law is None or isinstance(inner, Approximate):
                    raise _unsupported(event)
                factors.append(_sampled(*law, exact("rate", rate), count=count, remove=remove))
            case _:
                law = _two_sided(event)
                if law is None:
                    raise _unsupported(event)
                if law[0] > 0:
                    points.append((float(law[0]), law[1], count))
                if isinstance(event, Approximate):
                    share = exact("delta", event.delta)
                    log_finite += count * context().log1p(-mpf(share)) if share < 1 else -math.inf
    if v:
        factors.append(GaussianSum(v=float(v)))
    if laplace:
        u, counts = (
            np.array([pair[0] for pair in laplace]),
            np.array([pair[1] for pair in laplace], dtype=np.float64),
        )
        factors.append(LaplaceSum(u=u, counts=counts))
    if points:
        table = np.array(points, dtype=np.float64)
        factors.append(ThreePoint(epsilon=table[:, 0], top=table[:, 1], counts=table[:, 2]))
    if any(factor is None for factor in factors):
        return None
    return Parts(
        factors=tuple(factor for factor in factors if factor is not None),
        infinite=-context().expm1(log_finite),
    )


def _two_sided(event: Event) -> tuple[Fraction, float] | None:
    """(epsilon, P(loss = epsilon)) of a law on epsilon, 0 and -epsilon that dominates the event.

    Source      Kairouz, Oh and Viswanath 2015, Theorem 3.3, for what is only known to be private.
    """
    match event:
        case Pure(epsilon=number) | Approximate(epsilon=number):
            epsilon = exact("epsilon", number)
            return epsilon, 1 / (1 + math.exp(-epsilon))
        case RandomizedResponse(epsilon=number, categories=categories):
            epsilon = exact("epsilon", number)
            return epsilon, 1 / (1 + (categories - 1) * math.exp(-epsilon))
        case DiscreteLaplace(scale=scale, sensitivity=sensitivity) if sensitivity == 1:
            epsilon = 1 / exact("scale", scale)
            return epsilon, 1 / (1 + math.exp(-epsilon))
        case _:
            return None


def _sampled(
    epsilon: Fraction, top: float, rate: Fraction, *, count: int, remove: bool
) -> FiniteLaw | None:
    """The mixture of a law on epsilon, 0, -epsilon with its null law, atom by atom."""
    e, q = float(epsilon), float(rate)
    if e > 700:
        return None
    rest = max(1 - top * (1 + math.exp(-e)), 0.0)
    ratio = np.array([math.log1p(q * math.expm1(e)), 0.0, math.log1p(q * math.expm1(-e))])
    log_top = math.log(top)
    mass = np.array([log_top - e, math.log(rest) if rest > 1e-12 else -800.0, log_top])
    slip = np.array([12.0 + 3 * e, 0.0, 12.0 + 3 * e / (1 - min(q, 1 - 1e-16))]) * UNIT
    middle = 40 / max(rest, 1e-12)
    return FiniteLaw(
        atoms=Atoms(
            log_mass=mass,
            log_mass_error=UNIT * np.array([20 + 4 * e, middle, 20 + 4 * e]),
            log_ratio=ratio,
            log_ratio_error=slip * (1 + np.abs(np.expm1(-ratio))) + 8 * UNIT * np.abs(ratio),
        ),
        remove=remove,
        count=count,
    )


def _unsupported(event: Event) -> UnsupportedEvent:
    return UnsupportedEvent(
        event,
        kind="the contour engine",
        try_instead="Its parts: Gaussian, Laplace, pure, approximate and randomised-response "
        "events, and Poisson samples of the Gaussian, Laplace, pure and randomised-response ones.",
    )
