"""Noisy maxima as they are released: their laws, their scores of any kind, their refusals."""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

import math
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from scipy import stats
from tests.mechanisms.selection_laws import gap_density, order_law
from tests.support.cases import in_subtests
from tests.tiers import mostly_slow

from unacorda.bits import ScriptedBits, SeededBits
from unacorda.errors import InvalidParameter
from unacorda.mechanisms.selection.exponential import Exponential
from unacorda.mechanisms.selection.noisy_max import PermuteAndFlip, TopK

SCORES = [6.0, 1.5, 0.0, -3.0, 6.0, 3.25]
GIVEN: dict[str, Any] = {"epsilon": 1.0, "sensitivity": 2}  # a scale of 4
ONE: dict[str, Any] = {
    "exponential mechanism": Exponential(**GIVEN).release,
    "permute and flip": PermuteAndFlip(**GIVEN).release,
    "monotone": PermuteAndFlip(epsilon=1, sensitivity=4, monotone=True).release,
    "best one": lambda scores, bits=None: int(TopK(count=1, **GIVEN).release(scores, bits=bits)[0]),
}
MANY: dict[str, Any] = {
    "gumbel": TopK(count=2, epsilon=2.0, sensitivity=2),
    "exponential": TopK(count=2, epsilon=2.0, sensitivity=2, noise="exponential"),
}
ALL: dict[str, Any] = {
    **ONE,
    **{f"top {name}": mechanism.release for name, mechanism in MANY.items()},
    "gap": lambda scores, bits=None: gaps(1, scores, bits=bits),
    "top with gaps": lambda scores, bits=None: gaps(2, scores, bits=bits),
}


def with_gaps(count: int, **changed: Any) -> TopK:
    return TopK(**{**GIVEN, "count": count, "noise": "exponential", **changed})


def gaps(count: int, scores: Any, *, bits: Any = None) -> Any:
    return with_gaps(count).release_with_gaps(scores, bits=bits)


def accepted(seen: dict[Any, int], masses: dict[Any, float]) -> float:
    """The chi-square p-value of counts, outcomes expected less than ten times lumped together."""
    total = sum(seen.values())
    assert set(seen) <= set(masses)
    common = [key for key, mass in masses.items() if mass * total > 10]
    pairs = [(seen.get(key, 0), masses[key] * total) for key in common]
    rest = (total - sum(s for s, _ in pairs), total - sum(e for _, e in pairs))
    pairs += [rest] if rest[1] > 1 else []
    return float(stats.chi2.sf(math.fsum((s - e) ** 2 / e for s, e in pairs), len(pairs) - 1))


def counted(outcomes: list[Any]) -> dict[Any, int]:
    found: dict[Any, int] = {}
    for outcome in outcomes:
        found[outcome] = found.get(outcome, 0) + 1
    return found


@pytest.mark.slow
@pytest.mark.statistical
@pytest.mark.parametrize("name", mostly_slow(ONE, quick=2))
def test_choices_have_the_exact_law(name: str) -> None:
    bits = SeededBits(81)
    seen = counted([(ONE[name](SCORES, bits=bits),) for _ in range(24_000)])
    noise = "gumbel" if name in {"exponential mechanism", "best one"} else "exponential"
    # False alarms at 1e-8; a scale 10 % off is seen beyond 1e-9.
    assert accepted(seen, order_law([s / 4 for s in SCORES], noise)) > 1e-8
    assert accepted(seen, order_law([s / 3.6 for s in SCORES], noise)) < 1e-9


@pytest.mark.slow
@pytest.mark.statistical
@pytest.mark.parametrize("name", mostly_slow(MANY))
def test_orders_have_the_exact_law(name: str) -> None:
    bits = SeededBits(82)
    seen = counted([tuple(MANY[name].release(SCORES, bits=bits).tolist()) for _ in range(24_000)])
    assert accepted(seen, order_law([s / 4 for s in SCORES], name, 2)) > 1e-8
    assert accepted(seen, order_law([s / 3.6 for s in SCORES], name, 2)) < 1e-9


