"""Private choices in cells: one candidate, the first rung that few people pass, or private keys.

**One candidate by exponential noise.** Candidate e of a cell is drawn with probability proportional
to exp(-f loss(e)). Let a unit move the losses of cell j by at most g_j. Then their
log-probabilities move within a range of 2 f g_j, so that the draw of cell j has bounded range
e_j = 2 f g_j. Cells draw apart. What is known of all g_j together is the sensitivity of the losses:
the sum of g_j is at most l1, that of their squares at most l2^2, none is above g, and at most n are
not 0. From this, for a share of the budget:

- **together**: bounded ranges of parts add up, so that all draws have bounded range 2 f l1, and
  cost what a single one does. Under PureDP nothing is better.
- **apart**: n draws of bounded range 2 f g. It serves where a unit's rows spread evenly.
- **by squares**: bounded range e is (e^2 / 8)-zCDP, and (e sqrt(pi / 8))-GDP (the curve of the best
  mu over e is concave and begins with that slope: docs/proofs/bounded_range.md, step 4). Both add
  up by squares: all draws are (f^2 l2^2 / 2)-zCDP and f l2 sqrt(pi / 2)-GDP.

The one with the largest rate is taken; where two are level, the first, as more is known of it.

**The first rung of a ladder that only few people pass.** Rungs are asked about from below: do at
most `allowed` people pass this one? One person changes each of these counts by at most 1, and all
of them in one direction, also where their number is replaced by another: who has more passes every
rung that the other passes. So it is the search of the shifted inverse, `AboveThresholdSearch` of
`mechanisms.data_dependent.searches`, whose losses these counts are: it finds the first rung without
paying for those before it. Cells are parts of the people's rows: a person is in at most `hits` of
them, and only their searches can tell anything of them; the price is that of `hits` searches.

**Private keys.** First contribution bounding limits the number of keys of each person. Then
different people are counted under each present key, and a rule selects the keys that enough people
share. This is a separate release, charged in addition to the aggregates, and it spends a delta: the
chance that a key of only one person is released.
"""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

import math
import os
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, ClassVar, Final

import numpy as np
from numpy.typing import NDArray

from unacorda import checks
from unacorda.bits import RandomBits
from unacorda.checks import Number
from unacorda.errors import InvalidParameter
from unacorda.mechanisms.data_dependent.searches import AboveThresholdSearch
from unacorda.mechanisms.partitions.selection import PartitionSelection
from unacorda.mechanisms.partitions.thresholded import ThresholdedGaussian
from unacorda.mechanisms.selection.exponential import Exponential
from unacorda.numerics import least_whole
from unacorda.privacy import events
from unacorda.privacy.events import Event
from unacorda.privacy.guarantees import GDP, ZCDP, ApproxDP, PureDP, bounded_range_within
from unacorda.privacy.rounding import root_down, root_up
from unacorda.query.noise.additive import CONFIDENCE, Sensitivity, Share, of_people
from unacorda.query.schema.sources import Csv
from unacorda.query.schema.units import Reach

_PI = Fraction(3_141_592_653_589_794, 10**15)  # rounded up


@dataclass(frozen=True, slots=True, kw_only=True)
class Draws:
    """The draw of one cell, and the event of those of all cells together."""

    mechanism: Exponential
    event: events.Event


def draws_for(
    share: Share, reach: Reach, moves: Callable[[Reach], Sensitivity], *, unit: int = 1
) -> Draws:
    """The draws of the largest rate within a share.

    moves: how far a unit within a reach moves the largest change of a loss, cell by cell; unit:
    losses are kept times this.

    >>> from unacorda.query.noise.additive import of_counts
    >>> reach = Reach.within(max_groups=4, max_rows_per_group=3, cells=9, replaced=False)
    >>> [draws_for(share, reach, of_counts).mechanism for share in (PureDP(1), ZCDP(2))]
    [Exponential(epsilon=Fraction(1, 1), sensitivity=Fraction(12, 1), monotone=False), \
Exponential(epsilon=Fraction(2, 1), sensitivity=Fraction(3, 1), monotone=False)]
    """
    # Of level ones `max` takes the first.
    return max(_ways(share, reach, moves, unit=unit), key=lambda draws: draws.mechanism.factor)


def _ways(
    share: Share, reach: Reach, moves: Callable[[Reach], Sensitivity], *, unit: int
) -> Iterator[Draws]:
    in_one = Reach.within(max_rows=reach.per_cell, cells=1, replaced=reach.replaced)
    whole, each = moves(reach), moves(in_one).l1
    together = Exponential(epsilon=bounded_range_within(share), sensitivity=whole.l1 * unit)
    yield Draws(mechanism=together, event=together.event)
    if isinstance(share, PureDP):
        return
    apart = bounded_range_within(share * Fraction(1, reach.felt))
    single = Exponential(epsilon=apart, sensitivity=each * unit)
    yield Draws(mechanism=single, event=single.event * reach.felt)
    event: events.Event
    match share:
        case ZCDP(rho=rho):
            squared, event = 8 * rho, events.ZeroConcentrated(rho=rho)
        case GDP():
            multiplier = Fraction(root_up(1 / share.mu_squared))
            squared, event = 8 / (_PI * multiplier**2), events.Gaussian(noise_multiplier=multiplier)
    epsilon = Fraction(root_down(squared * each**2 / whole.l2_squared))
    yield Draws(mechanism=Exponential(epsilon=epsilon, sensitivity=each * unit), event=event)


