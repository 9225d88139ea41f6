"""The ledger: append-only entries, and budgets that they never pass, wherever it is kept."""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import Any, NoReturn

from unacorda.accounting.filters import Filter
from unacorda.errors import InvalidParameter
from unacorda.ledger import chain
from unacorda.ledger.accounts import Accounts
from unacorda.ledger.entries import (
    Account,
    Charge,
    Entry,
    PeopleSplit,
    Reservation,
    SearchBegun,
    Searched,
    SplitPart,
)
from unacorda.ledger.replay import verify_entries
from unacorda.ledger.stores import Store, Transaction
from unacorda.privacy.event_codec import to_json
from unacorda.privacy.guarantees import Guarantee, guarantee_from_json

__all__ = ["Ledger", "SubAccount"]


class Ledger(Accounts):
    """Budgets by dataset, made by `open_ledger`. Safe to use from several threads.

    Memory, SQLite and PostgreSQL keep one contract, tested by one suite. Whatever is reserved is
    spent: a reservation that is never committed stays spent. Each reservation is one transaction
    that holds its dataset, asks the filters with running totals, and appends an entry, so that no
    number of writers overspends; where the ledger is durable, the entry is on the disk before
    `reserve` returns.

    Sub-accounts, of analysts or projects, lie below a dataset's account. What is charged to one
    counts in both, each up to its own budget. Nothing is set aside for them: together they may be
    promised more than there is, and the account of the dataset decides who comes too late.

    A split says that everybody is in at most `max_parts` of some parts. What is charged to a part
    counts there, up to a limit of its own, and above it as far as the sum of the `max_parts`
    largest parts grows by it. All that is known of it are entries, so that who opens it again
    goes on where it stands.

    >>> from unacorda.ledger.opening import open_ledger
    >>> from unacorda.privacy.guarantees import PureDP
    >>> ledger = open_ledger(None)
    >>> ledger.open_account("visits", PureDP(1), {"unit": "person"}).budget
    PureDP(epsilon=1.0)
    >>> ledger.open_sub_account("visits", "ana", PureDP(0.3))
    >>> ledger.remaining("visits"), ledger.remaining("visits", "ana")
    (PureDP(epsilon=1.0), PureDP(epsilon=0.3))
    """

    def __init__(self, store: Store) -> None:
        super().__init__(store)
        self._unread: set[tuple[int, str, int]] = set()

    def reserve(
        self,
        dataset: str,
        charge: Charge,
        *,
        sub_account: str | None = None,
        part: SplitPart | None = None,
    ) -> Reservation:
        """Debit the cost of a charge, durably, before this returns.

        sub_account: also of this one. part: of a split, which is debited the cost, and what lies
        above it what the split owes more for that; it has its own sub-account, or none. Of a search
        `commit` keeps the answer; SearchBegun, and nothing is written, where there are newer
        entries about it.
        Raises BudgetExceeded, and writes nothing, where less is left; WrongUnit for a charge in
        another unit than the budget's; LedgerMismatch where there is no such account;
        InvalidParameter for reproducible noise in a ledger that outlives the process. After
        LedgerFailed the charge may stand or not: look at the entries.
        """
        chain.check_notes(analyst=charge.analyst, purpose=charge.purpose)
        chain.check_limits(charge.limits)
        if self.durable:
            chain.refuse_reproducible(reproducible=charge.reproducible)
        event = to_json(charge.event)  # not its method, which imports: a fork could cut that off
        search = charge.search
        with self._store.writing(dataset) as transaction:
            account = self._known(transaction, dataset)
            last = self._last(transaction, dataset)
            due = charge.cost
            if (
                search is not None
                and _searched(transaction, dataset, search.digest)[0] > search.seen
            ):
                raise SearchBegun
            if part is not None:
                with self._told(transaction, account) as splits:
                    due = splits.due(part, charge.cost)
                    sub_account = splits.split(part.split).sub_account
            whole = self._whole(account, last)
            own = None if sub_account is None else self._part(transaction, dataset, sub_account)
            chain.check_admitted(due, whole, own, dataset=dataset, sub_account=sub_account)
            whole = whole.spend(due)
            own = None if own is None else own.spend(due)
            entry = chain.reserved_entry(
                account,
                last,
                charge,
                event=event,
                due=due,
                spent=whole.spent,
                sub_account=sub_account,
                sub_spent=None if own is None else own.spent,
                part=part,
            )
            transaction.append(entry)
        self._saw(entry)
        self._filters[dataset, None] = entry.digest, whole
        if own is not None:
            self._filters[dataset, sub_account] = entry.digest, own
        self._unread.add((os.getpid(), dataset, entry.sequence))
        return Reservation(
            dataset=dataset, sequence=entry.sequence, charge=due, sub_account=sub_account
        )

    def scoped(
        self, *, sub_account: str | None = None, part: SplitPart | None = None
    ) -> SubAccount:
        """The ledger as one sub-account, or one part of a split, spends from it."""
        return SubAccount(self, sub_account=sub_account, part=part)

    def commit(self, reservation: Reservation, *, found: str | None = None) -> None:
        """Note that the reserved question was computed: a new entry, nothing is changed.

        found: the noisy answer of a search, JSON text, which the account keeps from now on.
        Raises InvalidParameter for a reservation that is unknown, already committed or voided.
        """
        self._end(reservation, "committed", found)

    def searched(self, dataset: str, digest: str) -> Searched:
        """What the account knows of a search: its answer, or since when somebody is searching."""
        with self._store.reading() as transaction:
            self._known(transaction, dataset)
            seen, entries = _searched(transaction, dataset, digest)
        for entry in entries:
            chain.honest(entry, entry.spent)
        ended = {entry.reservation for entry in entries if entry.state != "reserved"}
        running = [e for e in entries if e.state == "reserved" and e.sequence not in ended]
        begun = running[-1].time if running else None
        for entry in entries:
            if entry.found is not None:
                (asked,) = (one for one in entries if one.sequence == entry.reservation)
                paid = guarantee_from_json(asked.request)
                return Searched(found=entry.found, paid=paid, seen=seen, begun=begun)
        return Searched(found=None, paid=None, seen=seen, begun=begun)

    def void(self, reservation: Reservation) -> None:
        """Give a charge back whose question never reached the data: a new entry.

        Only for a question that was called off before the first row was read, and for reasons
        that do not depend on the data; that is for the caller to know. What only the one who asked
        can know no one else may claim: raises InvalidParameter unless this very ledger, in this
        process, made the reservation, and it is neither committed nor voided.
        """
        if (os.getpid(), reservation.dataset, reservation.sequence) not in self._unread:
            expected = "one that this ledger made in this process, and that has not ended"
            raise InvalidParameter("reservation", reservation, expected=expected)
        self._end(reservation, "voided")

    def spent(
        self, dataset: str, sub_account: str | None = None, *, part: SplitPart | None = None
    ) -> Guarantee:
        """The sum of all charges, of the dataset, of one sub-account, or of one part of a split."""
        return self._filter(dataset, sub_account, part).spent

    def remaining(
        self, dataset: str, sub_account: str | None = None, *, part: SplitPart | None = None
    ) -> Guarantee:
        """What is left of the budget of the dataset, of the sub-account's own, or of the part's.

        Of a sub-account with more left than its dataset, questions may be refused before.
        """
        return self._filter(dataset, sub_account, part).remaining

    def entries(self, dataset: str) -> tuple[Entry, ...]:
        """All entries of a dataset, oldest first."""
        with self._store.reading() as transaction:
            self._known(transaction, dataset)
            return tuple(transaction.entries(dataset))

    def verify(self, dataset: str, *, containing: str | None = None) -> int:
        """The number of entries, after all hashes and sums were found right; LedgerMismatch else.

        This finds accidents and careless edits. Who may write to the place can also write new
        hashes, or drop the last entries: keep the last digest elsewhere to notice that, and give
        it as `containing`, which some entry must then have.
        """
        with self._store.reading() as transaction:
            account = self._known(transaction, dataset)
            entries = transaction.entries(dataset)
        return verify_entries(account, entries, containing=containing)

    def close(self) -> None:
        """Release what the ledger holds; nothing is lost, and a second call does nothing."""
        self._store.close()

    def __repr__(self) -> str:
        return f"Ledger({self._store.name})"

    def __reduce__(self) -> NoReturn:
        raise TypeError("A ledger holds budgets: it cannot be pickled or copied. Open it again.")

    def _end(self, reservation: Reservation, state: chain.End, found: str | None = None) -> None:
        dataset, sequence = reservation.dataset, reservation.sequence
        with self._store.writing(dataset) as transaction:
            account = self._known(transaction, dataset)
            last = self._last(transaction, dataset)
            reserved = transaction.entry(dataset, sequence)
            if last is None or reserved is None or reserved.state != "reserved":
                expected = "one that this ledger made"
                raise InvalidParameter("reservation", reservation, expected=expected)
            if found is not None and reserved.search is None:
                raise InvalidParameter("found", found, expected="it of a search alone")
            if transaction.ending(dataset, sequence) is not None:
                expected = "one neither committed nor voided yet"
                raise InvalidParameter("reservation", reservation, expected=expected)
            name, part = reserved.sub_account, None
            if name is not None:
                part = self._part(transaction, dataset, name)
            whole = self._whole(account, last)
            if state == "voided":
                charge = self._to_give_back(transaction, account, reserved)
                whole = chain.refunded(whole, charge)
                part = None if part is None else chain.refunded(part, charge)
            entry = chain.ended_entry(
                last,
                reserved,
                state,
                whole.spent,
                None if part is None else part.spent,
                found=found,
            )
            transaction.append(entry)
        self._saw(entry)
        self._filters[dataset, None] = entry.digest, whole
        if part is not None:
            self._filters[dataset, name] = entry.digest, part
        self._unread.discard((os.getpid(), dataset, sequence))

    def _to_give_back(
        self, transaction: Transaction, account: Account, reserved: Entry
    ) -> Guarantee:
        """What is owed less without a reservation: of a part what its split then owes less."""
        if reserved.split is None or reserved.part is None or reserved.part_charge is None:
            return guarantee_from_json(reserved.charge)
        part = SplitPart(split=reserved.split, key=reserved.part)
        with self._told(transaction, account) as splits:
            return splits.back(part, guarantee_from_json(reserved.part_charge))

    def _filter(self, dataset: str, sub_account: str | None, part: SplitPart | None) -> Filter:
        with self._store.reading() as transaction:
            account = self._known(transaction, dataset)
            if part is not None:
                with self._told(transaction, account) as splits:
                    return splits.part(part)
            if sub_account is not None:
                return self._part(transaction, dataset, sub_account)
            return self._whole(account, transaction.last(dataset))


