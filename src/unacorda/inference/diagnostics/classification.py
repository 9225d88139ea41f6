"""Releases of the tables of scores of classifiers, of two classes and of more."""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from typing import Any, Final, Literal

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import expit

from unacorda.bits import RandomBits, source_of
from unacorda.checks import demand
from unacorda.errors import InvalidParameter
from unacorda.inference.diagnostics.cells import critical, summarize
from unacorda.inference.diagnostics.scores import ScoreTable
from unacorda.inference.diagnostics.scoring import (
    RowNorms,
    RowOwners,
    class_codes,
    class_scores,
    known_classes,
    score_bins,
    score_edges,
)
from unacorda.inference.records import Floats, check_budget, data_frame, shareable
from unacorda.inference.sums import law_of, release_numbers
from unacorda.privacy import events
from unacorda.privacy.guarantees import Guarantee
from unacorda.privacy.neighbors import Neighbors, ReplaceOne

Binning = Literal["even", "quantiles"]

_MOST_CLASSES: Final = 256
_QUANTILES: Final = Fraction(1, 10)
"""The share of the budget that finds the quantiles of the scores."""

_FINE: Final = np.concatenate([[0.0], expit(np.linspace(-14, 14, 1023)), [1.0]])
"""Edges between which quantiles of scores are found, even in log odds."""


def score_table(
    model: Any,
    X: ArrayLike,
    y: ArrayLike,
    *,
    budget: Guarantee,
    bins: int | ArrayLike = 64,
    binning: Binning = "even",
    classes: tuple[Any, Any] | None = None,
    rows_per_person: int = 1,
    person: ArrayLike | None = None,
    neighbors: Neighbors = ReplaceOne,
    bits: RandomBits | None = None,
) -> ScoreTable:
    r"""Releases the score table of a classifier, from which its diagnostics are computed for free.

    The model must be public, such as a private fit, and must treat every row separately. Use rows
    that did not fit it. One noisy histogram of bins and classes is released. A row whose score or
    feature is not a number has a bin of its own; a row with another label is not counted.

    Source: Hanley and McNeil 1982, Radiology 143 (area from tables); docs/proofs/diagnostics.md.

    Parameters
    ----------
    model
        A classifier of two classes with `predict_proba`; or a function from X to the probability of
        the second class; or None, if X has the scores.
    X
        Features, shape (n, p); or scores within [0, 1], shape (n,).
    y
        Labels, shape (n,).
    budget
        Any guarantee; all of it is spent.
    bins
        How many even bins of [0, 1]; or their public edges.
    binning
        "quantiles" spends a tenth of the budget on edges with about equal counts per bin, for
        scores that cluster at one end, such as those of rare events.
    classes
        The two labels, public; by default those of the model, else (0, 1). The second is positive.
    rows_per_person
        How many rows a person has at most.
    person
        The owner of each row, shape (n,); the first `rows_per_person` rows of each owner count. If
        it is omitted, the caller promises that no owner has more.
    neighbors
        The neighboring relation: a person's rows replaced, or added and removed.
    bits
        Omit it for secure noise; `SeededBits` makes a release reproducible, and not private.

    Returns
    -------
    ScoreTable
        The noisy counts.

    Raises
    ------
    InvalidParameter
        For shapes, dtypes and parameters that cannot be used, and for a model that raises an error.

    Examples
    --------
    >>> import unacorda
    >>> drawn = np.random.default_rng(1)
    >>> scores = drawn.random(20_000)
    >>> y = drawn.random(20_000) < scores
    >>> table = score_table(None, scores, y, budget=unacorda.ZCDP(0.1), bits=unacorda.SeededBits(1))
    >>> area = table.auc()
    >>> 0.82 < area.lower < area.value < area.upper < 0.85
    True
    """
    asked, owners = check_budget(budget), RowOwners(rows=rows_per_person, neighbors=neighbors)
    demand(binning in ("even", "quantiles"), "binning", binning, expected="'even' or 'quantiles'")
    edges = score_edges(bins)
    if binning == "quantiles" and not isinstance(bins, int | np.integer):
        raise InvalidParameter("bins", bins, expected="a number of bins for binning='quantiles'")
    labels = known_classes(model, classes)
    demand(len(labels) == 2, "classes", labels, expected="two labels; class_tables is for more")
    scores = class_scores(model, X, classes=2)[:, 1]
    codes = class_codes(y, labels, rows=len(scores))
    kept = owners.kept(person, number=len(scores)) & (codes >= 0)
    scores, codes, source = scores[kept], codes[kept], source_of(bits)
    paid, spent = asked, []
    if binning == "quantiles":
        split = shareable(asked, releases=2)
        noise = owners.noise(split * _QUANTILES, RowNorms.of_counts())
        fine = np.bincount(score_bins(scores, _FINE), minlength=len(_FINE))
        edges = _quantiles(release_numbers(noise, fine.tolist(), bits=source)[:-1], len(edges) - 1)
        paid, spent = split * (1 - _QUANTILES), [noise.event]
    noise = owners.noise(paid, RowNorms.of_counts())
    size = len(edges)  # the bins and one for rows without a score
    counts = np.bincount(codes * size + score_bins(scores, edges), minlength=2 * size)
    negatives, positives = release_numbers(noise, counts.tolist(), bits=source).reshape(2, size)
    return ScoreTable(
        edges=edges,
        positives=positives[:-1],
        negatives=negatives[:-1],
        missing=(float(positives[-1]), float(negatives[-1])),
        deviation=noise.standard_deviation,
        noise=law_of(noise),
        event=events.compose([*spent, noise.event]),
        guarantee=asked,
        protects=owners.protects,
    )


