"""What a session asks of an engine: the schema of its tables, and exact integers."""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from unacorda.query.admission import Admitted
from unacorda.query.aggregates.grid_counts import Asked, Lines, Refined
from unacorda.query.compile import Found, Statement
from unacorda.query.plan.public_tables import PublicSelect
from unacorda.query.plan.query import Query
from unacorda.query.schema.facts import Key

__all__ = ["Climbed", "Deeper", "Engine", "Held", "Keyed", "Tallies"]

Climbed = tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.int64], list[int]]
"""Of one ladder: cells, rungs passed, people, and the sums of their numbers."""


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class Tallies:
    """The exact answer of the engine. Private: nothing prints it.

    cells: the numbers of the cells that have rows. sums: for each measure its integers, as the
    engine wrote them, aligned with `cells`. ladders: for each ladder the arrays (cell, bin,
    people) and the sums; deeper: where anything is ranked.
    """

    cells: NDArray[np.int64]
    sums: tuple[list[int], ...]
    ladders: tuple[Climbed, ...] = ()
    deeper: Deeper | None = None

    def __repr__(self) -> str:
        return "Tallies(...)"

    def close(self) -> None:
        """Forget the rows that could still be asked about."""
        if self.deeper is not None:
            self.deeper.close()


class Deeper(Protocol):
    """The bounded rows of a question that is being answered, to be asked for more counts.

    Whatever fails leaves as EngineFailed, of constant text.
    """

    def first(self, rankings: Sequence[int], cells: tuple[int, int] | None) -> list[Lines]:
        """Counts by bin of rankings; cells: a first one, and the one after the last; None: all."""
        ...

    def count(self, asked: Mapping[int, Asked]) -> dict[int, Refined]:
        """Counts within bins, by ranking."""
        ...

    def close(self) -> None:
        """Forget the rows; a second call does nothing."""
        ...


class Keyed(Protocol):
    """The bounded rows of a question with private keys, which are not chosen yet. Private."""

    @property
    def people(self) -> NDArray[np.int64]:
        """How many people have each key that anybody has, by place."""
        ...

    def keys(self, places: Sequence[int]) -> list[tuple[Key, ...]]:
        """The keys at rising places: what has been chosen, and nothing else, is read."""
        ...

    def run(self, asked: Admitted) -> Tallies:
        """The exact integers of the question for its chosen keys, from the same rows."""
        ...

    def close(self) -> None:
        """Forget the rows; a second call does nothing."""
        ...


class Held(Protocol):
    """The bounded rows of a fit, `bounded`, which scan after scan reads. Private.

    Whatever fails leaves as EngineFailed, of constant text.
    """

    def keep(self, name: str, sql: str) -> None:
        """Compute what is selected of rows that are there, and hold it under a name."""
        ...

    def forget(self, name: str) -> None:
        """Hold these rows no longer."""
        ...

    def run(self, counts: str, *, measures: int) -> Tallies:
        """The exact integers of one scan."""
        ...

    def close(self) -> None:
        """Forget all rows; a second call does nothing."""
        ...


class Engine(Protocol):
    """Tables behind SQL. Safe to use from several threads."""

    @property
    def schema(self) -> Mapping[str, Mapping[str, str]]:
        """For each table, the engine's type of each column: public."""
        ...

    @property
    def narrow(self) -> bool:
        """Whether wide rows are ordered sooner by few columns, and joined: see `bounding`."""
        ...

    @property
    def identity(self) -> Sequence[str]:
        """The software, and what tells its files from others without reading them: public.

        Of a frame, or a table of a catalogue, there is nothing to tell.
        """
        ...

    @property
    def once(self) -> bool:
        """Whether what WITH names as MATERIALIZED is computed a single time."""
        ...

    def scan(self, table: str) -> str:
        """SQL of the relation that holds a table."""
        ...

    def look(self, asked: PublicSelect) -> Sequence[tuple[Any, ...]]:
        """The lines of a SELECT over a public table; EngineFailed, and TypeError, as `run`."""
        ...

    def check_open(self) -> None:
        """Raise EngineFailed, of a question that was not asked, if it is closed. Reads no data."""
        ...

    def check_sources(self) -> None:
        """Raise SourceChanged if a file is not the one that was opened. Reads no data."""
        ...

    def check(self, query: Query, first: Statement | Found) -> None:
        """Raise UnsupportedConstruct for a question that this engine cannot answer alike."""
        ...

    def run(self, asked: Admitted) -> Tallies:
        """The exact integers of a question; EngineFailed, of constant text, if anything fails.

        Raises TypeError for what no session of this engine admitted, as `find` and `hold` do.
        Where they hold a `deeper`, the caller closes it.
        """
        ...

    def find(self, asked: Admitted) -> Keyed:
        """Bounded rows and the people behind each private key; EngineFailed, as `run`.

        The caller closes it.
        """
        ...

    @property
    def room(self) -> float:
        """How many numbers of rows it may hold between scans, beside as many; 0 where none."""
        ...

    def hold(self, asked: Admitted, *, keep: bool) -> Held:
        """The bounded rows of a question for several scans; EngineFailed, as `run`.

        The caller closes them. keep: whether they are computed once, where the engine can, or
        else in every scan.
        """
        ...

    def close(self) -> None:
        """Release everything; a second call does nothing."""
        ...


Source = Any
"""What may stand for a table in a session: see `unacorda.query.schema.sources`."""
