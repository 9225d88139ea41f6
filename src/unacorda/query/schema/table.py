"""The columns of a table, their types and public facts, and the ids of its people.

A type is public, or the column is text. A column of a typed source has one reading, of its own
type. A column of a text source (CSV, object columns of data frames) has the type that `columns=`
declares. Without a declaration it has several readings, one for each type that its use may need:
text, number, date, boolean, instant. In every reading a value that does not convert is NULL, and no
reading raises an error.
"""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

import datetime as dt
import itertools
import re
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from fractions import Fraction
from typing import Any, ClassVar, Protocol

from unacorda import checks
from unacorda.checks import Number
from unacorda.errors import InvalidParameter, UnsafeExpression
from unacorda.query.expressions.errors import resembling
from unacorda.query.expressions.language import (
    Column,
    Expression,
    Kind,
    double,
    folded,
    identifier,
    twin,
)
from unacorda.query.expressions.parse import parse
from unacorda.query.expressions.ranges import LARGEST, SMALLEST, Size
from unacorda.query.expressions.values import (
    guarded,
    held,
    in_years,
    let,
    of_text,
    rounded,
    stepped,
)
from unacorda.query.schema.keys import Key, check_keys, date_of, key_kinds
from unacorda.query.schema.units import Row, Unit

INTEGERS = {
    *("TINYINT", "SMALLINT", "INTEGER", "BIGINT", "HUGEINT"),
    *("UTINYINT", "USMALLINT", "UINTEGER", "UBIGINT", "UHUGEINT"),
}
"""The engine's types of whole numbers."""
TEXTS = {"VARCHAR", "UUID", '"NULL"'}
"""The engine's types of text, and those that are read as text."""
_FRACTIONS = {"DOUBLE", "FLOAT", "REAL"}

_FARTHEST = max(Fraction(LARGEST), Fraction(10**100))
_NEAREST = min(Fraction(SMALLEST), Fraction(1, 10**100))

_MENDS = {
    "PARQUET MILLISECONDS": "instants in microseconds: in milliseconds DuckDB cannot read all of "
    "them. Write the file anew, or give the table as a frame (polars.read_parquet)",
    "PARQUET DECIMAL IN BYTES": "decimals of at most 16 bytes, each as long: others DuckDB cannot "
    "read. Write the file anew, or give the table as a frame (polars.read_parquet)",
}
"""What to do about a type that a source has and the engine cannot read."""


@dataclass(frozen=True, slots=True, init=False)
class Bounds:
    """A column of numbers and the range to which its values are clamped.

    Take the numbers from the questionnaire, from physics or from regulations. They must not be read
    from the data.

    Parameters
    ----------
    lower, upper
        Public numbers in the column's unit, lower < upper, of a size up to 1e100.

    Raises
    ------
    InvalidParameter
        For numbers that are not such a range.

    Examples
    --------
    >>> Bounds(0, 120)
    Bounds(lower=0.0, upper=120.0)
    """

    tag: ClassVar[str] = "bounds"

    lower: float
    upper: float

    def __init__(self, lower: Number, upper: Number) -> None:
        low, high = interval(lower, upper)
        object.__setattr__(self, "lower", float(low))
        object.__setattr__(self, "upper", float(high))


@dataclass(frozen=True, slots=True, init=False)
class Categories:
    """A column with a public list of values; `group_by` then needs no `keys`.

    Parameters
    ----------
    values
        At most 1,000,000 values, each once: text, whole numbers, booleans or dates, all of one
        type; None for NULL. They must be public, not read from the data.

    Raises
    ------
    InvalidParameter
        For an empty list, values of two types, a repeated value, and numbers that are not whole.

    Examples
    --------
    >>> Categories(["A", "B"]).values
    ('A', 'B')
    """

    tag: ClassVar[str] = "categories"

    values: tuple[Key, ...]

    def __init__(self, values: Iterable[Key]) -> None:
        object.__setattr__(self, "values", check_keys("values", values))


