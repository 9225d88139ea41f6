"""Propose, test, release: distances and laws on all small datasets, and the moving centre."""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Mapping
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from mpmath import mp, mpf
from tests.mechanisms.divergences import exceeds
from tests.support.cases import in_subtests
from tests.tiers import mostly_slow

from unacorda import checks, mechanisms
from unacorda.bits import SeededBits
from unacorda.errors import InvalidParameter
from unacorda.mechanisms.data_dependent import (
    InterquartileRange,
    KthLargest,
    Maximum,
    Mean,
    Median,
    Minimum,
    OrderStatistic,
    Quantile,
)
from unacorda.mechanisms.data_dependent.propose_test_release import (
    ProposeTestRelease,
)
from unacorda.privacy import events
from unacorda.privacy.neighbors import AddRemove, Neighbors, ReplaceOne, ZeroOut

LOWER, UPPER = 0, 10
DOMAIN = (0, 1, 3, 10)  # with both ends: what moves a rank furthest is a value there
LARGEST = 7

Data = tuple[int, ...]
ENDS: dict[str, Any] = {"lower": LOWER, "upper": UPPER}
RANKS: list[Any] = [
    Median(**ENDS),
    OrderStatistic(rank=1, **ENDS),
    KthLargest(k=2, **ENDS),
    Quantile(q=Fraction(1, 4), **ENDS),
    Quantile(q=Fraction(3, 4), **ENDS),
    Minimum(**ENDS),
    Maximum(**ENDS),
]


def sets(largest: int) -> list[Data]:
    return [
        data
        for size in range(largest + 1)
        for data in itertools.combinations_with_replacement(DOMAIN, size)
    ]


def added_or_removed(data: Data) -> set[Data]:
    more = {tuple(sorted((*data, value))) for value in DOMAIN}
    return more | {data[:k] + data[k + 1 :] for k in range(len(data))}


def replaced(data: Data) -> set[Data]:
    return {
        tuple(sorted((*data[:k], value, *data[k + 1 :])))
        for k in range(len(data))
        for value in DOMAIN
    }


STEPS: dict[Neighbors, Callable[[Data], set[Data]]] = {
    AddRemove: added_or_removed,
    ReplaceOne: replaced,
}


def enumerated_distances(
    statistic: Any, bound: float, neighbors: Neighbors, largest: int
) -> dict[Data, float]:
    """How far each dataset is from one with a neighbor whose answer differs by more."""
    step = STEPS[neighbors]
    answers = {x: statistic.value(list(x)) for x in sets(largest + 1)}
    found: dict[Data, float] = {}
    for x in sets(largest):
        if any(abs(answers[x] - answers[y]) > bound for y in step(x)):
            found[x] = 0
    edge = set(found)
    for far in itertools.count(1):
        edge = {y for x in edge for y in step(x) if len(y) <= largest and y not in found}
        if not edge:
            return {x: found.get(x, math.inf) for x in sets(largest)}
        found |= dict.fromkeys(edge, far)
    raise AssertionError


@pytest.mark.long
@in_subtests("statistic", RANKS, ids=lambda s: type(s).__name__)
@in_subtests("neighbors", [AddRemove, ReplaceOne])
@in_subtests("bound", [0.5, 2.0, 9.5])
def test_the_distance_is_that_of_an_enumeration(
    statistic: Any, neighbors: Neighbors, bound: float
) -> None:
    truth = enumerated_distances(statistic, bound, neighbors, LARGEST)
    for x in sets(4):
        found = statistic.distance(list(x), bound=bound, neighbors=neighbors)
        assert (math.inf if found is None else found) == truth[x], x


def away(made: ProposeTestRelease, x: Data) -> float:
    assert made.statistic is not None
    return made._distance(made.statistic, np.array(x, dtype=np.int64))


