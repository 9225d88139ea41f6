"""Answers over time: who counts step by step, what is said of them, and what the ledger keeps."""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

import datetime as dt
import itertools
import json
import math
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from tests.contracts.audited_sessions import DOORS
from tests.support.seams import Ledger, ledger_of, open_ledger

import unacorda
from unacorda import (
    GDP,
    ZCDP,
    ApproxDP,
    OverTime,
    PureDP,
    SeededBits,
    Session,
    accounting,
    audit,
    window,
)
from unacorda.errors import (
    BudgetExceeded,
    EngineFailed,
    InvalidParameter,
    LedgerMismatch,
    UnacordaError,
    WrongUnit,
)
from unacorda.privacy.events import Gaussian
from unacorda.query.series.answers import _shares

START = dt.date(2025, 1, 1)
HARDLY_ANY_NOISE = ZCDP(10**12)


def visits(seed: int = 0, *, people: int = 40, rows: int = 600, days: int = 20) -> pd.DataFrame:
    """Rows of people over days, some before and after, some without a date or an id."""
    draws = np.random.default_rng(seed)
    days_of = draws.integers(-3, days + 3, rows)
    frame = pd.DataFrame(
        {
            "id": draws.integers(0, people, rows).astype(float),
            "seen": pd.to_datetime(START) + pd.to_timedelta(days_of, unit="D"),
            "cost": draws.integers(-5, 11, rows).astype(float),
            "county": draws.choice(["a", "b", "c"], rows),
        }
    )
    frame.loc[draws.random(rows) < 0.05, "id"] = np.nan
    frame.loc[draws.random(rows) < 0.05, "seen"] = pd.NaT
    return frame


def opened(frame: Any, *, ledger: Ledger | None = None, **options: Any) -> Session:
    given: dict[str, Any] = {
        "unit": unacorda.Person("id", max_rows=1),
        "budget": ZCDP(10**13),
        "dataset": "visits",
        "ledger": ledger or open_ledger(None),
        **options,
    }
    return Session({"visits": frame}, **given)


PERSON = OverTime(max_steps=3, max_rows_per_step=2)
ASKED: dict[str, Any] = {
    "name": "daily",
    "by": "seen",
    "start": "2025-01-01",
    "steps": 20,
    "person": PERSON,
    "wanted": ("steps", "totals", window(7)),
    "budget": HARDLY_ANY_NOISE,
}


# Tests of sessions in memory, which are warned of: see the one that asks for it.
pytestmark = pytest.mark.filterwarnings("ignore:The ledger is in memory")


def question(session: Session, **aggregates: Any) -> Any:
    return session.table("visits").agg(**(aggregates or {"n": unacorda.count()}))


def series(session: Session, query: Any = None, **changes: Any) -> Any:
    return session.over_time(query or question(session), **{**ASKED, **changes})


def counted(frame: pd.DataFrame, person: OverTime, *, days: int = 20) -> list[int]:
    """How many rows count in each step, from the definition."""
    rows = frame.dropna(subset=["id", "seen"]).copy()
    rows["s"] = (rows.seen - pd.Timestamp(START)).dt.days
    rows = rows[(rows.s >= 0) & (rows.s < days)]
    found = [0] * days
    for _, own in rows.groupby("id"):
        by_step = own.groupby("s").size()
        if person.max_steps is not None:
            periods = by_step.index // (person.within or days)
            by_step = by_step.groupby(periods).head(person.max_steps)
        by_step, left = by_step.clip(upper=person.each), person.max_rows
        for step, rows_in in by_step.items():
            taken = rows_in if left is None else min(rows_in, left)
            left = None if left is None else left - taken
            found[int(str(step))] += int(taken)
    return found


@pytest.mark.parametrize(
    "person",
    [
        OverTime(max_steps=1),
        OverTime(max_steps=3, max_rows_per_step=2),
        OverTime(max_steps=2, within=7),
        OverTime(max_steps=2, within=4, max_rows_per_step=3),
        OverTime(max_rows=4),
        OverTime(max_rows=5, max_rows_per_step=2),
        OverTime(max_steps=3, max_rows_per_step=2, max_rows=4),
    ],
    ids=str,
)
def test_the_first_rows_of_each_person_count(person: OverTime) -> None:
    frame = visits()
    with opened(frame) as session:
        answers = series(session, person=person).answer_until("2025-01-20")
    expected = counted(frame, person)
    assert answers["n_step"] == expected
    assert answers["n_total"] == np.cumsum(expected).tolist()
    weeks = [sum(expected[max(0, step - 6) : step + 1]) for step in range(20)]
    assert answers["n_window7"] == weeks
    assert answers["day"] == [START + dt.timedelta(days=step) for step in range(20)]


@pytest.mark.long
def test_a_table_that_grows_gives_what_all_of_it_gives() -> None:
    frame = visits(1)
    whole = opened(frame)
    expected = series(whole).answer_until("2025-01-20")
    ledger = open_ledger(None)
    for step in range(20):
        day = START + dt.timedelta(days=step)
        grown = frame[~(frame.seen > pd.Timestamp(day))].sample(frac=1, random_state=step)
        with opened(grown, ledger=ledger) as session:
            found = series(session).answer(day)
            assert found["n_total"] == expected["n_total"][: step + 1]
    assert ledger.verify("visits") == 21
    assert ledger.spent("visits") == HARDLY_ANY_NOISE


