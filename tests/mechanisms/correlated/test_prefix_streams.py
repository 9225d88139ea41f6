"""Streams of prefix sums: when they stop, what they refuse, and that nothing is drawn before."""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

import copy
import os
import pickle
import threading
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from tests.support.cases import in_subtests

from unacorda import mechanisms
from unacorda.bits import SecureBits, SeededBits
from unacorda.errors import InvalidParameter, StreamStopped
from unacorda.mechanisms.correlated.prefix_sums import BinaryTree
from unacorda.mechanisms.correlated.toeplitz import SquareRootToeplitz

WRITTEN: dict[str, Any] = {"sigma": 4, "l2_sensitivity": 1, "steps": 10}
KINDS: list[Any] = [BinaryTree, SquareRootToeplitz]
MADE: list[Any] = [
    BinaryTree(**WRITTEN),
    SquareRootToeplitz(**WRITTEN),
    SquareRootToeplitz(**WRITTEN, bands=3),
]
NAMES = ["tree", "root", "banded"]


class NoBits:
    """Random bits that must not be drawn."""

    secure = False

    def words(self, count: int) -> NDArray[np.uint64]:
        raise AssertionError("bits were drawn")

    def below(self, bound: int) -> int:
        raise AssertionError("bits were drawn")


class Failing:
    """Random bits that fail once, as an interrupt would."""

    secure = False

    def __init__(self) -> None:
        self.bits, self.fails = SeededBits(1), False

    def words(self, count: int) -> NDArray[np.uint64]:
        if self.fails:
            raise KeyboardInterrupt
        return self.bits.words(count)

    def below(self, bound: int) -> int:
        return self.bits.below(bound)


def test_they_are_at_the_face() -> None:
    assert mechanisms.BinaryTree is BinaryTree
    assert mechanisms.correlated.SquareRootToeplitz is SquareRootToeplitz


@pytest.mark.parametrize("mechanism", MADE, ids=NAMES)
def test_a_stream_stops_after_its_steps(mechanism: Any) -> None:
    stream = mechanism.start()
    for taken in range(10):
        assert (stream.left, stream.stopped) == (10 - taken, False)
        assert isinstance(stream.add(taken), float)
    assert (stream.left, stream.stopped) == (0, True)
    with pytest.raises(StreamStopped, match="all of its steps"):
        stream.add(1)


@pytest.mark.parametrize("mechanism", MADE, ids=NAMES)
def test_a_stream_is_alone_and_says_nothing_of_itself(mechanism: Any) -> None:
    shown = set()
    for seed in range(3):
        stream = mechanism.start(bits=SeededBits(seed))
        for act in (copy.copy, copy.deepcopy, pickle.dumps):
            with pytest.raises(TypeError, match="more answers than were paid for"):
                act(stream)
        stream.add(seed)
        shown |= {repr(stream), str(stream)}
        assert not hasattr(stream, "__dict__")
    assert shown == {"PrefixStream(left=9)"}


@pytest.mark.parametrize("mechanism", MADE, ids=NAMES)
def test_what_was_answered_is_not_changed_afterwards(mechanism: Any) -> None:
    kind, fields = type(mechanism), {"dimension": 2}
    stream = kind(**WRITTEN, **fields).start()
    first = stream.add([1, 2])
    kept = first.copy()
    first += 100  # and nobody writes into the stream through it
    second = stream.add(np.array([3, 4], np.int8))
    assert second.shape == (2,)
    assert np.abs(second).max() < 60
    assert np.array_equal(first - 100, kept)


