"""Plans of synthetic tables: the public decisions, all of them made before any data are read."""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

import copy
import datetime as dt
import itertools
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any, Final, TypeAlias

import numpy as np
from numpy.typing import NDArray

from unacorda import checks
from unacorda.checks import Number, demand
from unacorda.errors import InvalidParameter
from unacorda.mechanisms.parameters import whole
from unacorda.privacy.events.fields import keep
from unacorda.synthesis.domain import BinnedColumn, CategoryColumn, Domain, Scalar
from unacorda.synthesis.junction_tree import ColumnGraph, Columns
from unacorda.synthesis.model import MarginalModel

Condition: TypeAlias = Mapping[str, Any]
"""By column, one label or several, or numbers or dates in bins: rows that have them all."""


def check_condition(argument: str, condition: object) -> None:
    """Raise InvalidParameter where a condition is no mapping of columns to labels."""
    expected = "columns and their labels, as {'county': 'A', 'sex': ['F', None]}"
    demand(isinstance(condition, Mapping), argument, condition, expected=expected)


def labels_of(value: Any) -> list[Any]:
    """The labels that a condition names for a column, one or several."""
    return list(value) if isinstance(value, list | tuple | set | frozenset) else [value]


def _listed(names: object) -> bool:
    """Whether something can be the names of a table's columns."""
    return isinstance(names, list | tuple)


Masks: TypeAlias = dict[Columns, NDArray[np.bool_]]

MOST_ROWS: Final = 1 << 24
"""That are drawn at once."""

_CONSTRAINT_CELLS: Final = 1 << 16


