r"""Canaries: examples that are in the training data or not, by fair coins.

They are arrays, so they fit any training loop. A loop with Poisson sampling samples canaries like
all other examples. A loop with per-example gradients can also take gradients of canaries, which
need no data (`dirac`).
"""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
from numpy.typing import ArrayLike, NDArray

from unacorda import checks, elements
from unacorda.audit.arguments import called, floats
from unacorda.bits import RandomBits, fair_coins, source_of
from unacorda.errors import InvalidParameter

_MOST: Final = 10**10

Bools = NDArray[np.bool_]
Floats = NDArray[np.float64]


@dataclass(frozen=True, slots=True, kw_only=True, repr=False, eq=False)
class Canaries:
    """Canaries and their coins.

    Attributes
    ----------
    features
        One row per canary.
    targets
        One per canary; None if canaries are gradients.
    included
        The coins, one boolean a canary. Hide them from the attacker until the scores are computed.

    Examples
    --------
    >>> canaries = Canaries(features=np.eye(2), targets=None, included=np.array([True, False]))
    >>> canaries.scored_by_projection([3.0, 0.1]).tolist()
    [3.0, 0.1]
    """

    features: NDArray[Any]
    targets: NDArray[Any] | None
    included: Bools

    def added_to(self, x: ArrayLike, y: ArrayLike) -> tuple[NDArray[Any], NDArray[Any]]:
        """Append the included canaries to the data, whose order must not matter.

        Parameters
        ----------
        x, y
            The rows, of the shape of the canaries' features, and one target each.

        Raises
        ------
        InvalidParameter
            For arrays of other shapes, and for canaries without targets.
        """
        if self.targets is None:
            raise InvalidParameter("canaries", "gradients", expected="canaries with targets")
        rows, target = elements.numbers("x", x), _labels(y)
        fits = rows.ndim > 0 and rows.shape[1:] == self.features.shape[1:]
        if not fits or target.shape != (len(rows), *self.targets.shape[1:]):
            raise InvalidParameter(
                "x",
                f"arrays of shapes {rows.shape} and {target.shape}",
                expected=f"rows of shape {self.features.shape[1:]} and one target each",
            )
        if (target.dtype.kind in "US") != (self.targets.dtype.kind in "US"):
            raise InvalidParameter(
                "y", target.dtype, expected=f"labels like the canaries', {self.targets.dtype}"
            )
        return (
            np.concatenate([rows, self.features[self.included]]),
            np.concatenate([target, self.targets[self.included]]),
        )

    def scored_by_loss(self, loss: Callable[[NDArray[Any], NDArray[Any]], ArrayLike]) -> Floats:
        """Score each canary by minus the loss of the trained model.

        What was learned has a small loss.

        A loss that is NaN counts as the largest.

        Parameters
        ----------
        loss
            A function of features and targets that gives one number per canary.

        Raises
        ------
        InvalidParameter
            For another shape, and for canaries without targets.
        """
        if self.targets is None:
            raise InvalidParameter("canaries", "gradients", expected="canaries with targets")
        called(loss=loss)
        found = floats("loss", loss(self.features, self.targets))
        if found.shape != self.included.shape:
            raise InvalidParameter(
                "loss", f"an array of shape {found.shape}", expected="one number per canary"
            )
        return np.where(np.isnan(found), -np.inf, -found)

    def scored_by_projection(self, updates: ArrayLike) -> Floats:
        """Score each canary by how much of its gradient is in the sum of released updates.

        Parameters
        ----------
        updates
            d numbers, the sum of what was released.

        Raises
        ------
        InvalidParameter
            For another shape.
        """
        total = floats("updates", updates)
        flat = self.features.reshape(len(self.included), -1).astype(np.float64)
        if total.shape != flat.shape[1:]:
            raise InvalidParameter(
                "updates", f"an array of shape {total.shape}", expected=f"{flat.shape[1]} numbers"
            )
        found: Floats = flat @ np.nan_to_num(total)
        return found

    def __repr__(self) -> str:
        return f"Canaries({len(self.included)})"


