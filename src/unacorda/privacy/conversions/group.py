"""Group privacy: what a guarantee for one unit says about several units at once."""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

from fractions import Fraction

from unacorda.balls import ball, float_down, float_up
from unacorda.privacy.conversions.arguments import Real, non_negative, order, share, whole
from unacorda.privacy.conversions.arguments import stretch as check_stretch


def pure_of_group(epsilon: Real, *, size: int) -> Fraction:
    r"""Epsilon for any group of `size` units, of an epsilon-DP mechanism.

    Statement   size epsilon.
    Bound       upper, exact; tight.
    Edges       epsilon = 0 -> 0.
    Source      Dwork, McSherry, Nissim, Smith 2006; Steinke 2022, arXiv:2210.00597.

    >>> pure_of_group(0.25, size=4)
    Fraction(1, 1)
    """
    non_negative(epsilon=epsilon)
    return Fraction(epsilon) * whole(size=size)


def approx_dp_of_group(epsilon: Real, *, delta: Real, size: int) -> tuple[Fraction, float]:
    r"""(epsilon, delta) for any group of `size` units, of an (epsilon, delta)-DP mechanism.

    Statement   (k epsilon, delta (e^{k epsilon} - 1) / (e^epsilon - 1)), the delta at most 1,
                k = size: delta, e^epsilon delta, ..., e^{(k-1) epsilon} delta add up.
    Bound       upper; epsilon exact, delta rounded up.
    Edges       epsilon = 0 -> (0, k delta);  delta = 0 -> delta 0.0.
    Source      Vadhan 2017, "The complexity of differential privacy", Lemma 2.2.

    >>> epsilon, delta = approx_dp_of_group(1.0, delta=1e-6, size=2)
    >>> epsilon, round(delta * 1e6, 6)  # e + 1
    (Fraction(2, 1), 3.718282)
    """
    non_negative(epsilon=epsilon)
    share(delta=delta)
    k = whole(size=size)
    together = Fraction(epsilon) * k
    if delta == 0:
        return together, 0.0
    if epsilon == 0:
        return together, min(1.0, float_up(ball(delta) * k))
    grown = ball(together).expm1() / ball(epsilon).expm1()
    return together, min(1.0, float_up(ball(delta) * grown))


def zcdp_of_group(rho: Real, *, size: int) -> Fraction:
    r"""Rho for any group of `size` units, of a rho-zCDP mechanism.

    Statement   size^2 rho; it holds for rho-zCDP itself, not for its delta-approximate form.
    Bound       upper, exact; tight (Gaussian).
    Edges       rho = 0 -> 0.
    Source      Bun and Steinke 2016, arXiv:1605.02065, Prop. 1.9.
    """
    non_negative(rho=rho)
    return Fraction(rho) * whole(size=size) ** 2


def zcdp_of_two_steps(first: Real, *, second: Real) -> float:
    r"""Rho between the ends of a path of two steps, `first`-zCDP and `second`-zCDP.

    Statement   (sqrt(first) + sqrt(second))^2.
    Bound       upper, rounded up; tight (Gaussian).
    Edges       one of them 0 -> the other.
    Source      Steinke 2022, arXiv:2210.00597 (the best c in renyi_of_two_steps).

    >>> zcdp_of_two_steps(1.0, second=4.0)
    9.0
    """
    non_negative(first=first, second=second)
    return float_up((ball(first).sqrt() + ball(second).sqrt()) ** 2)


def gdp_of_group(mu: Real, *, size: int) -> Fraction:
    r"""Mu for any group of `size` units, of a mu-GDP mechanism.

    Statement   size mu.
    Bound       upper, exact; tight.
    Edges       mu = 0 -> 0.
    Source      Dong, Roth, Su 2022, Thm. 2.14.
    """
    non_negative(mu=mu)
    return Fraction(mu) * whole(size=size)


