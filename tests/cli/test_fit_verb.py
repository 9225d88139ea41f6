"""`unacorda fit`: formulas, models, and what is refused before anything is spent."""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

import json
import re
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from tests.cli.conftest import Run
from tests.support.cases import in_subtests
from tests.support.cli_seams import read_formula

from unacorda.errors import InvalidParameter

ROW = ("--row", "--mu", "300")


@pytest.fixture
def patients(tmp_path: Path) -> str:
    """3,000 patients, whose weight is 50 + age / 2 + 10 for men, and nothing for two of them."""
    drawn = np.random.default_rng(7)
    age, sex = drawn.integers(20, 80, 3000), drawn.integers(0, 2, 3000)
    weight = 50 + age / 2 + 10 * sex + drawn.normal(0, 1, 3000)
    rows = [
        f"{n},{a},{'fm'[s]},{s},{w:.3f}"
        for n, (a, s, w) in enumerate(zip(age, sex, weight, strict=True))
    ]
    path = tmp_path / "patients.csv"
    path.write_text(
        "\n".join(["id,age,sex,male,weight", *rows, "3001,30,x,,60", "3002,,f,0,"]) + "\n"
    )
    return str(path)


def coefficients(run: Run, *arguments: str) -> dict[str, tuple[float, float]]:
    ran = run("fit", *arguments, "--json")
    assert ran.code == 0, ran.err
    found = json.loads(ran.out)["coefficients"]
    return {one["name"]: (one["lower"], one["upper"]) for one in found}


@pytest.mark.slow
@pytest.mark.parametrize(
    ("options", "name"),
    [
        (("--keys", "sex=f,m", "weight ~ age + C(sex)"), "sex[m]"),
        (("--keys", "male=0,1", "weight ~ age + C(male)"), "male[1]"),
        (("weight ~ age + male",), "male"),
        (("weight ~ 1 + age + I(sex = 'm')",), "I(sex = 'm')"),
        (("weight ~ age + I(male * 1)",), "I(male * 1)"),
    ],
)
def test_a_formula_is_fit(run: Run, patients: str, options: tuple[str, ...], name: str) -> None:
    found = coefficients(run, patients, *ROW, *options)
    assert list(found) == ["intercept", "age", name]
    # Five standard errors at least: the noise of 3,000 rows is far below them.
    for coefficient, exact in (("intercept", 50), ("age", 0.5), (name, 10)):
        lower, upper = found[coefficient]
        middle, width = (lower + upper) / 2, upper - lower
        assert abs(middle - exact) < 3 * width < 3


@pytest.mark.slow
@pytest.mark.parametrize(
    ("model", "formula"),
    [
        ("logistic", "male ~ weight"),
        ("logistic", "I(weight > 80) ~ age"),
        ("poisson", "age ~ male"),
        ("quantile", "weight ~ age"),
    ],
)
def test_every_model_is_fit(run: Run, patients: str, model: str, formula: str) -> None:
    options = ("--model", model, "--where", "age < 70", "--bounds", "age=0:120")
    found = coefficients(run, patients, *ROW, *options, formula)
    assert len(found) == 2
    assert all(lower < upper for lower, upper in found.values())


@pytest.mark.slow
def test_a_fit_is_paid_for_once(run: Run, patients: str, ledger: str) -> None:
    book = ("--ledger", ledger, "--dataset", "p", "--budget", "mu=2")
    unit = ("--unit", "id", "--max-rows", "1", "--mu", "1", "--purpose", "thesis")
    ran = run("fit", patients, *unit, *book, "weight ~ age")
    assert ran.code == 0, ran.err
    assert re.match(r"LinearRegression\nspent +mu 1, a person \(id\)", ran.out)
    assert ran.out.endswith("Account 'p': mu 1.73205080757 of 2 left.\n")
    shown = run("ledger", "show", "--ledger", ledger).out
    assert "mu 1.0" not in shown
    assert "  thesis\n" in shown


