"""`unacorda account`: what a composition costs."""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

import contextlib
import sys
from collections.abc import Sequence
from fractions import Fraction
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from unacorda.cli import params, render
from unacorda.cli.errors import EXIT_CODES
from unacorda.errors import InvalidParameter
from unacorda.query.expressions.quoting import escape

if TYPE_CHECKING:
    from unacorda.cli.answers import PrintedAnswer
    from unacorda.privacy.events import Event
    from unacorda.privacy.neighbors import Neighbors

__all__ = ["ALPHA", "GRAMMAR", "account", "check_neighbors"]

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

_LONGEST = 20_000_000
_DEEPEST = 40


@click.command(help=HELP, short_help="Price a composition of mechanisms.")
@click.argument("events", metavar="[EVENTS]", required=False, help="What is priced.")
@click.option(
    "--event-json",
    metavar="FILE|-",
    help="Read the events as JSON, as to_json() writes them, instead of EVENTS; - is standard "
    "input.",
)
@click.option(
    "--delta",
    "deltas",
    metavar="X",
    type=params.DELTA,
    multiple=True,
    help="Epsilon at this delta; 0 asks for pure epsilon. May be repeated.",
)
@click.option(
    "--epsilon",
    "epsilons",
    metavar="X",
    type=params.EPSILON,
    multiple=True,
    help="Delta at this epsilon. May be repeated.",
)
@click.option(
    "--alpha",
    "alphas",
    metavar="X",
    type=ALPHA,
    multiple=True,
    help="The Renyi divergence of this order, above 1. May be repeated.",
)
@click.option("--rho", is_flag=True, help="Zero-concentrated DP.")
@click.option("--mu", is_flag=True, help="Gaussian DP, where it exists.")
@click.option(
    "--tradeoff",
    is_flag=True,
    help="What an attacker can do: the advantage, and the share of members found with "
    "false-positive rates 0.001, 0.01 and 0.1.",
)
@params.neighbors
@click.option("--explain", is_flag=True, help="Say also which theorem priced what.")
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
    from unacorda.cli.answers import RATES, AnswersAsked, answers

    if not (deltas or epsilons or alphas or rho or mu or tradeoff):
        expected = "a question: --delta 1e-6 asks for epsilon; there are --epsilon, --alpha, --rho,"
        raise InvalidParameter("--delta", None, expected=f"{expected} --mu and --tradeoff as well")
    asked = AnswersAsked(
        deltas=deltas,
        epsilons=epsilons,
        alphas=alphas,
        rho=rho,
        mu=mu,
        advantage=tradeoff,
        rates=RATES if tradeoff else (),
    )
    event = _event(events, event_json)
    with render.working("Pricing ...", quiet=as_json):
        check_neighbors(event, neighbors)
        found = list(answers(event, asked, neighbors=neighbors))
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
        why = error.hint
    else:
        return
    raise InvalidParameter("--neighbors", str(relation), expected=f"replace-one or zero-out: {why}")


def _event(text: str | None, source: str | None) -> Event:
    from unacorda.cli.events import ARGUMENT, read_event

    if (text is None) is (source is None):
        expected = "either EVENTS, such as 'laplace(noise_multiplier=20) * 3', or --event-json"
        raise InvalidParameter(ARGUMENT, text, expected=expected)
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
        refused = InvalidParameter(option, source, expected="text in UTF-8")
    except InvalidParameter as error:
        inside = error.argument != "text"
        name = f"{option}, {error.argument}" if inside else option
        refused = error.about(name, error.value if inside else source)
    else:
        if depth(event) <= _DEEPEST:
            return event
        expected = f"events of at most {_DEEPEST} inside each other"
        refused = InvalidParameter(option, source, expected=expected)
    raise refused


def _refuse_if_nothing(event: Event, found: Sequence[PrintedAnswer]) -> None:
    """Raise where no question at all has an answer."""
    from unacorda.cli.events import written
    from unacorda.errors import UnsupportedEvent

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
    from unacorda.cli.answers import answers_table
    from unacorda.cli.events import written

    render.print_table(answers_table(found))
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
