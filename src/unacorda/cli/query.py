"""`unacorda query`: one private answer from a data file."""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

import contextlib
from collections.abc import Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from pathlib import Path
from typing import TYPE_CHECKING, Any

from unacorda.checks import demand, exact
from unacorda.cli import params, render
from unacorda.cli.errors import ExitCode, no_account
from unacorda.cli.ledger import PayingAccount, account, accounts, check_price, opened
from unacorda.cli.output import check_target, output, stored
from unacorda.cli.params import KEPT_SHARE, KEYS_ONCE, SEARCH_SHARE
from unacorda.cli.tables import ALWAYS, UNKEPT, Asked, asked, assumed, data, print_free
from unacorda.errors import InvalidParameter, UnacordaError, UnsafeExpression
from unacorda.privacy.guarantees import left_of

if TYPE_CHECKING:
    from unacorda.privacy.guarantees import Guarantee
    from unacorda.query.aggregates.hierarchy import GivenLevelWeights
    from unacorda.query.plan.query import Query
    from unacorda.query.results.explanation import Explanation
    from unacorda.query.results.release import Release
    from unacorda.query.session import Session
    from unacorda.query.sql.outputs import Select


_NO_KEPT = (
    "What share of the rows is kept is not estimated: it can be where --max-rows alone bounds the "
    "rows of a person, without --max-groups, --max-rows-per-group and joins of private tables."
)

_MARGINS = (
    "Each ± is a 95% interval of one cell, about the exact answer{about}. It counts the noise "
    "alone{rest}."
)

StandardErrors = Fraction | dict[str, Fraction]
"""One for all columns, or by column."""


def _standard_errors(texts: Sequence[str]) -> StandardErrors | None:
    """Standard errors: one for all columns, or by column; None where none are given.

    >>> _standard_errors(["n=10", "mean_age=0.5"])
    {'n': Fraction(10, 1), 'mean_age': Fraction(1, 2)}
    """
    found: dict[str, Fraction] = {}
    for text in texts:
        name, sign, value = text.rpartition("=")
        column = name.strip()
        fits = bool(sign) is bool(column) and column not in found and (sign or len(texts) == 1)
        expected = "NAME=X for each column of the answer, each once, or one X for all of them; of "
        expected += "ROLLUP and CUBE that is the error of the finest level"
        demand(fits, "--error", text, expected=expected)
        found[column] = exact("--error", value.strip())
        demand(found[column] > 0, "--error", text, expected="a standard error above 0")
    return found.get("", found) if found else None


def _level_weights(_name: str, text: str) -> GivenLevelWeights:
    return "overall" if text.strip() == "overall" else [one.strip() for one in text.split(",")]


