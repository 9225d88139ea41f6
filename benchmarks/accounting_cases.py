"""The compositions that `accounting.py` asks about, as plain numbers, and the random ones of --box.

A part is {"kind", "count", ...} with

- gaussian, laplace: noise, the noise multiplier;
- pure: epsilon; approximate: epsilon and delta;
- sampled_gaussian: noise and rate, Poisson sampling on add/remove neighbors.

A case asks for epsilon at its delta; with "epsilon" it asks for the least noise of its one part.
"""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

import hashlib
import json
import math
import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any

STORE = Path(__file__).resolve().with_name("accounting_references.json")

Case = dict[str, Any]
Part = dict[str, Any]

BOX = {"count": (1e2, 1e9), "delta": (1e-15, 1e-3), "rate": (1e-4, 1.0), "noise": (0.5, 50.0)}
SEED = 20261121


def sampled(rate: float, noise: float, count: int) -> Part:
    return {"kind": "sampled_gaussian", "rate": rate, "noise": noise, "count": count}


def log_spaced(low: float, high: float, number: int) -> list[float]:
    """From low to high with equal ratios, each a decimal of nine digits."""
    return [float(f"{low * (high / low) ** (place / (number - 1)):.9g}") for place in range(number)]


def laplaces(low: float, high: float, number: int) -> list[Part]:
    return [
        {"kind": "laplace", "noise": scale, "count": 1} for scale in log_spaced(low, high, number)
    ]


def mixed() -> list[Part]:
    """500 mechanisms: 200 Laplace, 100 Gaussian, 100 pure, 100 sampled Gaussian of ten kinds."""
    parts = laplaces(20, 400, 200)
    parts += [{"kind": "gaussian", "noise": n, "count": 1} for n in log_spaced(20, 200, 100)]
    parts.append({"kind": "pure", "epsilon": 0.01, "count": 100})
    rates, noises = log_spaced(0.001, 0.05, 10), log_spaced(2, 1, 10)
    parts += [sampled(rate, noise, 10) for rate, noise in zip(rates, noises, strict=True)]
    return parts


def _cases() -> Iterator[Case]:
    for power in (3, 4, 5, 6):
        yield {
            "name": f"sampled-1e{power}",
            "title": f"sampled Gaussian, q = 0.01, sigma = 1, T = 1e{power}, delta = 1e-5",
            "parts": [sampled(0.01, 1.0, 10**power)],
            "delta": 1e-5,
        }
    yield {
        "name": "sampled-rare",
        "title": "sampled Gaussian, q = 0.001, sigma = 0.6, T = 5e4, delta = 1e-5",
        "parts": [sampled(0.001, 0.6, 50_000)],
        "delta": 1e-5,
    }
    yield {
        "name": "sampled-rarest",
        "title": "sampled Gaussian, q = 1e-4, sigma = 1, T = 1e6, delta = 1e-9",
        "parts": [sampled(1e-4, 1.0, 10**6)],
        "delta": 1e-9,
    }
    yield {
        "name": "sampled-small-delta",
        "title": "sampled Gaussian, q = 0.01, sigma = 1, T = 1e3, delta = 1e-15",
        "parts": [sampled(0.01, 1.0, 1000)],
        "delta": 1e-15,
    }
    yield {
        "name": "laplaces",
        "title": "1000 different Laplace, scales 10 to 200, delta = 1e-6",
        "parts": laplaces(10, 200, 1000),
        "delta": 1e-6,
    }
    yield {
        "name": "mixed",
        "title": "500 mixed: Laplace, Gaussian, pure 0.01, sampled Gaussian, delta = 1e-6",
        "parts": mixed(),
        "delta": 1e-6,
    }
    yield {
        "name": "homogeneous",
        "title": "(0.1, 1e-7)-DP, 1000 times, delta = 1.5e-4",
        "parts": [{"kind": "approximate", "epsilon": 0.1, "delta": 1e-7, "count": 1000}],
        "delta": 1.5e-4,
    }
    yield {
        "name": "calibration",
        "title": "least noise: q = 0.01, T = 1e4, epsilon = 2, delta = 1e-5",
        "parts": [{"kind": "sampled_gaussian", "rate": 0.01, "count": 10**4}],
        "delta": 1e-5,
        "epsilon": 2.0,
    }


CASES: dict[str, Case] = {case["name"]: case for case in _cases()}


def fingerprint(case: Case) -> str:
    """Changes whenever the question does; the words of its title do not count."""
    question = {name: value for name, value in case.items() if name not in ("name", "title")}
    return hashlib.sha256(json.dumps(question, sort_keys=True).encode()).hexdigest()[:16]


def references() -> dict[str, Any]:
    """What is kept, by case; values of questions that have changed since are left out."""
    kept = json.loads(STORE.read_text())["cases"] if STORE.exists() else {}
    return {
        name: kept[name]
        for name, case in CASES.items()
        if name in kept and kept[name]["fingerprint"] == fingerprint(case)
    }


def draws(number: int, *, seed: int = SEED) -> Iterator[Case]:
    """Sampled Gaussians drawn log-uniformly from the box."""
    generator = random.Random(seed)
    for place in range(number):
        drawn = {
            name: math.exp(generator.uniform(math.log(low), math.log(high)))
            for name, (low, high) in BOX.items()
        }
        yield {
            "name": f"box-{place}",
            "parts": [sampled(min(drawn["rate"], 1.0), drawn["noise"], round(drawn["count"]))],
            "delta": drawn["delta"],
        }
