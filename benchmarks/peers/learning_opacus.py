"""Opacus' clipped sums: by hooks, and by ghost clipping, in two backward passes."""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

import torch
from learning_protocol import answer, losses
from opacus import GradSampleModule
from opacus.grad_sample.grad_sample_module_fast_gradient_clipping import (
    GradSampleModuleFastGradientClipping,
)


def step_of(model: Any, x: Any, y: Any, kind: str) -> Callable[[], None]:
    """One clipped sum of a batch."""
    warnings.simplefilter("ignore")
    if kind == "plain":

        def plain() -> None:
            model.zero_grad()
            losses(model(x), y).mean().backward()

        return plain
    if kind == "hooks":
        hooked = GradSampleModule(model, loss_reduction="sum")

        def by_hooks() -> None:
            hooked.zero_grad()
            losses(hooked(x), y).sum().backward()
            trained = [p for p in hooked.parameters() if p.requires_grad]
            norms = torch.stack([p.grad_sample.flatten(1).norm(dim=1) for p in trained]).norm(dim=0)
            weights = 1 / norms.clamp(min=1)
            for p in trained:
                p.grad = torch.einsum("i,i...->...", weights, p.grad_sample)
                p.grad_sample = None

        return by_hooks
    ghost = GradSampleModuleFastGradientClipping(
        model, max_grad_norm=1, use_ghost_clipping=True, loss_reduction="sum"
    )

    def by_ghosts() -> None:
        ghost.zero_grad()
        found = losses(ghost(x), y)
        found.sum().backward(retain_graph=True)
        ghost.zero_grad()
        weights = ghost.get_clipping_coef()
        ghost.disable_hooks()
        (weights * found).sum().backward()
        ghost.enable_hooks()

    return by_ghosts


if __name__ == "__main__":
    answer(step_of)
