"""One-run audits: p-values against exact small cases, validity at the true epsilon, bad input."""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

import itertools
import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import optimize, stats
from tests.support.cases import in_subtests
from tests.tiers import mostly_slow

from unacorda.audit import Bound, anytime, log_evidence, one_run, one_run_f_dp
from unacorda.audit.binomials import at_least, rate_above, rate_below
from unacorda.audit.f_dp import approximate_inverse, gaussian_inverse, refutes
from unacorda.audit.guesses import p_value
from unacorda.errors import InvalidParameter
from unacorda.privacy.conversions import gdp_from_approx_dp

Audit = Callable[..., Bound]


def responses(m: int, epsilon: float, drawn: np.random.Generator) -> tuple[Any, Any]:
    """Coins and randomised responses to them: exactly epsilon-DP, and the audit's worst case."""
    coins = drawn.random(m) < 0.5
    kept = drawn.random(m) < math.exp(epsilon) / (1 + math.exp(epsilon))
    return np.where(kept, coins, ~coins).astype(float), coins


def worst_programme(right: int, guesses: int, budget: float, rate: float, most: int) -> float:
    """The largest P[Bin + F >= right] over laws of F, by a linear programme."""
    masses = stats.binom.pmf(np.arange(guesses + 1), guesses, rate)
    gain = [float(masses[max(0, right - i) : right].sum()) for i in range(most + 1)]
    solved = optimize.linprog(
        [-value for value in gain],
        A_ub=[list(range(most + 1))],
        b_ub=[budget],
        A_eq=[[1.0] * (most + 1)],
        b_eq=[1.0],
    )
    return float(masses[right:].sum() - solved.fun)


@in_subtests("right", [6, 8, 10])
@in_subtests("delta", [0.0, 1e-3, 0.02, 0.2])
def test_p_values_are_those_of_the_worst_law(right: int, delta: float) -> None:
    for epsilon in (0.0, 0.4, 1.5):
        rate = math.exp(epsilon) / (1 + math.exp(epsilon))
        found = p_value(right=right, guesses=10, canaries=12, epsilon=epsilon, delta=delta)
        worst = worst_programme(right, 10, 24 * delta, rate, 24)
        if at_least(right, 10, rate) < 0.5:
            assert found == pytest.approx(min(1, worst), rel=1e-7)
        else:
            assert found >= min(1, worst) * (1 - 1e-12)


def test_p_values_hold_the_chance_of_every_small_mechanism() -> None:
    # Two coins, and a mechanism that reveals one of them with probability delta and answers at
    # random about the others: every output listed, the best guesses made.
    epsilon, delta, m = 0.7, 0.1, 3
    keep = math.exp(epsilon) / (1 + math.exp(epsilon))
    chances: dict[int, float] = {}
    for flips in itertools.product([True, False], repeat=m):
        chance = math.prod(
            delta + (1 - delta) * keep if ok else (1 - delta) * (1 - keep) for ok in flips
        )
        chances[sum(flips)] = chances.get(sum(flips), 0) + chance
    for right in range(1, m + 1):
        true = sum(chance for count, chance in chances.items() if count >= right)
        assert true <= p_value(right=right, guesses=m, canaries=m, epsilon=epsilon, delta=delta)


@given(
    right=st.integers(0, 60),
    guesses=st.integers(60, 80),
    delta=st.sampled_from([0.0, 1e-4, 1e-2, 0.3]),
    epsilons=st.tuples(st.floats(0, 6), st.floats(0, 6)),
)
def test_p_values_do_not_fall_in_epsilon(
    right: int, guesses: int, delta: float, epsilons: tuple[float, float]
) -> None:
    low, high = (
        p_value(right=right, guesses=guesses, canaries=100, epsilon=epsilon, delta=delta)
        for epsilon in sorted(epsilons)
    )
    assert low <= high * (1 + 1e-8)


def test_rates_are_those_of_clopper_and_pearson() -> None:
    for successes, trials in ((0, 7), (3, 11), (11, 11), (400, 1000)):
        exact = stats.binomtest(successes, trials).proportion_ci(0.9, method="exact")
        assert rate_above(successes, trials, error=0.05) == pytest.approx(exact.high, rel=1e-6)
        assert rate_below(successes, trials, error=0.05) == pytest.approx(exact.low, abs=1e-8)
        assert rate_above(successes, trials, error=0.05) >= exact.high
    assert at_least(3, 5, 0.3) == pytest.approx(stats.binom.sf(2, 5, 0.3), rel=1e-8)