def _quantiles(counts: Floats, bins: int) -> Floats:
    """Edges with about as many of these counts in each bin; fewer where many scores are equal."""
    sums = np.maximum.accumulate(np.cumsum(counts))
    wanted = max(float(sums[-1]), 1.0) * np.arange(1, bins) / bins
    places = np.minimum(np.searchsorted(sums, wanted), len(sums) - 1)
    inner = _FINE[1:][places]
    return np.unique(np.concatenate([[0.0, 0.5], inner, [1.0]]))


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class ClassTables:
    """Noisy counts of rows by class and predicted class, and a score table for each class.

    Parameters
    ----------
    classes
        The labels, in their order.
    counts
        Rows by class (lines) and predicted class (columns), shape (K, K).
    missing
        Of rows of each class without a score, shape (K,).
    tables
        For each class the table of its scores against all other classes.
    deviation
        The standard deviation of the noise of each count, of the tables too.
    noise
        The distribution of the noise: "normal" or "laplace".
    event
        The event for the accountant, of all counts together.
    guarantee
        The guarantee.

    Examples
    --------
    >>> import unacorda
    >>> y = np.arange(3000) % 3
    >>> found = class_tables(
    ...     None,
    ...     np.eye(3)[y] * 0.4 + 0.2,
    ...     y,
    ...     classes=["a", "b", "c"],
    ...     budget=unacorda.GDP(1),
    ...     bits=unacorda.SeededBits(1),
    ... )
    >>> found.classes, len(found.tables)
    (['a', 'b', 'c'], 3)
    """

    classes: list[Any]
    counts: Floats
    missing: Floats
    tables: list[ScoreTable]
    deviation: float
    noise: Literal["normal", "laplace"]
    event: events.Event
    guarantee: Guarantee

    def confusion_matrix(self, *, confidence: float = 0.95) -> Any:
        """Returns the counts of rows by class and by the class that they are given.

        Parameters
        ----------
        confidence
            Of the intervals, strictly between 0 and 1.
        """
        size, half = len(self.classes), critical(confidence, self.noise) * self.deviation
        flat = self.counts.ravel()
        return data_frame(
            actual=[one for one in self.classes for _ in range(size)],
            predicted=self.classes * size,
            count=flat,
            noise_error=np.full(size * size, self.deviation),
            lower=flat - half,
            upper=flat + half,
        )

    def summary(self, *, interval: Any = "noise", confidence: float = 0.95) -> Any:
        """Returns one line per class: the area under its ROC curve against all other classes.

        Parameters
        ----------
        interval
            "noise" or "both".
        confidence
            Of the intervals, strictly between 0 and 1.
        """
        areas = [one.auc(interval=interval, confidence=confidence) for one in self.tables]
        return summarize(dict(zip(self.classes, areas, strict=True)), index="class")

    def _repr_html_(self) -> str:
        return str(self.summary().to_html(float_format="{:.4g}".format))

    def __repr__(self) -> str:
        return f"ClassTables({len(self.classes)} classes, noise {self.deviation:.4g} a count)"


