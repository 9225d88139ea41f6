"""Errors of a finished synthetic table, measured on the data with noise.

The error of a table of counts is its total variation distance: half the sum of the differences
between its counts and the true ones, over the number of rows. It is measured on the finished rows.
So it is unbiased for any earlier selection and fit, and includes the rounding to rows.
"""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from statistics import NormalDist
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from unacorda import checks, display
from unacorda.checks import Number
from unacorda.errors import InvalidParameter
from unacorda.extras import require
from unacorda.mechanisms.additive.real import Gaussian
from unacorda.synthesis.charges import CountNoise
from unacorda.synthesis.domain import Domain
from unacorda.synthesis.junction_tree import Columns
from unacorda.synthesis.rows import Codes
from unacorda.synthesis.tables import CodedRows, PrivateTables

if TYPE_CHECKING:
    import pandas

_CONFIDENCE: Final = 0.95
_SHOWN: Final = 20


@dataclass(frozen=True, slots=True, kw_only=True)
class TableError:
    """The error of one table, in total variation (0: equal, 1: no row in common).

    columns: names, () for the mean of all tables; error: unbiased, so noise can make it negative;
    lower, upper: a confidence interval, clamped to [0, 1].
    """

    columns: tuple[str, ...]
    error: float
    lower: float
    upper: float

    @property
    def percents(self) -> tuple[str, str, str]:
        """Error and ends of the interval as text, with the digits that the interval leaves.

        >>> TableError(columns=(), error=0.00089, lower=0.00087, upper=0.00091).percents
        ('0.089%', '0.087%', '0.091%')
        """
        width = max(self.upper - self.lower, 1e-6)
        digits = max(2, -math.floor(math.log10(width)) - 2)
        return (
            f"{self.error:z.{digits}%}",
            f"{self.lower:.{digits}%}",
            f"{self.upper:.{digits}%}",
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class MeasuredErrors:
    """The measured errors of a synthetic table, for the tables of the workload.

    Attributes
    ----------
    tables
        The error of each table. It has `columns`, `error` in total variation, `lower` and `upper`.
    mean
        The mean error of all tables, in the same form.
    confidence
        The confidence of each interval.

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
    ...     errors = session.evaluate(synthesis, budget=unacorda.ZCDP(1)).errors
    >>> round(errors.of("smoker", "active").upper, 3), errors.confidence
    (0.008, 0.95)
    """

    tables: tuple[TableError, ...]
    mean: TableError
    confidence: float

    def of(self, *names: str) -> TableError:
        """Return the error of one table of the workload.

        Parameters
        ----------
        *names
            Its columns, in any order.

        Returns
        -------
        TableError
            The error with its interval.

        Raises
        ------
        InvalidParameter
            For columns that are no table of the workload.
        """
        for table in self.tables:
            if set(table.columns) == set(names):
                return table
        known = "; ".join(" and ".join(table.columns) for table in self.tables[:_SHOWN])
        more = "; ..." if len(self.tables) > _SHOWN else ""
        expected = f"the columns of a table of the workload: {known}{more}"
        raise InvalidParameter("names", names, expected=expected)

    def to_dicts(self) -> list[dict[str, Any]]:
        """Return one dictionary for each table, after one for the mean of all.

        Returns
        -------
        list of dict
            The columns of the table as one text, the error and its interval.
        """
        return [
            {"table": " × ".join(one.columns), "error": one.error}
            | {"lower": one.lower, "upper": one.upper}
            for one in (self.mean, *self.tables)
        ]

    def to_pandas(self) -> pandas.DataFrame:
        """Return a pandas data frame with one row for each table (extra `frames`).

        Returns
        -------
        pandas.DataFrame
            Indexed by the columns of the tables as one text.

        Raises
        ------
        MissingExtra
            Without pandas.
        """
        frame: pandas.DataFrame = require("pandas", extra="frames").DataFrame(self.to_dicts())
        return frame.set_index("table")

    def _repr_html_(self) -> str:
        worst = sorted(self.tables, key=lambda one: (-one.error, one.columns))
        lines = [("mean of all", self.mean), *((" × ".join(one.columns), one) for one in worst)]
        rows = [
            [name, one.percents[0], " to ".join(one.percents[1:])]
            for name, one in lines[: 1 + _SHOWN]
        ]
        more = len(lines) - 1 - _SHOWN
        note = f"<p>... and {more:,} tables with smaller errors.</p>" if more > 0 else ""
        return display.table(["table", "error", f"{self.confidence:.0%} interval"], rows) + note


def measure_errors(
    private: PrivateTables,
    rows: Codes,
    *,
    domain: Domain,
    tables: Sequence[Columns],
    count: float,
    amount: Fraction,
    confidence: Number = _CONFIDENCE,
) -> MeasuredErrors:
    """Measure the errors of rows, all at once.

    Parameters
    ----------
    private
        The data.
    rows
        The synthetic rows, public. If their number differs from the data's, their counts are scaled
        to it and rounded.
    domain, tables
        The columns, and which tables.
    count
        The public number of rows of the data, at least 1.
    amount
        What it costs.
    confidence
        Of each interval. An interval is exact for the noise of its table. That of the mean is at
        least as wide as the normal one, and as that of a single table over the root of their
        number.

    Source: docs/proofs/synthesis.md, section 5.
    """
    synthetic = CodedRows(rows, sizes=domain.sizes)
    each = max(count, 1.0) / max(len(rows), 1)  # rows of the data for one that was drawn
    if len(rows) == round(max(count, 1.0)):
        each = 1.0
    scaled = [np.rint(synthetic.counts(columns) * each).astype(np.int64) for columns in tables]
    public = list(zip(tables, scaled, strict=True))
    noisy, noise = private.distances(public, amount=amount)
    level = checks.exact("confidence", confidence)
    scale = 2 * max(count, 1.0)
    half = half_width(noise, level)
    mean_half = mean_half_width(noise, level, tables=len(tables))
    found = tuple(
        _error(tuple(domain.names[a] for a in columns), distance / scale, half / scale)
        for (columns, _), distance in zip(public, noisy, strict=True)
    )
    mean = sum(noisy) / len(noisy)
    return MeasuredErrors(
        tables=found, mean=_error((), mean / scale, mean_half / scale), confidence=float(level)
    )


def half_width(noise: CountNoise, level: Fraction) -> float:
    """Of the interval of one distance with this noise."""
    if isinstance(noise, Gaussian):
        return noise.error_bound(level, on_grid=True)
    return noise.error_bound(level)


def mean_half_width(noise: CountNoise, level: Fraction, *, tables: int) -> float:
    """Of the interval of the mean distance of several tables, each with this noise."""
    normal = NormalDist().inv_cdf((1 + float(level)) / 2) * noise.standard_deviation
    return float(max(half_width(noise, level), normal) / math.sqrt(tables))


def _error(names: tuple[str, ...], error: float, half: float) -> TableError:
    def clamp(value: float) -> float:
        return min(max(value, 0.0), 1.0)

    values: dict[str, Any] = {"lower": clamp(error - half), "upper": clamp(error + half)}
    return TableError(columns=names, error=error, **values)
