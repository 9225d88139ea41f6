"""OpenDP's mechanisms; see mechanisms_protocol.py."""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

import math
from typing import Any

import numpy as np
import opendp.prelude as dp
from mechanisms_protocol import CATEGORIES, EPSILON, LOWER, UPPER, Release, serve

dp.enable_features("contrib")
REALS = dp.vector_domain(dp.atom_domain(T=float, nan=False))


def selection(measure: Any) -> Any:
    def method(scores: list[float]) -> Release:
        # half of epsilon per unit of score, as of scores that need not be monotone
        choose = dp.m.make_noisy_max(REALS, dp.linf_distance(T=float), measure, scale=2 / EPSILON)
        values = np.array(scores)
        return lambda: choose(values)

    return method


def response(data: list[int]) -> Release:
    odds = math.exp(EPSILON)
    probability = odds / (odds + CATEGORIES - 1)
    tell = dp.m.make_randomized_response(list(range(CATEGORIES)), probability)
    return lambda: [tell(value) for value in data]


def binary(data: list[bool]) -> Release:
    tell = dp.m.make_randomized_response_bool(math.exp(EPSILON) / (1 + math.exp(EPSILON)))
    return lambda: [tell(value) for value in data]


def quantile(rows: list[float]) -> Release:
    candidates = np.linspace(LOWER, UPPER, 1001).tolist()
    make = lambda scale: dp.m.make_private_quantile(  # noqa: E731
        REALS,
        dp.symmetric_distance(),
        dp.max_divergence(),
        candidates=candidates,
        alpha=0.5,
        scale=scale,
    )
    median = make(dp.binary_search_param(make, d_in=1, d_out=EPSILON))
    values = np.array(rows)
    return lambda: median(values)


def noise(values: list[float]) -> Release:
    add = dp.m.make_laplace(REALS, dp.l1_distance(T=float), scale=1 / EPSILON)
    array = np.array(values)
    return lambda: add(array)


if __name__ == "__main__":
    serve(
        {
            "selection/noisy max (exponential noise)": selection(dp.max_divergence()),
            "selection/noisy max (Gumbel noise)": selection(dp.zero_concentrated_divergence()),
            "response/k-ary": response,
            "binary response/binary": binary,
            "quantile/1,001 candidates": quantile,
            "noise/Laplace": noise,
        },
        limit=3.0,
    )
