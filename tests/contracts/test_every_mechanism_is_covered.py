"""A new mechanism cannot escape the tests of bad input, of odd values and of time."""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

import dataclasses
import inspect
import math
from collections.abc import Iterator, Mapping
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from tests.mechanisms import test_timing
from tests.mechanisms.every_mechanism import EVERY, OF_RUNS, kind, make
from tests.mechanisms.faces import everything as mechanisms
from tests.mechanisms.local import test_report_timing
from tests.mechanisms.retry import test_retry_timing
from tests.support.cases import in_subtests
from tests.tiers import mostly_slow

from unacorda.bits import ScriptedBits, SeededBits
from unacorda.errors import InvalidParameter
from unacorda.privacy.events import from_json

# Those of unacorda.mechanisms.data_dependent have a contract of their own beside this one.
CLASSES = {
    name
    for name in mechanisms.__all__
    if inspect.isclass(value := getattr(mechanisms, name))
    and ".data_dependent" not in value.__module__
}

NAMES = sorted(EVERY | OF_RUNS)

# Under which name the time of each mechanism is looked at; several share the code that takes it.
TIMED: dict[str, tuple[Any, str]] = {
    **{
        name: (test_timing.RELEASES, told)
        for name, told in {
            "BinaryTree": "binary tree, one at a time",
            "BoundedLaplace": "bounded laplace",
            "DiscreteGaussian": "large discrete gaussian",
            "DiscreteLaplace": "discrete laplace",
            "DiscreteLaplace bounded": "bounded discrete laplace",
            "Exponential": "exponential mechanism",
            "Gaussian": "gaussian",
            "KNorm": "in a disc",
            "Laplace": "laplace",
            "Marginals": "marginals",
            "MatrixMechanism": "matrix mechanism",
            "MultivariateGaussian": "correlated normals",
            "NumericSparse": "sparse vector, answered",
            "PartitionSelection": "kept keys",
            "PermuteAndFlip": "permute and flip",
            "PiecewiseConstantExponential": "a point of an interval",
            "SparseVector": "sparse vector, an array",
            "SparseVector once": "sparse vector, stopped once",
            "SquareRootToeplitz": "square root, an array",
            "StableSelection": "stable leader",
            "Staircase": "staircase",
            "ThresholdedGaussian": "counts of keys, normal noise",
            "ThresholdedLaplace": "counts of keys",
            "TopK": "top two",
            "TopK with gaps": "gaps of the top two",
            "TreeSelection": "walk down a tree",
            "TruncatedLaplace": "cut laplace",
        }.items()
    },
    **{
        name: (test_report_timing.UNTRUE, told)
        for name, told in {
            "Directions": "directions",
            "Duchi": "duchi",
            "HadamardResponse": "hadamard",
            "Hybrid": "hybrid",
            "LocalHashing": "hashing",
            "Piecewise": "piecewise",
            "RandomizedResponse": "randomised response",
            "SubsetSelection": "subsets",
            "UnaryEncoding": "oue, own bit",
            "UnaryEncoding symmetric": "rappor",
        }.items()
    },
    "BestOf": (vars(test_retry_timing), "padded"),
    "ConditionOnSuccess": (vars(test_retry_timing), "accepted"),
}
# Its time is that of the run and, where that fails, of the fallback, as its page says.
UNTIMED = {"AbsorbFailure"}


class NoBits:
    """Random bits that must not be drawn."""

    secure = False

    def words(self, count: int) -> NDArray[np.uint64]:
        raise AssertionError("bits were drawn")

    def below(self, bound: int) -> int:
        raise AssertionError("bits were drawn")


class CountedBits:
    """Seeded bits, and how many words of them were drawn."""

    secure = False

    def __init__(self) -> None:
        self.bits, self.drawn = SeededBits(5), 0

    def words(self, count: int) -> NDArray[np.uint64]:
        self.drawn += count
        return self.bits.words(count)

    def below(self, bound: int) -> int:
        self.drawn += 1
        return self.bits.below(bound)


def test_every_mechanism_is_registered() -> None:
    assert {name.split()[0] for name in NAMES} == CLASSES
    assert set(EVERY) & set(OF_RUNS) == set()


def test_every_mechanism_is_timed() -> None:
    assert set(TIMED) | UNTIMED == set(NAMES)
    missing = {name for name, (where, told) in TIMED.items() if told not in where}
    assert missing == set()


@in_subtests("name", NAMES)
def test_every_mechanism_is_a_frozen_value_whose_event_is_kept(name: str) -> None:
    mechanism = make(name)
    assert dataclasses.is_dataclass(kind(name))
    field = dataclasses.fields(kind(name))[0].name
    with pytest.raises(dataclasses.FrozenInstanceError):
        setattr(mechanism, field, 1)
    assert from_json(mechanism.event.to_json()) == mechanism.event
    assert "Source: " in (inspect.getdoc(kind(name)) or "")


# ---- what is released


