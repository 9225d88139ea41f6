"""What devices and servers refuse, and what they take instead."""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from tests.mechanisms.local.report_laws import KINDS
from tests.support.cases import in_subtests

from unacorda import mechanisms
from unacorda.bits import ScriptedBits, SeededBits
from unacorda.errors import InvalidParameter
from unacorda.mechanisms.local.hashing import LocalHashing
from unacorda.mechanisms.local.means import Duchi, Hybrid, Piecewise

EVERY: dict[str, Any] = {**KINDS, "hashing": LocalHashing}
NUMBERS: dict[str, Any] = {"duchi": Duchi, "piecewise": Piecewise, "hybrid": Hybrid}
NOTHING = ScriptedBits([])  # raises IndexError where a bit is drawn


@in_subtests("kind", EVERY)
@in_subtests("epsilon", [0, -1, "x", float("nan"), float("inf"), True, None, 1e-300])
def test_an_epsilon_that_cannot_be_used_is_named(kind: str, epsilon: Any) -> None:
    with pytest.raises(InvalidParameter, match="epsilon"):
        EVERY[kind](epsilon=epsilon, categories=4)


@in_subtests("kind", EVERY)
@in_subtests("categories", [1, 0, -3, 2.0, "4", True, None, 2**30 + 1])
def test_categories_that_cannot_be_used_are_named(kind: str, categories: Any) -> None:
    with pytest.raises(InvalidParameter, match="categories"):
        EVERY[kind](epsilon=1, categories=categories)


def test_unary_encodings_have_two_variants() -> None:
    for variant in ("other", "", None, 1):
        with pytest.raises(InvalidParameter, match="variant"):
            mechanisms.local.UnaryEncoding(epsilon=1, categories=4, variant=variant)  # type: ignore[arg-type]


@in_subtests("kind", EVERY)
@in_subtests(
    "values",
    [np.array([1.5]), np.array(1.0), np.array(["a"]), np.array([1j]), {0: 1}, {1}],
)
def test_values_that_are_no_indices_are_refused_before_a_bit_is_drawn(
    kind: str, values: Any
) -> None:
    with pytest.raises(InvalidParameter, match="values"):
        EVERY[kind](epsilon=1, categories=4).encode(values, bits=NOTHING)


@pytest.mark.parametrize("kind", EVERY)
def test_indices_beyond_the_last_count_as_the_last(kind: str) -> None:
    mechanism = EVERY[kind](epsilon=1, categories=5)
    expected = mechanism.encode([0, 4, 4, 0], bits=SeededBits(1))
    for strange in (
        [-1, 5, 10**18, -(10**18)],
        np.array([-128, 127, 5, -1], np.int8),
        np.array([-(2**63), 2**63 - 1, 5, -1]),
    ):
        assert (mechanism.encode(strange, bits=SeededBits(1)) == expected).all()
    unsigned = np.array([0, 2**64 - 1, 4, 0], np.uint64)
    assert (mechanism.encode(unsigned, bits=SeededBits(1)) == expected).all()
    for small, large in ((-(10**30), 10**30), (np.int64(-7), np.uint64(2**64 - 1))):
        for value, same in ((small, 0), (large, 4)):
            found = mechanism.encode(value, bits=SeededBits(2))
            assert (np.asarray(found) == mechanism.encode(same, bits=SeededBits(2))).all()


def test_truth_values_are_binary_answers() -> None:
    mechanism = mechanisms.RandomizedResponse(epsilon=60, categories=2)
    assert mechanism.encode([True, False, True], bits=SeededBits(1)).tolist() == [1, 0, 1]
    assert mechanism.encode(True, bits=SeededBits(1)) == 1


