"""Tests of counts: one proportion, two proportions, goodness of fit, independence of two columns.

The binomial test of one proportion is uniformly most powerful among private ones. Its count gets
Tulap noise: discrete Laplace noise plus a uniform number in [-1/2, 1/2); for a budget in Gaussian
DP it gets normal noise. Both are canonical for their guarantee: no private test of a one-sided
hypothesis has more power at any level. P-values are exact sums over the binomial distribution, so
an interval by inversion has at least the stated coverage.

The p-values of the other tests come from samples of the null hypothesis with fresh noise of the
same distribution. Ignoring the noise would reject true hypotheses far too often (11 % of the time
at a level of 5 %).
"""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import ndtr
from scipy.stats import binom

from unacorda import checks, elements
from unacorda.bits import RandomBits, source_of
from unacorda.checks import demand
from unacorda.errors import InvalidParameter
from unacorda.inference.hypothesis_tests import results
from unacorda.inference.hypothesis_tests.results import Alternative, check_alternative
from unacorda.inference.records import Floats, column, gdp_budget, shareable
from unacorda.inference.sums import noisy_counts
from unacorda.mechanisms.additive.integer import DiscreteLaplace
from unacorda.mechanisms.additive.real import Gaussian
from unacorda.numerics import bisect
from unacorda.privacy.estimates import Interval
from unacorda.privacy.guarantees import Guarantee, PureDP


@dataclass(frozen=True, slots=True, kw_only=True)
class BinomialTest:
    """Holds a released noisy count, with tests and intervals for the population share.

    Parameters
    ----------
    count
        With noise.
    n
        The number of people, public.
    epsilon
        Of Tulap noise; 0 for normal noise.
    sigma
        The standard deviation of normal noise; 0 for Tulap noise.

    Examples
    --------
    >>> tested = BinomialTest(count=622.3, n=1000, epsilon=1.0)
    >>> tested.p_value(0.5) < 1e-9, 0.5 < tested.p_value(0.62)
    (True, True)
    """

    count: float
    n: int
    epsilon: float = 0.0
    sigma: float = 0.0

    @property
    def estimate(self) -> float:
        """The unbiased share, not cut to [0, 1]."""
        return self.count / self.n

    def p_value(self, share: float, *, alternative: Alternative = "two-sided") -> float:
        """Returns the p-value of the null hypothesis of a share in the population.

        Exact for one side; for two sides twice the smaller, at most 1.

        Parameters
        ----------
        share
            Of the null hypothesis, from 0 to 1.
        alternative
            "greater" and "less" are one-sided.

        Returns
        -------
        float
            From 0 to 1.
        """
        check_alternative(alternative)
        proportion = _share(share)
        above = self._above(proportion)
        match alternative:
            case "greater":
                return above
            case "less":
                return 1 - above
            case "two-sided":
                return min(2 * min(above, 1 - above), 1.0)

    def interval(self, confidence: float = 0.95) -> Interval:
        """Returns the shares that a two-sided test at level 1 - confidence does not reject.

        Its coverage is at least this confidence for every share and n.

        Source: Clopper and Pearson 1934 (inversion); Awan and Slavkovic 2020, section 5.

        Parameters
        ----------
        confidence
            Strictly between 0 and 1.

        Returns
        -------
        Interval
            Ends from 0 to 1.
        """
        tail = (1 - checks.probability(confidence=confidence)) / 2
        # The chance of a count as large grows with the share.
        return Interval(self._where(tail), self._where(1 - tail))

    def _above(self, share: float) -> float:
        """P(X + N >= count), X binomial."""
        centre, reach = self.n * share, 12 * math.sqrt(self.n * share * (1 - share)) + 40
        counts = np.arange(
            max(math.floor(centre - reach), 0), min(math.ceil(centre + reach), self.n) + 1
        )
        weights = binom.pmf(counts, self.n, share)
        offs: Floats = (counts - self.count).astype(np.float64)
        law = ndtr(offs / self.sigma) if self.sigma else tulap_cdf(offs, epsilon=self.epsilon)
        return float(min(max(np.dot(weights, law), 0.0), 1.0))

    def _where(self, chance: float) -> float:
        """The share at which P(X + N >= count) is this: by halving, to 2^-40."""
        if self._above(0.0) >= chance:
            return 0.0
        if self._above(1.0) <= chance:
            return 1.0
        ends = bisect(lambda share: self._above(share) >= chance, 0.0, 1.0, rounds=40)
        return sum(ends) / 2


