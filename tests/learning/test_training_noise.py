"""Training noise: its law, its bits against 1000 digits, its places, and faults that must show."""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

import math
from fractions import Fraction
from hashlib import sha256
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy.special import ndtr
from tests.learning.training_normals import GRID, KEY, SCALE, ambiguous, normals, rounded

from unacorda.bits import KeyedBits, RandomBits, ScriptedBits
from unacorda.errors import InvalidParameter
from unacorda.learning.noise import gaussian
from unacorda.learning.noise.gaussian import add_gaussian, add_gaussian_to_array
from unacorda.learning.noise.keys import NoiseKey
from unacorda.mechanisms.noise import continuous, refinement

Floats = NDArray[np.float64]

CHUNK = continuous.CHUNK


def noisy(sums: Floats, *, key: NoiseKey = KEY, labels: tuple[int, ...] = (0, 0, 0)) -> Floats:
    found = sums.copy()
    add_gaussian_to_array(found, scale=SCALE, key=key, labels=labels)
    return found


# ---- the law


def distance(draws: Floats, *, scale: float = SCALE) -> float:
    """The Kolmogorov-Smirnov distance of multiples of the grid to the rounded normal law."""
    steps = np.rint(draws / GRID).astype(np.int64)
    first = int(steps.min())
    seen = np.cumsum(np.bincount(steps - first)) / steps.size
    ends = (np.arange(first, first + seen.size) + 0.5) * GRID
    return float(np.abs(seen - ndtr(ends / scale)).max())


def alarm(count: int, probability: float = 1e-9) -> float:
    """What the distance exceeds with at most this probability, for any law: Massart 1990."""
    return math.sqrt(math.log(2 / probability) / (2 * count))


def check_law(draws: Floats) -> None:
    limit = alarm(draws.size)
    assert distance(draws) < limit
    assert distance(draws, scale=1.01 * SCALE) > limit


def test_the_noise_has_its_law() -> None:
    check_law(noisy(np.zeros(1 << 22)))


@pytest.mark.slow
def test_a_hundred_million_draws_have_their_law() -> None:
    draws = noisy(np.zeros(100_000_000))
    limit = alarm(draws.size)
    assert distance(draws) < limit
    assert distance(draws, scale=1.002 * SCALE) > limit


