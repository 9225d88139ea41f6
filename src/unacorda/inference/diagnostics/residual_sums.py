"""Releases of the residual table of a regression: exact sums, and their noise."""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, Final

import numpy as np
from numpy.typing import ArrayLike, NDArray

from unacorda.bits import RandomBits, source_of
from unacorda.errors import InvalidParameter, MissingBound
from unacorda.inference.budgets import check_budget, shareable
from unacorda.inference.diagnostics.residuals import ResidualTable
from unacorda.inference.diagnostics.rows import RowNorms, RowOwners, fitted_values
from unacorda.inference.ranges import BOUNDS_SHARE
from unacorda.inference.records import Floats, column, public_pair, public_size
from unacorda.inference.sums import law_of
from unacorda.mechanisms.additive.real import Gaussian, Laplace
from unacorda.mechanisms.parameters import whole
from unacorda.privacy import events
from unacorda.privacy.guarantees import Guarantee
from unacorda.privacy.neighbors import Neighbors, ReplaceOne

__all__ = ["BY_BINS", "HISTOGRAM", "SHARES", "TOTALS", "ResidualSums", "residual_table"]

_LOG2: Final = 20
"""u and v are multiples of 2^-20, and their squares of 2^-40."""

HISTOGRAM: Final = 40
"""Bins of the histogram of residuals."""

_MOST_BINS: Final = 4096
_CHUNK: Final = 1 << 21
"""Rows whose squares, of 2^40 steps at most, add up within 64 bits."""

_POWERS: Final = (-40, 60)
_MISTAKE: Final = 0.01

SHARES: Final = (Fraction(1, 2), Fraction(1, 4), Fraction(1, 4))
"""Of the budget: for the sums by bins, the histogram, and the totals."""

BY_BINS: Final = RowNorms(
    l1=Fraction(4), l2_squared=Fraction(11, 2), apart_l1=Fraction(8), apart_l2_squared=Fraction(11)
)
"""Of (1, 3/2 u, 3/2 u^2) in one bin: two rows are farthest apart in two bins."""

