"""Questions about rows, built step by step, and batches of them.

Questions with the same table, steps, groups and keys read the same rows under the same contribution
bounds. They share one scan: one relation is bounded, and every exact integer is counted over it.
Each aggregate has the sensitivity that it has alone, since a unit's rows in the relation keep the
same bounds; only which rows are kept may differ. Other questions have scans of their own. So has a
question with private keys, which finds its own keys.
"""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

import copy
import dataclasses
import difflib
import hashlib
import itertools
import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from fractions import Fraction
from typing import TYPE_CHECKING, Any, Final, Literal, NoReturn, TypeVar

from unacorda import checks
from unacorda.checks import Number
from unacorda.display import facts
from unacorda.errors import InvalidParameter, UnacordaError
from unacorda.query.aggregates.base import ENDINGS, Aggregate, weight_of
from unacorda.query.aggregates.grid import Ranking
from unacorda.query.aggregates.hierarchy import (
    MARGIN,
    Consistent,
    GivenLevelWeights,
    LevelWeights,
    Margins,
    check_level_weights,
    check_margins,
    consistent,
)
from unacorda.query.aggregates.measures import Measure, PeopleCount, Thresholds
from unacorda.query.aggregates.row_counts import RowsKept
from unacorda.query.expressions.errors import QUERY, unknown_attribute
from unacorda.query.expressions.language import Written, expression_text, folded, twin, written
from unacorda.query.noise.selection import GivenKeys, PrivateKeys
from unacorda.query.plan.codec import (
    encode,
    function_as_json,
    keys_as_json,
    rows_as_json,
    stated_rows,
)
from unacorda.query.plan.joins import Columns, On, looked_up, matched, united
from unacorda.query.plan.person_values import PersonValue
from unacorda.query.plan.relation import Group, How, Relation, RowFilter, grouped
from unacorda.query.schema.keys import Key
from unacorda.query.schema.table import TableSchema
from unacorda.query.schema.units import Person, Reach, Row, Unit, steps_of

if TYPE_CHECKING:
    from unacorda.query.plan.synthesis import Cells, Synthesis
    from unacorda.synthesis.plan import Condition
    from unacorda.synthesis.rounds import Watch

_T = TypeVar("_T")
_MOST_BINS = 100_000_000  # of one aggregate whose counts are held at once
_ANY_CELLS = 1 << 62  # as many as there may be
_SYNTHESIS_ARGUMENTS = (
    *("columns", "bins", "workload", "weights", "never", "report", "finding", "watch"),
    *("max_cells", "rows"),
)

