"""Sub-sessions: over parts of the people, and of analysts with limits of their own."""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from typing import Any, Self

from tacet.accounting.filters.additive import Filter
from tacet.bits import RandomBits
from tacet.ledger.ledger import Ledger
from tacet.privacy.guarantees import Guarantee
from tacet.query.analysts import AnalystLedger
from tacet.query.columns import Key
from tacet.query.opening import check_alive
from tacet.query.rows import Rows
from tacet.query.splitting import PartLedger, Split, parted
from tacet.query.units import Unit

__all__ = ["SubSessions"]


class SubSessions:
    """What a session can be divided into.

    Each is a session over the same engine: it closes with the one it came from, and what it spends
    is debited there too.
    """

    unit: Unit
    _bits: RandomBits
    _budget: Guarantee
    _dataset: str
    _ledger: Ledger
    _notes: Mapping[str, str | None]
    _starts: Mapping[str, Rows]
    _above: tuple[SubSessions, ...] = ()  # those it came from
    _closed: bool
    _process: int

    @property
    def closed(self) -> bool:
        """Whether `close` was called."""
        return self._closed

    def split(
        self, column: str, *, keys: Iterable[Key], budget: Guarantee, max_parts: int = 1
    ) -> dict[Key, Self]:
        """Sub-sessions by key over parts of the people, to be asked in any order and split again.

        Every person is bound, once for all questions, to at most `max_parts` of the parts that she
        has rows in. budget: what each may spend; of this session's, the `max_parts` largest spends
        together are debited as they grow. See docs/tables.md. Raises InvalidParameter, WrongUnit.
        """
        self._may_spend()
        Filter(self._budget).admits(budget)  # refuses one of another unit
        salt = int.from_bytes(self._bits.words(2).tobytes(), "little")
        found = parted(self._starts, self.unit, column, keys=keys, max_parts=max_parts, salt=salt)
        split = Split(self._ledger, self._dataset, self._budget, self.unit.neighbors, max_parts)
        unit = self.unit.in_part
        return {
            key: self._child(PartLedger(split, key, budget), budget, unit=unit, _starts=starts)
            for key, starts in found.items()
        }

    def for_analyst(self, name: str, budget: Guarantee | None = None) -> Self:
        """A sub-session whose spending is debited here too, and ends at a limit of its own.

        name: of an analyst or a project, noted with every entry. budget: the limit, kept by the
        ledger for good: later left out or equal. Nothing is set aside: together the limits may be
        more than there is. Raises InvalidParameter, LedgerMismatch, WrongUnit.
        """
        self._may_spend()
        ledger, limit = AnalystLedger.opened(self._ledger, self._dataset, name, budget)
        return self._child(ledger, limit, _notes={**self._notes, "analyst": name})

    def _child(self, ledger: Any, budget: Guarantee, **changes: Any) -> Self:
        child, above = object.__new__(type(self)), (*self._above, self)
        vars(child).update(vars(self), _owns_ledger=False, _above=above, **changes)
        child._ledger, child._budget = ledger, budget
        return child

    def _may_spend(self) -> None:
        closed = self._closed or any(above.closed for above in self._above)
        copied = not self._ledger.durable and os.getpid() != self._process
        check_alive(closed=closed, copied=copied)
