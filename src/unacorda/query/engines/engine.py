"""What an engine runs, which questions are let in, how it is asked, and what leaves it.

**Opening.** DuckDB is in this process; others are imported only where they are used.

**Admission.** An engine runs `Admitted` alone, which `Admission.admit` alone makes. What is charged
for a question is right for the tables, the unit, the neighboring relation and the part of the
people that it was begun with, and for no others: where any of them is another session's, it is
refused, before anything is reserved. So is a question one side of which comes from elsewhere.

**Asking.** A relation may be read twice, so that all that is read of a question must be of the same
rows: a bounded row is a function of the table and the salt alone.

**Counting.** Where all keys are public, the engine is asked once. Where some are private, it bounds
the rows and counts the people behind every key that anyone has; a rule names keys by these counts
alone; then the named ones are read, and counted by cell over the same bounded rows. Of the others
nothing leaves the engine but how many people they have, which goes into the rule and no further.

An engine is interrupted where one call takes longer than its time. Expiry leaves as any failure
does: as `EngineFailed`, of constant text. That it came depends on the data, as the running time
does: see docs/promise.md.
"""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

import contextlib
import functools
import importlib
import threading
import time
import weakref
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import InitVar, dataclass, replace
from typing import Any, ClassVar, Final, NamedTuple, TypeVar, final

import numpy as np

from unacorda import checks
from unacorda.addresses import shown
from unacorda.bits import RandomBits
from unacorda.errors import EngineFailed, InvalidParameter, SourceUnreadable, UnacordaError
from unacorda.query.aggregates.base import Answer, Exact
from unacorda.query.aggregates.grid import GridCounts, Integers, Lines, Ranking
from unacorda.query.aggregates.measures import Climbers, Thresholds
from unacorda.query.allocation import Allocation
from unacorda.query.engines.compile import (
    KeyCountSql,
    KeyTable,
    SqlContext,
    Statement,
    StepRange,
    compile_chosen,
    compile_found,
    compile_query,
    compile_steps,
)
from unacorda.query.noise.selection import KeyRule
from unacorda.query.plan.query import Query
from unacorda.query.plan.relation import Lookup, PeoplePart, Relation, SourceTable
from unacorda.query.schema.keys import Key
from unacorda.query.schema.sources import Fingerprint, PublicSelect, public_sql
from unacorda.query.schema.units import Unit

T = TypeVar("T")

Climbed = tuple[Integers, Integers, Integers, list[int]]
"""Of one ladder: cells, rungs passed, people, and the sums of their numbers."""


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class Tallies:
    """The exact answer of the engine. Private: nothing prints it.

    cells: the numbers of the cells that have rows. sums: for each measure its integers, as the
    engine wrote them, aligned with `cells`. ladders: for each ladder the arrays (cell, bin,
    people) and the sums. rankings: for each ranking the arrays (cell, place, rows).
    """

    cells: Integers
    sums: tuple[list[int], ...]
    ladders: tuple[Climbed, ...] = ()
    rankings: tuple[Lines, ...] = ()


