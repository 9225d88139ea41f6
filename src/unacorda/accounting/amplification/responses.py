"""Shuffled answers of randomized response: delta from both sides, for any number of categories."""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

import math

import numpy as np

from unacorda.accounting.amplification.binary_reports import delta_of_shuffled_bits
from unacorda.accounting.amplification.binomials import log_binomial
from unacorda.accounting.amplification.blankets import (
    delta_of_shuffled_reports,
    lower_delta_of_three_categories,
)
from unacorda.errors import InvalidParameter
from unacorda.privacy.conversions.arguments import Real, non_negative, whole
from unacorda.privacy.enclosure import context, float_down, float_up, mpf

_UNIT = 2.0**-53
_REACH = 40.0
"""Roots of the mean around it that are summed: what is beyond is below 1e-300."""


def delta_of_shuffled_response(
    local_epsilon: Real, *, categories: int, count: int, epsilon: Real
) -> float:
    r"""Bounds delta, at `epsilon`, of `count` shuffled answers of k-ary randomized response.

    Statement   delta_of_shuffled_reports with the total variation distance
                (e^{eps0} - 1)/(e^{eps0} + k - 1); for two categories the largest of all datasets.
    Bound       upper, rounded up, under replacement. With three categories or more it holds as
                well for the reports that docs/proofs/local.md, Section 7, prices as these.
    Edges       epsilon >= local_epsilon -> 0.0; local_epsilon above 30 -> 1.0, not computed.
    Source      delta_of_shuffled_bits, delta_of_shuffled_reports.

    >>> delta_of_shuffled_response(1.0, categories=5, count=1_000, epsilon=0.1) < 5e-6
    True
    """
    non_negative(local_epsilon=local_epsilon, epsilon=epsilon)
    k = _categories(categories)
    if k == 2:
        return delta_of_shuffled_bits(local_epsilon, count=count, epsilon=epsilon)
    if local_epsilon == 0:
        return 0.0
    grown = context().exp(min(mpf(local_epsilon), mpf(64)))
    return delta_of_shuffled_reports(
        local_epsilon,
        distance=min(1.0, float_up((grown - 1) / (grown + k - 1))),
        count=count,
        epsilon=epsilon,
    )


def lower_delta_of_shuffled_response(
    local_epsilon: Real, *, categories: int, count: int, epsilon: Real
) -> float:
    r"""Delta that `count` shuffled answers of k-ary randomized response have at least.

    Statement   of two categories, the two datasets are all zeros, and all zeros but a one; the
                attacker sees the number of ones, Bin(n - 1, s) + D or + 1 - D,
                s = 1/(1 + e^{eps0}). Of more, lower_delta_of_three_categories.
    Bound       lower, rounded down.
    Edges       epsilon >= local_epsilon -> 0.0;  more than 10^7 answers -> 0.0, not computed.
    Source      the definition of delta, for one pair of datasets.
    """
    non_negative(local_epsilon=local_epsilon, epsilon=epsilon)
    k = _categories(categories)
    if k > 2:
        return lower_delta_of_three_categories(
            local_epsilon, categories=k, count=count, epsilon=epsilon
        )
    n = whole(count=count)
    at, e0 = float_up(mpf(epsilon)), float_down(mpf(local_epsilon))
    if at >= e0 or n > 10**7 or e0 > 30:
        return 0.0
    s = 1 / (1 + math.exp(e0))
    mean, reach = (n - 1) * s, _REACH * (math.sqrt(n * s) + 1)
    first, last = max(0, math.floor(mean - reach)), min(n - 1, math.ceil(mean + reach))
    log_pmf, error = log_binomial(n - 1, s, np.arange(first, last + 1.0))
    pmf = np.exp(log_pmf)
    more, same = np.append(0.0, pmf), np.append(pmf, 0.0)
    p, q = (1 - s) * more + s * same, s * more + (1 - s) * same
    slack = 4 * float(np.max(error)) + 64 * _UNIT
    found = 0.0
    for one, two in ((p, q), (q, p)):
        gap = one * (1 - slack) - math.exp(at) * two * (1 + slack)
        found = max(found, float(np.sum(np.maximum(gap, 0.0))))
    return max(0.0, found * (1 - 1e-9))


def _categories(categories: int) -> int:
    if whole(categories=categories) < 2:
        raise InvalidParameter("categories", categories, expected="a whole number, 2 or above")
    return int(categories)
