"""Keys and their counts: how they come in, and in which order they may leave."""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

from collections.abc import Hashable, Iterable, Mapping
from typing import Any, TypeVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from unacorda import elements
from unacorda.errors import InvalidParameter

__all__ = ["Key", "counted", "in_order", "unzipped"]

Key = TypeVar("Key", bound=Hashable)

_END = 1 << 53  # counts above it count as it: one unit still moves them by no more than before


def counted(counts: ArrayLike) -> NDArray[np.int64]:
    """The counts as int64, from 0 to 2^53; a count below 0 is that of an absent key, 0.

    Raises InvalidParameter for a dtype that is not integer.
    """
    whole = np.minimum(elements.integers("counts", counts), _END)
    return np.maximum(whole, 0)


def unzipped(counts: Mapping[Key, int]) -> tuple[list[Key], NDArray[np.int64]]:
    """The keys and their counts, each read as an element of a list; of any size."""
    if not isinstance(counts, Mapping):
        kind: Any = type(counts).__name__
        raise InvalidParameter(
            "counts", kind, expected="a mapping from key to count; for arrays use release_array"
        )
    return list(counts), counted(list(counts.values()))


def in_order(keys: Iterable[Key]) -> list[Key]:
    """The keys, sorted: the order in which they stood in the table says something about it.

    Only keys that are released come here, so what does not compare may fall back on its text.
    """
    kept = list(keys)
    try:
        return sorted(kept)  # type: ignore[type-var]
    except TypeError:
        return sorted(kept, key=lambda key: (type(key).__name__, repr(key)))
