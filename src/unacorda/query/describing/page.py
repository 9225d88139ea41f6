"""A first look as a page that stands alone: no script, no font, no picture from elsewhere."""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

from collections.abc import Sequence
from html import escape

from unacorda.query.describing.description import Bar, ColumnLook, Description
from unacorda.query.describing.text import mean_of, rounded

__all__ = ["page"]

_WIDTH, _HEIGHT, _LINE = 560, 160, 22  # of pictures, and of a line of a bar chart
_NAMES = 180  # pixels for the names of bars
_STYLE = """
:root { color-scheme: light dark; --ink: #1c2430; --soft: #5b6675; --line: #d8dde4;
  --paper: #ffffff; --bar: #3b6fb6; --whisker: #1c2430; }
@media (prefers-color-scheme: dark) { :root { --ink: #e8ecf1; --soft: #a3adba; --line: #39424e;
  --paper: #161b22; --bar: #6c9fe0; --whisker: #e8ecf1; } }
body { margin: 2rem auto; max-width: 60rem; padding: 0 1rem; color: var(--ink);
  background: var(--paper); font: 16px/1.5 system-ui, sans-serif; }
h1 { font-size: 1.6rem; margin-bottom: .2rem; } h2 { font-size: 1.15rem; margin: 0; }
p { margin: .3rem 0; } .soft { color: var(--soft); }
section { border-top: 1px solid var(--line); padding: 1rem 0; }
table { border-collapse: collapse; } td, th { text-align: left; padding: .1rem 1.2rem .1rem 0; }
th { font-weight: 600; } svg { max-width: 100%; height: auto; margin-top: .5rem; }
svg text { fill: var(--ink); font: 12px system-ui, sans-serif; }
.bar { fill: var(--bar); } .whisker, .axis { stroke: var(--whisker); stroke-width: 1; }
.axis { stroke: var(--line); }
"""
_READING = (
    "Every number has noise, so that nobody can tell whether any one person is in the table. A "
    "margin (±, or the thin line on a bar) holds with 95% probability and counts the noise alone: "
    "what clamping to a range and the limit on a person's rows do comes on top. Counts may come "
    "out below zero."
)


def page(description: Description) -> str:
    """The whole page."""
    title = f"A first look at {description.table}"
    facts = [
        ("people", rounded(description.people)),
        ("rows", rounded(description.rows)),
        ("protects", description.unit),
        ("spent", description.costs),
        ("left", str(description.remaining)),
    ]
    warning = (
        "<p><strong>The noise came from a seed: this page protects nobody.</strong></p>"
        if description.reproducible
        else ""
    )
    sections = "".join(_section(column) for column in description.columns)
    return (
        f'<!doctype html>\n<html lang="en"><head><meta charset="utf-8">'
        f'<meta name="viewport" content="width=device-width, initial-scale=1">'
        f"<title>{escape(title)}</title><style>{_STYLE}</style></head><body>"
        f"<h1>{escape(title)}</h1>{warning}{_table(facts)}"
        f'<p class="soft">{escape(_READING)}</p>{sections}</body></html>\n'
    )


def _table(facts: Sequence[tuple[str, str]]) -> str:
    lines = "".join(
        f'<tr><th scope="row">{escape(name)}</th><td>{escape(value)}</td></tr>'
        for name, value in facts
    )
    return f"<table>{lines}</table>"


def _section(column: ColumnLook) -> str:
    known = {"declared": "declared", "type": "by its type", "vote": "by a private vote"}
    facts = []
    if column.present is not None:
        facts.append(("people with a value", rounded(column.present)))
    if column.missing is not None:
        facts.append(("people with a missing value", rounded(column.missing)))
    if column.range is not None:
        how = "found privately" if column.found else "declared"
        facts.append(("range", f"{' to '.join(column.range)} ({how})"))
    if column.mean is not None:
        facts.append(("mean", mean_of(column)))
    facts += [(f"{share} quantile", value) for share, value in column.quantiles.items()]
    picture = ""
    if column.bars and column.range is not None:
        picture = _histogram(column)
    elif column.bars:
        picture = _chart(column)
    note = f'<p class="soft">{escape(column.note)}</p>' if column.note else ""
    return (
        f'<section><h2>{escape(column.name)} <span class="soft">{column.kind}, '
        f"{known[column.source]}</span></h2>{_table(facts)}{picture}{note}</section>"
    )


