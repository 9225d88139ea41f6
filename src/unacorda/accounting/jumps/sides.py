"""delta of sampled Gaussian steps from one side: jumps on a grid over the profiles of bulks."""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction

import numpy as np
from scipy.special import ndtr

from unacorda.accounting.jumps.bulk import Bulk, bulk_of
from unacorda.accounting.jumps.compound import Compound, compound, log_more, times
from unacorda.accounting.jumps.laws import Jumps, jumps_above, jumps_below, raised
from unacorda.accounting.pld.capped_jumps import rare_place
from unacorda.accounting.pld.sampled_cells import Mark, SampledGaussian
from unacorda.accounting.profiles.boxes import Array
from unacorda.privacy.rounding import float_above, float_below

__all__ = ["MANY", "Scope", "Side", "Steps", "sides_of"]

MANY = 10**6
"""Steps: a few of them left out matter little then."""

_U = 2.0**-53
_WIDTH = 0.25
_OFTEN = 1e-2  # jumps in the mean
_BEYOND = 9.0  # deviations beyond epsilon: larger losses need no grid
_UNMARKED, _MORE = 28.0, -22.0
_FEW, _SEVERAL, _MANY = 2048, 8192, 16384  # nodes
_BELOW = 20  # nodes below the mark
_ALONE, _MOST = 3, 10  # numbers of jumps: from which on they share a bulk, and the largest
_WORK = 1e9  # terms of convolutions
_FAINT = 1e-8  # of delta: more jumps than add so much are left out


@dataclass(frozen=True, slots=True)
class Steps:
    """So many Poisson-sampled Gaussian steps, by their exact rate and inverse noise multiplier."""

    rate: Fraction
    mean: Fraction
    count: int

    def rounded(self, side: int) -> SampledGaussian:
        """With floats on the side: more of either is more of a loss."""
        near = float_above if side > 0 else float_below
        return SampledGaussian(near(self.rate), near(self.mean))


@dataclass(frozen=True, slots=True, kw_only=True)
class Scope:
    """About which epsilon and ln delta bounds are made, and how.

    tilt: how fast ln delta falls; share: of the bulk's deviation, where losses begin to be jumps;
    room: the share of epsilon by which those that are asked may exceed it; fine: of the grid.
    """

    near: float
    goal: float
    tilt: float
    share: float
    room: float
    fine: float


@dataclass(frozen=True, slots=True, kw_only=True)
class _Term:
    """Jumps on the grid over one bulk.

    error: relative, of each mass; shift: what losses lie lower by than told; beyond: the mass after
    the last node, from above; far: that of one beyond the grid with any others, from below.
    """

    bulk: Bulk
    masses: Array
    error: float
    shift: float = 0.0
    beyond: float = 0.0
    far: float = 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Side:
    """delta from one side: the jumps' masses on a grid over the profiles of bulks.

    loss: of what lies beyond the grid, from below; rest: what infinite losses, or numbers of jumps
    that are left out, may add.
    """

    side: int
    terms: tuple[_Term, ...]
    h: float
    rest: float
    loss: float = math.inf

    def at(self, epsilon: float) -> float:
        """A bound of delta at an epsilon.

        Source      docs/proofs/jumps.md, Theorems 1 and 2.
        """
        found = math.fsum(self._of(term, epsilon) for term in self.terms)
        return max(found * (1 + self.side * 2 * _U) + self.side * (self.rest + 1e-312), 0.0)

    def _of(self, term: _Term, epsilon: float) -> float:
        nodes: Array = self.h * np.arange(len(term.masses), dtype=np.float64)
        wrong = 4 * _U * (epsilon + float(nodes[-1]) + term.shift)
        low, high = term.bulk.sides(epsilon + term.shift - nodes - self.side * wrong, term.masses)
        loose = term.error + 2 * len(nodes) * _U
        found = float(term.masses @ (high if self.side > 0 else low)) * (1 + self.side * loose)
        found += term.beyond
        if term.far:  # other jumps only add to it
            wrong += 4 * _U * self.loss
            beyond = np.array([epsilon + term.shift - self.loss + wrong])
            found += term.far * float(term.bulk.sides(beyond, np.ones(1))[0][0]) * (1 - 8 * _U)
        factor = math.exp(term.bulk.log_mass + self.side * term.bulk.mass_error)
        return found * factor * (1 + self.side * 8 * _U)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Layout:
    """Steps rounded to a side, their mark and their grid: nodes 0, h, 2 h, ..., the last of jumps.

    low: outputs below about this are hardly ever marked; top: no epsilon above is asked.
    """

    step: SampledGaussian
    count: int
    mark: Mark
    h: float
    nodes: int
    low: float
    last: int
    top: float
    scope: Scope

    def bulk(self, fewer: int) -> Bulk | None:
        """The steps, so many left out, given that none jumps."""
        return bulk_of(
            self.step,
            self.count,
            fewer=fewer,
            mark=self.mark,
            log_delta=self.scope.goal,
            top=self.top,
            tilt=self.scope.tilt,
        )

    def jumps_below(self) -> Jumps | None:
        """The jumps of a step on the grid, from below."""
        return jumps_below(
            self.step,
            self.mark,
            h=self.h,
            nodes=self.nodes,
            low=self.low,
            last=self.last,
            log_times=math.log(self.count),
        )

    def share(self, number: int) -> float:
        """The sets of so many steps, over their sequences with repetition."""
        return math.prod(1 - one / self.count for one in range(number))  # within 3 u a factor


