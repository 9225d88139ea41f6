"""The report of a synthetic table: a page that needs nothing else, made of what was released."""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

import base64
import datetime as dt
import html
import io
import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from unacorda import display, plots
from unacorda.errors import MissingExtra
from unacorda.privacy.events.promises import Pure
from unacorda.synthesis.domain import BinnedColumn, CategoryColumn

if TYPE_CHECKING:
    from unacorda.synthesis.release import SyntheticTable

_MOST_CELLS: Final = 30
_MOST_TABLES: Final = 500
_WORST: Final = 15  # tables that are shown at once
_NORMAL, _LAPLACE = 1.96, 2.12  # standard deviations that hold 95% of a law
_MEASURED, _DRAWN = "measured, with noise", "synthetic rows"
_NO_PICTURES: Final = "Pictures are left out: they need <code>pip install 'unacorda[plots]'</code>."
_STYLE: Final = """
h1 { font-size: 1.6rem; margin: 0 0 .4rem; } h2 { font-size: 1.25rem; margin: 0 0 .3rem; }
h3 { font-size: 1rem; margin: 1rem 0 .2rem; overflow-wrap: anywhere; }
p, ul { margin: .3rem 0 .6rem; } .wide { overflow-x: auto; } th { overflow-wrap: break-word; }
td, th { vertical-align: top; padding: .15rem 1.2rem .15rem 0; }
.wide td { text-align: right; white-space: nowrap; font-variant-numeric: tabular-nums; }
.wide thead th + th { text-align: right; }
.columns { display: grid; gap: 0 2rem; align-items: start;
  grid-template-columns: repeat(auto-fill, minmax(min(100%, 26rem), 1fr)); }
@media (max-width: 40rem) { td, th { padding-right: .7rem; } }
img { display: block; max-width: 100%; height: auto; background: #ffffff; border-radius: 4px; }
summary { cursor: pointer; color: var(--soft); }
"""
_RELEASED: Final = (
    "These rows look like those of a table of people, within a budget of differential privacy. "
    "Everything on this page is released: it was measured with noise, or computed from what was. "
    "No exact count of the table is on it."
)
_NOT: Final = """
The rows are not people. Each is drawn from a model of noisy counts; none is a row of the table,
and rows of one person do not belong together. Ids are not synthesized.

A table of columns that is not listed above may be far from the truth, and so may be what depends
on the order of numbers within a cell, or on many columns together.

What is estimated from the rows does not count the noise: standard errors that are computed as if
these were observations are too small.

That two columns go together here does not mean that one causes the other.
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Marginal:
    """One column: its cells, the noisy counts that were measured, and those of the rows.

    half: of a 95% interval of a noisy count; merged: whether a line is several cells.
    """

    name: str
    labels: tuple[str, ...]
    measured: Sequence[float]
    half: Sequence[float]
    drawn: Sequence[float]
    merged: str


def report_page(synthetic: SyntheticTable, facts: Sequence[tuple[str, str]]) -> str:
    """The page; facts: what else is said at its top, by name.

    Pictures need the extra `plots`; a page without them has the tables alone, and states so.
    """
    count = len(synthetic.codes)
    first = [
        ("synthetic rows", f"{count:,}"),
        ("rows of the table", f"about {synthetic.row_count:,.0f}, a count with noise"),
        *facts,
    ]
    parts = [
        display.facts(first),
        f"<p>{_RELEASED}</p>",
        _errors(synthetic),
        _pictures(synthetic),
        _measurements(synthetic),
    ]
    limits = "".join(f"<li>{html.escape(text)}</li>" for text in _NOT.strip().split("\n\n"))
    parts.append(display.section("What the rows are not", f"<ul>{limits}</ul>"))
    return display.page("Synthetic rows", parts, style=_STYLE)


def _errors(synthetic: SyntheticTable) -> str:
    errors = synthetic.errors
    if errors is None:
        return display.section("Errors", "<p>No share of the budget measured them.</p>")
    said = (
        "The error of a table of counts is the share of rows that lie in another cell: half the "
        "sum of the differences of all cells, over the number of rows. It was measured on the "
        f"finished rows, with noise; each interval holds with {errors.confidence:.0%} probability."
    )
    worst = sorted(errors.tables, key=lambda one: (-one.error, one.columns))
    tables = [("mean of all", errors.mean), *((" × ".join(one.columns), one) for one in worst)]
    lines = [
        (name, one.percents[0], " to ".join(one.percents[1:]))
        for name, one in tables[: 1 + _MOST_TABLES]
    ]
    heads = ("table", "error", f"{errors.confidence:.0%} interval")
    table, folded = _numbers(heads, lines[: 1 + _WORST]), lines[1 + _WORST :]
    if folded:
        table += _folded(f"{len(folded):,} tables with smaller errors", _numbers(heads, folded))
    more = len(worst) - _MOST_TABLES
    rest = f"<p>{more:,} more with still smaller errors are left out.</p>" if more > 0 else ""
    return display.section("Errors", f'<p class="soft">{said}</p>', table, rest)


def _pictures(synthetic: SyntheticTable) -> str:
    said = (
        "Each column was measured by itself: the counts of its cells with noise, whose intervals "
        "hold with about 95% probability each and may fall below 0. Next to them stand the rows"
    )
    said += "." if _scale(synthetic) == 1 else ", scaled to the number of rows of the table."
    cards, missing = [], False
    for place, column in enumerate(synthetic.plan.domain.columns):
        found = _marginal(synthetic, place)
        merged = f'<p class="soft">{found.merged}</p>' if found.merged else ""
        head = f"<h3>{html.escape(column.name)}</h3>{_mean(synthetic, place)}{merged}"
        counts = zip(found.measured, found.half, found.drawn, strict=True)
        lines = [
            (label, f"{_count(noisy)} ± {_count(half)}", _count(drawn))
            for label, (noisy, half, drawn) in zip(found.labels, counts, strict=True)
        ]
        table = _numbers(("cell", _MEASURED, _DRAWN), lines)
        try:
            picture = _picture(found)
        except MissingExtra:
            missing = True
            shown = table
        else:
            shown = picture + _folded("Numbers", table)
        cards.append(f"<div>{head}{shown}</div>")
    note = f"<p>{_NO_PICTURES}</p>" if missing else ""
    grid = f'<div class="columns">{"".join(cards)}</div>'
    return display.section("Columns", f'<p class="soft">{said}</p>', note, grid)


def _mean(synthetic: SyntheticTable, place: int) -> str:
    """The mean of a column of numbers, from what was measured."""
    column = synthetic.plan.domain.columns[place]
    if not isinstance(column, BinnedColumn) or column.dates:
        return ""
    mean = synthetic.measured.mean(column.name)
    low, high, value = map(display.number, (mean.lower, mean.upper, mean.value))
    said = f"Mean {low} to {high}, with noise and the width of cells counted"
    middle = "" if math.isnan(mean.value) else f"; {value} from the middles of cells"
    return f'<p class="soft">{said}{middle}.</p>'


def _marginal(synthetic: SyntheticTable, place: int) -> _Marginal:
    column = synthetic.plan.domain.columns[place]
    seen = synthetic.marginals[(place,)]
    noisy = seen.counts.astype(np.float64)
    drawn = np.bincount(synthetic.codes[:, place], minlength=column.size) * _scale(synthetic)
    deviations = _LAPLACE if isinstance(synthetic.event, Pure) else _NORMAL
    groups, merged = _groups(column, noisy)
    half = [deviations * math.sqrt(seen.variance * len(group)) for group in groups]
    return _Marginal(
        name=column.name,
        labels=tuple(_label(column, group) for group in groups),
        measured=[float(noisy[group].sum()) for group in groups],
        half=half,
        drawn=[float(drawn[group].sum()) for group in groups],
        merged=merged,
    )


def _groups(column: Any, noisy: Any) -> tuple[list[list[int]], str]:
    """The cells of each line, and how they were joined where there are many."""
    size = column.size
    if size <= _MOST_CELLS:
        return [[place] for place in range(size)], ""
    if isinstance(column, BinnedColumn):
        bins = len(column.edges) - 1
        each = math.ceil(bins / _MOST_CELLS)
        groups = [list(range(at, min(at + each, bins))) for at in range(0, bins, each)]
        groups += [[bins]] if column.missing else []
        return groups, f"A line stands for up to {each} neighboring cells of {size:,}."
    order = np.argsort(-noisy, kind="stable").tolist()
    shown = sorted(order[: _MOST_CELLS - 1])
    rest = sorted(order[_MOST_CELLS - 1 :])
    said = f"The last line stands for the {len(rest):,} cells with the smallest noisy counts."
    return [*([place] for place in shown), rest], said


def _label(column: CategoryColumn | BinnedColumn, group: Sequence[int]) -> str:
    """What a line is called: of whole numbers and dates the first and the last.

    >>> age = BinnedColumn(name="age", edges=(-5, 18, 19, 65), whole=True)
    >>> [_label(age, group) for group in ([0], [1], [1, 2])]
    ['-5 to 17', '18', '18 to 65']
    """
    labels = column.labels
    first, last = labels[group[0]], labels[group[-1]]
    if first is None:
        return "missing"
    if not isinstance(column, BinnedColumn):
        return str(first) if len(group) == 1 else f"{len(group):,} others"
    if column.whole:
        lowest, highest = column.ends
        low, high = (
            dt.date.fromordinal(int(end)).isoformat() if column.dates else f"{int(end)}"
            for end in (lowest[group[0]], highest[group[-1]])
        )
        return low if low == high else f"{low} to {high}"
    return f"{str(first).partition(',')[0]},{str(last).partition(',')[2]}"


def _picture(found: _Marginal) -> str:
    cells = [label if len(label) <= 24 else f"{label[:23]}…" for label in found.labels]
    # Cut names may be alike, which would be one line of the picture.
    names = [name if name not in cells[:at] else f"{name} ({at})" for at, name in enumerate(cells)]
    size = len(names)
    low = [noisy - half for noisy, half in zip(found.measured, found.half, strict=True)]
    high = [noisy + half for noisy, half in zip(found.measured, found.half, strict=True)]
    axes = plots.new_axes(size=(5.6, 1.2 + 0.36 * size))
    plots.errors(
        [*names, *names],
        [*found.measured, *found.drawn],
        [*low, *[math.nan] * size],
        [*high, *[math.nan] * size],
        series=[*[_MEASURED] * size, *[_DRAWN] * size],
        bars=True,
        axes=axes,
    )
    axes.set(xlabel="rows")
    axes.legend(loc="lower center", bbox_to_anchor=(0.5, 1.0), ncols=2, frameon=False)
    sink = io.BytesIO()
    axes.figure.savefig(sink, format="svg", metadata={"Date": None})
    data = base64.b64encode(sink.getvalue()).decode()
    said = html.escape(f"Rows by {found.name}: measured with noise, and synthetic", quote=True)
    return f'<img alt="{said}" src="data:image/svg+xml;base64,{data}">'


def _measurements(synthetic: SyntheticTable) -> str:
    names = synthetic.plan.domain.names
    lines = [
        (" × ".join(names[a] for a in columns), f"{seen.counts.size:,}", _count(seen.variance**0.5))
        for columns, seen in sorted(synthetic.marginals.items(), key=lambda one: one[0])
    ]
    said = (
        "The model was fitted to these tables, which were chosen in "
        f"{len(synthetic.rounds):,} rounds where it erred most, privately."
    )
    table = _numbers(("table", "cells", "noise of a cell"), lines)
    folded = _folded(f"{len(lines):,} tables", table)
    return display.section("What was measured", f'<p class="soft">{said}</p>', folded)


def _scale(synthetic: SyntheticTable) -> float:
    """Rows of the table for one that was drawn."""
    count = len(synthetic.codes)
    return 1.0 if not count or count == round(synthetic.row_count) else synthetic.row_count / count


def _count(value: float) -> str:
    return f"{value:,.0f}" if abs(value) >= 10 else f"{value:.1f}"


def _folded(title: str, content: str) -> str:
    return f"<details><summary>{title}</summary>{content}</details>"


def _numbers(heads: Sequence[str], lines: Sequence[Sequence[str]]) -> str:
    """A table of names and numbers."""
    return f'<div class="wide">{display.table(heads, lines, named=True)}</div>'
