"""`unacorda plot`: what compositions cost, what was spent and released, and what attacks reach."""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

import datetime as dt
import json
import math
import textwrap
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import click

from unacorda.checks import demand, read_text
from unacorda.cli import params, render
from unacorda.cli.account import check_neighbors
from unacorda.cli.audit import read_scores
from unacorda.cli.ledger import chosen, dataset_option, ledger_option, opened
from unacorda.cli.output import check_target
from unacorda.errors import InvalidParameter
from unacorda.extras import require

if TYPE_CHECKING:
    from unacorda.ledger.ledger import Ledger
    from unacorda.privacy.events import Event
    from unacorda.privacy.neighbors import Neighbors

_POINTS = 25
_NEAR_ZERO = tuple(10 ** (-k / 6) / _POINTS for k in range(1, 19))
"""False-alarm rates down to 4e-5, where trade-off curves are steepest."""
_LOW = tuple(2.0**-k / _POINTS for k in range(1, 4))
_RATES = tuple(10 ** (-k / 3) for k in range(9, -1, -1))  # from 0.001 to 1
_MOST_LINES = 100
_GRID = 1 << 11
_ENDS = ("", "_se", "_low", "_high")
_PLAIN = {int, float, type(None)}
_SEEN = 1e-4  # of the largest mass: what is smaller would not be seen

_HELP = """Draw what mechanisms cost, what was spent, a release, or an attack.

{GRAMMAR}

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

Every kind takes --output FILE, which is written anew: .svg, .png or .pdf; --size and --dpi of the
picture; and --json, which prints what was drawn. Needs `pip install 'unacorda[plots]'`.

{EXIT_CODES}"""

plot = params.InOrder(
    "plot",
    help=_HELP,
    short_help="Draw what mechanisms cost, what was spent, a release, an attack.",
)

_file = click.argument("file", metavar="FILE", type=params.FILE, help="What is drawn.")


@dataclass(frozen=True, slots=True)
class Drawn:
    """The axes, and by name the numbers on them."""

    axes: Any
    numbers: dict[str, Any]


def _read_size(name: str, text: str) -> tuple[float, float]:
    """Width and height in inches."""
    try:
        width, height = map(float, text.split(","))
    except ValueError:
        width = height = math.nan
    fits = 1 <= width <= 50 and 1 <= height <= 50
    demand(fits, name, text, expected="width and height from 1 to 50 inches, such as 8,5")
    return width, height


_SIZE = params.Read(_read_size, "W,H")
_DPI = params.number(least=20, most=1200)


def _delta(description: str) -> params.Decorator:
    return params.option("--delta", params.DELTA, description)


def _kind(
    *options: params.Decorator, of_events: bool = False
) -> Callable[[Callable[..., Drawn]], Any]:
    """A kind of picture: a function that draws it, named as it is, and the options that it takes.

    of_events: it draws an event under its relation; the picture's title is the event's text.
    """
    target = params.option(
        "--output",
        params.FILE,
        "The picture: .svg, .png or .pdf. It is written anew.",
        required=True,
    )
    events = click.argument("events", metavar="EVENTS", help="What is drawn.")
    every = [*((events, params.neighbors) if of_events else ()), *options, target]
    every.append(params.option("--size", _SIZE, "Width and height in inches, such as 8,5."))
    every.append(params.option("--dpi", _DPI, "Dots an inch of a .png: 150 where left out."))
    every.append(params.flag("--json as_json", "Print what was drawn as JSON."))

    def decorate(draw: Callable[..., Drawn]) -> Any:
        def command(
            *,
            output: Path,
            size: tuple[float, float] | None,
            dpi: Fraction | None,
            as_json: bool,
            **given: Any,
        ) -> None:
            check_target(output, "picture", overwrite=True)
            require("matplotlib", extra="plots")
            with render.working("Drawing ...", quiet=as_json):
                drawn = _of_events(draw, **given) if of_events else draw(**given)
            figure = drawn.axes.figure
            if size is not None:
                figure.set_size_inches(size)
            _wrap_title(drawn.axes)
            try:
                figure.savefig(output, dpi="figure" if dpi is None else float(dpi))
            except OSError as error:
                expected = f"a file that can be written: {error.strerror or 'it cannot be written'}"
                raise InvalidParameter("--output", str(output), expected=expected) from None
            if as_json:
                render.as_json({"output": str(output), **drawn.numbers})
            else:
                render.line(f"Drawn: {output}")

        for option in reversed(every):
            option(command)
        plot.command(draw.__name__, cls=click.Command, help=draw.__doc__)(command)
        return draw

    return decorate