@pytest.mark.long
def test_which_rows_of_a_step_count_stays_the_same() -> None:
    # By group and value too, though rows are put in another order.
    frame = visits(2)
    ledger, found = open_ledger(None), []
    for turn in range(3):
        with opened(frame.sample(frac=1, random_state=turn), ledger=ledger) as session:
            query = session.table("visits").group_by("county", keys=["a", "b", "c"])
            query = query.agg(n=unacorda.count(), cost=unacorda.sum("cost", -5, 10))
            made = series(session, query, person=OverTime(max_steps=2))
            found.append(made._exact(0, 19)[0])
    assert found[0] == found[1] == found[2]
    assert sum(map(sum, found[0]["n"])) == sum(counted(frame, OverTime(max_steps=2)))


@pytest.mark.long
def test_a_person_moves_no_more_steps_and_rows_than_is_said() -> None:
    frame = visits(3)
    ledger = open_ledger(None)

    def exact(rows: pd.DataFrame) -> Any:
        with opened(rows, ledger=ledger) as session:
            query = session.table("visits").group_by("county", keys=["a", "b", "c"])
            return np.array(series(session, query.agg(n=unacorda.count()))._exact(0, 19)[0]["n"])

    whole = exact(frame)
    for person in range(8):
        moved = whole - exact(frame[frame.id != person])
        assert (moved >= 0).all()
        by_step = moved.sum(axis=1)
        assert (by_step > 0).sum() <= 3
        assert by_step.max(initial=0) <= 2


def test_rows_that_come_late_change_nothing_that_was_answered() -> None:
    frame = pd.DataFrame({"id": [1, 2], "seen": [START, START + dt.timedelta(days=1)]})
    late = pd.DataFrame({"id": [3, 1], "seen": [START, START + dt.timedelta(days=2)]})
    ledger = open_ledger(None)
    with opened(frame, ledger=ledger) as session:
        before = series(session).answer_until("2025-01-02")
    with opened(pd.concat([frame, late]), ledger=ledger) as session:
        after = series(session).answer_until("2025-01-03")
    assert before["n_step"] == [1, 1]
    # One row breaks the promise with an old date, the other has that on which it came.
    assert after.to_dicts()[:2] == before.to_dicts()


def test_later_rows_change_nothing_of_earlier_steps() -> None:
    frame = visits(4)
    early = frame[~(frame.seen >= pd.Timestamp("2025-01-11"))]
    ledger, found = open_ledger(None), []
    for rows in (frame, early):
        with opened(rows, ledger=ledger) as session:
            found.append(series(session)._exact(0, 9)[0])
    assert found[0] == found[1]


def moved_by_a_person(what: str) -> tuple[float, float]:
    """The square by which a person whose rows change moves a series, and what is paid for.

    what: of earlier rows changes each day, 'values' and listed keys, or 'condition', whether they
    fulfil that of the question.
    """
    ledger, steps, length = open_ledger(None), range(6), 6
    for step in steps:
        days = [START + dt.timedelta(days=n) for n in steps]
        frame = pd.DataFrame({"id": [1] * length, "seen": days})
        frame["x"] = [10.0 - 9 * ((step + n) % 2) for n in steps]
        frame["key"] = ["ab"[(step + n) % 2] for n in steps]
        frame["open"] = [n == step or what != "condition" for n in steps]
        with opened(frame[: step + 1], ledger=ledger) as session:
            rows = session.table("visits").where("open").group_by("key", keys=["a", "b"])
            made = series(
                session,
                rows.agg(n=unacorda.count(), x=unacorda.sum("x", 0, 10)),
                steps=length,
                person=OverTime(max_steps=2),
                wanted="totals",
            )
            answers = made.answer(days[step])
    lines = [json.loads(line) for line in answers.released]
    square = 0.0
    for name, noise in made.plan.noises.items():
        moved = np.array([line[name] for line in lines]) * 2.0**noise.grid_log2
        square += float((moved**2).sum()) / float(noise.sigma) ** 2
    return square, 2.0 * 10**12


@pytest.mark.long
def test_what_changes_in_rows_that_count_costs_nothing() -> None:
    moved, paid = moved_by_a_person("values")
    assert 0.3 * paid < moved <= paid * (1 + 1e-4)


@pytest.mark.long
def test_a_condition_whose_columns_change_breaks_the_promise() -> None:
    moved, paid = moved_by_a_person("condition")
    assert moved > 1.1 * paid
    with opened(visits()) as session:
        said = str(series(session).explain())
    assert "what decides whether a row counts never change" in said


def test_people_so_far_count_once_at_their_first_row() -> None:
    frame = visits(5)
    with opened(frame) as session:
        query = session.table("visits").group_by("county", keys=["a", "b", "c"])
        query = query.agg(people=unacorda.count_people())
        made = series(session, query, person=None, wanted="totals")
        answers = made.answer_until("2025-01-20").to_pandas()
        # No bound on rows is needed: the noise is that of one row.
        assert made.plan.person is None
    rows = frame.dropna()
    rows = rows[(rows.seen >= pd.Timestamp(START)) & (rows.seen < pd.Timestamp("2025-01-21"))]
    first = rows.groupby("id").seen.min()
    for day, lines in answers.groupby("day"):
        assert lines.people_total.sum() == (first <= pd.Timestamp(day)).sum()


def test_people_and_rows_are_asked_together() -> None:
    frame = visits(5)
    with opened(frame) as session:
        both = question(session, people=unacorda.count_people(), n=unacorda.count())
        answers = series(session, both).answer_until("2025-01-20")
        plan = session.over_time(name="daily").plan
    assert answers["n_step"] == counted(frame, PERSON)
    assert answers["people_step"] == counted(frame, OverTime(max_rows=1))
    norms = [_norm(plan.encoder.coefficients, turns) for turns in (3, 1)]
    ratio = float(plan.sigmas["n"] / plan.sigmas["people"])
    assert ratio == pytest.approx(2 * norms[0] / norms[1])


