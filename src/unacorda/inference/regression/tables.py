"""Rows of a table that an engine reads; their number is released first, then means.

Everything here uses the `Table` of a session, on which privacy depends alone. It clips summands to
stated lengths, adds noise for a stated share of its budget, and returns no row.
"""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any, Final, Protocol

import numpy as np

from unacorda.errors import InvalidParameter
from unacorda.inference.expressions import (
    EXPONENTIAL,
    PREDICTION,
    column,
    exponential_columns,
    literal,
)
from unacorda.inference.records import Floats
from unacorda.inference.regression.rows import (
    FAR,
    OCTAVES,
    Counts,
    Gradient,
    Matrix,
    OctaveCounts,
    Release,
    Released,
    RowBlock,
    Rows,
    Total,
    Value,
    bounded_back,
)
from unacorda.inference.sums import LEVEL, BudgetShares, Moment, edges, level_of, range_of, unpacked
from unacorda.mechanisms.contributions import SumRequest
from unacorda.privacy.guarantees import GDP


class Table(Protocol):
    """A table that answers noisy sums in order, with the deviation of the noise."""

    @property
    def features(self) -> Sequence[str]:
        """The caller's names of the features."""
        ...

    @property
    def bounds(self) -> Sequence[tuple[float, float]]:
        """Public ranges of the features, infinite if unknown."""
        ...

    @property
    def target_bounds(self) -> tuple[float, float]:
        """The public range of the target."""
        ...

    @property
    def weighted(self) -> bool:
        """True if rows have weights of their own, within [0, 1]: the column `weight`."""
        ...

    @property
    def repeated(self) -> int:
        """The largest number of rows of one unit."""
        ...

    @property
    def replaced(self) -> bool:
        """True if neighbors differ by a unit that is replaced; else it is added or removed."""
        ...

    @property
    def protects(self) -> str:
        """The privacy unit, in words."""
        ...

    def count(self, budget: GDP) -> tuple[float, float]:
        """The number of rows with all features and the target; others are not used."""
        ...

    def sums(
        self, columns: Sequence[Mapping[str, str]], wishes: Sequence[SumRequest]
    ) -> Sequence[tuple[Sequence[float], float]]:
        """Answer the requested sums in one scan.

        columns: expressions by name, over the features x0, x1, ..., the target y, the weight if
        there is one, and the names of earlier mappings.
        """
        ...

    def keep(self, columns: Sequence[Mapping[str, str]], names: Sequence[str]) -> Table:
        """The same rows with other columns, computed once if there is room for them.

        columns: as in `sums`; names: the columns to keep. This table must not be used again.
        """
        ...


def note_table(estimator: Any, table: Table) -> None:
    """Note the names of the features on an estimator; InvalidParameter for bits of its own."""
    if estimator.bits is not None:
        expected = "it left out: noise for tables is drawn with the bits of their session"
        raise InvalidParameter("bits", estimator.bits, expected=expected)
    estimator.n_features_in_ = len(table.features)
    estimator.feature_names_in_ = np.array(list(table.features), dtype=object)


_COUNTED: Final = Fraction(1, 1000)
"""Of mu^2, for the number of rows: its noise is some 30 / mu."""


@dataclass(slots=True, kw_only=True)
class TableSums(BudgetShares):
    """Means over the rows of a table.

    target: SQL of the target, from y. The number of rows is released, and after the first scan of
    weighted rows also the sum of the weights.
    """

    table: Table
    target: str = "y"
    _level_due: bool = field(init=False)

    def __post_init__(self) -> None:
        counted, self.number_error = self.table.count(self.paid(_COUNTED))
        self.number = max(counted, 1.0)
        self._level_due = self.table.weighted

    @property
    def own(self) -> str:
        """SQL of the weight of a row."""
        return "weight" if self.table.weighted else literal(1.0)

    def means(
        self, columns: Sequence[Mapping[str, str]], wishes: Sequence[SumRequest]
    ) -> list[tuple[Floats, float]]:
        """Noisy means in one scan, with the deviation of the noise of each number."""
        if self._level_due:
            level = SumRequest(
                vector=["weight"], value="1", bound=Fraction(1), budget=self.paid(LEVEL), total=True
            )
            *found, ((total,), noise) = self.table.sums(columns, [*wishes, level])
            self.number *= level_of(total / self.number, noise / self.number)
            self.number_error, self._level_due = noise, False
        else:
            found = list(self.table.sums(columns, wishes))
        return [(np.array(values) / self.number, noise / self.number) for values, noise in found]

    def paid(self, share: Fraction) -> GDP:
        """Takes a share of mu^2 out of the rest."""
        self.take(share)
        return self.budget * share

    def find_ranges(self, columns: Sequence[str], *, share: Fraction) -> list[tuple[float, float]]:
        """Ranges of columns without declared ones, paid from a share of mu^2."""
        ends = edges()
        wish = SumRequest(
            vector=list(columns),
            value=self.own,
            edges=ends.tolist(),
            bound=Fraction(1),
            budget=self.paid(share),
        )
        ((counts, deviation),) = self.means([], [wish])
        return [range_of(one, deviation) for one in counts.reshape(len(columns), len(ends) + 1)]


