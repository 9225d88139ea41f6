"""A batch never costs more than its request, priced by other means; and what exact pricing gains.

The independent price is a lower bound of the true one: the privacy profile of the mechanisms at one
pair of neighbors, by plain numerical convolution of their privacy losses on a fine grid. It is
within a few grid steps of the truth for that pair, so that a batch that spent more than its request
in earnest would be found.
"""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

import math
from fractions import Fraction
from typing import Any

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray
from scipy.special import ndtr
from tests.support.seams import Query, allocate, allocate_together, event_of
from tests.tiers import mostly_slow

import unacorda
from unacorda.accounting.accountant import epsilon, quick_epsilon
from unacorda.accounting.charges import charge
from unacorda.accounting.prices import approx_dp_price
from unacorda.privacy.events import (
    Composed,
    DiscreteGaussian,
    DiscreteLaplace,
    Event,
    Exponential,
    Gaussian,
    Laplace,
    Repeated,
    compose,
)

Floats = NDArray[np.float64]

STEP = 1 / 2_000


def singles(event: Event) -> list[Event]:
    """The mechanisms, one by one."""
    match event:
        case Composed(parts=parts):
            return [one for part in parts for one in singles(part)]
        case Repeated(event=one, count=count):
            return singles(one) * count
        case _:
            return [event]


def losses(event: Event) -> tuple[Floats, Floats]:
    """Privacy losses of one mechanism at a pair of neighbors, and their chances."""
    match event:
        case Gaussian():
            m = float(event.noise_multiplier)
            points = np.linspace(-9, 9, 40_001)
            edges = np.concatenate([[-np.inf], (points[1:] + points[:-1]) / 2, [np.inf]])
            return (points / m + 1 / (2 * m * m)), np.asarray(np.diff(ndtr(edges)))
        case Laplace():
            m = float(event.noise_multiplier)
            points = np.linspace(0, 1 / m, 4_001)
            middle = (points[1:] + points[:-1]) / 2
            inside = -0.5 * np.diff(np.exp(-points))
            chances = np.concatenate([[0.5], inside, [0.5 * math.exp(-1 / m)]])
            return np.concatenate([[1 / m], 1 / m - 2 * middle, [-1 / m]]), chances
        case DiscreteLaplace(scale=scale, sensitivity=sensitivity):
            t, d = float(scale), round(float(sensitivity))
            at = np.arange(-d - round(60 * t), d + round(60 * t) + 1)
            chances = np.exp(-np.abs(at) / t) * math.tanh(1 / (2 * t))
            return (np.abs(at - d) - np.abs(at)) / t, chances
        case Exponential(epsilon=e):
            # Two candidates, of which a unit moves the one: the odds go from 1 to e^epsilon.
            odds = math.exp(float(e) / 2)
            p, q = odds / (1 + odds), 1 / (1 + odds)
            return np.array([math.log(p / q), math.log(q / p)]), np.array([p, q])
        case _:
            raise AssertionError(event)


def profile(event: Event, at: float) -> float:
    """delta(epsilon) of the composition at that pair; losses are rounded down to the grid."""
    total, start = np.array([1.0]), 0
    for one in singles(event):
        values, chances = losses(one)
        places = np.floor(values / STEP).astype(np.int64)
        low = int(places.min())
        law = np.bincount(places - low, weights=chances)
        size = 1 << (len(total) + len(law) - 2).bit_length()
        total = np.fft.irfft(np.fft.rfft(total, size) * np.fft.rfft(law, size), size)
        total, start = np.maximum(total, 0.0), start + low
        used = np.flatnonzero(total > 1e-16)
        total, start = total[used[0] : used[-1] + 1], start + int(used[0])
    level = (start + np.arange(len(total))) * STEP
    above = level > at
    return float(np.sum(total[above] * -np.expm1(at - level[above])))


def table() -> Query:
    session = unacorda.Session(
        {"t": pd.DataFrame({"id": [1], "x": [1.0], "g": ["a"]})},
        unit=unacorda.Person("id", max_rows=2),
        budget=unacorda.PureDP(1),
    )
    with session:
        return session.table("t")


TABLE = table()
MAKERS: dict[str, Any] = {
    "count": lambda w: unacorda.count(weight=w),
    "mean": lambda w: unacorda.mean("x", 0, 10, weight=w),
    "median": lambda w: unacorda.median("x", 0, 10, resolution=0.2, weight=w),
    "interval": lambda w: unacorda.quantile(
        "x", "1/4", 0, 10, resolution=0.2, interval="1/2", weight=w
    ),
}


def asked(names: list[tuple[str, int]]) -> Query:
    return TABLE.agg(**{f"a{i}": MAKERS[name](w) for i, (name, w) in enumerate(names)})


members = st.lists(
    st.tuples(st.sampled_from(list(MAKERS)), st.integers(1, 3)), min_size=1, max_size=4
)


REQUESTS = [
    unacorda.ApproxDP(1, "1e-6"),
    unacorda.ApproxDP(3, "1e-3"),
    unacorda.ApproxDP("1/10", "1e-4"),
]


