"""Hypothesis tests whose null distributions include the noise."""

# SPDX-License-Identifier: Apache-2.0