_MISS = (1 - CONFIDENCE) / 2  # of climbing on where no one is left, and of stopping too soon


@dataclass(frozen=True, slots=True, kw_only=True)
class ThresholdSearch:
    """The searches in every cell.

    allowed: how many people the rung aimed at is passed by; hits: in how many cells one unit's
    change can be felt; runs: how many ladders are searched in each.
    """

    solver: AboveThresholdSearch
    allowed: int
    hits: int
    runs: int = 1

    @property
    def event(self) -> events.Event:
        return self.solver.event * (self.hits * self.runs)

    @property
    def passing(self) -> int:
        """So many people at most pass a found rung, in one cell with 95% probability.

        Unless it is the last one, which is taken where no other is.
        """
        return self.solver.people(self.allowed, miss=1 - float(CONFIDENCE))

    @property
    def log_scale(self) -> float:
        return math.log(1 + self.passing)

    def find(self, above: NDArray[np.int64], bits: RandomBits) -> list[int]:
        """By cell the index of the first rung found; the last one where none is.

        above: by cell and rung, how many people pass it.
        """
        found: list[int] = self.solver.choose_rows(above, target=self.allowed, bits=bits).tolist()
        return found


def search_for(share: Share, *, rungs: int, hits: int, runs: int = 1) -> ThresholdSearch:
    """The searches within a share, on ladders of so many rungs.

    hits, runs: as `ThresholdSearch` has them.

    Pure privacy is spent by the search at its least noise; other shares by a search whose
    likelihoods have a bounded range, which costs a quarter of it and has half as much noise again.
    """
    part = share * Fraction(1, hits * runs)
    solver = AboveThresholdSearch(
        epsilon=bounded_range_within(part),
        points=rungs,
        monotone=True,
        bounded_range=not isinstance(part, PureDP),
    )
    allowed = least_whole(lambda aim: solver.overshoot(aim) <= _MISS)
    return ThresholdSearch(solver=solver, allowed=allowed, hits=hits, runs=runs)


# ---- private keys --------------------------------------------------------------------------------


CHANCES: Final = (Fraction(1, 2), Fraction(95, 100), Fraction(999, 1000))
"""For which probabilities a release says from how many people on a key appears with them."""

_MOST_GROUPS: Final = 1_000
_COMPARED: Final = CHANCES[1]


@dataclass(frozen=True, slots=True, kw_only=True)
class PrivateKeys:
    """A request to find the keys of a column privately; see `private_keys`."""

    tag: ClassVar[str] = "privatekeys"

    weight: Fraction = Fraction(1)
    delta: Fraction | None = None
    max_groups: int | None = None


GivenKeys = Iterable[Any] | Mapping[str, Any] | Csv | os.PathLike[str] | PrivateKeys | None
"""What may be said of keys: lists or tables, by column or of all, or that they are found."""


def private_keys(
    *, weight: Number = 1, delta: Number | None = None, max_groups: int | None = None
) -> PrivateKeys:
    """Let a question find the keys of a column: `group_by("county", keys=unacorda.private_keys())`.

    A key is answered if enough different people have it. With fewer people it may be missing;
    `explain` and the release give the numbers. Text, whole numbers, dates and booleans can be keys,
    and NULL is a key like any other. Several private columns of a question are selected together,
    by their combinations. The question needs a delta.

    Parameters
    ----------
    weight
        The share of the budget for finding keys, relative to the aggregates' weights; above 0.
    delta
        How much of the question's delta it takes, between 0 and 1. By default all, or half if an
        `ApproxDP` spends the rest on normal noise.
    max_groups
        The most keys of a person that count in this question, from 1 to 1,000. A smaller number
        reveals rarer keys, but drops more rows of people with many keys.

    Returns
    -------
    PrivateKeys
        For `keys=` of `Query.group_by`.

    Raises
    ------
    InvalidParameter
        For numbers out of their range.

    Examples
    --------
    >>> private_keys(max_groups=2).max_groups
    2
    """
    part, share = checks.exact("weight", weight), None
    checks.demand(part > 0, "weight", weight, expected="a number above 0")
    if delta is not None:
        share = checks.exact("delta", delta)
        checks.demand(0 < share < 1, "delta", delta, expected="a number between 0 and 1, or None")
    if max_groups is not None:
        few = checks.positive_integer(max_groups=max_groups) <= _MOST_GROUPS
        checks.demand(few, "max_groups", max_groups, expected=f"at most {_MOST_GROUPS:,}")
    return PrivateKeys(weight=part, delta=share, max_groups=max_groups)


