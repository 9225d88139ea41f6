"""`unacorda account`: what a composition costs."""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

import contextlib
import json
import sys
from collections.abc import Iterator, Sequence
from fractions import Fraction
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from unacorda.cli import show
from unacorda.cli.failures import EXIT_CODES, reporting
from unacorda.errors import InvalidParameter
from unacorda.query.schema.quoting import escape

if TYPE_CHECKING:
    from unacorda.cli.answers import AnswersAsked, PrintedAnswer
    from unacorda.privacy.events import Event
    from unacorda.privacy.neighbors import Neighbors

__all__ = [
    "GRAMMAR",
    "HELP",
    "SUMMARY",
    "account",
    "check_neighbors",
    "exact_option",
    "neighbors_of",
    "working_unless",
]

SUMMARY = "Price a composition of mechanisms."

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


def account(
    events: Annotated[
        str | None,
        typer.Argument(metavar="EVENTS", help="What is priced.", show_default=False),
    ] = None,
    *,
    event_json: Annotated[
        str | None,
        typer.Option(
            "--event-json",
            metavar="FILE|-",
            help="Read the events as JSON, as to_json() writes them, instead of EVENTS; - is "
            "standard input.",
            show_default=False,
        ),
    ] = None,
    delta: Annotated[
        list[str] | None,
        typer.Option(
            "--delta",
            metavar="X",
            help="Epsilon at this delta; 0 asks for pure epsilon. May be repeated.",
            show_default=False,
        ),
    ] = None,
    epsilon: Annotated[
        list[str] | None,
        typer.Option(
            "--epsilon",
            metavar="X",
            help="Delta at this epsilon. May be repeated.",
            show_default=False,
        ),
    ] = None,
    alpha: Annotated[
        list[str] | None,
        typer.Option(
            "--alpha",
            metavar="X",
            help="The Renyi divergence of this order, above 1. May be repeated.",
            show_default=False,
        ),
    ] = None,
    rho: Annotated[bool, typer.Option("--rho", help="Zero-concentrated DP.")] = False,
    mu: Annotated[bool, typer.Option("--mu", help="Gaussian DP, where it exists.")] = False,
    tradeoff: Annotated[
        bool,
        typer.Option(
            "--tradeoff",
            help="What an attacker can do: the advantage, and the share of members found with "
            "false-positive rates 0.001, 0.01 and 0.1.",
        ),
    ] = False,
    neighbors: Annotated[
        str,
        typer.Option(
            "--neighbors",
            metavar="RELATION",
            help="How neighboring tables differ: add-remove, replace-one or zero-out.",
        ),
    ] = "add-remove",
    explain: Annotated[
        bool, typer.Option("--explain", help="Say also which theorem priced what.")
    ] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """The verb; its help is `HELP`."""
    with reporting():
        relation = neighbors_of(neighbors)
        asked = _asked(delta, epsilon, alpha, rho=rho, mu=mu, tradeoff=tradeoff)
        event = _event(events, event_json)
        with working_unless(as_json, "Pricing ..."):
            from unacorda.cli.answers import answers

            check_neighbors(event, relation)
            found = list(answers(event, asked, neighbors=relation))
            notes = _notes(event, asked, relation)
        _refuse_if_nothing(event, found)
        for note in notes:
            show.notice(escape(note))
        if as_json:
            fields = _plain(event, found, notes, relation, explain=explain)
            show.line(json.dumps(fields, indent=2, allow_nan=False))
        else:
            _print(event, found, relation, explain=explain)


def neighbors_of(text: str) -> Neighbors:
    """The relation that --neighbors names.

    >>> neighbors_of("replace-one")
    ReplaceOne
    """
    from unacorda.privacy.neighbors import Neighbors

    with contextlib.suppress(ValueError):
        return Neighbors(text.strip().lower().replace("-", "_"))
    names = ", ".join(one.value.replace("_", "-") for one in Neighbors)
    raise InvalidParameter("--neighbors", text, expected=f"one of {names}")


def check_neighbors(event: Event, relation: Neighbors) -> None:
    """Refuse a scheme that says nothing about the relation, with the option that mends it."""
    from unacorda.accounting.amplification.relations import check_relation

    try:
        check_relation(event, relation)
    except InvalidParameter as error:
        why = error.hint
    else:
        return
    raise InvalidParameter("--neighbors", str(relation), expected=f"replace-one or zero-out: {why}")


def exact_option(
    option: str,
    text: str,
    *,
    least: float = 0,
    tiny: float = 0,
    most: float = 1e300,
    below: float | None = None,
    above: float | None = None,
) -> Fraction:
    """The number of an option, in its range: from `least`, or beyond `above`, to before `below`.

    tiny: of numbers that are not 0, the least; most: the largest there is. Both are in the message
    where they say something.
    """
    from unacorda.checks import exact

    number = exact(option, text)
    expected = f"a number above {above:g}" if above is not None else f"a number, {least:g} or above"
    expected += "" if below is None else f", below {below:g}"
    expected += "" if most == 1e300 and number <= most else f", at most {_short(most)}"
    fits = number >= least if above is None else number > above
    if fits and 0 < number < tiny:
        expected, fits = f"0, or a number from {_short(tiny)}", False
    if not fits or (below is not None and number >= below) or number > most:
        raise InvalidParameter(option, text, expected=expected)
    return number


def _short(number: float) -> str:
    return f"{number:g}".replace("e+", "e")


@contextlib.contextmanager
def working_unless(quiet: bool, text: str) -> Iterator[None]:  # noqa: FBT001  # reads as a sentence
    """Show on a terminal that something is going on, unless JSON is wanted."""
    with contextlib.nullcontext() if quiet else show.working(text):
        yield


def _asked(
    deltas: Sequence[str] | None,
    epsilons: Sequence[str] | None,
    alphas: Sequence[str] | None,
    *,
    rho: bool,
    mu: bool,
    tradeoff: bool,
) -> AnswersAsked:
    from unacorda.cli.answers import RATES, AnswersAsked

    if not (deltas or epsilons or alphas or rho or mu or tradeoff):
        raise InvalidParameter(
            "--delta",
            None,
            expected="a question: --delta 1e-6 asks for epsilon; there are --epsilon, --alpha, "
            "--rho, --mu and --tradeoff as well",
        )
    return AnswersAsked(
        deltas=[exact_option("--delta", text, below=1, tiny=1e-300) for text in deltas or ()],
        epsilons=[exact_option("--epsilon", text) for text in epsilons or ()],
        alphas=[exact_option("--alpha", text, above=1, most=1e100) for text in alphas or ()],
        rho=rho,
        mu=mu,
        advantage=tradeoff,
        rates=RATES if tradeoff else (),
    )


def _event(text: str | None, source: str | None) -> Event:
    from unacorda.cli.notation import ARGUMENT, read_event

    if (text is None) is (source is None):
        raise InvalidParameter(
            ARGUMENT, text, expected="either EVENTS, such as 'laplace(noise_multiplier=20) * 3', "
            "or --event-json",
        )  # fmt: skip
    if text is not None:
        return read_event(text)
    assert source is not None
    return _from_json(source)


def _from_json(source: str) -> Event:
    from unacorda.cli.spelling import depth
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
        raise InvalidParameter(
            option, source, expected=f"a file that can be read, of at most {_LONGEST} bytes"
        )
    refused: InvalidParameter
    try:
        event = from_json(raw.decode("utf-8-sig"))
    except UnicodeDecodeError:
        refused = InvalidParameter(option, source, expected="text in UTF-8")
    except InvalidParameter as error:
        said = option if error.argument == "text" else f"{option}, {error.argument}"
        value = source if error.argument == "text" else error.value
        refused = error.about(said, value)
    else:
        if depth(event) <= _DEEPEST:
            return event
        refused = InvalidParameter(
            option, source, expected=f"events of at most {_DEEPEST} inside each other"
        )
    raise refused


def _notes(event: Event, asked: AnswersAsked, relation: Neighbors) -> list[str]:
    """Where sampling is not free, at the first delta that is above 0."""
    from unacorda.accounting.explanation import sampling_notes

    delta = next((delta for delta in asked.deltas if delta), None)
    return list(sampling_notes(event, delta=delta, neighbors=relation))


def _refuse_if_nothing(event: Event, found: Sequence[PrintedAnswer]) -> None:
    """Raise where no question at all has an answer."""
    from unacorda.cli.spelling import written
    from unacorda.errors import UnsupportedEvent

    if all(answer.engine is None and answer.why is not None for answer in found):
        unknown = [one for one in found if one.why is not None and one.why.startswith("no theorem")]
        if unknown:
            kinds = ", ".join(one.name for one in unknown)
            _, _, hint = (unknown[0].why or "").partition(": ")
            raise UnsupportedEvent(written(event), kind=kinds, try_instead=hint)


def _plain(
    event: Event,
    found: Sequence[PrintedAnswer],
    notes: Sequence[str],
    relation: Neighbors,
    *,
    explain: bool,
) -> dict[str, Any]:
    from unacorda.accounting.explanation import explain as explained
    from unacorda.cli.spelling import written

    fields: dict[str, Any] = {
        "events": written(event),
        "event": json.loads(event.to_json()),
        "neighbors": str(relation),
        "answers": [answer.to_dict() for answer in found],
        "notes": list(notes),
    }
    if explain:
        fields["parts"] = explained(event, neighbors=relation).to_dict()["parts"]
        fields["findings"] = {one.name: list(one.findings) for one in found if one.findings}
    return fields


def _print(
    event: Event, found: Sequence[PrintedAnswer], relation: Neighbors, *, explain: bool
) -> None:
    from unacorda.accounting.explanation import explain as explained
    from unacorda.cli.answers import grid_of
    from unacorda.cli.spelling import written

    show.print_grid(grid_of(found))
    for answer in found:
        if answer.why is not None:
            show.line(show.wrapped(f"{answer.name}: {answer.why}"))
    show.line()
    show.line(f"Neighboring tables differ by {relation}.")
    if not explain:
        return
    for part in explained(event, neighbors=relation).parts:
        show.line(f"{part.count} x {written(part.event)}")
        show.line(show.wrapped(f"  {part.theorem} [{part.source}]"))
    for answer in found:
        if answer.findings:
            show.line(f"{answer.name}:")
            for text in answer.findings:
                show.line(show.wrapped(f"  {text}"))
