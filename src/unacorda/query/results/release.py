"""Releases of a question or a batch: estimates, their errors, and the budget spent."""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

import datetime as dt
import itertools
import json
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Final, NoReturn

from unacorda import checks
from unacorda.display import NOTHING, aligned, escape, estimate, heading, number, paragraph, table
from unacorda.errors import InvalidParameter
from unacorda.extras import require
from unacorda.ledger.ledger import Ledger
from unacorda.privacy.events import Event
from unacorda.privacy.guarantees import Guarantee, left_of
from unacorda.query.aggregates.base import IMPRECISE, Answer
from unacorda.query.aggregates.row_counts import KeptRows
from unacorda.query.expressions.errors import RELEASE, unknown_attribute
from unacorda.query.plan.codec import encode
from unacorda.query.plan.query import BatchPosition, Query, place_of
from unacorda.query.results.record import FORMAT, SEVERAL, Verification, software, verify_record
from unacorda.query.results.words import FoundKeys, converted_columns, filtered_in_words, kept_rows
from unacorda.query.schema.keys import Key

if TYPE_CHECKING:
    import pandas
    import polars
    import pyarrow


_SHOWN_ROWS = 60
_LEGEND = {
    IMPRECISE: "the 95% interval is wider than the value",
    NOTHING: "with this noise every possible value fits; spend more, or ask about more rows",
}


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class Release:
    """A private answer. Everything in it may be published.

    A release has one row for each key. It is a sequence of dictionaries, `release["name"]` is a
    column as a list, and `str(release)` is a table.

    Attributes
    ----------
    query
        The question.
    groups
        Names of the group columns.
    keys
        One tuple per row, in the order in which they were listed.
    answers
        By name, values with standard errors and 95% intervals, in the units of the question. They
        are computed from the released values and public numbers alone.
    computed
        The answers that a SELECT computes from others, with their expressions.
    request
        The budget that was offered.
    charge
        What the account was debited.
    remaining, budget
        What the account had left afterwards, and its whole budget.
    event
        The privacy event, for any accountant.
    provenance
        How the answers were computed, sentence by sentence.
    salt
        The salt of the pseudo-random choice of a person's rows.
    reproducible
        Whether the noise came from a seed, and so protects no one.
    batch
        The position in a batch; charge and event are then those of the whole batch.
    found
        How likely private keys are to appear; None if all keys were public.
    readings
        Notes on values that are clamped, and on answers without an interval or with an interval for
        something else.
    kept
        The share of rows that contribution bounding kept, if it was measured.

    Examples
    --------
    >>> import pandas
    >>> import unacorda
    >>> visits = pandas.DataFrame({"id": [1, 2, 3], "age": [30, 41, 62]})
    >>> with unacorda.Session(
    ...     {"visits": visits}, unit=unacorda.Person("id", max_rows=1), budget=unacorda.PureDP(1)
    ... ) as session:
    ...     release = session.sql("SELECT COUNT(*) AS n FROM visits", budget=unacorda.PureDP(1))
    >>> release.columns, release.remaining
    (('n', 'n_se', 'n_low', 'n_high'), PureDP(epsilon=0.0))
    """

    query: Query
    groups: tuple[str, ...]
    keys: tuple[tuple[Key, ...], ...]
    answers: Mapping[str, Answer]
    request: Guarantee
    charge: Guarantee
    remaining: Guarantee
    budget: Guarantee
    event: Event
    provenance: tuple[str, ...]
    salt: str
    reproducible: bool = False
    computed: Mapping[str, str] = field(default_factory=dict)
    batch: BatchPosition | None = None
    found: FoundKeys | None = None
    readings: tuple[str, ...] = ()
    kept: KeptRows | None = None

    @property
    def columns(self) -> tuple[str, ...]:
        """Names of the columns of the table, errors included."""
        return tuple(self._table())

    def __getitem__(self, name: str | int) -> Any:
        """One column as a list, by its name; or one row as a dictionary, by its number."""
        if isinstance(name, int):
            return self.to_dicts()[name]
        columns = self._table()
        expected = f"the number of a row, or one of the columns {', '.join(columns)}"
        checks.demand(name in columns, "name", name, expected=expected)
        return list(columns[name])

    def __len__(self) -> int:
        return len(self.keys)

    def __bool__(self) -> bool:
        return True  # also where no private key was found

    def __iter__(self) -> Iterator[dict[str, Any]]:
        return iter(self.to_dicts())

    def scalar(self) -> Any:
        """The number of a release with one row and one answer.

        Returns
        -------
        number
            As released, and not clamped.

        Raises
        ------
        InvalidParameter
            If there are several rows or several answers.
        """
        one = len(self) == 1 and len(self.answers) == 1
        held = f"{len(self):,} rows of {', '.join(self.answers)}"
        expected = 'one row with one answer: write release["name"], or .to_dicts()'
        checks.demand(one, "scalar", held, expected=expected)
        (answer,) = self.answers.values()
        return answer.values[0]

    if not TYPE_CHECKING:  # a checker of types is to know which attributes there are

        def __getattr__(self, name: str) -> NoReturn:
            raise unknown_attribute("A release", name, RELEASE, dir(type(self)))

    def clamped(self) -> Release:
        """Clamp impossible values: counts to at least 0, means to their bounds.

        It is postprocessing and costs nothing. It brings each number closer to the truth, but
        averages of many clamped numbers are biased; those of the released values are not. Every
        value lies in its interval, and no interval shrinks to a point.

        Returns
        -------
        Release
            The release with clamped values.
        """
        clamped = {name: answer.clamped() for name, answer in self.answers.items()}
        return replace(self, answers=clamped)

    def labels(self, name: str) -> dict[str, Sequence[Any]]:
        """List what distinguishes the rows of an answer within a group: bins, values.

        Parameters
        ----------
        name
            The answer's name.

        Returns
        -------
        dict
            By column, such as `name_from` and `name_to`, one entry per row.
        """
        beside = self.answers[name].beside
        if self.query.lines == 1 and "value" not in beside:
            return {}
        return {f"{name}_{end}": list(column) for end, column in beside.items()}

    def to_dicts(self) -> list[dict[str, Any]]:
        """List one dictionary per row.

        It has the group columns, then for each aggregate the value `name`, its standard error
        `name_se` and its interval `name_low`, `name_high` (None where there is none). A sum without
        bounds also has `name_from` and `name_to`, the levels that were found to clamp each person's
        total.
        """
        table = self._table()
        return [dict(zip(table, row, strict=True)) for row in zip(*table.values(), strict=True)]

    def to_pandas(self) -> pandas.DataFrame:
        """Make a pandas data frame (extra `frames`), with the columns of `to_dicts`."""
        frame: pandas.DataFrame = require("pandas", extra="frames").DataFrame(self._table())
        # Floats also where all are missing.
        return frame.astype(dict.fromkeys(self._error_columns(), "float64"))

    def to_polars(self) -> polars.DataFrame:
        """Make a polars data frame (extra `frames`), with the columns of `to_dicts`."""
        library = require("polars", extra="frames")
        floats = dict.fromkeys(self._error_columns(), library.Float64)
        frame: polars.DataFrame = library.DataFrame(
            self._table(), strict=False, schema_overrides=floats
        )
        return frame

    def to_arrow(self) -> pyarrow.Table:
        """Make an Arrow table (extra `frames`), with the columns of `to_dicts`."""
        arrow = require("pyarrow", extra="frames")
        table: pyarrow.Table = arrow.table(self._table())
        return table

    def plot(self, name: str | None = None, *, axes: Any = None) -> Any:
        """Draws one answer with its 95% intervals, by group; returns axes (extra `plots`).

        Values are those of `clamped`.

        Parameters
        ----------
        name
            The answer's name, needed if there are several.
        axes
            To draw on, such as those of `unacorda.plots.new_axes(size=(8, 5), dpi=200)`.

        Returns
        -------
        matplotlib.axes.Axes
            With the picture.

        Raises
        ------
        InvalidParameter
            For an unknown name.
        MissingExtra
            Without matplotlib.
        """
        expected = f"the name of one answer: {', '.join(self.answers)}"
        chosen = next(iter(self.answers)) if name is None and len(self.answers) == 1 else name
        checks.demand(chosen in self.answers, "name", name, expected=expected)
        columns = {**self._groups(), **self.labels(str(chosen))}
        return draw(str(chosen), self.answers[str(chosen)].clamped(), columns, axes=axes)

    def to_json(self) -> str:
        """The rows with everything that describes them, as JSON text.

        Arithmetic in a SELECT can give numbers that are not finite; JSON has none, so they are
        null. The text suffices to rebuild the question and to compute its price again: see
        `Release.verify`. Only its rows depend on the data.
        """
        batch = self.batch
        return json.dumps(
            {
                "format": FORMAT,
                "rows": [{name: _finite(v) for name, v in row.items()} for row in self.to_dicts()],
                "request": repr(self.request),
                "spent": repr(self.charge),
                "remaining": repr(self.remaining),
                "exact": {"request": encode(self.request), "charge": encode(self.charge)},
                "event": json.loads(self.event.to_json()),
                "query": self.query.to_dict(),
                "digest": self.query.digest() if batch is None else batch.together.digest(),
                "batch": None if batch is None else batch.to_dict(),
                "salt": self.salt,
                "reproducible": self.reproducible,
                "computed": dict(self.computed),
                "kept": None if self.kept is None else self.kept.to_dict(),
                "software": software(),
                "provenance": list(self.provenance),
            },
            default=str,
            indent=2,
        )

    @staticmethod
    def verify(
        text: str | None = None, *, ledger: Ledger | None = None, dataset: str | None = None
    ) -> Verification:
        """Compute question, event and price again from a record, without the data.

        It also reads records by `Batch.to_json` and `Description.to_json`. See
        `unacorda.query.results.record`.

        Parameters
        ----------
        text
            What `to_json` wrote.
        ledger, dataset
            The ledger and the account that were debited, to compare with their entries.

        Returns
        -------
        Verification
            One line per check, and whether all hold.

        Raises
        ------
        InvalidParameter
            Without a text, since what is verified is a record and not a release in memory; and for
            a text that is no record.
        """
        if text is None:
            expected = "the text of a record: unacorda.Release.verify(release.to_json())"
            raise InvalidParameter("text", None, expected=expected)
        return verify_record(text, ledger=ledger, dataset=dataset)

    def __repr__(self) -> str:
        return f"{self.shown()}\n{self._spent}"

    @property
    def _spent(self) -> str:
        others = "" if self.batch is None else f" for {len(self.batch.together.names)} questions"
        return f"spent {self.charge}{others}; {left_of(self.remaining, self.budget)}"

    def shown(self) -> str:
        """The table alone, as text: values as `clamped` gives them."""
        cells = [list(map(escape, self.heads)), *self.cells(_SHOWN_ROWS)]
        return "\n".join([*aligned(cells), *self._notes])

    def shown_html(self) -> str:
        """The table alone, as HTML: values as `clamped` gives them."""
        return table(self.heads, self.cells(_SHOWN_ROWS)) + "".join(map(paragraph, self._notes))

    def _repr_html_(self) -> str:
        return self.shown_html() + paragraph(self._spent)

    @property
    def heads(self) -> list[str]:
        """The columns as they are shown: groups, what lines are of, answers."""
        lines = ((*self.labels(name), name) for name in self.answers)
        return [*self.groups, *itertools.chain.from_iterable(lines)]

    def cells(self, most: int | None = None) -> list[list[str]]:
        """Show rows in the digits that their intervals leave.

        Parameters
        ----------
        most
            The most rows to show; None for all.

        Returns
        -------
        list
            A list of texts per row.
        """
        columns = list(self._groups().values())
        for name, answer in self.answers.items():
            columns += [*self.labels(name).values(), _estimates(answer)]
        rows = itertools.islice(zip(*columns, strict=True), most)
        return [[escape(number(cell)) for cell in row] for row in rows]

    @property
    def _notes(self) -> list[str]:
        """What stands below the table, a legend of its marks included."""
        more = len(self) - _SHOWN_ROWS
        lines = [f"... and {more:,} more rows"] if more > 0 else []
        lines += map(escape, filtered_in_words(self.query))
        return [*lines, *self.legend, *map(escape, self.readings), *self._totals]

    @property
    def legend(self) -> list[str]:
        """The meaning of the marks in a table of clamped answers."""
        shown = [answer.clamped() for answer in self.answers.values()]
        marks = {
            IMPRECISE: any(mark.strip() for one in shown for mark in one.marks),
            NOTHING: not all(usable for one in shown for usable in one.usable),
        }
        lines = [f"{mark}: {_LEGEND[mark]}" for mark, there in marks.items() if there]
        if marks[NOTHING] and (columns := converted_columns(self.query)):
            lines[-1] += (
                f". Texts of {escape(', '.join(columns))} that are no plain values, such as '1,5' "
                "among numbers, count as missing"
            )
        return lines

    @property
    def about(self) -> str:
        """Which rows the exact answers are about, if contribution bounds can drop some.

        Such as " on the kept rows (at most 20 per id)"; empty otherwise.
        """
        return kept_rows(self.query)

    @property
    def _totals(self) -> list[str]:
        parts = (self.found, self.kept)
        about = [f"Answers are those{self.about}"] * bool(self.about)
        return [*about, *(part.sentence for part in parts if part is not None)]

    def _error_columns(self) -> list[str]:
        return [f"{name}{end}" for name in self.answers for end in ("_se", "_low", "_high")]

    def _groups(self) -> dict[str, Sequence[Any]]:
        return {name: [key[place] for key in self.keys] for place, name in enumerate(self.groups)}

    def _table(self) -> dict[str, Sequence[Any]]:
        table = self._groups()
        for name, answer in self.answers.items():
            table[name] = list(answer.values)
            table[f"{name}_se"] = list(answer.standard_errors)
            table[f"{name}_low"] = list(answer.lower)
            table[f"{name}_high"] = list(answer.upper)
            table |= {f"{name}_{end}": list(column) for end, column in answer.beside.items()}
        return table


