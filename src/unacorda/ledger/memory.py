"""The store of a ledger in memory, which ends with the process."""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

import bisect
import os
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Unpack

from unacorda.errors import LedgerMismatch
from unacorda.ledger.entries import AccountTerms, Entry
from unacorda.ledger.stores import Which


class MemoryStore:
    """Accounts in this process only; the spending is forgotten when it ends.

    A forked child may read but not spend, as parent and child would spend the same rest.
    """

    name = "memory"
    durable = False

    def __init__(self) -> None:
        self._lock = threading.RLock()
        self._process = os.getpid()
        self._accounts: dict[str, AccountTerms] = {}
        # By dataset, what is asked (nothing for all) and its value, the entries, oldest first.
        self._entries: dict[tuple[str, str, object], list[Entry]] = {}

    @contextmanager
    def writing(self) -> Iterator[MemoryStore]:
        """Lock the store: each transaction adds one line at its end, so none stays unfinished."""
        if os.getpid() != self._process:
            raise LedgerMismatch(
                "An in-memory ledger cannot be spent from in a forked process, because its parent "
                "would not know. Open a ledger with a file, such as 'sqlite:///budget.db'."
            )
        with self._lock:
            yield self

    @contextmanager
    def reading(self) -> Iterator[MemoryStore]:
        """Lock the store, also in a forked child, where no other thread can hold it."""
        if os.getpid() != self._process:
            yield self
            return
        with self._lock:
            yield self

    def close(self) -> None:
        """Do nothing: there is only memory."""

    def account(self, dataset: str) -> AccountTerms | None:
        return self._accounts.get(dataset)

    def datasets(self) -> Sequence[str]:
        return tuple(self._accounts)

    def add_account(self, account: AccountTerms) -> None:
        self._accounts.setdefault(account.dataset, account)

    def last(self, dataset: str, **which: Unpack[Which]) -> Entry | None:
        found = self._found(dataset, which)
        return found[-1] if found else None

    def entries(self, dataset: str, **which: Unpack[Which]) -> Sequence[Entry]:
        return tuple(self._found(dataset, which))

    def page(
        self, dataset: str, *, after: int, most: int, sub_account: str | None
    ) -> Sequence[Entry]:
        """The first entries with a higher sequence."""
        asked = ("", None) if sub_account is None else ("sub_account", sub_account)
        known = self._entries.get((dataset, *asked), [])
        first = bisect.bisect_right(known, after, key=lambda entry: entry.sequence)
        return tuple(known[first : first + most])

    def append(self, entry: Entry) -> None:
        for name, value in _asked(entry):
            self._entries.setdefault((entry.dataset, name, value), []).append(entry)

    def _found(self, dataset: str, which: Which) -> Sequence[Entry]:
        ((name, value),) = which.items() or (("", None),)
        if "sequence" in which:
            whole = self._entries.get((dataset, "", None), [])
            place = which["sequence"]
            return whole[place - 1 : place] if place > 0 else ()
        if "splits_after" in which:
            known = self._entries.get((dataset, name, None), [])
            after = which["splits_after"]
            return known[bisect.bisect_right(known, after, key=lambda entry: entry.sequence) :]
        return self._entries.get((dataset, name, value), [])


def _asked(entry: Entry) -> Iterator[tuple[str, object]]:
    """By what an entry is found; by nothing last, which is when it counts."""
    if entry.state in ("committed", "voided"):
        yield "ends", entry.reservation
    if entry.state == "opened":
        yield from (("opens", entry.sub_account), ("opened", True))
    if entry.state in ("opened", "limited"):
        yield "limits", entry.sub_account
    if entry.sub_account is not None:
        yield "sub_account", entry.sub_account
    if entry.split is not None:
        yield "splits_after", None
    if entry.search is not None:
        yield "search", entry.search
    if entry.series is not None:
        yield "series", entry.series
    if entry.state == "stepped":
        yield "steps_of", entry.reservation
    yield "", None
