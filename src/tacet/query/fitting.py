"""Models fit to the rows of a question: reserved once, asked in scans, each with its own noise.

A model asks for noisy sums, one scan after the other, the next after it has seen the last. What
all of them may cost is reserved before the engine runs, and nothing is given back: a fit that dies
stays spent. Before that the whole fit is rehearsed on made-up answers, so that whatever cannot be
asked is refused for nothing.
"""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

import copy
import dataclasses
import hashlib
import json
import math
from collections.abc import Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, field
from typing import Any, Protocol, TypeVar

from tacet.accounting.charges import charge, request_price
from tacet.bits import RandomBits
from tacet.errors import InvalidParameter
from tacet.ledger.entries import Reservation
from tacet.ledger.ledger import Ledger
from tacet.mechanisms.additive import Gaussian
from tacet.privacy.guarantees import GDP, Guarantee
from tacet.query.compile import Statement
from tacet.query.engines.protocol import Engine, Held
from tacet.query.fit_rows import Rows
from tacet.query.fit_sums import Relation, Wish, counts_of, noise_of, size_of
from tacet.query.noise import additive_noise
from tacet.query.parameters import stated
from tacet.query.reserving import check_engine, reserved, salt_from
from tacet.query.sensitivity import of_counts

__all__ = ["Fits", "M", "fitted"]

_MADE_UP = 1e12
"""How many rows a rehearsal finds."""


class Fits(Protocol):
    """A model that can be fit to a table.

    budget: what a fit may cost, any guarantee that normal noise keeps.
    """

    @property
    def budget(self) -> Guarantee:
        """What a fit may cost."""
        ...

    def fit_table(self, table: Any) -> object:
        """Fit to what is asked of `Asking`, twice: first of a rehearsal, with made-up answers."""
        ...


M = TypeVar("M", bound=Fits)


def fitted(
    model: M,
    rows: Rows,
    engine: Engine,
    ledger: Ledger,
    dataset: str,
    *,
    account: Guarantee,
    bits: RandomBits,
    notes: Mapping[str, str | None],
) -> M:
    """Fit a model; raises as `Session.fit` does. notes: who asks, and what for."""
    _check_model(model)
    check_engine(engine)
    salt = salt_from(bits)
    request = model.budget
    request_price(request, account)  # refuses a budget of another unit
    rehearsal = _Rehearsal(rows=rows, engine=engine, bounded=rows.statement(engine, salt=salt))
    copy.copy(model).fit_table(_Asking(rows=rows, relation=rows.relation, asked=rehearsal))
    whole = _whole(request)
    event = Gaussian.for_guarantee(whole, l2_sensitivity=1).event
    reservation = reserved(
        ledger,
        dataset,
        engine,
        charge=charge(event, request, account),
        event=event,
        request=request,
        digest=_digest(model, rows),
        salt=salt,
        bits=bits,
        notes=notes,
    )
    scans = _Scans(
        rows=rows,
        engine=engine,
        salt=salt,
        bits=bits,
        left=whole,
        ledger=ledger,
        reservation=reservation,
    )
    with closing(scans):
        model.fit_table(_Asking(rows=rows, relation=rows.relation, asked=scans))
    return model


_Answers = list[tuple[list[float], float]]


