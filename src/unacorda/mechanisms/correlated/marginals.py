r"""Marginals: counts over a few attributes at a time, by the strategy of least total variance.

A marginal over the attributes A consists of interactions, one for each set S of attributes in A:
the counts over S, projected so that they sum to 0 along each attribute. Each interaction is
measured once with independent noise, and serves all marginals that contain it.
"""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

import itertools
import math
from collections.abc import Iterable
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from typing import Any, Final, TypeAlias

import numpy as np
from numpy.typing import ArrayLike, NDArray

from unacorda import checks, elements
from unacorda.bits import RandomBits, source_of
from unacorda.errors import InvalidParameter
from unacorda.mechanisms.additive.real import mu_squared
from unacorda.mechanisms.correlated.grid import Grid, grid_for, halves
from unacorda.mechanisms.parameters import Real, inverse_root_up, positive, quotient
from unacorda.mechanisms.parameters import whole as whole_number
from unacorda.privacy import events
from unacorda.privacy.events.fields import keep
from unacorda.privacy.guarantees import GDP, ZCDP, ApproxDP

Attributes: TypeAlias = tuple[int, ...]
Floats: TypeAlias = NDArray[np.float64]
Integers: TypeAlias = NDArray[np.int64]

_LARGEST_TABLE: Final = 1 << 22
_MOST_ATTRIBUTES_OF_ONE: Final = 16
_FINER: Final = 24  # whole numbers count as so many binary places, which makes room for the grid
_LESS: Final = 1 - Fraction(1, 1 << 40)  # covers the round-off of shares
_LARGEST_SIGMA: Final = 1 << 20


