"""Privacy loss distributions of one direction, composed lazily and bounded from both sides."""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from tacet import checks
from tacet.accounting.pld import sources
from tacet.accounting.pld.convolution import Sum, total
from tacet.accounting.pld.grid import law_above, law_below
from tacet.accounting.pld.planning import LARGEST, Plan, plan, sketch
from tacet.accounting.profiles.bounds import Direction, curve_of
from tacet.accounting.profiles.boxes import Array
from tacet.accounting.profiles.curves import Curve
from tacet.errors import InvalidParameter
from tacet.privacy.estimates import Interval
from tacet.privacy.events import Composed, Event, Repeated
from tacet.privacy.neighbors import AddRemove, Neighbors

__all__ = ["LossMasses", "Part", "PrivacyLossDistribution", "worst_delta", "worst_epsilon"]


class Part(NamedTuple):
    """One pair, `times` times: curves whose upper and lower bounds enclose its profile."""

    above: Curve
    below: Curve
    times: int


class LossMasses(NamedTuple):
    """Losses on a grid, ascending, their masses, and the mass of infinite loss."""

    losses: Array
    masses: Array
    infinity: float


@dataclass(frozen=True, slots=True, kw_only=True)
class PrivacyLossDistribution:
    """The loss ln(P/Q) under P of one direction of a composition, enclosed.

    Both directions are needed for a guarantee: build two, and take `worst_delta` or
    `worst_epsilon` of them. Composition only lists parts; the grid is laid when a question is
    asked, fine where that question needs it.

    parts: pairs and how often; grid: nodes over the window that matters, 2^8 to 2^21; the finer,
    the narrower the interval and the slower (one second and 200 MB at 2^20); confidence: 1 for
    distributions that are known, less for those estimated from samples.

    Bound       both, for the composition of the parts, each chosen before the first answer; with
                `confidence` below 1 only with that probability.
    Source      docs/proofs/pld.md; Koskela, Jälkö, Honkela 2020; Doroshenko et al. 2022.

    >>> from tacet.privacy.events import Laplace
    >>> loss = PrivacyLossDistribution.from_event(Laplace(noise_multiplier=20.0) * 100)
    >>> loss.epsilon_interval(1e-6).width < 1e-4
    True
    """

    parts: tuple[Part, ...] = field(repr=False)
    grid: int = 1 << 17
    confidence: float = 1.0

    def __post_init__(self) -> None:
        if isinstance(self.grid, bool) or not 256 <= self.grid <= LARGEST // 2:
            raise InvalidParameter("grid", self.grid, expected="a whole number, 2^8 to 2^21")
        if not self.parts:
            raise InvalidParameter("parts", self.parts, expected="at least one pair")

    @classmethod
    def from_event(
        cls,
        event: Event,
        *,
        direction: Direction = "remove",
        neighbors: Neighbors = AddRemove,
        grid: int = 1 << 17,
    ) -> PrivacyLossDistribution:
        """The loss of an event, compositions included; see profile_bounds for which are known."""
        events = event.parts if isinstance(event, Composed) else (event,)
        parts = []
        for one in events:
            alone, count = (one.event, one.count) if isinstance(one, Repeated) else (one, 1)
            curve = curve_of(alone, direction=direction, neighbors=neighbors)
            parts.append(Part(curve, curve, count))
        return cls(parts=tuple(parts), grid=grid)

    @classmethod
    def from_pmfs(
        cls, p: ArrayLike, q: ArrayLike, *, grid: int = 1 << 17
    ) -> PrivacyLossDistribution:
        """The loss of two laws on one finite set, given by their masses in the same order.

        >>> loss = PrivacyLossDistribution.from_pmfs([0.75, 0.25], [0.25, 0.75])
        >>> round(loss.delta(0.0), 12)
        0.5
        """
        curve = sources.finite_pair(p, q)
        return cls(parts=(Part(curve, curve, 1),), grid=grid)

    @classmethod
    def from_profile(
        cls,
        profile: Callable[[Array], Any] | tuple[ArrayLike, ArrayLike],
        *,
        error: float = 0.0,
        grid: int = 1 << 17,
    ) -> PrivacyLossDistribution:
        """The loss whose profile is a caller's function, or passes through sampled points.

        profile: a function of an array of epsilon that returns delta, or (lower, upper), each
        within a relative `error`; or (epsilons, deltas), exact points, between which the bounds
        part. See `sources.from_function` and `sources.sampled`. Both are believed.
        """
        if callable(profile):
            curve = sources.from_function(profile, error=checks.non_negative(error=error))
        else:
            curve = sources.sampled(*profile)
        return cls(parts=(Part(curve, curve, 1),), grid=grid)

    @classmethod
    def from_scipy(
        cls, p: Any, q: Any, *, points: ArrayLike | None = None, grid: int = 1 << 17
    ) -> PrivacyLossDistribution:
        """The loss of two frozen laws of scipy.stats, P and Q.

        points: of continuous laws, an ascending list such that ln(p/q) is monotone between
        neighbours; left out, quantiles of both are taken, which is fine enough for unimodal laws.
        Discrete laws on whole numbers need none. SciPy's numbers are believed to 1e-12.
        """
        if hasattr(p.dist, "pmf"):
            above, below = sources.lattice_laws(p, q)
        else:
            above, below = sources.cells(p, q, points=sources.quantiles(p, q, points))
        return cls(parts=(Part(above, below, 1),), grid=grid)

    @classmethod
    def from_samples(
        cls, losses: ArrayLike, *, confidence: float = 0.99, grid: int = 1 << 17
    ) -> PrivacyLossDistribution:
        """An estimate from independent draws of ln(P/Q) under P; no guarantee of privacy.

        Both ends of every interval hold together with this confidence, over the draws; with n of
        them delta is known to about sqrt(ln(2/(1 - confidence))/(2 n)) only, times the count.
        """
        share = checks.probability(confidence=confidence)
        above, below = sources.empirical(losses, confidence=share)
        return cls(parts=(Part(above, below, 1),), grid=grid, confidence=share)

    def compose(self, other: PrivacyLossDistribution) -> PrivacyLossDistribution:
        """The loss of both on the same data: of one direction, and fixed beforehand.

        The finer grid serves; confidences fail at most together.
        """
        confidence = max(0.0, self.confidence + other.confidence - 1.0)
        return PrivacyLossDistribution(
            parts=self.parts + other.parts,
            grid=max(self.grid, other.grid),
            confidence=confidence,
        )

    def self_compose(self, count: int) -> PrivacyLossDistribution:
        """The loss of `count` independent runs of this composition."""
        times = checks.positive_integer(count=count)
        parts = tuple(Part(above, below, many * times) for above, below, many in self.parts)
        return PrivacyLossDistribution(parts=parts, grid=self.grid, confidence=self.confidence)

    def delta_interval(self, epsilon: float) -> Interval:
        """Bounds of the hockey-stick divergence at a finite epsilon, which may be negative."""
        asked = checks.finite(epsilon=epsilon)
        if self._single:
            point = np.asarray([asked])
            part = self.parts[0]
            return Interval(float(part.below(point).lower[0]), float(part.above(point).upper[0]))
        above, below = self._sums(epsilon=asked)
        upper = 1.0 if above is None else above.delta_above(asked)
        lower = 0.0 if below is None else below.delta_below(asked)
        lower = max(lower, -math.expm1(asked) * (1 - 1e-15)) if asked < 0 else lower
        return Interval(min(lower, upper), upper)

    def delta(self, epsilon: float) -> float:
        """An upper bound of delta at epsilon."""
        return self.delta_interval(epsilon).upper

    def epsilon_interval(self, delta: float) -> Interval:
        """Bounds of the least epsilon >= 0 at which delta suffices; inf where none does.

        delta: from 0 to 1. At delta = 0 the lower end is 0 wherever the grid cannot tell.
        """
        if isinstance(delta, bool) or not 0 <= delta <= 1:
            raise InvalidParameter("delta", delta, expected="a number from 0 to 1")
        if self._single:
            part = self.parts[0]
            upper = _least(lambda x: float(part.above(np.asarray([x])).upper[0]) <= delta)
            lower = _least(lambda x: float(part.below(np.asarray([x])).lower[0]) <= delta)
            return Interval(min(lower, upper), upper)
        goal = math.log(max(float(delta), 1e-320))
        above, below = self._sums(log_delta=goal)
        upper, lower = math.inf, 0.0
        if above is not None:
            upper = _least(lambda x: above.delta_above(x) <= delta)
        if below is not None:
            lower = _most(lambda x: below.delta_below(x) > delta, below=upper)
        return Interval(min(lower, upper), upper)

    def epsilon(self, delta: float) -> float:
        """An upper bound of the least epsilon >= 0 at which delta suffices."""
        return self.epsilon_interval(delta).upper

    @property
    def pmf(self) -> LossMasses:
        """The composed loss on a grid, rounded to the pessimistic side, for looking at.

        Round-off of about 1e-15 is in every mass; ask `delta` for bounds.
        """
        parts = [(part.above, part.times) for part in self.parts]
        drawn = sketch(parts)
        where = plan(parts, drawn, grid=self.grid, epsilon=0.0)
        found = _total(parts, where, side=1)
        assert found is not None
        losses, masses = found.masses()
        return LossMasses(losses, masses, found.infinity)

    @property
    def _single(self) -> bool:
        return len(self.parts) == 1 and self.parts[0].times == 1

    def _sums(
        self, *, epsilon: float | None = None, log_delta: float | None = None
    ) -> tuple[Sum | None, Sum | None]:
        parts = [(part.above, part.times) for part in self.parts]
        where = plan(parts, sketch(parts), grid=self.grid, epsilon=epsilon, log_delta=log_delta)
        under = [(part.below, part.times) for part in self.parts]
        return _total(parts, where, side=1), _total(under, where, side=-1)


