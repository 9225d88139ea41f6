"""The tables that a verb is about: a file, named files, or those of a file of settings."""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

import contextlib
import functools
import re
import warnings
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path, PurePath
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

import click

from unacorda.checks import demand
from unacorda.cli.ledger import PayingAccount, check_price, opened
from unacorda.cli.missing import Missing
from unacorda.cli.params import (
    FILE,
    SEARCH_SHARE,
    Decorator,
    GivenKeys,
    assignment,
    option,
    unit_of,
)
from unacorda.cli.render import notice, raw
from unacorda.query.expressions.language import twin

if TYPE_CHECKING:
    from unacorda.privacy.guarantees import Guarantee
    from unacorda.query.results.simulation import Assume
    from unacorda.query.schema.sources import Csv
    from unacorda.query.schema.table import Fact
    from unacorda.query.schema.units import Unit
    from unacorda.query.session import Session
    from unacorda.settings import Dataset, Settings

UNKEPT = (
    "there is no --ledger, so nothing remembers what this {asked} cost. Each further question "
    "about these people adds to the cost, and nothing stops you."
)
ALWAYS = "data"
"""What the table of a single file may be called."""

_SETTINGS = Path("unacorda.toml")
_ENDINGS = re.compile(r"\.(csv|tsv|txt|parquet|pq)(\.gz)?$", re.IGNORECASE)
_NO_CSV = re.compile(r"::|\.(parquet|pq)$", re.IGNORECASE)
_TABS = {"tab": "\t", "\\t": "\t"}


@dataclass(frozen=True, slots=True, kw_only=True)
class DataTables:
    """Tables of people, and public ones; nothing is opened before it is asked for.

    tables, public: files by name, or what an engine calls them. delimiter: the sign between the
    columns of CSV files, where it is not usual. chosen: the one that a command is about, None
    where there are several. file: of a single file, whose table is also called `data`. options: of
    the sessions. settings: of the dataset, where a file has them.
    """

    tables: Mapping[str, str]
    public: Mapping[str, str] = field(default_factory=dict)
    delimiter: str | None = None
    chosen: str | None = None
    file: str | None = None
    options: Mapping[str, Any] = field(default_factory=dict)
    settings: Dataset | None = None

    @property
    def name(self) -> str:
        """The table that a command is about; InvalidParameter where it names none of several."""
        expected = f"DATA, one of the tables {', '.join(self.tables)}"
        demand(self.chosen is not None, "DATA", None, expected=expected)
        return str(self.chosen)

    @property
    def typed(self) -> bool:
        """Whether the table states the type of each column, as all but CSV files do."""
        return "engine" in self.options or bool(_NO_CSV.search(self.tables[self.name]))

    def look(self) -> None:
        """Look for the files, before anything else is asked of them; note where one looks odd.

        Raises SourceUnreadable where one is missing or has no header, and InvalidParameter.
        """
        from unacorda.query.schema.sources import DELIMITERS, locate, unsplit

        for name, path in {**self.tables, **self.public}.items() if not self.options else ():
            found = locate(name, self._source(path))
            if (sign := unsplit(found)) is not None:
                said = f"the header of {path!r} is one column, which holds {sign!r}. If that "
                said += f"stands between columns, write --delimiter {DELIMITERS[sign]}."
                notice(said)

    def _source(self, path: str) -> str | Csv:
        """A file as a session takes it; InvalidParameter where it has no delimiter."""
        if self.delimiter is None or "engine" in self.options:
            return path
        from unacorda.query.schema.sources import Csv

        text = not _NO_CSV.search(path)
        demand(text, "--delimiter", self.delimiter, expected="a CSV file with it")
        return Csv(path, delimiter=_TABS.get(self.delimiter.lower(), self.delimiter))

    def session(self, *, table: str | None = None, **options: Any) -> Session:
        """A session over the tables; table: what a single one is called, by default its name."""
        from unacorda.query.session import Session

        tables = {table or name: self._source(path) for name, path in self.tables.items()}
        public = {name: self._source(path) for name, path in self.public.items()}
        with warnings.catch_warnings():  # `look` has said it, as an option
            warnings.filterwarnings("ignore", message="the header of")
            return Session(tables, public=public, **self.options, **options)

    def joined(self, public: Mapping[str, str], delimiter: str | None) -> DataTables:
        """The same with more public tables; InvalidParameter for a repeated name."""
        again = twin([*self.tables, *self.public, *public])
        expected = "a name that no other table has, whatever its capitals"
        demand(again is None, "--public", again, expected=expected)
        return replace(self, public={**self.public, **public}, delimiter=delimiter)

    def facts(self, given: Mapping[str, Fact]) -> dict[str, Fact]:
        """The public facts that options give, and of other columns those of the settings."""
        return {**({} if self.settings is None else self.settings.columns), **given}

    def whose(self, given: Mapping[str, Any]) -> dict[str, Any]:
        """What options say about the unit; where they name none, as the settings have it."""
        if self.settings is None or given["persons"] or given["row"]:
            return dict(given)
        usual = dict(self.settings.unit)
        usual |= {"persons": usual.pop("person", ()), "row": usual.get("row", False)}
        return {name: value or usual.get(name) for name, value in given.items()}

    @property
    def stand_in(self) -> str | None:
        """A public file of the settings, on which explanations try questions out."""
        return None if self.settings is None else self.settings.stand_in

    def request(self, price: Mapping[str, str]) -> Guarantee:
        """The budget that options give, or the settings; InvalidParameter where neither does."""
        from unacorda.settings import guarantee_of

        usual = None if self.settings is None else self.settings.query_budget
        return usual if usual is not None and not price else guarantee_of(price)


