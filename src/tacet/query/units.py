"""The privacy unit: whose presence the noise hides, and how far one unit can reach."""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

from dataclasses import dataclass, field

from tacet import checks
from tacet.errors import InvalidParameter
from tacet.privacy.guarantees import Guarantee
from tacet.privacy.neighbors import AddRemove, Neighbors, ReplaceOne

__all__ = ["Auto", "Person", "Reach", "Row", "Unit", "auto"]

_MOST_ROWS = 1_000_000
_BOUNDED = "a bound on all rows of a person: max_rows=, or max_groups= with max_rows_per_group="


@dataclass(frozen=True, slots=True, kw_only=True)
class Auto:
    """That a session finds `max_rows` privately when it is opened, for this much of its budget.

    most: the largest number that can be found.
    """

    budget: Guarantee
    most: int

    def __post_init__(self) -> None:
        if not isinstance(self.budget, Guarantee):
            raise InvalidParameter(
                "budget", self.budget, expected="a guarantee such as tacet.PureDP(0.1)"
            )
        if checks.positive_integer(most=self.most) > _MOST_ROWS:
            raise InvalidParameter("most", self.most, expected=f"at most {_MOST_ROWS:,}")


def auto(*, budget: Guarantee, most: int = 1_000) -> Auto:
    """Let a session find how many rows of a person to keep: `Person("id", max_rows=auto(...))`.

    budget: what the search may cost, of the session's; it is spent anew by every session that is
    opened. most: a public end of the search. What is found is public: `session.unit.max_rows`.

    >>> from tacet.privacy.guarantees import PureDP
    >>> auto(budget=PureDP(0.1)).most
    1000
    """
    return Auto(budget=budget, most=most)


@dataclass(frozen=True, slots=True)
class Person:
    """Protect a person with all her rows; at most `max_rows` of them enter any question.

    id: the column that names the person, or several columns that do so together. Every table of
    the session has it. Rows without an id (NULL in any of the columns) are dropped.
    max_rows: how many rows a person may bring into one question, over all groups together.
    Where she has more, a pseudo-random choice of that many is used, every row as likely as the
    other, fixed by a salt that is drawn anew for every question. With `tacet.auto(budget=...)` the
    session finds the number privately when it is opened: it is then the first rung of a public
    ladder that only few people pass.
    neighbors: `AddRemove` compares the table with the one without her; `ReplaceOne` with the one
    in which her rows are another person's.

    >>> Person("patient", max_rows=10)
    Person(id=('patient',), max_rows=10, neighbors=AddRemove)
    """

    id: tuple[str, ...]
    max_rows: int
    neighbors: Neighbors = AddRemove
    search: Auto | None = field(default=None, repr=False)

    def __init__(
        self, id: str | tuple[str, ...], *, max_rows: int | Auto, neighbors: Neighbors = AddRemove
    ) -> None:
        names = tuple(id) if isinstance(id, tuple | list) else (id,)
        if not names or not all(checks.is_text(name) for name in names):
            raise InvalidParameter("id", id, expected="a column name, or several in a tuple")
        if len(set(names)) < len(names):
            raise InvalidParameter("id", id, expected="column names that differ")
        search = max_rows if isinstance(max_rows, Auto) else None
        most = max_rows.most if isinstance(max_rows, Auto) else max_rows
        if checks.positive_integer(max_rows=most) > _MOST_ROWS:
            raise InvalidParameter("max_rows", most, expected=f"at most {_MOST_ROWS:,}")
        object.__setattr__(self, "id", names)
        object.__setattr__(self, "max_rows", int(most))
        object.__setattr__(self, "neighbors", _relation(neighbors))
        object.__setattr__(self, "search", search)

    def found(self, max_rows: int) -> Person:
        """The same unit with the number of rows that its search found."""
        unit = Person(self.id, max_rows=max_rows, neighbors=self.neighbors)
        object.__setattr__(unit, "search", self.search)
        return unit

    @property
    def terms(self) -> str:
        """The unit as a term of an account: without the number, where every session finds one."""
        if self.search is None:
            return str(self)
        return f"a person ({', '.join(self.id)}) with at most a number of rows that is found"

    def __str__(self) -> str:
        rows = "1 row" if self.max_rows == 1 else f"{self.max_rows:,} rows"
        return f"a person ({', '.join(self.id)}) with at most {rows} in a question"


@dataclass(frozen=True, slots=True)
class Row:
    """Protect single rows: right only where no person owns more than one.

    neighbors: as in `Person`.

    >>> Row()
    Row(neighbors=AddRemove)
    """

    neighbors: Neighbors = field(default=AddRemove, kw_only=True)

    def __post_init__(self) -> None:
        _relation(self.neighbors)

    @property
    def terms(self) -> str:
        """The unit as a term of an account."""
        return str(self)

    def __str__(self) -> str:
        return "a single row"


Unit = Person | Row
"""What a session protects."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Reach:
    """How far one unit reaches into one question: what every sensitivity is computed from.

    rows: the most rows one unit brings; touched: into how many disjoint groups they fall at most;
    per_cell: the most of them in one group; cells: how many groups there are (1 without groups);
    replaced: whether neighbours replace a unit instead of removing it. None of the numbers is
    larger than the others make it: each is attained. Made by `of` or `within`.
    """

    rows: int
    touched: int
    per_cell: int
    cells: int
    replaced: bool

    @staticmethod
    def of(unit: Unit, *, cells: int) -> Reach:
        """The reach of one unit into a question with this many groups."""
        rows = unit.max_rows if isinstance(unit, Person) else 1
        return Reach.within(max_rows=rows, cells=cells, replaced=unit.neighbors is ReplaceOne)

    @staticmethod
    def within(
        *,
        max_rows: int | None = None,
        max_groups: int | None = None,
        max_rows_per_group: int | None = None,
        cells: int,
        replaced: bool,
    ) -> Reach:
        """The reach of a unit under limits, of which those that are None do not bind.

        >>> Reach.within(max_groups=2, max_rows_per_group=3, cells=9, replaced=False).rows
        6
        >>> Reach.within(max_rows=5, cells=3, replaced=False).touched
        3
        """
        touched = cells if max_groups is None else min(max_groups, cells)
        bounds = [] if max_rows is None else [max_rows]
        bounds += [] if max_rows_per_group is None else [max_rows_per_group * touched]
        if not bounds:
            raise InvalidParameter("max_rows", None, expected=_BOUNDED)
        rows = min(bounds)
        return Reach(
            rows=rows,
            touched=min(touched, rows),
            per_cell=rows if max_rows_per_group is None else min(max_rows_per_group, rows),
            cells=cells,
            replaced=replaced,
        )


def _relation(neighbors: object) -> Neighbors:
    if neighbors is AddRemove or neighbors is ReplaceOne:
        return neighbors
    raise InvalidParameter(
        "neighbors", neighbors, expected="tacet.AddRemove or tacet.ReplaceOne for a table"
    )
