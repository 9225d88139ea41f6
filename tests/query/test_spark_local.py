"""The Spark of this process as a user starts it: compiled, quiet, private, and gone at the end."""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from tests.query.engines_alike import without_java

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(without_java() is not None, reason=str(without_java())),
]

CODE = """
import random, warnings
import pyarrow as pa
import unacorda
from tests.query import expressions_alike
from tests.query.engines_alike import counted

drawn = random.Random(2)
rows = 20_000
table = pa.table({
    "who": [drawn.randrange(3_000) for _ in range(rows)],
    "town": [drawn.choice(["a", "b", None]) for _ in range(rows)],
    "x": [drawn.choice([None, drawn.gauss(0, 1e3)]) for _ in range(rows)],
})
found = []
for engine in ("duckdb", "spark"):
    unit = unacorda.Person("who", max_rows=4, max_groups=1, hash="md5")
    with unacorda.Session(
        {"t": table}, unit=unit, budget=unacorda.PureDP(9), engine=engine, memory_limit="1GB",
        threads=2, bits=unacorda.SeededBits(4),
    ) as session:
        query = session.table("t").where("x > -900 OR x IS NULL").group_by("town", keys=["a", None])
        query = query.agg(
            s=unacorda.sum("x", -500, 500),
            m=unacorda.median("x", -500, 500),
            p=unacorda.count_people(),
        )
        found.append((counted(session, query), session.evaluate(query, budget=unacorda.PureDP(9))))
        if engine == "spark":
            spark, data = session._engine._spark, expressions_alike.table(220, seed=6)
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                spark.createDataFrame(data).createOrReplaceTempView("data")
                wrong = [
                    one
                    for at in range(0, len(expressions_alike.ALIKE), 60)
                    for one in expressions_alike.differences(
                        expressions_alike.on_spark(spark, "data"),
                        data,
                        expressions_alike.ALIKE[at : at + 60],
                    )
                ]
            folder = spark.sparkContext.getConf().get("spark.local.dir")
print(found[0][0] == found[1][0], found[0][1].to_dicts() == found[1][1].to_dicts(), wrong[:3])
print(folder)
"""

ENDING = """
import os, signal, sys, time
from pathlib import Path
import pyarrow as pa
import unacorda
from unacorda.errors import EngineFailed

def opened():
    return unacorda.Session(
        {"t": pa.table({"x": [1.0, 2.0]})}, unit=unacorda.Row(), budget=unacorda.PureDP(9),
        engine="spark", memory_limit="1GB", threads=2,
    )

def ask(session):
    session.evaluate(session.table("t").agg(n=unacorda.count()), budget=unacorda.PureDP(1))

def children(process):
    for task in Path(f"/proc/{process}/task").iterdir():
        try:
            found = (task / "children").read_text().split()
        except OSError:  # this thread has ended meanwhile
            continue
        for child in map(int, found):
            yield child
            yield from children(child)

def refused(session):
    try:
        ask(session)
    except EngineFailed as failed:
        print(failed.asked, session.spent)
    session.close()

with opened() as session:
    ask(session)
    session._engine._spark.stop()
    refused(session)
session = opened()  # Spark starts again in the same Java process
ask(session)
for child in children(os.getpid()):
    if "java" in Path(f"/proc/{child}/comm").read_text():
        os.kill(child, signal.SIGKILL)
time.sleep(1)
refused(session)
session = opened()  # in a new Java process
ask(session)
print(session.spent)
session.close()
"""


@pytest.mark.timeout(300)
def test_where_it_has_ended_nothing_is_asked_and_nothing_spent() -> None:
    path = os.pathsep.join([*sys.path, str(Path(__file__).parents[2])])
    done = subprocess.run(
        [sys.executable, "-c", ENDING],
        env={**os.environ, "PYTHONPATH": path},
        capture_output=True,
        text=True,
        check=False,
    )
    gone = "False PureDP(epsilon=1.0)"
    assert done.stdout.splitlines() == [gone, gone, "PureDP(epsilon=1.0)"], done.stderr[-3000:]


@pytest.mark.timeout(900)
def test_it_counts_alike_tells_nothing_and_leaves_nothing(tmp_path: Path) -> None:
    path = os.pathsep.join([*sys.path, str(Path(__file__).parents[2])])
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", CODE],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": path},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-3000:]
    same, folder = done.stdout.splitlines()
    assert same == "True True []"
    assert done.stderr == ""
    assert not list(tmp_path.iterdir())
    assert not Path(folder).exists()
