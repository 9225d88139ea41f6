# SPDX-License-Identifier: Apache-2.0

# The names that the package shows.

from unacorda.mechanisms.partitions.selection import PartitionSelection as PartitionSelection
from unacorda.mechanisms.partitions.thresholded import ThresholdedGaussian as ThresholdedGaussian
from unacorda.mechanisms.partitions.thresholded import ThresholdedLaplace as ThresholdedLaplace
