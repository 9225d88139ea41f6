"""Processes that train together over gloo, and what they do there; started once, for many tasks."""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

import multiprocessing
import os
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from typing import Any
from unittest import mock

import numpy as np
import pytest

torch: Any = pytest.importorskip("torch")

from unacorda import ApproxDP, SeededBits, learning  # noqa: E402
from unacorda.errors import InvalidParameter  # noqa: E402
from unacorda.learning.distributed import Ranks  # noqa: E402
from unacorda.learning.noise.gaussian import add_gaussian  # noqa: E402
from unacorda.ledger import open_ledger  # noqa: E402

__all__ = ["Team"]

_LONGEST = 100  # seconds that a task may take

Task = Callable[..., Any]


class Team:
    """Processes with ranks; each task has a process group of its own."""

    def __init__(self, size: int, folder: Path) -> None:
        self.size, self._folder, self._tasks = size, folder, 0
        context = multiprocessing.get_context("spawn")
        pairs = [context.Pipe() for _ in range(size)]
        self._ends = [own for own, _ in pairs]
        self._members = [
            context.Process(target=_serve, args=(end, rank, size), daemon=True)
            for rank, (_, end) in enumerate(pairs)
        ]
        for member, (_, end) in zip(self._members, pairs, strict=True):
            member.start()
            end.close()

    def run(self, task: str, *, seconds: float = 30, **options: Any) -> list[Any]:
        """What each rank returned, or its error as a dictionary; None from one that died."""
        self._tasks += 1
        meeting = str(self._folder / f"meeting{self._tasks}")
        for end in self._ends:
            end.send((task, meeting, seconds, options))
        return [_heard(end) for end in self._ends]

    def alone(self, task: str, **options: Any) -> Any:
        """What one process without a group returned."""
        self._ends[0].send((task, None, 0, options))
        return _heard(self._ends[0])

    def close(self) -> None:
        for end in self._ends:
            end.close()
        for member in self._members:
            member.kill()
            member.join()


def _heard(end: Any) -> Any:
    if not end.poll(_LONGEST):
        raise AssertionError("a rank hangs")
    try:
        return end.recv()
    except EOFError:
        return None


def _serve(end: Any, rank: int, size: int) -> None:
    torch.set_num_threads(1)
    while True:
        try:
            task, meeting, seconds, options = end.recv()
        except EOFError:
            return
        group = None
        if meeting is not None:
            torch.distributed.init_process_group(
                "gloo",
                init_method=f"file://{meeting}",
                rank=rank,
                world_size=size,
                timeout=timedelta(seconds=seconds),
            )
            group = torch.distributed.group.WORLD
        try:
            found = _TASKS[task](group, rank, **options)
        except Exception as error:  # noqa: BLE001  # sent on
            found = {"error": type(error).__name__, "text": str(error)}
            if isinstance(error, InvalidParameter):
                found["argument"] = error.argument
        if group is not None:
            torch.distributed.destroy_process_group()
        end.send(found)


def rows(count: int) -> tuple[Any, Any]:
    drawn = torch.Generator().manual_seed(1)
    x = torch.randn(count, 4, generator=drawn)
    return x, (x[:, :1] > 0).float()


def training(group: Any, rank: int, **options: Any) -> Any:
    """A training; options that are lists hold one for each rank."""
    own = {
        name: value[rank] if isinstance(value, list) else value for name, value in options.items()
    }
    count, width = own.pop("count", 200), own.pop("width", 6)
    torch.manual_seed(1 if own.pop("alike", True) else 1 + rank)
    model = torch.nn.Sequential(
        torch.nn.Linear(4, width), torch.nn.Tanh(), torch.nn.Linear(width, 1)
    )
    optimizer = torch.optim.SGD(model.parameters(), lr=own.pop("lr", 0.5), momentum=0.9)
    if own.pop("canaries", False):
        # Coins of ranks differ, as those of secure bits do; rank 0's count.
        own["canaries"] = learning.scattered(model, count=5, norm=1.0, bits=SeededBits(rank))
    settings: dict[str, Any] = {
        "budget": ApproxDP(2, 1e-5),
        "units": 200,
        "batch_size": 40,
        "steps": 6,
        "clip": 1.0,
        "physical": 16,
        "bits": SeededBits(1 + rank),
    } | own
    return learning.PrivateTraining(model, optimizer, rows(count), group=group, **settings)


