"""How many people a condition can hold for, by what is public alone: no data is looked at.

Public are the unit, whose id names one person, and what was declared of columns: of 121 ages each
is about one in 121, if all are alike. What is not declared may hold for everybody. People of whom a
column says nothing (NULL) are left out: how many these are is not public.
"""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

import datetime as dt
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from unacorda.query.columns import Bounds, Categories, Fact
from unacorda.query.expressions.tree import Literal, Node, Operation, text_of

__all__ = ["NOBODY", "Extent", "Part", "Public", "Subject", "extent"]

Subject = tuple[str, str]
"""What is compared with constants: where in the question it stands, and its text."""

Part = tuple[str, Node, bool]
"""A condition: where it stands, its tree, and whether it holds (else it is known not to)."""

_MOST_CASES: Final = 64
_FLIPPED: Final = {"<": ">", "<=": ">=", ">": "<", ">=": "<=", "=": "=", "<>": "<>"}
_DENIED: Final = {"<": ">=", "<=": ">", ">": "<=", ">=": "<", "in": "not in", "not in": "in"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Extent:
    """At most so many people, and this share of everybody."""

    people: float
    share: float

    def __add__(self, other: Extent) -> Extent:
        return Extent(people=self.people + other.people, share=self.share + other.share)


NOBODY: Final = Extent(people=0, share=0)
_EVERYBODY: Final = Extent(people=0, share=1)


@dataclass(frozen=True, slots=True, kw_only=True)
class Public:
    """What is public of the subjects of a question.

    facts: what was declared of plain columns. ids: by place, the parts of a person's id; for each
    part the ways to fix it, each by as many subjects as must be given.
    """

    facts: Mapping[Subject, Fact]
    ids: Mapping[str, tuple[tuple[tuple[Subject, ...], ...], ...]]

    def beside(self, other: Public) -> Public:
        """What is public of the subjects of both."""
        return Public(facts={**self.facts, **other.facts}, ids={**self.ids, **other.ids})


@dataclass(frozen=True, slots=True, kw_only=True)
class _Test:
    """One comparison with constants: `in` and `not in` of all values, or an order of one."""

    subject: Subject
    sign: str
    values: tuple[object, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class _Other:
    """A condition that nothing is known of."""

    text: tuple[str, str]
    holds: bool


_Case = tuple[_Test | _Other, ...]


@dataclass(slots=True, kw_only=True)
class _Values:
    """The values of one subject that pass all its tests.

    low, high: the ends between which they lie, and whether the low one is left out, the high one
    kept; so both are ordered as they bind. only, without: values that are named.
    """

    low: tuple[float, bool] = (-math.inf, False)
    high: tuple[float, bool] = (math.inf, True)
    only: set[object] | None = None
    without: set[object] = field(default_factory=set)

    def meet(self, test: _Test) -> None:
        """Keep what passes this test too; orders of what is no number are not looked at."""
        if test.sign == "in":
            given = set(test.values)
            self.only = given if self.only is None else self.only & given
        elif test.sign == "not in":
            self.without |= set(test.values)
        elif (end := _number(test.values[0])) is not None:
            if test.sign in (">", ">="):
                self.low = max(self.low, (end, test.sign == ">"))
            else:
                self.high = min(self.high, (end, test.sign == "<="))

    def holds(self, value: object) -> bool:
        """Whether one value passes."""
        if value in self.without or (self.only is not None and value not in self.only):
            return False
        number = _number(value)
        return number is None or ((number, True) > self.low and (number, False) < self.high)

    @property
    def empty(self) -> bool:
        """Whether none passes."""
        if self.only is not None:
            return not any(map(self.holds, self.only))
        (low, _), (high, _) = self.low, self.high
        return low > high or (low == high and not self.holds(low))

    @property
    def wholes(self) -> float:
        """How many named values pass, or else whole numbers."""
        if self.only is not None:
            return sum(map(self.holds, self.only))
        (low, left_out), (high, kept) = self.low, self.high
        if math.isinf(low) or math.isinf(high):
            return math.inf
        first = math.floor(low) + 1 if left_out else math.ceil(low)
        last = math.floor(high) if kept else math.ceil(high) - 1
        return max(0, last - first + 1)

    def share(self, fact: Fact | None) -> float:
        """The share of what was declared, as if all of it were alike; 1 where that is not known."""
        match fact:
            case Categories(values=values):
                listed = sum(map(self.holds, values))
                beside = 0 if self.only is None else len(self.only - set(values))
                return min(1.0, max(1, listed + beside) / len(values))
            case Bounds(lower=lower, upper=upper) if self._inside(lower, upper):
                width = upper - lower
                stretch = 0.0 if self.only is not None else (self.high[0] - self.low[0]) / width
                return min(1.0, max(stretch, self.wholes / (math.floor(width) + 1)))
            case _:
                return 1.0

    def _inside(self, lower: float, upper: float) -> bool:
        """Whether they leave out both ends, where everything is that lies beyond, maybe much."""
        if self.only is None:
            return (lower, True) <= self.low and self.high <= (upper, False)
        return all(lower < value < upper for value in map(_number, self.only) if value is not None)


def extent(parts: Sequence[Part], public: Public) -> Extent:
    """How many people can be where all of these conditions hold, if no column lacks a value.

    >>> from unacorda.query.expressions.parse import reread
    >>> known = Public(facts={("", '"age"'): Bounds(0, 120)}, ids={})
    >>> extent([("", reread("age > 30"), True), ("", reread("age > 31"), False)], known)
    Extent(people=0, share=0.008333333333333333)
    """
    found = NOBODY
    for case in _cases(parts):
        found += _extent(case, public)
    return found


def _extent(case: _Case, public: Public) -> Extent:
    values: dict[Subject, _Values] = {}
    others: dict[tuple[str, str], bool] = {}
    for one in case:
        if isinstance(one, _Test):
            values.setdefault(one.subject, _Values()).meet(one)
        elif others.setdefault(one.text, one.holds) != one.holds:
            return NOBODY
    if any(one.empty for one in values.values()):
        return NOBODY
    for parts in public.ids.values():
        people = math.prod(
            min(math.prod(_pinned(values, subject) for subject in way) for way in ways)
            for ways in parts
        )
        if parts and people < math.inf:
            return Extent(people=people, share=0)
    share = math.prod(one.share(public.facts.get(name)) for name, one in values.items())
    return Extent(people=0, share=share)


def _pinned(values: Mapping[Subject, _Values], subject: Subject) -> float:
    return values[subject].wholes if subject in values else math.inf


def _cases(parts: Iterable[Part]) -> list[_Case]:
    """Alternatives of which one holds where all parts do; too many are not told apart."""
    found: list[_Case] = [()]
    for part in parts:
        more = _alternatives(part)
        if len(found) * len(more) <= _MOST_CASES:
            found = [(*one, *other) for one in found for other in more]
    return found


def _alternatives(part: Part) -> list[_Case]:
    place, node, holds = part
    if isinstance(node, Operation):
        if node.name == "NOT":
            return _alternatives((place, node.operands[0], not holds))
        if node.name in ("AND", "OR"):
            inner = [(place, operand, holds) for operand in node.operands]
            if (node.name == "AND") == holds:
                return _cases(inner)
            listed = [case for one in inner for case in _alternatives(one)]
            return listed if len(listed) <= _MOST_CASES else [()]
        if node.name == "BETWEEN":
            value, low, high = node.operands
            ends = Operation(">=", (value, low)), Operation("<=", (value, high))
            return _alternatives((place, Operation("AND", ends), holds))
        test = _test(place, node, holds=holds)
        if test is not None:
            return [(test,)]
    if isinstance(node, Literal) and isinstance(node.value, bool):
        return [()] if node.value == holds else []
    return [(_Other(text=(place, text_of(node)), holds=holds),)]


def _test(place: str, node: Operation, *, holds: bool) -> _Test | None:
    """A comparison of something with constants, None where it is none."""
    name, operands = node.name, node.operands
    if name in _FLIPPED and isinstance(operands[0], Literal):
        name, operands = _FLIPPED[name], operands[::-1]
    sign = {
        "=": "in",
        "IN": "in",
        "IS NOT DISTINCT FROM": "in",
        "<>": "not in",
        "IS DISTINCT FROM": "not in",
    }.get(name, name)
    if sign not in _DENIED or isinstance(operands[0], Literal):
        return None
    values = []
    for operand in operands[1:]:
        if not isinstance(operand, Literal) or operand.value is None:
            return None
        values.append(operand.value)
    if any(isinstance(value, dt.date) for value in values) and sign not in ("in", "not in"):
        return None
    sign = sign if holds else _DENIED[sign]
    return _Test(subject=(place, text_of(operands[0])), sign=sign, values=tuple(values))


def _number(value: object) -> float | None:
    """A number, but for truth values."""
    return None if isinstance(value, bool) or not isinstance(value, int | float) else float(value)