class EngineQuery(ABC):
    """The relations of one question in an engine.

    timeout: after how many seconds a call is ended, by an interrupt.
    """

    def __init__(self, *, timeout: float | None, interrupt: Callable[[], object]) -> None:
        self._timeout, self._interrupt = timeout, interrupt

    def interrupt(self) -> None:
        """End what runs now, if anything does."""
        with contextlib.suppress(Exception):  # it may have ended, or be closed
            self._interrupt()

    def limited(self, work: Callable[[], T]) -> T:
        """What the work gives, unless it takes too long."""
        with interrupted_after(self._timeout, self._interrupt):
            return work()

    def guarded(self, work: Callable[[], T]) -> T:
        """What the work gives; EngineFailed where it raises, or takes too long."""
        return guarded(lambda: self.limited(work))

    @abstractmethod
    def name(
        self, name: str, sql: str, *, lists: Sequence[Sequence[object]] = (), keep: bool = False
    ) -> None:
        """Give what a statement selects a name for others, in the place of what had it before.

        lists: the values of its parameters. keep: it is read several times.
        """

    @abstractmethod
    def fetch(self, sql: str, lists: Sequence[Sequence[object]] = ()) -> Mapping[str, Any]:
        """What a statement of numbers selects, by column; whole ones of any size as `int` reads."""

    @abstractmethod
    def rows(
        self, sql: str, lists: Sequence[Sequence[object]] = (), *, public: bool = False
    ) -> list[tuple[Any, ...]]:
        """What a statement selects, line by line, in Python's own values, as DuckDB gives them.

        public: it reads public tables alone.
        """

    @abstractmethod
    def forget(self, name: str) -> None:
        """Drop a relation, of which nothing that is read is made any more."""

    @abstractmethod
    def close(self) -> None:
        """Forget all relations; a second call does nothing."""


class Engine(ABC):
    """Tables behind SQL. Safe to use from several threads.

    An engine says what its tables are, and begins to ask (`_begin`); what is asked, and what may
    leave, is here. Opening it fills `schema`, `identity`, the relation of each table (`_scans`) and
    the files that may not change (`_files`). narrow: whether wide rows are ordered sooner by few
    columns, and joined: see `bounding`. once: whether what WITH names as MATERIALIZED is computed a
    single time. schema: for each table the type of each column, by DuckDB's names: public.
    identity: the software, and what tells its files from others without reading them, public; of a
    frame, or a table of a catalogue, there is nothing to tell. timeout: seconds of one call.
    """

    narrow: ClassVar[bool] = False
    once: ClassVar[bool] = True
    identity: Sequence[str]

    def __init__(self, *, timeout: float | None) -> None:
        self.schema: dict[str, Mapping[str, str]] = {}
        self._timeout = timeout
        self._scans: dict[str, str] = {}
        self._files: list[Fingerprint] = []
        self._lock = threading.Lock()
        self._asking: weakref.WeakSet[EngineQuery] = weakref.WeakSet()
        self._closed = False

    @property
    def room(self) -> float:
        """How many numbers of rows may be kept while as many more are computed; 0 where none."""
        return 0.0

    def scan(self, table: str) -> str:
        """SQL of the relation that holds a table."""
        return self._scans[table]

    def check_open(self) -> None:
        """Raise EngineFailed, of a question that was not asked, if it is closed. Reads no data."""
        if self._closed:
            raise EngineFailed(asked=False)

    def check_sources(self) -> None:
        """Raise SourceChanged if a table is not the one that was opened. Reads no data."""
        for file in self._files:
            file.check()

    @abstractmethod
    def check(self, query: Query, first: Statement | KeyCountSql) -> None:
        """Raise UnsupportedConstruct for a question that this engine cannot answer alike."""

    def close(self) -> None:
        """Release everything; a second call does nothing."""
        self._closed = True

    def interrupt(self) -> None:
        """End what runs now: it fails as after its timeout. What is asked later is not affected."""
        with self._lock:
            running = list(self._asking)
        for one in running:
            one.interrupt()

    @abstractmethod
    def _begin(self) -> EngineQuery:
        """The relations of a new question, none yet."""

    def run(self, asked: Admitted) -> Tallies:
        """The exact integers of a question; EngineFailed, of constant text, if anything fails.

        Raises TypeError for what no session of this engine admitted, as `find` and `hold` do.
        """
        statement = sql_of(asked, self, Statement)
        return self._asked(lambda asking: tallied(asking, statement))

    def find(self, asked: Admitted) -> KeyedRows:
        """Bounded rows and the people behind each private key; EngineFailed, as `run`.

        The caller closes it.
        """
        found = sql_of(asked, self, KeyCountSql)
        return self._asked(lambda asking: find_keys(asking, found, engine=self), stay=True)

    def hold(self, asked: Admitted, *, keep: bool, answered: Callable[[], object]) -> HeldRows:
        """The bounded rows of a question for several scans; EngineFailed, as `run`.

        The caller closes them. keep: whether they are computed once, where the engine can, or
        else in every scan. answered: called after each answer, before anyone looks at it.
        """
        bounded = sql_of(asked, self, Statement).bounded

        def held(asking: EngineQuery) -> HeldRows:
            asking.name("bounded", bounded, keep=keep)
            return HeldRows(asking, answered)

        return self._asked(held, stay=True)

    def look(self, asked: PublicSelect) -> Sequence[tuple[Any, ...]]:
        """The lines of a SELECT over a public table; EngineFailed, and TypeError, as `run`."""
        sql = public_sql(asked)
        return self._asked(lambda asking: asking.rows(sql, public=True))

    def _asked(self, work: Callable[[EngineQuery], T], *, stay: bool = False) -> T:
        """What the work gives with relations of its own; stay: unless it fails, they do.

        Raises EngineFailed, of constant text.
        """

        def asked() -> T:
            with contextlib.ExitStack() as stack:
                asking = stack.enter_context(contextlib.closing(self._begin()))
                with self._lock:
                    self._asking.add(asking)
                found = asking.limited(lambda: work(asking))
                if stay:
                    stack.pop_all()
                return found

        return guarded(asked)


