"""`unacorda account`: what a composition costs, one answer to each question, from both sides."""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from unacorda.checks import demand, read_text
from unacorda.cli import params, render
from unacorda.cli.render import plain, rounded
from unacorda.errors import InvalidParameter, UnsupportedEvent

if TYPE_CHECKING:
    from unacorda.privacy.estimates import Interval
    from unacorda.privacy.events import Event
    from unacorda.privacy.neighbors import Neighbors

ALPHA = params.number(above=1, most=1e100)

_RATES = tuple(Fraction(1, 10**power) for power in (3, 2, 1))
"""The false-positive rates at which an attacker's hits are shown."""

_DEEPEST = 40


@params.verb(short_help="Price a composition of mechanisms.")
@click.argument("events", metavar="[EVENTS]", required=False, help="What is priced.")
@params.option(
    "--event-json",
    "FILE|-",
    "Read the events as JSON, as to_json() writes them, instead of EVENTS; - is standard input.",
)
@params.option(
    "--delta deltas",
    params.DELTA,
    "Epsilon at this delta; 0 asks for pure epsilon. May be repeated.",
    multiple=True,
)
@params.option(
    "--epsilon epsilons", params.EPSILON, "Delta at this epsilon. May be repeated.", multiple=True
)
@params.option(
    "--alpha alphas",
    ALPHA,
    "The Renyi divergence of this order, above 1. May be repeated.",
    multiple=True,
)
@params.flag("--rho", "Zero-concentrated DP.")
@params.flag("--mu", "Gaussian DP, where it exists.")
@params.flag(
    "--tradeoff",
    "What an attacker can do: the advantage, and the share of members found with "
    "false-positive rates 0.001, 0.01 and 0.1.",
)
@params.neighbors
@params.flag("--explain", "Say also which theorem priced what.")
@params.json_option
def account(
    *,
    events: str | None,
    event_json: str | None,
    deltas: Sequence[Fraction],
    epsilons: Sequence[Fraction],
    alphas: Sequence[Fraction],
    rho: bool,
    mu: bool,
    tradeoff: bool,
    neighbors: Neighbors,
    explain: bool,
    as_json: bool,
) -> None:
    r"""Price a composition of mechanisms: what it costs, from both sides, and by which theorem.

    {GRAMMAR}

    Examples:
      unacorda account --delta 1e-5 --delta 1e-6 --neighbors add-remove \
          "gaussian(noise_multiplier=1).poisson_sampled(rate=0.01) * 10000"
      unacorda account --epsilon 1 --rho --alpha 8 --explain \
          "gaussian(noise_multiplier=2) * 4 + laplace(noise_multiplier=20)"
      unacorda account --tradeoff --json \
          "randomized_response(epsilon=1, categories=2)"

    Upper ends are never below the truth and lower ends never above it.
    """
    from unacorda.accounting.explanation import explain as explained
    from unacorda.accounting.explanation import sampling_notes
    from unacorda.cli.events import written

    asked: list[tuple[str, Mapping[str, Fraction]]] = [
        *(("epsilon", {"delta": delta}) for delta in deltas),
        *(("delta", {"epsilon": epsilon}) for epsilon in epsilons),
        *(("Renyi divergence", {"alpha": alpha}) for alpha in alphas),
        *([("rho", {})] if rho else []),
        *([("mu", {})] if mu else []),
        *([("advantage", {})] if tradeoff else []),
        *(("true-positive rate", {"fpr": rate}) for rate in (_RATES if tradeoff else ())),
    ]
    expected = "a question: --delta 1e-6 asks for epsilon; there are --epsilon, --alpha, --rho, "
    demand(asked, "--delta", None, expected=f"{expected}--mu and --tradeoff as well")
    event = _event(events, event_json)
    with render.working("Pricing ...", quiet=as_json):
        check_neighbors(event, neighbors)
        found = [answer(measure, at, event, neighbors=neighbors) for measure, at in asked]
        # Where sampling is not free, at the first delta that is above 0.
        delta = next((delta for delta in deltas if delta), None)
        notes = list(sampling_notes(event, delta=delta, neighbors=neighbors))
    _refuse_if_nothing(event, found)
    for note in notes:
        render.notice(note)
    explanation = explained(event, neighbors=neighbors) if explain else None
    if as_json:
        fields: dict[str, Any] = {
            "events": written(event),
            "event": json.loads(event.to_json()),
            "neighbors": str(neighbors),
            "answers": [one.to_dict() for one in found],
        }
        if explanation is not None:
            fields["parts"] = explanation.to_dict()["parts"]
            fields["findings"] = {one.name: list(one.findings) for one in found if one.findings}
        render.as_json({**fields, "notes": notes}, strict=True)
        return
    heads = ("", "from", "to", "relative width", "engine", "source")
    render.print_table(heads, (one.row for one in found), left=1, repeated=1, words=2)
    for one in found:
        if one.why is not None:
            render.paragraph(f"{one.name}: {one.why}")
    render.raw(f"\nNeighboring tables differ by {neighbors}.")
    if explanation is not None:
        for part in explanation.parts:
            render.line(f"{part.count} x {written(part.event)}")
            render.paragraph(f"  {part.theorem} [{part.source}]")
        for one in found:
            for text in (f"{one.name}:", *(f"  {said}" for said in one.findings)):
                if one.findings:
                    render.paragraph(text)