def _of_events(
    draw: Callable[..., Drawn], *, events: str, neighbors: Neighbors, **rest: Any
) -> Drawn:
    from unacorda.cli.events import read_event

    event: Event = read_event(events)
    check_neighbors(event, neighbors)
    drawn = draw(event, neighbors, **rest)
    drawn.axes.set_title(events, fontsize=10)
    return drawn


def _wrap_title(axes: Any) -> None:
    """Breaks a long title into lines that fit the width of the figure."""
    width = max(20, int(12 * axes.figure.get_size_inches()[0]))
    lines = textwrap.wrap(axes.get_title(), width, break_long_words=True)
    axes.set_title("\n".join(lines), fontsize=10)


@_kind(
    params.option(
        "--scores",
        params.FILE,
        "Scores of independent runs, as unacorda audit reads them: shades what they rule out.",
    ),
    params.option(
        "--confidence", params.CONFIDENCE, "Of what the scores rule out: 0.95 where it is left out."
    ),
    of_events=True,
)
def tradeoff(
    event: Event, relation: Neighbors, *, scores: Path | None, confidence: Fraction | None
) -> Drawn:
    """What an attacker misses, against their rate of false alarms."""
    from unacorda import accounting, plots
    from unacorda.attacks import error_region

    region = None
    if scores is not None:
        sure = 0.95 if confidence is None else float(confidence)
        region = error_region(*read_scores(read_text("--scores", scores)), confidence=sure)
    elif confidence is not None:
        said = render.plain(float(confidence))
        raise InvalidParameter("--confidence", said, expected="--scores with it")
    curve = accounting.tradeoff(event, neighbors=relation)
    rates = sorted({*(k / (2 * _POINTS) for k in range(2 * _POINTS + 1)), *_NEAR_ZERO})
    if region is not None:  # and where the audit looked
        rates = sorted({*rates, *region.false_alarms.tolist()})
    ends = [curve.beta_interval(alpha=rate) for rate in rates]
    lower, upper = [end.lower for end in ends], [end.upper for end in ends]
    curves = {"no test misses less": (rates, lower), "some test misses no more": (rates, upper)}
    if max(b - a for a, b in zip(lower, upper, strict=True)) < 1e-3:
        curves = {"the best test, certified": (rates, lower)}
    numbers: dict[str, Any] = {"alpha": rates, "beta_lower": lower, "beta_upper": upper}
    if region is None:
        return Drawn(plots.tradeoff(curves), numbers)
    alarms, misses = region.false_alarms, region.misses
    axes = plots.tradeoff(curves, audited=(alarms, misses), confidence=region.confidence)
    numbers["audited"] = {
        "false_alarms": alarms.tolist(),
        "misses": misses.tolist(),
        "confidence": region.confidence,
        "refuted": region.refutes(curve),
    }
    return Drawn(axes, numbers)


@_kind(of_events=True)
def profile(event: Event, relation: Neighbors) -> Drawn:
    """Delta over epsilon."""
    from unacorda import accounting, plots

    most = accounting.epsilon(event, delta=1e-10, neighbors=relation)
    _check_loss(most, delta=1e-10, expected="a finite loss above 0")
    epsilons = sorted(
        {*(most * k / _POINTS for k in range(_POINTS + 1)), *(most * k for k in _LOW)}
    )
    ends = [accounting.delta_interval(event, epsilon=e, neighbors=relation) for e in epsilons]
    lower, upper = [end.lower for end in ends], [end.upper for end in ends]
    axes = plots.profile({"delta, certified from both sides": (epsilons, lower, upper)})
    return Drawn(axes, {"epsilon": epsilons, "delta_lower": lower, "delta_upper": upper})


