"""The questions of a first look, one after another, all within one budget.

What a column holds is public where it is declared or the table's own types say it. A column of
untyped text (CSV) is put to a private vote first: how many people have a value that converts to a
number, a date, a boolean? Where no bounds are declared they are found privately, on round numbers.
Then come counts, means and quantiles of all columns in one question, and a histogram of each. Later
questions are chosen by the answers to earlier ones; the charges add up (adaptive composition).
"""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

from collections.abc import Callable, Container, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Literal, Protocol

from unacorda.errors import InvalidParameter
from unacorda.privacy.guarantees import Guarantee
from unacorda.query.aggregates.automatic import WIDEST, find_bounds
from unacorda.query.aggregates.base import Aggregate, Answer
from unacorda.query.aggregates.linear import count, count_people
from unacorda.query.aggregates.means import mean
from unacorda.query.aggregates.quantiles import quantiles
from unacorda.query.allocation import PricedBatch
from unacorda.query.expressions.quoting import identifier
from unacorda.query.expressions.types import Kind as Read
from unacorda.query.noise.key_selection import GivenKeys, private_keys
from unacorda.query.plan.query import Query, QueryBatch, answer_columns
from unacorda.query.results.description import (
    Bar,
    Bins,
    ColumnLook,
    Description,
    EstimateWithInterval,
    Kind,
    shown,
)
from unacorda.query.results.release import Release
from unacorda.query.schema.facts import Bounds, Categories, Dates, Fact, Key, Text
from unacorda.query.schema.table import TableSchema
from unacorda.query.schema.units import Unit

__all__ = [
    "Progress",
    "describe",
]

Progress = Callable[[int, int], None]
"""Called with (questions asked, questions in all): both functions of released numbers."""

QUANTILES = (Fraction(1, 20), Fraction(1, 4), Fraction(1, 2), Fraction(3, 4), Fraction(19, 20))
CONVERTS = 0.8  # so large a part of the people with a value must have one that converts
_VOTES, _RANGES, _NUMBERS, _PICTURES = (Fraction(part, 10) for part in (1, 2, 4, 3))
_NOTHING = Fraction(0)
_CANDIDATES: Mapping[Kind, str] = {"number": "DOUBLE", "date": "DATE", "boolean": "BOOLEAN"}
_READ: Mapping[Read, Kind] = {
    Read.NUMBER: "number",
    Read.INTEGER: "number",
    Read.TEXT: "text",
    Read.BOOLEAN: "boolean",
    Read.DATE: "date",
    Read.TIMESTAMP: "date",
}
_Ranges = Mapping[str, tuple[float, float]]
"""By column its bounds, declared or found."""
_DECLARED: Mapping[type[Fact], Kind] = {
    Bounds: "number",
    Categories: "category",
    Dates: "date",
    Text: "text",
}
_DAY_RANGE = (-700_000, 2_900_000)  # the years 54 to 9909
_MOST_CATEGORIES = 200
_MOST_SHOWN = 15  # values of a column of text
_NO_KEYS = (
    "its values are not public: declare unacorda.Categories([...]) to count them, or give a budget "
    "with a delta, for which values that many people share are found"
)
_FOUND = "values that enough people share, the commonest first; rarer ones are missing"
_NO_TYPE = "a column of a type that is not described"


class _Asks(Protocol):
    """What a first look needs of a session."""

    @property
    def unit(self) -> Unit: ...
    @property
    def budget(self) -> Guarantee: ...
    @property
    def remaining(self) -> Guarantee: ...
    @property
    def searches(self) -> Mapping[str, Release]: ...
    def table(self, name: str) -> Query: ...
    def evaluate(self, query: Query, *, budget: Guarantee) -> Release: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class _Column:
    """A column as it is asked about. sql: its expression as a number, a boolean or text.

    whole: whether its type holds whole numbers alone.
    """

    name: str
    kind: Kind | None  # None: to be voted on
    source: Literal["declared", "type", "vote"]
    fact: Fact | None
    whole: bool

    @property
    def quoted(self) -> str:
        return identifier(self.name)

    @property
    def needs_range(self) -> bool:
        return self.kind in {"number", "date"} and not isinstance(self.fact, Bounds)

    @property
    def range(self) -> tuple[float, float] | None:
        """Its bounds, where they are to be found the widest that there can be."""
        if isinstance(self.fact, Bounds):
            return self.fact.lower, self.fact.upper
        if not self.needs_range:
            return None
        return _DAY_RANGE if self.kind == "date" else WIDEST

    @property
    def sql(self) -> str:
        """The column as what it is described as; a date as days since 1970."""
        match self.kind:
            case "number" if self.source == "vote":
                return f"TRY_CAST({self.quoted} AS DOUBLE)"
            case "date":
                return f"DATE_DIFF('day', DATE '1970-01-01', TRY_CAST({self.quoted} AS DATE))"
            case "boolean" if self.source == "vote":
                return f"TRY_CAST({self.quoted} AS BOOLEAN)"
            case _:
                return self.quoted


