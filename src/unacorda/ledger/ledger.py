"""The ledger: append-only entries, and budgets that they never exceed."""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

import os
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NoReturn

from unacorda import checks
from unacorda.accounting.filters import Filter
from unacorda.accounting.parallel import ParallelComposition
from unacorda.addresses import shown
from unacorda.errors import InvalidParameter, LedgerMismatch
from unacorda.ledger.chain import (
    End,
    Sums,
    account_digest,
    changed_ledger,
    check_admitted,
    check_limits,
    check_name,
    check_not_closed,
    check_notes,
    check_reproducible,
    ended_entry,
    honest_sums,
    is_storable,
    limited_entry,
    matching_account,
    new_account,
    opened_entry,
    other_account,
    refunded,
    reserved_entry,
    split_entry,
    stepped_entry,
)
from unacorda.ledger.entries import (
    AccountTerms,
    Charge,
    Entry,
    PeopleSplit,
    Reservation,
    SearchBegun,
    Searched,
    SeriesOpened,
    SeriesRecord,
    SplitPart,
    Term,
)
from unacorda.ledger.replay import verify_entries
from unacorda.ledger.splits import AccountSplits, definition_of, neighbors_of, split_of
from unacorda.ledger.stores import MemoryStore, Store, Transaction
from unacorda.privacy.guarantees import Guarantee, guarantee_from_json

_ALL = (1 << 63) - 1
"""Entries: more than there are."""

_SQLITE = "sqlite:///"
_POSTGRES = ("postgresql://", "postgresql+psycopg://")


def open_ledger(url: str | None) -> Ledger:
    """Open the ledger at an address; None opens a new one in memory, which ends with the process.

    Missing tables are created.

    Parameters
    ----------
    url
        ``"sqlite:///budget.db"`` for a file in the current folder (four slashes for an absolute
        path), ``"postgresql://user:password@host/database"``, which needs the extra `postgres`, or
        None.

    Returns
    -------
    Ledger
        Close it with `close`.

    Raises
    ------
    InvalidParameter
        For any other address.
    LedgerMismatch
        For a database of another schema.
    LedgerFailed
        If the address cannot be used.
    MissingExtra
        Without the driver of PostgreSQL.

    Examples
    --------
    >>> open_ledger(None).durable
    False
    """
    if url is None:
        return Ledger(MemoryStore())
    if checks.is_text(url) and url.startswith(_POSTGRES):
        from unacorda.ledger.postgres import PostgresStore

        return Ledger(PostgresStore(url))
    given = checks.is_text(url) and url.startswith(_SQLITE)
    path = url.removeprefix(_SQLITE) if given else ""
    if not path or Path(path).name == ":memory:" or "?" in path:
        raise InvalidParameter(
            "ledger",
            shown(url),
            expected=(
                'an address "sqlite:///FILE", such as sqlite:///budget.db, or '
                '"postgresql://user:password@host/database"'
            ),
            hint="or None for memory",
        )
    from unacorda.ledger.sqlite import SqliteStore

    return Ledger(SqliteStore(Path(path)))


