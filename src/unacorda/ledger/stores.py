"""What a ledger needs of the place it is kept in: transactions over append-only lines."""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

from collections.abc import Sequence
from contextlib import AbstractContextManager
from typing import Literal, Protocol, TypedDict, Unpack

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
