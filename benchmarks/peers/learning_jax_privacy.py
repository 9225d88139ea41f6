"""jax_privacy's clipped sums, of the first three models, compiled: a question a line, as JSON."""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

import itertools
import json
import os
import resource
import sys
import time
from collections.abc import Callable
from typing import Any

os.environ["XLA_FLAGS"] = "--xla_cpu_multi_thread_eigen=false intra_op_parallelism_threads=1"

import jax
import jax.numpy as jnp
from jax_privacy.clipping import clipped_grad

MICRO = 32


def made(case: str) -> tuple[Any, Any, Any, Callable[[Any, Any], Any]]:
    """Weights, features, labels, and the forward pass."""
    key = jax.random.key(1)

    def layer(*sizes: int) -> Any:
        return 0.05 * jax.random.normal(key, sizes), jnp.zeros(sizes[-1])

    def dense(x: Any, own: Any) -> Any:
        return x @ own[0] + own[1]

    if case == "cnn":
        weights = [
            layer(8, 8, 1, 16),
            layer(4, 4, 16, 32),
            layer(512, 32),
            layer(32, 10),
        ]
        x = jax.random.normal(key, (512, 28, 28, 1))

        def pooled(x: Any, own: Any, stride: int, padding: Any) -> Any:
            shape = ("NHWC", "HWIO", "NHWC")
            found = jax.lax.conv_general_dilated(
                x, own[0], (stride, stride), padding, dimension_numbers=shape
            )
            found = jax.nn.relu(found + own[1])
            window = (1, 2, 2, 1)
            return jax.lax.reduce_window(
                found, -jnp.inf, jax.lax.max, window, (1, 1, 1, 1), "VALID"
            )

        def forward(weights: Any, x: Any) -> Any:
            found = pooled(x, weights[0], 2, [(3, 3), (3, 3)])
            found = pooled(found, weights[1], 2, "VALID").reshape(len(x), -1)
            return dense(jax.nn.relu(dense(found, weights[2])), weights[3])

        return weights, x, jax.random.randint(key, (512,), 0, 10), forward
    sizes = (100, 2) if case == "logistic" else (784, 256, 256, 10)
    many, classes = (4096, 2) if case == "logistic" else (512, 10)
    weights = [layer(*pair) for pair in itertools.pairwise(sizes)]

    def forward_dense(weights: Any, x: Any) -> Any:
        for own in weights[:-1]:
            x = jax.nn.relu(dense(x, own))
        return dense(x, weights[-1])

    x = jax.random.normal(key, (many, sizes[0]))
    return weights, x, jax.random.randint(key, (many,), 0, classes), forward_dense


def step_of(case: str, kind: str) -> tuple[Callable[[], None], int]:
    """One clipped sum, or a plain gradient, and the number of examples."""
    weights, x, y, forward = made(case)

    def loss(weights: Any, x: Any, y: Any) -> Any:
        logs = jax.nn.log_softmax(forward(weights, x))
        return -jnp.take_along_axis(logs, y[:, None], 1).mean()

    if kind == "plain":
        asked = jax.jit(jax.grad(loss))
    else:
        size = MICRO if kind == "micro" else None
        asked = jax.jit(
            clipped_grad(loss, l2_clip_norm=1.0, batch_argnums=(1, 2), microbatch_size=size)
        )
    return lambda: jax.block_until_ready(asked(weights, x, y)) and None, len(x)


def megabytes() -> float:
    """The most that this process has held so far."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def main() -> None:
    """Answer questions (case, kind, seconds): examples a second, and megabytes above the start."""
    print(json.dumps("ready"), flush=True)
    known: dict[tuple[str, str], tuple[Callable[[], None], int]] = {}
    begin = 0.0
    for line in sys.stdin:
        asked = json.loads(line)
        key = asked["case"], asked["kind"]
        if key not in known:
            begin = megabytes()
            known[key] = step_of(*key)
            known[key][0]()
        step, size = known[key]
        step()  # what others have left in the caches is not counted
        began, steps = time.process_time(), 0
        while (seconds := time.process_time() - began) < asked["seconds"] or not steps:
            step()
            steps += 1
        print(json.dumps([size * steps / seconds, megabytes() - begin]), flush=True)


if __name__ == "__main__":
    main()
