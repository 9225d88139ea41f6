"""Plain DuckDB: the same GROUP BY, no bounding and no noise, the floor of the benchmark."""

# SPDX-License-Identifier: Apache-2.0

import duckdb
from query_protocol import Answers, Opened, Task, serve

SELECT = {"n": "count(*)", "s": "sum(x)", "m": "avg(x)", "p": "median(x)"}


def open_tool(task: Task) -> Opened:
    database = duckdb.connect()
    database.read_parquet(task.data).create_view("visits")
    columns = ", ".join(SELECT[name] for name in task.answers)

    def ask() -> Answers:
        rows = database.execute(f"SELECT grp, {columns} FROM visits GROUP BY grp").fetchall()
        return {row[0]: dict(zip(task.answers, row[1:], strict=True)) for row in rows}

    return Opened(version=duckdb.__version__, ask=ask, noise=dict)


if __name__ == "__main__":
    serve(open_tool)
