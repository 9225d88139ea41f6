"""Random bits: streams do not repeat across threads, forks, pickles and copies."""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

import copy
import os
import pickle
import threading
from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from unacorda import bits
from unacorda.bits import RandomBits, ScriptedBits, SecureBits, SeededBits, SystemBits, source_of
from unacorda.errors import InvalidParameter

SOURCES: list[Callable[[], RandomBits]] = [SecureBits, SystemBits, lambda: SeededBits(3)]


@pytest.mark.parametrize("make", SOURCES)
def test_a_source_gives_fresh_writable_words(make: Callable[[], RandomBits]) -> None:
    source = make()
    first, second = source.words(1000), source.words(1000)
    first[0] = 1
    assert first.dtype == np.uint64
    assert len({*first.tolist(), *second.tolist()}) == 2000
    assert source.words(0).size == 0
    assert isinstance(source, RandomBits)


@pytest.mark.statistical
@pytest.mark.parametrize("make", SOURCES)
def test_every_bit_of_a_word_is_fair(make: Callable[[], RandomBits]) -> None:
    # 64 two-sided tests at 6.2 standard deviations: false alarm below 4e-8.
    words = make().words(100_000)
    shares = [((words >> np.uint64(place)) & np.uint64(1)).mean() for place in range(64)]
    assert max(abs(share - 0.5) for share in shares) < 6.2 * 0.5 / 100_000**0.5


def test_only_sources_without_a_known_key_are_secure() -> None:
    assert [source().secure for source in SOURCES] == [True, True, False]
    assert not ScriptedBits([]).secure


def test_a_seed_fixes_the_stream_however_it_is_cut() -> None:
    whole = SeededBits(9).words(300_000)
    source = SeededBits(9)
    pieces = np.concatenate([source.words(n) for n in (1, 2, 131_072, 168_925)])
    assert (whole == pieces).all()
    assert (whole[:5] != SeededBits(10).words(5)).all()


def test_the_seeded_stream_is_the_same_on_every_machine() -> None:
    # Recorded once; a change breaks whoever replays an analysis from its seed.
    assert [hex(word) for word in SeededBits(7).words(2).tolist()] == [
        "0x4ad8e7fae0b2bb76",
        "0xf05ce13761e71ee8",
    ]


def test_threads_never_share_a_stream() -> None:
    source = SecureBits()
    drawn: list[int] = []

    def draw() -> None:
        drawn.extend(source.words(100).tolist())

    threads = [threading.Thread(target=draw) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    draw()
    assert len(set(drawn)) == 500


@pytest.mark.filterwarnings("ignore:This process:DeprecationWarning")
@pytest.mark.parametrize("hook_works", [True, False])
def test_a_forked_child_draws_other_noise(
    hook_works: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    if not hook_works:  # as after a fork that Python did not see
        monkeypatch.setattr(bits._Generation, "advance", lambda _: None)
    source = SecureBits()
    source.words(1)
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        os.write(writer, source.words(4).tobytes())
        os._exit(0)
    os.waitpid(child, 0)
    theirs = np.frombuffer(os.read(reader, 32), dtype=np.uint64)
    os.close(reader)
    os.close(writer)
    assert theirs.size == 4
    assert not set(theirs.tolist()) & set(source.words(4).tolist())


def test_a_key_is_replaced_after_its_share_of_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bits, "_BLOCKS_PER_KEY", 4)
    keys: list[int] = []

    def urandom(count: int) -> bytes:
        keys.append(count)
        return bytes([len(keys)]) * count

    monkeypatch.setattr("unacorda.bits.os.urandom", urandom)
    source = SecureBits()
    for _ in range(6):
        source.words(4)
    assert keys == [32, 32, 32]


@pytest.mark.parametrize("duplicate", [copy.copy, copy.deepcopy, pickle.dumps])
@pytest.mark.parametrize("source", [SecureBits(), SeededBits(1)])
def test_a_stream_cannot_be_duplicated(
    duplicate: Callable[[RandomBits], object], source: RandomBits
) -> None:
    with pytest.raises(TypeError, match=r"SecureBits|SeededBits"):
        duplicate(source)


def test_a_script_ends_or_goes_on() -> None:
    source = ScriptedBits([5, 6])
    assert source.words(1).tolist() == [5]
    assert source.left == 1
    with pytest.raises(IndexError, match="run out"):
        source.words(2)
    goes_on = ScriptedBits([5], then=SeededBits(4))
    assert goes_on.words(3).tolist() == [5, *SeededBits(4).words(2).tolist()]
    assert goes_on.left == 0


@given(bound=st.integers(1, 2**200), seed=st.integers(0, 2**32))
def test_below_stays_below(bound: int, seed: int) -> None:
    assert 0 <= SeededBits(seed).below(bound) < bound


@pytest.mark.statistical
def test_below_is_uniform() -> None:
    # Chi-square with 5 degrees of freedom beyond 40: false alarm 1.5e-7.
    source = SeededBits(11)
    counts = np.bincount([source.below(6) for _ in range(30_000)], minlength=6)
    assert ((counts - 5000.0) ** 2 / 5000).sum() < 40


def test_below_rejects_what_lies_above_the_bound() -> None:
    top = 2**64 - 1
    assert ScriptedBits([top, top, 0]).below(6) == 0
    assert ScriptedBits([]).below(1) == 0
    assert ScriptedBits([top, top]).below(2**128) == 2**128 - 1


@pytest.mark.parametrize("make", SOURCES)
@pytest.mark.parametrize("wrong", [-1, 1.5, None])
def test_wrong_arguments_are_named(make: Callable[[], RandomBits], wrong: int) -> None:
    with pytest.raises(InvalidParameter, match="count"):
        make().words(wrong)
    with pytest.raises(InvalidParameter, match="bound"):
        make().below(wrong)
    with pytest.raises(InvalidParameter, match="bound"):
        make().below(0)


def test_scripts_and_seeds_are_checked() -> None:
    with pytest.raises(InvalidParameter, match="words"):
        ScriptedBits([2**64])
    with pytest.raises(InvalidParameter, match="seed"):
        SeededBits(1.5)  # type: ignore[arg-type]  # the check under test


@pytest.mark.parametrize("wrong", [3, 0, "seed", SeededBits, np.random.default_rng(1)])
def test_what_is_no_source_of_bits_is_named(wrong: object) -> None:
    with pytest.raises(InvalidParameter, match=r"^bits=.*SeededBits\(7\)"):
        source_of(wrong)


def test_a_source_is_itself_and_none_is_secure() -> None:
    seeded = SeededBits(1)
    assert source_of(seeded) is seeded
    assert source_of(None).secure
