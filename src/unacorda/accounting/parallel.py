"""Parallel composition: the debt of a parent for questions about disjoint parts of its units."""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

import bisect
from collections.abc import Callable, Hashable
from fractions import Fraction

from unacorda import checks
from unacorda.errors import InvalidParameter, WrongUnit
from unacorda.privacy.conversions.group import (
    pure_of_group,
    replace_one_from_add_remove,
    zcdp_of_group,
)
from unacorda.privacy.guarantees import GDP, ZCDP, Additive, ApproxDP, Guarantee, PureDP, RenyiDP
from unacorda.privacy.neighbors import AddRemove, Neighbors, ReplaceOne
from unacorda.privacy.rounding import grid_up


def pair_price(cost: Guarantee) -> Guarantee:
    r"""The price of replacing one unit, for a mechanism priced under adding or removing one.

    Statement   PureDP 2 epsilon; ZCDP 4 rho; GDP 2 mu; ApproxDP (2 epsilon, (1 + e^epsilon) delta):
                a replacement is a removal and an addition.
    Bound       upper; exact but for e^epsilon, which is rounded up.
    Edges       ZCDP and GDP with a delta, and RenyiDP -> InvalidParameter: no theorem here gives
                a price in the same numbers.
    Source      Dwork and Roth 2014, Theorem 2.2; Bun and Steinke 2016, Prop. 1.9; Dong, Roth, Su
                2022, Theorem 2.14; for (epsilon, delta) docs/proofs/filters.md, Theorem 4.

    >>> pair_price(ZCDP(0.5)), pair_price(GDP(1))
    (ZCDP(rho=2.0), GDP(mu=2.0))
    """
    match cost:
        case PureDP(epsilon):
            return PureDP(pure_of_group(epsilon, size=2))
        case ApproxDP(epsilon, delta):
            together, several = replace_one_from_add_remove(epsilon, delta=delta)
            return ApproxDP(together, min(grid_up(several), Fraction(1)))
        case ZCDP(rho, delta) if delta == 0:
            return ZCDP(zcdp_of_group(rho, size=2))
        case GDP(mu_squared, delta) if delta == 0:
            return GDP.from_squared(4 * mu_squared)  # 2 mu
        case _:
            expected = "PureDP, ApproxDP, or ZCDP or GDP without delta, to price a replacement"
            raise InvalidParameter("cost", cost, expected=expected)


