"""Microsoft's prv_accountant: eps_error 0.01 and delta_error delta / 1000, as it recommends.

It speaks of removing a unit from a sample only. Its noise search is ``find_noise_multiplier``.
"""

# SPDX-License-Identifier: Apache-2.0

import prv_accountant
from accounting_protocol import Answer, Case, Part, only_sampled_gaussian, serve
from prv_accountant.dpsgd import find_noise_multiplier

EPS_ERROR = 0.01


def variable(part: Part) -> prv_accountant.PrivacyRandomVariable:
    match part["kind"]:
        case "gaussian":
            return prv_accountant.GaussianMechanism(part["noise"])
        case "laplace":
            return prv_accountant.LaplaceMechanism(mu=1 / part["noise"])
        case "pure":
            return prv_accountant.PureDPMechanism(part["epsilon"])
        case "approximate":
            return prv_accountant.ApproximateDPMechanism(part["epsilon"], part["delta"])
        case _:
            return prv_accountant.PoissonSubsampledGaussianMechanism(
                sampling_probability=part["rate"], noise_multiplier=part["noise"]
            )


def ask(case: Case) -> Answer:
    delta = case["delta"]
    if "epsilon" in case:
        part = only_sampled_gaussian(case)
        noise = find_noise_multiplier(
            sampling_probability=part["rate"],
            num_steps=part["count"],
            target_epsilon=case["epsilon"],
            target_delta=delta,
            eps_error=EPS_ERROR,
        )
        return {"upper": float(noise)}
    counts = [part["count"] for part in case["parts"]]
    accountant = prv_accountant.PRVAccountant(
        prvs=[variable(part) for part in case["parts"]],
        max_self_compositions=counts,
        eps_error=EPS_ERROR,
        delta_error=delta / 1000,
    )
    lower, middle, upper = accountant.compute_epsilon(delta, counts)
    return {"lower": float(lower), "middle": float(middle), "upper": float(upper)}


if __name__ == "__main__":
    serve(ask)
