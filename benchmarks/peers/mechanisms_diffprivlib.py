"""diffprivlib's mechanisms; see mechanisms_protocol.py."""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
from diffprivlib import mechanisms, tools
from mechanisms_protocol import EPSILON, LOWER, UPPER, Release, serve

warnings.simplefilter("ignore")


def selection(kind: Any) -> Any:
    def method(scores: list[float]) -> Release:
        choose = kind(epsilon=EPSILON, sensitivity=1.0, utility=scores)
        return lambda: int(choose.randomise())

    return method


def binary(data: list[bool]) -> Release:
    tell = mechanisms.Binary(epsilon=EPSILON, value0="0", value1="1")
    values = [str(int(value)) for value in data]
    return lambda: [int(tell.randomise(value)) for value in values]


def quantile(rows: list[float]) -> Release:
    values = np.array(rows)
    return lambda: float(tools.quantile(values, 0.5, epsilon=EPSILON, bounds=(LOWER, UPPER)))


def noise(values: list[float]) -> Release:
    add = mechanisms.Laplace(epsilon=EPSILON, delta=0.0, sensitivity=1)
    return lambda: [add.randomise(value) for value in values]


if __name__ == "__main__":
    serve(
        {
            "selection/exponential": selection(mechanisms.Exponential),
            "selection/permute and flip": selection(mechanisms.PermuteAndFlip),
            "binary response/binary": binary,
            "quantile/exponential": quantile,
            "noise/Laplace": noise,
        },
        limit=3.0,
    )
