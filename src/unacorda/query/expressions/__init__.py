"""Row-wise SQL expressions that can not fail: parse.py reads one, types.py says what it is."""

# SPDX-License-Identifier: Apache-2.0