def binomial_test(
    x: ArrayLike, *, budget: Guarantee, bits: RandomBits | None = None
) -> BinomialTest:
    """Counts the people for whom x is true, with the noise that is best for tests.

    The noise is Tulap for pure guarantees, and for ApproxDP if it is smaller than normal noise;
    otherwise it is normal.

    Source: Awan and Slavkovic 2018, arXiv:1805.09236, Theorem 3.2 (uniformly most powerful); Awan
    and Vadhan 2023, arXiv:2108.04303 (normal noise is canonical for Gaussian DP).

    Parameters
    ----------
    x
        One number per person, shape (n,), true where it is neither 0 nor NaN; n is public.
    budget, bits
        As for `mean`.

    Returns
    -------
    BinomialTest
        The noisy count, from which every share can be tested.

    Raises
    ------
    InvalidParameter
        For shapes, dtypes and budgets that cannot be used.

    Examples
    --------
    >>> import unacorda
    >>> tested = binomial_test(
    ...     [True] * 620 + [False] * 380, budget=unacorda.PureDP(1), bits=unacorda.SeededBits(1)
    ... )
    >>> tested.p_value(0.5) < 1e-9, 0.5 < tested.p_value(0.62)
    (True, True)
    >>> [round(end, 2) for end in tested.interval(0.95)]
    [0.59, 0.65]
    """
    given = column("x", x)
    count = int(np.sum(~np.isnan(given) & (given != 0)))
    spent, source = shareable(budget, releases=1), source_of(bits)
    if isinstance(spent, PureDP):
        discrete = DiscreteLaplace.for_guarantee(spent, l1_sensitivity=1)
        whole = int(discrete.release(count, bits=source))
        uniform = (int(source.words(1)[0]) >> 11) * 2.0**-53 - 0.5
        epsilon = 1 / float(discrete.scale)
        return BinomialTest(count=whole + uniform, n=given.size, epsilon=epsilon)
    normal = Gaussian.for_guarantee(gdp_budget(spent), l2_sensitivity=Fraction(1))
    noisy = float(normal.release(count, bits=source))
    return BinomialTest(count=noisy, n=given.size, sigma=float(normal.sigma))


def binomial_power(
    share: float,
    *,
    null: float,
    n: int,
    budget: Guarantee,
    alternative: Alternative = "greater",
    alpha: float = 0.05,
) -> float:
    """Computes the power of the test of a null share if another share is true.

    It uses only public numbers: call it before spending. The smallest count that is rejected is
    found by bisection.

    Parameters
    ----------
    share
        The true share, from 0 to 1.
    null
        The share of the null hypothesis, from 0 to 1.
    n
        The number of people.
    budget
        Of the test, any guarantee.
    alternative
        Of the test.
    alpha
        The level of the test.

    Returns
    -------
    float
        The probability that the test rejects the null, from 0 to 1.

    Raises
    ------
    InvalidParameter
        For arguments that cannot be used.

    Examples
    --------
    >>> round(binomial_power(0.6, null=0.5, n=200, budget=PureDP(1)), 3)
    0.875
    """
    check_alternative(alternative)
    truth, level = _share(share), checks.probability(alpha=alpha)
    people, spent = checks.positive_integer(n=n), shareable(budget, releases=1)

    def test(count: float) -> BinomialTest:
        if isinstance(spent, PureDP):
            return BinomialTest(count=count, n=people, epsilon=float(spent.epsilon))
        sigma = 1 / math.sqrt(gdp_budget(spent).mu_squared)
        return BinomialTest(count=count, n=people, sigma=sigma)

    def beyond(chance: float) -> float:
        """The count that the null exceeds with this chance."""
        most = 64.0 * people + 1e6
        _, found = bisect(
            lambda count: test(count).p_value(null, alternative="greater") <= chance,
            -most,
            most,
            rounds=90,
        )
        return found

    power = 0.0
    one_side = level if alternative != "two-sided" else level / 2
    if alternative != "less":
        power += test(beyond(one_side)).p_value(truth, alternative="greater")
    if alternative != "greater":
        power += test(beyond(1 - one_side)).p_value(truth, alternative="less")
    return min(power, 1.0)


