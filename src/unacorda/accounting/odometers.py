"""Odometers: the privacy loss so far without a preset limit, valid at all times at once.

A filter stops at a limit; an odometer is read. A reading is valid even if its time was chosen from
the answers, or from earlier readings.
"""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

import math
from dataclasses import dataclass, field
from fractions import Fraction

from unacorda import checks
from unacorda.accounting.filters import Filter, cannot_add
from unacorda.balls import Ball, ball, float_up, root
from unacorda.checks import Number
from unacorda.errors import BudgetExceeded, InvalidParameter
from unacorda.privacy.events.fields import keep
from unacorda.privacy.guarantees import ZCDP, ApproxDP, Guarantee, PureDP, amount, share, zcdp_of
from unacorda.privacy.rounding import grid_up


@dataclass(frozen=True, slots=True, kw_only=True)
class PureOdometer:
    """The running sum of epsilons: pure costs need no delta.

    Bound       upper, exact.
    Source      Rogers, Roth, Ullman, Vadhan 2016, arXiv:1605.08294 (the sum is an odometer).

    >>> PureOdometer().spend(PureDP(0.1)).spend(PureDP(0.2)).guarantee
    PureDP(epsilon=0.3)
    """

    guarantee: PureDP = field(default_factory=lambda: PureDP(0))

    def spend(self, cost: PureDP) -> PureOdometer:
        """The odometer after this cost; WrongUnit for one of another kind."""
        if not self.guarantee.comparable_with(cost):
            raise cannot_add(cost, self.guarantee)
        return PureOdometer(guarantee=self.guarantee + cost)


@dataclass(frozen=True, slots=True, kw_only=True)
class Odometer:
    r"""The epsilon of all spending so far at one fixed delta, valid at any stopping time.

    Statement   with probability 1 - delta the privacy loss is at most `epsilon` at every time at
                once, so that for every stopping rule and every set S of what was seen until then
                P(S) <= E_Q[e^epsilon 1_S] + delta + own_delta, epsilon read when stopped.

    delta: above 0 and below 1, of the boundary. own_delta: how much the costs' own deltas may sum
    to, fixed beforehand as well; a cost beyond it is BudgetExceeded. sharp_at: the rho at which
    the reading shall be sharpest (it is valid at all). With V = 2 sum of rho_i and r as
    `sharpest_at` gives it, `epsilon` is at most the classic
    V/2 + sqrt((V + r) log((V + r) / (r delta^2))), and never above the plain sum where all costs
    have one. Costs are PureDP, ApproxDP, ZCDP and GDP, mixed freely.

    Raises InvalidParameter for numbers out of range; `spend` raises WrongUnit for a RenyiDP cost
    and UnsupportedEvent for what is no guarantee.

    Bound       upper, rounded up.
    Source      Whitehouse, Ramdas, Rogers, Wu 2023, arXiv:2203.05481 (classic form);
                docs/proofs/filters.md, Theorem 5 (this form, and approximate zCDP).

    >>> meter = Odometer(delta=1e-6, sharp_at=0.05)
    >>> for _ in range(100):
    ...     meter = meter.spend(ZCDP(0.0005))
    >>> round(meter.epsilon, 4)
    1.8013
    """

    delta: Number
    own_delta: Number = 0
    sharp_at: Number = "0.05"
    _spent: Filter = field(init=False, repr=False)
    _plain: Fraction | None = field(default=Fraction(0), init=False, repr=False)

    def __post_init__(self) -> None:
        delta, own = share("delta", self.delta), share("own_delta", self.own_delta)
        if not 0 < delta < 1:
            expected = "a number strictly between 0 and 1"
            raise InvalidParameter("delta", self.delta, expected=expected)
        sharp = amount("sharp_at", self.sharp_at)
        checks.demand(sharp != 0, "sharp_at", self.sharp_at, expected="a rho above 0")
        keep(self, delta=delta, own_delta=own, sharp_at=sharp, _spent=Filter(ZCDP(0, own)))

    def spend(self, cost: Guarantee) -> Odometer:
        """The odometer after this cost; BudgetExceeded if own deltas exceed `own_delta`."""
        concentrated = zcdp_of(cost)
        if concentrated is None:
            hint = "Charge PureDP, ApproxDP, ZCDP or GDP to an odometer."
            raise cannot_add(cost, self.guarantee, hint=hint)
        left = self._spent.remaining
        assert isinstance(left, ZCDP)
        if concentrated.delta > left.delta:
            asked = f"delta={float(concentrated.delta)!r}"
            raise BudgetExceeded(asked=asked, left=f"delta={float(left.delta)!r}", account="meter")
        plain = self._plain
        if plain is not None:
            plain = plain + cost.epsilon if isinstance(cost, PureDP | ApproxDP) else None
        after = object.__new__(Odometer)
        keep(after, delta=self.delta, own_delta=self.own_delta, sharp_at=self.sharp_at)
        keep(after, _spent=self._spent.spend(concentrated), _plain=plain)
        return after

    @property
    def spent(self) -> ZCDP:
        """The sums of rho and of the costs' own deltas."""
        spent = self._spent.spent
        assert isinstance(spent, ZCDP)
        return spent

    @property
    def epsilon(self) -> float:
        """The reading: an upper bound, rounded up; 0.0 before the first cost."""
        delta, sharp = Fraction(self.delta), Fraction(self.sharp_at)
        reading = mixture_boundary(self.spent.rho, delta=delta, r=sharpest_at(sharp, delta=delta))
        return reading if self._plain is None else min(reading, float_up(ball(self._plain)))

    @property
    def guarantee(self) -> ApproxDP:
        """The current reading (epsilon, delta + own_delta), valid also if one stops because of it.

        If the plain sum is smaller, it is that.
        """
        delta = min(Fraction(self.delta) + Fraction(self.own_delta), Fraction(1))
        epsilon = grid_up(self.epsilon)
        return ApproxDP(epsilon if self._plain is None else min(epsilon, self._plain), delta)


