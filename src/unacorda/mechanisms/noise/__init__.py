"""The noise of all mechanisms: exact samplers, and how far their noise reaches."""

# SPDX-License-Identifier: Apache-2.0