class Ledger:
    """The budgets of datasets and all charges to them, in memory, SQLite or PostgreSQL.

    `open_ledger` makes it. It is safe to use from several threads. Several processes may open the
    same SQLite file or PostgreSQL database, and together cannot overspend.

    Each reservation is one transaction: it locks the dataset, checks that the budget suffices, and
    appends an entry. In a durable ledger the entry is on disk before `reserve` returns. Whatever is
    reserved is spent, even if it is never committed.

    A sub-account belongs to an analyst or a project. A charge to it also counts in the dataset's
    account, and must fit into both budgets. The budgets of sub-accounts may add up to more than the
    account has.

    A split divides people into parts; each person is in at most `max_parts` of them. Each part has
    a limit of its own. The account pays for the `max_parts` parts that spent most.

    Examples
    --------
    >>> from unacorda.ledger import open_ledger
    >>> from unacorda.privacy.guarantees import PureDP
    >>> ledger = open_ledger(None)
    >>> ledger.open_account("visits", PureDP(1), {"unit": "person"}).budget
    PureDP(epsilon=1.0)
    >>> ledger.open_sub_account("visits", "ana", PureDP(0.3))
    >>> ledger.remaining("visits"), ledger.remaining("visits", "ana")
    (PureDP(epsilon=1.0), PureDP(epsilon=0.3))
    """

    def __init__(self, store: Store) -> None:
        self._store = store
        # By dataset, the digest of its account: neither budget nor terms ever change.
        self._opened: dict[str, str] = {}
        # By dataset and sub-account, the sequence and digest of the entry that set its budget.
        self._limits: dict[tuple[str, str], tuple[int, str]] = {}
        # By dataset and sub-account, the filter once the entry of a digest stands.
        self._filters: dict[tuple[str, str | None], tuple[str, Filter]] = {}
        # By dataset, the sequence and digest of the newest entry that this ledger has seen.
        self._newest: dict[str, tuple[int, str]] = {}
        # By dataset, its splits as far as this ledger has read their entries.
        self._splits: dict[str, AccountSplits] = {}
        self._telling = threading.Lock()
        # By process, dataset and sequence, the reservations that were made here and have not ended.
        self._unread: set[tuple[int, str, int]] = set()

    @property
    def durable(self) -> bool:
        """Whether the ledger outlives the process."""
        return self._store.durable

    def open_account(
        self, dataset: str, budget: Guarantee | None, terms: Mapping[str, Term]
    ) -> AccountTerms:
        """Open the dataset's account, or find it again.

        Parameters
        ----------
        dataset
            The name of the account.
        budget
            Required the first time; later omitted or equal.
        terms
            The terms of the guarantee, such as {"unit": "person"}; equal each time.

        Returns
        -------
        AccountTerms
            With the budget.

        Raises
        ------
        LedgerMismatch
            If budget or terms differ from those it was opened with, or were changed since its first
            entry.
        InvalidParameter
            If there is no account yet and no budget.

        Examples
        --------
        >>> from unacorda.privacy.guarantees import PureDP
        >>> ledger = open_ledger(None)
        >>> ledger.open_account("visits", PureDP(1), {"unit": "person"}).dataset
        'visits'
        """
        check_name("dataset", dataset)
        with self._store.reading() as found:
            there = found.account(dataset) is not None
            account = self._known(found, dataset) if there else None
        if account is None:
            new = new_account(dataset, budget, terms)
            with self._store.writing() as transaction:
                transaction.add_account(new)
                account = self._known(transaction, dataset)  # somebody else's, who was faster
        return matching_account(account, budget, terms)

    def open_sub_account(self, dataset: str, name: str, budget: Guarantee) -> None:
        """Open a sub-account, or find it again under an equal budget.

        Parameters
        ----------
        dataset, name
            The account, and its sub-account.
        budget
            Of the sub-account.

        Raises
        ------
        LedgerMismatch
            If it has another budget, or there is no account.
        WrongUnit
            For a budget of another class than the account's.
        InvalidParameter
            For an invalid name.
        """
        self.open_sub_accounts(dataset, {name: budget})

    def open_sub_accounts(self, dataset: str, budgets: Mapping[str, Guarantee]) -> None:
        """Open many sub-accounts at once, or find them again: all of them or none.

        Parameters
        ----------
        dataset
            The account.
        budgets
            The budget of each sub-account, by name.

        Raises
        ------
        LedgerMismatch, WrongUnit, InvalidParameter
            As `open_sub_account`.
        """
        expected = "budgets by name, such as {'ana': PureDP(0.3)}"
        checks.demand(isinstance(budgets, Mapping), "budgets", budgets, expected=expected)
        for name in budgets:
            check_name("name", name)
        with self._writing(dataset) as (transaction, account, last):
            whole = self._sums(transaction, account, last)[None]
            added: list[Entry] = []
            for name, budget in budgets.items():
                if transaction.last(dataset, opens=name) is not None:
                    self._check_limit(transaction, dataset, name, budget)
                    continue
                before = added[-1] if added else last
                added.append(opened_entry(account, before, whole, name, budget))
            for entry in added:
                transaction.append(entry)

    def change_limit(
        self, dataset: str, name: str, budget: Guarantee | None, *, by: str | None = None
    ) -> Guarantee:
        """Give a sub-account another budget from now on. An entry records it.

        Parameters
        ----------
        dataset, name
            The account, and its sub-account.
        budget
            No less than what was spent there. None closes the sub-account: its budget becomes what
            was spent, and nothing can be reserved there until it is raised.
        by
            Who changes it, recorded as the analyst of the entry.

        Returns
        -------
        Guarantee
            The new budget.

        Raises
        ------
        InvalidParameter
            For a budget below what was spent, and an invalid name.
        LedgerMismatch
            For an unknown sub-account.
        WrongUnit
            For a budget of another class than the account's.

        Examples
        --------
        >>> from unacorda.privacy.guarantees import PureDP
        >>> ledger = open_ledger(None)
        >>> account = ledger.open_account("visits", PureDP(1), {"unit": "person"})
        >>> ledger.open_sub_account("visits", "ana", PureDP(0.3))
        >>> ledger.change_limit("visits", "ana", PureDP(0.5), by="the privacy office")
        PureDP(epsilon=0.5)
        >>> ledger.change_limit("visits", "ana", None), ledger.remaining("visits", "ana")
        (PureDP(epsilon=0.0), PureDP(epsilon=0.0))
        """
        check_name("name", name)
        check_notes(by=by)
        with self._writing(dataset) as (transaction, account, last):
            before = self._sums(transaction, account, last, name)
            assert last is not None  # it opened the sub-account, or came later
            spent = before[name].spent
            budget = spent if budget is None else budget
            entry = limited_entry(account, last, before, name, budget, by=by)
            transaction.append(entry)
        self._stands(entry, {**before, name: Filter(budget).spend(spent)})
        return budget

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
        """Open a split, or find the one of this name again, with its salt.

        Parameters
        ----------
        dataset
            The account.
        limit
            What each part may spend.
        max_parts
            The most parts of one person, 1 or more.
        digest
            A hash of all that determines who is in which part, except the salt; it includes an
            identity of the data, as far as that is known without reading them.
        salt
            Random bytes for a new split.
        name
            The name for finding it again; None for a new split each time.
        inside
            The part that is split; it determines the sub-account that owes.
        sub_account
            The sub-account that owes, or None.

        Returns
        -------
        PeopleSplit
            The split, with its salt.

        Raises
        ------
        LedgerMismatch
            If the name has another limit, max_parts or digest, or there is no account, part or
            sub-account.
        WrongUnit, InvalidParameter
            For an invalid limit or number.
        """
        if name is not None:
            check_name("name", name)
        most = int(checks.positive_integer(max_parts=max_parts))
        with self._writing(dataset) as (transaction, account, last):
            with self._told(transaction, account) as splits:
                if inside is not None:
                    sub_account = splits.split(inside.split).sub_account
                found = None if name is None else splits.named(name, inside, sub_account)
            if found is not None:
                if (found.limit, found.max_parts, found.digest) != (limit, most, digest):
                    raise _another(found, limit, most)
                return found
            ParallelComposition(account.budget, neighbors=neighbors_of(account))  # refuses some
            entry = split_entry(
                account,
                last,
                self._sums(transaction, account, last, sub_account),
                limit=limit,
                digest=digest,
                salt=salt,
                definition=definition_of(name, most, inside),
            )
            transaction.append(entry)
        return split_of(entry)

    def splits(self, dataset: str) -> dict[PeopleSplit, dict[str, Guarantee]]:
        """Return all splits, and by key what their parts have spent.

        Parameters
        ----------
        dataset
            The name of the account.

        Returns
        -------
        dict
            The parts that have spent something, by split.

        Raises
        ------
        LedgerMismatch
            Where there is no such account.
        """
        with (
            self._reading(dataset) as (transaction, account),
            self._told(transaction, account) as splits,
        ):
            return {split: splits.spent(split.sequence) for split in splits}

    def account(self, dataset: str) -> AccountTerms:
        """Return the terms of a dataset's account.

        Parameters
        ----------
        dataset
            The name of the account.

        Returns
        -------
        AccountTerms
            The budget and the terms.

        Raises
        ------
        LedgerMismatch
            For an unknown account.
        """
        with self._reading(dataset) as (_, account):
            return account

    def datasets(self) -> tuple[str, ...]:
        """List the names of all accounts, sorted.

        Returns
        -------
        tuple of str
            The names.
        """
        with self._store.reading() as transaction:
            return tuple(sorted(transaction.datasets()))

    def sub_accounts(self, dataset: str) -> dict[str, Guarantee]:
        """Return the limits of sub-accounts by name, in the order of their opening.

        Parameters
        ----------
        dataset
            The name of the account.

        Returns
        -------
        dict
            Guarantees by name.

        Raises
        ------
        LedgerMismatch
            Where there is no such account.
        """
        with self._reading(dataset) as (transaction, _):
            names = [str(one.sub_account) for one in transaction.entries(dataset, opened=True)]
            return {name: self._limit(transaction, dataset, name) for name in names}

    def has_sub_account(self, dataset: str, name: str) -> bool:
        """Say whether a sub-account was opened.

        Parameters
        ----------
        dataset
            The name of the account.
        name
            The name of the sub-account; any text.

        Returns
        -------
        bool
            False for an invalid name.

        Raises
        ------
        LedgerMismatch
            Where there is no such account.
        """
        with self._reading(dataset) as (transaction, _):
            storable = is_storable(name)
            return storable and transaction.last(dataset, opens=name) is not None

    def limit(
        self, dataset: str, sub_account: str | None = None, *, part: SplitPart | None = None
    ) -> Guarantee:
        """Return the budget of a dataset, a sub-account or a part, as it is now.

        Parameters
        ----------
        dataset
            The name of the account.
        sub_account, part
            Given one of them, its own budget is returned. If both are given, the part counts.

        Returns
        -------
        Guarantee
            Of the class of the account's budget.

        Raises
        ------
        LedgerMismatch
            For an unknown account, sub-account or part.
        """
        return self._filter(dataset, sub_account, part).limit

    def reserve(
        self,
        dataset: str,
        charge: Charge,
        *,
        sub_account: str | None = None,
        part: SplitPart | None = None,
    ) -> Reservation:
        """Debit the cost of a charge, durably, before this returns.

        For a search, `commit` keeps the answer. A series is never committed or voided: `add_step`
        adds its answers. After LedgerFailed the charge may be debited or not: check the entries.

        Parameters
        ----------
        dataset
            The account.
        charge
            The cost, the event and what the entry notes.
        sub_account
            Debited too.
        part
            The part of a split. It is debited the cost, and the account the increase of what the
            split owes. A part has its own sub-account, or none.

        Returns
        -------
        Reservation
            To be committed.

        Raises
        ------
        BudgetExceeded
            If less is left; nothing is written.
        WrongUnit
            For a charge of another class than the budget's.
        LedgerMismatch
            Where there is no such account.
        InvalidParameter
            For reproducible noise in a ledger that outlives the process.
        SearchBegun
            If there are newer entries about the search; nothing is written.
        SeriesOpened
            If there is a series of its name; nothing is written.
        """
        check_notes(analyst=charge.analyst, purpose=charge.purpose)
        check_limits(charge.limits)
        if self.durable:
            check_reproducible(reproducible=charge.reproducible)
        event = charge.event.to_json()
        search, due = charge.search, charge.cost
        if charge.series is not None:
            check_name("name", charge.series.name)
            expected = "it of everybody: who is in a part is not settled while rows still come"
            checks.demand(part is None, "part", part, expected=expected)
        with self._writing(dataset) as (transaction, account, last):
            if search is not None:
                about = transaction.last(dataset, search=search.digest)
                if about is not None and about.sequence > search.seen:
                    raise SearchBegun
            if charge.series is not None and _series_in(
                transaction, dataset, charge.series.name, sub_account
            ):
                raise SeriesOpened
            if part is not None:
                with self._told(transaction, account) as splits:
                    due = splits.due(part, charge.cost)
                    sub_account = splits.split(part.split).sub_account
            before = self._sums(transaction, account, last, sub_account)
            if sub_account is not None:
                limits = self._limits_of(transaction, dataset, sub_account)
                check_not_closed(limits, charge.cost)
            check_admitted(due, before, dataset=dataset)
            sums = {name: own.spend(due) for name, own in before.items()}
            entry = reserved_entry(account, last, sums, charge, event=event, due=due, part=part)
            transaction.append(entry)
        self._stands(entry, sums)
        self._unread.add((os.getpid(), dataset, entry.sequence))
        return Reservation(
            dataset=dataset, sequence=entry.sequence, charge=due, sub_account=sub_account
        )

    def scoped(
        self, *, sub_account: str | None = None, part: SplitPart | None = None
    ) -> SubAccount:
        """Return a view of the ledger for one sub-account, or one part of a split.

        Parameters
        ----------
        sub_account
            Its name.
        part
            The part of a split.

        Returns
        -------
        SubAccount
            A ledger that charges both.
        """
        return SubAccount(self, sub_account=sub_account, part=part)

    def commit(self, reservation: Reservation, *, found: str | None = None) -> None:
        """Note in a new entry that the reserved question was computed.

        Parameters
        ----------
        reservation
            What `reserve` gave.
        found
            The noisy answer of a search, JSON text, for the account to keep.

        Raises
        ------
        InvalidParameter
            For a reservation that is unknown, already committed or voided.
        """
        self._end(reservation, "committed", found)

    def searched(self, dataset: str, digest: str) -> Searched:
        """Return the state of a search: its answer, or the time when a running one began.

        Parameters
        ----------
        dataset
            The name of the account.
        digest
            The hash of what is searched.

        Returns
        -------
        Searched
            The answer, if there is one.

        Raises
        ------
        LedgerMismatch
            If there is no such account, and for entries whose sums are wrong.
        """
        with self._reading(dataset) as (transaction, _):
            entries = transaction.entries(dataset, search=digest)
        seen = entries[-1].sequence if entries else 0
        for entry in entries:
            honest_sums(entry, entry.spent)
        ended = {entry.reservation for entry in entries if entry.state != "reserved"}
        running = [e for e in entries if e.state == "reserved" and e.sequence not in ended]
        begun = running[-1].time if running else None
        for entry in entries:
            if entry.found is not None:
                (asked,) = (one for one in entries if one.sequence == entry.reservation)
                paid = guarantee_from_json(asked.request)
                return Searched(found=entry.found, paid=paid, seen=seen, begun=begun)
        return Searched(found=None, paid=None, seen=seen, begun=begun)

    def series(
        self, dataset: str, name: str, *, sub_account: str | None = None
    ) -> SeriesRecord | None:
        """Return a series with its answers so far.

        Parameters
        ----------
        dataset
            The name of the account.
        name
            The name of the series.
        sub_account
            The sub-account that it is paid from.

        Returns
        -------
        SeriesRecord or None
            None where there is none.

        Raises
        ------
        LedgerMismatch
            Where there is no such account.
        """
        check_name("name", name)
        with self._reading(dataset) as (transaction, _):
            reserved = _series_in(transaction, dataset, name, sub_account)
            if reserved is None:
                return None
            steps = transaction.entries(dataset, steps_of=reserved.sequence)
        for entry in (reserved, *steps):
            honest_sums(entry, entry.spent)
        if [entry.step for entry in steps] != list(range(len(steps))):
            raise changed_ledger(dataset, reserved.sequence, "steps of its series are missing")
        return SeriesRecord(
            sequence=reserved.sequence,
            name=name,
            definition=str(reserved.definition),
            digest=reserved.plan_digest,
            salt=reserved.salt,
            request=guarantee_from_json(reserved.request),
            steps=tuple(str(entry.found) for entry in steps),
        )

    def add_step(self, dataset: str, series: SeriesRecord, found: str) -> bool:
        """Add the next answer of a series, durably, before this returns; it costs nothing.

        Parameters
        ----------
        dataset
            The account.
        series
            As `series` read it.
        found
            The answer, JSON text, public.

        Returns
        -------
        bool
            False, and nothing is written, if another process has added a step since the series was
            read.

        Raises
        ------
        InvalidParameter
            For a series that is unknown.
        """
        with self._writing(dataset) as (transaction, account, last):
            reserved = transaction.last(dataset, sequence=series.sequence)
            known = reserved is not None and (reserved.series, reserved.salt) == (
                series.name,
                series.salt,
            )
            if last is None or reserved is None or not known:
                raise InvalidParameter("series", series.name, expected="one of this ledger")
            newest = transaction.last(dataset, steps_of=series.sequence)
            step = 0 if newest is None else int(newest.step or 0) + 1
            if step != len(series.steps):
                return False
            sums = self._sums(transaction, account, last, reserved.sub_account)
            entry = stepped_entry(account, last, sums, reserved, step=step, found=found)
            transaction.append(entry)
        self._stands(entry, sums)
        return True

    def void(self, reservation: Reservation) -> None:
        """Give back the charge of a question that never reached the data, by a new entry.

        Use it only for a question that was canceled before the first row was read, for reasons that
        do not depend on the data. The caller is responsible for that.

        Parameters
        ----------
        reservation
            The result of `reserve` by this ledger in this process.

        Raises
        ------
        InvalidParameter
            For any other reservation, and one that is committed or voided.
        """
        if (os.getpid(), reservation.dataset, reservation.sequence) not in self._unread:
            expected = "one that this ledger made in this process, and that has not ended"
            raise InvalidParameter("reservation", reservation, expected=expected)
        self._end(reservation, "voided")

    def spent(
        self, dataset: str, sub_account: str | None = None, *, part: SplitPart | None = None
    ) -> Guarantee:
        """Return the sum of all charges to a dataset, a sub-account or a part.

        Parameters
        ----------
        dataset
            The name of the account.
        sub_account, part
            Given one of them, only its own charges count. If both are given, the part counts.

        Returns
        -------
        Guarantee
            Of the class of the account's budget.

        Raises
        ------
        LedgerMismatch
            For an unknown account, sub-account or part.
        """
        return self._filter(dataset, sub_account, part).spent

    def remaining(
        self, dataset: str, sub_account: str | None = None, *, part: SplitPart | None = None
    ) -> Guarantee:
        """Return what is left of the budget of a dataset, a sub-account or a part.

        The account of the dataset may have less left than a sub-account.

        Parameters
        ----------
        dataset
            The name of the account.
        sub_account, part
            Given one of them, its own budget counts. If both are given, the part counts.

        Returns
        -------
        Guarantee
            Of the class of the account's budget.

        Raises
        ------
        LedgerMismatch
            For an unknown account, sub-account or part.
        """
        return self._filter(dataset, sub_account, part).remaining

    def entries(
        self,
        dataset: str,
        *,
        after: int = 0,
        most: int | None = None,
        sub_account: str | None = None,
    ) -> tuple[Entry, ...]:
        """List the entries of a dataset, oldest first, all or page by page.

        Parameters
        ----------
        dataset
            The name of the account.
        after
            Only entries with a higher sequence. That of the last entry seen gives the next page.
        most
            The most entries to return; None for all.
        sub_account
            Only entries of this sub-account.

        Returns
        -------
        tuple of Entry
            The entries.

        Raises
        ------
        InvalidParameter
            For numbers out of their range.
        LedgerMismatch
            For an unknown account or sub-account.
        """
        begins = type(after) is int and after >= 0
        checks.demand(begins, "after", after, expected="the sequence of an entry, or 0")
        whole = most is None
        after, most = min(after, _ALL), _ALL if most is None else checks.positive_integer(most=most)
        with self._reading(dataset) as (transaction, _):
            if sub_account is not None:
                self._limit(transaction, dataset, sub_account)
            if whole and not after and sub_account is None:
                return tuple(transaction.entries(dataset))
            page = transaction.page(
                dataset, after=after, most=min(most, _ALL), sub_account=sub_account
            )
            return tuple(page)

    def verify(self, dataset: str, *, containing: str | None = None) -> int:
        """Verify all hashes and sums of a dataset's entries.

        This finds accidents and careless edits. A writer of the database can also write new hashes,
        or drop the last entries. To notice that, keep the last digest elsewhere.

        Parameters
        ----------
        dataset
            The name of the account.
        containing
            A digest that one of the entries must have.

        Returns
        -------
        int
            The number of entries.

        Raises
        ------
        LedgerMismatch
            For an entry that was changed, and if no entry has the digest.
        """
        with self._reading(dataset) as (transaction, account):
            entries = transaction.entries(dataset)
        return verify_entries(account, entries, containing=containing)

    def check_writable(self) -> None:
        """Raise LedgerFailed if nothing can be written now; write nothing."""
        with self._store.writing():
            pass

    def newest(self, dataset: str) -> tuple[int, str] | None:
        """Return the newest entry that this object has written or read.

        Parameters
        ----------
        dataset
            The name of the account.

        Returns
        -------
        tuple or None
            Its sequence and digest.
        """
        return self._newest.get(dataset)

    def close(self) -> None:
        """Close the ledger. A second call does nothing."""
        self._store.close()

    def __repr__(self) -> str:
        return f"Ledger({self._store.name})"

    def __reduce__(self) -> NoReturn:
        raise TypeError("A ledger holds budgets: it cannot be pickled or copied. Open it again.")

    @contextmanager
    def _reading(self, dataset: str) -> Iterator[tuple[Transaction, AccountTerms]]:
        """A transaction that adds nothing, about a known account."""
        with self._store.reading() as transaction:
            yield transaction, self._known(transaction, dataset)

    @contextmanager
    def _writing(self, dataset: str) -> Iterator[tuple[Transaction, AccountTerms, Entry | None]]:
        """A transaction that adds to a known account, and the newest entry of it."""
        with self._store.writing() as transaction:
            account = self._known(transaction, dataset)
            yield transaction, account, self._last(transaction, dataset)

    def _known(self, transaction: Transaction, dataset: str) -> AccountTerms:
        """The account of a dataset; LedgerMismatch where there is none, or it was changed.

        Its first entry chains to it; before there is one it is as this ledger saw it first.
        """
        account = transaction.account(dataset) if is_storable(dataset) else None
        if account is None:
            raise LedgerMismatch(f"There is no account named {dataset!r} in this ledger.")
        digest = account_digest(account)
        if digest != self._opened.get(dataset):
            if dataset in self._opened:
                raise other_account(dataset)
            first = transaction.last(dataset, sequence=1)
            if first is None and transaction.last(dataset) is not None:
                raise changed_ledger(dataset, 1, "it is gone")
            if first is not None and first.previous != digest:
                raise other_account(dataset)
            self._opened[dataset] = digest
        return account

    def _limit(self, transaction: Transaction, dataset: str, name: str) -> Guarantee:
        """The budget of a sub-account; LedgerMismatch where none was opened, or it was changed."""
        return guarantee_from_json(self._limits_of(transaction, dataset, name).request)

    def _limits_of(self, transaction: Transaction, dataset: str, name: str) -> Entry:
        """The newest entry that sets the budget of a sub-account, to which the next one chains.

        LedgerMismatch where none was opened, or it was changed.
        """
        # Known before it is read: what another thread learns meanwhile is no reason for a refusal.
        sequence, digest = self._limits.get((dataset, name), (0, ""))
        newest = transaction.last(dataset, limits=name) if is_storable(name) else None
        if newest is None:
            raise LedgerMismatch(f"There is no sub-account named {name!r} of {dataset!r}.")
        if newest.digest != digest:
            following = transaction.last(dataset, sequence=newest.sequence + 1)
            if newest.sequence <= sequence or (
                following is not None and following.previous != newest.digest
            ):
                raise changed_ledger(dataset, newest.sequence, "the next one does not follow it")
        honest_sums(newest, newest.request)
        self._limits[dataset, name] = newest.sequence, newest.digest
        return newest

    def _check_limit(
        self, transaction: Transaction, dataset: str, name: str, budget: Guarantee
    ) -> None:
        now = self._limit(transaction, dataset, name)
        if now != budget:
            raise LedgerMismatch(
                f"Sub-account {name!r} of {dataset!r} was opened with budget {now}, not {budget}, "
                "or has got it since. Open one of another name, or change its limit with "
                "Ledger.change_limit(...)."
            )

    def _last(self, transaction: Transaction, dataset: str) -> Entry | None:
        """The newest entry, to a transaction that writes: no one else adds one before it ends.

        Raises LedgerMismatch where an entry that stood here before is gone: on an older copy that
        was put in the place of this ledger the same budget would be spent again.
        """
        last = transaction.last(dataset)
        sequence, digest = self._newest.get(dataset, (0, ""))
        if sequence and (last is None or last.digest != digest):
            stood = transaction.last(dataset, sequence=sequence)
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
    def _told(self, transaction: Transaction, account: AccountTerms) -> Iterator[AccountSplits]:
        """The splits of an account once all entries stand that this transaction can see.

        Entries that are being written are read like all others, later: what fails is not counted.
        """
        with self._telling:
            splits = self._splits.get(account.dataset) or AccountSplits(account)
            newer = transaction.entries(account.dataset, splits_after=splits.last)
            for entry in newer:
                honest_sums(entry, entry.spent)
            # Should one of them be no ledger's, what was counted is forgotten.
            self._splits.pop(account.dataset, None)
            splits.take(newer)
            self._splits[account.dataset] = splits
            yield splits

    def _sums(
        self,
        transaction: Transaction,
        account: AccountTerms,
        last: Entry | None,
        sub_account: str | None = None,
    ) -> dict[str | None, Filter]:
        """The sums once the last entry stands."""
        dataset, limit = account.dataset, account.budget
        whole = (
            Filter(limit) if last is None else self._kept(dataset, None, last, limit, last.spent)
        )
        if sub_account is None:
            return {None: whole}
        return {None: whole, sub_account: self._part(transaction, dataset, sub_account)}

    def _part(self, transaction: Transaction, dataset: str, name: str) -> Filter:
        limits = self._limits_of(transaction, dataset, name)
        last = transaction.last(dataset, sub_account=name)
        if last is None or last.sub_spent is None:
            raise LedgerMismatch(f"The sums of sub-account {name!r} of {dataset!r} are gone.")
        # What is given back once it is closed may not be spent again.
        limit = guarantee_from_json(last.sub_spent if limits.closes else limits.request)
        return self._kept(dataset, name, last, limit, last.sub_spent)

    def _kept(
        self, dataset: str, name: str | None, last: Entry, limit: Guarantee, spent: str
    ) -> Filter:
        """The filter once the last entry stands: what this ledger knew, if it is that."""
        digest, found = self._filters.get((dataset, name), ("", None))
        stands = honest_sums(last, spent)
        # Somebody else wrote, or this is the first look, or one came between two looks.
        if found is None or digest != last.digest or found.limit != limit:
            found = Filter(limit).spend(stands)
            self._filters[dataset, name] = last.digest, found
        return found

    def _stands(self, entry: Entry, sums: Sums) -> None:
        """Remember an entry that is there for good, and the sums once it is."""
        self._saw(entry)
        for name, own in sums.items():
            self._filters[entry.dataset, name] = entry.digest, own

    def _end(self, reservation: Reservation, state: End, found: str | None = None) -> None:
        dataset, sequence = reservation.dataset, reservation.sequence
        with self._writing(dataset) as (transaction, account, last):
            reserved = transaction.last(dataset, sequence=sequence)
            if last is None or reserved is None or reserved.state != "reserved":
                expected = "one that this ledger made"
                raise InvalidParameter("reservation", reservation, expected=expected)
            if reserved.series is not None:
                expected = "that of a question: a series has no end, and gives nothing back"
                raise InvalidParameter("reservation", reservation, expected=expected)
            if found is not None and reserved.search is None:
                raise InvalidParameter("found", found, expected="a search with it")
            if transaction.last(dataset, ends=sequence) is not None:
                expected = "one neither committed nor voided yet"
                raise InvalidParameter("reservation", reservation, expected=expected)
            sums = self._sums(transaction, account, last, reserved.sub_account)
            if state == "voided":
                charge = self._to_give_back(transaction, account, reserved)
                sums = {name: refunded(own, charge) for name, own in sums.items()}
            entry = ended_entry(account, last, sums, reserved, state=state, found=found)
            transaction.append(entry)
        self._stands(entry, sums)
        self._unread.discard((os.getpid(), dataset, sequence))

    def _to_give_back(
        self, transaction: Transaction, account: AccountTerms, reserved: Entry
    ) -> Guarantee:
        """What is owed less without a reservation: of a part what its split then owes less."""
        if reserved.debited is None or reserved.part_charge is None:
            return guarantee_from_json(reserved.charge)
        with self._told(transaction, account) as splits:
            return splits.back(reserved.debited, guarantee_from_json(reserved.part_charge))

    def _filter(self, dataset: str, sub_account: str | None, part: SplitPart | None) -> Filter:
        with self._reading(dataset) as (transaction, account):
            if part is not None:
                with self._told(transaction, account) as splits:
                    return splits.part(part)
            if sub_account is not None:
                return self._part(transaction, dataset, sub_account)
            return self._sums(transaction, account, transaction.last(dataset))[None]


