"""The profile of a bulk of bounded losses at many epsilons, by contours at many abscissas."""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from fractions import Fraction

import numpy as np

from unacorda.accounting.contour.jumps import piece_of
from unacorda.accounting.contour.plan import Curve, log_kappa, plan_at, whole_curve
from unacorda.accounting.contour.quadrature import Sum, within_cap
from unacorda.accounting.contour.sampled_gaussian import SampledGaussian as Law
from unacorda.accounting.contour.sampled_gaussian import sampled_gaussian
from unacorda.accounting.pld.capped_masses import Grid, tail_at
from unacorda.accounting.pld.sampled_cells import Mark, SampledGaussian
from unacorda.accounting.profiles.boxes import Array

__all__ = ["Bulk", "bulk_of"]

_U = 2.0**-53
_BEFORE, _APART = 6.5, 2.5  # deviations
_MOST_SUMS, _TAME = 36, 4.0
_FAINT = -60.0
_WORK = 4_000_000
_SPARED = 1e-12
_RARE, _FEWEST = 20.0, 8.0
_UNTILTED = Grid(step=1.0, tilt=0.0, remove=True, most=1)


@dataclass(frozen=True, slots=True)
class _Stretch:
    """A contour that serves up to an epsilon; its values are in the unit e^log_unit."""

    end: float
    made: Sum
    log_unit: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Bulk:
    """So many steps given that none jumps, made a law: bounds of its profile.

    log_mass, mass_error: ln of the probability that none of them jumps; log_null: a bound of
    ln E e^-L of all of them; lift: that of one, at least 0; start: where the stretches begin;
    orders, cumulants: for Chernoff's bounds, the latter from above.
    """

    log_mass: float
    mass_error: float
    log_null: float
    lift: float
    slack: float
    start: float
    stretches: tuple[_Stretch, ...]
    orders: Array
    cumulants: Array

    def sides(self, epsilons: Array, weights: Array) -> tuple[Array, Array]:
        """Bounds of the profile at these epsilons, from below and from above.

        weights: those that matter little, under Chernoff's bound, are not looked at closely.

        Source      docs/proofs/jumps.md, Lemma 5.
        """
        upper = np.ones_like(epsilons)
        # the mean of 1 - e^(epsilon - L) is below the profile, as the function is convex
        lower = np.maximum(-np.expm1(epsilons + self.log_null), 0.0) * (1 - 8 * _U)
        turned = np.multiply.outer(epsilons, self.orders)
        level = self.cumulants + 1e-9 - turned * (1 - 1e-12 * np.sign(turned))
        chernoff = np.exp(np.minimum(level.min(axis=1, initial=0.0), 0.0)) + self.slack
        upper = np.minimum(upper, chernoff)
        heavy = weights * upper
        heavy = heavy > _SPARED * heavy.max()
        first = self.start
        for stretch in self.stretches:
            here = np.flatnonzero(heavy & (epsilons >= first) & (epsilons <= stretch.end))
            if here.size:
                found = self._within(stretch, epsilons[here])
                lower[here] = np.maximum(lower[here], found[0])
                upper[here] = np.minimum(upper[here], found[1])
            first = stretch.end
        if self.stretches:  # in e^epsilon the slope is nowhere below -E e^-L
            known = float(self._within(self.stretches[0], np.array([self.start]))[1][0])
            before = epsilons < self.start
            rise = -np.expm1(np.minimum(epsilons - self.start, 0.0))
            rise = rise * math.exp(self.start + self.log_null) * (1 + 1e-14)
            upper = np.where(before, np.minimum(upper, known + rise), upper)
        return lower, np.minimum(upper, 1.0)

    @staticmethod
    def _within(stretch: _Stretch, epsilons: Array) -> tuple[Array, Array]:
        low, high = stretch.made.over(epsilons)
        unit, loose = math.exp(stretch.log_unit), 1e-15 * (4 + abs(stretch.log_unit))
        return low * unit * (1 - loose), high * unit * (1 + loose)


