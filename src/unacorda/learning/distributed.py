r"""Ranks: the processes of torch.distributed that train one model together.

Ranks compare a name before they exchange anything. If the names differ, because one skipped a step,
or if one has failed, each of them raises an error, and no sum is exchanged.
docs/proofs/training.md, section 7, states the assumptions about ranks and their network.
"""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from functools import wraps
from typing import TYPE_CHECKING, Any, Final, TypeVar, cast

import numpy as np

from unacorda.errors import InvalidParameter, UnacordaError
from unacorda.extras import later

if TYPE_CHECKING:
    from torch import Tensor

__all__ = ["Ranks", "on_all_ranks"]

torch: Any = later("torch")

Value = TypeVar("Value")
Method = TypeVar("Method", bound=Callable[..., Any])

_STOP: Final = "stop"


class Ranks:
    """The processes of a group, each with its rank; without a group rank 0 of 1.

    Every rank calls the methods in the same order.

    Raises
    ------
    InvalidParameter
        If this process is not a member of the group, and for no group among several processes.

    >>> alone = Ranks()
    >>> alone.rank, alone.size, alone.first("number", lambda: 5)
    (0, 1, 5)
    """

    def __init__(self, group: Any = None) -> None:
        self.rank, self.size, self._group, self._over = 0, 1, group, False
        distributed = torch.distributed
        begun = distributed.is_available() and distributed.is_initialized()
        if group is None:
            if begun and distributed.get_world_size() > 1:
                expected = (
                    "torch.distributed.group.WORLD to train over all processes, or a group of this "
                    "process alone, whose training has a budget of its own"
                )
                raise InvalidParameter("group", None, expected=expected)
            return
        if not begun or not isinstance(group, distributed.ProcessGroup):
            shown = type(group).__name__
            expected = "a process group of torch.distributed that this process is a member of"
            raise InvalidParameter("group", shown, expected=expected)
        self.rank, self.size = distributed.get_rank(group), distributed.get_world_size(group)

    @property
    def share(self) -> tuple[int, int]:
        """The rank and the number of ranks; every `size`-th chunk of noise belongs to this rank."""
        return self.rank, self.size

    def first(self, name: str, make: Callable[[], Value]) -> Value:
        """What rank 0 makes, on every rank."""
        made = [make() if self.rank == 0 else None]
        if self.size > 1:
            self._meet(name)
            with self._undone():
                source = torch.distributed.get_global_rank(self._group, 0)
                torch.distributed.broadcast_object_list(made, src=source, group=self._group)
        return cast("Value", made[0])

    def number(self, name: str, make: Callable[[], int]) -> int:
        """The number that rank 0 makes, on every rank."""
        own = make() if self.rank == 0 else 0
        return own if self.size == 1 else self._meet(name, own)

    def same(self, **facts: Any) -> None:
        """Raise InvalidParameter on every rank if one has other facts than rank 0.

        They are compared by digests and not shown.
        """
        self._compare(
            {name: _digest(value) for name, value in facts.items()} if self.size > 1 else {},
            expected="the same on every rank",
        )

    def lead(self, **given: Any) -> None:
        """Raise InvalidParameter on every rank if another rank has what rank 0 lacks."""
        self._compare(
            {name: "given" for name, value in given.items() if value is not None},
            expected="it on rank 0 only",
        )

    def _compare(self, own: dict[str, str], *, expected: str) -> None:
        if self.size == 1:
            return
        self._meet("comparison")
        with self._undone():
            found = self._gathered(own)
        for rank, other in enumerate(found):
            for name, value in other.items():
                if value != found[0].get(name):
                    self._over = True
                    shown = f"another on rank {rank} than on rank 0"
                    raise InvalidParameter(name, shown, expected=expected)

    def summed(self, name: str, tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
        """The sums of tensors over all ranks, in float64."""
        if self.size == 1:
            return dict(tensors)
        sizes = [values.numel() for values in tensors.values()]
        home = next(iter(tensors.values())).device
        flat = torch.cat([each.reshape(-1).to(home, torch.float64) for each in tensors.values()])
        self._meet(f"{name} of {len(flat)} coordinates")
        with self._undone():
            torch.distributed.all_reduce(flat, group=self._group)
        pieces = zip(tensors.items(), flat.split(sizes), strict=True)
        return {
            name: piece.view(values.shape).to(values.device) for (name, values), piece in pieces
        }

    @contextmanager
    def together(self) -> Iterator[None]:
        """Turn an error on this rank into one on every rank, so that none waits for it."""
        try:
            yield
        except Exception as error:
            self.stop(error)
            raise

    def stop(self, error: Exception) -> None:
        """End the training of all ranks; they raise RuntimeError at their next exchange."""
        if self.size == 1 or self._over:
            return
        # Messages of other errors may show rows.
        text = f": {error}" if isinstance(error, UnacordaError) else ""
        with suppress(RuntimeError):  # raised for the others; `error` is raised here
            self._meet(_STOP, said=f"{type(error).__name__}{text}")

    def _meet(self, name: str, number: int = 0, *, said: str = "") -> int:
        """Wait for all ranks; the number of rank 0. RuntimeError unless all came for one thing."""
        if self._over:
            raise RuntimeError("this training has ended on all ranks: one of them raised an error")
        kind = torch.distributed.get_backend(self._group)
        device = "cuda" if kind == "nccl" else "cpu"
        own = torch.tensor([_word(name), number], device=device)
        found = [torch.empty_like(own) for _ in range(self.size)]
        with self._undone():
            torch.distributed.all_gather(found, own, group=self._group)
        words = {int(each[0]) for each in found}
        if len(words) == 1 and _word(_STOP) not in words:
            return int(found[0][1])
        self._over = True
        heard = self._gathered((name, said))
        stopped = [f"rank {rank} stopped, {said}" for rank, (_, said) in enumerate(heard) if said]
        apart = [f"rank {rank} came to {place!r}" for rank, (place, _) in enumerate(heard)]
        raise RuntimeError(
            "; ".join(stopped)
            or f"{', '.join(apart)}: every rank takes every step, and ends its loop with the others"
        )

    def _gathered(self, value: Any) -> list[Any]:
        found = [None] * self.size
        torch.distributed.all_gather_object(found, value, group=self._group)
        return found

    @contextmanager
    def _undone(self) -> Iterator[None]:
        """After an error of torch's in an exchange there is no other one."""
        self._over = True
        yield
        self._over = False


def on_all_ranks(method: Method) -> Method:
    """A method whose error on one of `self.ranks` is raised on all of them."""

    @wraps(method)
    def tried(self: Any, *args: Any, **named: Any) -> Any:
        try:
            return method(self, *args, **named)
        except Exception as error:
            if "ranks" in vars(self):  # else it was refused before there were any
                self.ranks.stop(error)
            raise

    return cast("Method", tried)


def _word(name: str) -> int:
    return int.from_bytes(hashlib.sha256(name.encode()).digest()[:7], "big")


def _digest(value: Any) -> str:
    found = hashlib.sha256()
    for piece in _bytes(value):
        found.update(len(piece).to_bytes(8, "big"))
        found.update(piece)
    return found.hexdigest()


def _bytes(value: Any) -> Iterator[bytes]:
    """What a value holds, whatever machine or device it lies on."""
    if torch.is_tensor(value):
        flat = value.detach().cpu().contiguous().view(-1)
        yield f"{value.dtype} {tuple(value.shape)}".encode()
        yield flat.view(torch.uint8).numpy().tobytes()
    elif isinstance(value, np.ndarray):
        yield f"{value.dtype} {value.shape}".encode()
        yield value.tobytes()
    elif isinstance(value, Mapping):
        yield f"of {len(value)}".encode()
        for name, each in value.items():
            yield repr(name).encode()
            yield from _bytes(each)
    elif isinstance(value, list | tuple):
        yield f"of {len(value)}".encode()
        for each in value:
            yield from _bytes(each)
    else:
        yield repr(value).encode()
