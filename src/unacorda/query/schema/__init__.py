"""What is public about tables and people: units, facts, columns, ids, sources."""

# SPDX-License-Identifier: Apache-2.0