@dataclass(frozen=True, slots=True, kw_only=True)
class _Picture:
    """People by value, and those without one."""

    bars: tuple[Bar, ...] = ()
    missing: EstimateWithInterval | None = None


def describe(
    session: _Asks, table: str, *, budget: Guarantee, progress: Progress | None = None
) -> Description:
    """Look at a table within a budget; raises as `Session.evaluate` does."""
    start = session.table(table)
    person = getattr(session.unit, "id", ())  # the column that names a person is not described
    columns = [_column(name, start.scope) for name in start.scope.leaves if name not in person]
    if not columns:
        raise InvalidParameter("table", table, expected="a table with columns beside the person's")
    look = _Look(session=session, start=start, budget=budget, progress=progress, columns=columns)
    look.check()
    description = look.whole()
    # Not by what the account holds less: others may spend from it meanwhile.
    first, *others = (release.charge for release in look.releases.values())
    return replace(description, spent=sum(others, start=first), searches=dict(session.searches))


def _column(name: str, scope: TableSchema) -> _Column:
    fact, leaves = scope.facts.get(name), scope.leaves[name]
    whole = len(leaves) == 1 and leaves[0].column.kind is Read.INTEGER
    if fact is not None:
        kind = _DECLARED[type(fact)]
        return _Column(name=name, kind=kind, source="declared", fact=fact, whole=whole)
    if len(leaves) > 1:
        return _Column(name=name, kind=None, source="vote", fact=None, whole=False)
    read = _READ[leaves[0].column.kind] if leaves else "other"
    return _Column(name=name, kind=read, source="type", fact=None, whole=whole)