@params.verb(short_help="Answer one SELECT about a table of people.")
@data("SELECT")
@params.unit(groups=True, max_rows="a question uses, over all groups together")
@params.price()
@params.facts
@params.keys
@params.flag(
    "--explain",
    "Print what would happen, cost and err, instead of asking: reads no data and spends nothing.",
)
@params.flag(
    "--detail", "With --explain: print the rows, the noise and what other budgets would buy too."
)
@params.option(
    "--assuming",
    "FILE",
    "With --explain or --error: a public or synthetic table with the same columns, on which "
    "the question is tried out with and without the limits on a person's rows.",
)
@params.option(
    "--error errors",
    "X|COLUMN=X",
    "In place of a budget: print the least budgets with which standard errors are at most X, "
    "of all columns or of one; of ROLLUP and CUBE that of the finest level. Reads no data and "
    "spends nothing. May be repeated.",
    multiple=True,
)
@params.flag(
    "--no-kept",
    "Leave out the estimate of the share of rows that --max-rows keeps, which costs a twentieth "
    "of the budget.",
)
@params.option(
    "--level-weights",
    params.Read(_level_weights, "X,Y,...|overall"),
    "Of ROLLUP and CUBE the parts of the budget by level, coarse to fine, or overall: the "
    "least error of all numbers together, whatever it is at coarse levels.",
)
@account(notes=True)
@output(
    "Write the table to a new .csv, .json or .parquet file. If that fails, the table is printed: "
    "an answer that was paid for is not lost."
)
@params.flag("--json as_json", "Print JSON, with how the answer was made.")
@asked("SELECT", unpriced="errors")
def query(
    *,
    asked: Asked,
    explain: bool,
    detail: bool,
    assuming: str | None,
    errors: Sequence[str],
    output: Path | None,
    overwrite: bool,
    as_json: bool,
    **options: Any,
) -> int | None:
    r"""Answer one SELECT about a table of people, with differential privacy.

    The SELECT may hold COUNT, SUM, AVG, MEDIAN, QUANTILE(x, 0.9), STDDEV, CORR, HISTOGRAM and
    others, with WHERE, JOIN, GROUP BY, HAVING, ORDER BY and LIMIT. The table has the name of its
    file (visits.csv is visits; characters other than letters, digits and _ become _), and also the
    name data. --table names several files. A file unacorda.toml can hold DATA, --table and options.
    Write a column name with spaces or special characters in double quotes.

    List every value of GROUP BY, with --keys or --columns: values are never read from the data. Or
    let --private-keys find the values that enough people have, which needs a --delta. Means,
    quantiles and variances need public bounds of their columns, with --bounds or --columns; a SUM
    is more accurate with them.

    Examples:
      unacorda query visits.csv --unit person_id --max-rows 10 --epsilon 1 \
          --bounds age=0:120 --keys county=A,B,C \
          "SELECT county, AVG(age) AS mean_age FROM visits GROUP BY county"
      unacorda query people.parquet --row --epsilon 0.5 --explain \
          "SELECT COUNT(*) AS n FROM people"
      unacorda query people.parquet --row --error n=10 \
          "SELECT COUNT(*) AS n FROM people"
      unacorda query visits.csv --unit person_id --max-rows 10 --rho 0.01 \
          --ledger sqlite:///budget.db --dataset visits-2024 --budget rho=0.1 \
          "SELECT COUNT(*) AS n FROM visits WHERE age >= 65"

    --max-rows says how many rows of one person may count. --max-rows auto finds a number privately,
    for a tenth of the budget; with --ledger only once per account.

    Without --ledger, nothing remembers what was spent. With --ledger, --budget opens the account
    the first time; later leave it out or repeat it. Questions beyond the budget are refused.
    --sub-account also spends from a limit below the account; --limit opens that limit.
    """
    wanted = _standard_errors(errors)
    demand(explain or not detail, "--detail", detail, expected="--explain with it")
    if wanted is not None:
        alone = not (asked.price.keys() - {"delta"} or explain or asked.account or output)
        expected = "it without a budget, --explain, --ledger and --output"
        demand(alone, "--error", list(errors), expected=expected)
        expected = "a number with --error, which reads no data and so finds none"
        demand(not asked.searches, "--max-rows", params.AUTO, expected=expected)
    elif not explain:
        demand(assuming is None, "--assuming", assuming, expected="--explain or --error with it")
    if assuming is None and (explain or wanted is not None):
        assuming = asked.data.stand_in
    question = CommandQuestion(asked=asked, assuming=assuming, **options)
    missing = asked.missing
    if missing.faults:
        missing.faults += question.lacking()
        raise missing.error()
    try:
        if wanted is not None:
            _suggest(question, wanted, as_json=as_json)
            return None
        if explain:
            _explain(question, detail=detail, as_json=as_json)
            return None
        check_target(output, "table", overwrite=overwrite)
        release, searched = _answered(question)
    except InvalidParameter as fault:  # raised before anything is spent
        if fault.lacks is None:
            raise
        missing.faults += question.lacking() or [fault]
        raise missing.error() from None
    if asked.account is None:
        render.notice(UNKEPT.format(asked="answer"))
    kept = output is not None and stored(release, output)
    if as_json:
        render.raw(release.to_json())
    elif not kept:
        _print_release(release, asked.account, searched=searched)
    return None if kept or output is None else ExitCode.FAILED


def _suggest(question: CommandQuestion, errors: StandardErrors, *, as_json: bool) -> None:
    """Print the least budget of every kind, as options; raises what is wrong with all of them."""
    from unacorda.settings import guarantee_of

    rest = dict(question.asked.price)
    own = exact("--delta", rest.get("delta", "0"))
    found: dict[str, dict[str, str]] = {}
    faults: list[UnacordaError] = []
    for kind in ("epsilon", "rho", "mu"):
        try:
            with question.session(budget=guarantee_of({kind: "1", **rest})) as session:
                least = question.suggest(session, errors, delta=own)
        except InvalidParameter as fault:
            faults.append(fault)
        else:
            found[kind] = {kind: f"{float(getattr(least, kind)):.10g}", **rest}
    if not found:
        raise faults[0]
    if as_json:
        render.as_json({"budgets": found})
        return
    render.line("The least budgets that reach this, each by itself:")
    for numbers in found.values():
        written = " ".join(f"--{name} {value}" for name, value in numbers.items())
        render.line(f"  {written}")
    print_free(question.assuming)


