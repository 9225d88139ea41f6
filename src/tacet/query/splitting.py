"""Sub-sessions over disjoint parts of the people: who belongs to which, and what is owed for them.

At the split every person is bound, once and for all questions, to at most `max_parts` of the parts
that she has rows in; a part holds the rows of the people bound to it that lie in it. One person is
then met by the questions of at most `max_parts` parts, so that the parent owes the sum of the
largest spends of so many (`ParallelComposition`).
"""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

import dataclasses
import threading
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from tacet import checks
from tacet.accounting.filters.additive import Filter
from tacet.accounting.parallel import ParallelComposition
from tacet.errors import BudgetExceeded, InvalidParameter
from tacet.ledger.entries import Reservation
from tacet.ledger.ledger import Ledger
from tacet.privacy.guarantees import Guarantee
from tacet.privacy.neighbors import Neighbors
from tacet.query.analysts import AnalystLedger
from tacet.query.columns import Key, check_keys
from tacet.query.groups import public_column
from tacet.query.joins import common_type
from tacet.query.rows import Part, Rows
from tacet.query.units import Row, Unit

__all__ = ["PartLedger", "Split", "parted", "people_of"]

_MOST_PARTS = 1_000


def parted(
    starts: Mapping[str, Rows],
    unit: Unit,
    column: str,
    *,
    keys: Iterable[Key],
    max_parts: int,
    salt: int,
) -> dict[Key, dict[str, Rows]]:
    """By key the rows that each table of a part begins with: of tables that have the column.

    salt: 128 bits, for the life of the split. Raises InvalidParameter, naming the mend.
    """
    listed = check_keys("keys", keys)
    most = int(checks.positive_integer(max_parts=max_parts))
    if len(listed) > _MOST_PARTS:
        raise InvalidParameter("keys", len(listed), expected=f"at most {_MOST_PARTS:,} parts")
    if isinstance(unit, Row) and most != 1:
        raise InvalidParameter("max_parts", max_parts, expected="1: a single row is in one part")
    members = {name: rows for name, rows in starts.items() if _has(rows, column)}
    if not members:
        raise InvalidParameter(
            "column", column, expected=f"a column of the tables: {', '.join(starts)}"
        )
    types = people_of(list(members.values()))
    columns = {name: public_column(rows.scope, column, listed) for name, rows in members.items()}
    sides = tuple((rows, columns[name]) for name, rows in members.items())
    return {
        key: {
            name: dataclasses.replace(
                rows,
                steps=(
                    *rows.steps,
                    Part(
                        column=columns[name],
                        label=column,
                        key=key,
                        keys=listed,
                        max_parts=most,
                        salt=salt,
                        members=sides,
                        types=types,
                    ),
                ),
            )
            for name, rows in members.items()
        }
        for key in listed
    }


def people_of(members: Sequence[Rows]) -> tuple[str, ...]:
    """The types in which people of several tables are one; InvalidParameter without such."""
    types = [one.type for one in members[0].identities]
    for rows in members:
        types = [
            common_type(name, known, there.type, (members[0].scope.table, rows.scope.table))
            for known, (name, there) in zip(types, rows.scope.ids.items(), strict=True)
        ]
    return tuple(types)


def _has(rows: Rows, column: str) -> bool:
    return column in rows.scope


class Split:
    """What the parent of a split owes, and where: one for all of its parts.

    ledger, dataset: of the parent; account: its budget. Reserving is one step after the other: the
    parent's own transaction decides whether it can pay what a question raises the debt by, and only
    then is the question counted. Should the parent fail in between, its charge may stand while the
    split counts none: more is then owed later than need be, never less.
    """

    def __init__(
        self,
        ledger: Ledger | AnalystLedger | PartLedger,
        dataset: str,
        account: Guarantee,
        neighbors: Neighbors,
        max_parts: int,
    ) -> None:
        self.ledger, self.dataset = ledger, dataset
        self._lock = threading.Lock()
        self._owed = ParallelComposition(account, max_parts=max_parts, neighbors=neighbors)

    @property
    def owed(self) -> Guarantee:
        """What the parent owes for all parts together."""
        return self._owed.owed

    def reserve(self, part: Key, charge: Guarantee, **asked: Any) -> Reservation:
        """Debit the parent by what this charge to a part raises the debt; as `Ledger.reserve`."""
        with self._lock:
            rise = self._owed.increase(part, charge)
            reservation = self.ledger.reserve(self.dataset, charge=rise, **asked)
            self._owed.spend(part, charge)
        return reservation


class PartLedger:
    """The account of one part: its own limit, and the split's debt to the parent."""

    def __init__(self, split: Split, part: Key, budget: Guarantee) -> None:
        self._split, self._part = split, part
        self._lock = threading.Lock()
        self._filter = Filter(budget)

    @property
    def durable(self) -> bool:
        """Whether what is spent outlives the process."""
        return self._split.ledger.durable

    def reserve(self, dataset: str, *, charge: Guarantee, **asked: Any) -> Reservation:
        """Debit the part, and the parent by what it owes for that; as `Ledger.reserve`."""
        with self._lock:
            if not self._filter.admits(charge):
                name = f"{dataset}, part {self._part!r}"
                raise BudgetExceeded(asked=charge, left=self._filter.remaining, account=name)
            reservation = self._split.reserve(self._part, charge, **asked)
            self._filter = self._filter.spend(charge)
        return reservation

    def commit(self, reservation: Reservation) -> None:
        """Note that the reserved question was computed."""
        self._split.ledger.commit(reservation)

    def spent(self, dataset: str) -> Guarantee:
        """What the part has spent."""
        del dataset
        return self._filter.spent

    def remaining(self, dataset: str) -> Guarantee:
        """What is left of the part's own limit; the parent may have less."""
        del dataset
        return self._filter.remaining

    def close(self) -> None:
        """Nothing: the parent's ledger stays open."""
