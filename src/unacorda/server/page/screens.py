"""Templates of the page, with everything that is put into them escaped."""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

from unacorda._version import __version__
from unacorda.display import escape
from unacorda.extras import require
from unacorda.privacy.guarantees import left_of
from unacorda.query.results.explanation import HEADS

require("jinja2", extra="server")

import jinja2  # noqa: E402  # after the error that names the extra
import markupsafe  # noqa: E402

_WARNINGS: Final = ((0.95, "nearly used up"), (0.8, "80 % spent"), (0.5, "half spent"))


def render(template: str, **values: Any) -> str:
    """The HTML of a template."""
    return _TEMPLATES.get_template(template).render(**values)


def _on_one_line(value: Any) -> Any:
    """Control characters of a text as their escapes; what is already HTML stays."""
    return escape(value) if type(value) is str else value


def _lines(text: str) -> markupsafe.Markup:
    """A text of several lines, each escaped; shown as lines where white space is."""
    return markupsafe.Markup("\n").join(map(escape, text.split("\n")))


def _time(seconds: float) -> str:
    return datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%d %H:%M UTC")


def _percent(share: float) -> str:
    return f"{100 * share:.3g} %"


def _warning(share: float) -> str:
    """What is said of a limit of which so much is spent; empty below a half."""
    return next((said for least, said in _WARNINGS if share >= least), "")


def _fact(fact: Any) -> str:
    """A public fact about a column, in words."""
    match fact:
        case {"kind": "bounds", "lower": lower, "upper": upper}:
            return f"{lower:g} to {upper:g}"
        case {"kind": "categories", "values": values}:
            shown = [_key(one) for one in values[:8]]
            return ", ".join(shown) + (f", … ({len(values)} values)" if len(values) > 8 else "")
        case {"kind": "dates", "first": first, "last": last} if first is not None:
            return f"{_key(first)} to {_key(last)}"
        case {"kind": kind}:
            return str(kind)
        case _:
            return ""


def _key(value: Any) -> str:
    return "NULL" if value is None else value["date"] if isinstance(value, dict) else str(value)


def _templates() -> jinja2.Environment:
    made = jinja2.Environment(
        loader=jinja2.FileSystemLoader(Path(__file__).parent / "templates"),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        finalize=_on_one_line,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    made.filters |= {
        "lines": _lines,
        "time": _time,
        "percent": _percent,
        "warning": _warning,
        "fact": _fact,
    }
    made.globals |= {"left_of": left_of, "version": __version__, "error_heads": HEADS}
    return made


_TEMPLATES: Final = _templates()
