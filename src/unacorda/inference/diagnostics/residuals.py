r"""Residuals of a regression: releases of noisy sums of them, and what is computed from these.

Let u = r / R be the residual clamped to [-R, R], in units of R. Three vectors of a row are summed:
(1, 3/2 u, 3/2 u^2) in the bin of its prediction; a 1 in its bin of u; and (1, cut, u^2, |u|, v,
v^2), with v the target in half widths of its bounds. u and v are multiples of 2^-20, and sums are
exact. Proofs: docs/proofs/diagnostics.md, sections 1 and 3.
"""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, Final, Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import ndtri

from unacorda.bits import RandomBits, source_of
from unacorda.errors import InvalidParameter, MissingBound
from unacorda.inference.diagnostics.cells import (
    Diagnostic,
    Errors,
    NoisyCells,
    check_errors,
    critical,
    join_bins,
    summarize,
)
from unacorda.inference.diagnostics.scoring import RowNorms, RowOwners, fitted_values
from unacorda.inference.records import (
    Floats,
    check_budget,
    column,
    data_frame,
    public_pair,
    public_size,
    shareable,
)
from unacorda.inference.sums import BOUNDS_SHARE, law_of, release_numbers
from unacorda.mechanisms.additive.real import Gaussian, Laplace
from unacorda.mechanisms.parameters import whole
from unacorda.privacy import events
from unacorda.privacy.guarantees import Guarantee
from unacorda.privacy.neighbors import Neighbors, ReplaceOne

