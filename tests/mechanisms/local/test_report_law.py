"""Reports have exactly the law that is written out; a near lie would be seen."""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

import tracemalloc
from collections.abc import Callable
from fractions import Fraction
from itertools import pairwise
from typing import Any

import numpy as np
import pytest
from scipy import stats
from tests.mechanisms.local.report_laws import (
    KINDS,
    RAPPOR,
    WHOLE,
    Law,
    chi_square,
    keys,
    law,
)
from tests.support.cases import in_subtests
from tests.tiers import mostly_slow

from unacorda.bits import ScriptedBits, SeededBits
from unacorda.mechanisms.local.categories import RandomizedResponse, SubsetSelection, UnaryEncoding
from unacorda.mechanisms.local.frequencies import FrequencyOracle
from unacorda.mechanisms.local.hashing import HadamardResponse, LocalHashing
from unacorda.privacy.events import from_json

SIZE = 60_000


def sample(mechanism: FrequencyOracle, value: int, *, seed: int, size: int = SIZE) -> list[Any]:
    reports = mechanism.encode(np.full(size, value), bits=SeededBits(seed))
    return keys(reports, packed=reports.dtype == np.uint8)


@in_subtests("kind", KINDS)
@in_subtests("categories", [2, 3, 6])
@in_subtests("epsilon", ["1/4", "1", "3"])
def test_laws_sum_to_one(kind: str, categories: int, epsilon: str) -> None:
    mechanism = KINDS[kind](epsilon=Fraction(epsilon), categories=categories)
    for value in range(categories):
        assert sum(law(mechanism, value).values()) == 1


@pytest.mark.long
@pytest.mark.statistical
@pytest.mark.parametrize("kind", mostly_slow(KINDS, quick=5))
@pytest.mark.parametrize(
    ("categories", "epsilon"), mostly_slow([(2, "1"), (5, "1/2"), (5, "3"), (9, "1")], quick=2)
)
def test_reports_have_their_law(kind: str, categories: int, epsilon: str) -> None:
    # At most 60 cases at 1e-8 each.
    mechanism = KINDS[kind](epsilon=Fraction(epsilon), categories=categories)
    for value in (0, categories - 1):
        reports = sample(mechanism, value, seed=categories)
        assert chi_square(reports, law(mechanism, value)) > 1e-8


@pytest.mark.long
@pytest.mark.statistical
@pytest.mark.parametrize("kind", KINDS)
def test_a_tenth_more_noise_would_be_seen(kind: str) -> None:
    mechanism = KINDS[kind](epsilon=2, categories=5)
    if isinstance(mechanism, HadamardResponse):
        wrong: Law = law(HadamardResponse(epsilon=Fraction(22, 10), categories=5), 1)
    else:
        wrong = law(KINDS[kind](epsilon=Fraction(22, 10), categories=5), 1)
    assert wrong.keys() == law(mechanism, 1).keys()
    assert chi_square(sample(mechanism, 1, seed=7), wrong) < 1e-9
    assert chi_square(sample(mechanism, 1, seed=7), law(mechanism, 2)) < 1e-9


@pytest.mark.statistical
def test_hadamard_blocks_have_their_law_at_large_epsilon() -> None:
    mechanism = HadamardResponse(epsilon=4, categories=30)
    assert mechanism.blocks > 1
    for value in (0, mechanism.block - 2, mechanism.block - 1, 29):
        assert chi_square(sample(mechanism, value, seed=8), law(mechanism, value)) > 1e-8


def test_randomised_response_tells_what_the_word_says() -> None:
    mechanism = RandomizedResponse(epsilon=1, categories=4)
    lie = int(mechanism.support.other * WHOLE)
    words = [0, lie - 1, lie, 2 * lie, 3 * lie - 1, 3 * lie, WHOLE - 1]
    for value in range(4):
        told = mechanism.encode(np.full(7, value), bits=ScriptedBits(words))
        places = [1, 1, 2, 3, 3, 0, 0]
        assert told.tolist() == [(value + place) % 4 for place in places]


