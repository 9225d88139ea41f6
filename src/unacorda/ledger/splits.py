"""What the parts of splits have spent, and what an account owes for that, by its entries."""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from typing import Any

from unacorda.accounting.filters import Filter
from unacorda.accounting.parallel import ParallelComposition, pair_price
from unacorda.errors import BudgetExceeded, InvalidParameter, LedgerMismatch
from unacorda.ledger.chain import changed_ledger
from unacorda.ledger.entries import AccountTerms, Entry, PeopleSplit, SplitPart
from unacorda.privacy.guarantees import Guarantee, guarantee_from_json
from unacorda.privacy.neighbors import AddRemove, Neighbors, ReplaceOne, ZeroOut


def neighbors_of(account: AccountTerms) -> Neighbors:
    """What the account's guarantee compares; LedgerMismatch where its terms do not say it."""
    said = dict(account.terms).get("neighbors")
    for relation in (AddRemove, ReplaceOne, ZeroOut):
        if said == str(relation):
            return relation
    raise LedgerMismatch(
        f"Account {account.dataset!r} does not say which tables are neighbors: its terms have "
        f"neighbors={said!r}."
    )


def definition_of(name: str | None, max_parts: int, inside: SplitPart | None) -> dict[str, Any]:
    """What an entry holds of a split beside limit, digest and salt."""
    where = None if inside is None else [inside.split, inside.key]
    return {"name": name, "max_parts": max_parts, "inside": where}


def split_of(entry: Entry) -> PeopleSplit:
    """The split that an entry opens; LedgerMismatch for what opens none."""
    try:
        stated = json.loads(entry.definition or "")
        where = stated["inside"]
        inside = None if where is None else SplitPart(split=int(where[0]), key=str(where[1]))
        return PeopleSplit(
            sequence=entry.sequence,
            name=stated["name"],
            limit=guarantee_from_json(entry.request),
            max_parts=stated["max_parts"],
            digest=entry.plan_digest,
            salt=entry.salt,
            inside=inside,
            sub_account=entry.sub_account,
        )
    except (ValueError, TypeError, KeyError, IndexError, InvalidParameter):
        pass
    raise changed_ledger(entry.dataset, entry.sequence, "it defines no split")


class AccountSplits:
    """The splits of one account, as far as `take` has read them.

    Every charge to a part is priced once, where it is spent, for what the account's guarantee
    compares: as it is under AddRemove and ZeroOut, for the pair under ReplaceOne. Each split owes
    the sum of its `max_parts` largest parts to where it lies, up to the account. A part's own limit
    counts what is charged there, without that price. Not thread-safe.

    Source      docs/proofs/filters.md, Theorem 4; docs/proofs/adaptive_sessions.md, Theorem 5.
    """

    def __init__(self, account: AccountTerms) -> None:
        self.last = 0
        self._account = account
        self._pairs = neighbors_of(account) is ReplaceOne
        self._known: dict[int, _Known] = {}
        self._standing: dict[int, Entry] = {}

    def __iter__(self) -> Iterator[PeopleSplit]:
        return (known.split for known in self._known.values())

    def named(
        self, name: str, inside: SplitPart | None, sub_account: str | None
    ) -> PeopleSplit | None:
        """The split of this name in this place."""
        for split in self:
            if (split.name, split.inside, split.sub_account) == (name, inside, sub_account):
                return split
        return None

    def split(self, sequence: int) -> PeopleSplit:
        """The split that an entry opened; LedgerMismatch where it opened none."""
        return self._of(sequence).split

    def part(self, part: SplitPart) -> Filter:
        """What a part has spent of its limit."""
        known = self._of(part.split)
        return known.parts.get(part.key) or Filter(known.split.limit)

    def spent(self, sequence: int) -> dict[str, Guarantee]:
        """By key what the parts of a split have spent, of those that have spent anything."""
        return {key: found.spent for key, found in self._of(sequence).parts.items()}

    def due(self, part: SplitPart, charge: Guarantee) -> Guarantee:
        """What the account owes more if a part spends a charge.

        Raises BudgetExceeded where this part, or one that it lies in, has less left.
        """
        price = self._price(charge)
        for here, known in self._upwards(part):
            left = self.part(here)
            if not left.admits(charge):
                name = f"{self._account.dataset}, part {here.key}"
                raise BudgetExceeded(asked=charge, left=left.remaining, account=name)
            charge = known.charged.increase(here.key, charge)
            price = known.priced.increase(here.key, price)
        return price

    def back(self, part: SplitPart, charge: Guarantee) -> Guarantee:
        """What the account owes less if a charge that a part has spent is given back."""
        price = self._price(charge)
        for here, known in self._upwards(part):
            price = known.priced.decrease(here.key, price)
        return price

    def take(self, entries: Iterable[Entry]) -> None:
        """Count the next entries about splits; LedgerMismatch for what no ledger wrote."""
        for entry in entries:
            match entry.state:
                case "split":
                    self._open(entry)
                case "reserved":
                    self._count(entry, 1)
                    self._standing[entry.sequence] = entry
                case _:
                    reserved = self._standing.pop(entry.reservation, None)
                    if reserved is None:
                        raise changed_ledger(
                            entry.dataset, entry.sequence, "it ends nothing that stands"
                        )
                    if entry.state == "voided":
                        self._count(reserved, -1)
            self.last = entry.sequence

    def _open(self, entry: Entry) -> None:
        split = split_of(entry)
        if split.inside is not None:
            self._of(split.inside.split)
        self._known[entry.sequence] = _Known(split)

    def _count(self, entry: Entry, sign: int) -> None:
        if entry.debited is None or entry.part_charge is None:
            raise changed_ledger(entry.dataset, entry.sequence, "it names no part")
        charge = guarantee_from_json(entry.part_charge)
        price = self._price(charge)
        for here, known in self._upwards(entry.debited):
            left = self.part(here)
            if sign > 0:
                known.parts[here.key] = left.spend(charge)
                charge = known.charged.spend(here.key, charge)
                price = known.priced.spend(here.key, price)
            else:
                known.parts[here.key] = Filter(left.limit).spend(left.spent - charge)
                charge = known.charged.withdraw(here.key, charge)
                price = known.priced.withdraw(here.key, price)

    def _upwards(self, part: SplitPart) -> Iterator[tuple[SplitPart, _Known]]:
        here: SplitPart | None = part
        while here is not None:
            known = self._of(here.split)
            yield here, known
            here = known.split.inside

    def _of(self, sequence: int) -> _Known:
        known = self._known.get(sequence)
        if known is None:
            raise LedgerMismatch(
                f"Entry {sequence} of account {self._account.dataset!r} opens no split."
            )
        return known

    def _price(self, charge: Guarantee) -> Guarantee:
        return pair_price(charge) if self._pairs else charge


class _Known:
    """One split. parts: their limits; charged, priced: what it owes, without and with the price."""

    __slots__ = ("charged", "parts", "priced", "split")

    def __init__(self, split: PeopleSplit) -> None:
        self.split = split
        self.parts: dict[str, Filter] = {}
        self.charged = ParallelComposition(split.limit, max_parts=split.max_parts)
        self.priced = ParallelComposition(split.limit, max_parts=split.max_parts)
