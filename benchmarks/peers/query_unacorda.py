"""unacorda's side of the query benchmark, on the public contract alone."""

# SPDX-License-Identifier: Apache-2.0

import statistics
from importlib.metadata import PackageNotFoundError, version

from query_protocol import EPSILON, LOWER, RHO, UPPER, Answers, Noise, Opened, Task, serve

import unacorda


def open_tool(task: Task) -> Opened:
    price = unacorda.PureDP(EPSILON) if task.guarantee == "pure" else unacorda.ZCDP(RHO)
    session = unacorda.Session(
        {"visits": task.data},
        unit=unacorda.Person("person_id", max_rows=task.max_rows),
        budget=price * task.calls,
    )
    aggregates = {
        "n": unacorda.count(),
        "s": unacorda.sum("x", LOWER, UPPER),
        "m": unacorda.mean("x", LOWER, UPPER),
        "p": unacorda.median("x", LOWER, UPPER),
    }
    wanted = {name: aggregates[name] for name in task.answers}
    query = session.table("visits").group_by("grp", keys=task.keys).agg(**wanted)
    last: dict[str, dict[str, float]] = {}

    def ask() -> Answers:
        last.clear()
        for row in session.evaluate(query, budget=price).to_dicts():
            last[row["grp"]] = row
        return {
            group: {name: float(row[name]) for name in task.answers} for group, row in last.items()
        }

    def noise() -> Noise:
        said: Noise = {}
        for name in task.answers:  # a mean's standard error differs by group: the middle one
            errors = [row[f"{name}_se"] for row in last.values()]
            if None not in errors:
                said[name] = {"sd": statistics.median(map(float, errors))}
        return said

    return Opened(version=installed(), ask=ask, noise=noise)


def installed() -> str:
    try:
        return version("unacorda")
    except PackageNotFoundError:  # run from a checkout
        return "checkout"


if __name__ == "__main__":
    serve(open_tool)
