r"""Canaries that are gradients: directions that need no data.

Training by noisy sums of clipped per-example gradients may add gradients of canaries without an
example. They are the most revealing canaries: only the noise along its direction hides a coin.
"""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from unacorda import checks, elements
from unacorda.bits import RandomBits, fair_coins, source_of
from unacorda.errors import InvalidParameter
from unacorda.extras import require
from unacorda.learning.parameters import Shapes, flattened, listed, matching, sizes, trained

if TYPE_CHECKING:
    from torch import Tensor, nn

__all__ = ["GradientCanaries", "dirac", "scattered"]

Bools = NDArray[np.bool_]
Floats = NDArray[np.float64]
Whole = NDArray[np.int64]


@dataclass(frozen=True, slots=True, kw_only=True, repr=False, eq=False)
class GradientCanaries:
    """Orthogonal gradients of canaries, and their coins.

    Attributes
    ----------
    included
        One coin per canary. Hide them from the attacker until the scores are computed.
    shapes
        Of the trained parameters.
    places, entries
        One row per canary: at which places of all parameters, laid in one line, its gradient is not
        zero, and what it is there. No two canaries share a place.

    Examples
    --------
    >>> import torch
    >>> from unacorda import SeededBits
    >>> found = dirac(torch.nn.Linear(3, 2), count=4, norm=0.5, bits=SeededBits(1))
    >>> found.places.shape, found.entries.tolist()
    ((4, 1), [[0.5], [0.5], [0.5], [0.5]])
    """

    included: Bools
    shapes: Shapes
    places: Whole
    entries: Floats

    def taking_part(self, *, rate: float = 1.0, bits: RandomBits | None = None) -> Whole:
        """Draw the canaries of the next batch among the included ones.

        Parameters
        ----------
        rate
            The rate of Poisson sampling, as for the examples; 1 if every step uses all of them.
        bits
            Random bits, from the system by default.

        Returns
        -------
        ndarray
            The positions of those that take part.

        Raises
        ------
        InvalidParameter
            For a rate that is not above 0 and at most 1.
        """
        share = checks.positive(rate=rate)
        if share > 1:
            raise InvalidParameter("rate", rate, expected="a probability above 0, at most 1")
        # A word a canary, in or out: what comes next from these bits says nothing of the coins.
        words = source_of(bits).words(self.included.size)
        drawn = words < np.uint64(int(share * 2**64)) if share < 1 else True
        return np.flatnonzero(self.included & drawn)

    def added_to(self, gradients: Sequence[Tensor], taking_part: ArrayLike) -> list[Tensor]:
        """Add the gradients of these canaries to the sum of a batch's clipped gradients.

        Parameters
        ----------
        gradients
            A tensor for each trained parameter, before the noise and before any division by a batch
            size.
        taking_part
            As the method of this name says.

        Returns
        -------
        list
            The sums with them.

        Raises
        ------
        InvalidParameter
            For tensors of other shapes.
        """
        matching("gradients", gradients, shapes=self.shapes)
        members = self._members(taking_part)
        # No two have a parameter in common: their sum is one row that holds the entries of all.
        parts = self._rows(members, np.zeros(members.size, dtype=np.int64), 1, like=gradients)
        return [each + part[0] for each, part in zip(gradients, parts, strict=True)]

    def appended_to(self, per_example: Sequence[Tensor], taking_part: ArrayLike) -> list[Tensor]:
        """Append the gradients of these canaries to per-example gradients, before the clipping.

        Parameters
        ----------
        per_example
            A tensor for each trained parameter, one row per example, such as the `grad_sample` of
            parameters: `for p, g in zip(parameters, found): p.grad_sample = g`.
        taking_part
            As the method of this name says.

        Returns
        -------
        list
            The tensors with one row per canary behind them.

        Raises
        ------
        InvalidParameter
            For tensors of other shapes.
        """
        torch = require("torch", extra="learning")
        found = [tuple(each.shape) for each in listed("per_example", per_example)]
        if tuple(shape[1:] for shape in found) != self.shapes or len({s[:1] for s in found}) != 1:
            raise InvalidParameter(
                "per_example",
                f"{len(found)} tensors of shapes {found}",
                expected=f"a row an example behind which the shapes are {self.shapes}",
            )
        members = self._members(taking_part)
        parts = self._rows(members, np.arange(members.size), members.size, like=per_example)
        return [torch.cat(pair) for pair in zip(per_example, parts, strict=True)]

    def scored_by_projection(self, updates: Sequence[Tensor]) -> Floats:
        """Score each canary by how much of its gradient is in the updates.

        Known gradients of other people may be subtracted: the guarantee holds against an attacker
        who knows all others.

        Parameters
        ----------
        updates
            A tensor for each trained parameter: the sum of the noisy gradients (`watch`), or how
            far training moved (`movement`).

        Returns
        -------
        ndarray
            One score per canary.

        Raises
        ------
        InvalidParameter
            For tensors of other shapes.
        """
        line = flattened("updates", updates, shapes=self.shapes)
        found: Floats = np.einsum("ij,ij->i", line[self.places], self.entries)
        return found

    def _rows(
        self, members: Whole, rows: Whole, count: int, *, like: Sequence[Tensor]
    ) -> list[Tensor]:
        """Tensors of `count` rows of the parameters' shapes, each member's entries in its row."""
        torch = require("torch", extra="learning")
        places = self.places[members]
        order = np.argsort(places, axis=None)
        sorted_places = places.ravel()[order]
        entries = self.entries[members].ravel()[order]
        of_row = np.broadcast_to(rows[:, None], places.shape).ravel()[order]
        ends = np.cumsum([0, *sizes(self.shapes)])
        cuts = np.searchsorted(sorted_places, ends)
        found = []
        for i, (each, shape) in enumerate(zip(like, self.shapes, strict=True)):
            here = slice(cuts[i], cuts[i + 1])
            part = torch.zeros(count, ends[i + 1] - ends[i], dtype=each.dtype, device=each.device)
            at = torch.from_numpy(of_row[here]), torch.from_numpy(sorted_places[here] - ends[i])
            part[at] = torch.from_numpy(entries[here]).to(part)
            found.append(part.reshape(count, *shape))
        return found

    def _members(self, taking_part: ArrayLike) -> Whole:
        members = elements.numbers("taking_part", taking_part)
        if members.size and not _different(members, below=self.included.size):
            raise InvalidParameter(
                "taking_part",
                f"an array of shape {members.shape}",
                expected=f"numbers of canaries, each once, from 0 to {self.included.size - 1}",
            )
        return members.astype(np.int64).reshape(-1)

    def __repr__(self) -> str:
        return f"GradientCanaries({self.included.size})"


