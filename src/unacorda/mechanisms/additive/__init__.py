"""Additive mechanisms: a number or an array plus noise of a known law.

Each is a frozen value that says what its release costs (`event`) and does it (`release`). Numbers
written as floats mean the decimals they print as, so a scale of 0.3 is 3/10 exactly, in the noise
and in the event alike.
"""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

from unacorda.mechanisms.additive.bounded import BoundedLaplace
from unacorda.mechanisms.additive.integer import DiscreteGaussian, DiscreteLaplace, Geometric
from unacorda.mechanisms.additive.multivariate import MultivariateGaussian
from unacorda.mechanisms.additive.norms import KNorm
from unacorda.mechanisms.additive.real import Gaussian, Laplace
from unacorda.mechanisms.additive.staircase import Staircase
from unacorda.mechanisms.additive.truncated import TruncatedLaplace

__all__ = [
    "BoundedLaplace",
    "DiscreteGaussian",
    "DiscreteLaplace",
    "Gaussian",
    "Geometric",
    "KNorm",
    "Laplace",
    "MultivariateGaussian",
    "Staircase",
    "TruncatedLaplace",
]
