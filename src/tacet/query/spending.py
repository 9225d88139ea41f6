"""Asking a priced question: reserved, read, committed, answered. The order is the promise.

A crash anywhere leaves the charge spent. Only before the engine is asked, where it is found gone or
a file another one, the charge is given back: neither is a function of what the rows hold.
"""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

from collections.abc import Mapping
from contextlib import ExitStack, closing, suppress

from tacet.bits import RandomBits
from tacet.errors import TacetError
from tacet.ledger.ledger import Ledger
from tacet.query.answering import Priced
from tacet.query.counting import begun
from tacet.query.engines.protocol import Engine
from tacet.query.release import Release

__all__ = ["answered"]


def answered(
    priced: Priced,
    engine: Engine,
    ledger: Ledger,
    dataset: str,
    *,
    bits: RandomBits,
    notes: Mapping[str, str | None],
) -> tuple[Release, ...]:
    """The answers to all questions, or none; notes: who asks, and what for.

    Raises as `Session.evaluate` does.
    """
    _check(engine)
    salt = int.from_bytes(bits.words(2).tobytes(), "little")
    statements = priced.statements(engine, salt=salt)
    reservation = ledger.reserve(
        dataset,
        charge=priced.charge,
        event=priced.event,
        request=priced.request,
        plan_digest=priced.together.digest(),
        salt=salt.to_bytes(16, "big"),
        analyst=notes["analyst"],
        purpose=notes["purpose"],
        reproducible=not bits.secure,
    )
    try:
        _check(engine)
    except BaseException:
        # No row was read, whatever it was, so that the data had no part in it.
        with suppress(TacetError):  # then it stays spent
            ledger.void(reservation)
        raise
    with ExitStack() as kept:
        counted = [
            kept.enter_context(closing(begun(engine, scan.query, statement)))
            for scan, statement in zip(priced.scans, statements, strict=True)
        ]
        engine.check_sources()
        ledger.commit(reservation)
        answers = priced.answers(counted, bits)
    remaining = ledger.remaining(dataset)
    return priced.releases(answers, remaining=remaining, salt=salt, reproducible=not bits.secure)


def _check(engine: Engine) -> None:
    """Raise EngineFailed or SourceChanged where the engine need not be asked. Reads no data."""
    engine.check_open()
    engine.check_sources()
