"""Losses of the inverse sensitivity: how many records must change for another answer."""

# SPDX-License-Identifier: Apache-2.0
