"""Statistics, one file a kind: values, sensitivities near data, and losses of answers."""

# SPDX-License-Identifier: Apache-2.0
