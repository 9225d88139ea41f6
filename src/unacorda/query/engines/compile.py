"""From a query to DuckDB SQL: normalise, filter, key, bound every person, then count.

The order is the guarantee. Row-wise steps come first, of which none makes several rows of one
before each person is bound to as many as count of them (`relation`); then rows without an id or a
public key are dropped; then each person is bound to their limits, as `bounding` has it; nothing
after that multiplies a row. What leaves the engine is one line of exact integers a cell (and, for
quantiles, one a cell and bin).

**Bound before anything multiplies.** Where people are protected and a step may make several rows of
one (`explode`, a public key that stands in several rows), each person is bound to as many rows as
count of them in all, right before the first such step; a join of private tables binds either side
by itself. Otherwise the copies of one person's rows would be made before anyone is bound, and what
that takes, in time and memory, would tell whether they are there. What is kept of theirs is drawn
from their own rows and the salt, whatever others there are, and everything after it makes rows of
these alone: what they have in the end is still a function of their own rows, which
`compile_query` bounds again, so that sensitivities are as they were. Filters before that step run
first, and so do those behind it that can (`push_filters`); they multiply nothing.

**Texts are cut where they are copied.** A thousand copies of a row with one long text would take a
thousand times its memory, which would tell that this row is there. So a column of text keeps its
first `LONGEST_JOINED` characters in every step that may make several rows of one. What names a
person is carried whole: cut, two people could become one.
"""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace

from unacorda.over_time.bounds import OverTime
from unacorda.query.aggregates.measures import PeopleCount, check_measure
from unacorda.query.engines.bounding import (
    bound_pairs,
    bound_rows,
    bound_steps,
    salt_for,
    salted_hash,
)
from unacorda.query.expressions.language import Expression, Kind, double, identifier, literal
from unacorda.query.expressions.logic import LONGEST_JOINED
from unacorda.query.plan.query import Query
from unacorda.query.plan.relation import (
    Derive,
    Explode,
    Lookup,
    Matched,
    PeoplePart,
    PersonRows,
    Relation,
    RowFilter,
    SourceTable,
    UnionAll,
    push_filters,
)
from unacorda.query.schema.keys import Key
from unacorda.query.schema.sources import join_key
from unacorda.query.schema.units import Person, Reach, Unit, id_columns


@dataclass(frozen=True, slots=True, kw_only=True)
class SqlContext:
    """What the SQL of a question depends on in addition to the question.

    unit: what is protected, with its limits. scan: from the name of a table to SQL of it. salt: 128
    bits drawn for this question, for what is drawn of a person's rows. narrow: whether the engine
    is quicker to order wide rows by few columns, and to join; once: whether it computes what WITH
    names as MATERIALIZED a single time.
    """

    unit: Unit
    scan: Callable[[str], str]
    salt: int
    narrow: bool = False
    once: bool = True

    def drawing(self, purpose: str) -> SqlContext:
        """The same with a salt of its own for a purpose."""
        return replace(self, salt=salt_for(purpose, self.salt))


def relation(rows: Relation, names: Iterable[str], context: SqlContext) -> str:
    """SELECT of at least the columns with these identifiers, and of what ids are made of."""
    wanted = rows.wanted(names)
    leaves = ", ".join(
        f"{leaf.sql} AS {identifier(leaf.column.name)}" for leaf in rows.leaves(names)
    )
    source = _source(rows, names, context)
    text = f"SELECT {leaves or '1 AS nothing'} FROM {source}"
    for place, step in enumerate(rows.steps):
        if place == rows.multiplying and isinstance(context.unit, Person):
            text = _before_copies(text, rows, place, names, context)
        match step:
            case RowFilter(expression=expression):
                text = f"SELECT * FROM ({text}) WHERE {expression.sql}"
            case Derive(name=name, expression=expression):
                text = f"SELECT *, {expression.sql} AS {identifier(name)} FROM ({text})"
            case Explode(name=name, expression=expression):
                parts = f"string_split({expression.sql}, {literal(step.separator)})"
                parts = f"unnest(list_slice({parts}, 1, {step.most}))"
                carried = _carried_columns(rows, place, names)
                text = f"SELECT {carried}, {parts} AS {identifier(name)} FROM ({text})"
            case PeoplePart():
                text = _parted(text, rows, step, context)
            case Lookup():
                carried = _carried_columns(rows, place, names, "here.")
                text = _looked_up(text, step, wanted, context, carried)
    return text


