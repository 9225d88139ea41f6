r"""Histograms: rows by bin, between public edges or between edges that are found privately.

Bins are disjoint, as cells are: the counts of all bins of all cells have the sensitivity of one
count over as many groups. Between given edges, a bin holds the values from its lower edge up to
below its upper one, the last bin its upper edge too, as is the custom; what lies below the first
edge and above the last is counted in two bins of its own, which cost nothing.

Found edges are quantiles that cut the rows into bins of about the same number of them
(`multi_quantiles`). They cost a fourth of the budget; the rest buys the noise of the counts between
them, which are counted exactly once the edges are known: each edge is a released number.
"""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, ClassVar, Final

import numpy as np

from unacorda import checks
from unacorda.bits import RandomBits
from unacorda.checks import Number
from unacorda.errors import InvalidParameter
from unacorda.privacy import events
from unacorda.query.aggregates.base import (
    Answer,
    Assumption,
    Exact,
    Forecast,
    weight_of,
)
from unacorda.query.aggregates.grid_counts import Ranking
from unacorda.query.aggregates.joint_quantiles import Chain
from unacorda.query.aggregates.linear import Linear, released
from unacorda.query.aggregates.multi_quantiles import Cutting, GridQuantiles, finding
from unacorda.query.aggregates.quantiles import given
from unacorda.query.aggregates.top_k import place_between
from unacorda.query.expressions.quoting import double
from unacorda.query.expressions.types import Kind
from unacorda.query.noise.additive import CONFIDENCE, AdditiveNoise, Share, additive_noise
from unacorda.query.noise.sensitivity import Sensitivity, of_counts
from unacorda.query.schema.units import Reach

__all__ = ["EqualBins", "FoundBins", "Histogram", "histogram"]

_MOST_EDGES = 1_001
_MOST_FOUND = 100
_FINDING: Final = Fraction(1, 4)  # of the share, for found edges
_EDGES = "a bin has its lower edge, the last one between edges its upper edge too"


@dataclass(frozen=True, slots=True, kw_only=True)
class Histogram(Linear):
    """Rows by bin between given edges, and in one bin on either side of them."""

    tag: ClassVar[str] = "histogram"
    reads: ClassVar[Mapping[str, Kind | None]] = {"column": Kind.NUMBER}
    counts: ClassVar[bool] = True

    column: str
    edges: tuple[float, ...]

    @property
    def lines(self) -> int:
        """One for each bin, and for what lies outside."""
        return len(self.edges) + 1

    @property
    def integers(self) -> int:
        """One for each line."""
        return self.lines

    @property
    def each(self) -> str:
        """What the noise is added to."""
        return f", in each of {self.lines:,} bins"

    @property
    def notes(self) -> tuple[str, ...]:
        """Where a value at an edge counts."""
        return (f"{_EDGES}; the first line is what lies below all edges, the last what lies above",)

    def rankings(self, values: Sequence[str]) -> tuple[Ranking, ...]:
        """The rows by bin."""
        place = place_between(values[0], [double(edge) for edge in self.edges])
        return (Ranking(place=place, steps=self.lines - 1),)

    def sensitivity(self, reach: Reach) -> Sensitivity:
        """That of one count over as many groups."""
        return of_counts(reach.split(self.lines))

    def integers_of(self, exact: Exact) -> Sequence[int]:
        """The counts, bin by bin."""
        (counted,) = exact.rankings
        found: list[int] = counted.counts.ravel().tolist()
        return found

    def answers(self, exact: Exact, noise: AdditiveNoise, bits: RandomBits) -> Mapping[str, Answer]:
        """Noisy counts, bin by bin, each with the edges it lies between."""
        ((part, found),) = Linear.answers(self, exact, noise, bits).items()
        cells = len(found.values) // self.lines
        beside = {"from": [None, *self.edges] * cells, "to": [*self.edges, None] * cells}
        return {part: dataclasses.replace(found, beside=beside)}


@dataclass(frozen=True, slots=True, kw_only=True)
class FoundBins:
    """The cuts that find the edges, and the noise of the counts between them."""

    cutting: Cutting | Chain
    counts: AdditiveNoise

    @property
    def event(self) -> events.Event:
        """What edges and counts of all cells together cost."""
        return self.cutting.event + self.counts.event

    @property
    def log_scale(self) -> float:
        """The logarithm of the noise, to compare ways to spend one budget."""
        return self.cutting.log_scale + self.counts.log_scale