_SQL = TypeVar("_SQL", Statement, KeyCountSql)
_KEY: Final = object()


@final
@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Admitted:
    """A question of a session, and its SQL for the session's engine. Only `admit` makes one."""

    query: Query
    engine: Engine
    sql: Statement | KeyCountSql
    key: InitVar[object]

    def __post_init__(self, key: object) -> None:
        if key is not _KEY:
            raise TypeError("what an engine runs is made by Admission.admit alone")

    def chosen(self, *, places: Sequence[int], parts: Sequence[int]) -> Admitted:
        """The same question, whose private keys have been found; as `compile_chosen`."""
        query = self.query
        sql = compile_chosen(query, unit=query.limited, places=places, parts=parts)
        return Admitted(query=query, engine=self.engine, sql=sql, key=_KEY)

    def run(self, kept: contextlib.ExitStack) -> ScanResult:
        """Read the table; rows that are still asked for are kept as long as the stack is open."""
        if isinstance(self.sql, KeyCountSql):
            return kept.enter_context(contextlib.closing(self.engine.find(self)))
        return self.engine.run(self)


def sql_of(asked: object, engine: object, kind: type[_SQL]) -> _SQL:
    """The SQL that an engine may run.

    Raises TypeError for all that was not admitted to a session of this engine.
    """
    if isinstance(asked, Admitted) and asked.engine is engine and isinstance(asked.sql, kind):
        return asked.sql
    raise TypeError("an engine runs the questions that a session of its own admits, alone")