def run(private: Any, *, scale: float = 1.0, until: int | None = None) -> dict[str, Any]:
    """The weights after all steps, the batches that this process computed, and their steps."""
    batches, steps = 0, set()
    for x, y in private:
        steps.add(private.steps_begun)
        errors = torch.nn.functional.binary_cross_entropy_with_logits(
            private.model(x), y, reduction="none"
        )
        private.step(scale * errors.sum(1))
        batches += 1
        if private.steps_done == until:
            break
    return shown(private) | {"batches": batches, "steps": steps}


def shown(private: Any) -> dict[str, Any]:
    weights = torch.cat([p.detach().reshape(-1) for p in private.model.parameters()])
    return {
        "weights": weights.numpy().copy(),
        "done": private.steps_done,
        "begun": private.steps_begun,
        "secret": private._noise.key.secret,
    }


# Tasks


def trained(group: Any, rank: int, *, scale: float = 1.0, **options: Any) -> Any:
    private = training(group, rank, **options)
    found = run(private, scale=scale)
    if options.get("canaries") and rank == 0:
        seen = private._canaries.seen
        found["seen"] = np.concatenate([each.numpy().ravel() for each in seen.values()])
    return found


def charged(group: Any, rank: int, *, path: str, **options: Any) -> Any:
    """A training charged to a ledger that rank 0 alone opens."""
    ledger = None if rank else open_ledger(path)
    more: dict[str, Any] = {} if rank else {"ledger": ledger, "account": "people"}
    try:
        return run(training(group, rank, bits=None, **more, **options))
    finally:
        if ledger is not None:
            ledger.close()


def saved(group: Any, rank: int, *, folder: str, **options: Any) -> Any:
    """Three steps, and the second is saved."""
    path = f"{folder}/{'one' if group is None else 'several'}.pt"
    private = training(group, rank, checkpoint=path, **options)
    run(private, until=2)
    private.save()
    run(private, until=3)
    private.release(f"{path}.released")
    private.close()
    return shown(private)


def resumed(group: Any, rank: int, *, folder: str, **options: Any) -> Any:
    path = f"{folder}/{'one' if group is None else 'several'}.pt"
    private = training(group, rank, checkpoint=path, resume=True, alike=False, **options)
    start = private.steps_done
    found = run(private) | {"start": start}
    private.close()
    return found


def noise_of_each_rank(group: Any, rank: int, **options: Any) -> Any:
    """A fault: every rank adds noise to all coordinates."""

    def whole(sums: Any, *, share: Any, **more: Any) -> Any:
        del share
        return add_gaussian(sums, **more)

    with mock.patch("unacorda.learning.noise.steps.add_gaussian", whole):
        return trained(group, rank, **options)


def secret_of_each_rank(group: Any, rank: int, **options: Any) -> Any:
    """A fault: every rank makes its own secret."""
    plain = Ranks.first

    def first(self: Any, name: str, make: Any) -> Any:
        found = plain(self, name, make)
        return make() if name == "secret" else found

    with mock.patch.object(Ranks, "first", first):
        return trained(group, rank, **options)


def empty_steps_left_out(group: Any, rank: int, **options: Any) -> Any:
    """A fault: rank 1 does nothing in a step that has nothing for it."""
    plain = learning.PrivateTraining._finish

    def finish(self: Any, sums: Any) -> None:
        if rank == 1 and not self._current.chunks:
            self.steps_done += 1
            self._current = None
            return
        plain(self, sums)

    with mock.patch.object(learning.PrivateTraining, "_finish", finish):
        return trained(group, rank, **options)


def failing(group: Any, rank: int, *, how: str, **options: Any) -> Any:
    """Rank 1 fails in its second step; what the others did."""
    private = training(group, rank, **options)
    error = ""
    try:
        for x, _ in private:
            losses = private.model(x).sum(1)
            if rank == 1 and private.steps_done == 1:
                if how == "death":
                    os._exit(1)
                losses = losses[:2]
            private.step(losses)
    except (RuntimeError, InvalidParameter) as raised:
        error = f"{type(raised).__name__}: {raised}"
    with pytest.raises(RuntimeError):  # and it is over
        next(iter(private))
    return shown(private) | {"error": error}


def wrapped(group: Any, rank: int) -> Any:
    del rank
    model = torch.nn.parallel.DistributedDataParallel(torch.nn.Linear(4, 1))
    return learning.ClippedSums(model, bound=1.0)


def without_group(group: Any, rank: int, **options: Any) -> Any:
    del group
    return trained(None, rank, **options)


_TASKS: dict[str, Task] = {
    task.__name__: task
    for task in (
        charged,
        empty_steps_left_out,
        failing,
        noise_of_each_rank,
        resumed,
        saved,
        secret_of_each_rank,
        trained,
        without_group,
        wrapped,
    )
}
