"""Calibration: the parameter of a family of mechanisms that just meets a privacy target.

It is the only calibrator of the package, and rounds to the safe side. It knows nothing about noise:
a family is any function from one number to an event, and the event's price decides.
"""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

import itertools
import math
import numbers
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from fractions import Fraction
from functools import partial
from typing import Any, Literal, TypeAlias, overload

import numpy as np
from numpy.typing import NDArray

from unacorda.accounting.arguments import priceable
from unacorda.accounting.prices import gdp_price, pure_epsilon, pure_price, renyi, rho, zcdp_price
from unacorda.accounting.rules.base import units_replaced
from unacorda.checks import Number, demand, exact, positive
from unacorda.deadlines import check_deadline
from unacorda.errors import InvalidParameter, UnsupportedEvent
from unacorda.extras import later
from unacorda.privacy.conversions import gdp_from_pure
from unacorda.privacy.events import Event
from unacorda.privacy.events.fields import keep
from unacorda.privacy.guarantees import GDP, ZCDP, ApproxDP, Guarantee, PureDP, RenyiDP, share
from unacorda.privacy.neighbors import AddRemove, Neighbors

accountant = later("unacorda.accounting.accountant")

_REALS = (1e-9, 1e12)
_WHOLE = (1, 10**12)
_FARTHEST = 10**300


@dataclass(frozen=True, slots=True, kw_only=True)
class Calibration:
    """A parameter that meets a target, and its distance from failing.

    parameter: its certified cost is `cost`, at most `level`. fails: the nearest tried parameter
    that costs more than `level`; None if even the end of the range passes. cost, level: in the
    measure of the target (GDP: mu squared). evaluations: how many events were priced.
    """

    parameter: float
    fails: float | None
    cost: Cost
    level: Fraction
    evaluations: int


def calibration(
    family: Callable[[Any], Event],
    *,
    target: Target | Number,
    find: Literal["least", "most"] = "least",
    whole: bool = False,
    within: tuple[float, float] | None = None,
    guess: float | None = None,
    tolerance: float = 1e-9,
    neighbors: Neighbors = AddRemove,
    price: Callable[[Event], Cost] | None = None,
) -> Calibration:
    """`calibrate`, with the cost, the nearest parameter that fails and the number of evaluations.

    Bound       upper: `cost` is at most `level`.
    Source      none needed beyond the price's.

    >>> from unacorda.privacy.events import Gaussian
    >>> from unacorda.privacy.guarantees import ZCDP
    >>> found = calibration(lambda noise: Gaussian(noise_multiplier=noise), target=ZCDP(0.02))
    >>> found.cost <= found.level, found.fails < 5 <= found.parameter
    (True, True)
    """
    cost_of, level = _measure(target, neighbors, price)
    low, high = _range(within, whole=whole)
    usual = 64.0 if whole else 1.0
    start = usual if guess is None else positive(guess=guess)
    width = positive(tolerance=tolerance)
    demand(find in ("least", "most"), "find", find, expected="'least' or 'most'")
    demand(1e-14 <= width < 1, "tolerance", tolerance, expected="from 1e-14 to below 1")
    demand(callable(family), "family", family, expected="a function from a number to an event")
    costs: dict[float, Cost] = {}

    def attempt(parameter: float) -> Trial:
        check_deadline()
        event = family(parameter)
        cost = costs[parameter] = _real(cost_of(priceable(event) if price is None else event))
        passes = cost <= level  # exact, also between a float and a Fraction; False for NaN
        return Trial(parameter=parameter, passes=passes, height=_height(cost, level))

    found = _Search(attempt, find == "least", whole, (low, high), width)
    found.run(round(start) if whole else start)
    if found.passing is None:
        assert found.failing is not None
        end = found.failing.parameter
        reached = float(costs[end])
        raise InvalidParameter(
            "target",
            target,
            expected=(
                f"one that the family can meet: at the end of the range, {end}, it still costs "
                f"{reached:.6g}, and {float(level):.6g} is allowed (widen within=, or check find=)"
            ),
        )
    best = found.passing.parameter
    if found.failing is None and costs[best] < next(iter(costs.values())):
        expected = f"the other end: {find!r} was sought, and the cost fell all the way to {best}"
        raise InvalidParameter("find", find, expected=expected)
    return Calibration(
        parameter=best,
        fails=None if found.failing is None else found.failing.parameter,
        cost=costs[best],
        level=level,
        evaluations=found.evaluations,
    )


