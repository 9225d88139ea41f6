"""The noise of the steps of a plan, one after the other: independent, or correlated."""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any, NoReturn

from unacorda.extras import later
from unacorda.learning.distributed import Ranks
from unacorda.learning.noise.correlated import CorrelatedNoise
from unacorda.learning.noise.gaussian import add_gaussian
from unacorda.learning.noise.keys import NoiseKey
from unacorda.learning.plan import TrainingPlan

if TYPE_CHECKING:
    from torch import Tensor

__all__ = ["StepNoise"]

torch: Any = later("torch")


class StepNoise:
    """Adds the noise of a step to its sums; correlated noise also draws that of steps left out.

    It is drawn once: each of several ranks makes that of its own coordinates, or rank 0 makes all.
    """

    def __init__(self, plan: TrainingPlan, key: NoiseKey, ranks: Ranks) -> None:
        self.key, self._ranks = key, ranks
        self._process = os.getpid()
        self._correlated: CorrelatedNoise | None = None
        if (noise := plan.sampling.correlated) is not None:
            self._correlated = CorrelatedNoise(noise, scale=plan.noise, key=key, steps=plan.steps)

    def renew(self, label: int) -> None:
        """Draw a new secret for what comes, where no earlier noise comes again."""
        if self._correlated is None:
            self.key = self._ranks.first("new secret", lambda: self.key.renewed(label))

    def add(self, sums: dict[str, Tensor], step: int, *, scale: float) -> dict[str, Tensor]:
        """The sums with the noise of a step, rounded, the same on every rank.

        scale: that of the plan, if correlated.
        """
        if os.getpid() != self._process:
            raise RuntimeError("a forked process would add equal noise: train in one of them")
        # The rest of a rank's part is 0, so that the sum over ranks is exact.
        return self._ranks.summed(f"noise of step {step}", self._part(sums, step, scale))

    def _part(self, sums: dict[str, Tensor], step: int, scale: float) -> dict[str, Tensor]:
        if self._correlated is None:
            share = self._ranks.share
            return add_gaussian(sums, scale=scale, key=self.key, attempt=0, step=step, share=share)
        if self._ranks.rank:
            return {name: torch.zeros_like(values) for name, values in sums.items()}
        while self._correlated.drawn < step:  # before a crash
            sizes = [values.numel() for values in sums.values()]
            self._correlated.advance(sizes, attempt=0, step=self._correlated.drawn)
        return self._correlated.add_to_tensors(sums, attempt=0, step=step)

    def __reduce__(self) -> NoReturn:
        raise TypeError("A training cannot be copied or pickled: its copy would add equal noise.")
