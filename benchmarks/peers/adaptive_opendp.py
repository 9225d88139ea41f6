"""OpenDP's sums and medians, which want bounds or candidates; see adaptive_protocol.py."""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

from typing import Any

import numpy as np
import opendp.prelude as dp
from adaptive_protocol import Method, Release, serve

dp.enable_features("contrib")
REALS = dp.vector_domain(dp.atom_domain(T=float, nan=False))
SPACE = REALS, dp.symmetric_distance()


def total(bound: str) -> Method:
    def method(values: Any, epsilon: float, facts: dict[str, float]) -> Release:
        add = SPACE >> dp.t.then_clamp((0.0, facts[bound])) >> dp.t.then_sum()
        make = lambda scale: add >> dp.m.then_laplace(scale)  # noqa: E731
        noisy = make(dp.binary_search_param(make, d_in=1, d_out=epsilon))
        return lambda: noisy(values)

    return method


def median(values: Any, epsilon: float, facts: dict[str, float]) -> Release:
    candidates = np.geomspace(1, facts["largest"], 1001).tolist()
    make = lambda scale: dp.m.make_private_quantile(  # noqa: E731
        *SPACE, dp.max_divergence(), candidates=candidates, alpha=0.5, scale=scale
    )
    quantile = make(dp.binary_search_param(make, d_in=1, d_out=epsilon))
    return lambda: quantile(values)


if __name__ == "__main__":
    serve(
        {
            "total/Laplace, global bound": total("largest"),
            "total/Laplace, known level": total("level"),
            "median/1,001 candidates": median,
        }
    )
