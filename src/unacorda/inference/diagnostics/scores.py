r"""The score table: noisy counts by bin of the score and by class, and its diagnostics.

A row lies in one bin of its score and class, so the table is a histogram. A person with k rows
changes it by at most k in the l2 norm if they are added or removed, and by sqrt 2 k if they are
replaced. The confusion matrix, the ROC and its area, calibration and losses are computed from the
released table.

The area A = sum_b p_b (Q_{b-1} + q_b / 2) / (P N) of positives p and negatives q, with cumulative
sums Q and totals P, N, has the noise variance sigma^2 (sum_b (F_b - A)^2 / P^2 + sum_b (G_b - A)^2
/ N^2), F_b = (Q_{b-1} + q_b / 2) / N and G_b = 1 - (P_{b-1} + p_b / 2) / P, to first order.
Proofs: docs/proofs/diagnostics.md.
"""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from numpy.typing import ArrayLike
from scipy.optimize import isotonic_regression

from unacorda import checks
from unacorda.inference.diagnostics.cells import (
    CLEAR,
    UNIT,
    Diagnostic,
    Errors,
    NoisyCells,
    check_errors,
    critical,
    join_bins,
    summarize,
)
from unacorda.inference.records import Floats, data_frame
from unacorda.privacy.events import Event
from unacorda.privacy.guarantees import Guarantee


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class ScoreTable:
    """Noisy counts of rows by bin of the score and by class; all of it may be published.

    Every method is computed from the counts and costs nothing. `interval="noise"` includes only the
    noise, for the model on exactly these rows; `"both"` adds the sampling error of fresh rows.

    Parameters
    ----------
    edges
        Of the bins of the score, rising from 0 to 1, shape (B + 1,); the last bin holds 1.
    positives, negatives
        Noisy counts of the rows of the second and of the first class in each bin, shape (B,).
    missing
        The two counts of rows without a score, positives first.
    deviation
        The standard deviation of the noise of each count.
    noise
        The distribution of the noise: "normal" or "laplace".
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
    >>> scores = np.linspace(0, 1, 2000)
    >>> table = inference.score_table(
    ...     None, scores, scores > 0.5, budget=unacorda.GDP(1), bits=unacorda.SeededBits(1)
    ... )
    >>> table.auc().value > 0.99
    True
    """

    edges: Floats
    positives: Floats
    negatives: Floats
    missing: tuple[float, float]
    deviation: float
    noise: Literal["normal", "laplace"]
    event: Event
    guarantee: Guarantee
    protects: str

    @property
    def _bins(self) -> int:
        return len(self.positives)

    @property
    def _centres(self) -> Floats:
        return np.asarray((self.edges[:-1] + self.edges[1:]) / 2)

    @property
    def _cells(self) -> NoisyCells:
        """All positives, then all negatives."""
        counts = np.concatenate([self.positives, self.negatives])
        return NoisyCells(counts=counts, deviation=self.deviation, law=self.noise)

    def _weights(self, positives: ArrayLike, negatives: ArrayLike) -> Floats:
        """Weights of cells from those of the bins of both classes, or one for all bins."""
        one, other, _ = np.broadcast_arrays(positives, negatives, np.zeros(self._bins))
        return np.concatenate([one, other], axis=-1).astype(np.float64)

    def _above(self, at: float) -> Floats:
        """1 in the bins whose scores are called positive at the edge nearest to `at`."""
        return np.where(self.edges[:-1] >= self.threshold(at), 1.0, 0.0)

    def threshold(self, at: float = 0.5) -> float:
        """Returns the edge nearest to a score, the threshold for positives.

        Parameters
        ----------
        at
            A score.
        """
        checks.finite(at=at)
        return float(self.edges[np.argmin(np.abs(self.edges - at))])

    def confusion_matrix(self, at: float = 0.5, *, confidence: float = 0.95) -> Any:
        """Returns the counts of rows by their class and by the class that they are given.

        Parameters
        ----------
        at
            The score from which on a row is called positive: the nearest edge is taken.
        confidence
            Of the intervals, strictly between 0 and 1.
        """
        above = self._above(at)
        weights = np.stack(
            [
                self._weights(one * class_, one * (1 - class_))
                for class_ in (0.0, 1.0)
                for one in (1 - above, above)
            ]
        )
        counts, errors, half = self._cells.sums(weights, confidence=confidence)
        return data_frame(
            actual=[0, 0, 1, 1],
            predicted=[0, 1, 0, 1],
            count=counts,
            noise_error=errors,
            lower=counts - half,
            upper=counts + half,
        )

    def accuracy(
        self, at: float = 0.5, *, interval: Errors = "noise", confidence: float = 0.95
    ) -> Diagnostic:
        """Returns the share of rows that are classified correctly.

        Parameters
        ----------
        at
            The score from which on a row is called positive: the nearest edge is taken.
        interval
            "noise" or "both".
        confidence
            Of the interval, strictly between 0 and 1.
        """
        above = self._above(at)
        over, under = self._weights(above, 1 - above), self._weights(1.0, 1.0)
        return self._ratio(over, under, interval, confidence)

    def precision(
        self, at: float = 0.5, *, interval: Errors = "noise", confidence: float = 0.95
    ) -> Diagnostic:
        """Returns the share of positives among the rows that are classified as positive.

        Parameters
        ----------
        at, interval, confidence
            As of `accuracy`.
        """
        above = self._above(at)
        over, under = self._weights(above, 0.0), self._weights(above, above)
        return self._ratio(over, under, interval, confidence)

    def recall(
        self, at: float = 0.5, *, interval: Errors = "noise", confidence: float = 0.95
    ) -> Diagnostic:
        """Returns the share of positives that are classified as positive.

        Parameters
        ----------
        at, interval, confidence
            As of `accuracy`.
        """
        over, under = self._weights(self._above(at), 0.0), self._weights(1.0, 0.0)
        return self._ratio(over, under, interval, confidence)

    def f1(
        self, at: float = 0.5, *, interval: Errors = "noise", confidence: float = 0.95
    ) -> Diagnostic:
        """Returns the harmonic mean of precision and recall.

        Parameters
        ----------
        at, interval, confidence
            As of `accuracy`.
        """
        above = self._above(at)
        over, under = self._weights(2 * above, 0.0), self._weights(above + 1, above)
        return self._ratio(over, under, interval, confidence)

    def brier(self, *, interval: Errors = "noise", confidence: float = 0.95) -> Diagnostic:
        """Returns the Brier score: the mean of (centre of the bin - class)^2.

        It differs by at most a bin's width from that of the exact scores.

        Parameters
        ----------
        interval, confidence
            As of `accuracy`.
        """
        centres = self._centres
        over, under = self._weights((1 - centres) ** 2, centres**2), self._weights(1.0, 1.0)
        return self._ratio(over, under, interval, confidence)

    def log_loss(self, *, interval: Errors = "noise", confidence: float = 0.95) -> Diagnostic:
        """Returns the mean of -log of the probability of a row's class, at the centre of its bin.

        Parameters
        ----------
        interval, confidence
            As of `accuracy`.
        """
        losses = self._weights(-np.log(self._centres), -np.log1p(-self._centres))
        return self._cells.ratio(
            losses,
            self._weights(1.0, 1.0),
            interval=interval,
            confidence=confidence,
            limits=(float(losses.min()), float(losses.max())),
        )

    def _ratio(
        self, over: Floats, under: Floats, interval: Errors, confidence: float
    ) -> Diagnostic:
        return self._cells.ratio(over, under, interval=interval, confidence=confidence)

    def auc(self, *, interval: Errors = "noise", confidence: float = 0.95) -> Diagnostic:
        """Returns the area under the ROC curve: the chance that a positive has the larger score.

        Rows of one bin count as ties. If a class has fewer rows than five deviations of the noise
        of its count, there is no value, and `cannot` gives the reason.

        Source: DeLong, DeLong, Clarke-Pearson 1988, Biometrics 44 (sampling error).

        Parameters
        ----------
        interval, confidence
            As of `accuracy`.
        """
        check_errors(interval)
        if reason := self._one_class():
            return Diagnostic.hidden(reason, limits=UNIT)
        found, slopes = area(self.positives, self.negatives)
        within = min(max(found, 0.0), 1.0)
        noise = self.deviation * math.sqrt(float(slopes @ slopes))
        # The squares hold noise, of mean 0 in the counts; no area has a larger variance than this.
        fewest = min(self.positives.sum(), self.negatives.sum())
        most = within * (1 - within) / fewest
        sampling = min(max(float(slopes**2 @ self._cells.counts), 0.0), most)
        return Diagnostic.of(
            found,
            noise=noise,
            sampling=math.sqrt(sampling),
            interval=interval,
            z=critical(confidence, self.noise),
            limits=UNIT,
        )

    def _one_class(self) -> str:
        """A sentence where too few rows of a class stand out of the noise."""
        deviation = self.deviation * math.sqrt(self._bins)
        for name, counts in (("second", self.positives), ("first", self.negatives)):
            if counts.sum() < CLEAR * deviation:
                return (
                    f"The rows of the {name} class are fewer than the noise can tell from none: "
                    f"their number is known to about {2 * deviation:.3g}. A larger budget, fewer "
                    "bins or more rows help."
                )
        return ""

    def _rates(self) -> tuple[Floats, Floats]:
        """False and true positive rates at each edge, highest first, rising by least squares."""
        rates = []
        for counts in (self.negatives, self.positives):
            sums = np.concatenate([[0.0], np.cumsum(counts[::-1])])
            whole = max(float(sums[-1]), self.deviation)
            rates.append(np.clip(isotonic_regression(sums / whole).x, 0.0, 1.0))
        return rates[0], rates[1]

    def roc(self, *, interval: Errors = "noise", confidence: float = 0.95) -> Any:
        """Returns the ROC curve, one line per edge from the highest: both rates with intervals.

        The curve rises: it is the isotonic least squares fit to the noisy rates. Its intervals are
        those of the noisy rates, and it may touch an end of them.

        Parameters
        ----------
        interval, confidence
            As of `accuracy`.
        """
        above = self._edges_above()
        false, true = self._rates()
        named: dict[str, Any] = {"interval": interval, "confidence": confidence}
        hits = self._cells.ratios(self._weights(above, 0.0), self._weights(1.0, 0.0), **named)
        alarms = self._cells.ratios(self._weights(0.0, above), self._weights(0.0, 1.0), **named)
        return data_frame(
            threshold=self.edges[::-1],
            false_positive_rate=false,
            false_lower=alarms.lower,
            false_upper=alarms.upper,
            true_positive_rate=true,
            lower=hits.lower,
            upper=hits.upper,
        )

    def _edges_above(self) -> Floats:
        """The bins above each edge, the highest edge first, one line each."""
        return np.tri(self._bins + 1, self._bins, -1)[:, ::-1]

    def kolmogorov_smirnov(
        self, *, interval: Errors = "noise", confidence: float = 0.95
    ) -> Diagnostic:
        """Returns the largest difference of both rates of the ROC curve, over all edges.

        The largest of noisy differences is a little too large. The errors are those at its edge.

        Parameters
        ----------
        interval, confidence
            As of `accuracy`.
        """
        check_errors(interval)
        if reason := self._one_class():
            return Diagnostic.hidden(reason, limits=UNIT)
        false, true = self._rates()
        place = int(np.argmax(true - false))
        above = self._edges_above()[place]
        slopes = self._weights(
            (above - true[place]) / self.positives.sum(),
            (false[place] - above) / self.negatives.sum(),
        )
        return Diagnostic.of(
            float(true[place] - false[place]),
            noise=self.deviation * math.sqrt(float(slopes @ slopes)),
            sampling=math.sqrt(max(float(slopes**2 @ self._cells.counts), 0.0)),
            interval=interval,
            z=critical(confidence, self.noise),
            limits=UNIT,
        )

    def precision_recall(self, *, interval: Errors = "noise", confidence: float = 0.95) -> Any:
        """Returns precision, with intervals, and recall at each edge, the highest first.

        Parameters
        ----------
        interval, confidence
            As of `accuracy`.
        """
        above = self._edges_above()[1:]
        found = self._cells.ratios(
            self._weights(above, 0.0),
            self._weights(above, above),
            interval=interval,
            confidence=confidence,
        )
        return data_frame(
            threshold=self.edges[-2::-1],
            recall=self._rates()[1][1:],
            precision=found.value,
            lower=found.lower,
            upper=found.upper,
        )

    def lift(self, *, interval: Errors = "noise", confidence: float = 0.95) -> Any:
        """Returns the lift: the precision of the highest scores over that of random rows.

        There is one line per edge from the highest: the share of rows above it, and the precision
        there over that of all rows. Intervals treat the share of positives in all rows as fixed at
        its released value.

        Parameters
        ----------
        interval, confidence
            As of `accuracy`.
        """
        curve = self.precision_recall(interval=interval, confidence=confidence)
        rows = self.positives + self.negatives
        whole = max(float(rows.sum()), self.deviation)
        base = float(np.clip(self.positives.sum() / whole, self.deviation / whole, 1.0))
        sums = isotonic_regression(np.cumsum(rows[::-1]) / whole).x
        return data_frame(
            threshold=curve["threshold"],
            share=np.clip(sums, 0.0, 1.0),
            lift=curve["precision"] / base,
            lower=curve["lower"] / base,
            upper=curve["upper"] / base,
        )

    def _joined(self) -> Floats:
        """Neighboring bins joined until their rows stand out of the noise, as lines of weights."""
        rows, places = self.positives + self.negatives, np.arange(self._bins)
        groups = join_bins(rows, deviation=math.sqrt(2) * self.deviation)
        return np.array([(low <= places) & (places < high) for low, high in groups], dtype=float)

    def calibration(self, *, interval: Errors = "noise", confidence: float = 0.95) -> Any:
        """Returns the calibration curve: the share of positives against the mean score, by bins.

        Bins with fewer rows than three deviations of their noise are joined with the next.

        Parameters
        ----------
        interval, confidence
            As of `accuracy`.
        """
        groups = self._joined()
        found = self._cells.ratios(
            self._weights(groups, 0.0),
            self._weights(groups, groups),
            interval=interval,
            confidence=confidence,
        )
        first, last = groups.argmax(axis=1), self._bins - groups[:, ::-1].argmax(axis=1)
        low, high = self.edges[first], self.edges[last]
        rows = groups @ (self.positives + self.negatives)
        scores = groups @ ((self.positives + self.negatives) * self._centres)
        with np.errstate(all="ignore"):
            means = np.nan_to_num(scores / rows, nan=0.0)
        return data_frame(
            low=low,
            high=high,
            score=np.clip(means, low, high),
            observed=found.value,
            noise_error=found.noise_error,
            sampling_error=found.sampling_error,
            lower=found.lower,
            upper=found.upper,
            rows=rows,
        )

    def calibration_error(
        self, *, interval: Errors = "noise", confidence: float = 0.95
    ) -> Diagnostic:
        """Returns the mean square of (share of positives - mean score) over joined bins.

        Its value and interval are for the bins as `calibration` joins them by the noisy counts,
        with each score at the center of its bin. The error of single bins is at least as large,
        since errors of both signs in a joined bin cancel. The part that the noise adds to the
        squares is subtracted, and with `interval="both"` also the part that sampling adds for a
        calibrated model. The rest may be below 0 by chance; then it is 0.

        Source: Brocker 2012, Climate Dynamics 39 (the bias of squares).

        Parameters
        ----------
        interval, confidence
            As of `accuracy`.
        """
        groups, centers = self._joined(), self._centres
        rows = np.maximum(groups @ (self.positives + self.negatives), 0.0)
        if not rows.sum() > 0:
            reason = "The rows are fewer than the noise can tell from none."
            return Diagnostic.hidden(reason, limits=UNIT)
        some = rows > 0
        shares = rows[some] / rows.sum()
        found = self._cells.ratios(
            self._weights(groups * (1 - centers), -groups * centers),
            self._weights(groups, groups),
            interval=interval,
            confidence=confidence,
            limits=(-1.0, 1.0),
        )
        off, noise = found.value[some], found.noise_error[some]
        sampling = found.sampling_error[some]
        bias = noise**2 + (sampling**2 if interval == "both" else 0.0)
        square = float(shares @ (off**2 - bias))

        def error(part: Floats) -> float:
            return math.sqrt(float(shares**2 @ (4 * off**2 * part**2 + 2 * part**4)))

        return Diagnostic.of(
            square,
            noise=error(noise),
            sampling=error(sampling),
            interval=interval,
            z=critical(confidence, self.noise),
            limits=UNIT,
        )

    def summary(
        self, at: float = 0.5, *, interval: Errors = "noise", confidence: float = 0.95
    ) -> Any:
        """Returns all numbers with their errors and intervals, as a data frame by name.

        Parameters
        ----------
        at, interval, confidence
            As of `accuracy`.
        """
        named: dict[str, Any] = {"interval": interval, "confidence": confidence}
        found = {
            "AUC": self.auc(**named),
            "Kolmogorov-Smirnov": self.kolmogorov_smirnov(**named),
            "accuracy": self.accuracy(at, **named),
            "precision": self.precision(at, **named),
            "recall": self.recall(at, **named),
            "F1": self.f1(at, **named),
            "Brier score": self.brier(**named),
            "log loss": self.log_loss(**named),
            "calibration error": self.calibration_error(**named),
        }
        return summarize(found)

    def _repr_html_(self) -> str:
        return str(self.summary().to_html(float_format="{:.4g}".format))

    def __repr__(self) -> str:
        return (
            f"ScoreTable({self._bins} bins, noise {self.deviation:.4g} a count, {self.guarantee})"
        )


def area(positives: Floats, negatives: Floats) -> tuple[float, Floats]:
    """The area under the ROC curve of counts by bins, and its derivatives by them.

    >>> round(area(np.array([1.0, 3.0]), np.array([4.0, 0.0]))[0], 3)
    0.875
    """
    p, q = positives, negatives
    below = (np.cumsum(q) - q / 2) / q.sum()
    above = 1 - (np.cumsum(p) - p / 2) / p.sum()
    found = float(p @ below / p.sum())
    return found, np.concatenate([(below - found) / p.sum(), (above - found) / q.sum()])
