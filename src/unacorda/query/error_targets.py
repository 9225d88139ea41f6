"""Budgets from standard errors: the least that reaches them, and the split of one that does.

Standard errors are those that `explain` foretells: of the noise alone, or under assumptions. Every
budget that leaves here was tried: the noise it buys has been made, and errs by no more than wanted.
"""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable, Mapping, Sequence
from decimal import ROUND_CEILING, Context, Decimal
from fractions import Fraction
from typing import Any

from unacorda import checks
from unacorda.checks import Number
from unacorda.errors import InvalidParameter
from unacorda.privacy.guarantees import GDP, ZCDP, ApproxDP, Guarantee, PureDP, RenyiDP
from unacorda.query.aggregates.answers import Assume, Assumed, Forecast
from unacorda.query.aggregates.base import Aggregate
from unacorda.query.allocation import Allocation, allocate_together
from unacorda.query.noise.additive import Share
from unacorda.query.plan.batch import QueryBatch, by_name, naming
from unacorda.query.plan.query import Query
from unacorda.query.schema.units import Reach

__all__ = [
    "Target",
    "Wish",
    "budgets_of",
    "least_budget",
    "split_for",
    "targets_of",
    "wishes_of",
]

_SMALLEST, _LARGEST = Fraction(1, 10**300), Fraction(10**300)

Wish = Number | Mapping[str, Number | Mapping[str, Number]]
"""Standard errors of one question as a caller writes them: one, by aggregate, or by level too."""

Target = Mapping[str, Mapping[int, float]]
"""Wished standard errors of one question, by the names of its aggregates and their levels.

Levels are numbered as `Query.levels` names them; what has none has one, 0.
"""


