"""Searches catch planted faults and leave sound mechanisms alone."""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

import math
import re
from typing import Any

import numpy as np
import pytest
from scipy import stats
from tests.audit.planted import FAINT, FAULTS, SIGMA, SOUND
from tests.tiers import mostly_slow

from unacorda import GDP, ApproxDP, PureDP, RenyiDP
from unacorda.audit import power, search
from unacorda.audit.learned import Score
from unacorda.errors import InvalidParameter


@pytest.mark.parametrize("name", mostly_slow(FAULTS, quick=2))
def test_every_planted_fault_is_caught(name: str) -> None:
    fault = FAULTS[name]
    found = search(
        fault.bound_to(1),
        fault.pairs,
        claim=fault.claim,
        vary=fault.vary,
        seed=1,
        generations=2,
        confirm=40_000,
    )
    assert found.violated, repr(found)
    assert found.bound.epsilon > found.promised


EVENTS = {
    "half the sigma": r"the output (<=|>|>=|<) -?\d",
    "first above a bare threshold": r"the output ",
    "seldom without noise": r"the output is (0\.0|1\.0)|a score learned of the output",
    "a seed of 16 bits": r"the output is .* or one of \d\d,\d{3} more",
}


@pytest.mark.parametrize("name", mostly_slow(FAINT, quick=2))
def test_faint_faults_are_caught_by_the_sizes_that_a_claim_needs(name: str) -> None:
    fault = FAINT[name]
    found = search(fault.bound_to(4), fault.pairs, claim=fault.claim)
    assert found.violated, repr(found)
    assert re.match(EVENTS[name], found.event), found.event
    likelier, other = sorted(found.counts, reverse=True)
    assert likelier > math.exp(found.promised) * other + found.bound.delta * found.runs
    assert str(found.runs) in repr(found).replace(",", "")


@pytest.mark.slow
@pytest.mark.statistical
@pytest.mark.parametrize("name", FAINT)
def test_faint_faults_are_caught_nearly_always(name: str) -> None:
    # Where each search misses with probability 0.01, 5 of 60 or more do with p < 4e-4.
    fault = FAINT[name]
    missed = sum(
        not search(fault.bound_to(100 + k), fault.pairs, claim=fault.claim).violated
        for k in range(60)
    )
    assert missed < 5


def test_the_side_that_is_told_is_the_one_that_was_counted() -> None:
    for pair in ((0.0, 1.0), (1.0, 0.0)):
        drawn = np.random.default_rng(2)
        values: dict[float, list[Any]] = {0.0: [], 1.0: []}

        def sample(
            x: float, n: int, drawn: Any = drawn, values: dict[float, list[Any]] = values
        ) -> Any:
            outputs = np.round((x + drawn.laplace(scale=0.4, size=n)) * 64) / 64
            values[x].append(outputs)
            return outputs

        found = search(sample, [pair], claim=PureDP(1), confirm=5000)
        told = re.fullmatch(r"the output (<=|<|>=|>) (\S+)", found.event)
        assert told is not None, found.event
        compare = {"<=": np.less_equal, "<": np.less, ">=": np.greater_equal, ">": np.greater}
        inside = [int(compare[told[1]](values[x][-1], float(told[2])).sum()) for x in pair]
        assert tuple(inside) == found.counts


CLAIMS: list[Any] = [
    PureDP(1),
    PureDP(0.1),
    PureDP(3),
    ApproxDP(1, 1e-5),
    ApproxDP(5, 0.01),
    GDP(1),
    GDP(0.3),
]


