"""The words everyone speaks: neighbours, guarantees, events, conversions."""

# SPDX-License-Identifier: Apache-2.0
