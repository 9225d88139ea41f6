"""People in a table that an engine reads: how many there are is released first, then means.

Everything here asks a `Table`, which is all that privacy rests on.
"""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from fractions import Fraction
from typing import Any, Final

import numpy as np

from unacorda.inference.designs import FAR, Scaling, radius_of, root_of
from unacorda.inference.loss_texts import EXPONENTIAL, cut_text, exponential, number
from unacorda.inference.noisy_sums import LEAST_MEAN, LEVEL, Moment, level_of, unpacked
from unacorda.inference.records import Floats
from unacorda.inference.row_values import Matrix, RowsAre, RowValue, Vector
from unacorda.inference.tables import Table, Wish, note_table
from unacorda.mechanisms.additive.real import Gaussian
from unacorda.privacy import events
from unacorda.privacy.guarantees import GDP

__all__ = ["TablePeople", "TableSums", "open_table"]

_COUNTED: Final = Fraction(1, 1000)
"""Of mu^2, for the number of rows: its noise is some 30 / mu."""

_WEIGHED: Final = Fraction(1, 1000)
"""Of mu^2, for the sum of all weights, which the scale of residuals is told by."""


_BESIDE: Final = Fraction(1031, 1000)
"""At least sqrt(17 / 16)."""


@dataclass(slots=True, kw_only=True)
class TableSums:
    """Means over the rows of a table, each paid from its share of mu^2.

    target: an expression of y. After the first scan of rows with weights of their own, rows is the
    sum of these, as released, and rows_error the deviation of the noise in it.
    """

    table: Table
    budget: GDP
    target: str = "y"
    left: Fraction = Fraction(1)
    effective: float = field(init=False)
    """How many people with one row each would be hidden by as much noise, at the least."""
    rows: float = field(init=False)
    rows_error: float = field(init=False)
    _level_due: bool = field(init=False)
    _said: list[events.Event] = field(default_factory=list, init=False)

    def __post_init__(self) -> None:
        counted, self.rows_error = self.table.count(self.paid(_COUNTED))
        self.rows = max(counted, 1.0)
        self.effective = max(self.rows - 2 * self.rows_error, 1.0) / self.table.repeated
        self._level_due = self.table.weighted

    @property
    def rows_are(self) -> RowsAre:
        """Released, but in a rehearsal, whose number of rows has no noise."""
        return "released" if self.rows_error > 0 else "made up"

    @property
    def spent(self) -> Fraction:
        """Of mu^2, what a fit spends beside what it does with arrays without weights."""
        return _COUNTED + _WEIGHED + (LEVEL if self.table.weighted else 0)

    @property
    def event(self) -> events.Event:
        """What has been released so far."""
        return events.compose(self._said)

    def means(
        self, columns: Sequence[Mapping[str, str]], wishes: Sequence[Wish]
    ) -> list[tuple[Floats, float]]:
        """Noisy means in one scan, with the deviation of the noise of each number."""
        if self._level_due:
            level = Wish(vector=["weight"], value="1", bound=Fraction(1), budget=self.paid(LEVEL))
            *found, ((total,), noise) = self.table.sums(columns, [*wishes, level])
            self.rows *= level_of(total / self.rows, noise / self.rows)
            self.rows_error, self._level_due = noise, False
        else:
            found = list(self.table.sums(columns, wishes))
        return [(np.array(values) / self.rows, noise / self.rows) for values, noise in found]

    def paid(self, share: Fraction) -> GDP:
        """Take a share of mu^2 out of what is left."""
        if not 0 < share <= self.left:
            raise AssertionError("a share of the budget that is not there")
        self.left -= share
        paid = self.budget * share
        self._said.append(Gaussian.for_guarantee(paid, l2_sensitivity=1).event)
        return paid

    @property
    def least_mean_weight(self) -> float:
        """1, or of weights of their own a public guess: about the least with much use."""
        return LEAST_MEAN if self.table.weighted else 1.0

    def target_mean(self, *, most: float, share: Fraction) -> tuple[float, float]:
        """The noisy mean of the target, which is cut to [0, most], and its noise."""
        wish = Wish(vector=["t"], value=self._own, bound=Fraction(most), budget=self.paid(share))
        columns = [{"t": cut_text(f"({self.target})", 0, most)}]
        ((values, noise),) = self.means(columns, [wish])
        return float(values[0]), noise

    def whitened(self, scales: Scaling, *, share: Fraction) -> TablePeople:
        """The people, their features whitened by a released second moment.

        Source: docs/proofs/regression.md, section 2.
        """
        size = scales.size
        radius = radius_of(size)
        scaled = {"t": f"({self.target})"}
        for place, (centre, factor) in enumerate(zip(scales.centre, scales.factor, strict=True)):
            moved = f"(x{place} - {number(centre)}) * {number(factor)}"
            scaled[f"s{place + 1}"] = cut_text(moved, -FAR, FAR)
        row = ["1", *(f"s{place}" for place in range(1, size))]
        own = ["weight"] if self.table.weighted else []
        self.table = self.table.keep([scaled], [*scaled, *own])
        wish = Wish(
            vector=row,
            value=self._weight(row, radius),
            bound=radius**2,
            budget=self.paid(share),
            squared=True,
        )
        ((numbers, noise),) = self.means([], [wish])
        root = root_of(Moment(matrix=unpacked(numbers, size), deviation=noise))
        white = {
            f"z{place}": " + ".join(f"{number(a)} * {x}" for a, x in zip(way, row, strict=True))
            for place, way in enumerate(root.T.tolist())
        }
        names = list(white)
        weighted = [white, {"w": self._weight(names, radius)}]
        self.table = self.table.keep(weighted, [*names, "w", "t"])
        return TablePeople(
            sums=self,
            names=names,
            radius=radius,
            back=scales.back() @ root,
        )

    @property
    def _own(self) -> str:
        """What a row counts by itself."""
        return "weight" if self.table.weighted else "1"

    def _weight(self, row: Sequence[str], radius: Fraction) -> str:
        """What a row counts by itself times min(1, r^2 / |row|^2)."""
        square = " + ".join("1" if name == "1" else f"{name} * {name}" for name in row)
        whole = number(float(radius**2))
        cut = f"{whole} / greatest({square}, {whole})"
        return f"weight * ({cut})" if self.table.weighted else cut


