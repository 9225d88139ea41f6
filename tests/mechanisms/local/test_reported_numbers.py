"""Mean oracles: laws, ratios, means and variances of bits, of places on a grid and of both."""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

import math
from collections.abc import Hashable, Iterator
from fractions import Fraction

import numpy as np
import pytest
from scipy import stats
from tests.mechanisms.local.report_laws import (
    WHOLE,
    Law,
    at_most_exp,
    chi_square,
    hockey_stick,
    shortfall,
    worst_ratio,
)
from tests.tiers import mostly_slow

from unacorda import ReplaceOne, accounting
from unacorda.bits import ScriptedBits, SeededBits
from unacorda.mechanisms.local import means, reports
from unacorda.mechanisms.local.means import Duchi, Hybrid, MeanOracle, Piecewise
from unacorda.privacy import events

EPSILONS = ["1e-3", "1/10", "1/2", "1", "5/4", "3", "7", "20", "40"]


@pytest.fixture
def coarse(monkeypatch: pytest.MonkeyPatch) -> Iterator[int]:
    """The same code with 8 steps between places, so that everything can be enumerated."""
    monkeypatch.setattr(means, "STEPS", 8)
    for cached in (means._duchi, means._piecewise):
        cached.cache_clear()
    yield 8
    for cached in (means._duchi, means._piecewise):
        cached.cache_clear()


def law(mechanism: MeanOracle, place: int, steps: int) -> Law:
    """The law of the report of the value at this place."""
    if isinstance(mechanism, Duchi):
        least, step = mechanism.chances
        one = Fraction(least + place * step, WHOLE)
        return {0: 1 - one, 1: one}
    if isinstance(mechanism, Hybrid):
        share = Fraction(mechanism.chances, WHOLE)
        near, bit = law(mechanism.places, place, steps), law(mechanism.bit, place, steps)
        told: dict[Hashable, Fraction] = {y: share * near[y] for y in near}
        return told | {len(near) + y: (1 - share) * bit[y] for y in (0, 1)}
    assert isinstance(mechanism, Piecewise)
    window, chances = mechanism.window, Fraction(mechanism.chances, WHOLE)
    return {
        told: chances / window if place <= told < place + window else (1 - chances) / steps
        for told in range(steps + window)
    }


def exactly(mechanism: MeanOracle, report: int, steps: int) -> Fraction:
    """What a report counts, from the center of the bounds."""
    if isinstance(mechanism, Hybrid):
        places = steps + mechanism.places.window
        if report >= places:
            return exactly(mechanism.bit, report - places, steps)
        return exactly(mechanism.places, report, steps)
    assert isinstance(mechanism, Duchi | Piecewise)
    return (report - mechanism.middle) * mechanism.scale


KINDS: list[type[MeanOracle]] = [Duchi, Piecewise, Hybrid]
CENTER, HALF = Fraction(7, 3), Fraction(8, 3)


def mechanisms(epsilon: str) -> list[MeanOracle]:
    given = {"epsilon": Fraction(epsilon), "lower": Fraction(-1, 3), "upper": Fraction(5)}
    return [kind(**given) for kind in KINDS]


@pytest.mark.parametrize("epsilon", EPSILONS)
def test_ratios_of_all_places_are_at_most_e_to_the_epsilon(epsilon: str, coarse: int) -> None:
    for mechanism in mechanisms(epsilon):
        laws = [law(mechanism, place, coarse) for place in range(coarse + 1)]
        assert all(sum(one.values()) == 1 for one in laws)
        assert at_most_exp(worst_ratio(laws), Fraction(epsilon))
        if Fraction(epsilon) <= 7:  # and no ratio is given away
            assert shortfall(worst_ratio(laws), Fraction(epsilon)) < 1e-12


