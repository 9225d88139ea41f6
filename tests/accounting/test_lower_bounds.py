"""Lower bounds of error, against the best mechanisms of small domains, found by linear programs."""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

import itertools
import math
from collections.abc import Iterable
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy import optimize, sparse, stats
from tests.support.cases import in_subtests
from tests.support.planting import plant
from tests.tiers import mostly_long

from unacorda import accounting
from unacorda.accounting import lower_bounds
from unacorda.accounting.lower_bounds import lower_bound
from unacorda.errors import InvalidParameter
from unacorda.mechanisms import Gaussian
from unacorda.privacy.guarantees import ApproxDP

Floats = NDArray[np.float64]
BUDGETS = [(0.1, 0.0), (0.5, 0.0), (1.0, 0.01), (2.0, 0.0), (0.0, 0.1)]


def least_worst_error(
    errors: Floats, neighbors: Iterable[tuple[int, int]], epsilon: float, delta: float
) -> float:
    """The least, over all (epsilon, delta)-DP mechanisms, of the largest expected error.

    errors: a row for each question, an entry for each dataset and output, the dataset's probability
    in it: the expected error is the sum of these times the probability of output given dataset.
    """
    questions, datasets, outputs = errors.shape
    pairs = [pair for one in neighbors for pair in (one, one[::-1])]
    laws, gaps = datasets * outputs, len(pairs) * outputs * (delta > 0)
    cost = np.zeros(laws + gaps + 1)
    cost[-1] = 1
    above = sparse.hstack(
        [
            errors.reshape(questions, laws),
            sparse.csr_matrix((questions, gaps)),
            -np.ones((questions, 1)),
        ]
    )
    blocks, limits = [above], [np.zeros(questions)]
    rows = sparse.identity(outputs, format="csr")
    for number, (one, other) in enumerate(pairs):
        ways = sparse.lil_matrix((1, datasets))
        ways[0, one], ways[0, other] = 1.0, -math.exp(epsilon)
        gap = sparse.lil_matrix((1, max(len(pairs) * (delta > 0), 0)))
        if delta > 0:
            gap[0, number] = -1.0
        blocks.append(
            sparse.hstack([sparse.kron(ways, rows), sparse.kron(gap, rows), np.zeros((outputs, 1))])
        )
        limits.append(np.zeros(outputs))
        if delta > 0:
            summed = sparse.kron(-gap, np.ones((1, outputs)))
            blocks.append(sparse.hstack([sparse.csr_matrix((1, laws)), summed, [[0.0]]]))
            limits.append(np.array([delta]))
    whole = sparse.kron(sparse.identity(datasets), np.ones((1, outputs)))
    ones = sparse.hstack([whole, sparse.csr_matrix((datasets, gaps + 1))])
    found = optimize.linprog(
        cost,
        A_ub=sparse.vstack(blocks).tocsr(),
        b_ub=np.concatenate(limits),
        A_eq=ones.tocsr(),
        b_eq=np.ones(datasets),
        bounds=[(0, None)] * (len(cost) - 1) + [(None, None)],
        method="highs",
    )
    assert found.status == 0
    return float(found.fun)


def best_mean(people: int, dimension: int, epsilon: float, delta: float) -> float:
    """The RMSE of the best mean on a grid of outputs, over populations on a grid of means.

    A mechanism need only know how many of the rows are each vector, in which order they stand.
    """
    vectors = list(itertools.product((-1, 1), repeat=dimension))
    tables = list(itertools.combinations_with_replacement(range(len(vectors)), people))
    grid = np.linspace(-1, 1, 21 if dimension == 1 else 7)
    outputs = np.array(list(itertools.product(grid, repeat=dimension)))
    means = list(
        itertools.product(np.linspace(-1, 1, 11 if dimension == 1 else 5), repeat=dimension)
    )
    errors = []
    for mean in means:
        chances = [
            math.prod((1 + v * p) / 2 for v, p in zip(one, mean, strict=True)) for one in vectors
        ]
        drawn = [
            math.factorial(people)
            / math.prod(math.factorial(table.count(v)) for v in set(table))
            * math.prod(chances[v] for v in table)
            for table in tables
        ]
        errors.append(np.outer(drawn, np.mean((outputs - np.array(mean)) ** 2, axis=1)))
    return math.sqrt(least_worst_error(np.array(errors), adjacent(tables), epsilon, delta))


