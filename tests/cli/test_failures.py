"""What goes wrong: the exit code, one short message, and never a row or a traceback."""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

import io
import sys
import warnings
from pathlib import Path

import pytest
from tests.cli.conftest import Ran, Run
from tests.support.cases import in_subtests
from tests.support.cli_seams import ExitCode, main, reported
from tests.support.seams import DuckDB
from tests.tiers import mostly_slow

from unacorda.errors import EngineFailed, LedgerFailed, SourceChanged

COUNT = "SELECT COUNT(*) AS n FROM visits"
BASE = ("--unit", "person", "--max-rows", "2", "--epsilon", "1")
SECRET = "Smith HIV+"


def is_short(ran: Ran) -> bool:
    """Whether the message fits on a screen and is no traceback."""
    return (
        ran.out == ""
        and 0 < len(ran.err) < 1500
        and len(ran.err.splitlines()) <= 6
        and "Traceback" not in ran.err
        and 'File "' not in ran.err
    )


@in_subtests(
    "arguments",
    [
        ("--unit", "person", "--epsilon", "1", COUNT),
        ("--max-rows", "2", "--epsilon", "1", COUNT),
        ("--unit", "person", "--max-rows", "0", "--epsilon", "1", COUNT),
        ("--unit", "person", "--max-rows", "x", "--epsilon", "1", COUNT),
        ("--unit", "nobody", "--max-rows", "2", "--epsilon", "1", COUNT),
        ("--row", "--unit", "person", "--epsilon", "1", COUNT),
        ("--unit", "person", "--max-rows", "2", COUNT),
        ("--unit", "person", "--max-rows", "2", "--delta", "1e-6", COUNT),
        ("--unit", "person", "--max-rows", "2", "--epsilon", "1", "--rho", "1", COUNT),
        ("--unit", "person", "--max-rows", "2", "--epsilon", "nan", COUNT),
        ("--unit", "person", "--max-rows", "2", "--epsilon=-1", COUNT),
        (*BASE, "SELECT COUNT(*) AS n FROM elsewhere"),
        (*BASE, "SELECT * FROM visits"),
        (*BASE, "DROP TABLE visits"),
        (*BASE, "SELECT AVG(age) AS a FROM visits"),
        (*BASE, "SELECT county, COUNT(*) AS n FROM visits GROUP BY county"),
        (*BASE, "--keys", "county=A", COUNT),
        (*BASE, "--keys", "county", COUNT),
        (*BASE, "--keys", "county=", COUNT),
        (*BASE, "--keys", "county=@/no/such/file", COUNT),
        (*BASE, "--bounds", "age=5", COUNT),
        (*BASE, "--bounds", "age=120:0", COUNT),
        (*BASE, "--bounds", "age=0:1", "--bounds", "age=0:2", COUNT),
        (*BASE, "--columns", "/no/such/file", COUNT),
        (*BASE, "--budget", "epsilon=1", COUNT),
        (*BASE, "--ledger", "sqlite:///x.db", COUNT),
        (*BASE, "--ledger", "nonsense://", "--dataset", "v", "--budget", "epsilon=1", COUNT),
        (*BASE, "--bogus", COUNT),
        (*BASE,),
    ],
)
def test_wrong_usage_ends_with_2(run: Run, visits: str, arguments: tuple[str, ...]) -> None:
    ran = run("query", visits, *arguments)
    assert ran.code == 2
    assert is_short(ran)


@in_subtests(
    "text",
    [
        "{",
        "[]",
        '{"age": 3}',
        '{"age": {"bounds": [0]}}',
        '{"age": {"bounds": [0, NaN]}}',
        '{"age": {"bounds": [0, 1], "text": true}}',
        '{"age": {"bounds": [0, 1]}, "age": {"bounds": [0, 2]}}',
        '{"age": {"dates": false}}',
        '{"county": {"categories": []}}',
        '{"county": {"categories": ["A", 1]}}',
        '{"nix": {"text": true}}',
        "[" * 100_000,
    ],
)
def test_facts_that_are_none_end_with_2(run: Run, visits: str, tmp_path: Path, text: str) -> None:
    (tmp_path / "facts.json").write_text(text)
    ran = run("query", visits, *BASE, "--columns", str(tmp_path / "facts.json"), COUNT)
    assert ran.code == 2
    assert is_short(ran)


@pytest.mark.parametrize(
    ("bounds", "end", "said"),
    [
        ("age=120:0", "lower", "a number below upper='0'"),
        ("age=0:x", "upper", "a finite number"),
        ("age=0:1e999", "upper", "bounds within 1e100"),
    ],
)
def test_bounds_that_are_no_range_are_told_as_the_option(
    run: Run, visits: str, bounds: str, end: str, said: str
) -> None:
    ran = run("query", visits, *BASE, "--bounds", bounds, COUNT)
    assert ran.err.startswith(f"error: --bounds={bounds!r} cannot be used: expected COLUMN=LOWER:")
    assert f"and as {end} {said}" in ran.err


