"""Whatever an audit or an attack is handed, it answers or names what is wrong: no bare error.

A new function of either room fails here until it has arguments to be handed.
"""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

import inspect
import math
from collections.abc import Callable
from contextlib import suppress
from fractions import Fraction
from typing import Any

import numpy as np
from tests.support.cases import in_subtests

from unacorda import PureDP, SeededBits, attacks, audit
from unacorda.errors import InvalidParameter
from unacorda.privacy.tradeoff import TradeoffCurve

DRAWN = np.random.default_rng(1)
NUMBERS = [None, math.nan, math.inf, -math.inf, -1, 0, 0.5, 2, 10**400, True, 1j, Fraction(1, 2)]
ARRAYS = [
    [],
    [1],
    [[1], [1, 2]],
    [10**400, 1],
    ["a", "b"],
    np.array(3),
    np.zeros((2, 0)),
    np.zeros((2, 2, 2)),
    np.array([None, 1.0], dtype=object),
    np.array([1 + 2j, 3]),
    np.ma.array([1.0, 2.0, 3.0], mask=[False, True, False]),
]
OTHERS = ["", "x", b"x", {}, object(), np.datetime64("2020-01-01"), PureDP(1), lambda *_, **__: 1]
JUNK: list[Any] = [*NUMBERS, *ARRAYS, *OTHERS]

SCORES, COINS = DRAWN.normal(size=20), np.arange(20) % 2 == 0
RUNS: dict[str, Any] = {"scores": SCORES, "included": COINS, "confidence": 0.9}
GUESSED: dict[str, Any] = {**RUNS, "delta": 1e-5, "guesses": 4, "sides": "both"}
WITH_BOTH = np.arange(24).reshape(8, 3) % 2 == 0
LAW = {0: 0.75, 1: 0.25}
CURVE = audit.HockeyStick(p=np.array([0.75, 0.25]), q=np.array([0.25, 0.75]))
GRADIENTS = audit.dirac(3, dimension=5, bits=SeededBits(1))
LABELLED = audit.mislabelled(np.zeros((6, 2)), np.array([0, 1] * 3), count=4, bits=SeededBits(1))
ATTACK = attacks.Attack(scores=np.array([0.0, 1.0]), truth=np.array([False, True]))
REGION = attacks.error_region(SCORES, COINS)
(EXPOSED, *_) = attacks.differencing([[1, 1], [1, 0]])
FOUND = attacks.reconstruction([[1, 0], [0, 1]], [1, 0])

