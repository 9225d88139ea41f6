"""The trained parameters of a model as one list of tensors, and their changes.

In this package a gradient, an update or a movement is such a list: a tensor for each trained
parameter, of its shape, in the order of `model.parameters()`.
"""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from unacorda.errors import InvalidParameter
from unacorda.extras import require

if TYPE_CHECKING:
    from torch import Tensor, nn, optim

__all__ = [
    "Shapes",
    "Watched",
    "flattened",
    "listed",
    "matching",
    "movement",
    "sizes",
    "snapshot",
    "trained",
    "watch",
]

Floats = NDArray[np.float64]
Shapes = tuple[tuple[int, ...], ...]


def trained(model: nn.Module | Iterable[Tensor]) -> list[Tensor]:
    """The parameters that are trained: those of a module that require gradients, or those given.

    Raises InvalidParameter if there are none, or if one is not a parameter.
    """
    torch = require("torch", extra="learning")
    if isinstance(model, torch.nn.Module):
        found = [parameter for parameter in model.parameters() if parameter.requires_grad]
    else:
        found = list(model) if isinstance(model, Iterable) else []
    if torch.is_tensor(model) or not found or not all(map(torch.is_tensor, found)):
        raise InvalidParameter(
            "model",
            type(model).__name__,
            expected="a torch.nn.Module with parameters that require gradients, or a list of them",
        )
    return found


def snapshot(model: nn.Module | Iterable[Tensor]) -> list[Tensor]:
    """Copy the current trained parameters; call it before training.

    Parameters
    ----------
    model
        A module, or the tensors that are trained.

    Returns
    -------
    list of Tensor
        One per parameter.

    Examples
    --------
    >>> import torch
    >>> model = torch.nn.Linear(3, 1)
    >>> [tuple(copy.shape) for copy in snapshot(model)]
    [(1, 3), (1,)]
    """
    return [parameter.detach().clone() for parameter in trained(model)]


def movement(start: Sequence[Tensor], model: nn.Module | Iterable[Tensor]) -> list[Tensor]:
    """Compute the start minus the current parameters.

    Descent moves against gradients, so a gradient that was used has a positive product with this
    difference. Momentum and adaptive steps blur it; `watch` sees the optimizer's inputs.

    Parameters
    ----------
    start
        The result of `snapshot`.
    model
        The same model, after training.

    Returns
    -------
    list of Tensor
        One per parameter.

    Raises
    ------
    InvalidParameter
        For another model, whose parameters have other shapes.

    Examples
    --------
    >>> import torch
    >>> model = torch.nn.Linear(1, 1, bias=False)
    >>> start = snapshot(model)
    >>> with torch.no_grad():
    ...     _ = model.weight.sub_(0.5)
    >>> movement(start, model)[0].item()
    0.5
    """
    now = trained(model)
    matching("start", start, shapes=tuple(tuple(each.shape) for each in now))
    return [
        before.to(after.device) - after.detach() for before, after in zip(start, now, strict=True)
    ]


@dataclass(slots=True, repr=False, eq=False)
class Watched:
    """The sum of the gradients that an optimizer was given, step by step.

    Attributes
    ----------
    total
        A tensor for each trained parameter.
    steps
        How many steps were seen.

    Examples
    --------
    >>> import torch
    >>> model = torch.nn.Linear(2, 1)
    >>> watch(torch.optim.SGD(model.parameters(), lr=0.1), model)
    Watched(0 steps)
    """

    total: list[Tensor]
    steps: int
    _hook: Any

    def stop(self) -> None:
        """Watch no longer; what was seen stays."""
        self._hook.remove()

    def __repr__(self) -> str:
        return f"Watched({self.steps} steps)"


def watch(optimizer: optim.Optimizer, model: nn.Module | Iterable[Tensor]) -> Watched:
    """Sum up `parameter.grad` at each optimizer step, which is what private training releases.

    A parameter without a gradient adds nothing. A step with a closure, which computes the gradients
    only then, raises InvalidParameter.

    Parameters
    ----------
    optimizer
        Any optimizer of PyTorch. If it wraps another as its `original_optimizer` and adds the
        noise, the inner one is watched.
    model
        The module that it trains, or the tensors.

    Returns
    -------
    Watched
        The sum, from now on.

    Raises
    ------
    InvalidParameter
        For a value that is not an optimizer of PyTorch.

    Examples
    --------
    >>> import torch
    >>> model = torch.nn.Linear(2, 1, bias=False)
    >>> optimizer = torch.optim.Adam(model.parameters())
    >>> seen = watch(optimizer, model)
    >>> for _ in range(3):
    ...     model.weight.grad = torch.ones(1, 2)
    ...     _ = optimizer.step()
    >>> seen.total[0].tolist(), seen
    ([[3.0, 3.0]], Watched(3 steps))
    """
    torch = require("torch", extra="learning")
    parameters = trained(model)
    inner = getattr(optimizer, "original_optimizer", optimizer)
    if not isinstance(inner, torch.optim.Optimizer):
        raise InvalidParameter(
            "optimizer", type(optimizer).__name__, expected="an optimiser of torch.optim"
        )

    def add(_: Any, given: tuple[Any, ...], named: dict[str, Any]) -> None:
        if any(map(callable, (*given[1:], named.get("closure")))):  # the first is the optimiser
            expected = "one whose steps are given no closure: compute gradients before them"
            raise InvalidParameter("optimizer", type(inner).__name__, expected=expected)
        seen.steps += 1
        with torch.no_grad():
            for total, parameter in zip(seen.total, parameters, strict=True):
                if parameter.grad is not None:
                    total.add_(parameter.grad)

    hook = inner.register_step_pre_hook(add)
    seen = Watched([torch.zeros_like(each, requires_grad=False) for each in parameters], 0, hook)
    return seen


def matching(name: str, tensors: Sequence[Tensor], *, shapes: Shapes) -> None:
    """InvalidParameter unless these are tensors of these shapes, in this order."""
    found = tuple(tuple(each.shape) for each in listed(name, tensors))
    if found != shapes:
        raise InvalidParameter(
            name,
            f"{len(found)} tensors of shapes {found}",
            expected=f"one for each trained parameter: {len(shapes)} of shapes {shapes}",
        )


def listed(name: str, tensors: Sequence[Tensor]) -> list[Tensor]:
    """These tensors, one or more; InvalidParameter where it is no list of them."""
    torch = require("torch", extra="learning")
    given = list(tensors) if isinstance(tensors, list | tuple) else []
    if not given or not all(map(torch.is_tensor, given)):
        raise InvalidParameter(
            name, type(tensors).__name__, expected="a list of tensors, one per trained parameter"
        )
    return given


def flattened(name: str, tensors: Sequence[Tensor], *, shapes: Shapes) -> Floats:
    """All numbers of such tensors in one line; InvalidParameter where one is not finite."""
    matching(name, tensors, shapes=shapes)
    parts = [each.detach().to("cpu").double().reshape(-1).numpy() for each in tensors]
    line: Floats = np.concatenate(parts)
    lost = line.size - int(np.count_nonzero(np.isfinite(line)))
    if lost:
        raise InvalidParameter(
            name,
            f"{lost} of {line.size} numbers are NaN or infinite",
            expected="finite numbers: training diverged, or an overflow was not caught",
        )
    return line


def sizes(shapes: Shapes) -> list[int]:
    """How many numbers each tensor holds.

    >>> sizes(((2, 3), ()))
    [6, 1]
    """
    return [math.prod(shape) for shape in shapes]
