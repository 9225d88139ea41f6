"""Relations between the five kinds: what implies what, and the largest of a kind inside another."""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

from fractions import Fraction

from unacorda.errors import InvalidParameter, WrongUnit
from unacorda.privacy import conversions
from unacorda.privacy.guarantees import GDP, ZCDP, ApproxDP, Guarantee, PureDP, RenyiDP
from unacorda.privacy.rounding import grid_down, grid_up, root_down, root_up


def implies(guarantee: Guarantee, other: Guarantee) -> bool:
    """Whether a theorem of this package says that whatever keeps `guarantee` keeps `other`.

    False means that no theorem here says so. A guarantee that allows no loss implies everything,
    and a delta of 1 is implied by everything.
    """
    if not any(guarantee.additive) or getattr(other, "delta", 0) == 1:
        return True
    if isinstance(guarantee, ApproxDP) and guarantee.delta == 0:
        guarantee = PureDP(guarantee.epsilon)
    if isinstance(guarantee, PureDP):
        return guarantee <= pure_within(other)
    if isinstance(guarantee, ApproxDP) and isinstance(other, ZCDP | GDP):
        return guarantee <= approx_dp_within(other)
    match other:
        case PureDP():
            return False
        case ApproxDP():
            return _delta_at(guarantee, other.epsilon) <= other.delta
        case ZCDP():
            rho = zcdp_of(guarantee)
            return rho is not None and rho <= other
        case GDP():
            mu = gdp_of(guarantee)
            return mu is not None and mu <= other
        case RenyiDP():
            divergence = renyi_of(guarantee, alpha=other.alpha)
            return divergence is not None and divergence <= other


def zcdp_of(guarantee: Guarantee) -> ZCDP | None:
    """The least zCDP that a guarantee implies, rounded up; None where no theorem gives one.

    >>> zcdp_of(GDP(1))
    ZCDP(rho=0.5)
    """
    match guarantee:
        case PureDP(epsilon):
            return ZCDP(grid_up(conversions.zcdp_from_pure(epsilon)))
        case ApproxDP(epsilon, delta):
            return ZCDP(grid_up(conversions.zcdp_from_pure(epsilon)), delta)
        case ZCDP():
            return guarantee
        case GDP(mu_squared, delta):
            return ZCDP(mu_squared / 2, delta)
        case RenyiDP():
            return None


def gdp_of(guarantee: Guarantee) -> GDP | None:
    """The least Gaussian DP that a guarantee implies, rounded up; None where none is implied.

    >>> gdp_of(ZCDP(0.5)) is None
    True
    """
    match guarantee:
        case PureDP(epsilon):
            return GDP.from_squared(grid_up(Fraction(conversions.gdp_from_pure(epsilon)) ** 2))
        case ApproxDP(epsilon, delta):
            mu = Fraction(conversions.gdp_from_pure(epsilon))
            return GDP.from_squared(grid_up(mu**2), delta)
        case GDP():
            return guarantee
        case ZCDP() | RenyiDP():
            return None


def renyi_of(guarantee: Guarantee, *, alpha: Fraction) -> RenyiDP | None:
    """The least Renyi DP of order `alpha` that is implied, rounded up; None where none is.

    >>> renyi_of(ZCDP(0.5), alpha=Fraction(8))
    RenyiDP(alpha=8.0, epsilon=4.0)
    """
    match guarantee:
        case PureDP(epsilon):
            divergence = conversions.renyi_from_pure(epsilon, alpha=alpha)
            return RenyiDP(alpha, grid_up(divergence))
        case ZCDP(rho, delta) if delta == 0:
            return RenyiDP(alpha, conversions.renyi_from_zcdp(rho, alpha=alpha))
        case GDP(mu_squared, delta) if delta == 0:
            return RenyiDP(alpha, conversions.renyi_from_zcdp(mu_squared / 2, alpha=alpha))
        case RenyiDP(order, epsilon) if order >= alpha:  # the divergence grows with its order
            return RenyiDP(alpha, epsilon)
        case _:
            return None


