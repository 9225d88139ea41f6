"""The audit of a training by its own canaries, compared with the guarantee."""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, get_args

import numpy as np

from unacorda import accounting
from unacorda.bits import RandomBits
from unacorda.errors import InvalidParameter
from unacorda.extras import later
from unacorda.learning.gradients import GradientCanaries
from unacorda.learning.plan import TrainingPlan
from unacorda.learning.sampling import FullBatch, PoissonSampling

if TYPE_CHECKING:
    from torch import Tensor

__all__ = ["CanaryAudit", "TrainingAudit"]

torch: Any = later("torch")


@dataclass(frozen=True, kw_only=True)
class TrainingAudit:
    """A lower bound on epsilon from one run, and the guaranteed epsilon.

    Attributes
    ----------
    found
        The lower bound, at the requested confidence.
    promised
        The epsilon of the guarantee at the same delta.
    delta
        The delta of both.
    contradicts
        Whether the lower bound exceeds the guarantee, so that something in the run is wrong.

    Examples
    --------
    >>> TrainingAudit(found=1.2, promised=2.0, delta=1e-6, contradicts=False).contradicts
    False
    """

    found: float
    promised: float
    delta: float
    contradicts: bool


class CanaryAudit:
    """Canaries of a training, and the sum of the releases that include them.

    Raises InvalidParameter if canaries do not take part as units do.
    """

    def __init__(self, canaries: GradientCanaries, plan: TrainingPlan) -> None:
        if not isinstance(plan.sampling, PoissonSampling | FullBatch):
            expected = "PoissonSampling() or FullBatch(), by whose coins canaries take part"
            raise InvalidParameter("sampling", plan.sampling, expected=expected)
        longest = float(np.linalg.norm(canaries.entries, axis=1).max())
        if longest > plan.sensitivity:
            expected = f"canaries of norm {plan.sensitivity:.4g} at most, as gradients of units are"
            raise InvalidParameter("canaries", f"norm {longest:.4g}", expected=expected)
        self._canaries, self._plan = canaries, plan
        self.seen: dict[str, Tensor] | None = None

    def added_to(self, sums: dict[str, Tensor], bits: RandomBits) -> dict[str, Tensor]:
        """Add the included canaries to sums, with the sampling of the units."""
        rate = float(self._plan.batch_size / self._plan.units)
        members = self._canaries.taking_part(rate=rate, bits=bits)
        return dict(zip(sums, self._canaries.added_to(list(sums.values()), members), strict=True))

    def see(self, noisy: dict[str, Tensor]) -> None:
        """Add what was released of a step."""
        before = self.seen or {name: torch.zeros_like(values) for name, values in noisy.items()}
        self.seen = {name: before[name] + values for name, values in noisy.items()}

    def state(self) -> dict[str, Any]:
        """What a checkpoint keeps."""
        return {"digest": self._digest(), "seen": self.seen}

    def restore(self, state: dict[str, Any] | None) -> None:
        """Continue from a checkpoint; InvalidParameter if it is one of other canaries."""
        if state is None or state["digest"] != self._digest():
            expected = "those that the training of this checkpoint was begun with"
            raise InvalidParameter("canaries", self._canaries, expected=expected)
        self.seen = state["seen"]

    def _digest(self) -> str:
        held = (self._canaries.included, self._canaries.places, self._canaries.entries)
        return hashlib.sha256(b"".join(each.tobytes() for each in held)).hexdigest()

    def audit(self, *, confidence: float) -> TrainingAudit:
        """A lower bound of epsilon; RuntimeError before the first step."""
        from unacorda.audit.f_dp import one_run_f_dp  # takes a second, when it is needed
        from unacorda.audit.one_run import Sides

        if self.seen is None:
            raise RuntimeError("an audit needs a step")
        plan = self._plan
        delta = float(getattr(plan.budget, "delta", 0) or 1e-6)
        scores = self._canaries.scored_by_projection(list(self.seen.values()))
        # Guesses of those that are in alone find what befalls few canaries, as coins used twice do.
        found = max(
            (
                one_run_f_dp(
                    scores,
                    self._canaries.included,
                    delta=delta,
                    confidence=(1 + confidence) / 2,
                    sides=sides,
                )
                for sides in get_args(Sides)
            ),
            key=lambda bound: bound.epsilon,
        )
        promised = accounting.epsilon(plan.event, delta=delta, neighbors=plan.neighbors)
        return TrainingAudit(
            found=found.epsilon,
            promised=promised,
            delta=delta,
            contradicts=found.contradicts(promised),
        )
