"""SQL that binds every person to her limits: some groups, some rows in each, some rows in all.

**How a person is bound.** In three steps, each of which only takes rows away, so that what one
has bound stays bound:

1. of her groups (the cells of the question that she has rows in), the first `max_groups` in the
   order of a salted hash of her id and the cell, and where two are level, of the cell's number;
2. of her rows in each group, a systematic sample of `max_rows_per_group`;
3. of all her rows, a systematic sample of `max_rows`.

A step is left out where nothing is given, and where what is left bounds it too: the first where
there are no more cells, and both of the first where `max_rows` is no larger (r rows lie in r groups
at most, r in each); the last where groups times rows in each are no more. A person is told apart by
her id itself, never by a hash of it, and each step looks at her own rows and the salt alone:
removing another person changes nothing of it, and computing it again gives the same rows. Groups
and rows are drawn with numbers of their own, made of the salt, so that one choice tells nothing of
another.

**A systematic sample.** The n rows are put in the order of every column in use; rows that are
level are identical, so that their order is without effect. The systematic sample of k rows is kept:
of the rows up to a share x of the order (of all that are level, or none), f(x) = floor(k x + u) are
kept, with u in (0, 1) from a salted hash of her id (and the cell). Of a group of identical rows
that ends at the share x and begins after x', those are f(x) - f(x'), and which ones is all the
same. Every row is kept with the same chance k / n (to within 2^-20), also where rows are identical,
and the rows kept are spread over her groups and values as hers are.

**It keeps exactly min(k, n).** A share x is the double next to the quotient of two whole numbers:
the engine's CUME_DIST at the end of a group, and before it (RANK - 1) / n, where PERCENT_RANK =
(RANK - 1) / (n - 1) gives n back exactly. One group's x is the next one's x', and the last one's is
1, so that the counts add up to f(1) - f(0). With k <= 2^20 the error of k x + u is below 2^-30,
while u = (j + 1/2) / 2^20 keeps a distance of 2^-21 from 0 and 1: the sum is k. For m of n > k
rows, f(x) - f(x') is at most m, since k m / n <= m - m / n; for n <= k it is at least m, and no
more than m are there. (A count of a person's rows would say the same more plainly, and made the
whole question a tenth slower.)
"""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass

from tacet.query.sqltext import double
from tacet.query.units import Person

