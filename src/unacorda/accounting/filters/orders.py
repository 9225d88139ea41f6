"""The Renyi filter over a grid of orders: any order that still holds is enough."""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

import functools
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from fractions import Fraction

from unacorda.accounting.filters.additive import Filter, approximate_limit, cannot_add
from unacorda.checks import Number
from unacorda.errors import InvalidParameter
from unacorda.privacy import conversions
from unacorda.privacy.guarantees import Additive, ApproxDP, Guarantee, RenyiDP, renyi_of

DEFAULT_ORDERS: tuple[Number, ...] = (2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64, 96, 128, 256)
"""About evenly spread on a logarithmic scale; each order of the grid costs a part of delta."""


@dataclass(frozen=True, slots=True)
class RenyiFilter:
    r"""Adds Renyi divergences at several orders at once, against one (epsilon, delta).

    Each order alpha has a budget B_alpha, fixed before the first answer, whose conversion at
    `limit.epsilon` gives at most delta / (number of orders). A cost is admitted while, after it,
    at least one order has its sum within its budget. What was admitted is (epsilon, delta)-DP:
    the best order may be found out as one goes, and is paid for by the division of delta.

    limit: ApproxDP with delta strictly between 0 and 1. orders: all above 1, no two equal; an
    order whose budget would be negative is left out, and its part of delta goes to the others.
    Costs are guarantees without delta that have a Renyi divergence at every order (PureDP, ZCDP,
    GDP), or a sequence of RenyiDP, one for each of `orders`, in that order.
    Raises InvalidParameter where no order has a budget, WrongUnit for a cost without a divergence
    at some order, UnsupportedEvent for a cost that is no guarantee.

    Bound       the guarantee of what is spent is an upper bound; budgets are rounded down.
    Source      Feldman and Zrnic 2021, arXiv:2008.11193 (one order);
                docs/proofs/filters.md, Theorem 2 (the grid).

    >>> from unacorda.privacy.guarantees import ZCDP
    >>> account = RenyiFilter(ApproxDP(1, 1e-6), orders=(8, 16, 32, 64))
    >>> account.orders == (16, 32, 64), account.admits(ZCDP(0.01)), account.admits(ZCDP(0.1))
    (True, True, False)
    """

    limit: ApproxDP
    orders: Sequence[Number] = DEFAULT_ORDERS
    _alphas: tuple[Fraction, ...] = field(init=False, repr=False)
    _filters: tuple[Filter, ...] = field(init=False, repr=False)

    def __post_init__(self) -> None:
        limit = approximate_limit(self.limit)
        if isinstance(self.orders, str | bytes) or not isinstance(self.orders, Iterable):
            expected = "a list of Renyi orders, each above 1"
            raise InvalidParameter("orders", self.orders, expected=expected)
        budgets = _budgets(limit, {RenyiDP(order, 0).alpha for order in self.orders})
        if not budgets:
            expected = "orders of which one is large enough for this epsilon and delta"
            raise InvalidParameter("orders", self.orders, expected=expected)
        alphas = tuple(budget.alpha for budget in budgets)
        object.__setattr__(self, "orders", alphas)
        object.__setattr__(self, "_alphas", alphas)
        object.__setattr__(self, "_filters", tuple(Filter(budget) for budget in budgets))

    def admits(self, cost: Guarantee | Sequence[RenyiDP]) -> bool:
        """Whether some order keeps its budget after this cost."""
        parts = self._parts(cost)
        return any(map(Filter.admits, self._filters, parts))

    def spend(self, cost: Guarantee | Sequence[RenyiDP]) -> RenyiFilter:
        """The filter after this cost, whether or not it was admitted."""
        parts = self._parts(cost)
        after = object.__new__(RenyiFilter)
        keep = object.__setattr__
        keep(after, "limit", self.limit)
        keep(after, "orders", self.orders)
        keep(after, "_alphas", self._alphas)
        keep(after, "_filters", tuple(map(Filter.spend, self._filters, parts)))
        return after

    @property
    def guarantee(self) -> ApproxDP:
        """What all admitted costs keep together: the limit."""
        return self.limit

    @property
    def budgets(self) -> tuple[RenyiDP, ...]:
        """The budget of each order, as `orders`."""
        return tuple(_renyi(account.limit) for account in self._filters)

    @property
    def spent(self) -> tuple[RenyiDP, ...]:
        """The sum of all costs at each order, as `orders`."""
        return tuple(_renyi(account.spent) for account in self._filters)

    @property
    def remaining(self) -> tuple[RenyiDP, ...]:
        """What is left at each order, as `orders`; one order is enough."""
        return tuple(_renyi(account.remaining) for account in self._filters)

    def _parts(self, cost: Guarantee | Sequence[RenyiDP]) -> Sequence[RenyiDP]:
        if isinstance(cost, Additive):
            parts = _divergences(cost, tuple((a.numerator, a.denominator) for a in self._alphas))
            if parts is not None:
                return parts
            hint = "Charge PureDP, ZCDP or GDP without delta, or one RenyiDP for each order."
            raise cannot_add(cost, self.limit, hint=hint)
        if not isinstance(cost, list | tuple):
            raise cannot_add(cost, self.limit)
        if tuple(getattr(part, "alpha", None) for part in cost) != self._alphas:
            orders = ", ".join(str(alpha) for alpha in self._alphas)
            expected = f"one RenyiDP for each of the orders {orders}"
            raise InvalidParameter("cost", cost, expected=expected)
        return cost


@functools.lru_cache(maxsize=1024)
def _divergences(
    cost: Guarantee, alphas: tuple[tuple[int, int], ...]
) -> tuple[RenyiDP, ...] | None:
    """The divergence at each order; pairs of integers, since a Fraction's hash takes long."""
    found = [renyi_of(cost, alpha=Fraction(*alpha)) for alpha in alphas]
    parts = tuple(part for part in found if part is not None)
    return parts if len(parts) == len(found) else None


def _budgets(limit: ApproxDP, alphas: set[Fraction]) -> list[RenyiDP]:
    """The budgets of the usable orders, ascending; delta is divided among these alone."""
    usable = sorted(alphas)
    while usable:
        share = limit.delta / len(usable)
        positive = [alpha for alpha in usable if _serves(limit.epsilon, share, alpha)]
        if len(positive) == len(usable):
            return [RenyiDP(alpha, _budget(limit.epsilon, share, alpha)) for alpha in usable]
        usable = positive
    return []


def _serves(epsilon: Fraction, delta: Fraction, alpha: Fraction) -> bool:
    """Whether the closed conversion has a budget; where it has none, the optimal one is tiny."""
    return conversions.approx_dp_from_renyi_closed(1e-12, alpha=alpha, delta=delta) < epsilon


def _budget(epsilon: Fraction, delta: Fraction, alpha: Fraction) -> Fraction:
    """The Renyi divergence that implies (epsilon, delta), rounded down."""
    return Fraction(conversions.renyi_from_approx_dp(epsilon, delta=delta, alpha=alpha))


def _renyi(guarantee: Guarantee) -> RenyiDP:
    assert isinstance(guarantee, RenyiDP)
    return guarantee
