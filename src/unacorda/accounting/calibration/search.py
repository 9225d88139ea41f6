"""The search of calibration: few evaluations of a costly, monotone function of one number."""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

_USUALLY_STEEP = 2.0
"""How fast the cost is taken to change at first: Gaussian noise has a cost like 1 / noise^2."""
_LEAST_STEEP = 0.5
_FAR = math.log(4)
"""How far to go from a cost of 0 or inf, which says nothing of the distance."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Trial:
    """One evaluation: where, whether the target is met there, and log(cost / level)."""

    parameter: float
    passes: bool
    height: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Found:
    """The last trials on either side; None where there was none to the end of the range."""

    passing: Trial | None
    failing: Trial | None
    evaluations: int


def narrow(
    attempt: Callable[[float], Trial],
    *,
    rising: bool,
    whole: bool,
    within: tuple[float, float],
    guess: float,
    tolerance: float,
) -> Found:
    """Close in on the place where trials turn from failing to passing.

    attempt: the costly function. rising: whether trials pass above that place (True) or below it.
    whole: whether parameters are integers. within: ends of the range, both positive. guess: where
    to begin. tolerance: relative width at which to stop; for integers the width is one.
    On logarithms of both axes costs are close to straight, so the secant rules; a side that does
    not move is moved, and where the bracket does not shrink it is halved.
    """
    return _Search(attempt, rising, whole, within, tolerance).run(guess)


@dataclass(slots=True)
class _Search:
    attempt: Callable[[float], Trial]
    rising: bool
    whole: bool
    within: tuple[float, float]
    tolerance: float
    passing: Trial | None = None
    failing: Trial | None = None
    evaluations: int = 0

    def run(self, guess: float) -> Found:
        low, high = self.within
        self.evaluate(min(max(guess, low), high))
        self.bracket()
        if self.passing is not None and self.failing is not None:
            self.close_in()
        return Found(passing=self.passing, failing=self.failing, evaluations=self.evaluations)

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
