"""`unacorda plot`: what compositions cost, what was spent and released, and what attacks reach."""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

import datetime as dt
import json
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from unacorda.cli import show
from unacorda.cli.account import (
    GRAMMAR,
    check_neighbors,
    exact_option,
    neighbors_of,
    working_unless,
)
from unacorda.cli.failures import EXIT_CODES, reporting
from unacorda.cli.ledgers import opened
from unacorda.cli.mends import no_account
from unacorda.cli.options import of_file, read_text
from unacorda.cli.scores import read_scores
from unacorda.errors import InvalidParameter, LedgerMismatch
from unacorda.extras import require
from unacorda.query.schema.quoting import escape

if TYPE_CHECKING:
    from unacorda.attacks import ErrorRegion
    from unacorda.cli.drawing import Drawn
    from unacorda.ledger.ledger import Ledger

__all__ = ["HELP", "SUMMARY", "plot"]

SUMMARY = "Draw what mechanisms cost, what was spent, a release, an attack."

KINDS = {
    "tradeoff": ("EVENTS", frozenset({"--neighbors", "--scores", "--confidence"})),
    "profile": ("EVENTS", frozenset({"--neighbors"})),
    "loss": ("EVENTS", frozenset({"--neighbors", "--delta"})),
    "amplification": ("EVENTS", frozenset({"--neighbors", "--delta"})),
    "budget": ("", frozenset({"--ledger", "--dataset"})),
    "errors": ("FILE", frozenset({"--column"})),
    "roc": ("FILE", frozenset({"--promised", "--delta"})),
}
"""What each kind is asked about, and its options."""

_ENDINGS = (".svg", ".png", ".pdf")

HELP = f"""Draw what mechanisms cost, what was spent, a release, or an attack.

\b
  tradeoff EVENTS        what an attacker misses, against their rate of false
                         alarms; --scores FILE shades what an audit rules out
  profile EVENTS         delta over epsilon
  loss EVENTS            the privacy loss distribution; --delta marks epsilon
  amplification EVENTS   what Poisson samples of each event cost beside their
                         share, at --delta
  budget                 what was spent over time, of --dataset in --ledger
  errors FILE            a release as JSON, with its intervals
  roc FILE               an attack, by scores as unacorda audit reads them;
                         --promised draws what an epsilon allows

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

Needs `pip install 'unacorda[plots]'`.

{EXIT_CODES}"""

_Given = dict[str, Any]


