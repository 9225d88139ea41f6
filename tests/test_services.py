"""A test that starts a service is marked: the default run has none."""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

import pytest
from tests.postgres_server import server
from tests.support.local_spark import local_spark


def test_a_test_without_the_mark_starts_no_service() -> None:
    with pytest.raises(RuntimeError, match=r"PostgreSQL has to be marked with pytest\.mark\.serv"):
        server()
    with pytest.raises(RuntimeError, match="Spark has to be marked"):
        local_spark(memory="1g", threads=1)
