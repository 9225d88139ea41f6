"""`unacorda serve` and `unacorda server`: a server, and what a curator does in addition to it."""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

import getpass
import json
import random
from contextlib import closing
from dataclasses import asdict
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from unacorda.checks import demand
from unacorda.cli import params, render
from unacorda.errors import InvalidParameter
from unacorda.privacy.guarantees import guarantee_from_json, left_of

if TYPE_CHECKING:
    from unacorda.privacy.guarantees import Guarantee
    from unacorda.server.config import Config
    from unacorda.server.service import OpenDataset
    from unacorda.server.store import AnswerStore

_HELP = """Check a configuration, make tokens, write an example.

Example:
  unacorda server example demo
"""


_CONFIGURATION = """\
# An example with made-up visits. What each line means stands in docs/reference/configuration.md.
[server]
listen = "127.0.0.1:8040"

[datasets.visits]
title = "Made-up visits"
tables = { visits = "visits.csv" }
unit = { person = "patient", max_rows = 4 }
budget = { rho = 0.5 }
columns = { age = { bounds = [0, 120] }, county = { categories = ["A", "B", "C"] } }
analysts = { ana = { rho = 0.1 }, ben = { rho = 0.05 } }
"""

server = params.InOrder("server", help=_HELP)
token = params.InOrder("token", help="Tokens of analysts and curators.")
analyst = params.InOrder("analyst", help="Limits of analysts.")
server.add_command(token)
server.add_command(analyst)


def _config(name: str, text: str) -> Config:
    from unacorda.server.config import read_config

    return read_config(params.FILE.read(name, text))


def _budget(name: str, text: str) -> dict[str, str]:
    from unacorda.settings import numbers_of

    return numbers_of(params.budget_of(name, text))


_file = click.argument("config", metavar="FILE", type=params.Read(_config, "FILE"))
_dataset = click.argument("dataset", metavar="DATASET")
_name = click.argument("analyst", metavar="ANALYST")
_limit = click.argument("budget", metavar="KIND=X", type=params.Read(_budget, "KIND=X"))


@params.verb("serve")
@_file
def serve(*, config: Config) -> None:
    """Serve datasets to analysts over HTTP, each within a limit of their own.

    FILE is a configuration in TOML (docs/reference/configuration.md); `unacorda server example
    demo` writes one that runs. It needs the extra `server`. It ends at SIGTERM, after running
    questions have ended.

    Example:
      unacorda serve demo/server.toml
    """
    from unacorda.server.run import serve as run

    render.notice(f"serving {', '.join(config.datasets)} at {config.public_url}")
    run(config)


def _operator() -> str:
    """Who acts, for the chain of acts."""
    try:
        return f"{getpass.getuser()} (command line)"
    except (OSError, KeyError):  # a user without a name, as in a container
        return "command line"


def _curate(config: Config, operation: str, **given: Any) -> None:
    """Do an operation of curators, and print the limit; InvalidParameter for what it refuses."""
    from unacorda.server.curation import Curation, Curator
    from unacorda.server.problems import Problem
    from unacorda.server.service import Service

    with closing(Service(config)) as service:
        operate = getattr(Curation(service), operation)
        try:
            said: dict[str, Any] = operate(Curator(name=_operator()), **given)
        except Problem as problem:
            named = "KIND=X" if problem.kind == "refused" else "ANALYST"
            raise InvalidParameter(named, given["analyst"], expected=problem.detail) from None
    limit, left = (guarantee_from_json(json.dumps(said[part])) for part in ("limit", "left"))
    render.line(f"{said['analyst']} in {said['dataset']}: {left_of(left, limit)}")


@analyst.command("add")
@_file
@_dataset
@_name
@_limit
def _analyst_add(*, config: Config, **given: Any) -> None:
    """Open a limit for an analyst of a dataset.

    Example:
      unacorda server analyst add demo/server.toml visits eve rho=0.05
    """
    _curate(config, "add_analyst", **given)


@analyst.command("limit")
@_file
@_dataset
@_name
@_limit
def _analyst_limit(*, config: Config, **given: Any) -> None:
    """Give an analyst another limit, not below what is spent.

    Example:
      unacorda server analyst limit demo/server.toml visits ana rho=0.2
    """
    _curate(config, "change_limit", **given)


