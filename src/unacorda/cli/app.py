"""`unacorda`: the command line. Each verb loads what it needs when it runs, so help is quick."""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

import contextlib
import importlib
import os
import sys
from collections.abc import Sequence
from typing import Any

import click

from unacorda._version import __version__
from unacorda.cli.errors import EXIT_CODES, ExitCode, Invocation, reported, silence
from unacorda.cli.params import InOrder

_HELP = f"""Private answers about tables of people, and what mechanisms cost.

Begin with:
  unacorda demo
  unacorda query --help
  unacorda account --help

{EXIT_CODES}"""


_VERBS = (
    *("demo", "query", "describe", "fit", "synthesize", "series"),
    *("account", "calibrate", "audit", "plot"),
    *("verify", "ledger", "serve", "server", "ask"),
)
"""The verbs in the order of their use; each is what its module of that name calls so."""
_ELSEWHERE = {"serve": "server"}
"""But for these, whose module has another name."""


class _Verbs(InOrder):
    """Verbs that are loaded when they are asked for: a short command is mostly imports."""

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """A verb; None for what is none."""
        del ctx
        if cmd_name not in _VERBS:
            return None
        home = _ELSEWHERE.get(cmd_name, cmd_name)
        module = importlib.import_module(f"unacorda.cli.{home}")
        verb: click.Command = getattr(module, cmd_name)
        return verb


app = click.version_option(__version__, message="%(prog)s %(version)s", help="Print the version.")(
    _Verbs(
        "unacorda",
        commands={name: click.Command(name) for name in _VERBS},
        help=_HELP,
        context_settings={"help_option_names": ["-h", "--help"]},
    )
)


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
    given = list(sys.argv[1:] if arguments is None else arguments)

    invocation = Invocation(arguments=given)

    def run() -> Any:
        with app.make_context("unacorda", list(given), obj=invocation) as context:
            return app.invoke(context)

    with invocation.interruptible():
        code = reported(run, invocation)
    try:
        sys.stdout.flush()
    except BrokenPipeError:
        silence()
        return int(ExitCode.PIPE)
    return code
