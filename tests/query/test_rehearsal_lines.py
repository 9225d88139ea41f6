"""Questions with several answers or lines for a group, tried out on a public table."""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pandas as pd
import pytest
from tests.support.seams import Rehearsal

import unacorda
from unacorda import PureDP

RANDOM = np.random.default_rng(11)
PUBLIC = pd.DataFrame(
    {
        # A tenth of the people have most of the rows, and theirs are high.
        "id": [*range(90), *np.repeat(range(90, 100), 30)],
        "age": [*RANDOM.integers(0, 50, 90), *RANDOM.integers(50, 130, 300)],
        "town": [*RANDOM.choice(list("ABC"), 90), *["D"] * 300],
    }
)
HEAVY = PUBLIC["id"] >= 90


@pytest.fixture
def session() -> Iterator[unacorda.Session]:
    with unacorda.Session(
        {"t": PUBLIC.iloc[:0]}, unit=unacorda.Person("id", max_rows=2), budget=PureDP(9)
    ) as made:
        yield made


def tried(session: unacorda.Session, query: Any) -> Rehearsal:
    found: Rehearsal | None = session.explain(query, budget=PureDP(1), assuming=PUBLIC).rehearsal
    assert found is not None
    return found


def test_every_one_of_several_quantiles_is_compared(session: unacorda.Session) -> None:
    query = session.table("t").agg(q=unacorda.quantiles("age", [0.25, 0.5, 0.9], 0, 120))
    found = tried(session, query)
    assert list(found.trials) == ["q_25", "q_50", "q_90"]
    for name, q in (("q_25", 0.25), ("q_50", 0.5), ("q_90", 0.9)):
        free = float(np.quantile(PUBLIC["age"], q, method="inverted_cdf"))
        assert found.trials[name].free[0] == pytest.approx(free, abs=1)
        assert found.trials[name].noise[0] is not None
    assert (found.trials["q_50"].bias[0] or 0) < -40  # most rows are of few people


def test_a_histogram_is_compared_bin_by_bin(session: unacorda.Session) -> None:
    start = session.table("t").group_by("town", keys=["A", "D"])
    found = tried(session, start.agg(h=unacorda.histogram("age", [0, 50, 100])))
    assert found.keys == tuple(
        (town, part) for town in "AD" for part in ("below 0", "0 to 50", "50 to 100", "above 100")
    )
    trial = found.trials["h"]
    ages = PUBLIC.loc[HEAVY, "age"]
    small = int((PUBLIC["town"] == "A").sum())
    assert trial.free == (0, small, 0, 0, 0, 0, (ages <= 100).sum(), (ages > 100).sum())
    assert trial.bounded[:4] == (0, small, 0, 0)
    assert sum(x for x in trial.bounded[4:] if x) == 20
    assert all(noise for noise in trial.noise)
    assert "  h D, 50 to 100: " in "\n".join(found.words)


def test_bins_of_equal_size_are_compared_by_their_edges(session: unacorda.Session) -> None:
    query = session.table("t").agg(h=unacorda.histogram("age", bins=2, lower=0, upper=120))
    found = tried(session, query)
    assert set(found.trials) == {"h", "h_to"}
    middle = float(np.quantile(PUBLIC["age"], 0.5, method="inverted_cdf"))
    assert found.trials["h_to"].free[0] == pytest.approx(middle, abs=1.5)
    assert found.trials["h_to"].bounded[0] == pytest.approx(float(str(found.keys[0][0])[5:]))
    assert (found.trials["h_to"].bias[0] or 0) < -40
    assert sum(x for x in found.trials["h"].bounded if x) == 110
    assert sum(x for x in found.trials["h"].free if x) == 390


@pytest.mark.parametrize("size", [1, 2, 4])
def test_top_values_are_compared_value_by_value(session: unacorda.Session, size: int) -> None:
    query = session.table("t").agg(best=unacorda.top("town", size, ["A", "B", "C", "D"]))
    found = tried(session, query)
    counts = PUBLIC["town"].value_counts()
    assert len(found.keys) == size
    for (town,), bounded, free in zip(
        found.keys, found.trials["best"].bounded, found.trials["best"].free, strict=True
    ):
        assert free == counts[str(town)]
        assert bounded == (20 if town == "D" else free)
