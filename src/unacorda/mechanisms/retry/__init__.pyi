# SPDX-License-Identifier: Apache-2.0

# The names that the package shows.

from unacorda.mechanisms.retry.best import BestOf as BestOf
from unacorda.mechanisms.retry.success import AbsorbFailure as AbsorbFailure
from unacorda.mechanisms.retry.success import ConditionOnSuccess as ConditionOnSuccess
