"""Budgets are divided among questions and their aggregates.

**Priced as one.** An (epsilon, delta) request is split over mechanisms by a kind of guarantee that
adds up: pure epsilons, or squared mus of Gaussian DP. Their sum is only a bound of what the
mechanisms cost together at the request's delta. Here the exact composition of all of them is
priced, and all shares are multiplied by one common factor, the largest for which the price still
keeps the request. Ten medians gain a fifth of their error. Nothing is gained where all is normal
noise, of which the sum is the price, and next to nothing (3% at most in all cases tried) where all
is Laplace noise: where that is the quieter of the two, its parts are too few for their composition
to be much below the sum. Neither is looked for.

The factor is a function of the mechanisms and the request alone, a multiple of 1/128, and itself
was priced: what is promised does not rest on the search.
"""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction

from unacorda import checks
from unacorda.accounting.charges import charge, request_price
from unacorda.accounting.rules.base import only_gaussian
from unacorda.errors import InvalidParameter, UnsupportedEvent
from unacorda.privacy.events import (
    Composed,
    DiscreteLaplace,
    Event,
    Laplace,
    Pure,
    Repeated,
    compose,
)
from unacorda.privacy.guarantees import GDP, ZCDP, ApproxDP, Guarantee, PureDP, RenyiDP
from unacorda.query.aggregates.base import Assumed, Forecast
from unacorda.query.noise.additive import Noise, Share
from unacorda.query.noise.selection import KeyRule, hits_of, key_rule
from unacorda.query.plan.query import Query, QueryBatch, Scan, naming, scans_of
from unacorda.query.schema.units import Reach

_STEPS = 128  # per unit of the factor
_MOST = 16
_MOST_PARTS = 100  # kinds of mechanisms; pricing more takes seconds each time


def common_factor(family: Callable[[Fraction], Event], request: ApproxDP) -> Fraction:
    """The largest factor, from 1 to 16, of all shares within the request.

    family: what all mechanisms do together when every share is multiplied by a factor.
    """
    event = family(Fraction(1))
    parts = event.parts if isinstance(event, Composed) else (event,)
    alone = len(parts) == 1 and not isinstance(event, Repeated)
    if (
        alone
        or only_gaussian(event)
        or all(map(_is_laplace, parts))
        or not request.epsilon
        or not 0 < request.delta < 1
        or len(parts) > _MOST_PARTS
    ):
        return Fraction(1)
    # The accountant's engines take long to load.
    from unacorda.accounting.accountant import quick_epsilon
    from unacorda.accounting.calibration import calibrate

    try:
        steps = calibrate(
            lambda count: family(Fraction(count, _STEPS)),
            target=request.epsilon,
            price=lambda one: quick_epsilon(one, delta=request.delta),
            find="most",
            whole=True,
            within=(_STEPS, _MOST * _STEPS),
            guess=1.2 * _STEPS,
        )
    except (InvalidParameter, UnsupportedEvent, OverflowError, ValueError):
        return Fraction(1)  # nothing better than the sum is known
    return Fraction(steps, _STEPS)


def _is_laplace(event: Event) -> bool:
    alone = event.event if isinstance(event, Repeated) else event
    return isinstance(alone, Laplace | DiscreteLaplace | Pure)


_WORTH = Fraction(101, 100)  # the least factor for which more is spent than the plain split
_LARGEST = 1_000_000  # epsilon, rho or mu squared of one question


@dataclass(frozen=True, slots=True, kw_only=True)
class Allocation:
    """The noise of every aggregate in a question, and what it all does to privacy.

    noises: by name, of ApproxDP the better of Laplace noise under PureDP and normal noise under
    GDP; rule: how private keys are found, None where all are public.
    """

    reach: Reach
    noises: Mapping[str, Noise]
    rule: KeyRule | None = None

    @property
    def event(self) -> Event:
        """What a release costs, to be priced by an accountant."""
        found = [] if self.rule is None else [self.rule.event]
        return compose([*found, *(noise.event for noise in self.noises.values())])

    def forecasts(self, query: Query, assumed: Assumed | None = None) -> dict[str, Forecast]:
        """Forecast every answer before the data are read, by the aggregate's name."""
        known = assumed or {}
        return {
            name: aggregate.forecast(self.noises[name], self.reach, known.get(name))
            for name, aggregate in query.aggregates.items()
        }


