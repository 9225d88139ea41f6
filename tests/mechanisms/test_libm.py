"""What the certificates assume of NumPy's log, exp and of the table of sines, on this machine."""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from mpmath import mp, mpf
from numpy.typing import NDArray

from unacorda.bits import SeededBits
from unacorda.mechanisms.noise import continuous

Floats = NDArray[np.float64]
ALLOWED = 2.0**-49  # relative; the proofs grant 2^-46, eight times as much


def points(count: int, seed: int) -> Floats:
    """Uniform numbers, their mirror near one, powers of two, and the ends."""
    uniform = SeededBits(seed).words(count) * 2.0**-64
    powers = 2.0 ** -np.arange(0.0, 64.0)
    near_one = 1 - powers[1:54]
    parts = [uniform, uniform**8, 1 - uniform * 1e-3, powers, np.nextafter(powers, 2), near_one]
    joined = np.concatenate(parts)
    return joined[joined > 0]


def largest_error(
    function: Callable[[Floats], Floats], truth: Callable[[mpf], mpf], at: Floats
) -> float:
    with mp.workprec(120):
        worst = 0.0
        for x, found in zip(at.tolist(), function(at).tolist(), strict=True):
            exact = truth(mpf(x))
            if exact == 0:
                assert found == 0
                continue
            worst = max(worst, float(abs((mpf(found) - exact) / exact)))
    return worst


COUNTS = [pytest.param(1500, id="few"), pytest.param(100_000, id="many", marks=pytest.mark.slow)]


@pytest.mark.parametrize("count", COUNTS)
def test_log_is_as_exact_as_assumed(count: int) -> None:
    at = points(count // 3, 71)
    assert largest_error(np.log, mp.log, at) < ALLOWED
    for size in (1, 2, 3, 7):  # the remainders of a vector loop take other code
        assert largest_error(np.log, mp.log, at[:size]) < ALLOWED


@pytest.mark.parametrize("count", COUNTS)
def test_log_is_so_on_all_positive_numbers(count: int) -> None:
    drawn = SeededBits(76).words(count // 3)
    spread = np.ldexp(1 + drawn * 2.0**-64, (drawn % np.uint64(2000)).astype(np.int64) - 1000)
    levels = -np.log(points(count // 3, 77))  # what Gumbel noise takes the logarithm of
    ends = np.array([5e-324, 2.0**-1022, 1.7976931348623157e308, 1 + 2.0**-52])
    at = np.concatenate([spread, 1 / points(200, 78), levels[levels > 0], ends])
    assert largest_error(np.log, mp.log, at) < ALLOWED


@pytest.mark.parametrize("count", COUNTS)
def test_exp_is_as_exact_as_assumed(count: int) -> None:
    at = -700 * points(count // 3, 72)
    assert largest_error(np.exp, mp.exp, at) < ALLOWED
    assert np.exp(np.array([-1e4, -np.inf])).tolist() == [0, 0]


@pytest.mark.parametrize("count", COUNTS)
def test_cosine_and_sine_of_a_word(count: int) -> None:
    edges = [0, 2**64 - 1, 2**52, 2**52 - 1, 2**63, 2**62, 2**61, 3 << 61]
    words = np.concatenate([SeededBits(73).words(count), np.array(edges, np.uint64)])
    cosine, sine = continuous.cosine_and_sine(words)
    with mp.workprec(120):
        for word, c, s in zip(words.tolist(), cosine.tolist(), sine.tolist(), strict=True):
            turn = mpf(word) / 2**63
            # The proof grants 2^-51.
            assert abs(mpf(c) - mp.cospi(turn)) < 2.0**-52
            assert abs(mpf(s) - mp.sinpi(turn)) < 2.0**-52


@pytest.mark.parametrize("count", COUNTS)
def test_the_whole_standard_noise_is_within_its_bound(count: int) -> None:
    """The float64 value before the floor, as laplace_chunk and gaussian_chunk compute it."""
    words: Any = SeededBits(74).words(count)
    signed = words.view(np.int64)
    logarithm = np.log(np.abs(signed * 2.0**-63))
    cosine, _ = continuous.cosine_and_sine(words[::-1].copy())
    normal = np.sqrt(-2 * logarithm) * cosine
    with mp.workprec(120):
        for k, word in enumerate(signed.tolist()):
            if not continuous._TAIL <= logarithm[k] <= continuous._HEAD:
                continue
            exact = -mp.log((mpf(word if word >= 0 else -word - 1) + mpf("0.5")) / 2**63)
            assert abs(mpf(-logarithm[k]) - exact) < continuous._RELATIVE
            wave = mp.cospi(mpf(int(words[-1 - k])) / 2**63)
            assert abs(mpf(normal[k]) - mp.sqrt(2 * exact) * wave) < continuous._RELATIVE


def test_the_square_root_is_correctly_rounded() -> None:
    at = points(300, 75)
    assert largest_error(np.sqrt, mp.sqrt, at) <= 2.0**-53


@pytest.mark.parametrize("count", COUNTS)
def test_expm1_below_zero_is_as_exact_as_assumed(count: int) -> None:
    drawn = SeededBits(77).words(count // 3)
    at = -np.ldexp(1 + drawn * 2.0**-64, (drawn % np.uint64(90)).astype(np.int64) - 85)
    assert largest_error(np.expm1, mp.expm1, at) < ALLOWED
    for size in (1, 2, 3, 7):
        assert largest_error(np.expm1, mp.expm1, at[:size]) < ALLOWED
