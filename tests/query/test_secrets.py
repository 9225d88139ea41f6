"""No address of a database is ever repeated: it may hold a password, wherever that stands."""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

import traceback
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
import sqlalchemy
from tests.postgres_server import empty_schema, server
from tests.support.cases import in_subtests
from tests.support.cli_seams import main
from tests.support.seams import open_ledger
from tests.tiers import mostly_slow

import unacorda
from unacorda.addresses import Server, shown
from unacorda.errors import InvalidParameter, LedgerFailed

SECRET = "s3cr3t"
PLACE = "localhost:1/d"  # nobody listens there

ADDRESSES = [
    f"postgresql://u:{SECRET}@{PLACE}",
    f"postgresql+psycopg://u:{SECRET}@{PLACE}",
    f"postgresql://u@{PLACE}?password={SECRET}",
    f"postgresql://u@{PLACE}?sslpassword={SECRET}",
    f"postgresql://u@{PLACE}?passfile=/{SECRET}",
    f"postgresql://u@{PLACE}?sslkey=/{SECRET}&sslcert=/{SECRET}&sslmode=require",
    f"postgresql://u@{PLACE}?options=-c%20x%3D{SECRET}",
    f"postgresql://u@{PLACE}?wrong={SECRET}",
    f"postgresql://u@{PLACE}?{SECRET}",
    f"postgresql://u@{PLACE}?sslmode={SECRET}",
    f"postgresql://u:{SECRET}@{PLACE}?password=a&password=b",
    f"postgresql://u:{SECRET}@x@{PLACE}",
    f"postgresql://u:pw@{SECRET}@{PLACE}",
    f"postgresql://u:pw@{SECRET}/x@{PLACE}",
    f"postgresql://u:pw/{SECRET}@{PLACE}",
    f"postgresql://u:pw?{SECRET}@{PLACE}",
    f"postgresql://u:pw#{SECRET}@{PLACE}",
    f"postgresql://u:pw:{SECRET}@{PLACE}",
    f"postgresql://u:[{SECRET}@{PLACE}",
    f"postgresql://u:%ZZ{SECRET}@{PLACE}",
    f"postgresql://u:%00{SECRET}@{PLACE}",
    f"postgresql://u:{SECRET}\udcff@{PLACE}",
    f"postgresql://u@{PLACE}&password={SECRET}",
    f"postgresql://u@{PLACE};password={SECRET}",
    f"postgresql://u@{PLACE} password={SECRET}",
    f"postgresql://u@{PLACE}%3Fpassword%3D{SECRET}",
    f"postgresql://u:pw@{SECRET}%40localhost",
    f"postgresql://u:{SECRET}@localhost:port/d",
    f"postgresql://u:{SECRET}@localhost:99999999/d",
    f"postgresql://u:{SECRET}@[::1/d",
    f"postgresql://u:{SECRET}@/d?host=/nowhere/at/all",
    f"postgresql+psycopg2://u:{SECRET}@{PLACE}",
    f"POSTGRESQL://u:{SECRET}@{PLACE}",
    f" postgresql://u:{SECRET}@{PLACE}",
    f"postgres://u:{SECRET}@{PLACE}",
    f"mysql://u:{SECRET}@{PLACE}",
    f"{SECRET}://u@{PLACE}",
    f"host=localhost password={SECRET}",
    f"host=localhost port=1 password='{SECRET}' dbname=d",
    f"password = {SECRET}",
    f"postgres//u:{SECRET}@{PLACE}",
    f"postgresql:/u:{SECRET}@{PLACE}",
    f"postgresql:u:{SECRET}@{PLACE}",
    f"postgresql//u@{PLACE}?password={SECRET}",
    f"jdbc:postgresql://{PLACE}?user=u&password={SECRET}",
    f"u:{SECRET}@{PLACE}",
    f"sqlite://u:{SECRET}@{PLACE}",
    f"sqlite:///nowhere/b.db?password={SECRET}",
    f"sqlite:///nowhere/u:{SECRET}@{PLACE}",
    f"sqlite:u:{SECRET}@{PLACE}",
]

