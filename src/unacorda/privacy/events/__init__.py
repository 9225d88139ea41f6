"""Events: what a mechanism did, as frozen values; accountants price them."""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

from typing import TypeAlias

from unacorda.privacy.events.algebra import (
    Composed,
    FixedSizeSampled,
    PoissonSampled,
    RandomAllocation,
    Repeated,
    ReplacementSampled,
    Shuffled,
    compose,
)
from unacorda.privacy.events.matrices import (
    CyclicPoissonSampled,
    MatrixMechanism,
    TreeAggregation,
)
from unacorda.privacy.events.noise import (
    DiscreteGaussian,
    DiscreteLaplace,
    Gaussian,
    GaussianMixture,
    Laplace,
    Staircase,
    TruncatedLaplace,
)
from unacorda.privacy.events.promises import (
    Approximate,
    Exponential,
    Pure,
    RandomizedResponse,
    ZeroConcentrated,
)
from unacorda.privacy.events.selection import (
    NegativeBinomialTries,
    PoissonTries,
)

__all__ = [
    "Approximate",
    "Composed",
    "CyclicPoissonSampled",
    "DiscreteGaussian",
    "DiscreteLaplace",
    "Event",
    "Exponential",
    "FixedSizeSampled",
    "Gaussian",
    "GaussianMixture",
    "Laplace",
    "MatrixMechanism",
    "NegativeBinomialTries",
    "PoissonSampled",
    "PoissonTries",
    "Pure",
    "RandomAllocation",
    "RandomizedResponse",
    "Repeated",
    "ReplacementSampled",
    "Shuffled",
    "Staircase",
    "TreeAggregation",
    "TruncatedLaplace",
    "ZeroConcentrated",
    "compose",
]

Event: TypeAlias = (
    Gaussian
    | Laplace
    | DiscreteGaussian
    | DiscreteLaplace
    | Staircase
    | TruncatedLaplace
    | GaussianMixture
    | RandomizedResponse
    | Exponential
    | Pure
    | Approximate
    | ZeroConcentrated
    | Repeated
    | Composed
    | PoissonSampled
    | FixedSizeSampled
    | ReplacementSampled
    | RandomAllocation
    | Shuffled
    | NegativeBinomialTries
    | PoissonTries
    | MatrixMechanism
    | CyclicPoissonSampled
    | TreeAggregation
)
"""The closed union: an accountant that forgets one does not type-check."""
