"""Curves of staircase, truncated and mixed noise."""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction

import numpy as np

from unacorda.accounting.laws import Edged, Finite, Law, MixedNormal, Normal, of_points
from unacorda.accounting.profiles.boxes import Array, Box, box
from unacorda.accounting.profiles.curves import (
    PrivacyProfile,
    between,
    common_divisor,
    gaussian,
    gaussian_profile,
    nothing,
)
from unacorda.balls import Ball, float_up

_HALVINGS = 64
_STEPS = 14
_FAR = 5e3


def of_law(law: Law, *, remove: bool = True) -> PrivacyProfile:
    """The profile of a pair whose loss has this law.

    remove: of a mixture, the direction in which the unit leaves.

    Bound       both sides.
    Source      those of gaussian, finite, edged and gaussian_mixture.
    """
    match law:
        case Normal(square=square):
            return gaussian(square)
        case Finite():
            return finite(law)
        case Edged():
            return edged(law)
        case MixedNormal():
            return gaussian_mixture(law, remove=remove)


def finite(law: Finite) -> PrivacyProfile:
    """The profile of a symmetric law of finitely many losses.

    Statement   d + (1 - d) times the sum of P(l) (1 - e^(epsilon - l))_+, d the infinite mass.
    Bound       both sides.
    Source      the definition; docs/proofs/contour.md, section 11.
    """
    losses = sorted(law.masses)
    places = [box(loss) for loss in losses]
    shares = [boxed(law.masses[loss]) for loss in losses]
    failed, rest = boxed(law.infinite), boxed(1 - law.infinite)

    def evaluate(epsilon: Box) -> Box:
        total = box(np.zeros_like(epsilon.lower))
        for place, share in zip(places, shares, strict=True):
            total = total + share * (-(epsilon - place).expm1()).at_least(0.0)
        return failed + rest * total

    spacing = common_divisor(losses) or Fraction(1)
    top = Fraction(float((rest * shares[-1]).lower)) if spacing == losses[-1] else None
    return PrivacyProfile(
        evaluate=evaluate,
        infinity=Fraction(float(failed.lower)),
        infinity_above=None if law.infinite.is_zero() else Fraction(float(failed.upper)),
        spacing=spacing,
        atomic=True,
        peak=top,
    )


def within(pure: Fraction, delta: Fraction) -> PrivacyProfile:
    """What is (pure, delta)-DP, and perhaps less: below the worst pair, above no loss at all.

    Bound       both sides, of the supremum over such pairs and of the least of them.
    Source      Kairouz, Oh, Viswanath 2015, Theorem 3.3.
    """
    worst = finite(of_points(pure, 2, delta))
    return between(nothing(), worst.evaluate, infinity_above=delta or None)


def edged(law: Edged) -> PrivacyProfile:
    """The profile of a law between two edges: Laplace noise, cut or not, and bounded ranges.

    Statement   d + (1 - d) (1 - w) (A (1 + w) + B (1 - w)), w = e^((epsilon - edge)/2), for
                |epsilon| <= edge; d above it, and d + (1 - d) (1 - e^epsilon) below.
    Bound       both sides.
    Source      Balle, Barthe, Gaboardi 2018, Theorem 3 (Laplace); Geng, Ding, Guo, Kumar
                2020 (cut); Dong, Durfee, Rogers 2020, Section 3 (ranges: the maximum over pairs of
                coins with these odds); docs/proofs/contour.md, section 11; docs/proofs/pld.md.
    """
    top, atom, inner = box(law.edge), boxed(law.atom), boxed(law.inner)
    failed, rest = boxed(law.infinite), boxed(1 - law.infinite)

    def evaluate(epsilon: Box) -> Box:
        half = ((epsilon - top) * 0.5).at_most(0.0)
        w = half.exp()
        middle = -half.expm1() * (atom * (w + 1.0) + inner * (-half.expm1()))
        least = (-epsilon.expm1()).at_least(0.0)
        below = epsilon.upper < -top.upper
        above = epsilon.lower >= -top.lower
        lower = np.where(above, middle.lower, least.lower)
        upper = np.where(below, least.upper, middle.upper)
        return failed + rest * Box(np.maximum(lower, least.lower), np.maximum(upper, least.upper))

    return PrivacyProfile(
        evaluate=evaluate,
        infinity=Fraction(float(failed.lower)),
        infinity_above=None if law.infinite.is_zero() else Fraction(float(failed.upper)),
        spacing=law.edge,
        peak=Fraction(float((rest * atom).lower)),
    )


