"""Ledgers of every kind for tests, and a reservation with little to write."""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest
from tests.postgres_server import empty_schema
from tests.support.seams import Charge, Ledger, Reservation, SplitPart

from unacorda.privacy.events import Laplace
from unacorda.privacy.guarantees import Guarantee

__all__ = ["DURABLE", "EVENT", "KINDS", "TERMS", "address", "reserve"]

DURABLE = ("sqlite", pytest.param("postgres", marks=pytest.mark.service))
KINDS = ("memory", *DURABLE)
TERMS = {"unit": "person", "neighbors": "AddRemove"}
EVENT = Laplace(noise_multiplier=Fraction(10, 3))


def address(kind: str, folder: Path) -> str | None:
    """The address of a ledger that is not there yet."""
    match kind:
        case "memory":
            return None
        case "sqlite":
            return f"sqlite:///{folder}/budget.db"
        case _:
            return empty_schema()


def reserve(
    ledger: Ledger,
    cost: Guarantee,
    *,
    dataset: str = "visits",
    sub_account: str | None = None,
    part: SplitPart | None = None,
    **changes: Any,
) -> Reservation:
    """Reserve in an account; changes: of the charge."""
    stated: dict[str, Any] = {
        "event": EVENT,
        "request": cost,
        "plan_digest": "ab12",
        "salt": b"\x00\x01\xff",
        "analyst": "ana",
        "reproducible": False,
    }
    charge = Charge(cost=cost, **{**stated, **changes})
    return ledger.reserve(dataset, charge, sub_account=sub_account, part=part)
