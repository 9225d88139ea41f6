"""`unacorda account`: what a composition costs, one answer to each question, from both sides."""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

import contextlib
import math
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from unacorda.checks import demand
from unacorda.cli import params, render
from unacorda.cli.errors import EXIT_CODES
from unacorda.cli.render import plain, rounded
from unacorda.errors import InvalidParameter, UnsupportedEvent
from unacorda.query.expressions.quoting import escape

if TYPE_CHECKING:
    from unacorda.privacy.estimates import Interval
    from unacorda.privacy.events import Event
    from unacorda.privacy.neighbors import Neighbors

__all__ = [
    "ALPHA",
    "GRAMMAR",
    "PrintedAnswer",
    "account",
    "answer",
    "check_neighbors",
    "located",
    "upper_end",
]

ALPHA = params.number(above=1, most=1e100)

GRAMMAR = """EVENTS is written as in Python: names of events with their numbers, methods
for samples, + for composition and * for counts. Numbers are exact: 0.01, 1e-5, 1/3.

\b
  gaussian(noise_multiplier=1)         Gaussian noise, in units of sensitivity
  laplace(noise_multiplier=20)         Laplace noise
  pure(epsilon=1)                      anything of which only this is known
  ... .poisson_sampled(rate=0.01)      on a Poisson sample
  ... .fixed_size_sampled(size=256, population=60000)
  ... * 10000 + ...                    a composition

A name or number that is wrong is answered with its column and with what may stand there."""

HELP = f"""Price a composition of mechanisms: what it costs, from both sides, and by which theorem.

{GRAMMAR}

\b
Examples:
  unacorda account --delta 1e-5 --delta 1e-6 --neighbors add-remove \\
      "gaussian(noise_multiplier=1).poisson_sampled(rate=0.01) * 10000"
  unacorda account --epsilon 1 --rho --alpha 8 --explain \\
      "gaussian(noise_multiplier=2) * 4 + laplace(noise_multiplier=20)"
  unacorda account --tradeoff --json \\
      "randomized_response(epsilon=1, categories=2)"

Upper ends are never below the truth and lower ends never above it.

{EXIT_CODES}"""

_RATES = tuple(Fraction(1, 10**power) for power in (3, 2, 1))
"""The false-positive rates at which an attacker's hits are shown."""

_LONGEST = 20_000_000
_DEEPEST = 40


@click.command(help=HELP, short_help="Price a composition of mechanisms.")
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
    """The verb; its help is `HELP`."""
    from unacorda.accounting.explanation import sampling_notes

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
        render.notice(escape(note))
    if as_json:
        fields = _plain(event, found, neighbors, explain=explain)
        render.as_json({**fields, "notes": notes}, strict=True)
    else:
        _print(event, found, neighbors, explain=explain)


def check_neighbors(event: Event, relation: Neighbors) -> None:
    """Refuse a scheme that says nothing about the relation, with the option that names another."""
    from unacorda.accounting.amplification.relations import check_relation

    try:
        check_relation(event, relation)
    except InvalidParameter as error:
        expected = f"replace-one or zero-out: {error.hint}"
        raise InvalidParameter("--neighbors", str(relation), expected=expected) from None


def _event(text: str | None, source: str | None) -> Event:
    from unacorda.cli.events import ARGUMENT, read_event

    expected = "either EVENTS, such as 'laplace(noise_multiplier=20) * 3', or --event-json"
    demand((text is None) is not (source is None), ARGUMENT, text, expected=expected)
    return read_event(text) if text is not None else _from_json(str(source))


def _from_json(source: str) -> Event:
    from unacorda.cli.events import depth
    from unacorda.privacy.event_codec import from_json

    option = "--event-json"
    raw: bytes | None = None
    with contextlib.suppress(OSError):
        if source == "-":
            raw = sys.stdin.buffer.read(_LONGEST + 1)
        else:
            with Path(source).open("rb") as stream:
                raw = stream.read(_LONGEST + 1)
    if raw is None or len(raw) > _LONGEST:
        expected = f"a file that can be read, of at most {_LONGEST} bytes"
        raise InvalidParameter(option, source, expected=expected)
    try:
        event = from_json(raw.decode("utf-8-sig"))
    except UnicodeDecodeError:
        raise InvalidParameter(option, source, expected="text in UTF-8") from None
    except InvalidParameter as error:
        inside = error.argument != "text"
        name = f"{option}, {error.argument}" if inside else option
        raise error.about(name, error.value if inside else source) from None
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


def _plain(
    event: Event, found: Sequence[PrintedAnswer], relation: Neighbors, *, explain: bool
) -> dict[str, Any]:
    import json

    from unacorda.accounting.explanation import explain as explained
    from unacorda.cli.events import written

    fields: dict[str, Any] = {
        "events": written(event),
        "event": json.loads(event.to_json()),
        "neighbors": str(relation),
        "answers": [answer.to_dict() for answer in found],
    }
    if explain:
        fields["parts"] = explained(event, neighbors=relation).to_dict()["parts"]
        fields["findings"] = {one.name: list(one.findings) for one in found if one.findings}
    return fields


