"""Settings of datasets: the `[datasets.NAME]` blocks of a TOML file, read once and checked.

A block has the arguments of a session: tables, unit, budget, public facts. Numbers are exact, and
paths are relative to the file. An unknown name is refused, with the nearest known one as a hint.
This module opens nothing and reads no data.
"""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

import difflib
import json
import os
import tomllib
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field
from decimal import ROUND_DOWN, Context, Decimal
from fractions import Fraction
from functools import partial
from pathlib import Path
from typing import Any, Final

from unacorda.checks import demand, read_text
from unacorda.errors import InvalidParameter
from unacorda.privacy.guarantees import GDP, ZCDP, ApproxDP, Guarantee, PureDP
from unacorda.privacy.rounding import exact_root, root_down
from unacorda.query.expressions.language import twin
from unacorda.query.schema.table import Bounds, Categories, Dates, Fact, Text

_BUDGETS = (
    "one of epsilon (pure DP; approximate DP with delta), rho (zero-concentrated DP) and mu "
    "(Gaussian DP), each with delta where one is wanted"
)
_NUMBERS = ("epsilon", "delta", "rho", "mu")
_LIMITS = ("max_rows", "max_groups", "max_rows_per_group")
_SQLITE = "sqlite:///"


@dataclass(frozen=True, slots=True)
class Option:
    """An option of a block.

    form: its value in TOML. says: its meaning. default: the value if it is omitted, or None.
    """

    form: str
    says: str
    default: Any = None