@dataclass(frozen=True, slots=True, kw_only=True)
class QuestionLimits:
    """How large a question, or a batch of them, may be: by what was written alone.

    most_aggregates: so many answers at most; most_cells: so many numbers in a release, of every
    line, level and part of an answer; where keys are found, for each of them. None for no limit.
    """

    most_aggregates: int | None = None
    most_cells: int | None = None

    def __post_init__(self) -> None:
        for name in ("most_aggregates", "most_cells"):
            if getattr(self, name) is not None:
                checks.positive_integer(**{name: getattr(self, name)})

    def check(self, queries: Sequence[Query]) -> None:
        """Raise InvalidParameter for questions that are together larger."""
        answers = sum(len(query.aggregates) - len(query.aside) for query in queries)
        self._check(answers, self.most_aggregates, "aggregates")
        if self.most_cells is not None:
            for count in (lambda query: len(query.keys), lambda query: query.numbers):
                # What has many keys is refused before its levels are counted.
                self._check(sum(map(count, queries)), self.most_cells, "numbers in a release")

    @staticmethod
    def _check(size: int, most: int | None, things: str) -> None:
        expected = f"at most {most} {things}: ask fewer or smaller questions together"
        checks.demand(most is None or size <= most, "query", f"{size:,}", expected=expected)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Admission:
    """What a session lets in: questions about its tables, for its unit, on its engine.

    starts: by table the rows that questions begin with, those of its part where it is one.
    limits: on the size of a question.
    """

    engine: Engine
    starts: Mapping[str, Relation]
    unit: Unit
    limits: QuestionLimits

    def begin(self, name: str) -> Query:
        """A question about one table; InvalidParameter where there is none of that name."""
        if not checks.is_text(name) or name not in self.starts:
            known = ", ".join(self.starts)
            raise InvalidParameter("table", name, expected=f"one of the session's tables: {known}")
        return Query(rows=self.starts[name], unit=self.unit.in_table(name))

    def begun(self, table: object) -> Query:
        """A question about a table of this name, or one that was begun here already."""
        if not isinstance(table, Query):
            return self.begin(table)  # type: ignore[arg-type]  # which it refuses
        return self.check(table, argument="table")

    def check(self, query: Query, *, argument: str = "query") -> Query:
        """The question, if it was begun here, all sides of it; InvalidParameter otherwise."""
        first = query.rows.tables[0].name
        if not self._owns(query.rows) or not query.unit.alike(self.unit.in_table(first)):
            raise InvalidParameter(
                argument,
                query.scope.table,
                expected="a question begun with this session's table(...)",
            )
        return query

    def asked(self, query: object) -> Query:
        """A question that was begun here, and ended with `agg`; InvalidParameter otherwise."""
        if not isinstance(query, Query) or not query.aggregates:
            raise InvalidParameter(
                "query", query, expected="session.table(...)....agg(n=unacorda.count(), ...)"
            )
        self.limits.check([query])
        return self.check(query)

    def admit(self, query: Query, *, salt: int, over: StepRange | None = None) -> Admitted:
        """What the engine may run for a question that was asked here; raises as `asked`.

        salt: of 128 bits, drawn for this question. over: that its cells are counted step by step,
        and who counts is decided over time.
        """
        query = self.asked(query)
        compiled: Callable[[Query, SqlContext], Statement | KeyCountSql]
        compiled = compile_query if query.private is None else compile_found
        if over is not None:
            compiled = functools.partial(compile_steps, over=over)
        context = SqlContext(
            unit=query.limited,
            scan=self.engine.scan,
            salt=salt,
            narrow=self.engine.narrow,
            once=self.engine.once,
        )
        sql = compiled(query, context)
        return Admitted(query=query, engine=self.engine, sql=sql, key=_KEY)

    def _owns(self, rows: Relation) -> bool:
        """Whether all tables are these, each after the steps that it begins with, and no part."""
        steps = rows.steps
        if isinstance(rows.source, SourceTable):
            start = self.starts.get(rows.source.name)
            # A scope is made once, when a session is opened: no other session has the same.
            if start is None or rows.source.scope is not start.scope:
                return False
            if steps[: len(start.steps)] != start.steps:
                return False
            steps = steps[len(start.steps) :]
        public = next(iter(self.starts.values())).public
        return all(map(self._owns, rows.sides)) and not any(
            isinstance(step, PeoplePart)
            or (isinstance(step, Lookup) and step.public is not public.get(step.table))
            for step in steps
        )


def admitted(
    admission: Admission, query: Query, *, salt: int, over: StepRange | None = None
) -> Admitted:
    """A question that its engine has all constructs of; UnsupportedConstruct for another."""
    asked = admission.admit(query, salt=salt, over=over)
    asked.engine.check(query, asked.sql)
    return asked


