"""SmartNoise Synthesizers: AIM for tables of three columns, and MST, with mbi 1.1."""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

import importlib.metadata
from typing import Any

import numpy as np
import pandas as pd
from snsynth.aim import AIMSynthesizer
from snsynth.mst import MSTSynthesizer
from snsynth.utils import cdp_rho
from synthetic_protocol import Method, Question, serve

DELTA = 1e-9


def epsilon_of(rho: float) -> float:
    """The epsilon that it turns into this rho, at DELTA."""
    low, high = 1e-6, 1e4
    for _ in range(200):
        middle = (low + high) / 2
        low, high = (middle, high) if cdp_rho(middle, DELTA) < rho else (low, middle)
    return low


def made_by(synthesizer: Any, **choices: Any) -> Method:
    """Rows by one of its synthesizers; every column is one of categories."""

    def make(question: Question, codes: np.ndarray) -> np.ndarray:
        frame = pd.DataFrame(codes, columns=question.names)
        found = synthesizer(epsilon=epsilon_of(question.rho), delta=DELTA, **choices)
        found.fit(frame, categorical_columns=question.names, preprocessor_eps=0.0)
        return np.asarray(found.sample(len(codes))[question.names], dtype=np.int64)

    return make


serve(
    importlib.metadata.version("smartnoise-synth"),
    {"AIM": made_by(AIMSynthesizer, degree=3), "MST": made_by(MSTSynthesizer)},
)
