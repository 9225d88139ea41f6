"""Events are equal where accountants read the same numbers, and nothing that remembers mixes them.

The house reads a float as the decimal that it prints as: 0.1 is one tenth, Fraction(0.1) the
binary number that Python finds equal to it.
"""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

import math
import pickle
from fractions import Fraction
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from unacorda import accounting
from unacorda.accounting.contour.parts import flatten
from unacorda.accounting.rules.base import under_replacement
from unacorda.events import from_json
from unacorda.privacy.events import (
    EVENT_KINDS,
    Composed,
    DiscreteGaussian,
    Event,
    Gaussian,
    GaussianMixture,
    Laplace,
    MatrixFactorization,
    Pure,
    RandomizedResponse,
    Repeated,
    ZeroConcentrated,
    compose,
)
from unacorda.privacy.events.fields import Real

NUMBERS = st.sampled_from(
    [
        *(0.1, Fraction(0.1), Fraction(1, 10), 0.3, Fraction(0.3), Fraction(3, 10)),
        *(0.5, Fraction(1, 2), 1, 1.0, Fraction(1), 1e-300, Fraction(1e-300), 1e300, 10**300),
        *(int(1e300), 10**400, 10**400 + 1, Fraction(10**400), Fraction(1, 10**400)),
        *(Fraction(2, 10**400), 2**53, 2**53 + 1, float(2**53), 5e-324, Fraction(5e-324)),
    ]
)
SHARES = st.sampled_from([0, 0.0, -0.0, 0.1, Fraction(0.1), Fraction(1, 10), 1, 1.0])
ALONE: st.SearchStrategy[Event] = st.one_of(
    st.builds(Laplace, noise_multiplier=NUMBERS),
    st.builds(Gaussian, noise_multiplier=NUMBERS),
    st.builds(DiscreteGaussian, sigma=NUMBERS, sensitivity=st.sampled_from([1, 1.0])),
    st.builds(ZeroConcentrated, rho=NUMBERS, delta=SHARES),
    st.builds(RandomizedResponse, epsilon=SHARES, categories=st.integers(2, 3)),
    st.builds(
        GaussianMixture,
        noise_multiplier=st.just(1),
        shifts=st.tuples(SHARES, SHARES),
        weights=st.sampled_from([(0.5, 0.5), (Fraction(1, 2), 0.5), (0, 1)]),
    ),
    st.builds(
        MatrixFactorization,
        noise_multiplier=st.just(1),
        encoder=st.one_of(
            st.tuples(SHARES),
            st.tuples(SHARES, SHARES),
            st.tuples(st.tuples(SHARES), st.tuples(SHARES, SHARES)),
        ),
        steps=st.just(2),
    ),
)
EVENTS = st.recursive(
    ALONE,
    lambda inner: st.one_of(
        st.builds(lambda e, n: e * n, inner, st.integers(1, 2)),
        st.builds(lambda a, b: a + b, inner, inner),
        st.builds(
            lambda e, q: e.poisson_sampled(rate=q), inner, st.sampled_from([0.1, Fraction(0.1), 1])
        ),
    ),
    max_leaves=4,
)


def read(value: Any) -> Any:
    """What an accountant reads, written apart from the package."""
    if isinstance(value, Composed):
        return frozenset(map(read, value.parts))
    if isinstance(value, EVENT_KINDS):
        fields = value.__dataclass_fields__
        return (type(value).__name__, *((name, read(getattr(value, name))) for name in fields))
    if isinstance(value, tuple):
        return tuple(map(read, value))
    number = Fraction(repr(value)) if isinstance(value, float) else Fraction(value)
    return number.as_integer_ratio()


@pytest.mark.long
@given(EVENTS, EVENTS)
def test_events_are_equal_where_their_exact_numbers_are(a: Event, b: Event) -> None:
    assert (a == b) is (read(a) == read(b)) is (b == a)
    if a == b:
        assert hash(a) == hash(b)
    assert len({a, b}) == 2 - (read(a) == read(b))


