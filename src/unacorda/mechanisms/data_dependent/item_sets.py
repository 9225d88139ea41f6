r"""Losses for the number of distinct items of people who hold any number of items each.

The least number of people to remove until at most y items are left is NP-hard to find: it is the
densest-subgraph problem of hypergraphs turned over. A relaxation will do, as long as a person moves
it by 0 or 1. For a ratio r = a / b let

    F_r(x) = min over sets R of people of |items of the rest| + r |R|.

This is a minimum cut, b F_r the maximum flow from a source through people, a each, and items, b
each, to a sink. With whole r it is the most items that can be handed out with at most r a person
(Knop and Steinke 2023, the capped count). A person adds between 0 and r to it. For a public set of
ratios

    loss(x, y) = max over r of ceil((F_r(x) - y) / r), or 0 if that is more,

then moves by 0 or 1 where a person is added, falls in y, is 0 where there are at most y items, and
never exceeds the true removal loss: of R that leaves at most y items, F_r <= y + r |R|.
Proof: docs/proofs/adaptive_shifted_inverse.md, section 7.
"""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

import math
from collections.abc import Sequence
from fractions import Fraction
from typing import Any, Final

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.sparse import csr_array
from scipy.sparse.csgraph import maximum_flow

from unacorda import checks, elements
from unacorda.checks import Number
from unacorda.errors import InvalidParameter
from unacorda.mechanisms.data_dependent.grids import rising
from unacorda.mechanisms.data_dependent.solvers import Integers

__all__ = ["RATIOS", "capped_count", "item_set_losses"]

RATIOS: Final = tuple(Fraction(2) ** k for k in range(-4, 11))
"""Items a person counts for: from 16 people an item to 1024 items a person."""

_LARGEST_TERM: Final = 1 << 12


def item_set_losses(
    people: ArrayLike,
    items: ArrayLike,
    *,
    grid: Sequence[Number],
    ratios: Sequence[Number] = RATIOS,
) -> Integers:
    """Losses for `ShiftedInverse.release_losses`, of the number of distinct items. NOT private.

    people, items: who holds what, one entry a pair, integers or text; pairs may repeat. grid: as
    for the mechanism, from 0 or more; ratios: public, above 0, each a maximum flow to find.

    An answer y with a loss of at most t says: for each ratio r some people can be removed so that
    the items that are left, and r for each of those people, are at most y + r t. It is at most the
    number of items, rounded up to the grid, as any answer.
    Source: Knop and Steinke 2023 (capped counts); docs/proofs/adaptive_shifted_inverse.md.

    >>> held = {"people": [1, 1, 2, 2, 3], "items": ["a", "b", "b", "c", "d"]}
    >>> item_set_losses(**held, grid=[0, 1, 2, 3, 4]).tolist()
    [3, 2, 1, 1, 0]
    """
    points = rising(grid, least=Fraction(0))
    holders, goods = _column("people", people), _column("items", items)
    if holders.shape != goods.shape:
        raise InvalidParameter(
            "items", goods.shape, expected=f"one for each entry of people, {holders.shape}"
        )
    losses = np.zeros(len(points), dtype=np.int64)
    floors = [math.floor(point) for point in points]
    for ratio in map(_ratio, ratios):
        flow = _flow(holders, goods, ratio)
        a, b = ratio.numerator, ratio.denominator
        bounds = [-((b * floor - flow) // a) for floor in floors]
        np.maximum(losses, np.array([max(bound, 0) for bound in bounds]), out=losses)
    return losses


def capped_count(people: ArrayLike, items: ArrayLike, *, cap: int) -> int:
    """The most distinct items that can be handed out with at most `cap` a person. NOT private.

    A person moves it by at most cap under every relation, so that noise for this sensitivity makes
    it a release of its own. Source: Knop and Steinke 2023.

    >>> capped_count([1, 1, 1, 2], ["a", "b", "c", "a"], cap=1)
    2
    """
    whole = checks.positive_integer(cap=cap)
    return _flow(_column("people", people), _column("items", items), _ratio(whole))


def _ratio(ratio: Number) -> Fraction:
    exact = checks.exact("ratios", ratio)
    if exact <= 0 or max(exact.numerator, exact.denominator) > _LARGEST_TERM:
        raise InvalidParameter(
            "ratios", ratio, expected="above 0, with terms of at most 4096 in lowest terms"
        )
    return exact


def _column(name: str, values: ArrayLike) -> NDArray[np.int64]:
    """Each value as the number of its kind: 0, 1, ..."""
    return elements.codes(name, values, kinds="iubU")[0]


def _flow(holders: NDArray[np.int64], goods: NDArray[np.int64], ratio: Fraction) -> int:
    """The maximum flow: what one person, a, and one item, b, let through; every pair a."""
    if holders.size == 0:
        return 0
    a, b = ratio.numerator, ratio.denominator
    people, kinds = int(holders.max()) + 1, int(goods.max()) + 1
    pairs = np.unique(holders * kinds + goods)
    source, sink = people + kinds, people + kinds + 1
    begin = np.concatenate([np.full(people, source), pairs // kinds, people + np.arange(kinds)])
    end = np.concatenate([np.arange(people), people + pairs % kinds, np.full(kinds, sink)])
    room = np.concatenate([np.full(people + pairs.size, a), np.full(kinds, b)])
    graph: Any = csr_array(
        (room.astype(np.int32), (begin.astype(np.int32), end.astype(np.int32))),
        shape=(sink + 1, sink + 1),
    )
    return int(maximum_flow(graph, source, sink).flow_value)