@in_subtests(
    ("arguments", "said"),
    [
        (("weight age",), "FORMULA='weight age' cannot be used: expected TARGET ~ TERM"),
        (("weight ~ age ~ sex",), "expected TARGET ~ TERM"),
        (("weight ~",), "expected a column"),
        (("weight ~ age +",), "expected a column"),
        (("weight ~ age * 2",), "FORMULA='age * 2' cannot be used"),
        (("weight ~ age:sex",), "FORMULA='age:sex' cannot be used"),
        (("weight ~ 0 + age",), "the intercept left in"),
        (("weight ~ age + age",), "each term once"),
        (("weight ~ ln(age",), "brackets that are closed"),
        (("weight ~ ln(age) * (age)",), "FORMULA='ln(age) * (age)'"),
        (("weight ~ C(age + 1)",), "the name of a column in C(...)"),
        (("C(sex) ~ age",), "left of ~"),
        (("weight ~ agee",), "Did you mean 'age'?"),
        (("weight ~ C(sex)",), "Missing: --keys sex=A,B, the values of C(sex)."),
        (("--keys", "sex=f", "weight ~ C(sex)"), "two values or more"),
        (("--keys", "sex=f,m", "weight ~ age"), "for a column that the formula has as C(column)"),
        (("--quantile", "0.9", "weight ~ age"), "--model quantile with it"),
        (("--model", "poisson", "age ~ weight"), "Write --bounds age=LOWER:UPPER."),
        (("--model", "cubic", "weight ~ age"), "--model='cubic'"),
        (("--where", "agee > 3", "weight ~ age"), "agee"),
        ((), "Missing: FORMULA"),
    ],
)
def test_what_cannot_be_fit_is_refused_before_an_account_is_opened(
    run: Run, patients: str, tmp_path: Path, arguments: tuple[str, ...], said: str
) -> None:
    address = f"sqlite:///{tmp_path / 'budget.db'}"
    book = ("--ledger", address, "--dataset", "p", "--budget", "mu=2")
    ran = run("fit", patients, "--row", "--mu", "1", *book, *arguments)
    assert (ran.code, ran.out) == (2, "")
    assert said in ran.err
    assert not (tmp_path / "budget.db").exists()


@in_subtests(
    "formula", ["weight ~ age + sex", "weight ~ age + I(sex * 2)", "sex ~ age", "weight ~ ln(sex)"]
)
def test_a_column_whose_type_is_text_is_refused_with_what_to_write(
    run: Run, tmp_path: Path, formula: str
) -> None:
    frame = pd.DataFrame({"age": [30, 40], "sex": ["f", "m"], "weight": [60.0, 70.0]})
    frame.to_parquet(tmp_path / "people.parquet")
    ran = run("fit", str(tmp_path / "people.parquet"), *ROW, formula)
    assert ran.code == 2
    for said in ("FORMULA='sex'", "C(sex)", "--keys sex=A,B", "--bounds sex=LOWER:UPPER"):
        assert said in ran.err
    assert "C(age)" not in ran.err


@pytest.mark.long
def test_a_fit_names_the_columns_of_a_csv_file_that_it_reads_as_numbers(
    run: Run, patients: str
) -> None:
    bounds = ("--bounds", "age=0:120", "--bounds", "weight=0:200")
    ran = run("fit", patients, *ROW, *bounds, "weight ~ age + male + I(sex = 'm')", "--json")
    (note,) = json.loads(ran.out)["notes"]
    assert "counts nowhere: male. For categories write C(column)" in note
    ran = run("fit", patients, *ROW, "weight ~ sex")  # whatever their values are
    said = " ".join(ran.out.split())
    assert "counts nowhere: weight, sex. For categories write C(column)" in said
    assert "TRY_CAST" not in said


def test_what_costs_more_than_a_new_account_has_does_not_open_it(
    run: Run, patients: str, tmp_path: Path
) -> None:
    address = f"sqlite:///{tmp_path / 'budget.db'}"
    book = ("--ledger", address, "--dataset", "p", "--budget", "mu=2")
    ran = run("fit", patients, "--row", "--mu", "3", *book, "weight ~ age")
    assert ran.code != 0
    assert not (tmp_path / "budget.db").exists()


def test_pure_dp_and_all_that_is_missing_are_refused(run: Run, patients: str) -> None:
    ran = run("fit", patients, "--row", "--epsilon", "1", "weight ~ age")
    assert "--delta with it, or --rho or --mu" in ran.err
    ran = run("fit", patients, "weight ~ age + C(sex)")
    said, *_, last = ran.err.splitlines()
    assert said.endswith(
        "--unit with --max-rows, or --row; --epsilon, --rho or --mu; --keys sex=A,B."
    )
    assert last.endswith("'weight ~ age + C(sex)'")


def test_quotes_and_brackets_keep_signs() -> None:
    formula = read_formula("""I(x + 1) ~ "a+b" + I(y = '~+') + C("c d")""")
    assert formula.target.expression == "x + 1"
    assert [term.column for term in formula.terms] == ["a+b", None, "c d"]
    assert formula.terms[1].expression == "y = '~+'"
    with pytest.raises(InvalidParameter) as caught:
        read_formula("a ~ b + c * d")
    line, mark = caught.value.drawing.splitlines()[1:]
    assert line[mark.index("^") : mark.rindex("^") + 1] == "c * d"