_BUDGET, _SECONDS = "{ rho = 0.5 }", '20, "90s" or "5min"'
SERVER: Final[Mapping[str, Option]] = {
    "listen": Option(
        '"HOST:PORT"',
        "Where it listens: an address, or a socket of this machine, `unix:/run/unacorda.sock`, "
        "which needs `public_url`. Another address than this machine's only with `behind_proxy`, "
        "which ends TLS.",
        "127.0.0.1:8040",
    ),
    "public_url": Option(
        '"https://ask.example"',
        "The address that people use; requests for another host are refused (421). By default "
        "`http://` and the listening address.",
    ),
    "behind_proxy": Option(
        '["10.0.0.2"]',
        'Addresses of proxies that may say whom a request is from; `["unix"]` for the one that '
        "reaches the socket, whose last address in `X-Forwarded-For` counts.",
        [],
    ),
    "ledger": Option(
        '"sqlite:///FILE"',
        "Where budgets are kept: `sqlite:///FILE` or `postgresql://...`; for a server also "
        "`env:NAME` and `file:PATH`, for secrets.",
        "sqlite:///budgets.db",
    ),
    "store": Option(
        '"sqlite:///FILE"',
        "Where tokens, questions and releases are kept, written as `ledger` is.",
        "sqlite:///answers.db",
    ),
    "reuse": Option(
        '"own"',
        "Whose answers an equal question gets again: one's own, `dataset` (any analyst's) "
        "or `off` (none).",
        "own",
    ),
    "questions_at_once": Option("whole number", "How many questions run at once.", 2),
    "queue": Option(
        "whole number", "The most questions that run or wait; of one analyst a sixteenth.", 64
    ),
    "timeout": Option(
        _SECONDS,
        "The longest time of the engine, before an interrupt; the question stays paid.",
        300,
    ),
    "planning": Option(
        _SECONDS,
        "The longest time for computing a cost; a longer one is refused and not paid.",
        10,
    ),
    "answer_after": Option(
        '"fixed"',
        'When answers leave, counted from the arrival of the question: `"fixed"` (each second), a '
        'number of seconds up to an hour, `"stepped"` (0.25, 0.5, 1, 2, ... seconds) or `"at '
        'once"`.',
        "fixed",
    ),
    "least_a_question": Option(
        "{ rho = 1e-4 }",
        "The least cost of a question, of a kind that every dataset's budget takes.",
    ),
    "most_aggregates": Option("whole number", "The most aggregates of one question.", 50),
    "most_cells": Option("whole number", "The most cells of one answer.", 10_000),
    "shutdown": Option(
        _SECONDS,
        "How long questions may run on after SIGTERM, before an interrupt; they stay paid.",
        60,
    ),
    "health": Option(
        '"127.0.0.1:8041"',
        "An address of its own for `/healthz`, `/readyz` and `/metrics`, without a token: keep it "
        "in a network of operators. Nowhere by default.",
    ),
}
"""The options of a block [server]."""
OIDC: Final[Mapping[str, Option]] = {
    "issuer": Option('"https://id.example"', "The issuer's address, as its tokens name it."),
    "audience": Option('"unacorda"', "The audience that its tokens must have."),
    "analyst_claim": Option(
        '"name of a claim"',
        "The claim with the analyst's name; people must not be able to change it.",
        "preferred_username",
    ),
    "groups_claim": Option('"name of a claim"', "The claim that lists groups.", "groups"),
    "client_id": Option(
        '"unacorda"',
        "The page's id at the issuer; without it people sign in only with tokens.",
    ),
    "client_secret": Option(
        '"env:NAME"', "The secret of a confidential client: `env:NAME` or `file:PATH`."
    ),
    "scope": Option(
        '"openid profile"',
        "The scope that the page requests, with that of groups if `curators` needs it.",
        "openid profile",
    ),
    "curators": Option('["privacy-office"]', "The groups whose members are curators.", []),
}
"""The options of a block [oidc]."""
DATASET: Final[Mapping[str, Option]] = {
    "title": Option('"Visits of 2024"', "The title for people."),
    "tables": Option(
        '{ visits = "visits.csv" }',
        "Tables of people by name: files (relative to this one), or tables of `engine`.",
    ),
    "public": Option('{ zips = "zips.csv" }', "Tables without people, to join with.", {}),
    "unit": Option(
        '{ person = "id", max_rows = 4 }',
        "The privacy unit: `person` with its column (or a list, or a table of these by table) and "
        "limits `max_rows`, `max_groups`, `max_rows_per_group`; or `{ row = true }`. A server "
        "needs it.",
    ),
    "budget": Option(
        _BUDGET, "The account's budget: `epsilon`, `rho` or `mu`, with `delta`. A server needs it."
    ),
    "query_budget": Option(_BUDGET, "The default budget of a command."),
    "least_a_question": Option(
        "{ rho = 1e-4 }", "The least cost of a question to a server; overrides that of `[server]`."
    ),
    "columns": Option(
        "{ age = { bounds = [0, 120] } }",
        "Public facts by column: `bounds`, `categories`, `dates` or `text`.",
        {},
    ),
    "analysts": Option(
        "{ ana = { rho = 0.1 } }",
        "Limits by name, opened at the start if the ledger has none; `most_a_question = 0.01` "
        "in one of them is the most that a question of that analyst to a server may cost.",
        {},
    ),
    "show_total": Option(
        "true or false", "Whether analysts see what the whole dataset has left.", default=False
    ),
    "purpose_required": Option(
        "true or false", "Whether a question must state its purpose.", default=False
    ),
    "stand_in": Option(
        '"last-year.csv"',
        "A public table for trying questions, with the same columns; by default a server draws one "
        "from `columns` and types.",
    ),
    "engine": Option('"postgresql://..."', "The database with the tables; DuckDB by default."),
    "memory_limit": Option('"2GB"', "The most memory of the engine."),
}
"""The options of a block [datasets.NAME]."""


