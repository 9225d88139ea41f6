"""Regressions and their algorithm: one metric, clipped or Newton steps, one covariance."""

# SPDX-License-Identifier: Apache-2.0
