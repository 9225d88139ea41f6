"""`unacorda plot`: what compositions cost, what was spent and released, and what attacks reach."""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

import datetime as dt
import functools
from collections.abc import Callable
from fractions import Fraction
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from unacorda.cli import ledgers, params, render
from unacorda.cli.account import GRAMMAR, check_neighbors
from unacorda.cli.audit import read_scores
from unacorda.cli.errors import EXIT_CODES
from unacorda.errors import InvalidParameter
from unacorda.extras import require
from unacorda.query.expressions.quoting import escape

if TYPE_CHECKING:
    from unacorda.cli.drawing import Drawn
    from unacorda.privacy.events import Event
    from unacorda.privacy.neighbors import Neighbors

__all__ = ["plot"]

_ENDINGS = (".svg", ".png", ".pdf")

HELP = f"""Draw what mechanisms cost, what was spent, a release, or an attack.

{GRAMMAR}

\b
Examples:
  unacorda plot tradeoff --output curve.svg "gaussian(noise_multiplier=2) * 4"
  unacorda plot profile --output profile.png \\
      "gaussian(noise_multiplier=1).poisson_sampled(rate=0.01) * 1000"
  unacorda plot amplification --delta 1e-5 --output free.svg \\
      "gaussian(noise_multiplier=1) * 100"
  unacorda plot budget --ledger sqlite:///budget.db --dataset visits-2024 \\
      --output spent.svg
  unacorda plot errors answer.json --column n --output answer.svg
  unacorda plot roc scores.csv --promised 4 --delta 1e-5 --output roc.svg

Every kind takes --output FILE, which is written anew: .svg, .png or .pdf; and --json, which prints
what was drawn. Needs `pip install 'unacorda[plots]'`.

{EXIT_CODES}"""

plot = params.InOrder(
    "plot",
    help=HELP,
    short_help="Draw what mechanisms cost, what was spent, a release, an attack.",
    no_args_is_help=True,
)

_events = click.argument("events", metavar="EVENTS", help="What is drawn.")
_file = click.argument("file", metavar="FILE", type=params.FILE, help="What is drawn.")


def _delta(description: str) -> params.Decorator:
    return click.option("--delta", metavar="X", type=params.DELTA, help=description)


def _kind(description: str, *options: params.Decorator) -> params.Decorator:
    """A kind of picture: a function that draws it, with the options that it takes."""

    def decorate(draw: Callable[..., Drawn]) -> Any:
        @functools.wraps(draw)
        def command(*, output: Path, as_json: bool, **given: Any) -> None:
            _check_target(output)
            require("matplotlib", extra="plots")
            with render.working("Drawing ...", quiet=as_json):
                drawn = draw(**given)
            _save(drawn, output)
            if as_json:
                render.as_json({"output": str(output), **drawn.numbers})
            else:
                render.line(f"Drawn: {escape(str(output))}")

        target = click.option(
            "--output",
            metavar="FILE",
            type=params.FILE,
            required=True,
            help="The picture: .svg, .png or .pdf. It is written anew.",
        )
        picture = click.option(
            "--json", "as_json", is_flag=True, help="Print what was drawn as JSON."
        )
        for option in reversed([*options, target, picture]):
            option(command)
        return plot.command(draw.__name__, help=description)(command)

    return decorate


def _priced(kind: str, text: str, relation: Neighbors, **rest: Any) -> Drawn:
    """A picture of events, which are its title."""
    from unacorda.cli import drawing
    from unacorda.cli.events import read_event

    event: Event = read_event(text)
    check_neighbors(event, relation)
    drawn: Drawn = getattr(drawing, kind)(event, relation, **rest)
    drawn.axes.set_title(text if len(text) <= 60 else f"{text[:57]}...", fontsize=10)
    return drawn


@_kind(
    "What an attacker misses, against their rate of false alarms.",
    _events,
    params.neighbors,
    click.option(
        "--scores",
        metavar="FILE",
        type=params.FILE,
        help="Scores of independent runs, as unacorda audit reads them: shades what they rule out.",
    ),
    click.option(
        "--confidence",
        metavar="X",
        type=params.CONFIDENCE,
        help="Of what the scores rule out: 0.95 where it is left out.",
    ),
)
def tradeoff(
    *, events: str, neighbors: Neighbors, scores: Path | None, confidence: Fraction | None
) -> Drawn:
    """The trade-off curve."""
    from unacorda.attacks import error_region

    region = None
    if scores is not None:
        sure = 0.95 if confidence is None else float(confidence)
        known = read_scores(params.read_text("--scores", scores))
        region = error_region(*known, confidence=sure)
    elif confidence is not None:
        expected = "--scores with it"
        raise InvalidParameter("--confidence", render.plain(float(confidence)), expected=expected)
    return _priced("tradeoff", events, neighbors, region=region)


