"""The number of runs: its exact law, by replay and by chi-square."""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from fractions import Fraction

import pytest
from mpmath import mp, mpf
from tests.mechanisms.retry.tries_laws import Tries, chi_square_p, in_octaves, masses
from tests.support.cases import in_subtests
from tests.tiers import mostly_slow

from unacorda.bits import ScriptedBits, SeededBits
from unacorda.mechanisms.retry.best import draw_tries
from unacorda.privacy.events import NegativeBinomialTries, PoissonTries, Pure

ONE = Pure(epsilon=1)


def negative_binomial(shape: float | Fraction, stop: float | Fraction) -> NegativeBinomialTries:
    return NegativeBinomialTries(event=ONE, shape=shape, stop=stop)


LAWS: list[Tries] = [
    negative_binomial(1, 0.1),
    negative_binomial(0, 0.02),
    negative_binomial(-0.5, 0.01),
    negative_binomial(-0.9, 0.3),
    negative_binomial(2.5, 0.2),
    negative_binomial(Fraction(1, 3), Fraction(1, 7)),
    PoissonTries(event=ONE, mean=0.5),
    PoissonTries(event=ONE, mean=12),
    NegativeBinomialTries(event=ONE, shape=2.5, stop=0.2, most=12),
    NegativeBinomialTries(event=ONE, shape=0, stop=1e-6, most=40),
    PoissonTries(event=ONE, mean=3, most=4),
]
WRONG: list[Tries] = [
    negative_binomial(1, 0.11),
    negative_binomial(0.1, 0.02),
    negative_binomial(-0.45, 0.01),
    negative_binomial(-0.99, 0.3),
    negative_binomial(2.75, 0.2),
    negative_binomial(Fraction(1, 3), Fraction(11, 70)),
    PoissonTries(event=ONE, mean=0.55),
    PoissonTries(event=ONE, mean=13.2),
    NegativeBinomialTries(event=ONE, shape=2.5, stop=0.2, most=13),
    NegativeBinomialTries(event=ONE, shape=0.1, stop=1e-6, most=40),
    PoissonTries(event=ONE, mean=3.3, most=4),
]


@pytest.fixture(autouse=True)
def _digits() -> Iterator[None]:
    with mp.workdps(50):
        yield


@pytest.mark.long
@pytest.mark.parametrize("event", mostly_slow(LAWS), ids=str)
def test_every_draw_replays_in_fifty_digits(event: Tries) -> None:
    sums = [mpf(0)]
    for mass in [*masses(event, 4000), mpf(0)]:
        sums.append(sums[-1] + mass)
    for word in [*SeededBits(71).words(200).tolist(), 0, 1 << 63, (1 << 64) - (1 << 50)]:
        uniform = (word + mpf("0.5")) / 2**64
        expected = next(k for k, total in enumerate(sums[1:]) if uniform < total)
        assert draw_tries(event, bits=ScriptedBits([word])) == expected


@in_subtests("event", LAWS, ids=str)
@in_subtests("side", [-1, 1])
def test_a_number_beside_an_edge_reads_on(event: Tries, side: int) -> None:
    first = next(k for k, mass in enumerate(masses(event, 2)) if mass > 0)
    edge = int(mp.floor(masses(event, 2)[first] * 2**128))
    word, rest = edge >> 64, edge & (1 << 64) - 1
    bits = ScriptedBits([word, rest + side])
    assert draw_tries(event, bits=bits) == (first if side < 0 else first + 1)
    assert bits.left == 0


@pytest.mark.long
@pytest.mark.statistical
@pytest.mark.parametrize(
    ("event", "wrong"),
    mostly_slow(
        [
            pytest.param(*pair, marks=pytest.mark.slow if place % 2 else ())
            for place, pair in enumerate(zip(LAWS, WRONG, strict=True))
        ]
    ),
    ids=str,
)
def test_draws_have_the_law_and_not_one_ten_per_cent_off(event: Tries, wrong: Tries) -> None:
    bits = SeededBits(72)
    seen = Counter(draw_tries(event, bits=bits) for _ in range(20_000))
    for other, right in ((event, True), (wrong, False)):
        law = dict(enumerate(masses(other, max(seen))))
        p = chi_square_p(in_octaves(seen), in_octaves(law))
        assert p > 1e-7 if right else p < 1e-9


@pytest.mark.slow
@pytest.mark.statistical
def test_a_large_poisson_mean_is_put_together_of_small_ones() -> None:
    event, bits = PoissonTries(event=ONE, mean=Fraction(301, 3)), SeededBits(73)
    seen = Counter(draw_tries(event, bits=bits) for _ in range(20_000))
    law = dict(enumerate(masses(event, 300)))
    assert chi_square_p(seen, law) > 1e-7
    assert chi_square_p(Counter(k + 1 for k in seen.elements()), law) < 1e-9


@pytest.mark.long
@in_subtests("shape", [-0.99, Fraction(-1, 10**15), 0, Fraction(1, 10**15), 1, 40])
@in_subtests("stop", [1, 1 - Fraction(1, 10**30), 0.5, 1e-4])
def test_extreme_parameters(shape: float, stop: float) -> None:
    event = negative_binomial(shape, stop)
    if shape == 40 and stop == 1e-4:
        assert 200_000 < draw_tries(event, bits=SeededBits(74)) < 700_000
        return
    drawn = {draw_tries(event, bits=SeededBits(seed)) for seed in range(20)}
    assert min(drawn) >= 1
    if stop == 1 or stop == 1 - Fraction(1, 10**30):
        assert drawn == {1}
    elif shape >= 0:
        assert len(drawn) > 2


def test_a_cap_far_out_in_a_large_law() -> None:
    # The table begins at the largest term: e^-40,000 is no number to begin with.
    event = PoissonTries(event=ONE, mean=40_000, most=42_000)
    drawn = [draw_tries(event, bits=SeededBits(seed)) for seed in range(60)]
    assert 39_000 < min(drawn) < 39_900
    assert 40_100 < max(drawn) < 41_000
    steep = NegativeBinomialTries(event=ONE, shape=200, stop=0.05, most=5000)
    drawn = [draw_tries(steep, bits=SeededBits(seed)) for seed in range(60)]
    assert 2600 < min(drawn) < 3600
    assert 4000 < max(drawn) < 5000


@pytest.mark.parametrize("most", [1, 2, 1000])
def test_a_cap_is_kept(most: int) -> None:
    event = NegativeBinomialTries(event=ONE, shape=1, stop=1e-4, most=most)
    drawn = {draw_tries(event, bits=ScriptedBits([word])) for word in (5, 1 << 63, (1 << 64) - 9)}
    assert min(drawn) == 1
    assert max(drawn) == most