_FOR_CALLERS: Final = (
    *("where", "derive", "join", "union", "explode", "per_person", "group_by", "agg", "synthesize"),
    *("with_kept", "with_max_rows", "digest", "to_dict", "to_json"),
)
"""What the completion of a shell or notebook lists: the rest is for sessions and engines."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Reads:
    """What one aggregate reads of the bounded rows: see `Aggregate`."""

    measures: tuple[Measure, ...]
    rankings: tuple[Ranking, ...]
    ladders: tuple[Thresholds, ...]

    @property
    def conditions(self) -> frozenset[str | None]:
        """Of the bounded rows that it reads, None for all; counts of people read none of them."""
        read = {one.reads for one in self.measures if not isinstance(one, PeopleCount)}
        read |= {one.reads for one in self.rankings}
        return frozenset(read | {one.reads for one in self.ladders if not one.overall})


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class Query:
    """A question about rows, built step by step; every step returns a new value.

    `session.table(...)` begins one. `where`, `derive`, `join`, `union`, `explode` and `group_by`
    follow in any sensible order, and `agg` ends it. Nothing private is read and nothing is spent
    before `session.evaluate`.

    Attributes
    ----------
    rows, unit
        The rows, and the privacy unit.
    groups, keys
        The groups, and the keys of the groups with public keys.
    private
        How the keys of the other groups are found.
    margins
        Which sums over groups are answered too, consistently with the groups.
    level_weights
        Each level's share of the budget, where the caller chose it.
    aggregates, asked
        The aggregates, resolved and as the caller gave them.

    Examples
    --------
    >>> import pandas
    >>> import unacorda
    >>> visits = pandas.DataFrame({"id": [1, 2, 3], "age": [30, 41, 62], "town": ["A", "B", "B"]})
    >>> unit = unacorda.Person("id", max_rows=1)
    >>> with unacorda.Session({"visits": visits}, unit=unit, budget=unacorda.PureDP(1)) as session:
    ...     adults = session.table("visits").where("age >= 18")
    ...     adults.group_by("town", keys=["A", "B"]).agg(n=unacorda.count())
    table('visits').where('"age" >= 18').group_by('town'; 2 keys).agg(n)
    """

    rows: Relation
    unit: Unit
    groups: tuple[Group, ...] = ()
    keys: tuple[tuple[Key, ...], ...] = ((),)
    private: PrivateKeys | None = None
    margins: Literal["rollup", "cube"] | None = None
    level_weights: LevelWeights = None
    aggregates: Mapping[str, Aggregate] = field(default_factory=dict)
    asked: Mapping[str, Aggregate] = field(default_factory=dict)

    def __dir__(self) -> list[str]:
        return sorted(_FOR_CALLERS)

    def __repr__(self) -> str:
        parts = [str(self.rows)]
        if self.groups:
            names = ", ".join(repr(group.label) for group in self.groups)
            levels = "" if self.margins is None else f"; {self.margins}"
            keys = f"{len(self.keys):,} keys"
            if self.private is not None:
                beside = f", next to {len(self.keys):,} public ones" if self.public_groups else ""
                keys = f"private keys{beside}"
            parts.append(f"group_by({names}; {keys}{levels})")
        if self.aggregates:
            parts.append(f"agg({', '.join(self.aggregates)})")
        return ".".join(parts)

    if not TYPE_CHECKING:  # a checker of types is to know which attributes there are

        def __getattr__(self, name: str) -> NoReturn:
            raise unknown_attribute("A query", name, QUERY, dir(self))

    def __getitem__(self, name: object) -> NoReturn:
        raise TypeError(
            "A query holds no values. Write .where(...) to filter rows, and name columns in the "
            "aggregates of .agg(...)."
        )

    def _repr_html_(self) -> str:
        stated = {
            "rows": self.rows,
            "group by": ", ".join(group.label for group in self.groups),
            "keys": f"{len(self.keys):,} public" if self.private is None else "private",
            "margins": self.margins,
            "answers": ", ".join(f"{name}: {one.tag}" for name, one in self.asked.items()),
            "protects": self.unit,
        }
        if not self.groups:
            del stated["keys"]
        return facts((name, value) for name, value in stated.items() if value)

    @property
    def scope(self) -> TableSchema:
        """The columns that names refer to after all steps."""
        return self.rows.scope

    def where(self, condition: Written) -> Query:
        """Keep the rows for which a row-wise condition is true (NULL is not true).

        Parameters
        ----------
        condition
            SQL text, `where("age >= 18")`, or an expression, `where(unacorda.col("age") >= 18)`.

        Returns
        -------
        Query
            The question about these rows only.

        Raises
        ------
        UnsafeExpression
            For SQL that is no safe row-wise expression; the message has a hint.
        InvalidParameter
            For an unknown column, and for an expression that is not a condition.
        """
        self._open("where")
        return dataclasses.replace(self, rows=self.rows.where(expression_text(condition)))

    def derive(self, /, **columns: Written) -> Query:
        """Add columns made by row-wise expressions: `derive(bmi="weight / (height * height)")`.

        A column may use those before it.

        Parameters
        ----------
        **columns
            The expression of each new name: SQL text, or an expression of `unacorda.col`.

        Returns
        -------
        Query
            The question with these columns.

        Raises
        ------
        UnsafeExpression
            For SQL that is no safe row-wise expression; the message has a hint.
        InvalidParameter
            For a name that is taken already, and for an unknown column.
        """
        self._open("derive")
        checks.demand(columns, "derive", columns, expected="name='expression'")
        rows = self.rows
        for label, text in columns.items():
            rows = rows.derive(label, expression_text(text))
        return dataclasses.replace(self, rows=rows)

    def explode(
        self,
        column: Written,
        *,
        separator: str = ",",
        most: int | None = None,
        into: str | None = None,
    ) -> Query:
        """Turn every row into one for each part of a text: `explode("tags", most=5)`.

        If the unit is a person, their contribution bounds hold for the rows before and after the
        step. If it is a row, the noise of counts and sums grows with `most`. All steps and joins of
        a question together make at most 1,000 rows of one.

        Parameters
        ----------
        column
            A column or expression of text. Rows where it is NULL are dropped.
        separator
            The text that separates two parts.
        most
            How many parts of a row to keep, from the first on. Required.
        into
            The name of the column of parts; by default they replace the column.

        Returns
        -------
        Query
            The question about the new rows.

        Raises
        ------
        InvalidParameter
            For arguments that do not fit.
        """
        self._before_groups("explode")
        rows = self.rows.explode(written(column), separator=separator, most=most, into=into)
        return dataclasses.replace(self, rows=rows)

    def join(
        self,
        other: str | Query,
        on: On = None,
        *,
        how: How = "inner",
        columns: Columns = None,
        max_rows: int | tuple[int, int] | None = None,
    ) -> Query:
        """Join columns of another table.

        If the unit is a person, their contribution bounds hold for the joined rows, and also for
        the rows before a join in which one matches several public rows, 1,000 at most. If the unit
        is a row, one that matches several counts as so many.

        Parameters
        ----------
        other
            The name of a public table of the session, which may be joined on any columns; or rows
            of another private table, `session.table(...)`, which are joined on the person's id, so
            that all matching rows belong to the same person.
        on
            The columns to compare, by a name that both have or as `{left: right}`. For private
            tables the default is the id, to which others may be added. NULL matches nothing.
        how
            "inner" drops rows without a match; "left" keeps them with NULLs.
        columns
            Which columns of the other table to keep, by default all; `{new name: its name}`
            renames.
        max_rows
            For private tables, how many rows of a person enter the join from each side. The product
            is at most 1,000.

        Returns
        -------
        Query
            The question about the joined rows.

        Raises
        ------
        InvalidParameter
            For arguments that do not fit.
        """
        self._before_groups("join")
        if isinstance(other, Query):
            beside = self._beside("join", other)
            rows = matched(self.rows, beside, on=on, how=how, columns=columns, max_rows=max_rows)
        else:
            expected = "it for private tables alone: of a public one all rows may be met"
            checks.demand(max_rows is None, "max_rows", max_rows, expected=expected)
            rows = looked_up(self.rows, other, on=on, how=how, columns=columns)
        return dataclasses.replace(self, rows=rows)

    def union(self, other: Query) -> Query:
        """Append the rows of another question, with the columns that both have.

        It is UNION ALL: `union(session.table("b"))`. A person's contribution bounds hold for both
        together. If the unit is a row and both sides read the same table, its rows count twice.

        Parameters
        ----------
        other
            Rows of a private table of the same session.

        Returns
        -------
        Query
            The question about all rows.

        Raises
        ------
        InvalidParameter
            For rows of another session, and for columns whose types differ.
        """
        self._before_groups("union")
        return dataclasses.replace(self, rows=united(self.rows, self._beside("union", other)))

    def per_person(self, /, **values: PersonValue) -> Query:
        """Aggregate to one row per person, with values over all of their rows.

        `labs.per_person(highest=unacorda.max_("value"), ever=unacorda.any_("test = 'smoke'"))`. No
        row is dropped or sampled, however many a person has. The values are exact, and the noise is
        that of one row per person. Steps before this one are about rows. Steps after it are about
        people, whose columns are these values and the id.

        Parameters
        ----------
        **values
            For each new name a value made by `min_`, `max_`, `sum_`, `mean_`, `count_`, `any_`,
            `all_`, `first_` or `last_`.

        Returns
        -------
        Query
            The question about people.

        Raises
        ------
        InvalidParameter
            If the unit has no id, and after a step that may turn one row into several.
        MissingBound
            For sums and means of numbers without public bounds.

        Examples
        --------
        >>> import pandas
        >>> import unacorda
        >>> labs = pandas.DataFrame({"id": [1, 1, 2], "value": [3, 7, 5]})
        >>> unit = unacorda.Person("id", max_rows=5)
        >>> with unacorda.Session({"labs": labs}, unit=unit, budget=unacorda.PureDP(1)) as session:
        ...     people = session.table("labs").per_person(highest=unacorda.max_("value"))
        ...     people.where("highest >= 6").agg(n=unacorda.count()).limited.max_rows
        5
        """
        self._before_groups("per_person")
        checks.demand(values, "per_person", values, expected="name=unacorda.max_('value'), ...")
        return dataclasses.replace(self, rows=self.rows.per_person(values))

    def group_by(
        self,
        *columns: Written,
        keys: GivenKeys = None,
        margins: Literal["rollup", "cube"] | None = None,
        level_weights: GivenLevelWeights = None,
    ) -> Query:
        """Group the answers by keys; every public key gets an answer, even without rows.

        Rows with other values are not part of the question.

        Parameters
        ----------
        *columns
            Columns or expressions, each an argument.
        keys
            For one column a list of values; for several a mapping of lists (all combinations) or a
            list of tuples. A public table may replace one list or all of them: a data frame, an
            Arrow table, `Csv` or a path of a CSV or Parquet file. Each of its rows is one key, in
            columns named as those of the group. Columns declared as `Categories` and boolean
            columns need no keys. `unacorda.private_keys()` in place of one list or of all finds the
            keys that enough people have, and answers those.
        margins
            Answer sums over columns too. Noise is added at every level, and least squares makes all
            tables consistent. "rollup" gives a total, then groups by the first column, by the first
            two, and so on; keys may be any tuples. "cube" groups by every subset of the columns,
            with all combinations as keys. It needs aggregates that add up: counts and sums, and
            people if each has rows in at most one group. Private keys are found among the
            combinations, and the sums are over the found ones. Each row of the release names its
            columns in `margin`, and has NULL in the others.
        level_weights
            With margins: each level's share of the budget relative to the others', in the order of
            the release: for a rollup from coarse to fine; for a cube the total, each column, each
            pair, .... Left out, no level errs more than one asked by itself with an equal part, and
            all numbers together err as little as can then be. With "overall" they err as little as
            can be at all, coarse levels more and the finest less.

        Returns
        -------
        Query
            The question by groups.

        Raises
        ------
        InvalidParameter
            For an unknown column, for keys that are missing or do not fit, and for a second
            `group_by`.

        Examples
        --------
        >>> import pandas
        >>> import unacorda
        >>> visits = pandas.DataFrame({"id": [1, 2, 3], "town": ["A", "B", "B"]})
        >>> unit = unacorda.Person("id", max_rows=1)
        >>> with unacorda.Session(
        ...     {"visits": visits}, unit=unit, budget=unacorda.PureDP(1)
        ... ) as session:
        ...     towns = session.table("visits").group_by("town", keys=["A", "B", "C"])
        ...     release = session.evaluate(towns.agg(n=unacorda.count()), budget=unacorda.PureDP(1))
        ...     release["town"]
        ['A', 'B', 'C']
        """
        self._open("group_by")
        expected = "one group_by with all columns"
        checks.demand(not self.groups, "group_by", columns, expected=expected)
        names = tuple(map(written, columns))
        named = names and all(isinstance(name, str) for name in names)
        expected = 'column names, each an argument: .group_by("county", "sex")'
        checks.demand(named, "group_by", columns, expected=expected)
        expected = "column names that differ by more than capitals"
        checks.demand(twin(names) is None, "group_by", names, expected=expected)
        groups, listed, private = grouped(self.scope, names, keys)
        sought = sum(group.private for group in groups)
        if margins is not None:
            check_margins(margins, listed, found=sought)
        if level_weights is not None:
            level_weights = check_level_weights(level_weights, margins, len(columns), found=sought)
        return dataclasses.replace(
            self,
            groups=groups,
            keys=listed,
            private=private,
            margins=margins,
            level_weights=level_weights,
        )

    def agg(self, /, *unnamed: object, **aggregates: Aggregate) -> Query:
        """Choose the aggregates to answer, by their column names in the release.

        The budget of the question is allocated to them by their weights.

        Parameters
        ----------
        **aggregates
            An aggregate for each name: `unacorda.count()`, `sum()`, `mean()` or another.

        Returns
        -------
        Query
            The question, ready for `Session.explain` and `Session.evaluate`.

        Raises
        ------
        TypeError
            For an aggregate without a name.
        InvalidParameter
            For an unknown column, a name whose columns are taken, and too many numbers.
        MissingBound
            For an aggregate that needs public bounds and has none.
        """
        if unnamed:
            raise TypeError("agg() takes every answer by a name. Write .agg(n=unacorda.count()).")
        self._open("agg")
        checks.demand(aggregates, "agg", aggregates, expected="name=unacorda.count(), ...")
        taken = set(map(folded, self.released_groups))
        for name, aggregate in aggregates.items():
            expected = "what unacorda.count(), sum(), mean(), variance() or another makes"
            checks.demand(isinstance(aggregate, Aggregate), name, aggregate, expected=expected)
            columns = {folded(one): one for one in answer_columns(name, aggregate.parts)}
            twice = sorted(columns[one] for one in columns.keys() & taken)
            expected = (
                "a name whose columns (name, name_se, name_low, ...) no group "
                "and no other aggregate has, in other capitals either"
            )
            checks.demand(not twice, name, twice, expected=expected)
            taken |= columns.keys()
        bound = {
            name: aggregate.bound_to(self.scope).within(self.reach)
            for name, aggregate in aggregates.items()
        }
        self._check_copies(bound)
        for name, aggregate in bound.items():
            if isinstance(aggregate, RowsKept):
                self._check_kept(name, aggregate)
        tables = self._tables(self.keys if self.private is None else ())
        if tables is not None:
            bound = {
                name: one if one.overall else consistent(name, one, tables, self.reach)
                for name, one in bound.items()
            }
        expected = "it alone in its agg(): ask the others in a question of their own"
        for name, aggregate in bound.items():
            several = f"{aggregate.lines:,} lines for each key"
            others = [one for other, one in bound.items() if other != name and not one.overall]
            checks.demand(aggregate.lines == 1 or not others, name, several, expected=expected)
        expected = f"at most {_MOST_BINS:,} of them together: fewer keys, or fewer bins or values"
        for name, aggregate in bound.items():  # all of them are held at once
            held = f"{aggregate.integers:,} integers for each of {len(self.keys):,} keys"
            few = len(self.keys) * (aggregate.integers + 1) <= _MOST_BINS
            checks.demand(few, name, held, expected=expected)
        return dataclasses.replace(self, aggregates=bound, asked=dict(aggregates))

    def synthesize(
        self,
        columns: Sequence[Written],
        *,
        bins: Mapping[str, Cells] | None = None,
        workload: int | Sequence[Sequence[str]] = 3,
        weights: Mapping[tuple[str, ...], Number] | None = None,
        never: Sequence[str | Condition] = (),
        report: Number = Fraction(1, 20),
        finding: Number = Fraction(1, 10),
        watch: Watch | None = None,
        max_cells: int = 500_000,
        rows: int | None = None,
        **unknown: object,
    ) -> Synthesis[Query]:
        """Ask for synthetic rows whose counts over few columns are close to the true ones.

        `session.explain(...)` forecasts the result for free; `session.evaluate(...)` generates it.
        The whole budget is reserved once, no row leaves the engine, and the errors of the finished
        rows are measured. A row of the result stands for a row of the table, not for a person. See
        docs/synthesis.md.

        Parameters
        ----------
        columns
            Columns or expressions. The cells of a column declared as Categories are its values and
            one for all others; those of a boolean are false, true and NULL; those of numbers and
            dates are given by `bins`.
        bins
            By column the edges of the bins, or their number; then the edges are found privately in
            the public range. For text columns their values, or `unacorda.private_keys()` to find
            them, as is done for columns declared as Text.
        workload
            The tables whose errors matter: all tables over this many columns, or a list of names.
        weights
            The weight of each table; 1 by default.
        never
            Conditions that no row satisfies, such as "sex = 'M' AND pregnant" or {"sex": "M",
            "pregnant": True}.
        report
            The share of the budget that measures errors.
        finding
            The share of the budget that finds edges and texts, in equal parts.
        watch
            A function that is called after each round.
        max_cells
            The most cells in a measured table, and in all tables that must be kept together.
        rows
            How many rows are drawn; by default the estimated number.
        **unknown
            Refused, with the nearest argument as a hint.

        Returns
        -------
        Synthesis
            The question, for `Session.explain` and `Session.evaluate`.

        Raises
        ------
        InvalidParameter
            For columns whose cells are neither public nor can be found, for tables and conditions
            with more cells than `max_cells`, and for other arguments that do not fit.
        """
        from unacorda.query.plan.synthesis import synthesis_of

        for name, value in unknown.items():
            (near,) = difflib.get_close_matches(name, _SYNTHESIS_ARGUMENTS, n=1, cutoff=0)
            known = f"one of the arguments {', '.join(_SYNTHESIS_ARGUMENTS)}"
            raise InvalidParameter(name, value, expected=known, hint=f"did you mean {near}?")
        self._before_groups("synthesize")
        return synthesis_of(
            self,
            self.scope,
            columns=columns,
            bins=bins or {},
            finding=finding,
            watch=watch,
            choices={
                "workload": workload,
                "weights": weights or {},
                "never": never,
                "report": report,
                "max_cells": max_cells,
                "rows": rows,
            },
        )

    def with_kept(self, share: Number) -> Query:
        """Add an estimate of the share of rows kept, for this share of the question's budget.

        The question does not change if no contribution bound can drop a row.

        Parameters
        ----------
        share
            Of the budget, between 0 and 1, such as 0.05.

        Returns
        -------
        Query
            The question, whose release has `kept`.

        Raises
        ------
        InvalidParameter
            For a share out of its range.
        """
        value = checks.exact("kept", share)
        checks.demand(0 < value < 1, "kept", share, expected="a share of the budget, such as 0.05")
        if not (self.drops_rows and self.samples_rows):
            return self
        self._check_kept("kept", share)
        name = "rows_kept"
        while answer_columns(name) & set().union(
            self.released_groups, *(answer_columns(n, a.parts) for n, a in self.aggregates.items())
        ):
            name += "_"
        kept = RowsKept(weight=self._weight * value / (1 - value), aside=True)
        return self.asking({**self.asked, name: kept})

    def with_max_rows(self, max_rows: int) -> Query:
        """Ask the same question with another bound on the rows of a person.

        The noise is that of this bound. The session answers the question with it.

        Parameters
        ----------
        max_rows
            The most rows of a person that count, from 1 to 1,000,000.

        Returns
        -------
        Query
            The question.

        Raises
        ------
        InvalidParameter
            For a number out of its range, and if the unit is a row.
        """
        if not isinstance(self.unit, Person):
            expected = "a question about people: Person('id', max_rows=...)"
            raise InvalidParameter("max_rows", max_rows, expected=expected)
        limits = {**self.unit.limits, "max_rows": max_rows}
        checked = Person(self.unit.id, **limits, neighbors=self.unit.neighbors).max_rows
        bounded = dataclasses.replace(self, unit=self.unit.with_rows(checked or 1))
        return bounded.asking(self.asked) if self.aggregates else bounded

    def only(
        self, *, groups: tuple[Group, ...] = (), keys: tuple[tuple[Key, ...], ...] = ((),)
    ) -> Query:
        """Return the same rows with some groups only, and no aggregates yet.

        Parameters
        ----------
        groups
            The groups.
        keys
            Their keys.

        Returns
        -------
        Query
            A new query.
        """
        return Query(rows=self.rows, unit=self.unit, groups=groups, keys=keys)

    def asking(self, aggregates: Mapping[str, Aggregate]) -> Query:
        """Return the same rows and groups with other aggregates.

        Parameters
        ----------
        aggregates
            By the names of their answers.

        Returns
        -------
        Query
            A new query.
        """
        return dataclasses.replace(self, aggregates={}, asked={}).agg(**aggregates)

    @property
    def aside(self) -> frozenset[str]:
        """The names of aggregates that are not columns of the release."""
        return frozenset(
            name for name, a in self.aggregates.items() if isinstance(a, RowsKept) and a.aside
        )

    @property
    def drops_rows(self) -> bool:
        """Whether contribution bounding can drop rows that an aggregate reads.

        This is public. People are counted from all of their rows.
        """
        if not isinstance(self.limited, Person) or (self.aggregates and not self.samples_rows):
            return False
        steps, most = steps_of(self.limited, cells=self.cells), self.rows.most_of_person
        numbers = [one for one in (steps.groups, steps.each, steps.rows) if one is not None]
        return self.rows.bounded_early or any(most is None or most > number for number in numbers)

    @property
    def bounded_by_rows(self) -> bool:
        """Whether only the bound on all rows of a person can drop rows."""
        if not isinstance(self.limited, Person):
            return True
        steps = steps_of(self.limited, cells=self.cells)
        in_groups = steps.groups is not None or (steps.each is not None and self.cells > 1)
        return not (in_groups or self.rows.bounded_early)

    def _check_kept(self, argument: str, value: object) -> None:
        """Raise InvalidParameter where the share of rows kept is no function of rows by person."""
        expected = (
            "it where max_rows= alone bounds rows: with max_groups= or max_rows_per_group=, and "
            "after a join of private tables, explode or a public table that a row meets several "
            "times in, it is not known from how many rows each person has"
        )
        checks.demand(self.bounded_by_rows, argument, value, expected=expected)

    @property
    def begun(self) -> bool:
        """Whether there are neither groups nor aggregates yet."""
        return not self.groups and not self.aggregates

    @property
    def names(self) -> frozenset[str]:
        """The identifiers of the columns that groups and aggregates use."""
        used = {group.name for group in self.groups}
        for aggregate in self.aggregates.values():
            used = used.union(*(expression.columns for expression in aggregate.expressions))
        return frozenset(used)

    @property
    def reach(self) -> Reach:
        """The contribution bounds of one unit in the question."""
        return Reach.of(self.limited, cells=self.cells, most=self.rows.most)

    @property
    def inputs(self) -> tuple[str, ...]:
        """SQL of the aggregated expressions, each once."""
        return _once((x.sql for x in a.expressions) for a in self.aggregates.values())

    @property
    def reads(self) -> dict[str, Reads]:
        """What each aggregate reads, by its name."""
        return self._reads(self.inputs)

    def _reads(self, inputs: Sequence[str]) -> dict[str, Reads]:
        """The same, with the columns v0, v1, ... for these expressions."""
        names = {sql: f"v{index}" for index, sql in enumerate(inputs)}
        found = {}
        for name, aggregate in self.aggregates.items():
            values = tuple(names[x.sql] for x in aggregate.expressions)
            found[name] = Reads(
                measures=aggregate.measures(values),
                rankings=aggregate.rankings(values),
                ladders=aggregate.ladders(values, self.unit),
            )
        return found

    @property
    def measures(self) -> tuple[Measure, ...]:
        """SQL of the exact sums and counts over the bounded rows, each once."""
        return _once(reads.measures for reads in self.reads.values())

    def rows_read(self, inputs: Sequence[str]) -> str | None:
        """Return what holds for the bounded rows of which an aggregate reads anything.

        Parameters
        ----------
        inputs
            The aggregated expressions, which are the columns v0, v1, ...

        Returns
        -------
        str or None
            SQL; None where every row is read, and where aggregates read people only.
        """
        read = frozenset[str | None]().union(*(r.conditions for r in self._reads(inputs).values()))
        listed = sorted(one for one in read if one is not None)
        every = not listed or None in read
        return None if every else " OR ".join(f"({one})" for one in listed)

    @property
    def filters(self) -> dict[str, str | None]:
        """The condition of each aggregate of rows, as with FILTER; None where it has none."""
        reading = (name for name, reads in self.reads.items() if reads.conditions)
        return {name: self.aggregates[name].filter for name in reading}

    def filtered(self, *, people: bool = False) -> Relation:
        """Return the rows that meet the condition shared by all aggregates of rows.

        Parameters
        ----------
        people
            Use the condition of counts of people instead.

        Returns
        -------
        Relation
            The rows unchanged if the condition would read columns in another way.
        """
        of_rows = self.filters
        names = self.aggregates.keys() - of_rows.keys() if people else of_rows.keys()
        asked = [self.aggregates[name] for name in names]
        (one,) = filters if len(filters := {one.filter for one in asked}) == 1 else (None,)
        if one is None or (people and self.private is not None):
            return self.rows
        filtered, read = self.rows.where(one), frozenset[str]()
        for expression in (x for a in asked for x in a.expressions):
            read |= expression.columns
        last = filtered.steps[-1]
        assert isinstance(last, RowFilter)
        return filtered if last.expression.columns <= read else self.rows

    @property
    def filtered_late(self) -> tuple[str, ...]:
        """Aggregates whose conditions apply only after contribution bounding.

        A condition that all share applies before it: rows that no aggregate reads are not kept.
        """
        filters = self.filters
        common = len(set(filters.values())) == 1
        return tuple(name for name, one in filters.items() if one is not None and not common)

    @property
    def counts_people(self) -> bool:
        """Whether an aggregate counts people, which reads all of their rows."""
        return any(isinstance(measure, PeopleCount) for measure in self.measures)

    @property
    def samples_rows(self) -> bool:
        """Whether any aggregate reads the bounded rows."""
        return bool(self.filters)

    @property
    def rankings(self) -> tuple[Ranking, ...]:
        """What is counted by place on a grid, each once."""
        return _once(reads.rankings for reads in self.reads.values())

    @property
    def ladders(self) -> tuple[Thresholds, ...]:
        """The ladders that people climb, each once."""
        return _once(reads.ladders for reads in self.reads.values())

    @property
    def lines(self) -> int:
        """How many rows of the release a cell has."""
        return max((a.lines for a in self.aggregates.values()), default=1)

    @property
    def public_groups(self) -> tuple[Group, ...]:
        """The groups that `keys` are of."""
        return tuple(group for group in self.groups if not group.private)

    @property
    def private_groups(self) -> tuple[Group, ...]:
        """The groups whose keys are found."""
        return tuple(group for group in self.groups if group.private)

    @property
    def cells(self) -> int:
        """How many cells there are; with private keys, more than any unit contributes to."""
        return len(self.keys) if self.private is None else _ANY_CELLS

    @property
    def limited(self) -> Unit:
        """The unit, with the bound on groups that private keys set for this question."""
        if self.private is None or self.private.max_groups is None or isinstance(self.unit, Row):
            return self.unit
        return self.unit.with_groups(self.private.max_groups)

    @property
    def released_groups(self) -> tuple[str, ...]:
        """The columns of a release that identify a row."""
        labels = tuple(group.label for group in self.groups)
        return labels if self.margins is None else (MARGIN, *labels)

    @property
    def released_keys(self) -> tuple[tuple[Key, ...], ...]:
        """The key of each row of a release; `lines` of them share one."""
        tables = self._tables(self.keys)
        return self.keys if tables is None else tables.lines([g.label for g in self.groups])

    @property
    def numbers(self) -> int:
        """How many numbers a release has at all levels; with private keys, for one key."""
        tables = None if self.private is not None else self._tables(self.keys)
        lines = len(self.keys) if tables is None else tables.size
        asked = (one for name, one in self.aggregates.items() if name not in self.aside)
        return lines * sum(len(one.parts) * one.lines for one in asked)

    @property
    def levels(self) -> tuple[str, ...]:
        """The levels of a release with margins, as it names them; empty for other questions."""
        tables = self._tables(())
        return () if tables is None else tables.names([g.label for g in self.groups])

    def _tables(self, keys: tuple[tuple[Key, ...], ...]) -> Margins | None:
        """The tables that add up, of these keys; None without margins."""
        if self.margins is None:
            return None
        width = len(self.groups)
        return Margins(kind=self.margins, keys=keys, weights=self.level_weights, width=width)

    @property
    def most_found(self) -> int:
        """How many combinations of private keys can be answered, from the question alone."""
        integers = max((a.integers for a in self.aggregates.values()), default=0)
        return max(_MOST_BINS // ((integers + 1) * len(self.keys)), 1)

    def with_keys(self, keys: tuple[tuple[Key, ...], ...]) -> Query:
        """Return the query whose private keys have been found.

        Parameters
        ----------
        keys
            All its keys.

        Returns
        -------
        Query
            A new query.
        """
        groups = tuple(dataclasses.replace(group, private=False) for group in self.groups)
        aggregates = {
            name: one.over(keys) if isinstance(one, Consistent) else one
            for name, one in self.aggregates.items()
        }
        return dataclasses.replace(
            self, groups=groups, keys=keys, private=None, aggregates=aggregates
        )

    def weighted(self, weights: Mapping[str, Fraction]) -> Query:
        """Return the same query with other weights.

        Parameters
        ----------
        weights
            By aggregate.

        Returns
        -------
        Query
            A new query.
        """
        aggregates, asked = (
            {name: dataclasses.replace(a, weight=weights[name]) for name, a in given.items()}
            for given in (self.aggregates, self.asked)
        )
        return dataclasses.replace(self, aggregates=aggregates, asked=asked)

    def parts(self) -> dict[str, Fraction]:
        """Each aggregate's share of the budget; with that of private keys they add up to 1."""
        return {name: a.weight / self._weight for name, a in self.aggregates.items()}

    @property
    def keys_part(self) -> Fraction:
        """The share of the budget that finds keys; 0 if all are public."""
        return Fraction(0) if self.private is None else self.private.weight / self._weight

    @property
    def _weight(self) -> Fraction:
        found = Fraction(0) if self.private is None else self.private.weight
        return sum((a.weight for a in self.aggregates.values()), found)

    def digest(self) -> str:
        """Compute the SHA-256 of the question.

        Returns
        -------
        str
            64 hexadecimal digits. Ledger entries and releases state it.
        """
        return hashlib.sha256(json.dumps(self.to_dict()).encode()).hexdigest()

    def to_dict(self) -> dict[str, Any]:
        """Return the question in plain values, from which it can be rebuilt.

        The digest is computed from it. It lists the table's columns that are used, with their types
        and declarations.

        Returns
        -------
        dict
            Texts, numbers, lists and dictionaries.
        """
        rows = stated_rows(self.rows, self.names)
        steps = rows.pop("steps")
        found: dict[str, Any] = {
            **rows,
            "unit": encode(self.unit),
            "steps": steps,
            "groups": [group.label for group in self.groups],
            "keys": encode(self.keys),
            "aggregates": encode(self.asked),
        }
        if self.unit.search is not None:
            found["search"] = encode(self.unit.search)
        if self.margins is not None:
            found["margins"] = self.margins
        if self.level_weights is not None:
            found["level_weights"] = encode(self.level_weights)
        if self.private is not None:
            names = [group.label for group in self.private_groups]
            found["private"] = {"groups": names, "keys": encode(self.private)}
        return found

    def to_json(self) -> str:
        """Write the question as JSON text.

        `Session.read_json` reads it in a session with the same tables.

        Returns
        -------
        str
            JSON text, in the form of docs/questions.md.

        Raises
        ------
        InvalidParameter
            For an aggregate that has no name in this form.
        """
        found = rows_as_json(self.rows)
        if self.groups:
            found["group_by"] = [group.label for group in self.groups]
            found["keys"] = keys_as_json(self.groups, self.keys, self.private)
            found |= {} if self.margins is None else {"margins": self.margins}
            weights = encode(self.level_weights)
            found |= {} if weights is None else {"level_weights": weights}
        found["aggregates"] = {name: function_as_json(one) for name, one in self.asked.items()}
        return json.dumps(found)

    def _open(self, step: str) -> None:
        expected = "it before agg(), which ends a question"
        checks.demand(not self.aggregates, step, step, expected=expected)

    def _before_groups(self, step: str) -> None:
        self._open(step)
        checks.demand(self.begun, step, step, expected="a step before group_by()")

    def _beside(self, argument: str, other: object) -> Relation:
        """The rows of another question that is only begun."""
        if not isinstance(other, Query) or not other.begun:
            expected = "rows of a table, session.table(...), without group_by"
            raise InvalidParameter(argument, other, expected=expected)
        alike = len(other.scope.ids) == len(self.scope.ids)
        checks.demand(alike, argument, other, expected="rows of a table of the same session")
        return other.rows

    def _check_copies(self, aggregates: Mapping[str, Aggregate]) -> None:
        """Raise where a protected row counts several times, and people would be distinguished."""
        if not isinstance(self.unit, Row) or self.rows.most == 1:
            return
        expected = (
            f"what counts rows: one row of the table becomes up to {self.rows.most:,} here, and "
            "nothing tells which belong together. Protect unacorda.Person('id', ...)"
        )
        checks.demand(self.private is None, "keys", "private_keys()", expected=expected)
        for name, aggregate in aggregates.items():
            values = [f"v{index}" for index in range(len(aggregate.expressions))]
            rowwise = not aggregate.reads_people(values, Row())
            checks.demand(rowwise, name, type(aggregate).tag, expected=expected)


