"""SQL that binds every person to their limits: some groups, some rows in each, some rows in all.

**How a person is bound.** In three steps, each of which only takes rows away, so that what one
has bound stays bound:

1. of their groups (the cells of the question that they have rows in), the first `max_groups` in the
   order of a salted hash of their id and the cell, and where two are level, of the cell's number;
2. of their rows in each group, a systematic sample of `max_rows_per_group`;
3. of all their rows, a systematic sample of `max_rows`.

A step is left out where nothing is given, and where what is left bounds it too: the first where
there are no more cells, and both of the first where `max_rows` is no larger (r rows lie in r groups
at most, r in each); the last where groups times rows in each are no more. A person is known by
their id itself, never by a hash of it, and each step looks at their own rows and the salt alone:
removing another person changes nothing of it, and computing it again gives the same rows. Groups
and rows are drawn with numbers of their own, made of the salt, so that one choice tells nothing of
another.

Where several rows are made of one (`compile`), a person is bound by the last step alone before
that, too: what is multiplied then, and bound here in the end, are rows of theirs that the salt
chose among their own, and removing another person changes nothing of either choice.

**A systematic sample.** The n rows are put in the order of every column in use; rows that are
level are identical, so that their order is without effect. The systematic sample of k < n rows is
kept: of the first p rows of the order f(p) = floor(k (p / n) + u), with u in (0, 1) from a salted
hash of their id (and the cell), so that row p stays where f(p) > f(p - 1). Every row is kept with
the same chance k / n (to within 2^-20), also where rows are identical, and the rows kept are spread
over their groups and values as theirs are.

**It keeps exactly k of them.** u = (j + 1/2) / 2^20 is a double, and so is k + u, since k <= 2^20:
f(0) = floor(u) = 0 and f(n) = floor(k + u) = k. Between them f rises, as rounding does not turn
p / n around, and by 1 at most: k / n <= 1 - 2^-21, while what is rounded errs by less than 2^-30.

Few people have more rows than stay, and to put rows in an order takes most of the time. So rows
are counted first, and only where there are more than k they are ordered.

**People need no sample.** Where people are counted, it does not matter how many rows a person has
in a group, only whether there are any. So the pairs of person and group are made of all rows
(`bound_pairs`), and of a person's pairs the first in the order of the first step are kept: as many
as the limits let a person have groups. What is kept is a function of the person's own rows and the
salt (docs/proofs/people.md).

**Wide rows.** To sort many columns takes an engine longer than to sort few and join. Where it is
said to (`narrow`), wide rows are put in the order of their cell and of a salted hash of every
column in use, and by all columns where that leaves two rows of a person level. Where none are, the
cell and the hash decide, and tell their rows apart, so that the rows kept are found by them; the
others' rows, which are identical but for a chance of 2^-64, are ordered by all columns. It is one
order for all, and the sample is that of it.
"""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass

from unacorda.over_time.bounds import OverTime
from unacorda.query.expressions.language import double
from unacorda.query.schema.units import Person, id_columns, steps_of


def bound_rows(
    rows: str,
    *,
    unit: Person,
    cells: int,
    cell: Sequence[str],
    values: Sequence[str],
    salt: int,
    narrow: bool = False,
    once: bool = True,
) -> str:
    """SELECT of the rows that stay, out of a SELECT (u0, ..., cell, ...).

    cells: how many there are at most; cell: the columns that tell them apart; values: all else
    that is used of a row, beside the ids; salt: 128 bits drawn for this question; narrow: whether
    wide rows are ordered by few columns first; once: whether the engine computes what WITH names a
    single time.
    """
    steps, ids = steps_of(unit, cells=cells), id_columns(unit)
    content = ", ".join([*cell, *values, *ids])
    own = [*ids, *cell]
    if steps.groups is not None:
        order = _order_of_groups(ids, cell, salt)
        turns = f"dense_rank() OVER (PARTITION BY {', '.join(ids)} ORDER BY {order})"
        taken = f"SELECT {content}, {turns} AS turn FROM ({rows})"
        rows = f"SELECT {content} FROM ({taken}) WHERE turn <= {steps.groups}"
    for most, of, purpose in ((steps.each, own, "rows in a group"), (steps.rows, ids, None)):
        if most is not None:
            drawn = salt if purpose is None else salt_for(purpose, salt)
            sample = _Sample(most=most, ids=ids, cell=cell, values=values, of=of, salt=drawn)
            if not once:
                rows = sample.single(rows)
            elif narrow and len(values) >= WIDE:
                rows = sample.narrow(rows)
            else:
                rows = sample.plain(rows)
    return rows


