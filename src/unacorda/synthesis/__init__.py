"""Synthetic tables: noisy marginals, a graphical model of them, and rows with a measured error.

`release.synthesize` makes one from tables of counts (`tables.CountTables`), by the public decisions
of a `plan.SynthesisPlan` over a `domain.Domain`. This package knows no table and no engine.
"""

# SPDX-License-Identifier: Apache-2.0
