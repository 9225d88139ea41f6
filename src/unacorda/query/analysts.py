"""Sub-sessions of analysts or projects: limits of their own below the budget of a data set."""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

from typing import Any

from unacorda.errors import InvalidParameter
from unacorda.ledger.entries import Reservation, Split
from unacorda.ledger.ledger import Ledger
from unacorda.privacy.guarantees import Guarantee

__all__ = ["AnalystLedger"]


class AnalystLedger:
    """The sub-account of one analyst, debited together with the account of the data set."""

    def __init__(self, ledger: Ledger, name: str) -> None:
        self.whole, self._name = ledger, name

    @classmethod
    def opened(
        cls, ledger: object, dataset: str, name: str, budget: Guarantee | None
    ) -> tuple[AnalystLedger, Guarantee]:
        """The sub-account of this name, new or known to the ledger, and its limit.

        Raises InvalidParameter for a new one without a budget, and below a part or another
        analyst; LedgerMismatch and WrongUnit as `Ledger.open_sub_account`.
        """
        if not isinstance(ledger, Ledger):
            raise InvalidParameter(
                "name",
                name,
                expected="a session that is no part and no analyst's: begin with "
                "session.for_analyst(...), which can be split",
            )
        if budget is None:
            known = ledger.sub_accounts(dataset)
            if name not in known:
                raise InvalidParameter(
                    "budget", budget, expected=f"the limit of {name!r}, who has none yet"
                )
            budget = known[name]
        ledger.open_sub_account(dataset, name, budget)
        return cls(ledger, name), budget

    @property
    def durable(self) -> bool:
        """Whether what is spent outlives the process."""
        return self.whole.durable

    def open_split(self, dataset: str, **asked: Any) -> Split:
        """A split that the analyst owes for; as `Ledger.open_split`."""
        return self.whole.open_split(dataset, sub_account=self._name, **asked)

    def reserve(self, dataset: str, **asked: Any) -> Reservation:
        """Debit the data set and the analyst in one transaction; as `Ledger.reserve`."""
        return self.whole.reserve(dataset, sub_account=self._name, **asked)

    def commit(self, reservation: Reservation) -> None:
        """Note that the reserved question was computed."""
        self.whole.commit(reservation)

    def void(self, reservation: Reservation) -> None:
        """Give a charge back whose question never reached the data; as `Ledger.void`."""
        self.whole.void(reservation)

    def spent(self, dataset: str) -> Guarantee:
        """What the analyst has spent."""
        return self.whole.spent(dataset, self._name)

    def remaining(self, dataset: str) -> Guarantee:
        """What is left of the analyst's own limit; the data set may have less."""
        return self.whole.remaining(dataset, self._name)

    def close(self) -> None:
        """Nothing: the ledger stays open."""
