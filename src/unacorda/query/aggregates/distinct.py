r"""How many different values a column has, among the bounded rows.

A person takes away no more values than she has rows, and another who takes her place brings no more
than that: in a cell with k rows of the one and k' of the other the number moves by at most
max(k, k'). So its sensitivity is that of a count of rows. Which values there are is never told.
"""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

from unacorda.checks import Number
from unacorda.query.aggregates.arguments import expression_of, weight_of
from unacorda.query.aggregates.counts import Counting
from unacorda.query.noise.sensitivity import Sensitivity, of_counts
from unacorda.query.schema.table import Scope
from unacorda.query.schema.units import Reach, Unit

__all__ = ["CountDistinct", "count_distinct"]


@dataclass(frozen=True, slots=True, kw_only=True)
class CountDistinct(Counting):
    """How many different values there are, NULL not among them."""

    tag: ClassVar[str] = "countdistinct"

    column: str

    def bound_to(self, scope: Scope) -> CountDistinct:
        """The same, its column looked up."""
        counted = expression_of(self.column, scope, numeric=False)
        return dataclasses.replace(self, expressions=(counted,))

    def measures(self, values: Sequence[str], unit: Unit) -> tuple[str, ...]:
        """SQL over the bounded rows, an exact integer a cell."""
        del unit
        zero = " + 0.0e0" if self.expression.kind.numeric else ""  # -0.0 is 0.0
        return (f"count(DISTINCT {values[0]}{zero})",)

    def sensitivity(self, reach: Reach) -> Sensitivity:
        """That of a count of rows."""
        counted = of_counts(reach)
        reason = f"{counted.reason}, and no more values than rows"
        return dataclasses.replace(counted, reason=reason)

    @property
    def notes(self) -> tuple[str, ...]:
        """What else a reader of its forecast should know."""
        return ("values that only dropped rows have are not counted",)


def count_distinct(column: str, *, weight: Number = 1) -> CountDistinct:
    """Count the different values of a column or expression: numbers, text, dates, booleans.

    NULL is none of them; text differs by its code points. Counted are the values of the bounded
    rows: a person's rows beyond her limits take values along that nobody else has. The noise grows
    with the number of rows a person may bring, so that for many distinct values of few people a
    smaller limit tells more. Weight as in `count`.

    >>> count_distinct("product").column
    'product'
    """
    return CountDistinct(column=column, weight=weight_of(weight))