def targets_of(errors: object, query: Query, *, argument: str = "error") -> Target:
    """What the caller wanted: one number for a question with one aggregate, else by name.

    With margins a number is wanted of the finest level; by the names of levels, of any.
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
    return {
        name: _by_level(f"{argument}[{name!r}]", value, query.levels)
        for name, value in wanted.items()
    }


def _by_level(argument: str, wanted: Any, levels: Sequence[str]) -> dict[int, float]:
    """The error of the finest level, or by the names of levels; levels: empty if there are none."""
    if not isinstance(wanted, Mapping):
        return {max(len(levels) - 1, 0): _error(argument, wanted)}
    if not levels:
        raise InvalidParameter(argument, dict(wanted), expected="a number: there are no margins")
    if not wanted or not set(wanted) <= set(levels):
        raise InvalidParameter(
            argument, sorted(map(str, wanted)), expected=f"levels: {'; '.join(levels)}"
        )
    return {
        levels.index(level): _error(f"{argument}[{level!r}]", value)
        for level, value in wanted.items()
    }


def _error(argument: str, wanted: Any) -> float:
    """A standard error that can be wanted: a number above 0, also in a double."""
    error = checks.exact(argument, wanted)
    if not _SMALLEST <= error <= _LARGEST:
        raise InvalidParameter(argument, wanted, expected="a number above 0, from 1e-300 to 1e300")
    return float(error)


def wishes_of(errors: object, together: QueryBatch, *, listed: bool) -> list[Target]:
    """The wanted errors of each question; empty for one of which none is wanted.

    Raises InvalidParameter as `targets_of` does, naming the question, and where none is wanted.
    """
    if together.single:
        return [targets_of(errors, together.queries[0], argument="errors")]
    given = by_name("errors", errors, together.names, listed=listed)
    found: list[Target] = []
    for name, query in zip(together.names, together.queries, strict=True):
        with naming(name):
            wanted = given.get(name)
            found.append({} if wanted is None else targets_of(wanted, query, argument="errors"))
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


_Family = tuple[Callable[[Fraction], Share], Fraction, int]
"""Of a request: what a share of so much is, how much there is of it, and the slope of `_least`."""

_MOST = Fraction(10**6)  # what a budget may be, as for every question
_LEAST = Fraction(1, 10**12)
_WIDTH = 1 + Fraction(1, 2_000)  # how closely the least number is bracketed
_WIDE = 1 + Fraction(1, 50)  # where every trial is priced by the accountant
_TRIALS = 80
_UNKNOWN = (
    "an aggregate whose standard error is known beforehand: counts and sums with bounds, with and "
    "without margins; a mean, a variance or a quantile under "
    "assuming=unacorda.Assume(rows=..., values={...}), or a public table in which rows count"
)


def least_budget(
    together: QueryBatch,
    kind: Callable[[Fraction], Guarantee],
    targets: Sequence[Target],
    assumed: Sequence[Assumed],
) -> Guarantee:
    """The least budget of a kind with which all questions err by no more than wanted.

    kind: from a number to a budget, such as PureDP; the number is rounded up to three digits.
    assumed: of the data, by question and aggregate.
    Raises InvalidParameter where no budget reaches the errors, or an error is not known.
    """

    def excess(number: Fraction) -> float:
        found = allocate_together(together.queries, kind(number), weights=together.weights)
        return _excess(together.queries, found, targets, assumed)

    example = kind(Fraction(1))
    number = _least(
        excess,
        slope=2 if isinstance(example, ZCDP | RenyiDP) else 1,
        width=_WIDE if isinstance(example, ApproxDP) else _WIDTH,
    )
    for _ in range(_TRIALS):
        tidy = _rounded_up(number, digits=3)
        if excess(tidy) <= 1:
            return kind(tidy)
        number = tidy * Fraction(1001, 1000)  # not monotone between the one and the other
    raise InvalidParameter("error", targets, expected="errors that some tidy budget reaches")


def split_for(
    together: QueryBatch,
    targets: Sequence[Target],
    request: Guarantee,
    assumed: Sequence[Assumed],
) -> tuple[QueryBatch, Guarantee]:
    """The questions with the weights, and the part of a request, that reach the wanted errors.

    Where an error is wanted of every aggregate, only the least is spent; else the others share
    what is left by their weights. assumed: as in `least_budget`. Raises InvalidParameter where the
    request is not enough, with what would be.
    """
    if any(query.private is not None for query in together.queries):
        raise InvalidParameter(
            "errors",
            "...",
            expected="public keys: with private ones, ask suggest_budget() for the whole question",
        )
    best: tuple[QueryBatch, Guarantee] | None = None
    for family, whole, slope in _families(request):
        spent = _least_shares(together, targets, family, slope, assumed)
        needed = _sum_of(spent)
        rest = _rest(together, targets)
        if not rest:
            alone = _weighted(together, spent)
            found = alone, _needed(alone, targets, request, needed, assumed)
        elif needed < whole:
            others = sum(rest.values(), Fraction(0))
            for (place, name), weight in rest.items():
                spent[place][name] = (whole - needed) * weight / others
            found = _weighted(together, spent), request
        else:
            continue
        if not _within(found[1], request) or not _reached(*found, targets, assumed):
            continue
        if best is None or _size(found[1]) < _size(best[1]):
            best = found
    if best is None:
        raise _too_little(together, targets, request, assumed)
    return best


def _needed(
    alone: QueryBatch,
    targets: Sequence[Target],
    request: Guarantee,
    needed: Fraction,
    assumed: Sequence[Assumed],
) -> Guarantee:
    """The least request that buys these shares."""
    match request:
        case PureDP():
            return PureDP(needed)
        case ZCDP(delta=delta):
            return ZCDP(needed, delta)
        case GDP(delta=delta):
            return GDP.from_squared(needed, delta)
        case RenyiDP(alpha=alpha):
            return RenyiDP(alpha, needed * alpha)
        case ApproxDP(delta=delta):
            return least_budget(alone, lambda number: ApproxDP(number, delta), targets, assumed)


def _families(request: Guarantee) -> list[_Family]:
    """Ways to spend a request."""
    match request:
        case PureDP(epsilon=epsilon):
            return [(PureDP, epsilon, 1)]
        case ZCDP(rho=rho):
            return [(ZCDP, rho, 2)]
        case GDP(mu_squared=mu_squared):
            return [(GDP.from_squared, mu_squared, 2)]
        case RenyiDP(alpha=alpha, epsilon=epsilon):
            return [(ZCDP, epsilon / alpha, 2)]
        case ApproxDP(epsilon=epsilon, delta=delta):
            normal = GDP.within(request).mu_squared if 0 < delta < 1 else Fraction(0)
            options: list[_Family] = [(PureDP, epsilon, 1), (GDP.from_squared, normal, 2)]
            return [option for option in options if option[1]]


def _least_shares(
    together: QueryBatch,
    targets: Sequence[Target],
    family: Callable[[Fraction], Share],
    slope: int,
    assumed: Sequence[Assumed],
) -> list[dict[str, Fraction]]:
    """For each question, by name, the least share of this kind that reaches the wanted error."""
    found = []
    every = zip(together.names, together.queries, targets, assumed, strict=True)
    for question, query, wanted, known in every:
        reach = query.reach
        shares = {}
        for name, error in wanted.items():
            excess = _alone(
                name,
                query.aggregates[name],
                reach=reach,
                family=family,
                wanted=error,
                assume=known[name],
            )
            with naming(question):
                shares[name] = _least(excess, slope=slope)
        found.append(shares)
    return found


def _alone(
    name: str,
    aggregate: Aggregate,
    *,
    reach: Reach,
    family: Callable[[Fraction], Share],
    wanted: Mapping[int, float],
    assume: Assume | None,
) -> Callable[[Fraction], float]:
    def excess(number: Fraction) -> float:
        noise = aggregate.noise(family(number), reach)
        return _over(name, aggregate.forecast(noise, reach, assume), wanted)

    return excess


def _rest(together: QueryBatch, targets: Sequence[Target]) -> dict[tuple[int, str], Fraction]:
    """The weights of the aggregates of which no error is wanted, by question and name."""
    return {
        (place, name): together.weights[place] * part
        for place, query in enumerate(together.queries)
        for name, part in query.parts().items()
        if name not in targets[place]
    }


def _weighted(together: QueryBatch, spent: Sequence[Mapping[str, Fraction]]) -> QueryBatch:
    """The same questions, every aggregate with its share for a weight."""
    queries = [
        query.weighted(shares) for query, shares in zip(together.queries, spent, strict=True)
    ]
    weights = [sum(shares.values(), Fraction(0)) for shares in spent]
    return dataclasses.replace(together, queries=tuple(queries), weights=tuple(weights))


def _reached(
    together: QueryBatch,
    request: Guarantee,
    targets: Sequence[Target],
    assumed: Sequence[Assumed],
) -> bool:
    found = allocate_together(together.queries, request, weights=together.weights)
    return _excess(together.queries, found, targets, assumed) <= 1


def _excess(
    queries: Sequence[Query],
    allocations: Sequence[Allocation],
    targets: Sequence[Target],
    assumed: Sequence[Assumed],
) -> float:
    """The largest error over what is wanted of it."""
    return max(
        _over(
            name,
            query.aggregates[name].forecast(allocation.noises[name], allocation.reach, known[name]),
            wanted[name],
        )
        for query, allocation, wanted, known in zip(
            queries, allocations, targets, assumed, strict=True
        )
        for name in wanted
    )


def _over(name: str, forecast: Forecast, wanted: Mapping[int, float]) -> float:
    """The largest error over what is wanted of it, by level."""
    found = []
    for level, most in wanted.items():
        error = forecast.errors[level]
        if error is None:
            raise InvalidParameter("error", name, expected=_UNKNOWN)
        found.append(error / most)
    return max(found)


def _least(
    excess: Callable[[Fraction], float], *, slope: int, width: Fraction = _WIDTH
) -> Fraction:
    """The least number with an excess of at most 1, to within a width; it was tried.

    slope: of the logarithm of the number against that of the excess, to guess well. width: of the
    bracket, relative.
    """
    low, high, number = _LEAST, None, Fraction(1)
    aside = 1 + (width - 1) / 5
    for _ in range(_TRIALS):
        over = _tried(excess, number)
        if over <= 1:
            high = number
        elif number >= _MOST:
            break
        else:
            low = number
        if high is not None and high <= low * width:
            return high
        guess = number * Fraction(min(max(over, 1e-9), 1e9)) ** slope
        up, down = guess * aside, guess / aside
        if low < up and (high is None or up < high):
            number = up
        elif high is not None and low < down < high:
            number = down
        else:
            number = low * 16 if high is None else (low + high) / 2
        number = min(_rounded_up(number, digits=8), _MOST)
    if high is not None:
        return high
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


def _rounded_up(number: Fraction, *, digits: int) -> Fraction:
    up = Context(prec=digits, rounding=ROUND_CEILING)
    return Fraction(up.divide(Decimal(number.numerator), Decimal(number.denominator)))


def _within(asked: Guarantee, request: Guarantee) -> bool:
    return all(a <= b for a, b in zip(asked.additive, request.additive, strict=True))


def _too_little(
    together: QueryBatch,
    targets: Sequence[Target],
    request: Guarantee,
    assumed: Sequence[Assumed],
) -> InvalidParameter:
    """What would be needed, as far as there are errors wanted for."""
    more = " and something for the aggregates without" if _rest(together, targets) else ""
    alone, wanted = _only(together, targets)
    known = [one for one, target in zip(assumed, targets, strict=True) if target]
    options = []
    for family, _, slope in _families(request):
        spent = _least_shares(alone, wanted, family, slope, known)
        weighted = _weighted(alone, spent)
        options.append(_needed(weighted, wanted, request, _sum_of(spent), known))
    needed = min(options, key=_size)
    return InvalidParameter(
        "budget", request, expected=f"at least {needed} for the errors that are wanted for{more}"
    )


def _only(together: QueryBatch, targets: Sequence[Target]) -> tuple[QueryBatch, list[Target]]:
    """What errors are wanted of, and nothing else."""
    kept = [place for place, wanted in enumerate(targets) if wanted]
    queries = [
        dataclasses.replace(
            query,
            aggregates={name: query.aggregates[name] for name in targets[place]},
            asked={name: query.asked[name] for name in targets[place]},
        )
        for place in kept
        for query in [together.queries[place]]
    ]
    alone = dataclasses.replace(
        together,
        names=tuple(together.names[place] for place in kept),
        queries=tuple(queries),
        weights=tuple(together.weights[place] for place in kept),
    )
    return alone, [targets[place] for place in kept]


def _size(budget: Guarantee) -> Fraction:
    return budget.additive[0]


def _sum_of(spent: Sequence[Mapping[str, Fraction]]) -> Fraction:
    return sum((share for shares in spent for share in shares.values()), Fraction(0))
