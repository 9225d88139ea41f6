"""Explanations: which theorem prices each part of an event, and which engine priced the whole."""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

from dataclasses import dataclass
from typing import assert_never

from tacet.accounting.accountant import Finding, findings
from tacet.accounting.amplification.relations import check_relation
from tacet.accounting.divergences.events import pure_epsilon
from tacet.checks import Number
from tacet.privacy.events import (
    Approximate,
    Composed,
    CyclicPoissonSampled,
    DiscreteGaussian,
    DiscreteLaplace,
    Event,
    Exponential,
    FixedSizeSampled,
    Gaussian,
    GaussianMixture,
    Laplace,
    MatrixMechanism,
    NegativeBinomialTries,
    PoissonSampled,
    PoissonTries,
    Pure,
    RandomAllocation,
    RandomizedResponse,
    Repeated,
    ReplacementSampled,
    Shuffled,
    Staircase,
    TreeAggregation,
    TruncatedLaplace,
    ZeroConcentrated,
)
from tacet.privacy.neighbors import AddRemove, Neighbors, ReplaceOne

__all__ = ["Explanation", "Line", "explain"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Line:
    """One part of an event: how often it ran, what it is, and the theorem that prices it."""

    count: int
    event: Event
    theorem: str
    source: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Explanation:
    """How an event is priced; printed, it is a text for people.

    parts: one line each; pure: the pure epsilon of the whole, None where there is none; found:
    what the engines proved of epsilon at `delta`, in the order asked; empty without a delta.
    """

    parts: tuple[Line, ...]
    neighbors: Neighbors
    pure: float | None
    delta: Number | None
    found: tuple[Finding, ...]

    def __str__(self) -> str:
        lines = [f"Neighbouring tables differ by {self.neighbors}."]
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
    event: Event, *, delta: Number | None = None, neighbors: Neighbors = AddRemove
) -> Explanation:
    """Which theorems price an event; with a delta, also what each engine proved of epsilon.

    Raises what accounting.epsilon raises.

    Bound       both, in what the engines found.
    Source      in each line.

    >>> print(explain(Laplace(noise_multiplier=2.0) * 3))
    Neighbouring tables differ by AddRemove.
    3 x Laplace(noise_multiplier=2.0)
        Laplace noise, by its exact loss [Dwork, McSherry, Nissim, Smith 2006]
    Pure epsilon of the whole: 1.5
    """
    check_relation(event, neighbors)
    lines = []
    for part in event.parts if isinstance(event, Composed) else (event,):
        one, count = (part.event, part.count) if isinstance(part, Repeated) else (part, 1)
        theorem, source = _theorem(one, neighbors)
        lines.append(Line(count=count, event=one, theorem=theorem, source=source))
    found = () if delta is None else findings(event, delta=delta, neighbors=neighbors)
    return Explanation(
        parts=tuple(lines),
        neighbors=neighbors,
        pure=pure_epsilon(event, neighbors=neighbors),
        delta=delta,
        found=found,
    )


def _theorem(event: Event, neighbors: Neighbors) -> tuple[str, str]:
    match event:
        case Gaussian():
            return "Gaussian noise, by its exact profile; several are one", "Balle and Wang 2018"
        case Laplace():
            return "Laplace noise, by its exact loss", "Dwork, McSherry, Nissim, Smith 2006"
        case DiscreteGaussian():
            return (
                "discrete Gaussian noise, exactly for a shift by one, else by zCDP",
                "Canonne, Kamath, Steinke 2020",
            )
        case DiscreteLaplace():
            return "two-sided geometric noise, by its exact loss", "Ghosh, Roughgarden et al. 2012"
        case RandomizedResponse():
            return "randomised response, by its exact loss", "Kairouz, Oh, Viswanath 2015"
        case Exponential():
            return "bounded range: coins of every bias", "Dong, Durfee, Rogers 2020"
        case Pure() | Approximate():
            return (
                "randomised response, beside a mass of which nothing is known, stands for it",
                "Kairouz, Oh, Viswanath 2015, Thm. 3.3",
            )
        case ZeroConcentrated():
            return "Renyi divergences of every order", "Bun and Steinke 2016"
        case PoissonSampled() if neighbors is ReplaceOne:
            return (
                "a Poisson sample, one unit leaving and another coming",
                "group privacy of two steps",
            )
        case PoissonSampled():
            return (
                "a Poisson sample: the mixture of both outputs against one, in both directions",
                "Zhu, Dong, Wang 2022; Steinke 2022, Thm. 34",
            )
        case FixedSizeSampled():
            return (
                "a sample of fixed size, its numbers doubled for replacement",
                "Balle, Barthe, Gaboardi 2018; Wang, Balle, Kasiviswanathan 2019",
            )
        case Shuffled():
            return "shuffled reports: one hides among clones", "Feldman, McMillan, Talwar 2021"
        case NegativeBinomialTries() | PoissonTries():
            return (
                "the best of a random number of runs, from what one run costs",
                "Papernot and Steinke 2022; Koskela, Redberg, Wang 2024",
            )
        case MatrixMechanism() | TreeAggregation():
            return (
                "Gaussian noise of the sensitivity of all steps of a unit together",
                "Denisov et al. 2022; docs/proofs/matrices.md",
            )
        case CyclicPoissonSampled():
            return (
                "Poisson samples of Gaussian noise, one for each turn of a unit's group",
                "Choquette-Choo, Ganesh et al. 2023, Thm. 4",
            )
        case Repeated() | Composed():
            return "a composition of its own", "Dwork et al. 2006"
        case (
            Staircase()
            | TruncatedLaplace()
            | GaussianMixture()
            | ReplacementSampled()
            | RandomAllocation()
        ):
            return "a mechanism of its own", "its docstring"
        case _ as unreachable:
            assert_never(unreachable)
