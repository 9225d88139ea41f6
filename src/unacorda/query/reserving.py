"""Reserving what a question costs, before its engine is asked for the first row."""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress

from unacorda.bits import RandomBits
from unacorda.errors import UnacordaError
from unacorda.ledger.entries import Reservation, Search
from unacorda.ledger.ledger import Ledger
from unacorda.privacy.events import Event
from unacorda.privacy.guarantees import Guarantee
from unacorda.query.engines.protocol import Engine
from unacorda.query.schema.units import Unit

__all__ = ["check_engine", "reserved", "salt_from"]


def salt_from(bits: RandomBits) -> int:
    """128 bits for the choice of rows, drawn independently of the data."""
    return int.from_bytes(bits.words(2).tobytes(), "little")


def reserved(
    ledger: Ledger,
    dataset: str,
    engine: Engine,
    *,
    charge: Guarantee,
    event: Event,
    request: Guarantee,
    digest: str,
    unit: Unit,
    salt: int,
    bits: RandomBits,
    notes: Mapping[str, str | None],
    search: Search | None = None,
) -> Reservation:
    """What a question costs, reserved; after this the engine may be asked, and nothing comes back.

    digest: of the question; unit: whose limits on rows are noted; notes: who asks, and what for;
    search: that the question is one whose answer the account keeps. Raises as `Ledger.reserve`
    does, and EngineFailed or SourceChanged where the engine is found gone or a file another one:
    then the charge is given back, since neither is a function of what the rows hold.
    """
    reservation = ledger.reserve(
        dataset,
        charge=charge,
        event=event,
        request=request,
        plan_digest=digest,
        limits=unit.limits,
        salt=salt.to_bytes(16, "big"),
        analyst=notes["analyst"],
        purpose=notes["purpose"],
        reproducible=not bits.secure,
        search=search,
    )
    try:
        check_engine(engine)
    except BaseException:
        # No row was read, whatever it was, so that the data had no part in it.
        with suppress(UnacordaError):  # then it stays spent
            ledger.void(reservation)
        raise
    return reservation


def check_engine(engine: Engine) -> None:
    """Raise EngineFailed or SourceChanged where the engine need not be asked. Reads no data."""
    engine.check_open()
    engine.check_sources()
