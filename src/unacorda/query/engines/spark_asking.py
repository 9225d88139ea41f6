"""One question in Spark: views of its own, the rows that are read twice kept, integers fetched.

What is kept is computed again where Spark loses it; the rows are then the same, since a bound row
is a function of the table and the salt alone (no random function, no order of partitions).
"""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

import uuid
from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeVar

from unacorda.query.engines.dialects.spark import translate
from unacorda.query.engines.dialects.statements import Table, Translated
from unacorda.query.engines.reading import guarded as guarded_alone
from unacorda.query.engines.spark_quiet import quietly, unlogged
from unacorda.query.engines.timeouts import interrupted_after

__all__ = ["Asking", "guarded"]

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
    """The views of one question. tables: those that its statements read; number: tells it apart.

    timeout: after how many seconds the jobs of a call are cancelled.
    """

    def __init__(
        self,
        spark: Any,
        tables: Mapping[str, Table],
        *,
        number: int,
        timeout: float | None = None,
    ) -> None:
        self._spark, self._number, self._timeout = spark, number, timeout
        self._tables = dict(tables)
        self._own: dict[str, tuple[str, Any]] = {}
        self._views: list[str] = []

    def limited(self, work: Callable[[], T]) -> T:
        """What the work gives, unless it takes too long."""
        if self._timeout is None:
            return work()
        context, tag = self._spark.sparkContext, f"unacorda-{uuid.uuid4()}"
        context.addJobTag(tag)
        try:
            with interrupted_after(self._timeout, lambda: context.cancelJobsWithTag(tag)):
                return work()
        finally:
            context.removeJobTag(tag)

    def guarded(self, work: Callable[[], T]) -> T:
        """What the work gives, told to no log; EngineFailed where it raises, or takes too long."""
        return guarded(lambda: self.limited(work))

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
