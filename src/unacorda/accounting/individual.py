"""Individual filters: people pay for the cost of their own data, and leave at their limit.

A worst-case filter charges each person the largest cost of any person. Here a person with a small
gradient or value pays little and takes part for longer.
"""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

import math
from copy import copy
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from unacorda import checks, elements
from unacorda.accounting.filters import cannot_add
from unacorda.accounting.parallel import pair_price
from unacorda.errors import InvalidParameter
from unacorda.privacy.events.fields import keep
from unacorda.privacy.guarantees import GDP, ZCDP, Additive, Guarantee, PureDP, RenyiDP
from unacorda.privacy.neighbors import Neighbors, ReplaceOne

_MOST_PEOPLE = 10**9
_CAPACITY_BITS = 52
"""Budgets are counted in units of about 2^-52 of themselves: sums of int64 never overflow."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class IndividualFilter:
    r"""The remaining budgets of many people; immutable, so `charge` returns a new one.

    Before each step every person's cost is computed only from their own data and from earlier
    releases. Those whose cost still fits take part; the others are left out of this step at no
    cost. Every person is then protected by `limit`, and no one pays for the worst case.

    A float cost is its exact binary value, not the decimal that it prints as: ten costs of 0.1 are
    a little more than 1. Give costs a little below a round share of the limit.

    limit: for each person, PureDP, ZCDP without delta, GDP without delta, or RenyiDP. Costs are in
    the additive number: epsilon, rho, **mu squared**, or epsilon at that order. people: their
    number, above 0. Costs are rounded up and the limit down to multiples of about 2^-52 limit, and
    added exactly.

    **Costs, sums and who takes part are functions of the data: none of them may be released.**
    The representation of this object shows none.

    Raises InvalidParameter for a limit of another kind or with a delta, or for costs that are not
    one non-negative number for each person; NaN is refused.

    Bound       the limit is an upper bound of each person's loss, adaptively.
    Source      Feldman and Zrnic 2021, arXiv:2008.11193; docs/proofs/filters.md,
                Theorem 6 (also PureDP and GDP, rejoining, and replacement).

    >>> account = IndividualFilter(limit=ZCDP(0.5), people=3)
    >>> for _ in range(2):
    ...     active, account = account.charge([0.125, 0.25, 0.375])
    >>> active.tolist()
    [True, True, False]
    """

    limit: Guarantee
    people: int
    _spent: NDArray[np.int64] = field(init=False, repr=False)
    _capacity: int = field(init=False, repr=False)
    _exponent: int = field(init=False, repr=False)

    def __post_init__(self) -> None:
        budget = _one_number(self.limit)
        if budget == 0:
            exponent, capacity = 0, 0
        else:
            # 2^exponent is the unit, with 2^51 <= budget / unit <= 2^53.
            size = budget.numerator.bit_length() - budget.denominator.bit_length()
            exponent = size - _CAPACITY_BITS
            capacity = math.floor(budget / Fraction(2) ** exponent)
        people = checks.positive_integer(people=self.people)
        checks.demand(people <= _MOST_PEOPLE, "people", people, expected="at most 10^9 of them")
        nothing = np.zeros(people, dtype=np.int64)
        keep(self, people=people, _spent=nothing, _capacity=capacity, _exponent=exponent)

    def charge(self, costs: ArrayLike) -> tuple[NDArray[np.bool_], IndividualFilter]:
        """Who takes part in a step with these costs, and the filter after it.

        costs: one number, or an array of shape (people,); inf means "never", and so does an element
        that is NaN or below 0, each on its own. Returns an array of bool of shape (people,), and
        the filter after the charge. Raises InvalidParameter for another shape.
        """
        units = self._units(costs)
        active = units <= self._capacity - self._spent
        after = copy(self)
        keep(after, _spent=self._spent + np.where(active, units, 0))
        return active, after

    @property
    def remaining(self) -> NDArray[np.float64]:
        """Each person's remaining budget, shape (people,), rounded down; exactly this cost fits."""
        left = (self._capacity - self._spent).astype(np.float64)  # at most 2^53: exact
        rest = np.ldexp(left, self._exponent)
        # Below the least normal number ldexp rounds: step down to be sure.
        return np.where(rest < 1e-300, np.nextafter(rest, 0.0), rest)

    def guarantee(self, *, neighbors: Neighbors) -> Guarantee:
        """The guarantee of all steps: the limit, or its price for a pair under ReplaceOne.

        Raises InvalidParameter for a RenyiDP limit under ReplaceOne.
        """
        return pair_price(self.limit) if neighbors is ReplaceOne else self.limit

    def _units(self, costs: ArrayLike) -> NDArray[np.int64]:
        """The costs in whole units, rounded up; what exceeds any budget becomes capacity + 1."""
        expected = f"one number, or {self.people} of them"
        exact = elements.numbers("costs", costs, kinds="fiu", expected=expected)
        values = _rounded_up(exact)
        if values.shape not in ((), (self.people,)):
            shown = f"an array of shape {values.shape}"  # never the values: they are people's data
            raise InvalidParameter("costs", shown, expected=expected)
        values = np.where(values >= 0, values, math.inf)
        with np.errstate(over="ignore", under="ignore"):
            scaled = np.ceil(np.ldexp(values, -self._exponent))
        scaled = np.where((scaled == 0) & (values > 0), 1.0, scaled)
        units = np.minimum(scaled, float(self._capacity + 1)).astype(np.int64)
        return np.broadcast_to(units, (self.people,))


