"""Domains and plans: what they refuse, and what is public of them."""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from tests.synthesis.test_synthesis_budgets import domain_of

from unacorda.errors import InvalidParameter
from unacorda.privacy.guarantees import ZCDP
from unacorda.privacy.neighbors import AddRemove
from unacorda.synthesis.domain import BinnedColumn, CategoryColumn, Domain
from unacorda.synthesis.plan import SynthesisPlan
from unacorda.synthesis.release import synthesize
from unacorda.synthesis.tables import CodedRows

AGE = BinnedColumn(name="age", edges=(0, 18, 65, 120), whole=True, missing=True)
SEX = CategoryColumn(name="sex", values=("F", "M", None), other="other")


def test_every_value_has_a_cell() -> None:
    odd = ["F", "M", None, "x", float("nan"), 3, ["F"], ("M",)]
    assert SEX.encode(odd).tolist() == [0, 1, 2, 3, 2, 3, 3, 3]
    cells = AGE.encode([-5, 0, 17.9, 18, 120, 1e9, np.inf, -np.inf, np.nan])
    assert cells.tolist() == [0, 0, 0, 1, 2, 2, 2, 0, 3]
    bare = BinnedColumn(name="x", edges=(0, 1))
    assert bare.encode([np.nan, 5]).tolist() == [0, 0]
    assert CategoryColumn(name="x", values=(1, 2), other=None).encode([7, 2]).tolist() == [0, 1]


def test_numbers_lie_in_their_bins_and_whole_ones_are_whole() -> None:
    cells = np.repeat(np.arange(4), 2000)
    found = AGE.decode(cells, generator=np.random.default_rng(1))
    assert (AGE.encode(found) == cells).all()
    held = found[cells < 3]
    assert (held == np.floor(held)).all()
    assert set(held[cells[cells < 3] == 0].tolist()) == set(range(18))
    assert held.max() == 120
    assert np.isnan(found[cells == 3]).all()
    real = BinnedColumn(name="x", edges=(-1.5, 0.25, 1e6))
    cells = np.repeat(np.arange(2), 2000)
    assert (real.encode(real.decode(cells)) == cells).all()
    whole = BinnedColumn(name="x", edges=(0, 2, 3), whole=True)
    assert whole.decode(np.array([1, 1, 0])).dtype == np.int64


@pytest.mark.parametrize(
    "values",
    [(), ("a", "a"), ("a", "other"), tuple(range(1 << 16))],
    ids=["none", "2", "o", "many"],
)
def test_values_that_are_no_list_of_a_column_are_refused(values: Any) -> None:
    with pytest.raises(InvalidParameter, match="values"):
        CategoryColumn(name="a", values=values)


@pytest.mark.parametrize(
    "edges", [(), (1,), (1, 1), (2, 1), (0, float("nan")), (0, float("inf")), ("a", "b"), None]
)
def test_edges_that_do_not_increase_are_refused(edges: Any) -> None:
    with pytest.raises(InvalidParameter, match="edges"):
        BinnedColumn(name="a", edges=edges)


def test_whole_numbers_need_whole_edges_and_columns_need_names() -> None:
    with pytest.raises(InvalidParameter, match="edges"):
        BinnedColumn(name="a", edges=(0, 0.5), whole=True)
    with pytest.raises(InvalidParameter, match="name"):
        CategoryColumn(name="", values=("a",))
    for columns in [(), (AGE, AGE)]:
        with pytest.raises(InvalidParameter, match="columns"):
            Domain(columns=columns)


def plan(**choices: Any) -> SynthesisPlan:
    return SynthesisPlan(domain=Domain(columns=(SEX, AGE)), **choices)


@pytest.mark.parametrize(
    ("name", "choices"),
    [
        ("workload", {"workload": 0}),
        ("workload", {"workload": [[]]}),
        ("workload", {"workload": []}),
        ("workload", {"workload": "sex"}),
        ("workload", {"workload": ["sex"]}),
        ("workload", {"workload": 2.5}),
        ("weights", {"weights": [1]}),
        ("weights", {"weights": {"sex": 2}}),
        ("never", {"never": ["sex"]}),
        ("columns", {"workload": [["sex", "height"]]}),
        ("workload", {"max_cells": 15}),
        ("weights", {"workload": [["sex"]], "weights": {("age",): 2}}),
        ("weights", {"workload": [["sex"]], "weights": {("sex",): 0}}),
        ("columns", {"never": [{"height": 1}]}),
        ("sex", {"never": [{"sex": "unknown"}]}),
        ("sex", {"never": [{"sex": []}]}),
        ("never", {"never": [{}]}),
        ("report", {"report": 1}),
        ("report", {"report": -1}),
        ("rows", {"rows": -1}),
        ("max_cells", {"max_cells": 0}),
    ],
)
def test_plans_that_cannot_be_kept_are_refused(name: str, choices: dict[str, Any]) -> None:
    with pytest.raises(InvalidParameter) as caught:
        plan(**choices)
    assert caught.value.argument == name


