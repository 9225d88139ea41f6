"""`unacorda audit`: what scores of canaries prove."""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

import contextlib
import csv
import io
import math
from collections.abc import Callable, Mapping
from fractions import Fraction
from pathlib import Path
from typing import TYPE_CHECKING

import click

from unacorda.checks import demand, read_text
from unacorda.cli import params, render
from unacorda.cli.errors import ExitCode

if TYPE_CHECKING:
    from unacorda.audit import Bound

METHODS = ("one-run", "f-dp", "anytime", "many-runs")

_TRUE = frozenset({"1", "1.0", "true", "yes", "in"})
_FALSE = frozenset({"0", "0.0", "false", "no", "out"})


@params.verb(short_help="Bound the privacy loss from below, by scores of canaries.")
@click.argument("file", metavar="FILE", type=params.FILE, help="Scores and coins as CSV.")
@params.option(
    "--method",
    params.one_of(*METHODS),
    f"One of {', '.join(METHODS)}.",
    metavar="NAME",
    default="one-run",
    show_default=True,
)
@params.option("--delta", params.DELTA, "Epsilon at this delta.", default="0", show_default=True)
@params.option(
    "--confidence", params.CONFIDENCE, "How sure the bound is.", default="0.95", show_default=True
)
@params.option("--promised", params.EPSILON, "Fail if the bound is above it.", metavar="EPSILON")
@params.json_option
def audit(
    *,
    file: Path,
    method: str,
    delta: Fraction,
    confidence: Fraction,
    promised: Fraction | None,
    as_json: bool,
) -> int | None:
    """Bound the privacy loss from below, by scores of canaries that were included or not.

    FILE is a CSV file with the columns score and included (1 or 0, True or False): one line for
    each canary, or for each run with many-runs. A higher score means that the canary was likely
    included.

      one-run     one run, fair coins; any mechanism
      f-dp        one run, fair coins; noise that is about normal, and much tighter then
      anytime     one run, fair coins; pure epsilon
      many-runs   independent runs with and without one record

    Examples:
      unacorda audit scores.csv --delta 1e-5
      unacorda audit scores.csv --method f-dp --delta 1e-5 --promised 4 --json

    The code is 1 if --promised is refuted, 2 if FILE cannot be used.
    """
    from unacorda.audit import anytime, many_runs, one_run, one_run_f_dp

    said = render.plain(float(delta))
    if method == "anytime":
        demand(not delta, "--delta", said, expected="0, as anytime is for pure epsilon")
    if method == "f-dp":
        expected = "--delta above 0, since Gaussian DP has no epsilon at 0"
        demand(delta, "--delta", said, expected=expected)
    with params.of_file(file):
        scores, included = read_scores(read_text("FILE", file))
    methods: Mapping[str, Callable[..., Bound]] = {
        "one-run": one_run,
        "f-dp": one_run_f_dp,
        "anytime": anytime,
        "many-runs": many_runs,
    }
    at = {} if method == "anytime" else {"delta": float(delta)}
    bound = methods[method](scores, included, confidence=float(confidence), **at)
    most = None if promised is None else float(promised)
    refuted = most is not None and bound.contradicts(most)
    if as_json:
        render.as_json({**bound.to_dict(), "promised": most, "refuted": refuted})
    else:
        _print(bound, most, refuted=refuted)
    return ExitCode.FAILED if refuted else None


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
    render.print_table((bound.method, ""), rows, left=1)
    if bound.note:
        render.paragraph(bound.note)


def read_scores(text: str) -> tuple[list[float], list[bool]]:
    r"""Scores, and whether each canary was in; InvalidParameter names a line that cannot be used.

    >>> read_scores("score,included\n1.5,1\n-2,no\n")
    ([1.5, -2.0], [True, False])
    """
    lines = csv.DictReader(io.StringIO(text), restval="")
    try:
        names = list(lines.fieldnames or ())
        rows = [(lines.line_num, line) for line in lines]
    except csv.Error:
        names, rows = ["text that is no CSV"], []
    expected = f"the columns score and included, each once, not {', '.join(names) or 'none'}"
    demand(names.count("score") == names.count("included") == 1, "FILE", text, expected=expected)
    demand(rows, "FILE", text, expected="a line for each canary below its header")
    scores: list[float] = []
    included: list[bool] = []
    for place, line in rows:
        score, said = line["score"], line["included"]
        value, coin = math.nan, said.strip().lower()
        with contextlib.suppress(ValueError):
            value = float(score)
        demand(not math.isnan(value), f"score in line {place}", score, expected="a number")
        demand(coin in _TRUE | _FALSE, f"included in line {place}", said, expected="1 or 0")
        scores.append(value)
        included.append(coin in _TRUE)
    return scores, included
