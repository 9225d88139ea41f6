"""No message, warning, log record, text of a value or file tells anything of the data."""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

import logging
import os
import stat
import warnings
from pathlib import Path
from typing import Any, NoReturn

import duckdb
import numpy as np
import polars as pl
import pytest
from tests.query.counted_cells import counted_cells
from tests.query.exact_answers import exact, opened
from tests.support.cases import in_subtests
from tests.support.seams import (
    Admitted,
    DuckDB,
    Exact,
    Session,
    Tallies,
    identifier,
    ledger_of,
    literal,
)
from tests.tiers import mostly_slow

import unacorda
from unacorda.errors import (
    BudgetExceeded,
    EngineFailed,
    SourceChanged,
    UnacordaError,
)

SECRET = "Ms Smith, HIV positive"
FRAME = pl.DataFrame({"id": [1, 2, 3, 3], "x": [1.0, 2.0, 3.0, 4.0], "s": [SECRET, "a", "b", None]})
PURE = unacorda.PureDP


def query(session: Session) -> Any:
    return (
        session.table("t")
        .group_by("s", keys=["b", "a"])
        .agg(n=unacorda.count(), x=unacorda.sum("x", 0, 10), m=unacorda.median("x", 0, 10))
    )


# ---- a failing engine ----------------------------------------------------------------------------


@in_subtests(
    "raised",
    [
        duckdb.ConversionException(SECRET),
        duckdb.OutOfMemoryException(SECRET),
        duckdb.InterruptException(SECRET),
        MemoryError(SECRET),
        OSError(28, SECRET),
        ValueError(SECRET),
    ],
    ids=lambda error: type(error).__name__,
)
def test_whatever_the_engine_raises_leaves_as_one_constant_sentence(
    raised: Exception, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_arguments: object) -> NoReturn:
        raise raised

    with opened(FRAME) as session:
        monkeypatch.setattr("unacorda.query.engines.engine.tallied", fail)
        with pytest.raises(EngineFailed) as caught:
            session.evaluate(query(session), budget=PURE(0.25))
        assert session.spent == PURE(0.25)
    assert str(caught.value) == str(EngineFailed())
    assert caught.value.__cause__ is None
    assert caught.value.__context__ is None
    assert not hasattr(caught.value, "__notes__")


@pytest.mark.long
def test_too_little_memory_leaves_as_the_same_sentence(tmp_path: Path) -> None:
    """Hundreds of thousands of long ids do not fit into 10 MB; the folder for spilling is gone."""
    path = tmp_path / "t.csv"
    path.write_text("id\n" + "\n".join(f"{i:0200d}" for i in range(100_000)) + "\n")
    unit = unacorda.Person("id", max_rows=1)
    with opened(path, unit=unit, memory_limit="10MB", threads=1) as session:
        assert isinstance(session._engine, DuckDB)
        os.rmdir(session._engine._folder)
        Path(session._engine._folder).write_text("no folder: nothing can spill")
        asked = session.table("t").agg(p=unacorda.count_people())
        with pytest.raises(EngineFailed) as caught:
            session.evaluate(asked, budget=PURE(0.25))
        assert session.spent == PURE(0.25)
        Path(session._engine._folder).unlink()
    assert str(caught.value) == str(EngineFailed())
    assert caught.value.__context__ is None