def _explain(wanted: CommandQuestion, *, detail: bool, as_json: bool) -> None:
    """Explain, under the account's terms where there is one; make none."""
    question, account = wanted.unsearched, wanted.asked.account
    known = () if account is None else accounts(account.ledger)
    budget = None if account is None else account.budget
    with contextlib.ExitStack() as stack:
        if account is not None and account.dataset in known:
            book = stack.enter_context(opened(account.ledger, must_exist=True))
            terms = account.terms(book)
            question = wanted.known(**terms) or question
            session = stack.enter_context(question.session(**terms))
            session, has_account = account.below(session, book, opens=False), True
        else:
            if account is not None and budget is None:
                render.notice(no_account(account.dataset, known))
            terms = {} if budget is None else {"budget": budget}
            session = stack.enter_context(question.session(**terms))
            has_account = budget is not None
        if wanted.asked.searches:
            _note_search(wanted.asked, question.asked)
        explanation = question.explain(session)
    if as_json:
        render.as_json(explained(explanation, has_account=has_account))
        return
    if not detail:
        from unacorda.query.results.explanation import HEADS

        render.print_table(HEADS, explanation.errors, left=1, repeated=1)
        render.raw()
    for text in explanation.page if detail else explanation.remarks:
        if has_account or not text.startswith("What is left: "):
            render.paragraph(text)
    if not detail:
        render.line("--detail shows the rows, the noise, and what other budgets would buy.")
    print_free(question.assuming)


def explained(explanation: Explanation, *, has_account: bool) -> dict[str, Any]:
    """The explanation in plain values; without an account nothing is left or affordable."""
    unknown = {} if has_account else {"left": None, "affordable": None}
    return {**explanation.to_dict(), **unknown}


def _note_search(wanted: Asked, known: Asked) -> None:
    """Say how many rows of a person the explanation is about, where they were not given."""
    rows = f"{known.unit.limits['max_rows']:,}"
    said = f"the account knows that {rows} rows of a person are to be kept: --max-rows."
    if known.request != wanted.request:
        said = (
            "finding how many rows of a person to keep comes first and costs "
            f"{wanted.request * SEARCH_SHARE}. This is explained for {rows}, the most that can be "
            "found: with fewer, errors are smaller."
        )
    render.notice(said)


def _answered(question: CommandQuestion) -> tuple[Release, Guarantee | None]:
    """The release, and what was paid beforehand to find how many rows of a person count."""
    account, wanted = question.asked.account, question.asked.request
    with render.working("Asking ..."), contextlib.ExitStack() as stack:
        terms: dict[str, Any] = {"budget": wanted}
        if account is not None:
            new = account.is_new()
            if new:
                account.check_limit()
                question.rehearse(budget=account.budget, account=account.dataset)
            book = stack.enter_context(opened(account.ledger, must_exist=False))
            terms = account.terms(book)
        if question.asked.searches:
            if account is not None:  # or a search would be paid for without its question
                account.check_left(question.unsearched.asked.request, None if new else book)
            question = question.found(**terms)
            rows = f"{question.asked.unit.limits['max_rows']:,}"
            said = f"at most {rows} rows of a person count: a number that was found privately."
            render.notice(said)
        session = stack.enter_context(question.session(**terms))
        session = session if account is None else account.below(session, book)
        # What a search was paid now; nothing where it was known.
        searched = None if question.asked.request == wanted else wanted * SEARCH_SHARE
        return question.answer(session), searched


