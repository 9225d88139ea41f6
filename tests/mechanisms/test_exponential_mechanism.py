"""The exponential mechanism: its exact law, its refinement, its scores of any kind."""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

import math
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from mpmath import mp, mpf
from scipy import stats
from tests.support.cases import in_subtests
from tests.tiers import mostly_slow

from unacorda.bits import ScriptedBits, SeededBits
from unacorda.errors import InvalidParameter
from unacorda.mechanisms.selection import exponential
from unacorda.mechanisms.selection.exponential import Exponential
from unacorda.privacy import events

KINDS: dict[str, Any] = {
    "integers": np.array([3, 0, -5, 3, 7]),
    "floats": np.array([0.5, -2.25, 1 / 3, 0.0, 4.0]),
    "fractions": [Fraction(1, 3), Fraction(-7, 2), Fraction(10, 3), Fraction(0), Fraction(1)],
    "large": np.array([2**63 - 1, -(2**63), 2**63 - 3, 2**63 - 2, 0]),
    "unsigned": np.array([2**64 - 1, 0, 2**64 - 2, 2**64 - 3, 7], np.uint64),
    "beyond": [10**40, 10**40 - 1, 10**40 + 1, 0, 10**40],
}
MECHANISM = Exponential(epsilon=1.5, sensitivity=2)


def law(scores: Any, weights: Any = None, *, mechanism: Exponential = MECHANISM) -> list[mpf]:
    """The probabilities, to fifty digits."""
    with mp.workdps(50):
        values = [Fraction(score) for score in np.asarray(scores).tolist()]
        bases = [Fraction(1)] * len(values) if weights is None else [Fraction(w) for w in weights]
        exponents = [mechanism.factor * (value - max(values)) for value in values]
        terms = [
            mp.exp(mpf(e.numerator) / e.denominator) * mpf(base.numerator) / base.denominator
            for e, base in zip(exponents, bases, strict=True)
        ]
        total = mp.fsum(terms)
        return [term / total for term in terms]


def accepted(chosen: np.ndarray[Any, Any], masses: list[mpf]) -> float:
    """The chi-square p-value of choices, candidates of tiny mass lumped together."""
    seen = np.bincount(chosen, minlength=len(masses)).astype(float)
    expected = np.array([float(mass) for mass in masses]) * chosen.size
    common = expected > 10
    seen = np.append(seen[common], seen[~common].sum())
    expected = np.append(expected[common], expected[~common].sum() + 1e-3)
    return float(stats.chi2.sf(((seen - expected) ** 2 / expected).sum(), seen.size - 1))


@pytest.mark.statistical
@pytest.mark.parametrize("kind", mostly_slow(KINDS))
def test_choices_have_the_exact_law(kind: str) -> None:
    matrix = np.array([KINDS[kind]] * 40_000)
    chosen = MECHANISM.release_rows(matrix, bits=SeededBits(61))
    assert accepted(chosen, law(KINDS[kind])) > 1e-8
    wrong = Exponential(epsilon=1.65, sensitivity=2)
    if kind not in {"large", "unsigned", "beyond"}:  # there most scores are a step apart
        assert accepted(chosen, law(KINDS[kind], mechanism=wrong)) < 1e-9


@pytest.mark.statistical
def test_public_weights_are_a_base_measure() -> None:
    weights = [1, 0, 2.5, 7, 0.125]
    for kind in ("integers", "floats"):
        matrix = np.array([KINDS[kind]] * 40_000)
        chosen = MECHANISM.release_rows(matrix, weights=weights, bits=SeededBits(62))
        assert accepted(chosen, law(KINDS[kind], weights)) > 1e-8
        assert not (chosen == 1).any()
    exact: Any = [Fraction(1, 3), 0, 2, 1, 1]
    assert MECHANISM.release(KINDS["fractions"], weights=exact, bits=SeededBits(1)) != 1


