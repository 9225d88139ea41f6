"""What events cost, one answer to each question about them, as text and as plain values."""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

import decimal
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from typing import TYPE_CHECKING, Any

from unacorda.cli.show import TextTable
from unacorda.errors import UnsupportedEvent

if TYPE_CHECKING:
    from unacorda.privacy.estimates import Interval
    from unacorda.privacy.events import Event
    from unacorda.privacy.neighbors import Neighbors

__all__ = ["RATES", "AnswersAsked", "PrintedAnswer", "answers", "grid_of", "outward", "plain"]

RATES = (0.001, 0.01, 0.1)
"""The false-positive rates at which an attacker's hits are shown."""

_NO_BOUND = "no finite bound holds here"


@dataclass(frozen=True, slots=True, kw_only=True)
class AnswersAsked:
    """The questions: exact numbers, each in the range of its kind."""

    deltas: Sequence[Fraction] = ()
    epsilons: Sequence[Fraction] = ()
    alphas: Sequence[Fraction] = ()
    rho: bool = False
    mu: bool = False
    rates: Sequence[float] = ()
    advantage: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class PrintedAnswer:
    """One number about the events, from both sides.

    at: where it holds, such as delta. lower: None where nothing is proved from below. upper: None
    where there is no finite bound, and `why` then says so. findings: what each engine that was
    asked proved, in words.
    """

    measure: str
    at: Mapping[str, float]
    lower: float | None
    upper: float | None
    engine: str | None
    source: str | None
    why: str | None = None
    findings: Sequence[str] = field(default=())

    @property
    def relative_width(self) -> float | None:
        """The interval's width beside its upper end; None where an end is missing."""
        if self.lower is None or self.upper is None:
            return None
        return (self.upper - self.lower) / self.upper if self.upper else 0.0

    @property
    def name(self) -> str:
        """The question in words."""
        where = ", ".join(f"{name}={plain(value)}" for name, value in self.at.items())
        return f"{self.measure} at {where}" if where else self.measure

    def to_dict(self) -> dict[str, Any]:
        """Plain values."""
        return {
            "measure": self.measure,
            "at": dict(self.at),
            "lower": self.lower,
            "upper": self.upper,
            "relative_width": self.relative_width,
            "engine": self.engine,
            "source": self.source,
            "why": self.why,
        }


def answers(event: Event, asked: AnswersAsked, *, neighbors: Neighbors) -> Iterator[PrintedAnswer]:
    """The answers, in the order of the questions; one that no theorem gives says why."""
    for delta in asked.deltas:
        yield _priced("epsilon", {"delta": delta}, event, neighbors)
    for epsilon in asked.epsilons:
        yield _priced("delta", {"epsilon": epsilon}, event, neighbors)
    for alpha in asked.alphas:
        yield _renyi(event, alpha, neighbors)
    if asked.rho:
        yield _rho(event, neighbors)
    if asked.mu:
        yield _mu(event, neighbors)
    if asked.advantage:
        yield _priced("advantage", {"epsilon": Fraction(0)}, event, neighbors)
    for rate in asked.rates:
        yield _hits(event, rate, neighbors)


def _priced(
    measure: str, at: Mapping[str, Fraction], event: Event, neighbors: Neighbors
) -> PrintedAnswer:
    from unacorda.accounting.accountant import priced

    places = {name: float(value) for name, value in at.items() if measure != "advantage"}
    try:
        interval, found = priced(event, neighbors=neighbors, **at)
    except UnsupportedEvent as error:
        return _unknown(measure, places, error)
    best = next((one for one in found if one.interval.upper == interval.upper), None)
    return PrintedAnswer(
        measure=measure,
        at=places,
        lower=interval.lower,
        upper=_finite(interval.upper),
        engine=None if best is None else best.engine,
        source=None if best is None else best.source,
        why=None if interval.upper < math.inf else _NO_BOUND,
        findings=[f"{one.engine}: {_between(one.interval)} [{one.source}]" for one in found],
    )


def _renyi(event: Event, alpha: Fraction, neighbors: Neighbors) -> PrintedAnswer:
    from unacorda.accounting.divergences.events import renyi

    at = {"alpha": float(alpha)}
    try:
        upper = renyi(event, alpha=alpha, neighbors=neighbors)
    except UnsupportedEvent as error:
        return _unknown("Renyi divergence", at, error)
    return _bound("Renyi divergence", at, upper, "sum of divergences", "Mironov 2017, Prop. 1")


