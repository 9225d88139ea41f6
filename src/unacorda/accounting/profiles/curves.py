"""Curves: the profile of each mechanism's worst pair, in closed form, over boxes of epsilon.

delta(epsilon) = sup over events A of P(A) - e^epsilon Q(A). It falls in epsilon, is convex in
e^epsilon and at least max(0, 1 - e^epsilon); the pair turned round has the profile
1 - e^epsilon + e^epsilon delta(-epsilon).
"""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

import math
from collections.abc import Callable, Collection
from dataclasses import dataclass, field, replace
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from unacorda.accounting.profiles.boxes import Array, Box, box, choose, running_sum
from unacorda.extras import later
from unacorda.privacy.rounding import root_down, root_up


@dataclass(frozen=True, slots=True)
class TwoSides:
    """Both sides of a profile, apart: the upper one is good near a delta, or everywhere (None)."""

    lower: Callable[[Box], Array]
    upper: Callable[[Box, float | None], Array]


@dataclass(frozen=True, slots=True, kw_only=True)
class PrivacyProfile:
    """One direction's profile, enclosed.

    evaluate: delta over boxes of finite epsilon, both ends outward; infinity: the mass of infinite
    loss, which is delta's limit (a lower bound of it where infinity_above is given too); spacing:
    the atoms of the loss lie at whole multiples of this number, None where they lie nowhere in
    particular; atomic: nothing else than atoms is there; peak: the mass at `spacing`, where that
    is the largest finite loss, or a lower bound of it; attained: where this curve only bounds
    what an event allows, the curve of one pair that it does allow, for lower bounds; atoms: the
    whole law, where it is known by these; sides: where the two sides take long, each alone.
    """

    evaluate: Callable[[Box], Box] = field(repr=False)
    infinity: Fraction = Fraction(0)
    infinity_above: Fraction | None = None
    spacing: Fraction | None = None
    atomic: bool = False
    peak: Fraction | None = None
    attained: PrivacyProfile | None = None
    atoms: DiscreteLoss | None = None
    sides: TwoSides | None = field(default=None, repr=False)

    @classmethod
    def of_sides(
        cls,
        sides: TwoSides,
        *,
        infinity: Fraction = Fraction(0),
        attained: PrivacyProfile | None = None,
    ) -> PrivacyProfile:
        """The curve of two sides that are each asked alone."""
        return cls(
            evaluate=lambda epsilon: Box(sides.lower(epsilon), sides.upper(epsilon, None)),
            infinity=infinity,
            attained=attained,
            sides=sides,
        )

    @property
    def most_infinity(self) -> Fraction:
        """The mass of infinite loss, from above."""
        return self.infinity if self.infinity_above is None else self.infinity_above

    @property
    def lattice(self) -> Fraction | None:
        """A number of which all atoms are whole multiples; None where none is known."""
        return self.spacing if self.atoms is None else self.atoms.spacing

    def lower(self, epsilons: Array) -> Array:
        """The lower side alone."""
        sides = self.sides
        if sides is None:
            return self(epsilons).lower
        alone = replace(self, evaluate=lambda at: Box(sides.lower(at), np.ones_like(at.lower)))
        return alone(epsilons).lower

    @property
    def above(self) -> PrivacyProfile:
        """The curve where only its upper side is asked for: the lower one is 0."""
        return self._above(None)

    def upper(self, epsilons: Array, near: float) -> Array:
        """The upper side alone, good where it is about `near`; elsewhere it may be looser."""
        return self._above(near)(epsilons).upper

    def _above(self, near: float | None) -> PrivacyProfile:
        sides = self.sides
        if sides is None:
            return self
        return replace(
            self, evaluate=lambda at: Box(np.zeros_like(at.lower), sides.upper(at, near))
        )

    def __call__(self, epsilons: Array | Box) -> Box:
        """Delta at these epsilon, which may be infinite; within [0, 1]."""
        asked = epsilons if isinstance(epsilons, Box) else box(epsilons)
        limit = Box(box(self.infinity).lower, box(self.most_infinity).upper)
        inner = Box(np.clip(asked.lower, -1e6, 1e100), np.clip(asked.upper, -1e6, 1e100))
        found = self.evaluate(inner)
        lower = np.where(asked.upper == math.inf, limit.lower, found.lower)
        upper = np.where(asked.lower == math.inf, limit.upper, found.upper)
        # below -1e6 delta differs from 1 by less than e^-1e6
        lower = np.where(asked.upper == -math.inf, 1.0, lower)
        upper = np.where(asked.lower <= -1e6, 1.0, upper)
        return Box(np.clip(lower, limit.lower, 1.0), np.clip(upper, limit.lower, 1.0))