@dataclass(frozen=True, slots=True, kw_only=True)
class SynthesisPlan:
    """What is synthesized, and how the budget is shared. Nothing here depends on data.

    Parameters
    ----------
    domain
        The columns and their cells.
    workload
        The tables whose errors count: all of this many columns, or a list of tables by the names of
        their columns.
    weights
        How much a table of the workload counts, by the names of its columns; by default 1.
    never
        Conditions that no row meets, as {"sex": "M", "pregnant": True}; synthetic rows never do.
    max_cells
        The most cells of a measured table, and of the junction tree.
    report
        The share of the budget that measures the errors of the finished rows, in [0, 1).
    rows
        How many rows are drawn; by default the noisy number of rows, at most 2^24.

    Raises InvalidParameter for numbers out of range, unknown columns and labels, a table of the
    workload with more than `max_cells` cells, conditions over more than 2^16 cells each or
    `max_cells` together, and conditions that leave no row.

    What is measured, and with which part of the budget, is decided by `Rounds`.
    """

    domain: Domain
    workload: int | Sequence[Sequence[str]] = 3
    weights: Mapping[tuple[str, ...], Number] = field(default_factory=dict)
    never: Sequence[Condition] = ()
    max_cells: int = 500_000
    report: Number = Fraction(1, 20)
    rows: int | None = None

    def __post_init__(self) -> None:
        whole("max_cells", self.max_cells, least=1, most=1 << 24)
        if self.rows is not None:
            whole("rows", self.rows, least=0, most=MOST_ROWS)
        report = checks.exact("report", self.report)
        demand(0 <= report < 1, "report", self.report, expected="a share, at least 0 and below 1")
        keep(self, report=report)
        self._check_tables()
        self._check_conditions()

    def _check_tables(self) -> None:
        expected = f"tables of at most max_cells={self.max_cells} cells: fewer bins, or workload=2"
        for table in self.tables:
            names = tuple(self.domain.names[a] for a in table)
            demand(self.cells(table) <= self.max_cells, "workload", names, expected=expected)
        known = set(self.tables)
        given: object = self.weights
        mapped = isinstance(given, Mapping) and all(map(_listed, given))
        expected = "tables and their weights, as {('county', 'sex'): 4}"
        demand(mapped, "weights", self.weights, expected=expected)
        for names, weight in self.weights.items():
            fits = self.domain.places(names) in known and checks.exact("weights", weight) > 0
            demand(
                fits,
                "weights",
                dict(self.weights),
                expected="tables of the workload with weights above 0",
            )

    def _check_conditions(self) -> None:
        for condition in self.never:
            check_condition("never", condition)
            demand(condition, "never", condition, expected="conditions on one or more columns")
            cells = self.cells(self.domain.places(list(condition)))
            expected = f"conditions on columns of at most {_CONSTRAINT_CELLS} cells together"
            demand(cells <= _CONSTRAINT_CELLS, "never", condition, expected=expected)
        self._check_cells_of_never()
        possible = self.possible()
        try:
            if possible:
                MarginalModel(self.domain.sizes, {}, possible=possible)
        except InvalidParameter:
            expected = "conditions that leave some cell possible"
            raise InvalidParameter("never", list(self.never), expected=expected) from None

    def _check_cells_of_never(self) -> None:
        """Raise InvalidParameter where a model that only keeps the conditions is too large."""
        sets = {self.domain.places(list(condition)) for condition in self.never}
        most = max(self.max_cells, _CONSTRAINT_CELLS)
        if sets and ColumnGraph(self.domain.sizes, sets).cells > most:
            names = sorted({name for condition in self.never for name in condition})
            raise InvalidParameter(
                "never",
                names,
                expected=f"conditions that a model of at most {most:,} cells can keep together",
                hint="Conditions that share columns are kept together. Name fewer columns in them, "
                "give these columns fewer cells, or raise max_cells.",
            )

    def over(self, columns: Sequence[CategoryColumn | BinnedColumn]) -> SynthesisPlan:
        """The same plan where cells are found: none of the columns has more cells than before.

        It was checked already, so that nothing that is found can be refused.
        """
        found = copy.copy(self)
        keep(found, domain=Domain(columns=tuple(columns)))
        return found

    @property
    def tables(self) -> tuple[Columns, ...]:
        """The workload, as places of columns."""
        width = len(self.domain.columns)
        if isinstance(self.workload, int):
            count = min(whole("workload", self.workload, least=1, most=1 << 10), width)
            return tuple(itertools.combinations(range(width), count))
        expected = "how many columns, or tables by the names of theirs, as [('county', 'sex')]"
        listed = isinstance(self.workload, list | tuple) and all(map(_listed, self.workload))
        demand(listed, "workload", self.workload, expected=expected)
        found = dict.fromkeys(self.domain.places(list(names)) for names in self.workload)
        demand(found and () not in found, "workload", self.workload, expected="tables of columns")
        return tuple(found)

    def cells(self, columns: Columns) -> int:
        """How many cells a table has."""
        return math.prod(self.domain.sizes[a] for a in columns)

    def candidates(self) -> dict[Columns, int]:
        """Tables that may be measured: all parts of the workload's, with whole weights.

        The weight of a table is the sum over the workload of weight times shared columns, over the
        greatest common divisor of all.
        """
        given = {
            self.domain.places(names): checks.exact("weights", weight)
            for names, weight in self.weights.items()
        }
        of_column = [Fraction(0)] * len(self.domain.columns)
        found: dict[Columns, Fraction] = {}
        for table in self.tables:
            for a in table:
                of_column[a] += given.get(table, Fraction(1))
            for count in range(1, len(table) + 1):
                for columns in itertools.combinations(table, count):
                    found[columns] = Fraction(0)
        exact = {columns: sum(of_column[a] for a in columns) for columns in found}
        common = math.lcm(*(Fraction(weight).denominator for weight in exact.values()))
        numerators = {columns: int(weight * common) for columns, weight in exact.items()}
        divisor = math.gcd(*numerators.values())
        return {columns: weight // divisor for columns, weight in numerators.items()}

    def possible(self) -> Masks:
        """By the columns of the constraints, the cells that can hold rows."""
        found: Masks = {}
        for condition in self.never:
            columns = self.domain.places(list(condition))
            found[columns] = found.get(columns, True) & ~self.met(columns, condition)
        return found

    def met(self, columns: Columns, condition: Condition) -> NDArray[np.bool_]:
        """Which cells over the columns meet a condition on some of them."""
        found = np.ones([self.domain.sizes[a] for a in columns], np.bool_)
        for place, kept in self.meeting(condition).items():
            mask = np.zeros(self.domain.sizes[place], np.bool_)
            mask[kept] = True
            found &= mask.reshape([-1 if a == place else 1 for a in columns])
        return found

    def meeting(self, condition: Condition) -> dict[int, list[int]]:
        """By the place of each column of a condition, the cells that meet it."""
        found: dict[int, list[int]] = {}
        for name, value in condition.items():
            (place,) = self.domain.places([name])
            found[place] = [self._cell(place, one) for one in labels_of(value)]
            demand(found[place], name, value, expected="at least one label")
        return found

    def _cell(self, place: int, label: Scalar) -> int:
        column = self.domain.columns[place]
        if label in column.labels:
            return column.labels.index(label)
        if isinstance(column, BinnedColumn):
            numeric = isinstance(label, int | float) and not isinstance(label, bool)
            if isinstance(label, dt.date) if column.dates else numeric:
                return int(column.encode([label])[0])
        labels = ", ".join(map(repr, column.labels[:10]))
        raise InvalidParameter(column.name, label, expected=f"a label of the column: {labels}, ...")
