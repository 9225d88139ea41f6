"""Sparse vector: what it releases and by which law, when it stops, what it refuses."""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

import copy
import itertools
import math
import os
import pickle
import threading
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from mpmath import mp, mpf
from numpy.typing import NDArray
from tests.support.cases import in_subtests

from unacorda import accounting
from unacorda.bits import SecureBits, SeededBits
from unacorda.errors import InvalidParameter, StreamStopped
from unacorda.mechanisms.additive.real import Gaussian, Laplace
from unacorda.mechanisms.sparse_vector.threshold import NumericSparse, SparseVector
from unacorda.privacy import events

WRITTEN: dict[str, Any] = {"epsilon": 1, "sensitivity": 1, "threshold": 100}
MANY: dict[str, Any] = WRITTEN | {"count": 3}
SHARP: dict[str, Any] = {"epsilon": 10**6, "sensitivity": 1, "threshold": 100}
ALL: list[Any] = [SparseVector(**WRITTEN), SparseVector(**MANY), SparseVector(**MANY, refresh=True)]
EVERY: list[Any] = [*ALL, NumericSparse(**MANY), NumericSparse(**MANY, refresh=True)]
NAMES = ["first", "once", "afresh", "numbers", "numbers afresh"]


class Counted:
    """Random bits that count the words they give."""

    secure = False

    def __init__(self, seed: int = 0) -> None:
        self._bits, self.drawn = SeededBits(seed), 0

    def words(self, count: int) -> NDArray[np.uint64]:
        self.drawn += count
        return self._bits.words(count)

    def below(self, bound: int) -> int:
        self.drawn += 1
        return self._bits.below(bound)


# ---- what it says


def test_the_split_is_the_one_of_least_variance() -> None:
    for monotone, count in itertools.product((False, True), (1, 7, 300)):
        mechanism = SparseVector(**WRITTEN, count=count, monotone=monotone)
        moves = count if monotone else 2 * count
        best = (1 + moves ** (2 / 3)) ** 1.5
        assert best * (1 - 1e-6) < mechanism.standard_deviation < best * 1.001


def test_clear_cases_are_decided_clearly() -> None:
    values = [0, 99, 101, 5, 300, 1, 101]
    for kind in (list, np.array, lambda v: np.array(v, float), lambda v: np.array(v, np.uint8)):
        first = SparseVector(**SHARP)
        assert first.release(kind(values[:4])).tolist() == [2]
        assert first.release(kind(values[:2])).size == 0
    found = SparseVector(**SHARP, count=2).release(values)
    assert found.tolist() == [2, 4]
    assert found.dtype == np.int64
    assert SparseVector(**SHARP, count=9, refresh=True).release(values).tolist() == [2, 4, 6]
    found, gaps = SparseVector(**SHARP, count=9).release_with_gap(values)
    assert found.tolist() == [2, 4, 6]
    assert gaps == pytest.approx([1, 200, 1], abs=0.01)
    found, numbers = NumericSparse(**SHARP, count=2).release(values)
    assert found.tolist() == [2, 4]
    assert numbers == pytest.approx([101, 300], abs=0.01)
    assert SparseVector(**SHARP, count=2).release([]).size == 0


def test_many_answers_across_chunks() -> None:
    values = np.zeros(200_000)
    high = np.arange(13, 200_000, 997)
    values[high] = 200
    for refresh in (False, True):
        sparse = SparseVector(
            epsilon=10**8, count=150, sensitivity=1, threshold=100, refresh=refresh
        )
        assert sparse.release(values).tolist() == high[:150].tolist()


def test_strange_values_have_a_documented_meaning() -> None:
    values = [np.nan, -np.inf, np.inf, 1e300, -1e300]
    assert SparseVector(**SHARP, count=5).release(values).tolist() == [2, 3]
    below = SparseVector(epsilon=10**6, count=5, sensitivity=1, threshold=-5)
    assert below.release(values).tolist() == [0, 2, 3]
    stream = SparseVector(**SHARP, count=5).start()
    assert [stream.ask(value) for value in values] == [False, False, True, True, False]
    assert stream.ask(10**400)
    assert not stream.ask(-(10**400))
    assert stream.ask(np.uint8(200))
    assert stream.ask(np.array(200.0))
    numbers = NumericSparse(**SHARP, count=5).start()
    assert numbers.ask(np.nan) is None
    assert math.isfinite(numbers.ask(np.inf) or np.inf)


