"""The charge of a training to an account: its whole budget, once, before a row is read."""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from typing import Any

from unacorda.accounting.rules.base import units_replaced
from unacorda.errors import InvalidParameter
from unacorda.learning.plan import TrainingPlan
from unacorda.ledger.entries import Charge
from unacorda.privacy.neighbors import Neighbors

__all__ = ["TrainingCharge", "check_terms"]


class TrainingCharge:
    """The budget of a plan, in an account of a ledger or of a session.

    Raises InvalidParameter if the account has another unit or other neighbors than the plan.
    """

    def __init__(
        self, plan: TrainingPlan, *, ledger: Any, account: str | None, session: Any, secure: bool
    ) -> None:
        if session is not None and ledger is not None:
            expected = "None with session=, whose ledger is debited"
            raise InvalidParameter("ledger", ledger, expected=expected)
        if (ledger is None) != (account is None):
            raise InvalidParameter("account", account, expected="with ledger=, both or neither")
        self._plan, self._secure, self.made = plan, secure, False
        self._ledger, self.account = ledger, account
        if session is not None:
            if not hasattr(session, "account"):
                shown = type(session).__name__
                raise InvalidParameter("session", shown, expected="an unacorda.Session")
            self._ledger, self.account = session.account
            self._check(session.unit.terms)
        elif ledger is not None and hasattr(ledger, "account"):
            self._check(dict(ledger.account(account).terms))

    @property
    def place(self) -> str:
        """A digest of ledger and account, as account names repeat between ledgers.

        Empty if there is none.
        """
        if self._ledger is None:
            return ""
        known = self._ledger.account(self.account) if hasattr(self._ledger, "account") else None
        held = known, self.account, getattr(self._ledger, "scope", None)
        return hashlib.sha256(repr(held).encode()).hexdigest()

    def make(self) -> bool:
        """Debit the budget, durably; True unless there is no account, or it was debited before."""
        if self._ledger is None or self.made:
            return False
        charge = Charge(
            cost=self._plan.budget,
            event=units_replaced(self._plan.event, self._plan.neighbors),
            request=self._plan.budget,
            reproducible=not self._secure,
            purpose="training",
        )
        self._reservation = self._ledger.reserve(self.account, charge)
        self.made = True
        return True

    def commit(self) -> None:
        """Note in the ledger that the training began."""
        self._ledger.commit(self._reservation)

    def _check(self, terms: Mapping[str, Any]) -> None:
        plan = self._plan
        check_terms(terms, account=self.account, neighbors=plan.neighbors, by_unit=plan.by_unit)


def check_terms(
    terms: Mapping[str, Any], *, account: str | None, neighbors: Neighbors, by_unit: bool
) -> None:
    """Raise unless the terms of an account, as far as it has some, are those of a release."""
    compares, unit = terms.get("neighbors"), terms.get("unit")
    if compares is not None and compares != str(neighbors):
        expected = f"{compares}, as the account {account!r} compares"
        raise InvalidParameter("neighbors", neighbors, expected=expected)
    if unit == "person" and not by_unit:
        expected = f"the person of each row, whom the account {account!r} protects"
        raise InvalidParameter("unit", None, expected=expected)
    if unit == "row" and by_unit:
        expected = f"None: the account {account!r} protects single rows"
        raise InvalidParameter("unit", "ids", expected=expected)
