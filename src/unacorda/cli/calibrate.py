"""`unacorda calibrate`: the least noise, the most steps or the largest rate for a target."""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

import dataclasses
import json
import math
from fractions import Fraction
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from unacorda.cli import show
from unacorda.cli.account import GRAMMAR, exact_option, neighbors_of, working_unless
from unacorda.cli.failures import EXIT_CODES, reporting
from unacorda.errors import InvalidParameter

if TYPE_CHECKING:
    from unacorda.cli.aims import Aim
    from unacorda.cli.answers import PrintedAnswer
    from unacorda.cli.searching import CommandSearch, SearchResult
    from unacorda.privacy.neighbors import Neighbors

__all__ = ["HELP", "SUMMARY", "calibrate"]

SUMMARY = "Find the least noise, or the most steps, for a target."

HELP = f"""Find the least noise, the most steps or the largest rate with which EVENTS meet a target.

{GRAMMAR}

One number is left open: a free name, such as x. The value that is found was priced itself, and
meets the target; how much is left is said.

\b
Examples:
  unacorda calibrate --epsilon 2 --delta 1e-5 \\
      "gaussian(noise_multiplier=x).poisson_sampled(rate=0.01) * 10000"
  unacorda calibrate --rho 0.5 "gaussian(noise_multiplier=10) * n"
  unacorda calibrate --advantage 0.1 --json \\
      "gaussian(noise_multiplier=1).poisson_sampled(rate=q) * 100"

{EXIT_CODES}"""