def tulap_cdf(x: Floats, *, epsilon: float) -> Floats:
    r"""P(N <= x) of Tulap noise: discrete Laplace of parameter b = e^-epsilon plus uniform.

    Statement   b^(-[x]) (b + (x - [x] + 1/2)(1 - b)) / (1 + b) for x <= 0, [x] the nearest whole
                number, and 1 minus that of -x above.
    Source      Awan and Slavkovic 2018, arXiv:1805.09236, Definition 3.1.

    >>> tulap_cdf(np.array([-0.5, 0.0, 0.5]), epsilon=1.0).round(3).tolist()
    [0.269, 0.5, 0.731]
    """
    below = -np.abs(x)
    whole = np.rint(below)
    b = math.exp(-epsilon)
    inner = b + (below - whole + 0.5) * -math.expm1(-epsilon)
    tail = np.exp(epsilon * whole) * inner / (1 + b)
    return np.where(np.asarray(x) <= 0, tail, 1 - tail)


def _share(value: float) -> float:
    share = checks.finite(share=value)
    checks.demand(0 <= share <= 1, "share", value, expected="from 0 to 1")
    return share


def fit_test(
    x: ArrayLike,
    *,
    shares: ArrayLike,
    budget: Guarantee,
    draws: int = 9999,
    seed: int = 0,
    bits: RandomBits | None = None,
) -> results.TestResult:
    r"""Tests by chi-square whether categories have the given shares.

    The statistic is the sum of (count - n share)^2 / (n share); the whole budget goes into the
    noisy counts. The level is exact: the null has no free parameters.

    Source: Gaboardi, Lim, Rogers, Vadhan 2016, arXiv:1602.03090, Algorithm 1 (Monte Carlo null).

    Parameters
    ----------
    x
        A category 0, ..., k - 1 per person, shape (n,) (others count as the first); n is public.
    shares
        Public, above 0, of each category, shape (k,); they are divided by their sum.
    budget
        Any guarantee, kept under the replacement of one row.
    draws
        Samples of the null hypothesis, 99 or more.
    seed
        Of these samples, public.
    bits
        Omit it for secure noise; `SeededBits` makes the result reproducible, and not private.

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
    >>> rolled = np.arange(600) % 6
    >>> fair = fit_test(rolled, shares=[1] * 6, budget=unacorda.GDP(1), bits=unacorda.SeededBits(1))
    >>> fair.p_value > 0.9
    True
    """
    weights = column("shares", shares, least=2)
    if not (np.isfinite(weights).all() and (weights > 0).all()):
        raise InvalidParameter("shares", shares, expected="finite numbers above 0")
    wanted = weights / weights.sum()
    simulation = results.Simulation(draws=draws, seed=seed, alternative="greater")
    cells, n = _categories("x", x, categories=wanted.size)
    counts, noise = noisy_counts(
        np.bincount(cells, minlength=wanted.size), budget=budget, bits=source_of(bits)
    )
    expected = n * wanted

    def statistic(table: Floats) -> Floats:
        return np.asarray(((table - expected) ** 2 / expected).sum(axis=-1))

    def draw(rng: np.random.Generator, size: int) -> Floats:
        return rng.multinomial(n, wanted, size).astype(np.float64)

    return simulation.noisy_result(counts, noise, statistic=statistic, draw=draw)


def independence_test(
    x: ArrayLike,
    y: ArrayLike,
    *,
    categories: tuple[int, int],
    budget: Guarantee,
    draws: int = 9999,
    seed: int = 0,
    bits: RandomBits | None = None,
) -> results.TestResult:
    """Tests by chi-square whether two columns of categories are independent.

    The null has free margins, which are estimated from the noisy table, at least half a person
    each.

    Source: Gaboardi, Lim, Rogers, Vadhan 2016, arXiv:1602.03090, Algorithm 3.

    Parameters
    ----------
    x, y
        Categories 0, 1, ... of each person, shape (n,) (others count as the first); n is public.
    categories
        How many x and y have, each from 2 to 10000.
    budget, draws, seed, bits
        As for `fit_test`.

    Returns
    -------
    TestResult
        The noisy statistic and its p-value.

    Raises
    ------
    InvalidParameter
        For shapes, dtypes, categories and budgets that cannot be used.

    Examples
    --------
    >>> import unacorda
    >>> x, y = np.arange(1200) % 3, np.arange(1200) % 4
    >>> result = independence_test(
    ...     x, y, categories=(3, 4), budget=unacorda.GDP(1), bits=unacorda.SeededBits(1)
    ... )
    >>> result.p_value > 0.5
    True
    """
    rows, columns = _sizes(categories)
    simulation = results.Simulation(draws=draws, seed=seed, alternative="greater")
    first, n = _categories("x", x, categories=rows)
    second, others = _categories("y", y, categories=columns)
    demand(others == n, "y", (others,), expected=f"as many people as in x, {n}")
    cells = np.bincount(first * columns + second, minlength=rows * columns)
    counts, noise = noisy_counts(cells, budget=budget, bits=source_of(bits))
    table = counts.reshape(rows, columns)

    def statistic(tables: Floats) -> Floats:
        down = np.maximum(tables.sum(axis=-1), 0.5)
        along = np.maximum(tables.sum(axis=-2), 0.5)
        whole = np.maximum(tables.sum(axis=(-1, -2)), 1.0)
        expected = down[..., :, None] * along[..., None, :] / whole[..., None, None]
        return np.asarray(((tables - expected) ** 2 / np.maximum(expected, 0.5)).sum(axis=(-1, -2)))

    down, along = np.maximum(table.sum(axis=1), 0.5), np.maximum(table.sum(axis=0), 0.5)
    null = (np.outer(down, along) / (down.sum() * along.sum())).reshape(-1)

    def draw(rng: np.random.Generator, size: int) -> Floats:
        drawn = rng.multinomial(n, null / null.sum(), size)
        return drawn.reshape(size, rows, columns).astype(np.float64)

    return simulation.noisy_result(table, noise, statistic=statistic, draw=draw)


