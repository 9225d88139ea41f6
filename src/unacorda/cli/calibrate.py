"""`unacorda calibrate`: the least noise, the most steps or the largest rate for a target."""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

import dataclasses
import decimal
import itertools
import json
import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from fractions import Fraction
from typing import TYPE_CHECKING, Literal

import click

from unacorda.checks import demand, exact
from unacorda.cli import params, render
from unacorda.cli.account import ALPHA, answer, check_neighbors, located, upper_end
from unacorda.cli.render import plain, rounded
from unacorda.errors import InvalidParameter

if TYPE_CHECKING:
    from unacorda.accounting.calibration import Calibration, Cost, Measure, Target
    from unacorda.cli.account import PrintedAnswer
    from unacorda.cli.events import Template
    from unacorda.privacy.events import Event
    from unacorda.privacy.neighbors import Neighbors


_CHOICES = (
    "one target: --epsilon (with --delta, or with --alpha for Renyi DP), --rho or --mu (each with "
    "--delta where it is wanted), --advantage, or --tpr with --fpr"
)
_DIGITS = 10
_CHANGE = 1e-6
"""Costs that differ by less, relative to the larger, tell no direction."""

End = Literal["least", "most"]
_SHARE = params.number(most=1)


@dataclass(frozen=True, slots=True)
class Aim:
    """A target, and the number that it limits: measure and at as in an answer."""

    target: Target
    measure: str
    at_most: Fraction
    at: Mapping[str, Fraction] = field(default_factory=dict)

    @property
    def name(self) -> str:
        """The target in words."""
        return located(f"{self.measure} of at most {plain(float(self.at_most))}", self.at)

    @property
    def places(self) -> dict[str, float]:
        """Where it limits the number, as an answer says it."""
        return {name: float(value) for name, value in self.at.items()}


def aim_of(given: Mapping[str, Fraction | None]) -> Aim:
    """The aim that options give, by name, None where they are left out.

    >>> aim_of({"epsilon": Fraction(2), "delta": Fraction(1, 10**5)}).name
    'epsilon of at most 2 at delta=1e-5'
    """
    from unacorda.accounting.calibration import Advantage, TruePositiveRate
    from unacorda.privacy.guarantees import GDP, ZCDP, ApproxDP, PureDP, RenyiDP

    said = {name: value for name, value in given.items() if value is not None}
    match said:
        case {"epsilon": epsilon, "alpha": alpha, **rest} if not rest:
            return Aim(RenyiDP(alpha, epsilon), "Renyi divergence", epsilon, {"alpha": alpha})
        case {"epsilon": epsilon, "delta": delta, **rest} if not rest and epsilon == 0 < delta:
            return Aim(ApproxDP(0, delta), "delta", delta, {"epsilon": epsilon})
        case {"epsilon": epsilon, **rest} if not (rest.keys() - {"delta"}):
            delta = rest.get("delta", Fraction(0))
            target = ApproxDP(epsilon, delta) if delta else PureDP(epsilon)
            return Aim(target, "epsilon", epsilon, {"delta": delta})
        case {"rho": rho, **rest} if not (rest.keys() - {"delta"}):
            return Aim(ZCDP(rho, rest.get("delta", 0)), "rho", rho, rest)
        case {"mu": mu, **rest} if not (rest.keys() - {"delta"}):
            return Aim(GDP(mu, rest.get("delta", 0)), "mu", mu, rest)
        case {"advantage": advantage, **rest} if not rest:
            return Aim(Advantage(advantage), "advantage", advantage)
        case {"tpr": tpr, "fpr": fpr, **rest} if not rest:
            if tpr < fpr:
                expected = f"at least {plain(float(fpr))}, --fpr: as many are found by guessing"
                raise InvalidParameter("--tpr", plain(float(tpr)), expected=expected)
            rate = TruePositiveRate(at_most=tpr, fpr=fpr)
            return Aim(rate, "true-positive rate", tpr, {"fpr": fpr})
        case _:
            written = ", ".join(f"--{name} {plain(float(value))}" for name, value in said.items())
            raise InvalidParameter("--epsilon", written or None, expected=_CHOICES)


