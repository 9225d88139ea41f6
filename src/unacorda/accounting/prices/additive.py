"""What an event costs in the kinds that add: pure, zCDP, Gaussian and Renyi DP."""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

from fractions import Fraction
from typing import TypeVar, assert_never

from unacorda.accounting.divergences.noises import (
    approximate_of_truncated,
    gdp_of_staircase,
    moved_by,
    renyi_of_gaussian_mixture,
    renyi_of_staircase,
)
from unacorda.accounting.matrices import plain
from unacorda.accounting.tries import pure_of_tries, renyi_of_tries
from unacorda.checks import Number, exact
from unacorda.errors import UnsupportedEvent
from unacorda.privacy import conversions
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
from unacorda.privacy.guarantees import GDP, ZCDP, ApproxDP, PureDP, RenyiDP
from unacorda.privacy.relations import gdp_of, renyi_of, zcdp_of
from unacorda.privacy.rounding import grid_up

__all__ = [
    "gdp_price",
    "pure_alone",
    "pure_price",
    "renyi_price",
    "zcdp_price",
]

_Kind = TypeVar("_Kind", PureDP, ApproxDP, ZCDP, GDP, RenyiDP)


def pure_price(event: Event) -> PureDP:
    """The pure epsilon of an event: scale and sensitivity for Laplace noise, sums for many.

    Bound       upper, exact.
    Source      Dwork, McSherry, Nissim, Smith 2006; basic composition.
    """
    match event:
        case Repeated(event=one, count=count):
            return pure_price(one) * count
        case Composed(parts=parts):
            return sum((pure_price(part) for part in parts), start=PureDP(0))
        case (
            PoissonSampled()
            | FixedSizeSampled()
            | ReplacementSampled()
            | RandomAllocation()
            | Shuffled()
        ):
            raise _no_additive_price(event, kind="PureDP")
        case _:
            pure = pure_alone(event)
            if pure is None:
                raise UnsupportedEvent(
                    event, kind="PureDP", try_instead="Price it as ZCDP, GDP or ApproxDP."
                )
            return PureDP(pure)


def zcdp_price(event: Event) -> ZCDP:
    """The rho, and the delta of Approximate parts, of an event.

    Bound       upper; 1/(2 m^2) and epsilon^2/8 are exact, epsilon tanh(epsilon/2) rounded up.
    Source      Bun and Steinke 2016; Canonne, Kamath, Steinke 2020, Thm. 4 (discrete Gaussian);
                Cesar and Rogers 2021 (exponential mechanism).
    """
    match event:
        case Gaussian(noise_multiplier=m):
            return ZCDP(1 / (2 * exact("noise_multiplier", m) ** 2))
        case DiscreteGaussian(sigma=sigma, sensitivity=sensitivity):
            return ZCDP((exact("sensitivity", sensitivity) / exact("sigma", sigma)) ** 2 / 2)
        case ZeroConcentrated(rho=rho, delta=delta):
            return ZCDP(exact("rho", rho), exact("delta", delta))
        case Exponential(epsilon=epsilon):
            by_range = ZCDP(conversions.zcdp_from_bounded_range(exact("epsilon", epsilon)))
            return min(by_range, _known(zcdp_of(PureDP(exact("epsilon", epsilon)))))
        case Approximate(epsilon=epsilon, delta=delta):
            pair = ApproxDP(exact("epsilon", epsilon), exact("delta", delta))
            return _known(zcdp_of(pair))
        case Laplace() | DiscreteLaplace() | Staircase() | RandomizedResponse() | Pure():
            return _known(zcdp_of(pure_price(event)))
        case TruncatedLaplace():
            return _known(zcdp_of(ApproxDP(*approximate_of_truncated(event))))
        case GaussianMixture():
            return ZCDP(moved_by(event) ** 2 / 2)
        case Repeated(event=one, count=count):
            return zcdp_price(one) * count
        case Composed(parts=parts):
            return sum((zcdp_price(part) for part in parts), start=ZCDP(0))
        case NegativeBinomialTries() | PoissonTries():
            return _known(zcdp_of(_by_pure(event, kind="ZCDP")))
        case MatrixMechanism() | CyclicPoissonSampled() | TreeAggregation():
            return zcdp_price(plain(event))
        case (
            PoissonSampled()
            | FixedSizeSampled()
            | ReplacementSampled()
            | RandomAllocation()
            | Shuffled()
        ):
            raise _no_additive_price(event, kind="ZCDP")
        case _ as unreachable:
            assert_never(unreachable)


