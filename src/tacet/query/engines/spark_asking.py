"""One question in Spark: views of its own, the rows that are read twice kept, integers fetched.

What is kept is computed again where Spark loses it; the rows are then the same, since a bound row
is a function of the table and the salt alone (no random function, no order of partitions).
"""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from tacet.query.columns import Key
from tacet.query.compile import Found, KeyTable, Statement
from tacet.query.dialects.spark import translate
from tacet.query.dialects.statements import Table, Translated
from tacet.query.engines.protocol import Climbed, Tallies
from tacet.query.engines.reading import guarded as guarded_alone
from tacet.query.engines.spark_local import quietly, unlogged
from tacet.query.ranking import Asked, Refined

__all__ = ["Asking", "KeyedRows", "check_statement", "guarded"]

T = TypeVar("T")

_ARROW = {
    "DOUBLE": "float64",
    "BIGINT": "int64",
    "TEXT": "string",
    "BOOLEAN": "bool_",
    "DATE": "date32",
}


def guarded(work: Callable[[], T]) -> T:
    """What the work gives; whatever it raises leaves as EngineFailed, and is told to no log."""
    with unlogged():
        return guarded_alone(work)


class Asking:
    """The views of one question. tables: those that its statements read; number: tells it apart."""

    def __init__(self, spark: Any, tables: Mapping[str, Table], *, number: int) -> None:
        self._spark, self._number = spark, number
        self._tables = dict(tables)
        self._own: dict[str, tuple[str, Any]] = {}
        self._views: list[str] = []

    def tallied(self, statement: Statement, measures: int) -> Tallies:
        """The exact integers of a statement; the views go unless something may still be asked."""
        kept = False
        try:
            tallies = self.tally(statement, measures)
            kept = tallies.deeper is not None
            return tallies
        finally:
            if not kept:
                self.close()

    def tally(self, statement: Statement, measures: int) -> Tallies:
        """The exact integers of a statement, over rows that are bounded once."""
        self.list_keys(statement.keys)
        several = bool(statement.histograms or statement.ladders)
        self.name("bounded", statement.bounded, keep=several)
        columns = self.fetch(statement.counts)
        cells = _integers(columns["cell"])
        sums = tuple(_wholes(columns[f"a{index}"]) for index in range(measures))
        histograms = []
        for number, relation in enumerate(statement.rankings):
            if relation is not None:
                self.name(f"ranking{number}", relation, keep=True)
        for query in statement.histograms:
            found = self.fetch(query)
            histograms.append(
                (_integers(found["cell"]), _integers(found["bin"]), _integers(found["n"]))
            )
        ladders: list[Climbed] = []
        for query in statement.ladders:
            found = self.fetch(query)
            cell, rung, people = (_integers(found[name]) for name in ("cell", "bin", "n"))
            ladders.append((cell, rung, people, _wholes(found["s"])))
        deeper = any(query is not None for query in statement.finer)
        return Tallies(
            cells=cells,
            sums=sums,
            histograms=tuple(histograms),
            ladders=tuple(ladders),
            deeper=_DeeperRows(self, statement.finer) if deeper else None,
        )

    def list_keys(self, keys: KeyTable | None) -> None:
        """Hold the listed keys of a question as the relation `keys`."""
        if keys is not None:
            self.name("keys", keys.sql, lists=keys.columns)

    def name(
        self, name: str, sql: str, *, lists: Sequence[Sequence[object]] = (), keep: bool = False
    ) -> None:
        """Give what a statement selects a name for others; keep: computed once, unless lost."""
        translated, frame = self._select(sql, lists)
        if keep:
            frame = frame.persist()
        view = f"{name}_{self._number}"
        frame.createOrReplaceTempView(view)
        self._views.append(view)
        self._own[name] = (view, frame if keep else None)
        self._tables[name] = Table(view=view, columns=translated.columns)

    def fetch(self, sql: str, lists: Sequence[Sequence[object]] = ()) -> dict[str, list[Any]]:
        """What a statement selects, as lists by column."""
        _, frame = self._select(sql, lists)
        with quietly():
            found: dict[str, list[Any]] = frame.toArrow().to_pydict()
        return found

    def look(self, sql: str) -> list[tuple[Any, ...]]:
        """The lines of a SELECT that reads public tables alone."""
        with quietly():
            found = self._spark.sql(translate(sql, tables=self._tables, public=True).sql).toArrow()
        return list(zip(*(column.to_pylist() for column in found.columns), strict=True))

    def columns(self, name: str) -> Mapping[str, str]:
        """The columns of a named relation, with their types."""
        return self._tables[name].columns

    def forget(self, name: str) -> None:
        """Drop a relation."""
        view, frame = self._own.pop(name, (None, None))
        with quietly():
            if frame is not None:
                frame.unpersist()
            if view is not None:
                self._spark.catalog.dropTempView(view)
                self._views.remove(view)

    def close(self) -> None:
        """Drop all views and what is kept; a second call does nothing."""
        for name in list(self._own):
            self.forget(name)
        with quietly():
            for view in self._views:
                self._spark.catalog.dropTempView(view)
        self._views = []

    def _select(self, sql: str, lists: Sequence[Sequence[object]]) -> tuple[Translated, Any]:
        view = f"lists{len(self._views)}_{self._number}"
        translated = translate(sql, tables=self._tables, parameters=view)
        with quietly():
            if lists:
                self._hold(view, lists, translated.parameters)
            return translated, self._spark.sql(translated.sql)

    def _hold(self, view: str, lists: Sequence[Sequence[object]], types: Sequence[str]) -> None:
        import pyarrow as pa

        columns = {
            f"p{number}": pa.array(list(values), type=getattr(pa, _ARROW[kind])())
            for number, (values, kind) in enumerate(zip(lists, types, strict=True), start=1)
        }
        columns["row"] = pa.array(range(len(lists[0])), type=pa.int64())
        self._spark.createDataFrame(pa.table(columns)).createOrReplaceTempView(view)
        self._views.append(view)


