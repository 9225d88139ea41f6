"""Results of hypothesis tests, and p-values by simulation of sample and noise together."""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final, Literal, TypeAlias

import numpy as np

from unacorda import checks
from unacorda.errors import InvalidParameter
from unacorda.inference.records import Floats
from unacorda.mechanisms.additive.real import Gaussian, Laplace

Alternative: TypeAlias = Literal["two-sided", "less", "greater"]
"""Departures from the null hypothesis that count."""

_ALTERNATIVES: Final = ("two-sided", "less", "greater")


@dataclass(frozen=True, slots=True, kw_only=True)
class TestResult:
    """Holds the outcome of a test: a function of released values and public numbers.

    Parameters
    ----------
    statistic
        Released, with noise.
    p_value
        From 0 to 1.
    method
        The null distribution that the p-value comes from, in words.

    Examples
    --------
    >>> TestResult(statistic=3.0, p_value=0.01, method="normal").rejects()
    True
    """

    __test__ = False  # pytest: no test class

    statistic: float
    p_value: float
    method: str

    def rejects(self, alpha: float = 0.05) -> bool:
        """Returns True if the null hypothesis is rejected at a level.

        Parameters
        ----------
        alpha
            The level, strictly between 0 and 1.

        Examples
        --------
        >>> TestResult(statistic=3.0, p_value=0.01, method="").rejects()
        True
        """
        return self.p_value <= checks.probability(alpha=alpha)


@dataclass(frozen=True, slots=True, kw_only=True)
class Power:
    """Holds the power of a test at one effect.

    Parameters
    ----------
    effect
        In the unit that the caller gave.
    rate
        Of rejections over repetitions.
    standard_error
        Of the rate.

    Examples
    --------
    >>> Power(effect=0.5, rate=0.8, standard_error=0.03).rate
    0.8
    """

    effect: float
    rate: float
    standard_error: float


def power_curve(
    test: Callable[[float, np.random.Generator], TestResult],
    effects: Sequence[float],
    *,
    alpha: float = 0.05,
    repetitions: int = 200,
    seed: int = 0,
) -> list[Power]:
    """Estimates the power of a test from made-up samples with given effects.

    Made-up data alone are tested, so that it costs nothing and can be done beforehand.

    Parameters
    ----------
    test
        Draws a sample with the effect from the generator, and returns the result of the test. Draw
        the seed of the test's null too: one null of 199 draws for all samples would put the rate at
        effect 0 two points off alpha, one drawn for each leaves it there.
    effects
        The effects that `test` is called with.
    alpha
        The level of the test.
    repetitions
        Samples per effect.
    seed
        Of the generator, public.

    Returns
    -------
    list of Power
        One per effect.

    Raises
    ------
    InvalidParameter
        For arguments that cannot be used.

    Examples
    --------
    >>> from unacorda import GDP
    >>> from unacorda.inference import t_test
    >>> def test(effect, rng):
    ...     x = rng.normal(effect, 1, 500)
    ...     null = int(rng.integers(2**32))
    ...     return t_test(x, 0, lower=-5, upper=5, budget=GDP(1), draws=199, seed=null)
    >>> [power.rate for power in power_curve(test, [0.0, 0.5], repetitions=20)][1]
    1.0
    """
    level, times = checks.probability(alpha=alpha), checks.positive_integer(repetitions=repetitions)
    checks.demand(callable(test), "test", test, expected="a function of an effect and a generator")

    def refuses(effect: float, rng: np.random.Generator) -> bool:
        result = test(effect, rng)
        if not hasattr(result, "rejects"):
            kind = type(result).__name__
            raise InvalidParameter("test", kind, expected="one that returns a TestResult")
        return result.rejects(level)

    powers = []
    for place, effect in enumerate(effects):
        rng = np.random.default_rng([seed, place])
        rate = sum(refuses(effect, rng) for _ in range(times)) / times
        # Agresti and Coull: never 0, also where all or none were refused.
        shrunk = (rate * times + 2) / (times + 4)
        error = math.sqrt(shrunk * (1 - shrunk) / (times + 4))
        powers.append(Power(effect=float(effect), rate=rate, standard_error=error))
    return powers


def check_alternative(alternative: object) -> None:
    """Checks the name of an alternative."""
    checks.choice(_ALTERNATIVES, alternative=alternative)


@dataclass(frozen=True, slots=True, kw_only=True)
class Simulation:
    """P-values from samples of the null hypothesis, noise included.

    draws: how many samples, 99 or more, so that levels of 1 % make sense; seed: public, as nothing
    of the protection of data depends on it; alternative: of `Alternative`.
    Where the null has no free parameters the level is exact, whatever the number of draws.
    Source: Davison and Hinkley 1997, section 4.2.

    >>> simulation = Simulation(draws=999, seed=1, alternative="greater")
    >>> simulation.result(9.0, lambda rng, size: rng.normal(size=size)).p_value
    0.001
    """

    draws: int
    seed: int
    alternative: Alternative

    def __post_init__(self) -> None:
        check_alternative(self.alternative)
        if checks.positive_integer(draws=self.draws) < 99:
            raise InvalidParameter("draws", self.draws, expected="99 or more")

    def noisy_result(
        self,
        released: Floats,
        noise: Gaussian | Laplace,
        *,
        statistic: Callable[[Floats], Floats],
        draw: Callable[[np.random.Generator, int], Floats],
    ) -> TestResult:
        """The `result` of a statistic of released numbers.

        draw: so many samples of these under the null hypothesis, to which noise is added.
        """

        def simulate(rng: np.random.Generator, size: int) -> Floats:
            drawn = draw(rng, size)
            return statistic(drawn + simulate_noise(noise, rng, drawn.shape))

        return self.result(float(statistic(released)), simulate)

    def result(
        self,
        statistic: float,
        simulate: Callable[[np.random.Generator, int], Floats],
        *,
        samples: str = "samples",
    ) -> TestResult:
        """(1 + how many simulated statistics are at least as extreme) / (draws + 1), as a result.

        simulate: statistics of so many samples of the null hypothesis, noise included.
        """
        null = simulate(np.random.default_rng(self.seed), self.draws)
        above = (1 + int(np.sum(null >= statistic))) / (null.size + 1)
        below = (1 + int(np.sum(null <= statistic))) / (null.size + 1)
        sides = {"greater": above, "less": below, "two-sided": min(2 * min(above, below), 1.0)}
        return TestResult(
            statistic=statistic,
            p_value=sides[self.alternative],
            method=f"{self.draws} {samples} of the null hypothesis, noise included",
        )


def simulate_noise(
    noise: Gaussian | Laplace,
    rng: np.random.Generator,
    shape: int | tuple[int, ...],
    *,
    deviation: float | Floats | None = None,
) -> Floats:
    """Draws noise of this law for simulated samples; it protects nothing.

    deviation: in place of that of the noise.
    """
    wide = noise.standard_deviation if deviation is None else deviation
    if isinstance(noise, Laplace):
        return np.asarray(rng.laplace(0.0, wide / math.sqrt(2), shape))
    return np.asarray(rng.normal(0.0, wide, shape))