def tallied(asking: EngineQuery, statement: Statement) -> Tallies:
    """The exact integers of a statement, over rows that are bounded once."""
    list_keys(asking, statement.keys)
    asking.name("bounded", statement.bounded, keep=statement.scans > 1)
    counted = Tallies(cells=np.zeros(0, np.int64), sums=())
    if statement.counted:
        counted = _counted(asking, statement.counts, statement.of_rows)
    if statement.people is not None:
        people = _counted(asking, statement.people, statement.of_people)
        counted = _merged(counted, people, [*statement.of_rows, *statement.of_people])
    ladders = [asking.fetch(query) for query in statement.ladders]
    return replace(
        counted,
        ladders=tuple((*_lines(found), _wholes(found["s"])) for found in ladders),
        rankings=tuple(_lines(asking.fetch(query)) for query in statement.rankings),
    )


def _lines(found: Mapping[str, Any]) -> Lines:
    cell, place, number = (_integers(found[name]) for name in ("cell", "bin", "n"))
    return cell, place, number


def _counted(asking: EngineQuery, counts: str, measures: Iterable[int]) -> Tallies:
    columns = asking.fetch(counts)
    sums = tuple(_wholes(columns[f"a{index}"]) for index in measures)
    return Tallies(cells=_integers(columns["cell"]), sums=sums)


def _merged(one: Tallies, other: Tallies, order: Sequence[int]) -> Tallies:
    """The integers of both, by all cells of either; order: the number of each measure."""
    cells = np.union1d(one.cells, other.cells)
    size = len(cells)
    sums = [
        _by_cell(np.searchsorted(cells, part.cells), column, size)
        for part in (one, other)
        for column in part.sums
    ]
    return Tallies(cells=cells, sums=tuple(sums[order.index(n)] for n in range(len(order))))


def list_keys(asking: EngineQuery, keys: KeyTable | None) -> None:
    """Hold the listed keys of a question as the relation `keys`."""
    if keys is not None:
        asking.name("keys", keys.sql, lists=keys.columns)


class HeldRows:
    """The bounded rows of several scans. Each call raises EngineFailed, of constant text."""

    def __init__(self, asking: EngineQuery, answered: Callable[[], object]) -> None:
        self._asking, self._answered = asking, answered

    def name(self, name: str, sql: str) -> None:
        """Give what is selected a name; it is computed in every scan."""
        self._asking.guarded(lambda: self._asking.name(name, sql))

    def keep(self, name: str, sql: str) -> None:
        """Hold what is selected under a name."""

        def kept() -> None:
            self._asking.name(name, sql, keep=True)
            # Computed now, so that what it is made of can be forgotten.
            self._asking.fetch(f"SELECT count(*) AS n FROM {name}")

        self._asking.guarded(kept)

    def forget(self, name: str) -> None:
        """Hold these rows no longer."""
        self._asking.guarded(lambda: self._asking.forget(name))

    def run(self, counts: str, *, measures: int) -> Tallies:
        """The exact integers of one scan."""
        return self._answer(lambda: _counted(self._asking, counts, range(measures)))

    def ranked(self, ranking: Ranking, *, unit: Unit) -> GridCounts:
        """Rows by their place on a grid, in a single cell."""
        lines = self._answer(lambda: _lines(self._asking.fetch(ranking.sql(unit))))
        return GridCounts.of(ranking.steps, 1, lines)

    def keyed(self, counted: str, *, value: str) -> KeyedRows:
        """Private keys and the people who have each; counted: as of `KeyCountSql`.

        value: the column of the keys. They are held until others are.
        """

        def found() -> KeyedRows:
            self._asking.name("found", counted, keep=True)
            return KeyedRows(
                self._asking, _people(self._asking), names=[value], engine=self._asking
            )

        return self._answer(found)

    def close(self) -> None:
        """Forget all rows; a second call does nothing."""
        guarded(self._asking.close)

    def _answer(self, work: Callable[[], T]) -> T:
        """What the engine gives."""
        found = self._asking.guarded(work)
        self._answered()
        return found


