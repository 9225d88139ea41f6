"""The mean of numbers whose owners trust nobody: each device randomises its own."""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

from typing import Any, TypeAlias

from numpy.typing import ArrayLike

from unacorda.bits import RandomBits, source_of
from unacorda.errors import InvalidParameter
from unacorda.inference.budgets import check_budget
from unacorda.inference.local_reports import (
    NoisyNumber,
    local_epsilon,
    noise_multiplier,
    takes_normal_noise,
)
from unacorda.inference.records import column, public_range
from unacorda.mechanisms.response.means import Duchi, Hybrid, MeanOracle, Piecewise
from unacorda.privacy.estimates import Estimate
from unacorda.privacy.guarantees import Guarantee

__all__ = ["NumberReports", "local_mean", "mean_randomizer"]

NumberReports: TypeAlias = MeanOracle | NoisyNumber
"""How a device reports a number: `encode`; and how the server reads reports: `aggregate`."""


def mean_randomizer(*, lower: float, upper: float, budget: Guarantee) -> NumberReports:
    """How each device reports its number, by the least variance of the worst numbers.

    lower, upper: public bounds; budget: any guarantee, kept for each report by itself, under the
    replacement of its number by any other. Of `Duchi`, `Piecewise`, `Hybrid` and, where the
    budget allows it, normal noise. (Laplace noise is never better than `Hybrid` or `Duchi`.)
    A device calls `encode(x)`, the server `aggregate(reports)`.
    Raises InvalidParameter for bounds and budgets that cannot be used, MissingBound for None.
    Source: Duchi, Jordan, Wainwright 2018, arXiv:1604.02390; Wang et al. 2019, arXiv:1907.00782.

    >>> import unacorda
    >>> for budget in (unacorda.PureDP(0.5), unacorda.PureDP(2), unacorda.GDP(1)):
    ...     print(type(mean_randomizer(lower=0, upper=1, budget=budget)).__name__)
    Duchi
    Hybrid
    NoisyNumber
    """
    public_range(lower, upper, of="x")
    checked = check_budget(budget)
    given: dict[str, Any] = {"epsilon": local_epsilon(checked), "lower": lower, "upper": upper}
    found: list[NumberReports]
    try:
        found = [Duchi(**given), Hybrid(**given), Piecewise(**given)]
    except InvalidParameter as error:
        if error.argument != "epsilon":
            raise
        found = []
    if takes_normal_noise(checked):
        multiplier = noise_multiplier(checked)
        found.append(NoisyNumber(lower=lower, upper=upper, noise_multiplier=multiplier))
    if not found:
        raise InvalidParameter("budget", checked, expected="one of which a report can make use")
    return min(found, key=lambda reports: reports.variance(count=1))


def local_mean(
    x: ArrayLike,
    *,
    lower: float,
    upper: float,
    budget: Guarantee,
    bits: RandomBits | None = None,
) -> Estimate:
    """The mean of a bounded column by reports of its owners, with both its errors.

    x: one number a person; each is randomised by itself, by `mean_randomizer`, as her own device
    would. What lies beyond lower or upper, which are public, counts as the bound, NaN as 0.
    budget: any guarantee, kept for each person whatever becomes of her report. The estimate is
    unbiased for the mean of the clipped values; where reports are single bits, which do not tell
    sampling and noise apart, the whole error is told as that of privacy.
    Raises InvalidParameter for shapes, dtypes, bounds and budgets that cannot be used, and
    MissingBound for a bound that is None.

    >>> import numpy as np
    >>> import unacorda
    >>> ages = np.arange(20_000) % 100
    >>> found = local_mean(
    ...     ages, lower=0, upper=100, budget=unacorda.PureDP(2), bits=unacorda.SeededBits(1)
    ... )
    >>> 48 < found.value < 51, round(found.privacy_error, 2)
    (True, 0.36)
    """
    reports = mean_randomizer(lower=lower, upper=upper, budget=budget)
    values = column("x", x)
    return reports.aggregate(reports.encode(values, bits=source_of(bits)))
