"""Tests of means: one sample, two samples, several groups (analysis of variance).

Each group releases its mean and its square at the price of the mean alone. The p-values come from
normal samples with the released deviation, to which noise of the same law is added.
"""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
from numpy.typing import ArrayLike

from unacorda import checks
from unacorda.bits import RandomBits, source_of
from unacorda.errors import InvalidParameter
from unacorda.inference.budgets import check_budget
from unacorda.inference.estimates.means import Moments, unit_moments
from unacorda.inference.hypothesis_tests.results import (
    Alternative,
    Simulation,
    TestResult,
    simulate_noise,
)
from unacorda.inference.records import Floats, column, public_range, unit_values
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
