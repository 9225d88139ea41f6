"""Correlated noise as plain Gaussian noise: the l2 sensitivity of a participation pattern.

A unit contributes vectors of norm at most 1 at up to `participations` steps that are at least
`separation` apart, and changes the release by C x. The squared norm of C x is the sum over pairs of
steps of (C^T C)_ij <x_i, x_j>, at most that of |C^T C|_ij. The bounds here are for that sum.
"""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

import itertools
import math
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from fractions import Fraction
from functools import lru_cache
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from unacorda import checks
from unacorda.checks import exact
from unacorda.privacy.events import MatrixFactorization
from unacorda.privacy.rounding import float_above

# Norms of the columns of an encoder: the largest, those of a group, and how far they reach.

SquaredNorms: TypeAlias = tuple[tuple[Fraction, int], ...]
"""Squares of column norms, each with the number of columns that have it."""

_KINDS = 8
"""Of more norms than this, neighboring ones are read as one."""


def count_bands(event: MatrixFactorization) -> int:
    """Computes the largest number of rows that a column reaches, from its own row on.

    Bound       exact.
    Source      the definition.
    """
    encoder: Any = event.encoder
    if event.toeplitz:
        return 1 + max((i for i, c in enumerate(encoder) if c != 0), default=0)
    reach = (i - next((j for j, c in enumerate(row) if c != 0), i) for i, row in enumerate(encoder))
    return 1 + max(reach)


def squared_columns(rows: Sequence[Sequence[checks.Number]]) -> list[Fraction]:
    """Computes the square of the norm of every column of an encoder given by its rows.

    Bound       exact.
    Source      the definition.
    """
    squares = [Fraction(0)] * len(rows)
    for row in rows:
        for j, c in enumerate(row):
            squares[j] += exact("encoder", c) ** 2
    return squares


@lru_cache(maxsize=256)
def largest_squared_column(event: MatrixFactorization) -> Fraction:
    """Computes the square of the largest column norm.

    Bound       exact.
    Source      the definition.
    """
    encoder: Any = event.encoder
    if event.toeplitz:
        return sum((exact("encoder", c) ** 2 for c in encoder), start=Fraction(0))
    return max(squared_columns(encoder))


