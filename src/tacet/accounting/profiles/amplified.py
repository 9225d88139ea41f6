"""Curves of sampled mechanisms, from the curves of the mechanisms that are sampled."""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

from fractions import Fraction

import numpy as np

from tacet.accounting.profiles.boxes import Box, box, choose
from tacet.accounting.profiles.curves import Curve

__all__ = ["fixed_size_sampled", "poisson_sampled_add", "poisson_sampled_remove"]

_FAR = -1e5


def poisson_sampled_remove(curve: Curve, rate: Fraction) -> Curve:
    """The pair (q P + (1-q) Q, Q), where `curve` is that of (P, Q).

    Statement   q delta(epsilon') with e^epsilon' = (e^epsilon - 1 + q) / q where this is positive,
                1 - e^epsilon below: q P + (1-q) Q - e^epsilon Q = q (P - e^epsilon' Q).
    Bound       both sides, of this pair; by joint convexity it dominates whatever (P, Q) dominates.
    Source      Zhu, Dong, Wang 2022, Theorem 11; Steinke 2022, Theorem 29.
    """
    if rate == 1:
        return curve
    q, rest = box(rate), box(1 - rate)
    edge = rest.log()

    def evaluate(epsilon: Box) -> Box:
        low, high = epsilon.at_most(1.0), epsilon.at_least(1.0)
        near = (low.expm1() / q).log1p()
        far = high - q.log() + (-rest * (-high).exp()).log1p()
        inner = choose(epsilon.lower > 1.0, far, near)
        inner = choose((epsilon.lower <= 1.0) & (epsilon.upper > 1.0), _hull(near, far), inner)
        return _joined(epsilon, edge, q * _bounded(curve, inner), -epsilon.expm1())

    pair = curve.attained
    return Curve(
        evaluate=evaluate,
        infinity=rate * curve.infinity,
        attained=None if pair is None else poisson_sampled_remove(pair, rate),
    )


def poisson_sampled_add(curve: Curve, rate: Fraction) -> Curve:
    """The pair (Q, q P + (1-q) Q), where `curve` is that of (Q, P).

    Statement   B delta(epsilon'') with B = 1 - (1-q) e^epsilon and e^epsilon'' = q e^epsilon / B
                where B > 0, 0 beyond.
    Bound       both sides, of this pair.
    Source      Zhu, Dong, Wang 2022, Theorem 11.
    """
    if rate == 1:
        return curve
    q, edge = box(rate), box(1 - rate).log()

    def evaluate(epsilon: Box) -> Box:
        left = -(epsilon.at_most(-edge) + edge).expm1()
        left = left.at_least(0.0)
        inner = epsilon + q.log() - left.log()
        zero = Box(np.zeros_like(epsilon.lower), np.zeros_like(epsilon.lower))
        return _joined(-epsilon, edge, left * _bounded(curve, inner), zero)

    # what P cannot produce but Q can is no infinite loss: the mixture holds (1-q) Q
    pair = curve.attained
    return Curve(
        evaluate=evaluate,
        attained=None if pair is None else poisson_sampled_add(pair, rate),
    )


def fixed_size_sampled(forward: Curve, backward: Curve, rate: Fraction) -> Curve:
    """Sampling a share p without replacement, one unit replaced by another.

    Statement   p delta(epsilon') with epsilon' = ln(1 + (e^epsilon - 1)/p) for epsilon >= 0, where
                delta is the larger of both directions under replacement; for epsilon < 0 the
                symmetric pair, 1 - e^epsilon + e^epsilon delta(-epsilon).
    Bound       upper, for every mechanism that the curves dominate; lower for the symmetric pair.
                Attained are all units alike but the one that is replaced: then the sample tells
                of it only where it is drawn, as with Poisson sampling.
    Source      Balle, Barthe, Gaboardi 2018, Theorem 9; Lebeda et al. 2024 on composition.
    """
    if rate == 1:
        return Curve(
            evaluate=lambda epsilon: forward.evaluate(epsilon).at_least(backward.evaluate(epsilon)),
            infinity=max(forward.infinity, backward.infinity),
            attained=forward.attained or forward,
        )
    p, rest = box(rate), box(1 - rate)

    def above(epsilon: Box) -> Box:
        low, high = epsilon.at_most(1.0), epsilon.at_least(1.0)
        near = (low.expm1() / p).log1p()
        far = high - p.log() + (-rest * (-high).exp()).log1p()
        inner = choose(epsilon.lower > 1.0, far, near)
        inner = choose((epsilon.lower <= 1.0) & (epsilon.upper > 1.0), _hull(near, far), inner)
        return p * _bounded(forward, inner).at_least(_bounded(backward, inner))

    def evaluate(epsilon: Box) -> Box:
        low = epsilon.at_most(0.0)
        positive = above(epsilon.at_least(0.0))
        negative = -low.expm1() + low.exp() * above(-low)
        lower = np.where(epsilon.upper < 0, negative.lower, positive.lower)
        upper = np.where(epsilon.lower < 0, negative.upper, positive.upper)
        return Box(lower, upper)

    return Curve(
        evaluate=evaluate,
        infinity=rate * max(forward.infinity, backward.infinity),
        attained=poisson_sampled_remove(forward.attained or forward, rate),
    )


def _bounded(curve: Curve, epsilon: Box) -> Box:
    """The curve where epsilon may reach minus infinity: there its upper bound is one."""
    found = curve.evaluate(
        Box(np.clip(epsilon.lower, _FAR, 1e100), np.clip(epsilon.upper, _FAR, 1e100))
    )
    lower = np.where(epsilon.upper < _FAR, 0.0, found.lower)
    upper = np.where(epsilon.lower < _FAR, 1.0, found.upper)
    return Box(np.clip(lower, 0.0, 1.0), np.clip(upper, 0.0, 1.0))


def _joined(epsilon: Box, edge: Box, above: Box, below: Box) -> Box:
    """`above` where epsilon is above the edge, `below` below it, both where that is not sure."""
    sure_above, sure_below = epsilon.lower > edge.upper, epsilon.upper < edge.lower
    lower = np.where(sure_above, above.lower, below.lower)
    lower = np.where(sure_above | sure_below, lower, np.minimum(above.lower, below.lower))
    upper = np.where(sure_above, above.upper, below.upper)
    upper = np.where(sure_above | sure_below, upper, np.maximum(above.upper, below.upper))
    return Box(np.maximum(lower, 0.0), np.maximum(upper, 0.0))


def _hull(first: Box, second: Box) -> Box:
    return Box(np.minimum(first.lower, second.lower), np.maximum(first.upper, second.upper))
