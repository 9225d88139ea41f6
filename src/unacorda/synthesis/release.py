"""Synthetic tables: rows that look like those of a table, with a measured error for its tables.

What is protected is the privacy unit of the data; a row of the result is a row of a table, not a
person, and rows of one person do not belong together. Whatever is computed of a released synthetic
table is postprocessing. Estimates from its rows do not count the noise: their intervals are too
narrow.
"""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

import dataclasses
import datetime as dt
import json
import zlib
from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING, Any, Final

import numpy as np
from numpy.typing import NDArray

from unacorda import display
from unacorda.bits import RandomBits, SeededBits, source_of
from unacorda.errors import InvalidParameter
from unacorda.extras import require
from unacorda.mechanisms.parameters import whole
from unacorda.privacy.events import Event, from_json
from unacorda.privacy.events.promises import Pure
from unacorda.privacy.guarantees import Guarantee
from unacorda.privacy.neighbors import Neighbors, ReplaceOne
from unacorda.synthesis.charges import shares_within
from unacorda.synthesis.domain import BinnedColumn
from unacorda.synthesis.junction_tree import Columns
from unacorda.synthesis.measured_errors import MeasuredErrors, measure_errors
from unacorda.synthesis.measurements import Measurements, places_of
from unacorda.synthesis.model import MarginalModel, NoisyMarginal
from unacorda.synthesis.model_counts import ModelCounts
from unacorda.synthesis.plan import MOST_ROWS, Condition, SynthesisPlan, check_condition
from unacorda.synthesis.records import (
    codes_from,
    encode_codes,
    encode_errors,
    encode_marginals,
    encode_plan,
    encode_tables,
    errors_from,
    finite_from,
    marginals_from,
    plan_from,
    rounds_from,
    tables_from,
)
from unacorda.synthesis.rounds import Rounds, RoundSummary, Watch
from unacorda.synthesis.rows import Codes, draw_rows, generator_from
from unacorda.synthesis.sensitivity import CountSensitivity
from unacorda.synthesis.tables import CountTables, PrivateTables

if TYPE_CHECKING:
    import pandas
    import polars
    import pyarrow

_VERSION: Final = 1
_SHOWN: Final = 10

_PROTECTS: Final = (
    "Protects {unit}: whether its rows, at most {rows:,}, are in the data or {change} changes the "
    "law of this release by no more than {budget} allows."
)
_ROWS: Final = (
    "The rows are drawn from a model of noisy counts: none is a row of the data, none is a person, "
    "and rows of one person do not belong together."
)
_FITS: Final = (
    "Estimates from the rows do not count the noise, so that their intervals are too narrow; "
    "`measured` gives counts, proportions and means with intervals that do."
)
_SEEDED: Final = "The noise came from a seed: this release protects no one."