def test_unary_reports_are_the_same_noise_about_the_true_bit() -> None:
    # The same words for two values: only the two bits that stand for them may differ.
    for mechanism in (RAPPOR(epsilon=1, categories=21), UnaryEncoding(epsilon=1, categories=21)):
        one, two = (mechanism.encode([v] * 50, bits=SeededBits(9)) for v in (3, 20))
        changed = np.unpackbits(one ^ two, axis=1)[:, :21].sum(axis=0)
        assert set(np.flatnonzero(changed).tolist()) <= {3, 20}
        assert not (one[:, -1] & 7).any()  # the padding


def test_subsets_have_their_size() -> None:
    for categories, epsilon in ((2, 1), (9, 1), (100, 3), (1000, 1)):
        mechanism = SubsetSelection(epsilon=epsilon, categories=categories)
        reports = mechanism.encode(np.arange(300) % categories, bits=SeededBits(5))
        assert (np.unpackbits(reports, axis=1).sum(axis=1) == mechanism.size).all()


@pytest.mark.statistical
def test_large_subsets_name_the_others_equally_often() -> None:
    mechanism = SubsetSelection(epsilon=1, categories=200)
    sums = mechanism.tally(mechanism.encode(np.full(20_000, 70), bits=SeededBits(6)))
    own, other = mechanism.support
    assert stats.binomtest(int(sums[70]), 20_000, float(own)).pvalue > 1e-8
    rest = np.delete(sums, 70)
    spread = np.sqrt(20_000 * float(other * (1 - other)))
    assert (abs(rest - 20_000 * float(other)) < 6 * spread).all()


@pytest.mark.long
@pytest.mark.statistical
def test_hashing_tells_the_cell_of_the_true_category() -> None:
    mechanism = LocalHashing(epsilon=1, categories=1000)
    factor, offset, cell = mechanism.encode(np.full(SIZE, 123), bits=SeededBits(11)).T.tolist()
    prime = 2**31 - 1
    own, other = mechanism.support
    cells = {
        value: [
            mechanism.cells * ((a * value + b) % prime) >> 31
            for a, b in zip(factor, offset, strict=True)
        ]
        for value in (0, 122, 123)
    }
    agree = {value: sum(map(int.__eq__, cells[value], cell)) for value in cells}
    assert stats.binomtest(agree[123], SIZE, float(own)).pvalue > 1e-8
    for value in (0, 122):
        assert stats.binomtest(agree[value], SIZE, float(other)).pvalue > 1e-8
        together = sum(map(int.__eq__, cells[value], cells[123]))
        assert stats.binomtest(together, SIZE, float(mechanism.collision)).pvalue > 1e-8
    # Given the function, the false cells are told equally often.
    shifts = np.bincount((np.array(cell) - cells[123]) % mechanism.cells)
    assert stats.chisquare(shifts[1:]).pvalue > 1e-8
    assert stats.kstest(np.array(factor) / prime, "uniform").pvalue > 1e-8
    assert stats.kstest(np.array(offset) / prime, "uniform").pvalue > 1e-8


