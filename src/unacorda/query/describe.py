"""The questions of a first look, one after another, all within one budget.

What a column holds is public where it is declared or the table's own types say it. A column of
untyped text (CSV) is put to a private vote first: how many people have a value that converts to a
number, a date, a boolean? Where no bounds are declared they are found privately, on round numbers.
Then come counts, means and quantiles of all columns in one question, and a histogram of each. Later
questions are chosen by the answers to earlier ones; the charges add up (adaptive composition).
"""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from fractions import Fraction
from typing import Literal, Protocol, Self

from unacorda.checks import demand
from unacorda.errors import InvalidParameter
from unacorda.privacy.guarantees import Guarantee
from unacorda.query.aggregates.automatic import WIDEST, find_bounds
from unacorda.query.aggregates.base import Aggregate, Answer
from unacorda.query.aggregates.linear import count, count_people
from unacorda.query.aggregates.means import mean
from unacorda.query.aggregates.quantiles import quantiles
from unacorda.query.allocation import PricedBatch
from unacorda.query.expressions.language import Kind as Read
from unacorda.query.expressions.language import identifier
from unacorda.query.noise.selection import GivenKeys, private_keys
from unacorda.query.plan.query import Query, QueryBatch, answer_columns
from unacorda.query.results.description import (
    Bar,
    Bins,
    ColumnLook,
    Description,
    EstimateWithInterval,
    Kind,
    RowsEach,
    shown,
)
from unacorda.query.results.release import Release
from unacorda.query.row_bounds import rows_question
from unacorda.query.schema.table import Bounds, Categories, Dates, Fact, TableSchema, Text
from unacorda.query.schema.units import Unit

Progress = Callable[[int, int], None]
"""Called with (questions asked, questions in all): both functions of released numbers."""

_IDS = re.compile(
    r"(.*[_. -])?(id|uuid|guid)|index|row(_?id|_?names?|_?n(o|um|umber))?|unnamed.*|", re.IGNORECASE
)
"""Names of columns that number rows or name people and things, of which no look is taken."""
QUANTILES = (Fraction(1, 20), Fraction(1, 4), Fraction(1, 2), Fraction(3, 4), Fraction(19, 20))
CONVERTS = 0.8  # so large a part of the people with a value must have one that converts
_WHOLE = 0.95  # and of those with a number one that is whole, or 0 or 1
_INTERVALS = Fraction(1, 4)  # of the share of quantiles
_VOTES, _RANGES, _NUMBERS, _PICTURES = (Fraction(part, 10) for part in (1, 2, 4, 3))
_ROWS = Fraction(1, 20)  # of all, for the rows of a person, where there may be several
_CANDIDATES: Mapping[Kind, str] = {"number": "DOUBLE", "date": "DATE", "boolean": "BOOLEAN"}
_READ: Mapping[Read, Kind] = {
    Read.NUMBER: "number",
    Read.INTEGER: "number",
    Read.TEXT: "text",
    Read.BOOLEAN: "boolean",
    Read.DATE: "date",
    Read.TIMESTAMP: "date",
}
_DECLARED: Mapping[type[Fact], Kind] = {
    Bounds: "number",
    Categories: "category",
    Dates: "date",
    Text: "text",
}
_DAY_RANGE = (-700_000, 2_900_000)  # the years 54 to 9909
_WIDEST: Mapping[Kind, tuple[float, float]] = {"number": WIDEST, "date": _DAY_RANGE}
_MOST_CATEGORIES = 200
_MOST_SHOWN = 15  # values of a column of text
_NO_KEYS = (
    "its values are not public: declare unacorda.Categories([...]) to count them, or give a budget "
    "with a delta, for which values that many people share are found"
)
_FOUND = "values that enough people share, the commonest first; rarer ones are missing"
_NO_TYPE = "a column of a type that is not described"
_HIDDEN = "noise hides its type: read as text; declare it, or look with more budget"


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
    def for_purpose(self, purpose: str) -> Self: ...
    def evaluate(self, query: Query, *, budget: Guarantee) -> Release: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class _Column:
    """A column as it is asked about.

    place: in the table; whole: whether it holds whole numbers alone, by its type or a vote; binary:
    by a vote, 0 and 1 alone; hidden: whether noise hid the vote; limits: its bounds, declared or
    found, and until they are found the widest that there can be.
    """

    name: str
    place: int
    source: Literal["declared", "type", "vote"]
    fact: Fact | None = None
    whole: bool = False
    binary: bool = False
    kind: Kind | None = None  # None: to be voted on
    hidden: bool = False
    limits: tuple[float, float] | None = None

    def of_kind(self, kind: Kind) -> _Column:
        limits = _WIDEST.get(kind)
        if isinstance(self.fact, Bounds):
            limits = self.fact.lower, self.fact.upper
        return replace(self, kind=kind, limits=limits)

    @property
    def quoted(self) -> str:
        return identifier(self.name)

    @property
    def searched(self) -> bool:
        return self.limits is not None and not (self.binary or isinstance(self.fact, Bounds))

    @property
    def votes(self) -> dict[str, str]:
        """What people vote on, by name: the kind of an undeclared column, and of numbers more."""
        if self.kind is not None and (self.whole or not isinstance(self.fact, Bounds)):
            return {}
        number = self.quoted if self.kind else f"TRY_CAST({self.quoted} AS DOUBLE)"
        asked = {
            "number": number,
            "whole": f"CASE WHEN {number} = FLOOR({number}) THEN 1 END",
            "binary": f"CASE WHEN {number} IN (0, 1) THEN 1 END",
        }
        if self.kind is None:
            asked["present"] = self.quoted
            for kind, sql in _CANDIDATES.items():
                asked[kind] = f"TRY_CAST({self.quoted} AS {sql})"
        return asked

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