def nothing() -> PrivacyProfile:
    """No loss at all: max(0, 1 - e^epsilon)."""
    return PrivacyProfile(
        evaluate=lambda epsilon: (-epsilon.expm1()).at_least(0.0),
        spacing=Fraction(1),
        atomic=True,
    )


def between(
    pair: PrivacyProfile, above: Callable[[Box], Box], *, infinity_above: Fraction | None = None
) -> PrivacyProfile:
    """The lower side of one pair that occurs, and another upper side."""
    return PrivacyProfile(
        evaluate=lambda epsilon: Box(pair.evaluate(epsilon).lower, above(epsilon).upper),
        infinity_above=infinity_above,
        attained=pair,
    )


def gaussian(mu_squared: Fraction) -> PrivacyProfile:
    """N(mu, 1) against N(0, 1), any number of coordinates."""
    mu = Box(np.asarray(root_down(mu_squared)), np.asarray(root_up(mu_squared)))
    return PrivacyProfile(evaluate=lambda epsilon: gaussian_profile(epsilon, mu))


def discrete_laplace(scale: Fraction, shift: int) -> PrivacyProfile:
    """Discrete Laplace noise under a whole shift k: losses (k - 2x)/scale for 0 <= x <= k.

    The best event is {X <= j}; the closed form of each is in docs/proofs/pld.md. The best j is
    known up to rounding, so its neighbors are tried too.
    """
    if shift == 0:
        return nothing()
    rate = box(1 / scale)
    ratio = (-rate).exp()
    top = rate * float(shift)

    def evaluate(epsilon: Box) -> Box:
        middle = np.clip((shift - epsilon.lower * float(scale)) / 2, -2.0, shift + 2.0)
        best = -epsilon.expm1()
        for step in (-1, 0, 1):
            j = np.clip(np.floor(middle) + step, 0.0, shift - 1.0)
            first = (-(rate * (box(j) + 1.0))).expm1()
            second = ratio * (epsilon - rate * box(shift - j - 1.0)).expm1()
            inner = -(first + second)
            inner = choose(j == 0.0, -(epsilon - top).expm1(), inner)
            best = best.at_least(inner / (ratio + 1.0))
        return best.at_least(0.0)

    return PrivacyProfile(evaluate=evaluate, spacing=1 / scale, atomic=True)


def discrete_gaussian(sigma: Fraction, shift: int) -> PrivacyProfile:
    """Discrete Gaussian noise under a whole shift k: losses k (k - 2x) / (2 sigma^2).

    A table of the law to 39 sigma serves for every epsilon: memory grows with sigma.
    """
    if shift == 0:
        return nothing()
    reach = math.ceil(39 * sigma) + shift
    places = np.arange(-reach, reach + 1, dtype=np.float64)
    weights = (-(box(places * places) / (box(sigma * sigma) * 2.0))).exp()
    below, error_below = running_sum(weights.lower)
    above, error_above = running_sum(weights.upper)
    least = below * (1 - 2 * error_below)
    most = above * (1 + 2 * error_above) + 1e-318  # what lies beyond the table
    law = Box(least, most) / Box(np.asarray(least[-1]), np.asarray(most[-1] + 1e-318))
    law = law.at_least(0.0)  # a negative bound, however small, would be multiplied by e^epsilon
    padded = Box(
        np.concatenate((np.zeros(shift + 1), law.lower)),
        np.concatenate((np.full(shift + 1, 1e-318), law.upper)),
    )
    centre, slope = float(shift) / 2, float(sigma * sigma / shift)
    size = len(places)

    def evaluate(epsilon: Box) -> Box:
        middle = np.clip(centre - epsilon.lower * slope, -reach, reach)
        best = -epsilon.expm1()
        for step in (-1, 0, 1):
            index = np.clip(np.floor(middle).astype(np.int64) + step + reach, 0, size - 1)
            first = Box(padded.lower[index + shift + 1], padded.upper[index + shift + 1])
            second = Box(padded.lower[index + 1], padded.upper[index + 1])
            best = best.at_least(first - epsilon.exp() * second)
        return best.at_least(0.0)

    return PrivacyProfile(
        evaluate=evaluate, spacing=Fraction(shift) / (2 * sigma * sigma), atomic=True
    )