def test_constraints_over_too_many_cells_are_refused() -> None:
    wide = [BinnedColumn(name=name, edges=tuple(range(400))) for name in ("a", "b")]
    with pytest.raises(InvalidParameter, match="never"):
        SynthesisPlan(domain=Domain(columns=tuple(wide)), never=[{"a": 3, "b": 4}])


@pytest.mark.parametrize(("last", "fits"), [("d", True), ("a", False)])
def test_constraints_that_share_columns_are_limited_together(last: str, fits: bool) -> None:
    """A chain needs tables of two columns; where its ends meet, tables of three."""
    wide = [BinnedColumn(name=name, edges=tuple(range(251))) for name in "abcd"]
    never = [{one: 3, two: 4} for one, two in ("ab", "bc", ("c", last))]
    if fits:
        SynthesisPlan(domain=Domain(columns=tuple(wide)), workload=2, never=never)
        return
    with pytest.raises(InvalidParameter, match="together") as caught:
        SynthesisPlan(domain=Domain(columns=tuple(wide)), workload=2, never=never)
    assert caught.value.argument == "never"
    assert caught.value.value == ["a", "b", "c"]


def test_constraints_fit_where_more_cells_are_allowed() -> None:
    wide = [BinnedColumn(name=name, edges=tuple(range(91))) for name in "abc"]
    never = [{one: 3, two: 4} for one, two in ("ab", "bc", "ca")]
    columns = tuple(wide)
    with pytest.raises(InvalidParameter, match="max_cells"):
        SynthesisPlan(domain=Domain(columns=columns), workload=2, never=never)
    SynthesisPlan(domain=Domain(columns=columns), workload=2, never=never, max_cells=90**3)


def test_cells_that_are_found_refuse_nothing() -> None:
    """The limit is of what was public; a plan over fewer cells is that plan."""
    wide = plan(never=[{"sex": "M", "age": 200}])
    sex, age = wide.domain.columns
    assert isinstance(age, BinnedColumn)
    narrow = wide.over([sex, BinnedColumn(name="age", edges=age.edges[-2:], whole=age.whole)])
    assert narrow.domain.sizes < wide.domain.sizes
    assert (narrow.never, narrow.max_cells) == (wide.never, wide.max_cells)


def test_constraints_that_leave_no_row_are_refused_before_anything_is_read() -> None:
    class Unread:
        sizes = (4, 4)

        def counts(self, columns: tuple[int, ...]) -> Any:
            raise AssertionError

    with pytest.raises(InvalidParameter, match="never"):
        synthesize(
            Unread(),
            plan(never=[{"sex": list(SEX.labels)}]),
            budget=ZCDP(1),
            rows_per_unit=1,
            neighbors=AddRemove,
        )


def test_a_source_of_other_columns_is_refused() -> None:
    with pytest.raises(InvalidParameter, match="source"):
        synthesize(
            CodedRows([[0]], sizes=(2,)),
            plan(),
            budget=ZCDP(1),
            rows_per_unit=1,
            neighbors=AddRemove,
        )
    shapes: list[NDArray[Any]] = [
        np.zeros(2, np.int64),
        np.zeros((1, 3), np.int64),
        np.zeros((1, 2)),
    ]
    for codes in shapes:
        with pytest.raises(InvalidParameter, match="codes"):
            CodedRows(codes, sizes=(2, 2))


def test_candidates_weigh_the_columns_they_share_with_the_workload() -> None:
    names = [["c0", "c1"], ["c1", "c2"]]
    choices: dict[str, Any] = {"workload": names, "weights": {("c1", "c0"): Fraction(3, 2)}}
    found = SynthesisPlan(domain=domain_of((2, 2, 2, 2)), **choices).candidates()
    # c0: 3/2, c1: 5/2, c2: 1; in whole numbers 3, 5, 2.
    assert found == {(0,): 3, (1,): 5, (0, 1): 8, (2,): 2, (1, 2): 7}
    every = SynthesisPlan(domain=domain_of((2, 2, 2)), workload=2).candidates()
    assert every == {(0,): 1, (1,): 1, (2,): 1, (0, 1): 2, (0, 2): 2, (1, 2): 2}


def test_conditions_name_labels_or_numbers() -> None:
    assert plan().meeting({"sex": "F", "age": [5, 64, None]}) == {0: [0], 1: [0, 1, 3]}
    assert plan().meeting({"age": "[18, 65)"}) == {1: [1]}
    masks = plan(never=[{"sex": "M", "age": 200}, {"age": 20, "sex": None}]).possible()
    assert list(masks) == [(0, 1)]
    assert (~masks[(0, 1)]).nonzero()[0].tolist() == [1, 2]
    assert (~masks[(0, 1)]).nonzero()[1].tolist() == [2, 1]
