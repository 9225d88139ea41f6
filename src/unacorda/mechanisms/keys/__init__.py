"""Private keys: which keys of a table may be named at all, and with which noisy counts."""

# SPDX-License-Identifier: Apache-2.0
