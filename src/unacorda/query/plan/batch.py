"""Questions that are asked together, and which of them one scan answers.

Questions with the same table, steps, groups and keys read the same rows, which are bound alike, so
that their aggregates can stand side by side: one relation is bounded, and every exact integer is
counted over it. Each aggregate's sensitivity is what it is alone, since a unit's rows in the
relation keep to the same limits; only which of them are kept may differ. Others are scanned
apart, and so is a question with private keys, which finds keys of its own.
"""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

import copy
import dataclasses
import hashlib
import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, TypeVar

from unacorda import checks
from unacorda.errors import InvalidParameter, UnacordaError
from unacorda.query.aggregates.base import Aggregate
from unacorda.query.plan.query import Query

__all__ = [
    "BatchPosition",
    "QueryBatch",
    "Scan",
    "Several",
    "by_name",
    "members_of",
    "naming",
    "read_together",
    "scans_of",
    "weights_of",
]

_T = TypeVar("_T")
_MOST = 1_000
Several = (
    list[Query]
    | list[str]
    | list[Query | str]
    | tuple[Query | str, ...]
    | Mapping[str, Query | str]
)
"""Questions, or SELECTs, that may be asked together."""

_EXPECTED = f"a list or dict of 1 to {_MOST:,} questions"


@dataclass(frozen=True, slots=True, kw_only=True)
class QueryBatch:
    """The questions of one reservation. names: empty text for one that is asked alone."""

    names: tuple[str, ...]
    queries: tuple[Query, ...]
    weights: tuple[Fraction, ...]

    @staticmethod
    def alone(query: Query) -> QueryBatch:
        """One question."""
        return QueryBatch(names=("",), queries=(query,), weights=(Fraction(1),))

    @property
    def parts(self) -> dict[str, float]:
        """By name each question's part of the budget."""
        whole = sum(self.weights)
        return {n: float(w / whole) for n, w in zip(self.names, self.weights, strict=True)}

    @property
    def single(self) -> bool:
        """Whether it is one question, asked alone."""
        return self.names == ("",)

    def to_dict(self) -> dict[str, Any]:
        """All of it in plain values."""
        return {
            "names": list(self.names),
            "weights": [str(weight) for weight in self.weights],
            "questions": [query.to_dict() for query in self.queries],
        }

    def digest(self) -> str:
        """SHA-256 of what is asked: of one question its own."""
        if self.single:
            return self.queries[0].digest()
        return hashlib.sha256(json.dumps(self.to_dict()).encode()).hexdigest()


@dataclass(frozen=True, slots=True, kw_only=True)
class BatchPosition:
    """Which of several questions one is. number: from 0."""

    together: QueryBatch
    number: int

    @property
    def name(self) -> str:
        """Its name among them."""
        return self.together.names[self.number]

    def to_dict(self) -> dict[str, Any]:
        """All of it in plain values, the other questions included."""
        return {"place": self.number, **self.together.to_dict()}


@contextmanager
def naming(name: str) -> Iterator[None]:
    """Raise what is raised inside with the name of the question it is about."""
    try:
        yield
    except UnacordaError as error:
        if not name:
            raise
        named = copy.copy(error)
        named.args = (f"In question {name!r}: {error}", *error.args[1:])
    else:
        return
    raise named


def members_of(questions: object) -> dict[str, Any] | None:
    """What a list or a mapping holds, by name ('0', '1', ... in a list); None for neither.

    Raises InvalidParameter where it is empty, too long, or a name is no text.
    """
    if isinstance(questions, Mapping):
        found = dict(questions)
    elif isinstance(questions, list | tuple):
        found = {str(place): one for place, one in enumerate(questions)}
    else:
        return None
    if not 1 <= len(found) <= _MOST:
        raise InvalidParameter("query", f"{len(found):,} questions", expected=_EXPECTED)
    for name in found:
        if not checks.is_text(name):
            raise InvalidParameter("query", name, expected="questions by names that are text")
    return found


def check_single(query: object) -> object:
    """What is no list or mapping of questions."""
    if isinstance(query, Mapping | list | tuple):
        raise InvalidParameter("query", query, expected="one question: ask about each by itself")
    return query


def by_name(argument: str, values: object, names: Sequence[str], *, listed: bool) -> dict[str, Any]:
    """What the caller gave for each question; for a list of questions as a list.

    Raises InvalidParameter where there is more or less than one for each of them.
    """
    if listed and isinstance(values, list | tuple) and len(values) == len(names):
        return dict(zip(names, values, strict=True))
    if not listed and isinstance(values, Mapping) and set(values) <= set(names):
        return dict(values)
    wanted = (
        f"a list of {len(names):,}, one for each question"
        if listed
        else f"a dict by the names of questions: {', '.join(map(repr, names))}"
    )
    raise InvalidParameter(argument, values, expected=wanted)


def weights_of(weights: object, names: Sequence[str], *, listed: bool) -> tuple[Fraction, ...]:
    """The weight of each question; 1 where the caller gave none.

    Raises InvalidParameter for one that is not above zero: on such a question nothing would be
    spent, and no noise is large enough for that.
    """
    given = {} if weights is None else by_name("weights", weights, names, listed=listed)
    found = []
    for name in names:
        weight = checks.exact(f"weights[{name!r}]", given.get(name, 1))
        if weight <= 0:
            raise InvalidParameter(
                f"weights[{name!r}]", given[name], expected="a number above 0, as for every weight"
            )
        found.append(weight)
    return tuple(found)


def read_together(
    questions: object, weights: object, read: Callable[[object], tuple[Query, _T]]
) -> tuple[QueryBatch, list[_T]]:
    """One question or several, as the caller gave them, and what else `read` makes of each.

    Raises what `read` raises, naming the question, and InvalidParameter for weights.
    """
    given = members_of(questions)
    if given is None and weights is not None:
        raise InvalidParameter("weights", weights, expected="it for several questions alone")
    asked, beside = [], []
    for name, member in ({"": questions} if given is None else given).items():
        with naming(name):
            query, other = read(member)
            asked.append(query)
            beside.append(other)
    if given is None:
        return QueryBatch.alone(asked[0]), beside
    shares = weights_of(weights, tuple(given), listed=not isinstance(questions, Mapping))
    return QueryBatch(names=tuple(given), queries=tuple(asked), weights=shares), beside


@dataclass(frozen=True, slots=True, kw_only=True)
class Scan:
    """One statement. query: the aggregates of all its questions; members: their places."""

    query: Query
    members: tuple[int, ...]

    @staticmethod
    def name_of(member: int, name: str) -> str:
        """What an aggregate of one question is called in the scan."""
        return f"{member} {name}"


def scans_of(queries: Sequence[Query]) -> tuple[Scan, ...]:
    """The fewest scans that answer all questions, in the order of their first ones."""
    together: list[list[int]] = []
    for place, query in enumerate(queries):
        for members in together:
            if _alike(queries[members[0]], query):
                members.append(place)
                break
        else:
            together.append([place])
    return tuple(_scan(queries, members) for members in together)


def _alike(one: Query, other: Query) -> bool:
    return (
        one.rows == other.rows
        and one.unit == other.unit
        and one.groups == other.groups
        and one.keys == other.keys
        and one.private is other.private is None
        and one.margins == other.margins
    )


def _scan(queries: Sequence[Query], members: Sequence[int]) -> Scan:
    aggregates: dict[str, Aggregate] = {
        Scan.name_of(place, name): aggregate
        for place in members
        for name, aggregate in queries[place].aggregates.items()
    }
    query = dataclasses.replace(queries[members[0]], aggregates=aggregates)
    return Scan(query=query, members=tuple(members))
