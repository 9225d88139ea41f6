"""`tacet`: the command line. Each verb loads what it needs when it runs, so that help is quick."""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

import contextlib
import sys
from collections.abc import Sequence
from typing import Annotated

import typer

from tacet import __version__
from tacet.cli import demo, ledger, query
from tacet.cli.failures import EXIT_CODES, ExitCode, silence

__all__ = ["app", "main"]

_HELP = f"""Private answers about tables of people.

\b
Begin with:
  tacet demo
  tacet query --help

{EXIT_CODES}"""

_SETTINGS = {"help_option_names": ["-h", "--help"]}

app = typer.Typer(
    name="tacet",
    help=_HELP,
    add_completion=False,
    no_args_is_help=True,
    rich_markup_mode=None,  # plain help, without rich: quick, and the same wherever it is read
    pretty_exceptions_enable=False,  # a traceback may show data
    context_settings=_SETTINGS,
)
app.command("demo", help=demo.HELP, short_help=demo.SUMMARY)(demo.demo)
app.command("query", help=query.HELP, short_help=query.SUMMARY, no_args_is_help=True)(query.query)
app.add_typer(ledger.app, name="ledger")


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line and return its exit code.

    arguments: None for those of the process.
    """
    for stream in (sys.stdout, sys.stderr):
        # An answer must not be lost because a terminal cannot write a sign of it.
        with contextlib.suppress(AttributeError, ValueError):
            stream.reconfigure(errors="backslashreplace")  # type: ignore[union-attr]  # if it can
    try:
        app(args=None if arguments is None else list(arguments), prog_name="tacet")
        code: object = ExitCode.OK
    except SystemExit as ended:
        code = ExitCode.OK if ended.code is None else ended.code
    except KeyboardInterrupt:
        code = ExitCode.INTERRUPTED
    try:
        sys.stdout.flush()
    except BrokenPipeError:
        silence()
        code = ExitCode.PIPE
    return int(code) if isinstance(code, int) else int(ExitCode.FAILED)


def _print_version(said: bool) -> None:  # noqa: FBT001  # typer hands it over by place
    if said:
        typer.echo(f"tacet {__version__}")
        raise typer.Exit


@app.callback()
def _root(
    *,
    version: Annotated[
        bool,
        typer.Option(
            "--version",
            help="Print the version.",
            is_eager=True,
            callback=_print_version,
        ),
    ] = False,
) -> None:
    """Options that stand before a verb."""
    del version  # its callback has said it