def _estimates(answer: Answer) -> list[str]:
    """The values of a column as text, possible ones, with their intervals."""
    shown = answer.clamped()
    lines = zip(shown.values, shown.lower, shown.upper, strict=True)
    cells = [
        f"{number(low)} to {number(high)}" if answer.is_range else estimate(value, low, high)
        for value, low, high in lines
    ]
    ends = zip(cells, shown.marks, shown.usable, strict=True)
    return [f"{cell if usable else NOTHING}{mark}" for cell, mark, usable in ends]


def _finite(value: Any) -> Any:
    return None if isinstance(value, float) and not math.isfinite(value) else value


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class Batch:
    """The releases of several questions that were evaluated together.

    `batch["name"]` and `batch[0]` give one release. Iterating gives all of them.

    Attributes
    ----------
    names
        The names of the questions. For a list of questions they are '0', '1', ....
    releases
        The releases, in the same order.

    Examples
    --------
    >>> import pandas
    >>> import unacorda
    >>> visits = pandas.DataFrame({"id": range(200), "age": [20 + i % 60 for i in range(200)]})
    >>> unit, bits = unacorda.Person("id", max_rows=1), unacorda.SeededBits(1)
    >>> with unacorda.Session(
    ...     {"visits": visits}, unit=unit, budget=unacorda.PureDP(2), bits=bits
    ... ) as session:
    ...     rows = session.table("visits")
    ...     questions = {
    ...         "all": rows.agg(n=unacorda.count()),
    ...         "young": rows.where("age < 30").agg(n=unacorda.count()),
    ...     }
    ...     batch = session.evaluate(questions, budget=unacorda.PureDP(1))
    >>> batch.names, batch.charge, batch.remaining
    (('all', 'young'), PureDP(epsilon=1.0), PureDP(epsilon=1.0))
    >>> batch["all"]["n"], batch["young"]["n"]
    ([204], [39])
    """

    names: tuple[str, ...]
    releases: tuple[Release, ...]

    @property
    def request(self) -> Guarantee:
        """The budget that was offered for all questions."""
        return self.releases[0].request

    @property
    def charge(self) -> Guarantee:
        """What the account was charged for all questions together. Every release states it."""
        return self.releases[0].charge

    @property
    def remaining(self) -> Guarantee:
        """What the account had left afterwards."""
        return self.releases[0].remaining

    @property
    def event(self) -> Event:
        """The privacy event of the whole batch, for an accountant."""
        return self.releases[0].event

    def __getitem__(self, name: str | int) -> Release:
        return self.releases[place_of(name, self.names)]

    def __iter__(self) -> Iterator[Release]:
        return iter(self.releases)

    def __len__(self) -> int:
        return len(self.releases)

    def to_json(self) -> str:
        """Write all releases as JSON text, which `Release.verify` reads.

        Returns
        -------
        str
            JSON text, with the releases by name and what was spent.
        """
        return json.dumps(
            {
                "format": SEVERAL,
                "request": repr(self.request),
                "spent": repr(self.charge),
                "remaining": repr(self.remaining),
                "exact": {"spent": encode(self.charge)},
                "releases": {
                    name: json.loads(release.to_json())
                    for name, release in zip(self.names, self.releases, strict=True)
                },
            },
            indent=2,
        )

    def __repr__(self) -> str:
        tables = [
            f"{name}\n{release.shown()}"
            for name, release in zip(self.names, self.releases, strict=True)
        ]
        return "\n\n".join([*tables, self._spent])

    @property
    def _spent(self) -> str:
        left = left_of(self.remaining, self.releases[0].budget)
        return f"spent {self.charge} for all; {left}"

    def _repr_html_(self) -> str:
        tables = [
            heading(name) + release.shown_html()
            for name, release in zip(self.names, self.releases, strict=True)
        ]
        return "".join([*tables, paragraph(self._spent)])


