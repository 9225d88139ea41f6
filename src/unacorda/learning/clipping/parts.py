r"""Gradients of examples for one parameter, kept in the form in which they come.

A layer that multiplies by its weight has the gradient sum_t left_t (x) right_t for an example, over
its places t: tokens, pixels, uses. Products of places give its norm without the gradient itself.
Source: Goodfellow 2015, arXiv:1510.01799 (one place); Li, Tramer, Liang, Hashimoto 2022,
arXiv:2110.05679 (several).
"""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from unacorda.extras import later

if TYPE_CHECKING:
    from torch import Tensor

__all__ = [
    "BLOCK",
    "PIECE",
    "ROUNDING",
    "GradientLookups",
    "GradientPart",
    "GradientProducts",
    "GradientRows",
    "at_once",
    "merged",
    "rows_are_small",
    "square_norms",
]

torch: Any = later("torch")

ROUNDING: Final = 2.0**-10
"""Of the bound, what a unit may move sums in float64 by their rounding."""

BLOCK: Final = 256
"""Units of which the sum is computed in float32, where float32 was asked for."""

PIECE: Final = 1 << 18
"""Numbers that are widened, or gathered from an image, at once: they stay near the processor."""

_UNIT: Final = 2.0**-23
"""A unit of rounding of float32."""

_CANCELLED: Final = 2.0**-10
"""Of the sum of the norms of its places, the least that a gradient is taken to be long."""

_TINY: Final = 2.0**-126
"""The least number whose square, or product, float32 holds as such; smaller ones may become 0."""

_MOST: Final = 3e38
"""A square norm above it counts as infinite: its unit is left out."""

_LONG: Final = 1 << 16
"""Numbers that are summed in float32 with an error far below what bounds allow for."""


class GradientPart(ABC):
    """Gradients of a batch of examples for one parameter."""

    __slots__ = ()

    @abstractmethod
    def rows(self) -> Tensor:
        """The gradients themselves, (examples, *shape)."""

    @abstractmethod
    def grouped(self, count: int) -> GradientPart:
        """The gradients of units of `count` consecutive examples each."""

    @abstractmethod
    def only(self, examples: Tensor) -> GradientPart:
        """The gradients of the examples at these places."""

    @abstractmethod
    def weighted_sum(self, weights: Tensor, *, wide: bool = True) -> Tensor:
        """The sum of gradients times weights, in float64.

        wide: False to compute the sums of `BLOCK` units in float32, where a part can.
        """

    @property
    def places(self) -> int:
        """How many terms of the sum the gradient of an example is."""
        return 1

    @property
    def whole(self) -> bool:
        """Whether the gradient of an example is one term of the sum, no longer than its norm."""
        return False


@dataclass(frozen=True, slots=True, eq=False)
class GradientRows(GradientPart):
    """Gradients as they are: values, (examples, *shape)."""

    values: Tensor

    def rows(self) -> Tensor:
        """The gradients themselves."""
        return self.values

    def grouped(self, count: int) -> GradientRows:
        """Sums over examples of a unit."""
        return GradientRows(self.values.unflatten(0, (-1, count)).sum(1))

    def only(self, examples: Tensor) -> GradientRows:
        """The gradients of the examples at these places."""
        return GradientRows(self.values[examples])

    @property
    def whole(self) -> bool:
        """Always."""
        return True

    def weighted_sum(self, weights: Tensor, *, wide: bool = True) -> Tensor:
        """The sum of gradients times weights, in float64, a few rows at a time."""
        flat = self.values.flatten(1)
        size, kind = (at_once(flat.shape[1]), torch.float64) if wide else (BLOCK, flat.dtype)
        found: Any = None
        for some, weight in zip(flat.split(size), weights.to(kind).split(size), strict=True):
            rows = some.to(kind).T
            if found is None:
                found = (rows @ weight).double()
            elif wide:
                found.addmv_(rows, weight)
            else:  # a product that is added to in float32 may add up more than one block
                found += rows @ weight
        total: Tensor = found.reshape(self.values.shape[1:])
        return total


