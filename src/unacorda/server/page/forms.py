"""Requests and forms of the page, and their questions as JSON.

A builder's form becomes a question of `unacorda.query.plan.questions`, which checks it. The page
puts only conditions into SQL, with quoted columns and values.
"""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from typing import TYPE_CHECKING, Any, Final, Literal, TypeAlias
from urllib.parse import parse_qs

from unacorda import checks
from unacorda.errors import InvalidParameter
from unacorda.query.expressions.language import identifier
from unacorda.query.plan.questions import parse_json
from unacorda.server.problems import Problem
from unacorda.server.store import Token

if TYPE_CHECKING:
    from starlette.requests import Request
    from starlette.responses import Response

Fields: TypeAlias = Mapping[str, Sequence[str]]
Columns: TypeAlias = Mapping[str, Mapping[str, Any]]
"""By name, as `Service.describe` has them."""
Show: TypeAlias = Callable[..., "Response"]
"""The HTML of a template for a visit."""

_MOST_FIELDS: Final = 500
_MOST_KEPT: Final = 64
MOST_CONDITIONS: Final = 8
MOST_AGGREGATES: Final = 12
_NUMBER: Final = re.compile(r"[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d{1,2})?")
_STANDARD_ERRORS: Final = Fraction(196, 100)  # of half of a 95% interval, as releases have it

OPERATORS: Final = ("=", "<>", "<", "<=", ">", ">=", "is one of", "is missing", "is not missing")


@dataclass(frozen=True, slots=True, kw_only=True)
class Function:
    """An aggregate that the builder offers. takes: the arguments it has besides its column."""

    label: str
    column: bool = True
    takes: tuple[str, ...] = ()


_ENDS: Final = ("lower", "upper")
FUNCTIONS: Final[Mapping[str, Function]] = {
    "count": Function(label="number of rows", column=False),
    "count_people": Function(label="number of people", column=False),
    "sum": Function(label="sum of", takes=_ENDS),
    "mean": Function(label="mean of", takes=_ENDS),
    "median": Function(label="median of", takes=_ENDS),
    "quantile": Function(label="quantile of", takes=("q", *_ENDS)),
    "stdev": Function(label="standard deviation of", takes=_ENDS),
    "min": Function(label="least of", takes=_ENDS),
    "max": Function(label="greatest of", takes=_ENDS),
    "count_distinct": Function(label="different values of"),
}
"""By the names that questions in JSON use."""


def read_form(body: bytes) -> Fields:
    """Read the fields of a form up to a size; Problem for an invalid one."""
    try:
        text = body.decode("utf-8")
        return parse_qs(text, keep_blank_values=True, max_num_fields=_MOST_FIELDS, errors="strict")
    except ValueError:
        detail = f"Send a form in UTF-8 with at most {_MOST_FIELDS} fields."
        raise Problem("not-json", detail) from None


def first(fields: Fields, name: str, default: str = "") -> str:
    """The value of a field without spaces about it."""
    return fields.get(name, [default])[0].strip()


def named(fields: Fields, prefix: str) -> dict[str, str]:
    """The values that are not empty of all fields with a prefix, by the rest of their names."""
    found = {
        name.removeprefix(prefix): first(fields, name) for name in fields if name.startswith(prefix)
    }
    return {name: text for name, text in found.items() if text}


@dataclass(frozen=True, slots=True, kw_only=True)
class Visit:
    """A request with its sender.

    form_token: what the forms of this browser must hold; fields: of the form that was sent.
    """

    request: Request
    holder: Token
    form_token: str
    fields: Fields = field(default_factory=dict)

    @property
    def analyst(self) -> str:
        """Who asks."""
        return self.holder.analyst


@dataclass(frozen=True, slots=True, kw_only=True)
class ConditionRow:
    """A line of the builder's conditions."""

    column: str = ""
    operator: str = "="
    value: str = ""

    def expression(self, columns: Columns) -> str:
        """The condition as an expression, its column and its values quoted."""
        name = identifier(self.column)
        match self.operator:
            case "is missing":
                return f"{name} IS NULL"
            case "is not missing":
                return f"{name} IS NOT NULL"
            case "is one of":
                values = [one.strip() for one in self.value.split(",")]
                return f"{name} IN ({', '.join(self._literal(one, columns) for one in values)})"
            case _:
                return f"{name} {self.operator} {self._literal(self.value, columns)}"

    def _literal(self, value: str, columns: Columns) -> str:
        """A number where one is written, and where the column holds no texts; else a text."""
        fact = columns.get(self.column, {}).get("fact") or {}
        listed = fact.get("kind") == "categories" and str in map(type, fact["values"])
        texts = listed or fact.get("kind") in ("dates", "text")
        if value.lower() in ("true", "false"):
            return value.upper()
        if not texts and _NUMBER.fullmatch(value):
            return value
        quoted = value.replace("'", "''")
        return f"'{quoted}'"