class _Asked(Protocol):
    """What answers a model."""

    def answers(
        self,
        relation: Relation,
        columns: Sequence[Mapping[str, str]],
        wishes: Sequence[Wish],
        counted: GDP | None,
    ) -> _Answers:
        """The noisy number of rows, where it is asked for, then noisy sums: in one scan."""
        ...

    def kept(self, relation: Relation) -> Relation:
        """The same rows, computed once where there is room for them."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class _Asking:
    """What a model asks. Nothing of it but noisy numbers and public facts."""

    rows: Rows
    relation: Relation
    asked: _Asked

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
    def protects(self) -> str:
        """Whom the noise hides, in words."""
        change = "replaced" if self.rows.query.reach.replaced else "added or removed"
        return f"{self.rows.query.limited} {change}"

    def count(self, budget: GDP) -> tuple[float, float]:
        """How many rows have all numbers, features and target, and the deviation of the noise."""
        ((values, noise),) = self.asked.answers(self.relation, [], [], budget)
        return values[0], noise

    def sums(self, columns: Sequence[Mapping[str, str]], wishes: Sequence[Wish]) -> _Answers:
        """Noisy sums in one scan, each with the deviation of the noise of its numbers.

        columns: expressions by name, over the features x0, x1, ..., the target y, the weight where
        there is one, and the names of the mappings before.
        """
        return self.asked.answers(self.relation, columns, wishes, None)

    def keep(self, columns: Sequence[Mapping[str, str]], names: Sequence[str]) -> _Asking:
        """The same rows with other columns, which alone are asked about from here on.

        columns: as of `sums`; names: which of them, and of those before, there will be.
        """
        relation = self.relation
        for mapping in columns:
            relation = relation.beside(mapping)
        kept = self.asked.kept(relation.only(names))
        return dataclasses.replace(self, relation=kept)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Rehearsal:
    """Answers that are made up, of questions that the engine could be asked. Reads no data."""

    rows: Rows
    engine: Engine
    bounded: Statement

    def answers(
        self,
        relation: Relation,
        columns: Sequence[Mapping[str, str]],
        wishes: Sequence[Wish],
        counted: GDP | None,
    ) -> _Answers:
        """Very many rows, and sums of nothing."""
        asked = counts_of(relation, columns, wishes)
        query = self.rows.query
        self.engine.check(query, dataclasses.replace(self.bounded, counts=asked.counts))
        answers: _Answers = [] if counted is None else [([_MADE_UP], 0.0)]
        for wish in wishes:
            noise = noise_of(wish, query.reach).standard_deviation
            answers.append(([0.0] * size_of(wish), noise))
        return answers

    def kept(self, relation: Relation) -> Relation:
        """As it is: nothing is computed."""
        return relation


@dataclass(slots=True, kw_only=True)
class _Scans:
    """Answers from the engine, each paid from what is left of the whole.

    Rows are kept where they have room, by the number of rows that was released: never by their
    number.
    """

    rows: Rows
    engine: Engine
    salt: int
    bits: RandomBits
    left: GDP
    ledger: Ledger
    reservation: Reservation
    _held: Held | None = None
    _kept: list[str] = field(default_factory=lambda: ["bounded"])
    _number: float = math.inf
    _committed: bool = False

    def answers(
        self,
        relation: Relation,
        columns: Sequence[Mapping[str, str]],
        wishes: Sequence[Wish],
        counted: GDP | None,
    ) -> _Answers:
        """One scan: paid, read, committed where it is the first, answered."""
        reach = self.rows.query.reach
        for budget in [wish.budget for wish in wishes] + ([] if counted is None else [counted]):
            if budget.mu_squared > self.left.mu_squared:
                raise AssertionError("more is asked for than was reserved")
            self.left = GDP.from_squared(self.left.mu_squared - budget.mu_squared)
        noises = [noise_of(wish, reach) for wish in wishes]
        asked = counts_of(relation, columns, wishes)
        exact = self._there.run(asked.counts, measures=asked.measures).sums
        self.engine.check_sources()
        if not self._committed:
            self.ledger.commit(self.reservation)
            self._committed = True
        sums = [column[0] if column else 0 for column in exact]
        answers: _Answers = []
        if counted is not None:
            noise = additive_noise(counted, of_counts(reach), unit_log2=0, counts=True)
            (number,) = noise.release(sums[:1], bits=self.bits)
            self._number = float(number)
            answers.append(([self._number], noise.standard_deviation))
        start = 1
        for wish, noise in zip(wishes, noises, strict=True):
            end = start + size_of(wish)
            noisy = noise.release(sums[start:end], bits=self.bits)
            answers.append(([float(one) for one in noisy], noise.standard_deviation))
            start = end
        return answers

    def kept(self, relation: Relation) -> Relation:
        """The same rows, computed once where there is room, in place of those kept before."""
        if self._number * len(relation.columns) > self.engine.room:
            return relation
        name = f"rows{len(self._kept)}"
        self._there.keep(name, relation.text)
        self._there.forget(self._kept[-1])
        self._kept.append(name)
        self.engine.check_sources()
        return relation.kept(name)

    def close(self) -> None:
        """Forget all rows."""
        if self._held is not None:
            self._held.close()

    @property
    def _there(self) -> Held:
        if self._held is None:
            self._held = self.rows.held(self.engine, salt=self.salt)
        return self._held


def _whole(request: Guarantee) -> GDP:
    """The Gaussian DP that a request is worth, of which all scans take their parts."""
    return GDP.from_squared(GDP.within(request).mu_squared)


def _check_model(model: object) -> None:
    if not callable(getattr(model, "fit_table", None)) or isinstance(model, type):
        raise InvalidParameter("model", model, expected=_instead(model))
    budget = getattr(model, "budget", None)
    if not isinstance(budget, Guarantee):
        raise InvalidParameter("budget", budget, expected="a guarantee such as tacet.GDP(1)")


def _instead(model: object) -> str:
    """What to fit in place of a model that cannot be fit to a table, and why."""
    if hasattr(model, "steps"):
        return (
            "a model alone: the steps of a pipeline read rows one by one, which do not leave the "
            "engine. Scale by bounds that session.find_bounds finds: hand them to the model as "
            "feature_bounds"
        )
    if hasattr(model, "estimator"):
        return (
            "the estimator inside alone: what selects features or parameters deals rows out by "
            "their places, and a table has none. Choose by what is public, or fit several and "
            "share the budget, or fit to arrays"
        )
    return (
        "a model of tacet.inference that is fit by sums: LinearRegression, RidgeRegression, "
        "LogisticRegression, PoissonRegression, QuantileRegression or MEstimator"
    )


def _digest(model: object, rows: Rows) -> str:
    """Of what is fit to what: a function of the question alone."""
    weighted = rows.weight is not None
    asked = {"model": stated(model), "rows": rows.query.to_dict(), "weighted": weighted}
    return hashlib.sha256(json.dumps(asked).encode()).hexdigest()
