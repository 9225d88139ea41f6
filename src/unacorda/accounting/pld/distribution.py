"""Privacy loss distributions of one direction, composed lazily and bounded from both sides."""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

import math
import numbers
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import ArrayLike, NDArray

from unacorda import checks
from unacorda.accounting.arguments import Events, check_relation, priceable
from unacorda.accounting.pld import sources
from unacorda.accounting.pld.parts import parts_of
from unacorda.accounting.pld.planning import LARGEST
from unacorda.accounting.pld.stages import Part, Sums
from unacorda.accounting.profiles.boxes import Array, box
from unacorda.accounting.rules.base import Direction
from unacorda.errors import InvalidParameter
from unacorda.numerics import narrow_bracket
from unacorda.privacy.conversions.arguments import share
from unacorda.privacy.estimates import Interval
from unacorda.privacy.neighbors import AddRemove, Neighbors

# Where a falling bound of delta meets a goal: few evaluations, each end one that was asked.

_FAR = 1e6


def least_holding(delta_at: Callable[[float], float], goal: float) -> float:
    """An epsilon >= 0 with delta_at(epsilon) <= goal, just above one without; inf if none is found.

    Bound       upper: it is one that was asked.
    Source      narrow_bracket.
    """
    first = delta_at(0.0)
    if first <= goal:
        return 0.0
    low, high = (0.0, first), (1e-3, delta_at(1e-3))
    while high[1] > goal:
        low, high = high, (high[0] * 4, delta_at(high[0] * 4))
        if high[0] > _FAR:
            return math.inf
    return narrow_bracket(delta_at, goal, low, high)[1]


def largest_holding(delta_at: Callable[[float], float], goal: float, *, below: float) -> float:
    """An epsilon in [0, below] with delta_at(epsilon) > goal, just below one without; 0 if none.

    Bound       lower: it is one that was asked.
    Source      as least_holding.
    """
    top = min(below, _FAR)
    high = (top, delta_at(top))
    if high[1] > goal:
        return top
    distance = 1e-13 * max(top, 1e-3)
    while distance < top:
        low = (top - distance, delta_at(top - distance))
        if low[1] > goal:
            return narrow_bracket(delta_at, goal, low, high)[0]
        high = low
        distance *= 4
    for _ in range(12):  # what is proved may be nothing again far below
        low = (high[0] / 2, delta_at(high[0] / 2))
        if low[1] > goal:
            return narrow_bracket(delta_at, goal, low, high)[0]
        high = low
    return 0.0


_COARSEST = 1 << 12
_MOST_LOSS = 700.0  # e^700 is a float still


class LossMasses(NamedTuple):
    """Losses on a grid, ascending, their masses, and the mass of infinite loss."""

    losses: Array
    masses: Array
    infinity: float