def zero_concentrated(rho: Fraction, delta: Fraction = Fraction(0)) -> PrivacyProfile:
    """What delta-approximate rho-zCDP allows: below the conversion, above a Gaussian pair.

    Statement   upper: inf over a > 1 of e^{(a-1)(a rho - epsilon)} (1 - 1/a)^{a-1} / a; lower: the
                Gaussian pair with this rho, which is rho-zCDP.
    Bound       lower <= sup over all such pairs <= upper; not one pair.
    Source      Canonne, Kamath, Steinke 2020, Proposition 12.
    """
    inner = gaussian(2 * rho)
    if rho == 0:
        inner = nothing()
    part, rest, cost = box(delta), box(1 - delta), box(rho)

    def evaluate(epsilon: Box) -> Box:
        least = inner.evaluate(epsilon)
        nearest = np.minimum(np.abs(epsilon.lower), np.abs(epsilon.upper))
        nearest = np.where((epsilon.lower < 0) & (epsilon.upper > 0), 0.0, nearest)
        most = _concentrated_above(box(nearest), cost)
        turned = -epsilon.expm1() + epsilon.exp() * most
        upper = np.where(epsilon.upper < 0, turned.upper, most.upper)
        upper = np.where((epsilon.lower < 0) & (epsilon.upper >= 0), 1.0, upper)
        return part + rest * Box(least.lower, np.clip(upper, least.lower, 1.0))

    pair = PrivacyProfile(
        evaluate=lambda epsilon: part + rest * inner.evaluate(epsilon), infinity=delta
    )
    return PrivacyProfile(evaluate=evaluate, infinity=delta, attained=pair if delta else inner)


def _concentrated_above(epsilon: Box, rho: Box) -> Box:
    """The conversion of zCDP near its best order, for epsilon >= 0: every order is valid."""
    if float(rho.upper) == 0:
        return Box(np.zeros_like(epsilon.lower), np.zeros_like(epsilon.lower))
    middle = float(rho.upper)
    low, high = np.full_like(epsilon.lower, -60.0), np.full_like(epsilon.lower, 60.0)
    for _ in range(50):  # the derivative (2a - 1) rho + ln(1 - 1/a) - epsilon rises in a
        guess = (low + high) / 2
        order: Array = np.exp(guess)  # a - 1
        rising = (2 * order + 1) * middle - np.log1p(1 / order) > epsilon.lower
        low, high = np.where(rising, low, guess), np.where(rising, guess, high)
    less = box(np.exp(high))
    alpha = less + 1.0
    power = less * (alpha * rho - epsilon) - less * (box(np.ones(())) / less).log1p() - alpha.log()
    bounded: Box = power.at_most(0.0).exp()
    return bounded


# With m(t) = (1 - Phi(t)) / phi(t) and x = epsilon/mu - mu/2,
#
#     delta(epsilon) = Phi(-x) - e^epsilon Phi(-x - mu) = phi(x) (m(x) - m(x + mu)),
#
# because phi(x) = e^epsilon phi(x + mu) (Balle and Wang 2018, Theorem 8, in other letters). Nothing
# overflows, nothing cancels but m(x) - m(x + mu); where mu is small that difference is an integral
# of J(t) = -m'(t) = 1 - t m(t) > 0, by four nodes of Gauss and Legendre.

scipy = later("scipy")

_ULP = 2.0**-52
_SPECIAL = 16 * _ULP
"""Relative error of erfcx and ndtr, assumed; the tests find less than 6 units."""

_SMALL = 0.05  # below this mu the difference is integrated
_TERMS = 70  # of the continued fraction of J, which is used from t = 3 on
_NODES, _WEIGHTS = np.polynomial.legendre.leggauss(4)


