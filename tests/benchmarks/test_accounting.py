"""The accounting benchmark runs, and says what a tool did wrong; no peer is needed."""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

import importlib
import json
import math
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

BENCHMARKS = Path(__file__).parents[2] / "benchmarks"
TOOL = """
import sys
sys.path.insert(0, {peers!r})
from accounting_protocol import UnknownToTheTool, serve, varied
{body}
serve(ask)
"""
CASE = {"name": "one", "parts": [{"kind": "gaussian", "noise": 2.0, "count": 1}], "delta": 1e-5}
TRUTH = {"answer": "1.5", "difference": 1e-30}


@pytest.fixture(autouse=True)
def _scripts_import_each_other(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(BENCHMARKS)


def module(name: str) -> Any:
    return importlib.import_module(name)


@pytest.fixture
def workers(tmp_path: Path) -> Iterator[Any]:
    """A function from the body of a tool's script to its process."""
    made: list[Any] = []

    def make(body: str, *, limit: float = 30.0) -> Any:
        script = tmp_path / f"tool{len(made)}.py"
        script.write_text(TOOL.format(peers=str(BENCHMARKS / "peers"), body=body))
        command = [sys.executable, script]
        made.append(module("accounting").Worker(command, ours=False, limit=limit))
        return made[-1]

    yield make
    for worker in made:
        worker.stop()


def cold(worker: Any, *, limit_mib: float = 1000.0) -> Any:
    record = module("accounting_tables").Record(tool="a tool")
    record.note_cold(worker.ask("cold", CASE, limit_mib=limit_mib))
    return record


def test_a_tool_is_timed_and_its_memory_counted(workers: Any) -> None:
    worker = workers(
        "kept = []\n"
        "def ask(case):\n"
        "    kept.append(b'1' * 50_000_000)\n"
        "    print('a remark')\n"
        "    return {'lower': 1.4, 'upper': case['parts'][0]['noise']}\n"
    )
    record = cold(worker)
    assert record.answer == {"lower": 1.4, "upper": 2.0}
    assert 45 < record.extra_mib < 60
    assert record.troubles(TRUTH) == []
    assert record.distance(TRUTH) == pytest.approx(1 / 3)
    assert record.width == pytest.approx(0.3)
    said = worker.ask("time", CASE, hint=1.0)
    assert said["answer"]["upper"] != 2.0
    assert said["answer"]["upper"] == pytest.approx(2.0, rel=1e-7)
    record.note_time(said)
    assert len(record.times) == 1


@pytest.mark.parametrize(
    ("body", "trouble"),
    [
        ("def ask(case): return {'upper': 1.4999}", "under-reports"),
        ("def ask(case): return {'lower': 1.6, 'upper': 1.7}", "lower end lies above"),
        ("def ask(case): return {'upper': float('inf')}", "not finite: upper inf"),
        ("def ask(case): return {'upper': float('nan')}", "not finite: upper nan"),
        ("def ask(case): raise ValueError('too hard')", "ValueError: too hard"),
        ("def ask(case): return {'upper': len(bytearray(3 * 10**9))}", "memory over the limit"),
        ("import os\ndef ask(case): os.abort()", "died (-6)"),
        ("import not_there", "does not start: died (1): ModuleNotFoundError"),
    ],
)
def test_what_a_tool_does_wrong_is_said(workers: Any, body: str, trouble: str) -> None:
    found = cold(workers(body)).troubles(TRUTH)
    assert len(found) == 1
    assert trouble in found[0]


@pytest.mark.long
def test_a_tool_that_takes_too_long_is_ended(workers: Any) -> None:
    worker = workers("import time\ndef ask(case): time.sleep(60)", limit=1.5)
    assert cold(worker).troubles(TRUTH) == ["over the limit of 2 s"]
    assert cold(worker).hint is None  # and it is not asked again
    assert worker.process.poll() is not None


def test_not_knowing_a_case_is_no_fault(workers: Any) -> None:
    record = cold(workers("def ask(case): raise UnknownToTheTool('only counts')"))
    assert (record.unknown, record.troubles(TRUTH)) == ("only counts", [])
    lines = module("accounting_tables").case_table({**CASE, "title": "one"}, [record], None)
    assert any("does not know it: only counts" in line for line in lines)


def test_a_peer_that_can_not_be_installed_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: Any) -> Path:
        raise subprocess.CalledProcessError(1, "pip")

    accounting = module("accounting")
    monkeypatch.setattr(accounting, "environment", refuse)
    options = type("Options", (), {"unacorda_python": Path(sys.executable), "venvs": Path()})
    found = accounting.made(["unacorda", "autodp"], options)
    assert found["unacorda"] == Path(sys.executable)
    assert "can not be installed" in found["autodp"]


