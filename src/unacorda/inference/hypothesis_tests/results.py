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

__all__ = [
    "Alternative",
    "Power",
    "TestResult",
    "check_alternative",
    "check_simulation",
    "power_curve",
    "simulate_noise",
    "simulated_p_value",
    "simulated_result",
]

Alternative: TypeAlias = Literal["two-sided", "less", "greater"]
"""Departures from the null hypothesis that count."""

_ALTERNATIVES: Final = ("two-sided", "less", "greater")


@dataclass(frozen=True, slots=True, kw_only=True)
class TestResult:
    """A test's outcome. statistic: released, with noise; p_value: from 0 to 1.

    method: which null distribution the p-value comes from, in words. Everything is a function of
    released values and public numbers.
    """

    __test__ = False  # pytest: no test class

    statistic: float
    p_value: float
    method: str

    def rejects(self, alpha: float = 0.05) -> bool:
        """True if the null hypothesis is rejected at this level.

        >>> TestResult(statistic=3.0, p_value=0.01, method="").rejects()
        True
        """
        return self.p_value <= checks.probability(alpha=alpha)


@dataclass(frozen=True, slots=True, kw_only=True)
class Power:
    """Power of a test: effect, rate of rejections over repetitions, the rate's standard error."""

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
    """Estimates the power of a test at level alpha from made-up samples with these effects.

    test: draws a sample with the effect from the generator, asks the test and hands back its
    result. It speaks of made-up data only, so that it costs nothing and can be asked beforehand.
    Draw the seed of the test's null too: one null of 199 draws for all samples would put the rate
    at effect 0 two points beside alpha, one drawn for each leaves it there.
    Raises InvalidParameter for arguments that cannot be used.

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
    if not callable(test):
        raise InvalidParameter("test", test, expected="a function of an effect and a generator")

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
    if alternative not in _ALTERNATIVES:
        raise InvalidParameter(
            "alternative", alternative, expected=f"one of {', '.join(_ALTERNATIVES)}"
        )


def check_simulation(draws: int, alternative: object = "two-sided") -> None:
    """Checks an alternative, and for 99 samples or more, so that levels of 1 % make sense."""
    check_alternative(alternative)
    if checks.positive_integer(draws=draws) < 99:
        raise InvalidParameter("draws", draws, expected="99 or more")


def simulate_noise(
    rng: np.random.Generator,
    shape: int | tuple[int, ...],
    *,
    law: Literal["normal", "laplace"],
    deviation: float | Floats,
) -> Floats:
    """Draws noise for simulated samples. It protects nothing."""
    if law == "laplace":
        return np.asarray(rng.laplace(0.0, deviation / math.sqrt(2), shape))
    return np.asarray(rng.normal(0.0, deviation, shape))


def simulated_result(
    statistic: float,
    simulate: Callable[[np.random.Generator, int], Floats],
    *,
    draws: int,
    seed: int,
    alternative: Alternative = "greater",
    samples: str = "samples",
) -> TestResult:
    """Adds the `simulated_p_value` to a released statistic."""
    return TestResult(
        statistic=statistic,
        p_value=simulated_p_value(
            statistic, simulate, draws=draws, seed=seed, alternative=alternative
        ),
        method=f"{draws} {samples} of the null hypothesis, noise included",
    )


def simulated_p_value(
    statistic: float,
    simulate: Callable[[np.random.Generator, int], Floats],
    *,
    draws: int,
    seed: int,
    alternative: Alternative = "greater",
) -> float:
    """(1 + how many simulated statistics are at least as extreme) / (draws + 1).

    simulate: statistics of so many samples of the null hypothesis, noise included. Where the null
    has no free parameters the level is exact, whatever the number of draws. The seed is public:
    nothing of the data's protection hangs on it.
    Source: Davison and Hinkley 1997, section 4.2.

    >>> simulated_p_value(9.0, lambda rng, size: rng.normal(size=size), draws=999, seed=1)
    0.001
    """
    null = simulate(np.random.default_rng(seed), draws)
    above = (1 + int(np.sum(null >= statistic))) / (null.size + 1)
    below = (1 + int(np.sum(null <= statistic))) / (null.size + 1)
    match alternative:
        case "greater":
            return above
        case "less":
            return below
        case "two-sided":
            return min(2 * min(above, below), 1.0)
