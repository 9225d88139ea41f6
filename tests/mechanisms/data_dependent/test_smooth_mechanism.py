"""Noise at a smooth bound: its exact law on all neighbors, and what may not tell anything."""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

import itertools
import math
from collections.abc import Callable
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from mpmath import mp, mpf
from scipy import stats
from tests.mechanisms.divergences import exceeds
from tests.support.cases import in_subtests
from tests.tiers import mostly_slow

from unacorda import checks
from unacorda.bits import RandomBits, SeededBits
from unacorda.errors import InvalidParameter
from unacorda.mechanisms.data_dependent import (
    DistinctCount,
    Maximum,
    Mean,
    Median,
    Mode,
    Sum,
    Variance,
)
from unacorda.mechanisms.data_dependent.sensitivities import local_sensitivity, smooth_sensitivity
from unacorda.mechanisms.data_dependent.smooth import SmoothSensitivity
from unacorda.mechanisms.data_dependent.standard_noise import StandardStudent, rounded_sum
from unacorda.privacy import events
from unacorda.privacy.neighbors import AddRemove, Neighbors, ReplaceOne, ZeroOut

LOWER, UPPER = 0, 10
DOMAIN = (0, 1, 3, 10)  # with both ends, so that no value between them moves a rank further
REACH = 40

Data = tuple[int, ...]
Below = Callable[[Any], Any]


def student_below(z: Any) -> Any:
    return mpf(1) / 2 + (z / mp.sqrt(3) / (1 + z * z / 3) + mp.atan(z / mp.sqrt(3))) / mp.pi


def laplace_below(z: Any) -> Any:
    return mp.exp(z) / 2 if z < 0 else 1 - mp.exp(-z) / 2


BELOW: dict[str, Below] = {
    "student": student_below,
    "laplace": laplace_below,
    "gaussian": mp.ncdf,
}


def law(below: Below, centre: float, width: Any) -> dict[int, mpf]:
    """P(round(centre + width Z) = m), the far tails each as one outcome."""
    if width == 0:
        return {round(centre): mpf(1)}
    ends = [below((m + mpf(1) / 2 - centre) / width) for m in range(-REACH, UPPER + REACH)]
    inner = {
        m: b - a for m, a, b in zip(range(1 - REACH, UPPER + REACH), ends, ends[1:], strict=False)
    }
    return inner | {-REACH: ends[0], UPPER + REACH: 1 - ends[-1]}


