"""The Renyi divergence of any event at any real order, and zCDP where it exists."""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

import functools
import math
from collections.abc import Callable
from fractions import Fraction
from typing import Any, Literal, assert_never

from unacorda.accounting.amplification.relations import check_relation, under_replacement
from unacorda.accounting.amplification.sampling import (
    approx_dp_of_sample,
)
from unacorda.accounting.arguments import Events, alpha_argument, joined
from unacorda.accounting.divergences.allocated import (
    LaplaceTransform,
    renyi_added,
    renyi_removed,
    whole_moments,
)
from unacorda.accounting.divergences.closed import (
    renyi_of_discrete_laplace,
    renyi_of_randomized_response,
    renyi_of_replaced_pure,
    renyi_of_sampled_pure,
)
from unacorda.accounting.divergences.gaussian import renyi_of_sampled_gaussian
from unacorda.accounting.divergences.noises import renyi_of_gaussian_mixture, renyi_of_replacement
from unacorda.accounting.divergences.pure import pure_of
from unacorda.accounting.divergences.sampled import (
    LARGEST_ORDER,
    renyi_at_large_orders,
    renyi_of_fixed_size,
    renyi_of_poisson,
)
from unacorda.accounting.matrices import plain
from unacorda.accounting.prices import renyi_price, zcdp_price
from unacorda.accounting.profiles.bounds import curve_of, profile_bounds
from unacorda.accounting.tries import renyi_of_tries
from unacorda.checks import Number, exact
from unacorda.errors import UnsupportedEvent
from unacorda.privacy import conversions
from unacorda.privacy.conversions.group import renyi_of_two_steps, renyi_orders_of_two_steps
from unacorda.privacy.events import (
    Approximate,
    Composed,
    CyclicPoissonSampled,
    DiscreteGaussian,
    DiscreteLaplace,
    Event,
    Exponential,
    FixedSizeSampled,
    Gaussian,
    GaussianMixture,
    Laplace,
    MatrixMechanism,
    NegativeBinomialTries,
    PoissonSampled,
    PoissonTries,
    Pure,
    RandomAllocation,
    RandomizedResponse,
    Repeated,
    ReplacementSampled,
    Shuffled,
    Staircase,
    TreeAggregation,
    TruncatedLaplace,
    ZeroConcentrated,
)
from unacorda.privacy.neighbors import AddRemove, Neighbors, ReplaceOne
from unacorda.privacy.rounding import float_above, root_down

__all__ = ["renyi", "rho"]

_LEAST_ORDER = 1 + Fraction(1, 2**60)
_NOTHING = Pure(epsilon=0)
_STRETCHES = [1 + Fraction(2) ** k for k in range(-4, 5)]


def renyi(events: Events, *, alpha: Number, neighbors: Neighbors = AddRemove) -> float:
    r"""Renyi divergence of order alpha between the events' outputs on any two neighbours.

    alpha: above 1, at most 1e100, any real number; those below 1 + 2^-60 are read as that, which
    has the larger divergence. No events cost nothing. Sums over a composition; each part by the
    least of what is known: closed forms, the certified integral (Gaussian on a Poisson sample),
    sums over whole orders, bounds at large orders.
    Raises UnsupportedEvent where a part has a delta, InvalidParameter for a scheme that says
    nothing about the relation.

    Bound       upper, rounded up.
    Source      those of accounting/divergences; Mironov 2017, Prop. 1 (composition).

    >>> from unacorda.privacy.events import Gaussian
    >>> renyi(Gaussian(noise_multiplier=2.0) * 4, alpha=8)
    4.0
    >>> round(renyi(Gaussian(noise_multiplier=1.0).poisson_sampled(rate=0.01), alpha=8), 6)
    0.000894
    """
    order = max(alpha_argument(alpha), _LEAST_ORDER)
    event = joined(events)
    check_relation(_NOTHING if event is None else event, neighbors)
    return 0.0 if event is None else float_above(_divergence(event, order, neighbors))


