"""One question with thousands of groups: every group is a draw of the same noise."""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from numpy.typing import NDArray
from scipy import stats
from tests.query.neighbor_tables import tallies_of
from tests.support.seams import Aggregate, Explanation, Release, exact_of

import unacorda
from unacorda.bits import SeededBits

__all__ = ["Asked", "ask", "repeated", "sums_of", "values_of"]

Floats = NDArray[np.float64]


_LARGE: dict[Any, Any] = {
    unacorda.PureDP: unacorda.PureDP(10**6),
    unacorda.ZCDP: unacorda.ZCDP(10**6),
    unacorda.GDP: unacorda.GDP(10**4),
    unacorda.ApproxDP: unacorda.ApproxDP(10**6, 0.5),
}


class Asked:
    """A release with what was promised before it and what it is about."""

    def __init__(self, release: Release, promise: Explanation, exact: Mapping[str, Any]) -> None:
        self.release, self.promise, self.exact = release, promise, exact

    def errors(self, name: str, truth: Sequence[float] | Floats | float) -> Floats:
        return values_of(self.release, name) - np.asarray(truth, dtype=np.float64)

    def covered(self, name: str, truth: Sequence[float] | Floats | float) -> NDArray[np.bool_]:
        answer = self.release.answers[name]
        low, high = (np.array(end, dtype=np.float64) for end in (answer.lower, answer.upper))
        true = np.asarray(truth, dtype=np.float64)
        return np.asarray((low <= true) & (true <= high))

    def check(self, name: str, truth: float, *, within: float | None) -> None:
        """Errors are as large as promised, and intervals are possible and cover the truth.

        within: the relative difference of the root mean squared error; None where that has no use.
        Coverage: at least 95%, but for what a true 95% misses with probability 1e-7.
        """
        promised = self.promise.standard_error(name)
        assert promised is not None
        if within is not None:
            found = np.sqrt(np.mean(self.errors(name, truth) ** 2))
            assert found == pytest.approx(promised, rel=within)
        low, high = self.ends(name)
        covered = ~(truth < low) & ~(truth > high)
        assert covered.sum() >= stats.binom.ppf(1e-7, len(covered), 0.95)

    def ends(self, name: str) -> tuple[Floats, Floats]:
        """The ends of the intervals, which are in order and possible; NaN where they are open."""
        answer = self.release.answers[name]
        low, high = (np.array(end, dtype=np.float64) for end in (answer.lower, answer.upper))
        assert not ((low > high) | (low < answer.limits[0]) | (high > answer.limits[1])).any()
        return low, high


def values_of(release: Release, name: str) -> Floats:
    return np.array(release.answers[name].values, dtype=np.float64)


def repeated(values: Sequence[float | None], *, cells: int) -> dict[str, Any]:
    """A table in which every one of so many cells holds these values, each of its own person."""
    n = len(values)
    return {
        "id": np.arange(n * cells),
        "cell": np.repeat(np.arange(cells), n),
        "x": pa.array(list(values) * cells, type=pa.float64()),
    }


def ask(
    table: Mapping[str, Any],
    aggregates: Mapping[str, Aggregate],
    *,
    budget: Any,
    seed: int,
    cells: int,
    unit: Any = None,
    assuming: unacorda.Assume | None = None,
    exactly: bool = False,
) -> Asked:
    """Evaluate once. exactly: with the exact bounded answers that the release is about."""
    account: Any = (
        unacorda.RenyiDP(budget.alpha, 10**6)
        if isinstance(budget, unacorda.RenyiDP)
        else _LARGE[type(budget)]
    )
    with unacorda.Session(
        {"t": pa.table(dict(table))},
        unit=unit or unacorda.Person("id", max_rows=1),
        budget=account,
        bits=SeededBits(seed),
    ) as session:
        query = session.table("t").group_by("cell", keys=range(cells)).agg(**aggregates)
        promise = session.explain(query, budget=budget, assuming=assuming)
        release = session.evaluate(query, budget=budget)
        if not exactly:
            return Asked(release, promise, {})
        tallies = tallies_of(session, query, salt=int(release.salt, 16))
        exact = {name: exact_of(query, name, tallies) for name in query.aggregates}
    return Asked(release, promise, exact)


def sums_of(asked: Asked, name: str, *, unit_log2: int = 0) -> Floats:
    """The exact bounded counts or sums of an aggregate."""
    integers = asked.exact[name].sums[0]
    return np.array([float(value) for value in integers]) * 2.0**unit_log2