@dataclass(frozen=True, slots=True, init=False)
class Dates:
    """A column of dates (in text: YYYY-MM-DD).

    The range determines the dates of a synthetic table. Answers to other questions are about all
    dates.

    Parameters
    ----------
    first, last
        The ends of a public range, as dates or as text, first < last; or neither.

    Raises
    ------
    InvalidParameter
        For a value that is not a date, for one end without the other, and for an empty range.

    Examples
    --------
    >>> Dates("2024-01-01", "2024-12-31").last
    datetime.date(2024, 12, 31)
    """

    tag: ClassVar[str] = "dates"

    first: dt.date | None
    last: dt.date | None

    def __init__(
        self, first: str | dt.date | None = None, last: str | dt.date | None = None
    ) -> None:
        start = None if first is None else date_of("first", first)
        end = None if last is None else date_of("last", last)
        alone = (start is None) != (end is None)
        missing = "first" if start is None else "last"
        checks.demand(not alone, missing, None, expected="both a first and a last date, or neither")
        if start is not None and end is not None:
            checks.demand(start < end, "last", last, expected=f"a date after {start}")
        object.__setattr__(self, "first", start)
        object.__setattr__(self, "last", end)


@dataclass(frozen=True, slots=True)
class Text:
    """A column of text, even where its values look like numbers.

    Examples
    --------
    >>> columns = {"zip_code": Text()}
    >>> columns["zip_code"]
    Text()
    """

    tag: ClassVar[str] = "text"


Fact = Bounds | Categories | Dates | Text
"""What may be declared of a column, each kind fixing its type."""


def interval(lower: Number, upper: Number) -> tuple[Fraction, Fraction]:
    """Check the two ends of a public range and return them exactly.

    Raises InvalidParameter for NaN, infinity, lower >= upper, ends beyond the range of numbers, and
    ends that are equal in float64, the type of the values.
    """
    low, high = checks.exact("lower", lower), checks.exact("upper", upper)
    checks.demand(low < high, "lower", lower, expected=f"a number below upper={upper!r}")
    fits = max(abs(low), abs(high)) <= _FARTHEST and high - low >= _NEAREST
    checks.demand(
        fits, "upper", upper, expected="bounds within 1e100 that are at least 1e-100 apart"
    )
    expected = "a float64 above that of the lower bound"
    checks.demand(float(low) != float(high), "upper", upper, expected=expected)
    return low, high


@dataclass(frozen=True, slots=True, kw_only=True)
class ColumnReading:
    """One reading of a source column: `sql` over the source, known further up as `column`.

    label: the source column's own name; converts: untyped text is read as something else; of_text:
    the source has text, which is untyped or declared to be something else.
    """

    sql: str
    column: Column
    label: str
    converts: bool = False
    of_text: bool = False

    @property
    def drops_texts(self) -> bool:
        """Whether texts that do not convert are missing values of it."""
        return self.of_text and self.column.kind is not Kind.TEXT


@dataclass(frozen=True, slots=True, kw_only=True)
class Identity:
    """The identity of people: `sql` over the columns of these leaves.

    type: the type of `sql`: an engine's type of whole numbers, VARCHAR, UUID, DATE or DECIMAL.
    """

    sql: str
    leaves: tuple[ColumnReading, ...]
    type: str


DeclaredFacts = Mapping[str, Fact | Mapping[str, Fact]]
"""Facts by column, or by table and column."""


class PublicTableReader(Protocol):
    """Reads the first rows of a public table, in columns chosen from those it has."""

    def __call__(
        self, source: object, choose: Callable[[Sequence[str]], Sequence[str]], *, most: int
    ) -> list[tuple[Any, ...]]:
        """Read a limited number of rows; SourceUnreadable if the table cannot be read."""


def joint_ids(types: Mapping[str, str]) -> dict[str, Identity]:
    """The ids of a person in joined or united rows, as u0, u1, ...; types: of each id."""
    found = {}
    for index, (name, kind) in enumerate(types.items()):
        column = Column(f"u{index}", Kind.TEXT)
        leaf = ColumnReading(sql=identifier(column.name), column=column, label="")
        found[name] = Identity(sql=leaf.sql, leaves=(leaf,), type=kind)
    return found


