"""The base of regressions, which fit arrays or a table and keep the released line."""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

import math
from abc import abstractmethod
from dataclasses import dataclass
from typing import Final, Protocol, Self, TypeAlias

import numpy as np
from numpy.typing import ArrayLike

from unacorda.bits import RandomBits, source_of
from unacorda.errors import InvalidParameter
from unacorda.inference.contract import (
    WEIGHTS_ARE_CLIPPED,
    BaseEstimator,
    count_fit,
    paired,
    reading_notes,
)
from unacorda.inference.records import Floats, bounds_of, check_budget, gdp_budget, public_pair
from unacorda.inference.regression.bounds import find_ranges
from unacorda.inference.regression.covariance import Fitted
from unacorda.inference.regression.results import Intervals, LinearPredictor
from unacorda.inference.regression.rows import ArrayRows, Rows, Unit
from unacorda.inference.regression.tables import Table, TableRows, TableSums, note_table
from unacorda.inference.sums import BOUNDS_SHARE, LEVEL, NoisySums, check_share, norm_of
from unacorda.privacy.guarantees import GDP, Guarantee

_HEARD: Final = 0.12
"""The share of mu^2 of the largest matrix, by which a budget is judged beforehand."""

_OWN_UNIT: Final = Unit(middle=0.0, half=1.0)

Pair: TypeAlias = tuple[Floats, Floats]


class _Find(Protocol):
    """A private search for the ranges of some features, by place, and of the target."""

    def __call__(self, places: list[int], *, with_target: bool) -> list[tuple[float, float]]: ...