@in_subtests("name", EVERY)
def test_what_is_refused_is_refused_before_a_bit_is_drawn(name: str) -> None:
    mechanism, case = make(name), EVERY[name]
    for value in case.refused:
        with pytest.raises(InvalidParameter) as caught:
            case(mechanism, value, NoBits())
        # An error below it may show the data.
        assert caught.value.__context__ is None
        assert caught.value.__cause__ is None
    drawn = CountedBits()
    case(mechanism, case.value, drawn)
    assert drawn.drawn > 0


def leaves(answer: Any) -> Iterator[float]:
    """All numbers of an answer."""
    if isinstance(answer, Mapping):
        for part in answer.values():
            yield from leaves(part)
    elif isinstance(answer, np.ndarray):
        yield from answer.reshape(-1).tolist()
    elif isinstance(answer, list | tuple):
        for part in answer:
            yield from leaves(part)
    elif answer is not None and not isinstance(answer, str):
        yield float(answer)


@in_subtests("name", EVERY)
def test_odd_values_give_finite_answers(name: str) -> None:
    mechanism, case = make(name), EVERY[name]
    for value in (case.value, *case.odd):
        for seed in range(3):
            for number in leaves(case(mechanism, value, SeededBits(seed))):
                assert math.isfinite(number)


@in_subtests("name", EVERY)
def test_as_many_bits_are_drawn_whatever_the_values_are(name: str) -> None:
    mechanism, case = make(name), EVERY[name]
    if isinstance(case.value, dict):
        values: list[Any] = [{"a": 20, "b": 1}, {"a": 10**400, "b": 0}, {"a": -5, "b": 2}]
    elif name == "Marginals":
        values = [case.value, [[0, 0]] * 5, [[10**6, -(10**6)]]]
    else:
        values = [case.value, [0, 0, 0, 0], [10**6, -(10**6), 7, 10**9]]
        values += [value for value in case.odd if len(value) == 4]
    if name in {"SparseVector once", "NumericSparse"}:
        return  # the answer says where they stopped, and how many answers were given
    counts = []
    for value in values:
        drawn = CountedBits()
        case(mechanism, value, drawn)
        counts.append(drawn.drawn)
    assert len(set(counts)) == 1, counts


@in_subtests("name", EVERY)
def test_minus_zero_is_zero(name: str) -> None:
    mechanism, case = make(name), EVERY[name]
    if name == "Marginals" or isinstance(case.value, dict):
        return  # it takes other lists
    for seed in range(4):
        one, other = (
            list(leaves(case(mechanism, [zero, 1.0, 0.25, 2.0], SeededBits(seed))))
            for zero in (0.0, -0.0)
        )
        assert [(x, math.copysign(1, x)) for x in one] == [(x, math.copysign(1, x)) for x in other]


@in_subtests("name", EVERY)
@pytest.mark.parametrize("length", mostly_slow([1, 3, 8, 40]))
def test_extreme_words_give_finite_answers(name: str, length: int) -> None:
    mechanism, case = make(name), EVERY[name]
    for word in (0, 2**64 - 1, 2**63, 2**63 - 1, 1):
        bits = ScriptedBits([word] * length, then=SeededBits(1))
        if name == "TreeSelection":  # equal words of a random order are drawn again, all of them
            bits = ScriptedBits([*range(4), *[word] * length], then=SeededBits(1))
        for number in leaves(case(mechanism, case.value, bits)):
            assert math.isfinite(number)


# ---- how it is made

NUMBERS: list[Any] = [
    *(0, -1, -0.0, math.nan, math.inf, -math.inf, float(np.float64("nan"))),
    *(5e-324, 1e-300, 1e-20, Fraction(1, 10**400), 1e20, 1.7e308, 10**400, 2**31, 2**63),
    *(True, None, "x", 1j, [1], np.array([1.0])),
]
SENSITIVE = {"epsilon", "delta", "sensitivity", "l1_sensitivity", "l2_sensitivity", "scale"}
SENSITIVE |= {"sigma", "noise_multiplier", "linf_sensitivity", "l0_sensitivity"}


@in_subtests("name", NAMES)
def test_numbers_are_refused_by_name_or_work(name: str) -> None:
    for field in dataclasses.fields(kind(name)):
        for number in NUMBERS if field.init else ():
            try:
                mechanism = make(name, **{field.name: number})
            except InvalidParameter:
                continue
            assert mechanism.event is not None
            if name in OF_RUNS or field.name == "count":
                continue
            case = EVERY[name]
            for answer in leaves(case(mechanism, case.value, SeededBits(1))):
                assert math.isfinite(answer)


@in_subtests("name", NAMES)
def test_what_bounds_the_loss_is_above_zero_and_finite(name: str) -> None:
    fields = {field.name for field in dataclasses.fields(kind(name)) if field.init}
    for field in SENSITIVE & fields:
        for number in (0, -1, math.nan, math.inf, -math.inf, "x", 1j, True):
            if number is True and field not in {"epsilon", "l0_sensitivity", "linf_sensitivity"}:
                continue
            with pytest.raises(InvalidParameter, match=field):
                make(name, **{field: number})
