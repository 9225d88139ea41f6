r"""The sensitivity of a series: the largest norm of C v that a contribution bound allows.

C is lower triangular Toeplitz with the coefficients c_0 >= c_1 >= ... >= 0, and v_t is the norm of
a person's contribution at step t. The squared norm is the sum of G_ij v_i v_j with G = C^T C, whose
entries decrease with the distance of i and j and with the later of the two. Proofs:
docs/proofs/over-time.md.
"""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from unacorda.accounting.matrices import squared_toeplitz_sensitivity
from unacorda.over_time.bounds import OverTime

Floats = NDArray[np.float64]

_U = 2.0**-53
_LARGEST_GRAM = 2_000
"""Steps up to which every later column is known to be shorter."""


def squared_sensitivity(
    column: Sequence[Fraction], person: OverTime, *, steps: int | None, replaced: bool, signed: bool
) -> Fraction:
    """Bounds the square of the l2 sensitivity of all steps together.

    Parameters
    ----------
    column
        The first column of the encoder, non-negative and non-increasing; zeros follow.
    person
        The contribution bounds of a person; each row is at most 1 in the l2 norm.
    steps
        The number of steps; None without an end.
    replaced
        Whether a person is replaced by another, instead of added or removed.
    signed
        Whether numbers below 0 and above 0 may be added; replacing then doubles.

    Statement   m^2 S_k^2 for k steps of m rows, S_k that of the first k; of R rows in all also
                R^2 G_00 and m^2 S_ceil(R / m)^2, the least of them; in N periods the sum of
                `periods`, or m^2 S_kN^2 where that is less. Replaced: twice the square, or four
                times where signed.
    Bound       upper; exact for k steps of m rows, but for round-off.
    Source      docs/proofs/over-time.md, Theorems 1 to 4; Kalinin and Lampert 2024, Thm. 2.

    >>> one = OverTime(max_steps=2)
    >>> squared_sensitivity((Fraction(1), Fraction(1)), one, steps=4, replaced=False, signed=False)
    Fraction(6, 1)
    """
    each = person.each
    if person.within is not None:
        assert person.max_steps is not None
        assert steps is not None
        numbers = np.array([float(c) for c in column])
        total = periods(numbers, steps=steps, most=person.max_steps, within=person.within)
        count = -(-steps // person.within)
        added = count if steps > _LARGEST_GRAM else count**2
        found = Fraction(total) * (1 + Fraction(_U) * (64 + len(column) + added))
        turns = min(person.max_steps * count, steps)
        found = each**2 * min(found, _first(column, steps=steps, turns=turns))
    else:
        found = min(
            weight * _first(column, steps=steps, turns=turns) for weight, turns in _cases(person)
        )
    return found * (1 if not replaced else 4 if signed else 2)


def squared_norm(column: Floats, person: OverTime, *, steps: int) -> float:
    """Computes the same in floats, without replacement, to compare encoders.

    Bound       none: it is rounded to the nearest.
    Source      squared_sensitivity.
    """
    sums = np.zeros(steps)
    sums[: min(column.size, steps)] = column[:steps]
    sums = np.cumsum(sums)
    if person.within is not None:
        assert person.max_steps is not None
        total = periods(column, steps=steps, most=person.max_steps, within=person.within)
        turns = min(person.max_steps * -(-steps // person.within), steps)
        return person.each**2 * min(total, _of_first(sums, turns))
    return min(weight * _of_first(sums, turns) for weight, turns in _cases(person))


def periods(column: Floats, *, steps: int, most: int, within: int) -> float:
    r"""Computes a bound on the squared norm of `most` steps in each period of `within` steps.

    Statement   the sum over pairs of periods of bounds on their pairs of steps: the l-th of one and
                the m-th of the period q are in a column no earlier than q P + m, and at least m - l
                apart within a period, (q - p - 1) P + k + m - l between two.
    Bound       upper, but for round-off: see docs/proofs/over-time.md.
    Edges       above 2,000 steps later columns count as long as the first.
    Source      docs/proofs/over-time.md, Theorem 3.

    >>> periods(np.array([1.0]), steps=10, most=2, within=5)
    4.0
    """
    bands = min(column.size, steps)
    count = -(-steps // within)
    ranks = np.arange(most)
    apart = ranks[None, :] - ranks[:, None]  # of the m-th after the l-th
    if steps > _LARGEST_GRAM:
        inner = np.convolve(column[:bands], column[:bands][::-1])[bands - 1 :]
        lags = np.concatenate([inner, [0.0]])

        def between(distance: NDArray[np.int64]) -> float:
            return float(lags[np.minimum(distance, bands)].sum())

        total = count * between(np.abs(apart))
        for turns in range(1, count):
            nearest = (turns - 1) * within + most + apart
            if nearest.min() >= bands:
                break
            total += 2 * (count - turns) * between(nearest)
        return total
    gram = _gram(column[:bands], steps)
    total = 0.0
    for q in range(count):
        here = ranks[: min(most, steps - q * within)]
        last = q * within + here
        later = np.maximum(last[:, None], last[None, :])
        within_period = np.minimum(np.abs(here[:, None] - here[None, :]), bands)
        total += float(gram[within_period, later].sum())
        for turns in range(1, q + 1):
            nearest = (turns - 1) * within + most + apart[:, : here.size]
            if nearest.min() >= bands:
                break
            distance = np.minimum(nearest, bands)
            total += 2 * float(gram[distance, np.broadcast_to(last, nearest.shape)].sum())
    return total


def _gram(column: Floats, steps: int) -> Floats:
    """Entries of G by distance, up to the bands and one of zeros, and by the later step."""
    bands = column.size
    found = np.zeros((bands + 1, steps))
    for distance in range(bands):
        sums = np.cumsum(column[: bands - distance] * column[distance:])
        terms = np.minimum(steps - np.arange(steps), sums.size)  # rows below the later column
        found[distance] = sums[terms - 1]
    return found


def _cases(person: OverTime) -> list[tuple[int, int]]:
    """Bounds on the square, each a weight times that of a number of first steps."""
    each, rows = person.each, person.max_rows
    cases = [] if person.max_steps is None else [(each**2, person.max_steps)]
    if rows is not None:
        cases += [(rows**2, 1), (each**2, -(-rows // each))]
    return cases


def _first(column: Sequence[Fraction], *, steps: int | None, turns: int) -> Fraction:
    """The square for one row in each of the first steps."""
    ends = turns + len(column) if steps is None else steps
    return squared_toeplitz_sensitivity(column, steps=ends, participations=turns, separation=1)


def _of_first(sums: Floats, turns: int) -> float:
    moved = sums.copy()
    moved[turns:] -= sums[:-turns] if turns < sums.size else 0.0
    return float(moved @ moved)
