"""What a model may ask of a table, and of what each answer is paid."""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from unacorda.privacy.guarantees import GDP
from unacorda.query.engines.fit_sums import Relation, Wish
from unacorda.query.fit_rows import Rows

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


class Asked(Protocol):
    """What answers a model, once an answer has been paid."""

    def answers(
        self,
        relation: Relation,
        columns: Sequence[Mapping[str, str]],
        wishes: Sequence[Wish],
        counted: GDP | None,
    ) -> Answers:
        """The noisy number of rows, where it is asked for, then noisy sums: in one scan."""
        ...

    def kept(self, relation: Relation) -> Relation:
        """The same rows, computed once where there is room for them."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Asking:
    """What a model asks. Nothing of it but noisy numbers and public facts."""

    rows: Rows
    relation: Relation
    asked: Asked
    purse: Purse

    @classmethod
    def of(cls, rows: Rows, asked: Asked, *, whole: GDP) -> Asking:
        """All of the rows, for the whole of a budget."""
        relation = rows.relation()
        return cls(rows=rows, relation=relation, asked=asked, purse=Purse(whole))

    @property
    def features(self) -> tuple[str, ...]:
        """The features, as the caller named them."""
        return self.rows.features

    @property
    def bounds(self) -> list[tuple[float, float]]:
        """Public ranges of the features, infinite where nothing is known."""
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
    def replaced(self) -> bool:
        """Whether neighbors differ by a unit that is replaced; else it is added or removed."""
        return self.rows.query.reach.replaced

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

    def _answered(
        self,
        columns: Sequence[Mapping[str, str]],
        wishes: Sequence[Wish],
        counted: GDP | None,
    ) -> Answers:
        for budget in [wish.budget for wish in wishes] + ([] if counted is None else [counted]):
            self.purse.pay(budget)
        return self.asked.answers(self.relation, columns, wishes, counted)
