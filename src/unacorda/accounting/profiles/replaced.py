"""Replacing a unit as removing it and adding another: the profile of both steps together.

Where every number of a mechanism compares the presence of a unit with its absence, three laws
stand in a row: P with the unit, R without it, P' with another one. Of (P, R) and (R, P') profiles
are known, and of (P, P') is asked: docs/proofs/amplification.md, Section 6.
"""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property, partial

import numpy as np

from unacorda.accounting.profiles.amplified import turned
from unacorda.accounting.profiles.boxes import Array, Box, box
from unacorda.accounting.profiles.curves import Curve

_LARGEST = 600.0
"""Beyond this epsilon the profile is bounded by its value there."""
_FAR = 60.0
_GUESSES = np.concatenate(([0.0], np.geomspace(1e-6, _LARGEST, 500)))
_SECTIONS = 64
_NEAR = (1e-3, 1e-7)
"""Relative distances of neighbors on which the least value is known to be hardly less."""
_OUTER = 5.0
_SLIP = 1 + 1e-12
"""More than rounding makes of the differences."""


def two_steps(forward: Curve, backward: Curve, rate: Fraction, *, attained: Curve | None) -> Curve:
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
    return Curve(
        evaluate=evaluate,
        infinity=infinite,
        infinity_above=max(Fraction(most), infinite) if most or infinite else None,
        attained=attained,
    )


@dataclass(frozen=True)
class _TwoSteps:
    """The least over y, near the best y, for epsilon >= 0."""

    forward: Curve
    backward: Curve
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
        low, high = -_GUESSES - _FAR, np.full_like(_GUESSES, _FAR)
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
        spacing = _spacing(self.backward)
        if spacing:
            found += [-step(-guess / spacing) * spacing for step in (np.floor, np.ceil)]
        spacing = _spacing(self.forward)
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


def _spacing(curve: Curve) -> float:
    """The distance of the atoms, 0 where it is not known."""
    spacing = curve.spacing if curve.atoms is None else curve.atoms.spacing
    return float(spacing or 0)