@pytest.mark.parametrize("kind", EVERY)
def test_servers_refuse_what_no_device_sends(kind: str) -> None:
    mechanism = EVERY[kind](epsilon=1, categories=20)
    reports = mechanism.encode(np.arange(20), bits=SeededBits(1))
    wrong: list[Any] = [reports[:0], [], [0.5], "a", None, reports.astype(float)]
    if reports.dtype == np.uint8:
        wrong += [reports[:, :1], reports.astype(np.int64), np.uint8(3)]
    else:
        wrong += [reports - 2**31, reports + 2**40]
    if kind == "hashing":
        wrong += [reports[:, :2], np.array([[0, 1, 1]]), np.array([[1, 1, mechanism.cells]])]
    for some in wrong:
        with pytest.raises(InvalidParameter, match="reports"):
            mechanism.aggregate(some)


@pytest.mark.parametrize("kind", EVERY)
def test_tallies_are_checked(kind: str) -> None:
    mechanism = EVERY[kind](epsilon=1, categories=4)
    tally = mechanism.tally(mechanism.encode([0, 1, 2, 3], bits=SeededBits(1)))
    for wrong in (tally[:-1], tally.astype(float), tally - 9, tally + 9):
        with pytest.raises(InvalidParameter, match="tally"):
            mechanism.estimate(wrong, count=4)
    for count in (0, -1, 2.5, None):
        with pytest.raises(InvalidParameter, match="count"):
            mechanism.estimate(tally, count=count)
        with pytest.raises(InvalidParameter, match="count"):
            mechanism.variance(count=count)
    for share in (-0.1, 1.1, float("nan")):
        with pytest.raises(InvalidParameter, match="frequency"):
            mechanism.variance(count=1, frequency=share)
    if kind == "hadamard":
        with pytest.raises(InvalidParameter, match="count"):
            mechanism.estimate(tally, count=5)


def test_hashing_is_asked_for_categories_that_exist() -> None:
    mechanism = LocalHashing(epsilon=1, categories=20)
    reports = mechanism.encode([1, 2, 3], bits=SeededBits(1))
    for among in ([], [20], [-1], [0.5], 3, [[1]]):
        with pytest.raises(InvalidParameter, match="among"):
            mechanism.aggregate(reports, among=among)
    some = mechanism.aggregate(reports, among=[3, 19])
    assert (some.values == mechanism.aggregate(reports).values[[3, 19]]).all()


def test_intervals_need_a_confidence() -> None:
    shares = mechanisms.local.UnaryEncoding(epsilon=1, categories=3).aggregate(
        np.array([[64]], np.uint8)
    )
    for confidence in (0, 1, 1.5, float("nan")):
        with pytest.raises(InvalidParameter, match="confidence"):
            shares.interval(confidence)


@pytest.mark.parametrize("probability", [0, 1, -0.5, 2, float("nan"), "x"])
def test_resampling_needs_a_probability(probability: Any) -> None:
    with pytest.raises(InvalidParameter, match="probability"):
        mechanisms.RandomizedResponse.resampling(probability)
    with pytest.raises(InvalidParameter, match="categories"):
        mechanisms.RandomizedResponse.resampling(0.5, categories=1)


@in_subtests("kind", EVERY)
@in_subtests("epsilon", [1e-6, Fraction(1, 10**9), 45, 64.5, 10**9, 1e300])
def test_extreme_epsilons_work(kind: str, epsilon: Any) -> None:
    mechanism = EVERY[kind](epsilon=epsilon, categories=3)
    reports = mechanism.encode([0, 1, 2, 2], bits=SeededBits(1))
    shares = mechanism.aggregate(reports)
    assert np.isfinite(shares.values).all()
    assert np.isfinite(shares.standard_errors).all()
    if epsilon > 64 and kind not in {"hashing", "oue"}:
        assert shares.values == pytest.approx([0.25, 0.25, 0.5], abs=1e-6)


# ---- numbers


@in_subtests("kind", NUMBERS)
@in_subtests("epsilon", [0, -1, "x", float("nan"), float("inf"), True, None, 1e-300])
def test_numbers_need_an_epsilon(kind: str, epsilon: Any) -> None:
    with pytest.raises(InvalidParameter, match="epsilon"):
        NUMBERS[kind](epsilon=epsilon, lower=0, upper=1)