def gaussian_costs(norms: ArrayLike, *, sigma: float) -> NDArray[np.float64]:
    r"""The rho of each person whose row changes a sum by its own l2 norm, under Gaussian noise.

    Statement   norm^2 / (2 sigma^2). For GDP, twice this is mu squared.
    Bound       upper: raised by a few units in the last place.
    Edges       norm = 0 -> 0.0; too large for a float -> inf.
    Source      Bun and Steinke 2016, Prop. 1.6, for the pair of tables with and without the person.

    norms: l2 norms, of any shape; an element that is NaN or below 0 costs inf, each on its own.
    sigma: standard deviation of the noise, above 0. Raises InvalidParameter for an array of another
    dtype than numbers.

    >>> gaussian_costs([0.0, 1.0], sigma=1.0).round(6).tolist()
    [0.0, 0.5]
    """
    checks.positive(sigma=sigma)
    values = elements.floats("norms", norms)
    values = np.where(values >= 0, values, math.inf)
    with np.errstate(over="ignore", under="ignore"):
        ratio = values / sigma
        rho = np.square(ratio) / 2
        # Five roundings with the reading, each by less than 2^-52, and a step for the subnormals.
        raised = np.nextafter(rho * (1 + 2.0**-49), math.inf)
    result: Any = np.where(values == 0, 0.0, raised)
    return np.asarray(result, dtype=np.float64)


def _rounded_up(values: NDArray[Any]) -> NDArray[np.float64]:
    """The least float64 not below each number; NaN stays NaN."""
    if values.dtype.kind == "f":
        return values.astype(np.float64)
    found = [elements.nearest_float(value) for value in values.reshape(-1).tolist()]
    raised = [
        near if not near < value else math.nextafter(near, math.inf)
        for near, value in zip(found, values.reshape(-1).tolist(), strict=True)
    ]
    return np.array(raised, dtype=np.float64).reshape(values.shape)


def _one_number(limit: Guarantee) -> Fraction:
    if not isinstance(limit, Additive):
        raise cannot_add(limit, None)
    if isinstance(limit, PureDP | RenyiDP) or (isinstance(limit, ZCDP | GDP) and limit.delta == 0):
        return limit.additive[0]
    expected = "PureDP, RenyiDP, or ZCDP or GDP without delta"
    raise InvalidParameter("limit", limit, expected=expected)