AUDITS: dict[str, Callable[[Any, Any], Bound]] = {
    "one run": lambda x, c: one_run(x, c, confidence=0.8),
    "one run, delta": lambda x, c: one_run(x, c, delta=1e-4, confidence=0.8),
    "one run, one side": lambda x, c: one_run(x, c, sides="in", confidence=0.8),
    "f-DP, approximate": lambda x, c: one_run_f_dp(
        x, c, delta=1e-5, family="approximate", confidence=0.8
    ),
    "anytime": lambda x, c: anytime(x, c, confidence=0.8),
}


@pytest.mark.long
@pytest.mark.statistical
@pytest.mark.parametrize("name", AUDITS)
@pytest.mark.parametrize("epsilon", mostly_slow([0.0, 1.0]))
def test_bounds_above_the_truth_are_as_rare_as_stated(name: str, epsilon: float) -> None:
    # A fifth of 300 runs may lie: more than 96 with p < 1e-6.
    drawn = np.random.default_rng(5)
    above = [
        AUDITS[name](*responses(200, epsilon, drawn)).epsilon > epsilon * (1 + 1e-9)
        for _ in range(300)
    ]
    assert sum(above) <= 96


@pytest.mark.slow
@pytest.mark.statistical
@pytest.mark.parametrize("name", AUDITS)
@pytest.mark.parametrize("epsilon", [0.0, 0.5, 2.0])
def test_bounds_above_the_truth_in_thousands_of_runs(name: str, epsilon: float) -> None:
    # A fifth of 4000: a deviation of 25.3; 5 of them above.
    drawn = np.random.default_rng(6)
    above = [
        AUDITS[name](*responses(1000, epsilon, drawn)).epsilon > epsilon * (1 + 1e-9)
        for _ in range(4000)
    ]
    assert sum(above) <= 800 + 127


@pytest.mark.long
@pytest.mark.statistical
def test_the_gaussian_audit_holds_for_normal_noise() -> None:
    # As above, at mu = 1: scores are coins with normal noise.
    drawn = np.random.default_rng(7)
    above = 0
    for _ in range(300):
        coins = drawn.random(300) < 0.5
        found = one_run_f_dp(coins + drawn.normal(size=300), coins, delta=1e-5, confidence=0.8)
        assert found.mu is not None
        above += found.mu > 1
    assert above <= 96


@pytest.mark.long
@pytest.mark.statistical
def test_the_gaussian_audit_holds_where_canaries_share_one_loss() -> None:
    # As above: each canary is told by a flip whose bias all share, 1-GDP for each of them. An audit
    # that took losses to be independent would lie in a third of all runs.
    drawn = np.random.default_rng(9)
    above = 0
    for _ in range(300):
        coins = drawn.random(300) < 0.5
        chance = 1 / (1 + math.exp(-abs(0.5 + drawn.normal())))
        scores = np.where(drawn.random(300) < chance, coins, ~coins)
        found = one_run_f_dp(scores, coins, delta=1e-5, confidence=0.8, guesses=300)
        assert found.mu is not None
        above += found.mu > 1
    assert above <= 96


@pytest.mark.parametrize("delta", [0.0, 1e-5, 1e-3])
def test_a_curve_of_two_lines_says_no_less_than_its_numbers(delta: float) -> None:
    for seed, size in enumerate((200, 1000, 4000)):
        scores, coins = responses(size, 2.0, np.random.default_rng(seed))
        curve = one_run_f_dp(scores, coins, delta=delta, family="approximate")
        assert curve.epsilon >= one_run(scores, coins, delta=delta).epsilon - 1e-6


@pytest.mark.statistical
def test_ten_thousand_canaries_tell_much_of_epsilon_four() -> None:
    # The median of 9 is 2.6; single ones deviate by 0.12, so that a median below 2.3 is at 6 of
    # its deviations.
    mu = gdp_from_approx_dp(4.0, delta=1e-5)
    found, plain = [], []
    for seed in range(9):
        drawn = np.random.default_rng(seed)
        coins = drawn.random(10_000) < 0.5
        scores = mu * coins + drawn.normal(size=10_000)
        found.append(one_run_f_dp(scores, coins, delta=1e-5).epsilon)
        plain.append(one_run(scores, coins, delta=1e-5).epsilon)
    assert np.median(found) >= 2.3
    assert np.median(plain) >= 1.7
    assert max(found) <= 4
    assert np.median(found) > np.median(plain)


def test_a_mechanism_that_tells_all_is_found_out() -> None:
    drawn = np.random.default_rng(8)
    coins = drawn.random(2000) < 0.5
    for bound in (
        one_run(coins, coins),
        one_run_f_dp(coins, coins, delta=1e-6, family="approximate"),
        anytime(coins, coins),
    ):
        assert bound.epsilon > 4
        assert bound.right == bound.guesses
        assert bound.contradicts(3.0)
        assert not bound.contradicts(8.0)


