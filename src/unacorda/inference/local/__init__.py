"""Estimates of people who trust nobody: each device randomizes its own numbers before it sends."""

# SPDX-License-Identifier: Apache-2.0
