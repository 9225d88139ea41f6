"""Questions answer, and are refused, as they were before, with seeded noise.

Integers, texts and exact numbers digit for digit, floats up to the rounding that differs between
processors. A change of a file of answers is a change of what users get, and has a line in the
changelog.
"""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

import json
import math
from collections.abc import Iterator
from typing import Any

import pytest
from tests.session.golden import (
    ANSWERED,
    QUESTIONS,
    REFUSALS,
    REFUSED,
    opened,
    refusal,
    told,
)

from unacorda import ApproxDP, PureDP, Session

ANSWERS: dict[str, Any] = json.loads(ANSWERED.read_text())
EXPECTED: dict[str, Any] = json.loads(REFUSED.read_text())


def test_the_files_hold_every_question_and_refusal() -> None:
    assert list(ANSWERS) == QUESTIONS
    assert list(EXPECTED) == list(REFUSALS)
    assert len(QUESTIONS) >= 60
    assert len(REFUSALS) >= 150


@pytest.mark.parametrize("name", QUESTIONS)
def test_a_question_answers_as_before(name: str) -> None:
    found = json.loads(json.dumps(told(name)))
    assert list(_differing(found, ANSWERS[name], at=name)) == []


def _differing(found: Any, expected: Any, *, at: str) -> Iterator[str]:
    """Where two JSON values differ."""
    match found, expected:
        case dict(), dict() if list(found) == list(expected):
            for name in found:
                yield from _differing(found[name], expected[name], at=f"{at}.{name}")
        case list(), list() if len(found) == len(expected):
            for place, pair in enumerate(zip(found, expected, strict=True)):
                yield from _differing(*pair, at=f"{at}[{place}]")
        case float(), float() if math.isclose(found, expected, rel_tol=1e-12):
            pass
        case _ if found != expected or type(found) is not type(expected):
            yield f"{at}: {found!r} for {expected!r}"


@pytest.fixture(scope="module")
def sessions() -> Iterator[tuple[Session, Session]]:
    with opened(PureDP(20)) as pure, opened(ApproxDP(20, "1e-2")) as approximate:
        yield pure, approximate


def test_each_refusal_names_what_it_named_before(sessions: tuple[Session, Session]) -> None:
    found = {name: refusal(name, sessions=sessions) for name in REFUSALS}
    assert found == EXPECTED
    assert sessions[0].spent == PureDP(0)
    assert sessions[1].spent == ApproxDP(0, 0)
