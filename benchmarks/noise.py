"""How fast exact noise is, beside OpenDP, diffprivlib and NumPy's noise, which is not private.

    python benchmarks/noise.py [--venvs DIR] [--rounds 5] [--limit 3] [--sizes 1000 100000 1000000]

Every tool is a process of its own, in its own virtual environment, made from
benchmarks/peers/NAME.txt and kept under --venvs. All of them live through the whole run and take
turns: each round asks every tool once for every law and size, so that a change of the machine's
speed meets all alike. A tool releases an array of zeros of the given size through its public
interface, noise of scale (or sigma) 10, bits from its own secure source; the best round counts. A
tool that would need longer than --limit seconds for a size is timed on as many values as fit,
marked with a star; of small sizes several releases are timed together. NumPy is the floor:
``Generator.laplace`` and ``Generator.normal`` on PCG64, one thread.
"""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

import argparse
import json
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from tables import Report, add_json
from tools import CACHE, Tool, environment

LAWS = ("discrete Laplace", "discrete Gaussian", "real Laplace", "real Gaussian")
TOOLS = ("unacorda", "numpy", "opendp", "diffprivlib")
SCALE = 10


# ---- inside a tool's process

Release = Callable[[Any], Any]


def unacorda_releases() -> dict[str, Release]:
    from unacorda.mechanisms.additive.integer import DiscreteGaussian, DiscreteLaplace
    from unacorda.mechanisms.additive.real import Gaussian, Laplace

    return {
        "discrete Laplace": DiscreteLaplace(scale=SCALE, l1_sensitivity=1).release,
        "discrete Gaussian": DiscreteGaussian(sigma=SCALE, l2_sensitivity=1).release,
        "real Laplace": Laplace(scale=SCALE, l1_sensitivity=1).release,
        "real Gaussian": Gaussian(sigma=SCALE, l2_sensitivity=1).release,
    }


def numpy_releases() -> dict[str, Release]:
    import numpy as np

    generator = np.random.default_rng()

    def laplace(x: Any) -> Any:
        return generator.laplace(0.0, SCALE, x.size)

    def normal(x: Any) -> Any:
        return generator.normal(0.0, SCALE, x.size)

    return dict(zip(LAWS, (laplace, normal, laplace, normal), strict=True))


def opendp_releases() -> dict[str, Release]:
    import opendp.prelude as dp

    dp.enable_features("contrib")
    whole = dp.vector_domain(dp.atom_domain(T="i64"))
    real = dp.vector_domain(dp.atom_domain(T=float, nan=False))
    scale = float(SCALE)
    return {
        "discrete Laplace": dp.m.make_laplace(whole, dp.l1_distance(T="i64"), scale=scale),
        "discrete Gaussian": dp.m.make_gaussian(whole, dp.l2_distance(T=float), scale=scale),
        "real Laplace": dp.m.make_laplace(real, dp.l1_distance(T=float), scale=scale),
        "real Gaussian": dp.m.make_gaussian(real, dp.l2_distance(T=float), scale=scale),
    }


def diffprivlib_releases() -> dict[str, Release]:
    from diffprivlib import mechanisms

    def each(mechanism: Any) -> Release:
        return lambda x: [mechanism.randomise(value) for value in x.tolist()]

    # Its Gaussians take epsilon and delta; the time does not depend on the scale that follows.
    return {
        "discrete Laplace": each(mechanisms.Geometric(epsilon=1 / SCALE, sensitivity=1)),
        "discrete Gaussian": each(
            mechanisms.GaussianDiscrete(epsilon=0.5, delta=1e-2, sensitivity=1)
        ),
        "real Laplace": each(mechanisms.Laplace(epsilon=1 / SCALE, delta=0.0, sensitivity=1)),
        "real Gaussian": each(mechanisms.Gaussian(epsilon=0.5, delta=1e-2, sensitivity=1)),
    }


def serve(tool: str, limit: float) -> None:
    """Answer each line [law, size] with [seconds, values released]."""
    import numpy as np

    releases: dict[str, Release] = globals()[f"{tool}_releases"]()
    pace = {}
    for law, release in releases.items():
        x = np.zeros(500, dtype=np.int64 if law.startswith("discrete") else np.float64)
        release(x)
        began = time.perf_counter()
        release(x)
        pace[law] = (time.perf_counter() - began) / x.size
    print(json.dumps("ready"), flush=True)
    for line in sys.stdin:
        law, size = json.loads(line)
        count = size if pace[law] * size <= limit else max(int(limit / pace[law]), 500)
        x = np.zeros(count, dtype=np.int64 if law.startswith("discrete") else np.float64)
        repeats = max(1, min(100_000 // count, int(limit / (pace[law] * count))))
        began = time.perf_counter()
        for _ in range(repeats):
            releases[law](x)
        print(json.dumps([(time.perf_counter() - began) / repeats, count]), flush=True)


# ---- the driver


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--venvs", type=Path, default=CACHE, help="where environments are kept")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--limit", type=float, default=3.0, help="seconds for one release")
    parser.add_argument("--sizes", type=int, nargs="+", default=[1_000, 100_000, 1_000_000])
    parser.add_argument("--unacorda-python", type=Path, default=Path(sys.executable))
    add_json(parser)
    parser.add_argument("--serve", choices=TOOLS, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.serve:
        serve(options.serve, options.limit)
        return

    tools = {}
    for name in TOOLS:
        ours = name in {"unacorda", "numpy"}
        python = options.unacorda_python if ours else environment(name, options.venvs)
        command = [python, __file__, "--serve", name, "--limit", str(options.limit)]
        tools[name] = Tool(command, ours=ours)
    best: dict[tuple[str, str, int], tuple[float, bool]] = {}
    for _ in range(options.rounds):
        for law in LAWS:
            for size in options.sizes:
                for name, tool in tools.items():
                    seconds, count = tool.ask([law, size])
                    rate = count / seconds
                    key = (name, law, size)
                    if key not in best or rate > best[key][0]:
                        best[key] = rate, count < size
    for tool in tools.values():
        tool.stop()
    with Report(__file__, options.json) as report:
        report_speed(report, best, options.sizes)


def report_speed(
    report: Report, best: dict[tuple[str, str, int], tuple[float, bool]], sizes: list[int]
) -> None:
    columns = [("law", ""), ("n", ",.0f"), *((f"{name}, M/s", ".3g") for name in TOOLS)]
    columns += [(f"unacorda : {name}", ".3g") for name in ("NumPy", "OpenDP", "diffprivlib")]
    row = report.table("speed", columns)
    for law in LAWS:
        for size in sizes:
            rates = {name: best[name, law, size] for name in TOOLS}
            cells = [
                f"{rate / 1e6:.3g}*" if fewer else rate / 1e6 for rate, fewer in rates.values()
            ]
            ours = rates["unacorda"][0]
            ratios = [ours / rates[name][0] for name in ("numpy", "opendp", "diffprivlib")]
            row(law, size, *cells, *ratios)


if __name__ == "__main__":
    main()
