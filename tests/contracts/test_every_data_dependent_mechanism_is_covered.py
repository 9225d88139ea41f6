"""A new mechanism that follows the data cannot escape the tests of bad input and odd values."""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

import dataclasses
import inspect
import math
from collections.abc import Iterator
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from tests.contracts.test_every_mechanism_is_covered import CountedBits, NoBits
from tests.mechanisms.every_mechanism import NO_NUMBERS, ODD_NUMBERS
from tests.mechanisms.faces import everything as mechanisms
from tests.support.cases import in_subtests

from unacorda.bits import SeededBits
from unacorda.errors import InvalidParameter
from unacorda.mechanisms.data_dependent import Median, Quantile, Sum
from unacorda.privacy.events import from_json

MEDIAN = Median(lower=0, upper=10)
GRID = mechanisms.geometric_grid(1, 10**6, ratio=2)
TOTAL = Sum(lower=0, upper=None)
MADE: dict[str, dict[str, Any]] = {
    "FoundClipping": {"epsilon": 1, "levels": GRID},
    "InverseSensitivity": {"epsilon": 1, "statistic": MEDIAN},
    "ProposeTestRelease": {"epsilon": 1, "delta": 1e-3, "statistic": MEDIAN, "proposed": 1},
    "ShiftedInverse": {"epsilon": 1, "statistic": TOTAL, "grid": GRID},
    "SmoothSensitivity": {"epsilon": 1, "statistic": MEDIAN},
}
VALUES = [0.5, 1, 2, 3]
ODD: tuple[Any, ...] = (*ODD_NUMBERS, [], [-5.0], [7.0] * 40, [1e300] * 3)
NUMBERS: tuple[Any, ...] = (
    *(0, -1, -0.0, math.nan, math.inf, -math.inf, 5e-324, 1e-300, Fraction(1, 10**400)),
    *(1e20, 1.7e308, 10**400, 2**63, True, None, "x", 1j, [1], np.array([1.0])),
)
LISTED = {
    name
    for name in mechanisms.__all__
    if inspect.isclass(kind := getattr(mechanisms, name)) and ".data_dependent" in kind.__module__
}


def make(name: str, **changed: Any) -> Any:
    return getattr(mechanisms, name)(**{**MADE[name], **changed})


def numbers(answer: Any) -> Iterator[float]:
    """All numbers of an answer."""
    if dataclasses.is_dataclass(answer):
        for field in dataclasses.fields(answer):
            yield from numbers(getattr(answer, field.name))
    elif isinstance(answer, int | float | Fraction):
        yield float(answer)


def test_every_one_is_registered() -> None:
    assert set(MADE) == LISTED


@pytest.mark.parametrize("name", MADE)
def test_every_one_is_a_frozen_value_whose_event_is_kept(name: str) -> None:
    kind, mechanism = getattr(mechanisms, name), make(name)
    with pytest.raises(dataclasses.FrozenInstanceError):
        mechanism.epsilon = 2
    assert from_json(mechanism.event.to_json()) == mechanism.event
    assert "Source: " in (inspect.getdoc(kind) or "")


@pytest.mark.parametrize("name", MADE)
def test_what_is_refused_is_refused_before_a_bit_is_drawn(name: str) -> None:
    mechanism = make(name)
    for value in NO_NUMBERS:
        with pytest.raises(InvalidParameter) as caught:
            mechanism.release(value, bits=NoBits())
        # An error below it may show the data.
        assert caught.value.__context__ is None
        assert caught.value.__cause__ is None
    drawn = CountedBits()
    mechanism.release(VALUES, bits=drawn)
    assert drawn.drawn > 0


@pytest.mark.parametrize("name", MADE)
def test_no_values_raise_and_answers_are_finite(name: str) -> None:
    mechanism = make(name)
    for values in (VALUES, *ODD):
        for seed in range(3):
            answer = mechanism.release(values, bits=SeededBits(seed))
            assert all(math.isfinite(number) for number in numbers(answer)), (values, answer)


@pytest.mark.parametrize("name", MADE)
def test_minus_zero_is_zero(name: str) -> None:
    mechanism = make(name)
    for seed in range(4):
        one, other = (
            mechanism.release([zero, 1.0, 2.0, 0.25], bits=SeededBits(seed)) for zero in (0.0, -0.0)
        )
        assert one == other
        signs = [[math.copysign(1, number) for number in numbers(found)] for found in (one, other)]
        assert signs[0] == signs[1]


@pytest.mark.parametrize("name", MADE)
def test_numbers_are_refused_by_name_or_work(name: str) -> None:
    for field in dataclasses.fields(getattr(mechanisms, name)):
        for number in NUMBERS if field.init else ():
            try:
                mechanism = make(name, **{field.name: number})
            except InvalidParameter:
                continue
            assert mechanism.event is not None
            if getattr(mechanism, "statistic", MEDIAN) is None:
                continue  # it releases what it is handed, with the sensitivity beside it
            answer = mechanism.release(VALUES, bits=SeededBits(1))
            assert all(math.isfinite(found) for found in numbers(answer)), (field.name, number)


@in_subtests("name", MADE)
@in_subtests("number", [0, -1, math.nan, math.inf, "x", 1j])
def test_epsilon_is_above_zero_and_finite(name: str, number: Any) -> None:
    with pytest.raises(InvalidParameter, match="epsilon"):
        make(name, epsilon=number)


def test_other_statistics_are_taken() -> None:
    for name in ("InverseSensitivity", "SmoothSensitivity", "ProposeTestRelease"):
        mechanism = make(name, statistic=Quantile(q=0.9, lower=0, upper=10))
        for number in numbers(mechanism.release(VALUES, bits=SeededBits(2))):
            assert 0 <= number <= 10
