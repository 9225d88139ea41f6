"""What DuckDB takes for a space, and makes of capitals and small letters: for other engines."""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

import functools

import duckdb

__all__ = [
    "SPACES",
    "case_table",
]

SPACES = "".join(map(chr, (0x20, 0xA0, 0x1680, *range(0x2000, 0x200B), 0x202F, 0x205F, 0x3000)))
"""The space separators of Unicode, which TRIM cuts."""


@functools.cache
def case_table(function: str) -> tuple[str, str]:
    """The code points that DuckDB's LOWER or UPPER changes, and what to, in one order."""
    query = (
        "SELECT string_agg(c, '' ORDER BY i), string_agg(d, '' ORDER BY i) FROM (SELECT i, chr(i) "
        f"AS c, {function}(chr(i)) AS d FROM (SELECT unnest(range(1, 1114112))::INTEGER AS i) "
        "WHERE i NOT BETWEEN 55296 AND 57343) WHERE c <> d"
    )
    with duckdb.connect(":memory:", config={"threads": 1}) as connection:
        found = connection.execute(query).fetchone()
    assert found is not None
    before, after = found
    assert len(before) == len(after)
    return str(before), str(after)
