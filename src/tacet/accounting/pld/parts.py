"""The pairs of which a composition consists, each with how often it occurs."""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

from fractions import Fraction
from typing import NamedTuple

from tacet.accounting.contour.parts import flatten
from tacet.accounting.profiles import curves
from tacet.accounting.profiles.bounds import Direction, concentrated_cost, curve_of
from tacet.accounting.profiles.curves import Curve
from tacet.checks import exact
from tacet.privacy.events import (
    Approximate,
    DiscreteGaussian,
    DiscreteLaplace,
    Event,
    Exponential,
    FixedSizeSampled,
    Gaussian,
    Laplace,
    Pure,
    RandomizedResponse,
    ZeroConcentrated,
)
from tacet.privacy.neighbors import Neighbors

__all__ = ["Part", "parts_of", "same_in_both_directions"]

_SYMMETRIC = (
    Approximate,
    DiscreteGaussian,
    DiscreteLaplace,
    Exponential,
    FixedSizeSampled,
    Gaussian,
    Laplace,
    Pure,
    RandomizedResponse,
    ZeroConcentrated,
)


class Part(NamedTuple):
    """One pair, `times` times: a curve nowhere below its profile, one nowhere above it.

    None stands for no loss at all.
    """

    above: Curve | None
    below: Curve | None
    times: int


def parts_of(event: Event, *, direction: Direction, neighbors: Neighbors) -> tuple[Part, ...]:
    """The parts of an event, compositions opened; Gaussian ones and concentrated ones are added up.

    Bound       both: the composition of the upper curves dominates the event; the composition of
                the lower ones is one that the event allows.
    Source      Bun and Steinke 2016, Lemma 1.7 (zCDP adds); docs/proofs/pld.md.
    """
    found: list[Part] = []
    mu_squared, rho, rest = Fraction(0), Fraction(0), Fraction(1)
    for one, count in flatten([(event, 1)], neighbors=neighbors):
        if isinstance(one, Gaussian):
            mu_squared += count / exact("noise_multiplier", one.noise_multiplier) ** 2
            continue
        curve = curve_of(one, direction=direction, neighbors=neighbors)
        cost = concentrated_cost(one)
        if cost is None:
            found.append(Part(curve, curve.attained or curve, count))
            continue
        rho += count * cost
        mass = exact("delta", one.delta) if isinstance(one, ZeroConcentrated) else 0
        # rational powers grow with the count: beyond some the mass is rounded up
        rest *= (1 - mass) ** count if count < 1000 else max(1 - mass * count, Fraction(0))
        found.append(Part(None, curve.attained or curve, count))
    if mu_squared:
        curve = curves.gaussian(mu_squared)
        found.append(Part(curve, curve, 1))
    if rho or rest < 1:
        found.append(Part(curves.zero_concentrated(rho, 1 - rest), None, 1))
    return tuple(found)


def same_in_both_directions(event: Event) -> bool:
    """Whether it is known that removing and adding a unit have the same profile.

    Bound       none: False where it is not known.
    Source      the noise is symmetric, or the profile is that of the worst of both directions.
    """
    return all(isinstance(one, _SYMMETRIC) for one, _ in flatten([(event, 1)]))
