"""The filter of every kind of guarantee that adds: sums, exactly, in constant time."""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

import math
from dataclasses import dataclass, field
from fractions import Fraction

from unacorda.errors import InvalidParameter, UnsupportedEvent, WrongUnit
from unacorda.privacy.guarantees import Additive, ApproxDP, Guarantee


@dataclass(frozen=True, slots=True)
class Filter:
    """How much of a limit is spent; a value, so `spend` returns a new one.

    Each charge, and even which question is asked next, may depend on all earlier answers. That
    the sums stay within the limit is then enough for

    - PureDP and ApproxDP: sums of epsilon and of delta (Rogers, Roth, Ullman, Vadhan 2016),
    - ZCDP: sums of rho and of delta (Feldman and Zrnic 2021; with delta Whitehouse, Ramdas,
      Rogers, Wu 2023),
    - GDP: the sum of mu^2, and of delta (Smith and Thakurta 2022; Koskela, Tobaben, Honkela 2022),
    - RenyiDP: the sum of epsilon at one order fixed beforehand (Feldman and Zrnic 2021).

    The sums of delta beside rho or mu^2 are proved in docs/proofs/filters.md, Theorem 1.

    limit: the budget. Arithmetic is exact, on integers over one common denominator.
    Raises UnsupportedEvent where limit or cost is no guarantee, such as an event or a curve: a
    filter that convolves them as they come is unsound.

    >>> from unacorda.privacy.guarantees import PureDP
    >>> account = Filter(PureDP(1))
    >>> for _ in range(10):
    ...     account = account.spend(PureDP(0.1))
    >>> account.remaining, account.admits(PureDP("1e-30"))
    (PureDP(epsilon=0.0), False)
    """

    limit: Guarantee
    _denominator: int = field(default=1, repr=False)
    _spent: tuple[int, ...] = field(default=(), repr=False)
    _capacity: tuple[int, ...] = field(default=(), repr=False)

    def __post_init__(self) -> None:
        if not self._spent:
            if not isinstance(self.limit, Additive):
                raise cannot_add(self.limit, None)
            denominator = math.lcm(*(number.denominator for number in self.limit.additive))
            object.__setattr__(self, "_denominator", denominator)
            capacity = tuple(int(number * denominator) for number in self.limit.additive)
            object.__setattr__(self, "_capacity", capacity)
            object.__setattr__(self, "_spent", (0,) * len(capacity))

    def admits(self, cost: Guarantee) -> bool:
        """Whether the cost fits into what is left.

        Raises WrongUnit for a cost of another kind than the limit's.
        """
        if not self.limit.comparable_with(cost):
            raise cannot_add(cost, self.limit)
        denominator = self._denominator
        for number, spent, capacity in zip(cost.additive, self._spent, self._capacity, strict=True):
            # spent/D + n/d <= capacity/D, without a division
            if number.numerator * denominator > (capacity - spent) * number.denominator:
                return False
        return True

    def spend(self, cost: Guarantee) -> Filter:
        """The filter after this cost, whether or not it was admitted: a ledger reports the truth.

        Raises WrongUnit for a cost of another kind than the limit's.
        """
        if not self.limit.comparable_with(cost):
            raise cannot_add(cost, self.limit)
        denominator, capacity, sums = self._denominator, self._capacity, self._spent
        numbers = cost.additive
        needed = math.lcm(denominator, *[number.denominator for number in numbers])
        if needed != denominator:  # rare: the first charge on a finer grid than all before
            grown = needed // denominator
            denominator, sums = needed, tuple([spent * grown for spent in sums])
            capacity = tuple([number * grown for number in capacity])
        sums = tuple(
            [
                spent + number.numerator * (denominator // number.denominator)
                for spent, number in zip(sums, numbers, strict=True)
            ]
        )
        return Filter(self.limit, denominator, sums, capacity)

    @property
    def spent(self) -> Guarantee:
        """The sum of all costs."""
        return self.limit.with_additive(
            [Fraction(number, self._denominator) for number in self._spent]
        )

    @property
    def remaining(self) -> Guarantee:
        """What is left of the limit, at least 0 in each number."""
        return self.limit.with_additive(
            [
                Fraction(max(capacity - spent, 0), self._denominator)
                for spent, capacity in zip(self._spent, self._capacity, strict=True)
            ]
        )


def cannot_add(cost: object, limit: object, *, hint: str | None = None) -> Exception:
    """The error for a cost that is no guarantee of a kind that the filter adds.

    A guarantee of another kind is WrongUnit. Anything else (an event, a privacy loss
    distribution, a trade-off curve) is UnsupportedEvent, and the message says why: curves may be
    convolved where all mechanisms are fixed before the first answer. Where later mechanisms are
    chosen after seeing earlier answers, the test "does the convolution of what was asked so far
    stay below the target?" bounds each path by itself, but not the mixture over paths that the
    chooser makes of them.
    """
    if isinstance(cost, Additive):
        return WrongUnit(cost, limit, hint=hint or f"Charge in the unit of {limit}.")
    return UnsupportedEvent(
        cost,
        kind="a filter",
        try_instead=(
            "A filter adds numbers; it does not convolve privacy loss distributions or trade-off "
            "curves, because that is unsound where questions are chosen after seeing answers. "
            "Compose what is fixed beforehand, price that batch once as a guarantee (PureDP, "
            "ZCDP, GDP, RenyiDP or ApproxDP), and spend the guarantee."
        ),
    )


def approximate_limit(limit: object) -> ApproxDP:
    """The limit, if it is ApproxDP with a delta strictly between 0 and 1."""
    if isinstance(limit, ApproxDP) and 0 < limit.delta < 1:
        return limit
    if isinstance(limit, Additive):
        expected = "ApproxDP with a delta strictly between 0 and 1"
        raise InvalidParameter("limit", limit, expected=expected)
    raise cannot_add(limit, None)
