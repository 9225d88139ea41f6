"""`tacet plot`: what a composition costs, as a picture."""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

import json
import math
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from tacet.cli import show
from tacet.cli.account import GRAMMAR, check_neighbors, neighbors_of, working_unless
from tacet.cli.failures import EXIT_CODES, reporting
from tacet.errors import InvalidParameter

if TYPE_CHECKING:
    from tacet.privacy.events import Event
    from tacet.privacy.neighbors import Neighbors

__all__ = ["HELP", "SUMMARY", "plot"]

SUMMARY = "Draw what a composition of mechanisms costs."

KINDS = ("tradeoff", "profile")
_ENDINGS = (".svg", ".png", ".pdf")
_POINTS = 25

HELP = f"""Draw what a composition of mechanisms costs, from both sides.

\b
  tradeoff   what an attacker misses, against her rate of false alarms
  profile    delta over epsilon

{GRAMMAR}

\b
Examples:
  tacet plot tradeoff --output curve.svg "gaussian(noise_multiplier=2) * 4"
  tacet plot profile --output profile.png \\
      "gaussian(noise_multiplier=1).poisson_sampled(rate=0.01) * 1000"

Needs `pip install 'tacet[plots]'`.

{EXIT_CODES}"""


def plot(
    kind: Annotated[
        str, typer.Argument(metavar="KIND", help="tradeoff or profile.", show_default=False)
    ],
    events: Annotated[
        str, typer.Argument(metavar="EVENTS", help="What is priced.", show_default=False)
    ],
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
        str,
        typer.Option(
            "--neighbors",
            metavar="RELATION",
            help="How neighbouring tables differ: add-remove, replace-one or zero-out.",
        ),
    ] = "add-remove",
    as_json: Annotated[bool, typer.Option("--json", help="Print what was drawn as JSON.")] = False,
) -> None:
    """The verb; its help is `HELP`."""
    with reporting():
        from tacet.cli.notation import read_event

        if kind not in KINDS:
            raise InvalidParameter("KIND", kind, expected=f"one of {', '.join(KINDS)}")
        if output.suffix.lower() not in _ENDINGS:
            raise InvalidParameter(
                "--output", str(output), expected=f"a name that ends with {', '.join(_ENDINGS)}"
            )
        if not output.parent.is_dir():
            raise InvalidParameter("--output", str(output), expected="a folder that is there")
        relation, event = neighbors_of(neighbors), read_event(events)
        check_neighbors(event, relation)
        with working_unless(as_json, "Drawing ..."):
            drawn = _tradeoff(event, relation) if kind == "tradeoff" else _profile(event, relation)
            drawn.axes.set_title(events if len(events) <= 60 else events[:57] + "...")
            drawn.axes.figure.savefig(output)
        if as_json:
            show.line(json.dumps({"output": str(output), **drawn.numbers}, indent=2))
        else:
            show.line(f"Drawn: {output}")


@dataclass(frozen=True, slots=True)
class _Drawn:
    """The axes, and by name the numbers on them."""

    axes: Any
    numbers: dict[str, list[float]]


def _tradeoff(event: Event, relation: Neighbors) -> _Drawn:
    from tacet import accounting, plots

    curve = accounting.tradeoff(event, neighbors=relation)
    rates = [k / _POINTS for k in range(_POINTS + 1)]
    ends = [curve.beta_interval(alpha=rate) for rate in rates]
    lower, upper = [end.lower for end in ends], [end.upper for end in ends]
    axes = plots.tradeoff(
        {"no test misses less": (rates, lower), "some test misses no more": (rates, upper)}
    )
    return _Drawn(axes, {"alpha": rates, "beta_lower": lower, "beta_upper": upper})


def _profile(event: Event, relation: Neighbors) -> _Drawn:
    from tacet import accounting, plots

    most = accounting.epsilon(event, delta=1e-10, neighbors=relation)
    if not 0 < most < math.inf:
        raise InvalidParameter(
            "EVENTS", f"epsilon {most:g} at delta 1e-10", expected="some loss, and a finite one"
        )
    epsilons = [most * k / _POINTS for k in range(_POINTS + 1)]
    ends = [accounting.delta_interval(event, epsilon=e, neighbors=relation) for e in epsilons]
    lower, upper = [end.lower for end in ends], [end.upper for end in ends]
    axes = plots.profile({"delta": (epsilons, lower, upper)})
    return _Drawn(axes, {"epsilon": epsilons, "delta_lower": lower, "delta_upper": upper})
