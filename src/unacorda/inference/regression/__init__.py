"""The regression engine: one metric, cut or Newton steps, one covariance, on arrays and tables."""

# SPDX-License-Identifier: Apache-2.0
