"""Internals of the command line that tests may use, as `seams`."""

# SPDX-License-Identifier: Apache-2.0

from unacorda.cli import output, plot, render
from unacorda.cli.app import app, main
from unacorda.cli.calibrate import CommandSearch as CliSearch
from unacorda.cli.calibrate import aim_of
from unacorda.cli.errors import ExitCode, bounds_hint, keys_hint, reported, unit_hint
from unacorda.cli.events import (
    CLASSES,
    METHODS,
    depth,
    is_optional,
    is_whole,
    places,
    read_event,
    read_template,
    written,
)
from unacorda.cli.events import KINDS as SPELLED_KINDS
from unacorda.cli.fit import read_formula
from unacorda.cli.render import rounded, table_blocks
from unacorda.display import estimate, number

__all__ = [
    "CLASSES",
    "METHODS",
    "SPELLED_KINDS",
    "CliSearch",
    "ExitCode",
    "aim_of",
    "app",
    "bounds_hint",
    "depth",
    "estimate",
    "is_optional",
    "is_whole",
    "keys_hint",
    "main",
    "number",
    "output",
    "places",
    "plot",
    "read_event",
    "read_formula",
    "read_template",
    "render",
    "reported",
    "rounded",
    "table_blocks",
    "unit_hint",
    "written",
]