def mixture_boundary(rho: float | Fraction, *, delta: float | Fraction, r: float) -> float:
    r"""Epsilon that the privacy loss of rho-zCDP, spent step by step, never passes, but for delta.

    Statement   with V = 2 rho as it grows and x the root of x^2/2 + log(2 Phi(x)) =
                log(1 + V/r)/2 + log(1/delta): V/2 + x sqrt(V + r). The classic
                x = sqrt(log((V + r)/(r delta^2))) leaves out log(2 Phi(x)), almost log 2.
    Bound       upper at all times at once, rounded up.
    Edges       rho = 0 -> 0.0.
    Source      docs/proofs/filters.md, Theorem 5, after Robbins 1970 and Howard, Ramdas,
                McAuliffe, Sekhon 2021, arXiv:1810.08240 (mixture boundaries).

    >>> round(mixture_boundary(0.05, delta=1e-6, r=0.0033), 4)
    1.8012
    """
    checks.non_negative(rho=float(rho))
    checks.probability(delta=float(delta))
    checks.positive(r=r)
    if rho == 0:
        return 0.0
    variance = 2 * ball(rho)
    level = (variance / ball(r)).log1p() / 2 - ball(delta).log()

    def given(log_twice_normal: Ball) -> Ball:
        return root(2 * (level - log_twice_normal).max(0))

    # log(2 Phi) grows and is at most log 2: from a value below the root one gets a value above
    # it, and the other way round. The two meet quickly where delta is small; all are valid.
    below = given(ball(2).log())
    for _ in range(40):
        above = given((below / ball(2).sqrt()).erf().log1p())
        if above - below <= above * 2.0**-56:
            break
        below = given((above / ball(2).sqrt()).erf().log1p())
    return float_up(variance / 2 + above * (variance + ball(r)).sqrt())


def sharpest_at(rho: float | Fraction, *, delta: float | Fraction) -> float:
    r"""The r for which the classic boundary is lowest when the costs sum to `rho`.

    Statement   r = 2 rho / (k - 1), where k - 1 = log k + 2 log(1/delta). Any r above 0 is valid.
    Bound       none needed: a choice, fixed before the first answer.
    Edges       rho = 0 -> InvalidParameter.
    Source      the zero of the derivative, docs/proofs/filters.md, section 6.
    """
    checks.positive(rho=float(rho))
    checks.probability(delta=float(delta))
    tail = 2 * float(-ball(delta).log())
    ratio = 1 + tail
    for _ in range(100):
        ratio = 1 + tail + math.log(ratio)
    return 2 * float(rho) / (ratio - 1)
