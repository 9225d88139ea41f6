# SPDX-License-Identifier: Apache-2.0

# The names that the package shows.

from unacorda.accounting.accountant import delta as delta
from unacorda.accounting.accountant import delta_interval as delta_interval
from unacorda.accounting.accountant import epsilon as epsilon
from unacorda.accounting.accountant import epsilon_interval as epsilon_interval
from unacorda.accounting.accountant import tradeoff as tradeoff
from unacorda.accounting.amplification.sampling import sampling_worth as sampling_worth
from unacorda.accounting.calibration import calibrate as calibrate
from unacorda.accounting.calibration import calibrate_grid as calibrate_grid
from unacorda.accounting.charges import charge as charge
from unacorda.accounting.explanation import explain as explain
from unacorda.accounting.lower_bounds import lower_bound as lower_bound
from unacorda.accounting.prices import price as price
from unacorda.accounting.prices import renyi as renyi
from unacorda.accounting.prices import rho as rho
