"""Row-wise SQL expressions that can not fail: parse.py reads one, language.py says what it is."""

# SPDX-License-Identifier: Apache-2.0
