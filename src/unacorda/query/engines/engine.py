"""What an engine runs, which questions are let in, how it is asked, and what leaves it.

**Admission.** An engine runs `Admitted` alone, which `Admission.admit` alone makes. What is charged
for a question is right for the tables, the unit, the neighboring relation and the part of the
people that it was begun with, and for no others: where any of them is another session's, it is
refused, before anything is reserved. So is a question one side of which comes from elsewhere.

**Asking.** A relation may be read twice, so that all that is read of a question must be of the same
rows: a bounded row is a function of the table and the salt alone.

An engine is interrupted where one call takes longer than its time. Expiry leaves as any failure
does: as `EngineFailed`, of constant text. That it came depends on the data, as the running time
does: see docs/promise.md.
"""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

import contextlib
import threading
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import InitVar, dataclass, replace
from typing import Any, ClassVar, Final, TypeVar, final

import numpy as np
from numpy.typing import NDArray

from unacorda import checks
from unacorda.errors import EngineFailed, InvalidParameter
from unacorda.query.aggregates.grid import Lines
from unacorda.query.engines.compile import (
    KeyCountSql,
    KeyTable,
    SqlContext,
    Statement,
    compile_chosen,
    compile_found,
    compile_query,
)
from unacorda.query.expressions.quoting import identifier
from unacorda.query.plan.public_tables import Public, PublicSelect, public_sql
from unacorda.query.plan.query import Query
from unacorda.query.plan.relation import Lookup, PeoplePart, Relation, SourceTable
from unacorda.query.schema.facts import Key
from unacorda.query.schema.sources import Fingerprint
from unacorda.query.schema.units import Unit

__all__ = [
    "Admission",
    "Admitted",
    "Climbed",
    "Engine",
    "EngineQuery",
    "HeldRows",
    "KeyedRows",
    "Tallies",
    "check_timeout",
    "find_keys",
    "guarded",
    "interrupted_after",
    "sql_of",
    "tallied",
]

T = TypeVar("T")

Climbed = tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.int64], list[int]]
"""Of one ladder: cells, rungs passed, people, and the sums of their numbers."""


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class Tallies:
    """The exact answer of the engine. Private: nothing prints it.

    cells: the numbers of the cells that have rows. sums: for each measure its integers, as the
    engine wrote them, aligned with `cells`. ladders: for each ladder the arrays (cell, bin,
    people) and the sums. rankings: for each ranking the arrays (cell, place, rows).
    """

    cells: NDArray[np.int64]
    sums: tuple[list[int], ...]
    ladders: tuple[Climbed, ...] = ()
    rankings: tuple[Lines, ...] = ()

    def __repr__(self) -> str:
        return "Tallies(...)"


class EngineQuery(ABC):
    """The relations of one question in an engine.

    timeout: after how many seconds a call is ended, by an interrupt.
    """

    def __init__(self, *, timeout: float | None, interrupt: Callable[[], object]) -> None:
        self._timeout, self._interrupt = timeout, interrupt

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
        """Give what a statement selects a name for others; keep: it is read several times."""

    @abstractmethod
    def fetch(self, sql: str, lists: Sequence[Sequence[object]] = ()) -> Mapping[str, Any]:
        """What a statement of numbers selects, by column."""

    @abstractmethod
    def rows(self, sql: str, lists: Sequence[Sequence[object]]) -> list[tuple[Any, ...]]:
        """What a statement selects, line by line."""

    @abstractmethod
    def look(self, sql: str) -> list[tuple[Any, ...]]:
        """The lines of a SELECT that reads public tables alone."""

    @abstractmethod
    def columns(self, name: str) -> Mapping[str, str]:
        """The columns of a named relation, with their types."""

    @abstractmethod
    def forget(self, name: str) -> None:
        """Drop a relation, of which nothing that is read is made any more."""

    @abstractmethod
    def close(self) -> None:
        """Forget all relations; a second call does nothing."""


