# SPDX-License-Identifier: Apache-2.0

# The names that the package shows.

from unacorda.mechanisms.selection.exponential import Exponential as Exponential
from unacorda.mechanisms.selection.exponential import (
    PiecewiseConstantExponential as PiecewiseConstantExponential,
)
from unacorda.mechanisms.selection.noisy_max import PermuteAndFlip as PermuteAndFlip
from unacorda.mechanisms.selection.noisy_max import TopK as TopK
from unacorda.mechanisms.selection.stable import StableSelection as StableSelection
from unacorda.mechanisms.selection.tree import TreeSelection as TreeSelection
