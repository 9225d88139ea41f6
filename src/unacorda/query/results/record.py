"""Records of releases, read from untrusted files and checked without the data.

Records are untrusted: every name, type and size is checked before use, and nothing is looked up by
a name from the file. Anything that does not fit raises InvalidParameter, which names the place.

The check shows three things: the question in the file has the digest in the file; under the stated
request this question gets noise with exactly the stated event; and this event costs exactly the
stated charge. With a ledger it also shows that the charge was debited for this question with this
salt before it was answered. `NOT_SHOWN` lists what it cannot show.

In a record of several releases (a batch or a description), each is computed again separately.
Releases of one batch share one charge, and one salt that shows it. A session that found `max_rows`
privately paid for that before it described the table; those answers are in the record too.
"""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

import contextlib
import functools
import importlib.metadata
import json
import platform
import re
import warnings
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, Literal, get_type_hints

from unacorda import checks
from unacorda._version import __version__
from unacorda.accounting.charges import charge
from unacorda.checks import demand
from unacorda.errors import InvalidParameter, LedgerMismatch, UnacordaError, WrongUnit
from unacorda.ledger.entries import LIMITS, AccountTerms, Entry
from unacorda.ledger.ledger import Ledger
from unacorda.privacy.guarantees import Guarantee, guarantee_from_json
from unacorda.query.aggregates.base import Aggregate, weight_of
from unacorda.query.allocation import allocate_together, event_of
from unacorda.query.noise.selection import PrivateKeys, private_keys
from unacorda.query.plan.codec import decode, decoded, rows_of
from unacorda.query.plan.query import BatchPosition, Query, QueryBatch, weights_of
from unacorda.query.schema.keys import Key
from unacorda.query.schema.units import Auto, Person, Unit

FORMAT = "unacorda release 1"
"""Stands in every file; another one is refused."""

SEVERAL = "unacorda releases 1"
"""Stands in every file with several releases."""

_MOST_BYTES = 1 << 28
_MOST_RELEASES = 10_000
_LONGEST = 300  # signs of a value in a detail
_LEVELS = Literal["rollup", "cube"] | None
_WEIGHTS = tuple[Fraction, ...] | Literal["overall"] | None
_MOST_QUESTIONS = 1_000
_DEEPEST = 100
_OBJECT = Mapping[str, Any]
_DIGITS = {"digest": 64, "salt": 32}
_EXPECTED = "the JSON text of a release, as Release.to_json() writes it"
_PACKAGES = ("numpy", "scipy", "duckdb", "sqlglot")


@dataclass(frozen=True, slots=True, kw_only=True)
class ReleaseRecord:
    """The claims of a file about a release; only their form has been checked.

    query: the question as `Query.to_dict` wrote it; digest: its hash; salt: 32 hex digits; event:
    as its JSON text is read; request, charge: exact guarantees; software: versions by name; batch:
    the questions that were asked together, None for one that was asked alone.
    """

    query: Mapping[str, Any]
    digest: str
    salt: str
    event: Mapping[str, Any]
    request: Guarantee
    charge: Guarantee
    reproducible: bool
    software: Mapping[str, str]
    batch: Mapping[str, Any] | None


def software() -> dict[str, str]:
    """The versions that an answer may depend on, by name."""
    found = {"unacorda": __version__, "python": platform.python_version()}
    return found | {package: _version(package) for package in _PACKAGES}


@functools.cache
def _version(package: str) -> str:
    try:
        return importlib.metadata.version(package)
    except importlib.metadata.PackageNotFoundError:
        return "unknown"


def _record(fields: object) -> ReleaseRecord:
    """What a release in a file states; InvalidParameter where it is none."""
    if not isinstance(fields, dict):
        raise InvalidParameter("text", "...", expected=_EXPECTED)
    form = fields.get("format")
    expected = f"{FORMAT!r}: a file as Release.to_json() and unacorda query --output write"
    demand(form == FORMAT, "format", form if isinstance(form, str) else "...", expected=expected)
    stated: dict[str, Any] = {}
    for name, hint in get_type_hints(ReleaseRecord).items():
        part, at = fields, name
        if name in ("request", "charge"):
            part, at = decode(fields.get("exact"), _OBJECT, at="exact"), f"exact.{name}"
        stated[name] = decode(part.get(name), hint, at=at)
    for name, digits in _DIGITS.items():
        hex_digits = re.fullmatch(f"[0-9a-f]{{{digits}}}", stated[name])
        demand(hex_digits, name, stated[name], expected="lower-case hex digits")
    expected = f"at most {_DEEPEST} layers"
    demand(not _is_deeper(stated["event"], _DEEPEST), "event", "{...}", expected=expected)
    return ReleaseRecord(**stated)