def sides_of(steps: Steps, scope: Scope) -> dict[int, Side | None]:
    """Bounds of delta from above, 1, and from below, -1; None where a grid does not serve.

    Bound       both.
    Source      docs/proofs/jumps.md, Theorems 1 and 2.
    """
    high, low = (_layout(steps, side, scope) for side in (1, -1))
    above, most = _above(high)
    if steps.count >= MANY:
        return {1: above, -1: _below_many(low)}
    return {1: above, -1: None if above is None else _below(low, most)}


def _layout(steps: Steps, side: int, scope: Scope) -> _Layout:
    step, count = steps.rounded(side), steps.count
    place, deviation = _start(step, count, scope.share, scope.near)
    mark = Mark(place, min(max(_WIDTH / step.mean, 0.1), 0.3))
    cap = (1 + scope.room) * scope.near + _BEYOND * deviation
    top = cap + max(0.3 * scope.near, 25 / scope.tilt)
    below = math.ceil(top * _BELOW / (step.base + step.offset_at(place)))
    below = min(below, _SEVERAL if count < MANY else _MANY)
    nodes = min(max(math.ceil(top * scope.tilt / scope.fine), below, _FEW), _MANY)
    return _Layout(
        step=step,
        count=count,
        mark=mark,
        h=top / nodes,
        nodes=nodes,
        low=place - mark.width * math.sqrt(2 * (_UNMARKED + math.log(count))),
        last=math.ceil(cap / (top / nodes)),
        top=cap,
        scope=scope,
    )


def _above(layout: _Layout) -> tuple[Side | None, int]:
    """The side, and how many jumps matter; of few steps the first numbers have their own bulks."""
    below, count = layout.bulk(0), layout.count
    if below is None:
        return None, 0
    jumps = jumps_above(
        layout.step,
        layout.mark,
        h=layout.h,
        nodes=layout.nodes,
        low=layout.low,
        last=layout.last,
        lift=0.0,
        log_times=math.log(count),
    )
    if jumps is None:
        return None, 0
    # each over the probability that a step does not jump
    one = below.log_mass / count - below.mass_error
    masses = jumps.masses * (math.exp(-one) * (1 + 8 * _U))
    lifted = raised(masses, below.lift, h=layout.h)
    any_number = None if lifted is None else compound(lifted)
    if lifted is None or any_number is None:
        return None, 0
    terms, most = [_shared(below, any_number, 1.0)], 0
    if count < MANY:
        terms, most = [], _ALONE - 1
        several = Compound(masses, 0.0, 0.0)
        for number in range(1, _ALONE):
            bulk = layout.bulk(number)
            if bulk is None:
                return None, 0
            several = several if number == 1 else times(masses, several, over=number)
            terms.append(_shared(bulk, several, layout.share(number) * (1 + 32 * _U)))
        shared, most = _several(layout, below, lifted, any_number)
        terms.append(shared)
    return Side(side=1, terms=tuple(terms), h=layout.h, rest=jumps.far[0]), most


def _shared(bulk: Bulk, jumps: Compound, share: float) -> _Term:
    return _Term(
        bulk=bulk, masses=jumps.masses * share, error=jumps.error, beyond=jumps.beyond * share
    )