def check_neighbors(event: Event, relation: Neighbors) -> None:
    """Refuse a scheme that says nothing about the relation, with the option that names another."""
    from unacorda.accounting.arguments import check_relation

    try:
        check_relation(event, relation)
    except InvalidParameter as error:
        expected = f"replace-one or zero-out: {error.hint}"
        raise InvalidParameter("--neighbors", str(relation), expected=expected) from None


def _event(text: str | None, source: str | None) -> Event:
    """The event of EVENTS, or of the JSON that --event-json names."""
    from unacorda.cli.events import ARGUMENT, depth, read_event
    from unacorda.privacy.events import from_json

    expected = "either EVENTS, such as 'laplace(noise_multiplier=20) * 3', or --event-json"
    demand((text is None) is not (source is None), ARGUMENT, text, expected=expected)
    if text is not None:
        return read_event(text)
    option = "--event-json"
    stated = read_text(option, Path(str(source)))
    try:
        event = from_json(stated)
    except InvalidParameter as error:
        if error.argument == "text":
            raise error.about(option, source) from None
        raise error.about(f"{option}, {error.argument}", error.value) from None
    expected = f"events of at most {_DEEPEST} inside each other"
    demand(depth(event) <= _DEEPEST, option, source, expected=expected)
    return event


def _refuse_if_nothing(event: Event, found: Sequence[PrintedAnswer]) -> None:
    """Raise where no question at all has an answer."""
    from unacorda.cli.events import written

    unknown = [one for one in found if one.missing is not None]
    if unknown and all(one.engine is None and one.why is not None for one in found):
        kinds = ", ".join(one.name for one in unknown)
        raise UnsupportedEvent(written(event), kind=kinds, try_instead=str(unknown[0].missing))


def located(said: str, at: Mapping[str, Fraction | float]) -> str:
    """A number in words, and where it holds.

    >>> located("epsilon", {"delta": 1e-5})
    'epsilon at delta=1e-5'
    """
    where = ", ".join(f"{name}={plain(float(value))}" for name, value in at.items())
    return f"{said} at {where}" if where else said


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
        return located(self.measure, self.at)

    @property
    def row(self) -> tuple[str, ...]:
        """The line of a table; numbers are rounded away from the truth they hold."""
        low, high, width = self.lower, self.upper, self.relative_width
        return (
            self.name,
            "-" if low is None else rounded(low, up=False),
            "-" if high is None else rounded(high, up=True),
            "-" if width is None else f"{width:.1e}",
            self.engine or "-",
            self.source or "-",
        )

    def to_dict(self) -> dict[str, Any]:
        """Plain values."""
        fields = ("lower", "upper", "relative_width", "engine", "source", "why")
        shown = {name: getattr(self, name) for name in fields}
        return {"measure": self.measure, "at": dict(self.at), **shown}


