"""Who is bound, and how far that moves a series: against all patterns of short ones."""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from unacorda.accounting.matrices import squared_sensitivity as of_event
from unacorda.errors import InvalidParameter
from unacorda.over_time.bounds import OverTime, SlidingWindow, check_wanted, window
from unacorda.over_time.encoders import Encoder, choose_encoder
from unacorda.over_time.sensitivity import squared_norm, squared_sensitivity
from unacorda.privacy.events import MatrixFactorization

T = 12
POWERS = [Fraction(n, 20) for n in (0, 1, 4, 7, 10)]
OTHERS = [Fraction(n, 20) for n in (2, 3, 5, 6, 8, 9)]
ENCODERS = [Encoder.of_power(power, bands) for power in POWERS for bands in (3, T)]
EVERY = [
    *ENCODERS,
    *(
        pytest.param(Encoder.of_power(power, bands), marks=pytest.mark.long)
        for power in OTHERS
        for bands in (3, T)
    ),
]


def gram(encoder: Encoder, steps: int = T) -> NDArray[np.float64]:
    matrix = np.zeros((steps, steps))
    for distance, c in enumerate(encoder.coefficients[:steps]):
        matrix += c * np.eye(steps, k=-distance)
    return np.asarray(matrix.T @ matrix)


def patterns(person: OverTime, steps: int = T) -> Iterator[NDArray[np.int64]]:
    """All extreme ways in which rows can lie: whole steps, or all rows of one."""
    for steps_in in itertools.product((0, 1), repeat=steps):
        taken = np.array(steps_in)
        if person.within is not None:
            parts = [taken[at : at + person.within] for at in range(0, steps, person.within)]
            assert person.max_steps is not None
            if all(part.sum() <= person.max_steps for part in parts):
                yield taken * person.each
        elif person.max_steps is None or taken.sum() <= person.max_steps:
            yield from _of_rows(taken, person)


def _of_rows(taken: NDArray[np.int64], person: OverTime) -> Iterator[NDArray[np.int64]]:
    if person.max_rows is None:
        yield taken * person.each
        return
    places = np.flatnonzero(taken)
    for rows in itertools.product(range(1, person.each + 1), repeat=len(places)):
        if sum(rows) <= person.max_rows:
            found = np.zeros(len(taken), np.int64)
            found[places] = rows
            yield found


def sensitivity(encoder: Encoder, person: OverTime, **choices: Any) -> float:
    chosen = {"steps": T, "replaced": False, "signed": False, **choices}
    return float(squared_sensitivity(encoder.column, person, **chosen))


@pytest.mark.parametrize("encoder", EVERY)
@pytest.mark.parametrize("k", [1, 2, 3, 5, 12])
def test_the_first_steps_are_the_worst_of_all_patterns(encoder: Encoder, k: int) -> None:
    entries = gram(encoder)
    worst = max(v @ entries @ v for v in patterns(OverTime(max_steps=k)))
    assert sensitivity(encoder, OverTime(max_steps=k)) == pytest.approx(worst, rel=1e-12)
    assert sensitivity(encoder, OverTime(max_steps=k, max_rows_per_step=3)) == pytest.approx(
        9 * worst, rel=1e-12
    )
    assert squared_norm(encoder.coefficients, OverTime(max_steps=k), steps=T) == pytest.approx(
        worst, rel=1e-12
    )


@pytest.mark.parametrize("encoder", ENCODERS)
@pytest.mark.parametrize(("rows", "each"), [(1, 1), (3, 3), (4, 2), (5, 2), (3, 1)])
def test_rows_in_all_move_no_more_than_is_said(encoder: Encoder, rows: int, each: int) -> None:
    person = OverTime(max_rows=rows, max_rows_per_step=each)
    entries = gram(encoder, 8)
    worst = max(v @ entries @ v for v in patterns(person, 8))
    found = sensitivity(encoder, person, steps=8)
    assert found >= worst * (1 - 1e-12)
    if rows % each == 0:  # attained by whole steps, or by one
        assert found == pytest.approx(worst, rel=1e-12)