class SubAccount:
    """A ledger as one analyst, or one part of a split of people, sees it.

    `Ledger.scoped` makes it. Each charge is debited here and in the dataset's account in one
    transaction. A charge to a part counts in its split, which the account pays for.

    Examples
    --------
    >>> import unacorda
    >>> from unacorda.ledger import open_ledger
    >>> ledger = open_ledger(None)
    >>> account = ledger.open_account("visits", unacorda.PureDP(1), {"unit": "person"})
    >>> ledger.open_sub_account("visits", "ana", unacorda.PureDP(0.3))
    >>> ana = ledger.scoped(sub_account="ana")
    >>> ana.limit("visits"), ana.remaining("visits")
    (PureDP(epsilon=0.3), PureDP(epsilon=0.3))
    """

    def __init__(self, ledger: Ledger, *, sub_account: str | None, part: SplitPart | None) -> None:
        self._ledger, self._name, self._split_part = ledger, sub_account, part

    @property
    def durable(self) -> bool:
        """Whether the ledger outlives the process."""
        return self._ledger.durable

    @property
    def scope(self) -> tuple[str | None, SplitPart | None]:
        """The sub-account's name, and the part of a split."""
        return self._name, self._split_part

    def scoped(self, *, part: SplitPart) -> SubAccount:
        """A view for one part of a split that was opened here; the split has the sub-account."""
        return self._ledger.scoped(part=part)

    def open_split(self, dataset: str, **asked: Any) -> PeopleSplit:
        """A split that is owed for here; as `Ledger.open_split`."""
        return self._ledger.open_split(
            dataset, inside=self._split_part, sub_account=self._name, **asked
        )

    def account(self, dataset: str) -> AccountTerms:
        """Return the terms of a dataset's account.

        Parameters
        ----------
        dataset
            The name of the account.

        Returns
        -------
        AccountTerms
            The budget and the terms.

        Raises
        ------
        LedgerMismatch
            For an unknown account.
        """
        return self._ledger.account(dataset)

    def reserve(self, dataset: str, charge: Charge) -> Reservation:
        """Debit the cost here and above; as `Ledger.reserve`."""
        return self._ledger.reserve(dataset, charge, sub_account=self._name, part=self._split_part)

    def commit(self, reservation: Reservation, *, found: str | None = None) -> None:
        """Note that the reserved question was computed; as `Ledger.commit`."""
        self._ledger.commit(reservation, found=found)

    def void(self, reservation: Reservation) -> None:
        """Give a charge back whose question never reached the data; as `Ledger.void`."""
        self._ledger.void(reservation)

    def series(self, dataset: str, name: str) -> SeriesRecord | None:
        """The series of this name that was opened here; as `Ledger.series`."""
        return self._ledger.series(dataset, name, sub_account=self._name)

    def add_step(self, dataset: str, series: SeriesRecord, found: str) -> bool:
        """Add the next answer of a series; as `Ledger.add_step`."""
        return self._ledger.add_step(dataset, series, found)

    def spent(self, dataset: str) -> Guarantee:
        """Return the sum of all charges made here.

        Parameters
        ----------
        dataset
            The name of the account.

        Returns
        -------
        Guarantee
            Of the class of the account's budget.

        Raises
        ------
        LedgerMismatch
            For an unknown account, sub-account or part.
        """
        return self._ledger.spent(dataset, self._name, part=self._split_part)

    def limit(self, dataset: str) -> Guarantee:
        """Return the budget of this sub-account or part, as it is now.

        Parameters
        ----------
        dataset
            The name of the account.

        Returns
        -------
        Guarantee
            Of the class of the account's budget.

        Raises
        ------
        LedgerMismatch
            For an unknown account, sub-account or part.
        """
        return self._ledger.limit(dataset, self._name, part=self._split_part)

    def remaining(self, dataset: str) -> Guarantee:
        """Return what is left of this budget. The account of the dataset may have less left.

        Parameters
        ----------
        dataset
            The name of the account.

        Returns
        -------
        Guarantee
            Of the class of the account's budget.

        Raises
        ------
        LedgerMismatch
            For an unknown account, sub-account or part.
        """
        return self._ledger.remaining(dataset, self._name, part=self._split_part)

    def close(self) -> None:
        """Close nothing: the ledger stays open."""


def _series_in(
    transaction: Transaction, dataset: str, name: str, sub_account: str | None
) -> Entry | None:
    """The reservation of the series of this name in this place."""
    for entry in transaction.entries(dataset, series=name):
        if entry.sub_account == sub_account:
            return entry
    return None


def _another(known: PeopleSplit, limit: Guarantee, max_parts: int) -> LedgerMismatch:
    now = f"limit {limit} and max_parts={max_parts}"
    if (known.limit, known.max_parts) == (limit, max_parts):
        now = "other parts, tables, files or software, so that who is in which part may differ"
    return LedgerMismatch(
        f"Split {known.name!r} was opened with limit {known.limit} and "
        f"max_parts={known.max_parts}; now: {now}. Give another name, for a split of its own."
    )