def answer_columns(name: str, parts: Sequence[str] = ("",)) -> set[str]:
    """The columns of a release that belong to the aggregate of this name."""
    return {f"{name}{part}{ending}" for part in parts for ending in ENDINGS}


def _once(found: Iterable[Iterable[_T]]) -> tuple[_T, ...]:
    return tuple(dict.fromkeys(itertools.chain.from_iterable(found)))


_MOST = 1_000
Several = (
    list[Query]
    | list[str]
    | list[Query | str]
    | tuple[Query | str, ...]
    | Mapping[str, Query | str]
)
"""Questions, or SELECTs, that may be asked together."""

_EXPECTED = f"a list or dict of 1 to {_MOST:,} questions"


@dataclass(frozen=True, slots=True, kw_only=True)
class QueryBatch:
    """The questions of one reservation. names: empty text for one that is asked alone."""

    names: tuple[str, ...]
    queries: tuple[Query, ...]
    weights: tuple[Fraction, ...]

    @staticmethod
    def alone(query: Query) -> QueryBatch:
        """One question."""
        return QueryBatch(names=("",), queries=(query,), weights=(Fraction(1),))

    @property
    def parts(self) -> dict[str, float]:
        """Each question's share of the budget, by name."""
        whole = sum(self.weights)
        return {n: float(w / whole) for n, w in zip(self.names, self.weights, strict=True)}

    @property
    def single(self) -> bool:
        """Whether it is one question, asked alone."""
        return self.names == ("",)

    def to_dict(self) -> dict[str, Any]:
        """All fields as plain values."""
        return {
            "names": list(self.names),
            "weights": [str(weight) for weight in self.weights],
            "questions": [query.to_dict() for query in self.queries],
        }

    def digest(self) -> str:
        """SHA-256 of what is asked: of one question its own."""
        if self.single:
            return self.queries[0].digest()
        return hashlib.sha256(json.dumps(self.to_dict()).encode()).hexdigest()