_Picture = tuple[tuple[Bar, ...], EstimateWithInterval | None]
"""People by value, and those without one."""


def describe(
    session: _Asks,
    table: str,
    *,
    budget: Guarantee,
    only: Sequence[str] = (),
    skip: Sequence[str] = (),
    progress: Progress | None = None,
) -> Description:
    """Look at a table within a budget; raises as `Session.evaluate` does.

    only: the columns to look at, all where it is empty but ids and row numbers, which are left out
    by their names unless facts are declared of them; skip: columns to leave out as well.
    """
    start = session.table(table)
    names, left_out = choose_columns(start, session.unit, only=only, skip=skip)
    columns = [_column(name, place, start.scope) for place, name in enumerate(names)]
    look = _Look(
        session=session,
        start=start,
        budget=budget,
        progress=progress,
        columns=columns,
        left_out=left_out,
    )
    look.check()
    return look.whole()


def choose_columns(
    start: Query, unit: Unit, *, only: Sequence[str] = (), skip: Sequence[str] = ()
) -> tuple[list[str], tuple[str, ...]]:
    """The columns to look at, and those left out for their names; by public facts alone.

    only, skip: as of `describe`. Raises InvalidParameter.
    """
    scope = start.scope
    given: dict[str, list[str]] = {}
    for argument, names in (("only", only), ("skip", skip)):
        demand(not isinstance(names, str), argument, names, expected="a list of columns")
        given[argument] = [scope.resolve(name, argument=argument) for name in names]
    person = getattr(unit, "id", ())  # the column that names a person is not described
    every = [name for name in scope.leaves if name not in person]
    usual = [name for name in every if name in scope.facts or not _IDS.fullmatch(name)]
    chosen = [name for name in every if name in (given["only"] or usual)]
    names = [name for name in chosen if name not in given["skip"]]
    expected = "a table with more columns than the person's, other ids and those left out"
    demand(names, "table", scope.table, expected=expected)
    rest = [] if given["only"] else [one for one in every if one not in [*usual, *given["skip"]]]
    return names, tuple(rest)