class _Look:
    """One look, question by question."""

    def __init__(
        self,
        *,
        session: _Asks,
        start: Query,
        budget: Guarantee,
        progress: Progress | None,
        columns: list[_Column],
    ) -> None:
        self.session, self.start, self.budget, self.progress = session, start, budget, progress
        self.columns = columns
        self.deltas = getattr(budget, "delta", 0) > 0
        self.asked = 0
        self.questions = 2 + len(columns)
        self.rest = Fraction(1)  # of the budget
        self.remaining = session.remaining
        self.reproducible = False
        self.releases: dict[str, Release] = {}

    def check(self) -> None:
        """InvalidParameter for a budget that a question could not be asked with; asks nothing.

        What votes and searches will tell is supposed to be what takes most: numbers, far apart.
        """
        too_small = None
        try:
            for query, share in self._supposed():
                PricedBatch.of(QueryBatch.alone(query), self.budget * share, self.session.budget)
        except InvalidParameter as error:
            if error.argument != "budget":
                raise
            too_small = error
        if too_small is not None:  # in the words of the caller
            raise too_small.about("budget", self.budget)

    def _supposed(self) -> Iterator[tuple[Query, Fraction]]:
        """The questions that there can be, each with its part of the budget."""
        if any(column.kind is None for column in self.columns):
            yield self._votes(), _VOTES
        columns = [replace(one, kind=one.kind or "number") for one in self.columns]
        if any(column.needs_range for column in columns):
            yield self.start.agg(**_searches(columns)), _RANGES
        ranges = {one.name: one.range for one in columns if one.range is not None}
        yield self.start.agg(**_numbers(columns, ranges)), _NUMBERS
        pictured = [one for one in columns if self._bars_wanted(one, ranges)]
        for column in pictured:
            yield self._bars(column, ranges)[0], _PICTURES / len(pictured)

    def whole(self) -> Description:
        """Votes, ranges, numbers, pictures."""
        if any(column.kind is None for column in self.columns):
            self._vote(self._share(_VOTES, later=_RANGES + _NUMBERS + _PICTURES))
        # From here on it is known what there will be: what nothing needs goes to the others.
        ranged = {column.name for column in self.columns if column.range is not None}
        later = any(self._bars_wanted(column, ranged) for column in self.columns) * _PICTURES
        found = any(column.needs_range for column in self.columns)
        ranges = self._ranges(self._share(_RANGES, later=_NUMBERS + later) if found else None)
        numbers = self._numbers(self._share(_NUMBERS, later=later), ranges)
        whole = self._share(later) if later else None
        pictured = [column for column in self.columns if self._bars_wanted(column, ranges)]
        pictures = {
            column.name: self._picture(column, ranges, whole * Fraction(1, len(pictured)))
            for column in pictured
            if whole is not None
        }
        self._say(self.questions)
        return Description(
            table=self.start.scope.table,
            unit=str(self.session.unit),
            people=_first(numbers.answers["people"]),
            rows=_first(numbers.answers["rows"]),
            columns=tuple(
                self._look(place, ranges, numbers, pictures) for place in range(len(self.columns))
            ),
            request=self.budget,
            spent=self.budget,
            remaining=self.remaining,
            reproducible=self.reproducible,
            releases=self.releases,
        )

    def _share(self, part: Fraction, *, later: Fraction = _NOTHING) -> Guarantee:
        """What is left, split by the parts of this step and of the later ones."""
        share = self.rest * part / (part + later)
        self.rest -= share
        return self.budget * share

    def _ask(self, about: str, query: Query, budget: Guarantee) -> Release:
        release = self.session.evaluate(query, budget=budget)
        self.remaining, self.reproducible = release.remaining, release.reproducible
        self.releases[about] = release
        self._say(self.asked + 1)
        return release

    def _say(self, asked: int) -> None:
        self.asked = min(asked, self.questions)
        if self.progress is not None:
            self.progress(self.asked, self.questions)

    def _votes(self) -> Query:
        """How many people have values of each kind, in the undeclared columns of text."""
        asked: dict[str, Aggregate] = {}
        for place, column in enumerate(self.columns):
            if column.kind is None:
                asked[f"present{place}"] = count_people(column.quoted)
                for kind, sql in _CANDIDATES.items():
                    text = f"TRY_CAST({column.quoted} AS {sql})"
                    asked[f"{kind}{place}"] = count_people(text)
        return self.start.agg(**asked)

    def _vote(self, budget: Guarantee) -> None:
        """Decide by people what the undeclared columns of text hold."""
        answers = self._ask("votes", self._votes(), budget).answers
        for place, column in enumerate(self.columns):
            if column.kind is None:
                enough = max(CONVERTS * answers[f"present{place}"].values[0], 1)
                # Numbers first: 0 and 1 convert to booleans too.
                winners = [k for k in _CANDIDATES if answers[f"{k}{place}"].values[0] >= enough]
                self.columns[place] = replace(column, kind=winners[0] if winners else "text")

    def _ranges(self, budget: Guarantee | None) -> _Ranges:
        known = {one.name: one.range for one in self.columns if one.range is not None}
        if budget is None:
            return known
        query = self.start.agg(**_searches(self.columns))
        answers = self._ask("ranges", query, budget).answers
        for place, column in enumerate(self.columns):
            if column.needs_range:
                ((low, high),) = answers[f"range{place}"].intervals
                if column.kind == "date":
                    low, high = max(low, _DAY_RANGE[0]), min(high, _DAY_RANGE[1])
                    low, high = (low, high) if low < high else _DAY_RANGE
                known[column.name] = (low, high)
        return known

    def _numbers(self, budget: Guarantee, ranges: _Ranges) -> Release:
        return self._ask("numbers", self.start.agg(**_numbers(self.columns, ranges)), budget)

    def _bars_wanted(self, column: _Column, ranges: Container[str]) -> bool:
        if isinstance(column.fact, Categories):
            return len(column.fact.values) <= _MOST_CATEGORIES
        if column.kind == "text":
            return self.deltas
        return column.name in ranges or column.kind == "boolean"

    def _bars(self, column: _Column, ranges: _Ranges) -> tuple[Query, Sequence[str]]:
        """The question for the picture of a column, and what to write beside its bars."""
        query, name = self.start, column.name
        if column.kind == "text":
            return self._people_by(query, name, private_keys()), []
        keys: Sequence[Key]
        labels: Sequence[str]
        if isinstance(column.fact, Categories):
            keys, labels = column.fact.values, [_label(key) for key in column.fact.values]
        else:
            value, name = column.sql, self._new_name()
            keys, labels = [False, True], ["false", "true"]
            if column.name in ranges:
                low, high = ranges[column.name]
                bins = Bins.of(low, high, whole=column.whole, date=column.kind == "date")
                keys, labels, value = range(len(bins.labels)), bins.labels, bins.place(value)
            query = query.derive(**{name: value})
        shown = [*(key for key in keys if key is not None), None]
        labels = [label for key, label in zip(keys, labels, strict=True) if key is not None]
        return self._people_by(query, name, shown), labels

    def _picture(self, column: _Column, ranges: _Ranges, budget: Guarantee) -> _Picture:
        query, labels = self._bars(column, ranges)
        release = self._ask(f"picture of {column.name}", query, budget)
        (answer,) = release.answers.values()
        if column.kind == "text":
            return _values_of(release, answer)
        *bars, missing = _bars_of([*labels, "missing"], answer)
        return _Picture(bars=tuple(bars), missing=missing.count)

    def _people_by(self, query: Query, group: str, keys: GivenKeys) -> Query:
        """People by a column, counted under a name whose columns are not called as that one."""
        name = "n"
        while group in answer_columns(name):
            name += "_"
        return query.group_by(group, keys=keys).agg(**{name: count_people()})

    def _new_name(self) -> str:
        """A name that no column has, the person's own included."""
        name = "value"
        while any(column.casefold() == name for column in self.start.scope.names):
            name += "_"
        return name

    def _look(
        self, place: int, ranges: _Ranges, numbers: Release, pictures: Mapping[str, _Picture]
    ) -> ColumnLook:
        column, answers = self.columns[place], numbers.answers
        date, picture = column.kind == "date", pictures.get(column.name, _Picture())
        look = ColumnLook(
            name=column.name,
            kind=column.kind or "text",
            source=column.source,
            bars=picture.bars,
            missing=picture.missing,
        )
        if column.kind == "other":
            return replace(look, note=_NO_TYPE)
        look = replace(look, present=_first(answers[f"present{place}"]))
        if column.kind == "text":
            return replace(look, note=_FOUND if self.deltas else _NO_KEYS)
        if column.name not in ranges:
            return look
        low, high = ranges[column.name]
        middle = _first(answers[f"mean{place}"])
        percents = [f"{float(100 * q):g}" for q in QUANTILES]
        drawn = {f"{q}%": answers[f"q{place}_{q}"].values[0] for q in percents}
        return replace(
            look,
            range=(shown(low, date=date), shown(high, date=date)),
            limits=(low, high),
            found=column.needs_range,
            mean=None if date else middle,
            quantiles={
                share: shown(value, date=date, width=high - low) for share, value in drawn.items()
            },
        )


