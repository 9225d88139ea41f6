"""The search of `unacorda calibrate`: where a free name may lie, where costs fall, the value."""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

import decimal
import math
from collections.abc import Iterator
from dataclasses import dataclass, field
from fractions import Fraction
from typing import TYPE_CHECKING, Literal

from unacorda.cli.account import check_neighbors
from unacorda.cli.answers import plain
from unacorda.errors import InvalidParameter

if TYPE_CHECKING:
    from unacorda.accounting.calibration.targets import Cost, Measure
    from unacorda.cli.notation import Template
    from unacorda.privacy.events import Event
    from unacorda.privacy.neighbors import Neighbors

__all__ = ["CommandSearch", "SearchResult"]

_DIGITS = 10
_CHANGE = 1e-6
"""Costs that differ by less, relative to the larger, tell no direction."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SearchResult:
    """The value, whether it is the least or the most, its cost, and the nearest that costs more."""

    value: float
    find: Literal["least", "most"]
    event: Event
    cost: Cost
    fails: float | None
    evaluations: int


@dataclass(slots=True, kw_only=True)
class CommandSearch:
    """The search for the one free name of a template that meets a target.

    measure: the cost of an event, and the most it may be. within: the range of the name, None for
    all that makes events. find: which end is wanted, None to see which way the costs fall.
    """

    template: Template
    name: str
    measure: Measure
    neighbors: Neighbors
    within: tuple[float, float] | None = None
    find: Literal["least", "most"] | None = None
    tolerance: float = 1e-9
    costs: dict[Event, Cost] = field(default_factory=dict)

    def run(self) -> SearchResult:
        """Find the value; InvalidParameter where there is none or the name does not matter."""
        from unacorda.accounting.calibration.calibrate import calibration

        within = self._range()
        guess = self._guess(within)
        check_neighbors(self._event(guess), self.neighbors)
        find = self.find or self._direction(within, guess)
        whole = self.name in self.template.whole
        try:
            found = calibration(
                self._event,
                target=self.measure[1],
                price=self._cost,
                find=find,
                whole=whole,
                within=within,
                guess=guess,
                tolerance=self.tolerance,
            )
        except InvalidParameter as error:
            if error.argument not in {"target", "find"}:
                raise
            wrong_way = error.argument == "find"
        else:
            value = found.parameter if whole else self._short(found.parameter, find)
            event = self._event(value)
            return SearchResult(
                value=value,
                find=find,
                event=event,
                cost=self._cost(event),
                fails=found.fails,
                evaluations=len(self.costs),
            )
        raise self._unmet(within, find, wrong_way=wrong_way)

    def _event(self, value: float) -> Event:
        return self.template.event(**{self.name: value})

    def _cost(self, event: Event) -> Cost:
        if event not in self.costs:
            self.costs[event] = self.measure[0](event)
        return self.costs[event]

    def _makes(self, value: float) -> InvalidParameter | None:
        """What refuses the value, None where it makes an event."""
        try:
            self._event(value)
        except InvalidParameter as error:
            return error
        return None

    def _range(self) -> tuple[float, float]:
        """Both ends of the longest stretch, of powers, that makes events, or the range given."""
        if self.within is not None:
            for end in self.within:
                refused = self._makes(end)
                if refused is not None:
                    raise refused
            return self.within
        whole = self.name in self.template.whole
        tried = [2**power for power in range(40)] if whole else [10.0**n for n in range(-9, 13)]
        refusals = [self._makes(value) for value in tried]
        best: list[float] = []
        run: list[float] = []
        for value, refused in zip(tried, refusals, strict=True):
            run = [] if refused is not None else [*run, value]
            best = max(best, run, key=len)
        if not best:
            refused = refusals[9]  # that of 1, or of 512 for a count: the likeliest to be shown
            assert refused is not None
            raise refused
        low, high = best[0], best[-1]
        before, after = tried.index(low) - 1, tried.index(high) + 1
        if before >= 0:
            low = self._end(low, tried[before])
        if after < len(tried):
            high = self._end(high, tried[after])
        return low, high

    def _end(self, good: float, bad: float) -> float:
        """The last number before `bad` that makes an event, by halving."""
        for _ in range(200):
            middle = (good + bad) // 2 if isinstance(good, int) else good + (bad - good) / 2
            if middle in (good, bad):
                break
            good, bad = (middle, bad) if self._makes(middle) is None else (good, middle)
        return good

    def _guess(self, within: tuple[float, float]) -> float:
        low, high = within
        if self.name in self.template.whole:
            return min(max(64, low), high)
        usual = 1.0 if high > 1 else 0.01 * high
        return min(max(usual, low), high)

    def _direction(self, within: tuple[float, float], guess: float) -> Literal["least", "most"]:
        """Whether larger values cost less ("least" is wanted then), from two that differ."""
        first = self._cost(self._event(guess))
        for value in self._others(within, guess):
            other = self._cost(self._event(value))
            both = (float(first), float(other))
            if abs(both[0] - both[1]) > _CHANGE * max(map(abs, both)) or math.inf in both:
                if both[0] == both[1]:
                    continue
                rises = (value > guess) is (both[1] > both[0])
                return "most" if rises else "least"
        raise InvalidParameter(
            self.name,
            guess,
            expected="a name that changes the cost, or --find least or most: from "
            f"{plain(within[0])} to {plain(within[1])} it stays at {float(first):.6g}",
        )

    def _others(self, within: tuple[float, float], guess: float) -> Iterator[float]:
        low, high = within
        whole = self.name in self.template.whole
        ends = [(2.0, high), (0.5, low), (64.0, high), (1 / 64, low), (math.inf, high), (0.0, low)]
        for factor, end in ends:
            value = end if factor in (0.0, math.inf) else guess * factor
            value = min(max(value, low), high)
            if value != guess:
                yield round(value) if whole else value

    def _short(self, value: float, find: Literal["least", "most"]) -> float:
        """The value with fewer digits, on the safe side of it, where that meets the target too."""
        direction = decimal.ROUND_CEILING if find == "least" else decimal.ROUND_FLOOR
        with decimal.localcontext(prec=_DIGITS, rounding=direction):
            short = float(+decimal.Decimal(value))
        if self._makes(short) is None and self._cost(self._event(short)) <= self.measure[1]:
            return short
        return value

    def _unmet(
        self, within: tuple[float, float], find: Literal["least", "most"], *, wrong_way: bool
    ) -> InvalidParameter:
        if wrong_way and self.find is None:  # the cost is not monotone
            expected = "--find least or most: the cost does not go one way alone"
            return InvalidParameter("--find", None, expected=expected)
        seen = "most" if self.find == "least" else "least"
        if self.find is not None and self._direction(within, self._guess(within)) == seen:
            expected = f"{seen}, since larger ones cost {'less' if seen == 'least' else 'more'}"
            return InvalidParameter("--find", self.find, expected=expected)
        least = min(map(float, self.costs.values()))
        expected = (
            f"a target that can be met: from {plain(within[0])} to {plain(within[1])} the cost is "
            f"{least:.6g} or more, and the target is {float(Fraction(self.measure[1])):.6g}"
        )
        end = within[1 if find == "least" else 0]
        shown = int(end) if end == int(end) else end
        return InvalidParameter(self.name, shown, expected=expected)
