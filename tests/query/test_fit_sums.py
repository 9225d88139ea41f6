"""Sums for fits: what they add up to, and that nobody moves them farther than the noise is for."""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Sequence
from fractions import Fraction
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from tests.query.fit_wishes import COLUMNS, WISHES, Wished, exact
from tests.support.cases import in_subtests
from tests.support.seams import Unit, noise_of, rows_of, size_of

import unacorda
from unacorda import AddRemove, ReplaceOne
from unacorda.errors import InvalidParameter
from unacorda.privacy.neighbors import Neighbors

STRANGE = [
    None,
    math.nan,
    math.inf,
    -math.inf,
    0.0,
    -0.0,
    1e308,
    1e49,
    -1e49,
    5e-324,
    3.0,
    -4.0,
    1.0,
]
ROWS = list(itertools.product(STRANGE, STRANGE))


Rows = Sequence[tuple[Any, ...]]


def each(tables: Sequence[Rows], unit: Unit | None = None) -> list[list[int]]:
    """The integers of several tables (who, x, y), which lie in one, beside their numbers."""
    lines = [(number, *row) for number, rows in enumerate(tables) for row in rows]
    kinds = {"k": pa.int64(), "who": pa.int64(), "x": pa.float64(), "y": pa.float64()}
    found = zip(*lines, strict=True) if lines else ((),) * 4
    table = pa.table({k: pa.array(c, t) for (k, t), c in zip(kinds.items(), found, strict=True)})
    with unacorda.Session(
        {"t": table}, unit=unit or unacorda.Row(), budget=unacorda.GDP(1)
    ) as session:
        start = session.table("t")
        return [exact(session, start.where(f"k = {number}")) for number in range(len(tables))]


def summed(rows: Rows) -> list[int]:
    (found,) = each([rows])
    return found


def length(wish: Wished) -> float:
    """The most that a row's part may be long: of counts a row is in one bin of each number."""
    return math.sqrt(len(wish.vector)) if wish.edges else float(wish.bound)


def parts(numbers: Sequence[int]) -> list[np.ndarray[Any, np.dtype[np.float64]]]:
    """The numbers of each wish, in the unit of what was asked."""
    found, start = [], 1
    for wish in WISHES:
        end = start + size_of(wish)
        unit = 2.0 ** (math.frexp(length(wish))[1] - 40)
        found.append(np.array([float(one) for one in numbers[start:end]]) * unit)
        start = end
    return found


def radius(wish: Wished) -> float:
    """How far a row reaches at most, by the noise that it gets: multiplier 1 under add/remove."""
    table = pa.table({"x": [1.0], "y": [1.0]})
    with unacorda.Session({"t": table}, unit=unacorda.Row(), budget=unacorda.GDP(1)) as session:
        reach = rows_of(session.table("t"), features=["x"], target="y").query.reach
    return noise_of(wish, reach).standard_deviation


@pytest.mark.long
def test_no_row_is_worth_more_than_its_length() -> None:
    reached = [0.0] * len(WISHES)
    for numbers in each([[(1, x, y)] for x, y in ROWS]):
        for place, part in enumerate(parts(numbers)):
            reached[place] = max(reached[place], float(np.linalg.norm(part)))
    for wish, longest in zip(WISHES, reached, strict=True):
        assert longest <= radius(wish)
        assert longest > 0.99 * length(wish)


SIZES = [1e-320, 1e-163, 1e-100, 1e-50, 1e-40, 1.0, 1e30, -1e50]


@pytest.mark.long
@pytest.mark.parametrize("bound", ["1e-40", "1e70"])
@pytest.mark.parametrize("squared", [False, True])
def test_no_row_is_worth_more_whatever_underflows(bound: str, squared: bool) -> None:
    length = Fraction(bound) ** 2 if squared and bound == "1e-40" else Fraction(bound)
    wish = Wished(vector=["x0"], value="y", bound=length, squared=squared, signed=squared)
    pairs = list(itertools.product(SIZES, SIZES))
    table = pa.table(
        {"i": range(len(pairs)), "x": [x for x, _ in pairs], "y": [y for _, y in pairs]}
    )
    with unacorda.Session({"t": table}, unit=unacorda.Row(), budget=unacorda.GDP(1)) as session:
        start = session.table("t")
        found = [exact(session, start.where(f"i = {i}"), [wish], [])[1] for i in table["i"]]
    steps = float(length) / 2.0 ** (math.frexp(float(length))[1] - 40)
    assert 0.99 * steps < max(map(abs, found)) <= steps * (1 + 2**-40) + 1


@in_subtests("squared", [False, True])
@in_subtests("bound", ["1e-90", "1e71", "1e200", "1e400"])
def test_lengths_out_of_reach_are_refused(bound: str, squared: bool) -> None:
    wish = Wished(vector=["x0"], value="y", bound=Fraction(bound), squared=squared)
    with (
        unacorda.Session(
            {"t": pa.table({"x": [1.0], "y": [1.0]})}, unit=unacorda.Row(), budget=unacorda.GDP(1)
        ) as session,
        pytest.raises(InvalidParameter, match=r"^model=.* another unit"),
    ):
        exact(session, session.table("t"), [wish], [])


