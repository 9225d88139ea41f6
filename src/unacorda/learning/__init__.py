"""Learning with PyTorch: private training of models, and audits of it by canaries.

`PrivateTraining` and `fit` train by noisy sums of clipped gradients; `ClippedSums` gives these sums
without noise. Canaries audit any training loop. Install `unacorda[learning]`: PyTorch is imported
when it is used, and `MissingExtra` is raised if it is not installed.
"""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

from unacorda.learning.canary_audit import TrainingAudit
from unacorda.learning.clipping.bounds import (
    ClippingBound,
    Flat,
    FollowedQuantile,
    Normalized,
    PerLayer,
)
from unacorda.learning.clipping.sums import ClippedSums
from unacorda.learning.evaluation import (
    Evaluation,
    cross_entropy,
    evaluate,
    hits,
    probabilities,
)
from unacorda.learning.examples import ExampleCanaries, canaries, mislabelled
from unacorda.learning.fitting import fit
from unacorda.learning.gradients import GradientCanaries, dirac, scattered
from unacorda.learning.noise.banded import Banded
from unacorda.learning.noise.buffered import Buffered
from unacorda.learning.noise.comparison import NoiseChoice, compare_bands
from unacorda.learning.ordered_batches import OrderedBatches
from unacorda.learning.parameters import Watched, movement, snapshot, watch
from unacorda.learning.plan import TrainingPlan, TrainingRecord
from unacorda.learning.sampling import (
    AllocatedSteps,
    CyclicSampling,
    FixedSizeSampling,
    FullBatch,
    PoissonSampling,
    Sampling,
)
from unacorda.learning.search import SearchResult, plan_search, search
from unacorda.learning.shown_losses import ShownLosses
from unacorda.learning.training import PrivateTraining
from unacorda.learning.tries import SearchPlan

__all__ = [
    "AllocatedSteps",
    "Banded",
    "Buffered",
    "ClippedSums",
    "ClippingBound",
    "CyclicSampling",
    "Evaluation",
    "ExampleCanaries",
    "FixedSizeSampling",
    "Flat",
    "FollowedQuantile",
    "FullBatch",
    "GradientCanaries",
    "NoiseChoice",
    "Normalized",
    "OrderedBatches",
    "PerLayer",
    "PoissonSampling",
    "PrivateTraining",
    "Sampling",
    "SearchPlan",
    "SearchResult",
    "ShownLosses",
    "TrainingAudit",
    "TrainingPlan",
    "TrainingRecord",
    "Watched",
    "canaries",
    "compare_bands",
    "cross_entropy",
    "dirac",
    "evaluate",
    "fit",
    "hits",
    "mislabelled",
    "movement",
    "plan_search",
    "probabilities",
    "scattered",
    "search",
    "snapshot",
    "watch",
]