@dataclass(frozen=True, slots=True, kw_only=True)
class PrivacyLossDistribution:
    """The loss ln(P/Q) under P of one direction of a composition, enclosed.

    Both directions are needed for a guarantee: build two, and take `worst_delta`,
    or `worst_epsilon` of them. Composition only lists parts; the grid is laid when
    a question is asked, fine where that question needs it.

    parts: pairs and how often; grid: nodes over the window that matters, 2^8 to 2^21; the finer,
    the narrower the interval and the slower (one second and 200 MB at 2^20); accuracy: grids are
    made no finer once an interval is so narrow, relative to its upper end, or absolutely where it
    is an epsilon below 1; confidence: 1 for distributions that are known, less for those estimated
    from samples.

    Bound       both, for the composition of the parts, each chosen before the first answer; with
                `confidence` below 1 only with that probability.
    Source      docs/proofs/pld.md; Koskela, Jälkö, Honkela 2020; Doroshenko et al. 2022.

    >>> from unacorda.privacy.events import Laplace
    >>> loss = PrivacyLossDistribution.from_event(Laplace(noise_multiplier=20.0) * 100)
    >>> loss.epsilon_interval(1e-6).width < 1e-4
    True
    """

    parts: tuple[Part, ...] = field(repr=False)
    grid: int = 1 << 17
    accuracy: float = 1e-6
    confidence: float = 1.0

    def __post_init__(self) -> None:
        whole = isinstance(self.grid, numbers.Integral) and not isinstance(self.grid, bool)
        if not whole or not 256 <= self.grid <= LARGEST // 2:
            raise InvalidParameter("grid", self.grid, expected="a whole number, 2^8 to 2^21")
        checks.demand(self.parts, "parts", self.parts, expected="at least one pair")

    @classmethod
    def from_event(
        cls,
        event: Events,
        *,
        direction: Direction = "remove",
        neighbors: Neighbors = AddRemove,
        grid: int = 1 << 17,
    ) -> PrivacyLossDistribution:
        """The loss of an event, compositions included; see `curve_of` for which are known."""
        whole = priceable(event)
        if direction not in ("remove", "add"):
            raise InvalidParameter("direction", direction, expected="'remove' or 'add'")
        check_relation(whole, neighbors)
        return cls(parts=parts_of(whole, direction=direction, neighbors=neighbors), grid=grid)

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
            return cls(parts=(Part(curve, curve, 1),), grid=grid)
        try:
            epsilons, deltas = profile
        except (TypeError, ValueError):
            expected = "a function of epsilon, or a pair (epsilons, deltas)"
            raise InvalidParameter("profile", profile, expected=expected) from None
        above, below = sources.sampled(epsilons, deltas)
        return cls(parts=(Part(above, below, 1),), grid=grid)

    @classmethod
    def from_scipy(
        cls, p: Any, q: Any, *, points: ArrayLike | None = None, grid: int = 1 << 17
    ) -> PrivacyLossDistribution:
        """The loss of two frozen laws of scipy.stats, P and Q.

        points: of continuous laws, an ascending list such that ln(p/q) is monotone between
        neighbors; left out, quantiles of both are taken, which is fine enough for unimodal laws.
        Discrete laws on whole numbers need none. SciPy's numbers are believed to 1e-12.
        """
        kind = _kind_of_law("p", p)
        if _kind_of_law("q", q) != kind:
            raise InvalidParameter("q", q, expected=f"a {kind} distribution, like p")
        if kind == "discrete":
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
        sure = checks.probability(confidence=confidence)
        above, below = sources.empirical(losses, confidence=sure)
        return cls(parts=(Part(above, below, 1),), grid=grid, confidence=sure)

    def compose(self, other: PrivacyLossDistribution) -> PrivacyLossDistribution:
        """The loss of both on the same data: of one direction, and fixed beforehand.

        The finer grid serves; confidences fail at most together.
        """
        if not isinstance(other, PrivacyLossDistribution):
            raise InvalidParameter("other", other, expected="a PrivacyLossDistribution")
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

    def delta_interval(self, epsilon: float | Fraction, *, enough: float = -1.0) -> Interval:
        """Bounds of the hockey-stick divergence at a finite epsilon, which may be negative.

        enough: once delta is known to be below this, the grid is made no finer.
        """
        if not isinstance(epsilon, Fraction):
            checks.finite(epsilon=epsilon)
        ends = box(epsilon)
        asked, last = float(ends.lower), float(ends.upper)
        least = -math.expm1(last) * (1 - 1e-15) if last < 0 else 0.0
        sums = Sums(self.parts, epsilon=asked)
        if sums.single is not None:
            above, below = sums.single
            low = float(below(np.asarray([last])).lower[0])
            return Interval(max(low, least), float(above(np.asarray([asked])).upper[0]))

        def ask(grid: int) -> Interval:
            above = sums.above(grid)
            return Interval(sums.below(grid, above).delta_below(last), above.delta_above(asked))

        return self._refined(ask, Interval(least, 1.0), enough=enough)

    def delta(self, epsilon: float) -> float:
        """An upper bound of delta at epsilon."""
        return self.delta_interval(epsilon).upper

    def epsilon_interval(
        self, delta: float | Fraction, *, enough: float = -1.0, only_upper: bool = False
    ) -> Interval:
        """Bounds of the least epsilon >= 0 at which delta suffices; inf where none does.

        delta: from 0 to 1. At delta = 0 the lower end is 0 wherever the grid cannot tell.
        enough: once epsilon is known to be below this, the grid is made no finer. only_upper: the
        lower end is 0, which takes a fifth of the time.
        """
        share(delta=delta)
        ends = box(delta)
        least, most = float(ends.lower), float(ends.upper)
        sums = Sums(self.parts, log_delta=math.log(max(least, 1e-320)))
        if sums.single is not None:
            one, other = sums.single
            return Interval(*falling_below(lambda x: (other(x).lower, one(x).upper), (least, most)))

        def ask(grid: int) -> Interval:
            above = sums.above(grid)
            upper = least_holding(above.delta_above, least)
            lower = 0.0
            # steep tilts may show nothing but the largest loss
            for ease in () if only_upper else (1.0, 0.5, 0.2):
                if lower == 0.0 < upper:
                    below = sums.below(grid, above, ease=ease)
                    lower = largest_holding(below.delta_below, most, below=upper)
            return Interval(min(lower, upper), upper)

        return self._refined(ask, Interval(0.0, math.inf), enough=enough, unit=1.0)

    def epsilon(self, delta: float) -> float:
        """An upper bound of the least epsilon >= 0 at which delta suffices."""
        return self.epsilon_interval(delta).upper

    @property
    def pmf(self) -> LossMasses:
        """The composed loss on a grid, rounded to the pessimistic side, for looking at.

        Round-off of about 1e-15 is in every mass; ask `delta` for bounds.
        """
        found = Sums(self.parts, epsilon=0.0).above(self.grid)
        losses, masses = found.masses()
        return LossMasses(losses, masses, found.infinity)

    @property
    def _both(self) -> bool:
        """Whether both ends are of the same pairs, so that fine grids make them meet."""
        return all(part.above is part.below for part in self.parts)

    def _refined(
        self,
        ask: Callable[[int], Interval],
        known: Interval,
        *,
        enough: float = -1.0,
        unit: float = 0.0,
    ) -> Interval:
        """The intersection of answers on finer and finer grids, until one is fine enough.

        unit: answers below it are to be as accurate as this one.
        Where the ends are of different pairs a gap stays; then, as errors fall with the square
        of the step, what the last refinement gained tells what the next one can. An answer whose
        upper end is `enough` is fine enough: another direction is worse.
        """
        grid, last = min(self.grid, _COARSEST), 0
        low, high = known
        while True:
            found = ask(grid)
            gains = (found.lower - low, high - found.upper)
            low, high = max(low, found.lower), min(high, found.upper)
            if high <= max(low, enough):
                return Interval(min(low, high), high)
            wanted = self.accuracy * max(abs(high), unit)
            excess = (high - low) / wanted if wanted > 0 and high < math.inf else math.inf
            if last and not self._both:
                # a gap that no grid closes is no reason to know its lower end much better
                missing = max(gains[1], min(gains[0], gains[0] * 50 * wanted / (high - low)))
                missing *= 2 / ((grid / last) ** 2 - 1)
                excess = min(excess, missing / wanted if wanted > 0 else math.inf)
            if grid >= self.grid or excess <= 1:
                return Interval(min(low, high), high)
            more = 1 << math.ceil(math.log2(min(max(1.2 * math.sqrt(excess), 4), 8)))
            grid, last = min(self.grid, grid * more), grid


