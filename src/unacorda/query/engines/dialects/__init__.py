"""DuckDB's SQL in other engines' words, construct by construct, or refused by name."""

# SPDX-License-Identifier: Apache-2.0
