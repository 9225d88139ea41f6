"""SQL that finds the place of a value among sorted public ones, by bisection; total."""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

from collections.abc import Sequence

__all__ = ["place_among", "place_between"]


def place_between(value: str, edges: Sequence[str]) -> str:
    """0 below the first edge, i from the i-th on, one more beyond the last; NULL for NULL.

    edges: SQL literals, rising, at least two. A value at the last edge is below it, so that the
    last of the bins between edges is closed.
    """

    def found(first: int, last: int) -> str:
        if first == last:
            return str(first)
        middle = (first + last) // 2
        sign = "<=" if middle == len(edges) - 1 else "<"
        less = f"{value} {sign} {edges[middle]}"
        return f"CASE WHEN {less} THEN {found(first, middle)} ELSE {found(middle + 1, last)} END"

    return f"CASE WHEN {value} IS NOT NULL THEN {found(0, len(edges))} END"


def place_among(value: str, listed: Sequence[tuple[str, int]]) -> str:
    """The number that stands with a value; NULL for NULL and for values that are not listed.

    listed: SQL literals, rising as the engine compares them, each with its number.
    """

    def found(first: int, last: int) -> str:
        text, number = listed[first]
        if first == last:
            return f"CASE WHEN {value} = {text} THEN {number} END"
        middle = (first + last) // 2
        less = f"{value} <= {listed[middle][0]}"
        return f"CASE WHEN {less} THEN {found(first, middle)} ELSE {found(middle + 1, last)} END"

    return found(0, len(listed) - 1)