@dataclass(frozen=True, slots=True, kw_only=True)
class TableSchema:
    """All names that may be used at one point of a query.

    table: the table's name, for messages. types: the engine's type of each source column, without
    its parameters. leaves: the readings of each source column, best first (empty for a column of a
    type that has none). ids: the columns that name a person, in the type in which people are
    distinguished. derived: columns made by `derive`.
    facts: what the curator declared. read_public: reads a public table of keys, in an
    engine that the session gives; None outside a session.

    No two names of a scope may differ only in case, since an engine would confuse them and answer
    about the wrong column. Such names raise InvalidParameter.
    """

    table: str
    leaves: Mapping[str, tuple[ColumnReading, ...]]
    ids: Mapping[str, Identity]
    facts: Mapping[str, Fact]
    types: Mapping[str, str] = field(default_factory=dict)
    derived: Mapping[str, Column] = field(default_factory=dict)
    read_public: PublicTableReader | None = field(default=None, compare=False, repr=False)
    by_identifier: Mapping[str, ColumnReading] = field(init=False, compare=False, repr=False)
    """All leaves by their SQL identifiers, in the order of the columns."""

    def __post_init__(self) -> None:
        every = itertools.chain.from_iterable(self.leaves.values())
        object.__setattr__(self, "by_identifier", {leaf.column.name: leaf for leaf in every})
        again = twin(self.names)
        expected = "column names that differ by more than capitals"
        checks.demand(again is None, f"tables[{self.table!r}]", again, expected=expected)

    def parse(self, text: str, *, argument: str, expect: Kind | None = None) -> Expression:
        """Parse an expression, and read each untyped column as its use needs.

        Raises UnsafeExpression or InvalidParameter as `expressions.parse` does for the first
        readings.
        """
        is_text = isinstance(text, str)
        checks.demand(is_text, argument, text, expected="an expression in SQL, as text")
        columns = {name: found for name in self.names if (found := self.readings(name))}
        try:
            return parse(text, columns=columns, argument=argument, expect=expect)
        except UnsafeExpression:
            raise
        except InvalidParameter as error:
            fault = error
        for name, leaves in self.leaves.items():
            if not leaves and re.search(rf"\b{re.escape(name)}\b", text):
                raise self._unknown(name, argument)
        raise fault

    @property
    def names(self) -> tuple[str, ...]:
        """The names that are taken: of the table's columns and of derived ones."""
        return tuple(dict.fromkeys((*self.leaves, *self.derived)))

    def __contains__(self, name: str) -> bool:
        return name in self.leaves or name in self.derived

    def resolve(self, name: str, *, argument: str) -> str:
        """Find the column of a name: exactly, or else without regard to case.

        Raises InvalidParameter, which lists the columns.
        """
        found = self.alike(name) if checks.is_text(name) else None
        if found is None:
            raise self._unknown(name, argument)
        return found

    def column(self, name: str, *, argument: str) -> tuple[Column, ...]:
        """The readings of one column by name, best first; raises InvalidParameter if unknown."""
        found = self.resolve(name, argument=argument)
        if not self.readings(found):
            raise self._unknown(found, argument)
        return self.readings(found)

    def readings(self, label: str) -> tuple[Column, ...]:
        """The readings of a column by its exact name, best first; none if its type has none."""
        if label in self.derived:
            return (self.derived[label],)
        return tuple(leaf.column for leaf in self.leaves[label])

    def declared_keys(self, name: str) -> Sequence[Key] | None:
        """The values of a column that are public without being listed."""
        fact = self.facts.get(self.resolve(name, argument="group_by"))
        if isinstance(fact, Categories):
            return fact.values
        readings = self.column(name, argument="group_by")
        if len(readings) == 1 and readings[0].kind is Kind.BOOLEAN:
            return (False, True)
        return None

    def column_of_keys(self, name: str, keys: Sequence[Key]) -> Column:
        """The reading of a column that these keys fit; InvalidParameter where there is none."""
        kinds = key_kinds(keys)
        readings = self.column(name, argument="group_by")
        for column in readings:
            if column.kind in kinds:
                return column
        hint = ""
        if readings[0].kind is Kind.TIMESTAMP:
            hint = "s: group by the day, CAST(... AS DATE), or by another part such as MONTH(...)"
        raise InvalidParameter(
            "keys",
            list(keys)[:3],
            expected=f"keys of the type of {name!r}, which holds {readings[0].kind.value}{hint}",
        )

    def with_derived(self, name: str, expression: Expression, *, identifier: str) -> TableSchema:
        """The scope after `derive(name=expression)`."""
        return replace(
            self,
            derived={**self.derived, name: expression.named(identifier)},
            facts={known: fact for known, fact in self.facts.items() if known != name},
        )

    def with_columns(
        self, leaves: Mapping[str, tuple[ColumnReading, ...]], facts: Mapping[str, Fact]
    ) -> TableSchema:
        """The scope with columns of another table added under new names."""
        return replace(self, leaves={**self.leaves, **leaves}, facts={**self.facts, **facts})

    def alike(self, name: str) -> str | None:
        """The column with this name without regard to case, or None."""
        return next((known for known in self.names if folded(known) == folded(name)), None)

    def _unknown(self, name: object, argument: str) -> InvalidParameter:
        usable = (label for label, leaves in self.leaves.items() if leaves)
        known = list(dict.fromkeys((*self.derived, *usable)))
        expected = f"a column of table {self.table!r}: {', '.join(known)}"
        if isinstance(name, str) and name in self:
            known_types = "a column of numbers, text, booleans, dates or instants"
            expected = _MENDS.get(self.types.get(name, ""), known_types)
        elif close := resembling(str(name), known).strip():
            expected += f" ({close})"
        return InvalidParameter(argument, name, expected=expected)