def _source(rows: Relation, names: Iterable[str], context: SqlContext) -> str:
    if isinstance(rows.source, SourceTable):
        return context.scan(rows.source.name)
    sides = [
        relation(side, needed, context.drawing(purpose))
        for (side, needed), purpose in zip(rows.of_sides(names), ("left", "right"), strict=False)
    ]
    needed_here = {leaf.column.name for leaf in rows.leaves(names)}
    if isinstance(rows.source, PersonRows):
        return _of_people(rows, rows.source, sides[0], needed_here)
    if isinstance(rows.source, Matched):
        return _matched(rows, rows.source, sides, needed_here, context)
    return _united(rows, rows.source, sides, needed_here)


def _before_copies(
    text: str, rows: Relation, place: int, names: Iterable[str], context: SqlContext
) -> str:
    """Of every person as many rows as count of them in all, before the step at this place."""
    assert isinstance(context.unit, Person)
    bound, short = _bound(
        text,
        [f"{one.sql} AS u{index}" for index, one in enumerate(rows.identities)],
        _there(rows, place, names),
        context.drawing("rows before copies"),
        most=context.unit.all_rows,
    )
    listed = ", ".join(f"{value} AS {identifier(name)}" for name, value in short.items())
    return f"SELECT {listed} FROM ({bound}) AS kept"


def _there(rows: Relation, place: int, names: Iterable[str]) -> dict[str, Kind]:
    """The columns that are used of what there is before the step at a place, with their kinds."""
    wanted = rows.wanted(names)
    found = {leaf.column.name: leaf.column.kind for leaf in rows.leaves(names)}
    for step in rows.steps[:place]:
        if isinstance(step, Derive | Explode):
            found |= {step.name: step.expression.kind} if step.name in wanted else {}
        elif isinstance(step, Lookup):
            taken = (leaf for leaf in step.readings if leaf.column.name in wanted)
            found |= {leaf.column.name: leaf.column.kind for leaf in taken}
    return found


def _carried_columns(rows: Relation, place: int, names: Iterable[str], relation: str = "") -> str:
    """SQL of the columns that a step takes along; texts are cut where it may make several rows."""
    if rows.steps[place].most <= 1:
        return f"{relation}*"
    there = _there(rows, place, names)
    whole = {leaf.column.name for one in rows.identities for leaf in one.leaves}
    texts = {name for name, kind in there.items() if kind is Kind.TEXT} - whole
    listed = [_cut(f"{relation}{identifier(name)}", name, cut=name in texts) for name in there]
    return ", ".join(listed) or "1 AS nothing"


def _cut(sql: str, name: str, *, cut: bool) -> str:
    """SQL of a column by this name, of which a long text loses its end where it is cut."""
    return f"{f'left({sql}, {LONGEST_JOINED})' if cut else sql} AS {identifier(name)}"


def _bound(
    text: str, ids: Sequence[str], columns: Iterable[str], context: SqlContext, *, most: int
) -> tuple[str, dict[str, str]]:
    """SELECT (u0, ..., c0, ...) of at most so many rows of everybody who has an id.

    ids: what names a person, each as `... AS u0`. With the name that each column has there.
    """
    values = {name: f"c{index}" for index, name in enumerate(dict.fromkeys(columns))}
    listed = [*ids, "0::UTINYINT AS cell"]
    listed += [f"{identifier(name)} AS {short}" for name, short in values.items()]
    present = " AND ".join(f"{sql.rpartition(' AS ')[0]} IS NOT NULL" for sql in ids)
    bound = bound_rows(
        f"SELECT {', '.join(listed)} FROM ({text}) WHERE {present}",
        unit=Person(tuple(f"u{index}" for index in range(len(ids))), max_rows=most),
        cells=1,
        cell=["cell"],
        values=list(values.values()),
        salt=context.salt,
        once=context.once,
    )
    return bound, values


