"""Tables as text, and HTML of tables and facts, where every text is data and is escaped."""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

import html
from collections.abc import Iterable, Sequence

from unacorda.query.expressions.quoting import escape

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
    lines = (
        f'<tr><th scope="row">{text(name)}</th><td>{text(value)}</td></tr>' for name, value in pairs
    )
    return f"<table>{''.join(lines)}</table>"


def table(heads: Sequence[str], rows: Iterable[Sequence[object]]) -> str:
    """Write a table with a line of heads.

    >>> table(["n"], [["1 < 2"]])
    '<table><thead><tr><th>n</th></tr></thead><tbody><tr><td>1 &lt; 2</td></tr></tbody></table>'
    """
    head = "".join(f"<th>{text(one)}</th>" for one in heads)
    body = "".join(f"<tr>{''.join(f'<td>{text(cell)}</td>' for cell in row)}</tr>" for row in rows)
    return f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"


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
