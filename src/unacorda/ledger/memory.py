"""The store of a session without a file: it forgets everything when the process ends."""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

import bisect
import os
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from unacorda.errors import LedgerMismatch
from unacorda.ledger.entries import Account, Entry

__all__ = ["MemoryStore"]


class MemoryStore:
    """Accounts in this process alone. Nothing remembers the spend after it ends.

    A forked child may look but not spend: parent and child would both spend the same rest.
    """

    name = "memory"
    durable = False

    def __init__(self) -> None:
        self._lock = threading.RLock()
        self._process = os.getpid()
        self._accounts: dict[str, Account] = {}
        self._lines: dict[str, _Lines] = {}

    @contextmanager
    def writing(self, dataset: str) -> Iterator[MemoryStore]:
        """Hold the store: each transaction adds one line, at its end, so none is left half way."""
        del dataset
        if os.getpid() != self._process:
            raise LedgerMismatch(
                "An in-memory ledger cannot be spent from in a forked process, because its parent "
                "would not know. Open a ledger with a file, such as 'sqlite:///budget.db'."
            )
        with self._lock:
            yield self

    @contextmanager
    def reading(self) -> Iterator[MemoryStore]:
        """Hold the store; in a forked child too, where no other thread is left to hold it."""
        if os.getpid() != self._process:
            yield self
            return
        with self._lock:
            yield self

    def close(self) -> None:
        """Do nothing: memory is all there is."""

    def account(self, dataset: str) -> Account | None:
        """The account of a dataset."""
        return self._accounts.get(dataset)

    def datasets(self) -> Sequence[str]:
        """The names of all accounts."""
        return tuple(self._accounts)

    def add_account(self, account: Account) -> None:
        """Add an account, where there is none of its name."""
        if account.dataset not in self._accounts:
            self._lines[account.dataset] = _Lines()
            self._accounts[account.dataset] = account

    def last(self, dataset: str) -> Entry | None:
        """The newest entry."""
        entries = self._lines[dataset].entries
        return entries[-1] if entries else None

    def entry(self, dataset: str, sequence: int) -> Entry | None:
        """The entry of a sequence."""
        entries = self._lines[dataset].entries
        return entries[sequence - 1] if 1 <= sequence <= len(entries) else None

    def ending(self, dataset: str, reservation: int) -> Entry | None:
        """The entry that committed or voided a reservation."""
        return self._lines[dataset].endings.get(reservation)

    def opening(self, dataset: str, sub_account: str) -> Entry | None:
        """The entry that opened a sub-account."""
        return self._lines[dataset].openings.get(sub_account)

    def last_of(self, dataset: str, sub_account: str) -> Entry | None:
        """The newest entry that names a sub-account."""
        return self._lines[dataset].newest.get(sub_account)

    def sub_accounts(self, dataset: str) -> Sequence[str]:
        """The names of the sub-accounts."""
        return tuple(self._lines[dataset].openings)

    def of_splits(self, dataset: str, after: int) -> Sequence[Entry]:
        """The newer entries about splits."""
        known = self._lines[dataset].of_splits
        return known[bisect.bisect_right(known, after, key=lambda entry: entry.sequence) :]

    def of_search(self, dataset: str, search: str) -> Sequence[Entry]:
        """The entries about a search."""
        return tuple(self._lines[dataset].searches.get(search, ()))

    def entries(self, dataset: str) -> Sequence[Entry]:
        """All entries of a dataset."""
        return tuple(self._lines[dataset].entries)

    def append(self, entry: Entry) -> None:
        """Add the next entry."""
        lines = self._lines[entry.dataset]
        if entry.state in ("committed", "voided"):
            lines.endings[entry.reservation] = entry
        if entry.sub_account is not None:
            if entry.state == "opened":
                lines.openings[entry.sub_account] = entry
            lines.newest[entry.sub_account] = entry
        if entry.split is not None:
            lines.of_splits.append(entry)
        if entry.search is not None:
            lines.searches.setdefault(entry.search, []).append(entry)
        lines.entries.append(entry)


class _Lines:
    """The entries of one dataset, and where to find them."""

    __slots__ = ("endings", "entries", "newest", "of_splits", "openings", "searches")

    def __init__(self) -> None:
        self.entries: list[Entry] = []
        self.endings: dict[int, Entry] = {}
        self.openings: dict[str, Entry] = {}
        self.newest: dict[str, Entry] = {}
        self.of_splits: list[Entry] = []
        self.searches: dict[str, list[Entry]] = {}