@pytest.mark.long
@in_subtests("kind", KINDS)
@in_subtests("weights", [None, [1, 0, 2.5, 7, 0.125]])
def test_refining_every_choice_changes_none(
    kind: str, weights: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    matrix = np.array([KINDS[kind]] * 500)
    fast = MECHANISM.release_rows(matrix, weights=weights, bits=SeededBits(63))
    monkeypatch.setattr(exponential, "_ROUNDING", 10.0)
    slow = MECHANISM.release_rows(matrix, weights=weights, bits=SeededBits(63))
    assert (fast == slow).all()


def test_a_choice_replays_in_two_hundred_bits() -> None:
    scores = np.array([5, 3, 3, -2, 0, 5, 1])
    with mp.workprec(200):
        masses = law(scores)
        for word in SeededBits(64).words(300).tolist():
            expected, partial = 0, masses[0]
            while partial * 2**64 <= word:
                expected += 1
                partial += masses[expected]
            assert MECHANISM.release(scores, bits=ScriptedBits([word])) == expected


@pytest.mark.parametrize("side", [-1, 1])
def test_a_number_beside_an_edge_reads_on(side: int) -> None:
    scores = [0, 0, 0]
    edge = 2**64 // 3  # one third lies a third of a unit above it
    third = (2**128 // 3) & (2**64 - 1)
    bits = ScriptedBits([edge, third + side])
    assert MECHANISM.release(scores, bits=bits) == (1 if side > 0 else 0)
    assert bits.left == 0


def test_a_candidate_of_weight_e_to_the_minus_thousand_is_within_reach() -> None:
    steep = Exponential(epsilon=2, sensitivity=1)
    # Below the last 2^-1443 of the unit interval lies the far candidate, whatever float64 says.
    words = [2**64 - 1] * 23
    assert steep.release([0, -1000], bits=ScriptedBits([*words, 0], then=SeededBits(1))) == 1
    assert steep.release([0, -1000], bits=ScriptedBits([*words[:21], 0], then=SeededBits(1))) == 0
    assert steep.release([-1000, 0], bits=ScriptedBits([0] * 24, then=SeededBits(1))) == 0


def test_strange_scores_have_a_documented_meaning() -> None:
    for strange, plain in (
        ([np.nan, 1.0], [0.0, 1.0]),
        ([np.inf, 1.0], [1.7976931348623157e308, 1.0]),
        ([-np.inf, 1.0, np.inf], [-1.7976931348623157e308, 1.0, 1.7976931348623157e308]),
    ):
        for seed in range(5):
            assert MECHANISM.release(strange, bits=SeededBits(seed)) == MECHANISM.release(
                plain, bits=SeededBits(seed)
            )
    assert MECHANISM.release([-np.inf, np.inf, np.nan]) == 1
    assert MECHANISM.release([np.nan] * 3) in {0, 1, 2}
    assert MECHANISM.release([7]) == 0


@pytest.mark.parametrize("factor", [Fraction(1, 10**30), Fraction(10**30)])
def test_extreme_factors(factor: Fraction) -> None:
    mechanism = Exponential(epsilon=2 * factor, sensitivity=1)
    drawn = {mechanism.release([0.0, 1.0, 1e-300], bits=SeededBits(s)) for s in range(40)}
    assert drawn == ({0, 1, 2} if factor < 1 else {1})


def test_log_probabilities() -> None:
    for kind, scores in KINDS.items():
        for weights in (None, [1, 0, 2.5, 7, 0.125]):
            found = MECHANISM.log_probabilities(scores, weights=weights)
            for value, mass in zip(found.tolist(), law(scores, weights), strict=True):
                expected = float(mp.log(mass)) if mass else -math.inf
                assert value == pytest.approx(expected, rel=1e-9, abs=1e-12), kind
    stacked = MECHANISM.log_probabilities(np.arange(12).reshape(2, 2, 3))
    assert stacked.shape == (2, 2, 3)
    assert np.exp(stacked).sum(axis=-1) == pytest.approx(np.ones((2, 2)))


def test_rows_are_drawn_independently_across_chunks() -> None:
    matrix = np.zeros((5000, 100), int)
    chosen = MECHANISM.release_rows(matrix, bits=SeededBits(65))
    assert accepted(chosen, [mpf(1) / 100] * 100) > 1e-8
    assert abs(np.corrcoef(chosen[1:], chosen[:-1])[0, 1]) < 6 / 5000**0.5
    assert MECHANISM.release_rows(np.zeros((0, 3))).shape == (0,)


def test_the_event_is_its_epsilon() -> None:
    assert MECHANISM.event == events.Exponential(epsilon=1.5)
    assert MECHANISM.factor == Fraction(3, 8)


@in_subtests("name", ["epsilon", "sensitivity"])
@in_subtests("wrong", [0, -1, float("nan"), float("inf"), None, 1e-300])
def test_wrong_numbers_are_refused(name: str, wrong: Any) -> None:
    with pytest.raises(InvalidParameter):
        Exponential(**{"epsilon": 1, "sensitivity": 1, name: wrong})


@pytest.mark.parametrize("scores", [[], 1, np.ones((1, 2)), np.array(["a"]), np.array([1j, 2])])
def test_wrong_scores_are_refused(scores: Any) -> None:
    with pytest.raises(InvalidParameter, match="scores"):
        MECHANISM.release(scores)


@pytest.mark.parametrize(
    "weights",
    [[1, 2], [[1, 2, 3]], [0, 0, 0], [1, -1, 1], [1, np.nan, 1], [1, np.inf, 1], ["a"] * 3],
)
def test_wrong_weights_are_refused(weights: Any) -> None:
    with pytest.raises(InvalidParameter, match="weights"):
        MECHANISM.release([1, 2, 3], weights=weights)