@dataclass(frozen=True, slots=True, kw_only=True)
class Marginals:
    """Release marginal tables of a table of categorical records; all of them agree.

    The noise of the interactions is chosen so that the variances of all cells of all queries sum up
    to the least that any Gaussian noise reaches at this price.

    Source: Xiao, He, Zhang, Kifer 2023, arXiv:2305.08175, "An optimal and scalable matrix mechanism
    for noisy marginals under convex loss functions" (ResidualPlanner); docs/proofs/correlated.md.

    Parameters
    ----------
    sizes
        The number of values of each attribute.
    queries
        The marginals, each by the indices of its attributes in `sizes`; () is the total.
    sigma
        The noise multiplier of all tables together, above 0: the noise on a total that is released
        alone.
    rows
        The most records of a unit.

    Examples
    --------
    >>> pairs = Marginals(sizes=(2, 3), queries=((0,), (0, 1)), sigma=5)
    >>> pairs.event
    Gaussian(noise_multiplier=5)
    >>> pairs.release([[0, 2], [1, 1], [0, 0]])[(0, 1)].shape
    (2, 3)
    """

    sizes: tuple[int, ...]
    queries: tuple[Attributes, ...]
    sigma: Real
    rows: int = 1

    def __post_init__(self) -> None:
        sizes = tuple(
            whole_number("sizes", size, least=1, most=_LARGEST_TABLE)
            for size in _listed("sizes", self.sizes)
        )
        keep(
            self,
            sizes=sizes,
            queries=_queries(self.queries, sizes),
            sigma=positive("sigma", self.sigma),
            rows=whole_number("rows", self.rows, least=1, most=1 << 20),
        )
        if checks.exact("sigma", self.sigma) > _LARGEST_SIGMA:
            raise InvalidParameter("sigma", self.sigma, expected="at most 2^20")
        for interaction in self.interactions:
            self._grid(interaction)

    @staticmethod
    def for_guarantee(
        guarantee: ApproxDP | GDP | ZCDP,
        *,
        sizes: tuple[int, ...],
        queries: tuple[Attributes, ...],
        rows: int = 1,
    ) -> Marginals:
        """Make the mechanism with the least noise, as `Gaussian.for_guarantee`.

        Parameters
        ----------
        guarantee
            An ApproxDP, GDP or ZCDP.
        sizes, queries, rows
            As for the class.

        Returns
        -------
        Marginals
            The mechanism.

        Raises
        ------
        InvalidParameter
            For another guarantee.

        Examples
        --------
        >>> Marginals.for_guarantee(GDP(0.5), sizes=(2, 3), queries=((0, 1),)).sigma
        2
        """
        least = inverse_root_up(mu_squared(guarantee))
        return Marginals(sizes=sizes, queries=queries, sigma=least * rows, rows=rows)

    @property
    def interactions(self) -> tuple[Attributes, ...]:
        """The sets of attributes that are measured: all subsets of the queries.

        An attribute of one value has no interactions.
        """
        found = {
            subset
            for query in self.queries
            for count in range(len(query) + 1)
            for subset in itertools.combinations(query, count)
            if all(self.sizes[i] > 1 for i in subset)
        }
        return tuple(sorted(found, key=lambda subset: (len(subset), subset)))

    @property
    def noise(self) -> dict[Attributes, Fraction]:
        """The standard deviation of the noise on each cell of each interaction, before projection.

        With p_S the share of a record in an interaction and v_S what its variance adds to the
        total, sigma_S^2 is proportional to sqrt(p_S / v_S), and the sum of p_S / sigma_S^2 is at
        most 1 / sigma^2.
        """
        sigma = checks.exact("sigma", self.sigma)
        return {s: sigma * root for s, root in _relative_noise(self).items()}

    @property
    def event(self) -> events.Gaussian:
        """What one release costs, of all tables together."""
        return events.Gaussian(noise_multiplier=quotient(self.sigma, self.rows))

    def standard_errors(self) -> dict[Attributes, float]:
        """Standard deviation of the noise in each cell of each query, before any data."""
        found = {}
        for query in self.queries:
            variance = 0.0
            for subset in self.inside(query):
                beyond = math.prod(self.sizes[i] for i in query if i not in subset)
                cells = math.prod(self.sizes[i] for i in subset)
                deviation = self._grid(subset).deviation / cells
                variance += deviation**2 * float(self.share(subset)) / beyond**2
            found[query] = math.sqrt(variance)
        return found

    @property
    def expected_error(self) -> float:
        """The root of the mean, over all cells of all queries, of the expected squared error."""
        errors = self.standard_errors()
        cells = {query: math.prod(self.sizes[i] for i in query) for query in self.queries}
        total = sum(cells[query] * errors[query] ** 2 for query in self.queries)
        return math.sqrt(total / sum(cells.values()))

    def release(
        self, records: ArrayLike, *, bits: RandomBits | None = None
    ) -> dict[Attributes, Floats]:
        """Release the noisy tables.

        Parameters
        ----------
        records
            Shape (records, attributes): integers from 0 to below the attribute's size. Others count
            as the nearest of these.
        bits
            By default a secure source.

        Returns
        -------
        dict
            By query a table, of the shape of its attributes.

        Raises
        ------
        InvalidParameter
            For another shape or dtype.
        """
        array = self._records(records)
        source = source_of(bits)
        measured = {s: self._measured(array, s, source) for s in self.interactions}
        tables = {}
        for query in self.queries:
            table = np.zeros([self.sizes[i] for i in query])
            for subset in self.inside(query):
                beyond = math.prod(self.sizes[i] for i in query if i not in subset)
                shape = [self.sizes[i] if i in subset else 1 for i in query]
                table += measured[subset].reshape(shape) / beyond
            tables[query] = table
        return tables

    def inside(self, query: Attributes) -> list[Attributes]:
        """List the interactions that a query is made of.

        Parameters
        ----------
        query
            The attributes of the query.

        Returns
        -------
        list
            The attributes of each interaction.
        """
        return [subset for subset in self.interactions if set(subset) <= set(query)]

    def share(self, subset: Attributes) -> Fraction:
        """Compute the squared norm of a record in the projection to an interaction.

        Parameters
        ----------
        subset
            The attributes of the interaction.

        Returns
        -------
        Fraction
            The squared norm.
        """
        return math.prod((1 - Fraction(1, self.sizes[i]) for i in subset), start=Fraction(1))

    def effect(self, subset: Attributes) -> Fraction:
        """Compute the total variance of all queries that a variance of 1 in an interaction adds.

        Parameters
        ----------
        subset
            The attributes of the interaction.

        Returns
        -------
        Fraction
            The variance.
        """
        cells = math.prod(self.sizes[i] for i in subset)
        spread = sum(
            Fraction(1, math.prod(self.sizes[i] for i in query if i not in subset))
            for query in self.queries
            if set(subset) <= set(query)
        )
        return self.share(subset) * cells * spread

    def _grid(self, subset: Attributes) -> Grid:
        """That of the projection times the number of its cells, which has whole entries."""
        cells = math.prod(self.sizes[i] for i in subset)
        return grid_for(
            sigma=checks.exact("sigma", self.sigma) * _relative_noise(self)[subset] * cells,
            sensitivity=Fraction(1),
            dimension=1,
            grid_log2=-_FINER,
            scale_log2=0,
        )

    def _measured(self, records: Integers, subset: Attributes, bits: RandomBits) -> Floats:
        """The noisy interaction, projected once more, which takes out noise and nothing else."""
        shape = tuple(self.sizes[i] for i in subset)
        cells = math.prod(shape)
        places = np.zeros(len(records), np.int64)
        for attribute in subset:
            places = places * self.sizes[attribute] + records[:, attribute]
        table: NDArray[Any] = np.bincount(places, minlength=cells).reshape(shape)
        for axis, size in enumerate(shape):
            table = size * table - table.sum(axis=axis, keepdims=True)
        high, low = (half << _FINER for half in halves(table.reshape(-1).astype(np.int64)))
        noisy = self._grid(subset).release(high, low, bits=bits).reshape(shape) / cells
        for axis in range(len(shape)):
            noisy = noisy - noisy.mean(axis=axis, keepdims=True)
        return noisy

    def _records(self, records: ArrayLike) -> Integers:
        array = elements.integers(
            "records",
            records,
            dimensions=2,
            width=len(self.sizes),
            expected="whole numbers of 64 bits",
        )
        if array.ndim != 2 or array.shape[1] != len(self.sizes):
            expected = f"the shape (records, {len(self.sizes)})"
            raise InvalidParameter("records", array.shape, expected=expected)
        tops = np.array(self.sizes, np.int64) - 1
        return np.clip(array, 0, tops)


