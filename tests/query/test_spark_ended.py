"""A Spark that has ended, or whose Java process is gone, is not asked."""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from tests.query.engines_alike import without_java

pytestmark = [
    pytest.mark.service,
    pytest.mark.slow,
    pytest.mark.skipif(without_java() is not None, reason=str(without_java())),
]

ENDING = """
import os, signal, sys, time
from pathlib import Path
import pyarrow as pa
import unacorda
from tests.support.local_spark import local_spark
from unacorda.errors import EngineFailed

def opened():
    return unacorda.Session(
        {"t": pa.table({"x": [1.0, 2.0]})}, unit=unacorda.Row(), budget=unacorda.PureDP(9),
        engine=local_spark(memory="1g", threads=2),
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
        print(failed.asked, session.spent == unacorda.PureDP(1))
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
print(session.spent == unacorda.PureDP(1))
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
    assert done.stdout.splitlines() == ["False True", "False True", "True"], done.stderr[-3000:]
