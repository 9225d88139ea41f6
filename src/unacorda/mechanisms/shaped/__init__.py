"""Noise of other shapes than Laplace and Gaussian: on numbers and on whole vectors."""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

from typing import TYPE_CHECKING

from unacorda.extras import lazy

if TYPE_CHECKING:
    from unacorda.mechanisms.shaped.numbers import BoundedLaplace, Staircase, TruncatedLaplace
    from unacorda.mechanisms.shaped.vectors import KNorm, MultivariateGaussian

__all__ = ["BoundedLaplace", "KNorm", "MultivariateGaussian", "Staircase", "TruncatedLaplace"]

__getattr__, __dir__ = lazy(
    __name__,
    {
        "numbers": "BoundedLaplace Staircase TruncatedLaplace",
        "vectors": "KNorm MultivariateGaussian",
    },
)
