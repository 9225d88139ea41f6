r"""Rows of units: the rows of a drawn unit, and batches of one shape."""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

import numpy as np
from numpy.typing import ArrayLike, NDArray

from unacorda import checks, elements
from unacorda.bits import RandomBits
from unacorda.errors import InvalidParameter
from unacorda.extras import later

if TYPE_CHECKING:
    from torch import Tensor

__all__ = ["Units", "moved"]

torch: Any = later("torch")

_PHYSICAL: Final = 256

Whole = NDArray[np.int64]


@dataclass(frozen=True, kw_only=True)
class Units:
    """A dataset by units.

    dataset: examples by index; order, starts: the rows of unit u are at the positions
    order[starts[u]:starts[u + 1]], None if each row is a unit; rows: the most rows of a unit in a
    step; shape: of an example in the first batch, and of all others.
    """

    dataset: Any
    count: int
    rows: int
    order: Whole | None
    starts: Whole | None
    collate: Callable[[list[Any]], Any] | None
    shape: list[Any] = field(default_factory=list)

    @classmethod
    def of(
        cls,
        dataset: Any,
        *,
        unit: ArrayLike | None,
        rows: int | None,
        collate: Callable[[list[Any]], Any] | None,
    ) -> Units:
        """The units of a dataset; InvalidParameter if it has no rows by index."""
        data = dataset
        if isinstance(dataset, tuple | list) and dataset and all(map(torch.is_tensor, dataset)):
            lengths = {len(each) for each in dataset}
            if len(lengths) != 1:
                shown = f"{len(dataset)} tensors"
                raise InvalidParameter("dataset", shown, expected="tensors of one length")
            data = torch.utils.data.TensorDataset(*dataset)
        if isinstance(data, torch.utils.data.IterableDataset) or not (
            hasattr(data, "__getitem__") and hasattr(data, "__len__")
        ):
            shown = type(dataset).__name__
            expected = "examples by index: a stream has no Poisson samples"
            raise InvalidParameter("dataset", shown, expected=expected)
        size = len(data)
        if unit is None:
            if rows is not None:
                raise InvalidParameter("rows", rows, expected="with unit=, the unit of each row")
            return cls(dataset=data, count=size, rows=1, order=None, starts=None, collate=collate)
        own, labels = elements.codes("unit", unit)
        if own.shape != (size,):
            raise InvalidParameter("unit", own.shape, expected="one id for each row of the dataset")
        if rows is None:
            raise InvalidParameter("rows", rows, expected="how many rows of a unit a step holds")
        checks.positive_integer(rows=rows)
        order = np.argsort(own, kind="stable").astype(np.int64)
        starts = np.searchsorted(own[order], np.arange(len(labels) + 1)).astype(np.int64)
        return cls(
            dataset=data,
            count=len(starts) - 1,
            rows=rows,
            order=order,
            starts=starts,
            collate=collate,
        )

    def batch(self, units: Whole, *, room: int, bits: RandomBits) -> tuple[Any, Tensor]:
        """The rows of units, padded to `room` units, and the weight of each row.

        A unit with more rows has a uniform sample of them; one with fewer is padded with rows of
        weight 0. The weights of a unit add up to 1.

        Raises InvalidParameter if an example has another shape than in the first batch: a length
        that depends on the batch would let one example affect all others.
        """
        index, weights = self._rows(units, bits)
        missing = room * self.rows - len(weights)
        batch = self._fetch(index, missing)
        self.shape[:] = self.shape or [_shape(batch)]
        if self.shape != [_shape(batch)]:
            kind = type(batch).__name__
            expected = "examples of one shape in all batches: pad them to a stated length"
            raise InvalidParameter("collate", kind, expected=expected)
        return batch, torch.nn.functional.pad(torch.from_numpy(weights), (0, missing))

    def _rows(self, units: Whole, bits: RandomBits) -> tuple[Whole, NDArray[np.float32]]:
        if self.order is None or self.starts is None:
            return units, np.ones(len(units), dtype=np.float32)
        index = np.zeros((len(units), self.rows), dtype=np.int64)
        weights = np.zeros((len(units), self.rows), dtype=np.float32)
        for place, unit in enumerate(units):
            own = self.order[self.starts[unit] : self.starts[unit + 1]]
            if len(own) > self.rows:
                own = own[np.argsort(bits.words(len(own)), kind="stable")[: self.rows]]
            index[place] = np.resize(own, self.rows)
            weights[place, : len(own)] = 1 / len(own)
        return index.reshape(-1), weights.reshape(-1)

    def _fetch(self, index: Whole, missing: int = 0) -> Any:
        """The rows at these places, and zeros for those that are missing."""
        if self.shapes_are_known:
            places = torch.from_numpy(index)
            return [_selected(each.detach(), places, missing) for each in self.dataset.tensors]
        collate = self.collate or torch.utils.data.default_collate
        return _filled(collate([self.dataset[int(place)] for place in index]), missing)

    @property
    def layout(self) -> tuple[int, Whole | None, Whole | None]:
        """The number of units, and their rows; private."""
        return self.count, self.order, self.starts

    @property
    def shapes_are_known(self) -> bool:
        """True if shapes and types of rows are those of tensors, so that none has to be read."""
        return isinstance(self.dataset, torch.utils.data.TensorDataset) and self.collate is None

    def at_once(self, physical: int | None, batch_size: int) -> int:
        """How many rows of whole units are computed together."""
        chosen = min(_PHYSICAL, 2 * batch_size * self.rows) if physical is None else physical
        return max(checks.positive_integer(physical=chosen) // self.rows, 1) * self.rows

    @property
    def described(self) -> str:
        """The kind of the dataset, and the known shapes and types of a row."""
        kind = type(self.dataset).__name__
        if not self.shapes_are_known:
            return kind
        parts = [f"{each.dtype} {tuple(each.shape[1:])}" for each in self.dataset.tensors]
        return f"{kind} of {', '.join(parts)}"

    def made_up(self, count: int) -> Any:
        """Rows with the shapes and types of others, independent of their values."""
        if self.shapes_are_known:
            kinds = [(each.shape[1:], each.dtype) for each in self.dataset.tensors]
            return _made_up([torch.empty(count, *shape, dtype=dtype) for shape, dtype in kinds])
        if not len(self.dataset):
            return None
        return _made_up(self._fetch(np.zeros(count, dtype=np.int64)))


def _shape(batch: Any) -> Any:
    """The kinds and shapes of an example's parts."""
    if torch.is_tensor(batch):
        return batch.dtype, tuple(batch.shape[1:])
    if isinstance(batch, dict):
        return {name: _shape(each) for name, each in batch.items()}
    if isinstance(batch, list | tuple):
        return [_shape(each) for each in batch]
    return type(batch)


def _selected(rows: Tensor, places: Tensor, missing: int) -> Tensor:
    found = rows.new_empty(len(places) + missing, *rows.shape[1:])
    torch.index_select(rows, 0, places.to(rows.device), out=found[: len(places)])
    found[len(places) :].zero_()
    return found


def _filled(batch: Any, missing: int) -> Any:
    if torch.is_tensor(batch):
        if not missing:
            return batch
        return torch.cat([batch, batch.new_zeros(missing, *batch.shape[1:])])
    if isinstance(batch, dict):
        return {name: _filled(each, missing) for name, each in batch.items()}
    if isinstance(batch, list | tuple):
        return [_filled(each, missing) for each in batch]
    raise InvalidParameter(
        "collate", type(batch).__name__, expected="batches of tensors, examples first"
    )


def _made_up(batch: Any) -> Any:
    if torch.is_tensor(batch):
        drawn = torch.Generator().manual_seed(1)
        if batch.is_floating_point():
            return torch.randn(batch.shape, generator=drawn).to(batch.dtype)
        places = torch.randint(0, 2, batch.shape, generator=drawn)
        return places.to(batch.dtype)
    if isinstance(batch, dict):
        return {name: _made_up(each) for name, each in batch.items()}
    return [_made_up(each) for each in batch]


def moved(batch: Any, device: Any) -> Any:
    """A batch on another device."""
    if torch.is_tensor(batch):
        return batch.to(device)
    if isinstance(batch, dict):
        return {name: moved(each, device) for name, each in batch.items()}
    if isinstance(batch, Sequence) and not isinstance(batch, str):
        return [moved(each, device) for each in batch]
    return batch
