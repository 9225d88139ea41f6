"""Renyi divergences of every event, at any real order above 1, as certified upper bounds."""

# SPDX-License-Identifier: Apache-2.0
