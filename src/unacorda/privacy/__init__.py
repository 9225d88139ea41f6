"""The words everyone speaks: neighbors, guarantees, events, conversions."""

# SPDX-License-Identifier: Apache-2.0