def _named_files(option: str, texts: Sequence[str]) -> dict[str, str]:
    """Files by the names of their tables; InvalidParameter for a repeated name."""
    found: dict[str, str] = {}
    for text in texts:
        name, path = assignment(option, text, form="NAME=FILE, such as labs=labs.csv")
        demand(re.fullmatch(r"\w+", name), option, text, expected="a name of letters, digits and _")
        again = name.casefold() in map(str.casefold, found)
        demand(not again, option, text, expected=f"each name once: {name!r} names another table")
        found[name] = path.strip()
    return found


def data(text: str | None = None) -> Decorator:
    """The tables that a verb is about, which it gets as `data`, None where nothing names any.

    text: what stands behind DATA, which the verb gets as `text`, None where it is missing. Where a
    file of settings names the tables, its other keys stand in for options that are left out.
    """
    metavar = "[DATA]" if text is None else f"[DATA] {text}"

    def decorate(verb: Any) -> Any:
        @functools.wraps(verb)
        def called(
            *, words: Sequence[str], tables: Sequence[str], public: Sequence[str],
            delimiter: str | None, settings: Path | None, **given: Any,
        ) -> Any:  # fmt: skip
            from unacorda.settings import read_settings

            named, places = _named_files("--table", tables), list(words)
            usual = _SETTINGS if _SETTINGS.is_file() and not named else None
            # A single word is the text where the tables are known without it.
            alone = len(places) == 1 and not (named or settings or usual) and " " not in places[0]
            last = places.pop() if text is not None and places and not alone else None
            demand(len(places) < 2, "DATA", places, expected=f"{metavar}, and all else in options")
            path = places[0] if places else None
            if path is not None and last is not None:  # what only a text holds, a file alone
                sign = "~" if text == "FORMULA" else " "
                turned = sign in path and sign not in last
                demand(not turned, "DATA", path, expected=f"the file first, and {text} last")
            is_file = path is not None and not _is_name(path)
            fits = settings is None or not (named or is_file)
            demand(fits, "--settings", str(settings), expected="no --table and no file with it")
            place = settings or usual
            known = None if is_file or place is None else read_settings(place)
            dataset = None if known is None else known.dataset(given.get("dataset"))
            found = _tables_of(path, named, dataset)
            if text == "SELECT":
                demand(
                    path is None or is_file,
                    "DATA",
                    path,
                    expected="it left out: the tables are those of --table",
                )
            if found is not None:
                found = found.joined(_named_files("--public", public), delimiter)
            if known is not None and dataset is not None:
                given |= _account_of(known, dataset, given)
            return verb(data=found, **given, **({} if text is None else {"text": last}))

        for add in reversed(_options(metavar)):
            add(called)
        return called

    return decorate


def _options(metavar: str) -> list[Decorator]:
    return [
        click.argument(
            "words",
            metavar=metavar,
            nargs=-1,
            help="A file in .csv, .tsv (also .gz) or .parquet (patterns of these too), or "
            "file.duckdb::table.",
        ),
        option(
            "--table tables",
            "NAME=FILE",
            "Instead of DATA, a table of people by its name. May be repeated: all tables name "
            "persons by the same column.",
            multiple=True,
        ),
        option(
            "--public",
            "NAME=FILE",
            "A table without people, to join with. May be repeated.",
            multiple=True,
        ),
        option(
            "--delimiter",
            "CHAR",
            "The character between columns of a CSV file, such as ';' or tab. By default a comma, "
            "and a tab in .tsv.",
        ),
        option(
            "--settings",
            FILE,
            "A file of settings, which names tables, unit, budget and facts; without DATA and "
            "--table unacorda.toml, if there is one.",
            metavar="FILE.toml",
        ),
    ]


