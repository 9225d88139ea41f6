"""Results of attacks: scores of people, compared with the truth."""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from unacorda import checks
from unacorda.audit.arguments import floats, level, truths
from unacorda.audit.bounds import Bound
from unacorda.errors import InvalidParameter

Bools = NDArray[np.bool_]
Floats = NDArray[np.float64]


@dataclass(frozen=True, slots=True, kw_only=True, repr=False, eq=False)
class Attack:
    """Guesses about a trait of people, such as membership, and the empirical epsilon.

    Parameters
    ----------
    scores
        One number per person, higher for a stronger belief in the trait.
    truth
        One boolean a person: whether they have the trait.
    bound
        The lower bound on epsilon that the guesses prove, if there were fair coins.
    promised
        The guaranteed epsilon at the bound's delta, if any.

    Raises
    ------
    InvalidParameter
        For NaN, arrays of different lengths, and a truth that is the same for all.

    Examples
    --------
    >>> Attack(scores=np.array([0.0, 1.0]), truth=np.array([False, True]))
    Attack(2 people, AUC 1, advantage 1)
    """

    scores: Floats
    truth: Bools
    bound: Bound | None = None
    promised: float | None = None

    def __post_init__(self) -> None:
        scores, truth = floats("scores", self.scores), truths("truth", self.truth)
        if scores.ndim != 1 or truth.shape != scores.shape or np.isnan(scores).any():
            raise InvalidParameter(
                "scores",
                f"arrays of shapes {scores.shape} and {truth.shape}",
                expected="one number, not NaN, and one truth for everybody",
            )
        if truth.all() or not truth.any():
            expected = "some people with the trait, and some without"
            raise InvalidParameter("truth", "people of one kind", expected=expected)
        if self.promised is not None:
            object.__setattr__(self, "promised", level(promised=self.promised))
        object.__setattr__(self, "scores", scores)
        object.__setattr__(self, "truth", truth)

    def roc(self) -> tuple[Floats, Floats]:
        """False-positive and true-positive rates of all thresholds, from (0, 0) to (1, 1)."""
        order = np.argsort(-self.scores, kind="stable")
        last = np.append(np.diff(self.scores[order]) != 0, True)  # equal scores go together
        hits = np.cumsum(self.truth[order])[last] / self.truth.sum()
        alarms = np.cumsum(~self.truth[order])[last] / (~self.truth).sum()
        return np.concatenate([[0.0], alarms]), np.concatenate([[0.0], hits])

    @property
    def auc(self) -> float:
        """The chance that a person with the trait scores higher; 1/2 is guessing."""
        alarms, hits = self.roc()
        return float(np.trapezoid(hits, alarms))

    @property
    def advantage(self) -> float:
        """The largest difference of true-positive and false-positive rates."""
        alarms, hits = self.roc()
        return float((hits - alarms).max())

    def true_positive_rate(self, *, fpr: float) -> float:
        """Return the largest true-positive rate at a false-positive rate.

        Parameters
        ----------
        fpr
            The largest false-positive rate, from 0 to 1.

        Returns
        -------
        float
            The share of members found, from 0 to 1.

        Raises
        ------
        InvalidParameter
            For a rate outside of 0 to 1.
        """
        allowed = checks.non_negative(fpr=fpr)
        if allowed > 1:
            raise InvalidParameter("fpr", fpr, expected="a number from 0 to 1")
        alarms, hits = self.roc()
        return float(hits[alarms <= allowed].max())

    def __repr__(self) -> str:
        text = f"{self.scores.size} people, AUC {self.auc:.3g}, advantage {self.advantage:.3g}"
        if self.bound is not None:
            text += f", epsilon >= {self.bound.epsilon:.3g}"
        if self.promised is not None:
            text += f", promised {self.promised:.3g}"
        return f"Attack({text})"
