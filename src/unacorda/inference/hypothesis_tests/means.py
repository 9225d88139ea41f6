"""Tests of means and ranks: one sample, two samples, several groups (analysis of variance).

For tests of means each group releases its mean and its square at the price of the mean alone. The
p-values come from normal samples with the released deviation, to which noise of the same law is
added.

Rank tests (two groups by Mann and Whitney, pairs by Wilcoxon's signed ranks) need no bounds on the
values. Their statistics are whole or half numbers whose law under the null hypothesis is known, to
which noise is added; the p-values count both.
"""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import TypeAlias

import numpy as np
from numpy.typing import ArrayLike
from scipy.stats import rankdata

from unacorda import checks
from unacorda.bits import RandomBits, source_of
from unacorda.errors import InvalidParameter
from unacorda.inference.estimates.means import Moments, unit_moments
from unacorda.inference.hypothesis_tests import results
from unacorda.inference.hypothesis_tests.results import (
    Alternative,
    Simulation,
    TestResult,
    simulate_noise,
)
from unacorda.inference.records import Floats, check_budget, column, public_range, unit_values
from unacorda.inference.sums import additive_noise, release_numbers
from unacorda.privacy.guarantees import Guarantee

_Statistic: TypeAlias = Callable[[Floats, Floats], Floats]
"""Of noisy means and variances of all groups, along the last axis."""


def t_test(
    x: ArrayLike,
    mean: float,
    *,
    lower: float,
    upper: float,
    budget: Guarantee,
    alternative: Alternative = "two-sided",
    draws: int = 9999,
    seed: int = 0,
    bits: RandomBits | None = None,
) -> TestResult:
    """Tests whether the mean of a bounded column is a given number.

    The statistic is the distance of the released mean over its standard error, noise counted.
    Values beyond the bounds count as the bounds, in the sample and in the null alike only as long
    as few are.

    Source: Student 1908; the null with noise after Pena and Barrientos 2021, arXiv:2009.14153.

    Parameters
    ----------
    x, lower, upper
        As for `mean`; two or more people.
    mean
        Of the null hypothesis, public, in the unit of x.
    budget
        Any guarantee, kept under the replacement of one row.
    alternative
        "greater" if the mean of x is held to be the larger.
    draws, seed, bits
        As for `fit_test`.

    Returns
    -------
    TestResult
        The noisy statistic and its p-value.

    Raises
    ------
    InvalidParameter, MissingBound
        For arguments that cannot be used.

    Examples
    --------
    >>> import unacorda
    >>> result = t_test(
    ...     np.arange(1000) % 100,
    ...     50,
    ...     lower=0,
    ...     upper=100,
    ...     budget=unacorda.GDP(1),
    ...     bits=unacorda.SeededBits(1),
    ... )
    >>> 0.3 < result.p_value < 0.9
    True
    """
    simulation = Simulation(draws=draws, seed=seed, alternative=alternative)
    centre = checks.finite(mean=mean)
    low, high = public_range(lower, upper, of="x")
    groups = _Groups.of([x], lower=low, upper=high, budget=budget, bits=source_of(bits))
    middle, half = low + (high - low) / 2, (high - low) / 2
    null = (centre - middle) / half

    def statistic(first: Floats, variance: Floats) -> Floats:
        return np.asarray((first[..., 0] - null) / groups.errors(variance))

    return groups.result(statistic, simulation, centre=null)


def two_sample_t_test(
    x: ArrayLike,
    y: ArrayLike,
    *,
    lower: float,
    upper: float,
    budget: Guarantee,
    alternative: Alternative = "two-sided",
    draws: int = 9999,
    seed: int = 0,
    bits: RandomBits | None = None,
) -> TestResult:
    """Tests by Welch's t whether two groups of people have the same mean, with free variances.

    A replaced person changes one group only, so that each is released with the whole budget.

    Source: Welch 1947; noise as for `t_test`.

    Parameters
    ----------
    x, y
        Of different people, shapes (n,) and (m,); who belongs where is public.
    lower, upper, budget, alternative, draws, seed, bits
        As for `t_test`.

    Returns
    -------
    TestResult
        The noisy statistic and its p-value.

    Raises
    ------
    InvalidParameter
        For shapes, dtypes, bounds and budgets that cannot be used.
    MissingBound
        For a bound that is None.

    Examples
    --------
    >>> import unacorda
    >>> x = np.arange(1000) % 100
    >>> result = two_sample_t_test(
    ...     x, x / 2, lower=0, upper=100, budget=unacorda.GDP(1), bits=unacorda.SeededBits(1)
    ... )
    >>> result.p_value
    0.0002
    """
    simulation = Simulation(draws=draws, seed=seed, alternative=alternative)
    low, high = public_range(lower, upper, of="x")
    groups = _Groups.of([x, y], lower=low, upper=high, budget=budget, bits=source_of(bits))

    def statistic(first: Floats, variance: Floats) -> Floats:
        return np.asarray((first[..., 0] - first[..., 1]) / groups.errors(variance))

    return groups.result(statistic, simulation, centre=0.0)