def _rho(event: Event, neighbors: Neighbors) -> PrintedAnswer:
    from unacorda.accounting.divergences.events import rho
    from unacorda.accounting.prices import zcdp_price

    engine, source = "sum of rho", "Bun and Steinke 2016; Canonne, Kamath, Steinke 2020"
    try:
        try:
            return _bound("rho", {}, rho(event, neighbors=neighbors), engine, source)
        except UnsupportedEvent:
            price = zcdp_price(event)
    except UnsupportedEvent as error:
        return _unknown("rho", {}, error)
    return _bound("rho", {"delta": _up(price.delta)}, _up(price.rho), engine, source)


def _mu(event: Event, neighbors: Neighbors) -> PrintedAnswer:
    from unacorda.accounting.divergences.pure import pure_epsilon
    from unacorda.accounting.prices import gdp_price
    from unacorda.privacy.conversions import gdp_from_pure
    from unacorda.privacy.rounding import root_up

    try:
        price = gdp_price(event)
    except UnsupportedEvent as error:
        pure = pure_epsilon(event, neighbors=neighbors)  # of samples
        if pure is None:
            return _unknown("mu", {}, error)
        source = "the kink of randomised response; docs/proofs/bounded_range.md"
        return _bound("mu", {}, gdp_from_pure(pure), "pure epsilon", source)
    at = {"delta": _up(price.delta)} if price.delta else {}
    upper = root_up(price.mu_squared)
    return _bound("mu", at, upper, "sum of mu squared", "Dong, Roth, Su 2022, Cor. 3.3")


def _hits(event: Event, rate: float, neighbors: Neighbors) -> PrintedAnswer:
    from unacorda.accounting.detection import true_positive_rate

    measure, at = "true-positive rate", {"fpr": rate}
    try:
        found = true_positive_rate(event, fpr=rate, neighbors=neighbors)
    except UnsupportedEvent as error:
        return _unknown(measure, at, error)
    return PrintedAnswer(
        measure=measure,
        at=at,
        lower=found.lower or None,
        upper=found.upper,
        engine="trade-off curve",
        source="Dong, Roth, Su 2022, Prop. 2.12",
    )


def grid_of(found: Sequence[PrintedAnswer]) -> TextTable:
    """The answers as a table; numbers are rounded away from the truth they hold."""
    rows = [
        (
            answer.name,
            "-" if answer.lower is None else outward(answer.lower, up=False),
            "-" if answer.upper is None else outward(answer.upper, up=True),
            "-" if answer.relative_width is None else f"{answer.relative_width:.1e}",
            answer.engine or "-",
            answer.source or "-",
        )
        for answer in found
    ]
    heads = ("", "from", "to", "relative width", "engine", "source")
    return TextTable(heads=heads, rows=tuple(rows), left=1, repeated=1, words=2)


def outward(value: float, *, up: bool, digits: int = 10) -> str:
    """A number with so many digits, rounded up or down, never across what it bounds.

    >>> outward(1 / 3, up=True), outward(1 / 3, up=False), outward(20.0, up=True)
    ('0.3333333334', '0.3333333333', '20')
    """
    direction = decimal.ROUND_CEILING if up else decimal.ROUND_FLOOR
    with decimal.localcontext(prec=digits, rounding=direction):
        number = +decimal.Decimal(value)
    return plain(number)


def plain(value: float | decimal.Decimal) -> str:
    """A number without zeros that say nothing.

    >>> plain(0.00001), plain(8.0), plain(decimal.Decimal("1.500"))
    ('1e-5', '8', '1.5')
    """
    number = value if isinstance(value, decimal.Decimal) else decimal.Decimal(repr(value))
    if number == number.to_integral_value() and abs(number) < 10**15:
        return f"{number:.0f}"
    short = number.normalize()
    return f"{short:f}" if 1e-4 <= abs(number) < 10**15 else f"{short:e}".replace("e+", "e")


def _bound(
    measure: str, at: Mapping[str, float], upper: float, engine: str, source: str
) -> PrintedAnswer:
    known = upper < math.inf
    return PrintedAnswer(
        measure=measure,
        at=at,
        lower=None,
        upper=_finite(upper),
        engine=engine,
        source=source,
        why=None if known else _NO_BOUND,
    )


def _unknown(measure: str, at: Mapping[str, float], error: UnsupportedEvent) -> PrintedAnswer:
    return PrintedAnswer(
        measure=measure,
        at=at,
        lower=None,
        upper=None,
        engine=None,
        source=None,
        why=f"no theorem here gives it: {error.try_instead}",
    )


def _between(interval: Interval) -> str:
    upper = "no end" if interval.upper == math.inf else outward(interval.upper, up=True)
    return f"from {outward(interval.lower, up=False)} to {upper}"


def _finite(upper: float) -> float | None:
    return float(upper) if upper < math.inf else None


def _up(value: Fraction) -> float:
    try:
        near = float(value)
    except OverflowError:
        return math.inf
    return near if near >= value else math.nextafter(near, math.inf)
