# SPDX-License-Identifier: Apache-2.0

# The names that the package shows.

from unacorda.mechanisms.data_dependent.found_clipping import FoundClipping as FoundClipping
from unacorda.mechanisms.data_dependent.inverse import InverseSensitivity as InverseSensitivity
from unacorda.mechanisms.data_dependent.propose_test_release import (
    ProposeTestRelease as ProposeTestRelease,
)
from unacorda.mechanisms.data_dependent.removal import geometric_grid as geometric_grid
from unacorda.mechanisms.data_dependent.removal import item_set_losses as item_set_losses
from unacorda.mechanisms.data_dependent.sensitivities import check_sensitivity as check_sensitivity
from unacorda.mechanisms.data_dependent.sensitivities import down_sensitivity as down_sensitivity
from unacorda.mechanisms.data_dependent.sensitivities import local_sensitivity as local_sensitivity
from unacorda.mechanisms.data_dependent.sensitivities import (
    smooth_sensitivity as smooth_sensitivity,
)
from unacorda.mechanisms.data_dependent.shifted_inverse import ShiftedInverse as ShiftedInverse
from unacorda.mechanisms.data_dependent.smooth import SmoothSensitivity as SmoothSensitivity
from unacorda.mechanisms.data_dependent.statistics.base import Statistic as Statistic
from unacorda.mechanisms.data_dependent.statistics.counts import DistinctCount as DistinctCount
from unacorda.mechanisms.data_dependent.statistics.counts import Mode as Mode
from unacorda.mechanisms.data_dependent.statistics.ranks import (
    InterquartileRange as InterquartileRange,
)
from unacorda.mechanisms.data_dependent.statistics.ranks import KthLargest as KthLargest
from unacorda.mechanisms.data_dependent.statistics.ranks import Maximum as Maximum
from unacorda.mechanisms.data_dependent.statistics.ranks import Median as Median
from unacorda.mechanisms.data_dependent.statistics.ranks import Minimum as Minimum
from unacorda.mechanisms.data_dependent.statistics.ranks import OrderStatistic as OrderStatistic
from unacorda.mechanisms.data_dependent.statistics.ranks import Quantile as Quantile
from unacorda.mechanisms.data_dependent.statistics.slopes import Slope as Slope
from unacorda.mechanisms.data_dependent.statistics.sums import Mean as Mean
from unacorda.mechanisms.data_dependent.statistics.sums import Sum as Sum
from unacorda.mechanisms.data_dependent.statistics.variances import Variance as Variance