@overload
def calibrate(
    family: Callable[[float], Event],
    *,
    target: Target | Number,
    find: Literal["least", "most"] = ...,
    whole: Literal[False] = ...,
    within: tuple[float, float] | None = ...,
    guess: float | None = ...,
    tolerance: float = ...,
    neighbors: Neighbors = ...,
    price: Callable[[Event], Cost] | None = ...,
) -> float: ...
@overload
def calibrate(
    family: Callable[[int], Event],
    *,
    target: Target | Number,
    find: Literal["least", "most"] = ...,
    whole: Literal[True],
    within: tuple[float, float] | None = ...,
    guess: float | None = ...,
    tolerance: float = ...,
    neighbors: Neighbors = ...,
    price: Callable[[Event], Cost] | None = ...,
) -> int: ...
def calibrate(
    family: Callable[[Any], Event],
    *,
    target: Target | Number,
    find: Literal["least", "most"] = "least",
    whole: bool = False,
    within: tuple[float, float] | None = None,
    guess: float | None = None,
    tolerance: float = 1e-9,
    neighbors: Neighbors = AddRemove,
    price: Callable[[Event], Cost] | None = None,
) -> float:
    """Finds the least noise, or the most steps, with which a family of events meets a target.

    Bound: safe side: the certified cost at the result is at most the target.

    Source: none needed beyond the price's; secant and inverse parabola on logarithms.

    Parameters
    ----------
    family
        From a positive number to an event, such as
        ``lambda noise: Gaussian(noise_multiplier=noise) * 100``.
    target
        Any guarantee, Advantage(...) or TruePositiveRate(...); a number, where `price` is given:
        the most that price(event) may be.
    find
        "least" where larger parameters are more private (noise), "most" where they are less (steps,
        rates, epsilons).
    whole
        Whether the parameter is an integer, then passed as int.
    within
        The range that is searched, ends included: 1e-9 to 1e12, for integers 1 to 10^12.
    guess
        Where to begin, 1 or for integers 64; sets the time taken.
    tolerance
        The relative width to which a float is found.
    neighbors
        The relation that the target speaks of.
    price
        A certified upper bound of what an event costs, instead of the accountant's.

    Returns
    -------
    float, or int where whole
        A parameter that was priced and meets the target, for any family. If the cost is monotone,
        no parameter better by more than the tolerance does. If the whole range passes, its end is
        returned.

    Raises
    ------
    InvalidParameter
        If the search finds no parameter that meets the target, or if `find` has the wrong
        direction.
    UnsupportedEvent
        As the accountant; errors of the family pass through.

    Examples
    --------
    >>> from unacorda.privacy.events import Gaussian, Laplace
    >>> from unacorda.privacy.guarantees import ZCDP, PureDP
    >>> round(calibrate(lambda noise: Gaussian(noise_multiplier=noise), target=ZCDP(0.02)), 6)
    5.0
    >>> steps = lambda count: Laplace(noise_multiplier=10) * count
    >>> calibrate(steps, target=PureDP(1), find="most", whole=True)
    10
    """
    return calibration(
        family,
        target=target,
        find=find,
        whole=whole,
        within=within,
        guess=guess,
        tolerance=tolerance,
        neighbors=neighbors,
        price=price,
    ).parameter