class SubAccount:
    """A ledger as an analyst or a part of the people sees it, made by `Ledger.scoped`.

    What is spent here is debited above in the same transaction: of an analyst in the account of the
    dataset, of a part in its split, which owes for it.
    """

    def __init__(self, ledger: Ledger, *, sub_account: str | None, part: SplitPart | None) -> None:
        self._ledger, self._name, self._split_part = ledger, sub_account, part

    @property
    def durable(self) -> bool:
        """Whether what is spent outlives the process."""
        return self._ledger.durable

    def scoped(self, *, part: SplitPart) -> SubAccount:
        """One part of a split that was opened here; the split knows which sub-account owes."""
        return self._ledger.scoped(part=part)

    def open_split(self, dataset: str, **asked: Any) -> PeopleSplit:
        """A split that is owed for here; as `Ledger.open_split`."""
        return self._ledger.open_split(
            dataset, inside=self._split_part, sub_account=self._name, **asked
        )

    def reserve(self, dataset: str, charge: Charge) -> Reservation:
        """Debit the cost here and above; as `Ledger.reserve`."""
        return self._ledger.reserve(dataset, charge, sub_account=self._name, part=self._split_part)

    def commit(self, reservation: Reservation, *, found: str | None = None) -> None:
        """Note that the reserved question was computed; as `Ledger.commit`."""
        self._ledger.commit(reservation, found=found)

    def void(self, reservation: Reservation) -> None:
        """Give a charge back whose question never reached the data; as `Ledger.void`."""
        self._ledger.void(reservation)

    def spent(self, dataset: str) -> Guarantee:
        """What was spent here."""
        return self._ledger.spent(dataset, self._name, part=self._split_part)

    def remaining(self, dataset: str) -> Guarantee:
        """What is left of the limit here; there may be less above it."""
        return self._ledger.remaining(dataset, self._name, part=self._split_part)

    def close(self) -> None:
        """Nothing: the ledger stays open."""


def _searched(transaction: Transaction, dataset: str, digest: str) -> tuple[int, Sequence[Entry]]:
    """The newest sequence among the entries about a search, and these, oldest first."""
    entries = transaction.of_search(dataset, digest)
    return (entries[-1].sequence if entries else 0), entries
