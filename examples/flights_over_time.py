"""Flights of 2013 day by day, with every aircraft protected for the whole year.

    python examples/flights_over_time.py [--picture flights_over_time.svg]

How many aircraft were seen each day, and how many such days there have been so far? The data are
public (flights from New York in 2013, bundled with the package); an aircraft stands for a person.
The first table sets what a bound on the days of an aircraft keeps, and what the noise costs: the
bound is the error, not the noise. Then a series is opened for rho 0.5, and answered day by day.
Everything in the first table is computed from the public data, and is no private answer.
"""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

import argparse
import math
import tempfile
from importlib import resources
from pathlib import Path
from typing import Any

import duckdb
import numpy as np

import unacorda
from unacorda import OverTime

STEPS = 365
DAY = "make_date(2013, month, day)"
BOUNDS = (
    OverTime(max_steps=10),
    OverTime(max_steps=30),
    OverTime(max_steps=100),
    OverTime(max_steps=300),
    OverTime(max_steps=3, within=30),
    OverTime(max_steps=10, within=30),
    OverTime(max_steps=20, within=30),
)


def flights() -> Path:
    """The bundled table."""
    return Path(str(resources.files("unacorda.cli") / "data" / "flights.parquet"))


def kept_by_day(person: OverTime) -> tuple[Any, Any]:
    """Days of aircraft on each day of the year, all of them and those that count."""
    period = STEPS if person.within is None else person.within
    rows = f"""
        SELECT s, count(*) AS n, count(*) FILTER (turn <= {person.max_steps}) AS kept FROM (
            SELECT s, row_number() OVER (PARTITION BY tailnum, s // {period} ORDER BY s) AS turn
            FROM (SELECT DISTINCT tailnum, date_diff('day', DATE '2013-01-01', {DAY}) AS s
                  FROM '{flights()}' WHERE tailnum IS NOT NULL))
        GROUP BY s ORDER BY s"""
    found = duckdb.connect().execute(rows).fetchnumpy()
    return found["n"], found["kept"]


def opened(folder: str) -> unacorda.Session:
    """A session in which an aircraft is the unit."""
    return unacorda.Session(
        {"flights": flights()},
        unit=unacorda.Person("tailnum", max_rows=1),
        budget=unacorda.ZCDP(1),
        dataset="flights-2013",
        ledger=f"sqlite:///{folder}/budget.db",
    )


def compare(session: unacorda.Session) -> None:
    """What each bound keeps, and what the noise then costs."""
    print(f"{'bound':52}{'kept':>6}{'last 30':>9}{'bias of totals':>16}{'noise':>7}")
    query = session.table("flights").agg(n=unacorda.count())
    for person in BOUNDS:
        every, kept = kept_by_day(person)
        bias = np.cumsum(every - kept)
        forecast = session.explain_over_time(
            query, by=DAY, start="2013-01-01", steps=STEPS, person=person, budget=unacorda.ZCDP(0.5)
        )
        noise = math.sqrt(np.mean(forecast.errors["n"]["total"] ** 2))
        share, late = kept.sum() / every.sum(), kept[-30:].sum() / every[-30:].sum()
        error = math.sqrt(np.mean(bias**2.0))
        print(f"{person!s:52}{share:>6.0%}{late:>9.0%}{error:>16,.0f}{noise:>7.0f}")


def answered(session: unacorda.Session) -> Any:
    """The series of the whole year, answered month by month."""
    series = session.over_time(
        session.table("flights").agg(n=unacorda.count()),
        name="aircraft-daily",
        by=DAY,
        start="2013-01-01",
        steps=STEPS,
        person=OverTime(max_steps=20, within=30),
        wanted=("totals", unacorda.window(28)),
        budget=unacorda.ZCDP(0.5),
    )
    answers = None
    for month in range(1, 13):
        last = "2013-12-31" if month == 12 else f"2013-{month:02}-28"
        answers = series.answer_until(last)
    return answers


def main() -> None:
    """Print both tables, and draw the totals where a picture is asked for."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--picture", help="where to write the totals with their bands")
    picture = parser.parse_args().picture
    with tempfile.TemporaryDirectory() as folder, opened(folder) as session:
        compare(session)
        answers = answered(session)
        truth = np.cumsum(kept_by_day(BOUNDS[-1])[0])
        print("\nday           total so far (95%)   truth, all aircraft")
        for step in (27, 58, 89, 180, 272, 364):
            total, error = answers["n_total"][step], answers["n_total_se"][step]
            day = answers["day"][step]
            print(f"{day}  {total:>12,} ± {1.96 * error:<7,.0f}{truth[step]:>15,}")
        if picture:
            answers.plot("total").figure.savefig(picture)


if __name__ == "__main__":
    main()
