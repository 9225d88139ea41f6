"""Internals of the command line that tests may use, as `seams`."""

# SPDX-License-Identifier: Apache-2.0

from unacorda.cli import account, calibrate, drawing, output, show
from unacorda.cli.aims import aim_of
from unacorda.cli.answers import outward
from unacorda.cli.app import app, main
from unacorda.cli.failures import ExitCode, reporting
from unacorda.cli.mends import bounds_mend, keys_mend, unit_mend
from unacorda.cli.notation import read_event, read_template
from unacorda.cli.plot import KINDS as PLOT_KINDS
from unacorda.cli.searching import CommandSearch as CliSearch
from unacorda.cli.show import TextTable, estimate, number
from unacorda.cli.spelling import CLASSES, METHODS, depth, places, written
from unacorda.cli.spelling import KINDS as SPELLED_KINDS

__all__ = [
    "CLASSES",
    "METHODS",
    "PLOT_KINDS",
    "SPELLED_KINDS",
    "CliSearch",
    "ExitCode",
    "TextTable",
    "account",
    "aim_of",
    "app",
    "bounds_mend",
    "calibrate",
    "depth",
    "drawing",
    "estimate",
    "keys_mend",
    "main",
    "number",
    "output",
    "outward",
    "places",
    "read_event",
    "read_template",
    "reporting",
    "show",
    "unit_mend",
    "written",
]