def _print_release(
    release: Release, account: PayingAccount | None, *, searched: Guarantee | None
) -> None:
    left, repeated = len(release.groups), len(release.heads) - len(release.answers)
    render.print_table(release.heads, release.cells(), left=left, repeated=repeated)
    render.raw()
    if any(low is not None for answer in release.answers.values() for low in answer.lower):
        clamps = any(one.clamped for one in release.query.aggregates.values())
        rest = ", not the bias of clamping to bounds" if clamps else ""
        render.paragraph(_MARGINS.format(about=release.about, rest=rest))
    for text in (*release.legend, *release.readings):
        render.paragraph(text)
    if release.found is not None:
        render.paragraph(f"{release.found.sentence}.")
    if release.kept is not None:
        render.paragraph(f"{release.kept.sentence}.")
    elif release.query.drops_rows and not release.query.bounded_by_rows:
        render.paragraph(_NO_KEPT)
    rest = left_of(release.remaining, release.budget)
    rest = "" if account is None else f" Account {account.name!r}: {rest}."
    spent = f"Spent {release.charge}."
    if searched is not None:
        spent = (
            f"Spent {release.charge} for the answer, and {searched} to find how many rows of a "
            f"person count."
        )
    render.line(f"{spent}{rest}")


_MOST_LACKING = 20


