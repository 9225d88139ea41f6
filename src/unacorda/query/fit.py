"""Models fitted to a table: reserved once, asked in scans, each with its own noise.

A model asks for noisy sums, one scan after the other, the next after it has seen the last. What
all of them may cost is reserved before the engine runs, and nothing is given back: a fit that dies
stays spent. Before that the whole fit is rehearsed on made-up answers, so that whatever cannot be
asked is refused for nothing.

The digest of a fit holds the model in words that are the same in every process: of a model with
parameters, as scikit-learn has them, these; of a dataclass its fields; of another object what it
holds. So no address in memory is among them; what has no such text is named by its class alone.
"""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

import copy
import dataclasses
import datetime as dt
import enum
import hashlib
import json
import math
from collections.abc import Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, field
from decimal import Decimal
from fractions import Fraction
from typing import Any, Protocol, TypeVar

import numpy as np

from unacorda.accounting.charges import charge, request_price
from unacorda.bits import RandomBits
from unacorda.checks import demand
from unacorda.errors import InvalidParameter, UnsafeExpression
from unacorda.mechanisms.additive.real import Gaussian
from unacorda.mechanisms.contributions import SumRequest
from unacorda.privacy.guarantees import GDP, Guarantee
from unacorda.query.aggregates.base import expression_of
from unacorda.query.aggregates.linear import VectorSum
from unacorda.query.engines.compile import Statement
from unacorda.query.engines.engine import Admitted, Engine, HeldRows, sql_of
from unacorda.query.engines.fit_sums import FitRelation, FitScan, noise_of, size_of
from unacorda.query.execution import ExecutionContext, check_engine, salt_from
from unacorda.query.expressions.language import Expression, identifier
from unacorda.query.plan.query import Query
from unacorda.query.schema.units import Person

_DEEPEST = 20


def stated(value: object, *, deepest: int = _DEEPEST) -> Any:
    """A value as JSON holds it; equal ones alike, also in another process.

    >>> from fractions import Fraction
    >>> stated({"share": Fraction(1, 3), "ends": (0, 2.5)})
    {'dict': {'share': {'Fraction': '1/3'}, 'ends': [0, 2.5]}}
    """
    if value is None or type(value) in (bool, int, str):
        return value
    if type(value) is float:
        return value if math.isfinite(value) else {"float": repr(value)}
    if isinstance(value, enum.Enum):
        return {_name(type(value)): value.name}
    if isinstance(value, Fraction | Decimal | dt.date | dt.timedelta | bytes | complex):
        return {type(value).__name__: str(value)}
    if deepest == 0:
        return {"unstated": _name(type(value))}

    def inner(part: object) -> Any:
        return stated(part, deepest=deepest - 1)

    if isinstance(value, np.ndarray | np.generic):
        return {f"numpy {value.dtype}": inner(value.tolist())}
    if isinstance(value, list | tuple):
        return [inner(part) for part in value]
    if isinstance(value, set | frozenset):
        return {"set": sorted((inner(part) for part in value), key=repr)}
    if isinstance(value, Mapping):
        return {"dict": {str(key): inner(part) for key, part in value.items()}}
    if isinstance(value, type) or (callable(value) and hasattr(value, "__qualname__")):
        return {"named": _name(value)}
    return {_name(type(value)): {name: inner(part) for name, part in _held(value).items()}}


def _held(value: object) -> Mapping[str, object]:
    """What an object is made of."""
    if hasattr(value, "get_params") and not isinstance(value, type):
        return dict(value.get_params(deep=False))
    if dataclasses.is_dataclass(value):
        return {one.name: getattr(value, one.name) for one in dataclasses.fields(value)}
    return dict(getattr(value, "__dict__", {}))


def _name(named: Any) -> str:
    return f"{named.__module__}.{named.__qualname__}"


@dataclass(frozen=True, slots=True, kw_only=True)
class FitRows:
    """The rows of a question, each with features and a target, and perhaps a weight.

    found: the expressions of the features, and at last that of the target; weight: that of the
    weight.
    """

    query: Query
    features: tuple[str, ...]
    found: tuple[Expression, ...]
    weight: Expression | None

    def relation(self) -> FitRelation:
        """The bounded rows that have all their numbers; the weight may be missing."""
        columns = {text: f"v{place}" for place, text in enumerate(self.query.inputs)}
        *features, target = [columns[one.sql] for one in self.found]
        weight = None if self.weight is None else columns[self.weight.sql]
        return FitRelation.bounded(features, target, weight=weight)