def _is_deeper(value: Any, layers: int) -> bool:
    """Whether objects and lists are nested in more layers; what is compared must not be."""
    if not isinstance(value, dict | list):
        return False
    inner = value.values() if isinstance(value, dict) else value
    return layers == 0 or any(_is_deeper(one, layers - 1) for one in inner)


def _together_of(stated: Mapping[str, Any]) -> BatchPosition:
    """The questions that `BatchPosition.to_dict` wrote, and which of them the release is.

    Raises as `question_of` does.
    """
    number, names, weights, questions = decoded(
        stated,
        "batch",
        place=int,
        names=tuple[str, ...],
        weights=tuple[Fraction, ...],
        questions=tuple[_OBJECT, ...],
    )
    fits = 0 <= number < len(questions) == len(names) == len(weights) <= _MOST_QUESTIONS
    demand(fits, "batch", "{...}", expected="a name and a weight for each question")
    together = QueryBatch(
        names=names,
        queries=tuple(map(question_of, questions)),
        weights=weights_of(weights, names, listed=True),
    )
    return BatchPosition(together=together, number=number)


def question_of(stated: Mapping[str, Any]) -> Query:
    """Rebuild the question that `Query.to_dict` wrote, as a session would, without data.

    Raises InvalidParameter and UnsafeExpression for a question that no session would accept.
    """
    names = {"unit", "steps", "groups", "keys", "aggregates"}
    sometimes = {"search", "private", "margins", "level_weights"}
    sources = {"table", "columns", "join", "union", "per_person", "of"}
    if set(stated) - sometimes - sources != names:
        raise InvalidParameter("query", sorted(stated), expected=f"an object of {sorted(names)}")
    unsuited: str | None = None
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # who asked has been warned
            return _question(stated)
    except UnacordaError:
        raise
    except (TypeError, ValueError, ArithmeticError, LookupError, AssertionError, RecursionError):
        # The functions that make aggregates refuse such numbers; they have not been asked.
        unsuited = "a question that a session takes"
    raise InvalidParameter("query", "{...}", expected=unsuited)


def _question(stated: Mapping[str, Any]) -> Query:
    unit: Unit = decode(stated["unit"], Unit, at="query.unit")
    if "search" in stated:
        unit = _searched(unit, decode(stated["search"], Auto, at="query.search"))
    return asked_of(Query(rows=rows_of(stated, unit), unit=unit), stated)


def asked_of(query: Query, stated: Mapping[str, Any]) -> Query:
    """The question of these rows whose groups and aggregates `Query.to_dict` wrote."""
    groups = decode(stated["groups"], tuple[str, ...], at="query.groups")
    keys = decode(stated["keys"], tuple[tuple[Key, ...], ...], at="query.keys")
    margins = decode(stated.get("margins"), _LEVELS, at="query.margins")
    weights = decode(stated.get("level_weights"), _WEIGHTS, at="query.level_weights")
    if groups:
        if "private" in stated:
            listed: Any = _beside_private(groups, keys, stated["private"])
        else:
            listed = keys if len(groups) > 1 else [k for (k,) in keys]
        query = query.group_by(*groups, keys=listed, margins=margins, level_weights=weights)
    aggregates = decode(stated["aggregates"], Mapping[str, Aggregate], at="query.aggregates")
    for aggregate in aggregates.values():
        weight_of(aggregate.weight)
    return query.agg(**aggregates)


def _beside_private(
    groups: tuple[str, ...], keys: tuple[tuple[Key, ...], ...], stated: Any
) -> dict[str, Any]:
    """For each group its public keys, or how they are found."""
    private, how = decoded(stated, "query.private", groups=tuple[str, ...], keys=PrivateKeys)
    made = private_keys(weight=how.weight, delta=how.delta, max_groups=how.max_groups)
    public = [name for name in groups if name not in private]
    columns = zip(*keys, strict=True) if public else ()
    listed = {name: list(dict.fromkeys(c)) for name, c in zip(public, columns, strict=True)}
    return {**listed, **dict.fromkeys(private, made)}