@dataclass(frozen=True, slots=True, kw_only=True)
class AggregateRow:
    """A line of the builder's answers."""

    function: str = ""
    column: str = ""
    q: str = ""
    lower: str = ""
    upper: str = ""
    name: str = ""

    @property
    def label(self) -> str:
        """What the answer is called."""
        if self.name:
            return self.name
        known = FUNCTIONS.get(self.function)
        return f"{self.function}_{self.column}" if known and known.column else self.function

    @staticmethod
    def of(name: str, stated: Mapping[str, Any]) -> AggregateRow | None:
        """The line of an aggregate of a question in JSON; None if the builder has none.

        Its column is shown as in the question, without quotes.
        """
        ((function, given),) = stated.items()
        known = FUNCTIONS.get(function)
        fields = () if known is None else (*(("column",) if known.column else ()), *known.takes)
        if known is None or not set(given) <= set(fields):
            return None
        column = str(given.get("column", ""))
        if column.startswith('"') and column.endswith('"'):
            column = column[1:-1].replace('""', '"')
        elif known.column and not column.isidentifier():  # an expression
            return None
        parts = {part: str(given[part]) for part in ("q", *_ENDS) if part in given}
        return AggregateRow(function=function, column=column, name=name, **parts)

    def stated(self) -> dict[str, Any]:
        """The aggregate as a question in JSON has it."""
        known = FUNCTIONS[self.function]
        given: dict[str, Any] = {"column": identifier(self.column)} if known.column else {}
        for name in known.takes:
            value = getattr(self, name)
            given |= {name: value} if value else {}
        return {self.function: given}


@dataclass(frozen=True, slots=True, kw_only=True)
class Kept:
    """A part of an earlier question that the builder has no field for: kept or left out.

    part: "step", "aggregate", "keys", "margins" or "level_weights"; name: of an aggregate.

    >>> one = Kept(part="step", value={"join": "counties", "on": "county"})
    >>> one.words, Kept.read(one.text) == one
    ('join "counties", on "county"', True)
    """

    part: str
    name: str = ""
    value: Any

    @property
    def text(self) -> str:
        """It as a field of the form."""
        return json.dumps([self.part, self.name, self.value], default=str)

    @staticmethod
    def read(text: str) -> Kept:
        """Read a field of the form; Problem for an invalid text."""
        try:
            found = parse_json(text)
        except InvalidParameter:
            found = None
        match found:
            case [str(part), str(name), value] if part in _KEPT:
                return Kept(part=part, name=name, value=value)
            case _:
                raise Problem("refused", "What was kept of the older question cannot be read.")

    @property
    def words(self) -> str:
        """It on one line, for people."""
        texts = {
            n: json.dumps(v, ensure_ascii=False, default=str) for n, v in self._members.items()
        }
        said = ", ".join(f"{name} {text}" for name, text in texts.items())
        return {"step": "", "aggregate": f"{self.name}: "}.get(self.part, "") + said

    @property
    def _members(self) -> Mapping[str, Any]:
        if self.part in ("step", "aggregate") and isinstance(self.value, Mapping):
            return self.value
        return {self.part.replace("_", " "): self.value}


_KEPT: Final = ("step", "aggregate", "keys", "margins", "level_weights")


