"""Which tests may start a service: those that are marked `service`, or `slow`.

The default run goes without Spark and PostgreSQL; `.ci/run` runs the tests that need them.
"""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

import os

import pytest

__all__ = ["admit", "check_admitted"]

_ADMITTED = "UNACORDA_TEST_SERVICES"  # in the environment, which processes of a test inherit


def admit(item: pytest.Item) -> None:
    """Let the test that begins start services, where it is marked."""
    marked = any(item.get_closest_marker(name) for name in ("service", "slow"))
    os.environ[_ADMITTED] = "yes" if marked else "no"


def check_admitted(service: str) -> None:
    """Raise RuntimeError where the running test may start no service."""
    if os.environ.get(_ADMITTED) == "no":
        message = f"A test that starts {service} has to be marked with pytest.mark.service."
        raise RuntimeError(message)