def test_a_timed_question_is_never_the_same_twice(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(BENCHMARKS / "peers")
    varied = module("accounting_protocol").varied
    assert varied(CASE, 0) == CASE
    noises = [varied(CASE, turn)["parts"][0]["noise"] for turn in range(100)]
    assert len(set(noises)) == 100
    assert max(noises) < 2.000001
    sought = {"epsilon": 2.0, "delta": 1e-5, "parts": [{"rate": 0.01, "count": 3}]}
    assert varied(sought, 7)["epsilon"] != 2.0
    assert varied(sought, 7)["parts"] == sought["parts"]


def test_random_cases_fill_the_box() -> None:
    cases = module("accounting_cases")
    drawn = [{"delta": one["delta"], **one["parts"][0]} for one in cases.draws(2000)]
    for name, (low, high) in cases.BOX.items():
        values = [one[name] for one in drawn]
        middle = math.log(low * high) / 2
        assert low * 0.999 <= min(values) <= max(values) <= high * 1.001
        share = sum(math.log(value) < middle for value in values) / len(values)
        assert abs(share - 0.5) < 0.06  # 5.4 standard deviations, under a fixed seed


def run(*arguments: Any) -> str:
    command = [sys.executable, str(BENCHMARKS / "accounting.py"), *map(str, arguments)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=200, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.mark.long
def test_the_script_measures_unacorda_alone(tmp_path: Path) -> None:
    file = tmp_path / "said.json"
    tables = run("--tools", "unacorda", "--cases", "sampled-1e3", "--quick", "--details", file)
    said = json.loads(file.read_text())["cases"]["sampled-1e3"]
    found = said["tools"]["unacorda"]
    assert found["troubles"] == []
    assert 0 < found["from_reference"] < 1e-6
    assert 0 < found["width"] < 1e-6
    assert found["directions"]["add"] < found["directions"]["remove"]
    truth = float(said["reference"]["directions"]["add"]["value"])
    assert found["directions"]["add"] == pytest.approx(truth, rel=1e-6)
    assert len(found["seconds"]) == len(found["cpu"]) == 3
    assert "| unacorda | 1.828236667 |" in tables
    assert "Nothing." in tables


@pytest.mark.long
def test_the_script_draws_from_the_box(tmp_path: Path) -> None:
    file = tmp_path / "said.json"
    tables = run("--box", 4, "--details", file)
    said = json.loads(file.read_text())["box"]
    assert said["summary"]["draws"] == len(said["draws"]) == 4
    assert said["summary"]["failures"] == 0
    assert all(one["answer"]["lower"] <= one["answer"]["upper"] for one in said["draws"])
    assert "| within 1e-8 |" in tables


def test_shares_of_the_box_count_failures_as_wide() -> None:
    one = {"rate": 0.1, "noise": 1.0, "count": 100, "delta": 1e-5}
    narrow = {**one, "seconds": 0.001, "answer": {"lower": 1.0, "upper": 1.0 + 1e-9}}
    wide = {**one, "seconds": 0.003, "answer": {"lower": 0.0, "upper": math.inf}}
    failed = {**one, "failure": "over the limit of 300 s"}
    lines, summary = module("accounting_tables").box_table([narrow, wide, failed, narrow])
    assert summary["within_1e-8"] == 0.5
    assert (summary["failures"], summary["infinite"]) == (1, 2)
    assert summary["median_ms"] == pytest.approx(1.0)
    assert any("over the limit of 300 s" in line for line in lines)