def gaussian_mixture(law: MixedNormal, *, remove: bool) -> PrivacyProfile:
    r"""The sum of w_i N(s_i, 1) against N(0, 1), or that pair turned round; s in units of noise.

    Statement   the likelihood ratio f(x), the sum of w_i e^{e_i}, e_i = s_i x - s_i^2/2, rises, so
                the best event is a half-line. With f(x) = e^epsilon delta is the sum of
                w_i delta_i(e_i), and with f(x) = e^-epsilon, turned round,
                e^epsilon times the sum of w_i e^{e_i} delta_i(-e_i), where delta_i is the profile
                of N(s_i, 1) against N(0, 1).
    Bound       both sides: x is bracketed, and both expressions are monotone in it.
    Source      docs/proofs/contour.md, section 16.
    """
    shares: dict[Fraction, Fraction] = {}
    for shift, weight in zip(law.shifts, law.weights, strict=True):
        if weight:
            place = shift / law.noise
            shares[place] = shares.get(place, Fraction(0)) + weight
    still = shares.pop(Fraction(0), Fraction(0))
    if not shares:
        return nothing()
    pairs = [(box(place), box(share)) for place, share in sorted(shares.items())]
    several = [*shares.items(), *([(Fraction(0), still)] if still else [])]
    terms = (
        np.array([float(place) for place, _ in several]),
        np.array([float(share) for _, share in several]),
    )

    def log_ratio(x: Array) -> Box:
        """The logarithm of f at floats x."""
        levels = [_loss(place, box(x)) + share.log() for place, share in pairs]
        if still:
            levels.append(box(np.zeros_like(x)) + box(still).log())
        top = np.maximum.reduce([level.upper for level in levels])
        total = box(np.zeros_like(x))
        for level in levels:
            total = total + (level - box(top)).exp()
        return box(top) + total.log()

    def forward(x: Array) -> Box:
        total = box(np.zeros_like(x))
        for place, share in pairs:
            total = total + share * gaussian_profile(_loss(place, box(x)), place)
        return total

    def backward(x: Array) -> Box:
        total, at = box(np.zeros_like(x)), log_ratio(x)
        for place, share in pairs:
            loss = _loss(place, box(x))
            total = total + (loss - at).exp() * share * gaussian_profile(-loss, place)
        return total

    def evaluate(epsilon: Box) -> Box:
        least = (-epsilon.expm1()).at_least(0.0)
        near = Box(np.maximum(epsilon.lower, -_FAR), np.minimum(epsilon.upper, _FAR))
        low, high = _bracket(log_ratio, near if remove else -near, terms)
        if remove:
            # E (f - e^epsilon)_+ = 1 - e^epsilon + E (e^epsilon - f)_+, and f > still
            plain = least.upper + (near.exp() - box(still)).at_least(0.0).upper
            lower = np.where(np.isnan(high), 0.0, forward(np.nan_to_num(high)).lower)
            upper = np.where(np.isnan(low), 1.0, forward(np.nan_to_num(low)).upper)
            upper = np.minimum(upper, plain)
        else:
            lower = np.where(np.isnan(low), 0.0, backward(np.nan_to_num(low)).lower)
            upper = np.where(np.isnan(high), 1.0, backward(np.nan_to_num(high)).upper)
            if still:  # f > still: no loss exceeds -ln still
                upper = np.where(near.lower > (-(box(still).log())).upper, 0.0, upper)
        lower = np.maximum(lower, least.lower)
        return Box(lower, np.maximum(upper, lower))

    return PrivacyProfile(evaluate=evaluate)


def _bracket(
    log_ratio: Callable[[Array], Box], goal: Box, terms: tuple[Array, Array]
) -> tuple[Array, Array]:
    """Floats x with the ratio's logarithm at most goal, and at least goal; NaN where none is.

    terms: shifts and weights, near which the root is first looked for without bounds.
    """
    shifts, weights = (values.reshape(-1, *([1] * goal.lower.ndim)) for values in terms)
    middle = 0.5 * (goal.lower + goal.upper)
    moving = terms[0][terms[0] > 0]
    reach = (np.abs(middle) + 800.0) / moving.min() + moving.max() + 10.0
    low, high = -reach, reach
    for _ in range(_HALVINGS):
        x = 0.5 * (low + high)
        levels = shifts * (x - 0.5 * shifts) + np.log(weights)
        top = levels.max(axis=0)
        below = top + np.log(np.exp(levels - top).sum(axis=0)) < middle
        low, high = np.where(below, x, low), np.where(below, high, x)
    ends = []
    for side in (-1.0, 1.0):
        place, step = x, 4e-16 * (np.abs(x) + 1.0)
        for _ in range(_STEPS):
            found = log_ratio(place)
            sure = found.upper <= goal.lower if side < 0 else found.lower >= goal.upper
            if sure.all():
                break
            place = np.where(sure, place, x + side * step)
            step = step * 16
        ends.append(np.where(sure, place, np.nan))
    return ends[0], ends[1]


def _loss(place: Box, x: Box) -> Box:
    return place * (x - place * 0.5)


def boxed(value: Ball) -> Box:
    """Encloses a ball.

    Bound       both.
    Source      the definition.
    """
    return Box(np.asarray(-float_up(-value)), np.asarray(float_up(value)))
