"""Compositions whose losses are sums of few different numbers: exact sums, certified."""

# SPDX-License-Identifier: Apache-2.0
