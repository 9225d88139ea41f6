"""Counts of a graphical model over some columns, next to those that were measured."""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

import itertools
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from unacorda import display
from unacorda.extras import require
from unacorda.synthesis.domain import Scalar
from unacorda.synthesis.junction_tree import Floats

if TYPE_CHECKING:
    import pandas


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class ModelCounts:
    """The counts of a synthetic table's model over some columns, with the measured counts.

    Attributes
    ----------
    names
        The columns.
    labels
        By column, the labels of its cells.
    counts
        The counts of the model, with an axis for each column.
    measured
        The best linear unbiased estimate of the data's counts from all measured tables, of the same
        shape. None if no measured table has all of the columns.
    standard_error
        The standard error of each cell of `measured`. The model is often closer to the data, but
        biased if its form is wrong.

    Examples
    --------
    >>> import pandas
    >>> import unacorda
    >>> people = pandas.DataFrame({"id": range(600), "smoker": [True, False, False] * 200})
    >>> unit, bits = unacorda.Person("id", max_rows=1), unacorda.SeededBits(1)
    >>> with unacorda.Session(
    ...     {"people": people}, unit=unit, budget=unacorda.ZCDP(1), bits=bits
    ... ) as session:
    ...     synthesis = session.table("people").synthesize(["smoker"], workload=1)
    ...     synthetic = session.evaluate(synthesis, budget=unacorda.ZCDP(1))
    >>> counts = synthetic.table("smoker")
    >>> counts.labels, counts.counts.round().tolist()
    (((False, True, None),), [399.0, 200.0, 1.0])
    """

    names: tuple[str, ...]
    labels: tuple[tuple[Scalar, ...], ...]
    counts: Floats
    measured: Floats | None
    standard_error: float | None

    def to_dicts(self) -> list[dict[str, Any]]:
        """Return one dictionary for each cell.

        Returns
        -------
        list of dict
            The labels, `count`, `measured` and `standard_error`.
        """
        lines = itertools.product(*self.labels)
        seen = (
            [None] * self.counts.size if self.measured is None else self.measured.ravel().tolist()
        )
        return [
            dict(zip(self.names, line, strict=True))
            | {"count": count, "measured": measured, "standard_error": self.standard_error}
            for line, count, measured in zip(lines, self.counts.ravel().tolist(), seen, strict=True)
        ]

    def to_pandas(self) -> pandas.DataFrame:
        """Return a pandas data frame with one row for each cell (extra `frames`).

        Returns
        -------
        pandas.DataFrame
            The columns of `to_dicts`.

        Raises
        ------
        MissingExtra
            Without pandas.
        """
        library = require("pandas", extra="frames")
        frame: pandas.DataFrame = library.DataFrame(self.to_dicts())
        return frame.astype({"measured": "float64", "standard_error": "float64"})

    def _repr_html_(self) -> str:
        heads = [*self.names, "model", "measured"]
        rows = []
        for line in self.to_dicts()[:_SHOWN]:
            seen = "" if line["measured"] is None else f"{line['measured']:,.0f}"
            rows.append([*(line[name] for name in self.names), f"{line['count']:,.0f}", seen])
        more = self.counts.size - _SHOWN
        said = [f"... and {more:,} more cells."] if more > 0 else []
        if self.standard_error is not None:
            said.append(f"Standard error of each measured count: {self.standard_error:,.3g}.")
        return display.table(heads, rows) + "".join(map(display.paragraph, said))


_SHOWN = 30