def test_an_interrupt_stays_an_interrupt_and_stays_spent(monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupt(*_arguments: object) -> NoReturn:
        raise KeyboardInterrupt(SECRET)

    with opened(FRAME) as session:
        monkeypatch.setattr("unacorda.query.engines.engine.tallied", interrupt)
        with pytest.raises(KeyboardInterrupt) as caught:
            session.evaluate(query(session), budget=PURE(0.25))
        assert session.spent == PURE(0.25)
    assert caught.value.args == ()
    assert caught.value.__context__ is None


def test_a_source_that_changes_while_it_is_read_gives_no_answer_and_stays_spent(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "t.csv"
    path.write_text("id,x\n1,2\n")
    run = DuckDB.run

    def touching(engine: DuckDB, asked: Admitted) -> Tallies:
        found = run(engine, asked)
        path.write_text(f"id,x\n1,{SECRET}\n")
        return found

    with opened(path) as session:
        monkeypatch.setattr(DuckDB, "run", touching)
        with pytest.raises(SourceChanged, match="changed, replaced or removed") as caught:
            session.evaluate(session.table("t").agg(n=unacorda.count()), budget=PURE(0.25))
        assert session.spent == PURE(0.25)
        states = [entry.state for entry in ledger_of(session).entries("session")]
    assert states == ["reserved"]
    assert SECRET not in str(caught.value)


# ---- what is shown -------------------------------------------------------------------------------


def test_exact_numbers_have_no_text() -> None:
    numbers = np.array([424242])
    tallies = Tallies(cells=numbers, sums=([424242],))
    for value in (
        tallies,
        counted_cells(numbers[None]),
        Exact(sums=([424242],)),
    ):
        for shown in (str(value), repr(value), f"{value}", f"{[value]}"):
            assert "424242" not in shown


@pytest.mark.long
def test_no_path_warns_prints_or_logs(
    caplog: pytest.LogCaptureFixture, capfd: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    """Also where a program logs everything that every library says."""
    ledger = f"sqlite:///{tmp_path / 'budget.db'}"
    with warnings.catch_warnings(), caplog.at_level(logging.NOTSET):
        for name in ("sqlalchemy.engine", "sqlglot", "duckdb"):
            caplog.set_level(logging.DEBUG, logger=name)
        warnings.simplefilter("error")
        with opened(FRAME, ledger=ledger, dataset="d", seed=None) as session:
            shown = [str(session.explain(query(session), budget=PURE(0.1), detail=True))]
            release = session.evaluate(query(session), budget=PURE(0.1))
            shown += [repr(session), repr(query(session)), *release.provenance]
            for wrong in (PURE(9), unacorda.ZCDP(1), PURE(0)):
                with pytest.raises(UnacordaError) as caught:
                    session.evaluate(query(session), budget=wrong)
                shown += [str(caught.value), repr(caught.value.__dict__)]
            entries = ledger_of(session).entries("d")
            shown += [repr(entries)]
    out = capfd.readouterr()
    assert out.out == out.err == ""
    logged = [record.getMessage() for record in caplog.records]
    assert any("unacorda_entries" in text for text in logged)
    assert not any("Smith" in text for text in [*shown, *logged])


@pytest.mark.long
def test_refusals_depend_on_budgets_alone() -> None:
    messages = set()
    for frame in (FRAME, FRAME.clear(), pl.concat([FRAME] * 50)):
        with opened(frame, budget=PURE(0.3)) as session:
            session.evaluate(query(session), budget=PURE(0.2))
            with pytest.raises(BudgetExceeded) as caught:
                session.evaluate(query(session), budget=PURE(0.2))
            messages.add(str(caught.value))
            assert session.remaining == PURE("0.1")
    assert len(messages) == 1


def test_groups_leave_in_the_order_of_their_keys_whatever_was_seen_first() -> None:
    keys = ["m", None, "z", "a", "nobody"]
    orders = set()
    for texts in (["z", "a", "m", None], ["a", "a", None, "z", "m"], []):
        with opened(pl.DataFrame({"s": texts}, schema={"s": pl.String})) as session:
            asked = session.table("t").group_by("s", keys=keys).agg(n=unacorda.count())
            release = session.evaluate(asked, budget=PURE(1))
            orders.add(tuple(row["s"] for row in release.to_dicts()))
            assert len(release.to_dicts()) == len(keys)
    assert orders == {tuple(keys)}


# ---- the way to the outside ----------------------------------------------------------------------


def test_the_engine_is_closed_to_the_outside_also_for_every_cursor(tmp_path: Path) -> None:
    (tmp_path / "t.csv").write_text("id\n1\n")
    (tmp_path / "other.csv").write_text("id\n1\n")
    with opened(tmp_path / "t.csv") as session:
        assert isinstance(session._engine, DuckDB)
        visible = FRAME  # a Python variable that a replacement scan would find
        for statement in (
            "FROM read_text('/etc/passwd')",
            "FROM read_csv('/etc/passwd')",
            "FROM glob('/etc/*')",
            f"FROM '{tmp_path}/other.csv'",
            f"ATTACH '{tmp_path}/new.db'",
            f"COPY (SELECT 1) TO '{tmp_path}/out.csv'",
            "INSTALL httpfs",
            "LOAD httpfs",
            "FROM visible",
            "SET enable_external_access = true",
            "SET lock_configuration = false",
            "SET temp_directory = '/tmp'",
            "SET allowed_directories = ['/']",
        ):
            with pytest.raises(duckdb.Error):
                session._engine._connection.cursor().execute(statement)
        assert len(visible) == len(FRAME)
        settings = session._engine._connection.cursor()
        for name, value in {
            "TimeZone": "UTC",
            "temp_directory": session._engine._folder,
            "temp_file_encryption": True,
            "max_temp_directory_size": "22.3 GiB",  # 16 times the default memory
            "python_enable_replacements": False,
            "autoload_known_extensions": False,
            "autoinstall_known_extensions": False,
        }.items():
            found = settings.execute(f"SELECT current_setting('{name}')").fetchone()
            assert found == (value,)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["other.csv", "t.csv"]


def test_the_folder_for_spilling_is_private_and_goes_with_the_session() -> None:
    session = opened(FRAME)
    assert isinstance(session._engine, DuckDB)
    folder = Path(session._engine._folder)
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700
    assert folder.parent != Path.cwd()
    session.close()
    assert not folder.exists()
    forgotten = opened(FRAME)
    assert isinstance(forgotten._engine, DuckDB)
    folder = Path(forgotten._engine._folder)
    del forgotten
    assert not folder.exists()
    with pytest.raises(UnacordaError):
        opened(FRAME, columns={"nobody": unacorda.Text()})


STRANGE = [
    'x"; DROP TABLE copy0; --',
    "x'); DROP TABLE copy0; --",
    "read_text('/etc/passwd')",
    "line\nbreak\r\n",
    "tab\tand\x07bell",
    "back\\slash\\'",
    "\"'`[]{}()$1?:%s",
    "/* comment */ -- x",
    "é e\u0301 \u202e \U0001f600 ß İ",
    "y" * 4_900,
    "x as text",
    "steps",
    "keys",
    "cell",
    "u0",
    "SELECT",
    " ",
]


@pytest.mark.parametrize("name", mostly_slow(STRANGE, quick=10), ids=lambda name: ascii(name)[:20])
def test_no_name_and_no_value_is_ever_read_as_sql(name: str) -> None:
    frame = pl.DataFrame({name: [name, "other", None], "v": [1.0, 2.0, 4.0]})
    quoted = '"' + name.replace('"', '""') + '"'
    text = "'" + name.replace("'", "''") + "'"
    unit = unacorda.Person(name, max_rows=1)
    with Session({name: frame}, unit=unit, budget=PURE(1), bits=unacorda.SeededBits(1)) as session:
        table = session.table(name)
        grouped = table.group_by(name, keys=[name, "nobody", "other"])
        asked = grouped.agg(
            n=unacorda.count(name),
            v=unacorda.sum("v", 0, 10),
            m=unacorda.median("v", 0, 10, resolution=0.005),
        )
        assert exact(session, asked) == {
            "n": [1, 0, 1],
            "v": [1, 0, 2],
            "m": [{200: 1}, {}, {400: 1}],
        }
        asked = table.where(f"{quoted} = {text}").agg(n=unacorda.count())
        assert exact(session, asked) == {"n": [1]}
        asked = table.derive(**{f"{name}2": f"{quoted} || {text}"}).agg(**{name: unacorda.count()})
        release = session.evaluate(asked, budget=PURE(1))
        assert release.columns[0] == name


@in_subtests("name", [*STRANGE, "z" * 10_000], ids=lambda name: ascii(name)[:20])
def test_names_and_values_survive_the_way_through_the_engine(name: str) -> None:
    connection = duckdb.connect()
    connection.execute(f"SELECT {literal(name)} AS {identifier(name)}")
    assert connection.description is not None
    assert connection.description[0][0] == name
    assert connection.fetchone() == (name,)