def dirac(
    model: nn.Module | Iterable[Tensor],
    *,
    count: int,
    norm: float = 1.0,
    coordinates: ArrayLike | None = None,
    bits: RandomBits | None = None,
) -> GradientCanaries:
    """Make gradients along single parameters of a model.

    They are those of `unacorda.audit.dirac`, for PyTorch.

    Parameters
    ----------
    model
        A module, or the tensors that are trained.
    count
        How many, up to the number of trained parameters.
    norm
        Their length in the l2 norm, above 0, which is that of clipping.
    coordinates
        The position of each canary in the flattened parameters, a whole number; by default random.
    bits
        Of the places and the coins; by default a secure source.

    Returns
    -------
    GradientCanaries
        To be added to sums of gradients with `added_to`.

    Raises
    ------
    InvalidParameter
        For numbers out of their range, and for repeated positions.

    Examples
    --------
    >>> import torch
    >>> from unacorda import SeededBits
    >>> model = torch.nn.Linear(3, 2)
    >>> canaries = dirac(model, count=4, norm=0.5, coordinates=[0, 1, 5, 6], bits=SeededBits(1))
    >>> weight, bias = canaries.added_to([torch.zeros(2, 3), torch.zeros(2)], [2, 3])
    >>> weight.tolist(), bias.tolist()
    ([[0.0, 0.0, 0.0], [0.0, 0.0, 0.5]], [0.5, 0.0])
    """
    shapes, dimension, many = _measured(model, count)
    length, source = checks.positive(norm=norm), source_of(bits)
    coins = fair_coins(many, source)
    if coordinates is None:
        places = _shuffled(dimension, source)[:many]
    else:
        places = elements.numbers("coordinates", coordinates)
        expected = f"{many} different whole numbers from 0 to {dimension - 1}"
        if places.shape != (many,) or not _different(places, below=dimension):
            raise InvalidParameter(
                "coordinates", f"an array of shape {places.shape}", expected=expected
            )
    return GradientCanaries(
        included=coins,
        shapes=shapes,
        places=places.astype(np.int64)[:, None],
        entries=np.full((many, 1), length),
    )


def scattered(
    model: nn.Module | Iterable[Tensor],
    *,
    count: int,
    norm: float = 1.0,
    bits: RandomBits | None = None,
) -> GradientCanaries:
    """Make random orthogonal gradients, each over a share of all parameters.

    Every canary has equally many parameters, drawn at random, with random signs. So the effect of
    the data averages out; a single parameter may be changed far more by the data than by a canary.

    Parameters
    ----------
    model, count, norm, bits
        As for `dirac`.

    Returns
    -------
    GradientCanaries
        To be added to sums of gradients with `added_to`.

    Raises
    ------
    InvalidParameter
        For numbers out of their range.

    Examples
    --------
    >>> import torch
    >>> from unacorda import SeededBits
    >>> canaries = scattered(torch.nn.Linear(7, 2), count=4, norm=2.0, bits=SeededBits(1))
    >>> canaries.places.shape, canaries.entries[0].tolist()
    ((4, 4), [1.0, 1.0, -1.0, -1.0])
    """
    shapes, dimension, many = _measured(model, count)
    length, source = checks.positive(norm=norm), source_of(bits)
    coins = fair_coins(many, source)
    each = dimension // many
    places = _shuffled(dimension, source)[: many * each].reshape(many, each)
    signs = np.where(fair_coins(many * each, source), 1.0, -1.0).reshape(many, each)
    return GradientCanaries(
        included=coins, shapes=shapes, places=places, entries=signs * (length / math.sqrt(each))
    )


def _measured(model: nn.Module | Iterable[Tensor], count: int) -> tuple[Shapes, int, int]:
    """The shapes of the trained parameters, how many numbers these hold, and the count."""
    shapes = tuple(tuple(parameter.shape) for parameter in trained(model))
    dimension, many = sum(sizes(shapes)), checks.positive_integer(count=count)
    if many > dimension:
        raise InvalidParameter(
            "count", count, expected=f"at most as many as there are numbers to train, {dimension}"
        )
    return shapes, dimension, many


def _shuffled(count: int, bits: RandomBits) -> Whole:
    # Equal words, which have a chance of count^2 / 2^65, go by place; coins are not touched by it.
    return np.argsort(bits.words(count), kind="stable").astype(np.int64)


def _different(numbers: NDArray[Any], *, below: int) -> bool:
    """Whether these are whole numbers from 0 on, each once."""
    return (
        numbers.ndim == 1
        and numbers.dtype.kind in "iu"
        and np.unique(numbers).size == numbers.size
        and bool(((numbers >= 0) & (numbers < below)).all())
    )
