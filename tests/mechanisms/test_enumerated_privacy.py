"""The claimed price against the exact divergence of the enumerated laws."""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

import dataclasses
import itertools
import math
from fractions import Fraction
from itertools import pairwise
from typing import Any

import pytest
from mpmath import mp, mpf
from tests.mechanisms.divergences import exceeds, farthest
from tests.mechanisms.laws import as_mpf
from tests.support.cases import in_subtests
from tests.tiers import mostly_slow

from unacorda import accounting
from unacorda.bits import SeededBits
from unacorda.mechanisms.additive.integer import DiscreteGaussian, DiscreteLaplace
from unacorda.mechanisms.noise.discrete import cumulative_bounds, discrete_laplace
from unacorda.mechanisms.selection.exponential import Exponential

REACH = 400


def hockey_stick(masses: dict[int, mpf], shift: int, epsilon: mpf) -> mpf:
    """sup over events S of P(S) - e^epsilon P(S + shift), on the enumerated support."""
    factor = mp.exp(epsilon)
    return mp.fsum(
        max(mass - factor * masses.get(k + shift, mpf(0)), mpf(0))
        for k, mass in masses.items()
        if k + shift in masses
    )


@in_subtests("sensitivity", [1, 2, 5])
@in_subtests("scale", [Fraction(1, 3), Fraction(2, 3), Fraction(7, 3), Fraction(10)])
def test_discrete_laplace_is_pure_and_no_better(scale: Fraction, sensitivity: int) -> None:
    with mp.workprec(300):
        q = mp.exp(-1 / as_mpf(scale))
        masses = {k: (1 - q) / (1 + q) * q ** abs(k) for k in range(-REACH, REACH + 1)}
        claimed = sensitivity / as_mpf(scale)
        assert hockey_stick(masses, sensitivity, claimed) < mpf(2) ** -250
        assert hockey_stick(masses, sensitivity, claimed * mpf("0.99")) > mpf(2) ** -60


@pytest.mark.parametrize("sensitivity", [1, 2])
@pytest.mark.parametrize("sigma", [Fraction(1, 2), Fraction(1), Fraction(7, 2)])
def test_the_table_of_the_discrete_gaussian_keeps_its_zcdp(
    sigma: Fraction, sensitivity: int
) -> None:
    # Renyi divergence of each order alpha is at most alpha sensitivity^2 / (2 sigma^2), CKS20.
    with mp.workprec(300):
        bounds = cumulative_bounds(sigma * sigma, 256)
        cumulative = [mpf(low) / mpf(2) ** 256 for low, _ in bounds]
        halves = [cumulative[0]] + [(later - sooner) / 2 for sooner, later in pairwise(cumulative)]
        reach = int(13 * sigma)  # beyond it the brackets, not the law, would be compared
        masses = {k: halves[abs(k)] for k in range(-reach, reach + 1)}
        for alpha in (mpf("1.1"), mpf(2), mpf(5)):
            moment = mp.fsum(
                mass**alpha * masses[k + sensitivity] ** (1 - alpha)
                for k, mass in masses.items()
                if k + sensitivity in masses
            )
            divergence = mp.log(moment) / (alpha - 1)
            rho = mpf(sensitivity) ** 2 / (2 * as_mpf(sigma) ** 2)
            assert divergence <= alpha * rho * (1 + mpf("1e-9"))
            if alpha == 2:  # where the bound is attained: the law is not wider than claimed
                assert divergence > alpha * rho * mpf("0.999")