def _print(
    event: Event, found: Sequence[PrintedAnswer], relation: Neighbors, *, explain: bool
) -> None:
    from unacorda.accounting.explanation import explain as explained
    from unacorda.cli.events import written

    render.print_table(_table(found))
    for answer in found:
        if answer.why is not None:
            render.line(render.wrapped(f"{answer.name}: {answer.why}"))
    render.line()
    render.line(f"Neighboring tables differ by {relation}.")
    if not explain:
        return
    for part in explained(event, neighbors=relation).parts:
        render.line(f"{part.count} x {written(part.event)}")
        render.line(render.wrapped(f"  {part.theorem} [{part.source}]"))
    for answer in found:
        if answer.findings:
            render.line(f"{answer.name}:")
            for text in answer.findings:
                render.line(render.wrapped(f"  {text}"))


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
    answers = {"Renyi divergence": _renyi, "rho": _rho, "mu": _mu, "true-positive rate": _hits}
    fields: dict[str, Any] = {"at": {name: float(value) for name, value in at.items()}}
    try:
        fields |= answers.get(measure, _priced)(event, neighbors, at)
    except UnsupportedEvent as error:
        fields["missing"] = error.try_instead
    return PrintedAnswer(measure=measure, **fields)


def _priced(event: Event, neighbors: Neighbors, at: Mapping[str, Fraction]) -> dict[str, Any]:
    from unacorda.accounting.accountant import priced

    # The advantage is delta at epsilon 0.
    interval, found = priced(event, neighbors=neighbors, **(at or {"epsilon": Fraction(0)}))
    best = next((one for one in found if one.interval.upper == interval.upper), None)
    return {
        "lower": interval.lower,
        "upper": _finite(interval.upper),
        "engine": None if best is None else best.engine,
        "source": None if best is None else best.source,
        "findings": [f"{one.engine}: {_between(one.interval)} [{one.source}]" for one in found],
    }


def _renyi(event: Event, neighbors: Neighbors, at: Mapping[str, Fraction]) -> dict[str, Any]:
    from unacorda.accounting.divergences.events import renyi

    upper = renyi(event, alpha=at["alpha"], neighbors=neighbors)
    return _bound(upper, "sum of divergences", "Mironov 2017, Prop. 1")


def _rho(event: Event, neighbors: Neighbors, _at: Mapping[str, Fraction]) -> dict[str, Any]:
    from unacorda.accounting.divergences.events import rho
    from unacorda.accounting.prices import zcdp_price

    said = "sum of rho", "Bun and Steinke 2016; Canonne, Kamath, Steinke 2020"
    try:
        return _bound(rho(event, neighbors=neighbors), *said)
    except UnsupportedEvent:
        price = zcdp_price(event)
    return _bound(upper_end(price.rho), *said, at={"delta": upper_end(price.delta)})


def _mu(event: Event, neighbors: Neighbors, _at: Mapping[str, Fraction]) -> dict[str, Any]:
    from unacorda.accounting.divergences.pure import pure_epsilon
    from unacorda.accounting.prices import gdp_price
    from unacorda.privacy.conversions import gdp_from_pure
    from unacorda.privacy.rounding import root_up

    try:
        price = gdp_price(event)
    except UnsupportedEvent:
        pure = pure_epsilon(event, neighbors=neighbors)  # of samples
        if pure is None:
            raise
        source = "the kink of randomised response; docs/proofs/bounded_range.md"
        return _bound(gdp_from_pure(pure), "pure epsilon", source)
    at = {"delta": upper_end(price.delta)} if price.delta else {}
    upper = root_up(price.mu_squared)
    return _bound(upper, "sum of mu squared", "Dong, Roth, Su 2022, Cor. 3.3", at=at)


def _hits(event: Event, neighbors: Neighbors, at: Mapping[str, Fraction]) -> dict[str, Any]:
    from unacorda.accounting.detection import true_positive_rate

    found = true_positive_rate(event, fpr=float(at["fpr"]), neighbors=neighbors)
    bound = _bound(found.upper, "trade-off curve", "Dong, Roth, Su 2022, Prop. 2.12")
    return {**bound, "lower": found.lower or None}


def _bound(upper: float, engine: str, source: str, **fields: Any) -> dict[str, Any]:
    return {"upper": _finite(upper), "engine": engine, "source": source, **fields}


def _table(found: Sequence[PrintedAnswer]) -> render.TextTable:
    """The answers as a table; numbers are rounded away from the truth they hold."""
    rows = [
        (
            one.name,
            "-" if one.lower is None else rounded(one.lower, up=False),
            "-" if one.upper is None else rounded(one.upper, up=True),
            "-" if one.relative_width is None else f"{one.relative_width:.1e}",
            one.engine or "-",
            one.source or "-",
        )
        for one in found
    ]
    heads = ("", "from", "to", "relative width", "engine", "source")
    return render.TextTable(heads=heads, rows=tuple(rows), left=1, repeated=1, words=2)


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


def _finite(upper: float) -> float | None:
    return float(upper) if upper < math.inf else None
