"""Guarantees are exact values that know their order."""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

import pickle
import subprocess
import sys
from collections.abc import Callable
from decimal import Decimal
from fractions import Fraction
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.support.cases import in_subtests

from unacorda.errors import InvalidParameter, WrongUnit
from unacorda.privacy.guarantees import (
    GDP,
    ZCDP,
    ApproxDP,
    Guarantee,
    PureDP,
    RenyiDP,
    guarantee_from_json,
)
from unacorda.privacy.neighbors import AddRemove, Neighbors, ReplaceOne, ZeroOut

AMOUNTS = st.fractions(min_value=0, max_value=1000, max_denominator=10**12)
SHARES = st.fractions(min_value=0, max_value=Fraction(1, 4), max_denominator=10**12)
ANY = st.one_of(
    st.builds(PureDP, AMOUNTS),
    st.builds(ApproxDP, AMOUNTS, SHARES),
    st.builds(ZCDP, AMOUNTS, SHARES),
    st.builds(GDP, AMOUNTS, SHARES),
    st.builds(GDP.from_squared, AMOUNTS, SHARES),
    st.builds(RenyiDP, st.sampled_from([2, Fraction(3, 2), 8]), AMOUNTS),
)
EXAMPLES: list[Guarantee] = [
    PureDP(1),
    ApproxDP(1, 1e-6),
    ZCDP(0.5, 1e-8),
    GDP(1, 1e-9),
    RenyiDP(8, 0.3),
]


def test_a_float_means_the_decimal_it_prints_as() -> None:
    assert PureDP(0.1).epsilon == Fraction(1, 10)
    assert PureDP("0.1") == PureDP(Decimal("0.1")) == PureDP(Fraction(1, 10)) == PureDP(0.1)
    assert sum([PureDP(0.1)] * 10) == PureDP(1)
    assert PureDP(0.1) * 10 == 10 * PureDP(0.1) == PureDP(1)
    assert ZCDP(0.3) / 3 == ZCDP(0.1)


def test_gdp_composes_in_squares() -> None:
    assert GDP(3) + GDP(4) == GDP(5)
    assert GDP(1) / 4 == GDP(0.5)
    assert sum([GDP(1) / 7] * 7) == GDP(1)
    assert GDP(5) - GDP(4) == GDP(3)
    assert GDP(0.3).mu == 0.3
    assert (GDP(1) + GDP(1)).mu == 2**0.5


@in_subtests("wrong", [-1, -1e-300, float("nan"), float("inf"), "x", True, None])
@in_subtests(
    ("kind", "name", "rest"),
    [
        (PureDP, "epsilon", {}),
        (ApproxDP, "epsilon", {"delta": 0}),
        (ApproxDP, "delta", {"epsilon": 1}),
        (ZCDP, "rho", {}),
        (ZCDP, "delta", {"rho": 1}),
        (GDP, "mu", {}),
        (GDP, "delta", {"mu": 1}),
        (RenyiDP, "epsilon", {"alpha": 2}),
        (RenyiDP, "alpha", {"epsilon": 1}),
    ],
)
def test_refuses_numbers_that_are_none(
    kind: Any, name: str, rest: dict[str, float], wrong: object
) -> None:
    with pytest.raises(InvalidParameter) as caught:
        kind(**{name: wrong}, **rest)
    assert caught.value.argument == name


def test_refuses_a_delta_above_one_and_an_order_of_one() -> None:
    with pytest.raises(InvalidParameter, match="delta"):
        ApproxDP(1, 1.5)
    with pytest.raises(InvalidParameter, match="alpha"):
        RenyiDP(alpha=1, epsilon=1)


def test_zero_is_a_value() -> None:
    assert PureDP(0) + PureDP(1) == PureDP(1)
    assert ZCDP(1) * 0 == ZCDP(0)


def test_subtraction_stops_at_zero() -> None:
    assert PureDP(1) - PureDP(1) == PureDP(0)
    with pytest.raises(InvalidParameter):
        PureDP(1) - PureDP("1.0000000000000001")
    with pytest.raises(InvalidParameter):
        ApproxDP(2, 1e-7) - ApproxDP(1, 1e-6)


def test_sums_of_delta_stop_at_one() -> None:
    assert ApproxDP(1, 0.6) + ApproxDP(1, 0.6) == ApproxDP(2, 1)


@pytest.mark.parametrize("kind", [ApproxDP, ZCDP, GDP])
def test_the_order_of_pairs_is_partial(kind: Any) -> None:
    more, less = kind(1, 1e-6), kind(2, 1e-7)
    assert not more <= less
    assert not more >= less
    assert not more < less
    assert not more > less
    assert more <= kind(1, 1e-5)
    assert more < kind(1, 1e-5)
    assert kind(2, 1e-6) > more
    assert not more < more  # noqa: PLR0124
    assert more <= more  # noqa: PLR0124