def _check_loss(epsilon: float, *, delta: float, expected: str) -> None:
    found = f"epsilon {epsilon:g} at delta {delta:g}"
    demand(0 < epsilon < math.inf, "EVENTS", found, expected=expected)


@_kind(_delta("Marks the epsilon at this delta."), of_events=True)
def loss(event: Event, relation: Neighbors, *, delta: Fraction | None) -> Drawn:
    """The privacy loss distribution."""
    from unacorda import accounting, plots
    from unacorda.accounting.pld.distribution import PrivacyLossDistribution

    laws: dict[str, Any] = {}
    numbers: dict[str, Any] = {}
    names: dict[Literal["remove", "add"], str] = {
        "remove": "one unit removed",
        "add": "one unit added",
    }
    for direction, name in names.items():
        law = PrivacyLossDistribution.from_event(
            event, direction=direction, neighbors=relation, grid=_GRID
        ).pmf
        seen = law.masses > _SEEN * law.masses.max(initial=0)
        demand(seen.any(), "EVENTS", "an infinite loss", expected="at least one finite value")
        low, high = seen.argmax(), seen.size - seen[::-1].argmax()
        kept = slice(max(0, int(low) - 1), int(high) + 1)
        step = float(law.losses[1] - law.losses[0]) if law.losses.size > 1 else 1.0
        laws[name] = law.losses[kept], law.masses[kept] / step
        numbers[direction] = {
            "losses": law.losses[kept].tolist(),
            "masses": law.masses[kept].tolist(),
            "infinity": max(0.0, float(law.infinity)),
        }
    if numbers["add"] == numbers["remove"]:
        laws = {"in both directions": laws["one unit removed"]}
    epsilon = None
    if delta is not None:
        found = accounting.epsilon(event, delta=float(delta), neighbors=relation)
        epsilon = found if math.isfinite(found) else None
    axes = plots.privacy_loss(laws, epsilon=epsilon, delta=None if delta is None else float(delta))
    return Drawn(axes, {**numbers, "epsilon": epsilon})


@_kind(_delta("Above 0: where epsilons are compared."), of_events=True)
def amplification(event: Event, relation: Neighbors, *, delta: Fraction | None) -> Drawn:
    """What Poisson samples of each event cost compared with their share, at --delta."""
    from unacorda import accounting, plots

    if not delta:
        given = None if delta is None else 0
        expected = "--delta above 0, at which epsilons are compared"
        raise InvalidParameter("--delta", given, expected=expected)
    at = float(delta)

    def cost(one: Event) -> float:
        return accounting.epsilon(one, delta=at, neighbors=relation)

    whole = cost(event)
    _check_loss(whole, delta=at, expected="a finite loss above 0")
    costs = [cost(_sampled(event, rate)) for rate in _RATES]
    ratios = [found / (rate * whole) for rate, found in zip(_RATES, costs, strict=True)]
    axes = plots.amplification(_RATES, {f"at delta {at:g}": ratios})
    return Drawn(axes, {"rate": list(_RATES), "epsilon": costs, "ratio": ratios})


def _sampled(event: Event, rate: float) -> Event:
    """Every step on a sample of its own."""
    from unacorda.privacy.events import Composed, PoissonSampled, Repeated

    match event:
        case Repeated(event=inner, count=count):
            return Repeated(event=_sampled(inner, rate), count=count)
        case Composed(parts=parts):
            return Composed(parts=tuple(_sampled(part, rate) for part in parts))
        case _:
            return PoissonSampled(event=event, rate=rate)


