"""A choice of rows on which engines agree: a poor hash, of arithmetic that all of them have.

Each engine draws rows with a hash of its own. To compare what they count of rows that are bounded,
tests plant this one in its place.
"""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

import random
from collections.abc import Sequence

import pytest
from tests.support.planting import plant
from tests.support.seams import bounding

__all__ = ["SIGNS", "plant_shared_hash", "shared_hash", "weights_of"]

SIGNS = "0123456789-abcdefghijklmnopqrstuvwxyz"


def weights_of(salt: int, columns: int) -> list[tuple[int, int, int]]:
    """Of each column the weights of its length, first and last sign."""
    drawn = random.Random(salt)
    return [
        (drawn.randrange(1, 997), drawn.randrange(1, 997), drawn.randrange(1, 997))
        for _ in range(columns)
    ]


def shared_hash(columns: Sequence[str], *, salt: int) -> str:
    """SQL of a number in [0, 1) that looks as if it were drawn."""
    parts = []
    for column, (length, first, last) in zip(columns, weights_of(salt, len(columns)), strict=True):
        text = f"CAST({column} AS VARCHAR)"
        parts += [
            f"{length} * length({text})",
            f"{first} * strpos('{SIGNS}', left({text}, 1))",
            f"{last} * strpos('{SIGNS}', right({text}, 1))",
        ]
    added = " + ".join(f"coalesce({part}, 5)::DOUBLE" for part in parts)
    hashed = f"(({added}) / 997e0)"
    return f"({hashed} - floor({hashed}))"


def plant_shared_hash(patch: pytest.MonkeyPatch) -> None:
    """Let every engine draw with it, wide rows in one order."""
    plant(patch, bounding.salted_hash, shared_hash)
    plant(patch, bounding.uniform_of, lambda hashed: hashed)
    patch.setattr(bounding, "WIDE", 10**6)
