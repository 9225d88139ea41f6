"""Filters: whether the next charge still fits, when every charge may depend on all answers so far.

Each filter is a value: `admits(cost)` decides, `spend(cost)` gives the filter after it, in constant
time and memory, in exact arithmetic. `Account` shares one among threads and hands out sub-accounts.
Proofs: docs/proofs/filters.md.
"""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

import functools
import math
import os
import threading
from collections.abc import Callable, Hashable, Iterable, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from typing import NoReturn, Protocol

from unacorda.accounting.parallel import ParallelComposition
from unacorda.checks import Number
from unacorda.errors import (
    BudgetExceeded,
    InvalidParameter,
    LedgerMismatch,
    UnsupportedEvent,
    WrongUnit,
)
from unacorda.privacy import conversions
from unacorda.privacy.events.fields import keep
from unacorda.privacy.guarantees import (
    ZCDP,
    Additive,
    ApproxDP,
    Guarantee,
    PureDP,
    RenyiDP,
    renyi_of,
    share,
    zcdp_of,
)
from unacorda.privacy.neighbors import AddRemove, Neighbors
from unacorda.privacy.rounding import grid_down

__all__ = ["Account", "AdaptiveFilter", "ApproximateFilter", "Filter", "RenyiFilter"]


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

    docs/proofs/filters.md, Theorem 1, proves that delta adds up along with rho or mu^2.

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
            capacity = tuple(int(number * denominator) for number in self.limit.additive)
            spent = (0,) * len(capacity)
            keep(self, _denominator=denominator, _capacity=capacity, _spent=spent)

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


@dataclass(frozen=True, slots=True)
class ApproximateFilter:
    r"""Spends that are chosen as one goes, and are (epsilon, delta)-DP together, by a filter.

    A cost is admitted while, after it, the sum of the costs' own deltas is at most
    ``limit.delta - slack`` and one of these holds:

    - the sum of rho_i is at most the largest rho that implies (epsilon, delta'), where an
      epsilon_i-DP part costs rho_i = epsilon_i tanh(epsilon_i / 2), a mu_i-GDP one mu_i^2 / 2;
    - all costs were pure or approximate, and the sum of epsilon_i is at most epsilon.

    Everything that is admitted by the classic test
    sqrt(2 log(1/slack) S) + S/2 <= epsilon, S = sum of epsilon_i^2, is admitted here.

    limit: ApproxDP with delta strictly between 0 and 1, the guarantee of all that is spent.
    slack: the part of limit.delta that the conversion from rho uses, fixed before the first
    answer, above 0 and at most limit.delta; left out, half of it. Costs are PureDP, ApproxDP,
    ZCDP or GDP, mixed freely.
    Raises InvalidParameter for a slack out of range, WrongUnit for a RenyiDP cost and
    UnsupportedEvent for a cost that is no guarantee.

    Bound       the guarantee of what is spent is an upper bound; budgets are rounded down.
    Source      Whitehouse, Ramdas, Rogers, Wu 2023, arXiv:2203.05481 (the classic
                test); docs/proofs/filters.md, Theorems 1, 2 and 3 (this one).

    >>> account = ApproximateFilter(ApproxDP(1, 1e-6))
    >>> account.admits(PureDP(1))
    True
    >>> for _ in range(200):
    ...     account = account.spend(PureDP(0.01))
    >>> account.admits(PureDP(0.01)), account.guarantee == ApproxDP(1, 1e-6)
    (True, True)
    """

    limit: ApproxDP
    slack: Number | None = None
    _rho: Filter = field(init=False, repr=False)
    _plain: Filter = field(init=False, repr=False)
    _plain_counts: bool = field(default=True, init=False, repr=False)

    def __post_init__(self) -> None:
        limit = approximate_limit(self.limit)
        slack = limit.delta / 2 if self.slack is None else share("slack", self.slack)
        if not 0 < slack <= limit.delta:
            expected = f"above 0, at most the delta of the limit, {limit}"
            raise InvalidParameter("slack", self.slack, expected=expected)
        own = limit.delta - slack
        # Without a part of mass `own`, the rest of the pair may have (delta - own) / (1 - own).
        rest = conversions.delta_of_part(limit.delta, part=own)
        assert rest is not None
        budget = grid_down(conversions.zcdp_from_approx_dp(limit.epsilon, delta=rest))
        plain = Filter(ApproxDP(limit.epsilon, own))
        keep(self, slack=slack, _rho=Filter(ZCDP(budget, own)), _plain=plain)

    def admits(self, cost: Guarantee) -> bool:
        """Whether all costs so far and this one stay within the limit together."""
        rho, plain = self._costs(cost)
        if self._rho.admits(rho):
            return True
        return plain is not None and self._plain_counts and self._plain.admits(plain)

    def spend(self, cost: Guarantee) -> ApproximateFilter:
        """The filter after this cost, whether or not it was admitted."""
        rho, plain = self._costs(cost)
        after = object.__new__(ApproximateFilter)
        spent = self._plain if plain is None else self._plain.spend(plain)
        keep(after, limit=self.limit, slack=self.slack, _rho=self._rho.spend(rho))
        keep(after, _plain=spent, _plain_counts=self._plain_counts and plain is not None)
        return after

    @property
    def guarantee(self) -> ApproxDP:
        """What all admitted costs keep together: the limit."""
        return self.limit

    @property
    def spent(self) -> ZCDP:
        """The sums of rho and of delta over all costs."""
        spent = self._rho.spent
        assert isinstance(spent, ZCDP)
        return spent

    @property
    def remaining(self) -> ZCDP:
        """What is left by the sum of rho; a pure cost above it may still fit by the plain sum."""
        remaining = self._rho.remaining
        assert isinstance(remaining, ZCDP)
        return remaining

    def _costs(self, cost: Guarantee) -> tuple[ZCDP, ApproxDP | None]:
        """The cost as approximate zCDP, and as (epsilon, delta) where it has them."""
        rho = zcdp_of(cost)
        if rho is None:
            hint = "Charge PureDP, ApproxDP, ZCDP or GDP here, or open a RenyiFilter."
            raise cannot_add(cost, self.limit, hint=hint)
        if isinstance(cost, PureDP):
            return rho, ApproxDP(cost.epsilon, 0)
        return rho, cost if isinstance(cost, ApproxDP) else None


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
        keep(self, orders=alphas, _alphas=alphas, _filters=tuple(map(Filter, budgets)))

    def admits(self, cost: Guarantee | Sequence[RenyiDP]) -> bool:
        """Whether some order keeps its budget after this cost."""
        parts = self._parts(cost)
        return any(map(Filter.admits, self._filters, parts))

    def spend(self, cost: Guarantee | Sequence[RenyiDP]) -> RenyiFilter:
        """The filter after this cost, whether or not it was admitted."""
        parts = self._parts(cost)
        after = object.__new__(RenyiFilter)
        spent = tuple(map(Filter.spend, self._filters, parts))
        keep(after, limit=self.limit, orders=self.orders, _alphas=self._alphas, _filters=spent)
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