@dataclass(frozen=True, slots=True, kw_only=True)
class CommandQuestion:
    """A SELECT that is asked; nothing is opened before `session` is.

    level_weights: of ROLLUP and CUBE; assuming: a public file on which an explanation tries it out.
    no_kept: whether the share of rows that are kept is left out.
    """

    asked: Asked
    level_weights: GivenLevelWeights = None
    assuming: str | None = None
    no_kept: bool = False

    def session(self, **account: Any) -> Session:
        """A session over the tables; account: its budget, dataset, ledger and so on.

        The table of a single file has the name the SELECT calls it by, the file's or `data`.
        """
        return self.asked.session(table=self._table(), **account)

    def explain(self, session: Session) -> Explanation:
        """What the question would do and cost; free."""
        query = self._query(session)
        kept = self._kept(query)
        return session.explain(
            query, budget=self.asked.request, kept=kept, assuming=assumed(self.assuming)
        )

    def suggest(self, session: Session, errors: Any, *, delta: Fraction) -> Guarantee:
        """The least budget of the session's kind that reaches these standard errors; free."""
        query = self._query(session)
        if isinstance(errors, Fraction):
            errors = dict.fromkeys(query.aggregates, errors)
        if (kept := self._kept(query)) is not None:
            query = query.with_kept(kept)
        return session.suggest_budget(
            query, error=errors, delta=delta, assuming=assumed(self.assuming)
        )

    def answer(self, session: Session) -> Release:
        """The answer, for its price."""
        asked: dict[str, Any] = {"keys": self._keys(session), "level_weights": self.level_weights}
        kept = self._kept(self._query(session))
        return session.sql(self.asked.text, budget=self.asked.request, kept=kept, **asked)

    def _kept(self, query: Query) -> Fraction | None:
        """The part of the budget for the share of rows kept, where bounds on rows drop some."""
        asks = not self.no_kept and query.drops_rows and query.bounded_by_rows
        return KEPT_SHARE if asks else None

    @property
    def unsearched(self) -> CommandQuestion:
        """The question as far as it is known: with the most rows, for what a search leaves it."""
        return replace(self, asked=self.asked.unsearched)

    def known(self, **account: Any) -> CommandQuestion | None:
        """The question with the rows of a person that the account knows; None where it knows none.

        Raises as `Asked.known_rows`.
        """
        known = self.asked.known_rows(**account)
        return None if known is None else self._with_bound(self.asked.request, **account)

    def _with_bound(self, request: Guarantee, **account: Any) -> CommandQuestion:
        """The question with the bound on rows that errs least for a request.

        The search is read in the account, or paid for. Its tables are called as their files, as
        those of every question about them are.
        """
        asked = replace(self.unsearched.asked, request=request)
        with self.asked.session(**account) as session:
            usual: Any = session.unit
            with replace(self, asked=asked).session(**account) as named:
                best = session.best_limits(self._query(named), budget=request)
        return replace(self, asked=replace(asked, unit=usual.with_rows(best or usual.max_rows)))

    def found(self, **account: Any) -> CommandQuestion:
        """The question with the rows of a person that the account knows, or that it pays for now.

        account: its budget, dataset, ledger and so on; the budget of the request where none is
        kept. Raises what the question raises before it reads data, and BudgetExceeded where not
        all of the request is left, before the search is paid for.
        """
        known = self.known(**account)
        if known is not None:
            return known
        free = self.unsearched
        with free.session(**account) as session:
            free.explain(session)
        return self._with_bound(free.asked.request, **account)

    def rehearse(self, *, budget: Guarantee | None, account: str) -> None:
        """Raise what the question would raise before it reads data, in an account of its own.

        So a question that cannot be asked does not open an account, which could not be undone.
        """
        from unacorda.query.session import check_affordable

        if self.asked.searches:
            self.unsearched.rehearse(budget=budget, account=account)
            check_price(self.asked.request, budget or self.asked.request, account)
            return
        with self.session(budget=budget, dataset=account) as session:
            check_affordable(self.explain(session).cost, session.budget, account)

    def _query(self, session: Session) -> Query:
        keys, weights = self._keys(session), self.level_weights
        query, _ = session.read_sql(self.asked.text, keys=keys, level_weights=weights)
        return query

    def _keys(self, session: Session) -> dict[str, Any] | str:
        """The keys as values of the columns that the SELECT groups by, or the table of them.

        A column of whole numbers, dates, booleans or text takes keys of that kind. A column of a
        CSV file without a declaration takes whole numbers where every key is one (01 is not), and
        text otherwise. InvalidParameter for keys of other columns and for keys that do not fit.
        """
        from unacorda.query.noise.selection import private_keys
        from unacorda.query.schema.keys import typed_keys
        from unacorda.query.sql.select import parse_select

        if isinstance(self.asked.keys, str):
            return self.asked.keys
        select = parse_select(self.asked.text, start=session.table)
        found: dict[str, Any] = {}
        for column, written in self.asked.keys.items():
            option = "--private-keys" if written is None else "--keys"
            name = _group_of(column, select, option=option)
            demand(name not in found, option, column, expected=KEYS_ONCE)
            if written is None:
                found[name] = private_keys()
            else:
                readings = select.rows.scope.column(name, argument=option)
                kinds = {reading.kind for reading in readings}
                found[name] = typed_keys(f"{option}, {column!r}", written, kinds)
        return found

    def _table(self) -> str | None:
        """What the SELECT calls the table of a single file; UnsafeExpression for another name."""
        from unacorda.query.sql.select import tables_of

        data = self.asked.data
        if data.file is None:
            return None
        tables = tables_of(self.asked.text)
        known = {name.casefold() for name in (data.name, ALWAYS, *data.public)}
        for table, place in tables.items():
            if table.casefold() not in known:
                names = " or ".join(dict.fromkeys([data.name, ALWAYS]))
                hint = f"Write {names}: the table of {data.file!r} is called by the file's name, "
                hint += f"with _ for other signs than letters, or {ALWAYS!r}. More tables are "
                hint += "named by --table and --public."
                reason = f"{table[:60]!r} is none of the tables of people"
                raise UnsafeExpression(self.asked.text, reason=reason, hint=hint, place=place)
        public = {name.casefold() for name in data.public}
        return next((table for table in tables if table.casefold() not in public), data.name)

    def lacking(self) -> list[InvalidParameter]:
        """What the question lacks, found by what is raised as one after the other is supposed."""
        from unacorda.privacy.guarantees import ApproxDP
        from unacorda.query.schema.table import Bounds

        found: list[InvalidParameter] = []
        asked = replace(self.asked.unsearched, request=ApproxDP(1, "1e-6"))
        while len(found) < _MOST_LACKING:
            question = replace(self, asked=asked)
            try:
                with question.session() as session:
                    question.explain(session)
            except InvalidParameter as fault:
                known = {(one.lacks, one.column) for one in found}
                if fault.lacks is None or (fault.lacks, fault.column) in known:
                    return found
                found.append(fault)
                column = fault.column or ""
                if fault.lacks == "bounds":
                    asked = replace(asked, facts={**asked.facts, column: Bounds(0, 1)})
                elif not isinstance(asked.keys, str):
                    asked = replace(asked, keys={**asked.keys, column: None})
            else:
                break
        return found


def _group_of(column: str, select: Select, *, option: str) -> str:
    """The group column of this name, or of its alias; InvalidParameter where there is none."""
    groups = select.group_names
    names = [groups[name] for name in groups if name.casefold() == column.casefold()]
    if not names:
        listed = ", ".join(select.shown) or "none, since it has no GROUP BY"
        expected = f"a column that the SELECT groups by: {listed}"
        raise InvalidParameter(option, column, expected=expected)
    return names[0]