@pytest.mark.parametrize("neighbors", [AddRemove, ReplaceOne])
@pytest.mark.parametrize("proposed", [1, 3, 9.5])
def test_the_distance_of_the_interquartile_range_is_one(
    neighbors: Neighbors, proposed: float
) -> None:
    made = ProposeTestRelease(
        statistic=InterquartileRange(**ENDS),
        proposed=proposed,
        epsilon=1,
        delta=0.01,
        neighbors=neighbors,
    )
    assert made.statistic is not None
    answers = {x: float(made.statistic.value(list(x))) for x in sets(LARGEST - 1)}
    far = {x: away(made, x) for x in answers}
    for x in sets(LARGEST - 2):
        for y in STEPS[neighbors](x):
            assert far[x] == far[y] or abs(far[x] - far[y]) <= 1
            assert far[x] == 0 or abs(answers[x] - answers[y]) <= proposed


def test_exact_sums_decide_near_the_bound() -> None:
    # 0.1 + 0.2 is above 0.3 as floats, and what they hold sums to less than the float says.
    values = [0.1, 0.1 + 0.2, 0.1 + 0.2]
    statistic = Maximum(lower=0, upper=1)
    for bound in (0.2, math.nextafter(0.2, 0), math.nextafter(0.2, 1)):
        gap = Fraction(values[1]) - Fraction(values[0])
        found = Median(lower=0.1, upper=values[1]).distance(
            values, bound=bound, neighbors=ReplaceOne
        )
        assert (found is None) == (gap <= Fraction(bound))
    assert statistic.distance(values, bound=1.0, neighbors=AddRemove) is None


@pytest.mark.parametrize("bound", [0.1, 3.0, 40.0, 400.0])
def test_the_distance_of_many_values_is_the_widest_window(bound: float) -> None:
    values = np.random.default_rng(3).lognormal(3, 1, 2001).round(2)
    median = Median(lower=0, upper=10**4)
    padded = np.concatenate([np.zeros(2001), np.sort(values), np.full(2001, 1e4)])
    place = 2001 + 1000
    direct = next(
        k
        for k in range(2001)
        if max(padded[place + t] - padded[place + t - k - 1] for t in range(k + 2)) > bound
    )
    found = median.distance(values, bound=bound, neighbors=ReplaceOne)
    assert found == direct


# ---- the moving centre


def moving_centre(values: list[float], proposed: float) -> int:
    """The wrong distance: until the median is further than `proposed` from where it is now."""
    ranked = sorted(values)
    place = (len(values) - 1) // 2

    def at(index: int) -> float:
        return ranked[index] if 0 <= index < len(ranked) else (-1e9 if index < 0 else 1e9)

    return next(
        k
        for k in range(len(values) + 1)
        if max(at(place + k) - at(place), at(place) - at(place - k)) > proposed
    )


def test_a_moving_centre_jumps_where_one_record_changes() -> None:
    one = [0.0] * 501 + [0.6] + [1.1] * 499
    two = [0.0] * 500 + [0.6] + [1.1] * 500
    assert [moving_centre(one, 1), moving_centre(two, 1)] == [2, 501]
    median = Median(lower=-(10**9), upper=10**9)
    found = [median.distance(x, bound=1.0, neighbors=ReplaceOne) for x in (one, two)]
    assert found[0] is not None
    assert found[1] is not None
    assert abs(found[0] - found[1]) <= 1


# ---- laws


def noise_law(made: ProposeTestRelease, centre: float) -> dict[int | None, mpf]:
    """P(round(centre + noise) = m), the far tails each as one outcome."""
    width = mpf(float(made.noise_scale))

    def below(m: int) -> Any:
        z = (m + mpf(1) / 2 - centre) / width
        return mp.exp(z) / 2 if z < 0 else 1 - mp.exp(-z) / 2

    ends = [mpf(0), *(below(m) for m in range(-30, 40)), mpf(1)]
    return dict(zip(range(-30, 41), (b - a for a, b in itertools.pairwise(ends)), strict=True))


def law(made: ProposeTestRelease, answer: float, distance: float) -> Mapping[int | None, mpf]:
    chance = mpf(1)
    if distance < made.sure_from:
        exact = made.probability(int(distance))
        chance = mpf(exact.numerator) / exact.denominator
    told = {m: chance * p for m, p in noise_law(made, answer).items()}
    return {**told, None: 1 - chance}


def pairs_of(
    made: ProposeTestRelease, distances: Callable[[Data], float]
) -> list[tuple[Mapping[int | None, mpf], Mapping[int | None, mpf]]]:
    assert made.statistic is not None
    everything = sets(5) if made.neighbors is ReplaceOne else sets(4)
    laws = {x: law(made, float(made.statistic.value(list(x))), distances(x)) for x in everything}
    step = STEPS[made.neighbors]
    return [(laws[x], laws[y]) for x in everything for y in step(x) if y in laws and x < y]