def _is_name(text: str) -> bool:
    """Whether a word is the name of a table, not a file."""
    return bool(re.fullmatch(r"\w+", text))


def _tables_of(
    path: str | None, named: Mapping[str, str], settings: Dataset | None
) -> DataTables | None:
    """The tables of a file, of --table or of settings; None where nothing names any."""
    if path is not None and not _is_name(path):
        demand(not named, "DATA", path, expected="a file alone, or --table for each of several")
        name = table_name(path)
        return DataTables(tables={name: path}, chosen=name, file=path)
    if settings is not None:
        usual = {"engine": settings.engine, "memory_limit": settings.memory_limit}
        found = DataTables(
            tables=settings.tables,
            public=settings.public,
            options={name: value for name, value in usual.items() if value is not None},
            settings=settings,
        )
    elif named:
        found = DataTables(tables=named)
    else:
        expected = "a file such as visits.csv, or a table that --table or --settings names"
        demand(path is None, "DATA", path, expected=expected)
        return None
    only = next(iter(found.tables)) if len(found.tables) == 1 else None
    known = path is None or path in found.tables
    demand(known, "DATA", path, expected=f"one of the tables {', '.join(found.tables)}")
    return replace(found, chosen=path or only)


def _account_of(known: Settings, dataset: Dataset, given: Mapping[str, Any]) -> dict[str, Any]:
    """The options of an account, where left out as the settings have them."""
    ledger = given["ledger"] or known.ledger
    if ledger is None:
        place = f"{known.path}, datasets.{dataset.name}.budget"
        expected = (
            'a ledger that keeps it: --ledger, or [server] with ledger = "sqlite:///budget.db"'
        )
        demand(dataset.budget is None, place, str(dataset.budget), expected=expected)
        return {"dataset": None}
    account = {
        "ledger": ledger,
        "dataset": dataset.name,
        "budget": given["budget"] or dataset.budget,
    }
    limit = dataset.analysts.get(given.get("sub_account") or "")
    if limit is not None and given["limit"] is None:
        account["limit"] = limit
    return account


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    """What a verb is asked of tables; nothing is opened before a session is.

    text: the SELECT or the formula; price: as it was written; request: what the answer may cost;
    account: that pays, None where nothing keeps what is spent. missing: what the command lacks, in
    whose place something stands here.
    """

    data: DataTables
    text: str
    unit: Unit
    price: Mapping[str, str]
    request: Guarantee
    facts: Mapping[str, Fact]
    keys: GivenKeys
    account: PayingAccount | None
    missing: Missing

    @property
    def searches(self) -> bool:
        """Whether the rows of a person are to be found."""
        return self.unit.search is not None

    @property
    def unsearched(self) -> Asked:
        """The same as far as it is known: with the most rows, for what a search leaves of it."""
        rest = self.request * (1 - SEARCH_SHARE) if self.searches else self.request
        return replace(self, unit=getattr(self.unit, "searched", self.unit), request=rest)

    def session(self, **options: Any) -> Session:
        """A session; options: its account, by default one that has the request for its budget."""
        options = {"budget": self.request, **options}
        return self.data.session(unit=self.unit, columns=self.facts, **options)

    def free(self) -> Session:
        """A session in which nothing is paid, for what is refused before data are read."""
        return self.unsearched.session(budget=self.request)

    def known_rows(self, **account: Any) -> Unit | None:
        """The unit with the rows of a person that an account knows; None where it knows none.

        Free, and reads no data. BudgetExceeded where they are to be found and less than the request
        is left, since the search would be paid for in vain.
        """
        ledger, dataset = account.get("ledger"), account.get("dataset")
        if not self.searches or ledger is None or dataset is None:
            return None
        from unacorda.query import execution

        wanted: Any = self.unit
        with self.unsearched.session(**account) as free:
            begun = {name: free.table(name) for name in free.tables}
            found = execution.known_rows(wanted, begun, ledger=ledger, dataset=dataset)
            if found is None:
                check_price(self.request, free.remaining, dataset)
                return None
            return found.with_rows(found.max_rows or 1)

    @contextlib.contextmanager
    def paid(self, what: str) -> Iterator[tuple[Session, Guarantee]]:
        """Open a session, and give what of the request is left for `what` is asked in it.

        The account pays; without one the request is the whole budget, and a note says so in the
        end. Where the rows of a person are to be found, that is paid for first. What is more than
        the account has is refused before one is opened, which could not be undone.
        """
        account, options = self.account, dict[str, Any]()
        with contextlib.ExitStack() as stack:
            if account is not None:
                if account.is_new():
                    account.check_opening(self.request)
                book = stack.enter_context(opened(account.ledger, must_exist=False))
                options = account.terms(book)
            self.known_rows(**options)
            session = stack.enter_context(self.session(**options))
            spends = self.unsearched.request if session.searches else self.request
            yield (session if account is None else account.below(session, book)), spends
        if account is None:
            notice(UNKEPT.format(asked=what))


