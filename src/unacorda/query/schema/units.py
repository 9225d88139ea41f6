"""Privacy units and contribution bounds."""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

import copy
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar, Literal

from unacorda import checks
from unacorda.display import counted
from unacorda.errors import InvalidParameter
from unacorda.ledger.entries import LIMITS, Term
from unacorda.privacy.guarantees import Guarantee
from unacorda.privacy.neighbors import AddRemove, Neighbors, ReplaceOne

_MOST_ROWS = 1_000_000
_BOUNDED = "a bound on all rows of a person: max_rows=, or max_groups= with max_rows_per_group="


@dataclass(frozen=True, slots=True, kw_only=True)
class Auto:
    """A request to find `max_rows` privately with this budget when the session opens.

    most: the largest number that can be found. objective: as in `auto`.
    """

    tag: ClassVar[str] = "auto"

    budget: Guarantee
    most: int
    objective: Literal["people", "error"] = "people"

    def __post_init__(self) -> None:
        is_guarantee = isinstance(self.budget, Guarantee)
        expected = "a guarantee such as unacorda.PureDP(0.1)"
        checks.demand(is_guarantee, "budget", self.budget, expected=expected)
        few = checks.positive_integer(most=self.most) <= _MOST_ROWS
        checks.demand(few, "most", self.most, expected=f"at most {_MOST_ROWS:,}")
        checks.choice(("people", "error"), objective=self.objective)


def auto(
    *, budget: Guarantee, most: int = 1_000, objective: Literal["people", "error"] = "people"
) -> Auto:
    """Let a session find `max_rows` privately: `Person("id", max_rows=auto(...))`.

    The number that is found is public, as `session.unit.max_rows`, and the ledger keeps it. An
    account pays once for a search of the same tables with the same end, whatever the budget; later
    sessions read its result. The search counts all of a person's rows in a table, whatever the
    other contribution bounds.

    Parameters
    ----------
    budget
        A guarantee: the most that the search may cost. It is part of the session's budget.
    most
        The public upper end of the search, from 1 to 1,000,000 rows.
    objective
        "people" finds the first number that only few people exceed. "error" finds a histogram of
        people by number of rows. Each question then gets the bound with the least expected error
        for its own budget, as `Session.suggest_bounds` computes it, unless `Query.with_max_rows`
        gives one; `session.unit.max_rows` drops about one row in a hundred.

    Returns
    -------
    Auto
        A value for `Person(..., max_rows=)`.

    Raises
    ------
    InvalidParameter
        For a budget that is not a guarantee, an end out of its range, and an unknown objective.

    Examples
    --------
    >>> from unacorda.privacy.guarantees import PureDP
    >>> auto(budget=PureDP(0.1)).most
    1000
    """
    return Auto(budget=budget, most=most, objective=objective)


