"""Nanoseconds of processor time that one call of OpenDP's randomised response takes, as JSON."""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

import json
import time

import opendp.prelude as dp

CALLS = 2000

dp.enable_features("contrib")
BITS = 1000
CASES = {
    "binary": (dp.m.make_randomized_response_bool(prob=0.75), True),
    "k = 4": (dp.m.make_randomized_response(categories=["a", "b", "c", "d"], prob=0.5), "a"),
    "1000 bits": (
        dp.m.make_randomized_response_bitvec(
            dp.bitvector_domain(max_weight=1), dp.discrete_distance(), f=0.5
        ),
        bytes([128] + [0] * (BITS // 8 - 1)),
    ),
}


def main() -> None:
    found = {}
    for name, (measurement, value) in CASES.items():
        for _ in range(50):
            measurement(value)
        began = time.process_time()
        for _ in range(CALLS):
            measurement(value)
        found[name] = (time.process_time() - began) / CALLS * 1e9
    print(json.dumps(found))


if __name__ == "__main__":
    main()