def class_tables(
    model: Any,
    X: ArrayLike,
    y: ArrayLike,
    *,
    budget: Guarantee,
    bins: int | ArrayLike = 64,
    classes: Any = None,
    rows_per_person: int = 1,
    person: ArrayLike | None = None,
    neighbors: Neighbors = ReplaceOne,
    bits: RandomBits | None = None,
) -> ClassTables:
    r"""Releases the confusion matrix of K classes, and a score table for each class.

    A row is counted once in the matrix and once in each of K tables, so the sensitivity is sqrt(K +
    1) times that of one table. If the largest scores are equal, the first class counts.

    Parameters
    ----------
    model
        A classifier with `predict_proba`; or a function from X to a probability of each class; or
        None, if X has these, shape (n, K).
    X, y, budget, bins, rows_per_person, person, neighbors, bits
        As for `score_table`.
    classes
        The labels, public; by default those of the model.

    Returns
    -------
    ClassTables
        The noisy counts.

    Raises
    ------
    InvalidParameter
        As for `score_table`.

    Examples
    --------
    >>> import unacorda
    >>> y = np.arange(3000) % 3
    >>> scores = np.eye(3)[y] * 0.4 + 0.2
    >>> found = class_tables(
    ...     None, scores, y, classes=[0, 1, 2], budget=unacorda.GDP(1), bits=unacorda.SeededBits(1)
    ... )
    >>> found.counts.round(-2).astype(int).tolist()
    [[1000, 0, 0], [0, 1000, 0], [0, 0, 1000]]
    """
    asked, owners = check_budget(budget), RowOwners(rows=rows_per_person, neighbors=neighbors)
    edges, labels = score_edges(bins), known_classes(model, classes)
    size = len(labels)
    demand(size <= _MOST_CLASSES, "classes", size, expected=f"{_MOST_CLASSES} labels at most")
    scores = class_scores(model, X, classes=size)
    codes = class_codes(y, labels, rows=len(scores))
    kept = owners.kept(person, number=len(scores)) & (codes >= 0)
    scores, codes = scores[kept], codes[kept]
    scores[np.isnan(scores).any(axis=1)] = np.nan
    given = np.where(np.isnan(scores[:, 0]), size, np.nan_to_num(scores).argmax(axis=1))
    parts = [np.bincount(codes * (size + 1) + given, minlength=size * (size + 1))]
    wide = len(edges)
    for place in range(size):
        own = (codes == place) * wide + score_bins(scores[:, place], edges)
        parts.append(np.bincount(own, minlength=2 * wide))
    noise = owners.noise(asked, RowNorms.of_counts(size + 1))
    counts = release_numbers(noise, np.concatenate(parts).tolist(), bits=source_of(bits))
    matrix, rest = counts[: len(parts[0])].reshape(size, size + 1), counts[len(parts[0]) :]
    shared: dict[str, Any] = {
        "deviation": noise.standard_deviation,
        "noise": law_of(noise),
        "event": noise.event,
        "guarantee": asked,
    }
    tables = [
        ScoreTable(
            edges=edges,
            positives=positives[:-1],
            negatives=negatives[:-1],
            missing=(float(positives[-1]), float(negatives[-1])),
            protects=owners.protects,
            **shared,
        )
        for negatives, positives in rest.reshape(size, 2, wide)
    ]
    return ClassTables(
        classes=labels, counts=matrix[:, :-1], missing=matrix[:, -1], tables=tables, **shared
    )
