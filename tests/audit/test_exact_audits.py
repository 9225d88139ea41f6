"""Hockey-stick curves of laws that can be listed, against closed forms and the accountant."""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

import itertools
import math
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from unacorda import GDP, ZCDP, ApproxDP, PureDP, RenyiDP, accounting
from unacorda.audit import HockeyStick, exact
from unacorda.errors import InvalidParameter
from unacorda.privacy import events
from unacorda.privacy.guarantees import Guarantee


def response(epsilon: float, categories: int) -> Any:
    weight = math.exp(epsilon)
    whole = weight + categories - 1

    def law(value: int) -> dict[int, float]:
        return {k: (weight if k == value else 1.0) / whole for k in range(categories)}

    return law


def geometric(epsilon: float, reach: int) -> Any:
    """Two-sided geometric noise on a count, listed as far as `reach`."""
    step = math.exp(-epsilon)

    def law(value: int) -> dict[int, float]:
        return {
            value + k: (1 - step) / (1 + step) * step ** abs(k) for k in range(-reach, reach + 1)
        }

    return law


@pytest.mark.parametrize("categories", [2, 5])
@pytest.mark.parametrize("epsilon", [0.1, 1.0, 3.0])
def test_randomised_response(epsilon: float, categories: int) -> None:
    curve = exact(response(epsilon, categories), 0, 1)
    assert curve.epsilon() == pytest.approx(epsilon, abs=1e-9)
    assert curve.epsilon() >= epsilon - 1e-14
    event = events.RandomizedResponse(epsilon=epsilon, categories=categories)
    for at in (0.0, epsilon / 2, epsilon):
        interval = accounting.delta_interval(event, epsilon=at)
        assert interval.lower - 1e-12 <= curve.delta(at) <= interval.upper + 1e-9
    assert not curve.violates(PureDP(epsilon))
    assert curve.violates(PureDP(epsilon * 0.99))


def test_noise_without_end_is_cut_and_the_rest_counts() -> None:
    curve = exact(geometric(0.5, 60), 3, 4)
    tail = 2 * math.exp(-0.5 * 61) / (1 + math.exp(-0.5))
    assert curve.rest == pytest.approx(tail, rel=1e-3)
    # The last outputs are listed of one law alone, so that delta 0 is out of reach.
    assert curve.epsilon() == math.inf
    assert curve.epsilon(1e-10) == pytest.approx(0.5, abs=1e-6)
    assert not curve.violates(ApproxDP(0.5, 1e-12))
    assert curve.violates(ApproxDP(0.4, 1e-6))


def listed_about_nothing(epsilon: float, reach: int) -> Any:
    """The same noise, listed at the same outputs whatever the count."""

    def law(value: int) -> dict[int, float]:
        whole = geometric(epsilon, reach + abs(value))(value)
        return {k: whole[k] for k in range(-reach, reach + 1)}

    return law


@pytest.mark.parametrize("made", [geometric, listed_about_nothing])
@pytest.mark.parametrize("reach", [5, 10, 24, 40])
def test_what_is_left_out_accuses_nobody(made: Any, reach: int) -> None:
    # Geometric noise of epsilon 1 keeps all of these; its divergence of order 2 is 0.7353.
    curve = exact(made(1.0, reach), 0, 1)
    mu = 2 * float(stats.norm.ppf(math.e / (1 + math.e)))
    kept: list[Guarantee] = [PureDP(1), ApproxDP(1, 1e-12), ZCDP(0.5), RenyiDP(2.0, 0.736), GDP(mu)]
    assert not any(curve.violates(promise) for promise in kept)
    broken: list[Guarantee] = [
        PureDP("0.8"),
        ApproxDP("0.8", 1e-3),
        ZCDP(0.2),
        RenyiDP(2.0, 0.6),
        GDP(0.8),
    ]
    assert all(curve.violates(promise) for promise in broken)


def test_an_output_of_one_law_alone_breaks_what_it_must() -> None:
    curve = exact(lambda x: {"a": 1 - 1e-6 * x, "b": 1e-6 * x}, 0, 1)
    promises: list[Guarantee] = [PureDP(5), ApproxDP(1, 5e-7), ZCDP(1), RenyiDP(8.0, 3.0), GDP(1)]
    assert all(curve.violates(promise) for promise in promises)
    assert not curve.violates(ApproxDP(0, 1.1e-6))


def test_both_directions_count() -> None:
    def law(value: int) -> dict[str, Fraction]:
        if value:
            return {"a": Fraction(1, 2), "b": Fraction(1, 2)}
        return {"a": Fraction(1, 100), "b": Fraction(99, 100)}

    assert exact(law, 0, 1).epsilon() == pytest.approx(math.log(50))
    assert exact(law, 1, 0).epsilon() == pytest.approx(math.log(50))
    assert exact(law, 0, 1).delta(0.0) == pytest.approx(0.49)