def gdp_price(event: Event, *, fine: bool = False) -> GDP:
    """The mu, and the delta of Approximate parts, of an event.

    fine: for a comparison, the price of an exponential mechanism without rounding it to 2^-80,
    which is more than the whole of a very small one.

    zCDP implies no GDP, so the discrete Gaussian and ZeroConcentrated have no such price: the
    discrete Gaussian of sigma 1 and sensitivity 1 needs mu of at least 1.0458, not 1.

    Bound       upper; 1/m is exact, the others rounded up.
    Source      Dong, Roth, Su 2022, Thm. 2.7 and Cor. 3.3; docs/proofs/bounded_range.md.
    """
    match event:
        case Gaussian(noise_multiplier=m):
            return GDP.from_squared(1 / exact("noise_multiplier", m) ** 2)
        case Exponential(epsilon=epsilon):
            mu = conversions.gdp_from_bounded_range(exact("epsilon", epsilon))
            return GDP.from_squared(Fraction(mu) ** 2 if fine else grid_up(Fraction(mu) ** 2))
        case Approximate(epsilon=epsilon, delta=delta):
            # The pair is delta of anything, and a pure epsilon pair for the rest.
            pair = ApproxDP(exact("epsilon", epsilon), exact("delta", delta))
            return _known(gdp_of(pair))
        case Laplace() | DiscreteLaplace() | RandomizedResponse() | Pure():
            return _known(gdp_of(pure_price(event)))
        case Staircase():
            return GDP.from_squared(grid_up(gdp_of_staircase(event) ** 2))
        case TruncatedLaplace():
            return _known(gdp_of(ApproxDP(*approximate_of_truncated(event))))
        case GaussianMixture():
            return GDP.from_squared(moved_by(event) ** 2)
        case Repeated(event=one, count=count):
            return gdp_price(one, fine=fine) * count
        case Composed(parts=parts):
            return sum((gdp_price(part, fine=fine) for part in parts), start=GDP(0))
        case DiscreteGaussian() | ZeroConcentrated():
            raise UnsupportedEvent(
                event, kind="GDP", try_instead="It has a price as ZCDP; use rounded Gaussian noise."
            )
        case NegativeBinomialTries() | PoissonTries():
            return _known(gdp_of(_by_pure(event, kind="GDP")))
        case MatrixMechanism() | CyclicPoissonSampled() | TreeAggregation():
            return gdp_price(plain(event))
        case (
            PoissonSampled()
            | FixedSizeSampled()
            | ReplacementSampled()
            | RandomAllocation()
            | Shuffled()
        ):
            raise _no_additive_price(event, kind="GDP")
        case _ as unreachable:
            assert_never(unreachable)


