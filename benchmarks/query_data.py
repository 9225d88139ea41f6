"""Makes the tables of the query benchmark: fixed seed, skewed people, skewed values, public groups.

    python benchmarks/query_data.py --cache DIR 1m narrow
    python benchmarks/query_data.py --cache DIR --joined 1m

Each table is one Parquet file (person_id BIGINT, grp VARCHAR, x DOUBLE) with a JSON file beside it
that holds what the benchmark compares with: exact answers per group, the number of rows that are
left when every person keeps at most five, and a digest of the arrays, which does not depend on the
version of the Parquet writer.

- ``1m``, ``10m``, ``100m``: 10 rows a person on average, log-normal with sigma 1.2, so that half
  the people have more than five rows and a few have hundreds. For times and memory; ``100m`` takes
  3 GB of memory and two minutes to make, and 1 GB on the disk.
- ``narrow``: one to five rows a person. Bounding to five rows changes nothing here, so the exact
  answer of every tool is the same plain GROUP BY, and errors are noise alone. For accuracy.

``--joined`` makes a folder with what ``engines.py`` joins: the table itself as ``visits``, half as
many ``results`` of the same people (person_id, result in [0, 10]), and a public table of ``towns``,
one for each group (grp, region, size).
"""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

import argparse
import hashlib
import json
from dataclasses import dataclass
from pathlib import Path

import duckdb
import numpy as np

VERSION = 1  # part of the file name: raise it when the recipe changes
SEED = 20_240_601
MAX_ROWS = 5


@dataclass(frozen=True, slots=True, kw_only=True)
class Recipe:
    """rows: of the table; people: distinct ids, each with a row; groups: keys g00, g01, ..."""

    rows: int
    people: int
    groups: int = 50
    narrow: bool = False


RECIPES = {
    "1m": Recipe(rows=1_000_000, people=100_000),
    "10m": Recipe(rows=10_000_000, people=1_000_000),
    "100m": Recipe(rows=100_000_000, people=10_000_000),
    "narrow": Recipe(rows=300_000, people=100_000, narrow=True),
}


def parquet(cache: Path, name: str) -> Path:
    return cache / f"visits-{name}-v{VERSION}.parquet"


def facts(cache: Path, name: str) -> Path:
    return parquet(cache, name).with_suffix(".json")


def people_of_rows(recipe: Recipe, rng: np.random.Generator) -> np.ndarray:
    """The person of each row, in random order; every person has at least one row."""
    everyone = np.arange(recipe.people, dtype=np.int64)
    if recipe.narrow:  # a deal of the numbers 1..5 whose mean is rows / people = 3
        person = np.repeat(everyone, 1 + everyone % MAX_ROWS)
    else:
        weight = rng.lognormal(0.0, 1.2, recipe.people)
        more = rng.choice(recipe.people, size=recipe.rows - recipe.people, p=weight / weight.sum())
        person = np.concatenate([everyone, more])
    rng.shuffle(person)
    return person


def make(cache: Path, name: str) -> None:
    recipe = RECIPES[name]
    rng = np.random.default_rng(SEED)
    person = people_of_rows(recipe, rng)
    popularity = (1.0 + np.arange(recipe.groups)) ** -0.7
    group = rng.choice(recipe.groups, size=recipe.rows, p=popularity / popularity.sum())
    group = group.astype(np.int16)
    x = np.round(100.0 * rng.beta(1.2, 4.0, recipe.rows), 3)
    rows_each = np.bincount(person, minlength=recipe.people)

    digest = hashlib.sha256()
    for array in (person, group, x):
        digest.update(array.data)  # no copy: the largest table takes gigabytes

    database = duckdb.connect()
    database.execute("SET threads = 1")  # keeps the order of the rows in the file
    database.register("made", {"person": person, "number": group, "x": x})
    path = parquet(cache, name)
    partial = path.with_suffix(".part")
    database.execute(
        "COPY (SELECT person AS person_id, printf('g%02d', number) AS grp, x FROM made) "
        f"TO '{partial}' (FORMAT parquet)"
    )
    exact = database.execute(
        "SELECT grp, count(*), sum(x), avg(x), median(x) FROM read_parquet(?) GROUP BY grp "
        "ORDER BY grp",
        [str(partial)],
    ).fetchall()
    facts(cache, name).write_text(
        json.dumps(
            {
                "name": name,
                "rows": recipe.rows,
                "people": recipe.people,
                "groups": recipe.groups,
                "max_rows": MAX_ROWS,
                "rows_kept": int(np.minimum(rows_each, MAX_ROWS).sum()),
                "rows_of_a_person": {
                    "median": float(np.median(rows_each)),
                    "p90": float(np.quantile(rows_each, 0.9)),
                    "p99": float(np.quantile(rows_each, 0.99)),
                    "most": int(rows_each.max()),
                },
                "rows_of_a_group": [min(row[1] for row in exact), max(row[1] for row in exact)],
                "sha256_of_arrays": digest.hexdigest(),
                "exact": {row[0]: dict(zip("nsmp", row[1:], strict=True)) for row in exact},
            },
            indent=1,
        )
    )
    partial.rename(path)


def make_joined(cache: Path, name: str) -> None:
    """The tables that stand beside one of the tables, which is linked."""
    recipe, folder = RECIPES[name], cache / f"joined-{name}"
    folder.mkdir(exist_ok=True)
    rng = np.random.default_rng(SEED + 1)
    rows = recipe.rows // 2
    results = {
        "person_id": rng.integers(0, recipe.people, rows),
        "result": np.round(rng.gamma(2.0, 1.5, rows), 2),
    }
    towns = {
        "number": np.arange(recipe.groups),
        "size": rng.integers(1, 1_000, recipe.groups),
    }
    database = duckdb.connect()
    database.register("results", results)
    database.register("towns", towns)
    database.execute(f"COPY results TO '{folder / 'results.parquet'}' (FORMAT parquet)")
    database.execute(
        "COPY (SELECT printf('g%02d', number) AS grp, 'r' || number % 10 AS region, size FROM "
        f"towns) TO '{folder / 'towns.parquet'}' (FORMAT parquet)"
    )
    visits = folder / "visits.parquet"
    visits.unlink(missing_ok=True)
    visits.symlink_to(parquet(cache, name))
    numbers = {"visits": recipe.rows, "results": rows, "people": recipe.people}
    (folder / "rows.json").write_text(json.dumps(numbers))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("names", nargs="+", choices=sorted(RECIPES))
    parser.add_argument("--cache", type=Path, required=True)
    parser.add_argument("--joined", action="store_true", help="and the tables to join them with")
    arguments = parser.parse_args()
    arguments.cache.mkdir(parents=True, exist_ok=True)
    for name in arguments.names:
        if not (parquet(arguments.cache, name).exists() and facts(arguments.cache, name).exists()):
            make(arguments.cache, name)
        if arguments.joined and not (arguments.cache / f"joined-{name}" / "rows.json").exists():
            make_joined(arguments.cache, name)


if __name__ == "__main__":
    main()