@dataclass(kw_only=True, eq=False, repr=False)
class Regression(Intervals, BaseEstimator):  # type: ignore[misc]
    """A regression on rows of arrays or of a table."""

    budget: Guarantee
    feature_bounds: tuple[ArrayLike, ArrayLike] | None = None
    bounds_share: float = BOUNDS_SHARE
    bits: RandomBits | None = None

    _needs_target_bounds = False
    """True if public or found bounds of the target are needed."""

    def fit(self, X: ArrayLike, y: ArrayLike, sample_weight: ArrayLike | None = None) -> Self:
        """Fits to one row per person; spends the budget.

        Parameters
        ----------
        X
            Features, shape (n, p).
        y
            Targets, shape (n,).
        sample_weight
            Weights, shape (n,), within [0, 1]: values outside are clipped, and NaN counts as 0. A
            weight multiplies the person's loss, and is as private as their row. The fit minimizes
            the weighted mean loss. A hundredth of the budget releases the mean weight; nothing else
            is released about the weights alone. Survey weights are often above 1: if all of them
            are, the fit is the unweighted one. Divide the weights by a public bound near the
            largest one first, since the noise is that of weights of 1. `summary()` says so, too.
        """
        asked, budget = check_budget(self.budget), gdp_budget(self.budget)
        self._check()
        share = check_share(self.bounds_share)
        x, target, own = self._records(X, y, sample_weight)
        lower, upper = self._bounds(x.shape[1])
        ends = self._target_ends(getattr(self, "target_bounds", None))
        _check_affordable(asked, budget, rows=len(x), size=x.shape[1] + 1)
        sums = NoisySums(rows=len(x), budget=budget, bits=source_of(self.bits))
        count_fit(self, asked)
        self.notes_ = reading_notes(X, y, sample_weight, classes=getattr(self, "classes", None))
        if sample_weight is not None:
            sums.weigh(own, share=LEVEL)

        def find(places: list[int], *, with_target: bool) -> list[tuple[float, float]]:
            columns = [*x.T[places], *([target] if with_target else [])]
            return find_ranges(columns, own, sums, share=share)

        lower, upper = self._complete(lower, upper, ends, find)
        self._run(ArrayRows.of(x, target, own, lower=lower, upper=upper, sums=sums), asked)
        return self

    def fit_table(self, table: Table) -> Self:
        """Fits to a table of a session; called by `unacorda.Session.fit`.

        Parameters
        ----------
        table
            The session's table.
        """
        asked, budget = check_budget(self.budget), gdp_budget(self.budget)
        self._check()
        share = check_share(self.bounds_share)
        size = len(table.features)
        lower, upper = (
            self._bounds(size) if self.feature_bounds is not None else np.array(table.bounds).T
        )
        given = getattr(self, "target_bounds", None)
        if given is None and all(map(math.isfinite, table.target_bounds)):
            given = table.target_bounds
        ends = self._target_ends(given)
        note_table(self, table)
        self.notes_ = (WEIGHTS_ARE_CLIPPED,) if table.weighted else ()
        source = TableSums(table=table, budget=budget, target=self._target_text())
        if source.number_error == 0:  # a rehearsal, of very many rows
            _check_affordable(asked, budget, rows=round(source.number), size=size + 1, at_most=True)

        def find(places: list[int], *, with_target: bool) -> list[tuple[float, float]]:
            names = [f"x{place}" for place in places]
            return source.find_ranges([*names, *(["y"] if with_target else [])], share=share)

        lower, upper = self._complete(lower, upper, ends, find)
        self._run(TableRows.of(source, lower=lower, upper=upper), asked)
        return self

    def _check(self) -> None:
        """Refuse wrong parameters, before anything is read."""

    def _records(
        self, X: ArrayLike, y: ArrayLike, sample_weight: ArrayLike | None
    ) -> tuple[Floats, Floats, Floats]:
        """Features, targets and weights, 0 where a number is missing."""
        return paired(self, X, y, sample_weight)

    def _target_text(self) -> str:
        """SQL of the target y of a row of a table."""
        return "y"

    @abstractmethod
    def _run(self, rows: Rows, asked: Guarantee) -> None:
        """Fits to rows, and sets the attributes of a fit."""

    def _bounds(self, size: int) -> Pair:
        """Public bounds of the features; infinite ones where they are left out."""
        if self.feature_bounds is None:
            return np.full(size, -math.inf), np.full(size, math.inf)
        return bounds_of(self.feature_bounds, features=size)

    def _target_ends(self, given: object) -> tuple[float, float] | None:
        """Public bounds of the target; None where they are left out."""
        if not self._needs_target_bounds or given is None:
            return None
        return public_pair("target_bounds", given, of="y")

    def _complete(
        self, lower: Floats, upper: Floats, ends: tuple[float, float] | None, find: _Find
    ) -> Pair:
        """The bounds of the features, those that are missing found, as are the target's."""
        missing = ~(np.isfinite(lower) & np.isfinite(upper) & (lower < upper))
        places: list[int] = np.flatnonzero(missing).tolist()
        with_target = self._needs_target_bounds and ends is None
        found = find(places, with_target=with_target) if places or with_target else []
        self.found_bounds_: list[int | str] = [*places, *(["target"] if with_target else [])]
        if self._needs_target_bounds:
            self.target_bounds_: tuple[float, float] = found[-1] if ends is None else ends
        for place, (low, high) in zip(places, found, strict=False):
            lower[place], upper[place] = low, high
        self.feature_bounds_: Pair = lower, upper
        return lower, upper

    def _keep_line(
        self, rows: Rows, found: Fitted, *, asked: Guarantee, unit: Unit = _OWN_UNIT
    ) -> None:
        """Keep a fit of a line to a target in this unit."""
        parameters = self._keep(rows, found, asked=asked, unit=unit.half)
        self.intercept_, self.coef_ = float(parameters[0] + unit.middle), parameters[1:]

    def _penalty(self, rows: Rows, penalty: float) -> Floats | None:
        """The ridge penalty as a matrix, in the coefficients of whitened rows."""
        if penalty == 0:
            return None
        lower, upper = self.feature_bounds_
        slopes = ((upper - lower) / 5)[:, None] * rows.back[1:]
        matrix: Floats = penalty * slopes.T @ slopes
        return matrix


@dataclass(kw_only=True, eq=False, repr=False)
class LineRegression(LinearPredictor, Regression):
    """A regression with a linear prediction in the unit of the target's bounds."""

    _needs_target_bounds = True

    target_bounds: tuple[float, float] | None = None

    @property
    def _unit(self) -> Unit:
        """Half widths of the target's bounds."""
        low, high = self.target_bounds_
        return Unit(middle=low + (high - low) / 2, half=(high - low) / 2)


def _check_affordable(
    asked: Guarantee, budget: GDP, *, rows: int, size: int, at_most: bool = False
) -> None:
    """Refuse a budget whose noise is larger than any second moment, by public numbers.

    at_most: rows are as many as there can be, and not as many as there are.
    """
    mu = math.sqrt(float(budget.mu_squared) * _HEARD)
    noise = norm_of(math.sqrt(2) * 1.25 * size / (rows * mu), size)
    if noise <= 1:
        return
    people = f"n_samples={rows} and {size} parameters, or as many times the rows"
    if at_most:
        people = f"{size} parameters, even of {rows:,} rows"
    raise InvalidParameter(
        "budget",
        asked,
        expected=f"a mu {math.ceil(noise * 10) / 10:g} times as large (here it is "
        f"{budget.mu:.3g}) for {people}: the noise would be larger than any coefficient",
    )
