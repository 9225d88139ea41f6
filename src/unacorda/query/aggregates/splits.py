r"""Which cuts find several quantiles with the least error: a tree of splits, and what each costs.

Rows between two cuts are a part. A split of a part at the quantile s between those of its ends,
l < s < h, looks for the cut that leaves the share u = (s - l) / (h - l) of the part's rows below
it. Parts of one level are disjoint, so that a level costs what one split costs (`cuts`), and m
quantiles are found in about log2(m + 1) levels instead of m draws.

**What error is expected.** Where values hardly repeat, a cut is off by a rank error t of density
proportional to exp(-f |t|), f = epsilon / (2 g rows), g = max(u, 1 - u): its variance is 2 / f^2.
The ends of the part are off already, by e_l and e_h ranks, of which the cut takes over its share:

    e_s = (1 - u) e_l + u e_h + t.

So errors are sums of the draws of all levels with known coefficients, and the sum of the variances
of the wanted quantiles is a sum over levels of w_j / epsilon_j^2. It is least, for a given sum of
the epsilon_j (pure privacy), where these are proportional to w_j^(1/3), and for a given sum of
their squares (zCDP, GDP) where the squares are proportional to w_j^(1/2).

**Splits that nobody asked for.** A split near the middle of a part has g = 1/2, which is half of
what a far one has, and its own error counts only by a share in what lies below it. For the two
quartiles a cut at the median comes first: the sum of their variances is 17.3 then (in units of
(rows / epsilon)^2), 33.9 if one quartile is sought after the other, and 36 if each is sought in all
rows for half of epsilon. So several trees are tried, with such splits on the first few levels and
without, and the one of the least expected error is taken. It is a function of public numbers.

Source: the recursion, Kaplan, Schnapp, Stemmer 2022, arXiv:2110.05429; the rest: proof above.
"""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction

from unacorda.query.noise.sensitivity import Sensitivity, of_ranks
from unacorda.query.schema.units import Reach

__all__ = ["Plan", "Split", "moves_of", "plan_for"]

_PARTS_LOG2 = 20  # a level's part of the budget is a multiple of 2^-20
_LEAST = Fraction(1, 4)  # of an even share, that every level gets: errors are small only then


@dataclass(frozen=True, slots=True, kw_only=True)
class Split:
    """A cut at the quantile `at` of a part that lies between the quantiles `low` and `high`."""

    at: Fraction
    low: Fraction
    high: Fraction

    @property
    def share(self) -> Fraction:
        """The share of the part's rows that the cut leaves below it."""
        return (self.at - self.low) / (self.high - self.low)

    @property
    def steepness(self) -> Fraction:
        """By how much one row moves the distance of a cut from the right one."""
        return max(self.share, 1 - self.share)


