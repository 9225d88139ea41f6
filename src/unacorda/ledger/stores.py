"""What a ledger needs of the place it is kept in: transactions over append-only lines."""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

from collections.abc import Sequence
from contextlib import AbstractContextManager
from typing import Protocol

from unacorda.ledger.entries import Account, Entry

__all__ = ["Store", "Transaction"]


class Transaction(Protocol):
    """What can be read, and added, while a store is held. Nothing is ever changed."""

    def account(self, dataset: str) -> Account | None:
        """The account of a dataset."""

    def datasets(self) -> Sequence[str]:
        """The names of all accounts, in any order."""

    def add_account(self, account: Account) -> None:
        """Add an account, or do nothing where one of its name is there."""

    def last(self, dataset: str) -> Entry | None:
        """The entry with the highest sequence."""

    def entry(self, dataset: str, sequence: int) -> Entry | None:
        """The entry of a sequence."""

    def ending(self, dataset: str, reservation: int) -> Entry | None:
        """The entry that committed or voided a reservation."""

    def opening(self, dataset: str, sub_account: str) -> Entry | None:
        """The entry that opened a sub-account."""

    def last_of(self, dataset: str, sub_account: str) -> Entry | None:
        """The newest entry that names a sub-account."""

    def sub_accounts(self, dataset: str) -> Sequence[str]:
        """The names of the sub-accounts, in the order in which they were opened."""

    def of_splits(self, dataset: str, after: int) -> Sequence[Entry]:
        """The entries about splits, oldest first, with a sequence above `after`."""

    def of_search(self, dataset: str, search: str) -> Sequence[Entry]:
        """The entries about a search, oldest first."""

    def entries(self, dataset: str) -> Sequence[Entry]:
        """All entries of a dataset, oldest first."""

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

    def writing(self, dataset: str) -> AbstractContextManager[Transaction]:
        """A transaction during which no one else, in any process, writes about the dataset.

        All that it adds is there for good when the block has ended, or nothing is, after an
        exception. Raises LedgerFailed where the place fails.
        """

    def reading(self) -> AbstractContextManager[Transaction]:
        """A transaction that adds nothing, and waits for no writer."""

    def close(self) -> None:
        """Release what is held; a second call does nothing, and the store may be used again."""
