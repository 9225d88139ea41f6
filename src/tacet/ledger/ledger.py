"""The ledger: append-only entries, and budgets that they never pass, wherever it is kept."""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import NoReturn

from tacet.accounting.filters import Filter
from tacet.errors import InvalidParameter, LedgerMismatch
from tacet.ledger import chain
from tacet.ledger.entries import Account, Entry, Reservation
from tacet.ledger.replay import verify_entries
from tacet.ledger.stores import Store, Transaction
from tacet.privacy.event_codec import to_json
from tacet.privacy.events import Event
from tacet.privacy.guarantees import Guarantee, guarantee_from_json

__all__ = ["Ledger"]


class Ledger:
    """Budgets by dataset, made by `open_ledger`. Safe to use from several threads.

    Memory, SQLite and PostgreSQL keep one contract, tested by one suite. Whatever is reserved is
    spent: a reservation that is never committed stays spent. Each reservation is one transaction
    that holds its dataset, asks the filters with running totals, and appends an entry, so that no
    number of writers overspends; where the ledger is durable, the entry is on the disk before
    `reserve` returns.

    Sub-accounts, of analysts or projects, lie below a dataset's account. What is charged to one
    counts in both, each up to its own budget. Nothing is set aside for them: together they may be
    promised more than there is, and the account of the dataset decides who comes too late.

    >>> from tacet.ledger.opening import open_ledger
    >>> from tacet.privacy.guarantees import PureDP
    >>> ledger = open_ledger(None)
    >>> ledger.open_account("visits", PureDP(1), {"unit": "person"}).budget
    PureDP(epsilon=1.0)
    >>> ledger.open_sub_account("visits", "ana", PureDP(0.3))
    >>> ledger.remaining("visits"), ledger.remaining("visits", "ana")
    (PureDP(epsilon=1.0), PureDP(epsilon=0.3))
    """

    def __init__(self, store: Store) -> None:
        self._store = store
        # By dataset and sub-account, the filter once the entry of a digest stands.
        self._filters: dict[tuple[str, str | None], tuple[str, Filter]] = {}
        self._unread: set[tuple[int, str, int]] = set()

    @property
    def durable(self) -> bool:
        """Whether what is spent here outlives the process."""
        return self._store.durable

    def open_account(
        self, dataset: str, budget: Guarantee | None, terms: Mapping[str, str]
    ) -> Account:
        """Open the dataset's account, or find it again.

        budget: needed the first time; later left out or equal. terms: equal each time.
        Raises LedgerMismatch where budget or terms differ from those it was opened with, and
        InvalidParameter where there is no account yet and no budget.
        """
        chain.check_name("dataset", dataset)
        with self._store.reading() as found:
            account = found.account(dataset)
        if account is None:
            new = chain.new_account(dataset, budget, terms)
            with self._store.writing(dataset) as transaction:
                transaction.add_account(new)
                account = _known(transaction, dataset)  # somebody else's, who was faster
        return chain.matching_account(account, budget, terms)

    def open_sub_account(self, dataset: str, name: str, budget: Guarantee) -> None:
        """Open a sub-account, or find it again under an equal budget.

        Raises LedgerMismatch where it has another budget or there is no account, WrongUnit for a
        budget in another unit than the account's, and InvalidParameter for a name that is none.
        """
        chain.check_name("name", name)
        with self._store.writing(dataset) as transaction:
            account = _known(transaction, dataset)
            found = transaction.opening(dataset, name)
            if found is None:
                last = transaction.last(dataset)
                transaction.append(chain.opened_entry(account, last, name, budget))
            elif guarantee_from_json(found.request) != budget:
                raise LedgerMismatch(
                    f"Sub-account {name!r} of {dataset!r} was opened with budget "
                    f"{guarantee_from_json(found.request)}, not {budget}. Open one of another name."
                )

    def account(self, dataset: str) -> Account:
        """The account of a dataset; LedgerMismatch where there is none."""
        with self._store.reading() as transaction:
            return _known(transaction, dataset)

    def datasets(self) -> tuple[str, ...]:
        """The names of all accounts, sorted."""
        with self._store.reading() as transaction:
            return tuple(sorted(transaction.datasets()))

    def sub_accounts(self, dataset: str) -> dict[str, Guarantee]:
        """The budgets of a dataset's sub-accounts by name, in the order of their opening."""
        with self._store.reading() as transaction:
            _known(transaction, dataset)
            return {
                name: guarantee_from_json(_opening(transaction, dataset, name).request)
                for name in transaction.sub_accounts(dataset)
            }

    def reserve(
        self,
        dataset: str,
        *,
        charge: Guarantee,
        event: Event,
        request: Guarantee,
        plan_digest: str,
        salt: bytes,
        analyst: str | None,
        purpose: str | None,
        reproducible: bool,
        sub_account: str | None = None,
    ) -> Reservation:
        """Debit the charge, durably, before this returns.

        sub_account: also of this one. Raises BudgetExceeded, and writes nothing, where less is
        left; WrongUnit for a charge in another unit than the budget's; LedgerMismatch where there
        is no such account; InvalidParameter for reproducible noise in a ledger that outlives the
        process. After LedgerFailed the charge may stand or not: look at the entries.
        """
        chain.check_notes(analyst=analyst, purpose=purpose)
        if self.durable:
            chain.refuse_reproducible(reproducible=reproducible)
        asked = {
            "event": to_json(event),  # not its method, which imports: a fork could cut that off
            "request": request.to_json(),
            "plan_digest": plan_digest,
            "salt": salt.hex(),
            "analyst": analyst,
            "purpose": purpose,
            "reproducible": reproducible,
        }
        with self._store.writing(dataset) as transaction:
            account = _known(transaction, dataset)
            last = transaction.last(dataset)
            whole = self._whole(account, last)
            part = None if sub_account is None else self._part(transaction, dataset, sub_account)
            chain.check_admitted(charge, whole, part, dataset=dataset, sub_account=sub_account)
            whole = whole.spend(charge)
            part = None if part is None else part.spend(charge)
            entry = chain.reserved_entry(
                account,
                last,
                charge=charge,
                spent=whole.spent,
                sub_account=sub_account,
                sub_spent=None if part is None else part.spent,
                **asked,
            )
            transaction.append(entry)
        self._filters[dataset, None] = entry.digest, whole
        if part is not None:
            self._filters[dataset, sub_account] = entry.digest, part
        self._unread.add((os.getpid(), dataset, entry.sequence))
        return Reservation(
            dataset=dataset, sequence=entry.sequence, charge=charge, sub_account=sub_account
        )

    def commit(self, reservation: Reservation) -> None:
        """Note that the reserved question was computed: a new entry, nothing is changed.

        Raises InvalidParameter for a reservation that is unknown, already committed or voided.
        """
        self._end(reservation, "committed")

    def void(self, reservation: Reservation) -> None:
        """Give a charge back whose question never reached the data: a new entry.

        Only for a question that was called off before the first row was read, and for reasons
        that do not depend on the data; that is for the caller to know. What only the one who asked
        can know nobody else may claim: raises InvalidParameter unless this very ledger, in this
        process, made the reservation, and it is neither committed nor voided.
        """
        if (os.getpid(), reservation.dataset, reservation.sequence) not in self._unread:
            expected = "one that this ledger made in this process, and that has not ended"
            raise InvalidParameter("reservation", reservation, expected=expected)
        self._end(reservation, "voided")

    def spent(self, dataset: str, sub_account: str | None = None) -> Guarantee:
        """The sum of all charges, of the dataset or of one sub-account."""
        return self._filter(dataset, sub_account).spent

    def remaining(self, dataset: str, sub_account: str | None = None) -> Guarantee:
        """What is left of the budget of the dataset, or of the sub-account's own.

        Of a sub-account with more left than its dataset, questions may be refused before.
        """
        return self._filter(dataset, sub_account).remaining

    def entries(self, dataset: str) -> tuple[Entry, ...]:
        """All entries of a dataset, oldest first."""
        with self._store.reading() as transaction:
            _known(transaction, dataset)
            return tuple(transaction.entries(dataset))

    def verify(self, dataset: str, *, containing: str | None = None) -> int:
        """The number of entries, after all hashes and sums were found right; LedgerMismatch else.

        This finds accidents and careless edits. Who may write to the place can also write new
        hashes, or drop the last entries: keep the last digest elsewhere to notice that, and give
        it as `containing`, which some entry must then have.
        """
        with self._store.reading() as transaction:
            account = _known(transaction, dataset)
            entries = transaction.entries(dataset)
        return verify_entries(account, entries, containing=containing)

    def close(self) -> None:
        """Release what the ledger holds; nothing is lost, and a second call does nothing."""
        self._store.close()

    def __repr__(self) -> str:
        return f"Ledger({self._store.name})"

    def __reduce__(self) -> NoReturn:
        raise TypeError("A ledger holds budgets: it cannot be pickled or copied. Open it again.")

    def _end(self, reservation: Reservation, state: chain.End) -> None:
        dataset, sequence = reservation.dataset, reservation.sequence
        with self._store.writing(dataset) as transaction:
            account = _known(transaction, dataset)
            last = transaction.last(dataset)
            reserved = transaction.entry(dataset, sequence)
            if last is None or reserved is None or reserved.state != "reserved":
                expected = "one that this ledger made"
                raise InvalidParameter("reservation", reservation, expected=expected)
            if transaction.ending(dataset, sequence) is not None:
                expected = "one neither committed nor voided yet"
                raise InvalidParameter("reservation", reservation, expected=expected)
            name, part = reserved.sub_account, None
            if name is not None:
                part = self._part(transaction, dataset, name)
            whole = self._whole(account, last)
            if state == "voided":
                charge = guarantee_from_json(reserved.charge)
                whole = chain.refunded(whole, charge)
                part = None if part is None else chain.refunded(part, charge)
            entry = chain.ended_entry(
                last, reserved, state, whole.spent, None if part is None else part.spent
            )
            transaction.append(entry)
        self._filters[dataset, None] = entry.digest, whole
        if part is not None:
            self._filters[dataset, name] = entry.digest, part
        self._unread.discard((os.getpid(), dataset, sequence))

    def _filter(self, dataset: str, sub_account: str | None) -> Filter:
        with self._store.reading() as transaction:
            account = _known(transaction, dataset)
            if sub_account is not None:
                return self._part(transaction, dataset, sub_account)
            return self._whole(account, transaction.last(dataset))

    def _whole(self, account: Account, last: Entry | None) -> Filter:
        """The account's filter once the last entry stands: what this ledger knew, if it is that."""
        if last is None:
            return Filter(account.budget)
        return self._kept((account.dataset, None), last, account.budget, last.spent)

    def _part(self, transaction: Transaction, dataset: str, name: str) -> Filter:
        opening = _opening(transaction, dataset, name)
        last = transaction.last_of(dataset, name)
        if last is None or last.sub_spent is None:
            raise chain.changed(dataset, opening.sequence, "its sub-account has no sums")
        limit = guarantee_from_json(opening.request)
        return self._kept((dataset, name), last, limit, last.sub_spent)

    def _kept(
        self, key: tuple[str, str | None], last: Entry, limit: Guarantee, spent: str
    ) -> Filter:
        digest, known = self._filters.get(key, ("", None))
        if known is None or digest != last.digest:  # somebody else wrote, or this is the first look
            known = Filter(limit).spend(chain.honest(last, spent))
            self._filters[key] = last.digest, known
        return known


def _known(transaction: Transaction, dataset: str) -> Account:
    account = transaction.account(dataset) if chain.is_storable(dataset) else None
    if account is None:
        raise LedgerMismatch(f"There is no account named {dataset!r} in this ledger.")
    return account


def _opening(transaction: Transaction, dataset: str, name: str) -> Entry:
    opening = transaction.opening(dataset, name) if chain.is_storable(name) else None
    if opening is None:
        raise LedgerMismatch(f"There is no sub-account named {name!r} of {dataset!r}.")
    return opening