Levels = tuple[tuple[Split, ...], ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """Splits by level: the parts of one level are disjoint, and were cut by earlier levels.

    parts: of the budget, by level; they add up to 1. moves: by level, how many rows of steepness 1
    one unit comes to. errors: by wanted quantile, the coefficients of the draws in its rank error.
    """

    levels: Levels
    parts: tuple[Fraction, ...]
    moves: tuple[Fraction, ...]
    errors: Mapping[Fraction, Mapping[Fraction, float]]

    def variance(self, *, squares: bool) -> float:
        """Of all rank errors together, for epsilon 1 (squares: or its square) in all levels."""
        weights = _weights(self.levels, self.moves, self.errors)
        spent = [float(part) if squares else float(part) ** 2 for part in self.parts]
        return math.fsum(weight / part for weight, part in zip(weights, spent, strict=True))


def plan_for(wanted: Sequence[Fraction], reach: Reach, *, squares: bool) -> Plan:
    """The plan of the least expected error among those that are tried.

    wanted: quantiles, rising; squares: whether it is the squares of the levels' epsilons that add
    up (zCDP and GDP), and not the epsilons.

    >>> reach = Reach.within(max_rows=1, cells=1, replaced=False)
    >>> plan = plan_for([Fraction(1, 4), Fraction(3, 4)], reach, squares=False)
    >>> [[str(split.at) for split in level] for level in plan.levels]
    [['1/2'], ['1/4', '3/4']]
    """
    plans = [_planned(levels, wanted, reach, squares=squares) for levels in _trees(wanted)]
    return min(plans, key=lambda plan: (plan.variance(squares=squares), len(plan.levels)))


def _trees(wanted: Sequence[Fraction]) -> Iterator[Levels]:
    deepest = len(wanted).bit_length()
    seen = set()
    yield tuple((Split(at=at, low=Fraction(0), high=Fraction(1)),) for at in wanted)
    for choose in (_middle_of_list, _nearest_to_middle):
        for helped in range(deepest + 1):
            levels = _tree(wanted, helped=helped, choose=choose)
            if levels not in seen:
                seen.add(levels)
                yield levels


_Choice = Callable[[Sequence[Fraction], Fraction, Fraction], Fraction]


def _middle_of_list(inside: Sequence[Fraction], low: Fraction, high: Fraction) -> Fraction:
    del low, high
    return inside[len(inside) // 2]


def _nearest_to_middle(inside: Sequence[Fraction], low: Fraction, high: Fraction) -> Fraction:
    return min(inside, key=lambda at: abs(2 * at - low - high))


def _tree(wanted: Sequence[Fraction], *, helped: int, choose: _Choice) -> Levels:
    """The tree whose first `helped` levels may be cut where nothing is wanted."""
    levels: list[tuple[Split, ...]] = []
    open_parts = [(list(wanted), Fraction(0), Fraction(1))]
    while open_parts:
        splits, further = [], []
        for inside, low, high in open_parts:
            middle = (low + high) / 2
            if len(levels) < helped and inside[0] < middle < inside[-1]:
                at = middle
            else:
                at = choose(inside, low, high)
            splits.append(Split(at=at, low=low, high=high))
            below, above = [q for q in inside if q < at], [q for q in inside if q > at]
            further += [(below, low, at)] if below else []
            further += [(above, at, high)] if above else []
        levels.append(tuple(splits))
        open_parts = further
    return tuple(levels)


def _planned(levels: Levels, wanted: Sequence[Fraction], reach: Reach, *, squares: bool) -> Plan:
    moves = tuple(moves_of(level, reach.split(len(level))).l1 for level in levels)
    inherited = _inherited(levels)
    errors = {q: inherited[q] for q in wanted}
    parts = _parts(_weights(levels, moves, errors), power=1 / 2 if squares else 1 / 3)
    return Plan(levels=levels, parts=parts, moves=moves, errors=errors)


def _weights(
    levels: Levels,
    moves: Sequence[Fraction],
    errors: Mapping[Fraction, Mapping[Fraction, float]],
) -> list[float]:
    """By level the sum of the variances of the wanted quantiles, for epsilon 1 in that level."""
    draws = {
        split.at: (number, 8 * float(split.steepness * moved) ** 2)
        for number, (level, moved) in enumerate(zip(levels, moves, strict=True))
        for split in level
    }
    weights = [0.0] * len(levels)
    for shares in errors.values():
        for at, coefficient in shares.items():
            number, variance = draws[at]
            weights[number] += variance * coefficient**2
    return weights


def _inherited(levels: Levels) -> dict[Fraction, dict[Fraction, float]]:
    """By cut: the coefficients of all draws in its error."""
    errors: dict[Fraction, dict[Fraction, float]] = {}
    for split in (split for level in levels for split in level):
        own, share = {split.at: 1.0}, float(split.share)
        for end, part in ((split.low, 1 - share), (split.high, share)):
            # The ends of the table are no cuts.
            for at, coefficient in errors.get(end, {}).items() if 0 < end < 1 else ():
                own[at] = own.get(at, 0.0) + part * coefficient
        errors[split.at] = own
    return errors


def _parts(weights: Sequence[float], *, power: float) -> tuple[Fraction, ...]:
    """Parts of a budget, proportional to the powers of the weights, none far below the others."""
    whole = math.fsum(weight**power for weight in weights)
    least = _LEAST / len(weights)
    wished = [max(Fraction(weight**power / whole), least) for weight in weights]
    total = sum(wished)
    parts = [Fraction(int(wish / total * 2**_PARTS_LOG2), 2**_PARTS_LOG2) for wish in wished]
    return (*parts[:-1], 1 - sum(parts[:-1], Fraction(0)))


def moves_of(level: Sequence[Split], reach: Reach) -> Sensitivity:
    r"""How many rows of steepness 1 one unit's rows come to, in the parts of a level in all cells.

    reach: into these parts, of all cells.

    Statement   Let a part move by k x - k' y, where k rows come to it and k' leave it, x and y
        between u - 1 and u. Divided by the part's steepness its losses move by at most
        max(k, k') + c min(k, k'), c = min(u, 1 - u) / max(u, 1 - u), which grows with c. So sums
        over parts and cells, of these numbers and of their squares, are at most what they are if
        all parts have the greatest c of the level, and that is `of_ranks`. They are convex in the
        rows of each part, so that rows that lie in several parts by shares reach no further.
    Bound       upper; attained where all splits of a level have one steepness.
    """
    evenest = min(level, key=lambda split: split.steepness)
    found, unit = of_ranks(reach, quantile=evenest.share), evenest.steepness
    return Sensitivity(
        l1=found.l1 / unit, l2_squared=found.l2_squared / unit**2, reason=found.reason
    )