def bound_pairs(
    rows: str,
    *,
    unit: Person,
    cell: Sequence[str],
    present: Sequence[str | None],
    most: int | None,
    salt: int,
) -> str:
    """SELECT of pairs of person and group (u0, ..., cell, ..., p0, ...), out of all rows.

    present: for every count the value that a row must have, None where any row does; p0, ... are 1
    where the person counts in this group, else NULL. most: in how many groups a person counts, of
    each count alone; None where no more are possible.
    """
    ids = id_columns(unit)
    own = ", ".join([*ids, *cell])
    pairs = f"SELECT {own}"
    for index, value in enumerate(present):
        some = "1" if value is None else f"max(CASE WHEN {value} IS NOT NULL THEN 1 END)"
        pairs += f", {some} AS p{index}"
    pairs += f" FROM ({rows}) GROUP BY {own}"
    if most is None:
        return pairs
    numbers = range(len(present))
    order, listed = _order_of_groups(ids, cell, salt), ", ".join(ids)
    turns = "".join(
        f", row_number() OVER (PARTITION BY {listed}, p{n} ORDER BY {order}) AS t{n}"
        for n in numbers
    )
    kept = "".join(f", CASE WHEN t{n} <= {most} THEN p{n} END AS p{n}" for n in numbers)
    return f"SELECT {own}{kept} FROM (SELECT *{turns} FROM ({pairs}))"


def bound_steps(
    rows: str,
    *,
    person: OverTime,
    ids: Sequence[str],
    cell: Sequence[str],
    values: Sequence[str],
    salt: int,
    once: bool = True,
) -> str:
    """SELECT (s, cell, ..., u0, ..., f) of the rows that count over time.

    rows: a SELECT (u0, ..., cell, ..., s, p) of all rows so far, s their step and p the period that
    it lies in. f: 1 in a person's first row, else NULL. Each choice looks at rows of no later
    step, so that it is made once and stays (docs/proofs/over-time.md).
    """
    named = ", ".join(ids)
    content = ", ".join(["s", *cell, *values, *ids])
    if person.max_steps is not None:
        within = named if person.within is None else f"{named}, p"
        turns = f"dense_rank() OVER (PARTITION BY {within} ORDER BY s) AS turn"
        rows = (
            f"SELECT {content} FROM (SELECT *, {turns} FROM ({rows})) "
            f"WHERE turn <= {person.max_steps}"
        )
    drawn = salt_for("rows in a step", salt)
    sample = _Sample(
        most=person.each, ids=ids, cell=["s", *cell], values=values, of=[*ids, "s"], salt=drawn
    )
    rows = sample.plain(rows) if once else sample.single(rows)
    order = ", ".join(["s", _order_of_groups(ids, cell, salt), *values])
    place = f"row_number() OVER (PARTITION BY {named} ORDER BY {order}) AS place"
    flag = "CASE WHEN place = 1 THEN 1 END AS f"
    most = "" if person.max_rows is None else f" WHERE place <= {person.max_rows}"
    return f"SELECT {content}, {flag} FROM (SELECT *, {place} FROM ({rows})){most}"


def _order_of_groups(ids: Sequence[str], cell: Sequence[str], salt: int) -> str:
    """SQL of the order in which a person's groups are kept."""
    return f"{salted_hash([*ids, *cell], salt=salt_for('groups', salt))}, {', '.join(cell)}"


