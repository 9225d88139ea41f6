"""Logical batches: the units of a step, in chunks of rows that are computed together."""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from unacorda.bits import RandomBits
from unacorda.extras import later
from unacorda.learning.plan import TrainingPlan
from unacorda.learning.units import Units, moved

__all__ = ["LogicalBatch", "chunks_of"]

torch: Any = later("torch")

_SPARE_ROOM = 3, 2  # chunks have room for half as many units again as come on average


@dataclass(slots=True)
class LogicalBatch:
    """The batch of a step: its number, the chunks of its units, and their sums so far.

    chunks: each with its number among those of all ranks; sums: of the chunks so far, None before
    the first; pending: the weights of the rows that were given and not yet summed; place: chunks
    given; states: of PyTorch's random numbers before the chunk that is pending.
    """

    number: int
    chunks: list[tuple[int, NDArray[np.int64]]]
    sums: dict[str, Any] | None = None
    pending: Any = None
    place: int = 0
    states: list[tuple[Any, Any]] = field(default_factory=list)

    def next_chunk(
        self, data: Units, plan: TrainingPlan, bits: Callable[[int], RandomBits], device: Any
    ) -> Any:
        """The rows of the next chunk, by bits of its number; their weights are then pending.

        PyTorch's random numbers, such as those of dropout, come from a secret seed until the
        weights are taken. With known numbers, one more unit would shift those of the other units in
        its chunk.
        """
        if self.pending is not None:
            raise RuntimeError("every batch of a private training needs training.step()")
        number, units = self.chunks[self.place]
        self.place += 1
        room = plan.physical // plan.rows
        sources = [torch] + ([torch.cuda] if device.type == "cuda" else [])
        self.states = [(source, source.get_rng_state()) for source in sources]
        # torch.manual_seed formats the stack of calls, for the day when CUDA is first used.
        on_cpu = device.type == "cpu"
        seed = torch.default_generator.manual_seed if on_cpu else torch.manual_seed
        seed(int(bits(-number).words(1)[0]) >> 1)
        batch, weights = data.batch(units, room=room, bits=bits(number))
        self.pending = weights.to(device)
        return moved(batch, device)

    def taken(self) -> Any:
        """Take the pending weights, once; PyTorch's random numbers continue as before."""
        for source, state in self.states:
            source.set_rng_state(state)
        weights, self.pending, self.states = self.pending, None, []
        return weights

    @property
    def complete(self) -> bool:
        """Whether all chunks were given."""
        return self.place == len(self.chunks)


def chunks_of(
    members: NDArray[np.int64],
    plan: TrainingPlan,
    bits: RandomBits,
    *,
    share: tuple[int, int] = (0, 1),
) -> list[tuple[int, NDArray[np.int64]]]:
    """The units of a step by chunks, each with room for `plan.physical` rows; none is empty.

    Each unit draws its chunk independently. A chunk with too many units is halved by further bits
    of theirs, and so on. So one more unit changes or halves one chunk, and no other. Of
    share=(rank, ranks) chunks go to ranks in turn; halves stay with the rank of their chunk.
    """
    rank, ranks = share
    room = plan.physical // plan.rows
    more, less = _SPARE_ROOM
    count = max(1, -(-more * plan.batch_size // (less * room)))
    if count == 1 and plan.batch_size >= plan.units:
        count = max(1, -(-plan.units // room))
    count = -(-count // ranks) * ranks
    words = bits.words(len(members))
    places, rest = words % np.uint64(count), words // np.uint64(count)
    parts = [
        (chunk % ranks, part)
        for chunk in range(count)
        for part in _halved(members[places == chunk], rest[places == chunk], room)
    ]
    return [(number, part) for number, (owner, part) in enumerate(parts, 1) if owner == rank]


def _halved(
    units: NDArray[np.int64], words: NDArray[np.uint64], room: int
) -> list[NDArray[np.int64]]:
    """Units in parts with room, by the bits of their words; parts of others are as without one."""
    if len(units) <= room:
        return [units] if len(units) else []
    if not words.any():  # no bits are left: with secret words it does not happen
        return [units[start : start + room] for start in range(0, len(units), room)]
    upper = (words & np.uint64(1)).astype(bool)
    return [
        part
        for side in (~upper, upper)
        for part in _halved(units[side], words[side] >> np.uint64(1), room)
    ]