def asked(
    text: str = "",
    *,
    price: str = "--epsilon 1",
    max_rows: int | str | None = None,
    unpriced: str | None = None,
    complete: bool = False,
) -> Decorator:
    """Give a verb as `asked` what its options say of tables, unit, budget, facts and account.

    text: what stands behind DATA; price: how a missing budget is written; max_rows: where they are
    left out; unpriced: an argument in place of a budget; complete: nothing else can be missing.
    """

    def decorate(verb: Any) -> Any:
        @functools.wraps(verb)
        def called(
            *, data: DataTables | None, whose: Mapping[str, Any], price: Mapping[str, str],
            facts: Mapping[str, Fact], account: PayingAccount | None, text: str | None = None,
            keys: GivenKeys = MappingProxyType({}), **given: Any,
        ) -> Any:  # fmt: skip
            missing = Missing(text, price=written)
            sought = {"epsilon": "1"} if unpriced and given[unpriced] else price
            unit, request = _terms(data, whose, sought, missing=missing, max_rows=max_rows)
            if named:
                missing.needed(text, named)
            if data is None or (named and text is None) or (complete and missing.faults):
                raise missing.error()
            data.look()
            found = Asked(
                data=data,
                text=text or "",
                unit=unit,
                price=price,
                request=request,
                facts=data.facts(facts),
                keys=keys,
                account=account,
                missing=missing,
            )
            return verb(asked=found, **given)

        return called

    named, written = text, price
    return decorate


def _terms(
    data: DataTables | None,
    whose: Mapping[str, Any],
    price: Mapping[str, str],
    *,
    missing: Missing,
    max_rows: int | str | None,
) -> tuple[Unit, Guarantee]:
    """The unit and the budget of a command, or what stands for them where they are missing."""
    from unacorda.privacy.guarantees import ApproxDP
    from unacorda.query.schema.units import Row
    from unacorda.settings import guarantee_of

    missing.needed(data, "DATA")
    request_of = guarantee_of if data is None else data.request
    whose = whose if data is None else data.whose(whose)
    if whose["persons"] and not whose["row"] and whose.get("max_rows") is None:
        whose = {**whose, "max_rows": max_rows}
    named = len(missing.faults)
    supposed: tuple[Unit, Guarantee] = Row(), ApproxDP(1, "1e-6")
    request = missing.take(lambda: request_of(price), supposed[1])
    unit = missing.take(lambda: unit_of(request, **whose), supposed[0])
    # The unit before the price, as they are written.
    missing.faults[named:] = reversed(missing.faults[named:])
    return unit, request


def assumed(table: str | None) -> Assume | None:
    """What an explanation assumes of the data: what a public file holds."""
    from unacorda.query.results.simulation import Assume

    return None if table is None else Assume.from_table(table)


def print_free(assuming: str | None) -> None:
    """Say that an explanation was free. assuming: a public file that it read."""
    read = "Nothing" if assuming is None else "Nothing but the public table"
    raw(f"\n{read} was read and nothing was spent.")


def table_name(path: str) -> str:
    """The name of a file's table: its own, without ending, made an identifier.

    >>> table_name("in/2024 visits.csv.gz"), table_name("clinic.duckdb::visits")
    ('t_2024_visits', 'visits')
    """
    _, database, table = path.partition("::")
    bare = table.rpartition(".")[2] if database else _ENDINGS.sub("", PurePath(path).name)
    name = re.sub(r"\W+", "_", bare).strip("_")
    if not name:
        return ALWAYS
    return f"t_{name}" if name[0].isdigit() else name
