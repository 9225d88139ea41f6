"""`unacorda fit`: a regression with valid intervals, by a formula."""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

import contextlib
import math
import shlex
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Any

import click

from unacorda.checks import demand
from unacorda.cli import params, render
from unacorda.cli.errors import EXIT_CODES
from unacorda.cli.formula import Formula, FormulaTerm, read_formula
from unacorda.cli.ledger import PayingAccount, account, opened
from unacorda.cli.missing import Missing
from unacorda.cli.query import UNKEPT
from unacorda.cli.tables import DataTables, data, known_rows, terms_of
from unacorda.errors import InvalidParameter, MissingBound
from unacorda.privacy.guarantees import PureDP, left_of
from unacorda.query.expressions.quoting import escape, identifier

if TYPE_CHECKING:
    from unacorda.inference.regression.results import Summary
    from unacorda.privacy.guarantees import Guarantee
    from unacorda.query.plan.query import Query
    from unacorda.query.schema.facts import Fact
    from unacorda.query.session import Session

__all__ = ["fit"]

HELP = f"""Fit a regression to a table of people: coefficients with intervals that count sampling
and the noise of every step.

A formula is TARGET ~ TERM + TERM. A term is a column of numbers, C(column) for one of categories,
whose values --keys or --columns list, the first being the one the others are compared with; a
function such as ln(x), or I(...) around arithmetic and conditions. Rows that lack a value, or have
a category that is not listed, are left out. Public bounds of columns (--bounds) are taken where
they are given, and clip nothing; others are found for a twentieth of the budget.

\b
Examples:
  unacorda fit patients.csv --row --mu 1 "weight ~ age + height"
  unacorda fit labs.csv --unit id --max-rows 1 --mu 1 --model logistic \\
      --where "test = 'hdl'" "I(value > 40) ~ days + I(days * days)"
  unacorda fit visits.csv --unit person_id --max-rows 5 --rho 0.5 --model poisson \\
      --keys county=A,B,C "nights ~ age + C(county)"

Models: linear (least squares), logistic (a target of 0 and 1, or a condition), poisson (counts)
and quantile (the median, or --quantile). Needs the extra `inference`.

{EXIT_CODES}"""

_MODELS = {
    "linear": "LinearRegression",
    "logistic": "LogisticRegression",
    "poisson": "PoissonRegression",
    "quantile": "QuantileRegression",
}


@click.command(help=HELP, short_help="Fit a regression to a table of people.")
@data("FORMULA")
@params.option(
    "--model",
    params.one_of(*_MODELS),
    "The regression.",
    default="linear",
    show_default=True,
)
@params.option(
    "--quantile", params.number(above=0, below=1), "Of --model quantile; 0.5 is the median."
)
@params.option("--where", "CONDITION", "Rows that count, such as \"test = 'hdl'\".")
@params.option("--weight", "COLUMN", "Weights of rows, from 0 to 1: a column or an expression.")
@params.unit(
    max_rows="The most rows of one person that count; auto finds the number privately, for a tenth "
    "of the budget, once per account."
)
@params.price()
@params.facts
@params.keys
@account(notes=True)
@params.json_option
def fit(
    *,
    data: DataTables | None,
    text: str | None,
    model: str,
    quantile: Any,
    whose: dict[str, Any],
    price: Mapping[str, str],
    facts: Mapping[str, Fact],
    keys: params.GivenKeys,
    account: PayingAccount | None,
    as_json: bool,
    **rows: str | None,
) -> None:
    """The verb; its help is `HELP`. rows: `where` and `weight`."""
    missing = Missing(text, price="--mu 1")
    unit, request = terms_of(data, whose, price, missing=missing)
    formula = None if missing.needed(text, "FORMULA") is None else read_formula(str(text))
    if data is None or formula is None:
        raise missing.error()
    of_quantile = {} if quantile is None else {"quantile": float(quantile)}
    expected = "--model quantile with it"
    demand(model == "quantile" or not of_quantile, "--quantile", str(quantile), expected=expected)
    data.look()
    wanted = _Regression(
        formula=formula, keys=keys, model=_MODELS[model], options=of_quantile, **rows
    )
    options: dict[str, Any] = {"unit": unit, "columns": data.facts(facts)}
    supposed = options | {"unit": getattr(unit, "searched", unit), "budget": request}
    with data.session(**supposed) as session:
        wanted.check(session.table(data.name), request, missing=missing)
    with contextlib.ExitStack() as stack:
        if account is None:
            options["budget"] = request
        else:
            if account.is_new():
                account.check_limit()
            book = stack.enter_context(opened(account.ledger, must_exist=False))
            options |= account.terms(book)
        known_rows(data, request, **options)  # refuses what is more than is left
        stack.enter_context(render.working("Fitting ..."))
        session = stack.enter_context(data.session(**options))
        spends = request * (1 - params.SEARCH_SHARE) if session.searches else request
        if account is not None:
            session = account.below(session, book)
        summary = wanted.fitted(session, data.name, spends)
        left = left_of(session.remaining, session.budget)
    if account is None:
        render.notice(UNKEPT.format(asked="fit"))
    if as_json:
        stated = {"model": model, "formula": text, "spent": repr(summary.guarantee)}
        render.as_json({**stated, "coefficients": summary.to_dicts(), "cannot": summary.cannot})
        return
    render.line("\n".join(map(escape, str(summary).splitlines())))
    if account is not None:
        render.line(escape(f"Account {account.name!r}: {left}."))


