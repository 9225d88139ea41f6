"""Curves of sampled mechanisms, from the curves of the mechanisms that are sampled."""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property, partial

import numpy as np

from unacorda.accounting.profiles.boxes import Array, Box, box, choose, hull
from unacorda.accounting.profiles.curves import DiscreteLoss, PrivacyProfile

_FAR = -1e5
_U = 2.0**-53


def poisson_sampled_remove(curve: PrivacyProfile, rate: Fraction) -> PrivacyProfile:
    """The pair (q P + (1-q) Q, Q), where `curve` is that of (P, Q).

    Statement   q delta(epsilon') with e^epsilon' = (e^epsilon - 1 + q) / q where this is positive,
                1 - e^epsilon below: q P + (1-q) Q - e^epsilon Q = q (P - e^epsilon' Q).
    Bound       both sides, of this pair; by joint convexity it dominates whatever (P, Q) dominates.
    Source      Zhu, Dong, Wang 2022, Theorem 11; Steinke 2022, Theorem 29.
    """
    if rate == 1:
        return curve
    q, edge = box(rate), box(1 - rate).log()

    def evaluate(epsilon: Box) -> Box:
        found = q * _bounded(curve, _inner(epsilon, rate))
        return _joined(epsilon, edge, found, -epsilon.expm1())

    pair, most = curve.attained, curve.infinity_above
    return PrivacyProfile(
        evaluate=evaluate,
        infinity=rate * curve.infinity,
        infinity_above=None if most is None else rate * most,
        attained=None if pair is None else poisson_sampled_remove(pair, rate),
        # from below, grids do better with the curve itself
        atoms=None if curve.atoms is None or curve.atoms.lower else _removed(curve.atoms, rate),
    )


def poisson_sampled_add(curve: PrivacyProfile, rate: Fraction) -> PrivacyProfile:
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
    return PrivacyProfile(
        evaluate=evaluate,
        attained=None if pair is None else poisson_sampled_add(pair, rate),
        atoms=None if curve.atoms is None else _added(curve.atoms, rate),
    )


def fixed_size_sampled(
    forward: PrivacyProfile, backward: PrivacyProfile, rate: Fraction
) -> PrivacyProfile:
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
        return PrivacyProfile(
            evaluate=lambda epsilon: forward.evaluate(epsilon).at_least(backward.evaluate(epsilon)),
            infinity=max(forward.infinity, backward.infinity),
            attained=forward.attained or forward,
        )

    def above(epsilon: Box) -> Box:
        inner = _inner(epsilon, rate)
        return box(rate) * _bounded(forward, inner).at_least(_bounded(backward, inner))

    return PrivacyProfile(
        evaluate=turned(above, above),
        infinity=rate * max(forward.infinity, backward.infinity),
        attained=poisson_sampled_remove(forward.attained or forward, rate),
    )


def fixed_size_zeroed(
    moved: tuple[PrivacyProfile, PrivacyProfile],
    zeroed: tuple[PrivacyProfile, PrivacyProfile],
    rate: Fraction,
    *,
    remove: bool,
) -> PrivacyProfile:
    """Sampling a share p without replacement, one unit's contribution replaced by an empty one.

    moved: both directions of the mechanism where a unit is replaced by another; zeroed: where its
    contribution is emptied, P with it and Q without it, and turned round; remove: P comes first.

    Statement   with e^x = 1 + (e^epsilon - 1)/p and b = e^{epsilon - x}, for epsilon >= 0:
                p ((1-b) delta_moved(x) + b delta_zeroed(x)) where P comes first, and turned round
                p delta_zeroed(x); for epsilon < 0 what the other order gives.
    Bound       upper. Attained are all other units empty: a Poisson sample.
    Source      Balle, Barthe, Gaboardi 2018, Theorem 2; docs/proofs/amplification.md, Section 7.
    """
    forward, backward = zeroed
    if rate == 1:
        return forward if remove else backward

    def first(epsilon: Box) -> Box:
        inner = _inner(epsilon, rate)
        share = (epsilon - inner).exp().at_most(1.0)
        apart = _bounded(moved[0], inner).at_least(_bounded(moved[1], inner))
        return box(rate) * ((-share + 1.0).at_least(0.0) * apart + share * _bounded(forward, inner))

    def second(epsilon: Box) -> Box:
        return box(rate) * _bounded(backward, _inner(epsilon, rate))

    both = (first, second) if remove else (second, first)
    most = max(one.most_infinity for one in (*moved, *zeroed))
    sampled = poisson_sampled_remove if remove else poisson_sampled_add
    pair = forward if remove else backward
    return PrivacyProfile(
        evaluate=turned(*both),
        infinity_above=rate * most,
        attained=sampled(pair.attained or pair, rate),
    )


