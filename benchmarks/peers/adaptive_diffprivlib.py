"""diffprivlib's sums and medians, which want bounds; see adaptive_protocol.py."""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

import warnings
from typing import Any

from adaptive_protocol import Method, Release, serve
from diffprivlib import tools

warnings.simplefilter("ignore")


def total(bound: str) -> Method:
    def method(values: Any, epsilon: float, facts: dict[str, float]) -> Release:
        bounds = (0.0, facts[bound])
        return lambda: tools.sum(values, epsilon=epsilon, bounds=bounds)

    return method


def median(values: Any, epsilon: float, facts: dict[str, float]) -> Release:
    bounds = (0.0, facts["largest"])
    return lambda: tools.quantile(values, 0.5, epsilon=epsilon, bounds=bounds)


if __name__ == "__main__":
    serve(
        {
            "total/Laplace, global bound": total("largest"),
            "total/Laplace, known level": total("level"),
            "median/exponential": median,
        }
    )