@dataclass(frozen=True, slots=True, eq=False)
class GradientProducts(GradientPart):
    """Gradients left^T right over places: left (examples, places, outputs), right (.., inputs)."""

    left: Tensor
    right: Tensor
    shape: Any

    def rows(self) -> Tensor:
        """The gradients themselves."""
        found = self.left.transpose(1, 2) @ self.right
        return found.reshape(len(found), *self.shape)

    def grouped(self, count: int) -> GradientProducts:
        """The places of a unit are those of its examples."""
        return GradientProducts(_places(self.left, count), _places(self.right, count), self.shape)

    def only(self, examples: Tensor) -> GradientProducts:
        """The gradients of the examples at these places."""
        return GradientProducts(self.left[examples], self.right[examples], self.shape)

    @property
    def places(self) -> int:
        """Tokens, pixels, uses."""
        return int(self.left.shape[1])

    @property
    def whole(self) -> bool:
        """Of one place alone: several may cancel."""
        return self.places == 1

    def weighted_sum(self, weights: Tensor, *, wide: bool = True) -> Tensor:
        """The sum of gradients times weights, in float64: one product of matrices, or of blocks."""
        kind = torch.float64 if wide else self.left.dtype
        numbers = self.left.shape[1] * (self.left.shape[2] + self.right.shape[2])
        size = at_once(numbers) if wide else BLOCK
        found: Any = None
        pieces = (each.split(size) for each in (weights, self.left, self.right))
        for some, *factors in zip(*pieces, strict=True):
            scale, (left, right) = some.to(kind)[:, None, None], (one.to(kind) for one in factors)
            if left.shape[2] <= right.shape[2]:
                left = left * scale
            else:
                right = right * scale
            left, right = left.flatten(0, 1).T, right.flatten(0, 1)
            found = left @ right if found is None else found.addmm_(left, right)
        total: Tensor = found.double().reshape(self.shape)
        return total

    def settled(self) -> GradientPart:
        """The same as rows, where these need no more memory than the factors."""
        sides = self.left.shape[2], self.right.shape[2]
        small = rows_are_small(self.left.shape[1], *sides)
        return GradientRows(self.rows()) if small else self


@dataclass(frozen=True, slots=True, eq=False)
class GradientLookups(GradientPart):
    """Gradients of rows of a table: index (examples, places), right (examples, places, width)."""

    index: Tensor
    right: Tensor
    shape: Any

    def rows(self) -> Tensor:
        """The gradients themselves."""
        found = self.right.new_zeros(len(self.right), *self.shape)
        places = self.index.unsqueeze(2).expand_as(self.right)
        return found.scatter_add_(1, places, self.right)

    def grouped(self, count: int) -> GradientLookups:
        """The places of a unit are those of its examples."""
        return GradientLookups(_places(self.index, count), _places(self.right, count), self.shape)

    def only(self, examples: Tensor) -> GradientLookups:
        """The gradients of the examples at these places."""
        return GradientLookups(self.index[examples], self.right[examples], self.shape)

    @property
    def places(self) -> int:
        """Tokens."""
        return int(self.right.shape[1])

    def weighted_sum(self, weights: Tensor, *, wide: bool = True) -> Tensor:
        """The sum of gradients times weights, in float64 always."""
        del wide
        scaled = (self.right.double() * weights.double()[:, None, None]).flatten(0, 1)
        found = scaled.new_zeros(self.shape)
        return found.index_add_(0, self.index.flatten(), scaled)


def rows_are_small(places: int, outputs: int, inputs: int) -> bool:
    """Whether gradients themselves need no more memory than factors of several places."""
    return places > 1 and outputs * inputs <= 2 * places * (outputs + inputs)


