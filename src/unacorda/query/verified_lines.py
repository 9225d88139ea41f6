"""Whether the lines of a release are those of its question: keys, columns, standard errors."""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

import json
import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

from unacorda.query.aggregates.consistent import Consistent
from unacorda.query.aggregates.margins import Margins
from unacorda.query.allocation import Allocation
from unacorda.query.plan.query import Query, answer_columns
from unacorda.query.replay import Stated

__all__ = ["Check", "check_errors", "check_rows", "differs", "ok"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Check:
    """One line of a report. outcome: `noted` is no fault, and only said; detail: how it differs."""

    name: str
    outcome: Literal["ok", "differs", "noted"]
    detail: str


def ok(name: str, detail: str) -> Check:
    """What was made again is what is stated."""
    return Check(name=name, outcome="ok", detail=detail)


def differs(name: str, detail: str) -> Check:
    """Something else is stated; detail: how it differs."""
    return Check(name=name, outcome="differs", detail=detail)


def check_rows(stated: Stated, query: Query) -> Check:
    """That the rows answer this question: the columns of its aggregates, for its keys alone."""
    columns = [list(row) for row in stated.rows]
    if any(names != columns[0] for names in columns):
        return differs("rows", "they differ in their columns")
    groups = len(query.released_groups)
    if columns and len(columns[0]) < groups:
        return differs("rows", "they have not the columns of its groups")
    keys = _keys(stated, query)
    if query.private is not None and query.margins is not None:
        lines = len(_over_found(query, keys).released_keys)
        strangers = [_key(key) for key in keys if not _at_a_level(query, key)]
    else:
        known = {_key(key) for key in query.released_keys}
        private = {_key(_some(query, key, private=True)) for key in keys}
        lines = len(known) * query.lines * (1 if query.private is None else len(private))
        public = [_key(_some(query, key, private=False)) for key in keys]
        strangers = [key for key in public if key not in known]
    strangers += [key for key, times in Counter(map(_key, keys)).items() if times > query.lines]
    if strangers:
        return differs("rows", f"no key of the question, or one too often: {strangers[0]}")
    answers = columns[0][groups:] if columns else []
    own = [answer_columns(name, a.parts) for name, a in query.aggregates.items()]
    own += [answer_columns(name) for name in stated.computed]
    strange = [name for name in answers if not any(name in names for names in own)]
    missing = [n for n, a in query.aggregates.items() for p in a.parts if f"{n}{p}" not in answers]
    if strange or (missing and columns):
        return differs("rows", f"no answers of the question, or not all: {strange or missing}")
    if len(stated.rows) > lines:  # sums over keys that are not there
        said = f"{len(stated.rows):,} rows of more, every aggregate"
    else:
        said = f"{len(stated.rows):,} of {lines:,} rows, every aggregate"
    if len(stated.rows) != lines:
        said += "; the others were left out after the answer, by HAVING, LIMIT or by hand"
        return Check(name="rows", outcome="noted", detail=said)
    return ok("rows", said)


def _keys(stated: Stated, query: Query) -> list[list[Any]]:
    """What each line is about."""
    groups = len(query.released_groups)
    return [list(row.values())[:groups] for row in stated.rows]


def _over_found(query: Query, keys: Sequence[Sequence[Any]]) -> Query:
    """The question over those keys of its finest level whose public parts are its own."""
    finest = ", ".join(group.label for group in query.groups)
    public = {_key(key) for key in query.keys}
    found = [tuple(key[1:]) for key in keys if key[0] == finest]
    return query.with_keys(
        tuple(key for key in found if _key(_some(query, key, private=False)) in public)
    )


def _at_a_level(query: Query, key: Sequence[object]) -> bool:
    """Whether a line with margins has the columns of its level, the public parts of which exist."""
    if key[0] not in query.levels:
        return False
    labels = [group.label for group in query.groups]
    levels = Margins(kind=query.margins or "rollup", keys=(), width=len(labels)).levels
    level = levels[query.levels.index(str(key[0]))]
    if any(part is not None for at, part in enumerate(key[1:]) if at not in level):
        return False
    public = [at for at, group in enumerate(query.groups) if not group.private]
    shown = [place for place, at in enumerate(public) if at in level]
    known = {_key([parts[place] for place in shown]) for parts in query.keys}
    return _key([key[1 + public[place]] for place in shown]) in known


def _some(query: Query, key: Sequence[object], *, private: bool) -> list[object]:
    """The parts of a key that are private, or the others."""
    if query.private is None:
        return [] if private else list(key)
    return [part for part, group in zip(key, query.groups, strict=True) if group.private is private]


def check_errors(stated: Stated, query: Query, allocation: Allocation) -> Check:
    """That standard errors which the noise alone determines are those of this noise."""
    checked, unknown = [], []
    keys = _keys(stated, query)
    for name, aggregate in query.aggregates.items():
        noise: Any = allocation.noises[name]  # made by this very aggregate
        if isinstance(aggregate, Consistent):
            errors = _by_line(query, name, stated, keys, noise)
            if errors is None:
                unknown.append(name)
                continue
        else:
            error = aggregate.forecast(noise, allocation.reach, None).standard_error
            if error is None or aggregate.parts != ("",):
                continue
            errors = [error] * len(keys)
        checked.append(name)
        for row, key, error in zip(stated.rows, keys, errors, strict=True):
            if row.get(f"{name}_se") != error:
                where = f" of {_key(key)}" if key else ""
                said = f"{name}_se{where} is not {error!r}, the standard error of its noise"
                return differs("errors", said)
    listed = ", ".join(checked) or "none is fixed by the noise alone"
    if unknown:
        said = (
            f"standard errors of the noise: {listed}; those of {', '.join(unknown)} follow from "
            "all keys that were found, of which lines were left out or altered"
        )
        return Check(name="errors", outcome="noted", detail=said)
    return ok("errors", f"standard errors of the noise: {listed}")


def _by_line(
    query: Query, name: str, stated: Stated, keys: Sequence[Sequence[Any]], noise: Any
) -> list[float] | None:
    """Standard errors of tables that add up; None where some of the found keys are not there."""
    if any(len(key) < len(query.released_groups) for key in keys):
        return None
    if query.private is not None:
        query = _over_found(query, keys)
        finest = query.levels[-1]
        values = [row.get(name) for row in stated.rows]
        parts = [value for value, key in zip(values, keys, strict=True) if key[0] == finest]
        totals = [value for value, key in zip(values, keys, strict=True) if key[0] == "all"]
        if len(keys) != len(query.released_keys) or not _add_up(parts, totals):
            return None
    aggregate = query.aggregates[name]
    assert isinstance(aggregate, Consistent)
    if not query.keys:
        return []
    errors = aggregate.standard_errors(noise)
    known = dict(zip(map(_key, query.released_keys), errors, strict=True))
    found = [known.get(_key(key)) for key in keys]
    return None if None in found else [error for error in found if error is not None]


def _add_up(parts: Sequence[object], totals: Sequence[object]) -> bool:
    """Whether the finest numbers are all there: without one of them they miss the total."""
    numbers = [part for part in parts if isinstance(part, int | float)]
    if len(numbers) < len(parts) or not parts:
        return not parts and not totals
    whole = math.fsum(numbers)
    size = math.fsum(map(abs, numbers))
    return all(
        isinstance(total, int | float) and abs(total - whole) <= 1e-9 * size + 1e-9
        for total in totals
    )


def _key(parts: object) -> str:
    return json.dumps(parts, default=str)