def calibrate_grid(
    family: Callable[..., Event],
    *,
    target: Target | Number,
    over: Mapping[str, Iterable[Any]],
    find: Literal["least", "most"] = "least",
    whole: bool = False,
    within: tuple[float, float] | None = None,
    guess: float | None = None,
    tolerance: float = 1e-9,
    neighbors: Neighbors = AddRemove,
    price: Callable[[Event], Cost] | None = None,
) -> NDArray[np.float64] | NDArray[np.int64]:
    """Calibrates at every point of a grid; each search starts from an adjacent answer.

    Bound: safe side, at each point.

    Source: as calibrate.

    Parameters
    ----------
    family
        ``family(parameter, **point)``, with a point such as ``{"rate": 0.01, "steps": 100}``.
    target
        Any guarantee, Advantage(...) or TruePositiveRate(...); a number, where `price` is given:
        the most that price(event) may be.
    over
        The values of each other argument of the family, in the order of the axes.
    find
        "least" where larger parameters are more private (noise), "most" where they are less (steps,
        rates, epsilons).
    whole
        Whether the parameter is an integer, then passed as int.
    within
        The range that is searched, ends included: 1e-9 to 1e12, for integers 1 to 10^12.
    guess
        Where to begin, 1 or for integers 64; sets the time taken.
    tolerance
        The relative width to which a float is found.
    neighbors
        The relation that the target speaks of.
    price
        A certified upper bound of what an event costs, instead of the accountant's.

    Returns
    -------
    numpy.ndarray
        One axis for each entry of `over`; of int64 where whole, else of float64.

    Raises
    ------
    InvalidParameter
        For an empty axis, or if a point's target cannot be met.
    UnsupportedEvent
        As the accountant; errors of the family pass through.

    Examples
    --------
    >>> from unacorda.privacy.events import Gaussian
    >>> from unacorda.privacy.guarantees import ZCDP
    >>> def family(noise: float, steps: int):
    ...     return Gaussian(noise_multiplier=noise) * steps
    >>> calibrate_grid(family, target=ZCDP(0.5), over={"steps": [1, 4, 9]}).round(6).tolist()
    [1.0, 2.0, 3.0]
    """
    try:
        axes = {name: list(values) for name, values in over.items()}
    except (TypeError, AttributeError):
        expected = "a dict from names of arguments to the values that each takes"
        raise InvalidParameter("over", over, expected=expected) from None
    for name, values in axes.items():
        demand(values, f"over[{name!r}]", values, expected="at least one value")
    shape = tuple(len(values) for values in axes.values())
    found: NDArray[Any] = np.zeros(shape, dtype=np.int64 if whole else np.float64)
    for place in itertools.product(*map(range, shape)):
        point = {name: axes[name][at] for name, at in zip(axes, place, strict=True)}
        near = guess
        for axis in reversed(range(len(place))):
            if place[axis] > 0:
                before = (*place[:axis], place[axis] - 1, *place[axis + 1 :])
                near = found[before].item()
                break
        found[place] = calibration(
            partial(family, **point),
            target=target,
            find=find,
            whole=whole,
            within=within,
            guess=near,
            tolerance=tolerance,
            neighbors=neighbors,
            price=price,
        ).parameter
    return found


def _measure(
    target: Target | Number, neighbors: Neighbors, price: Callable[[Event], Cost] | None
) -> Measure:
    if price is None:
        if not isinstance(neighbors, Neighbors):
            raise InvalidParameter(
                "neighbors", neighbors, expected="AddRemove, ReplaceOne, ZeroOut"
            )
        return measure(target, neighbors=neighbors)
    if not isinstance(target, int | float | str | Fraction):
        raise InvalidParameter("target", target, expected="a number, where price= is given")
    demand(callable(price), "price", price, expected="a function from an event to a number")
    level = exact("target", target)
    demand(level >= 0, "target", target, expected="a number, 0 or above")
    return price, level