def turned(above: Callable[[Box], Box], below: Callable[[Box], Box]) -> Callable[[Box], Box]:
    """The profile that is `above` for epsilon >= 0, and for the pair turned round `below` there."""

    def evaluate(epsilon: Box) -> Box:
        low = epsilon.at_most(0.0)
        positive = above(epsilon.at_least(0.0))
        negative = -low.expm1() + low.exp() * below(-low)
        lower = np.where(epsilon.upper < 0, negative.lower, positive.lower)
        upper = np.where(epsilon.lower < 0, negative.upper, positive.upper)
        return Box(lower, upper)

    return evaluate


def _removed(atoms: DiscreteLoss, rate: Fraction) -> DiscreteLoss:
    """A law above that of the loss of (q P + (1-q) Q, Q), from one above that of (P, Q)."""
    q, rest = float(rate), float(1 - rate)
    with np.errstate(under="ignore", over="ignore", divide="ignore"):
        second = np.exp(np.log(atoms.masses) - atoms.losses)
    far = max(abs(end) for end in atoms.ends)
    trust = atoms.trust + atoms.error + 8 * _U * (800 + far)
    # where P has no mass, (1-q) Q is left, and the loss is ln(1-q)
    left = max(1.0 - math.fsum(second) * (1 - trust - 8 * _U), 0.0)
    return DiscreteLoss(
        losses=np.append(_moved(atoms.losses, q, rest), math.log(rest)),
        masses=np.append(q * atoms.masses + rest * second, rest * left),
        infinity=q * atoms.infinity * (1 - 4 * _U),
        infinity_above=min(q * atoms.infinity_above * (1 + 4 * _U), 1.0),
        error=atoms.error + 16 * _U * (1 + far - math.log(rest)),
        trust=trust + 8 * _U,
    )


def _added(atoms: DiscreteLoss, rate: Fraction) -> DiscreteLoss:
    """A law of the loss of (Q, q P + (1-q) Q), on the same side as one of (Q, P)."""
    q, rest = float(rate), float(1 - rate)
    far = max(abs(end) for end in atoms.ends)
    return DiscreteLoss(
        losses=np.append(-_moved(-atoms.losses, q, rest), -math.log(rest)),
        masses=np.append(atoms.masses, atoms.infinity if atoms.lower else atoms.infinity_above),
        error=atoms.error + 16 * _U * (1 + far - math.log(rest)),
        trust=atoms.trust,
        lower=atoms.lower,
    )


def _moved(losses: Array, q: float, rest: float) -> Array:
    """ln(1 - q + q e^loss)."""
    with np.errstate(under="ignore", over="ignore"):
        near = q * np.expm1(np.minimum(losses, 1.0))
        small = np.log(rest + q * np.exp(np.minimum(losses, 1.0)))
        large = losses + np.log(q + rest * np.exp(-np.maximum(losses, 0.0)))
        near = np.where(near > -0.5, np.log1p(np.maximum(near, -0.5)), small)
    return np.asarray(np.where(losses > 1.0, large, near))


