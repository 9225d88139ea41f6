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

from unacorda.accounting.charges import charge, request_price
from unacorda.bits import RandomBits
from unacorda.errors import InvalidParameter
from unacorda.ledger.entries import Reservation
from unacorda.ledger.ledger import Ledger
from unacorda.mechanisms.additive import Gaussian
from unacorda.privacy.guarantees import GDP, Guarantee
from unacorda.query.engines.compile import Statement
from unacorda.query.engines.fit_sums import (
    Counted,
    Relation,
    Wish,
    count_noise,
    counts_of,
    noise_of,
    size_of,
)
from unacorda.query.engines.protocol import Admission, Admitted, Held, sql_of
from unacorda.query.execution import check_engine, reserve, salt_from
from unacorda.query.fit_asking import Answers, Asking
from unacorda.query.fit_rows import Rows
from unacorda.query.parameters import stated

__all__ = ["Fits", "M", "fitted"]

_MADE_UP = 1e12
"""How many rows a rehearsal finds."""

_FREE = GDP(10**12)
"""What it may cost: more than anybody asks for."""


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
    admission: Admission,
    ledger: Ledger,
    dataset: str,
    *,
    account: Guarantee,
    bits: RandomBits,
    notes: Mapping[str, str | None],
) -> M:
    """Fit a model; raises as `Session.fit` does.

    admission: of the session that is asked; notes: who asks, and what for.
    """
    request = _asks(model)
    engine = admission.engine
    check_engine(engine)
    salt = salt_from(bits)
    request_price(request, account)  # refuses a budget of another unit
    admitted = admission.admit(rows.query, salt=salt)
    rehearsal = _Rehearsal(rows=rows, asked=admitted)
    copy.copy(model).fit_table(Asking.of(rows, rehearsal, whole=_FREE))
    whole = GDP.from_squared(GDP.within(request).mu_squared)
    event = Gaussian.for_guarantee(whole, l2_sensitivity=1).event
    reservation = reserve(
        ledger,
        dataset,
        engine,
        charge=charge(event, request, account),
        event=event,
        request=request,
        digest=_digest(model, rows),
        unit=rows.query.unit,
        salt=salt,
        bits=bits,
        notes=notes,
    )
    scans = _Scans(
        rows=rows,
        asked=admitted,
        bits=bits,
        ledger=ledger,
        reservation=reservation,
    )
    with closing(scans):
        model.fit_table(Asking.of(rows, scans, whole=whole))
    return model


@dataclass(frozen=True, slots=True, kw_only=True)
class _Rehearsal:
    """Answers that are made up, of questions that the engine could be asked. Reads no data."""

    rows: Rows
    asked: Admitted

    def answers(
        self,
        relation: Relation,
        columns: Sequence[Mapping[str, str]],
        wishes: Sequence[Wish],
        counted: GDP | None,
    ) -> Answers:
        """Very many rows, and sums of nothing."""
        self._check(counts_of(relation, columns, wishes, number=counted is not None))
        answers: Answers = [] if counted is None else [([_MADE_UP], 0.0)]
        for wish in wishes:
            noise = noise_of(wish, self.rows.query.reach).standard_deviation
            answers.append(([0.0] * size_of(wish), noise))
        return answers

    def kept(self, relation: Relation) -> Relation:
        """As it is: nothing is computed."""
        return relation

    def _check(self, asked: Counted) -> None:
        statement = sql_of(self.asked, self.asked.engine, Statement)
        for select, _ in asked.selects:
            bounded = dataclasses.replace(statement, counts=select)
            self.asked.engine.check(self.rows.query, bounded)


@dataclass(slots=True, kw_only=True)
class _Scans:
    """Answers from the engine.

    Rows are kept where they have room, by the number of rows that was released: never by their
    number.
    """

    rows: Rows
    asked: Admitted
    bits: RandomBits
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
    ) -> Answers:
        """The exact sums of a scan with noise."""
        reach = self.rows.query.reach
        noises = [noise_of(wish, reach) for wish in wishes]
        asked = counts_of(relation, columns, wishes, number=counted is not None)
        parts = asked.parts(self._read(asked), wishes)
        answers: Answers = []
        if counted is not None:
            noise = count_noise(counted, reach)
            (number,) = noise.release(parts.pop(0), bits=self.bits)
            self._number = float(number)
            answers.append(([self._number], noise.standard_deviation))
        for part, noise in zip(parts, noises, strict=True):
            noisy = noise.release(part, bits=self.bits)
            answers.append(([float(one) for one in noisy], noise.standard_deviation))
        return answers

    def kept(self, relation: Relation) -> Relation:
        """The same rows, computed once where there is room, in place of those kept before."""
        if self._number * len(relation.columns) > self.asked.engine.room:
            return relation
        name = f"rows{len(self._kept)}"
        self._there.keep(name, relation.text)
        self._there.forget(self._kept[-1])
        self._kept.append(name)
        self.asked.engine.check_sources()
        return relation.kept(name)

    def _read(self, asked: Counted) -> list[int]:
        """All integers; the first scan commits the charge."""
        found: list[int] = []
        for select, measures in asked.selects:
            exact = self._there.run(select, measures=measures).sums
            self.asked.engine.check_sources()
            if not self._committed:
                self.ledger.commit(self.reservation)
                self._committed = True
            found += [column[0] if column else 0 for column in exact]
        return found

    def close(self) -> None:
        """Forget all rows."""
        if self._held is not None:
            self._held.close()

    @property
    def _there(self) -> Held:
        if self._held is None:
            self._held = self.rows.held(self.asked)
        return self._held


def _asks(model: Any) -> Guarantee:
    """What a fit may cost; InvalidParameter for what cannot be fit to a table."""
    if not callable(getattr(model, "fit_table", None)) or isinstance(model, type):
        raise InvalidParameter("model", model, expected=_instead(model))
    budget = getattr(model, "budget", None)
    if not isinstance(budget, Guarantee):
        raise InvalidParameter("budget", budget, expected="a guarantee such as unacorda.GDP(1)")
    return budget


def _instead(model: object) -> str:
    """What to fit in place of a model that cannot be fit to a table, and why."""
    if hasattr(model, "estimator") or isinstance(getattr(model, "steps", None), list):
        return (
            "the model inside alone: pipelines, searches and selections look at rows one by one, "
            "which do not leave the engine. Leave feature_bounds out, or fit to arrays"
        )
    return (
        "a model of unacorda.inference that is fit by sums: LinearRegression, RidgeRegression, "
        "LogisticRegression, PoissonRegression, QuantileRegression or MEstimator"
    )


def _digest(model: object, rows: Rows) -> str:
    """Of what is fit to what: a function of the question alone."""
    weighted = rows.weight is not None
    asked = {"model": stated(model), "rows": rows.query.to_dict(), "weighted": weighted}
    return hashlib.sha256(json.dumps(asked).encode()).hexdigest()
