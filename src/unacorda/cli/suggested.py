"""The least budgets that reach wanted errors, as `unacorda query --error` prints them."""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

import json
from collections.abc import Sequence
from fractions import Fraction
from typing import TYPE_CHECKING, Any

from unacorda import checks
from unacorda.cli import show
from unacorda.cli.question import CommandQuestion
from unacorda.errors import InvalidParameter, UnacordaError
from unacorda.query.schema.quoting import escape

if TYPE_CHECKING:
    from unacorda.privacy.guarantees import Guarantee

__all__ = ["Wanted", "print_suggestions", "wished_errors"]

_OPTION = "--error"
_EXPECTED = (
    "NAME=X for each column of the answer, each once, or one X for all of them; of ROLLUP and CUBE "
    "that is the error of the finest level"
)

Wanted = Fraction | dict[str, Fraction]
"""One error for all columns, or by column."""


def wished_errors(texts: Sequence[str]) -> Wanted:
    """Standard errors: one for all columns, or by column.

    >>> wished_errors(["n=10", "mean_age=0.5"])
    {'n': Fraction(10, 1), 'mean_age': Fraction(1, 2)}
    """
    found: dict[str, Fraction] = {}
    for text in texts:
        name, sign, number = text.rpartition("=")
        column = name.strip()
        if bool(sign) is not bool(column) or column in found or (not sign and len(texts) > 1):
            raise InvalidParameter(_OPTION, text, expected=_EXPECTED)
        found[column] = checks.exact(_OPTION, number.strip())
        if found[column] <= 0:
            raise InvalidParameter(_OPTION, text, expected="a standard error above 0")
    return found.get("", found)


def print_suggestions(
    question: CommandQuestion, errors: Wanted, *, delta: str | None, as_json: bool
) -> None:
    """Print the least budget of every kind, as options; raises what is wrong with all of them."""
    found: dict[str, Guarantee] = {}
    faults: list[UnacordaError] = []
    for option, account in _accounts(delta).items():
        try:
            with question.session(budget=account) as session:
                given = Fraction(0) if delta is None else checks.exact("--delta", delta)
                found[option] = question.suggest(session, errors, delta=given)
        except InvalidParameter as fault:
            faults.append(fault)
    if not found:
        raise faults[0]
    if as_json:
        plain = {option: _numbers(option, budget, delta) for option, budget in found.items()}
        show.line(json.dumps({"budgets": plain}, indent=2))
        return
    show.line("The least budgets that reach this, each by itself:")
    for option, budget in found.items():
        numbers = _numbers(option, budget, delta)
        written = " ".join(f"--{name} {value}" for name, value in numbers.items())
        show.line(escape(f"  {written}"))
    show.line()
    read = "Nothing" if question.assuming is None else "Nothing but the public table"
    show.line(f"{read} was read and nothing was spent.")


def _accounts(delta: str | None) -> dict[str, Guarantee]:
    """By option an account that takes budgets of its kind."""
    from unacorda.privacy.guarantees import GDP, ZCDP, ApproxDP, PureDP

    if delta is None:
        return {"epsilon": PureDP(1), "rho": ZCDP(1), "mu": GDP(1)}
    return {"epsilon": ApproxDP(1, delta), "rho": ZCDP(1, delta), "mu": GDP(1, delta)}


def _numbers(option: str, budget: Any, delta: str | None) -> dict[str, str]:
    """The options that give this budget, with their numbers."""
    numbers = {option: f"{float(getattr(budget, option)):.10g}"}
    return numbers if delta is None else numbers | {"delta": delta}
