"""A release as a file states it, and the question that it answers put together again, without data.

What is read here was written by anybody: every name, type and size is checked before use, nothing
is looked up by a name from the file, and whatever does not fit is InvalidParameter, naming the
place.
"""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

import contextlib
import importlib.metadata
import json
import platform
import re
import warnings
from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, Literal

from unacorda import checks
from unacorda._version import __version__
from unacorda.errors import InvalidParameter, UnacordaError
from unacorda.privacy.guarantees import Guarantee
from unacorda.query.aggregates.aggregate import Aggregate
from unacorda.query.aggregates.arguments import weight_of
from unacorda.query.noise.key_selection import PrivateKeys, private_keys
from unacorda.query.plan.batch import BatchPosition, QueryBatch, weights_of
from unacorda.query.plan.codec import decode, rows_of
from unacorda.query.plan.query import Query
from unacorda.query.schema.facts import Key
from unacorda.query.schema.units import Auto, Person, Unit

__all__ = [
    "FORMAT",
    "SEVERAL",
    "Stated",
    "parsed",
    "question_of",
    "read_stated",
    "software",
    "together_of",
]

FORMAT = "unacorda release 1"
"""Stands in every file; another one is refused."""

SEVERAL = "unacorda releases 1"
"""Stands in every file with several releases."""

_MOST_BYTES = 1 << 28
_LEVELS = Literal["rollup", "cube"] | None
_WEIGHTS = tuple[Fraction, ...] | Literal["overall"] | None
_MOST_STEPS = 1_000
_DEEPEST = 100
_PACKAGES = ("numpy", "scipy", "duckdb", "sqlglot")
_DIGEST = re.compile(r"[0-9a-f]{64}")
_SALT = re.compile(r"[0-9a-f]{32}")


@dataclass(frozen=True, slots=True, kw_only=True)
class Stated:
    """What a file says of a release; only its form has been checked.

    rows: the released table; query: the question as `Query.to_dict` wrote it; digest: its hash;
    salt: 32 hex digits; event: as its JSON text is read; request, charge: exact guarantees;
    words: the same as they are printed; computed: columns made of others; software: versions by
    name; provenance: the sentences; batch: the questions that were asked together, None for one
    that was asked alone.
    """

    rows: tuple[Mapping[str, Any], ...]
    query: Mapping[str, Any]
    digest: str
    salt: str
    event: Mapping[str, Any]
    request: Guarantee
    charge: Guarantee
    words: Mapping[str, str]
    reproducible: bool
    computed: Mapping[str, str]
    software: Mapping[str, str]
    provenance: tuple[str, ...]
    batch: Mapping[str, Any] | None


def software() -> dict[str, str]:
    """The versions that an answer may depend on, by name."""
    found = {"unacorda": __version__, "python": platform.python_version()}
    for package in _PACKAGES:
        try:
            found[package] = importlib.metadata.version(package)
        except importlib.metadata.PackageNotFoundError:
            found[package] = "unknown"
    return found


def read_stated(text: str) -> Stated:
    """What the JSON text of a release states; InvalidParameter where it is none.

    At most 2^28 signs are read, and no name may stand twice in an object.
    """
    fields = parsed(text)
    if fields.get("format") != FORMAT:
        raise InvalidParameter(
            "format",
            _short(fields.get("format")),
            expected=f"{FORMAT!r}: a file as Release.to_json() and unacorda query --output write",
        )
    return Stated(
        rows=_rows(fields),
        query=_of(fields, "query", dict),
        digest=_matching(fields, "digest", _DIGEST),
        salt=_matching(fields, "salt", _SALT),
        event=_event(fields),
        request=decode(_of(fields, "exact", dict).get("request"), Guarantee, at="exact.request"),
        charge=decode(_of(fields, "exact", dict).get("charge"), Guarantee, at="exact.charge"),
        words={name: _of(fields, name, str) for name in ("request", "spent", "remaining")},
        reproducible=_of(fields, "reproducible", bool),
        computed=decode(fields.get("computed"), Mapping[str, str], at="computed"),
        software=decode(fields.get("software"), Mapping[str, str], at="software"),
        provenance=decode(fields.get("provenance"), tuple[str, ...], at="provenance"),
        batch=None if fields.get("batch") is None else _of(fields, "batch", dict),
    )


def together_of(stated: Mapping[str, Any]) -> BatchPosition:
    """The questions that `BatchPosition.to_dict` wrote, and which of them the release is.

    Raises as `question_of` does.
    """
    if set(stated) != {"place", "names", "weights", "questions"}:
        raise InvalidParameter("batch", sorted(stated), expected="place, names, weights, questions")
    names = decode(stated["names"], tuple[str, ...], at="batch.names")
    weights = decode(stated["weights"], tuple[Fraction, ...], at="batch.weights")
    number = decode(stated["place"], int, at="batch.place")
    questions = _of(stated, "questions", list)
    if not 0 <= number < len(questions) == len(names) == len(weights) <= _MOST_STEPS:
        raise InvalidParameter("batch", "{...}", expected="a name and a weight for each question")
    found = []
    for place in range(len(questions)):
        if type(questions[place]) is not dict:
            raise InvalidParameter(f"batch.questions[{place}]", "...", expected="an object")
        found.append(question_of(questions[place]))
    together = QueryBatch(
        names=names, queries=tuple(found), weights=weights_of(weights, names, listed=True)
    )
    return BatchPosition(together=together, number=number)


