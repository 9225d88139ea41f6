"""Certified intervals that do not meet: no answer is given, in every build."""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

import itertools
import math
import subprocess
import sys
from collections.abc import Callable
from fractions import Fraction

import pytest
from tests.support.cases import in_subtests
from tests.tiers import mostly_slow

from unacorda.accounting import accountant
from unacorda.accounting.findings import CertifiedInterval, Findings, PriceQuestion
from unacorda.errors import InternalError
from unacorda.privacy.estimates import Interval
from unacorda.privacy.events import (
    Approximate,
    DiscreteGaussian,
    DiscreteLaplace,
    Event,
    Exponential,
    Gaussian,
    Laplace,
    Pure,
    RandomizedResponse,
    Staircase,
    TruncatedLaplace,
    ZeroConcentrated,
)
from unacorda.privacy.neighbors import AddRemove, Neighbors, ReplaceOne, ZeroOut

EVENT = Gaussian(noise_multiplier=1.0)


def _claims(*intervals: tuple[float, float]) -> Callable[..., Findings]:
    def found(*_: object, **__: object) -> Findings:
        for number, (lower, upper) in enumerate(intervals):
            yield CertifiedInterval(
                engine=f"engine {number}", interval=Interval(lower, upper), source="none"
            )

    return found


@in_subtests(
    "ask",
    [
        lambda: accountant.epsilon_interval(EVENT, delta=1e-6),
        lambda: accountant.epsilon(EVENT, delta=1e-6),
        lambda: accountant.quick_epsilon(EVENT, delta=1e-6),
        lambda: accountant.priced(EVENT, delta=1e-6),
        lambda: accountant.delta_interval(EVENT, epsilon=1),
        lambda: accountant.delta(EVENT, epsilon=1),
        lambda: accountant.priced(EVENT, epsilon=1),
    ],
)
@in_subtests(
    "claims",
    [
        [(0.2, 0.3), (0.4, 0.5)],
        [(0.4, 0.5), (0.2, 0.3)],
        [(0.2, math.nextafter(0.3, 0)), (0.3, 1.0)],
        [(0.1, 0.9), (0.2, 0.3), (0.31, 0.32)],
    ],
)
def test_what_contradicts_itself_is_no_answer(
    ask: Callable[[], object], claims: list[tuple[float, float]], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(PriceQuestion, "findings", _claims(*claims))
    with pytest.raises(InternalError, match=r"at least .* at most .*report"):
        ask()


def test_a_delta_above_one_is_a_contradiction(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(PriceQuestion, "findings", _claims((1.5, 2.0)))
    with pytest.raises(InternalError, match="the range of all answers"):
        accountant.delta(EVENT, epsilon=1)


@pytest.mark.long
def test_it_is_told_also_where_asserts_are_left_out() -> None:
    program = """
from unacorda.accounting.findings import Meeting
from unacorda.errors import InternalError
from unacorda.privacy.estimates import Interval
from unacorda.privacy.events import Pure
meeting = Meeting(Pure(epsilon=1), "epsilon")
meeting.add("one", Interval(0.0, 1.0))
try:
    meeting.add("other", Interval(2.0, 3.0))
except InternalError:
    print("told", __debug__)
"""
    done = subprocess.run(
        [sys.executable, "-O", "-c", program], capture_output=True, text=True, check=True
    )
    assert done.stdout == "told False\n"


ALONE: list[Event] = [
    Gaussian(noise_multiplier=0.7),
    Laplace(noise_multiplier=1.3),
    DiscreteGaussian(sigma=2, sensitivity=1),
    DiscreteLaplace(scale=2, sensitivity=1),
    Exponential(epsilon=0.8),
    Pure(epsilon=0.8),
    Approximate(epsilon=0.8, delta=1e-7),
    ZeroConcentrated(rho=0.1),
    RandomizedResponse(epsilon=1, categories=3),
    Staircase(epsilon=1, split=0.3),
    TruncatedLaplace(noise_multiplier=1, bound=20),
]
SAMPLED: list[Event] = [one.poisson_sampled(rate=rate) for one in ALONE for rate in (0.02, 0.5)]
COPIES = (1, 2, 7, 100)


def _compatible(event: Event, neighbors: Neighbors) -> None:
    """Every pair of findings, also of engines that an answer would not have waited for."""
    for limit in (Fraction(1, 10**4), Fraction(1, 10**8)):
        found = accountant.findings(event, delta=limit, neighbors=neighbors)
        for one, other in itertools.combinations(found, 2):
            assert one.interval.lower <= other.interval.upper, (event, one, other)
            assert other.interval.lower <= one.interval.upper, (event, one, other)
    for epsilon in (0.1, 1.5):
        accountant.delta_interval(event, epsilon=epsilon, neighbors=neighbors)


@pytest.mark.long
@pytest.mark.parametrize(
    "event", mostly_slow([ALONE[0], SAMPLED[0], ALONE[6], SAMPLED[12], ALONE[4]], quick=2)
)
def test_the_engines_agree(event: Event) -> None:
    for neighbors, count in ((AddRemove, 1), (AddRemove, 7), (ReplaceOne, 2)):
        _compatible(event * count, neighbors)


@pytest.mark.slow
@pytest.mark.parametrize("count", COPIES)
@pytest.mark.parametrize("neighbors", [AddRemove, ReplaceOne, ZeroOut])
@pytest.mark.parametrize("event", ALONE + SAMPLED, ids=repr)
def test_the_engines_agree_on_every_event(event: Event, neighbors: Neighbors, count: int) -> None:
    _compatible(event * count, neighbors)
