"""Engines of other dialects: statements are translated, and what has no equal there is refused."""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Mapping
from typing import ClassVar

from unacorda.errors import UnsupportedConstruct
from unacorda.query.engines.compile import KeyCountSql, Statement, compile_chosen
from unacorda.query.engines.dialects.statements import NamedTable, Translated
from unacorda.query.engines.dialects.values import Untranslatable
from unacorda.query.engines.engine import Engine
from unacorda.query.plan.query import Query

__all__ = ["TranslatedEngine", "check_statement"]


class TranslatedEngine(Engine):
    """An engine that runs what DuckDB runs in another dialect.

    called: its name, for refusals; translate: a statement into its dialect.
    """

    called: ClassVar[str]
    translate: ClassVar[Callable[..., Translated]]

    @property
    @abstractmethod
    def _tables(self) -> Mapping[str, NamedTable]:
        """The tables of the session, by what statements call them."""

    def check(self, query: Query, first: Statement | KeyCountSql) -> None:
        """Raise UnsupportedConstruct for a question that it would answer otherwise."""
        translate, name = type(self).translate, None
        try:
            held = check_statement(first, self._tables, translate)
            if isinstance(first, KeyCountSql):
                chosen = compile_chosen(query, unit=query.limited, places=[0], parts=[0])
                check_statement(chosen, held, translate)
        except Untranslatable as error:
            name = error.name
        if name is not None:
            raise UnsupportedConstruct(name, engine=self.called)


def check_statement(
    statement: Statement | KeyCountSql,
    tables: Mapping[str, NamedTable],
    translate: Callable[..., Translated],
) -> dict[str, NamedTable]:
    """Translate all of a question without running it; gives the relations that it would name.

    Raises Untranslatable.
    """
    others: tuple[str, ...] = ()
    if isinstance(statement, KeyCountSql):
        named = statement.named
    else:
        named = {"bounded": statement.bounded}
        people = () if statement.people is None else (statement.people,)
        others = (statement.counts, *people, *statement.ladders, *statement.rankings)
    keys = {} if statement.keys is None else {"keys": statement.keys.sql}
    known = dict(tables)
    for name, sql in (keys | named).items():
        known[name] = NamedTable(view=name, columns=translate(sql, tables=known).columns)
    for sql in others:
        translate(sql, tables=known)
    if isinstance(statement, KeyCountSql):
        known.pop("keys", None)
    return known
