"""Sums of many small losses and a few large ones: jumps on a grid over a bulk by contours."""

# SPDX-License-Identifier: Apache-2.0
