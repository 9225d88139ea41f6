"""Local privacy: estimates from numbers that each device randomizes before it sends them."""

# SPDX-License-Identifier: Apache-2.0
