"""Functions that are written in the language itself, one a line, and so mean the same everywhere.

What they are made of is total, has ranges and is known to every engine. An operand that stands
several times in a definition is written out as often.
"""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

__all__ = ["DERIVED"]

DERIVED: dict[str, tuple[str, str]] = {
    "CLAMP": ("x low high", "CASE WHEN x IS NOT NULL THEN LEAST(GREATEST(x, low), high) END"),
    "HYPOT": ("x y", "SQRT(x * x + y * y)"),
    "SQUARE": ("x", "x * x"),
}
"""By name, the names of the operands, and what the function means of them."""
