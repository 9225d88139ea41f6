"""The grid of quantiles: its points, what counts as them, and the same numbers from SQL."""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

import math
from fractions import Fraction

import duckdb
import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.query.engines_alike import OTHERS, counted, opened_on
from tests.support.cases import in_subtests
from tests.support.seams import PublicGrid

import unacorda

BOUNDS = [
    ("0", "1", None),
    ("0", "1e9", None),
    ("-120", "1500", None),
    ("-1e9", "-3", None),
    ("1000", "1100", None),
    ("1e9", "1000000001", None),
    ("0", "5e-324", None),
    ("1", "1.0000000000000002", None),
    ("-1e300", "1e300", None),
    ("0", "120", "1"),
    ("0", "1e9", "1"),
    ("0.5", "7.3", "1"),
    ("0", "5000", "0.01"),
    ("-250", "999", "500/3"),
    ("0", "1e6", "1e-12"),
    ("-2", "3", "5"),
]


def grid_of(lower: str, upper: str, resolution: str | None) -> PublicGrid:
    return PublicGrid.of(
        Fraction(lower), Fraction(upper), None if resolution is None else Fraction(resolution)
    )


def values_near(grid: PublicGrid) -> np.ndarray:
    """Points, what is halfway between them, the doubles next to both, and all over the range."""
    source = np.random.default_rng(7)
    places = np.unique(
        np.concatenate(
            [
                source.integers(0, grid.steps + 1, 400),
                np.clip([0, 1, 2, grid.steps - 1, grid.steps], 0, grid.steps),
            ]
        )
    )
    points = grid.values(places)
    halves = (points + grid.values(np.clip(places + 1, 0, grid.steps))) / 2
    close = np.concatenate([points, halves])
    close = np.concatenate([close, np.nextafter(close, np.inf), np.nextafter(close, -np.inf)])
    largest = max(abs(grid.lower), abs(grid.upper))
    wide = largest * 2.0 ** -source.uniform(0, 60, 200) * source.choice([-1, 1], 200)
    with np.errstate(over="ignore"):
        return np.concatenate([close, wide, [0.0, -0.0, 2 * largest, -2 * largest, np.inf]])


@pytest.mark.long
@in_subtests("bounds", BOUNDS, ids=str)
def test_sql_counts_a_value_as_the_nearest_point(bounds: tuple[str, str, str | None]) -> None:
    grid = grid_of(*bounds)
    values = values_near(grid)
    connection = duckdb.connect()
    connection.execute("CREATE TABLE t (k INT, v DOUBLE)")
    connection.execute(
        "INSERT INTO t SELECT unnest($1::INT[]), unnest($2::DOUBLE[])",
        [list(range(len(values))), values.tolist()],
    )
    found = connection.execute(f"SELECT {grid.sql('v')} AS p FROM t ORDER BY k").fetchnumpy()["p"]
    assert found.tolist() == grid.places(values).tolist()
    assert connection.execute(f"SELECT {grid.sql('NULL::DOUBLE')}").fetchone() == (None,)
    # Nearest by exact arithmetic, but for what is next to halfway.
    for value, place in zip(values, found.tolist(), strict=True):
        if not math.isfinite(value):
            continue
        assert 0 <= place <= grid.steps
        inside = Fraction(min(max(float(value), grid.lower), grid.upper))
        around = np.clip([place - 1, place, place + 1], 0, grid.steps)
        far = [abs(Fraction(float(point)) - inside) for point in grid.values(around)]
        # A bound stands for the point beyond it, from which it may be some way off.
        cut = {0, grid.steps} & set(around.tolist())
        assert far[1] <= min(far) + abs(inside) / 2**49 or (cut and far[1] <= far[0] + far[2])