def _column(name: str, place: int, scope: TableSchema) -> _Column:
    fact, leaves = scope.facts.get(name), scope.leaves[name]
    whole = len(leaves) == 1 and leaves[0].column.kind is Read.INTEGER
    if fact is not None:
        column = _Column(name=name, place=place, source="declared", fact=fact, whole=whole)
        return column.of_kind(_DECLARED[type(fact)])
    if len(leaves) > 1:
        return _Column(name=name, place=place, source="vote")
    read = _READ[leaves[0].column.kind] if leaves else "other"
    return _Column(name=name, place=place, source="type", whole=whole).of_kind(read)


@dataclass(slots=True, kw_only=True)
class _Look:
    """One look, question by question. rest: of the budget, what no step has taken yet."""

    session: _Asks
    start: Query
    budget: Guarantee
    progress: Progress | None
    columns: list[_Column]
    left_out: tuple[str, ...] = ()
    rest: Fraction = Fraction(1)
    releases: dict[str, Release] = field(default_factory=dict)

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
        rest = 1 - _ROWS * self._counts_rows
        if self._counts_rows:
            yield rows_question(self.start), _ROWS
        if any(column.votes for column in self.columns):
            yield self._votes(), _VOTES * rest
        columns = [one if one.kind else one.of_kind("number") for one in self.columns]
        if any(column.searched for column in columns):
            yield self._searches(columns), _RANGES * rest
        yield self._numbers(columns), _NUMBERS * rest
        pictured = [one for one in columns if self._is_pictured(one)]
        for column in pictured:
            yield self._bars(column)[0], _PICTURES * rest / len(pictured)

    def whole(self) -> Description:
        """Rows of a person, votes, ranges, numbers, pictures."""
        rows_each = None
        if self._counts_rows:
            share = self._share(_ROWS, later=1 - _ROWS)
            kept = self._ask("rows of a person", rows_question(self.start), share).kept
            rows_each = None if kept is None else RowsEach.of(kept)
        if any(column.votes for column in self.columns):
            self._vote(self._share(_VOTES, later=_RANGES + _NUMBERS + _PICTURES))
        # From here on it is known what there will be: what nothing needs goes to the others.
        pictured = [column.place for column in self.columns if self._is_pictured(column)]
        later = _PICTURES if pictured else Fraction(0)
        if any(column.searched for column in self.columns):
            self._search(self._share(_RANGES, later=_NUMBERS + later))
        share = self._share(_NUMBERS, later=later)
        numbers = self._ask("numbers", self._numbers(self.columns), share).clamped().answers
        pictures: dict[int, _Picture] = {}
        if pictured:
            each = self._share(_PICTURES, later=Fraction(0)) * Fraction(1, len(pictured))
            pictures = {n: self._picture(self.columns[n], each) for n in pictured}
        if self.progress is not None:
            self.progress(self._questions, self._questions)
        # Not by what the account holds less: others may spend from it meanwhile.
        first, *others = (release.charge for release in self.releases.values())
        last = next(reversed(self.releases.values()))
        return Description(
            table=self.start.scope.table,
            unit=str(self.session.unit),
            people=_estimates(numbers["people"])[0],
            rows=_estimates(numbers["rows"])[0],
            left_out=self.left_out,
            rows_each=rows_each,
            columns=tuple(
                self._look(column, numbers, *pictures.get(column.place, ((), None)))
                for column in self.columns
            ),
            request=self.budget,
            spent=sum(others, start=first),
            remaining=last.remaining,
            budget=last.budget,
            reproducible=last.reproducible,
            releases=self.releases,
            searches=dict(self.session.searches),
        )

    def _share(self, part: Fraction, *, later: Fraction) -> Guarantee:
        """What is left, split by the parts of this step and of the later ones."""
        share = self.rest * part / (part + later)
        self.rest -= share
        return self.budget * share

    @property
    def _questions(self) -> int:
        return 2 + self._counts_rows + len(self.columns)

    @property
    def _counts_rows(self) -> bool:
        """Whether people may have several rows, of which a bound on rows alone drops some."""
        return self.start.drops_rows and self.start.bounded_by_rows

    @property
    def _finds_text(self) -> bool:
        return getattr(self.budget, "delta", 0) > 0

    def _ask(self, about: str, query: Query, budget: Guarantee) -> Release:
        noted = self.session.for_purpose(f"describe {self.start.scope.table}: {about}")
        release = noted.evaluate(query, budget=budget)
        self.releases[about] = release
        if self.progress is not None:
            self.progress(min(len(self.releases), self._questions), self._questions)
        return release

    def _votes(self) -> Query:
        """How many people have values of each kind, and of numbers whole ones, and 0 or 1."""
        asked: dict[str, Aggregate] = {
            f"{name}{column.place}": count_people(sql)
            for column in self.columns
            for name, sql in column.votes.items()
        }
        return self.start.agg(**asked)

    def _vote(self, budget: Guarantee) -> None:
        """Decide by people what undeclared columns of text hold, and which numbers are whole."""
        answers = self._ask("types", self._votes(), budget).answers
        for n, column in enumerate(self.columns):
            votes = {name: answers[f"{name}{n}"].values[0] for name in column.votes}
            if not votes:
                continue
            decided = column
            if column.kind is None:
                # Where noise is about as large as the votes they decide nothing.
                (counted,) = _estimates(answers[f"present{n}"])
                margin = 0.0 if counted.high is None else counted.high - counted.value
                hidden = votes["present"] <= 2 * margin
                enough = max(CONVERTS * votes["present"], 1)
                # Numbers first: 0 and 1 convert to booleans too.
                winners = [kind for kind in _CANDIDATES if votes[kind] >= enough]
                decided = column.of_kind(winners[0] if winners and not hidden else "text")
                decided = replace(decided, hidden=hidden)
            if decided.kind == "number":
                enough = max(_WHOLE * votes["number"], 1)
                decided = replace(decided, whole=votes["whole"] >= enough)
                if column.kind is None and votes["binary"] >= enough:
                    decided = replace(decided, binary=True, whole=True, limits=(0, 1))
            self.columns[n] = decided

    def _searches(self, columns: Sequence[_Column]) -> Query:
        """The searches for ranges that are not declared."""
        searched = [column for column in columns if column.searched]
        return self.start.agg(**{f"range{one.place}": find_bounds(one.sql) for one in searched})

    def _search(self, budget: Guarantee) -> None:
        answers = self._ask("ranges", self._searches(self.columns), budget).answers
        for n, column in enumerate(self.columns):
            if column.searched:
                ((low, high),) = answers[f"range{n}"].intervals
                if column.kind == "date":
                    low, high = max(low, _DAY_RANGE[0]), min(high, _DAY_RANGE[1])
                    low, high = (low, high) if low < high else _DAY_RANGE
                self.columns[n] = replace(column, limits=(low, high))

    def _numbers(self, columns: Sequence[_Column]) -> Query:
        """Counts of all columns, means and quantiles of those with a range."""
        asked: dict[str, Aggregate] = {"people": count_people(weight=2), "rows": count()}
        for column in columns:
            n, sql = column.place, column.sql
            if column.kind != "other":
                asked[f"present{n}"] = count_people(sql)
                if not self._is_pictured(column):
                    asked[f"missing{n}"] = count_people(f"CASE WHEN {sql} IS NULL THEN 1 END")
            if column.limits is not None:
                asked[f"mean{n}"] = mean(sql, *column.limits, weight=2)
                asked[f"q{n}"] = quantiles(
                    sql,
                    QUANTILES,
                    *column.limits,
                    resolution=1 if column.whole else None,
                    interval=_INTERVALS,
                    weight=4,
                )
        return self.start.agg(**asked)

    def _is_pictured(self, column: _Column) -> bool:
        if isinstance(column.fact, Categories):
            return len(column.fact.values) <= _MOST_CATEGORIES
        if column.kind == "text":
            return self._finds_text
        return column.limits is not None or column.kind == "boolean"

    def _bars(self, column: _Column) -> tuple[Query, Bins | None]:
        """People by the values of a column, or by bins of its range."""
        query, name, bins = self.start, column.name, None
        keys: GivenKeys = private_keys()
        if isinstance(column.fact, Categories):
            keys = [*(key for key in column.fact.values if key is not None), None]
        elif column.kind != "text":
            value, name, keys = column.sql, "value", [False, True, None]
            while any(taken.casefold() == name for taken in self.start.scope.names):
                name += "_"
            if column.limits is not None:
                date = column.kind == "date"
                bins = Bins.of(*column.limits, whole=column.whole, date=date)
                keys, value = [*range(len(bins.labels)), None], bins.place(value)
            query = query.derive(**{name: value})
        counted = "n"
        while name in answer_columns(counted):
            counted += "_"
        return query.group_by(name, keys=keys).agg(**{counted: count_people()}), bins

    def _picture(self, column: _Column, budget: Guarantee) -> _Picture:
        query, bins = self._bars(column)
        release = self._ask(f"picture of {column.name}", query, budget)
        (answer,) = release.clamped().answers.values()
        found = dict(zip((key for (key,) in release.keys), _estimates(answer), strict=True))
        missing = found.pop(None, None)  # None where too few lack a value to be found
        bars = []
        for key, people in found.items():
            label = str(key).lower() if isinstance(key, bool) else str(key)
            if bins is not None:
                label = bins.labels[int(label)]
            bars.append(Bar(label=label, count=people))
        if column.kind == "text":  # the commonest of those that were found
            bars = sorted(bars, key=lambda bar: -bar.count.value)[:_MOST_SHOWN]
        return tuple(bars), missing

    def _look(
        self,
        column: _Column,
        answers: Mapping[str, Answer],
        bars: tuple[Bar, ...],
        missing: EstimateWithInterval | None,
    ) -> ColumnLook:
        n, kind = column.place, column.kind or "text"
        notes = {"other": _NO_TYPE, "text": _FOUND if self._finds_text else _NO_KEYS}
        look = ColumnLook(
            name=column.name,
            kind=kind,
            source=column.source,
            present=None if kind == "other" else _estimates(answers[f"present{n}"])[0],
            bars=bars,
            missing=_estimates(answers[f"missing{n}"])[0] if f"missing{n}" in answers else missing,
            note=_HIDDEN if column.hidden else notes.get(kind, ""),
        )
        if column.limits is None:
            return look
        low, high = column.limits
        date = kind == "date"
        width = 0.0 if column.whole else high - low
        drawn, intervals = {}, {}
        for q in QUANTILES:
            percent = f"{float(100 * q):g}"
            (one,) = _estimates(answers[f"q{n}_{percent}"])
            drawn[f"{percent}%"] = shown(one.value, date=date, width=width)
            ends = [end for end in (one.low, one.high) if end is not None]
            if len(ends) == 2 and ends[1] - ends[0] <= (high - low) / 2:  # else of no use
                intervals[f"{percent}%"] = " to ".join(
                    shown(end, date=date, width=width) for end in ends
                )
        (average,) = _estimates(answers[f"mean{n}"])
        if not answers[f"mean{n}"].usable[0]:  # its limits are those of a grid, nearly the range
            average = replace(average, low=low, high=high)
        return replace(
            look,
            range=(shown(low, date=date), shown(high, date=date)),
            limits=(low, high),
            found=not isinstance(column.fact, Bounds),
            mean=None if date else average,
            quantiles=drawn,
            intervals=intervals,
        )


def _estimates(answer: Answer) -> list[EstimateWithInterval]:
    lines = zip(answer.values, answer.lower, answer.upper, strict=True)
    return [EstimateWithInterval(value=value, low=low, high=high) for value, low, high in lines]
