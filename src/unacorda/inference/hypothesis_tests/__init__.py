"""Hypothesis tests whose null distributions count the noise: proportions, counts, means, ranks."""

# SPDX-License-Identifier: Apache-2.0