def median(data: Data) -> int:
    return sorted(data)[(len(data) - 1) // 2]


def replaced(data: Data) -> list[Data]:
    """All datasets that differ in one record, in order."""
    return [
        tuple(sorted((*data[:k], value, *data[k + 1 :])))
        for k in range(len(data))
        for value in DOMAIN
    ]


SETS: list[Data] = list(itertools.combinations_with_replacement(DOMAIN, 3))
LOCAL = {x: max(abs(median(x) - median(y)) for y in replaced(x)) for x in SETS}


def distance(x: Data, y: Data) -> int:
    """How many records of one must be replaced to make the other."""
    return len(x) - sum(min(x.count(v), y.count(v)) for v in DOMAIN)


def smooth(x: Data, smoothness: float) -> float:
    return max(math.exp(-smoothness * distance(x, y)) * LOCAL[y] for y in SETS)


def pairs_of(
    below: Below, scale: float, bound: Callable[[Data], float]
) -> list[tuple[dict[int, mpf], dict[int, mpf]]]:
    laws = {x: law(below, median(x), mpf(scale) * mpf(bound(x))) for x in SETS}
    return [(laws[x], laws[y]) for x in SETS for y in replaced(x) if x < y]


@pytest.mark.long
@pytest.mark.parametrize("noise", ["student", "laplace", "gaussian"])
@pytest.mark.parametrize("epsilon", mostly_slow([0.5, 2.0]))
def test_the_law_on_all_neighbors_keeps_the_promise(noise: Any, epsilon: float) -> None:
    delta = 0.0 if noise == "student" else 1e-3
    made = SmoothSensitivity(
        statistic=Median(lower=LOWER, upper=UPPER),
        epsilon=epsilon,
        delta=delta,
        noise=noise,
        neighbors=ReplaceOne,
        grid_log2=0,
    )
    with mp.workdps(40):
        pairs = pairs_of(
            BELOW[noise], float(made.noise_scale), lambda x: smooth(x, float(made.smoothness))
        )
        assert len(pairs) > 50
        assert exceeds(made.event, pairs, epsilons=(epsilon,)) == []
        # Noise at the local sensitivity tells what it is.
        local = pairs_of(BELOW[noise], float(made.noise_scale), lambda x: LOCAL[x])
        assert exceeds(made.event, local, epsilons=(epsilon,)) == [epsilon]


@pytest.mark.long
def test_the_law_where_records_come_and_go_keeps_the_promise() -> None:
    statistic = Median(lower=LOWER, upper=UPPER)
    made = SmoothSensitivity(statistic=statistic, epsilon=1, grid_log2=0)
    scale = mpf(float(made.noise_scale))
    everything = [
        x for size in range(5) for x in itertools.combinations_with_replacement(DOMAIN, size)
    ]

    def laws(bound: Callable[[Data], float]) -> dict[Data, dict[int, mpf]]:
        return {
            x: law(student_below, statistic.value(list(x)), scale * mpf(bound(x)))
            for x in everything
        }

    def pairs(found: dict[Data, dict[int, mpf]]) -> list[tuple[dict[int, mpf], dict[int, mpf]]]:
        less = [(x, x[:k] + x[k + 1 :]) for x in everything for k in range(len(x))]
        return [(found[x], found[y]) for x, y in less]

    with mp.workdps(40):
        smooth_laws = laws(
            lambda x: smooth_sensitivity(statistic, list(x), smoothness=made.smoothness)
        )
        assert exceeds(made.event, pairs(smooth_laws), epsilons=(1.0,)) == []
        local_laws = laws(lambda x: local_sensitivity(statistic, list(x)))
        assert exceeds(made.event, pairs(local_laws), epsilons=(1.0,)) == [1.0]


def test_normal_noise_of_scale_two_over_epsilon_is_caught() -> None:
    # (0, 0, 10) and (0, 10, 10) within 0 and 10: the median moves by 10, and S is 10 at both.
    with mp.workdps(40):
        laws = law(mp.ncdf, 0, 2 * 10), law(mp.ncdf, 10, 2 * 10)
        assert exceeds(events.Approximate(epsilon=1, delta=6e-3), [laws], epsilons=(1.0,)) == [1.0]


@pytest.mark.parametrize("neighbors", [AddRemove, ReplaceOne])
def test_a_release_is_the_sum_rounded_to_the_grid(neighbors: Neighbors) -> None:
    made = SmoothSensitivity(
        statistic=Median(lower=-5, upper=120), epsilon=1, neighbors=neighbors, grid_log2=-7
    )
    values = [3.7, 90.1, 41.3, 8.0, 8.0, 13.9]
    bound = smooth_sensitivity(
        made.statistic or Maximum(lower=0, upper=1),
        values,
        smoothness=made.smoothness,
        neighbors=neighbors,
    )
    for seed in range(10):
        noise = StandardStudent(degrees=Fraction(3), bits=SeededBits(seed))
        scale = checks.exact("scale", made.noise_scale) * Fraction(bound)
        step = rounded_sum(Fraction(8), noise, scale=scale, grid_log2=-7)
        assert made.release(values, bits=SeededBits(seed)) == step / 128


@pytest.mark.long
@pytest.mark.statistical
def test_releases_have_the_law_of_the_bound_that_was_given() -> None:
    made = SmoothSensitivity(epsilon=1, delta=1e-3, noise="laplace", smoothness=0.05, grid_log2=0)
    bits, width = SeededBits(7), 12 * float(made.noise_scale)
    draws = np.array(
        [made.release_at(2.25, smooth_sensitivity=12, bits=bits) for _ in range(12_000)]
    )
    edges = np.arange(-40, 45, 4)

    def p_value(scale: float) -> float:
        chances = np.diff([0.0, *stats.laplace.cdf((edges + 0.5 - 2.25) / scale), 1.0])
        seen = np.histogram(draws, bins=[-np.inf, *(edges + 0.5), np.inf])[0]
        return float(stats.chisquare(seen, chances * draws.size).pvalue)

    assert p_value(width) > 1e-6
    assert p_value(1.1 * width) < 1e-6
    assert p_value(width / 1.1) < 1e-6


@in_subtests("value", [0.1, -0.0, 1e-300, 123456.7, Fraction(1, 3)])
@in_subtests("bound", [0.1, 1e-9, math.pi, Fraction(10**30, 7)])
def test_outputs_lie_on_the_public_grid_whatever_the_data(value: Any, bound: Any) -> None:
    made = SmoothSensitivity(epsilon=1, grid_log2=-3)
    for seed in range(20):
        released = made.release_at(value, smooth_sensitivity=bound, bits=SeededBits(seed))
        assert released * 8 == round(released * 8)
        assert math.copysign(1, released) == 1 or released != 0


def test_low_bits_do_not_tell_the_value() -> None:
    made = SmoothSensitivity(epsilon=1, grid_log2=0)
    bits = SeededBits(5)
    odd = [
        [made.release_at(v, smooth_sensitivity=50.0, bits=bits) % 2 == 1 for _ in range(400)]
        for v in (0.0, 1.0)
    ]
    assert all(130 < sum(side) < 270 for side in odd)  # 7 standard deviations


def test_nothing_in_the_data_raises() -> None:
    made = SmoothSensitivity(statistic=Median(lower=0, upper=10), epsilon=1)
    strange: list[list[float]] = [
        [],
        [math.nan],
        [math.inf, -math.inf],
        [-0.0, 1e308, -1e308],
        [5],
        [5] * 7,
    ]
    for values in strange:
        assert math.isfinite(made.release(values, bits=SeededBits(1)))
    ends = [math.nan, math.inf, -math.inf, 10**400, -(10**400), 1e308]
    for value in ends:
        for bound in (0.0, -1.0, math.nan, math.inf, 10**400):
            assert math.isfinite(made.release_at(value, smooth_sensitivity=bound))
    # NaN is 0, and what is no bound at all is the largest.
    assert made.release_at(math.nan, smooth_sensitivity=0.0) == 0
    assert abs(made.release_at(0, smooth_sensitivity=-1.0, bits=SeededBits(1))) > 1e290


class NoBits:
    """A source that must not be asked."""

    secure = True

    def words(self, count: int) -> Any:
        raise AssertionError

    def below(self, bound: int) -> int:
        raise AssertionError


@in_subtests(
    ("changes", "name"),
    [
        ({"noise": "normal"}, "noise"),
        ({"noise": None}, "noise"),
        ({"neighbors": ZeroOut}, "neighbors"),
        ({"epsilon": 0}, "epsilon"),
        ({"epsilon": 501}, "epsilon"),
        ({"epsilon": math.nan}, "epsilon"),
        ({"epsilon": 1e-5}, "epsilon"),
        ({"delta": 1e-6}, "delta"),
        ({"noise": "laplace"}, "delta"),
        ({"noise": "gaussian", "delta": 1}, "delta"),
        ({"noise": "gaussian", "delta": 1e-6, "tail_power": 4}, "tail_power"),
        ({"tail_power": 1}, "tail_power"),
        ({"tail_power": 21}, "tail_power"),
        ({"smoothness": 0}, "smoothness"),
        ({"smoothness": 1e-5}, "smoothness"),
        ({"smoothness": 0.5}, "smoothness"),
        ({"grid_log2": 1001}, "grid_log2"),
        ({"grid_log2": 0.5}, "grid_log2"),
        ({"statistic": None}, "grid_log2"),
        ({"statistic": Mode(categories=("a",))}, "statistic"),
        ({"statistic": DistinctCount()}, "statistic"),
        ({"statistic": Sum(lower=0, upper=None)}, "statistic"),
    ],
)
def test_what_cannot_be_is_named(changes: dict[str, Any], name: str) -> None:
    given: dict[str, Any] = {"statistic": Median(lower=0, upper=1), "epsilon": 1}
    with pytest.raises(InvalidParameter) as raised:
        SmoothSensitivity(**given | changes)
    assert raised.value.argument == name


def test_refusals_come_before_any_bit_and_show_no_data() -> None:
    made = SmoothSensitivity(epsilon=1, grid_log2=0)
    source: RandomBits = NoBits()
    calls: list[Callable[[], object]] = [
        lambda: made.release([1.0, 2.0], bits=source),
    ]
    for call in calls:
        with pytest.raises(InvalidParameter) as raised:
            call()
        assert "12345" not in str(raised.value)


@pytest.mark.parametrize("neighbors", [AddRemove, ReplaceOne])
def test_every_numeric_statistic_is_released(neighbors: Neighbors) -> None:
    for statistic in (
        Maximum(lower=0, upper=10),
        Mean(lower=0, upper=10),
        Variance(lower=0, upper=10),
        Sum(lower=0, upper=10),
    ):
        made = SmoothSensitivity(statistic=statistic, epsilon=8, neighbors=neighbors)
        released = made.release([1, 2, 3, 4] * 300, bits=SeededBits(3))
        assert released == pytest.approx(float(statistic.value([1, 2, 3, 4] * 300)), abs=40)
        assert made.event == events.Pure(epsilon=8)
