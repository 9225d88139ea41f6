"""Calibration: the parameter of a family of mechanisms that just meets a target, on the safe side.

The one calibrator of the package. It knows nothing of noise: a family is any function from one
number to an event, and whatever prices the event decides.
"""

# SPDX-License-Identifier: Apache-2.0

from unacorda.accounting.calibration.calibrate import (
    Advantage,
    Calibration,
    Target,
    TruePositiveRate,
    calibrate,
    calibrate_grid,
    calibration,
)

__all__ = [
    "Advantage",
    "Calibration",
    "Target",
    "TruePositiveRate",
    "calibrate",
    "calibrate_grid",
    "calibration",
]