def adjacent(tables: list[tuple[int, ...]]) -> list[tuple[int, int]]:
    """Pairs of tables, rows without order, of which one row is replaced."""

    def apart(one: tuple[int, ...], other: tuple[int, ...]) -> int:
        return sum(max(0, one.count(v) - other.count(v)) for v in set(one))

    numbered = list(enumerate(tables))
    return [
        (i, j)
        for (i, one), (j, other) in itertools.combinations(numbered, 2)
        if apart(one, other) == 1
    ]


@in_subtests("people, dimension", [(1, 1), (2, 1), (5, 1), (1, 2), (2, 2)])
@pytest.mark.parametrize(("epsilon", "delta"), mostly_long(BUDGETS, quick=2))
def test_no_mechanism_beats_the_bound_of_means(
    people: int, dimension: int, epsilon: float, delta: float
) -> None:
    """The grid of means asks less of a mechanism, that of outputs allows less: hence the slack."""
    best = best_mean(people, dimension, epsilon, delta)
    found = lower_bound(dimension=dimension, people=people, epsilon=epsilon, delta=delta)
    assert found.mean <= best + 1e-9


def test_a_private_bound_four_times_as_large_is_beaten(monkeypatch: pytest.MonkeyPatch) -> None:
    """As of a constant 2 where the theorem has 8: by a mean of many rows with Laplace noise."""
    people, epsilon = 10**8, 1e-5
    laplace = math.hypot(1 / math.sqrt(people), math.sqrt(2) * 2 / (people * epsilon))
    assert laplace / 3 < lower_bound(dimension=1, people=people, epsilon=epsilon).mean < laplace
    right = lower_bounds._distance
    plant(monkeypatch, right, lambda x: right(x) / 4)
    assert lower_bound(dimension=1, people=people, epsilon=epsilon).mean > laplace


@pytest.mark.long
@in_subtests("people", [1, 2, 4, 8])
@pytest.mark.parametrize(("epsilon", "delta"), BUDGETS)
def test_no_mechanism_beats_the_bound_of_counts(people: int, epsilon: float, delta: float) -> None:
    counts = np.arange(people + 1)
    outputs = np.linspace(0, people, 8 * people + 1)
    errors = np.zeros((people + 1, people + 1, outputs.size))
    errors[counts, counts] = (outputs - counts[:, None]) ** 2
    steps = list(itertools.pairwise(counts.tolist()))
    best = math.sqrt(least_worst_error(errors, steps, epsilon, delta))
    found = lower_bound(dimension=1, people=people, epsilon=epsilon, delta=delta).count
    assert best / 2.2 <= found <= best + 1e-9


@pytest.mark.long
@in_subtests("people, bins", [(1, 3), (2, 3), (3, 3), (2, 4)])
@pytest.mark.parametrize(("epsilon", "delta"), BUDGETS)
def test_no_mechanism_beats_the_bound_of_histograms(
    people: int, bins: int, epsilon: float, delta: float
) -> None:
    """The least chance, over mechanisms, that some bin errs by that much."""
    found = lower_bound(dimension=bins, people=people, epsilon=epsilon, delta=delta).histogram
    tables = list(itertools.combinations_with_replacement(range(bins), people))
    counts = np.array([[table.count(b) for b in range(bins)] for table in tables])
    # errors are compared with multiples of 1/2: one output stands for all between two of them
    between = np.arange(2 * people) / 2 + 0.25
    outputs = np.array(list(itertools.product(between, repeat=bins)))
    errors = np.zeros((len(tables), len(tables), len(outputs)))
    places = np.arange(len(tables))
    errors[places, places] = np.abs(counts[:, None] - outputs).max(axis=2) >= found
    chance = least_worst_error(errors, adjacent(tables), epsilon, delta)
    assert found == 0 or chance >= 0.5 - 1e-9


