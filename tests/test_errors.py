"""The exception tree: what its docstring draws is what there is, and every text helps."""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

import inspect
import pickle
import re
from collections import OrderedDict, deque
from dataclasses import dataclass
from fractions import Fraction

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

from unacorda import errors
from unacorda.extras import require
from unacorda.privacy.events import Gaussian, Pure, compose


def test_the_tree_in_the_docstring_is_the_tree() -> None:
    drawn = {}
    path: list[str] = []
    for line in (inspect.getdoc(errors) or "").splitlines():
        found = re.match(r"^([│├└─ ]*)([A-Z]\w+)", line.removeprefix("    "))
        if not found or found[2] not in errors.__all__:
            continue
        depth = len(found[1]) // 4
        path[depth:] = [found[2]]
        drawn[found[2]] = path[depth - 1] if depth else None
    assert set(drawn) == set(errors.__all__)
    for name, parent in drawn.items():
        bases = [base.__name__ for base in getattr(errors, name).__bases__]
        assert bases[0] == (parent or "Exception")


def test_every_error_is_a_unacorda_error_and_exported() -> None:
    classes = {
        name
        for name, value in vars(errors).items()
        if inspect.isclass(value) and issubclass(value, Exception)
    }
    assert classes == set(errors.__all__)
    assert all(issubclass(getattr(errors, name), errors.UnacordaError) for name in classes)


def test_exceptions_alone_are_offered_for_completion() -> None:
    assert dir(errors) == sorted(errors.__all__)


def test_a_long_value_is_cut_in_the_message() -> None:
    message = str(errors.InvalidParameter("keys", "x" * 10_000, expected="less"))
    assert len(message) < 400
    assert "keys=" in message
    assert "less" in message


@pytest.mark.parametrize(
    ("value", "written"),
    [
        (Fraction(1, 10**400), "1e-400"),
        (Fraction(-2, 3 * 10**400), "-6.67e-401"),
        (25 * 10**5000, "2.5e5001"),
        (10**30, str(10**30)),
        (Fraction(1, 3), "Fraction(1, 3)"),
        ([10**5000], "<list with numbers too long to write>"),
    ],
    ids=["tiny", "below 0", "vast", "whole", "third", "list"],
)
def test_long_numbers_are_written_by_their_size(value: object, written: str) -> None:
    error = errors.InvalidParameter("delta", value, expected="less")
    assert str(error) == f"delta={written} cannot be used: expected less."
    assert error.value is value


def test_an_event_that_has_no_price_is_written_in_short() -> None:
    many = compose([Gaussian(noise_multiplier=1 + k) for k in range(500)])
    assert len(str(errors.UnsupportedEvent(many, kind="PureDP", try_instead="Use ZCDP."))) < 300
    long = Pure(epsilon=Fraction(1, 10**5000))
    assert "too long" in str(errors.UnsupportedEvent(long, kind="GDP", try_instead="Use ZCDP."))


@dataclass
class _Holder:
    """Whose repr shows what it holds."""

    frame: pd.DataFrame


def test_no_message_shows_rows_that_were_given_for_something_else() -> None:
    frame = pd.DataFrame({"name": ["Ann Other", "Bo Else"], "age": [4711, 4712]})
    given = [
        *(frame, frame["age"], frame["age"].to_numpy(), pl.from_pandas(frame)),
        *(pl.from_pandas(frame)["age"], pa.table(frame), pa.array(frame["age"])),
    ]
    given += [[one] for one in given] + [{"t": (one,)} for one in given]
    for value in given:
        message = str(errors.InvalidParameter("query", value, expected="a question"))
        assert "Ann" not in message
        assert "471" not in message
        assert "query=" in message
        assert re.search(r"<(pandas|polars|pyarrow|numpy)\.\w+>", message)
    held = [deque([frame]), _Holder(frame), OrderedDict(t=frame), iter([frame]), [[[[[frame]]]]]]
    for value in held:
        for shown in (value, [value]):
            message = str(errors.InvalidParameter("query", shown, expected="a question"))
            assert "Ann" not in message
            assert "471" not in message
    day = pd.Timestamp("2024-01-31")
    for value in ([1, "a", None], (1, {2: [3]}), np.float64(1.5), day, {4, 5}, [[]]):
        assert repr(value) in str(errors.InvalidParameter("x", value, expected="less"))


def test_every_error_survives_a_process_pool() -> None:
    examples: list[Exception] = [
        errors.EngineFailed(),
        errors.EngineFailed(asked=False),
        errors.InvalidParameter("epsilon", -1, expected="a number above 0"),
        errors.MissingBound("lower", expected="a bound"),
        errors.UnsafeExpression("random()", reason="it is random", hint="Leave it out."),
        errors.WrongUnit("a", "b", hint="Convert."),
        errors.UnsupportedEvent("e", kind="GDP", try_instead="Ask in ZCDP."),
        errors.BudgetExceeded(asked="2", left="1", account="visits"),
        errors.LedgerMismatch("other terms"),
        errors.LedgerFailed("sqlite:///x", reason="disk full"),
        errors.SourceChanged("changed"),
        errors.SourceUnreadable("gone"),
        errors.FitFailed(),
        errors.DeadlinePassed(seconds=10),
        errors.ServerRefused("no such set", kind="not-found", status=404),
        errors.StreamStopped(reason="it has given every answer"),
        errors.InternalError(Gaussian(noise_multiplier=1), contradiction="two numbers"),
        errors.MissingExtra("torch", extra="learning"),
        errors.UnsupportedConstruct("LN", engine="Spark"),
        errors.UnacordaError("root"),
    ]
    assert {type(error).__name__ for error in examples} == set(errors.__all__)
    for error in examples:
        again = pickle.loads(pickle.dumps(error))
        assert (type(again), str(again), vars(again)) == (type(error), str(error), vars(error))


def test_the_engine_s_failure_has_one_text() -> None:
    assert str(errors.EngineFailed()) == str(errors.EngineFailed())
    with pytest.raises(TypeError):
        errors.EngineFailed("a row")  # type: ignore[arg-type, call-arg]


def test_a_missing_package_comes_with_its_command() -> None:
    with pytest.raises(errors.MissingExtra, match=r"pip install 'unacorda\[frames\]'") as caught:
        require("no_such_package_anywhere", extra="frames")
    assert caught.value.__cause__ is None
    assert caught.value.__context__ is None


@pytest.mark.parametrize(
    ("module", "installed"),
    [("sklearn.no_such_part", "scikit-learn"), ("no_such_package.sql", "no_such_package")],
)
def test_a_missing_package_is_called_as_it_is_installed(module: str, installed: str) -> None:
    with pytest.raises(errors.MissingExtra, match=f"the package '{installed}'"):
        require(module, extra="inference")


def test_a_mend_that_asks_ends_with_its_question_mark() -> None:
    error = errors.InvalidParameter("column", "agee", expected="a column. Did you mean 'age'?")
    assert str(error).endswith("Did you mean 'age'?")