def _inner(epsilon: Box, rate: Fraction) -> Box:
    """The logarithm of 1 + (e^epsilon - 1) / rate; -inf where there is none."""
    share, rest = box(rate), box(1 - rate)
    low, high = epsilon.at_most(1.0), epsilon.at_least(1.0)
    near = (low.expm1() / share).log1p()
    far = high - share.log() + (-rest * (-high).exp()).log1p()
    inner = choose(epsilon.lower > 1.0, far, near)
    return choose((epsilon.lower <= 1.0) & (epsilon.upper > 1.0), hull(near, far), inner)


def _bounded(curve: PrivacyProfile, epsilon: Box) -> Box:
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


# Where every number of a mechanism compares the presence of a unit with its absence, three laws
# stand in a row: P with the unit, R without it, P' with another one. Of (P, R) and (R, P') profiles
# are known, and of (P, P') is asked: docs/proofs/amplification.md, Section 6.

_LARGEST = 600.0
"""Beyond this epsilon the profile is bounded by its value there."""
_FARTHEST_RATIO = 60.0
_GUESSES = np.concatenate(([0.0], np.geomspace(1e-6, _LARGEST, 500)))
_SECTIONS = 64
_NEAR = (1e-3, 1e-7)
"""Relative distances of neighbors on which the least value is known to be hardly less."""
_OUTER = 5.0
_SLIP = 1 + 1e-12
"""More than rounding makes of the differences."""


def two_steps(
    forward: PrivacyProfile,
    backward: PrivacyProfile,
    rate: Fraction,
    *,
    attained: PrivacyProfile | None,
) -> PrivacyProfile:
    """The pair (q P + (1-q) R, q P' + (1-q) R), of both directions, from those of P, R and R, P'.

    forward: of (P, R); backward: of (R, P'); rate: q, the chance that the unit takes part;
    attained: of one pair that occurs, or None where the worst of all pairs does.

    Statement   the least over y > 0 of q (delta(ln x) + e^epsilon y delta'(-ln y)), with
                x = e^epsilon y + (1-q)(e^epsilon - 1)/q, for epsilon >= 0; below it the symmetric
                pair.
    Bound       both sides, of the worst of all such triples, which is one pair.
    Source      docs/proofs/amplification.md, Section 6.
    """
    exact = attained is None
    profile = partial(_TwoSteps(forward, backward, rate), exact=exact)
    symmetric = turned(profile, profile)

    def evaluate(epsilon: Box) -> Box:
        return symmetric(epsilon).at_least((-epsilon.expm1()).at_least(0.0))

    infinite = rate * forward.infinity if exact else Fraction(0)
    most = float(evaluate(box(np.asarray(_LARGEST))).upper)
    return PrivacyProfile(
        evaluate=evaluate,
        infinity=infinite,
        infinity_above=max(Fraction(most), infinite) if most or infinite else None,
        attained=attained,
    )