def _range(name: str, text: str) -> tuple[Fraction, Fraction]:
    low, colon, high = text.partition(":")
    if colon:
        ends = exact(name, low.strip()), exact(name, high.strip())
        if Fraction("1e-300") <= ends[0] <= ends[1] <= 10**300:
            return ends
    raise InvalidParameter(name, text, expected="LOW:HIGH, with 1e-300 <= LOW <= HIGH <= 1e300")


@params.verb(short_help="Find the least noise, or the most steps, for a target.")
@click.argument("events", metavar="EVENTS", help="Events with one free name.")
@params.gathered(
    "given",
    dict,
    params.option(
        "--epsilon",
        params.EPSILON,
        "At most this epsilon: pure DP; with --delta approximate DP, with --alpha Renyi DP.",
    ),
    params.option("--delta", params.DELTA, "With --epsilon, --rho or --mu."),
    params.option("--alpha", ALPHA, "With --epsilon: the Renyi order."),
    params.option("--rho", params.EPSILON, "At most this rho: zero-concentrated DP."),
    params.option("--mu", params.EPSILON, "At most this mu: Gaussian DP."),
    params.option(
        "--advantage", _SHARE, "At most this advantage of an attacker, true minus false positives."
    ),
    params.option("--tpr", _SHARE, "At most this share of members found, with --fpr."),
    params.option("--fpr", _SHARE, "With --tpr: the share of others who are taken for members."),
)
@params.option(
    "--find",
    params.one_of("least", "most"),
    "Which end is wanted; otherwise seen from which way the cost falls.",
)
@params.option(
    "--within",
    params.Read(_range, "LOW:HIGH"),
    "The range that is searched; otherwise 1e-9 to 1e12, as far as it makes sense.",
)
@params.option(
    "--tolerance",
    params.number(least=1e-14, below=1),
    "The relative width of the search.",
    default="1e-9",
    show_default=True,
)
@params.neighbors
@params.json_option
def calibrate(
    *,
    events: str,
    given: Mapping[str, Fraction | None],
    find: End | None,
    within: tuple[Fraction, Fraction] | None,
    tolerance: Fraction,
    neighbors: Neighbors,
    as_json: bool,
) -> None:
    r"""Find the least noise, the most steps or the largest rate with which EVENTS meet a target.

    {GRAMMAR}

    Leave one number open as a name, such as x. The value that is found was priced and meets the
    target; the output shows how much of the target is left.

    Examples:
      unacorda calibrate --epsilon 2 --delta 1e-5 \
          "gaussian(noise_multiplier=x).poisson_sampled(rate=0.01) * 10000"
      unacorda calibrate --rho 0.5 "gaussian(noise_multiplier=10) * n"
      unacorda calibrate --advantage 0.1 --json \
          "gaussian(noise_multiplier=1).poisson_sampled(rate=q) * 100"
    """
    from unacorda.accounting.calibration import measure
    from unacorda.cli.events import written

    aim = aim_of(given)
    template, name = _template(events)
    whole = name in template.whole
    search = CommandSearch(
        template=template,
        name=name,
        measure=measure(aim.target, neighbors=neighbors),
        neighbors=neighbors,
        within=None if within is None else _ends(within, whole=whole),
        find=find,
        tolerance=float(tolerance),
    )
    with render.working("Calibrating ...", quiet=as_json):
        wanted, found = search.run()
        event = search.event(found.parameter)
        cost = _cost(event, found.cost, aim, neighbors)
    assert cost.upper is not None
    left = float(max(Fraction(0), aim.at_most - Fraction(cost.upper)))
    if as_json:
        fields = {
            "name": name,
            "value": found.parameter,
            "find": wanted,
            "fails": found.fails,
            "events": written(event),
            "event": json.loads(event.to_json()),
            "neighbors": str(neighbors),
            "target": {"measure": aim.measure, "at": aim.places, "at_most": float(aim.at_most)},
            "cost": cost.to_dict(),
            "left": left,
            "evaluations": found.evaluations,
        }
        render.as_json(fields, strict=True)
        return
    ends = f"at most {rounded(cost.upper, up=True)}"
    if cost.lower is not None:
        ends = f"from {rounded(cost.lower, up=False)} to {rounded(cost.upper, up=True)}"
    render.print_facts(
        (name, f"{plain(found.parameter)} is the {wanted} with {aim.name}"),
        ("costs", f"{cost.measure} {ends}; {left:.3g} is left"),
        ("fails", "nothing in the range" if found.fails is None else plain(found.fails)),
        ("engine", f"{cost.engine or 'none'} [{cost.source or '-'}]"),
        ("events", written(event)),
    )
    render.line(f"Neighboring tables differ by {neighbors}.")


