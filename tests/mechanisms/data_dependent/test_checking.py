"""The checker of sensitivities: it passes what is right, and finds and names what is wrong."""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

import math
from collections.abc import Callable
from fractions import Fraction
from typing import Any

import pytest
from tests.support.cases import in_subtests

from unacorda import AddRemove, ReplaceOne, ZeroOut
from unacorda.errors import InvalidParameter
from unacorda.mechanisms.data_dependent import check_sensitivity

DOMAIN = (0, 1, 2, 3)


def median_loss(records: list[int]) -> list[int]:
    """How many records must come or go before the lower median is each number of the domain."""
    return [
        max(
            0,
            sum(x < y for x in records) + 1 - sum(x >= y for x in records),
            sum(x > y for x in records) - sum(x <= y for x in records),
        )
        for y in DOMAIN
    ]


def rank_loss(records: list[int]) -> dict[int, int]:
    """How many records must be replaced before that of rank 2 is each number of the domain."""
    return {
        y: max(0, sum(x < y for x in records) - 2, 3 - sum(x <= y for x in records)) for y in DOMAIN
    }


def mode_gap(records: list[int]) -> int:
    counts = sorted((records.count(y) for y in DOMAIN), reverse=True)
    return counts[0] - counts[1]


RIGHT: list[tuple[Callable[[list[int]], Any], Any, Any]] = [
    (len, AddRemove, 1),
    (len, ReplaceOne, 0),
    (median_loss, AddRemove, 1),
    (rank_loss, ReplaceOne, 1),
    (mode_gap, AddRemove, 1),
    (mode_gap, ReplaceOne, 2),
    (sum, AddRemove, 3),
    (lambda records: Fraction(sum(records), 7), ReplaceOne, "3/7"),
    (lambda records: 0.1 * sum(records), AddRemove, 0.3),
    (lambda _: math.inf, AddRemove, 0),
    (lambda records: max(records, default=-1) > 1, ReplaceOne, 1),
]


@in_subtests(("loss", "neighbors", "sensitivity"), RIGHT)
def test_a_right_sensitivity_passes_and_is_met(
    loss: Callable[[list[int]], Any], neighbors: Any, sensitivity: Any
) -> None:
    found = check_sensitivity(loss, DOMAIN, 4, neighbors=neighbors, sensitivity=sensitivity)
    assert found
    assert found.violation is None
    assert found.largest == pytest.approx(float(Fraction(sensitivity)))
    assert found.data_sets == math.comb(8, 4)
    assert "no proof" in str(found)


@in_subtests(("loss", "neighbors", "sensitivity"), RIGHT)
def test_a_smaller_one_does_not(
    loss: Callable[[list[int]], Any], neighbors: Any, sensitivity: Any
) -> None:
    if Fraction(sensitivity) == 0:
        return
    less = Fraction(sensitivity) * (1 - Fraction(1, 10**6))
    found = check_sensitivity(loss, DOMAIN, 4, neighbors=neighbors, sensitivity=less)
    assert not found
    assert found.violation is not None
    first, second = found.violation.first, found.violation.second
    assert len(second) - len(first) == (1 if neighbors is AddRemove else 0)
    one, other = loss(list(first)), loss(list(second))
    if found.violation.candidate is not None:
        one, other = one[found.violation.candidate], other[found.violation.candidate]
    assert abs(Fraction(one) - Fraction(other)) > less
    assert "not private" in str(found)


def moved_centre(records: list[int]) -> int:
    """The distance until the median is more than 1 off where it stands: the centre moves too."""
    middle = sorted(records)[(len(records) - 1) // 2] if records else 0
    losses = zip(DOMAIN, median_loss(records), strict=True)
    return min(loss for y, loss in losses if abs(y - middle) > 1)


def half_as_steep(records: list[int]) -> list[int]:
    """A loss that is 1-sensitive where records come or go, used where they are replaced."""
    return median_loss(records)


@pytest.mark.parametrize(
    ("wrong", "neighbors"),
    [
        (moved_centre, AddRemove),
        (half_as_steep, ReplaceOne),
        (lambda records: 2 * len(records), AddRemove),
        (lambda records: len(records) ** 2, AddRemove),
        (lambda records: max(records, default=0), ReplaceOne),
    ],
)
def test_known_wrong_losses_are_caught(wrong: Callable[[list[int]], Any], neighbors: Any) -> None:
    assert not check_sensitivity(wrong, DOMAIN, 5, neighbors=neighbors)


def test_the_first_pair_is_told() -> None:
    found = check_sensitivity(lambda records: [0, 3 * records.count("b")], ["a", "b"], 2)
    assert str(found) == (
        "The loss of candidate 1 is 0 on [] and 3 on ['b'], which differ in one record "
        "(AddRemove): it moves by more than 1, so a mechanism that trusts this sensitivity is "
        "not private."
    )


@pytest.mark.parametrize(
    "loss",
    [
        lambda records: records[0] if records else 0,
        lambda _: math.nan,
        lambda _: "a",
        lambda _: [[1]],
    ],
)
def test_an_order_that_matters_and_what_is_no_number_fail(loss: Any) -> None:
    found = check_sensitivity(loss, [0, 1], 3, sensitivity=5)
    assert not found
    assert "order of the records, or is not a number" in str(found)


def test_a_candidate_that_comes_and_goes_fails() -> None:
    found = check_sensitivity(lambda records: dict.fromkeys(records, 0), [0, 1], 2)
    assert not found
    assert check_sensitivity(lambda _: {0: math.inf, 1: 2}, [0, 1], 2)
    infinite = check_sensitivity(lambda records: math.inf if records else 0, [0, 1], 2)
    assert not infinite
    assert infinite.largest == math.inf


@pytest.mark.parametrize(
    ("parameters", "argument"),
    [
        ({"neighbors": ZeroOut}, "neighbors"),
        ({"sensitivity": -1}, "sensitivity"),
        ({"n": -1}, "n"),
        ({"n": 2.0}, "n"),
        ({"n": 10**6}, "n"),
    ],
)
def test_bad_arguments_are_named(parameters: dict[str, Any], argument: str) -> None:
    with pytest.raises(InvalidParameter) as raised:
        check_sensitivity(len, **{"domain": DOMAIN, "n": 2, **parameters})
    assert raised.value.argument == argument
