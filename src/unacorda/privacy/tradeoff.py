"""Trade-off curves: how well any test can tell two neighbors apart, from both sides."""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

import functools
import itertools
import math
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from fractions import Fraction
from typing import Final, TypeAlias

from unacorda import checks
from unacorda.balls import Ball, ball, float_down, float_up, greatest, least, normal_cdf
from unacorda.errors import InvalidParameter
from unacorda.privacy import conversions
from unacorda.privacy.estimates import Interval
from unacorda.privacy.guarantees import GDP, ZCDP, ApproxDP, Guarantee, PureDP, RenyiDP
from unacorda.privacy.rounding import root_up

Real: TypeAlias = float | Fraction
Point: TypeAlias = tuple[Real, Real]
"""(epsilon, delta), with epsilon 0 or above."""
Place: TypeAlias = tuple[Ball, Ball, Ball]
"""(t, upper, lower): 1 - delta at t = e^epsilon, from both sides."""
Line: TypeAlias = tuple[Ball, Ball, Ball]
"""(t, 1 - delta there, slope)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TradeoffCurve:
    r"""beta(alpha): the least miss rate of any test with false-alarm rate alpha.

    No test has a lower miss rate. The curve is the largest one that is convex and its own inverse,
    since the attacker may test either neighbor against the other. If both orders of the worst pair
    have the same curve, tests reach it everywhere. If they differ (Poisson samples), tests reach it
    at some alpha, and mixtures of both orders at the others. It falls from beta(0) = 1 -
    delta(infinity) to beta(1) = 0, and is beta(alpha) = sup over real epsilon of 1 - delta(epsilon)
    - e^epsilon alpha. It is stored as proved bounds. `of_guarantee` and
    `of_profile` make one.

    Source: Dong, Roth, Su 2022, Prop. 2.5 and Prop. 2.12 (curves and profiles are dual); Wasserman
    and Zhou 2010 (the curve of one pair).

    Attributes
    ----------
    promised
        (epsilon, delta) pairs that the mechanism satisfies: upper bounds of its privacy profile.
        They bound the curve from below, which is the safe side.
    attained
        (epsilon, delta) pairs that are lower bounds of the profile. They bound the curve from
        above.
    exact
        Whether the lines of the promised pairs are the curve itself, and not only a bound.
    mu_squared, part
        Instead of pairs, the curve of mu-GDP that need not hold on a mass `part`.
    mu_squared_attained
        A smaller one, whose curve bounds this one from above. Without it the curve is exact.

    Examples
    --------
    >>> curve = TradeoffCurve.of_guarantee(GDP(1))
    >>> round(curve.beta(alpha=0.05), 6), round(curve.advantage, 6)
    (0.740489, 0.382925)
    """

    promised: tuple[Point, ...] = ()
    attained: tuple[Point, ...] = ()
    exact: bool = False
    mu_squared: Fraction | None = None
    part: Fraction = Fraction(0)
    mu_squared_attained: Fraction | None = None

    def __post_init__(self) -> None:
        for name in ("promised", "attained"):
            points = tuple(_point(name, point) for point in getattr(self, name))
            object.__setattr__(self, name, tuple(sorted(points)))
        if self.mu_squared is not None and self.mu_squared < 0:
            raise InvalidParameter("mu_squared", self.mu_squared, expected="0 or above")
        if self.mu_squared_attained is not None and not (
            self.mu_squared is not None and 0 <= self.mu_squared_attained <= self.mu_squared
        ):
            raise InvalidParameter(
                "mu_squared_attained",
                self.mu_squared_attained,
                expected="a number from 0 to mu_squared",
            )
        checks.demand(0 <= self.part <= 1, "part", self.part, expected="a number from 0 to 1")

    @staticmethod
    def of_guarantee(guarantee: Guarantee) -> TradeoffCurve:
        """The least curve that a guarantee allows.

        It is exact for PureDP, ApproxDP and GDP. For ZCDP and RenyiDP it is a lower bound, by their
        profile on a grid of epsilons, and the upper bound is only the trivial 1 - alpha.
        """
        match guarantee:
            case PureDP(epsilon):
                return _of_pair(epsilon, Fraction(0))
            case ApproxDP(epsilon, delta):
                return _of_pair(epsilon, delta)
            case GDP(mu_squared, delta):
                return TradeoffCurve(mu_squared=mu_squared, part=delta)
            case ZCDP() | RenyiDP():
                return TradeoffCurve(promised=tuple(_profile(guarantee)))

    @staticmethod
    def of_profile(promised: Iterable[Point], *, attained: Iterable[Point] = ()) -> TradeoffCurve:
        """The curve between certified upper and lower bounds of a privacy profile.

        promised: (epsilon, delta) pairs that are satisfied; attained: pairs that are lower bounds.
        More pairs bring the two sides closer.

        >>> curve = TradeoffCurve.of_profile([(0.0, 0.5), (1.0, 0.1)])
        >>> round(curve.beta(alpha=0.1), 6)  # 1 - 0.1 - e/10
        0.628172
        """
        return TradeoffCurve(promised=tuple(promised), attained=tuple(attained))

    def beta(self, *, alpha: Real) -> float:
        """Return the least miss rate of any test with a false-alarm rate.

        Bound: lower, rounded down.

        Parameters
        ----------
        alpha
            The false-alarm rate, from 0 to 1.

        Returns
        -------
        float
            A rate.

        Raises
        ------
        InvalidParameter
            For a number outside [0, 1].
        """
        return self.beta_interval(alpha=alpha).lower

    def beta_interval(self, *, alpha: Real) -> Interval:
        """Return lower and upper bounds of the curve at a false-alarm rate.

        Parameters
        ----------
        alpha
            The false-alarm rate, from 0 to 1.

        Returns
        -------
        Interval
            Bounds of the least miss rate.

        Raises
        ------
        InvalidParameter
            For a number outside [0, 1].
        """
        rate = _share("alpha", alpha)
        if self.mu_squared is not None:
            return self._gaussian(rate)
        lower = self._promised(rate)
        upper = lower if self.exact else _highest(self.attained, self.promised, rate)
        trivial = ball(1 - Fraction(rate))
        return Interval(float_down(lower), min(float_up(trivial), max(float_up(upper), 0.0)))

    def true_positive_rate(self, *, fpr: Real) -> float:
        """Return the largest true-positive rate of any test with a false-positive rate.

        Bound: upper, rounded up.

        Parameters
        ----------
        fpr
            The false-positive rate, from 0 to 1.

        Returns
        -------
        float
            A rate.

        Raises
        ------
        InvalidParameter
            For a number outside [0, 1].
        """
        rate = _share("fpr", fpr)
        if self.mu_squared is None:
            return min(1.0, float_up(1 - self._promised(rate)))
        return min(1.0, float_up(1 - ball(self._gaussian(rate).lower)))

    def reconstruction(self, *, baseline: Real) -> float:
        """Return the largest chance to guess a record from the release.

        It is 1 - beta(baseline): that an attack on the release succeeds is an event, which has the
        probability `baseline` where the record had no part in the release.

        Bound: upper, rounded up.
        Source: Hayes, Mahloujifar, Balle 2023, arXiv:2302.07225, Theorem 2; Kaissis et al. 2023,
        arXiv:2307.03928 (by trade-off curves).

        Parameters
        ----------
        baseline
            From 0 to 1: the probability that the best guess without the release is a success. The
            caller decides what a success is: the exact record, or one near enough.

        Returns
        -------
        float
            A probability.

        Raises
        ------
        InvalidParameter
            For a number outside [0, 1].

        Examples
        --------
        >>> curve = TradeoffCurve.of_guarantee(PureDP(1))
        >>> round(curve.reconstruction(baseline=0.01), 4)  # e times as often
        0.0272
        """
        return self.true_positive_rate(fpr=_share("baseline", baseline))

    @property
    def advantage(self) -> float:
        """The largest gap between true- and false-positive rate of any test: delta(0).

        Bound: upper, rounded up; at a false-alarm rate where alpha = beta.
        """
        if self.mu_squared is not None:
            mu = root_up(self.mu_squared)
            rest = conversions.approx_dp_delta_from_gdp(mu, epsilon=0.0)
            return float_up(ball(conversions.delta_of_mixture(rest, part=self.part)))
        return min(1.0, float_up(self._delta(ball(1.0))))

    def bayes_risk(self, *, prior: Real) -> float:
        """Return the error probability of the best guess whether a person is in the data.

        It is the least (1 - prior) alpha + prior beta(alpha) over all alpha, which is
        m (1 - delta(log((1 - m)/m))) with m = min(prior, 1 - prior).

        Bound: lower, rounded down.

        Parameters
        ----------
        prior
            From 0 to 1: the probability that the person is in the data.

        Returns
        -------
        float
            A probability.

        Raises
        ------
        InvalidParameter
            For a number outside [0, 1].

        Examples
        --------
        >>> curve = TradeoffCurve.of_guarantee(PureDP(1))
        >>> round(curve.bayes_risk(prior=0.5), 4)  # 1 / (1 + e)
        0.2689
        """
        share = Fraction(_share("prior", prior))
        rarer = min(share, 1 - share)
        if rarer == 0:
            return 0.0
        odds = (1 - rarer) / rarer
        if self.mu_squared is None:
            return float_down(ball(rarer) * (1 - self._delta(ball(odds))))
        mu = root_up(self.mu_squared)
        epsilon = float_down(ball(odds).log())  # a smaller epsilon has a larger delta: safe
        rest = conversions.approx_dp_delta_from_gdp(mu, epsilon=epsilon)
        delta = conversions.delta_of_mixture(rest, part=self.part)
        return float_down(ball(rarer) * ball(1 - delta))

    def _promised(self, rate: Real) -> Ball:
        """The curve that the promised pairs allow."""
        return greatest([ball(0), *(_line(point, rate) for point in self.promised)])

    def _delta(self, odds: Ball) -> Ball:
        """The profile at epsilon = log(odds) >= 0, from above: delta is convex in e^epsilon.

        Each pair (t, d) stands also for its mirror image (1/t, 1 - (1 - d)/t).
        """
        return _on(_hull(self.promised), odds)

    def _gaussian(self, rate: Real) -> Interval:
        assert self.mu_squared is not None
        rest = 1 - self.part
        attained = self.mu_squared if self.mu_squared_attained is None else self.mu_squared_attained
        if rate == 0:
            return Interval(float_down(ball(rest)), float_up(ball(rest)))
        if Fraction(rate) >= rest:
            return Interval(0.0, 0.0)
        tail = Fraction(rate) / rest
        z = ball(2).sqrt() * (2 * ball(min(tail, 1 - tail))).erfcinv()
        z = z if 2 * tail <= 1 else -z  # erfcinv keeps no digits near 2
        mu, reached = ball(self.mu_squared).sqrt(), ball(attained).sqrt()
        share = ball(rest)
        return Interval(
            float_down(share * normal_cdf(z - mu)),
            min(1.0, float_up(share * normal_cdf(z - reached))),
        )


def _of_pair(epsilon: Fraction, delta: Fraction) -> TradeoffCurve:
    """The curve of the worst (epsilon, delta)-DP mechanism: its profile is known everywhere."""
    return TradeoffCurve(promised=((epsilon, delta),), exact=True)


def _profile(guarantee: ZCDP | RenyiDP) -> Iterator[Point]:
    """(epsilon, delta) pairs of a guarantee, close enough that the curve looks smooth."""
    if isinstance(guarantee, ZCDP):
        rho = float(guarantee.rho)
        largest = rho + 2 * math.sqrt(rho * 700) + 1e-6
    else:
        largest = float(guarantee.epsilon) + 700 / (float(guarantee.alpha) - 1)
    for step in range(129):
        epsilon = largest * (step / 128) ** 2
        if isinstance(guarantee, ZCDP):
            rest = conversions.approx_dp_delta_from_zcdp(guarantee.rho, epsilon=epsilon)
            yield epsilon, conversions.delta_of_mixture(rest, part=guarantee.delta)
        else:
            yield (
                epsilon,
                conversions.approx_dp_delta_from_renyi(
                    guarantee.epsilon, alpha=guarantee.alpha, epsilon=epsilon
                ),
            )


def _line(point: Point, rate: Real) -> Ball:
    """The curve of one (epsilon, delta)-DP pair: max(1 - d - t a, (1 - d - a)/t, 0)."""
    epsilon, rest, a = ball(point[0]), 1 - ball(point[1]), ball(rate)
    steep, flat = rest - epsilon.exp() * a if rate else rest, (rest - a) * (-epsilon).exp()
    # Of e^epsilon far beyond all floats Arb knows nothing.
    return greatest([ball(0), flat, *([steep] if steep.is_finite() else [])])


def _hull(promised: tuple[Point, ...]) -> list[tuple[Ball, Ball]]:
    """The least convex, falling profile over e^epsilon that the pairs and their mirrors allow.

    The pair (t, d), t = e^epsilon, says (1/t, 1 - (1 - d)/t) too; delta is 1 at t = 0. A pair that
    is not for certain on the hull is left out: so the profile is never too low.
    """
    points = [(Fraction(epsilon), ball(delta)) for epsilon, delta in promised]
    mirrored = [(-epsilon, 1 - (1 - d) * ball(-epsilon).exp()) for epsilon, d in points]
    hull = [(ball(0), ball(1))]
    last: Fraction | None = None
    for epsilon, d in sorted([*mirrored, *points], key=lambda point: (point[0], float(point[1]))):
        t = ball(epsilon).exp()
        if not d < hull[-1][1] or epsilon == last or not t.is_finite():
            continue  # delta does not rise
        last = epsilon
        while len(hull) > 1:
            (t1, d1), (t2, d2) = hull[-2:]
            if (d2 - d1) * (t - t1) < (d - d1) * (t2 - t1):
                break
            hull.pop()
        hull.append((t, d))
    return hull


def _highest(attained: tuple[Point, ...], promised: tuple[Point, ...], rate: Real) -> Ball:
    """Not below 1 - delta(t) - t a over all t = e^epsilon, a the rate."""
    a = ball(rate)
    return greatest(kept - t * a for t, kept in _corners(attained, promised))


@functools.lru_cache(maxsize=64)  # a drawing asks one curve at many rates
def _corners(
    attained: tuple[Point, ...], promised: tuple[Point, ...]
) -> tuple[tuple[Ball, Ball], ...]:
    """Points (t, k): 1 - delta is nowhere above the lines that join them, nor above 1 behind them.

    delta is convex in t = e^epsilon, it falls, and by no more than t rises. So between two places
    it lies above the straight line through the two before, and above that through the two behind:
    each goes through the lower end of the nearer place and the upper end of the farther one.
    """
    corners: list[tuple[Ball, Ball]] = []
    places = _places(attained, promised)
    for at, (t, _, _) in enumerate(places):
        ends = [place[0] for place in places[at + 1 : at + 2]]
        lines = _distinct(_lines_between(places, at), t)
        between = (x for x in _meetings(lines) if not (x < t or any(x > end for end in ends)))
        corners += (
            (x, least((kept + slope * (x - x0)).upper() for x0, kept, slope in lines))
            for x in [t, *between, *ends]
        )
    return tuple(corners)


def _lines_between(places: list[Place], at: int) -> Iterator[Line]:
    """Lines above 1 - delta between a place and the next one."""
    t, most, _ = places[at]
    yield t, most.upper(), ball(1)
    if at > 0:
        before, _, less = places[at - 1]
        yield t, most.upper(), ((most - less) / (t - before)).upper()
    if at + 1 == len(places):
        yield t, ball(1), ball(0)
        return
    end, most, _ = places[at + 1]
    yield end, most.upper(), ball(0)
    if at + 2 < len(places):
        behind, _, less = places[at + 2]
        yield end, most.upper(), ((less - most) / (behind - end)).lower()


def _distinct(lines: Iterable[Line], t: Ball) -> list[Line]:
    """The lines but those all but parallel to one that is lower at t; fewer are bounds, too."""

    def height(line: Line) -> float:
        x0, kept, slope = line
        return float(kept + slope * (t - x0))

    found: list[Line] = []
    for line in sorted((line for line in lines if line[2].is_finite()), key=height):
        slopes = ((line[2], slope) for _, _, slope in found)
        if all(abs(one - two) > _APART * abs(one).max(abs(two)) for one, two in slopes):
            found.append(line)
    return found


def _places(attained: tuple[Point, ...], promised: tuple[Point, ...]) -> list[Place]:
    """(t, upper, lower): 1 - delta from both sides at the pairs and their mirrors; 0 at t = 0."""
    hull, exact = _hull(promised), {Fraction(epsilon): delta for epsilon, delta in promised[::-1]}
    known: dict[Fraction, tuple[Ball, Ball]] = {}
    for point, delta in attained:
        epsilon = Fraction(point)
        t, back, low = ball(epsilon).exp(), ball(-epsilon).exp(), ball(delta)
        if not t.is_finite():
            continue
        high = min(ball(exact.get(epsilon, 1)), _on(hull, t))  # either is a bound
        most, less = 1 - low, 1 - greatest([low, high])
        for place, above, below in ((epsilon, most, less), (-epsilon, most * back, less * back)):
            so_far = known.get(place, (above, below))
            known[place] = so_far[0].min(above), so_far[1].max(below)
    none = ball(0)
    places, last = [(none, none, none)], None
    for epsilon in sorted(known):
        most, less = known[epsilon]
        if last is None or epsilon - last > _APART:
            places.append((ball(epsilon).exp(), most, less))
            last = epsilon
        else:  # all but the same place; 1 - delta rises, so this bounds it there, too
            places[-1] = (places[-1][0], places[-1][1].min(most), places[-1][2])
    return places


def _on(hull: list[tuple[Ball, Ball]], t: Ball) -> Ball:
    """The profile at t = e^epsilon, from above; both lines where it may be on either."""
    found = [] if t < hull[-1][0] else [hull[-1][1]]
    found += (
        d1 + (d2 - d1) * (t - t1) / (t2 - t1)
        for (t1, d1), (t2, d2) in itertools.pairwise(hull)
        if not (t < t1 or t > t2)
    )
    return greatest(found)


_APART: Final = 2.0**-64
"""Places and slopes that differ by less, relatively, count as one."""


def _meetings(lines: list[Line]) -> Iterator[Ball]:
    """Where two lines, each (x, value at x, slope), meet."""
    for (x, d, slope), (x2, d2, slope2) in itertools.combinations(lines, 2):
        yield (d2 - d + slope * x - slope2 * x2) / (slope - slope2)


def _share(name: str, value: Real) -> Real:
    number = value if isinstance(value, Fraction) else checks.finite(**{name: value})
    checks.demand(0 <= number <= 1, name, value, expected="a number from 0 to 1")
    return number


def _point(name: str, point: Point) -> Point:
    expected = "pairs (epsilon, delta), epsilon 0 or above and delta from 0 to 1"
    try:
        epsilon, delta = point
    except (TypeError, ValueError):
        raise InvalidParameter(name, point, expected=expected) from None
    if not isinstance(epsilon, Fraction):
        epsilon = checks.finite(epsilon=epsilon)
    checks.demand(epsilon >= 0, name, point, expected=expected)
    return epsilon, _share("delta", delta)
