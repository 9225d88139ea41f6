# SPDX-License-Identifier: Apache-2.0

# The names that the package shows.

from unacorda.mechanisms.shaped.numbers import BoundedLaplace as BoundedLaplace
from unacorda.mechanisms.shaped.numbers import Staircase as Staircase
from unacorda.mechanisms.shaped.numbers import TruncatedLaplace as TruncatedLaplace
from unacorda.mechanisms.shaped.vectors import KNorm as KNorm
from unacorda.mechanisms.shaped.vectors import MultivariateGaussian as MultivariateGaussian
