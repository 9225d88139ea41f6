"""Descriptions of a table: as values, as text, and as a page with pictures.

The page is self-contained: no script, no font and no picture from elsewhere.
"""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

import dataclasses
import datetime as dt
import html
import itertools
import json
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from unacorda import display
from unacorda.display import NOTHING, escape
from unacorda.privacy.guarantees import Guarantee, left_of
from unacorda.query.aggregates.row_counts import KeptRows
from unacorda.query.plan.codec import encode
from unacorda.query.results.record import SEVERAL
from unacorda.query.results.release import Release

_MOST = 20
_WHOLE = 200  # up to so many whole numbers bars hold as many of them each
_EPOCH = dt.date(1970, 1, 1)


@dataclass(frozen=True, slots=True, kw_only=True)
class Bins:
    """Equal parts of a public range. first: where they begin; width: of each; labels: in order."""

    first: float
    width: float
    labels: tuple[str, ...]

    @staticmethod
    def of(low: float, high: float, *, whole: bool, date: bool) -> Bins:
        """At most 20 parts; of few whole numbers, or days, each holds as many of them.

        >>> Bins.of(1, 12, whole=True, date=False).labels[-2:]
        ('11', '12')
        >>> Bins.of(1, 31, whole=True, date=False).labels[:2]
        ('1 to 2', '3 to 4')
        >>> Bins.of(0, 40, whole=False, date=False).labels[:2]
        ('0 to 2', '2 to 4')
        """
        least, last = math.ceil(low), math.floor(high)
        count = last - least + 1
        if (whole or date) and 1 <= count <= _WHOLE:
            width = -(-count // _MOST)
            starts = range(least, last + 1, width)
            ends = ((start, min(start + width - 1, last)) for start in starts)
            return Bins(first=least, width=width, labels=_ranges(ends, date=date))
        edges = [low + (high - low) * place / _MOST for place in range(_MOST + 1)]
        labels = _ranges(itertools.pairwise(edges), date=date)
        return Bins(first=low, width=(high - low) / _MOST, labels=labels)

    def place(self, value: str) -> str:
        """SQL of the number of a value's bin, NULL for NULL; the outer bins are open."""
        # Divided, so that whole numbers at the edges are where they belong.
        place = f"FLOOR(({value} - ({float(self.first)!r})) / {float(self.width)!r})"
        clamped = f"CAST(LEAST(GREATEST({place}, 0), {len(self.labels) - 1}) AS INTEGER)"
        # GREATEST and LEAST pass over NULL: alone they would put it into the lowest bin.
        return f"CASE WHEN ({value}) IS NOT NULL THEN {clamped} END"


def shown(value: float, *, date: bool, width: float = 0.0) -> str:
    """A number, or a day, to a thousandth of the range it lies in."""
    if date:
        return str(_EPOCH + dt.timedelta(days=round(value)))
    if not width:
        return f"{value:,.6g}"
    digits = max(0, 3 - math.floor(math.log10(width)))
    return f"{value:,.{digits}f}" if digits < 10 else f"{value:.4g}"


def _ranges(ends: Iterable[tuple[float, float]], *, date: bool) -> tuple[str, ...]:
    both = ([shown(end, date=date) for end in pair] for pair in ends)
    return tuple(" to ".join(dict.fromkeys(pair)) for pair in both)


Kind = Literal["number", "date", "boolean", "category", "text", "other"]
"""As what a column is described."""

_SOURCES = {"declared": "declared", "type": "by its type", "vote": "by a private vote"}
_BLOCKS = " ▁▂▃▄▅▆▇█"
_WIDEST_BAR = 30

_WIDTH, _HEIGHT, _LINE = 560, 160, 22  # of pictures, and of a line of a bar chart
_NAMES = 180  # pixels for the names of bars
_LEFT = 64  # and for the numbers of an axis
_STYLE = """
h1 { font-size: 1.6rem; margin-bottom: .2rem; } h2 { font-size: 1.15rem; margin: 0; }
p { margin: .3rem 0; } td, th { padding: .1rem 1.2rem .1rem 0; }
svg { max-width: 100%; height: auto; margin-top: .5rem; }
svg text { fill: var(--ink); font: 12px system-ui, sans-serif; }
.bar { fill: var(--bar); } .whisker, .axis { stroke: var(--ink); stroke-width: 1; }
.axis { stroke: var(--line); }
"""
_ABOUT = (
    "Counts are of people, each once; means and quantiles are of the rows that are kept.",
    "Numbers have 95% intervals, which count the noise alone.",
)
_READING = (
    f"{_ABOUT[0]} "
    "Every number has noise, so that no reader can tell whether any one person is in the table. "
    "The 95% intervals (±, or the thin line on a bar) count the noise alone, not the bias of "
    "clamping to a range and of the limit on a person's rows. Counts can be below zero."
)
_LARGE = 0.1  # of the number of people
_ROUGH = (
    "The noise is large for this number of people. Kinds of columns by a private vote, and ranges "
    "found privately, may be wrong: offer a larger budget, or declare what is known of the columns."
)


@dataclass(frozen=True, slots=True, kw_only=True)
class EstimateWithInterval:
    """A released number with the ends of its 95% interval, None where none is known."""

    value: float
    low: float | None = None
    high: float | None = None


_ROWS_EACH = "people by number of rows"


@dataclass(frozen=True, slots=True, kw_only=True)
class Bar:
    """One bar of a picture: what it is of, and how many people have such a value."""

    label: str
    count: EstimateWithInterval


@dataclass(frozen=True, slots=True, kw_only=True)
class ColumnLook:
    """What a first look found of one column.

    Attributes
    ----------
    name
        The column.
    kind
        Its type, as it was read.
    source
        How the type is known: "declared", from the "type" of the column, or from a private "vote".
    present
        The number of people who have a value.
    range, limits
        The bounds, as texts and as numbers.
    found
        Whether the bounds were found privately.
    mean
        The mean, with its interval.
    quantiles, intervals
        By share, the quantiles and their 95% intervals. Intervals wider than half the range are
        left out.
    bars
        The numbers of people by value, or by bin of the range.
    missing
        The number of people with a row without a value; None if it is not known.
    note
        A remark for readers.

    Examples
    --------
    >>> import pandas
    >>> import unacorda
    >>> visits = pandas.DataFrame({"id": range(2000), "age": [20 + i % 60 for i in range(2000)]})
    >>> unit, bits = unacorda.Person("id", max_rows=1), unacorda.SeededBits(1)
    >>> facts = {"age": unacorda.Bounds(0, 120)}
    >>> with unacorda.Session(
    ...     {"visits": visits}, unit=unit, budget=unacorda.PureDP(2), columns=facts, bits=bits
    ... ) as session:
    ...     (age,) = session.describe("visits", budget=unacorda.PureDP(2)).columns
    >>> age.kind, age.source, age.range, age.found
    ('number', 'declared', ('0', '120'), False)
    """

    name: str
    kind: Kind
    source: Literal["declared", "type", "vote"]
    present: EstimateWithInterval | None = None
    range: tuple[str, str] | None = None
    limits: tuple[float, float] | None = None
    found: bool = False
    mean: EstimateWithInterval | None = None
    quantiles: dict[str, str] = dataclasses.field(default_factory=dict)
    intervals: dict[str, str] = dataclasses.field(default_factory=dict)
    bars: tuple[Bar, ...] = ()
    missing: EstimateWithInterval | None = None
    note: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class RowsEach:
    """How many people have how many rows, before bounding. kept: what the bound keeps of them."""

    bars: tuple[Bar, ...]
    kept: str

    @staticmethod
    def of(kept: KeptRows) -> RowsEach:
        """As a released histogram has it."""
        bars = []
        for low, high, people, half in kept.histogram.doubled():
            count = EstimateWithInterval(value=people, low=people - half, high=people + half)
            label = f"{low:,}" if low == high else f"{low:,} to {high:,}"
            bars.append(Bar(label=label, count=count))
        return RowsEach(bars=tuple(bars), kept=kept.sentence)


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class Description:
    """A first look at a table, made of private answers only.

    `print` shows it as text. Everything in it may be published.

    Attributes
    ----------
    table, unit
        The name of the table, and the privacy unit in words.
    people, rows
        The numbers of people and of rows, after contribution bounding. Each has `value`, `low` and
        `high`, a 95% interval.
    columns
        What was found of each column, in the order of the table.
    left_out
        The columns that were left out because their names are those of ids or row numbers.
    rows_each
        People by their number of rows, if the bound drops rows.
    request, spent, remaining
        The budget that was allowed, what was charged, and what the account had left.
    budget
        The budget of the account.
    reproducible
        Whether the noise came from a seed, and so protects no one.
    releases
        The releases that it is made of, by what was asked.
    searches
        By table, the releases with which the session chose `max_rows` when it was opened.

    Examples
    --------
    >>> import pandas
    >>> import unacorda
    >>> visits = pandas.DataFrame({"id": range(2000), "age": [20 + i % 60 for i in range(2000)]})
    >>> unit, bits = unacorda.Person("id", max_rows=1), unacorda.SeededBits(1)
    >>> facts = {"age": unacorda.Bounds(0, 120)}
    >>> with unacorda.Session(
    ...     {"visits": visits}, unit=unit, budget=unacorda.PureDP(2), columns=facts, bits=bits
    ... ) as session:
    ...     look = session.describe("visits", budget=unacorda.PureDP(2))
    >>> look.people.value, look.spent
    (1998, PureDP(epsilon=2.0))
    >>> [(column.name, round(column.mean.value)) for column in look.columns]
    [('age', 50)]
    """

    table: str
    unit: str
    people: EstimateWithInterval
    rows: EstimateWithInterval
    columns: tuple[ColumnLook, ...]
    left_out: tuple[str, ...] = ()
    rows_each: RowsEach | None = None
    request: Guarantee
    spent: Guarantee
    remaining: Guarantee
    budget: Guarantee
    reproducible: bool = False
    releases: Mapping[str, Release] = dataclasses.field(default_factory=dict)
    searches: Mapping[str, Release] = dataclasses.field(default_factory=dict)

    @property
    def before(self) -> Guarantee | None:
        """The session's charge for its searches, or None."""
        if not self.searches:
            return None
        return next(iter(self.searches.values())).charge  # one search of all tables, paid once

    @property
    def costs(self) -> str:
        """All charges, in words."""
        if self.before is None:
            return str(self.spent)
        return (
            f"{self.spent + self.before}: {self.before} to find how many rows of a person to keep, "
            f"{self.spent} for this look"
        )

    @property
    def warning(self) -> str:
        """A warning if the noise is large for this number of people; otherwise empty."""
        counts = [one.present for one in self.columns if one.present is not None]
        ends = [(one.low, one.high) for one in counts]
        noise = [(high - low) / 2 for low, high in ends if low is not None and high is not None]
        return _ROUGH if max(noise, default=0) > _LARGE * self.people.value else ""

    def to_dict(self) -> dict[str, Any]:
        """Return the description as plain values, for JSON.

        Returns
        -------
        dict
            All fields but the releases.
        """
        return {
            "table": self.table,
            "unit": self.unit,
            "request": repr(self.request),
            "spent": repr(self.spent),
            "remaining": repr(self.remaining),
            "reproducible": self.reproducible,
            "before": None if self.before is None else repr(self.before),
            "people": dataclasses.asdict(self.people),
            "rows": dataclasses.asdict(self.rows),
            "rows_each": None if self.rows_each is None else dataclasses.asdict(self.rows_each),
            "columns": [dataclasses.asdict(column) for column in self.columns],
            "left_out": list(self.left_out),
        }

    def to_json(self) -> str:
        """Write the description as JSON text, which `Release.verify` reads.

        Returns
        -------
        str
            JSON text, with a record of every release.
        """
        record = {
            "exact": {"spent": encode(self.spent), "before": encode(self.before)},
            "searches": {name: json.loads(one.to_json()) for name, one in self.searches.items()},
            "releases": {name: json.loads(one.to_json()) for name, one in self.releases.items()},
        }
        return json.dumps({"format": SEVERAL, **self.to_dict(), **record}, indent=2)

    def to_html(self) -> str:
        """Write the description as one HTML page, with a picture of each column.

        Returns
        -------
        str
            HTML that refers to no other file.
        """
        facts = [
            ("people", _rounded(self.people)),
            ("rows", _rounded(self.rows)),
            ("protects", self.unit),
            ("spent", self.costs),
            ("account", left_of(self.remaining, self.budget)),
        ]
        seeded = "<p><strong>The noise came from a seed: this page protects no one.</strong></p>"
        parts = [
            seeded if self.reproducible else "",
            display.facts(facts),
            f'<p class="soft">{html.escape(" ".join(filter(None, (_READING, self.warning))))}</p>',
            _rows_section(self.rows_each),
            *map(_section, self.columns),
        ]
        return display.page(f"A first look at {self.table}", parts, style=_STYLE)

    def _repr_html_(self) -> str:
        return self.to_html()

    def __repr__(self) -> str:
        head = (
            f"{escape(self.table)}: about {_rounded(self.people)} people, "
            f"{_rounded(self.rows)} rows (protects {self.unit})"
        )
        parts = [head, f"spent {self.costs}; {left_of(self.remaining, self.budget)}"]
        parts += [*_ABOUT, *([self.warning] if self.warning else [])]
        if self.left_out:
            parts.append(
                f"left out, named as ids or row numbers: {', '.join(map(escape, self.left_out))}"
            )
        if self.rows_each is not None:
            parts += ["", f"{_ROWS_EACH}:", *_bars(self.rows_each.bars)]
            parts.append(f"  {escape(self.rows_each.kept)}")
        for column in self.columns:
            parts += ["", *_lines_of_column(column)]
        return "\n".join(parts)


def _lines_of_column(column: ColumnLook) -> list[str]:
    """One column, line by line."""
    facts = _facts(column)
    if column.quantiles:
        facts |= _quantiles(column)
    if column.bars and column.range is not None:
        facts["people by value"] = _sparks([bar.count.value for bar in column.bars])
    lines = [f"  {name:19}  {value}" for name, value in facts.items()]
    if column.bars and column.range is None:
        lines += _bars(column.bars)
    if column.missing is not None:
        lines.append(f"  missing              {_rounded(column.missing)}")
    note = [f"  {column.note}"] if column.note else []
    return [f"{escape(column.name)}: {column.kind}, {_SOURCES[column.source]}", *lines, *note]


def _facts(column: ColumnLook) -> dict[str, str]:
    """What is known of a column, in words, but for quantiles and what is missing."""
    facts = {}
    if column.present is not None:
        facts["people with a value"] = _rounded(column.present)
    if column.range is not None:
        how = "found privately" if column.found else "declared"
        facts["range"] = f"{' to '.join(column.range)} ({how})"
    if column.mean is not None:
        unknown = (column.mean.low, column.mean.high) == column.limits  # as wide as the whole range
        facts["mean"] = NOTHING if unknown else _rounded(column.mean)
    return facts


def _quantiles(column: ColumnLook) -> dict[str, str]:
    """Quantiles with their intervals, by names that hold the share."""
    return {
        f"{share} quantile": f"{value} ({column.intervals[share]})"
        if share in column.intervals
        else "no usable interval"
        for share, value in column.quantiles.items()
    }


def _rounded(estimate: EstimateWithInterval) -> str:
    """A released number and its interval, to the digits that the interval leaves."""
    return display.estimate(estimate.value, estimate.low, estimate.high)


def _sparks(counts: Sequence[float]) -> str:
    """Counts as a row of blocks, the highest of full height."""
    top = max([*counts, 1.0])
    return "".join(_BLOCKS[round(8 * count / top)] for count in counts)


def _bars(bars: Sequence[Bar]) -> list[str]:
    top = max([*(bar.count.value for bar in bars), 1.0])
    labels = [escape(bar.label) for bar in bars]
    width = max(map(len, labels))
    return [
        f"  {label.ljust(width)}  {_rounded(bar.count).rjust(16)}  "
        + "█" * round(_WIDEST_BAR * max(bar.count.value, 0.0) / top)
        for label, bar in zip(labels, bars, strict=True)
    ]


def _rows_section(rows: RowsEach | None) -> str:
    if rows is None:
        return ""
    facts = [(bar.label, _rounded(bar.count)) for bar in rows.bars]
    kept = f'<p class="soft">{html.escape(rows.kept)}</p>'
    return display.section(_ROWS_EACH, display.facts(facts), kept)


def _section(column: ColumnLook) -> str:
    facts = list(_facts(column).items())
    if column.missing is not None:  # next to the people who have a value, where these are known
        place = 0 if column.present is None else 1
        facts.insert(place, ("people with a missing value", _rounded(column.missing)))
    facts += _quantiles(column).items()
    picture = _picture(column) if column.bars else ""
    note = f'<p class="soft">{html.escape(column.note)}</p>' if column.note else ""
    kind = f'<span class="soft">{column.kind}, {_SOURCES[column.source]}</span>'
    title = f"{html.escape(column.name)} {kind}"
    return display.section(title, display.facts(facts), picture, note)


def _picture(column: ColumnLook) -> str:
    """Bars with their intervals: side by side over a range, else one below the other by name."""
    upright = column.range is not None
    counts = [bar.count for bar in column.bars]
    top = max([1.0, *(one.value for one in counts), *(one.high or 0.0 for one in counts)])
    room = _HEIGHT if upright else _WIDTH - _NAMES - 90
    step = (_WIDTH - _LEFT) / len(counts) if upright else _LINE
    parts = _people_axis(top) if upright else []
    for place, bar in enumerate(column.bars):
        begin = _LEFT if upright else 0
        start, middle = begin + place * step, begin + (place + 0.5) * step
        shown = html.escape(_rounded(bar.count))
        tip = f"<title>{html.escape(bar.label)}: {shown}</title></rect>"
        size, *ends = (
            room * max(end, 0.0) / top
            for end in (bar.count.value, bar.count.low, bar.count.high)
            if end is not None
        )
        if upright:
            rectangle = start + 1, _HEIGHT - size, step - 2, size
        else:
            rectangle = _NAMES, start + 3, size, step - 6
            name = bar.label if len(bar.label) <= 26 else f"{bar.label[:25]}…"
            parts += [
                _text(_NAMES - 8, start + 15, html.escape(name), end=True),
                _text(_NAMES + room + 6, start + 15, shown),
            ]
        x, y, width, height = rectangle
        parts.append(
            f'<rect class="bar" x="{x:.1f}" y="{y:.1f}" width="{width:.1f}" '
            f'height="{height:.1f}">{tip}'
        )
        if len(ends) == 2:
            low, high = ends
            across = (middle, middle) if upright else (_NAMES + low, _NAMES + high)
            down = (_HEIGHT - low, _HEIGHT - high) if upright else (middle, middle)
            parts.append(_line("whisker", *across, *down))
    height = _LINE * len(counts) + 4
    if column.range is not None:
        height = _HEIGHT + 40
        parts += _value_axis(column)
    title = html.escape(f"{column.name}: people by value", quote=True)
    return (
        f'<svg viewBox="0 -20 {_WIDTH} {height + 20}" width="{_WIDTH}" role="img" '
        f'aria-label="{title}">{"".join(parts)}</svg>'
    )


def _people_axis(top: float) -> list[str]:
    """Ticks of the number of people: none, half of the highest, the highest."""
    parts = [_text(_LEFT - 6, -8, "people", end=True)]
    for share in (0.0, 0.5, 1.0):
        y = _HEIGHT * (1 - share)
        parts.append(_line("axis", _LEFT - 4, _WIDTH, y, y))
        parts.append(_text(_LEFT - 6, y + 4, f"{share * top:,.3g}", end=True))
    return parts


def _value_axis(column: ColumnLook) -> list[str]:
    """The ends and the middle of the range, and the name of the column."""
    assert column.range is not None
    first, last = map(html.escape, column.range)
    middle = (_LEFT + _WIDTH) / 2
    parts = [_text(_LEFT, _HEIGHT + 16, first), _text(_WIDTH, _HEIGHT + 16, last, end=True)]
    if column.limits is not None:
        low, high = column.limits
        half = shown((low + high) / 2, date=column.kind == "date", width=high - low)
        parts.append(_text(middle, _HEIGHT + 16, html.escape(half)))
    return [*parts, _text(middle, _HEIGHT + 34, html.escape(column.name))]


def _line(kind: str, x1: float, x2: float, y1: float, y2: float) -> str:
    return f'<line class="{kind}" x1="{x1:.1f}" x2="{x2:.1f}" y1="{y1:.1f}" y2="{y2:.1f}"/>'


def _text(x: float, y: float, text: str, *, end: bool = False) -> str:
    anchor = ' text-anchor="end"' if end else ""
    return f'<text x="{x:.1f}" y="{y:.1f}"{anchor}>{text}</text>'
