"""Noise correlated by buffers: its matrix, its law, its bits against 1000 digits, its error."""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

import math
from fractions import Fraction
from typing import Any

import mpmath
import numpy as np
import pytest
from numpy.typing import NDArray
from tests.learning.training_normals import DIGITS, KEY, SCALE, ambiguous, normals, rounded
from tests.tiers import mostly_long

from unacorda import GDP, accounting
from unacorda.accounting.matrices import squared_sensitivity
from unacorda.errors import InvalidParameter
from unacorda.learning.noise import correlated
from unacorda.learning.noise.banded import Banded
from unacorda.learning.noise.buffered import Buffered
from unacorda.learning.noise.correlated import CorrelatedNoise
from unacorda.mechanisms.correlated.prefix_sums import BinaryTree

Floats = NDArray[np.float64]

ONE = Buffered(buffers=1, decays=(0.875,), weights=(0.5,))
TWO = Buffered(buffers=2, decays=(0.99609375, 0.5), weights=(0.125, 0.375))
SLOW = Buffered(buffers=2, decays=(1 - 2.0**-20, 0.0), weights=(2.0**-30, 0.75))
FITTED = Buffered(buffers=3).fitted(steps=40, separation=10)
ALL = [ONE, TWO, SLOW, FITTED]


def exact_column(noise: Buffered, steps: int) -> list[Fraction]:
    """The first column of C in fractions."""
    terms = [(Fraction(w), Fraction(d)) for w, d in zip(noise.weights, noise.decays, strict=True)]
    return [
        Fraction(1),
        *(sum((w * d**k for w, d in terms), Fraction(0)) for k in range(steps - 1)),
    ]


def matrix_of(noise: Buffered, steps: int) -> Floats:
    column = [float(one) for one in exact_column(noise, steps)]
    return np.array([[column[i - j] if i >= j else 0 for j in range(steps)] for i in range(steps)])


# The matrix


@pytest.mark.parametrize("noise", ALL, ids=repr)
def test_the_event_has_the_encoder_rounded_up(noise: Buffered) -> None:
    event = noise.event_in_order(1.5, steps=40, separation=10)
    assert (event.participations, event.separation, event.steps) == (4, 10, 40)
    for stated, own in zip(event.encoder, exact_column(noise, 40), strict=True):
        assert isinstance(stated, Fraction)
        assert own <= stated <= own * (1 + Fraction(1, 2**37)) + Fraction(1, 2**47)
    moved = np.linalg.norm(matrix_of(noise, 40)[:, ::10].sum(axis=1))
    assert math.sqrt(squared_sensitivity(event)) == pytest.approx(moved, rel=1e-9)


@pytest.mark.parametrize("noise", ALL, ids=repr)
def test_the_inverse_and_the_errors_of_prefix_sums_are_those_of_the_matrix(noise: Buffered) -> None:
    inverse = np.linalg.inv(matrix_of(noise, 30))
    assert noise.inverse(30) == pytest.approx(inverse[:, 0], abs=1e-12)
    sums = np.tril(np.ones((30, 30))) @ inverse
    expected = math.sqrt((sums**2).sum(axis=1).mean())
    assert noise.prefix_error(30) == pytest.approx(expected, rel=1e-12)


def error_at_equal_privacy(noise: Any, steps: int, separation: int) -> float:
    event = noise.event_in_order(1, steps=steps, separation=separation)
    return float(noise.prefix_error(steps) * math.sqrt(squared_sensitivity(event)))