def _kind_of_law(name: str, law: Any) -> str:
    """Discrete or continuous, by what SciPy's frozen law can do."""
    kind = getattr(law, "dist", None)
    for method, word in (("pmf", "discrete"), ("pdf", "continuous")):
        if callable(getattr(kind, method, None)):
            return word
    expected = "a frozen law of one number of scipy.stats, such as scipy.stats.norm(0, 1)"
    raise InvalidParameter(name, law, expected=expected)


def _directions(losses: Any) -> Sequence[PrivacyLossDistribution]:
    expected = "a list of PrivacyLossDistribution, one for each direction"
    several = list(losses) if isinstance(losses, list | tuple) else []
    if several and all(isinstance(one, PrivacyLossDistribution) for one in several):
        return several
    raise InvalidParameter("losses", losses, expected=expected)


def worst_delta(
    losses: Sequence[PrivacyLossDistribution], *, epsilon: float | Fraction
) -> Interval:
    """Bounds of the larger delta of several directions.

    Bound       both: the larger of the lower ends, the larger of the upper ends.
    """
    low = high = 0.0
    for loss in _directions(losses):
        found = loss.delta_interval(epsilon, enough=low)
        low, high = max(low, found.lower), max(high, found.upper)
    return Interval(low, high)


def worst_epsilon(
    losses: Sequence[PrivacyLossDistribution],
    *,
    delta: float | Fraction,
    only_upper: bool = False,
) -> Interval:
    """Bounds of the larger epsilon of several directions.

    only_upper: the lower end is 0.

    Bound       both: the larger of the lower ends, the larger of the upper ends.
    """
    low = high = 0.0
    for loss in _directions(losses):
        found = loss.epsilon_interval(delta, enough=low, only_upper=only_upper)
        low, high = max(low, found.lower), max(high, found.upper)
    return Interval(low, high)


