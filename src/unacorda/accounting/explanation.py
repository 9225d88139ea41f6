"""Explanations: the theorem that prices each part of an event, and the effect of sampling."""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

import json
import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from unacorda.accounting.accountant import epsilon, findings
from unacorda.accounting.amplification.sampling import sampling_worth
from unacorda.accounting.arguments import Events, together
from unacorda.accounting.findings import CertifiedInterval
from unacorda.accounting.prices import gdp_price, pure_epsilon
from unacorda.accounting.rules.base import counted, only_gaussian, rules_of
from unacorda.checks import Number, exact
from unacorda.errors import InvalidParameter, UnsupportedEvent
from unacorda.privacy.events import (
    Event,
    FixedSizeSampled,
    PoissonSampled,
    compose,
)
from unacorda.privacy.guarantees import GDP, ApproxDP
from unacorda.privacy.neighbors import AddRemove, Neighbors, ReplaceOne


@dataclass(frozen=True, slots=True, kw_only=True)
class Line:
    """One part of an event: how often it ran, what it is, and the theorem that prices it."""

    count: int
    event: Event
    theorem: str
    source: str


@dataclass(frozen=True, slots=True, kw_only=True)
class EventExplanation:
    """The price of an event, with the theorems that prove it.

    `print` shows it as text.

    Attributes
    ----------
    parts
        One line for each part of the event, with `count`, `event`, `theorem` and `source`.
    neighbors
        The neighboring relation.
    pure
        The pure epsilon of the whole event; None if there is none.
    delta
        The delta that was asked for, or None.
    found
        By method, the interval that it proved for epsilon at `delta`. Each has `engine`, `interval`
        and `source`. Empty without a delta.

    Examples
    --------
    >>> import unacorda
    >>> from unacorda import accounting, events
    >>> event = events.Gaussian(noise_multiplier=2)
    >>> found = accounting.explain(event, neighbors=unacorda.AddRemove, delta=1e-5)
    >>> [(one.engine, round(one.interval.upper, 3)) for one in found.found]
    [('closed form', 1.993), ('guarantees', 1.993), ('Renyi divergences', 2.166)]
    """

    parts: tuple[Line, ...]
    neighbors: Neighbors
    pure: float | None
    delta: Number | None
    found: tuple[CertifiedInterval, ...]

    def to_dict(self) -> dict[str, Any]:
        """Return the explanation as plain values, for JSON.

        An infinite end of an interval is None.

        Bound       as the explanation. Source      as the explanation.

        Returns
        -------
        dict
            The neighbors, the parts, and what was proved of epsilon.
        """
        return {
            "neighbors": str(self.neighbors),
            "parts": [
                {
                    "count": line.count,
                    "event": json.loads(line.event.to_json()),
                    "theorem": line.theorem,
                    "source": line.source,
                }
                for line in self.parts
            ],
            "pure_epsilon": self.pure,
            "delta": None if self.delta is None else float(exact("delta", self.delta)),
            "found": [
                {
                    "engine": one.engine,
                    "lower": one.interval.lower,
                    "upper": one.interval.upper if one.interval.upper < math.inf else None,
                    "source": one.source,
                }
                for one in self.found
            ],
        }

    def __str__(self) -> str:
        lines = [f"Neighboring tables differ by {self.neighbors}."]
        for part in self.parts:
            lines.append(f"{part.count} x {part.event}")
            lines.append(f"    {part.theorem} [{part.source}]")
        whole = "none" if self.pure is None else f"{self.pure:.9g}"
        lines.append(f"Pure epsilon of the whole: {whole}")
        if self.delta is not None:
            lines.append(f"Epsilon at delta={self.delta}:")
        lines += [
            f"    {one.engine}: from {one.interval.lower:.9g} to {one.interval.upper:.9g} "
            f"[{one.source}]"
            for one in self.found
        ]
        return "\n".join(lines)


