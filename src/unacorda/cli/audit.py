"""`unacorda audit`: what scores of canaries prove."""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from unacorda.cli import show
from unacorda.cli.account import exact_option
from unacorda.cli.failures import EXIT_CODES, ExitCode, reporting
from unacorda.cli.options import of_file, read_text
from unacorda.cli.scores import read_scores
from unacorda.errors import InvalidParameter

if TYPE_CHECKING:
    from unacorda.audit import Bound

__all__ = ["HELP", "SUMMARY", "audit"]

SUMMARY = "Bound the privacy loss from below, by scores of canaries."

METHODS = ("one-run", "f-dp", "anytime", "many-runs")

HELP = f"""Bound the privacy loss from below, by scores of canaries that were put in or left out.

FILE is a CSV file with the columns score and included (1 or 0, True or False): one line a canary,
or one a run for many-runs. The higher a score, the likelier the canary was in.

\b
  one-run     one run, fair coins; any mechanism
  f-dp        one run, fair coins; noise that is about normal, and much tighter then
  anytime     one run, fair coins; pure epsilon
  many-runs   independent runs with and without one record

\b
Examples:
  unacorda audit scores.csv --delta 1e-5
  unacorda audit scores.csv --method f-dp --delta 1e-5 --promised 4 --json

The code is 1 if --promised is refuted, 2 if FILE cannot be used.

{EXIT_CODES}"""


def audit(
    file: Annotated[
        Path,
        typer.Argument(metavar="FILE", help="Scores and coins as CSV.", show_default=False),
    ],
    *,
    method: Annotated[
        str, typer.Option("--method", metavar="NAME", help=f"One of {', '.join(METHODS)}.")
    ] = "one-run",
    delta: Annotated[
        str, typer.Option("--delta", metavar="X", help="Epsilon at this delta.")
    ] = "0",
    confidence: Annotated[
        str, typer.Option("--confidence", metavar="X", help="How sure the bound is.")
    ] = "0.95",
    promised: Annotated[
        str | None,
        typer.Option(
            "--promised",
            metavar="EPSILON",
            help="Fail if the bound is above it.",
            show_default=False,
        ),
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """The verb; its help is `HELP`."""
    with reporting():
        if method not in METHODS:
            raise InvalidParameter("--method", method, expected=f"one of {', '.join(METHODS)}")
        loss = float(exact_option("--delta", delta, below=1))
        sure = float(exact_option("--confidence", confidence, above=0, below=1))
        most = None if promised is None else float(exact_option("--promised", promised))
        if method == "anytime" and loss:
            raise InvalidParameter("--delta", delta, expected="0, as anytime is for pure epsilon")
        if method == "f-dp" and not loss:
            expected = "--delta above 0, since Gaussian DP has no epsilon at 0"
            raise InvalidParameter("--delta", delta, expected=expected)
        with of_file(file):
            scores, included = read_scores(read_text("FILE", file))
        bound = _bound(method, scores, included, delta=loss, confidence=sure)
        refuted = most is not None and bound.contradicts(most)
        if as_json:
            fields = {**bound.to_dict(), "promised": most, "refuted": refuted}
            show.line(json.dumps(fields, indent=2))
        else:
            _print(bound, most, refuted=refuted)
        if refuted:
            raise typer.Exit(ExitCode.FAILED)


def _bound(
    method: str, scores: list[float], included: list[bool], *, delta: float, confidence: float
) -> Bound:
    from unacorda.audit import anytime, many_runs, one_run, one_run_f_dp

    if method == "anytime":
        return anytime(scores, included, confidence=confidence)
    if method == "f-dp":
        return one_run_f_dp(scores, included, delta=delta, confidence=confidence)
    ask = one_run if method == "one-run" else many_runs
    return ask(scores, included, delta=delta, confidence=confidence)


def _print(bound: Bound, promised: float | None, *, refuted: bool) -> None:
    rows = [
        ("epsilon is at least", f"{bound.epsilon:.4g}"),
        ("at delta", f"{bound.delta:g}"),
        ("with confidence", f"{bound.confidence:g}"),
        ("guesses right", f"{bound.right:,} of {bound.guesses:,}"),
    ]
    if bound.mu is not None:
        rows.insert(1, ("mu is at least", f"{bound.mu:.4g}"))
    if promised is not None:
        rows.append(("promised", f"{promised:g}: {'refuted' if refuted else 'not refuted'}"))
    show.print_grid(show.TextTable(heads=(bound.method, ""), rows=tuple(rows), left=1))
    if bound.note:
        show.line(show.wrapped(bound.note))
