r"""Gradients of examples for one parameter, in factored form where possible.

For a layer that multiplies by its weight, the gradient of an example is sum_t left_t (x) right_t
over its places t: tokens, pixels, uses. Products of places give its norm without the gradient
itself. Source: Goodfellow 2015, arXiv:1510.01799 (one place); Li, Tramer, Liang, Hashimoto 2022,
arXiv:2110.05679 (several).
"""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from unacorda.extras import later

if TYPE_CHECKING:
    from torch import Tensor

__all__ = [
    "PIECE",
    "ROUNDING",
    "GradientLookups",
    "GradientPart",
    "GradientProducts",
    "GradientRows",
    "UnitWeights",
    "at_once",
    "merged",
    "rows_are_small",
    "square_norms",
]

torch: Any = later("torch")

ROUNDING: Final = 2.0**-10
"""Of the bound, what a unit may move sums by their rounding, unless float32 is asked for."""

PIECE: Final = 1 << 18
"""Numbers that are widened, or gathered from an image, at once: they stay near the processor."""

_NEAR: Final = 512
"""Terms of a sum that are widened at once, at most, where each holds few numbers."""

_UNIT: Final = 2.0**-23
"""A unit of rounding of float32."""

_CANCELLED: Final = 2.0**-10
"""Of the sum of the norms of its places, the least that a gradient is taken to be long."""

_TINY: Final = 2.0**-126
"""The least number whose square, or product, float32 holds as such; smaller ones may become 0."""

_LONG: Final = 1 << 16
"""Numbers that are summed in float32 with an error far below what bounds allow for."""


class UnitWeights:
    """Weights of units, and what they multiplied last: an output's gradient is its bias', too."""

    def __init__(self, values: Tensor) -> None:
        self.values = values.double()
        self._last: tuple[Tensor, Tensor] | None = None

    def scaled(self, gradients: Tensor, *, wide: bool) -> Tensor:
        """Gradients (units, outputs) times the weights, which are known until the next ones.

        wide: in float64, unless there are many.
        """
        if wide and gradients.numel() <= PIECE:
            found = gradients.double().mul_(self.values[:, None])
        else:
            found = gradients * self.values.to(gradients)[:, None]
        self._last = gradients, found  # both stay: so does the place in memory
        return found

    def known(self, gradients: Tensor) -> Tensor | None:
        """The same if it was computed last."""
        if self._last is None or _place_of(self._last[0]) != _place_of(gradients):
            return None
        return self._last[1]


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
    def add_to(
        self, total: Tensor, weights: UnitWeights, *, block: int, fresh: bool = False
    ) -> None:
        """Add the sum of gradients times weights to a total in float64.

        block: of how many units sums may be computed in float32, where each is one term; 0 where
        terms may be longer than what all parts of a gradient add up to. fresh: the total is memory
        that holds nothing yet.
        """

    @property
    def places(self) -> int:
        """How many terms of the sum the gradient of an example is."""
        return 1


