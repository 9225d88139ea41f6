"""Clipped sums of unacorda: of the checkout that PYTHONPATH names."""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any

import torch
from learning_protocol import answer, losses

from unacorda.learning import ClippedSums
from unacorda.learning.noise.gaussian import add_gaussian
from unacorda.learning.noise.keys import NoiseKey


def step_of(model: Any, x: Any, y: Any, kind: str) -> Callable[[], None]:
    """One clipped sum of a batch in either arithmetic, a plain step, or noise for the numbers x."""
    if y is None:
        return _noise_of(x, kind)
    if kind == "plain":

        def plain() -> None:
            model.zero_grad()
            losses(model(x), y).mean().backward()

        return plain
    clipped = ClippedSums(model, bound=1.0, arithmetic=kind, units=len(x))  # type: ignore[arg-type]
    memory = clipped.no_sums()

    def ours() -> None:  # as a training does, in the memory of the last step's sums
        clipped.sums(losses(model(x), y), memory=memory)

    return ours


def _noise_of(x: Any, kind: str) -> Callable[[], None]:
    key, steps = NoiseKey.drawn(), itertools.count()

    def plain() -> None:
        x.add_(torch.randn_like(x))

    def ours() -> None:
        add_gaussian({"x": x}, scale=1.0, key=key, attempt=0, step=next(steps))

    return plain if kind == "plain" else ours


if __name__ == "__main__":
    answer(step_of)
