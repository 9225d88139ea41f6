"""Keys and their counts: how they come in, and in which order they may leave."""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

from collections.abc import Hashable, Iterable, Mapping
from typing import Any, TypeVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from unacorda.errors import InvalidParameter
from unacorda.mechanisms.arrays import array_of

__all__ = ["Key", "counted", "in_order", "unzipped"]

Key = TypeVar("Key", bound=Hashable)

_END = 1 << 53  # counts above it count as it: one unit still moves them by no more than before


def counted(counts: ArrayLike) -> NDArray[np.int64]:
    """The counts as int64, from 0 to 2^53; a count below 0 is that of an absent key, 0.

    Raises InvalidParameter for a dtype that is not integer.
    """
    array = array_of("counts", counts)
    if array.size == 0 and array.dtype.kind == "f":
        array = array.astype(np.int64)  # what numpy makes of an empty list
    if array.dtype.kind not in "iu":
        raise InvalidParameter("counts", array.dtype, expected="integers of at most 64 bits")
    end = np.array(_END).astype(array.dtype) if array.dtype.itemsize == 8 else array.max(initial=0)
    whole: NDArray[np.int64] = np.minimum(array, end).astype(np.int64)
    return np.maximum(whole, 0)


def unzipped(counts: Mapping[Key, int]) -> tuple[list[Key], NDArray[np.int64]]:
    """The keys and their counts; Python integers may have any size."""
    if not isinstance(counts, Mapping):
        kind: Any = type(counts).__name__
        raise InvalidParameter(
            "counts", kind, expected="a mapping from key to count; for arrays use release_array"
        )
    values = list(counts.values())
    if not all(isinstance(value, int | np.integer) for value in values):
        raise InvalidParameter("counts", "a mapping", expected="integers as its values")
    cut = [min(max(int(value), 0), _END) for value in values]
    return list(counts), np.array(cut, dtype=np.int64)


def in_order(keys: Iterable[Key]) -> list[Key]:
    """The keys, sorted: the order in which they stood in the table says something about it.

    Only keys that are released come here, so what does not compare may fall back on its text.
    """
    kept = list(keys)
    try:
        return sorted(kept)  # type: ignore[type-var]
    except TypeError:
        return sorted(kept, key=lambda key: (type(key).__name__, repr(key)))
