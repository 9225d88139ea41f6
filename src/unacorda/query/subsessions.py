"""Sub-sessions, over parts of the people and of analysts, and how sessions end, together."""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Iterable, Mapping
from types import MappingProxyType
from typing import Any, NoReturn, Self

from unacorda.accounting.filters.additive import Filter
from unacorda.bits import RandomBits
from unacorda.ledger.ledger import Ledger
from unacorda.privacy.guarantees import Guarantee
from unacorda.query.analysts import AnalystLedger
from unacorda.query.engines.protocol import Admission, Engine
from unacorda.query.engines.relations import relation
from unacorda.query.opening import check_alive, check_limit
from unacorda.query.plan.codec import encode
from unacorda.query.plan.partition import PartLedger, part_of, parted
from unacorda.query.plan.relation import Rows
from unacorda.query.results.release import Release
from unacorda.query.schema.facts import Key, check_keys
from unacorda.query.schema.units import Unit

__all__ = ["SubSessions"]


class SubSessions:
    """What a session can be divided into, and until when it is open.

    Each part is a session over the same engine: it closes with the one it came from, and what it
    spends is debited there too.
    """

    unit: Unit
    searches: Mapping[str, Release] = MappingProxyType({})
    """By table the answers by which `max_rows` was found, of the session that found it alone."""
    _bits: RandomBits
    _budget: Guarantee
    _dataset: str
    _engine: Engine
    _ledger: Ledger  # or one that stands for an analyst or a part of it
    _notes: Mapping[str, str | None]
    _owns_ledger: bool
    _starts: Mapping[str, Rows]
    _above: tuple[SubSessions, ...] = ()  # those it came from
    _closed: bool
    _process: int

    @property
    def _admission(self) -> Admission:
        return Admission(engine=self._engine, starts=self._starts, unit=self.unit)

    @property
    def closed(self) -> bool:
        """Whether `close` was called."""
        return self._closed

    def close(self) -> None:
        """Release the engine and a ledger that this session opened. Nothing spent comes back."""
        self._closed = True
        if not self._above:
            self._engine.close()
        if self._owns_ledger:
            self._ledger.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *failure: object) -> None:
        self.close()

    def __reduce__(self) -> NoReturn:
        raise TypeError("A session holds a budget: it cannot be pickled or copied.")

    def split(
        self,
        column: str,
        *,
        keys: Iterable[Key],
        budget: Guarantee,
        max_parts: int = 1,
        name: str | None = None,
    ) -> dict[Key, Self]:
        """Sub-sessions by key over parts of the people, to be asked in any order and split again.

        Every person is bound, once for all questions, to at most `max_parts` of the parts that she
        has rows in. budget: what each may spend; of this session's, the `max_parts` largest spends
        together are debited as they grow. name: of a split that the ledger shall know again: any
        session that gives it goes on with the same parts and with what they have spent, for the
        same data alone (a file that changed is refused; what a frame holds nobody can tell).
        Without a name each split is a new one, with a debt of its own. See docs/tables.md.
        Raises InvalidParameter, WrongUnit, and LedgerMismatch for a name that is another split's.
        """
        self._may_spend()
        check_limit(budget)
        Filter(self._budget).admits(budget)  # refuses one of another unit
        asked: dict[str, Any] = {"keys": check_keys("keys", keys), "max_parts": max_parts}
        unsalted = parted(self._starts, self.unit, column, **asked, salt=0)
        self._engine.check_sources()
        split = self._ledger.open_split(
            self._dataset,
            limit=budget,
            max_parts=max_parts,
            digest=digest_of(unsalted, self._engine, self.unit, max_parts),
            salt=self._bits.words(2).tobytes(),
            name=name,
        )
        found = parted(self._starts, self.unit, column, **asked, salt=int(split.salt, 16))
        whole: Ledger = getattr(self._ledger, "whole", self._ledger)
        unit = self.unit.in_part
        return {
            key: self._child(
                PartLedger(whole, part_of(split, key)), budget, unit=unit, _starts=starts
            )
            for key, starts in found.items()
        }

    def for_analyst(self, name: str, budget: Guarantee | None = None) -> Self:
        """A sub-session whose spending is debited here too, and ends at a limit of its own.

        name: of an analyst or a project, noted with every entry. budget: the limit, kept by the
        ledger for good: later left out or equal. Nothing is set aside: together the limits may be
        more than there is. Raises InvalidParameter, LedgerMismatch, WrongUnit.
        """
        self._may_spend()
        if budget is not None:
            check_limit(budget)
        ledger, limit = AnalystLedger.opened(self._ledger, self._dataset, name, budget)
        return self._child(ledger, limit, _notes={**self._notes, "analyst": name})

    def _child(self, ledger: Any, budget: Guarantee, **changes: Any) -> Self:
        child, above = object.__new__(type(self)), (*self._above, self)
        rest = {"_owns_ledger": False, "_above": above, "searches": {}}
        vars(child).update(vars(self), **rest, **changes)
        child._ledger, child._budget = ledger, budget
        return child

    def _may_spend(self) -> None:
        closed = self._closed or any(above.closed for above in self._above)
        copied = not self._ledger.durable and os.getpid() != self._process
        check_alive(closed=closed, copied=copied)


def digest_of(
    found: Mapping[Key, Mapping[str, Rows]], engine: Engine, unit: Unit, max_parts: int
) -> str:
    """SHA-256 of all that says who is in which part, but for the salt and the data themselves.

    found: the parts with the salt 0. The SQL that draws, how columns and ids are read included,
    the software that runs it, and what tells files from others: another of these draws other parts.
    """
    first = next(iter(found.values()))
    told = {
        "tables": {
            name: relation(rows, (), scan=engine.scan, salt=0, unit=unit)
            for name, rows in first.items()
        },
        "keys": [encode(key) for key in found],
        "max_parts": max_parts,
        "terms": unit.terms,
        "engine": list(engine.identity),
    }
    return hashlib.sha256(json.dumps(told, sort_keys=True).encode()).hexdigest()
