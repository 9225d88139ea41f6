"""How errors that are wished for, and kinds of budgets, are read as the caller wrote them."""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from fractions import Fraction
from typing import Any

from unacorda import checks
from unacorda.checks import Number
from unacorda.errors import InvalidParameter
from unacorda.privacy.guarantees import GDP, ZCDP, ApproxDP, Guarantee, PureDP, RenyiDP
from unacorda.query.plan.batch import QueryBatch, by_name, naming
from unacorda.query.plan.query import Query

__all__ = ["Target", "Wish", "budgets_of", "targets_of", "wishes_of"]

_SMALLEST, _LARGEST = Fraction(1, 10**300), Fraction(10**300)

Wish = Number | Mapping[str, Number | Mapping[str, Number]]
"""Standard errors of one question as a caller writes them: one, by aggregate, or by level too."""

Target = Mapping[str, Mapping[int, float]]
"""Wished standard errors of one question, by the names of its aggregates and their levels.

Levels are numbered as `Query.levels` names them; what has none has one, 0.
"""


def targets_of(errors: object, query: Query, *, argument: str = "error") -> Target:
    """What the caller wished: one number for a question with one aggregate, else by name.

    With margins a number is wished of the finest level; by the names of levels, of any.
    Raises InvalidParameter for names that the question has not, and numbers that are not above 0.
    """
    names = list(query.aggregates)
    if isinstance(errors, Mapping):
        wished = dict(errors)
    elif len(names) == 1:
        wished = {names[0]: errors}
    else:
        raise InvalidParameter(
            argument, errors, expected=f"standard errors by name, {{{names[0]!r}: 10, ...}}"
        )
    if not wished or not set(wished) <= set(names):
        raise InvalidParameter(
            argument, sorted(map(str, wished)), expected=f"aggregates: {', '.join(names)}"
        )
    return {
        name: _by_level(f"{argument}[{name!r}]", value, query.levels)
        for name, value in wished.items()
    }


def _by_level(argument: str, wished: Any, levels: Sequence[str]) -> dict[int, float]:
    """The error of the finest level, or by the names of levels; levels: empty if there are none."""
    if not isinstance(wished, Mapping):
        return {max(len(levels) - 1, 0): _error(argument, wished)}
    if not levels:
        raise InvalidParameter(argument, dict(wished), expected="a number: there are no margins")
    if not wished or not set(wished) <= set(levels):
        raise InvalidParameter(
            argument, sorted(map(str, wished)), expected=f"levels: {'; '.join(levels)}"
        )
    return {
        levels.index(level): _error(f"{argument}[{level!r}]", value)
        for level, value in wished.items()
    }


def _error(argument: str, wished: Any) -> float:
    """A standard error that can be wished: a number above 0, also in a double."""
    error = checks.exact(argument, wished)
    if not _SMALLEST <= error <= _LARGEST:
        raise InvalidParameter(argument, wished, expected="a number above 0, from 1e-300 to 1e300")
    return float(error)


def wishes_of(errors: object, together: QueryBatch, *, listed: bool) -> list[Target]:
    """The wished errors of each question; empty for one of which none is wished.

    Raises InvalidParameter as `targets_of` does, naming the question, and where none is wished.
    """
    if together.single:
        return [targets_of(errors, together.queries[0], argument="errors")]
    given = by_name("errors", errors, together.names, listed=listed)
    found: list[Target] = []
    for name, query in zip(together.names, together.queries, strict=True):
        with naming(name):
            wished = given.get(name)
            found.append({} if wished is None else targets_of(wished, query, argument="errors"))
    if not any(found):
        raise InvalidParameter("errors", errors, expected="a standard error of some question")
    return found


def budgets_of(
    kind: type[Guarantee] | None, delta: Number, *, account: Guarantee
) -> Callable[[Fraction], Guarantee]:
    """From a number to a budget of this kind; by default of the account's.

    Raises InvalidParameter for what is no kind, or a delta that it has not, or lacks.
    """
    made = type(account) if kind is None else kind
    share = checks.exact("delta", delta)
    if not 0 <= share < 1:
        raise InvalidParameter("delta", delta, expected="a number from 0 to below 1")
    if made is RenyiDP and isinstance(account, RenyiDP) and not share:
        return lambda number: RenyiDP(account.alpha, number)
    if made is PureDP and not share:
        return PureDP
    if made is ApproxDP and share:
        return lambda number: ApproxDP(number, share)
    if made is ZCDP:
        return lambda number: ZCDP(number, share)
    if made is GDP:
        return lambda number: GDP(number, share)
    if made in {PureDP, ApproxDP, RenyiDP}:
        expected = (
            "above 0 for ApproxDP, such as delta=1e-6, 0 for PureDP and RenyiDP (of the account's "
            "alpha). Another kind of budget is asked for with kind=unacorda.PureDP"
        )
        raise InvalidParameter("delta", delta, expected=expected)
    raise InvalidParameter("kind", kind, expected="PureDP, ApproxDP, ZCDP, GDP or RenyiDP")
