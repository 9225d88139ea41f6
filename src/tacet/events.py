"""Events for users: ``from tacet import events``; the words themselves live in privacy/events."""

# SPDX-License-Identifier: Apache-2.0

from tacet.privacy.event_codec import from_json
from tacet.privacy.events import (
    Approximate,
    Composed,
    DiscreteGaussian,
    DiscreteLaplace,
    Event,
    Exponential,
    FixedSizeSampled,
    Gaussian,
    Laplace,
    PoissonSampled,
    Pure,
    RandomizedResponse,
    Repeated,
    Shuffled,
    ZeroConcentrated,
    compose,
)

__all__ = [
    "Approximate",
    "Composed",
    "DiscreteGaussian",
    "DiscreteLaplace",
    "Event",
    "Exponential",
    "FixedSizeSampled",
    "Gaussian",
    "Laplace",
    "PoissonSampled",
    "Pure",
    "RandomizedResponse",
    "Repeated",
    "Shuffled",
    "ZeroConcentrated",
    "compose",
    "from_json",
]