@dataclass(frozen=True, slots=True, eq=False)
class GradientRows(GradientPart):
    """Gradients as they are, (examples, *shape), in pieces of several examples each.

    squares: their squared norms, where known.
    """

    pieces: Sequence[Tensor]
    squares: Tensor | None = None

    @classmethod
    def products(cls, pairs: Iterable[tuple[Tensor, Tensor]], shape: Sequence[int]) -> GradientRows:
        """Products of matrices of a few examples at a time: with their norms while they are near.

        pairs: of stacks of matrices, those of all examples in turn. Each piece is memory of its
        own, as large as what the backward pass has let go.
        """
        pieces, norms = [], []
        for left, right in pairs:
            pieces.append(torch.matmul(left, right).flatten(1))
            norms.append(_norms(pieces[-1]))
        squares = _squared(torch.cat(norms), pieces[0].shape[1])
        return cls([piece.view(len(piece), *shape) for piece in pieces], squares)

    def rows(self) -> Tensor:
        """The gradients themselves."""
        return self.pieces[0] if len(self.pieces) == 1 else torch.cat(list(self.pieces))

    def grouped(self, count: int) -> GradientRows:
        """Sums over examples of a unit."""
        return GradientRows([self.rows().unflatten(0, (-1, count)).sum(1)])

    def only(self, examples: Tensor) -> GradientRows:
        """The gradients of the examples at these places."""
        return GradientRows([self.rows()[examples]])

    def add_to(
        self, total: Tensor, weights: UnitWeights, *, block: int, fresh: bool = False
    ) -> None:
        """Add the sum of gradients times weights."""
        total, own = (total.zero_() if fresh else total).view(-1), weights.values
        pieces = [_flat(piece) for piece in self.pieces]
        known = weights.known(pieces[0]) if block and len(pieces) == 1 else None
        if known is not None:
            total += known.sum(0, dtype=None if len(known) <= block else torch.float64)
            return
        sizes = [len(piece) for piece in pieces]
        if len(own) > block or len(pieces) == 1:
            for piece, share in zip(pieces, own.split(sizes), strict=True):
                _add_product(total[None], share[:, None], piece, None, block=block)
            return
        one = torch.zeros_like(pieces[0][0])  # of all units together: no more terms than a block
        for piece, share in zip(pieces, own.to(one).split(sizes), strict=True):
            one.addmv_(piece.T, share)
        total += one


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

    def add_to(
        self, total: Tensor, weights: UnitWeights, *, block: int, fresh: bool = False
    ) -> None:
        """Add the sum of gradients times weights, by products of matrices."""
        left, right, scale = self.left.flatten(0, 1), self.right.flatten(0, 1), None
        if self.places == 1 and block:
            left = weights.scaled(left, wide=not _blocks_pay(block, self.shape))
        else:  # places may cancel, and be longer than their sum
            block, scale = 0, weights.values[:, None].expand(-1, self.places).reshape(-1, 1)
        total = total.view(left.shape[1], right.shape[1])
        if left.shape[1] > right.shape[1]:
            left, right, total = right, left, total.T
        _add_product(total, left, right, scale, block=block, fresh=fresh)

    def settled(self) -> GradientPart:
        """The same as rows, where these need no more memory than the factors."""
        _, places, outputs = self.left.shape
        inputs = self.right.shape[2]
        if not rows_are_small(places, outputs, inputs):
            return self
        size = at_once(outputs * inputs)
        pairs = zip(self.left.transpose(1, 2).split(size), self.right.split(size), strict=True)
        return GradientRows.products(pairs, self.shape)


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

    def settled(self) -> GradientPart:
        """The same as rows, where these need no more memory than the factors."""
        places = self.places
        if places == 1 or self.shape[0] > 2 * places:
            return self
        known = torch.arange(self.shape[0], device=self.index.device)
        size = at_once(self.shape.numel())
        pairs = (
            ((known[:, None] == index[:, None]).to(right), right)
            for index, right in zip(self.index.split(size), self.right.split(size), strict=True)
        )
        return GradientRows.products(pairs, self.shape)

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

    def add_to(
        self, total: Tensor, weights: UnitWeights, *, block: int, fresh: bool = False
    ) -> None:
        """Add the sum of gradients times weights, in float64 always."""
        del block
        if fresh:
            total.zero_()
        scaled = (self.right.double() * weights.values[:, None, None]).flatten(0, 1)
        total.index_add_(0, self.index.flatten(), scaled)


