"""Calibration: the parameter of a family of mechanisms that just meets a privacy target.

It is the only calibrator of the package, and rounds to the safe side. It knows nothing about noise:
a family is any function from one number to an event, and the event's price decides.
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
