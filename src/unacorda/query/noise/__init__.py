"""From a share of a budget and a sensitivity to a mechanism."""

# SPDX-License-Identifier: Apache-2.0