@dataclass(frozen=True, slots=True, kw_only=True)
class _Sample:
    """The systematic sample of at most so many rows of those that share the columns `of`.

    of: the ids, and for a sample in each group its cell too. salt: of what is drawn.
    """

    most: int
    ids: Sequence[str]
    cell: Sequence[str]
    values: Sequence[str]
    of: Sequence[str]
    salt: int

    def plain(self, rows: str) -> str:
        """SQL of the rows that stay, ordered by all columns at once."""
        return (
            f"WITH everybody AS MATERIALIZED ({rows}), {self._beyond} {self._within} UNION ALL "
            f"({self._drawn('everybody', order=[*self.cell, *self.values])})"
        )

    def single(self, rows: str) -> str:
        """The same in one reading: the sample of everybody's rows, few or many."""
        content, of = ", ".join(self._content), ", ".join(self.of)
        ranked = (
            f"SELECT {content}, row_number() OVER (PARTITION BY {of} ORDER BY "
            f"{', '.join([*self.cell, *self.values])}) AS place, count(*) OVER (PARTITION BY {of}) "
            f"AS n FROM ({rows})"
        )
        drawn = f"SELECT *, {self._u} AS u FROM ({ranked})"
        return f"SELECT {content} FROM ({drawn}) WHERE n <= {self.most} OR {self._kept}"

    def narrow(self, rows: str) -> str:
        """The same of wide rows, by the cell and a hash where that is enough."""
        order = [*self.cell, "h"]
        own = [*self.ids, *order]
        mixed = salted_hash([*self.cell, *self.values], salt=salt_for("order", self.salt))
        ranked = self._placed("everybody", own, order=order, beside="rank() OVER rows")
        level = f"SELECT DISTINCT {', '.join(self.of)} FROM ranked WHERE place > beside"
        of_level = f"SEMI JOIN level ON {_same('{0}', 'level', self.of)}"
        listed = ", ".join(own)
        gone = (
            f"SELECT {listed} FROM ranked WHERE NOT ({self._kept}) UNION ALL "
            f"SELECT {listed} FROM ranked {of_level.format('ranked')}"
        )
        return (
            f"WITH everybody AS MATERIALIZED (SELECT *, {mixed} AS h FROM ({rows})), "
            f"{self._beyond}, ranked AS MATERIALIZED ({ranked}), level AS MATERIALIZED ({level}), "
            f"gone AS ({gone}), "
            f"tied AS (SELECT * FROM everybody {of_level.format('everybody')}) "
            f"SELECT {', '.join(self._content)} FROM everybody ANTI JOIN gone ON "
            f"{_same('everybody', 'gone', own)} UNION ALL "
            f"({self._drawn('tied', order=[*order, *self.values])})"
        )

    @property
    def _beyond(self) -> str:
        key = ", ".join(self.of)
        return (
            f"beyond AS MATERIALIZED (SELECT {key}, count(*) AS n FROM everybody GROUP BY {key} "
            f"HAVING count(*) > {self.most})"
        )

    @property
    def _within(self) -> str:
        """The rows of which there are no more than stay."""
        return (
            f"SELECT {_listed('everybody', self._content)} FROM everybody LEFT JOIN beyond ON "
            f"{_same('everybody', 'beyond', self.of)} WHERE beyond.n IS NULL"
        )

    @property
    def _content(self) -> list[str]:
        return [*self.cell, *self.values, *self.ids]

    def _drawn(self, relation: str, *, order: Sequence[str]) -> str:
        """The sample of the rows of a relation of which there are more."""
        placed = self._placed(relation, list(dict.fromkeys([*self._content, *order])), order=order)
        return f"SELECT {', '.join(self._content)} FROM ({placed}) WHERE {self._kept}"

    def _placed(
        self, relation: str, columns: Sequence[str], *, order: Sequence[str], beside: str = ""
    ) -> str:
        """Rows of which there are more than stay, with n, their place in an order, and u."""
        many = (
            f"SELECT {_listed(relation, columns)}, beyond.n AS n FROM {relation} JOIN beyond ON "
            f"{_same(relation, 'beyond', self.of)}"
        )
        more = f", {beside} AS beside" if beside else ""
        ranked = (
            f"SELECT *, row_number() OVER rows AS place{more} FROM ({many}) "
            f"WINDOW rows AS (PARTITION BY {', '.join(self.of)} ORDER BY {', '.join(order)})"
        )
        return f"SELECT *, {self._u} AS u FROM ({ranked})"

    @property
    def _u(self) -> str:
        """SQL of a number in (0, 1), of the first 20 bits of the hash."""
        return uniform_of(salted_hash(self.of, salt=self.salt))

    @property
    def _kept(self) -> str:
        """SQL: whether the row at a place stays."""
        most, all_ = double(self.most), "n::DOUBLE"
        return (
            f"floor({most} * (place::DOUBLE / {all_}) + u) > "
            f"floor({most} * ((place - 1)::DOUBLE / {all_}) + u)"
        )


def _listed(relation: str, columns: Sequence[str]) -> str:
    return ", ".join(f"{relation}.{name} AS {name}" for name in columns)


def _same(one: str, other: str, columns: Sequence[str]) -> str:
    """SQL: two lines are alike. Keys that are found may be NULL, and ids and cells are not."""
    return " AND ".join(
        f"{one}.{name} {'IS NOT DISTINCT FROM' if name.startswith('k') else '='} {other}.{name}"
        for name in columns
    )


def salted_hash(columns: Sequence[str], *, salt: int) -> str:
    """SQL of the engine's own hash, of 64 bits."""
    high, low = salt >> 64, salt & (2**64 - 1)
    return f"hash({', '.join(columns)}, {high}::UBIGINT, {low}::UBIGINT)"


def uniform_of(hashed: str) -> str:
    """SQL of a number in (0, 1), of the first 20 bits of a hash."""
    return f"(({hashed} >> 44)::DOUBLE + 0.5e0) / 1048576e0"


WIDE = 8
"""Columns from which on rows are wide."""


def salt_for(purpose: str, salt: int) -> int:
    """Another salt of 128 bits, for a choice of its own."""
    text = salt.to_bytes(16, "big") + purpose.encode()
    return int.from_bytes(hashlib.sha256(text).digest()[:16], "big")
