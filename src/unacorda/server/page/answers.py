"""Stored releases as tables for people and as CSV."""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

import csv
import io
import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from unacorda.display import estimate, number
from unacorda.server.page.charts import IntervalChart, interval_chart
from unacorda.server.problems import Problem

_ENDS: Final = ("_se", "_low", "_high")
_FORMULAS: Final = ("=", "+", "-", "@", "\t", "\r")


@dataclass(frozen=True, slots=True, kw_only=True)
class AnswerTable:
    """A release for people.

    heads, rows: of its table, values with the half-widths of their intervals; left: the number of
    leading columns without numbers. charts: one for each answer. about: how it was computed,
    sentence by sentence.
    """

    heads: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    left: int
    charts: tuple[IntervalChart, ...]
    about: tuple[str, ...]
    cost: str


def answer_tables(release: str, *, clamped: str | None = None) -> dict[str, AnswerTable]:
    """The tables of a stored release, by name for a batch.

    clamped: rows to show in place of the released ones, as the store has them.
    """
    stated = json.loads(release)
    several = stated.get("releases", {"": stated})
    rows = {} if clamped is None else json.loads(clamped)
    return {
        name: _table({**one, "rows": rows.get(name, one["rows"])}) for name, one in several.items()
    }


def _table(stated: Mapping[str, Any]) -> AnswerTable:
    rows: list[dict[str, Any]] = stated["rows"]
    columns = list(rows[0]) if rows else []
    answers = [name for name in columns if all(f"{name}{end}" in columns for end in _ENDS)]
    errors = {f"{name}{end}" for name in answers for end in _ENDS}
    heads = [name for name in columns if name not in errors]
    groups = [name for name in heads if name not in answers]
    labels = [", ".join(number(row[name]) for name in groups) for row in rows]
    charts = (
        interval_chart(
            name,
            [label or name for label in labels],
            [(row[name], row[f"{name}_low"], row[f"{name}_high"]) for row in rows],
        )
        for name in answers
    )
    return AnswerTable(
        heads=tuple(heads),
        rows=tuple(tuple(_cell(row, name, name in answers) for name in heads) for row in rows),
        left=next((n for n, name in enumerate(heads) if name not in groups), len(heads)),
        charts=tuple(one for one in charts if one is not None),
        about=tuple(stated["provenance"]),
        cost=stated["spent"],
    )


def _cell(row: Mapping[str, Any], name: str, is_answer: bool) -> str:  # noqa: FBT001
    value = row[name]
    if is_answer and isinstance(value, int | float) and not isinstance(value, bool):
        return estimate(value, row[f"{name}_low"], row[f"{name}_high"])
    return number(value)


def answer_csv(release: str, *, spreadsheet: bool) -> str:
    """The rows of a stored release as CSV.

    spreadsheet: prefix texts that a spreadsheet would run as formulas with an apostrophe.
    """
    stated = json.loads(release)
    if "rows" not in stated:
        raise Problem("refused", "These are several tables: take the record, which is JSON.")
    rows: list[dict[str, Any]] = stated["rows"]
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\r\n")
    if rows:
        lines = [list(rows[0]), *(list(row.values()) for row in rows)]
        writer.writerows([_plain(one, spreadsheet=spreadsheet) for one in line] for line in lines)
    return text.getvalue()


def _plain(value: Any, *, spreadsheet: bool) -> Any:
    if isinstance(value, bool):
        return str(value).lower()
    if spreadsheet and isinstance(value, str) and value.startswith(_FORMULAS):
        return f"'{value}"
    return value