class _DeeperRows:
    """The kept rows of one question."""

    def __init__(self, asking: Asking, queries: Sequence[str | None]) -> None:
        self._asking, self._queries = asking, queries

    def count(self, ranking: int, asked: Asked) -> Refined:
        """Counts within bins of a ranking; EngineFailed, of constant text, if anything fails."""
        query = self._queries[ranking]
        assert query is not None
        return guarded(lambda: self._refined(query, asked))

    def _refined(self, query: str, asked: Asked) -> Refined:
        found = self._asking.fetch(query, asked.columns)
        line, child, count, below, level = (
            _integers(found[name]) for name in ("i", "child", "n", "below", "level")
        )
        return Refined(lines=line, children=child, counts=count, below=below, level=level)

    def close(self) -> None:
        """Forget the rows; a second call does nothing."""
        self._asking.close()


class KeyedRows:
    """The bounded rows of a question with private keys, and the people behind each key."""

    def __init__(self, asking: Asking, people: NDArray[np.int64]) -> None:
        self._asking, self.people = asking, people

    @classmethod
    def of(cls, asking: Asking, found: Found) -> KeyedRows:
        """Bind the rows and count people; nothing is left behind where that fails."""
        done = False
        try:
            asking.list_keys(found.keys)
            asking.name("held", found.held, keep=True)
            asking.name("found", found.counted, keep=True)
            counted = asking.fetch("SELECT place, people FROM found")
            order = np.argsort(_integers(counted["place"]))
            keyed = cls(asking, _integers(counted["people"])[order])
            done = True
            return keyed
        finally:
            if not done:
                asking.close()

    def keys(self, places: Sequence[int]) -> list[tuple[Key, ...]]:
        """The keys at rising places, in their order; EngineFailed, as `run`."""
        return guarded(lambda: self._listed(places))

    def _listed(self, places: Sequence[int]) -> list[tuple[Key, ...]]:
        names = [name for name in self._asking.columns("found") if name.startswith("k")]
        listed = ", ".join(f"found.{name}" for name in names)
        query = (
            f"SELECT found.place AS place, {listed} FROM found "
            "JOIN (SELECT unnest($1::BIGINT[]) AS place) AS asked ON found.place = asked.place"
        )
        found = self._asking.fetch(query, [list(places)])
        rows = zip(*(found[name] for name in ("place", *names)), strict=True)
        return [tuple(key) for _, *key in sorted(rows, key=lambda row: row[0])]

    def run(self, statement: Statement, *, measures: int) -> Tallies:
        """The exact integers of the question; EngineFailed, as `Engine.run`."""
        return guarded(lambda: self._asking.tally(statement, measures))

    def close(self) -> None:
        """Forget the rows; a second call does nothing."""
        self._asking.close()


def check_statement(statement: Statement | Found, tables: Mapping[str, Table]) -> dict[str, Table]:
    """Translate all of a question without running it; gives the relations that it would name.

    Raises Untranslatable.
    """
    known = dict(tables)

    def named(name: str, sql: str) -> None:
        known[name] = Table(view=name, columns=translate(sql, tables=known).columns)

    if statement.keys is not None:
        named("keys", statement.keys.sql)
    if isinstance(statement, Found):
        named("held", statement.held)
        named("found", statement.counted)
        known.pop("keys", None)
        return known
    named("bounded", statement.bounded)
    translate(statement.counts, tables=known)
    for number, relation in enumerate(statement.rankings):
        if relation is not None:
            named(f"ranking{number}", relation)
    for query in (*statement.finer, *statement.histograms, *statement.ladders):
        if query is not None:
            translate(query, tables=known)
    return known


def _integers(column: Sequence[Any]) -> NDArray[np.int64]:
    return np.array(column, dtype=np.int64)


def _wholes(column: Sequence[Any]) -> list[int]:
    """Integers of any size; NULL, the sum of nothing, is 0."""
    return [0 if value is None else int(value) for value in column]
