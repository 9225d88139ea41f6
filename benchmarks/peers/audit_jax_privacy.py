"""jax_privacy's bounds from one run: a question a line, as JSON, with the seconds of each."""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

import json
import sys
import time

import numpy as np
from jax_privacy import auditing


def main() -> None:
    print(json.dumps("ready"), flush=True)
    for line in sys.stdin:
        asked = json.loads(line)
        drawn = np.random.default_rng(asked["seed"])
        coins = drawn.random(asked["canaries"]) < 0.5
        scores = asked["mu"] * coins + drawn.normal(size=asked["canaries"])
        began = time.process_time()
        auditor = auditing.CanaryScoreAuditor(scores[coins], scores[~coins])
        ask = auditor.epsilon_one_run_fdp if asked["f_dp"] else auditor.epsilon_one_run
        if asked["guesses"] is None:
            chosen = auditing.Split(threshold_estimation_frac=0.5, seed=1)
        else:
            chosen = auditing.Explicit(float(np.sort(scores)[-asked["guesses"]]))
        found = ask(0.05, asked["delta"], threshold_strategy=chosen)
        print(json.dumps([float(found), time.process_time() - began]), flush=True)


if __name__ == "__main__":
    main()