def at_once(numbers: int) -> int:
    """How many examples, each of this number of numbers, are worked on at once."""
    return max(PIECE // max(numbers, 1), 1)


def _places(values: Tensor, count: int) -> Tensor:
    return values.reshape(values.shape[0] // count, -1, *values.shape[2:])


def merged(parts: Sequence[GradientPart]) -> list[GradientPart]:
    """The same gradients, of several uses of one parameter, in as few parts as there are kinds."""
    rows = [part.values for part in parts if isinstance(part, GradientRows)]
    products = [part for part in parts if isinstance(part, GradientProducts)]
    lookups = [part for part in parts if isinstance(part, GradientLookups)]
    found: list[GradientPart] = [GradientRows(sum(rows[1:], rows[0]))] if rows else []
    if len(products) > 1:
        left, right = ([getattr(one, name) for one in products] for name in ("left", "right"))
        found.append(GradientProducts(torch.cat(left, 1), torch.cat(right, 1), products[0].shape))
    else:
        found += products
    if len(lookups) > 1:
        index, right = ([getattr(one, name) for one in lookups] for name in ("index", "right"))
        found.append(GradientLookups(torch.cat(index, 1), torch.cat(right, 1), lookups[0].shape))
    else:
        found += lookups
    return found


def square_norms(parts: Sequence[GradientPart]) -> Tensor:
    """No less than the squared norm of each example's gradient, all uses of one parameter together.

    Sums of products and lookups are those of their factors: what float32 loses in the norm, where
    places cancel, is added by its bound. Source: docs/proofs/training.md, section 2.
    """
    if len(parts) == 1 and not isinstance(parts[0], GradientRows):
        (part,) = parts
        places = part.right.shape[1]  # type: ignore[attr-defined]
        if places == 1:
            right = _squares(part.right)  # type: ignore[attr-defined]
            return _cut(
                right * _squares(part.left) if isinstance(part, GradientProducts) else right
            )
        if isinstance(part, GradientProducts) and 2 * places**2 >= part.shape.numel():
            spread, many, *_ = _spreads(part)
            lost = (many * _UNIT * spread, (_CANCELLED * spread).square())
            return _cut((_squares(part.rows()).sqrt() + lost[0]).square() + lost[1])
    factors = [part for part in parts if not isinstance(part, GradientRows)]
    if not factors:
        return _cut(_squares(parts[0].rows()))
    spread, many, right, left = torch.stack([_spreads(part) for part in factors]).sum(0)
    if len(factors) < len(parts):
        whole = sum((part.rows() for part in parts[1:]), parts[0].rows())
        found = (_squares(whole).sqrt() + many * _UNIT * spread).square()
    else:
        total = sum(_inner(part, part) for part in factors).double()
        if len(factors) == 2:
            total = total + 2 * _inner(factors[0], factors[1])
        wide = max(values.shape[2] for part in factors for values in _factors(part))
        found = (total + 4 * (wide + many) * _UNIT * spread**2).clamp(min=0.0)
        found += 2 * (wide + 1) * _TINY * (right**2 + left**2)
    return _cut(found + (_CANCELLED * spread) ** 2)


def _cut(squares: Tensor) -> Tensor:
    """Squared norms, infinite where float32 would not hold them or they are no numbers."""
    found: Tensor = torch.where(squares <= _MOST, squares, torch.inf)
    return found


def _squares(values: Tensor) -> Tensor:
    """Squared norms in float64, of long rows by sums in float64; those that underflow included."""
    flat = values.flatten(1).contiguous()  # in other layouts sums of float32 lose more
    wide = torch.float64 if flat.shape[1] > _LONG else None
    norms = torch.linalg.vector_norm(flat, dim=1, dtype=wide).double()
    found: Tensor = norms.square() + flat.shape[1] * _TINY
    return found


def _spreads(part: Any) -> Tensor:
    """By example: the sum of the norms of places, which cancel in their sum, and how many count.

    Then the sums of the norms of both factors. Places that hold nothing do not count, so that what
    others of a batch fill it up to moves no norm.
    """
    holds, lengths = [], []
    for values in _factors(part):
        norms = torch.linalg.vector_norm(values, dim=2).double()
        holds.append(norms > 0)
        lengths.append((norms.square() + values.shape[2] * _TINY).sqrt())
    right, left = (*lengths, torch.ones_like(lengths[0]))[:2]
    found: Tensor = torch.stack(
        [right * left, torch.stack(holds).all(0).double(), right, left]
    ).sum(2)
    return found


def _factors(part: Any) -> list[Tensor]:
    """The factors that a part has at each place."""
    return [part.right, part.left] if isinstance(part, GradientProducts) else [part.right]


def _inner(one: Any, other: Any) -> Tensor:
    """The inner product of two gradients of each example, by products of places."""
    if isinstance(one, GradientLookups) and isinstance(other, GradientLookups):
        left = (one.index.unsqueeze(2) == other.index.unsqueeze(1)).to(one.right.dtype)
    elif isinstance(one, GradientProducts) and isinstance(other, GradientProducts):
        left = one.left @ other.left.transpose(1, 2)
    else:
        dense, found = (one, other) if isinstance(one, GradientProducts) else (other, one)
        places = found.index.unsqueeze(1).expand(-1, dense.left.shape[1], -1)
        left = torch.gather(dense.left, 2, places)
        left = left if one is dense else left.transpose(1, 2)
    return (left * (one.right @ other.right.transpose(1, 2))).flatten(1).sum(1)