@in_subtests("kind", NUMBERS)
@in_subtests(
    ("lower", "upper"),
    [(1, 1), (2, 1), (float("nan"), 1), (0, float("inf")), (0, 1e300), (1e9, 1e9 + 1), (0, None)],
)
def test_bounds_that_cannot_be_used_are_named(kind: str, lower: Any, upper: Any) -> None:
    with pytest.raises(InvalidParameter, match=r"lower|upper"):
        NUMBERS[kind](epsilon=1, lower=lower, upper=upper)


@in_subtests("kind", NUMBERS)
@in_subtests("x", [np.array(["a"]), np.array([1j]), {0: 1}, {1}, np.ones(2, np.longdouble)])
def test_what_is_no_number_is_refused_before_a_bit_is_drawn(kind: str, x: Any) -> None:
    with pytest.raises(InvalidParameter, match="x="):
        NUMBERS[kind](epsilon=1, lower=0, upper=1).encode(x, bits=NOTHING)


@pytest.mark.parametrize("kind", NUMBERS)
def test_strange_numbers_count_as_plain_ones(kind: str) -> None:
    for lower, upper, zero in ((-3, 5, 0.0), (2, 5, 2.0), (-7, -4, -4.0)):
        mechanism = NUMBERS[kind](epsilon=1, lower=lower, upper=upper)
        strange = [np.nan, np.inf, -np.inf, -0.0, 1e308, -1e308, 5e-324, 10**5]
        plain = [zero, upper, lower, zero, upper, lower, zero, upper]
        assert (
            mechanism.encode(strange, bits=SeededBits(1))
            == mechanism.encode(plain, bits=SeededBits(1))
        ).all()
        for one, same in ((10**400, upper), (-(10**400), lower), (float("nan"), zero)):
            assert mechanism.encode(one, bits=SeededBits(3)) == mechanism.encode(
                same, bits=SeededBits(3)
            )


@pytest.mark.parametrize("kind", NUMBERS)
def test_numbers_keep_their_shape(kind: str) -> None:
    mechanism = NUMBERS[kind](epsilon=1, lower=-3, upper=5)
    assert mechanism.encode(np.zeros((2, 3), np.float32)).shape == (2, 3)
    assert mechanism.release(np.zeros((2, 3))).shape == (2, 3)
    assert mechanism.encode([]).shape == (0,)
    assert isinstance(mechanism.encode(1.5), int)
    assert isinstance(mechanism.release(1), float)
    assert isinstance(mechanism.release(np.float64(1)), float)


@pytest.mark.parametrize("kind", NUMBERS)
def test_servers_refuse_reports_that_are_no_places(kind: str) -> None:
    mechanism = NUMBERS[kind](epsilon=1, lower=0, upper=1)
    for wrong in ([], [-1], [2**40], [0.5], "a", None):
        with pytest.raises(InvalidParameter, match="reports"):
            mechanism.aggregate(wrong)
    for count in (0, 1.5, None):
        with pytest.raises(InvalidParameter, match="count"):
            mechanism.variance(count=count)
    with pytest.raises(InvalidParameter, match="x="):
        mechanism.variance(count=1, x=float("nan"))


@in_subtests("kind", NUMBERS)
@in_subtests("epsilon", [1e-6, 1e-3, 64, 1000, 1e300])
def test_extreme_epsilons_of_numbers_work(kind: str, epsilon: Any) -> None:
    mechanism = NUMBERS[kind](epsilon=epsilon, lower=-1, upper=3)
    found = mechanism.aggregate(mechanism.encode([0.0, 3.0, 2.0], bits=SeededBits(1)))
    assert np.isfinite([found.value, found.standard_error]).all()
    if epsilon > 60 and kind == "piecewise":
        assert found.value == pytest.approx(5 / 3, abs=1e-6)


def test_no_message_tells_a_value() -> None:
    for kind in EVERY.values():
        mechanism = kind(epsilon=1, categories=4)
        for values in (np.array([0.123456789]), np.array(["secret"]), {"secret": 123456789}):
            with pytest.raises(InvalidParameter) as raised:
                mechanism.encode(values)
            assert "secret" not in str(raised.value)
            assert "123456789" not in str(raised.value)
