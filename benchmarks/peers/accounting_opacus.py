"""Opacus: its RDP and PRV accountants, which know sampled Gaussians (a rate of 1 is a Gaussian).

eps_error is 0.01, which is also its default; its noise search ends within 0.01 of the epsilon.
"""

# SPDX-License-Identifier: Apache-2.0

import sys

from accounting_protocol import Answer, Case, UnknownToTheTool, only_sampled_gaussian, serve
from opacus.accountants import create_accountant
from opacus.accountants.utils import get_noise_multiplier

MECHANISM = sys.argv[1]
SETTINGS = {"eps_error": 0.01} if MECHANISM == "prv" else {}


def ask(case: Case) -> Answer:
    if "epsilon" in case:
        part = only_sampled_gaussian(case)
        noise = get_noise_multiplier(
            target_epsilon=case["epsilon"],
            target_delta=case["delta"],
            sample_rate=part["rate"],
            steps=part["count"],
            accountant=MECHANISM,
            **SETTINGS,
        )
        return {"upper": float(noise)}
    accountant = create_accountant(MECHANISM)
    for part in case["parts"]:
        if part["kind"] not in ("gaussian", "sampled_gaussian"):
            raise UnknownToTheTool("only sampled Gaussians")
        accountant.history.append((part["noise"], part.get("rate", 1.0), part["count"]))
    return {"upper": float(accountant.get_epsilon(delta=case["delta"], **SETTINGS))}


if __name__ == "__main__":
    serve(ask)
