"""A loop of noisy, clipped gradient steps, written out by hand, with canaries among the people."""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest

from unacorda import SeededBits
from unacorda.learning import GradientCanaries

torch: Any = pytest.importorskip("torch")

__all__ = ["apart", "descend", "network", "people"]


def network(*sizes: int, seed: int = 1) -> Any:
    """Layers of these sizes with bends between them."""
    torch.manual_seed(seed)
    layers: list[Any] = []
    for size, following in itertools.pairwise(sizes):
        layers += [torch.nn.Linear(size, following), torch.nn.Tanh()]
    return torch.nn.Sequential(*layers[:-1])


def people(n: int, *, features: int, classes: int, seed: int = 1) -> tuple[Any, Any]:
    drawn = torch.Generator().manual_seed(seed)
    x = torch.randn(n, features, generator=drawn)
    direction = torch.randn(features, classes, generator=drawn)
    return x, (x @ direction).argmax(dim=1)


def descend(
    model: Any,
    data: tuple[Any, Any],
    canaries: GradientCanaries | None = None,
    *,
    noise_multiplier: float,
    rate: float = 1.0,
    steps: int,
    clip: float = 1.0,
    clipped: bool = True,
    learning_rate: float = 0.01,
    seed: int = 1,
) -> list[Any]:
    """Trains the model; the sum of what its steps were given, less what the people gave.

    Clipped sums of Poisson samples with normal noise; canaries join the per-example gradients,
    which are clipped with all others unless clipped is False (a planted fault).
    """
    parameters = {name: each for name, each in model.named_parameters() if each.requires_grad}
    optimizer = torch.optim.SGD(model.parameters(), lr=learning_rate)
    drawn, bits = torch.Generator().manual_seed(seed), SeededBits(seed)
    x, y = data

    def loss(values: Any, one: Any, label: Any) -> Any:
        out = torch.func.functional_call(model, values, (one[None],))
        return torch.nn.functional.cross_entropy(out, label[None])

    gradients_of = torch.func.vmap(torch.func.grad(loss), in_dims=(None, 0, 0))
    seen = [torch.zeros_like(each) for each in parameters.values()]
    for _ in range(steps):
        batch = torch.rand(len(x), generator=drawn) < rate
        values = {name: each.detach() for name, each in parameters.items()}
        found = list(gradients_of(values, x[batch], y[batch]).values())
        own = int(batch.sum())
        if canaries is not None:
            found = canaries.appended_to(found, canaries.taking_part(rate=rate, bits=bits))
        lengths = torch.stack([each.flatten(1).norm(dim=1) for each in found]).norm(dim=0)
        cut = (clip / lengths.clamp(min=clip)) if clipped else torch.ones(len(lengths))
        for total, each, parameter in zip(seen, found, parameters.values(), strict=True):
            people_gave = torch.einsum("i,i...", cut[:own], each[:own])
            noise = torch.randn(each.shape[1:], generator=drawn) * (noise_multiplier * clip)
            noisy = torch.einsum("i,i...", cut, each) + noise
            total.add_(noisy - people_gave)
            parameter.grad = noisy / (rate * len(x))
        optimizer.step()
    return seen


def apart(scores: Any, included: Any) -> float:
    """By how many deviations of theirs the scores of those in and of those out differ."""
    inside, outside = scores[included], scores[~included]
    spread = np.sqrt((inside.var() + outside.var()) / 2)
    return float((inside.mean() - outside.mean()) / spread)
