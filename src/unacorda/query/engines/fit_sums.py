"""Sums that a model is fit by, in one scan over bounded rows: of vectors, their squares, counts.

A wish is a number v and a vector a of each row, as expressions over the features x0, x1, ... and
the target y of its bounded rows. v a is cut to a public length, or the matrix v a a^T to a public
Frobenius norm, put on whole multiples of a public unit and added exactly. So one row is worth that
length at most, whatever the expressions say. A row without one of its numbers adds nothing. Counts
are of the bins that the numbers of a vector fall into, each bin open above.
"""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

import itertools
import math
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import lru_cache, partial

from unacorda.errors import InvalidParameter
from unacorda.mechanisms.contributions import SumRequest
from unacorda.privacy.guarantees import GDP
from unacorda.privacy.rounding import root_up
from unacorda.query.aggregates.grid import bisection
from unacorda.query.engines.dialects.statements import LAYER
from unacorda.query.expressions.language import Column, Expression, Kind, double
from unacorda.query.expressions.parse import parse
from unacorda.query.expressions.ranges import Size
from unacorda.query.expressions.values import held, stepped
from unacorda.query.noise.additive import (
    AdditiveNoise,
    Sensitivity,
    additive_noise,
    of_balls,
    of_counts,
)
from unacorda.query.schema.units import Reach

_UNITS_LOG2 = 40
"""A length is about 2^40 units: 2^80 rows fit into 128 bits."""
_SIZES = 1e-50, 1e50
"""Numbers of the relation are 0 or between these."""
_OWN_SIZES = 2.0**-232, 1e70
"""So are those of a wish: a product of four of them is a double, and one of three in units."""
_LEAST, _MOST = Fraction(1, 10**40), Fraction(10**70)
"""Lengths, and of matrices the square of the former."""
_WORD = re.compile(r"\w+")


def size_of(wish: SumRequest) -> int:
    """How many numbers answer it."""
    p = len(wish.vector)
    if wish.edges:
        return p * (len(wish.edges) + 1)
    return p * (p + 1) // 2 if wish.squared else p