def gaussian_profile(epsilon: Box, mu: Box) -> Box:
    """Delta of N(mu, 1) against N(0, 1) at every epsilon and mu in the boxes.

    Bound       both sides: the profile falls in epsilon and rises in mu, so two corners serve.
    Edges       mu = 0 -> max(0, 1 - e^epsilon); below epsilon = 0 by the symmetry of the pair,
                delta(epsilon) = 1 - e^epsilon + e^epsilon delta(-epsilon).
    Source      Balle and Wang 2018, Theorem 8; Dong, Roth, Su 2022, Corollary 2.13.
    """
    least, most = float(mu.lower), float(mu.upper)
    above = Box(np.maximum(epsilon.lower, 0.0), np.maximum(epsilon.upper, 0.0))
    below = Box(np.minimum(epsilon.lower, 0.0), np.minimum(epsilon.upper, 0.0))
    positive = Box(_point(above.upper, least, sign=-1), _point(above.lower, most, sign=1))
    if not np.any(epsilon.lower < 0):
        return positive
    mirrored = Box(_point(-below.lower, least, sign=-1), _point(-below.upper, most, sign=1))
    negative = -below.expm1() + below.exp() * mirrored
    lower = np.where(epsilon.upper < 0, negative.lower, positive.lower)
    upper = np.where(epsilon.lower < 0, negative.upper, positive.upper)
    return Box(lower, np.minimum(upper, 1.0))


def _point(epsilon: Array, mu: float, *, sign: int) -> Array:
    """Delta at exactly these epsilon >= 0 and mu, rounded up (sign 1) or down (sign -1)."""
    if mu == 0:
        return np.zeros_like(epsilon)
    with np.errstate(over="ignore", under="ignore"):
        x = epsilon / mu - mu / 2
        # x carries an absolute error; -d ln(delta)/dx <= max(x + mu, 0) + 2, see docs/proofs/pld.md
        moved = 2 * _ULP * (epsilon / mu + mu / 2) * (np.maximum(x + mu, 0.0) + 2)
        density = np.exp(-np.square(x) / 2) / math.sqrt(2 * math.pi)
        relative = 4 * _ULP * np.square(x) + 16 * _ULP + moved
        far = x < -1.0
        near = np.maximum(x, -1.0)
        difference, error = _mills_difference(near, mu)
        value = density * difference
        slack = density * error + value * np.minimum(relative, 1.0)
        if np.any(far):
            whole = scipy.special.ndtr(-x)
            part = density * _mills(np.maximum(x + mu, -1.0))
            value = np.where(far, whole - part, value)
            slack = np.where(far, (whole + part) * (relative + 4 * _SPECIAL), slack)
        result: Array = value + sign * (slack * 1.01 + 1e-321)
    # beyond exp's range the density is below 1e-300 and so is delta
    clipped: Array = np.clip(result, 0.0, 1.0)
    return clipped


def _mills(t: Array) -> Array:
    value: Array = scipy.special.erfcx(t / math.sqrt(2)) * math.sqrt(math.pi / 2)
    return value


def _mills_difference(x: Array, mu: float) -> tuple[Array, Array]:
    """m(x) - m(x + mu) for x >= -1, and its absolute error."""
    if mu >= _SMALL:
        first, second = _mills(x), _mills(x + mu)
        # the argument x + mu is rounded once: |m'| <= 1 + |t| m(t) <= 2.6 for t >= -1
        error = (first + second) * (_SPECIAL + 3 * _ULP) + 3 * _ULP * (np.abs(x) + mu) / (
            1 + np.square(x)
        )
        return first - second, error
    total = np.zeros_like(x)
    slack = np.zeros_like(x)
    for node, weight in zip(_NODES, _WEIGHTS, strict=True):
        value, error = _slope(x + mu * (1 + node) / 2)
        total += weight * value
        slack += weight * error
    # the rule's own error is below 3e-20 mu^8 J_9/J_1 < 1e-25 of the value
    return total * (mu / 2), slack * (mu / 2) + total * mu * 8 * _ULP


