"""`unacorda`: the command line. Each verb loads what it needs when it runs, so help is quick."""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

import contextlib
import os
import sys
from collections.abc import Sequence
from typing import Annotated

import typer

from unacorda._version import __version__
from unacorda.cli import account, audit, calibrate, demo, describe, ledger, plot, query, verify
from unacorda.cli.failures import EXIT_CODES, ExitCode, report_usage, silence

__all__ = ["app", "main"]

_HELP = f"""Private answers about tables of people, and what mechanisms cost.

\b
Begin with:
  unacorda demo
  unacorda query --help
  unacorda account --help

{EXIT_CODES}"""

# Typer gives a name to one kind of usage error alone; the others stand above it.
_USAGE: type[typer.BadParameter] = typer.BadParameter.__mro__[1]

_SETTINGS = {"help_option_names": ["-h", "--help"]}

app = typer.Typer(
    name="unacorda",
    help=_HELP,
    add_completion=False,
    no_args_is_help=True,
    rich_markup_mode=None,  # plain help, without rich: quick, and the same wherever it is read
    pretty_exceptions_enable=False,  # a traceback may show data
    context_settings=_SETTINGS,
)
app.command("demo", help=demo.HELP, short_help=demo.SUMMARY)(demo.demo)
app.command("query", help=query.HELP, short_help=query.SUMMARY)(query.query)
app.command("describe", help=describe.HELP, short_help=describe.SUMMARY)(describe.describe)
app.command("account", help=account.HELP, short_help=account.SUMMARY)(account.account)
app.command("calibrate", help=calibrate.HELP, short_help=calibrate.SUMMARY)(calibrate.calibrate)
app.command("audit", help=audit.HELP, short_help=audit.SUMMARY)(audit.audit)
app.command("plot", help=plot.HELP, short_help=plot.SUMMARY)(plot.plot)
app.command("verify", help=verify.HELP, short_help=verify.SUMMARY)(verify.verify)
app.add_typer(ledger.app, name="ledger")


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line and return its exit code.

    arguments: None for those of the process.
    """
    # NumPy starts a thread a core when it is loaded, which costs more than any verb gains by them.
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
    for stream in (sys.stdout, sys.stderr):
        # An answer must not be lost because a terminal cannot write a sign of it.
        with contextlib.suppress(AttributeError, ValueError):
            stream.reconfigure(errors="backslashreplace")  # type: ignore[union-attr]  # if it can
    try:
        arguments = sys.argv[1:] if arguments is None else arguments
        code: object = app(args=list(arguments), prog_name="unacorda", standalone_mode=False)
        code = ExitCode.OK if code is None else code
    except _USAGE as error:
        if type(error).__name__ == "NoArgsIsHelpError":  # `unacorda` alone
            error.show()
            code = ExitCode.USAGE
        else:
            code = report_usage(error)
    except SystemExit as ended:
        code = ExitCode.OK if ended.code is None else ended.code
    except (KeyboardInterrupt, typer.Abort):
        code = ExitCode.INTERRUPTED
    try:
        sys.stdout.flush()
    except BrokenPipeError:
        silence()
        code = ExitCode.PIPE
    return int(code) if isinstance(code, int) else int(ExitCode.FAILED)


def _print_version(said: bool) -> None:  # noqa: FBT001  # typer hands it over by place
    if said:
        typer.echo(f"unacorda {__version__}")
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
