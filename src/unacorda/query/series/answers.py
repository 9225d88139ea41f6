"""What is said of a series: its errors before any data, and its answers with their errors."""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

import functools
import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from unacorda.accounting.charges import charge
from unacorda.checks import demand
from unacorda.display import aligned, heading, number, paragraph, table
from unacorda.extras import require
from unacorda.ledger.ledger import Ledger
from unacorda.over_time.bounds import SlidingWindow, Wanted
from unacorda.over_time.encoders import HORIZON
from unacorda.privacy.guarantees import Guarantee
from unacorda.query.plan.codec import rows_of
from unacorda.query.plan.query import Query
from unacorda.query.schema.units import Person, Row, Unit
from unacorda.query.series.plan import KEPT, ROWS, Floats, SeriesPlan, column_of

if TYPE_CHECKING:
    import pandas


_Z: Final = 1.959964
_SHOWN: Final = 8
_LATE: Final = 30
"""The last steps of which the share of rows kept is shown."""


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class SeriesForecast:
    """The cost and the expected errors of a series, computed from public numbers alone.

    `print` shows it as text.

    Attributes
    ----------
    plan
        The question and its steps.
    cost
        What the account is charged when the series is opened.
    errors
        Standard errors by aggregate and by kind of sum, one number for each step. A series without
        an end has those of its first steps.
    kept_errors
        Standard errors of the numbers of rows and of rows kept, at the last step. Empty if no
        budget is spent on the share of rows kept.

    Examples
    --------
    >>> import pandas
    >>> import unacorda
    >>> visits = pandas.DataFrame({"id": [1, 2], "seen": ["2026-01-01", "2026-01-02"]})
    >>> unit = unacorda.Person("id", max_rows=1)
    >>> with unacorda.Session({"visits": visits}, unit=unit, budget=unacorda.ZCDP(1)) as session:
    ...     forecast = session.explain_over_time(
    ...         session.table("visits").agg(n=unacorda.count()),
    ...         by="seen",
    ...         start="2026-01-01",
    ...         steps=10,
    ...         person=unacorda.OverTime(max_steps=1),
    ...         budget=unacorda.ZCDP(1),
    ...     )
    >>> forecast.cost
    ZCDP(rho=1.0)
    >>> forecast.errors["n"]["total"].round(2).tolist()[:3]
    [0.88, 1.0, 1.07]
    """

    plan: SeriesPlan
    cost: Guarantee
    errors: Mapping[str, Mapping[str, Floats]]
    kept_errors: Mapping[str, float]

    @staticmethod
    def of(plan: SeriesPlan, account: Guarantee) -> SeriesForecast:
        """The forecast of a plan, with what it costs in an account; reads no data."""
        steps = plan.steps or HORIZON
        return SeriesForecast(
            plan=plan,
            cost=charge(plan.event, plan.budget, account),
            errors={
                name: {column_of(kind): plan.errors(name, kind, steps) for kind in plan.wanted}
                for name in plan.query.aggregates
            },
            kept_errors={
                name: float(noise.standard_errors("totals", steps)[-1])
                for name, noise in plan.kept_noises.items()
            },
        )

    def __str__(self) -> str:
        plan = self.plan
        end = "without an end" if plan.steps is None else f"{plan.steps:,} steps"
        who = "each person once, at their first row"
        if not isinstance(plan.query.unit, Person):
            who = "every row"
        elif plan.person is not None:
            who = f"of each person {plan.person}, for good"
        lost = "by how much is not known"
        if self.kept_errors:
            lost = (
                f"by how much is estimated for {plan.kept} of the budget, from all rows, known to "
                f"{number(self.kept_errors[ROWS])} in the end, and those that count, known to "
                f"{number(self.kept_errors[KEPT])}"
            )
        every, first_step = plan.calendar.every, plan.calendar.label(0)
        lines = [
            f"a {every} a step from {first_step} on, {end}; costs {self.cost}, once",
            f"counts {who}: what comes later is dropped, and {lost}",
            f"noise: normal, correlated over {plan.encoder.bands:,} steps",
        ]
        for name, kinds in self.errors.items():
            for kind, found in kinds.items():
                first, last, mean = found[0], found[-1], math.sqrt(float(np.mean(found**2)))
                lines.append(
                    f"{name} {kind}: standard error {number(float(first))} in the first step, "
                    f"{number(float(last))} in the last, {number(mean)} on average"
                )
        lines.append(
            f"promised by you: rows are only added, and {plan.by} is when a row became visible; "
            "it, the id and what decides whether a row counts never change"
        )
        return "\n".join(lines)

    __repr__ = __str__

    def _repr_html_(self) -> str:
        return "".join(map(paragraph, str(self).splitlines()))