class ParallelComposition:
    """The debt of a split's parent: the running sum of the largest spends of its parts.

    At the split each unit was assigned, once and for all questions, to at most `max_parts` parts,
    and each part has only rows of its units. Then any one unit is in the questions of at most
    `max_parts` parts. The parent owes the sum of the `max_parts` largest spends, for each additive
    number, for any interleaving and adaptive choice of questions. Without such a bound the parent
    owes the sum over all parts.

    unit: any guarantee of the kind (and order) in which parts are charged, which must be the kind
    that the parent adds: converting the parent's debits afterwards would be unsound. max_parts: 1
    or more. neighbors: the relation of the parent's guarantee. Under AddRemove and ZeroOut a part
    is charged for the same change. Under ReplaceOne a part is still charged for adding or removing
    (its size may change), and `pair_price` counts.

    Holds a dictionary of parts and changes in place; exact, in microseconds a spend. Not
    thread-safe: `Account.split` guards it.
    Raises InvalidParameter for a unit without a price of a replacement under ReplaceOne.

    Bound       upper.
    Source      McSherry 2009, Theorem 4 (parallel composition); docs/proofs/filters.md, Theorem 4
                (adaptive, interleaved, several parts a unit, replacement).

    >>> split = ParallelComposition(PureDP(0), max_parts=1)
    >>> split.spend("A", PureDP(0.5)), split.spend("B", PureDP(0.75)), split.owed
    (PureDP(epsilon=0.5), PureDP(epsilon=0.25), PureDP(epsilon=0.75))
    """

    def __init__(
        self, unit: Guarantee, *, max_parts: int = 1, neighbors: Neighbors = AddRemove
    ) -> None:
        if not isinstance(unit, Additive):
            raise InvalidParameter("unit", unit, expected="a guarantee, such as PureDP(0)")
        if not isinstance(neighbors, Neighbors):
            raise InvalidParameter("neighbors", neighbors, expected="AddRemove or ReplaceOne")
        if neighbors is ReplaceOne and isinstance(unit, RenyiDP):
            expected = "PureDP, ApproxDP, ZCDP or GDP under ReplaceOne"
            raise InvalidParameter("unit", unit, expected=expected)
        self.max_parts = checks.positive_integer(max_parts=max_parts)
        self.neighbors = neighbors
        self._unit = unit * 0
        self._sums = [_LargestSum(self.max_parts) for _ in unit.additive]

    @property
    def linear(self) -> bool:
        """Whether the price of a sum is the sum of the prices: not for the delta of a pair."""
        return not (self.neighbors is ReplaceOne and isinstance(self._unit, ApproxDP))

    @property
    def owed(self) -> Guarantee:
        """What the parent owes in all."""
        return self._unit.with_additive([sums.total for sums in self._sums])

    def spent(self, part: Hashable) -> Guarantee:
        """The spending of one part as it counts under `neighbors`; nothing for an unknown part."""
        return self._unit.with_additive([sums.of(part) for sums in self._sums])

    def increase(self, part: Hashable, cost: Guarantee) -> Guarantee:
        """The increase over `owed` if this part spent `cost`; changes nothing.

        Raises WrongUnit for a cost of another kind than the unit's.
        """
        return self._each(_LargestSum.increase, part, cost)

    def spend(self, part: Hashable, cost: Guarantee) -> Guarantee:
        """Count `cost` for a part and return the increase of the parent's debt.

        Raises WrongUnit for a cost of another kind than the unit's.
        """
        return self._each(_LargestSum.add, part, cost)

    def decrease(self, part: Hashable, cost: Guarantee) -> Guarantee:
        """The decrease from `owed` without `cost`, which this part has spent."""
        return self._each(_LargestSum.decrease, part, cost)

    def withdraw(self, part: Hashable, cost: Guarantee) -> Guarantee:
        """Take `cost` back from a part, as if it had never been spent, and return `decrease`.

        Use it only for a cost that `spend` counted, of a question that never reached any data.
        """
        return self._each(_LargestSum.remove, part, cost)

    def _each(
        self,
        change: Callable[[_LargestSum, Hashable, Fraction], Fraction],
        part: Hashable,
        cost: Guarantee,
    ) -> Guarantee:
        numbers = zip(self._sums, self._price(cost).additive, strict=True)
        return self._unit.with_additive([change(sums, part, number) for sums, number in numbers])

    def _price(self, cost: Guarantee) -> Guarantee:
        if not self._unit.comparable_with(cost):
            raise WrongUnit(cost, self._unit, hint="Charge all parts in the unit of the split.")
        return pair_price(cost) if self.neighbors is ReplaceOne else cost


class _LargestSum:
    """The sum of the `count` largest of many numbers, which are kept in order."""

    __slots__ = ("_count", "_ranked", "_values", "total")

    def __init__(self, count: int) -> None:
        self.total = Fraction(0)
        self._count = count
        self._values: dict[Hashable, Fraction] = {}
        self._ranked: list[Fraction] = []

    def of(self, part: Hashable) -> Fraction:
        return self._values.get(part, Fraction(0))

    def increase(self, part: Hashable, number: Fraction) -> Fraction:
        own, least = self.of(part), self._at_rank(self._count)
        return number if own >= least else max(own + number - least, Fraction(0))

    def add(self, part: Hashable, number: Fraction) -> Fraction:
        rise = self.increase(part, number)
        self.total += rise
        self._put(part, self.of(part) + number)
        return rise

    def decrease(self, part: Hashable, number: Fraction) -> Fraction:
        own = self.of(part)
        if own < self._at_rank(self._count):
            return Fraction(0)
        return min(number, own - self._at_rank(self._count + 1))  # what takes its place

    def remove(self, part: Hashable, number: Fraction) -> Fraction:
        fall = self.decrease(part, number)
        self.total -= fall
        self._put(part, self.of(part) - number)
        return fall

    def _at_rank(self, rank: int) -> Fraction:
        """The number at this rank, 1 for the largest; 0 beyond the last."""
        return self._ranked[-rank] if rank <= len(self._ranked) else Fraction(0)

    def _put(self, part: Hashable, value: Fraction) -> None:
        if part in self._values:
            del self._ranked[bisect.bisect_left(self._ranked, self._values[part])]
        bisect.insort(self._ranked, value)
        self._values[part] = value