@pytest.mark.parametrize("epsilon", EPSILONS)
def test_ratios_on_the_fine_grid(epsilon: str) -> None:
    exact = Fraction(epsilon)
    given = {"epsilon": exact, "lower": Fraction(-1, 3), "upper": Fraction(5)}
    for mechanism in (Duchi(**given), Piecewise(**given)):
        if isinstance(mechanism, Duchi):
            least, step = mechanism.chances
            assert 2 * least + means.STEPS * step == WHOLE
            ratio = Fraction(WHOLE - least, least)
        else:
            near = Fraction(mechanism.chances, WHOLE)
            ratio = near / mechanism.window / ((1 - near) / means.STEPS)
        assert at_most_exp(ratio, exact)
        # Duchi's steps are whole chances: at most 2^29 of 2^64 are lost to either side.
        assert shortfall(ratio, exact) < 2.0**-34 * (math.exp(exact) + 1)


@pytest.mark.long
@pytest.mark.parametrize("epsilon", EPSILONS)
def test_reports_are_unbiased_and_scatter_as_said(epsilon: str, coarse: int) -> None:
    for mechanism in mechanisms(epsilon):
        constant, square = mechanism.spread
        for place in range(coarse + 1):
            c = HALF * (Fraction(2 * place, coarse) - 1)
            first = second = Fraction(0)
            for told, mass in law(mechanism, place, coarse).items():
                assert isinstance(told, int)
                decoded = exactly(mechanism, told, coarse)
                assert mechanism.decode(told) == pytest.approx(float(CENTER + decoded), abs=1e-9)
                first += mass * decoded
                second += mass * decoded**2
            assert first == c
            assert second - first**2 == constant + square * c**2
            found = mechanism.variance(count=7, x=float(CENTER + c))
            assert found == pytest.approx(float(second - first**2) / 7, rel=1e-12)
            assert mechanism.variance(count=7) >= found * (1 - 1e-12)


@pytest.mark.parametrize("epsilon", ["1/10", "1/2", "1", "3", "7"])
def test_hybrid_reports_err_alike_for_all_values(epsilon: str) -> None:
    mechanism = Hybrid(epsilon=Fraction(epsilon), lower=0, upper=1)
    variances = [mechanism.variance(count=1, x=x) for x in (0, 0.2, 0.5, 0.9)]
    assert max(variances) == pytest.approx(min(variances), rel=1e-9)
    assert mechanism.variance(count=1) == pytest.approx(variances[0], rel=1e-9)


@pytest.mark.statistical
@pytest.mark.parametrize("epsilon", ["1/2", "2", "4"])
def test_reports_have_their_law(epsilon: str, coarse: int) -> None:
    for mechanism in mechanisms(epsilon):
        for place in (0, 3, 8):
            x = float(CENTER + HALF * (Fraction(2 * place, coarse) - 1))
            told = mechanism.encode(np.full(60_000, x), bits=SeededBits(place)).tolist()
            assert chi_square(told, law(mechanism, place, coarse)) > 1e-8
            assert chi_square(told, law(mechanism, (place + 5) % 9, coarse)) < 1e-9
        told = mechanism.encode(np.full(60_000, -1.0), bits=SeededBits(9)).tolist()
        wrong = law(
            mechanisms(str(Fraction(epsilon) * Fraction(6, 5)))[KINDS.index(type(mechanism))],
            0,
            coarse,
        )
        if wrong.keys() == law(mechanism, 0, coarse).keys():
            assert chi_square(told, wrong) < 1e-9


def test_a_bit_is_1_exactly_below_its_chances() -> None:
    mechanism = Duchi(epsilon=1, lower=0, upper=means.STEPS)
    least, step = mechanism.chances
    for place in (0, 1, 12345, means.STEPS - 1, means.STEPS):
        edge = least + place * step
        words = ScriptedBits([edge - 1, edge, 0, WHOLE - 1])
        assert mechanism.encode([place] * 4, bits=words).tolist() == [1, 0, 1, 0]


def test_the_window_lies_at_the_value_and_the_rest_beside_it() -> None:
    mechanism = Piecewise(epsilon=1, lower=0, upper=means.STEPS)
    window, near = mechanism.window, mechanism.chances
    for place in (0, 5, 999, means.STEPS):
        for word, inside in ((near - 1, True), (near, False), (0, True), (WHOLE - 1, False)):
            # One word for the coin, one for the place inside, one for the place outside.
            for number in (2**32 - 1, 2**31 + 5):
                assert number * window % 2**32 >= 2**32 % window  # it is not drawn again
                for other in (0, 4, 5, 998, 999, means.STEPS - 1):
                    words = ScriptedBits([word, number, other])
                    told = mechanism.encode([place], bits=words)[0]
                    beside = other + (window if other >= place else 0)
                    assert told == (place + (number * window >> 32) if inside else beside)