class AdaptiveFilter(Protocol):
    """What an account needs of a filter: a decision, and the filter after a cost."""

    def admits(self, cost: Guarantee, /) -> bool:
        """Whether the cost fits."""

    def spend(self, cost: Guarantee, /) -> AdaptiveFilter:
        """The filter after the cost."""

    @property
    def spent(self) -> object:
        """What was spent."""

    @property
    def remaining(self) -> object:
        """What is left."""


class Account:
    """A filter that threads and analysts share, with sub-accounts: each spend is one step.

    A spend is looked at by the account and by all above it, and either debited from all of them
    or from none, under one lock of the whole tree: two threads never both get the last of it.
    Questions of sub-accounts may be interleaved in any order, each chosen after seeing all
    answers. That is sound because every atomic release is debited from the root before it is
    made: to the root, all analysts together are one who asks adaptively. An interactive object
    (such as AboveThreshold) is therefore debited in full when it is created.

    budget: a guarantee, or a filter. name: for messages. above and part_of: set by `sub_account`
    and `Split.part`. In memory only: a copy of the account in
    a forked process may not spend (LedgerMismatch), and copies and pickles are refused (TypeError).

    Bound       the root's filter bounds everything spent below it.
    Source      that of the filter; docs/proofs/filters.md, Theorems 1 and 4.

    >>> from unacorda.privacy.guarantees import PureDP
    >>> account = Account(PureDP(1), name="survey")
    >>> mine = account.sub_account("mine", PureDP(0.3))
    >>> mine.spend(PureDP(0.2))
    >>> account.remaining, mine.remaining, mine.admits(PureDP(0.2))
    (PureDP(epsilon=0.8), PureDP(epsilon=0.1), False)
    """

    def __init__(
        self,
        budget: Guarantee | AdaptiveFilter,
        *,
        name: str = "account",
        above: Account | None = None,
        part_of: tuple[ParallelComposition, Hashable] | None = None,
    ) -> None:
        if not isinstance(name, str):
            raise InvalidParameter("name", name, expected="text")
        if above is not None and not isinstance(above, Account):
            raise InvalidParameter("above", above, expected="an Account, or None")
        self.name: str = name if above is None else f"{above.name}/{name}"
        self.above = above
        self.part_of = part_of
        self.lock: threading.RLock = threading.RLock() if above is None else above.lock
        self._filter = _filter_of(budget)
        self._process = os.getpid()

    @property
    def filter(self) -> AdaptiveFilter:
        """The filter after all charges so far."""
        return self._filter

    def admits(self, cost: Guarantee) -> bool:
        """Whether `spend(cost)` would succeed now; another thread may be faster."""
        try:
            with self.lock:
                self.debits(cost)
        except BudgetExceeded:
            return False
        return True

    def spend(self, cost: Guarantee) -> None:
        """Debit a cost from this account and all above it, or from none.

        Raises BudgetExceeded, naming the account that refused, and WrongUnit for a cost of a kind
        that one of them does not add.
        """
        with self.lock:
            for debit in self.debits(cost):
                debit()

    @property
    def spent(self) -> object:
        """What was spent here and below, in the unit of this account's filter."""
        return self._filter.spent

    @property
    def remaining(self) -> object:
        """What is left of this account's own budget; an account above may have less."""
        return self._filter.remaining

    def sub_account(self, name: str, budget: Guarantee | AdaptiveFilter) -> Account:
        """An account below this one: what it spends counts in both, up to its own budget.

        Nothing is set aside: sub-accounts may promise more together than there is, and the
        account above decides who comes too late.
        """
        return Account(budget, name=name, above=self)

    def split(self, *, max_parts: int = 1, neighbors: Neighbors = AddRemove) -> Split:
        """Parts, disjoint in units, of which this account owes the `max_parts` largest spends.

        See ParallelComposition for what must hold of the parts.
        Raises InvalidParameter unless this account and all above it add in one unit, and where it
        is or lies below a part under ReplaceOne in ApproxDP: where a debit is converted on its way
        up, other than in proportion, the largest spend would be converted in pieces, too cheaply.
        """
        mine = self._filter
        above: Account | None = self
        while above is not None:
            if not _adds_alike(mine, above.filter):
                expected = "an account that adds in one unit with all above it, to be split"
                raise InvalidParameter("account", above.name, expected=expected)
            if above.part_of is not None and not above.part_of[0].linear:
                expected = "no part under ReplaceOne in ApproxDP, to be split again"
                raise InvalidParameter("account", above.name, expected=expected)
            above = above.above
        assert isinstance(mine, Filter)
        return Split(
            self, ParallelComposition(mine.limit, max_parts=max_parts, neighbors=neighbors)
        )

    def __reduce__(self) -> NoReturn:
        raise TypeError("An account holds a budget: it cannot be pickled or copied.")

    def debits(self, cost: Guarantee) -> list[Callable[[], None]]:
        """The steps of a spend here and above, to be taken together while `lock` is held.

        Raises BudgetExceeded where one of the accounts refuses; nothing has changed then.
        """
        if self._process != os.getpid():
            raise LedgerMismatch(
                f"Account {self.name!r} belongs to another process: this one is a copy made by a "
                "fork, and what it spent would be counted nowhere. Spend in the first process."
            )
        if not self._filter.admits(cost):
            raise BudgetExceeded(asked=cost, left=self._filter.remaining, account=self.name)
        after = self._filter.spend(cost)

        def debit() -> None:
            self._filter = after
            if self.part_of is not None:
                composition, part = self.part_of
                composition.spend(part, cost)

        if self.above is None:
            return [debit]
        owed = cost if self.part_of is None else self.part_of[0].increase(self.part_of[1], cost)
        return [debit, *self.above.debits(owed)]


