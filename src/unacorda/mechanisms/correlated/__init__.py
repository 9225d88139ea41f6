"""Correlated noise: the errors of many answers cancel, since they are made of the same draws."""

# SPDX-License-Identifier: Apache-2.0