def _slope(t: Array) -> tuple[Array, Array]:
    """J(t) = 1 - t m(t) > 0 for t >= -1, and its absolute error."""
    ratio = _mills(t)
    plain = 1 - t * ratio
    fraction = np.maximum(t, 3.0)
    tail = fraction.copy()
    for index in range(_TERMS, 1, -1):
        tail = fraction + index / tail
    by_fraction = ratio / tail  # J = m / (t + 2/(t + 3/(t + ...))), all terms positive
    value = np.where(t < 3.0, plain, by_fraction)
    error = np.where(t < 3.0, (1 + np.abs(t) * ratio) * 2 * _SPECIAL, by_fraction * 2 * _SPECIAL)
    # t itself is rounded: |J'| <= m + ... <= 4 for t >= -1, and J'/J is about -2/t beyond 3
    return value, error + 4 * _ULP * np.where(t < 3.0, 4.0 * (np.abs(t) + 1), 4 * by_fraction)


_SHARES = 64
_LARGEST = 1e-11


@dataclass(frozen=True, slots=True, kw_only=True)
class DiscreteLoss:
    """Finite losses and their masses under P, and the mass of infinite loss.

    error: of any loss, absolute; trust: of any mass, relative; infinity_above: where the mass of
    infinite loss is not known, its upper bound; spacing: see `lattice_of`; lower: whether the law
    stands for another one from below, not from above.
    """

    losses: Array = field(repr=False)
    masses: Array = field(repr=False)
    infinity: float = 0.0
    infinity_above: float = 0.0
    error: float = 0.0
    trust: float = 0.0
    spacing: Fraction | None = None
    lower: bool = False

    @property
    def ends(self) -> tuple[float, float]:
        """The least and the largest finite loss."""
        if not len(self.losses):
            return 0.0, 0.0
        return float(np.min(self.losses)), float(np.max(self.losses))


def lattice_of(losses: Array) -> Fraction | None:
    """A number of which all losses are whole multiples, but for 1e-11 of it; None if none is.

    Bound       none: who counts an atom as at a multiple has to count how far away it is.
    Source      trial division of the least loss.
    """
    sizes = np.unique(np.abs(losses))
    sizes = sizes[sizes > 1e-9]
    if not 0 < len(sizes) <= 1 << 16:
        return None
    least, largest = float(sizes[0]), float(sizes[-1])
    for share in range(1, _SHARES + 1):
        many = round(largest * share / least)
        if many > 1 << 20:
            return None
        spacing = largest / many  # the largest loss tells it best
        away = np.abs(losses - np.rint(losses / spacing) * spacing)
        if float(np.max(away)) <= min(_LARGEST * spacing, 1e-13 * (1 + largest)):
            return Fraction(spacing)
    return None


def common_divisor(numbers: Collection[Fraction]) -> Fraction:
    """The greatest number of which all are whole multiples; 0 where all are 0.

    Bound       exact.
    Source      the definition.
    """
    denominator = math.lcm(*(number.denominator for number in numbers))
    return Fraction(math.gcd(*(int(number * denominator) for number in numbers)), denominator)


_U = 2.0**-53


def chords_above(places: Array, x: Array, values: Array) -> DiscreteLoss:
    """The law whose profile is the broken line through (0, 1) and the points, rounded up."""
    left, right = falls(x, values)
    masses = (np.maximum(left - right, 0.0) + 16 * _U * (left + right)) * x
    last = float(values[-1])
    return DiscreteLoss(losses=places, masses=masses, infinity_above=last, trust=16 * _U)


def falls(x: Array, values: Array) -> tuple[Array, Array]:
    """Minus the slopes of the broken line from (0, 1), before and after each point."""
    slopes = -np.diff(np.append(1.0, values)) / np.diff(np.append(0.0, x))
    return slopes, np.append(slopes[1:], 0.0)


def minorant(x: Array, values: Array) -> NDArray[np.int64]:
    """The corners of the convex minorant of points, x ascending; both ends are corners."""
    kept: list[int] = []
    for index in range(len(x)):
        while len(kept) > 1:
            a, b = kept[-2], kept[-1]
            line = (values[b] - values[a]) * (x[index] - x[a])
            if line < (values[index] - values[a]) * (x[b] - x[a]):
                break
            kept.pop()
        kept.append(index)
    return np.asarray(kept, dtype=np.int64)