@lru_cache(maxsize=64)
def group_columns(event: MatrixFactorization) -> tuple[SquaredNorms, SquaredNorms]:
    """Computes column norms that dominate those of every group, and the norms of one group.

    The columns of a group are those of one residue of the steps modulo the separation, which is at
    least the number of bands.

    Statement   the first: at each rank the largest norm over the groups; the second: the group
                whose squares have the largest sum. Of a Toeplitz encoder both are the group of the
                first step: its column of each turn has no fewer entries than another group's.
    Bound       both: where more than 8 norms differ, runs of them have their largest, or least.
    Source      docs/proofs/matrices.md.
    """
    encoder: Any = event.encoder
    width, steps = event.separation, event.steps
    if event.toeplitz:
        turns = -(-steps // width)
        sums = list(itertools.accumulate(exact("encoder", c) ** 2 for c in encoder))
        cut = sums[min(len(sums), steps - (turns - 1) * width) - 1]
        norms = Counter({sums[-1]: turns - 1}) + Counter([cut])
        return _runs(norms, max), _runs(norms, min)
    squares = squared_columns(encoder)
    groups = [sorted(squares[start::width], reverse=True) for start in range(min(width, steps))]
    above = Counter(map(max, itertools.zip_longest(*groups, fillvalue=Fraction(0))))
    return _runs(above, max), _runs(Counter(max(groups, key=sum)), min)


def _runs(norms: Counter[Fraction], end: Callable[[Iterable[Fraction]], Fraction]) -> SquaredNorms:
    """The norms above 0, those of a run read as one of its ends."""
    ranked = sorted((square, count) for square, count in norms.items() if square)
    length = max(-(-len(ranked) // _KINDS), 1)
    runs = [ranked[start : start + length] for start in range(0, len(ranked), length)]
    return tuple((end(square for square, _ in run), sum(count for _, count in run)) for run in runs)


# The sensitivity of a binary tree of sums over steps at which a unit takes part.

_Counts = npt.NDArray[np.int64]
_NONE = -(2**60)
_TREES_MOST_WORK = 3 * 10**8
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
    if turns == 1 or turns * turns * apart**3 * (height + 1) > _TREES_MOST_WORK:
        return loose
    if _greedy(height, turns, apart) == loose:
        return loose
    return _exactly(many, height, turns, apart)


def squared_tree_move(*, steps: int, participations: int, separation: int) -> int:
    r"""The squared change of all node sums by the pattern 0, b, 2b, ..., each by 1.

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


_Array = npt.NDArray[np.float64]
_U = 2.0**-53
_EXACT = 20_000
"""Up to so many products sums are formed in fractions, without round-off."""
_MOST_PRODUCTS = 10**9
_LARGEST_GRAM = 2048
_MOST_WORK = 2 * 10**8


def squared_toeplitz_sensitivity(
    column: Sequence[checks.Number], *, steps: int, participations: int, separation: int
) -> Fraction:
    r"""The square of the sensitivity of a lower triangular Toeplitz encoder.

    column: its first column, zeros follow.

    Statement   || sum over j < k of column number j b ||^2 with c'_i = max over j >= i of |c_j|,
                k = participations, b = separation: an inner product of two columns falls with
                their distance and with the place of the later one.
    Bound       upper; exact for non-negative coefficients that do not increase.
    Source      Kalinin and Lampert 2024, arXiv:2405.13763, Thm. 2; docs/proofs/matrices.md.

    >>> squared_toeplitz_sensitivity((1, 1), steps=4, participations=2, separation=1)
    Fraction(6, 1)
    """
    turns = min(participations, -(-steps // separation))
    if turns * len(column) <= _EXACT:
        exactly = [abs(exact("encoder", c)) for c in column]
        first = list(itertools.accumulate(reversed(exactly), max))[::-1]
        return _squared_exactly(first, steps=steps, turns=turns, separation=separation)
    # each is rounded once, or is the float that the decimal is read as
    sizes = np.abs(np.array([float(c) for c in column])) * (1 + 4 * _U)
    unit = 2.0 ** math.frexp(float(np.max(sizes)))[1]  # squares stay within the floats
    coefficients: _Array = np.maximum.accumulate(sizes[::-1])[::-1] / unit
    bands = max(1, int(np.count_nonzero(coefficients)))
    if turns * bands > _MOST_PRODUCTS:  # every column that may be there
        turns = -(-steps // separation)
        sums = _all_columns(coefficients, steps=steps, separation=separation)
    else:
        sums = np.zeros(steps)
        for turn in range(turns):
            start = turn * separation
            length = min(bands, steps - start)
            sums[start : start + length] += coefficients[:length]
    total = math.fsum(np.square(sums))
    return Fraction(total) * Fraction(unit) ** 2 * (1 + Fraction(2 * turns + 8) * Fraction(_U))


def squared_matrix_sensitivity(
    rows: Sequence[Sequence[checks.Number]], *, participations: int, separation: int
) -> Fraction:
    r"""The square of the sensitivity of any lower triangular encoder, given by its rows.

    Statement   once: the largest squared column norm. Columns that never meet: the largest sum of
                squared norms over patterns, by dynamic programming. Else the smaller of
                max over patterns of the sum over i in it of r_i, where r_i is the largest sum over
                j of |C^T C|_ij over patterns that hold i, and (max of the sum of column norms)^2.
    Bound       upper; exact in the first two cases, up to the round-off of floats.
    Edges       more than 2048 rows with columns that meet -> the sum of column norms alone.
    Source      docs/proofs/matrices.md; Choquette-Choo et al. 2023, arXiv:2211.06530, Section 3.

    >>> squared_matrix_sensitivity([[1], [1, 1]], participations=1, separation=1)
    Fraction(2, 1)
    """
    steps = len(rows)
    turns = min(participations, -(-steps // separation))
    if turns == 1:
        return max(squared_columns(rows))
    largest = max(abs(exact("encoder", c)) for row in rows for c in row)
    if not 2**-100 < largest < 2**100:  # squares stay within the floats
        unit = largest or Fraction(1)
        shrunk = [[exact("encoder", c) / unit for c in row] for row in rows]
        return (
            unit**2
            * squared_matrix_sensitivity(
                shrunk, participations=participations, separation=separation
            )
            if largest
            else Fraction(0)
        )
    above, bands = np.zeros((steps, steps)), 1
    for i, row in enumerate(rows):
        above[i, : i + 1] = [float(exact("encoder", c)) for c in row]
        filled = np.flatnonzero(above[i])
        bands = max(bands, i + 1 - int(filled[0])) if len(filled) else bands
    squares = np.array([float_above(c) for c in squared_columns(rows)])
    slack = 1 + Fraction(8 * turns + 64) * Fraction(_U)
    if bands <= separation:
        return Fraction(_best_pattern(squares, turns, separation)) * slack
    norms = np.sqrt(squares) * (1 + 2 * _U)
    found = Fraction(_best_pattern(norms, turns, separation)) ** 2 * slack
    if steps <= _LARGEST_GRAM:
        sizes = np.abs(above)
        # an entry is rounded once, a sum of n products by n + 1 roundings, of the sizes' sum
        error = (steps + 8) * _U * 1.01 * (sizes.T @ sizes)
        gram = np.abs(above.T @ above) + error
        found = min(found, Fraction(_by_rows(gram, turns, separation)) * slack)
    return found


@lru_cache(maxsize=256)
def squared_sensitivity(event: MatrixFactorization) -> Fraction:
    """The square of the l2 sensitivity of all steps together, from above.

    Bound       upper.
    Source      squared_toeplitz_sensitivity, squared_matrix_sensitivity.
    """
    encoder: Any = event.encoder
    if event.toeplitz:
        return squared_toeplitz_sensitivity(
            encoder,
            steps=event.steps,
            participations=event.participations,
            separation=event.separation,
        )
    return squared_matrix_sensitivity(
        encoder, participations=event.participations, separation=event.separation
    )


@lru_cache(maxsize=256)
def squared_move(event: MatrixFactorization) -> Fraction:
    """The squared change of the release by some unit.

    The unit takes part at the first step and every `separation` steps after it, with 1 or -1 each
    time, whichever changes the release more; or once, at the largest column.

    Statement   |sum of columns 0, b, 2b, ..., each with its sign|^2, or the largest column's.
    Bound       lower, of the squared sensitivity; exact for this unit.
    Source      the definition: what is released is C x + noise.
    """
    encoder: Any = event.encoder
    turns = min(event.participations, -(-event.steps // event.separation))
    turns = min(turns, max(1, _EXACT // count_bands(event)))
    moved: dict[int, Fraction] = {}
    for turn in range(turns):
        start = turn * event.separation
        if event.toeplitz:
            entries = encoder[: event.steps - start]
        else:
            entries = [row[start] for row in encoder[start:]]
        column = {start + i: exact("encoder", c) for i, c in enumerate(entries)}
        along = sum((c * moved.get(i, 0) for i, c in column.items()), start=Fraction(0))
        sign = -1 if along < 0 else 1
        for i, c in column.items():
            moved[i] = moved.get(i, Fraction(0)) + sign * c
    own = sum((value * value for value in moved.values()), start=Fraction(0))
    return max(largest_squared_column(event), own)


def _squared_exactly(first: list[Fraction], *, steps: int, turns: int, separation: int) -> Fraction:
    sums: dict[int, Fraction] = {}
    for turn in range(turns):
        start = turn * separation
        for i, c in enumerate(first[: steps - start]):
            sums[start + i] = sums.get(start + i, Fraction(0)) + c
    return sum((value * value for value in sums.values()), start=Fraction(0))


def _all_columns(first: _Array, *, steps: int, separation: int) -> _Array:
    """Row sums over all columns 0, b, 2b, ...: those of each residue add up."""
    length = -(-steps // separation) * separation
    padded = np.zeros(length)
    padded[: len(first)] = first[:length]
    sums: _Array = np.cumsum(padded.reshape(-1, separation), axis=0).reshape(-1)[:steps]
    return sums


def _best_pattern(weights: _Array, turns: int, separation: int) -> float:
    """The largest sum of weights over patterns."""
    steps = len(weights)
    best = np.zeros((steps + 1, turns + 1))  # over the first i steps, at most m of them
    for i in range(1, steps + 1):
        before = best[max(i - separation, 0)]
        best[i] = best[i - 1]
        best[i, 1:] = np.maximum(best[i - 1, 1:], before[:-1] + weights[i - 1])
    return float(best[steps, turns])


def _by_rows(gram: _Array, turns: int, separation: int) -> float:
    """Max over patterns of the sum of r_i, r_i the best row sum of |C^T C| with i in the pattern.

    One pass from the left and one from the right, over all rows at once.
    """
    steps = len(gram)
    counted = turns if steps * steps * turns <= _MOST_WORK else 0
    left = _row_sums(gram, counted, separation)
    right = _row_sums(gram[::-1, ::-1], counted, separation)[::-1]
    if counted:
        others = np.max([left[:, m] + right[:, turns - 1 - m] for m in range(turns)], axis=0)
    else:
        others = left[:, 0] + right[:, 0]
    return _best_pattern((np.diag(gram) + others) * (1 + 8 * turns * _U), turns, separation)


def _row_sums(gram: _Array, turns: int, separation: int) -> _Array:
    """[i, m]: the largest sum over at most m steps up to i - separation, of row i; turns = 0: any.

    Of the table over steps only the last `separation` are kept.
    """
    steps = len(gram)
    found = np.zeros((steps, max(turns, 1)))
    kept = [np.zeros((max(turns, 1), steps))] * (separation + 1)
    for j in range(1, steps + 1):
        i = j - 1 + separation  # the row that may use the steps before j, and no more
        before, column = kept[(j + 1) % (separation + 1)], gram[:, j - 1]  # j - separation steps
        best = kept[(j - 1) % (separation + 1)].copy()
        if turns:
            best[1:] = np.maximum(best[1:], before[:-1] + column)
        else:
            best = np.maximum(best, before + column)
        kept[j % (separation + 1)] = best
        if i < steps:
            found[i] = best[:, i]
    return found