def renyi_price(event: Event, *, alpha: Number) -> RenyiDP:
    """The Renyi divergence of order alpha of an event.

    Bound       upper; Gaussian ones alpha/(2 m^2) are exact, the others rounded up.
    Source      Mironov 2017 (Gaussian, Laplace); Bun and Steinke 2016 (pure).
    """
    order = RenyiDP(alpha, 0).alpha
    match event:
        case Laplace():
            epsilon = pure_price(event).epsilon
            return RenyiDP(order, grid_up(conversions.renyi_from_laplace(epsilon, alpha=order)))
        case Exponential(epsilon=epsilon):
            pure = _known(renyi_of(PureDP(exact("epsilon", epsilon)), alpha=order))
            by_range = _known(renyi_of(zcdp_price(event), alpha=order))
            return min(pure, by_range)
        case DiscreteLaplace() | RandomizedResponse() | Pure():
            return _known(renyi_of(pure_price(event), alpha=order))
        case Staircase():
            return RenyiDP(order, grid_up(renyi_of_staircase(event, alpha=order)))
        case GaussianMixture():
            return RenyiDP(order, grid_up(renyi_of_gaussian_mixture(event, rate=1, alpha=order)))
        case Gaussian() | DiscreteGaussian():
            return _known(renyi_of(zcdp_price(event), alpha=order))
        case ZeroConcentrated(delta=delta) if delta == 0:
            return _known(renyi_of(zcdp_price(event), alpha=order))
        case Approximate(delta=delta) if delta == 0:
            return _known(renyi_of(pure_price(event), alpha=order))
        case Repeated(event=one, count=count):
            return renyi_price(one, alpha=order) * count
        case Composed(parts=parts):
            return sum((renyi_price(part, alpha=order) for part in parts), start=RenyiDP(order, 0))
        case ZeroConcentrated() | Approximate() | TruncatedLaplace():
            raise UnsupportedEvent(
                event, kind="RenyiDP", try_instead="Renyi DP has no delta: use ZCDP or ApproxDP."
            )
        case NegativeBinomialTries(event=one) | PoissonTries(event=one):
            divergence = renyi_of_tries(
                event,
                lambda inner: renyi_price(one, alpha=inner).epsilon,
                alpha=order,
                pure=_pure_of_any(one),
            )
            return RenyiDP(order, grid_up(divergence))
        case MatrixMechanism() | CyclicPoissonSampled() | TreeAggregation():
            return renyi_price(plain(event), alpha=order)
        case (
            PoissonSampled()
            | FixedSizeSampled()
            | ReplacementSampled()
            | RandomAllocation()
            | Shuffled()
        ):
            raise _no_additive_price(event, kind="RenyiDP")
        case _ as unreachable:
            assert_never(unreachable)


def pure_alone(event: Event) -> Fraction | None:
    """The pure epsilon of an event that is no composition; None where none is known here.

    Bound       upper, exact.
    Source      as pure_price.
    """
    match event:
        case Laplace(noise_multiplier=m):
            noise = exact("noise_multiplier", m)
            return Fraction(noise.denominator, noise.numerator)
        case Approximate(epsilon=epsilon, delta=delta) if delta == 0:
            return exact("epsilon", epsilon)
        case DiscreteLaplace(scale=scale, sensitivity=sensitivity):
            return exact("sensitivity", sensitivity) / exact("scale", scale)
        case RandomizedResponse(epsilon=epsilon) | Exponential(epsilon=epsilon):
            return exact("epsilon", epsilon)
        case Pure(epsilon=epsilon) | Staircase(epsilon=epsilon):
            return exact("epsilon", epsilon)
        case GaussianMixture() if moved_by(event) == 0:
            return Fraction(0)
        case NegativeBinomialTries(event=one) | PoissonTries(event=one):
            own = _pure_of_any(one)
            return None if own is None else pure_of_tries(event, own)
        case _:
            return None


def _pure_of_any(event: Event) -> Fraction | None:
    try:
        return pure_price(event).epsilon
    except UnsupportedEvent:
        return None


def _by_pure(event: Event, *, kind: str) -> PureDP:
    pure = _pure_of_any(event)
    if pure is None:
        raise UnsupportedEvent(
            event, kind=kind, try_instead="Price it as RenyiDP, or by its epsilon at a delta."
        )
    return PureDP(pure)


def _known(guarantee: _Kind | None) -> _Kind:
    """A conversion from pure or approximate DP, which always exists."""
    assert guarantee is not None
    return guarantee


def _no_additive_price(event: Event, *, kind: str) -> UnsupportedEvent:
    return UnsupportedEvent(
        event,
        kind=kind,
        try_instead="Sampled and shuffled events are priced by their privacy loss, not by a sum: "
        "ask epsilon() or delta() of them, or renyi() and rho() where no delta is among them.",
    )