def question_of(stated: Mapping[str, Any]) -> Query:
    """The question that `Query.to_dict` wrote, put together as a session would, without data.

    Raises InvalidParameter and UnsafeExpression for one that no session would take.
    """
    names = {"unit", "steps", "groups", "keys", "aggregates"}
    sometimes = {"search", "private", "margins", "level_weights"}
    if set(stated) - sometimes - {"table", "columns"} - {"join", "union", "of"} != names:
        raise InvalidParameter("query", sorted(stated), expected=f"an object of {sorted(names)}")
    unsuited: str | None = None
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # whoever asked has been warned
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
    query = Query(rows=rows_of(stated, unit), unit=unit)
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
    at = "query.private"
    if not isinstance(stated, dict) or set(stated) != {"groups", "keys"}:
        raise InvalidParameter(at, "...", expected="an object of groups and keys")
    private = decode(stated["groups"], tuple[str, ...], at=f"{at}.groups")
    how = decode(stated["keys"], PrivateKeys, at=f"{at}.keys")
    made = private_keys(weight=how.weight, delta=how.delta, max_groups=how.max_groups)
    public = [name for name in groups if name not in private]
    columns = zip(*keys, strict=True) if public else ()
    lists = [list(dict.fromkeys(column)) for column in columns]
    return dict(zip(public, lists, strict=True)) | dict.fromkeys(private, made)


def _searched(unit: Unit, search: Auto) -> Unit:
    """The unit whose `max_rows` a session found."""
    if not isinstance(unit, Person) or unit.max_rows is None:
        raise InvalidParameter("query.search", "{...}", expected="it beside a person alone")
    sought = Person(
        unit.id,
        max_rows=search,
        max_groups=unit.max_groups,
        max_rows_per_group=unit.max_rows_per_group,
        neighbors=unit.neighbors,
        hash=unit.hash,
    )
    return sought.found(unit.max_rows)


def parsed(text: str) -> dict[str, Any]:
    """The object that JSON text holds; InvalidParameter for other text, or a name twice."""
    expected = "the JSON text of a release, as Release.to_json() writes it"
    if not checks.is_text(text) or len(text) > _MOST_BYTES:
        raise InvalidParameter("text", "...", expected=f"{expected}, at most {_MOST_BYTES:,} signs")
    fields: object = None
    with contextlib.suppress(ValueError, RecursionError):  # a number of many digits: ValueError
        fields = json.loads(text, object_pairs_hook=_once)
    if not isinstance(fields, dict):
        raise InvalidParameter("text", _short(text), expected=expected)
    return fields


def _once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """An object of JSON; ValueError for one that says something twice."""
    found = dict(pairs)
    if len(found) < len(pairs):
        raise ValueError("a name twice")
    return found


def _of(fields: Mapping[str, Any], name: str, kind: type) -> Any:
    """A field of this type."""
    value = fields.get(name)
    words = {dict: "an object", list: "a list", str: "text", bool: "true or false"}
    if type(value) is not kind:
        raise InvalidParameter(name, _short(value), expected=words[kind])
    return value


def _rows(fields: Mapping[str, Any]) -> tuple[dict[str, Any], ...]:
    rows = _of(fields, "rows", list)
    for row in rows:
        if type(row) is not dict or any(isinstance(part, dict | list) for part in row.values()):
            raise InvalidParameter("rows", "[...]", expected="a list of objects of single values")
    return tuple(rows)


def _event(fields: Mapping[str, Any]) -> dict[str, Any]:
    """The event as it stands, of moderate depth; it is compared, and never taken for an event."""
    event: dict[str, Any] = _of(fields, "event", dict)
    layer: list[Any] = [event]
    for _ in range(_DEEPEST):
        inner = [one for one in layer if isinstance(one, dict | list)]
        if not inner:
            return event
        layer = [part for one in inner for part in (one.values() if isinstance(one, dict) else one)]
    raise InvalidParameter("event", "{...}", expected=f"at most {_DEEPEST} layers")


def _matching(fields: Mapping[str, Any], name: str, pattern: re.Pattern[str]) -> str:
    value: str = _of(fields, name, str)
    if not pattern.fullmatch(value):
        raise InvalidParameter(name, _short(value), expected="hex digits, in small letters")
    return value


def _short(value: object) -> object:
    """What a message can hold of a value."""
    if isinstance(value, dict):
        return "{...}"
    return "[...]" if isinstance(value, list) else value[:80] if isinstance(value, str) else value
