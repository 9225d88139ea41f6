"""What others do to the database of a ledger is refused by the next reservation, or before."""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

import contextlib
import sqlite3
from collections.abc import Callable, Iterator
from pathlib import Path
from urllib.parse import quote

import pytest
from tests.ledger.ledgers import DURABLE, TERMS, address, reserve
from tests.postgres_server import empty_schema, server
from tests.settings_turned import HOSTILE, address_with, role_with
from tests.support.seams import Ledger, entry_digest, open_ledger

from unacorda.errors import BudgetExceeded, LedgerFailed, LedgerMismatch
from unacorda.privacy.guarantees import PureDP

TENTH = PureDP("0.1")
Behind = Callable[[str], None]


class Place:
    """A ledger with a reservation, and the database behind its back."""

    def __init__(self, kind: str, folder: Path) -> None:
        url = address(kind, folder)
        assert url is not None
        self.kind, self.url = kind, url
        self.ledger = self.open()
        self.ledger.open_account("visits", PureDP(1), TERMS)
        self.ledger.open_sub_account("visits", "ana", PureDP("0.3"))
        reserve(self.ledger, TENTH, sub_account="ana")

    @property
    def schema(self) -> str:
        return self.url.rpartition("%3D")[2]

    def open(self) -> Ledger:
        return open_ledger(self.url)

    def run(self, *statements: str) -> None:
        if self.kind == "sqlite":
            path = self.url.removeprefix("sqlite:///")
            with contextlib.closing(sqlite3.connect(path)) as there, there:
                for statement in statements:
                    there.execute(statement)
        else:
            with contextlib.closing(server().connect()) as connection:
                connection.execute(f"SET search_path = {self.schema}".encode())
                for statement in statements:
                    connection.execute(statement.encode())

    def unguard(self) -> None:
        """Take away what refuses changes of lines."""
        for table in ("accounts", "entries"):
            if self.kind == "sqlite":
                for verb in ("update", "delete"):
                    self.run(f"DROP TRIGGER unacorda_{table}_no_{verb}")
            else:
                self.run(f"ALTER TABLE unacorda_{table} DISABLE TRIGGER ALL")

    def trigger(self, body: str, *, when: str = "BEFORE") -> None:
        """A trigger of PostgreSQL on every new entry."""
        self.run(
            f"CREATE FUNCTION meddle() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN {body} END $$",
            f"CREATE TRIGGER meddles {when} INSERT ON unacorda_entries FOR EACH ROW "
            "EXECUTE FUNCTION meddle()",
        )


@pytest.fixture(params=DURABLE)
def place(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Place]:
    made = Place(request.param, tmp_path)
    yield made
    made.ledger.close()


@pytest.fixture
def there(tmp_path: Path) -> Iterator[Place]:
    """In PostgreSQL."""
    made = Place("postgres", tmp_path)
    yield made
    made.ledger.close()


def both(place: Place) -> Iterator[Ledger]:
    """The ledger that was open before, and one that is opened now."""
    yield place.ledger
    with contextlib.closing(place.open()) as another:
        yield another


# ---- edited lines ------------------------------------------------------------------------------


def test_an_edited_budget_is_refused_by_the_next_reservation(place: Place) -> None:
    place.unguard()
    place.run(f"UPDATE unacorda_accounts SET budget = '{PureDP(100).to_json()}'")
    for ledger in both(place):
        for call in (
            lambda ledger=ledger: reserve(ledger, PureDP(5)),
            lambda ledger=ledger: reserve(ledger, TENTH),
            lambda ledger=ledger: ledger.remaining("visits"),
            lambda ledger=ledger: ledger.account("visits"),
            lambda ledger=ledger: ledger.open_sub_account("visits", "bo", TENTH),
        ):
            with pytest.raises(LedgerMismatch, match="budget or terms were changed"):
                call()


def test_edited_terms_are_refused_too(place: Place) -> None:
    place.unguard()
    place.run("UPDATE unacorda_accounts SET terms = '{}'")
    for ledger in both(place):
        with pytest.raises(LedgerMismatch, match="changed"):
            reserve(ledger, TENTH)


