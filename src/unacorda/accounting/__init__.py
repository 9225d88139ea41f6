"""The accountant: prices of events, loaded when they are first used.

``accounting.epsilon``, ``epsilon_interval``, ``delta``, ``delta_interval``, ``renyi``, ``rho``,
``tradeoff`` and ``explain`` price events; ``calibrate`` finds the least noise for a target;
``price`` and ``charge`` compute debits of ledgers; ``lower_bound`` is an error that no mechanism
can beat.
"""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

from typing import TYPE_CHECKING

from unacorda.extras import lazy

if TYPE_CHECKING:
    from unacorda.accounting.accountant import (
        delta,
        delta_interval,
        epsilon,
        epsilon_interval,
        tradeoff,
    )
    from unacorda.accounting.amplification.sampling import sampling_worth
    from unacorda.accounting.calibration import calibrate, calibrate_grid
    from unacorda.accounting.charges import charge
    from unacorda.accounting.explanation import explain
    from unacorda.accounting.lower_bounds import lower_bound
    from unacorda.accounting.prices import price, renyi, rho

__all__ = [
    "calibrate",
    "calibrate_grid",
    "charge",
    "delta",
    "delta_interval",
    "epsilon",
    "epsilon_interval",
    "explain",
    "lower_bound",
    "price",
    "renyi",
    "rho",
    "sampling_worth",
    "tradeoff",
]

__getattr__, __dir__ = lazy(
    __name__,
    {
        "accountant": "delta delta_interval epsilon epsilon_interval tradeoff",
        "amplification.sampling": "sampling_worth",
        "calibration": "calibrate calibrate_grid",
        "charges": "charge",
        "explanation": "explain",
        "lower_bounds": "lower_bound",
        "prices": "price renyi rho",
    },
)
