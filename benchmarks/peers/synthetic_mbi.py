"""mbi 2: the fit alone. It holds no mechanisms, so it gets the tables that unacorda measured."""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

import importlib.metadata

import jax
import mbi
import numpy as np
from synthetic_protocol import Question, serve

jax.config.update("jax_enable_x64", True)  # which it advises for many rows


def fit(question: Question, codes: np.ndarray) -> np.ndarray:  # noqa: ARG001 - it sees no rows
    """Rows of its model of the measured tables."""
    with np.load(question.tables) as tables:
        found = dict(tables)
    rows = float(found.pop("rows"))
    domain = mbi.Domain(question.names, question.sizes)
    measured = [
        mbi.LinearMeasurement(
            seen[:-1], tuple(f"c{a}" for a in held.split("-")), stddev=float(seen[-1]) ** 0.5
        )
        for held, seen in found.items()
    ]
    model = mbi.estimation.MirrorDescent().estimate(domain, measured, known_total=rows, iters=1000)
    drawn = model.synthetic_data(rows=max(round(rows), 1)).to_dict()
    return np.stack([np.asarray(drawn[name]) for name in question.names], axis=1)


serve(importlib.metadata.version("mbi"), {"fit of unacorda's tables": fit})
