"""Clipped sums of gradients: speed and memory by turns with plain PyTorch, Opacus and jax_privacy.

    python benchmarks/learning.py [--rounds 5] [--cases mlp cnn] [--tasks | --by-hand]

Five models, one thread, a process a tool: a plain step (forward and backward), our clipped sums in
float64 and in float32, Opacus' by hooks and by ghost clipping, and of the first three models
jax_privacy's by vmap and in microbatches, beside a plain step of jax (all without noise and without
an optimizer, which all share). Tools take turns of half a second of processor time, which is what
is measured, in every round; the tables have medians, and ratios of ours to plain and to Opacus'
better way. Then the noise: numbers a second, beside torch.randn.
The environment of Opacus also holds PyTorch for ours, which is read from this checkout.
`--by-hand` measures the first two models beside the same sums written by hand, without a graph,
hooks and checks: what of plain training's speed can be reached at all.
`--tasks` runs the examples instead, whose tables have what models learn at epsilon 8, 3 and 1; it
needs the extras learning and plots, and scikit-learn, in this Python.
"""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

import argparse
import os
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

from tables import Report, add_json
from tools import CACHE, HERE, Tool, environment

CASES = ("logistic", "mlp", "cnn", "transformer", "lora")
IN_JAX = CASES[:3]
BY_HAND = CASES[:2]
OURS = ("plain", "float64", "float32")
OPACUS, JAX = ("hooks", "ghost"), ("jax plain", "jax vmap", "jax micro")
SECONDS = 0.5
TASKS = ("private_training", "private_flights", "private_characters")


def main() -> None:
    ask = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    ask.add_argument("--rounds", type=int, default=5)
    ask.add_argument("--cases", nargs="+", choices=CASES, default=list(CASES))
    ask.add_argument("--venvs", type=Path, default=CACHE)
    ask.add_argument("--tasks", action="store_true")
    ask.add_argument("--by-hand", action="store_true")
    add_json(ask)
    options = ask.parse_args()
    if options.tasks:
        tasks()
        return
    python = environment("learning", options.venvs)
    jax = environment("jax_privacy", options.venvs)
    os.environ["PYTHONPATH"] = str(HERE.parent / "src")
    ours = [python, HERE / "peers" / "learning_unacorda.py"]
    if options.by_hand:
        by_hand([python, HERE / "peers" / "learning_by_hand.py"], ours, options)
        return
    theirs = [python, HERE / "peers" / "learning_opacus.py"]
    in_jax = [jax, HERE / "peers" / "learning_jax_privacy.py"]
    speeds: dict[str, dict[str, float]] = {}
    sizes: dict[str, dict[str, float]] = {}
    for case in options.cases:
        tools = {kind: Tool(ours, ours=True) for kind in OURS}
        tools |= {kind: Tool(theirs, ours=False) for kind in OPACUS}
        tools |= {kind: Tool(in_jax, ours=False) for kind in JAX if case in IN_JAX}
        speeds[case], sizes[case] = measured(tools, case, rounds=options.rounds)
        print(f"{case}: {speeds[case]}", file=sys.stderr)
    kinds = (*OURS, *OPACUS, *JAX)
    heads = [(kind, ",.0f") for kind in kinds]
    with Report(__file__, options.json) as report:
        ratios = [("ours : plain", ">"), ("ours : Opacus", ">")]
        row = report.table("speed", [("examples/s", ""), *heads, *ratios])
        for case, speed in speeds.items():
            best = max(speed[kind] for kind in OPACUS)
            times = [
                " / ".join(f"{speed[kind] / other:.2f}" for kind in OURS[1:])
                for other in (speed["plain"], best)
            ]
            row(case, *map(speed.get, kinds), *times)
        row = report.table("memory", [("MB above start", ""), *heads, ratios[0]])
        for case, size in sizes.items():
            above = " / ".join(f"{size[kind] / size['plain']:.2f}" for kind in OURS[1:])
            row(case, *map(size.get, kinds), above)
    noise, _ = measured(
        {kind: Tool(ours, ours=True) for kind in OURS[:2]}, "noise", rounds=options.rounds
    )
    print(f"\nNoise: {noise['float64']:,.0f} numbers/s; torch.randn: {noise['plain']:,.0f}.")


def by_hand(hand: list[Any], ours: list[Any], options: argparse.Namespace) -> None:
    """The table of sums by hand, in either arithmetic, beside plain training and ours."""
    names = {f"by hand {kind}": kind for kind in OURS[1:]}
    with Report(__file__, options.json) as report:
        heads = [(kind, ",.0f") for kind in (*OURS, *names)]
        ratios = [("ours : plain", ">"), ("by hand : plain", ">")]
        row = report.table("by-hand", [("examples/s", ""), *heads, *ratios])
        for case in BY_HAND:
            tools = {kind: Tool(ours, ours=True) for kind in OURS}
            tools |= {name: Tool(hand, ours=True) for name in names}
            speed, _ = measured(tools, case, rounds=options.rounds)
            times = [
                " / ".join(f"{speed[kind] / speed['plain']:.2f}" for kind in kinds)
                for kinds in (OURS[1:], names)
            ]
            row(case, *speed.values(), *times)


def measured(
    tools: dict[str, Tool], case: str, *, rounds: int
) -> tuple[dict[str, float], dict[str, float]]:
    """Medians of examples a second, and megabytes at the peak above the start, by kind."""
    found: dict[str, list[Any]] = {kind: [] for kind in tools}
    for _ in range(rounds):
        for kind, tool in tools.items():
            way = kind.removeprefix("jax ").removeprefix("by hand ")
            asked = {"case": case, "kind": way, "seconds": SECONDS}
            found[kind].append(tool.ask(asked))
    for tool in tools.values():
        tool.stop()
    speed = {kind: statistics.median(rate for rate, _ in all_) for kind, all_ in found.items()}
    return speed, {kind: max(size for _, size in all_) for kind, all_ in found.items()}


def tasks() -> None:
    """Run the examples, which print their tables."""
    for name in TASKS:
        print(f"\n{name}\n", flush=True)
        with tempfile.TemporaryDirectory() as folder:
            example = HERE.parent / "examples" / f"{name}.py"
            picture = Path(folder) / "picture.svg"
            subprocess.run([sys.executable, example, "--picture", picture], check=True)


if __name__ == "__main__":
    main()
