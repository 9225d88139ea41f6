"""What a ledger needs of the place it is kept in, and the simplest such place: memory."""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

import bisect
import os
import threading
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from typing import Literal, Protocol, TypedDict, Unpack

from unacorda.errors import LedgerMismatch
from unacorda.ledger.entries import AccountTerms, Entry


class Which(TypedDict, total=False):
    """Which entries of a dataset are meant, by one of these; all without.

    sequence: the entry of it. ends: what committed or voided the reservation of this sequence.
    opens: what opened this sub-account; opened: what opened any. limits: what set the budget of
    this sub-account, its opening first. sub_account: all that name this one. splits_after: those
    about splits, with a sequence above it. search: those about a search. series: those that
    reserved a series of this name; steps_of: the steps of such a reservation.
    """

    sequence: int
    ends: int
    opens: str
    opened: Literal[True]
    limits: str
    sub_account: str
    splits_after: int
    search: str
    series: str
    steps_of: int


class Transaction(Protocol):
    """What can be read, and added, while a store is held. Nothing is ever changed."""

    def account(self, dataset: str) -> AccountTerms | None:
        """The account of a dataset."""

    def datasets(self) -> Sequence[str]:
        """The names of all accounts, in any order."""

    def add_account(self, account: AccountTerms) -> None:
        """Add an account, or do nothing where one of its name is there."""

    def last(self, dataset: str, **which: Unpack[Which]) -> Entry | None:
        """The entry with the highest sequence, of those that are meant."""

    def entries(self, dataset: str, **which: Unpack[Which]) -> Sequence[Entry]:
        """The entries that are meant, oldest first."""

    def page(
        self, dataset: str, *, after: int, most: int, sub_account: str | None
    ) -> Sequence[Entry]:
        """The first entries with a higher sequence, of all or of those that name a sub-account."""

    def append(self, entry: Entry) -> None:
        """Add the next entry of a dataset."""


class Store(Protocol):
    """A place for accounts and entries. Safe to use from several threads."""

    @property
    def name(self) -> str:
        """What messages call it; holds no password."""

    @property
    def durable(self) -> bool:
        """Whether it outlives the process."""

    def writing(self) -> AbstractContextManager[Transaction]:
        """A transaction during which no one else, in any process, writes about its account.

        All that it adds is there for good when the block has ended, or nothing is, after an
        exception. Raises LedgerFailed where the place fails.
        """

    def reading(self) -> AbstractContextManager[Transaction]:
        """A transaction that adds nothing, and waits for no writer."""

    def close(self) -> None:
        """Release what is held; a second call does nothing, and the store may be used again."""


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