CALLS: dict[str, tuple[Callable[..., Any], dict[str, Any]]] = {
    "anytime": (audit.anytime, RUNS),
    "dirac": (audit.dirac, {"count": 3, "dimension": 5, "norm": 1, "bits": None}),
    "exact": (audit.exact, {"law": lambda _: LAW, "x": 0, "neighbor": 1}),
    "log_evidence": (audit.log_evidence, {"right": 3, "guesses": 5, "epsilon": 1.0}),
    "many_runs": (audit.many_runs, {**RUNS, "delta": 1e-5, "threshold": 0, "gaussian": False}),
    "mislabelled": (
        audit.mislabelled,
        {"x": np.zeros((6, 2)), "y": np.array([0, 1] * 3), "count": 4, "bits": None},
    ),
    "one_run": (audit.one_run, GUESSED),
    "one_run_f_dp": (audit.one_run_f_dp, {**GUESSED, "family": "gaussian"}),
    "search": (
        audit.search,
        {
            "sample": lambda _, n: DRAWN.normal(size=n),
            "pairs": [(0, 1)],
            "claim": PureDP(1),
            "vary": lambda pair, _: pair,
            "generations": 1,
            "explore": 100,
            "confirm": 100,
            "false_alarm": 1e-6,
            "seed": 1,
        },
    ),
    "Bound": (
        audit.Bound,
        {"epsilon": 1.0, "delta": 0.0, "confidence": 0.9, "method": "", "guesses": 3, "right": 2},
    ),
    "Canaries.added_to": (LABELLED.added_to, {"x": np.zeros((2, 2)), "y": np.zeros(2)}),
    "Canaries.scored_by_loss": (LABELLED.scored_by_loss, {"loss": lambda *_: np.zeros(4)}),
    "Canaries.scored_by_projection": (GRADIENTS.scored_by_projection, {"updates": np.zeros(5)}),
    "HockeyStick": (audit.HockeyStick, {"p": np.ones(1), "q": np.ones(1), "rest": 0.0}),
    "HockeyStick.curve": (CURVE.curve, {"epsilons": np.ones(1)}),
    "HockeyStick.delta": (CURVE.delta, {"epsilon": 1.0}),
    "HockeyStick.epsilon": (CURVE.epsilon, {"delta": 0.1}),
    "HockeyStick.renyi": (CURVE.renyi, {"alpha": 2.0}),
    "HockeyStick.violates": (CURVE.violates, {"guarantee": PureDP(1)}),
    "Attack": (attacks.Attack, {"scores": SCORES, "truth": COINS, "promised": 1.0}),
    "Attack.true_positive_rate": (ATTACK.true_positive_rate, {"fpr": 0.1}),
    "ErrorRegion.refutes": (
        REGION.refutes,
        {"promised": TradeoffCurve.of_guarantee(PureDP(1))},
    ),
    "Exposed.value": (EXPOSED.value, {"answers": [1, 2]}),
    "Reconstruction.share_right": (FOUND.share_right, {"truth": [1, 0]}),
    "differencing": (attacks.differencing, {"questions": [[1, 1], [1, 0]]}),
    "error_region": (attacks.error_region, {**RUNS, "tests": 3}),
    "expected_power": (
        attacks.expected_power,
        {"dimension": 9, "members": 4, "noise": 0.0, "fpr": 0.1},
    ),
    "likelihood_ratio": (
        attacks.likelihood_ratio,
        {
            "shadows": DRAWN.normal(size=(8, 3)),
            "trained_on": WITH_BOTH,
            "observed": [0.0, 1.0, 2.0],
            "truth": [1, 0, 1],
        },
    ),
    "linkage": (
        attacks.linkage,
        {
            "table": np.eye(3),
            "known": np.ones(3),
            "times": np.eye(3),
            "known_times": np.ones(3),
            "value_scale": 1,
            "time_scale": 1,
            "least": 1,
        },
    ),
    "logit_confidence": (attacks.logit_confidence, {"probabilities": [0.5]}),
    "membership": (
        attacks.membership,
        {
            "people": DRAWN.normal(size=(60, 4)),
            "population": np.zeros(4),
            "defended": lambda rows: rows.mean(axis=0),
            "promised": 1.0,
            "delta": 1e-5,
            "bits": None,
        },
    ),
    "reconstruction": (
        attacks.reconstruction,
        {"questions": [[1, 0], [0, 1]], "answers": [1, 0], "method": "least squares"},
    ),
}

RESULTS = {"ErrorRegion", "Exposed", "Finding", "Link", "Reconstruction", "Canaries"}
"""What is handed back and nobody makes."""


def test_every_function_is_handed_something() -> None:
    public = set(audit.__all__) | set(attacks.__all__)
    assert public == {name for name in CALLS if "." not in name} | RESULTS
    for call, given in CALLS.values():
        call(**given)
        optional = {"note", "mu", "bound"}  # of a result, and words alone
        assert set(inspect.signature(call).parameters) - set(given) <= optional


@in_subtests(("name", "argument"), [(name, part) for name in CALLS for part in CALLS[name][1]])
def test_bad_arguments_are_named(name: str, argument: str) -> None:
    call, given = CALLS[name]
    refused = 0
    for junk in JUNK:
        if (name, argument) in {("exact", "x"), ("exact", "neighbor")}:
            continue  # the law's own business
        with suppress(InvalidParameter):
            call(**{**given, argument: junk})
            continue
        refused += 1
    free = {"method", "x", "neighbor", "guesses", "right"} if name in {"Bound", "exact"} else set()
    assert refused >= 8 or argument in free
