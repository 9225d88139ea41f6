"""Events are frozen values; composition forgets grouping and order; JSON keeps them exactly."""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

import dataclasses
import pickle
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.support.cases import in_subtests

import unacorda.events
from unacorda.errors import InvalidParameter
from unacorda.events import from_json
from unacorda.privacy import events
from unacorda.privacy.events import (
    Approximate,
    Composed,
    DiscreteGaussian,
    DiscreteLaplace,
    Event,
    Exponential,
    FixedSizeSampled,
    Gaussian,
    GaussianMixture,
    Laplace,
    MatrixFactorization,
    NegativeBinomialTries,
    PoissonSampled,
    PoissonTries,
    Pure,
    RandomizedResponse,
    Repeated,
    Shuffled,
    Staircase,
    TreeAggregation,
    TruncatedLaplace,
    ZeroConcentrated,
    compose,
)
from unacorda.privacy.events.algebra import READERS

REALS = st.one_of(
    st.floats(min_value=1e-300, max_value=1e300),
    st.fractions(min_value=Fraction(1, 1000), max_value=1000),
)
SIMPLE: st.SearchStrategy[Event] = st.one_of(
    st.builds(Gaussian, noise_multiplier=REALS),
    st.builds(Laplace, noise_multiplier=REALS),
    st.builds(DiscreteGaussian, sigma=REALS, sensitivity=st.integers(1, 5)),
    st.builds(DiscreteLaplace, scale=REALS, sensitivity=st.just(1)),
    st.builds(Staircase, epsilon=REALS, split=st.fractions(0, 1)),
    st.builds(TruncatedLaplace, noise_multiplier=REALS, bound=st.fractions(Fraction(1, 2), 9)),
    st.builds(
        GaussianMixture,
        noise_multiplier=REALS,
        shifts=st.just((0, 1, Fraction(1, 3))),
        weights=st.sampled_from([(0.7, 0.2, 0.1), (Fraction(1, 2), 0, Fraction(1, 2))]),
    ),
    st.builds(
        MatrixFactorization,
        noise_multiplier=REALS,
        encoder=st.sampled_from([(1, 0.5), ((1,), (0.5, 1), (Fraction(1, 3), 0, -1))]),
        steps=st.just(3),
        participations=st.integers(1, 3),
    ),
    st.builds(TreeAggregation, noise_multiplier=REALS, steps=st.integers(1, 9)),
    st.just(
        MatrixFactorization(
            noise_multiplier=2, encoder=(1,), steps=9, separation=3
        ).cyclic_poisson_sampled(rate=0.5)
    ),
    st.builds(RandomizedResponse, epsilon=REALS, categories=st.integers(2, 9)),
    st.builds(Exponential, epsilon=REALS),
    st.builds(Pure, epsilon=REALS),
    st.builds(Approximate, epsilon=REALS, delta=st.floats(0, 1)),
    st.builds(ZeroConcentrated, rho=REALS, delta=st.just(Fraction(1, 3))),
)


def _deeper(inner: st.SearchStrategy[Event]) -> st.SearchStrategy[Event]:
    return st.one_of(
        st.builds(lambda e, n: e * n, inner, st.integers(1, 5)),
        st.builds(lambda a, b: a + b, inner, inner),
        st.builds(lambda e: e.poisson_sampled(rate=0.01), inner),
        st.builds(lambda e: e.fixed_size_sampled(size=3, population=100), inner),
        st.builds(lambda e: e.shuffled(count=1000), inner),
        st.builds(lambda e: e.sampled_with_replacement(size=3, population=2), inner),
        st.builds(lambda e: e.randomly_allocated(steps=5, uses=2), inner),
        st.builds(lambda e, x: NegativeBinomialTries(event=e, shape=x, stop=0.5), inner, REALS),
        st.builds(lambda e: PoissonTries(event=e, mean=3), inner),
        st.builds(lambda e, k: PoissonTries(event=e, mean=3, most=k), inner, st.integers(3, 9)),
    )


