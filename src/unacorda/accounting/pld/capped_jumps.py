"""delta of many sampled Gaussian steps as a mixture over how many of their losses are jumps.

Each number of jumps has a tilt and a window of its own, so a delta between what the bulk and what
few jumps can do costs no digits.
"""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

import math
from dataclasses import dataclass, field, replace
from fractions import Fraction

import numpy as np

from unacorda.accounting.pld.capped_bases import MANY, Apart, base_apart
from unacorda.accounting.pld.capped_cases import Case, apart_of, blur_of
from unacorda.accounting.pld.capped_laws import law_above, law_below, piece_above, piece_below
from unacorda.accounting.pld.capped_masses import Grid, tail_at
from unacorda.accounting.pld.capped_plans import Plan, Planner
from unacorda.accounting.pld.convolution import Side, Sum, Window, total
from unacorda.accounting.pld.sampled_cells import SampledGaussian

__all__ = ["MOST_WORK", "JumpCases", "jump_cases", "likely_by_one", "rare_place"]

MOST_WORK = 1_600_000
"""Nodes laid, after which no grid is made finer: what is known then is told, however wide."""

_U = 2.0**-53
_MARGIN = 64
_FARTHEST = 1e15
_GRIDS = (1 << 12, 1 << 14, 1 << 16, 1 << 18, 1 << 20)
_PART = 0.4  # of epsilon: a larger loss is a jump
_MOST_MEAN = 1.0
_MOST_JUMPS = 12
_FAR, _HALVINGS = 40.0, 40
_LAYING = 1 << 16  # nodes whose work is that of the grids of the smallest losses
_UNTILTED = Grid(step=1.0, tilt=0.0, remove=True, most=1)
_LEFT_OUT, _RARE = -25.0, -16.0
_SURELY, _GAIN = 2, 0.7
_BEYOND, _BLURRED = (1 << 14, 1 << 17, 1 << 19), -14.0
_NOTHING = 1e-12  # of delta: a share whose lower side is not looked for


@dataclass(slots=True)
class _Number:
    """Both sides of the case of so many jumps, on a grid; None where the grid does not serve."""

    jumps: int
    plans: dict[int, Plan | None]
    level: int = 0
    cases: dict[int, Case | None] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class _Split:
    """One side of a composition: a step, and the places between which its losses are jumps.

    beyond: the case of a loss above the second place; rest: ln of the probability of more jumps
    than are looked at; logs: of numbers of jumps, ln of the probability that any are so many.
    """

    step: SampledGaussian
    count: int
    low: float
    high: float
    beyond: Case
    rest: float
    logs: tuple[float, ...]