def test_rows_that_nothing_reads_take_no_step() -> None:
    days = [START + dt.timedelta(days=n) for n in range(4)]
    frame = pd.DataFrame({"id": [1] * 4, "seen": days, "x": [0, 0, 1, 1]})
    with opened(frame) as session:
        asked = question(session, n=unacorda.count_if("x = 1"))
        made = series(session, asked, steps=10, person=OverTime(max_steps=1), wanted="steps")
        answers = made.answer_until("2025-01-04")
    assert answers["n_step"] == [0, 0, 1, 0]


def test_sums_are_clamped_and_of_both_signs() -> None:
    frame = pd.DataFrame(
        {"id": [1, 1, 2, 3], "seen": [START] * 4, "cost": [100.0, -7.0, -100.0, None]}
    )
    with opened(frame) as session:
        asked = question(session, cost=unacorda.sum("cost", -5, 10.5), n=unacorda.count())
        made = series(session, asked, steps=3, wanted="steps")
        assert made.answer(START)["cost_step"] == pytest.approx([10.5 - 5 - 5], abs=1e-3)


@pytest.mark.parametrize(
    ("aggregate", "factor"),
    [
        (unacorda.count(), math.sqrt(2)),
        (unacorda.sum("cost", 0, 10), math.sqrt(2)),
        (unacorda.sum("cost", -10, 0), math.sqrt(2)),
        (unacorda.sum("cost", -5, 10), 2),
    ],
    ids=["count", "positive", "negative", "signed"],
)
def test_replacing_a_person_costs_more(aggregate: Any, factor: float) -> None:
    sigmas = []
    for neighbors in (unacorda.AddRemove, unacorda.ReplaceOne):
        unit = unacorda.Person("id", max_rows=1, neighbors=neighbors)
        with opened(visits(), unit=unit) as session:
            plan = series(session, question(session, a=aggregate), budget=ZCDP(1)).plan
            sigmas.append(float(plan.sigmas["a"]))
    assert sigmas[1] == pytest.approx(factor * sigmas[0])


@pytest.mark.slow
@pytest.mark.statistical
@pytest.mark.timeout(900)
def test_a_whole_stream_tells_nearly_as_much_as_is_paid() -> None:
    """20,000 streams with a person of the first three days, and as many without; sure to 1e-6."""
    door = DOORS["over_time"]
    (present, absent), streams = door.pairs[0], 20_000
    sample = door.sample(GDP("1.5"))
    scores = np.concatenate([np.asarray(sample(one, streams))[:, -1] for one in (present, absent)])
    promised = 1.125
    delta = accounting.delta(Gaussian(noise_multiplier=Fraction(2, 3)), epsilon=promised)
    found = audit.many_runs(
        scores, np.arange(2 * streams) < streams, delta=delta, confidence=1 - 1e-6, gaussian=True
    )
    assert 0.7 * promised < found.epsilon < promised


def test_the_price_is_the_budget_and_is_shared_by_weights() -> None:
    with opened(visits(), budget=ZCDP(1)) as session:
        asked = question(session, a=unacorda.count(weight=3), b=unacorda.count_if("cost > 0"))
        made = series(session, asked, budget=ZCDP("0.5"))
        assert session.spent == ZCDP("0.5")
        made.answer_until("2025-01-05")
        assert session.spent == ZCDP("0.5")
        plan = made.plan
        assert float(plan.sigmas["b"] / plan.sigmas["a"]) == pytest.approx(math.sqrt(3))
        with pytest.raises(BudgetExceeded):
            series(session, name="other", budget=ZCDP("0.6"))


@pytest.mark.parametrize("budget", [GDP(1), ApproxDP(1, 1e-6)])
def test_budgets_of_other_kinds_are_spent_wholly(budget: Any) -> None:
    with opened(visits(), budget=budget) as session:
        made = series(session, budget=budget)
        assert session.spent == budget
        mu = GDP.within(budget)
        moved = made.plan.sigmas["n"] * Fraction(mu.mu_squared) ** Fraction(1, 2)
        assert moved == pytest.approx(2 * _norm(made.plan.encoder.coefficients, 3), rel=1e-6)


def _norm(column: np.ndarray, turns: int) -> float:
    sums = np.zeros(20)
    for step in range(turns):
        kept = column[: 20 - step]
        sums[step : step + kept.size] += kept
    return float(np.linalg.norm(sums))


def test_single_rows_are_protected_too() -> None:
    frame = visits(6)
    with opened(frame, unit=unacorda.Row()) as session:
        answers = series(session, person=None).answer_until("2025-01-20")
    inside = frame[(frame.seen >= pd.Timestamp(START)) & (frame.seen < pd.Timestamp("2025-01-21"))]
    assert answers["n_total"][-1] == len(inside)