class Split:
    """The parts of an account that was split; made by `Account.split`."""

    def __init__(self, account: Account, composition: ParallelComposition) -> None:
        self._account, self._composition = account, composition
        self._parts: dict[Hashable, Account] = {}

    def part(self, key: Hashable, budget: Guarantee | None = None) -> Account:
        """The account of one part, the same at every call.

        key: the public name of the part. budget: its own limit, in the unit of the account that
        was split; left out, the limit of that account. Only the first call may set it.
        Raises InvalidParameter for a second budget.
        """
        with self._account.lock:
            if key not in self._parts:
                whole = self._account.filter
                assert isinstance(whole, Filter)
                limit = whole.limit if budget is None else budget
                if not whole.limit.comparable_with(limit):
                    raise cannot_add(limit, whole.limit)
                self._parts[key] = Account(
                    limit, name=str(key), above=self._account, part_of=(self._composition, key)
                )
            elif budget is not None:
                expected = "nothing: the budget of a part is set once"
                raise InvalidParameter("budget", budget, expected=expected)
            return self._parts[key]

    @property
    def owed(self) -> Guarantee:
        """What the parts together cost the account that was split."""
        with self._account.lock:
            return self._composition.owed


def _filter_of(budget: Guarantee | AdaptiveFilter) -> AdaptiveFilter:
    if isinstance(budget, Additive):
        return Filter(budget)
    if not all(hasattr(budget, name) for name in ("admits", "spend", "remaining")):
        raise cannot_add(budget, None)
    return budget


def _adds_alike(one: AdaptiveFilter, other: AdaptiveFilter) -> bool:
    return (
        isinstance(one, Filter)
        and isinstance(other, Filter)
        and one.limit.comparable_with(other.limit)
    )