def _template(text: str) -> tuple[Template, str]:
    """The events with their one free name."""
    from unacorda.cli.events import ARGUMENT, NAMED, read_template

    template = read_template(text)
    names = [name for name in template.names if name not in NAMED]
    if not names:
        template.event()  # whatever else is wrong with it is said first
    expected = "one free name where a number stands, such as gaussian(noise_multiplier=x)"
    expected += f", not {', '.join(names)}" if names else ""
    demand(len(names) == 1, ARGUMENT, text, expected=expected)
    return template, names[0]


def _ends(within: tuple[Fraction, Fraction], *, whole: bool) -> tuple[float, float]:
    """The ends of --within as the free name takes them."""
    low, high = map(float, within)
    if not whole:
        return low, high
    fits = all(end.denominator == 1 for end in within)
    expected = "LOW:HIGH, whole numbers, since a count stands there"
    demand(fits, "--within", f"{plain(low)}:{plain(high)}", expected=expected)
    return int(within[0]), int(within[1])


def _cost(event: Event, certified: Cost, aim: Aim, relation: Neighbors) -> PrintedAnswer:
    """What the value costs from both sides; its upper end meets the target."""
    from unacorda.privacy.rounding import root_up

    known = answer(aim.measure, aim.at, event, neighbors=relation)
    # Of Gaussian DP the calibrator measures the square.
    upper = root_up(Fraction(certified)) if aim.measure == "mu" else upper_end(Fraction(certified))
    lower = None if known.lower is None else min(known.lower, upper)
    upper = upper if known.upper is None else min(known.upper, upper)
    return dataclasses.replace(known, at=aim.places, upper=upper, lower=lower, missing=None)


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
    find: End | None = None
    tolerance: float = 1e-9
    costs: dict[Event, Cost] = field(default_factory=dict)

    def run(self) -> tuple[End, Calibration]:
        """Find the value, which is the least or the most.

        Raises InvalidParameter where there is none or the name does not matter.
        """
        from unacorda.accounting.calibration import calibration

        low, high = within = self._range()
        guess: float = min(max(64, low), high)
        if not self._whole:
            guess = min(max(1.0 if high > 1 else 0.01 * high, low), high)
        check_neighbors(self.event(guess), self.neighbors)
        find = self.find or self._direction(within, guess)
        try:
            found = calibration(
                self.event,
                target=self.measure[1],
                price=self._cost,
                find=find,
                whole=self._whole,
                within=within,
                guess=guess,
                tolerance=self.tolerance,
            )
        except InvalidParameter as error:
            if error.argument not in {"target", "find"}:
                raise
            unmet = error.argument
        else:
            value = found.parameter if self._whole else self._short(found.parameter, find)
            cost, count = self._cost(self.event(value)), len(self.costs)
            return find, dataclasses.replace(found, parameter=value, cost=cost, evaluations=count)
        raise self._unmet(within, guess, find, monotone=unmet == "target")

    def event(self, value: float) -> Event:
        """The events with this value."""
        return self.template.event(**{self.name: value})

    @property
    def _whole(self) -> bool:
        return self.name in self.template.whole

    def _cost(self, event: Event) -> Cost:
        if event not in self.costs:
            self.costs[event] = self.measure[0](event)
        return self.costs[event]

    def _refusal(self, value: float) -> InvalidParameter | None:
        """What refuses the value, None where it makes an event."""
        try:
            self.event(value)
        except InvalidParameter as error:
            return error
        return None

    def _range(self) -> tuple[float, float]:
        """Both ends of the longest stretch, of powers, that makes events, or the range given."""
        if self.within is not None:
            for end in self.within:
                self.event(end)  # raises
            return self.within
        tried: list[float] = [10.0**n for n in range(-9, 13)]
        if self._whole:
            tried = [2**power for power in range(40)]
        refusals = [self._refusal(value) for value in tried]
        runs = itertools.groupby(range(len(tried)), key=lambda place: refusals[place] is None)
        stretches = [list(run) for makes, run in runs if makes]
        if not stretches:
            refused = refusals[9]  # that of 1, or of 512 for a count: the likeliest to be shown
            assert refused is not None
            raise refused
        stretch = max(stretches, key=len)
        low, high = tried[stretch[0]], tried[stretch[-1]]
        if stretch[0] > 0:
            low = self._end(low, tried[stretch[0] - 1])
        if stretch[-1] + 1 < len(tried):
            high = self._end(high, tried[stretch[-1] + 1])
        return low, high

    def _end(self, good: float, bad: float) -> float:
        """The last number before `bad` that makes an event, by halving."""
        for _ in range(200):
            middle = (good + bad) // 2 if isinstance(good, int) else good + (bad - good) / 2
            if middle in (good, bad):
                break
            good, bad = (middle, bad) if self._refusal(middle) is None else (good, middle)
        return good

    def _direction(self, within: tuple[float, float], guess: float) -> End:
        """Whether larger values cost less ("least" is wanted then), from two that differ."""
        low, high = within
        first = float(self._cost(self.event(guess)))
        for tried in (2 * guess, guess / 2, 64 * guess, guess / 64, high, low):
            value = min(max(tried, low), high)
            value = round(value) if self._whole else value
            if value == guess:
                continue
            other = float(self._cost(self.event(value)))
            differs = abs(first - other) > _CHANGE * max(abs(first), abs(other))
            if first != other and (differs or math.inf in (first, other)):
                return "most" if (value > guess) is (other > first) else "least"
        expected = "a name that changes the cost, or --find least or most: from "
        expected += f"{plain(low)} to {plain(high)} it stays at {first:.6g}"
        raise InvalidParameter(self.name, guess, expected=expected)

    def _short(self, value: float, find: End) -> float:
        """The value with fewer digits, on the safe side of it, where that meets the target too."""
        direction = decimal.ROUND_CEILING if find == "least" else decimal.ROUND_FLOOR
        with decimal.localcontext(prec=_DIGITS, rounding=direction):
            short = float(+decimal.Decimal(value))
        fits = self._refusal(short) is None and self._cost(self.event(short)) <= self.measure[1]
        return short if fits else value

    def _unmet(
        self, within: tuple[float, float], guess: float, find: End, *, monotone: bool
    ) -> InvalidParameter:
        """What is wrong where no value that was tried meets the target."""
        if self.find is None and not monotone:
            expected = "--find least or most: the cost does not go one way alone"
            return InvalidParameter("--find", None, expected=expected)
        seen = "most" if self.find == "least" else "least"
        if self.find is not None and self._direction(within, guess) == seen:
            expected = f"{seen}, since larger ones cost {'less' if seen == 'least' else 'more'}"
            return InvalidParameter("--find", self.find, expected=expected)
        least, most = min(map(float, self.costs.values())), float(Fraction(self.measure[1]))
        expected = (
            f"a target that can be met: from {plain(within[0])} to {plain(within[1])} the cost is "
            f"{least:.6g} or more, and the target is {most:.6g}"
        )
        end = within[1 if find == "least" else 0]
        return InvalidParameter(self.name, int(end) if end == int(end) else end, expected=expected)