@analyst.command("close")
@_file
@_dataset
@_name
def _analyst_close(*, config: Config, **given: Any) -> None:
    """Let an analyst spend nothing more, until a later limit opens it again.

    Example:
      unacorda server analyst close demo/server.toml visits ben
    """
    _curate(config, "close_analyst", **given)


@server.command("openapi")
@_file
def _openapi(*, config: Config) -> None:
    """Print the OpenAPI document of a configuration, JSON.

    Example:
      unacorda server openapi demo/server.toml
    """
    from unacorda.server.fields import openapi_document

    render.as_json(openapi_document(config.public_url))


@server.command("find-max-rows")
@_file
@_dataset
@params.option(
    "--budget", params.BUDGET, "What the search may cost, such as rho=0.01.", required=True
)
def _find_max_rows(*, config: Config, dataset: str, budget: Guarantee) -> None:
    """Find privately how many rows of a person to keep, once, and print the line to write.

    A server does not search by itself: it would pay at its start. The ledger keeps what was found,
    and a second search of the same tables is free.

    Example:
      unacorda server find-max-rows demo/server.toml visits --budget rho=0.01
    """
    from unacorda.query.schema.units import auto
    from unacorda.server.service import find_max_rows

    known = ", ".join(config.datasets)
    demand(dataset in config.datasets, "DATASET", dataset, expected=f"one of {known}")
    search = auto(budget=budget)
    settings = config.datasets[dataset]
    found = find_max_rows(settings, config, search)
    person = _in_toml(settings.unit["person"])
    render.line(f"unit = {{ person = {person}, max_rows = {found} }}")


def _in_toml(ids: Any) -> str:
    """The columns that name a person, as a configuration writes them.

    >>> _in_toml(("pid",)), _in_toml({"visits": ("pid", "site")})
    ('"pid"', '{ "visits" = ["pid", "site"] }')
    """
    if isinstance(ids, dict):
        return f"{{ {', '.join(f'{json.dumps(n)} = {_in_toml(one)}' for n, one in ids.items())} }}"
    return json.dumps(ids[0] if len(ids) == 1 else ids, ensure_ascii=False)


@server.command("check")
@_file
@params.json_option
def _check(*, config: Config, as_json: bool) -> None:
    """Open every dataset of a configuration, and say what analysts would find. Asks nothing.

    Limits that differ between the ledger and the file are named: the ledger's count, and
    `unacorda server analyst limit` changes them.

    Example:
      unacorda server check demo/server.toml
    """
    from unacorda.server.service import Service

    with closing(Service(config)) as service:
        found = {name: _stated(one) for name, one in service.datasets.items()}
        if as_json:
            render.as_json({"datasets": found, "unavailable": service.unavailable})
        for name, said in found.items() if not as_json else ():
            render.heading(name)
            render.print_facts(
                ("protects", said["protects"]),
                ("budget", left_of(said["left"], said["budget"])),
                ("analysts", ", ".join(said["analysts"]) or "none"),
            )
            for analyst, (kept, wanted) in said["other_limits"].items():
                differs = f"{analyst}: ledger {kept}, file {wanted}. The ledger's counts; "
                render.notice(differs + "unacorda server analyst limit changes it.")
        for name, why in service.unavailable.items():
            render.notice(f"{name} is not available: {why}")
        unavailable = ", ".join(service.unavailable)
        demand(not unavailable, "FILE", unavailable, expected="datasets that can be opened")


def _stated(one: OpenDataset) -> dict[str, Any]:
    return {
        "protects": str(one.session.unit),
        "budget": one.session.budget,
        "left": one.session.remaining,
        "analysts": list(one.settings.analysts),
        "other_limits": {name: list(both) for name, both in one.other_limits.items()},
    }


@token.command("add")
@_file
@click.argument("analyst")
@params.option("--days", "N", "Days until it ends, at most 366.", type=int, default=90)
@params.option("--note", "TEXT", "For the list of tokens.", default="")
@params.flag("--curator", "A curator's token.")
def _add(*, config: Config, analyst: str, days: int, note: str, curator: bool) -> None:
    """Make a token, and print it this once: the server keeps a hash.

    Example:
      unacorda server token add demo/server.toml ana --days 30
    """
    from unacorda.server.store import opened
    from unacorda.server.tokens import make_token

    role: Any = "curator" if curator else "analyst"
    with opened(config.store) as store:
        made = make_token(store, analyst, role=role, days=days, note=note)
        _note(store, "add token", f"{analyst}: {role}, {days} days")
    render.line(made)


