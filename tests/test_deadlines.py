"""Deadlines of plans: they end what is free, never what is paid."""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

import threading

import pandas as pd
import pytest

import unacorda
from unacorda.deadlines import check_deadline, deadline, lift_deadline
from unacorda.errors import DeadlinePassed


def test_it_holds_inside_and_in_its_thread_alone() -> None:
    passed: list[bool] = []

    def other() -> None:
        check_deadline()
        passed.append(True)

    with deadline(0.0):
        with pytest.raises(DeadlinePassed, match="Hint"):
            check_deadline()
        thread = threading.Thread(target=other)
        thread.start()
        thread.join()
        lift_deadline()
        check_deadline()
    check_deadline()
    assert passed == [True]


def test_a_plan_ends_and_spends_nothing_and_what_is_paid_is_answered() -> None:
    frame = pd.DataFrame({"id": range(50), "age": range(50)})
    budget = unacorda.ApproxDP(1, 1e-6)
    with unacorda.Session({"t": frame}, unit=unacorda.Row(), budget=budget) as session:
        ages = {f"m{number}": unacorda.median("age", 0, 100) for number in range(3)}
        medians = session.table("t").agg(**ages)
        part = unacorda.ApproxDP(0.1, 1e-8)
        with deadline(0.0):
            for ask in (session.explain, session.evaluate):
                with pytest.raises(DeadlinePassed):
                    ask(medians, budget=part)
        assert session.remaining == budget
        with deadline(30.0):
            assert session.evaluate(medians, budget=part)
            lift_deadline()