def guarantee_of(numbers: Mapping[str, Any], argument: str | None = None) -> Guarantee:
    """Make a budget from numbers by name; InvalidParameter if they do not fit.

    argument: the one with all of them; None if each is an option of its own.

    >>> guarantee_of({"rho": "0.5", "delta": "1e-8"})
    ZCDP(rho=0.5, delta=1e-08)
    """
    kinds: dict[str, type[Guarantee]] = {
        "epsilon": ApproxDP if "delta" in numbers else PureDP,
        "rho": ZCDP,
        "mu": GDP,
    }
    main = [name for name in numbers if name in kinds]
    if len(main) != 1:
        said = ",".join(f"{name}={value}" for name, value in numbers.items())
        options = argument or "--epsilon, --rho, --mu"
        raise InvalidParameter(options, said or None, expected=_BUDGETS)
    try:
        return kinds[main[0]](**numbers)
    except InvalidParameter as error:
        name = f"--{error.argument}" if argument is None else f"{argument}, {error.argument}"
        raise error.about(name, error.value) from None


def numbers_of(budget: Guarantee) -> dict[str, str]:
    """The numbers of a budget by name, of which `guarantee_of` makes it again.

    They are exact, but for a mu that is no fraction, which is rounded down: what is made of it
    costs no more.

    >>> numbers_of(ZCDP("0.5", delta="1e-8")), numbers_of(GDP("0.2")), numbers_of(GDP(1) * 2)
    ({'rho': '1/2', 'delta': '1/100000000'}, {'mu': '1/5'}, {'mu': '1.41421356237309'})
    """
    exact: dict[str, str] = json.loads(budget.to_json())
    if isinstance(budget, GDP):
        exact["mu"] = _root_below(budget.mu_squared)
    return {name: exact[name] for name in budget.parameters}


def _root_below(square: Fraction) -> str:
    root = exact_root(square)
    if root is not None:
        return str(root)
    return str(Context(prec=15, rounding=ROUND_DOWN).create_decimal(root_down(square)))


def fact_of(place: str, fact: object) -> Fact:
    """Read a public fact about a column from JSON or TOML.

    place: its position, for errors. Raises InvalidParameter.

    >>> fact_of("age", {"bounds": [0, 120]})
    Bounds(lower=0.0, upper=120.0)
    """
    flags: Mapping[str, Callable[[], Fact]] = {"dates": Dates, "text": Text}
    form = '{"bounds": [LOWER, UPPER]}'
    if isinstance(fact, Mapping) and len(fact) == 1:
        ((kind, said),) = fact.items()
        try:
            match kind, said:
                case "bounds", [int() | Decimal() as lower, int() | Decimal() as upper]:
                    form, said = '{"bounds": [LOWER, UPPER]}', f"[{lower}, {upper}]"
                    return Bounds(lower, upper)
                case "categories", [*values]:
                    form = '{"categories": [...]}'
                    return Categories(values)
                case "dates", [str() as first, str() as last]:
                    form = '{"dates": ["FIRST", "LAST"]}'
                    return Dates(first, last)
                case (("dates" | "text"), True):
                    return flags[kind]()
                case _:
                    pass
        except InvalidParameter as error:
            expected = f"{form}, and as {error.argument} {error.expected}"
            raise InvalidParameter(place, said, expected=expected) from None
    expected = f'{form}, {{"categories": [...]}}, {{"dates": true}} or {{"text": true}}'
    raise InvalidParameter(place, fact, expected=expected)


