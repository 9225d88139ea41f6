"""By how much one unit can move an exact answer, and why.

Every measured row adds a vector to the cell (group) it falls into; the cells are disjoint. A unit
brings at most r rows. Write C for what it adds to the whole answer: C lies in r times the convex
hull of {0} and the vectors one row can add in any cell. Under add/remove the answer moves by C,
under replacement by C - C'. Norms are convex, so their largest values are taken at corners: all r
rows at one extreme in one cell, and for C' likewise in the same or another cell. Each function
below is that maximum, worked out.
"""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction

from tacet.query.units import Reach

__all__ = ["Sensitivity", "of_counts", "of_people", "of_ranks", "of_splits", "of_sums", "of_totals"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Sensitivity:
    """How far one unit moves a vector of exact answers.

    l1: the most the sum of absolute changes can be; l2_squared: the most the sum of squared
    changes can be (kept squared, so that it is exact); reason: one sentence for people. Both are
    in units of the exact integers that the engine returns.
    """

    l1: Fraction
    l2_squared: Fraction
    reason: str


def of_counts(reach: Reach) -> Sensitivity:
    """Rows counted by cell: a row adds 1 to one cell.

    Add/remove: r in both norms (all rows may fall into one cell). Replacement: r leave one cell
    and r enter another, or, with a single cell, r come or go.
    """
    r = Fraction(reach.rows)
    if not reach.replaced or reach.cells == 1:
        return Sensitivity(l1=r, l2_squared=r**2, reason=_rows(reach))
    return Sensitivity(l1=2 * r, l2_squared=2 * r**2, reason=_rows(reach))


def of_people(reach: Reach) -> Sensitivity:
    """Units counted once in every cell they appear in: at most min(r, cells) cells."""
    most = min(reach.rows, reach.cells)
    if reach.replaced:
        most = min(2 * most, reach.cells)
    cells = "1 cell" if most == 1 else f"{most:,} cells"
    return Sensitivity(
        l1=Fraction(most),
        l2_squared=Fraction(most),
        reason=f"one unit changes the count of people by 1 in at most {cells}",
    )


def of_sums(reach: Reach, *, lower: int, upper: int) -> Sensitivity:
    """Sums by cell of integers in [lower, upper] (both in grid units)."""
    r = Fraction(reach.rows)
    largest = Fraction(max(abs(lower), abs(upper)))
    why = f"{_rows(reach)}; each moves the sum by at most max(|lower|, |upper|)"
    if not reach.replaced:
        return Sensitivity(l1=r * largest, l2_squared=(r * largest) ** 2, reason=why)
    spread = Fraction(max(upper, 0) - min(lower, 0))  # both extremes in one cell
    if reach.cells == 1:
        return Sensitivity(l1=r * spread, l2_squared=(r * spread) ** 2, reason=why)
    return Sensitivity(
        l1=2 * r * largest,
        l2_squared=r**2 * max(2 * largest**2, spread**2),
        reason=why,
    )


def of_splits(reach: Reach, *, width: int) -> Sensitivity:
    """Pairs (sum of x - lower, sum of upper - x) by cell: a row adds (a, b), a + b = width.

    Add/remove: r width in both norms. Replacement: all rows go from one end to the other, which
    moves two entries by r width.
    """
    step = Fraction(reach.rows) * width
    why = (
        f"{_rows(reach)}; each adds (x - lower, upper - x), which together are upper - lower "
        "wherever x lies"
    )
    if not reach.replaced:
        return Sensitivity(l1=step, l2_squared=step**2, reason=why)
    return Sensitivity(l1=2 * step, l2_squared=2 * step**2, reason=why)


def of_ranks(reach: Reach, *, quantile: Fraction) -> Sensitivity:
    """The rank loss of one quantile, summed over cells (only `l1` has a use).

    A row added below, at or above a candidate moves #{x < e} - q n by -q or 1 - q, and
    q n - #{x <= e} by q or q - 1; their positive part moves by at most max(q, 1 - q). Replacing
    r rows within one cell moves it by at most r, across two cells by 2 r max(q, 1 - q).
    """
    r, steepest = Fraction(reach.rows), max(quantile, 1 - quantile)
    if not reach.replaced:
        move = r * steepest
    elif reach.cells == 1:
        move = r
    else:
        move = 2 * r * steepest
    why = f"{_rows(reach)}; each moves a rank by at most max(q, 1 - q), over all groups together"
    return Sensitivity(l1=move, l2_squared=move**2, reason=why)


def of_totals(reach: Reach, *, signs: int = 1) -> Sensitivity:
    """In how many disjoint groups of people, by cell and sign, one unit's change is felt.

    A person's rows in a cell make one number with one sign: r rows fall into at most min(r, cells)
    cells. Replacement: the old and the new person, each in as many groups.
    """
    most = min(reach.rows, reach.cells)
    if reach.replaced:
        most = min(2 * most, reach.cells * signs)
    cells = "1 cell" if most == 1 else f"{most:,} cells"
    return Sensitivity(
        l1=Fraction(most),
        l2_squared=Fraction(most),
        reason=f"one unit has one number in at most {cells}, whatever its rows are; in each it "
        "changes a count of people by 1 and a sum of cut numbers by the level at which it is cut",
    )


def _rows(reach: Reach) -> str:
    rows = "1 row" if reach.rows == 1 else f"{reach.rows:,} rows"
    if reach.replaced:
        return f"replacing one unit takes out at most {rows} and puts in as many"
    return f"one unit brings at most {rows}"