def test_sums_are_of_cut_vectors_and_matrices() -> None:
    drawn = np.random.default_rng(1)
    x, y = drawn.normal(size=(2, 500)) * 4
    found = parts(summed([(1, *row) for row in zip(x.tolist(), y.tolist(), strict=True)]))
    s = x / 3
    w = 4 / np.maximum(1 + s * s, 4)

    def cut(vectors: Any, values: Any, bound: float) -> Any:
        length = np.linalg.norm(vectors, axis=1) * np.abs(values)
        return (
            vectors * (values * np.minimum(1, bound / np.maximum(length, 1e-300)))[:, None]
        ).sum(axis=0)

    def squared(vectors: Any, values: Any, bound: float) -> list[float]:
        size = np.abs(values) * (vectors**2).sum(axis=1)
        values = values * np.minimum(1, bound / np.maximum(size, 1e-300))
        whole = np.einsum("i,ij,ik->jk", values, vectors, vectors)
        upper = np.triu_indices(vectors.shape[1])
        return list(whole[upper] * np.where(upper[0] == upper[1], 1, math.sqrt(2)))

    one = np.ones(500)
    np.testing.assert_allclose(found[0], cut(np.c_[one, s], w * y, 2), 1e-9, 1e-6)
    np.testing.assert_allclose(found[1], squared(np.c_[one, s], w, 2), 1e-9, 1e-6)
    np.testing.assert_allclose(found[2], squared(np.c_[one, s, y], w * y, 2), 1e-9, 1e-6)
    np.testing.assert_allclose(found[3], cut(np.c_[x, y], one, 1 / 3), 1e-9, 1e-6)
    counted = np.clip(x, 0, 1)
    ends = [-math.inf, *WISHES[5].edges, math.inf]
    histograms = [np.histogram(of, ends, weights=counted)[0] for of in (s, 1 / y)]
    np.testing.assert_allclose(found[5], np.concatenate(histograms), 1e-9, 1e-6)
    np.testing.assert_allclose(found[6], np.clip(x * y, 0, 3).sum(), 1e-9, 1e-6)


def test_who_lacks_a_number_counts_nowhere() -> None:
    missing = [row for row in ROWS if not all(v is not None and abs(v) <= 1e50 for v in row)]
    assert set(summed([(1, *row) for row in missing])) == {0}
    assert summed([(1, *row) for row in ROWS])[0] == len(ROWS) - len(missing)
    assert set(summed([])) == {0}


UNITS: dict[str, Callable[[Neighbors], Unit]] = {
    "rows": lambda neighbors: unacorda.Row(neighbors=neighbors),
    "people": lambda neighbors: unacorda.Person("who", max_rows=3, neighbors=neighbors),
}


@pytest.mark.long
@pytest.mark.parametrize("neighbors", [AddRemove, ReplaceOne], ids=str)
@pytest.mark.parametrize("unit", UNITS)
def test_nobody_moves_the_sums_farther_than_the_noise_is_for(
    unit: str, neighbors: Neighbors
) -> None:
    made = UNITS[unit](neighbors)
    table = pa.table({"who": [1], "x": [1.0], "y": [1.0]})
    with unacorda.Session({"t": table}, unit=made, budget=unacorda.GDP(1)) as session:
        reach = rows_of(session.table("t"), features=["x"], target="y").query.reach
    most = [noise_of(wish, reach).standard_deviation for wish in WISHES]
    drawn = np.random.default_rng(3)
    far = (-1e49, -50.0, -6.0, -1.0, 0.0, 0.3, 1.0, 6.0, 1e49)
    rows = [(int(i % 12), *drawn.choice(far, 2).tolist()) for i in range(60)]
    others = []
    for person in range(12):
        rest = [row for row in rows if row[0] != person]
        if unit == "rows":
            rest = rows[:person] + rows[person + 1 :]
        worst = [(person, 1e49, 1e49), (person, -1e49, 1.0), (person, 3.0, 1e49)]
        level = [(person, 0.0, -1e49)] * reach.rows
        replaced = [[*rest, *worst[: reach.rows]], [*rest, *level]]
        others += [rest] if neighbors is AddRemove else replaced
    whole, *found = (np.array(one, dtype=object) for one in each([rows, *others], made))
    reached = [0.0] * len(WISHES)
    for one in found:
        for place, part in enumerate(parts((whole - one).tolist())):
            reached[place] = max(reached[place], float(np.linalg.norm(part)))
    for longest, limit in zip(reached, most, strict=True):
        assert longest <= limit
    assert max(a / b for a, b in zip(reached, most, strict=True)) > 0.7


def test_the_noise_of_matrices_is_that_of_orthogonal_ones() -> None:
    """Replaced, a matrix that is not signed moves by sqrt 2 of its bound, others by 2 of it."""
    table = pa.table({"x": [1.0], "y": [1.0]})
    unit = unacorda.Row(neighbors=ReplaceOne)
    with unacorda.Session({"t": table}, unit=unit, budget=unacorda.GDP(1)) as session:
        reach = rows_of(session.table("t"), features=["x"], target="y").query.reach
    told = [noise_of(wish, reach).standard_deviation / length(wish) for wish in WISHES]
    root = math.sqrt(2)
    assert told == pytest.approx([2, root, 2, 2, 2, root, 1, root], rel=1e-6)
    assert len(COLUMNS) == 2