@pytest.mark.parametrize("epsilon", ["1/100", "1", "2", "5", "9", "30"])
def test_the_probability_of_a_collision_is_counted(epsilon: str) -> None:
    mechanism = LocalHashing(epsilon=Fraction(epsilon), categories=10)
    cells, prime = mechanism.cells, 2**31 - 1
    if cells <= 10_000:
        edges = [min(-(-(cell << 31) // cells), prime) for cell in range(cells + 1)]
        sizes = [high - low for low, high in pairwise(edges)]
        assert sum(sizes) == prime
        pairs = sum(size * (size - 1) for size in sizes)
        assert mechanism.collision == Fraction(pairs, prime * (prime - 1))
    assert mechanism.collision < Fraction(1, cells)


def test_images_of_two_categories_are_all_pairs_once() -> None:
    """The reason for exact collisions, on the field of seven elements."""
    for one, two in ((0, 1), (2, 6)):
        pairs = {((a * one + b) % 7, (a * two + b) % 7) for a in range(1, 7) for b in range(7)}
        assert pairs == {(x, y) for x in range(7) for y in range(7) if x != y}


@pytest.mark.long
@pytest.mark.parametrize("among", mostly_slow([None, [5, 6, 7, 999, 0, 0, 6, 8]]))
def test_hashes_are_tallied_as_they_are_defined(among: Any) -> None:
    mechanism = LocalHashing(epsilon=2, categories=1000)
    reports = mechanism.encode(np.arange(200) * 5, bits=SeededBits(12))
    asked = range(1000) if among is None else among
    found = mechanism.tally(reports, among=among)
    for value, seen in zip(asked, found.tolist(), strict=True):
        cells = [
            mechanism.cells * ((a * value + b) % (2**31 - 1)) >> 31 for a, b, _ in reports.tolist()
        ]
        assert seen == sum(map(int.__eq__, cells, reports[:, 2].tolist()))


MAKERS: dict[str, Callable[..., Any]] = {**KINDS, "hashing": LocalHashing}


@pytest.mark.parametrize("kind", MAKERS)
def test_shapes_are_kept_and_one_value_is_enough(kind: str) -> None:
    mechanism = MAKERS[kind](epsilon=1, categories=20)
    flat = mechanism.encode(np.arange(12), bits=SeededBits(13))
    tail = flat.shape[1:]
    square = mechanism.encode(np.arange(12).reshape(3, 4), bits=SeededBits(13))
    assert square.shape == (3, 4, *tail)
    assert (square.reshape(flat.shape) == flat).all()
    assert (mechanism.release(np.arange(12), bits=SeededBits(13)) == flat).all()
    one = mechanism.encode(7, bits=SeededBits(14))
    assert (np.asarray(one) == mechanism.encode([7], bits=SeededBits(14))[0]).all()
    assert np.shape(one) == tail
    assert len(mechanism.aggregate(np.array([one]))) == 20
    assert mechanism.encode(np.zeros(0, int)).shape == (0, *tail)
    assert mechanism.encode([]).shape == (0, *tail)
    tallies = [mechanism.tally(part) for part in (flat[:5], flat[5:])]
    whole = mechanism.estimate(tallies[0] + tallies[1], count=12)
    assert (whole.values == mechanism.aggregate(square).values).all()


@pytest.mark.parametrize("kind", MAKERS)
def test_chunks_leave_no_seam(kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Many more reports than fit in a chunk, the true category in every position."""
    mechanism = MAKERS[kind](epsilon=30, categories=40)  # so truthful that lies are not seen
    values = np.arange(70_000) % 40
    shares = mechanism.aggregate(mechanism.encode(values, bits=SeededBits(15)))
    if kind in {"randomised response", "hadamard"}:
        assert shares.values == pytest.approx(np.full(40, 1 / 40), abs=1e-4)
    assert (abs(shares.values - 1 / 40) < 6 * shares.privacy_errors + 1e-4).all()


@in_subtests("kind", MAKERS)
@in_subtests("word", [0, WHOLE - 1, 1 << 63, (1 << 63) - 1, 1, 0xAAAAAAAAAAAAAAAA])
def test_extreme_words_give_reports_that_the_server_takes(kind: str, word: int) -> None:
    for epsilon in (0.01, 1, 50):
        mechanism = MAKERS[kind](epsilon=epsilon, categories=11)
        bits = ScriptedBits([word] * 70, then=SeededBits(1))
        reports = mechanism.encode(np.arange(11), bits=bits)
        assert np.isfinite(mechanism.aggregate(reports).values).all()


@pytest.mark.parametrize("kind", MAKERS)
def test_mechanisms_are_values_whose_events_can_be_kept(kind: str) -> None:
    mechanism = MAKERS[kind](epsilon=0.7, categories=30)
    assert mechanism == MAKERS[kind](epsilon=0.7, categories=30)
    assert hash(mechanism) == hash(MAKERS[kind](epsilon=0.7, categories=30))
    assert mechanism != MAKERS[kind](epsilon=0.7, categories=31)
    assert from_json(mechanism.event.to_json()) == mechanism.event


def test_many_unary_reports_are_made_without_unpacking_them() -> None:
    mechanism = RAPPOR(epsilon=1, categories=1000)
    values = np.zeros(100_000, dtype=np.int64)
    tracemalloc.start()
    try:
        reports = mechanism.encode(values)
        mechanism.tally(reports)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert reports.nbytes == 125 * values.size
    assert peak < 1.5 * reports.nbytes