@dataclass(frozen=True, slots=True, kw_only=True)
class Dataset:
    """The settings of one dataset; what the file leaves out is empty or None.

    name: of its account in a ledger. title: for people. tables, public: sources by name, each a
    path or a table of `engine`. unit: `person` with its columns, or `row`, and contribution bounds
    by name. budget: of the account; query_budget: the default of a question; least_a_question: the
    least that a server charges. columns: public facts. stand_in: a public table for trying
    questions. analysts: the limits of sub-accounts; most_a_question: the most that a server charges
    an analyst for a question. show_total: whether analysts see what the dataset has left, and not
    only their own limit. purpose_required: whether a server requires a purpose.
    """

    name: str
    title: str | None = None
    engine: str | None = None
    tables: Mapping[str, str] = field(default_factory=dict)
    public: Mapping[str, str] = field(default_factory=dict)
    unit: Mapping[str, Any] = field(default_factory=dict)
    budget: Guarantee | None = None
    query_budget: Guarantee | None = None
    least_a_question: Guarantee | None = None
    columns: Mapping[str, Fact] = field(default_factory=dict)
    stand_in: str | None = None
    memory_limit: str | None = None
    analysts: Mapping[str, Guarantee] = field(default_factory=dict)
    most_a_question: Mapping[str, Guarantee] = field(default_factory=dict)
    show_total: bool = False
    purpose_required: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """The datasets of a file by name, and the address of the ledger with their accounts.

    server, oidc: the other settings of a server and of an issuer, as in the file.
    """

    path: str
    datasets: Mapping[str, Dataset]
    ledger: str | None
    server: Mapping[str, Any] = field(default_factory=dict)
    oidc: Mapping[str, Any] | None = None

    def dataset(self, name: str | None) -> Dataset:
        """The dataset of a name, or the only one; InvalidParameter if there is none."""
        names = ", ".join(self.datasets)
        expected = f"one of the datasets in {self.path}: {names}"
        demand(name in self.datasets or name is None, "--dataset", name, expected=expected)
        single = name is not None or len(self.datasets) == 1
        demand(single, "--dataset", None, expected=f"--dataset, {expected}")
        return self.datasets[name or names]


def read_settings(path: Path) -> Settings:
    """Read the settings of a TOML file; InvalidParameter, with the place, for errors in it."""
    shown, text = str(path), read_text("--settings", path)
    try:
        found = tomllib.loads(text, parse_float=Decimal)
    except (ValueError, RecursionError) as error:  # a number of many digits: ValueError
        raise InvalidParameter("--settings", shown, expected=f"TOML: {error}") from None
    _check_names(shown, found, {"datasets", "server", "oidc"})
    server = _table(f"{shown}, server", found.get("server", {}))
    _check_names(f"{shown}, server", server, SERVER)
    oidc = None if "oidc" not in found else _table(f"{shown}, oidc", found["oidc"])
    _check_names(f"{shown}, oidc", oidc or {}, OIDC)
    ledger = _text(f"{shown}, server.ledger", server["ledger"]) if "ledger" in server else None
    if ledger is not None and ledger.startswith(_SQLITE):
        file = _joined(path.parent, "ledger", ledger.removeprefix(_SQLITE))
        ledger = f"{_SQLITE}{file}"
    blocks = _table(f"{shown}, datasets", found.get("datasets", {}))
    demand(blocks, shown, None, expected=f"a block [datasets.NAME] in {shown}")
    read = {name: _dataset(path, name, block) for name, block in blocks.items()}
    return Settings(path=shown, datasets=read, ledger=ledger, server=server, oidc=oidc)


def _dataset(path: Path, name: str, block: object) -> Dataset:
    """The block of one dataset."""
    place = f"{path}, datasets.{name}"
    keys = _table(place, block)
    path_of = partial(_joined, path.parent)
    # A table of an engine is no path.
    sources = _each(partial(_joined, Path()) if "engine" in keys else path_of)
    readers: dict[str, Callable[[str, Any], Any]] = {
        **dict.fromkeys(("engine", "memory_limit", "title"), _text),
        **dict.fromkeys(("show_total", "purpose_required"), _flag),
        **dict.fromkeys(("budget", "query_budget", "least_a_question"), _budget),
        **dict.fromkeys(("tables", "public"), sources),
        "stand_in": path_of,
        "unit": _unit,
        "columns": _each(fact_of),
        "analysts": _each(_budget),
    }
    _check_names(place, keys, DATASET)
    keys, most = _largest_questions(place, keys)
    demand(keys.get("tables"), place, None, expected=f"tables in {place}")
    read = {name: readers[name](f"{place}.{name}", value) for name, value in keys.items()}
    again = twin([*read["tables"], *read.get("public", {})])
    expected = "names of tables, public ones among them, that differ by more than capitals"
    demand(again is None, f"{place}.tables", again, expected=expected)
    return Dataset(name=name, most_a_question=most, **read)