@pytest.mark.parametrize("encoder", EVERY)
@pytest.mark.parametrize(("k", "within"), [(1, 3), (2, 3), (1, 4), (2, 4), (3, 6), (2, 5), (3, 7)])
def test_periods_are_bounded_from_above_and_closely(encoder: Encoder, k: int, within: int) -> None:
    person = OverTime(max_steps=k, within=within)
    entries = gram(encoder)
    worst = max(v @ entries @ v for v in patterns(person))
    found = sensitivity(encoder, person)
    assert worst * (1 - 1e-12) <= found <= 1.25 * worst


@pytest.mark.parametrize("steps", [T, 2_100])
def test_periods_that_are_full_are_bounded_as_all_steps(steps: int) -> None:
    encoder = Encoder.of_power(Fraction(1, 2), steps)
    full, every = OverTime(max_steps=4, within=4), OverTime(max_steps=steps)
    found, expected = (sensitivity(encoder, one, steps=steps) for one in (full, every))
    assert found == pytest.approx(expected, rel=1e-9)
    assert squared_norm(encoder.coefficients, full, steps=steps) == pytest.approx(expected)


@pytest.mark.parametrize(("k", "within"), [(1, 30), (10, 30), (29, 30), (100, 365)])
def test_the_bound_of_long_series_is_near_a_pattern(k: int, within: int) -> None:
    steps, worst = 3_000, 0.0
    for encoder in (Encoder.of_power(Fraction(1, 5), steps), Encoder.of_power(Fraction(1, 2), 128)):
        pattern = np.arange(steps) % within < k
        moved = np.convolve(encoder.coefficients, pattern)[:steps]
        found = sensitivity(encoder, OverTime(max_steps=k, within=within), steps=steps)
        ratio = math.sqrt(found / float(moved @ moved))
        worst = max(worst, ratio)
        assert ratio >= 1 - 1e-12
    assert worst <= 1.35


def test_long_series_have_the_bound_of_periods_too() -> None:
    encoder = Encoder.of_power(Fraction(3, 10), 64)
    person = OverTime(max_steps=3, within=30)
    below = squared_norm(encoder.coefficients, person, steps=2_000)
    above = squared_norm(encoder.coefficients, person, steps=2_001)
    assert below < above < 1.02 * below


@pytest.mark.parametrize("encoder", ENCODERS[::3])
@pytest.mark.parametrize("k", [1, 2, 3])
def test_a_person_is_replaced_by_another_in_all_ways(encoder: Encoder, k: int) -> None:
    steps = 8
    entries = gram(encoder, steps)
    person = OverTime(max_steps=k)
    every = [v for v in patterns(person, steps) if v.sum() == k]
    # in one group, and in two: nothing is above, and two groups reach it
    one = max((v - w) @ entries @ (v - w) for v in every for w in every)
    two = max(v @ entries @ v + w @ entries @ w for v in every for w in every)
    found = sensitivity(encoder, person, steps=steps, replaced=True)
    assert one <= found * (1 + 1e-12)
    assert found == pytest.approx(two, rel=1e-12)
    signed = max(
        (v * s - w * t) @ entries @ (v * s - w * t)
        for v in every
        for w in every
        for s in (-1, 1)
        for t in (-1, 1)
    )
    doubled = sensitivity(encoder, person, steps=steps, replaced=True, signed=True)
    assert doubled == pytest.approx(signed, rel=1e-12)


def test_the_price_is_that_of_the_event() -> None:
    square_root = Encoder.of_power(Fraction(1, 2), 365)
    for k, stated in ((1, 1.716), (10, 14.363), (30, 39.131)):
        event = MatrixFactorization(
            noise_multiplier=1, encoder=square_root.column, steps=365, participations=k
        )
        found = sensitivity(square_root, OverTime(max_steps=k), steps=365)
        assert found == float(of_event(event))
        assert math.sqrt(found) == pytest.approx(stated, abs=6e-4)