@dataclass(frozen=True, slots=True, kw_only=True)
class _Regression:
    """A regression as it is asked for; nothing is opened.

    model: its name in `unacorda.inference`; options: of the model; where, weight: of the rows.
    """

    formula: Formula
    keys: params.GivenKeys
    model: str
    options: Mapping[str, float]
    where: str | None
    weight: str | None

    def check(self, start: Query, request: Guarantee, *, missing: Missing) -> None:
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
            missing.take(partial(list, self._features(start, term)), [])
        if missing.faults:
            raise missing.error()
        rows_of(self._rows(start), **self._columns(start), weight=self.weight)
        target = self.formula.target
        if self.model == "PoissonRegression" and self._largest(start) == math.inf:
            expected = f"public bounds of {target.text}, the counts"
            raise MissingBound("--bounds", expected=expected, column=target.column)
        expected = (
            "--delta with it, or --rho or --mu: normal noise, which a fit adds, keeps no pure DP"
        )
        demand(not isinstance(request, PureDP), "--epsilon", str(request), expected=expected)

    def fitted(self, session: Session, table: str, budget: Guarantee) -> Summary:
        """Fit, and pay for it; a summary with the names of the terms."""
        import unacorda.inference

        start = session.table(table)
        options, columns = dict(self.options), self._columns(start)
        if self.model == "PoissonRegression":
            options["largest"] = self._largest(start)
        model = getattr(unacorda.inference, self.model)(budget=budget, **options)
        session.fit(model, self._rows(start), **columns, weight=self.weight)
        summary: Summary = model.summary()
        labels = [name for term in self.formula.terms for name, _ in self._features(start, term)]
        return replace(summary, names=[*summary.names[: -len(labels)], *labels])

    def _largest(self, start: Query) -> float:
        """The public upper bound of the target, infinite where there is none."""
        return start.scope.parse(self._columns(start)["target"], argument="FORMULA").upper

    @property
    def _listed(self) -> Mapping[str, Sequence[str] | None]:
        return {} if isinstance(self.keys, str) else self.keys

    def _rows(self, start: Query) -> Query:
        return start if self.where is None else start.where(self.where)

    def _columns(self, start: Query) -> dict[str, Any]:
        """The target, and the features of all terms."""
        terms = self.formula.terms
        ((_, target),) = self._features(start, self.formula.target)
        features = [text for term in terms for _, text in self._features(start, term)]
        return {"features": features, "target": target}

    def _features(self, start: Query, term: FormulaTerm) -> Iterator[tuple[str, str]]:
        found = term.features(partial(self._typed, start), partial(self._levels, start))
        for label, expression in found:
            yield label, expression if term.column else self._converted(start, expression)

    @staticmethod
    def _converted(start: Query, expression: str) -> str:
        """The expression, with columns of text that it uses as numbers converted."""
        from unacorda.query.expressions.language import Name, Node, Operation, text_of
        from unacorda.query.expressions.reader import meaning

        used = start.scope.used(start.scope.parse(expression, argument="FORMULA").columns)
        names = {leaf.label.casefold() for leaf in used if leaf.converts}

        def converted(node: Node) -> Node:
            match node:
                case Name(name) if name.casefold() in names:
                    return Operation("TRY_CAST", (node,), "DOUBLE")
                case Operation(operands=operands):
                    return replace(node, operands=tuple(map(converted, operands)))
                case _:
                    return node

        return text_of(converted(meaning(expression))) if names else expression

    @staticmethod
    def _typed(start: Query, column: str, kind: str) -> str:
        """A column as a type of SQL; one of a CSV file that is not declared is converted."""
        name = start.scope.resolve(column, argument="FORMULA")
        several = len(start.scope.readings(name)) > 1 and name not in start.scope.facts
        return f"TRY_CAST({identifier(name)} AS {kind})" if several else identifier(name)

    def _levels(self, start: Query, column: str) -> Sequence[Any]:
        """The public values of a column of categories; InvalidParameter where none are listed."""
        from unacorda.query.plan.groups import typed_keys
        from unacorda.query.schema.facts import Categories

        scope = start.scope
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
