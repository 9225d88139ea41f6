"""An analyst's SELECT: parse.py reads one, types.py says what was asked."""

# SPDX-License-Identifier: Apache-2.0
