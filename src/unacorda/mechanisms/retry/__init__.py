"""Running again: mechanisms that never fail, and the best of a random number of runs."""

# SPDX-License-Identifier: Apache-2.0
