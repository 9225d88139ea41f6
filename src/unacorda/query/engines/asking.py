"""How a question is asked of an engine by names, with time limits and failures that say nothing.

A relation may be read twice, so that all that is read of a question must be of the same rows: a
bounded row is a function of the table and the salt alone.

An engine is interrupted where one call takes longer than its time. Expiry leaves as any failure
does: as `EngineFailed`, of constant text. That it came depends on the data, as the running time
does: see docs/promise.md.
"""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Protocol, TypeVar

import numpy as np
from numpy.typing import NDArray

from unacorda import checks
from unacorda.errors import EngineFailed, InvalidParameter, UnsupportedConstruct
from unacorda.query.aggregates.grid_counts import Lines
from unacorda.query.engines.compile import KeyCountSql, KeyTable, Statement, compile_chosen
from unacorda.query.engines.dialects.statements import NamedTable, Translated
from unacorda.query.engines.dialects.typed import Untranslatable
from unacorda.query.engines.protocol import Admitted, Climbed, Tallies, sql_of
from unacorda.query.plan.query import Query
from unacorda.query.schema.facts import Key
from unacorda.query.schema.quoting import identifier

__all__ = [
    "EngineQuery",
    "HeldRows",
    "KeyedRows",
    "check_question",
    "check_statement",
    "check_timeout",
    "guarded",
    "interrupted_after",
    "tallied",
]


T = TypeVar("T")


class EngineQuery(Protocol):
    """The relations of one question in an engine."""

    def guarded(self, work: Callable[[], T]) -> T:
        """What the work gives; whatever it raises leaves as EngineFailed."""
        ...

    def name(
        self, name: str, sql: str, *, lists: Sequence[Sequence[object]] = (), keep: bool = False
    ) -> None:
        """Give what a statement selects a name for others; keep: it is read several times."""
        ...

    def fetch(self, sql: str, lists: Sequence[Sequence[object]] = ()) -> Mapping[str, Any]:
        """What a statement of numbers selects, by column."""
        ...

    def rows(self, sql: str, lists: Sequence[Sequence[object]]) -> list[tuple[Any, ...]]:
        """What a statement selects, line by line."""
        ...

    def columns(self, name: str) -> Mapping[str, str]:
        """The columns of a named relation, with their types."""
        ...

    def forget(self, name: str) -> None:
        """Drop a relation, of which nothing that is read is made any more."""
        ...

    def close(self) -> None:
        """Forget all relations; a second call does nothing."""
        ...


def tallied(asking: EngineQuery, statement: Statement) -> Tallies:
    """The exact integers of a statement; all is forgotten."""
    try:
        return _tally(asking, statement)
    finally:
        asking.close()


def _tally(asking: EngineQuery, statement: Statement) -> Tallies:
    """The exact integers of a statement, over rows that are bounded once."""
    _list_keys(asking, statement.keys)
    asking.name("bounded", statement.bounded, keep=statement.scans > 1)
    counted = Tallies(cells=np.zeros(0, np.int64), sums=())
    if statement.counted:
        counted = _counted(asking, statement.counts, statement.measures)
    ladders: list[Climbed] = []
    for query in statement.ladders:
        found = asking.fetch(query)
        cell, rung, people = (_integers(found[name]) for name in ("cell", "bin", "n"))
        ladders.append((cell, rung, people, _wholes(found["s"])))
    rankings: list[Lines] = []
    for query in statement.rankings:
        found = asking.fetch(query)
        cell, place, rows = (_integers(found[name]) for name in ("cell", "bin", "n"))
        rankings.append((cell, place, rows))
    return Tallies(
        cells=counted.cells, sums=counted.sums, ladders=tuple(ladders), rankings=tuple(rankings)
    )


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

    @classmethod
    def of(cls, asking: EngineQuery, bounded: str, *, keep: bool) -> HeldRows:
        """Name the rows; nothing is left behind where that fails."""
        done = False
        try:
            asking.name("bounded", bounded, keep=keep)
            done = True
            return cls(asking)
        finally:
            if not done:
                asking.close()

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

    @classmethod
    def of(cls, asking: EngineQuery, found: KeyCountSql, *, engine: object) -> KeyedRows:
        """Bind the rows and count people; nothing is left behind where that fails."""
        done = False
        try:
            _list_keys(asking, found.keys)
            asking.name("held", found.held, keep=True)
            asking.name("found", found.counted, keep=True)
            counted = asking.fetch("SELECT place, people FROM found")
            order = np.argsort(_integers(counted["place"]))
            keyed = cls(asking, _integers(counted["people"])[order], engine=engine)
            done = True
            return keyed
        finally:
            if not done:
                asking.close()

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


def check_question(
    query: Query,
    first: Statement | KeyCountSql,
    tables: Mapping[str, NamedTable],
    translate: Callable[..., Translated],
    *,
    engine: str,
) -> None:
    """Raise UnsupportedConstruct for a question that this engine would answer otherwise."""
    name = None
    try:
        held = check_statement(first, tables, translate)
        if isinstance(first, KeyCountSql):
            chosen = compile_chosen(query, unit=query.limited, places=[0], parts=[0])
            check_statement(chosen, held, translate)
    except Untranslatable as error:
        name = error.name
    if name is not None:
        raise UnsupportedConstruct(name, engine=engine)


def check_statement(
    statement: Statement | KeyCountSql,
    tables: Mapping[str, NamedTable],
    translate: Callable[..., Translated],
) -> dict[str, NamedTable]:
    """Translate all of a question without running it; gives the relations that it would name.

    Raises Untranslatable.
    """
    known = dict(tables)

    def named(name: str, sql: str) -> None:
        known[name] = NamedTable(view=name, columns=translate(sql, tables=known).columns)

    if statement.keys is not None:
        named("keys", statement.keys.sql)
    if isinstance(statement, KeyCountSql):
        named("held", statement.held)
        named("found", statement.counted)
        known.pop("keys", None)
        return known
    named("bounded", statement.bounded)
    translate(statement.counts, tables=known)
    for query in (*statement.ladders, *statement.rankings):
        translate(query, tables=known)
    return known


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
