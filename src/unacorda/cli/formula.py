"""Formulas of regressions, `target ~ age + C(sex)`, read into expressions of the input language."""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

import datetime as dt
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import NoReturn

from unacorda.errors import InvalidParameter
from unacorda.query.expressions.quoting import identifier, literal

__all__ = ["Formula", "FormulaTerm", "read_formula"]

_FORM = 'TARGET ~ TERM + TERM, such as "value ~ age + C(sex)"'
_TERMS = (
    "a column, C(column) for one of categories, a function such as ln(x), or I(...) around "
    "arithmetic, such as I(age * age)"
)
_COLUMN = re.compile(r'\w+|"(?:[^"]|"")+"')
_CALL = re.compile(r"(\w+)\s*\((.*)\)", re.DOTALL)

Levels = Sequence[str | int | bool | dt.date]
"""The values of a column of categories; the first is the one the others are compared with."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FormulaTerm:
    """A term: an expression, or a column alone, or a column of categories."""

    text: str
    expression: str | None = None
    column: str | None = None
    categories: bool = False

    def features(
        self, typed: Callable[[str, str], str], levels: Callable[[str], Levels]
    ) -> Iterator[tuple[str, str]]:
        """The label and the expression of each feature.

        typed: the expression of a column as a type of SQL; levels: the values of one of categories.
        """
        if self.column is None:
            yield self.text, str(self.expression)
        elif not self.categories:
            yield self.column, typed(self.column, "DOUBLE")
        else:
            values = levels(self.column)
            base, *others = map(literal, values)
            name = identifier(self.column)
            if isinstance(values[0], bool | int):
                kind = "BOOLEAN" if isinstance(values[0], bool) else "DOUBLE"
                name = typed(self.column, kind)
            for level in others:
                # A value that is not listed is missing, so that its row counts nowhere.
                rest = ", ".join(one for one in (base, *others) if one != level)
                test = f"WHEN {name} = {level} THEN 1 WHEN {name} IN ({rest}) THEN 0"
                yield f"{self.column}[{level.strip(chr(39))}]", f"CASE {test} END"


@dataclass(frozen=True, slots=True, kw_only=True)
class Formula:
    """A target and the terms that explain it."""

    target: FormulaTerm
    terms: tuple[FormulaTerm, ...]


def read_formula(text: str) -> Formula:
    """The formula of a text; InvalidParameter, with the place, for what is none.

    >>> [term.text for term in read_formula("value ~ age + C(sex) + I(age * age)").terms]
    ['age', 'C(sex)', 'I(age * age)']
    """
    sides = list(_split(text, "~", 0, len(text)))
    if len(sides) != 2:
        _refuse(text, 0, len(text), _FORM)
    left, right = sides
    target = _term(text, *left)
    found: list[FormulaTerm] = []
    if target.categories:
        _refuse(text, *left, "a number, or a condition such as I(value > 40), left of ~")
    for place in _split(text, "+", *right):
        term = _term(text, *place)
        if term.text in {one.text for one in found}:
            _refuse(text, *place, "each term once")
        if term.text != "1":  # the intercept, which there is anyway
            found.append(term)
    if not found:
        _refuse(text, *right, _TERMS)
    return Formula(target=target, terms=tuple(found))


def _split(text: str, sign: str, start: int, end: int) -> Iterator[tuple[int, int]]:
    """The places of the parts between signs that are in no brackets and quotes."""
    depth, quote, begin = 0, "", start
    for place in range(start, end):
        char = text[place]
        if quote:
            quote = "" if char == quote else quote
        elif char in "'\"":
            quote = char
        elif char in "()":
            depth += 1 if char == "(" else -1
            if depth < 0:
                _refuse(text, place, place + 1, "brackets that are opened before they are closed")
        elif char == sign and depth == 0:
            yield begin, place
            begin = place + 1
    if quote or depth:
        _refuse(text, begin, end, "quotes and brackets that are closed")
    yield begin, end


def _term(text: str, start: int, end: int) -> FormulaTerm:
    part = text[start:end].strip()
    if part == "1":
        return FormulaTerm(text=part)
    if part in ("0", "-1"):
        _refuse(text, start, end, "the intercept left in: every model here has one")
    if _COLUMN.fullmatch(part) and not part[0].isdigit():
        return FormulaTerm(text=part, column=_bare(part))
    call = _CALL.fullmatch(part)
    if call is None or not _balanced(call[2]):
        _refuse(text, start, end, _TERMS)
    name, inside = call.groups()
    if name == "C":
        column = inside.strip()
        if not _COLUMN.fullmatch(column):
            _refuse(text, start, end, "the name of a column in C(...)")
        return FormulaTerm(text=part, column=_bare(column), categories=True)
    return FormulaTerm(text=part, expression=inside.strip() if name == "I" else part)


def _balanced(inside: str) -> bool:
    """Whether no bracket closes before it was opened: that of a call is then its last one."""
    try:
        return bool(list(_split(inside, "+", 0, len(inside))))
    except InvalidParameter:
        return False


def _bare(column: str) -> str:
    return column[1:-1].replace('""', '"') if column.startswith('"') else column


def _refuse(text: str, start: int, end: int, expected: str) -> NoReturn:
    """Raise InvalidParameter that shows the part without blanks around it."""
    part = text[start:end]
    start += len(part) - len(part.lstrip())
    place = start, max(start + 1, start + len(part.strip()))
    raise InvalidParameter("FORMULA", part.strip() or text, expected=expected).placed(text, place)