@pytest.mark.long
@given(
    masses=st.lists(st.tuples(st.integers(0, 20), st.integers(0, 20)), min_size=1, max_size=7),
    epsilon=st.floats(0, 4),
    delta=st.floats(0, 0.9),
)
def test_every_event_is_tried(masses: list[tuple[int, int]], epsilon: float, delta: float) -> None:
    tops = [sum(part[k] for part in masses) for k in (0, 1)]
    if not all(tops):
        return
    p, q = ([Fraction(part[k], tops[k]) for part in masses] for k in (0, 1))
    curve = exact(lambda x: dict(enumerate((p, q)[x])), 0, 1)
    # The worst of all 2^outputs events, in both directions.
    factor = Fraction(math.exp(epsilon))
    worst = max(
        sum((first[k] - factor * second[k] for k in event), Fraction())
        for first, second in ((p, q), (q, p))
        for size in range(len(p) + 1)
        for event in itertools.combinations(range(len(p)), size)
    )
    assert curve.delta(epsilon) == pytest.approx(float(worst), abs=1e-11)
    assert curve.delta(epsilon) >= float(worst) - 1e-15
    found = curve.epsilon(delta)
    if math.isfinite(found):
        assert curve.delta(found) <= delta + 1e-9
        if found > 1e-6:
            assert curve.delta(found - 1e-6) >= delta - 1e-9
    else:
        assert curve.delta(700.0) > delta


@pytest.mark.parametrize("seed", range(8))
def test_epsilon_is_no_less_where_delta_is_nearly_all_of_an_event(seed: int) -> None:
    drawn = np.random.default_rng(seed)
    p, q = drawn.random(6) / 6, drawn.random(6) * 1e-12
    delta = math.fsum(p) * (1 - 1e-11)
    curve = HockeyStick(np.append(p, 1 - p.sum()), np.append(q, 1 - q.sum()))
    left = sum(map(Fraction, p.tolist())) - Fraction(delta)
    truth = math.log(left / sum(map(Fraction, q.tolist())))
    assert truth <= curve.epsilon(delta) <= truth + 1e-11


@pytest.mark.long
def test_divergences_of_other_promises() -> None:
    curve = exact(response(1.0, 2), 0, 1)
    p = math.e / (1 + math.e)
    for alpha in (1.5, 2.0, 30.0):
        sums = p**alpha * (1 - p) ** (1 - alpha) + (1 - p) ** alpha * p ** (1 - alpha)
        assert curve.renyi(alpha) == pytest.approx(math.log(sums) / (alpha - 1), rel=1e-12)
    assert not curve.violates(ZCDP(0.5))
    assert curve.violates(ZCDP(0.3))
    assert not curve.violates(RenyiDP(2.0, curve.renyi(2.0) * 1.001))
    assert curve.violates(RenyiDP(2.0, curve.renyi(2.0) * 0.999))
    mu = 2 * stats.norm.ppf(p)
    assert not curve.violates(GDP(mu * 1.0001))
    assert curve.violates(GDP(mu * 0.98))


def test_ten_thousand_outputs() -> None:
    drawn = np.random.default_rng(1)
    p = drawn.random(10_000)
    q = p * np.exp(drawn.uniform(-0.5, 0.5, size=10_000))
    curve = HockeyStick(p / p.sum(), q / q.sum())
    epsilon = curve.epsilon(1e-3)
    assert curve.delta(epsilon) == pytest.approx(1e-3, rel=1e-6)
    assert curve.curve(np.array([0.0, epsilon])).shape == (2,)


@pytest.mark.parametrize(
    "wrong",
    [{"a": -0.1, "b": 1.1}, {"a": math.nan}, {"a": 0.9, "b": 0.2}, {"a": math.inf}],
    ids=["negative", "NaN", "above one", "infinite"],
)
def test_bad_laws_are_named(wrong: dict[str, float]) -> None:
    with pytest.raises(InvalidParameter, match="neighbor"):
        exact(lambda x: wrong if x else {"a": 1.0}, 0, 1)


def test_bad_questions_are_named() -> None:
    curve = exact(response(1.0, 2), 0, 1)
    with pytest.raises(InvalidParameter, match="delta"):
        curve.epsilon(1.0)
    with pytest.raises(InvalidParameter, match="alpha"):
        curve.renyi(1.0)
    with pytest.raises(InvalidParameter, match="guarantee"):
        curve.violates("pure")  # type: ignore[arg-type]
    with pytest.raises(InvalidParameter, match="guarantee"):
        curve.violates(ZCDP(0.5, delta=1e-6))
