"""The (epsilon, delta) filter: many small costs count by their squares, few large by their sum."""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

from dataclasses import dataclass, field

from unacorda.accounting.filters.additive import Filter, approximate_limit, cannot_add
from unacorda.checks import Number
from unacorda.errors import InvalidParameter
from unacorda.privacy import conversions
from unacorda.privacy.guarantees import ZCDP, ApproxDP, Guarantee, PureDP, share, zcdp_of
from unacorda.privacy.rounding import grid_down


@dataclass(frozen=True, slots=True)
class ApproximateFilter:
    r"""Spends that are chosen as one goes, and are (epsilon, delta)-DP together, by a filter.

    A cost is admitted while, after it, the sum of the costs' own deltas is at most
    ``limit.delta - slack`` and one of these holds:

    - the sum of rho_i is at most the largest rho that implies (epsilon, delta'), where an
      epsilon_i-DP part costs rho_i = epsilon_i tanh(epsilon_i / 2), a mu_i-GDP one mu_i^2 / 2;
    - all costs were pure or approximate, and the sum of epsilon_i is at most epsilon.

    Everything that is admitted by the classic test
    sqrt(2 log(1/slack) S) + S/2 <= epsilon, S = sum of epsilon_i^2, is admitted here.

    limit: ApproxDP with delta strictly between 0 and 1, the guarantee of all that is spent.
    slack: the part of limit.delta that the conversion from rho uses, fixed before the first
    answer, above 0 and at most limit.delta; left out, half of it. Costs are PureDP, ApproxDP,
    ZCDP or GDP, mixed freely.
    Raises InvalidParameter for a slack out of range, WrongUnit for a RenyiDP cost and
    UnsupportedEvent for a cost that is no guarantee.

    Bound       the guarantee of what is spent is an upper bound; budgets are rounded down.
    Source      Whitehouse, Ramdas, Rogers, Wu 2023, arXiv:2203.05481 (the classic
                test); docs/proofs/filters.md, Theorems 1, 2 and 3 (this one).

    >>> account = ApproximateFilter(ApproxDP(1, 1e-6))
    >>> account.admits(PureDP(1))
    True
    >>> for _ in range(200):
    ...     account = account.spend(PureDP(0.01))
    >>> account.admits(PureDP(0.01)), account.guarantee == ApproxDP(1, 1e-6)
    (True, True)
    """

    limit: ApproxDP
    slack: Number | None = None
    _rho: Filter = field(init=False, repr=False)
    _plain: Filter = field(init=False, repr=False)
    _plain_counts: bool = field(default=True, init=False, repr=False)

    def __post_init__(self) -> None:
        limit = approximate_limit(self.limit)
        slack = limit.delta / 2 if self.slack is None else share("slack", self.slack)
        if not 0 < slack <= limit.delta:
            expected = f"above 0, at most the delta of the limit, {limit}"
            raise InvalidParameter("slack", self.slack, expected=expected)
        own = limit.delta - slack
        # The pair that is left beside a part of mass `own` may have (delta - own) / (1 - own).
        rest = conversions.delta_of_part(limit.delta, part=own)
        assert rest is not None
        budget = grid_down(conversions.zcdp_from_approx_dp(limit.epsilon, delta=rest))
        object.__setattr__(self, "slack", slack)
        object.__setattr__(self, "_rho", Filter(ZCDP(budget, own)))
        object.__setattr__(self, "_plain", Filter(ApproxDP(limit.epsilon, own)))

    def admits(self, cost: Guarantee) -> bool:
        """Whether all costs so far and this one stay within the limit together."""
        rho, plain = self._costs(cost)
        if self._rho.admits(rho):
            return True
        return plain is not None and self._plain_counts and self._plain.admits(plain)

    def spend(self, cost: Guarantee) -> ApproximateFilter:
        """The filter after this cost, whether or not it was admitted."""
        rho, plain = self._costs(cost)
        after = object.__new__(ApproximateFilter)
        keep = object.__setattr__
        keep(after, "limit", self.limit)
        keep(after, "slack", self.slack)
        keep(after, "_rho", self._rho.spend(rho))
        keep(after, "_plain", self._plain if plain is None else self._plain.spend(plain))
        keep(after, "_plain_counts", self._plain_counts and plain is not None)
        return after

    @property
    def guarantee(self) -> ApproxDP:
        """What all admitted costs keep together: the limit."""
        return self.limit

    @property
    def spent(self) -> ZCDP:
        """The sums of rho and of delta over all costs."""
        spent = self._rho.spent
        assert isinstance(spent, ZCDP)
        return spent

    @property
    def remaining(self) -> ZCDP:
        """What is left by the sum of rho; a pure cost above it may still fit by the plain sum."""
        remaining = self._rho.remaining
        assert isinstance(remaining, ZCDP)
        return remaining

    def _costs(self, cost: Guarantee) -> tuple[ZCDP, ApproxDP | None]:
        """The cost as approximate zCDP, and as (epsilon, delta) where it has them."""
        rho = zcdp_of(cost)
        if rho is None:
            hint = "Charge PureDP, ApproxDP, ZCDP or GDP here, or open a RenyiFilter."
            raise cannot_add(cost, self.limit, hint=hint)
        if isinstance(cost, PureDP):
            return rho, ApproxDP(cost.epsilon, 0)
        return rho, cost if isinstance(cost, ApproxDP) else None