@lru_cache(maxsize=64)
def _relative_noise(marginals: Marginals) -> dict[Attributes, Fraction]:
    """The noise of each interaction over sigma, rounded up, so that no more is spent."""
    shares = {s: float(marginals.share(s)) for s in marginals.interactions}
    effects = {s: float(marginals.effect(s)) for s in marginals.interactions}
    whole = math.fsum(math.sqrt(shares[s] * effects[s]) for s in shares)
    alone = len(shares) == 1
    return {
        s: Fraction(1)
        if alone
        else inverse_root_up(Fraction(math.sqrt(effects[s] / share) / whole) * _LESS)
        for s, share in shares.items()
    }


def _listed(argument: str, value: object) -> list[Any]:
    if isinstance(value, str) or not isinstance(value, Iterable):
        raise InvalidParameter(argument, value, expected="a sequence of whole numbers")
    return list(value)


def _queries(value: object, sizes: tuple[int, ...]) -> tuple[Attributes, ...]:
    found = []
    for query in _listed("queries", value):
        places = [
            whole_number("queries", place, least=0, most=len(sizes) - 1)
            for place in _listed("queries", query)
        ]
        if len(set(places)) < len(places) or len(places) > _MOST_ATTRIBUTES_OF_ONE:
            raise InvalidParameter("queries", query, expected="at most 16 different attributes")
        if math.prod(sizes[i] for i in places) > _LARGEST_TABLE:
            raise InvalidParameter("queries", query, expected="tables of at most 2^22 cells")
        found.append(tuple(sorted(places)))
    if not found or len(set(found)) < len(found):
        raise InvalidParameter("queries", value, expected="different marginals, one at least")
    return tuple(found)