__all__ = ["Steps", "bound_rows", "limits_in_words", "salt_for", "salted_hash", "steps_of"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Steps:
    """The steps that bind a person, each with its number, None where it is left out.

    groups: of her groups; each: of her rows in each group; rows: of all her rows.
    """

    groups: int | None
    each: int | None
    rows: int | None


def steps_of(unit: Person, *, cells: int) -> Steps:
    """The steps that a question with so many cells needs.

    >>> steps_of(Person("id", max_groups=3, max_rows_per_group=2), cells=10)
    Steps(groups=3, each=2, rows=None)
    >>> steps_of(Person("id", max_rows=5, max_groups=3), cells=2)
    Steps(groups=None, each=None, rows=5)
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
    return Steps(groups=groups, each=each, rows=rows)


def bound_rows(
    rows: str, *, unit: Person, cells: int, cell: Sequence[str], values: Sequence[str], salt: int
) -> str:
    """SELECT of the rows that stay, out of a SELECT (u0, ..., cell, ...).

    cells: how many there are at most; cell: the columns that tell them apart; values: all else
    that is used of a row, beside the ids; salt: 128 bits drawn for this question.
    """
    steps, ids = steps_of(unit, cells=cells), [f"u{index}" for index in range(len(unit.id))]
    columns = [*cell, *values]
    content = ", ".join([*columns, *ids])
    own = [*ids, *cell]
    if steps.groups is not None:
        order = (
            f"{salted_hash(own, salt=salt_for('groups', salt), by=unit.hash)}, {', '.join(cell)}"
        )
        turns = f"dense_rank() OVER (PARTITION BY {', '.join(ids)} ORDER BY {order})"
        taken = f"SELECT {content}, {turns} AS turn FROM ({rows})"
        rows = f"SELECT {content} FROM ({taken}) WHERE turn <= {steps.groups}"
    if steps.each is not None:
        start = _start(own, salt=salt_for("rows in a group", salt), by=unit.hash)
        rows = _sample(rows, steps.each, of=own, start=start, columns=columns, content=content)
    if steps.rows is not None:
        start = _start(ids, salt=salt, by=unit.hash)
        rows = _bound_in_all(
            rows, steps.rows, ids=ids, start=start, columns=columns, content=content
        )
    return rows


def limits_in_words(unit: Person, *, cells: int) -> tuple[str, ...]:
    """What happens to a person's rows, step by step.

    >>> limits_in_words(Person("id", max_rows=2), cells=4)
    ('keep at most 2 rows of each person (id), chosen at random, over all groups together; how \
many rows go is not known',)
    """
    steps, person = steps_of(unit, cells=cells), f"each person ({', '.join(unit.id)})"
    unknown = "chosen at random{}; how many rows go is not known"
    lines = []
    if unit.search is not None:
        lines.append(
            f"{unit.max_rows:,} rows of a person: a number that was found privately when the "
            f"session was opened, for {unit.search.budget}"
        )
    if steps.groups is not None:
        lines.append(
            f"keep at most {_some(steps.groups, 'group')} of {person}, {unknown.format('')}"
        )
    if steps.each is not None:
        where = "" if cells == 1 else " in each group"
        lines.append(
            f"keep at most {_some(steps.each, 'row')} of {person}{where}, {unknown.format('')}"
        )
    if steps.rows is not None:
        everywhere = unknown.format(", over all groups together")
        lines.append(f"keep at most {_some(steps.rows, 'row')} of {person}, {everywhere}")
    return tuple(lines)


def _some(number: int, what: str) -> str:
    return f"{number:,} {what}{'s' if number != 1 else ''}"


def _bound_in_all(
    rows: str, most: int, *, ids: Sequence[str], start: str, columns: Sequence[str], content: str
) -> str:
    """The rows of people who have no more than `most`, and a sample of the others' rows.

    The sample of all would be the same; but few people have more, and to put the rows of everybody
    in the order of many columns takes most of the time. No id is NULL, so that the joins tell
    people apart as the sample does.
    """
    key = ", ".join(ids)
    sample = _sample(
        f"SELECT {content} FROM everybody SEMI JOIN beyond USING ({key})",
        most,
        of=ids,
        start=start,
        columns=columns,
        content=content,
    )
    return (
        f"WITH everybody AS MATERIALIZED ({rows}), beyond AS MATERIALIZED (SELECT {key} FROM "
        f"everybody GROUP BY {key} HAVING count(*) > {most}) SELECT {content} FROM everybody "
        f"ANTI JOIN beyond USING ({key}) UNION ALL ({sample})"
    )


def _sample(
    rows: str, most: int, *, of: Sequence[str], start: str, columns: Sequence[str], content: str
) -> str:
    """The systematic sample of rows that share the columns `of`; start: SQL of 20 bits."""
    u = f"({start}::DOUBLE + 0.5e0) / 1048576e0"
    ranked = (
        f"SELECT {content}, row_number() OVER rows AS place, rank() OVER rows AS head, "
        f"cume_dist() OVER rows AS share, percent_rank() OVER rows AS ahead FROM ({rows}) "
        f"WINDOW rows AS (PARTITION BY {', '.join(of)} ORDER BY {', '.join(columns)})"
    )
    before = "CASE WHEN head = 1 THEN 0e0 ELSE (head - 1) / (round((head - 1) / ahead) + 1e0) END"
    placed = f"SELECT *, {before} AS before, {u} AS u FROM ({ranked})"
    kept = f"floor({double(most)} * share + u) - floor({double(most)} * before + u)"
    return f"SELECT {content} FROM ({placed}) WHERE place - head < {kept}"


def _start(columns: Sequence[str], *, salt: int, by: str) -> str:
    """SQL of the first 20 bits of a hash, of which u is made."""
    return f"({salted_hash(columns, salt=salt, by=by)} >> {_BITS[by] - 20})"


def salted_hash(columns: Sequence[str], *, salt: int, by: str) -> str:
    """SQL of a hash; by: the engine's own, or the first 60 bits of MD5 of one text."""
    if by == "md5":
        parts = "".join(f" || {_plain(f'CAST({column} AS VARCHAR)')}" for column in columns)
        return f"CAST('0x' || left(md5('{salt:032x}'{parts}), 15) AS BIGINT)"
    high, low = salt >> 64, salt & (2**64 - 1)
    return f"hash({', '.join(columns)}, {high}::UBIGINT, {low}::UBIGINT)"


def _plain(text: str) -> str:
    """A text with its length before it, so that no two lists of texts are written alike."""
    return f"coalesce(CAST(length({text}) AS VARCHAR) || ':' || {text}, '-')"


_BITS = {"engine": 64, "md5": 60}  # of a hash


def salt_for(purpose: str, salt: int) -> int:
    """Another salt of 128 bits, for a choice of its own."""
    text = salt.to_bytes(16, "big") + purpose.encode()
    return int.from_bytes(hashlib.sha256(text).digest()[:16], "big")
