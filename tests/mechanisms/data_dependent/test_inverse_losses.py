"""Losses of the inverse sensitivity against enumeration of all small tables."""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

import itertools
import math
from collections.abc import Callable
from fractions import Fraction
from functools import cache
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from tests.mechanisms.data_dependent.small_data import SmallData
from tests.support.cases import in_subtests
from tests.tiers import mostly_slow

from unacorda.mechanisms.data_dependent import (
    KthLargest,
    Maximum,
    Mean,
    Median,
    Minimum,
    Mode,
    OrderStatistic,
    Quantile,
    Sum,
    Variance,
)
from unacorda.mechanisms.data_dependent.inverse import InverseSensitivity, Selection
from unacorda.mechanisms.data_dependent.statistics import variances as variance_module
from unacorda.privacy.neighbors import AddRemove, Neighbors, ReplaceOne

SIZE = 4  # of the tables whose losses are looked at
BEYOND = 11  # of the tables that changes may lead to
Ints = NDArray[np.int64]


@cache
def tables(domain: tuple[float, ...], largest: int) -> tuple[tuple[float, ...], ...]:
    return tuple(
        table
        for size in range(largest + 1)
        for table in itertools.combinations_with_replacement(domain, size)
    )


@cache
def histograms(domain: tuple[float, ...], largest: int) -> Ints:
    return np.array([[t.count(v) for v in domain] for t in tables(domain, largest)])