class JumpCases:
    """Bounds of delta near an epsilon; `refine` narrows them there; work: what that took."""

    def __init__(self, splits: dict[int, _Split], *, near: float, goal: float) -> None:
        self.work = 0
        self._splits = splits
        self._near = near
        self._least = _NOTHING * _exp(goal)
        self._numbers = [
            _Number(
                jumps,
                {
                    side: _planned(split, jumps, near=near, goal=goal)
                    for side, split in splits.items()
                },
            )
            for jumps in range(len(splits[1].logs))
        ]
        for number in self._numbers:
            self._lay(number)

    def above(self, epsilon: float) -> float:
        """An upper bound of delta."""
        split = self._splits[1]
        found = [split.beyond.at(epsilon), _exp(split.rest)]
        found += [self._at(number, 1, epsilon) for number in self._numbers]
        return min(1.0, math.fsum(found) * (1 + 8 * _U))

    def below(self, epsilon: float) -> float:
        """A lower bound of delta."""
        found = [self._splits[-1].beyond.at(epsilon)]
        found += [self._at(number, -1, epsilon) for number in self._numbers]
        return math.fsum(found) * (1 - 8 * _U)

    def refine(self, share: float, *, times_tilt: bool = False, most: int = MOST_WORK) -> None:
        """Finer grids, until less than this share of delta is open at the epsilon.

        times_tilt: the share of epsilon instead, which delta falls with; most: of all work.
        """
        open_ = {number.jumps: self._width(number) for number in self._numbers}
        while open_ and self.work < most:
            first = max(self._numbers, key=lambda number: self._at(number, 1, self._near))
            plan = first.plans[1]
            steep = plan.tilt * self._near if times_tilt and plan is not None else 1.0
            room = min(share * steep, 0.3) * self.above(self._near) / len(self._numbers)
            widest = max(open_, key=open_.__getitem__)
            if open_[widest] <= room:
                return
            number = self._numbers[widest]
            before = open_.pop(widest)
            if number.level + 1 < len(_GRIDS):
                number.level += 1
                self._lay(number)
                after = self._width(number)
                if number.level <= _SURELY or after < _GAIN * before:
                    open_[widest] = after

    def _width(self, number: _Number) -> float:
        return self._at(number, 1, self._near) - self._at(number, -1, self._near)

    def _lay(self, number: _Number) -> None:
        for side in (1, -1):
            plan = number.plans[side]
            self.work += _LAYING // 2 if self._splits[side].count >= MANY else 0
            if plan is None or (side < 0 and self._at(number, 1, self._near) < self._least):
                continue
            nodes = _GRIDS[number.level]
            self.work += nodes // 2
            found = _case(self._splits[side], number.jumps, plan, nodes=nodes, side=side)
            # round-off may outweigh what a finer grid gains on one side
            before = number.cases.get(side)
            if found is not None and (
                before is None or side * (before.at(self._near) - found.at(self._near)) > 0
            ):
                number.cases[side] = found

    def _at(self, number: _Number, side: int, epsilon: float) -> float:
        """Its part in delta."""
        case = number.cases.get(side)
        most = _exp(self._splits[1].logs[number.jumps] + 1e-9)
        if case is None:
            return most if side > 0 else 0.0
        return min(case.at(epsilon), most)


def jump_cases(
    sides: dict[int, SampledGaussian], count: int, plan: Plan, *, near: float, goal: float
) -> JumpCases | None:
    """Of so many steps with a unit removed, rounded to both sides, near a delta of e^goal.

    plan: one whose cap is used. None where jumps are many, or no loss is one.

    Bound       both.
    Source      docs/proofs/capped.md, Theorem 2.
    """
    splits: dict[int, _Split] = {}
    for side, step in sides.items():
        split = _split(step, count, plan, near=near, goal=goal, side=1 if side > 0 else -1)
        if split is None:
            return None
        splits[side] = split
    return JumpCases(splits, near=near, goal=goal)


def likely_by_one(step: SampledGaussian, count: int, goal: float) -> float:
    """About the epsilon above which one of so many losses lies with the probability e^goal.

    Bound       none: it is a place to begin at.
    Source      the law of one step.
    """
    return step.base + step.offset_at(rare_place(step, count, goal))


def rare_place(step: SampledGaussian, count: int, goal: float) -> float:
    """About where one of so many outputs lies above with the probability e^goal."""
    low, high = -_FAR, _FAR + step.mean
    for _ in range(_HALVINGS):
        middle = 0.5 * (low + high)
        above = tail_at(step, middle, _UNTILTED)[0] + math.log(count)
        low, high = (middle, high) if above > goal else (low, middle)
    return high


def _split(
    step: SampledGaussian, count: int, plan: Plan, *, near: float, goal: float, side: Side
) -> _Split | None:
    # outputs so rare that it matters nothing what they lose
    top = min(plan.tops[0], step.offset_at(rare_place(step, count, goal + _RARE)))
    found = None
    for nodes in _BEYOND:
        grid = Grid(step=top / nodes, tilt=plan.tilt, remove=True, most=4 * nodes)
        found = (law_above if side > 0 else law_below)(step, grid, top=top)
        if found is None:
            return None
        blur = blur_of([(found, count)], plan.slope, side)
        if side < 0 or blur[0] + blur[1] * near < goal + _BLURRED:
            break
    assert found is not None
    law = found
    beyond = Case(None, Fraction(0), 0.0, apart_of([(law, count)], side), blur, side)
    start = _start(step, count, near)
    if not start < law.place - 0.1:
        return None
    mass, _, error = tail_at(step, start, grid)
    logs: list[float] = []
    for jumps in range(min(_MOST_JUMPS, count) + 1):
        more = _log_choose(count, jumps + 1) + (jumps + 1) * (mass + error)
        logs.append(_log_choose(count, jumps) + jumps * (mass + error))
        if jumps == count:
            more = -math.inf
        if more < goal + _LEFT_OUT:
            return _Split(step, count, start, law.place, beyond, more + 1e-9, tuple(logs))
    return None