def _add_product(
    total: Tensor,
    left: Tensor,
    right: Tensor,
    scale: Tensor | None,
    *,
    block: int,
    fresh: bool = False,
) -> None:
    """Add (left scale)^T right; sums over blocks of rows are in float32, where that is faster.

    left is the narrow side. With a scale no block holds a row. In float64 a row costs its
    conversion and twice the product, in float32 each block the conversion of its sum.
    """
    outputs, inputs = left.shape[1], right.shape[1]
    if not _blocks_pay(block, total.shape):
        # Few numbers stay near the processor; to large totals as many are added as half their size.
        rows = max(PIECE, outputs * inputs) // (2 * (outputs + inputs))
        many = max(round(left.shape[0] / max(min(rows, _NEAR), 1)), 1)
        size = max(-(-left.shape[0] // many), 1)
        room = right.new_empty(size, inputs, dtype=torch.float64)
        for start in range(0, left.shape[0], size):
            here = slice(start, start + size)
            one = left[here].double() if scale is None else left[here] * scale[here]
            total.addmm_(one.T, room[: len(one)].copy_(right[here]), beta=0 if fresh else 1)
            fresh = False
        if fresh:  # no rows
            total.zero_()
        return
    left = left.to(right)
    if left.shape[0] <= block:
        total.copy_(left.T @ right) if fresh else total.add_(left.T @ right)
        return
    if fresh:
        total.zero_()
    block = _even(left.shape[0], block)
    size = block * max(PIECE // (outputs * inputs), 2)  # of several blocks, two if they are large
    for one, other in zip(left.split(size), right.split(size), strict=True):
        whole = one.shape[0] // block * block
        if whole:
            lefts, rights = (each[:whole].unflatten(0, (-1, block)) for each in (one, other))
            sums = torch.bmm(lefts.transpose(1, 2), rights)
            if whole > 2 * block:
                total += sums.sum(0, dtype=torch.float64)
            else:
                total += sums[0].add_(sums[1]) if whole > block else sums[0]
        if whole < one.shape[0]:
            total += one[whole:].T @ other[whole:]


def _blocks_pay(block: int, shape: Sequence[int]) -> bool:
    """Whether sums of this many rows in float32 are faster than those in float64."""
    outputs, inputs = shape[0], math.prod(shape[1:])
    return block * (1 / outputs + 1 / inputs + 1 / 40) >= 3


def _place_of(values: Tensor) -> Any:
    """The place of numbers in memory, by which they are known again while they are there."""
    return values.data_ptr(), values.shape, values.stride()


def _even(count: int, most: int) -> int:
    """The size of pieces as alike as can be, of `most` at most."""
    return -(-count // -(-count // most))


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
    if len(parts) == 1:
        return list(parts)
    rows = [part.rows() for part in parts if isinstance(part, GradientRows)]
    products = [part for part in parts if isinstance(part, GradientProducts)]
    lookups = [part for part in parts if isinstance(part, GradientLookups)]
    found: list[GradientPart] = [GradientRows([sum(rows[1:], rows[0])])] if rows else []
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


def square_norms(parts: Sequence[GradientPart], known: dict[Any, Tensor]) -> Tensor:
    """No less than the squared norm of each example's gradient, all uses of one parameter together.

    known: of factors that several parts have, such as the gradient of an output that is that of a
    bias, too; as long as the parts are there.

    Sums of products and lookups are those of their factors: what float32 loses in the norm, where
    places cancel, is added by its bound. Source: docs/proofs/training.md, section 2.
    """
    if len(parts) == 1 and not isinstance(parts[0], GradientRows):
        (part,) = parts
        places = part.right.shape[1]  # type: ignore[attr-defined]
        if places == 1:
            right = _squares(part.right, known)  # type: ignore[attr-defined]
            return (
                right * _squares(part.left, known) if isinstance(part, GradientProducts) else right
            )
        if isinstance(part, GradientProducts) and 2 * places**2 >= part.shape.numel():
            spread, many, *_ = _spreads(part)
            lost = (many * _UNIT * spread, (_CANCELLED * spread).square())
            return (_squares(part.rows()).sqrt() + lost[0]).square() + lost[1]
    factors = [part for part in parts if not isinstance(part, GradientRows)]
    if not factors:
        (rows,) = parts
        held = rows.squares if isinstance(rows, GradientRows) else None
        return _squares(rows.rows(), known) if held is None else held
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
    squares: Tensor = found + (_CANCELLED * spread) ** 2
    return squares


def _squares(values: Tensor, known: dict[Any, Tensor] | None = None) -> Tensor:
    """Squared norms in float64; those that underflow included."""
    flat = _flat(values).contiguous()  # in other layouts sums of float32 lose more
    key = _place_of(flat)
    if known is not None and key in known:
        return known[key]
    found = _squared(_norms(flat), flat.shape[1])
    if known is not None and flat.data_ptr() == values.data_ptr():  # of the part, which stays
        known[key] = found
    return found


def _flat(values: Tensor) -> Tensor:
    """(examples, ...) as rows; those of a single number, too."""
    return values.flatten(1) if values.dim() > 1 else values[:, None]


def _norms(flat: Tensor) -> Tensor:
    """Norms of rows, of long ones by sums in float64."""
    wide = torch.float64 if flat.shape[1] > _LONG else None
    found: Tensor = torch.linalg.vector_norm(flat, dim=1, dtype=wide)
    return found


def _squared(norms: Tensor, numbers: int) -> Tensor:
    """Their squares in float64, with what may have underflowed in each of so many numbers."""
    found: Tensor = norms.double().square_().add_(numbers * _TINY)
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