@dataclass(frozen=True, slots=True, kw_only=True)
class KeyRule:
    """The rule that selects keys by their numbers of people, and its cost.

    delta: its part of the question's delta.
    """

    mechanism: PartitionSelection | ThresholdedGaussian
    delta: Fraction

    @property
    def event(self) -> Event:
        return self.mechanism.event

    @property
    def log_scale(self) -> float:
        """The logarithm of the number of people that a key needs, to compare rules."""
        return math.log(self.people_for(_COMPARED))

    @property
    def chances(self) -> tuple[tuple[Fraction, int], ...]:
        """For each of `CHANCES` the least number of people with which a key appears so often."""
        return tuple((chance, self.people_for(chance)) for chance in CHANCES)

    def people_for(self, chance: Fraction) -> int:
        """The number of people from which on a key appears with at least this probability."""
        return least_whole(lambda n: n >= 1 and self.mechanism.probability(n) >= chance)

    def kept(self, people: NDArray[np.int64], *, bits: RandomBits) -> NDArray[np.bool_]:
        """Which keys are selected, from their numbers of people."""
        match self.mechanism:
            case PartitionSelection():
                return self.mechanism.release_array(people, bits=bits)
            case ThresholdedGaussian():
                return self.mechanism.release_array(people, bits=bits)[0]

    def named(self, people: NDArray[np.int64], *, most: int, bits: RandomBits) -> NDArray[np.int64]:
        """The positions of the selected keys, rising.

        If there are more than `most`, those with the largest noisy numbers of people, if these are
        known; else the first of them.
        """
        match self.mechanism:
            case PartitionSelection():
                return np.flatnonzero(self.kept(people, bits=bits))[:most]
            case ThresholdedGaussian():
                kept, noisy = self.mechanism.release_array(people, bits=bits)
                places = np.flatnonzero(kept)
                return np.sort(places[np.argsort(-noisy[places], kind="stable")][:most])

    def __str__(self) -> str:
        match self.mechanism:
            case PartitionSelection():
                return "a coin for each key, the likeliest that its people allow"
            case ThresholdedGaussian(sigma=sigma, threshold=threshold):
                return (
                    f"people with normal noise of standard deviation {float(sigma):.6g}, "
                    f"{threshold:,} or more"
                )

    def words(self) -> str:
        """A sentence on which keys appear how often."""
        (first, few), *others = (
            (f"{float(100 * chance):g}%", people) for chance, people in self.chances
        )
        more = ", ".join(f"of {people:,} {chance}" for chance, people in others)
        return f"a key of {few:,} people appears {first} of the time, {more}"


def key_rule(share: Share, *, delta: Fraction, hits: int, replaced: bool) -> KeyRule:
    """The rule within a share and a delta that selects the most keys.

    hits: how many keys one unit can change. replaced: whether some of them lose a person while
    others gain one. The exact delta of `ThresholdedGaussian` at an epsilon is proved for keys that
    all gain or all lose one; the composition key by key holds for both.

    Under zCDP and GDP the threshold is the better rule except for the coarsest budgets, as it grows
    with the square root of the number of keys. Raises InvalidParameter for a share or delta that no
    rule can keep.
    """
    rules = list(_rules(share, delta, hits, replaced=replaced))
    checks.demand(rules, "budget", share, expected="a larger one, to find private keys with")
    return min(rules, key=lambda rule: rule.log_scale)


def hits_of(reach: Reach) -> int:
    """The number of private keys that one unit can change; InvalidParameter if too many."""
    hits = int(of_people(reach).l1)
    expected = f"private_keys(max_groups=...) with at most {_MOST_GROUPS:,} of them"
    found = f"{hits:,} keys that one unit may have"
    checks.demand(hits <= _MOST_GROUPS, "max_groups", found, expected=expected)
    return hits


def _rules(share: Share, delta: Fraction, hits: int, *, replaced: bool) -> Iterator[KeyRule]:
    target: ApproxDP | ZCDP | GDP
    match share:
        case PureDP(epsilon=epsilon):
            target = ApproxDP(epsilon, delta)
            with suppress(InvalidParameter):  # a key would need over a million people
                coins = PartitionSelection(epsilon=epsilon, delta=delta, l0_sensitivity=hits)
                yield KeyRule(mechanism=coins, delta=delta)
            if replaced:
                return
        case ZCDP(rho=rho):
            target = ZCDP(rho, delta=delta)
        case GDP(mu_squared=mu_squared):
            target = GDP.from_squared(mu_squared, delta)
    noisy = ThresholdedGaussian.for_guarantee(target, l0_sensitivity=hits)
    yield KeyRule(mechanism=noisy, delta=delta)
