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

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction

from unacorda.accounting.charges import charge, request_price
from unacorda.accounting.rewriting import only_gaussian
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
from unacorda.query.noise.additive import Noise, Share
from unacorda.query.noise.key_selection import KeyRule, hits_of, key_rule
from unacorda.query.plan.query import Query, QueryBatch, Scan, naming, scans_of
from unacorda.query.schema.units import Reach

__all__ = [
    "Allocation",
    "PricedBatch",
    "allocate",
    "allocate_together",
    "beyond",
    "common_factor",
    "event_of",
]

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
    from unacorda.accounting.calibration.calibrate import calibrate

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

    request: what the caller allowed, for all questions that are asked together; spends: the part
    of it that this question splits (for ApproxDP the better of Laplace noise under PureDP and
    normal noise under GDP, and more than the part where all together still keep the request);
    noises: by name; rule: how private keys are found, None where all are public.
    """

    request: Guarantee
    spends: Share
    reach: Reach
    noises: Mapping[str, Noise]
    rule: KeyRule | None = None

    @property
    def event(self) -> Event:
        """What a release costs, to be priced by an accountant."""
        found = [] if self.rule is None else [self.rule.event]
        return compose([*found, *(noise.event for noise in self.noises.values())])


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
    shares = _shares(queries, request, parts)
    for query in queries:
        if query.private is not None:
            hits_of(query.reach)  # refuses too many
    try:
        options = []
        for share, deltas in shares:
            plain = _split(queries, share, deltas, request, parts)
            options += [plain, *_stretched(plain, queries, share, request, parts)]
        chosen = min(options, key=_loudness)
        event_of(chosen)
    except (InvalidParameter, OverflowError, ValueError):
        pass  # a scale that no mechanism, or a noise multiplier that no event takes
    else:
        return chosen
    raise beyond(request)


def beyond(request: Guarantee) -> InvalidParameter:
    """What to raise for a request that no noise here keeps."""
    return InvalidParameter(
        "budget",
        request,
        expected="a budget that is neither so small nor so large, beside the bounds, max_rows and "
        "weights of this question, that its noise leaves the range of numbers",
    )


def event_of(allocations: Sequence[Allocation]) -> Event:
    """What the releases of several questions cost together."""
    return compose([allocation.event for allocation in allocations])


_Deltas = tuple[Fraction, ...]
"""Of each question what it may spend to find private keys; 0 where it has none."""


def _shares(
    queries: Sequence[Query], request: Guarantee, parts: Sequence[Fraction]
) -> list[tuple[Share, _Deltas]]:
    """The guarantees that may be split in place of the request, each beside deltas for keys.

    A guarantee and its deltas together imply the request.
    """
    whole = Fraction(0) if isinstance(request, PureDP | RenyiDP) else request.delta
    deltas = _deltas(queries, request, whole, parts)
    match request:
        case PureDP():
            return [(request, deltas)]
        case ZCDP(rho=rho):
            return [(ZCDP(rho), deltas)]
        case GDP():
            return [(GDP.from_squared(request.mu_squared), deltas)]
        case RenyiDP(alpha=alpha, epsilon=epsilon):
            return [(ZCDP(epsilon / alpha), deltas)]
        case ApproxDP(epsilon=epsilon):
            options: list[tuple[Share, _Deltas]] = [(PureDP(epsilon), deltas)] if epsilon else []
            # Normal noise needs a delta as well: half of what no one asked for.
            given = sum((_asked(query) or Fraction(0) for query in queries), Fraction(0))
            deltas = _deltas(queries, request, (whole + given) / 2, parts)
            if 0 < whole < 1 and (rest := whole - sum(deltas)) > 0:
                options.append((GDP.within(ApproxDP(epsilon, rest)), deltas))
            return options


def _deltas(
    queries: Sequence[Query], request: Guarantee, whole: Fraction, parts: Sequence[Fraction]
) -> _Deltas:
    """What each question asks for, and the rest by the parts of those that do not say."""
    private = [query.private is not None for query in queries]
    given = [_asked(query) for query in queries]
    rest = whole - sum((delta for delta in given if delta is not None), Fraction(0))
    open_parts = sum(
        (
            part
            for part, mine, delta in zip(parts, private, given, strict=True)
            if mine and delta is None
        ),
        Fraction(0),
    )
    if any(private) and whole == 0:
        raise InvalidParameter(
            "budget",
            request,
            expected="one with a delta, which private keys spend",
            lacks="delta",
            hint="such as unacorda.ApproxDP(1, 1e-6) or unacorda.ZCDP(0.05, delta=1e-8). Or list "
            "the keys, which are then public",
        )
    if rest < 0 or (open_parts and rest == 0):
        raise InvalidParameter(
            "delta",
            float(whole - rest),
            expected=f"deltas of private_keys within the budget's, {request}",
        )
    return tuple(
        Fraction(0) if not mine else rest * part / open_parts if delta is None else delta
        for part, mine, delta in zip(parts, private, given, strict=True)
    )


def _asked(query: Query) -> Fraction | None:
    return None if query.private is None else query.private.delta


def _split(
    queries: Sequence[Query],
    share: Share,
    deltas: _Deltas,
    request: Guarantee,
    parts: Sequence[Fraction],
) -> tuple[Allocation, ...]:
    return tuple(
        _allotted(query, share * part, delta, request)
        for query, delta, part in zip(queries, deltas, parts, strict=True)
    )


def _stretched(
    plain: tuple[Allocation, ...],
    queries: Sequence[Query],
    share: Share,
    request: Guarantee,
    parts: Sequence[Fraction],
) -> list[tuple[Allocation, ...]]:
    """The split of more than the share, where all together keep the request and much is gained."""
    if not isinstance(request, ApproxDP) or any(query.private is not None for query in queries):
        return []
    none = (Fraction(0),) * len(queries)
    splits: dict[Fraction, tuple[Allocation, ...]] = {Fraction(1): plain}

    def split(factor: Fraction) -> tuple[Allocation, ...]:
        if factor not in splits:
            splits[factor] = _split(queries, share * factor, none, request, parts)
        return splits[factor]

    factor = common_factor(lambda factor: event_of(split(factor)), request)
    # A pure split spends no delta: it is not given up for next to nothing.
    return [split(factor)] if factor >= _WORTH else []


def _allotted(query: Query, share: Share, delta: Fraction, request: Guarantee) -> Allocation:
    reach = query.reach
    noises: dict[str, Noise] = {
        name: query.aggregates[name].noise(share * part, reach)
        for name, part in query.parts().items()
    }
    rule = None
    if query.private is not None:
        part, hits = share * query.keys_part, hits_of(reach)
        rule = key_rule(part, delta=delta, hits=hits, replaced=reach.replaced)
    return Allocation(request=request, spends=share, reach=reach, noises=noises, rule=rule)


def _loudness(allocations: Sequence[Allocation]) -> float:
    """The sum of the logarithms of all noise scales: less is better."""
    rules = (one.rule for one in allocations if one.rule is not None)
    noises = (noise for one in allocations for noise in one.noises.values())
    return math.fsum(one.log_scale for one in (*rules, *noises))


def _spendable(request: Guarantee) -> None:
    if not isinstance(request, PureDP | ApproxDP | ZCDP | GDP | RenyiDP):
        raise InvalidParameter(
            "budget",
            request,
            expected="a guarantee such as unacorda.PureDP(0.5) or unacorda.ZCDP(0.05)",
        )
    if isinstance(request, ApproxDP) and request.delta >= 1:
        raise InvalidParameter("budget", request, expected="a delta below 1")
    main = request.epsilon if isinstance(request, ApproxDP) else request.additive[0]
    if main <= 0 and not (isinstance(request, ApproxDP) and request.delta > 0):
        raise InvalidParameter("budget", request, expected="a budget above zero")
    if main > _LARGEST:
        raise InvalidParameter(
            "budget", request, expected=f"at most {_LARGEST:,}: a larger budget protects no one"
        )


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
