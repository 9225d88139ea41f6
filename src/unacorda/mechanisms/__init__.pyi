# SPDX-License-Identifier: Apache-2.0

# The names that the package shows.

from unacorda.mechanisms import contributions as contributions
from unacorda.mechanisms import correlated as correlated
from unacorda.mechanisms import data_dependent as data_dependent
from unacorda.mechanisms import local as local
from unacorda.mechanisms import partitions as partitions
from unacorda.mechanisms import retry as retry
from unacorda.mechanisms import selection as selection
from unacorda.mechanisms import shaped as shaped
from unacorda.mechanisms import sparse_vector as sparse_vector
from unacorda.mechanisms.additive.integer import DiscreteGaussian as DiscreteGaussian
from unacorda.mechanisms.additive.integer import DiscreteLaplace as DiscreteLaplace
from unacorda.mechanisms.additive.real import Gaussian as Gaussian
from unacorda.mechanisms.additive.real import Laplace as Laplace
from unacorda.mechanisms.correlated.matrix import MatrixMechanism as MatrixMechanism
from unacorda.mechanisms.correlated.prefix_sums import BinaryTree as BinaryTree
from unacorda.mechanisms.data_dependent.inverse import InverseSensitivity as InverseSensitivity
from unacorda.mechanisms.data_dependent.smooth import SmoothSensitivity as SmoothSensitivity
from unacorda.mechanisms.local.categories import RandomizedResponse as RandomizedResponse
from unacorda.mechanisms.partitions.selection import PartitionSelection as PartitionSelection
from unacorda.mechanisms.partitions.thresholded import ThresholdedGaussian as ThresholdedGaussian
from unacorda.mechanisms.partitions.thresholded import ThresholdedLaplace as ThresholdedLaplace
from unacorda.mechanisms.retry.best import BestOf as BestOf
from unacorda.mechanisms.selection.exponential import Exponential as Exponential
from unacorda.mechanisms.selection.noisy_max import PermuteAndFlip as PermuteAndFlip
from unacorda.mechanisms.selection.noisy_max import TopK as TopK
from unacorda.mechanisms.sparse_vector.threshold import SparseVector as SparseVector