def _parted(text: str, rows: Relation, step: PeoplePart, context: SqlContext) -> str:
    """The rows with this key of the people who are bound to it.

    Whom is decided from all tables that are parted, with the salt of the split alone.
    """
    inside = f"FROM ({text}) WHERE {_one_of(step.column.name, [step.key])}"
    if not rows.identities:
        return f"SELECT * {inside}"
    prefix = f"p{rows.steps.index(step)}_"  # there may be parts of parts
    ids = [f"{prefix}{index}" for index in range(len(rows.identities))]
    named, present = ", ".join(ids), " AND ".join(f"{name} IS NOT NULL" for name in ids)
    parts = []
    for member, column in step.members:
        own = relation(member, {column.name}, replace(context, salt=step.salt))
        listed = _typed(member, step.types, prefix)
        parts.append(
            f"SELECT {', '.join(listed)}, {identifier(column.name)} AS part FROM ({own}) "
            f"WHERE {_one_of(column.name, step.keys)}"
        )
    # A whole number has one text on every engine, a double has not.
    drawn = "TRY_CAST(part AS BIGINT)" if step.column.kind.numeric else "part"
    order = salted_hash([*ids, drawn], salt=salt_for("parts", step.salt))
    turns = f"row_number() OVER (PARTITION BY {named} ORDER BY {order}, part) AS turn"
    bound = (
        f"SELECT {named} FROM (SELECT {named}, part, {turns} FROM (SELECT {named}, part FROM "
        f"({' UNION ALL '.join(parts)}) WHERE {present} GROUP BY {named}, part)) "
        f"WHERE turn <= {step.max_parts} AND {_one_of('part', [step.key])}"
    )
    own_ids = ", ".join(_typed(rows, step.types, prefix))
    here = f"(SELECT *, {own_ids} {inside}) AS here"
    return f"SELECT * FROM {here} SEMI JOIN ({bound}) AS bound USING ({named})"


def _one_of(name: str, keys: Sequence[Key]) -> str:
    """SQL: whether a column has one of these keys."""
    listed = ", ".join(literal(key) for key in keys if key is not None)
    parts = [f"{identifier(name)} IN ({listed})"] if listed else []
    return f"({' OR '.join([*parts, *[f'{identifier(name)} IS NULL'] * (None in keys)])})"


def _typed(rows: Relation, types: Sequence[str], prefix: str) -> list[str]:
    """What names a person, in these types."""
    return [
        f"{one.sql if one.type == kind else f'{one.sql}::{kind}'} AS {prefix}{index}"
        for index, (one, kind) in enumerate(zip(rows.identities, types, strict=True))
    ]


def _looked_up(
    text: str, step: Lookup, wanted: frozenset[str], context: SqlContext, carried: str
) -> str:
    """Each row beside the public rows that it meets, of which there are at most `step.most`.

    That number was counted when the question was put, and the noise rests on it. The statement
    keeps to it by itself, also where the public table has got more rows since.
    """
    taken = [leaf for leaf in step.readings if leaf.column.name in wanted]
    readings = {
        leaf.column.name: leaf.sql
        for pair in step.pairs
        for leaf in step.public.scope.leaves[pair.right_label]
    }
    selected = [f"{leaf.sql} AS {identifier(leaf.column.name)}" for leaf in taken]
    selected += [
        f"{join_key(pair.right.kind, f'({readings[pair.right.name]})')} AS j{index}"
        for index, pair in enumerate(step.pairs)
    ]
    same = " AND ".join(
        f"{join_key(pair.left.kind, f'here.{identifier(pair.left.name)}')} = there.j{index}"
        for index, pair in enumerate(step.pairs)
    )
    keys = ", ".join(f"j{index}" for index in range(len(step.pairs)))
    order = ", ".join([identifier(leaf.column.name) for leaf in taken] or [keys])
    turns = f"row_number() OVER (PARTITION BY {keys} ORDER BY {order}) AS turn"
    there = f"SELECT *, {turns} FROM (SELECT {', '.join(selected)} FROM {context.scan(step.table)})"
    there = f"SELECT * FROM ({there}) WHERE turn <= {max(1, step.most)}"
    beside = "".join(f", there.{identifier(leaf.column.name)}" for leaf in taken)
    join = "LEFT JOIN" if step.how == "left" else "JOIN"
    return f"SELECT {carried}{beside} FROM ({text}) AS here {join} ({there}) AS there ON {same}"