def test_the_place_in_a_select_is_drawn_on_lines_of_its_own(run: Run, visits: str) -> None:
    ran = run("query", visits, *BASE, "SELECT AVG(age) AS a FROM visits")
    said, line, mark = ran.err.splitlines()
    assert said.endswith("AVG(age) needs public bounds for 'age'. Write --bounds age=LOWER:UPPER.")
    assert line[mark.index("^") : mark.rindex("^") + 1] == "AVG(age)"
    ran = run("query", visits, *BASE, "SELECT COUNT(*) AS n\nFROM visits WHERE \x1b[31m")
    assert "\x1b" not in ran.err
    assert is_short(ran)


@pytest.mark.parametrize(
    ("text", "part"),
    [
        ("SELECT COUNT(*) AS n FROM people", "people"),
        ("SELECT COUNT(*) AS n FROM visits JOIN people USING (id)", "people"),
        ("SELECT COUNT(*) AS n, COUNT(age) AS n FROM visits", "COUNT(age) AS n"),
        ("SELECT DISTINCT COUNT(*) AS n FROM visits", "DISTINCT"),
        ("SELECT COUNT(*) FROM visits UNION SELECT COUNT(*) FROM visits", "UNION"),
        ("SELECT age, COUNT(*) AS n FROM visits GROUP BY age", "age"),
    ],
)
def test_every_fault_of_a_select_has_its_place(run: Run, visits: str, text: str, part: str) -> None:
    ran = run("query", visits, *BASE, text)
    assert ran.code == 2
    _, line, mark = ran.err.splitlines()
    assert line[mark.index("^") : mark.rindex("^") + 1] == part


def test_facts_are_told_with_their_column(run: Run, visits: str, tmp_path: Path) -> None:
    (tmp_path / "facts.json").write_text('{"age": {"bounds": [5, 1]}}')
    ran = run("query", visits, *BASE, "--columns", str(tmp_path / "facts.json"), COUNT)
    assert "--columns, 'age'='[5, 1]'" in ran.err
    assert "as lower a number below upper=1" in ran.err


@pytest.mark.parametrize("content", [None, b"", b"a,a\n1,2\n", b"\xff\xfe\n", b"PAR1"])
def test_a_file_that_cannot_be_read_ends_with_4(
    run: Run, tmp_path: Path, content: bytes | None
) -> None:
    path = tmp_path / ("t.parquet" if content == b"PAR1" else "t.csv")
    if content is not None:
        path.write_bytes(content)
    ran = run("query", str(path), "--row", "--epsilon", "1", "SELECT COUNT(*) AS n FROM t")
    assert ran.code == 4
    assert is_short(ran)


@pytest.mark.long
def test_other_terms_of_the_account_end_with_5(run: Run, visits: str, ledger: str) -> None:
    book = ("--ledger", ledger, "--dataset", "v")
    assert run("query", visits, *BASE, *book, "--budget", "epsilon=2", COUNT).code == 0
    for change in (("--budget", "epsilon=3"), ("--unit", "zip")):
        ran = run("query", visits, *BASE, *book, *change, COUNT)
        assert ran.code == 5
        assert is_short(ran)


