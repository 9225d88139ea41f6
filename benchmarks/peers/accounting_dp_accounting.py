"""Google's dp_accounting: privacy loss distributions on a grid of 1e-4, or Renyi divergences.

Its distributions are composed part by part, as its own ``PLDAccountant`` does, which has no event
for pure or approximate guarantees; its Renyi accountant gets a pure guarantee as the zCDP that
follows from it. Calibration is its ``calibrate_dp_mechanism`` with the tolerance it comes with.
"""

# SPDX-License-Identifier: Apache-2.0

import functools
import math
import sys

import dp_accounting
from accounting_protocol import Answer, Case, Part, UnknownToTheTool, only_sampled_gaussian, serve
from dp_accounting import pld, rdp
from dp_accounting.pld import common, privacy_loss_distribution

STEP = 1e-4


def distribution(part: Part) -> privacy_loss_distribution.PrivacyLossDistribution:
    count = part["count"]
    match part["kind"]:
        case "gaussian":
            return privacy_loss_distribution.from_gaussian_mechanism(
                part["noise"] / math.sqrt(count), value_discretization_interval=STEP
            )
        case "laplace":
            one = privacy_loss_distribution.from_laplace_mechanism(
                part["noise"], value_discretization_interval=STEP
            )
        case "pure" | "approximate":
            promise = common.DifferentialPrivacyParameters(part["epsilon"], part.get("delta", 0.0))
            one = privacy_loss_distribution.from_privacy_parameters(
                promise, value_discretization_interval=STEP
            )
        case _:
            one = privacy_loss_distribution.from_gaussian_mechanism(
                part["noise"],
                sampling_prob=part["rate"],
                value_discretization_interval=STEP,
            )
    return one if count == 1 else one.self_compose(count)


def event_of(part: Part) -> dp_accounting.DpEvent:
    match part["kind"]:
        case "gaussian":
            event = dp_accounting.GaussianDpEvent(part["noise"])
        case "laplace":
            event = dp_accounting.LaplaceDpEvent(part["noise"])
        case "pure":
            event = dp_accounting.ZCDpEvent(part["epsilon"] ** 2 / 2)
        case "approximate":
            raise UnknownToTheTool("no event with a delta of its own")
        case _:
            step = dp_accounting.GaussianDpEvent(part["noise"])
            event = dp_accounting.PoissonSampledDpEvent(part["rate"], step)
    return dp_accounting.SelfComposedDpEvent(event, part["count"])


def ask_pld(case: Case) -> Answer:
    if "epsilon" in case:
        return least_noise(
            case, functools.partial(pld.PLDAccountant, value_discretization_interval=STEP)
        )
    whole = functools.reduce(lambda a, b: a.compose(b), map(distribution, case["parts"]))
    remove = whole._pmf_remove.get_epsilon_for_delta(case["delta"])
    add = remove if whole._symmetric else whole._pmf_add.get_epsilon_for_delta(case["delta"])
    return {"upper": max(remove, add), "remove": remove, "add": add}


def ask_rdp(case: Case) -> Answer:
    if "epsilon" in case:
        return least_noise(case, rdp.RdpAccountant)
    accountant = rdp.RdpAccountant()
    for part in case["parts"]:
        accountant.compose(event_of(part))
    return {"upper": float(accountant.get_epsilon(case["delta"]))}


def least_noise(case: Case, accountant: object) -> Answer:
    part = only_sampled_gaussian(case)
    noise = dp_accounting.calibrate_dp_mechanism(
        accountant, lambda noise: event_of({**part, "noise": noise}), case["epsilon"], case["delta"]
    )
    return {"upper": float(noise)}


if __name__ == "__main__":
    serve({"pld": ask_pld, "rdp": ask_rdp}[sys.argv[1]])
