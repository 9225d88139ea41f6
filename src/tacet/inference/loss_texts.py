"""Scores and curvatures of losses as SQL, in the row-wise language of sessions.

A loss of one's own is fit from tables if it says them too: methods `score_sql(prediction, target)`
and `curvature_sql(prediction, target)`, of SQL text of both, that give SQL text.
"""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

import math
from collections.abc import Callable
from typing import TypeAlias

from tacet.inference.losses import Huber, LogCosh, Logistic, Loss, Poisson, SmoothedHuber, Tukey

__all__ = ["Text", "curvature_text", "cut_text", "number", "score_text"]

Text: TypeAlias = Callable[[str, str], str]
"""SQL of a row's number, from that of its prediction and target; empty where there is none."""

_STEEPEST = 700
"""Beyond it exponentials would leave the range of doubles; e^-700 is nothing beside 1."""


def number(value: float) -> str:
    """A number as SQL, in brackets, which is read back to the same bits.

    >>> number(-0.5), number(1e-7)
    ('(-0.5)', '(1e-07)')
    """
    return f"({float(value)!r})"


def cut_text(text: str, least: float, most: float) -> str:
    """SQL of a number cut to a range.

    >>> cut_text("x", -1, 1)
    'greatest(least(x, (1.0)), (-1.0))'
    """
    return f"greatest(least({text}, {number(most)}), {number(least)})"


def score_text(loss: Loss) -> Text:
    """SQL of the derivative of a loss by the prediction."""
    match loss:
        case Huber(c):
            return lambda p, y: cut_text(f"{p} - {y}", -c, c)
        case SmoothedHuber(c):
            return lambda p, y: f"{number(c)} * {_bend(p, y, c)} / sqrt({_smooth(p, y, c)})"
        case LogCosh(c):
            return lambda p, y: f"{number(c)} * {_tanh(p, y, c)}"
        case Tukey(c):
            return lambda p, y: (
                f"{number(c)} * {_near(p, y, c)} * {_rest(p, y, c)} * {_rest(p, y, c)}"
            )
        case Logistic():
            return lambda p, y: f"{_probability(p)} - {cut_text(y, 0, 1)}"
        case Poisson(most):
            return lambda p, y: f"{_mean(p, most)} - {cut_text(y, 0, most)}"
        case _:
            return getattr(loss, "score_sql", _none)


def curvature_text(loss: Loss) -> Text:
    """SQL of the second derivative of a loss by the prediction."""
    match loss:
        case Huber(c):
            return lambda p, y: f"CASE WHEN abs({p} - {y}) <= {number(c)} THEN 1 ELSE 0 END"
        case SmoothedHuber(c):
            return lambda p, y: f"1 / ({_smooth(p, y, c)} * sqrt({_smooth(p, y, c)}))"
        case LogCosh(c):
            return lambda p, y: f"1 - {_tanh(p, y, c)} * {_tanh(p, y, c)}"
        case Tukey(c):
            return lambda p, y: f"{_rest(p, y, c)} * (1 - 5 * {_near(p, y, c)} * {_near(p, y, c)})"
        case Logistic():
            return lambda p, _: f"{_probability(p)} * (1 - {_probability(p)})"
        case Poisson(most):
            return lambda p, _: _mean(p, most)
        case _:
            return getattr(loss, "curvature_sql", _none)


def _none(prediction: str, target: str) -> str:
    del prediction, target
    return ""


def _bend(p: str, y: str, c: float) -> str:
    """The residual in units of c, its sign that of the score."""
    return cut_text(f"({p} - {y}) / {number(c)}", -1e60, 1e60)


def _smooth(p: str, y: str, c: float) -> str:
    return f"(1 + {_bend(p, y, c)} * {_bend(p, y, c)})"


def _tanh(p: str, y: str, c: float) -> str:
    twice = cut_text(f"({p} - {y}) / {number(c / 2)}", -_STEEPEST, _STEEPEST)
    return f"(1 - 2 / (1 + exp({twice})))"


def _near(p: str, y: str, c: float) -> str:
    return cut_text(f"({p} - {y}) / {number(c)}", -1, 1)


def _rest(p: str, y: str, c: float) -> str:
    return f"((1 - {_near(p, y, c)}) * (1 + {_near(p, y, c)}))"


def _probability(p: str) -> str:
    return f"(1 / (1 + exp(-({cut_text(p, -_STEEPEST, _STEEPEST)}))))"


def _mean(p: str, most: float) -> str:
    return f"least(exp({cut_text(p, -_STEEPEST, math.log(most))}), {number(most)})"