@dataclass(slots=True, kw_only=True)
class TablePeople:
    """Rows of a table with whitened features z0, z1, ..., a weight w and a target t.

    unit: in which scores and curvatures are told the target.
    """

    sums: TableSums
    names: Sequence[str]
    radius: Fraction
    back: Floats
    unit: float = 1.0
    _weights: float | None = None

    @property
    def size(self) -> int:
        """How many parameters there are."""
        return len(self.names)

    @property
    def rows(self) -> float:
        """How many rows there are, or the sum of their weights, released."""
        return self.sums.rows

    @property
    def rows_error(self) -> float:
        """The deviation of the noise in it."""
        return self.sums.rows_error

    @property
    def repeated(self) -> int:
        """How many rows one person has at most."""
        return self.sums.table.repeated

    @property
    def protects(self) -> str:
        """Whom the noise hides."""
        return self.sums.table.protects

    @property
    def event(self) -> events.Event:
        """What has been released so far."""
        return self.sums.event

    def scaled(self, unit: float) -> TablePeople:
        """The same with a target in this released unit."""
        return replace(self, unit=unit)

    def ask(
        self, theta: Floats, *, vectors: Sequence[Vector] = (), matrices: Sequence[Matrix] = ()
    ) -> tuple[list[tuple[Floats, float]], list[Moment]]:
        """Noisy means at these coefficients, in one scan."""
        values = [one.of for one in vectors] + [one.of for one in matrices]
        columns = {f"v{place}": f"w * ({self._text(one)})" for place, one in enumerate(values)}
        wishes = [
            self._wish(f"v{place}", self.radius * Fraction(one.of.bound), one.share)
            for place, one in enumerate(vectors)
        ]
        for place, one in enumerate(matrices, start=len(vectors)):
            value = f"v{place} * v{place}" if one.squared else f"v{place}"
            bound = self.radius**2 * one.trace_bound
            wishes.append(self._wish(value, bound, one.share, squared=True, signed=one.signed))
        found = self.sums.means([*self._predicted(theta, columns.values()), columns], wishes)
        moments = [
            Moment(matrix=unpacked(numbers, self.size), deviation=noise)
            for numbers, noise in found[len(vectors) :]
        ]
        return found[: len(vectors)], moments

    def residuals(
        self, theta: Floats, sigma: float, *, tuning: float, kappa: float, share: Fraction
    ) -> tuple[Floats, float, float]:
        """Noisy means of w a psi and of w (psi^2 - kappa), and the noise of each of the former.

        Source: docs/proofs/regression.md, section 7.
        """
        half, free = tuning**2 / 2, float(self.radius) / (2 * tuning)
        psi = cut_text(f"(t - p) / {number(sigma)}", -tuning, tuning)
        columns = [
            *self._predicted(theta, [psi]),
            {"psi": psi},
            {"u": "w * psi", "v": f"{number(free)} * w * (psi * psi - {number(half)})"},
        ]
        bound = self.radius * Fraction(tuning) * _BESIDE
        vector = [*(f"u * {name}" for name in self.names), "v"]
        wishes = [self._wish("1", bound, share, vector=vector)]
        if self._weights is None:
            wishes.append(self._wish("1", Fraction(1), _WEIGHED, vector=["w"]))
        (released, noise), *weights = self.sums.means(columns, wishes)
        if weights:
            self._weights = min(max(float(weights[0][0][0]), 0.0), 1.0)
        assert self._weights is not None
        spread = float(released[-1]) / free + (half - kappa) * self._weights
        return released[:-1], spread, noise

    def weighted(
        self, theta: Floats, values: Sequence[RowValue], *, length: Fraction, share: Fraction
    ) -> tuple[Floats, float]:
        """Noisy means of w v for several v, none negative, together no longer than `length`."""
        vector = [f"greatest({self._text(one)}, 0)" for one in values]
        columns = self._predicted(theta, vector)
        (found,) = self.sums.means(columns, [self._wish("w", length, share, vector=vector)])
        return found

    def _predicted(self, theta: Floats, texts: Iterable[str]) -> list[Mapping[str, str]]:
        """Columns up to the prediction p, and to e^p where one of the texts has it."""
        parts = zip(theta.tolist(), self.names, strict=True)
        prediction = {"p": " + ".join(f"{number(slope)} * {name}" for slope, name in parts)}
        steep = exponential("p") if any(EXPONENTIAL in text for text in texts) else []
        if self.unit != 1:
            prediction["r"] = f"t / {number(self.unit)}"
        return [prediction, *steep]

    def _text(self, value: RowValue) -> str:
        """SQL of a number within its bound, whatever the loss that it comes from says."""
        target = "t" if self.unit == 1 else "r"
        return cut_text(f"({value.text('p', target)})", -value.bound, value.bound)

    def _wish(
        self,
        value: str,
        bound: Fraction,
        share: Fraction,
        *,
        vector: Sequence[str] | None = None,
        squared: bool = False,
        signed: bool = False,
    ) -> Wish:
        return Wish(
            vector=self.names if vector is None else vector,
            value=value,
            bound=bound,
            budget=self.sums.paid(share),
            squared=squared,
            signed=signed,
        )


def open_table(estimator: Any, table: Table, *, budget: GDP, target: str = "y") -> TableSums:
    """The rows of a table, for an estimator, which notes the names of its features.

    target: an expression of y. InvalidParameter for bits of the estimator's own.
    """
    note_table(estimator, table)
    return TableSums(table=table, budget=budget, target=target)
