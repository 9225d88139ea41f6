"""Budgets of estimators: any guarantee that normal noise can keep, allocated in Gaussian DP.

An estimator makes several releases: a scale, gradients, matrices for its standard errors. The whole
budget is converted once, analytically, into the largest mu-GDP that implies it. Squares of mu add,
so shares add up to the whole without loss (Dong, Roth, Su 2022, Corollary 3.3). The final guarantee
is the budget itself.
"""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

from fractions import Fraction
from typing import Final

from unacorda.checks import demand
from unacorda.errors import InvalidParameter
from unacorda.privacy.guarantees import (
    GDP,
    ZCDP,
    ApproxDP,
    Guarantee,
    PureDP,
    RenyiDP,
    bounded_range_within,
)

_LEAST: Final = Fraction(1, 2**200)
"""Of an epsilon with which something is chosen; floats cannot separate less from none."""


def check_budget(budget: object) -> Guarantee:
    """Returns a guarantee that allows some loss; InvalidParameter for anything else.

    >>> check_budget(PureDP(1))
    PureDP(epsilon=1.0)
    """
    if not isinstance(budget, PureDP | ApproxDP | ZCDP | GDP | RenyiDP):
        raise InvalidParameter(
            "budget", budget, expected="a guarantee such as unacorda.GDP(1) or ApproxDP(1, 1e-6)"
        )
    demand(
        budget.additive[0], "budget", budget, expected="a guarantee that allows some privacy loss"
    )
    return budget


def takes_normal_noise(budget: Guarantee) -> bool:
    """True if normal noise can keep such a guarantee."""
    return not (isinstance(budget, PureDP) or (isinstance(budget, ApproxDP) and not budget.delta))


def gdp_budget(budget: object) -> GDP:
    """The largest Gaussian DP, its delta 0, that implies the budget.

    GDP is unchanged, ApproxDP is inverted analytically, and ZCDP and RenyiDP become the normal
    mechanism that they allow. Raises InvalidParameter for PureDP, which normal noise cannot keep,
    and for an ApproxDP without a delta.

    >>> gdp_budget(ZCDP(0.5))
    GDP(mu=1.0)
    """
    checked = check_budget(budget)
    if isinstance(checked, PureDP):
        raise InvalidParameter(
            "budget",
            checked,
            expected="GDP, ZCDP, RenyiDP or ApproxDP with a delta, since normal noise keeps no "
            f"pure guarantee; for instance ApproxDP({float(checked.epsilon):g}, 1e-6)",
        )
    return GDP.from_squared(GDP.within(checked).mu_squared)


def shareable(budget: object, *, releases: int) -> PureDP | ZCDP | GDP:
    """Convert the budget to the kind that suits this number of releases of single numbers.

    ApproxDP becomes PureDP or Gaussian DP, whichever leaves less noise; RenyiDP its zCDP.

    >>> shareable(ApproxDP(1, 1e-6), releases=2), shareable(RenyiDP(8, 2), releases=2)
    (PureDP(epsilon=1.0), ZCDP(rho=0.25))
    """
    checked = check_budget(budget)
    match checked:
        case PureDP() | ZCDP() | GDP():
            return checked
        case RenyiDP(alpha, epsilon):
            return ZCDP(epsilon / alpha)
        case ApproxDP(epsilon, delta):
            pure = PureDP(epsilon)
            if not delta:
                return pure
            normal = gdp_budget(checked)
            # Deviations sqrt 2 k / epsilon and sqrt k / mu, both squared.
            return pure if 2 * releases * normal.mu_squared <= epsilon**2 else normal


def selection_epsilon(budget: object, *, releases: int = 1) -> Fraction:
    """The largest epsilon of each of so many exponential mechanisms within the budget.

    Their range is bounded: each costs epsilon^2 / 8 in zCDP, and less than a pure mechanism in
    Gaussian DP. Under ApproxDP pure composition is better for a few. Raises InvalidParameter if the
    budget is too small for a meaningful choice. Source: docs/proofs/bounded_range.md, Theorem 1;
    Cesar and Rogers 2020 (zCDP).

    >>> [round(float(selection_epsilon(budget)), 3) for budget in (GDP(1), ZCDP(0.5))]
    [1.614, 2.0]
    """
    checked = check_budget(budget)
    epsilon = _selection_epsilon(checked, releases=releases)
    demand(
        epsilon > _LEAST, "budget", budget, expected="a larger one: no selection could use this one"
    )
    return epsilon


def _selection_epsilon(budget: Guarantee, *, releases: int) -> Fraction:
    if not isinstance(budget, ApproxDP):
        return bounded_range_within(budget * Fraction(1, releases))
    pure = budget.epsilon / releases
    if not budget.delta:
        return pure
    return max(pure, _selection_epsilon(gdp_budget(budget), releases=releases))
