"""`unacorda fit`: a regression with valid intervals, by a formula."""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

import math
import re
import shlex
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Any, NoReturn

from unacorda.checks import demand
from unacorda.cli import params, render
from unacorda.cli.ledger import account
from unacorda.cli.missing import Missing
from unacorda.cli.tables import Asked, asked, data
from unacorda.errors import InvalidParameter, MissingBound
from unacorda.privacy.guarantees import PureDP, left_of
from unacorda.query.expressions.language import identifier, literal

if TYPE_CHECKING:
    from unacorda.inference.regression.results import Summary
    from unacorda.privacy.guarantees import Guarantee
    from unacorda.query.plan.query import Query
    from unacorda.query.session import Session


_MODELS = {
    "linear": "LinearRegression",
    "logistic": "LogisticRegression",
    "poisson": "PoissonRegression",
    "quantile": "QuantileRegression",
}


@params.verb(short_help="Fit a regression to a table of people.")
@data("FORMULA")
@params.option(
    "--model", params.one_of(*_MODELS), "The regression.", default="linear", show_default=True
)
@params.option(
    "--quantile", params.number(above=0, below=1), "Of --model quantile; 0.5 is the median."
)
@params.option("--where", "CONDITION", "Rows that count, such as \"test = 'hdl'\".")
@params.option("--weight", "COLUMN", "Weights of rows, from 0 to 1: a column or an expression.")
@params.unit(max_rows="count")
@params.price()
@params.facts
@params.keys
@account(notes=True)
@params.json_option
@asked("FORMULA", price="--mu 1")
def fit(
    *, asked: Asked, model: str, quantile: Any, as_json: bool, where: str | None, weight: str | None
) -> None:
    r"""Fit a regression to a table of people: coefficients with intervals that count sampling
    and the noise of every step.

    A formula is TARGET ~ TERM + TERM. A term is a column of numbers; C(column) for a column of
    categories, listed with --keys or --columns, of which the first is the reference; a function
    such as ln(x); or I(...) around arithmetic and conditions. Rows without a value, or with a
    category that is not listed, are left out. Public bounds of columns (--bounds) are used if
    given, and clamp nothing; other bounds are found for a twentieth of the budget.

    Examples:
      unacorda fit patients.csv --row --mu 1 "weight ~ age + height"
      unacorda fit labs.csv --unit id --max-rows 1 --mu 1 --model logistic \
          --where "test = 'hdl'" "I(value > 40) ~ days + I(days * days)"
      unacorda fit visits.csv --unit person_id --max-rows 5 --rho 0.5 --model poisson \
          --keys county=A,B,C "nights ~ age + C(county)"

    Models: linear (least squares), logistic (a target of 0 and 1, or a condition), poisson (counts)
    and quantile (the median, or --quantile). Needs the extra `inference`.
    """
    of_quantile = {} if quantile is None else {"quantile": float(quantile)}
    expected = "--model quantile with it"
    demand(model == "quantile" or not of_quantile, "--quantile", str(quantile), expected=expected)
    wanted = partial(
        _Regression,
        formula=read_formula(asked.text),
        keys=asked.keys,
        model=_MODELS[model],
        options=of_quantile,
        typed=asked.data.typed,
        where=where,
        weight=weight,
    )
    with asked.free() as session:
        start = session.table(asked.data.name)
        wanted(start=start).check(asked.request, missing=asked.missing)
    with render.working("Fitting ..."), asked.paid("fit") as (session, spends):
        start = session.table(asked.data.name)
        summary = wanted(start=start).fitted(session, spends)
        left = left_of(session.remaining, session.budget)
    if as_json:
        stated: dict[str, Any] = {
            "model": model,
            "formula": asked.text,
            "spent": repr(summary.guarantee),
        }
        stated |= {"coefficients": summary.to_dicts(), "cannot": summary.cannot}
        render.as_json(stated | {"notes": summary.notes})
        return
    render.lines(summary)
    if asked.account is not None:
        render.line(f"Account {asked.account.name!r}: {left}.")