@dataclass(frozen=True)
class _TwoSteps:
    """The least over y, near the best y, for epsilon >= 0."""

    forward: PrivacyProfile
    backward: PrivacyProfile
    rate: Fraction

    def __call__(self, epsilon: Box, *, exact: bool) -> Box:
        """Bounds at boxes of epsilon; without `exact` the lower one is 0."""
        shape = epsilon.lower.shape
        near = np.minimum(np.atleast_1d(epsilon.lower), _LARGEST)
        far = np.minimum(np.atleast_1d(epsilon.upper), _LARGEST)
        best, upper = self._best(near)
        lower = np.zeros_like(upper)
        if exact:
            lower = np.where(far < _LARGEST, self._least(far, best), 0.0)
            lower = np.maximum(lower, float(box(self.rate * self.forward.infinity).lower))
        return Box(np.minimum(lower, upper).reshape(shape), np.minimum(upper, 1.0).reshape(shape))

    @cached_property
    def _guesses(self) -> Array:
        """About the best ln y, at _GUESSES."""
        ratio = (np.sqrt(5.0) - 1) / 2
        low, high = -_GUESSES - _FARTHEST_RATIO, np.full_like(_GUESSES, _FARTHEST_RATIO)
        one, two = high - ratio * (high - low), low + ratio * (high - low)
        here, there = self._value(_GUESSES, one).upper, self._value(_GUESSES, two).upper
        for _ in range(_SECTIONS):
            left = here <= there
            low, high = np.where(left, low, one), np.where(left, two, high)
            kept, known = np.where(left, one, two), np.where(left, here, there)
            fresh = np.where(left, high - ratio * (high - low), low + ratio * (high - low))
            value = self._value(_GUESSES, fresh).upper
            one, two = np.where(left, fresh, kept), np.where(left, kept, fresh)
            here, there = np.where(left, value, known), np.where(left, known, value)
        return np.asarray((low + high) / 2)

    def _best(self, epsilon: Array) -> tuple[Array, Array]:
        """A good ln y for each epsilon, and the value there from above."""
        guess = np.interp(epsilon, _GUESSES, self._guesses)
        index = np.searchsorted(_GUESSES, epsilon, side="right")
        beside = [self._guesses[np.clip(index + side, 0, len(_GUESSES) - 1)] for side in (-1, 0)]
        best, least = guess, self._value(epsilon, guess).upper
        for near in beside:
            for place in self._kinks(epsilon, near):
                value = self._value(epsilon, place).upper
                best, least = np.where(value < least, place, best), np.minimum(value, least)
        return best, least

    def _kinks(self, epsilon: Array, guess: Array) -> list[Array]:
        """Places beside the guess at which one of both curves has an atom."""
        found = []
        spacing = float(self.backward.lattice or 0)
        if spacing:
            found += [-step(-guess / spacing) * spacing for step in (np.floor, np.ceil)]
        spacing = float(self.forward.lattice or 0)
        if spacing:
            at = self._inner(box(epsilon), guess).lower
            rest = float((1 - self.rate) / self.rate) * -np.expm1(-epsilon)
            for step in (np.floor, np.ceil):
                left = np.exp(np.minimum(step(at / spacing) * spacing - epsilon, 700.0)) - rest
                found.append(np.where(left > 0, np.log(np.maximum(left, 1e-300)), guess))
        return found

    def _inner(self, epsilon: Box, place: Array) -> Box:
        """The logarithm of x."""
        rest = box((1 - self.rate) / self.rate) * -(-epsilon).expm1()
        y = box(place)
        return epsilon + y + (rest * (-y).exp()).at_least(0.0).log1p()

    def _value(self, epsilon: Array, place: Array) -> Box:
        """Q (delta(ln x) + e^epsilon y delta'(-ln y)) at ln y = place."""
        at = box(epsilon)
        first = self.forward(self._inner(at, place))
        second = (at + box(place)).exp() * self.backward(-box(place))
        return box(self.rate) * (first + second)

    def _least(self, epsilon: Array, place: Array) -> Array:
        """A lower bound of the value at every y: it is convex in y."""
        middle, outer = self._value(epsilon, place), self._value(epsilon, place + _OUTER)
        rises = outer.lower >= middle.upper
        found = np.zeros_like(epsilon)
        for near in _NEAR:
            before, after = place - near, place + near
            left, right = self._value(epsilon, before), self._value(epsilon, after)
            back, ahead = -np.expm1(before - place), np.expm1(after - place)
            # between: no lower than the line through the other two
            one = middle.lower - np.maximum(right.upper - middle.lower, 0.0) * back / ahead * _SLIP
            two = middle.lower - np.maximum(left.upper - middle.lower, 0.0) * ahead / back * _SLIP
            # outside: nor than the line through the nearest two, which ends at y = 0 ...
            fall = np.maximum(middle.upper - left.lower, 0.0) / np.expm1(place - before)
            start = left.lower - fall * _SLIP
            # ... and, to the right, where the value rises
            fall = np.maximum(middle.upper - right.lower, 0.0) / ahead
            end = right.lower - fall * (np.exp(_OUTER) * _SLIP)
            end = np.where(rises, np.minimum(end, outer.lower), 0.0)
            bound = np.minimum.reduce([one, two, start, end])
            found = np.maximum(found, bound * (1 - 1e-15))
        return found
