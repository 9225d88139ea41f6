r"""How a fit shares its budget out: a function of n, p and the budget, public before any data.

Gradients get what the matrices leave: a matrix gets as little as keeps its noise small beside what
it measures, and no more than a cap. Later steps get more than earlier ones, whose noise the later
ones take away.
"""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from typing import Final

from unacorda.errors import InvalidParameter
from unacorda.inference.budgets import gdp_budget
from unacorda.inference.row_values import RowsAre, Source
from unacorda.privacy.guarantees import GDP, Guarantee

__all__ = ["Budgeting", "Steps", "rest"]

_PARTS: Final = 1000
"""Shares are whole thousandths of mu^2."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Steps:
    """The shares of the steps, in their order, and the deviation of the noise of each gradient.

    None where noise would drown even the last step, by a number of rows that was released.
    """

    shares: list[Fraction]
    noise: list[float]


@dataclass(frozen=True, slots=True, kw_only=True)
class Budgeting:
    """What noise costs here: the budget of the whole fit, n people, d parameters.

    mean_weight: public; matrices are to be heard as long as people weigh that much on average.
    rows_are: how their number is known; by one that is an answer about them nothing is refused.
    """

    asked: Guarantee
    budget: GDP
    rows: float
    size: int
    mean_weight: float = 1.0
    rows_are: RowsAre = "public"

    @classmethod
    def of(cls, source: Source, asked: Guarantee, *, size: int) -> Budgeting:
        """That of a fit to these people."""
        return cls(
            asked=asked,
            budget=gdp_budget(asked),
            rows=source.effective,
            size=size,
            mean_weight=source.least_mean_weight,
            rows_are=source.rows_are,
        )

    def noise(self, share: Fraction, *, sensitivity: float) -> float:
        """The deviation of the noise of a mean whose sum has this l2 sensitivity."""
        return sensitivity / (self.rows * self.budget.mu * math.sqrt(share))

    def matrix(self, *, trace_bound: float, norm: float, most: Fraction) -> Fraction:
        """The share with which the noise of a moment has this norm, at most `most`."""
        at_one = self.noise(Fraction(1), sensitivity=math.sqrt(2) * trace_bound)
        wanted = (at_one * math.sqrt(2 * self.size) / (norm * self.mean_weight)) ** 2
        return max(Fraction(1), min(most * _PARTS, Fraction(math.ceil(wanted * _PARTS)))) / _PARTS

    def steps(
        self, left: Fraction, *, sensitivity: float, growths: list[tuple[Fraction, int]]
    ) -> Steps:
        """Shares that grow by the first (growth, count) under which the first step has a use.

        Noise is told by its length beside the scale of the errors. Where even the last step would
        drown there are no steps, or InvalidParameter where that is public beforehand.
        """
        for growth, count in growths:
            shares = _growing(left, growth, count)
            noise = [self.noise(share, sensitivity=sensitivity) for share in shares]
            if noise[0] * math.sqrt(self.size) <= 0.35:
                break
        times = noise[-1] * math.sqrt(self.size) / 0.5
        if times > 1 and self.rows_are == "released":
            return Steps(shares=[], noise=[])
        if times > 1:
            people = f"n_samples={round(self.rows)} and {self.size} parameters, or as many times "
            people += "the rows"
            if self.rows_are == "made up":
                people = f"{self.size} parameters, even of {self.rows:,.0f} rows"
            raise InvalidParameter(
                "budget",
                self.asked,
                expected=f"a mu {math.ceil(times * 10) / 10:g} times as large (here it is "
                f"{self.budget.mu:.3g}) for {people}: the noise would be larger than any "
                "coefficient",
            )
        return Steps(shares=shares, noise=noise)


def rest(shares: list[Fraction]) -> Fraction:
    """What several shares leave of the whole."""
    return 1 - sum(shares, Fraction())


def _growing(left: Fraction, growth: Fraction, count: int) -> list[Fraction]:
    weights = [growth**step for step in range(count)]
    whole = sum(weights, Fraction())
    # Rounded down, so that they never add up to more than there is.
    fine = 10**9
    return [Fraction(math.floor(left * weight / whole * fine), fine) for weight in weights]