def dirac(
    count: int, *, dimension: int, norm: float = 1.0, bits: RandomBits | None = None
) -> Canaries:
    """Make gradients along single coordinates: the most powerful canaries.

    Parameters
    ----------
    count
        How many, from 1 to the dimension.
    dimension
        The number of parameters of the model.
    norm
        Their length in the l2 norm, above 0, which is that of clipping.
    bits
        Of the coins; by default a secure source.

    Returns
    -------
    Canaries
        Gradients without targets.

    Raises
    ------
    InvalidParameter
        For a count or dimension that is not a whole number in its range, and a norm that is not
        above 0.

    Examples
    --------
    >>> from unacorda.bits import SeededBits
    >>> dirac(3, dimension=5, norm=2.0, bits=SeededBits(1)).features[1].tolist()
    [0.0, 2.0, 0.0, 0.0, 0.0]
    """
    many = checks.positive_integer(count=count)
    if many > checks.positive_integer(dimension=dimension):
        raise InvalidParameter("count", count, expected=f"at most the dimension, {dimension}")
    if many * dimension > _MOST:
        expected = f"at most {_MOST // many:,} with {many:,} canaries, which all lie in memory"
        raise InvalidParameter("dimension", dimension, expected=expected)
    gradients = checks.positive(norm=norm) * np.eye(many, dimension)
    return Canaries(features=gradients, targets=None, included=fair_coins(many, bits))


def mislabelled(
    x: ArrayLike, y: ArrayLike, *, count: int, bits: RandomBits | None = None
) -> Canaries:
    """Take examples with wrong labels, which a model has to memorize.

    Parameters
    ----------
    x, y
        At least `count` examples that are not in the training data, and their labels, with two or
        more different ones among the first `count`.
    count
        How many to take, from the first on. Each gets another label that occurs, at random.
    bits
        Of the labels and the coins; by default a secure source.

    Returns
    -------
    Canaries
        Examples with targets.

    Raises
    ------
    InvalidParameter
        For shapes that do not fit, too few examples, and labels that are all equal.

    Examples
    --------
    >>> from unacorda.bits import SeededBits
    >>> x = [[0.0, 1.0], [1.0, 0.0], [0.5, 0.5]]
    >>> mislabelled(x, [0, 1, 0], count=3, bits=SeededBits(1)).targets.tolist()
    [1, 0, 1]
    """
    rows, labels = elements.numbers("x", x), _labels(y)
    many = checks.positive_integer(count=count)
    if rows.ndim < 2 or labels.ndim != 1:
        raise InvalidParameter(
            "x",
            f"arrays of shapes {rows.shape} and {labels.shape}",
            expected="one row and one label per example",
        )
    if len(rows) != len(labels) or len(rows) < many:
        raise InvalidParameter(
            "x", f"{len(rows)} rows, {len(labels)} labels", expected=f"{many} of both or more"
        )
    classes, codes = np.unique(labels[:many], return_inverse=True)
    if classes.size < 2:
        raise InvalidParameter("y", f"{classes.size} label", expected="two labels or more")
    source = source_of(bits)
    moved = np.array([1 + source.below(classes.size - 1) for _ in range(many)])
    return Canaries(
        features=rows[:many],
        targets=classes[(codes + moved) % classes.size],
        included=fair_coins(many, source),
    )


def _labels(y: Any) -> NDArray[Any]:
    """The targets: an array by its dtype, a list as numbers or text, each what it is."""
    if isinstance(y, np.ndarray) and y.dtype.kind != "O":
        return np.asarray(y)
    codes, found = elements.codes("y", y)
    text = all(isinstance(one, str) for one in found)
    return (np.array(found) if text and found else elements.numbers("y", found))[codes]