def anova(
    groups: Sequence[ArrayLike],
    *,
    lower: float,
    upper: float,
    budget: Guarantee,
    draws: int = 9999,
    seed: int = 0,
    bits: RandomBits | None = None,
) -> TestResult:
    """Tests by Welch's analysis of variance whether groups of people have the same mean.

    The statistic is Welch's F: the squares of the distances of the released means from their
    weighted mean, each over its own squared standard error, noise counted. The null has the
    released deviation of each group.

    Source: Welch 1951; the null drawn as by Krishnamoorthy, Lu, Mathew 2007 (parametric bootstrap);
    noise after Campbell, Bray, Ritz, Groce 2018, arXiv:1711.01335.

    Parameters
    ----------
    groups
        Two or more columns, of different people; who belongs where is public. Their variances are
        free.
    lower, upper, budget, draws, seed, bits
        As for `t_test`.

    Returns
    -------
    TestResult
        The noisy statistic and its p-value.

    Raises
    ------
    InvalidParameter
        For shapes, dtypes, bounds and budgets that cannot be used.
    MissingBound
        For a bound that is None.

    Examples
    --------
    >>> import unacorda
    >>> x = np.arange(1000) % 100
    >>> result = anova(
    ...     [x, x, x + 10], lower=0, upper=110, budget=unacorda.GDP(1), bits=unacorda.SeededBits(1)
    ... )
    >>> result.p_value
    0.0001
    """
    simulation = Simulation(draws=draws, seed=seed, alternative="greater")
    low, high = public_range(lower, upper, of="groups")
    if not isinstance(groups, list | tuple) or len(groups) < 2:
        raise InvalidParameter("groups", type(groups).__name__, expected="a list of 2 or more")
    released = _Groups.of(groups, lower=low, upper=high, budget=budget, bits=source_of(bits))
    sizes, k = released.sizes, len(groups)

    def statistic(first: Floats, variance: Floats) -> Floats:
        weights = 1 / (np.maximum(variance, 0.0) / sizes + released.first_noise**2)
        whole = weights.sum(axis=-1, keepdims=True)
        middle = (weights * first).sum(axis=-1, keepdims=True) / whole
        between = (weights * (first - middle) ** 2).sum(axis=-1) / (k - 1)
        spread = ((1 - weights / whole) ** 2 / (sizes - 1)).sum(axis=-1)
        return np.asarray(between / (1 + 2 * (k - 2) / (k * k - 1) * spread))

    return released.result(statistic, simulation, centre=0.0)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Groups:
    """The released moments of each group, numbers of people, deviations of noise."""

    moments: list[Moments]
    sizes: Floats
    first_noise: Floats
    second_noise: Floats

    @staticmethod
    def of(
        columns: Sequence[ArrayLike],
        *,
        lower: float,
        upper: float,
        budget: Guarantee,
        bits: RandomBits,
    ) -> _Groups:
        checked = check_budget(budget)
        names = ["x", "y"] if len(columns) <= 2 else [f"groups[{i}]" for i in range(len(columns))]
        units = [
            unit_values(column(name, values, least=2), lower=lower, upper=upper)
            for name, values in zip(names, columns, strict=False)
        ]
        moments = [unit_moments(values, budget=checked, bits=bits) for values in units]
        return _Groups(
            moments=moments,
            sizes=np.array([float(released.n) for released in moments]),
            first_noise=np.array([released.first_noise for released in moments]),
            second_noise=np.array([released.second_noise for released in moments]),
        )

    def errors(self, variance: Floats) -> Floats:
        """Standard errors of a sum or difference of the groups' means."""
        sampling = np.maximum(variance, 0.0) @ (1 / self.sizes)
        return np.asarray(np.sqrt(sampling + (self.first_noise**2).sum()))

    def result(self, statistic: _Statistic, simulation: Simulation, *, centre: float) -> TestResult:
        """The statistic of the released moments, and how extreme it is under the null."""
        deviations = np.array([released.deviation for released in self.moments])
        noise = self.moments[0].noise

        def simulate(rng: np.random.Generator, size: int) -> Floats:
            shape = (size, self.sizes.size)
            means = rng.normal(centre, deviations / np.sqrt(self.sizes), shape)
            squares = deviations**2 * rng.chisquare(self.sizes - 1, shape) / self.sizes
            first = means + simulate_noise(noise, rng, shape, deviation=self.first_noise)
            second = squares + means**2
            second += simulate_noise(noise, rng, shape, deviation=self.second_noise)
            return statistic(first, self._variance(first, second))

        first = np.array([released.first for released in self.moments])
        second = np.array([released.second for released in self.moments])
        found = float(statistic(first, self._variance(first, second)))
        return simulation.result(found, simulate, samples="normal samples")

    def _variance(self, first: Floats, second: Floats) -> Floats:
        return np.asarray((second - first**2 + self.first_noise**2) * self.sizes / (self.sizes - 1))


_EXACT = 200
"""The most people for whom ranks are drawn; above, the statistic is drawn from its normal limit."""


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
    (noisy,) = release_numbers(noise, [int(exact * 2)], unit_log2=-1, bits=source_of(bits))
    found = simulation.noisy_result(noisy, noise, statistic=lambda sums: sums, draw=null)
    return dataclasses.replace(found, statistic=found.statistic / whole)


def _least_where_missing(argument: str, values: ArrayLike) -> Floats:
    given = column(argument, values)
    return np.where(np.isnan(given), -np.inf, given)