def test_numbers_of_a_chunk_and_of_neighboring_chunks_are_uncorrelated() -> None:
    draws = (noisy(np.zeros(64 * CHUNK)) / SCALE).reshape(64, 2, CHUNK // 2)
    flat = draws.reshape(-1)
    pairs = {
        "cosine and sine": (draws[:, 0], draws[:, 1]),
        "their squares": (draws[:, 0] ** 2 - 1, draws[:, 1] ** 2 - 1),
        "neighbors": (flat[:-1], flat[1:]),
        "chunks": (draws[:-1], draws[1:]),
    }
    for name, (one, other) in pairs.items():
        # Each product has variance 1 (4 for squares): six deviations, false alarm 2e-9.
        deviation = (2 if name == "their squares" else 1) / math.sqrt(one.size)
        assert abs(float(np.mean(one * other))) < 6 * deviation, name


# ---- bits against 1000 digits


def wrong(key: NoiseKey, *, labels: tuple[int, ...] = (0, 0, 0), count: int = 256) -> int:
    """How many of the forced cases differ from their rounding with 1000 digits."""
    found = normals(key, labels, count)
    sums = ambiguous(found)
    return int((noisy(sums, key=key, labels=labels) != rounded(sums, found)).sum())


@pytest.mark.parametrize("far", [0.0, SCALE, -1000 * SCALE, 2.0**14 * SCALE, 2.0**24 * SCALE])
def test_forced_ambiguous_cases_are_rounded_as_with_1000_digits(
    far: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    refined: list[int] = []
    exact = refinement.gaussian_floors_exact

    def counted(*words: int, **rest: Any) -> tuple[int, int]:
        refined.append(words[0])
        return exact(*words, **rest)

    monkeypatch.setattr(refinement, "gaussian_floors_exact", counted)
    labels = (1, 5, 2)
    found = normals(KEY, labels, 101)
    sums = ambiguous(found, far=far)
    assert noisy(sums, labels=labels).tolist() == rounded(sums, found).tolist()
    if abs(far) < 2.0**14 * SCALE:  # farther out float64 reaches no middle
        assert len(refined) == 51


@pytest.mark.long
@pytest.mark.parametrize("labels", [(0, 0, 0), (0, 1, 0), (2, 7, 3)])
def test_usual_cases_are_rounded_as_with_1000_digits(labels: tuple[int, ...]) -> None:
    sums = np.random.default_rng(1).standard_cauchy(301)
    assert noisy(sums, labels=labels).tolist() == rounded(sums, normals(KEY, labels, 301)).tolist()


class Scripted(NoiseKey):
    """A key whose first words are given."""

    def stream(self, *labels: int) -> Any:
        further: RandomBits = KeyedBits(self.secret, *labels, secure=False)
        if labels[0] != gaussian._WORDS:
            return further
        radii = [0, 1, 3, 2**20, 2**43, 2**44, 2**63 - 1, 2**63 - 2**41, 2**63, 2**64 - 1]
        return ScriptedBits([*radii, *further.words(len(radii)).tolist()])


SCRIPTED = Scripted(KEY.secret, secure=False)


def test_extreme_radii_are_rounded_as_with_1000_digits() -> None:
    assert wrong(SCRIPTED, count=20) == 0
    zeros = np.zeros(20)
    expected = rounded(zeros, normals(SCRIPTED, (0, 0, 0), 20))
    assert noisy(zeros, key=SCRIPTED).tolist() == expected.tolist()


def test_golden_vectors() -> None:
    found = noisy(np.linspace(0.0, 5000.0, 2 * CHUNK + 3))
    steps = np.rint(found / GRID).astype("<i8")
    assert steps[[0, 1, CHUNK, -1]].tolist() == GOLDEN[0]
    assert sha256(steps.tobytes()).hexdigest() == GOLDEN[1]


GOLDEN: tuple[list[int], str] = (
    [-5106, -4321, 40962607, 81925745],
    "e8b9c5b34fae998cb8561880dfeec8917486e288e105427346cf5181370dd193",
)


# ---- places


def test_noise_comes_again_whatever_the_sums() -> None:
    count = 3 * CHUNK + 5
    plain = noisy(np.zeros(count))
    whole = np.random.default_rng(2).integers(-(1 << 30), 1 << 30, count)
    shift = whole.astype(np.float64) * GRID
    assert (noisy(shift) - shift == plain).all()
    # Sums that force refinements in one chunk leave the others as they are.
    forced = np.zeros(count)
    forced[:200] = ambiguous(normals(KEY, (0, 0, 0), CHUNK, first=200))
    assert (noisy(forced)[200:] == plain[200:]).all()


def repeated(one: Floats, other: Floats) -> bool:
    """Whether two draws of 2^14 normals share more numbers than independent ones do.

    Two are equal with probability below 1e-4: 100 of 16 384 are, with less than 1e-90.
    """
    return int((one == other).sum()) > 100


def places(key: NoiseKey) -> list[Floats]:
    zeros = np.zeros(2 * CHUNK)
    labels = [(0, 0, 0), (1, 0, 0), (0, 1, 0), (0, 0, 1), (1, 1, 1)]
    return [half for each in labels for half in np.split(noisy(zeros, key=key, labels=each), 2)]


def reuses(key: NoiseKey) -> int:
    found = places(key)
    return sum(repeated(a, b) for place, a in enumerate(found) for b in found[:place])


def test_attempts_steps_parts_and_chunks_have_noise_of_their_own() -> None:
    assert reuses(KEY) == 0
    assert reuses(NoiseKey.drawn()) == 0


@pytest.mark.parametrize("scale", [0.0, -1.0, math.inf, math.nan])
def test_a_scale_that_is_none_is_refused(scale: float) -> None:
    with pytest.raises(InvalidParameter, match="scale"):
        add_gaussian_to_array(np.zeros(3), scale=scale, key=KEY, labels=(0, 0, 0))


def test_the_grid_is_a_power_of_two_just_below_the_scale() -> None:
    steps = noisy(np.random.default_rng(3).standard_normal(1000)) / GRID
    assert (steps == np.rint(steps)).all()
    assert Fraction(1, 1 << 13) <= Fraction(GRID) / Fraction(SCALE) <= Fraction(1, 1 << 12)


def test_the_secret_is_not_shown() -> None:
    assert repr(KEY) == "NoiseKey(...)"
    assert not KEY.secure
    assert NoiseKey.drawn().secure


def test_streams_differ_by_their_labels_alone() -> None:
    labels = [(1, 23), (12, 3), (123,), (1, 2, 3), ()]
    found = {tuple(KEY.stream(*each).words(2).tolist()) for each in labels}
    assert len(found) == len(labels)
    assert KEY.stream(1, 23).words(5).tolist() == KEY.stream(1, 23).words(5).tolist()
    with pytest.raises(InvalidParameter, match="secret"):
        KeyedBits(b"short", 1, secure=True)


# ---- planted faults


class OneChunk(NoiseKey):
    """A fault: the counter starts again at each chunk."""

    def stream(self, *labels: int) -> KeyedBits:
        return NoiseKey.stream(self, *labels[:4])


class OneStep(NoiseKey):
    """A fault: the step is no label."""

    def stream(self, *labels: int) -> KeyedBits:
        return NoiseKey.stream(self, *labels[:2], *labels[3:])


@pytest.mark.parametrize("fault", [OneChunk, OneStep])
def test_a_reused_counter_is_found(fault: type[NoiseKey]) -> None:
    assert reuses(fault(KEY.secret, secure=False)) > 0


@pytest.mark.long
def test_a_zone_that_is_too_small_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    assert wrong(KEY) == 0
    monkeypatch.setattr(continuous, "_RELATIVE", 2.0**-60)
    monkeypatch.setattr(continuous, "_ABSOLUTE", 0.0)
    assert wrong(KEY) > 0


def test_a_radius_without_its_tail_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(continuous, "_TAIL", -math.inf)
    found = normals(SCRIPTED, (0, 0, 0), 20)
    zeros = np.zeros(20)
    assert (noisy(zeros, key=SCRIPTED) != rounded(zeros, found)).any()


def test_a_tail_that_is_cut_off_is_found() -> None:
    draws = noisy(np.zeros(1 << 22))
    cut = np.clip(draws, -2.9 * SCALE, 2.9 * SCALE)
    assert distance(cut) > alarm(cut.size)


# ---- tensors


def test_tensors_are_filled_in_place_and_keep_names_and_shapes() -> None:
    torch = pytest.importorskip("torch")
    sums = {"weight": torch.zeros(3, 4, dtype=torch.float64), "bias": torch.ones(5).double()}
    start = sums["weight"]
    found = add_gaussian(sums, scale=SCALE, key=KEY, attempt=2, step=9)
    assert list(found) == ["weight", "bias"]
    assert found["weight"].data_ptr() == start.data_ptr()
    assert found["weight"].reshape(-1).tolist() == noisy(np.zeros(12), labels=(2, 9, 0)).tolist()
    assert found["bias"].tolist() == noisy(np.ones(5), labels=(2, 9, 1)).tolist()
    turned = add_gaussian(
        {"weight": torch.zeros(4, 3, dtype=torch.float64).T},
        scale=SCALE,
        key=KEY,
        attempt=2,
        step=9,
    )
    assert torch.equal(turned["weight"], found["weight"])
