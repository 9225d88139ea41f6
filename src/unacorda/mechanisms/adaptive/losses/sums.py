r"""Losses of sums and means.

The largest sum after k changes adds the k largest gains: of a replaced record upper - x, of a
removed one -x, of an added one upper. Largest mean under replacement: the same sum over n. Under
addition and removal, with k changes of which r remove the least records and k - r add upper:

    mean_k(r) = (S - P_r + (k - r) upper) / (n + k - 2 r),

which is largest where one removal more no longer pays; that r does not fall as k grows. The least
ones are mirror images. Exact arithmetic throughout.

Passing losses (`runs`); exact under replacement, where the sum of k changed records takes every
value between the ends, and for a sum wherever the last change may be an addition.

Proofs: docs/proofs/adaptive_inverse.md, section 3.
"""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

from collections.abc import Iterator
from fractions import Fraction
from itertools import accumulate, chain, repeat

from unacorda.mechanisms.adaptive.losses.grid import Grid
from unacorda.mechanisms.adaptive.losses.runs import Runs, Steps, from_reach

__all__ = ["mean", "total", "total_of"]

_LIMB = 26


def total_of(steps: Steps) -> int:
    """The exact sum of steps, each of at most 2^53 in magnitude."""
    low = steps & ((1 << _LIMB) - 1)
    return (int((steps >> _LIMB).sum()) << _LIMB) + int(low.sum())


def total(steps: Steps, *, values: Grid, grid: Grid, most: int, replace: bool) -> Runs:
    """The sum; steps: sorted, of the grid `values`; grid: of the answers, with the same step."""
    sum_ = total_of(steps)
    highs = _partial(sum_, _gains(steps, values, most=most, replace=replace), most)
    mirrored = _gains(*_mirror(steps, values), most=most, replace=replace)
    lows = [-low for low in _partial(-sum_, mirrored, most)]
    return from_reach(
        [_inside(low, grid) for low in lows],
        [_inside(high, grid) for high in highs],
        grid=grid,
        most=most,
    )


def mean(steps: Steps, *, grid: Grid, most: int, replace: bool, empty: Fraction) -> Runs:
    """The mean, rounded to the grid of the values; steps: sorted; empty: that of no records."""
    none = empty / Fraction(2) ** grid.log2
    top, bottom = none.numerator, none.denominator
    mirrored, turned = _mirror(steps, grid)
    largest = _replaced_means if replace else _largest_means
    highs = largest(steps, grid, (top, bottom), most)
    lows = largest(mirrored, turned, (-top, bottom), most)
    return from_reach(
        [_nearest(-sum_, count) for sum_, count in lows],
        [_nearest(sum_, count) for sum_, count in highs],
        grid=grid,
        most=most,
    )


def _gains(steps: Steps, values: Grid, *, most: int, replace: bool) -> Iterator[int]:
    """By how much each change raises the sum, the most first."""
    least = (int(step) for step in steps[:most])
    if replace:
        return (values.last - step for step in least)
    added = max(values.last, 0)
    removed = (-step for step in least if -step > added)
    return chain(removed, repeat(added) if added else ())


def _partial(start: int, gains: Iterator[int], most: int) -> list[int]:
    limited = (gain for gain, _ in zip(gains, range(most), strict=False))
    return list(accumulate(limited, initial=start))


def _replaced_means(
    steps: Steps, grid: Grid, empty: tuple[int, int], most: int
) -> Iterator[tuple[int, int]]:
    """The largest mean, as sum and count, for k = 0, 1, ... records replaced."""
    if not steps.size:
        return iter([empty])
    gains = _gains(steps, grid, most=most, replace=True)
    return ((sum_, steps.size) for sum_ in _partial(total_of(steps), gains, most))


def _largest_means(
    steps: Steps, grid: Grid, empty: tuple[int, int], most: int
) -> Iterator[tuple[int, int]]:
    """The largest mean, as sum and count, within k additions and removals, k = 0, 1, ..., most."""
    upper, n, rest, removed = grid.last, steps.size, total_of(steps), 0
    least = steps[:most].tolist()
    yield (rest, n) if n else empty
    for k in range(1, most + 1):
        top, count = rest + (k - removed) * upper, n + k - 2 * removed
        while removed < min(k, n):
            more, left = top - least[removed] - upper, count - 2
            # The last record may go only where another one has been added.
            if left < 1 or more * count <= top * left:
                break
            rest -= least[removed]
            removed += 1
            top, count = more, left
        if k >= n and empty[0] * count > top * empty[1]:
            top, count = empty
        yield top, count


def _nearest(sum_: int, count: int) -> int:
    """The whole number nearest to the quotient, the upper of two."""
    return (2 * sum_ + count) // (2 * count)


def _inside(step: int, grid: Grid) -> int:
    return min(max(step, grid.first), grid.last)


def _mirror(steps: Steps, grid: Grid) -> tuple[Steps, Grid]:
    return -steps[::-1], Grid(-grid.last, -grid.first, grid.log2)
