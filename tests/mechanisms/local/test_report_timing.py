"""The time that one device takes says nothing about whether its report is true."""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from tests.mechanisms.test_timing import difference

from unacorda import mechanisms
from unacorda.bits import RandomBits


def bit(reports: Any, place: int) -> int:
    return int(reports[place >> 3]) >> (7 - place % 8) & 1


RESPONSE = mechanisms.RandomizedResponse(epsilon=1, categories=3)
OUE = mechanisms.local.UnaryEncoding(epsilon=1, categories=40)
RAPPOR = mechanisms.local.UnaryEncoding(epsilon=1, categories=40, variant="symmetric")
SUBSETS = mechanisms.local.SubsetSelection(epsilon=1, categories=10)
HADAMARD = mechanisms.local.HadamardResponse(epsilon=3, categories=20)
DUCHI = mechanisms.local.Duchi(epsilon=1, lower=-1, upper=1)
HASHING = mechanisms.local.LocalHashing(epsilon=1, categories=10)
HYBRID = mechanisms.local.Hybrid(epsilon=1, lower=-1, upper=1)
DIRECTIONS = mechanisms.local.Directions(epsilon=1, size=2)
PIECEWISE = mechanisms.local.Piecewise(epsilon=1, lower=-1, upper=1)


def hashed_untruly(x: int, bits: RandomBits) -> bool:
    """Whether the told cell is not that of the true category, which is 0."""
    _, offset, cell = HASHING.encode(x, bits=bits).tolist()
    return bool(offset * HASHING.cells >> 31 != cell)


# How untrue a report about 0 is, for each mechanism.
UNTRUE: dict[str, Callable[[int, RandomBits], float]] = {
    "randomised response": lambda x, bits: RESPONSE.encode(x, bits=bits) != 0,
    "oue, own bit": lambda x, bits: bit(OUE.encode(x, bits=bits), 0),
    "oue, ones": lambda x, bits: int(np.bitwise_count(OUE.encode(x, bits=bits)).sum()),
    "rappor": lambda x, bits: int(np.bitwise_count(RAPPOR.encode(x, bits=bits)).sum()),
    "subsets": lambda x, bits: bit(SUBSETS.encode(x, bits=bits), 0),
    "hadamard": lambda x, bits: HADAMARD.encode(x, bits=bits) >= HADAMARD.block,
    "hashing": hashed_untruly,
    "duchi": lambda x, bits: DUCHI.encode(x, bits=bits),
    "piecewise": lambda x, bits: abs(PIECEWISE.release(x, bits=bits)),
    "hybrid": lambda x, bits: abs(HYBRID.release(x, bits=bits)),
    "directions": lambda x, bits: float(DIRECTIONS.encode([x, 1], bits=bits)[1]),
}


@pytest.mark.slow
@pytest.mark.statistical
@pytest.mark.parametrize("kind", UNTRUE)
def test_time_and_truth_are_unrelated(kind: str) -> None:
    # As of noise: medians differ by 0.004 on a busy machine, by 0.01 where lies are rare.
    def untrue(x: int, *, bits: RandomBits) -> float:
        return UNTRUE[kind](x, bits)

    assert abs(difference(untrue, 20_000)) < 0.03


@pytest.mark.slow
def test_a_second_draw_for_lies_alone_would_be_seen() -> None:
    def leaks(x: int, *, bits: RandomBits) -> float:
        lied = bool(RESPONSE.encode(x, bits=bits) != 0)
        if lied:
            bits.words(200)
        return lied

    assert difference(leaks, 20_000) > 0.06