@pytest.mark.parametrize(
    ("every", "start", "kind", "expected"),
    [
        ("week", "2025-01-01", "date", [START, dt.date(2025, 1, 8), dt.date(2025, 1, 15)]),
        ("month", "2024-12-01", "date", [dt.date(2024, 12, 1), START, dt.date(2025, 2, 1)]),
        (
            "hour",
            "2025-01-01 22:00",
            "timestamp",
            [
                dt.datetime.fromisoformat(f"2025-01-0{d}T{h}")
                for d, h in ((1, 22), (1, 23), (2, "00"))
            ],
        ),
    ],
)
def test_steps_of_other_lengths(every: str, start: str, kind: str, expected: list[Any]) -> None:
    del kind
    stamps = [
        "2024-11-30 23:59:59",
        "2024-12-31 23:59:59",
        "2025-01-01 00:00:00",
        "2025-01-01 21:59:59",
        "2025-01-01 22:00:00",
        "2025-01-01 23:59:59",
        "2025-01-02 00:00:00",
        "2025-01-07 23:00:00",
        "2025-01-08 01:00:00",
        "2025-02-01 00:00:00",
    ]
    seen = pd.to_datetime(pd.Series(stamps))
    frame = pd.DataFrame({"id": range(len(stamps)), "seen": seen})
    with opened(frame) as session:
        made = series(session, every=every, start=start, steps=3, wanted="steps")
        answers = made.answer_until(expected[-1])
    assert answers[every] == expected
    ends = [*map(pd.Timestamp, expected)]
    following = {"week": pd.Timedelta(days=7), "hour": pd.Timedelta(hours=1)}
    ends.append(ends[-1] + following[every] if every in following else pd.Timestamp("2025-03-01"))
    counts = [int(((seen >= a) & (seen < b)).sum()) for a, b in itertools.pairwise(ends)]
    assert answers["n_step"] == counts


def test_text_that_says_dates_and_expressions_will_do() -> None:
    frame = pd.DataFrame(
        {"id": [1, 2, 3], "seen": ["2025-01-01", "2025-01-02", "no date"], "y": [2025] * 3}
    )
    with opened(frame) as session:
        assert series(session).answer_until("2025-01-03")["n_step"] == [1, 1, 0]
        made = series(session, name="made", by="make_date(y, 1, 2)")
        assert made.answer_until("2025-01-03")["n_step"] == [0, 3, 0]


@pytest.mark.long
def test_without_an_end_windows_are_answered() -> None:
    frame = visits(7)
    with opened(frame) as session:
        made = series(session, steps=None, wanted=(window(7), "steps"))
        answers = made.answer_until("2025-01-20")
        assert answers["n_step"] == counted(frame, PERSON)
        assert made.plan.steps is None
        assert "without an end" in str(made.explain())


def test_many_groups_and_empty_steps() -> None:
    keys = [f"k{number}" for number in range(1_000)]
    frame = pd.DataFrame({"id": range(1_000), "seen": [START] * 1_000, "key": keys})
    with opened(frame) as session:
        query = session.table("visits").group_by("key", keys=keys).agg(n=unacorda.count())
        answers = series(session, query, steps=5, wanted="totals").answer_until("2025-01-05")
    assert len(answers) == 5_000
    assert set(answers["n_total"]) == {1}
    assert answers["key"] == keys * 5


def test_counts_are_whole_and_sums_are_not() -> None:
    with opened(visits(), bits=SeededBits(4)) as session:
        asked = question(session, n=unacorda.count(), cost=unacorda.sum("cost", 0, 10))
        made = series(session, asked, budget=ZCDP(1))
        answers = made.answer_until("2025-01-05")
    assert all(isinstance(value, int) for value in answers["n_total"])
    assert all(isinstance(value, float) for value in answers["cost_total"])
    assert any(value != round(value) for value in answers["cost_total"])


def test_forecast_and_answers_state_the_same_errors() -> None:
    with opened(visits(), bits=SeededBits(4)) as session:
        query, asked = question(session), {**ASKED, "budget": ZCDP(1)}
        del asked["name"]
        before = session.explain_over_time(query, **asked)
        assert session.spent == ZCDP(0)
        made = series(session, budget=ZCDP(1))
        after = made.explain()
        assert str(before) == str(after)
        answers = made.answer_until("2025-01-20")
    for kind in ("step", "total", "window7"):
        assert answers[f"n_{kind}_se"] == after.errors["n"][kind].tolist()
        assert np.array_equal(before.errors["n"][kind], after.errors["n"][kind])


# Order, names and processes.


def test_a_step_is_answered_once_and_in_order() -> None:
    with opened(visits(), bits=SeededBits(4)) as session:
        made = series(session, budget=ZCDP(1))
        with pytest.raises(InvalidParameter, match="the next step, 2025-01-01"):
            made.answer("2025-01-02")
        first = made.answer("2025-01-01")
        again = made.answer("2025-01-01")
        assert again.to_dicts() == first.to_dicts()
        later = made.answer_until("2025-01-10")
        assert later.to_dicts()[:1] == first.to_dicts()
        assert made.answer("2025-01-04").to_dicts() == later.to_dicts()[:4]
        assert made.answers().to_dicts() == later.to_dicts()
        assert made.answered == 10


@pytest.mark.long
def test_another_session_goes_on_by_the_name_alone(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path}/budget.db"
    frame = visits(8)
    found: list[Any] = []
    for days in (3, 9, 14):
        with Session(
            {"visits": frame},
            unit=unacorda.Person("id", max_rows=5 + days),
            budget=None if found else ZCDP(10**13),
            dataset="visits",
            ledger=url,
        ) as session:
            if found:
                made = session.over_time(name="daily")
            else:
                query = (
                    session.table("visits")
                    .where("cost >= 0")
                    .derive(half="cost / 2")
                    .group_by("county", keys=["a", "b"])
                    .agg(n=unacorda.count(), half=unacorda.sum("half", 0, 5))
                )
                made = series(session, query)
            found.append(made.answer_until(START + dt.timedelta(days=days)).to_dicts())
            assert session.spent == HARDLY_ANY_NOISE
    assert found[1][: len(found[0])] == found[0]
    assert found[2][: len(found[1])] == found[1]
    ledger = open_ledger(url)
    assert ledger.verify("visits") == 16
    ledger.close()


