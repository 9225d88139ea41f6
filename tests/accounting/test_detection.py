"""The share of members that the best test finds, against laws whose best test is known."""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

import itertools
import math
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from scipy.stats import norm
from tests.tiers import mostly_slow

from unacorda.accounting.accountant import priced, true_positive_rate
from unacorda.accounting.explanation import explain
from unacorda.errors import InvalidParameter, UnsupportedEvent
from unacorda.privacy.estimates import Interval
from unacorda.privacy.events import (
    Approximate,
    DiscreteLaplace,
    Event,
    Gaussian,
    Laplace,
    Pure,
    RandomizedResponse,
    ZeroConcentrated,
)
from unacorda.privacy.neighbors import ReplaceOne

RATES = (0.001, 0.01, 0.1, 0.5)


def by_neyman_pearson(pairs: list[tuple[float, float]], rate: float) -> float:
    """The power at this size of the best test of the second law against the first.

    pairs: the probabilities of each output under both laws.
    """
    power, left = 0.0, rate
    for null, other in sorted(pairs, key=lambda pair: -pair[1] / pair[0]):
        if null >= left:
            return power + other * left / null
        power, left = power + other, left - null
    return power


def holds(found: Interval, truth: float) -> bool:
    """Whether the interval holds the truth, but for its rounding, and is as narrow as it says."""
    return (
        found.lower <= truth * (1 + 1e-12)
        and truth <= found.upper * (1 + 1e-12)
        and found.width <= 1e-5 * found.upper
    )


@pytest.mark.parametrize("rate", RATES)
@pytest.mark.parametrize("count", [1, 3])
def test_randomized_response_by_enumeration(rate: float, count: int) -> None:
    keep = math.exp(0.7) / (1 + math.exp(0.7))
    one = [(keep, 1 - keep), (1 - keep, keep)]
    pairs = [
        (math.prod(pair[0] for pair in row), math.prod(pair[1] for pair in row))
        for row in itertools.product(one, repeat=count)
    ]
    found = true_positive_rate(RandomizedResponse(epsilon=0.7, categories=2) * count, fpr=rate)
    truth = by_neyman_pearson(pairs, rate)
    assert found.lower <= truth * (1 + 1e-12)
    assert truth <= found.upper * (1 + 1e-12)
    assert count > 1 or holds(found, truth)


@pytest.mark.long
@pytest.mark.parametrize("rate", mostly_slow(RATES, quick=2))
def test_geometric_noise_by_enumeration(rate: float) -> None:
    step = math.exp(-0.4)
    top = (1 - step) / (1 + step)
    pairs = [(top * step ** abs(k), top * step ** abs(k - 2)) for k in range(-300, 303)]
    event = DiscreteLaplace(scale=2.5, sensitivity=2)
    assert holds(true_positive_rate(event, fpr=rate), by_neyman_pearson(pairs, rate))


@pytest.mark.parametrize("rate", RATES)
def test_laplace_noise_by_its_formula(rate: float) -> None:
    """The test takes large outputs: P(L > t) = rate, and the power is P(L > t - shift)."""
    shift = 1 / 0.8

    def above(t: float) -> float:
        return math.exp(-t) / 2 if t >= 0 else 1 - math.exp(t) / 2

    t = -math.log(2 * rate)
    assert holds(true_positive_rate(Laplace(noise_multiplier=0.8), fpr=rate), above(t - shift))


@pytest.mark.parametrize("rate", RATES)
def test_gaussian_noise_by_its_formula(rate: float) -> None:
    found = true_positive_rate(Gaussian(noise_multiplier=2) * 9, fpr=rate)
    truth = float(norm.cdf(norm.ppf(rate) + 1.5))
    assert found.lower <= truth * (1 + 1e-12)
    assert found.upper == pytest.approx(truth, rel=1e-12)