class KeyedRows:
    """The bounded rows of a question with private keys, and the people behind each key.

    names: the columns of the keys.
    """

    def __init__(
        self, asking: EngineQuery, people: Integers, *, names: Sequence[str], engine: object
    ) -> None:
        self._asking, self.people, self._names, self._engine = asking, people, names, engine

    def keys(self, places: Sequence[int]) -> list[tuple[Key, ...]]:
        """The keys at rising places, in their order; EngineFailed, as `run`."""
        listed = "".join(f", found.{name}" for name in self._names)
        query = (
            f"SELECT found.place AS place{listed} FROM found "
            "JOIN (SELECT unnest($1::BIGINT[]) AS place) AS asked ON found.place = asked.place"
        )
        rows = self._asking.guarded(lambda: self._asking.rows(query, [list(places)]))
        return [tuple(key) for _, *key in sorted(rows, key=lambda row: row[0])]

    def run(self, asked: Admitted) -> Tallies:
        """The exact integers of the question; EngineFailed, as `Engine.run`."""
        statement = sql_of(asked, self._engine, Statement)
        return self._asking.guarded(lambda: tallied(self._asking, statement))

    def close(self) -> None:
        """Forget the rows; a second call does nothing."""
        guarded(self._asking.close)


ScanResult = Tallies | KeyedRows
"""What came of what is asked of the table itself."""


def find_keys(asking: EngineQuery, found: KeyCountSql, *, engine: object) -> KeyedRows:
    """Bind the rows and count the people behind each key."""
    list_keys(asking, found.keys)
    for name, sql in found.named.items():
        asking.name(name, sql, keep=True)
    return KeyedRows(asking, _people(asking), names=found.names, engine=engine)


def _people(asking: EngineQuery) -> Integers:
    """The people who have each key, by the places of the keys."""
    counted = asking.fetch("SELECT place, people FROM found")
    order = np.argsort(_integers(counted["place"]))
    return _integers(counted["people"])[order]


def _integers(column: Any) -> Integers:
    if isinstance(column, np.ndarray):
        column = np.ma.getdata(column)
    return np.asarray(column, dtype=np.int64)


def _wholes(column: Any) -> list[int]:
    """Integers of any size; NULL, the sum of nothing, is 0."""
    return [0 if value is None or value is np.ma.masked else int(value) for value in column]


def answers_of(
    query: Query, allocation: Allocation, exact: Mapping[str, Exact], bits: RandomBits
) -> dict[str, Answer]:
    """The noisy answers, by the names of their columns; exact: what each aggregate is given."""
    answers: dict[str, Answer] = {}
    for name, aggregate in query.aggregates.items():
        found = aggregate.answers(exact[name], allocation.noises[name], bits)
        if aggregate.overall:
            lines = [0] * (len(query.released_keys) * query.lines)
            found = {part: answer.picked(lines) for part, answer in found.items()}
        answers |= {f"{name}{part}": answer for part, answer in found.items()}
    return answers


def exact_by_name(query: Query, tallies: Tallies) -> dict[str, Exact]:
    """The engine's integers that each aggregate of a question reads, by its name. Private.

    By cell, in the order of the public keys; no rows count as 0.
    """
    cells = len(query.keys)
    columns = [_by_cell(tallies.cells, column, cells) for column in tallies.sums]
    sums = dict(zip(query.measures, columns, strict=True))
    ranked = zip(query.rankings, tallies.rankings, strict=True)
    rankings = {one: GridCounts.of(one.steps, cells, lines) for one, lines in ranked}
    climbed = zip(query.ladders, tallies.ladders, strict=True)
    people = {one: _climbers(one, cells, tally) for one, tally in climbed}
    return {
        name: Exact(
            sums=tuple(sums[measure] for measure in reads.measures),
            rankings=tuple(rankings[ranking] for ranking in reads.rankings),
            people=tuple(people[ladder] for ladder in reads.ladders),
        )
        for name, reads in query.reads.items()
    }