def noise_of(wish: SumRequest, reach: Reach) -> AdditiveNoise:
    """The least noise within its budget, of each number."""
    return additive_noise(
        wish.budget, _sensitivity(wish, reach), unit_log2=_unit_log2(wish), counts=False
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class FitRelation:
    """Rows that sums are taken over. text: a SELECT of their cell and columns; columns: of numbers.

    What a row's numbers are depends on that row alone.
    """

    text: str
    columns: Mapping[str, Column]

    @classmethod
    def bounded(
        cls, features: Sequence[str], target: str, *, weight: str | None = None
    ) -> FitRelation:
        """The rows of `bounded` that have all their numbers, none of them beyond 1e50 in size.

        features, target: which of its columns are x0, x1, ... and y; weight: which is the weight
        of rows, cut to [0, 1], and 0 where it is missing.
        """
        named = {f"x{place}": value for place, value in enumerate(features)} | {"y": target}
        least, most = _SIZES
        renamed = ", ".join(
            f"{held(old, least=least, most=most)} AS {new}" for new, old in named.items()
        )
        present = " AND ".join(
            f"abs({old}) <= {double(most)}" for old in dict.fromkeys([*features, target])
        )
        columns = {
            name: Column(name, Kind.NUMBER, -most, most, Size(least, most)) for name in named
        }
        if weight is not None:
            cut = f"greatest(least({weight}, {double(1.0)}), {double(0.0)})"
            renamed += f", CASE WHEN {weight} IS NOT NULL THEN {cut} ELSE {double(0.0)} END"
            renamed += " AS weight"
            columns["weight"] = Column("weight", Kind.NUMBER, 0.0, 1.0)
        return cls(text=f"SELECT cell, {renamed} FROM bounded WHERE {present}", columns=columns)

    def beside(self, columns: Mapping[str, str]) -> FitRelation:
        """The same rows with more columns: expressions by name. Raises as `expressions.parse`."""
        found = {name: _parsed(given, self.columns) for name, given in columns.items()}
        more = {name: _column(name, one) for name, one in found.items()}
        return FitRelation(
            text=_beside(self.text, {name: _stepped(one) for name, one in found.items()}),
            columns={**self.columns, **more},
        )

    def only(self, names: Sequence[str]) -> FitRelation:
        """The same rows with these columns alone."""
        return FitRelation(
            text=f"SELECT cell, {', '.join(names)} FROM ({self.text}) AS {LAYER}",
            columns={name: self.columns[name] for name in names},
        )

    def kept(self, name: str) -> FitRelation:
        """The same rows where they have been kept under a name."""
        return FitRelation(
            text=f"SELECT cell, {', '.join(self.columns)} FROM {name}", columns=self.columns
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class FitScan:
    """What is asked of rows in one scan: their number, where a budget is given for it, then sums.

    columns: expressions by name, over those of the relation and the names of the mappings before.
    """

    relation: FitRelation
    columns: Sequence[Mapping[str, str]] = ()
    wishes: Sequence[SumRequest] = ()
    counted: GDP | None = None

    def noises(self, reach: Reach) -> list[AdditiveNoise]:
        """The least noise within each budget, in the order of the answers."""
        noises = [noise_of(wish, reach) for wish in self.wishes]
        if self.counted is None:
            return noises
        return [additive_noise(self.counted, of_counts(reach), unit_log2=0, counts=True), *noises]

    def selects(self) -> list[tuple[str, int]]:
        """SQL of the exact integers: one SELECT for all sums, one for all histograms.

        Each with the number of integers that it gives, on one line per cell. Raises as
        `expressions.parse` does, and InvalidParameter for lengths out of reach.
        """
        for wish in self.wishes:
            _check_bound(wish)
        relation = self.relation
        for mapping in self.columns:
            relation = relation.beside(mapping)
        own = [_Own(wish=wish, place=place) for place, wish in enumerate(self.wishes)]
        sums = [one for one in own if not one.wish.edges]
        bins = [one for one in own if one.wish.edges]
        number = self.counted is not None
        selects = [_sums(relation, sums, number=number)] if sums or number else []
        return [*selects, _histograms(relation, bins)] if bins else selects

    def parts(self, integers: Sequence[int]) -> list[list[int]]:
        """What the SELECTs gave, in the order of the answers: sums come before histograms."""
        left = iter(integers)
        number = [] if self.counted is None else [[next(left)]]
        found: list[list[int]] = [[] for _ in self.wishes]
        for place in sorted(range(len(found)), key=lambda place: bool(self.wishes[place].edges)):
            found[place] = list(itertools.islice(left, size_of(self.wishes[place])))
        return number + found


def _sums(relation: FitRelation, wishes: Sequence[_Own], *, number: bool) -> tuple[str, int]:
    """The number of rows, and the sums of numbers, each rounded to a whole one."""
    text = relation.text
    for layer in (partial(_Own.inputs, relation=relation), _Own.cut, _Own.products):
        text = _beside(text, {k: v for one in wishes for k, v in layer(one).items()})
    taken = ["count(*)"] * number
    taken += [f"sum(CAST({one} AS BIGINT))" for wish in wishes for one in wish.numbers()]
    return _by_cell(taken, text), len(taken)


def _histograms(relation: FitRelation, wishes: Sequence[_Own]) -> tuple[str, int]:
    """Sums by bin of each number, side by side."""
    text = relation.text
    for layer in (partial(_Own.inputs, relation=relation), _Own.counted):
        text = _beside(text, {k: v for one in wishes for k, v in layer(one).items()})
    parts = [
        (f"b{one.place}_{place}", f"f{one.place}", len(one.wish.edges) + 1)
        for one in wishes
        for place in range(len(one.wish.vector))
    ]
    grouped = " UNION ALL ".join(
        f"SELECT cell, {part} AS part, {place} AS bin, sum({counted}) AS counted "
        f"FROM ({text}) AS {LAYER} GROUP BY cell, {place}"
        for part, (place, counted, _) in enumerate(parts)
    )
    taken = [
        f"sum(CASE WHEN part = {part} AND bin = {place} THEN counted ELSE 0 END)"
        for part, (_, _, bins) in enumerate(parts)
        for place in range(bins)
    ]
    return _by_cell(taken, grouped), len(taken)


def _by_cell(taken: Sequence[str], text: str) -> str:
    listed = "".join(f", {sql}::VARCHAR AS a{place}" for place, sql in enumerate(taken))
    return f"SELECT cell{listed} FROM ({text}) AS {LAYER} GROUP BY cell"


@dataclass(frozen=True, slots=True, kw_only=True)
class _Own:
    """The columns of one wish, under names of its own."""

    wish: SumRequest
    place: int

    def inputs(self, relation: FitRelation) -> dict[str, str]:
        """Its numbers n and its value v."""
        numbers = [_parsed(text, relation.columns) for text in self.wish.vector]
        value = _parsed(self.wish.value, relation.columns)
        within = not _in_doubles(numbers, value, squared=self.wish.squared)
        found = {f"n{self.place}_{i}": one for i, one in enumerate(numbers)}
        found[f"n{self.place}_v"] = value
        return {name: _held(one) if within else one.sql for name, one in found.items()}

    def cut(self) -> dict[str, str]:
        """What makes units of its numbers: the value, or less of it where that is too much."""
        vector, value = self._vector, f"n{self.place}_v"
        square = " + ".join(f"{number} * {number}" for number in vector)
        present = " AND ".join(f"{number} IS NOT NULL" for number in [*vector, value])
        length, scale = double(float(self.wish.bound)), double(2.0 ** -_unit_log2(self.wish))
        if not self.wish.squared:
            whole = double(float(self.wish.bound) ** 2)
            within = f"{value} * {value} * ({square}) <= {whole}"
            least = f"sign({value}) * {length} / sqrt({square})"
        else:
            if not self.wish.signed:
                value = f"greatest({value}, 0e0)"
            within = f"abs({value}) * ({square}) <= {length}"
            least = f"sign({value}) * {length} / ({square})"
        factor = f"(CASE WHEN {within} THEN {value} ELSE {least} END) * {scale}"
        return {f"f{self.place}": f"CASE WHEN {present} THEN {factor} END"}

    def products(self) -> dict[str, str]:
        """The vector in units, and of a matrix also sqrt 2 of it."""
        found = {
            f"u{self.place}_{i}": f"{number} * f{self.place}"
            for i, number in enumerate(self._vector)
        }
        if self.wish.squared:
            found |= {
                f"r{self.place}_{i}": f"{number} * f{self.place} * {double(math.sqrt(2))}"
                for i, number in enumerate(self._vector)
            }
        return found

    def numbers(self) -> Iterator[str]:
        """What is rounded and added up, in the order of the answers."""
        size = len(self._vector)
        if self.wish.total:
            yield f"CASE WHEN u{self.place}_0 > 0e0 THEN u{self.place}_0 ELSE 0e0 END"
            return
        if not self.wish.squared:
            yield from (f"u{self.place}_{i}" for i in range(size))
            return
        for i, j in itertools.combinations_with_replacement(range(size), 2):
            other = "u" if i == j else "r"
            yield f"{self._vector[i]} * {other}{self.place}_{j}"

    def counted(self) -> dict[str, str]:
        """Of counts, what a row counts, in units, and the bin of each of its numbers."""
        value, scale = f"n{self.place}_v", double(2.0 ** -_unit_log2(self.wish))
        within = f"greatest(least({value}, {double(1.0)}), 0e0)"
        whole = f"CASE WHEN {value} IS NOT NULL THEN CAST({within} * {scale} AS BIGINT) ELSE 0 END"
        found = {f"f{self.place}": whole}
        for place, number in enumerate(self._vector):
            reached = [f"{number} < {double(edge)}" for edge in self.wish.edges]
            sought = bisection(0, len(reached), before=reached.__getitem__, leaf=str)
            missing = f"CASE WHEN {number} IS NOT NULL THEN {sought} ELSE -1 END"
            found[f"b{self.place}_{place}"] = missing
        return found

    @property
    def _vector(self) -> list[str]:
        return [f"n{self.place}_{i}" for i in range(len(self.wish.vector))]


def _sensitivity(wish: SumRequest, reach: Reach) -> Sensitivity:
    """How far one unit moves the sums, in units.

    Squares, their sum, a root, quotients and products err by less than 2^-40 of the length
    together; rounding to units by half a unit a number. Matrices v a a^T with v >= 0 have inner
    products that are not negative, so that the sum of one unit's and that of another's, each of
    norm r at most, are no farther than sqrt 2 r apart; nor are counts, a row of which is in one bin
    of each number. Of single numbers within [0, r] it is r (docs/proofs/regression.md, section 1).
    """
    exact = _length(wish) * Fraction(2) ** -_unit_log2(wish)
    size = size_of(wish)
    rounded = math.isqrt(size) + 1
    longest = math.ceil(exact * (1 + Fraction(1, 1 << 40)))
    moved = of_balls(reach, radius=longest + rounded, size=size)
    positive = bool(wish.edges) or wish.total or (wish.squared and not wish.signed)
    if not positive or not reach.replaced:
        return moved
    whole = Fraction(longest) * reach.rows
    apart = Fraction(1) if wish.total else Fraction(root_up(Fraction(2)))
    between = whole * apart + 2 * reach.rows * rounded
    l2_squared = min(moved.l2_squared, between**2)
    return Sensitivity(l1=moved.l1, l2_squared=l2_squared, reason=moved.reason)


def _length(wish: SumRequest) -> Fraction:
    """The most that the l2 norm of a row's part may be."""
    if wish.edges:
        return Fraction(root_up(Fraction(len(wish.vector))))
    if wish.total and len(wish.vector) != 1:
        raise AssertionError("a total is of one number")
    return Fraction(float(wish.bound))


def _check_bound(wish: SumRequest) -> None:
    if wish.edges:
        return
    least = _LEAST**2 if wish.squared else _LEAST
    if not least <= wish.bound <= _MOST:
        kind = "matrices" if wish.squared else "vectors"
        far = "small" if wish.bound < 1 else "large"
        raise InvalidParameter(
            "model",
            f"sums of {kind} of too {far} a norm",
            expected=f"norms from {float(least):g} to {float(_MOST):g}: tell the target, and what "
            "bounds the loss, in another unit",
        )


def _unit_log2(wish: SumRequest) -> int:
    return math.frexp(float(_length(wish)))[1] - _UNITS_LOG2


def _parsed(text: str, known: Mapping[str, Column]) -> Expression:
    """A fit says most of its expressions in every scan, over columns that have not changed."""
    words = {word.casefold() for word in _WORD.findall(text)}
    used = tuple((name, one) for name, one in known.items() if name.casefold() in words)
    try:
        return _read(text, used)
    except InvalidParameter:
        return parse(text, columns=known, argument="model", expect=Kind.NUMBER)  # names them all


@lru_cache(maxsize=1 << 12)
def _read(text: str, used: tuple[tuple[str, Column], ...]) -> Expression:
    return parse(text, columns=dict(used), argument="model", expect=Kind.NUMBER)


_STEP = 2.0**-200
"""Columns that may be smaller are multiples of it, so that what is computed of them is in reach."""


def _stepped(found: Expression) -> str:
    return found.sql if found.size.least >= _STEP else stepped(found.sql, _STEP)


def _column(name: str, found: Expression) -> Column:
    column = found.named(name)
    size = replace(found.size, least=_STEP, step=_STEP)
    return column if found.size.least >= _STEP else replace(column, size=size)


def _in_doubles(numbers: Sequence[Expression], value: Expression, *, squared: bool) -> bool:
    """Whether a wish can be computed of these as they are: v v (n n + ...), and v (n n + ...) n."""
    least, most = min(one.size.least for one in numbers), max(one.size.most for one in numbers)
    power = 2 if squared else 1
    small, large = value.size.least, value.size.most
    return (
        min(least, small, small * least**power * (1e90 if squared else 1.0)) >= 1e-150
        and max(most, large, large * most**power) <= 1e140
    )


def _held(found: Expression) -> str:
    """SQL of a number within reach of every wish."""
    least, most = _OWN_SIZES
    if found.size.most <= most:
        return found.sql if found.size.least >= least else stepped(found.sql, least)
    return held(found.sql, least=least, most=most)


def _beside(text: str, columns: Mapping[str, str]) -> str:
    """The same rows with more columns."""
    listed = "".join(f", {sql} AS {name}" for name, sql in columns.items())
    return f"SELECT *{listed} FROM ({text}) AS {LAYER}"
