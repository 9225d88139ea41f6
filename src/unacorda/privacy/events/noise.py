"""Noise: what is known of mechanisms that add it."""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

from dataclasses import dataclass

from unacorda.checks import demand, exact
from unacorda.errors import InvalidParameter
from unacorda.privacy.events.algebra import Event
from unacorda.privacy.events.fields import (
    Real,
    keep,
    non_negative,
    share,
)

__all__ = [
    "DiscreteGaussian",
    "DiscreteLaplace",
    "Gaussian",
    "GaussianMixture",
    "Laplace",
    "Staircase",
    "TruncatedLaplace",
]


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Gaussian(Event):
    r"""Release f(x) + N(0, sigma^2 I), where f moves by at most Delta_2 in the l2 norm.

    Parameters
    ----------
    noise_multiplier
        sigma / Delta_2, no unit, above 0.

    Examples
    --------
    >>> Gaussian(noise_multiplier=2.0) * 3
    Repeated(event=Gaussian(noise_multiplier=2.0), count=3)
    """

    noise_multiplier: Real


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Laplace(Event):
    r"""Release f(x) + independent Laplace noise of scale b, where f moves by Delta_1 in l1.

    Parameters
    ----------
    noise_multiplier
        b / Delta_1, no unit, above 0.

    Examples
    --------
    >>> from unacorda import accounting
    >>> accounting.epsilon(Laplace(noise_multiplier=10), delta=0)
    0.1
    """

    noise_multiplier: Real


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class DiscreteGaussian(Event):
    r"""Release integers f(x) + X, P(X = k) proportional to exp(-k^2 / (2 sigma^2)).

    Parameters
    ----------
    sigma
        The parameter of the noise, above 0, not its standard deviation.
    sensitivity
        The l2 sensitivity of the integer f, above 0.

    Examples
    --------
    >>> from unacorda import accounting
    >>> accounting.rho(DiscreteGaussian(sigma=2, sensitivity=1))
    0.125
    """

    sigma: Real
    sensitivity: Real


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class DiscreteLaplace(Event):
    r"""Release integers f(x) + X, P(X = k) proportional to exp(-|k| / scale).

    Parameters
    ----------
    scale
        Above 0.
    sensitivity
        The l1 sensitivity of the integer f, above 0.

    Examples
    --------
    >>> from unacorda import accounting
    >>> accounting.epsilon(DiscreteLaplace(scale=2, sensitivity=1), delta=0)
    0.5
    """

    scale: Real
    sensitivity: Real


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Staircase(Event):
    r"""Release one number f(x) + X, X of the staircase law, where f moves by at most Delta.

    The density falls by e^-epsilon once in each stretch [k Delta, (k + 1) Delta), at its share
    `split`.

    Source: Geng and Viswanath 2014, equation (15).

    Parameters
    ----------
    epsilon
        Above 0.
    split
        gamma of the source, from 0 to 1; 1/2 is the worst for privacy, and 1 / (1 + e^(epsilon/2))
        has the least E|X|.

    Examples
    --------
    >>> from unacorda import accounting
    >>> accounting.epsilon(Staircase(epsilon=1, split=0.5), delta=0)
    1.0
    """

    epsilon: Real
    split: Real

    def __post_init__(self) -> None:
        Event.__post_init__(self)
        demand(self.epsilon > 0, "epsilon", self.epsilon, expected="a finite number above 0")


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class TruncatedLaplace(Event):
    r"""Release one number f(x) + X, X Laplace noise of scale b truncated to [-A, A].

    f moves by at most Delta.

    Outside the common support of neighboring tables an output reveals everything; that is a delta.

    Source: Geng, Ding, Guo, Kumar 2020, Definition 3.

    Parameters
    ----------
    noise_multiplier
        b / Delta, above 0.
    bound
        A / Delta, at least 1/2.

    Examples
    --------
    >>> from unacorda import accounting
    >>> round(accounting.epsilon(TruncatedLaplace(noise_multiplier=1, bound=20), delta=1e-6), 5)
    1.0
    """

    noise_multiplier: Real
    bound: Real

    def __post_init__(self) -> None:
        Event.__post_init__(self)
        demand(2 * self.bound >= 1, "bound", self.bound, expected="a number, 1/2 or above")


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class GaussianMixture(Event):
    r"""Gaussian noise if the unit changes f by a random amount that is not released.

    The unit in the table gives N(shift, sigma^2) with shift drawn from `shifts` by `weights`;
    without it, N(0, sigma^2). A vector f of l2 norm at most the shift is covered.

    Source: Choquette-Choo, Ganesh, Steinke, Thakurta 2024, Section 4 (mixtures of Gaussians).

    Parameters
    ----------
    noise_multiplier
        sigma in the unit of the shifts, above 0.
    shifts
        Numbers, 0 or above.
    weights
        One for each shift, 0 or above, of sum 1 exactly (floats as they print).

    Examples
    --------
    >>> from unacorda import accounting
    >>> event = GaussianMixture(noise_multiplier=1, shifts=(0, 1), weights=(0.5, 0.5))
    >>> round(accounting.epsilon(event, delta=1e-6), 2)  # a shift of 1 for sure costs 4.89
    4.05
    """

    noise_multiplier: Real
    shifts: tuple[Real, ...]
    weights: tuple[Real, ...]

    def __post_init__(self) -> None:
        Event.__post_init__(self)
        shifts = tuple(non_negative("shifts", shift) for shift in self.shifts)
        weights = tuple(share("weights", weight) for weight in self.weights)
        demand(shifts, "shifts", self.shifts, expected="one shift or more")
        if len(weights) != len(shifts):
            raise InvalidParameter("weights", self.weights, expected=f"{len(shifts)} of them")
        if sum(exact("weights", weight) for weight in weights) != 1:
            raise InvalidParameter(
                "weights", self.weights, expected="weights that add up to exactly 1"
            )
        keep(self, shifts=shifts, weights=weights)