def test_a_series_of_another_opening_is_not_gone_on_with() -> None:
    def restored(budget: Any) -> Any:
        session = opened(visits(), ledger=open_ledger(None))
        return series(session, budget=budget)

    dear, cheap = restored(ZCDP(10**12)), restored(ZCDP(1))
    dear._context = cheap._context  # as where a ledger is begun anew under a running process
    with pytest.raises(LedgerMismatch, match="no series"):
        dear.answer("2025-01-01")
    assert cheap.answered == 0


def test_two_processes_say_the_same_of_a_step() -> None:
    ledger, frame = open_ledger(None), visits()
    one, other = (opened(frame, ledger=ledger) for _ in range(2))
    first, second = series(one, budget=ZCDP(1)), series(other, budget=ZCDP(1))
    assert one.spent == ZCDP(1)
    # Both look, then both make the step: the slower one forgets what it drew.
    first._look()
    second._look()
    first._make(0, 2)
    second._make(0, 2)
    assert first.answers().to_dicts() == second.answers().to_dicts()
    assert second.answer_until("2025-01-05").to_dicts() == first.answers().to_dicts()
    assert ledger.verify("visits") == 6


@pytest.mark.parametrize(
    ("changes", "part"),
    [
        ({"steps": 21}, "steps"),
        ({"start": "2025-01-02"}, "start"),
        ({"person": OverTime(max_steps=4, max_rows_per_step=2)}, "person"),
        ({"wanted": "totals"}, "wanted"),
        ({"budget": ZCDP(2)}, "budget"),
        ({"by": "other"}, "by"),
        ({"every": "week", "steps": 20}, "every"),
        ({"kept": 0.1}, "kept"),
    ],
)
def test_another_plan_under_a_name_is_a_mismatch(changes: dict[str, Any], part: str) -> None:
    with opened(visits().assign(other=START)) as session:
        series(session)
        before = session.spent
        with pytest.raises(LedgerMismatch, match=rf"another plan: .*{part}"):
            series(session, **changes)
        with pytest.raises(LedgerMismatch, match=r"another plan: .*aggregates"):
            series(session, question(session, n=unacorda.count("cost")))
        assert session.spent == before


def test_a_date_column_of_another_type_is_a_mismatch() -> None:
    ledger = open_ledger(None)
    frame = visits()
    with opened(frame, ledger=ledger) as session:
        series(session)
    with (
        opened(frame.assign(seen=frame.seen.dt.date), ledger=ledger) as session,
        pytest.raises(LedgerMismatch, match=r"another plan: kind"),
    ):
        series(session)
    with opened(frame.drop(columns="seen"), ledger=ledger) as session, pytest.raises(UnacordaError):
        session.over_time(name="daily").answer("2025-01-01")
    with opened(frame.drop(columns="cost"), ledger=ledger) as session:
        session.over_time(name="daily")  # nothing that it asks has changed


def test_a_date_column_with_a_time_zone_is_another_one(tmp_path: Path) -> None:
    """A person's row lies on another day then: it would count twice."""
    ledger, frame = open_ledger(None), visits()
    zoned = frame.assign(seen=frame.seen.dt.tz_localize("America/New_York"))
    for name, table in (("plain", frame), ("zoned", zoned)):
        table.to_parquet(tmp_path / f"{name}.parquet")
    with opened(str(tmp_path / "plain.parquet"), ledger=ledger) as session:
        series(session)
    with opened(str(tmp_path / "zoned.parquet"), ledger=ledger) as session:
        with pytest.raises(LedgerMismatch, match=r"another plan: columns"):
            series(session)
        with pytest.raises(LedgerMismatch, match="another plan"):
            session.over_time(name="daily")


def test_analysts_have_series_of_their_own() -> None:
    with opened(visits(), budget=ZCDP(2)) as session:
        ana = session.for_analyst("ana", ZCDP(1))
        own = series(ana, budget=ZCDP("0.5"))
        assert (ana.spent, session.spent) == (ZCDP("0.5"), ZCDP("0.5"))
        series(session, budget=ZCDP(1))
        own.answer("2025-01-01")
        assert session.over_time(name="daily").answered == 0
        assert ana.over_time(name="daily").answered == 1
        assert session.spent == ZCDP("1.5")


# Failures.


def test_what_fails_releases_nothing_and_is_asked_again(monkeypatch: pytest.MonkeyPatch) -> None:
    with opened(visits(), bits=SeededBits(4)) as session:
        made = series(session, budget=ZCDP(1))
        engine: Any = session._engine
        with monkeypatch.context() as patch:
            patch.setattr(type(engine), "run", _fails)
            with pytest.raises(EngineFailed):
                made.answer("2025-01-01")
        assert made.answered == 0
        ledger = ledger_of(session)
        with monkeypatch.context() as patch:
            patch.setattr(type(ledger), "add_step", _fails)
            with pytest.raises(EngineFailed):
                made.answer("2025-01-01")
        assert made.answered == 0
        assert len(made.answer("2025-01-01")) == 1


def _fails(*_: object, **__: object) -> Any:
    raise EngineFailed