@dataclass(frozen=True, kw_only=True, repr=False)  # without slots, so that columns are made once
class SeriesAnswers:
    """The answers of a series so far.

    `answers["n_total"]` is one column, with a value for each step and key. Everything in it may be
    published. Earlier answers never change.

    Attributes
    ----------
    name
        The name of the series.
    plan
        The question and its steps.
    released
        The noisy numbers of each step, as the ledger has them.

    Examples
    --------
    >>> import tempfile
    >>> import pandas
    >>> import unacorda
    >>> visits = pandas.DataFrame({"id": range(200), "seen": ["2026-01-01", "2026-01-02"] * 100})
    >>> unit = unacorda.Person("id", max_rows=1)
    >>> with (
    ...     tempfile.TemporaryDirectory() as folder,
    ...     unacorda.Session(
    ...         {"visits": visits},
    ...         unit=unit,
    ...         budget=unacorda.ZCDP(1),
    ...         dataset="visits",
    ...         ledger=f"sqlite:///{folder}/budget.db",
    ...     ) as session,
    ... ):
    ...     series = session.over_time(
    ...         session.table("visits").agg(n=unacorda.count()),
    ...         name="visits by day",
    ...         by="seen",
    ...         start="2026-01-01",
    ...         steps=2,
    ...         person=unacorda.OverTime(max_steps=1),
    ...         budget=unacorda.ZCDP(1),
    ...     )
    ...     answers = series.answer_until("2026-01-02")
    >>> answers.columns
    ('day', 'n_total', 'n_total_se')
    >>> [str(line["day"]) for line in answers]
    ['2026-01-01', '2026-01-02']
    >>> abs(answers["n_total"][1] - 200) < 30
    True
    """

    name: str
    plan: SeriesPlan
    released: tuple[str, ...]

    @functools.cached_property
    def _columns(self) -> dict[str, list[Any]]:
        plan, steps = self.plan, len(self.released)
        keys = plan.query.released_keys
        found: dict[str, list[Any]] = {
            plan.calendar.every: [day for day in self._days for _ in keys]
        }
        for place, group in enumerate(plan.query.released_groups):
            found[group] = [key[place] for _ in range(steps) for key in keys]
        for name in plan.query.aggregates:
            for kind in plan.wanted:
                values = plan.values(name, kind, self.released)
                errors = plan.errors(name, kind, steps) if steps else ()
                column = f"{name}_{column_of(kind)}"
                found[column] = [value for line in values for value in line]
                found[f"{column}_se"] = [float(error) for error in errors for _ in keys]
        return found

    @property
    def _days(self) -> list[Any]:
        return [self.plan.calendar.label(step) for step in range(len(self.released))]

    @property
    def columns(self) -> tuple[str, ...]:
        """The names of the columns, errors included."""
        return tuple(self._columns)

    def __getitem__(self, name: str) -> list[Any]:
        expected = f"one of the columns {', '.join(self._columns)}"
        demand(name in self._columns, "name", name, expected=expected)
        return list(self._columns[name])

    def __len__(self) -> int:
        return len(self.released) * len(self.plan.query.released_keys)

    def __bool__(self) -> bool:
        return True

    def __iter__(self) -> Iterator[dict[str, Any]]:
        return iter(self.to_dicts())

    def to_dicts(self) -> list[dict[str, Any]]:
        """Return one dictionary for each step and key, in order.

        Returns
        -------
        list of dict
            The step, the key, the values and their standard errors.
        """
        columns = self._columns
        return [dict(zip(columns, row, strict=True)) for row in zip(*columns.values(), strict=True)]

    def to_pandas(self) -> pandas.DataFrame:
        """Return the answers as a pandas data frame (extra `frames`).

        Returns
        -------
        pandas.DataFrame
            One row for each step and key.

        Raises
        ------
        MissingExtra
            Without pandas.
        """
        frame: pandas.DataFrame = require("pandas", extra="frames").DataFrame(self._columns)
        return frame

    def kept(self, kind: Wanted = "totals") -> list[dict[str, Any]]:
        """Estimate the share of rows that the contribution bounds keep.

        Source: Fieller 1954, Journal of the Royal Statistical Society B 16.

        Parameters
        ----------
        kind
            Which steps count: 'totals', 'steps' or `unacorda.window(30)`, one of those that the
            series was opened with as `wanted`.

        Returns
        -------
        list of dict
            One for each step. `rows` is the number of all rows; in a step, at most as many of a
            person as may count there. `kept` is the number of those that count. Both have standard
            errors. `share` is their ratio; `lower` and `upper` are its 95% interval of the noise.

        Raises
        ------
        InvalidParameter
            If the series was opened without `kept=`.
        """
        expected = "a series that was opened with kept=, a share of its budget such as 0.05"
        demand(self.plan.kept is not None, "kept", None, expected=expected)
        if not self.released:
            return []
        noises, steps = self.plan.kept_noises, len(self.released)
        rows, kept = (self.plan.kept_sums(name, kind, self.released) for name in (ROWS, KEPT))
        errors, own = (noises[name].standard_errors(kind, steps) for name in (ROWS, KEPT))
        share, lower, upper = _shares(kept, own, rows, errors)
        return [
            {
                self.plan.calendar.every: day,
                "rows": round(rows[step]),
                "rows_se": float(errors[step]),
                "kept": round(kept[step]),
                "kept_se": float(own[step]),
                "share": float(share[step]),
                "lower": float(lower[step]),
                "upper": float(upper[step]),
            }
            for step, day in enumerate(self._days)
        ]

    @property
    def _kept_line(self) -> str:
        """The share of rows kept in words; empty where it was not asked."""
        if self.plan.kept is None or not self.released:
            return ""
        kinds: list[tuple[str, Wanted]] = [("so far", "totals")]
        if len(self.released) > _LATE:
            kinds.append((f"in the last {_LATE} steps", SlidingWindow(_LATE)))
        said = []
        for when, kind in kinds:
            last = self.kept(kind)[-1]
            low, high = (
                math.floor(1_000 * last["lower"]) / 10,
                math.ceil(1_000 * last["upper"]) / 10,
            )
            said.append(f"{100 * last['share']:.3g}% {when} ({low:g} to {high:g}%)")
        return f"rows kept by the bound: {', '.join(said)}"

    def plot(self, kind: Wanted = "totals", name: str | None = None, *, axes: Any = None) -> Any:
        """Draw sums of one kind with 95% bands, a line for each key (extra `plots`).

        Parameters
        ----------
        kind
            'totals', 'steps' or `unacorda.window(28)`, one of those that the series was opened
            with.
        name
            The aggregate. It may be left out if there is one.
        axes
            The axes to draw on, such as `unacorda.plots.new_axes()`. New ones by default.

        Returns
        -------
        Axes
            The axes.

        Raises
        ------
        InvalidParameter
            For a kind or a name that the series does not have.
        MissingExtra
            Without matplotlib.
        """
        from unacorda import plots

        names, plan = tuple(self.plan.query.aggregates), self.plan
        chosen = names[0] if name is None and len(names) == 1 else name
        demand(chosen in names, "name", name, expected=f"one of {', '.join(names)}")
        expected = f"one of {', '.join(map(repr, map(_argument, plan.wanted)))}, which were asked"
        demand(kind in plan.wanted, "kind", kind, expected=expected)
        keys, column = plan.query.released_keys, f"{chosen}_{column_of(kind)}"
        values = np.array(self._columns[column], dtype=np.float64).reshape(-1, len(keys))
        half = _Z * np.array(self._columns[f"{column}_se"]).reshape(-1, len(keys))
        lines = {
            ", ".join(map(number, key)) or str(chosen): place for place, key in enumerate(keys)
        }
        curves = {
            key: (values[:, at], values[:, at] - half[:, at], values[:, at] + half[:, at])
            for key, at in lines.items()
        }
        return plots.answers_over_time(self._days, curves, ylabel=column, axes=axes)

    def _lines(self) -> tuple[list[str], list[list[str]]]:
        """The last lines as text."""
        heads = [name for name in self._columns if not name.endswith("_se")]
        found = []
        for line in self.to_dicts()[-_SHOWN:]:
            cells = []
            for name in heads:
                error = line.get(f"{name}_se")
                said = "" if error is None else f" ± {number(_Z * error)}"
                cells.append(f"{number(line[name])}{said}")
            found.append(cells)
        return heads, found

    @property
    def _legend(self) -> list[str]:
        kept = self._kept_line
        return ["± ends of 95% intervals of the noise", *([kept] if kept else [])]

    def __repr__(self) -> str:
        heads, lines = self._lines()
        texts = [line.rstrip() for line in aligned([heads, *lines], left=len(heads))]
        more = len(self) - len(lines)
        above = [f"... {more:,} lines before"] if more else []
        return "\n".join([texts[0], *above, *texts[1:], *self._legend])

    def _repr_html_(self) -> str:
        heads, lines = self._lines()
        legend = "".join(map(paragraph, self._legend))
        return heading(self.name) + table(heads, lines) + legend