@in_subtests("left", EXAMPLES)
@in_subtests("right", [*EXAMPLES, RenyiDP(4, 0.3), 1, "PureDP"])
def test_kinds_do_not_mix(left: Any, right: Any) -> None:
    if type(left) is type(right) and getattr(left, "alpha", 0) == getattr(right, "alpha", 0):
        assert left + right == left * 2
        return
    assert left != right
    operations: list[Callable[[], object]] = [
        lambda: left + right,
        lambda: left - right,
        lambda: left <= right,
        lambda: left < right,
        lambda: left >= right,
        lambda: left > right,
    ]
    for operation in operations:
        with pytest.raises(WrongUnit) as caught:
            operation()
        assert isinstance(caught.value, TypeError)
    if isinstance(right, int):
        with pytest.raises(WrongUnit):
            right + left


def test_scalars_are_numbers_not_below_zero() -> None:
    for wrong in (-1, float("nan"), "many"):
        with pytest.raises(InvalidParameter, match="factor"):
            PureDP(1) * wrong
    for wrong in (0, -2, float("inf")):
        with pytest.raises(InvalidParameter, match="divisor"):
            PureDP(1) / wrong


@pytest.mark.long
@given(ANY)
def test_json_round_trip_is_exact(guarantee: Guarantee) -> None:
    assert guarantee_from_json(guarantee.to_json()) == guarantee
    assert type(guarantee).from_json(guarantee.to_json()) == guarantee
    assert pickle.loads(pickle.dumps(guarantee)) == guarantee
    assert hash(guarantee_from_json(guarantee.to_json())) == hash(guarantee)


@in_subtests(
    "text",
    [
        "",
        "[]",
        "3",
        "null",
        "{}",
        '{"guarantee": "PureDP"}',
        '{"guarantee": "Magic", "epsilon": "1"}',
        '{"guarantee": "PureDP", "epsilon": 1}',
        '{"guarantee": "PureDP", "epsilon": "-1"}',
        '{"guarantee": "PureDP", "epsilon": "1", "delta": "0"}',
        '{"guarantee": ["PureDP"], "epsilon": "1"}',
    ],
)
def test_other_json_is_refused(text: str) -> None:
    with pytest.raises(InvalidParameter):
        guarantee_from_json(text)


def test_from_json_of_a_class_wants_that_class() -> None:
    with pytest.raises(InvalidParameter, match="ZCDP"):
        ZCDP.from_json(PureDP(1).to_json())


@pytest.mark.parametrize(
    ("guarantee", "call", "words"),
    [
        (PureDP(0.1), "PureDP(epsilon=0.1)", "epsilon 0.1"),
        (PureDP("1/3"), "PureDP(epsilon=0.333333333334)", "epsilon 0.333333333334"),
        (PureDP("1e-400"), "PureDP(epsilon=1e-400)", "epsilon 1e-400"),
        (ApproxDP(1, 1e-6), "ApproxDP(epsilon=1.0, delta=1e-06)", "epsilon 1, delta 1e-06"),
        (ZCDP(0.5), "ZCDP(rho=0.5)", "rho 0.5"),
        (ZCDP(0.5, 1e-8), "ZCDP(rho=0.5, delta=1e-08)", "rho 0.5, delta 1e-08"),
        (GDP(0.3), "GDP(mu=0.3)", "mu 0.3"),
        (GDP.from_squared(2), "GDP(mu=1.41421356238)", "mu 1.41421356238"),
        (RenyiDP(8, 0.3), "RenyiDP(alpha=8.0, epsilon=0.3)", "alpha 8, epsilon 0.3"),
    ],
)
def test_text_is_readable(guarantee: Guarantee, call: str, words: str) -> None:
    assert (repr(guarantee), str(guarantee)) == (call, words)


@pytest.mark.long
@given(ANY, st.integers(1, 50))
def test_a_part_taken_often_enough_is_the_whole(guarantee: Guarantee, parts: int) -> None:
    total: Any = sum([guarantee / parts] * parts)
    assert total == guarantee
    assert guarantee / parts <= guarantee


def test_values_are_frozen() -> None:
    with pytest.raises(AttributeError):
        PureDP(1).epsilon = Fraction(2)  # type: ignore[misc]


def test_guarantees_need_only_the_standard_library() -> None:
    code = (
        "import sys; from unacorda.privacy.guarantees import GDP; GDP(1) + GDP(2); "
        "heavy = {'numpy', 'scipy', 'flint', 'sqlalchemy', 'duckdb'} & set(sys.modules); "
        "sys.exit(len(heavy))"
    )
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


def test_neighbors_are_values() -> None:
    assert {AddRemove, ReplaceOne, ZeroOut} == set(Neighbors)
    assert repr(ReplaceOne) == "ReplaceOne"
    assert pickle.loads(pickle.dumps(AddRemove)) is AddRemove