@pytest.mark.long
@pytest.mark.statistical
@pytest.mark.parametrize("claim", mostly_slow(CLAIMS, quick=2), ids=repr)
def test_sizes_find_half_the_noise(claim: Any) -> None:
    # Counts of the best half-line, drawn 4,000 times: fewer than 98 % with p < 1e-6 at 99 %.
    sure = 1 - 1e-6
    samples = power.samples_for(claim, confidence=sure)
    assert power.BASE <= samples <= power.MOST
    drawn = np.random.default_rng(8)

    def loss_of(noise: Any, t: float) -> tuple[float, float]:
        return float(noise.sf(t - 1)), float(noise.sf(t))

    if isinstance(claim, PureDP):
        noise = stats.laplace(scale=1 / (2 * float(claim.epsilon)))
    else:
        sigma = 1 / claim.mu if isinstance(claim, GDP) else SIGMA
        if claim == ApproxDP(5, 0.01):  # by bisection over the analytic formula
            e, d = float(claim.epsilon), float(claim.delta)
            low, high = 0.05, 50.0
            for _ in range(60):
                sigma = (low + high) / 2
                lost = stats.norm.cdf(0.5 / sigma - e * sigma) - math.exp(e) * stats.norm.cdf(
                    -0.5 / sigma - e * sigma
                )
                low, high = (sigma, high) if lost > d else (low, sigma)
        noise = stats.norm(scale=sigma / 2)
    best = 0.0
    for t in np.linspace(-3, 12, 61):
        p, q = loss_of(noise, t)
        k, j = drawn.binomial(samples, p, 4000), drawn.binomial(samples, q, 4000)
        lower = np.where(k > 0, stats.beta.ppf(5e-7, k, samples - k + 1), 0.0)
        upper = stats.beta.isf(5e-7, j + 1, np.maximum(samples - j, 1e-9))
        for epsilon, delta in power.points(claim):
            best = max(best, float(np.mean(lower - delta > math.exp(epsilon) * upper)))
    assert best > 0.98


def test_what_is_too_small_to_be_seen_is_told() -> None:
    drawn = np.random.default_rng(3)

    def sample(x: float, n: int) -> Any:
        return np.round((x + drawn.laplace(scale=10, size=n)) * 64)

    hopeless = search(sample, [(0, 1)], claim=PureDP(20), confirm=500)
    assert hopeless.unseen == "Nothing that breaks this claim would show in so few samples"
    found = search(sample, [(0, 1)], claim=PureDP(1), confirm=500)
    seen = re.search(r"factor of (\d+).*probability below (0\.\d+)", found.unseen)
    assert seen is not None, found.unseen
    # exactly: an output of that probability, and one that comes a tenth as often
    for mass, often in ((float(seen[2]) * 1.02, True), (float(seen[2]) / 10, False)):
        hits = drawn.binomial(500, mass, 2000)
        lower = np.where(hits > 0, stats.beta.ppf(5e-7, hits, 501 - hits), 0.0)
        rate = np.mean(lower > math.e * stats.beta.isf(5e-7, 1, 500))
        assert (rate > 0.98) if often else (rate < 0.5)


@pytest.mark.long
@pytest.mark.statistical
@pytest.mark.parametrize("name", mostly_slow(SOUND, quick=2))
def test_sound_mechanisms_are_left_alone(name: str) -> None:
    # A false alarm has a probability of 1e-6 in each.
    sound = SOUND[name]
    found = search(sound.bound_to(2), sound.pairs, claim=sound.claim, seed=1)
    assert not found.violated, repr(found)


@pytest.mark.long
@pytest.mark.statistical
@pytest.mark.parametrize("places", mostly_slow([None, 0, 3]))
def test_false_alarms_are_as_rare_as_stated(places: int | None) -> None:
    # Each of 200 searches of a mechanism on the edge may be wrong with probability 0.2: more than
    # 70 with p < 1e-6. Rounded outputs come again and again, as is their right.
    sound = SOUND["nothing"]
    told = sound.bound_to(3)

    def sample(x: Any, n: int) -> Any:
        return told(x, n) if places is None else np.round(told(x, n), places)

    alarms = sum(
        search(
            sample, [(0.0, 1.0)], claim=PureDP(1e-9), explore=200, confirm=200, false_alarm=0.2
        ).violated
        for _ in range(200)
    )
    assert alarms <= 70


MIXED: list[Any] = [0.3, -2.0, "no answer", None, (1.0, 2.0), 10**400, np.nan, True, b"x", [3.0]]


