"""unacorda's regressions, of which the slopes' intervals are left aside here."""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

import numpy as np
from models_protocol import DELTA, Question, serve

import unacorda
from unacorda import inference


def linear(question: Question, x: np.ndarray, y: np.ndarray) -> np.ndarray:
    model = inference.LinearRegression(
        budget=unacorda.ApproxDP(question.epsilon, DELTA),
        feature_bounds=(-question.reach, question.reach),
        target_bounds=(-question.span, question.span),
    ).fit(x, y)
    return np.append(model.intercept_, model.coef_)


def logistic(question: Question, x: np.ndarray, y: np.ndarray) -> np.ndarray:
    model = inference.LogisticRegression(
        budget=unacorda.ApproxDP(question.epsilon, DELTA),
        feature_bounds=(-question.reach, question.reach),
    ).fit(x, y)
    return np.append(model.intercept_, model.coef_)


if __name__ == "__main__":
    serve(unacorda.__version__, {"linear": linear, "logistic": logistic})
