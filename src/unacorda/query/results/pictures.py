"""Pictures of releases: one answer with its intervals, by group."""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

import datetime as dt
import math
from collections.abc import Sequence
from typing import Any, Final

from unacorda import plots
from unacorda.display import NOTHING
from unacorda.errors import InvalidParameter
from unacorda.query.aggregates.base import Answer

_MOST_LINES: Final = 60
_MOST_SERIES: Final = 6
"""As many as there are colors."""


def draw(name: str, answer: Answer, columns: dict[str, Sequence[Any]], *, axes: Any = None) -> Any:
    """Draws an answer by the columns that say what its lines are of.

    A column of few values becomes series in colors, if there is another. The rest are dates or
    numbers along an axis, or else one line per group: bars for what is at least 0 and has no upper
    limit, such as counts, and points for others.
    """
    if not answer.values:
        raise InvalidParameter(
            "release", "no rows", expected="a release with rows: no private key was found"
        )
    low, high = answer.limits
    usable = answer.usable
    kept = [value if fine else None for value, fine in zip(answer.values, usable, strict=True)]
    numbers = [
        [math.nan if one is None else float(one) for one in line]
        for line in (kept, answer.lower, answer.upper)
    ]
    series = _series(columns)
    along = {title: column for title, column in columns.items() if title != series}
    colored = None if series is None else list(map(_shown, columns[series]))
    if len(along) == 1 and _is_ordered(next(iter(along.values()))):
        ((title, places),) = along.items()
        axes = plots.errors_over(places, *numbers, series=colored, axes=axes)
        axes.set(xlabel=title, ylabel=name)
    else:
        lines = list(zip(*along.values(), strict=True)) if along else [(name,)] * len(kept)
        names = [", ".join(map(_shown, line)) for line in lines]
        if colored is None:
            names = [
                one if fine else f"{one} ({NOTHING})"
                for one, fine in zip(names, usable, strict=True)
            ]
        shown = dict.fromkeys(names)
        most = set(list(shown)[:_MOST_LINES])
        chosen = [place for place, one in enumerate(names) if one in most]
        numbers = [[line[place] for place in chosen] for line in numbers]
        axes = plots.errors(
            [names[place] for place in chosen],
            *numbers,
            series=None if colored is None else [colored[place] for place in chosen],
            bars=low == 0 and high == math.inf,
            axes=axes,
        )
        axes.set(xlabel=name, ylabel=", ".join(along))
        if len(shown) > _MOST_LINES:
            axes.set_ylabel(f"{', '.join(along)}: the first {_MOST_LINES} of {len(shown):,}")
    if series is not None:
        axes.legend(title=series)
    by = f" by {', '.join(columns)}" if columns else ""
    axes.set_title(f"{name}{by}, with 95% intervals", fontsize=10)
    return axes


def _series(columns: dict[str, Sequence[Any]]) -> str | None:
    """The column that becomes colors: that of the fewest values, the last of them."""
    if len(columns) < 2:
        return None
    sizes = {title: len(set(column)) for title, column in columns.items()}
    fewest = min(sizes.values())
    if fewest > _MOST_SERIES:
        return None
    return [title for title, size in sizes.items() if size == fewest][-1]


def _is_ordered(column: Sequence[Any]) -> bool:
    """Whether all are dates, or all are finite numbers, and they are two or more."""
    kinds: tuple[type, ...]
    for kinds in ((dt.date,), (int, float)):
        if all(isinstance(one, kinds) and not isinstance(one, bool) for one in column):
            finite = all(not isinstance(one, float) or math.isfinite(one) for one in column)
            return finite and len(set(column)) > 1
    return False


def _shown(key: Any) -> str:
    return "NULL" if key is None else f"{key:,.6g}" if isinstance(key, float) else str(key)
