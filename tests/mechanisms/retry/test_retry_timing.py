"""The time of a padded release says nothing of which run won, nor of how many counted."""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

import itertools

import pytest
from tests.mechanisms.test_timing import difference

from unacorda.bits import RandomBits
from unacorda.mechanisms import BestOf
from unacorda.mechanisms.retry import ConditionOnSuccess
from unacorda.privacy.events import NegativeBinomialTries, Pure
from unacorda.privacy.guarantees import ApproxDP, PureDP

CAPPED = NegativeBinomialTries(event=Pure(epsilon=1), shape=1, stop=0.1, most=50)
LOOP = ConditionOnSuccess(
    guarantee=PureDP(1),
    test=ApproxDP(1, 1e-3),
    sensitivity=1,
    limit=0,
    failure=0.9,
    rounds=30,
)


def counted(best: BestOf, bits: RandomBits) -> float:
    """How many runs counted: later ones have the higher score."""
    scores = itertools.count(1)

    def run(*, bits: RandomBits) -> tuple[int, int]:
        score = next(scores)
        return score, score

    found = best.release(run, bits=bits)
    assert found is not None
    return float(found[1])


def padded(_: int, *, bits: RandomBits) -> float:
    return counted(BestOf(event=CAPPED, pad=True), bits)


def unpadded(_: int, *, bits: RandomBits) -> float:
    return counted(BestOf(event=CAPPED), bits)


def accepted(_: int, *, bits: RandomBits) -> float:
    """The place of the round that was accepted, where one in ten is."""
    places = itertools.count()

    def run(*, bits: RandomBits) -> int:
        return next(places)

    def loss(_: int) -> int:
        return 4 * int(bits.below(10) > 0)

    found = LOOP.release(run, loss=loss, bits=bits)
    return 30.0 if found is None else float(found)


@pytest.mark.slow
@pytest.mark.statistical
@pytest.mark.parametrize("release", [padded, accepted])
def test_time_and_the_winner_are_unrelated(release: object) -> None:
    # As of noise: medians of thirds differ by 0.004 on a busy machine.
    assert abs(difference(release, 20_000)) < 0.03  # type: ignore[arg-type]


@pytest.mark.slow
def test_without_padding_the_number_of_runs_shows() -> None:
    assert difference(unpadded, 3000) > 0.5
