"""Noise on whole vectors, bit for bit against many digits, and floats against exact arithmetic."""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

import functools
from collections.abc import Callable
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from mpmath import mp, mpf
from numpy.typing import NDArray
from tests.mechanisms.laws import as_mpf, signed
from tests.mechanisms.test_replay import Counting
from tests.support.cases import in_subtests
from tests.tiers import mostly_slow

from unacorda.bits import SeededBits
from unacorda.mechanisms.noise import vectors
from unacorda.mechanisms.noise.vectors import cube_chunk, linear_chunk, sphere_chunk

RATIOS = [Fraction(1, 7), Fraction(5, 3), Fraction(1 << 20), Fraction(1 << 36)]
Chunk = Callable[..., NDArray[np.float64]]


def matrix(dimension: int) -> NDArray[np.float64]:
    full = np.random.default_rng(dimension).normal(size=(dimension, dimension))
    return np.tril(full)


def chunk_of(kind: str, dimension: int) -> Chunk:
    if kind == "linear":
        return functools.partial(linear_chunk, factor=matrix(dimension))
    return functools.partial(cube_chunk if kind == "cube" else sphere_chunk, dimension=dimension)


def minus_log(word: int) -> mpf:
    magnitude = word if word >= 0 else -1 - word
    return -mp.log((magnitude + mpf("0.5")) / mpf(2) ** 63)


def normals(words: list[int], dimension: int, count: int) -> list[list[mpf]]:
    """The normals of each vector: a row of radii for each cosine, then as many rows of angles."""
    half = (dimension + 1) // 2
    radii = signed(np.array(words[: half * count], dtype=np.uint64))
    angles = words[half * count : 2 * half * count]
    found = []
    for vector in range(count):
        turns = [
            (
                mp.sqrt(2 * minus_log(radii[row * count + vector])),
                2 * (angles[row * count + vector] + mpf("0.5")) / mpf(2) ** 64,
            )
            for row in range(half)
        ]
        cosines = [r * mp.cospi(t) for r, t in turns]
        found.append((cosines + [r * mp.sinpi(t) for r, t in turns])[:dimension])
    return found


def ideal(kind: str, words: list[int], dimension: int, count: int) -> list[list[mpf]]:
    """The noise of each vector, from the middle of what the words leave open."""
    if kind == "linear":
        factor = [[mpf(entry) for entry in line] for line in matrix(dimension).tolist()]
        return [
            [mp.fdot(line, parts) for line in factor] for parts in normals(words, dimension, count)
        ]
    terms = dimension + (kind == "cube")
    radii = signed(np.array(words[: terms * count], dtype=np.uint64))
    lengths = [
        mp.fsum(minus_log(radii[row * count + vector]) for row in range(terms))
        for vector in range(count)
    ]
    rest = words[terms * count :]
    if kind == "cube":
        sides = signed(np.array(rest[: dimension * count], dtype=np.uint64))
        return [
            [
                length * (sides[row * count + vector] + mpf("0.5")) / mpf(2) ** 63
                for row in range(dimension)
            ]
            for vector, length in enumerate(lengths)
        ]
    return [
        [length * part / mp.norm(parts) for part in parts]
        for length, parts in zip(lengths, normals(rest, dimension, count), strict=True)
    ]


@pytest.mark.parametrize("kind", ["cube", "sphere", "linear"])
@pytest.mark.parametrize("dimension", mostly_slow([1, 2, 3, 8]))
@pytest.mark.parametrize("ratio", [Fraction(1, 8), Fraction(4), Fraction(1 << 20)])
def test_floors_replay_from_the_same_words(kind: str, dimension: int, ratio: Fraction) -> None:
    with mp.workprec(200):
        count = 120
        offsets = [Fraction(i, count * dimension) for i in range(count * dimension)]
        source = Counting(81)
        floors = chunk_of(kind, dimension)(
            np.array([float(o) for o in offsets]), lambda i: offsets[i], ratio=ratio, bits=source
        ).tolist()
        noise = ideal(kind, source.given.tolist(), dimension, count)
        checked = 0
        for index, offset in enumerate(offsets):
            value = as_mpf(offset) + as_mpf(ratio) * noise[index // dimension][index % dimension]
            # The words leave open about 2^-60 of it, times the ratio and the tails of a draw.
            if abs(value - mp.nint(value)) > as_mpf(ratio) * mpf(2) ** -40:
                checked += 1
                assert floors[index] == mp.floor(value)
        assert checked > 0.999 * len(offsets)


@pytest.mark.long
@in_subtests("kind", ["cube", "sphere", "linear"])
@in_subtests("dimension", [1, 2, 5])
@in_subtests("ratio", RATIOS)
def test_exact_arithmetic_says_the_same(
    kind: str, dimension: int, ratio: Fraction, monkeypatch: pytest.MonkeyPatch
) -> None:
    if kind == "linear" and ratio.denominator != 1:
        ratio = Fraction(1, 4)
    size = 60 * dimension
    offsets = [Fraction(i, size) for i in range(size)]
    floats = np.array([float(o) for o in offsets])

    def draw() -> list[float]:
        floors: list[float] = chunk_of(kind, dimension)(
            floats, lambda i: offsets[i], ratio=ratio, bits=SeededBits(82)
        ).tolist()
        return floors

    quick = draw()
    monkeypatch.setattr(vectors, "_ABSOLUTE", 10.0)  # nothing is decided by floats
    calls: list[int] = []
    settled = vectors._settled

    def counting(value: Any, **how: Any) -> Any:
        refine = how.pop("refine")

        def counted(vector: int, wanted: list[int]) -> Any:
            calls.append(len(wanted))
            return refine(vector, wanted)

        return settled(value, refine=counted, **how)

    monkeypatch.setattr(vectors, "_settled", counting)
    assert draw() == quick
    assert sum(calls) == size


def test_a_wrong_bound_would_be_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    # With logarithms off by more than the bound the two ways part at a vast ratio.
    offsets = np.full(4000, 0.5)
    ratio = Fraction(1 << 36)

    def draw() -> NDArray[np.float64]:
        return cube_chunk(
            offsets, lambda _: Fraction(1, 2), ratio=ratio, bits=SeededBits(83), dimension=2
        )

    right = draw()
    exact = vectors._sums_of_exponentials

    def off(words: Any) -> Any:
        radius, far = exact(words)
        return radius * (1 + 2.0**-36), far

    monkeypatch.setattr(vectors, "_sums_of_exponentials", off)
    assert (draw() != right).any()
