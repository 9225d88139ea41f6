"""What may be asked of a column: one file for each family of aggregates."""

# SPDX-License-Identifier: Apache-2.0
