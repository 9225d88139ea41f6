# SPDX-License-Identifier: Apache-2.0

# The names that the package shows.

from unacorda.mechanisms.correlated.marginals import Marginals as Marginals
from unacorda.mechanisms.correlated.matrix import MatrixMechanism as MatrixMechanism
from unacorda.mechanisms.correlated.prefix_sums import BinaryTree as BinaryTree
from unacorda.mechanisms.correlated.toeplitz import SquareRootToeplitz as SquareRootToeplitz
from unacorda.mechanisms.correlated.workloads import Prefixes as Prefixes
from unacorda.mechanisms.correlated.workloads import Ranges as Ranges
