"""Searches catch planted faults and leave sound mechanisms alone."""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from scipy import stats
from tests.audit.planted import FAULTS, SOUND
from tests.tiers import mostly_slow

from unacorda import PureDP, RenyiDP
from unacorda.audit import search
from unacorda.audit.learned import Score
from unacorda.errors import InvalidParameter


@pytest.mark.parametrize("name", mostly_slow(FAULTS, quick=2))
def test_every_planted_fault_is_caught(name: str) -> None:
    fault = FAULTS[name]
    found = search(
        fault.bound_to(1), fault.pairs, claim=fault.claim, vary=fault.vary, seed=1, generations=2
    )
    assert found.violated, repr(found)
    assert found.bound.epsilon > found.promised


@pytest.mark.statistical
@pytest.mark.parametrize("name", SOUND)
def test_sound_mechanisms_are_left_alone(name: str) -> None:
    # A false alarm has a probability of 1e-6 in each.
    sound = SOUND[name]
    found = search(sound.bound_to(2), sound.pairs, claim=sound.claim, seed=1)
    assert not found.violated, repr(found)


@pytest.mark.statistical
def test_false_alarms_are_as_rare_as_stated() -> None:
    # Each of 200 searches of a mechanism on the edge may be wrong with probability 0.2: more than
    # 70 with p < 1e-6.
    sound = SOUND["nothing"]
    sample = sound.bound_to(3)
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

    assert search(sample, [(0.0, 1.0)], claim=PureDP(1)).violated
    assert not search(sample, [(0.0, 0.0)], claim=PureDP(1)).violated


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