# ---- pictures of releases ------------------------------------------------------------------------

_MOST_LINES: Final = 60
_MOST_SERIES: Final = 6
"""As many as there are colors."""


def draw(name: str, answer: Answer, columns: dict[str, Sequence[Any]], *, axes: Any = None) -> Any:
    """Draws an answer by the columns that say what its lines are of.

    A column of few values becomes series in colors, if there is another. The rest are dates or
    numbers along an axis, or else one line per group: bars for what is at least 0 and has no upper
    limit, such as counts, and points for others.
    """
    from unacorda import plots

    expected = "a release with rows: no private key was found"
    checks.demand(answer.values, "release", "no rows", expected=expected)
    low, high = answer.limits
    usable = answer.usable
    kept = [value if fine else None for value, fine in zip(answer.values, usable, strict=True)]
    numbers = [
        [math.nan if one is None else float(one) for one in line]
        for line in (kept, answer.lower, answer.upper)
    ]
    series = _series(columns)
    along = {title: column for title, column in columns.items() if title != series}
    colored = None if series is None else list(map(number, columns[series]))
    if len(along) == 1 and _is_ordered(next(iter(along.values()))):
        ((title, places),) = along.items()
        axes = plots.errors_over(places, *numbers, series=colored, axes=axes)
        axes.set(xlabel=title, ylabel=name)
    else:
        lines = list(zip(*along.values(), strict=True)) if along else [(name,)] * len(kept)
        names = [", ".join(map(number, line)) for line in lines]
        if colored is None:
            names = [
                one if fine else f"{one} ({NOTHING})"
                for one, fine in zip(names, usable, strict=True)
            ]
        shown = dict.fromkeys(names)
        most = set(list(shown)[:_MOST_LINES])
        chosen = [place for place, one in enumerate(names) if one in most]
        numbers = [[line[place] for place in chosen] for line in numbers]
        axes = plots.errors(
            [names[place] for place in chosen],
            *numbers,
            series=None if colored is None else [colored[place] for place in chosen],
            bars=low == 0 and high == math.inf,
            axes=axes,
        )
        axes.set(xlabel=name, ylabel=", ".join(along))
        if len(shown) > _MOST_LINES:
            axes.set_ylabel(f"{', '.join(along)}: the first {_MOST_LINES} of {len(shown):,}")
    if series is not None:
        axes.legend(title=series)
    by = f" by {', '.join(columns)}" if columns else ""
    axes.set_title(f"{name}{by}, with 95% intervals", fontsize=10)
    return axes


def _series(columns: dict[str, Sequence[Any]]) -> str | None:
    """The column that becomes colors: that of the fewest values, the last of them."""
    if len(columns) < 2:
        return None
    sizes = {title: len(set(column)) for title, column in columns.items()}
    fewest = min(sizes.values())
    if fewest > _MOST_SERIES:
        return None
    return [title for title, size in sizes.items() if size == fewest][-1]


def _is_ordered(column: Sequence[Any]) -> bool:
    """Whether all are dates, or all are finite numbers, and they are two or more."""
    kinds: tuple[type, ...]
    for kinds in ((dt.date,), (int, float)):
        if all(isinstance(one, kinds) and not isinstance(one, bool) for one in column):
            finite = all(not isinstance(one, float) or math.isfinite(one) for one in column)
            return finite and len(set(column)) > 1
    return False
