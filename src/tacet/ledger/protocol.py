"""What every ledger keeps and does: append-only entries, and a budget that they never pass."""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal, Protocol

from tacet.privacy.events import Event
from tacet.privacy.guarantees import Guarantee

__all__ = ["Account", "Entry", "Ledger", "Reservation"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Account:
    """A dataset's budget and the terms under which it was opened; neither ever changes.

    dataset: the account's name; terms: public facts such as the unit and the neighbours, as
    (name, text) pairs in the order of the names; opened: UTC time, ISO 8601.
    """

    dataset: str
    budget: Guarantee
    terms: tuple[tuple[str, str], ...]
    opened: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Entry:
    """One line of an account; none is ever changed or removed.

    sequence: 1, 2, 3, ... within the dataset; state: "reserved" debits the charge, "committed"
    says that the answer of an earlier reservation was computed; reservation: the sequence of
    that reservation (a reservation's own); event, request, charge: JSON texts, empty in a
    commit; spent: JSON text of all that is spent once this entry stands; plan_digest: hash of
    the plan, salt: hex of the sampling salt, neither a function of the data; time: UTC, ISO
    8601; reproducible: whether the noise came from a seed, and so protects nobody;
    previous, digest: SHA-256 of the entry before (or of the account) and of this one.
    """

    sequence: int
    dataset: str
    state: Literal["reserved", "committed"]
    reservation: int
    event: str
    request: str
    charge: str
    spent: str
    plan_digest: str
    salt: str
    analyst: str | None
    purpose: str | None
    time: str
    reproducible: bool
    previous: str
    digest: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Reservation:
    """A charge that stands from now on, whether or not it is committed."""

    dataset: str
    sequence: int
    charge: Guarantee


class Ledger(Protocol):
    """Budgets by dataset. Safe to use from several threads.

    Memory and SQLite keep one contract, tested by one suite. Whatever is reserved is spent: a
    reservation that is never committed stays spent.
    """

    @property
    def durable(self) -> bool:
        """Whether what is spent here outlives the process."""
        ...

    def open_account(
        self, dataset: str, budget: Guarantee | None, terms: Mapping[str, str]
    ) -> Account:
        """Open the dataset's account, or find it again.

        budget: needed the first time; later left out or equal. terms: equal each time.
        Raises LedgerMismatch where budget or terms differ from those it was opened with, and
        InvalidParameter where there is no account yet and no budget.
        """
        ...

    def account(self, dataset: str) -> Account:
        """The account of a dataset; LedgerMismatch where there is none."""
        ...

    def datasets(self) -> tuple[str, ...]:
        """The names of all accounts, sorted."""
        ...

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
        """Debit the charge, durably, before this returns.

        Raises BudgetExceeded, and writes nothing, where less is left; WrongUnit for a charge in
        another unit than the budget's; InvalidParameter for reproducible noise in a ledger that
        outlives the process.
        """
        ...

    def commit(self, reservation: Reservation) -> None:
        """Note that the reserved question was computed: a new entry, nothing is changed.

        Raises InvalidParameter for a reservation that is unknown or already committed.
        """
        ...

    def spent(self, dataset: str) -> Guarantee:
        """The sum of all charges."""
        ...

    def remaining(self, dataset: str) -> Guarantee:
        """What is left of the budget."""
        ...

    def entries(self, dataset: str) -> tuple[Entry, ...]:
        """All entries of a dataset, oldest first."""
        ...

    def verify(self, dataset: str) -> int:
        """The number of entries, after all hashes and sums were found right; LedgerMismatch else.

        This finds accidents and careless edits. Who may write the file can also write new hashes:
        keep the last digest elsewhere to notice that.
        """
        ...

    def close(self) -> None:
        """Release what the ledger holds; nothing is lost, and a second call does nothing."""
        ...