def test_a_budget_edited_before_the_first_entry_is_noticed_where_it_was_read(place: Place) -> None:
    place.ledger.open_account("births", PureDP(1), TERMS)
    place.unguard()
    place.run(
        f"UPDATE unacorda_accounts SET budget = '{PureDP(100).to_json()}' WHERE dataset = 'births'"
    )
    with pytest.raises(LedgerMismatch, match="budget or terms were changed"):
        reserve(place.ledger, PureDP(5), dataset="births")


def test_an_edited_budget_of_a_sub_account_is_refused(place: Place) -> None:
    place.unguard()
    place.run(f"UPDATE unacorda_entries SET request = '{PureDP(100).to_json()}' WHERE sequence = 1")
    for ledger in both(place):
        with pytest.raises(LedgerMismatch, match="Entry 1 of account 'visits' was changed"):
            reserve(ledger, PureDP("0.5"), sub_account="ana")


def test_a_sub_account_s_budget_under_a_new_digest_no_longer_chains(place: Place) -> None:
    import dataclasses

    opening = dataclasses.replace(place.ledger.entries("visits")[0], request=PureDP(100).to_json())
    place.unguard()
    place.run(
        f"UPDATE unacorda_entries SET request = '{opening.request}', "
        f"digest = '{entry_digest(opening)}' WHERE sequence = 1"
    )
    for ledger in both(place):
        with pytest.raises(LedgerMismatch, match="was changed"):
            reserve(ledger, PureDP("0.5"), sub_account="ana")


def test_a_last_entry_edited_after_it_was_read_is_refused(place: Place) -> None:
    place.unguard()
    place.run(f"UPDATE unacorda_entries SET spent = '{PureDP(0).to_json()}' WHERE sequence = 2")
    for ledger in both(place):
        with pytest.raises(LedgerMismatch, match="Entry 2 of account 'visits' was changed"):
            reserve(ledger, TENTH)


def test_an_account_without_its_first_entry_is_refused(place: Place) -> None:
    place.unguard()
    place.run("DELETE FROM unacorda_entries WHERE sequence = 1")
    with contextlib.closing(place.open()) as another, pytest.raises(LedgerMismatch):
        reserve(another, TENTH)


# ---- triggers and rules ------------------------------------------------------------------------


def test_a_trigger_that_swallows_an_entry_is_noticed_at_once(place: Place) -> None:
    if place.kind == "sqlite":
        place.run(
            "CREATE TRIGGER meddles BEFORE INSERT ON unacorda_entries "
            "BEGIN SELECT RAISE(IGNORE); END"
        )
    else:
        place.trigger("RETURN NULL;")
    for ledger in both(place):
        with pytest.raises(LedgerMismatch, match="not kept as it was written"):
            reserve(ledger, TENTH)


def test_a_trigger_that_takes_an_entry_away_again_is_noticed(place: Place) -> None:
    place.unguard()
    if place.kind == "sqlite":
        place.run(
            "CREATE TRIGGER meddles AFTER INSERT ON unacorda_entries "
            "BEGIN DELETE FROM unacorda_entries WHERE sequence = NEW.sequence; END"
        )
    else:
        place.trigger(
            f"DELETE FROM {place.schema}.unacorda_entries WHERE sequence = NEW.sequence; "
            "RETURN NULL;",
            when="AFTER",
        )
    with pytest.raises(LedgerMismatch, match="not kept as it was written"):
        reserve(place.ledger, TENTH)


@pytest.mark.service
@pytest.mark.parametrize(
    "change",
    [
        f"NEW.spent := '{PureDP(0).to_json()}'",
        f"NEW.charge := '{PureDP(0).to_json()}'",
        "NEW.sequence := NEW.sequence + 7",
        "NEW.dataset := 'other'",
    ],
)
def test_a_trigger_that_changes_an_entry_is_noticed(there: Place, change: str) -> None:
    there.trigger(f"{change}; RETURN NEW;")
    with pytest.raises(LedgerMismatch, match="not kept as it was written"):
        reserve(there.ledger, TENTH)