def allocate(query: Query, request: Guarantee) -> Allocation:
    """Split a request over the aggregates of a question.

    Raises InvalidParameter for a request of zero, or one so small that no noise can keep it, and
    for one without a delta where keys are private.
    """
    (found,) = allocate_together([query], request, weights=[Fraction(1)])
    return found


def allocate_together(
    queries: Sequence[Query], request: Guarantee, *, weights: Sequence[Fraction]
) -> tuple[Allocation, ...]:
    """Split a request over questions by these weights, and over each one's aggregates by theirs.

    All together keep the request. Raises as `allocate` does.
    """
    _spendable(request)
    whole = sum(weights, Fraction(0))
    parts = [weight / whole for weight in weights]
    split = _RequestSplit(queries=queries, parts=parts, request=request)
    shares = split.shares()
    for query in queries:
        if query.private is not None:
            hits_of(query.reach)  # refuses too many
    try:
        options = [option for share, deltas in shares for option in split.options(share, deltas)]
        chosen = min(options, key=_log_scale)
        event_of(chosen)
    except (InvalidParameter, ArithmeticError, ValueError):
        pass  # a scale that no mechanism, or a noise multiplier that no event takes
    else:
        return chosen
    raise beyond(request)


def beyond(request: Guarantee) -> InvalidParameter:
    """What to raise for a request that no noise here keeps."""
    return InvalidParameter(
        "budget",
        request,
        expected="a budget that is neither so small nor so large, next to the bounds, max_rows and "
        "weights of this question, that its noise leaves the range of numbers",
    )


def event_of(allocations: Sequence[Allocation]) -> Event:
    """What the releases of several questions cost together."""
    return compose([allocation.event for allocation in allocations])


def shares_of(request: Guarantee) -> list[Share]:
    """The guarantees that may be split in place of a request; each implies it."""
    match request:
        case PureDP():
            return [request]
        case ZCDP(rho=rho):
            return [ZCDP(rho)]
        case GDP(mu_squared=mu_squared):
            return [GDP.from_squared(mu_squared)]
        case RenyiDP(alpha=alpha, epsilon=epsilon):
            return [ZCDP(epsilon / alpha)]
        case ApproxDP(epsilon=epsilon, delta=delta):
            normal = GDP.within(request) if 0 < delta < 1 else GDP(0)
            pure: list[Share] = [PureDP(epsilon)] if epsilon else []
            return [*pure, normal] if normal.mu_squared else pure


