"""Rows drawn from a model: totals, counts, conditions and constraints are kept."""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from unacorda.bits import SeededBits
from unacorda.synthesis.domain import BinnedColumn
from unacorda.synthesis.junction_tree import sum_to
from unacorda.synthesis.model import MarginalModel
from unacorda.synthesis.rows import draw_rows, generator_from, round_groups

SIZES = (3, 4, 2, 5)


def model(seed: int) -> MarginalModel:
    generator = np.random.default_rng(seed)
    sets = [(0, 1), (1, 2), (2, 3)]
    return MarginalModel(SIZES, {c: generator.normal(size=[SIZES[a] for a in c]) for c in sets})


@pytest.mark.parametrize("count", [0, 1, 7, 1000, 12_345])
def test_the_number_of_rows_is_kept_and_the_first_column_within_one(count: int) -> None:
    for seed in range(5):
        found = model(seed)
        rows = draw_rows(found, count, generator=np.random.default_rng(seed))
        assert rows.shape == (count, 4)
        assert (rows >= 0).all()
        assert (rows < SIZES).all()
        first = found.tree.cliques[found.tree.order[0]][0]
        expected = found.marginal((first,)) * count
        counts = np.bincount(rows[:, first], minlength=SIZES[first])
        assert counts.sum() == count
        assert np.abs(counts - expected).max() < 1 + 1e-6


def test_every_group_is_within_one_of_its_expectation() -> None:
    for seed in range(20):
        found = model(seed)
        tree = found.tree
        rows = draw_rows(found, 997, generator=np.random.default_rng(seed))
        for place in tree.order:
            clique, drawn = tree.cliques[place], list(tree.separators[place])
            for column in (a for a in clique if a not in tree.separators[place]):
                held = (*(a for a in clique if a in drawn), column)
                belief = sum_to(found.beliefs.cliques[place], clique, tuple(sorted(held)))
                belief = np.moveaxis(belief, sorted(held).index(column), -1)
                counts = np.zeros([SIZES[a] for a in held])
                np.add.at(counts, tuple(rows[:, a] for a in held), 1)
                share = belief / belief.sum(axis=-1, keepdims=True)
                off = counts - counts.sum(axis=-1, keepdims=True) * share
                assert np.abs(off).max() < 1 + 1e-6
                drawn.append(column)


def test_groups_are_rounded_exactly_and_without_values_of_weight_zero() -> None:
    generator = np.random.default_rng(2)
    for _ in range(50):
        weights = generator.random((6, 8)) * (generator.random((6, 8)) < 0.5)
        weights[:, 3] += 1e-9
        groups = generator.integers(0, 6, size=400)
        drawn = round_groups(weights, groups, generator=generator)
        counts = np.zeros((6, 8))
        np.add.at(counts, (groups, drawn), 1)
        shares = weights / weights.sum(axis=1, keepdims=True)
        expected = shares * np.bincount(groups, minlength=6)[:, None]
        assert np.abs(counts - expected).max() < 1
        assert not counts[weights == 0].any()


def test_a_planted_draw_at_random_is_not_within_one() -> None:
    """What the bound of one rejects: independent draws from the same distribution."""
    weights, groups = np.ones((1, 4)), np.zeros(4000, np.int64)
    independent = np.random.default_rng(1).integers(0, 4, size=4000)
    assert np.abs(np.bincount(independent) - 1000).max() > 1
    drawn = round_groups(weights, groups, generator=np.random.default_rng(1))
    assert np.bincount(drawn).tolist() == [1000] * 4


def test_impossible_cells_are_never_drawn() -> None:
    mask = np.ones((3, 2), np.bool_)
    mask[1, 0] = mask[2, 1] = False
    base = model(1)
    found = MarginalModel(SIZES, base.potentials, possible={(0, 2): mask})
    rows = draw_rows(found, 5000, generator=np.random.default_rng(1))
    assert mask[rows[:, 0], rows[:, 2]].all()


def test_conditional_rows_meet_the_condition_in_the_right_proportions() -> None:
    found = model(4).where({1: [2], 3: [0, 4]})
    rows = draw_rows(found, 2000, generator=np.random.default_rng(1))
    assert set(rows[:, 1].tolist()) == {2}
    assert set(rows[:, 3].tolist()) == {0, 4}
    counts = np.bincount(rows[:, 0], minlength=3)
    assert np.abs(counts / 2000 - found.marginal((0,))).max() < 0.01