def _by_cell(cells: Integers, numbers: Sequence[int], size: int) -> list[int]:
    column = [0] * size
    for cell, value in zip(cells.tolist(), numbers, strict=True):
        column[cell] = value
    return column


def _climbers(ladder: Thresholds, cells: int, tally: Climbed) -> Climbers:
    """The people of every cell by rungs passed; no people count as 0."""
    cells = 1 if ladder.overall else cells
    people = np.zeros((cells, len(ladder.rungs) + 1), dtype=np.int64)
    totals: list[dict[int, int]] = [{} for _ in range(cells)]
    at, passed, count, sums = tally
    people[at, passed] = count
    for cell, rung, total in zip(at.tolist(), passed.tolist(), sums, strict=True):
        totals[cell][rung] = total
    return Climbers(people=people, totals=totals)


def select_keys(
    asked: Admitted, result: ScanResult, *, rule: KeyRule | None, bits: RandomBits
) -> tuple[Query, Tallies]:
    """The question with all its keys, and the exact integers of its cells.

    rule: how private keys are found; this is where they are, so that a charge has been committed.
    """
    if isinstance(result, Tallies):
        return asked.query, result
    assert rule is not None
    answered, places, parts = with_found_keys(asked.query, result, rule=rule, bits=bits)
    return answered, result.run(asked.chosen(places=places, parts=parts))


def with_found_keys(
    query: Query, keyed: KeyedRows, *, rule: KeyRule, bits: RandomBits
) -> tuple[Query, list[int], list[int]]:
    """The question with the keys that a rule finds; of each cell the place and the public cell.

    Cells are sorted column by column: public keys as they were listed, private ones by value (text
    by code point), NULL last.
    """
    # Places are in the order of the keys: which are left out is a function of the chosen ones.
    kept = np.flatnonzero(rule.kept(keyed.people, bits=bits))[: query.most_found].tolist()
    listed = map(dict.fromkeys, zip(*query.keys, strict=True))
    ranks = [
        None if group.private else {key: rank for rank, key in enumerate(next(listed))}
        for group in query.groups
    ]
    cells = []
    for place, found in zip(kept, keyed.keys(kept), strict=True):
        for part, public in enumerate(query.keys):
            private, given = iter(found), iter(public)
            key = tuple(next(private if group.private else given) for group in query.groups)
            cells.append((tuple(map(_turn, key, ranks)), key, place, part))
    cells.sort(key=lambda cell: cell[0])
    return (
        query.with_keys(tuple(key for _, key, _, _ in cells)),
        [place for _, _, place, _ in cells],
        [part for _, _, _, part in cells],
    )


def _turn(key: Key, ranks: Mapping[Key, int] | None) -> tuple[bool, Key]:
    """Where a key stands among those of its column; ranks: those of the listed ones."""
    if ranks is not None:
        return False, ranks[key]
    return key is None, 0 if key is None else key


_AGAIN = 0.05  # seconds; an interrupt between two statements stops neither
_LONGEST = 10_000_000.0  # seconds; what threads can wait for has an end


def check_timeout(timeout: object) -> float | None:
    """The seconds; InvalidParameter for what is no number of them, or None."""
    if timeout is None:
        return None
    expected = f"seconds, above 0 and at most {_LONGEST:,.0f}, or None"
    seconds = 2 * _LONGEST
    with contextlib.suppress(InvalidParameter):
        seconds = checks.positive(timeout=timeout)  # type: ignore[arg-type]
    checks.demand(seconds <= _LONGEST, "timeout", timeout, expected=expected)
    return seconds


