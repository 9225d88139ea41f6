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
    "Scratch",
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

_UNIT: Final = 2.0**-23
"""A unit of rounding of float32."""

_CANCELLED: Final = 2.0**-10
"""Of the sum of the norms of its places, the least that a gradient is taken to be long."""

_TINY: Final = 2.0**-126
"""The least number whose square, or product, float32 holds as such; smaller ones may become 0."""

_LONG: Final = 1 << 16
"""Numbers that are summed in float32 with an error far below what bounds allow for."""


class Scratch:
    """Memory for intermediate results, used again: pages of new memory are cleared before use."""

    def __init__(self) -> None:
        self._held: dict[Any, Tensor] = {}
        self._rows = 0

    def renew(self) -> None:
        """Let rows of gradients be overwritten, from the first ones on."""
        self._rows = 0

    def rows(self, like: Tensor, *shape: int) -> Tensor:
        """Room for rows of gradients, until `renew`."""
        self._rows += 1
        return self._room(-self._rows, like, like.dtype, *shape)

    def _room(self, place: int, like: Tensor, dtype: Any, *shape: int) -> Tensor:
        key, size = (place, dtype, like.device), math.prod(shape)
        if key not in self._held or self._held[key].numel() < size:
            self._held[key] = like.new_empty(size, dtype=dtype)
        return self._held[key][:size].view(shape)

    def widened(self, values: Tensor, place: int) -> Tensor:
        """The same in float64, until the next ones of this place."""
        return self._room(place, values, torch.float64, *values.shape).copy_(values)

    def product(self, left: Tensor, right: Tensor) -> Tensor:
        """left^T right, until the next ones."""
        room = self._room(0, right, right.dtype, left.shape[1], right.shape[1])
        found: Tensor = torch.mm(left.T, right, out=room)
        return found

    def blocks(self, left: Tensor, right: Tensor) -> Tensor:
        """left^T right of each block, until the next ones."""
        left = left.transpose(1, 2)
        room = self._room(0, right, right.dtype, *left.shape[:2], right.shape[2])
        found: Tensor = torch.bmm(left, right, out=room)
        return found


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
    def add_to(self, total: Tensor, weights: Tensor, *, block: int, scratch: Scratch) -> None:
        """Add the sum of gradients times weights to a total in float64.

        block: of how many units sums may be computed in float32, if the part is whole.
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
    """Gradients as they are: values, (examples, *shape), and their squared norms, where known."""

    values: Tensor
    squares: Tensor | None = None

    @classmethod
    def products(
        cls,
        pairs: Iterable[tuple[Tensor, Tensor]],
        examples: int,
        shape: Sequence[int],
        scratch: Scratch,
    ) -> GradientRows:
        """Products of matrices of a few examples at a time: with their norms while they are near.

        pairs: of stacks of matrices, those of all examples in turn.
        """
        rows, squares, start = None, [], 0
        for left, right in pairs:
            if rows is None:
                rows = scratch.rows(left, examples, *left.shape[1:-1], right.shape[-1])
            some = rows[start : start + left.shape[0]]
            torch.matmul(left, right, out=some)
            squares.append(_squares(some))
            start += left.shape[0]
        assert rows is not None
        return cls(rows.reshape(examples, *shape), torch.cat(squares))

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

    def add_to(self, total: Tensor, weights: Tensor, *, block: int, scratch: Scratch) -> None:
        """Add the sum of gradients times weights."""
        total, flat = total.view(1, -1), self.values.flatten(1)
        _add_product(total, weights[:, None], flat, None, block=block, scratch=scratch)


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

    def add_to(self, total: Tensor, weights: Tensor, *, block: int, scratch: Scratch) -> None:
        """Add the sum of gradients times weights, by products of matrices."""
        left, right = (side.flatten(0, 1) for side in (self.left, self.right))
        total = total.view(left.shape[1], right.shape[1])
        if left.shape[1] > right.shape[1]:
            left, right, total = right, left, total.T
        scale = weights[:, None].expand(-1, self.places).reshape(-1, 1)
        size = block if self.whole else 1
        _add_product(total, left, right, scale, block=size, scratch=scratch)

    def settled(self, scratch: Scratch) -> GradientPart:
        """The same as rows, where these need no more memory than the factors."""
        examples, places, outputs = self.left.shape
        inputs = self.right.shape[2]
        if not rows_are_small(places, outputs, inputs):
            return self
        size = 8 * at_once(outputs * inputs)
        pairs = zip(self.left.transpose(1, 2).split(size), self.right.split(size), strict=True)
        return GradientRows.products(pairs, examples, self.shape, scratch)


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

    def settled(self, scratch: Scratch) -> GradientPart:
        """The same as rows, where these need no more memory than the factors."""
        examples, places, _ = self.right.shape
        if places == 1 or self.shape[0] > 2 * places:
            return self
        known = torch.arange(self.shape[0], device=self.index.device)
        size = 8 * at_once(self.shape.numel())
        pairs = (
            ((known[:, None] == index[:, None]).to(right), right)
            for index, right in zip(self.index.split(size), self.right.split(size), strict=True)
        )
        return GradientRows.products(pairs, examples, self.shape, scratch)

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

    def add_to(self, total: Tensor, weights: Tensor, *, block: int, scratch: Scratch) -> None:
        """Add the sum of gradients times weights, in float64 always."""
        del block, scratch
        scaled = (self.right.double() * weights.double()[:, None, None]).flatten(0, 1)
        total.index_add_(0, self.index.flatten(), scaled)


def _add_product(
    total: Tensor,
    left: Tensor,
    right: Tensor,
    scale: Tensor | None,
    *,
    block: int,
    scratch: Scratch,
) -> None:
    """Add (left scale)^T right; sums over blocks of rows are in float32, where that is faster.

    left is the narrow side. In float64 a row costs its conversion and twice the product, in float32
    each block the conversion of its sum.
    """
    outputs, inputs = left.shape[1], right.shape[1]
    if block * (1 / outputs + 1 / inputs + 1 / 40) < 3:
        size = _even(left.shape[0], at_once(outputs + inputs))
        for start in range(0, left.shape[0], size):
            some = slice(start, start + size)
            one, other = (scratch.widened(side[some], k) for k, side in enumerate((left, right)))
            if scale is not None:
                one.mul_(scale[some])
            total.addmm_(one.T, other)
        return
    left = left.to(right) if scale is None else left * scale.to(left)
    if left.shape[0] <= block:
        total.add_(scratch.product(left, right))
        return
    block = _even(left.shape[0], block)
    size = block * max(PIECE // (outputs * inputs), 2)  # of several blocks, two if they are large
    for start in range(0, left.shape[0], size):
        one, other = left[start : start + size], right[start : start + size]
        whole = one.shape[0] // block * block
        if whole:
            pairs = (each[:whole].unflatten(0, (-1, block)) for each in (one, other))
            sums = scratch.blocks(*pairs)
            if whole > 2 * block:
                total += sums.sum(0, dtype=torch.float64)
            else:
                total += sums[0].add_(sums[1]) if whole > block else sums[0]
        if whole < one.shape[0]:
            total += one[whole:].T @ other[whole:]


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
    """Squared norms in float64, of long rows by sums in float64; those that underflow included."""
    flat = values.flatten(1).contiguous()  # in other layouts sums of float32 lose more
    key = flat.data_ptr(), flat.shape
    if known is not None and key in known:
        return known[key]
    wide = torch.float64 if flat.shape[1] > _LONG else None
    norms = torch.linalg.vector_norm(flat, dim=1, dtype=wide).double()
    found: Tensor = norms.square_().add_(flat.shape[1] * _TINY)
    if known is not None and flat.data_ptr() == values.data_ptr():  # of the part, which stays
        known[key] = found
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