def two_proportions_test(
    x: ArrayLike,
    y: ArrayLike,
    *,
    budget: Guarantee,
    alternative: results.Alternative = "two-sided",
    draws: int = 9999,
    seed: int = 0,
    bits: RandomBits | None = None,
) -> results.TestResult:
    """Tests whether two groups have the same share of true values.

    A replaced person changes one of the two counts by one, so each gets the noise of the whole
    budget. The statistic is the difference of the noisy shares over its deviation, including the
    noise. The common share under the null is estimated from both.

    Source: the pooled z-test with a parametric bootstrap (Davison and Hinkley 1997, section 4.4).

    Parameters
    ----------
    x, y
        Values of different people, true where neither 0 nor NaN. The sizes of the groups and their
        members are public.
    budget, draws, seed, bits
        As for `fit_test`.
    alternative
        "greater" tests for a larger share of x.

    Returns
    -------
    TestResult
        The noisy statistic and its p-value.

    Raises
    ------
    InvalidParameter
        For shapes, dtypes and budgets that cannot be used.

    Examples
    --------
    >>> import unacorda
    >>> x, y = [True] * 300 + [False] * 200, [True] * 250 + [False] * 250
    >>> result = two_proportions_test(x, y, budget=unacorda.GDP(1), bits=unacorda.SeededBits(1))
    >>> 0.0001 < result.p_value < 0.02
    True
    """
    simulation = results.Simulation(draws=draws, seed=seed, alternative=alternative)
    groups = [column("x", x), column("y", y)]
    sizes = np.array([group.size for group in groups], dtype=np.float64)
    exact = [int(np.sum(~np.isnan(group) & (group != 0))) for group in groups]
    counts, noise = noisy_counts(np.array(exact), moved=1, budget=budget, bits=source_of(bits))
    variance = noise.standard_deviation**2

    def statistic(pairs: Floats) -> Floats:
        shares = pairs / sizes
        pooled = np.clip(pairs.sum(axis=-1) / sizes.sum(), 0.5 / sizes.sum(), 1 - 0.5 / sizes.sum())
        spread = pooled * (1 - pooled) * (1 / sizes).sum() + variance * (1 / sizes**2).sum()
        return np.asarray((shares[..., 0] - shares[..., 1]) / np.sqrt(spread))

    common = float(np.clip(counts.sum() / sizes.sum(), 0.0, 1.0))

    def draw(rng: np.random.Generator, size: int) -> Floats:
        return rng.binomial(sizes.astype(np.int64), common, (size, 2)).astype(np.float64)

    return simulation.noisy_result(counts, noise, statistic=statistic, draw=draw)


def _categories(argument: str, x: ArrayLike, *, categories: int) -> tuple[NDArray[np.int64], int]:
    expected = f"one dimension of whole numbers from 0 to {categories - 1}"
    array = elements.integers(argument, x, dimensions=1, expected=expected)
    demand(array.ndim == 1 and array.size, argument, array.shape, expected=expected)
    whole = np.where((array >= 0) & (array < categories), array, 0)
    return whole.astype(np.int64), array.size


def _sizes(categories: Sequence[object]) -> tuple[int, int]:
    match categories:
        case [int(rows), int(columns)] if 2 <= rows <= 10**4 and 2 <= columns <= 10**4:
            return rows, columns
    raise InvalidParameter("categories", categories, expected="two whole numbers from 2 to 10000")