_Deltas = tuple[Fraction, ...]
"""Of each question what it may spend to find private keys; 0 where it has none."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _RequestSplit:
    """Questions, and by which parts a request is split over them."""

    queries: Sequence[Query]
    parts: Sequence[Fraction]
    request: Guarantee

    def shares(self) -> list[tuple[Share, _Deltas]]:
        """What may be split, each with deltas for keys; together they imply the request."""
        request, none = self.request, Fraction(0)
        whole = none if isinstance(request, PureDP | RenyiDP) else request.delta
        deltas = normal = self._deltas(whole)
        if isinstance(request, ApproxDP):
            # Normal noise needs a delta as well: half of what no one asked for.
            asked = (query.private.delta for query in self.queries if query.private is not None)
            normal = self._deltas((whole + sum((delta or none for delta in asked), none)) / 2)
            request = ApproxDP(request.epsilon, whole - sum(normal))
        return [
            (share, deltas if isinstance(share, PureDP) else normal) for share in shares_of(request)
        ]

    def _deltas(self, whole: Fraction) -> _Deltas:
        """What each question asks for, and the rest by the parts of those that do not say."""
        private = [query.private for query in self.queries]
        given = [Fraction(0) if one is None else one.delta for one in private]
        rest = whole - sum((delta for delta in given if delta is not None), Fraction(0))
        without = [part for part, delta in zip(self.parts, given, strict=True) if delta is None]
        if any(private) and whole == 0:
            raise InvalidParameter(
                "budget",
                self.request,
                expected="one with a delta, which private keys spend",
                lacks="delta",
                hint="such as unacorda.ApproxDP(1, 1e-6) or unacorda.ZCDP(0.05, delta=1e-8). Or "
                "list the keys, which are then public",
            )
        expected = f"deltas of private_keys within the budget's, {self.request}"
        fits = rest > 0 or (rest == 0 and not without)
        checks.demand(fits, "delta", float(whole - rest), expected=expected)
        return tuple(
            rest * part / sum(without) if delta is None else delta
            for part, delta in zip(self.parts, given, strict=True)
        )

    def options(self, share: Share, deltas: _Deltas) -> Iterator[tuple[Allocation, ...]]:
        """The split of a share, and that of more, where all together keep the request."""
        plain = self._of(share, deltas)
        yield plain
        if not isinstance(self.request, ApproxDP) or any(one.rule for one in plain):
            return
        splits = functools.cache(lambda factor: self._of(share * factor, deltas))
        factor = common_factor(lambda factor: event_of(splits(factor)), self.request)
        # A pure split spends no delta: it is not given up for next to nothing.
        if factor >= _WORTH:
            yield splits(factor)

    def _of(self, share: Share, deltas: _Deltas) -> tuple[Allocation, ...]:
        of_all = zip(self.queries, deltas, self.parts, strict=True)
        return tuple(_allotted(query, share * part, delta) for query, delta, part in of_all)


def _allotted(query: Query, share: Share, delta: Fraction) -> Allocation:
    reach = query.reach
    noises: dict[str, Noise] = {
        name: query.aggregates[name].noise(share * part, reach)
        for name, part in query.parts().items()
    }
    rule = None
    if query.private is not None:
        part, hits = share * query.keys_part, hits_of(reach)
        rule = key_rule(part, delta=delta, hits=hits, replaced=reach.replaced)
    return Allocation(reach=reach, noises=noises, rule=rule)


def _log_scale(allocations: Sequence[Allocation]) -> float:
    """The sum of the logarithms of all noise scales: less is better."""
    rules = (one.rule for one in allocations if one.rule is not None)
    noises = (noise for one in allocations for noise in one.noises.values())
    return math.fsum(one.log_scale for one in (*rules, *noises))


def _spendable(request: Guarantee) -> None:
    demand = functools.partial(checks.demand, argument="budget", value=request)
    demand(
        isinstance(request, PureDP | ApproxDP | ZCDP | GDP | RenyiDP),
        expected="a guarantee such as unacorda.PureDP(0.5) or unacorda.ZCDP(0.05)",
    )
    delta = request.delta if isinstance(request, ApproxDP) else Fraction(0)
    demand(delta < 1, expected="a delta below 1")
    main = request.additive[0]
    demand(main > 0 or delta > 0, expected="a budget above zero")
    demand(main <= _LARGEST, expected=f"at most {_LARGEST:,}: a larger budget protects no one")


@dataclass(frozen=True, slots=True, kw_only=True)
class PricedBatch:
    """Questions with their noise and their price. charge: what the account owes for all."""

    together: QueryBatch
    allocations: tuple[Allocation, ...]
    request: Guarantee
    charge: Guarantee

    @staticmethod
    def of(together: QueryBatch, request: Guarantee, account: Guarantee) -> PricedBatch:
        """Price questions; InvalidParameter or WrongUnit for a request that cannot be.

        What is about one of several questions names it.
        """
        try:
            allocations = allocate_together(together.queries, request, weights=together.weights)
        except InvalidParameter:
            for name, query in zip(together.names, together.queries, strict=True):
                with naming(name):  # where one of them could not be asked by itself either
                    allocate(query, request)
            raise
        request_price(request, account)  # refuses a budget of another unit
        try:
            cost = charge(event_of(allocations), request, account)
        except InvalidParameter:  # as it is written inside
            cost = None
        if cost is None:
            raise beyond(request)
        return PricedBatch(together=together, allocations=allocations, request=request, charge=cost)

    @property
    def event(self) -> Event:
        """What all answers together cost."""
        return event_of(self.allocations)

    @property
    def scans(self) -> tuple[Scan, ...]:
        """The scans that answer the questions."""
        return scans_of(self.together.queries)