@dataclass(slots=True, kw_only=True)
class TableRows(Rows):
    """Rows of a table with columns of whitened features, their square and a target `t`.

    names: the columns of the features, whitened so far; square: that of |a|^2; pending: columns
    that are computed in each scan, until they are kept.
    """

    sums: TableSums
    names: list[str]
    pending: list[dict[str, str]] = field(default_factory=list)
    kept: int = 0
    square: str = "q"

    @classmethod
    def of(cls, sums: TableSums, *, lower: Floats, upper: Floats) -> TableRows:
        """Rows in half widths of public or released bounds."""
        centre, half, back = bounded_back(lower, upper)
        columns = {"t": f"({sums.target})"}
        for place, (middle, width) in enumerate(zip(centre, half, strict=True), start=1):
            scaled = (column(f"x{place - 1}") - middle) / width
            columns[f"u{place}"] = str(np.clip(scaled, -FAR, FAR))
        names = list(columns)[1:]
        own = ["weight"] if sums.table.weighted else []
        sums.table = sums.table.keep([columns], [*columns, *own])
        return cls(
            sums=sums,
            names=["1", *names],
            back=back,
            repeated=sums.table.repeated,
            replaced=sums.table.replaced,
            protects=sums.table.protects,
        )

    def feature_means(self, share: Fraction) -> Released:
        """Means of the features, each clipped to [-1, 1]."""
        longest = math.nextafter(math.sqrt(self.size - 1), math.inf)
        wish = SumRequest(
            vector=[str(np.clip(column(name), -1.0, 1.0)) for name in self.names[1:]],
            value=self.sums.own,
            bound=Fraction(longest),
            budget=self.sums.paid(share),
        )
        ((values, deviation),) = self.sums.means([], [wish])
        return Released(values=values, deviation=deviation)

    def feature_octaves(self, means: Floats, share: Fraction) -> tuple[Floats, Floats, float]:
        """Counts of |u - mean| by octaves."""
        ends = np.exp2(np.arange(OCTAVES[0], OCTAVES[1] + 1, 2, dtype=np.float64))
        wish = SumRequest(
            vector=[
                str(np.abs(column(name) - mean))
                for name, mean in zip(self.names[1:], means, strict=True)
            ],
            value=self.sums.own,
            edges=ends.tolist(),
            bound=Fraction(1),
            budget=self.sums.paid(share),
        )
        ((counts, deviation),) = self.sums.means([], [wish])
        shape = (self.size - 1, len(ends) + 1)
        return counts.reshape(shape) * self.number, ends, deviation * self.number

    def standardize(self, means: Floats, spread: Floats) -> None:
        """The rows become (1, (u - mean) / spread)."""
        root = np.diag(np.concatenate([[1.0], 1 / spread]))
        root[0, 1:] = -means / spread
        names = [f"s{place}" for place in range(1, self.size)]
        moved = {
            name: str((column(old) - mean) / width)
            for name, old, mean, width in zip(names, self.names[1:], means, spread, strict=True)
        }
        self._become(["1", *names], moved, root)

    def transform(self, root: Floats) -> None:
        """The rows become a @ root, and are kept if there is room."""
        self.kept += 1
        white = {
            f"z{self.kept}_{place}": " + ".join(
                f"{literal(one)} * {name}" for one, name in zip(way, self.names, strict=True)
            )
            for place, way in enumerate(root.T.tolist())
        }
        self._become(list(white), white, root)
        own = ["weight"] if self.sums.table.weighted else []
        self.sums.table = self.sums.table.keep(self.pending, [*white, self.square, "t", *own])
        self.pending = []

    def _become(self, names: list[str], columns: dict[str, str], root: Floats) -> None:
        square = " + ".join("1" if name == "1" else f"{name} * {name}" for name in names)
        self.square = f"q{self.kept}" if names[0] != "1" else "q"
        self.pending = [*self.pending, columns, {self.square: square}]
        self.names, self.back = names, self.back @ root

    def ask(self, *releases: Release, theta: Floats | None = None) -> list[Any]:
        """Answer in one scan, in their order."""
        wishes = [self._wish(release) for release in releases]
        columns: list[Mapping[str, str]] = list(self.pending)
        if theta is not None:
            parts = zip(theta.tolist(), self.names, strict=True)
            line = " + ".join(f"{literal(slope)} * {name}" for slope, name in parts)
            columns.append({PREDICTION: line})
        if any(EXPONENTIAL in text for wish in wishes for text in (wish.value, *wish.vector)):
            columns.extend(exponential_columns())
        found = self.sums.means(columns, wishes)
        return [self._read(one, *sums) for one, sums in zip(releases, found, strict=True)]

    def _wish(self, release: Release) -> SumRequest:
        text, budget = self._text(release.of), self.sums.paid(release.share)
        match release:
            case OctaveCounts(edges=ends):
                return SumRequest(
                    vector=[text],
                    value=self.sums.own,
                    edges=ends.tolist(),
                    bound=Fraction(1),
                    budget=budget,
                )
            case Total(bound=bound):
                return SumRequest(
                    vector=[text], value="1", bound=Fraction(bound), budget=budget, total=True
                )
            case Gradient(bound=bound):
                return SumRequest(
                    vector=self.names, value=text, bound=Fraction(bound), budget=budget
                )
            case Matrix(bound=bound, signed=signed):
                return SumRequest(
                    vector=self.names,
                    value=text,
                    bound=Fraction(bound),
                    budget=budget,
                    squared=True,
                    signed=signed,
                )

    def _read(self, release: Release, values: Floats, deviation: float) -> Any:
        match release:
            case OctaveCounts(edges=ends):
                return Counts(
                    edges=ends, counts=values * self.number, deviation=deviation * self.number
                )
            case Total():
                return float(values[0]), deviation
            case Gradient():
                return Released(values=values, deviation=deviation)
            case Matrix():
                return Moment(matrix=unpacked(values, self.size), deviation=deviation)

    def _text(self, value: Value) -> str:
        row = RowBlock(
            prediction=column(PREDICTION),
            target=column("t"),
            square=column(self.square),
            own=column(self.sums.own),
        )
        return str(value(row))