def _largest_questions(
    place: str, keys: Mapping[str, Any]
) -> tuple[Mapping[str, Any], Mapping[str, Guarantee]]:
    """The block without `most_a_question` of its analysts, and these, of the kinds of the limits.

    >>> _largest_questions("", {"analysts": {"ben": {"rho": 1, "most_a_question": "0.1"}}})
    ({'analysts': {'ben': {'rho': 1}}}, {'ben': ZCDP(rho=0.1)})
    """
    limits, most = {}, {}
    for analyst, limit in _table(f"{place}.analysts", keys.get("analysts", {})).items():
        inside = f"{place}.analysts.{analyst}"
        numbers = dict(_table(inside, limit))
        if "most_a_question" in numbers:
            largest = numbers.pop("most_a_question")
            kind = [name for name in numbers if name != "delta"]
            most[analyst] = guarantee_of(
                {**numbers, **dict.fromkeys(kind, largest)}, f"{inside}.most_a_question"
            )
        limits[analyst] = numbers
    return ({**keys, "analysts": limits} if limits else keys), most


def _joined(folder: Path, place: str, value: Any) -> str:
    """A path relative to a folder; `file.duckdb::table` and patterns are kept as written."""
    text = _text(place, value)
    return text if folder == Path() else os.path.join(folder, text)


def _each(read: Callable[[str, Any], Any]) -> Callable[[str, Any], dict[str, Any]]:
    """A reader of a table, each value by itself."""
    return lambda place, value: {
        name: read(f"{place}.{name}", one) for name, one in _table(place, value).items()
    }


def _check_names(place: str, given: Mapping[str, Any], known: Collection[str]) -> None:
    """InvalidParameter for a name that is not known, with the nearest one that is."""
    for name in given:
        if name not in known:
            near = difflib.get_close_matches(name, known, n=1, cutoff=0)
            listed = ", ".join(sorted(known))
            raise InvalidParameter(place, name, expected=f"{near[0]!r}? The names are {listed}")


def _table(place: str, value: Any) -> Mapping[str, Any]:
    demand(isinstance(value, dict), place, value, expected="a table, { name = value }")
    return dict(value)


def _text(place: str, value: Any) -> str:
    demand(isinstance(value, str) and value.strip(), place, value, expected="a text")
    return str(value)


def _flag(place: str, value: Any) -> bool:
    demand(isinstance(value, bool), place, value, expected="true or false")
    return bool(value)


def _budget(place: str, value: Any) -> Guarantee:
    numbers = _table(place, value)
    _check_names(place, numbers, _NUMBERS)
    return guarantee_of(numbers, place)


def _unit(place: str, value: Any) -> dict[str, Any]:
    """The person's columns or single rows, and limits."""
    given = _table(place, value)
    _check_names(place, given, {"person", "row", *_LIMITS})
    expected = "person with the column of the person, or row = true, and not both"
    demand(("person" in given) != (given.get("row") is True), place, value, expected=expected)
    for name in _LIMITS:
        limit = given.get(name, 1)
        whole = isinstance(limit, int) and not isinstance(limit, bool) and limit >= 1
        demand(whole, f"{place}.{name}", limit, expected="a whole number, 1 or above")
    if "person" not in given:
        demand(len(given) == 1, place, value, expected="row = true without limits on rows")
        return {"row": True}
    return {**given, "person": _ids(f"{place}.person", given["person"])}


def _ids(place: str, value: Any) -> Any:
    """The columns that name a person, also by table."""
    if isinstance(value, dict):
        return {table: _ids(f"{place}.{table}", ids) for table, ids in value.items()}
    names = value if isinstance(value, list) else [value]
    fits = names and all(isinstance(name, str) and name.strip() for name in names)
    demand(fits, place, value, expected="a column or a list of columns")
    return tuple(names)
