"""What a reader sees: tables, wrapped text, notes and progress; colour on a terminal only."""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

import contextlib
import decimal
import json
import os
import sys
import textwrap
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, Literal

from unacorda.display import escape

if TYPE_CHECKING:
    from rich.console import Console

_WIDEST = 100


def print_table(
    heads: Iterable[str],
    rows: Iterable[Iterable[object]],
    *,
    left: int = 0,
    repeated: int = 0,
    words: int = 0,
) -> None:
    """Print a table: with colour on a terminal, plain anywhere else; no cell is cut.

    left: how many of the first columns are aligned to the left; words: how many of the last. On a
    terminal that is too narrow it comes in blocks, one below the other, of which each has the first
    `repeated` columns.
    """
    from rich.cells import cell_len

    lines = [[escape(str(cell)) for cell in row] for row in (heads, *rows)]
    widths = [max(map(cell_len, column)) for column in zip(*lines, strict=True)]
    to_left = [n < left or n >= len(widths) - words for n in range(len(widths))]
    if not _terminal(sys.stdout):
        for cells in lines:
            gaps = [" " * (most - cell_len(cell)) for most, cell in zip(widths, cells, strict=True)]
            parts = zip(to_left, cells, gaps, strict=True)
            raw("  ".join(t + gap if first else gap + t for first, t, gap in parts).rstrip())
        return
    from rich.table import Table
    from rich.text import Text

    width = _columns(sys.stdout)
    for number, block in enumerate(table_blocks(widths, width, repeated=repeated)):
        if number:
            raw()
        drawn = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style="bold")
        for place in block:
            drawn.add_column(
                Text(lines[0][place]),
                justify="left" if to_left[place] else "right",
                style="cyan" if place < left else "",
                no_wrap=True,
            )
        for cells in lines[1:]:
            drawn.add_row(*(Text(cells[place]) for place in block))
        # Where a column is wider than the terminal, its lines go on below.
        _console(width=max(width, _across(widths, block) + 2)).print(drawn, soft_wrap=True)


def table_blocks(widths: Sequence[int], width: int, *, repeated: int) -> list[list[int]]:
    """The columns of tables of at most this width, by number: the repeated and some others.

    A table is wider only where one column in addition to the repeated ones is.
    """
    blocks: list[list[int]] = []
    for place in range(repeated, len(widths)):
        if blocks and _across(widths, [*blocks[-1], place]) <= width:
            blocks[-1].append(place)
        else:
            blocks.append([*range(repeated), place])
    return blocks or [list(range(repeated))]


def rounded(value: float, *, up: bool, digits: int = 10) -> str:
    """A number with so many digits, rounded up or down, never across what it bounds.

    >>> rounded(1 / 3, up=True), rounded(1 / 3, up=False), rounded(20.0, up=True)
    ('0.3333333334', '0.3333333333', '20')
    """
    direction = decimal.ROUND_CEILING if up else decimal.ROUND_FLOOR
    with decimal.localcontext(prec=digits, rounding=direction):
        return plain(+decimal.Decimal(value))


def plain(value: float | decimal.Decimal) -> str:
    """A number without zeros that say nothing.

    >>> plain(0.00001), plain(8.0), plain(decimal.Decimal("1.500"))
    ('1e-5', '8', '1.5')
    """
    exact = value if isinstance(value, decimal.Decimal) else decimal.Decimal(repr(value))
    if exact == exact.to_integral_value() and abs(exact) < 10**15:
        return f"{exact:.0f}"
    short = exact.normalize()
    return f"{short:f}" if 1e-4 <= abs(exact) < 10**15 else f"{short:e}".replace("e+", "e")


def heading(text: str) -> None:
    """Print a heading."""
    text = escape(text)
    if not _terminal(sys.stdout):
        raw(f"{text}\n{'-' * len(text)}")
        return
    from rich.text import Text

    _console().print(Text(text, style="bold"))


def raw(text: str = "") -> None:
    """Print a text unchanged: JSON, or one without names from users."""
    sys.stdout.write(f"{text}\n")


def line(text: str) -> None:
    """Print a text on one line."""
    raw(escape(text))


def lines(value: object) -> None:
    """Print the lines of a value's text."""
    for text in str(value).split("\n"):  # other line ends are shown as their escapes
        line(text)


def paragraph(text: str) -> None:
    """Print a text in whole words."""
    raw(wrapped(escape(text)))


def as_json(value: object, *, strict: bool = False) -> None:
    """Print plain values as JSON; strict: refuse infinities, which JSON has not."""
    raw(json.dumps(value, indent=2, default=repr, allow_nan=not strict))


def print_facts(*facts: tuple[str, str | None]) -> None:
    """Print a line for each fact that there is, under its name."""
    for name, text in facts:
        if text is not None:
            line(f"{name + ':':10}{text}")


def wrapped(text: str, *, width: int | None = None) -> str:
    """Each line of a text in lines of at most `width` signs, indented as it was.

    >>> print(wrapped("  1. one two three", width=12))
      1. one two
         three
    """
    width = width or min(_columns(sys.stdout), _WIDEST) - 1
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


def notice(
    text: str, *, kind: Literal["note", "error"] = "note", drawing: Iterable[str] = ()
) -> None:
    """Print a message for people to stderr: one line, which a terminal gets in whole words.

    drawing: lines below it, which stay as they are.
    """
    text = f"{kind}: {escape(text)}"
    with contextlib.suppress(OSError, ValueError):  # no one is listening
        if _terminal(sys.stderr):
            text = wrapped(text, width=min(_columns(sys.stderr), _WIDEST) - 1)
        sys.stderr.write("".join(f"{one}\n" for one in (text, *map(escape, drawing))))
        sys.stderr.flush()


@contextlib.contextmanager
def working(text: str, *, quiet: bool = False) -> Iterator[None]:
    """Show on a terminal that something is going on; constant text, no row and no count."""
    if quiet or not _terminal(sys.stderr):
        yield
        return
    with _console(stderr=True).status(text):
        yield


@contextlib.contextmanager
def progress(text: str) -> Iterator[Callable[[int, int], None]]:
    """Show a bar on a terminal; yields what to tell (steps done, steps in all)."""
    if not _terminal(sys.stderr):
        yield lambda _done, _whole: None
        return
    from rich.progress import Progress

    with Progress(console=_console(stderr=True), transient=True) as bar:
        task = bar.add_task(text)

        def advance(done: int, whole: int) -> None:
            bar.update(task, completed=done, total=whole)

        yield advance


def _console(**options: Any) -> Console:
    from rich.console import Console

    return Console(no_color=bool(os.environ.get("NO_COLOR")), highlight=False, **options)


def _terminal(stream: Any) -> bool:
    return bool(stream.isatty()) and os.environ.get("TERM") != "dumb"


def _columns(stream: Any) -> int:
    """The width of a terminal; 80 where there is none."""
    with contextlib.suppress(OSError, ValueError, AttributeError):
        said = os.environ.get("COLUMNS", "")
        known = int(said) if said.isdigit() else 0
        return known or os.get_terminal_size(stream.fileno()).columns or 80
    return 80


def _across(widths: Sequence[int], places: Sequence[int]) -> int:
    """The width of a row of some columns, with two blanks between them."""
    return sum(widths[place] for place in places) + 2 * (len(places) - 1)