def _searches(columns: Sequence[_Column]) -> dict[str, Aggregate]:
    """The searches for ranges that are not declared."""
    return {
        f"range{place}": find_bounds(column.sql)
        for place, column in enumerate(columns)
        if column.needs_range
    }


def _numbers(columns: Sequence[_Column], ranges: _Ranges) -> dict[str, Aggregate]:
    """Counts of all columns, means and quantiles of those with a range."""
    asked: dict[str, Aggregate] = {"people": count_people(weight=2), "rows": count()}
    for place, column in enumerate(columns):
        if column.kind == "other":
            continue
        asked[f"present{place}"] = count_people(column.sql)
        if column.name in ranges:
            low, high = ranges[column.name]
            asked[f"mean{place}"] = mean(column.sql, low, high, weight=2)
            asked[f"q{place}"] = quantiles(column.sql, QUANTILES, low, high, weight=4)
    return asked


def _values_of(release: Release, answer: Answer) -> _Picture:
    """The commonest values of a column of text, themselves found privately."""
    keys = [key for (key,) in release.keys]
    bars = dict(zip(keys, _bars_of(list(map(_label, keys)), answer), strict=True))
    missing = bars.pop(None, None)  # None where too few lack a value to be found
    return _Picture(
        bars=tuple(sorted(bars.values(), key=lambda bar: -bar.count.value)[:_MOST_SHOWN]),
        missing=None if missing is None else missing.count,
    )


def _first(answer: Answer) -> EstimateWithInterval:
    return EstimateWithInterval(value=answer.values[0], low=answer.lower[0], high=answer.upper[0])


def _bars_of(labels: Sequence[str], answer: Answer) -> tuple[Bar, ...]:
    ends = zip(labels, answer.values, answer.lower, answer.upper, strict=True)
    return tuple(
        Bar(label=label, count=EstimateWithInterval(value=value, low=low, high=high))
        for label, value, low, high in ends
    )


def _label(key: Key) -> str:
    return "NULL" if key is None else str(key).lower() if isinstance(key, bool) else str(key)
