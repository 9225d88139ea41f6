"""Texts for people: escaped texts, tables, HTML, and numbers with the digits that intervals leave.

Every text is data: control characters are shown as escapes, and HTML is escaped.
"""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

import html
import math
import unicodedata
from collections.abc import Iterable, Sequence
from typing import Any

_STYLE = """
:root { color-scheme: light dark; --ink: #1c2430; --soft: #5b6675; --line: #d8dde4;
  --paper: #ffffff; --bar: #3b6fb6; }
@media (prefers-color-scheme: dark) { :root { --ink: #e8ecf1; --soft: #a3adba; --line: #39424e;
  --paper: #161b22; --bar: #6c9fe0; } }
body { margin: 2rem auto; max-width: 60rem; padding: 0 1rem; color: var(--ink);
  background: var(--paper); font: 16px/1.5 system-ui, sans-serif; }
.soft { color: var(--soft); } section { border-top: 1px solid var(--line); padding: 1rem 0; }
table { border-collapse: collapse; } td, th { text-align: left; } th { font-weight: 600; }
"""

NOTHING = "no usable answer"
"""What is shown of an answer where the noise leaves everything possible."""


def escape(text: str) -> str:
    r"""The text on one line, without characters that steer a terminal: each is shown as its escape.

    >>> escape("a\x1b[31m\tb\nspent nothing")
    'a\\x1b[31m\\tb\\nspent nothing'
    """
    return "".join(
        character
        if unicodedata.category(character) not in {"Cc", "Cf", "Cs", "Zl", "Zp"}
        else character.encode("unicode_escape").decode("ascii")
        for character in text
    )


def text(value: object) -> str:
    """Escape a text for HTML, and the control characters in it.

    >>> text("<b>a & b</b>")
    '&lt;b&gt;a &amp; b&lt;/b&gt;'
    """
    return html.escape(escape(str(value)))


def page(title: str, parts: Iterable[str], *, style: str) -> str:
    """Write a page that needs no other file. parts: HTML below its title; style: more CSS."""
    return (
        '<!doctype html>\n<html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        f"<title>{text(title)}</title><style>{_STYLE}{style}</style></head><body>"
        f"<h1>{text(title)}</h1>{''.join(parts)}</body></html>\n"
    )


def heading(value: object) -> str:
    """Write a heading."""
    return f"<h4>{text(value)}</h4>"


def paragraph(value: object) -> str:
    """Write a paragraph."""
    return f"<p>{text(value)}</p>"


def preformatted(value: str) -> str:
    """Write lines as they stand."""
    return f"<pre>{'<br>'.join(map(text, value.splitlines()))}</pre>"


def facts(pairs: Iterable[tuple[str, object]]) -> str:
    """Write a table of names and values.

    >>> facts([("left", "epsilon 1")])
    '<table><tr><th scope="row">left</th><td>epsilon 1</td></tr></table>'
    """
    return f"<table>{_lines(pairs, named=True)}</table>"


def section(title: str, *parts: str) -> str:
    """Write a part of a page. title, parts: HTML."""
    return f"<section><h2>{title}</h2>{''.join(parts)}</section>"


def table(heads: Sequence[str], rows: Iterable[Sequence[object]], *, named: bool = False) -> str:
    """Write a table with a line of heads. named: whether a row begins with its name.

    >>> table(["n"], [["1 < 2"]])
    '<table><thead><tr><th>n</th></tr></thead><tbody><tr><td>1 &lt; 2</td></tr></tbody></table>'
    """
    head = "".join(f"<th>{text(one)}</th>" for one in heads)
    body = _lines(rows, named=named)
    return f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"


def _lines(rows: Iterable[Sequence[object]], *, named: bool) -> str:
    forms = ('<th scope="row">{}</th>' if named else "<td>{}</td>", "<td>{}</td>")
    cells = (
        "".join(forms[place > 0].format(text(cell)) for place, cell in enumerate(row))
        for row in rows
    )
    return "".join(f"<tr>{line}</tr>" for line in cells)


def aligned(rows: Iterable[Sequence[str]], *, left: int = 0) -> list[str]:
    """The rows of a table as lines, with its first columns to the left and others to the right.

    left: how many are to the left.

    >>> aligned([("", "n"), ("women", "8")], left=1)
    ['       n', 'women  8']
    """
    lines = list(rows)
    widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
    sides = ["<"] * left + [">"] * (len(widths) - left)
    forms = [f"{side}{width}" for side, width in zip(sides, widths, strict=True)]
    return ["  ".join(map(format, line, forms)) for line in lines]


_SMALL = 1e-4  # where digits behind the point are more than a reader wants to count


def estimate(value: Any, lower: float | None, upper: float | None) -> str:
    """Write an estimate with its interval, rounded to the digits that the interval leaves.

    >>> estimate(23376.84, 20609.2, 26144.5), estimate(5.616, 0.58, 10.65), estimate(12.0, 5, 40)
    ('23,377 ± 2,768', '5.6 ± 5.0', '12 (5 to 40)')
    >>> estimate(229, 220.0, 238.0), estimate(-0.3, -12.4, 11.8), estimate(0.25, None, 0.5)
    ('229 ± 9', '0 ± 12', '0.25 (at most 0.5)')
    >>> estimate(6.2e-8, -1.5e-8, 1.39e-7)
    '6.2e-08 ± 7.7e-08'
    >>> estimate(1e-9, 9.98e-10, 1e-9)
    '1e-09 (9.98e-10 to 1e-09)'
    """
    if value is None or lower is None or upper is None:
        end = "" if upper is None or value is None else f" (at most {number(upper)})"
        return f"{number(value)}{end}"
    below, above = value - lower, upper - value
    margin = max(below, above)
    even = abs(below - above) <= 0.05 * margin
    if not 0 < margin < math.inf:
        ends = f"± {number(margin)}" if even else f"({number(lower)} to {number(upper)})"
        return f"{number(value)} {ends}"
    digits = min(max(0, 1 - math.floor(math.log10(margin))), 15)
    form = f"z,.{0 if isinstance(value, int) else digits}f"
    if abs(value) < _SMALL and margin < _SMALL:
        largest = max(abs(value), abs(lower), abs(upper))
        apart = min(max(2 + math.floor(math.log10(largest / margin)), 2), 15)
        form = ".2g" if even else f".{apart}g"
    if even:
        return f"{float(value):{form}} ± {float(margin):{form}}"
    return f"{float(value):{form}} ({float(lower):{form}} to {float(upper):{form}})"


def number(value: Any) -> str:
    """Write a value of a cell; of a number at least four digits where it has as many.

    >>> number(None), number(True), number(2024), number(0.123456), number(12345.6)
    ('NULL', 'true', '2024', '0.1235', '12,346')
    """
    match value:
        case None:
            return "NULL"
        case bool():
            return str(value).lower()
        case float() if not math.isfinite(value):
            return str(value)
        case float() if value == round(value) or abs(value) >= 10_000:
            return f"{value:z,.0f}" if abs(value) < 1e15 else f"{value:.4g}"
        case float():
            return f"{value:,.4g}" if abs(value) < 1000 else f"{value:,.1f}"
        case _:
            return str(value)


def counted(number: int, what: str) -> str:
    """Write a number of things.

    >>> counted(1, "row"), counted(1_000, "row")
    ('1 row', '1,000 rows')
    """
    return f"{number:,} {what}{'' if number == 1 else 's'}"