@pytest.mark.service
def test_a_trigger_that_waits_for_the_end_of_the_transaction_is_noticed(there: Place) -> None:
    there.unguard()
    there.run(
        "CREATE FUNCTION meddle() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN "
        f"DELETE FROM {there.schema}.unacorda_entries WHERE sequence = NEW.sequence; "
        "RETURN NULL; END $$",
        "CREATE CONSTRAINT TRIGGER meddles AFTER INSERT ON unacorda_entries "
        "DEFERRABLE INITIALLY DEFERRED FOR EACH ROW EXECUTE FUNCTION meddle()",
    )
    with pytest.raises(LedgerMismatch, match="not kept as it was written"):
        reserve(there.ledger, TENTH)


@pytest.mark.service
def test_a_trigger_that_is_put_off_by_another_one_is_noticed(there: Place) -> None:
    """It takes the entry away while the transaction ends, after the last look within."""
    there.unguard()
    there.run(
        "CREATE FUNCTION late() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN "
        f"DELETE FROM {there.schema}.unacorda_entries WHERE sequence = NEW.sequence; "
        "RETURN NULL; END $$",
        "CREATE CONSTRAINT TRIGGER late AFTER INSERT ON unacorda_entries "
        "DEFERRABLE INITIALLY DEFERRED FOR EACH ROW EXECUTE FUNCTION late()",
    )
    there.trigger("SET CONSTRAINTS ALL DEFERRED; RETURN NEW;")
    for ledger in both(there):
        with pytest.raises(LedgerMismatch, match="not kept as it was written"):
            reserve(ledger, TENTH)


@pytest.mark.service
def test_a_trigger_does_not_take_the_wait_for_the_disk_away(there: Place) -> None:
    there.trigger("SET LOCAL synchronous_commit = off; RETURN NEW;")
    with contextlib.closing(server().connect()) as look:
        for _ in range(8):
            reserve(there.ledger, PureDP("0.01"))
            where = "SELECT pg_current_wal_flush_lsn() >= pg_current_wal_insert_lsn()"
            assert look.execute(where).fetchone() == (True,)


@pytest.mark.service
def test_a_rule_that_does_something_else_is_noticed(there: Place) -> None:
    there.run("CREATE RULE meddles AS ON INSERT TO unacorda_entries DO INSTEAD NOTHING")
    with pytest.raises(LedgerMismatch, match="not kept as it was written"):
        reserve(there.ledger, TENTH)


@pytest.mark.service
def test_a_swallowed_account_is_noticed(there: Place) -> None:
    there.run("CREATE RULE meddles AS ON INSERT TO unacorda_accounts DO INSTEAD NOTHING")
    with pytest.raises((LedgerMismatch, LedgerFailed)):
        there.ledger.open_account("births", PureDP(1), TERMS)


# ---- row security, other tables ----------------------------------------------------------------


def as_reader(place: Place, name: str) -> str:
    """The address of a role that may read and add lines, and owns nothing."""
    place.run(
        f"CREATE ROLE {name} LOGIN",
        f"GRANT USAGE ON SCHEMA {place.schema} TO {name}",
        f"GRANT SELECT, INSERT, UPDATE ON ALL TABLES IN SCHEMA {place.schema} TO {name}",
    )
    return place.url.replace("postgres@", f"{name}@")


@pytest.mark.service
def test_row_security_hides_no_entry(there: Place) -> None:
    """It made `spent` 0: an error now, not an empty account."""
    url = as_reader(there, f"writer_{there.schema}")
    with contextlib.closing(open_ledger(url)) as ledger:
        assert ledger.spent("visits") == TENTH
        there.run(
            "ALTER TABLE unacorda_entries ENABLE ROW LEVEL SECURITY",
            "CREATE POLICY adds ON unacorda_entries FOR INSERT WITH CHECK (true)",
            "CREATE POLICY hides ON unacorda_entries FOR SELECT USING (sequence > 99)",
        )
        for call in (lambda: ledger.spent("visits"), lambda: reserve(ledger, TENTH)):
            with pytest.raises(LedgerFailed, match="row-level security"):
                call()
    with (
        contextlib.closing(open_ledger(url)) as another,
        pytest.raises(LedgerFailed, match="row-level security"),
    ):
        reserve(another, TENTH)