def test_evidence_is_a_fair_bet_by_enumeration() -> None:
    # All 2^8 histories of guesses right with probability exactly q: the mean evidence is 1.
    epsilon = 0.8
    q = math.exp(epsilon) / (1 + math.exp(epsilon))
    for t in (1, 3, 8):
        mean = math.fsum(
            math.comb(t, v)
            * q**v
            * (1 - q) ** (t - v)
            * math.exp(float(log_evidence(v, t, epsilon=epsilon)))
            for v in range(t + 1)
        )
        assert mean == pytest.approx(1, rel=2e-6)
        assert mean < 1
        # One more guess after any history that is right less often than q loses on average.
        for v in range(t + 1):
            now = math.exp(float(log_evidence(v, t, epsilon=epsilon)))
            hit, miss = (
                math.exp(float(log_evidence(v + k, t + 1, epsilon=epsilon))) for k in (1, 0)
            )
            for chance in (0.0, 0.3, q):
                assert chance * hit + (1 - chance) * miss <= now * (1 + 1e-9)


def test_refuting_by_skipped_steps_refutes_no_more(monkeypatch: pytest.MonkeyPatch) -> None:
    every: dict[tuple[int, float], bool] = {}
    for right in (80, 90, 97):
        for mu in (0.1, 0.5, 1.0, 1.5):
            every[right, mu] = refutes(
                gaussian_inverse(mu), right=right, guesses=100, canaries=1000, error=0.05
            )
    assert len(set(every.values())) == 2
    monkeypatch.setattr("unacorda.audit.f_dp._STEPS", 12)
    for (right, mu), fully in every.items():
        skipped = refutes(gaussian_inverse(mu), right=right, guesses=100, canaries=1000, error=0.05)
        assert fully or not skipped


@given(epsilon=st.floats(0, 5), delta=st.floats(0, 0.5), y=st.floats(0, 1))
def test_the_inverse_is_that_of_the_curve(epsilon: float, delta: float, y: float) -> None:
    def above(x: float) -> float:
        least = max(0.0, 1 - delta - math.exp(epsilon) * x, math.exp(-epsilon) * (1 - delta - x))
        return 1 - least

    x = approximate_inverse(epsilon, delta)(y)
    if y >= delta:
        assert above(x) <= y + 1e-9
    assert x >= 1 - 1e-9 or above(min(1.0, x + 1e-6)) >= y - 1e-9


def test_equal_scores_are_told_apart_by_place_alone() -> None:
    coins = np.arange(100) % 2 == 0
    flat = np.zeros(100)
    here = one_run(flat, coins, guesses=10)
    there = one_run(flat, ~coins, guesses=10)
    assert here.right + there.right == 10
    assert here.epsilon == 0 == there.epsilon
    early = np.arange(100) < 50
    assert one_run(flat, early, guesses=100).right == 100
    assert anytime(flat, early).right == anytime(flat, early).guesses


BAD: list[tuple[dict[str, Any], str]] = [
    ({"scores": [0.1, math.nan, 0.3]}, "scores"),
    ({"scores": ["a", "b", "c"]}, "scores"),
    ({"scores": [[0.1], [0.2], [0.3]]}, "scores"),
    ({"scores": []}, "scores"),
    ({"scores": [0.1, 0.2]}, "included"),
    ({"included": [1, 1, 1]}, "included"),
    ({"included": [False, False, False]}, "included"),
    ({"included": [2, 0, 1]}, "included"),
    ({"confidence": 1.0}, "confidence"),
    ({"confidence": 0.0}, "confidence"),
    ({"confidence": math.nan}, "confidence"),
]
WITH_GUESSES: list[tuple[dict[str, Any], str]] = [
    *BAD,
    ({"delta": 1.0}, "delta"),
    ({"delta": -0.1}, "delta"),
    ({"guesses": 4}, "guesses"),
    ({"guesses": 0}, "guesses"),
    ({"guesses": []}, "guesses"),
    ({"sides": "out"}, "sides"),
]


@in_subtests(
    ("audit", "wrong", "name"),
    [
        *((one_run, wrong, name) for wrong, name in WITH_GUESSES),
        *((one_run_f_dp, wrong, name) for wrong, name in WITH_GUESSES),
        *((anytime, wrong, name) for wrong, name in BAD),
        (one_run_f_dp, {"delta": 0.0}, "delta"),
        (one_run_f_dp, {"family": "laplace"}, "family"),
    ],
    ids=lambda part: getattr(part, "__name__", str(part)),
)
def test_bad_input_is_named(audit: Audit, wrong: dict[str, Any], name: str) -> None:
    given_: dict[str, Any] = {"scores": [0.1, 0.2, 0.3], "included": [True, False, True]}
    if audit is one_run_f_dp:
        given_["delta"] = 1e-5
    with pytest.raises(InvalidParameter) as caught:
        audit(**{**given_, **wrong})
    assert name in str(caught.value)
