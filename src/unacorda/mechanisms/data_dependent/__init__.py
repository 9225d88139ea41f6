"""Mechanisms whose error adapts to the actual data, not to the worst case.

They release a statistic, such as ``Median(lower=0, upper=120)``, and are loaded when first used.
"""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

from typing import TYPE_CHECKING

from unacorda.extras import lazy

if TYPE_CHECKING:
    from unacorda.mechanisms.data_dependent.found_clipping import FoundClipping
    from unacorda.mechanisms.data_dependent.inverse import InverseSensitivity
    from unacorda.mechanisms.data_dependent.propose_test_release import ProposeTestRelease
    from unacorda.mechanisms.data_dependent.removal import geometric_grid, item_set_losses
    from unacorda.mechanisms.data_dependent.sensitivities import (
        check_sensitivity,
        down_sensitivity,
        local_sensitivity,
        smooth_sensitivity,
    )
    from unacorda.mechanisms.data_dependent.shifted_inverse import ShiftedInverse
    from unacorda.mechanisms.data_dependent.smooth import SmoothSensitivity
    from unacorda.mechanisms.data_dependent.statistics.base import Statistic
    from unacorda.mechanisms.data_dependent.statistics.counts import DistinctCount, Mode
    from unacorda.mechanisms.data_dependent.statistics.ranks import (
        InterquartileRange,
        KthLargest,
        Maximum,
        Median,
        Minimum,
        OrderStatistic,
        Quantile,
    )
    from unacorda.mechanisms.data_dependent.statistics.slopes import Slope
    from unacorda.mechanisms.data_dependent.statistics.sums import Mean, Sum
    from unacorda.mechanisms.data_dependent.statistics.variances import Variance

__all__ = [
    "DistinctCount",
    "FoundClipping",
    "InterquartileRange",
    "InverseSensitivity",
    "KthLargest",
    "Maximum",
    "Mean",
    "Median",
    "Minimum",
    "Mode",
    "OrderStatistic",
    "ProposeTestRelease",
    "Quantile",
    "ShiftedInverse",
    "Slope",
    "SmoothSensitivity",
    "Statistic",
    "Sum",
    "Variance",
    "check_sensitivity",
    "down_sensitivity",
    "geometric_grid",
    "item_set_losses",
    "local_sensitivity",
    "smooth_sensitivity",
]

__getattr__, __dir__ = lazy(
    __name__,
    {
        "found_clipping": "FoundClipping",
        "inverse": "InverseSensitivity",
        "propose_test_release": "ProposeTestRelease",
        "removal": "geometric_grid item_set_losses",
        "sensitivities": "check_sensitivity down_sensitivity local_sensitivity smooth_sensitivity",
        "shifted_inverse": "ShiftedInverse",
        "smooth": "SmoothSensitivity",
        "statistics.base": "Statistic",
        "statistics.counts": "DistinctCount Mode",
        "statistics.ranks": "InterquartileRange KthLargest Maximum Median Minimum "
        "OrderStatistic Quantile",
        "statistics.slopes": "Slope",
        "statistics.sums": "Mean Sum",
        "statistics.variances": "Variance",
    },
)