@dataclass(frozen=True, slots=True, kw_only=True)
class BatchPosition:
    """Which of several questions one is. number: from 0."""

    together: QueryBatch
    number: int

    @property
    def name(self) -> str:
        """Its name among them."""
        return self.together.names[self.number]

    def to_dict(self) -> dict[str, Any]:
        """All of it in plain values, the other questions included."""
        return {"place": self.number, **self.together.to_dict()}


@contextmanager
def naming(name: str) -> Iterator[None]:
    """Add the question's name to errors that are raised inside."""
    try:
        yield
    except UnacordaError as error:
        if not name:
            raise
        named = copy.copy(error)
        named.args = (f"In question {name!r}: {error}", *error.args[1:])
    else:
        return
    raise named


def place_of(name: str | int, names: tuple[str, ...]) -> int:
    """Find a question of a batch by its name or number; InvalidParameter for none."""
    if isinstance(name, str) and name in names:
        return names.index(name)
    if isinstance(name, int) and -len(names) <= name < len(names):
        return name
    raise InvalidParameter("name", name, expected=f"one of {', '.join(map(repr, names))}")


def members_of(questions: object) -> dict[str, Any] | None:
    """The members of a list or a mapping by name ('0', '1', ... for a list); None for neither.

    Raises InvalidParameter where it is empty, too long, or a name is no text.
    """
    if not isinstance(questions, Mapping | list | tuple):
        return None
    listed = not isinstance(questions, Mapping)
    found = {str(n): one for n, one in enumerate(questions)} if listed else dict(questions)
    several = f"{len(found):,} questions"
    checks.demand(1 <= len(found) <= _MOST, "query", several, expected=_EXPECTED)
    for name in found:
        expected = "questions by names that are text"
        checks.demand(checks.is_text(name), "query", name, expected=expected)
    return found