@dataclass(frozen=True, slots=True, kw_only=True, eq=False, repr=False)
class SyntheticTable:
    """A released synthetic table, with its model and measured errors.

    Attributes
    ----------
    plan
        The public decisions: columns, cells and workload.
    model
        The distribution, fitted to `marginals`.
    marginals
        The noisy counts that were measured, by columns.
    codes
        The rows, as positions of cells.
    row_count
        The noisy number of rows of the data.
    errors
        The measured errors of the rows; None if `plan.report` is 0.
    rounds
        What each round measured.
    event
        The privacy event of the whole release: its most possible cost.
    steps
        The privacy events of the single releases. Each depended on earlier answers, so only a
        privacy filter may add them up.
    provenance
        What is protected, and how the rows may be used, as sentences.
    reproducible
        Whether the noise came from a seed, and so protects no one.

    Examples
    --------
    >>> import pandas
    >>> import unacorda
    >>> people = pandas.DataFrame({"id": range(600), "smoker": [True, False, False] * 200})
    >>> people["active"] = [True, False] * 300
    >>> unit, bits = unacorda.Person("id", max_rows=1), unacorda.SeededBits(1)
    >>> with unacorda.Session(
    ...     {"people": people}, unit=unit, budget=unacorda.ZCDP(1), bits=bits
    ... ) as session:
    ...     synthesis = session.table("people").synthesize(["smoker", "active"], workload=2)
    ...     synthetic = session.evaluate(synthesis, budget=unacorda.ZCDP(1))
    >>> synthetic
    SyntheticTable(599 rows of smoker, active; mean error 0.0025, 0.0000 to 0.0077)
    >>> print(synthetic.measured.proportion({"smoker": True}))
    0.3337 (0.3308 to 0.3366)
    """

    plan: SynthesisPlan
    model: MarginalModel
    marginals: Mapping[Columns, NoisyMarginal]
    codes: Codes
    row_count: float
    errors: MeasuredErrors | None
    rounds: tuple[RoundSummary, ...]
    event: Event
    steps: Event
    provenance: tuple[str, ...] = ()
    reproducible: bool = False

    def __repr__(self) -> str:
        names = ", ".join(self.plan.domain.names)
        error = ""
        if self.errors is not None:
            mean = self.errors.mean
            error = f"; mean error {mean.error:.4f}, {mean.lower:.4f} to {mean.upper:.4f}"
        return f"SyntheticTable({len(self.codes):,} rows of {names}{error})"

    def _repr_html_(self) -> str:
        shown = self.columns(self.codes[:_SHOWN])
        rows = zip(*(map(_shown, values.tolist()) for values in shown.values()), strict=True)
        error = "" if self.errors is None else f", mean error {self.errors.mean.error:.2%}"
        notes = [f"{len(self.codes):,} synthetic rows{error}.", *self.provenance]
        return display.table(list(shown), rows) + "".join(map(display.paragraph, notes))

    def table(self, *names: str) -> ModelCounts:
        """Return the counts of the model over some columns, with the measured counts.

        Parameters
        ----------
        *names
            The columns, in the order of the axes.

        Returns
        -------
        ModelCounts
            The counts.

        Raises
        ------
        InvalidParameter
            For unknown columns, the same column twice, and tables of more than `plan.max_cells`
            cells.
        """
        columns = places_of(self.plan, names)
        order = [columns.index(self.plan.domain.names.index(name)) for name in names]
        seen = self.measured.counts(columns)
        return ModelCounts(
            names=names,
            labels=tuple(self.plan.domain.columns[columns[place]].labels for place in order),
            counts=(self.model.marginal(columns) * self.row_count).transpose(order),
            measured=None if seen is None else seen.counts.transpose(order),
            standard_error=None if seen is None else seen.standard_error,
        )

    @property
    def measured(self) -> Measurements:
        """Counts, proportions and means of the data, with intervals that include the noise."""
        laplace = isinstance(self.event, Pure)
        return Measurements(plan=self.plan, marginals=self.marginals, laplace=laplace)

    def columns(self, codes: Codes | None = None, *, seed: int = 0) -> dict[str, NDArray[Any]]:
        """Return the released rows by column.

        Parameters
        ----------
        codes
            Other rows of the model, as positions of cells. The default are the released rows.
        seed
            The seed from which numbers are drawn within their bins.

        Returns
        -------
        dict
            By column, an array of labels or of numbers.
        """
        rows = self.codes if codes is None else codes
        generator = generator_from(SeededBits(seed))
        return {
            column.name: column.decode(rows[:, place], generator=generator)
            for place, column in enumerate(self.plan.domain.columns)
        }

    def sample(
        self, count: int, *, where: Condition | None = None, seed: int = 0
    ) -> dict[str, NDArray[Any]]:
        """Sample further rows of the model. They cost nothing.

        The measured errors are not those of these rows.

        Parameters
        ----------
        count
            The number of rows, from 0 to 2^24.
        where
            A condition that all rows meet, by column one label or several.
        seed
            The same seed gives the same rows.

        Returns
        -------
        dict
            By column, an array of labels or of numbers.

        Raises
        ------
        InvalidParameter
            For a count out of its range, unknown columns or labels, and a condition of probability
            0.
        """
        whole("count", count, least=0, most=MOST_ROWS)
        model = self.model
        if where is not None:
            check_condition("where", where)
            met = self.plan.meeting(where)
            try:
                model = model.where(met)
            except InvalidParameter:
                expected = "a condition that some cells can meet"
                raise InvalidParameter("where", dict(where), expected=expected) from None
        drawn = draw_rows(model, count, generator=generator_from(SeededBits(seed)))
        return self.columns(drawn, seed=seed)

    def to_pandas(self) -> pandas.DataFrame:
        """Return the released rows as a pandas data frame (extra `frames`).

        Columns of whole numbers with missing values have the type Int64.

        Returns
        -------
        pandas.DataFrame
            One row for each synthetic row.

        Raises
        ------
        MissingExtra
            Without pandas.
        """
        library, found = require("pandas", extra="frames"), self.columns()
        for column in self.plan.domain.columns:
            if isinstance(column, BinnedColumn) and column.whole and column.missing:
                kind, values = column.plain(found[column.name])
                if kind is int:
                    found[column.name] = library.array(values, dtype="Int64")
        frame: pandas.DataFrame = library.DataFrame(found)
        return frame

    def to_arrow(self) -> pyarrow.Table:
        """Return the released rows as an Arrow table (extra `frames`).

        Labels of several types, such as numbers and "other", become text.

        Returns
        -------
        pyarrow.Table
            Its schema has the provenance as metadata.

        Raises
        ------
        MissingExtra
            Without pyarrow.
        """
        arrow, found = require("pyarrow", extra="frames"), {}
        types = {
            bool: arrow.bool_(),
            int: arrow.int64(),
            float: arrow.float64(),
            dt.date: arrow.date32(),
            str: arrow.string(),
        }
        columns = self.columns()
        for column in self.plan.domain.columns:
            kind, values = column.plain(columns[column.name])
            found[column.name] = arrow.array(values, type=types[kind])
        table: pyarrow.Table = arrow.table(found)
        return table.replace_schema_metadata({"provenance": "\n".join(self.provenance)})

    def to_polars(self) -> polars.DataFrame:
        """Return the released rows as a polars data frame (extra `frames`).

        Returns
        -------
        polars.DataFrame
            With the types of `to_arrow`.

        Raises
        ------
        MissingExtra
            Without polars.
        """
        frame: polars.DataFrame = require("polars", extra="frames").from_arrow(self.to_arrow())
        return frame

    def to_json(self) -> str:
        """Write all that was released as JSON text.

        Returns
        -------
        str
            The plan, the measured counts, the model, the rows and the errors.
        """
        return json.dumps(
            {
                "synthetic_table": _VERSION,
                "plan": encode_plan(self.plan),
                "marginals": encode_marginals(self.marginals),
                "potentials": encode_tables(self.model.potentials),
                "rows": encode_codes(self.codes),
                "row_count": self.row_count,
                "errors": encode_errors(self.errors),
                "rounds": [dataclasses.asdict(one) for one in self.rounds],
                "event": self.event.to_json(),
                "steps": self.steps.to_json(),
                "provenance": list(self.provenance),
                "reproducible": self.reproducible,
            },
            allow_nan=False,
        )

    @staticmethod
    def from_json(text: str) -> SyntheticTable:
        """Read a synthetic table from the text that `to_json` wrote.

        Parameters
        ----------
        text
            JSON text.

        Returns
        -------
        SyntheticTable
            The same table.

        Raises
        ------
        InvalidParameter
            For any other text.
        """
        try:
            stated = json.loads(text)
            plan = plan_from({_VERSION: stated["plan"]}[stated["synthetic_table"]])
            potentials = tables_from(stated["potentials"], plan)
            return SyntheticTable(
                plan=plan,
                model=MarginalModel(plan.domain.sizes, potentials, possible=plan.possible()),
                marginals=marginals_from(stated["marginals"], plan),
                codes=codes_from(stated["rows"], plan),
                row_count=finite_from(stated["row_count"]),
                errors=errors_from(stated["errors"]),
                rounds=rounds_from(stated["rounds"]),
                event=from_json(stated["event"]),
                steps=from_json(stated["steps"]),
                provenance=tuple(map(str, stated["provenance"])),
                reproducible=bool(stated["reproducible"]),
            )
        except (
            ValueError,
            TypeError,
            KeyError,
            IndexError,
            AttributeError,
            OverflowError,
            RecursionError,
            zlib.error,
        ):
            expected = "the JSON text of a synthetic table, as to_json() writes it"
            raise InvalidParameter("text", None, expected=expected) from None


