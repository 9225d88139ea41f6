"""Results of audits: a lower bound on the privacy loss, and its evidence."""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from unacorda import checks, elements
from unacorda.audit.arguments import level
from unacorda.errors import InvalidParameter

Bools = NDArray[np.bool_]
Floats = NDArray[np.float64]


@dataclass(frozen=True, slots=True, kw_only=True)
class Bound:
    """A lower bound on epsilon: the evidence refutes all smaller ones at this delta.

    Attributes
    ----------
    epsilon
        The lower bound, 0 if nothing was found.
    delta
        The delta for which it holds.
    confidence
        The probability that a bound is true, over the randomness of the audit and the mechanism.
    method
        The method of the audit.
    guesses, right
        How many guesses were counted, and how many of them were right.
    mu
        The bound in Gaussian DP, if the method gives one, else None.
    note
        The reason why the bound is not better.

    Examples
    --------
    >>> Bound(epsilon=1.5, delta=0.0, confidence=0.95, method="one run", guesses=100, right=90)
    Bound(epsilon >= 1.5, delta=0, confidence=0.95, one run: 90 of 100 right)
    """

    epsilon: float
    delta: float
    confidence: float
    method: str
    guesses: int
    right: int
    mu: float | None = None
    note: str = ""

    def __post_init__(self) -> None:
        level(epsilon=self.epsilon)
        level(delta=self.delta)
        level(confidence=self.confidence)

    def contradicts(self, epsilon: float) -> bool:
        """Say whether a claimed epsilon, at the same delta, is refuted.

        Parameters
        ----------
        epsilon
            The claimed one.

        Returns
        -------
        bool
            Whether the bound lies above it.
        """
        return self.epsilon > level(epsilon=epsilon)

    def to_dict(self) -> dict[str, Any]:
        """All of it, for JSON."""
        return {name: getattr(self, name) for name in self.__slots__}

    def __repr__(self) -> str:
        mu = "" if self.mu is None else f", mu >= {self.mu:.4g}"
        note = f"; {self.note}" if self.note else ""
        return (
            f"Bound(epsilon >= {self.epsilon:.4g}, delta={self.delta:g}, "
            f"confidence={self.confidence:g}{mu}, {self.method}: "
            f"{self.right} of {self.guesses} right{note})"
        )


def canaries(scores: ArrayLike, included: ArrayLike) -> tuple[Floats, Bools]:
    """Both arrays, of one length; InvalidParameter names what is wrong with one.

    Scores are finite or infinite, never NaN: the attacker must decide the meaning of a missing
    score before the coins are known.
    """
    found = _line("scores", scores, kinds="biuf").astype(np.float64)
    inside = _line("included", included, kinds="biu")
    if np.isnan(found).any():
        raise InvalidParameter(
            "scores",
            f"{int(np.isnan(found).sum())} of {found.size} are NaN",
            expected="a number for every canary; give the lowest score to one without information",
        )
    if not np.isin(inside, (0, 1)).all():
        raise InvalidParameter("included", included, expected="True or False for every canary")
    if found.size != inside.size:
        raise InvalidParameter(
            "included",
            f"{inside.size} canaries",
            expected=f"one for each of the {found.size} scores",
        )
    coins = inside.astype(bool)
    if coins.all() or not coins.any():
        raise InvalidParameter(
            "included",
            f"all {coins.size} canaries {'in' if coins.all() else 'out'}",
            expected="a fair coin for each canary, so that some are in and some out",
        )
    return found, coins


def delta_of(delta: float) -> float:
    """The delta, from 0 to below 1."""
    value = checks.non_negative(delta=delta)
    if value >= 1:
        raise InvalidParameter("delta", delta, expected="a number from 0 to below 1")
    return value


def ranked(scores: Floats) -> NDArray[np.intp]:
    """Canaries from the highest score to the lowest; of equal ones the earlier first.

    The tie rule reads only positions, never the coins, so it keeps every guarantee.
    """
    return np.argsort(-scores, kind="stable")


def _line(name: str, values: ArrayLike, *, kinds: str) -> NDArray[Any]:
    array = elements.floats(name, values, dimensions=1, kinds=kinds)
    if array.ndim != 1 or array.size == 0:
        raise InvalidParameter(
            name,
            f"an array of shape {array.shape} and dtype {array.dtype}",
            expected="one number for every canary, in one line",
        )
    return array
