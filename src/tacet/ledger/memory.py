"""The ledger of a session without a file: it forgets everything when the process ends."""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

import os
import threading
from collections.abc import Mapping
from typing import NoReturn

from tacet.errors import InvalidParameter, LedgerMismatch
from tacet.ledger import chain
from tacet.ledger.protocol import Account, Entry, Reservation
from tacet.privacy.events import Event
from tacet.privacy.guarantees import Guarantee

__all__ = ["MemoryLedger"]


class MemoryLedger:
    """Budgets in this process alone. Nothing remembers the spend after it ends.

    A forked child may look but not spend: parent and child would both spend the same rest. For
    the same reason the ledger can be neither copied nor pickled.

    >>> from tacet.privacy.guarantees import PureDP
    >>> ledger = MemoryLedger()
    >>> ledger.open_account("visits", PureDP(1), {"unit": "person"}).budget
    PureDP(epsilon=1.0)
    """

    durable = False

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._process = os.getpid()
        self._accounts: dict[str, Account] = {}
        self._entries: dict[str, list[Entry]] = {}
        self._committed: set[tuple[str, int]] = set()

    def open_account(
        self, dataset: str, budget: Guarantee | None, terms: Mapping[str, str]
    ) -> Account:
        """Open the dataset's account, or find it again under the same budget and terms."""
        with self._lock:
            found = self._accounts.get(dataset)
            if found is not None:
                return chain.matching_account(found, budget, terms)
            account = chain.new_account(dataset, budget, terms)
            self._accounts[dataset], self._entries[dataset] = account, []
            return account

    def account(self, dataset: str) -> Account:
        """The account of a dataset; LedgerMismatch where there is none."""
        account = self._accounts.get(dataset)
        if account is None:
            raise LedgerMismatch(f"There is no account named {dataset!r} in this ledger.")
        return account

    def datasets(self) -> tuple[str, ...]:
        """The names of all accounts, sorted."""
        with self._lock:
            return tuple(sorted(self._accounts))

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
    ) -> Reservation:
        """Debit the charge; BudgetExceeded, and nothing written, where less is left."""
        if os.getpid() != self._process:
            raise LedgerMismatch(
                "An in-memory ledger cannot be spent from in a forked process, because its parent "
                "would not know. Open a ledger with a file, such as 'sqlite:///budget.db'."
            )
        account = self.account(dataset)
        with self._lock:
            entry = chain.reserved_entry(
                account,
                self._last(dataset),
                charge=charge,
                event=event,
                request=request,
                plan_digest=plan_digest,
                salt=salt,
                analyst=analyst,
                purpose=purpose,
                reproducible=reproducible,
            )
            self._entries[dataset].append(entry)
        return Reservation(dataset=dataset, sequence=entry.sequence, charge=charge)

    def commit(self, reservation: Reservation) -> None:
        """Note that the reserved question was computed."""
        self.account(reservation.dataset)
        place = (reservation.dataset, reservation.sequence)
        with self._lock:
            entries = self._entries[reservation.dataset]
            known = 1 <= reservation.sequence <= len(entries)
            reserved = entries[reservation.sequence - 1] if known else None
            if place in self._committed:
                raise InvalidParameter("reservation", reservation, expected="one not yet committed")
            last = self._last(reservation.dataset)
            entries.append(chain.committed_entry(last, reserved, reservation))
            self._committed.add(place)

    def spent(self, dataset: str) -> Guarantee:
        """The sum of all charges."""
        account = self.account(dataset)
        with self._lock:
            return chain.filter_after(account, self._last(dataset)).spent

    def remaining(self, dataset: str) -> Guarantee:
        """What is left of the budget."""
        account = self.account(dataset)
        with self._lock:
            return chain.filter_after(account, self._last(dataset)).remaining

    def entries(self, dataset: str) -> tuple[Entry, ...]:
        """All entries of a dataset, oldest first."""
        self.account(dataset)
        with self._lock:
            return tuple(self._entries[dataset])

    def verify(self, dataset: str) -> int:
        """The number of entries, after hashes and sums were checked; LedgerMismatch otherwise."""
        return chain.verify_entries(self.account(dataset), self.entries(dataset))

    def close(self) -> None:
        """Do nothing: memory is all there is."""

    def _last(self, dataset: str) -> Entry | None:
        entries = self._entries[dataset]
        return entries[-1] if entries else None

    def __reduce__(self) -> NoReturn:
        raise TypeError("an in-memory ledger cannot be copied or pickled: its budget would double")