def test_what_leaves_stands_in_the_ledger_first(monkeypatch: pytest.MonkeyPatch) -> None:
    with opened(visits(), bits=SeededBits(4)) as session:
        made = series(session, budget=ZCDP(1))
        answers = made.answer_until("2025-01-03")
        entries = [one for one in ledger_of(session).entries("visits") if one.state == "stepped"]
        assert [one.found for one in entries] == list(answers.released)
        assert all(set(json.loads(one.found or "")) == {"n"} for one in entries)
        assert all(one.reproducible for one in entries)


def test_seeded_noise_enters_no_durable_ledger(tmp_path: Path) -> None:
    ledger = open_ledger(f"sqlite:///{tmp_path}/budget.db")
    with (
        opened(visits(), ledger=ledger, bits=SeededBits(1)) as session,
        pytest.raises(InvalidParameter, match="reproducible"),
    ):
        series(session)


def test_a_ledger_in_memory_is_warned_of_once() -> None:
    with opened(visits()) as session, pytest.warns(UserWarning, match="The ledger is in memory"):
        series(session)


@pytest.mark.parametrize(
    ("changes", "wrong", "said"),
    [
        ({"by": "none"}, "by", "none"),
        ({"by": "cost"}, "by", "dates"),
        ({"by": None}, "by", "dates"),
        ({"by": "seen", "every": "second"}, "every", "'hour', 'day'"),
        ({"start": "tomorrow"}, "start", "a date"),
        ({"start": None}, "start", "a date"),
        ({"start": "2025-01-01 12:00"}, "start", "beginning of a day"),
        ({"start": "2025-01-02", "every": "month"}, "start", "beginning of a month"),
        ({"start": dt.datetime(2025, 1, 1, tzinfo=dt.UTC)}, "start", "time zone"),
        ({"steps": 0}, "steps", "whole number"),
        ({"steps": 10**9}, "steps", "at most 100,000"),
        ({"steps": None}, "steps", "totals"),
        ({"steps": 5}, "wanted", "at most the 5 steps"),
        (
            {"steps": None, "wanted": "steps", "person": OverTime(max_steps=3, within=30)},
            "steps",
            "protects no person over a longer time",
        ),
        ({"person": None}, "person", "OverTime"),
        ({"person": 10}, "person", "OverTime"),
        ({"wanted": "medians"}, "wanted", "'totals'"),
        ({"budget": PureDP(1)}, "budget", "normal noise keeps no pure"),
        ({"budget": ApproxDP(1, 0)}, "budget", "normal noise keeps no pure"),
        ({"budget": ZCDP(0)}, "budget", "above 0"),
        ({"budget": 1}, "budget", "guarantee"),
        ({"name": ""}, "name", "a name for the series"),
    ],
)
def test_bad_input_is_named_before_anything_is_spent(
    changes: dict[str, Any], wrong: str, said: str
) -> None:
    with opened(visits(), budget=ZCDP(10**13)) as session:
        with pytest.raises(UnacordaError, match=said) as caught:
            series(session, **changes)
        if isinstance(caught.value, InvalidParameter):
            assert caught.value.argument == wrong
        assert session.spent == ZCDP(0)
        assert len(ledger_of(session).entries("visits")) == 0


@pytest.mark.parametrize(
    ("ask", "said"),
    [
        (lambda q: q.agg(m=unacorda.median("cost", -5, 10)), "histogram"),
        (lambda q: q.agg(m=unacorda.mean("cost", -5, 10)), "the sum and the count"),
        (lambda q: q.agg(m=unacorda.count_people("cost")), "people so far"),
        (lambda q: q.agg(m=unacorda.sum("cost")), "sums with bounds"),
        (
            lambda q: q.group_by("county", keys=unacorda.private_keys()).agg(n=unacorda.count()),
            "public keys",
        ),
        (
            lambda q: q.group_by("county", keys=["a"], margins="rollup").agg(n=unacorda.count()),
            "margins",
        ),
        (lambda q: q.explode("county", most=3).agg(n=unacorda.count()), "later ones"),
        (lambda q: q.union(q).agg(n=unacorda.count()), "later ones"),
        (
            lambda q: q.per_person(c=unacorda.max_("cost")).agg(n=unacorda.count()),
            "later ones",
        ),
    ],
    ids=["median", "mean", "people", "sum", "private", "margins", "explode", "union", "people's"],
)
def test_what_cannot_be_asked_over_time_says_what_can(ask: Any, said: str) -> None:
    with opened(visits()) as session:
        with pytest.raises(InvalidParameter, match=said):
            series(session, ask(session.table("visits")))
        assert session.spent == ZCDP(0)


def test_parts_of_the_people_have_no_series() -> None:
    with opened(visits(), budget=ZCDP(5)) as session:
        parts = session.split("county", keys=["a", "b"], budget=ZCDP(1))
        with pytest.raises(InvalidParameter, match="not settled while rows still come"):
            series(parts["a"], budget=ZCDP("0.5"))
        with pytest.raises(InvalidParameter, match="not settled while rows still come"):
            parts["a"].over_time(name="daily")


def test_a_budget_of_another_unit_is_refused() -> None:
    with opened(visits(), budget=GDP(1)) as session, pytest.raises(WrongUnit):
        series(session, budget=ZCDP(1))


@pytest.mark.parametrize(
    ("day", "said"),
    [("2024-12-31", "one of the series"), ("2025-01-21", "one of the series"), (5, "a date")],
)
def test_days_outside_are_named(day: Any, said: str) -> None:
    with opened(visits()) as session:
        made = series(session)
        with pytest.raises(InvalidParameter, match=said):
            made.answer(day)


