"""Laws of the privacy loss of one pair: finite ones, those between two edges, Gaussian ones.

All but mixtures are symmetric: the loss ln(P/Q) under P has the law of ln(Q/P) under Q, so that
Q(loss = l) = e^-l P(loss = l). Both directions have the same law.
Source: docs/proofs/contour.md, section 11.
"""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from fractions import Fraction
from typing import NamedTuple, TypeAlias, TypeVar

from unacorda.accounting.amplification.sampling import (
    approx_dp_of_replaced_sample,
    approx_dp_of_sample,
    pure_of_replaced_sample,
    replaced_response,
)
from unacorda.balls import Ball, ball, float_up, fraction_up
from unacorda.privacy.rounding import grid_sum_up

_One = TypeVar("_One")

_MOST_LOSSES = 4000
_MOST_PRODUCTS = 40_000


class TooExtreme(Exception):
    """The law is known, but takes too many atoms or numbers beyond floats."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Finite:
    """Finitely many losses, each with its mass under P given that the loss is finite.

    infinite: the mass of infinite loss under P (and of -infinite loss under Q); lost: a bound on
    the mass under P or Q of finite losses that are not among `masses`.
    """

    masses: Mapping[Fraction, Ball]
    infinite: Ball
    lost: float = 0.0

    @property
    def on_three_points(self) -> bool:
        """Whether all of it lies on an epsilon, 0 and the negative of epsilon."""
        return len(self.masses) <= 3 and not self.lost


@dataclass(frozen=True, slots=True, kw_only=True)
class Edged:
    """Losses in [-edge, edge]: atoms at both edges, and between them a density like e^(z/2).

    Under Q, given that the loss is finite: mass `atom` at -edge and e^-edge `atom` at edge, and
    the density inner/2 e^(-(z + edge)/2); atom (1 + e^-edge) + inner (1 - e^-edge) = 1.
    """

    edge: Fraction
    atom: Ball
    inner: Ball
    infinite: Ball


@dataclass(frozen=True, slots=True, kw_only=True)
class Normal:
    """N(mu, 1) against N(0, 1): the loss is N(mu^2 / 2, mu^2) under P; square is mu^2."""

    square: Fraction


@dataclass(frozen=True, slots=True, kw_only=True)
class MixedNormal:
    """The sum of w_i N(s_i, 1) against N(0, 1), s_i = shift / noise: a law for each direction."""

    noise: Fraction
    shifts: tuple[Fraction, ...]
    weights: tuple[Fraction, ...]


Law: TypeAlias = Finite | Edged | Normal | MixedNormal


def staircase_top(epsilon: Fraction, split: Fraction) -> Ball:
    """The probability of the largest loss of staircase noise under a shift by 1.

    1/2 + m (1 - b) / (2 (g + b (1 - g))), with g = split, m = min(g, 1 - g) and b = e^-epsilon.
    """
    b, g = (-ball(epsilon)).exp(), ball(split)
    least = ball(min(split, 1 - split))
    return (1 - least * (-ball(epsilon)).expm1() / (g + b * (1 - g))) / 2


def no_loss() -> Finite:
    """The law of two tables with the same outputs."""
    return Finite(masses={Fraction(0): ball(1)}, infinite=ball(0))


def of_points(epsilon: Fraction, categories: int, infinite: Fraction = Fraction(0)) -> Finite:
    """Losses epsilon, -epsilon and, of more than two categories, 0, and an infinite one.

    Of two it is the worst law of what is (epsilon, infinite)-DP.

    Source      Kairouz, Oh, Viswanath 2015, Theorem 3.3.
    """
    if epsilon == 0:
        return Finite(masses={epsilon: ball(1)}, infinite=ball(infinite))
    low = (-ball(epsilon)).exp()
    top = 1 / (1 + (categories - 1) * low)
    masses = {epsilon: top, -epsilon: top * low}
    if categories > 2:
        masses[Fraction(0)] = (categories - 2) * low * top
    return Finite(masses=masses, infinite=ball(infinite))


def of_replaced_pure(pure: Fraction, rate: Fraction) -> Finite:
    """A pure mechanism on a Poisson sample, one unit replaced: losses e, 0 and -e.

    pure: under add/remove.

    Source      sampling.replaced_response; docs/proofs/amplification.md, Section 6.
    """
    largest, top, unmoved = replaced_response(pure, rate=rate)
    if largest == 0:
        return no_loss()
    loss = fraction_up(largest.mid())
    masses = {loss: top, Fraction(0): unmoved, -loss: top * (-largest).exp()}
    return Finite(masses=masses, infinite=ball(0))


def of_staircase(epsilon: Fraction, split: Fraction) -> Finite:
    """Staircase noise under a shift by 1: losses epsilon, -epsilon and 0."""
    b, g, top = (-ball(epsilon)).exp(), ball(split), staircase_top(epsilon, split)
    height = -(-ball(epsilon)).expm1() / (2 * (g + b * (1 - g)))
    masses = {epsilon: top, -epsilon: top * b}
    if 2 * split != 1:
        masses[Fraction(0)] = height * ball(abs(1 - 2 * split)) * (b if 2 * split < 1 else 1)
    return Finite(masses=masses, infinite=ball(0))


def of_laplace(edge: Fraction) -> Edged:
    """Laplace noise under a shift by `edge` scales."""
    return Edged(edge=edge, atom=ball(0.5), inner=ball(0.5), infinite=ball(0))


def of_bounded_range(edge: Fraction) -> Edged | Finite:
    """The law that dominates an exponential mechanism whose log-ratios have the range `edge`."""
    if edge == 0:
        return no_loss()
    inner = -1 / (-ball(edge)).expm1()
    return Edged(edge=edge, atom=ball(0), inner=inner, infinite=ball(0))


def of_truncated_laplace(rate: Fraction, bound: Fraction) -> Edged:
    """Laplace noise of scale 1 / rate cut to [-bound, bound], under a shift by 1."""
    u, a = ball(rate), ball(bound)
    whole = -2 * (-u * a).expm1()  # twice the mass of Laplace noise in [-bound, bound]
    beyond = max(bound - 1, Fraction(0))
    if bound >= 1:
        infinite = (-u * a).exp() * u.expm1() / whole
        atom = -(-u * ball(beyond)).expm1() / whole / (1 - infinite)
        edge = rate
    else:
        infinite = 1 - (-u * a).exp() * (u * ball(2 * bound - 1)).expm1() / whole
        atom = ball(0)
        edge = rate * (2 * bound - 1)
    if edge <= 0:
        return Edged(edge=Fraction(0), atom=atom, inner=ball(1), infinite=ball(1))
    inner = (1 - atom * (1 + (-ball(edge)).exp())) / -(-ball(edge)).expm1()
    return Edged(edge=edge, atom=atom, inner=inner, infinite=infinite)


def of_discrete_laplace(rate: Fraction, shift: int) -> Finite:
    """Losses (shift - 2 x) rate for 0 <= x <= shift, P(x) like e^(-rate |x|) with both tails."""
    if shift == 0:
        return no_loss()
    if shift > _MOST_LOSSES:
        raise TooExtreme
    ratio, fall = (-ball(rate)).exp(), -(-ball(rate)).expm1()
    below = 1 / (1 + ratio)
    masses = {}
    for x in range(shift + 1):
        share = below if x in (0, shift) else below * fall
        masses[(shift - 2 * x) * rate] = share * ratio**x
    return Finite(masses=masses, infinite=ball(0))


def of_discrete_gaussian(sigma: Fraction, reach: int) -> Finite:
    """A shift by 1 of integers k, losses (2 k - 1) / (2 sigma^2), for 1 - n <= k <= n."""
    last = math.ceil(sigma * reach) + 1
    if 2 * last > _MOST_LOSSES:
        raise TooExtreme
    double = 2 * sigma * sigma
    weights = [(-ball(Fraction(k * k) / double)).exp() for k in range(last)]
    # beyond k = last the terms fall by at least e^(-(2 last + 1) / (2 sigma^2))
    next_one = (-ball(Fraction(last * last) / double)).exp()
    rest = next_one / -(-ball(Fraction(2 * last + 1) / double)).expm1()
    total = 2 * sum(weights, ball(0)) - weights[0]
    # with the rest counted, the sum is known within 2 rest: by so much all masses may be too large
    shares = [weight / (total + rest) for weight in weights]
    masses = {(2 * k - 1) / double: shares[abs(k - 1)] for k in range(2 - last, last + 1)}
    masses[-max(masses)] = next_one / (total + rest)
    lost = float_up((4 * rest + 2 * next_one) / total)
    return Finite(masses=masses, infinite=ball(0), lost=lost)


def both(first: Law | None, second: Law | None) -> Law | None:
    """Two laws on the same sample: finite ones multiply out, Gaussian ones add."""
    match first, second:
        case Normal(square=left), Normal(square=right):
            return Normal(square=left + right)
        case Finite(), Finite():
            return _convolved(first, second)
        case _:
            return None


def _convolved(first: Finite, second: Finite) -> Finite:
    if len(first.masses) * len(second.masses) > _MOST_PRODUCTS:
        raise TooExtreme
    masses: dict[Fraction, Ball] = {}
    for left, share in first.masses.items():
        for right, part in second.masses.items():
            masses[left + right] = masses.get(left + right, ball(0)) + share * part
    if len(masses) > _MOST_LOSSES:
        raise TooExtreme
    infinite = first.infinite + second.infinite - first.infinite * second.infinite
    return Finite(masses=masses, infinite=infinite, lost=first.lost + second.lost)


def repeated(law: Law | None, count: int) -> Law | None:
    """The law `count` times over on the same sample; None where it has no law of these kinds."""
    match law:
        case Normal(square=square):
            return Normal(square=square * count)
        case Finite():
            if count > _MOST_LOSSES:
                raise TooExtreme
            return by_squaring(law, count, _convolved)
        case _:
            return None


def by_squaring(one: _One, count: int, join: Callable[[_One, _One], _One]) -> _One:
    """A number of copies of a value, 1 or more, joined."""
    found: _One | None = None
    while True:
        if count & 1:
            found = one if found is None else join(found, one)
        count >>= 1
        if not count:
            assert found is not None
            return found
        one = join(one, one)


_SEVERAL = 64
_LONG = 1 << 13
"""Bits of a denominator up to which masses are exact."""
_NONE = Fraction(0)


class FiniteLoss(NamedTuple):
    """(epsilon, mass)-DP: but for an infinite loss of this mass, no loss is above epsilon.

    attained: of one pair that the event allows the mass is exactly this, and epsilon its largest
    loss, but for rounding: no smaller epsilon is enough where delta is the mass.
    """

    epsilon: Fraction
    mass: Fraction
    attained: bool = False


def composed_loss(parts: list[tuple[FiniteLoss, int]]) -> FiniteLoss:
    """The loss of a composition of parts with their counts.

    Statement   (sum of epsilon, 1 - prod(1 - mass)).
    Bound       upper, rounded up.
    Source      Kairouz, Oh, Viswanath 2015, Theorem 3.3.
    """
    losses = [part.epsilon * count for part, count in parts]
    # the common denominator of many may have thousands of digits
    total = sum(losses, start=_NONE) if len(losses) <= _SEVERAL else grid_sum_up(losses)
    left = Fraction(1)
    for part, count in parts:
        if part.mass:
            left = _product(left, by_squaring(1 - part.mass, count, _product))
    bits = sum(part.mass.denominator.bit_length() * count for part, count in parts if part.mass)
    short = bits <= _LONG and len(losses) <= _SEVERAL
    return FiniteLoss(total, 1 - left, short and all(part.attained for part, _ in parts))


def _product(one: Fraction, other: Fraction) -> Fraction:
    """Rounded down where it has too many digits to be a delta that is asked for."""
    value = one * other
    if value.denominator.bit_length() <= _LONG:
        return value
    return Fraction((value.numerator << _LONG) // value.denominator, 1 << _LONG)


def sampled_loss(loss: FiniteLoss, rate: Fraction) -> FiniteLoss:
    """The loss on a sample that holds a unit at this rate.

    Statement   (log(1 + rate (e^epsilon - 1)), rate mass).
    Bound       upper, rounded up; tight.
    Source      approx_dp_of_sample.
    """
    if rate == 1:
        return loss
    amplified, _ = approx_dp_of_sample(loss.epsilon, delta=0, rate=rate)
    return FiniteLoss(Fraction(amplified), rate * loss.mass, loss.attained and rate > 0)


def sampled_replaced_loss(loss: FiniteLoss, rate: Fraction) -> FiniteLoss | None:
    """The same where one unit is replaced; None where the mass is no rational number.

    Statement   (log((1 - rate + rate e^epsilon)/(1 - rate)), rate mass) if the mass is not 0 and
                rate < 1; else pure_of_replaced_sample.
    Bound       upper, rounded up; the epsilon is tight where the mass is 0.
    Source      docs/proofs/amplification.md, Section 6.
    """
    if not loss.mass:
        return FiniteLoss(Fraction(pure_of_replaced_sample(loss.epsilon, rate=rate)), _NONE)
    if rate == 1:  # the mass of two steps has e^epsilon in it, which is no rational number
        return None
    amplified = approx_dp_of_replaced_sample(loss.epsilon, rate=rate)
    return FiniteLoss(Fraction(amplified), rate * loss.mass)
