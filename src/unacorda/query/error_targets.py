"""Budgets from standard errors: the least that reaches them, and the split of one that does.

Standard errors are those that `explain` foretells: of the noise alone, or under assumptions. Every
budget that leaves here was tried: the noise it buys has been made, and errs by no more than wanted.
"""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable, Mapping
from decimal import ROUND_CEILING, Context, Decimal
from fractions import Fraction
from functools import partial
from typing import Any

from unacorda import checks
from unacorda.checks import Number
from unacorda.errors import InvalidParameter
from unacorda.privacy.guarantees import GDP, ZCDP, ApproxDP, Guarantee, PureDP, RenyiDP
from unacorda.query.aggregates.base import Assumed, Forecast
from unacorda.query.allocation import allocate, shares_of
from unacorda.query.noise.additive import Share
from unacorda.query.plan.query import Query

_SMALLEST, _LARGEST = Fraction(1, 10**300), Fraction(10**300)

Wish = Number | Mapping[str, Number]
"""Standard errors of a question as a caller writes them: one, or by aggregate."""

Target = Mapping[str, float]
"""Wanted standard errors of a question, by the names of its aggregates; with margins of the finest
level.
"""


def targets_of(errors: object, query: Query, *, argument: str = "error") -> Target:
    """What the caller wanted: one number for a question with one aggregate, else by name.

    Raises InvalidParameter for names that the question has not, and numbers that are not above 0.
    """
    names = list(query.aggregates)
    if isinstance(errors, Mapping):
        wanted = dict(errors)
    elif len(names) == 1:
        wanted = {names[0]: errors}
    else:
        raise InvalidParameter(
            argument, errors, expected=f"standard errors by name, {{{names[0]!r}: 10, ...}}"
        )
    if not wanted or not set(wanted) <= set(names):
        raise InvalidParameter(
            argument, sorted(map(str, wanted)), expected=f"aggregates: {', '.join(names)}"
        )
    return {name: _error(f"{argument}[{name!r}]", value) for name, value in wanted.items()}


def _error(argument: str, wanted: Any) -> float:
    """A standard error that can be wanted: a number above 0, also in a double."""
    error = checks.exact(argument, wanted)
    if not _SMALLEST <= error <= _LARGEST:
        raise InvalidParameter(argument, wanted, expected="a number above 0, from 1e-300 to 1e300")
    return float(error)


def budgets_of(
    kind: type[Guarantee] | None, delta: Number, *, account: Guarantee
) -> Callable[[Fraction], Guarantee]:
    """From a number to a budget of this kind; by default of the account's.

    Raises InvalidParameter for what is no kind, or a delta that it has not, or lacks.
    """
    made: Any = type(account) if kind is None else kind
    share = checks.exact("delta", delta)
    checks.demand(0 <= share < 1, "delta", delta, expected="a number from 0 to below 1")
    if made is RenyiDP and isinstance(account, RenyiDP) and not share:
        return lambda number: RenyiDP(account.alpha, number)
    if made is PureDP and not share:
        return PureDP
    if made in {ZCDP, GDP} or (made is ApproxDP and share):
        return partial(made, delta=share)
    if made is ApproxDP:
        expected = (
            "one above 0, such as delta=1e-6, since the account's budget is ApproxDP, "
            if kind is None
            else "one above 0, such as delta=1e-6, with kind=ApproxDP, "
        )
        raise InvalidParameter("delta", None, expected=f"{expected}or kind=unacorda.PureDP")
    if made in {PureDP, RenyiDP}:
        expected = (
            "0 for PureDP and RenyiDP (of the account's alpha). Another kind of budget is asked "
            "for with kind=unacorda.ApproxDP"
        )
        raise InvalidParameter("delta", delta, expected=expected)
    raise InvalidParameter("kind", kind, expected="PureDP, ApproxDP, ZCDP, GDP or RenyiDP")


_MOST = Fraction(10**6)  # what a budget may be, as for every question
_LEAST = Fraction(1, 10**12)
_WIDTH = 1 / 2_000  # how closely the least number is bracketed
_WIDE = 1 / 50  # where every trial is priced by the accountant
_TRIALS = 80
_UNKNOWN = (
    "an aggregate whose standard error is known beforehand: counts and sums with bounds, with and "
    "without margins; a mean, a variance or a quantile under "
    "assuming=unacorda.Assume(rows=..., values={...}), or Assume.from_table(...) of a public table "
    "in which rows count"
)


def least_budget(
    query: Query, kind: Callable[[Fraction], Guarantee], target: Target, assumed: Assumed
) -> Guarantee:
    """The least budget of a kind with which a question errs by no more than wanted.

    kind: from a number to a budget, such as PureDP; the number is rounded up to three digits.
    assumed: of the data, by aggregate.
    Raises InvalidParameter where no budget reaches the errors, or an error is not known.
    """

    def excess(number: Fraction) -> float:
        return _excess(query, kind(number), target, assumed)

    priced = isinstance(kind(Fraction(1)), ApproxDP)
    number = _least(excess, width=_WIDE if priced else _WIDTH)
    for _ in range(_TRIALS):
        tidy = _rounded_up(number, digits=3)
        if excess(tidy) <= 1:
            return kind(tidy)
        number = tidy * Fraction(1001, 1000)  # not monotone between the one and the other
    raise InvalidParameter("error", target, expected="errors that a round budget can reach")