def calibrate(
    events: Annotated[
        str,
        typer.Argument(metavar="EVENTS", help="Events with one free name.", show_default=False),
    ],
    *,
    epsilon: Annotated[
        str | None,
        typer.Option(
            "--epsilon",
            metavar="X",
            help="At most this epsilon: pure DP; with --delta approximate DP, with --alpha Renyi "
            "DP.",
            show_default=False,
        ),
    ] = None,
    delta: Annotated[
        str | None,
        typer.Option(
            "--delta", metavar="X", help="With --epsilon, --rho or --mu.", show_default=False
        ),
    ] = None,
    alpha: Annotated[
        str | None,
        typer.Option(
            "--alpha", metavar="X", help="With --epsilon: the Renyi order.", show_default=False
        ),
    ] = None,
    rho: Annotated[
        str | None,
        typer.Option(
            "--rho", metavar="X", help="At most this rho: zero-concentrated DP.", show_default=False
        ),
    ] = None,
    mu: Annotated[
        str | None,
        typer.Option("--mu", metavar="X", help="At most this mu: Gaussian DP.", show_default=False),
    ] = None,
    advantage: Annotated[
        str | None,
        typer.Option(
            "--advantage",
            metavar="X",
            help="At most this advantage of an attacker, true minus false positives.",
            show_default=False,
        ),
    ] = None,
    tpr: Annotated[
        str | None,
        typer.Option(
            "--tpr",
            metavar="X",
            help="At most this share of members found, with --fpr.",
            show_default=False,
        ),
    ] = None,
    fpr: Annotated[
        str | None,
        typer.Option(
            "--fpr",
            metavar="X",
            help="With --tpr: the share of others who are taken for members.",
            show_default=False,
        ),
    ] = None,
    find: Annotated[
        str | None,
        typer.Option(
            "--find",
            metavar="least|most",
            help="Which end is wanted; otherwise seen from which way the cost falls.",
            show_default=False,
        ),
    ] = None,
    within: Annotated[
        str | None,
        typer.Option(
            "--within",
            metavar="LOW:HIGH",
            help="The range that is searched; otherwise 1e-9 to 1e12, as far as it makes sense.",
            show_default=False,
        ),
    ] = None,
    tolerance: Annotated[
        str, typer.Option("--tolerance", metavar="X", help="The relative width of the search.")
    ] = "1e-9",
    neighbors: Annotated[
        str,
        typer.Option(
            "--neighbors",
            metavar="RELATION",
            help="How neighboring tables differ: add-remove, replace-one or zero-out.",
        ),
    ] = "add-remove",
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """The verb; its help is `HELP`."""
    with reporting():
        relation = neighbors_of(neighbors)
        given = {
            "epsilon": _number("--epsilon", epsilon),
            "delta": _number("--delta", delta, below=1, tiny=1e-300),
            "alpha": _number("--alpha", alpha, above=1, most=1e100),
            "rho": _number("--rho", rho),
            "mu": _number("--mu", mu),
            "advantage": _number("--advantage", advantage, most=1),
            "tpr": _number("--tpr", tpr, most=1),
            "fpr": _number("--fpr", fpr, most=1),
        }
        from unacorda.cli.aims import aim_of

        aim = aim_of(given)
        search = _search(events, aim, relation, find=find, within=within, tolerance=tolerance)
        with working_unless(as_json, "Calibrating ..."):
            found = search.run()
            answer = _answer(found, aim, relation)
        if as_json:
            fields = _plain(search, found, answer, aim, relation)
            show.line(json.dumps(fields, indent=2, allow_nan=False))
        else:
            _print(search, found, answer, aim, relation)


def _number(
    option: str,
    text: str | None,
    *,
    tiny: float = 0,
    most: float = 1e300,
    below: float | None = None,
    above: float | None = None,
) -> Fraction | None:
    if text is None:
        return None
    return exact_option(option, text, tiny=tiny, most=most, below=below, above=above)


def _search(
    text: str,
    aim: Aim,
    relation: Neighbors,
    *,
    find: str | None,
    within: str | None,
    tolerance: str,
) -> CommandSearch:
    from unacorda.accounting.calibration.targets import measure
    from unacorda.cli.notation import ARGUMENT, read_template
    from unacorda.cli.searching import CommandSearch
    from unacorda.cli.spelling import CLASSES, KINDS

    template = read_template(text)
    names = [name for name in template.names if name not in KINDS and name not in CLASSES]
    if len(names) != 1:
        if not names:
            template.event()  # whatever else is wrong with it is said first
        raise InvalidParameter(
            ARGUMENT,
            text,
            expected="one free name where a number stands, such as gaussian(noise_multiplier=x)"
            + (f", not {', '.join(names)}" if names else ""),
        )
    ends: Literal["least", "most"] | None = None
    if find is not None:
        if find not in ("least", "most"):
            raise InvalidParameter("--find", find, expected="least or most")
        ends = "least" if find == "least" else "most"
    width = float(exact_option("--tolerance", tolerance, below=1))
    if width < 1e-14:
        raise InvalidParameter("--tolerance", tolerance, expected="from 1e-14 to below 1")
    (name,) = names
    return CommandSearch(
        template=template,
        name=name,
        measure=measure(aim.target, neighbors=relation),
        neighbors=relation,
        within=None if within is None else _within(within, whole=name in template.whole),
        find=ends,
        tolerance=width,
    )


def _within(text: str, *, whole: bool) -> tuple[float, float]:
    low, colon, high = text.partition(":")
    expected = "LOW:HIGH, with 1e-300 <= LOW <= HIGH" + (", whole numbers" if whole else "")
    if colon:
        ends = [exact_option("--within", end.strip(), above=0) for end in (low, high)]
        if Fraction("1e-300") <= ends[0] <= ends[1] and (
            not whole or all(end.denominator == 1 for end in ends)
        ):
            return (int(ends[0]), int(ends[1])) if whole else (float(ends[0]), float(ends[1]))
    raise InvalidParameter("--within", text, expected=expected)


def _answer(found: SearchResult, aim: Aim, relation: Neighbors) -> PrintedAnswer:
    """What the value costs from both sides; its upper end meets the target."""
    from unacorda.cli.answers import answers
    from unacorda.privacy.rounding import root_up

    (answer,) = answers(found.event, aim.asked, neighbors=relation)
    cost = Fraction(found.cost)
    upper = root_up(cost) if aim.squared else _up(cost)
    known = math.inf if answer.upper is None else answer.upper
    lower = None if answer.lower is None else min(answer.lower, upper)
    return dataclasses.replace(answer, at=aim.at, upper=min(known, upper), lower=lower, why=None)


def _up(cost: Fraction) -> float:
    near = float(cost)
    return near if Fraction(near) >= cost else math.nextafter(near, math.inf)


def _left(answer: PrintedAnswer, aim: Aim) -> float:
    """What the target allows beyond the upper end, 0 or above."""
    assert answer.upper is not None
    return float(max(Fraction(0), aim.at_most - Fraction(answer.upper)))


def _plain(
    search: CommandSearch, found: SearchResult, answer: PrintedAnswer, aim: Aim, relation: Neighbors
) -> dict[str, Any]:
    from unacorda.cli.spelling import written

    return {
        "name": search.name,
        "value": found.value,
        "find": found.find,
        "fails": found.fails,
        "events": written(found.event),
        "event": json.loads(found.event.to_json()),
        "neighbors": str(relation),
        "target": {"measure": aim.measure, "at": dict(aim.at), "at_most": float(aim.at_most)},
        "cost": answer.to_dict(),
        "left": _left(answer, aim),
        "evaluations": found.evaluations,
    }


def _print(
    search: CommandSearch, found: SearchResult, answer: PrintedAnswer, aim: Aim, relation: Neighbors
) -> None:
    from unacorda.cli.answers import outward, plain
    from unacorda.cli.spelling import written

    assert answer.upper is not None
    cost = f"at most {outward(answer.upper, up=True)}"
    if answer.lower is not None:
        cost = f"from {outward(answer.lower, up=False)} to {outward(answer.upper, up=True)}"
    kind = "least" if found.find == "least" else "most"
    facts = {
        search.name: f"{plain(found.value)} is the {kind} with {aim.name}",
        "costs": f"{answer.measure} {cost}; {_left(answer, aim):.3g} is left",
        "fails": "nothing in the range" if found.fails is None else plain(found.fails),
        "engine": f"{answer.engine or 'none'} [{answer.source or '-'}]",
        "events": written(found.event),
    }
    for name, text in facts.items():
        show.line(f"{name + ':':10}{text}")
    show.line(f"Neighboring tables differ by {relation}.")