def _searched(unit: Unit, search: Auto) -> Unit:
    """The unit whose `max_rows` a session found."""
    if not isinstance(unit, Person) or unit.max_rows is None:
        raise InvalidParameter("query.search", "{...}", expected="a question about people")
    bounds: dict[str, Any] = {**unit.limits, "max_rows": search}
    return Person(unit.id, **bounds, neighbors=unit.neighbors).found(unit.max_rows)


def _parsed(text: str) -> dict[str, Any]:
    """The object that JSON text holds; InvalidParameter for other text, or a name twice."""
    fits = checks.is_text(text) and len(text) <= _MOST_BYTES
    demand(fits, "text", "...", expected=f"{_EXPECTED}, at most {_MOST_BYTES:,} characters")
    fields: object = None
    with contextlib.suppress(ValueError, RecursionError):  # a number of many digits: ValueError
        fields = json.loads(text, object_pairs_hook=checks.once)
    if not isinstance(fields, dict):
        raise InvalidParameter("text", text[:80], expected=_EXPECTED)
    return fields


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordCheck:
    """One line of a report. outcome: `noted` is information, no fault; detail: what differs."""

    name: str
    outcome: Literal["ok", "differs", "noted"]
    detail: str


def _ok(name: str, detail: str) -> RecordCheck:
    """What was made again is what is stated."""
    return RecordCheck(name=name, outcome="ok", detail=detail)


def _differs(name: str, detail: str) -> RecordCheck:
    """Something else is stated; detail: how it differs."""
    return RecordCheck(name=name, outcome="differs", detail=detail)


