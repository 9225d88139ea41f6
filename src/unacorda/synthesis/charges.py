"""Budgets of synthetic tables: the noise for a share, and the cost of all shares.

Shares are amounts of rho, of mu^2, or of epsilon for a pure budget. The noise of a step depends on
earlier answers, so the guarantee of the whole is the sum of the amounts, which never exceeds the
total (a privacy filter). No tighter composition of the steps is claimed.
"""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from typing import Final, TypeAlias

from unacorda.errors import InvalidParameter
from unacorda.mechanisms.additive.integer import DiscreteGaussian, DiscreteLaplace
from unacorda.mechanisms.additive.real import Gaussian
from unacorda.mechanisms.parameters import exact_root_down, inverse_root_up, readable
from unacorda.mechanisms.selection.exponential import Exponential
from unacorda.mechanisms.selection.noisy_max import PermuteAndFlip
from unacorda.privacy import events
from unacorda.privacy.guarantees import (
    GDP,
    ZCDP,
    ApproxDP,
    Guarantee,
    PureDP,
    RenyiDP,
    bounded_range_within,
)
from unacorda.synthesis.sensitivity import CountSensitivity, VectorMove

CountNoise: TypeAlias = DiscreteGaussian | DiscreteLaplace | Gaussian
"""What is added to whole numbers; all of them stay whole."""

_KEPT: Final = 8  # mechanisms; all single columns have the same
_SELECTION: Final = Fraction(1, 10)
_PURE_SELECTION: Final = Fraction(1, 5)


@dataclass(frozen=True, slots=True, kw_only=True)
class ConcentratedShares:
    """Amounts of rho: discrete Gaussian noise, and the exponential mechanism by bounded range.

    total: rho, above 0; selection: the part of a pick's amount that chooses its table.
    Source: Canonne, Kamath, Steinke 2020, arXiv:2004.00010, Theorem 4; Cesar and Rogers 2021,
    arXiv:2004.07223 (epsilon^2 / 8); sums of adaptive amounts: Whitehouse, Ramdas, Rogers, Wu
    2023, arXiv:2203.05481.
    """

    total: Fraction
    selection: Fraction = _SELECTION

    @property
    def event(self) -> events.ZeroConcentrated:
        """What all steps cost at most."""
        return events.ZeroConcentrated(rho=readable(self.total))

    def guarantee(self, amount: Fraction) -> ZCDP:
        """What a step of this amount keeps."""
        return ZCDP(amount)

    def noise(self, amount: Fraction, move: VectorMove) -> DiscreteGaussian:
        """The noise for whole numbers with this sensitivity."""
        return self._noise(amount, move.l2_squared)

    def choice(
        self, amount: Fraction, sensitivity: CountSensitivity, *, weight: int
    ) -> Exponential:
        """The choice among scores in steps of the grid, of weights up to this one."""
        return Exponential.for_guarantee(ZCDP(amount), sensitivity=sensitivity.score(weight))

    @staticmethod
    @lru_cache(maxsize=_KEPT)
    def _noise(amount: Fraction, l2_squared: int) -> DiscreteGaussian:
        sensitivity = _root_up(l2_squared)
        return DiscreteGaussian.for_guarantee(ZCDP(amount), l2_sensitivity=sensitivity)


@dataclass(frozen=True, slots=True, kw_only=True)
class GaussianShares:
    """Amounts of mu^2: normal noise rounded to whole numbers, and the exponential mechanism.

    total: mu^2, above 0; selection: the part of a pick's amount that chooses its table.
    Source: Dong, Roth, Su 2022, arXiv:1905.02383, Theorem 2.7 (noise);
    docs/proofs/bounded_range.md, Theorem 1 (choices); sums of adaptive amounts: Smith and Thakurta
    2022, arXiv:2210.17520, and Koskela, Tobaben, Honkela 2023, arXiv:2209.15596.
    """

    total: Fraction
    selection: Fraction = _SELECTION

    @property
    def event(self) -> events.Gaussian:
        """The most that all steps cost: one normal release of this mu."""
        return events.Gaussian(noise_multiplier=exact_root_down(1 / self.total))

    def guarantee(self, amount: Fraction) -> GDP:
        """What a step of this amount keeps."""
        return GDP.from_squared(amount)

    def noise(self, amount: Fraction, move: VectorMove) -> Gaussian:
        """The noise for whole numbers with this sensitivity."""
        return self._noise(amount, move.l2_squared)

    def choice(
        self, amount: Fraction, sensitivity: CountSensitivity, *, weight: int
    ) -> Exponential:
        """The choice among scores in steps of the grid, of weights up to this one."""
        epsilon = bounded_range_within(GDP.from_squared(amount))
        return Exponential(epsilon=epsilon, sensitivity=sensitivity.score(weight))

    @staticmethod
    @lru_cache(maxsize=_KEPT)
    def _noise(amount: Fraction, l2_squared: int) -> Gaussian:
        """The ideal sum is rounded to a whole number, which costs nothing."""
        sensitivity = _root_up(l2_squared)
        ideal = Gaussian.for_guarantee(GDP.from_squared(amount), l2_sensitivity=sensitivity)
        return Gaussian(sigma=ideal.sigma, l2_sensitivity=sensitivity, grid_log2=0)


