"""One filter for many threads and analysts, with sub-accounts and parts."""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Hashable
from typing import NoReturn, Protocol

from unacorda.accounting.filters.additive import Filter, cannot_add
from unacorda.accounting.parallel import ParallelComposition
from unacorda.errors import BudgetExceeded, InvalidParameter, LedgerMismatch
from unacorda.privacy.guarantees import Additive, Guarantee
from unacorda.privacy.neighbors import AddRemove, Neighbors


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
        """The filter as it stands."""
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