def _note(store: AnswerStore, what: str, about: str) -> None:
    store.add_act(by=_operator(), token="", address="", what=what, dataset="", about=about)


@token.command("list")
@_file
@params.json_option
def _list(*, config: Config, as_json: bool) -> None:
    """List tokens: whose they are, when they end, and when they were used.

    Example:
      unacorda server token list demo/server.toml
    """
    from unacorda.server.store import opened

    with opened(config.store) as store:
        found = store.tokens()
    if as_json:
        shown = [{n: v for n, v in asdict(one).items() if n != "hash"} for one in found]
        render.as_json({"tokens": shown})
        return
    if not found:
        render.line("No tokens yet.")
        return
    heads = ("id", "analyst", "role", "ends", "used", "revoked", "note")
    rows = (
        (one.id, one.analyst, one.role, *map(_day, (one.ends, one.used, one.revoked)), one.note)
        for one in found
    )
    cells = ([cell or "-" for cell in row] for row in rows)
    render.print_table(heads, cells, left=len(heads), repeated=1)


def _day(seconds: float | None) -> str:
    return "" if seconds is None else f"{datetime.fromtimestamp(seconds, UTC):%Y-%m-%d %H:%M}"


@token.command("revoke")
@_file
@click.argument("name", metavar="ID")
def _revoke(*, config: Config, name: str) -> None:
    """End a token from the next request on. ID is its middle part.

    Example:
      unacorda server token revoke demo/server.toml 566f3200d96f
    """
    from unacorda.server.store import opened

    with opened(config.store) as store:
        ended = store.revoke_token(name)
        _note(store, "revoke token" if ended else "revoke token, refused", name)
    demand(ended, "ID", name, expected="the id of a token that has not been revoked")
    render.line(f"{name} is revoked")


@server.command("backup")
@_file
@click.argument("folder", metavar="FOLDER", type=click.Path(path_type=Path))
@params.json_option
def _backup(*, config: Config, folder: Path, as_json: bool) -> None:
    """Copy the ledger and the store of a server into a new folder; it may run meanwhile.

    Files of SQLite are copied as of one moment, every account is exported as well and verified, and
    its last digest is printed: keep it elsewhere, and `unacorda ledger verify --digest` finds out
    later whether entries were dropped. PostgreSQL databases are copied by their own tools, pg_dump.

    Example:
      unacorda server backup demo/server.toml /backups/2026-05-01
    """
    from unacorda.server.backup import back_up

    found = back_up(config, folder)
    if as_json:
        render.as_json(asdict(found))
        return
    for name, digest in found.digests.items():
        render.line(f"{name}: last digest {digest or 'none yet'}")
    render.line(f"{folder} holds {', '.join(found.files)}")
    for what in found.left_to_server:
        render.notice(f"the {what} is a PostgreSQL database: copy it with pg_dump")


@server.command("example")
@click.argument("folder", metavar="FOLDER", type=click.Path(path_type=Path))
def _example(*, folder: Path) -> None:
    """Write a configuration with made-up data that runs at once.

    Example:
      unacorda server example demo
      unacorda server token add demo/server.toml ana
      unacorda serve demo/server.toml
    """
    new = not folder.exists() or (folder.is_dir() and not any(folder.iterdir()))
    demand(new, "FOLDER", str(folder), expected="a new folder, or an empty one")
    folder.mkdir(parents=True, exist_ok=True)
    drawn = random.Random(1)  # noqa: S311  # made-up people
    lines = ["patient,age,county,cost"]
    for patient in range(1, 2_001):
        age, county = drawn.randint(0, 95), drawn.choice("AABC")
        visits = range(drawn.choice((1, 1, 2, 4)))
        lines += [f"{patient},{age},{county},{drawn.lognormvariate(4, 1):.2f}" for _ in visits]
    (folder / "visits.csv").write_text("\n".join(lines) + "\n", encoding="utf-8")
    (folder / "server.toml").write_text(_CONFIGURATION, encoding="utf-8")
    render.line(f"{folder / 'server.toml'} and {folder / 'visits.csv'} are written")
