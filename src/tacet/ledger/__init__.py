"""Budgets that outlive a question: one protocol, kept in memory or in SQLite."""

# SPDX-License-Identifier: Apache-2.0