@dataclass(frozen=True, slots=True, repr=False)
class Person:
    """Protect a person with all their rows, a bounded number of which enters any question.

    If a person has more rows than the contribution bounds allow, a pseudo-random sample is kept:
    every group is equally likely, and then every row. It is determined by a salt that is drawn anew
    for every question.

    Parameters
    ----------
    id
        The column that identifies the person, a row-wise expression such as "lower(email)", or a
        tuple of several that identify the person together. Every table of the session must have it.
        If the name differs between tables, give a mapping by table: {"visits": "pid", "labs":
        "patient"}. Rows without an id (NULL in any of them) are dropped. Computed numbers are ids
        only if they are whole and below 2^53.
    max_rows
        The most rows of a person that count in one question, over all groups together, from 1 to
        1,000,000. With `unacorda.auto(budget=...)` the session finds the number privately when it
        opens: the first number of a public list that only few people exceed.
    max_groups
        The most groups of one question in which a person's rows count.
    max_rows_per_group
        The most rows of a person that count in one group; without groups all rows are one group.
        Give either `max_rows` or both of the others: noise hides only bounded contributions.
    neighbors
        `AddRemove` compares the table with one without the person. `ReplaceOne` compares it with
        one in which another person's rows replace theirs.

    Raises
    ------
    InvalidParameter
        For an id that is not text, a bound that is not a whole number from 1 on, bounds that leave
        the rows of a person unbounded, and another relation.

    Examples
    --------
    >>> Person("patient", max_rows=10)
    Person(id=('patient',), max_rows=10, neighbors=AddRemove)
    >>> print(Person("patient", max_groups=3, max_rows_per_group=2))
    a person (patient) with at most 3 groups and 2 rows in each group in a question
    """

    tag: ClassVar[str] = "person"

    id: tuple[str, ...]
    max_rows: int | None
    max_groups: int | None
    max_rows_per_group: int | None
    neighbors: Neighbors = AddRemove
    search: Auto | None = None
    by_table: tuple[tuple[str, tuple[str, ...]], ...] = ()

    def __init__(
        self,
        id: str | tuple[str, ...] | Mapping[str, str | tuple[str, ...]],
        *,
        max_rows: int | Auto | None = None,
        max_groups: int | None = None,
        max_rows_per_group: int | None = None,
        neighbors: Neighbors = AddRemove,
    ) -> None:
        by_table: tuple[tuple[str, tuple[str, ...]], ...] = ()
        if isinstance(id, Mapping):
            by_table = tuple((table, _names(named)) for table, named in id.items())
            alike = len({len(named) for _, named in by_table}) == 1
            expected = "for every table as many columns as for the others"
            checks.demand(alike, "id", id, expected=expected)
        search = max_rows if isinstance(max_rows, Auto) else None
        _assign(
            self,
            id=by_table[0][1] if by_table else _names(id),
            max_rows=_limit("max_rows", max_rows.most if isinstance(max_rows, Auto) else max_rows),
            max_groups=_limit("max_groups", max_groups),
            max_rows_per_group=_limit("max_rows_per_group", max_rows_per_group),
            neighbors=_relation(neighbors),
            search=search,
            by_table=by_table,
        )
        bounded = self.max_rows is not None or len(self.limits) == 2
        others = "".join(f", not {name}={value}" for name, value in self.limits.items())
        checks.demand(bounded, "max_rows", None, expected=_BOUNDED + others)
        if self.all_rows > _MOST_ROWS:
            raise InvalidParameter(
                "max_groups",
                f"{self.max_groups:,} groups of {self.max_rows_per_group:,} rows",
                expected=f"at most {_MOST_ROWS:,} rows in all, or max_rows= as well",
            )

    @property
    def all_rows(self) -> int:
        """The most rows of a person that count, over all groups together."""
        bounds = [] if self.max_rows is None else [self.max_rows]
        if self.max_groups is not None and self.max_rows_per_group is not None:
            bounds.append(self.max_groups * self.max_rows_per_group)
        return min(bounds)

    @property
    def searched(self) -> Person:
        """The unit of the search for `max_rows`: all rows of a person, without bounds on groups."""
        if self.search is None:
            return self
        most = self._but(max_rows=self.search.most).all_rows  # more is never kept
        return self._but(max_rows=most, max_groups=None, max_rows_per_group=None, search=None)

    def found(self, max_rows: int, *, paid: Guarantee | None = None) -> Person:
        """Return the same unit with the `max_rows` that its search found.

        Parameters
        ----------
        max_rows
            That number.
        paid
            The price that was paid, if it differs from the one that this unit would pay.

        Returns
        -------
        Person
            A new unit.
        """
        search = self.search
        if search is not None and paid is not None:
            search = replace(search, budget=paid)
        return self._but(max_rows=max_rows, search=search)

    def with_rows(self, max_rows: int) -> Person:
        """Return the same unit with a given `max_rows` in place of a search.

        Parameters
        ----------
        max_rows
            That number.

        Returns
        -------
        Person
            A new unit.
        """
        return self._but(max_rows=max_rows, search=None)

    def alike(self, other: Unit) -> bool:
        """Say whether it is the same unit, apart from the number of rows of each question.

        Parameters
        ----------
        other
            Another unit.

        Returns
        -------
        bool
            False for a unit of rows.
        """
        return isinstance(other, Person) and self.with_rows(1) == other.with_rows(1)

    def with_groups(self, max_groups: int) -> Person:
        """Return the same unit in at most so many groups.

        Parameters
        ----------
        max_groups
            The most groups; a smaller bound of the unit stays.

        Returns
        -------
        Person
            A new unit.
        """
        groups = max_groups if self.max_groups is None else min(max_groups, self.max_groups)
        return self._but(max_groups=groups)

    @property
    def in_part(self) -> Person:
        """The unit of a part of the data, which people may leave or join, also when replaced."""
        return self._but(neighbors=AddRemove)

    def in_table(self, table: str, tables: Collection[str] = ()) -> Person:
        """Return the unit as one table names it.

        Parameters
        ----------
        table
            The name of the table.
        tables
            All that there are.

        Returns
        -------
        Person
            With the ids of that table.

        Raises
        ------
        InvalidParameter
            If the ids are not those of these tables.
        """
        if not self.by_table:
            return self
        named = dict(self.by_table)
        fits = table in named and set(named) <= {table, *(tables or named)}
        expected = f"the id of every table: {', '.join(map(repr, tables)) or repr(table)}"
        checks.demand(fits, "unit", named, expected=expected)
        return self._but(id=named[table], by_table=())

    @property
    def terms(self) -> dict[str, Term]:
        """The terms of an account: the unit without the bounds, which belong to each question."""
        ids: Term = self.id
        if self.by_table:
            ids = tuple(sorted((table, *named) for table, named in self.by_table))
        return {"unit": "person", "id": ids, "neighbors": str(self.neighbors)}

    @property
    def limits(self) -> dict[str, int]:
        """The contribution bounds that are set."""
        limits = {name: getattr(self, name) for name in LIMITS}
        return {name: value for name, value in limits.items() if value is not None}

    def __repr__(self) -> str:
        given = "".join(f", {name}={value}" for name, value in self.limits.items())
        named = dict(self.by_table) if self.by_table else self.id
        return f"Person(id={named}{given}, neighbors={self.neighbors})"

    def _but(self, **changes: Any) -> Person:
        """The same unit with other fields."""
        unit = copy.copy(self)
        _assign(unit, **changes)
        return unit

    def __str__(self) -> str:
        rows, limits = self.max_rows, []
        if self.max_groups is not None:
            limits.append(counted(self.max_groups, "group"))
        if self.max_rows_per_group is not None:
            limits.append(f"{counted(self.max_rows_per_group, 'row')} in each group")
        if rows is not None:
            limits.append(counted(rows, "row") + (" in all" if limits else ""))
        *first, last = limits
        listed = f"{', '.join(first)} and {last}" if first else last
        ids = ", ".join(self.id)
        if self.by_table:
            ids = "; ".join(f"{table}: {', '.join(named)}" for table, named in self.by_table)
        return f"a person ({ids}) with at most {listed} in a question"


