"""What a first look at a table found: released numbers by column."""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

import dataclasses
import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

from unacorda.privacy.guarantees import Guarantee
from unacorda.query.codec import encode
from unacorda.query.release import Release
from unacorda.query.replay import SEVERAL

__all__ = ["Bar", "ColumnLook", "Description", "Kind", "Told"]

Kind = Literal["number", "date", "boolean", "category", "text", "other"]
"""As what a column is described."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Told:
    """A released number with the ends of its 95% interval, None where none is known."""

    value: float
    low: float | None = None
    high: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Bar:
    """One bar of a picture: what it is of, and how many people have such a value."""

    label: str
    count: Told


@dataclass(frozen=True, slots=True, kw_only=True)
class ColumnLook:
    """What is known of one column.

    kind: as what it was read; source: how that was known: declared, from the type of the column,
    or by a private vote. present: people who have a value. range: declared or found bounds (of
    dates as text); limits: the same as numbers; found: whether they were found privately. mean;
    quantiles: by share.
    bars: people by value, in bins of the range or by the values there are; missing: people with a
    row without a value, None where it is not known. note: for a reader.
    """

    name: str
    kind: Kind
    source: Literal["declared", "type", "vote"]
    present: Told | None = None
    range: tuple[str, str] | None = None
    limits: tuple[float, float] | None = None
    found: bool = False
    mean: Told | None = None
    quantiles: dict[str, str] = dataclasses.field(default_factory=dict)
    bars: tuple[Bar, ...] = ()
    missing: Told | None = None
    note: str = ""


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class Description:
    """A first look at a table. Everything in it may be published.

    people, rows: of the whole table, after bounding. columns: in the table's order. unit: what is
    protected. request: what was allowed; spent: what was charged; remaining: what the account
    holds afterwards. reproducible: the noise came from a seed and protects nobody. releases: every
    answer that it is made of, by what was asked. searches: by table the answers by which the
    session found, when it was opened, how many rows of a person to keep; none where that was given.
    """

    table: str
    unit: str
    people: Told
    rows: Told
    columns: tuple[ColumnLook, ...]
    request: Guarantee
    spent: Guarantee
    remaining: Guarantee
    reproducible: bool = False
    releases: Mapping[str, Release] = dataclasses.field(default_factory=dict)
    searches: Mapping[str, Release] = dataclasses.field(default_factory=dict)

    @property
    def before(self) -> Guarantee | None:
        """What the session was charged for its searches; None where there were none."""
        if not self.searches:
            return None
        return next(iter(self.searches.values())).charge  # one search of all tables, paid once

    @property
    def costs(self) -> str:
        """All that was charged, in words."""
        if self.before is None:
            return str(self.spent)
        return (
            f"{self.spent + self.before}: {self.before} to find how many rows of a person to keep, "
            f"{self.spent} for this look"
        )

    def to_dict(self) -> dict[str, Any]:
        """All of it in plain values."""
        found = {
            field.name: getattr(self, field.name)
            for field in dataclasses.fields(self)
            if field.name not in {"columns", "people", "rows", "releases", "searches"}
        }
        found |= {name: repr(found[name]) for name in ("request", "spent", "remaining")}
        found["before"] = None if self.before is None else repr(self.before)
        found |= {name: dataclasses.asdict(getattr(self, name)) for name in ("people", "rows")}
        return {**found, "columns": [dataclasses.asdict(column) for column in self.columns]}

    def to_json(self) -> str:
        """The same as JSON text, with a record of every answer, which `Release.verify` reads."""
        record = {
            "exact": {"spent": encode(self.spent), "before": encode(self.before)},
            "searches": {name: json.loads(one.to_json()) for name, one in self.searches.items()},
            "releases": {name: json.loads(one.to_json()) for name, one in self.releases.items()},
        }
        return json.dumps({"format": SEVERAL, **self.to_dict(), **record}, indent=2)

    def to_html(self) -> str:
        """A page that stands alone, with a picture of every column it has one of."""
        from unacorda.query.describing.page import page

        return page(self)

    def _repr_html_(self) -> str:
        return self.to_html()

    def __repr__(self) -> str:
        return str(self)

    def __str__(self) -> str:
        from unacorda.query.describing.text import text

        return text(self)