@dataclass(frozen=True, slots=True, kw_only=True)
class EqualBins(GridQuantiles):
    """Rows by bin, between edges that are found so that bins hold about as many rows each."""

    tag: ClassVar[str] = "equalbins"

    @property
    def lines(self) -> int:
        """One for each bin."""
        return len(self.wanted) + 1

    def noise(self, share: Share, reach: Reach) -> FoundBins:
        """The cuts and the counts within the share."""
        moved = of_counts(reach.split(self.lines))
        return FoundBins(
            cutting=finding(share * _FINDING, reach, self.wanted),
            counts=additive_noise(share * (1 - _FINDING), moved, unit_log2=0, counts=True),
        )

    def answers(self, exact: Exact, noise: Any, bits: RandomBits) -> Mapping[str, Answer]:
        """Noisy counts, bin by bin, each with the edges it lies between."""
        (counted,) = exact.rankings
        low, high = self.limits
        places = self.places(exact, noise.cutting, bits).T
        ends = np.zeros((counted.cells, 1), np.int64), counted.totals[:, None]
        counts = np.diff(np.hstack([ends[0], counted.below(places), ends[1]]), axis=1)
        answer = released(counts.ravel().tolist(), noise.counts, bits)
        edges = self.grid.values(places).tolist()
        return {
            "": dataclasses.replace(
                answer,
                beside={
                    "from": [edge for cell in edges for edge in (low, *cell)],
                    "to": [edge for cell in edges for edge in (*cell, high)],
                },
            )
        }

    def forecast(self, noise: Any, reach: Reach, assume: Assumption | None) -> Forecast:
        """The error of each count is known, and by how many ranks the edges are off at most."""
        edges = GridQuantiles.forecast(self, noise.cutting, reach, None)
        del assume
        return Forecast(
            noise=f"{noise.counts}, in each of {self.lines:,} bins; their edges by the "
            f"{edges.noise}",
            sensitivity=of_counts(reach.split(self.lines)).reason,
            standard_error=noise.counts.standard_deviation,
            half_width=noise.counts.half_width(CONFIDENCE),
            rank_error=edges.rank_error,
            notes=(
                *edges.notes[:2],
                "the rank error is that of the edges; counts are those between the edges found",
                f"{_EDGES}; where many values are equal, edges may be so too, and a bin empty",
            ),
        )


def histogram(
    column: str,
    edges: Iterable[Number] | None = None,
    *,
    bins: int | None = None,
    lower: Number | None = None,
    upper: Number | None = None,
    resolution: Number | None = None,
    weight: Number = 1,
) -> Histogram | EqualBins:
    """Count rows by bin of a number column; one line of the release for each bin.

    edges: 2 to 1,001 public numbers, rising. A bin counts the values from its lower edge up to
    below its upper one; the last bin its upper edge too. Values below all edges and above all of
    them are counted in two lines of their own, whose `from` or `to` is None.
    bins: in place of edges, 2 to 100 bins of about as many rows each. Their edges are found
    privately for a fourth of this aggregate's budget, between the bounds, as `quantiles` finds
    them; values beyond the bounds count in the outer bins. Bounds and resolution as in `quantile`,
    weight as in `count`.

    >>> histogram("age", [0, 18, 65, 120]).lines
    5
    >>> histogram("income", bins=4, lower=0, upper=500_000).wanted[0]
    Fraction(1, 4)
    """
    if bins is None:
        if edges is None:
            raise InvalidParameter("edges", None, expected="public edges=[...], or bins=")
        ranges = {"lower": lower, "upper": upper, "resolution": resolution}
        for name, value in ranges.items():
            if value is not None:
                raise InvalidParameter(name, value, expected="it only with bins=")
        return Histogram(column=column, edges=_edges(edges), weight=weight_of(weight))
    if edges is not None:
        raise InvalidParameter("bins", bins, expected="either edges=[...] or bins=, not both")
    count = checks.positive_integer(bins=bins)
    if not 2 <= count <= _MOST_FOUND:
        raise InvalidParameter("bins", bins, expected=f"2 to {_MOST_FOUND}")
    return EqualBins(
        column=column,
        wanted=tuple(Fraction(number, count) for number in range(1, count)),
        **given(lower, upper, resolution=resolution, weight=weight),
    )


def _edges(edges: object) -> tuple[float, ...]:
    expected = f"2 to {_MOST_EDGES:,} numbers, rising"
    if isinstance(edges, str | bytes | Mapping) or not isinstance(edges, Iterable):
        raise InvalidParameter("edges", edges, expected=expected)
    listed = list(itertools.islice(edges, _MOST_EDGES + 1))
    if not 2 <= len(listed) <= _MOST_EDGES:
        raise InvalidParameter("edges", f"{len(listed):,} edges", expected=expected)
    exact = [checks.exact(f"edges[{index}]", edge) for index, edge in enumerate(listed)]
    largest = Fraction(2) ** 1000
    if any(abs(edge) > largest for edge in exact):
        raise InvalidParameter("edges", edges, expected="numbers between -2^1000 and 2^1000")
    found = tuple(float(edge) + 0.0 for edge in exact)
    for index, (below, above) in enumerate(itertools.pairwise(found), start=1):
        if not below < above:
            raise InvalidParameter(
                f"edges[{index}]",
                listed[index],
                expected=f"a number above {listed[index - 1]}, the edge before it",
            )
    return found