def readings(name: str, sql_type: str, fact: Fact | None, *, sql: str) -> tuple[ColumnReading, ...]:
    """The readings of one source column, best first.

    sql_type: the engine's type; fact: the curator's declaration, which then determines the type;
    sql: the column in the source. Raises InvalidParameter if the declared type does not fit the
    column's own.
    """
    base = plain_type(sql_type)
    native = _native(base)
    if native is None:
        return ()
    kinds = [native]
    match fact:
        case Bounds(lower=lower, upper=upper):
            whole = base in INTEGERS and lower.is_integer() and upper.is_integer()
            kinds = [Kind.INTEGER if whole else Kind.NUMBER]
        case Categories(values=values):
            kinds = [Kind.of(next((value for value in values if value is not None), ""))]
        case Dates():
            kinds = [Kind.DATE]
        case Text():
            kinds = [Kind.TEXT]
        case None if native is Kind.TEXT:
            kinds = [Kind.TEXT, Kind.NUMBER, Kind.DATE, Kind.BOOLEAN, Kind.TIMESTAMP]
        case None:
            pass
    (kind, *_), to_date = kinds, (Kind.TIMESTAMP, Kind.DATE)
    numbers = native.numeric and kind.numeric
    fits = native is kind or numbers or Kind.TEXT in (native, kind) or (native, kind) == to_date
    expected = f"a declaration that fits the type {base}"
    checks.demand(fits, f"columns[{name!r}]", fact, expected=expected)
    found = []
    for kind in kinds:
        value, column = _read(Column(f"{name} as {kind.value}", kind), base, fact, sql)
        converts = fact is None and kind is not native
        of_text = native is Kind.TEXT and (fact is None or kind is not Kind.TEXT)
        found.append(
            ColumnReading(sql=value, column=column, label=name, converts=converts, of_text=of_text)
        )
    return tuple(found)


def _read(column: Column, base: str, fact: Fact | None, sql: str) -> tuple[str, Column]:
    """SQL of a column of this type as one of a kind, and that with what is known of its values."""
    text = _native(base) is Kind.TEXT
    if text:
        sql = f"TRY_CAST({sql} AS VARCHAR)"
    elif base == "TIMESTAMPTZ_NS":
        sql = f"TRY_CAST({sql} AS TIMESTAMPTZ)"  # the engine knows no direct way
    match column.kind:
        case Kind.NUMBER | Kind.INTEGER:
            return _number(column, base, fact, sql)
        case Kind.TEXT:
            return by_code_point(sql if text else f"TRY_CAST({sql} AS VARCHAR)"), column
        case kind if text:
            return of_text(sql, kind), column
        case Kind.BOOLEAN:
            return f"TRY_CAST({sql} AS BOOLEAN)", column
        case kind:
            return in_years(f"TRY_CAST({sql} AS {kind.name})", kind.name), column


