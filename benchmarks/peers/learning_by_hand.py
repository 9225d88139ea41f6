"""Clipped sums by hand: of linear layers with ReLU between, under cross entropy.

No graph, hook or check, one bound for whole gradients, all memory kept from step to step and
gradients overwritten: about the least that a step with the same PyTorch kernels takes.
"""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from learning_protocol import answer
from torch import nn

ROWS = 256  # which are widened to float64 at once


def step_of(model: Any, x: Any, y: Any, kind: str) -> Callable[[], None]:
    """Clipped sums of a batch, of norm 1, with sums in float64 or in float32."""
    layers = [each for each in model.modules() if isinstance(each, nn.Linear)]
    weights = [layer.weight.detach() for layer in layers]
    biases = [layer.bias.detach() for layer in layers]
    hit = nn.functional.one_hot(y, len(biases[-1])).float()
    outputs = [torch.empty(len(x), len(bias)) for bias in biases]
    gradients = [torch.empty_like(each) for each in outputs]
    sums = [(torch.zeros_like(w).double(), torch.zeros_like(b).double()) for w, b in
            zip(weights, biases, strict=True)]  # fmt: skip
    add = _add_wide if kind == "float64" else _add

    @torch.no_grad()
    def step() -> None:
        given = x
        for place, (weight, bias) in enumerate(zip(weights, biases, strict=True)):
            given = torch.addmm(bias, given, weight.T, out=outputs[place])
            if place + 1 < len(weights):
                given.clamp_(min=0)
        torch.sub(outputs[-1].softmax(1), hit, out=gradients[-1])
        for place in range(len(weights) - 1, 0, -1):
            before = torch.mm(gradients[place], weights[place], out=gradients[place - 1])
            torch.ops.aten.threshold_backward.grad_input(
                before, outputs[place - 1], 0, grad_input=before
            )
        pairs = list(zip(gradients, [x, *outputs[:-1]], strict=True))
        squares: Any = 0
        for left, right in pairs:
            inner, outer = (torch.linalg.vector_norm(each, dim=1) for each in (left, right))
            squares = squares + inner.square_() * outer.square_().add_(1)
        shares = 1 / squares.sqrt_().mul_(1 + 2**-12).clamp_(min=1)
        for (left, right), (total, bias) in zip(pairs, sums, strict=True):
            add(left.mul_(shares[:, None]), right, total, bias)

    return step


def _add_wide(left: Any, right: Any, total: Any, bias: Any) -> None:
    total.zero_()
    bias.zero_()
    for one, other in zip(left.split(ROWS), right.split(ROWS), strict=True):
        wide = one.double()
        total.addmm_(wide.T, other.double())
        bias.add_(wide.sum(0))


def _add(left: Any, right: Any, total: Any, bias: Any) -> None:
    total.copy_(left.T @ right)
    bias.copy_(left.sum(0))


if __name__ == "__main__":
    answer(step_of)
