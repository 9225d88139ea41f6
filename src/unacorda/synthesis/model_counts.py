"""Counts of a graphical model over some columns, next to those that were measured."""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

import itertools
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from unacorda.extras import require
from unacorda.synthesis.domain import Scalar
from unacorda.synthesis.frames import html_table
from unacorda.synthesis.junction_tree import Floats

if TYPE_CHECKING:
    import pandas

__all__ = ["ModelCounts"]


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class ModelCounts:
    """The counts of a synthetic table's model over some columns.

    Parameters
    ----------
    names
        Of the columns.
    labels
        Of the cells, by column.
    counts
        Of the model, an axis for each column.
    measured
        The best linear unbiased estimate of the data's counts from all measured tables, of the same
        shape; None where no measured table holds the columns.
    standard_error
        Of each cell of `measured`; it is not that of the model, which is nearer to the truth where
        its form is right, and biased where it is wrong.
    """

    names: tuple[str, ...]
    labels: tuple[tuple[Scalar, ...], ...]
    counts: Floats
    measured: Floats | None
    standard_error: float | None

    def to_dicts(self) -> list[dict[str, Any]]:
        """One dictionary per cell: its labels, `count`, `measured` and `standard_error`."""
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
        """A pandas data frame, one row per cell (extra `frames`)."""
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
        return html_table(heads, rows) + "".join(f"<p>{line}</p>" for line in said)


_SHOWN = 30