_Array: TypeAlias = NDArray[np.float64]
_LARGEST = 1e6
_START = np.concatenate(([0.0], np.geomspace(1e-7, _LARGEST, 27)))
_NEAR_GUESS = 2.0 ** -np.array([5.0, 10.0, 16.0, 24.0, 34.0, 46.0])  # from a guess, in brackets


def falling_below(
    bounds: Callable[[_Array], tuple[_Array, _Array]],
    level: tuple[float, float],
    *,
    start: _Array = _START,
) -> tuple[float, float]:
    """An interval that holds the least x from 0 on at which a falling curve is at most a level.

    bounds: (lower, upper) of the curve at an array of x, asked from 0 to 10^6, beyond which the
    second end is inf; level: two floats, 0 or above, between which the level lies; start: ascending
    from 0, where to look first.

    Bound       both: at the first, if above 0, the curve is above the level; at the second not.
    Source      a bracket of each end, cut at many points at once, most near the secant's guess.

    >>> low, high = falling_below(lambda x: (np.exp(-x), np.exp(-x)), (0.5, 0.5))
    >>> low <= np.log(2) <= high < low * (1 + 1e-14)
    True
    """
    points = start
    ends = [(0.0, math.inf), (0.0, math.inf)]  # (above the level, at most the level)
    heights = [(1.0, 0.0), (1.0, 0.0)]
    goals = (max(level), min(level))
    for _ in range(60):
        for side, values in enumerate(bounds(points)):
            ends[side], heights[side] = _bracket(
                points, values, goals[side], ends[side], heights[side]
            )
        least = 0.02 * (ends[1][1] - ends[0][0])
        wide = [side for side in (0, 1) if not _narrow(*ends[side], least)]
        if not wide:
            break
        widest = max(wide, key=lambda side: ends[side][1] - ends[side][0])
        points = _inside(ends[widest], heights[widest], goals[widest])
    return ends[0][0], ends[1][1]


def _narrow(low: float, high: float, least: float) -> bool:
    return high - low <= max(3e-15 * high, least) or high == math.inf or high <= 1e-300


def _bracket(
    points: _Array,
    values: _Array,
    level: float,
    ends: tuple[float, float],
    heights: tuple[float, float],
) -> tuple[tuple[float, float], tuple[float, float]]:
    """The narrower bracket, and the curve at its ends."""
    (low, high), (top, bottom) = ends, heights
    under = np.flatnonzero((values <= level) & (points < high))
    if under.size:
        high, bottom = float(points[under[0]]), float(values[under[0]])
    over = np.flatnonzero((values > level) & (points > low) & (points < high))
    if over.size:
        low, top = float(points[over[-1]]), float(values[over[-1]])
    return (low, high), (top, bottom)


def _inside(ends: tuple[float, float], heights: tuple[float, float], level: float) -> _Array:
    """Points inside a bracket: a few all over it, and more near where a chord meets the level."""
    (low, high), (top, bottom) = ends, heights
    if low == 0.0:
        return np.geomspace(high * 1e-12, high, 16)[:-1]
    width = high - low
    spread = low + width * np.linspace(0.0, 1.0, 7)[1:-1]
    if bottom > 0 and level > 0 and math.isfinite(top):
        part = math.log(top / level) / math.log(top / bottom)
    else:
        part = (top - level) / max(top - bottom, 1e-300)
    guess = low + min(max(part, 0.0), 1.0) * width
    found: _Array = np.concatenate(
        (spread, [guess], guess - width * _NEAR_GUESS, guess + width * _NEAR_GUESS)
    )
    found.sort()
    return found[(found > low) & (found < high)]