def _start(step: SampledGaussian, count: int, near: float) -> float:
    """The place above which losses are jumps."""
    start = float(step.places(np.array([_PART * near]))[0]) if near > 0 else -_FAR
    return max(start, rare_place(step, count, math.log(_MOST_MEAN)))


def _planned(split: _Split, jumps: int, *, near: float, goal: float) -> Plan | None:
    pieces = [
        ((-math.inf, split.low), split.count - jumps),
        ((split.low, split.high), jumps),
    ]
    planner = Planner.of_pieces(split.step, [piece for piece in pieces if piece[1]])
    return planner.whole(near, goal - _log_choose(split.count, jumps))


def _case(split: _Split, jumps: int, plan: Plan, *, nodes: int, side: Side) -> Case | None:
    h = plan.width / (nodes - 2 * _MARGIN)
    grid = Grid(step=h, tilt=plan.tilt, remove=True, most=4 * nodes)
    step, count = split.step, split.count
    base = _base(split, count - jumps, grid, nodes=nodes, side=side)
    if base is None:
        return None
    laws = base.laws
    offset, slack = base.offset + count * Fraction(step.base), base.slack
    if jumps:
        ends = split.low, split.high
        if side > 0:
            jump = piece_above(step, grid, low=ends[0], high=ends[1])
        else:
            below = piece_below(step, grid, low=ends[0], high=ends[1])
            jump = below[0] if below is not None else None
        if jump is None:
            return None
        laws = [*laws, (jump, jumps)]
    slack += count * 16 * _U * abs(step.base) * (1 + 4 * _U)
    start = (plan.low - float(offset)) / h
    if not abs(start) < _FARTHEST:
        return None
    first = math.floor(start) - _MARGIN
    steep = 128.0 / (_MARGIN * h)
    window = Window(
        first=first,
        size=nodes,
        tilt=plan.tilt,
        higher=min(plan.higher, plan.tilt + steep),
        lower=max(plan.lower, plan.tilt - steep),
    )
    found = total(laws, step=Fraction(h), window=window, side=side)
    log = _log_choose(count, jumps) + base.exponent
    log += side * 8 * _U * (1 + abs(log))
    # the terms are at most twice as many as tilted masses of 1
    found = replace(
        found, exponent=found.exponent + log, noise=found.noise + 2 * base.missed * _mass(found)
    )
    return Case(found, offset, slack, (0.0, -math.inf), (-math.inf, 0.0), side)


def _mass(found: Sum) -> float:
    """A bound of the tilted mass of a sum."""
    log, error = found.cumulant(found.window.tilt)
    return _exp(log + error - found.exponent) * (1 + 1e-9)


def _base(split: _Split, count: int, grid: Grid, *, nodes: int, side: Side) -> Apart | None:
    """So many outputs that are no jumps; the slack is of what nodes lack beside the step's base."""
    step = split.step
    if not count:
        return Apart(laws=[])
    apart = base_apart(step, count, grid, high=split.low, nodes=nodes, side=side)
    if apart is not None:
        return apart
    if side > 0:
        above = piece_above(step, grid, low=-math.inf, high=split.low)
        return None if above is None else Apart(laws=[(above, count)])
    below = piece_below(step, grid, low=-math.inf, high=split.low)
    if below is None:
        return None
    law, origin = below
    return Apart(
        laws=[(law, count)],
        offset=count * Fraction(origin),
        slack=count * 16 * _U * origin * (1 + 4 * _U),
    )


def _log_choose(count: int, number: int) -> float:
    return math.log(math.comb(count, number))


def _exp(value: float) -> float:
    return math.exp(value) if value < 709 else math.inf