def worst_delta(losses: Sequence[PrivacyLossDistribution], *, epsilon: float) -> Interval:
    """Bounds of the larger delta of several directions.

    Bound       both: the larger of the lower ends, the larger of the upper ends.
    """
    found = [loss.delta_interval(epsilon) for loss in losses]
    return Interval(max(one.lower for one in found), max(one.upper for one in found))


def worst_epsilon(losses: Sequence[PrivacyLossDistribution], *, delta: float) -> Interval:
    """Bounds of the larger epsilon of several directions.

    Bound       both: the larger of the lower ends, the larger of the upper ends.
    """
    found = [loss.epsilon_interval(delta) for loss in losses]
    return Interval(max(one.lower for one in found), max(one.upper for one in found))


def _total(parts: Sequence[tuple[Curve, int]], where: Plan, *, side: int) -> Sum | None:
    build = law_above if side > 0 else law_below
    laws = [
        (build(curve, step=where.step, first=first, last=last), count)
        for (curve, count), (first, last) in zip(parts, where.nodes, strict=True)
    ]
    return total(laws, step=where.step, window=where.window, side=side)


def _least(holds: Callable[[float], bool]) -> float:
    """A number >= 0 at which the condition holds, just above one where it does not; else inf."""
    if holds(0.0):
        return 0.0
    low, high = 0.0, 1e-3
    while not holds(high):
        low, high = high, high * 4
        if high > 1e6:
            return math.inf
    return _between(low, high, lambda x: not holds(x))[1]


def _most(holds: Callable[[float], bool], *, below: float) -> float:
    """A number >= 0 at which the condition holds, just below one where it fails; 0 if none is."""
    high = min(below, 1e6)
    if holds(high):
        return high
    distance = 1e-13 * max(high, 1e-3)
    while distance < high:
        low = high - distance
        if holds(low):
            return _between(low, high, holds)[0]
        distance *= 4
    return 0.0


def _between(low: float, high: float, left: Callable[[float], bool]) -> tuple[float, float]:
    """Bisection to 14 digits: left(low) holds, left(high) does not."""
    while high - low > 1e-14 * high:
        middle = (low + high) / 2
        if middle in (low, high):
            break
        low, high = (middle, high) if left(middle) else (low, middle)
    return low, high