@contextlib.contextmanager
def interrupted_after(seconds: float | None, interrupt: Callable[[], object]) -> Iterator[None]:
    """Interrupt what runs inside once it has run so long, again and again until it ends.

    Raises TimeoutError at its end where it ended by itself, but late. None: never.
    """
    if seconds is None:
        yield
        return
    ended, late = threading.Event(), threading.Event()
    began = time.monotonic()

    def watch() -> None:
        pause = seconds
        while not ended.wait(pause):
            late.set()
            with contextlib.suppress(Exception):  # it may have ended, or be closed
                interrupt()
            pause = _AGAIN

    watcher = threading.Thread(target=watch, name="unacorda timeout", daemon=True)
    watcher.start()
    try:
        yield
    finally:
        ended.set()
        watcher.join()  # so that nothing that runs later is interrupted
    # The watcher may have had no turn in so short a time.
    if late.is_set() or time.monotonic() - began > seconds:
        raise TimeoutError


def guarded(work: Callable[[], T]) -> T:
    """What the work gives; whatever it raises leaves as EngineFailed, or as an interrupt."""
    failure: type[BaseException] = EngineFailed
    try:
        return work()
    except KeyboardInterrupt:
        failure = KeyboardInterrupt
    except Exception:  # noqa: BLE001, S110  # whatever it is, it may show a row
        pass
    raise failure  # out here, so that neither __cause__ nor __context__ holds the engine's error


def opening(work: Callable[[], T], *, otherwise: str) -> T:
    """What the work gives; SourceUnreadable of these words for what a library raises in it.

    Its own text may show a value, so that nothing of it is held.
    """
    try:
        return work()
    except UnacordaError:
        raise
    except Exception:  # noqa: BLE001, S110  # see above
        pass
    raise SourceUnreadable(otherwise)


class EngineKind(NamedTuple):
    """An engine that sessions can have.

    place: its class in this package, as module.class. described: what `Session(engine=)` takes for
    it. takes: whether a value is that. argument: what its class calls the value, "" where it has
    options instead.
    """

    place: str
    described: str
    takes: Callable[[object], bool]
    argument: str = ""

    def opened(
        self, engine: object, tables: Mapping[str, Any], options: Mapping[str, Any]
    ) -> Engine:
        """The engine over these tables; imports it."""
        module, _, name = self.place.partition(".")
        made = getattr(importlib.import_module(f"unacorda.query.engines.{module}"), name)
        own = {self.argument: engine} if self.argument else {}
        opened: Engine = made(tables, **own, **options)
        return opened


def _from(package: str) -> Callable[[object], bool]:
    return lambda engine: type(engine).__module__.partition(".")[0] == package


_POSTGRES = ("postgresql://", "postgres://", "postgresql+psycopg://")
_sqlalchemy = _from("sqlalchemy")

ENGINES = (
    EngineKind("duckdb.DuckDB", "'duckdb'", lambda it: isinstance(it, str) and it == "duckdb"),
    EngineKind("spark.Spark", "a SparkSession", _from("pyspark"), "spark"),
    EngineKind(
        "postgres.Postgres",
        "'postgresql://user@host/database' or a SQLAlchemy Engine of such a database",
        lambda it: it.startswith(_POSTGRES) if isinstance(it, str) else _sqlalchemy(it),
        "server",
    ),
)
"""All engines: a new one is a line of this table. No library is imported for it."""


def open_engine(
    engine: object, tables: Mapping[str, Any], *, timeout: float | None, **options: object
) -> Engine:
    """The opened engine.

    timeout: after how many seconds a call of it is interrupted. options: of DuckDB, None where they
    are left out. Raises InvalidParameter for what is no engine, and for an option of another one,
    SourceUnreadable, and MissingExtra for one that is not installed.
    """
    kind = next((kind for kind in ENGINES if kind.takes(engine)), None)
    if kind is None:
        raise InvalidParameter(
            "engine", shown(engine), expected=", ".join(kind.described for kind in ENGINES)
        )
    given = {name: value for name, value in options.items() if value is not None}
    for name, value in given.items():
        checks.demand(not kind.argument, name, value, expected="engine='duckdb' with it")
    return kind.opened(engine, tables, {"timeout": timeout, **given})
