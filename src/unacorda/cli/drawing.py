"""What `unacorda plot` draws: numbers from events, ledgers, releases and scores, on axes."""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

import datetime as dt
import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from unacorda.errors import InvalidParameter

if TYPE_CHECKING:
    from unacorda.attacks import ErrorRegion
    from unacorda.ledger.ledger import Ledger
    from unacorda.privacy.events import Event
    from unacorda.privacy.guarantees import Guarantee
    from unacorda.privacy.neighbors import Neighbors

__all__ = [
    "Drawn",
    "amplification",
    "budget",
    "errors",
    "loss",
    "profile",
    "roc",
    "tradeoff",
]

_POINTS = 25
_RATES = tuple(10 ** (-k / 3) for k in range(9, -1, -1))  # from 0.001 to 1
_MOST_LINES = 100
_GRID = 1 << 11
_ENDS = ("", "_se", "_low", "_high")
_SEEN = 1e-4  # of the largest mass: what is smaller would not be seen


@dataclass(frozen=True, slots=True)
class Drawn:
    """The axes, and by name the numbers on them."""

    axes: Any
    numbers: dict[str, Any]


def tradeoff(event: Event, relation: Neighbors, region: ErrorRegion | None) -> Drawn:
    """False alarms and misses; region: of an audit, if one was made."""
    from unacorda import accounting, plots

    curve = accounting.tradeoff(event, neighbors=relation)
    rates = [k / _POINTS for k in range(_POINTS + 1)]
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


def profile(event: Event, relation: Neighbors) -> Drawn:
    """Delta over epsilon."""
    from unacorda import accounting, plots

    most = accounting.epsilon(event, delta=1e-10, neighbors=relation)
    if not 0 < most < math.inf:
        raise InvalidParameter(
            "EVENTS", f"epsilon {most:g} at delta 1e-10", expected="some loss, and a finite one"
        )
    epsilons = [most * k / _POINTS for k in range(_POINTS + 1)]
    ends = [accounting.delta_interval(event, epsilon=e, neighbors=relation) for e in epsilons]
    lower, upper = [end.lower for end in ends], [end.upper for end in ends]
    axes = plots.profile({"delta, certified from both sides": (epsilons, lower, upper)})
    return Drawn(axes, {"epsilon": epsilons, "delta_lower": lower, "delta_upper": upper})


def loss(event: Event, relation: Neighbors, *, delta: float | None) -> Drawn:
    """The privacy loss of both directions; delta: marks its epsilon."""
    from unacorda import accounting, plots
    from unacorda.accounting.pld.distribution import PrivacyLossDistribution

    laws, numbers = {}, {}
    for direction, name in (("remove", "one left out"), ("add", "one put in")):
        law = PrivacyLossDistribution.from_event(
            event,
            direction="remove" if direction == "remove" else "add",
            neighbors=relation,
            grid=_GRID,
        ).pmf
        seen = law.masses > _SEEN * law.masses.max(initial=0)
        if not seen.any():
            raise InvalidParameter("EVENTS", "an infinite loss", expected="some that is finite")
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
        laws = {"in both directions": laws["one left out"]}
    epsilon = None
    if delta is not None:
        epsilon = accounting.epsilon(event, delta=delta, neighbors=relation)
        epsilon = epsilon if math.isfinite(epsilon) else None
    axes = plots.privacy_loss(laws, epsilon=epsilon)
    return Drawn(axes, {**numbers, "epsilon": epsilon})


def amplification(event: Event, relation: Neighbors, *, delta: float) -> Drawn:
    """What Poisson samples cost compared with their share of what the whole costs."""
    from unacorda import accounting, plots

    def cost(one: Event) -> float:
        return accounting.epsilon(one, delta=delta, neighbors=relation)

    whole = cost(event)
    if not 0 < whole < math.inf:
        raise InvalidParameter(
            "EVENTS", f"epsilon {whole:g} at delta {delta:g}", expected="some loss, a finite one"
        )
    costs = [cost(_sampled(event, rate)) for rate in _RATES]
    ratios = [found / (rate * whole) for rate, found in zip(_RATES, costs, strict=True)]
    axes = plots.amplification(_RATES, {f"at delta {delta:g}": ratios})
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


def budget(book: Ledger, dataset: str, *, now: dt.datetime) -> Drawn:
    """What was spent over time, as shares of the budget."""
    from unacorda import plots
    from unacorda.privacy.guarantees import guarantee_from_json

    account = book.account(dataset)
    spent = [(entry.time, guarantee_from_json(entry.spent)) for entry in book.entries(dataset)]
    times = [_instant(account.opened), *(_instant(time) for time, _ in spent)]
    last = max([*times, now])
    limits = _numbers(account.budget)
    shares = {}
    for place, (name, limit) in enumerate(limits.items()):
        if limit > 0:
            sums = [0.0, *(float(own.additive[place] / limit) for _, own in spent)]
            shares[f"{name}, of {float(limit):.4g}"] = [*sums, sums[-1]]
    if not shares:
        raise InvalidParameter("--dataset", dataset, expected="an account with some budget")
    axes = plots.budget([*times, last], shares, limit=1.0)
    axes.set_ylabel("share of the budget that is spent")
    axes.set_title(dataset)
    numbers = {"time": [time.isoformat() for time in [*times, last]], "spent": shares}
    return Drawn(axes, numbers)


