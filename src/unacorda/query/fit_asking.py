"""What a model may ask of a table, and of what each answer is paid.

Units may be dealt out to two parts, each with all that is left: nobody is in both.
"""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

import dataclasses
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from unacorda.mechanisms.selection.top import TopK
from unacorda.privacy import events
from unacorda.privacy.guarantees import GDP
from unacorda.query.fit_rows import Rows
from unacorda.query.fit_sums import Counted, Relation, Wish, farthest_of, totals_of

__all__ = ["Answers", "Asked", "Asking", "Purse"]

Answers = list[tuple[list[float], float]]
"""Noisy numbers, and the deviation of the noise of each."""


@dataclass(slots=True)
class Purse:
    """What is left of the Gaussian DP that each of some units may lose."""

    left: GDP

    def pay(self, budget: GDP) -> None:
        """Take it out of what is left; AssertionError where it is more."""
        if budget.mu_squared > self.left.mu_squared:
            raise AssertionError("more is asked for than was reserved")
        self.left = GDP.from_squared(self.left.mu_squared - budget.mu_squared)

    def shared_out(self) -> tuple[Purse, Purse]:
        """All that is left for each of two parts of the units, and nothing for them together."""
        whole, self.left = self.left, GDP(0)
        return Purse(whole), Purse(whole)


class Asked(Protocol):
    """What answers a model, once an answer has been paid. parted: of a part of the units."""

    def answers(
        self,
        relation: Relation,
        columns: Sequence[Mapping[str, str]],
        wishes: Sequence[Wish],
        counted: GDP | None,
        *,
        parted: bool,
    ) -> Answers:
        """The noisy number of rows, where it is asked for, then noisy sums: in one scan."""
        ...

    def best(self, asked: Counted, mechanism: TopK) -> list[int]:
        """The places of the sums that a mechanism finds farthest from 0: in one scan."""
        ...

    def kept(self, relation: Relation) -> Relation:
        """The same rows, computed once where there is room for them."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Asking:
    """What a model asks. Nothing of it but noisy numbers, noisy choices and public facts.

    salt: of 128 bits, for what is drawn.
    """

    rows: Rows
    relation: Relation
    asked: Asked
    purse: Purse
    salt: int

    @classmethod
    def of(cls, rows: Rows, asked: Asked, *, whole: GDP, salt: int) -> Asking:
        """All of the rows, for the whole of a budget."""
        relation = rows.relation()
        return cls(rows=rows, relation=relation, asked=asked, purse=Purse(whole), salt=salt)

    @property
    def features(self) -> tuple[str, ...]:
        """The features, as the caller named them."""
        return self.rows.features

    @property
    def bounds(self) -> list[tuple[float, float]]:
        """Public ranges of the features, infinite where nothing is known."""
        if self.rows.moves:
            return [(-math.inf, math.inf)] * len(self.features)
        return [(one.lower, one.upper) for one in self.rows.found[:-1]]

    @property
    def target_bounds(self) -> tuple[float, float]:
        """That of the target."""
        return self.rows.found[-1].lower, self.rows.found[-1].upper

    @property
    def weighted(self) -> bool:
        """Whether rows have weights of their own, within [0, 1]."""
        return self.rows.weight is not None

    @property
    def repeated(self) -> int:
        """How many rows one unit has at most."""
        return self.rows.query.reach.rows

    @property
    def protects(self) -> str:
        """Whom the noise hides, in words."""
        change = "replaced" if self.rows.query.reach.replaced else "added or removed"
        return f"{self.rows.query.limited} {change}"

    def count(self, budget: GDP) -> tuple[float, float]:
        """How many rows have all numbers, features and target, and the deviation of the noise."""
        ((values, noise),) = self._answered([], [], budget)
        return values[0], noise

    def sums(self, columns: Sequence[Mapping[str, str]], wishes: Sequence[Wish]) -> Answers:
        """Noisy sums in one scan, each with the deviation of the noise of its numbers.

        columns: expressions by name, over the features x0, x1, ..., the target y, the weight where
        there is one, and the names of the mappings before.
        """
        return self._answered(columns, wishes, None)

    def keep(self, columns: Sequence[Mapping[str, str]], names: Sequence[str]) -> Asking:
        """The same rows with other columns, which alone are asked about from here on.

        columns: as of `sums`; names: which of them, and of those before, there will be.
        """
        relation = self.relation
        for mapping in columns:
            relation = relation.beside(mapping)
        kept = self.asked.kept(relation.only(names))
        return dataclasses.replace(self, relation=kept)

    def parts(self, share: float) -> tuple[Asking, Asking]:
        """Two parts of the units, drawn blindly, the first about this share of them.

        Each may cost all that is left, since nobody is in both; this table is not asked again.
        """
        rows = self.rows.parts(share, salt=self.salt)
        purses = self.purse.shared_out()
        first, second = (
            dataclasses.replace(self, rows=part, relation=part.relation(), purse=purse)
            for part, purse in zip(rows, purses, strict=True)
        )
        return first, second

    def chosen(self, places: Sequence[int]) -> Asking:
        """The rows with the features at these places alone; others may be missing."""
        rows = self.rows.chosen(places)
        return dataclasses.replace(self, rows=rows, relation=rows.relation())

    def rescaled(self, centre: Sequence[float], scale: Sequence[float]) -> Asking:
        """The same rows, each feature less a centre, over a scale; its range counts as unknown."""
        rows = self.rows.rescaled(centre, scale)
        return dataclasses.replace(self, rows=rows, relation=rows.relation())

    def best(
        self,
        columns: Sequence[Mapping[str, str]],
        terms: Sequence[str],
        *,
        bound: int,
        count: int,
        budget: GDP,
    ) -> tuple[list[int], events.Event]:
        """The places of the sums that are farthest from 0, but for noise, and what they cost.

        Of all rows that have a target; a feature may be missing. columns: as of `sums`; terms:
        expressions, cut to `bound` in size and rounded, and added up.
        """
        relation = self.rows.relation(gaps=True)
        asked = totals_of(relation, columns, terms, bound=bound)
        mechanism = farthest_of(
            budget, self.rows.query.reach, bound=bound, count=count, parted=self._parted
        )
        self.purse.pay(budget)
        return self.asked.best(asked, mechanism), mechanism.event

    @property
    def _parted(self) -> bool:
        return self.rows.part is not None

    def _answered(
        self,
        columns: Sequence[Mapping[str, str]],
        wishes: Sequence[Wish],
        counted: GDP | None,
    ) -> Answers:
        for budget in [wish.budget for wish in wishes] + ([] if counted is None else [counted]):
            self.purse.pay(budget)
        return self.asked.answers(self.relation, columns, wishes, counted, parted=self._parted)