WEIGHT: Final = 1.5
"""Of u and of u^2 in the sums by bins, next to 1 of the count."""

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


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class ResidualTable:
    """Noisy sums of residuals, the target less the prediction; all of it may be published.

    Every method is computed from the sums and costs nothing. `interval="noise"` includes only the
    noise, for the model on exactly these rows; `"both"` adds the sampling error of fresh rows.

    Parameters
    ----------
    edges
        Of the bins of the prediction, or of `by`, shape (B + 1,).
    sums
        By bins: of 1, 3/2 u and 3/2 u^2, noisy, shape (B, 3); u in units of the residual's bound.
    missing
        The noisy count of rows without a residual or a bin.
    histogram
        Noisy counts of u in even bins of [-1, 1]; residuals beyond count in the outermost ones.
    totals
        Over all rows: of 1, of residuals beyond the bound, u^2, |u|, v and v^2, noisy.
    deviations
        Of the noise of each number of `sums`, of `histogram` and of `totals`.
    noise
        The distribution of the noise: "normal" or "laplace".
    residual_bound
        R, in the unit of the target: given, or found.
    target_bounds
        Public bounds of the target.
    event
        The event for the accountant.
    guarantee
        The guarantee.
    protects
        The privacy unit, in words.

    Examples
    --------
    >>> import unacorda
    >>> from unacorda import inference
    >>> x = np.linspace(0, 1, 2000)
    >>> table = inference.residual_table(
    ...     None,
    ...     x,
    ...     x + np.tile([-0.1, 0.1], 1000),
    ...     target_bounds=(-1, 2),
    ...     residual_bound=1,
    ...     budget=unacorda.GDP(1),
    ...     bits=unacorda.SeededBits(1),
    ... )
    >>> round(table.rmse().value, 2)
    0.1
    """

    edges: Floats
    sums: Floats
    missing: float
    histogram: Floats
    totals: Floats
    deviations: tuple[float, float, float]
    noise: Literal["normal", "laplace"]
    residual_bound: float
    target_bounds: tuple[float, float]
    event: events.Event
    guarantee: Guarantee
    protects: str

    @property
    def _totals(self) -> NoisyCells:
        return NoisyCells(counts=self.totals, deviation=self.deviations[2], law=self.noise)

    @property
    def _bins(self) -> NoisyCells:
        """The histogram of u."""
        return NoisyCells(counts=self.histogram, deviation=self.deviations[1], law=self.noise)

    @property
    def _cuts(self) -> Floats:
        return np.linspace(-1, 1, len(self.histogram) + 1)

    @property
    def _fourth(self) -> float:
        """The mean of u^4 over the square of that of u^2, from the histogram; 1 at the least."""
        middles = (self._cuts[:-1] + self._cuts[1:]) / 2
        counts = np.maximum(self.histogram, 0.0)
        second, fourth = (float(counts @ middles**power) for power in (2, 4))
        return max(fourth * float(counts.sum()) / second**2, 1.0) if second > 0 else 1.0

    def _mean(
        self, place: int, *, interval: Errors, confidence: float, second: float, unit: float
    ) -> Diagnostic:
        """The mean of one of the totals, whose squares add up to `second`, in a unit."""
        over, under = np.zeros(6), np.eye(6)[0]
        over[place] = unit
        moments = np.array([[unit**2 * second, unit * self.totals[place], self.totals[0]]])
        return self._totals.ratio(
            over,
            under,
            interval=interval,
            confidence=confidence,
            limits=(0.0, unit),
            moments=moments,
        )

    def r2(self, *, confidence: float = 0.95) -> Diagnostic:
        """Returns R^2, one minus the mean square of residuals over the variance of the target.

        The interval includes only the noise; it is Fieller's, with the covariance of the noise of
        both sums.

        Parameters
        ----------
        confidence
            Of the interval, strictly between 0 and 1.
        """
        low, high = self.target_bounds
        rows = max(float(self.totals[0]), self.deviations[2])
        middle = float(self.totals[4]) / rows
        over = np.array([0, 0, self.residual_bound**2, 0, 0, 0])
        # The sum of (v - middle)^2, whose slope by the middle is 0.
        under = np.array([middle**2, 0, 0, 0, -2 * middle, 1]) * ((high - low) / 2) ** 2
        found = self._totals.ratio(
            over,
            under,
            confidence=confidence,
            limits=(0.0, math.inf),
            moments=np.full((1, 3), math.nan),
        )
        if math.isnan(found.value) or math.isinf(found.upper):
            reason = "Noise hides the variance of the target. A larger budget or more rows help."
            return Diagnostic.hidden(reason, limits=(-math.inf, 1.0))
        return Diagnostic(
            value=1 - found.value,
            noise_error=found.noise_error,
            sampling_error=math.nan,
            lower=1 - found.upper,
            upper=1 - found.lower,
        )

    def rmse(self, *, interval: Errors = "noise", confidence: float = 0.95) -> Diagnostic:
        """Returns the root mean square of the clamped residuals, in the unit of the target.

        Parameters
        ----------
        interval
            "noise" or "both"; the sample's error is by the fourth moment of the histogram.
        confidence
            Of the interval, strictly between 0 and 1.
        """
        square = float(self.totals[2]) ** 2 / max(float(self.totals[0]), 1.0)
        found = self._mean(
            2,
            interval=interval,
            confidence=confidence,
            second=self._fourth * square,
            unit=1.0,
        )
        value = math.sqrt(found.value)  # NaN stays NaN
        slope = self.residual_bound / (2 * value) if value > 0 else math.inf
        return Diagnostic(
            value=self.residual_bound * value,
            noise_error=slope * found.noise_error,
            sampling_error=slope * found.sampling_error,
            lower=self.residual_bound * math.sqrt(found.lower),
            upper=self.residual_bound * math.sqrt(found.upper),
        )

    def mae(self, *, interval: Errors = "noise", confidence: float = 0.95) -> Diagnostic:
        """Returns the mean absolute clamped residual, in the unit of the target.

        Parameters
        ----------
        interval, confidence
            As of `rmse`.
        """
        return self._mean(
            3,
            interval=interval,
            confidence=confidence,
            second=float(self.totals[2]),
            unit=self.residual_bound,
        )

    def cut(self, *, interval: Errors = "noise", confidence: float = 0.95) -> Diagnostic:
        """Returns the share of rows whose residual is clamped.

        Parameters
        ----------
        interval, confidence
            As of `rmse`.
        """
        second = float(self.totals[1])
        return self._mean(1, interval=interval, confidence=confidence, second=second, unit=1.0)

    def beyond(
        self, deviations: float = 3.0, *, interval: Errors = "noise", confidence: float = 0.95
    ) -> Diagnostic:
        """Returns the share of rows whose residual is larger than a multiple of the RMSE.

        It is computed from the histogram, with linear interpolation within a bin.

        Parameters
        ----------
        deviations
            How many; of normal residuals 0.27 % lie beyond 3.
        interval, confidence
            As of `rmse`.
        """
        end = deviations * self.rmse().value / self.residual_bound
        cuts = self._cuts
        width = cuts[1] - cuts[0]
        inside = np.clip((np.minimum(cuts[1:], end) - np.maximum(cuts[:-1], -end)) / width, 0, 1)
        return self._bins.ratio(
            np.nan_to_num(1 - inside),
            np.ones(len(self.histogram)),
            interval=interval,
            confidence=confidence,
        )

    def by_bins(self, *, interval: Errors = "noise", confidence: float = 0.95) -> Any:
        """Returns the residual plot: mean residual and spread by bin, with intervals.

        Bins with fewer rows than three deviations of their noise are joined with the next. A mean
        away from 0 shows a nonlinearity that the model lacks; unequal spreads show unequal
        variances. The sampling error of a spread uses the fourth moment of all residuals.

        Parameters
        ----------
        interval, confidence
            As of `rmse`.
        """
        check_errors(interval)
        groups = join_bins(self.sums[:, 0], deviation=self.deviations[0])
        sums = np.stack([self.sums[low:high].sum(axis=0) for low, high in groups])
        widths = np.array([high - low for low, high in groups], dtype=np.float64)
        z, unit = critical(confidence, self.noise), self.residual_bound
        means, spreads = [], []
        for (rows, first, second), width in zip(sums.tolist(), widths.tolist(), strict=True):
            deviation = self.deviations[0] * math.sqrt(width)
            cells = NoisyCells(
                counts=np.array([rows, first, second]), deviation=deviation, law=self.noise
            )
            means.append(
                cells.ratio(
                    np.array([0, unit / WEIGHT, 0]),
                    np.array([1.0, 0, 0]),
                    interval=interval,
                    confidence=confidence,
                    limits=(-unit, unit),
                    moments=np.array([[unit**2 * second / WEIGHT, unit * first / WEIGHT, rows]]),
                )
            )
            spreads.append(
                self._spread(rows, first / WEIGHT, second / WEIGHT, deviation, z=z, both=interval)
            )
        low, high = (self.edges[[ends[one] for ends in groups]] for one in (0, 1))
        return data_frame(
            low=low,
            high=high,
            rows=sums[:, 0],
            mean=[one.value for one in means],
            lower=[one.lower for one in means],
            upper=[one.upper for one in means],
            noise_error=[one.noise_error for one in means],
            spread=[one[0] for one in spreads],
            spread_lower=[one[1] for one in spreads],
            spread_upper=[one[2] for one in spreads],
        )

    def _spread(
        self, rows: float, first: float, second: float, noise: float, *, z: float, both: Errors
    ) -> tuple[float, float, float]:
        """The deviation of residuals of a bin, and the ends of its interval."""
        if not rows > noise:
            return math.nan, 0.0, self.residual_bound
        mean, square = first / rows, second / rows
        variance = square - mean**2 + (noise / WEIGHT / rows) ** 2
        slopes = np.array([square - 2 * mean**2, 2 * mean / WEIGHT, 1 / WEIGHT])
        error = noise / rows * float(np.linalg.norm(slopes))
        if both == "both":
            error = math.hypot(error, math.sqrt((self._fourth - 1) / rows) * max(variance, 0.0))
        ends = np.clip([variance, variance - z * error, variance + z * error], 0.0, 1.0)
        value, lower, upper = (self.residual_bound * np.sqrt(ends)).tolist()
        return value, lower, upper

    def histogram_of_residuals(self, *, confidence: float = 0.95) -> Any:
        """Returns the histogram of the clamped residuals, in the unit of the target.

        Parameters
        ----------
        confidence
            Of the intervals, strictly between 0 and 1.
        """
        cuts = self._cuts * self.residual_bound
        half = critical(confidence, self.noise) * self.deviations[1]
        return data_frame(
            low=cuts[:-1],
            high=cuts[1:],
            count=self.histogram,
            lower=self.histogram - half,
            upper=self.histogram + half,
        )

    def normal_plot(self, *, interval: Errors = "noise", confidence: float = 0.95) -> Any:
        """Returns the normal plot: residuals at the edges of bins, against normal quantiles.

        For normal residuals the points lie on a line whose slope is their deviation.

        Parameters
        ----------
        interval, confidence
            As of `rmse`.
        """
        size = len(self.histogram)
        below = np.tri(size - 1, size)
        found = self._bins.ratios(
            below, np.ones_like(below), interval=interval, confidence=confidence
        )
        shares = np.maximum.accumulate(found.value)
        return data_frame(
            residual=self._cuts[1:-1] * self.residual_bound,
            share=shares,
            normal=ndtri(shares),
            lower=ndtri(found.lower),
            upper=ndtri(found.upper),
        )

    def summary(self, *, interval: Errors = "noise", confidence: float = 0.95) -> Any:
        """Returns all numbers with their errors and intervals, as a data frame by name.

        Parameters
        ----------
        interval, confidence
            As of `rmse`; the interval of R^2 includes only the noise.
        """
        named: dict[str, Any] = {"interval": interval, "confidence": confidence}
        found = {
            "R^2": self.r2(confidence=confidence),
            "RMSE": self.rmse(**named),
            "MAE": self.mae(**named),
            "beyond 3 RMSE": self.beyond(**named),
            "cut": self.cut(**named),
        }
        return summarize(found)

    def _repr_html_(self) -> str:
        return str(self.summary().to_html(float_format="{:.4g}".format))

    def __repr__(self) -> str:
        return f"ResidualTable({len(self.sums)} bins, {self.guarantee})"


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
        for start in range(0, len(residuals), _CHUNK):
            block = slice(start, start + _CHUNK)
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
        return cls(sums=sums.tolist(), histogram=histogram.tolist(), totals=totals.tolist())

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
        release_numbers(noise, part, unit_log2=unit, bits=source)
        for noise, (part, unit) in zip(noises, exact.parts(), strict=True)
    ]
    first, second, third = (noise.standard_deviation for noise in noises)
    sums = found[0].reshape(number + 1, 3)
    laws = {law_of(noise) for noise in noises}
    return ResidualTable(
        edges=edges,
        sums=sums[:-1],
        missing=float(sums[-1, 0]),
        histogram=found[1],
        totals=found[2],
        deviations=(first, second, third),
        noise="laplace" if "laplace" in laws else "normal",
        residual_bound=bound,
        target_bounds=ends,
        event=events.compose([*spent, *(noise.event for noise in noises)]),
        guarantee=asked,
        protects=owners.protects,
    )


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
    noisy = release_numbers(noise, counts.tolist(), bits=bits)
    seen = np.flatnonzero(noisy > noise.error_bound(1 - _MISTAKE / len(counts)))
    return math.ldexp(1.0, int(seen[-1]) + least) if seen.size else widest
