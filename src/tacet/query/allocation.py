"""How the budget of one question becomes noise: shares, mechanisms, and the event of it all."""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction

from tacet.errors import InvalidParameter
from tacet.privacy.events import Event, compose
from tacet.privacy.guarantees import GDP, ZCDP, ApproxDP, Guarantee, PureDP, RenyiDP
from tacet.query.noise import Noise, Share
from tacet.query.plan import Query
from tacet.query.stretching import common_factor
from tacet.query.units import Reach

__all__ = ["Allocation", "allocate", "allocate_together", "event_of"]

_WORTH = Fraction(101, 100)  # the least factor for which more is spent than the plain split
_LARGEST = 1_000_000  # epsilon, rho or mu squared of one question


@dataclass(frozen=True, slots=True, kw_only=True)
class Allocation:
    """The noise of every aggregate in a question, and what it all does to privacy.

    request: what the caller allowed, for all questions that are asked together; spends: the part
    of it that this question splits (for ApproxDP the better of Laplace noise under PureDP and
    normal noise under GDP, and more than the part where all together still keep the request);
    noises: by name.
    """

    request: Guarantee
    spends: Share
    reach: Reach
    noises: Mapping[str, Noise]

    @property
    def event(self) -> Event:
        """What a release costs, to be priced by an accountant."""
        return compose([noise.event for noise in self.noises.values()])


def allocate(query: Query, request: Guarantee) -> Allocation:
    """Split a request over the aggregates of a question.

    Raises InvalidParameter for a request of zero, or one so small that no noise can keep it.
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
    try:
        options = []
        for share in _shares(request):
            plain = _split(queries, share, request, parts)
            options += [plain, *_stretched(plain, queries, share, request, parts)]
        return min(options, key=_loudness)
    except (InvalidParameter, OverflowError, ValueError):
        pass  # a scale that no mechanism takes
    raise InvalidParameter(
        "budget",
        request,
        expected="a budget that is neither so small nor so large, beside the bounds, max_rows and "
        "weights of this question, that its noise leaves the range of numbers",
    )


def event_of(allocations: Sequence[Allocation]) -> Event:
    """What the releases of several questions cost together."""
    return compose([allocation.event for allocation in allocations])


def _shares(request: Guarantee) -> list[Share]:
    """The guarantees that may be split in place of the request, each of which implies it."""
    match request:
        case PureDP():
            return [request]
        case ZCDP(rho=rho):
            return [ZCDP(rho)]
        case GDP():
            return [GDP.from_squared(request.mu_squared)]
        case RenyiDP(alpha=alpha, epsilon=epsilon):
            return [ZCDP(epsilon / alpha)]
        case ApproxDP(epsilon=epsilon, delta=delta):
            options: list[Share] = [PureDP(epsilon)] if epsilon else []
            if 0 < delta < 1:
                options.append(GDP.within(request))
            return options


def _split(
    queries: Sequence[Query], share: Share, request: Guarantee, parts: Sequence[Fraction]
) -> tuple[Allocation, ...]:
    return tuple(
        _allotted(query, share * part, request) for query, part in zip(queries, parts, strict=True)
    )


def _stretched(
    plain: tuple[Allocation, ...],
    queries: Sequence[Query],
    share: Share,
    request: Guarantee,
    parts: Sequence[Fraction],
) -> list[tuple[Allocation, ...]]:
    """The split of more than the share, where all together keep the request and much is gained."""
    if not isinstance(request, ApproxDP):
        return []
    splits: dict[Fraction, tuple[Allocation, ...]] = {Fraction(1): plain}

    def split(factor: Fraction) -> tuple[Allocation, ...]:
        if factor not in splits:
            splits[factor] = _split(queries, share * factor, request, parts)
        return splits[factor]

    factor = common_factor(lambda factor: event_of(split(factor)), request)
    # A pure split spends no delta: it is not given up for next to nothing.
    return [split(factor)] if factor >= _WORTH else []


def _allotted(query: Query, share: Share, request: Guarantee) -> Allocation:
    reach = Reach.of(query.unit, cells=len(query.keys))
    noises: dict[str, Noise] = {
        name: query.aggregates[name].noise(share * part, reach)
        for name, part in query.parts().items()
    }
    return Allocation(request=request, spends=share, reach=reach, noises=noises)


def _loudness(allocations: Sequence[Allocation]) -> float:
    """The sum of the logarithms of all noise scales: less is better."""
    return math.fsum(
        noise.loudness for allocation in allocations for noise in allocation.noises.values()
    )


def _spendable(request: Guarantee) -> None:
    if not isinstance(request, PureDP | ApproxDP | ZCDP | GDP | RenyiDP):
        raise InvalidParameter(
            "budget", request, expected="a guarantee such as tacet.PureDP(0.5) or tacet.ZCDP(0.05)"
        )
    if isinstance(request, ApproxDP) and request.delta >= 1:
        raise InvalidParameter("budget", request, expected="a delta below 1")
    main = request.epsilon if isinstance(request, ApproxDP) else request.additive[0]
    if main <= 0 and not (isinstance(request, ApproxDP) and request.delta > 0):
        raise InvalidParameter("budget", request, expected="a budget above zero")
    if main > _LARGEST:
        raise InvalidParameter(
            "budget", request, expected=f"at most {_LARGEST:,}: a larger budget protects nobody"
        )