def plot(
    kind: Annotated[
        str,
        typer.Argument(metavar="KIND", help=f"One of {', '.join(KINDS)}.", show_default=False),
    ],
    what: Annotated[
        str | None,
        typer.Argument(metavar="[EVENTS|FILE]", help="What is drawn.", show_default=False),
    ] = None,
    *,
    output: Annotated[
        Path,
        typer.Option(
            "--output",
            metavar="FILE",
            help="The picture: .svg, .png or .pdf. It is written anew.",
            show_default=False,
        ),
    ],
    neighbors: Annotated[
        str | None,
        typer.Option(
            "--neighbors",
            metavar="RELATION",
            help="How neighboring tables differ: add-remove (the default), replace-one or "
            "zero-out.",
            show_default=False,
        ),
    ] = None,
    delta: Annotated[
        str | None,
        typer.Option(
            "--delta", metavar="X", help="Of amplification, loss and roc.", show_default=False
        ),
    ] = None,
    scores: Annotated[
        Path | None,
        typer.Option(
            "--scores",
            metavar="FILE",
            help="Of tradeoff: scores of independent runs, as unacorda audit reads them.",
            show_default=False,
        ),
    ] = None,
    confidence: Annotated[
        str | None,
        typer.Option(
            "--confidence",
            metavar="X",
            help="Of what the scores rule out: 0.95 where it is left out.",
            show_default=False,
        ),
    ] = None,
    promised: Annotated[
        str | None,
        typer.Option(
            "--promised",
            metavar="EPSILON",
            help="Of roc: draws the most that it allows.",
            show_default=False,
        ),
    ] = None,
    ledger: Annotated[
        str | None,
        typer.Option(
            "--ledger",
            metavar="URL",
            help="Of budget: such as sqlite:///budget.db.",
            show_default=False,
        ),
    ] = None,
    dataset: Annotated[
        str | None,
        typer.Option(
            "--dataset",
            metavar="NAME",
            help="Of budget: the account, where there are several.",
            show_default=False,
        ),
    ] = None,
    column: Annotated[
        str | None,
        typer.Option(
            "--column",
            metavar="NAME",
            help="Of errors: the column, where there are several.",
            show_default=False,
        ),
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print what was drawn as JSON.")] = False,
) -> None:
    """The verb; its help is `HELP`."""
    given: _Given = {
        "--neighbors": neighbors,
        "--delta": delta,
        "--scores": scores,
        "--confidence": confidence,
        "--promised": promised,
        "--ledger": ledger,
        "--dataset": dataset,
        "--column": column,
    }
    with reporting():
        _check(kind, what, given, output)
        require("matplotlib", extra="plots")
        make = _asked(kind, what or "", given)
        with working_unless(as_json, "Drawing ..."):
            drawn = make()
        _save(drawn, output)
        if as_json:
            show.line(json.dumps({"output": str(output), **drawn.numbers}, indent=2))
        else:
            show.line(f"Drawn: {escape(str(output))}")


def _check(kind: str, what: str | None, given: _Given, output: Path) -> None:
    """Raise InvalidParameter for what does not go together, before anything is read."""
    if kind not in KINDS:
        raise InvalidParameter("KIND", kind, expected=f"one of {', '.join(KINDS)}")
    named, options = KINDS[kind]
    if named and what is None:
        raise InvalidParameter(named, None, expected=f"{named} after {kind}")
    if not named and what is not None:
        raise InvalidParameter("KIND", f"{kind} {what}", expected=f"nothing after {kind}")
    for option, value in given.items():
        if value is not None and option not in options:
            kinds = ", ".join(name for name, (_, taken) in KINDS.items() if option in taken)
            raise InvalidParameter(option, str(value), expected=f"it with {kinds}, not {kind}")
    if output.suffix.lower() not in _ENDINGS:
        raise InvalidParameter(
            "--output", str(output), expected=f"a name that ends with {', '.join(_ENDINGS)}"
        )
    if not output.parent.is_dir():
        raise InvalidParameter("--output", str(output), expected="a folder that is there")
    if output.is_dir():
        raise InvalidParameter("--output", str(output), expected="a file, not a folder")


def _asked(kind: str, what: str, given: _Given) -> Callable[[], Drawn]:
    """What draws it, once all that was given has been read."""
    from unacorda.cli import drawing

    if kind == "budget":
        url, dataset = given["--ledger"], given["--dataset"]
        if url is None:
            raise InvalidParameter("--ledger", None, expected="--ledger, which keeps the account")
        return lambda: _budget(url, dataset)
    if kind == "errors":
        release = Path(what)
        text = read_text("FILE", release)

        def errors() -> Drawn:
            with of_file(release):
                return drawing.errors(text, given["--column"])

        return errors
    delta = _share("--delta", given["--delta"])
    if kind == "roc":
        with of_file(Path(what)):
            lines = read_scores(read_text("FILE", Path(what)))
        promised = given["--promised"]
        if promised is None and delta is not None:
            raise InvalidParameter("--delta", given["--delta"], expected="it beside --promised")
        epsilon = None if promised is None else float(exact_option("--promised", promised))
        return lambda: drawing.roc(*lines, promised=epsilon, delta=delta or 0.0)
    return _of_events(kind, what, given, delta)


def _of_events(kind: str, what: str, given: _Given, delta: float | None) -> Callable[[], Drawn]:
    from unacorda.cli import drawing
    from unacorda.cli.notation import read_event

    relation = neighbors_of("add-remove" if given["--neighbors"] is None else given["--neighbors"])
    region = _region(given)
    if kind == "amplification" and not delta:
        expected = "--delta above 0, at which epsilons are compared"
        raise InvalidParameter("--delta", given["--delta"], expected=expected)
    event = read_event(what)
    check_neighbors(event, relation)

    def draw() -> Drawn:
        match kind:
            case "tradeoff":
                drawn = drawing.tradeoff(event, relation, region)
            case "profile":
                drawn = drawing.profile(event, relation)
            case "loss":
                drawn = drawing.loss(event, relation, delta=delta)
            case _:
                drawn = drawing.amplification(event, relation, delta=delta or 0.0)
        drawn.axes.set_title(what if len(what) <= 60 else f"{what[:57]}...", fontsize=10)
        return drawn

    return draw


def _region(given: _Given) -> ErrorRegion | None:
    """What an audit rules out."""
    from unacorda.attacks import error_region

    sure, path = given["--confidence"], given["--scores"]
    if path is None:
        if sure is not None:
            raise InvalidParameter("--confidence", sure, expected="it beside --scores")
        return None
    confidence = 0.95 if sure is None else _share("--confidence", sure)
    if not confidence:
        raise InvalidParameter("--confidence", sure, expected="a number above 0, below 1")
    return error_region(*read_scores(read_text("--scores", path)), confidence=confidence)


def _share(option: str, text: str | None) -> float | None:
    return None if text is None else float(exact_option(option, text, below=1))


def _budget(url: str, dataset: str | None) -> Drawn:
    from unacorda.cli import drawing

    with opened(url, must_exist=True) as book:
        return drawing.budget(book, _account(book, dataset), now=dt.datetime.now(dt.UTC))


def _account(book: Ledger, dataset: str | None) -> str:
    known = book.datasets()
    if dataset is None and len(known) == 1:
        return known[0]
    if dataset is None:
        names = ", ".join(known)
        raise InvalidParameter("--dataset", None, expected=f"--dataset, one of {names or 'none'}")
    if dataset not in known:
        raise LedgerMismatch(no_account(dataset, known))
    return dataset


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