@pytest.mark.long
@pytest.mark.parametrize(
    ("steps", "separation", "errors", "of_a_tree"),
    [
        (1000, 1000, [0.154, 0.138, 0.136], 0.239),
        (1000, 100, [0.176, 0.172, 0.172], 0.393),
        (100, 20, [0.379, 0.379, 0.379], 0.774),
    ],
)
def test_few_buffers_err_less_than_many_bands_and_a_tree(
    steps: int, separation: int, errors: list[float], of_a_tree: float
) -> None:
    plain = error_at_equal_privacy(Banded(bands=1), steps, separation)
    for buffers, expected in enumerate(errors, 1):
        noise = Buffered(buffers=buffers).fitted(steps=steps, separation=separation)
        found = error_at_equal_privacy(noise, steps, separation) / plain
        assert found == pytest.approx(expected, abs=1.5e-3)
    others = [error_at_equal_privacy(Banded(bands=b), steps, separation) for b in (8, 32)]
    tree = BinaryTree(
        sigma=1,
        l2_sensitivity=1,
        steps=steps,
        participations=-(-steps // separation),
        separation=separation,
    )
    mu_squared = float(accounting.price(tree.event, GDP).mu_squared)
    others.append(math.sqrt(float((tree.standard_errors() ** 2).mean()) * mu_squared))
    assert others[-1] / plain == pytest.approx(of_a_tree, abs=1.5e-3)
    assert errors[1] < min(others) / plain


def test_the_fit_is_near_the_best_of_all_matrices_for_one_use() -> None:
    """No factorization has a smaller error than the bound by singular values."""
    noise, steps = Buffered(buffers=3).fitted(steps=200, separation=200), 200
    sums = np.tril(np.ones((steps, steps)))
    least = np.linalg.svd(sums, compute_uv=False).sum() / steps  # Li and Miklau 2013
    assert 1 <= error_at_equal_privacy(noise, steps, steps) / least < 1.15


# The law


def released(noise: Buffered, steps: int, size: int) -> Floats:
    """The noise of each step alone, a row for each."""
    own = CorrelatedNoise(noise, scale=SCALE, key=KEY, steps=steps)
    rows = np.zeros((steps, size))
    for step, row in enumerate(rows):
        own.add([row], attempt=0, step=step)
    return rows


def largest_deviation(white: Floats) -> float:
    """The largest deviation of the covariance of steps from 1 and 0, in standard errors."""
    steps, size = white.shape
    covariance = white @ white.T / size - np.eye(steps)
    errors = np.sqrt((1 + np.eye(steps)) / size)
    return float(np.abs(covariance / errors).max())


@pytest.mark.parametrize("noise", [ONE, TWO, FITTED], ids=repr)
def test_the_noise_of_steps_is_that_of_the_matrix_mechanism(noise: Buffered) -> None:
    rows = released(noise, 9, 40_000) / SCALE
    # 45 entries beyond 6.5 standard errors: false alarm 4e-9.
    assert largest_deviation(matrix_of(noise, 9) @ rows) < 6.5
    other = Buffered(buffers=1, decays=(0.75,), weights=(0.25,))
    assert largest_deviation(matrix_of(other, 9) @ rows) > 20  # and another matrix is found


# Bits against 1000 digits


def last_row(noise: Buffered, steps: int, size: int) -> list[Any]:
    """The last row of C^-1 N with 1000 digits, from all rows before it."""
    with mpmath.workdps(DIGITS):
        column = [mpmath.mpf(c.numerator) / c.denominator for c in exact_column(noise, steps)]
        rows: list[list[Any]] = []
        for step in range(steps):
            row = normals(KEY, (0, step, 0), size)
            for age in range(1, step + 1):
                row = [z - column[age] * w for z, w in zip(row, rows[-age], strict=True)]
            rows.append(row)
    return rows[-1]


def wrong(noise: Buffered, steps: int, size: int) -> int:
    """How many numbers nearest to a middle differ from their rounding with 1000 digits."""
    found = last_row(noise, steps, size)
    sums = ambiguous(found)
    own = CorrelatedNoise(noise, scale=SCALE, key=KEY, steps=steps)
    for step in range(steps - 1):
        own.advance([size], attempt=0, step=step)
    given = sums.copy()
    own.add([given], attempt=0, step=steps - 1)
    return int((given != rounded(sums, found)).sum())


@pytest.mark.parametrize("steps", mostly_long([2, 1, 12]))
@pytest.mark.parametrize("noise", ALL, ids=repr)
def test_forced_ambiguous_cases_are_rounded_as_with_1000_digits(
    noise: Buffered, steps: int
) -> None:
    assert wrong(noise, steps, 21) == 0


@pytest.mark.long
def test_a_zone_that_is_too_small_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(correlated, "_NORMAL", 0.0)
    monkeypatch.setattr(correlated, "_ABSOLUTE", 0.0)
    monkeypatch.setattr(correlated, "_UNIT", 0.0)
    assert wrong(TWO, 12, 51) > 0


def test_a_number_follows_from_its_own_buffers_over_many_steps() -> None:
    """Errors of the computed rows stay within what is granted: C times them against the normals."""
    own, steps = CorrelatedNoise(TWO, scale=SCALE, key=KEY, steps=400), 400
    rows = np.zeros((steps, 7))
    fresh = np.zeros((steps, 7))
    for step in range(steps):
        own.advance([7], attempt=0, step=step)
        rows[step] = own._row[0]
        fresh[step] = correlated._normals(KEY, (0, step, 0), 7)
    with mpmath.workdps(60):
        column = [mpmath.mpf(c.numerator) / c.denominator for c in exact_column(TWO, steps)]
        for step in (1, 50, steps - 1):
            for place in range(7):
                given = sum(column[step - s] * mpmath.mpf(rows[s, place]) for s in range(step + 1))
                error = abs(given - mpmath.mpf(fresh[step, place]))
                assert error < own._error - correlated._NORMAL


BAD: dict[str, tuple[dict[str, Any], str]] = {
    "no buffers": ({"buffers": 0}, "buffers"),
    "many buffers": ({"buffers": 9}, "buffers"),
    "one decay of two": ({"decays": (0.5,), "weights": (0.5,)}, "decays"),
    "a decay of 1": ({"buffers": 1, "decays": (1.0,), "weights": (0.5,)}, "decays"),
    "a fine decay": ({"buffers": 1, "decays": (0.1,), "weights": (0.5,)}, "decays"),
    "a weight of 0": ({"buffers": 1, "decays": (0.5,), "weights": (0.0,)}, "weights"),
    "large weights": ({"decays": (0.5, 0.25), "weights": (0.75, 0.5)}, "weights"),
    "a weight that is no number": (
        {"buffers": 1, "decays": (0.5,), "weights": (math.nan,)},
        "weights",
    ),
}


@pytest.mark.parametrize("case", BAD)
def test_bad_input_is_refused_by_name(case: str) -> None:
    given, name = BAD[case]
    with pytest.raises(InvalidParameter, match=name):
        Buffered(**given)