@dataclass(frozen=True, slots=True)
class Row:
    """Protect single rows; right only if no person has more than one.

    Parameters
    ----------
    neighbors
        `AddRemove` or `ReplaceOne`, as in `Person`.

    Raises
    ------
    InvalidParameter
        For another relation.

    Examples
    --------
    >>> Row()
    Row(neighbors=AddRemove)
    """

    tag: ClassVar[str] = "row"
    id: ClassVar[tuple[str, ...]] = ()  # no column says whose a row is
    search: ClassVar[None] = None  # and no number of rows is looked for

    neighbors: Neighbors = field(default=AddRemove, kw_only=True)

    def __post_init__(self) -> None:
        _relation(self.neighbors)

    @property
    def terms(self) -> dict[str, Term]:
        """The terms of an account: what the promise is about."""
        return {"unit": "row", "neighbors": str(self.neighbors)}

    @property
    def limits(self) -> dict[str, int]:
        """None: a row is one row."""
        return {}

    @property
    def in_part(self) -> Row:
        """The unit of a part of the rows, which it may leave or join, also when replaced."""
        return Row()

    def alike(self, other: Unit) -> bool:
        """Say whether it is the same unit.

        Parameters
        ----------
        other
            Another unit.

        Returns
        -------
        bool
            Whether both are rows with the same neighbors.
        """
        return self == other

    def in_table(self, table: str, tables: Collection[str] = ()) -> Row:
        """Return the unit as one table names it.

        Parameters
        ----------
        table
            The name of the table.
        tables
            All that there are.

        Returns
        -------
        Row
            The unit itself.
        """
        del table, tables
        return self

    def __str__(self) -> str:
        return "a single row"