def _matched(
    rows: Relation, source: Matched, sides: Sequence[str], needed: set[str], context: SqlContext
) -> str:
    """Each side bound by itself, then joined on the person, and on the further columns."""
    columns = {new: source.columns[new] for new in source.columns if new in needed}
    kept = []
    for number, (text, purpose) in enumerate(zip(sides, ("left rows", "right rows"), strict=True)):
        own = [old for both in columns.values() if (old := both[number]) is not None]
        own += [(pair.right if number else pair.left).name for pair in source.pairs]
        ids, most = _ids(rows, rows.sides[number]), source.max_rows[number]
        kept.append(_bound(text, ids, own, context.drawing(purpose), most=most))
    (left, of_left), (right, of_right) = kept
    selected = [f"l.u{index} AS u{index}" for index in range(len(rows.scope.ids))]
    texts = {leaf.column.name for leaf in rows.leaves(needed) if leaf.column.kind is Kind.TEXT}
    for new, (old, of_other) in columns.items():
        short = f"l.{of_left[old]}" if old is not None else f"r.{of_right[str(of_other)]}"
        met = source.max_rows[old is not None]
        selected.append(_cut(short, new, cut=met > 1 and new in texts))
    same = [f"l.u{index} = r.u{index}" for index in range(len(rows.scope.ids))]
    same += [
        f"{join_key(pair.left.kind, f'l.{of_left[pair.left.name]}')} = "
        f"{join_key(pair.right.kind, f'r.{of_right[pair.right.name]}')}"
        for pair in source.pairs
    ]
    join = "LEFT JOIN" if source.how == "left" else "JOIN"
    return (
        f"(SELECT {', '.join(selected)} FROM ({left}) AS l {join} ({right}) AS r "
        f"ON {' AND '.join(same)})"
    )


def _of_people(rows: Relation, source: PersonRows, side: str, needed: set[str]) -> str:
    """One row for each person: aggregates of all of their rows, by the names of each column.

    For the first and the last, rows have their place in an order that ends with the value itself,
    so that rows at one place are alike in all that is read of them.
    """
    ids = _ids(rows, source.of)
    named = ", ".join(f"u{index}" for index in range(len(ids)))
    columns = [source.columns[name] for name in source.columns if name in needed]
    values: dict[str, str] = {}
    for column in columns:
        for expression in column.expressions:
            values.setdefault(expression.sql, f"v{len(values)}")
    listed = [*ids, *(f"{sql} AS {name}" for sql, name in values.items())]
    present = " AND ".join(f"{sql.rpartition(' AS ')[0]} IS NOT NULL" for sql in ids)
    text = f"SELECT {', '.join(listed)} FROM ({side}) WHERE {present}"
    places: dict[str, str] = {}
    aggregates = []
    for column in columns:
        read = [values[expression.sql] for expression in column.expressions]
        order = ", ".join(column.ordered).format(*read)
        place = places.setdefault(order, f"p{len(places)}") if order else ""
        aggregates += [
            f"{sql.format(*read, place=place)} AS {name}"
            for sql, name in zip(column.aggregates, column.names, strict=True)
        ]
    if places:
        turns = [
            f"row_number() OVER (PARTITION BY {named} ORDER BY {order}) AS {place}"
            for order, place in places.items()
        ]
        text = f"SELECT *, {', '.join(turns)} FROM ({text})"
    return f"(SELECT {', '.join([named, *aggregates])} FROM ({text}) GROUP BY {named})"


def _united(rows: Relation, source: UnionAll, sides: Sequence[str], needed: set[str]) -> str:
    columns = {new: source.columns[new] for new in source.columns if new in needed}
    parts = []
    for number, text in enumerate(sides):
        listed = _ids(rows, rows.sides[number])
        listed += [f"{identifier(old[number])} AS {identifier(n)}" for n, old in columns.items()]
        parts.append(f"SELECT {', '.join(listed) or '1 AS nothing'} FROM ({text})")
    return f"({' UNION ALL '.join(parts)})"