def explain(
    events: Events, *, delta: Number | None = None, neighbors: Neighbors = AddRemove
) -> EventExplanation:
    """Lists the theorems that price events, and with a delta each engine's interval of epsilon.

    Bound: both, in what the engines found.

    Source: in each line.

    Parameters
    ----------
    events
        One event, or several that are composed; no events cost nothing.
    delta
        The delta of epsilon, from 0 to below 1; None runs no engine.
    neighbors
        The relation that the guarantee speaks of, and the sensitivities of events outside samples.

    Returns
    -------
    EventExplanation
        A text when printed; `to_dict()` gives plain values.

    Raises
    ------
    InvalidParameter
        For what is no event, a number out of range, and a sampling scheme that says nothing about
        the relation.
    UnsupportedEvent
        Where no theorem here prices an event.

    Examples
    --------
    >>> from unacorda.privacy.events import Laplace
    >>> print(explain(Laplace(noise_multiplier=2.0) * 3))
    Neighboring tables differ by AddRemove.
    3 x Laplace(noise_multiplier=2.0)
        Laplace noise, by its exact loss [Dwork, McSherry, Nissim, Smith 2006]
    Pure epsilon of the whole: 1.5
    """
    event = together(events, neighbors)
    lines = []
    for one, count in () if event is None else counted(event):
        theorem, source = rules_of(one).cite(one, neighbors)
        lines.append(Line(count=count, event=one, theorem=theorem, source=source))
    found = () if delta is None else findings(event or (), delta=delta, neighbors=neighbors)
    return EventExplanation(
        parts=tuple(lines),
        neighbors=neighbors,
        pure=0.0 if event is None else pure_epsilon(event, neighbors=neighbors),
        delta=delta,
        found=found,
    )


def sampling_notes(
    event: Event, *, delta: Number | None = None, neighbors: Neighbors = AddRemove
) -> tuple[str, ...]:
    r"""Describe the cost of sampling: its noise compared with that of the whole table.

    The mean of a sample has 1/rate times the sensitivity of that of the table, so a sample may lose
    in noise what it saves in privacy. Each part on a sample is compared separately with the same
    kind of noise on the whole table at the same guarantee: pure parts by one step's epsilon;
    Gaussian parts on Poisson samples, under add/remove or zero-out, by the epsilon of all their
    steps at `delta`.

    Statement   of T steps of noise multiplier m at rate q that keep (epsilon, delta), the noise is
                m/q in the unit of a mean; sqrt(T)/mu keeps the same, where mu is the largest with
                mu-GDP implying (epsilon, delta)-DP.
    Bound       none: the ratios are for reading.
    Source      Steinke 2022, arXiv:2210.00597, Section 6; sampling_worth; Dong, Roth, Su 2022,
                Cor. 3.3.

    >>> from unacorda.privacy.events import Gaussian
    >>> steps = Gaussian(noise_multiplier=0.5).poisson_sampled(rate=0.01) * 100
    >>> print(*sampling_notes(steps, delta=1e-6))  # doctest: +ELLIPSIS
    Sampling 0.01 of the units is not free: these 100 steps keep epsilon=...
    """
    notes = []
    for one, count in counted(event):
        if not isinstance(one, PoissonSampled | FixedSizeSampled):
            continue
        pure = pure_epsilon(one, neighbors=neighbors)
        rate = one.rate if isinstance(one, PoissonSampled) else one.size / one.population
        if rate == 1:
            continue
        if pure is not None:
            worth = sampling_worth(pure, rate=float(rate)) if 0 < pure < math.inf else None
            notes += [worth.warning] if worth is not None and not worth.free else []
        elif delta is not None and isinstance(one, PoissonSampled) and neighbors is not ReplaceOne:
            notes += _gaussian_note(one, count, delta, neighbors)
    return tuple(notes)


def _gaussian_note(
    sample: PoissonSampled, count: int, delta: Number, neighbors: Neighbors
) -> Iterator[str]:
    if not only_gaussian(sample.event):
        return
    once = gdp_price(sample.event).mu  # of one step's noise, on the whole table
    try:
        found = epsilon(compose([sample], count=count), delta=delta, neighbors=neighbors)
        allowed = GDP.within(ApproxDP(found, delta)).mu if found < math.inf else 0.0
    except (UnsupportedEvent, InvalidParameter):  # no Gaussian on the whole table to compare with
        return
    rate = float(sample.rate)
    if allowed <= 0 or once <= 0:
        return
    ratio = allowed / (once * rate * math.sqrt(count))
    if ratio > 1 / 0.95:
        steps = f"these {count} steps keep" if count > 1 else "it keeps"
        yield (
            f"Sampling {rate:.3g} of the units is not free: {steps} epsilon={found:.3g} at "
            f"delta={float(exact('delta', delta)):.3g}, where means over the whole table need "
            f"{1 / ratio:.2g} of the noise that means over these samples have. A larger "
            "rate with more noise is better, if you can afford to use more rows."
        )