EVENTS = st.recursive(SIMPLE, _deeper, max_leaves=6)


@pytest.mark.long
@given(EVENTS)
def test_json_round_trip_is_exact(event: Event) -> None:
    again = from_json(event.to_json())
    assert again == event
    assert hash(again) == hash(event)
    assert from_json(again.to_json()) == event
    assert pickle.loads(pickle.dumps(event)) == event


@pytest.mark.long
@given(EVENTS, EVENTS, EVENTS)
def test_composition_forgets_grouping_and_order(a: Event, b: Event, c: Event) -> None:
    assert (a + b) + c == a + (b + c) == compose([c, b, a]) == sum([b, c, a])
    assert (a + b) * 3 == a * 3 + b * 3
    assert a + a == a * 2
    assert (a * 2) * 3 == a * 6
    assert hash(a + b) == hash(b + a)


def test_parts_are_flat_and_counted() -> None:
    a, b = Laplace(noise_multiplier=1), Pure(epsilon=1)
    assert a * 1 == a
    assert a + b + a == Composed(parts=(Repeated(event=a, count=2), b))
    assert 3 * a == Repeated(event=a, count=3)
    assert a + b != a + b * 2
    assert a + b != a


@in_subtests(
    "make",
    [
        lambda: Gaussian(noise_multiplier=0),
        lambda: Gaussian(noise_multiplier=-1.0),
        lambda: Gaussian(noise_multiplier=float("nan")),
        lambda: Laplace(noise_multiplier=float("inf")),
        lambda: Laplace(noise_multiplier="1"),  # type: ignore[arg-type]
        lambda: Laplace(noise_multiplier=True),
        lambda: DiscreteGaussian(sigma=0, sensitivity=1),
        lambda: DiscreteLaplace(scale=1, sensitivity=0),
        lambda: RandomizedResponse(epsilon=1, categories=1),
        lambda: RandomizedResponse(epsilon=-1, categories=2),
        lambda: Exponential(epsilon=-0.1),
        lambda: Pure(epsilon=float("nan")),
        lambda: Approximate(epsilon=1, delta=1.1),
        lambda: ZeroConcentrated(rho=-1),
        lambda: Pure(epsilon=1) * 0,
        lambda: Pure(epsilon=1) * 1.5,  # type: ignore[operator]
        lambda: Pure(epsilon=1) + 1,  # type: ignore[operator]
        lambda: Pure(epsilon=1).poisson_sampled(rate=0),
        lambda: Pure(epsilon=1).poisson_sampled(rate=1.5),
        lambda: Pure(epsilon=1).fixed_size_sampled(size=3, population=2),
        lambda: Pure(epsilon=1).shuffled(count=0),
        lambda: PoissonSampled(event=3, rate=0.1),  # type: ignore[arg-type]
        lambda: Composed(parts=(Pure(epsilon=1),)),
        lambda: Composed(parts=(Pure(epsilon=1), Pure(epsilon=1))),
        lambda: Composed(parts=(Pure(epsilon=1), 2)),  # type: ignore[arg-type]
        lambda: Repeated(event=Pure(epsilon=1) * 2, count=2),
        lambda: Repeated(event=Pure(epsilon=1), count=1),
        lambda: compose([]),
        lambda: Staircase(epsilon=0, split=0.5),
        lambda: Staircase(epsilon=1, split=1.1),
        lambda: TruncatedLaplace(noise_multiplier=1, bound=0.4),
        lambda: GaussianMixture(noise_multiplier=1, shifts=(), weights=()),
        lambda: GaussianMixture(noise_multiplier=1, shifts=(1,), weights=(0.5, 0.5)),
        lambda: GaussianMixture(noise_multiplier=1, shifts=(0, 1), weights=(0.5, 0.4)),
        lambda: GaussianMixture(noise_multiplier=1, shifts=(0, -1), weights=(0.5, 0.5)),
        lambda: Pure(epsilon=1).sampled_with_replacement(size=0, population=5),
        lambda: Pure(epsilon=1).randomly_allocated(steps=2, uses=3),
        lambda: NegativeBinomialTries(event=Pure(epsilon=1), shape=-1, stop=0.5),
        lambda: NegativeBinomialTries(event=Pure(epsilon=1), shape=1, stop=0),
        lambda: PoissonTries(event=Pure(epsilon=1), mean=0),
        lambda: PoissonTries(event=Pure(epsilon=1), mean=3, most=2),
        lambda: NegativeBinomialTries(event=Pure(epsilon=1), shape=1, stop=0.5, most=0),
        lambda: NegativeBinomialTries(event=Pure(epsilon=1), shape=1, stop=0.5, most=2.0),  # type: ignore[arg-type]
        lambda: MatrixFactorization(noise_multiplier=1, encoder=(), steps=2),
        lambda: MatrixFactorization(noise_multiplier=1, encoder=(1, 2, 3), steps=2),
        lambda: MatrixFactorization(noise_multiplier=1, encoder=((1,), (1,)), steps=2),
        lambda: MatrixFactorization(noise_multiplier=1, encoder=((1,), 1), steps=2),  # type: ignore[arg-type]
        lambda: MatrixFactorization(noise_multiplier=1, encoder=3, steps=2),  # type: ignore[arg-type]
        lambda: MatrixFactorization(noise_multiplier=1, encoder=(float("nan"),), steps=2),
        lambda: MatrixFactorization(noise_multiplier=1, encoder=(1,), steps=2, separation=0),
        lambda: TreeAggregation(noise_multiplier=1, steps=0),
    ],
)
def test_refuses_what_is_no_event(make: Any) -> None:
    with pytest.raises(InvalidParameter):
        make()