@_kind(ledger_option, dataset_option)
def budget(*, ledger: str | None, dataset: str | None) -> Drawn:
    """What was spent over time, of --dataset in --ledger."""
    demand(ledger is not None, "--ledger", None, expected="--ledger, which keeps the account")
    with opened(str(ledger), must_exist=True) as book:
        names = chosen(book, dataset)
        expected = f"--dataset, one of {', '.join(names) or 'none'}"
        demand(len(names) == 1, "--dataset", None, expected=expected)
        return spending(book, names[0], now=dt.datetime.now(dt.UTC))


def spending(book: Ledger, dataset: str, *, now: dt.datetime) -> Drawn:
    """What was spent over time, as shares of the budget."""
    from unacorda import plots
    from unacorda.privacy.guarantees import guarantee_from_json

    account, entries = book.account(dataset), book.entries(dataset)
    times = [
        dt.datetime.fromisoformat(text) for text in (account.opened, *(e.time for e in entries))
    ]
    times = [time if time.tzinfo else time.replace(tzinfo=dt.UTC) for time in times]
    times.append(max([*times, now]))
    spent = [guarantee_from_json(entry.spent).additive for entry in entries]
    # The numbers of a budget that add, by name.
    kind = {"ZCDP": "rho", "GDP": "mu squared"}.get(type(account.budget).__name__, "epsilon")
    shares = {}
    for place, (name, limit) in enumerate(
        zip((kind, "delta"), account.budget.additive, strict=False)
    ):
        if limit > 0:
            sums = [0.0, *(float(own[place] / limit) for own in spent)]
            shares[f"{name}, of {float(limit):.4g}"] = [*sums, sums[-1]]
    demand(shares, "--dataset", dataset, expected="an account with some budget")
    axes = plots.budget(times, shares, limit=1.0)
    axes.set_ylabel("share of the budget that is spent")
    axes.set_title(f"budget of {dataset}")
    return Drawn(axes, {"time": [time.isoformat() for time in times], "spent": shares})


@_kind(_file, params.option("--column", "NAME", "The column, where there are several."))
def errors(*, file: Path, column: str | None) -> Drawn:
    """A release as JSON, with its intervals."""
    from unacorda.query.aggregates.base import Answer
    from unacorda.query.results.release import draw

    with params.of_file(file):
        rows, answers = _rows(read_text("FILE", file))
    listed = f"one of {', '.join(answers)}"
    named = column is not None or len(answers) == 1
    demand(named, "--column", None, expected=f"--column, {listed}")
    chosen = answers[0] if column is None else column
    demand(chosen in answers, "--column", chosen, expected=listed)
    # What a line is of: the columns of no answer, then those of this one that are no number of it.
    of_it = [f"{chosen}{end}" for end in _ENDS]
    labels = [name for name in rows[0] if not any(_belongs(name, one) for one in answers)]
    labels += [name for name in rows[0] if _belongs(name, chosen) and name not in of_it]
    ends = zip(("values", "standard_errors", "lower", "upper"), of_it, strict=True)
    numbers: dict[str, Any] = {end: [row[name] for row in rows] for end, name in ends}
    answer = Answer(**numbers)
    columns: dict[str, Sequence[Any]] = {name: [row[name] for row in rows] for name in labels}
    lines = [", ".join("NULL" if row[n] is None else str(row[n]) for n in labels) for row in rows]
    return Drawn(
        draw(chosen, answer, columns),
        {
            "names": [line or chosen for line in lines],
            "values": answer.values,
            "lower": answer.lower,
            "upper": answer.upper,
        },
    )


def _rows(text: str) -> tuple[list[dict[str, Any]], list[str]]:
    """The lines of a release, and the columns whose errors are shown."""
    try:
        found = json.loads(text)
    except (ValueError, RecursionError):
        found = None
    rows = found.get("rows") if isinstance(found, dict) else None
    if not isinstance(rows, list) or not all(isinstance(row, dict) for row in rows):
        rows = []
    names = list(rows[0]) if rows else []
    answers = [name for name in names if all(f"{name}{end}" in names for end in _ENDS)]
    numbers = [f"{name}{end}" for name in answers for end in _ENDS]
    fits = numbers and all(
        list(row) == names and all(type(row[name]) in _PLAIN for name in numbers) for row in rows
    )
    expected = "one release as JSON, as unacorda query --output answer.json writes it"
    demand(fits, "FILE", text, expected=expected)
    few = len(rows) <= _MOST_LINES
    demand(few, "FILE", text, expected=f"a release of at most {_MOST_LINES} lines")
    return rows, answers