def rho(events: Events, *, neighbors: Neighbors = AddRemove) -> float:
    r"""The rho for which the events together are rho-zCDP.

    A sample of a mechanism has the rho of the mechanism, unless it is pure: the sampled Gaussian
    loses a rare, large amount, which concentrated DP counts in full; use epsilon() there.
    Raises UnsupportedEvent where a part has a delta.

    Bound       upper, rounded up.
    Source      zcdp_price; for samples the joint quasi-convexity of Renyi divergences, and
                zcdp_from_pure of the amplified epsilon.

    >>> from unacorda.privacy.events import Gaussian, Pure
    >>> rho(Gaussian(noise_multiplier=2.0) * 4)
    0.5
    >>> rho(Pure(epsilon=1.0).poisson_sampled(rate=0.1)) < rho(Pure(epsilon=1.0)) / 10
    True
    """
    event = joined(events)
    check_relation(_NOTHING if event is None else event, neighbors)
    return 0.0 if event is None else float_above(_rho(event, neighbors))


@functools.lru_cache(maxsize=8192)
def _divergence(event: Event, alpha: Fraction, neighbors: Neighbors) -> Fraction:
    match event:
        case Repeated(event=one, count=count):
            return _divergence(one, alpha, neighbors) * count
        case Composed(parts=parts):
            return sum((_divergence(one, alpha, neighbors) for one in parts), start=Fraction(0))
        case RandomizedResponse(epsilon=epsilon, categories=categories):
            return Fraction(
                renyi_of_randomized_response(
                    exact("epsilon", epsilon), categories=categories, alpha=alpha
                )
            )
        case DiscreteLaplace(scale=scale, sensitivity=moved):
            return Fraction(
                renyi_of_discrete_laplace(
                    exact("scale", scale), sensitivity=exact("sensitivity", moved), alpha=alpha
                )
            )
        case Gaussian() | Laplace() | DiscreteGaussian() | Exponential() | Pure():
            return renyi_price(event, alpha=alpha).epsilon
        case GaussianMixture() | MatrixMechanism() | TreeAggregation() if neighbors is ReplaceOne:
            return _divergence(under_replacement(event), alpha, neighbors)
        case Staircase() | GaussianMixture():
            return renyi_price(event, alpha=alpha).epsilon
        case ZeroConcentrated() | Approximate() | TruncatedLaplace():
            return renyi_price(event, alpha=alpha).epsilon
        case PoissonSampled(event=one, rate=rate):
            q = exact("rate", rate)
            if neighbors is ReplaceOne and isinstance(one, Pure):
                return Fraction(
                    renyi_of_replaced_pure(exact("epsilon", one.epsilon), rate=q, alpha=alpha)
                )
            if neighbors is ReplaceOne:
                return _of_two_steps(one, alpha, functools.partial(_poisson, one, q))
            return _poisson(one, q, alpha)
        case FixedSizeSampled(event=one, size=size, population=population):
            return _fixed_size(under_replacement(one), Fraction(size, population), alpha)
        case RandomAllocation(event=one, steps=steps, uses=1) if steps > 1:
            if neighbors is ReplaceOne:
                return _of_two_steps(one, alpha, functools.partial(_allocation, one, steps))
            return _allocation(one, steps, alpha)
        case RandomAllocation():
            return _divergence(plain(event), alpha, neighbors)
        case ReplacementSampled():
            return _drawn(event, alpha)
        case Shuffled(event=one):  # the order alone can only lose information
            return _divergence(one, alpha, neighbors)
        case NegativeBinomialTries(event=one) | PoissonTries(event=one):
            return renyi_of_tries(
                event,
                lambda inner: _divergence(one, inner, neighbors),
                alpha=alpha,
                pure=pure_of(one, neighbors),
                delta=functools.partial(_known_delta, one, neighbors=neighbors),
            )
        case MatrixMechanism() | CyclicPoissonSampled() | TreeAggregation():
            return _divergence(plain(event), alpha, neighbors)
        case _ as unreachable:
            assert_never(unreachable)