TABLES = {"t": pd.DataFrame({"id": [1]})}
COMMON: dict[str, Any] = {"unit": unacorda.Row(), "budget": unacorda.PureDP(1)}
DOORS: dict[str, Callable[[Any], object]] = {
    "open_ledger": open_ledger,
    "ledger": lambda at: unacorda.Session(TABLES, ledger=at, dataset="d", **COMMON),
    "engine": lambda at: unacorda.Session({"t": "s.t"}, engine=at, **COMMON),
}


def hold(error: BaseException) -> str:
    """All that is attached to an exception, the chain of contexts included."""
    found = [*traceback.format_exception(error), str(error), repr(error), repr(error.args)]
    found += [f"{name}={value!r}" for name, value in vars(error).items()]
    for other in (error.__cause__, error.__context__):
        if other is not None:
            found.append(hold(other))
    return "\n".join(found)


@pytest.mark.long
@in_subtests("door", DOORS)
@in_subtests("at", ADDRESSES)
def test_no_address_is_repeated(at: str, door: str) -> None:
    with pytest.raises(unacorda.errors.UnacordaError) as caught:
        DOORS[door](at)
    assert SECRET not in hold(caught.value)


@pytest.mark.parametrize("at", mostly_slow(ADDRESSES, quick=10))
def test_the_command_line_repeats_none(
    at: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    data = tmp_path / "t.csv"
    data.write_text("id\n1\n")
    answer = tmp_path / "answer.json"
    answer.write_text("{}")
    book = ("--ledger", at, "--dataset", "d")
    for arguments in (
        ("query", str(data), "--row", "--epsilon", "1", *book, "SELECT COUNT(*) AS n FROM t"),
        ("ledger", "show", *book),
        ("ledger", "init", *book, "--budget", "epsilon=1", "--row"),
        ("verify", str(answer), *book),
    ):
        assert main(arguments) not in (0, 1)
        written = capsys.readouterr()
        assert written.err
        assert SECRET not in written.out + written.err


@in_subtests("given", [SECRET.encode(), [SECRET], sqlalchemy.make_url(ADDRESSES[0]), Path(SECRET)])
@in_subtests("door", DOORS)
def test_what_is_no_text_is_named_by_its_type(given: object, door: str) -> None:
    with pytest.raises(InvalidParameter) as caught:
        DOORS[door](given)
    assert SECRET not in hold(caught.value)


def test_an_engine_of_sqlalchemy_is_not_repeated() -> None:
    for at in (f"u:{SECRET}@{PLACE}", f"u@{PLACE}?sslpassword={SECRET}"):
        made = sqlalchemy.create_engine(f"postgresql+psycopg://{at}")
        with pytest.raises(unacorda.errors.UnacordaError) as caught:
            DOORS["engine"](made)
        assert SECRET not in hold(caught.value)


@pytest.mark.service
def test_host_port_and_database_are_named() -> None:
    with pytest.raises(LedgerFailed) as caught:
        open_ledger(f"postgresql://u:{SECRET}@localhost:1/budgets")
    assert caught.value.ledger == "database budgets on localhost, port 1"
    assert "refused" in str(caught.value)
    at = empty_schema()
    with closing(open_ledger(f"{at}&password={SECRET}")) as ledger:
        assert repr(ledger) == f"Ledger(database postgres on {server().folder})"


def test_a_password_that_a_server_repeats_is_hidden() -> None:
    text = f"postgresql://u@{PLACE}"
    parts = {"host": "localhost", "port": 1, "dbname": "d", "options": (f"-c {SECRET}", "x")}
    found = Server.of(text, parts)
    assert found is not None
    assert found.reason(ValueError(f"FATAL: wrong -c {SECRET}")) == "the connection failed"
    assert found.reason(ValueError("FATAL: no database\nDETAIL: none")) == "FATAL: no database"
    assert SECRET not in repr(found)
    assert shown(text) == "postgresql://..."
