"""Mends as they are written in a shell: where an error speaks of Python, these are the options."""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

import contextlib
import decimal
import shlex
from collections.abc import Sequence
from typing import Any

__all__ = ["bounds_mend", "keys_mend", "no_account", "unit_mend"]

_MOST_ACCOUNTS = 20


def bounds_mend(column: str | None) -> str:
    """The option that gives bounds of a column, or of those that an expression is made of.

    >>> bounds_mend("cost")
    'Write --bounds cost=LOWER:UPPER.'
    """
    if column is None or '"' in column:
        return "Write --bounds COLUMN=LOWER:UPPER for every column it is made of."
    return f"Write --bounds {_named(column)}LOWER:UPPER{_end(column)}."


def keys_mend(column: str | None) -> str:
    """The option that gives the keys of a column.

    >>> keys_mend("home county")
    "Write --keys 'home county=A,B', or --keys 'home county=@FILE' with one a line, or \
--private-keys 'home county', which finds them and spends a --delta."
    """
    column = column or "COLUMN"
    name, end = _named(column), _end(column)
    found = f"--private-keys {name.removesuffix('=')}{end}, which finds them and spends a --delta"
    return f"Write --keys {name}A,B{end}, or --keys {name}@FILE{end} with one a line, or {found}."


def unit_mend(request: Any, budget: object) -> str:
    """The options that ask an account with this budget, instead of those that made the request.

    >>> from unacorda.privacy.guarantees import ZCDP, PureDP
    >>> unit_mend(ZCDP("0.01"), PureDP(1))
    'Ask with --epsilon, such as --epsilon 0.1415: that is within what you offered.'
    """
    from unacorda.privacy.guarantees import GDP, ZCDP, ApproxDP, PureDP

    options, limit = "--epsilon", "epsilon=0.5"
    kinds: list[type[PureDP | ApproxDP | ZCDP | GDP]] = [PureDP]
    taken: tuple[type, ...] = (PureDP,)
    match budget:
        case ApproxDP():
            limit, taken = "epsilon=0.5,delta=1e-8", (PureDP, ApproxDP)
            options = "--epsilon, with --delta or without"
            kinds = [ApproxDP, PureDP]
        case ZCDP():
            options, kinds = "--rho", [ZCDP, PureDP]
            limit, taken = "rho=0.1", (PureDP, ApproxDP, ZCDP, GDP)
        case GDP():
            options, kinds = "--mu or --epsilon", [GDP, PureDP]
            limit, taken = "mu=0.5", (PureDP, GDP)
        case _:
            pass  # every account takes pure DP
    if isinstance(request, taken):  # a question would not have been refused
        return f"The limit of a sub-account is written as the account's budget, such as {limit}."
    for kind in kinds:
        with contextlib.suppress(
            Exception
        ):  # no such guarantee: the options are named all the same
            written = _options(kind.within(request))
            if written:
                return f"Ask with {options}, such as {written}: that is within what you offered."
    return f"Ask with {options}."


def no_account(name: str, known: Sequence[str]) -> str:
    """That a ledger has no account of this name, and which it has.

    >>> no_account("vists", ["people", "visits"])
    "There is no account named 'vists' in this ledger, which has 'people', 'visits'."
    """
    listed = ", ".join(map(repr, known[:_MOST_ACCOUNTS])) or "none yet"
    more = f" and {len(known) - _MOST_ACCOUNTS} more" if len(known) > _MOST_ACCOUNTS else ""
    return f"There is no account named {name!r} in this ledger, which has {listed}{more}."


def _options(guarantee: object) -> str:
    """A guarantee as options, rounded down to four digits; nothing where that is zero."""
    parts = []
    for name in ("epsilon", "rho", "mu", "delta"):
        value = getattr(guarantee, name, None)
        if value is None or (name == "delta" and value == 0):
            continue
        with decimal.localcontext(prec=4, rounding=decimal.ROUND_DOWN):
            number = +decimal.Decimal(float(value))
        if number <= 0:
            return ""
        parts.append(f"--{name} {float(number):.4g}")
    return " ".join(parts)


def _named(column: str) -> str:
    """COLUMN= as a shell reads it, its quotes open where it needs them."""
    quoted = shlex.quote(f"{column}=")
    return quoted.removesuffix("'") if quoted != f"{column}=" else quoted


def _end(column: str) -> str:
    return "'" if shlex.quote(f"{column}=") != f"{column}=" else ""
