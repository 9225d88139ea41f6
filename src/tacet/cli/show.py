"""What a reader sees: tables, wrapped text and notes; colour on a terminal only."""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

import contextlib
import math
import os
import shutil
import sys
import textwrap
import unicodedata
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

if TYPE_CHECKING:
    from tacet.query.release import Release

__all__ = [
    "Grid",
    "clean",
    "estimate",
    "heading",
    "line",
    "notice",
    "number",
    "print_grid",
    "release_grid",
    "working",
    "wrapped",
]

_WIDEST = 100


@dataclass(frozen=True, slots=True, kw_only=True)
class Grid:
    """A table of texts. left: how many of the first columns are aligned to the left."""

    heads: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    left: int = 0

    def __str__(self) -> str:
        widths = [max(map(_width, column)) for column in zip(self.heads, *self.rows, strict=True)]
        return "\n".join(
            "  ".join(
                _padded(text, width, left=place < self.left)
                for place, (text, width) in enumerate(zip(row, widths, strict=True))
            ).rstrip()
            for row in (self.heads, *self.rows)
        )


def release_grid(release: Release) -> Grid:
    """A release as a table: group columns, then each estimate with its 95% margin."""
    heads = (*release.groups, *release.answers)
    rows = []
    for place, key in enumerate(release.keys):
        cells = [number(part) for part in key]
        cells += [
            estimate(answer.values[place], answer.lower[place], answer.upper[place])
            for answer in release.answers.values()
        ]
        rows.append(tuple(map(clean, cells)))
    return Grid(heads=tuple(map(clean, heads)), rows=tuple(rows), left=len(release.groups))


def estimate(value: float, lower: float | None, upper: float | None) -> str:
    """An estimate with its interval, rounded to what the interval lets one know.

    >>> estimate(23376.84, 20609.2, 26144.5), estimate(5.616, 0.58, 10.65), estimate(12.0, 5, 40)
    ('23,377 ± 2,768', '5.6 ± 5.0', '12 (5 to 40)')
    >>> estimate(229, 220.0, 238.0)
    '229 ± 9'
    """
    if lower is None or upper is None:
        return number(value)
    below, above = value - lower, upper - value
    margin = max(below, above)
    whole = isinstance(value, int) or margin <= 0
    digits = 0 if whole else min(max(0, 1 - math.floor(math.log10(margin))), 15)
    if abs(below - above) <= 0.05 * max(abs(below), abs(above)):
        return f"{value:,.{digits}f} ± {margin:,.{digits}f}"
    return f"{value:,.{digits}f} ({lower:,.{digits}f} to {upper:,.{digits}f})"


def number(value: Any) -> str:
    """A value of a cell in text; numbers with at least four digits that tell something."""
    match value:
        case None:
            return "NULL"
        case bool():
            return str(value).lower()
        case float() if not math.isfinite(value):
            return str(value)
        case float() if value == round(value) or abs(value) >= 10_000:
            return f"{value:,.0f}" if abs(value) < 1e15 else f"{value:.4g}"
        case float():
            return f"{value:,.4g}" if abs(value) < 1000 else f"{value:,.1f}"
        case _:
            return str(value)


def print_grid(grid: Grid) -> None:
    """Print a table: drawn with rich on a terminal, plain and aligned anywhere else."""
    if not _terminal(sys.stdout):
        line(str(grid))
        return
    from rich import box
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    table = Table(box=box.SIMPLE_HEAD, pad_edge=False, header_style="bold")
    for place, head in enumerate(grid.heads):
        left = place < grid.left
        table.add_column(
            Text(head), justify="left" if left else "right", style="cyan" if left else ""
        )
    for row in grid.rows:
        table.add_row(*(Text(cell) for cell in row))
    Console(no_color=_no_colour(), highlight=False).print(table)


def heading(text: str) -> None:
    """Print a heading."""
    if not _terminal(sys.stdout):
        line(f"{text}\n{'-' * len(text)}")
        return
    from rich.console import Console
    from rich.text import Text

    Console(no_color=_no_colour(), highlight=False).print(Text(text, style="bold"))


def line(text: str = "") -> None:
    """Print to stdout."""
    sys.stdout.write(f"{text}\n")


def wrapped(text: str, *, width: int | None = None) -> str:
    """Each line of a text in lines of at most `width` signs, indented as it was.

    >>> print(wrapped("  1. one two three", width=12))
      1. one two
         three
    """
    width = width or min(shutil.get_terminal_size((80, 24)).columns, _WIDEST) - 1
    lines = []
    for whole in text.splitlines():
        bare = whole.lstrip(" ")
        indent = len(whole) - len(bare)
        hang = indent + (3 if bare[:1].isdigit() and bare[1:3] == ". " else 2 if indent else 0)
        lines += textwrap.wrap(
            bare,
            width,
            initial_indent=" " * indent,
            subsequent_indent=" " * hang,
            break_long_words=False,
            break_on_hyphens=False,
        ) or [""]
    return "\n".join(lines)


def notice(text: str, *, kind: Literal["note", "error"] = "note") -> None:
    """Print a message for people to stderr."""
    with contextlib.suppress(OSError, ValueError):  # nobody is listening
        sys.stderr.write(f"{kind}: {text}\n")
        sys.stderr.flush()


@contextlib.contextmanager
def working(text: str) -> Iterator[None]:
    """Show on a terminal that something is going on; constant text, no row and no count."""
    if not _terminal(sys.stderr):
        yield
        return
    from rich.console import Console

    with Console(stderr=True, no_color=_no_colour()).status(text):
        yield


def clean(text: str) -> str:
    r"""The text without signs that steer a terminal: each is shown as its escape.

    >>> clean("a\x1b[31m\tb")
    'a\\x1b[31m\\tb'
    """
    return "".join(
        sign
        if unicodedata.category(sign) not in {"Cc", "Cf", "Cs", "Zl", "Zp"}
        else sign.encode("unicode_escape").decode("ascii")
        for sign in text
    )


def _terminal(stream: Any) -> bool:
    return bool(stream.isatty()) and os.environ.get("TERM") != "dumb"


def _no_colour() -> bool:
    return bool(os.environ.get("NO_COLOR"))


def _width(text: str) -> int:
    wide = sum(unicodedata.east_asian_width(sign) in {"W", "F"} for sign in text)
    return len(text) + wide - sum(unicodedata.combining(sign) > 0 for sign in text)


def _padded(text: str, width: int, *, left: bool) -> str:
    gap = " " * (width - _width(text))
    return text + gap if left else gap + text
