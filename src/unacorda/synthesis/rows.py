"""Rows drawn from a graphical model by systematic rounding of its conditional tables.

Clique by clique, and in a clique a column at a time: the rows that agree in all columns of the
clique drawn so far are a group. A group of n rows gets the quantiles of the conditional
distribution at (i + U) / n, i = 0, ..., n - 1, with one uniform U, in random order. So each value
is given to a number of rows of the group that is within 1 of its expectation, and values of
probability 0 to none. The number of rows is kept exactly.

Source: systematic sampling, Madow 1949; for graphical models: McKenna, Miklau, Sheldon 2021,
arXiv:2108.04978, "Winning the NIST contest", Section 4.
"""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from unacorda.bits import RandomBits
from unacorda.synthesis.junction_tree import Floats, sum_to
from unacorda.synthesis.model import MarginalModel

Codes: TypeAlias = NDArray[np.int64]
"""Rows as the places of their cells, of shape (rows, columns)."""


def generator_from(bits: RandomBits) -> np.random.Generator:
    """A generator for what is postprocessing, seeded by 256 bits of a source.

    >>> from unacorda.bits import SeededBits
    >>> one, two = (generator_from(SeededBits(1)).integers(100) for _ in range(2))
    >>> bool(one == two)
    True
    """
    return np.random.default_rng(bits.words(4).tolist())


def draw_rows(model: MarginalModel, count: int, *, generator: np.random.Generator) -> Codes:
    """Rows of the model: the cells of each column, of shape (count, columns).

    count: 0 or above. Conditional rows are those of `model.where(...)`.

    >>> model = MarginalModel((2, 2), {(0, 1): np.log([[0.3, 0.2], [0.1, 0.4]])})
    >>> rows = draw_rows(model, 10, generator=np.random.default_rng(1))
    >>> np.bincount(2 * rows[:, 0] + rows[:, 1], minlength=4).tolist()
    [3, 2, 1, 4]
    """
    tree = model.tree
    rows = np.zeros((count, len(model.sizes)), np.int64)
    for place in tree.order:
        clique, separator = tree.cliques[place], tree.separators[place]
        drawn = list(separator)
        for column in (a for a in clique if a not in separator):
            held = tuple(a for a in clique if a in drawn or a == column)
            weights = sum_to(model.beliefs.cliques[place], clique, held)
            weights = np.moveaxis(weights, held.index(column), -1)
            groups = np.zeros(count, np.int64)
            for a in (a for a in clique if a in drawn):
                groups = groups * model.sizes[a] + rows[:, a]
            weights = weights.reshape(-1, model.sizes[column])
            rows[:, column] = round_groups(weights, groups, generator=generator)
            drawn.append(column)
    return rows


def round_groups(
    weights: Floats, groups: NDArray[np.int64], *, generator: np.random.Generator
) -> NDArray[np.int64]:
    """A value for each row, within each group in proportion to the weights of the group.

    weights: shape (groups, values), 0 or above; those of a group that has rows are not all 0.
    groups: of each row. Values of weight 0 are given to no row.

    >>> drawn = round_groups(
    ...     np.array([[1.0, 1.0], [0.0, 5.0]]),
    ...     np.array([0, 0, 0, 0, 1]),
    ...     generator=np.random.default_rng(1),
    ... )
    >>> sorted(drawn[:4].tolist()), int(drawn[4])
    ([0, 0, 1, 1], 1)
    """
    values = weights.shape[1]
    shuffled = generator.permutation(groups.size)
    order = shuffled[np.argsort(groups[shuffled], kind="stable")]
    present, starts, counts = np.unique(groups[order], return_index=True, return_counts=True)
    of_row = np.repeat(np.arange(present.size), counts)
    ranks = np.arange(groups.size) - starts[of_row]
    uniform = generator.random(present.size)
    points = (ranks + uniform[of_row]) / counts[of_row]
    cumulative = np.cumsum(weights[present], axis=1)
    cumulative /= cumulative[:, -1:]
    # Round-off lifts a point of a later group to the end of its group at most.
    edges = (cumulative + np.arange(present.size)[:, None]).ravel()
    places = np.searchsorted(edges, points + of_row, side="right") - of_row * values
    last = values - 1 - np.argmax(weights[present][:, ::-1] > 0, axis=1)
    found = np.empty(groups.size, np.int64)
    found[order] = np.minimum(places, last[of_row])
    return found