@functools.lru_cache(maxsize=8192)
def _poisson(event: Event, rate: Fraction, alpha: Fraction) -> Fraction:
    """Under add/remove."""
    if isinstance(event, PoissonSampled):
        return _poisson(event.event, rate * exact("rate", event.rate), alpha)
    whole = _divergence(event, alpha, AddRemove)
    if rate == 1:
        return whole
    noise = _one_gaussian(event)
    found = [renyi_at_large_orders(float_above(whole), rate=rate, alpha=alpha)]
    if noise is not None:
        found.append(renyi_of_sampled_gaussian(noise, rate=rate, alpha=alpha))
    if isinstance(event, GaussianMixture):
        found.append(renyi_of_gaussian_mixture(event, rate=rate, alpha=alpha))
    epsilon = pure_of(event, AddRemove)
    if epsilon is not None:
        found.append(renyi_of_sampled_pure(epsilon, rate=rate, alpha=alpha))
    if alpha <= LARGEST_ORDER and noise is None:
        found.append(
            renyi_of_poisson(
                lambda k: float_above(_divergence(event, Fraction(k), AddRemove)),
                rate=rate,
                alpha=alpha,
            )
        )
    return Fraction(min(found))


@functools.lru_cache(maxsize=8192)
def _allocation(event: Event, steps: int, alpha: Fraction) -> Fraction:
    """Under add/remove: one of `steps` steps, the larger of both directions."""
    whole = _divergence(event, alpha, AddRemove)
    if alpha > LARGEST_ORDER:
        return whole
    removed = renyi_removed(lambda a: _allocation_moments(event, steps, a)[a], alpha=alpha)
    transform = _transform(event, steps)
    if transform is None:
        added = _divergence(event, 1 + (alpha - 1) / steps, AddRemove)
    else:
        added = Fraction(
            renyi_added(transform, lambda a: _divergence(event, a, AddRemove), alpha=alpha)
        )
    return min(whole, max(Fraction(removed), added))


def _allocation_moments(event: Event, steps: int, order: int) -> list[Any]:
    largest = next(size for size in (8, 32, 128, LARGEST_ORDER) if size >= order)
    return _moments_up_to(event, steps, largest)


@functools.lru_cache(maxsize=64)
def _moments_up_to(event: Event, steps: int, largest: int) -> list[Any]:
    return whole_moments(
        lambda n: float_above(_divergence(event, Fraction(n), AddRemove)),
        steps=steps,
        largest=largest,
    )


@functools.lru_cache(maxsize=16)
def _transform(event: Event, steps: int) -> LaplaceTransform | None:
    try:
        forward, backward = curve_of(event, direction="remove"), curve_of(event, direction="add")
    except UnsupportedEvent:
        return None
    return LaplaceTransform.of(forward, backward, steps)


def _of_two_steps(
    event: Event, alpha: Fraction, one_step: Callable[[Fraction], Fraction]
) -> Fraction:
    """Under replacement: one unit leaves, another comes; the best of a few ways to split."""
    found = [_divergence(under_replacement(event), alpha, ReplaceOne)]
    for stretch in _STRETCHES:
        first, second = renyi_orders_of_two_steps(alpha, stretch=stretch)
        found.append(
            renyi_of_two_steps(
                one_step(first), second=one_step(second), alpha=alpha, stretch=stretch
            )
        )
    return min(found)


def _fixed_size(event: Event, rate: Fraction, alpha: Fraction) -> Fraction:
    """Under replacement, of an event whose numbers speak of replacement already."""
    whole = _divergence(event, alpha, ReplaceOne)
    epsilon = pure_of(event, ReplaceOne)
    found = [float_above(whole)]
    if epsilon is not None:
        amplified, _ = approx_dp_of_sample(epsilon, delta=0, rate=rate)
        found.append(conversions.renyi_from_pure(amplified, alpha=alpha))
    if alpha <= LARGEST_ORDER:
        found.append(
            renyi_of_fixed_size(
                lambda k: float_above(_divergence(event, Fraction(k), ReplaceOne)),
                largest=math.inf if epsilon is None else float_above(epsilon),
                rate=rate,
                alpha=alpha,
            )
        )
    return min(whole, Fraction(min(found)))


