r"""Noisy mean losses of training steps, in one vector with the gradients."""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from unacorda import checks
from unacorda.errors import InvalidParameter
from unacorda.extras import later

if TYPE_CHECKING:
    from torch import Tensor

__all__ = ["LOSS", "ShownLosses"]

torch: Any = later("torch")

LOSS: Final = "."
"""The name among sums, which no parameter has, of the sum of losses."""


@dataclass(frozen=True, kw_only=True)
class ShownLosses:
    """Shows the mean loss of each step with noise, for a share of the step's precision.

    A step releases the sum of its units' losses and its gradients as one vector. So it remains one
    Gaussian mechanism of the same price, and its gradients have 1 / sqrt(1 - spent) times the
    noise. Losses are clipped to [0, largest], and the mean divides by the public batch size.

    Source: docs/proofs/training.md, section 3 (one vector, as Andrew, Thakkar, McMahan, Ramaswamy
    2021, arXiv:1905.03871, have for counts).

    Parameters
    ----------
    largest
        The clipping bound of losses, above 0; NaN counts as this.
    spent
        The share of a step's precision, 1 / sigma^2, that the losses have, between 0 and 1.

    Raises
    ------
    InvalidParameter
        For numbers out of their range.

    Examples
    --------
    >>> shown = ShownLosses(largest=4.0, spent=0.02)
    >>> round(shown.error(noise_multiplier=1.0, batch_size=500), 3)
    0.028
    """

    largest: float
    spent: float = 0.02

    def __post_init__(self) -> None:
        checks.positive(largest=self.largest)
        if not 0 < self.spent < 1:
            raise InvalidParameter("spent", self.spent, expected="a number above 0 and below 1")

    def error(self, *, noise_multiplier: float, batch_size: int) -> float:
        """The standard deviation of the noise in the mean loss of one step.

        Parameters
        ----------
        noise_multiplier
            Of the plan.
        batch_size
            The public one, which the sum is divided by.

        Returns
        -------
        float
            In the unit of the loss.
        """
        return self.largest * noise_multiplier / (2 * math.sqrt(self.spent) * batch_size)

    def stretched(self, norm: float) -> float:
        """Return the norm of gradient and loss as one vector, rounded up.

        Parameters
        ----------
        norm
            That of the gradient, at most.

        Returns
        -------
        float
            The sensitivity of the sum of both.
        """
        return math.nextafter(norm / math.sqrt(1 - self.spent) * (1 + 1e-15), math.inf)

    def _weight(self, norm: float) -> float:
        """Of the sum, in which a unit is from -1/2 to 1/2."""
        return 2 * norm * math.sqrt(self.spent / (1 - self.spent))

    def summed(self, losses: Tensor, weights: Tensor, *, norm: float) -> Tensor:
        """Sum up units' losses, from -1/2 to 1/2 each, by a weight.

        Parameters
        ----------
        losses, weights
            One row per unit, with an entry for each of its rows; a unit whose rows all have weight
            0 is absent.
        norm
            That of a unit's gradient, at most.

        Returns
        -------
        Tensor
            One number in float64.
        """
        weights = weights.double()
        kept = torch.where(weights > 0, losses.detach().double() * weights, 0.0)
        found = (kept.sum(1) / self.largest).nan_to_num(nan=1.0).clamp(0.0, 1.0) - 0.5
        total: Tensor = self._weight(norm) * (found * (weights > 0).any(1)).sum()
        return total

    def mean(self, released: float, *, norm: float, batch_size: int) -> float:
        """Return the mean loss of a released sum, within [0, largest].

        Parameters
        ----------
        released
            The sum with its noise.
        norm
            That of a unit's gradient, at most.
        batch_size
            The public one, which the sum is divided by.

        Returns
        -------
        float
            In the unit of the loss.
        """
        share = released / self._weight(norm) / batch_size + 0.5
        return self.largest * min(max(share, 0.0), 1.0)
