"""Rank tests: two groups by Mann and Whitney, pairs by Wilcoxon's signed ranks.

They need no bounds on the values. Their statistics are whole or half numbers whose law under the
null hypothesis is known, to which noise is added; the p-values count both.
"""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable
from fractions import Fraction

import numpy as np
from numpy.typing import ArrayLike
from scipy.stats import rankdata

from unacorda.bits import RandomBits, source_of
from unacorda.inference.budgets import check_budget
from unacorda.inference.hypothesis_tests import results
from unacorda.inference.records import Floats, column
from unacorda.inference.sums import additive_noise
from unacorda.privacy.guarantees import Guarantee

_EXACT = 200
"""Up to so many people ranks are drawn; beyond, the statistic is drawn from its normal limit."""


def mann_whitney_test(
    x: ArrayLike,
    y: ArrayLike,
    *,
    budget: Guarantee,
    alternative: results.Alternative = "two-sided",
    draws: int = 9999,
    seed: int = 0,
    bits: RandomBits | None = None,
) -> results.TestResult:
    """Tests whether values of one group tend to be larger than those of another.

    The statistic is the share of pairs in which x is larger, a tie being half a pair, with noise.
    Replacing a person moves the number of pairs by the size of the other group, max(n, m) at most.
    Ties make the test refuse less often than it may.

    Source: Mann and Whitney 1947; Couch, Kazan, Shi, Bray, Groce 2019, arXiv:1809.01635 (noise).

    Parameters
    ----------
    x, y
        Numbers of different people, shapes (n,) and (m,); how many, and who belongs where, are
        public. NaN counts as the least.
    budget, draws, seed, bits
        As for `fit_test`.
    alternative
        "greater" if values of x are held to be the larger.

    Returns
    -------
    TestResult
        The noisy statistic and its p-value.

    Raises
    ------
    InvalidParameter
        For arguments that cannot be used.

    Examples
    --------
    >>> import unacorda
    >>> x = np.arange(500)
    >>> result = mann_whitney_test(x + 100, x, budget=unacorda.GDP(1), bits=unacorda.SeededBits(1))
    >>> 0.6 < result.statistic < 0.75, result.p_value
    (True, 0.0002)
    """
    simulation = results.Simulation(draws=draws, seed=seed, alternative=alternative)
    first, second = _least_where_missing("x", x), _least_where_missing("y", y)
    n, m = first.size, second.size
    ranks = rankdata(np.concatenate([first, second]))  # halves: exact
    pairs = Fraction(float(ranks[:n].sum())) - Fraction(n * (n + 1), 2)

    def null(rng: np.random.Generator, size: int) -> Floats:
        if n + m > _EXACT:
            return rng.normal(n * m / 2, math.sqrt(n * m * (n + m + 1) / 12), size)
        drawn = rng.random((size, n + m)).argsort(axis=1)[:, :n] + 1
        return np.asarray(drawn.sum(axis=1) - n * (n + 1) / 2)

    return _noisy_result(
        pairs,
        moved=max(n, m),
        whole=n * m,
        null=null,
        budget=budget,
        simulation=simulation,
        bits=bits,
    )


def signed_rank_test(
    x: ArrayLike,
    *,
    budget: Guarantee,
    alternative: results.Alternative = "two-sided",
    draws: int = 9999,
    seed: int = 0,
    bits: RandomBits | None = None,
) -> results.TestResult:
    """Tests whether differences, one per person, are symmetric about 0.

    The statistic is the sum of the ranks of |x|, each with the sign of its difference (0 for 0),
    over the largest possible, with noise. Replacing a person moves the sum by 2 n at most: it is a
    sum over pairs of people of the sign of the farther one. Ties and zeros make the test refuse
    less often than it may.

    Source: Wilcoxon 1945 with Pratt's zeros; Couch, Kazan, Shi, Bray, Groce 2019 (noise).

    Parameters
    ----------
    x
        Differences, shape (n,); n is public. NaN counts as 0.
    budget, draws, seed, bits
        As for `fit_test`.
    alternative
        "greater" if differences are held to be above 0.

    Returns
    -------
    TestResult
        The noisy statistic and its p-value.

    Raises
    ------
    InvalidParameter
        For arguments that cannot be used.

    Examples
    --------
    >>> import unacorda
    >>> result = signed_rank_test(
    ...     np.arange(-200, 300), budget=unacorda.GDP(1), bits=unacorda.SeededBits(1)
    ... )
    >>> result.p_value
    0.0002
    """
    simulation = results.Simulation(draws=draws, seed=seed, alternative=alternative)
    given = column("x", x)
    values = np.where(np.isnan(given), 0.0, given)
    n = values.size
    signed = Fraction(float(np.dot(np.sign(values), rankdata(np.abs(values)))))

    def null(rng: np.random.Generator, size: int) -> Floats:
        if n > _EXACT:
            return rng.normal(0.0, math.sqrt(n * (n + 1) * (2 * n + 1) / 6), size)
        signs = rng.integers(0, 2, (size, n)) * 2 - 1
        return np.asarray(signs @ np.arange(1.0, n + 1))

    return _noisy_result(
        signed,
        moved=2 * n,
        whole=n * (n + 1) // 2,
        null=null,
        budget=budget,
        simulation=simulation,
        bits=bits,
    )


def _noisy_result(
    exact: Fraction,
    *,
    moved: int,
    whole: int,
    null: Callable[[np.random.Generator, int], Floats],
    budget: Guarantee,
    simulation: results.Simulation,
    bits: RandomBits | None,
) -> results.TestResult:
    """The statistic with noise, as a share of the whole, and its p-value."""
    noise = additive_noise(check_budget(budget), l1=Fraction(moved), l2=Fraction(moved))
    # In steps of a half, which both statistics are whole numbers of.
    (released,) = noise.release_exact([int(exact * 2)], unit_log2=-1, bits=source_of(bits))
    found = simulation.noisy_result(
        np.asarray(float(released)), noise, statistic=lambda sums: sums, draw=null
    )
    return dataclasses.replace(found, statistic=found.statistic / whole)


def _least_where_missing(argument: str, values: ArrayLike) -> Floats:
    given = column(argument, values)
    return np.where(np.isnan(given), -np.inf, given)