def read_answers(ledger: Ledger, dataset: str, name: str) -> SeriesAnswers:
    """All answers of a series so far, of the ledger alone; InvalidParameter where there is none."""
    record, account = ledger.series(dataset, name), ledger.account(dataset)
    demand(record is not None, "name", name, expected=f"a series of account {dataset!r}")
    assert record is not None
    terms: Mapping[str, Any] = dict(account.terms)

    def rows_stated(stated: Mapping[str, Any]) -> Query:
        unit: Unit = Row()
        if terms.get("unit") == "person":
            ids = terms["id"]
            if not isinstance(ids[0], str):  # by table
                (ids,) = (own for table, *own in ids if table == stated["table"])
            unit = Person(tuple(ids), max_rows=1)
        return Query(rows=rows_of(stated, unit), unit=unit)

    plan = SeriesPlan.read(record.definition, rows_stated)
    return SeriesAnswers(name=name, plan=plan, released=record.steps)


def _argument(wanted: Wanted) -> str:
    """A kind of sum as a caller writes it."""
    return f"window({wanted.width})" if isinstance(wanted, SlidingWindow) else wanted


def _shares(
    part: Floats, part_error: Floats, whole: Floats, whole_error: Floats
) -> tuple[Floats, Floats, Floats]:
    """Shares of noisy parts in noisy wholes, and the ends of their intervals, within [0, 1].

    All s with (part - s whole)^2 <= z^2 (part_error^2 + s^2 whole_error^2); open where the whole
    may be 0.
    """
    square = whole**2 - (_Z * whole_error) ** 2
    last = part**2 - (_Z * part_error) ** 2
    known = (square > 0) & (whole > 0)
    divisor = np.where(known, square, 1.0)
    middle = part * whole / divisor
    half = np.sqrt(np.maximum(middle**2 - last / divisor, 0.0))
    lower = np.where(known, np.clip(middle - half, 0.0, 1.0), 0.0)
    upper = np.where(known, np.clip(middle + half, 0.0, 1.0), 1.0)
    share = np.where(known, np.clip(part / np.where(known, whole, 1.0), 0.0, 1.0), np.nan)
    return share, lower, upper
