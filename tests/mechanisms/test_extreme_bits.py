"""All-zero, all-one and other extreme words through every sampler give finite valid output."""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from tests.mechanisms import reference_samplers as reference
from tests.mechanisms import rounded_noise
from tests.support.cases import in_subtests

from unacorda.bits import RandomBits, ScriptedBits, SeededBits
from unacorda.mechanisms.additive.integer import DiscreteGaussian, DiscreteLaplace
from unacorda.mechanisms.additive.real import Gaussian, Laplace
from unacorda.mechanisms.noise import discrete
from unacorda.mechanisms.selection.exponential import Exponential, PiecewiseConstantExponential
from unacorda.mechanisms.selection.noisy_max import PermuteAndFlip, TopK
from unacorda.mechanisms.selection.stable import StableSelection
from unacorda.mechanisms.selection.tree import TreeSelection
from unacorda.mechanisms.shaped.numbers import BoundedLaplace, Staircase, TruncatedLaplace
from unacorda.mechanisms.shaped.vectors import KNorm, MultivariateGaussian

WORDS = [0, 2**64 - 1, 2**63, 2**63 - 1, 1, 2**64 - 2, 2**52, 2**52 - 1, 2**61, 3 << 62]
RELEASES: dict[str, Callable[[RandomBits], Any]] = {
    "discrete laplace": lambda b: discrete.discrete_laplace(scale=7, size=4, bits=b),
    "large laplace": lambda b: discrete.discrete_laplace(scale=2.0**40, size=4, bits=b),
    "geometric": lambda b: discrete.geometric(scale=7, size=4, bits=b),
    "small gaussian": lambda b: discrete.discrete_gaussian(sigma=7, size=4, bits=b),
    "large gaussian": lambda b: discrete.discrete_gaussian(sigma=1e6, size=4, bits=b),
    "huge gaussian": lambda b: discrete.discrete_gaussian(sigma=2.0**40, size=3, bits=b),
    "rounded laplace": lambda b: rounded_noise.rounded_laplace(
        [1, 2, 3], unit_log2=-1, scale=2, bits=b
    ),
    "rounded gaussian": lambda b: rounded_noise.rounded_gaussian(
        [1, 2, 3], unit_log2=3, sigma=2, bits=b
    ),
    "laplace": lambda b: Laplace(scale=0.3, l1_sensitivity=1).release([1.0, 2.0, 3.0], bits=b),
    "gaussian": lambda b: Gaussian(sigma=0.3, l2_sensitivity=1).release([1.0, 2.0, 3.0], bits=b),
    "staircase": lambda b: Staircase(epsilon=0.3, sensitivity=1).release([1.0, 2.0], bits=b),
    "cut laplace": lambda b: TruncatedLaplace(scale=3, sensitivity=1, bound=7).release(
        [1.0, 2.0], bits=b
    ),
    "bounded laplace": lambda b: BoundedLaplace(epsilon=1, sensitivity=1, lower=0, upper=3).release(
        [1.0, 2.0, 3.0], bits=b
    ),
    "a square": lambda b: KNorm(norm=float("inf"), epsilon=1, sensitivity=1, dimension=2).release(
        [1.0, 2.0], bits=b
    ),
    "a disc": lambda b: KNorm(norm=2, epsilon=1, sensitivity=1, dimension=3).release(
        [1.0, 2.0, 0.0], bits=b
    ),
    "a plane": lambda b: MultivariateGaussian(
        covariance=[[2, 1], [1, 2]], l2_sensitivity=1
    ).release([1.0, 2.0], bits=b),
    "integers": lambda b: DiscreteLaplace(scale=3, l1_sensitivity=1).release([1, 2], bits=b),
    "more integers": lambda b: DiscreteGaussian(sigma=3, l2_sensitivity=1).release([1, 2], bits=b),
    "choice": lambda b: Exponential(epsilon=1, sensitivity=1).release([3, 1, 2], bits=b),
    "long choice": lambda b: Exponential(epsilon=1, sensitivity=1).release([0] * 5000, bits=b),
    "flip": lambda b: PermuteAndFlip(epsilon=1, sensitivity=1).release([3, 1, 2], bits=b),
    "top": lambda b: TopK(count=2, epsilon=1, sensitivity=1).release([3, 1, 2], bits=b),
    "gaps": lambda b: TopK(
        count=2, epsilon=1, sensitivity=1, noise="exponential"
    ).release_with_gaps([3, 1, 2], bits=b)[1],
    "stable": lambda b: (
        StableSelection(epsilon=1, delta=0.1, sensitivity=1).release([3, 1], bits=b) or 0
    ),
    "tree": lambda b: TreeSelection(noise_multiplier=1, sensitivity=1, shuffle=True).release(
        [3, 1, 2], bits=b
    ),
    "pieces": lambda b: PiecewiseConstantExponential(
        epsilon=1, sensitivity=1, lower=0, upper=1
    ).release([0.5], scores=[1, 2], bits=b),
    "reference": lambda b: reference.discrete_gaussian(sigma=Fraction(7, 3), size=2, bits=b),
}


@pytest.mark.long
@in_subtests("release", RELEASES)
@in_subtests("length", [1, 2, 3, 5, 11])
def test_extreme_words_give_finite_noise(release: str, length: int) -> None:
    for word in WORDS:
        noise = RELEASES[release](ScriptedBits([word] * length, then=SeededBits(1)))
        values = np.asarray(noise, dtype=np.float64)
        assert np.isfinite(values).all()
        # Eleven words of zeros are a chance of 2^-704: no noise passes 500 scales.
        assert (abs(values) < 500 * 2.0**41).all()


def test_a_zero_word_is_the_far_tail_and_a_full_one_its_mirror() -> None:
    for word, side in ((0, 1), (2**64 - 1, -1)):
        bits = ScriptedBits([word], then=SeededBits(2))
        (draw,) = discrete.discrete_laplace(scale=1000, size=1, bits=bits).tolist()
        assert side * draw > 43_000
    bits = ScriptedBits([2**63 - 1], then=SeededBits(2))
    assert discrete.discrete_laplace(scale=1000, size=1, bits=bits).tolist() == [0]


def test_the_table_answers_beyond_its_last_threshold() -> None:
    bits = ScriptedBits([2**63 - 1, 2**64 - 1, 1], then=SeededBits(3))
    (draw,) = discrete.discrete_gaussian(sigma=2, size=1, bits=bits).tolist()
    assert draw == 26  # beyond it lies a share of 2^-127 to 2^-128