def test_a_step_that_has_not_ended_is_not_answered() -> None:
    today = dt.datetime.now(dt.UTC).date()
    with opened(visits()) as session:
        made = series(session, start=today - dt.timedelta(days=2), steps=10)
        made.answer(today - dt.timedelta(days=2))
        with pytest.raises(InvalidParameter, match="a step that has ended"):
            made.answer_until(today + dt.timedelta(days=1))
        assert made.answered == 1


def test_a_name_that_is_not_there_is_named() -> None:
    with opened(visits()) as session, pytest.raises(InvalidParameter, match="no series 'weekly'"):
        session.over_time(name="weekly")


def test_answers_are_shown_with_their_ends() -> None:
    with opened(visits(), bits=SeededBits(4)) as session:
        made = series(session, budget=ZCDP(1))
        answers = made.answer_until("2025-01-20")
        assert "... 12 lines before" in repr(answers)
        assert "± ends of 95% intervals" in repr(answers)
        assert "<table>" in answers._repr_html_()
        assert list(answers.to_pandas().columns) == list(answers.columns)
        assert repr(made) == "Series('daily'; 20 steps answered)"
        with pytest.raises(InvalidParameter, match="one of the columns"):
            answers["m_total"]
        with pytest.raises(TypeError, match="open it again by its name"):
            made.__reduce__()


@pytest.mark.long
def test_answers_are_drawn_with_their_bands() -> None:
    with opened(visits(), bits=SeededBits(4)) as session:
        asked = session.table("visits").group_by("county", keys=["a", "b"])
        made = series(session, asked.agg(n=unacorda.count(), m=unacorda.count()), budget=ZCDP(1))
        answers = made.answer_until("2025-01-05")
    axes = answers.plot(window(7), "n")
    (first, second) = axes.lines
    assert first.get_ydata().tolist() == answers["n_window7"][0::2]
    assert second.get_label() == "b"
    with pytest.raises(InvalidParameter, match="one of n, m"):
        answers.plot()
    with pytest.raises(InvalidParameter, match="which were asked"):
        answers.plot(window(3), "n")


# The share of rows kept.


def there(frame: pd.DataFrame, person: OverTime, *, days: int = 20) -> list[int]:
    """The rows of each step, of a person at most those that may count there."""
    return counted(frame, OverTime(max_steps=days, max_rows_per_step=person.each), days=days)


@pytest.mark.parametrize(
    "person",
    [
        OverTime(max_steps=3, max_rows_per_step=2),
        pytest.param(OverTime(max_steps=2, within=7), marks=pytest.mark.long),
        pytest.param(OverTime(max_rows=5, max_rows_per_step=2), marks=pytest.mark.long),
    ],
    ids=str,
)
def test_the_share_of_rows_kept_is_released_with_its_errors(person: OverTime) -> None:
    frame = visits(11)
    frame.loc[frame.county == "c", "county"] = "not listed"
    with opened(frame) as session:
        query = session.table("visits").group_by("county", keys=["a", "b"])
        query = query.agg(n=unacorda.count_if("cost > 0"))
        made = series(session, query, person=person, kept="0.05", wanted="totals")
        answers = made.answer_until("2025-01-20")
        again = session.over_time(name="daily")
        assert again.answers().kept() == answers.kept()
    # A row that nothing reads takes no step.
    read = frame[(frame.county != "not listed") & (frame.cost > 0)]
    rows, kept = (np.array(one(read, person)) for one in (there, counted))
    assert 0 < kept.sum() < rows.sum()
    for kind, width in (("totals", 20), ("steps", 1), (window(7), 7)):
        for step, line in enumerate(answers.kept(kind)):
            of = slice(max(0, step + 1 - width), step + 1)
            assert (line["rows"], line["kept"]) == (rows[of].sum(), kept[of].sum())
            assert line["share"] == pytest.approx(kept[of].sum() / rows[of].sum(), abs=1e-3)
            assert line["lower"] <= line["share"] <= line["upper"]
            assert line["day"] == START + dt.timedelta(days=step)
            assert line["rows_se"] > 0
            assert line["kept_se"] > 0


def test_the_share_of_rows_kept_is_paid_for_by_its_share() -> None:
    with opened(visits(), budget=ZCDP(2)) as session:
        without = series(session, budget=ZCDP(1)).plan
        made = series(session, name="kept", budget=ZCDP(1), kept="0.2")
        plan = made.plan
        assert session.spent == ZCDP(2)
        assert "by how much is estimated for 1/5 of the budget" in str(made.explain())
    assert plan.event != without.event
    assert float(plan.sigmas["n"] / without.sigmas["n"]) == pytest.approx(math.sqrt(1 / 0.8))
    # Two rows in each of twenty steps; of a fifth of the budget as much as makes both errors least.
    rows, kept = plan.kept_noises["rows"], plan.kept_noises["kept"]
    part = 2 * 2**2 * 10 / float(rows.sigma) ** 2 / 0.4
    assert float(kept.sigma / plan.sigmas["n"]) == pytest.approx(math.sqrt(4 / (1 - part)))
    errors = [one.standard_errors("totals", 20)[-1] for one in (rows, kept)]
    assert errors[0] / errors[1] == pytest.approx(math.sqrt(part / (1 - part)), rel=0.05)