@dataclass(frozen=True, slots=True, kw_only=True)
class Draft:
    """What the form of a question holds.

    kept: parts of an earlier question that the builder has no field for. where: a further
    condition, as an expression. within: the target half-width of 95% intervals, for all answers or,
    in `wishes`, for one by name. rows: the assumed number of rows in a group. budget: texts by the
    names of its numbers.
    """

    mode: Literal["build", "sql"] = "build"
    sql: str = ""
    table: str = ""
    conditions: tuple[ConditionRow, ...] = ()
    where: str = ""
    groups: tuple[str, ...] = ()
    private_keys: bool = False
    aggregates: tuple[AggregateRow, ...] = (AggregateRow(function="count"),)
    budget: Mapping[str, str]
    within: str = ""
    wishes: Mapping[str, str]
    rows: str = ""
    purpose: str = ""
    fresh: bool = False
    kept: tuple[Kept, ...] = ()

    @staticmethod
    def of(fields: Fields, numbers: Sequence[str]) -> Draft:
        """The draft in the fields of a form; numbers: the names of a budget's."""
        return Draft(
            mode="sql" if first(fields, "mode") == "sql" else "build",
            sql=fields.get("sql", [""])[0].replace("\r\n", "\n"),
            table=first(fields, "table"),
            conditions=tuple(
                ConditionRow(
                    column=row["column"],
                    operator=row["operator"] if row["operator"] in OPERATORS else "=",
                    value=row["value"],
                )
                for row in _lines(fields, "where", ("column", "operator", "value"), MOST_CONDITIONS)
            ),
            where=first(fields, "where"),
            groups=tuple(dict.fromkeys(fields.get("group", ()))),
            private_keys="private_keys" in fields,
            aggregates=tuple(
                AggregateRow(**row)
                for row in _lines(
                    fields,
                    "answer",
                    ("function", "column", "q", "lower", "upper", "name"),
                    MOST_AGGREGATES,
                )
            ),
            budget={name: first(fields, f"budget.{name}") for name in numbers},
            within=first(fields, "within"),
            wishes=named(fields, "within:"),
            rows=first(fields, "rows"),
            purpose=first(fields, "purpose"),
            fresh="fresh" in fields,
            kept=tuple(map(Kept.read, fields.get("kept", ())[:_MOST_KEPT])),
        )

    def question(self, tables: Mapping[str, Columns]) -> dict[str, Any]:
        """The question as a body of JSON has it: `sql`, or `question`."""
        if self.mode == "sql":
            if not self.sql.strip():
                raise Problem("refused", "Write a SELECT.")
            return {"sql": self.sql}
        columns = tables.get(self.table, {})
        steps = [one.value for one in self.kept if one.part == "step"]
        steps += [{"where": one.expression(columns)} for one in self.conditions if one.column]
        steps += [{"where": self.where}] if self.where else []
        aggregates: dict[str, Any] = {}
        for one in self.aggregates:
            if one.function not in FUNCTIONS:
                continue
            if FUNCTIONS[one.function].column and not one.column:
                raise Problem("refused", f"Choose a column for {one.label.rstrip('_')!r}.")
            if one.label in aggregates:
                raise Problem("refused", f"Two answers are called {one.label!r}. Name one of them.")
            aggregates[one.label] = one.stated()
        for kept in self.kept:
            if kept.part == "aggregate" and kept.name in aggregates:
                raise Problem("refused", f"Two answers are called {kept.name!r}. Name one of them.")
            if kept.part == "aggregate":
                aggregates[kept.name] = kept.value
        if not aggregates:
            raise Problem("refused", "Choose at least one answer.")
        found: dict[str, Any] = {"table": self.table, "steps": steps, "aggregates": aggregates}
        if self.groups:
            found["group_by"] = list(self.groups)
            if self.private_keys:
                found["keys"] = {"private_keys": {}}
            rest = {one.part: one.value for one in self.kept}
            found |= {name: rest[name] for name in _KEPT[2:] if name in rest}
        return {"question": found}

    def assumptions(self) -> dict[str, Any]:
        """The assumptions about the data, as in a JSON body."""
        if not self.rows:
            return {}
        digits = self.rows.replace(",", "")
        if not digits.isdecimal() or len(digits) > 12:
            raise Problem("refused", "Rows in a group are a whole number, such as 1000.")
        return {"assuming": {"rows": int(digits)}}

    def body(self, tables: Mapping[str, Columns]) -> dict[str, Any]:
        """The question with its budget, as in a JSON body."""
        budget = {name: text for name, text in self.budget.items() if text}
        return {**self.question(tables), "budget": budget, **self.assumptions()}

    def errors(self, names: Sequence[str]) -> dict[str, str]:
        """The target standard errors of these answers, as exact texts."""
        stated = {name: self.wishes.get(name, self.within) for name in names}
        missing = [name for name, text in stated.items() if not text]
        if missing:
            detail = f"Say how near {', '.join(missing)} must be, such as 50."
            raise Problem("refused", detail)
        return {name: str(_half(text) / _STANDARD_ERRORS) for name, text in stated.items()}


def _half(text: str) -> Fraction:
    try:
        found = checks.exact("within", text.replace(",", ""))
    except InvalidParameter:
        found = Fraction(0)
    if found <= 0:
        detail = f"How near an answer must be is a number above 0, such as 50; got {text[:40]!r}."
        raise Problem("refused", detail)
    return found


def _lines(fields: Fields, name: str, parts: Sequence[str], most: int) -> Iterator[dict[str, str]]:
    """The lines of a part of the form that has several, in order."""
    for number in range(most):
        stated = {part: first(fields, f"{name}{number}.{part}") for part in parts}
        stated["column"] = fields.get(f"{name}{number}.column", [""])[0]  # spaces and all
        if any(f"{name}{number}.{part}" in fields for part in parts):
            yield stated