def _belongs(name: str, answer: str) -> bool:
    return name == answer or name.startswith(f"{answer}_")


@_kind(
    _file,
    params.option(
        "--promised", params.EPSILON, "Draws the most that it allows.", metavar="EPSILON"
    ),
    _delta("Of what is promised."),
)
def roc(*, file: Path, promised: Fraction | None, delta: Fraction | None) -> Drawn:
    """An attack, by scores as unacorda audit reads them."""
    import numpy as np

    from unacorda import plots
    from unacorda.attacks import Attack
    from unacorda.audit.bounds import canaries
    from unacorda.privacy.guarantees import ApproxDP
    from unacorda.privacy.tradeoff import TradeoffCurve

    given = promised is not None or delta is None
    demand(given, "--delta", render.plain(float(delta or 0)), expected="--promised with it")
    with params.of_file(file):
        scores = read_scores(read_text("FILE", file))
    values, truth = canaries(*scores)
    attack = Attack(scores=values, truth=truth)
    alarms, hits = attack.roc()
    least = 1 / values.size
    limits = {}
    numbers = {"false_positive_rate": alarms.tolist(), "true_positive_rate": hits.tolist()}
    if promised is not None:
        curve = TradeoffCurve.of_guarantee(ApproxDP(float(promised), float(delta or 0)))
        rates = np.geomspace(least, 1, 4 * _POINTS)
        most = [curve.true_positive_rate(fpr=float(rate)) for rate in rates]
        name = f"the most that epsilon {float(promised):g}, delta {float(delta or 0):g} allows"
        limits = {name: (rates, most)}
        numbers |= {"limit_at": rates.tolist(), "limit": most}
    axes = plots.roc({f"scores: AUC {attack.auc:.3g}": (alarms, hits)}, limits=limits, least=least)
    return Drawn(axes, {**numbers, "auc": attack.auc})


@_kind(
    params.option(
        "--dimension", params.COUNT, "Coordinates of each row, from -1 to 1.", required=True
    ),
    params.option("--people", params.COUNT, "Rows, one a person.", required=True),
    params.option("--delta", params.DELTA, "Of every guarantee, above 0.", required=True),
)
def utility(*, dimension: int, people: int, delta: Fraction) -> Drawn:
    """The error of a Gaussian mean over epsilon, and what no mechanism beats."""
    from unacorda import accounting, plots
    from unacorda.mechanisms import Gaussian
    from unacorda.privacy.guarantees import ApproxDP

    demand(delta, "--delta", 0, expected="a number above 0, which Gaussian noise needs")
    epsilons = [10 ** (4 * k / _POINTS - 2) for k in range(_POINTS + 1)]
    moved = 2 * math.sqrt(dimension) / people  # by one row that is replaced
    errors, least = [], []
    for epsilon in epsilons:
        noise = Gaussian.for_guarantee(ApproxDP(epsilon, delta), l2_sensitivity=moved)
        errors.append(math.hypot(1 / math.sqrt(people), float(noise.sigma)))
        found = accounting.lower_bound(
            dimension=dimension, people=people, epsilon=epsilon, delta=delta
        )
        least.append(found.mean)
    axes = plots.utility(epsilons, {"Gaussian noise": errors}, least=least)
    axes.set_title(
        f"mean of {people:,} rows with {dimension:,} coordinates, delta {float(delta):g}",
        fontsize=10,
    )
    return Drawn(axes, {"epsilon": epsilons, "error": errors, "lower_bound": least})