@pytest.mark.long
@pytest.mark.parametrize("neighbors", mostly_slow([AddRemove, ReplaceOne]))
@pytest.mark.parametrize("statistic", mostly_slow([Median(**ENDS), InterquartileRange(**ENDS)]))
def test_the_law_on_all_neighbors_keeps_the_promise(statistic: Any, neighbors: Neighbors) -> None:
    made = ProposeTestRelease(
        statistic=statistic,
        proposed=3,
        epsilon=4,
        delta=0.05,
        neighbors=neighbors,
        test_epsilon=2,
        grid_log2=0,
    )
    with mp.workdps(40):
        pairs = pairs_of(made, lambda x: away(made, x))
        assert exceeds(made.event, pairs, epsilons=(4.0,)) == []
        # Two steps too far, an answer that moves further than the noise covers is told too often.
        shifted = pairs_of(made, lambda x: away(made, x) + 2)
        assert exceeds(made.event, shifted, epsilons=(4.0,)) == [4.0]


def test_the_test_meets_the_promise_in_both_directions() -> None:
    made = ProposeTestRelease(proposed=1, epsilon=3, delta=0.01, test_epsilon=1, grid_log2=0)
    chances = [made.probability(d) for d in range(made.sure_from + 1)]
    assert chances[0] == 0
    assert chances[-1] == 1
    assert chances == sorted(chances)
    assert chances[1] == pytest.approx(0.01)
    rise, whole = math.exp(1), math.exp(3)
    tight = 0
    for low, high in itertools.pairwise(map(float, chances)):
        assert high <= rise * low + 0.01 + 1e-12
        assert 1 - low <= whole * (1 - high) + 0.01 + 1e-12
        tight += math.isclose(high, rise * low + 0.01) or math.isclose(
            1 - low, whole * (1 - high) + 0.01
        )
    assert tight >= len(chances) - 2


def test_a_moving_centre_breaks_the_promise() -> None:
    made = ProposeTestRelease(
        statistic=Median(lower=-(10**9), upper=10**9),
        proposed=1,
        epsilon=1,
        delta=1e-6,
        neighbors=ReplaceOne,
        grid_log2=0,
    )
    one = [0.0] * 501 + [0.6] + [1.1] * 499
    two = [0.0] * 500 + [0.6] + [1.1] * 500
    with mp.workdps(40):
        for distances, caught in (
            ([moving_centre(x, 1) for x in (one, two)], [1.0]),
            ([made._distance(Median(lower=-(10**9), upper=10**9), x) for x in (one, two)], []),
        ):
            laws = [
                law(made, sorted(x)[500], far) for x, far in zip((one, two), distances, strict=True)
            ]
            assert exceeds(made.event, [(laws[0], laws[1])], epsilons=(1.0,)) == caught


@pytest.mark.long
@pytest.mark.statistical
def test_answers_and_refusals_have_their_chance_and_their_noise() -> None:
    made = ProposeTestRelease(proposed=2, epsilon=2, delta=1e-3, grid_log2=0)
    bits, far = SeededBits(8), 7
    chance = float(made.probability(far))
    assert 0.2 < chance < 0.9
    told = [made.release_at(2.0, distance=far, bits=bits) for _ in range(8000)]
    answers = np.array([answer for answer in told if answer is not None])
    assert abs(answers.size - 8000 * chance) < 6 * math.sqrt(8000 * chance * (1 - chance))
    width = float(made.noise_scale)
    seen = float(np.mean(np.abs(answers - 2)))
    law_of = {k: math.exp(-(k - 0.5) / width) / 2 for k in range(1, 200)}
    mean = 2 * sum(law_of.values())
    deviation = math.sqrt(2) * width / math.sqrt(answers.size)
    assert abs(seen - mean) < 6 * deviation
    assert abs(seen - 1.2 * mean) > 6 * deviation
    assert made.release_at(2.0, distance=0, bits=bits) is None
    assert made.release_at(2.0, distance=math.inf, bits=bits) is not None


