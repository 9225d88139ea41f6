"""Curves from bounds of a profile that are known as functions of epsilon only, laid down once."""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import replace
from fractions import Fraction
from typing import TypeAlias

import numpy as np

from unacorda.accounting.pld.grid import law_below
from unacorda.accounting.pld.sources import curve_of_atoms, curve_of_both, curve_through
from unacorda.accounting.profiles.atoms import DiscreteLoss
from unacorda.accounting.profiles.boxes import Array, Box
from unacorda.accounting.profiles.curves import PrivacyProfile

Profile: TypeAlias = Callable[[Array], Array]
"""Upper bounds of delta at epsilons from 0 on, at most 1."""

_U = 2.0**-53
_LARGEST = 600.0
_SCALE = np.concatenate(([0.0], np.geomspace(1e-6, _LARGEST, 400)))
_SMALL = (1e-300, 1e-40, 1e-9)
_POINTS = 600
_CELLS = 1 << 12
_SAMPLES, _SAMPLED, _FALL = 48, 1e-9, 0.5
"""Points of a curve that takes long to be asked, the least delta, and ln of its falls between."""
_NEAR = 1.05


def upper_of(curve: PrivacyProfile) -> Profile:
    """The upper side of a curve."""
    return lambda epsilon: curve(epsilon).upper


def laid_down(
    forward: Profile, backward: Profile, *, attained: PrivacyProfile, places: Sequence[float] = ()
) -> PrivacyProfile:
    """A curve nowhere below a profile of which only upper bounds are known.

    forward, backward: of both directions, this one first; attained: of one pair that occurs;
    places: where the bounds have corners.

    Statement   the convex minorant, in e^epsilon, of the points of `forward` at many epsilons, of
                1 - e^-epsilon (1 - backward) at their negatives, and of (0, 1).
    Bound       upper: a profile is convex there, so it lies below the chords of what is above it.
    Source      docs/proofs/pld.md, Theorem 4.
    """
    found = forward(_SCALE)
    ends = [_end(found, small) for small in _SMALL]
    grids = [np.linspace(0.0, end, _POINTS) for end in ends]
    at = np.concatenate((*grids, np.geomspace(1e-6, max(ends), _POINTS), list(places)))
    at = np.unique(np.clip(at, 0.0, _LARGEST))
    ahead = np.minimum.accumulate(np.minimum(forward(at), 1.0))
    behind = np.minimum.accumulate(np.minimum(backward(at), 1.0))
    law = curve_of_both(at, ahead, behind)

    def evaluate(epsilon: Box) -> Box:
        least = (-epsilon.expm1()).at_least(0.0).lower
        return Box(least, np.maximum(law.evaluate(epsilon).upper, least))

    return PrivacyProfile(
        evaluate=evaluate,
        infinity=min(attained.infinity, law.most_infinity),
        infinity_above=law.most_infinity,
        atoms=law.atoms,
        attained=attained,
    )


def sampled_above(curve: PrivacyProfile, delta: Callable[[float], float]) -> PrivacyProfile:
    """A curve nowhere above another one, by its delta at a few epsilons from 0 on.

    curve: both bounds of a profile, returned as it is where they are near; delta: an upper bound
    of the same profile that takes longer to be asked.

    Bound       upper: of both bounds the lower one; a profile lies below its chords.
    Source      docs/proofs/pld.md, Theorem 4.
    """
    lower = curve.attained or curve
    places = np.linspace(0.0, end_of_upper(curve, above=_SAMPLED), _SAMPLES)
    if np.all(curve(places).upper <= _NEAR * lower(places).upper + _SAMPLED):
        return curve
    epsilons, values, step = [0.0], [min(delta(0.0), 1.0)], float(places[1])
    while values[-1] > _SAMPLED and len(values) < 4 * _SAMPLES:
        epsilons.append(epsilons[-1] + step)
        values.append(min(delta(epsilons[-1]), values[-1]))
        fall = math.log(values[-2] / max(values[-1], 1e-300))
        step *= min(max(_FALL / max(fall, 1e-300), 0.5), 2.0)
    law = curve_through(np.array(epsilons), np.array(values))

    def evaluate(epsilon: Box) -> Box:
        found = curve.evaluate(epsilon)
        upper = np.minimum(found.upper, law.evaluate(epsilon).upper)
        return Box(found.lower, np.maximum(upper, found.lower))

    return replace(curve, evaluate=evaluate, atoms=None, attained=lower)


def laid_below(curve: PrivacyProfile) -> PrivacyProfile:
    """A curve nowhere above another one that takes long to be asked: its law on one grid.

    Bound       lower.
    Source      law_below.
    """
    end = end_of_losses(curve, above=_SMALL[-1])
    count = _CELLS // 2
    step = Fraction(end) / count
    law = law_below(curve, step=step, first=-count - 2, last=count + 2)
    losses: Array = np.asarray((np.arange(len(law.weights)) + law.first) * float(step))
    held = law.weights > 0
    return curve_of_atoms(
        DiscreteLoss(
            losses=losses[held],
            masses=law.weights[held],
            infinity=law.infinity,
            infinity_above=law.infinity,
            error=8 * _U * end,
            spacing=step,
        )
    )


def end_of_losses(curve: PrivacyProfile, *, above: float) -> float:
    """About the epsilon from which on delta is the mass of infinite loss, but for `above`.

    Bound       none: it is a place to look at.
    Source      the definition.
    """
    return _end(curve(_SCALE).lower, above)


def end_of_upper(curve: PrivacyProfile, *, above: float) -> float:
    """As `end_of_losses`, of the upper bound of the profile."""
    return _end(curve(_SCALE).upper, above)


def by_divergences(orders: Sequence[float], divergences: Sequence[float]) -> Profile:
    """The profile that Renyi divergences of both directions allow.

    Statement   the least over the orders a of e^{(a-1)(D_a - epsilon)} (1 - 1/a)^{a-1} / a.
    Bound       upper, rounded up.
    Source      Canonne, Kamath, Steinke 2020, Proposition 12.
    """
    known = [
        (order, divergence)
        for order, divergence in zip(orders, divergences, strict=True)
        if divergence < math.inf
    ]

    def evaluate(epsilon: Array) -> Array:
        found = np.ones_like(epsilon)
        for order, divergence in known:
            less = order - 1
            fixed = less * math.log1p(-1 / order) - math.log(order)
            power = less * (divergence - epsilon) + fixed
            size = less * (abs(divergence) + np.abs(epsilon)) + abs(fixed) + 4
            with np.errstate(under="ignore"):
                value = np.exp(np.minimum(power + 16 * _U * size, 0.0)) + 1e-320
            found = np.minimum(found, value)
        return found

    return evaluate


def _end(values: Array, above: float) -> float:
    """The first place of the scale at which a falling function is at its end, but for `above`."""
    under = np.flatnonzero(values <= float(values[-1]) * (1 + 1e-9) + above)
    return float(_SCALE[max(int(under[0]), 1)]) if len(under) else _LARGEST