@pytest.mark.long
@in_subtests("bounds", BOUNDS, ids=str)
def test_points_rise_and_what_counts_as_them_lies_between_their_ends(
    bounds: tuple[str, str, str | None],
) -> None:
    grid = grid_of(*bounds)
    assert 1 <= grid.steps <= 2**20
    places = np.arange(grid.steps + 1)
    points = grid.values(places)
    assert (points[0], points[-1]) == (grid.lower, grid.upper)
    assert (np.diff(points) > 0).all() or grid.steps == 1
    assert (grid.places(points) == places).all()
    low, high = grid.ends(places)
    assert (low <= points).all()
    assert (points <= high).all()
    assert (high[:-1] >= low[1:]).all()  # nothing lies between two of them
    values = np.clip(values_near(grid), grid.lower, grid.upper)
    at = grid.places(values)
    assert (low[at] <= values).all()
    assert (values <= high[at]).all()


@in_subtests("bounds", [one for one in BOUNDS if one[2] is None], ids=str)
def test_points_are_within_a_ten_thousandth_of_any_value(
    bounds: tuple[str, str, str | None],
) -> None:
    """But below 2^-40 of the larger bound, where they are as close as just above it."""
    grid = grid_of(*bounds)
    values = np.clip(values_near(grid), grid.lower, grid.upper)
    floor = 2.0**-40 * max(abs(grid.lower), abs(grid.upper))
    off = np.abs(grid.values(grid.places(values)) - values)
    assert (off <= 1e-4 * np.maximum(np.abs(values), floor)).all()


def test_whole_numbers_are_points_as_far_as_there_is_room() -> None:
    whole = grid_of("-50", "120", "1")
    assert whole.values(np.arange(171)).tolist() == list(range(-50, 121))
    wide = grid_of("0", "1e9", "1")
    assert (wide.values(wide.places(np.arange(10**5))) == np.arange(10**5)).all()
    prices = grid_of("0", "5000", "0.01")
    cents = [0.01, 0.07, 0.29, 19.99, 603.03, 4999.99]
    assert prices.values(prices.places(cents)).tolist() == cents


def test_short_numbers_have_more_slots_and_all_have_half_as_many_again_as_points() -> None:
    grid = grid_of("-120", "1500", None)
    slots = np.diff(grid.slots)
    assert slots.min() == 1
    assert slots.max() == 64
    assert grid.slots[-1] < 1.51 * (grid.steps + 1)
    whole, others = np.arange(1, 9), np.arange(1, 9) + 0.1
    assert (slots[grid.places(whole)] >= 32).all()
    assert slots[grid.places(others)].mean() < 2
    # By the binary digits of the point itself.
    places = np.random.default_rng(1).integers(1, grid.steps, 300)
    for place in places[np.abs(grid.values(places)) > 2.0**-28].tolist():
        digits = abs(int(math.frexp(float(grid.values(place)))[0] * 2 ** (grid.fraction + 1)))
        zeros = (digits & -digits).bit_length() - 1
        assert slots[place] == 2 ** min(zeros // 2, 6)
    alike = grid_of("0", "120", "0.5")
    assert (np.diff(alike.slots) == 1).all()
    assert len(alike.slots) == alike.steps + 2


@pytest.mark.long
@settings(max_examples=200, deadline=None)
@given(
    st.fractions(-1000, 1000, max_denominator=1000),
    st.fractions("1/1000", 10**6, max_denominator=1000),
    st.one_of(st.none(), st.fractions("1/100000", 5, max_denominator=10**5)),
    st.lists(st.floats(-(10**7), 10**7), min_size=1),
)
def test_order_is_kept(
    lower: Fraction, span: Fraction, resolution: Fraction | None, values: list[float]
) -> None:
    unit = None if resolution is None else min(resolution, span)
    grid = PublicGrid.of(lower, lower + span, unit)
    found = grid.places(sorted(values))
    assert (np.diff(found) >= 0).all()
    assert grid.steps <= 2**20


@pytest.mark.slow
@pytest.mark.parametrize("engine", OTHERS)
def test_every_engine_finds_the_same_points(engine: str) -> None:
    for lower, upper, resolution in BOUNDS[:5] + BOUNDS[9:]:
        table = pa.table({"x": values_near(grid_of(lower, upper, resolution))})
        found = []
        for where in ("duckdb", engine):
            with opened_on(where, table) as session:
                query = session.table("t")
                query = query.agg(m=unacorda.median("x", lower, upper, resolution=resolution))
                found.append(counted(session, query))
        assert found[0] == found[1]
