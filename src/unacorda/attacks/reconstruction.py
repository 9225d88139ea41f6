r"""Reconstruction: a secret column from answers to counting questions."""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import optimize, sparse

from unacorda import elements
from unacorda.audit.arguments import floats, one_of, truths
from unacorda.errors import InvalidParameter

Bools = NDArray[np.bool_]
Floats = NDArray[np.float64]


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class Reconstruction:
    """The attacker's estimate of the column.

    Attributes
    ----------
    guesses
        One number per person, from 0 to 1.

    Examples
    --------
    >>> Reconstruction(guesses=np.array([0.9, 0.2])).column
    array([ True, False])
    """

    guesses: Floats

    @property
    def column(self) -> Bools:
        """The guesses, rounded."""
        return self.guesses >= 0.5

    def share_right(self, truth: ArrayLike) -> float:
        """Return the share of people whose bit was guessed correctly.

        Always guessing the more common bit is right for as many as have it.

        Parameters
        ----------
        truth
            The bit of each person.

        Returns
        -------
        float
            From 0 to 1.

        Raises
        ------
        InvalidParameter
            For another number of bits.
        """
        bits = truths("truth", truth)
        if bits.shape != self.guesses.shape:
            raise InvalidParameter(
                "truth", f"an array of shape {bits.shape}", expected=f"{self.guesses.size} bits"
            )
        return float(np.mean(self.column == bits))

    def __repr__(self) -> str:
        return f"Reconstruction({self.guesses.size} people)"


def reconstruction(
    questions: ArrayLike,
    answers: ArrayLike,
    *,
    method: Literal["linear programme", "least squares"] = "linear programme",
) -> Reconstruction:
    r"""Reconstruct all people's secret bits from the counts of some groups.

    With noise below about sqrt(n) in each of 2 n random questions, nearly all bits are found.

    Statement: the guess has the least sum of |A x - a| over x in [0, 1]^n, or the least sum of
    squares, rounded.

    Source: Dinur and Nissim 2003; Dwork, McSherry, Talwar 2007 (the linear programme).

    Parameters
    ----------
    questions
        k x n, 1 where a question counts a person, else 0.
    answers
        k numbers, exact or noisy.
    method
        "linear programme" or "least squares".

    Returns
    -------
    Reconstruction
        A guess for each person.

    Raises
    ------
    InvalidParameter
        For questions that are not 0 or 1, answers that do not fit, and another method.

    Examples
    --------
    >>> drawn = np.random.default_rng(1)
    >>> secret, questions = drawn.random(40) < 0.5, drawn.random((80, 40)) < 0.5
    >>> reconstruction(questions, questions @ secret.astype(int)).share_right(secret)
    1.0
    """
    one_of("method", method, "linear programme", "least squares")
    asked = elements.floats("questions", questions, dimensions=2)
    if asked.ndim != 2 or not asked.size:
        raise InvalidParameter(
            "questions",
            f"an array of shape {asked.shape}",
            expected="one row of 0 and 1 per question",
        )
    if not np.isin(asked, (0, 1)).all():
        raise InvalidParameter("questions", "other numbers", expected="0 and 1 alone")
    given = floats("answers", answers)
    if given.shape != (len(asked),) or not np.isfinite(given).all():
        raise InvalidParameter(
            "answers",
            f"an array of shape {given.shape}",
            expected=f"{len(asked)} finite numbers, one per question",
        )
    matrix = asked.astype(np.float64)
    if method == "least squares":
        found = optimize.lsq_linear(matrix, given, bounds=(0, 1)).x
    else:
        found = _least_absolute(matrix, given)
    return Reconstruction(guesses=np.clip(np.asarray(found, dtype=np.float64), 0, 1))


def _least_absolute(matrix: Floats, given: Floats) -> Floats:
    """Variables x and one distance a question: A x - a <= e and a - A x <= e."""
    count, people = matrix.shape
    rows, far = sparse.csr_array(matrix), sparse.eye_array(count, format="csr")
    solved = optimize.linprog(
        np.concatenate([np.zeros(people), np.ones(count)]),
        A_ub=sparse.block_array([[rows, -far], [-rows, -far]]),
        b_ub=np.concatenate([given, -given]),
        bounds=[(0, 1)] * people + [(0, None)] * count,
        method="highs",
    )
    found: Floats = np.asarray(solved.x[:people], dtype=np.float64)
    return found