@pytest.mark.long
@pytest.mark.statistical
@pytest.mark.parametrize("epsilon", [0.5, 1.0, 4.0])
def test_fine_reports_have_their_mean_and_scatter(epsilon: float) -> None:
    size = 200_000
    for kind in KINDS:
        mechanism = kind(epsilon=epsilon, lower=-2, upper=6)
        for x in (-2.0, 0.7, 5.9):
            told = mechanism.release(np.full(size, x), bits=SeededBits(31))
            variance = mechanism.variance(count=1, x=x)
            assert abs(told.mean() - x) < 6 * math.sqrt(variance / size)
            spread = told.var()
            kurtosis = ((told - x) ** 4).mean() / variance**2
            assert abs(spread / variance - 1) < 6 * math.sqrt(kurtosis / size)
    if epsilon == 1.0:
        # The law of the continuous original: uniform within the window and beside it.
        ends = [-2.0, 6.0]
        window = Piecewise(epsilon=1, lower=-2, upper=6).release(
            np.full(size, 2.0), bits=SeededBits(32)
        )
        t = math.exp(0.5)
        reach = 4 * (t + 1) / (t - 1)  # the literature's C, for bounds -1 and 1, times 4
        inner = reach / (t + 1)
        assert abs(window - 2).max() <= reach * (1 + 1e-6)
        share = float((abs(window - 2) <= inner).mean())
        assert stats.binomtest(round(share * size), size, t / (t + 1)).pvalue > 1e-8
        assert ends[0] < window.mean() < ends[1]


@pytest.mark.parametrize("epsilon", ["1/2", "3/2", "4"])
def test_events_dominate_all_pairs_of_places(epsilon: str, coarse: int) -> None:
    for mechanism in mechanisms(epsilon):
        laws = [law(mechanism, place, coarse) for place in range(coarse + 1)]
        for at in (0.0, 0.2, 0.45, 1.0, 3.0):
            priced = accounting.delta(mechanism.event, epsilon=at, neighbors=ReplaceOne)
            found = max(hockey_stick(a, b, math.exp(at)) for a in laws for b in laws)
            assert found <= priced + 1e-15
            if isinstance(mechanism, Duchi):
                assert found == pytest.approx(priced, rel=1e-12)


def test_events_of_numbers() -> None:
    assert Duchi(epsilon=3, lower=0, upper=1).event == events.RandomizedResponse(
        epsilon=3, categories=2
    )
    assert Piecewise(epsilon=1, lower=0, upper=1).event == events.Pure(epsilon=1)
    assert Piecewise(epsilon=3, lower=0, upper=1).event == events.RandomizedResponse(
        epsilon=3, categories=1 + math.floor(math.exp(1.5))
    )


def test_known_variances() -> None:
    for epsilon in (0.5, 1.0, 3.0):
        e, t = math.exp(epsilon), math.exp(epsilon / 2)
        duchi = Duchi(epsilon=epsilon, lower=-1, upper=1)
        piecewise = Piecewise(epsilon=epsilon, lower=-1, upper=1)
        for x in (0.0, -0.5, 1.0):
            known = ((e + 1) / (e - 1)) ** 2 - x**2
            assert duchi.variance(count=1, x=x) == pytest.approx(known, rel=1e-8)
            known = x**2 / (t - 1) + (t + 3) / (3 * (t - 1) ** 2)
            assert piecewise.variance(count=1, x=x) == pytest.approx(known, rel=1e-8)
        assert duchi.variance(count=1) == duchi.variance(count=1, x=0)
        assert piecewise.variance(count=1) == piecewise.variance(count=1, x=1)


