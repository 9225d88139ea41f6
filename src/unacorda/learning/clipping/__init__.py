"""Clipped sums of gradients: parts, rules of modules, bounds, checks and the sums."""

# SPDX-License-Identifier: Apache-2.0