@pytest.mark.parametrize("mechanism", MADE, ids=NAMES)
def test_threads_together_take_no_more_steps_than_there_are(mechanism: Any) -> None:
    stream = mechanism.start()
    taken, refused = [0] * 4, [0] * 4

    def add(mine: int) -> None:
        for _ in range(5):
            try:
                stream.add(1)
                taken[mine] += 1
            except StreamStopped:
                refused[mine] += 1

    threads = [threading.Thread(target=add, args=(k,)) for k in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert (sum(taken), sum(refused)) == (10, 10)


@pytest.mark.parametrize("mechanism", MADE, ids=NAMES)
def test_an_interrupted_stream_takes_nothing_more(mechanism: Any) -> None:
    bits = Failing()
    stream = mechanism.start(bits=bits)
    stream.add(1)
    bits.fails = True
    with pytest.raises(KeyboardInterrupt):
        stream.add(1)
    bits.fails = False
    with pytest.raises(StreamStopped, match="interrupted"):
        stream.add(1)


def test_a_forked_child_may_not_add() -> None:
    stream = MADE[0].start()
    reader, writer = os.pipe()
    stream._lock.acquire()  # as if another thread were adding: the child's copy stays closed
    child = os.fork()
    if child == 0:
        try:
            stream.add(1000)
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
    assert stream.add(1000)


@pytest.mark.parametrize("mechanism", MADE, ids=NAMES)
def test_two_runs_draw_different_noise(mechanism: Any) -> None:
    firsts = {mechanism.start(bits=SecureBits()).add(0) for _ in range(10)}
    assert len(firsts) == 10
    assert len({mechanism.release([0])[0] for _ in range(10)}) == 10


# ---- what they refuse


BAD: list[tuple[dict[str, Any], str]] = [
    ({"sigma": 0}, "sigma=0"),
    ({"sigma": float("nan")}, "sigma=nan"),
    ({"sigma": -1}, "sigma=-1"),
    ({"sigma": True}, "sigma=True"),
    ({"sigma": 10**300}, "sigma="),
    ({"l2_sensitivity": 0}, "l2_sensitivity=0"),
    ({"l2_sensitivity": "a"}, "l2_sensitivity='a'"),
    ({"steps": 0}, "steps=0"),
    ({"steps": 1.5}, "steps=1.5"),
    ({"steps": 2**41}, "steps=2199023255552"),
    ({"dimension": 0}, "dimension=0"),
    ({"dimension": True}, "dimension=True"),
    ({"participations": 0}, "participations=0"),
    ({"separation": -3}, "separation=-3"),
    ({"grid_log2": 0.5}, "grid_log2=0.5"),
    ({"grid_log2": 1000}, "grid_log2=1000"),
]


@in_subtests("kind", KINDS)
@in_subtests(("change", "match"), BAD)
def test_parameters_that_mean_nothing_are_refused(
    kind: Any, change: dict[str, Any], match: str
) -> None:
    with pytest.raises(InvalidParameter, match=match):
        kind(**WRITTEN | change)


@pytest.mark.parametrize(
    ("kind", "change", "match"),
    [
        (BinaryTree, {"honaker": 1}, "honaker=1"),
        (SquareRootToeplitz, {"bands": 0}, "bands=0"),
        (SquareRootToeplitz, {"bands": 11}, "bands=11 .* from 1 to 10"),
        (SquareRootToeplitz, {"steps": 2**23}, "steps=8388608 .* or bands="),
        (SquareRootToeplitz, {"steps": 2**23, "bands": 2**23}, "bands="),
    ],
)
def test_parameters_of_one_kind_are_refused(kind: Any, change: dict[str, Any], match: str) -> None:
    with pytest.raises(InvalidParameter, match=match):
        kind(**WRITTEN | change)


SECRET = 424_242_424


@in_subtests("mechanism", MADE, ids=NAMES)
@in_subtests(
    "values",
    [
        SECRET,
        np.array([[SECRET]]),
        [SECRET] * 11,
        np.array([str(SECRET)]),
        np.array([SECRET * 1j]),
        np.array([SECRET], np.longdouble),
    ],
)
def test_a_stream_of_another_shape_or_dtype_is_refused(mechanism: Any, values: Any) -> None:
    with pytest.raises(InvalidParameter, match="values=") as caught:
        mechanism.release(values, bits=NoBits())
    assert str(SECRET) not in str(caught.value)


@pytest.mark.parametrize("mechanism", MADE, ids=NAMES)
@pytest.mark.parametrize("value", [[SECRET], [], np.array(SECRET * 1j)])
def test_a_value_of_another_shape_or_dtype_is_refused(mechanism: Any, value: Any) -> None:
    stream = mechanism.start(bits=NoBits())
    with pytest.raises(InvalidParameter, match="value=") as caught:
        stream.add(value)
    assert str(SECRET) not in str(caught.value)
    assert stream.left == 10
    vectors = type(mechanism)(**WRITTEN, dimension=2).start(bits=NoBits())
    for other in (SECRET, [SECRET], [[1, 2]]):
        with pytest.raises(InvalidParameter, match="value=") as caught:
            vectors.add(other)
        assert str(SECRET) not in str(caught.value)


@pytest.mark.parametrize("mechanism", MADE, ids=NAMES)
def test_an_empty_stream_is_released_as_one(mechanism: Any) -> None:
    assert mechanism.release([]).shape == (0,)
    assert type(mechanism)(**WRITTEN, dimension=3).release(np.zeros((0, 3))).shape == (0, 3)
    assert mechanism.standard_errors(0).shape == (0,)
    for steps in (-1, 11, 1.5):
        with pytest.raises(InvalidParameter, match="steps="):
            mechanism.standard_errors(steps)


@pytest.mark.parametrize("mechanism", MADE, ids=NAMES)
def test_the_same_bits_are_drawn_whatever_goes_in(mechanism: Any) -> None:
    drawn = set()
    for values in (np.zeros(10), np.full(10, np.nan), np.arange(10), np.full(10, -np.inf)):
        bits = Counted()
        mechanism.release(values, bits=bits)
        drawn.add(bits.drawn)
    assert len(drawn) == 1


class Counted:
    """Random bits that count the words they give."""

    secure = False

    def __init__(self) -> None:
        self._bits, self.drawn = SeededBits(4), 0

    def words(self, count: int) -> NDArray[np.uint64]:
        self.drawn += count
        return self._bits.words(count)

    def below(self, bound: int) -> int:
        return self._bits.below(bound)
