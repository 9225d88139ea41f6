r"""Differencing: combinations of questions that are about one person."""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import ArrayLike, NDArray

from unacorda.audit.arguments import floats
from unacorda.errors import InvalidParameter

Floats = NDArray[np.float64]

_EXACT: Final = 1e-8


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class Exposed:
    """A person whose value is a combination of the answers.

    Attributes
    ----------
    person
        The column of the questions.
    weights
        One per question; the weighted sum of the answers is the person's value.
    deviation
        The standard deviation of that sum if each answer has noise of deviation 1.

    Examples
    --------
    >>> Exposed(person=3, weights=np.array([1.0, -1.0]), deviation=2**0.5)
    Exposed(person 3, from 2 questions; noise is worth 1.41 times its deviation)
    """

    person: int
    weights: Floats
    deviation: float

    def value(self, answers: ArrayLike) -> float:
        """Return the person's value from the answers.

        Parameters
        ----------
        answers
            A number for each question, in their order.

        Returns
        -------
        float
            The sum of the answers by their weights.

        Raises
        ------
        InvalidParameter
            For another number of answers.
        """
        given = floats("answers", answers)
        if given.shape != self.weights.shape:
            expected = f"{self.weights.size} numbers, one a question"
            raise InvalidParameter("answers", f"an array of shape {given.shape}", expected=expected)
        return float(self.weights @ given)

    def __repr__(self) -> str:
        used = int(np.count_nonzero(np.abs(self.weights) > _EXACT))
        return (
            f"Exposed(person {self.person}, from {used} questions; noise is worth "
            f"{self.deviation:.3g} times its deviation)"
        )


def differencing(questions: ArrayLike) -> list[Exposed]:
    r"""Find the people whose value follows from the answered sums.

    Answers are not needed: the list of questions determines who is exposed.

    Statement: person j is exposed iff the unit vector e_j lies in the row space; the weights are
    those of least length, e_j pinv(A).

    Source: Denning 1980 (trackers); Dobra, Fienberg 2000 (exact disclosure from margins).

    Parameters
    ----------
    questions
        k x n: the weight of each person in each question, 1 if it counts them.

    Returns
    -------
    list of Exposed
        By person.

    Raises
    ------
    InvalidParameter
        For arrays that are not k x n finite numbers.

    Examples
    --------
    >>> differencing([[1, 1, 1, 1], [1, 1, 1, 0]])
    [Exposed(person 3, from 2 questions; noise is worth 1.41 times its deviation)]
    """
    asked = floats("questions", questions)
    if asked.ndim != 2 or not asked.size or not np.isfinite(asked).all():
        raise InvalidParameter(
            "questions",
            f"an array of shape {asked.shape}",
            expected="one row of finite numbers per question, one column per person",
        )
    inverse = np.linalg.pinv(asked, rcond=1e-10)  # n x k
    # The projection onto the row space leaves e_j as it is iff its diagonal number is 1.
    diagonal = np.einsum("jk,kj->j", inverse, asked)
    return [
        Exposed(
            person=int(person),
            weights=inverse[person],
            deviation=float(np.linalg.norm(inverse[person])),
        )
        for person in np.flatnonzero(diagonal >= 1 - _EXACT)
    ]