@given(EVENTS)
def test_copies_are_equal_and_hash_alike(event: Event) -> None:
    for copy in (from_json(event.to_json()), pickle.loads(pickle.dumps(event))):
        assert copy == event
        assert hash(copy) == hash(event)


def test_every_event_has_the_one_equality() -> None:
    for kind in EVENT_KINDS:
        assert kind.__eq__ is Event.__eq__, kind
        assert kind.__hash__ is Event.__hash__, kind


def test_one_number_may_be_written_in_several_ways() -> None:
    pairs: list[tuple[Real, Real]] = [(1, 1.0), (0.5, Fraction(1, 2)), (0.1, Fraction(1, 10))]
    for one, two in [*pairs, (0, -0.0)]:
        assert Pure(epsilon=one) == Pure(epsilon=two)
        assert hash(Pure(epsilon=one)) == hash(Pure(epsilon=two))
    written: list[Real] = [1, 1.0, Fraction(1)]
    assert compose([Pure(epsilon=one) for one in written]) == Pure(epsilon=1) * 3


def test_numbers_beyond_floats_have_a_hash() -> None:
    large = Laplace(noise_multiplier=10**400)
    assert len({large, Laplace(noise_multiplier=10**400 + 1), large}) == 2


def test_other_kinds_and_other_things_are_not_equal() -> None:
    one = Pure(epsilon=1)
    others: list[object] = [1, "Pure(epsilon=1)", None, (one,), ZeroConcentrated(rho=1), one * 2]
    for other in others:
        assert one != other
    row, first = ((1,), (1, 1)), (1, 1)
    assert MatrixFactorization(noise_multiplier=1, encoder=row, steps=2) != MatrixFactorization(
        noise_multiplier=1, encoder=first, steps=2
    )


def test_a_float_and_the_binary_number_it_holds_are_two_events() -> None:
    tenth, binary = Laplace(noise_multiplier=0.1), Laplace(noise_multiplier=Fraction(0.1))
    assert tenth != binary
    both = compose([binary, tenth])
    assert isinstance(both, Composed)
    assert both == compose([tenth, binary])
    assert both != tenth * 2
    assert both != binary * 2
    assert flatten([(tenth, 1), (binary, 2)]) == ((tenth, 1), (binary, 2))
    twice = tenth.poisson_sampled(rate=0.1) + binary.poisson_sampled(rate=0.1)
    assert isinstance(twice, Composed)
    half = compose([Laplace(noise_multiplier=0.5), Laplace(noise_multiplier=Fraction(1, 2))])
    assert half == Laplace(noise_multiplier=0.5) * 2


def test_other_parts_of_a_repetition_are_other_events() -> None:
    tenth, binary = Pure(epsilon=0.1), Pure(epsilon=Fraction(0.1))
    assert tenth * 3 != binary * 3
    assert tenth * 3 == Repeated(event=Pure(epsilon=Fraction(1, 10)), count=3)


@pytest.mark.parametrize("written", [0.7, 1.1, 2.3, 3.1])
def test_what_is_remembered_of_one_is_not_told_of_the_other(written: float) -> None:
    """Alpha / (2 m^2) exactly, rounded up, of each: the last bit shows which number was read."""
    told = []
    for number in (written, Fraction(written), written):
        exactly = Fraction(repr(number)) if isinstance(number, float) else number
        above = float(1 / exactly**2)
        if Fraction(above) < 1 / exactly**2:
            above = math.nextafter(above, math.inf)
        told.append(accounting.renyi(Gaussian(noise_multiplier=number), alpha=2))
        assert told[-1] == above
        assert under_replacement(Gaussian(noise_multiplier=number)) == Gaussian(
            noise_multiplier=exactly / 2
        )
    assert told[0] != told[1]