@_kind("Delta over epsilon.", _events, params.neighbors)
def profile(*, events: str, neighbors: Neighbors) -> Drawn:
    """The privacy profile."""
    return _priced("profile", events, neighbors)


@_kind(
    "The privacy loss distribution.",
    _events,
    params.neighbors,
    _delta("Marks the epsilon at this delta."),
)
def loss(*, events: str, neighbors: Neighbors, delta: Fraction | None) -> Drawn:
    """The losses of both directions."""
    at = None if delta is None else float(delta)
    return _priced("loss", events, neighbors, delta=at)


@_kind(
    "What Poisson samples of each event cost compared with their share, at --delta.",
    _events,
    params.neighbors,
    _delta("Above 0: where epsilons are compared."),
)
def amplification(*, events: str, neighbors: Neighbors, delta: Fraction | None) -> Drawn:
    """What samples cost."""
    if not delta:
        given = None if delta is None else 0
        expected = "--delta above 0, at which epsilons are compared"
        raise InvalidParameter("--delta", given, expected=expected)
    return _priced("amplification", events, neighbors, delta=float(delta))


@_kind("What was spent over time, of --dataset in --ledger.", ledgers.ledger, ledgers.dataset)
def budget(*, ledger: str | None, dataset: str | None) -> Drawn:
    """The spend of an account."""
    from unacorda.cli import drawing

    if ledger is None:
        expected = "--ledger, which keeps the account"
        raise InvalidParameter("--ledger", None, expected=expected)
    with ledgers.opened(ledger, must_exist=True) as book:
        names = ledgers.chosen(book, dataset)
        if len(names) != 1:
            expected = f"--dataset, one of {', '.join(names) or 'none'}"
            raise InvalidParameter("--dataset", None, expected=expected)
        return drawing.budget(book, names[0], now=dt.datetime.now(dt.UTC))


@_kind(
    "A release as JSON, with its intervals.",
    _file,
    click.option("--column", metavar="NAME", help="The column, where there are several."),
)
def errors(*, file: Path, column: str | None) -> Drawn:
    """A column of a release."""
    from unacorda.cli import drawing

    with params.of_file(file):
        return drawing.errors(params.read_text("FILE", file), column)


@_kind(
    "An attack, by scores as unacorda audit reads them.",
    _file,
    click.option(
        "--promised",
        metavar="EPSILON",
        type=params.EPSILON,
        help="Draws the most that it allows.",
    ),
    _delta("Of what is promised."),
)
def roc(*, file: Path, promised: Fraction | None, delta: Fraction | None) -> Drawn:
    """Hits against false alarms."""
    from unacorda.cli import drawing

    if promised is None and delta is not None:
        raise InvalidParameter("--delta", render.plain(float(delta)), expected="--promised with it")
    with params.of_file(file):
        scores, included = read_scores(params.read_text("FILE", file))
    epsilon = None if promised is None else float(promised)
    return drawing.roc(scores, included, promised=epsilon, delta=float(delta or 0))


def _check_target(output: Path) -> None:
    """Raise InvalidParameter for a place where no picture can be."""
    expected = None
    if output.suffix.lower() not in _ENDINGS:
        expected = f"a name that ends with {', '.join(_ENDINGS)}"
    elif not output.parent.is_dir():
        expected = "a folder that is there"
    elif output.is_dir():
        expected = "a file, not a folder"
    if expected is not None:
        raise InvalidParameter("--output", str(output), expected=expected)


def _save(drawn: Drawn, output: Path) -> None:
    """Write the picture; InvalidParameter where the file may not be written."""
    refused = None
    try:
        drawn.axes.figure.savefig(output)
    except OSError as error:
        refused = error.strerror or "it cannot be written"
    if refused is not None:
        expected = f"a file that can be written: {refused}"
        raise InvalidParameter("--output", str(output), expected=expected)
