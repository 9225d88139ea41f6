"""Noise of private training: keyed by step and place, and exact in law after rounding."""

# SPDX-License-Identifier: Apache-2.0