_UNTYPED = (
    "a CSV file states no types. Read as numbers, so that a row without one counts nowhere: {}. "
    "For categories write C(column), and list its values with --keys"
)


def _of_text(column: str) -> str:
    """What to write for a column whose type is text."""
    name = identifier(column) if not column.isidentifier() else column
    return (
        f"numbers: column {column!r} is of text. For categories write C({name}) and list them with "
        f"--keys {shlex.quote(f'{column}=A,B')}; for numbers that are written as text declare "
        f"--bounds {shlex.quote(f'{column}=LOWER:UPPER')} or write I(TRY_CAST({identifier(column)} "
        "AS DOUBLE))"
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class _Regression:
    """A regression as it is asked for of a session's table.

    start: the table; model: its name in `unacorda.inference`; options: of the model; typed: whether
    the table states the types of columns; where, weight: of the rows.
    """

    start: Query
    formula: Formula
    keys: params.GivenKeys
    model: str
    options: Mapping[str, float]
    typed: bool
    where: str | None
    weight: str | None

    def check(self, request: Guarantee, *, missing: Missing) -> None:
        """Raise what the fit would raise before it reads data; InvalidParameter for what it lacks.

        So a fit that cannot be asked does not open an account, which could not be undone.
        """
        from unacorda.query.fit import rows_of

        listed = {term.column for term in self.formula.terms if term.categories}
        expected = "COLUMN=A,B,C for a column that the formula has as C(column)"
        demand(not isinstance(self.keys, str), "--keys", self.keys, expected=expected)
        for column, values in self._listed.items():
            demand(column in listed and values is not None, "--keys", column, expected=expected)
        for term in self.formula.terms:
            missing.take(partial(list, self._features(term)), [])
        if missing.faults:
            raise missing.error()
        if self.typed and (texts := self._texts()):
            raise InvalidParameter("FORMULA", texts[0], expected=_of_text(texts[0]))
        rows_of(self._rows(), **self._columns(), weight=self.weight)
        target = self.formula.target
        if self.model == "PoissonRegression" and self._largest() == math.inf:
            expected = f"public bounds of {target.text}, the counts"
            raise MissingBound("--bounds", expected=expected, column=target.column)
        expected = (
            "--delta with it, or --rho or --mu: normal noise, which a fit adds, keeps no pure DP"
        )
        wanted = str(request).removeprefix("epsilon ")
        demand(not isinstance(request, PureDP), "--epsilon", wanted, expected=expected)

    def fitted(self, session: Session, budget: Guarantee) -> Summary:
        """Fit, and pay for it; a summary with the names of the terms."""
        import unacorda.inference

        options, columns = dict(self.options), self._columns()
        if self.model == "PoissonRegression":
            options["largest"] = self._largest()
        model = getattr(unacorda.inference, self.model)(budget=budget, **options)
        session.fit(model, self._rows(), **columns, weight=self.weight)
        model.feature_names_in_ = [
            name for term in self.formula.terms for name, _ in self._features(term)
        ]
        summary: Summary = model.summary()
        if texts := self._texts():
            note = _UNTYPED.format(", ".join(texts))
            summary = replace(summary, notes=(*summary.notes, note))
        return summary

    def _texts(self) -> list[str]:
        """The columns without a type that a term uses as a number."""
        found = dict[str, None]()
        for term in (self.formula.target, *self.formula.terms):
            if term.column is None:
                found |= dict.fromkeys(self._converting(str(term.expression)))
            elif not term.categories:
                name = self.start.scope.resolve(term.column, argument="FORMULA")
                found |= {name: None} if self._untyped(name) else {}
        return list(found)

    def _untyped(self, name: str) -> bool:
        """Whether a column is of text that may be read as something else, and is not declared."""
        return len(self.start.scope.readings(name)) > 1 and name not in self.start.scope.facts

    def _largest(self) -> float:
        """The public upper bound of the target, infinite where there is none."""
        return self.start.scope.parse(self._columns()["target"], argument="FORMULA").upper

    @property
    def _listed(self) -> Mapping[str, Sequence[str] | None]:
        return {} if isinstance(self.keys, str) else self.keys

    def _rows(self) -> Query:
        return self.start if self.where is None else self.start.where(self.where)

    def _columns(self) -> dict[str, Any]:
        """The target, and the features of all terms."""
        terms = self.formula.terms
        ((_, target),) = self._features(self.formula.target)
        features = [text for term in terms for _, text in self._features(term)]
        return {"features": features, "target": target}

    def _features(self, term: FormulaTerm) -> Iterator[tuple[str, str]]:
        """The label and the expression of each feature."""
        if term.column is None:
            yield term.text, self._converted(str(term.expression))
        elif not term.categories:
            yield term.column, self._typed(term.column, "DOUBLE")
        else:
            values = self._levels(term.column)
            base, *others = map(literal, values)
            name = identifier(term.column)
            if isinstance(values[0], bool | int):
                kind = "BOOLEAN" if isinstance(values[0], bool) else "DOUBLE"
                name = self._typed(term.column, kind)
            for level in others:
                # A value that is not listed is missing, so that its row counts nowhere.
                rest = ", ".join(one for one in (base, *others) if one != level)
                test = f"WHEN {name} = {level} THEN 1 WHEN {name} IN ({rest}) THEN 0"
                yield f"{term.column}[{level.strip(chr(39))}]", f"CASE {test} END"

    def _converting(self, expression: str) -> list[str]:
        """The columns of text that an expression uses as numbers."""
        scope = self.start.scope
        used = scope.parse(expression, argument="FORMULA").columns
        return [
            one.label for name, one in scope.by_identifier.items() if name in used and one.converts
        ]

    def _converted(self, expression: str) -> str:
        """The expression, with columns of text that it uses as numbers converted."""
        from unacorda.query.expressions.language import Name, Node, Operation, text_of
        from unacorda.query.expressions.reader import meaning

        names = {name.casefold() for name in self._converting(expression)}

        def converted(node: Node) -> Node:
            match node:
                case Name(name) if name.casefold() in names:
                    return Operation("TRY_CAST", (node,), "DOUBLE")
                case Operation(operands=operands):
                    return replace(node, operands=tuple(map(converted, operands)))
                case _:
                    return node

        return text_of(converted(meaning(expression))) if names else expression

    def _typed(self, column: str, kind: str) -> str:
        """A column as a type of SQL; one of a CSV file that is not declared is converted."""
        name = self.start.scope.resolve(column, argument="FORMULA")
        text = identifier(name)
        return f"TRY_CAST({text} AS {kind})" if self._untyped(name) else text

    def _levels(self, column: str) -> Sequence[Any]:
        """The public values of a column of categories; InvalidParameter where none are listed."""
        from unacorda.query.schema.keys import typed_keys
        from unacorda.query.schema.table import Categories

        scope = self.start.scope
        name, kinds = scope.resolve(column, argument="FORMULA"), set()
        fact, values = scope.facts.get(name), self._listed.get(column)
        if values is not None:
            kinds = {reading.kind for reading in scope.column(name, argument="FORMULA")}
            found: Sequence[Any] = typed_keys(f"--keys, {column!r}", values, kinds)
        elif isinstance(fact, Categories):
            found = [value for value in fact.values if value is not None]
        else:
            option = f"--keys {shlex.quote(f'{name}=A,B')}"
            raise InvalidParameter(option, None, expected=f"{option}, the values of C({column})")
        expected = "two values or more, each once"
        demand(len(set(found)) == len(found) > 1, "--keys", f"{column}={values}", expected=expected)
        return found


_FORM = 'TARGET ~ TERM + TERM, such as "value ~ age + C(sex)"'
_TERMS = (
    "a column, C(column) for one of categories, a function such as ln(x), or I(...) around "
    "arithmetic, such as I(age * age)"
)
_COLUMN = re.compile(r'\w+|"(?:[^"]|"")+"')
_CALL = re.compile(r"(\w+)\s*\((.*)\)", re.DOTALL)


@dataclass(frozen=True, slots=True, kw_only=True)
class FormulaTerm:
    """A term: an expression, or a column alone, or a column of categories."""

    text: str
    expression: str | None = None
    column: str | None = None
    categories: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Formula:
    """A target and the terms that explain it."""

    target: FormulaTerm
    terms: tuple[FormulaTerm, ...]


def read_formula(text: str) -> Formula:
    """The formula of a text; InvalidParameter, with the place, for what is none.

    >>> [term.text for term in read_formula("value ~ age + C(sex) + I(age * age)").terms]
    ['age', 'C(sex)', 'I(age * age)']
    """
    sides = list(_split(text, "~", 0, len(text)))
    if len(sides) != 2:
        _refuse(text, 0, len(text), _FORM)
    left, right = sides
    target = _term(text, *left)
    found: list[FormulaTerm] = []
    if target.categories:
        _refuse(text, *left, "a number, or a condition such as I(value > 40), left of ~")
    for place in _split(text, "+", *right):
        term = _term(text, *place)
        if term.text in {one.text for one in found}:
            _refuse(text, *place, "each term once")
        if term.text != "1":  # the intercept, which there is anyway
            found.append(term)
    if not found:
        _refuse(text, *right, _TERMS)
    return Formula(target=target, terms=tuple(found))


def _split(text: str, sign: str, start: int, end: int) -> Iterator[tuple[int, int]]:
    """The places of the parts between signs that are in no brackets and quotes."""
    depth, quote, begin = 0, "", start
    for place in range(start, end):
        char = text[place]
        if quote:
            quote = "" if char == quote else quote
        elif char in "'\"":
            quote = char
        elif char in "()":
            depth += 1 if char == "(" else -1
            if depth < 0:
                _refuse(text, place, place + 1, "brackets that are opened before they are closed")
        elif char == sign and depth == 0:
            yield begin, place
            begin = place + 1
    if quote or depth:
        _refuse(text, begin, end, "quotes and brackets that are closed")
    yield begin, end


def _term(text: str, start: int, end: int) -> FormulaTerm:
    part = text[start:end].strip()
    if part == "1":
        return FormulaTerm(text=part)
    if part in ("0", "-1"):
        _refuse(text, start, end, "the intercept left in: every model here has one")
    if _COLUMN.fullmatch(part) and not part[0].isdigit():
        return FormulaTerm(text=part, column=_bare(part))
    call = _CALL.fullmatch(part)
    if call is None or not _balanced(call[2]):
        _refuse(text, start, end, _TERMS)
    name, inside = call.groups()
    if name == "C":
        column = inside.strip()
        if not _COLUMN.fullmatch(column):
            _refuse(text, start, end, "the name of a column in C(...)")
        return FormulaTerm(text=part, column=_bare(column), categories=True)
    return FormulaTerm(text=part, expression=inside.strip() if name == "I" else part)


def _balanced(inside: str) -> bool:
    """Whether no bracket closes before it was opened: that of a call is then its last one."""
    try:
        return bool(list(_split(inside, "+", 0, len(inside))))
    except InvalidParameter:
        return False


def _bare(column: str) -> str:
    return column[1:-1].replace('""', '"') if column.startswith('"') else column


def _refuse(text: str, start: int, end: int, expected: str) -> NoReturn:
    """Raise InvalidParameter that shows the part without blanks around it."""
    part = text[start:end]
    start += len(part) - len(part.lstrip())
    place = start, max(start + 1, start + len(part.strip()))
    raise InvalidParameter("FORMULA", part.strip() or text, expected=expected).placed(text, place)