def renyi_orders_of_two_steps(alpha: Real, *, stretch: Real) -> tuple[Fraction, Fraction]:
    r"""The orders at which `renyi_of_two_steps` needs the first and the second step.

    Statement   ((c a - 1) / (c - 1), c a), a = alpha, c = stretch.
    Bound       exact.
    Edges       stretch -> 1: the first order goes to infinity;  large: the second does.
    Source      as renyi_of_two_steps.

    >>> renyi_orders_of_two_steps(2, stretch=2)
    (Fraction(3, 1), Fraction(4, 1))
    """
    order(alpha)
    check_stretch(stretch)
    a, c = Fraction(alpha), Fraction(stretch)
    return (c * a - 1) / (c - 1), c * a


def renyi_of_two_steps(first: Real, *, second: Real, alpha: Real, stretch: Real) -> Fraction:
    r"""Renyi divergence of order alpha between the ends P, R of a path P, Q, R.

    first: D(P || Q) at order (c a - 1) / (c - 1); second: D(Q || R) at order c a, where a = alpha
    and c = stretch, any number above 1 (not the size of the group).

    Statement   D_a(P || R) <= c a / (c a - 1) first + second.
    Bound       upper, exact.
    Edges       first = 0 -> second.
    Source      Hoelder's inequality with exponents (ca-1)/(a(c-1)) and (ca-1)/(a-1); Mironov
                2017, Prop. 11 (one choice of them); Steinke 2022 (all).
    """
    non_negative(first=first, second=second)
    order(alpha)
    check_stretch(stretch)
    product = Fraction(alpha) * Fraction(stretch)
    return product / (product - 1) * Fraction(first) + Fraction(second)


# Replacing a unit is removing one and adding another, two steps of add/remove (or of zero-out). The
# way back does not exist: a mechanism may publish the number of rows and keep every replace-one
# guarantee, yet it keeps no add/remove guarantee at all.


def replace_one_from_add_remove(epsilon: Real, *, delta: Real) -> tuple[Fraction, float]:
    r"""(epsilon, delta) under replacement, of an (epsilon, delta)-DP mechanism under add/remove.

    Statement   (2 epsilon, (1 + e^epsilon) delta), the delta at most 1. The same from zero-out.
    Bound       upper; epsilon exact, delta rounded up.
    Edges       delta = 0 -> (2 epsilon, 0.0).
    Source      group privacy of two steps: approx_dp_of_group.

    >>> replace_one_from_add_remove(0.5, delta=0)
    (Fraction(1, 1), 0.0)
    """
    return approx_dp_of_group(epsilon, delta=delta, size=2)


def add_remove_from_replace_one(epsilon: Real, *, delta: Real) -> tuple[Fraction, float]:
    r"""The add/remove (epsilon, delta) that is enough for a replace-one target.

    Statement   (epsilon / 2, delta / (1 + e^{epsilon/2})).
    Bound       lower: what satisfies the result under add/remove satisfies the argument under
                replacement; never read it the other way round.
    Edges       delta = 0 -> delta 0.0.
    Source      the inverse of replace_one_from_add_remove.

    >>> add_remove_from_replace_one(1.0, delta=0)
    (Fraction(1, 2), 0.0)
    """
    non_negative(epsilon=epsilon)
    share(delta=delta)
    half = Fraction(epsilon) / 2
    return half, float_down(ball(delta) / (1 + ball(half).exp()))


def zero_out_from_replace_one(epsilon: Real, *, delta: Real) -> tuple[Fraction, Fraction]:
    r"""(epsilon, delta) under zero-out, of an (epsilon, delta)-DP mechanism under replacement.

    Statement   unchanged: an empty contribution is one of the contributions a unit may have.
    Bound       upper, exact.
    Edges       only where the mechanism accepts an empty contribution as a value.
    Source      the definitions of the two relations.
    """
    non_negative(epsilon=epsilon)
    share(delta=delta)
    return Fraction(epsilon), Fraction(delta)
