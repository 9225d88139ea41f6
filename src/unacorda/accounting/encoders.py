"""Norms of the columns of an encoder: the largest, those of a group, and how far they reach."""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from fractions import Fraction
from functools import lru_cache
from typing import Any, TypeAlias

from unacorda import checks
from unacorda.checks import exact
from unacorda.privacy.events import MatrixMechanism

__all__ = [
    "SquaredNorms",
    "count_bands",
    "group_columns",
    "largest_squared_column",
    "squared_columns",
]

SquaredNorms: TypeAlias = tuple[tuple[Fraction, int], ...]
"""Squares of column norms, each with the number of columns that have it."""

_KINDS = 8
"""Of more norms than this, neighboring ones are read as one."""


def count_bands(event: MatrixMechanism) -> int:
    """Counts the rows that a column reaches at most, from its own row on.

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
def largest_squared_column(event: MatrixMechanism) -> Fraction:
    """Computes the square of the largest column norm.

    Bound       exact.
    Source      the definition.
    """
    encoder: Any = event.encoder
    if event.toeplitz:
        return sum((exact("encoder", c) ** 2 for c in encoder), start=Fraction(0))
    return max(squared_columns(encoder))


@lru_cache(maxsize=64)
def group_columns(event: MatrixMechanism) -> tuple[SquaredNorms, SquaredNorms]:
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