class CountedBits:
    """Seeded bits, and how many words of them were drawn."""

    secure = False

    def __init__(self, seed: int) -> None:
        self.bits, self.drawn = SeededBits(seed), 0

    def words(self, count: int) -> Any:
        self.drawn += count
        return self.bits.words(count)

    def below(self, bound: int) -> int:
        raise AssertionError


def test_a_refusal_takes_as_many_bits_as_an_answer() -> None:
    made = ProposeTestRelease(proposed=1, epsilon=1, delta=1e-6)
    drawn = set()
    for distance in (0, 20, 10**9, math.inf):
        for seed in range(5):
            bits = CountedBits(seed)
            made.release_at(1.5, distance=distance, bits=bits)
            drawn.add(bits.drawn)
    assert len(drawn) == 1


def test_nothing_in_the_data_raises() -> None:
    for statistic in (*RANKS, InterquartileRange(**ENDS)):
        for neighbors in (AddRemove, ReplaceOne):
            made = ProposeTestRelease(
                statistic=statistic, proposed=1, epsilon=1, delta=1e-6, neighbors=neighbors
            )
            strange: list[list[float]] = [[], [math.nan], [math.inf, -math.inf, 1e308], [5]]
            strange += [[-0.0] * 9, [5] * 200]
            for values in strange:
                answer = made.release(values, bits=SeededBits(1))
                assert answer is None or math.isfinite(answer)
    ends = [math.nan, math.inf, -math.inf, 10**400, -(10**400)]
    for value, distance in itertools.product(ends, ends):
        answer = made.release_at(value, distance=distance, bits=SeededBits(1))
        assert answer is None or math.isfinite(answer)
    assert made.release_at(0, distance=math.nan) is None
    assert made.release_at(0, distance=-5) is None


def test_outputs_lie_on_the_public_grid() -> None:
    made = ProposeTestRelease(proposed=0.3, epsilon=1, delta=1e-6, grid_log2=-4)
    for seed in range(30):
        answer = made.release_at(math.pi, distance=math.inf, bits=SeededBits(seed))
        assert answer is not None
        assert answer * 16 == round(answer * 16)


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
        ({"proposed": 0}, "proposed"),
        ({"proposed": math.inf}, "proposed"),
        ({"proposed": 10**400}, "proposed"),
        ({"epsilon": 0}, "epsilon"),
        ({"epsilon": 1e-9}, "epsilon"),
        ({"delta": 0}, "delta"),
        ({"delta": 1}, "delta"),
        ({"delta": 1e-30}, "delta"),
        ({"test_epsilon": 1}, "test_epsilon"),
        ({"test_epsilon": 0}, "test_epsilon"),
        ({"test_epsilon": 1e-9}, "test_epsilon"),
        ({"neighbors": ZeroOut}, "neighbors"),
        ({"neighbors": "add"}, "neighbors"),
        ({"statistic": Mean(lower=0, upper=1)}, "statistic"),
        ({"grid_log2": 0.5}, "grid_log2"),
        ({"grid_log2": -1001}, "grid_log2"),
    ],
)
def test_what_cannot_be_is_named(changes: dict[str, Any], name: str) -> None:
    given: dict[str, Any] = {"proposed": 1, "epsilon": 1, "delta": 1e-6}
    with pytest.raises(InvalidParameter) as raised:
        ProposeTestRelease(**given | changes)
    assert raised.value.argument == name


def test_refusals_of_input_come_before_any_bit_and_show_no_data() -> None:
    made = ProposeTestRelease(proposed=1, epsilon=1, delta=1e-6)
    calls: list[Callable[[], object]] = [
        lambda: made.release([1.0], bits=NoBits()),
    ]
    for call in calls:
        with pytest.raises(InvalidParameter) as raised:
            call()
        assert "12345" not in str(raised.value)


def test_it_is_a_mechanism_whose_refusal_is_charged() -> None:
    made = mechanisms.data_dependent.ProposeTestRelease(
        proposed=1, epsilon=1, delta=1e-6, test_epsilon=0.25
    )
    assert made.event == events.Approximate(epsilon=1, delta=1e-6)
    assert checks.exact("scale", made.noise_scale) == Fraction(4, 3)