def _real(cost: Cost) -> Cost:
    if isinstance(cost, bool) or not isinstance(cost, numbers.Real):
        raise InvalidParameter("price", cost, expected="a function from an event to a number")
    return cost


def _range(within: tuple[float, float] | None, *, whole: bool) -> tuple[float, float]:
    if within is None:
        return _WHOLE if whole else _REALS
    expected = "(low, high) with 1e-300 <= low <= high <= 1e300" + (
        ", whole numbers" if whole else ""
    )
    try:
        low, high = (exact("within", end) for end in within)
        fits = 1 / Fraction(_FARTHEST) <= low <= high <= _FARTHEST and (
            not whole or low.denominator == high.denominator == 1
        )
    except (TypeError, ValueError):
        fits = False
    demand(fits, "within", within, expected=expected)
    return (int(low), int(high)) if whole else (float(low), float(high))


def _height(cost: Cost, level: Fraction) -> float:
    """log(cost / level), with infinities where one of them is 0 or infinite."""
    if math.isnan(cost) or cost == math.inf or level == 0:
        return -math.inf if cost == 0 else math.inf
    if cost <= 0:
        return -math.inf
    return _log(Fraction(cost)) - _log(level)


def _log(number: Fraction) -> float:
    return math.log(number.numerator) - math.log(number.denominator)


