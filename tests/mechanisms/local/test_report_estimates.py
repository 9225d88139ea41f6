"""Estimates are unbiased, their variances are right, their intervals cover."""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

import math
from fractions import Fraction
from itertools import product
from typing import Any

import numpy as np
import pytest
from tests.mechanisms.local.report_laws import (
    KINDS,
    RAPPOR,
    array_of,
    law,
    means,
    squares,
)
from tests.support.cases import in_subtests
from tests.tiers import mostly_slow

from unacorda.bits import SeededBits
from unacorda.mechanisms.local.categories import RandomizedResponse, SubsetSelection, UnaryEncoding
from unacorda.mechanisms.local.frequencies import Frequencies, FrequencyOracle
from unacorda.mechanisms.local.hashing import HadamardResponse, LocalHashing
from unacorda.mechanisms.local.reports import Support

CASES = [(2, "1"), (3, "1/10"), (5, "1"), (6, "3"), (7, "6")]


@in_subtests("kind", KINDS)
@in_subtests(("categories", "epsilon"), CASES)
def test_one_report_is_unbiased_for_every_share(kind: str, categories: int, epsilon: str) -> None:
    mechanism = KINDS[kind](epsilon=Fraction(epsilon), categories=categories)
    for value in range(categories):
        found = means(mechanism, law(mechanism, value))
        truth = np.eye(categories)[value]
        assert found == pytest.approx(truth, abs=1e-11)


class Exchanged(UnaryEncoding):
    """A server that takes the one probability for the other."""

    @property
    def support(self) -> Support:
        own, other = UnaryEncoding(epsilon=self.epsilon, categories=self.categories).support
        return Support(other, own)


def test_estimating_with_the_two_probabilities_exchanged_is_caught() -> None:
    expected = law(UnaryEncoding(epsilon=1, categories=3), 1)
    found = means(Exchanged(epsilon=1, categories=3), expected)
    assert abs(found - (np.arange(3) == 1)).max() > 0.5


@pytest.mark.long
@in_subtests("kind", KINDS)
@in_subtests(("categories", "epsilon"), CASES)
def test_the_variance_is_that_of_one_report(kind: str, categories: int, epsilon: str) -> None:
    mechanism = KINDS[kind](epsilon=Fraction(epsilon), categories=categories)
    laws = [law(mechanism, value) for value in range(categories)]
    spread = np.array(
        [squares(mechanism, one) - means(mechanism, one) ** 2 for one in laws]
    )  # rows: who reports; columns: whose share
    own = np.diag(spread).mean()
    others = (spread.sum() - np.diag(spread).sum()) / (categories * (categories - 1))
    for share in (Fraction(0), Fraction(1, 3), Fraction(1)):
        expected = share * own + (1 - share) * others
        assert mechanism.variance(count=1, frequency=share) == pytest.approx(expected, rel=1e-9)
        assert mechanism.variance(count=50, frequency=share) == pytest.approx(
            expected / 50, rel=1e-9
        )


@pytest.mark.parametrize("kind", KINDS)
def test_errors_from_reports_are_unbiased(kind: str) -> None:
    """The mean of the squared privacy error over all reports of three people is the variance."""
    mechanism = KINDS[kind](epsilon=Fraction(3, 2), categories=3)
    if kind in {"rappor", "oue"}:
        assert len(law(mechanism, 0)) == 8
    values = (0, 0, 2)
    laws = [law(mechanism, value) for value in values]
    estimated, first, second = np.zeros(3), np.zeros(3), np.zeros(3)
    for reports in product(*laws):
        mass = math.prod(float(one[report]) for one, report in zip(laws, reports, strict=True))
        shares = mechanism.aggregate(array_of(reports))
        estimated += mass * shares.privacy_errors**2
        first += mass * shares.values
        second += mass * shares.values**2
    added = 4 / 9 / float(gap(mechanism)) ** 2 if isinstance(mechanism, HadamardResponse) else 0
    assert first == pytest.approx([2 / 3, 0, 1 / 3], abs=1e-9)
    assert estimated == pytest.approx(second - first**2 + added, rel=1e-9)


def gap(mechanism: HadamardResponse) -> Fraction:
    return Fraction(mechanism.half_blocks.truth - mechanism.half_blocks.lie, 2**64)


@pytest.mark.parametrize("kind", KINDS)
def test_squared_errors_are_never_below_zero(kind: str) -> None:
    mechanism = KINDS[kind](epsilon=5, categories=4)
    for report in law(mechanism, 0):
        shares = mechanism.aggregate(array_of([report] * 3))
        assert (shares.constant + shares.slope * shares.values >= -1e-15).all()
        lower, upper = shares.interval()
        assert (lower < upper).all()


def test_known_standard_errors() -> None:
    """The closed forms of the literature, at count 1 and a rare category."""
    for epsilon in (0.5, 1.0, 2.0):
        e = math.exp(epsilon)
        for mechanism, known in (
            (RandomizedResponse(epsilon=epsilon, categories=10), (8 + e) / (e - 1) ** 2),
            (RAPPOR(epsilon=epsilon, categories=10), math.sqrt(e) / (math.sqrt(e) - 1) ** 2),
            (UnaryEncoding(epsilon=epsilon, categories=10), 4 * e / (e - 1) ** 2),
        ):
            assert mechanism.variance(count=1) == pytest.approx(known, rel=1e-12)
        hashing = LocalHashing(epsilon=epsilon, categories=10)
        g = hashing.cells
        known = (e - 1 + g) ** 2 / ((e - 1) ** 2 * (g - 1))
        assert hashing.variance(count=1) == pytest.approx(known, rel=1e-6)


