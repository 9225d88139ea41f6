"""Hockey-stick divergences of enumerated laws, in many digits, for tests of privacy claims."""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from typing import TypeAlias, TypeVar

from mpmath import mp, mpf

from unacorda import accounting
from unacorda.privacy.events import Event

Outcome = TypeVar("Outcome", bound=Hashable)
Law: TypeAlias = Mapping[Outcome, mpf]
Pairs: TypeAlias = Sequence[tuple[Law[Outcome], Law[Outcome]]]


def hockey_stick(
    first: Mapping[Outcome, mpf], second: Mapping[Outcome, mpf], epsilon: float
) -> mpf:
    """The largest P(S) - e^epsilon Q(S) over all sets S of outcomes."""
    factor = mp.exp(mpf(epsilon))
    return mp.fsum(
        max(mass - factor * second.get(outcome, mpf(0)), mpf(0)) for outcome, mass in first.items()
    )


def farthest(pairs: Pairs[Outcome], epsilon: float) -> mpf:
    """The largest divergence of the pairs, in both orders."""
    return max(
        max(hockey_stick(one, two, epsilon), hockey_stick(two, one, epsilon)) for one, two in pairs
    )


def exceeds(
    event: Event,
    pairs: Pairs[Outcome],
    *,
    epsilons: tuple[float, ...],
) -> list[float]:
    """The epsilons at which some pair is farther apart than the event's price allows."""
    found = []
    for epsilon in epsilons:
        allowed = mpf(accounting.delta(event, epsilon=epsilon))
        if farthest(pairs, epsilon) > allowed * (1 + mpf("1e-12")) + mpf("1e-25"):
            found.append(epsilon)
    return found