@pytest.mark.parametrize("mechanism", EVERY, ids=NAMES)
def test_the_same_bits_are_drawn_whatever_lies_below(mechanism: Any) -> None:
    drawn = set()
    for values in (np.full(50_000, -1e3), np.full(50_000, -1e9), np.linspace(-1e6, -1e3, 50_000)):
        bits = Counted()
        mechanism.release(values, bits=bits)
        drawn.add(bits.drawn)
    assert len(drawn) == 1


# ---- the stream


def test_a_stream_stops_after_its_answers() -> None:
    stream = SparseVector(**SHARP, count=2).start()
    told = [stream.ask(value) for value in (3, 200, 4)]
    assert told == [False, True, False]
    assert (stream.left, stream.stopped) == (1, False)
    assert stream.ask_with_gap(150.5) == pytest.approx(50.5, abs=0.01)
    assert (stream.left, stream.stopped) == (0, True)
    for ask in (stream.ask, stream.ask_with_gap):
        with pytest.raises(StreamStopped, match="every answer"):
            ask(0)
    first = SparseVector(**SHARP).start()
    assert first.ask_with_gap(3) is None
    assert first.ask(101)
    with pytest.raises(StreamStopped):
        first.ask(101)
    numbers = NumericSparse(**SHARP, count=1).start()
    assert numbers.ask(5) is None
    assert numbers.ask(2.0**70) == pytest.approx(2.0**70)
    assert numbers.stopped
    with pytest.raises(StreamStopped):
        numbers.ask(5)