def _several(layout: _Layout, bulk: Bulk, jumps: Array, any_number: Compound) -> tuple[_Term, int]:
    """No jump, and those whose numbers have no bulk of their own; and how many matter."""
    nodes = layout.h * np.arange(len(jumps), dtype=np.float64)
    profile = bulk.sides(layout.scope.near - nodes, any_number.masses)[1]
    faint = _FAINT * float(any_number.masses @ profile)
    found = np.zeros(len(jumps))
    found[0] = 1.0
    error = beyond = 0.0
    one = Compound(jumps, 0.0, 0.0)
    several, number = one, 1
    last = max(min(_MOST, int(_WORK / len(jumps) ** 2)), _ALONE)
    while True:
        if number >= _ALONE:
            share = layout.share(number) * (1 + 32 * _U)
            found, beyond = found + several.masses * share, beyond + several.beyond * share
            error = several.error + 8 * _U
        number += 1
        several = times(jumps, several, over=number)
        little = float(several.masses @ profile) < faint
        if number >= _ALONE and (little or number == last):
            break
    # the rest of the exponential series after a power is at most the next one times all of it
    rest = times(several.masses, any_number)
    whole = float(any_number.masses.sum()) + any_number.beyond
    beyond += rest.beyond + several.beyond * whole * (1 + 1e-9)
    error = max(error, rest.error + several.error) + 8 * _U
    return _Term(bulk=bulk, masses=found + rest.masses, error=error, beyond=beyond), number - 1


def _below_many(layout: _Layout) -> Side | None:
    """Any number of jumps over the bulk of all steps but as many as jumps may be."""
    count, scope = layout.count, layout.scope
    jumps = layout.jumps_below()
    if jumps is None:
        return None
    mean = (float(jumps.masses.sum()) + jumps.far[0]) * (1 + 1e-9)
    most, log_rest = log_more(mean, scope.goal + _MORE)
    bulk = layout.bulk(most)
    fewer = (count - most) / count * (1 - 8 * _U)
    several = compound(jumps.masses * fewer)
    if bulk is None or several is None or most >= count:
        return None
    far = jumps.far[0] * fewer * (1 - 4 * _U)
    far *= float(several.masses.sum()) * (1 - several.error - 2 * len(several.masses) * _U)
    term = _Term(
        bulk=bulk,
        masses=several.masses,
        error=several.error,
        shift=most * (jumps.drift + bulk.lift) * (1 + 8 * _U),
        far=far,
    )
    rest = math.exp(log_rest)
    return Side(side=-1, terms=(term,), h=layout.h, rest=rest, loss=jumps.far[1])


def _below(layout: _Layout, most: int) -> Side | None:
    """At most so many jumps; the first numbers over their own bulks, the others over the last."""
    count = layout.count
    jumps = layout.jumps_below()
    if jumps is None or most >= count:
        return None
    none = layout.bulk(0)
    if none is None:
        return None
    # each over the probability that a step does not jump
    over = math.exp(-none.log_mass / count - none.mass_error) * (1 - 8 * _U)
    masses, beyond = jumps.masses * over, jumps.far[0] * over
    terms: list[_Term] = []
    several = Compound(np.ones(1), 0.0, 0.0)
    shared = np.zeros(len(jumps.masses))
    far = 0.0
    for number in range(most + 1):
        alone = number < _ALONE
        last = alone or number == most
        bulk = none if number == 0 else layout.bulk(number) if last else None
        if bulk is None and last:
            return None
        share = layout.share(number) * (1 - 32 * _U)
        if number:
            # one of the jumps, any, beyond the grid
            loose = several.error + 2 * len(several.masses) * _U + 8 * _U
            far += beyond * share * float(several.masses.sum()) * (1 - loose)
            several = (
                Compound(masses, 0.0, 0.0) if number == 1 else times(masses, several, over=number)
            )
        shared = shared + several.masses * share if number >= _ALONE else several.masses * share
        if bulk is not None:
            lift = 0.0 if alone else bulk.lift
            terms.append(
                _Term(
                    bulk=bulk,
                    masses=shared,
                    error=several.error + 8 * _U,
                    shift=number * (jumps.drift + lift) * (1 + 8 * _U),
                    far=far,
                )
            )
            far = 0.0
            shared = np.zeros(len(jumps.masses))
    return Side(side=-1, terms=tuple(terms), h=layout.h, rest=0.0, loss=jumps.far[1])


def _start(step: SampledGaussian, count: int, share: float, near: float) -> tuple[float, float]:
    """The place of the mark, and about the deviation of the sum of the losses below it."""
    mu = step.mean

    def deviation(place: float) -> float:
        raised = math.exp(min(mu * mu, 600.0)) * float(ndtr(place - 2 * mu))
        least = float(ndtr(place)) - 2 * float(ndtr(place - mu))
        return step.rate * math.sqrt(count * max(raised + least, 1e-300))

    place = rare_place(step, count, math.log(_OFTEN))
    for _ in range(100):
        if step.base + step.offset_at(place) >= min(share * deviation(place), 0.3 * near):
            break
        place += 0.2
    return place, deviation(place)
