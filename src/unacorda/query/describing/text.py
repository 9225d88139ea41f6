"""A first look as text: a table of columns, and a small picture of each."""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

from unacorda.query.describing.description import Bar, ColumnLook, Description, Told
from unacorda.query.readable import NOTHING, clean

__all__ = ["lines_of_column", "mean_of", "rounded", "text"]

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
        lines.append(f"  mean                 {mean_of(column)}")
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


def mean_of(column: ColumnLook) -> str:
    """The mean of a column, where its interval is less than the whole range."""
    mean, ends = column.mean, column.limits
    assert mean is not None
    if ends is not None and mean.low is not None and mean.high is not None:
        if mean.low <= ends[0] and mean.high >= ends[1]:
            return NOTHING
        value = min(max(mean.value, ends[0], mean.low), ends[1], mean.high)
        mean = dataclasses.replace(mean, value=value)
    return rounded(mean)


def rounded(told: Told) -> str:
    """A released number and its interval, to the digits that the interval leaves."""
    if told.low is None or told.high is None:
        return f"{told.value:,.4g}"
    below, above = told.value - told.low, told.high - told.value
    margin = max(below, above)
    digits = max(0, 2 - len(str(int(margin)))) if margin >= 1 else 3
    if abs(below - above) <= 0.05 * margin:
        return f"{told.value:,.{digits}f} ± {margin:,.{digits}f}"
    return f"{told.value:,.{digits}f} ({told.low:,.{digits}f} to {told.high:,.{digits}f})"


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