NOT_SHOWN = (
    "that the engine ran this question, and that it ran on the data that are spoken of",
    "that the noise was drawn fairly, once and from no seed",
    "that no released value, error or sentence was changed since",
    "that its holder did not write it anew: keep its last digest elsewhere",
)
"""What no file can show, for people."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Verification:
    """The result of computing a release again from its record, without the data.

    Attributes
    ----------
    checks
        One line for each check, with `name`, `outcome` and `detail`. The outcome is "ok", "differs"
        or "noted", which is information and no fault.

    Examples
    --------
    >>> import pandas
    >>> import unacorda
    >>> visits = pandas.DataFrame({"id": [1, 2, 3]})
    >>> unit = unacorda.Person("id", max_rows=1)
    >>> with unacorda.Session({"visits": visits}, unit=unit, budget=unacorda.PureDP(1)) as session:
    ...     question = session.table("visits").agg(n=unacorda.count())
    ...     text = session.evaluate(question, budget=unacorda.PureDP(1)).to_json()
    >>> unacorda.Release.verify(text).holds
    True
    >>> result = unacorda.Release.verify(text.replace('"weight": "1"', '"weight": "2"'))
    >>> [check.name for check in result.checks if check.outcome == "differs"]
    ['digest']
    """

    checks: tuple[RecordCheck, ...]

    @property
    def holds(self) -> bool:
        """Whether no check found a difference."""
        return all(check.outcome != "differs" for check in self.checks)

    def to_dict(self) -> dict[str, Any]:
        """Return the checks as plain values, for JSON.

        Returns
        -------
        dict
            `holds`, `checks`, and `not_shown`: what no check of a record can show.
        """
        checks = [
            {"check": one.name, "outcome": one.outcome, "detail": one.detail} for one in self.checks
        ]
        return {"holds": self.holds, "checks": checks, "not_shown": list(NOT_SHOWN)}

    def __str__(self) -> str:
        width = max(len(check.name) for check in self.checks)
        lines = [f"{one.name:{width}}  {one.outcome:7}  {one.detail}" for one in self.checks]
        return "\n".join([*lines, "", "This does not show", *(f"  {text}" for text in NOT_SHOWN)])


def verify_record(
    text: str, *, ledger: Ledger | None = None, dataset: str | None = None
) -> Verification:
    """Check a release, or a record of several, from its JSON text, without the data.

    text: as `Release.to_json`, `Batch.to_json` or `Description.to_json` wrote it. ledger: the
    ledger to look the charges up in; dataset: the account, by default any. With several releases,
    each has one line if nothing differs, and their charges must add up to what was spent; a
    description must state their numbers, and what was paid before it. Raises InvalidParameter for
    text that is not such a record. A release whose claims differ from the computed ones raises no
    error: its `RecordCheck` says that it differs.

    >>> import pandas as pd
    >>> import unacorda
    >>> with unacorda.Session(
    ...     {"t": pd.DataFrame({"x": [1, 2]})}, unit=unacorda.Row(), budget=unacorda.PureDP(2)
    ... ) as session:
    ...     query = session.table("t").agg(n=unacorda.count())
    ...     text = session.evaluate(query, budget=unacorda.PureDP(1)).to_json()
    ...     both = session.evaluate([query, query], budget=unacorda.PureDP(1)).to_json()
    >>> verify_record(text).holds
    True
    >>> altered = text.replace('"weight": "1"', '"weight": "2"')
    >>> [check.name for check in verify_record(altered).checks if check.outcome == "differs"]
    ['digest']
    >>> [(check.name, check.outcome) for check in verify_record(both).checks]
    [('0', 'ok'), ('1', 'ok'), ('spent', 'ok')]
    """
    fields = _parsed(text)
    if fields.get("format") != SEVERAL:
        return Verification(checks=_checks(_record(fields), ledger, dataset))
    given: Any = fields.get("releases")
    searches: Any = fields.get("searches", {})
    for field, some, least in (("releases", given, 1), ("searches", searches, 0)):
        fits = isinstance(some, dict) and least <= len(some) <= _MOST_RELEASES
        demand(fits, field, "...", expected=f"an object of {least} to {_MOST_RELEASES:,} releases")
    checks: list[RecordCheck] = []
    known: dict[str, list[ReleaseRecord]] = {}  # by salt
    charges: dict[str, list[Guarantee]] = {"before": [], "spent": []}  # of each salt once
    for place, (name, one) in enumerate([*searches.items(), *given.items()]):
        searched = place < len(searches)
        label = f"search in {name}" if searched else name
        stated = _record(one)
        checks += _lines_of(label, _checks(stated, ledger, dataset))
        alike = known.setdefault(stated.salt, [])
        if not all(_together(stated, other) for other in alike):
            said = "its salt is that of another release, with which it was not asked together"
            checks.append(_differs(f"{label}: salt", said))
        if not alike:
            charges["before" if searched else "spent"].append(stated.charge)
        alike.append(stated)
    checks.append(_spent(fields, "spent", charges["spent"]))
    if searches or fields.get("before") is not None:
        checks.append(_spent(fields, "before", charges["before"]))
    return Verification(checks=tuple(checks))


def _checks(
    stated: ReleaseRecord, ledger: Ledger | None, dataset: str | None
) -> tuple[RecordCheck, ...]:
    """All of one release."""
    there = [] if ledger is None else _in_ledger(stated, ledger, dataset)
    return (*_software(stated), *_again(stated), *there)


def _software(stated: ReleaseRecord) -> Iterator[RecordCheck]:
    """Other versions are no fault; they are where to look first if something else differs."""
    here = software()
    changed = [
        f"{name} {stated.software.get(name, 'unknown')}, here {version}"
        for name, version in here.items()
        if stated.software.get(name) != version
    ]
    if changed:
        yield RecordCheck(name="software", outcome="noted", detail="; ".join(changed))
    else:
        yield _ok("software", ", ".join(f"{name} {version}" for name, version in here.items()))
    if stated.reproducible:
        said = "the noise is said to come from a seed: it protects no one who can guess it"
        yield RecordCheck(name="noise", outcome="noted", detail=said)


def _again(stated: ReleaseRecord) -> Iterator[RecordCheck]:
    """Question, event and price computed again; what cannot be made differs, and ends the rest."""
    step = "question"
    try:
        query = question_of(stated.query)
        # The order of steps and aggregates is part of the question.
        if json.dumps(query.to_dict()) == json.dumps(stated.query):
            yield _ok(step, repr(query))
        else:
            yield _differs(step, f"put together again it is {query!r}, written in another way")
        together, asked = QueryBatch.alone(query), "that question"
        if stated.batch is not None:
            step = "batch"
            place = _together_of(stated.batch)
            together, asked = place.together, "these questions"
            yield _batch(stated, place)
        step = "digest"
        yield _same(step, stated.digest, together.digest(), f"the SHA-256 of {asked}")
        step = "event"
        allocations = allocate_together(together.queries, stated.request, weights=together.weights)
        event = event_of(allocations)
        said = f"the noise that {stated.request} buys for {asked}"
        yield _same(step, stated.event, json.loads(event.to_json()), said)
        step = "charge"
        cost = charge(event, stated.request, stated.charge)
        yield _same(step, stated.charge, cost, f"{cost}, the price of that event")
    except UnacordaError as error:
        yield _differs(step, f"it cannot be made again: {error}")


def _batch(stated: ReleaseRecord, place: BatchPosition) -> RecordCheck:
    if place.to_dict() != stated.batch:
        return _differs("batch", "put together again it is written in another way")
    if json.dumps(stated.batch["questions"][place.number]) != json.dumps(stated.query):
        return _differs("batch", f"question {place.number} is not the one that is answered here")
    count = len(place.together.names)
    return _ok("batch", f"question {place.name!r} of {count:,}, of which one price was paid")


def _in_ledger(stated: ReleaseRecord, ledger: Ledger, dataset: str | None) -> list[RecordCheck]:
    names = ledger.datasets() if dataset is None else (dataset,)
    for name in names:
        try:
            entries = ledger.entries(name)
        except LedgerMismatch as error:
            return [_differs("entry", str(error))]
        found = [e for e in entries if e.state == "reserved" and e.salt == stated.salt]
        if found:
            return [_entry(stated, found[0], entries, ledger.account(name)), _chain(ledger, name)]
    where = f"account {dataset!r}" if dataset is not None else f"the {len(names)} accounts"
    return [_differs("entry", f"there is none with this salt in {where}")]


def _entry(
    stated: ReleaseRecord, entry: Entry, entries: Sequence[Entry], account: AccountTerms
) -> RecordCheck:
    """That the entry debits this charge for this question, and that it was answered."""
    place = f"entry {entry.sequence} of account {entry.dataset!r}"
    debited = guarantee_from_json(entry.charge)
    # Of a split only what the largest spends grow by is debited above the part.
    parted = _of_a_part(stated.query)
    if parted != (entry.part_charge is not None):
        return _differs("entry", f"{place} is about {'everybody' if parted else 'a part'}")
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
            had = f"{place} has the {name} {_shortened(noted)}, not {_shortened(said)}"
            return _differs("entry", had)
    if type(account.budget) is not type(stated.charge):
        return _differs("entry", f"{place} is held to {account.budget}, of another kind")
    committed = [e for e in entries if e.state == "committed" and e.reservation == entry.sequence]
    if not committed:
        return _differs("entry", f"{place} was never answered")
    owed = f" the split that it is of owed {debited} more for it;" if parted else ""
    same = "same digest, salt, event, request and charge"
    return _ok("entry", f"{place}, of {entry.time}:{owed} {same}")


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


def _chain(ledger: Ledger, name: str) -> RecordCheck:
    try:
        count = ledger.verify(name)
    except LedgerMismatch as error:
        return _differs("chain", str(error))
    return _ok("chain", f"{count} entries chain and add up")


def _same(name: str, stated: object, made: object, said: str) -> RecordCheck:
    if stated == made:
        return _ok(name, said)
    return _differs(name, f"stated {_shortened(stated)}, but it is {_shortened(made)}")


def _shortened(value: object) -> str:
    text = json.dumps(value) if isinstance(value, dict) else str(value)
    return text if len(text) <= _LONGEST else f"{text[: _LONGEST - 1]}…"


def _together(one: ReleaseRecord, other: ReleaseRecord) -> bool:
    """Whether two releases may have one charge: as two places of one batch, alike otherwise."""
    if one.batch is None or other.batch is None:
        return False
    return one.batch.get("place") != other.batch.get("place") and all(
        getattr(one, name) == getattr(other, name)
        for name in ("digest", "event", "request", "charge")
    )


def _lines_of(name: str, found: Sequence[RecordCheck]) -> list[RecordCheck]:
    """One line for a release that holds, else one for each thing that differs."""
    wrong = [one for one in found if one.outcome == "differs"]
    if not wrong:
        return [_ok(name, ", ".join(one.name for one in found))]
    return [_differs(f"{name}: {one.name}", one.detail) for one in wrong]


def _spent(fields: Mapping[str, Any], name: str, charges: Sequence[Guarantee]) -> RecordCheck:
    """That the charges, each question's or batch's once, are what a record states under a name."""
    exact = fields.get("exact")
    stated = exact.get(name) if isinstance(exact, dict) else None
    spent: Guarantee = decode(stated, Guarantee, at=f"exact.{name}")
    whole: Guarantee | None = None
    with contextlib.suppress(WrongUnit):  # of several kinds, or orders
        whole = sum(charges[1:], start=charges[0]) if charges else None
    if spent != whole or repr(spent) != fields.get(name):
        made = "of several kinds, which do not add up" if charges and whole is None else whole
        return _differs(name, f"{spent} is stated, but the charges are {made}")
    return _ok(name, f"{spent}, in {len(charges):,} charges")
