"""A release as its file states it, and the file with one place changed."""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

import copy
import datetime as dt
import json
from collections.abc import Iterator
from typing import Any

import polars as pl
from tests.support.seams import Fact, Release, Session, Verification, open_ledger

import unacorda
from unacorda.privacy.guarantees import Guarantee

FRAME = pl.DataFrame(
    {
        "id": [i // 2 for i in range(400)],
        "age": [i % 90 for i in range(400)],
        "score": [f"{i / 7}" for i in range(400)],
        "county": ["A", "B", "C", None] * 100,
        "born": [dt.date(1950 + i % 2, 1, 1) for i in range(400)],
        "unused": [None] * 400,
    }
)
COLUMNS: dict[str, Fact] = {
    "age": unacorda.Bounds(0, 120),
    "county": unacorda.Categories(["A", "B", None]),
}


def session_of(budget: Guarantee, **options: Any) -> Session:
    options = {"unit": unacorda.Person("id", max_rows=2), "bits": unacorda.SeededBits(7), **options}
    return Session({"t": FRAME}, budget=budget, columns=COLUMNS, **options)


def released(budget: Guarantee, request: Guarantee | None = None, **options: Any) -> Release:
    with session_of(budget, **options) as session:
        query = (
            session.table("t")
            .where("age >= 18 OR score > 3")
            .derive(double="age * 2")
            .group_by("county", "born", keys={"born": [dt.date(1950, 1, 1)]})
            .agg(
                n=unacorda.count(),
                mean=unacorda.mean("age", weight="1/3"),
                total=unacorda.sum("score"),
                twice=unacorda.sum("double", 0, 240),
                p50=unacorda.median("age", resolution=10, interval=0.5),
                most=unacorda.max("double", 0, 240),
                found=unacorda.find_bounds("score"),
            )
        )
        return session.evaluate(query, budget=budget if request is None else request)


def differing(found: Verification) -> list[str]:
    return [check.name for check in found.checks if check.outcome == "differs"]


LEDGER = open_ledger(None)
STATED = json.loads(
    released(unacorda.ZCDP(1, 1e-6), unacorda.ZCDP("0.3"), ledger=LEDGER, dataset="d").to_json()
)


def leaves(value: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """The places of all single values, and of all objects and lists."""
    if path:
        yield path
    for name, part in value.items() if isinstance(value, dict) else enumerate(value):
        if isinstance(part, dict | list):
            yield from leaves(part, (*path, name))
        else:
            yield (*path, name)


def changed(path: tuple[Any, ...], change: Any) -> str:
    """The file with one place changed; change: from the old value to the new."""
    stated = copy.deepcopy(STATED)
    part = stated
    for name in path[:-1]:
        part = part[name]
    part[path[-1]] = change(part[path[-1]])
    return json.dumps(stated)
