"""A question as a value: its rows, groups and aggregates, its JSON and its words."""

# SPDX-License-Identifier: Apache-2.0