def _number(column: Column, base: str, fact: Fact | None, sql: str) -> tuple[str, Column]:
    """SQL of a number, never -0.0, and the column that it is."""
    text, exact = _native(base) is Kind.TEXT, base in INTEGERS or base == "DECIMAL"
    raw = of_text(sql, Kind.NUMBER) if text else f"TRY_CAST({sql} AS DOUBLE)"
    if isinstance(fact, Bounds):
        lower, upper = (rounded(end, SMALLEST) for end in (fact.lower, fact.upper))
        low, high = double(lower), double(upper)
        nan = "" if text or exact else "WHEN isnan({0}) THEN NULL "
        cut = (
            f"(CASE WHEN {{0}} BETWEEN {low} AND {high} THEN {{0}} "
            f"WHEN {{0}} < {low} THEN {low} {nan}WHEN {{0}} > {high} THEN {high} END)"
        )
        number = let(cut.format, raw)
        number = number if exact else stepped(number, SMALLEST)
        size = Size(SMALLEST, LARGEST, SMALLEST)
        return number, replace(column, lower=lower, upper=upper, size=size)
    if exact:
        return f"({raw} + 0.0e0)", replace(column, size=Size(1e-39, 1e39))
    number = held(raw, undefined=not text)
    if column.kind is Kind.INTEGER:  # declared categories: what is not whole is none of them
        number = guarded(number, "{0} = floor({0})")
    return number, column


def plain_type(sql_type: str) -> str:
    """The engine's type without its parameters; the type of a list keeps its brackets.

    The parameters of an ENUM are values, and these may come from the data.

    >>> plain_type("DECIMAL(18,3)"), plain_type("INTEGER[]"), plain_type("ENUM('Ann', 'Bo')[]")
    ('DECIMAL', 'INTEGER[]', 'ENUM[]')
    """
    bare = sql_type.partition("(")[0].strip().upper()
    return f"{bare}[]" if sql_type.endswith("]") and not bare.endswith("]") else bare


def by_code_point(sql: str) -> str:
    """Text that compares by code point, whatever the collation of its column.

    Under a collation two people could share one bound, and one row could fit two keys.
    """
    return f"({sql} COLLATE C)"


_NATIVE = {
    **dict.fromkeys(INTEGERS, Kind.INTEGER),
    **dict.fromkeys([*_FRACTIONS, "DECIMAL"], Kind.NUMBER),
    **dict.fromkeys([*TEXTS, "ENUM"], Kind.TEXT),
    "BOOLEAN": Kind.BOOLEAN,
    "DATE": Kind.DATE,
}


def _native(base: str) -> Kind | None:
    """What a type of the engine holds; None for one that cannot be used."""
    if base.startswith("TIMESTAMP") and base[-1] != "]":
        return Kind.TIMESTAMP
    return _NATIVE.get(base)


def _identity(name: str, schema: Mapping[str, str], scope: TableSchema) -> Identity:
    """What the unit calls a person by: the column of that very name, or else an expression.

    schema: the engine's type of each column. Raises InvalidParameter, and UnsafeExpression for what
    is not row-wise.
    """
    if name in schema:
        return _identity_column(name, schema[name])
    expression = scope.parse(name, argument="unit")
    leaves = tuple(leaf for name, leaf in scope.by_identifier.items() if name in expression.columns)
    if leaves and expression.sql == identifier(leaves[0].column.name):
        return _identity_column(leaves[0].label, schema[leaves[0].label])
    for leaf in leaves:
        expected = (
            f"an expression of columns without Bounds: beyond those of {leaf.label!r} all people "
            "would be one"
        )
        bounded = isinstance(scope.facts.get(leaf.label), Bounds)
        checks.demand(not bounded, "unit", name, expected=expected)
    sql, made = f"({expression.sql})", "DATE"
    if expression.kind.numeric:
        sql, made = _whole(sql), "BIGINT"
    elif expression.kind is Kind.TEXT:
        sql, made = by_code_point(sql), "VARCHAR"
    fits = leaves and expression.kind not in (Kind.BOOLEAN, Kind.TIMESTAMP)
    expected = "an expression of columns that gives whole numbers, text or dates"
    checks.demand(fits, "unit", name, expected=expected)
    return Identity(sql=sql, leaves=leaves, type=made)