TOTALS: Final = RowNorms(
    l1=Fraction(6), l2_squared=Fraction(6), apart_l1=Fraction(6), apart_l2_squared=Fraction(7)
)
"""Of (1, cut, u^2, |u|, v, v^2): in the l2 norm two rows with v = 1, v = -1 are farthest apart."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ResidualSums:
    """The exact sums of rows, in whole steps. Private.

    sums: by bins of 1, u and u^2, the last line that of rows without a residual or a bin; totals:
    of 1, cut, u^2, |u|, v and v^2; u in steps of 2^-20, squares of 2^-40.
    """

    sums: list[list[int]]
    histogram: list[int]
    totals: list[int]

    @classmethod
    def of(
        cls,
        places: NDArray[np.int64],
        residuals: Floats,
        target: Floats,
        *,
        bins: int,
        residual_bound: float,
        target_bounds: tuple[float, float],
    ) -> ResidualSums:
        """The sums of rows; places: the bin of each, `bins` where it has none."""
        low, high = target_bounds
        middle, half = low + (high - low) / 2, (high - low) / 2
        sums = np.zeros((bins + 1, 3), dtype=object)
        histogram, totals = np.zeros(HISTOGRAM, dtype=object), np.zeros(6, dtype=object)
        for block in _blocks(len(residuals)):
            r, y = residuals[block], target[block]
            missing = np.isnan(r) | (places[block] == bins)
            place = np.where(missing, bins, places[block])
            u = _steps(r / residual_bound, missing)
            v = _steps((y - middle) / half, missing)
            some = ~missing
            part = np.zeros((bins + 1, 3), dtype=np.int64)
            for at, values in enumerate((np.ones(len(r), dtype=np.int64), u, u * u)):
                np.add.at(part[:, at], place, values)
            sums += part.astype(object)
            own = np.floor((u / 2.0**_LOG2 + 1) * (HISTOGRAM / 2)).astype(np.int64)
            own = np.minimum(own, HISTOGRAM - 1)[some]
            histogram += np.bincount(own, minlength=HISTOGRAM).astype(object)
            cut = (np.abs(r) > residual_bound) & some
            whole_sums = [some.sum(), cut.sum()]
            whole_sums += [(u * u).sum(), np.abs(u).sum(), v.sum(), (v * v).sum()]
            totals += np.array([int(one) for one in whole_sums], dtype=object)
        return cls(
            sums=[[int(one) for one in line] for line in sums],
            histogram=[int(one) for one in histogram],
            totals=[int(one) for one in totals],
        )

    def parts(self) -> list[tuple[list[int], int]]:
        """The three vectors that are released, in whole multiples of a power of two each.

        u and u^2 by bins have the weight 3/2.
        """
        one = 1 << (2 * _LOG2 + 1)
        weighted = [
            weight * number
            for line in self.sums
            for weight, number in zip((one, 3 << _LOG2, 3), line, strict=True)
        ]
        shifts = (2 * _LOG2, 2 * _LOG2, 0, _LOG2, _LOG2, 0)
        totals = [number << shift for number, shift in zip(self.totals, shifts, strict=True)]
        return [(weighted, -2 * _LOG2 - 1), (self.histogram, 0), (totals, -2 * _LOG2)]


def residual_table(
    model: Any,
    X: ArrayLike,
    y: ArrayLike,
    *,
    budget: Guarantee,
    target_bounds: tuple[float, float] | None = None,
    residual_bound: float | None = None,
    bins: int = 20,
    by: ArrayLike | None = None,
    by_bounds: tuple[float, float] | None = None,
    rows_per_person: int = 1,
    person: ArrayLike | None = None,
    neighbors: Neighbors = ReplaceOne,
    bits: RandomBits | None = None,
) -> ResidualTable:
    r"""Releases sums of residuals, for the residual plot, a histogram, R^2, RMSE and MAE.

    The model must be public, such as a private fit, and must treat every row separately. Use rows
    that did not fit it. Rows with a missing number are counted separately.

    Source: docs/proofs/diagnostics.md, sections 1 and 3.

    Parameters
    ----------
    model
        A regression with `predict`; or a function from X to predictions; or None, if X has the
        predictions.
    X
        Features, shape (n, p); or predictions, shape (n,).
    y
        Targets, shape (n,).
    budget
        Any guarantee; it is spent whole: half on the plot, a quarter each on histogram and totals.
    target_bounds
        Public (lower, upper), for R^2 and as ends of the bins of the prediction. Targets are
        clamped to them in R^2. By default those of the fit.
    residual_bound
        The public clamping bound of residuals, in the unit of the target; the share beyond it is
        released. By default a twentieth of the budget finds a power of two.
    bins
        How many even bins of the prediction.
    by
        A number of each row, such as a feature, shape (n,), whose bins the plot uses in place of
        those of the prediction.
    by_bounds
        Public (lower, upper) of these numbers.
    rows_per_person, person, neighbors, bits
        As for `score_table`.

    Returns
    -------
    ResidualTable
        The noisy sums.

    Raises
    ------
    InvalidParameter
        For shapes, dtypes and parameters that cannot be used, and for a model that raises an error.
    MissingBound
        Without bounds of the target, or of `by`.

    Examples
    --------
    >>> import unacorda
    >>> drawn = np.random.default_rng(1)
    >>> x = drawn.uniform(0, 10, 20_000)
    >>> y = 2 * x + drawn.normal(size=20_000)
    >>> table = residual_table(
    ...     None,
    ...     2 * x,
    ...     y,
    ...     target_bounds=(0, 20),
    ...     residual_bound=4,
    ...     budget=unacorda.ZCDP(0.1),
    ...     bits=unacorda.SeededBits(1),
    ... )
    >>> round(table.r2().value, 2), round(table.rmse().value, 2)
    (0.97, 0.99)
    """
    asked, owners = check_budget(budget), RowOwners(rows=rows_per_person, neighbors=neighbors)
    given = getattr(model, "target_bounds_", None) if target_bounds is None else target_bounds
    ends = public_pair("target_bounds", given, of="y")
    number = whole("bins", bins, least=1, most=_MOST_BINS)
    if (by is None) != (by_bounds is None):
        raise MissingBound("by_bounds", expected="public bounds of the numbers of by, both or none")
    between = ends if by_bounds is None else public_pair("by_bounds", by_bounds, of="by")
    bound = None if residual_bound is None else public_size(residual_bound=residual_bound)
    target = column("y", y, least=0)
    fitted = fitted_values(model, X)
    if len(fitted) != len(target):
        raise InvalidParameter(
            "y", target.shape, expected=f"{len(fitted)} numbers, one per row of X"
        )
    places_of = fitted if by is None else column("by", by, least=0)
    if len(places_of) != len(target):
        raise InvalidParameter(
            "by", places_of.shape, expected=f"{len(target)} numbers, one per row"
        )
    kept = owners.kept(person, number=len(target))
    with np.errstate(all="ignore"):
        residuals = (target - fitted)[kept]
    target, places_of, source = target[kept], places_of[kept], source_of(bits)
    left, spent = shareable(asked, releases=3 if bound is not None else 4), []
    if bound is None:
        share = Fraction(str(BOUNDS_SHARE))
        noise = owners.noise(left * share, RowNorms.of_counts())
        bound = _found_bound(residuals, noise, widest=(ends[1] - ends[0]) / 2, bits=source)
        left, spent = left * (1 - share), [noise.event]
    edges = np.linspace(*between, number + 1)
    places = np.searchsorted(edges[1:-1], places_of, side="right").astype(np.int64)
    places[np.isnan(places_of)] = number
    exact = ResidualSums.of(
        places, residuals, target, bins=number, residual_bound=bound, target_bounds=ends
    )
    norms = (BY_BINS, RowNorms.of_counts(), TOTALS)
    noises = [owners.noise(left * share, one) for share, one in zip(SHARES, norms, strict=True)]
    found = [
        np.array([float(one) for one in noise.release_exact(part, unit_log2=unit, bits=source)])
        for noise, (part, unit) in zip(noises, exact.parts(), strict=True)
    ]
    sums = found[0].reshape(number + 1, 3)
    laws = {law_of(noise) for noise in noises}
    return ResidualTable(
        edges=edges,
        sums=sums[:-1],
        missing=float(sums[-1, 0]),
        histogram=found[1],
        totals=found[2],
        deviations=(
            noises[0].standard_deviation,
            noises[1].standard_deviation,
            noises[2].standard_deviation,
        ),
        noise="laplace" if "laplace" in laws else "normal",
        residual_bound=bound,
        target_bounds=ends,
        event=events.compose([*spent, *(noise.event for noise in noises)]),
        guarantee=asked,
        protects=owners.protects,
    )


def _blocks(rows: int) -> Iterator[slice]:
    for start in range(0, max(rows, 1), _CHUNK):
        yield slice(start, start + _CHUNK)


@np.errstate(all="ignore")
def _steps(values: Floats, missing: NDArray[np.bool_]) -> NDArray[np.int64]:
    """Numbers clipped to [-1, 1], in steps of 2^-20; missing ones are 0."""
    clipped = np.clip(np.where(missing, 0.0, values), -1.0, 1.0)
    steps: NDArray[np.int64] = np.rint(clipped * 2.0**_LOG2).astype(np.int64)
    return steps


def _found_bound(
    residuals: Floats, noise: Gaussian | Laplace, *, widest: float, bits: RandomBits
) -> float:
    """The power of two below which the residuals lie whose counts stand out of the noise."""
    least, most = _POWERS
    known = np.abs(residuals[~np.isnan(residuals)])
    _, octaves = np.frexp(np.where(np.isfinite(known), known, 2.0**most))
    places = np.where(known == 0, 0, np.clip(octaves - least, 0, most - least))
    counts = np.bincount(places, minlength=most - least + 1)
    released = noise.release_exact(counts.tolist(), unit_log2=0, bits=bits)
    least_seen = noise.error_bound(1 - _MISTAKE / len(counts))
    seen = [place for place, count in enumerate(released) if count > least_seen]
    return math.ldexp(1.0, seen[-1] + least) if seen else widest