def rows_of(
    query: Query, *, features: Sequence[str], target: str, weight: str | None = None
) -> FitRows:
    """The rows of a question that has no aggregates yet.

    Raises InvalidParameter for what is no number of its table, and for a weight whose public range
    says that it is more than 1.
    """
    expected = "a table's name, or a question without groups and aggregates"
    demand(query.begun, "table", query, expected=expected)
    several = not isinstance(features, str) and list(features)
    demand(several, "features", features, expected="a list of columns or expressions")
    found = [_number(one, query, argument="features") for one in features]
    found.append(_number(target, query, argument="target"))
    weighed = None if weight is None else _number(weight, query, argument="weight")
    if weighed is not None:
        expected = "numbers within [0, 1], as more counts as 1: by the bounds of its columns it is "
        expected += f"up to {weighed.upper:g}. Divide by that, or write 'least({weight}, 1)'"
        demand(not 1 < weighed.upper < math.inf, "weight", weight, expected=expected)
        expected = "numbers above 0, as what is below counts as 0: by the bounds of its columns it "
        expected += f"is at most {weighed.upper:g}"
        demand(weighed.upper > 0, "weight", weight, expected=expected)
    numbers = VectorSum(
        columns=(*features, target, *filter(None, [weight])),
        norm=Fraction(1),
        expressions=(*found, *filter(None, [weighed])),
    )
    asked = dataclasses.replace(query, aggregates={}).agg(numbers=numbers)
    return FitRows(query=asked, features=tuple(features), found=tuple(found), weight=weighed)


def _number(column: str, query: Query, *, argument: str) -> Expression:
    """A column or an expression that is a number, or a condition, which is 1 or 0."""
    fault: InvalidParameter | None = None
    try:
        found = expression_of(column, query.scope)
    except UnsafeExpression:
        raise
    except InvalidParameter as error:
        fault = error
    if fault is not None:
        raise fault.about(argument, column)
    texts = sorted(x.label for x in query.rows.origins(found.columns) if x.converts)
    if texts:
        expected = f"numbers: {texts[0]!r} holds text, for all that is public. Of numbers that are "
        expected += f"written as text, as in CSV, declare columns={{{texts[0]!r}: unacorda."
        expected += f"Bounds(0, 100)}}, or write TRY_CAST({identifier(texts[0])} AS DOUBLE). Of "
        expected += "categories write conditions, one fewer than there are categories, such as "
        expected += f"{identifier(texts[0])} = 'yes'"
        raise InvalidParameter(argument, column, expected=expected)
    return found


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


@dataclass(frozen=True, slots=True, kw_only=True)
class NoisyTable:
    """What a model asks. Nothing of it but noisy numbers and public facts."""

    asked: _Rehearsal | _Scans
    relation: FitRelation
    purse: Purse

    @property
    def features(self) -> tuple[str, ...]:
        """The features, as the caller named them."""
        return self.asked.rows.features

    @property
    def bounds(self) -> list[tuple[float, float]]:
        """Public ranges of the features, infinite where nothing is known."""
        return [(one.lower, one.upper) for one in self.asked.rows.found[:-1]]

    @property
    def target_bounds(self) -> tuple[float, float]:
        """That of the target."""
        return self.asked.rows.found[-1].lower, self.asked.rows.found[-1].upper

    @property
    def weighted(self) -> bool:
        """Whether rows have weights of their own, within [0, 1]."""
        return self.asked.rows.weight is not None

    @property
    def repeated(self) -> int:
        """How many rows one unit has at most."""
        return self.asked.rows.query.reach.rows

    @property
    def replaced(self) -> bool:
        """Whether neighbors differ by a unit that is replaced; else it is added or removed."""
        return self.asked.rows.query.reach.replaced

    @property
    def protects(self) -> str:
        """Whom the noise hides, in words."""
        change = "replaced" if self.asked.rows.query.reach.replaced else "added or removed"
        return f"{self.asked.rows.query.limited} {change}"

    def count(self, budget: GDP) -> tuple[float, float]:
        """How many rows have all numbers, features and target, and the deviation of the noise."""
        self.purse.pay(budget)
        ((values, noise),) = self.asked.answers(FitScan(relation=self.relation, counted=budget))
        return values[0], noise

    def sums(self, columns: Sequence[Mapping[str, str]], wishes: Sequence[SumRequest]) -> Answers:
        """Noisy sums in one scan, each with the deviation of the noise of its numbers.

        columns: expressions by name, over the features x0, x1, ..., the target y, the weight where
        there is one, and the names of the mappings before.
        """
        for wish in wishes:
            self.purse.pay(wish.budget)
        scan = FitScan(relation=self.relation, columns=columns, wishes=wishes)
        return self.asked.answers(scan)

    def keep(self, columns: Sequence[Mapping[str, str]], names: Sequence[str]) -> NoisyTable:
        """The same rows with other columns, which alone are asked about from here on.

        columns: as of `sums`; names: which of them, and of those before, there will be.
        """
        relation = self.relation
        for mapping in columns:
            relation = relation.beside(mapping)
        kept = self.asked.kept(relation.only(names))
        return dataclasses.replace(self, relation=kept)


_MADE_UP = 1e12
"""How many rows a rehearsal finds."""

_FREE = GDP(10**12)
"""What it may cost: more than anyone asks for."""


class Fits(Protocol):
    """A model that can be fit to a table."""

    @property
    def budget(self) -> Guarantee:
        """What a fit may cost, any guarantee that normal noise keeps."""
        ...

    def fit_table(self, table: Any) -> object:
        """Fit to a `NoisyTable`, twice: first to a rehearsal, with made-up answers."""
        ...