@pytest.mark.parametrize("width", [0, 1, 2, 70])
def test_a_score_of_an_output_hangs_on_no_other(width: int) -> None:
    drawn = np.random.default_rng(6)
    size = (300, width) if width else (300,)
    one, other = drawn.normal(size=size).tolist(), (drawn.normal(size=size) + 0.3).tolist()
    for score in Score.candidates(one, other):
        some = [*drawn.normal(size=size)[:5], *MIXED]
        assert score(some).tolist() == [score([one])[0] for one in some]


@pytest.mark.long
@pytest.mark.statistical
def test_an_output_that_is_seldom_of_another_kind_is_no_false_alarm() -> None:
    # Each search is wrong with probability 1e-6; in half one sample alone has the rare kind.
    drawn = np.random.default_rng(7)

    def sample(x: float, n: int) -> list[Any]:
        outputs: list[Any] = list(x + np.round(drawn.laplace(size=n) * 1024) / 1024)
        for place in np.flatnonzero(drawn.random(n) < 2e-4):
            outputs[place] = "no answer"
        return outputs

    for _ in range(20):
        found = search(sample, [(0.0, 1.0)], claim=PureDP(1), explore=400, confirm=4000)
        assert not found.violated


@pytest.mark.long
def test_evolution_leaves_a_bad_start() -> None:
    # Only around 7 does the mechanism tell anything.
    drawn = np.random.default_rng(4)

    def sample(x: Any, n: int) -> Any:
        return (np.asarray(x)[0] >= 7) + drawn.laplace(scale=0.2, size=n)

    def vary(pair: Any, drawn: np.random.Generator) -> Any:
        x = pair[0] + drawn.integers(-4, 5)
        return x, x + 1

    start = [(np.array([3]), np.array([4]))]
    assert not search(sample, start, claim=PureDP(1), seed=1).violated
    found = search(sample, start, claim=PureDP(1), vary=vary, generations=6, seed=1)
    assert found.violated
    assert found.tried == 1 + 3 + 5 * 9
    assert found.pair[0] == 6


def test_a_column_that_is_never_a_number_hides_nothing() -> None:
    drawn = np.random.default_rng(5)

    def sample(x: float, n: int) -> Any:
        return np.column_stack([np.full(n, np.nan), x + drawn.laplace(scale=0.2, size=n)])

    assert search(sample, [(0.0, 1.0)], claim=PureDP(1), confirm=4000).violated
    assert not search(sample, [(0.0, 0.0)], claim=PureDP(1), confirm=4000).violated


def test_every_run_of_the_verdict_counts() -> None:
    # 400 runs of each input, none of which is mistaken: no smaller bound would do.
    found = search(lambda x, n: [x] * n, [(0, 1)], claim=PureDP(1), explore=400, confirm=400)
    assert found.bound.guesses == 800 == found.bound.right
    none = stats.binomtest(0, 400).proportion_ci(1 - 1e-6, "exact").high
    assert found.bound.epsilon == pytest.approx(np.log((1 - none) / none), rel=1e-6)


@pytest.mark.parametrize(
    ("wrong", "name"),
    [
        ({"pairs": []}, "pairs"),
        ({"claim": RenyiDP(2, 1)}, "claim"),
        ({"claim": 1.0}, "claim"),
        ({"explore": 10}, "explore"),
        ({"confirm": 0}, "confirm"),
        ({"false_alarm": 0.0}, "false_alarm"),
        ({"false_alarm": 1e-17}, "false_alarm"),
        ({"sample": lambda x, n: [0.0]}, "sample"),
    ],
    ids=lambda part: part if isinstance(part, str) else next(iter(part)),
)
def test_bad_input_is_named(wrong: dict[str, Any], name: str) -> None:
    given: dict[str, Any] = {
        "sample": lambda x, n: [x] * n,
        "pairs": [(0, 1)],
        "claim": PureDP(1),
    }
    with pytest.raises(InvalidParameter, match=name):
        search(**{**given, **wrong})