@pytest.mark.parametrize("refresh", [False, True])
def test_threads_together_get_no_more_than_was_paid_for(refresh: bool) -> None:
    stream = SparseVector(**SHARP | {"epsilon": 10**9}, count=500, refresh=refresh).start()
    above, refused = [0] * 8, [0] * 8

    def ask(mine: int) -> None:
        for _ in range(200):
            try:
                above[mine] += stream.ask(1000)
            except StreamStopped:
                refused[mine] += 1

    threads = [threading.Thread(target=ask, args=(k,)) for k in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert (sum(above), sum(refused)) == (500, 1100)


@pytest.mark.parametrize("mechanism", EVERY, ids=NAMES)
def test_a_stream_is_alone_and_says_nothing_of_itself(mechanism: Any) -> None:
    shown = set()
    for seed in range(3):
        stream = mechanism.start(bits=SeededBits(seed))
        for act in (copy.copy, copy.deepcopy, pickle.dumps):
            with pytest.raises(TypeError, match="more answers than were paid for"):
                act(stream)
        stream.ask(0)
        shown |= {repr(stream), str(stream)}
        assert not hasattr(stream, "__dict__")
    assert len(shown) == 1


def test_a_forked_child_may_not_ask() -> None:
    stream = SparseVector(**SHARP, count=5).start()
    reader, writer = os.pipe()
    stream._lock.acquire()  # as if another thread were asking: the child's copy stays closed
    child = os.fork()
    if child == 0:
        try:
            stream.ask(1000)
            os.write(writer, b"answered")
        except StreamStopped as refusal:
            os.write(writer, str(refusal).encode()[:200])
        os._exit(0)
    stream._lock.release()
    os.waitpid(child, 0)
    told = os.read(reader, 300).decode()
    os.close(reader)
    os.close(writer)
    assert "another process" in told
    assert stream.ask(1000)


def test_two_runs_draw_different_noise() -> None:
    runs = {SparseVector(**MANY).start(bits=SecureBits()).ask_with_gap(10**6) for _ in range(20)}
    assert len(runs) == 20


# ---- numbers


def test_normal_answers() -> None:
    normal = Gaussian(sigma=3, l2_sensitivity=1)
    mechanism = NumericSparse(**SHARP, count=2, answers=normal)
    assert mechanism.answer is normal
    _, one = mechanism.release([500, 600], bits=SeededBits(1))
    assert np.all(np.abs(one - [500, 600]) < 40)
    assert np.all(one != [500, 600])
    stream = mechanism.start(bits=SeededBits(2))
    assert abs((stream.ask(500) or 0) - 500) < 40


# ---- events


def test_events() -> None:
    assert SparseVector(**WRITTEN).event == events.Pure(epsilon=1)
    assert SparseVector(**MANY).event == events.Pure(epsilon=1)
    third = Fraction(1, 3)
    assert SparseVector(**MANY, refresh=True).event == events.Pure(epsilon=third) * 3
    monotone = SparseVector(**MANY, refresh=True, monotone=True)
    assert monotone.event == events.Exponential(epsilon=third) * 3
    assert monotone.comparison == SparseVector(**MANY, refresh=True).comparison
    for numeric in EVERY[3:]:
        assert accounting.epsilon(numeric.event, delta=0) == pytest.approx(1, abs=1e-9)
        assert accounting.epsilon(numeric.event, delta=1e-6) <= 1
    normal = NumericSparse(**MANY, answers=Gaussian(sigma=2, l2_sensitivity=1))
    expected = events.Pure(epsilon=1) + events.Gaussian(noise_multiplier=2) * 3
    assert normal.event == expected
    wide = NumericSparse(**MANY, answers=Laplace(scale=20, l1_sensitivity=2))
    assert wide.event == events.Pure(epsilon=1) + events.Laplace(noise_multiplier=10) * 3


def test_the_parts_of_epsilon_add_up_to_it() -> None:
    for monotone, refresh in itertools.product((False, True), repeat=2):
        mechanism = NumericSparse(
            epsilon=0.3,
            count=5,
            sensitivity=0.7,
            threshold=1,
            monotone=monotone,
            refresh=refresh,
        )
        searched = Fraction(str(mechanism.search.epsilon))
        assert isinstance(mechanism.answer, Laplace)
        each = Fraction(7, 10) / Fraction(str(mechanism.answer.scale))
        assert searched + 5 * each == Fraction(3, 10)


@pytest.mark.parametrize("monotone", [False, True])
def test_under_zcdp_the_refreshed_form_is_the_better_one(monotone: bool) -> None:
    for count in (2, 10, 100):
        once = SparseVector(**WRITTEN, count=count, monotone=monotone)
        rho = float(accounting.rho(once.event))
        epsilon = count * math.sqrt((8 if monotone else 2) * rho / count)
        afresh = SparseVector(
            **WRITTEN | {"epsilon": epsilon}, count=count, monotone=monotone, refresh=True
        )
        assert accounting.rho(afresh.event) <= rho * (1 + 1e-9)
        assert afresh.standard_deviation < 0.95 * once.standard_deviation


def refreshed_at_equal_noise(answers: int, moves: int) -> float:
    """The epsilon of each refreshed run with the noise of the once-drawn form at epsilon = 1."""
    return float((1 + 2 ** (2 / 3)) ** 1.5 / (1 + moves ** (2 / 3)) ** 1.5)


def delta_of_pure_runs(epsilon: float, *, runs: int) -> mpf:
    """The least delta at a total epsilon of 1 (Kairouz, Oh, Viswanath 2015, Theorem 3.3)."""
    true = mp.exp(epsilon) / (1 + mp.exp(epsilon))
    terms = []
    for lies in range(runs + 1):
        one = true ** (runs - lies) * (1 - true) ** lies
        other = true**lies * (1 - true) ** (runs - lies)
        terms.append(mp.binomial(runs, lies) * max(one - mp.e * other, mpf(0)))
    return mp.fsum(terms)


def test_the_break_even_at_a_small_delta_is_where_it_is_said() -> None:
    with mp.workdps(40):
        for answers, better in ((66, False), (67, True)):
            epsilon = refreshed_at_equal_noise(answers, 2 * answers)
            assert (delta_of_pure_runs(epsilon, runs=answers) < mpf("1e-6")) is better
    epsilon = refreshed_at_equal_noise(76, 76)
    assert accounting.epsilon(events.Exponential(epsilon=epsilon) * 76, delta=1e-6) < 1


# ---- what it refuses


class NoBits:
    """Random bits that must not be drawn."""

    secure = False

    def words(self, count: int) -> NDArray[np.uint64]:
        raise AssertionError

    def below(self, bound: int) -> int:
        raise AssertionError


@in_subtests("mechanism", EVERY, ids=NAMES)
@in_subtests(
    "values", [3.0, np.array([[1.0]]), np.array(["2020-01-01"], "M8[D]"), np.array([str(2**80)])]
)
def test_other_values_are_refused_before_a_bit_is_drawn(mechanism: Any, values: Any) -> None:
    with pytest.raises(InvalidParameter, match="values") as caught:
        mechanism.release(values, bits=NoBits())
    assert "2020" not in str(caught.value)
    assert str(2**80) not in str(caught.value)


@in_subtests("mechanism", EVERY, ids=NAMES)
@in_subtests("value", [[7654321], np.ones(1), {7654321: 1}])
def test_a_stream_refuses_other_values_before_a_bit_is_drawn(mechanism: Any, value: Any) -> None:
    bits = Counted()
    stream = mechanism.start(bits=bits)
    before = bits.drawn
    with pytest.raises(InvalidParameter, match="value") as caught:
        stream.ask(value)
    assert "7654321" not in str(caught.value)
    assert bits.drawn == before
    stream.ask(0)
    assert bits.drawn > before


@in_subtests("kind", [SparseVector, NumericSparse])
@in_subtests(
    ("argument", "wrong"),
    [
        *itertools.product(
            ["epsilon", "sensitivity"], [0, -1, math.nan, math.inf, None, "1", True]
        ),
        *itertools.product(["threshold"], [math.nan, math.inf, None, "1", 10**40]),
        *itertools.product(["monotone"], [None, 1, "no"]),
        *itertools.product(["grid_log2"], [0.5, True, "1", 10**4, -39]),
        ("epsilon", 1e-12),
        ("sensitivity", Fraction(1, 1 << 1000)),
    ],
)
def test_wrong_numbers_are_named(kind: Any, argument: str, wrong: Any) -> None:
    with pytest.raises(InvalidParameter, match=argument):
        kind(**MANY | {argument: wrong})


@in_subtests("kind", [SparseVector, NumericSparse])
@in_subtests("count", [0, -1, 1.0, True, None, 2**50])
def test_a_count_is_a_whole_number(kind: Any, count: Any) -> None:
    with pytest.raises(InvalidParameter, match="count"):
        kind(**MANY | {"count": count})
    with pytest.raises(InvalidParameter, match="refresh"):
        kind(**MANY, refresh=1)


@pytest.mark.parametrize("answers", [1, "Laplace", Laplace(scale=1, l1_sensitivity=0.5)])
def test_answers_have_a_noise_for_the_questions(answers: Any) -> None:
    with pytest.raises(InvalidParameter, match="answers"):
        NumericSparse(**MANY, answers=answers)


@pytest.mark.parametrize("confidence", [0, 1, -1, math.nan, "x"])
def test_an_interval_needs_a_confidence(confidence: Any) -> None:
    with pytest.raises(InvalidParameter, match="confidence"):
        SparseVector(**WRITTEN).error_bound(confidence, queries=3)
    with pytest.raises(InvalidParameter, match="queries"):
        SparseVector(**WRITTEN).error_bound(0.9, queries=0)


def test_extreme_numbers_work() -> None:
    for written in (
        {"epsilon": 1e-6, "sensitivity": 1},
        {"epsilon": 1e300, "sensitivity": 1},
        {"epsilon": Fraction(10) ** 400, "sensitivity": 1},
        {"epsilon": 1, "sensitivity": 1e-200},
        {"epsilon": 1, "sensitivity": 1e200},
    ):
        mechanism: Any = SparseVector(**written, threshold=0)
        top = 1e30 * float(Fraction(mechanism.sensitivity))
        assert mechanism.release([-top, top]).tolist() == [1]
        assert mechanism.standard_deviation >= 0
        assert mechanism.error_bound(0.9, queries=2) > 0
