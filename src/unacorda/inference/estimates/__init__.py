"""Estimates of columns: means, quantiles, distributions and matrices, with errors and intervals."""

# SPDX-License-Identifier: Apache-2.0
