"""What events cost, one answer to each question about them, as text and as plain values."""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING, Any

from unacorda.cli.render import TextTable, plain, rounded
from unacorda.errors import UnsupportedEvent
from unacorda.privacy.rounding import float_above

if TYPE_CHECKING:
    from unacorda.privacy.estimates import Interval
    from unacorda.privacy.events import Event
    from unacorda.privacy.neighbors import Neighbors

__all__ = ["RATES", "AnswersAsked", "PrintedAnswer", "answers", "answers_table", "upper_end"]

RATES = (0.001, 0.01, 0.1)
"""The false-positive rates at which an attacker's hits are shown."""


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
    where there is no finite bound. missing: what to ask instead where no theorem gives it.
    findings: what each engine that was asked proved, in words.
    """

    measure: str
    at: Mapping[str, float]
    lower: float | None = None
    upper: float | None = None
    engine: str | None = None
    source: str | None = None
    missing: str | None = None
    findings: Sequence[str] = ()

    @property
    def why(self) -> str | None:
        """Why there is no upper end; None where there is one."""
        if self.missing is not None:
            return f"no theorem here gives it: {self.missing}"
        return None if self.upper is not None else "no finite bound holds here"

    @property
    def relative_width(self) -> float | None:
        """The interval's width as a share of its upper end; None where an end is missing."""
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
        fields = ("lower", "upper", "relative_width", "engine", "source", "why")
        return {
            "measure": self.measure,
            "at": dict(self.at),
            **{name: getattr(self, name) for name in fields},
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
        return PrintedAnswer(measure=measure, at=places, missing=error.try_instead)
    best = next((one for one in found if one.interval.upper == interval.upper), None)
    return PrintedAnswer(
        measure=measure,
        at=places,
        lower=interval.lower,
        upper=_finite(interval.upper),
        engine=None if best is None else best.engine,
        source=None if best is None else best.source,
        findings=[f"{one.engine}: {_between(one.interval)} [{one.source}]" for one in found],
    )


def _renyi(event: Event, alpha: Fraction, neighbors: Neighbors) -> PrintedAnswer:
    from unacorda.accounting.divergences.events import renyi

    measure, at = "Renyi divergence", {"alpha": float(alpha)}
    try:
        upper = renyi(event, alpha=alpha, neighbors=neighbors)
    except UnsupportedEvent as error:
        return PrintedAnswer(measure=measure, at=at, missing=error.try_instead)
    return _bound(measure, at, upper, "sum of divergences", "Mironov 2017, Prop. 1")


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
        return PrintedAnswer(measure="rho", at={}, missing=error.try_instead)
    return _bound("rho", {"delta": upper_end(price.delta)}, upper_end(price.rho), engine, source)


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
            return PrintedAnswer(measure="mu", at={}, missing=error.try_instead)
        source = "the kink of randomised response; docs/proofs/bounded_range.md"
        return _bound("mu", {}, gdp_from_pure(pure), "pure epsilon", source)
    at = {"delta": upper_end(price.delta)} if price.delta else {}
    upper = root_up(price.mu_squared)
    return _bound("mu", at, upper, "sum of mu squared", "Dong, Roth, Su 2022, Cor. 3.3")


def _hits(event: Event, rate: float, neighbors: Neighbors) -> PrintedAnswer:
    from unacorda.accounting.detection import true_positive_rate

    measure, at = "true-positive rate", {"fpr": rate}
    try:
        found = true_positive_rate(event, fpr=rate, neighbors=neighbors)
    except UnsupportedEvent as error:
        return PrintedAnswer(measure=measure, at=at, missing=error.try_instead)
    return PrintedAnswer(
        measure=measure,
        at=at,
        lower=found.lower or None,
        upper=found.upper,
        engine="trade-off curve",
        source="Dong, Roth, Su 2022, Prop. 2.12",
    )


def answers_table(found: Sequence[PrintedAnswer]) -> TextTable:
    """The answers as a table; numbers are rounded away from the truth they hold."""
    rows = [
        (
            answer.name,
            "-" if answer.lower is None else rounded(answer.lower, up=False),
            "-" if answer.upper is None else rounded(answer.upper, up=True),
            "-" if answer.relative_width is None else f"{answer.relative_width:.1e}",
            answer.engine or "-",
            answer.source or "-",
        )
        for answer in found
    ]
    heads = ("", "from", "to", "relative width", "engine", "source")
    return TextTable(heads=heads, rows=tuple(rows), left=1, repeated=1, words=2)


def _bound(
    measure: str, at: Mapping[str, float], upper: float, engine: str, source: str
) -> PrintedAnswer:
    return PrintedAnswer(measure=measure, at=at, upper=_finite(upper), engine=engine, source=source)


def _between(interval: Interval) -> str:
    upper = "no end" if interval.upper == math.inf else rounded(interval.upper, up=True)
    return f"from {rounded(interval.lower, up=False)} to {upper}"


def upper_end(value: Fraction) -> float:
    """The least float that is not below a number."""
    try:
        return float_above(value)
    except OverflowError:
        return math.inf


def _finite(upper: float) -> float | None:
    return float(upper) if upper < math.inf else None