def _shown(value: Any) -> str:
    if value is None or value != value:  # noqa: PLR0124 - NaN
        return "NULL"
    return f"{value:.6g}" if isinstance(value, float) else str(value)


def synthesize(
    source: CountTables,
    plan: SynthesisPlan,
    *,
    budget: Guarantee,
    rows_per_unit: int,
    neighbors: Neighbors,
    unit: str = "a unit",
    promise: Guarantee | None = None,
    bits: RandomBits | None = None,
    watch: Watch | None = None,
) -> SyntheticTable:
    """Synthesize a table within a budget.

    Parameters
    ----------
    source
        Exact counts of the data, of which each unit has at most `rows_per_unit` rows.
    plan
        The public decisions.
    budget
        PureDP, ApproxDP, ZCDP, GDP or RenyiDP; all of it is spent.
    rows_per_unit
        The bound that the data keep.
    neighbors
        The neighboring relation.
    unit
        What a unit is, in words for `provenance`.
    promise
        What is promised of all that was spent, earlier releases of these data included; by default
        the budget.
    bits
        Where noise comes from, `SecureBits()` by default.
    watch
        Called after each round with what it did, which is released already.

    Raises InvalidParameter for a source whose columns are not those of the plan, and a budget of
    0. Source: docs/proofs/synthesis.md.

    >>> import unacorda
    >>> from unacorda.synthesis.domain import CategoryColumn, Domain
    >>> from unacorda.synthesis.tables import CodedRows
    >>> color = CategoryColumn(name="color", values=("red", "blue"), other=None)
    >>> shape = CategoryColumn(name="shape", values=("round", "square"), other=None)
    >>> plan = SynthesisPlan(domain=Domain(columns=(color, shape)), workload=2)
    >>> synthetic = synthesize(
    ...     CodedRows([[0, 0]] * 300 + [[1, 1]] * 100, sizes=(2, 2)),
    ...     plan,
    ...     budget=unacorda.ZCDP(0.5),
    ...     rows_per_unit=1,
    ...     neighbors=unacorda.AddRemove,
    ...     bits=SeededBits(1),
    ... )
    >>> synthetic.table("color", "shape").counts.round(-1).tolist()
    [[300.0, 0.0], [0.0, 100.0]]
    >>> sorted(set(synthetic.sample(50, where={"color": "red"})["color"].tolist()))
    ['red']
    """
    sizes = plan.domain.sizes
    if tuple(source.sizes) != sizes:
        expected = f"counts over columns of {sizes} cells, as the plan has"
        raise InvalidParameter("source", tuple(source.sizes), expected=expected)
    drawn = source_of(bits)
    shares = shares_within(budget)
    private = PrivateTables(
        source,
        sensitivity=CountSensitivity(rows=rows_per_unit, neighbors=neighbors),
        shares=shares,
        bits=drawn,
    )
    generator = generator_from(drawn)
    report = Fraction(plan.report) * shares.total
    rounds = Rounds(private, plan, amount=shares.total - report, generator=generator, watch=watch)
    rounds.run()
    count = min(round(rounds.rows), MOST_ROWS) if plan.rows is None else plan.rows
    codes = draw_rows(rounds.model, count, generator=generator)
    errors = None
    if report:
        errors = measure_errors(
            private,
            codes,
            domain=plan.domain,
            tables=plan.tables,
            count=rounds.rows,
            amount=report,
        )
    return SyntheticTable(
        plan=plan,
        model=rounds.model,
        marginals=rounds.marginals,
        codes=np.ascontiguousarray(codes),
        row_count=rounds.rows,
        errors=errors,
        rounds=tuple(rounds.summaries),
        event=shares.event,
        steps=private.steps,
        provenance=(
            _PROTECTS.format(
                unit=unit,
                rows=rows_per_unit,
                change="replaced by others" if neighbors is ReplaceOne else "left out",
                budget=budget if promise is None else promise,
            ),
            _ROWS,
            _FITS,
            *([] if drawn.secure else [_SEEDED]),
        ),
        reproducible=not drawn.secure,
    )