_USUALLY_STEEP = 2.0
"""How fast the cost is taken to change at first: Gaussian noise has a cost like 1 / noise^2."""
_LEAST_STEEP = 0.5
_FAR = math.log(4)
"""How far to go from a cost of 0 or inf, which says nothing of the distance."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Trial:
    """One evaluation: the parameter, whether it meets the target, and log(cost / level)."""

    parameter: float
    passes: bool
    height: float


@dataclass(slots=True)
class _Search:
    """A search for the parameter where trials change from failing to passing.

    attempt: the costly function. rising: whether trials pass above that parameter (True) or below
    it. whole: whether parameters are integers. within: ends of the range, both positive. tolerance:
    relative width at which to stop; for integers the width is one. passing, failing: the last
    trials on either side; None if there was none up to the end of the range. With logarithms on
    both axes costs are nearly linear, so the secant method is used. A side that stays in place is
    moved, and a bracket that does not shrink is halved.
    """

    attempt: Callable[[float], Trial]
    rising: bool
    whole: bool
    within: tuple[float, float]
    tolerance: float
    passing: Trial | None = None
    failing: Trial | None = None
    evaluations: int = 0

    def run(self, guess: float) -> None:
        """Search from this parameter on."""
        low, high = self.within
        self.evaluate(min(max(guess, low), high))
        self.bracket()
        if self.passing is not None and self.failing is not None:
            self.close_in()

    def evaluate(self, parameter: float) -> None:
        self.evaluations += 1
        trial = self.attempt(parameter)
        if trial.passes:
            self.passing = trial
        else:
            self.failing = trial

    def bracket(self) -> None:
        """Walk from the first trial towards the other side, in growing steps."""
        reach, steep, before = 0.02, _USUALLY_STEEP, None
        while (trial := self.failing if self.passing is None else self.passing) is not None:
            if self.passing is not None and self.failing is not None:
                return
            upwards = self.rising is not trial.passes
            end = self.within[1] if upwards else self.within[0]
            if trial.parameter == end:
                return
            if before is not None and math.isfinite(before.height - trial.height):
                run = math.log(trial.parameter) - math.log(before.parameter)
                steep = max(abs((trial.height - before.height) / run), _LEAST_STEEP)
            guessed = 1.1 * abs(trial.height) / steep if math.isfinite(trial.height) else _FAR
            step, before = min(guessed, 20.0) + reach, trial
            reach *= 4
            place = math.log(trial.parameter) + (step if upwards else -step)
            self.evaluate(self.rounded(place, towards=end, after=trial.parameter))

    def rounded(self, place: float, *, towards: float, after: float) -> float:
        """exp(place), an integer where wanted, strictly beyond `after` and not beyond `towards`."""
        parameter = math.exp(min(place, 700.0))
        if self.whole:
            parameter = math.ceil(parameter) if towards > after else math.floor(parameter)
            parameter = max(parameter, after + 1) if towards > after else min(parameter, after - 1)
        return min(parameter, towards) if towards > after else max(parameter, towards)

    def close_in(self) -> None:
        older: Trial | None = None
        since, width = 0, math.inf
        while True:
            passing, failing = self.passing, self.failing
            assert passing is not None
            assert failing is not None
            now = abs(math.log(passing.parameter / failing.parameter))
            if self.done(passing, failing):
                return
            if now <= width / 8:
                since, width = 0, now
            since += 1
            aim = None if since > 3 else _crossing(passing, failing, older)
            if since > 3:
                since, width = 0, now
            before = (passing, failing)
            self.evaluate(self.candidate(aim, passing, failing))
            older = before[0] if self.passing is not before[0] else before[1]

    def done(self, passing: Trial, failing: Trial) -> bool:
        if self.whole:
            return abs(passing.parameter - failing.parameter) <= 1
        low, high = sorted((passing.parameter, failing.parameter))
        return high - low <= self.tolerance * low or math.nextafter(low, high) == high

    def candidate(self, aim: float | None, passing: Trial, failing: Trial) -> float:
        """Where to look next: at the crossing, a little towards the side that is further away."""
        good, bad = math.log(passing.parameter), math.log(failing.parameter)
        if aim is None:
            aim = (good + bad) / 2
            to_passing = True
        else:
            to_passing = abs(good - aim) > abs(aim - bad)
        low, high = sorted((passing.parameter, failing.parameter))
        upwards = to_passing is self.rising
        if self.whole:
            place = math.exp(aim)
            whole = math.ceil(place) if upwards else math.floor(place)
            return min(max(whole, low + 1), high - 1)
        margin = self.tolerance / 4
        place = math.exp(aim + (margin if upwards else -margin))
        return min(max(place, low * (1 + margin)), high * (1 - margin))


def _crossing(passing: Trial, failing: Trial, older: Trial | None) -> float | None:
    """Where the line through the two sides is zero; with a third trial, the inverse parabola."""
    points = [
        (math.log(trial.parameter), trial.height)
        for trial in (passing, failing, older)
        if trial is not None and math.isfinite(trial.height)
    ]
    if len(points) < 2 or points[0][1] == points[1][1]:
        return None
    (x0, y0), (x1, y1) = points[:2]
    low, high = sorted((math.log(passing.parameter), math.log(failing.parameter)))
    places = []
    if len(points) == 3 and points[2][1] not in (y0, y1):
        x2, y2 = points[2]
        places.append(
            x0 * y1 * y2 / ((y0 - y1) * (y0 - y2))
            + x1 * y0 * y2 / ((y1 - y0) * (y1 - y2))
            + x2 * y0 * y1 / ((y2 - y0) * (y2 - y1))
        )
    places.append(x0 - y0 * (x1 - x0) / (y1 - y0))
    return next((place for place in places if low <= place <= high), None)


Cost: TypeAlias = float | Fraction
Measure: TypeAlias = tuple[Callable[[Event], Cost], Fraction]
"""A certified upper bound of what an event costs, and the most that it may cost."""


@dataclass(frozen=True, slots=True)
class Advantage:
    """No test may guess membership with a larger advantage (true minus false positive rate).

    at_most: from 0 to 1; half of 1 + at_most is the best accuracy on even odds.
    """

    at_most: Number

    def __post_init__(self) -> None:
        keep(self, at_most=share("at_most", self.at_most))


@dataclass(frozen=True, slots=True, kw_only=True)
class TruePositiveRate:
    """No test with false-positive rate `fpr` may find a larger share of the members.

    at_most, fpr: from 0 to 1, fpr at most at_most: guessing blindly finds as many.
    """

    at_most: Number
    fpr: Number

    def __post_init__(self) -> None:
        at_most, fpr = share("at_most", self.at_most), share("fpr", self.fpr)
        if fpr > at_most:
            expected = f"at least fpr={self.fpr}, which blind guessing reaches"
            raise InvalidParameter("at_most", self.at_most, expected=expected)
        keep(self, at_most=at_most, fpr=fpr)


Target: TypeAlias = Guarantee | Advantage | TruePositiveRate


def measure(target: object, *, neighbors: Neighbors) -> Measure:
    """The measure of an event for a target.

    ApproxDP by epsilon at its delta (by delta, where its epsilon is 0; as PureDP, where its delta
    is 0), PureDP by epsilon, ZCDP by rho, GDP by mu squared (of samples, by that of their pure
    epsilon), RenyiDP by the divergence at its order, Advantage by delta at epsilon 0,
    TruePositiveRate by the trade-off curve. An event that spends more delta of its own than a ZCDP
    or GDP target has costs inf.
    Raises InvalidParameter for what is no target.
    """
    match target:
        case ApproxDP(epsilon, delta) if delta == 0:
            return partial(_pure, neighbors=neighbors), epsilon
        case ApproxDP(epsilon, delta) if epsilon > 0:
            return lambda event: accountant.epsilon(
                event, delta=delta, neighbors=neighbors
            ), epsilon
        case ApproxDP(_, delta):
            return lambda event: _delta_at_zero(event, neighbors), delta
        case Advantage(at_most):
            return lambda event: _delta_at_zero(event, neighbors), exact("at_most", at_most)
        case TruePositiveRate(at_most=at_most, fpr=fpr):
            return (
                lambda event: (
                    accountant.true_positive_rate(event, fpr=fpr, neighbors=neighbors).upper
                ),
                exact("at_most", at_most),
            )
        case PureDP(epsilon):
            return partial(_pure, neighbors=neighbors), epsilon
        case ZCDP(most):
            return partial(_concentrated, target=target, neighbors=neighbors), most
        case GDP(mu_squared):
            return partial(_gaussian, target=target, neighbors=neighbors), mu_squared
        case RenyiDP(alpha, epsilon):
            return lambda event: renyi(event, alpha=alpha, neighbors=neighbors), epsilon
        case _:
            expected = (
                "a guarantee, Advantage(...) or TruePositiveRate(...); a number only with price="
            )
            raise InvalidParameter("target", target, expected=expected)


def _pure(event: Event, neighbors: Neighbors) -> Cost:
    try:
        return pure_price(event).epsilon  # exact
    except UnsupportedEvent:
        epsilon = pure_epsilon(event, neighbors=neighbors)  # also of samples
        if epsilon is None:
            raise
        return epsilon


def _concentrated(event: Event, target: ZCDP, neighbors: Neighbors) -> Cost:
    try:
        price = zcdp_price(units_replaced(event, neighbors))  # exact where rational
    except UnsupportedEvent:
        return rho(event, neighbors=neighbors)  # also of samples
    return _beside_delta(price, target)


def _gaussian(event: Event, target: GDP, neighbors: Neighbors) -> Cost:
    try:
        price = gdp_price(units_replaced(event, neighbors))
    except UnsupportedEvent:
        epsilon = pure_epsilon(event, neighbors=neighbors)  # of samples
        if epsilon is None:
            raise
        return Fraction(gdp_from_pure(epsilon)) ** 2
    return _beside_delta(price, target)


def _beside_delta(price: ZCDP | GDP, target: ZCDP | GDP) -> Cost:
    return price.additive[0] if price.delta <= target.delta else math.inf


def _delta_at_zero(event: Event, neighbors: Neighbors) -> Cost:
    found: float = accountant.delta(event, epsilon=0.0, neighbors=neighbors)
    return found