@pytest.mark.long
@pytest.mark.parametrize("person", [PERSON, OverTime(max_steps=1, within=3)], ids=str)
def test_a_person_moves_the_share_of_rows_kept_by_no_more_than_is_paid(person: OverTime) -> None:
    frame = visits(3)
    ledger = open_ledger(None)

    def exact(rows: pd.DataFrame) -> Any:
        with opened(rows, ledger=ledger) as session:
            made = series(session, person=person, kept="0.5", wanted="totals")
            found = made._exact(0, 19)[0] | made._exact(0, 19)[1]
            return made.plan, {name: np.array(found[name])[:, 0] for name in found}

    plan, whole = exact(frame)
    noises, largest = {**plan.noises, **plan.kept_noises}, 0.0
    assert set(noises) == {"n", "rows", "kept"}
    for one in range(10):
        _, rest = exact(frame[frame.id != one])
        square = 0.0
        for name, noise in noises.items():
            moved = np.convolve(noise.encoder.coefficients, whole[name] - rest[name])[:20]
            square += float(moved @ moved) / float(noise.sigma) ** 2
        largest = max(largest, square)
    assert 0.2 * 2e12 < largest <= 2e12


def test_the_share_of_rows_kept_is_stated_under_the_answers() -> None:
    frame = pd.DataFrame(
        [(who, START + dt.timedelta(days=day)) for who in range(200) for day in range(40)],
        columns=["id", "seen"],
    )
    with opened(frame, bits=SeededBits(4)) as session:
        made = series(session, person=OverTime(max_steps=10), steps=40, budget=ZCDP(50), kept="0.5")
        assert "rows kept" not in repr(made.answers())
        assert made.answers().kept() == []
        answers = made.answer_until("2025-02-09")
    said = repr(answers).splitlines()[-1]
    assert said.startswith("rows kept by the bound: 25% so far (")
    assert said.endswith("% in the last 30 steps (0 to 0.2%)")
    assert said in answers._repr_html_()
    with opened(visits()) as session, pytest.raises(InvalidParameter, match="opened with kept="):
        series(session).answers().kept()


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"kept": 0}, "a share of the budget"),
        ({"kept": 1}, "a share of the budget"),
        ({"kept": "half"}, "kept"),
        ({"kept": 0.1, "steps": None, "wanted": "steps"}, "without an end"),
        ({"kept": 0.1, "person": None}, "every row counts"),
    ],
)
def test_a_share_of_rows_kept_that_cannot_be_asked_is_refused(
    changes: dict[str, Any], said: str
) -> None:
    with opened(visits()) as session:
        people = question(session, n=unacorda.count_people())
        with pytest.raises(InvalidParameter, match=said) as caught:
            series(session, people if "person" in changes else None, **changes)
        assert caught.value.argument == "kept"
        assert session.spent == ZCDP(0)


def test_intervals_of_the_share_of_rows_kept_cover() -> None:
    draws = np.random.default_rng(1)
    whole, part, runs = 40.0, 12.0, 20_000
    rows, kept = whole + 8 * draws.normal(size=runs), part + 3 * draws.normal(size=runs)
    _, lower, upper = _shares(kept, np.full(runs, 3.0), rows, np.full(runs, 8.0))
    covered = np.mean((lower <= part / whole) & (part / whole <= upper))
    assert abs(covered - 0.95) < 0.008  # five deviations
    _, lower, upper = _shares(*(np.array([x]) for x in (1.0, 3.0, 2.0, 8.0)))
    assert (lower[0], upper[0]) == (0.0, 1.0)  # the noise may have made all of the rows


# Suggestions.


def habits(days: int = 30) -> pd.DataFrame:
    """Three hundred people who come every third day before the series begins."""
    rows = [(who, -day) for who in range(300) for day in range(1, days + 1) if day % 3 == who % 3]
    seen = pd.to_datetime(START) + pd.to_timedelta([day for _, day in rows], unit="D")
    return pd.DataFrame({"id": [who for who, _ in rows], "seen": seen})


@pytest.mark.long
def test_a_bound_is_found_by_the_rows_before_the_start() -> None:
    with opened(habits(), budget=ZCDP(1), bits=SeededBits(3)) as session:
        found = session.suggest_over_time(
            question(session), before=30, by="seen", start=START, steps=365, budget=ZCDP(1)
        )
        assert session.spent == found.spent == ZCDP("0.1")
        assert found.budget == ZCDP("0.9")
        # Ten days in thirty are 122 in the year: 128 keep all of them for less noise than 16 in 30.
        assert found.person == OverTime(max_steps=128)
        dropped = {str(one.person): one.dropped for one in found.expected}
        assert dropped[str(OverTime(max_steps=16, within=30))] < 400
        lost = 300 * 2 / 30  # rows a day, of which 365 / sqrt(3) days are lost on average
        loses = dropped[str(OverTime(max_steps=8, within=30))]
        # of 8 to 10 rows, which is one bin
        assert loses == pytest.approx(lost * 365 / math.sqrt(3), rel=0.3)
        assert "<- least" in str(found)
        series(session, person=found.person, budget=found.budget, steps=365)
        assert session.spent == ZCDP(1)


def test_suggestions_are_refused_before_anything_is_spent() -> None:
    asked: dict[str, Any] = {"by": "seen", "start": START, "steps": 365}
    with opened(habits(), budget=ZCDP(1)) as session:
        for changes, wrong in (
            ({"before": 0}, "before"),
            ({"share": 1}, "share"),
            ({"budget": PureDP(1)}, "budget"),
            ({"by": "id"}, "by"),
        ):
            with pytest.raises(InvalidParameter) as caught:
                session.suggest_over_time(
                    question(session), **{"before": 30, "budget": ZCDP(1), **asked, **changes}
                )
            assert caught.value.argument == wrong
        with pytest.raises(BudgetExceeded):
            session.suggest_over_time(question(session), before=30, budget=ZCDP(2), **asked)
        assert session.spent == ZCDP(0)