def distances(table: tuple[float, ...], domain: tuple[float, ...], neighbors: Neighbors) -> Ints:
    """How many changes lead from the table to each of all tables; -1 where none do."""
    all_ = histograms(domain, BEYOND)
    own = np.array([table.count(v) for v in domain])
    apart = np.abs(all_ - own).sum(axis=1)
    if neighbors is ReplaceOne:
        apart = np.where(all_.sum(axis=1) == len(table), apart // 2, -1)
    return np.asarray(apart, dtype=np.int64)


def enumerated(
    table: tuple[float, ...],
    answers: Any,
    domain: tuple[float, ...],
    neighbors: Neighbors,
    points: Any,
    *,
    wanted: Callable[[Any, Any], Any],
) -> list[float]:
    """For each point the least distance to a table whose answer is wanted there."""
    apart = distances(table, domain, neighbors)
    found = []
    for point in points:
        hits = apart[(apart >= 0) & wanted(answers, point)]
        found.append(int(hits.min()) if hits.size else math.inf)
    return found


def exact(table: Any, answers: Any, domain: Any, neighbors: Neighbors, points: Any) -> list[float]:
    return enumerated(table, answers, domain, neighbors, points, wanted=np.equal)


def passing(
    table: Any, answers: Any, domain: Any, neighbors: Neighbors, points: Any
) -> list[float]:
    up = enumerated(table, answers, domain, neighbors, points, wanted=np.greater_equal)
    down = enumerated(table, answers, domain, neighbors, points, wanted=np.less_equal)
    return [max(pair) for pair in zip(up, down, strict=True)]


def check(
    statistic: Any,
    neighbors: Neighbors,
    *,
    truth: Callable[..., list[float]],
    grid_log2: int = 0,
    answers: Any = None,
    size: int = SIZE,
) -> None:
    step = 2.0**grid_log2
    domain = tuple(
        k * step
        for k in range(
            math.ceil(statistic.lower / Fraction(step)),
            math.floor(statistic.upper / Fraction(step)) + 1,
        )
    )
    mechanism = InverseSensitivity(
        epsilon=1,
        statistic=statistic,
        neighbors=neighbors,
        grid_log2=grid_log2,
        answers=answers,
    )
    low, high = answers or (statistic.lower, statistic.upper)
    points = np.arange(math.ceil(low / Fraction(step)), math.floor(high / Fraction(step)) + 1)
    # The statistic itself, rounded to the grid, of every table there is.
    whole = [
        math.floor(Fraction(statistic.value(table)) / Fraction(step) + Fraction(1, 2))
        for table in tables(domain, BEYOND)
    ]
    reached = np.clip(np.array(whole), points[0], points[-1])
    most = mechanism._most()
    for table in tables(domain, size):
        runs = mechanism.losses(table)
        assert runs.counts.sum() == points.size
        assert runs.starts.tolist() == (np.cumsum(runs.counts) - runs.counts + points[0]).tolist()
        found = [runs.loss(int(point)) for point in points]
        expected = [min(x, most) for x in truth(table, reached, domain, neighbors, points)]
        assert found == expected, (statistic, neighbors, table)
        if neighbors is AddRemove:
            # No farther table than those looked at could have been nearer.
            assert all(x <= BEYOND - len(table) or x == most for x in expected)


QUANTILES = [Fraction(k, w) for w in (2, 3, 4, 5, 7) for k in range(1, w) if math.gcd(k, w) == 1]
RANKS: list[Any] = [
    Median(lower=0, upper=3),
    Minimum(lower=0, upper=3),
    Maximum(lower=0, upper=3),
    *(OrderStatistic(rank=k, lower=-1, upper=2) for k in (0, 1, 3, 6)),
    *(KthLargest(k=k, lower=0, upper=3) for k in (1, 2, 3, 6)),
    *(Quantile(q=q, lower=0, upper=3) for q in QUANTILES if q.denominator < 7),
]


@pytest.mark.long
@pytest.mark.parametrize("neighbors", mostly_slow([AddRemove, ReplaceOne]))
@in_subtests("statistic", RANKS, ids=repr)
def test_losses_of_ranks_are_exact(statistic: Any, neighbors: Neighbors) -> None:
    check(statistic, neighbors, truth=exact)


@pytest.mark.parametrize("q", [q for q in QUANTILES if q.denominator == 7], ids=str)
def test_losses_of_odd_quantiles_are_exact(q: Fraction) -> None:
    check(Quantile(q=q, lower=0, upper=2), AddRemove, truth=exact, size=3)


@pytest.mark.parametrize("neighbors", [AddRemove, ReplaceOne])
@pytest.mark.parametrize(
    ("lower", "upper", "grid"),
    mostly_slow([(0, 3, 0), (-2, 1, 0), (0, 1, -2), (-3, 0, 0)], quick=2),
)
def test_losses_of_means(lower: int, upper: int, grid: int, neighbors: Neighbors) -> None:
    truth = exact if neighbors is ReplaceOne else passing
    mean = Mean(lower=lower, upper=upper)
    check(mean, neighbors, truth=truth, grid_log2=grid, size=4 if grid == 0 else 3)


@in_subtests("neighbors", [AddRemove, ReplaceOne])
@in_subtests(
    ("lower", "upper", "answers"),
    [(0, 3, (0, 9)), (-2, 1, (-5, 4)), (-3, -1, (-7, 0)), (1, 3, (0, 10)), (0, 2, (3, 6))],
)
def test_losses_of_sums(lower: int, upper: int, answers: Any, neighbors: Neighbors) -> None:
    total = Sum(lower=lower, upper=upper)
    # Every sum between two that k replaced records lead to can be reached.
    truth = exact if neighbors is ReplaceOne else passing
    check(total, neighbors, truth=truth, answers=answers, size=3)


def squared(kept: tuple[float, ...], low: Fraction, high: Fraction, added: int) -> Any:
    """The least and the largest variance of what is kept and so many that may lie anywhere."""
    count = len(kept) + added
    if not count:
        return Fraction(0), Fraction(0)
    rows = [Fraction(value) for value in kept]
    sum_, square = sum(rows, Fraction(0)), sum((x * x for x in rows), Fraction(0))
    least = (square - sum_**2 / len(rows)) / count if rows else Fraction(0)

    def at_the_ends(share: Fraction) -> Fraction:
        first = sum_ + share * high + (added - share) * low
        second = square + share * high**2 + (added - share) * low**2
        return second / count - (first / count) ** 2

    # Concave in the share at the upper end: a middle mean, or the nearer end.
    even = (count * (high + low) / 2 - sum_ - added * low) / (high - low)
    shares = [Fraction(0), Fraction(added), min(max(even, Fraction(0)), Fraction(added))]
    return least, max(at_the_ends(share) for share in shares)


@pytest.mark.long
@pytest.mark.parametrize("neighbors", [AddRemove, ReplaceOne])
@pytest.mark.parametrize(("lower", "upper"), mostly_slow([(0, 3), (-2, 0), (-1, 1)]))
def test_losses_of_variances(lower: int, upper: int, neighbors: Neighbors) -> None:
    step, farthest = Fraction(1, 32), 5
    low, high = Fraction(lower), Fraction(upper)
    statistic = Variance(lower=lower, upper=upper)
    mechanism = InverseSensitivity(
        epsilon=1, statistic=statistic, neighbors=neighbors, grid_log2=-5
    )
    domain = tuple(float(k) for k in range(lower, upper + 1))
    for table in (*tables(domain, 4), (0.0,) * 6, (*domain, *domain)):
        runs, size = mechanism.losses(table), len(table)
        reach: list[tuple[Any, Any]] = []
        for k in range(farthest + 1):
            found = [reach[-1]] if reach else []
            for gone in range(min(k, size) + 1):
                if neighbors is ReplaceOne and gone < min(k, size):
                    continue
                added = gone if neighbors is ReplaceOne else k - gone
                kept = set(itertools.combinations(table, size - gone))
                found += [squared(rows, low, high, added) for rows in kept]
            reach.append((min(x for x, _ in found), max(x for _, x in found)))
        rounded = [[math.floor(end / step + Fraction(1, 2)) for end in ends] for ends in reach]
        truth = math.floor(statistic.value(table) / step + Fraction(1, 2))
        assert rounded[0] == [truth, truth]
        for point in range(int(runs.counts.sum())):
            expected = next(
                (k for k, ends in enumerate(rounded) if ends[0] <= point <= ends[1]), None
            )
            if expected is None:
                assert runs.loss(point) > farthest
            else:
                assert runs.loss(point) == expected
            if neighbors is AddRemove and size < 4:
                # Real records can do no more.
                others = distances(table, domain, neighbors)
                answers = variances(domain)
                up, down = (
                    others[answers >= point].min(initial=99),
                    others[answers <= point].min(initial=99),
                )
                assert runs.loss(point) <= max(up, down)


@cache
def variances(domain: tuple[float, ...]) -> Ints:
    statistic = Variance(lower=domain[0], upper=domain[-1])
    half = Fraction(1, 2)
    return np.array([math.floor(statistic.value(t) * 32 + half) for t in tables(domain, BEYOND)])


def test_losses_of_variances_of_many_values() -> None:
    generator = np.random.default_rng(9)
    for count in (50, 2000):
        values = np.round(generator.gamma(2.0, size=count), 3)
        for neighbors in (AddRemove, ReplaceOne):
            one = InverseSensitivity(
                epsilon=40, statistic=Variance(lower=0, upper=64), neighbors=neighbors
            )
            runs = one.losses(values)
            truth = statistic_of(values)
            assert one._most() == 3
            zero = runs.starts[runs.losses == 0]
            assert zero.size == 1
            assert abs(zero[0] * 2.0**one.grid_log2 - truth) < 1e-3
            # One more value at the upper bound, by the textbook's formula.
            most = statistic_of(np.append(values, 64.0))
            if neighbors is ReplaceOne:
                moved = (np.append(np.delete(values, k), 64.0) for k in range(count))
                most = max(statistic_of(rows) for rows in moved)
            last = runs.starts[runs.losses == 1].max()
            end = last + runs.counts[runs.starts == last][0] - 1
            assert abs(end * 2.0**one.grid_log2 - most) < 2e-3


def test_variances_of_very_many_values_take_integers_of_any_size(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    generator = np.random.default_rng(10)
    for neighbors in (AddRemove, ReplaceOne):
        one = InverseSensitivity(
            epsilon=20, statistic=Variance(lower=-3, upper=7.5), neighbors=neighbors
        )
        for count in (0, 1, 2, 40):
            values = generator.normal(size=count)
            narrow = one.losses(values)
            with monkeypatch.context() as patch:
                patch.setattr(variance_module, "_NARROW", 0)
                wide = one.losses(values)
            for name in ("starts", "counts", "losses"):
                assert getattr(wide, name).tolist() == getattr(narrow, name).tolist()


def statistic_of(values: Any) -> float:
    return float(np.var(np.asarray(values, dtype=np.float64)))


def test_losses_of_modes_count_how_far_they_are_behind() -> None:
    domain = (0, 1, 2)
    mode = Mode(categories=domain)
    added = InverseSensitivity(epsilon=1, statistic=mode)
    assert added.factor == 1
    assert InverseSensitivity(epsilon=1, statistic=mode, neighbors=ReplaceOne).factor == Fraction(
        1, 2
    )
    counts = histograms(domain, BEYOND)
    for table in tables(domain, 5):
        runs = added.losses(np.array(table, dtype=np.int64))
        apart = distances(table, domain, AddRemove)
        for category in domain:
            is_mode = counts[:, category] == counts.max(axis=1)
            assert runs.loss(category) == apart[is_mode].min()


def _law(losses: list[int], factor: float, selection: str) -> list[float]:
    """Of each answer, exactly: by the weights, or by all orders in which coins may be flipped."""
    heads = [math.exp(-factor * loss) for loss in losses]
    if selection == "exponential":
        return [head / sum(heads) for head in heads]
    found = [0.0] * len(losses)
    orders = list(itertools.permutations(range(len(losses))))
    for order in orders:
        left = 1 / len(orders)
        for answer in order:
            found[answer] += left * heads[answer]
            left *= 1 - heads[answer]
    return found


@pytest.mark.parametrize("neighbors", [AddRemove, ReplaceOne])
@pytest.mark.parametrize("selection", ["exponential", "permute and flip"])
@pytest.mark.parametrize("epsilon", [0.2, 3])
def test_modes_are_private_though_their_loss_moves_by_two(
    neighbors: Neighbors, selection: Selection, epsilon: float
) -> None:
    domain = (0, 1, 2)
    mechanism = InverseSensitivity(
        epsilon=epsilon, statistic=Mode(categories=domain), neighbors=neighbors, selection=selection
    )
    farthest, worst = 0, 0.0
    small = SmallData(domain, 5, neighbors)
    for one, two in ((data, near) for data in small.data for near in small.beside[data]):
        losses = [
            [mechanism.losses(np.array(table, dtype=np.int64)).loss(y) for y in domain]
            for table in (one, two)
        ]
        farthest = max(farthest, *(abs(a - b) for a, b in zip(*losses, strict=True)))
        laws = [_law(loss, float(mechanism.factor), selection) for loss in losses]
        worst = max(worst, *(abs(math.log(a / b)) for a, b in zip(*laws, strict=True)))
    assert farthest == (2 if neighbors is ReplaceOne else 1)
    assert 0.5 * epsilon < worst <= epsilon * (1 + 1e-12)


@pytest.mark.parametrize("neighbors", [AddRemove, ReplaceOne])
@pytest.mark.parametrize(
    "statistic",
    mostly_slow(
        [
            *(rank for rank in RANKS if max(getattr(rank, "k", 0), getattr(rank, "rank", 0)) < 4),
            Mean(lower=-1, upper=2),
            Variance(lower=-1, upper=2),
            Sum(lower=-1, upper=2),
            Mode(categories=(0, 1, 2)),
        ],
        quick=2,
    ),
    ids=repr,
)
def test_losses_move_by_one_at_most_and_no_less_would_do(
    statistic: Any, neighbors: Neighbors
) -> None:
    domain = tuple(range(-1, 3)) if not isinstance(statistic, Mode) else (0, 1, 2)
    mechanism = InverseSensitivity(
        epsilon=1,
        statistic=statistic,
        neighbors=neighbors,
        grid_log2=-5 if isinstance(statistic, Variance) else 0,
        answers=(-5, 9) if isinstance(statistic, Sum) else None,
    )
    grid = mechanism._grid()
    points = range(grid.first, grid.last + 1)

    def losses(table: Any) -> Ints:
        runs = mechanism.losses(np.array(table, dtype=np.int64))
        return np.array([runs.loss(point) for point in points])

    known = {table: losses(table) for table in tables(domain, 4)}
    ranges = set()
    for table, own in known.items():
        for other, its in known.items():
            added = len(other) == len(table) + 1 and not _without(table, other)
            replaced = len(other) == len(table) and len(_without(table, other)) == 1
            if added if neighbors is AddRemove else replaced:
                moves = own - its
                ranges.add(int(moves.max() - moves.min()))
                if not isinstance(statistic, Mode):
                    assert np.abs(moves).max() <= 1
    # The exponent per unit of loss, times the range of the moves, is epsilon.
    assert max(ranges) == 1 / mechanism.factor


@pytest.mark.parametrize("neighbors", [AddRemove, ReplaceOne])
@pytest.mark.parametrize(
    "statistic",
    mostly_slow(
        [
            Median(lower=0, upper=50),
            Quantile(q=0.15, lower=0, upper=50),
            Quantile(q=0.77, lower=0, upper=50),
            OrderStatistic(rank=12, lower=0, upper=50),
            KthLargest(k=4, lower=0, upper=50),
            Mean(lower=0, upper=50),
            Variance(lower=0, upper=50),
            Sum(lower=0, upper=50),
        ],
        quick=4,
    ),
    ids=repr,
)
def test_losses_of_larger_tables_move_by_one_at_most(statistic: Any, neighbors: Neighbors) -> None:
    # With losses that end at 9, so that windows and ends of them are met too.
    mechanism = InverseSensitivity(
        epsilon=12,
        statistic=statistic,
        neighbors=neighbors,
        grid_log2=0,
        answers=(300, 900) if isinstance(statistic, Sum) else None,
    )
    assert 7 < mechanism._most() < 10
    generator = np.random.default_rng(17)
    moved = 0
    for _ in range(60):
        count = int(generator.integers(1, 40))
        center = generator.integers(0, 51)
        values = np.clip(generator.integers(center - 25, center + 26, count), 0, 50)
        value = generator.integers(0, 51)
        other = np.append(values if neighbors is AddRemove else values[1:], value)
        one, two = mechanism.losses(values), mechanism.losses(other)
        steps = np.concatenate([one.starts, two.starts])
        moves = [one.loss(int(step)) - two.loss(int(step)) for step in steps]
        assert max(map(abs, moves)) <= 1
        moved += any(moves)
    assert moved > 10


def _without(table: tuple[float, ...], other: tuple[float, ...]) -> list[float]:
    rest = list(table)
    for value in other:
        if value in rest:
            rest.remove(value)
    return rest


@pytest.mark.long
@pytest.mark.parametrize("neighbors", [AddRemove, ReplaceOne])
@pytest.mark.parametrize("epsilon", mostly_slow([0.5, 20, 100]))
def test_losses_end_at_a_public_number(epsilon: float, neighbors: Neighbors) -> None:
    generator = np.random.default_rng(4)
    for statistic in (
        Median(lower=0, upper=1000),
        Quantile(q=0.9, lower=0, upper=1000),
        Quantile(q="0.123456789012345678", lower=0, upper=1000),
        OrderStatistic(rank=7, lower=0, upper=1000),
        KthLargest(k=3, lower=0, upper=1000),
        Mean(lower=0, upper=1000),
    ):
        few = InverseSensitivity(
            epsilon=epsilon, statistic=statistic, neighbors=neighbors, grid_log2=0
        )
        many = InverseSensitivity(
            epsilon=0.05, statistic=statistic, neighbors=neighbors, grid_log2=0
        )
        most = few._most()
        assert most == math.ceil((math.log(1001) + 45) * 2 / epsilon)
        tied = np.repeat(generator.integers(0, 1001, 20), 20)
        ended = np.clip(generator.integers(-1500, 2500, 400), 0, 1000)
        spread = [generator.integers(0, 1001, count) for count in (0, 1, 50, 400)]
        for values in (*spread, tied, ended):
            found, whole = few.losses(values), many.losses(values)
            for point in range(1001):
                assert found.loss(point) == min(whole.loss(point), most)


def test_bounds_that_are_no_points_of_the_grid() -> None:
    mechanism = InverseSensitivity(epsilon=1, statistic=Median(lower=0.3, upper=4.7), grid_log2=0)
    for table in ([], [0.0], [9.0], [0.3, 4.7, 4.7], [math.nan], [math.inf, -math.inf, -0.0]):
        runs = mechanism.losses(table)
        assert runs.starts[0] == 1
        assert runs.counts.sum() == 4
        assert runs.losses.min() == 0
    assert mechanism.losses([math.nan]).loss(1) == 0
    assert mechanism.losses([math.inf]).loss(4) == 0
    assert mechanism.losses([2.4, 2.6, 3.1]).loss(3) == 0
    assert mechanism.losses([2.4, 2.6, 3.1]).loss(2) == 1