@dataclass(frozen=True, slots=True, kw_only=True)
class PureShares:
    """Amounts of epsilon: discrete Laplace noise, and permute-and-flip.

    total: epsilon, above 0; selection: the part of a pick's amount that chooses its table.
    Source: Ghosh, Roughgarden, Sundararajan 2009, arXiv:0811.2841; McKenna and Sheldon 2020,
    arXiv:2010.12603; sums of adaptive amounts: Rogers, Roth, Ullman, Vadhan 2016,
    arXiv:1605.08294.
    """

    total: Fraction
    selection: Fraction = _PURE_SELECTION

    @property
    def event(self) -> events.Pure:
        """What all steps cost at most."""
        return events.Pure(epsilon=readable(self.total))

    def guarantee(self, amount: Fraction) -> PureDP:
        """What a step of this amount keeps."""
        return PureDP(amount)

    def noise(self, amount: Fraction, move: VectorMove) -> DiscreteLaplace:
        """The noise for whole numbers with this sensitivity."""
        return DiscreteLaplace.for_guarantee(PureDP(amount), l1_sensitivity=move.l1)

    def choice(
        self, amount: Fraction, sensitivity: CountSensitivity, *, weight: int
    ) -> PermuteAndFlip:
        """The choice among scores in steps of the grid, of weights up to this one."""
        return PermuteAndFlip.for_guarantee(PureDP(amount), sensitivity=sensitivity.score(weight))


Shares: TypeAlias = ConcentratedShares | GaussianShares | PureShares


def shares_within(budget: Guarantee) -> Shares:
    """The amounts that a budget holds.

    ZCDP: its rho. GDP: its mu^2, to 14 digits. ApproxDP: the largest rho that implies it, or its
    epsilon if delta is 0. RenyiDP: epsilon / alpha. PureDP: its epsilon. The delta of a ZCDP or GDP
    budget is not used. Raises InvalidParameter for a budget of 0.

    >>> round(float(shares_within(ApproxDP(1, 1e-6)).total), 6)
    0.024356
    >>> shares_within(GDP(2)).total
    Fraction(4, 1)
    """
    found: Shares | None = None
    match budget:
        case PureDP(epsilon=amount) | ApproxDP(epsilon=amount, delta=0) if amount > 0:
            found = PureShares(total=amount)
        case ZCDP(rho=amount) if amount > 0:
            found = ConcentratedShares(total=amount)
        case ApproxDP(epsilon=epsilon, delta=delta) if epsilon and 0 < delta < 1:
            found = ConcentratedShares(total=ZCDP.within(budget).rho)
        case RenyiDP(alpha=alpha, epsilon=epsilon) if epsilon > 0:
            found = ConcentratedShares(total=epsilon / alpha)
        case GDP() if budget.mu_squared > 0:
            # A square of decimals below it, so that the event states the total exactly.
            found = GaussianShares(total=1 / inverse_root_up(budget.mu_squared) ** 2)
        case _:
            pass
    if found is None:
        expected = "PureDP, ApproxDP, ZCDP, GDP or RenyiDP above 0, as ZCDP(0.1)"
        raise InvalidParameter("budget", budget, expected=expected)
    return found


def _root_up(l2_squared: int) -> Fraction:
    """The root, rounded up at the 15th digit where it is irrational."""
    return inverse_root_up(Fraction(1, l2_squared))
