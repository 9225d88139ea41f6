"""The sensitivity of a binary tree of sums over steps at which a unit takes part."""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

from functools import lru_cache

import numpy as np
import numpy.typing as npt

from unacorda import checks

__all__ = ["squared_tree_move", "squared_tree_sensitivity"]

_Counts = npt.NDArray[np.int64]
_NONE = -(2**60)
_MOST_WORK = 3 * 10**8
_MOST_TURNS = 10**6


@lru_cache(maxsize=256)
def squared_tree_sensitivity(*, steps: int, participations: int, separation: int) -> int:
    r"""The square of the l2 sensitivity of all node sums of a binary tree over `steps` leaves.

    The leaves are numbered from 0, a node of height h holds 2^h of them, and the root, of the least
    height that holds all steps, is released too. Node sums of steps that never come count as zero.

    Statement   max over patterns of the sum over nodes of (participations below the node)^2: where
                the separation is a power of two and the tree is full, or the problem is small,
                exactly; else each height takes as many full nodes as the separation allows.
    Bound       upper.
    Source      Kairouz et al. 2021, arXiv:2103.00039, Section D; docs/proofs/matrices.md.

    >>> squared_tree_sensitivity(steps=4, participations=1, separation=1)
    3
    >>> squared_tree_sensitivity(steps=4, participations=2, separation=1)  # 1 + 1 + 4 + 4
    10
    """
    many = checks.positive_integer(steps=steps)
    apart = checks.positive_integer(separation=separation)
    turns = min(checks.positive_integer(participations=participations), -(-many // apart))
    height = (many - 1).bit_length()
    loose = _by_heights(height, turns, apart)
    if turns == 1 or turns * turns * apart**3 * (height + 1) > _MOST_WORK:
        return loose
    if _greedy(height, turns, apart) == loose:
        return loose
    return _exactly(many, height, turns, apart)


def squared_tree_move(*, steps: int, participations: int, separation: int) -> int:
    r"""The square of how far one pattern moves all node sums: 0, b, 2b, ..., each by 1.

    steps, participations, separation: as of `squared_tree_sensitivity`.

    Bound       lower, of that one.
    Source      the definition.

    >>> squared_tree_move(steps=4, participations=2, separation=1)
    10
    """
    turns = min(participations, -(-steps // separation), _MOST_TURNS)
    return _greedy((steps - 1).bit_length(), turns, separation)


def _by_heights(height: int, turns: int, apart: int) -> int:
    """Each height alone: no node of it holds more participations than the separation allows."""
    total = 0
    for h in range(height + 1):
        most = min(turns, -(-(1 << h) // apart))
        full, rest = divmod(turns, most)
        total += full * most * most + rest * rest
    return total


def _greedy(height: int, turns: int, apart: int) -> int:
    """The pattern 0, b, 2b, ...: a lower bound."""
    leaves = np.arange(turns, dtype=np.int64) * apart
    total = 0
    for h in range(height + 1):
        counts = np.unique(leaves >> h, return_counts=True)[1]
        total += int(np.sum(counts.astype(np.int64) ** 2))
    return total


def _exactly(steps: int, height: int, turns: int, apart: int) -> int:
    """Dynamic programming over the tree.

    whole[m, a, b]: the most of a full node with m participations, none before its leaf a, none
    among its last b; part[m, a]: of the node at the edge of the steps, nothing standing to its
    right. Distances of `apart` and more are alike.
    """
    whole = np.full((turns + 1, apart, apart), _NONE, dtype=np.int64)
    whole[0] = 0
    whole[1, 0, 0] = 1
    part = whole[:, :, 0].copy()
    last = steps - 1  # the leaf at the edge
    for h in range(1, height + 1):
        size = 1 << (h - 1)
        if (last >> (h - 1)) & 1:
            part = _merged(whole, part[:, :, None], size, apart)[:, :, 0]
        else:
            part = _crowned(part)
        if h < height:
            whole = _merged(whole, whole, size, apart)
    return int(part[:, 0].max())


def _merged(left: _Counts, right: _Counts, size: int, apart: int) -> _Counts:
    """The node above two nodes of `size` leaves: the gap between them is b + a of the two."""
    turns, width = left.shape[0] - 1, right.shape[2]
    found = np.full((turns + 1, apart, width), _NONE, dtype=np.int64)
    moved = np.maximum(np.arange(apart) - size, 0)
    found = np.maximum(found, right[:, moved, :])  # none on the left
    after = np.maximum(np.arange(width) - size, 0)
    found = np.maximum(found, left[:, :, after])  # none on the right
    for one in range(1, turns):
        for x in range(apart):
            tail = left[one, :, x]
            if tail.max() < 0:
                continue
            start = right[1 : turns - one + 1, apart - 1 - x, :]
            both = tail[None, :, None] + start[:, None, :]
            np.maximum(found[one + 1 : turns + 1], both, out=found[one + 1 : turns + 1])
    return _crowned(found)


def _crowned(found: _Counts) -> _Counts:
    """The node itself adds the square of its participations."""
    squares = np.arange(found.shape[0], dtype=np.int64) ** 2
    crowned: _Counts = found + squares.reshape(-1, *([1] * (found.ndim - 1)))
    return crowned
