"""Whether a release is what it says: its question, event and price computed again, line by line.

What this shows: that the question in the file has the digest in the file, that this question under
the stated request is given noise with just the stated event, and that this event costs just the
stated charge; with a ledger, that the charge was debited for this question with this salt before it
was answered. What it cannot show stands in `NOT_SHOWN`.
"""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

import itertools
import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from unacorda.accounting.charges import charge
from unacorda.errors import LedgerMismatch, UnacordaError
from unacorda.ledger.entries import LIMITS, Account, Entry
from unacorda.ledger.ledger import Ledger
from unacorda.privacy.guarantees import Guarantee, guarantee_from_json
from unacorda.query.allocation import allocate_together, event_of
from unacorda.query.plan.batch import BatchPosition, QueryBatch
from unacorda.query.plan.query import Query
from unacorda.query.provenance import provenance
from unacorda.query.replay import Stated, question_of, read_stated, software, together_of
from unacorda.query.verified_lines import Check, check_errors, check_rows, differs, ok

_LONGEST = 300  # signs of a value in a detail

__all__ = ["NOT_SHOWN", "Verification", "verify"]

NOT_SHOWN = (
    "that the engine ran this question, and that it ran on the data that are spoken of",
    "that the noise was drawn fairly, once and from no seed, and that no value was changed since",
    "that whoever holds the ledger did not write it anew: keep its last digest elsewhere",
)
"""What no file can show, for people."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Verification:
    """What came out when a release was computed again as far as it can be without the data."""

    checks: tuple[Check, ...]

    @property
    def holds(self) -> bool:
        """Whether nothing differs."""
        return all(check.outcome != "differs" for check in self.checks)

    def to_dict(self) -> dict[str, Any]:
        """All of it in plain values."""
        checks = [
            {"check": one.name, "outcome": one.outcome, "detail": one.detail} for one in self.checks
        ]
        return {"holds": self.holds, "checks": checks, "not_shown": list(NOT_SHOWN)}

    def __str__(self) -> str:
        width = max(len(check.name) for check in self.checks)
        lines = [f"{one.name:{width}}  {one.outcome:7}  {one.detail}" for one in self.checks]
        return "\n".join([*lines, "", "This does not show", *(f"  {text}" for text in NOT_SHOWN)])


def verify(text: str, *, ledger: Ledger | None = None, dataset: str | None = None) -> Verification:
    """Compute a release again from its JSON text, as far as it can be without the data.

    text: as `Release.to_json` wrote it. ledger: where the charge should stand; dataset: in which
    account, by default in any. Raises InvalidParameter for text that is no release. A release that
    says something else than what comes out is no error, but a `Check` that differs.

    >>> import pandas as pd
    >>> import unacorda
    >>> with unacorda.Session(
    ...     {"t": pd.DataFrame({"x": [1, 2]})}, unit=unacorda.Row(), budget=unacorda.PureDP(1)
    ... ) as session:
    ...     query = session.table("t").agg(n=unacorda.count())
    ...     text = session.evaluate(query, budget=unacorda.PureDP(1)).to_json()
    >>> verify(text).holds
    True
    >>> altered = text.replace('"weight": "1"', '"weight": "2"')
    >>> [check.name for check in verify(altered).checks if check.outcome == "differs"]
    ['digest']
    """
    stated = read_stated(text)
    checks = [*_software(stated), *_again(stated)]
    if ledger is not None:
        checks += _in_ledger(stated, ledger, dataset)
    return Verification(checks=tuple(checks))


def _software(stated: Stated) -> Iterator[Check]:
    """Other versions are no fault; they are where to look first if something else differs."""
    here = software()
    changed = [
        f"{name} {stated.software.get(name, 'unknown')}, here {version}"
        for name, version in here.items()
        if stated.software.get(name) != version
    ]
    if changed:
        yield Check(name="software", outcome="noted", detail="; ".join(changed))
    else:
        listed = ", ".join(f"{name} {version}" for name, version in here.items())
        yield Check(name="software", outcome="ok", detail=listed)
    if stated.reproducible:
        said = "the noise is said to come from a seed: it protects nobody who can guess it"
        yield Check(name="noise", outcome="noted", detail=said)


def _again(stated: Stated) -> list[Check]:
    """Question, event and price computed again; what cannot be made differs, and ends the rest."""
    checks: list[Check] = []
    step = "question"
    try:
        query = question_of(stated.query)
        checks.append(_question(stated, query))
        together, place, number = QueryBatch.alone(query), None, 0
        if stated.batch is not None:
            step = "batch"
            place = together_of(stated.batch)
            together, number = place.together, place.number
            checks.append(_batch(stated, place))
            query = together.queries[number]
        step = "digest"
        asked = "that question" if place is None else "these questions"
        checks.append(_same(step, stated.digest, together.digest(), f"the SHA-256 of {asked}"))
        step = "event"
        allocations = allocate_together(together.queries, stated.request, weights=together.weights)
        allocation, event = allocations[number], event_of(allocations)
        said = f"the noise that {stated.request} buys for {asked}"
        checks.append(_same(step, stated.event, json.loads(event.to_json()), said))
        step = "charge"
        cost = charge(event, stated.request, stated.charge)
        checks.append(_same(step, stated.charge, cost, f"{cost}, the price of that event"))
        step = "words"
        checks.append(_words(stated, provenance(query, allocation, cost, place=place), cost))
        step = "rows"
        checks.append(check_rows(stated, query))
        step = "errors"
        checks.append(check_errors(stated, query, allocation))
    except UnacordaError as error:
        checks.append(differs(step, f"it cannot be made again: {error}"))
    return checks


def _question(stated: Stated, query: Query) -> Check:
    # The order of steps and aggregates is part of the question.
    if json.dumps(query.to_dict()) == json.dumps(stated.query):
        return ok("question", repr(query))
    return differs("question", f"put together again it is {query!r}, written in another way")


def _batch(stated: Stated, place: BatchPosition) -> Check:
    if place.to_dict() != stated.batch:
        return differs("batch", "put together again it is written in another way")
    if json.dumps(stated.batch["questions"][place.number]) != json.dumps(stated.query):
        return differs("batch", f"question {place.number} is not the one that is answered here")
    count = len(place.together.names)
    return ok("batch", f"question {place.name!r} of {count:,}, of which one price was paid")


def _words(stated: Stated, sentences: tuple[str, ...], cost: Guarantee) -> Check:
    words = {"request": repr(stated.request), "spent": repr(cost)}
    for name, text in words.items():
        if stated.words[name] != text:
            return differs("words", f"{name}: stated {stated.words[name]!r}, but it is {text!r}")
    if stated.provenance != sentences:
        pairs = itertools.zip_longest(stated.provenance, sentences, fillvalue="nothing")
        said, right = next((one, other) for one, other in pairs if one != other)
        return differs("words", f"provenance: stated {_short(said)}, but it is {_short(right)}")
    return ok("words", "budgets and sentences say the same")


def _in_ledger(stated: Stated, ledger: Ledger, dataset: str | None) -> list[Check]:
    names = ledger.datasets() if dataset is None else (dataset,)
    for name in names:
        try:
            entries = ledger.entries(name)
        except LedgerMismatch as error:
            return [differs("entry", str(error))]
        found = [e for e in entries if e.state == "reserved" and e.salt == stated.salt]
        if found:
            return [_entry(stated, found[0], entries, ledger.account(name)), _chain(ledger, name)]
    where = f"account {dataset!r}" if dataset is not None else f"the {len(names)} accounts"
    return [differs("entry", f"there is none with this salt in {where}")]


def _entry(stated: Stated, entry: Entry, entries: Sequence[Entry], account: Account) -> Check:
    """That the entry debits this charge for this question, and that it was answered."""
    place = f"entry {entry.sequence} of account {entry.dataset!r}"
    debited = guarantee_from_json(entry.charge)
    # Of a split only what the largest spends grow by is debited above the part.
    parted = _of_a_part(stated.query)
    if parted != (entry.part_charge is not None):
        return differs("entry", f"{place} is about {'everybody' if parted else 'a part'}")
    charged = guarantee_from_json(entry.part_charge or entry.charge)
    pairs = {
        "digest": (stated.digest, entry.plan_digest),
        "event": (stated.event, json.loads(entry.event)),
        "charge": (stated.charge, charged),
        "request": (stated.request, guarantee_from_json(entry.request)),
        "limits": (_limits(stated.query), json.loads(entry.limits or "{}")),
        "reproducible": (stated.reproducible, entry.reproducible),
    }
    for name, (said, noted) in pairs.items():
        if said != noted:
            return differs("entry", f"{place} has the {name} {_short(noted)}, not {_short(said)}")
    if type(account.budget) is not type(stated.charge):
        return differs("entry", f"{place} is held to {account.budget}, of another kind")
    committed = [e for e in entries if e.state == "committed" and e.reservation == entry.sequence]
    if not committed:
        return differs("entry", f"{place} was never answered")
    if parted:
        said = f"{place}, of {entry.time}: the split that it is of owed {debited} more for it"
        return ok("entry", f"{said}; same digest, salt, event, request and charge")
    return ok("entry", f"{place}, of {entry.time}: same digest, salt, event, request and charge")


def _limits(query: Mapping[str, Any]) -> dict[str, Any]:
    """The limits on rows that a question states."""
    unit = query.get("unit")
    found = unit if isinstance(unit, Mapping) else {}
    return {name: found[name] for name in LIMITS if found.get(name) is not None}


def _of_a_part(rows: object) -> bool:
    """Whether rows are those of a sub-session. In a file that somebody wrote anything may stand."""
    if not isinstance(rows, Mapping):
        return False
    steps, sides = rows.get("steps"), rows.get("of")
    if isinstance(steps, list) and any(isinstance(s, Mapping) and "part" in s for s in steps):
        return True
    return isinstance(sides, list) and any(map(_of_a_part, sides))


def _chain(ledger: Ledger, name: str) -> Check:
    try:
        count = ledger.verify(name)
    except LedgerMismatch as error:
        return differs("chain", str(error))
    return ok("chain", f"{count} entries chain and add up")


def _same(name: str, stated: object, made: object, said: str) -> Check:
    if stated == made:
        return ok(name, said)
    return differs(name, f"stated {_short(stated)}, but it is {_short(made)}")


def _short(value: object) -> str:
    text = (
        value
        if isinstance(value, str)
        else json.dumps(value)
        if isinstance(value, dict)
        else str(value)
    )
    return text if len(text) <= _LONGEST else f"{text[: _LONGEST - 1]}…"