def split_for(
    query: Query, target: Target, request: Guarantee, assumed: Assumed
) -> tuple[Query, Guarantee]:
    """The question with the weights, and the part of a request, that reach the wanted errors.

    Where an error is wanted of every aggregate, only the least is spent; else the others share
    what is left by their weights. assumed: as in `least_budget`. Raises InvalidParameter where the
    request is not enough, with what would be.
    """
    if query.private is not None:
        raise InvalidParameter(
            "errors",
            "...",
            expected="public keys",
            hint="with private ones, ask suggest_budget() for the whole question",
        )
    rest = {name: part for name, part in query.parts().items() if name not in target}
    best: tuple[Query, Guarantee] | None = None
    least: list[tuple[Query, Fraction]] = []
    for share in shares_of(request):
        spent, whole = _least_shares(query, target, share, assumed), share.additive[0]
        needed = sum(spent.values(), Fraction(0))
        alone = _only(query, target).weighted(spent)
        least.append((alone, needed))
        if not rest:
            found = alone, _needed(alone, target, request, needed, assumed)
        elif needed < whole:
            others = sum(rest.values(), Fraction(0))
            left = {name: (whole - needed) * part / others for name, part in rest.items()}
            found = query.weighted({**spent, **left}), request
        else:
            continue
        if not found[1] <= request or _excess(*found, target, assumed) > 1:
            continue
        if best is None or _size(found[1]) < _size(best[1]):
            best = found
    if best is None:
        more = " and something for the aggregates without" if rest else ""
        options = [_needed(alone, target, request, needed, assumed) for alone, needed in least]
        raise InvalidParameter(
            "budget",
            request,
            expected=f"at least {min(options, key=_size)!r} for the errors that are wanted "
            f"for{more}",
        )
    return best


def _needed(
    alone: Query, target: Target, request: Guarantee, needed: Fraction, assumed: Assumed
) -> Guarantee:
    """The least request that buys these shares."""
    if isinstance(request, ApproxDP):
        return least_budget(alone, partial(ApproxDP, delta=request.delta), target, assumed)
    least = needed * request.alpha if isinstance(request, RenyiDP) else needed
    return request.with_additive([least, *request.additive[1:]])


def _least_shares(
    query: Query, target: Target, share: Share, assumed: Assumed
) -> dict[str, Fraction]:
    """By name the least share of this kind that reaches the wanted error."""

    def excess(number: Fraction, *, name: str) -> float:
        part = share.with_additive([number, *share.additive[1:]])
        noise = query.aggregates[name].noise(part, query.reach)
        forecast = query.aggregates[name].forecast(noise, query.reach, assumed[name])
        return _over(name, forecast, target[name])

    return {name: _least(partial(excess, name=name)) for name in target}


def _only(query: Query, target: Target) -> Query:
    """What errors are wanted of, and nothing else."""
    return dataclasses.replace(
        query,
        aggregates={name: query.aggregates[name] for name in query.aggregates if name in target},
        asked={name: query.asked[name] for name in query.asked if name in target},
    )


def _excess(query: Query, request: Guarantee, target: Target, assumed: Assumed) -> float:
    """The largest error over what is wanted of it."""
    found = allocate(query, request).forecasts(query, assumed)
    return max(_over(name, found[name], wanted) for name, wanted in target.items())


def _over(name: str, forecast: Forecast, wanted: float) -> float:
    """The error over what is wanted of it; that of the finest level, where there are several."""
    error = forecast.errors[-1]
    if error is None:
        raise InvalidParameter("error", name, expected=_UNKNOWN)
    return error / wanted


def _least(excess: Callable[[Fraction], float], *, width: float = _WIDTH) -> Fraction:
    """The least number with an excess of at most 1, to within a relative width; it was tried."""
    from unacorda.accounting.calibration import calibrate  # takes long to load

    short: Callable[[float], Any] = partial(_rounded_up, digits=8)
    price: Callable[[Any], float] = partial(_tried, excess)
    ends = float(_LEAST), float(_MOST)
    try:
        found = calibrate(short, target=1, price=price, within=ends, guess=1.0, tolerance=width)
    except InvalidParameter as error:
        if error.argument == "find":  # whatever is spent suffices
            return _LEAST
        if error.argument != "target":
            raise
    else:
        return _rounded_up(found, digits=8)
    raise InvalidParameter(
        "error",
        "so small",
        expected=f"errors that some budget up to {int(_MOST):,} reaches: answers may be multiples "
        "of a step that is larger, or the assumed rows too few",
    )


def _tried(excess: Callable[[Fraction], float], number: Fraction) -> float:
    try:
        return excess(number)
    except InvalidParameter as error:
        if error.expected == _UNKNOWN:
            raise
    except (OverflowError, ValueError):
        pass
    return math.inf  # so small a budget that no noise keeps it


def _rounded_up(number: Fraction | float, *, digits: int) -> Fraction:
    up, exact = Context(prec=digits, rounding=ROUND_CEILING), Fraction(number)
    return Fraction(up.divide(Decimal(exact.numerator), Decimal(exact.denominator)))


def _size(budget: Guarantee) -> Fraction:
    return budget.additive[0]
