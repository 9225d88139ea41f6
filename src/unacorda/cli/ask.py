"""`unacorda ask`: one private answer from a server."""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from unacorda.checks import demand, exact, read_text
from unacorda.cli import params, render
from unacorda.display import number

if TYPE_CHECKING:
    from unacorda.server.remote import RemoteRelease

_TOKEN = "UNACORDA_TOKEN"  # noqa: S105  # the name of a variable


@params.verb(short_help="Ask one SELECT of a server.")
@click.argument("url", metavar="URL")
@click.argument("text", metavar="SELECT")
@params.price()
@params.option("--dataset", "NAME", "The dataset, where the token is for several.")
@params.option("--token-file", "FILE", "Holds the token.", type=params.FILE)
@params.flag("--explain", "Print what it would cost and err by; it is free.")
@params.flag("--try rehearse", "Answer it on made-up rows, to see the form; it is free.")
@params.option("--error", "X", "Print the least budget with this standard error; it is free.")
@params.option("--purpose", "TEXT", "Noted in the ledger.")
@params.flag("--fresh", "Pay again for new noise.")
@params.flag("--json as_json", "Print JSON: of an answer the release as it is stored.")
def ask(
    *,
    url: str,
    text: str,
    price: Mapping[str, str],
    dataset: str | None,
    token_file: Path | None,
    explain: bool,
    rehearse: bool,
    error: str | None,
    purpose: str | None,
    fresh: bool,
    as_json: bool,
) -> None:
    r"""Ask one SELECT of a server that `unacorda serve` runs.

    URL is its address: https, or http on this machine. The token is read from the variable
    UNACORDA_TOKEN, or from a file with --token-file, because others can see a command line.

    If an equal question was answered before, you get its answer again, and it costs nothing.

    Examples:
      unacorda ask https://ask.hospital.example --rho 0.01 \
          "SELECT county, COUNT(*) AS n FROM visits GROUP BY county"
      unacorda ask https://ask.hospital.example --rho 0.01 --explain \
          "SELECT COUNT(*) AS n FROM visits"
    """
    from unacorda.server.remote import Remote
    from unacorda.settings import guarantee_of

    single = explain + rehearse + (error is not None) <= 1
    demand(single, "--explain", explain, expected="one of --explain, --try and --error")
    expected = "a budget, such as --rho 0.01, or --error without one"
    demand(bool(price) == (error is None), "--rho", dict(price) or None, expected=expected)
    wanted = None if error is None else exact("--error", error)
    budget = guarantee_of(price) if price else None
    remote = Remote(url, token=_token(token_file), dataset=dataset)
    if wanted is not None:
        found = remote.suggest_budget(text, error=wanted)
        render.as_json({"budget": found}) if as_json else render.line(str(found))
        return
    assert budget is not None
    if explain:
        _print_explanation(remote.explain(text, budget=budget), as_json=as_json)
        return
    if rehearse:
        release = remote.rehearse(text, budget=budget)
    else:
        release = remote.evaluate(text, budget=budget, purpose=purpose, fresh=fresh)
    if as_json:
        render.raw(release.text)
        return
    _print_release(release)
    if not release.made_up:
        render.line(f"{remote.remaining} of your limit is left")


def _token(file: Path | None) -> str:
    given = os.environ.get(_TOKEN, "") if file is None else read_text("--token-file", file)
    demand(given.strip(), "--token-file", "...", expected=f"a token in it, or in {_TOKEN}")
    return given.strip()


def _print_explanation(said: Mapping[str, Any], *, as_json: bool) -> None:
    if as_json:
        render.as_json(dict(said))
        return
    facts = [(name, value) for name, value in said.items() if isinstance(value, str | bool | int)]
    render.print_facts(*((name, str(value)) for name, value in facts))


def _print_release(release: RemoteRelease) -> None:
    rows = release.rows
    if rows:
        render.print_table(rows[0], (map(number, row.values()) for row in rows))
    if release.made_up:
        render.notice("these rows are made up: they say nothing of the data, and cost nothing")
    elif release.again:
        render.line("answered before: this cost nothing")
    else:
        render.line(f"cost {release.charge}")