def test_some_histograms_are_known_to_err() -> None:
    known = [lower_bound(dimension=d, people=100, epsilon=0.5).histogram for d in (1, 2, 3, 1_000)]
    assert known == [0.0, 0.0, 0.5, 6.5]


@pytest.mark.long
@in_subtests("dimension", [1, 10, 1_000])
@in_subtests("people", [1, 30, 10_000])
def test_gaussian_means_err_more(dimension: int, people: int) -> None:
    for epsilon, delta in itertools.product((0.01, 0.3, 1.0, 8.0), (1e-12, 1e-6, 1e-3)):
        found = lower_bound(dimension=dimension, people=people, epsilon=epsilon, delta=delta)
        moved = 2 * math.sqrt(dimension) / people
        noise = Gaussian.for_guarantee(ApproxDP(epsilon, delta), l2_sensitivity=moved)
        assert found.mean <= math.hypot(1 / math.sqrt(people), float(noise.sigma))


@pytest.mark.long
@in_subtests("dimension", [1, 7, 10**4, 10**8])
@in_subtests("people", [1, 100, 10**6])
def test_it_is_the_bound_with_constants_or_more(dimension: int, people: int) -> None:
    for epsilon, share in itertools.product((0.001, 0.1, 1.0, 3.0), (0, 1)):
        delta = Fraction(share, 64 * people)
        found = lower_bound(dimension=dimension, people=people, epsilon=epsilon, delta=delta)
        private = math.sqrt(dimension) / (8 * people * math.expm1(epsilon))
        assert found.mean >= min(private, 1 / math.sqrt(12)) * (1 - 1e-12)


def test_without_privacy_the_sampling_error_is_left() -> None:
    found = lower_bound(dimension=3, people=25, epsilon=1e300, delta=1)
    assert (found.count, found.histogram) == (0.0, 0.0)
    assert found.mean == pytest.approx(1 / 6, rel=1e-15)
    assert found.mean <= Fraction(1, 6)


def test_the_sampling_error_is_reached() -> None:
    """By the mean that is drawn towards 0 as Hodges and Lehmann (1950) draw it: at every mean."""
    n = 9
    ones = np.arange(n + 1)
    answer = (2 * ones - n) / (n + math.sqrt(n))
    for mean in (-1.0, -0.3, 0.8):
        errors = (answer - mean) ** 2 @ stats.binom.pmf(ones, n, (1 + mean) / 2)
        found = lower_bound(dimension=1, people=n, epsilon=100).mean
        assert math.sqrt(errors) == pytest.approx(found, rel=1e-12)


def test_more_privacy_forces_more_error() -> None:
    found = [
        lower_bound(dimension=50, people=1_000, epsilon=epsilon, delta=delta)
        for epsilon, delta in ((1, 1e-4), (1, 0), (0.1, 0), (0.01, 0), (0, 0))
    ]
    for more, less in itertools.pairwise(found):
        assert more.mean <= less.mean
        assert more.count <= less.count
        assert more.histogram <= less.histogram


@in_subtests(
    "argument, value",
    [
        ("dimension", 0),
        ("dimension", 1.5),
        ("dimension", True),
        ("people", "many"),
        ("people", math.inf),
        ("epsilon", -1),
        ("epsilon", math.nan),
        ("epsilon", None),
        ("delta", 1.5),
        ("delta", -1e-9),
    ],
)
def test_bad_input_is_named(argument: str, value: Any) -> None:
    given: dict[str, Any] = {"dimension": 2, "people": 10, "epsilon": 1, "delta": 1e-6}
    with pytest.raises(InvalidParameter) as refused:
        accounting.lower_bound(**{**given, argument: value})
    assert refused.value.argument == argument