def bulk_of(
    step: SampledGaussian,
    count: int,
    *,
    fewer: int,
    mark: Mark,
    log_delta: float,
    top: float,
    tilt: float,
) -> Bulk | None:
    """The steps of a removed unit, `fewer` of them left out, given that no noisy copy is above.

    log_delta: about what matters; top: no epsilon above is asked; tilt: about which abscissas
    matter. log_mass speaks of all `count`. None where floats do not serve.

    Bound       both.
    Source      docs/proofs/jumps.md, Lemma 5.
    """
    whole = sampled_gaussian(
        noise_multiplier=1 / Fraction(step.mean),
        rate=Fraction(step.rate),
        count=count,
        remove=True,
        log_delta=log_delta,
        steps=count + 1,
    )
    if whole is None:
        return None
    reach = math.sqrt(2 * (32.0 + math.log(count + 1) - log_delta))
    # what lies farther beyond the mark is rarer than what matters
    often = tail_at(step, mark.place, _UNTILTED)[0] + math.log(count)
    ended = math.sqrt(2 * max(_RARE + often - log_delta, _FEWEST))
    law = piece_of(whole, -math.inf, mark.place, width=mark.width, reach=reach, ended=ended)
    if law is None or law.cut is None:
        return None
    cut, law = law.cut, replace(law, count=count - fewer)
    one = -cut.drift + cut.drift_error  # ln(1 - drift) is below - drift
    log_null = law.count * one + 4 * _U * abs(law.count * one)
    shape = whole_curve([law])
    start, stretches = _stretches(law, shape, log_null, log_delta=log_delta, top=top, tilt=tilt)
    orders = shape.c[shape.c * math.sqrt(float(shape.k2[0])) > 0.3]
    cumulants = np.array([law.log_m_upper(float(c)) for c in orders])
    cumulants = np.where(np.isnan(cumulants), np.inf, cumulants + log_kappa(orders))
    log_mass = count * cut.log_norm
    return Bulk(
        log_mass=log_mass,
        mass_error=count * cut.norm_error + 16 * _U * (1 + abs(log_mass)),
        log_null=log_null,
        lift=max(one, 0.0),
        slack=law.slack * (1 + 1e-9),
        start=start,
        stretches=stretches,
        orders=orders,
        cumulants=cumulants,
    )


def _stretches(
    law: Law, shape: Curve, log_null: float, *, log_delta: float, top: float, tilt: float
) -> tuple[float, tuple[_Stretch, ...]]:
    """Where contours begin, and those that follow each other from there."""
    place = np.maximum.accumulate(shape.epsilon)
    deviation = math.sqrt(max(float(shape.k2[0]), 1e-300))
    start = float(shape.k1[0]) - _BEFORE * deviation
    found: list[_Stretch] = []
    begin, first = start, deviation
    for _ in range(_MOST_SUMS):
        middle = begin + 0.5 * _APART * deviation
        index = int(np.searchsorted(place, middle))
        if not 0 < index < place.size or begin > top:
            break
        wide = math.sqrt(max(float(shape.k2[index]), 1e-300))
        if not 0.5 < wide / first < _TAME:
            break
        end = begin + _APART * min(wide, 2 * deviation)
        c, level = _saddle(shape, 0.5 * (begin + end))
        last = min(_saddle(shape, end)[1], level)
        if level < max(log_delta + _FAINT, -700.0) or c > 40 * tilt + 40 / deviation:
            break
        plan = plan_at(
            [law],
            shape,
            c=c,
            epsilon=0.5 * (begin + end),
            log_delta=min(last, 0.0),
            careful=True,
        )
        made = None
        if plan is not None:
            made = within_cap([law], plan, log_unit=level, log_null=log_null, work=_WORK)
        if made is None:
            break
        found.append(_Stretch(end, made, level))
        begin, deviation = end, wide
    return start, tuple(found)


def _saddle(shape: Curve, epsilon: float) -> tuple[float, float]:
    place = np.maximum.accumulate(shape.epsilon)
    c = math.exp(float(np.interp(epsilon, place, np.log(shape.c))))
    return c, float(np.interp(epsilon, place, np.minimum(shape.log_delta, 0.0)))