@pytest.mark.parametrize(
    ("person", "kind", "stated", "bands"),
    [
        (OverTime(max_steps=1), "totals", 2.8, 365),
        (OverTime(max_steps=10), "totals", 21.2, 365),
        (OverTime(max_steps=30), "totals", 52.1, 365),
        (OverTime(max_steps=1), window(28), 2.5, 16),
        (OverTime(max_steps=10), window(28), 15.0, 32),
        (OverTime(max_steps=30), window(28), 28.4, 1),
        (OverTime(max_rows=1), "totals", 2.8, 365),
        (OverTime(max_rows=10), "totals", 27.8, 365),
        (OverTime(max_rows=30), "totals", 83.4, 365),
    ],
)
def test_errors_of_a_year(person: OverTime, kind: Any, stated: float, bands: int) -> None:
    # Root mean squares at rho 1/2, where sigma is the sensitivity.
    encoder = choose_encoder(person, (kind,), steps=365)
    assert encoder.bands == bands
    moved = math.sqrt(sensitivity(encoder, person, steps=365))
    found = moved * math.sqrt(np.mean(encoder.deviations(kind, 365) ** 2))
    assert found == pytest.approx(stated, rel=0.02)


@pytest.mark.parametrize(
    ("k", "totals", "square_root"), [(1, 13.5, 2.8), (10, 42.8, 23.3), (30, 74.1, 63.4)]
)
def test_errors_of_plain_steps_and_of_the_square_root(
    k: int, totals: float, square_root: float
) -> None:
    person = OverTime(max_steps=k)
    for encoder, stated in (
        (Encoder.of_power(Fraction(0), 1), totals),
        (Encoder.of_power(Fraction(1, 2), 365), square_root),
    ):
        moved = math.sqrt(sensitivity(encoder, person, steps=365))
        found = moved * math.sqrt(np.mean(encoder.deviations("totals", 365) ** 2))
        assert found == pytest.approx(stated, rel=0.02)


def test_several_kinds_are_weighed_by_their_own_best() -> None:
    person = OverTime(max_steps=10)
    both = choose_encoder(person, ("totals", window(28)), steps=365)
    assert both not in [choose_encoder(person, (one,), steps=365) for one in ("totals", window(28))]
    assert both.bands > 32


def test_without_an_end_bands_are_few() -> None:
    person = OverTime(max_steps=10)
    encoder = choose_encoder(person, (window(28), "steps"), steps=None)
    assert encoder.bands <= 128
    endless = squared_sensitivity(encoder.column, person, steps=None, replaced=False, signed=False)
    assert endless == squared_sensitivity(
        encoder.column, person, steps=5_000, replaced=False, signed=False
    )


@pytest.mark.parametrize(
    ("arguments", "wrong"),
    [
        ({}, "max_steps"),
        ({"max_steps": 0}, "max_steps"),
        ({"max_steps": 3, "within": 2}, "within"),
        ({"max_rows": 3, "within": 30}, "within"),
        ({"max_steps": True}, "max_steps"),
        ({"max_steps": 1, "max_rows_per_step": 1.5}, "max_rows_per_step"),
        ({"max_steps": 10**9}, "max_steps"),
    ],
)
def test_refuses_what_bounds_no_person(arguments: dict[str, Any], wrong: str) -> None:
    with pytest.raises(InvalidParameter) as caught:
        OverTime(**arguments)
    assert caught.value.argument == wrong


@pytest.mark.parametrize("wanted", [(), "days", ("totals", 28), None])
def test_refuses_what_is_no_kind_of_sum(wanted: Any) -> None:
    with pytest.raises(InvalidParameter, match="wanted"):
        check_wanted(wanted)


def test_refuses_a_window_of_one_step() -> None:
    with pytest.raises(InvalidParameter, match="width"):
        window(1)
    assert check_wanted(window(2)) == (SlidingWindow(2),)
