"""`fit`: the loop of a private training, for a model and a loss."""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any

from unacorda.extras import later, require
from unacorda.learning.training import PrivateTraining

__all__ = ["fit"]

torch: Any = later("torch")


def fit(
    model: Any,
    loss: Callable[[Any, Any], Any],
    dataset: Any,
    *,
    optimizer: Any = None,
    progress: bool = False,
    **options: Any,
) -> PrivateTraining:
    """Train a model with a loss of (output, target) that gives one number per example.

    Parameters
    ----------
    model
        A torch.nn.Module, which is trained.
    loss
        A function of outputs and targets that gives one number per example.
    dataset
        As for `PrivateTraining`; the last entry of a row is the target.
    optimizer
        By default Adam with a rate of 0.01.
    progress
        Show steps on standard error, and the last mean loss if `losses=` is among the options.
    **options
        As for `PrivateTraining`: the budget, units, batch_size and others.

    Returns
    -------
    PrivateTraining
        The finished training, with its hooks removed.

    Raises
    ------
    InvalidParameter, BudgetExceeded
        As `PrivateTraining`.
    MissingExtra
        Without torch.

    Examples
    --------
    >>> import torch, unacorda
    >>> model = torch.nn.Linear(2, 1)
    >>> rows = torch.randn(200, 2), torch.randn(200, 1)
    >>> training = fit(
    ...     model,
    ...     lambda given, y: (given - y).square().sum(1),
    ...     rows,
    ...     budget=unacorda.ApproxDP(2, 1e-5),
    ...     units=200,
    ...     batch_size=50,
    ...     epochs=1,
    ...     clip=1.0,
    ...     bits=unacorda.SeededBits(1),
    ... )
    >>> training.record().steps
    4
    """
    require("torch", extra="learning")
    if optimizer is None:
        optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
    training = PrivateTraining(model, optimizer, dataset, **options)
    try:
        for *given, target in training:
            training.step(loss(model(*given), target))
            if progress and training.ranks.rank == 0:
                shown = [f", loss {each:.3g}  " for each in training.shown_losses[-1:]]
                steps = f"\rstep {training.steps_done:,} of {training.plan.steps:,}"
                sys.stderr.write(steps + "".join(shown))
        if progress and training.ranks.rank == 0:
            sys.stderr.write("\n")
    finally:
        training.close()
    return training
