"""diffprivlib's regressions: pure epsilon when a row is replaced, n public, no intervals.

The logistic one adds noise to its objective, the linear one to second moments.
"""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

import math
import warnings
from importlib.metadata import version

import numpy as np
from diffprivlib import models
from models_protocol import Question, serve

warnings.simplefilter("ignore")


def linear(question: Question, x: np.ndarray, y: np.ndarray) -> np.ndarray:
    model = models.LinearRegression(
        epsilon=question.epsilon,
        bounds_X=(-question.reach, question.reach),
        bounds_y=(-question.span, question.span),
    ).fit(x, y)
    return np.append(model.intercept_, model.coef_)


def logistic(question: Question, x: np.ndarray, y: np.ndarray) -> np.ndarray:
    # Rows are cut to this length: 1.3 sqrt p, beyond which few of a standard normal row lie.
    norm = 1.3 * math.sqrt(x.shape[1])
    model = models.LogisticRegression(epsilon=question.epsilon, data_norm=norm, max_iter=1000)
    model.fit(x, y)
    return np.append(model.intercept_, model.coef_)


if __name__ == "__main__":
    serve(version("diffprivlib"), {"linear": linear, "logistic": logistic})