def pure_within(target: Guarantee) -> PureDP:
    """The largest epsilon for which pure DP implies `target`; see PureDP.within."""
    match target:
        case PureDP():
            return target
        case ApproxDP(epsilon, delta):
            if delta == 1:
                raise InvalidParameter("target", target, expected="a delta below 1")
            largest = conversions.pure_from_approx_dp(epsilon, delta=delta)
            return PureDP(max(epsilon, grid_down(largest)))
        case ZCDP(rho):
            return PureDP(grid_down(conversions.pure_from_zcdp(rho)))
        case GDP(mu_squared):
            return PureDP(grid_down(conversions.pure_from_gdp(root_down(mu_squared))))
        case RenyiDP(alpha, epsilon):
            largest = conversions.pure_from_renyi(epsilon, alpha=alpha)
            return PureDP(max(epsilon, grid_down(largest)))


def bounded_range_within(target: PureDP | ZCDP | GDP | RenyiDP) -> Fraction:
    """The largest epsilon of a mechanism of bounded range that keeps the target, rounded down.

    Its range is bounded by epsilon where it is an exponential mechanism: it is then epsilon-DP,
    (epsilon^2 / 8)-zCDP, and keeps less Gaussian DP than a pure mechanism does.
    Source: docs/proofs/bounded_range.md, Theorem 1; Cesar and Rogers 2020 (zCDP).

    >>> [round(float(bounded_range_within(target)), 3) for target in (GDP(1), ZCDP(0.5))]
    [1.614, 2.0]
    """
    match target:
        case PureDP(epsilon):
            return epsilon
        case ZCDP(rho):
            return Fraction(conversions.bounded_range_from_zcdp(rho))
        case RenyiDP(alpha, epsilon):
            return Fraction(conversions.bounded_range_from_zcdp(epsilon / alpha))
        case GDP(square):
            return Fraction(conversions.bounded_range_from_gdp(root_down(square)))


def approx_dp_within(target: Guarantee) -> ApproxDP:
    """The largest epsilon, at the target's delta, that implies it; see ApproxDP.within."""
    match target:
        case ApproxDP():
            return target
        case PureDP(epsilon):
            return ApproxDP(epsilon, 0)
        case ZCDP(_, delta) | GDP(_, delta):
            return ApproxDP(pure_within(target).epsilon, delta)
        case RenyiDP():
            raise WrongUnit("ApproxDP", target, hint=f"Write PureDP.within({target!r}).")


def zcdp_within(target: Guarantee) -> ZCDP:
    """The largest rho for which zCDP implies `target`; see ZCDP.within."""
    match target:
        case ZCDP():
            return target
        case ApproxDP(epsilon, delta):
            _needs_delta(target)
            return ZCDP(grid_down(conversions.zcdp_from_approx_dp(epsilon, delta=delta)))
        case RenyiDP(alpha, epsilon):
            return ZCDP(epsilon / alpha)
        case PureDP() | GDP():
            raise WrongUnit("ZCDP", target, hint="No rho above 0 implies such a guarantee.")


def gdp_within(target: Guarantee) -> GDP:
    """The largest mu for which Gaussian DP implies `target`; see GDP.within."""
    match target:
        case GDP():
            return target
        case ApproxDP(epsilon, delta):
            _needs_delta(target)
            mu = conversions.gdp_from_approx_dp(epsilon, delta=delta)
            return GDP.from_squared(grid_down(Fraction(mu) ** 2))
        case ZCDP(rho, delta):
            return GDP.from_squared(2 * rho, delta)
        case RenyiDP(alpha, epsilon):
            return GDP.from_squared(2 * epsilon / alpha)
        case PureDP():
            raise WrongUnit("GDP", target, hint="No mu above 0 implies such a guarantee.")


def _needs_delta(target: ApproxDP) -> None:
    if not 0 < target.delta < 1:
        raise InvalidParameter("target", target, expected="a delta strictly between 0 and 1")


def _delta_at(guarantee: ApproxDP | ZCDP | GDP | RenyiDP, epsilon: Fraction) -> Fraction:
    """The delta that a guarantee implies at `epsilon`."""
    match guarantee:
        case ApproxDP(own, part):
            rest = conversions.approx_dp_delta_from_pure(own, epsilon=epsilon)
        case ZCDP(rho, part):
            rest = conversions.approx_dp_delta_from_zcdp(rho, epsilon=epsilon)
        case GDP(mu_squared, part):
            rest = conversions.approx_dp_delta_from_gdp(root_up(mu_squared), epsilon=epsilon)
        case RenyiDP(alpha, own):
            part = Fraction(0)
            rest = conversions.approx_dp_delta_from_renyi(own, alpha=alpha, epsilon=epsilon)
    return conversions.delta_of_mixture(rest, part=part)
