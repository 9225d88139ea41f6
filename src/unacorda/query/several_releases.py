"""A record of several releases: a batch, or a first look; each is computed again by itself.

Releases that were asked together have one charge, and one salt by which that is seen.
"""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from unacorda.errors import InvalidParameter
from unacorda.ledger.ledger import Ledger
from unacorda.privacy.guarantees import Guarantee
from unacorda.query.looked_record import check_before, check_summary, total
from unacorda.query.plan.codec import decode
from unacorda.query.replay import SEVERAL, Stated, parsed, read_stated
from unacorda.query.verification import Verification, verify
from unacorda.query.verified_lines import Check, differs, ok

__all__ = ["verify_record"]

_MOST = 10_000


def verify_record(
    text: str, *, ledger: Ledger | None = None, dataset: str | None = None
) -> Verification:
    """Compute a release, or a record of several, again from its JSON text, without the data.

    text: as `Release.to_json`, `Batch.to_json` or `Description.to_json` wrote it. ledger: where the
    charges should stand; dataset: in which account, by default in any. Of several releases each is
    one line where nothing differs, and their charges must add up to what was spent; a first look
    must tell their numbers, and what was paid before it. Raises
    InvalidParameter for text that is no such record. A release that says something else than what
    comes out is no error, but a `Check` that differs.

    >>> import pandas as pd
    >>> import unacorda
    >>> with unacorda.Session(
    ...     {"t": pd.DataFrame({"x": [1, 2]})}, unit=unacorda.Row(), budget=unacorda.PureDP(1)
    ... ) as session:
    ...     query = session.table("t").agg(n=unacorda.count())
    ...     text = session.evaluate([query, query], budget=unacorda.PureDP(1)).to_json()
    >>> [(check.name, check.outcome) for check in verify_record(text).checks]
    [('0', 'ok'), ('1', 'ok'), ('spent', 'ok')]
    """
    fields = parsed(text)
    if fields.get("format") != SEVERAL:
        return verify(text, ledger=ledger, dataset=dataset)
    given, before = fields.get("releases"), fields.get("searches", {})
    if not isinstance(given, dict) or not 1 <= len(given) <= _MOST:
        raise InvalidParameter("releases", "...", expected=f"an object of 1 to {_MOST:,} releases")
    if not isinstance(before, dict) or len(before) > _MOST:
        raise InvalidParameter("searches", "...", expected=f"an object of up to {_MOST:,} releases")
    reading = _Reading(ledger=ledger, dataset=dataset)
    searches = {name: reading.one(f"search in {name}", one) for name, one in before.items()}
    charges = len(reading.charges)
    releases = {name: reading.one(name, one) for name, one in given.items()}
    checks = [*reading.checks, _spent(fields, reading.charges[charges:])]
    if "columns" in fields or "before" in fields or before:
        checks += check_before(fields, list(releases.values()), searches)
        checks.append(check_summary(fields, releases))
    return Verification(checks=tuple(checks))


@dataclass(frozen=True, slots=True, kw_only=True)
class _Reading:
    """The releases of a record, one after the other.

    known: those before by their salts; charges: of each salt once; checks: what was found.
    """

    ledger: Ledger | None
    dataset: str | None
    known: dict[str, list[Stated]] = field(default_factory=dict)
    charges: list[Guarantee] = field(default_factory=list)
    checks: list[Check] = field(default_factory=list)

    def one(self, name: str, plain: object) -> Stated:
        """What one of them states."""
        text = json.dumps(plain)
        stated = read_stated(text)
        self.checks.extend(_told(name, verify(text, ledger=self.ledger, dataset=self.dataset)))
        alike = self.known.setdefault(stated.salt, [])
        if not all(_together(stated, other) for other in alike):
            said = "its salt is that of another release, with which it was not asked together"
            self.checks.append(differs(f"{name}: salt", said))
        if not alike:
            self.charges.append(stated.charge)
        alike.append(stated)
        return stated


def _together(one: Stated, other: Stated) -> bool:
    """Whether two releases may have one charge: as two places of one batch, alike otherwise."""
    if one.batch is None or other.batch is None:
        return False
    return one.batch.get("place") != other.batch.get("place") and all(
        getattr(one, name) == getattr(other, name)
        for name in ("digest", "event", "request", "charge")
    )


def _told(name: str, found: Verification) -> list[Check]:
    """One line for a release that holds, else one for each thing that differs."""
    if found.holds:
        said = ", ".join(one.name for one in found.checks)
        return [Check(name=name, outcome="ok", detail=said)]
    return [
        Check(name=f"{name}: {one.name}", outcome="differs", detail=one.detail)
        for one in found.checks
        if one.outcome == "differs"
    ]


def _spent(fields: Mapping[str, Any], charges: Sequence[Guarantee]) -> Check:
    """That the charges, each question's or batch's once, are what was spent in all."""
    exact = fields.get("exact")
    stated = exact.get("spent") if isinstance(exact, dict) else None
    spent: Guarantee = decode(stated, Guarantee, at="exact.spent")
    whole = total(charges) if charges else None
    if spent != whole or repr(spent) != fields.get("spent"):
        made = "of several kinds, which do not add up" if whole is None else whole
        return differs("spent", f"{spent} is stated, but the charges are {made}")
    return ok("spent", f"{spent}, in {len(charges):,} charges")
