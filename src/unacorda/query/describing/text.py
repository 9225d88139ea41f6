"""A first look as text: a table of columns, and a small picture of each."""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

from collections.abc import Sequence

from unacorda.query.describing.description import Bar, ColumnLook, Description, Told
from unacorda.query.readable import clean

__all__ = ["lines_of_column", "rounded", "text"]

_BLOCKS = " ▁▂▃▄▅▆▇█"
_WIDEST_BAR = 30


def text(description: Description) -> str:
    """The whole look."""
    head = (
        f"{clean(description.table)}: about {rounded(description.people)} people, "
        f"{rounded(description.rows)} rows (protects {description.unit})"
    )
    parts = [head, f"spent {description.costs}; left {description.remaining}"]
    for column in description.columns:
        parts += ["", *lines_of_column(column)]
    return "\n".join(parts)


def lines_of_column(column: ColumnLook) -> list[str]:
    """One column, line by line."""
    known = {"declared": "declared", "type": "by its type", "vote": "by a private vote"}
    lines = [f"{clean(column.name)}: {column.kind}, {known[column.source]}"]
    if column.present is not None:
        lines.append(f"  people with a value  {rounded(column.present)}")
    if column.range is not None:
        how = "found privately" if column.found else "declared"
        lines.append(f"  range                {' to '.join(column.range)} ({how})")
    if column.mean is not None:
        lines.append(f"  mean                 {rounded(column.mean)}")
    if column.quantiles:
        told = "  ".join(f"{share} {value}" for share, value in column.quantiles.items())
        lines.append(f"  quantiles            {told}")
    if column.bars and column.range is not None:
        lines.append(f"  people by value      {_sparks([bar.count.value for bar in column.bars])}")
    elif column.bars:
        lines += _bars(column.bars)
    if column.missing is not None:
        lines.append(f"  missing              {rounded(column.missing)}")
    if column.note:
        lines.append(f"  {column.note}")
    return lines


def rounded(told: Told) -> str:
    """A released number and its margin, to the digits that the margin leaves."""
    if told.low is None or told.high is None:
        return f"{told.value:,.4g}"
    margin = max(told.value - told.low, told.high - told.value)
    digits = max(0, 2 - len(str(int(margin)))) if margin >= 1 else 3
    return f"{told.value:,.{digits}f} ± {margin:,.{digits}f}"


def _sparks(counts: Sequence[float]) -> str:
    """Counts as a row of blocks, the highest of full height."""
    top = max([*counts, 1.0])
    return "".join(_BLOCKS[round(8 * max(count, 0.0) / top)] for count in counts)


def _bars(bars: Sequence[Bar]) -> list[str]:
    top = max([*(bar.count.value for bar in bars), 1.0])
    labels = [clean(bar.label) for bar in bars]
    width = max(map(len, labels))
    return [
        f"  {label.ljust(width)}  {rounded(bar.count).rjust(16)}  "
        + "█" * round(_WIDEST_BAR * max(bar.count.value, 0.0) / top)
        for label, bar in zip(labels, bars, strict=True)
    ]