def check_price(
    batch: list[list[tuple[str, int]]], weights: list[int], request: unacorda.ApproxDP
) -> None:
    queries = [asked(names) for names in batch]
    parts = [Fraction(weight) for weight in weights[: len(queries)]]
    event = event_of(allocate_together(queries, request, weights=parts))
    assert charge(event, request, unacorda.ApproxDP(5, 0.1)) <= request
    assert profile(event, float(request.epsilon)) <= float(request.delta) * (1 + 1e-6)


@pytest.mark.slow
@pytest.mark.parametrize("request_", mostly_slow(REQUESTS[:2]), ids=str)
def test_a_mixed_batch_costs_no_more_than_its_request(request_: unacorda.ApproxDP) -> None:
    mixed = [[("median", 1), ("mean", 2)], [("interval", 1), ("median", 1)]]
    check_price(mixed, [1, 2], request_)
    once, again = (
        event_of(
            allocate_together(
                [asked(names) for names in mixed], request_, weights=[Fraction(1), Fraction(2)]
            )
        )
        for _ in range(2)
    )
    assert once == again  # a function of the question


@pytest.mark.slow
@settings(max_examples=25, deadline=None)
@given(
    batch=st.lists(members, min_size=1, max_size=3),
    weights=st.lists(st.integers(1, 5), min_size=3, max_size=3),
    request_=st.sampled_from(REQUESTS),
)
def test_no_batch_costs_more_than_its_request(
    batch: list[list[tuple[str, int]]], weights: list[int], request_: unacorda.ApproxDP
) -> None:
    check_price(batch, weights, request_)


@pytest.mark.long
def test_the_independent_price_finds_a_batch_that_spends_a_tenth_more() -> None:
    for names in ([("mean", 1)] * 12, [("mean", 2)] * 6 + [("count", 1)] * 8):
        request = unacorda.ApproxDP(1, "1e-3")
        event = allocate(asked(names), request).event
        louder = compose(
            [
                Gaussian(noise_multiplier=one.noise_multiplier / 1.1)
                for one in singles(event)
                if isinstance(one, Gaussian)
            ]
        )
        assert len(singles(louder)) == len(names)
        assert profile(event, 1.0) <= 1e-3 < profile(louder, 1.0)


@pytest.mark.long
@pytest.mark.parametrize(("epsilon_", "delta", "gain"), [("1", "1e-6", 1.15), ("3", "1e-3", 1.1)])
def test_ten_medians_gain_from_the_exact_price(epsilon_: str, delta: str, gain: float) -> None:
    """Beside the better of the two sums: of pure epsilons, of squared mus."""
    request = unacorda.ApproxDP(epsilon_, delta)
    query = asked([("median", 1)] * 10)
    found = float(min(noise.point.factor for noise in _noises(query, request)))
    for sum_ in (unacorda.PureDP(epsilon_), unacorda.GDP.within(request)):
        alone = float(max(noise.point.factor for noise in _noises(query, sum_)))
        assert found > gain * alone


def _noises(query: Query, request: Any) -> list[Any]:
    return list(allocate(query, request).noises.values())


def test_what_gains_nothing_spends_no_delta() -> None:
    request = unacorda.ApproxDP(1, "1e-9")
    for names in ([("count", 1)], [("median", 1)], [("count", 1), ("mean", 2)]):
        event = allocate(asked(names), request).event
        assert charge(event, request, unacorda.ApproxDP(5, 0.1)) == unacorda.ApproxDP(1, 0)


@pytest.mark.long
@pytest.mark.parametrize(
    "event",
    mostly_slow(
        [
            Exponential(epsilon=0.1) * 10,
            compose(
                [Exponential(epsilon=0.1), Exponential(epsilon=0.15), Laplace(noise_multiplier=5)]
            ),
            Gaussian(noise_multiplier=9) * 5 + Exponential(epsilon=0.1) * 2,
            Gaussian(noise_multiplier=2.0),
        ],
        quick=2,
    ),
    ids=str,
)
def test_the_quick_price_lies_a_little_above_the_full_one(event: Event) -> None:
    full = epsilon(event, delta=1e-6)
    assert full <= quick_epsilon(event, delta=1e-6) <= 1.05 * full
    assert profile(event, full) <= 1e-6


@pytest.mark.long
def test_the_quick_price_of_many_selections_is_no_higher_than_what_they_guarantee() -> None:
    """No pair has the worst profile in all of them: their concentration adds up to less."""
    many = compose(
        [
            *(Exponential(epsilon=Fraction(100 + k, 1000)) for k in range(20)),
            *(DiscreteGaussian(sigma=200 + k, sensitivity=1) for k in range(20)),
        ]
    )
    assert quick_epsilon(many, delta=1e-6) <= float(approx_dp_price(many, delta=1e-6).epsilon) * (
        1 + 1e-12
    )


def test_the_quick_price_of_nothing_and_of_what_has_none() -> None:
    assert quick_epsilon([], delta=0.1) == 0.0
    assert math.isinf(quick_epsilon(Gaussian(noise_multiplier=1), delta=0))