def check_single(query: object) -> object:
    """What is no list or mapping of questions."""
    one = not isinstance(query, Mapping | list | tuple)
    checks.demand(one, "query", query, expected="one question: ask about each by itself")
    return query


def weights_of(weights: object, names: Sequence[str], *, listed: bool) -> tuple[Fraction, ...]:
    """The weight of each question; 1 where the caller gave none.

    listed: that questions, and so weights, stand in a list; else in a mapping, by name. Raises
    InvalidParameter for one that is not above zero: on such a question nothing would be spent, and
    no noise is large enough for that.
    """
    given: Mapping[str, Any] = {}
    if listed and isinstance(weights, list | tuple) and len(weights) == len(names):
        given = dict(zip(names, weights, strict=True))
    elif not listed and isinstance(weights, Mapping) and set(weights) <= set(names):
        given = weights
    elif weights is not None:
        expected = f"a list of {len(names):,}, one for each question"
        if not listed:
            expected = f"a dict by the names of questions: {', '.join(map(repr, names))}"
        raise InvalidParameter("weights", weights, expected=expected)
    return tuple(weight_of(given.get(n, 1), argument=f"weights[{n!r}]") for n in names)


def read_together(
    questions: object, weights: object, read: Callable[[object], tuple[Query, _T]]
) -> tuple[QueryBatch, list[_T]]:
    """One question or several, as the caller gave them, and what else `read` makes of each.

    Raises what `read` raises, naming the question, and InvalidParameter for weights.
    """
    given = members_of(questions)
    fits = given is not None or weights is None
    checks.demand(
        fits,
        "weights",
        weights,
        expected="several questions, among which weights divide the budget",
    )
    asked, beside = [], []
    for name, member in ({"": questions} if given is None else given).items():
        with naming(name):
            query, other = read(member)
            asked.append(query)
            beside.append(other)
    if given is None:
        return QueryBatch.alone(asked[0]), beside
    shares = weights_of(weights, tuple(given), listed=not isinstance(questions, Mapping))
    return QueryBatch(names=tuple(given), queries=tuple(asked), weights=shares), beside