@pytest.mark.long
@pytest.mark.parametrize("rate", mostly_slow(RATES, quick=2))
def test_a_sample_is_bounded_by_its_profile_and_no_test_beats_it(rate: float) -> None:
    """One Gaussian step on a sample, whose likelihood ratio rises: thresholds are the best tests.

    The profile is that of the harder order at each epsilon, so the best test may fall short.
    """
    noise, share = 0.7, 0.2
    found = true_positive_rate(
        Gaussian(noise_multiplier=noise).poisson_sampled(rate=share), fpr=rate
    )
    slopes = np.exp(np.linspace(-4, 4, 80_001))
    plain = norm(scale=noise)

    def mixed(x: Any) -> Any:
        return (1 - share) * plain.cdf(x) + share * plain.cdf(x - 1)

    def place(ratio: Any) -> Any:
        """Where the mixture is `ratio` times as likely as the plain law."""
        inside = np.maximum((ratio - 1 + share) / share, 1e-300)
        return noise**2 * np.log(inside) + 0.5

    above = place(slopes)
    added = (1 - mixed(above)) - slopes * plain.sf(above)
    below = place(1 / slopes)
    removed = plain.cdf(below) - slopes * mixed(below)
    bound = float(np.min(slopes * rate + np.maximum(added, removed)))
    assert bound * (1 - 1e-6) <= found.upper <= bound * (1 + 1e-6)
    t = plain.isf(rate)
    best = (1 - share) * rate + share * plain.sf(t - 1)
    assert 0 <= found.lower <= best <= found.upper


@pytest.mark.long
def test_the_ends() -> None:
    for event in (Pure(epsilon=1), Gaussian(noise_multiplier=1), Laplace(noise_multiplier=1) * 3):
        assert true_positive_rate(event, fpr=0).upper < 2e-9
        assert true_positive_rate(event, fpr=1) == pytest.approx((1, 1))
    assert true_positive_rate([], fpr=Fraction(1, 4)) == pytest.approx((0.25, 0.25))
    found = true_positive_rate(Approximate(epsilon=0, delta=0.25), fpr=0.5)
    assert found == pytest.approx((0.75, 0.75))


@pytest.mark.parametrize("fpr", [-0.1, 1.1, math.nan, math.inf, True, None, "x", [0.1]])
def test_wrong_rates_are_refused(fpr: float) -> None:
    with pytest.raises(InvalidParameter, match="fpr"):
        true_positive_rate(Pure(epsilon=1), fpr=fpr)


@pytest.mark.parametrize(
    "event",
    [
        Gaussian(noise_multiplier=1),
        Gaussian(noise_multiplier=1).poisson_sampled(rate=0.1) * 10,
        Laplace(noise_multiplier=2) + ZeroConcentrated(rho=0.1),
        Pure(epsilon=0),
    ],
    ids=["gaussian", "sampled", "sum", "nothing"],
)
def test_an_answer_is_the_meeting_of_its_findings(event: Event) -> None:
    for interval, found in (priced(event, delta=1e-6), priced(event, epsilon=0.5)):
        assert found
        assert interval.upper == min(one.interval.upper for one in found)
        assert interval.lower == max(one.interval.lower for one in found)


def test_an_answer_is_about_one_number() -> None:
    with pytest.raises(InvalidParameter, match="one of delta and epsilon"):
        priced(Pure(epsilon=1))
    with pytest.raises(InvalidParameter, match="one of delta and epsilon"):
        priced(Pure(epsilon=1), delta=1e-6, epsilon=1)
    assert priced([], delta=0.1) == (Interval(0.0, 0.0), ())


def test_explanations_take_several_events_and_none() -> None:
    several: list[Event] = [Pure(epsilon=1), Laplace(noise_multiplier=2), Pure(epsilon=1)]
    found = explain(several, delta=0)
    assert [(line.count, line.event) for line in found.parts] == [
        (2, Pure(epsilon=1)),
        (1, Laplace(noise_multiplier=2)),
    ]
    assert found.pure == 2.5
    plain = found.to_dict()
    assert plain["parts"][0]["event"] == {"event": "Pure", "epsilon": 1}
    assert plain["found"][0]["upper"] == 2.5
    nothing = explain([], delta=1e-6, neighbors=ReplaceOne)
    assert (nothing.parts, nothing.pure, nothing.found) == ((), 0.0, ())
    assert "Pure epsilon of the whole: 0" in str(nothing)
    with pytest.raises(InvalidParameter, match="events"):
        explain(3)  # type: ignore[arg-type]  # what a caller may do
    with pytest.raises((InvalidParameter, UnsupportedEvent)):
        explain(Pure(epsilon=1), neighbors="add")  # type: ignore[arg-type]  # likewise
