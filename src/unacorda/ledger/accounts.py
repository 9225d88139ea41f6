"""What a ledger holds: accounts, sub-accounts and splits, and what of each is spent."""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager

from unacorda import checks
from unacorda.accounting.filters import Filter
from unacorda.accounting.parallel import ParallelComposition
from unacorda.errors import LedgerMismatch
from unacorda.ledger import chain
from unacorda.ledger.entries import Account, Entry, PeopleSplit, SplitPart, Term
from unacorda.ledger.splits import AccountSplits, definition_of, neighbors_of, split_of
from unacorda.ledger.stores import Store, Transaction
from unacorda.privacy.guarantees import Guarantee, guarantee_from_json

__all__ = ["Accounts"]


class Accounts:
    """What has been opened in a store; see `Ledger`, which spends."""

    def __init__(self, store: Store) -> None:
        self._store = store
        # By dataset, the digest of its account: neither budget nor terms ever change.
        self._opened: dict[str, str] = {}
        # By dataset and sub-account, the digest of the entry that opened it.
        self._openings: dict[tuple[str, str], str] = {}
        # By dataset and sub-account, the filter once the entry of a digest stands.
        self._filters: dict[tuple[str, str | None], tuple[str, Filter]] = {}
        # By dataset, the sequence and digest of the newest entry that this ledger has seen.
        self._newest: dict[str, tuple[int, str]] = {}
        # By dataset, its splits as far as this ledger has read their entries.
        self._splits: dict[str, AccountSplits] = {}
        self._telling = threading.Lock()

    @property
    def durable(self) -> bool:
        """Whether what is spent here outlives the process."""
        return self._store.durable

    def open_account(
        self, dataset: str, budget: Guarantee | None, terms: Mapping[str, Term]
    ) -> Account:
        """Open the dataset's account, or find it again.

        budget: needed the first time; later left out or equal. terms: equal each time.
        Raises LedgerMismatch where budget or terms differ from those it was opened with, or were
        changed since its first entry; InvalidParameter where there is no account yet and no budget.
        """
        chain.check_name("dataset", dataset)
        with self._store.reading() as found:
            there = found.account(dataset) is not None
            account = self._known(found, dataset) if there else None
        if account is None:
            new = chain.new_account(dataset, budget, terms)
            with self._store.writing(dataset) as transaction:
                transaction.add_account(new)
                account = self._known(transaction, dataset)  # somebody else's, who was faster
        return chain.matching_account(account, budget, terms)

    def open_sub_account(self, dataset: str, name: str, budget: Guarantee) -> None:
        """Open a sub-account, or find it again under an equal budget.

        Raises LedgerMismatch where it has another budget or there is no account, WrongUnit for a
        budget in another unit than the account's, and InvalidParameter for a name that is none.
        """
        chain.check_name("name", name)
        with self._store.writing(dataset) as transaction:
            account = self._known(transaction, dataset)
            found = transaction.opening(dataset, name)
            if found is None:
                last = self._last(transaction, dataset)
                transaction.append(chain.opened_entry(account, last, name, budget))
            elif guarantee_from_json(found.request) != budget:
                raise LedgerMismatch(
                    f"Sub-account {name!r} of {dataset!r} was opened with budget "
                    f"{guarantee_from_json(found.request)}, not {budget}. Open one of another name."
                )

    def open_split(
        self,
        dataset: str,
        *,
        limit: Guarantee,
        max_parts: int,
        digest: str,
        salt: bytes,
        name: str | None = None,
        inside: SplitPart | None = None,
        sub_account: str | None = None,
    ) -> PeopleSplit:
        """Open a split, or find the one of this name in this place again, with the salt it has.

        limit: what each part may spend. digest: a hash of all that says who is in which part, but
        for the salt: of the data too, as far as one can tell them without reading them. inside: the
        part that is split, which says for itself which sub-account owes. Raises LedgerMismatch
        where the name stands for another limit, max_parts or digest, or there is no account, part
        or sub-account; WrongUnit and InvalidParameter for a limit or a number that cannot be.
        """
        if name is not None:
            chain.check_name("name", name)
        most = int(checks.positive_integer(max_parts=max_parts))
        with self._store.writing(dataset) as transaction:
            account = self._known(transaction, dataset)
            last = self._last(transaction, dataset)
            with self._told(transaction, account) as splits:
                if inside is not None:
                    sub_account = splits.split(inside.split).sub_account
                found = None if name is None else splits.named(name, inside, sub_account)
            if found is not None:
                if (found.limit, found.max_parts, found.digest) != (limit, most, digest):
                    raise _another(found, limit, most)
                return found
            ParallelComposition(account.budget, neighbors=neighbors_of(account))  # refuses some
            part = None if sub_account is None else self._part(transaction, dataset, sub_account)
            entry = chain.split_entry(
                account,
                last,
                limit=limit,
                digest=digest,
                salt=salt,
                definition=definition_of(name, most, inside),
                sub_account=sub_account,
                sub_spent=None if part is None else part.spent,
            )
            transaction.append(entry)
        return split_of(entry)

    def splits(self, dataset: str) -> dict[PeopleSplit, dict[str, Guarantee]]:
        """All splits of a dataset, and by key what their parts have spent, where they have."""
        with self._store.reading() as transaction:
            account = self._known(transaction, dataset)
            with self._told(transaction, account) as splits:
                return {split: splits.spent(split.sequence) for split in splits}

    def account(self, dataset: str) -> Account:
        """The account of a dataset; LedgerMismatch where there is none."""
        with self._store.reading() as transaction:
            return self._known(transaction, dataset)

    def datasets(self) -> tuple[str, ...]:
        """The names of all accounts, sorted."""
        with self._store.reading() as transaction:
            return tuple(sorted(transaction.datasets()))

    def sub_accounts(self, dataset: str) -> dict[str, Guarantee]:
        """The budgets of a dataset's sub-accounts by name, in the order of their opening."""
        with self._store.reading() as transaction:
            self._known(transaction, dataset)
            return {
                name: guarantee_from_json(self._opening(transaction, dataset, name).request)
                for name in transaction.sub_accounts(dataset)
            }

    def _known(self, transaction: Transaction, dataset: str) -> Account:
        """The account of a dataset; LedgerMismatch where there is none, or it was changed.

        Its first entry chains to it; before there is one it is as this ledger saw it first.
        """
        account = transaction.account(dataset) if chain.is_storable(dataset) else None
        if account is None:
            raise LedgerMismatch(f"There is no account named {dataset!r} in this ledger.")
        digest = chain.account_digest(account)
        if digest != self._opened.get(dataset):
            if dataset in self._opened:
                raise chain.other_account(dataset)
            first = transaction.entry(dataset, 1)
            if first is None and transaction.last(dataset) is not None:
                raise chain.changed(dataset, 1, "it is gone")
            chain.check_first(account, first)
            self._opened[dataset] = digest
        return account

    def _opening(self, transaction: Transaction, dataset: str, name: str) -> Entry:
        """The entry that opened a sub-account; LedgerMismatch where none did, or it was changed."""
        opening = transaction.opening(dataset, name) if chain.is_storable(name) else None
        if opening is None:
            raise LedgerMismatch(f"There is no sub-account named {name!r} of {dataset!r}.")
        if opening.digest != self._openings.get((dataset, name)):
            following = transaction.entry(dataset, opening.sequence + 1)
            if (dataset, name) in self._openings or (
                following is not None and following.previous != opening.digest
            ):
                raise chain.changed(dataset, opening.sequence, "the next one does not follow it")
        chain.honest(opening, opening.request)
        self._openings[dataset, name] = opening.digest
        return opening

    def _last(self, transaction: Transaction, dataset: str) -> Entry | None:
        """The newest entry, to a transaction that writes: no one else adds one before it ends.

        Raises LedgerMismatch where an entry that stood here before is gone: on an older copy that
        was put in the place of this ledger the same budget would be spent again.
        """
        last = transaction.last(dataset)
        sequence, digest = self._newest.get(dataset, (0, ""))
        if sequence and (last is None or last.digest != digest):
            stood = transaction.entry(dataset, sequence)
            if stood is None or stood.digest != digest:
                raise LedgerMismatch(
                    f"Entry {sequence} of account {dataset!r} stood here before and is gone: an "
                    "older copy of the ledger was put in its place, which does not know what was "
                    "spent since. Put the newer one back."
                )
        self._saw(last)
        return last

    def _saw(self, entry: Entry | None) -> None:
        """Remember an entry that is there for good."""
        if entry is not None:
            self._newest[entry.dataset] = entry.sequence, entry.digest

    @contextmanager
    def _told(self, transaction: Transaction, account: Account) -> Iterator[AccountSplits]:
        """The splits of an account once all entries stand that this transaction can see.

        Entries that are being written are read like all others, later: what fails is not counted.
        """
        with self._telling:
            splits = self._splits.get(account.dataset) or AccountSplits(account)
            newer = transaction.of_splits(account.dataset, splits.last)
            for entry in newer:
                chain.honest(entry, entry.spent)
            # Should one of them be no ledger's, what was counted is forgotten.
            self._splits.pop(account.dataset, None)
            splits.take(newer)
            self._splits[account.dataset] = splits
            yield splits

    def _whole(self, account: Account, last: Entry | None) -> Filter:
        """The account's filter once the last entry stands: what this ledger knew, if it is that."""
        if last is None:
            return Filter(account.budget)
        return self._kept((account.dataset, None), last, account.budget, last.spent)

    def _part(self, transaction: Transaction, dataset: str, name: str) -> Filter:
        opening = self._opening(transaction, dataset, name)
        last = transaction.last_of(dataset, name)
        if last is None or last.sub_spent is None:
            raise chain.changed(dataset, opening.sequence, "its sub-account has no sums")
        limit = guarantee_from_json(opening.request)
        return self._kept((dataset, name), last, limit, last.sub_spent)

    def _kept(
        self, key: tuple[str, str | None], last: Entry, limit: Guarantee, spent: str
    ) -> Filter:
        digest, found = self._filters.get(key, ("", None))
        stands = chain.honest(last, spent)
        if found is None or digest != last.digest:  # somebody else wrote, or this is the first look
            found = Filter(limit).spend(stands)
            self._filters[key] = last.digest, found
        return found


def _another(known: PeopleSplit, limit: Guarantee, max_parts: int) -> LedgerMismatch:
    now = f"limit {limit} and max_parts={max_parts}"
    if (known.limit, known.max_parts) == (limit, max_parts):
        now = "other parts, tables, files or software, so that who is in which part may differ"
    return LedgerMismatch(
        f"Split {known.name!r} was opened with limit {known.limit} and "
        f"max_parts={known.max_parts}; now: {now}. Give another name, for a split of its own."
    )
