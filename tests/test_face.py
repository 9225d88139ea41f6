"""The face of the package: what `import unacorda` brings, and what it costs."""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

import ast
import inspect
import os
import subprocess
import sys
from importlib import metadata
from pathlib import Path

import pytest

import unacorda

FACE: list[str] = vars(unacorda)["__all__"]


def run(code: str, *options: str) -> str:
    done = subprocess.run(
        [sys.executable, *options, "-c", code],
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_importing_it_loads_nothing_outside_the_standard_library() -> None:
    loaded = run(
        "import sys; before = set(sys.modules); import unacorda; "
        "print(*sorted(set(sys.modules) - before))"
    ).split()
    assert "unacorda" in loaded
    strangers = {name.partition(".")[0] for name in loaded} - set(sys.stdlib_module_names)
    assert strangers == {"unacorda"}
    assert [name for name in loaded if name.startswith("unacorda.")] == [
        "unacorda._version",
        "unacorda.faces",
    ]


def test_reading_a_record_loads_no_engine() -> None:
    code = "import sys, unacorda.query.results.record; print('duckdb' in sys.modules)"
    assert run(code) == "False\n"


def test_guarantees_need_nothing_outside_the_standard_library_either() -> None:
    loaded = run(
        "import sys; before = set(sys.modules); import unacorda; unacorda.PureDP(0.1) * 10; "
        "unacorda.errors; unacorda.ReplaceOne; print(*sorted(set(sys.modules) - before))"
    ).split()
    strangers = {name.partition(".")[0] for name in loaded} - set(sys.stdlib_module_names)
    assert strangers == {"unacorda"}


@pytest.mark.slow
def test_it_can_be_imported_where_warnings_are_errors() -> None:
    names = "; ".join(f"unacorda.{name}" for name in FACE)
    assert run(f"import unacorda; {names}; print('fine')", "-W", "error") == "fine\n"


def test_names_are_few_each_once_and_in_order() -> None:
    assert len(FACE) <= 70  # a third of them aggregates, nine the values of a person
    assert len(set(FACE)) == len(FACE)
    assert set(FACE) <= set(dir(unacorda))
    assert not any(name.startswith("_") for name in FACE)


@pytest.mark.parametrize("name", FACE)
def test_every_name_resolves_and_is_explained(name: str) -> None:
    value = getattr(unacorda, name)
    assert getattr(unacorda, name) is value
    text = inspect.getdoc(value)
    assert text
    assert inspect.ismodule(value) or len(text.split()) >= 5
    # Not the signature that `dataclass` writes where there is no docstring.
    assert not text.startswith(f"{name}(")


def test_a_name_that_is_not_there_is_an_attribute_error() -> None:
    for name in ("mode", "_private", "Sessions", "__wrapped__"):
        with pytest.raises(AttributeError, match=f"module 'unacorda' has no attribute '{name}'"):
            getattr(unacorda, name)
    assert not hasattr(unacorda, "anything_else")


@pytest.mark.long
def test_a_star_import_brings_the_face() -> None:
    code = "from unacorda import *; print(Session.__name__, mean('a', 0, 1).column, PureDP(1))"
    assert run(code) == "Session a epsilon 1\n"


def test_the_version_is_that_of_the_installed_package() -> None:
    assert unacorda.__version__.count(".") == 2
    try:
        installed = metadata.version("unacorda")
    except metadata.PackageNotFoundError:  # run from a checkout that is not installed
        installed = unacorda.__version__
    assert unacorda.__version__ == installed


def test_types_of_the_face_are_those_of_its_names() -> None:
    """What type checkers are told of each name is where it is loaded from."""
    stub = ast.parse(Path(unacorda.__file__).with_suffix(".pyi").read_text())
    told = {
        alias.name: node.module
        for node in stub.body
        if isinstance(node, ast.ImportFrom)
        for alias in node.names
    }
    assert sorted(told) == sorted([*FACE, "__version__"])