@pytest.mark.parametrize("sensitivity", mostly_slow([1, 2, 3]))
@pytest.mark.parametrize("kind", ["laplace", "gaussian"])
@pytest.mark.parametrize("scale", [Fraction(2, 3), Fraction(2), Fraction(5)])
def test_integer_noise_meets_the_curve_of_its_event_and_touches_it(
    scale: Fraction, kind: str, sensitivity: int
) -> None:
    mechanism: DiscreteLaplace | DiscreteGaussian
    if kind == "laplace":
        mechanism = DiscreteLaplace(scale=scale, l1_sensitivity=sensitivity)
    else:
        mechanism = DiscreteGaussian(sigma=scale, l2_sensitivity=sensitivity)
    reach = 60 if kind == "gaussian" else 300
    with mp.workprec(300):
        s = as_mpf(scale)
        weights = {
            k: mp.exp(-abs(k) / s) if kind == "laplace" else mp.exp(-((k / s) ** 2) / 2)
            for k in range(-reach, reach + 1)
        }
        total = mp.fsum(weights.values())
        pairs = [
            (
                {k: weight / total for k, weight in weights.items()},
                {k + moved: weight / total for k, weight in weights.items()},
            )
            for moved in range(1, sensitivity + 1)
        ]
        epsilons = (0.0, 0.1, 0.5, 1.0, 1.7)
        assert exceeds(mechanism.event, pairs, epsilons=epsilons) == []
        if kind == "gaussian" and sensitivity > 1:
            return  # several numbers may move by 1 each, which costs more than one does
        for epsilon in epsilons:
            claimed = accounting.delta(mechanism.event, epsilon=epsilon)
            assert farthest(pairs, epsilon) >= mpf(claimed) * (1 - mpf("1e-9")) - mpf("1e-20")
        # Noise a tenth smaller is caught.
        fields = {"laplace": "scale", "gaussian": "sigma"}
        changed: dict[str, Any] = {fields[kind]: scale * 11 / 10}
        wrong = dataclasses.replace(mechanism, **changed)
        assert exceeds(wrong.event, pairs, epsilons=epsilons)


@pytest.mark.long
@pytest.mark.parametrize("monotone", [False, True])
@pytest.mark.parametrize("epsilon", mostly_slow([0.3, 1.0, 3.0]))
def test_the_exponential_mechanism_meets_its_curve_and_touches_it(
    epsilon: float, monotone: bool
) -> None:
    mechanism = Exponential(epsilon=epsilon, sensitivity=1, monotone=monotone)
    with mp.workprec(100):
        factor = as_mpf(mechanism.factor)

        def law(scores: tuple[mpf, ...]) -> dict[int, mpf]:
            weights = [mp.exp(factor * score) for score in scores]
            return {k: weight / mp.fsum(weights) for k, weight in enumerate(weights)}

        pairs = []
        ups = list(itertools.product((0, 1), repeat=3))
        moves = (
            ups + [tuple(-m for m in up) for up in ups]
            if monotone
            else list(itertools.product((-1, 0, 1), repeat=3))
        )
        for lead in range(-16, 17):
            base = (mpf(lead) / (4 * factor), mpf(0), mpf(-60) / factor)
            pairs += [
                (law(base), law(tuple(a + b for a, b in zip(base, move, strict=True))))
                for move in moves
            ]
        asked = (0.0, epsilon / 3, epsilon / 2, 0.9 * epsilon)
        assert exceeds(mechanism.event, pairs, epsilons=asked) == []
        # Two candidates reach what any bounded range allows (to the grid of leads).
        for at in asked:
            assert farthest(pairs, at) > 0.98 * accounting.delta(mechanism.event, epsilon=at)
        # Half the noise, or an event of half the range, is caught.
        assert exceeds(Exponential(epsilon=epsilon / 2, sensitivity=1).event, pairs, epsilons=asked)


@pytest.mark.statistical
def test_samples_of_neighbors_keep_the_claimed_ratio() -> None:
    # 400,000 draws, eight cells with at least 4,000 expected: 6 standard deviations of the log.
    scale, size = Fraction(2), 400_000
    first = discrete_laplace(scale=scale, size=size, bits=SeededBits(51))
    second = 1 + discrete_laplace(scale=scale, size=size, bits=SeededBits(52))
    for cell in range(-3, 5):
        ours, theirs = int((first == cell).sum()), int((second == cell).sum())
        spread = math.sqrt(1 / ours + 1 / theirs)
        assert abs(math.log(ours / theirs)) < 0.5 + 6 * spread
        assert abs(abs(math.log(ours / theirs)) - 0.5) < 6 * spread
