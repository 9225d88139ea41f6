"""What the options mean: budgets, units and public facts, from text to values."""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

import contextlib
import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from fractions import Fraction
from pathlib import Path
from typing import TYPE_CHECKING, Any

from unacorda.errors import InvalidParameter

if TYPE_CHECKING:
    from unacorda.privacy.guarantees import Guarantee
    from unacorda.query.schema.facts import Fact
    from unacorda.query.schema.units import Unit

__all__ = [
    "AUTO",
    "SEARCH_SHARE",
    "Price",
    "assignment",
    "budget_of",
    "facts_of",
    "of_file",
    "read_text",
    "unit_of",
]

AUTO = "auto"
"""What is written for a number of rows that is to be found."""

SEARCH_SHARE = Fraction(1, 10)
"""How much of a request finds how many rows of a person to keep."""

_LONGEST_COUNT = 30
_BUDGETS = (
    "one of epsilon (pure DP; approximate DP with delta), rho (zero-concentrated DP) and mu "
    "(Gaussian DP), each with delta where one is wanted"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Price:
    """The numbers of a budget as they were written, None where they were not."""

    epsilon: str | None = None
    delta: str | None = None
    rho: str | None = None
    mu: str | None = None

    def guarantee(self, argument: str | None = None) -> Guarantee:
        """The budget; InvalidParameter where the numbers make none.

        argument: the option that all of them were written in; None where each has its own.
        """
        fault: InvalidParameter | None = None
        try:
            return self._made(argument or "--epsilon, --rho, --mu")
        except InvalidParameter as error:
            fault = error
        name = fault.argument
        if not name.startswith("--"):  # a number, under its own name
            name = f"--{name}" if argument is None else f"{argument}, {name}"
        raise fault.about(name, fault.value)

    def _made(self, argument: str) -> Guarantee:
        from unacorda.privacy.guarantees import GDP, ZCDP, ApproxDP, PureDP

        match self:
            case Price(epsilon=str(epsilon), delta=None, rho=None, mu=None):
                return PureDP(epsilon)
            case Price(epsilon=str(epsilon), delta=str(delta), rho=None, mu=None):
                return ApproxDP(epsilon, delta)
            case Price(epsilon=None, delta=delta, rho=str(rho), mu=None):
                return ZCDP(rho, delta or 0)
            case Price(epsilon=None, delta=delta, rho=None, mu=str(mu)):
                return GDP(mu, delta or 0)
            case _:
                raise InvalidParameter(argument, self._written() or None, expected=_BUDGETS)

    @property
    def main(self) -> bool:
        """Whether there is any but a delta."""
        return any(number is not None for number in (self.epsilon, self.rho, self.mu))

    def _written(self) -> str:
        numbers = {"epsilon": self.epsilon, "delta": self.delta, "rho": self.rho, "mu": self.mu}
        found = [f"{name}={value}" for name, value in numbers.items() if value is not None]
        return ",".join(found)


def budget_of(text: str, *, option: str = "--budget", name: str = "") -> Guarantee:
    """An account's budget: epsilon=3, or rho=0.5,delta=1e-8.

    option: what is named where the text is none; name: what stands before it there, with `=`.

    >>> budget_of("epsilon=3"), budget_of("rho=0.5,delta=1e-8")
    (PureDP(epsilon=3.0), ZCDP(rho=0.5, delta=1e-08))
    """
    numbers: dict[str, str] = {}
    form = f"{'NAME=' if name else ''}epsilon=3 or rho=0.5,delta=1e-8"
    for part in text.split(","):
        kind, sign, value = (piece.strip() for piece in part.partition("="))
        if not sign or not kind:
            raise InvalidParameter(option, name + text, expected=form)
        if kind not in {"epsilon", "delta", "rho", "mu"} or kind in numbers:
            raise InvalidParameter(option, name + text, expected=_BUDGETS)
        numbers[kind] = value
    return Price(**numbers).guarantee(option)


def unit_of(
    *,
    persons: Sequence[str],
    max_rows: str | None,
    max_groups: str | None = None,
    max_rows_per_group: str | None = None,
    row: bool,
    request: Guarantee | None = None,
) -> Unit:
    """The unit of privacy: persons by their columns, or single rows; limits as written.

    request: of which `SEARCH_SHARE` finds the number of rows, where `auto` is written for it.
    """
    from unacorda.query.schema.units import Person, Row, auto

    limits = {
        "--max-rows": max_rows,
        "--max-groups": max_groups,
        "--max-rows-per-group": max_rows_per_group,
    }
    given = [name for name, value in limits.items() if value is not None]
    if row and (persons or given):
        raise InvalidParameter("--row", row, expected="it without --unit and --max-rows")
    if row:
        return Row()
    if not persons:
        raise InvalidParameter(
            "--unit",
            None,
            expected="--unit with the column that names a person, or --row where every person has "
            "one row at most",
        )
    if max_rows is None and (max_groups is None or max_rows_per_group is None):
        raise InvalidParameter(
            "--max-rows",
            None,
            expected="--max-rows, the most rows of one person that a question uses, or auto, or "
            "--max-groups with --max-rows-per-group" + (f", not {given[0]} alone" if given else ""),
        )
    searches = request is not None and (max_rows or "").strip() == AUTO
    rows = None if searches else max_rows
    counts = {name: _count(name, value) for name, value in {**limits, "--max-rows": rows}.items()}
    found = auto(budget=request * SEARCH_SHARE) if searches and request is not None else None
    return Person(
        tuple(persons),
        max_rows=found or counts["--max-rows"],
        max_groups=counts["--max-groups"],
        max_rows_per_group=counts["--max-rows-per-group"],
    )


def _count(option: str, text: str | None) -> int | None:
    if text is None:
        return None
    if not text.strip().isdecimal() or len(text) > _LONGEST_COUNT or int(text) < 1:
        raise InvalidParameter(option, text, expected="a whole number, 1 or above")
    return int(text)


def facts_of(bounds: Sequence[str], file: Path | None) -> dict[str, Fact]:
    """The public facts of --bounds and --columns, by column.

    Raises InvalidParameter for texts that are none, and for a column with two.
    """
    from unacorda.query.schema.facts import Bounds

    facts = {} if file is None else _read_facts(file)
    form = "COLUMN=LOWER:UPPER, such as age=0:120"
    for text in bounds:
        column, ends = assignment("--bounds", text, form=form)
        lower, colon, upper = ends.partition(":")
        if not colon or not lower.strip() or not upper.strip():
            raise InvalidParameter("--bounds", text, expected=form)
        if column in facts:
            raise InvalidParameter("--bounds", text, expected="each column to be declared once")
        with _told_of("--bounds", text, form):
            facts[column] = Bounds(lower.strip(), upper.strip())
    return facts


@contextlib.contextmanager
def _told_of(option: str, value: object, form: str) -> Iterator[None]:
    """Raise what is wrong with a fact under the name of the option that it was written with."""
    fault: InvalidParameter | None = None
    try:
        yield
    except InvalidParameter as error:
        fault = error
    if fault is not None:  # out here, so that nothing else is shown of
        said = f"{form}, and as {fault.argument} {fault.expected}"
        raise InvalidParameter(option, value, expected=said)


def assignment(option: str, text: str, *, form: str) -> tuple[str, str]:
    """The two sides of NAME=VALUE, split at the first equals sign."""
    name, sign, value = text.partition("=")
    if not sign or not name.strip():
        raise InvalidParameter(option, text, expected=form)
    return name.strip(), value


def read_text(option: str, path: Path) -> str:
    """The text of a file that an option names; InvalidParameter, with why, where there is none."""
    try:
        return path.read_text(encoding="utf-8-sig")
    except OSError as error:
        reason = error.strerror or "it cannot be opened"
    except UnicodeDecodeError:
        reason = "it is not in UTF-8"
    except ValueError:  # U+0000 in the name
        reason = "it cannot be opened"
    expected = f"a file in UTF-8 that can be read ({reason})"
    raise InvalidParameter(option, str(path), expected=expected)


@contextlib.contextmanager
def of_file(path: Path) -> Iterator[None]:
    """Name FILE where what a reader of its text was given is refused: the text may hold data."""
    fault: InvalidParameter | None = None
    try:
        yield
    except InvalidParameter as error:
        fault = error
    if fault is not None:  # out here, so that nothing else is shown of
        if fault.argument not in {"FILE", "text"}:
            raise fault
        raise fault.about("FILE", str(path))


def _read_facts(path: Path) -> dict[str, Fact]:
    text = read_text("--columns", path)
    expected = 'a JSON object such as {"age": {"bounds": [0, 120]}}, each column named once'
    try:
        found = json.loads(text, parse_float=Decimal, object_pairs_hook=_once)
    except (ValueError, RecursionError):
        found = None
    if not isinstance(found, dict):
        raise InvalidParameter("--columns", str(path), expected=expected)
    return {name: _fact(name, fact) for name, fact in found.items()}


def _once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """An object of JSON; ValueError for one that says something twice."""
    found = dict(pairs)
    if len(found) < len(pairs):
        raise ValueError("a name twice")
    return found


def _fact(name: str, fact: object) -> Fact:
    from unacorda.query.schema.facts import Bounds, Categories, Dates, Text

    flags: Mapping[str, Callable[[], Fact]] = {"dates": Dates, "text": Text}
    place = f"--columns, {name!r}"
    match fact:
        case {"bounds": [int() | Decimal() as lower, int() | Decimal() as upper], **rest}:
            if not rest:
                with _told_of(place, f"[{lower}, {upper}]", '{"bounds": [LOWER, UPPER]}'):
                    return Bounds(lower, upper)
        case {"categories": [*values], **rest}:
            if not rest:
                with _told_of(place, values, '{"categories": [...]}'):
                    return Categories(values)
        case dict() if len(fact) == 1:
            ((kind, said),) = fact.items()
            if kind in flags and said is True:
                return flags[kind]()
    raise InvalidParameter(
        place,
        fact,
        expected='{"bounds": [LOWER, UPPER]}, {"categories": [...]}, {"dates": true} or '
        '{"text": true}',
    )
