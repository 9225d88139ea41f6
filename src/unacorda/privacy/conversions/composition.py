"""Composition in closed form: the named theorems, each an upper bound that engines improve on."""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

import math
import sys
from collections.abc import Iterable, Sequence
from fractions import Fraction

from unacorda.balls import Ball, ball, float_up
from unacorda.errors import InvalidParameter
from unacorda.privacy.conversions.arguments import Real, non_negative, numbers_of, share


def basic_composition(
    epsilons: Iterable[Real], *, deltas: Sequence[Real]
) -> tuple[Fraction, Fraction]:
    r"""(epsilon, delta) of mechanisms that are each (epsilon_j, delta_j)-DP, on the same data.

    Statement   (sum epsilon_j, sum delta_j), the delta at most 1; also for adaptive choices.
    Bound       upper, exact.
    Edges       no mechanism -> (0, 0).
    Source      Dwork, Kenthapadi, McSherry, Mironov, Naor 2006; Steinke 2022, Thm. 1.

    >>> basic_composition([1, 2], deltas=[0, 0])
    (Fraction(3, 1), Fraction(0, 1))
    """
    sizes, parts = _pairs(epsilons, deltas)
    return _sum(sizes), min(_sum(parts), Fraction(1))


def advanced_composition(epsilons: Iterable[Real], *, delta: Real) -> float:
    r"""Epsilon, at `delta`, of mechanisms that are each epsilon_j-DP, on the same data.

    Statement   min(sum epsilon_j, S/2 + sqrt(2 S log(1/delta))), S = sum epsilon_j^2; also for
                mechanisms chosen adaptively, the epsilons fixed beforehand.
    Bound       upper, rounded up. approx_dp_from_zcdp of the sum of zcdp_from_pure is never
                above it, and the optimal composition is below both.
    Edges       delta = 0 -> the sum;  delta = 1 -> 0.0.
    Source      Dwork, Rothblum, Vadhan 2010; in this form Steinke 2022, arXiv:2210.00597, Thm. 18.

    >>> round(advanced_composition([0.1] * 100, delta=1e-6), 4)
    5.7565
    """
    share(delta=delta)
    sizes = _sizes(epsilons)
    if delta == 1:
        return 0.0
    return _advanced(sizes, ball(delta), nothing_left=delta == 0)


def advanced_composition_of_approximate(
    epsilons: Iterable[Real], *, deltas: Iterable[Real], delta: Real
) -> tuple[float, float]:
    r"""(epsilon, total delta) of mechanisms that are each (epsilon_j, delta_j)-DP.

    delta: what is spent on the composition, beside the delta_j.

    Statement   epsilon as in advanced_composition at `delta`;
                1 - total = (1 - delta) (1 - delta_1) ... (1 - delta_n).
    Bound       upper, both rounded up.
    Edges       delta = 0 -> the sum of the epsilons.
    Source      Steinke 2022, arXiv:2210.00597, Thm. 22.
    """
    share(delta=delta)
    sizes, parts = _pairs(epsilons, deltas)
    total = delta_of_independent_failures([*parts, delta])
    if delta == 1:
        return 0.0, 1.0
    return _advanced(sizes, ball(delta), nothing_left=delta == 0), total


def delta_of_independent_failures(deltas: Iterable[Real]) -> float:
    r"""The delta of several parts, each a mass delta_j of which nothing is claimed.

    Statement   1 - (1 - delta_1) ... (1 - delta_n).
    Bound       upper, rounded up; never above the sum.
    Edges       none -> 0.0;  one of them 1 -> 1.0.
    Source      Kairouz, Oh, Viswanath 2015, Thm. 3.3 (each mechanism fails with probability
                delta_j, independently); Steinke 2022, Thm. 22.

    >>> delta_of_independent_failures([0.5, 0.5])
    0.7500000000000001
    """
    parts = numbers_of(deltas=deltas)
    for one in parts:
        share(deltas=one)
    if any(one == 1 for one in parts):
        return 1.0
    return min(1.0, float_up(-sum(((-ball(one)).log1p() for one in parts), ball(0)).expm1()))


def _advanced(epsilons: Sequence[Real], delta: Ball, *, nothing_left: bool) -> float:
    total = _sum(epsilons)
    plain = float(total) if total <= sys.float_info.max else math.inf
    if plain < total:
        plain = math.nextafter(plain, math.inf)
    if nothing_left:
        return plain
    squares = sum((ball(one) ** 2 for one in epsilons), ball(0))
    return min(plain, float_up(squares / 2 + (-2 * squares * delta.log()).sqrt()))


def _sum(numbers: Sequence[Real]) -> Fraction:
    return sum((Fraction(one) for one in numbers), start=Fraction(0))


def _sizes(epsilons: Iterable[Real]) -> list[Real]:
    sizes = numbers_of(epsilons=epsilons)
    for one in sizes:
        non_negative(epsilons=one)
    return sizes


def _pairs(epsilons: Iterable[Real], deltas: Iterable[Real]) -> tuple[list[Real], list[Real]]:
    sizes, parts = _sizes(epsilons), numbers_of(deltas=deltas)
    if len(sizes) != len(parts):
        raise InvalidParameter("deltas", deltas, expected=f"{len(sizes)} of them, as epsilons")
    for one in parts:
        share(deltas=one)
    return sizes, parts
