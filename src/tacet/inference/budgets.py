"""Budgets of estimators: any guarantee that normal noise can keep, shared out in Gaussian DP.

An estimator asks the data several times: for a scale, for gradients, for the matrices of its
standard errors. The whole budget is turned once, analytically, into the largest mu-GDP that
implies it; squares of mu add, so shares of it add up to the whole without loss (Dong, Roth, Su
2022, Corollary 3.3). What is promised at the end is the budget itself.
"""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

from fractions import Fraction

from tacet.errors import InvalidParameter
from tacet.privacy.conversions import bounded_range_from_gdp
from tacet.privacy.guarantees import GDP, ZCDP, ApproxDP, Guarantee, PureDP, RenyiDP
from tacet.privacy.rounding import root_down

__all__ = ["check_budget", "gdp_budget", "selection_epsilon"]


def check_budget(budget: object) -> Guarantee:
    """The budget, if it is a guarantee that allows some loss; else InvalidParameter.

    >>> check_budget(PureDP(1))
    PureDP(epsilon=1.0)
    """
    if not isinstance(budget, PureDP | ApproxDP | ZCDP | GDP | RenyiDP):
        raise InvalidParameter(
            "budget", budget, expected="a guarantee such as tacet.GDP(1) or ApproxDP(1, 1e-6)"
        )
    if not budget.additive[0]:
        raise InvalidParameter("budget", budget, expected="one that allows some loss")
    return budget


def gdp_budget(budget: object) -> GDP:
    """The largest Gaussian DP, its delta 0, that implies the budget.

    GDP as it is, ApproxDP by its analytic inverse, ZCDP and RenyiDP as the normal mechanism that
    they allow. Raises InvalidParameter for PureDP, which no normal noise keeps, and for an
    ApproxDP without a delta.

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


def selection_epsilon(budget: GDP) -> Fraction:
    """The largest epsilon of an exponential mechanism, whose range is bounded, within the budget.

    Source: docs/proofs/bounded_range.md, Theorem 1.

    >>> round(float(selection_epsilon(GDP(1))), 6)
    1.613931
    """
    return Fraction(bounded_range_from_gdp(root_down(budget.mu_squared)))
