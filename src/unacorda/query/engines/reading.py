"""Counts as DuckDB hands them over, failures that say nothing, and time limits.

An engine is interrupted where one call takes longer than its time. Expiry leaves as any failure
does: as `EngineFailed`, of constant text. That it came depends on the data, as the running time
does: see docs/promise.md.
"""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager
from typing import Any, TypeVar

import duckdb
import numpy as np
from numpy.typing import NDArray

from unacorda import checks
from unacorda.errors import EngineFailed, InvalidParameter
from unacorda.query.engines.compile import KeyTable, Statement
from unacorda.query.engines.protocol import Admitted, Tallies, sql_of
from unacorda.query.schema.facts import Key

__all__ = [
    "Cursor",
    "DuckDBHeldRows",
    "DuckDBKeyedRows",
    "check_timeout",
    "guarded",
    "integers",
    "interrupted_after",
    "keep_keys",
    "tally",
]

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


T = TypeVar("T")


class Cursor:
    """A cursor of DuckDB. timeout: after how many seconds a call is interrupted."""

    def __init__(self, cursor: duckdb.DuckDBPyConnection, *, timeout: float | None) -> None:
        self._cursor, self._timeout = cursor, timeout

    def execute(self, sql: str, values: Sequence[object] = ()) -> duckdb.DuckDBPyConnection:
        """Run a statement."""
        return self._cursor.execute(sql, list(values))

    def limited(self) -> AbstractContextManager[None]:
        """Interrupts what the cursor does inside, where it takes too long."""
        return interrupted_after(self._timeout, self._cursor.interrupt)

    def guarded(self, work: Callable[[], T]) -> T:
        """What the work gives; EngineFailed where it raises, or takes too long."""

        def limited() -> T:
            with self.limited():
                return work()

        return guarded(limited)

    def close(self) -> None:
        """Forget all; a second call does nothing."""
        self._cursor.close()


class DuckDBKeyedRows:
    """A cursor with the bounded rows of a question, and the people behind each key."""

    def __init__(self, cursor: Cursor, people: NDArray[np.int64], *, engine: object) -> None:
        self._cursor, self.people, self._engine = cursor, people, engine

    def keys(self, places: Sequence[int]) -> list[tuple[Key, ...]]:
        """The keys at some places, in their order; EngineFailed, as `run`."""
        return self._cursor.guarded(lambda: self._listed(places))

    def _listed(self, places: Sequence[int]) -> list[tuple[Key, ...]]:
        query = (
            "SELECT found.* EXCLUDE (place, people) FROM found "
            "JOIN (SELECT unnest($1::BIGINT[]) AS place) AS asked USING (place) ORDER BY place"
        )
        return self._cursor.execute(query, [list(places)]).fetchall()

    def run(self, asked: Admitted) -> Tallies:
        """The exact integers of the question; EngineFailed, as `Engine.run`."""
        statement = sql_of(asked, self._engine, Statement)
        return self._cursor.guarded(lambda: tally(self._cursor, statement))

    def close(self) -> None:
        """Forget the rows; a second call does nothing."""
        self._cursor.close()


class DuckDBHeldRows:
    """A cursor with the bounded rows of a fit, as tables of its own or to be computed again."""

    def __init__(self, cursor: Cursor, bounded: str, *, keep: bool) -> None:
        self._cursor, self._before = cursor, ""
        if keep:
            cursor.execute(f"CREATE TEMP TABLE bounded AS {bounded}")
        else:
            self._before = f"WITH bounded AS ({bounded}) "

    def keep(self, name: str, sql: str) -> None:
        """Hold what is selected under a name; EngineFailed if anything fails."""
        self._cursor.guarded(
            lambda: self._cursor.execute(f"CREATE TEMP TABLE {name} AS {self._before}{sql}")
        )

    def forget(self, name: str) -> None:
        """Hold these rows no longer; EngineFailed if anything fails."""
        if name == "bounded" and self._before:
            self._before = ""
        else:
            self._cursor.guarded(lambda: self._cursor.execute(f"DROP TABLE temp.{name}"))

    def run(self, counts: str, *, measures: int) -> Tallies:
        """The exact integers of one scan; EngineFailed, of constant text, if anything fails."""
        return self._cursor.guarded(lambda: _counted(self._cursor, self._before + counts, measures))

    def close(self) -> None:
        """Forget all rows; a second call does nothing."""
        self._cursor.close()


def keep_keys(cursor: Cursor, keys: KeyTable | None) -> None:
    """Hold the listed keys of a question as a table that its statements join."""
    if keys is not None:
        cursor.execute(f"CREATE TEMP TABLE keys AS {keys.sql}", list(keys.columns))


def tally(cursor: Cursor, statement: Statement) -> Tallies:
    """The exact integers of a statement, over rows that are bounded once."""
    keep_keys(cursor, statement.keys)
    before = ""
    if statement.scans > 1:  # one bounded table, read by several counts
        cursor.execute(f"CREATE TEMP TABLE bounded AS {statement.bounded}")
    else:
        before = f"WITH bounded AS ({statement.bounded}) "
    counted = Tallies(cells=np.zeros(0, np.int64), sums=())
    if statement.counted:
        counted = _counted(cursor, before + statement.counts, statement.measures)
    ladders, rankings = [], []
    for query in statement.ladders:
        found = cursor.execute(before + query).fetchnumpy()
        cell, rung, people = (integers(found[name]) for name in ("cell", "bin", "n"))
        ladders.append((cell, rung, people, _wholes(found["s"])))
    for query in statement.rankings:
        found = cursor.execute(before + query).fetchnumpy()
        cell, place, rows = (integers(found[name]) for name in ("cell", "bin", "n"))
        rankings.append((cell, place, rows))
    return Tallies(
        cells=counted.cells, sums=counted.sums, ladders=tuple(ladders), rankings=tuple(rankings)
    )


def _counted(cursor: Cursor, counts: str, measures: int) -> Tallies:
    columns = cursor.execute(counts).fetchnumpy()
    sums = tuple(_wholes(columns[f"a{index}"]) for index in range(measures))
    return Tallies(cells=integers(columns["cell"]), sums=sums)


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


def integers(column: Any) -> NDArray[np.int64]:
    """A column of DuckDB as integers."""
    found: NDArray[np.int64] = np.ma.getdata(column).astype(np.int64, copy=False)
    return found


def _wholes(column: Any) -> list[int]:
    """Integers of any size; NULL, the sum of nothing, is 0."""
    missing = np.ma.getmaskarray(column)
    values = np.ma.getdata(column)
    return [0 if gone else int(value) for value, gone in zip(values, missing, strict=True)]