def _top(bars: Sequence[Bar]) -> float:
    highs = [bar.count.value if bar.count.high is None else bar.count.high for bar in bars]
    return max([*highs, *(bar.count.value for bar in bars), 1.0])


def _histogram(column: ColumnLook) -> str:
    """Bars side by side over the range."""
    assert column.range is not None
    top, step = _top(column.bars), _WIDTH / len(column.bars)
    parts = []
    for place, bar in enumerate(column.bars):
        left, middle = place * step, (place + 0.5) * step
        high = _HEIGHT * max(bar.count.value, 0.0) / top
        parts.append(
            f'<rect class="bar" x="{left + 1:.1f}" y="{_HEIGHT - high:.1f}" '
            f'width="{step - 2:.1f}" height="{high:.1f}"><title>{_told(bar)}</title></rect>'
        )
        if bar.count.low is not None and bar.count.high is not None:
            y1, y2 = (
                _HEIGHT - _HEIGHT * max(end, 0.0) / top for end in (bar.count.low, bar.count.high)
            )
            parts.append(
                f'<line class="whisker" x1="{middle:.1f}" x2="{middle:.1f}" '
                f'y1="{y1:.1f}" y2="{y2:.1f}"/>'
            )
    ends = (
        f'<text x="0" y="{_HEIGHT + 16}">{escape(column.range[0])}</text>'
        f'<text x="{_WIDTH}" y="{_HEIGHT + 16}" text-anchor="end">{escape(column.range[1])}</text>'
    )
    axis = f'<line class="axis" x1="0" x2="{_WIDTH}" y1="{_HEIGHT}" y2="{_HEIGHT}"/>'
    return _svg(f"{column.name}: people by value", _HEIGHT + 22, [*parts, axis, ends])


def _chart(column: ColumnLook) -> str:
    """Bars one below the other, each with its name."""
    top, room = _top(column.bars), _WIDTH - _NAMES - 90
    parts = []
    for place, bar in enumerate(column.bars):
        y, wide = place * _LINE, room * max(bar.count.value, 0.0) / top
        name = bar.label if len(bar.label) <= 26 else f"{bar.label[:25]}…"
        parts.append(
            f'<text x="{_NAMES - 8}" y="{y + 15}" text-anchor="end">{escape(name)}</text>'
            f'<rect class="bar" x="{_NAMES}" y="{y + 3}" width="{wide:.1f}" height="{_LINE - 6}">'
            f"<title>{_told(bar)}</title></rect>"
            f'<text x="{_NAMES + room + 6}" y="{y + 15}">{escape(rounded(bar.count))}</text>'
        )
        if bar.count.low is not None and bar.count.high is not None:
            x1, x2 = (
                _NAMES + room * max(end, 0.0) / top for end in (bar.count.low, bar.count.high)
            )
            middle = y + _LINE / 2
            parts.append(
                f'<line class="whisker" x1="{x1:.1f}" x2="{x2:.1f}" y1="{middle}" y2="{middle}"/>'
            )
    title = f"{column.name}: people by value"
    return _svg(title, _LINE * len(column.bars) + 4, parts)


def _told(bar: Bar) -> str:
    return escape(f"{bar.label}: {rounded(bar.count)}")


def _svg(title: str, height: int, parts: Sequence[str]) -> str:
    return (
        f'<svg viewBox="0 0 {_WIDTH} {height}" width="{_WIDTH}" role="img" '
        f'aria-label="{escape(title, quote=True)}">{"".join(parts)}</svg>'
    )
