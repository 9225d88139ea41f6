"""Asking a priced question: reserved, read, committed, answered. The order is the promise.

A crash anywhere leaves the charge spent. Only before the engine is asked, where it is found gone or
a file another one, the charge is given back: neither is a function of what the rows hold.
"""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

from collections.abc import Mapping
from contextlib import ExitStack, closing

from unacorda.bits import RandomBits
from unacorda.ledger.entries import Search
from unacorda.ledger.ledger import Ledger
from unacorda.query.answering import Priced
from unacorda.query.engines.key_counts import begun
from unacorda.query.engines.protocol import Admission
from unacorda.query.release import Release
from unacorda.query.reserving import check_engine, reserved, salt_from
from unacorda.query.row_search import found_in

__all__ = ["answered"]


def answered(
    priced: Priced,
    admission: Admission,
    ledger: Ledger,
    dataset: str,
    *,
    bits: RandomBits,
    notes: Mapping[str, str | None],
    search: Search | None = None,
) -> tuple[Release, ...]:
    """The answers to all questions, or none.

    admission: of the session that is asked; notes: who asks, and what for.

    search: that the questions are one, whose answer is kept in the entry that commits its charge:
    it is not known before, and never known without having been paid for.
    Raises as `Session.evaluate` does.
    """
    engine = admission.engine
    check_engine(engine)
    salt = salt_from(bits)
    asked = priced.admitted(admission, salt=salt)
    reservation = reserved(
        ledger,
        dataset,
        engine,
        charge=priced.charge,
        event=priced.event,
        request=priced.request,
        digest=priced.together.digest(),
        unit=priced.together.queries[0].unit,
        salt=salt,
        bits=bits,
        notes=notes,
        search=search,
    )
    with ExitStack() as kept:
        counted = [kept.enter_context(closing(begun(one))) for one in asked]
        engine.check_sources()
        if search is None:
            ledger.commit(reservation)
        answers = priced.answers(asked, counted, bits)
    if search is not None:
        ledger.commit(reservation, found=found_in(answers))
    remaining = ledger.remaining(dataset)
    return priced.releases(answers, remaining=remaining, salt=salt, reproducible=not bits.secure)
