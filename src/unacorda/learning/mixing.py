"""Tests on made-up rows, together and one by one, whether a model mixes examples."""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final

from unacorda.errors import InvalidParameter
from unacorda.extras import later
from unacorda.learning.clipping.sums import ClippedSums

__all__ = ["check_mixing"]

torch: Any = later("torch")

_ROWS: Final = 3
_ALIKE: Final = 1e-3
"""Norms and outputs of one example that are rounded differently are alike to this, relative."""


def check_mixing(model: Any, clipped: ClippedSums, made_up: Callable[[int], Any]) -> None:
    """Raise InvalidParameter if outputs or gradients of an example depend on the others.

    The same if a forward pass changes buffers of the model.

    made_up: from a number to that many rows, independent of the data. Dropout is off, and the state
    of torch's random numbers and the model's mode are restored. A list ends with the targets. From
    a dictionary the model gets the parts that it has parameters for, or all as one. Outputs are
    tensors with examples first, also in lists and dictionaries; a model without any is not tested.
    """
    batch = made_up(_ROWS)
    device = next(iter(clipped.trained.values())).device
    batch = None if batch is None else _rows(batch, slice(None), device)
    if not isinstance(batch, list | dict) and not torch.is_tensor(batch):
        return
    training = [module for module in model.modules() if module.training]
    state = torch.random.get_rng_state()
    try:
        _check_buffers(model, batch)
        model.eval()
        for module in training:  # kernels of recurrent layers want their own mode
            if isinstance(module, torch.nn.RNNBase):
                module.train()
        together = _tried(model, clipped, batch, rows=_ROWS)
        apart = [
            _tried(model, clipped, _rows(batch, [row], device), rows=1) for row in range(_ROWS)
        ]
    finally:
        for module in training:
            module.training = True
        torch.random.set_rng_state(state)
    if together is None or None in apart:
        return
    for whole, parts in zip(together, zip(*apart, strict=True), strict=True):
        alone = torch.cat(list(parts))
        scale = alone.abs().max().clamp(min=1e-12)
        if whole.shape != alone.shape or float((whole - alone).abs().max() / scale) > _ALIKE:
            raise InvalidParameter(
                "model",
                type(model).__name__,
                expected="a model whose output and gradient for an example depend on that example "
                "alone; here they change with the others of the batch",
            )


def _rows(batch: Any, rows: Any, device: Any) -> Any:
    """Some rows of a batch; what is no tensor stays as it is."""
    if isinstance(batch, dict):
        return {name: _rows(each, rows, device) for name, each in batch.items()}
    if isinstance(batch, list):
        return [_rows(each, rows, device) for each in batch]
    return batch[rows].to(device) if torch.is_tensor(batch) and batch.dim() else batch


def _outputs(model: Any, batch: Any) -> Any:
    """What a model makes of a batch."""
    if torch.is_tensor(batch):
        return model(batch)
    if isinstance(batch, list):
        return model(*(batch[:-1] if len(batch) > 1 else batch))
    parameters = inspect.signature(model.forward).parameters
    named = {name: part for name, part in batch.items() if name in parameters}
    return model(**named) if named else model(batch)


def _check_buffers(model: Any, batch: Any) -> None:
    """Raise InvalidParameter where a forward pass changes buffers, which are released as they are.

    They are compared before and after one of made-up rows, in the mode that the model is in.
    """
    trained = {name for name, _ in model.named_parameters(remove_duplicate=False)}
    before = {
        name: value.clone()
        for name, value in model.state_dict().items()
        if name not in trained and torch.is_tensor(value)
    }
    if not before:
        return
    with torch.no_grad():
        _outputs(model, batch)
    for name, value in model.state_dict().items():
        old = before.get(name)
        if old is not None and not bool(((value == old) | value.isnan() & old.isnan()).all()):
            raise InvalidParameter(
                "model",
                name,
                expected="a buffer that no forward pass changes: what it takes from examples is "
                "released with no noise",
            )


def _tried(model: Any, clipped: ClippedSums, batch: Any, *, rows: int) -> Any:
    """Outputs and norms of gradients; None where no output is a tensor with examples first."""
    parts = [
        part.flatten(1) if part.dim() > 1 else part[:, None]
        for part in _tensors(_outputs(model, batch))
        if part.is_floating_point() and part.dim() and len(part) == rows and part.requires_grad
    ]
    if not parts:
        clipped.forget()
        return None
    flat = torch.cat(parts, dim=1)
    direction = torch.linspace(0.5, 1.5, flat.shape[1], device=flat.device, dtype=flat.dtype)
    norms = clipped.square_norms((flat * direction).sum(1)).sqrt()
    return flat.detach(), norms


def _tensors(found: Any) -> Iterator[Any]:
    """The tensors in what a model gave, in their order."""
    if torch.is_tensor(found):
        yield found
    elif isinstance(found, Mapping):
        for part in found.values():
            yield from _tensors(part)
    elif isinstance(found, list | tuple):
        for part in found:
            yield from _tensors(part)