def test_a_ledger_that_cannot_be_opened_ends_with_5(
    run: Run, visits: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    book = ("--dataset", "v", "--budget", "epsilon=2")
    (tmp_path / "folder.db").mkdir()
    ran = run(
        "query", visits, *BASE, "--ledger", f"sqlite:///{tmp_path / 'folder.db'}", *book, COUNT
    )
    assert ran.code == 5
    assert is_short(ran)

    def denied(*_: object) -> int:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr("unacorda.ledger.sqlite.os.open", denied)
    ran = run("query", visits, *BASE, "--ledger", f"sqlite:///{tmp_path / 'b.db'}", *book, COUNT)
    assert ran.code == 5
    assert "could not be used: Permission denied" in ran.err


@pytest.mark.parametrize(
    ("raised", "code"),
    mostly_slow(
        [
            (EngineFailed(), 1),
            (ValueError(SECRET), 1),
            (RecursionError(SECRET), 1),
            (MemoryError(SECRET), 1),
            (SourceChanged("The file was changed."), 4),
            (LedgerFailed("budget.db", reason="disk I/O error"), 5),
            (KeyboardInterrupt(), 130),
            (BrokenPipeError(), 141),
        ],
        quick=6,
    ),
)
def test_what_the_engine_raises_shows_no_row(
    capsys: pytest.CaptureFixture[str],
    visits: str,
    monkeypatch: pytest.MonkeyPatch,
    raised: BaseException,
    code: int,
) -> None:
    def fails(*_: object, **__: object) -> None:
        try:
            int(SECRET)
        except ValueError:
            raise raised from None

    monkeypatch.setattr(DuckDB, "run", fails)
    monkeypatch.setattr("unacorda.cli.errors.silence", lambda: None)
    assert main(("query", visits, *BASE, COUNT)) == code
    written = capsys.readouterr()
    assert SECRET not in written.out + written.err
    assert "Traceback" not in written.err
    assert written.out == ""


def test_no_warning_of_other_packages_is_shown(capsys: pytest.CaptureFixture[str]) -> None:
    def warns() -> None:
        warnings.warn(SECRET, RuntimeWarning, stacklevel=1)
        warnings.warn_explicit(SECRET, UserWarning, "x.py", 1, module="duckdb")
        warnings.warn_explicit(
            "two keys look alike", UserWarning, "x.py", 1, module="unacorda.query"
        )

    assert reported(warns) == ExitCode.OK
    assert capsys.readouterr().err == "note: two keys look alike\n"


def test_keys_that_look_alike_are_noted(run: Run, visits: str) -> None:
    ran = run(
        "query", visits, *BASE, "--keys", "county=\u00e9,e\u0301",
        "SELECT county, COUNT(*) AS n FROM visits GROUP BY county",
    )  # fmt: skip
    assert ran.code == 0
    assert "look alike" in ran.err
    assert ".py" not in ran.err


@pytest.mark.long
def test_a_hostile_header_steers_no_terminal(run: Run, tmp_path: Path) -> None:
    path = tmp_path / "t.csv"
    nasty = ["\x1b[31mred", "[bold]x[/bold]", "a'); DROP TABLE t; --", 'q""uote', "\u202eflip"]
    header = ",".join(f'"{name}"' for name in [*nasty, *(f"c{i}" for i in range(5000))])
    path.write_text(f"{header}\n1,2,3,4,5\n", encoding="utf-8")
    ran = run("query", str(path), *BASE, "SELECT COUNT(*) AS n FROM t")
    assert ran.code == 2
    assert "\x1b" not in ran.err
    assert "\u202e" not in ran.err
    assert "\\x1b[31mred" in ran.err
    assert is_short(ran)
    ran = run(
        "query", str(path), "--unit", nasty[2], "--max-rows", "1", "--epsilon", "300",
        "--bounds", f"{nasty[1]}=0:9", "--json",
        'SELECT COUNT(*) AS n, SUM("[bold]x[/bold]") AS s FROM t',
    )  # fmt: skip
    assert ran.code == 0, ran.err


@pytest.mark.long
@pytest.mark.parametrize(
    "text", mostly_slow(["x' OR '1'='1", "'); DROP TABLE t; --", '"', "\\", "; SELECT 1"], quick=2)
)
def test_texts_in_options_stay_texts(run: Run, visits: str, tmp_path: Path, text: str) -> None:
    before = Path(visits).read_bytes()
    (tmp_path / "keys").write_text(f"{text}\nA\n")
    grouped = "SELECT county, COUNT(*) AS n FROM visits GROUP BY county"
    ran = run(
        "query", visits, "--unit", "person", "--max-rows", "2", "--epsilon", "300", "--json",
        "--keys", f"county=@{tmp_path / 'keys'}", grouped,
    )  # fmt: skip
    assert ran.code == 0, ran.err
    assert '"n": 0,' in ran.out  # the strange key has no rows ...
    assert '"n": 200,' in ran.out  # ... and the other has its own
    for option in ("--keys", "--bounds"):
        ran = run("query", visits, *BASE, option, f"{text}=0:1", grouped)
        assert ran.code == 2
        assert is_short(ran)
    assert run("query", visits, *BASE[2:], "--unit", text, COUNT).code == 2
    assert Path(visits).read_bytes() == before


@pytest.mark.parametrize("option", ["--columns", "--output"])
def test_a_file_whose_name_cannot_be_is_refused(run: Run, visits: str, option: str) -> None:
    ran = run("query", visits, *BASE, option, "a\0.json", COUNT)
    assert ran.code == 2
    assert option in ran.err


def test_signs_that_stdout_cannot_write_are_escaped(
    visits: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    raw = io.BytesIO()
    monkeypatch.setattr(sys, "stdout", io.TextIOWrapper(raw, encoding="ascii"))
    assert main(("query", visits, *BASE, COUNT)) == ExitCode.OK
    assert b"\\xb1" in raw.getvalue()
