r"""Newton's fit of a loss whose curvature vanishes with rare events: classes and counts.

The start is the prediction of the released mean, where M is known up to that mean; gates look at
the noise of the pooled curvature and at how many people stand behind the least informed direction.
"""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable
from typing import Final

import numpy as np

from unacorda.inference.losses import Loss
from unacorda.inference.regression.covariance import Fitted, floored, inverse_root
from unacorda.inference.regression.metric import (
    LEAST_THRIFT,
    fixed_radius,
    gram,
    norm_of,
    thrift,
    whiten,
)
from unacorda.inference.regression.newton import Newton, Shares
from unacorda.inference.regression.rows import Rows, Total, power, share_of

__all__ = ["fit_rare", "log_odds", "mean_target"]

_MEAN, _GRAM = 0.008, 0.06
_PEOPLE: Final = 40
_FEW: Final = Shares(
    steps=(0.08, 0.12, 0.38, 0.42),
    curvature=0.06,
    radius=0.006,
    cap=0.004,
    last=0.08,
    scores=0.03,
    level=0.01,
)
_MANY: Final = Shares(
    steps=(0.05, 0.04, 0.06, 0.09, 0.36, 0.40),
    curvature=0.03,
    radius=0.006,
    cap=0.004,
    last=0.05,
    scores=0.03,
    level=0.01,
)


def mean_target(rows: Rows, *, most: float) -> tuple[float, float]:
    """The noisy mean of the target, clipped to [0, most], and the deviation of its noise."""
    asked = Total(
        of=lambda row: row.own * np.clip(row.target, 0.0, most),
        bound=most,
        share=share_of(_MEAN),
    )
    (found,) = rows.ask(asked)
    mean, noise = found
    return mean, noise


def fit_rare(
    rows: Rows,
    loss: Loss,
    *,
    prediction: float,
    curvature: float,
    stretch: Callable[[float], float] | None = None,
    loose: bool = False,
    cut: float | None = None,
    heavy: bool = False,
) -> Fitted:
    """Fit from a constant prediction, where the mean curvature is known.

    heavy: few rows may hold much of the curvature, so that matrices get a larger share of the
    budget, and their caps are as large as noise allows. The others are of `Newton`.
    Source: docs/proofs/regression.md, section 4.
    """
    metric = whiten(rows)
    d, thrifty = rows.size, thrift(rows)
    f = max(0.75 if heavy else 0.25, thrifty)
    shares = _FEW if f == 1 else _MANY
    if f < 1:
        shares = dataclasses.replace(
            shares,
            curvature=shares.curvature * f,
            last=shares.last * f,
            scores=shares.scores * f,
        )
    second = gram(rows, fixed_radius(rows, metric, share=_GRAM * f), _GRAM * f)
    before = rows.back
    bent = floored(second.matrix, norm_of(second.deviation, d))
    newton = Newton(
        rows=rows,
        loss=loss,
        start=np.linalg.solve(before, np.eye(d)[0]) * prediction,
        curvature=curvature * bent,
        shares=shares,
        tolerance=0.06 if f == 1 else 0.15,
        ample=thrifty <= LEAST_THRIFT,
        stretch=stretch,
        loose=loose,
        cut=cut,
        heavy=heavy,
        inside=cut is not None and thrifty > 0.3,
    )
    found = newton.run()
    pooled = found.curvature
    # M in the metric of the Gram matrix: of how many people's worth the least direction is.
    way = np.linalg.inv(np.linalg.solve(before, rows.back))
    root = inverse_root(bent)
    informed = np.linalg.eigvalsh(root @ way.T @ pooled.matrix @ way @ root)[0]
    people = rows.number / rows.repeated * float(informed)
    rest = inverse_root(found.before)
    values = np.linalg.eigvalsh(rest @ pooled.matrix @ rest)
    noise = norm_of(pooled.deviation, d) * float(np.linalg.norm(rest, 2)) ** 2
    mu = power(rows) * rows.repeated / rows.number
    closed = list(found.errors.closed)
    if noise > 0.3:
        closed.append("noise hides the curvature")
    elif not 0.4 <= values[0] <= values[-1] <= 2:
        closed.append("the curvature still changed in the last steps, as of separated classes")
    if people < _PEOPLE * max(1.0, 1 / mu):
        closed.append("too few events stand behind some direction of the features")
    if found.errors.last_step > 3.5:
        closed.append("the last step was longer than its error explains")
    errors = dataclasses.replace(
        found.errors,
        closed=tuple(closed),
        diagnostics={
            "noise of curvature": noise,
            "people": people,
            "dispersion": found.level / max(float(np.trace(pooled.matrix)), pooled.deviation),
        },
    )
    return Fitted(
        theta=found.theta,
        errors=errors,
        score=newton.descent_score,
        steps=len(shares.steps),
        beyond=found.beyond,
    )


def log_odds(share: float) -> float:
    """log(p / (1 - p))."""
    return math.log(share / (1 - share))