@pytest.mark.service
@pytest.mark.parametrize(
    "statements",
    [
        ("ALTER TABLE unacorda_entries SET UNLOGGED",),
        (
            "ALTER TABLE unacorda_entries RENAME TO real_entries",
            "CREATE VIEW unacorda_entries AS SELECT * FROM real_entries WHERE false",
        ),
        (
            "ALTER TABLE unacorda_accounts RENAME TO real_accounts",
            "CREATE VIEW unacorda_accounts AS SELECT * FROM real_accounts",
        ),
    ],
)
def test_tables_that_became_something_else_are_refused(
    there: Place, statements: tuple[str, ...]
) -> None:
    there.run(*statements)
    for call in (lambda: there.ledger.spent("visits"), lambda: reserve(there.ledger, TENTH)):
        with pytest.raises(LedgerFailed, match="plain, logged tables"):
            call()


@pytest.mark.service
def test_a_schema_of_any_name_holds_a_ledger() -> None:
    name = """Led"ger's é"""
    quoted = '"' + name.replace('"', '""') + '"'
    with contextlib.closing(server().connect()) as there:
        there.execute(f"CREATE SCHEMA {quoted}".encode())
    url = f"{server().url}&options={quote('-csearch_path=' + quoted.replace(' ', chr(92) + ' '))}"
    for expected in (PureDP(0), TENTH):
        with contextlib.closing(open_ledger(url)) as ledger:
            ledger.open_account("visits", PureDP(1), TERMS)
            assert ledger.spent("visits") == expected
            reserve(ledger, TENTH)


@pytest.mark.service
def test_a_ledger_stays_in_its_schema_whatever_the_role_says(there: Place) -> None:
    elsewhere = empty_schema().rpartition("%3D")[2]
    role = f"mover_{there.schema}"
    url = as_reader(there, role).partition("&options")[0]
    there.run(f"ALTER ROLE {role} SET search_path = {there.schema}")
    with contextlib.closing(open_ledger(url)) as ledger:
        assert ledger.spent("visits") == TENTH
        there.run(
            f"GRANT ALL ON SCHEMA {elsewhere} TO {role}",
            f"ALTER ROLE {role} SET search_path = {elsewhere}",
            f"CREATE TABLE {elsewhere}.unacorda_entries (LIKE unacorda_entries)",
            f"CREATE TABLE {elsewhere}.unacorda_accounts (LIKE unacorda_accounts)",
        )
        ledger.close()  # its next connection is a new one
        reserve(ledger, TENTH)
        assert ledger.spent("visits") == TENTH * 2


# ---- settings ----------------------------------------------------------------------------------


@pytest.mark.service
@pytest.mark.parametrize("way", ["role", "address"])
def test_no_setting_of_a_role_or_an_address_changes_a_ledger(way: str) -> None:
    url = empty_schema()
    if way == "role":
        url = role_with(url, HOSTILE)
    else:
        url += address_with(HOSTILE)
    with contextlib.closing(open_ledger(url)) as ledger:
        ledger.open_account("visits", PureDP(1), TERMS)
        ledger.open_sub_account("visits", "ana", PureDP("0.3"))
        first = reserve(ledger, TENTH, purpose='a \\ "é" 日本 NULL')
        ledger.commit(first)
        reserve(ledger, TENTH, sub_account="ana")
        ledger.void(reserve(ledger, TENTH))
        assert ledger.spent("visits") == TENTH * 2
        assert ledger.entries("visits")[1].purpose == 'a \\ "é" 日本 NULL'
        assert ledger.verify("visits") == 6
        with pytest.raises(BudgetExceeded):
            reserve(ledger, PureDP(1))
        with ledger._store.writing() as transaction:
            for name, value in (("synchronous_commit", "on"), ("transaction_read_only", "off")):
                shown = transaction._run(f"SHOW {name}", {})  # type: ignore[attr-defined]
                assert shown.fetchone() == (value,)