@pytest.mark.parametrize("x", [0.1, 1 / 3, 0.999999, 5e-10, 0.0, 1.0])
def test_values_move_by_at_most_two_to_the_minus_thirty(x: float) -> None:
    for lower, upper in ((0.0, 1.0), (1e5, 1e5 + 1)):
        ends = reports.value_bounds(lower, upper)
        (place,), _ = reports.grid_places(lower + x, ends=ends, last=means.STEPS)
        value = Fraction(lower + x)
        rounded = ends.lower + ends.width * Fraction(int(place), means.STEPS)
        assert abs(rounded - value) <= ends.width / 2**30


@pytest.mark.long
@pytest.mark.statistical
@pytest.mark.parametrize("kind", mostly_slow(KINDS, quick=2))
@pytest.mark.parametrize(
    ("epsilon", "count"),
    [
        (1.0, 30),
        (4.0, 400),
        pytest.param(1.0, 400, marks=pytest.mark.slow),
        pytest.param(4.0, 30, marks=pytest.mark.slow),
    ],
)
def test_intervals_of_the_mean_cover(kind: type[MeanOracle], epsilon: float, count: int) -> None:
    # 3000 surveys: 5 standard deviations of 0.95 are 0.02; thirty reports are not quite normal.
    mechanism, bits = kind(epsilon=epsilon, lower=0, upper=10), SeededBits(33)
    people = np.linspace(1, 7, count)
    generator = np.random.default_rng(6)
    fixed = sampled = 0
    off, claimed, surveys = [], [], 3000
    reports = mechanism.encode(np.tile(people, (surveys, 1)), bits=bits)
    drawn = mechanism.encode(generator.uniform(1, 7, (surveys, count)), bits=bits)
    for survey in range(surveys):
        found = mechanism.aggregate(reports[survey])
        lower, upper = found.interval(0.95)
        fixed += lower <= people.mean() <= upper
        off.append(found.value - people.mean())
        claimed.append(found.privacy_error**2)
        lower, upper = mechanism.aggregate(drawn[survey]).interval(0.95)
        sampled += lower <= 4 <= upper
    assert fixed / surveys > 0.92
    assert 0.92 < sampled / surveys < 0.98
    noise = float(np.mean([mechanism.variance(count=count, x=x) for x in people.tolist()]))
    assert np.var(off) == pytest.approx(noise, rel=0.2)
    assert np.mean(off) == pytest.approx(0, abs=6 * math.sqrt(noise / surveys))
    assert np.mean(claimed) > 0.95 * noise  # from reports only, and not too little
    assert np.mean(claimed) < (1.6 if kind is Duchi else 1.25) * noise


def test_one_report_has_an_error_too() -> None:
    for kind in KINDS:
        mechanism = kind(epsilon=1, lower=0, upper=1)
        found = mechanism.aggregate([1])
        assert found.privacy_error > 0.5 * math.sqrt(mechanism.variance(count=1))
        assert 0 <= found.sampling_error <= 0.5


@pytest.mark.parametrize("epsilon", [0.62, 1.0, 2.0, 5.0])
def test_the_largest_error_of_hybrid_reports_is_below_that_of_both(epsilon: float) -> None:
    given = {"epsilon": epsilon, "lower": -1, "upper": 1}
    mine = Hybrid(**given).variance(count=1)
    assert mine < min(Duchi(**given).variance(count=1), Piecewise(**given).variance(count=1))
    # Formulas of the paper, for epsilon above 0.61.
    e, t = math.exp(epsilon), math.exp(epsilon / 2)
    known = (t + 3) / (3 * t * (t - 1)) + (e + 1) ** 2 / (t * (e - 1) ** 2)
    assert mine == pytest.approx(known, rel=1e-7)


@pytest.mark.slow
@pytest.mark.statistical
def test_sampling_errors_of_hybrid_reports_are_about_right() -> None:
    mechanism, bits = Hybrid(epsilon=2.0, lower=0, upper=10), SeededBits(3)
    drawn = np.random.default_rng(5).uniform(1, 7, (2000, 400))
    reports = mechanism.encode(drawn, bits=bits)
    errors = [mechanism.aggregate(row).sampling_error for row in reports]
    # The roots of noisy variances, cut at 0: about the true one, 6 / sqrt(12 * 400).
    assert 0.6 < np.mean(errors) / (6 / math.sqrt(12 * 400)) < 1.2