@in_subtests(
    "text",
    [
        "",
        "{}",
        "[]",
        '{"event": "Gaussian"}',
        '{"event": "Magic"}',
        '{"event": "Pure", "epsilon": 1, "delta": 0}',
        '{"event": "Pure", "epsilon": "one"}',
        '{"event": "Pure", "epsilon": -1}',
        '{"event": "Repeated", "count": 2, "of": 3}',
        '{"event": "Composed", "parts": 3}',
    ],
)
def test_other_json_is_refused(text: str) -> None:
    with pytest.raises(InvalidParameter):
        from_json(text)


def test_numpy_numbers_become_python_numbers() -> None:
    number: Any = np.float32(2.5)
    event = Gaussian(noise_multiplier=number)
    assert type(event.noise_multiplier) is float
    assert from_json(event.to_json()) == event
    count: Any = np.int64(4)
    counted = Pure(epsilon=1) * count
    assert isinstance(counted, Repeated)
    assert type(counted.count) is int


def test_sampling_wraps_the_event() -> None:
    step = Gaussian(noise_multiplier=1.0)
    assert step.poisson_sampled(rate=0.01) == PoissonSampled(event=step, rate=0.01)
    assert step.fixed_size_sampled(size=5, population=10) == FixedSizeSampled(
        event=step, size=5, population=10
    )
    assert step.shuffled(count=7) == Shuffled(event=step, count=7)


def test_users_find_every_event() -> None:
    assert set(unacorda.events.__all__) == {*events.__all__, "from_json"}
    with pytest.raises(dataclasses.FrozenInstanceError):
        Pure(epsilon=1).epsilon = 2  # type: ignore[misc]


def test_every_field_is_checked_by_its_name_or_by_its_event() -> None:
    for kind in events.EVENT_KINDS:
        others = {field.name for field in dataclasses.fields(kind)} - set(READERS)
        assert not others or "__post_init__" in vars(kind), kind
        assert others <= {"encoder", "parts", "shape", "shifts", "weights"}, kind