@pytest.mark.slow
@pytest.mark.statistical
def test_gaps_have_the_exact_law() -> None:
    coarse = with_gaps(1, grid_log2=2)  # the gap in units of the scale, rounded
    scores, bits, most = SCORES[:4], SeededBits(83), 7
    drawn = [coarse.release_with_gaps(scores, bits=bits) for _ in range(24_000)]
    seen = counted([(int(index[0]), min(float(gap[0]) / 4, most)) for index, gap in drawn])

    def law(scale: float) -> dict[Any, float]:
        nodes, weights = np.polynomial.legendre.leggauss(8)
        whole = order_law([s / scale for s in scores], "exponential")
        found = {}
        for winner in range(len(scores)):
            for step in range(most):
                low, high = max(step - 0.5, 0) * 4 / scale, (step + 0.5) * 4 / scale
                at = low + (high - low) / 2 * (1 + nodes)
                heights = [
                    gap_density([s / scale for s in scores], "exponential", [winner], [gap])
                    for gap in at.tolist()
                ]
                found[(winner, step)] = float(weights @ heights) * (high - low) / 2
            told = math.fsum(found[(winner, step)] for step in range(most))
            found[(winner, most)] = whole[(winner,)] - told
        return found

    assert accepted(seen, law(4)) > 1e-8
    assert accepted(seen, law(3.6)) < 1e-9