def _ids(rows: Relation, side: Relation) -> list[str]:
    """What names a person on one side, in the type in which both are compared."""
    return _typed(side, [here.type for here in rows.identities], "u")


@dataclass(frozen=True, slots=True, kw_only=True)
class KeyTable:
    """The cells: a SELECT of (k0, ..., cell) with lists as parameters. Nothing prints them."""

    sql: str
    columns: tuple[Sequence[object], ...] = field(repr=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class KeyCountSql:
    """SQL that finds private keys: the bounded rows, and how many people have each key.

    names: of the private keys, k0, ...; keys: the cells of public ones, as `keys`, where there are
    any. overall: the ladder of what is counted over the rows before bounding, where there is one.
    held: a SELECT of the bounded rows (u0, ..., cell, k0, ..., v0, ...), with cells of public keys
    alone; paired: of a person's groups (u0, ..., cell, k0, ..., p0, ...), where people are
    protected. counted: a SELECT of (place, people, k0, ...) over `paired`, or over `held`, with the
    places 0, 1, ... in an order that is a function of the keys.
    """

    names: tuple[str, ...]
    keys: KeyTable | None
    held: str
    paired: str | None
    counted: str
    overall: str | None

    @property
    def named(self) -> dict[str, str]:
        """The relations that are kept, in the order in which they read each other."""
        paired = {} if self.paired is None else {"paired": self.paired}
        overall = {} if self.overall is None else {"overall": self.overall}
        return {"held": self.held, **paired, "found": self.counted, **overall}


@dataclass(frozen=True, slots=True, kw_only=True)
class Statement:
    """SQL for one question: what is bounded, and what is counted over it.

    keys: the cells, kept as `keys`, where there are any. bounded: a SELECT of the rows that count.
    measures: how many integers a cell has; of_people: those of them that count people. counts: the
    SELECT of one line of the others (a0, ...) a cell, reading a relation named `bounded`, as the
    next two do; people: that of the numbers of people, of all rows. rankings: for each ranking its
    SELECT of (cell, place, rows). ladders: for each ladder its SELECT of (cell, bin, people, sum of
    their numbers). The integers that may pass 64 bits leave as text.
    """

    measures: int
    keys: KeyTable | None
    bounded: str
    counts: str
    rankings: tuple[str, ...] = ()
    ladders: tuple[str, ...] = ()
    of_people: tuple[int, ...] = ()
    people: str | None = None

    @property
    def of_rows(self) -> tuple[int, ...]:
        """Which integers are counted over `bounded`."""
        return tuple(index for index in range(self.measures) if index not in self.of_people)

    @property
    def scans(self) -> int:
        """How many SELECTs read `bounded`."""
        return self.counted + len(self.rankings) + len(self.ladders)

    @property
    def counted(self) -> bool:
        """Whether `counts` is asked: where nothing else is, it tells whether the engine answers."""
        return bool(self.of_rows) or not (self.rankings or self.ladders or self.of_people)


def compile_query(query: Query, context: SqlContext) -> Statement:
    """The SQL of a query."""
    return _counted(
        query,
        unit=context.unit,
        keys=_public_keys(query),
        bounded=_bounded(query, ["cell"], context),
        paired=_paired(query, ["cell"], context),
        overall=_overall(query, context),
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class StepRange:
    """The steps of a series whose integers are asked for.

    step: the expression of a row's step, from 0. person: which rows of a person count. first, last:
    the steps whose rows are counted; those before are read, so that it is known who has counted.
    kept: whether the rows that count are counted too, as the last integer of a cell. rows: whether
    in place of all this the rows there are are counted, by step, of a person in each at most as
    many as may count there.
    """

    step: Expression
    person: OverTime
    first: int
    last: int
    kept: bool = False
    rows: bool = False


def compile_steps(query: Query, context: SqlContext, *, over: StepRange) -> Statement:
    """The SQL of a query by step: cell c of the n-th step has the number n times cells plus c."""
    unit, inputs = context.unit, query.inputs
    names = [f"v{index}" for index in range(len(inputs))]
    within = over.person.within or 1
    listed = [f"CAST({over.step.sql} AS BIGINT) AS s"]
    listed += [f"CAST(floor({over.step.sql} / {double(within)}) AS BIGINT) AS p"]
    rows = _rows(query, inputs, context, read=over.step.columns, beside=listed)
    conditions = [f"s >= 0 AND s <= {over.last}"]
    read = query.rows_read(inputs)
    if not query.counts_people and read is not None:
        conditions.append(f"({read})")
    rows = f"SELECT * FROM ({rows}) WHERE {' AND '.join(conditions)}"
    ids = id_columns(unit)
    if over.rows:
        return _rows_by_step(query, rows, ids=ids, over=over)
    if ids:
        rows = bound_steps(
            rows,
            person=over.person,
            ids=ids,
            cell=["cell"],
            values=names,
            salt=context.salt,
            once=context.once,
        )
    cell = f"(s - {over.first}) * {query.cells} + CAST(cell AS BIGINT) AS cell"
    columns = ", ".join([cell, *names, *ids, *(["f"] if ids else [])])
    counts = ""
    for index, measure in enumerate(query.measures):
        check_measure(measure)
        so_far = ids and isinstance(measure, PeopleCount)
        counts += f", {'count(f)' if so_far else measure.sql(unit)}::VARCHAR AS a{index}"
    if over.kept:
        counts += f", count(*)::VARCHAR AS a{len(query.measures)}"
    return Statement(
        measures=len(query.measures) + over.kept,
        keys=_public_keys(query),
        bounded=f"SELECT {columns} FROM ({rows}) WHERE s >= {over.first}",
        counts=f"SELECT cell{counts} FROM bounded GROUP BY cell",
    )


def _rows_by_step(query: Query, rows: str, *, ids: Sequence[str], over: StepRange) -> Statement:
    """The SQL of the number of rows by step; rows: a SELECT (u0, ..., s, ...) of them."""
    own = ", ".join(ids)
    counted = f"SELECT s, least(count(*), {over.person.each}) AS n FROM ({rows}) GROUP BY {own}, s"
    return Statement(
        measures=1,
        keys=_public_keys(query),
        bounded=f"SELECT s - {over.first} AS cell, n FROM ({counted}) WHERE s >= {over.first}",
        counts="SELECT cell, sum(n)::VARCHAR AS a0 FROM bounded GROUP BY cell",
    )


def compile_found(query: Query, context: SqlContext) -> KeyCountSql:
    """The SQL that finds the private keys of a query."""
    names = _private_names(query)
    paired, counted = _paired(query, ["cell", *names], context), "held"
    if paired is not None:  # the last count of pairs is that of any rows
        counted = f"paired WHERE p{len(_counts_of_people(query, context.unit))} IS NOT NULL"
    return KeyCountSql(
        names=tuple(names),
        keys=_public_keys(query),
        held=_bounded(query, ["cell", *names], context),
        paired=paired,
        counted=people_by_value(", ".join(names), context.unit, rows=counted),
        overall=_overall(query, context),
    )


def people_by_value(names: str, unit: Unit, *, rows: str) -> str:
    """SELECT of each value of some columns, its place and the people who have it."""
    return (
        f"SELECT row_number() OVER (ORDER BY {names}) - 1 AS place, * FROM "
        f"(SELECT {PeopleCount().sql(unit)} AS people, {names} FROM {rows} GROUP BY {names})"
    )


def compile_chosen(
    query: Query, *, unit: Unit, places: Sequence[int], parts: Sequence[int]
) -> Statement:
    """The SQL of a query whose private keys have been found, over what `KeyCountSql` left behind.

    places, parts: of each cell in order the place of its private keys, and the cell of its public
    ones.
    """
    names = _private_names(query)
    found = ", ".join(f"found.{name}" for name in names)
    numbers = f"unnest($1::BIGINT[]) AS place, unnest($2::UINTEGER[]) AS part, {_numbers(places)}"
    ids = id_columns(unit)
    inputs = [f"v{index}" for index in range(len(query.inputs))]
    pairs = [f"p{place}" for place in range(len(_counts_of_people(query, unit)))]

    def chosen(relation: str, columns: Sequence[str]) -> str:
        same = [f"{relation}.{name} IS NOT DISTINCT FROM keys.{name}" for name in names]
        listed = "".join(f", {relation}.{name}" for name in columns)
        return (
            f"SELECT keys.cell AS cell{listed} FROM {relation} JOIN keys ON "
            f"{' AND '.join([f'{relation}.cell = keys.part', *same])}"
        )

    return _counted(
        query,
        unit=unit,
        keys=KeyTable(
            sql=f"SELECT {found}, part, cell FROM (SELECT {numbers}) AS listed JOIN found "
            "USING (place)",
            columns=(places, parts),
        ),
        bounded=chosen("held", [*ids, *inputs]),
        paired=chosen("paired", pairs) if pairs else None,
        overall="SELECT cell, bin, n, s FROM overall",
    )


def _overall(query: Query, context: SqlContext) -> str | None:
    """SELECT of what is counted over the rows before bounding; None where nothing is."""
    for ladder in query.ladders:
        if ladder.overall:
            return ladder.sql(context.unit, f"({_rows_read(query, (), context)}) AS unbounded")
    return None


def _counted(
    query: Query,
    *,
    unit: Unit,
    keys: KeyTable | None,
    bounded: str,
    paired: str | None,
    overall: str | None,
) -> Statement:
    of_people = _counts_of_people(query, unit)
    counts = ""
    for index, measure in enumerate(query.measures):
        check_measure(measure)
        if index not in of_people:
            counts += f", {measure.sql(unit)}::VARCHAR AS a{index}"
    people = "".join(f", count(p{place})::VARCHAR AS a{n}" for place, n in enumerate(of_people))
    return Statement(
        measures=len(query.measures),
        keys=keys,
        bounded=bounded,
        counts=f"SELECT cell{counts} FROM bounded GROUP BY cell",
        rankings=tuple(ranking.sql(unit) for ranking in query.rankings),
        ladders=tuple(
            ladder.sql(unit) if overall is None or not ladder.overall else overall
            for ladder in query.ladders
        ),
        of_people=tuple(of_people),
        people=f"SELECT cell{people} FROM ({paired}) GROUP BY cell" if of_people else None,
    )


def _counts_of_people(query: Query, unit: Unit) -> dict[int, str | None]:
    """The places of measures that count people, each with the value that a row must have."""
    if not isinstance(unit, Person):
        return {}
    measures = enumerate(query.measures)
    return {place: one.value for place, one in measures if isinstance(one, PeopleCount)}


def _paired(query: Query, cell: Sequence[str], context: SqlContext) -> str | None:
    """SELECT of a person's groups, out of all rows; None where no people are counted."""
    unit = context.unit
    present = list(_counts_of_people(query, unit).values())
    present += [None] * (query.private is not None)
    if not isinstance(unit, Person) or not present:
        return None
    brought = query.rows.most_of_person
    most = Reach.of(unit, cells=query.cells, most=brought).touched
    bound = most < query.cells and (brought is None or most < brought)
    return bound_pairs(
        _rows(query, query.inputs, context, _filtered(query, people=True)),
        unit=unit,
        cell=cell,
        present=present,
        most=most if bound else None,
        salt=context.salt,
    )


def _bounded(query: Query, cell: Sequence[str], context: SqlContext) -> str:
    """SELECT of the rows that count; cell: the columns that tell cells apart."""
    unit = context.unit
    if not isinstance(unit, Person) or query.rows.most_of_person == 1:  # nothing to bound
        return _rows(query, query.inputs, context)
    carried = _carried(query)
    bounded = bound_rows(
        _rows_read(query, carried, context),
        unit=unit,
        cells=query.cells,
        cell=cell,
        values=[f"v{index}" for index in range(len(carried))],
        salt=context.salt,
        narrow=context.narrow,
        once=context.once,
    )
    if carried == query.inputs:
        return bounded
    ids = id_columns(unit)
    columns = [f"v{index} AS {column}" for index, column in enumerate(carried)]
    values = [f"{sql} AS v{index}" for index, sql in enumerate(query.inputs)]
    return (
        f"SELECT {', '.join([*cell, *values, *ids])} FROM "
        f"(SELECT {', '.join([*cell, *columns, *ids])} FROM ({bounded}) AS kept) AS columns"
    )


def _rows_read(query: Query, values: Sequence[str], context: SqlContext) -> str:
    """The rows of which an aggregate reads anything: others are not among those that are kept."""
    listed = list(dict.fromkeys([*values, *query.inputs]))
    read = query.rows_read(listed)
    if read is None:
        return _rows(query, values, context)
    columns = [f"u{index}" for index in range(len(query.rows.identities))]
    columns += ["cell", *_private_names(query), *(f"v{index}" for index in range(len(values)))]
    rows = _rows(query, listed, context, _filtered(query))
    return f"SELECT {', '.join(columns)} FROM ({rows}) WHERE {read}"


def _filtered(query: Query, *, people: bool = False) -> Relation:
    """The rows, behind them a common condition where it may have to go before some step."""
    return query.filtered(people=people) if query.rows.bounded_early else query.rows


def _carried(query: Query) -> tuple[str, ...]:
    """SQL of what a row is bound with: fewer values are sooner put in order.

    Its columns, where they are fewer than the aggregated expressions, which are then computed of
    the rows that stay.
    """
    names = {name for a in query.aggregates.values() for x in a.expressions for name in x.columns}
    inputs = query.inputs
    return tuple(map(identifier, sorted(names))) if 0 < len(names) < len(inputs) else inputs


def _rows(
    query: Query,
    values: Sequence[str],
    context: SqlContext,
    rows: Relation | None = None,
    *,
    read: frozenset[str] = frozenset(),
    beside: Sequence[str] = (),
) -> str:
    """SELECT (u0, ..., cell, k0, ..., v0, ...): the rows before anyone is bound, with values.

    rows: those of the query where they are left out. read: identifiers of further columns that are
    read; beside: SQL of what is selected too.
    """
    rows = query.rows if rows is None else rows
    rows = push_filters(rows) if isinstance(context.unit, Person) else rows
    text = relation(rows, query.names | read, context)
    ids = [identity.sql for identity in query.rows.identities]
    parts = [f"{sql} AS u{index}" for index, sql in enumerate(ids)]
    parts += ["keys.cell AS cell" if query.public_groups else "0::UTINYINT AS cell"]
    private = zip(query.private_groups, _private_names(query), strict=True)
    parts += [f"{group.found} AS {name}" for group, name in private]
    parts += [f"{sql} AS v{index}" for index, sql in enumerate(values)]
    parts += beside
    text = f"SELECT {', '.join(parts)} FROM ({text}) AS steps{_join_keys(query)}"
    if isinstance(context.unit, Person):
        present = " AND ".join(f"{sql} IS NOT NULL" for sql in ids)
        text += f" WHERE {present}"
    return text


def _public_keys(query: Query) -> KeyTable | None:
    """The public keys and the numbers of their cells."""
    groups = query.public_groups
    if not groups:
        return None
    lists = [f"unnest(${n}::{group.type}[]) AS k{n - 1}" for n, group in enumerate(groups, 1)]
    return KeyTable(
        sql=f"SELECT {', '.join(lists)}, {_numbers(query.keys)}",
        columns=tuple(list(column) for column in zip(*query.keys, strict=True)),
    )


def _numbers(cells: Sequence[object]) -> str:
    width = "UTINYINT" if len(cells) < 256 else "UINTEGER"
    return f"unnest(range({len(cells)}))::{width} AS cell"


def _join_keys(query: Query) -> str:
    """Join with the public keys: every row gets the number of its cell, or goes."""
    conditions = []
    for index, group in enumerate(query.public_groups):
        nullable = any(key[index] is None for key in query.keys)
        same = "IS NOT DISTINCT FROM" if nullable else "="
        conditions.append(f"steps.{identifier(group.name)} {same} keys.k{index}")
    return f" JOIN keys ON {' AND '.join(conditions)}" if conditions else ""


def _private_names(query: Query) -> list[str]:
    return [f"k{index}" for index, group in enumerate(query.groups) if group.private]
