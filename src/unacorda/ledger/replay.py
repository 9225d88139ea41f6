"""An account's history, read again entry by entry: whether it is as a ledger writes it."""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

import functools
from collections.abc import Iterable

from unacorda.accounting.filters import Filter
from unacorda.errors import BudgetExceeded, LedgerMismatch, UnacordaError
from unacorda.ledger.chain import account_digest, changed_ledger, entry_digest, refunded
from unacorda.ledger.entries import AccountTerms, Entry, SplitPart
from unacorda.ledger.splits import AccountSplits, split_of
from unacorda.privacy.guarantees import guarantee_from_json


def verify_entries(
    account: AccountTerms, entries: Iterable[Entry], *, containing: str | None = None
) -> int:
    """The number of entries, if all is as a ledger writes it; LedgerMismatch otherwise.

    Hashes chain, the sequence has no gaps, sums are those of the charges and within the budgets,
    charges to parts are what their splits owe more, reservations end at most once, steps of a
    series follow each other. containing: a digest that some entry must have.
    """
    replay = _Replay(account)
    seen = containing is None
    for entry in entries:
        why: str | None = None
        try:
            why = replay.fault(entry)
        except (UnacordaError, KeyError) as error:
            why = f"it cannot be read ({type(error).__name__})"
        if why is not None:
            raise changed_ledger(account.dataset, replay.count, why)
        seen = seen or entry.digest == containing
    if not seen:
        raise LedgerMismatch(
            f"No entry of account {account.dataset!r} has the digest {containing!r}: entries were "
            "dropped, or all written anew."
        )
    return replay.count


class _Replay:
    """An account's history, read again entry by entry."""

    def __init__(self, account: AccountTerms) -> None:
        self.count = 0
        self._account = account
        self._previous = account_digest(account)
        self._sums: dict[str | None, Filter] = {None: Filter(account.budget)}
        self._closed: set[str] = set()
        self._running: dict[int, Entry] = {}
        self._steps: dict[int, int] = {}  # how many, by the reservation of a series

    def fault(self, entry: Entry) -> str | None:
        """What is wrong with the next entry, if anything; it is taken in."""
        self.count += 1
        if entry.sequence != self.count or entry.dataset != self._account.dataset:
            return f"here stands entry {entry.sequence} of {entry.dataset!r}"
        if entry.previous != self._previous:
            return "it does not follow the one before"
        if entry.digest != entry_digest(entry):
            return "its digest is not that of its text"
        self._previous = entry.digest
        match entry.state:
            case "opened":
                why = self._open(entry)
            case "limited":
                why = self._limit(entry)
            case "split":
                why = self._split(entry)
            case "reserved":
                why = self._reserve(entry)
            case "stepped":
                why = self._step(entry)
            case _:
                why = self._end(entry)
        if why is None and entry.split is not None:
            self._told.take([entry])
        return why or self._compare(entry)

    def _open(self, entry: Entry) -> str | None:
        if entry.sub_account in self._sums:
            return "it opens a sub-account twice"
        budget = guarantee_from_json(entry.request)
        self._sums[None].admits(budget)
        self._sums[entry.sub_account] = Filter(budget)
        return None

    def _limit(self, entry: Entry) -> str | None:
        if entry.sub_account not in self._sums or entry.sub_account is None:
            return "it limits no sub-account"
        budget, spent = guarantee_from_json(entry.request), self._sums[entry.sub_account].spent
        self._sums[None].admits(budget)
        if not spent <= budget:
            return "it limits a sub-account to less than it has spent"
        self._sums[entry.sub_account] = Filter(budget).spend(spent)
        self._closed.discard(entry.sub_account)
        if entry.closes:
            self._closed.add(entry.sub_account)
        return None

    @functools.cached_property
    def _told(self) -> AccountSplits:
        return AccountSplits(self._account)  # where there is a split: it asks for the neighbors

    def _split(self, entry: Entry) -> str | None:
        split = split_of(entry)
        if entry.split != entry.sequence:
            return "it opens another split than its own"
        self._sums[None].admits(split.limit)
        if split.name is not None and self._told.named(split.name, split.inside, split.sub_account):
            return "it opens a split twice"
        if split.inside is not None:
            return self._belongs(entry, split.inside)
        return None

    def _belongs(self, entry: Entry, part: SplitPart) -> str | None:
        if self._told.split(part.split).sub_account != entry.sub_account:
            return "its part is another sub-account's"
        return None

    def _reserve(self, entry: Entry) -> str | None:
        if entry.reservation != entry.sequence:
            return "it reserves for another entry"
        if entry.sub_account in self._closed:
            return "it reserves in a sub-account that is closed"
        charge = guarantee_from_json(entry.charge)
        if len({stated is None for stated in (entry.split, entry.part, entry.part_charge)}) > 1:
            return "it names half a part"
        part = entry.debited
        if part is not None:
            try:
                due = self._told.due(part, guarantee_from_json(entry.part_charge or ""))
            except BudgetExceeded:
                return "it spends more than its part has"
            if due != charge:
                return "its charge is not what its split owes more"
            why = self._belongs(entry, part)
            if why is not None:
                return why
        for name in {None, entry.sub_account}:
            if not self._sums[name].admits(charge):
                return "it spends more than there is"
            self._sums[name] = self._sums[name].spend(charge)
        self._running[entry.sequence] = entry
        return None if entry.series is None else self._begin_series(entry)

    def _begin_series(self, entry: Entry) -> str | None:
        if entry.definition is None or entry.debited is not None:
            return "it begins no series"
        alike = [self._running[one] for one in self._steps]
        here = (entry.series, entry.sub_account)
        if here in [(one.series, one.sub_account) for one in alike]:
            return "it begins a series twice"
        self._steps[entry.sequence] = 0
        return None

    def _step(self, entry: Entry) -> str | None:
        if entry.reservation not in self._steps:
            return "it is a step of no series"
        reserved = self._running[entry.reservation]
        of = ("sub_account", "plan_digest", "salt", "split", "part", "search")
        if any(getattr(reserved, n) != getattr(entry, n) for n in of):
            return "it is a step of another series"
        if entry.step != self._steps[entry.reservation] or entry.found is None:
            return "it is not the next step of its series"
        self._steps[entry.reservation] += 1
        return None

    def _end(self, entry: Entry) -> str | None:
        if entry.state not in ("committed", "voided"):
            return f"its state is {entry.state!r}"
        if entry.reservation in self._steps:
            return "it ends a series, which has no end"
        reserved = self._running.pop(entry.reservation, None)
        of = ("sub_account", "split", "part", "search")
        if reserved is None or any(getattr(reserved, n) != getattr(entry, n) for n in of):
            return "it ends no reservation that stands"
        if entry.found is not None and (entry.search is None or entry.state != "committed"):
            return "it holds the answer of no search"
        if entry.state == "voided":
            charge = guarantee_from_json(reserved.charge)
            if reserved.debited is not None:
                owed = guarantee_from_json(reserved.part_charge or "")
                charge = self._told.back(reserved.debited, owed)
            for name in {None, entry.sub_account}:
                self._sums[name] = refunded(self._sums[name], charge)
        return None

    def _compare(self, entry: Entry) -> str | None:
        if guarantee_from_json(entry.spent) != self._sums[None].spent:
            return "its sum is not that of the charges"
        if entry.sub_account is None:
            return None if entry.sub_spent is None else "it has sums of no sub-account"
        sums = None if entry.sub_spent is None else guarantee_from_json(entry.sub_spent)
        if sums != self._sums[entry.sub_account].spent:
            return "its sub-account's sum is not that of the charges"
        return None