class Engine(ABC):
    """Tables behind SQL. Safe to use from several threads.

    An engine says what its tables are, and begins to ask (`_begin`); what is asked, and what may
    leave, is here. narrow: whether wide rows are ordered sooner by few columns, and joined: see
    `bounding`. once: whether what WITH names as MATERIALIZED is computed a single time. schema: for
    each table the type of each column, by DuckDB's names: public. identity: the software, and what
    tells its files from others without reading them, public; of a frame, or a table of a catalogue,
    there is nothing to tell. timeout: seconds of one call.
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

    @abstractmethod
    def close(self) -> None:
        """Release everything; a second call does nothing."""

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
        return self._asked(lambda asking: find_keys(asking, found, engine=self))

    def hold(self, asked: Admitted, *, keep: bool) -> HeldRows:
        """The bounded rows of a question for several scans; EngineFailed, as `run`.

        The caller closes them. keep: whether they are computed once, where the engine can, or
        else in every scan.
        """
        bounded = sql_of(asked, self, Statement).bounded

        def held(asking: EngineQuery) -> HeldRows:
            asking.name("bounded", bounded, keep=keep)
            return HeldRows(asking)

        return self._asked(held)

    def look(self, asked: PublicSelect) -> Sequence[tuple[Any, ...]]:
        """The lines of a SELECT over a public table; EngineFailed, and TypeError, as `run`."""
        sql = public_sql(asked)

        def looked(asking: EngineQuery) -> list[tuple[Any, ...]]:
            with contextlib.closing(asking):
                return asking.look(sql)

        return self._asked(looked)

    def _asked(self, work: Callable[[EngineQuery], T]) -> T:
        """What the work gives with relations of its own, of which a failure leaves none behind.

        Raises EngineFailed, of constant text.
        """

        def asked() -> T:
            asking = self._begin()
            try:
                return asking.limited(lambda: work(asking))
            except BaseException:
                asking.close()
                raise

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


def sql_of(asked: object, engine: object, kind: type[_SQL]) -> _SQL:
    """The SQL that an engine may run.

    Raises TypeError for all that was not admitted to a session of this engine.
    """
    if isinstance(asked, Admitted) and asked.engine is engine and isinstance(asked.sql, kind):
        return asked.sql
    raise TypeError("an engine runs the questions that a session of its own admits, alone")


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Admission:
    """What a session lets in: questions about its tables, for its unit, on its engine.

    starts: by table the rows that questions begin with, those of its part where it is one.
    """

    engine: Engine
    starts: Mapping[str, Relation]
    unit: Unit

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
        if not self._owns(query.rows) or query.unit != self.unit.in_table(first):
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
        return self.check(query)

    def admit(self, query: Query, *, salt: int) -> Admitted:
        """What the engine may run for a question that was asked here; raises as `asked`.

        salt: of 128 bits, drawn for this question.
        """
        query = self.asked(query)
        compiled = compile_query if query.private is None else compile_found
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
        return all(map(self._owns, rows.sides)) and not any(
            isinstance(step, PeoplePart)
            or (isinstance(step, Lookup) and step.public is not self._public.get(step.table))
            for step in steps
        )

    @property
    def _public(self) -> Mapping[str, Public]:
        return next(iter(self.starts.values())).public


def tallied(asking: EngineQuery, statement: Statement) -> Tallies:
    """The exact integers of a statement; all is forgotten."""
    with contextlib.closing(asking):
        return _tally(asking, statement)


def _tally(asking: EngineQuery, statement: Statement) -> Tallies:
    """The exact integers of a statement, over rows that are bounded once."""
    _list_keys(asking, statement.keys)
    asking.name("bounded", statement.bounded, keep=statement.scans > 1)
    counted = Tallies(cells=np.zeros(0, np.int64), sums=())
    if statement.counted:
        counted = _counted(asking, statement.counts, statement.measures)
    ladders = [asking.fetch(query) for query in statement.ladders]
    return replace(
        counted,
        ladders=tuple((*_lines(found), _wholes(found["s"])) for found in ladders),
        rankings=tuple(_lines(asking.fetch(query)) for query in statement.rankings),
    )


def _lines(found: Mapping[str, Any]) -> Lines:
    cell, place, number = (_integers(found[name]) for name in ("cell", "bin", "n"))
    return cell, place, number


def _counted(asking: EngineQuery, counts: str, measures: int) -> Tallies:
    columns = asking.fetch(counts)
    sums = tuple(_wholes(columns[f"a{index}"]) for index in range(measures))
    return Tallies(cells=_integers(columns["cell"]), sums=sums)


def _list_keys(asking: EngineQuery, keys: KeyTable | None) -> None:
    """Hold the listed keys of a question as the relation `keys`."""
    if keys is not None:
        asking.name("keys", keys.sql, lists=keys.columns)


class HeldRows:
    """The bounded rows of a fit."""

    def __init__(self, asking: EngineQuery) -> None:
        self._asking = asking

    def keep(self, name: str, sql: str) -> None:
        """Hold what is selected under a name; EngineFailed, of constant text, if anything fails."""
        self._asking.guarded(lambda: self._kept(name, sql))

    def _kept(self, name: str, sql: str) -> None:
        self._asking.name(name, sql, keep=True)
        # Computed now, so that what it is made of can be forgotten.
        self._asking.fetch(f"SELECT count(*) AS n FROM {name}")

    def forget(self, name: str) -> None:
        """Hold these rows no longer; EngineFailed, of constant text, if anything fails."""
        self._asking.guarded(lambda: self._asking.forget(name))

    def run(self, counts: str, *, measures: int) -> Tallies:
        """The exact integers of one scan; EngineFailed, of constant text, if anything fails."""
        return self._asking.guarded(lambda: _counted(self._asking, counts, measures))

    def close(self) -> None:
        """Forget all rows; a second call does nothing."""
        self._asking.close()


class KeyedRows:
    """The bounded rows of a question with private keys, and the people behind each key."""

    def __init__(self, asking: EngineQuery, people: NDArray[np.int64], *, engine: object) -> None:
        self._asking, self.people, self._engine = asking, people, engine

    def keys(self, places: Sequence[int]) -> list[tuple[Key, ...]]:
        """The keys at rising places, in their order; EngineFailed, as `run`."""
        return self._asking.guarded(lambda: self._listed(places))

    def _listed(self, places: Sequence[int]) -> list[tuple[Key, ...]]:
        names = [n for n in self._asking.columns("found") if n not in ("place", "people")]
        listed = "".join(f", found.{identifier(name)}" for name in names)
        query = (
            f"SELECT found.place AS place{listed} FROM found "
            "JOIN (SELECT unnest($1::BIGINT[]) AS place) AS asked ON found.place = asked.place"
        )
        rows = self._asking.rows(query, [list(places)])
        return [tuple(key) for _, *key in sorted(rows, key=lambda row: row[0])]

    def run(self, asked: Admitted) -> Tallies:
        """The exact integers of the question; EngineFailed, as `Engine.run`."""
        statement = sql_of(asked, self._engine, Statement)
        return self._asking.guarded(lambda: _tally(self._asking, statement))

    def close(self) -> None:
        """Forget the rows; a second call does nothing."""
        self._asking.close()


def find_keys(asking: EngineQuery, found: KeyCountSql, *, engine: object) -> KeyedRows:
    """Bind the rows and count the people behind each key."""
    _list_keys(asking, found.keys)
    asking.name("held", found.held, keep=True)
    asking.name("found", found.counted, keep=True)
    counted = asking.fetch("SELECT place, people FROM found")
    order = np.argsort(_integers(counted["place"]))
    return KeyedRows(asking, _integers(counted["people"])[order], engine=engine)


def _integers(column: Any) -> NDArray[np.int64]:
    if isinstance(column, np.ndarray):
        column = np.ma.getdata(column)
    return np.asarray(column, dtype=np.int64)


def _wholes(column: Any) -> list[int]:
    """Integers of any size; NULL, the sum of nothing, is 0."""
    return [0 if value is None or value is np.ma.masked else int(value) for value in column]


_AGAIN = 0.05  # seconds; an interrupt between two statements stops neither
_LONGEST = 10_000_000.0  # seconds; what threads can wait for has an end


def check_timeout(timeout: object) -> float | None:
    """The seconds; InvalidParameter for what is no number of them, or None."""
    if timeout is None:
        return None
    expected = f"seconds, above 0 and at most {_LONGEST:,.0f}, or None"
    try:
        seconds = checks.positive(timeout=timeout)  # type: ignore[arg-type]
    except InvalidParameter:
        seconds = 2 * _LONGEST
    if seconds > _LONGEST:
        raise InvalidParameter("timeout", timeout, expected=expected)
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
    if late.is_set():
        raise TimeoutError


def guarded(work: Callable[[], T]) -> T:
    """What the work gives; whatever it raises leaves as EngineFailed, or as an interrupt."""
    interrupted = failed = False
    try:
        return work()
    except KeyboardInterrupt:
        interrupted = True
    except Exception:  # noqa: BLE001  # whatever it is, it may show a row
        failed = True
    # Raised out here so that neither __cause__ nor __context__ holds the engine's error.
    if interrupted:
        raise KeyboardInterrupt
    assert failed
    raise EngineFailed
