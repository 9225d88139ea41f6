"""Diagnostics of fitted models: tables of scores and residuals, importance of features."""

# SPDX-License-Identifier: Apache-2.0