@pytest.mark.long
@pytest.mark.statistical
def test_long_rows_have_the_law_of_the_exponential_mechanism() -> None:
    # Five thousand candidates in five groups of equal score.
    scores = np.repeat([0.0, 2, 4, 6, 8], 1000)
    weights = np.tile([1, 2, 0, 1], 1250)
    bits = SeededBits(84)
    for given in (None, weights):
        base = np.ones(5000) if given is None else given.astype(float)
        mechanism = Exponential(**GIVEN)
        drawn = [mechanism.release(scores, weights=given, bits=bits) for _ in range(3000)]
        assert base[drawn].all()
        for scale, good in ((4, True), (2.9, False)):
            masses = base * np.exp(scores / scale)
            masses = masses.reshape(5, 1000).sum(axis=1) / masses.sum()
            p = accepted(counted([k // 1000 for k in drawn]), dict(enumerate(masses.tolist())))
            assert p > 1e-8 if good else p < 1e-9


def test_the_rows_of_a_wide_matrix_are_independent_choices() -> None:
    matrix = np.zeros((3, 5000))
    matrix[[0, 1, 2], [4000, 7, 300]] = 200
    assert Exponential(**GIVEN).release_rows(matrix, bits=SeededBits(1)).tolist() == [4000, 7, 300]


# ---- what comes in


@pytest.mark.parametrize("name", ALL)
def test_strange_scores_have_a_documented_meaning(name: str) -> None:
    top = 1.7976931348623157e308
    for strange, plain in (
        ([np.nan, 1.0, -0.0, 2.0], [0.0, 1.0, 0.0, 2.0]),
        ([np.inf, 1.0, -np.inf, 2.0], [top, 1.0, -top, 2.0]),
        (np.array([True, False, True, True]), [1, 0, 1, 1]),
        (np.array([1, 2, 3, 4], np.float32), [1, 2, 3, 4]),
        (np.array([1, 2, 3, 4], np.uint8), [Fraction(1), 2, 3, 4]),
    ):
        for seed in range(4):
            told = ALL[name](strange, bits=SeededBits(seed))
            again = ALL[name](plain, bits=SeededBits(seed))
            assert np.array_equal(np.asarray(told, float), np.asarray(again, float))
    assert np.isfinite(np.asarray(ALL[name]([np.inf, -np.inf, np.nan]), float)).all()


@pytest.mark.parametrize("name", ONE)
def test_the_low_bits_of_a_score_do_not_reach_the_answer(name: str) -> None:
    # The answer is an index, drawn from the same words for scores a rounding apart.
    moved = [math.nextafter(score, math.inf) for score in SCORES]
    for seed in range(200):
        assert ONE[name](SCORES, bits=SeededBits(seed)) == ONE[name](moved, bits=SeededBits(seed))


def test_one_candidate_is_always_told() -> None:
    for release in ONE.values():
        assert release([-1e300]) == 0
    assert TopK(count=1, **GIVEN).release([7]).tolist() == [0]
    assert sorted(TopK(count=3, **GIVEN).release([7, 8, 9]).tolist()) == [0, 1, 2]


@pytest.mark.parametrize("grid", [None, -30, 0, 7])
def test_gaps_lie_on_the_public_grid(grid: Any) -> None:
    one, two = (with_gaps(count, epsilon=1, grid_log2=grid) for count in (1, 2))
    step = 2.0**one.grid_log2
    assert one.grid_log2 == (-18 if grid is None else grid)
    for scores in ([0.1, 0.3, 1 / 3], [1e15, 0.7, -1e15], [np.inf, 0.0, -np.inf]):
        for seed in range(20):
            (index,), (gap,) = one.release_with_gaps(scores, bits=SeededBits(seed))
            assert 0 <= index < 3
            assert gap >= 0
            assert gap % step == 0
        _, gaps = two.release_with_gaps(scores, bits=SeededBits(1))
        assert (gaps >= 0).all()
        assert (gaps % 2.0**two.grid_log2 == 0).all()


def test_gaps_follow_the_scores() -> None:
    indices, gaps = with_gaps(3, epsilon=3, sensitivity=1).release_with_gaps(
        [0, 1000, 5000, 2000, 0], bits=SeededBits(6)
    )
    assert indices.tolist() == [2, 3, 1]
    assert gaps == pytest.approx([3000, 1000, 1000], abs=60)
    # In whole numbers far beyond 2^53 the gap is still exact.
    big = 10**30
    _, gaps = with_gaps(1, epsilon=1, sensitivity=1, grid_log2=0).release_with_gaps([big, 2 * big])
    assert gaps == pytest.approx([float(big)])


def test_gaps_need_exponential_noise() -> None:
    with pytest.raises(InvalidParameter, match="noise"):
        TopK(count=1, **GIVEN).release_with_gaps([1, 2], bits=ScriptedBits([]))


@in_subtests("name", ALL)
@in_subtests("scores", [[], 1, np.ones((1, 2)), np.array(["a"]), np.array([1j, 2])])
def test_wrong_scores_are_refused_before_any_bit_is_drawn(name: str, scores: Any) -> None:
    with pytest.raises(InvalidParameter, match="scores"):
        ALL[name](scores, bits=ScriptedBits([]))


def test_too_few_candidates_are_refused() -> None:
    for release, least in (
        (TopK(count=3, **GIVEN).release, 3),
        (with_gaps(1).release_with_gaps, 2),
        (with_gaps(3).release_with_gaps, 4),
    ):
        with pytest.raises(InvalidParameter, match=f"at least {least} candidates"):
            release([1] * (least - 1), bits=ScriptedBits([]))
        release([1] * least)


WRONG: list[tuple[str, Any]] = [
    *(("epsilon", value) for value in (0, -1, math.nan, math.inf, None, "x", True)),
    *(("sensitivity", value) for value in (0, -1, math.nan, math.inf, None, 1e-300)),
    *(("monotone", value) for value in (1, "yes", None)),
    *(("count", value) for value in (0, -1, 1.5, True, None)),
    *(("noise", value) for value in ("gauss", "laplace", None)),
    *(("grid_log2", value) for value in (0.5, 1000, -60, "0")),
]


@in_subtests("kind", [PermuteAndFlip, TopK])
@in_subtests(("name", "value"), WRONG)
def test_wrong_numbers_are_refused(kind: Any, name: str, value: Any) -> None:
    given: dict[str, Any] = {"epsilon": 1, "sensitivity": 1}
    fields = kind.__dataclass_fields__
    given |= {"count": 2} if "count" in fields else {}
    kind(**given)
    if name not in fields:
        return
    with pytest.raises(InvalidParameter, match=name):
        kind(**(given | {name: value}))