@dataclass(frozen=True, slots=True, kw_only=True)
class Scan:
    """One statement. query: the aggregates of all its questions; members: their places."""

    query: Query
    members: tuple[int, ...]

    @staticmethod
    def name_of(member: int, name: str) -> str:
        """What an aggregate of one question is called in the scan."""
        return f"{member} {name}"


def _shared_filters(query: Query) -> frozenset[str | None]:
    """The conditions of which a row that is kept meets one; nothing where any row may be kept."""
    filters = frozenset(query.filters.values()) if isinstance(query.unit, Person) else frozenset()
    return frozenset() if None in filters else filters


def scans_of(queries: Sequence[Query]) -> tuple[Scan, ...]:
    """The fewest scans that answer all questions, in the order of their first ones.

    Those are scanned together of which all but the aggregates is the same, and no keys are found.
    Where all aggregates of a question have conditions, these stand before the bounding of rows, so
    that they have to be the same, too.
    """
    together: list[tuple[tuple[Query, frozenset[str | None]], list[int]]] = []
    for place, query in enumerate(queries):
        bare = (
            dataclasses.replace(query, aggregates={}, asked={}, level_weights=None),
            _shared_filters(query),
        )
        alike = (members for one, members in together if query.private is None and one == bare)
        members = next(alike, None)
        if members is None:
            together.append((bare, [place]))
        else:
            members.append(place)
    scans = []
    for _, members in together:
        aggregates = {
            Scan.name_of(place, name): aggregate
            for place in members
            for name, aggregate in queries[place].aggregates.items()
        }
        query = dataclasses.replace(queries[members[0]], aggregates=aggregates)
        scans.append(Scan(query=query, members=tuple(members)))
    return tuple(scans)