def _identity_column(name: str, sql_type: str) -> Identity:
    """The column in which people are distinguished: whole numbers, text, UUIDs, dates."""
    base, sql = plain_type(sql_type), identifier(name)
    if base in _FRACTIONS:
        base, sql = "BIGINT", _whole(f"{sql}::DOUBLE")
    elif base in {"ENUM", '"NULL"'}:
        base, sql = "VARCHAR", f"TRY_CAST({sql} AS VARCHAR)"
    elif base == "VARCHAR":
        sql = by_code_point(sql)
    expected = f"a column of whole numbers, text, UUIDs or dates, not {base}"
    checks.demand(base in INTEGERS | TEXTS | {"DATE", "DECIMAL"}, "id", name, expected=expected)
    leaf = ColumnReading(sql=sql, column=Column(f"{name} as id", Kind.TEXT), label=name)
    return Identity(sql=identifier(leaf.column.name), leaves=(leaf,), type=base)


def _whole(number: str) -> str:
    """A double where it is a whole number that no other one is rounded to, else NULL.

    A row without an id is dropped.
    """
    whole = f"{number} = floor({number}) AND abs({number}) < 9007199254740992.0e0"
    return f"TRY_CAST(CASE WHEN {whole} THEN {number} END AS BIGINT)"


def scopes_of(
    schemas: Mapping[str, Mapping[str, str]],
    unit: Unit,
    facts: DeclaredFacts,
    *,
    public: Collection[str] = (),
    read_public: PublicTableReader | None = None,
) -> dict[str, TableSchema]:
    """Build the schema of each table; InvalidParameter for facts that fit no column.

    facts: by column, for every table that has it; or by table, for its columns only. public: the
    names of tables without people; read_public: reads public tables of keys.
    """
    declared = _facts_by_table(schemas, facts)
    tables = [table for table in schemas if table not in public]
    return {
        table: scope_of(
            table,
            schema,
            Row() if table in public else unit.in_table(table, tables),
            declared[table],
            read_public=read_public,
        )
        for table, schema in schemas.items()
    }


def _facts_by_table(
    schemas: Mapping[str, Mapping[str, str]], facts: DeclaredFacts
) -> dict[str, dict[str, Fact]]:
    """The facts about the columns of each table; those by table stand above those by column."""
    every = {name for schema in schemas.values() for name in schema}
    common: dict[str, Fact] = {}
    own: dict[str, dict[str, Fact]] = {table: {} for table in schemas}
    for name, fact in facts.items():
        if isinstance(fact, Mapping):
            expected = f"one of the tables: {', '.join(schemas)}"
            checks.demand(name in schemas, "columns", name, expected=expected)
            for column, one in fact.items():
                argument = f"columns[{name!r}]"
                own[name][column] = _checked_fact(f"{argument}[{column!r}]", one)
                expected = f"a column of table {name!r}: {', '.join(schemas[name])}"
                checks.demand(column in schemas[name], argument, column, expected=expected)
        else:
            common[name] = _checked_fact(f"columns[{name!r}]", fact)
            expected = f"a column of the tables: {', '.join(sorted(every))}"
            checks.demand(name in every, "columns", name, expected=expected)
    return {table: {**common, **own[table]} for table in schemas}


def _checked_fact(argument: str, fact: Fact) -> Fact:
    is_fact = isinstance(fact, Bounds | Categories | Dates | Text)
    expected = "unacorda.Bounds(0, 120), Categories([...]), Dates() or Text()"
    checks.demand(is_fact, argument, fact, expected=expected)
    return fact


def scope_of(
    table: str,
    schema: Mapping[str, str],
    unit: Unit,
    facts: Mapping[str, Fact],
    *,
    read_public: PublicTableReader | None = None,
) -> TableSchema:
    """Build the schema of one table; InvalidParameter if the unit or a fact fits no column.

    schema: the engine's type of each column.
    """
    scope = TableSchema(
        table=table,
        types={name: plain_type(kind) for name, kind in schema.items()},
        leaves={
            name: readings(name, kind, facts.get(name), sql=identifier(name))
            for name, kind in schema.items()
        },
        ids={},
        derived={},
        facts={name: fact for name, fact in facts.items() if name in schema},
        read_public=read_public,
    )
    return replace(scope, ids={name: _identity(name, schema, scope) for name in unit.id})