def answer(
    measure: str, at: Mapping[str, Fraction], event: Event, *, neighbors: Neighbors
) -> PrintedAnswer:
    """A number about an event; one that no theorem gives says what to ask instead.

    measure: epsilon, delta, Renyi divergence, rho, mu, advantage or true-positive rate; at: where,
    exact numbers in the range of their kind.
    """
    fields: dict[str, Any] = {"at": {name: float(value) for name, value in at.items()}}
    try:
        fields |= _proved(measure, at, event, neighbors)
    except UnsupportedEvent as error:
        fields["missing"] = error.try_instead
    if fields.get("upper") == math.inf:
        fields["upper"] = None
    return PrintedAnswer(measure=measure, **fields)


def _proved(
    measure: str, at: Mapping[str, Fraction], event: Event, neighbors: Neighbors
) -> dict[str, Any]:
    """The fields of an answer; UnsupportedEvent where no theorem gives one."""
    from unacorda.accounting.accountant import priced, true_positive_rate
    from unacorda.accounting.prices import renyi

    match measure:
        case "Renyi divergence":
            upper = float(renyi(event, alpha=at["alpha"], neighbors=neighbors))
            source = "Mironov 2017, Prop. 1"
            return {"upper": upper, "engine": "sum of divergences", "source": source}
        case "rho":
            return _rho(event, neighbors)
        case "mu":
            return _mu(event, neighbors)
        case "true-positive rate":
            rate = true_positive_rate(event, fpr=float(at["fpr"]), neighbors=neighbors)
            source = "Dong, Roth, Su 2022, Prop. 2.12"
            ends = {"lower": rate.lower or None, "upper": float(rate.upper)}
            return {**ends, "engine": "trade-off curve", "source": source}
        case _:
            at = at or {"epsilon": Fraction(0)}  # the advantage is delta there
            limit, epsilon = at.get("delta"), at.get("epsilon")
            interval, found = priced(event, neighbors=neighbors, delta=limit, epsilon=epsilon)
            best = next((one for one in found if one.interval.upper == interval.upper), None)
            return {
                "lower": interval.lower,
                "upper": interval.upper,
                "engine": None if best is None else best.engine,
                "source": None if best is None else best.source,
                "findings": [
                    f"{one.engine}: {_between(one.interval)} [{one.source}]" for one in found
                ],
            }


def _rho(event: Event, neighbors: Neighbors) -> dict[str, Any]:
    from unacorda.accounting.prices import rho, zcdp_price

    source = "Bun and Steinke 2016; Canonne, Kamath, Steinke 2020"
    said = {"engine": "sum of rho", "source": source}
    try:
        return {"upper": float(rho(event, neighbors=neighbors)), **said}
    except UnsupportedEvent:
        price = zcdp_price(event)
    return {"at": {"delta": upper_end(price.delta)}, "upper": upper_end(price.rho), **said}


def _mu(event: Event, neighbors: Neighbors) -> dict[str, Any]:
    from unacorda.accounting.prices import gdp_price, pure_epsilon
    from unacorda.privacy.conversions import gdp_from_pure
    from unacorda.privacy.rounding import root_up

    try:
        price = gdp_price(event)
    except UnsupportedEvent:
        pure = pure_epsilon(event, neighbors=neighbors)  # of samples
        if pure is None:
            raise
        source = "the kink of randomised response; docs/proofs/bounded_range.md"
        return {"upper": gdp_from_pure(pure), "engine": "pure epsilon", "source": source}
    return {
        "at": {"delta": upper_end(price.delta)} if price.delta else {},
        "upper": root_up(price.mu_squared),
        "engine": "sum of mu squared",
        "source": "Dong, Roth, Su 2022, Cor. 3.3",
    }


def _between(interval: Interval) -> str:
    upper = "no end" if interval.upper == math.inf else rounded(interval.upper, up=True)
    return f"from {rounded(interval.lower, up=False)} to {upper}"


def upper_end(value: Fraction) -> float:
    """The least float that is not below a number."""
    from unacorda.privacy.rounding import float_above

    try:
        return float_above(value)
    except OverflowError:
        return math.inf