def _numbers(account: Guarantee) -> Mapping[str, Any]:
    """The numbers of a budget that add, by name."""
    kind = type(account).__name__
    name = {"ZCDP": "rho", "GDP": "mu squared"}.get(kind, "epsilon")
    return dict(zip((name, "delta"), account.additive, strict=False))


def _instant(text: str) -> dt.datetime:
    found = dt.datetime.fromisoformat(text)
    return found if found.tzinfo else found.replace(tzinfo=dt.UTC)


def errors(text: str, column: str | None) -> Drawn:
    """A column of a release with its intervals, as `unacorda query --output` wrote it."""
    from unacorda import plots

    rows = _rows(text)
    first = list(rows[0])
    answers = _answers(first)
    if column is None and len(answers) != 1:
        raise InvalidParameter("--column", None, expected=f"--column, one of {', '.join(answers)}")
    chosen = answers[0] if column is None else column
    if chosen not in answers:
        raise InvalidParameter("--column", chosen, expected=f"one of {', '.join(answers)}")
    if len(rows) > _MOST_LINES:
        raise InvalidParameter(
            "FILE", f"{len(rows):,} lines", expected=f"a release of at most {_MOST_LINES} lines"
        )
    labels = [name for name in first if not any(_belongs(name, one) for one in answers)]
    of_it = [f"{chosen}{end}" for end in _ENDS]
    labels += [name for name in first if _belongs(name, chosen) and name not in of_it]
    values, lower, upper = (
        [_number(row[name]) for row in rows] for name in (chosen, f"{chosen}_low", f"{chosen}_high")
    )
    names = [", ".join("NULL" if row[n] is None else str(row[n]) for n in labels) for row in rows]
    names = [name or chosen for name in names]
    axes = plots.errors(names, values, lower, upper)
    axes.set_xlabel(f"{chosen}, with the intervals of the release")
    axes.set_ylabel(", ".join(labels))
    return Drawn(
        axes,
        {
            "names": names,
            **{
                name: [None if math.isnan(value) else value for value in line]
                for name, line in (("values", values), ("lower", lower), ("upper", upper))
            },
        },
    )


def _rows(text: str) -> list[dict[str, Any]]:
    expected = "one release as JSON, as unacorda query --output answer.json writes it"
    try:
        found = json.loads(text)
    except (ValueError, RecursionError):
        found = None
    rows = found.get("rows") if isinstance(found, dict) else None
    if not isinstance(rows, list) or not rows or not all(isinstance(row, dict) for row in rows):
        raise InvalidParameter("FILE", text, expected=expected)
    names = list(rows[0])
    numbers = [f"{name}{end}" for name in _answers(names) for end in _ENDS]
    for row in rows:
        if list(row) != names or not all(_is_plain(row[name]) for name in numbers) or not numbers:
            raise InvalidParameter("FILE", text, expected=expected)
    return rows


def _answers(names: Sequence[str]) -> list[str]:
    """The columns whose errors are shown."""
    return [name for name in names if all(f"{name}{end}" in names for end in _ENDS)]


def _is_plain(value: object) -> bool:
    return value is None or (isinstance(value, int | float) and not isinstance(value, bool))


def _belongs(name: str, answer: str) -> bool:
    return name == answer or name.startswith(f"{answer}_")


def _number(value: float | None) -> float:
    return math.nan if value is None else float(value)


def roc(
    scores: Sequence[float], included: Sequence[bool], *, promised: float | None, delta: float
) -> Drawn:
    """An attack by scores; promised: the epsilon whose limit is drawn too, at this delta."""
    import numpy as np

    from unacorda import plots
    from unacorda.attacks import Attack
    from unacorda.audit.bounds import canaries
    from unacorda.privacy.guarantees import ApproxDP
    from unacorda.privacy.tradeoff import TradeoffCurve

    values, truth = canaries(scores, included)
    attack = Attack(scores=values, truth=truth)
    alarms, hits = attack.roc()
    least = 1 / values.size
    limits = {}
    numbers = {"false_positive_rate": alarms.tolist(), "true_positive_rate": hits.tolist()}
    if promised is not None:
        curve = TradeoffCurve.of_guarantee(ApproxDP(promised, delta))
        rates = np.geomspace(least, 1, 4 * _POINTS)
        most = [curve.true_positive_rate(fpr=float(rate)) for rate in rates]
        limits = {f"the most that epsilon {promised:g} allows": (rates, most)}
        numbers |= {"limit_at": rates.tolist(), "limit": most}
    name = f"scores: AUC {attack.auc:.3g}"
    axes = plots.roc({name: (alarms, hits)}, limits=limits, least=least)
    return Drawn(axes, {**numbers, "auc": attack.auc})