Unit = Person | Row
"""What a session protects."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Reach:
    """How far one unit reaches into one question: what every sensitivity is computed from.

    rows: the most rows one unit brings; touched: into how many disjoint groups they fall at most;
    per_cell: the most of them in one group; cells: how many groups there are (1 without groups);
    replaced: whether neighbors replace a unit instead of removing it. None of the numbers is
    larger than the others make it: each is attained. Made by `of` or `within`.
    """

    rows: int
    touched: int
    per_cell: int
    cells: int
    replaced: bool

    @property
    def felt(self) -> int:
        """In how many groups a change can be felt: replaced, those of the one and of the other."""
        return min(2 * self.touched, self.cells) if self.replaced else self.touched

    @staticmethod
    def of(unit: Unit, *, cells: int, most: int | None = None) -> Reach:
        """The reach of one unit into a question with this many groups.

        most: how many rows of the question are one unit's at most, before its own limits; by
        default any number are a person's, and one is a row's.
        """
        replaced = unit.neighbors is ReplaceOne
        if not isinstance(unit, Person):
            return Reach.within(max_rows=most or 1, cells=cells, replaced=replaced)
        limits = [rows for rows in (unit.max_rows, most) if rows is not None]
        return Reach.within(
            max_rows=min(limits, default=None),
            max_groups=unit.max_groups,
            max_rows_per_group=unit.max_rows_per_group,
            cells=cells,
            replaced=replaced,
        )

    def split(self, parts: int) -> Reach:
        """The reach into a question in which every group falls into so many disjoint parts.

        >>> Reach.within(max_rows=3, cells=2, replaced=False).split(4).cells
        8
        """
        touched = min(self.rows, self.touched * parts)
        return replace(self, touched=touched, cells=self.cells * parts)

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
        in_groups = None if max_rows_per_group is None else max_rows_per_group * touched
        bounds = [rows for rows in (max_rows, in_groups) if rows is not None]
        checks.demand(bounds, "max_rows", None, expected=_BOUNDED)
        rows = min(bounds)
        return Reach(
            rows=rows,
            touched=min(touched, rows),
            per_cell=rows if max_rows_per_group is None else min(max_rows_per_group, rows),
            cells=cells,
            replaced=replaced,
        )


def _assign(unit: Person, **fields: Any) -> None:
    for name, value in fields.items():
        object.__setattr__(unit, name, value)


def _names(id: object) -> tuple[str, ...]:
    names = tuple(id) if isinstance(id, tuple | list) else (id,)
    named = names and all(map(checks.is_text, names))
    expected = "a column or an expression, several in a tuple, or such by table in a mapping"
    checks.demand(named, "id", id, expected=expected)
    differ = len(set(names)) == len(names)
    checks.demand(differ, "id", id, expected="columns or expressions that differ")
    return tuple(map(str, names))


def _limit(name: str, value: int | None) -> int | None:
    if value is None:
        return None
    few = checks.positive_integer(**{name: value}) <= _MOST_ROWS
    checks.demand(few, name, value, expected=f"at most {_MOST_ROWS:,}")
    return int(value)


def _relation(neighbors: object) -> Neighbors:
    if neighbors is AddRemove or neighbors is ReplaceOne:
        return neighbors
    raise InvalidParameter(
        "neighbors", neighbors, expected="unacorda.AddRemove or unacorda.ReplaceOne for a table"
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class BoundingSteps:
    """The steps that bind a person, each with its number, None where it is left out.

    groups: of their groups; each: of their rows in each group; rows: of all their rows.
    """

    groups: int | None
    each: int | None
    rows: int | None


def id_columns(unit: Unit) -> tuple[str, ...]:
    """The names under which bounded rows have the columns of an id, if any."""
    return tuple(f"u{index}" for index in range(len(unit.id)))


def steps_of(unit: Person, *, cells: int) -> BoundingSteps:
    """The steps that a question with so many cells needs.

    >>> steps_of(Person("id", max_groups=3, max_rows_per_group=2), cells=10)
    BoundingSteps(groups=3, each=2, rows=None)
    >>> steps_of(Person("id", max_rows=5, max_groups=3), cells=2)
    BoundingSteps(groups=None, each=None, rows=5)
    """
    rows, groups, each = unit.max_rows, unit.max_groups, unit.max_rows_per_group
    if rows is not None:
        groups = None if groups is not None and groups >= rows else groups
        each = None if each is not None and each >= rows else each
    if groups is not None and groups >= cells:
        groups = None
    touched = cells if groups is None else groups
    if rows is not None and each is not None and touched * each <= rows:
        rows = None
    return BoundingSteps(groups=groups, each=each, rows=rows)
