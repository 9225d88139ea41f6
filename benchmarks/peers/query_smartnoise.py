"""SmartNoise SQL over DuckDB: Laplace noise on each column, persons bounded by ORDER BY RANDOM().

SmartNoise has no reader for DuckDB; its PostgreSQL dialect is handed a DuckDB cursor, which is the
fastest way it runs here (its own reader of data frames copies them into SQLite first and took four
times as long). DuckDB is held below 2.0, which refuses RANDOM() in a window. SmartNoise knows
neither zCDP nor a median, and takes the groups from the data: public keys can not be given.
"""

# SPDX-License-Identifier: Apache-2.0

from collections.abc import Iterator
from importlib.metadata import version

import duckdb
import snsql
from query_protocol import EPSILON, LOWER, UPPER, Answers, Noise, Opened, Task, serve, stated

SELECT = {"n": "COUNT(*) AS n", "s": "SUM(x) AS s", "m": "AVG(x) AS m"}
SOURCE = {"n": "count_star", "s": "sum_x", "m": "count_x"}  # SmartNoise's names inside


class Cursor:
    """The part of a database cursor that SmartNoise uses, with iteration, which DuckDB's lacks."""

    def __init__(self, cursor: duckdb.DuckDBPyConnection) -> None:
        self.cursor = cursor

    @property
    def description(self) -> object:
        return self.cursor.description

    def execute(self, text: str) -> None:
        self.cursor.execute(text)

    def __iter__(self) -> Iterator[object]:
        return iter(self.cursor.fetchall())


class Connection:
    """A DuckDB connection as SmartNoise expects one; it only reads, so commits are nothing."""

    def __init__(self, database: duckdb.DuckDBPyConnection) -> None:
        self.database = database

    def cursor(self) -> Cursor:
        return Cursor(self.database.cursor())

    def commit(self) -> None:
        """Nothing was written."""

    def rollback(self) -> None:
        """Nothing was written."""


def open_tool(task: Task) -> Opened:
    database = duckdb.connect()
    database.read_parquet(task.data).create_view("visits")
    columns = {
        "person_id": {"type": "int", "private_id": True},
        "grp": {"type": "string"},
        "x": {"type": "float", "lower": LOWER, "upper": UPPER, "nullable": False},
    }
    settings = {
        "max_ids": task.max_rows,
        "row_privacy": False,
        "sample_max_ids": True,
        "clamp_columns": True,
        "clamp_counts": False,
        "censor_dims": False,  # the groups are public in this benchmark
        "rows": task.rows,
    }
    metadata = {"": {"main": {"visits": settings | columns}}}

    def connect(epsilon: float) -> snsql.sql.private_reader.PrivateReader:
        privacy = snsql.Privacy(epsilon=epsilon, delta=0.0)
        return snsql.from_connection(
            Connection(database), privacy=privacy, metadata=metadata, engine="postgres"
        )

    select = ", ".join(SELECT[name] for name in task.answers)
    question = f"SELECT grp, {select} FROM main.visits GROUP BY grp"
    # epsilon is SmartNoise's price of one noisy column; its own account says how many there are
    columns_charged = round(connect(1.0).get_privacy_cost(question)[0])
    reader = connect(EPSILON / columns_charged)

    def ask() -> Answers:
        names, *rows = reader.execute(question)
        table = [dict(zip(names, row, strict=True)) for row in rows]
        return {row["grp"]: {name: float(row[name]) for name in task.answers} for row in table}

    def noise() -> Noise:
        subquery, _ = reader._rewrite(question)
        inside = zip(subquery._select_symbols, reader._get_mechanisms(subquery), strict=True)
        scales = {symbol.name: mechanism.scale for symbol, mechanism in inside if mechanism}
        said = {name: stated("Laplace", scales[SOURCE[name]]) for name in task.answers}
        if "m" in said:  # the mean is the sum above divided by a noisy count of its own
            said["m (length)"] = said.pop("m")
        return said

    return Opened(version=version("smartnoise-sql"), ask=ask, noise=noise)


if __name__ == "__main__":
    serve(open_tool)
