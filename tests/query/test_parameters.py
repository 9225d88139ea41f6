"""What a model is fit with is told alike in every process, whatever it is made of."""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

import json
import math
from dataclasses import dataclass
from decimal import Decimal
from fractions import Fraction
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from tests.support.seams import ledger_of, stated

import unacorda
from unacorda import inference
from unacorda.inference.losses import Huber


class Plain:
    """A loss as a caller may write it: its repr is its address."""

    def __init__(self, bend: object) -> None:
        self.bend = bend


@dataclass(frozen=True, slots=True)
class Slotted:
    """Without a __dict__."""

    bend: object


def lossy(bend: object) -> Any:
    return Plain(bend)


def told(value: object) -> str:
    return json.dumps(stated(value))


MADE: list[Any] = [
    None,
    True,
    1,
    1.0,
    "1",
    math.inf,
    Fraction(1, 3),
    Decimal("0.1"),
    (1, 2),
    [1, [2]],
    {"a": 1},
    np.array([1.0, 2.0]),
    np.array([1, 2]),
    unacorda.GDP(1),
    unacorda.GDP(2),
    Huber(1.0),
    Huber(2.0),
    Plain(1),
    Plain([1, 2]),
    Slotted(1),
    print,
    math.exp,
    inference.LinearRegression(budget=unacorda.GDP(1)),
    inference.LinearRegression(budget=unacorda.GDP(1), feature_bounds=([0.0] * 900, [1.0] * 900)),
    inference.LinearRegression(budget=unacorda.GDP(1), feature_bounds=([0.0] * 900, [2.0] * 900)),
    inference.MEstimator(loss=lossy(1), budget=unacorda.GDP(1)),
    inference.MEstimator(loss=lossy(2), budget=unacorda.GDP(1)),
]


def test_different_parameters_are_told_apart() -> None:
    texts = [told(one) for one in MADE]
    assert len(set(texts)) == len(texts)
    assert not any(" at 0x" in text for text in texts)


@pytest.mark.parametrize("held", [1, [1, "a"], Slotted(2), {"x": (1.5, None)}])
def test_equal_ones_are_told_alike(held: object) -> None:
    first, second = (
        inference.MEstimator(loss=lossy(held), budget=unacorda.GDP(1)) for _ in range(2)
    )
    assert first.loss is not second.loss
    assert told(first) == told(second)


def test_what_holds_itself_comes_to_an_end() -> None:
    loop = Plain(None)
    loop.bend = loop
    assert "unstated" in told(loop)


@pytest.mark.long
def test_the_ledger_notes_the_same_digest_for_the_same_fit() -> None:
    table = {"x": np.linspace(0, 1, 20), "y": np.zeros(20)}
    digests = []
    for loss in (Spoken(1.0), Spoken(1.0), Spoken(2.0)):
        with unacorda.Session(
            {"t": pa.table(table)}, unit=unacorda.Row(), budget=unacorda.GDP(1)
        ) as session:
            model = inference.MEstimator(loss=loss, budget=unacorda.GDP(1), feature_bounds=(0, 1))
            session.fit(model, "t", features=["x"], target="y")
            (entry, *_) = ledger_of(session).entries(session._dataset)
            digests.append(entry.plan_digest)
    assert digests[0] == digests[1] != digests[2]


class Spoken:
    """A caller's loss that says itself as SQL."""

    score_bound = 1.0
    curvature_bound = 1.0

    def __init__(self, scale: float) -> None:
        self.scale = scale

    def value(self, prediction: Any, target: Any) -> Any:
        return np.abs(prediction - target)

    def score(self, prediction: Any, target: Any) -> Any:
        return np.clip(prediction - target, -1, 1)

    def curvature(self, prediction: Any, target: Any) -> Any:
        return (np.abs(prediction - target) < 1) * 1.0

    def score_sql(self, prediction: str, target: str) -> str:
        return f"{prediction} - {target}"

    def curvature_sql(self, prediction: str, target: str) -> str:
        return f"1 + 0 * ({prediction} - {target})"