def test_designs_are_the_better_of_their_neighbors() -> None:
    for epsilon in (0.3, 1.0, 2.5):
        odds = math.exp(epsilon)
        subsets = SubsetSelection(epsilon=epsilon, categories=40)
        assert abs(subsets.size - 40 / (odds + 1)) < 1
        hashing = LocalHashing(epsilon=epsilon, categories=40)
        assert abs(hashing.cells - odds - 1) < 1
        hadamard = HadamardResponse(epsilon=epsilon, categories=40)
        assert hadamard.blocks * (hadamard.block - 1) >= 40
        assert hadamard.symbols <= 4 * 40
        unary = UnaryEncoding(epsilon=epsilon, categories=40).variance(count=1, frequency="1/40")
        best = subsets.variance(count=1, frequency="1/40")
        assert best < unary
        assert best <= hadamard.variance(count=1, frequency="1/40") < 2 * unary


EVERY: dict[str, Any] = {**KINDS, "hashing": LocalHashing}


@pytest.mark.long
@pytest.mark.statistical
@pytest.mark.parametrize("kind", mostly_slow(EVERY, quick=2))
@pytest.mark.parametrize(("epsilon", "count"), mostly_slow([(1, 400), (8, 100)]))
def test_intervals_cover(kind: str, epsilon: int, count: int) -> None:
    # 1000 surveys: 5 standard deviations of 0.95 are 0.035. Score intervals of a category that
    # one person in a hundred holds cover a little less or more than they say.
    mechanism: FrequencyOracle = EVERY[kind](epsilon=epsilon, categories=4)
    bits, surveys = SeededBits(21), 1000
    people = np.repeat([0, 1, 2], [count // 2, count // 2 - count // 50, count // 50])
    truth = np.bincount(people, minlength=4) / count
    law_of_people = np.array([0.5, 0.3, 0.19, 0.01])
    generator = np.random.default_rng(5)
    drawn = generator.choice(4, size=(surveys, count), p=law_of_people)
    fixed, sampled, off = np.zeros(4), np.zeros(4), np.zeros(4)
    for survey in range(surveys):
        shares = mechanism.aggregate(mechanism.encode(people, bits=bits))
        lower, upper = shares.interval(0.95, sampled=False)
        fixed += (lower <= truth) & (truth <= upper)
        off += shares.values - truth
        shares = mechanism.aggregate(mechanism.encode(drawn[survey], bits=bits))
        lower, upper = shares.interval(0.95)
        sampled += (lower <= law_of_people) & (law_of_people <= upper)
    assert (fixed / surveys > 0.9).all()
    assert (sampled / surveys > [0.915, 0.915, 0.915, 0.87]).all()
    if epsilon == 1:
        assert (fixed / surveys < 0.98).all()  # and they are no wider than they need be
    deviation = math.sqrt(mechanism.variance(count=count, frequency=1) / surveys)
    deviation = max(deviation, math.sqrt(mechanism.variance(count=count) / surveys))
    assert (abs(off / surveys) < 6 * deviation).all()


def test_where_nothing_is_seen_an_interval_stays_wide() -> None:
    """Of 100 people, 37% of all samples miss a category held by one in a hundred."""
    for kind in EVERY.values():
        mechanism = kind(epsilon=20, categories=4)
        shares = mechanism.aggregate(mechanism.encode(np.zeros(100, int), bits=SeededBits(1)))
        lower, upper = shares.interval(0.95)
        assert lower[3] <= 0
        assert upper[3] > 0.03
        assert shares.interval(0.95, sampled=False)[1][3] < upper[3] + 1e-9


def test_score_intervals_by_hand() -> None:
    shares = Frequencies(
        values=np.array([0.25, 0.0]), count=16, constant=np.array([2.0, 2.0]), slope=0.5
    )
    assert shares.privacy_errors[0] == pytest.approx(math.sqrt(2.125 / 16))
    assert shares.sampling_errors[0] == pytest.approx(math.sqrt(0.1875 / 16))
    assert shares.standard_errors[0] == pytest.approx(math.sqrt(2.3125 / 16))
    for sampled in (True, False):
        for end in shares.interval(0.9, sampled=sampled):
            noise = 2.0 + 0.5 * end + sampled * end * (1 - end)
            z = abs(shares.values - end) / np.sqrt(noise / 16)
            assert z == pytest.approx([1.6448536269514722] * 2, rel=1e-9)
    one = shares[0]
    assert one.value == 0.25
    assert one.standard_error == pytest.approx(math.sqrt(2.3125 / 16))
    assert len(shares) == 2


def test_the_nearest_shares_on_the_simplex() -> None:
    def nearest(values: list[float]) -> list[float]:
        array = np.array(values)
        shares = Frequencies(values=array, count=1, constant=array, slope=0.0)
        return [round(value, 12) for value in shares.on_simplex().tolist()]

    assert nearest([0.2, 0.8]) == [0.2, 0.8]
    assert nearest([0.5, 0.7, -0.4]) == [0.4, 0.6, 0.0]
    assert nearest([3.0, 0.5]) == [1.0, 0.0]
    assert nearest([-1.0, -1.0]) == [0.5, 0.5]


@pytest.mark.statistical
def test_hadamard_decodes_thousands_of_categories() -> None:
    mechanism = HadamardResponse(epsilon=3, categories=5000)
    values = np.repeat([7, 4999, 1234], [100_000, 60_000, 40_000])
    shares = mechanism.aggregate(mechanism.encode(values, bits=SeededBits(3)))
    truth = np.bincount(values, minlength=5000) / values.size
    score = (shares.values - truth) / shares.privacy_errors
    assert abs(score).max() < 6.5
    assert 0.9 < score.std() < 1.1
    predicted = mechanism.variance(count=values.size, frequency=Fraction(1, 5000))
    assert np.var(shares.values - truth) == pytest.approx(predicted, rel=0.2)
