"""A release draws one answer with its intervals: by group, along dates and numbers, in series."""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

import datetime as dt
import math
from collections.abc import Iterator
from typing import Any

import pandas as pd
import pytest

import unacorda
from unacorda import SeededBits, plots
from unacorda.errors import InvalidParameter
from unacorda.query.aggregates.base import Answer
from unacorda.query.results.release import draw

DAYS = [dt.date(2026, month, 1) for month in range(1, 5)]


@pytest.fixture
def session() -> Iterator[unacorda.Session]:
    visits = pd.DataFrame(
        {
            "id": range(400),
            "age": [20 + k % 50 for k in range(400)],
            "town": ["A", "B"] * 200,
            "day": [DAYS[k % 4] for k in range(400)],
        }
    )
    unit = unacorda.Person("id", max_rows=1)
    with unacorda.Session(
        {"visits": visits}, unit=unit, budget=unacorda.PureDP(99), bits=SeededBits(1)
    ) as found:
        yield found


def released(session: unacorda.Session, *columns: str, **keys: Any) -> unacorda.Release:
    table = session.table("visits")
    grouped = table.group_by(*columns, keys=keys) if columns else table
    asked = grouped.agg(n=unacorda.count(), m=unacorda.mean("age", lower=0, upper=99))
    return session.evaluate(asked, budget=unacorda.PureDP(5))


def lines(axes: Any) -> list[tuple[list[Any], list[Any]]]:
    return [(list(line.get_xdata()), list(line.get_ydata())) for line in axes.lines]


def test_counts_are_bars_and_means_are_points(session: unacorda.Session) -> None:
    release = released(session, "town", town=["A", "B"])
    clamped = release.clamped()
    bars = release.plot("n")
    assert [bar.get_width() for bar in bars.containers[0]] == clamped["n"]
    assert [text.get_text() for text in bars.get_yticklabels()] == ["A", "B"]
    ends = [tuple(segment[:, 0]) for segment in bars.collections[0].get_segments()]
    assert ends == list(zip(clamped["n_low"], clamped["n_high"], strict=True))
    assert bars.get_title() == "n by town, with 95% intervals"
    points = release.plot("m")
    assert not points.containers
    assert (clamped["m"], [0.0, 1.0]) in lines(points)


def test_dates_stand_along_the_axis_and_few_values_are_colors(session: unacorda.Session) -> None:
    release = released(session, "day", "town", day=DAYS, town=["A", "B"])
    axes = release.plot("n")
    rows = release.clamped().to_dicts()
    for town in ("A", "B"):
        values = [row["n"] for row in rows if row["town"] == town]
        assert (DAYS, values) in lines(axes)
    legend = axes.get_legend()
    assert legend.get_title().get_text() == "town"
    assert [text.get_text() for text in legend.get_texts()] == ["A", "B"]
    assert (axes.get_xlabel(), axes.get_ylabel()) == ("day", "n")


def test_one_number_is_one_bar_on_the_axes_given(session: unacorda.Session) -> None:
    axes = plots.new_axes(size=(4, 2))
    asked = session.table("visits").agg(n=unacorda.count())
    release = session.evaluate(asked, budget=unacorda.PureDP(1))
    assert release.plot(axes=axes) is axes
    assert [bar.get_width() for bar in axes.containers[0]] == [release.scalar()]


def test_the_answer_is_named_where_there_are_several(session: unacorda.Session) -> None:
    release = released(session)
    for name in (None, "k"):
        with pytest.raises(InvalidParameter, match=r"^name=.*: n, m"):
            release.plot(name)


def answer(*values: float | None, limits: tuple[float, float] = (0, math.inf)) -> Answer:
    ends = [None if value is None else value for value in values]
    return Answer(
        values=values,
        standard_errors=[None] * len(values),
        lower=[None if value is None else value - 1 for value in ends],
        upper=[None if value is None else value + 1 for value in ends],
        limits=limits,
    )


def test_lines_without_a_usable_answer_are_named() -> None:
    wide = Answer(
        values=[4.0, 5.0], standard_errors=[1, 1], lower=[0, 4.0], upper=[9, 6.0], limits=(0, 9)
    )
    axes = draw("m", wide, {"town": ["A", None]})
    labels = [text.get_text() for text in axes.get_yticklabels()]
    assert labels == ["A (no usable answer)", "NULL"]
    assert math.isnan(lines(axes)[0][0][0])


def test_many_groups_are_cut_and_counted() -> None:
    axes = draw("n", answer(*range(100)), {"zip": [f"z{k}" for k in range(100)]})
    assert len(axes.get_yticks()) == 60
    assert axes.get_ylabel() == "zip: the first 60 of 100"


@pytest.mark.parametrize(
    ("column", "along"),
    [
        ([1, 2, 3], True),
        ([0.5, 2.0, 1.0], True),
        ([True, False, None], False),
        ([1, None, 2], False),
    ],
)
def test_numbers_stand_along_the_axis_where_all_are_numbers(column: list[Any], along: bool) -> None:
    axes = draw("n", answer(5.0, 6.0, 7.0), {"k": column})
    assert bool(axes.get_xlabel() == "k") is along


def test_a_release_without_rows_is_refused() -> None:
    with pytest.raises(InvalidParameter, match="no private key was found"):
        draw("n", answer(), {"town": []})
