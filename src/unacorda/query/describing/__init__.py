"""A first look at a table within one budget: its columns, their ranges, means and pictures."""

# SPDX-License-Identifier: Apache-2.0