def _drawn(event: ReplacementSampled, alpha: Fraction) -> Fraction:
    """Under replacement, on draws with replacement."""
    epsilon = pure_of(event, ReplaceOne)
    found = [] if epsilon is None else [conversions.renyi_from_pure(epsilon, alpha=alpha)]
    one = event.event
    alone = pure_of(under_replacement(one), ReplaceOne)
    known = renyi_of_replacement(
        lambda order, k: _divergence(under_replacement(one, units=k), order, ReplaceOne),
        largest=math.inf if alone is None else float_above(alone * event.size),
        alpha=alpha,
        size=event.size,
        population=event.population,
    )
    found += [] if known is None else [known]
    if not found:
        raise UnsupportedEvent(
            event, kind="Renyi DP", try_instead="Draw less often, or without replacement."
        )
    return Fraction(min(found))


def _one_gaussian(event: Event) -> Fraction | float | None:
    """The noise multiplier of one Gaussian that stands for all of them, rounded down, or None.

    Gaussians on the same sample are together one Gaussian: their 1/m^2 add.
    """
    parts = event.parts if isinstance(event, Composed) else (event,)
    inverse = Fraction(0)
    for part in parts:
        one, count = (part.event, part.count) if isinstance(part, Repeated) else (part, 1)
        if not isinstance(one, Gaussian):
            return None
        inverse += count / exact("noise_multiplier", one.noise_multiplier) ** 2
    if isinstance(event, Gaussian):
        return exact("noise_multiplier", event.noise_multiplier)
    return root_down(1 / inverse)


def _rho(event: Event, neighbors: Neighbors) -> Fraction:
    match event:
        case Repeated(event=one, count=count):
            return _rho(one, neighbors) * count
        case Composed(parts=parts):
            return sum((_rho(part, neighbors) for part in parts), start=Fraction(0))
        case Shuffled(event=one):
            return _rho(one, neighbors)
        case GaussianMixture() | MatrixMechanism() | TreeAggregation() if neighbors is ReplaceOne:
            return _rho(under_replacement(event), neighbors)
        case MatrixMechanism() | CyclicPoissonSampled() | TreeAggregation():
            return _rho(plain(event), neighbors)
        case NegativeBinomialTries() | PoissonTries():
            epsilon = pure_of(event, neighbors)
            if epsilon is None:
                return zcdp_price(event).rho  # refuses it
            return Fraction(conversions.zcdp_from_pure(epsilon))
        case RandomAllocation(event=one, uses=uses):
            return (
                _rho(under_replacement(one) if neighbors is ReplaceOne else one, neighbors) * uses
            )
        case ReplacementSampled(event=one, size=size):
            epsilon = pure_of(event, neighbors)
            if epsilon is not None:
                return Fraction(conversions.zcdp_from_pure(epsilon))
            return _rho(under_replacement(one, units=size), neighbors)
        case PoissonSampled(event=one) | FixedSizeSampled(event=one):
            replaced = neighbors is ReplaceOne or isinstance(event, FixedSizeSampled)
            whole = _rho(under_replacement(one) if replaced else one, neighbors)
            epsilon = pure_of(event, neighbors)
            if epsilon is None:
                return whole
            return min(whole, Fraction(conversions.zcdp_from_pure(epsilon)))
        case _:
            price = zcdp_price(event)
            if price.delta > 0:
                raise UnsupportedEvent(
                    event,
                    kind="zCDP without a delta",
                    try_instead="Use price(event, ZCDP), which keeps the delta, or epsilon().",
                )
            return price.rho


def _known_delta(event: Event, epsilon: float, *, neighbors: Neighbors) -> float:
    """Delta from the event's profile, 1 where it has none."""
    directions: tuple[Literal["remove", "add"], ...] = ("remove", "add")
    try:
        return max(
            float(profile_bounds(event, epsilon, direction=one, neighbors=neighbors)[1])
            for one in directions
        )
    except UnsupportedEvent:
        return 1.0
