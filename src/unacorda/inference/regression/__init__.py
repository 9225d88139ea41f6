"""Regressions, and the engine that fits them: one metric, cut or Newton steps, one covariance."""

# SPDX-License-Identifier: Apache-2.0
