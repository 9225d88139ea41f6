"""All small datasets of a domain, which of them are neighbors, and suprema over distances."""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

from collections.abc import Callable, Sequence
from fractions import Fraction
from itertools import combinations, combinations_with_replacement
from typing import Any

from unacorda import AddRemove
from unacorda.privacy.neighbors import Neighbors

Data = tuple[Any, ...]


class SmallData:
    """The graph of all datasets of at most `size` records of the domain."""

    def __init__(self, domain: Sequence[Any], size: int, neighbors: Neighbors) -> None:
        self.neighbors, self.size = neighbors, size
        self.data = [
            data
            for count in range(size + 1)
            for data in combinations_with_replacement(domain, count)
        ]
        self.beside: dict[Data, set[Data]] = {data: set() for data in self.data}
        order = {record: place for place, record in enumerate(domain)}
        for data in self.data:
            for place in range(len(data)):
                rest = data[:place] + data[place + 1 :]
                if neighbors is AddRemove:
                    self.beside[data].add(rest)
                    self.beside[rest].add(data)
                    continue
                for record in domain:
                    other = tuple(sorted((*rest, record), key=order.__getitem__))
                    if other != data:
                        self.beside[data].add(other)

    def within(self, start: Data, distance: int) -> dict[Data, int]:
        """How far each dataset is that is no farther than that."""
        found, edge = {start: 0}, {start}
        for step in range(1, distance + 1):
            edge = {data for one in edge for data in self.beside[one]} - found.keys()
            found.update(dict.fromkeys(edge, step))
        return found

    def local(self, start: Data, answers: dict[Data, Any], distance: int) -> Any:
        """The farthest answer within a distance; `start` must be that far from the largest data."""
        return max(abs(answers[data] - answers[start]) for data in self.within(start, distance))

    def down(self, start: Data, answers: dict[Data, Any], distance: int) -> Any:
        """The farthest answer where records are removed alone."""
        return max(
            abs(answers[part] - answers[start])
            for count in range(max(0, len(start) - distance), len(start) + 1)
            for part in combinations(start, count)
        )

    def answers(self, value: Callable[[list[Any]], Any]) -> dict[Data, Fraction]:
        """The answer of every dataset."""
        return {data: Fraction(value(list(data))) for data in self.data}
