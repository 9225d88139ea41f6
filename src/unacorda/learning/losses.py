"""Losses of single examples under a model, and their gradients along a direction."""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from unacorda import checks
from unacorda.errors import InvalidParameter
from unacorda.extras import require
from unacorda.learning.parameters import flattened, matching, trained

if TYPE_CHECKING:
    from torch import Tensor, nn

__all__ = ["Loss", "losses", "projections"]

Floats = NDArray[np.float64]
Loss = Callable[["Tensor", "Tensor"], "Tensor"]
"""Of a model's outputs and their targets, one number an example: reduction="none"."""


def losses(
    model: nn.Module,
    loss: Loss,
    features: Tensor,
    targets: Tensor,
    *,
    at: Sequence[Tensor] | None,
    batch: int,
) -> Floats:
    """The loss of each example; `at`: the trained parameters to put in place of the model's own."""
    torch = require("torch", extra="learning")
    values = _named(model, at)
    rows = checks.positive_integer(batch=batch)
    found = []
    with torch.no_grad(), _judging(model):
        for x, y in _batches(model, features, targets, rows=rows):
            each = loss(torch.func.functional_call(model, values, (x,)), y)
            if not torch.is_tensor(each) or tuple(each.shape) != (len(x),):
                raise InvalidParameter(
                    "loss",
                    f"a result of shape {tuple(getattr(each, 'shape', ()))} for {len(x)} examples",
                    expected='one number an example: pass reduction="none"',
                )
            found.append(each.to("cpu").double().numpy())
    return np.concatenate(found)


def projections(
    model: nn.Module,
    loss: Loss,
    features: Tensor,
    targets: Tensor,
    *,
    direction: Sequence[Tensor],
    norm: float,
    at: Sequence[Tensor] | None,
    batch: int,
) -> Floats:
    """The product of each example's clipped gradient with a direction."""
    torch = require("torch", extra="learning")
    values = _named(model, at)
    shapes = tuple(tuple(each.shape) for each in values.values())
    length, rows = checks.positive(norm=norm), checks.positive_integer(batch=batch)
    flattened("updates", direction, shapes=shapes)  # refuses what is not finite

    def of_one(parameters: dict[str, Tensor], x: Tensor, y: Tensor) -> Tensor:
        outputs = torch.func.functional_call(model, parameters, (x.unsqueeze(0),))
        found = loss(outputs, y.unsqueeze(0))
        if found.numel() != 1:
            raise InvalidParameter(
                "loss",
                f"a result of shape {tuple(found.shape)} for one example",
                expected="one number per example",
            )
        return found.reshape(())

    gradients_of = torch.func.vmap(torch.func.grad(of_one), in_dims=(None, 0, 0))
    found = []
    with _judging(model):
        for x, y in _batches(model, features, targets, rows=rows):
            try:
                gradients = list(gradients_of(values, x, y).values())
            except RuntimeError as error:
                raise InvalidParameter(
                    "model",
                    type(model).__name__,
                    expected="one that torch.func.vmap can take, without hooks: a copy from before "
                    "an engine wrapped it, with initial=snapshot(model)",
                ) from error
            product, square = np.zeros(len(x)), np.zeros(len(x))
            for gradient, part in zip(gradients, direction, strict=True):
                flat = gradient.detach().reshape(len(x), -1)
                product += (flat @ part.detach().to(flat).reshape(-1)).to("cpu").double().numpy()
                square += flat.square().sum(dim=1).to("cpu").double().numpy()
            found.append(product * length / np.maximum(np.sqrt(square), length))
    return np.concatenate(found)


def _named(model: nn.Module, at: Sequence[Tensor] | None) -> dict[str, Tensor]:
    """The trained parameters by name, at the model's own values or at others."""
    if not isinstance(model, require("torch", extra="learning").nn.Module):
        raise InvalidParameter("model", type(model).__name__, expected="a torch.nn.Module")
    own = trained(model)
    names = [name for name, parameter in model.named_parameters() if parameter.requires_grad]
    if at is not None:
        matching("initial", at, shapes=tuple(tuple(each.shape) for each in own))
    chosen = own if at is None else [each.to(old) for each, old in zip(at, own, strict=True)]
    return {name: each.detach() for name, each in zip(names, chosen, strict=True)}


def _batches(
    model: nn.Module, features: Tensor, targets: Tensor, *, rows: int
) -> Iterator[tuple[Tensor, Tensor]]:
    device = trained(model)[0].device
    for first in range(0, len(features), rows):
        here = slice(first, first + rows)
        yield features[here].to(device), targets[here].to(device)


@contextmanager
def _judging(model: nn.Module) -> Iterator[None]:
    """The model as it is used, without dropout; each module's mode is as before afterwards."""
    modes = [(module, module.training) for module in model.modules()]
    model.eval()
    try:
        yield
    finally:
        for module, mode in modes:
            module.training = mode