M = TypeVar("M", bound=Fits)


def fitted(context: ExecutionContext, model: M, rows: FitRows) -> M:
    """Fit a model; raises as `Session.fit` does."""
    request = _asks(model)
    check_engine(context.admission.engine)
    salt = salt_from(context.bits)
    request_price(request, context.budget)  # refuses a budget of another unit
    admitted = context.admission.admit(rows.query, salt=salt)
    rehearsal, relation = _Rehearsal(rows=rows, asked=admitted), rows.relation()
    free = NoisyTable(asked=rehearsal, relation=relation, purse=Purse(_FREE))
    copy.copy(model).fit_table(free)
    whole = GDP.from_squared(GDP.within(request).mu_squared)
    event = Gaussian.for_guarantee(whole, l2_sensitivity=1).event
    reservation = context.reserve(
        event,
        request,
        cost=charge(event, request, context.budget),
        digest=_digest(model, rows),
        salt=salt,
        unit=rows.query.unit,
    )
    # To bound people takes long, rows nothing.
    keep = isinstance(rows.query.limited, Person) and admitted.engine.room > 0
    with closing(context.hold(admitted, reservation, keep=keep)) as held:
        scans = _Scans(rows=rows, engine=admitted.engine, held=held, bits=context.bits)
        model.fit_table(NoisyTable(asked=scans, relation=relation, purse=Purse(whole)))
    return model


@dataclass(frozen=True, slots=True, kw_only=True)
class _Rehearsal:
    """Answers that are made up, of questions that the engine could be asked. Reads no data."""

    rows: FitRows
    asked: Admitted

    def answers(self, scan: FitScan) -> Answers:
        """Very many rows, and sums of nothing."""
        engine, asked = self.asked.engine, self.asked
        statement = sql_of(asked, engine, Statement)
        for select, _ in scan.selects():
            engine.check(self.rows.query, dataclasses.replace(statement, counts=select))
        answers: Answers = [] if scan.counted is None else [([_MADE_UP], 0.0)]
        for wish in scan.wishes:
            noise = noise_of(wish, self.rows.query.reach).standard_deviation
            answers.append(([0.0] * size_of(wish), noise))
        return answers

    def kept(self, relation: FitRelation) -> FitRelation:
        """As it is: nothing is computed."""
        return relation


@dataclass(slots=True, kw_only=True)
class _Scans:
    """Answers from the engine.

    Rows are kept where they have room, by the number of rows that was released: never by their
    number.
    """

    rows: FitRows
    engine: Engine
    held: HeldRows
    bits: RandomBits
    _kept: list[str] = field(default_factory=lambda: ["bounded"])
    _number: float = math.inf

    def answers(self, scan: FitScan) -> Answers:
        """The exact sums of a scan with noise."""
        noises = scan.noises(self.rows.query.reach)
        answers: Answers = []
        for part, noise in zip(scan.parts(self._read(scan)), noises, strict=True):
            noisy = noise.release(part, bits=self.bits)
            answers.append(([float(one) for one in noisy], noise.standard_deviation))
        if scan.counted is not None:
            ((self._number,), _), *_ = answers
        return answers

    def kept(self, relation: FitRelation) -> FitRelation:
        """The same rows, computed once where there is room, in place of those kept before."""
        if self._number * len(relation.columns) > self.engine.room:
            return relation
        name = f"rows{len(self._kept)}"
        self.held.keep(name, relation.text)
        self.held.forget(self._kept[-1])
        self._kept.append(name)
        self.engine.check_sources()
        return relation.kept(name)

    def _read(self, scan: FitScan) -> list[int]:
        """All integers."""
        found: list[int] = []
        for select, measures in scan.selects():
            exact = self.held.run(select, measures=measures).sums
            found += [column[0] if column else 0 for column in exact]
        return found


def _asks(model: Any) -> Guarantee:
    """What a fit may cost; InvalidParameter for what cannot be fit to a table."""
    expected = (
        "a model of unacorda.inference that is fit by sums: LinearRegression, RidgeRegression, "
        "LogisticRegression, PoissonRegression, QuantileRegression or MEstimator"
    )
    if hasattr(model, "estimator") or isinstance(getattr(model, "steps", None), list):
        expected = (
            "the model inside alone: pipelines, searches and selections look at rows one by one, "
            "which do not leave the engine. Leave feature_bounds out, or fit to arrays"
        )
    fits = callable(getattr(model, "fit_table", None)) and not isinstance(model, type)
    demand(fits, "model", model, expected=expected)
    budget = getattr(model, "budget", None)
    if not isinstance(budget, Guarantee):
        raise InvalidParameter("budget", budget, expected="a guarantee such as unacorda.GDP(1)")
    return budget


def _digest(model: object, rows: FitRows) -> str:
    """Of what is fit to what: a function of the question alone."""
    weighted = rows.weight is not None
    asked = {"model": stated(model), "rows": rows.query.to_dict(), "weighted": weighted}
    return hashlib.sha256(json.dumps(asked).encode()).hexdigest()