def test_one_seed_draws_the_same_rows_again() -> None:
    one, two, other = (
        draw_rows(model(1), 100, generator=generator_from(SeededBits(seed))) for seed in (1, 1, 2)
    )
    assert (one == two).all()
    assert (one != other).any()


@st.composite
def drawn_models(draw: Any) -> tuple[MarginalModel, dict[int, list[int]]]:
    """A model over random cliques with impossible cells, and cells that a condition keeps.

    The first cell of every column is possible and kept, so that some row can always exist.
    """
    sizes = draw(st.lists(st.integers(1, 4), min_size=1, max_size=5))
    generator = np.random.default_rng(draw(st.integers(0, 1 << 30)))
    places = range(len(sizes))
    sets = draw(st.lists(st.sets(st.sampled_from(places), min_size=1, max_size=3), max_size=5))
    cliques = {tuple(sorted(one)) for one in sets}
    potentials = {c: 3 * generator.normal(size=[sizes[a] for a in c]) for c in cliques}
    possible = {}
    for c in cliques:
        mask = generator.random([sizes[a] for a in c]) < 0.6
        mask[(0,) * len(c)] = True
        possible[c] = mask
    kept = {
        a: [0, *np.flatnonzero(generator.random(sizes[a] - 1) < 0.5) + 1]
        for a in places
        if generator.random() < 0.5
    }
    return MarginalModel(sizes, potentials, possible=possible), kept


@settings(max_examples=60, deadline=None)
@given(drawn=drawn_models(), count=st.integers(0, 400), seed=st.integers(0, 1 << 20))
def test_rows_of_any_model_keep_counts_constraints_and_conditions(
    *, drawn: tuple[MarginalModel, dict[int, list[int]]], count: int, seed: int
) -> None:
    base, kept = drawn
    found = base.where(kept)
    rows = draw_rows(found, count, generator=np.random.default_rng(seed))
    assert rows.shape == (count, len(found.sizes))
    for c, mask in base.possible.items():
        assert mask[tuple(rows[:, list(c)].T)].all()
    for a, cells in kept.items():
        assert set(rows[:, a].tolist()) <= set(map(int, cells))
    tree = found.tree
    for place in tree.order:
        clique, held = tree.cliques[place], list(tree.separators[place])
        for column in (a for a in clique if a not in tree.separators[place]):
            axes = [*held, column]
            belief = sum_to(found.beliefs.cliques[place], clique, tuple(sorted(axes)))
            belief = belief.transpose([sorted(axes).index(a) for a in axes])
            counts = np.zeros(belief.shape)
            np.add.at(counts, tuple(rows[:, a] for a in axes), 1)
            total = belief.sum(axis=-1, keepdims=True)
            share = np.divide(belief, total, out=np.zeros_like(belief), where=total > 0)
            assert np.abs(counts - counts.sum(axis=-1, keepdims=True) * share).max() < 1 + 1e-6
            held.append(column)


@given(
    edges=st.lists(st.integers(-50, 50), min_size=2, max_size=8, unique=True).map(sorted),
    missing=st.booleans(),
    whole=st.booleans(),
    seed=st.integers(0, 1 << 20),
)
def test_numbers_lie_in_their_bins_and_whole_ones_are_whole(
    *, edges: list[int], missing: bool, whole: bool, seed: int
) -> None:
    column = BinnedColumn(name="a", edges=tuple(edges), whole=whole, missing=missing)
    generator = np.random.default_rng(seed)
    cells = generator.integers(0, column.size, size=200)
    numbers = column.decode(cells, generator=generator).astype(float)
    assert (column.encode(numbers) == cells).all()
    known = numbers[~np.isnan(numbers)]
    assert ((known >= edges[0]) & (known <= edges[-1])).all()
    assert not whole or (known == np.floor(known)).all()
    lowest, highest = column.ends
    inside = cells < len(lowest)
    assert (numbers[inside] >= lowest[cells[inside]]).all()
    assert (numbers[inside] <= highest[cells[inside]]).all()
