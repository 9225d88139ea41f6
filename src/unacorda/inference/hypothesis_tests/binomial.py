r"""The binomial test: uniformly most powerful among private tests of one proportion.

The count gets Tulap noise: discrete Laplace noise plus a uniform number in [-1/2, 1/2). For a
budget in Gaussian DP it gets normal noise. Both are canonical for their guarantee: no private test
of a one-sided hypothesis has more power at any level. P-values are exact sums over the binomial
distribution, so an interval by inversion has at least the stated coverage.
"""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import ndtr
from scipy.stats import binom

from unacorda import checks
from unacorda.bits import RandomBits, source_of
from unacorda.inference.budgets import gdp_budget, shareable
from unacorda.inference.hypothesis_tests.results import Alternative, check_alternative
from unacorda.inference.records import Floats, column
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
